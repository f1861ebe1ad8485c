"""Running code of extensions: with a time limit that stands still while the user is asked, and so that none exits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, cast

from indus_nb.base.deadline import Deadline
from indus_nb.base.errors import IndusError
from indus_nb.core.session.dialogs import clock
from indus_nb.core.session.questions import bound

_log = logging.getLogger("indus_nb")


@contextlib.contextmanager
def contained() -> Generator[None]:
    """Make failures of an exit, and of a cancellation that is not the caller's own.

    Raises:
        IndusError: The code wanted to exit, or what it waited for was cancelled.
    """
    try:
        yield
    except SystemExit as error:
        raise IndusError(f"it wanted to exit ({error.code})") from error
    except asyncio.CancelledError as error:
        if cast("asyncio.Task[Any]", asyncio.current_task()).cancelling():
            raise
        raise IndusError("something that it waited for was cancelled") from error


class HandlerCalls:
    """The tasks that a session runs for its extensions; none of them outlives ``end``."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in the background. It must not raise."""
        self._keep(asyncio.create_task(work))

    async def limited(self, work: Awaitable[Any], seconds: float) -> Any:
        """Await ``work`` with a timeout; time in which it asks the user does not count.

        Args:
            seconds: How long it may take.

        Returns:
            What ``work`` returns.
        """
        running = Deadline(seconds)
        with bound(clock, running):
            task: asyncio.Future[Any] = asyncio.ensure_future(work)
        try:
            async with running:
                await asyncio.wait((task,))
        except TimeoutError:
            raise TimeoutError(f"it took longer than {seconds:g} s and was given up") from None
        finally:
            if not task.done():
                task.cancel()
                self._keep(task)
        return task.result()

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("What an extension was given up for failed afterwards", exc_info=error)

    async def end(self, seconds: float) -> None:
        """Cancel all tasks but the caller's, and wait at most ``seconds`` until they have ended."""
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            if not (isinstance(task, asyncio.Task) and task.cancelling()):  # those that clean up already may finish
                task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
