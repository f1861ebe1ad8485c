"""Rows that are asked as they are read, and given back in their order.

What this module promises: data is read on the thread that takes the results, a few rows ahead of them and no more, so
that memory does not grow with its length. Each row that was read is given back, with or without an answer, before an
error of the data is raised, or the reason why no other can be asked.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Self

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.fanout.contents import identity
from indus_nb.fanout.known import RowToAsk, Stored
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.question import RowQuestion
from indus_nb.fanout.reporting import Contained, Reporter
from indus_nb.fanout.results import RowAnswer
from indus_nb.fanout.work import Work

_SLICE_SECONDS = 0.1
_AHEAD = 4
"""How many rows are read ahead for each that is asked at once, so that a slow one holds up no other."""


class Stream(Iterator[tuple[JsonObject, RowAnswer]]):
    """Rows with their results, in the order of the data; ``agent.stream`` returns one.

    It ends, and cuts off the rows that are asked by then, with the ``with`` statement that it stands in, with
    ``close``, or once nothing refers to it, as after a loop over it that has no name for it.
    """

    def __init__(self, rows: Iterator[JsonObject], question: RowQuestion, reporter: Reporter) -> None:
        """Create it; nothing is read or asked before the first row is taken.

        Args:
            rows: The rows.
            question: What is asked about them.
            reporter: Shows how far it is.
        """
        self._work = Work(question)
        self._work.progress.total = None
        # It holds no reference to this object, so that it ends with the loop that takes rows.
        self._taking = _taken(rows, question, self._work, _Seldom(reporter))

    def __next__(self) -> tuple[JsonObject, RowAnswer]:
        return next(self._taking)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ask nothing more, and cut off the rows that are asked; on the thread that takes rows."""
        self._taking.close()

    def stop(self) -> None:
        """Let no more rows begin, and those end that were asked. From any thread.

        The rows that were read are still given back, the others of them without an answer.
        """
        self._work.stop()

    @property
    def cost(self) -> float:
        """Return the cost so far in US dollars, with what a journal says of earlier processes."""
        return self._work.cost

    @property
    def problems(self) -> tuple[str, ...]:
        """Return harmless problems, a sentence each."""
        return tuple(self._work.problems)

    @property
    def summary(self) -> str:
        """Summarise in a line how far it is."""
        return str(self._work.progress)

    def __repr__(self) -> str:
        return f"<{self.summary}>"


class _Seldom(Contained):
    """Reporter that forwards progress a few times a second."""

    _last = 0.0

    def show(self, progress: Progress) -> None:
        if time.monotonic() - self._last >= _SLICE_SECONDS:
            self._last = time.monotonic()
            super().show(progress)


def _taken(
    rows: Iterator[JsonObject], question: RowQuestion, work: Work, reporter: Reporter
) -> Generator[tuple[JsonObject, RowAnswer]]:
    """Read rows, have them asked in a thread, and yield them with their results."""
    passage, data = _Passage(question, work.progress), _Data(rows)
    asking = threading.Thread(target=passage.serve, args=(work,), name="indus_nb rows", daemon=True)
    waiting: deque[JsonObject] = deque()
    first = 0
    reporter.begin(_stopper(work))
    asking.start()
    try:
        while data.has_more or waiting:
            if work.stopped or passage.ended.is_set():
                data.has_more = False
            reads = data.has_more and len(waiting) < question.parallel * _AHEAD
            if waiting and passage.wait(first, 0 if reads else _SLICE_SECONDS):
                if (answer := passage.take(first)) is None:
                    break
                yield waiting.popleft(), answer
                first += 1
            elif reads and (row := data.read()) is not None:
                passage.give(first + len(waiting), row)
                waiting.append(row)
            elif not data.has_more:
                passage.end()
            reporter.show(work.progress)
        passage.end()
        asking.join()
        if problem := passage.error or data.problem or (IndusError(work.ended_early) if work.ended_early else None):
            raise problem
    finally:
        try:
            if asking.is_alive():
                work.cancel()
                passage.end()
                if asking is not threading.current_thread():  # where it collects what nobody refers to
                    asking.join()
        finally:
            reporter.end(work.progress if passage.error is None else None)


