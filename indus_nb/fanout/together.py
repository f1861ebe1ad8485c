"""Work for several rows at once in a thread: what comes while it is busy is done together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")
DoneT = TypeVar("DoneT")


class Together(Generic[ItemT, DoneT]):
    """Hands items to a function in a thread, as many at a time as have come; to be used on one event loop.

    Args:
        work: Returns what became of each item, in their order; what it raises is raised for all of them.
    """

    def __init__(self, work: Callable[[Sequence[ItemT]], Sequence[DoneT]]) -> None:
        self._work = work
        self._waiting: list[tuple[ItemT, asyncio.Future[DoneT]]] = []
        self._working: asyncio.Task[None] | None = None

    async def do(self, item: ItemT) -> DoneT:
        """Have an item done; who is cancelled meanwhile does not end the work."""
        return await asyncio.shield(self.put(item))

    def put(self, item: ItemT) -> asyncio.Future[DoneT]:
        """Queue an item, which ``close`` waits for."""
        done: asyncio.Future[DoneT] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio logs it
        self._waiting.append((item, done))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._go_on())
        return done

    async def close(self) -> None:
        """Wait until all is done."""
        if self._working is not None:
            await self._working

    async def _go_on(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            try:
                results = await asyncio.to_thread(self._work, [item for item, _ in together])
            except Exception as error:  # noqa: BLE001 - the waiting callers get it
                for _, done in together:
                    if not done.done():
                        done.set_exception(error)
            else:
                for (_, done), result in zip(together, results, strict=True):
                    if not done.done():
                        done.set_result(result)
