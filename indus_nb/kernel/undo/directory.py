"""Snapshots of the files below a directory, taken before and after code runs, to find those that it changed.

What this module promises: a look costs no more than its bounds, whatever is there; directories that it did not come to
count for neither side of a comparison; only regular files are opened, without waiting and without following a link.

Ignore files are not asked: what they hide is often the data that matters. Directories that programs fill by themselves
are left out, and so are notebooks, which their front end writes whenever it likes.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from indus_nb.safety.key_places import holds_keys

_LEFT_OUT = frozenset(
    {"__pycache__", "node_modules", "site-packages", "venv", "env", "lost+found"}  # and all with a dot in front
)
_OF_THE_SYSTEM = ("/proc", "/sys", "/dev")
"""Directories that change by themselves, for a kernel that works in the root directory."""
_NOT_THE_AGENTS = (".ipynb", ".pyc", "-journal", "-wal", "-shm")
DATABASES = (".sqlite", ".sqlite3", ".db", ".duckdb", ".mdb")
"""Files that are never replaced: a program that has one open would break."""
SETTLED_NS = 100_000_000
"""Time within which a file may be written again without a change of its time stamp."""

_PATIENCE = 5
"""Wall time that is allowed, as a multiple of processor time: for a busy machine or a slow disk."""


class Sign(NamedTuple):
    """Metadata by which an unchanged file is recognised without reading it."""

    mode: int
    size: int
    modified: int
    changed: int
    inode: int


def sign_of(state: os.stat_result) -> Sign:
    """Return the metadata by which an unchanged file is recognised."""
    return Sign(state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


@dataclass(frozen=True, slots=True)
class Look:
    """Snapshot of the files below a directory.

    Attributes:
        files: Everything but directories, by its path relative to the root.
        listed: Those of them whose contents are in here; ``""`` is the root.
    """

    files: Mapping[str, Sign] = field(default_factory=dict[str, Sign])
    directories: Collection[str] = ()
    listed: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a look at a directory.

    Attributes:
        seconds: Time of one look, of the processor; on a busy machine or a slow disk it takes up to five times as long.
        file_bytes: The size up to which a file's content is kept ahead of a change.
    """

    entries: int = 10_000
    seconds: float = 0.1
    file_bytes: int = 1 << 20
    bytes: int = 64 << 20


class _TimeLimit:
    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._latest = time.monotonic() + _PATIENCE * seconds

    def is_over(self) -> bool:
        return time.thread_time() > self._end or time.monotonic() > self._latest


class Directory:
    """A directory with what its small files hold, kept in memory ahead of a change."""

    def __init__(self, root: Path, bounds: Bounds | None = None, apart: Collection[Path] = ()) -> None:
        """Set the root; nothing is read yet.

        Args:
            root: The directory, by its real path.
            bounds: Limits of a look at it.
            apart: Directories in it that are not looked at.
        """
        self.root = root
        self._bounds = bounds or Bounds()
        self._apart = {*_OF_THE_SYSTEM, *(str(path) for path in apart)}
        self._kept: dict[str, tuple[Sign, bytes]] = {}
        self._size = 0

    def look(self, *, keep: bool) -> Look:
        """Find the files that there are, from the root downwards.

        Args:
            keep: Read and keep the contents of small files that are not known yet.
        """
        time_limit = _TimeLimit(self._bounds.seconds)
        files, directories, listed = dict[str, Sign](), set[str](), set[str]()
        waiting = deque([""])
        left = self._bounds.entries
        while waiting and left > 0 and not time_limit.is_over():
            at = waiting.popleft()
            entries = self._entries(at, left)
            if entries is None or len(entries) > left:
                continue
            left -= len(entries)
            listed.add(at)
            for entry in entries:
                path = f"{at}/{entry.name}" if at else entry.name
                try:
                    state = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if not stat.S_ISDIR(state.st_mode):
                    if not entry.name.endswith(_NOT_THE_AGENTS):
                        files[path] = sign_of(state)
                elif self._is_looked_at(entry):
                    directories.add(path)
                    waiting.append(path)
        if keep:
            for path in self._kept.keys() - files.keys():
                self._forget(path)
            self._keep(files, _TimeLimit(self._bounds.seconds))
        return Look(files, directories, listed)

    def content(self, path: str, sign: Sign) -> bytes | None:
        """Return the content that a file had with this metadata.

        Returns:
            What it held; ``None`` if that was not kept.
        """
        known = self._kept.get(path)
        return known[1] if known is not None and known[0] == sign else None

    def _entries(self, at: str, left: int) -> list[os.DirEntry[str]] | None:
        try:
            with os.scandir(self.root / at) as entries:
                return sorted(islice(entries, left + 1), key=lambda entry: entry.name)
        except OSError:
            return None

    def _is_looked_at(self, entry: os.DirEntry[str]) -> bool:
        if entry.name.startswith(".") or entry.name in _LEFT_OUT or entry.path in self._apart:
            return False
        return not os.path.lexists(f"{entry.path}/pyvenv.cfg")

    def _keep(self, files: Mapping[str, Sign], time_limit: _TimeLimit) -> None:
        for path, sign in files.items():
            if time_limit.is_over():
                return
            known = self._kept.get(path)
            if known is not None and known[0] == sign and time.time_ns() - sign.modified > SETTLED_NS:
                continue
            self._forget(path)
            if not stat.S_ISREG(sign.mode) or sign.size > min(self._bounds.file_bytes, self._bounds.bytes - self._size):
                continue
            if path.endswith(DATABASES) or holds_keys(PurePosixPath(path)):
                continue
            found = read_regular(self.root / path, self._bounds.file_bytes)
            if found is not None and sign_of(found[1]) == sign:
                self._kept[path] = sign, found[0]
                self._size += len(found[0])

    def _forget(self, path: str) -> None:
        known = self._kept.pop(path, None)
        if known is not None:
            self._size -= len(known[1])


def read_regular(path: Path, most: int) -> tuple[bytes, os.stat_result] | None:
    """Read a regular file, without following a link.

    Args:
        most: Largest size in bytes.

    Returns:
        What it holds, and its state; ``None`` if it cannot be read, is larger, or is something else.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(most + 1)
            return None if data is None or len(data) > most else (data, os.fstat(descriptor))  # pyright: ignore[reportUnnecessaryComparison]
    except OSError:
        return None


def differing(before: Look, after: Look) -> list[str]:
    """Return the paths of files that differ between two snapshots.

    Returns:
        Their paths in alphabetical order; none of directories that only one look came to.
    """
    return sorted(
        path
        for path in {*before.files, *after.files}
        if before.files.get(path) != after.files.get(path) and _is_known(path, before) and _is_known(path, after)
    )


def _is_known(path: str, look: Look) -> bool:
    """Return whether a look tells if the path was there."""
    if path in look.files:
        return True
    above = path.rpartition("/")[0]
    while above not in look.listed:
        if above in look.directories or not above:
            return False  # it was there, and was not looked into
        above = above.rpartition("/")[0]
    return True
