"""The permission gate: it asks about what will be done, and what was allowed once allows nothing else."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb.events import ToolOutput
from indus_nb.extensions.api import ExtensionApi
from indus_nb.messages import ToolResultMessage, text_of
from indus_nb.render.markup import plain
from indus_nb.session.dialogs import Select
from indus_nb.session.session import AgentSession
from indus_nb.tools import Approval, CallDescription, FunctionTool, ToolContext, ToolError, text_output
from indus_nb.tools.tool import Arguments

KEY = "sk-ant-api03-0123456789abcdefghij0123456789abcdefghij"


class User:
    """Answers every question with the option that begins so, and remembers the questions."""

    def __init__(self, session: AgentSession, answer: str) -> None:
        self.questions: list[Select] = []
        self.answer = answer
        self._ui = session.ui
        session.ui.attach(self)

    def __call__(self, frame: Any, /) -> None:
        if isinstance(frame, Select):
            self.questions.append(frame)
            chosen = next((option for option in frame.options if option.startswith(self.answer)), None)
            self._ui.answer(frame.id, chosen)


@pytest.fixture
def opened(opened):
    """Opens sessions with a permission gate."""
    return partial(opened, approve="writes", no_session=True)


async def call(session: AgentSession, api: MessagesApi, name: str, arguments: dict[str, Any]) -> ToolResultMessage:
    api.add(Reply(ToolUse(name, arguments)), Reply("Done."))
    await session.prompt("go")
    return next(m for m in reversed(session.messages) if isinstance(m, ToolResultMessage))


async def test_tools_that_only_read_are_not_asked_about_unless_all_are(opened, messages_api) -> None:
    for approve, asked in (("writes", 0), ("always", 1)):
        session = await opened(approve=approve)
        user = User(session, "Yes, once")
        await call(session, messages_api, "read", {"path": "missing.txt"})
        assert len(user.questions) == asked


async def test_the_user_is_asked_about_what_other_extensions_made_of_the_call(opened, messages_api) -> None:
    def changing(api: ExtensionApi) -> None:
        api.on("tool_call", lambda event, ctx: event.input.update(command="echo changed"))

    session = await opened(changing)
    user = User(session, "Yes, once")
    result = await call(session, messages_api, "bash", {"command": "echo hi"})
    assert "echo changed" in user.questions[0].title
    assert text_of(result.content) == "changed\n"


@pytest.mark.parametrize(
    ("allowed", "other"),
    [
        ({"command": "bash -c 'ls'"}, {"command": "bash -c 'touch made'"}),
        ({"command": "find .. -name x"}, {"command": "find .. -delete"}),
        ({"command": "env A=1"}, {"command": "env A=1 touch made"}),
        ({"command": "rm a"}, {"command": "rm ab"}),
        ({"command": "git status"}, {"command": "git statusx"}),
        ({"command": "ls .."}, {"command": "ls ..; touch made"}),
        ({"command": "ls .."}, {"command": "ls .. $(touch made)"}),
        ({"command": "*"}, {"command": "touch made"}),
    ],
)
async def test_what_was_allowed_for_good_allows_no_other_command(opened, messages_api, allowed, other) -> None:
    session = await opened()
    user = User(session, "Yes, and always in this session")
    await call(session, messages_api, "bash", allowed)
    user.answer = "No"
    await call(session, messages_api, "bash", other)
    assert len(user.questions) == 2
    assert not (session.store.cwd / "made").exists()


async def test_harmless_programs_may_be_allowed_with_any_words(opened, messages_api) -> None:
    session = await opened()
    user = User(session, "Yes, and always in this session: bash: ls …")
    for command in ("ls ..", "ls -l ..", "ls -s ../src"):
        await call(session, messages_api, "bash", {"command": command})
    assert len(user.questions) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"path": "other.txt", "content": "evil", "command": "notes.txt"},
        {"path": "../notes.txt", "content": "evil"},
        {"path": "notes.txt/../other.txt", "content": "evil"},
    ],
)
async def test_a_file_that_was_allowed_allows_no_other_file(opened, messages_api, other) -> None:
    session = await opened()
    user = User(session, "Yes, and always in this session")
    await call(session, messages_api, "write", {"path": "notes.txt", "content": "one"})
    await call(session, messages_api, "write", {"path": "./notes.txt", "content": "two"})
    assert len(user.questions) == 1
    user.answer = "No"
    await call(session, messages_api, "write", other)
    assert len(user.questions) == 2
    assert (session.store.cwd / "notes.txt").read_text() == "two"
    assert not (session.store.cwd / "other.txt").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"edits": [{"old_text": "good", "new_text": "EVIL"}]},
        {"edits": '[{"oldText": "good", "newText": "EVIL"}]'},
        {"edits": [{"oldText": "x", "newText": "harmless"}], "oldText": "good", "newText": "EVIL"},
    ],
)
async def test_a_change_is_shown_however_it_is_written(opened, messages_api, change) -> None:
    session = await opened()
    (session.store.cwd / "f.txt").write_text("good x\n")
    user = User(session, "Yes, once")
    await call(session, messages_api, "edit", {"path": "f.txt", **change})
    assert "EVIL" in (session.store.cwd / "f.txt").read_text()
    assert "+EVIL" in user.questions[0].title


async def test_a_question_too_long_to_be_shown_shows_beginning_and_end_and_cannot_be_allowed(
    opened, messages_api
) -> None:
    session = await opened()
    user = User(session, "No")
    content = f"beginning\n{'x' * 200_000}\nthe end"
    await call(session, messages_api, "write", {"path": "long.txt", "content": content})
    (question,) = user.questions
    assert "beginning" in question.title
    assert "the end" in question.title
    assert not any(option.startswith("Yes") for option in question.options)


async def test_a_file_that_is_none_does_not_hold_the_question_up(opened, messages_api) -> None:
    session = await opened()
    os.mkfifo(session.store.cwd / "pipe")
    user = User(session, "No")
    await call(session, messages_api, "write", {"path": "pipe", "content": "x"})
    assert "pipe" in user.questions[0].title


async def test_a_tool_under_the_name_of_a_built_in_one_is_asked_about_as_it_is(opened, messages_api) -> None:
    ran: list[str] = []

    def setup(api: ExtensionApi) -> None:
        @api.tool
        def read(path: str) -> str:
            """Read."""
            ran.append(path)
            return path

    session = await opened(setup)
    user = User(session, "No")
    await call(session, messages_api, "read", {"path": "x"})
    assert (len(user.questions), ran) == (1, [])


@pytest.mark.parametrize("fails", [False, True])
async def test_a_dry_run_is_told_to_the_user_alone_and_only_when_he_is_asked(
    opened, messages_api, *, fails: bool
) -> None:
    class Target(Arguments):
        target: str

    tried: list[str] = []

    async def run(arguments: Target, _context: ToolContext) -> ToolOutput:
        return text_output("done")

    def describe(default: CallDescription, arguments: Target) -> CallDescription:
        async def dry_run() -> str:
            tried.append(arguments.target)
            if fails:
                raise ValueError("by mistake")
            return f"It would print \u202e, and password={KEY}"

        return replace(default, approval=lambda: Approval("Deploy?", arguments.target, dry_run=dry_run))

    tool = FunctionTool("deploy", "Deploy.", Target, run, describe=describe)
    session = await opened(lambda api: api.register_tool(tool))
    user = User(session, "Yes, once")
    result = await call(session, messages_api, "deploy", {"target": "here"})
    (asked,) = user.questions
    assert ("It would print \\u202e" in plain(asked.title)) is not fails
    assert KEY not in asked.title
    assert asked.title.startswith("Deploy?\n\nhere")
    assert tried == ["here"]
    assert "done" in str(result.content)
    assert "It would print" not in str(messages_api.requests[-1].body)
    session.settings.approve = "never"
    await call(session, messages_api, "deploy", {"target": "there"})
    assert tried == ["here"]


async def test_a_tool_whose_question_fails_does_not_run_unasked(opened, messages_api) -> None:
    class Target(Arguments):
        target: str

    ran: list[str] = []

    async def run(arguments: Target, _context: ToolContext) -> ToolOutput:
        ran.append(arguments.target)
        return text_output("done")

    def describe(default: CallDescription, _arguments: Target) -> CallDescription:
        def approval() -> Approval:
            raise ToolError("by mistake")

        return replace(default, approval=approval)

    tool = FunctionTool("deploy", "Deploy.", Target, run, describe=describe)
    session = await opened(lambda api: api.register_tool(tool))
    user = User(session, "No")
    await call(session, messages_api, "deploy", {"target": "here"})
    assert (len(user.questions), ran) == (1, [])


@pytest.mark.parametrize("mode", [0o644, 0o640])
async def test_rules_that_others_may_read_or_change_are_the_users_alone_after_one_is_added(
    opened, messages_api, tmp_path: Path, mode: int
) -> None:
    rules = tmp_path / "agent" / "approved.json"
    rules.parent.mkdir(exist_ok=True)
    rules.write_text("{}")
    rules.chmod(mode)
    session = await opened()
    User(session, "Yes, and always in this folder")
    await call(session, messages_api, "bash", {"command": "touch made"})
    assert "touch made" in rules.read_text()
    assert stat.S_IMODE(rules.stat().st_mode) == 0o600


async def test_a_project_cannot_turn_the_asking_off(opened, messages_api, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text('{"approve": "writes"}')
    project = tmp_path / "work" / ".indusagi"
    project.mkdir()
    for own, counts in (("never", "writes"), ("writes", "writes"), ("always", "always")):
        (project / "settings.json").write_text(f'{{"approve": "{own}"}}')
        assert (await opened(approve=None)).settings.approve == counts


@pytest.mark.parametrize(
    "command",
    [
        "echo 1 #\x1b]0;\nrm -rf /\x07",  # a terminal takes the second line for the title of its window
        "echo '\u202e cba'",
        "echo 1\rrm -rf /",
        "ls #\u200b",
        "cat \U000e0041",
    ],
)
async def test_nothing_of_a_command_is_hidden_from_the_user(opened, messages_api, command: str) -> None:
    session = await opened()
    user = User(session, "No")
    await call(session, messages_api, "bash", {"command": command})
    (question,) = user.questions
    shown = plain(question.title).partition("\n\n")[2]
    assert shown == question.title.partition("\n\n")[2]
    assert shown.encode("raw_unicode_escape").decode("unicode_escape") == command
    assert question.options == ["Yes, once", "No"]


async def test_what_is_only_foreign_is_shown_as_it_is(opened, messages_api) -> None:
    session = await opened()
    user = User(session, "No")
    await call(session, messages_api, "bash", {"command": "echo '\tnaïve 日本語 😀'"})
    assert user.questions[0].title.partition("\n\n")[2] == "echo '\tnaïve 日本語 😀'"
