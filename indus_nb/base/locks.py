"""Locks of files: one writer at a time, also among programs.

What this module promises: a lock ends with the process that holds it, however that ends, and its file goes with the
release. A forked child does not hold what its parent holds.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self
from weakref import WeakSet

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Errors of file systems without locks; NFS may be one."""
_MAX_REMOVED = 100
"""How often a lock's file may be gone once it is locked: more often it is not that somebody has just released it."""
_POLL_SECONDS = 0.05
_MAX_NOTE_BYTES = 500


class HeldError(TimeoutError):
    """Another one holds a lock; ``note`` is what it says of itself, which may be anything."""

    def __init__(self, path: Path, note: str) -> None:
        super().__init__(errno.ETIMEDOUT, "another program holds it", str(path))
        self.note = note


class FileLock:
    """The lock of a file, held from the beginning until its release.

    A hidden file beside the locked one carries it, for that may be replaced meanwhile.

    Args:
        path: The locked file, which need not be there.
        seconds: How long to wait for another one that holds it.
        note: What the holder says of itself, a line.

    Raises:
        HeldError: Another one holds it, in this process or another.
        OSError: The lock's own file cannot be made.
    """

    def __init__(self, path: Path, seconds: float = 0.0, note: str = "") -> None:
        self.path: Path = path.with_name(f".{path.name}.lock")
        """The lock's own file."""
        self.lacking: OSError | None = None
        """Why nobody is kept out: the file system has no locks."""
        self._file: io.FileIO | None = self._acquired(time.monotonic() + seconds)
        _held.add(self)
        with suppress(OSError):  # a full disk: the lock holds all the same
            self._file.truncate(0)
            # From the second byte on, for some systems let nobody read a locked first one.
            self._file.write(f"\n{note}\n".encode() if note else b"")

    @property
    def is_held(self) -> bool:
        """Return whether it is this process's still."""
        return self._file is not None

    def _acquired(self, deadline: float) -> io.FileIO:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        removed = 0
        while True:
            file = io.FileIO(self.path, "r+b", opener=lambda name, _: os.open(name, flags, 0o600))
            try:
                locked = self._locks(file)
                guards = locked and (self.lacking is not None or _is_at(self.path, file))
            except BaseException:
                file.close()
                raise
            if guards:
                return file
            with file:
                removed += locked  # its last holder has removed the file meanwhile, which guards nothing
                waits = not locked or removed > _MAX_REMOVED
                if waits and time.monotonic() >= deadline:
                    raise HeldError(self.path, _note_in(file))
            if waits:
                time.sleep(_POLL_SECONDS)

    def _locks(self, file: io.FileIO) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # systems do not agree on how to say that another one has it
            return False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            self.lacking = error
        return True

    def release(self) -> None:
        """Let another one hold it; does nothing the second time."""
        file, self._file = self._file, None
        _held.discard(self)
        if file is None:
            return
        with suppress(OSError):  # systems that cannot remove an open file keep it, which does no harm
            if _is_at(self.path, file):
                self.path.unlink()
        file.close()

    def drop_in_child(self) -> None:
        """Close a forked child's copy of the file, so that the lock ends with the parent."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_held: WeakSet[FileLock] = WeakSet()


def _drop_inherited() -> None:
    for lock in tuple(_held):
        lock.drop_in_child()
    _held.clear()


os.register_at_fork(after_in_child=_drop_inherited)


def _is_at(path: Path, file: io.FileIO) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _note_in(file: io.FileIO) -> str:
    with suppress(OSError):
        file.seek(1)
        text = (file.read(_MAX_NOTE_BYTES) or b"").decode(errors="replace")
        return "".join(letter for letter in text.partition("\n")[0] if letter.isprintable())
    return ""
