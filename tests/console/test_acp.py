"""ACP mode: what a client asks and is shown, through real pipes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from acp_process import AcpProcess
from messages_api import Cut, Gate, HttpError, MessagesApi, Reply, SseError, Text, Thinking, ToolUse
from waiting import wait_until

ARGUMENTS = ("--model", "claude-haiku-4-5", "--thinking", "off")


def environment_of(api: MessagesApi) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "sk-test"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def agent(messages_api: MessagesApi, tmp_path: Path) -> Iterator[AcpProcess]:
    with AcpProcess(*ARGUMENTS, home=tmp_path, more=environment_of(messages_api)) as process:
        process.request("initialize", protocolVersion=1, clientCapabilities={})
        yield process


def opened(agent: AcpProcess, project: Path) -> str:
    return agent.request("session/new", cwd=str(project), mcpServers=[])["sessionId"]


def say(agent: AcpProcess, session: str, text: str) -> int:
    return agent.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


def allow(agent: AcpProcess, request: dict[str, Any], kind: str = "allow_once") -> None:
    chosen = next(option for option in request["params"]["options"] if option["kind"] == kind)
    agent.reply(request, {"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}})


def test_the_usage_of_a_prompt_counts_every_request_of_the_session(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(Reply("Hello."))
    once = agent.response(say(agent, session, "hi"))["result"]["usage"]
    messages_api.add(Reply(ToolUse("ls", {})))
    messages_api.add(Reply("Nothing there."))
    thrice = agent.response(say(agent, session, "look"))["result"]["usage"]
    assert thrice == {kind: 3 * tokens for kind, tokens in once.items()}


def test_a_prompt_is_answered_piece_by_piece_and_says_why_it_ended(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(Reply(Thinking("Well."), Text("Hel", "lo.")))
    answer = agent.response(say(agent, session, "hi"))["result"]
    assert answer["stopReason"] == "end_turn"
    assert answer["usage"]["outputTokens"] > 0
    assert agent.text(session) == "Hello."
    assert agent.text(session, "agent_thought_chunk") == "Well."
    (usage,) = agent.updates(session, "usage_update")
    assert 0 < usage["used"] < usage["size"]
    assert usage["cost"]["currency"] == "USD"


def test_what_a_client_is_shown_of_a_call_obeys_nothing_and_holds_no_key_that_is_known(
    messages_api: MessagesApi, tmp_path: Path, project: Path
) -> None:
    more = {**environment_of(messages_api), "GITHUB_TOKEN": "plain-Value-of-a-token-77"}
    command = "echo '\x1b]52;c;ZXZpbA==\x07' plain-Value-of-a-token-77 > x"
    messages_api.add(Reply(ToolUse("bash", {"command": command, "\x1b[2J": ["\x1b[31m"]})), Reply("Ran."))
    with AcpProcess(*ARGUMENTS, home=tmp_path, more=more) as agent:
        agent.request("initialize", protocolVersion=1, clientCapabilities={})
        session = opened(agent, project)
        running = say(agent, session, "go")
        request = agent.asked("session/request_permission")
        allow(agent, request, "reject_once")
        agent.response(running)
        shown = json.dumps([request, agent.updates(session, "tool_call"), agent.updates(session, "tool_call_update")])
    assert "echo '' [secret GITHUB_TOKEN] > x" in shown
    assert "plain-Value" not in shown
    assert "\\u001b" not in shown


ENDS = {"completed", "failed"}


def statuses(frames: list[dict[str, Any]]) -> dict[str, list[str]]:
    """What was shown of each call."""
    shown: dict[str, list[str]] = {}
    for frame in frames:
        update = frame.get("params", {}).get("update", {})
        if "status" in update:
            shown.setdefault(update["toolCallId"], []).append(update["status"])
    return shown


LS = ToolUse("ls", {})
WAITING = ToolUse("bash", {"command": "touch RAN; until [ -e GO ]; do sleep 0.05; done"})
RETRIED = '{"retry": {"baseDelayMs": 1}}'
RULE = "---\ncondition: whale\n---\nSpeak of fish.\n"


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ("steered", Reply(WAITING, LS)),
        ("cancelled", Reply(WAITING, LS)),
        ("cancelled while asked", Reply(WAITING, LS)),
        ("cut", Reply(LS, Text("half", Cut()))),
        ("failed", Reply(LS, Text("half", SseError("overloaded_error", "Overloaded")))),
        ("stopped by a rule", Reply(LS, "Never say whale to me.")),
    ],
)
def test_every_call_that_was_announced_ends_before_the_prompt_is_answered(
    messages_api: MessagesApi, project: Path, tmp_path: Path, way: str, answer: Reply
) -> None:
    rules = tmp_path / "agent" / "rules"
    rules.mkdir(parents=True)
    (rules / "whale.md").write_text(RULE)
    (tmp_path / "agent" / "settings.json").write_text(RETRIED)
    messages_api.add(answer, Reply("Done."), Reply("Done."))
    with AcpProcess(*ARGUMENTS, home=tmp_path, more=environment_of(messages_api)) as agent:
        session = opened(agent, project)
        agent.request("session/set_mode", sessionId=session, modeId="writes" if "asked" in way else "never")
        prompt = say(agent, session, "go")
        if way in ("steered", "cancelled"):
            wait_until((project / "RAN").exists)
        if way == "steered":
            joined = say(agent, session, "stop that")
            agent.request("session/set_mode", sessionId=session, modeId="never")
            (project / "GO").touch()
            agent.response(joined)
        if "asked" in way:
            agent.asked("session/request_permission")
        if "cancelled" in way:
            agent.notify("session/cancel", sessionId=session)
        answered = agent.frames.index(agent.response(prompt))
        shown = statuses(agent.frames[:answered])
        agent.request("session/close", sessionId=session)
        before = len(agent.frames)
        agent.request("session/load", sessionId=session, cwd=str(project), mcpServers=[])
        again = statuses(agent.frames[before:])
    assert shown
    assert [set(of_call) & ENDS for of_call in shown.values()] == [{of_call[-1]} for of_call in shown.values()]
    assert {call: of_call[-1] for call, of_call in again.items()} == {
        call: of_call[-1] for call, of_call in shown.items()
    }


def test_a_command_is_asked_about_and_shown_with_its_output(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(Reply(ToolUse("bash", {"command": "echo ran > here; echo done"})), Reply("Ran."))
    prompt = say(agent, session, "run it")
    request = agent.asked("session/request_permission")
    call = request["params"]["toolCall"]
    assert "echo ran > here" in str(call["content"])
    assert [option["kind"] for option in request["params"]["options"]][-1] == "reject_once"
    assert not (project / "here").exists()
    allow(agent, request)
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    assert (project / "here").read_text() == "ran\n"
    states = [
        update.get("status") for update in agent.updates(session) if update.get("toolCallId") == call["toolCallId"]
    ]
    assert states[0] == "pending"
    assert states[-1] == "completed"
    last = agent.updates(session, "tool_call_update")[-1]
    assert last["content"][0]["content"]["text"] == "```\ndone\n```"


def test_what_is_not_allowed_does_not_run(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project)
    messages_api.add(Reply(ToolUse("bash", {"command": "touch here"})), Reply("Not run."))
    prompt = say(agent, session, "run it")
    allow(agent, agent.asked("session/request_permission"), "reject_once")
    agent.response(prompt)
    assert not (project / "here").exists()
    assert agent.updates(session, "tool_call_update")[-1]["status"] == "failed"


def test_a_changed_file_is_shown_as_a_difference(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project)
    (project / "a.py").write_text("x = 1\n")
    agent.request("session/set_config_option", sessionId=session, configId="approve", value="never")
    edit = {"path": "a.py", "edits": [{"oldText": "x = 1", "newText": "x = 2"}]}
    messages_api.add(Reply(ToolUse("edit", edit)), Reply("Done."))
    agent.response(say(agent, session, "change it"))
    last = agent.updates(session, "tool_call_update")[-1]
    diff = {"type": "diff", "path": str(project / "a.py"), "oldText": "x = 1\n", "newText": "x = 2\n"}
    assert last["content"][0] == diff
    started = agent.updates(session, "tool_call_update")[0]
    assert started["locations"] == [{"path": str(project / "a.py")}]
    assert started["kind"] == "edit"


def test_cancelling_ends_a_run_whatever_it_is_at(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project)
    gate = Gate()
    messages_api.add(Reply(Text("half ", gate)))
    prompt = say(agent, session, "talk")
    wait_until(lambda: "half" in agent.text(session))
    agent.notify("session/cancel", sessionId=session)
    assert agent.response(prompt)["result"] == {"stopReason": "cancelled"}
    messages_api.add(Reply(ToolUse("bash", {"command": "touch here"})))
    prompt = say(agent, session, "run it")
    request = agent.asked("session/request_permission")
    agent.notify("session/cancel", sessionId=session)
    agent.reply(request, {"outcome": {"outcome": "cancelled"}})
    assert agent.response(prompt)["result"] == {"stopReason": "cancelled"}
    assert not (project / "here").exists()
    messages_api.add(Reply("Still here."))
    assert agent.response(say(agent, session, "and now?"))["result"]["stopReason"] == "end_turn"


def test_a_second_prompt_joins_the_run(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project)
    gate = Gate()
    messages_api.add(Reply(Text("One", gate, ".")), Reply("Two."))
    first = say(agent, session, "first")
    assert gate.reached.wait()
    second = say(agent, session, "second")
    agent.request("session/list")  # answered behind it
    gate.open()
    assert agent.response(first)["result"]["stopReason"] == "end_turn"
    assert agent.response(second)["result"]["stopReason"] == "end_turn"
    assert messages_api.requests[-1].body["messages"][-1]["content"][-1]["text"] == "second"


def test_what_joins_a_run_that_is_cancelled_is_not_sent_with_the_next_prompt(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    gate = Gate()
    messages_api.add(Reply(Text("One", gate)))
    first = say(agent, session, "first")
    assert gate.reached.wait()
    second = say(agent, session, "second")
    agent.request("session/list")  # answered behind it
    agent.notify("session/cancel", sessionId=session)
    assert agent.response(first)["result"] == {"stopReason": "cancelled"}
    assert agent.response(second)["result"] == {"stopReason": "cancelled"}
    messages_api.add(Reply("Three."))
    agent.response(say(agent, session, "third"))
    sent = str(messages_api.requests[-1].body["messages"])
    assert "third" in sent
    assert "second" not in sent


def test_what_joins_a_run_whose_model_fails_is_an_error_too(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    gate = Gate()
    messages_api.add(Reply(Text("One", gate, SseError("invalid_request_error", "no such thing"))))
    first = say(agent, session, "first")
    assert gate.reached.wait()
    second = say(agent, session, "second")
    agent.request("session/list")  # answered behind it
    gate.open()
    assert "no such thing" in agent.response(first)["error"]["message"]
    assert "no such thing" in agent.response(second)["error"]["message"]


def test_a_prompt_behind_a_cancellation_is_one_of_its_own(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    gate = Gate()
    messages_api.add(Reply(Text("One", gate)), Reply("Two."))
    first = say(agent, session, "first")
    assert gate.reached.wait()
    agent.notify("session/cancel", sessionId=session)
    second = say(agent, session, "second")
    assert agent.response(first)["result"] == {"stopReason": "cancelled"}
    assert agent.response(second)["result"]["stopReason"] == "end_turn"
    assert agent.text(session).endswith("Two.")


def test_an_open_session_that_is_loaded_during_a_run_shows_what_has_arrived_once_and_then_the_rest(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    gate = Gate()
    messages_api.add(Reply(Text("Half of it, ", gate, "and the rest.")))
    prompt = say(agent, session, "first")
    assert gate.reached.wait()
    agent.seen(lambda frame: "Half of it, " in str(frame))
    before = len(agent.updates(session))
    agent.request("session/load", sessionId=session, cwd=str(project), mcpServers=[])
    gate.open()
    agent.response(prompt)
    shown = agent.updates(session)[before:]
    assert [update for update in shown if update["sessionUpdate"] == "user_message_chunk"]
    text = [update for update in shown if update["sessionUpdate"] == "agent_message_chunk"]
    assert "".join(update["content"]["text"] for update in text) == "Half of it, and the rest."
    assert len({update["messageId"] for update in text}) == 1


def test_a_file_that_takes_nothing_more_is_an_error_that_says_so(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(Reply("One."))
    agent.response(say(agent, session, "first"))
    (file,) = project.parent.rglob(f"*{session}*.jsonl")
    file.unlink()
    error = agent.response(say(agent, session, "second"))["error"]
    assert error["code"] == -32603
    assert file.name in error["message"]


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
def test_a_session_that_ends_answers_its_prompt_before_it_is_opened_again(
    agent: AcpProcess, project: Path, messages_api: MessagesApi, method: str
) -> None:
    session = opened(agent, project)
    gate = Gate()
    messages_api.add(Reply(Text("One", gate)))
    prompt = say(agent, session, "first")
    assert gate.reached.wait()
    ended = agent.begin(method, sessionId=session)
    loaded = agent.begin("session/load", sessionId=session, cwd=str(project), mcpServers=[])
    answer = agent.response(loaded)
    assert answer["error"]["code"] == -32002 if method == "session/delete" else "result" in answer
    assert agent.response(prompt)["result"] == {"stopReason": "cancelled"}
    answered = [frame["id"] for frame in agent.frames if frame.get("id") in (prompt, ended, loaded)]
    assert answered == [prompt, ended, loaded]


def test_a_session_that_another_program_has_open_is_not_deleted(
    agent: AcpProcess, project: Path, tmp_path: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(Reply("One."))
    agent.response(say(agent, session, "first"))
    with AcpProcess(*ARGUMENTS, home=tmp_path, more=environment_of(messages_api)) as other:
        error = other.failure("session/delete", sessionId=session)
        assert "open for writing" in error["message"]
    assert list(project.parent.rglob(f"*{session}*.jsonl"))
    agent.request("session/delete", sessionId=session)
    assert not list(project.parent.rglob(f"*{session}*.jsonl"))


def test_sessions_are_known_by_their_whole_id_and_by_any_name_of_their_directory(
    agent: AcpProcess, project: Path, tmp_path: Path, messages_api: MessagesApi
) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    session = opened(agent, link)
    messages_api.add(Reply("One."))
    agent.response(say(agent, session, "first \x1b[31mred\x1b[0m"))
    for cwd in (project, link):
        (listed,) = agent.request("session/list", cwd=str(cwd))["sessions"]
        assert (listed["sessionId"], listed["title"]) == (session, "first red")
    agent.request("session/close", sessionId=session)
    error = agent.failure("session/load", sessionId=session[:8], cwd=str(project), mcpServers=[])
    assert error["code"] == -32002


def test_what_a_model_writes_is_shown_without_keys_and_signs_of_terminals(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    agent.request("session/set_mode", sessionId=session, modeId="never")
    key = "sk-test-0123456789abcdef"  # as that of a provider looks
    (project / "a").write_text(f"key = {key}\n")
    edit = {"path": "a", "edits": [{"oldText": "key", "newText": "KEY"}]}
    odd = ToolUse("odd\x1b[31m\n" + "y" * 500, {"token": f"{key}"})
    command = ToolUse("bash", {"command": f"true {key} \x1b[31m"})
    messages_api.add(
        Reply(odd, command, ToolUse("edit", edit), ToolUse("read", {"path": "a", "offset": 10**12})), Reply("Done.")
    )
    agent.response(say(agent, session, "go on"))
    shown = agent.updates(session)
    assert key not in str(shown)
    assert all("\x1b" not in update["title"] and len(update["title"]) < 300 for update in shown if "title" in update)
    assert "KEY" in str([update["content"] for update in shown if update.get("status") == "completed"])
    assert "'line'" not in str(shown)


_EXTENSION = """
def setup(api):
    async def ask(arguments, ctx):
        await ctx.ui.select("Pick\\x1b[31m one", ["a", "b"])
        raise ValueError("no\\x1b[31m way")
    api.register_command("ask", ask)
