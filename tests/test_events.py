"""What holds for every event, whoever gets it."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from indus_nb.events import AgentEnd, MessageEnd, SessionEvent
from indus_nb.messages import UserMessage
from indus_nb.streaming import AssistantMessageEvent, TextDelta

KINDS: tuple[type[Any], ...] = (*get_args(get_args(SessionEvent)[0]), *get_args(get_args(AssistantMessageEvent)[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_event_is_immutable(kind: type[Any]) -> None:
    assert kind.model_config.get("frozen")


def test_an_event_cannot_be_changed_by_whoever_gets_it_first() -> None:
    for event, field in (
        (AgentEnd(messages=[]), "will_retry"),
        (MessageEnd(message=UserMessage(content="hi")), "message"),
        (TextDelta(content_index=0, delta="a"), "delta"),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(event, field, True)
