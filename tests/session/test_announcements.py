"""Every change of what a session holds is announced: another session, another branch, one more entry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from waiting import until

from indus_nb.base.events import (
    BranchMoved,
    EntryAdded,
    SessionEvent,
    SessionReplaced,
    ToolExecutionEnd,
    ToolExecutionUpdate,
)
from indus_nb.base.messages import CustomMessage
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.store import SessionStore
from indus_nb.extend.api import ExtensionApi
from indus_nb.front.notebook.view.parts import Card, Line
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.models.catalog import find_model
from indus_nb.start import SessionOptions, open_session

LONG = "word " * 200


@pytest.fixture
def open_(messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    opened: list[AgentSession] = []

    def open_one(**options: Any) -> AgentSession:
        usual = {"model": "claude-haiku-4-5", "thinking": "off", "cwd": tmp_path, "session_dir": tmp_path / "sessions"}
        session = open_session(SessionOptions(**{**usual, **options}))
        session.settings.compaction.keep_recent_tokens = 100
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.close()


@pytest.fixture
def session(open_: Callable[..., AgentSession]) -> AgentSession:
    return open_()


def watched(session: AgentSession) -> list[SessionEvent]:
    events: list[SessionEvent] = []
    session.subscribe(events.append)
    return events


def added(events: list[SessionEvent]) -> list[EntryAdded]:
    return [event for event in events if isinstance(event, EntryAdded)]


def before_each_entry(events: list[SessionEvent]) -> list[tuple[str, str]]:
    """For each entry the event that it follows, entries aside, and its own type."""
    found: list[tuple[str, str]] = []
    cause = ""
    for event in events:
        if isinstance(event, EntryAdded):
            found.append((cause, event.entry_type))
        else:
            cause = event.type
    return found


async def next_step() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_each_message_of_a_run_is_announced_after_its_message_end(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply(ToolUse("ls", {})), Reply("Done."))
    events = watched(session)
    known = [entry.id for entry in session.store.entries]
    await session.prompt("look")
    assert before_each_entry(events) == [("message_end", "message")] * 4
    assert known + [event.entry_id for event in added(events)] == [entry.id for entry in session.store.entries]
    assert [event.parent_id for event in added(events)] == [entry.parent_id for entry in session.store.entries[-4:]]
    assert set(added(events)[0].to_wire()) == {"type", "entryId", "parentId", "entryType"}  # and no content


async def test_an_entry_follows_the_event_that_caused_it(session: AgentSession) -> None:
    events = watched(session)
    await session.set_model(find_model("claude-opus-4-5"))
    await session.set_thinking_level("high")
    await session.set_name("a name")
    await session.send_message(CustomMessage(custom_type="note", content="a note", display=True))
    assert before_each_entry(events) == [
        ("model_changed", "model_change"),
        ("thinking_level_changed", "thinking_level_change"),
        ("session_info_changed", "session_info"),
        ("message_end", "custom_message"),
    ]


async def test_entries_without_an_event_of_their_own_are_announced_by_themselves(session: AgentSession) -> None:
    events = watched(session)
    await session.set_name("a name")
    events.clear()
    session.set_label(session.store.entries[-1].id, "here")
    session.store.append("custom", custom_type="note", data=1)
    await next_step()
    assert [event.entry_type for event in added(events)] == ["label", "custom"]
    assert len(events) == 2


async def test_what_the_user_ran_is_announced(session: AgentSession, tmp_path: Path) -> None:
    events = watched(session)
    await session.bash("echo hello")
    await next_step()
    assert [event.entry_type for event in added(events)] == ["message"]


async def test_an_entry_added_without_an_event_loop_is_announced_with_the_next_event(
    open_: Callable[..., AgentSession], messages_api: MessagesApi
) -> None:
    messages_api.add(Reply("One."))

    def work() -> list[str]:
        session = open_(no_session=True)
        events = watched(session)
        session.set_label(session.store.entries[0].id, "the beginning")
        session.run("hello")
        return [event.entry_type for event in added(events)]

    assert await asyncio.to_thread(work) == ["label", "message", "message"]


async def test_an_entry_waits_for_its_event_also_where_an_extension_takes_its_time(
    open_: Callable[..., AgentSession],
) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    def extension(api: ExtensionApi) -> None:
        async def slow(event: Any, ctx: Any) -> None:
            entered.set()
            await leave.wait()

        api.on("session_info_changed", slow)

    session = open_(extensions=[extension])
    await session.start()
    events = watched(session)
    naming = asyncio.create_task(session.set_name("a name"))
    await entered.wait()
    session.store.append("custom", custom_type="note", data=1)
    await next_step()
    assert events == []
    leave.set()
    await naming
    assert [getattr(event, "entry_type", event.type) for event in events] == [
        "session_info_changed",
        "session_info",
        "custom",
    ]


async def test_a_compaction_is_announced_before_its_end(session: AgentSession, messages_api: MessagesApi) -> None:
    messages_api.add(*(Reply(LONG) for _ in range(3)), Reply("A summary."), Reply("A summary of the turn."))
    for text in ("a", "b", "c"):
        await session.prompt(text)
    events = watched(session)
    await session.compact()
    assert [event.type for event in events] == ["compaction_start", "entry_added", "compaction_end"]
    assert added(events)[0].entry_type == "compaction"


async def test_going_to_another_branch_is_announced_with_both_ends(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply("One."), Reply("Two."), Reply("What was left."))
    await session.prompt("a")
    first = session.store.leaf_id
    await session.prompt("b")
    second = session.store.leaf_id
    events = watched(session)
    await session.navigate(str(first))
    assert events == [BranchMoved(leaf_id=first, old_leaf_id=second)]
    events.clear()
    await session.navigate(str(first))
    assert events == []  # it stands there already
    await session.navigate(session.store.entries[-1].id)
    events.clear()
    done = await session.navigate(str(first), summarize=True, label="back")
    assert done.summary_entry is not None
    assert [event.type for event in events] == ["branch_moved", "entry_added", "entry_added"]
    assert events[0] == BranchMoved(leaf_id=session.store.leaf_id, old_leaf_id=second)
    assert [event.entry_type for event in added(events)] == ["branch_summary", "label"]


async def fork(session: AgentSession) -> object:
    return await session.fork(next(entry.id for entry in session.store.entries if entry.type == "message"))


async def reread(session: AgentSession) -> object:
    path = session.store.path
    assert path is not None
    path.write_bytes(path.read_bytes().replace(b"One.", b"Two."))
    return await session.switch_session(path)


async def switch(session: AgentSession) -> object:
    with SessionStore.create(session.store.cwd, session.store.cwd / "elsewhere") as other:
        other.append("session_info", name="the other")
    assert other.path is not None
    return await session.switch_session(other.path)


@pytest.mark.parametrize(
    ("replace", "reason"),
    [(AgentSession.new_session, "new"), (switch, "resume"), (reread, "resume"), (fork, "fork"),
     (AgentSession.clone, "fork")],
)  # fmt: skip
async def test_every_way_to_replace_a_session_is_announced_once(
    session: AgentSession, messages_api: MessagesApi, replace: Callable[[AgentSession], Awaitable[object]], reason: Any
) -> None:
    messages_api.add(Reply("One."), Reply("More."))
    await session.prompt("a")
    events = watched(session)
    await replace(session)
    store = session.store
    assert events == [SessionReplaced(reason=reason, session_id=store.session_id, session_file=str(store.path))]
    known = [entry.id for entry in store.entries]
    await session.prompt("b")
    assert known + [event.entry_id for event in added(events)] == [entry.id for entry in store.entries]


async def test_a_session_that_is_never_saved_is_announced_without_a_file(open_: Callable[..., AgentSession]) -> None:
    session = open_(no_session=True)
    events = watched(session)
    await session.new_session()
    assert events == [SessionReplaced(reason="new", session_id=session.store.session_id, session_file=None)]


async def test_a_change_that_an_extension_forbids_is_not_announced(
    open_: Callable[..., AgentSession], messages_api: MessagesApi
) -> None:
    def extension(api: ExtensionApi) -> None:
        for name in ("session_before_switch", "session_before_fork", "session_before_tree"):
            api.on(name, lambda event, ctx: {"cancel": True})

    messages_api.add(Reply("One."))
    session = open_(extensions=[extension])
    await session.prompt("a")
    first = next(entry.id for entry in session.store.entries if entry.type == "message")
    events = watched(session)
    assert not await session.new_session()
    assert await session.fork(first) is None
    assert (await session.navigate(first)).cancelled
    assert events == []


async def test_an_extension_that_listens_is_told_before_subscribers(
    open_: Callable[..., AgentSession], messages_api: MessagesApi
) -> None:
    order: list[str] = []

    def extension(api: ExtensionApi) -> None:
        for name in ("session_replaced", "branch_moved", "entry_added"):
            api.on(name, lambda event, ctx: order.append(f"extension {event.type}"))

    messages_api.add(Reply("One."))
    session = open_(extensions=[extension])
    await session.prompt("a")
    first = next(entry.id for entry in session.store.entries if entry.type == "message")
    order.clear()
    kinds = ("session_replaced", "branch_moved", "entry_added")
    session.subscribe(lambda event: order.append(event.type) if event.type in kinds else None)
    await session.navigate(first)
    session.set_label(first, "here")
    await next_step()
    await session.new_session()
    told = ["branch_moved", "entry_added", "session_replaced"]
    assert order == [each for kind in told for each in (f"extension {kind}", kind)]


async def test_a_slow_subscriber_gets_entries_in_the_order_of_the_file(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("One.", gate)))
    seen: list[EntryAdded] = []

    async def slowly(event: SessionEvent) -> None:
        await asyncio.sleep(0.001)
        if isinstance(event, EntryAdded):
            seen.append(event)

    session.subscribe(slowly)
    known = {entry.id for entry in session.store.entries}
    prompting = asyncio.create_task(session.prompt("a"))
    assert await asyncio.to_thread(gate.reached.wait, 240)
    for number in range(5):
        session.store.append("custom", custom_type="note", data=number)
        await asyncio.sleep(0)
    gate.open()
    await prompting
    await session.end()
    assert [event.entry_id for event in seen] == [e.id for e in session.store.entries if e.id not in known]


async def test_a_view_that_comes_while_calls_run_shows_each_of_them_once_and_the_run_as_a_whole(
    session: AgentSession, messages_api: MessagesApi, tmp_path: Path
) -> None:
    waits = "echo begun; until [ -e on ]; do sleep 0.01; done"
    messages_api.add(Reply(*(ToolUse("bash", {"command": each}) for each in ("true", waits))), "Done.")
    events = watched(session)
    running = asyncio.create_task(session.prompt("look"))
    await until(lambda: any(isinstance(event, ToolExecutionUpdate) for event in events))
    await until(lambda: any(isinstance(event, ToolExecutionEnd) for event in events))
    late = Transcript("a model", whole=True)
    late.add_history(session.messages, goes_on=session.is_running)
    session.subscribe(late.feed)
    for event in session.open_calls:
        late.feed(event)

    def states() -> list[str]:
        return [block.call.state for block in late.blocks if isinstance(block, Card)]

    assert states() == ["done", "running"]
    (tmp_path / "on").touch()
    await running
    late.end_run()
    assert states() == ["done", "done"]
    assert session.open_calls == []
    assert late.usage.total_tokens == session.stats().tokens.total
    assert isinstance(late.blocks[-1], Line)
    assert "haiku" in late.blocks[-1].shown["text/plain"]