"""


def test_a_command_of_an_extension_asks_and_fails_in_plain_words(
    messages_api: MessagesApi, tmp_path: Path, project: Path
) -> None:
    (tmp_path / "asks.py").write_text(_EXTENSION)
    more = ("--extension", str(tmp_path / "asks.py"))
    with AcpProcess(*ARGUMENTS, *more, home=tmp_path, more=environment_of(messages_api)) as agent:
        session = opened(agent, project)
        prompt = say(agent, session, "/ask")
        question = agent.asked("session/request_permission")
        assert question["params"]["toolCall"]["title"] == "Pick one"
        allow(agent, question)
        assert agent.response(prompt)["result"] == {"stopReason": "end_turn"}
        told = agent.text(session, "agent_thought_chunk")
        assert "no way" in told
        assert "\x1b" not in told


def test_a_client_that_brings_mcp_servers_is_told_once_what_is_missing_for_them(tmp_path: Path, project: Path) -> None:
    without_sdk = "import sys; sys.modules['mcp'] = None; from indus_nb.front.console.cli import main; main()"
    server = {"name": "files", "command": "true", "args": [], "env": []}
    with AcpProcess("--provider", "offline", home=tmp_path, program=(sys.executable, "-c", without_sdk)) as agent:
        session = agent.request("session/new", cwd=str(project), mcpServers=[server])["sessionId"]
        agent.response(say(agent, session, "hi"))
        told = agent.text(session, "agent_thought_chunk")
    assert told.count("cannot be imported") == 1
    assert told.startswith("the client's MCP servers failed")
    assert "settings" not in told


def test_an_answer_about_the_project_counts_for_the_prompt_behind_it(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    (project / "AGENTS.md").write_text("Always say moo.")
    messages_api.add(Reply("Moo."))
    session = opened(agent, project)
    request = agent.asked("session/request_permission")
    option = request["params"]["options"][0]["optionId"]
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}}
    params = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
    agent.send(answer, {"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": params})
    assert agent.response("p")["result"]["stopReason"] == "end_turn"
    assert "moo" in str(messages_api.requests[0].body["system"])


def test_two_sessions_run_at_the_same_time(
    agent: AcpProcess, project: Path, tmp_path: Path, messages_api: MessagesApi
) -> None:
    other_project = tmp_path / "other"
    other_project.mkdir()
    one, two = opened(agent, project), opened(agent, other_project)
    gate = Gate()
    messages_api.add(Reply(Text("slow", gate)))
    first = say(agent, one, "first")
    assert gate.reached.wait()
    messages_api.add(Reply("quick"))
    assert agent.response(say(agent, two, "second"))["result"]["stopReason"] == "end_turn"
    gate.open()
    assert agent.response(first)["result"]["stopReason"] == "end_turn"
    assert (agent.text(one), agent.text(two)) == ("slow", "quick")


def test_a_session_is_listed_replayed_gone_on_with_and_deleted(
    agent: AcpProcess, project: Path, tmp_path: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(Reply(ToolUse("read", {"path": "a.txt"})), Reply("It says one."))
    (project / "a.txt").write_text("one\n")
    agent.response(say(agent, session, "what does it say?"))
    agent.request("session/close", sessionId=session)
    with AcpProcess(*ARGUMENTS, home=tmp_path, more=environment_of(messages_api)) as later:
        (listed,) = later.request("session/list", cwd=str(project))["sessions"]
        assert listed["sessionId"] == session
        assert listed["title"] == "what does it say?"
        assert later.request("session/list", cwd=str(tmp_path))["sessions"] == []
        request = later.begin("session/load", sessionId=session, cwd=str(project), mcpServers=[])
        later.response(request)
        answered = next(n for n, frame in enumerate(later.frames) if frame.get("id") == request)
        assert "It says one." in str(later.frames[:answered])
        assert later.text(session, "user_message_chunk") == "what does it say?"
        assert "one" in str(later.updates(session, "tool_call_update")[-1]["content"])
        messages_api.add(Reply("Still one."))
        later.response(say(later, session, "and now?"))
        assert len(messages_api.requests[-1].body["messages"]) == 5
        later.request("session/delete", sessionId=session)
        assert later.request("session/list")["sessions"] == []
        assert later.failure("session/load", sessionId=session, cwd=str(project), mcpServers=[])["code"] == -32002


def test_model_and_thinking_are_options(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project)
    options = agent.request(
        "session/set_config_option", sessionId=session, configId="model", value="anthropic/claude-sonnet-4-5"
    )["configOptions"]
    current = {option["category"]: option["currentValue"] for option in options}
    assert current == {"model": "anthropic/claude-sonnet-4-5", "mode": "writes", "thought_level": "off"}
    agent.request("session/set_config_option", sessionId=session, configId="thinking", value="high")
    error = agent.failure("session/set_config_option", sessionId=session, configId="thinking", value="to the moon")
    assert error["code"] == -32602
    assert "Nothing was changed" in error["message"]
    messages_api.add(Reply("Thought."))
    agent.response(say(agent, session, "think"))
    assert messages_api.requests[-1].body["model"] == "claude-sonnet-4-5"
    assert "thinking" in messages_api.requests[-1].body


def test_a_model_that_fails_is_an_error_with_its_reason(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(HttpError(400, "no such thing"))
    error = agent.response(say(agent, session, "hi"))["error"]
    assert error["code"] == -32603
    assert "no such thing" in error["message"]


def test_a_refusal_of_the_model_is_its_own_reason_to_stop_and_is_shown(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(Reply("No", stop_reason="refusal", stop_details={"type": "refusal", "explanation": "Too risky."}))
    assert agent.response(say(agent, session, "hi"))["result"]["stopReason"] == "refusal"
    assert "Too risky." in agent.text(session)


def test_a_missing_key_asks_to_sign_in(tmp_path: Path, project: Path) -> None:
    with AcpProcess("--provider", "anthropic", home=tmp_path) as agent:
        session = opened(agent, project)
        error = agent.response(say(agent, session, "hi"))["error"]
        assert error["code"] == -32000
        assert "ANTHROPIC_API_KEY" in error["message"]
        assert agent.failure("authenticate", methodId="keys")["code"] == -32000


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"no json\n", -32700),
        (b"[]\n", -32600),
        (b'{"jsonrpc":"2.0","id":7}\n', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"initialize"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/fly","params":{}}\n', -32601),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"here","mcpServers":[]}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/no/such/place"}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":[1]}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/load","params":{"cwd":"/","sessionId":"../x.jsonl"}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":"here"}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"x","prompt":[]}}\n', -32002),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/' + b"x" * 300 + b'"}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/list","params":{"cwd":"/\\u0000"}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/list","params":{"cwd":"here"}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/list","params":{"cwd":"/' + b"x" * 5000 + b'"}}\n', -32602),
        (b"[" * 100_000 + b"\n", -32700),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"\\ud800","params":{}}\n', -32601),
        (b"x" * 70_000_000 + b"\n", -32700),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_done_is_an_error_and_nothing_else(agent: AcpProcess, line: bytes, code: int) -> None:
    before = len(agent.frames)
    agent.send(line)
    error = agent.seen(lambda frame: "error" in frame, since=before)["error"]
    assert error["code"] == code
    assert "``" not in error["message"]
    assert agent.request("session/list")["sessions"] == []


def test_answers_to_nothing_and_unknown_notifications_are_ignored(agent: AcpProcess) -> None:
    agent.send(b'{"jsonrpc":"2.0","id":99,"result":{}}\n{"jsonrpc":"2.0","method":"session/hum"}\n\n')
    agent.send(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":55}}\n')
    agent.send(b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"none"}}\n')
    assert agent.request("session/list")["sessions"] == []


@pytest.mark.parametrize("block", [{"type": "audio", "data": "x", "mimeType": "audio/wav"}, {"type": "text"}, {}])
def test_a_block_that_no_model_takes_is_refused(agent: AcpProcess, project: Path, block: dict[str, Any]) -> None:
    session = opened(agent, project)
    error = agent.failure("session/prompt", sessionId=session, prompt=[block])
    assert error["code"] == -32602
    assert "Nothing was sent" in error["message"]


def test_links_and_embedded_texts_reach_the_model(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project)
    messages_api.add(Reply("Read."))
    prompt = [
        {"type": "text", "text": "Look at"},
        {"type": "resource_link", "uri": f"file://{project}/a%20b.txt", "name": "a b.txt"},
        {"type": "text", "text": "and"},
        {"type": "text", "text": "roid"},
        {"type": "resource", "resource": {"uri": "file:///notes.md", "text": "the notes", "mimeType": "text/markdown"}},
    ]
    agent.request("session/prompt", sessionId=session, prompt=prompt)
    sent = str(messages_api.requests[-1].body["messages"][-1])
    assert f'Look at @"{project}/a b.txt" android' in sent
    assert "the notes" in sent


def test_a_client_that_is_killed_leaves_no_process_and_a_whole_session(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    agent.request("session/set_mode", sessionId=session, modeId="never")
    messages_api.add(Reply(ToolUse("bash", {"command": "echo begun; sleep 1000"})))
    say(agent, session, "run it")
    agent.seen(lambda frame: "begun" in str(frame) and "content" in str(frame))
    children = psutil.Process(agent.pid).children(recursive=True)
    agent.close_stdin()
    assert agent.wait_for_end() == 0
    _, alive = psutil.wait_procs(children, timeout=120)
    assert alive == []
    (file,) = project.parent.rglob(f"*{session}*.jsonl")
    assert "run it" in file.read_text()


def test_a_signal_ends_it_in_the_middle_of_a_question(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project)
    messages_api.add(Reply(ToolUse("bash", {"command": "touch here"})))
    say(agent, session, "run it")
    agent.asked("session/request_permission")
    agent.signal(signal.SIGTERM)
    assert agent.wait_for_end() == 128 + signal.SIGTERM
    assert not (project / "here").exists()
