"""The format of session files, version 3: lines, header, entries, and the conversation that they amount to.

Everything here turns values into values; ``indus_nb.storage.file`` is where a disk comes in.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import EllipsisType
from typing import Any, cast

from indus_nb.messages import Message, parse_message
from indus_nb.wire import JsonObject, dump, load_object

FORMAT_VERSION = 3
_ROLES_WITH_CONTENT = ("user", "assistant", "toolResult", "custom")
_ROLES_WITHOUT_CONTENT = ("bashExecution", "branchSummary", "compactionSummary")
_MISSING_IMAGE = "[An image stood here. It is kept outside of the session file and cannot be shown.]"


def format_line(data: JsonObject) -> bytes:
    r"""The JSON object as one line, line end included.

    Half surrogate pairs, which no file can hold, become replacement characters.

    >>> format_line({"text": "a\nb", "none": None})
    b'{"text":"a\\nb","none":null}\n'
    """
    return dump(data) + b"\n"


def as_text(value: object) -> str:
    """A string that a file holds; empty when it holds something else there."""
    return value if isinstance(value, str) else ""


def milliseconds(timestamp: object) -> int:
    """The ms since the epoch of an ISO 8601 time, in UTC unless it has an offset.

    Returns 0 when it is none.

    >>> milliseconds("1970-01-01T00:00:01.500Z"), milliseconds("soon"), milliseconds(None)
    (1500, 0, 0)
    """
    try:
        moment = datetime.fromisoformat(as_text(timestamp))
    except ValueError:
        return 0
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def now() -> str:
    """The time stamp of an entry written now."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_entry_id(used: Container[str]) -> str:
    """Eight hexadecimal digits that are not in ``used``."""
    while (entry_id := secrets.token_hex(4)) in used:
        pass
    return entry_id


def find_header(lines: Iterable[bytes]) -> JsonObject | None:
    """Return the session header, on the first of ``lines`` or after a title line.

    Returns ``None`` without one.
    """
    for _, line in zip(range(2), lines, strict=False):
        try:
            data = load_object(line)
        except ValueError:
            return None
        if data.get("type") == "session" and isinstance(data.get("id"), str):
            return data
        if data.get("type") != "title":
            return None
    return None


@dataclass(frozen=True, slots=True)
class FileContent:
    """What a session file holds, in terms of the current version."""

    header: JsonObject
    entries: list[JsonObject]
    """In the order of the file, each with an id and a type."""
    unreadable: list[int]
    """Numbers of the lines that are no entries, counted from 1."""
    torn: bytes
    """What follows the last line end, when that is no complete object."""
    unended: bool
    """Whether the last line is complete but for its line end."""
    rewritten: bytes | None
    """The whole file in the current version, when its own is older."""


def parse_content(content: bytes) -> FileContent | None:
    """What a session file holds.

    Returns ``None`` when ``content`` does not begin with a session header.
    """
    lines = content.split(b"\n")
    last = lines.pop()
    torn = b"" if _is_object(last) else last
    if last and not torn:
        lines.append(last)
    if find_header(lines) is None:
        return None
    objects: dict[int, JsonObject] = {}
    unreadable: list[int] = []
    for index, line in enumerate(lines):
        if line and not line.isspace():
            try:
                objects[index] = load_object(line)
            except ValueError:
                unreadable.append(index + 1)
    rewritten = None
    if _migrate(list(objects.values())):
        rewritten = b"".join(
            format_line(objects[index]) if index in objects else line + b"\n" for index, line in enumerate(lines)
        )
    header = next(data for data in objects.values() if data.get("type") == "session")
    objects = {index: data for index, data in objects.items() if data.get("type") not in ("session", "title")}
    # A peer that resumes a session without an answer writes header and entries again: an entry counts once, as its
    # last line has it and where its first one is.
    entries = {data["id"]: data for data in objects.values() if _is_entry(data)}
    unreadable.extend(index + 1 for index, data in objects.items() if not _is_entry(data))
    unended = bool(last) and not torn
    return FileContent(header, list(entries.values()), sorted(unreadable), torn, unended, rewritten)


def _is_entry(data: JsonObject) -> bool:
    return isinstance(data.get("id"), str) and isinstance(data.get("type"), str)


def _is_object(line: bytes) -> bool:
    try:
        load_object(line)
    except ValueError:
        return False
    return True


def _migrate(objects: list[JsonObject]) -> bool:
    """Bring a file's objects, header included, to the current version; returns whether anything changed."""
    header = next(data for data in objects if data.get("type") == "session")
    version = header.get("version", 1)
    if not isinstance(version, int) or version >= FORMAT_VERSION:
        return False
    if version < 2:
        _make_tree(objects)
    for data in objects:
        message: object = data.get("message")
        if isinstance(message, dict) and cast("JsonObject", message).get("role") == "hookMessage":
            message["role"] = "custom"
    header["version"] = FORMAT_VERSION
    return True


def _make_tree(objects: list[JsonObject]) -> None:
    ids: set[str] = set()
    parent_id: str | None = None
    for data in objects:
        if data.get("type") != "session":
            data["id"], data["parentId"] = new_entry_id(ids), parent_id
            parent_id = data["id"]
            ids.add(data["id"])
    for data in objects:
        if data.get("type") == "compaction":
            index = data.pop("firstKeptEntryIndex", None)
            if isinstance(index, int) and 0 <= index < len(objects) and objects[index].get("type") != "session":
                data["firstKeptEntryId"] = objects[index]["id"]


