"""The format of session files, version 3: lines, header, entries, and the conversation that they amount to.

Everything here turns values into values; ``indus_nb.core.storage.file`` is where a disk comes in.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from indus_nb.base.messages import ANSWER_TYPE, Message
from indus_nb.base.wire import JsonObject, dump, load_object, random_hex
from indus_nb.core.storage.entries import Entry, as_text, entry_of, has_oddities

FORMAT_VERSION = 3
CLEARED = "cleared-results"
"""``customType`` of entries that name results of tools which no model is sent any more."""


def format_line(data: JsonObject) -> bytes:
    r"""Format the JSON object as one line, line end included.

    Half surrogate pairs, which no file can hold, become replacement characters.

    >>> format_line({"text": "a\nb", "none": None})
    b'{"text":"a\\nb","none":null}\n'
    """
    return dump(data) + b"\n"


def now() -> str:
    """Return the time stamp of an entry written now."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_entry_id(used: Container[str]) -> str:
    """Return eight hexadecimal digits that are not in ``used``."""
    while (entry_id := random_hex(4)) in used:
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
    """Content of a session file, in terms of the current version."""

    header: JsonObject
    entries: list[Entry]
    """Entries in the order of the file."""
    unreadable: list[int]
    """Numbers of the lines that are no entries, counted from 1."""
    torn: bytes
    """Bytes after the last line end, when that is no complete object."""
    unended: bool
    """Flag of a last line that is complete but for its line end."""
    rewritten: bytes | None
    """The whole file in the current version, when its own is older."""


def parse_content(content: bytes) -> FileContent | None:
    """Parse a session file.

    Returns ``None`` when ``content`` does not begin with a session header.
    """
    lines = content.split(b"\n")
    last = lines.pop()
    torn = b"" if _is_object(last) else last
    unended = bool(last) and not torn
    if unended:
        lines.append(last)
    header = find_header(lines)
    if header is None:
        return None
    rewritten = None
    if _is_older(header):
        lines = _migrated(lines)
        rewritten = b"".join(line + b"\n" for line in lines)
        header = find_header(lines) or header
    # A peer that resumes a session without an answer writes header and entries again: an entry counts once, as its
    # last line has it and where its first one is.
    entries: dict[str, Entry] = {}
    unreadable: list[int] = []
    odd = has_oddities(content)
    for number, line in enumerate(lines, 1):
        try:
            entry = entry_of(line, odd=odd and has_oddities(line))
        except ValueError:
            unreadable.append(number)
            continue
        if entry is not None:
            if entry.parent_id is not None and (parent := entries.get(entry.parent_id)) is not None:
                entry.parent_id = parent.id  # one string serves both
            entries[entry.id] = entry
    return FileContent(header, list(entries.values()), unreadable, torn, unended, rewritten)


def _is_object(line: bytes) -> bool:
    try:
        load_object(line)
    except ValueError:
        return False
    return True


def _is_older(header: JsonObject) -> bool:
    version = header.get("version", 1)
    return isinstance(version, int) and version < FORMAT_VERSION


def _migrated(lines: list[bytes]) -> list[bytes]:
    """Return the lines of an older file in the current version; those that hold no object stay as they are."""
    objects: dict[int, JsonObject] = {}
    for index, line in enumerate(lines):
        with suppress(ValueError):
            objects[index] = load_object(line)
    header = next(data for data in objects.values() if data.get("type") == "session")
    if header.get("version", 1) < 2:
        _make_tree(list(objects.values()))
    for data in objects.values():
        message: object = data.get("message")
        if isinstance(message, dict) and cast("JsonObject", message).get("role") == "hookMessage":
            message["role"] = "custom"
    header["version"] = FORMAT_VERSION
    return [format_line(objects[index])[:-1] if index in objects else line for index, line in enumerate(lines)]


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


def join_parents(entries: dict[str, Entry]) -> list[str]:
    """Make a root of every entry whose parent is missing or a descendant.

    Returns their ids.
    """
    if _in_order(entries):
        return []
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


