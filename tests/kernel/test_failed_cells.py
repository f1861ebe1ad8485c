"""What the agent is told of cells that ran before it was loaded, and of cells that failed, in a real kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import MessagesApi, Reply

LOAD = "%load_ext indus_nb"
ASK = "%agent --model anthropic/claude-sonnet-4-5 --thinking off "


@pytest.fixture
def kernel(tmp_path: Path, api: MessagesApi) -> Iterator[Kernel]:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (tmp_path / "work").mkdir()
    api.requests.clear()
    with Kernel(tmp_path / "work", environment) as kernel:
        yield kernel


def told(api: MessagesApi) -> str:
    """All that the last request says."""
    return "\n".join(
        block["text"] if isinstance(block, dict) else block
        for message in api.requests[-1].body["messages"]
        for block in _blocks(message["content"])
    )


def _blocks(content: Any) -> list[Any]:
    return [content] if isinstance(content, str) else [block for block in content if block["type"] == "text"]


def failure(cell: Cell) -> str:
    assert cell.error is not None
    return "\n".join(cell.error["traceback"])


def test_cells_that_ran_before_the_agent_was_loaded_are_told_with_their_error(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("rows = [1, 2]\nrows")
    assert kernel.run("rows[7]").status == "error"
    kernel.run("total = sum(rows)")
    kernel.run(f"{LOAD}\nlimit = 10")
    api.add(Reply("Seen."))
    assert kernel.run(f"{ASK}what went wrong?").status == "ok"
    said = told(api)
    assert "Cell [1]:\n```python\nrows = [1, 2]\nrows\n```\nOut: list of 2 · [1, 2]" in said
    assert "Cell [2]:\n```python\nrows[7]\n```\nError:\n" in said
    assert "IndexError: list index out of range" in said
    assert "total = sum(rows)" in said
    assert said.count("limit = 10") == 1
    assert "What cells printed that ran before the agent was loaded is not known." in said
    api.add(Reply("Nothing new."))
    kernel.run("%agent and now?")
    assert json.dumps(api.requests[-1].body).count("total = sum(rows)") == 1


def test_a_cell_that_only_loads_the_agent_is_not_told(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run(LOAD)
    api.add(Reply("Hello."))
    kernel.run(f"{ASK}hello")
    assert "load_ext" not in told(api)


def test_fix_asks_about_the_last_failed_cell_also_from_before(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run("price = 'a lot'")
    kernel.run("price / 2")
    kernel.run("price = 3")
    kernel.run(LOAD)
    api.add(Reply("A text cannot be divided."), Reply("Because."), Reply("Mended."))
    assert kernel.run(f"{ASK}fix").status == "ok"
    prompt = api.requests[-1].body["messages"][-1]["content"]
    assert "price / 2" in json.dumps(prompt)
    assert "TypeError: unsupported operand" in json.dumps(prompt)
    assert kernel.run("%agent explain").status == "ok"
    assert "Explain in a few sentences why" in told(api)
    kernel.run("1 / 0")
    assert kernel.run("why = %agent fix").status == "ok"
    assert "ZeroDivisionError" in json.dumps(api.requests[-1].body["messages"][-1]["content"])
    assert kernel.run("print(why)").streams == "Mended.\n"


def test_fix_is_shown_as_what_the_user_did_and_the_cell_is_told_once(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run(LOAD)
    kernel.run("price = 'a lot'")
    kernel.run("price / 2")
    api.add(Reply("Mended."))
    shown = kernel.run(f"{ASK}fix").shown
    assert any(line.startswith("Context · the failed cell, about ") for line in shown)
    said = told(api)
    assert said.count("```python\nprice / 2\n```") == 1
    assert "Find the cause" in said
    assert "```python\nprice = 'a lot'\n```" in said
    tree = "\n".join(kernel.run("%agent tree").shown)
    assert "Fix this error" in tree
    assert "Find the cause" not in tree
    api.add(Reply("Nothing new."))
    kernel.run("%agent and now?")
    assert told(api).count("```python\nprice / 2\n```") == 1


def test_where_nothing_failed_or_it_ran_since_nothing_is_sent(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run(LOAD)
    assert "No cell of yours failed" in failure(kernel.run(f"{ASK}fix"))
    kernel.run("print(later)")
    kernel.run("later = 1")
    kernel.run("print(later)")
    assert "it ran well since" in failure(kernel.run("%agent explain"))
    assert api.requests == []
    api.add(Reply("A tale."))
    assert kernel.run("%agent explain the sales").status == "ok"


def test_one_line_below_the_first_traceback_says_how_to_ask(kernel: Kernel) -> None:
    kernel.run(LOAD)
    hint = "%agent fix asks the agent about this error."
    assert kernel.run("1 / 0").shown == []  # nobody is there
    kernel.run("%reload_ext indus_nb")
    assert kernel.begin("%agent model nothing-like-that", asks=True).finish().shown == []
    assert kernel.begin("1 / 0", asks=True).finish().shown == [hint]
    assert kernel.begin("2 / 0", asks=True).finish().shown == []


def test_the_line_can_be_left_out(kernel: Kernel, tmp_path: Path) -> None:
    settings = {"approve": "never", "notebook": {"errorHint": False}}
    (tmp_path / "agent" / "settings.json").write_text(json.dumps(settings))
    kernel.run(LOAD)
    assert kernel.begin("1 / 0", asks=True).finish().shown == []


def test_context_shows_what_goes_along_and_how_long_the_parts_are(kernel: Kernel, api: MessagesApi) -> None:
    kernel.run(LOAD)
    kernel.run("sales = [1, 2, 3]")
    kernel.run("import math, pandas as pd\nframe = pd.DataFrame({'year': [2013, 2014]})\n_ = frame.head()")
    parts, along = kernel.run(f"{ASK}context").shown
    assert "system prompt" in parts
    assert "python, " in parts
    assert along.startswith("With your next message goes along:")
    assert "sales = [1, 2, 3]" in along
    assert "sales: list of 3" in along
    assert "What the frames hold now" in along
    assert api.requests == []
    api.add(Reply("Seen."))
    shown = kernel.run("%agent go").shown
    assert along.partition("\n\n")[2] in "".join(text for request in api.requests for text in request.texts)
    assert "2 variables" in " ".join(shown)  # modules are none
    (parts,) = kernel.run("%agent context").shown
    assert "nothing" in parts
