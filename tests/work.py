"""Work counted instead of timed: what a busy machine makes slow it does not make more."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = str(Path(__file__).resolve().parent.parent / "indus_nb")


class Work:
    """How many lines of the package have run."""

    def __init__(self) -> None:
        self.lines = 0

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """For ``sys.settrace``."""
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        self.lines += event == "line"
        return self.trace


@contextmanager
def counting_work() -> Iterator[Work]:
    """Count the lines of the package that this thread runs, in coroutines too."""
    work, before = Work(), sys.gettrace()
    sys.settrace(work.trace)
    try:
        yield work
    finally:
        sys.settrace(before)


def grows_with(length: int, do: Callable[[int], object]) -> float:
    """How many times as much work ``do`` is for twice that length: 2 when in proportion, 4 when squared."""
    found: list[int] = []
    for size in (length, 2 * length):
        with counting_work() as work:
            do(size)
        found.append(work.lines)
    return found[1] / found[0]
