"""How the process ends: standard input closed, a signal, or a dead parent, in whatever state it is."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from living import ending
from messages_api import Gate, HttpError, MessagesApi, Reply, Text, ToolUse
from rpc_process import RpcProcess, environment

STATES = ["idle", "streaming", "tool", "dialog", "bash", "retry", "compacting"]
LONG = "word " * 200


@pytest.fixture
def more(messages_api: MessagesApi, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "agent").mkdir()
    settings = {"retry": {"baseDelayMs": 60_000}, "compaction": {"keepRecentTokens": 100, "reserveTokens": 2000}}
    (tmp_path / "agent" / "settings.json").write_text(json.dumps(settings))
    return {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}


ARGUMENTS = ("--model", "claude-haiku-4-5", "--thinking", "off", "--session-dir", "sessions")


def bring_into(state: str, process: RpcProcess, api: MessagesApi) -> None:
    """Have the process do what ``state`` says, for longer than any test lasts."""
    process.ask("get_state")
    match state:
        case "streaming":
            gate = Gate()
            api.add(Reply(Text("half ", gate)))
            process.ask("prompt", message="talk")
            assert gate.reached.wait()
        case "tool":
            api.add(Reply(ToolUse("bash", {"command": "echo begun; sleep 1000"})))
            process.ask("prompt", message="run")
            process.wait(lambda frame: frame["type"] == "tool_execution_update" and frame["partialResult"]["content"])
        case "dialog":
            api.add(Reply(ToolUse("bash", {"command": "sleep 1000"})))
            process.ask("prompt", message="run")
            process.wait("extension_ui_request")
        case "bash":
            process.send({"id": "b", "type": "bash", "command": "echo begun; sleep 1000"})
            process.wait("bash_execution_update")
        case "retry":
            api.add(HttpError(529, "overloaded_error", "Overloaded"))
            process.ask("prompt", message="talk")
            process.wait("auto_retry_start")
        case "compacting":
            api.add(Reply(f"One. {LONG}"), Reply(f"Two. {LONG}"))
            for text in ("first", "second"):
                process.ask("prompt", message=text)
                process.wait("agent_settled")
            gates = [Gate(), Gate()]
            api.add(*[Reply(Text("The ", gate)) for gate in gates])
            process.send({"id": "c", "type": "compact"})
            assert gates[0].reached.wait()


def assert_all_is_well(folder: Path, children: list[psutil.Process], state: str) -> None:
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive
    for path in (folder / "sessions").glob("*.jsonl"):
        lines = path.read_bytes().splitlines()
        assert all(isinstance(json.loads(line), dict) for line in lines)
        said = [json.loads(line).get("message", {}).get("role") for line in lines]
        assert said.count("user") == {"compacting": 2, "bash": 0}.get(state, 1)
        assert b'"compaction"' not in path.read_bytes()


@pytest.mark.parametrize(("end", "status"), [("stdin", 0), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("state", STATES)
def test_the_process_ends_as_asked_and_leaves_nothing(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path, state: str, end: object, status: int
) -> None:
    approve = ("--approve", "always" if state == "dialog" else "never")
    with RpcProcess(*ARGUMENTS, *approve, home=tmp_path, more=more) as process:
        bring_into(state, process, messages_api)
        children = psutil.Process(process.pid).children(recursive=True)
        assert bool(children) is (state in ("tool", "bash"))
        if isinstance(end, signal.Signals):
            process.signal(end)
        else:
            process.close_stdin()
        assert process.wait_for_end() == status
    answered = {frame["id"] for frame in process.frames if frame["type"] == "response"}
    assert {"bash": {"b"}, "compacting": {"c"}}.get(state, set()) <= answered
    assert_all_is_well(tmp_path, children, state)


def test_a_command_that_waited_for_the_session_begins_nothing_at_the_end(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    messages_api.add(Reply(ToolUse("bash", {"command": "trap '' TERM; echo begun; sleep 1000"})))
    messages_api.add(Reply(ToolUse("bash", {"command": "echo begun anew; sleep 1000"})))
    with RpcProcess(*ARGUMENTS, home=tmp_path, more=more) as process:
        process.ask("prompt", message="first")
        process.wait(lambda frame: frame["type"] == "tool_execution_update" and frame["partialResult"]["content"])
        process.send({"id": "a", "type": "abort_and_prompt", "message": "second"})
        process.close_stdin()
        children = psutil.Process(process.pid).children(recursive=True)
        assert process.wait_for_end() == 0
    assert process.answer_to("a")
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive


SLOW = """
import asyncio