def _in_order(entries: dict[str, Entry]) -> bool:
    """Return whether every parent stands before its children, as in a file that one program wrote."""
    before: set[str | None] = {None}
    for entry in entries.values():
        if entry.parent_id not in before:
            return False
        before.add(entry.id)
    return True


@dataclass(frozen=True, slots=True)
class StoredContext:
    """Starting point of a conversation; ``None`` where the session has nothing."""

    entries: list[Entry]
    """Entries that a message comes from, oldest first."""
    model: tuple[str, str] | None
    """Provider and model id."""
    thinking_level: str | None
    report: Callable[[list[str]], None]
    """Callback for the ids of entries whose message turns out not to be understood."""
    cleared: Sequence[object] = ()
    """Data of the entries that clear results, as the file has it."""
    has_asked: bool = False
    """Whether a message asked for a typed answer, be it before the latest compaction."""

    def messages(self) -> list[Message]:
        """Return the messages, those that cannot be understood left out."""
        return [*self._understood(self.entries)]

    def newest_first(self) -> Iterator[Message]:
        """Yield the same, backwards and one by one."""
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
        report: Called with the ids of entries whose message is of an unknown kind, now and when the messages are read.
    """
    others = [entry for entry in path if entry.type != "message"]
    model = next((found for entry in reversed(path) if (found := _model_in(entry))), None)
    levels = (entry.data.get("thinkingLevel") for entry in reversed(others) if entry.type == "thinking_level_change")
    thinking_level = next((level for level in map(as_text, levels) if level), None)
    edits = {
        as_text(entry.data.get("targetId")): entry.data.get("replacement")
        for entry in others
        if entry.type == "context_edit"
    }
    entries: list[Entry] = []
    failed: list[str] = []
    for entry in _after_compaction(path) if any(entry.type == "compaction" for entry in others) else path:
        if edits and entry.id in edits:
            if edits[entry.id] is not None:
                entries.append(Entry(_with_content(entry.data, edits[entry.id])))
        elif (speaks := entry.speaks) is None:
            failed.append(entry.id)
        elif speaks:
            entries.append(entry)
    if failed:
        report(failed)
    cleared = [
        entry.data.get("data") for entry in others if entry.type == "custom" if entry.data.get("customType") == CLEARED
    ]
    asked = any(e.type == "custom_message" and e.data.get("customType") == ANSWER_TYPE for e in others)
    return StoredContext(entries, model, thinking_level, report, cleared, asked)


def _after_compaction(path: list[Entry]) -> Iterable[Entry]:
    """Return the entries of a path that speak: the latest compaction, what it kept, and what came after it."""
    at = max(index for index, entry in enumerate(path) if entry.type == "compaction")
    kept_id = path[at].data.get("firstKeptEntryId")
    first = next((index for index in range(at) if path[index].id == kept_id), at)
    return [path[at], *(entry for entry in path[first:at] if entry.type != "compaction"), *path[at + 1 :]]


def _model_in(entry: Entry) -> tuple[str, str] | None:
    if entry.type not in ("model_change", "message"):
        return None
    data = entry.data
    if entry.type == "model_change":
        provider, model_id = data.get("provider"), data.get("modelId")
        if provider is None and data.get("role", "default") == "default":
            # A neighbouring program writes one string; its other roles are for side tasks.
            provider, _, model_id = as_text(data.get("model")).partition("/")
    else:
        raw: object = data.get("message")
        message = cast("JsonObject", raw) if isinstance(raw, dict) else {}
        if message.get("role") != "assistant":
            return None
        provider, model_id = message.get("provider"), message.get("model")
    return (provider, model_id) if provider and model_id and as_text(provider) and as_text(model_id) else None


def _with_content(data: JsonObject, content: Any) -> JsonObject:
    if isinstance(data.get("message"), dict):
        return {**data, "message": {**data["message"], "content": content}}
    return {**data, "content": content}
