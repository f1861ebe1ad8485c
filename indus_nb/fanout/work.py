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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.terminal import plain
from indus_nb.base.wire import dump
from indus_nb.core.answers import AnswerKind, InvalidValueError, answer_kind
from indus_nb.core.limits.budget import Budget, spending
from indus_nb.core.limits.limiter import Limiter
from indus_nb.core.limits.paying import answer_cost
from indus_nb.core.limits.words import cost_in_words
from indus_nb.fanout.asking import SYSTEM_PROMPT, Asked
from indus_nb.fanout.engines import Engine, Functions
from indus_nb.fanout.journal import Done, Journal, stored_model
from indus_nb.fanout.results import Estimate, RowAnswer
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

_KEPT_CHARACTERS = 4096
"""Shortest start of all prompts that is marked to be kept: servers keep 1,024 tokens or more."""
_WARMING_SECONDS = 30
"""Longest wait for the first answer to begin."""
_BYTES_A_TOKEN = 4
MAX_TURNS = 50
"""Most answers of the model for a row unless another number is asked for: no user watches it."""


class RowOptions(TypedDict, total=False):
    """Options of all rows together; ``agent.map`` explains them."""

    parallel: int
    rpm: float | None
    tpm: float | None
    max_cost: float | None
    max_tokens: int | None
    journal: Path | str | None
    batch: bool
    over: Executor | None
    dedupe: bool
    sample: int | None
    estimate: bool


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
    tpm: float | None = None
    max_cost: float | None = None
    max_tokens: int | None = MAX_TOKENS
    journal: Path | str | None = None
    definable: bool = False
    batch: bool = False
    over: Executor | None = None
    dedupe: bool = True
    sample: int | None = None
    estimate: bool = False
    functions: Functions = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if isinstance(self.parallel, bool) or not 1 <= self.parallel <= MAX_PARALLEL:
            raise UsageError(f"parallel is a whole number from 1 to {MAX_PARALLEL}.")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError("max_tokens is a whole number above zero, or None for the model's own limit.")
        if self.sample is not None and (isinstance(self.sample, bool) or self.sample < 1):
            raise UsageError("sample is a whole number of rows, 1 or more.")
        Limiter(self.parallel, self.rpm, self.tpm)
        Budget(self.max_cost)
        if self.batch and self.session.tools:
            raise UsageError(
                "Rows of a batch have no tools, for each of their turns would wait for one: leave out tools or batch."
            )
        if self.batch and (self.rpm or self.tpm) is not None:
            raise UsageError("Within a batch Anthropic chooses the rate: leave out rpm and tpm, or batch.")

    @property
    def shared_characters(self) -> int:
        """Return how many characters all prompts begin with; 0 if these are too few to be kept by a server."""
        shared = len(self.template.shared)
        return shared if shared >= _KEPT_CHARACTERS else 0

    @property
    def asks_once(self) -> bool:
        """Return whether rows with the same prompt have one answer: not where all are the same, or tools may differ."""
        return self.dedupe and not self.session.tools and bool(self.template.columns)


def question(
    template: str,
    table: Table,
    *,
    session: SessionOptions,
    directory: Path,
    result: object = None,
    functions: Functions | None = None,
    usual_model: Callable[[], tuple[str, str] | None] | None = None,
    **options: Unpack[RowOptions],
) -> RowQuestion:
    """Check what is asked before anything is.

    Args:
        template: The prompt, with ``{column}`` for values of the row.
        session: The options of each session; without tools it also has no instructions of the project.
        directory: The directory of their sessions' files.
        result: The type of the answers; see ``answer_kind``. ``None`` for texts.
        functions: The functions that ``over`` may run.
        usual_model: Returns provider and id of the model to ask where neither the session's options nor the journal
            name one; ``None`` for that of the settings.

    Raises:
        UsageError: The prompt does not fit the data, or a limit or a type cannot be used.
    """
    parsed = Template(template)
    parsed.check(table.columns)
    if not template.strip():
        raise UsageError("The prompt is empty.")
    session = _with_model(session, options.get("journal"), usual_model)
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


