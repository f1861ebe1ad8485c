"""Files on disk: reading without waiting, writing without losing anything, private directories, the home directory.

What ``write_atomically`` promises:

- A reader of the file sees all of the old content or all of the new, and a write that fails leaves the old.
- The file keeps its mode, its owner and its extended attributes; a symbolic link stays one, and its target is replaced.
- A file that may not be written to is not replaced either, even where its directory would allow it.
- No temporary file is left behind, unless the process is killed: a caller that knows its name can remove it then.
- With ``at``, a name in that directory is written and no symbolic link is followed.

Where a file cannot be replaced, or would not be the same file afterwards, ``in_place`` allows to write into it: other
readers may then see a part of the new content, and the old one is written back when that fails.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.base.textcut import head_bytes

_MAX_HEAD_BYTES = 4096
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL})
"""Errors of file systems without hard links."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_NAME_BYTES = 200  # of the 255 that file systems allow; the rest is the temporary name's own part
_PIPE_SECONDS = 10.0
"""Longest stall of a write to a pipe or device, in seconds."""
_DISK_FAILURES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})
"""Errors that writing into a file would meet as well. Every other number may come from replacing alone: read-only and
sticky directories, files that are mounted by themselves, file systems that know no renaming, modes or owners."""


def read_file(path: Path, *, most: int = -1) -> bytes:
    """Read a regular file, without a byte order mark.

    Args:
        most: How many bytes it may have, whatever size the system says that it has; negative: any number.

    Raises:
        OSError: It cannot be read, is larger, or is a pipe or device, which may be waited for without end.
    """
    with open_regular(path) as file:
        content = file.read(most if most < 0 else most + 1)
        if content is None:  # pyright: ignore[reportUnnecessaryComparison] - a file that would be waited for
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
        if 0 <= most < len(content):
            raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
        return content.removeprefix(_BYTE_ORDER_MARK)


def open_regular(path: Path, *, follow_links: bool = True) -> io.BufferedReader:
    """Open a regular file to read its bytes, and nothing that may be waited for without end.

    Raises:
        OSError: It cannot be opened, or is a directory, pipe or device, or a link that is not to be followed.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is a pipe or device, not a file", str(path))


def write_atomically(  # noqa: PLR0913 - ways to write, each of few callers
    path: Path,
    data: bytes,
    *,
    mode: int = 0o666,
    sync: bool = False,
    exclusive: bool = False,
    in_place: bool = False,
    at: int | None = None,
    temporary: str = "",
) -> None:
    """Write a file so that it holds either its old content or all of the new.

    Args:
        path: The file; its directory must be there. The target of a symbolic link is written.
        mode: The permissions of a new file, less those that the umask removes.
        sync: Wait until the disk has the content, so that it also survives a power cut.
        exclusive: The caller holds a lock, so the temporary file has a fixed name (``.NAME.new``), and what a process
            that died has left there is removed.
        in_place: Write into the file where replacing it is not possible (a read-only or sticky directory, a mounted
            file, a file system without renaming), or would make another file of it (hard links, an owner that cannot
            be kept, a device).
        at: The descriptor of an open directory; ``path`` is a name in it then, and a symbolic link is an error.
        temporary: The name of the temporary file, for a caller that removes what a killed process has left of it.

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    target = Path(os.path.realpath(path)) if at is None else path
    before = _state(target, at)
    if before is None and in_place and at is None and (reached := _state(path, None)) is not None:
        _write_into(path, data, reached, None, sync=sync)  # such as /dev/stdout: what it leads to has no path
        return
    if before is not None and not stat.S_ISREG(before.st_mode) and not in_place:
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if in_place and before is not None and (before.st_nlink > 1 or not stat.S_ISREG(before.st_mode)):
        _write_into(target, data, before, at, sync=sync)
        return
    ending = "new" if exclusive else os.urandom(4).hex()
    temporary = temporary or f".{head_bytes(target.name, _MAX_NAME_BYTES)}.{ending}"
    try:
        _replace(target, data, before, target.with_name(temporary), at, mode=mode, sync=sync, keep_owner=in_place)
    except OSError as error:
        if not in_place or error.errno in _DISK_FAILURES:
            raise
        if before is None:
            _create(target, data, mode, at, sync=sync)
        else:
            _write_into(target, data, before, at, sync=sync)


