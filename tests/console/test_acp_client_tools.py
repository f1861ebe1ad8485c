"""ACP mode on what the client offers: its editor's files, and its terminals."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp_process import AcpProcess
from messages_api import MessagesApi, Reply, ToolUse

ARGUMENTS = ("--model", "claude-haiku-4-5", "--thinking", "off", "--approve", "never")
FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def more() -> tuple[str, ...]:
    return ()


@pytest.fixture
def agent(messages_api: MessagesApi, tmp_path: Path, more: tuple[str, ...]) -> Iterator[AcpProcess]:
    environment = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test-0123456789abcdef"}
    with AcpProcess(*ARGUMENTS, *more, home=tmp_path, more=environment) as process:
        yield process


def opened(agent: AcpProcess, project: Path, **capabilities: Any) -> str:
    agent.request("initialize", protocolVersion=1, clientCapabilities=capabilities)
    return agent.request("session/new", cwd=str(project), mcpServers=[])["sessionId"]


def say(agent: AcpProcess, session: str, text: str = "go on") -> int:
    return agent.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])


def refuse(agent: AcpProcess, request: dict[str, Any], message: str) -> None:
    agent.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": message}})


def told(messages_api: MessagesApi) -> str:
    """The result that the model was told last."""
    return str(messages_api.requests[-1].body["messages"][-1]["content"])


def test_a_text_is_read_as_the_editor_has_it(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project, **FILES)
    (project / "a.txt").write_text("saved\n")
    messages_api.add(Reply(ToolUse("read", {"path": "a.txt"})), Reply("Read."))
    prompt = say(agent, session)
    request = agent.asked("fs/read_text_file")
    assert request["params"] == {"sessionId": session, "path": str(project / "a.txt")}
    agent.reply(request, {"content": "unsaved\n"})
    agent.response(prompt)
    assert "unsaved" in told(messages_api)


def test_half_characters_of_an_editor_are_replaced(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project, **FILES)
    (project / "a.txt").write_text("saved\n")
    messages_api.add(Reply(ToolUse("read", {"path": "a.txt"})), Reply("Read."))
    prompt = say(agent, session)
    agent.reply(agent.asked("fs/read_text_file"), {"content": "cut \ud83d"})
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    assert "cut \ufffd" in told(messages_api)


def test_what_the_editor_does_not_read_is_read_on_the_disk(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, **FILES)
    (project / "a.txt").write_text("saved\n")
    messages_api.add(Reply(ToolUse("read", {"path": "a.txt"})), Reply("Read."))
    prompt = say(agent, session)
    refuse(agent, agent.asked("fs/read_text_file"), "not open")
    agent.response(prompt)
    assert "saved" in told(messages_api)


def test_an_edit_changes_the_text_of_the_editor(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project, **FILES)
    (project / "a.py").write_text("x = 1\n")
    edit = {"path": "a.py", "edits": [{"oldText": "y = 2", "newText": "y = 3"}]}
    messages_api.add(Reply(ToolUse("edit", edit)), Reply("Done."))
    prompt = say(agent, session)
    agent.reply(agent.asked("fs/read_text_file"), {"content": "x = 1\r\ny = 2\r\n"})
    written = agent.asked("fs/write_text_file")
    assert written["params"]["content"] == "x = 1\r\ny = 3\r\n"
    agent.reply(written, {})
    agent.response(prompt)
    last = agent.updates(session, "tool_call_update")[-1]
    assert last["status"] == "completed"
    assert (last["content"][0]["oldText"], last["content"][0]["newText"]) == (
        "x = 1\r\ny = 2\r\n",
        "x = 1\r\ny = 3\r\n",
    )
    assert (project / "a.py").read_text() == "x = 1\n"


def test_a_new_file_is_written_by_the_editor(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project, **FILES)
    messages_api.add(Reply(ToolUse("write", {"path": "below/b.md", "content": "# new\n"})), Reply("Done."))
    prompt = say(agent, session)
    refuse(agent, agent.asked("fs/read_text_file"), "no such file")
    written = agent.asked("fs/write_text_file")
    assert written["params"]["path"] == str(project / "below" / "b.md")
    agent.reply(written, {})
    agent.response(prompt)
    assert agent.updates(session, "tool_call_update")[-1]["content"][0]["newText"] == "# new\n"


def test_a_refusal_of_the_editor_is_the_result(agent: AcpProcess, project: Path, messages_api: MessagesApi) -> None:
    session = opened(agent, project, fs={"readTextFile": False, "writeTextFile": True})
    messages_api.add(Reply(ToolUse("write", {"path": "b.md", "content": "x"})), Reply("Well."))
    prompt = say(agent, session)
    refuse(agent, agent.asked("fs/write_text_file"), "the disk is full")
    agent.response(prompt)
    assert "did not write b.md: the disk is full" in told(messages_api)
    assert not (project / "b.md").exists()


def test_notebooks_and_images_are_files_on_the_disk(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, **FILES)
    messages_api.add(Reply(ToolUse("write", {"path": "n.ipynb", "content": "{}"})), Reply("Done."))
    agent.response(say(agent, session))
    assert (project / "n.ipynb").read_text() == "{}"


def test_a_command_runs_in_a_terminal_of_the_client(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "make"})), Reply("Made."))
    prompt = say(agent, session)
    create = agent.asked("terminal/create")
    assert create["params"]["args"] == ["-c", "make"]
    assert create["params"]["cwd"] == str(project)
    assert {"name": "ANTHROPIC_API_KEY", "value": ""} in create["params"]["env"]
    agent.reply(create, {"terminalId": "t1"})
    wait = agent.asked("terminal/wait_for_exit")
    shown = {"type": "terminal", "terminalId": "t1"}
    assert agent.updates(session, "tool_call_update")[-1]["content"] == [shown]
    agent.reply(wait, {"exitCode": 2, "signal": None})
    agent.reply(
        agent.asked("terminal/output"),
        {"output": "\x1b[31mwrong\x1b[0m sk-test-0123456789abcdef\n", "truncated": False},
    )
    agent.reply(agent.asked("terminal/release"), {})
    agent.response(prompt)
    assert "exited with code 2" in told(messages_api)
    assert "wrong" in told(messages_api)
    assert "sk-test-0123456789abcdef" not in told(messages_api)
    last = agent.updates(session, "tool_call_update")[-1]
    assert (last["status"], last["content"]) == ("failed", [shown])


@pytest.mark.parametrize("by", ["timeout", "cancel"])
def test_a_command_that_is_stopped_is_killed_in_its_terminal(
    agent: AcpProcess, project: Path, messages_api: MessagesApi, by: str
) -> None:
    session = opened(agent, project, terminal=True)
    arguments = {"command": "sleep 1000", **({"timeout": 0.2} if by == "timeout" else {})}
    messages_api.add(Reply(ToolUse("bash", arguments)), Reply("Stopped."))
    prompt = say(agent, session)
    agent.reply(agent.asked("terminal/create"), {"terminalId": "t1"})
    agent.asked("terminal/wait_for_exit")
    if by == "cancel":
        agent.notify("session/cancel", sessionId=session)
    agent.reply(agent.asked("terminal/kill"), {})
    agent.reply(agent.asked("terminal/output"), {"output": "begun\n", "truncated": False})
    agent.asked("terminal/release")
    assert agent.response(prompt)["result"]["stopReason"] == ("cancelled" if by == "cancel" else "end_turn")
    if by == "timeout":
        assert "begun" in told(messages_api)
        assert "timed out" in told(messages_api)


def test_a_terminal_that_comes_after_its_call_was_cancelled_is_released(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "sleep 1000"})))
    prompt = say(agent, session)
    create = agent.asked("terminal/create")
    agent.notify("session/cancel", sessionId=session)
    assert agent.response(prompt)["result"] == {"stopReason": "cancelled"}
    agent.reply(create, {"terminalId": "late"})
    assert agent.asked("terminal/release")["params"]["terminalId"] == "late"


@pytest.mark.parametrize("answer", [{}, {"terminalId": None}, {"terminalId": 5}, []])
def test_a_terminal_without_a_name_is_an_error(
    agent: AcpProcess, project: Path, messages_api: MessagesApi, answer: object
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "true"})), Reply("Well."))
    prompt = say(agent, session)
    agent.reply(agent.asked("terminal/create"), answer)
    agent.response(prompt)
    assert "named no terminal" in told(messages_api)


@pytest.mark.parametrize("answer", [{}, {"exitCode": "x"}, {"exitCode": None, "signal": None}, 5])
def test_a_command_whose_end_is_not_told_is_not_said_to_have_succeeded(
    agent: AcpProcess, project: Path, messages_api: MessagesApi, answer: object
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "true"})), Reply("Well."))
    prompt = say(agent, session)
    agent.reply(agent.asked("terminal/create"), {"terminalId": "t1"})
    agent.reply(agent.asked("terminal/wait_for_exit"), answer)
    agent.reply(agent.asked("terminal/output"), {"output": "made", "truncated": False})
    agent.response(prompt)
    assert "made\\n[The terminal did not say how the command ended]" in told(messages_api)


def test_a_signal_ends_a_command_in_the_terminal_of_the_client(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "sleep 1000"})))
    say(agent, session)
    agent.reply(agent.asked("terminal/create"), {"terminalId": "t1"})
    agent.asked("terminal/wait_for_exit")
    agent.signal(signal.SIGTERM)
    assert agent.asked("terminal/kill")["params"]["terminalId"] == "t1"
    assert agent.wait_for_end() == 128 + signal.SIGTERM


def test_a_prompt_that_is_cancelled_again_and_again_holds_up_no_other(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "sleep 1000"})))
    prompt = say(agent, session)
    agent.reply(agent.asked("terminal/create"), {"terminalId": "t1"})
    agent.asked("terminal/wait_for_exit")
    agent.notify("session/cancel", sessionId=session)
    agent.asked("terminal/kill")  # is not answered, so the run goes on for a while
    for _ in range(2):
        agent.notify("$/cancel_request", requestId=prompt)
        agent.request("session/list")
    agent.response(prompt)
    messages_api.add(Reply("Still here."))
    assert agent.response(say(agent, session))["result"]["stopReason"] == "end_turn"


def test_a_client_that_answers_nothing_more_holds_no_run(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "sleep 1000"})))
    prompt = say(agent, session)
    agent.reply(agent.asked("terminal/create"), {"terminalId": "t1"})
    agent.asked("terminal/wait_for_exit")
    agent.notify("session/cancel", sessionId=session)
    assert agent.response(prompt)["result"] == {"stopReason": "cancelled"}


def test_a_client_that_dies_while_its_terminal_runs_ends_the_agent(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "sleep 1000"})), Reply("Lost."))
    say(agent, session)
    agent.reply(agent.asked("terminal/create"), {"terminalId": "t1"})
    agent.asked("terminal/wait_for_exit")
    agent.close_stdin()
    assert agent.wait_for_end() == 0


@pytest.mark.parametrize("more", [("--sandbox", "workspace")])
def test_a_confined_command_stays_in_a_process_of_ours(
    agent: AcpProcess, project: Path, messages_api: MessagesApi
) -> None:
    session = opened(agent, project, terminal=True)
    messages_api.add(Reply(ToolUse("bash", {"command": "echo inside > here"})), Reply("Done."))
    agent.response(say(agent, session))
    assert (project / "here").read_text() == "inside\n"
    assert not [frame for frame in agent.frames if str(frame.get("method")).startswith("terminal/")]


def test_the_question_of_a_change_compares_with_the_text_of_the_editor(
    messages_api: MessagesApi, tmp_path: Path, project: Path
) -> None:
    environment = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test-0123456789abcdef"}
    asks = ("--model", "claude-haiku-4-5", "--thinking", "off", "--approve", "writes")
    with AcpProcess(*asks, home=tmp_path, more=environment) as agent:
        session = opened(agent, project, **FILES)
        (project / "a.py").write_text("x = 1\n")
        edit = {"path": "a.py", "edits": [{"oldText": "y = 2", "newText": "y = 3"}]}
        whole = {"path": "a.py", "content": "unsaved = 1\ny = 4\n"}
        messages_api.add(Reply(ToolUse("edit", edit)), Reply(ToolUse("write", whole)), Reply("Done."))
        prompt = say(agent, session)
        since = 0
        for expected in ("y = 3", "y = 4"):
            agent.reply(agent.asked("fs/read_text_file", since=since), {"content": "unsaved = 1\ny = 2\n"})
            question = agent.asked("session/request_permission", since=since)
            shown = str(question["params"]["toolCall"]["content"])
            assert "unsaved = 1" in shown
            assert expected in shown
            assert "x = 1" not in shown
            no = next(option for option in question["params"]["options"] if option["kind"] == "reject_once")
            since = len(agent.frames)
            agent.reply(question, {"outcome": {"outcome": "selected", "optionId": no["optionId"]}})
        agent.response(prompt)
    assert (project / "a.py").read_text() == "x = 1\n"
