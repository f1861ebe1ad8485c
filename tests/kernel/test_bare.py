"""The magics in a kernel where the package stands alone, without what its extras bring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse

MISSING = ("anywidget", "ipywidgets", "pygments.lexers", "PIL", "anthropic")


@pytest.fixture
def kernel(tmp_path: Path, api: MessagesApi) -> Iterator[Kernel]:
    environment = private_environment(
        tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME="x.ipynb"
    )
    with Kernel(tmp_path, environment) as kernel:
        kernel.run(f"import sys\nsys.modules.update(dict.fromkeys({MISSING!r}))\n%load_ext indus_nb")
        yield kernel


def test_cells_are_drawn_plainly_and_the_first_says_what_brings_live_ones(kernel: Kernel, api: MessagesApi) -> None:
    api.add(Reply("```python\n6 * 7\n```", ToolUse("python", {"code": "rows.append(2)"})), "Done.", "Again.")
    kernel.run("rows = [1]")
    cell = kernel.begin("%agent --approve effects go", asks=True)
    cell.answer("1")
    cell.finish()
    assert 'pip install ".[widgets]"' in cell.shown[0]
    assert "Done." in " ".join(cell.shown)
    assert kernel.run("print(rows)").streams == "[1, 2]\n"
    assert "widgets" not in " ".join(kernel.begin("%agent again", asks=True).finish().shown)


def test_a_panel_is_refused_with_what_brings_it(kernel: Kernel) -> None:
    refused = kernel.begin("%agent panel", asks=True).finish()
    assert refused.error is not None
    assert 'pip install ".[widgets]"' in refused.error["evalue"]


def test_an_image_is_refused_with_what_brings_images(kernel: Kernel) -> None:
    refused = kernel.run("picture = b'\\x89PNG\\r\\n\\x1a\\n' + bytes(40)\n%agent --image picture what is this?")
    assert refused.error is not None
    assert 'pip install ".[images]"' in refused.error["evalue"]
