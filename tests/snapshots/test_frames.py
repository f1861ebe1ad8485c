"""The frames of a run with a tool call, in the three shapes that a reader may ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import pytest
from snapshot import assert_snapshot

from indus_nb.base.events import (
    AgentEnd,
    AgentSettled,
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    SessionEvent,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from indus_nb.base.messages import Cost, ToolResultMessage, Usage, UserMessage
from indus_nb.base.streaming import GrowingMessage
from indus_nb.front.console.frames import FrameEncoder, Wire
from indus_nb.tools.tool import text_output


def events() -> Iterator[SessionEvent]:
    question = UserMessage(content="How many?")
    yield AgentStart()
    yield TurnStart()
    yield MessageStart(message=question)
    yield MessageEnd(message=question)
    growing = GrowingMessage(api="anthropic-messages", provider="anthropic", model="m-1")
    growing.usage = Usage(input=10, output=5, total_tokens=15, cost=Cost(total=0.001))

    def update(event) -> MessageUpdate:
        return MessageUpdate(growing=growing, assistant_message_event=event)

    start = growing.start()
    yield MessageStart(message=growing.snapshot())
    yield update(start)
    thought = growing.open_thinking()
    yield update(thought)
    yield update(growing.append(thought.content_index, 'Count "them".'))
    yield update(growing.close(thought.content_index))
    text = growing.open_text()
    yield update(text)
    yield update(growing.append(text.content_index, "I loo"))
    yield update(growing.append(text.content_index, "k.\n"))
    yield update(growing.close(text.content_index))
    call = growing.open_tool_call("call-1", "ls")
    yield update(call)
    yield update(growing.append(call.content_index, '{"path": '))
    yield update(growing.append(call.content_index, '"src"}'))
    yield update(growing.close(call.content_index))
    done = growing.finish("toolUse")
    yield update(done)
    answer = done.message
    yield MessageEnd(message=answer)
    yield ToolExecutionStart(tool_call_id="call-1", tool_name="ls", args={"path": "src"})
    yield ToolExecutionUpdate(
        tool_call_id="call-1", tool_name="ls", args={"path": "src"}, partial_result=text_output("a")
    )
    output = text_output("a\nb", {"count": 2})
    yield ToolExecutionEnd(tool_call_id="call-1", tool_name="ls", result=output, is_error=False)
    result = ToolResultMessage(tool_call_id="call-1", tool_name="ls", content=output.content, details=output.details)
    yield MessageStart(message=result)
    yield MessageEnd(message=result)
    yield TurnEnd(message=answer, tool_results=[result])
    yield AgentEnd(messages=[question, answer, result])
    yield AutoRetryStart(attempt=1, max_attempts=3, delay_ms=2000, error_message="overloaded")
    yield AutoRetryEnd(success=True, attempt=1)
    yield AgentSettled()


@pytest.mark.parametrize("wire", get_args(Wire))
def test_a_run_is_told_in_the_same_frames_as_ever(wire: Wire) -> None:
    encoder = FrameEncoder(wire)
    frames = [frame.decode() for event in events() if (frame := encoder.encode(event)) is not None]
    lines = re.sub(r'"timestamp":\d+', '"timestamp":0', "\n".join(frames))
    assert_snapshot(f"frames/{wire}.jsonl", lines)
