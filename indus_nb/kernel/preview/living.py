"""The life of a copy: cut off from the process that it was, confined, given its task, ended.

All of this runs in the copy, which has the frames of the original below it and must never return to them: it ends by
``_exit``, without any handler of Python's or of a library's.
"""

from __future__ import annotations

import gc
import os
import posix
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.preview.overlay import Overlay
from indus_nb.kernel.preview.report import CopyTask, Report, packed
from indus_nb.kernel.preview.separation import Limits, cut_off, limit
from indus_nb.kernel.preview.watching import prober, watch
from indus_nb.kernel.undo.objects import libraries
from indus_nb.kernel.undo.objects.pages import Probe
from indus_nb.safety.effects import Effect
from indus_nb.safety.sandbox.filters import lone_filter
from indus_nb.safety.sandbox.launcher import confine

_DEVICES = ("null", "zero", "full", "random", "urandom")


class BeforeFork(NamedTuple):
    """State of the process before the fork, for its copy.

    Attributes:
        random: The state of Python's random numbers, which Python sets anew in a copy.
        probe: Finds out whether the system shows which pages are the copy's own.
    """

    process: int
    random: Any
    probe: Probe


def live(
    task: CopyTask,
    pipe: int,
    scratch: str,
    limits: Limits,
    readable: Sequence[tuple[str, bool | None]],
    before: BeforeFork,
) -> NoReturn:
    """Run a task in the copy, and end the copy.

    Args:
        pipe: Descriptor that its frames are written to.
        scratch: The directory that it may write to.
        limits: Resource limits of the copy.
        readable: Rules of Landlock: paths that it may read; with ``None`` only list the directories there.
        before: State from before the fork.
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
            random.setstate(before.random)
            gc.freeze()  # else a collection would write to every object, and copy every page
            pages = before.probe.pages()
            libraries.follow(pages)
            cut_off(pipe, *(() if pages is None else (pages.number,)))
            limit(limits)
            _one_thread()  # before it is confined: what it imports may lie where the copy can read nothing
            confine(
                [*_of_processes(readable), *((f"/dev/{name}", True) for name in _DEVICES), (scratch, True)],
                lone_filter(),
                network=False,
                parent=before.process,
            )
            _name_cells_as(before.process)
            here = sys._getframe()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            end.files = Overlay(scratch, end.stop, end.effects, counts=lambda: not prober(here))
            end.files.install()
            watch(end, scratch, _of_processes(readable))
        except Exception as error:  # noqa: BLE001 - then nothing is run
            end.tell(Report("none", f"its copy could not be confined ({type(error).__name__}: {error})"))
        try:
            task.run(end.stop, end.send, end.effects)
        except Exception as error:  # noqa: BLE001 - of the task itself: what the code raises is in its report
            end.tell(Report("none", f"its copy failed ({type(error).__name__}: {error})"))
        end.finish("done", "")
    finally:
        posix._exit(0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - coverage replaces the one of os


class _End:
    """The end of the copy, which comes once.

    Attributes:
        effects: Effects on the copy's own files, and those that cannot be seen.
    """

    def __init__(self, task: CopyTask, pipe: int) -> None:
        self.begun = False
        self.effects: list[Effect] = []
        self.files: Overlay | None = None
        self._task = task
        self._pipe = pipe
        self._lock = threading.Lock()
        self._sending = threading.RLock()

    def stop(self, effect: Effect) -> NoReturn:
        """End with what the code was about to do."""
        self.effects.append(effect)
        self.finish("stopped", effect.words)

    def finish(self, how: str, why: str) -> NoReturn:
        """End with a report of the task.

        Args:
            how: The way in which it ended; ``done`` leaves that to the task.
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
        left = self.files.left() if self.files is not None else []
        report.effects = [*self.effects, *left, *report.effects]
        self.tell(report)

    def send(self, data: JsonObject, blob: bytes = b"") -> None:
        """Send a frame over the pipe."""
        rest = memoryview(packed(data, blob))
        with self._sending:
            while rest:
                rest = rest[os.write(self._pipe, rest) :]

    def tell(self, report: Report) -> NoReturn:
        """Send a report, and end."""
        self.send(report.to_json())
        posix._exit(0)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _of_processes(readable: Sequence[tuple[str, bool | None]]) -> list[tuple[str, bool | None]]:
    """Return the rules, with little of ``/proc``: the environment that this process began with has keys in it."""
    own = [f"/proc/self/{name}" for name in ("status", "stat", "statm", "maps", "limits", "cgroup", "mountinfo", "fd")]
    own = [os.path.realpath(path) for path in own]
    about = [
        f"/proc/{name}" for name in ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems", "sys")
    ]
    return [*(rule for rule in readable if rule[0] != "/proc"), *((path, False) for path in (*own, *about))]


def _name_cells_as(process: int) -> None:
    """Have warnings and tracebacks name code by the files that it has in the process that was copied."""
    compiler: Any = sys.modules.get("ipykernel.compiler")
    if compiler is not None:
        place = os.path.join(tempfile.gettempdir(), f"ipykernel_{process}")
        compiler.get_tmp_directory = lambda: place


def _one_thread() -> None:
    """Make libraries work without threads: theirs are not in the copy, and some would wait for them."""
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # else joblib runs a program to count them
    if "joblib" in sys.modules:
        import joblib  # pyright: ignore[reportMissingImports, reportMissingTypeStubs, reportUnknownVariableType]

        joblib.parallel_config(backend="sequential", n_jobs=1)  # pyright: ignore[reportUnknownMemberType]
    if "numpy" in sys.modules:
        try:
            import threadpoolctl  # pyright: ignore[reportMissingImports, reportMissingTypeStubs]
        except ImportError:
            return
        threadpoolctl.threadpool_limits(1)  # pyright: ignore[reportUnknownMemberType]
