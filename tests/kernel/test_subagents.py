"""Sub-agents in a cell: their card, and what they cost."""

from __future__ import annotations

from pathlib import Path

from kernels import Kernel, private_environment
from messages_api import MessagesApi, Recorded, Reply, ToolUse

TASKS = [{"title": f"part {number}", "prompt": f"look at part {number}"} for number in range(3)]


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
        assert cell.shown[-1].startswith("claude-haiku-4-5 · 500 tokens in, 100 out · $0.0010")
        tree = kernel.run("%agent tree").shown[-1]
        assert [f"sub-agent: part {number} (completed)" in tree for number in range(3)] == [True] * 3


def test_sub_agents_that_make_a_cell_too_expensive_end_its_run(tmp_path: Path, api: MessagesApi) -> None:
    api.default, before = answer, len(api.requests)  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\n%agent --model claude-haiku-4-5 --tools read,agents")
        cell = kernel.run("%agent --max-cost 0.0003 look")
        assert cell.status == "error"
        assert "this cell has cost $0.000" in cell.error["evalue"]
        roots = [request for request in api.requests[before:] if "agents" in [t["name"] for t in request.body["tools"]]]
        assert len(roots) == 1
