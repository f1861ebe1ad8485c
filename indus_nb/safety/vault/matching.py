"""Known values in a text, found in a time that depends on the text and hardly on how many values there are."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from itertools import chain


class Marks:
    """Replacement of known values by their marks, the longest where several begin.

    Args:
        marks: The mark of each value; none of the values is empty.
    """

    def __init__(self, marks: Mapping[str, str]) -> None:
        self._marks = marks
        self._sorted = sorted(marks)
        self._width = min(map(len, marks), default=0)
        self._longest = max(map(len, marks), default=0)
        lengths: dict[str, set[int]] = {}
        for value in marks:
            lengths.setdefault(value[: self._width], set()).add(len(value))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        # Where none of the values begins is found without a step of Python.
        signs = [f"[{''.join(map(re.escape, {value[at] for value in marks}))}]" for at in range(self._width)]
        self._pattern = re.compile(f"{signs[0]}(?={''.join(signs[1:])})") if signs else None

    def hide(self, text: str) -> str:
        """Return a text with marks in the place of values."""
        if self._pattern is None:
            return text
        pieces: list[str] = []
        done = 0
        for found in self._pattern.finditer(text):
            at = found.start()
            if at >= done and (value := self._value_at(text, at)) is not None:
                pieces += [text[done:at], self._marks[value]]
                done = at + len(value)
        return "".join([*pieces, text[done:]]) if pieces else text

    def _value_at(self, text: str, at: int) -> str | None:
        for length in self._lengths.get(text[at : at + self._width], ()):
            if (value := text[at : at + length]) in self._marks:
                return value
        return None

    def open_at(self, text: str) -> int:
        """Return where a value may have begun at the end of a text that goes on; its length if none has."""
        if self._pattern is None:
            return len(text)
        begun = (found.start() for found in self._pattern.finditer(text, max(len(text) - self._longest + 1, 0)))
        likely = (at for at in begun if text[at : at + self._width] in self._lengths)
        short = range(max(len(text) - self._width + 1, 0), len(text))
        return next((at for at in chain(likely, short) if self._goes_on(text[at:])), len(text))

    def _goes_on(self, end: str) -> bool:
        at = bisect_right(self._sorted, end)
        return at < len(self._sorted) and self._sorted[at].startswith(end)
