"""A copy of this process that does a task, followed and ended.

What this module promises: the calling thread is busy for the fork and no longer; whatever becomes of the copy, also if
the waiting task is cancelled, its process is killed and waited for, and its directory removed; a copy whose parent was
killed is killed too. Nothing of this process is changed in it: the copy never returns here.
"""

from __future__ import annotations

import asyncio
import os
import posix
import random
import signal
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from indus_nb.preview.living import live
from indus_nb.preview.possible import room_for_copy
from indus_nb.preview.report import Frames, Report, Task, parsed
from indus_nb.preview.separation import Limits
from indus_nb.sandbox.temporary import Temporary
from indus_nb.wire import JsonObject

_CHUNK = 1 << 18
_MAX_MEMORY = 2 << 30


class Copy:
    """A copy of this process, and what it needs: a directory of its own, and a pipe to send its result."""

    def __init__(self, seconds: float, readable: Sequence[tuple[str, bool | None]]) -> None:
        """Make what it needs, before the fork, on any thread.

        Args:
            seconds: How long it may run.
            readable: Rules of Landlock: paths that it may read; with ``None`` only list the directories there.
        """
        self._seconds = seconds
        self._readable = readable
        self._directory = Temporary()
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._allowed_bytes = _allowed_bytes()
        self._process = 0

    @classmethod
    async def made(cls, seconds: float, readable: Sequence[tuple[str, bool | None]]) -> Copy:
        """Make one in a thread; if the task is cancelled nothing is left of it.

        Args:
            seconds: As for the class.
            readable: As for the class.

        Returns:
            The copy, not forked yet.
        """
        making = asyncio.ensure_future(asyncio.to_thread(cls, seconds, readable))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_abandon_unused)
            raise

    @property
    def begun(self) -> bool:
        """Whether there is a process."""
        return self._process > 0

    def fork(self, task: Task) -> None:
        """Fork this process; the copy does the task and ends.

        Called once, on the main thread, where no handler of a signal may raise anything meanwhile. Monkey patches of
        ``os.fork`` are passed by: they are for processes that go on.

        Args:
            task: What to do in the copy.

        Raises:
            OSError: There cannot be another process.
        """
        state = random.getstate()  # which Python sets anew in a copy
        parent = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._process = _forked()
            if self._process == 0:
                place = str(self._directory.path)
                limits = Limits(self._allowed_bytes, self._seconds)
                live(task, self._writing, place, limits, self._readable, lambda: random.setstate(state), parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(self._writing)
        self._writing = -1

    async def follow(self, on_frame: Callable[[JsonObject, bytes], None]) -> Report:
        """Take what the copy sends until it ends, end it, and return its report; called once.

        Args:
            on_frame: Called with each frame but the report.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Report | None] = loop.create_future()
        frames = Frames()

        def read() -> None:
            try:
                ending = self._read(frames, on_frame)
            except BlockingIOError:
                return
            if ending is not None:
                loop.remove_reader(self._reading)
                ended.set_result(ending.report)

        loop.add_reader(self._reading, read)
        found: Report | None = None
        try:
            found = await asyncio.wait_for(ended, self._seconds)
        except TimeoutError:
            found = Report("none", f"it takes longer than {self._seconds:g} s")
        finally:
            loop.remove_reader(self._reading)
            self._kill()
            waited = loop.run_in_executor(None, self._wait)
            status = await asyncio.shield(waited)
        return found or Report("none", _death(status))

    def _read(self, frames: Frames, on_frame: Callable[[JsonObject, bytes], None]) -> _Ending | None:
        """Take what has come; returns how it ended, if it did."""
        part = os.read(self._reading, _CHUNK)
        try:
            for data, blob in frames.feed(part):
                if "how" in data:
                    return _Ending(parsed(data))
                on_frame(data, blob)
        except Exception as error:  # noqa: BLE001 - whatever a copy sends, it is the copy's failure
            return _Ending(Report("none", f"its copy failed ({type(error).__name__}: {error})"))
        return None if part else _Ending(None)

    def abandon(self) -> None:
        """End it, if it has begun, without waiting for a report; called on the loop, instead of ``follow``."""
        self._kill()
        asyncio.get_running_loop().run_in_executor(None, self._wait)

    def _kill(self) -> None:
        for kill in (os.killpg, os.kill) if self.begun else ():
            try:
                kill(self._process, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _wait(self) -> int:
        try:
            return os.waitpid(self._process, 0)[1] if self.begun else 0
        except ChildProcessError:
            return 0  # code of the user's waited for any process
        finally:
            for descriptor in (self._reading, self._writing):
                if descriptor >= 0:
                    os.close(descriptor)
            self._directory.remove()


def _abandon_unused(making: asyncio.Future[Any]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().abandon()


class _Ending(NamedTuple):
    report: Report | None


def _forked() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of copies of processes that have threads
        return posix.fork()


def _death(status: int) -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return f"its copy ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return "its copy ended without a result"


def _allowed_bytes() -> int:
    """How much more memory than this process a copy may take: 2 GB, and no more than half of what it leaves free."""
    return min(_MAX_MEMORY, max(room_for_copy(), 0) // 2)
