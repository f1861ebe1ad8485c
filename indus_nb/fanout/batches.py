"""Requests of many rows, sent together: collected until no row could add one, then waited for.

What this module promises: with a journal no request is paid for twice, wherever the process is killed. What is going
to be sent is on the disk before it is, with the names of its requests, and the id of the batch after it; the next
process waits for the batches that it finds there instead of sending their requests. If it finds no id, it looks for a
batch of that size among those that were made then, and knows it by the names in its results. Whether a batch was
accepted may remain unknown: then nothing sends its requests again by itself, and what they may cost is unconfirmed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field

from indus_nb.base.errors import IndusError
from indus_nb.base.terminal import plain
from indus_nb.base.textcut import counted
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
from indus_nb.models.http.failures import one_line, root_cause
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
_SENDING_SECONDS = 900.0  # how long a batch may take to be accepted, and is looked for if the server does not say so
_OUTAGE_SECONDS = 24 * 3600.0  # how long a server may be gone while it has the batch
_FAREWELL_SECONDS = 15.0
_LAST_SECONDS = 3.0  # what the user waits for after a second interruption
_MOST_AT_ONCE = 50
_KEY_CHARACTERS = 48
_NOT_FOUND = 404
_UNKNOWN = "It is not known whether Anthropic has accepted the batch of this row: see its console before you ask again."
_GIVEN_UP = "The answer of this row was not collected, for the server could not be asked about its batch for too long."
"""Sentences without a status, and none that is tried again: another request would be paid for besides."""
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
    trouble: str = ""
    """Why the server cannot be asked about it just now."""
    was_sent: bool = False
    is_reported: bool = False
    is_being_made: bool = False
    patience: asyncio.Timeout | None = None
    """How long its acceptance is waited for, once no row is to be asked any more."""
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
        status = f"{waiting:,} wait in {many}, {first.status} for {duration(time.monotonic() - first.since)}"
        return f"{status}, {first.trouble}" if first.trouble else status

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
            cancel: Whether batches that go on are cancelled, with no more than a moment for it; without a journal they
                are cancelled too.
        """
        tasks = [task for task in (self._looking, *(sent.task for sent in self._sent)) if task is not None]
        # A batch whose id is on its way can be cancelled, or found again, once it is known.
        making = [sent.made for sent in self._sent if not sent.made.is_set() and sent.is_being_made]
        if making and not cancel:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await asyncio.gather(*(made.wait() for made in making))
        for sent in self._sent:
            if sent.is_being_made or (sent.task is not None and not sent.task.done()):
                self._note_unknown(sent)
        for task in (*tasks, *(self._cancelling if cancel else ())):
            task.cancel()
        await asyncio.gather(*tasks, *self._cancelling, return_exceptions=True)
        client = self._client
        if client is None:
            return
        going = [sent for sent in self._sent if sent.plan.id is not None and not sent.ended and sent.task is not None]
        if cancel or self._journal is None:
            seconds = _LAST_SECONDS if cancel else _FAREWELL_SECONDS
            await asyncio.gather(*(self._cancel(sent, client, seconds) for sent in going))
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
        sent.is_being_made = sent.was_sent = True
        try:
            async with asyncio.timeout(None) as sent.patience:
                made = await client.create(bodies)
        except Exception as error:
            sent.is_being_made = False
            sent.made.set()
            if may_have_been_accepted(error):
                sent.status, sent.trouble = "being looked for", f"for its acceptance did not arrive ({_reason(error)})"
                if await self._find(sent, client):
                    return
            await self._forget(sent, error)
            raise
        bodies.clear()
        sent.patience = None
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
        if self._stopping:  # meanwhile
            self._note_unknown(sent)
            raise IndusError(_UNKNOWN)
        # It may still be on its way.
        await asyncio.sleep(max(0.0, min(_FIRST_POLL_SECONDS, plan.planned + _FIRST_POLL_SECONDS - time.time())))
        outage = _Outage(sent, _SENDING_SECONDS, lambda: self._stopping)
        while True:
            try:
                recent = await client.since(plan.planned - _CLOCK_SECONDS)
                break
            except Exception as error:
                if not await outage.passes(error):
                    self._note_unknown(sent, _reason(error))
                    raise IndusError(_UNKNOWN) from error
        sent.trouble = ""
        for batch in reversed(recent):
            late = batch.created > plan.planned + _SENDING_SECONDS + _CLOCK_SECONDS
            if late or batch.id in known or batch.requests != len(plan.names) or batch.is_lost:
                continue
            async with aclosing(self._polled(batch.id, sent, client)) as polled:
                async for _ in polled:
                    pass
            if await self._holds(batch.id, sent, client):
                sent.plan = plan.with_id(batch.id)
                await self._note(sent)
                return True
        return False

    async def _holds(self, batch: str, sent: _Sent, client: BatchClient) -> bool:
        """Return whether a batch that has ended is the one with these requests: its first result shows it."""
        names, outage = set(sent.plan.names), _Outage(sent, _OUTAGE_SECONDS, lambda: self._stopping)
        while True:
            try:
                async with aclosing(client.results(batch)) as results:
                    async for name, _ in results:
                        return name in names
                    return False
            except Exception as error:  # noqa: BLE001 - raised there, unless it passes
                await outage.wait(error)

    async def _polled(self, batch: str, sent: _Sent, client: BatchClient) -> AsyncGenerator[Batch]:
        """Yield how far a batch is until it has ended."""
        interval = _FIRST_POLL_SECONDS
        if not sent.is_earlier:
            await asyncio.sleep(interval)
        outage = _Outage(sent, _OUTAGE_SECONDS, lambda: self._stopping)
        while True:
            try:
                found = await client.retrieve(batch)
            except Exception as error:  # noqa: BLE001 - raised there, unless it passes
                await outage.wait(error)
                continue
            outage.ends()
            sent.status = found.status.replace("_", " ")
            yield found
            if found.ended or found.is_lost:
                return
            interval = await _waited(min(interval, _FIRST_POLL_SECONDS) if self._stopping else interval)

    async def _collect(self, sent: _Sent, client: BatchClient) -> None:
        outage = _Outage(sent, _OUTAGE_SECONDS, lambda: self._stopping)
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
            except Exception as error:  # noqa: BLE001 - raised there, unless it passes
                await outage.wait(error)
                continue
            for name in missing & sent.wanted.keys():
                self._of.pop(name, None)
                if not (waiting := sent.wanted.pop(name)).done():
                    waiting.set_result(None)

    # Ending

    def _stop(self, sent: _Sent) -> None:
        if sent.task is None or sent.task.done():
            return
        if sent.is_being_made:
            if sent.patience is not None:
                sent.patience.reschedule(asyncio.get_running_loop().time() + _FAREWELL_SECONDS)
        elif self._journal is not None or sent.plan.id is None:
            self._note_unknown(sent)
            sent.task.cancel()
            left = _UNKNOWN if self._journal is None and sent.was_sent else _LEFT
            _fail_all(sent.wanted.values(), IndusError(left))
        elif self._client is not None and not sent.ended:
            cancelling = asyncio.create_task(self._cancel(sent, self._client, _FAREWELL_SECONDS))
            self._cancelling.add(cancelling)
            cancelling.add_done_callback(self._cancelling.discard)

    def _note_unknown(self, sent: _Sent, why: str = "") -> None:
        """Report a batch that the server may have accepted, once nothing waits for it any more."""
        if sent.plan.id is not None or sent.is_reported or not (sent.was_sent or sent.is_earlier):
            return
        sent.is_reported = True
        then = "Look into its console before you ask again: what it has accepted is paid for."
        if self._journal is not None:
            then = "The next call with the same journal looks for it."
        self.problems.append(
            f"It is not known whether Anthropic has accepted a batch of {counted(len(sent.plan.names), 'request')}"
            f"{f' ({why})' if why else ''}. {then}"
        )

    async def _cancel(self, sent: _Sent, client: BatchClient, seconds: float) -> None:
        """Cancel a batch at the server; its rows do not wait for a server that cannot be told."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
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
        if sent.task is not None and sent.trouble:
            sent.task.cancel()
            _fail_all(sent.wanted.values(), IndusError(_GIVEN_UP))


@dataclass(slots=True)
class _Outage:
    """Failures of one request, one after the other, that may pass: it is repeated for a while."""

    sent: _Sent
    seconds: float
    is_stopping: Callable[[], bool]
    interval: float = 0.0
    since: float | None = None

    async def passes(self, error: Exception) -> bool:
        """Wait until another attempt; returns ``False`` if there shall be none."""
        now = time.monotonic()
        self.since = self.since or now
        left = self.since + (min(self.seconds, _FAREWELL_SECONDS) if self.is_stopping() else self.seconds) - now
        if not is_passing(error) or left <= 0:
            return False
        self.sent.trouble = f"the server cannot be asked ({_reason(error)}), tried for {duration(left)} more"
        self.interval = await _waited(self.interval or _FIRST_POLL_SECONDS)
        return True

    async def wait(self, error: Exception) -> None:
        """Wait until another attempt.

        Raises:
            Exception: It is of no use.
        """
        if not is_passing(error):
            raise error
        if not await self.passes(error):
            raise IndusError(_GIVEN_UP) from error

    def ends(self) -> None:
        """Note that the server has answered."""
        self.interval, self.since, self.sent.trouble = 0.0, None, ""


def _reason(error: Exception) -> str:
    """Return in a few words why a request has failed."""
    if isinstance(error, HttpStatusError):
        return f"{error.status_code} {error.reason_phrase}".strip()
    cause = root_cause(error)
    return plain(one_line(str(cause))).rstrip(".") or type(cause).__name__


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
