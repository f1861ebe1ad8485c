"""What was read of directories, kept until they change.

What this module promises: what is kept is of the same directory, unchanged. A program can set back when its contents
changed (``mtime``), and not when the directory itself did (``ctime``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_SETTLED_SECONDS = 2.0
"""A directory that changed later than so long ago may change again without another time of change."""
_MAX_DIRECTORIES = 40_000

T = TypeVar("T")


class Listings(Generic[T]):
    """Readings of directories.

    Args:
        read: Reads one directory; may raise ``OSError``.
    """

    def __init__(self, read: Callable[[str], T]) -> None:
        self._read = read
        self._known: dict[str, tuple[tuple[int, int, int], T]] = {}

    def look(self, directory: str) -> T:
        """Return what a directory was read as, or read it.

        Raises:
            OSError: It cannot be looked at.
        """
        state = os.lstat(directory)
        changed = state.st_dev, state.st_ino, state.st_ctime_ns
        known = self._known.get(directory)
        if known is not None and known[0] == changed:
            return known[1]
        found = self._read(directory)
        if len(self._known) > _MAX_DIRECTORIES:
            self._known.clear()
        if time.time() - state.st_ctime > _SETTLED_SECONDS:
            self._known[directory] = changed, found
        return found
