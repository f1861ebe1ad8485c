"""A copy of this process that does a task, waited for and ended.

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

from indus_nb.preview.living import live
from indus_nb.preview.possible import room_for_copy
from indus_nb.preview.report import MAX_BYTES, Report, Task, parsed
from indus_nb.preview.separation import Limits
from indus_nb.sandbox.temporary import Temporary


class Copy:
    """A copy of this process, and what it needs: a directory of its own, and a pipe to tell its result."""

    def __init__(self, seconds: float) -> None:
        """Make what it needs, before the fork, on any thread.

        Args:
            seconds: How long its report is waited for.
        """
        self._seconds = seconds
        self._directory = Temporary()
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._allowed_bytes = _allowed_bytes()
        self._process = 0

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
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._process = _forked()
            if self._process == 0:
                place = str(self._directory.path)
                limits = Limits(self._allowed_bytes, self._seconds)
                live(task, self._writing, place, limits, lambda: random.setstate(state))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(self._writing)
        self._writing = -1

    async def report(self) -> Report:
        """Wait for the report of the copy, end it, and return what it told; called once."""
        loop = asyncio.get_running_loop()
        whole: asyncio.Future[None] = loop.create_future()
        data = bytearray()

        def read() -> None:
            try:
                part = os.read(self._reading, MAX_BYTES)
            except BlockingIOError:
                return
            data.extend(part)
            if not part or len(data) > MAX_BYTES:
                loop.remove_reader(self._reading)
                whole.set_result(None)

        loop.add_reader(self._reading, read)
        try:
            await asyncio.wait([whole], timeout=self._seconds)
        finally:
            loop.remove_reader(self._reading)
            self._kill()
            ended = loop.run_in_executor(None, self._wait)
            status = await asyncio.shield(ended)
        if not whole.done():
            return Report("none", f"it takes longer than {self._seconds:g} s")
        return parsed(bytes(data[:MAX_BYTES])) or Report("none", _death(status))

    def abandon(self) -> None:
        """End it, if it has begun, without waiting for a report; called on the loop, instead of ``report``."""
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


def _forked() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of copies of processes that have threads
        return posix.fork()


def _death(status: int) -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return f"its copy ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return "its copy ended without a result"


def _allowed_bytes() -> int:
    """How much more memory than this process a copy may take: 1 GB, and no more than half of what it leaves free."""
    return min(1 << 30, max(room_for_copy(), 0) // 2)