def _with_model(
    session: SessionOptions,
    journal: Path | str | None,
    usual_model: Callable[[], tuple[str, str] | None] | None,
) -> SessionOptions:
    """Return the options with the model to ask if they name none: what a journal holds is another model's else."""
    if session.model is not None or session.provider is not None:
        return session
    stored = None if journal is None else stored_model(journal)
    chosen = usual_model() if stored is None and usual_model is not None else None
    provider, model = chosen or (None, None)
    if stored is not None:
        provider, _, model = stored.partition("/")
    return replace(session, provider=provider, model=model)


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
    cost_before: float | None = None
    """The part of ``cost`` that earlier calls have paid; ``None`` if there were none."""
    unconfirmed: float = 0.0
    """Upper bound of what interrupted requests may have cost besides."""
    to_ask: int = 0
    """Rows that are left, but for those that will share the answer of another one."""
    row_cost: float | None = None
    """Mean cost of a row, without the first, after which the others are read from a cache; ``None`` as yet."""
    unpriced: bool = False
    """``True`` if the price of requests is unknown."""
    started: float = field(default_factory=time.monotonic)
    paused_until: float = 0.0
    waiting: str = ""
    """Description of what is waited for, if requests wait in batches."""
    stopping: bool = False
    ended: bool = False
    model: str = ""
    """The name of the model that is asked."""
    note: str = ""
    """Description of what the user should know before the rest is paid for."""
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
    def cost_left(self) -> float | None:
        """Return what the rows that are left will cost if they are as those before; ``None`` as long as none was."""
        return None if self.row_cost is None or self.unpriced else self.row_cost * self.to_ask

    @property
    def spent(self) -> str:
        """Describe how many rows have failed, if any, and what all of it has cost."""
        cost = cost_in_words(self.cost, self.unconfirmed, unpriced=self.unpriced, before=self.cost_before)
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
        parts = [f"{self.done:,} of {self.total:,} rows"]
        parts += [f"{self.kept:,} of them answered before"] if self.kept else []
        parts += [self.spent, *([f"{self.per_minute:,.0f} rows/min"] if self.kept < self.total else [])]
        goes_on = self.done < self.total and not self.stopping and not self.waiting
        if goes_on and (left := self.seconds_left) is not None:
            parts.append(f"{duration(left)} left")
        if goes_on and (rest := self.cost_left):
            parts.append(f"about ${self.cost + rest:.2f} in all")
        return ", ".join([*parts, *filter(None, [self.model, self.note, self.state])])


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
        self.budget: Budget = Budget(question.max_cost, (spending(),))
        """The budget of all of it, within that of the code that asks."""
        self._question = question
        self._known = known
        self._spent = spent, unconfirmed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = self._cancelled = False
        self._batches: Batches | None = None
        self._parallel = question.parallel
        self.progress: Progress = Progress(len(question.table.rows))
        self.on_checked: Callable[[AgentSession], None] = lambda _: None
        """Called with the session that the rows work for, before the first is asked; on the loop."""
        self.problems: list[str] = []
        self._unwritten: dict[str, Done] = {}
        self._journal_problem: str | None = None
        self.estimate: Estimate | None = None
        """What the rows to ask will cost, if nothing but that was asked for."""
        self._warm = asyncio.Event()
        """Set once what all prompts begin with is kept by the server, or is not waited for."""
        self._measured: int | None = None
        self._measured_cost = 0.0
        self.cost: float = spent
        self.unconfirmed: float = unconfirmed

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
        limiter = Limiter(self._parallel, question.rpm, question.tpm, learns=not question.batch)
        asked = Asked(
            question.session,
            question.directory,
            question.kind,
            limiter,
            budget,
            question.max_tokens,
            question.definable,
            self._note_failure,
            self._warm.set,
            engine=None if question.over is None else Engine(question.over, question.functions, self._engine_lost),
            batches=self._batches,
            shared_characters=question.shared_characters,
        )
        try:
            self.problems += asked.check()
            if asked.shared is not None:
                self.progress.model = asked.shared.model.name
            if asked.leading is not None:
                self.on_checked(asked.leading)
            if asked.engine is not None:
                await asked.engine.check(lambda: self._stopping)
            return await self._run(asked)
        finally:
            self.progress.ended = True
            asked.close()

    async def _run(self, asked: Asked) -> list[RowAnswer]:
        question, budget = self._question, asked.budget
        model = None if asked.shared is None else f"{asked.shared.model.provider}/{asked.shared.model.id}"
        journal = None if question.journal is None else Journal(question.journal, model)
        try:
            if self._batches is not None and journal is not None:
                self._batches.restore(journal)
            kept = (0.0, 0.0) if journal is None else (journal.cost, journal.unconfirmed)
            before = max(self._spent, kept, key=sum)
            budget.charge(*before)
            if self._known or (journal is not None and len(journal)):
                self.progress.cost_before = before[0]
            self._note_cost(budget)
            rows = self._rows(asked, journal)
            left = rows.left()
            if journal is not None:
                self._compare(journal, rows)
            self.progress.to_ask = len(left)
            if question.estimate:
                self.estimate = self._estimate(asked, [rows.prompts[number][0] for number in left])
                left = []
            if question.sample is not None and question.sample < len(left):
                left = [left[place * len(left) // question.sample] for place in range(question.sample)]
                self.progress.total = self.progress.done + sum(1 + len(rows.copies.get(row, ())) for row in left)
            writer = _Writer(journal)
            if self._batches is not None or not question.shared_characters:
                self._warm.set()
            waiting = iter(left)
            self._workers = [
                asyncio.create_task(self._work(asked, writer, rows, waiting, warms=number == 0))
                for number in range(min(self._parallel, len(left)))
            ]
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
        return rows.answers

    async def _work(
        self,
        asked: Asked,
        writer: _Writer,
        rows: _Rows,
        waiting: Iterator[int],
        *,
        warms: bool,
    ) -> None:
        """Ask for one row after another; all but the one that ``warms`` begin once a first answer begins."""
        if not warms:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._warm.wait(), _WARMING_SECONDS)
        try:
            with nullcontext() if self._batches is None else self._batches.worker():
                for number in waiting:
                    if self._batches is not None:
                        await self._batches.turn()
                    if self._stopping:
                        return
                    answer = await self._row(asked, writer, *rows.prompts[number])
                    self._warm.set()
                    self._note_row(answer)
                    rows.answers[number] = answer
                    for copy in rows.copies.get(number, ()):
                        rows.answers[copy] = self._copied(answer)
                        self._count(rows.answers[copy], asked.limiter, asked.budget)
                    self._count(answer, asked.limiter, asked.budget)
        finally:
            self._warm.set()

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

    def _rows(self, asked: Asked, journal: Journal | None) -> _Rows:
        """Return what is known of each row."""
        seen: Counter[str] = Counter()
        alike: dict[str, list[int]] = {}
        rows = _Rows()
        for number, row in enumerate(self._question.table.rows):
            try:
                prompt = self._question.template.fill(row)
            except UsageError as error:
                rows.answers.append(RowAnswer(error=str(error)))
                rows.prompts.append(("", 0))
                continue
            same = seen[prompt]
            seen[prompt] += 1
            known = self._known[number] if self._known else RowAnswer()
            if journal is not None:
                stored = journal.get(asked.key(prompt, same))
                rows.stored += stored is not None
                if not known.answered and stored is not None and stored.is_good:
                    known = self._answer(stored)
            rows.answers.append(known if known.answered else RowAnswer())
            rows.prompts.append((prompt, same))
            if self._question.asks_once:
                alike.setdefault(prompt, []).append(number)
        for numbers in alike.values():
            original = next((number for number in numbers if rows.answers[number].answered), numbers[0])
            open_ = [number for number in numbers if number != original and not rows.answers[number].answered]
            if rows.answers[original].answered:
                for number in open_:
                    rows.answers[number] = self._copied(rows.answers[original])
            elif open_:
                rows.copies[original] = open_
        self.progress.kept = sum(row.answered for row in rows.answers)
        self.progress.failed = sum(row.error is not None for row in rows.answers)
        self.progress.done = self.progress.kept + self.progress.failed
        return rows

    def _estimate(self, asked: Asked, prompts: Sequence[str]) -> Estimate:
        if asked.leading is None or asked.shared is None:
            raise RuntimeError("check() comes first")
        model, shared = asked.shared.model, self._question.shared_characters
        schema = 0 if asked.kind is None else len(dump(asked.kind.schema))
        fixed = len(asked.leading.system_prompt) + schema
        read = sum(len(prompt.encode()) for prompt in prompts) + len(prompts) * fixed
        kept = max(0, len(prompts) - 1) * (shared + fixed) if shared else 0  # the first one writes it
        longest = min(model.max_tokens, asked.max_tokens or model.max_tokens)
        least = most = None
        if model.cost.known:
            least = model.cost.usage(input=_tokens(read - kept), cache_read=_tokens(kept), output=0).cost.total
            most = model.cost.usage(input=_tokens(read), output=0).cost.total + len(prompts) * answer_cost(
                model, longest
            )
        return Estimate(len(prompts), _tokens(read), least, most)

    def _compare(self, journal: Journal, rows: _Rows) -> None:
        """Tell the user if all of a journal is about something else, before it is asked and paid anew."""
        if not len(journal) or rows.stored:
            return
        self.progress.note = f"none of the {rows_of(len(journal))} in the journal is one of these"
        self.problems.append(
            f"The journal {journal.path} had {rows_of(len(journal))}, none of which is one of these: they have other "
            "data, or were asked with another prompt, model, thinking, system prompt, type, other tools or max_tokens."
        )

    def _answer(self, stored: Done) -> RowAnswer:
        kind = self._question.kind
        try:
            value = stored.value if kind is None else kind.read(stored.value)
        except InvalidValueError:
            return RowAnswer()  # the type takes it no more, so the row is asked again
        return RowAnswer(
            value, None, stored.cost, stored.session, stored.value, answered=True, unconfirmed=stored.unconfirmed
        )

    @staticmethod
    def _copied(answer: RowAnswer) -> RowAnswer:
        """Return an answer for another row with the same prompt: without its cost, and with a value of its own."""
        value, plain = answer.value, answer.plain
        with suppress(Exception):  # of a type of the user's that cannot be copied
            value, plain = deepcopy((value, plain))
        return replace(answer, value=value, plain=plain, cost=0.0, unconfirmed=0.0)

    async def _row(self, asked: Asked, writer: _Writer, prompt: str, same: int) -> RowAnswer:
        key = asked.key(prompt, same)
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
        if self._stopping and done.error is not None and not (done.cost or done.unconfirmed):
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

    def _note_row(self, answer: RowAnswer) -> None:
        self.progress.to_ask -= answer.answered
        if self._measured is None:
            self._measured = 0  # the first row, which also pays for what the others read from a cache
        elif answer.answered:
            self._measured += 1
            self._measured_cost += answer.cost
            self.progress.row_cost = self._measured_cost / self._measured

    def _note_failure(self, why: str) -> None:
        self.progress.failure = textcut.one_line(plain(why), _MAX_FAILURE_CHARACTERS)

    def _count(self, row: RowAnswer, limiter: Limiter, budget: Budget) -> None:
        progress = self.progress
        progress.done += row.answered or row.error is not None
        progress.failed += row.error is not None
        self._note_cost(budget)
        progress.failure = ""
        progress.paused_until = time.monotonic() + limiter.paused_for if math.isfinite(limiter.paused_for) else 0.0


def _tokens(size: int) -> int:
    return -(-size // _BYTES_A_TOKEN)


@dataclass(slots=True)
class _Rows:
    """What is known of the rows.

    Attributes:
        answers: The result of each so far.
        prompts: The prompt of each, and how many rows before it have the same one.
        stored: How many of them a journal knows.
        copies: Rows without an answer that will have that of another one, by that one's number.
    """

    answers: list[RowAnswer] = field(default_factory=list[RowAnswer])
    prompts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    stored: int = 0
    copies: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def left(self) -> list[int]:
        """Return the numbers of the rows to ask for."""
        copied = {number for numbers in self.copies.values() for number in numbers}
        known = ((number, row) for number, row in enumerate(self.answers) if number not in copied)
        return [number for number, row in known if not row.answered and row.error is None]


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
