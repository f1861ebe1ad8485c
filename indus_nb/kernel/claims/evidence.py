"""What calls have put out, read once: its numbers and dates, to be looked up as an answer writes them.

The work is bounded: so many characters and numbers are read, the last outputs first. Numbers that lines are counted by
are no values, and those that name the quartiles of a table are no percentages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple

from indus_nb.kernel.claims.dates import Day, dates_in
from indus_nb.kernel.claims.numbers import Form, Number, Reading, numbers_of_output
from indus_nb.kernel.claims.prose import blanked

_MAX_CHARACTERS = 200_000
_MAX_NUMBERS = 10_000
_LABELS = 3
"""How many lines count up at least where their first numbers are no values."""
_MAX_IN_TABLE = 120
"""How many numbers an output has at most whose lines and columns are compared."""
ROUNDING = 1e-9
"""What values may differ by, as a part of them, without being different."""


class Output(NamedTuple):
    """What a tool call has put out, as the model was shown it."""

    call_id: str
    text: str


class Kind(Enum):
    """How a number of an answer is found."""

    EXACT = "exact"
    ROUNDED = "rounded"
    PERCENT = "percent"
    DATE = "date"
    DIFFERENCE = "difference"
    RATIO = "ratio"
    CHANGE = "change"
    ASKED = "asked"
    """It stands in the user's own words."""
    UNREAD = "unread"
    """It is not in what was read of outputs that are too long to be read whole."""
    MISSING = "missing"


class Cell(NamedTuple):
    """A number or date of an output."""

    value: float
    output: int
    at: int


class Source(NamedTuple):
    """How a number was found, and what it is, or is computed from."""

    kind: Kind
    cells: tuple[Cell, ...] = ()


class Evidence:
    """The numbers and dates of outputs, to be looked up.

    Attributes:
        is_whole: Whether all outputs were read to their end.
        tables: Of each output with few numbers, the last first: the numbers of each line.
    """

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.is_whole: bool = True
        self.tables: list[list[list[Cell]]] = []
        self._cells: dict[float, Cell] = {}
        self._percentages: dict[float, Cell] = {}
        self._labels: dict[float, Cell] = {}
        self._days: dict[Day, Cell] = {}
        characters, numbers = _MAX_CHARACTERS, _MAX_NUMBERS
        for place in range(len(outputs) - 1, -1, -1):
            text = outputs[place].text[:characters]
            read = self._read(place, text, numbers)
            self.is_whole &= len(text) == len(outputs[place].text) and read <= numbers
            characters -= len(text)
            numbers = max(0, numbers - read)
        self._sorted = sorted(self._cells), sorted(self._percentages)

    def find(self, number: Number) -> Source | None:
        """Look a date or a number up, or else the numbers that it may be instead."""
        for day in number.days:
            if cell := self._days.get(day):
                return Source(Kind.DATE, (cell,))
        for reading in number.readings:
            if source := self._find_reading(number, reading):
                return source
        parts = [self.find(part) for part in number.parts]
        return parts[0] if parts and all(parts) else None

    def _find_reading(self, number: Number, reading: Reading) -> Source | None:
        cells, percentages = self._sorted
        value = _nearest(cells, reading if number.is_claim else Reading(reading.value, 0.0), number.sign)
        if value is not None:
            return Source(Kind.EXACT if abs(value) == reading.value else Kind.ROUNDED, (self._cells[value],))
        if number.form is Form.PERCENT:
            share = Reading(reading.value / 100, reading.step / 100)
            if (value := _nearest(cells, share, number.sign)) is not None:
                return Source(Kind.PERCENT, (self._cells[value],))
        elif (value := _nearest(percentages, reading, number.sign)) is not None:
            return Source(Kind.PERCENT, (self._percentages[value],))
        label = self._labels.get(reading.value) if number.is_rank else None
        return Source(Kind.EXACT, (label,)) if label else None

    def _read(self, output: int, text: str, limit: int) -> int:
        """Add what an output shows.

        Returns:
            How many numbers were read: one more than ``limit`` where there are more than that.
        """
        dates = sorted(islice(dates_in(text), limit), key=lambda dated: dated.start)
        for dated in dates:
            cell = Cell(0.0, output, dated.start)
            for year, month, day in dated.days:
                for shown in (Day(year, month, day), Day(year, month, None), Day(None, month, day)):
                    self._days.setdefault(shown, cell)
        text = blanked(text, ((dated.start, dated.end) for dated in dates))
        lines, count = _lines(output, text, limit - len(dates))
        labelled = _labelled(text, [[cell for cell, _ in line] for line in lines])
        for number, line in enumerate(lines):
            if number in labelled:
                cell, _ = line.pop(0)
                self._labels.setdefault(cell.value, cell)
            for place, (cell, is_percent) in enumerate(line):
                self._cells.setdefault(cell.value, cell)
                if is_percent and (place or not _begins_line(text, cell.at)):  # that would be the name of a quartile
                    self._percentages.setdefault(cell.value / 100, cell)
        if count <= _MAX_IN_TABLE:
            self.tables.append([[cell for cell, _ in line] for line in lines])
        return count + len(dates)


def _lines(output: int, text: str, limit: int) -> tuple[list[list[tuple[Cell, bool]]], int]:
    """Read the numbers of each line that has some, and whether they are percentages; count them."""
    lines: list[list[tuple[Cell, bool]]] = []
    before = count = 0
    for printed in islice(numbers_of_output(text), limit + 1):
        count += 1
        if not lines or text.find("\n", before, printed.start) >= 0:
            lines.append([])
        before = printed.start
        lines[-1].append((Cell(printed.value, output, printed.start), printed.is_percent))
    return lines, count


def _labelled(text: str, lines: Sequence[Sequence[Cell]]) -> set[int]:
    """Find the lines whose first number is their own: such as begin with numbers that count up."""
    found: set[int] = set()
    run: list[int] = []
    last: float | None = None
    for place, line in enumerate(lines):
        cell = line[0]
        digits = str(int(cell.value)) if cell.value.is_integer() and cell.value < 1e9 else ""
        is_number = (
            bool(digits)
            and _begins_line(text, cell.at)
            and text[cell.at : cell.at + len(digits) + 1].rstrip() == digits
        )
        if not (is_number and last is not None and cell.value == last + 1):
            run = []
        last = cell.value if is_number else None
        run.append(place)
        if last is not None and len(run) >= _LABELS:
            found.update(run)
    return found


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def _nearest(values: Sequence[float], reading: Reading, sign: int) -> float | None:
    """Return the value next to what is written that may have been rounded to it, of ``values`` in their order."""
    reach = reading.step / 2 + ROUNDING * reading.value
    for wanted in (reading.value, -reading.value)[sign < 0 : 2 - (sign > 0)]:
        at = bisect_left(values, wanted)
        near = min(values[max(0, at - 1) : at + 1], key=lambda value: abs(value - wanted), default=None)
        if near is not None and abs(near - wanted) <= reach:
            return near
    return None
