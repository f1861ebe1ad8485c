"""Dispatch of work to the kernel's main thread: when it runs there, and how it ends.

What this module promises:

- **Where.** While a cell waits for the agent, that cell does the work (`MainThread.serving`). At other times the
  kernel's own loop does, between the user's cells. Where neither is there, as in a terminal, work is rejected.
- **Once, in order.** A job begins once, after those before it; one that is withdrawn before it begins never does.
- **To an end.** Every job ends, and `Job.done` is set on the agent's loop then. An interrupt, a time limit or an abort
  ends the work and nothing else: see ``interrupts``.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from indus_nb.kernel.run.agent_thread import Inbox
from indus_nb.kernel.run.interrupts import CodeInterrupts, repeat

if TYPE_CHECKING:
    from indus_nb.tools.tool import ToolError

_END_SECONDS = 5.0
_INSIST_SECONDS = 1.0
_current_job: ContextVar[Job | None] = ContextVar("indus_nb_job", default=None)
running: list[Job] = []
"""Jobs that have begun and not ended, the newest last."""


class Work(Protocol):
    """Work to run on the main thread."""

    def prepare(self) -> bool:
        """Prepare the work, also on the main thread.

        Returns whether ``run`` has to wait for something on a loop.
        """
        ...

    async def run(self, job: Job) -> None:
        """Do the work, on the main thread."""
        ...


def work_here() -> Work | None:
    """Return the work that the caller is a part of.

    The caller runs in its context, or in a thread that it started.
    """
    job = _current_job.get()
    if job is None and running and threading.get_ident() not in running[-1].threads_before:
        job = running[-1]
    return job.work if job is not None and job.is_running else None


class JobState(Enum):
    """State of a job in its life cycle."""

    WAITING = auto()
    """The main thread has not come to it."""
    WITHDRAWN = auto()
    """Its code must not run any more, and has not begun."""
    PREPARING = auto()
    """The main thread has begun it; its code has not begun."""
    RUNNING = auto()
    """Its code runs, and an interrupt ends that."""
    FINISHING = auto()
    """Its code is over; an interrupt ends nothing any more."""
    ENDED = auto()


class Job:
    """One piece of work, made on the agent's loop.

    ::

        WAITING ──▶ PREPARING ──▶ RUNNING ──▶ FINISHING ──▶ ENDED
           └──▶ WITHDRAWN ◀┘ ─────────────────────────────────▲

    Attributes:
        done: Set on the agent's loop when it has ended: with ``ToolError`` if it could not be done.
        state: Its state in the life cycle.
        threads_before: The threads that there were before its code began.
    """

    def __init__(self, work: Work, seconds: float | None, *, completes: bool = False) -> None:
        """Make a job, on the agent's loop.

        Args:
            seconds: How long its code may run; ``None`` for as long as it takes.
            completes: Whether it completes what others have begun.
        """
        from indus_nb.core.limits.budget import spending  # a user's cells are watched before anything is asked

        self.work = work
        self.completes = completes
        self._budget = spending()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.state: JobState = JobState.WAITING
        self.ended_by: Literal["user", "time", "agent"] | None = None
        self.interrupts: CodeInterrupts = CodeInterrupts(
            noted=self._note_interrupt,
            ends_code=lambda: self.state is JobState.RUNNING,
            inside=lambda: _current_job.get() is self,
        )
        self.threads_before: set[int] = set()
        self._seconds = seconds
        self._agent = asyncio.get_running_loop()
        self._time_limit: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Return whether its code runs, or has just ended."""
        return self.state in (JobState.RUNNING, JobState.FINISHING)

    # The life cycle

    def _move(self, since: JobState, to: JobState) -> bool:
        """Move from one state to another; return ``False`` if it is not in the first."""
        with self._lock:
            if self.state is not since:
                return False
            self.state = to
            return True

    def _begin(self) -> bool:
        return self._move(JobState.WAITING, JobState.PREPARING)

    def _start(self) -> bool:
        return self._move(JobState.PREPARING, JobState.RUNNING)

    def finish(self) -> None:
        """Ignore interrupts from now on.

        Called on the main thread, once all that could be ended has ended, or before what is never ended half-way.
        """
        # Without the lock: to wait for it could be interrupted. No other thread leads out of this state.
        if self.state is JobState.RUNNING:
            self.state = JobState.FINISHING

    def _end(self) -> None:
        with self._lock:  # from here on no interrupt is sent
            self.state = JobState.ENDED

    # On the main thread

    def run(
        self,
        run_awaiting: Callable[[Job, Coroutine[Any, Any, None]], None],
        ended: Callable[[], None],
        interrupted: Callable[[], bool],
    ) -> bool:
        """Do the work, unless that was begun, withdrawn or interrupted before.

        Args:
            ended: Called once all of the work has ended, before the agent is notified.
            interrupted: Whether an interrupt that came before this job's own handler was there is meant for it.
        """
        if not self._begin():
            if self._move(JobState.WITHDRAWN, JobState.ENDED):
                self._report(None)
            ended()
            return False
        self._agent.call_soon_threadsafe(self._limit_time)
        try:
            awaits = self.work.prepare()
        except Exception as error:  # noqa: BLE001 - the model reads it
            self._end()
            self._report(error)
            ended()
            return True
        whole = self._whole(ended, interrupted)
        if not awaits:
            with contextlib.suppress(StopIteration):
                whole.send(None)
        else:
            run_awaiting(self, whole)
        return True

    async def _whole(self, ended: Callable[[], None], interrupted: Callable[[], bool]) -> None:
        error: BaseException | None = None
        self.threads_before = {thread.ident or 0 for thread in threading.enumerate()}
        from indus_nb.core.limits.budget import code_spends_from

        token = _current_job.set(self)
        running.append(self)
        try:
            with code_spends_from(self._budget), self.interrupts.routed():
                try:
                    if self._start():
                        # Only now is no interrupt missed: one that comes later is raised here.
                        if self.ended_by == "user" or interrupted():
                            error = _refusal("Nothing was run: the user interrupted the cell before it began.")
                        else:
                            await self.interrupts.run(self.work.run(self))
                    self.finish()
                except BaseException as caught:  # noqa: BLE001 - it is not the fault of the code that runs this
                    error = caught
                finally:
                    self.finish()
                    self._end()
        finally:
            running.remove(self)
            _current_job.reset(token)
            try:
                ended()
            finally:
                self._report(error)

    def _note_interrupt(self) -> None:
        if self.state is not JobState.ENDED:
            self.ended_by = self.ended_by or "user"

    def _report(self, error: BaseException | None) -> None:
        """Report the end of the work to the agent's loop."""
        with contextlib.suppress(RuntimeError):  # that loop is closed: nothing waits
            self._agent.call_soon_threadsafe(self._set_done, error)

    # On the agent's loop

    def interrupt(self, why: Literal["time", "agent"]) -> None:
        """End the code if it runs; it is interrupted again if it does not end soon."""
        with self._lock:
            if not self.is_running:
                return
            self.ended_by = self.ended_by or why
            self.interrupts.send()
        self._agent.call_later(_INSIST_SECONDS if self.interrupts.raised else _END_SECONDS, self.interrupt, why)

    async def withdraw(self) -> None:
        """Withdraw the job if it has not begun; else end it.

        The end is waited for a while, unless a cell of the user's is in its way.
        """
        if self._move(JobState.WAITING, JobState.WITHDRAWN):
            return
        self._move(JobState.PREPARING, JobState.WITHDRAWN)
        self.interrupt("agent")
        if self.interrupts.is_reached or self.interrupts.task is None:
            await asyncio.wait([self.done], timeout=_END_SECONDS)
        if self.done.done():
            self.done.exception()  # marks it as retrieved, for nothing else will

    def fail(self, error: Exception) -> None:
        """Fail a job that has not begun and cannot run any more."""
        if self._move(JobState.WAITING, JobState.ENDED):
            self._report(error)

    def _limit_time(self) -> None:
        if self._seconds is not None and not self.done.done():
            self._time_limit = self._agent.call_later(self._seconds, self.interrupt, "time")

    def _set_done(self, error: BaseException | None) -> None:
        if self._time_limit is not None:
            self._time_limit.cancel()
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        elif isinstance(error, _tool_error()):
            self.done.set_exception(error)
        else:
            self.done.set_exception(_refusal(f"The code could not be run: {type(error).__name__}: {error}"))


