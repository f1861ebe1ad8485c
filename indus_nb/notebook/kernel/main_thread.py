"""Work for the kernel's main thread: where and when it runs there, and how it is ended.

While a cell waits for the agent, that cell does the work. At other times the kernel's own loop does, between the
user's cells. An interrupt ends the work and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from functools import partial
from types import FrameType
from typing import Any, Literal, NoReturn, Protocol, cast

from indus_nb.notebook.kernel.agent_thread import Inbox
from indus_nb.tools.tool import ToolError

_PATIENCE = 5.0
_INSIST_EVERY = 1.0
_LISTEN_EVERY = 0.05
_here: ContextVar[Job | None] = ContextVar("indus_nb_job", default=None)
running: list[Job] = []
"""The jobs that go on, the newest last."""


class Work(Protocol):
    """Something to do on the main thread."""

    def prepare(self) -> bool:
        """Get ready, also on the main thread; tells whether ``run`` has to wait for something on a loop."""
        ...

    async def run(self, job: Job) -> None:
        """Do it."""
        ...


def work_here() -> Work | None:
    """What the calling code is a part of: the work in whose context it runs, or that started its thread."""
    job = _here.get()
    if job is None and running and threading.get_ident() not in running[-1].threads_before:
        job = running[-1]
    return job.work if job is not None and job.alive else None


class Job:
    """One piece of work, made on the agent's loop, and its end as that loop sees it.

    ``ended_by`` says who interrupted it.
    """

    def __init__(self, work: Work, seconds: float | None) -> None:
        self.work = work
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended_by: Literal["user", "time", "agent"] | None = None
        self.begun = False
        self.alive = False
        self.threads_before: set[int] = set()
        self._seconds = seconds
        self._agent = asyncio.get_running_loop()
        self._late: asyncio.TimerHandle | None = None
        self._withdrawn = False
        self._lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        self._armed = False
        self._held = False
        self._missed = False
        self._heard = False
        self._before: Any = None

    # On the main thread

    def run(
        self,
        run_awaiting: Callable[[Job, Coroutine[Any, Any, None]], None],
        ended: Callable[[], None],
        interrupted: Callable[[], bool],
    ) -> None:
        """Do the work unless that was begun, withdrawn or interrupted before.

        Args:
            run_awaiting: runs work that awaits something
            ended: called once nothing of the work goes on
            interrupted: whether an interrupt that came before this job's own handler was there is meant for it
        """
        if self.begun:
            ended()
            return
        self.begun = True  # before the next look: whoever withdraws it looks at this afterwards
        if self._withdrawn:
            self._end(None)
            ended()
            return
        self._agent.call_soon_threadsafe(self._note_begin)
        try:
            awaits = self.work.prepare()
        except Exception as error:  # noqa: BLE001 - the model reads it
            self._end(error)
            ended()
            return
        whole = self._whole(ended, interrupted)
        if not awaits:
            with contextlib.suppress(StopIteration):
                whole.send(None)
        else:
            run_awaiting(self, whole)

    def disarm(self) -> None:
        """Take note of interrupts from now on, but let them end nothing: all that could be ended has ended."""
        self._armed = False

    def follow(self, task: asyncio.Task[None]) -> None:
        """Cancel ``task`` for an interrupt that comes while it waits."""
        self._task = task

    @contextlib.contextmanager
    def unbroken(self) -> Generator[None]:
        """Put off interrupts that come within this context, which must be short, to its end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._missed and self._armed:
                self._missed = False
                raise KeyboardInterrupt

    async def _whole(self, ended: Callable[[], None], interrupted: Callable[[], bool]) -> None:
        error: BaseException | None = None
        self.threads_before = {thread.ident or 0 for thread in threading.enumerate()}
        token = _here.set(self)
        running.append(self)
        self.alive = True
        try:
            with self._interruptible():
                try:
                    self._armed = True
                    # Only now is no interrupt missed: one that comes later is raised here.
                    if self.ended_by == "user" or interrupted():
                        error = ToolError("Nothing was run: the user interrupted the cell before it began.")
                    elif not self._withdrawn:
                        await self.work.run(self)
                    self._armed = False
                except BaseException as caught:  # noqa: BLE001 - whoever runs this is not to blame
                    error = caught
                finally:
                    self._armed = False
        finally:
            if sys.gettrace() == self._trace:
                sys.settrace(None)
            self.alive = False
            running.remove(self)
            _here.reset(token)
            self._end(error)
            ended()

    def _end(self, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the agent's loop is closed: nobody waits
            self._agent.call_soon_threadsafe(self._finish, error)

    @contextlib.contextmanager
    def _interruptible(self) -> Generator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread is interrupted
            return
        self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            yield
        finally:
            with self._lock:  # from here on nobody sends one
                self.alive = False
            # Another handler stands there while the kernel runs a cell, and has this one put back later.
            if signal.getsignal(signal.SIGINT) == self._on_interrupt:
                signal.signal(signal.SIGINT, self._before or signal.SIG_DFL)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear interrupts also after the kernel, which ignores them between cells, has put its own handler back."""
        if self.alive:
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                self._before = signal.signal(signal.SIGINT, self._on_interrupt)
            loop.call_later(_LISTEN_EVERY, self.listen, loop)

    def _on_interrupt(self, _signum: int, frame: FrameType | None) -> None:
        """Raise in the code of this job, and only there; what it waits for is cancelled."""
        if not self.alive:
            return
        self.ended_by = self.ended_by or "user"
        if not self._armed:
            return
        if self._held:
            self._missed = True
        elif self._task is None:
            self._raise(frame)
        elif _here.get() is not self or _is_loops(frame):
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        elif asyncio.current_task() is self._task:
            raise KeyboardInterrupt
        else:
            # A loop does not survive the other one in a task or callback that it looks after.
            raise asyncio.CancelledError

    def _raise(self, frame: FrameType | None) -> NoReturn:
        """Interrupt the code; what has swallowed an interrupt before is interrupted in its ``except``, too."""
        if self._heard and sys.gettrace() is None:
            sys.settrace(self._trace)
            while frame is not None and frame.f_globals is not globals():
                frame.f_trace = self._trace
                frame = frame.f_back
        self._heard = True
        raise KeyboardInterrupt

    def _trace(self, _frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line" and self._armed and not self._held:
            raise KeyboardInterrupt  # which ends the tracing
        return self._trace

    # On the agent's loop

    def interrupt(self, why: Literal["time", "agent"]) -> None:
        """End the work that runs; it may take its time, but is interrupted again then."""
        with self._lock:
            if not self.alive:
                return
            self.ended_by = self.ended_by or why
            if self._is_reached:
                _interrupt_main()
            elif self._task is not None:  # a cell of the user's runs while this waits
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        self._agent.call_later(_INSIST_EVERY if self._heard else _PATIENCE, self.interrupt, why)

    @property
    def _is_reached(self) -> bool:
        """Whether an interrupt of the main thread would come here."""
        return signal.getsignal(signal.SIGINT) == self._on_interrupt

    async def withdraw(self) -> None:
        """Do not begin it, or end it and wait a while for that, unless a cell of the user's is in its way."""
        self._withdrawn = True
        if self.begun:
            self.interrupt("agent")
            if self._is_reached or self._task is None:
                await asyncio.wait([self.done], timeout=_PATIENCE)
            if self.done.done():
                self.done.exception()  # nobody will ask for it any more

    def fail(self, error: Exception) -> None:
        """End what cannot be done any more."""
        self._withdrawn = True
        self._end(error)

    def _note_begin(self) -> None:
        if self._seconds is not None and not self.done.done():
            self._late = self._agent.call_later(self._seconds, self.interrupt, "time")

    def _finish(self, error: BaseException | None) -> None:
        if self._late is not None:
            self._late.cancel()
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        elif isinstance(error, ToolError):
            self.done.set_exception(error)
        else:
            told = f"The code could not be run: {type(error).__name__}: {error}"
            self.done.set_exception(ToolError(told))


class MainThread:
    """The kernel's main thread, as the agent may have work done there. Made on that thread."""

    def __init__(self, shell: Any) -> None:
        self.inbox: Inbox | None = None
        self._shell = shell
        self._loop = _kernel_loop(shell)
        self._jobs: set[Job] = set()
        self._cell_runs = True  # the one that brought us
        self._waiting: deque[Job] = deque()
        self._current: Job | None = None
        self._between: list[Callable[[], object]] = []
        shell.events.register("pre_run_cell", self._cell_begins)
        shell.events.register("post_run_cell", self._cell_ends)

    @property
    def busy(self) -> bool:
        """Whether a job would have to wait for a cell of the user's."""
        return self.inbox is None and self._cell_runs

    def close(self, afterwards: Callable[[], None]) -> None:
        """Look at the user's cells no more; ``afterwards`` is called once the cell that runs has ended."""
        for event, callback in (("pre_run_cell", self._cell_begins), ("post_run_cell", self._cell_ends)):
            with contextlib.suppress(ValueError):
                self._shell.events.unregister(event, callback)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(afterwards)

    @contextlib.contextmanager
    def serving(self, inbox: Inbox) -> Generator[None]:
        """Within this context the calling thread takes jobs from ``inbox``."""
        before, self.inbox = self.inbox, inbox
        try:
            yield
        finally:
            self.inbox = before
            for job in tuple(self._jobs):  # what came too late for this cell
                if not job.begun:
                    try:
                        self._place(job)
                    except ToolError as error:
                        job.fail(error)

    async def do(self, work: Work, seconds: float | None = None) -> Job:
        """Have ``work`` done, for at most ``seconds`` from its begin; called on the agent's loop.

        Returns the job once it has ended. Cancelled, the job is interrupted. Raises ``ToolError`` where the main thread
        takes no work.
        """
        job = Job(work, seconds)
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

    def between_cells(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` on this thread once no cell runs; called on this thread."""
        self._between.append(callback)
        if not self._cell_runs:
            self._settle()

    def _place(self, job: Job) -> None:
        inbox = self.inbox
        if inbox is not None:
            inbox.put(partial(self._run_in_cell, job))
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue, job)
        else:
            raise ToolError("No cell waits for the agent, so nothing can run in the kernel now.")

    # All that follows happens on the main thread

    def _run_in_cell(self, job: Job) -> None:
        if job.begun:
            return
        inbox = self.inbox
        job.run(self._run_nested, _nothing, lambda: inbox is not None and bool(inbox.interrupts))
        if job.ended_by == "user":
            signal.raise_signal(signal.SIGINT)  # the user meant the agent: the cell that waits counts it

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
        job.follow(loop.create_task(whole))
        loop.call_later(_LISTEN_EVERY, job.listen, loop)

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
        """Go on with what waits, once the kernel has told the front end of the cell's end."""
        if self._loop is None:
            self._settle()
        elif self._waiting or self._between:
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        if self._cell_runs:
            return
        callbacks, self._between = self._between, []
        for callback in callbacks:
            callback()
        self._next()


async def _followed(job: Job, whole: Coroutine[Any, Any, None]) -> None:
    job.follow(cast("asyncio.Task[None]", asyncio.current_task()))
    await whole


def _kernel_loop(shell: Any) -> asyncio.AbstractEventLoop | None:
    """The loop that runs the kernel's cells; ``None`` in a terminal."""
    loop: object = getattr(getattr(getattr(shell, "kernel", None), "io_loop", None), "asyncio_loop", None)
    return loop if isinstance(loop, asyncio.AbstractEventLoop) else None


def _is_loops(frame: FrameType | None) -> bool:
    """Whether a loop's own code would be hit there, and the task with it that it is about to go on with."""
    return frame is None or frame.f_globals.get("__name__", "").partition(".")[0] in ("asyncio", "nest_asyncio2")


def _interrupt_main() -> None:
    signal.pthread_kill(cast("int", threading.main_thread().ident), signal.SIGINT)


def _nothing() -> None:
    """What follows a job in a cell."""
