"""Values in a session's file: each answer gets its own, whatever the file holds beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from indus_nb.base.messages import AssistantMessage, Message, TextContent
from indus_nb.core.storage.entries import Entry
from indus_nb.kernel.claims.stored import digest, stored_values
from indus_nb.render.live import VALUES_TYPE

TEXT = "It is `{python} n`."
NOON = "2026-01-02T12:00:00Z"


class Written:
    """Entries of a session, as they are written one after another."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.messages: list[Message] = []

    def values(self, text: str, value: Any, timestamp: str = NOON) -> None:
        data = {"answer": digest(text), "values": [{"expression": "n", "value": value}]}
        self._add(type="custom", customType=VALUES_TYPE, data=data, timestamp=timestamp)

    def answer(self, *texts: str) -> None:
        content: list[Any] = [TextContent(text=text) for text in texts]
        message = AssistantMessage(content=content, api="a", provider="p", model="m", stop_reason="stop")
        self.messages.append(message)
        self._add(message, type="message", timestamp=NOON)

    def _add(self, message: Message | None = None, **data: Any) -> None:
        self.entries.append(Entry({"id": str(len(self.entries)), **data}, message))

    def shown(self, newest: int = 100) -> list[str | None]:
        """The values of the newest answers with the text, in their order."""
        found = stored_values(self.messages[-newest:], reversed(self.entries)).get(TEXT, [])
        return [None if values is None else values["n"].text for values in found]


def test_answers_with_the_same_text_have_the_values_that_were_written_before_each() -> None:
    written = Written()
    for value in ("5", None, "9"):
        if value is not None:
            written.values(TEXT, value)
        written.answer(TEXT)
        written.answer("Well.")
    assert written.shown() == ["5", None, "9"]
    assert written.shown(newest=4) == [None, "9"]


def test_an_answer_that_says_the_same_twice_has_its_values_twice() -> None:
    written = Written()
    written.values(TEXT, "5")
    written.answer(TEXT)
    written.values(TEXT, "9")
    written.answer(TEXT, "`{python} m`", TEXT)
    assert written.shown() == ["5", "9", "9"]


def test_no_more_entries_are_read_than_up_to_the_values_of_the_first_answer_shown() -> None:
    written = Written()
    for number in range(50):
        written.values(TEXT, str(number))
        written.answer(TEXT)
    read = 0

    def backwards() -> Iterator[Entry]:
        nonlocal read
        for entry in reversed(written.entries):
            read += 1
            yield entry

    assert [values and values["n"].text for values in stored_values(written.messages[-2:], backwards())[TEXT]] == [
        "48",
        "49",
    ]
    assert read == 5


@pytest.mark.parametrize("timestamp", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "soon", ""])
def test_a_time_that_no_clock_shows_costs_no_value(timestamp: str) -> None:
    written = Written()
    written.values(TEXT, "5", timestamp)
    written.answer(TEXT)
    assert written.shown() == ["5"]


@pytest.mark.parametrize("data", [None, [], {"answer": 1, "values": []}, {"answer": digest(TEXT), "values": {}}])
def test_entries_of_another_shape_hold_no_values(data: Any) -> None:
    written = Written()
    written.values(TEXT, "5")
    written.entries.append(Entry({"id": "x", "type": "custom", "customType": VALUES_TYPE, "data": data}))
    written.answer(TEXT)
    assert written.shown() == ["5"]
