"""The best rows in order: a tournament in which the model compares some rows at a time, and the best of them go on.

What this module promises: a row is only ever left behind by an answer that names as many rows of its prompt as were
asked for, each once. Rows whose prompt has no such answer are in ``missing`` and not in the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from indus_nb.base.errors import UsageError
from indus_nb.core.answers import AnswerKind, answer_kind
from indus_nb.fanout.packing import left_out, line, question_head, texts_of
from indus_nb.fanout.results import Estimate
from indus_nb.fanout.rounds import Rounds
from indus_nb.fanout.rows import Table
from indus_nb.fanout.tables import Chosen
from indus_nb.fanout.words import rows_of

K = 10
"""How many rows are wanted unless another number is asked for."""
_COMPARED = 20
"""Fewest rows in a prompt unless another number is asked for."""


class Ranking(Chosen):
    """The best rows, the best first, as dictionaries of their columns; ``frame`` has them as a data frame.

    Args:
        data: The source of the rows.
        table: All rows.
        numbers: The numbers of the best rows, in their order.
        missing: The numbers of the rows that were not compared to the end.
        rounds: The rounds that were asked.
        problems: Harmless problems, a sentence each.
    """

    def __init__(
        self,
        data: object,
        table: Table,
        numbers: Sequence[int],
        missing: Sequence[int],
        rounds: Rounds[Ranking],
        problems: Sequence[str],
    ) -> None:
        super().__init__(data, table, numbers)
        costs = rounds.costs
        self.missing: list[int] = sorted(missing)
        """Numbers of the rows that nobody can place: their prompt has no answer, or the last one was not asked."""
        self.cost: float = costs["cost"]
        """Cost of all rounds in US dollars, with what a journal says of earlier processes."""
        self.cost_before: float = costs["before"] or 0.0
        """The part of ``cost`` that earlier calls have paid, with the same journal or before a ``retry``."""
        self.cost_unconfirmed: float = costs["unconfirmed"]
        """Upper bound of the other cost of interrupted requests, in US dollars. It counts against ``max_cost``."""
        self.cost_unknown: bool = costs["unpriced"]
        """``True`` if the price of the model is unknown, so that ``cost`` says nothing."""
        self.estimate: Estimate | None = rounds.estimate
        """What the first round that is not in the journal will cost, if nothing but that was asked for."""
        self.problems: tuple[str, ...] = tuple(problems)
        """Harmless problems, a sentence each."""
        self._rounds = rounds
        self._asked = rounds.summary

    @property
    def summary(self) -> str:
        """Summarise the outcome in a line."""
        missing = f", {rows_of(len(self.missing))} missing" if self.missing else ""
        return f"the best {len(self):,} of {rows_of(len(self._table.rows))}{missing}: {self._asked}"

    def retry(self, **changes: Any) -> Ranking:
        """Ask for the prompts that have no answer once more, and for those that change by it.

        Args:
            **changes: ``parallel``, ``rpm``, ``tpm``, ``max_cost``, ``max_tokens``, ``cheap``, ``sure``, ``estimate``
                or ``progress`` in place of what they were.

        Returns:
            The best rows.

        Raises:
            IndusError: Nothing could be asked.
        """
        return self._rounds.retried(changes)


@dataclass(frozen=True, slots=True)
class Tournament:
    """What rows are compared by, how many at a time, and how many are wanted.

    Raises:
        UsageError: The question or what is shown of rows does not fit the data, or a number cannot be used.
    """

    question: str
    data: object
    table: Table
    k: int = K
    of: str | None = None
    compared: int | None = None
    template: str = field(init=False)
    """The prompt of rows in the first round."""

    def __post_init__(self) -> None:
        if type(self.k) is not int or self.k < 1:
            raise UsageError("k is a whole number, 1 or more.")
        if self.compared is not None and (type(self.compared) is not int or self.compared <= self.k):
            raise UsageError("compared is a whole number above k: of so many rows the best k go on.")
        object.__setattr__(self, "template", self._template(self.most))
        texts_of(self.of, Table(self.table.columns, ()))

    @property
    def most(self) -> int:
        """Return how many rows are compared at a time."""
        return self.compared or max(_COMPARED, 2 * self.k)

    def _template(self, rows: int) -> str:
        best = min(self.k, rows)
        wanted = "the number of the one that fits best" if best == 1 else f"the numbers of the {best} that fit best"
        order = "" if best == 1 else ", the best first, each number once"
        below = (
            f"Below are {rows} rows of data, one JSON object a line, with a number each. Answer with {wanted}{order}."
        )
        return question_head(self.question, below)

    async def steps(self, rounds: Rounds[Ranking]) -> Ranking:
        """Ask for the best of some rows at a time, until the last ones are compared with each other."""
        texts, errors = texts_of(self.of, self.table)
        left, missing, chosen_before = [*texts], set(errors), set[int]()
        while len(left) > self.most:
            count = len(left) // self.most
            # Dealt like cards, for data is often in an order, and all prompts of one size, for one type of answers.
            dealt, others = left[: count * self.most], left[count * self.most :]
            groups = [dealt[place::count] for place in range(count)]
            best = await self._best(rounds, groups, texts, errors)
            missing.update(row for group, chosen in zip(groups, best, strict=True) if not chosen for row in group)
            chosen_before = {row for chosen in best for row in chosen}
            left = [*(row for chosen in best for row in chosen), *others]
        if len(left) == 1 < len(texts) and not chosen_before.issuperset(left):
            missing.update(left)  # it was compared with none, for nothing came of the others
            left = []
        (order,) = await self._best(rounds, [left], texts, errors)
        missing.update([] if order else left)
        return Ranking(self.data, self.table, order, [*missing], rounds, [*rounds.problems, *left_out(errors)])

    async def _best(
        self, rounds: Rounds[Ranking], groups: Sequence[Sequence[int]], texts: Mapping[int, str], errors: dict[int, str]
    ) -> list[list[int]]:
        """Return the numbers of the best rows of each group, none for a group without an answer, and note errors."""
        size = len(groups[0])
        if size < 2:
            return [[*group] for group in groups]
        bodies = ["\n".join(line(row=place, text=texts[row]) for place, row in enumerate(group, 1)) for group in groups]
        answers = await rounds.ask(self._template(size), bodies, _kind(size, min(self.k, size)))
        for group, answer in zip(groups, answers, strict=True):
            if answer.error is not None:
                errors.update(dict.fromkeys(group, answer.error))
        return [
            [group[int(place) - 1] for place in answer.value] if answer.answered else []
            for group, answer in zip(groups, answers, strict=True)
        ]


def _kind(rows: int, best: int) -> AnswerKind:
    """Return the type of an order: so many different numbers of rows."""
    number = {"type": "integer", "minimum": 1, "maximum": rows}
    return answer_kind({"type": "array", "items": number, "minItems": best, "maxItems": best, "uniqueItems": True})
