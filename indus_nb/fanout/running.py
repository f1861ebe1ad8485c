"""Rows asked from synchronous code: in a thread with an event loop of its own.

What this module promises: an interruption loses nothing that is paid for, and what stands behind the call does not run
on with a part of the answers. It is raised once the rows that were asked have ended, with what they gave.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from indus_nb.base.errors import Interrupted
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.reporting import Contained, Reporter

_SLICE_SECONDS = 0.1
ResultT = TypeVar("ResultT", bound="Result")
MadeT = TypeVar("MadeT", bound="Result")


class Result(Protocol):
    """What a call returns."""

    @property
    def summary(self) -> str:
        """Return a line of what came of it."""
        ...

    @property
    def problems(self) -> Sequence[str]:
        """Return harmless problems, a sentence each."""
        ...


class _Stopped(BaseException):
    """The user has stopped work on rows; ``result`` is what the call would have returned, with the answers so far."""

    latest: Any = None
    """The result of the last one in this process."""

    def __init__(self, result: Result, name: str = "agent.interrupted") -> None:
        self.result: Any = result
        _Stopped.latest = result
        told = f"Interrupted: {result.summary}. {name} has the answers so far, {name}.retry() asks for the others."
        super().__init__("\n".join((told, *result.problems)))


class RowsInterrupted(_Stopped, Interrupted):
    """Interrupt of work on rows by the user; a ``KeyboardInterrupt``, which IPython shows as one line.

    Args:
        result: What the call would have returned, with the answers so far.
        name: What the user's code calls it.
    """


class RowsCancelled(_Stopped, asyncio.CancelledError):
    """The same in a task that code in a kernel has made: with ``KeyboardInterrupt`` the kernel's loop would end."""


def latest_interrupted() -> Any:
    """Return the result of the call that was interrupted last in this process; ``None`` if none was."""
    return _Stopped.latest


def _survives_interrupts() -> bool:
    """Return whether a ``KeyboardInterrupt`` from here ends no kernel: IPython catches it in the code of a cell."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    shell = sys.modules.get("IPython.core.interactiveshell")
    if shell is None or not shell.InteractiveShell.initialized():
        return True  # a program, whose loop hands it on
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is shell.InteractiveShell.run_code.__code__:
            return True
        frame = frame.f_back
    return False


def completed(make: Callable[[ResultT], MadeT], ask: Callable[[], ResultT]) -> MadeT:
    """Return what ``make`` makes of the result of ``ask``; an interruption has it, too.

    Raises:
        RowsInterrupted: The user has interrupted it; `RowsCancelled` in a task of a kernel.
    """
    try:
        result = ask()
    except _Stopped as stopped:
        raise type(stopped)(make(stopped.result)) from None
    return make(result)


class Running(Protocol):
    """Work on rows, which can be stopped from any thread."""

    @property
    def progress(self) -> Progress:
        """Return how far it is."""
        ...

    def stop(self) -> None:
        """Let no more rows begin."""
        ...

    def cancel(self) -> None:
        """Abort the rows that are asked, too."""
        ...


@contextmanager
def _interrupts(handle: Callable[[], None]) -> Generator[None]:
    """Have Ctrl-C call ``handle`` where ``KeyboardInterrupt`` could lose what is paid for, or where none would come.

    None comes where the caller keeps an event loop waiting: of a cell with ``await``, and of ``asyncio.run``. What they
    do themselves upon Ctrl-C needs that loop.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not _is_deaf(before):
        yield
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)
        handle()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_deaf(handler: Any) -> bool:
    """Return whether a handler of Ctrl-C would lose answers, or wait for the loop that waits for the caller."""
    if handler is signal.default_int_handler:
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    module: str = getattr(handler, "__module__", "") or ""
    return callable(handler) and module.partition(".")[0] != __name__.partition(".")[0]  # ours end what waits


class Caller(Generic[ResultT]):
    """The synchronous code that waits for work on rows.

    Args:
        work: The work, to show how far it is and to stop it.
        run: Does all of it, and returns what the call returns.
    """

    def __init__(self, work: Running, run: Callable[[], Coroutine[Any, Any, ResultT]]) -> None:
        self._work = work
        self._run = run
        self._interrupted = False

    def here(self, reporter: Reporter) -> ResultT:
        """Run the work, also where an event loop runs: in a thread with a loop of its own.

        An interruption stops it, another one cuts off the rows that are asked.

        Raises:
            IndusError: Nothing could be asked.
            RowsInterrupted: The user has interrupted it.
        """
        work = self._work
        shown = Contained(reporter)
        results: list[ResultT] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(asyncio.run(self._run()))
            except BaseException as error:  # noqa: BLE001 - raised again where it was called
                errors.append(error)
            ended.set()

        ended = threading.Event()  # for an interrupted Thread.join takes the thread for ended
        with _interrupts(self.interrupt):
            shown.begin(self.interrupt)
            threading.Thread(target=run, name="indus_nb rows", daemon=True).start()
            try:
                while not ended.is_set():
                    try:
                        ended.wait(_SLICE_SECONDS)
                        shown.show(work.progress)
                    except KeyboardInterrupt:
                        self.interrupt()
            except BaseException:
                work.cancel()  # no caller would get the answers, or could stop it
                shown.end(work.progress)
                raise
            shown.end(None if errors else work.progress)
            if errors:
                raise errors[0]
        if self._interrupted:
            raise (RowsInterrupted if _survives_interrupts() else RowsCancelled)(results[0])
        return results[0]

    def interrupt(self) -> None:
        """Let no more rows begin; called again, cut off the rows that are asked. From any thread, or a signal."""
        if self._interrupted:
            self._work.cancel()
        self._interrupted = True
        self._work.stop()
