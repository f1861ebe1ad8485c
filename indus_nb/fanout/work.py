"""Concurrent requests for many rows: the rows that are left, the workers that ask for them, and their progress.

What this module promises: the answers come in the order of the rows. A row whose answer is in the journal is not asked;
one that was answered is in the journal before it counts as done, several that end together with one wait for the disk.
After ``stop`` no row begins and those that were asked end; after ``cancel`` these are cut off too.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.terminal import plain
from indus_nb.core.answers import AnswerKind, InvalidValueError, answer_kind
from indus_nb.core.limits.budget import Budget, spending
from indus_nb.core.limits.limiter import Limiter
from indus_nb.core.limits.words import cost_in_words
from indus_nb.fanout.asking import SYSTEM_PROMPT, Asked
from indus_nb.fanout.engines import Engine, Functions
from indus_nb.fanout.journal import Done, Journal
from indus_nb.fanout.results import RowAnswer
from indus_nb.fanout.rows import Table
from indus_nb.fanout.template import Template
from indus_nb.fanout.words import duration, rows_of
from indus_nb.start import SessionOptions

if TYPE_CHECKING:
    from indus_nb.core.session.session import AgentSession
    from indus_nb.fanout.batches import Batches

PARALLEL = 8
"""Rows that are asked at once unless another number is asked for."""
MAX_PARALLEL = 1000
_MAX_FAILURE_CHARACTERS = 80
_CUT_OFF = "It was cut off before its answer had come."
MAX_TOKENS = 4096
"""Longest answer of a row unless another is asked for, so that little money is reserved for each request."""

MAX_TURNS = 50
"""Most answers of the model for a row unless another number is asked for: no user watches it."""


class RowOptions(TypedDict, total=False):
    """Options of all rows together; ``agent.map`` explains them."""

    parallel: int
    rpm: float | None
    max_cost: float | None
    max_tokens: int | None
    journal: Path | str | None
    batch: bool
    over: Executor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuestion:
    """A question about each row, and its limits; see ``agent.map``.

    Raises:
        UsageError: A limit cannot be used, or two of them not together.
    """

    template: Template
    table: Table
    kind: AnswerKind | None
    session: SessionOptions
    directory: Path
    parallel: int = PARALLEL
    rpm: float | None = None
    max_cost: float | None = None
    max_tokens: int | None = MAX_TOKENS
    journal: Path | str | None = None
    definable: bool = False
    batch: bool = False
    over: Executor | None = None
    functions: Functions = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if isinstance(self.parallel, bool) or not 1 <= self.parallel <= MAX_PARALLEL:
            raise UsageError(f"parallel is a whole number from 1 to {MAX_PARALLEL}.")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError("max_tokens is a whole number above zero, or None for the model's own limit.")
        Limiter(self.parallel, self.rpm)
        Budget(self.max_cost)
        if self.batch and self.session.tools:
            raise UsageError(
                "Rows of a batch have no tools, for each of their turns would wait for one: leave out tools or batch."
            )
        if self.batch and self.rpm is not None:
            raise UsageError("Within a batch Anthropic chooses the rate: leave out rpm or batch.")


def question(
    template: str,
    table: Table,
    *,
    session: SessionOptions,
    directory: Path,
    result: object = None,
    functions: Functions | None = None,
    **options: Unpack[RowOptions],
) -> RowQuestion:
    """Check what is asked before anything is.

    Args:
        template: The prompt, with ``{column}`` for values of the row.
        session: The options of each session; without tools it also has no instructions of the project.
        directory: The directory of their sessions' files.
        result: The type of the answers; see ``answer_kind``. ``None`` for texts.
        functions: The functions that ``over`` may run.

    Raises:
        UsageError: The prompt does not fit the data, or a limit or a type cannot be used.
    """
    parsed = Template(template)
    parsed.check(table.columns)
    if not template.strip():
        raise UsageError("The prompt is empty.")
    return RowQuestion(
        template=parsed,
        table=table,
        kind=None if result is None else answer_kind(result),
        session=session if session.tools else _bare(session),
        directory=directory,
        definable=bool(session.tools),
        functions=functions or {},
        **options,
    )


def _bare(options: SessionOptions) -> SessionOptions:
    """Return options of rows without tools, which read nothing but their prompt."""
    return replace(
        options,
        tools=(),
        system_prompt=options.system_prompt or SYSTEM_PROMPT,
        use_extensions=False,
        use_skills=False,
        use_prompt_templates=False,
        use_context_files=False,
    )


@dataclass(slots=True)
class Progress:
    """Progress of the rows; read from any thread."""

    total: int
    done: int = 0
    failed: int = 0
    kept: int = 0
    """Rows that were answered before, and are not asked."""
    cost: float = 0.0
    unconfirmed: float = 0.0
    """Upper bound of what interrupted requests may have cost besides."""
    unpriced: bool = False
    """``True`` if the price of requests is unknown."""
    started: float = field(default_factory=time.monotonic)
    paused_until: float = 0.0
    waiting: str = ""
    """Description of what is waited for, if requests wait in batches."""
    stopping: bool = False
    ended: bool = False
    failure: str = ""
    """Reason why a request has failed, until one succeeds: rows that wait for another attempt show nothing else."""

    @property
    def per_minute(self) -> float:
        """Return how many rows end in a minute."""
        return (self.done - self.kept) / max(time.monotonic() - self.started, 1e-3) * 60

    @property
    def seconds_left(self) -> float | None:
        """Return the time that the other rows will take at this rate; ``None`` as long as no row has ended."""
        rate = self.per_minute
        return (self.total - self.done) / rate * 60 if rate > 0 else None

    @property
    def spent(self) -> str:
        """Describe how many rows have failed, if any, and what all of it has cost."""
        cost = cost_in_words(self.cost, self.unconfirmed, unpriced=self.unpriced)
        return ", ".join([*([f"{self.failed:,} failed"] if self.failed else []), cost])

    @property
    def state(self) -> str:
        """Describe what is waited for, if it is not rows alone; empty else."""
        if self.stopping:
            return "stopped" if self.ended else "stopping: rows that were asked come to their end"
        if self.done >= self.total:
            return ""
        if self.waiting:
            return self.waiting
        wait = self.paused_until - time.monotonic()
        parts = [f"the server asked to wait {duration(wait)}"] if wait > 1 else []
        return ", ".join([*parts, *([f"asking again after: {self.failure}"] if self.failure else [])])

    def __str__(self) -> str:
        parts = [f"{self.done:,} of {self.total:,} rows", self.spent, f"{self.per_minute:,.0f} rows/min"]
        goes_on = self.done < self.total and not self.stopping and not self.waiting
        if goes_on and (left := self.seconds_left) is not None:
            parts.append(f"{duration(left)} left")
        return ", ".join([*parts, *filter(None, [self.state])])


class Work:
    """One run of a question; all but ``stop``, ``cancel`` and ``progress`` belongs to its event loop.

    Args:
        known: The earlier results of the rows; those with an answer are not asked.
        spent: Their cost, in US dollars, if no journal says it.
        unconfirmed: The most that they may have cost besides.
    """

    def __init__(
        self, question: RowQuestion, known: Sequence[RowAnswer] = (), spent: float = 0.0, unconfirmed: float = 0.0
    ) -> None:
        self.budget = Budget(question.max_cost, (spending(),))
        """The budget of all of it, within that of the code that asks."""
        self._question = question
        self._known = known
        self._spent = spent, unconfirmed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = self._cancelled = False
        self._batches: Batches | None = None
        self._parallel = question.parallel
        self.progress = Progress(len(question.table.rows))
        self.on_checked: Callable[[AgentSession], None] = lambda _: None
        """Called with the session that the rows work for, before the first is asked; on the loop."""
        self.problems: list[str] = []
        self._unwritten: dict[str, Done] = {}
        self._journal_problem: str | None = None
        self.cost, self.unconfirmed = spent, unconfirmed

    async def run(self) -> list[RowAnswer]:
        """Ask for all rows.

        Returns:
            The results, in the order of the rows.

        Raises:
            IndusError: Nothing could be asked: no model, no key, or the journal cannot be used.
        """
        self._loop = asyncio.get_running_loop()
        question = self._question
        budget = self.budget
        if question.batch:
            from indus_nb.fanout.batches import MAX_ROWS, Batches

            self._parallel, self._batches = MAX_ROWS, Batches(lambda: budget.waiting)
        limiter = Limiter(self._parallel, question.rpm)
        asked = Asked(
            question.session,
            question.directory,
            question.kind,
            limiter,
            budget,
            question.max_tokens,
            question.definable,
            self._note_failure,
            engine=None if question.over is None else Engine(question.over, question.functions, self._engine_lost),
            batches=self._batches,
        )
        try:
            self.problems += asked.check()
            if asked.leading is not None:
                self.on_checked(asked.leading)
            if asked.engine is not None:
                await asked.engine.check(lambda: self._stopping)
            return await self._run(asked)
        finally:
            self.progress.ended = True
            asked.close()

    async def _run(self, asked: Asked) -> list[RowAnswer]:
        question, limiter, budget = self._question, asked.limiter, asked.budget
        journal = None if question.journal is None else Journal(question.journal)
        try:
            if self._batches is not None and journal is not None:
                self._batches.restore(journal)
            kept = (0.0, 0.0) if journal is None else (journal.cost, journal.unconfirmed)
            budget.charge(*max(self._spent, kept, key=sum))
            self._note_cost(budget)
            rows, keys = self._rows(asked, journal)
            waiting = (number for number, row in enumerate(rows) if not row.answered and row.error is None)
            writer = _Writer(journal)

            async def work() -> None:
                with nullcontext() if self._batches is None else self._batches.worker():
                    for number in waiting:
                        if self._batches is not None:
                            await self._batches.turn()
                        if self._stopping:
                            return
                        rows[number] = await self._row(asked, writer, keys[number])
                        self._count(rows[number], limiter, budget)

            count = min(self._parallel, sum(not row.answered for row in rows))
            self._workers = [asyncio.create_task(work()) for _ in range(count)]
            try:
                await self._ended(asked)
            finally:
                await writer.close()
                await self._write_rest(writer)
                self.problems += [] if journal is None else journal.problems
                if self._batches is not None:
                    await self._batches.close(cancel=self._cancelled)
                    self.problems += self._batches.problems
            self._note_cost(budget)
        finally:
            if journal is not None:
                journal.close()
        return rows

    async def _write_rest(self, writer: _Writer) -> None:
        """Retry writing the outcomes that could not be written, and report those that are lost."""
        if self._journal_problem is None:
            return
        sentence = f"The journal cannot be written ({self._journal_problem}), so the other rows are not asked."
        try:
            for key, done in self._unwritten.items():
                await writer.add(key, done)
        except OSError:
            sentence += (
                f" {rows_of(len(self._unwritten))} with an answer are in no file, and would be asked and paid again: "
                "save them from what this call returns."
            )
        self.problems.append(sentence)

    def stop(self) -> None:
        """Start no more rows, and let those that were asked end; from any thread."""
        self._stopping = self.progress.stopping = True

    def cancel(self) -> None:
        """Abort the rows that are asked, too; from any thread."""
        self.stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cut_off)

    @property
    def stopped(self) -> bool:
        """Return whether ``stop`` was called."""
        return self._stopping

    def _engine_lost(self, sentence: str) -> None:
        # Every further row would pay for a request whose tools cannot be called.
        self.problems.append(sentence)
        self.stop()

    def _cut_off(self) -> None:
        self._cancelled = True
        for worker in self._workers:
            worker.cancel()

    async def _ended(self, asked: Asked) -> None:
        """Wait for the workers; after a stop not for rows that wait for an attempt."""
        ended = asyncio.gather(*self._workers)  # one to wait for: there may be thousands
        ended.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio logs it
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=0.2)
                if self._batches is not None:
                    self.progress.waiting = self._batches.status
                    if self._stopping:
                        self._batches.stop()
                if self._stopping:
                    for session, has_begun in tuple(asked.open_sessions.items()):
                        if has_begun:
                            await session.abort_retry()
                        else:
                            session.turns.request_abort()
            error = None if ended.cancelled() else ended.exception()
            if error is not None and not isinstance(error, asyncio.CancelledError):
                raise error
        finally:
            for worker in self._workers:
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)

    def _rows(self, asked: Asked, journal: Journal | None) -> tuple[list[RowAnswer], list[tuple[str, str]]]:
        """Return what is known of each row, and its prompt and key."""
        seen: Counter[str] = Counter()
        rows: list[RowAnswer] = []
        keys: list[tuple[str, str]] = []
        for number, row in enumerate(self._question.table.rows):
            try:
                prompt = self._question.template.fill(row)
            except UsageError as error:
                rows.append(RowAnswer(error=str(error)))
                keys.append(("", ""))
                continue
            key = asked.key(prompt, seen[prompt])
            seen[prompt] += 1
            known = self._known[number] if self._known else RowAnswer()
            stored = None if known.answered or journal is None else journal.get(key)
            if stored is not None and stored.is_good:
                known = self._answer(stored)
            rows.append(known if known.answered else RowAnswer())
            keys.append((prompt, key))
        self.progress.kept = sum(row.answered for row in rows)
        self.progress.failed = sum(row.error is not None for row in rows)
        self.progress.done = self.progress.kept + self.progress.failed
        return rows, keys

    def _answer(self, stored: Done) -> RowAnswer:
        kind = self._question.kind
        try:
            value = stored.value if kind is None else kind.read(stored.value)
        except InvalidValueError:
            return RowAnswer()  # the type takes it no more, so the row is asked again
        return RowAnswer(
            value, None, stored.cost, stored.session, stored.value, answered=True, unconfirmed=stored.unconfirmed
        )

    async def _row(self, asked: Asked, writer: _Writer, prompt_and_key: tuple[str, str]) -> RowAnswer:
        prompt, key = prompt_and_key
        if (sentence := asked.budget.refusal(asked.least)) is not None:
            return RowAnswer(error=sentence)
        paid = Budget(None, (asked.budget,))
        try:
            value, done = await asked.ask(prompt, key, paid)
        except asyncio.CancelledError:
            # What batches have cost is known once they are collected.
            if (paid.spent or paid.unconfirmed) and self._batches is None:
                writer.put(key, Done(None, _CUT_OFF, paid.spent, unconfirmed=paid.unconfirmed))
            raise
        if self._batches is not None and done.error is not None and self._batches.is_left(key):
            return RowAnswer(error=None if self._stopping else done.error)
        if self._stopping and done.error is not None and done.cost == 0:
            return RowAnswer()  # it was only waiting for another attempt
        try:
            await writer.add(key, done)
        except OSError as error:
            # What is paid for is kept in memory, and nothing more is paid for that would be lost with the process.
            self._unwritten[key] = done
            self._journal_problem = error.strerror or str(error)
            self.stop()
        return RowAnswer(
            value, done.error, done.cost, done.session, done.value, answered=done.is_good, unconfirmed=done.unconfirmed
        )

    def _note_cost(self, budget: Budget) -> None:
        self.cost = self.progress.cost = budget.spent
        self.unconfirmed = self.progress.unconfirmed = budget.unconfirmed
        self.progress.unpriced = budget.unpriced

    def _note_failure(self, why: str) -> None:
        self.progress.failure = textcut.one_line(plain(why), _MAX_FAILURE_CHARACTERS)

    def _count(self, row: RowAnswer, limiter: Limiter, budget: Budget) -> None:
        progress = self.progress
        progress.done += row.answered or row.error is not None
        progress.failed += row.error is not None
        self._note_cost(budget)
        progress.failure = ""
        progress.paused_until = time.monotonic() + limiter.paused_for if math.isfinite(limiter.paused_for) else 0.0


class _Writer:
    """Writer of a journal in a thread; rows that have ended meanwhile are added together."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self._waiting: list[tuple[str, Done, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, key: str, done: Done) -> None:
        """Write down the outcome of a row; it is on the disk when this returns."""
        if (written := self.put(key, done)) is not None:
            await asyncio.shield(written)

    def put(self, key: str, done: Done) -> asyncio.Future[None] | None:
        """Queue the outcome of a row for writing; ``close`` waits for it."""
        if self._journal is None:
            return None
        written = asyncio.get_running_loop().create_future()
        written.add_done_callback(lambda done: done.exception())  # else asyncio logs it
        self._waiting.append((key, done, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(self._journal.add_all))
        return written

    async def close(self) -> None:
        """Wait until all is written."""
        if self._writing is not None:
            await self._writing

    async def _write(self, add_all: Callable[[Sequence[tuple[str, Done]]], None]) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(add_all, [(key, done) for key, done, _ in together])
            except Exception as error:  # noqa: BLE001 - the waiting callers get it
                for _, _, written in together:
                    if not written.done():
                        written.set_exception(error)
            else:
                for _, _, written in together:
                    if not written.done():
                        written.set_result(None)
