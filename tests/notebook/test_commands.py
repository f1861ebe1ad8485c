"""What the sub-commands of ``%agent`` do to a real session, and what they say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from indus_nb.base.errors import CompactionError, IndusError, SessionBusyError, UsageError
from indus_nb.base.messages import ImageContent, UserMessage
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.magic.request import parse
from indus_nb.front.notebook.magic.subcommands import CommandOutput, serve
from indus_nb.start import SessionOptions, open_session

Open = Callable[..., AgentSession]


@pytest.fixture
def open_(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Open]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    work = tmp_path / "work"
    work.mkdir()
    opened: list[AgentSession] = []

    def open_one(**wishes: Any) -> AgentSession:
        wishes = {"provider": "offline", "thinking": "off", "cwd": work, **wishes}
        session = open_session(SessionOptions(**wishes))
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.close()


@pytest.fixture
def session(open_: Open) -> AgentSession:
    return open_()


async def served(session: AgentSession, line: str) -> CommandOutput:
    command = parse(line).command
    assert command is not None
    return await serve(command, session)


async def said(session: AgentSession, line: str) -> str:
    return (await served(session, line)).bundle()["text/plain"]


@asynccontextmanager
async def at_work(session: AgentSession) -> AsyncIterator[None]:
    """The agent runs a command that takes longer than any test."""
    running = asyncio.Event()
    unsubscribe = session.subscribe(lambda event: running.set() if event.type == "tool_execution_start" else None)
    prompting = asyncio.create_task(session.prompt("run sleep 60"))
    await asyncio.wait_for(running.wait(), 120)
    unsubscribe()
    try:
        yield
    finally:
        await session.abort()
        await prompting


# Model and thinking


async def test_the_models_that_can_be_used_are_listed_with_the_one_in_use_marked(
    session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    shown = await served(session, "model")
    assert shown.kind == "listing"
    title, _, first, *others = shown.bundle()["text/plain"].splitlines()
    assert "<td" in shown.bundle()["text/html"]
    assert "<code>%agent model NAME</code>" in shown.bundle()["text/html"]
    assert "%agent model NAME" in title
    assert first.startswith("*  offline/")
    assert any(row.startswith("   anthropic/claude-sonnet-4-5 ") for row in others)
    assert not any("openai/" in row for row in others)


async def test_a_model_in_use_without_a_key_is_listed_as_such(open_: Open) -> None:
    rows = (await said(open_(provider="anthropic"), "model")).splitlines()
    assert rows[2].startswith("*  anthropic/")
    assert rows[2].endswith("no key")


async def test_another_model_is_talked_to_and_a_missing_key_is_told(session: AgentSession) -> None:
    shown = await served(session, "model haiku-4-5:low")
    assert session.model is not None
    assert (session.model.id, session.thinking_level) == ("claude-haiku-4-5", "low")
    assert shown.kind == "notice"
    assert shown.text.startswith("The model is Claude Haiku 4.5 now (anthropic/claude-haiku-4-5, thinking low). ")
    assert "There is no key for anthropic yet" in shown.text


async def test_an_unknown_model_changes_nothing_and_says_where_to_look(session: AgentSession) -> None:
    before = session.model
    with pytest.raises(UsageError, match=r"Model not found: gibberish.*`%agent model` lists"):
        await said(session, "model gibberish")
    assert session.model == before


async def test_thinking_levels_are_listed_and_changed(session: AgentSession) -> None:
    await said(session, "model haiku-4-5")
    assert await said(session, "thinking high") == "Thinking is high now."
    assert "  *high" in await said(session, "thinking")
    assert "Claude Haiku 4.5 does not know xhigh" in await said(session, "thinking xhigh")


async def test_without_a_model_the_lists_are_there_all_the_same(open_: Open) -> None:
    session = open_(provider=None)
    assert session.model is None
    assert "offline/" in await said(session, "model")
    assert "medium" in await said(session, "thinking")
    assert "none" in await said(session, "stats")


# The conversation


async def test_a_conversation_is_compacted_and_the_summary_is_shown(session: AgentSession) -> None:
    session.settings.compaction.keep_recent_tokens = 1
    for text in ("compute 1 + 1", "compute 2 + 2"):
        await session.prompt(text)
    shown = await served(session, "compact -- keep the sums")
    entry = next(entry for entry in session.store.entries if entry.type == "compaction")
    assert shown.kind == "answer"
    assert shown.text.endswith(entry.data["summary"])


async def test_what_cannot_be_compacted_says_so(session: AgentSession) -> None:
    with pytest.raises(CompactionError):
        await said(session, "compact")


async def test_messages_are_listed_for_a_fork_and_a_fork_goes_on_before_one_of_them(session: AgentSession) -> None:
    assert await said(session, "fork") == "Nothing was said yet, so there is nothing to fork."
    await session.prompt("compute 1 + 1")
    await session.prompt("compute 2 + 2\nplease")
    rows = (await said(session, "fork")).splitlines()[2:]
    assert [row[10:] for row in rows] == ["compute 1 + 1", "compute 2 + 2 please"]
    path, entry_id = session.store.path, rows[1][:8]
    shown = await served(session, f"fork {entry_id}")
    assert shown.kind == "listing"
    assert shown.text.endswith("It said:\n\ncompute 2 + 2\nplease")
    assert session.store.path != path
    assert len([row for row in (await said(session, "fork")).splitlines() if "compute" in row]) == 1


async def test_a_fork_at_a_message_without_words_ends_before_it(session: AgentSession) -> None:
    await session.prompt("compute 1 + 1")
    image = ImageContent(data="aGk=", mime_type="image/png")
    message = session.store.append_message(UserMessage(content=[image]))
    assert "ends before that message" in await said(session, f"fork {message}")


async def test_a_fork_at_an_answer_ends_with_it(session: AgentSession) -> None:
    await session.prompt("compute 1 + 1")
    path, answer = session.store.path, session.store.leaf_id
    await session.prompt("compute 2 + 2")
    assert f"ends with {answer}" in await said(session, f"fork {answer}")
    assert session.store.path != path
    assert "compute 2 + 2" not in await said(session, "fork")


async def test_an_unknown_entry_cannot_be_forked(session: AgentSession) -> None:
    await session.prompt("compute 1 + 1")
    path = session.store.path
    with pytest.raises(UsageError, match="`%agent fork` lists your messages"):
        await said(session, "fork 00000000")
    assert session.store.path == path


async def test_the_tree_shows_branches_labels_and_where_the_conversation_stands(session: AgentSession) -> None:
    assert await said(session, "tree") == "Nothing was said yet."
    await session.prompt("compute 1 + 1")
    end = session.store.leaf_id
    assert end is not None
    await session.prompt("compute 2 + 2")
    second = (await said(session, "fork")).splitlines()[3][:8]
    session.set_label(second, "the sum")
    shown = await said(session, f"tree {second}")
    assert shown.endswith("It said:\n\ncompute 2 + 2")
    await session.prompt("compute 3 + 3")
    rows = (await said(session, "tree")).splitlines()[2:]
    assert [row for row in rows if row.startswith("→")] == [rows[-1]]
    at = next(number for number, row in enumerate(rows) if second in row)
    begin = "\N{BOX DRAWINGS LIGHT UP AND RIGHT}\N{THIN SPACE}"
    assert rows[at].endswith(f"{second}  {begin}[the sum] user: compute 2 + 2")
    assert "  \N{EM SPACE}assistant: " in rows[at + 1]
    assert any(row.endswith("  user: compute 3 + 3") for row in rows[at + 2 :])
    assert await said(session, f"tree {end}") == (
        f"The conversation goes on behind {end} now. What was said since stays in the tree."
    )
    assert session.store.leaf_id == end


async def test_an_unknown_entry_moves_nothing(session: AgentSession) -> None:
    await session.prompt("compute 1 + 1")
    leaf = session.store.leaf_id
    with pytest.raises(UsageError, match=r"00000000 not found .*`%agent tree` lists the entries"):
        await said(session, "tree 00000000")
    assert session.store.leaf_id == leaf


async def test_a_conversation_of_any_length_is_listed_on_one_page(session: AgentSession) -> None:
    await session.prompt("compute 1 + 1")
    for number in range(200):
        session.store.append("message", message={"role": "user", "content": f"line {number}\n\x1b[31m{'x' * 5_000}"})
    for line in ("tree", "fork"):
        shown = await said(session, line)
        assert len(shown) < 12_000
        assert "\x1b" not in shown
        assert " not listed." in shown
        assert "line 199" in shown
        assert "line 3 " not in shown


async def test_conversations_of_the_folder_are_listed_newest_first(open_: Open) -> None:
    first = open_()
    assert "no saved conversation" in await said(first, "sessions")
    await first.prompt("compute 1 + 1")
    second = open_()
    await second.prompt("compute 2 + 2")
    await second.set_name("the sales")
    rows = (await said(second, "sessions")).splitlines()[2:]
    assert rows[0].startswith("*")
    assert rows[0].endswith(" the sales")
    assert rows[1].startswith(" ")
    assert rows[1].endswith(" compute 1 + 1")
    assert " messages  " in rows[1]
    assert [row.split()[-2:] for row in (await said(first, "sessions SALES")).splitlines()[2:]] == [["the", "sales"]]
    assert "'gibberish'" in await said(first, "sessions gibberish")


async def test_a_listed_id_is_long_enough_to_name_its_conversation(open_: Open) -> None:
    opened = [open_() for _ in range(3)]
    for session in opened:
        await session.prompt("compute 1 + 1")
    rows = (await said(opened[0], "sessions")).splitlines()[2:]
    ids = [row.replace("*", " ").split()[0] for row in rows]
    assert len(set(ids)) == 3
    for session in opened:
        session.close()
    for entry_id in ids:
        open_(session=entry_id, provider=None).close()


async def test_a_conversation_that_is_not_saved_says_why_it_has_no_neighbours(open_: Open) -> None:
    with pytest.raises(UsageError, match="not saved"):
        await said(open_(no_session=True), "sessions")


async def test_counts_tokens_and_cost_are_told(session: AgentSession) -> None:
    await session.prompt("run echo hello")
    await session.set_name("sums")
    shown = await served(session, "stats")
    values = dict(shown.rows)
    assert shown.kind == "listing"
    assert values["messages"] == "1 of yours, 2 answers"
    assert values["tool calls"] == "1"
    assert values["cost"] == "$0.0000"
    assert " of " in values["context"]
    assert values["conversation"] == f"sums ({session.store.session_id})"
    assert values["file"] == str(session.store.path)


async def test_a_conversation_is_exported_and_nothing_is_written_over(session: AgentSession) -> None:
    await session.prompt("compute 1 + 1")
    folder = session.store.cwd
    assert await said(session, "export page.html") == f"Written to {folder / 'page.html'}."
    assert (folder / "page.html").read_text().startswith("<!doctype html>")
    (folder / "page.html").write_text("mine")
    assert "page.html was there already and is as it was." in await said(session, "export page.html")
    assert (folder / "page.html").read_text() == "mine"
    assert (folder / "page-2.html").exists()
    assert str(folder / "page-3.html") in await said(session, "export page.html")
    assert f"indusagi-session-{session.store.session_id}.html" in await said(session, "export")


async def test_a_copy_of_the_conversation_can_be_opened(session: AgentSession, open_: Open) -> None:
    await session.prompt("compute 1 + 1")
    folder = session.store.cwd
    await said(session, "export 'deep/my copy.jsonl'")
    copy = folder / "deep" / "my copy.jsonl"
    assert session.store.path is not None
    assert copy.read_bytes() == session.store.path.read_bytes()
    assert open_(session=str(copy), provider=None).last_text == session.last_text


async def test_a_conversation_that_is_not_saved_can_be_copied(open_: Open) -> None:
    session = open_(no_session=True)
    await session.prompt("compute 1 + 1")
    await said(session, "export copy.jsonl")
    lines = (session.store.cwd / "copy.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["type"] == "session"
    assert len(lines) == 1 + len(session.store.entries)


@pytest.mark.parametrize("name", ["page.html", "copy.jsonl"])
async def test_an_export_that_cannot_be_says_why(session: AgentSession, name: str) -> None:
    with pytest.raises(UsageError, match="Nothing to export"):
        await said(session, f"export {name}")
    await session.prompt("compute 1 + 1")
    (session.store.cwd / "file").write_text("")
    with pytest.raises(IndusError, match="cannot be written"):
        await said(session, f"export file/{name}")


# A run


async def test_a_run_is_steered_and_stopped(session: AgentSession) -> None:
    async with at_work(session):
        assert await said(session, "steer never mind") == "The agent will read it after the tool call at hand."
        assert "steering  never mind" in await said(session, "queue")
        shown = await said(session, "abort")
        assert shown.startswith("The agent was stopped.")
        assert "`%agent queue clear`" in shown
        assert not session.is_running
    assert await said(session, "queue clear") == "Taken back:\n\nnever mind"
    assert await said(session, "queue clear") == "Nothing waited."
    assert await said(session, "queue") == "Nothing waits to be said to the agent."


async def test_without_a_run_there_is_nothing_to_steer_or_stop(session: AgentSession) -> None:
    assert await said(session, "abort") == "Nothing was going on."
    with pytest.raises(UsageError, match="Ask it with"):
        await said(session, "steer faster")
    with pytest.raises(UsageError, match="steer TEXT"):
        await said(session, "steer")


async def test_a_run_is_not_stopped_by_commands_that_say_nothing_of_that(session: AgentSession) -> None:
    await session.prompt("compute 1 + 1")
    entry_id = (await said(session, "fork")).splitlines()[2][:8]
    async with at_work(session):
        for line in ("compact", f"fork {entry_id}", f"tree {entry_id}"):
            with pytest.raises(SessionBusyError, match="`%agent abort` first"):
                await said(session, line)
        for line in ("model", "thinking", "fork", "tree", "stats", "sessions", "doctor", "export"):
            await said(session, line)
        assert session.is_running


async def test_the_doctor_tells_what_is_set_up(session: AgentSession) -> None:
    shown = await served(session, "doctor")
    assert shown.text.startswith("indus_nb ")
    rows = list(shown.rows)
    assert any(name == "model" and value.startswith("offline/") for name, value in rows)
    assert rows[[name for name, _ in rows].index("sandbox") + 1][0] == "", "what the machine can confine goes on below"


async def test_commands_of_the_front_are_refused(session: AgentSession) -> None:
    with pytest.raises(UsageError, match="`%agent help`"):
        await said(session, "panel")
