"""What was said reaches the disk, or the user learns that it did not: full disks, lost directories, sudden ends."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from living import ending
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from rpc_process import RpcProcess, environment, indusagi

from indus_nb.base.errors import SessionFileError
from indus_nb.base.events import SessionSaveFailed
from indus_nb.base.messages import UserMessage
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.store import SessionStore
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.start import SessionOptions, open_session

ARGUMENTS = ("--model", "claude-haiku-4-5", "--thinking", "off", "--session-dir", "sessions")


@pytest.fixture
def more(messages_api: MessagesApi) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}


@pytest.fixture
def claude(more: dict[str, str], tmp_path: Path):
    with RpcProcess(*ARGUMENTS, home=tmp_path, more=more) as process:
        process.ask("get_state")
        yield process


def session_file(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "sessions").glob("*.jsonl")
    return path


def saved_texts(path: Path) -> list[str | None]:
    messages = [json.loads(line).get("message") for line in path.read_text().splitlines()]
    return [message["content"][0].get("text") for message in messages if message]


def fill_the_disk(pid: int, path: Path, room: int = 0) -> None:
    """Let no file of that process grow beyond the size of this one, and some room: writes fail as on a full disk."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (path.stat().st_size + room, resource.RLIM_INFINITY))


def make_room(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def answer_on_a_full_disk(claude: RpcProcess, messages_api: MessagesApi, tmp_path: Path, room: int = 0) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("The answer. ", gate, "x" * room)))
    claude.ask("prompt", message="first")
    assert gate.reached.wait()
    fill_the_disk(claude.pid, session_file(tmp_path), room)
    gate.open()


def test_an_answer_that_the_disk_does_not_take_is_told_and_saved_once_there_is_room(
    claude: RpcProcess, messages_api: MessagesApi, tmp_path: Path
) -> None:
    answer_on_a_full_disk(claude, messages_api, tmp_path)
    failed = claude.wait("session_save_failed")
    assert failed["unsaved"] == 1
    assert "File too large" in failed["error"]
    claude.wait("agent_settled")
    assert any("kept in memory" in problem for problem in claude.ask("get_commands")["data"]["problems"])
    make_room(claude.pid)
    claude.close_stdin()
    assert claude.wait_for_end() == 0
    assert saved_texts(session_file(tmp_path)) == ["first", "The answer. "]


@pytest.mark.parametrize("room", [0, 10_000])
def test_what_no_place_takes_at_the_end_is_told_with_the_exit_status_and_leaves_no_part_of_a_copy(
    more: dict[str, str], messages_api: MessagesApi, tmp_path: Path, room: int
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with RpcProcess(*ARGUMENTS, home=tmp_path, more={**more, "TMPDIR": str(temporary)}) as claude:
        claude.ask("get_state")
        answer_on_a_full_disk(claude, messages_api, tmp_path, room)
        claude.wait("agent_settled")
        claude.close_stdin()
        assert claude.wait_for_end() == 1
        assert "could not be saved anywhere" in claude.stderr
    assert saved_texts(session_file(tmp_path)) == ["first"]
    assert list(temporary.glob("indusagi-rescued-*")) == []


@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_prompt_whose_answer_is_not_saved_does_not_end_well(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path, mode: str
) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("The answer. ", gate)))
    with ending(
        subprocess.Popen(
            [sys.executable, "-m", "indus_nb", "--mode", mode, *ARGUMENTS, "first"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment(tmp_path, **more),
        )
    ) as process:
        assert gate.reached.wait()
        fill_the_disk(process.pid, session_file(tmp_path))
        gate.open()
        shown, complaints = process.communicate()
    assert process.returncode == 1
    assert "The answer." in shown
    assert "kept in memory" in (complaints if mode == "text" else shown)
    assert "could not be saved anywhere" in complaints


def test_a_session_whose_directory_is_gone_is_rescued_when_it_is_closed(
    messages_api: MessagesApi,
    more: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    messages_api.add(Reply("One."), lambda _: shutil.rmtree(tmp_path / "sessions") or Reply("Two."))
    options = SessionOptions(model="claude-haiku-4-5", cwd=tmp_path, session_dir=tmp_path / "sessions")
    with open_session(options) as session, caplog.at_level(logging.ERROR):
        session.run("first")
        assert session.all_problems == session.problems
        session.run("second")
        assert any("kept in memory" in problem for problem in session.all_problems)
    assert session.save_problem in session.problems
    assert str(session_file(tmp_path)) in session.save_problem
    assert "start a new session. The whole conversation was saved in" in caplog.text
    assert saved_texts(session_file(tmp_path)) == ["first", "One.", "second", "Two."]


def test_a_tool_result_that_was_told_is_in_the_file_while_the_next_call_runs(
    claude: RpcProcess, messages_api: MessagesApi, tmp_path: Path
) -> None:
    calls = [ToolUse("bash", {"command": command}) for command in ("echo one", "sleep 1000")]
    messages_api.add(Reply(*calls))
    claude.ask("prompt", message="first")
    claude.wait(lambda frame: frame["type"] == "message_end" and frame["message"]["role"] == "toolResult")
    claude.wait("tool_execution_start")
    os.kill(claude.pid, 9)
    claude.wait_for_end()
    assert saved_texts(session_file(tmp_path))[-1] == "one\n"


def test_a_session_that_another_program_changed_can_be_opened_again(
    claude: RpcProcess, messages_api: MessagesApi, tmp_path: Path
) -> None:
    messages_api.add(Reply("One."), Reply("Two."))
    claude.ask("prompt", message="first")
    claude.wait("agent_settled")
    path = session_file(tmp_path)
    last: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])
    other = {"type": "custom", "id": "00000000", "parentId": last["id"], "customType": "elsewhere"}
    with path.open("a") as file:
        file.write(json.dumps({**other, "timestamp": last["timestamp"]}) + "\n")
    claude.ask("prompt", message="lost")
    ended = claude.wait("agent_end")
    assert "Open the session again" in ended["messages"][-1]["errorMessage"]
    claude.wait("agent_settled")
    assert claude.ask("switch_session", sessionPath=str(path))["data"] == {"cancelled": False}
    assert claude.ask("get_state")["data"]["messageCount"] == 2
    claude.ask("prompt", message="second")
    claude.wait("agent_settled")
    assert saved_texts(path) == ["first", "One.", "second", "Two."]


