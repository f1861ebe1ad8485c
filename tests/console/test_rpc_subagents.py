"""Sub-agents over RPC: frames for clients that ask for them, those that work, and what they have said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, MessagesApi, Recorded, Reply, Text, ToolUse
from rpc_process import RpcProcess, indusagi

TASKS = {"tasks": [{"title": "First", "prompt": "one"}, {"title": "Second", "prompt": "two"}]}


def first_words(request: Recorded) -> str:
    content = request.body["messages"][0]["content"]
    return content if isinstance(content, str) else content[0]["text"]


@pytest.fixture
def gate(messages_api: MessagesApi) -> Gate:
    """Holds the answer of the second sub-agent."""
    gate, both_began = Gate(), Gate()

    def answer(request: Recorded) -> Any:
        match first_words(request):
            case "one":
                return Reply(Text("First answer.", both_began))
            case "two":
                both_began.open()
                return Reply(Text("Second answer.", gate))
            case _:
                return Reply(ToolUse("agents", TASKS)) if len(request.body["messages"]) == 1 else Reply("Done.")

    messages_api.default = answer  # type: ignore[assignment]
    return gate


@pytest.fixture
def process(messages_api: MessagesApi, tmp_path: Path) -> Iterator[RpcProcess]:
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    with RpcProcess("--model", "claude-haiku-4-5", "--tools", "agents", home=tmp_path, more=more) as process:
        yield process


def of_subagents(process: RpcProcess) -> list[dict[str, Any]]:
    return [frame for frame in process.frames if frame["type"].startswith("subagent_")]


def test_a_client_that_does_not_ask_is_sent_no_frames_about_them(process: RpcProcess, gate: Gate):
    gate.open()
    process.ask("prompt", message="lead")
    end = process.wait("tool_execution_end")
    process.wait("agent_end")
    assert of_subagents(process) == []
    assert [agent["status"] for agent in end["result"]["details"]["agents"]] == ["completed"] * 2
    assert process.ask("get_session_stats")["data"]["cost"] > end["result"]["details"]["cost"] > 0


def test_a_client_that_asks_sees_them_work_and_reads_what_they_say(process: RpcProcess, gate: Gate):
    assert process.ask("set_subagent_subscription", level="progress")["data"] == {"level": "progress"}
    process.ask("prompt", message="lead")
    process.wait(lambda frame: frame["type"] == "subagent_lifecycle" and frame["payload"]["status"] == "completed")
    (working,) = process.ask("get_subagents")["data"]["subagents"]
    assert {name: working[name] for name in ("index", "description", "status", "task")} == {
        "index": 1,
        "description": "Second",
        "status": "running",
        "task": "two",
    }
    gate.open()
    process.wait("agent_end")
    frames = of_subagents(process)
    assert {frame["type"] for frame in frames} == {"subagent_lifecycle", "subagent_progress"}
    begun = [frame["payload"] for frame in frames if frame["type"] == "subagent_lifecycle"]
    assert [each["status"] for each in begun] == ["started", "started", "completed", "completed"]
    assert begun[0]["sessionFile"].endswith(".jsonl")
    assert process.ask("get_subagents")["data"] == {"subagents": []}
    read = process.ask("get_subagent_messages", subagentId=begun[0]["id"])["data"]
    assert [message["role"] for message in read["messages"]] == ["user", "assistant"]
    assert read["messages"][1]["content"][0]["text"] == "First answer."
    assert (read["fromByte"], read["reset"]) == (0, False)
    more = process.ask("get_subagent_messages", sessionFile=read["sessionFile"], fromByte=read["nextByte"])["data"]
    assert (more["entries"], more["nextByte"]) == ([], read["nextByte"])
    again = process.ask("get_subagent_messages", sessionFile=read["sessionFile"], fromByte=10**9)["data"]
    assert (again["reset"], len(again["messages"])) == (True, 2)


def test_a_client_may_ask_for_what_happens_in_their_sessions(process: RpcProcess, gate: Gate):
    gate.open()
    process.ask("set_subagent_subscription", level="events")
    process.ask("prompt", message="lead")
    process.wait("agent_end")
    events = [frame["payload"]["event"] for frame in of_subagents(process) if frame["type"] == "subagent_event"]
    assert {"agent_start", "message_end", "agent_end"} <= {event["type"] for event in events}
    assert "First answer." in json.dumps([event for event in events if event["type"] == "message_end"])


def test_only_files_of_its_sub_agents_are_read(process: RpcProcess, tmp_path: Path):
    other = tmp_path / "secret.jsonl"
    other.write_text('{"type": "message", "message": {"role": "user", "content": "secret"}}\n')
    for fields in ({"sessionFile": str(other)}, {"subagentId": "nobody"}, {}):
        answer = process.ask("get_subagent_messages", **fields)
        assert not answer["success"]
        assert "secret" not in json.dumps(answer).replace("secret.jsonl", "")
    assert not process.ask("set_subagent_subscription", level="all")["success"]


def test_text_mode_says_on_standard_error_when_one_begins_and_ends(
    messages_api: MessagesApi, gate: Gate, tmp_path: Path
):
    gate.open()
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    done = indusagi("--model", "claude-haiku-4-5", "--tools", "agents", "lead", home=tmp_path, **more)
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    for line in ("Sub-agent 1 begins: First", "Sub-agent 2 completed: Second"):
        assert f"indus-nb: {line}" in done.stderr.splitlines()
