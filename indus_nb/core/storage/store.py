"""A session as an append-only tree of entries, kept in a JSONL file or in memory.

A file holds one JSON object per line: a header, then entries that each name their parent. The leaf is the entry that
will be the parent of the next one; the path from a root to it is the conversation. Nothing written is ever changed,
so entry types and keys that are unknown here survive.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import EllipsisType
from typing import Any, Self

from indus_nb.base.errors import SessionFileError, SessionPlaceError, UsageError
from indus_nb.base.messages import (
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    UserMessage,
)
from indus_nb.base.wire import JsonObject, collection_paused, load_object, random_hex, to_camel
from indus_nb.core.storage.entries import Entry, as_text, entry_of, milliseconds
from indus_nb.core.storage.file import SessionFile, read_session, write_session
from indus_nb.core.storage.format import (
    FORMAT_VERSION,
    StoredContext,
    context_of,
    format_line,
    join_parents,
    new_entry_id,
    now,
    parse_content,
)


@dataclass(slots=True)
class TreeNode:
    """An entry with its children, oldest first, and its label."""

    entry: Entry
    children: list[TreeNode] = field(default_factory=list["TreeNode"])
    label: str | None = None
    label_timestamp: str | None = None


class SessionStore:
    """A session's entries. One store at a time may write to a file.

    ``close`` lets the next one in.

    ``warnings`` are sentences for a user about what was amiss. Appending raises ``SessionFileError`` when the entry
    could not be saved; it is in neither the file nor the store then. Where the file can never be made, the session is
    kept in memory from its first entry on, and ``kept_in_memory`` says why. ``on_added`` is called with every entry
    that is appended, in the same step.
    """

    def __init__(self, header: JsonObject, path: Path | None, entries: Iterable[Entry] = ()) -> None:
        self.header: JsonObject = header
        self.path = path
        self.warnings: list[str] = []
        self.kept_in_memory: str | None = None
        self.leaf_id: str | None = None
        self.lasting = True
        """Durability of messages that end a step: whether they survive a power cut too, which waits for the disk."""
        self.own: bool = True
        """Ownership of the file: one that is not the user's own only holds a conversation, and decides nothing."""
        self.on_added: Callable[[Entry], None] = lambda _: None
        self._entries = [*entries]
        self._by_id = {entry.id: entry for entry in self._entries}
        self._labels: dict[str, tuple[str, str]] = {}
        self._name: str | None = None
        self._unreadable: set[str] = set()
        self._file: SessionFile | None = None
        self._refusal: str | None = None
        for entry in self._entries:
            self._take_in(entry)
        if mended := join_parents(self._by_id):
            self._warn(
                f"{_listed('entry', mended)} could not be joined to what came before, for it is not in the file. "
                "Each begins a conversation of its own."
            )

    # Making and opening

    @classmethod
    def create(
        cls, cwd: Path, directory: Path, *, parent_session: str | None = None, session_id: str | None = None
    ) -> Self:
        """Make a new session in ``directory``.

        Its file appears with the first message or name: an unused one leaves none.

        Args:
            directory: Where its file lies.
            parent_session: The path of the file that it comes from.
            session_id: Its id; a new one unless given.

        Returns:
            The store, without entries.

        Raises:
            UsageError: ``session_id`` is in use there or cannot be part of a file name.
        """
        if session_id is not None:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", session_id):
                raise UsageError(f"{session_id!r} cannot be a session id: use up to 100 of a-z A-Z 0-9 . _ -")
            with suppress(OSError):  # where nothing can be read nothing can be written, and saving says so
                if any(directory.glob(f"*_{session_id}.jsonl")):
                    raise UsageError(
                        f"There is a session {session_id} in {directory} already. Open it, or choose another."
                    )
        header = _header(cwd, parent_session, session_id)
        return cls(header, _path(header, directory))

    @classmethod
    def in_memory(cls, cwd: Path) -> Self:
        """Create a session that is never saved."""
        return cls(_header(cwd), None)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the session in the file at ``path``, locked for writing.

        Its leaf is the last entry.

        A file of an older version is rewritten, and a torn last line is moved to a file of its own. Raises
        ``SessionNotFoundError``, ``SessionLockedError``, or ``SessionFileError`` for a file that is no session or
        cannot be written; nothing is changed and nothing stays locked then.
        """
        file = SessionFile.open(path)
        try:
            return cls._loaded(file.path, file.read(), file)
        except BaseException:
            file.close()
            raise

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the session in the file at ``path``, to look at or to fork.

        Others may go on writing to it.

        Raises ``SessionNotFoundError`` and ``SessionFileError``; so does appending.
        """
        return cls._loaded(path.resolve(), read_session(path), None)

    @classmethod
    def _loaded(cls, path: Path, raw: bytes, file: SessionFile | None) -> Self:
        with collection_paused():
            content = parse_content(raw)
        if content is None:
            raise SessionFileError(path, "this is no session file any more. It is left as it is")
        store = cls(content.header, path, content.entries)
        store._file = file
        if content.unreadable:
            numbers = [str(number) for number in content.unreadable]
            store._warn(
                f"{_listed('line', numbers)} could not be read and took no part in the conversation. "
                "The file still holds what is there."
            )
        if file is None:
            store._refusal = "the session was opened for reading only. Open it for writing, or fork it"
            if content.torn:
                store._warn("the last line is not complete and is left out.")
            return store
        if file.warning:
            store._warn(file.warning)
        if content.torn:
            kept = file.set_aside(content.torn)
            count = len(content.torn)
            store._warn(
                f"the last line was not complete, as after a power cut. Its {count} bytes were moved to {kept}."
            )
        if content.rewritten is not None:
            file.replace(content.rewritten)
        elif content.unended:
            file.append(b"\n")
        return store

    # Reading

    @property
    def session_id(self) -> str:
        """Return the session's id, a UUID of version 7 unless it was chosen."""
        return self.header["id"]

    @property
    def cwd(self) -> Path:
        """Return the directory that the session works in.

        The process's own when the file names none.
        """
        named = as_text(self.header.get("cwd"))
        return _as_path(named) if named else Path.cwd()

    def distrust(self, cwd: Path) -> None:
        """Set the working directory whatever the file says, which others may have written; the file stays as it is."""
        from indus_nb.base import textcut
        from indus_nb.base.visible import visible  # only for files from elsewhere

        named = as_text(self.header.get("cwd"))
        self.own = False
        if named and os.path.realpath(named.split("\0")[0]) != os.path.realpath(cwd):
            self._warn(
                "this file is not among your own sessions, so it does not choose where the agent works. It names "
                f"{visible(textcut.one_line(named, 300))}, and goes on in {cwd}. To work there, start the agent there."
            )
        self.header = {**self.header, "cwd": str(cwd)}

    def check_cwd(self) -> None:
        """Raise ``SessionFileError`` when the directory that a saved session works in is gone."""
        if self.path is not None and not self.cwd.is_dir():
            raise SessionFileError(
                self.path,
                f"the session's working directory {self.cwd} is gone. Create it again, or start a new session.",
            )

    def is_at(self, path: Path) -> bool:
        """Return whether ``path`` names this session's own file."""
        with suppress(OSError, ValueError):
            return self.path is not None and path.samefile(self.path)
        return False

    @property
    def name(self) -> str | None:
        """Return the latest name of the session."""
        return self._name

    @property
    def entries(self) -> Sequence[Entry]:
        """Return all entries of all branches, in the order of writing."""
        return self._entries

    @property
    def labels(self) -> Mapping[str, tuple[str, str]]:
        """Return the label of each labelled entry, by id, and when it was given."""
        return self._labels

    def entry(self, entry_id: str) -> Entry:
        """Return the entry of that id; raises ``UsageError`` without one."""
        try:
            return self._by_id[entry_id]
        except KeyError:
            raise self._unknown(entry_id) from None

    def _unknown(self, entry_id: str | None) -> UsageError:
        return UsageError(f"Entry {entry_id} not found in session {self.session_id}.")

    def branch(self, leaf_id: str | EllipsisType | None = ...) -> list[Entry]:
        """Return the path from a root to ``leaf_id``, by default to the leaf; none to ``None``.

        Raises ``UsageError`` for an unknown id.
        """
        path: list[Entry] = []
        entry_id = self.leaf_id if leaf_id is ... else leaf_id
        try:
            while entry_id is not None:
                entry = self._by_id[entry_id]
                path.append(entry)
                entry_id = entry.parent_id
        except KeyError:
            raise self._unknown(entry_id) from None
        path.reverse()
        return path

    def newest_first(self, leaf_id: str | EllipsisType | None = ...) -> Iterator[Entry]:
        """Yield the same path backwards, entry by entry: an entry near the end is found without a look at the rest."""
        entry_id = self.leaf_id if leaf_id is ... else leaf_id
        while entry_id is not None:
            entry = self.entry(entry_id)
            yield entry
            entry_id = entry.parent_id

    def context(self) -> StoredContext:
        """Return messages, model and thinking level of the conversation at the leaf.

        Before the latest compaction only its summary and the entries that it kept count. Messages that cannot be
        understood are left out, with a warning.
        """
        return context_of(self.branch(), self._report_unreadable)

    def _report_unreadable(self, entry_ids: list[str]) -> None:
        if new := [entry_id for entry_id in entry_ids if entry_id not in self._unreadable]:
            self._unreadable.update(new)
            self._warn(
                f"the model is not shown {_listed('entry', new)}, for the message there is of a kind unknown here. "
                "The file keeps it."
            )

    def tree(self) -> list[TreeNode]:
        """Return the roots, and through them every entry.

        Siblings are in the order of their times.
        """
        nodes = {entry.id: TreeNode(entry) for entry in self._entries}
        for target, (label, timestamp) in self._labels.items():
            if node := nodes.get(target):
                node.label, node.label_timestamp = label, timestamp
        roots: list[TreeNode] = []
        for node in nodes.values():
            parent_id = node.entry.parent_id
            (roots if parent_id is None else nodes[parent_id].children).append(node)
        for node in nodes.values():
            if len(node.children) > 1:
                node.children.sort(key=lambda child: milliseconds(child.entry.timestamp))
        return roots

    def is_current(self) -> bool:
        """Return whether the file can be written to and is as this store left it.

        So it is while there is no file yet.
        """
        return self._refusal is None and (self._file is None or self._file.is_ours())

    # Writing

    def append_message(self, message: Message) -> str:
        """Append a message to the leaf and make it the leaf; returns its entry's id.

        An extension's message becomes an entry of type ``custom_message``. Summaries are no messages in a file:
        ``append`` stores them; here they raise ``ValueError``.
        """
        if isinstance(message, BranchSummaryMessage | CompactionSummaryMessage):
            raise ValueError(f"a {message.role} is stored by append('branch_summary' or 'compaction', ...)")
        if isinstance(message, CustomMessage):
            fields = {key: value for key, value in message.to_wire().items() if key not in ("role", "timestamp")}
            return self._append("custom_message", fields, message)
        return self._append("message", {"message": message}, message)

    def append(self, kind: str, /, **fields: Any) -> str:
        """Append an entry to the leaf and make it the leaf.

        Args:
            fields: JSON values, named as in the file or in snake_case; those that are ``None`` are left out.

        Raises:
            SessionFileError: It cannot be saved; it is in neither the file nor the store then.
        """
        return self._append(kind, {to_camel(key): value for key, value in fields.items() if value is not None})

    def save(self) -> None:
        """Create the file now, before the first message.

        Does nothing when it is there or never will be.
        """
        if self.path is not None and self._file is None and self._refusal is None:
            self._begin(self.path, b"")

    def move_leaf(self, entry_id: str | None) -> None:
        """Make ``entry_id`` the leaf; with ``None`` the next entry is a root.

        The file does not record this.

        Raises ``UsageError`` for an unknown id.
        """
        self.leaf_id = None if entry_id is None else self.entry(entry_id).id

    def fork(self, leaf_id: str | None, directory: Path | None) -> Self:
        """Make a new session that begins with the path to an entry.

        Labels of what was copied go along. The new header names this file.

        Args:
            leaf_id: Where the path ends; ``None`` copies nothing.
            directory: Where the new file lies; ``None`` keeps the session in memory.

        Raises:
            UsageError: There is no such entry.
        """
        entries: list[Entry] = []
        ids: set[str] = set()
        parent_id: str | None = None

        def add(data: JsonObject) -> None:
            nonlocal parent_id
            entries.append(Entry({**data, "parentId": parent_id}))
            parent_id = data["id"]
            ids.add(data["id"])

        for entry in self.branch(leaf_id):
            if entry.type != "label":
                add(entry.data)
        for target, (label, timestamp) in self._labels.items():
            if target in ids:
                head = {"type": "label", "id": new_entry_id(ids), "parentId": None, "timestamp": timestamp}
                add({**head, "targetId": target, "label": label})
        return self._successor(self.cwd, directory, entries)

    def copy(self, cwd: Path, directory: Path | None) -> Self:
        """Make a new session that begins with all entries, branches included.

        Args:
            directory: Where its file lies; ``None`` keeps it in memory.
        """
        return self._successor(cwd, directory, [Entry(entry.data) for entry in self._entries])

    def write_to(self, directory: Path) -> Path | None:
        """Write a session that was kept in memory to a new file, without waiting for the disk.

        Returns:
            The file; ``None`` if there is no message to keep.

        Raises:
            SessionFileError: It cannot be written.
        """
        if not any(entry.type == "message" for entry in self._entries):
            return None
        path = _path(self.header, directory)
        write_session(path, self._lines())
        return path

    def close(self) -> None:
        """Close the file; only appending is impossible then.

        Does nothing the second time.
        """
        if self.path is not None:
            self._refusal = self._refusal or "the session was closed. Open it again"
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, kind: str, fields: JsonObject, message: Message | None = None) -> str:
        entry_id = new_entry_id(self._by_id)
        head = {"type": kind, "id": entry_id, "parentId": self.leaf_id, "timestamp": now()}
        line = format_line({**head, **fields, **head})
        # Read back, so that the entry is what the file holds and shares nothing with its caller.
        entry = entry_of(line[:-1], message) or Entry(load_object(line), message)
        if self.path is not None:
            if self._refusal is not None:
                raise SessionFileError(self.path, self._refusal)
            if self._file is not None:
                self._file.append(line, lasting=self.lasting and _ends_a_step(message))
            elif kind in ("message", "session_info"):  # a name, too, comes from the user
                try:
                    self._begin(self.path, line)
                except SessionPlaceError as error:
                    self._keep_in_memory(error)
        self._add(entry)
        self.on_added(entry)
        return entry_id

    def _begin(self, path: Path, line: bytes) -> None:
        self._file = SessionFile.create(path, self._lines() + line, lasting=self.lasting)
        if self._file.warning:
            self._warn(self._file.warning)

    def _lines(self) -> bytes:
        return b"".join([format_line(self.header), *(entry.to_json() + b"\n" for entry in self._entries)])

    def _keep_in_memory(self, error: SessionPlaceError) -> None:
        self.path = None
        self.kept_in_memory = (
            f"This session is kept in memory only and ends with its program, for its file cannot be made: {error}."
        )

    def _successor(self, cwd: Path, directory: Path | None, entries: list[Entry]) -> Self:
        parent = str(self.path) if self.path is not None and self.path.exists() else None
        header = _header(cwd, parent)
        new = type(self)(header, None if directory is None else _path(header, directory), entries)
        new.lasting = self.lasting
        if any(entry.type == "message" for entry in entries):
            new.save()
        return new

    def _add(self, entry: Entry) -> None:
        self._by_id[entry.id] = entry
        self._entries.append(entry)
        self._take_in(entry)

    def _take_in(self, entry: Entry) -> None:
        self.leaf_id = entry.id
        if entry.type == "session_info":
            self._name = as_text(entry.data.get("name")).strip() or None
        elif entry.type == "label":
            target = as_text(entry.data.get("targetId"))
            if label := as_text(entry.data.get("label")):
                self._labels[target] = (label, entry.timestamp)
            else:
                self._labels.pop(target, None)

    def _warn(self, what: str) -> None:
        self.warnings.append(f"{self.path or 'This session'}: {what}")


