"""Ending a run: a request that reaches it wherever it waits for a model or a tool, and nowhere else.

What this module promises:

- A wait inside ``AbortSignal.interruptible`` ends at once with ``RunAborted``; other waits are never cut short, so no
  event and no write is.
- Only the tasks that wait there are cancelled, and each of these cancellations is undone where its wait ends. A
  cancellation from elsewhere goes through unchanged.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, cast


class RunAborted(Exception):  # noqa: N818 - not an error: it was asked for
    """Raised inside a run where it waited when the abort was requested."""


class AbortSignal:
    """A request to end a run.

    It reaches the run at once wherever that waits for a model or a tool.
    """

    def __init__(self) -> None:
        self.requested: bool = False
        self.reason: str = "Request was aborted."
        self._waiting: dict[asyncio.Task[Any], int] = {}
        self._cancelled: set[asyncio.Task[Any]] = set()

    def request(self, reason: str | None = None) -> None:
        """End the run; the answer so far is kept, and ``reason`` is its error message."""
        if not self.requested:
            self.requested = True
            self.reason = reason or self.reason
            for task in tuple(self._waiting):
                self._cancelled.add(task)
                task.cancel()

    def interruptible(self) -> AbstractContextManager[None, None]:
        """Mark a wait that an abort may cut short; such waits may be nested.

        Raises:
            RunAborted: The abort was requested before or during the wait, and what is waited for did not return.
        """
        return self  # a run enters one for every piece of an answer, so none has an object of its own

    def __enter__(self) -> None:
        if self.requested:
            raise RunAborted
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._waiting[task] = self._waiting.get(task, 0) + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        aborted = task in self._cancelled
        left = self._waiting[task] - 1
        if left:
            self._waiting[task] = left
        else:
            del self._waiting[task]
            if aborted:
                self._cancelled.discard(task)
                task.uncancel()
        if aborted and isinstance(error, asyncio.CancelledError):
            raise RunAborted from None
