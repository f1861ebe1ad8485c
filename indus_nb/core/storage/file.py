"""One session file on disk: reading its header, locking it, and adding lines so that nothing is torn or interleaved."""

from __future__ import annotations

import errno
import io
import os
import socket
import stat
import sys
import zlib
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO, Self

from indus_nb.base.errors import SessionFileError, SessionLockedError, SessionNotFoundError, SessionPlaceError
from indus_nb.base.files import make_private_directory, write_atomically
from indus_nb.base.locks import FileLock, HeldError
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.storage.format import find_header

_SHORTAGES = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}
"""Failures that say nothing about the place: what did not work may work later."""
ELSEWHERE = (
    "To keep sessions, set HOME, or INDUS_NB_SESSION_DIR, to a directory that you can write to; --no-session does "
    "without files"
)
"""Advice where the place of session files cannot be used."""
_HEADER_LIMIT = 16 * 1024 * 1024  # a first line longer than this is no header, whatever follows


def read_header(path: Path) -> JsonObject:
    """Read the header of the session file at ``path``.

    No more than its first lines are read.

    Raises ``SessionNotFoundError`` when nothing is there and ``SessionFileError`` when it is no session.
    """
    file, header = open_session(path)
    file.close()
    return header


def read_session(path: Path) -> bytes:
    """Read all of the session file at ``path``; raises as ``read_header`` does."""
    file, _ = open_session(path)
    with file:
        return _rest(file, path)


def open_session(path: Path) -> tuple[BinaryIO, JsonObject]:
    """Open the session file at ``path``, at its beginning, with its header; raises as ``read_header`` does."""
    try:
        _check_regular(path)
        file = path.open("rb")
    except (FileNotFoundError, ValueError) as error:  # a ValueError is a zero byte in the path
        raise _nothing_there(path) from error
    except OSError as error:
        raise SessionFileError(path, f"the file cannot be read ({_reason(error)})") from error
    return file, _header_of(file, path)


def write_session(path: Path, content: bytes) -> None:
    """Write a whole session to a new file that only its owner can read, without waiting for the disk.

    Nothing is locked, for nobody else knows the file's name yet.

    Args:
        path: Where; the directory is made if need be.
        content: Whole lines. They are in the file, or there is no file.

    Raises:
        SessionFileError: It cannot be made, or written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        try:
            file = _open(path, flags)
        except FileNotFoundError:
            make_private_directory(path.parent)
            file = _open(path, flags)
        try:
            with file:
                _write(file, content)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SessionFileError(path, f"the session file cannot be made ({_reason(error)})") from error


def _check_regular(path: Path) -> os.stat_result:
    """Reject pipes and devices, for opening one may wait forever."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise SessionFileError(path, "this is not a file. Name a session file, which ends in .jsonl")
    return found


def _nothing_there(path: Path) -> SessionNotFoundError:
    return SessionNotFoundError(path, "there is no such session file. Check the path, or start a new one")


def _header_of(file: BinaryIO, path: Path) -> JsonObject:
    """Read the header of a file, which is back at its beginning then; one that is no session is closed."""
    header: JsonObject | None = None
    try:
        header = find_header(iter(lambda: file.readline(_HEADER_LIMIT), b""))
        file.seek(0)  # mostly within the buffer, so that nothing is read twice
    except OSError as error:
        raise SessionFileError(path, f"the file cannot be read ({_reason(error)})") from error
    finally:
        if header is None:
            file.close()
    if header is None:
        raise SessionFileError(
            path, "this is no session file, for it does not begin with a session header. It is left as it is"
        )
    return header


def _rest(file: BinaryIO, path: Path) -> bytes:
    try:
        return file.read()
    except OSError as error:
        raise SessionFileError(path, f"the file cannot be read ({_reason(error)})") from error


def _locked(session_file: Path) -> FileLock:
    """Return the lock for writing to a session file, which says who holds it.

    Raises:
        SessionLockedError: Another program holds it.
        SessionFileError: No lock file can be made.
    """
    own_name = _own_name()
    try:
        return FileLock(session_file, note=own_name)
    except HeldError as error:
        owner = f"this process: {own_name}" if error.note == own_name else error.note or "another process"
        raise SessionLockedError(session_file, owner) from None
    except OSError as error:
        raise _no_place(
            session_file,
            f"it cannot be locked for writing: .{session_file.name}.lock cannot be opened there ({_reason(error)})",
            error,
        ) from error


def writer_of(session_file: Path) -> str | None:
    """Name the program that holds a session file open for writing; ``None`` if it can be opened."""
    try:
        _locked(session_file).release()
    except SessionLockedError as error:
        return error.owner
    except SessionFileError:
        pass
    return None


