"""Limits of concurrent requests and of the rate at which they begin: for all workers together.

What this module promises: no more requests go on at once than were asked for, and no more begin in a minute than
``rpm`` and than a server says that it has room for. With ``tpm`` each is believed to need as many tokens as the one
that was answered last; the first ones, before any was, begin together, and delay the others by what they needed.
Requests begin in the order in which they were asked for; those that a server has refused come first. Where a server
refuses many, fewer go on at once, and more again once it does not. Where it refuses a few, as one of its machines may
at any time, the others go on. Where it refuses all, nothing begins for the time that it asks for. All of this holds for
the limiters of a process together that share one account at a server, also on several event loops and threads: the
smallest ``rpm`` and ``tpm`` among them hold for all while these limiters are in use. But one request of each may go on
whatever was learnt, for the code that holds all other places may wait for it.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b
from weakref import WeakValueDictionary

from indus_nb.base.errors import UsageError
from indus_nb.base.messages import Usage

_SAMPLE = 8
"""Fewest ended requests that say how many are refused."""
_MANY_REFUSED = 0.15
"""Share of refused requests from which on they are not refused by accident."""
_LATE_SECONDS = 0.05
"""What a late request may be late and the next one be on time: a process that sleeps wakes up a little later."""
_MOST_TOKENS = 10_000_000
"""Most tokens that a server is believed to have counted for one request."""
_LOOK_SECONDS = 1.0
"""Longest sleep of a request that waits: another limiter may have ended meanwhile, and its rate with it."""
# What is collected while it is held may end requests on the same thread.
_lock = threading.RLock()


@dataclass(eq=False, slots=True)
class _Place:
    """A request that waits until it may go on; changed under the lock alone."""

    future: asyncio.Future[None] | None = None
    """What it waits for, if it could not go on at once."""
    is_in: bool = False
    has_gone: bool = False

    def let_in(self) -> None:
        """Wake it on its own loop."""
        self.is_in = True
        if self.future is None:
            return
        try:
            self.future.get_loop().call_soon_threadsafe(_end, self.future)
        except RuntimeError:  # its loop was closed, so nothing waits there
            self.is_in = False


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Account:
    """What a server has taught about the limits of one account; changed under the lock alone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.limiters: list[Limiter] = []
        self.allowed = math.inf
        """How many may go on at once, as far as the server has taught it."""
        self.spacing = 0.0
        """How far apart requests have to begin by the server's headers."""
        self.ended = self.refused = self.in_a_row = 0
        self.next = self.resumes = clock()

    @property
    def most(self) -> int:
        return sum(limiter.parallel for limiter in self.limiters)

    @property
    def going(self) -> int:
        return sum(limiter.going for limiter in self.limiters)

    @property
    def rate(self) -> tuple[float, float]:
        """Return the seconds that each request and each token take of the smallest rates."""
        spacing = token_seconds = 0.0
        for limiter in self.limiters:
            spacing, token_seconds = max(spacing, limiter.spacing), max(token_seconds, limiter.token_seconds)
        return spacing, token_seconds

    def let_in(self) -> None:
        """Let requests go on that wait: refused ones first, and of the limiter that has the fewest.

        One of each may always go on, for the code that holds the other places may wait for it.
        """
        while waiting := [limiter for limiter in self.limiters if limiter.can_let_in()]:
            if sum(limiter.inside for limiter in self.limiters) >= self._at_once():
                waiting = [limiter for limiter in waiting if not limiter.inside]
            if not waiting:
                return
            min(waiting, key=lambda limiter: (not limiter.refused_queue, limiter.inside)).let_in()

    def _at_once(self) -> int:
        return int(min(self.allowed, self.most))

    def delay(self, seconds: float) -> None:
        self.next = max(self.next, self.clock() - _LATE_SECONDS) + seconds

    def note(self) -> None:
        self.ended += 1
        most = self.most
        allowed = min(self.allowed, most)
        if self.ended < max(_SAMPLE, allowed):
            return
        share = self.refused / self.ended
        self.ended = self.refused = 0
        # By half of the share: refusals come back sooner than answers, so that there are too many in the count.
        after = max(1.0, allowed * (1 - share / 2)) if share > _MANY_REFUSED else allowed * 1.25 + 1
        self.allowed = after if after < most else math.inf
        self.let_in()


_accounts: WeakValueDictionary[bytes, _Account] = WeakValueDictionary()
"""The accounts in use, by a digest of what tells them apart, so that no key is kept here."""


