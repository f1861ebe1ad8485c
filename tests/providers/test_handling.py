"""Events that were there at the same time: what they add is the same, in fewer updates where there are many."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage, TextDelta, TextEnd, ToolCallDelta
from indus_nb.models.http.handling import updates
from indus_nb.models.http.http import decoded_events


class Said:
    """An answer whose events are the texts to append: lower case to a text, upper case to a call."""

    def __init__(self) -> None:
        self.growing = GrowingMessage(api="a", provider="p", model="m")
        self.text = self.growing.open_text().content_index
        self.call = self.growing.open_tool_call("c", "ls").content_index
        self.complete = False

    def delta_in(self, event: object) -> tuple[object, str] | None:
        return (str(event).isupper(), str(event)) if str(event).isalpha() else None

    def with_delta(self, event: object, text: str) -> Any:
        return text

    def handle(self, event: object) -> Iterable[AssistantMessageEvent]:
        if event == "!":
            raise ValueError("no event")
        if event == ".":
            self.complete = True
            return [self.growing.close(self.text), self.growing.close(self.call)]
        return [self.growing.append(self.call if str(event).isupper() else self.text, str(event))]


def deltas(events: Iterable[AssistantMessageEvent]) -> list[tuple[type[object], str]]:
    return [(type(event), event.delta) for event in events if isinstance(event, TextDelta | ToolCallDelta)]


def test_a_few_deltas_stay_as_they_came():
    assert deltas(updates(Said(), list("abAB"))) == [
        (TextDelta, "a"),
        (TextDelta, "b"),
        (ToolCallDelta, "A"),
        (ToolCallDelta, "B"),
    ]


def test_of_many_deltas_those_of_one_block_that_follow_each_other_are_one():
    said = list(updates(Said(), [*"ab" * 30, *"AB" * 30, *"cd" * 30, "."]))
    assert deltas(said) == [(TextDelta, "ab" * 30), (ToolCallDelta, "AB" * 30), (TextDelta, "cd" * 30)]
    assert [event.type for event in said[3:]] == ["text_end", "toolcall_end"]
    assert isinstance(said[3], TextEnd)
    assert said[3].content == "ab" * 30 + "cd" * 30


@pytest.mark.parametrize("count", [3, 300])
def test_what_comes_before_a_defect_is_kept(count: int):
    each = updates(Said(), [*"a" * count, "!", *"b" * count])
    found: list[AssistantMessageEvent] = []
    with pytest.raises(ValueError, match="no event"):
        found.extend(each)
    assert "".join(text for _, text in deltas(found)) == "a" * count


@pytest.mark.parametrize("count", [3, 300])
def test_what_comes_behind_the_end_is_left_out(count: int):
    said = deltas(updates(Said(), [*"a" * count, ".", *"b" * count]))
    assert "".join(text for _, text in said) == "a" * count


async def test_events_of_one_piece_are_decoded_up_to_the_one_that_cannot_be():
    async def body() -> AsyncGenerator[bytes]:
        yield b'data: {"n": 1}\n\ndata: {"n": 2}\n\ndata: {"n"\n\ndata: {"n": 4}\n\n'

    found: list[object] = []

    async def read() -> None:
        async for events in decoded_events(body()):
            found.extend(events)

    with pytest.raises(ValueError, match="delimiter"):
        await read()
    assert found == [{"n": 1}, {"n": 2}]


async def test_many_events_of_one_piece_come_in_groups():
    async def body() -> AsyncGenerator[bytes]:
        yield b"".join(b'data: {"n": %d}\n\n' % number for number in range(1000))

    groups = [events async for events in decoded_events(body())]
    assert [event["n"] for group in groups for event in group] == list(range(1000))
    assert max(map(len, groups)) < 1000
