"""Turns of a session: its current activity, and the commands that wait for it.

What this module promises:

- A session does one thing at a time (an ``Activity``). It begins only while the session is idle, and however it ends,
  the session is idle again in the same step.
- Commands that begin an activity are admitted one at a time, in the order in which they came. A command that looks at
  the state and begins without an ``await`` in between cannot be overtaken.
- An abort reaches the activity that goes on, and every command that had come before it and still waits.
- The session's extensions have started before the first command is admitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, TypeVar

from indus_nb.base.errors import SessionBusyError

T = TypeVar("T")


class Activity(Enum):
    """Activities of a session."""

    IDLE = "idle"
    RUNNING = "running"
    """A run goes on, or the wait before another attempt."""
    SETTLING = "settling"
    """The last run has ended; what follows it by itself (a compaction, queued messages) may lead to another."""
    COMPACTING = "compacting"
    NAVIGATING = "navigating"
    ADDING = "adding a message"
    """A message is added to the conversation outside a run."""
    REPLACING = "replacing the session"


_BEGINNINGS = frozenset(Activity) - {Activity.IDLE, Activity.SETTLING}
_TRANSITIONS: Mapping[Activity, frozenset[Activity]] = {
    Activity.IDLE: _BEGINNINGS,
    Activity.RUNNING: frozenset({Activity.SETTLING, Activity.IDLE}),
    Activity.SETTLING: frozenset({Activity.RUNNING, Activity.IDLE}),
    Activity.COMPACTING: frozenset({Activity.IDLE}),
    Activity.NAVIGATING: frozenset({Activity.IDLE}),
    Activity.ADDING: frozenset({Activity.IDLE}),
    Activity.REPLACING: frozenset({Activity.IDLE}),
}


async def _nothing() -> None:
    pass


class Turns:
    """The state machine of one session.

    Args:
        on_idle: called in the step in which an activity ends.
        prepare: awaited before a command is admitted; starts the session the first time.
    """

    def __init__(
        self,
        on_idle: Callable[[], None],
        on_abort: Callable[[], None] = lambda: None,
        prepare: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._on_idle = on_idle
        self._on_abort = on_abort
        self._prepare = prepare
        self._activity = Activity.IDLE
        self._task: asyncio.Task[Any] | None = None
        self._admission = asyncio.Lock()
        self._changed = asyncio.Event()
        self._aborts = 0

    @property
    def activity(self) -> Activity:
        """Return the current activity."""
        return self._activity

    @property
    def idle(self) -> bool:
        """Return whether nothing goes on."""
        return self._activity is Activity.IDLE

    @property
    def running(self) -> bool:
        """Return whether a run goes on, or is about to go on by itself."""
        return self._activity is Activity.RUNNING

    @property
    def admitting(self) -> bool:
        """Return whether a command is admitted that has not begun its activity yet."""
        return self._admission.locked()

    @property
    def ticket(self) -> int:
        """Return a mark to find out later whether a command was aborted meanwhile.

        A command reads it when it comes; see ``aborted_since``.
        """
        return self._aborts

    def aborted_since(self, ticket: int) -> bool:
        """Return whether an abort was requested after ``ticket`` was read."""
        return self._aborts != ticket

    @asynccontextmanager
    async def admission(self) -> AsyncGenerator[None]:
        """Admit one command at a time, in order, once the session has started."""
        async with self._admission:
            await self._prepare()
            yield

    # Aborting

    def request_abort(self) -> None:
        """Ask the activity to end, and reject every command that still waits."""
        self._aborts += 1
        self._on_abort()

    async def abort(self) -> None:
        """Request an abort and wait for the activity's end."""
        self.request_abort()
        if self._activity is not Activity.REPLACING:  # that cannot be aborted, and ends by itself
            await self.wait_for_end()

    async def make_idle(self) -> None:
        """Abort what is running, for an admitted command that begins something else.

        It begins that in the same step.

        Raises:
            SessionBusyError: The caller is part of what it would end.
        """
        self.check_caller()
        while not self.idle:
            self.request_abort()
            await self.wait_for_end()

    async def outcome(self, task: asyncio.Task[T]) -> T:
        """Wait for an activity and return its result.

        Cancelling the wait aborts the activity.
        """
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # else asyncio logs it
            await self.abort()
            raise

    # Waiting

    async def wait_for_turn(self, ticket: int | None = None) -> None:
        """Wait until a run may begin, or one goes on that can be joined.

        Args:
            ticket: the value of ``ticket`` when the command came; without one an abort does not matter.

        Raises:
            SessionBusyError: An abort was requested since, or the caller is part of what it would wait for.
        """
        while self._activity not in (Activity.IDLE, Activity.RUNNING):
            self.check_caller()
            await self._changed.wait()
        if ticket is not None and self.aborted_since(ticket):
            raise SessionBusyError("This was aborted before it had begun. Nothing was said or changed.")

    def check_caller(self) -> None:
        """Raise ``SessionBusyError`` in a handler that the activity waits for.

        There the caller would wait for itself.
        """
        if self._task is not None and asyncio.current_task() is self._task:
            raise SessionBusyError(
                f"The session is {self._activity.value}, and this call comes from a handler that it waits for. "
                "Make the call in a task of its own."
            )

    async def wait_for_end(self) -> None:
        """Wait until what goes on now has ended.

        Returns at once in a handler that the activity itself waits for.
        """
        if self._task is not None and asyncio.current_task() is not self._task:
            await asyncio.wait([self._task])

    async def wait_until_idle(self) -> None:
        """Wait until nothing goes on, nor what follows it.

        Returns at once in a handler of the activity.
        """
        while self._task is not None and asyncio.current_task() is not self._task:
            await self.wait_for_end()

    # Transitions

    def begin(self, activity: Activity, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do ``work`` as the session's activity, in a task of its own.

        Args:
            activity: what it is; the session must be idle.

        Returns:
            The task; ``outcome`` waits for it.
        """
        self._move(activity)
        task = self._task = asyncio.create_task(self._perform(work), name=f"indus_nb {activity.value}")
        task.add_done_callback(lambda task: self._end(task, work))
        return task

    def settle(self) -> None:
        """Enter ``SETTLING``: the run has ended, and nothing is known yet to follow it."""
        if self._activity is not Activity.SETTLING:
            self._move(Activity.SETTLING)

    def resume(self) -> None:
        """Enter ``RUNNING`` again: another run follows."""
        if self._activity is not Activity.RUNNING:
            self._move(Activity.RUNNING)

    async def _perform(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        try:
            return await work
        finally:
            self._end(task, work)

    def _end(self, task: asyncio.Task[Any] | None, work: Coroutine[Any, Any, Any]) -> None:
        if self._task is not task:
            return
        work.close()  # a task that is cancelled before its first step leaves it unused
        self._task = None
        self._move(Activity.IDLE)
        self._on_idle()

    def _move(self, activity: Activity) -> None:
        if activity not in _TRANSITIONS[self._activity]:
            raise AssertionError(f"a session that is {self._activity.value} cannot go on with {activity.value}")
        self._activity = activity
        self._changed.set()
        self._changed = asyncio.Event()
