"""Work counted instead of timed: what a busy machine makes slow it does not make more.

``grows_with`` counts lines of Python. What happens inside C (regular expressions, pandas) runs no lines: there
``cpu_stays_in_proportion`` compares processor time with itself, and ``peak_bytes`` looks at what was allocated.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = str(Path(__file__).resolve().parent.parent / "indus_nb")


class Work:
    """How many lines of the package have run, or with ``everywhere`` of all modules."""

    def __init__(self, *, everywhere: bool = False) -> None:
        self.lines = 0
        self._below = "" if everywhere else PACKAGE

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """For ``sys.settrace``."""
        if not frame.f_code.co_filename.startswith(self._below):
            return None
        self.lines += event == "line"
        return self.trace


@contextmanager
def counting_work(*, everywhere: bool = False) -> Iterator[Work]:
    """Count the lines of the package (or of all modules) that this thread runs, in coroutines too."""
    work, before = Work(everywhere=everywhere), sys.gettrace()
    sys.settrace(work.trace)
    try:
        yield work
    finally:
        sys.settrace(before)


def grows_with(length: int, do: Callable[[int], object], *, everywhere: bool = False) -> float:
    """How many times as much work ``do`` is for twice that length: 2 when in proportion, 4 when squared."""
    found: list[int] = []
    for size in (length, 2 * length):
        with counting_work(everywhere=everywhere) as work:
            do(size)
        found.append(work.lines)
    return found[1] / found[0]


def cpu_stays_in_proportion(length: int, do: Callable[[int], object]) -> bool:
    """Whether work inside C is in proportion to its length, by this thread's processor time for sixteen times as much.

    That is sixteen times the time then and 256 times if it is squared. Sixty-four lies between them, and leaves room
    for the step where what is worked on no longer fits into a cache, or its memory comes from the system each time.
    Noise only ever adds, so the least of several runs counts, and they are repeated until the result is good, at most
    eight times.
    """
    least = [float("inf"), float("inf")]
    for _ in range(8):
        for at, size in enumerate((length // 4, 4 * length)):
            began = time.thread_time()
            do(size)
            least[at] = min(least[at], time.thread_time() - began)
        if least[1] < 64 * least[0]:
            return True
    return False


def peak_bytes(do: Callable[[], object]) -> int:
    """How much memory ``do`` holds at once, at most, in what Python and numpy allocate."""
    tracemalloc.start()
    try:
        do()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
