"""Changes of files that a tried program goes on with as if they had been made.

What this module promises: nothing of that happens. What the program writes goes to files of its own directory, which
stand in for those that it named and are removed in the end; what it makes, moves or removes stays as it is. Only what
the user of this process could do is taken for done, and only where the program sees nothing of a file's contents.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from indus_nb.safety.sandbox.calls import Arguments, Given

CREATES, EXCLUSIVE = 0o100, 0o200
_REMOVES_DIRECTORY = 0x200
_MOST = 16
"""Most files that others stand in for; each is a descriptor of this process."""


@dataclass(frozen=True, slots=True)
class _StandIn:
    """A file that stands in for another; opened again by its descriptor, for its name is the program's to change."""

    path: Path
    descriptor: int


class Pretended:
    """What one program is told that it has changed.

    Args:
        private: The program's own directory.
        nothing: Whether it is to be told of each refusal: it is no trial, and must not take for done what is not.
    """

    def __init__(self, private: Path, *, nothing: bool) -> None:
        self._private = private
        self._nothing = nothing
        self._stand_ins: dict[Path, _StandIn] = {}
        self._opened: list[_StandIn] = []
        self._made: set[Path] = set()
        self._removed: set[Path] = set()
        self.emptied: set[Path] = set()
        """Directories that are removed, with all that is in them."""

    def has_made(self, place: Path) -> bool:
        """Return whether it wrote or made a file or directory that is not there."""
        return (place in self._stand_ins or place in self._made) and not os.path.lexists(place)

    def stands_in(self, place: Path) -> bool:
        """Return whether what the program does to a file is meant for another."""
        return any(place == each.path for each in self._opened)

    def is_directory(self, place: Path) -> bool:
        """Return whether it takes a path for a directory."""
        return place.is_dir() or place in self._made

    def close(self) -> None:
        """Remove what was written instead of files."""
        for each in self._opened:
            os.close(each.descriptor)
            with suppress(OSError):  # whatever the program has put in its place
                each.path.unlink()
        self._opened.clear()

    def opened(self, place: Path, state: os.stat_result | None, flags: int, arguments: Arguments) -> int | Given:
        """Open a file for the program, if that is what it wants only to write or has made itself.

        Args:
            state: That of the file; ``None`` if there is none.
            flags: Those of its call.

        Returns:
            The descriptor that it was given, or the error of its call.
        """
        if place in self._made:
            return errno.EISDIR
        if state is None and place in self._stand_ins:
            return errno.EEXIST if flags & EXCLUSIVE else self._stand_in(place, flags, arguments)
        shows_contents = state is not None and not flags & os.O_TRUNC and flags & os.O_ACCMODE != os.O_WRONLY
        is_file = state is None or stat.S_ISREG(state.st_mode)
        could = self._could_change(place.parent) if state is None else os.access(place, os.W_OK)
        if self._nothing or shows_contents or not (is_file and could):
            return errno.EROFS
        return self._stand_in(place, flags, arguments)

    def _stand_in(self, place: Path, flags: int, arguments: Arguments) -> int | Given:
        own = -1
        try:
            kept = self._stand_ins.get(place)
            if kept is None:
                if len(self._opened) >= _MOST:
                    return errno.EROFS
                kept = self._made_stand_in()
            how = flags & (os.O_ACCMODE | os.O_APPEND | os.O_TRUNC) | os.O_CLOEXEC
            own = os.open(f"/proc/self/fd/{kept.descriptor}", how)
            given = arguments.give(own, closes=bool(flags & os.O_CLOEXEC))
        except OSError:  # a kernel that gives none, or a program that can have no more
            return errno.EROFS
        else:
            self._stand_ins[place] = kept
            return given
        finally:
            if own >= 0:
                os.close(own)

    def _made_stand_in(self) -> _StandIn:
        path = self._private / f".stand-in-{secrets.token_hex(8)}"
        made = _StandIn(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        self._opened.append(made)
        return made

    def changed(self, name: str, places: Sequence[Path], flags: int) -> int:
        """Return what a call by names ends with.

        Args:
            name: Of the call.
            places: The files that it is about, the one that must be there or be made first.
            flags: Those of the call, if it is ``unlinkat``.
        """
        if self._nothing or name == "truncate" or not all(self._could_change(place.parent) for place in places):
            return errno.EROFS
        place = places[0]
        if name in ("unlink", "unlinkat", "rmdir"):
            is_directory = name == "rmdir" or (name == "unlinkat" and bool(flags & _REMOVES_DIRECTORY))
            return self._remove(place, directory=is_directory)
        if name in ("mkdir", "mkdirat"):
            if place in self._made:
                return errno.EEXIST
            self._made.add(place)
        return 0

    def _remove(self, place: Path, *, directory: bool) -> int:
        if place.is_symlink() or not place.is_dir():
            error = errno.ENOTDIR if directory else 0
        elif directory:
            with os.scandir(place) as entries:  # one at a time: there may be millions
                error = 0 if all(Path(each.path) in self._removed for each in entries) else errno.ENOTEMPTY
        else:
            error = errno.EISDIR
        if not error:
            self._removed.add(place)
            if directory:
                self.emptied.add(place)
        return error

    def moved(self, place: Path, target: Path) -> int:
        """Return what the move of something that the program has made itself ends with."""
        is_there = self.is_directory(target.parent) and not self.is_directory(target)
        if place not in self._stand_ins or not is_there or not self._could_change(target.parent):
            return errno.EROFS
        self._stand_ins[target] = self._stand_ins.pop(place)
        return 0

    def forget(self, place: Path) -> None:
        """Note that something that the program has made itself is removed."""
        self._stand_ins.pop(place, None)
        self._made.discard(place)

    def _could_change(self, directory: Path) -> bool:
        """Return whether files of a directory could be made, moved and removed."""
        return directory in self._made or os.access(directory, os.W_OK)