class Entry:
    """One entry. ``data`` is the JSON object as stored and must not be changed.

    ``parent_id`` names an entry of the same session, or is ``None`` for a root.
    """

    __slots__ = ("_message", "data", "id", "parent_id", "type")

    def __init__(self, data: JsonObject, message: Message | None = None) -> None:
        self.data = data
        self.id: str = data["id"]
        self.type: str = data["type"]
        self.parent_id: str | None = as_text(data.get("parentId")) or None
        self._message: Message | EllipsisType | None = message or ...

    @property
    def timestamp(self) -> str:
        """When it was written, ISO 8601 in UTC; empty when the file has none."""
        return as_text(self.data.get("timestamp"))

    @property
    def message(self) -> Message | None:
        """What the entry adds to the conversation, ``None`` when it adds nothing.

        Raises ``ValueError`` when the message is of a role or shape unknown here.
        """
        if self._message is ...:
            self._message = _message_in(self.data)
        return self._message


def join_parents(entries: dict[str, Entry]) -> list[str]:
    """Make a root of every entry whose parent is missing or a descendant.

    Returns their ids.
    """
    mended: list[str] = []
    sound: set[str] = set()
    for start in entries.values():
        walk: set[str] = set()
        entry = start
        while entry.id not in sound:
            walk.add(entry.id)
            if entry.parent_id is None:
                break
            parent = entries.get(entry.parent_id)
            if parent is None or parent.id in walk:
                first = parent or entry
                first.parent_id = None
                mended.append(first.id)
                break
            entry = parent
        sound |= walk
    return mended


@dataclass(frozen=True, slots=True)
class StoredContext:
    """What a conversation goes on from; ``None`` where the session has nothing."""

    entries: list[Entry]
    """Those that a message comes from, oldest first."""
    model: tuple[str, str] | None
    """Provider and model id."""
    thinking_level: str | None
    report: Callable[[list[str]], None]
    """Called with the ids of entries whose message turns out not to be understood."""

    def messages(self) -> list[Message]:
        """The messages, those that cannot be understood left out."""
        return list(self._understood(self.entries))

    def newest_first(self) -> Iterator[Message]:
        """The same, backwards and one by one."""
        return self._understood(reversed(self.entries))

    def _understood(self, entries: Iterable[Entry]) -> Iterator[Message]:
        failed: list[str] = []
        for entry in entries:
            try:
                message = entry.message
            except ValueError:
                failed.append(entry.id)
            else:
                if message is not None:
                    yield message
        if failed:
            self.report(failed)


def context_of(path: list[Entry], report: Callable[[list[str]], None]) -> StoredContext:
    """Return the conversation along a path from root to leaf.

    Before the latest compaction only its summary and the entries that it kept count.

    Args:
        path: The entries.
        report: Called with the ids of entries whose message is of an unknown kind, now and when the messages are read.

    Returns:
        The messages, the model and the thinking level.
    """
    newest_first = path[::-1]
    model = next((found for entry in newest_first if (found := _model_in(entry.data))), None)
    levels = (entry.data.get("thinkingLevel") for entry in newest_first if entry.type == "thinking_level_change")
    thinking_level = next((level for level in map(as_text, levels) if level), None)
    edits = {
        as_text(entry.data.get("targetId")): entry.data.get("replacement")
        for entry in path
        if entry.type == "context_edit"
    }
    entries: list[Entry] = []
    failed: list[str] = []
    for entry in _after_compaction(path):
        if edits and entry.id in edits:
            if edits[entry.id] is not None:
                entries.append(Entry(_with_content(entry.data, edits[entry.id])))
        elif (speaks := _speaks(entry)) is None:
            failed.append(entry.id)
        elif speaks:
            entries.append(entry)
    if failed:
        report(failed)
    return StoredContext(entries, model, thinking_level, report)


def _speaks(entry: Entry) -> bool | None:
    """Whether a message comes from an entry, going by its outside; ``None`` when it is of no known kind."""
    match entry.type:
        case "message":
            raw: object = entry.data.get("message")
            message = cast("JsonObject", raw) if isinstance(raw, dict) else {}
            role: object = message.get("role")
            if role == "system":
                return False  # newer peers store their system prompt; here it is made anew for every session
            has_content = role in _ROLES_WITH_CONTENT and isinstance(message.get("content"), str | list)
            return has_content or role in _ROLES_WITHOUT_CONTENT or None
        case "custom_message":
            return isinstance(entry.data.get("content"), str | list) or None
        case "branch_summary":
            return bool(entry.data.get("summary"))
        case other:
            return other == "compaction"


def _after_compaction(path: list[Entry]) -> Iterable[Entry]:
    """The entries of a path that speak: the latest compaction, what it kept, and what came after it."""
    at = next((index for index in reversed(range(len(path))) if path[index].type == "compaction"), None)
    if at is None:
        return path
    kept_id = path[at].data.get("firstKeptEntryId")
    first = next((index for index in range(at) if path[index].id == kept_id), at)
    return [path[at], *(entry for entry in path[first:at] if entry.type != "compaction"), *path[at + 1 :]]


def _model_in(data: JsonObject) -> tuple[str, str] | None:
    if data["type"] == "model_change":
        provider, model_id = data.get("provider"), data.get("modelId")
        if provider is None and data.get("role", "default") == "default":
            # A neighbouring program writes one string; its other roles are for side tasks.
            provider, _, model_id = as_text(data.get("model")).partition("/")
    elif data["type"] == "message" and isinstance(data.get("message"), dict):
        message: JsonObject = data["message"]
        if message.get("role") != "assistant":
            return None
        provider, model_id = message.get("provider"), message.get("model")
    else:
        return None
    return (provider, model_id) if provider and model_id and as_text(provider) and as_text(model_id) else None


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
    """The message that an entry of another type than ``message`` stands for."""
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


def _with_content(data: JsonObject, content: Any) -> JsonObject:
    if isinstance(data.get("message"), dict):
        return {**data, "message": {**data["message"], "content": content}}
    return {**data, "content": content}
