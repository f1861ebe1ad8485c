"""One answer for many rows: they are read in parts, and the answers of these are put together, as often as it takes.

What this module promises: each answer knows the rows that it was made of, and those that it was not. Where a part has
failed, the others of its group go on without it; where one was not asked, or answers could not be put together, the
group has no answer.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.core.answers import AnswerKind
from indus_nb.fanout.packing import left_out, line, packed, question_head, texts_of
from indus_nb.fanout.results import Answers, RowAnswer
from indus_nb.fanout.rounds import Rounds
from indus_nb.fanout.rows import Table, key_of_values
from indus_nb.fanout.tables import is_polars
from indus_nb.fanout.words import rows_of

CHARACTERS = 20_000
"""Longest rows of a prompt together, unless another number is asked for."""
_ROWS_BELOW = (
    "Below are rows of data, one JSON object a line. They may be a part of all: then the answers are put together."
)
_ANSWERS_BELOW = (
    "The rows were read in parts, and this was answered for each. Below are these answers, one JSON object a line, "
    "with the number of rows that each was made of. Give one answer for all of these rows together."
)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An answer for some rows of a group.

    Attributes:
        rows: The numbers of the rows that it was made of.
        answer: The answer, with its error, cost and session.
        parts: The answers that it was made of; empty if it was made of the rows themselves.
    """

    rows: tuple[int, ...]
    answer: RowAnswer
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """What became of a group of rows.

    Attributes:
        key: The values of the columns that the rows have in common.
        rows: The numbers of the rows that the answer was made of.
        missing: The numbers of the group's other rows.
        answer: The answer; without one with an error, or with none if it was not asked for.
        parts: The answers that it was made of, or that there are so far, also those that failed.
    """

    key: JsonObject
    rows: tuple[int, ...]
    missing: tuple[int, ...]
    answer: RowAnswer
    parts: tuple[Part, ...] = ()


class Notes(Answers):
    """The answers of ``agent.reduce``, one for each group in the order in which groups begin in the data.

    ``rows`` has their results, ``frame`` and ``records`` the columns of ``by``, how many rows each was made of, how
    many of its group are missing in it, and the answer.

    Args:
        data: The source of the rows.
        groups: What became of each group.
        rounds: The rounds that were asked.
        kind: The type of the answers; ``None`` for texts.
        problems: Harmless problems, a sentence each.
    """

    def __init__(
        self,
        data: object,
        groups: Sequence[Group],
        rounds: Rounds[Notes],
        kind: AnswerKind | None,
        problems: Sequence[str],
    ) -> None:
        table = _table(groups)
        super().__init__(
            sys.modules["polars"].DataFrame(list(table.rows)) if is_polars(data) else table.rows,
            table,
            [group.answer for group in groups],
            kind,
            **rounds.costs,
            estimate=rounds.estimate,
            problems=problems,
            again=lambda _, changes: rounds.retried(changes),
            again_async=lambda _, changes: rounds.again(changes).run(),
        )
        self.groups: tuple[Group, ...] = tuple(groups)
        """What became of each group: the rows that its answer was made of, those that are missing, and its parts."""
        self._asked = rounds.summary

    @property
    def missing(self) -> list[int]:
        """Return the numbers of all rows that are in no answer of a group."""
        return sorted(number for group in self.groups for number in group.missing)

    @property
    def summary(self) -> str:
        """Summarise the outcome in a line."""
        count = sum(len(group.rows) + len(group.missing) for group in self.groups)
        groups = f"{rows_of(count)} in {len(self):,} group{'' if len(self) == 1 else 's'}"
        parts = [groups, f"{len(self) - len(self.failed):,} answered"]
        parts += [f"{rows_of(len(self.missing))} missing"] if self.missing else []
        return ", ".join([*parts, self._asked])


