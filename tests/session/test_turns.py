"""Who may run: one activity at a time, and commands in the order in which they came."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, HttpError, MessagesApi, Reply, Text

from indus_nb.base.errors import CompactionError, SessionBusyError
from indus_nb.base.events import AgentEnd, SessionEvent
from indus_nb.base.messages import CustomMessage
from indus_nb.core.session.session import AgentSession
from indus_nb.core.session.turns import Activity, Turns
from indus_nb.start import SessionOptions, open_session

LONG = "word " * 200


@pytest.fixture
def session(messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    options = SessionOptions(model="claude-haiku-4-5", thinking="off", cwd=tmp_path, no_session=True)
    with open_session(options) as session:
        session.settings.compaction.keep_recent_tokens = 100
        session.settings.retry.base_delay_ms = 1
        yield session


def watched(session: AgentSession) -> list[SessionEvent]:
    events: list[SessionEvent] = []
    session.subscribe(events.append)
    return events


def kinds(events: list[SessionEvent], *wanted: str) -> list[str]:
    return [event.type for event in events if event.type in wanted]


async def prompt_twice(session: AgentSession, api: MessagesApi) -> None:
    """Have enough said for a compaction."""
    api.add(Reply(f"One. {LONG}"), Reply(f"Two. {LONG}"))
    await session.prompt("first")
    await session.prompt("second")


async def reached(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.reached.wait, 240)


async def test_an_activity_begins_only_when_nothing_goes_on() -> None:
    turns = Turns(lambda: None)
    over = asyncio.Event()
    task = turns.begin(Activity.COMPACTING, over.wait())
    late = over.wait()
    with pytest.raises(AssertionError, match="cannot go on"):
        turns.begin(Activity.RUNNING, late)
    late.close()
    assert turns.activity is Activity.COMPACTING
    over.set()
    await task
    assert turns.idle


async def test_the_session_is_idle_in_the_step_in_which_the_activity_ends() -> None:
    seen: list[bool] = []
    turns = Turns(lambda: seen.append(turns.idle))

    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await turns.begin(Activity.RUNNING, fail())
    assert seen == [True]


async def test_an_activity_that_is_cancelled_before_its_first_step_leaves_the_session_idle() -> None:
    turns = Turns(lambda: None)
    task = turns.begin(Activity.RUNNING, asyncio.sleep(1))
    task.cancel()
    await asyncio.wait([task])
    assert turns.idle


async def test_a_failure_that_its_caller_does_not_wait_for_any_more_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, over = asyncio.Event(), asyncio.Event()
    turns = Turns(lambda: None, over.set)

    async def fail() -> None:
        begun.set()
        await over.wait()
        raise CompactionError("Compaction cancelled")

    async def call() -> None:
        await turns.outcome(turns.begin(Activity.COMPACTING, fail()))

    caller = asyncio.create_task(call())
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert turns.idle
    gc.collect()  # asyncio logs it when the task is gone
    assert [record.getMessage() for record in caplog.records] == []


async def test_waiting_for_a_turn_in_the_activity_itself_is_refused_instead_of_never_ending() -> None:
    turns = Turns(lambda: None)
    with pytest.raises(SessionBusyError, match="compacting"):
        await turns.begin(Activity.COMPACTING, turns.wait_for_turn(turns.ticket))
    await turns.begin(Activity.COMPACTING, turns.wait_until_idle())


async def test_compactions_and_a_prompt_at_once_make_one_run(session: AgentSession, messages_api: MessagesApi) -> None:
    await prompt_twice(session, messages_api)
    gate = Gate()
    messages_api.default = lambda request: Reply(Text("Three. ", gate)) if "third" in request.texts else Reply("Sum.")
    events = watched(session)
    first, second = (asyncio.create_task(session.compact()) for _ in range(2))
    prompting = asyncio.create_task(session.prompt("third"))
    await reached(gate)
    assert session.is_running
    with pytest.raises(SessionBusyError, match="running"):
        await session.prompt("fourth")
    await session.abort()
    assert not session.is_running
    gate.open()
    await asyncio.gather(first, second, prompting, return_exceptions=True)
    assert kinds(events, "agent_start", "agent_end", "agent_settled") == ["agent_start", "agent_end", "agent_settled"]
    assert events[-1].type == "agent_settled"


async def test_a_second_compaction_is_refused_and_not_paid_for(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    gate = Gate()
    messages_api.default = Reply(Text("A summary. ", gate))
    await prompt_twice(session, messages_api)
    going_on = asyncio.create_task(session.compact())
    await reached(gate)
    asked = len(messages_api.requests)
    with pytest.raises(CompactionError, match="going on already"):
        await session.compact()
    gate.open()
    assert "A summary." in (await going_on).summary
    assert len(messages_api.requests) <= asked + 1  # of a turn that is split


async def test_a_compaction_that_is_aborted_before_its_turn_came_changes_nothing(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    gate = Gate()
    messages_api.default = Reply(Text("A summary. ", gate))
    await prompt_twice(session, messages_api)
    first = next(entry.id for entry in session.store.entries if entry.type == "message")
    going_on = asyncio.create_task(session.navigate(first, summarize=True))
    await reached(gate)
    waiting = asyncio.create_task(session.compact())
    await asyncio.sleep(0)
    await session.abort()
    gate.open()
    await going_on
    with pytest.raises(CompactionError, match="cancelled"):
        await waiting
    assert [message.role for message in session.messages] == ["user", "assistant"] * 2


async def test_navigating_waits_for_a_prompt_that_came_before_it(
    session: AgentSession, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    messages_api.add(Reply("One."), Reply(Text("Two. ", gate)))
    await session.prompt("first")
    entry = next(entry.id for entry in session.store.entries if entry.type == "message")
    thinking = asyncio.Event()
    heard = session.hooks.input

    async def slow(said: Any, source: Any) -> Any:
        await thinking.wait()
        return await heard(said, source)

    monkeypatch.setattr(session.hooks, "input", slow)
    prompting = asyncio.create_task(session.prompt("second"))
    await asyncio.sleep(0)
    navigating = asyncio.create_task(session.navigate(entry))
    await asyncio.sleep(0)
    thinking.set()
    with pytest.raises(SessionBusyError):
        await navigating
    gate.open()
    await prompting
    assert [message.role for message in session.messages] == ["user", "assistant"] * 2


async def test_an_abort_does_not_wait_for_what_begins_after_the_end_of_what_it_aborted() -> None:
    turns = Turns(lambda: None)
    over, never = asyncio.Event(), asyncio.Event()
    first = turns.begin(Activity.COMPACTING, over.wait())

    async def follow() -> asyncio.Task[Any]:
        await turns.wait_for_turn(turns.ticket)
        return turns.begin(Activity.RUNNING, never.wait())

    following = asyncio.create_task(follow())
    waiting = asyncio.create_task(turns.wait_for_end())
    await asyncio.sleep(0)
    over.set()
    await asyncio.wait([waiting], timeout=60)
    assert waiting.done()
    assert first.done()
    assert turns.running
    (await following).cancel()


async def test_a_handler_of_an_event_may_await_an_abort(session: AgentSession, messages_api: MessagesApi) -> None:
    messages_api.add(Reply("One."))

    async def stop(event: SessionEvent) -> None:
        if event.type == "message_start" and event.message.role == "assistant":
            await session.abort()

    session.subscribe(stop)
    async with asyncio.timeout(60):
        await session.prompt("first")
    assert session.last_answer is not None
    assert session.last_answer.stop_reason == "aborted"


async def test_a_retried_answer_that_is_aborted_ends_the_retrying(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    gate = Gate()
    messages_api.add(HttpError(529, "overloaded_error", "Overloaded"), Reply(Text("One. ", gate)))
    events = watched(session)
    prompting = asyncio.create_task(session.prompt("first"))
    await reached(gate)
    await session.abort()
    await prompting
    assert kinds(events, "auto_retry_start", "auto_retry_end", "agent_settled") == [
        "auto_retry_start",
        "auto_retry_end",
        "agent_settled",
    ]


@pytest.mark.parametrize("failures", [0, 1])
async def test_will_retry_is_told_to_extensions_as_to_subscribers(
    session: AgentSession, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    told: list[bool] = []

    async def event(event: SessionEvent) -> None:
        if isinstance(event, AgentEnd):
            told.append(event.will_retry)

    messages_api.add(*[HttpError(529, "overloaded_error", "Overloaded")] * failures, Reply("Yes."))
    await session.start()
    monkeypatch.setattr(session.hooks, "event", event)
    events = watched(session)
    await session.prompt("first")
    assert told == [event.will_retry for event in events if isinstance(event, AgentEnd)]
    assert told == [True] * failures + [False]


async def test_no_retry_is_announced_for_an_overflow_that_cannot_be_compacted(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    messages_api.add(HttpError(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"))
    events = watched(session)
    await session.prompt("first")
    assert [event.will_retry for event in events if event.type in ("agent_end", "compaction_end")] == [False, False]


def summaries(session: AgentSession) -> Callable[[], Any]:
    async def branch() -> Any:
        entry = next(entry.id for entry in session.store.entries if entry.type == "message")
        return await session.navigate(entry, summarize=True)

    return branch


@pytest.mark.parametrize("kind", ["compact", "branch"])
async def test_a_summary_is_asked_for_again_when_its_failure_may_pass(
    session: AgentSession, messages_api: MessagesApi, kind: str
) -> None:
    await prompt_twice(session, messages_api)
    asked = len(messages_api.requests)
    messages_api.default = "The summary."
    messages_api.add(*[HttpError(529, "overloaded_error", "Overloaded")] * 2)
    await (session.compact() if kind == "compact" else summaries(session)())
    assert "The summary." in session.messages[0].summary
    assert len(messages_api.requests) - asked >= 3


@pytest.mark.parametrize("command", ["new_session", "compact"])
async def test_a_handler_that_the_run_waits_for_cannot_replace_what_runs(
    session: AgentSession, messages_api: MessagesApi, command: str
) -> None:
    messages_api.add(Reply("One."))
    told: list[Exception] = []

    async def replace(event: SessionEvent) -> None:
        if event.type == "message_start" and event.message.role == "assistant":
            try:
                await getattr(session, command)()
            except SessionBusyError as error:
                told.append(error)

    session.subscribe(replace)
    async with asyncio.timeout(60):
        await session.prompt("first")
    assert "a task of its own" in str(told[0])
    assert [message.role for message in session.messages] == ["user", "assistant"]


async def test_a_message_of_an_extension_that_waits_for_its_turn_survives_an_abort(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    gate = Gate()
    messages_api.default = Reply(Text("A summary. ", gate))
    await prompt_twice(session, messages_api)
    compacting = asyncio.create_task(session.compact())
    await reached(gate)
    sending = asyncio.create_task(session.send_message(CustomMessage(custom_type="note", content="keep this")))
    await asyncio.sleep(0)
    await session.abort()
    await asyncio.wait([compacting])
    await sending
    assert session.messages[-1].role == "custom"
    with pytest.raises(CompactionError):
        compacting.result()
