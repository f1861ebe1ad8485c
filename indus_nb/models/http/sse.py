"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), each with JSON as its data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from indus_nb.base.wire import check_json_values, from_json

MAX_EVENT_BYTES = 16 * 1024 * 1024
_MAX_LINES = 100_000
_USUAL = re.compile(rb"(?:event: ([^\n]*)\n)?data: ([^\n]*)").fullmatch


class StreamedError(Exception):
    """An event named ``error``: the server failed after it had begun to answer.

    ``body`` is the value of its JSON, else its text.
    """

    def __init__(self, body: object) -> None:
        super().__init__("an error in the stream")
        self.body = body


class EventTooLargeError(ValueError):
    """An event without an end, or of more parts than any has."""

    def __init__(self, size: str) -> None:
        super().__init__(f"an event is larger than {size}")


class EventDecoder:
    r"""A decoder of a stream that arrives in pieces, which may end anywhere.

    Events without data and those named ``ping`` are left out, and of the others all but the data. ``is_done`` tells
    whether ``[DONE]`` came, with which some servers end a stream.

    >>> decoder = EventDecoder()
    >>> list(decoder.feed(b'event: note\r\ndata: {"n"'))
    []
    >>> list(decoder.feed(b': 1}\r\n\r\n'))
    [{'n': 1}]
    """

    def __init__(self) -> None:
        self._rest = bytearray()  # of an event that has not ended
        self._after_cr = False
        self._is_first = True
        self.is_done: bool = False

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yield the data of the events that ``piece`` completes.

        Raises:
            StreamedError: The server reports an error.
            EventTooLargeError: An event does not end.
            ValueError: What has arrived is no UTF-8, or the data of an event no JSON.
        """
        if self._after_cr or b"\r" in piece:
            piece = self._with_plain_line_ends(piece)
        if not piece:
            return
        # Only what is new is searched, and an event of many pieces is copied once, when its end has come.
        searched = max(0, len(self._rest) - 1)
        self._rest += piece
        end = self._rest.rfind(b"\n\n", searched) + 2
        if end > 1:
            ended = bytes(self._rest[:end])
            del self._rest[:end]
            for block in ended.split(b"\n\n"):
                if block and (data := self._data(block)):
                    yield _value(data)
        if len(self._rest) > MAX_EVENT_BYTES:
            raise EventTooLargeError(f"{MAX_EVENT_BYTES // 1024 // 1024} MB")

    def end(self) -> Iterator[Any]:
        """Yield the data of the last event if nothing but the empty line behind it is missing.

        Raises:
            StreamedError: The server reports an error.
        """
        try:
            data = self._data(bytes(self._rest))
            value = _value(data) if data else None
        except ValueError:  # it was cut off, and what there is of it says nothing
            return
        if data:
            yield value

    def _with_plain_line_ends(self, piece: bytes) -> bytes:
        if self._after_cr and piece[:1] == b"\n":
            piece = piece[1:]
            self._after_cr = False
        if piece:
            self._after_cr = piece[-1:] == b"\r"
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _data(self, block: bytes) -> bytes:
        if self._is_first:
            self._is_first = False
            block = block.removeprefix(b"\xef\xbb\xbf")
        # Nearly all are an `event` line and a `data` line, or the latter alone; the rest is read line by line.
        usual = _USUAL(block)
        name, data = usual.groups(b"") if usual else _fields(block)
        if name == b"error" and data:
            raise StreamedError(json_or_text(data.decode()))
        if data.startswith(b"[DONE]"):
            self.is_done = True
        return b"" if name == b"ping" or self.is_done else data


def _fields(block: bytes) -> tuple[bytes, bytes]:
    """Return the name and the data of an event."""
    if block.count(b"\n") > _MAX_LINES:
        raise EventTooLargeError(f"{_MAX_LINES:,} lines")
    block.decode()  # what is no UTF-8 is an error wherever it stands
    name, values = b"", list[bytes]()
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            values.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return name, b"\n".join(values)


def _value(data: bytes) -> Any:
    check_json_values(data)
    try:
        return from_json(data)
    except ValueError:  # lone surrogates and deep nesting are read by the slower parser, and real defects in its words
        return _slowly_read(data)


def _slowly_read(data: bytes) -> Any:
    try:
        return json.loads(data.decode())
    except RecursionError:
        raise ValueError("data nested too deeply") from None


def json_or_text(text: str) -> Any:
    """Return the value of ``text`` if it is JSON, else ``text``."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