def _table(groups: Sequence[Group]) -> Table:
    by = tuple(groups[0].key) if groups else ()
    made_of, missing = (
        next(name for times in count() if (name := word + times * "_of_group") not in by)
        for word in ("rows", "missing")
    )
    rows = tuple({**group.key, made_of: len(group.rows), missing: len(group.missing)} for group in groups)
    return Table((*by, made_of, missing), rows)


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is asked about the rows of each group.

    Raises:
        UsageError: The question or what is shown of rows does not fit the data, or a limit cannot be used.
    """

    question: str
    data: object
    table: Table
    of: str | None = None
    by: str | Sequence[str] = ()
    characters: int = CHARACTERS
    template: str = field(init=False)
    """The prompt about rows."""

    def __post_init__(self) -> None:
        if type(self.characters) is not int or self.characters < 1:
            raise UsageError("characters is a whole number above zero.")
        for name in self._by:
            if name not in self.table.columns:
                columns = ", ".join(self.table.columns) or "none"
                raise UsageError(f"The rows are grouped by {name!r}, which the data does not have. It has: {columns}.")
        object.__setattr__(self, "template", question_head(self.question, _ROWS_BELOW))
        texts_of(self.of, Table(self.table.columns, ()))

    @property
    def _by(self) -> tuple[str, ...]:
        return (self.by,) if isinstance(self.by, str) else tuple(self.by)

    async def steps(self, rounds: Rounds[Notes], kind: AnswerKind | None) -> Notes:
        """Ask about the rows, and then about the answers, until there is one for each group."""
        texts, errors = texts_of(self.of, self.table)
        lines = {number: line(text=text) for number, text in texts.items()}
        members: dict[bytes, list[int]] = {}
        for number, row in enumerate(self.table.rows):
            members.setdefault(key_of_values(*(row.get(name) for name in self._by)), []).append(number)
        groups = await self._read(rounds, kind, lines, [*members.values()])
        await self._put_together(rounds, kind, groups)
        outcomes = [self._outcome(*each, errors) for each in zip(members.values(), groups, strict=True)]
        for group in groups:
            errors |= {row: part.answer.error for part in group if part.answer.error for row in part.rows}
        return Notes(self.data, outcomes, rounds, kind, [*rounds.problems, *left_out(errors)])

    async def _read(
        self, rounds: Rounds[Notes], kind: AnswerKind | None, lines: Mapping[int, str], groups: Sequence[Sequence[int]]
    ) -> list[list[Part]]:
        """Ask about the rows of each group, in as many parts as they need."""
        packs: list[tuple[int, tuple[int, ...]]] = []
        for place, members in enumerate(groups):
            rows = [number for number in members if number in lines]
            sizes = [len(lines[number]) for number in rows]
            packs += [(place, tuple(rows[each] for each in pack)) for pack in packed(sizes, self.characters)]
        bodies = ["\n".join(lines[number] for number in rows) for _, rows in packs]
        answers = await rounds.ask(self.template, bodies, kind)
        parts: list[list[Part]] = [[] for _ in groups]
        for (place, rows), answer in zip(packs, answers, strict=True):
            parts[place].append(Part(rows, answer))
        return parts

    async def _put_together(self, rounds: Rounds[Notes], kind: AnswerKind | None, groups: list[list[Part]]) -> None:
        """Ask about the answers of each group, round after round, until it has one or nothing is asked any more."""
        template = question_head(self.question, _ANSWERS_BELOW)
        while packs := [(place, pack) for place, parts in enumerate(groups) for pack in self._packs(parts)]:
            bodies = ["\n".join(_line(part) for part in pack) for _, pack in packs]
            answers = await rounds.ask(template, bodies, kind)
            if not any(answer.answered or answer.error for answer in answers):
                return
            for (place, pack), answer in zip(packs, answers, strict=True):
                if answer.answered or answer.error:
                    made = Part(tuple(sorted(row for part in pack for row in part.rows)), answer, tuple(pack))
                    left = [part for part in groups[place] if part not in pack]
                    groups[place] = sorted([*left, made], key=lambda part: part.rows)

    def _packs(self, parts: Sequence[Part]) -> list[list[Part]]:
        """Return which answers of a group are put together next, two or more each time."""
        good = [part for part in parts if part.answer.answered]
        packs = packed([len(_line(part)) for part in good], self.characters, least=2)
        return [[good[each] for each in pack] for pack in packs if len(pack) > 1]

    def _outcome(self, members: Sequence[int], parts: Sequence[Part], errors: Mapping[int, str]) -> Group:
        key = {name: self.table.rows[members[0]].get(name) for name in self._by}
        good = [part for part in parts if part.answer.answered]
        cost, unconfirmed = (sum(map(amount, parts)) for amount in (_cost, _unconfirmed))
        was_asked = all(part.answer.answered or part.answer.error for part in parts)
        was_put_together = not any(part.parts and part.answer.error for part in parts)
        if len(good) == 1 and was_asked and was_put_together:
            rows, answer = good[0].rows, good[0].answer
            made_of = (*good[0].parts, *(part for part in parts if part is not good[0]))
        else:
            reasons = [part.answer.error for part in parts] or [errors.get(row) for row in members]
            error = next((reason for reason in reasons if reason), None)
            rows, answer, made_of = (), RowAnswer(error=error), tuple(parts)
        missing = tuple(sorted({*members} - {*rows}))
        return Group(key, rows, missing, replace(answer, cost=cost, unconfirmed=unconfirmed), made_of)


def _line(part: Part) -> str:
    return line(rows=len(part.rows), answer=part.answer.plain)


def _cost(part: Part) -> float:
    return part.answer.cost + sum(map(_cost, part.parts))


def _unconfirmed(part: Part) -> float:
    return part.answer.unconfirmed + sum(map(_unconfirmed, part.parts))