def _own_name() -> str:
    script = Path(sys.argv[0] if sys.argv else "")
    program = script.parent.name if script.name == "__main__.py" else script.name
    if program == "ipykernel_launcher.py":  # Jupyter tells it its notebook, and what it starts inherits that
        program = Path(os.environ.get("JPY_SESSION_NAME", "")).name or program
    name = (
        f"{program if program not in ('', '-c', '-m') else 'python'} (process {os.getpid()} on {socket.gethostname()})"
    )
    return clean_text(name)


class SessionFile:
    """One writer's hold on a session file.

    The file is locked, open for appending, and watched for writes by others.

    ``open`` and ``create`` raise ``SessionLockedError`` and ``SessionFileError``, and leave nothing locked then.
    """

    def __init__(
        self, path: Path, lock: FileLock, file: io.FileIO, reader: io.BufferedReader[io.FileIO] | None = None
    ) -> None:
        self.path = path
        self._lock = lock
        self._file = file
        self._reader = reader  # holds what was read already to find the header
        found = os.fstat(file.fileno())
        self._identity = _identity(found)
        self._size = found.st_size
        self._changed = found.st_mtime_ns
        self._checksum = self._checksum_of_lines = 0  # of what was read or written here; of whole lines in that

    @classmethod
    def open(cls, path: Path) -> Self:
        """Lock the existing file at ``path``, which must begin with a session header."""
        reader, header_state = _open_for_writing(path)
        lock: FileLock | None = None
        try:
            path = path.resolve()
            lock = _locked(path)
            if header_state != _state_at(path):  # it was changed before it was locked
                reader.close()
                reader, _ = _open_for_writing(path)
            return cls(path, lock, reader.raw, reader)
        except BaseException:
            reader.close()
            if lock is not None:
                lock.release()
            raise

    @classmethod
    def create(cls, path: Path, content: bytes, *, lasting: bool = True) -> Self:
        """Create a file that only its owner can read, with its first content.

        Args:
            path: Where; the directory is made if need be.
            content: Whole lines. They are in the file, or there is no file.
            lasting: Whether they shall also survive a power cut; this waits for the disk.

        Raises:
            SessionPlaceError: It can never be made there.
            SessionFileError: It cannot be made.
        """
        try:
            make_private_directory(path.parent)
        except OSError as error:
            raise _no_place(path, f"its directory cannot be made ({_reason(error)})", error) from error
        lock = _locked(path)
        try:
            file = _open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            try:
                created = cls(path, lock, file)
                created.append(content, lasting=lasting)
                if lasting:
                    _sync_directory(path.parent)
            except BaseException:
                file.close()
                path.unlink(missing_ok=True)
                raise
        except OSError as error:
            lock.release()
            raise _no_place(path, f"the session file cannot be made ({_reason(error)})", error) from error
        except BaseException:
            lock.release()
            raise
        return created

    @property
    def warning(self) -> str | None:
        """Return the problem of the lock, if there is one."""
        if (lacking := self._lock.lacking) is None:
            return None
        return (
            f"this file system offers no locks ({_reason(lacking)}), so nothing keeps another "
            "program from writing to this session at the same time. Open it only once."
        )

    def read(self) -> bytes:
        """Read the whole file."""
        content = self._content()
        self._size = len(content)
        ends = content.rfind(b"\n") + 1
        self._checksum_of_lines = zlib.crc32(memoryview(content)[:ends])
        self._checksum = zlib.crc32(memoryview(content)[ends:], self._checksum_of_lines)
        return content

    def _content(self) -> bytes:
        reader, self._reader = self._reader, None
        if reader is None:
            self._file.seek(0)
            reader = io.BufferedReader(self._file)
        try:
            return _rest(reader, self.path)
        finally:
            reader.detach()

    def append(self, content: bytes, *, lasting: bool = False) -> None:
        """Write ``content`` at the end: wholly, or not at all.

        Args:
            lasting: whether they, and all before them, shall also survive a power cut; this waits for the disk

        Raises:
            SessionFileError: it could not be written, or another program changed the file meanwhile
        """
        self._check_ours()
        before = self._size
        try:
            _write(self._file, content)
            if lasting:
                _sync(self._file.fileno())
        except BaseException as error:
            # An interrupt may come between a write and its notice as well, so the cut does not depend on the error.
            with suppress(OSError):  # the next opening sets a torn line aside, the next append sees the wrong size
                self._file.truncate(before)
            if isinstance(error, OSError):
                raise SessionFileError(
                    self.path, f"nothing was added to the session ({_reason(error)}). What the file held is still there"
                ) from error
            raise
        self._size = before + len(content)
        self._changed = os.fstat(self._file.fileno()).st_mtime_ns
        self._checksum = zlib.crc32(content, self._checksum)

    def set_aside(self, torn: bytes) -> Path:
        """Cut ``torn`` off the file's end and keep it in a new file next to it.

        Returns that file's path.
        """
        self._check_ours()
        candidates = (self.path.with_name(f"{self.path.name}.torn-{number}") for number in count(1))
        kept = next(path for path in candidates if not path.exists())
        try:
            with _open(kept, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
                _write(file, torn)
                os.fsync(file.fileno())
            self._file.truncate(self._size - len(torn))
            self._changed = os.fstat(self._file.fileno()).st_mtime_ns
        except OSError as error:
            with suppress(OSError):  # the same disk refuses, and the line is still in the session file
                kept.unlink(missing_ok=True)
            raise SessionFileError(
                self.path, f"its last line is torn and cannot be set aside in {kept.name} ({_reason(error)})"
            ) from error
        self._size -= len(torn)
        self._checksum = self._checksum_of_lines
        return kept

    def replace(self, content: bytes) -> None:
        """Replace the content of the file in one step: all of it or nothing."""
        self._check_ours()
        try:
            write_atomically(self.path, content, sync=True, exclusive=True)
            file = _open(self.path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise SessionFileError(self.path, f"the file cannot be rewritten ({_reason(error)})") from error
        self._file.close()
        self._file = file
        found = os.fstat(self._file.fileno())
        self._identity, self._changed = _identity(found), found.st_mtime_ns
        self._size = len(content)
        self._checksum = zlib.crc32(content)

    def close(self) -> None:
        """Release the lock; does nothing the second time."""
        try:
            self._file.close()
        finally:
            self._lock.release()

    def is_ours(self) -> bool:
        """Return whether the file is still there, and no other program wrote to it."""
        try:
            self._check_ours()
        except SessionFileError:
            return False
        return True

    def _check_ours(self) -> None:
        if not self._lock.is_held:
            raise SessionFileError(self.path, "the session belongs to the parent of this process. Open it there")
        try:
            found = self.path.stat()
        except OSError as error:
            raise SessionFileError(
                self.path,
                f"the session's file has gone ({_reason(error)}). Put it back, or start a new session",
            ) from error
        if _identity(found) != self._identity or found.st_size != self._size:
            raise SessionFileError(
                self.path,
                f"another program wrote to the session (the file holds {found.st_size} bytes where {self._size} were "
                "left), so nothing was added. Open the session again to go on from there",
            )
        if found.st_mtime_ns != self._changed:
            # It may only have been touched, or its file system reports late.
            if zlib.crc32(self._content()) != self._checksum:
                raise SessionFileError(
                    self.path,
                    "another program changed what the session's file holds, so nothing was added. Open the session "
                    "again to go on from there",
                )
            self._changed = found.st_mtime_ns


def _open_for_writing(path: Path) -> tuple[io.BufferedReader[io.FileIO], object]:
    """Open a session file, at its beginning, with its state before it was opened."""
    try:
        found = _check_regular(path)
        file = io.BufferedReader(_open(path.resolve(), os.O_RDWR | os.O_APPEND))
    except (FileNotFoundError, ValueError) as error:  # a ValueError is a zero byte in the path
        raise _nothing_there(path) from error
    except OSError as error:
        raise SessionFileError(
            path, f"the file cannot be opened for writing ({_reason(error)}). {ELSEWHERE}"
        ) from error
    _header_of(file, path)
    return file, _state(found)


def _open(path: Path, flags: int) -> io.FileIO:
    flags |= os.O_NOFOLLOW
    # A file object, and not a bare number, for its end closes the file; without a buffer a write is one write.
    return io.FileIO(path, "r+b", opener=lambda name, _: os.open(name, flags, 0o600))


def _write(file: io.FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _sync(descriptor: int) -> None:
    """Wait until the disk has the data; does nothing on file systems that know no such thing."""
    try:
        getattr(os, "fdatasync", os.fsync)(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise


def _sync_directory(path: Path) -> None:
    """Make a new file's name survive a power cut, where directories can be synced."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _state_at(path: Path) -> tuple[int, ...] | None:
    try:
        return _state(path.stat())
    except OSError:
        return None


def _no_place(path: Path, problem: str, error: OSError) -> SessionFileError:
    kind = SessionFileError if error.errno in _SHORTAGES else SessionPlaceError
    return kind(path, f"{problem}. {ELSEWHERE}")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
