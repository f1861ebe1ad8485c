"""A session over a real HTTP server: what it says, in which order, and what it keeps."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from messages_api import Cut, Gate, HttpError, MessagesApi, Reply, Text, Thinking, ToolUse
from pydantic import BaseModel

from indus_nb.base.errors import CredentialsError, ModelNotFoundError, RunFailedError, SessionBusyError, UsageError
from indus_nb.base.events import MessageUpdate, SessionEvent
from indus_nb.base.messages import AssistantMessage, Message, ToolResultMessage, text_of
from indus_nb.base.wire_model import WireModel
from indus_nb.core.session.session import AgentSession
from indus_nb.models.catalog import find_model
from indus_nb.render.cards import state_of
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools import FunctionTool, ToolContext, text_output

Open = Callable[..., AgentSession]


@pytest.fixture
def open_(messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    opened: list[AgentSession] = []

    def open_one(**wishes: Any) -> AgentSession:
        wishes = {"model": "claude-haiku-4-5", "thinking": "off", "cwd": tmp_path, "no_session": True, **wishes}
        session = open_session(SessionOptions(**wishes))
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.close()


def watch(session: AgentSession) -> list[SessionEvent]:
    """The events to come, but for the entries that they cause: those are in ``test_announcements``."""
    events: list[SessionEvent] = []
    session.subscribe(lambda event: None if event.type == "entry_added" else events.append(event))
    return events


def outline(events: list[SessionEvent]) -> list[str]:
    """The types of the events, messages with their role, updates with what they bring."""
    lines = []
    for event in events:
        if isinstance(event, MessageUpdate):
            lines.append(f"update {event.assistant_message_event.type}")
        elif event.type in ("message_start", "message_end"):
            lines.append(f"{event.type} {event.message.role}")
        else:
            lines.append(event.type)
    return lines


def texts(messages: list[Message]) -> list[str]:
    return [
        message.text if isinstance(message, AssistantMessage) else text_of(message.content)  # type: ignore[union-attr]
        for message in messages
    ]


class _NoArguments(BaseModel):
    pass


def tool(name: str, work: Callable[[], Any], *, read_only: bool = False) -> FunctionTool[_NoArguments]:
    async def run(_: _NoArguments, context: ToolContext) -> WireModel:
        return text_output(str(await work()))

    return FunctionTool(name, f"The tool {name}.", _NoArguments, run, read_only=read_only)


async def test_a_prompt_emits_its_life_cycle_in_order(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply("I look.", ToolUse("read", {"path": "note.txt"})), Reply("It says hi."))
    session = open_()
    (session.store.cwd / "note.txt").write_text("hi")
    events = watch(session)
    await session.prompt("what does it say?")
    assert outline(events) == [
        "agent_start",
        "turn_start",
        "message_start user",
        "message_end user",
        "message_start assistant",
        "update start",
        "update text_start",
        "update text_delta",
        "update text_end",
        "update toolcall_start",
        "update toolcall_delta",
        "update toolcall_end",
        "update done",
        "message_end assistant",
        "tool_execution_start",
        "tool_execution_end",
        "message_start toolResult",
        "message_end toolResult",
        "turn_end",
        "turn_start",
        "message_start assistant",
        "update start",
        "update text_start",
        "update text_delta",
        "update text_end",
        "update done",
        "message_end assistant",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]
    assert messages_api.requests[1].texts == ["hi"]
    assert session.last_text == "It says hi."


async def test_the_deltas_add_up_to_the_message(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply(Thinking("hm, let me see"), "Hello wörld, this is long", chunk=3))
    session = open_(thinking="high")
    events = watch(session)
    await session.prompt("hi")
    deltas = {"text_delta": "", "thinking_delta": ""}
    for event in events:
        if isinstance(event, MessageUpdate) and event.assistant_message_event.type in deltas:
            deltas[event.assistant_message_event.type] += event.assistant_message_event.delta
    assert deltas == {"text_delta": "Hello wörld, this is long", "thinking_delta": "hm, let me see"}
    assert session.last_text == "Hello wörld, this is long"


async def test_header_and_user_message_are_on_disk_before_the_model_is_asked(
    open_: Open, messages_api: MessagesApi, tmp_path: Path
):
    seen: list[list[str]] = []

    def look(_: object) -> Reply:
        (path,) = tmp_path.glob("sessions/*.jsonl")
        seen.append([json.loads(line)["type"] for line in path.read_text().splitlines()])
        return Reply("yes")

    messages_api.add(look)
    session = open_(no_session=False, session_dir=tmp_path / "sessions")
    await session.prompt("are you there?")
    assert seen == [["session", "model_change", "thinking_level_change", "message"]]


async def test_a_session_goes_on_where_it_was_left(open_: Open, messages_api: MessagesApi, tmp_path: Path):
    messages_api.add(Reply("Your name is noted."), Reply("Ada."))
    first = open_(no_session=False, session_dir=tmp_path / "sessions", thinking="low")
    await first.prompt("my name is Ada")
    first.close()
    second = open_(no_session=False, session_dir=tmp_path / "sessions", continue_last=True, model=None, thinking=None)
    assert (second.model.id, second.thinking_level) == ("claude-haiku-4-5", "low")
    await second.prompt("what is my name?")
    said = [text_of_request(message) for message in messages_api.requests[1].body["messages"]]
    assert said == ["my name is Ada", "Your name is noted.", "what is my name?"]
    assert second.store.path == first.store.path


def text_of_request(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else content[0]["text"]


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (ToolUse("nonesuch", {}), "There is no tool named nonesuch"),
        (ToolUse("read", {"offset": 3}), "path: Field required"),
        (ToolUse("read", {"path": ["a"]}), "path: Input should be a valid string"),
        (ToolUse("read", '{"path": "no'), "were not a JSON object"),
        (ToolUse("read", "[1]"), "were not a JSON object"),
    ],
)
async def test_a_call_that_makes_no_sense_is_answered_with_an_error_and_the_run_goes_on(
    open_: Open, messages_api: MessagesApi, call: ToolUse, complaint: str
):
    messages_api.add(Reply(call), Reply("I see."))
    session = open_()
    await session.prompt("go")
    result = next(message for message in session.messages if isinstance(message, ToolResultMessage))
    assert result.is_error
    assert complaint in text_of(result.content)
    assert session.last_text == "I see."


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (HttpError(529, "overloaded_error", "Overloaded"), "529"),
        (HttpError(401, "authentication_error", "invalid x-api-key"), "401"),
        (Reply(Text("some words", Cut())), ""),
    ],
)
async def test_a_failed_answer_is_data_and_the_next_prompt_works(
    open_: Open, messages_api: MessagesApi, answer: Any, complaint: str
):
    messages_api.add(answer, Reply("Better now."))
    session = open_()
    session.settings.retry.enabled = False
    events = watch(session)
    await session.prompt("first")
    assert outline(events)[-4:] == ["message_end assistant", "turn_end", "agent_end", "agent_settled"]
    assert session.last_answer.stop_reason == "error"
    assert complaint in session.last_answer.error_message
    with pytest.raises(RunFailedError):
        session.answer_or_raise()
    await session.prompt("again")
    assert session.last_text == "Better now."
    (message,) = messages_api.requests[1].body["messages"]
    said = [block["text"] for block in message["content"]]
    assert said == ["first", "again"], "a failed answer is not shown to the model again"


async def test_an_abort_in_the_stream_keeps_what_has_come(open_: Open, messages_api: MessagesApi):
    gate = Gate()
    messages_api.add(Reply(Text("one two ", gate, "three")))
    session = open_()
    events = watch(session)
    arrived = asyncio.Event()
    session.subscribe(lambda event: arrived.set() if "text_delta" in str(event) else None)
    prompting = asyncio.create_task(session.prompt("talk"))
    await arrived.wait()
    await session.abort()
    assert not session.is_running
    await prompting
    answer = session.last_answer
    assert (answer.text, answer.stop_reason, answer.error_message) == ("one two ", "aborted", "Request was aborted.")
    assert outline(events)[-5:] == ["update error", "message_end assistant", "turn_end", "agent_end", "agent_settled"]
    assert await asyncio.to_thread(messages_api.requests[0].disconnected.wait, 5)


async def test_an_abort_in_a_tool_ends_it_and_closes_every_frame(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply(ToolUse("bash", {"command": "echo begin; sleep 60"}), ToolUse("bash", {"command": "ls"})))
    session = open_()
    events = watch(session)
    begun = asyncio.Event()
    session.subscribe(lambda event: begun.set() if "begin\\n" in str(event) else None)
    prompting = asyncio.create_task(session.prompt("run"))
    await begun.wait()
    await session.abort()
    await prompting
    calls = [message for message in session.messages if isinstance(message, ToolResultMessage)]
    results = [text_of(call.content) for call in calls]
    assert results[0].startswith("begin\n")
    assert results[0].endswith("Command aborted")
    assert results[1].startswith("Not run")
    assert [state_of(call.details, is_error=call.is_error) for call in calls] == ["failed", "not run"]
    assert session.last_answer.stop_reason == "aborted"
    assert session.last_answer.content == []
    kinds = outline(events)
    for opened, closed in (("turn_start", "turn_end"), ("tool_execution_start", "tool_execution_end")):
        assert kinds.count(opened) == kinds.count(closed)
    assert kinds[-2:] == ["agent_end", "agent_settled"]
    assert len(messages_api.requests) == 1


async def test_cancelling_a_prompt_aborts_the_run(open_: Open, messages_api: MessagesApi):
    gate = Gate()
    messages_api.add(Reply(Text("one", gate)))
    session = open_()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await session.prompt("talk")
    assert session.last_answer.stop_reason == "aborted"
    assert not session.is_running


async def test_a_second_prompt_needs_to_say_how_it_joins(open_: Open, messages_api: MessagesApi):
    gate = Gate()
    messages_api.add(Reply(Text("one", gate)), Reply("steered"))
    session = open_()
    prompting = asyncio.create_task(session.prompt("talk"))
    await asyncio.to_thread(gate.reached.wait, 240)
    with pytest.raises(SessionBusyError, match="streamingBehavior"):
        await session.prompt("more")
    await session.prompt("more", streaming_behavior="steer")
    assert session.pending_count == 1
    gate.open()
    await prompting
    assert texts(session.messages) == ["talk", "one", "more", "steered"]


async def test_steering_skips_the_calls_that_have_not_started(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply(ToolUse("slow", {}), ToolUse("slow", {})), Reply("Changed."))
    session = open_()

    async def steer() -> str:
        await session.steer("change of plan")
        return "first is done"

    session.equipment.tools = {"slow": tool("slow", steer)}

    session.equipment.active = list(session.equipment.tools)
    events = watch(session)
    await session.prompt("go")
    results = [m for m in session.messages if isinstance(m, ToolResultMessage)]
    assert [result.is_error for result in results] == [False, True]
    assert text_of(results[1].content).startswith("Skipped")
    assert texts(session.messages)[-2:] == ["change of plan", "Changed."]
    queue_then_message = [line for line in outline(events) if line in ("queue_update", "message_start user")]
    assert queue_then_message == ["message_start user", "queue_update", "queue_update", "message_start user"]


async def test_interrupt_mode_wait_runs_the_whole_batch_first(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply(ToolUse("slow", {}), ToolUse("slow", {})), Reply("Changed."))
    session = open_()
    session.set_interrupt_mode("wait")
    runs: list[int] = []

    async def steer() -> str:
        runs.append(1)
        if len(runs) == 1:
            await session.steer("change of plan")
        return "done"

    session.equipment.tools = {"slow": tool("slow", steer)}

    session.equipment.active = list(session.equipment.tools)
    await session.prompt("go")
    assert len(runs) == 2
    assert texts(session.messages)[-2:] == ["change of plan", "Changed."]


async def test_follow_ups_wait_until_the_model_is_done_and_come_one_at_a_time(open_: Open, messages_api: MessagesApi):
    gate = Gate()
    messages_api.add(Reply(Text("one", gate)), Reply("two"), Reply("three"))
    session = open_()
    prompting = asyncio.create_task(session.prompt("a"))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.follow_up("b")
    await session.follow_up("c")
    gate.open()
    await prompting
    assert texts(session.messages) == ["a", "one", "b", "two", "c", "three"]


async def test_mode_all_delivers_the_whole_queue(open_: Open, messages_api: MessagesApi):
    gate = Gate()
    messages_api.add(Reply(Text("one", gate)), Reply("two"))
    session = open_()
    session.follow_up_queue.mode = "all"
    prompting = asyncio.create_task(session.prompt("a"))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.follow_up("b")
    await session.follow_up("c")
    gate.open()
    await prompting
    assert texts(session.messages) == ["a", "one", "b", "c", "two"]


async def test_one_message_is_taken_back_from_a_queue(open_: Open):
    session = open_()
    for text in ("one", "two", "three"):
        await session.follow_up(text)
    told: list[list[str]] = []
    session.subscribe(lambda event: told.append(event.follow_up) if event.type == "queue_update" else None)
    assert text_of((await session.unqueue("followUp", 1)).content) == "two"
    assert told == [["one", "three"]]
    for queue, index in (("followUp", 2), ("followUp", -1), ("steer", 0)):
        with pytest.raises(UsageError, match="Nothing waits there"):
            await session.unqueue(queue, index)
    assert session.pending_count == 2


async def test_an_abort_keeps_the_queues_for_the_next_run(open_: Open, messages_api: MessagesApi):
    gate = Gate()
    messages_api.add(Reply(Text("one", gate)), Reply("fresh"), Reply("more"))
    session = open_()
    prompting = asyncio.create_task(session.prompt("a"))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.steer("queued steer")
    await session.follow_up("queued follow")
    await session.abort()
    await prompting
    assert session.pending_count == 2
    await session.prompt("go on")
    assert texts(session.messages)[2:] == ["go on", "queued steer", "fresh", "queued follow", "more"]


async def stopped_with_queue(open_: Open, messages_api: MessagesApi) -> AgentSession:
    """A session whose run was aborted while three messages waited."""
    gate = Gate()
    messages_api.add(Reply(Text("one", gate)))
    session = open_()
    prompting = asyncio.create_task(session.prompt("a"))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.follow_up("first after it")
    await session.follow_up("second after it")
    await session.steer("at once")
    await session.abort()
    await prompting
    return session


async def test_what_an_abort_left_in_the_queues_is_sent_in_its_order_and_once_however_often_that_is_asked_for(
    open_: Open, messages_api: MessagesApi
):
    session = await stopped_with_queue(open_, messages_api)
    messages_api.add(Reply("now"), Reply("then"), Reply("last"))
    waiting: list[int] = []
    session.subscribe(
        lambda event: (
            waiting.append(len(event.steering) + len(event.follow_up)) if event.type == "queue_update" else None
        )
    )
    accepted: list[str] = []
    await asyncio.gather(*(session.send_queued(accepted.append) for _ in range(3)))
    await session.wait_until_idle()
    assert texts(session.messages)[2:] == [
        "at once", "now", "first after it", "then", "second after it", "last",
    ]  # fmt: skip
    assert accepted == ["started"]
    assert waiting == [2, 1, 0]
    await session.send_queued(accepted.append)
    assert accepted == ["started"], "nothing waits any more"


async def test_what_waits_stays_where_it_is_when_no_run_can_begin_with_it(
    open_: Open, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch
):
    session = await stopped_with_queue(open_, messages_api)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(CredentialsError):
        await session.send_queued()
    assert session.steering.texts == ["at once"]
    assert session.follow_up_queue.texts == ["first after it", "second after it"]
    assert len(messages_api.requests) == 1


async def test_sending_what_waits_leaves_a_run_that_goes_on_to_deliver_it(open_: Open, messages_api: MessagesApi):
    gate = Gate()
    messages_api.add(Reply(Text("one", gate)), Reply("two"))
    session = open_()
    prompting = asyncio.create_task(session.prompt("a"))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.follow_up("b")
    await session.send_queued()
    assert session.follow_up_queue.texts == ["b"]
    gate.open()
    await prompting
    assert texts(session.messages) == ["a", "one", "b", "two"]


async def test_neighbouring_reads_run_side_by_side_and_effects_alone_and_in_order(
    open_: Open, messages_api: MessagesApi
):
    messages_api.add(
        Reply(ToolUse("look", {}), ToolUse("look", {}), ToolUse("act", {}), ToolUse("act", {}), ToolUse("look", {})),
        Reply("done"),
    )
    session = open_()
    together = asyncio.Barrier(2)
    running: list[str] = []
    overlaps: list[str] = []

    async def look() -> str:
        running.append("look")
        if len(looks_done) < 2:
            await together.wait()
        looks_done.append(1)
        running.remove("look")
        return "seen"

    async def act() -> str:
        overlaps.extend(running)
        running.append("act")
        await asyncio.sleep(0)
        running.remove("act")
        return "done"

    looks_done: list[int] = []
    session.equipment.tools = {"look": tool("look", look, read_only=True), "act": tool("act", act)}
    session.equipment.active = list(session.equipment.tools)
    await asyncio.wait_for(session.prompt("go"), 120)
    assert overlaps == []
    assert len(looks_done) == 3


async def test_without_a_key_the_error_names_both_ways_out(open_: Open, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    for wishes in ({"model": "claude-haiku-4-5"}, {"model": None}):
        session = open_(**wishes)
        with pytest.raises(CredentialsError, match=r"(?s)ANTHROPIC_API_KEY.*offline"):
            await session.prompt("hi")
        assert session.messages == []


async def test_without_a_model_one_is_chosen_as_soon_as_there_is_a_key(
    open_: Open, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch
):
    messages_api.add(Reply("one"))
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    session = open_(model=None)
    with pytest.raises(CredentialsError, match="No model is chosen"):
        await session.prompt("hi")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    await session.prompt("hi")
    assert session.last_text == "one"
    assert session.model is not None
    assert session.store.context().model == (session.model.provider, session.model.id)


def test_an_unknown_model_is_named_with_what_it_may_have_meant(open_: Open):
    with pytest.raises(ModelNotFoundError, match="claude-haiku-4-5"):
        open_(model="claude-haiko-4-5")


async def test_the_model_can_be_changed_and_the_thinking_level_follows(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply("one"), Reply("two"))
    session = open_(model="claude-opus-4-7", thinking="xhigh")
    events = watch(session)
    await session.prompt("a")
    await session.set_model(find_model("claude-haiku-4-5"))
    assert session.thinking_level == "high"
    assert [event.type for event in events[-2:]] == ["model_changed", "thinking_level_changed"]
    await session.prompt("b")
    assert [request.body["model"] for request in messages_api.requests] == ["claude-opus-4-7", "claude-haiku-4-5"]


def test_run_answers_from_plain_code_and_raises_when_the_answer_failed(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply("One."), Reply("Two."), HttpError(500, "api_error", "broken"))
    session = open_()
    session.settings.retry.enabled = False
    assert session.run("1") == "One."
    assert session.run("2") == "Two."
    with pytest.raises(RunFailedError, match="500"):
        session.run("3")


def test_run_answers_inside_a_running_loop(home: Path):
    program = (
        "import asyncio\n"
        "from indus_nb import SessionOptions, open_session\n"
        "async def main():\n"
        "    with open_session(SessionOptions(provider='offline', no_session=True)) as session:\n"
        "        print(session.run('compute 6 * 7'))\n"
        "asyncio.run(main())\n"
    )  # in a process of its own: what lets the loop go on meanwhile patches asyncio for good
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=home / "work", capture_output=True, text=True, check=True)
    assert "42" in done.stdout


async def test_events_can_be_iterated_and_leaving_early_aborts(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply("One."), Reply(Text("two", Gate())))
    session = open_()
    kinds = [event.type async for event in session.events("1")]
    assert (kinds[0], kinds[-1]) == ("agent_start", "agent_settled")
    events = session.events("2")
    async for event in events:
        if event.type == "message_update":
            break
    await events.aclose()
    assert session.last_answer.stop_reason == "aborted"
    assert not session.is_running


async def test_whoever_sees_the_end_of_a_run_may_prompt_at_once(open_: Open, messages_api: MessagesApi):
    messages_api.add(Reply("One."), Reply("Two."))
    session = open_()
    again: list[asyncio.Task[None]] = []

    def prompt_again(event: SessionEvent) -> None:
        if event.type == "agent_end" and not again:
            again.append(asyncio.create_task(session.prompt("2")))

    session.subscribe(prompt_again)
    await session.prompt("1")
    await again[0]
    assert texts(session.messages) == ["1", "One.", "2", "Two."]


async def test_a_subscriber_that_fails_disturbs_nobody(
    open_: Open, messages_api: MessagesApi, caplog: pytest.LogCaptureFixture
):
    messages_api.add(Reply("One."))
    session = open_()

    def fail(_: SessionEvent) -> None:
        raise RuntimeError("a view is broken")

    session.subscribe(fail)
    events = watch(session)
    await session.prompt("1")
    assert outline(events)[-1] == "agent_settled"
    assert "a view is broken" in caplog.text


async def test_a_file_that_somebody_else_wrote_to_stops_the_run_and_says_so(
    open_: Open, messages_api: MessagesApi, tmp_path: Path
):
    messages_api.add(Reply("One."), Reply("Two."))
    session = open_(no_session=False, session_dir=tmp_path / "sessions")
    await session.prompt("1")
    with session.store.path.open("a") as file:
        file.write('{"type":"custom","id":"ffffffff","parentId":null,"timestamp":"2026-01-01T00:00:00.000Z"}\n')
    await session.prompt("2")
    assert session.last_answer.stop_reason == "aborted"
    assert str(session.store.path) in session.last_answer.error_message
    assert len(messages_api.requests) == 1, "what cannot be saved is not asked"


async def test_a_new_session_starts_empty_in_a_file_of_its_own(open_: Open, messages_api: MessagesApi, tmp_path: Path):
    messages_api.add(Reply("One."), Reply("Two."))
    session = open_(no_session=False, session_dir=tmp_path / "sessions")
    await session.prompt("1")
    first = session.store.path
    await session.follow_up("still queued")
    await session.new_session(str(first))
    assert (session.messages, session.pending_count) == ([], 0)
    await session.prompt("2")
    assert session.store.path != first
    header = json.loads(session.store.path.read_text().splitlines()[0])
    assert header["parentSession"] == str(first)


@asynccontextmanager
async def compacting(open_: Open, messages_api: MessagesApi, *later: Reply) -> AsyncGenerator[Any]:
    """A session of two turns whose summary is being written until the gate opens; ``later`` are answers after that."""
    words = "word " * 200
    gate = Gate()
    messages_api.add(Reply(words), Reply(words), *[Reply(Text("The ", gate, "summary."))] * 2, *later)
    session = open_()
    session.settings.compaction.keep_recent_tokens = 100
    await session.prompt("one")
    await session.prompt("two")
    task = asyncio.create_task(session.compact())
    await asyncio.to_thread(gate.reached.wait, 240)
    async with asyncio.timeout(120):
        yield session, task, gate
    gate.open()


async def test_a_cancelled_compaction_leaves_an_idle_session(open_: Open, messages_api: MessagesApi):
    async with compacting(open_, messages_api) as (session, task, _):
        assert session.is_compacting
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not session.is_compacting
        assert len(session.messages) == 4


async def test_a_prompt_during_a_compaction_waits_for_its_end(open_: Open, messages_api: MessagesApi):
    async with compacting(open_, messages_api, Reply("After.")) as (session, task, gate):
        prompting = asyncio.create_task(session.prompt("three"))
        gate.open()
        await asyncio.gather(task, prompting)
        assert session.messages[0].role == "compactionSummary"
        assert session.last_text == "After."


async def test_what_the_user_runs_during_a_compaction_is_kept(open_: Open, messages_api: MessagesApi):
    async with compacting(open_, messages_api) as (session, task, gate):
        assert (await session.bash("echo meanwhile")).output == "meanwhile\n"
        gate.open()
        await task
        assert session.messages[-1].role == "bashExecution"
        assert session.store.context().messages() == session.messages


@pytest.mark.parametrize("saved", [True, False])
def test_files_with_long_output_end_with_a_session_that_is_not_saved_else_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    old, young, other = (place / f"indusagi-{name}.log" for name in ("bash-" + "0" * 16, "bash-" + "1" * 16, "mine"))
    for path in (old, young, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0, 0))
    options = SessionOptions(provider="offline", no_session=not saved, session_dir=tmp_path / "sessions")
    with open_session(options) as session:
        session.run("run `seq 100000`")
        assert {young, other} < {*place.iterdir()}
        assert old not in place.iterdir()
        assert len([*place.iterdir()]) == 3
    assert len([*place.iterdir()]) == (3 if saved else 2)
