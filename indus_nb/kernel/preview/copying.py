"""Copy of this process for one task: forked, followed and ended.

What this module promises: the calling thread is busy for the fork and no longer; whatever becomes of the copy, also if
the waiting task is cancelled, its process is killed and waited for, and its directory removed; a copy whose parent was
killed is killed too. Nothing of this process is changed in it: the copy never returns here. A fork may be slow and be
given up meanwhile: then the thread that forks ends what it made, and nothing that it uses is closed before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posix
import random
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.preview.living import BeforeFork, live
from indus_nb.kernel.preview.possible import room_for_copy
from indus_nb.kernel.preview.report import CopyTask, Frames, Report, parsed
from indus_nb.kernel.preview.separation import Limits
from indus_nb.kernel.undo.objects.pages import Probe
from indus_nb.safety.sandbox.temporary import Temporary

_CHUNK = 1 << 18
_MAX_MEMORY = 2 << 30


class Copy:
    """A copy of this process, with a directory of its own and a pipe for its result.

    Attributes:
        process_id: Its number, which may be another process's once it has ended; 0 before the fork.
    """

    def __init__(self, seconds: float, readable: Sequence[tuple[str, bool | None]]) -> None:
        """Make the directory and the pipe, before the fork, on any thread.

        Args:
            seconds: Time limit of the copy.
            readable: Rules of Landlock: paths that it may read; with ``None`` only list the directories there.
        """
        self._seconds = seconds
        self._readable = readable
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC)
        try:
            self._directory = Temporary()
        except OSError:
            os.close(self._reading)
            os.close(self._writing)
            raise
        os.set_blocking(self._reading, False)
        self._allowed_bytes = _allowed_bytes()
        self._probe = Probe()  # kept: its page would be the copy's alone once this process gives it back
        self.process_id: int = 0
        self._process = -1  # a descriptor: its number may be another process's by now, where SIGCHLD is ignored
        self._state: Literal["new", "forking", "begun", "ended"] = "new"
        self._given_up = False
        self._lock = threading.Lock()

    @classmethod
    async def made(cls, seconds: float, readable: Sequence[tuple[str, bool | None]]) -> Copy:
        """Build a copy's resources in a thread; if the task is cancelled nothing is left of them.

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
        """Return whether there is a process."""
        return self._state == "begun"

    def fork(self, task: CopyTask) -> None:
        """Fork this process; the copy runs the task and ends.

        Called once, on the main thread, where no handler of a signal may raise anything meanwhile; does nothing once
        the copy was abandoned. Monkey patches of ``os.fork`` are passed by: they are for processes that go on.

        Raises:
            OSError: There cannot be another process.
        """
        with self._lock:
            if self._state != "new":
                return
            self._state = "forking"
        try:
            self._start(task)
        finally:
            with self._lock:
                given_up = self._given_up
                self._state = "ended" if given_up else "begun" if self._process >= 0 else "new"
            if given_up:
                self._kill()
                self._wait()

    def _start(self, task: CopyTask) -> None:
        before_fork = BeforeFork(os.getpid(), random.getstate(), self._probe)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            process = _forked()
            if process == 0:
                place = str(self._directory.path)
                limits = Limits(self._allowed_bytes, self._seconds)
                live(task, self._writing, place, limits, self._readable, before_fork)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.process_id = process
        try:
            self._process = os.pidfd_open(process)
        except OSError:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise
        os.close(self._writing)
        self._writing = -1

    async def follow(self, on_frame: Callable[[JsonObject, bytes], None]) -> Report:
        """Read the copy's output until it ends, end it, and return its report; called once.

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
            found = Report("none", f"it takes longer than {self._seconds:.2g} s", is_late=True)
        finally:
            loop.remove_reader(self._reading)
            self._state = "ended"
            self._kill()
            waited = loop.run_in_executor(None, self._wait)
            ended_by = await asyncio.shield(waited)
        return found or Report("none", _death(ended_by))

    def _read(self, frames: Frames, on_frame: Callable[[JsonObject, bytes], None]) -> _Ending | None:
        """Read the pipe; return how the copy ended, if it did."""
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
        """Kill the process, if any, without waiting for a report; called on the loop, instead of ``follow``."""
        with self._lock:
            self._given_up = True
            if self._state in ("forking", "ended"):  # the thread that forks does what follows
                return
            self._state = "ended"
        self._kill()
        asyncio.get_running_loop().run_in_executor(None, self._wait)

    def _kill(self) -> None:
        if self._process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def _wait(self) -> int:
        """Reap the process, and remove its resources; return the signal that ended it, or 0."""
        try:
            found = os.waitid(os.P_PIDFD, self._process, os.WEXITED) if self._process >= 0 else None
        except ChildProcessError:
            return 0  # code of the user's waited for any process
        else:
            return found.si_status if found is not None and found.si_code in (os.CLD_KILLED, os.CLD_DUMPED) else 0
        finally:
            for descriptor in (self._reading, self._writing, self._process):
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


def _death(number: int) -> str:
    if number not in (0, signal.SIGKILL):
        return f"its copy ended by {signal.Signals(number).name}"
    return "its copy ended without a result"


def _allowed_bytes() -> int:
    """Return how much more memory a copy may take: 2 GB, and no more than half of what it leaves free."""
    return min(_MAX_MEMORY, max(room_for_copy(), 0) // 2)
