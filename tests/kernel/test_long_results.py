"""Long output of code in the kernel as the model reads it, and what is said below the cell before a dear message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse

PRINT = "for number in range(1, 30_001): print(number)"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("long-results")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Kernel:
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    api.requests.clear()
    return kernel


def result(api: MessagesApi) -> str:
    """The result that the last request ends with."""
    (block,) = api.requests[-1].body["messages"][-1]["content"]
    content: Any = block["content"]
    return content if isinstance(content, str) else content[0]["text"]


def test_the_model_reads_both_ends_of_what_code_prints_and_of_how_it_failed(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": f"{PRINT}\n1 / 0"})), Reply("Seen."))
    assert claude.run("%agent print").status == "ok"
    text = result(api)
    assert len(text) < 8_400
    assert text.startswith("1\n2\n3\n")
    assert "\n29999\n30000\n" in text
    assert "ZeroDivisionError: division by zero" in text
    found = re.search(
        r"are left out here\. The whole output: (\S+), which read shows from here with offset=(\d+)", text
    )
    assert found is not None
    assert Path(found[1]).read_text().split("\n")[int(found[2]) - 1] == found[2]


def test_values_of_keys_are_hidden_at_both_ends(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import os; os.environ['SHOP_API_KEY'] = 'kx-' + 'Zq7' * 12")
    code = f"import os\nprint(os.environ['SHOP_API_KEY'])\n{PRINT}\nprint(os.environ['SHOP_API_KEY'])"
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Seen."))
    assert claude.run("%agent print").status == "ok"
    assert "left out here" in result(api)
    assert "Zq7Zq7" not in result(api)


def test_a_message_that_is_dear_after_a_pause_is_announced_below_its_cell(claude: Kernel, api: MessagesApi) -> None:
    dear = "The cache has expired: this message costs about $"
    api.add(
        Reply("Yes.", usage={"input_tokens": 150_000}), Reply("Yes.", usage={"input_tokens": 150_000}), Reply("No.")
    )
    claude.run("%agent first")
    assert dear not in " ".join(claude.run("%agent second").shown)
    claude.run("import time; _real, _ns = time.time, time.time_ns")
    claude.run("time.time = lambda: _real() + 7200; time.time_ns = lambda: _ns() + 7200 * 10**9")
    assert dear in " ".join([*claude.run("%agent stats").shown, claude.run("%agent stats").streams])
    assert dear in " ".join(claude.run("%agent third").shown)
