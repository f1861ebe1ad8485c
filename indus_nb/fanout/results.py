"""Results of many rows: values in the order of the rows, and frames and records made of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self, TypeAlias, cast, overload

from indus_nb.base.errors import UsageError
from indus_nb.base.textcut import one_line
from indus_nb.base.wire import JsonObject
from indus_nb.core.answers import AnswerKind
from indus_nb.core.limits.words import cost_in_words
from indus_nb.fanout.agreement import Agreement, agreement
from indus_nb.fanout.partitions import Partitions
from indus_nb.fanout.rows import Table, plain_value
from indus_nb.fanout.tables import cell, html_table, is_polars, pandas, pandas_frame
from indus_nb.fanout.words import as_html, part_shown, rows_of, sentence_as_html

ANSWER = "answer"
"""The column of answers that have no fields."""
_FIRST_ROWS = 5
_MOST_ROWS = 20
_MOST_COLUMNS = 8
_MOST_REASONS = 3
_MAX_REASON_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """Result of one row.

    Attributes:
        value: The answer; ``None`` without one.
        error: Why there is none; ``None`` if there is one, or if the row was not asked.
        cost: Its cost, in US dollars, in this process or an earlier one.
        session: The file of its session, which can be opened, exported and continued.
        plain: The answer as JSON values.
        answered: Whether there is an answer.
        unconfirmed: The most that interrupted requests of it may have cost besides, in US dollars.
        tries: What the cheap model answered before, in the order of asking; ``cost`` includes them.
        by_cheap: Whether the answer is the cheap model's.
        goes_on: Whether the cheap model was not sure, so that the other one is asked.
    """

    value: Any = None
    error: str | None = None
    cost: float = 0.0
    session: str | None = None
    plain: Any = None
    answered: bool = False
    unconfirmed: float = 0.0
    tries: tuple[RowAnswer, ...] = ()
    by_cheap: bool = False
    goes_on: bool = False

    def after(self, tries: Sequence[RowAnswer], *, goes_on: bool = False) -> RowAnswer:
        """Add answers of the cheap model, with their cost.

        Args:
            tries: The answers, in the order of asking.
            goes_on: Whether they were not taken.

        Returns:
            The same result, behind them.
        """
        cost = self.cost + sum(each.cost for each in tries)
        unconfirmed = self.unconfirmed + sum(each.unconfirmed for each in tries)
        return replace(self, cost=cost, unconfirmed=unconfirmed, tries=tuple(tries), goes_on=goes_on)

    def without_tries(self) -> RowAnswer:
        """Return the same result, of which nothing is known of a cheap model."""
        return replace(self, tries=(), goes_on=False)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What rows will cost that are not asked yet, as far as it is known before.

    Attributes:
        rows: How many are to be asked: without those in the journal, and each prompt once.
        tokens: How many tokens are read for them, one for four bytes, without the turns of tools and repairs.
        least: US dollars for reading these where the server keeps what they share; ``None`` if the price is unknown.
        most: The same where it keeps nothing, with answers that are all as long as ``max_tokens`` allows.
        images: How many images are among what is read, each a token for 750 pixels.
    """

    rows: int
    tokens: int
    least: float | None
    most: float | None
    images: int = 0

    def __str__(self) -> str:
        known = self.least is not None and self.most is not None
        price = f"${self.least:.2f} and answers, ${self.most:.2f} with the longest ones" if known else "cost unknown"
        images = "" if not self.images else f" with {self.images:,} image{'s' * (self.images > 1)}"
        return f"{rows_of(self.rows)}{images} to ask, about {self.tokens:,} tokens to read, {price}"


@dataclass(frozen=True, slots=True)
class CascadeReport:
    """What became of rows that a cheap model was asked about first.

    Attributes:
        cheap: The name of the cheap model.
        usual: The name of the other one.
        rows: How many rows the cheap model was asked about, each prompt once.
        taken: How many of them have its answer.
        failed: How many it failed at.
        went_on: How many have the answer of the other one.
        both: How many of these the cheap model had answered as well.
        agreed: How many of these have the same answer by both.
        cheap_cost: What the cheap model has cost, in US dollars.
        usual_cost: What the other one has cost for these rows.
        unpriced: Whether the price of one of them is unknown, so that the costs say nothing.
    """

    cheap: str
    usual: str
    rows: int
    taken: int
    failed: int
    went_on: int
    both: int
    agreed: int
    cheap_cost: float
    usual_cost: float
    unpriced: bool = False

    def __str__(self) -> str:
        def beside(cost: float, *more: str) -> str:
            said = ", ".join([*([] if self.unpriced else [f"${cost:.4f}"]), *more])
            return f" ({said})" if said else ""

        failed = [f"failed at {self.failed:,}"] if self.failed else []
        same = [f"the same answer for {self.agreed:,} of {self.both:,}"] if self.both else []
        return (
            f"{self.taken:,} of {self.rows:,} by {self.cheap}{beside(self.cheap_cost, *failed)}, "
            f"{self.went_on:,} by {self.usual}{beside(self.usual_cost, *same)}"
        )


