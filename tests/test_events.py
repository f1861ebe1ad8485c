"""What holds for every event, whoever gets it."""

from __future__ import annotations

import copy
import inspect
import json
from typing import Any, get_args

import pytest

from indus_nb.base.events import (
    AgentEnd,
    BashExecutionUpdate,
    MessageEnd,
    MessageUpdate,
    QueueUpdate,
    SessionEvent,
    ToolExecutionUpdate,
)
from indus_nb.base.messages import UserMessage
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage, TextDelta
from indus_nb.base.wire import dump
from indus_nb.tools.tool import text_output

KINDS: tuple[type[Any], ...] = (*get_args(SessionEvent), *get_args(AssistantMessageEvent))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_event_is_immutable(kind: type[Any]) -> None:
    names = inspect.get_annotations(kind)
    event = kind(**dict.fromkeys(names, "something"))
    for name in names:
        with pytest.raises(AttributeError, match="frozen"):
            setattr(event, name, "another")
        with pytest.raises(AttributeError, match="frozen"):
            delattr(event, name)


def test_an_event_cannot_be_changed_by_whoever_gets_it_first() -> None:
    for event, field in (
        (AgentEnd(messages=[]), "will_retry"),
        (MessageEnd(message=UserMessage(content="hi")), "message"),
        (TextDelta(content_index=0, delta="a"), "delta"),
    ):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(event, field, True)


def test_an_event_is_in_json_what_it_says_without_what_is_absent_or_only_for_programs() -> None:
    growing = GrowingMessage(api="a", provider="p", model="m")
    update = MessageUpdate(assistant_message_event=TextDelta(content_index=0, delta="\ud83d"), growing=growing)
    said = {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "�"}}
    assert json.loads(dump(update)) == said
    asked = {"role": "user", "content": "hi", "timestamp": 1}
    output = {"content": [{"type": "text", "text": "a"}]}
    for event, frame in (
        (AgentEnd(messages=[UserMessage.from_wire(asked)]), {"willRetry": False, "messages": [asked]}),
        (BashExecutionUpdate(command_id=7, delta="out"), {"id": 7, "delta": "out"}),
        (BashExecutionUpdate(delta="out"), {"delta": "out"}),
        (
            ToolExecutionUpdate(tool_call_id="1", tool_name="ls", args={"a": None}, partial_result=text_output("a")),
            {"toolCallId": "1", "toolName": "ls", "args": {"a": None}, "partialResult": output},
        ),
    ):
        assert json.loads(dump(event)) == event.to_wire() == {"type": event.type, **frame}


def test_an_event_is_made_of_what_its_kind_has_and_nothing_else() -> None:
    kind: Any = TextDelta
    with pytest.raises(TypeError, match="needs content_index"):
        kind(delta="a")
    with pytest.raises(TypeError, match="has no text"):
        kind(content_index=0, delta="a", text="a")


def test_events_that_say_the_same_are_equal_also_when_copied() -> None:
    event = QueueUpdate(steering=["a"], follow_up=[])
    assert event == copy.deepcopy(event)
    assert event != QueueUpdate(steering=["b"], follow_up=[])
    assert len({TextDelta(content_index=0, delta="a"), TextDelta(content_index=0, delta="a")}) == 1
