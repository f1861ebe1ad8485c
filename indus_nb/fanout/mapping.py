"""A question asked to its end, from synchronous code or on an event loop, and again for rows without an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import strftime
from typing import Any

from indus_nb.fanout.reporting import Reporter, usual_reporter
from indus_nb.fanout.results import Answers, RowAnswer
from indus_nb.fanout.work import Question, Work
from indus_nb.files import current_directory
from indus_nb.resources.settings import agent_directory
from indus_nb.storage import session_directory
from indus_nb.wire import random_hex

_SLICE_SECONDS = 0.1
_AGAIN = frozenset({"parallel", "rpm", "max_cost", "max_tokens", "batch", "over"})


def new_directory() -> Path:
    """Return a directory of their own for the sessions of rows, so that they are not listed among the others."""
    usual = session_directory(current_directory(), agent_directory())
    return usual / "rows" / f"{strftime('%Y-%m-%dT%H-%M-%S')}-{random_hex(4)}"


class Map:
    """One question about certain data, which may be asked again for rows without an answer.

    Args:
        data: What the rows came from.
        asked: The question.
        known: What came of the rows before.
        spent: What that has cost, in US dollars.
    """

    def __init__(self, data: object, asked: Question, known: Sequence[RowAnswer] = (), spent: float = 0.0) -> None:
        self._data = data
        self._question = asked
        self._work = Work(asked, known, spent)

    @property
    def stopped(self) -> bool:
        """Whether it was stopped before all rows were asked."""
        return self._work.stopped

    def here(self, reporter: Reporter) -> Answers:
        """Ask from plain synchronous code, also where an event loop runs: in a thread with a loop of its own.

        An interruption stops it, another one cuts off the rows that are asked; see ``Work``.

        Args:
            reporter: Shows how far it is.

        Returns:
            The answers.

        Raises:
            IndusError: Nothing could be asked.
        """
        work = self._work
        rows: list[RowAnswer] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                rows.extend(asyncio.run(work.run()))
            except BaseException as error:  # noqa: BLE001 - raised again where it was called
                errors.append(error)
            ended.set()

        def stop() -> None:
            if work.stopped:
                work.cancel()
            work.stop()

        ended = threading.Event()  # for an interrupted Thread.join takes the thread for ended
        reporter.begin(stop)
        try:
            threading.Thread(target=run, name="indus_nb rows", daemon=True).start()
            while not ended.is_set():
                try:
                    ended.wait(_SLICE_SECONDS)
                    reporter.show(work.progress)
                except KeyboardInterrupt:
                    stop()
        finally:
            reporter.end(None if errors else work.progress)
        if errors:
            raise errors[0]
        return self._answers(rows)

    async def on_loop(self) -> Answers:
        """Ask on the loop that runs."""
        return self._answers(await self._work.run())

    def _answers(self, rows: Sequence[RowAnswer]) -> Answers:
        asked, work = self._question, self._work
        return Answers(
            self._data,
            asked.table,
            rows,
            asked.kind,
            cost=work.cost,
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
        return Map(self._data, replace(self._question, **changed), known.rows, known.cost)
