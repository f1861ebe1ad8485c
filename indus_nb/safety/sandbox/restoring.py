"""Protected paths that a confined program could change: found afterwards, and put back or aside.

What this module promises: nothing is deleted. What was changed is kept beside, under another name, and said. It is for
what no mount can hold: files that are not there yet, and, with Landlock, everything that is protected. A directory is
recognised because it is held open: what is made later can have its name, and not its number.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from indus_nb.base.files import open_regular
from indus_nb.safety.sandbox.policy import SandboxError

_MAX_FILES = 500
_MAX_BYTES = 4 << 20
_ASIDE = ".from-sandbox"

State = tuple[int, bytes]
"""Kind and mode of a file, and what it holds."""


class Watched:
    """Snapshot of what is protected, to restore it as often as a program ends."""

    def __init__(self) -> None:
        self._before: dict[Path, dict[Path, State]] = {}
        self._pinned: dict[Path, int] = {}
        self._roots: dict[Path, int] = {}

    def add(self, paths: Iterable[Path], pinned: Iterable[Path] = (), roots: Iterable[Path] = ()) -> None:
        """Remember what is not remembered yet, as it is now.

        Args:
            paths: Files and directories that must stay as they are. Those that are not there must not come into being.
            pinned: Directories that must stay where they are. They are held open until ``close``, like the roots.
            roots: The directories that programs may write in; they cannot move one that lies in no other.

        Raises:
            SandboxError: There is too much to remember.
            OSError: Something cannot be looked at.
        """
        for root in self._gone():
            self._forget(root)  # there is another one in its place
        for path in map(_with_real_parent, paths):
            if path not in self._before:
                self._before[path] = dict(states(path))
        for held, directories in ((self._roots, roots), (self._pinned, pinned)):
            for path in directories:
                if path not in held:
                    held[path] = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)

    def close(self) -> None:
        """Forget all of it, and let go of the directories."""
        self._forget(Path("/"))

    def set_right(self) -> list[str]:
        """Restore what was changed, and say so in sentences."""
        gone = self._gone()
        sentences = [
            f"{root} was {f'moved to {place}' if place else 'removed'} while a program ran, and not by it. What is "
            "protected in it was not put back: look at its .git and .indusagi before you go on."
            for root, place in gone.items()
        ]
        for path, descriptor in sorted(self._pinned.items()):  # those that others lie in come first
            if any(map(path.is_relative_to, gone)):
                continue
            where = _place(descriptor)
            if where not in (None, path):
                sentences.append(f"{path} was moved; it is protected, and {_moved_back(path, descriptor)}")
        for path, before in self._before.items():
            if any(map(path.is_relative_to, gone)) or (_is_straight(path.parent) and found_states(path) == before):
                continue
            what = "changed" if before else "made"
            try:
                result = f"put {'back' if before else 'aside'}. {put_back(path, before)}"
            except OSError as error:
                result = f"not put back ({error}). Look at it before you go on."
            sentences.append(f"{path} was {what}; it is protected, and was {result}")
        return sentences

    def _gone(self) -> dict[Path, Path | None]:
        """Return the roots that the user has moved, with their places, or removed."""
        outermost = [root for root in self._roots if not any(above in self._roots for above in root.parents)]
        places = {root: _place(self._roots[root]) for root in outermost}
        return {root: place for root, place in places.items() if place != root}

    def _forget(self, above: Path) -> None:
        for held in (self._roots, self._pinned):
            for path in [each for each in held if each.is_relative_to(above)]:
                os.close(held.pop(path))
        self._before = {path: each for path, each in self._before.items() if not path.is_relative_to(above)}


def _with_real_parent(path: Path) -> Path:
    return Path(os.path.realpath(path.parent), path.name)


def _is_straight(path: Path) -> bool:
    return os.path.realpath(path) == str(path)


def _place(descriptor: int) -> Path | None:
    """Return the place of a directory that is held; ``None`` if it was removed."""
    if os.fstat(descriptor).st_nlink == 0:
        return None
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def _moved_back(path: Path, descriptor: int) -> str:
    try:
        put_back(path, {})
        where = _place(descriptor)  # it may lie in what was put aside
        if where is not None:
            _make_way(where)
            _make_way(path)
            where.rename(path)
    except OSError as error:
        return f"could not be moved back ({error}). It is {_place(descriptor)}."
    return "was moved back."


def found_states(path: Path) -> dict[Path, State]:
    """Return what ``states`` lists, or that it cannot be looked at, which is a state, too."""
    try:
        return dict(states(path))
    except (OSError, SandboxError):
        return {path: (0, b"it cannot be looked at")}


def states(path: Path) -> Iterator[tuple[Path, State]]:
    """List a file, or a directory with all below it, with their content.

    Raises:
        SandboxError: It is too much to remember.
        OSError: It cannot be looked at.
    """
    files = size = 0
    waiting = [path]
    while waiting:
        each = waiting.pop()
        try:
            state = each.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISDIR(state.st_mode):
            yield each, (state.st_mode, b"")
            waiting += each.iterdir()
            continue
        content = b""
        if stat.S_ISLNK(state.st_mode):
            content = os.fsencode(each.readlink())
        elif stat.S_ISREG(state.st_mode):
            with open_regular(each, follow_links=False) as file:  # which may be another one by now
                state = os.fstat(file.fileno())
                content = file.read(_MAX_BYTES - size + 1)
            files, size = files + 1, size + len(content)
            if files > _MAX_FILES or size > _MAX_BYTES:
                raise SandboxError(
                    f"{path} holds too much to be protected by Landlock. Install bubblewrap, or choose --sandbox off."
                )
        yield each, (state.st_mode, content)


def put_back(path: Path, before: dict[Path, State]) -> str:
    """Put the present file aside, and restore the one before.

    Args:
        before: What ``states`` listed of it; nothing if it was not there.

    Returns:
        A sentence that says where what stood there is now.

    Raises:
        OSError: It cannot be put back, or not all of it.
    """
    aside = _make_way(path, makes=bool(before))
    if os.path.lexists(path):
        aside = _put_aside(path)
    for each, (mode, content) in sorted(before.items()):
        if stat.S_ISDIR(mode):
            each.mkdir()
        elif stat.S_ISLNK(mode):
            each.symlink_to(os.fsdecode(content))
        elif stat.S_ISREG(mode):
            with each.open("xb") as file:  # through no link and no pipe of a program that still runs
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
                file.write(content)
    for each, (mode, _) in sorted(before.items(), reverse=True):
        if stat.S_ISDIR(mode):
            each.chmod(stat.S_IMODE(mode))
    return f"What stood there is in {aside.name}." if aside is not None else "It had been removed."


def _make_way(path: Path, *, makes: bool = True) -> Path | None:
    """Put aside what is no directory above a path, for a link there must not lead elsewhere.

    Args:
        makes: Whether directories that are missing are made.

    Returns:
        Where the last of it is now.
    """
    aside = None
    for above in reversed(path.parents):
        if above.is_symlink() or (above.exists() and not above.is_dir()):
            aside = _put_aside(above)
        if makes:
            above.mkdir(exist_ok=True)
        needed = os.X_OK | (os.W_OK if above == path.parent else 0)
        if above.exists() and not os.access(above, needed):  # the program has closed what is the user's
            above.chmod(stat.S_IMODE(above.stat().st_mode) | stat.S_IRWXU)
    return aside


def _put_aside(path: Path) -> Path:
    names = (path.with_name(f"{path.name}{_ASIDE}-{number}") for number in count(1))
    aside = next(name for name in names if not os.path.lexists(name))
    path.rename(aside)
    return aside
