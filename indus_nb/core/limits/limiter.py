"""Limits of concurrent requests and of the rate at which they begin: for all workers together.

What this module promises: no more requests go on at once than were asked for, and no more begin in a minute than
``rpm`` and than a server says that it has room for. With ``tpm`` each is believed to need as many tokens as the one
that was answered last; the first ones, before any was, begin together, and delay the others by what they needed.
Requests begin in the order in which they were asked for; those that a server has refused come first. Where a server
refuses many, fewer go on at once, and more again once it does not. Where it refuses a few, as one of its machines may
at any time, the others go on. Where it refuses all, nothing begins for the time that it asks for.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

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
        self._most = self._allowed = float(parallel)
        self._learns = learns
        self._inside = self._going = self._uncharged = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._refused_queue: deque[asyncio.Future[None]] = deque()
        self._ended = self._refused = self._in_a_row = 0
        self._usual_spacing = self._spacing = 0.0 if rpm is None else 60 / rpm
        self._token_seconds = 0.0 if tpm is None else 60 / tpm
        self.usage: Usage = Usage()
        """The tokens of the request that was answered last."""
        self._clock = clock
        self._turn = asyncio.Lock()
        self._next = self._resumes = clock()
        self._paused = asyncio.Event()

    @asynccontextmanager
    async def request(self, *, again: bool = False) -> AsyncGenerator[None]:
        """Wait until a request may begin; it goes on until the end of the context.

        Args:
            again: Whether a server has refused it before, so that it comes before others.
        """
        await self._enter(again=again)
        try:
            async with self._turn:  # one at a time, so that all who waited for a pause do not begin together
                await self._wait()
                tokens = _tokens(self.usage)
                self._uncharged += not tokens
                self._delay(self._spacing + tokens * self._token_seconds)
            self._going += 1
            try:
                yield
            finally:
                self._going -= 1
        finally:
            self._inside -= 1
            self._let_in()

    async def _enter(self, *, again: bool) -> None:
        if not self._queue and not self._refused_queue and self._inside < int(self._allowed):
            self._inside += 1
            return
        place = asyncio.get_running_loop().create_future()
        (self._refused_queue if again else self._queue).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._inside -= 1
                self._let_in()
            raise

    def _let_in(self) -> None:
        while (queue := self._refused_queue or self._queue) and self._inside < int(self._allowed):
            place = queue.popleft()
            if not place.done():  # else its caller has gone
                self._inside += 1
                place.set_result(None)

    async def _wait(self) -> None:
        while (seconds := max(self._next, self._resumes) - self._clock()) > 0:
            self._paused.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._paused.wait()  # a pause may have become longer meanwhile
            except TimeoutError:
                pass

    def _delay(self, seconds: float) -> None:
        self._next = max(self._next, self._clock() - _LATE_SECONDS) + seconds

    def answered(self, usage: Usage | None = None) -> None:
        """Note that a request was answered, or failed for another reason than a limit.

        Args:
            usage: Its tokens, which the next one is believed to need as well; ``None`` if it failed.
        """
        self._in_a_row = 0
        self._note()
        if usage is None:
            self._give_back()
        elif tokens := _tokens(usage):
            self.usage = usage
            self._delay(self._uncharged * tokens * self._token_seconds)
            self._uncharged = 0

    def refused(self, seconds: float) -> None:
        """Note that a server has refused a request; while it refuses all, no request begins.

        Args:
            seconds: The time for which it asked not to be asked again.
        """
        self._refused += 1
        self._in_a_row += 1
        self._give_back()
        self._note()
        if self._in_a_row >= min(_SAMPLE, self._most) and self._going <= 1:  # this one, which has not ended yet
            self.pause(seconds)

    def _give_back(self) -> None:
        """Take back the delay for the tokens of a request that has used none."""
        if self._uncharged:
            self._uncharged -= 1
        else:
            self._next -= _tokens(self.usage) * self._token_seconds

    def _note(self) -> None:
        self._ended += 1
        if self._ended < max(_SAMPLE, self._allowed) or not self._learns:
            return
        share = self._refused / self._ended
        self._ended = self._refused = 0
        # By half of the share: refusals come back sooner than answers, so that there are too many in the count.
        after = self._allowed * (1 - share / 2) if share > _MANY_REFUSED else self._allowed * 1.25 + 1
        self._allowed = min(self._most, max(1.0, after))
        self._let_in()

    def space(self, seconds: float) -> None:
        """Let requests begin this far apart, or as far as ``rpm`` says if that is more."""
        self._spacing = max(self._usual_spacing, seconds)

    def pause(self, seconds: float) -> None:
        """Let no request begin for a while; one that was asked for before and is longer stays."""
        self._resumes = max(self._resumes, self._clock() + seconds)
        self._paused.set()

    @property
    def going(self) -> int:
        """Return how many requests go on: those that only wait do not."""
        return self._going

    @property
    def paused_for(self) -> float:
        """Return the seconds for which nothing begins."""
        return max(0.0, self._resumes - self._clock())


def _tokens(usage: Usage) -> int:
    return min(max(0, usage.input + usage.cache_write + usage.output), _MOST_TOKENS)
