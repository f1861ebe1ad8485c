"""The permission gate: it asks about what will be done, and what was allowed once allows nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ToolCall, ToolResultMessage, text_of
from indus_nb.core.session import questions
from indus_nb.core.session.dialogs import Cancel, Select
from indus_nb.core.session.session import AgentSession
from indus_nb.extend.api import ExtensionApi
from indus_nb.render.markup import plain
from indus_nb.safety.effects import Effect
from indus_nb.tools import Approval, CallDescription, FunctionTool, ToolContext, ToolError, text_output
from indus_nb.tools.tool import Arguments

KEY = "sk-ant-api03-0123456789abcdefghij0123456789abcdefghij"


class User:
    """Answers every question with the option that begins so, and remembers the questions."""

    def __init__(self, session: AgentSession, answer: str) -> None:
        self.questions: list[Select] = []
        self.by_enter: list[str | None] = []
        self.answer = answer
        self._ui = session.ui
        session.ui.attach(self)

    def __call__(self, frame: Any, /) -> None:
        if isinstance(frame, Select):
            self.questions.append(frame)
            if (question := self._ui.question(frame.id)) is not None:
                self.by_enter.append(question.default)
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
        api.on("tool_call", lambda event, ctx: event.input.update(command="echo changed | tee made"))

    session = await opened(changing)
    user = User(session, "Yes, once")
    result = await call(session, messages_api, "bash", {"command": "echo hi | tee made"})
    assert "echo changed" in user.questions[0].title
    assert text_of(result.content) == "changed\n"


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
    await call(session, messages_api, "write", {"path": "out/made", "content": "x"})
    assert json.loads(rules.read_text()) == {str(tmp_path / "work"): [f"writes_file: {tmp_path}/work/out/"]}
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
        "rm notes.txt #\x1b]0;\nrm -rf /\x07",  # a terminal takes the second line for the title of its window
        "rm notes.txt; echo '\u202e cba'",
        "rm notes.txt\rrm other.txt",
        "rm notes.txt #\u200b",
        "rm notes.txt; cat \U000e0041",
    ],
)
async def test_nothing_of_a_command_is_hidden_from_the_user(opened, messages_api, tmp_path: Path, command: str) -> None:
    for name in ("notes.txt", "notes.txt\rrm"):
        (tmp_path / "work" / name).write_text("x")
    session = await opened()
    user = User(session, "No")
    await call(session, messages_api, "bash", {"command": command})
    (question,) = user.questions
    shown = plain(question.title).split("\n\n")[1]
    assert shown == question.title.split("\n\n")[1]
    assert shown.encode("raw_unicode_escape").decode("unicode_escape") == command
    assert question.options == ["Yes, once", "No"]


@pytest.mark.parametrize(("command", "by_enter"), [("rm notes.txt", "No"), ("touch made", "Yes, once")])
async def test_enter_deletes_nothing(opened, messages_api, tmp_path: Path, command: str, by_enter: str) -> None:
    (tmp_path / "work" / "notes.txt").write_text("x")
    session = await opened()
    user = User(session, "No")
    await call(session, messages_api, "bash", {"command": command})
    assert user.by_enter == [by_enter]


async def test_what_is_only_foreign_is_shown_as_it_is(opened, messages_api) -> None:
    session = await opened()
    user = User(session, "No")
    await call(session, messages_api, "bash", {"command": "echo '\tnaïve 日本語 😀' > made"})
    assert user.questions[0].title.partition("\n\n")[2] == "echo '\tnaïve 日本語 😀' > made"


# Calls that are tried where nothing can happen

NEW = ["new_names", "late", "makes late"]
CHANGED = ["changes_variable", "df", "changes df: 5 → 4 rows"]
WRITTEN = ["writes_file", "{cwd}/out/a.csv", "writes out/a.csv"]
DRAWN = ["draws_random", "numpy", "draws random numbers"]
READ = ["reads_outside", "{cwd}/../data/a.txt", "reads ../data/a.txt"]
OPENED = ["unknown", "", "uses a connection"]


class Tried(Arguments):
    effects: list[list[str]]
    outcome: str = ""
    holds: bool = True


def trying(
    session_cwd: Path, trial: Callable[[], asyncio.Future[Any] | None] = lambda: None
) -> Callable[[ExtensionApi], None]:
    """An extension with a tool that was tried and had the effects that it is called with."""

    async def run(arguments: Tried, context: ToolContext) -> ToolOutput:
        gate = context.gate
        if gate is None:
            return text_output("ran as it is")
        effects = [Effect(kind, what.format(cwd=session_cwd), words) for kind, what, words in arguments.effects]
        goes_on = trial()
        may = arguments.holds or not effects
        if goes_on is None and may and await gate.covers(effects):
            return text_output("done where it was tried")
        answer = await gate.ask(effects, outcome=arguments.outcome, holds=arguments.holds, trial=goes_on)
        return text_output({"run": "ran after a yes", "wait": "waited"}[answer])

    def describe(default: CallDescription, arguments: Tried) -> CallDescription:
        return replace(default, tries=True, approval=lambda: Approval("Run this?", "the code"))

    tool = FunctionTool("act", "Act.", Tried, run, describe=describe)
    return lambda api: api.register_tool(tool)


@pytest.fixture
def trial_session(opened, tmp_path: Path):
    async def open_one(
        mode: str = "effects", trial: Callable[[], asyncio.Future[Any] | None] = lambda: None, **chosen: str
    ) -> AgentSession:
        session = await opened(trying(tmp_path / "work", trial), approve=mode)
        session.settings.effects = chosen
        return session

    return open_one


async def acted(session: AgentSession, api: MessagesApi, *effects: list[str], **more: Any) -> str:
    return text_of((await call(session, api, "act", {"effects": [*effects], **more})).content)


@pytest.mark.parametrize(
    ("mode", "effects", "asked"),
    [
        ("effects", [], False),
        ("writes", [], False),
        ("effects", [NEW, DRAWN], False),
        ("writes", [NEW], True),
        ("effects", [NEW, CHANGED], True),
        ("effects", [WRITTEN], True),
        ("effects", [OPENED], True),
    ],
)
async def test_a_mode_asks_about_what_a_trial_found(trial_session, messages_api, mode, effects, *, asked: bool) -> None:
    session = await trial_session(mode)
    user = User(session, "No")
    said = await acted(session, messages_api, *effects)
    assert len(user.questions) == int(asked)
    assert ("did not allow" if asked else "done where it was tried") in said


@pytest.mark.parametrize(("mode", "asked"), [("never", 0), ("always", 1)])
async def test_where_all_or_no_calls_are_asked_about_none_is_tried(trial_session, messages_api, mode, asked) -> None:
    session = await trial_session(mode)
    user = User(session, "Yes, once")
    assert await acted(session, messages_api, CHANGED) == "ran as it is"
    assert len(user.questions) == asked


async def test_the_question_begins_with_the_effects_then_shows_the_code_then_the_preview(
    trial_session, messages_api
) -> None:
    session = await trial_session()
    user = User(session, "Yes, once")
    outcome = f"prints \u202e and password={KEY}"
    assert await acted(session, messages_api, CHANGED, WRITTEN, outcome=outcome) == "ran after a yes"
    heading, code, preview = user.questions[0].title.split("\n\n")
    assert heading == "This changes df: 5 → 4 rows and writes out/a.csv. Run this?"
    assert code == "the code"
    assert preview.startswith("prints \\u202e")
    assert KEY not in preview
    assert outcome not in str(messages_api.requests[-1].body)


async def test_of_many_effects_none_is_hidden(trial_session, messages_api) -> None:
    session = await trial_session()
    user = User(session, "No")
    effects = [["deletes", f"/{n}", f"deletes f{n}\u202e"] for n in range(9)]
    await acted(session, messages_api, *effects)
    assert all(f"deletes f{n}\\u202e" in user.questions[0].title for n in range(9))


@pytest.mark.parametrize(("last", "warns"), [("new_names", False), ("deletes", True)])
async def test_effects_without_a_place_in_the_heading_warn_unless_they_are_new_names_alone(
    trial_session, messages_api, last: str, *, warns: bool
) -> None:
    session = await trial_session()
    user = User(session, "No")
    effects = [CHANGED, ["new_names", "a", "adds a"], ["new_names", "b", "adds b"], [last, "c", "adds c"]]
    await acted(session, messages_api, *effects, outcome="prints 1")
    heading, _, preview = user.questions[0].title.split("\n\n")
    assert "It also adds c." in (heading if warns else preview)
    assert preview.endswith("prints 1")


async def test_what_was_only_tried_is_never_allowed_for_good_where_it_cannot_be_held_to_that(
    trial_session, messages_api
) -> None:
    session = await trial_session(changes_variable="allow")
    user = User(session, "Yes, once")
    assert await acted(session, messages_api, CHANGED, holds=False) == "ran after a yes"
    assert user.questions[0].options == ["Yes, once", "No"]
    assert await acted(session, messages_api, NEW, holds=False) == "ran after a yes"


async def test_a_question_that_comes_in_spite_of_a_rule_for_its_variable_says_why(trial_session, messages_api) -> None:
    session = await trial_session()
    user = User(session, "Yes, and always in this session: may change df")
    assert await acted(session, messages_api, CHANGED) == "ran after a yes"
    await acted(session, messages_api, CHANGED, holds=False)
    first, second = (question.title for question in user.questions)
    why = "Your rule for `df` covers new values that can be taken over from a trial, and not changes inside of"
    assert (why in first, why in second) == (False, True)


async def test_one_answer_allows_all_effects_of_a_question_for_good(
    trial_session, messages_api, tmp_path: Path
) -> None:
    session = await trial_session()
    user = User(session, "Yes, and always in this session: may write below out/, may change df")
    await acted(session, messages_api, CHANGED, WRITTEN, NEW)
    for effect in (CHANGED, WRITTEN, NEW):
        assert await acted(session, messages_api, effect) == "done where it was tried"
    assert len(user.questions) == 1
    assert not any("in this folder" in option for option in user.questions[0].options)  # df is one kernel's
    await acted(session, messages_api, CHANGED, OPENED)
    assert user.questions[1].options == ["Yes, once", "No"]


async def test_what_is_allowed_in_a_directory_counts_in_later_sessions(trial_session, messages_api) -> None:
    session = await trial_session()
    user = User(session, "Yes, and always in this folder: may write below out/")
    await acted(session, messages_api, WRITTEN)
    later = await trial_session()
    assert await acted(later, messages_api, WRITTEN) == "done where it was tried"
    assert len(user.questions) == 1


async def test_an_effect_that_a_setting_denies_is_not_asked_about(trial_session, messages_api) -> None:
    session = await trial_session(changes_variable="deny", writes_file="deny")
    user = User(session, "Yes")
    for holds in (True, False):
        said = await acted(session, messages_api, NEW, CHANGED, holds=holds)
        assert "changes df" in said
        assert "setting `effects` denies `changes_variable`" in said
    result = await call(session, messages_api, "write", {"path": "a.txt", "content": "x"})
    assert "denies `writes_file`" in text_of(result.content)
    assert not (session.store.cwd / "a.txt").exists()
    assert user.questions == []


async def test_an_effect_that_a_setting_allows_is_not_asked_about(opened, messages_api) -> None:
    session = await opened()
    session.settings.effects = {"writes_file": "allow"}
    user = User(session, "No")
    await call(session, messages_api, "write", {"path": "a.txt", "content": "x"})
    assert (session.store.cwd / "a.txt").read_text() == "x"
    assert user.questions == []


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        "../outside.txt",
        "Makefile",
        "conftest.py",
        "run.sh",
        "book.ipynb",
        ".env",
    ],
)
async def test_a_setting_allows_no_file_that_no_rule_could(opened, messages_api, path) -> None:
    session = await opened()
    session.settings.effects = {"writes_file": "allow"}
    (session.store.cwd / "run.sh").write_text("true")
    (session.store.cwd / "run.sh").chmod(0o755)
    before = (session.store.cwd / path).exists()
    user = User(session, "No")
    await call(session, messages_api, "write", {"path": path, "content": "x"})
    assert len(user.questions) == 1
    assert not [option for option in user.questions[0].options if "always" in option]
    assert (session.store.cwd / path).exists() == before


async def test_where_nobody_can_be_asked_effects_do_not_happen(trial_session, messages_api) -> None:
    session = await trial_session()
    assert "nobody can be asked" in await acted(session, messages_api, CHANGED)
    assert await acted(session, messages_api, NEW) == "done where it was tried"


async def test_a_call_with_a_secret_is_asked_about_before_it_is_tried(trial_session, messages_api, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "plain-Value-of-a-token-77")
    session = await trial_session()
    user = User(session, "No")
    messages_api.add(Reply("ok"))
    await session.prompt("it is plain-Value-of-a-token-77")
    await acted(session, messages_api, NEW, outcome="[secret GITHUB_TOKEN]")
    assert len(user.questions) == 1
    assert user.questions[0].options == ["Yes, once", "No"]


async def test_a_question_about_a_trial_is_withdrawn_when_that_ends(trial_session, messages_api) -> None:
    trial: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    session = await trial_session(trial=lambda: trial)
    shown: list[Any] = []

    def host(frame: Any, /) -> None:
        shown.append(frame)
        if isinstance(frame, Select):
            trial.set_result(None)

    session.ui.attach(host)
    assert await acted(session, messages_api, outcome="no effect so far") == "waited"
    asked, over = shown
    assert asked.options == ["Yes, run it here", "No", "Wait for its end"]
    assert isinstance(over, Cancel)
    assert over.target_id == asked.id
    assert session.ui.open_dialogs == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [("Yes, run it here", "ran after a yes"), ("Wait", "waited"), ("No", "did not allow"), ("?", "did not allow")],
)
async def test_a_trial_that_takes_long_is_waited_for_run_or_given_up(
    trial_session, messages_api, answer: str, said: str
) -> None:
    session = await trial_session(trial=lambda: asyncio.get_running_loop().create_future())
    User(session, answer)
    assert said in await acted(session, messages_api)


async def test_the_result_of_a_call_that_the_user_refused_tells_front_ends_so_and_no_other_failure_does(
    trial_session, messages_api
) -> None:
    session = await trial_session()
    user = User(session, "No")
    for name, arguments in (("write", {"path": "a.txt", "content": "x"}), ("act", {"effects": [CHANGED]})):
        result = await call(session, messages_api, name, arguments)
        assert (result.is_error, result.details) == (True, {"refusedByUser": True})
    user.answer = "Yes, once"
    result = await call(session, messages_api, "write", {"path": ".", "content": "x"})
    assert (result.is_error, result.details) == (True, {})


async def test_enter_does_nothing_that_cannot_be_undone(trial_session, messages_api) -> None:
    session = await trial_session()
    user = User(session, "No")
    lock = ["changes_variable", "lock", "changes lock (cannot be undone: a lock was taken or released)"]
    for effects in ([CHANGED], [CHANGED, lock]):
        await call(session, messages_api, "act", {"effects": effects})
    assert user.by_enter == ["Yes, once", "No"]


async def test_a_trial_that_nobody_can_be_asked_about_is_waited_for(trial_session, messages_api) -> None:
    session = await trial_session(trial=lambda: asyncio.get_running_loop().create_future())
    assert await acted(session, messages_api) == "waited"


async def test_a_question_from_within_a_tool_names_the_sub_agent_that_called_it(trial_session) -> None:
    session = await trial_session()
    user = User(session, "Yes, once")
    token = questions.subagent.set("agent 2 (books)")
    verdict = await session.state.hooks.tool_call(ToolCall(id="1", name="act", arguments={}), {"effects": []})
    questions.subagent.reset(token)
    assert verdict.gate is not None
    await verdict.gate.ask([Effect("deletes", "/a", "deletes a")])
    assert user.questions[0].title.startswith("agent 2 (books) asks: This deletes a.")


async def test_a_trial_may_read_what_the_user_has_opened(trial_session, messages_api, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("x")
    session = await trial_session()
    User(session, f"Yes, and always in this session: may read below {tmp_path}/data/")
    await call(session, messages_api, "read", {"path": "../data/a.txt"})
    verdict = await session.state.hooks.tool_call(ToolCall(id="1", name="act", arguments={}), {"effects": []})
    assert verdict.gate is not None
    assert tmp_path / "data" in verdict.gate.readable


async def test_what_the_user_allowed_the_agent_for_a_directory_counts_for_no_other_program(
    trial_session, messages_api, tmp_path: Path
) -> None:
    session = await trial_session()
    user = User(session, "Yes, and always in this folder: may write below out/")
    await acted(session, messages_api, WRITTEN)
    user.answer = "Yes, and always in this session"
    for asked in (2, 2):  # the second time by the rule for its session
        more = {"caller": "Claude Code", "offered": ["act"]}
        _, failed = await session.outside.call("act", {"effects": [WRITTEN]}, **more)
        assert (failed, len(user.questions)) == (False, asked)
    assert user.questions[1].title.startswith("Claude Code asks: This writes out/a.csv.")
    assert not any("folder" in option for option in user.questions[1].options)


async def test_a_tool_that_only_reads_has_no_effect_that_could_be_denied(opened, messages_api) -> None:
    def setup(api: ExtensionApi) -> None:
        @api.tool(read_only=True)
        def weather(city: str) -> str:
            """Tell the weather."""
            return f"fine in {city}"

    for mode in ("effects", "always"):
        session = await opened(setup, approve=mode)
        session.settings.effects = {"unknown": "deny"}
        User(session, "Yes, once")
        result = await call(session, messages_api, "weather", {"city": "Rome"})
        assert text_of(result.content) == "fine in Rome"


async def test_a_tool_of_somebody_elses_is_allowed_by_its_name_for_the_session_only(opened, messages_api) -> None:
    def setup(api: ExtensionApi) -> None:
        @api.tool
        def order(what: str) -> str:
            """Order something."""
            return f"ordered {what}"

    session = await opened(setup)
    user = User(session, "Yes, and always in this session: may call order with any arguments")
    for what in ("tea", "milk"):
        await call(session, messages_api, "order", {"what": what})
    assert [question.options for question in user.questions] == [
        ["Yes, once", "Yes, and always in this session: may call order with any arguments", "No"]
    ]


async def test_no_trial_passes_for_a_tool_that_was_allowed_by_its_name(trial_session, messages_api) -> None:
    session = await trial_session()
    forged = ["unknown", "tool act", "calls act"]
    user = User(session, "Yes")
    await acted(session, messages_api, forged)
    assert user.questions[0].options == ["Yes, once", "No"]


async def test_reading_is_allowed_for_good_to_trials_and_to_nothing_that_is_not_held(
    trial_session, messages_api, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    session = await trial_session()
    user = User(session, f"Yes, and always in this session: may read below {tmp_path}/data/")
    for effects in ([READ], [READ, NEW]):
        assert await acted(session, messages_api, *effects, holds=False) == "ran after a yes"
    user.answer = "No"
    assert "did not allow" in await acted(session, messages_api, READ, CHANGED, holds=False)
    assert user.questions[2].options == ["Yes, once", "No"]
    verdict = await session.state.hooks.tool_call(ToolCall(id="1", name="act", arguments={}), {"effects": []})
    assert verdict.gate is not None
    assert tmp_path / "data" in verdict.gate.readable
