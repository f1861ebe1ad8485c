"""Concurrent requests for many rows: the workers that ask for those that are left, and their progress.

What this module promises: the answers come in the order of the rows. A row whose answer is in the journal is not asked;
one that was answered is in the journal before it counts as done, several that end together with one wait for the disk.
After ``stop`` no row begins and those that were asked end; after ``cancel`` these are cut off too.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from itertools import takewhile
from typing import TYPE_CHECKING

from indus_nb.base import textcut
from indus_nb.base.errors import SessionFileError, UsageError
from indus_nb.base.terminal import plain
from indus_nb.core.limits.budget import Budget, spending
from indus_nb.core.limits.limiter import Limiter
from indus_nb.fanout.asking import Asked
from indus_nb.fanout.contents import RowPrompt, images_in
from indus_nb.fanout.engines import Engine
from indus_nb.fanout.journal import Done, Journal
from indus_nb.fanout.journaling import Journaling
from indus_nb.fanout.known import (
    CheapModel,
    KnownRows,
    RowSource,
    RowToAsk,
    Stored,
    estimated,
    known_rows,
    prompts_of,
    without_values,
)
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.question import RowQuestion
from indus_nb.fanout.results import Estimate, RowAnswer
from indus_nb.fanout.words import rows_of

if TYPE_CHECKING:
    from indus_nb.core.answers import AnswerKind
    from indus_nb.core.session.session import AgentSession
    from indus_nb.fanout.batches import Batches
    from indus_nb.fanout.cascade import CascadeReport
    from indus_nb.start import SessionOptions

_MAX_FAILURE_CHARACTERS = 80
_ALIKE = 20
"""Number of rows that all failed, after which no other is asked."""
_MAX_REASON_CHARACTERS = 300
_CUT_OFF = "It was cut off before its answer had come."
_BATCH_ROWS_WITH_IMAGES = 400
"""Most rows of a batch that wait at once if some have images: each is in memory meanwhile, with a megabyte or more."""
_COLLECTED_AFTER = 10_000
"""How many more objects there are than at the last look for cyclic garbage until the next one."""
_WARMING_SECONDS = 30
"""Longest wait for the first answer to begin."""


class _CutOffError(Exception):
    """A row was cut off; what the cheap model answered for it is kept."""

    def __init__(self, so_far: RowAnswer) -> None:
        super().__init__()
        self.so_far = so_far


class Work:
    """One run of a question; all but ``stop``, ``cancel`` and ``progress`` belongs to its event loop.

    Args:
        known: The earlier results of the rows; those with an answer are not asked.
        spent: Their cost, in US dollars, if no journal says it.
        unconfirmed: The most that they may have cost besides.
        budget: That of several rounds, which this is one of; by default one of its own.
        before: How far the round before it came, which was charged to that budget, and is in the same journal.
    """

    def __init__(
        self,
        question: RowQuestion,
        known: Sequence[RowAnswer] = (),
        spent: float = 0.0,
        unconfirmed: float = 0.0,
        *,
        budget: Budget | None = None,
        before: Progress | None = None,
    ) -> None:
        self.budget: Budget = budget or Budget(question.max_cost, (spending(),))
        """The budget of all of it, within that of the code that asks."""
        self._before = before
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
        self.notes: list[str] = []
        """What to know of the rows that were asked, for a line about all of it."""
        self._journaling: Journaling | None = None
        self._unwritten: dict[str, Done] = {}
        self._journal_problem: str | None = None
        self.cascade: CascadeReport | None = None
        """What became of the rows that a cheap model was asked about first, if there is one."""
        self._cheap: CheapModel | None = None
        self.ended_early: str = ""
        """Why rows were left that nobody has stopped; empty if none were."""
        self.estimate: Estimate | None = None
        """What the rows to ask will cost, if nothing but that was asked for."""
        self._waits: dict[AgentSession, str] = {}
        self._left: float = math.inf
        """How many rows are to be asked, those that wait included."""
        self._first: int | None = None
        self._measured = 0
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
        question = self._question
        async with self._prepared() as (asked, journal):
            prompts = await self._prompts()
            rows = known_rows(question, prompts, self._known, journal, asked, self._cheap)
            self.progress.kept = sum(row.answered for row in rows.answers)
            self.progress.failed = sum(row.error is not None for row in rows.answers)
            self.progress.done = self.progress.kept + self.progress.failed
            left = rows.left()
            if journal is not None and len(prompts) == len(rows.answers) and self._before is None:
                self._compare(journal, rows)
            self.notes += filter(None, [without_values(question)])
            self.progress.to_ask = len(left)
            if question.estimate:
                self.estimate = estimated(question, asked, self._cheap, [rows.prompts[number][0] for number in left])
                left = []
            if question.sample is not None and question.sample < len(left):
                left = [left[place * len(left) // question.sample] for place in range(question.sample)]
                sampled = sum(1 + len(rows.copies.get(row, ())) for row in left)
                self.progress.total = self.progress.done + sampled
                if sampled > len(left):
                    prompts_asked = textcut.counted(len(left), "prompt")
                    self.notes.append(f"{prompts_asked} for {rows_of(sampled)}: rows with the same one are asked once")
            self.progress.note = ", ".join(filter(None, [self.progress.note, *self.notes]))
            rows.waiting = iter(left)
            await self._ask(asked, journal, rows, len(left))
            if (cheap := self._cheap) is not None:
                names = cheap.asked.model.name, asked.model.name
                self.cascade = cheap.cascade.report(rows.answers, *names, unpriced=self.budget.unpriced)
        return rows.answers

    async def _prompts(self) -> list[RowPrompt | UsageError]:
        """Make the prompts in a thread, for files may be read for them."""
        try:
            prompts = await asyncio.to_thread(prompts_of, self._question, lambda: self._stopping)
        except asyncio.CancelledError:
            self.stop()  # which that thread sees
            raise
        if self._batches is not None and images_in([each for each in prompts if not isinstance(each, UsageError)]):
            self._parallel = _BATCH_ROWS_WITH_IMAGES
        return prompts

    async def serve(self, begin: Callable[[Stored], RowSource]) -> None:
        """Ask for rows as they come, until there are no more.

        Args:
            begin: Called once rows can be asked, with what finds the outcome of a row in the journal; returns the rows.

        Raises:
            IndusError: Nothing could be asked, as in ``run``.
        """
        async with self._prepared() as (asked, journal):
            await self._ask(asked, journal, begin(Stored(self._question, journal, asked, self._cheap)))

    @asynccontextmanager
    async def _prepared(self) -> AsyncGenerator[tuple[Asked, Journal | None]]:
        """Choose the models, and open the journal, within this context."""
        self._loop = asyncio.get_running_loop()
        question, budget, journal = self._question, self.budget, None
        if question.batch:
            from indus_nb.fanout.batches import MAX_ROWS, Batches

            self._parallel, self._batches = MAX_ROWS, Batches(lambda: budget.waiting)
        engine = None if question.over is None else Engine(question.over, question.functions, self._end_early)
        asked = self._asked(question.session, question.kind, engine)
        try:
            self.problems += asked.check()
            self.progress.model = asked.model.name
            if asked.leading is not None:
                self.on_checked(asked.leading)
            if question.cheap is not None and question.cascade is not None:
                cheap = self._asked(asked.options_for(question.cheap), question.cascade.asked_kind)
                self._cheap = CheapModel(cheap, question.cascade)
                self.problems += [each for each in cheap.check() if each not in self.problems]
                self.progress.model = f"{cheap.model.name}, then {asked.model.name}"
            if asked.engine is not None:
                await asked.engine.check(lambda: self._stopping)
            if question.journal is not None:
                journal = Journal(question.journal, f"{asked.model.provider}/{asked.model.id}")
            self._charge_earlier(journal)
            self._note_cost(budget)
            yield asked, journal
        finally:
            self.progress.ended = True
            self._loop = None
            if journal is not None:
                journal.close()
            asked.close()
            if self._cheap is not None:
                self._cheap.asked.close()

    def _charge_earlier(self, journal: Journal | None) -> None:
        """Count what earlier calls have paid, once for all rounds."""
        if self._before is not None:
            self.progress.cost_before = self._before.cost_before
            return
        kept = (0.0, 0.0) if journal is None else (journal.cost, journal.unconfirmed)
        spent = max(self._spent, kept, key=sum)
        self.budget.charge(*spent)
        if self._known or (journal is not None and len(journal)):
            self.progress.cost_before = self.budget.spent  # in whole billionths, unlike a sum of dollars

    def _asked(self, session: SessionOptions, kind: AnswerKind | None, engine: Engine | None = None) -> Asked:
        question = self._question
        asked = Asked(
            session,
            question.directory if question.sessions else None,
            kind,
            Limiter(self._parallel, question.rpm, question.tpm, learns=not question.batch),
            self.budget,
            question.max_tokens,
            question.definable,
            waits=self._waits,
            on_waits=self._note_waits,
            is_stopping=lambda: self._stopping,
            engine=engine,
            batches=self._batches,
            shared_characters=question.shared_characters,
        )
        if self._batches is not None or not question.shared_characters:
            asked.warm.set()
        return asked

    async def _ask(self, asked: Asked, journal: Journal | None, rows: RowSource, count: float = math.inf) -> None:
        """Ask for rows, several at once: for all ``count``, or for as many as come."""
        if self._batches is not None and journal is not None:
            self._batches.restore(journal)
        self._journaling = None if journal is None else Journaling(journal)
        self._left = count
        at_once = int(min(self._parallel, count))
        self._workers = [asyncio.create_task(self._work(asked, rows)) for _ in range(at_once)]
        try:
            with _fewer_collections():
                await self._ended(asked, rows)
        finally:
            if self._journaling is not None:
                await self._journaling.close()
                await self._write_rest(self._journaling)
            self.problems += [] if journal is None else journal.problems
            self._note_unsaved(asked.unsaved + ([] if self._cheap is None else self._cheap.asked.unsaved))
            if self._batches is not None:
                await self._batches.close(cancel=self._cancelled)
                self.problems += self._batches.problems
            self._note_cost(self.budget)

    def _note_unsaved(self, errors: Sequence[SessionFileError]) -> None:
        if errors:
            have = "has" if len(errors) == 1 else "have"
            self.problems.append(f"{rows_of(len(errors))} {have} no session file: {str(errors[0]).rstrip('.')}.")

    async def _work(self, asked: Asked, rows: RowSource) -> None:
        """Ask for one row after another."""
        with nullcontext() if self._batches is None else self._batches.worker():
            while (row := await rows.next()) is not None:
                if self._batches is not None:
                    await self._batches.turn()
                if self._stopping:
                    return
                if self._first is None:
                    self._first = row.number
                try:
                    answer = await self._row(asked, row)
                except _CutOffError as cut:
                    rows.put(row.number, cut.so_far)
                    raise asyncio.CancelledError from None
                self._note_row(row.number, answer)
                for each in rows.put(row.number, answer):
                    self._count(each, asked.limiter, asked.budget)

    async def _write_rest(self, journaling: Journaling) -> None:
        """Retry writing the outcomes that could not be written, and report those that are lost."""
        if self._journal_problem is None:
            return
        sentence = f"The journal cannot be written ({self._journal_problem}), so the other rows are not asked."
        try:
            for key, done in self._unwritten.items():
                await journaling.write(key, done)
        except OSError:
            sentence += (
                f" {rows_of(len(self._unwritten))} with an answer are in no file, and would be asked and paid again: "
                "save them from what this call returns."
            )
        self.problems.append(sentence)
        self.ended_early = sentence

    def stop(self) -> None:
        """Start no more rows, and let those that were asked end; from any thread."""
        self._stopping = self.progress.stopping = True

    def cancel(self) -> None:
        """Abort the rows that are asked, too; from any thread."""
        self.stop()
        if (loop := self._loop) is not None:
            with suppress(RuntimeError):  # it was closed meanwhile
                loop.call_soon_threadsafe(self._cut_off)

    @property
    def stopped(self) -> bool:
        """Return whether ``stop`` was called."""
        return self._stopping

    def _end_early(self, sentence: str) -> None:
        if not self.ended_early:
            self.ended_early = sentence
            self.problems.append(sentence)
        self.stop()

    def _cut_off(self) -> None:
        self._cancelled = True
        for worker in self._workers:
            worker.cancel()

    async def _ended(self, asked: Asked, rows: RowSource) -> None:
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
                    rows.stop()
                    cheap = {} if self._cheap is None else self._cheap.asked.open_sessions
                    for session, has_begun in (*asked.open_sessions.items(), *cheap.items()):
                        if session not in asked.open_sessions and session not in cheap:
                            continue  # it has ended meanwhile
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

    def _compare(self, journal: Journal, rows: KnownRows) -> None:
        """Tell the user if all of a journal is about something else, before it is asked and paid anew."""
        if not len(journal) or rows.stored:
            return
        self.progress.note = f"none of the {rows_of(len(journal))} in the journal is one of these"
        self.problems.append(
            f"The journal {journal.path} had {rows_of(len(journal))}, none of which is one of these: they have other "
            "data, or were asked with another prompt, model, thinking, system prompt, type, other tools or max_tokens."
        )

    async def _row(self, asked: Asked, row: RowToAsk) -> RowAnswer:
        """Ask for a row: the cheap model first, if there is one, unless its tries are there."""
        tries, goes_on = [*takewhile(lambda each: each.answered, row.tries)], row.goes_on
        try:
            if (cheap := self._cheap) is not None and not goes_on:
                while len(tries) < cheap.cascade.times:
                    if (refused := self._refused(cheap.asked)) is not None or self._stopping:
                        return (refused or RowAnswer()).after(tries)
                    key = cheap.asked.key(row.prompt, row.same, len(tries))
                    answer = await self._answer(cheap.asked, row.prompt, key)
                    if not answer.answered and answer.error is None:
                        return answer.after(tries)  # stopped
                    tries.append(answer)
                    if not answer.answered:
                        break
                if cheap.cascade.can_judge(tries):
                    if (judged := cheap.cascade.judged(tries)) is not None:
                        return judged.after(tries)
                    goes_on = True
            if (refused := self._refused(asked)) is not None or (tries and self._stopping):
                return (refused or RowAnswer()).after(tries, goes_on=goes_on)
            answer = await self._answer(asked, row.prompt, asked.key(row.prompt, row.same))
            return answer.after(tries, goes_on=goes_on)
        except asyncio.CancelledError:
            raise _CutOffError(RowAnswer().after(tries, goes_on=goes_on)) from None

    def _refused(self, asked: Asked) -> RowAnswer | None:
        """Return the outcome of a row that no money is left for; ``None`` if there is some."""
        if (sentence := asked.budget.refusal(asked.least)) is None:
            return None
        if self.progress.total is None:
            self._end_early(sentence)  # else the rows would be read to their end, if they have one
        return RowAnswer(error=sentence)

    async def _answer(self, asked: Asked, prompt: RowPrompt, key: str) -> RowAnswer:
        """Ask one model for a row, and write down the outcome; all but its first row wait until an answer begins."""
        if asked.is_warming:
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.warm.wait(), _WARMING_SECONDS)
            if self._stopping:
                return RowAnswer()
        asked.is_warming = True
        try:
            return await self._asked_once(asked, prompt, key)
        finally:
            asked.warm.set()

    async def _asked_once(self, asked: Asked, prompt: RowPrompt, key: str) -> RowAnswer:
        paid = Budget(None, (asked.budget,))
        try:
            value, done = await asked.ask(prompt, key, paid)
        except asyncio.CancelledError:
            # What batches have cost is known once they are collected.
            if (paid.spent or paid.unconfirmed) and self._batches is None and self._journaling is not None:
                cut_off = Done(None, _CUT_OFF, paid.spent, unconfirmed=paid.unconfirmed)
                self._journaling.put(key, cut_off)
            raise
        if self._batches is None:
            self._end_if_all_fail(asked, done)
        if self._batches is not None and done.error is not None and self._batches.is_left(key):
            return RowAnswer(error=None if self._stopping else done.error)
        if self._stopping and done.error is not None and not (done.cost or done.unconfirmed):
            return RowAnswer()  # it was only waiting for another attempt
        try:
            if self._journaling is not None:
                await self._journaling.write(key, done)
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

    def _note_row(self, number: int, answer: RowAnswer) -> None:
        self.progress.to_ask -= answer.answered
        self._left -= 1
        self._note_waits()
        if answer.answered and number != self._first:  # which also pays for what the others read from a cache
            self._measured += 1
            self._measured_cost += answer.cost
            self.progress.row_cost = self._measured_cost / self._measured

    def _end_if_all_fail(self, asked: Asked, done: Done) -> None:
        """Stop if a model's first rows all fail for one reason: the others would, and may be paid for.

        Data that is read later may have no end: it is left also where many rows fail one after the other.
        """
        is_read_later = self.progress.total is None
        if done.error is None:
            asked.failures = Counter() if is_read_later else None
        elif asked.failures is not None and not self._stopping:
            asked.failures[done.error] += 1
            if asked.failures.total() == _ALIKE and (is_read_later or len(asked.failures) == 1):
                which = "last" if is_read_later else "first"
                why = textcut.one_line(done.error, _MAX_REASON_CHARACTERS)
                self._end_early(
                    f"The {which} {_ALIKE} rows all failed, so the others are not asked. Mend it and ask again. "
                    f"{asked.model.name}: {why}"
                )

    def _note_waits(self) -> None:
        why = next(reversed(self._waits.values()), "")
        self.progress.failure = textcut.one_line(plain(why), _MAX_FAILURE_CHARACTERS)
        self.progress.all_wait = bool(why) and len(self._waits) >= min(len(self._workers), self._left)

    def _count(self, row: RowAnswer, limiter: Limiter, budget: Budget) -> None:
        progress = self.progress
        progress.done += row.answered or row.error is not None
        progress.failed += row.error is not None
        self._note_cost(budget)
        progress.paused_until = time.monotonic() + limiter.paused_for if math.isfinite(limiter.paused_for) else 0.0


@contextmanager
def _fewer_collections() -> Generator[None]:
    """Look for cyclic garbage less often: rows leave next to none, and looks take a twentieth of their time."""
    young, *older = gc.get_threshold()
    if 0 < young < _COLLECTED_AFTER:
        gc.set_threshold(_COLLECTED_AFTER, *older)
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _COLLECTED_AFTER:
            gc.set_threshold(young, *older)
