"""Files on disk: reading without waiting, writing without losing anything, private directories, the home directory.

What ``write_atomically`` promises:

- Whoever reads the file sees all of the old content or all of the new, and a write that fails leaves the old.
- The file keeps its mode, its owner and its extended attributes; a symbolic link stays one, and its target is replaced.
- A file that may not be written to is not replaced either, even where its directory would allow it.
- No temporary file is left behind, unless the process is killed.

Where a file cannot be replaced, or would not be the same file afterwards, ``in_place`` allows to write into it: other
readers may then see a part of the new content, and the old one is written back when that fails.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from contextlib import suppress
from pathlib import Path

from indus_nb.errors import UsageError
from indus_nb.textcut import head_bytes

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_NAME_BYTES = 200  # of the 255 that file systems allow; the rest is the temporary name's own part
_DISK_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
"""What writing into a file would fail with as well. Every other number may come from replacing alone: read-only and
sticky directories, files that are mounted by themselves, file systems that know no renaming, modes or owners."""


def read_file(path: Path) -> bytes:
    """What the regular file at ``path`` holds, without a byte order mark.

    Raises ``OSError``, also for a pipe or device: those may be waited for without end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe or device, not a file", str(path))
        return file.read().removeprefix(_BYTE_ORDER_MARK)


def write_atomically(
    path: Path, data: bytes, *, mode: int = 0o666, sync: bool = False, exclusive: bool = False, in_place: bool = False
) -> None:
    """Write a file so that it holds either its old content or all of the new.

    Args:
        path: The file; its directory must be there. The target of a symbolic link is written.
        data: All that it will hold.
        mode: The permissions of a new file, less those that the umask removes.
        sync: Wait until the disk has the content, so that it also survives a power cut.
        exclusive: The caller holds a lock, so the temporary file has a fixed name (``.NAME.new``), and what a process
            that died has left there is removed.
        in_place: Write into the file where replacing it is not possible (a read-only or sticky directory, a mounted
            file, a file system without renaming), or would make another file of it (hard links, an owner that cannot
            be kept, a device).

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    target = Path(os.path.realpath(path))
    before = _state(target)
    if before is None and in_place and (reached := _state(path)) is not None:
        _write_into(path, data, reached, sync=sync)  # such as /dev/stdout: what it leads to has no path
        return
    if before is not None and not stat.S_ISREG(before.st_mode) and not in_place:
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if in_place and before is not None and (before.st_nlink > 1 or not stat.S_ISREG(before.st_mode)):
        _write_into(target, data, before, sync=sync)
        return
    temporary = f".{head_bytes(target.name, _MAX_NAME_BYTES)}.{'new' if exclusive else os.urandom(4).hex()}"
    try:
        _replace(target, data, before, target.with_name(temporary), mode=mode, sync=sync, keep_owner=in_place)
    except OSError as error:
        if not in_place or error.errno in _DISK_FAILURES:
            raise
        if before is None:
            _create(target, data, mode, sync=sync)
        else:
            _write_into(target, data, before, sync=sync)


def _state(path: Path) -> os.stat_result | None:
    """What is there, ``None`` if nothing is; raises ``OSError`` for a directory, and what may not be written to."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISREG(state.st_mode):
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    return state


def _replace(
    target: Path,
    data: bytes,
    before: os.stat_result | None,
    temporary: Path,
    *,
    mode: int,
    sync: bool,
    keep_owner: bool,
) -> None:
    temporary.unlink(missing_ok=True)
    created = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, created, mode if before is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                _make_alike(temporary, target, before, keep_owner=keep_owner)
            if sync:
                os.fsync(descriptor)
        os.replace(temporary, target)  # noqa: PTH105 - a directory in its place is an error, and no other path's parent
    except BaseException:
        with suppress(OSError):  # the first failure is the one to report
            temporary.unlink(missing_ok=True)
        raise


def _make_alike(temporary: Path, target: Path, before: os.stat_result, *, keep_owner: bool) -> None:
    """Give a new file the owner, mode, extended attributes and access lists of the one that it replaces."""
    import shutil

    made = temporary.stat()
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.chown(temporary, before.st_uid, before.st_gid)
        except OSError:
            if keep_owner:
                raise
    with suppress(OSError):  # some file systems refuse attributes of others
        shutil.copystat(target, temporary)
    os.utime(temporary)
    temporary.chmod(stat.S_IMODE(before.st_mode))


def _create(target: Path, data: bytes, mode: int, *, sync: bool) -> None:
    """Make a file under its own name, without a temporary one."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):  # the first failure is the one to report
            target.unlink()
        raise


def _write_into(target: Path, data: bytes, before: os.stat_result, *, sync: bool) -> None:
    """Overwrite a file; when that fails, put back what it held, if it can be read.

    What is no regular file is only written to.
    """
    if not stat.S_ISREG(before.st_mode):
        target.write_bytes(data)
        return
    old: bytes | None = None
    with _opened(target) as file:
        with suppress(OSError):  # not all that may be written to can be read
            old = file.readall()
        try:
            _overwrite(file, data)
            if sync:
                os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):  # the first failure is the one to report
                if old is not None:
                    _overwrite(file, old)
            raise


def _opened(target: Path) -> io.FileIO:
    try:
        return target.open("r+b", buffering=0)
    except PermissionError:
        return os.fdopen(os.open(target, os.O_WRONLY | os.O_CLOEXEC), "wb", buffering=0)


def _overwrite(file: io.FileIO, data: bytes) -> None:
    file.seek(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.truncate(len(data))


def make_private_directory(path: Path) -> None:
    """Make a directory and its missing parents, accessible to the owner only; an existing one is left unchanged.

    Raises:
        OSError: It could not be made.
    """
    missing = [path]
    while not os.path.lexists(missing[-1].parent):
        missing.append(missing[-1].parent)
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)


def current_directory() -> Path:
    """The working directory; raises ``UsageError`` when it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            f"The working directory cannot be used ({error.strerror}): it was removed, or you may not look into it. "
            "Change to another one."
        ) from error


def expand_user(path: Path | str) -> Path:
    """``path`` with ``~`` replaced by the home directory; raises ``UsageError`` where there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{path}: there is no home directory, for HOME is not set and the user is not in the system's list of "
            "users. Set HOME, or INDUSAGI_CODING_AGENT_DIR to a directory for the agent's files."
        ) from error