class _Data:
    """Rows of the user's, which are read until they end or fail."""

    def __init__(self, rows: Iterator[JsonObject]) -> None:
        self._rows = rows
        self.has_more = True
        self.problem: Exception | None = None
        """Why they failed."""

    def read(self) -> JsonObject | None:
        """Return the next row; ``None`` if there is none."""
        try:
            row = next(self._rows, None)
        except Exception as error:  # noqa: BLE001 - raised once what was read is given back
            row, self.problem = None, error
        self.has_more = row is not None
        return row


def _stopper(work: Work) -> Callable[[], None]:
    """Return what stops work; called again it cuts off the rows that are asked."""

    def stop() -> None:
        if work.stopped:
            work.cancel()
        work.stop()

    return stop


class _Passage:
    """Rows on their way to those who ask, and results on their way back: between two threads."""

    def __init__(self, question: RowQuestion, progress: Progress) -> None:
        self._question = question
        self._progress = progress
        self._changed = threading.Condition()
        self._given: deque[tuple[int, JsonObject]] = deque()
        self._results: dict[int, RowAnswer] = {}
        self._has_all = False
        self.ended = threading.Event()
        """Set once no further result comes."""
        self.error: BaseException | None = None
        """Why nothing could be asked."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stored: Stored | None = None
        self._came = asyncio.Event()
        self._seen: Counter[bytes] = Counter()

    def give(self, number: int, row: JsonObject) -> None:
        """Have a row asked."""
        self._given.append((number, row))
        self._wake()

    def end(self) -> None:
        """Note that no further row comes."""
        self._has_all = True
        self._wake()

    def wait(self, number: int, seconds: float) -> bool:
        """Wait for the result of a row, or the end; returns whether one of them is there."""
        with self._changed:
            return self._changed.wait_for(lambda: number in self._results or self.ended.is_set(), seconds)

    def take(self, number: int) -> RowAnswer | None:
        """Return the result of a row: an empty one if it was not asked, ``None`` if nothing could be."""
        with self._changed:
            return self._results.pop(number, None if self.error is not None else RowAnswer())

    def serve(self, work: Work) -> None:
        """Have rows asked until all are; called in a thread."""
        try:
            asyncio.run(work.serve(self.begin))
        except BaseException as error:  # noqa: BLE001 - raised again where rows are taken
            self.error = error
        finally:
            with self._changed:
                self._loop = None
                self.ended.set()
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            if self._loop is not None:
                with suppress(RuntimeError):  # it was closed meanwhile
                    self._loop.call_soon_threadsafe(self._came.set)

    def begin(self, stored: Stored) -> _Passage:
        """Be the source of rows on the loop that runs."""
        self._stored = stored
        with self._changed:
            self._loop = asyncio.get_running_loop()
        self._came.set()
        return self

    async def next(self) -> RowToAsk | None:
        """See ``RowSource``."""
        while True:
            while self._given:
                number, row = self._given.popleft()
                if (asked := await self._open(number, row)) is not None:
                    return asked
            if self._has_all:
                return None
            self._came.clear()
            if not self._given and not self._has_all:
                await self._came.wait()

    def put(self, number: int, answer: RowAnswer) -> Sequence[RowAnswer]:
        """See ``RowSource``."""
        with self._changed:
            self._results[number] = answer
            self._changed.notify_all()
        return [answer]

    def stop(self) -> None:
        """See ``RowSource``."""
        self._given.clear()
        self._has_all = True
        self._came.set()

    async def _open(self, number: int, row: JsonObject) -> RowToAsk | None:
        """Return a row to ask; ``None`` if its outcome is known."""
        if self._stored is None:
            raise RuntimeError("begin() comes first")
        question = self._question
        try:
            reads = question.reads_files(row)
            prompt = await asyncio.to_thread(question.prompt, row) if reads else question.prompt(row)
        except UsageError as error:
            self._progress.failed += 1
            self._progress.done += 1
            self.put(number, RowAnswer(error=str(error)))
            return None
        same = 0
        if self._stored.journal is not None and not question.asks_once:
            digest = blake2b(dump([identity(prompt)]), digest_size=16).digest()  # the journal keeps no more of each row
            same = self._seen[digest]
            self._seen[digest] += 1
        known = self._stored.of(prompt, same) or RowAnswer()
        if known.answered:
            self._progress.kept += 1
            self._progress.done += 1
            self.put(number, known)
            return None
        return RowToAsk(number, prompt, same, known.tries, known.goes_on)
