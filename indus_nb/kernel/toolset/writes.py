"""Which files code in this process changes, from Python's audit events.

Without that every file that changes while code runs would count as changed by it, another program's too. What a
library does below Python causes no event. A file that the code has closed and that then changes without an event was
changed by somebody else, too: where the system says which files a process has open, these are looked at now and then.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from indus_nb.kernel.preview.watching import paths_changed, starts_process

_MAX_PATHS = 10_000
_MAX_LOOKED_AT = 200
_LOOK_SECONDS = 0.1
_OPEN_FILES = "/proc/self/fd"
_going: list[Writes] = []
_hooks: list[object] = []
"""The hook, once there is one: it stays until the process ends."""


class _Look(NamedTuple):
    """What a look found of a path: its events so far, its state, and whether neither event nor open file was new."""

    events: int
    sign: tuple[int, int, int] | None
    is_quiet: bool


class Writes:
    """Paths that code opens for writing, moves or deletes, from now until ``end``.

    The code is what this thread runs, and the threads that are started meanwhile; or what all threads run.
    """

    def __init__(self, *, all_threads: bool = False, on_first: Callable[[str], None] = lambda _: None) -> None:
        """Begin to watch.

        Args:
            on_first: Called with a path right before it is changed for the first time, as long as the code has started
                no other process, which may have changed it.
        """
        self._on_first = on_first
        self._has_started = False
        known = () if all_threads else sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        self._others = frozenset(known) - {threading.get_ident()}
        self._events: dict[str, int] = {}
        self._left_out: set[str] = set()
        self._looks: dict[str, _Look] = {}
        self._by_others: set[str] = set()
        self._ended = threading.Event()
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
        if not self._ended.is_set():
            self._ended.set()
            self._look()
        return {*map(os.path.realpath, self._events)} - self._left_out

    @property
    def by_others(self) -> set[str]:
        """Return those of the full paths that somebody else was seen to change, too."""
        return {*map(os.path.realpath, self._by_others)}

    def note(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what an audit event of this thread announces; no directory that may be there already."""
        if event == "os.mkdir" or threading.get_ident() in self._others or len(self._events) >= _MAX_PATHS:
            return
        self._has_started = self._has_started or starts_process(event)
        is_first = not self._events
        for path in paths_changed(event, args):
            before = self._events.get(path, 0)
            self._events[path] = before + 1
            if not before and not self._has_started:
                self._on_first(path)
        if is_first and self._events:
            threading.Thread(target=self._watch, name="written files", daemon=True).start()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        """Find files that have changed between two looks though no code here had them open, nor opened them."""
        events = [*self._events.items()][:_MAX_LOOKED_AT]
        signs = [_sign(path) for path, _ in events]
        is_open = _open_files()
        if is_open is None:
            return
        for (path, count), sign in zip(events, signs, strict=True):
            last = self._looks.get(path)
            is_quiet = last is not None and last.events == count and os.path.realpath(path) not in is_open
            if is_quiet and last is not None and last.is_quiet and last.sign != sign:
                self._by_others.add(path)
            self._looks[path] = _Look(count, sign, is_quiet)


def _sign(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _open_files() -> set[str] | None:
    """Return the files that this process has open; ``None`` where the system does not say."""
    found: set[str] = set()
    try:
        for descriptor in Path(_OPEN_FILES).iterdir():
            with suppress(OSError):  # closed meanwhile
                found.add(str(descriptor.readlink()))
    except OSError:
        return None
    return found


def _note(event: str, args: tuple[Any, ...]) -> None:
    if not _going or event[:1] not in ("o", "s"):
        return
    try:
        for writes in _going:
            writes.note(event, args)
    except Exception:  # noqa: BLE001 - what a hook raises would end what the code does
        return
