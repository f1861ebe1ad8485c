"""Every example of docs/examples does in a session what it says, and docs/extensions.md says what is so.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/test_examples.py`` writes the page's table of events anew.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from openai_api import OpenAIApi

from indus_nb import agent
from indus_nb.base.messages import ToolResultMessage, UserMessage, text_of
from indus_nb.core.session.dialogs import Confirm, Editor, Input, Notify, Select, SetStatus, SetWidget, UiFrame
from indus_nb.core.session.session import AgentSession
from indus_nb.extend import events as ev
from indus_nb.start import SessionOptions, open_session

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS / "examples"
PAGE = DOCS / "extensions.md"
LONG = "word " * 400


class User:
    """Answers dialogs one after the other, and keeps all frames; whatever is asked beyond that is a mistake."""

    def __init__(self, session: AgentSession, *answers: str | bool | None) -> None:
        self.frames: list[UiFrame] = []
        self._answers = list(answers)
        self._ui = session.ui
        session.ui.attach(self)

    def __call__(self, frame: UiFrame) -> None:
        self.frames.append(frame)
        if isinstance(frame, Select | Confirm | Input | Editor):
            asyncio.get_running_loop().call_soon(self._ui.answer, frame.id, self._answers.pop(0))

    def shown(self, kind: type[UiFrame]) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]


@pytest.fixture
def home(home: Path) -> Path:
    """A home with the agent's own directory."""
    (home / "agent").mkdir()
    return home


@pytest.fixture
async def opened(home: Path):
    sessions: list[AgentSession] = []
    failures: list[str] = []

    async def open_one(example: str, *, fails: bool = False, **wishes: Any) -> AgentSession:
        options = {"model": "claude-haiku-4-5", "thinking": "off", "cwd": home / "work", **wishes}
        session = open_session(SessionOptions(extensions=[EXAMPLES / f"{example}.py"], **options))
        sessions.append(session)
        if not fails:
            session.subscribe(lambda e: failures.append(e.error) if e.type == "extension_error" else None)
            await session.start()
        return session

    yield open_one
    for session in sessions:
        await session.end()
    agent.forget()
    assert failures == []


def results(session: AgentSession) -> list[ToolResultMessage]:
    return [message for message in session.messages if isinstance(message, ToolResultMessage)]


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


# --- permission_gate -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_command_of_the_list_runs_only_if_the_user_says_yes(opened, messages_api, home, allowed) -> None:
    session = await opened("permission_gate")
    user = User(session, allowed)
    (home / "work" / "kept").touch()
    messages_api.add(
        Reply(ToolUse("bash", {"command": "ls"}), ToolUse("bash", {"command": "rm -f kept"})), Reply("Ok.")
    )
    await session.prompt("go")
    (question,) = user.shown(Confirm)
    assert question.message.startswith("rm -f kept")
    assert (home / "work" / "kept").exists() is not allowed
    assert [result.is_error for result in results(session)] == [False, not allowed]


async def test_a_command_of_the_list_does_not_run_where_nobody_can_be_asked(opened, messages_api, home) -> None:
    session = await opened("permission_gate")
    (home / "work" / "kept").touch()
    messages_api.add(Reply(ToolUse("bash", {"command": "true; rm --force kept"})), Reply("Ok."))
    await session.prompt("go")
    assert (home / "work" / "kept").exists()
    assert "did not allow" in text_of(results(session)[0].content)


# --- protected_paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [".env", "src/.env.local", ".git/hooks/pre-commit", "@.ENV", "link/config", "src/../key.pem"]
)
async def test_protected_files_are_not_written_by_any_name(opened, messages_api, home, path) -> None:
    session = await opened("protected_paths")
    folder = home / "work"
    (folder / ".git").mkdir()
    (folder / "link").symlink_to(".git")
    messages_api.add(Reply(ToolUse("write", {"path": path, "content": "x"})), Reply("Ok."))
    await session.prompt("go")
    (result,) = results(session)
    assert "protected" in text_of(result.content)
    assert sorted(item.name for item in folder.rglob("*")) == [".git", "link"]


async def test_other_files_are_written_and_protected_ones_read(opened, messages_api, home) -> None:
    session = await opened("protected_paths")
    (home / "work" / ".env").write_text("A=1")
    calls = [ToolUse("write", {"path": "environment.md", "content": "x"}), ToolUse("read", {"path": ".env"})]
    messages_api.add(Reply(*calls), Reply("Ok."))
    await session.prompt("go")
    assert [result.is_error for result in results(session)] == [False, False]
    assert (home / "work" / "environment.md").exists()


