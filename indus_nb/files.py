"""Where the user's files lie, and how they are read and made: no waiting for pipes, no looks by others."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from indus_nb.errors import UsageError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_file(path: Path) -> bytes:
    """What the regular file at ``path`` holds, without a byte order mark.

    Raises ``OSError``, also for a pipe or device: those may be waited for without end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe or device, not a file", str(path))
        return file.read().removeprefix(_BYTE_ORDER_MARK)


def make_private_directory(path: Path) -> None:
    """Make the directory and what is missing above it, for nobody but their owner; one that is there stays as it is.

    Raises ``OSError``.
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
    """``path`` with the home directory in the place of ``~``; raises ``UsageError`` where there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{path}: there is no home directory, for HOME is not set and the user is not in the system's list of "
            "users. Set HOME, or INDUSAGI_CODING_AGENT_DIR to a directory for the agent's files."
        ) from error
