"""One entry of a session file, as its line has it.

What this module promises: a line whose message is stored in the usual way is checked when it is read, but no object is
made of it before a caller asks for one. So a long session costs about as much memory as its file, and is open soon.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from indus_nb.base.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolResultMessage,
    UserMessage,
    parse_message,
)
from indus_nb.base.wire import JsonObject, dump, from_json, load_object

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import EllipsisType

    from pydantic_core import core_schema

_MISSING_IMAGE = "[An image stood here. It is kept outside of the session file and cannot be shown.]"
_ROLES_WITH_CONTENT = ("user", "assistant", "toolResult", "custom")
_ROLES_WITHOUT_CONTENT = ("bashExecution", "branchSummary", "compactionSummary")

_PLAIN = rb'"([ !#-\[\]-~]*)"'  # a string in ASCII without escapes


@cache
def _head() -> Callable[[bytes], re.Match[bytes] | None]:
    """Return a matcher of the beginning of a line with a message, as this program and its peers write it."""
    pattern = rb'\{"type":"message","id":%b,"parentId":(?:null|%b),"timestamp":%b,"message":' % ((_PLAIN,) * 3)
    return re.compile(pattern).match


def as_text(value: object) -> str:
    """Return a string that a file holds; empty when it holds something else there."""
    return value if isinstance(value, str) else ""


def milliseconds(timestamp: object) -> int:
    """Return the ms since the epoch of an ISO 8601 time, in UTC unless it has an offset.

    Returns 0 when it is none.

    >>> milliseconds("1970-01-01T00:00:01.500Z"), milliseconds("soon"), milliseconds(None)
    (1500, 0, 0)
    """
    try:
        moment = datetime.fromisoformat(as_text(timestamp))
    except ValueError:
        return 0
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class Entry:
    """One entry.

    ``parent_id`` names an entry of the same session, or is ``None`` for a root.
    """

    __slots__ = ("_data", "_message", "id", "parent_id", "type")

    def __init__(self, data: JsonObject, message: Message | None = None) -> None:
        self.id: str = data["id"]
        self.type: str = data["type"]
        self.parent_id: str | None = as_text(data.get("parentId")) or None
        self._data = data
        self._message: Message | EllipsisType | None = message or ...

    @property
    def data(self) -> JsonObject:
        """Return the JSON object as stored; it must not be changed.

        It may be made anew each time: keep what is needed more than once.
        """
        return self._data

    @property
    def timestamp(self) -> str:
        """Return the time at which it was written, ISO 8601 in UTC; empty when the file has none."""
        return as_text(self._data.get("timestamp"))

    @property
    def message(self) -> Message | None:
        """Return the message that the entry adds to the conversation, ``None`` when it adds nothing.

        Raises ``ValueError`` when the message is of a role or shape unknown here.
        """
        if self._message is ...:
            self._message = self._made_message()
        return self._message

    def _made_message(self) -> Message | None:
        return _message_in(self._data)

    @property
    def speaks(self) -> bool | None:
        """Return whether a message comes from it, going by its outside; ``None`` when it is of no known kind."""
        return _speaks(self._data)

    def to_json(self) -> bytes:
        """Return the JSON object as stored, on one line without its end."""
        return dump(self._data)

    def message_json(self) -> bytes | None:
        """Return the message as stored, in JSON; ``None`` where a reader is sent what ``message`` makes of it."""
        raw: object = self._data.get("message") if self.type == "message" else None
        message = cast("JsonObject", raw) if isinstance(raw, dict) else None
        return None if message is None or _has_images(message) else dump(message)


class _LineEntry(Entry):
    """An entry with a message that is stored in the usual way: its line, which is valid."""

    __slots__ = ("_body", "_line")

    def __init__(self, line: bytes, head: re.Match[bytes], message: Message | None) -> None:
        self.id = head[1].decode()
        self.type = "message"
        self.parent_id = (head[2] or b"").decode() or None
        self._line = line
        self._body = head.end()
        self._message = message or ...

    @property
    def data(self) -> JsonObject:
        return load_object(self._line)

    @property
    def timestamp(self) -> str:
        return cast("re.Match[bytes]", _head()(self._line))[3].decode()

    def _made_message(self) -> Message:
        return parse_message(from_json(self.message_json()))

    @property
    def speaks(self) -> bool:
        return True

    def to_json(self) -> bytes:
        return self._line

    def message_json(self) -> bytes:
        return self._line[self._body : -1]


def entry_of(line: bytes, message: Message | None = None, *, odd: bool = False) -> Entry | None:
    """Return the entry on a line of a file of the current version.

    Args:
        line: The line without its end.
        message: What the entry adds to the conversation, if that is known.
        odd: Whether the line ``has_oddities``, so that it must be read in full.

    Returns:
        The entry; ``None`` for a blank line, a header and a title.

    Raises:
        ValueError: The line is nothing of that.
    """
    head = None if odd else _head()(line)
    if head is not None and line.endswith(b"}"):
        try:
            if message is None or not _is_usual(message):
                _usual_message()(line[head.end() : -1])
        except ValueError:
            pass
        else:
            return _LineEntry(line, head, message)
    if not line or line.isspace():
        return None
    data = load_object(line)
    if data.get("type") in ("session", "title"):
        return None
    if not (isinstance(data.get("id"), str) and isinstance(data.get("type"), str)):
        raise ValueError("an entry has an id and a type")
    return Entry(data, message)


def has_oddities(content: bytes) -> bool:
    """Return whether a line in it may end early for some readers, or hold what is no JSON but passes for it here."""
    return b"\r" in content or b"NaN" in content or b"Infinity" in content


def _is_usual(message: Message) -> bool:
    """Return whether a message that was just written need not be checked for what its line is to hold."""
    return isinstance(message, AssistantMessage) or (
        isinstance(message, UserMessage | ToolResultMessage)
        and (isinstance(message.content, str) or all(isinstance(block, TextContent) for block in message.content))
    )


@cache
def _usual_message() -> Callable[[bytes], Any]:
    """Return a parser that raises ``ValueError`` for JSON that is no message, or has images or an unknown kind."""
    from pydantic_core import SchemaValidator, core_schema

    def with_fields(**fields: core_schema.CoreSchema) -> core_schema.CoreSchema:
        needed = {name: core_schema.typed_dict_field(schema, required=True) for name, schema in fields.items()}
        return core_schema.typed_dict_schema(needed, extra_behavior="ignore")

    def blocks(*types: str) -> core_schema.CoreSchema:
        return core_schema.list_schema(with_fields(type=core_schema.literal_schema([*types])), strict=True)

    spoken = with_fields(content=core_schema.union_schema([core_schema.str_schema(strict=True), blocks("text")]))
    kinds = {
        "assistant": with_fields(content=blocks("text", "thinking", "toolCall")),
        **dict.fromkeys(("user", "toolResult", "custom"), spoken),
        "bashExecution": with_fields(),
    }
    return SchemaValidator(core_schema.tagged_union_schema(kinds, discriminator="role")).validate_json


def _speaks(data: JsonObject) -> bool | None:
    match data["type"]:
        case "message":
            raw: object = data.get("message")
            message = cast("JsonObject", raw) if isinstance(raw, dict) else {}
            role: object = message.get("role")
            if role == "system":
                return False  # newer peers store their system prompt; here it is made anew for every session
            has_content = role in _ROLES_WITH_CONTENT and isinstance(message.get("content"), str | list)
            return has_content or role in _ROLES_WITHOUT_CONTENT or None
        case "custom_message":
            return isinstance(data.get("content"), str | list) or None
        case "branch_summary":
            return bool(data.get("summary"))
        case other:
            return other == "compaction"


def _has_images(message: JsonObject) -> bool:
    content: object = message.get("content")
    if not isinstance(content, list) or message.get("role") == "assistant":
        return False
    for block in cast("list[object]", content):
        if not isinstance(block, dict) or cast("JsonObject", block).get("type") != "text":
            return True
    return False


def _message_in(data: JsonObject) -> Message | None:
    raw: object = data.get("message") if data["type"] == "message" else _message_of_entry(data)
    if raw is None and data["type"] != "message":
        return None
    if not isinstance(raw, dict):
        raise ValueError("the entry holds no message")
    message = cast("JsonObject", raw)
    if message.get("role") == "system":
        return None  # newer peers store their system prompt; here it is made anew for every session
    content: object = message.get("content")
    if isinstance(content, list) and any(map(_is_kept_elsewhere, cast("list[object]", content))):
        message = {**message, "content": [_present(block) for block in cast("list[object]", content)]}
    return parse_message(message)


def _message_of_entry(data: JsonObject) -> JsonObject | None:
    """Build the message that an entry of another type than ``message`` stands for."""
    timestamp = milliseconds(data.get("timestamp"))
    match data["type"]:
        case "custom_message":
            keys = ("customType", "content", "display", "details")
            return {"role": "custom", "timestamp": timestamp, **{key: data[key] for key in keys if key in data}}
        case "branch_summary" if data.get("summary"):
            from_id = as_text(data.get("fromId"))
            return {"role": "branchSummary", "timestamp": timestamp, "summary": data["summary"], "fromId": from_id}
        case "compaction":
            tokens = data.get("tokensBefore", 0)
            summary = data.get("summary")
            return {"role": "compactionSummary", "timestamp": timestamp, "summary": summary, "tokensBefore": tokens}
        case _:
            return None


def _is_kept_elsewhere(block: object) -> bool:
    return isinstance(block, dict) and as_text(cast("JsonObject", block).get("data")).startswith("blob:")


def _present(block: object) -> object:
    return {"type": "text", "text": _MISSING_IMAGE} if _is_kept_elsewhere(block) else block
