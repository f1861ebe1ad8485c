"""Which files code in this process changes, from Python's audit events.

Without that every file that changes while code runs would count as changed by it, another program's too. What a
library does below Python causes no event.
"""

from __future__ import annotations

import sys
from typing import Any

from indus_nb.kernel.preview.watching import paths_changed

_MAX_PATHS = 10_000


class Writes:
    """Paths that are opened for writing, moved, made or deleted in this process, from ``begin`` to ``end``."""

    def __init__(self) -> None:
        """Watch nothing yet: a hook for audit events stays until the process ends."""
        self._is_hooked = False
        self._paths: set[str] | None = None

    def begin(self) -> None:
        """Begin to watch, with no paths."""
        self._paths = set()
        if not self._is_hooked:
            self._is_hooked = True
            sys.addaudithook(self._note)

    def end(self) -> set[str]:
        """Return the full paths, and watch no more."""
        paths, self._paths = self._paths, None
        return paths or set()

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        paths = self._paths
        if paths is None or event[0] not in "os" or len(paths) >= _MAX_PATHS:
            return
        try:
            paths.update(paths_changed(event, args))
        except Exception:  # noqa: BLE001 - what a hook raises would end what the code does
            return
