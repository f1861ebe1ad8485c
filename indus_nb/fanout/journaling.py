"""Outcomes of rows on their way into the journal: those of all rows that end meanwhile, with one wait for the disk."""

from __future__ import annotations

import asyncio

from indus_nb.fanout.journal import Done, Journal


class Journaling:
    """Writes to a journal in a thread, as many outcomes at a time as have come; to be used on one event loop."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: list[tuple[str, Done, asyncio.Future[None]]] = []
        self._working: asyncio.Task[None] | None = None

    async def write(self, key: str, done: Done) -> None:
        """Write an outcome; who is cancelled meanwhile does not end that.

        Raises:
            OSError: It could not be written.
        """
        await asyncio.shield(self.put(key, done))

    def put(self, key: str, done: Done) -> asyncio.Future[None]:
        """Queue an outcome, which ``close`` waits for."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        written.add_done_callback(lambda each: each.cancelled() or each.exception())  # else asyncio logs it
        self._waiting.append((key, done, written))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._go_on())
        return written

    async def close(self) -> None:
        """Wait until all is written."""
        if self._working is not None:
            await self._working

    async def _go_on(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting, []
            failure: Exception | None = None
            try:
                await asyncio.to_thread(self._journal.add_all, [(key, done) for key, done, _ in together])
            except Exception as error:  # noqa: BLE001 - the waiting callers get it
                failure = error
            for _, _, written in together:
                if written.done():
                    continue
                if failure is None:
                    written.set_result(None)
                else:
                    written.set_exception(failure)
