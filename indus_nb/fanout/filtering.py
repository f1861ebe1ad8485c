"""Rows that a question with yes or no is answered with yes for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from indus_nb.fanout.results import Answers
from indus_nb.fanout.rows import Table
from indus_nb.fanout.running import completed
from indus_nb.fanout.tables import Chosen


class Kept(Chosen):
    """The rows that pass a filter, as dictionaries of their columns; ``frame`` has them as a data frame.

    Args:
        data: The source of the rows.
        table: All rows.
        answers: The answer of each, ``True`` or ``False``.
    """

    def __init__(self, data: object, table: Table, answers: Answers) -> None:
        super().__init__(data, table, [number for number, passes in enumerate(answers) if passes])
        self.answers: Answers = answers
        """The answers for all rows, with errors, costs and sessions."""

    @property
    def unknown(self) -> list[int]:
        """Return the numbers of the rows without an answer, which neither pass nor do not."""
        return self.answers.failed

    @property
    def cost(self) -> float:
        """Return the cost of all of it, as ``cost`` of the answers does."""
        return self.answers.cost

    @property
    def problems(self) -> Sequence[str]:
        """Return harmless problems, a sentence each."""
        return self.answers.problems

    @property
    def summary(self) -> str:
        """Summarise the outcome in a line: how many rows pass, how many are unknown, and how it went.

        Where rows failed it ends with the commonest reason.
        """
        unknown = f", {len(self.unknown):,} unknown" if self.unknown else ""
        return f"{len(self):,} pass{unknown}: {self.answers.summary}{self.answers.why_failed}"

    def retry(self, **changes: Any) -> Kept:
        """Ask for the rows that have no answer once more.

        Args:
            **changes: As for ``retry`` of the answers.

        Returns:
            The rows that pass, among all.

        Raises:
            IndusError: Nothing could be asked.
            RowsInterrupted: The user has interrupted it.
        """
        return completed(partial(type(self), self._data, self._table), partial(self.answers.retry, **changes))
