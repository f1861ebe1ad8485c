"""The thread of the agent's event loop, and the wait of a cell for it.

What this module promises:

- **One loop, one daemon thread**, whatever the kernel's main thread is busy with. It ends with ``close``, its tasks
  before it.
- **A cell waits on its own thread** (`AgentThread.drive`), where output belongs to the cell. Meanwhile it executes the
  jobs that the agent leaves in its `Inbox`, in order, and calls ``tick``, if it is given one, 20 times a second.
- **An interrupt ends the wait** within ten seconds, three if it is repeated: the work is cancelled and waited for.
- **A failure of the waiting thread ends the work**, which must not go on unwatched.
- **Not in a forked process**, where this thread does not exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from indus_nb.base.errors import Interrupted, UsageError
from indus_nb.kernel.run.interrupts import counted

T = TypeVar("T")

_SLICE = 0.2
_TICK = 0.05
_CANCEL_SECONDS = 10.0
_REPEATED_CANCEL_SECONDS = 3.0


class Inbox(queue.Queue[Callable[[], None]]):
    """Queue of jobs from the agent's thread to the thread that waits.

    Attributes:
        interrupts: Grows with every SIGINT while that thread waits. Drawing goes on then, but a job that runs code or
            asks the user must not begin any more: the agent is cancelled only a moment later.
    """

    def __init__(self) -> None:
        super().__init__()
        self.interrupts: list[int] = []


class AgentThread:
    """An event loop in a daemon thread, which a cell can wait for."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closed = False
        self._process = os.getpid()
        self._background: set[asyncio.Task[object]] = set()
        threading.Thread(target=self._serve, name="indus_nb agent", daemon=True).start()

    def drive(
        self, work: Callable[[], Coroutine[Any, Any, T]], inbox: Inbox, tick: Callable[[], None] | None = None
    ) -> T:
        """Run work on the agent's loop and wait for it, executing jobs meanwhile.

        The jobs are executed on the calling thread.

        Jobs that are in the inbox before the work ends are executed before this returns. An interrupt cancels the work,
        which gets ten seconds to end in order, or three when interrupted again.

        Args:
            tick: Called about 20 times a second. Without one the thread wakes for jobs, and now and then to see
                whether it was interrupted.

        Returns:
            The result of the coroutine; its exception is raised.

        Raises:
            Interrupted: The user interrupted the wait.
            UsageError: This is a forked process, where the agent's thread is not.
        """
        self._check_process()
        running = _Work(work, self._loop, inbox)
        interrupts = inbox.interrupts = []
        with counted(interrupts, running.cancel):
            running.start()
            cancelled_at: float | None = None
            try:
                over = False
                while not over and not _given_up(cancelled_at, len(interrupts)):
                    over = running.ended.is_set()
                    _execute_jobs(inbox, 0 if over else _SLICE if tick is None else _TICK)
                    if interrupts and cancelled_at is None:
                        running.cancel()
                        cancelled_at = time.monotonic()
                    if tick is not None:
                        tick()
            except BaseException:
                # Drawing failed: the agent must not run unobserved.
                running.cancel()
                running.ended.wait(_CANCEL_SECONDS)
                raise
        if not running.ended.is_set():
            raise Interrupted(
                "The agent was told to stop and did not: it may still be busy. Restart the kernel to be sure of it."
            )
        if interrupts:
            raise Interrupted("Interrupted: the agent was stopped. What it did so far stays.")
        return running.result()

    def call(self, work: Callable[[], object]) -> None:
        """Call ``work`` in the agent's thread, without waiting for it."""
        self._loop.call_soon_threadsafe(work)

    def begin(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run ``work()`` in the agent's thread, without waiting for it.

        It runs in the context of the calling cell.
        """
        self._check_process()

        def create() -> None:
            task = self._loop.create_task(work())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

        self._loop.call_soon_threadsafe(create, context=copy_context())

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise UsageError(
                f"The agent lives in process {self._process}, from which this one (process {os.getpid()}) was forked: "
                "ask it there, or start a kernel of its own for this work."
            )

    def ask(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Run a coroutine in the agent's thread and wait for its result.

        Raises:
            TimeoutError: It took longer, and was cancelled.
        """
        asked = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return asked.result(seconds)
        finally:
            asked.cancel()

    def close(self) -> None:
        """Stop the loop and its thread.

        Its tasks are cancelled, and have ended by then; it drives nothing any more.
        """
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closed:
            # A task that raises one of these stops the loop; its caller gets it, and the others must go on.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=_CANCEL_SECONDS))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class _Work(Generic[T]):
    """A coroutine in the agent's loop, started and watched from another thread."""

    def __init__(
        self, work: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop, inbox: Inbox
    ) -> None:
        self.ended = threading.Event()
        self._work = work
        self._loop = loop
        self._inbox = inbox
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._value: list[T] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        # A copy of the cell's context lets what the agent's tasks print belong to this cell.
        self._loop.call_soon_threadsafe(self._begin, context=copy_context())

    def cancel(self) -> None:
        """Cancel the work and let it end; also called by a signal handler."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the work has ended with it
            self._loop.call_soon_threadsafe(self._cancel)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._body())
        self._task.add_done_callback(self._finish)

    def _cancel(self) -> None:
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True  # a second time it would cut short what is done to end in order
            self._task.cancel()

    async def _body(self) -> None:
        self._value.append(await self._work())

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self.ended.set()
        self._inbox.put(_wake_up)


def _execute_jobs(inbox: Inbox, timeout: float) -> None:
    """Execute the jobs in the inbox; wait for one for up to that many seconds if it is empty."""
    while True:
        try:
            job = inbox.get(timeout=timeout) if timeout else inbox.get_nowait()
        except queue.Empty:
            return
        job()
        timeout = 0


def _wake_up() -> None:
    """Do nothing: as a job, this ends the wait for one."""


def _given_up(cancelled_at: float | None, interrupts: int) -> bool:
    if cancelled_at is None:
        return False
    limit = _REPEATED_CANCEL_SECONDS if interrupts > 1 else _CANCEL_SECONDS
    return time.monotonic() - cancelled_at > limit