# --- todo_tool -------------------------------------------------------------------------------------------------------


async def test_the_todo_list_is_the_one_of_the_branch(opened, messages_api) -> None:
    session = await opened("todo_tool")
    user = User(session)

    async def call(**arguments: Any) -> str:
        messages_api.add(Reply(ToolUse("todo", arguments)), Reply("Ok."))
        await session.prompt("go")
        return text_of(results(session)[-1].content)

    def shown() -> list[str] | None:
        return user.shown(SetWidget)[-1].widget_lines

    await call(action="add", text="write")
    assert await call(action="add", text="test") == "1. [ ] write\n2. [ ] test"
    early = session.store.leaf_id
    assert await call(action="finish", number=1) == "1. [x] write\n2. [ ] test"
    assert "no item 7" in await call(action="remove", number=7)
    late = session.store.leaf_id
    await session.navigate(early)
    assert shown() == ["1. [ ] write", "2. [ ] test"]
    assert await call(action="remove", number=1) == "1. [ ] test"
    await session.navigate(late)
    assert shown() == ["1. [x] write", "2. [ ] test"]
    await session.prompt("/todos")
    assert user.shown(Notify)[-1].message == "1. [x] write\n2. [ ] test"


async def test_the_todo_list_is_there_again_in_a_resumed_session_and_gone_in_a_new_one(opened, messages_api) -> None:
    first = await opened("todo_tool")
    messages_api.add(Reply(ToolUse("todo", {"action": "add", "text": "write"})), Reply("Ok."))
    await first.prompt("go")
    path = first.store.path
    await first.end()
    again = await opened("todo_tool", session=str(path))
    user = User(again)
    assert user.shown(SetWidget)[-1].widget_lines == ["1. [ ] write"]
    await again.new_session()
    assert user.shown(SetWidget)[-1].widget_lines is None


# --- release_command -------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(home: Path) -> Path:
    folder = home / "work"
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", "me")
    git(folder, "config", "user.email", "me@localhost")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "Begin")
    return folder


async def test_a_release_is_tagged_with_the_version_and_notes_that_the_user_gives(opened, repository) -> None:
    git(repository, "tag", "v1.3.9")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "Mend it")
    session = await opened("release_command")
    user = User(session, "another version", "3.0.0", "# All new\n\n- Mend it", True)
    await session.prompt("/release")
    assert user.shown(Select)[0].options == ["1.3.10", "1.4.0", "2.0.0", "another version"]
    assert user.shown(Editor)[0].prefill == "- Mend it"
    assert git(repository, "tag", "--list", "--format=%(contents)", "v3.0.0") == "# All new\n\n- Mend it"
    assert "Tagged v3.0.0" in user.shown(Notify)[-1].message


@pytest.mark.parametrize("answers", [[None], ["0.1.0", None], ["0.1.0", "notes", False]])
async def test_a_release_that_is_dismissed_at_any_question_leaves_no_tag(opened, repository, answers) -> None:
    session = await opened("release_command")
    User(session, *answers)
    await session.prompt("/release")
    assert git(repository, "tag") == ""


@pytest.mark.parametrize(("arguments", "told"), [("1.0.0", "nobody is here"), ("--force", "no version")])
async def test_a_release_says_why_it_cannot_be_made(opened, repository, arguments, told) -> None:
    session = await opened("release_command", fails=True)
    failures: list[Any] = []
    session.subscribe(lambda event: failures.append(event) if event.type == "extension_error" else None)
    if arguments == "--force":
        User(session)
    await session.prompt(f"/release {arguments}")
    (failure,) = failures
    assert (failure.event, told in failure.error) == ("command", True)
    assert git(repository, "tag") == ""


# --- own_compaction --------------------------------------------------------------------------------------------------


async def test_the_own_summary_keeps_requests_and_files_through_several_compactions(opened, messages_api, home) -> None:
    (home / "agent" / "settings.json").write_text('{"compaction": {"keepRecentTokens": 100, "reserveTokens": 2000}}')
    session = await opened("own_compaction")
    messages_api.add(Reply(ToolUse("write", {"path": "a.py", "content": "1"})), Reply(LONG))
    await session.prompt("first, write a.py")
    for text in ("second", "third"):
        messages_api.add(Reply(LONG))
        await session.prompt(text)
        await session.compact()
    asked = len(messages_api.requests)
    summary = session.messages[0].summary
    assert "- first, write a.py\n- second" in summary
    assert "<modified-files>\na.py" in summary
    assert len(summary) < 2000
    assert asked == 4  # none of them for a summary
    messages_api.add(Reply(LONG))
    messages_api.default = "THE MODEL'S"
    await session.prompt("fourth")
    await session.compact("what matters")
    assert "THE MODEL'S" in session.messages[0].summary