def _state(path: Path, at: int | None) -> os.stat_result | None:
    """Return a path's stat, ``None`` if nothing is there; raise ``OSError`` for a directory or a read-only file."""
    try:
        state = os.stat(path, dir_fd=at, follow_symlinks=at is None)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(state.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if stat.S_ISDIR(state.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISREG(state.st_mode):
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC | _no_links(at), dir_fd=at))
    return state


def _no_links(at: int | None) -> int:
    return 0 if at is None else os.O_NOFOLLOW


def _replace(  # noqa: PLR0913 - what is there, and how it is to be replaced
    target: Path,
    data: bytes,
    before: os.stat_result | None,
    temporary: Path,
    at: int | None,
    *,
    mode: int,
    sync: bool,
    keep_owner: bool,
) -> None:
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=at)
    created = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, created, mode if before is None else 0o600, dir_fd=at)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                _make_alike(descriptor, target, before, at, keep_owner=keep_owner)
            if sync:
                os.fsync(descriptor)
            # A directory in its place is an error, and no other path's parent.
            os.replace(temporary, target, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with suppress(OSError):  # the first failure is the one to report
            os.unlink(temporary, dir_fd=at)
        raise


def _make_alike(descriptor: int, target: Path, before: os.stat_result, at: int | None, *, keep_owner: bool) -> None:
    """Give a new file the owner, mode, extended attributes and access lists of the one that it replaces."""
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except OSError:
            if keep_owner:
                raise
    with suppress(OSError):  # some file systems refuse attributes of others
        _copy_attributes(target, descriptor, at)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _copy_attributes(source: Path, descriptor: int, at: int | None) -> None:
    if not hasattr(os, "listxattr"):
        return
    opened = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | _no_links(at), dir_fd=at)
    try:
        for name in os.listxattr(opened):
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(opened, name))
    finally:
        os.close(opened)


def _create(target: Path, data: bytes, mode: int, at: int | None, *, sync: bool) -> None:
    """Make a file under its own name, without a temporary one."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=at)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):  # the first failure is the one to report
            os.unlink(target, dir_fd=at)
        raise


def _write_into(target: Path, data: bytes, before: os.stat_result, at: int | None, *, sync: bool) -> None:
    """Overwrite a file; when that fails, put back what it held, if it can be read.

    What is no regular file is only written to.
    """
    if not stat.S_ISREG(before.st_mode):
        # Without waiting for the other end of a pipe, which may never be opened, or never read.
        flags = os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK | _no_links(at)
        descriptor = os.open(target, flags, dir_fd=at)
        try:
            _write_in_time(descriptor, data)
        finally:
            os.close(descriptor)
        return
    old: bytes | None = None
    with _opened(target, at) as file:
        if not os.path.samestat(os.fstat(file.fileno()), before):
            raise OSError(errno.ESTALE, "it became another file meanwhile", str(target))
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


def _write_in_time(descriptor: int, data: bytes) -> None:
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    rest = memoryview(data)
    while rest:
        if not poll.poll(_PIPE_SECONDS * 1000):
            done = f"nothing reads it: {len(data) - len(rest)} of {len(data)} bytes were written"
            raise OSError(errno.ETIMEDOUT, done)
        rest = rest[os.write(descriptor, rest) :]


def _opened(target: Path, at: int | None) -> io.FileIO:
    flags = os.O_CLOEXEC | _no_links(at)
    try:
        return os.fdopen(os.open(target, os.O_RDWR | flags, dir_fd=at), "r+b", buffering=0)
    except PermissionError:
        return os.fdopen(os.open(target, os.O_WRONLY | flags, dir_fd=at), "wb", buffering=0)


def _overwrite(file: io.FileIO, data: bytes) -> None:
    file.seek(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.truncate(len(data))


def write_export(path: Path, data: bytes, is_ours: Callable[[bytes], bool]) -> None:
    """Write a file that its owner alone can read, in the place of nothing but a file of the same kind.

    Args:
        path: The file; its directory must be there.
        is_ours: Whether the first bytes of a file that is there are those of such a file.

    Raises:
        OSError: It cannot be written, or something else is there, a symbolic link included; that is as it was.
    """
    try:
        before = path.lstat()
    except FileNotFoundError:
        before = None
    if before is not None:
        if stat.S_ISLNK(before.st_mode):
            raise OSError(errno.EEXIST, "it is a symbolic link", str(path))
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EEXIST, "it is no regular file", str(path))
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not is_ours(file.read(_MAX_HEAD_BYTES)):
                raise OSError(errno.EEXIST, "another file is there, which would be lost", str(path))
    temporary = path.with_name(f".{head_bytes(path.name, _MAX_NAME_BYTES)}.{os.urandom(4).hex()}")
    try:
        _create(temporary, data, 0o600, None, sync=False)
        if before is None:
            os.link(temporary, path, follow_symlinks=False)  # unlike a renaming it replaces nothing that came meanwhile
        else:
            os.replace(temporary, path)  # noqa: PTH105 - a link in its place is replaced, and not followed
    except OSError as error:
        if before is not None or error.errno not in _NO_LINKS:
            raise
        _create(path, data, 0o600, None, sync=False)
    finally:
        with suppress(OSError):
            temporary.unlink()


def keep_private(path: Path) -> bool:
    """Take group's and others' rights from a path of ours; return whether others could write there.

    A link, another user's path, and a directory that holds the user's home are left unchanged.
    """
    with suppress(OSError):
        found = path.lstat()
        loose = stat.S_IMODE(found.st_mode) & 0o077
        if (
            not loose
            or found.st_uid != os.geteuid()
            or not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode))
        ):
            return False
        home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - without a home, `Path.home` raises
        if Path(home).is_relative_to(os.path.realpath(path)) or found.st_mode & stat.S_ISVTX:
            return False
        path.chmod(stat.S_IMODE(found.st_mode) & ~0o077)
        return others_can_write(found)
    return False


def make_private_directory(path: Path) -> None:
    """Make a directory and its missing parents for the owner only; leave an existing one unchanged.

    Raises:
        OSError: It could not be made.
    """
    missing = [path]
    while not os.path.lexists(missing[-1].parent):
        missing.append(missing[-1].parent)
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)


def others_can_write(state: os.stat_result) -> bool:
    """Return whether a path is another user's, or writable for users other than this one and root."""
    if state.st_uid not in (os.geteuid(), 0) or state.st_mode & stat.S_IWOTH:
        return True
    return bool(state.st_mode & stat.S_IWGRP) and not _is_private_group(state.st_gid)


