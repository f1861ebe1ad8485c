"""How far rows are, shown where the caller looks: a line on a terminal, a display in a notebook, or nothing."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from indus_nb.extensions.definitions import agent
from indus_nb.fanout.work import Progress

_PLAIN_SECONDS = 10.0
_BAR = 20


class Reporter:
    """Shows progress on the thread that waits; by itself it shows nothing."""

    def begin(self, stop: Callable[[], None]) -> None:
        """Begin, before any row is asked.

        Args:
            stop: Lets no more rows begin; called again it cuts off those that are asked. May be called on any thread.
        """

    def show(self, progress: Progress) -> None:
        """Show how far it is; called a few times a second."""

    def end(self, progress: Progress | None) -> None:
        """Show how it ended; ``None`` if nothing could be asked."""


class Lines(Reporter):
    """A line that is written over on a terminal, and elsewhere a line now and then.

    Args:
        out: Where to write.
        seconds: How often, where it is no terminal.
    """

    def __init__(self, out: TextIO, seconds: float = _PLAIN_SECONDS) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._seconds = seconds
        self._last = time.monotonic()
        self._width = 0

    def show(self, progress: Progress) -> None:
        """Write the line if it is time."""
        if self._terminal:
            share = progress.done / progress.total if progress.total else 1.0
            filled = int(share * _BAR)
            self._write(f"[{'#' * filled}{'.' * (_BAR - filled)}] {progress}", "\r")
        elif time.monotonic() - self._last >= self._seconds:
            self._write(str(progress), "\n")

    def end(self, progress: Progress | None) -> None:
        """Write the last line."""
        if progress is not None:
            self._write(str(progress), "\n")

    def _write(self, text: str, end: str) -> None:
        self._last = time.monotonic()
        width, self._width = self._width, len(text) if end == "\r" else 0
        with suppress(OSError, ValueError):  # it was closed: the rows go on all the same
            self._out.write(text.ljust(width) + end)
            self._out.flush()


class Displayed(Reporter):
    """A display of a notebook that is updated; the saved notebook has its last state.

    Args:
        display: ``IPython.display.display``.
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._shown = ""

    def show(self, progress: Progress) -> None:
        """Update the display."""
        bundle = bundle_of(progress)
        if bundle["text/plain"] == self._shown:
            return
        self._shown = bundle["text/plain"]
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def end(self, progress: Progress | None) -> None:
        """Update the display for the last time."""
        if progress is not None:
            self.show(progress)


def bundle_of(progress: Progress) -> dict[str, str]:
    """Return what notebooks display: a bar with what it means beside it, and the same as text."""
    total, done = max(1, progress.total), progress.done if progress.total else 1
    label = html.escape(str(progress))
    bar = f'<progress max="{total}" value="{done}" aria-label="{label}"></progress> <span>{label}</span>'
    return {"text/plain": str(progress), "text/html": bar}


def usual_reporter() -> Reporter:
    """Return what fits where this process runs: a notebook, a terminal, or neither."""
    made = agent.front_end() if agent.front_end is not None else None
    if made is not None:
        return made
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and getattr(shell, "kernel", None) is not None:
        from IPython.display import display  # pyright: ignore[reportUnknownVariableType]

        return Displayed(display)  # pyright: ignore[reportUnknownArgumentType]
    return Lines(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else Reporter()
