"""RPC mode through real pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from living import ending
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from rpc_process import RpcProcess, environment


@pytest.fixture
def claude(messages_api: MessagesApi, tmp_path: Path):
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    with RpcProcess("--model", "claude-haiku-4-5", "--session-dir", "sessions", home=tmp_path, more=more) as process:
        yield process


@pytest.fixture
def offline(tmp_path: Path):
    with RpcProcess("--provider", "offline", "--no-session", home=tmp_path) as process:
        yield process


def test_a_client_that_only_prints_deltas_until_agent_end_gets_its_answer(messages_api: MessagesApi, tmp_path: Path):
    messages_api.add(Reply("Hello, ", "world!"))
    settings = tmp_path / "agent" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"defaultProvider": "anthropic", "defaultModel": "claude-haiku-4-5"}')
    process = subprocess.Popen(
        [Path(sys.executable).with_name("indusagi"), "--mode", "rpc", "--no-session"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path, ANTHROPIC_BASE_URL=messages_api.url, ANTHROPIC_API_KEY="sk-test"),
    )
    with ending(process):
        process.stdin.write('{"type": "prompt", "message": "Hello!"}\n')
        process.stdin.flush()
        printed = ""
        for line in process.stdout:
            frame = json.loads(line)
            if frame.get("type") == "message_update":
                happened = frame.get("assistantMessageEvent", {})
                if happened.get("type") == "text_delta":
                    printed += happened["delta"]
            if frame.get("type") == "agent_end":
                break
        process.stdin.close()
        assert printed == "Hello, world!"
    assert process.returncode == 0


def test_success_is_answered_before_the_first_event_and_ids_come_back(claude: RpcProcess, messages_api: MessagesApi):
    messages_api.add(Reply("Hi."))
    claude.send({"id": "p1", "type": "prompt", "message": "hi"})
    claude.wait("agent_settled")
    assert claude.frames[0] == {
        "id": "p1",
        "type": "response",
        "command": "prompt",
        "success": True,
        "data": {"disposition": "started"},
    }
    assert [frame["type"] for frame in claude.frames[1:3]] == ["agent_start", "turn_start"]
    assert claude.ask("get_last_assistant_text")["data"] == {"text": "Hi."}


def test_each_update_shows_the_message_exactly_as_it_was_after_its_delta(claude: RpcProcess, messages_api: MessagesApi):
    messages_api.add(
        Reply('Wörld "quoted" \u2028 \\ \U0001f600 end', ToolUse("ls", {"path": "a\nb"}), chunk=2), Reply("x")
    )
    claude.send({"type": "prompt", "message": "hi"})
    claude.wait("agent_settled")
    text = ""
    ends = [f["message"] for f in claude.frames if f["type"] == "message_end" and f["message"]["role"] == "assistant"]
    for frame in claude.frames:
        if frame["type"] != "message_update" or frame["message"]["responseId"] != ends[0]["responseId"]:
            continue
        happened = frame["assistantMessageEvent"]
        if happened["type"] == "text_delta" and happened["contentIndex"] == 0 and len(frame["message"]["content"]) == 1:
            text += happened["delta"]
            assert frame["message"]["content"][0] == {"type": "text", "text": text}
        assert happened.get("partial", frame["message"]) == frame["message"]
    assert text == ends[0]["content"][0]["text"] == 'Wörld "quoted" \u2028 \\ \U0001f600 end'
    assert ends[0]["content"][1]["arguments"] == {"path": "a\nb"}


def test_of_two_prompts_in_one_write_one_is_accepted_and_the_other_refused(
    claude: RpcProcess, messages_api: MessagesApi
):
    messages_api.add(Reply("One."))
    claude.send({"id": 1, "type": "prompt", "message": "a"}, {"id": 2, "type": "prompt", "message": "b"})
    claude.wait("agent_settled")
    answers = {frame["id"]: frame for frame in claude.frames if frame["type"] == "response"}
    assert answers[1]["success"]
    assert not answers[2]["success"]
    assert "streamingBehavior" in answers[2]["error"]


def test_steer_and_abort_are_answered_while_a_run_goes_on(claude: RpcProcess, messages_api: MessagesApi):
    gate = Gate()
    messages_api.add(Reply(Text("one ", gate)))
    claude.send({"type": "prompt", "message": "talk"})
    gate.reached.wait()
    assert claude.ask("get_state")["data"]["isStreaming"]
    assert claude.ask("steer", message="queued")["success"]
    assert claude.ask("get_state")["data"]["pendingMessageCount"] == 1
    assert claude.ask("abort")["success"]
    kinds = [frame["type"] for frame in claude.frames]
    assert kinds.index("agent_end") < len(kinds) - 1, "the abort is answered when the run has ended"
    state = claude.ask("get_state")["data"]
    assert (state["isStreaming"], state["pendingMessageCount"]) == (False, 1)


def test_state_names_model_file_and_modes(claude: RpcProcess, tmp_path: Path):
    data = claude.ask("get_state")["data"]
    assert data["model"]["id"] == "claude-haiku-4-5"
    assert data["model"]["contextWindow"] == 200000
    assert Path(data["sessionFile"]).parent == tmp_path / "sessions"
    assert data["steeringMode"] == data["followUpMode"] == "one-at-a-time"
    assert data["interruptMode"] == "immediate"
    assert data["messageCount"] == 0


def test_models_can_be_listed_where_there_is_a_key_and_set_without(claude: RpcProcess, offline: RpcProcess):
    models = claude.ask("get_available_models")["data"]["models"]
    assert {"claude-opus-4-8", "claude-sonnet-4-20250514"} <= {model["id"] for model in models}
    assert [model["id"] for model in offline.ask("get_available_models")["data"]["models"]] == ["offline"]
    answer = offline.ask("set_model", provider="anthropic", modelId="claude-opus-4-8")
    assert answer["data"]["id"] == "claude-opus-4-8"
    refused = offline.ask("set_model", provider="invalid", modelId="model")
    assert refused["error"] == "Model not found: invalid/model"
    assert offline.ask("get_state")["data"]["model"]["id"] == "claude-opus-4-8"
    offline.close_stdin()
    assert offline.wait_for_end() == 0
    assert offline.stderr == ""


def test_without_a_model_state_says_null_and_a_prompt_is_refused(tmp_path: Path):
    with RpcProcess("--no-session", home=tmp_path) as process:
        data = process.ask("get_state")["data"]
        assert data["model"] is None
        assert "sessionFile" not in data
        answer = process.ask("prompt", message="hi")
        assert not answer["success"]
        assert "ANTHROPIC_API_KEY" in answer["error"]
        assert "--provider offline" in answer["error"]


def test_a_new_session_is_empty(offline: RpcProcess):
    offline.send({"type": "prompt", "message": "hello"})
    offline.wait("agent_settled")
    before = offline.ask("get_state")["data"]["sessionId"]
    assert offline.ask("new_session")["data"] == {"cancelled": False}
    assert offline.ask("get_messages")["data"] == {"messages": []}
    assert offline.ask("get_state")["data"]["sessionId"] != before


@pytest.mark.parametrize(
    ("line", "command", "words"),
    [
        (b"{bad json", "parse", "Failed to parse command"),
        (b"5", "parse", "a number"),
        (b"null", "parse", "null"),
        (b"[]", "parse", "an array"),
        (b'"text"', "parse", "a string"),
        (b'{"type":"prompt","message":"\xff"}', "parse", "Failed to parse command"),
        (b'{"a":' * 5000, "parse", "Failed to parse command"),
        (b'{"type":"get_state","x":NaN}', "parse", "Failed to parse command"),
        (b"{}", "unknown", "Unknown command: null"),
        (b'{"type":"nonesuch"}', "nonesuch", "Unknown command"),
        (b'{"type":7}', "unknown", "Unknown command: 7"),
        (b'{"type":"prompt"}', "prompt", "`message`"),
        (b'{"type":"prompt","message":7}', "prompt", "`message`"),
        (b'{"type":"prompt","message":"a","streamingBehavior":"now"}', "prompt", "`streamingBehavior`"),
        (b'{"type":"prompt","message":"a","images":[{"type":"image"}]}', "prompt", "`images.0`"),
        (b'{"type":"set_steering_mode","mode":"some"}', "set_steering_mode", "'one-at-a-time' or 'all'"),
        (b'{"type":"set_thinking_level","level":"much"}', "set_thinking_level", "`level`"),
    ],
)
def test_a_bad_line_gets_one_answer_that_names_the_fault(offline: RpcProcess, line: bytes, command: str, words: str):
    offline.send(line + b"\n")
    assert offline.ask("get_state")["success"]
    failure = offline.frames[0]
    assert (failure["type"], failure["command"], failure["success"]) == ("response", command, False)
    assert words in failure["error"]
    assert len(offline.frames) == 2


def test_blank_lines_are_ignored(offline: RpcProcess):
    offline.send(b"\n\r\n  \n")
    assert offline.ask("get_state")["success"]
    assert len(offline.frames) == 1


def test_ids_come_back_from_failures_too(offline: RpcProcess):
    for type_ in ("nonesuch", "prompt"):
        offline.send({"id": "x", "type": type_})
        assert offline.wait(lambda frame: frame.get("id") == "x")["success"] is False
    offline.send({"id": 7, "type": "get_state"}, b'\xef\xbb\xbf{"id":"bom","type":"get_state"}\r\n')
    offline.wait(lambda frame: frame.get("id") == 7)
    offline.wait(lambda frame: frame.get("id") == "bom")


def test_a_stray_print_of_a_child_cannot_reach_the_stream(claude: RpcProcess, messages_api: MessagesApi):
    messages_api.add(
        Reply(ToolUse("bash", {"command": "echo stray; echo stray >&2; echo {} > /proc/$PPID/fd/1"})), Reply("x")
    )
    claude.send({"type": "prompt", "message": "go"})
    claude.wait("agent_settled")
    assert "not a frame" not in {frame["type"] for frame in claude.frames}
    assert {} not in claude.frames


def test_stdin_closing_aborts_and_saves_the_run_and_ends_well(
    claude: RpcProcess, messages_api: MessagesApi, tmp_path: Path
):
    gate = Gate()
    messages_api.add(Reply(Text("one two ", gate)))
    claude.send({"type": "prompt", "message": "talk"})
    gate.reached.wait()
    claude.wait(lambda frame: "text_delta" in str(frame))
    claude.close_stdin()
    assert claude.wait_for_end() == 0
    assert [frame["type"] for frame in claude.frames[-2:]] == ["agent_end", "agent_settled"]
    (path,) = (tmp_path / "sessions").glob("*.jsonl")
    last = json.loads(path.read_text().splitlines()[-1])["message"]
    assert (last["stopReason"], last["content"][0]["text"]) == ("aborted", "one two ")
    assert claude.stderr == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_run_its_children_and_the_process(
    claude: RpcProcess, messages_api: MessagesApi, number: int, status: int
):
    messages_api.add(Reply(ToolUse("bash", {"command": "echo begun; sleep 300 & sleep 300"})))
    claude.send({"type": "prompt", "message": "go"})
    claude.wait(lambda frame: "begun" in str(frame.get("partialResult")))
    children = psutil.Process(claude.pid).children(recursive=True)
    assert children
    claude.signal(number)
    assert claude.wait_for_end() == status
    assert claude.frames[-1]["type"] == "agent_settled"
    _, alive = psutil.wait_procs(children, timeout=120)
    assert alive == []


def test_the_first_answer_comes_without_sdk_ipython_or_widgets(tmp_path: Path):
    """Imports of them are held until the answer has come, so needing one would never end."""
    answered = tmp_path / "answered"
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "heavy = {'anthropic', 'openai', 'IPython', 'ipykernel', 'ipywidgets', 'anywidget', 'httpx2', 'PIL', "
        "'pygments'}\n"
        "def hold(event, arguments):\n"
        "    if event == 'import' and arguments[0].split('.')[0] in heavy:\n"
        f"        while not os.path.exists({str(answered)!r}):\n"
        "            time.sleep(0.01)\n"
        "sys.addaudithook(hold)\n"
    )
    more = {"PYTHONPATH": str(tmp_path), "ANTHROPIC_API_KEY": "sk-test"}
    with RpcProcess(home=tmp_path, more=more) as process:
        assert process.ask("get_state")["data"]["model"]["provider"] == "anthropic"
        answered.touch()


def test_a_reader_that_stops_reading_bounds_what_is_held_for_it(messages_api: MessagesApi, tmp_path: Path):
    """The answer is as long as ever, but its deltas are joined while nobody takes them."""
    words = "word " * 40_000
    gate = Gate()
    messages_api.add(Reply(Text(words, gate), chunk=20))
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "indus_nb", "--mode", "rpc", "--no-session", "--model", "claude-haiku-4-5"],
        stdin=subprocess.PIPE,
        stdout=write_end,
        cwd=tmp_path,
        env=environment(tmp_path, ANTHROPIC_BASE_URL=messages_api.url, ANTHROPIC_API_KEY="sk-test"),
    )
    os.close(write_end)
    with ending(process), os.fdopen(read_end, "rb") as frames:
        process.stdin.write(b'{"type":"prompt","message":"talk"}\n')
        process.stdin.flush()
        first = json.loads(frames.readline())
        assert first["success"]
        assert gate.reached.wait(), "deltas are taken in whether anybody reads them or not"
        held = psutil.Process(process.pid).memory_info().rss
        gate.open()
        text, deltas = "", 0
        for line in frames:
            frame = json.loads(line)
            if frame["type"] == "message_update" and frame["assistantMessageEvent"]["type"] == "text_delta":
                text += frame["assistantMessageEvent"]["delta"]
                deltas += 1
            if frame["type"] == "agent_settled":
                break
        process.stdin.close()
    assert text == words
    assert deltas < 9_000, "deltas that nobody had read were joined"
    assert held < 400 * 1024 * 1024
