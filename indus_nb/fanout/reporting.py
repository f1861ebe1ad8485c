"""Progress of the rows, shown where the caller looks: a bar on a terminal, a display in a notebook, or nothing."""

from __future__ import annotations

import html
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TextIO

from indus_nb.base import front_end
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.words import sentence_as_html

_PLAIN_SECONDS = 10.0
_log = logging.getLogger("indus_nb")


class Reporter:
    """Base of progress displays, called on the thread that waits; by itself it shows nothing."""

    def begin(self, stop: Callable[[], None]) -> None:
        """Start the display, before any row is asked.

        Args:
            stop: Lets no more rows begin; called again it cuts off those that are asked. May be called on any thread.
        """

    def show(self, progress: Progress) -> None:
        """Show progress; called a few times a second."""

    def end(self, progress: Progress | None) -> None:
        """Show how it ended; ``None`` if nothing could be asked."""


class Contained(Reporter):
    """Reporter that forwards to another one, and shows nothing more once that fails: rows are paid for meanwhile."""

    def __init__(self, inner: Reporter) -> None:
        self._inner = inner

    def begin(self, stop: Callable[[], None]) -> None:
        """Start the display of the other."""
        self._call(lambda inner: inner.begin(stop))

    def show(self, progress: Progress) -> None:
        """Have the other show progress."""
        self._call(lambda inner: inner.show(progress))

    def end(self, progress: Progress | None) -> None:
        """Have the other show how it ended."""
        self._call(lambda inner: inner.end(progress))

    def _call(self, work: Callable[[Reporter], None]) -> None:
        try:
            work(self._inner)
        except Exception:  # noqa: BLE001 - of a front end, whatever it is
            _log.exception("How far rows are cannot be shown any more; they go on.")
            failed, self._inner = self._inner, Reporter()
            with suppress(Exception):
                failed.end(None)


class Lines(Reporter):
    """Reporter that writes a line now and then, for output that is no terminal."""

    def __init__(self, out: TextIO, seconds: float = _PLAIN_SECONDS) -> None:
        self._out = out
        self._seconds = seconds
        self._last = time.monotonic()

    def show(self, progress: Progress) -> None:
        """Write a line if it is time."""
        if time.monotonic() - self._last >= self._seconds:
            self._last = time.monotonic()
            self._write(progress)

    def end(self, progress: Progress | None) -> None:
        """Write the last line."""
        if progress is not None:
            self._write(progress)

    def _write(self, progress: Progress) -> None:
        with suppress(OSError, ValueError):  # it was closed: the rows go on all the same
            self._out.write(f"{progress}\n")
            self._out.flush()


class Bar(Lines):
    """Reporter with a bar of tqdm on a terminal, within its width, and a line at the end."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._bar: Any = None

    def show(self, progress: Progress) -> None:
        """Draw the bar as it is now."""
        with suppress(Exception):  # variables of the environment are tqdm's options too, and the last line is to come
            if self._bar is None:
                self._bar = _bar(self._out, progress)
            self._bar.n, self._bar.total = progress.done, progress.total  # the next round has another one
            self._bar.set_postfix_str(", ".join(filter(None, [progress.spent, progress.state])))

    def end(self, progress: Progress | None) -> None:
        """Put the last line in the place of the bar."""
        if self._bar is not None:
            with suppress(Exception):
                self._bar.close()
        super().end(progress)


def _bar(out: TextIO, progress: Progress) -> Any:
    from tqdm import tqdm

    class Quiet(tqdm):  # pyright: ignore[reportMissingTypeArgument, reportUntypedBaseClass]
        monitor_interval = 0  # no thread that looks after it: it is drawn a few times a second

    # tqdm's own lock is one for several processes, which newer Pythons start a process for.
    Quiet.set_lock(threading.RLock())  # pyright: ignore[reportUnknownMemberType]
    return Quiet(
        total=progress.total,
        initial=progress.kept,
        file=out,
        unit="row",
        unit_scale=False,
        dynamic_ncols=True,
        position=None,
        bar_format=None,
        mininterval=0.1,
        write_bytes=False,
        gui=False,
        smoothing=0,  # the mean, as everywhere else
        leave=False,
    )


class Displayed(Reporter):
    """Reporter with a display of a notebook that is updated; the saved notebook has its last state."""

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
    """Return a MIME bundle: a bar with a caption beside it, and the same as text."""
    total, done = max(1, progress.total or 1), progress.done if progress.total else 1
    text = str(progress)
    label = html.escape(text.replace("`", ""))
    place = "" if progress.total is None and not progress.ended else f' max="{total}" value="{done}"'
    bar = f'<progress{place} aria-label="{label}"></progress> <span>{sentence_as_html(text)}</span>'
    return {"text/plain": text, "text/html": bar}


def usual_reporter(options: Mapping[str, Any]) -> Reporter:
    """Return the reporter for where this process runs: a notebook, a terminal, or neither.

    Args:
        options: Those of the call; with ``progress=False`` no progress is shown where rows are asked.
    """
    shows = bool(options.get("progress", True))
    made = None
    if front_end.reporter is not None:
        try:
            made = front_end.reporter(shows)
        except Exception:  # noqa: BLE001 - whatever it is, rows are asked without
            _log.exception("How far rows are cannot be shown in the cell; they go on.")
    if made is not None:
        return made
    if not shows:
        return Reporter()
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and getattr(shell, "kernel", None) is not None:
        from IPython.display import display  # pyright: ignore[reportUnknownVariableType]

        return Displayed(display)  # pyright: ignore[reportUnknownArgumentType]
    return Bar(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else Reporter()


def console_reporter(out: TextIO) -> Reporter:
    """Return the reporter for ``out``: a bar on a terminal, else a line now and then."""
    return Bar(out) if out.isatty() else Lines(out)
