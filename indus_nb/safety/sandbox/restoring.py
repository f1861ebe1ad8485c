"""Protected paths that a confined program could change: found afterwards, and put back or aside.

What this module promises: nothing is deleted. What was changed is kept beside, under another name, and said. It is for
what no mount can hold: files that are not there yet, and, with Landlock, everything that is protected.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from indus_nb.base.files import write_atomically
from indus_nb.safety.sandbox.policy import SandboxError

_MAX_FILES = 500
_MAX_BYTES = 4 << 20
_ASIDE = ".from-sandbox"

State = tuple[int, bytes]
"""Kind and mode of a file, and what it holds."""


class Watched:
    """Snapshot of what is protected, to restore it.

    Args:
        absent: Paths that must not come into being.
        kept: Files and directories that must stay as they are.
        pinned: Directories that must stay where they are.

    Raises:
        SandboxError: There is too much to remember.
    """

    def __init__(self, absent: Iterable[Path], kept: Iterable[Path] = (), pinned: Iterable[Path] = ()) -> None:
        self._absent = tuple(path for path in absent if not os.path.lexists(path))
        self._pinned = {path: _identity(path) for path in pinned}
        self._kept = {path: dict(states(path)) for path in kept}

    def set_right(self) -> list[str]:
        """Restore what was changed, and say so in sentences."""
        sentences = [f"{path} was moved; it is protected, and was moved back." for path in self._moved_back()]
        sentences += [
            f"{path} was made; it is protected, and was renamed to {aside.name}." for path, aside in self._moved()
        ]
        for path, before in self._kept.items():
            try:
                after = dict(states(path))
            except SandboxError:
                after = {}
            if after != before:
                sentences.append(f"{path} was changed; it is protected, and was put back. {put_back(path, before)}")
        return sentences

    def _moved_back(self) -> Iterator[Path]:
        for path, identity in self._pinned.items():
            if _identity(path) == identity or not _is_straight(path.parent):
                continue
            moved = next((each for each in path.parent.iterdir() if _identity(each) == identity), None)
            if moved is not None:
                _put_aside(path)
                moved.rename(path)
                yield path

    def _moved(self) -> Iterator[tuple[Path, Path]]:
        for path in self._absent:
            if os.path.lexists(path) and _is_straight(path.parent) and (aside := _put_aside(path)) is not None:
                yield path, aside


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        state = path.lstat()
    except OSError:
        return None
    return state.st_dev, state.st_ino


def states(path: Path) -> Iterator[tuple[Path, State]]:
    """List a file, or a directory with all below it, with their content.

    Raises:
        SandboxError: It is too much to remember.
    """
    files = size = 0
    waiting = [path]
    while waiting:
        each = waiting.pop()
        try:
            state = each.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(state.st_mode):
            yield each, (state.st_mode, b"")
            waiting += each.iterdir()
            continue
        content = b""
        if stat.S_ISLNK(state.st_mode):
            content = os.fsencode(each.readlink())
        elif stat.S_ISREG(state.st_mode):
            files, size = files + 1, size + state.st_size
            if files > _MAX_FILES or size > _MAX_BYTES:
                raise SandboxError(
                    f"{path} holds too much to be protected by Landlock. Install bubblewrap, or choose --sandbox off."
                )
            content = each.read_bytes()
        yield each, (state.st_mode, content)


def _put_aside(path: Path) -> Path | None:
    if not os.path.lexists(path):
        return None
    for number in range(1, 1000):
        aside = path.with_name(f"{path.name}{_ASIDE}-{number}")
        if not os.path.lexists(aside):
            try:
                path.rename(aside)
            except OSError:
                return None
            return aside
    return None


def _is_straight(path: Path) -> bool:
    return os.path.realpath(path) == str(path)


def put_back(path: Path, before: dict[Path, State]) -> str:
    """Put the present file aside, and restore the one before.

    Args:
        before: What ``states`` listed of it; nothing if it was not there.

    Returns:
        A sentence that says where what stood there is now.
    """
    for above in reversed(path.parents):  # a link in the way must not lead us elsewhere
        if above.is_symlink():
            _put_aside(above)
        above.mkdir(exist_ok=True)
    aside = _put_aside(path) if os.path.lexists(path) else None
    for each, (mode, content) in sorted(before.items()):
        if stat.S_ISDIR(mode):
            each.mkdir(exist_ok=True)
        elif stat.S_ISLNK(mode):
            each.symlink_to(os.fsdecode(content))
        elif stat.S_ISREG(mode):
            write_atomically(each, content)
            each.chmod(stat.S_IMODE(mode))
    return f"What stood there is in {aside.name}." if aside is not None else "It had been removed."
