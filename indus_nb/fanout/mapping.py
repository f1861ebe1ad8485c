"""A question asked to its end, from synchronous code or on an event loop, and again for rows without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import strftime
from typing import Any

from indus_nb.base.files import current_directory
from indus_nb.base.wire import random_hex
from indus_nb.core.resources.settings import agent_directory, load_settings
from indus_nb.core.storage import session_directory
from indus_nb.fanout.question import RowQuestion
from indus_nb.fanout.reporting import Reporter, usual_reporter
from indus_nb.fanout.results import Answers, RowAnswer
from indus_nb.fanout.running import Caller
from indus_nb.fanout.work import Work
from indus_nb.start import SessionOptions
from indus_nb.start.stores import chosen_directory


def new_directory() -> Path:
    """Return a new directory for the sessions of rows, so that they are not listed among the others."""
    cwd, agent_dir = current_directory(), agent_directory()
    chosen = chosen_directory(SessionOptions(), load_settings(cwd, agent_dir).settings)
    usual = chosen or session_directory(cwd, agent_dir)
    return usual / "rows" / f"{strftime('%Y-%m-%dT%H-%M-%S')}-{random_hex(4)}"


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
        self._caller = Caller(self.work, self.run)

    def here(self, reporter: Reporter) -> Answers:
        """Ask from plain synchronous code; see ``Caller``.

        Raises:
            IndusError: Nothing could be asked.
            RowsInterrupted: The user has interrupted it.
        """
        return self._caller.here(reporter)

    def interrupt(self) -> None:
        """Let no more rows begin; called again, cut off the rows that are asked. From any thread, or a signal."""
        self._caller.interrupt()

    async def run(self) -> Answers:
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
            notes=work.notes,
            named=asked.template.columns,
            problems=work.problems,
            again=lambda known, changes: self._again(known, changes).here(usual_reporter(changes)),
            again_async=lambda known, changes: self._again(known, changes).run(),
        )

    def _again(self, known: Answers, changes: dict[str, Any]) -> Map:
        before = self._question
        asked = before.for_retry(changes)
        rows = known.rows if asked.has_same_tries(before) else [row.without_tries() for row in known.rows]
        return Map(self._data, asked, rows, known.cost, known.cost_unconfirmed)
