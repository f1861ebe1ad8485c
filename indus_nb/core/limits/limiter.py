"""Limits of concurrent requests and of the rate at which they begin: for all workers together.

What this module promises: requests begin in the order in which they were asked for, ``60 / rpm`` seconds apart at
least, so that no server that counts in seconds is passed either. A pause that a server asks for (status 429)
holds for all that have not begun.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from indus_nb.base.errors import UsageError


class Limiter:
    """Lets requests begin; to be used on one event loop.

    Args:
        parallel: How many may go on at once.
        rpm: How many may begin in a minute; ``None`` for no limit.
        clock: The time in seconds.

    Raises:
        UsageError: A limit is not above zero.
    """

    def __init__(self, parallel: int, rpm: float | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        if parallel < 1 or (rpm is not None and not rpm > 0):
            raise UsageError("Limits are above zero: parallel is a whole number, rpm are requests a minute.")
        self._slots = asyncio.Semaphore(parallel)
        self._spacing = 0.0 if rpm is None else 60 / rpm
        self._clock = clock
        self._turn = asyncio.Lock()
        self._next = self._resumes = clock()
        self._paused = asyncio.Event()

    @asynccontextmanager
    async def request(self) -> AsyncGenerator[None]:
        """Wait until a request may begin; it goes on until the end of the context."""
        async with self._slots:
            async with self._turn:  # one at a time, so that all who waited for a pause do not begin together
                await self._wait()
                self._next = self._clock() + self._spacing
            yield

    async def _wait(self) -> None:
        while (seconds := max(self._next, self._resumes) - self._clock()) > 0:
            self._paused.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._paused.wait()  # a pause may have become longer meanwhile
            except TimeoutError:
                pass

    def pause(self, seconds: float) -> None:
        """Let no request begin for a while; one that was asked for before and is longer stays."""
        self._resumes = max(self._resumes, self._clock() + seconds)
        self._paused.set()

    @property
    def paused_for(self) -> float:
        """Return the seconds for which nothing begins."""
        return max(0.0, self._resumes - self._clock())
