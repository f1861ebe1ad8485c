"""Routing of interrupts of the kernel (SIGINT).

What this module promises:

- **A cell that waits for the agent counts interrupts** (`counted`). Nothing is raised there, because CPython can raise
  ``KeyboardInterrupt`` where no ``except`` covers it. The handler cancels the agent's work, so that nothing goes out
  for which the waiting thread would be too late. `AgentThread.drive` looks at the count, and raises `Interrupted`
  once the work has ended. What the interrupted cell has not begun yet, a job or a question, does
  not begin.
- **Code of the agent's is ended by an interrupt, and nothing else is** (`CodeInterrupts`). It is raised in that code,
  or the task in which the code awaits is cancelled. The kernel, its loop and the user's cells go on. A cell that waits
  counts the interrupt as well (`repeat`).
- **Our own work is not cut in half.** An interrupt that comes while output is being stored is put off to the end of
  that (`CodeInterrupts.postponed`). Before the first line of the code and after its last one it is noted and ends
  nothing.
- **Code that swallows an interrupt is interrupted again**, at its next line, also within its ``except``.
- **The handler that was there before is put back**, unless ours was replaced by another one.

Python runs handlers on the main thread, between any two instructions of it. So a handler here takes no lock, and on any
other thread the context managers do nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any, NoReturn, cast

_KEEP_SECONDS = 0.05


@contextlib.contextmanager
def counted(interrupts: list[int], noted: Callable[[], object] = lambda: None) -> Generator[None]:
    """Count interrupts within this context, and raise nothing.

    Args:
        interrupts: Each adds the signal's number to it.
        noted: Called with each, within the handler: it takes no lock, and raises nothing.
    """
    if not _on_main_thread():
        yield
        return

    def note(signum: int, _frame: FrameType | None) -> None:
        interrupts.append(signum)
        noted()

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous or signal.SIG_DFL)


def repeat() -> None:
    """Raise the interrupt again, on the main thread.

    This is for the handler that was installed before that of the code that was ended.
    """
    signal.raise_signal(signal.SIGINT)


class CodeInterrupts:
    """Routing of interrupts to one piece of code while it runs on the main thread.

    Attributes:
        task: The task that runs the code, if it awaits; it is cancelled while it waits.
        raised: Whether an interrupt was raised in code that does not await. If that goes on, it has swallowed it.
    """

    def __init__(self, *, noted: Callable[[], None], ends_code: Callable[[], bool], inside: Callable[[], bool]) -> None:
        """Create the routing, without installing a handler yet.

        Args:
            noted: Called with every interrupt that is routed here.
            ends_code: Whether the code runs at this moment, so that an interrupt ends it.
            inside: Whether the caller is a part of the code, and not of what runs while the code awaits.
        """
        self.task: asyncio.Task[None] | None = None
        self.raised: bool = False
        self._noted = noted
        self._ends_code = ends_code
        self._inside = inside
        self._routed = False
        self._postponing = False
        self._missed = False
        self._before: Any = None

    # On the main thread

    @contextlib.contextmanager
    def routed(self) -> Generator[None]:
        """Route interrupts to the code within this context."""
        if not _on_main_thread():
            yield
            return
        self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        self._routed = True
        try:
            yield
        finally:
            self._routed = False
            # Another handler is installed while the kernel runs a cell, and has this one put back later.
            if self.is_reached:
                signal.signal(signal.SIGINT, self._before or signal.SIG_DFL)
            if sys.gettrace() == self._trace:
                sys.settrace(None)

    def keep_routed(self, loop: asyncio.AbstractEventLoop) -> None:
        """Install the handler again whenever the kernel has put its own back.

        The kernel ignores interrupts between cells.

        Args:
            loop: The kernel's loop, which looks 20 times a second while interrupts are routed here.
        """
        loop.call_later(_KEEP_SECONDS, self._install_again, loop)

    def _install_again(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._routed:
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                self._before = signal.signal(signal.SIGINT, self._on_interrupt)
            self.keep_routed(loop)

    async def run(self, code: Coroutine[Any, Any, None]) -> None:
        """Run the code; frames below this one are ours, and are not interrupted."""
        await code

    @contextlib.contextmanager
    def postponed(self) -> Generator[None]:
        """Postpone interrupts that come within this context, which must be short, to its end."""
        if not _on_main_thread():
            yield
            return
        self._postponing = True
        try:
            yield
        finally:
            self._postponing = False
            if self._missed and self._ends_code():
                self._missed = False
                raise KeyboardInterrupt

    def _on_interrupt(self, _signum: int, frame: FrameType | None) -> None:
        """End the code, and only that; what it waits for is cancelled."""
        self._noted()
        if not self._ends_code():
            return
        if self._postponing:
            self._missed = True
        elif self.task is None:
            self._raise(frame)
        elif not self._inside() or _is_of_a_loop(frame):
            self.task.get_loop().call_soon_threadsafe(self.task.cancel)
        elif asyncio.current_task() is self.task:
            raise KeyboardInterrupt
        else:
            # A loop does not survive the other one in a task or callback that it looks after. Of a callback it takes no
            # notice of this one either, so what awaits is cancelled, too.
            self.task.get_loop().call_soon_threadsafe(self.task.cancel)
            raise asyncio.CancelledError

    def _raise(self, frame: FrameType | None) -> NoReturn:
        """Interrupt the code; if it has swallowed an interrupt before, also within its ``except``."""
        if self.raised and sys.gettrace() is None:
            sys.settrace(self._trace)
            while frame is not None and frame.f_globals is not globals():
                frame.f_trace = self._trace
                frame = frame.f_back
        self.raised = True
        raise KeyboardInterrupt

    def _trace(self, _frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line" and self._ends_code() and not self._postponing:
            raise KeyboardInterrupt  # which ends the tracing
        return self._trace

    # On any thread

    @property
    def is_reached(self) -> bool:
        """Return whether an interrupt of the main thread would be routed here."""
        return signal.getsignal(signal.SIGINT) == self._on_interrupt

    def send(self) -> None:
        """Interrupt the code.

        While a cell of the user's runs and the code awaits, its task is cancelled instead.
        """
        if self.is_reached:
            signal.pthread_kill(cast("int", threading.main_thread().ident), signal.SIGINT)
        elif self.task is not None:
            self.task.get_loop().call_soon_threadsafe(self.task.cancel)


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_of_a_loop(frame: FrameType | None) -> bool:
    """Return whether an interrupt would hit the event loop's own code, and so the next task."""
    return frame is None or frame.f_globals.get("__name__", "").partition(".")[0] in ("asyncio", "nest_asyncio2")
