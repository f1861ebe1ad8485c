"""Which files code in this process changes, from Python's audit events.

Without that every file that changes while code runs would count as changed by it, another program's too. What a
library does below Python causes no event.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from indus_nb.kernel.preview.watching import paths_changed

_MAX_PATHS = 10_000
_going: list[Writes] = []
_hooks: list[object] = []
"""The hook, once there is one: it stays until the process ends."""


class Writes:
    """Paths that code opens for writing, moves or deletes, from now until ``end``.

    The code is what this thread runs, and the threads that are started meanwhile; or what all threads run.
    """

    def __init__(self, *, all_threads: bool = False) -> None:
        """Begin to watch."""
        known = () if all_threads else sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        self._others = frozenset(known) - {threading.get_ident()}
        self._paths: set[str] = set()
        self._left_out: set[str] = set()
        _going.append(self)
        if not _hooks:
            _hooks.append(_note)
            sys.addaudithook(_note)

    def leave_out(self, paths: Iterable[Path]) -> None:
        """Note that another call changes these, on a thread that may have been started meanwhile."""
        self._left_out.update(map(os.path.realpath, paths))

    def end(self) -> set[str]:
        """Return the full paths, and watch no more."""
        if self in _going:
            _going.remove(self)
        return {*map(os.path.realpath, self._paths)} - self._left_out

    def note(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what an audit event of this thread announces; no directory that may be there already."""
        if event != "os.mkdir" and threading.get_ident() not in self._others and len(self._paths) < _MAX_PATHS:
            self._paths.update(paths_changed(event, args))


def _note(event: str, args: tuple[Any, ...]) -> None:
    if not _going or event[:1] not in ("o", "s"):
        return
    try:
        for writes in _going:
            writes.note(event, args)
    except Exception:  # noqa: BLE001 - what a hook raises would end what the code does
        return