class Limiter:
    """Lets requests begin; to be used on one event loop.

    Args:
        parallel: How many may go on at once.
        rpm: How many may begin in a minute; ``None`` for no limit.
        tpm: How many tokens they may read and write in a minute, cached ones aside; ``None`` for no limit.
        learns: Whether fewer go on at once where a server refuses many.
        clock: The time in seconds.

    Raises:
        UsageError: A limit is not above zero.
    """

    def __init__(
        self,
        parallel: int,
        rpm: float | None = None,
        tpm: float | None = None,
        *,
        learns: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if parallel < 1 or not all(limit is None or limit > 0 for limit in (rpm, tpm)):
            raise UsageError(
                "Limits are above zero: parallel is a whole number, rpm are requests a minute, tpm are tokens a minute."
            )
        self.parallel = parallel
        self.spacing: float = 0.0 if rpm is None else 60 / rpm
        self.token_seconds: float = 0.0 if tpm is None else 60 / tpm
        self._learns = learns
        self.inside: int = 0
        self.going: int = 0
        self._uncharged = 0
        self._queue: deque[_Place] = deque()
        self.refused_queue: deque[_Place] = deque()
        self.usage: Usage = Usage()
        """The tokens of the request that was answered last."""
        self._turn = asyncio.Lock()
        self._account = _Account(clock)
        self._account.limiters.append(self)

    def share(self, *account: str | None) -> None:
        """Share the limits of an account at a server with the other limiters that name it; before the first request.

        Args:
            *account: What tells it from others, such as address, key and model; no more than a digest is kept.
        """
        digest = blake2b(repr(account).encode(), digest_size=16).digest()
        with _lock:
            others = _accounts.get(digest)
            if others is None or not others.limiters:  # all have ended, and what they had learnt with them
                _accounts[digest] = self._account
            else:
                self._account = others
                others.limiters.append(self)

    def close(self) -> None:
        """Leave the account to the others; after the last request."""
        account = self._account
        with _lock:
            before = account.rate
            if self in account.limiters:
                account.limiters.remove(self)
            if account.rate != before:
                account.next = min(account.next, account.clock() + account.rate[0])
            account.let_in()

    @asynccontextmanager
    async def request(self, *, again: bool = False) -> AsyncGenerator[None]:
        """Wait until a request may begin; it goes on until the end of the context.

        Args:
            again: Whether a server has refused it before, so that it comes before others.
        """
        await self._enter(again=again)
        try:
            async with self._turn:  # one at a time, so that they begin in the order in which they came
                while (seconds := self._begin()) > 0:  # noqa: ASYNC110 - until a time, which threads may change
                    await asyncio.sleep(min(seconds, _LOOK_SECONDS))
            self.going += 1
            try:
                yield
            finally:
                self.going -= 1
        finally:
            self._leave()

    async def _enter(self, *, again: bool) -> None:
        place = _Place()
        with _lock:
            (self.refused_queue if again else self._queue).append(place)
            self._account.let_in()
            if place.is_in:
                return
            place.future = waited = asyncio.get_running_loop().create_future()
        try:
            await waited
        except asyncio.CancelledError:
            with _lock:
                place.has_gone = True
                if place.is_in:
                    self._leave()
            raise

    def _leave(self) -> None:
        with _lock:
            self.inside -= 1
            self._account.let_in()

    def can_let_in(self) -> bool:
        """Return whether a request waits that its own number lets go on; under the lock."""
        for queue in (self.refused_queue, self._queue):
            while queue and queue[0].has_gone:
                queue.popleft()
        return self.inside < self.parallel and bool(self.refused_queue or self._queue)

    def let_in(self) -> None:
        """Let the first request go on that waits; under the lock."""
        place = (self.refused_queue or self._queue).popleft()
        place.let_in()
        self.inside += place.is_in

    def _begin(self) -> float:
        """Take the turn of a request; returns the seconds until it is there, else 0."""
        account = self._account
        with _lock:
            seconds = max(account.next, account.resumes) - account.clock()
            if seconds > 0:
                return seconds
            spacing, token_seconds = account.rate
            tokens = _tokens(self.usage)
            self._uncharged += not tokens
            account.delay(max(spacing, account.spacing) + tokens * token_seconds)
            return 0.0

    def answered(self, usage: Usage | None = None) -> None:
        """Note that a request was answered, or failed for another reason than a limit.

        Args:
            usage: Its tokens, which the next one is believed to need as well; ``None`` if it failed.
        """
        with _lock:
            self._account.in_a_row = 0
            self._note()
            if usage is None:
                self._give_back()
            elif tokens := _tokens(usage):
                self.usage = usage
                self._account.delay(self._uncharged * tokens * self._account.rate[1])
                self._uncharged = 0

    def refused(self, seconds: float) -> None:
        """Note that a server has refused a request; while it refuses all, no request begins.

        Args:
            seconds: The time for which it asked not to be asked again.
        """
        account = self._account
        with _lock:
            account.refused += 1
            account.in_a_row += 1
            self._give_back()
            self._note()
            if account.in_a_row >= min(_SAMPLE, account.most) and account.going <= 1:  # this one, which goes on yet
                self.pause(seconds)

    def _give_back(self) -> None:
        """Take back the delay for the tokens of a request that has used none."""
        if self._uncharged:
            self._uncharged -= 1
        else:
            self._account.next -= _tokens(self.usage) * self._account.rate[1]

    def _note(self) -> None:
        if self._learns:
            self._account.note()

    def space(self, seconds: float) -> None:
        """Let requests begin this far apart, or as far as ``rpm`` says if that is more."""
        self._account.spacing = seconds

    def pause(self, seconds: float) -> None:
        """Let no request begin for a while; one that was asked for before and is longer stays."""
        account = self._account
        with _lock:
            account.resumes = max(account.resumes, account.clock() + seconds)

    @property
    def all_going(self) -> int:
        """Return how many requests of all limiters of the account go on: those that only wait do not."""
        with _lock:
            return self._account.going

    @property
    def paused_for(self) -> float:
        """Return the seconds for which nothing begins."""
        return max(0.0, self._account.resumes - self._account.clock())


def _tokens(usage: Usage) -> int:
    return min(max(0, usage.input + usage.cache_write + usage.output), _MOST_TOKENS)
