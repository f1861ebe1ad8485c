"""The rows that cells ask now, each with its notebook, for front ends that say what goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class AskedRows:
    """Who asks rows in cells: their reporters, which note it as long as it goes on."""

    def __init__(self, shell: Any, changed: Callable[[], None]) -> None:
        """Begin with none; ``changed`` is called when one begins or ends."""
        self._events = shell.events
        self._changed = changed
        self._going: dict[object, object] = {}
        self._events.register("post_run_cell", self._end_cell)

    def __contains__(self, notebook: object) -> bool:
        """Return whether a cell of a notebook asks rows."""
        return notebook in [*self._going.values()]

    def note(self, notebook: object, reporter: object) -> None:
        """Note that rows are asked."""
        if reporter not in self._going:
            self._going[reporter] = notebook
            self._changed()

    def forget(self, reporter: object) -> None:
        """Note that no more are."""
        if self._going.pop(reporter, None) is not None:
            self._changed()

    def close(self) -> None:
        """Hear of no more cells."""
        self._events.unregister("post_run_cell", self._end_cell)

    def _end_cell(self, _: object) -> None:
        """Forget what a cell has left open that has ended: a stream of which no rows are taken may never be closed."""
        for reporter in [*self._going]:
            self.forget(reporter)