def test_messages_that_still_wait_in_a_queue_at_the_end_are_named(claude: RpcProcess) -> None:
    claude.ask("steer", message="look at this as well")
    claude.close_stdin()
    assert claude.wait_for_end() == 0
    assert "look at this as well" in claude.stderr


@pytest.fixture
def claude_here(messages_api: MessagesApi, more: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    options = SessionOptions(model="claude-haiku-4-5", cwd=tmp_path, session_dir=tmp_path / "sessions")
    with open_session(options) as session:
        yield session


async def test_what_is_rescued_goes_on_from_where_the_conversation_stood(
    claude_here: AgentSession, messages_api: MessagesApi, tmp_path: Path
) -> None:
    messages_api.add(Reply("One."), Reply("Two."), lambda _: shutil.rmtree(tmp_path / "sessions") or Reply("Three."))
    await claude_here.prompt("first")
    await claude_here.prompt("second")
    second = [entry for entry in claude_here.store.entries if entry.type == "message"][2]
    await claude_here.navigate(second.id)
    await claude_here.prompt("third")
    claude_here.close()
    with SessionStore.open(session_file(tmp_path)) as rescued:
        texts = [entry.data["message"]["content"][0]["text"] for entry in rescued.branch() if entry.type == "message"]
    assert texts == ["first", "One.", "third", "Three."]


async def test_a_session_that_nothing_takes_is_not_left(
    claude_here: AgentSession, messages_api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: object) -> Reply:
        for place in (tmp_path / "sessions", tmp_path / "away"):
            shutil.rmtree(place, ignore_errors=True)
            place.write_text("in the way of a directory")
        return Reply("The answer.")

    messages_api.add(lose, Reply("And on."))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "away"))
    await claude_here.prompt("first")
    with SessionStore.create(tmp_path, tmp_path / "others") as other:
        other.append_message(UserMessage(content="of another session"))
    for leave in (claude_here.new_session, lambda: claude_here.switch_session(other.path)):
        with pytest.raises(SessionFileError):
            await leave()
    SessionStore.open(other.path).close()
    assert [message.role for message in claude_here.messages] == ["user", "assistant"]
    (tmp_path / "sessions").unlink()
    assert await claude_here.new_session()
    assert saved_texts(session_file(tmp_path)) == ["first", "The answer."]


def test_what_the_user_runs_belongs_to_the_session_in_which_it_began(
    claude: RpcProcess, messages_api: MessagesApi, tmp_path: Path
) -> None:
    messages_api.add(Reply("One."))
    claude.ask("prompt", message="first")
    claude.wait("agent_settled")
    claude.send({"id": "b", "type": "bash", "command": "echo begun; sleep 1000"})
    claude.wait("bash_execution_update")
    claude.send({"id": "n", "type": "new_session"})
    assert claude.answer_to("b")["data"]["cancelled"]
    assert claude.answer_to("n")["success"]
    assert claude.ask("get_messages")["data"]["messages"] == []
    assert "begun" in session_file(tmp_path).read_text()