# --- local_provider --------------------------------------------------------------------------------------------------


class LocalServer(OpenAIApi):
    """Tells which models it has, too."""

    def _handler(self) -> Any:
        def tell_models(handler: Any) -> None:
            body = json.dumps({"data": [{"id": "small:1b"}, {"id": "large:8b"}]}).encode()
            handler.send_response(200 if handler.path == "/v1/models" else 404)
            handler.send_header("content-length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        return type("LocalHandler", (super()._handler(),), {"do_GET": tell_models})


async def test_a_local_server_answers_from_the_start_without_a_key(opened, monkeypatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with LocalServer(Reply("From here.")) as server:
        flags = {"local-url": server.v1, "local-model": "large:8b"}
        session = await opened("local_provider", model=None, flags=flags)
        assert [model.id for model in session.available_models() if model.provider == "local"] == [
            "small:1b",
            "large:8b",
        ]
        await session.prompt("go")
        assert session.last_text == "From here."
        assert server.requests[0].body["model"] == "large:8b"


async def test_a_local_server_that_is_not_there_is_named(opened, home) -> None:
    session = await opened("local_provider", fails=True, flags={"local-url": "http://127.0.0.1:9/v1"})
    failures: list[Any] = []
    session.subscribe(lambda event: failures.append(event) if event.type == "extension_error" else None)
    await session.start()
    assert "http://127.0.0.1:9/v1/models" in failures[0].error


# --- shorthand_input -------------------------------------------------------------------------------------------------


async def test_shorthands_become_what_they_stand_for_and_other_words_stay(opened, messages_api) -> None:
    session = await opened("shorthand_input")
    user = User(session)
    messages_api.add(Reply("Ok."))
    await session.prompt("?explain main.py ?unknown why?brief ?brief")
    (said,) = (message for message in session.messages if isinstance(message, UserMessage))
    assert text_of(said.content) == (
        "Explain step by step, for somebody who knows the language but not this project: "
        "main.py ?unknown why?brief Answer in at most three sentences."
    )
    await session.prompt("/shorthands")
    assert "?tests: Run the tests." in user.shown(Notify)[0].message


# --- status_line -----------------------------------------------------------------------------------------------------


async def test_the_status_grows_with_each_turn_and_is_right_after_resuming(opened, messages_api) -> None:
    session = await opened("status_line")
    user = User(session)

    def status() -> str:
        return user.shown(SetStatus)[-1].status_text

    assert status().startswith("0 tokens · $0.0000")
    messages_api.add(Reply(ToolUse("bash", {"command": "true"})), Reply("Ok."))
    await session.prompt("go")
    assert status() == "240 tokens · $0.0004 · context 0%"  # two answers of 100 + 20
    await session.prompt("/usage")
    assert [line.split() for line in user.shown(SetWidget)[-1].widget_lines[:2]] == [["read", "200"], ["written", "40"]]
    await session.prompt("/usage")
    assert user.shown(SetWidget)[-1].widget_lines is None
    path, before = session.store.path, status()
    await session.end()
    again = await opened("status_line", session=str(path))
    user = User(again)
    assert status() == before


# --- git_checkpoint --------------------------------------------------------------------------------------------------


async def run_two_turns(session: AgentSession, messages_api: MessagesApi) -> list[str]:
    """Two prompts that change files; returns the ids of the user's messages."""
    commands = ("echo two > a.txt", "echo new > b.txt")
    messages_api.add(Reply(*(ToolUse("bash", {"command": command}) for command in commands)), Reply("Ok."))
    await session.prompt("first")
    messages_api.add(Reply(ToolUse("read", {"path": "a.txt"})), Reply(ToolUse("bash", {"command": "rm a.txt"})))
    messages_api.add(Reply("Ok."))
    await session.prompt("second")
    return [entry.id for entry in session.store.entries if isinstance(entry.message, UserMessage)]


@pytest.mark.parametrize(("index", "a", "b"), [(0, "one\n", None), (1, "two\n", "new\n")])
async def test_a_fork_brings_the_files_back_if_the_user_wants_it(opened, messages_api, repository, index, a, b) -> None:
    (repository / ".gitignore").write_text("ignored\n")
    (repository / "ignored").write_text("mine")
    session = await opened("git_checkpoint")
    ids = await run_two_turns(session, messages_api)
    staged, branch = git(repository, "diff", "--cached"), git(repository, "log", "--format=%s")
    user = User(session, True)
    await session.fork(ids[index])
    assert "a.txt" in user.shown(Confirm)[0].message
    assert (repository / "a.txt").read_text() == a
    assert ((repository / "b.txt").read_text() if (repository / "b.txt").exists() else None) == b
    assert (repository / "ignored").read_text() == "mine"
    assert (git(repository, "diff", "--cached"), git(repository, "log", "--format=%s")) == (staged, branch)
    lost = user.shown(Notify)[0].message.split("git show ")[1][:12]
    assert git(repository, "show", f"{lost}:b.txt") == "new"


async def test_a_fork_leaves_the_files_as_they_are_unless_the_user_says_yes(opened, messages_api, repository) -> None:
    session = await opened("git_checkpoint")
    ids = await run_two_turns(session, messages_api)
    refs = git(repository, "log", "--format=%s", f"refs/indus/{session.store.session_id}")
    assert refs.splitlines() == ["Before bash", "Before bash"]  # one for each turn that writes
    User(session, False)
    await session.fork(ids[0])
    assert not (repository / "a.txt").exists()


async def test_what_a_session_file_calls_a_checkpoint_is_no_option_of_git(opened, messages_api, repository) -> None:
    session = await opened("git_checkpoint")
    messages_api.add(Reply("Ok."))
    await session.prompt("go")
    asked = next(entry.id for entry in session.store.entries if isinstance(entry.message, UserMessage))
    for data in ("--output=made", ["HEAD"], None):
        session.store.append("custom", custom_type="git-checkpoint", data=data)
    User(session)
    await session.fork(asked)
    assert not (repository / "made").exists()


async def test_without_git_there_are_neither_checkpoints_nor_complaints(opened, messages_api, home) -> None:
    session = await opened("git_checkpoint")
    user = User(session)
    messages_api.add(Reply(ToolUse("bash", {"command": "echo > made"})), Reply("Ok."))
    await session.prompt("go")
    await session.fork(next(entry.id for entry in session.store.entries if isinstance(entry.message, UserMessage)))
    assert (home / "work" / "made").exists()
    assert user.shown(Notify) == []


# --- sub_agent -------------------------------------------------------------------------------------------------------


def lent_tool() -> None:
    """Change something."""


async def test_another_agent_looks_and_only_its_answer_comes_back(opened, messages_api, home) -> None:
    (home / "work" / "a.txt").write_text("the secret is 7")
    agent.tool(lent_tool)
    session = await opened("sub_agent")
    updates: list[Any] = []
    session.subscribe(lambda event: updates.append(event) if event.type == "tool_execution_update" else None)
    messages_api.add(
        Reply(ToolUse("explore", {"task": "find the secret"})),
        Reply(ToolUse("read", {"path": "a.txt"})),
        Reply("a.txt says 7."),
        Reply("It is 7."),
    )
    await session.prompt("go")
    main, other, _, last = messages_api.requests
    assert {tool["name"] for tool in main.body["tools"]} > {"bash", "explore", "lent_tool"}
    assert {tool["name"] for tool in other.body["tools"]} == {"read", "grep", "find", "ls"}
    assert (other.texts[-1], other.body["model"]) == ("find the secret", main.body["model"])
    (result,) = results(session)
    assert (text_of(result.content), result.details["steps"]) == ("a.txt says 7.", ["read a.txt"])
    assert text_of(updates[0].partial_result.content) == "read a.txt"
    assert "the secret is 7" not in json.dumps(last.body)
    assert session.last_text == "It is 7."
    assert len(list((home / "agent" / "sessions").rglob("*.jsonl"))) == 1


async def test_an_abort_ends_the_other_agent_too(opened, messages_api) -> None:
    session = await opened("sub_agent")
    gate = Gate()
    messages_api.add(Reply(ToolUse("explore", {"task": "think"})), Reply(Text("Well, ", gate)))
    running = asyncio.create_task(session.prompt("go"))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.abort()
    await running
    assert await asyncio.to_thread(messages_api.requests[1].disconnected.wait, 10)
    assert (len(messages_api.requests), results(session)[0].is_error) == (2, True)


async def test_the_other_agents_failure_is_one_that_the_model_reads(opened, messages_api, home) -> None:
    (home / "agent" / "settings.json").write_text('{"retry": {"enabled": false}}')
    session = await opened("sub_agent")
    messages_api.add(Reply(ToolUse("explore", {"task": "think"})))
    messages_api.add(Reply("", stop_reason="refusal"), Reply("It could not."))
    await session.prompt("go")
    (result,) = results(session)
    assert result.is_error
    assert session.last_text == "It could not."


# --- the page --------------------------------------------------------------------------------------------------------

BEGIN, END = "<!-- events: made by tests/test_examples.py -->\n", "<!-- end of events -->\n"
BETWEEN = "Besides, the events of the session (`indus_nb.base.events`), before anyone else gets them:"


def table_of_events(*, own: bool) -> str:
    """Those that only extensions get, or the session's own."""
    kinds = [kind for kind in ev.EVENTS.values() if issubclass(kind, ev.OwnEvent) is own]
    head = (
        "| event | when | fields | answer |\n|---|---|---|---|" if own else "| event | when | fields |\n|---|---|---|"
    )
    return "\n".join([head, *map(row_of, kinds)])


def row_of(kind: Any) -> str:
    when = " ".join(kind.__doc__.split("\n\n")[0].split()).replace("``", "`")
    if not issubclass(kind, ev.OwnEvent):
        return f"| `{kind.type}` | {when} | {listed(name for name in kind.wire_fields if name != 'type')} |"
    fields = listed(field.name for field in dataclasses.fields(kind))
    return f"| `{kind.type}`<br>`{kind.__name__}` | {when} | {fields} | {answer_of(kind)} |"


def answer_of(kind: Any) -> str:
    if not hasattr(kind, "answer"):
        return ""
    if kind.answer is ev.RequestAnswer:
        return "the body to send"
    names = (f"**`{name}`**" if name in kind.answer.changes else f"`{name}`" for name in kind.answer.wire_fields)
    return f"`{kind.answer.__name__}`: {', '.join(names)}"


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def test_the_table_names_every_event_with_its_fields_and_answers() -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    tables = f"{table_of_events(own=True)}\n\n{BETWEEN}\n\n{table_of_events(own=False)}\n"
    wanted = f"{head}{BEGIN}\n{tables}\n{END}{tail}"
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        PAGE.write_text(wanted, encoding="utf-8")
        page = wanted
    assert page == wanted, __doc__


def test_the_page_names_every_example_and_every_method_of_the_api() -> None:
    from indus_nb.core.session.dialogs import Ui
    from indus_nb.extend.api import CommandContext, ExtensionApi

    page = PAGE.read_text(encoding="utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert f"(examples/{example.name})" in page
    assert {found[1] for found in re.finditer(r"\(examples/(\w+\.py)\)", page)} == {
        p.name for p in EXAMPLES.glob("*.py")
    }
    names = {name for kind in (ExtensionApi, CommandContext) for name in dir(kind) if not name.startswith("_")}
    dialogs = {name for name in vars(Ui) if not name.startswith("_")}
    names |= dialogs - {
        "open_dialogs",
        "open_dialogs_with_time",
        "attach",
        "answer",
        "take",
        "cancel_all",
        "clear",
        "has_host",
        "goes_on",
        "headings",
        "is_asking",
        "is_unseen",
        "note_shown",
        "watch_dialogs",
    }
    assert [name for name in sorted(names) if not re.search(rf"[`.]{name}\b", page)] == []


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks())))
async def test_the_code_of_the_page_runs(number: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home / "work")
    block = home / "block.py"
    block.write_text(blocks()[number], encoding="utf-8")
    failures: list[Any] = []
    names: dict[str, Any] = {"__name__": "block"}
    # In a thread, for a program of its own has no event loop.
    await asyncio.to_thread(exec, compile(block.read_text(encoding="utf-8"), str(block), "exec"), names)
    setup: Callable[[Any], Any] = names.get("setup", lambda api: None)
    session = open_session(SessionOptions(provider="offline", no_session=True, extensions=[setup]))
    session.subscribe(lambda event: failures.append(event) if event.type == "extension_error" else None)
    try:
        await session.start()
        await session.prompt("hello")
    finally:
        await session.end()
        agent.forget()
    assert failures == []
