"""Limits of time and memory for a checkpoint."""

from __future__ import annotations

import time
from dataclasses import dataclass

_SECONDS_PER_BYTE = 3e-10
_SECONDS_PER_PART = 4e-8
"""Time to look at the type of a part."""
_SECONDS_PER_ELEMENT = 1e-7
"""Time to list an element of an array of objects, and to look at its type."""
_SECONDS_PER_OBJECT = 4e-6
"""Time to take a snapshot of a mutable object."""


class TooMuchError(Exception):
    """A variable is too large to be remembered; the message says why."""


@dataclass(slots=True)
class CheckpointBudget:
    """Processor time and memory that one checkpoint may take.

    Work is refused before it begins where its size tells what it takes, so that copying is estimated and everything
    else is measured.

    Attributes:
        room: Bytes that copies may take.
        copies: Processor time that copies may take, where that is apart from the rest.
        below_frames: Whether arrays of numpy below frames are copied, to notice what is written to them past pandas.
    """

    seconds: float = 0.05
    room: int = 256 << 20
    copies: float | None = None
    below_frames: bool = True
    _end: float = 0.0
    _copied: float = 0.0

    def start(self) -> None:
        """Begin to measure the time of this thread, unless that has begun: several walks may share a budget."""
        self._end = self._end or time.thread_time() + self.seconds

    def copy(self, size: int) -> None:
        """Account for a copy of bytes.

        Raises:
            TooMuchError: There is no room, or no time for it.
        """
        estimated = size * _SECONDS_PER_BYTE
        if size > self.room or self._copied + estimated > (self.seconds if self.copies is None else self.copies):
            raise TooMuchError(f"{size / 2**20:,.0f} MB" if size >= 2**20 else "no memory left for it")
        self.room -= size
        self._copied += estimated

    def elements(self, count: int) -> None:
        """Account for the elements of an array of objects, before they are listed.

        Raises:
            TooMuchError: There is no time for it.
        """
        estimated = count * _SECONDS_PER_ELEMENT
        if self.copies is None:
            self._spend(estimated)
        elif self._copied + estimated > self.copies:
            raise TooMuchError("too many parts")
        else:
            self._copied += estimated

    def grant(self, seconds: float) -> None:
        """Extend the time by what a copy took, where copies have a budget of their own."""
        if self.copies is not None:
            self._end += seconds

    def parts(self, count: int) -> None:
        """Account for a look at ``count`` parts of an object.

        Raises:
            TooMuchError: There is no time for it.
        """
        self._spend(count * _SECONDS_PER_PART)

    def objects(self, count: int) -> None:
        """Account for ``count`` objects that are to be remembered.

        Raises:
            TooMuchError: There is no time for it.
        """
        self._spend(count * _SECONDS_PER_OBJECT)

    def _spend(self, seconds: float) -> None:
        if time.thread_time() + seconds > self._end:
            raise TooMuchError("too many parts")
