"""A question asked to its end, from synchronous code or on an event loop, and again for rows without an answer."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import strftime
from typing import Any

from indus_nb.base.files import current_directory
from indus_nb.base.wire import random_hex
from indus_nb.core.resources.settings import agent_directory
from indus_nb.core.storage import session_directory
from indus_nb.fanout.question import RowQuestion
from indus_nb.fanout.reporting import Contained, Reporter, usual_reporter
from indus_nb.fanout.results import Answers, RowAnswer
from indus_nb.fanout.work import Work

_SLICE_SECONDS = 0.1
_AGAIN = frozenset(
    {
        "parallel",
        "rpm",
        "tpm",
        "max_cost",
        "max_tokens",
        "batch",
        "over",
        "dedupe",
        "cheap",
        "sure",
        "sample",
        "estimate",
    }
)


def new_directory() -> Path:
    """Return a new directory for the sessions of rows, so that they are not listed among the others."""
    usual = session_directory(current_directory(), agent_directory())
    return usual / "rows" / f"{strftime('%Y-%m-%dT%H-%M-%S')}-{random_hex(4)}"


@contextmanager
def _interrupts(handle: Callable[[], None]) -> Generator[None]:
    """Have Ctrl-C call ``handle`` where ``KeyboardInterrupt`` could lose what is paid for."""
    usual = threading.current_thread() is threading.main_thread()
    if not usual or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupted(_number: int, _frame: object) -> None:
        handle()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Map:
    """One question about certain data, which may be asked again for rows without an answer.

    Args:
        known: The earlier results of the rows.
        spent: Their cost, in US dollars.
        unconfirmed: The most that they may have cost besides.
    """

    def __init__(
        self,
        data: object,
        asked: RowQuestion,
        known: Sequence[RowAnswer] = (),
        spent: float = 0.0,
        unconfirmed: float = 0.0,
    ) -> None:
        self._data = data
        self._question = asked
        self.work: Work = Work(asked, known, spent, unconfirmed)
        """The work on the rows."""
        self._interrupted = False

    def here(self, reporter: Reporter) -> Answers:
        """Ask from plain synchronous code, also where an event loop runs: in a thread with a loop of its own.

        An interruption stops it, another one cuts off the rows that are asked; see ``Work``.

        Raises:
            IndusError: Nothing could be asked.
        """
        work = self.work
        shown = Contained(reporter)
        rows: list[RowAnswer] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                rows.extend(asyncio.run(work.run()))
            except BaseException as error:  # noqa: BLE001 - raised again where it was called
                errors.append(error)
            ended.set()

        ended = threading.Event()  # for an interrupted Thread.join takes the thread for ended
        with _interrupts(self.interrupt):
            shown.begin(self.interrupt)
            threading.Thread(target=run, name="indus_nb rows", daemon=True).start()
            try:
                while not ended.is_set():
                    try:
                        ended.wait(_SLICE_SECONDS)
                        shown.show(work.progress)
                    except KeyboardInterrupt:
                        self.interrupt()
            except BaseException:
                work.cancel()  # no caller would get the answers, or could stop it
                shown.end(work.progress)
                raise
            shown.end(None if errors else work.progress)
            if errors:
                raise errors[0]
            return self._answers(rows)

    def interrupt(self) -> None:
        """Let no more rows begin; called again, cut off the rows that are asked. From any thread, or a signal."""
        if self._interrupted:
            self.work.cancel()
        self._interrupted = True
        self.work.stop()

    async def on_loop(self) -> Answers:
        """Ask on the loop that runs."""
        return self._answers(await self.work.run())

    def _answers(self, rows: Sequence[RowAnswer]) -> Answers:
        asked, work = self._question, self.work
        return Answers(
            self._data,
            asked.table,
            rows,
            asked.kind,
            cost=work.cost,
            unconfirmed=work.unconfirmed,
            unpriced=work.budget.unpriced,
            before=work.progress.cost_before,
            kept=work.progress.kept,
            estimate=work.estimate,
            cost_left=work.progress.cost_left,
            cascade=work.cascade,
            problems=work.problems,
            again=lambda known, changes: self._again(known, changes).here(
                usual_reporter() if changes.get("progress", True) else Reporter()
            ),
            again_async=lambda known, changes: self._again(known, changes).on_loop(),
        )

    def _again(self, known: Answers, changes: dict[str, Any]) -> Map:
        changed = {name: value for name, value in changes.items() if name != "progress"}
        if unknown := sorted(changed.keys() - _AGAIN):
            taken = ", ".join(sorted(_AGAIN))
            raise TypeError(f"retry() takes {taken} and progress, not {unknown[0]!r}")
        changed = {"sample": None, "estimate": False} | changed
        before, asked = self._question, replace(self._question, **changed)
        rows = known.rows if asked.has_same_tries(before) else [row.without_tries() for row in known.rows]
        return Map(self._data, asked, rows, known.cost, known.cost_unconfirmed)
