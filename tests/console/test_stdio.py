"""Lines in and frames out, through real pipes."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indus_nb.base.events import AgentStart, MessageUpdate, SessionEvent, ToolExecutionUpdate
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage
from indus_nb.base.wire import dump
from indus_nb.front.console.frames import FrameEncoder
from indus_nb.front.console.intake import carry_out
from indus_nb.front.console.stdio import FrameWriter, LineSplitter, LineTooLongError, read_lines
from indus_nb.tools import text_output


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def update(growing: GrowingMessage, happened: AssistantMessageEvent) -> MessageUpdate:
    return MessageUpdate(assistant_message_event=happened, growing=growing)


async def what_a_late_reader_gets(pipe: tuple[int, int], events: Iterable[SessionEvent]) -> list[dict]:
    """The frames of events that were all sent before anything was read."""
    reading, writing = pipe
    writer = FrameWriter(writing, "snapshot", lambda: None)
    writer.send_line(b'"%b"' % (b"x" * 200_000))  # more than a pipe holds: the writer is stuck from here on
    waiting = [awaitable for event in events if (awaitable := writer.send(event)) is not None]
    read = asyncio.get_running_loop().run_in_executor(None, lambda: os.fdopen(reading, "rb", closefd=False).read())
    await asyncio.gather(*waiting)
    await writer.close(10)
    os.close(writing)
    return [json.loads(line) for line in (await read).splitlines()][1:]


@given(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r")), max_size=6), st.data())
def test_lines_are_the_same_however_the_bytes_arrive(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + data.draw(st.sampled_from([b"\n", b"\r\n"])) for line in lines) + b"last"
    splitter = LineSplitter()
    taken: list[bytes | LineTooLongError] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        taken += splitter.feed(stream[:size])
        stream = stream[size:]
    assert [*taken, *splitter.end()] == [*lines, b"last"]


def test_a_line_over_the_limit_is_skipped_and_the_next_one_read() -> None:
    splitter = LineSplitter(limit=4)
    first, second = splitter.feed(b"12345\n1234\n")
    assert isinstance(first, LineTooLongError)
    assert "4 bytes" in str(first)
    assert second == b"1234"
    splitter.feed(b"123")
    assert splitter.feed(b"456789") == []
    assert isinstance(splitter.end()[0], LineTooLongError)


async def test_lines_are_read_until_the_other_end_closes(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, b"one\ntwo\nrest")
    os.close(writing)
    assert [line async for line in read_lines(reading)] == [b"one", b"two", b"rest"]


def test_a_frame_is_what_the_event_says_with_the_message_as_it_was_then() -> None:
    growing = GrowingMessage(api="a", provider="p", model="m")
    encoder = FrameEncoder()

    def check(happened: AssistantMessageEvent) -> None:
        frame = json.loads(encoder.encode(update(growing, happened)))
        message = json.loads(dump(growing.snapshot()))
        assert frame["message"] == message
        assert frame["assistantMessageEvent"] == {**json.loads(dump(happened)), "partial": message}

    check(growing.start())
    for open_, deltas in (
        (growing.open_thinking, ("hm", "\n")),
        (growing.open_text, ('say "', "ü\u2028\x01")),
        (lambda: growing.open_tool_call("1", "ls"), ('{"path": "a', 'b\\n"', "}")),
    ):
        opened = open_()
        check(opened)
        for delta in deltas:
            check(growing.append(opened.content_index, delta))
        check(growing.close(opened.content_index))
    growing.usage = growing.usage.replace(output=5)
    done = growing.finish("toolUse")
    frame = json.loads(encoder.encode(update(growing, done)))
    assert frame["message"] == frame["assistantMessageEvent"]["message"] == json.loads(dump(done.message))


async def test_a_slow_reader_gets_joined_deltas_and_loses_nothing(pipe: tuple[int, int]) -> None:
    growing = GrowingMessage(api="a", provider="p", model="m")
    deltas = [f"{number} " for number in range(1000)]

    def events() -> Iterator[SessionEvent]:
        yield update(growing, growing.start())
        opened = growing.open_text()
        yield update(growing, opened)
        for delta in deltas:
            yield update(growing, growing.append(opened.content_index, delta))
        yield update(growing, growing.close(opened.content_index))
        yield AgentStart()

    frames = await what_a_late_reader_gets(pipe, events())
    shown = [f["assistantMessageEvent"]["type"] if "assistantMessageEvent" in f else f["type"] for f in frames]
    assert shown == ["start", "text_start", "text_delta", "text_end", "agent_start"]
    assert frames[2]["assistantMessageEvent"]["delta"] == "".join(deltas)
    assert frames[2]["message"]["content"][0]["text"] == "".join(deltas)


async def test_a_slow_reader_sees_only_the_latest_report_of_a_tool(pipe: tuple[int, int]) -> None:
    frames = await what_a_late_reader_gets(
        pipe,
        (
            ToolExecutionUpdate(tool_call_id=call_id, tool_name="bash", args={}, partial_result=text_output(text))
            for call_id, text in (("1", "a"), ("1", "ab"), ("2", "x"), ("1", "abc"))
        ),
    )
    reports = [(frame["toolCallId"], frame["partialResult"]["content"][0]["text"]) for frame in frames]
    assert reports == [("1", "ab"), ("2", "x"), ("1", "abc")]


async def test_a_reader_that_has_gone_holds_nothing_up(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(reading)
    others = threading.enumerate()
    gone: list[str] = []
    writer = FrameWriter(writing, "snapshot", lambda: gone.append("gone"))
    for _ in range(3):
        writer.send_line(b"nobody reads this")
        await writer.wait_for_reader()
    assert await writer.close(10) == "Broken pipe"
    assert gone
    assert "indus_nb frames" not in {thread.name for thread in threading.enumerate() if thread not in others}


async def test_deltas_that_come_together_are_one_frame_and_a_lone_one_waits_for_no_other(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    growing = GrowingMessage(api="a", provider="p", model="m")
    opened = growing.open_text()
    index = opened.content_index
    writer = FrameWriter(writing, "snapshot", lambda: None)
    shown: list[str] = []
    with os.fdopen(reading, "rb", closefd=False) as lines:
        assert writer.send(update(growing, opened)) is None
        assert b"text_start" in await asyncio.to_thread(lines.readline)
        for together in (1, 50, 1, 1):
            for _ in range(together):
                assert writer.send(update(growing, growing.append(index, "word "))) is None
            shown.append(json.loads(await asyncio.to_thread(lines.readline))["assistantMessageEvent"]["delta"])
    assert shown == ["word ", "word " * 50, "word ", "word "]
    assert await writer.close(10) is None


class Defective:
    """Carries nothing out."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def handle_line(self, line: object) -> bool:
        raise ZeroDivisionError(line)


async def test_a_defect_while_commands_are_read_is_said_and_is_no_good_end(
    pipe: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = pipe
    os.write(writing, b"one\ntwo\n")
    answers = FrameWriter(os.open(os.devnull, os.O_WRONLY), "snapshot", lambda: None)
    assert await carry_out(Defective(), answers, reading) == 1
    assert (
        "indus-nb: Internal error: ZeroDivisionError: b'one'. No more commands are read.\n" in capsys.readouterr().err
    )
    await answers.close(10)