def test_a_notebook_shows_that_an_answer_was_not_saved() -> None:
    transcript = Transcript("a model")
    transcript.feed(SessionSaveFailed(error="The disk is full. What was said is kept in memory.", unsaved=1))
    assert "Not saved: The disk is full." in str(transcript.blocks)


# Where nothing can ever be written


def place_below_a_file(tmp_path: Path) -> Path:
    """A directory that not even root can make."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "sessions"


KEPT = "This session is kept in memory only and ends with its program, for its file cannot be made: "


@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_prompt_is_answered_where_no_session_can_be_saved(tmp_path: Path, mode: str) -> None:
    place = place_below_a_file(tmp_path)
    done = indusagi(
        *("--provider", "offline", "--mode", mode, "compute 6*7", "compute 7*7"),
        home=tmp_path,
        INDUS_NB_SESSION_DIR=str(place),
    )
    assert done.returncode == 0
    assert "49" in done.stdout
    [line] = [line for line in (done.stderr + done.stdout).splitlines() if KEPT in line]
    assert line.count(str(place)) == 1
    assert all(remedy in line for remedy in ("HOME", "INDUS_NB_SESSION_DIR", "--no-session"))


@pytest.mark.parametrize("option", ["--continue", "--session=0192", "--fork=0192"])
def test_an_earlier_session_whose_place_cannot_be_read_is_an_error_with_advice(tmp_path: Path, option: str) -> None:
    place = str(place_below_a_file(tmp_path))
    done = indusagi("--provider", "offline", option, "hi", home=tmp_path, INDUS_NB_SESSION_DIR=place)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{place}: the sessions there cannot be listed" in done.stderr
    assert all(remedy in done.stderr for remedy in ("HOME", "INDUS_NB_SESSION_DIR", "--no-session"))


def test_over_rpc_one_event_says_that_nothing_is_saved_and_the_session_goes_on(tmp_path: Path) -> None:
    more = {"INDUS_NB_SESSION_DIR": str(place_below_a_file(tmp_path))}
    with RpcProcess("--provider", "offline", home=tmp_path, more=more) as agent:
        agent.ask("set_session_name", name="sums")
        for prompt in ("compute 6*7", "compute 7*7"):
            agent.ask("prompt", message=prompt)
            agent.wait("agent_settled")
        assert agent.ask("get_state")["data"].get("sessionFile") is None
        assert len(agent.ask("get_messages")["data"]["messages"]) >= 4
        assert any(problem.startswith(KEPT) for problem in agent.ask("get_commands")["data"]["problems"])
        agent.close_stdin()
        assert agent.wait_for_end() == 0
        [failed] = [frame for frame in agent.frames if frame.get("type") == "session_save_failed"]
        assert failed["error"].startswith(KEPT)


def test_in_python_it_is_logged_and_stands_among_the_problems(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_session(SessionOptions(provider="offline", session_dir=place_below_a_file(tmp_path))) as session:
        assert "42" in session.run("compute 6*7")
        assert "49" in session.run("compute 7*7")
        assert [problem for problem in session.problems if problem.startswith(KEPT)]
    assert session.save_problem is None
    [record] = [record for record in caplog.records if KEPT in record.message]
    assert record.levelno == logging.WARNING


AS_ANOTHER_USER = """
import os
from indus_nb import SessionOptions, open_session

def ask(**options):
    with open_session(SessionOptions(provider="offline", **options)) as session:
        print(session.run("hello"))

ask(no_session=True)  # imports what the other user may not be able to read
os.setgroups([])
os.setgid(54321)
os.setuid(54321)
ask()
"""
PLACES = ["read-only", "of another user", "shared, with sessions of another user", "of nobody"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("place", PLACES)
def test_another_user_is_answered_where_they_may_not_write(tmp_path: Path, place: str) -> None:
    agent = tmp_path / "agent"
    (agent / "sessions").mkdir(parents=True)
    if place == "shared, with sessions of another user":
        agent.chmod(0o1777)
    (agent / "sessions").chmod(0o700 if place != "read-only" else 0o555)
    if place == "read-only":
        os.chown(agent / "sessions", 54321, 54321)
    for directory in (tmp_path, *tmp_path.parents[:2]):
        directory.chmod(0o755)
    (tmp_path / "program.py").write_text(AS_ANOTHER_USER)
    home = "/" if place == "of nobody" else str(tmp_path)
    world = {**environment(tmp_path), "HOME": home, "INDUS_NB_AGENT_DIR": str(agent)}
    if place == "of nobody":
        del world["INDUS_NB_AGENT_DIR"]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")], cwd="/", env=world, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("I am no language model")) == (0, 2), done.stderr
    assert done.stderr.count(KEPT) == 1
