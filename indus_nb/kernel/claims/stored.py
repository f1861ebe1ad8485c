"""Values of answers in a session's file: which of them belong to which answer, as of when.

What this module promises: an answer gets the values that were written right before it, and those of no other answer
that has the same text. The file is anybody's: what it holds is taken for text, and for nothing where it is of no shape.
"""

from __future__ import annotations

import hashlib
from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice, takewhile
from typing import cast

from indus_nb.base import textcut
from indus_nb.base.messages import AssistantMessage, Message, TextContent
from indus_nb.base.wire import JsonObject
from indus_nb.core.storage.entries import Entry, milliseconds
from indus_nb.core.storage.text import entry_text, stored_message
from indus_nb.render.live import MARK, REWRITES, VALUES_TYPE, LiveValue
from indus_nb.render.markup import markdown_text, plain

MAX_VALUE_CHARACTERS = 200
_MAX_ENTRIES = 1_000
_MAX_BEGINNING_CHARACTERS = 1_000

Values = Mapping[str, LiveValue]


def digest(text: str) -> str:
    """Return what an entry of values calls its answer."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def stored_values(messages: Iterable[Message], newest_first: Iterable[Entry]) -> dict[str, list[Values | None]]:
    """Return the values of the texts of some messages: of each text as many as there are, ``None`` for one without.

    Args:
        messages: The newest of a conversation.
        newest_first: Its entries, backwards; no more of them are read than it takes.

    Returns:
        Values in the order of the messages; nothing of a text that never has any.
    """
    wanted = Counter(text for message in messages for text in _texts(message))
    found: defaultdict[str, list[Values | None]] = defaultdict(list)
    lacking: dict[str, tuple[str, int]] = {}
    for entry in newest_first:
        if not wanted and not lacking:
            break
        if entry.type == "custom":
            name, values = _held(entry)
            if (of := lacking.pop(name, None)) is not None:
                text, count = of
                found[text][-count:] = [values] * count
        elif (message := _answer(entry)) is not None:
            texts = Counter(text for text in _texts(message) if wanted[text])
            lacking = {digest(text): (text, count) for text, count in texts.items()}
            for text, count in texts.items():
                found[text] += [None] * count
            wanted -= texts
    return {text: values[::-1] for text, values in found.items() if any(each is not None for each in values)}


def untold_values(newest_first: Iterable[Entry]) -> Values:
    """Return the values of answers that no message has told the model; of one that was written anew only the new ones.

    Args:
        newest_first: The entries of the conversation, backwards; only so many are read as one run may have made.
    """
    since = [*takewhile(lambda entry: _told(entry) is not False, islice(newest_first, _MAX_ENTRIES))]
    oldest = max((at for at, entry in enumerate(since) if _held(entry)[0]), default=-1)
    found: list[Values] = []
    names: set[str] = set()
    has_ended = is_replaced = False
    for entry in since[: oldest + 1]:
        if (message := _answer(entry)) is not None:
            names = set() if is_replaced else {digest(text) for text in _texts(message)}
            is_replaced, has_ended = False, has_ended or message.stop_reason == "stop"
        elif _told(entry):
            is_replaced = has_ended
        else:
            name, values = _held(entry)
            found += [values] if name in names else []
    return {expression: value for values in reversed(found) for expression, value in values.items()}


def text_with_values(entries: Iterable[Entry]) -> Callable[[Entry], str]:
    """Return what writes the beginning of an entry's text, with values in the place of an answer's expressions.

    Args:
        entries: All of a session, in the order of the file.
    """
    values: dict[str, Values] = {}
    waiting: dict[str, Values] = {}
    for entry in entries:
        if entry.type == "custom":
            name, held = _held(entry)
            waiting |= {name: held} if name else {}
        elif waiting and (message := _answer(entry)) is not None:
            found = [waiting.get(digest(text), {}) for text in _texts(message)]
            values[entry.id] = dict(ChainMap(*map(dict, found)))
            waiting = {}

    def write(entry: Entry) -> str:
        text = entry_text(entry)[:_MAX_BEGINNING_CHARACTERS]
        if MARK not in text or stored_message(entry).get("role") != "assistant":
            return text
        known = values.get(entry.id, {})
        return markdown_text(text, lambda source: known.get(source) or LiveValue(f"`{source}`"))

    return write


def _texts(message: Message) -> list[str]:
    """Return the texts of an answer that may have expressions."""
    blocks = message.content if isinstance(message, AssistantMessage) else ()
    return [block.text for block in blocks if isinstance(block, TextContent) and MARK in block.text]


def _answer(entry: Entry) -> AssistantMessage | None:
    with suppress(ValueError):  # of a shape unknown here
        if isinstance(message := entry.message, AssistantMessage):
            return message
    return None


def _told(entry: Entry) -> bool | None:
    """Return whether a message of values has an answer written anew; ``None`` for another entry."""
    if entry.type != "custom_message" or entry.data.get("customType") != VALUES_TYPE:
        return None
    details: object = entry.data.get("details")
    return isinstance(details, dict) and REWRITES in details


def _held(entry: Entry) -> tuple[str, Values]:
    """Return the digest of the answer whose values an entry holds, and these; an empty one where it holds none."""
    held: JsonObject = entry.data if entry.type == "custom" else {}
    data: object = held.get("data")
    if held.get("customType") != VALUES_TYPE or not isinstance(data, dict):
        return "", {}
    name, values = (cast("JsonObject", data).get(key) for key in ("answer", "values"))
    if not isinstance(name, str) or not isinstance(values, list):
        return "", {}
    return name, dict(_read_values(cast("list[object]", values), _day_and_time(entry)))


def _read_values(values: Iterable[object], since: str) -> Iterator[tuple[str, LiveValue]]:
    for value in values:
        match value:
            case {"expression": str(expression), "value": str(text)}:
                yield expression, LiveValue(textcut.one_line(plain(text), MAX_VALUE_CHARACTERS), since=since)
            case {"expression": str(expression), "problem": str(problem)}:
                yield expression, LiveValue(problem=textcut.one_line(plain(problem), MAX_VALUE_CHARACTERS))
            case _:
                pass


def _day_and_time(entry: Entry) -> str:
    """Return when an entry was written, as the user's clock showed it; empty where no clock shows that."""
    with suppress(ValueError, OverflowError, OSError):
        seconds = milliseconds(entry.timestamp) / 1000
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")  # noqa: DTZ006 - the user's own clock
    return ""