def _ends_a_step(message: Message | None) -> bool:
    """Return whether the user would miss it most: their own words, and the answer that a run ends with."""
    return isinstance(message, UserMessage) or (
        isinstance(message, AssistantMessage) and message.stop_reason != "toolUse"
    )


_as_path = lru_cache(maxsize=64)(Path)
"""Cache of paths: the directory of a session is asked for at every step of a run, and a path takes long to make."""


def _header(cwd: Path, parent_session: str | None = None, session_id: str | None = None) -> JsonObject:
    header: JsonObject = {
        "type": "session",
        "version": FORMAT_VERSION,
        "id": session_id or _new_session_id(),
        "timestamp": now(),
        "cwd": str(cwd.absolute()),
    }
    return {**header, "parentSession": parent_session} if parent_session else header


def _path(header: JsonObject, directory: Path) -> Path:
    stamp = re.sub("[:.]", "-", header["timestamp"])
    return directory.absolute() / f"{stamp}_{header['id']}.jsonl"


def _new_session_id() -> str:
    """Return a UUID of version 7 (RFC 9562, section 5.7): the time in ms, then random bits."""
    time_bits = (time.time_ns() // 1_000_000) & (2**48 - 1)
    digits = f"{time_bits:012x}7{random_hex(2)[:3]}{random_hex(8)}"
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _listed(what: str, names: list[str]) -> str:
    if len(names) == 1:
        return f"{what} {names[0]}"
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{plural} {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