class MainThread:
    """Dispatcher of the agent's work to the kernel's main thread.

    It is made on that thread: within a cell that runs, between cells for an attached program, or, where IPython's own
    configuration loads the extension, before the kernel has begun.
    """

    def __init__(self, shell: Any, *, in_cell: bool = True) -> None:
        self.inbox: Inbox | None = None
        self._shell = shell
        self._jobs: set[Job] = set()
        self._cell_runs = in_cell and not _is_starting(shell)
        self._waiting: deque[Job] = deque()
        self._current: Job | None = None
        shell.events.register("pre_run_cell", self._cell_begins)
        shell.events.register("post_run_cell", self._cell_ends)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop of the kernel's cells; ``None`` in a terminal, and before the kernel has begun."""
        loop: object = getattr(getattr(getattr(self._shell, "kernel", None), "io_loop", None), "asyncio_loop", None)
        return loop if isinstance(loop, asyncio.AbstractEventLoop) else None

    @property
    def cell_runs(self) -> bool:
        """Return whether a cell of the user's runs, be it one that waits for the agent."""
        return self._cell_runs

    @property
    def busy(self) -> bool:
        """Return whether a job would have to wait for a cell of the user's, or for the kernel to begin."""
        return self.inbox is None and (self._cell_runs or _is_starting(self._shell))

    def close(self, afterwards: Callable[[], None]) -> None:
        """Unregister from the events of the user's cells.

        ``afterwards`` is called once the cell that runs has ended.
        """
        for event, callback in (("pre_run_cell", self._cell_begins), ("post_run_cell", self._cell_ends)):
            with contextlib.suppress(ValueError):
                self._shell.events.unregister(event, callback)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(afterwards)

    @contextlib.contextmanager
    def serving(self, inbox: Inbox) -> Generator[None]:
        """Queue jobs in ``inbox``, which the calling thread serves within this context."""
        before, self.inbox = self.inbox, inbox
        try:
            yield
        finally:
            self.inbox = before
            for job in tuple(self._jobs):  # what came too late for this cell
                if job.state is JobState.WAITING:
                    try:
                        self._place(job)
                    except _tool_error() as error:
                        job.fail(error)

    async def do(self, work: Work, seconds: float | None = None, *, completes: bool = False) -> Job:
        """Run work on the main thread, and wait for its end.

        Called on the agent's loop; if that task is cancelled the work is ended.

        Args:
            seconds: How long its code may run before it is interrupted.
            completes: Whether it completes what others have begun: a cell that was interrupted does it all the same.

        Raises:
            ToolError: The main thread takes no work, the work failed, or it was interrupted before it began.
        """
        job = Job(work, seconds, completes=completes)
        self._jobs.add(job)
        try:
            self._place(job)
            await asyncio.shield(job.done)
        except asyncio.CancelledError:
            await job.withdraw()
            raise
        finally:
            self._jobs.discard(job)
        return job

    def _place(self, job: Job) -> None:
        inbox = self.inbox
        if inbox is not None:
            inbox.put(partial(self._run_in_cell, job))
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue, job)
        else:
            raise _refusal("No cell waits for the agent, so nothing can run in the kernel now.")

    # All that follows happens on the main thread

    def _run_in_cell(self, job: Job) -> None:
        inbox = self.inbox

        def ended() -> None:
            # The user meant the agent: the cell that waits counts it, before the agent could go on with the result.
            if job.ended_by == "user":
                repeat()

        job.run(self._run_nested, ended, lambda: inbox is not None and bool(inbox.interrupts) and not job.completes)

    def _run_nested(self, job: Job, whole: Coroutine[Any, Any, None]) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._shell.loop_runner(_followed(job, whole))
            return
        # The kernel's loop runs the cell that waits; it must go on for what the code awaits.
        import nest_asyncio2  # pyright: ignore[reportMissingTypeStubs]

        nest_asyncio2.apply(loop)  # pyright: ignore[reportUnknownMemberType]
        loop.run_until_complete(loop.create_task(_followed(job, whole)))

    def _queue(self, job: Job) -> None:
        self._waiting.append(job)
        self._next()

    def _next(self) -> None:
        if self._cell_runs or self._current is not None or not self._waiting:
            return
        self._current = self._waiting.popleft()
        self._current.run(self._run_as_task, self._job_ended, lambda: False)  # the kernel ignores those between cells

    def _run_as_task(self, job: Job, whole: Coroutine[Any, Any, None]) -> None:
        loop = cast("asyncio.AbstractEventLoop", self._loop)
        job.interrupts.task = loop.create_task(whole)
        job.interrupts.keep_routed(loop)

    def _job_ended(self) -> None:
        self._current = None
        self._soon()

    def _cell_begins(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread() and work_here() is None:
            self._cell_runs = True

    def _cell_ends(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread() and work_here() is None:
            self._cell_runs = False
            self._soon()

    def _soon(self) -> None:
        """Start the next waiting job, once the kernel has sent the end of the cell to the front end."""
        if self._loop is None:
            self._settle()
        elif self._waiting:
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        if not self._cell_runs:
            self._next()


async def _followed(job: Job, whole: Coroutine[Any, Any, None]) -> None:
    job.interrupts.task = cast("asyncio.Task[None]", asyncio.current_task())
    await whole


def _is_starting(shell: Any) -> bool:
    """Return whether the shell is a kernel's that has not begun, so that no cell can be running."""
    kernel = getattr(shell, "kernel", None)
    return kernel is not None and getattr(kernel, "io_loop", None) is None


def _tool_error() -> type[ToolError]:
    from indus_nb.tools.tool import ToolError  # a user's cells are watched before the tools are imported

    return ToolError


def _refusal(text: str) -> ToolError:
    return _tool_error()(text)
