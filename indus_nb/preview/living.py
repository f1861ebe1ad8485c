"""The life of a copy: cut off from the process that it was, confined, given its task, ended.

All of this runs in the copy, which has the frames of the original below it and must never return to them: it ends by
``_exit``, without any handler of Python's or of a library's.
"""

from __future__ import annotations

import gc
import os
import posix
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from indus_nb.preview.overlay import Overlay
from indus_nb.preview.report import Report, Task
from indus_nb.preview.separation import Limits, cut_off, limit
from indus_nb.preview.watching import watch
from indus_nb.sandbox.alone import lone_filter
from indus_nb.sandbox.launcher import confine

_DEVICES = ("null", "zero", "full", "random", "urandom")


def live(task: Task, pipe: int, scratch: str, limits: Limits, prepare: Callable[[], object]) -> NoReturn:
    """Do a task in the copy, and end it.

    Args:
        task: The task.
        pipe: Where its report is written.
        scratch: The directory that it may write to.
        limits: What it may take.
        prepare: Called first.
    """
    try:
        end = _End(task, pipe)
        try:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            sys.settrace(None)
            sys.setprofile(None)
            prepare()
            gc.freeze()  # else a collection would write to every object, and copy every page
            cut_off(pipe)
            limit(limits)
            confine(_rules(scratch), lone_filter(), network=False)
            _one_thread()
            overlay = Overlay(scratch, end.stop)
            end.files = overlay.told
            overlay.install()
            watch(end, scratch)
        except Exception as error:  # noqa: BLE001 - then nothing is run
            end.tell(Report("none", f"its copy could not be confined ({type(error).__name__}: {error})"))
        try:
            task.run(end.stop)
        except Exception as error:  # noqa: BLE001 - of the task itself: what the code raises is in its report
            end.tell(Report("none", f"its copy failed ({type(error).__name__}: {error})"))
        end.finish("done", "")
    finally:
        posix._exit(0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - coverage replaces the one of os


class _End:
    """Ends the copy, once.

    Attributes:
        begun: Whether it is about to end.
        files: What was done to files.
        calls: Functions in C that the code looked up.
    """

    def __init__(self, task: Task, pipe: int) -> None:
        self.begun = False
        self.files: list[str] = []
        self.calls: list[str] = []
        self._task = task
        self._pipe = pipe
        self._lock = threading.Lock()

    def stop(self, sentence: str) -> NoReturn:
        """End with what the code was about to do."""
        self.finish("stopped", sentence)

    def finish(self, how: str, why: str) -> NoReturn:
        """End with a report of the task.

        Args:
            how: How it ended; ``done`` leaves that to the task.
            why: What it was stopped at.
        """
        while not self._lock.acquire(blocking=False):
            time.sleep(1)  # another thread ends the process
        self.begun = True
        try:
            report = self._task.report()
        except BaseException:  # noqa: BLE001 - objects of the user's in a state between two
            report = Report()
        if how == "stopped":
            report.how, report.why = "stopped", why
        report.files, report.calls = self.files, self.calls
        self.tell(report)

    def tell(self, report: Report) -> NoReturn:
        """Send a report, and end."""
        data = report.to_bytes()
        while data:
            data = data[os.write(self._pipe, data) :]
        posix._exit(0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _rules(scratch: str) -> list[tuple[str, bool]]:
    """Everything may be read but devices, and only the directory may be changed."""
    read = [(entry.path, False) for entry in os.scandir("/") if entry.name != "dev"]
    return [*read, *((f"/dev/{name}", True) for name in _DEVICES), (scratch, True)]


def _one_thread() -> None:
    """Have libraries work without threads: theirs are not in the copy, and some would wait for them."""
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # else joblib runs a program to count them
    if "joblib" in sys.modules:
        import joblib  # pyright: ignore[reportMissingImports, reportMissingTypeStubs, reportUnknownVariableType]

        joblib.parallel_config(backend="sequential", n_jobs=1)  # pyright: ignore[reportUnknownMemberType]
    if "numpy" in sys.modules:
        try:
            import threadpoolctl  # pyright: ignore[reportMissingImports]
        except ImportError:
            return
        threadpoolctl.threadpool_limits(1)  # pyright: ignore[reportUnknownMemberType]
