"""Where the numbers of an answer come from: each is looked up in what the calls of its run have put out.

What this module promises:

- Only outputs count, not data: a value of a table that no output shows supports nothing.
- A number stands for what it was rounded from, to the digits that are written, as a share or a percentage, in thousands
  or millions; its sign, if one is written, must be the output's.
- Differences, ratios and changes are looked for between two numbers, and count only where meeting one by chance is
  rare: first of numbers that are cited beside it, then of a line or a column of one output.
- The work is bounded: so many characters of outputs are read, so many pairs tried. Where outputs hold more, nothing is
  reported as missing, for it may stand in what was not read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from heapq import nsmallest
from itertools import combinations, islice
from typing import NamedTuple

from indus_nb.kernel.claims.dates import Day, dates_in
from indus_nb.kernel.claims.numbers import (
    MAX_CHARACTERS,
    Form,
    Number,
    Reading,
    numbers_of_answer,
    numbers_of_output,
)
from indus_nb.kernel.claims.prose import blanked

_MAX_CHARACTERS = 200_000
"""How much of all outputs is read, of the last ones first."""
_MAX_NUMBERS = 10_000
_LABELS = 3
"""How many lines count up at least where their first numbers are no values."""
_MAX_BESIDE = 6
"""How many numbers beside one are tried in pairs, the nearest first."""
_MAX_IN_TABLE = 120
"""How many numbers an output has at most whose lines and columns are compared."""
_MAX_PAIRS = 3_000
_CHANCE_NEXT = 0.4
"""How likely a computed value may be met by chance, for it to count: of the two numbers that are cited next to it."""
_CHANCE_BESIDE = 0.08
"""The same for more that are cited beside it."""
_CHANCE_ALONE = 0.02
"""The same for numbers that are not cited."""
_ROUNDING = 1e-9
_PARAGRAPH = re.compile(r"\n[ \t]*(?:\n|(?=[-*+|]|[0-9]{1,9}[.)]))")


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


class Place(NamedTuple):
    """A place in an output: the call that put it out, and where in its text, in characters."""

    call_id: str
    at: int


class Traced(NamedTuple):
    """A number of an answer, and where it comes from.

    Attributes:
        start: Where it begins in the answer, in characters.
        end: Where its last digit ends.
        kind: How it was found.
        places: Where it stands, or the two numbers that it is computed from; none if it is not from an output.
    """

    start: int
    end: int
    kind: Kind
    places: tuple[Place, ...] = ()


def trace(answer: str, outputs: Sequence[Output], asked: str = "") -> tuple[Traced, ...]:
    r"""Find out where each number of an answer comes from.

    >>> outputs = [Output("c1", "north  1234.56\nsouth   987.10")]
    >>> for found in trace("North has 1,234.6, south 987.1: 247.5 more, of 5,000.", outputs):
    ...     print(found.kind.value, *(place.at for place in found.places))
    rounded 7
    exact 23
    difference 7 23
    missing

    Args:
        answer: Markdown of a model, which may be hostile.
        outputs: Those of the run's calls, in their order; of several that have a number, the last counts.
        asked: The user's own words; the numbers in them are left to the user.

    Returns:
        The numbers and dates in the order of the text, without those that need no result (``Number.is_claim``).
    """
    numbers = numbers_of_answer(answer)
    if not numbers:
        return ()
    evidence = _Evidence(outputs)
    found = {number: source for number in numbers if (source := evidence.find(number)) is not None}
    left = [number for number in numbers if number not in found]
    if left:
        given = _Evidence([Output("", asked)])
        found |= {number: _Source(Kind.ASKED) for number in left if given.find(number) is not None}
        lost = [number for number in left if number.is_claim and number not in found]
        pairs = _Pairs(answer, evidence, found)
        found |= {number: source for number in lost if (source := pairs.find(number)) is not None}
    nowhere = _Source(Kind.MISSING if evidence.is_whole else Kind.UNREAD)
    return tuple(
        Traced(
            number.start, number.end, source.kind, tuple(Place(outputs[c.output].call_id, c.at) for c in source.cells)
        )
        for number in numbers
        if (source := found.get(number, nowhere)) is not nowhere or number.is_claim
    )


def untraced(answer: str, outputs: Sequence[Output], asked: str = "") -> tuple[tuple[int, int], ...]:
    """Return the spans of an answer that a view marks as "not from a result".

    >>> untraced("There are 40 rows, 17 of them empty.", [Output("c1", "40")]), untraced("It has 40 rows.", [])
    (((19, 21),), ())

    Args:
        answer: Markdown of a model.
        outputs: Those of the run's calls. Where none of them holds a number, nothing is marked.
        asked: The user's own words.

    Returns:
        Where numbers begin and end, in characters, in their order.
    """
    if not any(re.search(r"[0-9]", output.text) for output in outputs):
        return ()
    return tuple((each.start, each.end) for each in trace(answer, outputs, asked) if each.kind is Kind.MISSING)


class _Cell(NamedTuple):
    """A number or date of an output."""

    value: float
    output: int
    at: int


class _Source(NamedTuple):
    """How a number was found, and what it is, or is computed from."""

    kind: Kind
    cells: tuple[_Cell, ...] = ()


class _Evidence:
    """The numbers and dates of outputs, to be looked up.

    Attributes:
        is_whole: Whether all outputs were read to their end.
        tables: Of each output with few numbers, the last first: the numbers of each line.
    """

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.is_whole = True
        self.tables: list[list[list[_Cell]]] = []
        self._cells: dict[float, _Cell] = {}
        self._percentages: dict[float, _Cell] = {}
        self._labels: dict[float, _Cell] = {}
        self._days: dict[Day, _Cell] = {}
        characters, numbers = _MAX_CHARACTERS, _MAX_NUMBERS
        for place in range(len(outputs) - 1, -1, -1):
            text = outputs[place].text[:characters]
            read = self._read(place, text, numbers)
            self.is_whole &= len(text) == len(outputs[place].text) and read <= numbers
            characters -= len(text)
            numbers = max(0, numbers - read)
        self._sorted = sorted(self._cells), sorted(self._percentages)

    def find(self, number: Number) -> _Source | None:
        """Look a date or a number up, or else the numbers that it may be instead."""
        for day in number.days:
            if cell := self._days.get(day):
                return _Source(Kind.DATE, (cell,))
        for reading in number.readings:
            if source := self._find_reading(number, reading):
                return source
        parts = [self.find(part) for part in number.parts]
        return parts[0] if parts and all(parts) else None

    def _find_reading(self, number: Number, reading: Reading) -> _Source | None:
        cells, percentages = self._sorted
        value = _nearest(cells, reading if number.is_claim else Reading(reading.value, 0.0), number.sign)
        if value is not None:
            return _Source(Kind.EXACT if abs(value) == reading.value else Kind.ROUNDED, (self._cells[value],))
        if number.form is Form.PERCENT:
            share = Reading(reading.value / 100, reading.step / 100)
            if (value := _nearest(cells, share, number.sign)) is not None:
                return _Source(Kind.PERCENT, (self._cells[value],))
        elif (value := _nearest(percentages, reading, number.sign)) is not None:
            return _Source(Kind.PERCENT, (self._percentages[value],))
        label = self._labels.get(reading.value) if number.is_rank else None
        return _Source(Kind.EXACT, (label,)) if label else None

    def _read(self, output: int, text: str, limit: int) -> int:
        """Add what an output shows.

        Returns:
            How many numbers were read: one more than ``limit`` where there are more than that.
        """
        dates = sorted(islice(dates_in(text), limit), key=lambda dated: dated.start)
        for dated in dates:
            cell = _Cell(0.0, output, dated.start)
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


def _lines(output: int, text: str, limit: int) -> tuple[list[list[tuple[_Cell, bool]]], int]:
    """Read the numbers of each line that has some, and whether they are percentages; count them."""
    lines: list[list[tuple[_Cell, bool]]] = []
    before = count = 0
    for printed in islice(numbers_of_output(text), limit + 1):
        count += 1
        if not lines or text.find("\n", before, printed.start) >= 0:
            lines.append([])
        before = printed.start
        lines[-1].append((_Cell(printed.value, output, printed.start), printed.is_percent))
    return lines, count


def _labelled(text: str, lines: Sequence[Sequence[_Cell]]) -> set[int]:
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
    reach = reading.step / 2 + _ROUNDING * reading.value
    for wanted in (reading.value, -reading.value)[sign < 0 : 2 - (sign > 0)]:
        at = bisect_left(values, wanted)
        near = min(values[max(0, at - 1) : at + 1], key=lambda value: abs(value - wanted), default=None)
        if near is not None and abs(near - wanted) <= reach:
            return near
    return None


class _Derived(NamedTuple):
    """A value that two numbers make."""

    value: float
    kind: Kind
    cells: tuple[_Cell, _Cell]


class _Pairs:
    """Looks for numbers as differences, ratios and changes of two that outputs have."""

    def __init__(self, answer: str, evidence: _Evidence, found: Mapping[Number, _Source]) -> None:
        self._tables = evidence.tables
        self._breaks = [gap.end() for gap in _PARAGRAPH.finditer(answer[:MAX_CHARACTERS])]
        self._cited: dict[int, list[tuple[int, _Cell]]] = defaultdict(list)
        for number, source in found.items():
            if len(source.cells) == 1 and number.readings:
                self._cited[self._paragraph(number)].append((number.start, source.cells[0]))
        self._of_tables: dict[Form, list[_Derived]] = {}

    def find(self, number: Number) -> _Source | None:
        """Look for a number among what is cited beside it, then among lines and columns of outputs.

        What it is computed from counts as cited from then on: the difference of two, then how many percent that is.
        """
        cited = self._cited[self._paragraph(number)]
        source = self._beside(number, cited) or self._in_tables(number)
        if source:
            cited += ((number.start, cell) for cell in source.cells)
        return source

    def _beside(self, number: Number, cited: Sequence[tuple[int, _Cell]]) -> _Source | None:
        near = [cell for _, cell in nsmallest(_MAX_BESIDE, cited, key=lambda each: abs(each[0] - number.start))]
        for count in range(2, len(near) + 1):
            beside = _derived(combinations(sorted(near[:count], key=_order), 2), number.form)
            if source := _match(number, beside, _CHANCE_NEXT if count == 2 else _CHANCE_BESIDE):
                return source
        return None

    def _in_tables(self, number: Number) -> _Source | None:
        if number.form not in self._of_tables:
            self._of_tables[number.form] = _derived(islice(_pairs_of(self._tables), _MAX_PAIRS), number.form)
        return _match(number, self._of_tables[number.form], _CHANCE_ALONE)

    def _paragraph(self, number: Number) -> int:
        return bisect_left(self._breaks, number.start + 1)


def _match(number: Number, derived: Sequence[_Derived], limit: float) -> _Source | None:
    """Return what a number is one of, unless they lie so close that one would be near wherever the number were."""
    for value, step in number.readings:
        if not value:
            continue
        first, last = (bisect_left(derived, bound, key=_value) for bound in (value / 2, value * 2))
        at = bisect_left(derived, value, first, last, key=_value)
        near = min(derived[max(0, at - 1) : at + 1], key=lambda each: abs(each.value - value), default=None)
        chance = (last - first) * step / (1.5 * value)
        if near and chance <= limit and abs(near.value - value) <= step / 2 + _ROUNDING * value:
            return _Source(near.kind, near.cells)
    return None


def _pairs_of(tables: Iterable[Sequence[Sequence[_Cell]]]) -> Iterator[tuple[_Cell, _Cell]]:
    """Pair the numbers of lines and of columns."""
    for lines in tables:
        columns: dict[tuple[int, int], list[_Cell]] = defaultdict(list)
        for line in lines:
            yield from combinations(line, 2)
            for place, cell in enumerate(line):
                columns[len(line), place].append(cell)
        for column in columns.values():
            yield from combinations(column, 2)


def _derived(pairs: Iterable[tuple[_Cell, _Cell]], form: Form) -> list[_Derived]:
    """Compute what pairs of numbers may be cited as, without signs, in their order."""
    return sorted((each for pair in pairs for each in _computed(pair, form)), key=_value)


def _order(cell: _Cell) -> tuple[int, int]:
    return cell.output, cell.at


def _value(derived: _Derived) -> float:
    return derived.value


def _computed(pair: tuple[_Cell, _Cell], form: Form) -> Iterator[_Derived]:
    a, b = (cell.value for cell in pair)
    if form is Form.PLAIN:
        yield _Derived(abs(a - b), Kind.DIFFERENCE, pair)
        return
    scale = 100 if form is Form.PERCENT else 1
    for part, whole in ((a, b), (b, a)):
        if whole:
            yield _Derived(abs(scale * part / whole), Kind.RATIO, pair)
            if form is Form.PERCENT:
                yield _Derived(abs(scale * (part - whole) / whole), Kind.CHANGE, pair)
    if form is Form.PERCENT and abs(a) <= 100 and abs(b) <= 100:
        yield _Derived(abs(a - b) * (scale if abs(a) <= 1 and abs(b) <= 1 else 1), Kind.DIFFERENCE, pair)
