"""Sub-agents in a cell: their card and the tree, what they cost, and the files that they write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import Gate, MessagesApi, Recorded, Reply, Text, ToolUse

TASKS = [{"title": f"part {number}", "prompt": f"look at part {number}"} for number in range(3)]
HOSTILE = "<img src=x onerror=alert(1)> [click](javascript:alert(1))"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("subagents")


@pytest.fixture(scope="module")
def kernel(root: Path, api: MessagesApi) -> Iterator[Kernel]:
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    settings = {"approve": "never", "subagents": {"enabled": True, "tools": ["write"]}}
    (Path(environment["INDUS_NB_AGENT_DIR"]) / "settings.json").write_text(json.dumps(settings))
    with Kernel(root, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
        yield kernel


def first_words(request: Recorded) -> str:
    content = request.body["messages"][0]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def answering(api: MessagesApi, call: ToolUse, child: Any) -> None:
    def answer(request: Recorded) -> Any:
        if "lead" not in first_words(request):
            return child(request)
        last = request.body["messages"][-1]["content"]
        called = any(block["type"] == "tool_result" for block in last) if isinstance(last, list) else False
        return Reply("All done.") if called else Reply(call)

    api.default = answer  # type: ignore[assignment]


def tasks(*prompts: str, **more: Any) -> ToolUse:
    return ToolUse("agents", {"tasks": [{"title": f"Task {prompt}", "prompt": prompt} for prompt in prompts], **more})


def test_the_card_shows_what_each_does_and_the_tree_where_its_session_is(kernel: Kernel, api: MessagesApi) -> None:
    gate = Gate()

    def child(request: Recorded) -> Reply:
        if first_words(request) == "slow":
            return Reply(Text("slow answer", gate))
        return Reply(HOSTILE)

    answering(api, tasks("quick", "slow"), child)
    cell = kernel.begin("%agent lead")
    cell.wait_for(lambda cell: "1 of 2 agents done" in "".join(cell.shown) and "… 2 Task slow" in "".join(cell.shown))
    assert "✓ 1 Task quick · done · $" in "".join(cell.shown)
    gate.open()
    cell.wait_for(lambda cell: cell.idle)
    assert "All done." in "".join(cell.shown)
    assert "<img" not in "".join(bundle[-1].get("text/html", "") for bundle in cell.displays.values())
    tree = "\n".join(kernel.run("%agent tree").shown)
    assert "sub-agent: Task quick (completed)" in tree
    assert "`%agent --session PATH` goes on with a sub-agent" in tree
    path = next(line.strip() for line in tree.splitlines() if line.strip().endswith(".jsonl"))
    assert Path(path).is_file()
    answering(api, tasks("unused"), lambda request: Reply("I said so."))
    assert "I said so." in "".join(kernel.run(f"%agent --session {path} again?").shown)


def test_files_that_they_write_are_taken_back_with_the_call(kernel: Kernel, root: Path, api: MessagesApi) -> None:
    kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off")
    kernel.run("from pathlib import Path; Path('notes.txt').write_text('old')")

    def child(request: Recorded) -> Reply:
        if len(request.body["messages"]) > 1:
            return Reply("Written.")
        return Reply(ToolUse("write", {"path": f"{first_words(request)}.txt", "content": "new"}))

    answering(api, tasks("notes", "fresh", tools=["write"]), child)
    shown = "\n".join(kernel.run("%agent lead").shown)
    look = "print(Path('notes.txt').read_text(), Path('fresh.txt').exists())"
    assert kernel.run(look).streams == "new True\n", shown
    kernel.run("%agent undo")
    assert kernel.run(look).streams == "old False\n"


def answer(request: Recorded) -> Reply:
    """Have three agents look, each of which answers at once."""
    if "agents" not in [tool["name"] for tool in request.body["tools"]]:
        return Reply("It is <b>fine</b>.")
    ended = request.body["messages"][-1]["content"][0]["type"] == "tool_result"
    return Reply("All three are fine.") if ended else Reply(ToolUse("agents", {"tasks": TASKS}))


def test_the_cell_shows_what_sub_agents_said_and_counts_what_they_cost(tmp_path: Path, api: MessagesApi) -> None:
    api.default = answer  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\n%agent --model claude-haiku-4-5 --tools read,agents")
        cell = kernel.run("%agent look")
        assert cell.status == "ok"
        shown = "\n".join(cell.shown)
        assert "agents  3 agents: part 0; part 1; part 2" in shown
        assert "3 of 3 agents done, $0.000" in shown
        assert "<b>fine" not in "".join(
            bundle.get("text/html", "") for shows in cell.displays.values() for bundle in shows
        )
        assert re.search(r"\$0\.0010", kernel.run("%agent stats").shown[-1])
        tree = kernel.run("%agent tree").shown[-1]
        assert [f"sub-agent: part {number} (completed)" in tree for number in range(3)] == [True] * 3


def test_sub_agents_reserve_within_what_a_cell_may_cost(tmp_path: Path, api: MessagesApi) -> None:
    api.default, before = answer, len(api.requests)  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\n%agent --model claude-haiku-4-5 --tools read,agents")
        cell = kernel.run("%agent --max-cost 0.03 look")
        assert cell.status == "ok"
        assert "The budget of $0.03 has no room" in "\n".join(cell.shown)
        roots = [request for request in api.requests[before:] if "agents" in [t["name"] for t in request.body["tools"]]]
        assert len(roots) == len(api.requests) - before == 2
