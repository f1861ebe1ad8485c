"""Opening of the file that a call was allowed for, and no other.

What this module promises: ``located`` says once which file a path means, through all links; what is opened later is
that path, component by component, without following a link. A link that was put there in the meantime, a pipe, or
another file's second name in the place of the file that the user saw is refused.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from indus_nb.tools.description import Target
from indus_nb.tools.files.paths import resolve
from indus_nb.tools.tool import ToolError

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags that open a directory; where the system can, without the right to list it."""


def located(path: str, cwd: Path) -> Target:
    """Return the target of a path as a model gives it.

    Args:
        cwd: Directory that relative paths start from.

    Returns:
        The file that it means through all links, which need not exist.

    Raises:
        ToolError: It cannot be a path.
    """
    return look(Path(os.path.realpath(resolve(path, cwd))))


def look(path: Path) -> Target:
    """Return the present target at a real path."""
    try:
        return Target(path, path.lstat())
    except OSError:
        return Target(path)


@contextlib.contextmanager
def parent_of(target: Target, *, create: bool = False) -> Generator[int]:
    """Open the directory that holds a target, from the root on, following no link.

    Yields:
        A descriptor that other calls take as ``dir_fd``.

    Raises:
        ToolError: A link stands in the way, or what is there is not what was there.
        OSError: It cannot be opened.
    """
    at = os.open("/", _DIRECTORY)
    try:
        for name in target.path.parent.parts[1:]:
            below = _below(at, name, target.path, create=create)
            os.close(at)
            at = below
        _check(target, at)
        yield at
    finally:
        os.close(at)


def open_target(target: Target, *, name: str) -> BinaryIO:
    """Open a target for reading, without waiting for the other end of a pipe and without following a link.

    Args:
        name: Path as the model gave it.

    Raises:
        ToolError: It is no regular file, or not the one that was there.
        OSError: It cannot be opened.
    """
    with parent_of(target) as at:
        own = target.path.name or "."
        mode = _mode(own, at)
        if stat.S_ISREG(mode):
            descriptor = os.open(own, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=at)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.fdopen(descriptor, "rb")
            os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(0, "It is a folder")
        raise ToolError(f"{name} is no regular file: reading it might never end. Nothing was read.")


def _mode(name: str, at: int) -> int:
    return os.stat(name, dir_fd=at, follow_symlinks=False).st_mode


def _below(at: int, name: str, path: Path, *, create: bool) -> int:
    flags = _DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=at)
    except FileNotFoundError:
        if not create:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=at)
        return os.open(name, flags, dir_fd=at)
    except OSError as error:
        with contextlib.suppress(OSError):
            if stat.S_ISLNK(_mode(name, at)):
                raise _moved(path, f"{name} on the way to it became a symbolic link") from error
        raise


def _check(target: Target, at: int) -> None:
    """Check that the present file may stand for the one from when the target was resolved."""
    try:
        now = os.stat(target.path.name or ".", dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(now.st_mode):
        raise _moved(target.path, "it became a symbolic link")
    before = target.state
    if before is None:
        raise _moved(target.path, "it was made by somebody else")
    if stat.S_IFMT(now.st_mode) != stat.S_IFMT(before.st_mode):
        raise _moved(target.path, "it became another kind of file")
    same = (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino)
    if not stat.S_ISDIR(now.st_mode) and now.st_nlink > 1 and not (same and now.st_nlink <= before.st_nlink):
        raise _moved(target.path, "it became a second name of another file")


def _moved(path: Path, what: str) -> ToolError:
    return ToolError(
        f"{path} is not what it was when this call was looked at: {what}. Nothing was done. Find out who changed it, "
        "then try again."
    )
