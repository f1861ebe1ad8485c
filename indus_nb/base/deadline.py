"""A time limit that stands still while the user is asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from types import TracebackType
from typing import Self


class Deadline:
    """A context as of ``asyncio.timeout``, whose limit stands still while questions are open."""

    def __init__(self, seconds: float | None) -> None:
        self._limit = asyncio.timeout(seconds)
        self._in_force = False
        self._left: float | None = None
        self._questions = 0

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        self._in_force = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._in_force = False  # tasks that the work has started may still ask
        return await self._limit.__aexit__(kind, error, trace)

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Pause the limit within this context; on the event loop of the limit."""
        now = asyncio.get_running_loop().time
        self._questions += 1
        if self._questions == 1 and self._running:
            until = self._limit.when()
            self._left = None if until is None else until - now()
            self._limit.reschedule(None)
        try:
            yield
        finally:
            self._questions -= 1
            if self._questions == 0 and self._running and self._left is not None:
                self._limit.reschedule(now() + self._left)

    @property
    def _running(self) -> bool:
        return self._in_force and not self._limit.expired()