def is_open_to_others(path: Path) -> bool:
    """Return whether others can write to a path; not to one that is not there."""
    try:
        return others_can_write(path.stat())
    except OSError:
        return False


def is_link_of_others(path: Path) -> bool:
    """Return whether a path is a symbolic link of another user, who so chooses which file is meant."""
    found = path.lstat()
    return stat.S_ISLNK(found.st_mode) and found.st_uid not in (os.geteuid(), 0)


@lru_cache
def _is_private_group(group: int) -> bool:
    """Return whether a group is the user's alone, as on systems with a group per user and a umask to match."""
    import grp
    import pwd

    try:
        user, listed = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return listed.gr_name in (user, "root") and not set(listed.gr_mem) - {user, "root"}


def current_directory() -> Path:
    """Return the working directory; raise ``UsageError`` when it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            f"The working directory cannot be used ({error.strerror}): it was removed, or you may not look into it. "
            "Change to another one."
        ) from error


def expand_user(path: Path | str) -> Path:
    """Replace ``~`` in ``path`` by the home directory; raise ``UsageError`` where there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{path}: there is no home directory, for HOME is not set and the user is not in the system's list of "
            "users. Set HOME, or INDUS_NB_AGENT_DIR to a directory for the agent's files."
        ) from error


def without_home(text: str) -> str:
    """Replace the home directory's path in ``text`` by ``~``, for what is saved where others read it.

    Directories of sessions are named after a path: in those names it is written as ``*``, as a shell reads it, and as
    one ``?`` for each letter in that of the home itself, which is all of the name.
    """
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - without a home, `Path.home` raises
    if not home.startswith("/"):
        return text
    text = re.sub(rf"(?<![\w.~/-]){re.escape(home)}(?![\w.-])", "~", text)
    name = re.escape(home[1:].replace("/", "-"))
    text = re.sub(rf"(?<=/)--{name}--(?![^/\s])", f"--{'?' * (len(home) - 1)}--", text)
    return re.sub(rf"(?<=/)--{name}(?=-)", "*", text)
