"""Numbers of answers in a notebook that no result of the conversation shows: underlined, and nothing more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse

MARK = re.compile(r'title="not from a result">([^<]+)<')


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.fixture
def kernel(root: Path, api: MessagesApi) -> Iterator[Kernel]:
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root / "work", environment) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("sales = [120.5, 80.25, 300]")
        yield kernel


def marked(kernel: Kernel, prompt: str) -> list[str]:
    """Return the numbers that a cell's outputs mark."""
    cell = kernel.run(f"%agent {prompt}")
    assert cell.status == "ok", cell.error
    html = [bundle.get("text/html", "") for bundles in cell.displays.values() for bundle in bundles[-1:]]
    assert "\ufdd0" not in json.dumps(html + cell.shown, ensure_ascii=False)
    return [found for each in html for found in MARK.findall(each)]


def test_numbers_that_no_result_shows_are_marked_and_others_are_not(kernel: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": "print(sum(sales), len(sales))"})))
    api.add(
        "Sales sum up to **500.75**, from 3 values; 20% are from abroad, as you said, and 1,234 came in 2024."
        "\n\nThat is 500.8."
    )
    assert marked(kernel, "what is the sum? 20% are from abroad") == ["1,234"]
    api.add("So 500.75 it is, and 999 others.")
    assert marked(kernel, "and?") == ["999"]


def test_one_setting_marks_none(root: Path, kernel: Kernel, api: MessagesApi) -> None:
    settings = root / "agent/settings.json"
    held = json.loads(settings.read_text())
    settings.write_text(json.dumps({**held, "notebook": {"traceNumbers": False}}))
    api.add(Reply(ToolUse("python", {"code": "print(sum(sales))"})), "It is 4,321.")
    assert marked(kernel, "--new what is the sum?") == []
