"""Requests of many rows, sent together: collected until no row could add one, then waited for.

What this module promises: with a journal no request is paid for twice, wherever the process is killed. What is going
to be sent is on the disk before it is, with the names of its requests, and the id of the batch after it; the next
process waits for the batches that it finds there instead of sending their requests. If it finds no id, it looks for a
batch of that size among those that were made then, and knows it by the names in its results.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field

from indus_nb.base.errors import IndusError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.fanout.journal import Journal, PlannedBatch
from indus_nb.fanout.words import duration
from indus_nb.models.apis.batches import (
    CANCELLED,
    Batch,
    BatchClient,
    Opened,
    is_passing,
    may_have_been_accepted,
)
from indus_nb.models.http.http import HttpStatusError

MAX_ROWS = 4000
"""Most rows that wait at once: each is an open session, of about 75 kB, so that they take some 300 MB."""
_MAX_REQUESTS = 50_000  # of the API's 100,000
_MAX_BYTES = 64 * 1024 * 1024  # of its 256 MB, for it is in memory more than once
_LOOK_SECONDS = 0.1
_FIRST_POLL_SECONDS = 3.0
_MAX_POLL_SECONDS = 60.0
_GROWTH = 1.5
_CLOCK_SECONDS = 300.0  # by which the server's clock may differ
_SENDING_SECONDS = 900.0  # how long a batch may take to be accepted
_FAREWELL_SECONDS = 15.0
_MOST_AT_ONCE = 50
_KEY_CHARACTERS = 48
_NOT_FOUND = 404
_LEFT = "410 The batch goes on without this process: the next call with the same journal collects the answer."


@dataclass(slots=True)
class _Request:
    body: JsonObject
    result: asyncio.Future[JsonObject | None]
    size: int


@dataclass(slots=True, eq=False)
class _Sent:
    """A batch that was sent, or that an earlier process may have sent."""

    plan: PlannedBatch
    is_earlier: bool
    wanted: dict[str, asyncio.Future[JsonObject | None]] = field(
        default_factory=dict[str, asyncio.Future["JsonObject | None"]]
    )
    status: str = "being sent"
    ended: bool = False
    is_being_made: bool = False
    made: asyncio.Event = field(default_factory=asyncio.Event)
    since: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] | None = None


class Batches:
    """Collects requests and sends them in batches; to be used on one event loop.

    Args:
        blocked: Returns the number of requests that wait for money, which others give back when they are answered.
    """

    def __init__(self, blocked: Callable[[], int]) -> None:
        self._journal: Journal | None = None
        self._blocked = blocked
        self._workers = 0
        self._collected: dict[str, _Request] = {}
        self._sent: list[_Sent] = []
        self._of: dict[str, _Sent] = {}
        self._left: set[str] = set()
        self._client: BatchClient | None = None
        self._opening = asyncio.Lock()
        self._turn = asyncio.Lock()
        self._stopping = False
        self._looking: asyncio.Task[None] | None = None
        self._cancelling: set[asyncio.Task[None]] = set()
        self.problems: list[str] = []

    def restore(self, journal: Journal) -> None:
        """Use a journal, and wait for what an earlier process has sent; called before any row is asked."""
        self._journal = journal
        for plan in journal.batches:
            sent = _Sent(plan, is_earlier=True, status="being looked for")
            self._sent.append(sent)
            self._of.update(dict.fromkeys(plan.names, sent))

    @contextmanager
    def worker(self) -> Generator[None]:
        """Count a worker that may ask, until the end of the context."""
        self._workers += 1
        try:
            yield
        finally:
            self._workers -= 1

    async def turn(self) -> None:
        """Wait until a row may begin: one in each turn of the loop, so that thousands can be stopped meanwhile."""
        async with self._turn:
            await asyncio.sleep(0)

    def names(self, key: str) -> Callable[[], str]:
        """Return a function that names the requests of a row, in the same way in the next process.

        A row that failed is asked anew, so its requests have other names then.
        """
        attempt = 0 if self._journal is None else self._journal.times(key)
        row = f"{key[:_KEY_CHARACTERS]}-{attempt}"
        count = 0

        def name() -> str:
            nonlocal count
            count += 1
            return f"{row}-{count}"

        return name

    def is_left(self, key: str) -> bool:
        """Return whether the next process resumes this row where it was, with what batches have answered."""
        return self._journal is not None and key[:_KEY_CHARACTERS] in self._left

    async def ask(self, name: str, body: JsonObject, opened: Opened) -> JsonObject:
        """Return the result of a request; see ``BatchProvider``.

        Args:
            name: The name of the request.

        Raises:
            IndusError: It was stopped, or nothing could be sent.
            HttpStatusError: The server rejected the batch.
        """
        async with self._opening:
            if self._client is None:
                self._client = await opened()
            if self._looking is None:
                self._looking = asyncio.create_task(self._look(self._client))
        size = len(dump(body))
        while True:
            if self._stopping:
                self._left.add(name[:_KEY_CHARACTERS])
                raise IndusError(_LEFT if name in self._of else CANCELLED)
            result: asyncio.Future[JsonObject | None] = asyncio.get_running_loop().create_future()
            if (sent := self._of.get(name)) is not None:
                sent.wanted[name] = result
                self._follow(sent, self._client)
            else:
                self._collected[name] = _Request(body, result, size)
            try:
                if (found := await result) is not None:
                    return found
            except Exception:
                if name in self._of or self._stopping:
                    self._left.add(name[:_KEY_CHARACTERS])
                raise
            finally:
                self._collected.pop(name, None)
                if (sent := self._of.get(name)) is not None:
                    sent.wanted.pop(name, None)

    @property
    def status(self) -> str:
        """Describe in a few words what is waited for."""
        open_ones = [sent for sent in self._sent if sent.wanted and not sent.ended]
        if not open_ones:
            return ""
        waiting = sum(len(sent.wanted) for sent in open_ones)
        first = open_ones[0]
        many = "a batch" if len(open_ones) == 1 else f"{len(open_ones)} batches"
        return f"{waiting:,} wait in {many}, {first.status} for {duration(time.monotonic() - first.since)}"

    def stop(self) -> None:
        """Send nothing more: with a journal what was sent is left to the next process, else it is cancelled."""
        if self._stopping:
            return
        self._stopping = True
        for request in self._collected.values():
            _fail(request.result, IndusError(CANCELLED))
        for sent in self._sent:
            self._stop(sent)

    async def close(self, *, cancel: bool) -> None:
        """End all waiting requests.

        Args:
            cancel: Whether batches that go on are cancelled; without a journal they are.
        """
        tasks = [task for task in (self._looking, *(sent.task for sent in self._sent)) if task is not None]
        # A batch whose id is on its way can be cancelled, or found again, once it is known.
        if making := [sent.made for sent in self._sent if not sent.made.is_set() and sent.is_being_made]:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await asyncio.gather(*(made.wait() for made in making))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._cancelling, return_exceptions=True)
        client = self._client
        if client is None:
            return
        going = [sent for sent in self._sent if sent.plan.id is not None and not sent.ended and sent.task is not None]
        if cancel or self._journal is None:
            for sent in going:
                await self._cancel(sent, client)
        elif going:
            named = ", ".join(str(sent.plan.id) for sent in going)
            count = sum(len(sent.plan.names) for sent in going)
            self.problems.append(
                f"{count:,} requests go on at Anthropic, and cost as if they had been waited for ({named}). The next "
                "call with the same journal collects the answers, which are kept for 29 days."
            )
        await client.close()

    # Sending

    async def _look(self, client: BatchClient) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self._collected or self._stopping:
                continue
            waiting = len(self._collected) + self._blocked()
            waiting += sum(len(sent.wanted) for sent in self._sent if not sent.ended)
            size = sum(request.size for request in self._collected.values())
            if waiting >= self._workers or size >= _MAX_BYTES or len(self._collected) >= _MAX_REQUESTS:
                self._send(client)

    def _send(self, client: BatchClient) -> None:
        chosen: dict[str, _Request] = {}
        size = 0
        for name, request in self._collected.items():
            size += request.size
            if chosen and (size > _MAX_BYTES or len(chosen) == _MAX_REQUESTS):
                break
            chosen[name] = request
        sent = _Sent(PlannedBatch(time.time(), tuple(chosen)), is_earlier=False)
        sent.wanted.update((name, request.result) for name, request in chosen.items())
        bodies = [(name, request.body) for name, request in chosen.items()]
        for name in chosen:
            del self._collected[name]
            self._of[name] = sent
        self._sent.append(sent)
        sent.task = asyncio.create_task(self._carry(sent, client, bodies))

    def _follow(self, sent: _Sent, client: BatchClient) -> None:
        if sent.task is None or sent.task.done():
            sent.task = asyncio.create_task(self._carry(sent, client, None))

    async def _carry(self, sent: _Sent, client: BatchClient, bodies: list[tuple[str, JsonObject]] | None) -> None:
        """Send a batch, unless that was done before, and hand its results to the requests that wait for them."""
        try:
            if bodies is not None:
                await self._create(sent, client, bodies)
            if sent.plan.id is None and not await self._find(sent, client):
                await self._forget(sent)
                return
            if self._stopping:
                self._stop(sent)
            async with aclosing(self._polled(str(sent.plan.id), sent, client)) as polled:
                async for batch in polled:
                    if batch.is_lost:
                        await self._forget(sent)
                        return
            sent.ended = True
            await self._collect(sent, client)
        except HttpStatusError as error:
            if error.status_code == _NOT_FOUND and sent.plan.id is not None:
                await self._forget(sent)
            else:
                _fail_all(sent.wanted.values(), error)
        except Exception as error:  # noqa: BLE001 - the waiting callers get it
            _fail_all(sent.wanted.values(), error)

    async def _create(self, sent: _Sent, client: BatchClient, bodies: list[tuple[str, JsonObject]]) -> None:
        try:
            await self._note(sent)
        except OSError as error:
            self._drop(sent)
            raise IndusError(f"The journal cannot be written ({error.strerror}), so no batch is sent.") from error
        sent.is_being_made = True
        try:
            made = await client.create(bodies)
        except Exception as error:
            sent.is_being_made = False
            sent.made.set()
            if may_have_been_accepted(error) and await self._find(sent, client):
                return
            await self._forget(sent, error)
            raise
        bodies.clear()
        sent.plan = sent.plan.with_id(made.id)
        try:
            await self._note(sent)
        except OSError as error:
            self.problems.append(
                f"The journal cannot be written ({error.strerror}), so it does not name the batch {made.id}. The next "
                "call looks for a batch of that size and time."
            )
        sent.is_being_made = False
        sent.made.set()

    async def _note(self, sent: _Sent) -> None:
        if self._journal is not None:
            await asyncio.to_thread(self._journal.note, sent.plan)

    async def _forget(self, sent: _Sent, error: Exception | None = None) -> None:
        """Release the requests of a batch that was never made, or whose results are gone: they are asked again."""
        waiting = list(sent.wanted.values())
        self._drop(sent)
        sent.plan = sent.plan.without_requests()
        await self._note(sent)
        for result in waiting:
            if error is not None:
                _fail(result, error)
            elif not result.done():
                result.set_result(None)

    def _drop(self, sent: _Sent) -> None:
        for name in sent.plan.names:
            if self._of.get(name) is sent:
                del self._of[name]
        if sent in self._sent:
            self._sent.remove(sent)

    # Waiting

    async def _find(self, sent: _Sent, client: BatchClient) -> bool:
        """Look for a batch whose acceptance did not arrive; it shows its requests' names when it has ended."""
        plan, known = sent.plan, {other.plan.id for other in self._sent}
        interval = _FIRST_POLL_SECONDS
        # It may still be on its way.
        await asyncio.sleep(max(0.0, min(interval, plan.planned + interval - time.time())))
        while True:
            try:
                recent = await client.since(plan.planned - _CLOCK_SECONDS)
                break
            except Exception as error:
                if not is_passing(error):
                    raise
                interval = await _waited(interval)
        for batch in reversed(recent):
            late = batch.created > plan.planned + _SENDING_SECONDS + _CLOCK_SECONDS
            if late or batch.id in known or batch.requests != len(plan.names) or batch.is_lost:
                continue
            async with aclosing(self._polled(batch.id, sent, client)) as polled:
                async for _ in polled:
                    pass
            if await self._holds(batch.id, set(plan.names), client):
                sent.plan = plan.with_id(batch.id)
                await self._note(sent)
                return True
        return False

    async def _holds(self, batch: str, names: Collection[str], client: BatchClient) -> bool:
        """Return whether a batch that has ended is the one with these requests: its first result shows it."""
        interval = _FIRST_POLL_SECONDS
        while True:
            try:
                async with aclosing(client.results(batch)) as results:
                    async for name, _ in results:
                        return name in names
                    return False
            except Exception as error:
                if not is_passing(error):
                    raise
                interval = await _waited(interval)

    async def _polled(self, batch: str, sent: _Sent, client: BatchClient) -> AsyncGenerator[Batch]:
        """Yield how far a batch is until it has ended."""
        interval = _FIRST_POLL_SECONDS
        if not sent.is_earlier:
            await asyncio.sleep(interval)
        while True:
            try:
                found = await client.retrieve(batch)
                sent.status = found.status.replace("_", " ")
            except Exception as error:
                if not is_passing(error):
                    raise
                sent.status = "the server cannot be asked"
            else:
                yield found
                if found.ended or found.is_lost:
                    return
            interval = await _waited(min(interval, _FIRST_POLL_SECONDS) if self._stopping else interval)

    async def _collect(self, sent: _Sent, client: BatchClient) -> None:
        interval = _FIRST_POLL_SECONDS
        while sent.wanted:
            missing = set(sent.wanted)
            try:
                async with aclosing(client.results(str(sent.plan.id))) as results:
                    count = 0
                    async for name, result in results:
                        missing.discard(name)
                        if (waiting := sent.wanted.pop(name, None)) is not None and not waiting.done():
                            again = sent.is_earlier and result.get("type") in ("canceled", "expired")
                            if again:
                                self._of.pop(name, None)
                            waiting.set_result(None if again else result)
                            count += 1
                            if count % _MOST_AT_ONCE == 0:
                                await asyncio.sleep(0)
            except Exception as error:
                if not is_passing(error):
                    raise
                interval = await _waited(interval)
                continue
            for name in missing & sent.wanted.keys():
                self._of.pop(name, None)
                if not (waiting := sent.wanted.pop(name)).done():
                    waiting.set_result(None)

    # Ending

    def _stop(self, sent: _Sent) -> None:
        if sent.ended or sent.task is None or sent.task.done():
            return
        if self._journal is not None:
            if not sent.is_being_made:
                sent.task.cancel()
                _fail_all(sent.wanted.values(), IndusError(_LEFT))
        elif sent.plan.id is not None and self._client is not None:
            cancelling = asyncio.create_task(self._cancel(sent, self._client))
            self._cancelling.add(cancelling)
            cancelling.add_done_callback(self._cancelling.discard)

    async def _cancel(self, sent: _Sent, client: BatchClient) -> None:
        """Cancel a batch at the server."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                interval = 0.5
                while True:
                    try:
                        await client.cancel(str(sent.plan.id))
                    except Exception as error:  # noqa: BLE001 - said below
                        if not is_passing(error):
                            break
                        interval = await _waited(interval)
                    else:
                        return
        self.problems.append(
            f"The batch {sent.plan.id} could not be cancelled: cancel it in Anthropic's console, or it is paid for."
        )


async def _waited(interval: float) -> float:
    """Wait, and return how long to wait the next time."""
    await asyncio.sleep(interval)
    return min(interval * _GROWTH, _MAX_POLL_SECONDS)


def _fail(result: asyncio.Future[JsonObject | None], error: Exception) -> None:
    if not result.done():
        result.set_exception(error)


def _fail_all(results: Iterable[asyncio.Future[JsonObject | None]], error: Exception) -> None:
    for result in tuple(results):
        _fail(result, error)
