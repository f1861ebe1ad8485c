"""A session of a program in which nothing can define extensions: they are loaded when there are some."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb.core.session.session import AgentSession, ApproveMode
from indus_nb.extend.host import Extensions
from indus_nb.extend.standby import Standby
from indus_nb.start import SessionOptions, open_session

WRITE = ToolUse("write", {"path": "made.txt", "content": "new\n"})


@pytest.fixture
async def opened(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., AgentSession]]:
    # As in a process where no code of the user's has asked for what defines tools.
    monkeypatch.delitem(sys.modules, "indus_nb.extend.definitions", raising=False)
    sessions: list[AgentSession] = []

    def open_one(approve: ApproveMode = "never", *, trust: bool | None = None) -> AgentSession:
        options = SessionOptions(
            cwd=home / "work", model="claude-haiku-4-5", thinking="off", approve=approve, trust=trust
        )
        sessions.append(open_session(options, definable=False))
        return sessions[-1]

    yield open_one
    for session in sessions:
        await session.end()


async def test_without_extensions_nothing_is_loaded_and_tools_run(
    home: Path, messages_api: MessagesApi, opened: Callable[..., AgentSession]
) -> None:
    messages_api.add(Reply(WRITE), Reply("Done."))
    session = opened()
    await session.prompt("go")
    assert isinstance(session.hooks, Standby)
    assert (home / "work" / "made.txt").read_text() == "new\n"


async def test_a_call_that_needs_approval_does_not_run_where_nobody_can_be_asked(
    home: Path, messages_api: MessagesApi, opened: Callable[..., AgentSession]
) -> None:
    messages_api.add(Reply(WRITE, WRITE), Reply("Done."), Reply(WRITE), Reply("Done."))
    session = opened("writes")
    for _ in range(2):
        await session.prompt("go")
        assert isinstance(session.hooks, Extensions)
    results = [message for message in session.messages if message.role == "toolResult"]
    assert [("needs the user's approval" in str(result.content), result.is_error) for result in results] == [
        (True, True)
    ] * 3
    assert not (home / "work" / "made.txt").exists()


@pytest.mark.parametrize("where", ["agent/extensions", "work/.indusagi/extensions"])
async def test_an_extension_that_is_there_at_the_start_is_loaded(
    home: Path, opened: Callable[..., AgentSession], where: str
) -> None:
    (home / where).mkdir(parents=True)
    (home / where / "hello.py").write_text("def setup(api):\n    api.register_command('hello', print)\n")
    session = opened(trust=True)
    await session.start()
    assert [command["name"] for command in session.list_commands()] == ["hello"]


async def test_an_extension_that_has_come_meanwhile_is_loaded_with_the_next_session(
    home: Path, opened: Callable[..., AgentSession]
) -> None:
    session = opened()
    await session.start()
    assert isinstance(session.hooks, Standby)
    (home / "agent" / "extensions").mkdir(parents=True)
    (home / "agent" / "extensions" / "hello.py").write_text(
        "def setup(api):\n    api.register_command('hello', print)\n"
    )
    await session.new_session()
    assert [command["name"] for command in session.list_commands()] == ["hello"]


async def test_stream_rules_are_watched(
    home: Path, messages_api: MessagesApi, opened: Callable[..., AgentSession]
) -> None:
    (home / "agent" / "rules").mkdir(parents=True)
    (home / "agent" / "rules" / "no.md").write_text("---\ncondition: forbidden\n---\nSay something else.\n")
    messages_api.add(Reply("This is forbidden " * 20), Reply("Fine."))
    session = opened()
    await session.prompt("go")
    assert session.last_text == "Fine."