def setup(api):
    @api.on("session_before_switch")
    async def wait(event, ctx):
        await asyncio.sleep(1000)
"""


def test_every_command_is_answered_once_also_when_an_extension_holds_the_end_up(
    more: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with RpcProcess(*ARGUMENTS, "-e", "slow.py", home=tmp_path, more=more) as process:
        process.send({"id": "f", "type": "follow_up", "message": "later"}, {"id": "n", "type": "new_session"})
        process.send({"id": "p", "type": "prompt", "message": "hi"}, {"id": "s", "type": "get_state"})
        process.close_stdin()
        assert process.wait_for_end() == 0
    answers = [(frame["id"], frame["success"]) for frame in process.frames if frame["type"] == "response"]
    assert sorted(answers) == [("f", True), ("n", False), ("p", False), ("s", True)]


def test_a_signal_counts_also_when_standard_input_has_closed_before(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    with RpcProcess(*ARGUMENTS, home=tmp_path, more=more) as process:
        bring_into("tool", process, messages_api)
        process.close_stdin()
        process.signal(signal.SIGTERM)
        assert process.wait_for_end() == 143


PARENT = """
import subprocess, sys
agent = subprocess.Popen([sys.executable, "-m", "indus_nb", "--mode", "rpc", *sys.argv[1:]], stdin=subprocess.PIPE)
print(agent.pid, file=sys.stderr, flush=True)
for line in sys.stdin.buffer:
    agent.stdin.write(line)
    agent.stdin.flush()
"""


@pytest.mark.parametrize("state", STATES)
def test_nothing_outlives_a_killed_parent(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path, state: str
) -> None:
    if state == "streaming":
        gate = Gate()
        messages_api.add(Reply(Text("half ", gate)))
    elif state in ("tool", "dialog"):
        messages_api.add(Reply(ToolUse("bash", {"command": "sleep 1000"})))
    elif state == "retry":
        messages_api.add(HttpError(529, "overloaded_error", "Overloaded"))
    elif state == "compacting":
        gates = [Gate(), Gate()]
        messages_api.add(*[Reply(f"{LONG} {LONG}") for _ in range(2)], *[Reply(Text("The ", gate)) for gate in gates])
    approve = ("--approve", "always" if state == "dialog" else "never")
    prompt = {"type": "prompt", "message": "go"}
    command, seen = {
        "idle": ({"type": "get_state"}, b'"response"'),
        "streaming": (prompt, b"text_delta"),
        "tool": (prompt, b"tool_execution_update"),
        "dialog": (prompt, b"extension_ui_request"),
        "bash": ({"type": "bash", "command": "echo begun; sleep 1000"}, b"bash_execution_update"),
        "retry": (prompt, b"auto_retry_start"),
        "compacting": ({"type": "compact"}, b"compaction_start"),
    }[state]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *ARGUMENTS, "--wire", "delta", *approve],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path, **more),
    )
    with ending(parent):
        agent = psutil.Process(int(parent.stderr.readline()))

        def send(command: dict[str, str], seen: bytes) -> None:
            parent.stdin.write(json.dumps(command).encode() + b"\n")
            parent.stdin.flush()
            while seen not in parent.stdout.readline():
                pass

        for _ in range(2 if state == "compacting" else 0):
            send(prompt, b"agent_settled")
        send(command, seen)
        family = [agent, *agent.children(recursive=True)]
        parent.kill()
        _, alive = psutil.wait_procs(family, timeout=120)
        assert not alive
    for path in (tmp_path / "sessions").glob("*.jsonl"):
        assert all(json.loads(line) for line in path.read_bytes().splitlines())