Again: TypeAlias = Callable[["Answers", dict[str, Any]], "Answers"]
AgainAsync: TypeAlias = Callable[["Answers", dict[str, Any]], Awaitable["Answers"]]


class Answers(Sequence[Any]):
    """The answers of ``agent.map``, one for each row in the order of the data; ``None`` where there is none.

    Args:
        data: The source of the rows.
        table: The rows.
        rows: The results, in the same order.
        kind: The type of the answers; ``None`` for texts.
        cost: The cost of all of it, in US dollars.
        unconfirmed: The most that interrupted requests may have cost besides.
        unpriced: Whether the price of requests is unknown.
        before: The part of the cost that earlier calls have paid; ``None`` if there were none.
        kept: How many rows were answered by them.
        estimate: What they will cost, where nothing else was asked for.
        cost_left: What the rows without an answer will cost if they are as the others; ``None`` if that is unknown.
        cascade: What became of rows that a cheap model was asked about first; ``None`` without one.
        notes: What else its summary says.
        named: The columns that the prompt names, which are shown before others.
        problems: Harmless problems, a sentence each.
        again: Asks for the rows that have no answer.
        again_async: The same for programs with an event loop.
    """

    def __init__(  # noqa: PLR0913 - each is a thing that it is made of
        self,
        data: object,
        table: Table,
        rows: Sequence[RowAnswer],
        kind: AnswerKind | None,
        *,
        cost: float,
        unconfirmed: float = 0.0,
        unpriced: bool = False,
        before: float | None = None,
        kept: int = 0,
        estimate: Estimate | None = None,
        cost_left: float | None = None,
        cascade: CascadeReport | None = None,
        notes: Sequence[str] = (),
        named: Sequence[str] = (),
        problems: Sequence[str],
        again: Again,
        again_async: AgainAsync,
    ) -> None:
        self._data = data
        self._table = table
        self._kind = kind
        self._again = again
        self._again_async = again_async
        self.rows: tuple[RowAnswer, ...] = tuple(rows)
        """The result of each row, with error, cost and session."""
        self.cost: float = cost
        """Cost of all of it in US dollars, with what a journal says of earlier processes.

        Of requests that broke off it is what they had read and what had arrived of their answers.
        """
        self.cost_before: float = before or 0.0
        """The part of ``cost`` that earlier calls have paid, with the same journal or before a ``retry``."""
        self._has_before = before is not None
        self._kept = kept
        self._notes = tuple(notes)
        self._named = frozenset(named)
        self.estimate: Estimate | None = estimate
        """What the rows to ask will cost, if nothing but that was asked for; ``None`` else."""
        self.cost_left: float | None = cost_left
        """Estimate of what the rows without an answer would cost, in US dollars, by the mean of those with one.

        ``None`` if none or one was asked, or the price of the model is unknown.
        """
        self.cascade: CascadeReport | None = cascade
        """What became of the rows that a cheap model was asked about first; ``None`` without one.

        How many it answered, how many went on to the other model, how often the two agreed, and what each has cost.
        """
        self.cost_unconfirmed: float = unconfirmed
        """Upper bound of the other cost of interrupted requests, in US dollars. It counts against ``max_cost``."""
        self.cost_unknown: bool = unpriced
        """``True`` if the price of the model is unknown, so that ``cost`` says nothing."""
        self.problems: tuple[str, ...] = tuple(problems)
        """Harmless problems, a sentence each."""

    def __await__(self) -> Generator[None, None, Self]:
        """Return these answers: they are paid for, also where ``map`` was awaited, which has waited already."""
        yield from ()
        return self

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int, /) -> Any: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[Any]: ...
    def __getitem__(self, index: int | slice, /) -> Any:
        return [row.value for row in self.rows[index]] if isinstance(index, slice) else self.rows[index].value

    def __iter__(self) -> Iterator[Any]:
        return (row.value for row in self.rows)

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    def _code(self, what: str) -> str:
        """Return as HTML how the user gets at a part of this: by the variable that holds it, if one does."""
        ipython = sys.modules.get("IPython")
        shell: Any = None if ipython is None else ipython.get_ipython()
        space: dict[str, object] = {} if shell is None else dict(shell.user_ns)
        named = (name for name, value in space.items() if value is self and not name.startswith("_"))
        name = next(named, None)
        return f"<code>{what}</code> of this result" if name is None else f"<code>{as_html(name)}.{what}</code>"

    def _repr_html_(self) -> str:
        """Return a summary as HTML for notebooks: rows that failed, some with answers, and why others failed."""
        if self.estimate is not None:
            return f"<p>{sentence_as_html(self.summary)}</p><p>{self._code('retry()')} asks for these rows.</p>"
        added = self._added(sessions=False, errors=any(row.error is not None for row in self.rows))
        columns = self._table.columns
        first = sorted(columns, key=lambda name: name not in self._named)[:_MOST_COLUMNS]
        names = [*(name for name in columns if name in first), *added]
        numbers = self._shown()
        values = [{**self._table.rows[number], **{name: added[name][number] for name in added}} for number in numbers]
        shown = [[self._table.label(n), *map(row.get, names)] for n, row in zip(numbers, values, strict=True)]
        reasons, others = self._reasons()
        failures = "".join(f"<li>{rows_of(times)}: {cell(reason)}</li>" for reason, times in reasons)
        if others:
            failures += f"<li>{rows_of(others)}: other reasons, in <code>error</code> of {self._code('frame')}</li>"
        again = f"<p>{self._code('retry()')} asks for the rows without an answer.</p>" if self.failed else ""
        part = part_shown(len(shown), len(self), len(first), len(columns))
        more = f"<p>{part}; {self._code('frame')} has all.</p>" if part else ""
        table = html_table(names, shown, self._data)
        summary = sentence_as_html(self.summary)
        return f"<p>{summary}</p>{table}{more}" + (f"<ul>{failures}</ul>" if failures else "") + again

    def _reasons(self) -> tuple[list[tuple[str, int]], int]:
        """Return the commonest reasons why rows failed, with their numbers, and the number of rows with others."""
        counted = Counter(row.error for row in self.rows if row.error is not None)
        reasons = counted.most_common(_MOST_REASONS)
        return reasons, counted.total() - sum(times for _, times in reasons)

    @property
    def failures(self) -> list[tuple[str, str]]:
        """Return how many rows failed, and why, for the commonest reasons and for all others together."""
        reasons, others = self._reasons()
        listed = [(rows_of(times), one_line(reason, _MAX_REASON_CHARACTERS)) for reason, times in reasons]
        return [*listed, *([(rows_of(others), "other reasons, in error of frame")] if others else [])]

    @property
    def why_failed(self) -> str:
        """Return the commonest reason why rows failed, as it stands behind ``summary``; empty if none did."""
        for times, reason in self.failures[:1]:
            return f"; {times} failed: {reason.rstrip('.')}"
        return ""

    def _shown(self) -> list[int]:
        """Return the numbers of the rows to show: some that failed, some with an answer, or the first ones."""
        failed = islice((number for number, row in enumerate(self.rows) if row.error is not None), _FIRST_ROWS)
        answered = islice((number for number, row in enumerate(self.rows) if row.answered), _MOST_ROWS)
        some = [*failed, *answered][:_MOST_ROWS]
        return some or [*range(min(_FIRST_ROWS, len(self.rows)))]

    @property
    def summary(self) -> str:
        """Summarise the outcome in a line."""
        errors = sum(row.error is not None for row in self.rows)
        missing = len(self.failed) - errors
        parts = [f"{rows_of(len(self.rows))}", f"{len(self.rows) - len(self.failed):,} answered"]
        parts += [f"{self._kept:,} of them before"] if self._kept else []
        parts += [f"{errors:,} failed"] if errors else []
        parts += [f"{missing:,} not asked"] if missing else []
        before = self.cost_before if self._has_before else None
        cost = cost_in_words(self.cost, self.cost_unconfirmed, unpriced=self.cost_unknown, before=before)
        parts.append(cost)
        parts += [str(self.cascade)] if self.cascade is not None and self.cascade.rows else []
        if self.estimate is not None:
            parts.append(str(self.estimate))
        if self.failed and self.cost_left:
            parts.append(f"about ${self.cost_left:.4f} for the others")
        return ", ".join([*parts, *self._notes])

    @property
    def failed(self) -> list[int]:
        """Return the numbers of the rows without an answer, from 0, also of those that were not asked."""
        return [number for number, row in enumerate(self.rows) if not row.answered]

    def retry(self, **changes: Any) -> Answers:
        """Ask for the rows that have no answer once more; what there is stays, and is not paid again.

        Args:
            **changes: ``parallel``, ``rpm``, ``tpm``, ``max_cost``, ``max_tokens``, ``batch``, ``over``, ``dedupe``,
                ``cheap``, ``sure``, ``sample``, ``estimate`` or ``progress`` in place of what they were.

        Returns:
            The answers of all rows.

        Raises:
            IndusError: Nothing could be asked, as for ``agent.map``.
        """
        return self._again(self, changes)

    async def retry_async(self, **changes: Any) -> Answers:
        """Run ``retry`` on the event loop of the caller."""
        return await self._again_async(self, changes)

    def agree(self, with_: str | Sequence[Any], field: str | None = None) -> Agreement:
        """Compare the answers with labels that you have.

        Args:
            with_: The column of the data that has the labels, or one label for each row; rows without one do not count.
            field: The field of the answers that is compared; ``None`` for the whole answer.

        Returns:
            How many agree, Cohen's kappa, how often each label met each answer, and which rows differ.

        Raises:
            UsageError: The data has no such column, the answers no such field, or there are more or fewer labels.
        """
        if isinstance(with_, str):
            if with_ not in self._table.columns:
                raise UsageError(
                    f"The data has no column {with_!r}. It has: {', '.join(self._table.columns)}. A column that a "
                    f"frame has got since is given itself: with_=frame[{with_!r}]."
                )
            labels: list[Any] = [row.get(with_) for row in self._table.rows]
        else:
            labels = [plain_value(label) for label in with_]
        if len(labels) != len(self.rows):
            raise UsageError(f"There are {len(labels):,} labels for {rows_of(len(self.rows))}. Give one for each.")
        answers: list[Any] = [row.plain if row.answered else None for row in self.rows]
        if field is not None:
            if not all(answer is None or (isinstance(answer, dict) and field in answer) for answer in answers):
                raise UsageError(f"Not every answer has a field {field!r}.")
            answers = [None if answer is None else answer[field] for answer in answers]
        found = agreement(answers, labels)
        return replace(found, named=tuple(map(self._table.label, found.differing)))

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns that ``records`` has besides those of the data."""
        return list(self._added())

    @property
    def records(self) -> list[JsonObject]:
        """Return the rows as dictionaries: their columns, those of the answers, ``error`` and ``session``.

        A column whose name is taken by the data has ``answer_`` before it. Of a frame of Dask there are only the
        columns that the prompt names.
        """
        added = self._added()
        return [
            {**row, **{name: values[number] for name, values in added.items()}}
            for number, row in enumerate(self._table.rows)
        ]

    @property
    def frame(self) -> Any:
        """Return the rows as a data frame, with the added columns of ``records`` but for ``session``.

        It is one of polars or of Dask if the data was one, and of pandas otherwise; the rows of a data frame of pandas
        keep their index and types. In one of Dask the columns are added to each partition where it lives.

        Raises:
            IndusError: There is no pandas here; ``records`` needs none.
        """
        data: Any = self._data
        if is_polars(data):
            polars = sys.modules["polars"]
            added = self._added(sessions=False).items()
            return data.with_columns([polars.Series(name, values, strict=False) for name, values in added])
        pd = pandas()
        if isinstance(data, Partitions):
            added = {
                name: pd.Series(values, dtype=_pandas_type(values))
                for name, values in self._added(sessions=False).items()
            }
            return data.with_columns(added)
        frame = pandas_frame(data, self._table)
        for name, values in self._added(sessions=False).items():
            frame[name] = pd.Series(values, index=frame.index, dtype=_pandas_type(values))
        return frame

    def _added(self, *, sessions: bool = True, errors: bool = True) -> dict[str, list[Any]]:
        taken = set(self._table.columns)
        columns: dict[str, list[Any]] = {}

        def add(name: str, values: list[Any]) -> None:
            free = (each for each in (name, f"{ANSWER}_{name}", *(f"{name}_{n}" for n in range(2, 10_000))))
            columns[next(each for each in free if each not in taken)] = values
            taken.update(columns)

        plains: list[Any] = [row.plain if row.answered else None for row in self.rows]
        given: list[Any] = [plain for plain, row in zip(plains, self.rows, strict=True) if row.answered]
        if given and all(isinstance(plain, dict) for plain in given):
            for name in dict.fromkeys(str(name) for plain in given for name in plain):
                add(name, [None if plain is None else plain.get(name) for plain in plains])
        else:
            add(ANSWER, plains)
        if errors:
            add("error", [row.error for row in self.rows])
        if sessions:
            add("session", [row.session for row in self.rows])
        return columns


def _pandas_type(values: Sequence[object]) -> Any:
    """Return the type of a column of pandas; ``None`` for its default, which makes inexact numbers of integers."""
    there = [value for value in values if value is not None]
    if not there:
        return object
    if len(there) == len(values):
        return None
    if all(isinstance(value, bool) for value in there):
        return "boolean"
    if all(isinstance(value, int) and not isinstance(value, bool) for value in there):
        return "Int64" if all(-(2**63) <= value < 2**63 for value in cast("list[int]", there)) else object
    return None
