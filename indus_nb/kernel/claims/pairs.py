"""Numbers that two others make: their difference, their ratio, or how many percent one differs from the other.

Among many numbers nearly every value is met by some pair. So it counts only where that is no chance: by how close the
values lie that pairs make, and how many digits are written.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import combinations, islice
from typing import NamedTuple

from indus_nb.kernel.claims.evidence import ROUNDING, Cell, Evidence, Kind, Source
from indus_nb.kernel.claims.numbers import MAX_CHARACTERS, Form, Number

_MAX_BESIDE = 6
"""How many numbers beside one are tried in pairs, the nearest first."""
_MAX_PAIRS = 3_000
_CHANCE_NEXT = 0.4
"""How likely a computed value may be met by chance, for it to count: of the two numbers that are cited next to it."""
_CHANCE_BESIDE = 0.08
"""The same for more that are cited beside it."""
_CHANCE_ALONE = 0.02
"""The same for numbers that are not cited."""
_PARAGRAPH = re.compile(r"\n[ \t]*(?:\n|(?=[-*+|]|[0-9]{1,9}[.)]))")


class _Derived(NamedTuple):
    """A value that two numbers make."""

    value: float
    kind: Kind
    cells: tuple[Cell, Cell]


class Pairs:
    """Looks for numbers as differences, ratios and changes of two that outputs have."""

    def __init__(self, answer: str, evidence: Evidence, found: Mapping[Number, Source]) -> None:
        self._tables = evidence.tables
        self._breaks = [gap.end() for gap in _PARAGRAPH.finditer(answer[:MAX_CHARACTERS])]
        self._cited: dict[int, list[tuple[int, Cell]]] = defaultdict(list)
        for number, source in found.items():
            if len(source.cells) == 1 and number.readings:
                self._cited[self._paragraph(number)].append((number.start, source.cells[0]))
        self._of_tables: dict[Form, list[_Derived]] = {}

    def find(self, number: Number) -> Source | None:
        """Look for a number among what is cited beside it, then among lines and columns of outputs.

        What it is computed from counts as cited from then on: the difference of two, then how many percent that is.
        """
        cited = self._cited[self._paragraph(number)]
        source = self._beside(number, cited) or self._in_tables(number)
        if source:
            cited += ((number.start, cell) for cell in source.cells)
        return source

    def _beside(self, number: Number, cited: Sequence[tuple[int, Cell]]) -> Source | None:
        near = [cell for _, cell in nsmallest(_MAX_BESIDE, cited, key=lambda each: abs(each[0] - number.start))]
        for count in range(2, len(near) + 1):
            beside = _derived(combinations(sorted(near[:count], key=_order), 2), number.form)
            if source := _match(number, beside, _CHANCE_NEXT if count == 2 else _CHANCE_BESIDE):
                return source
        return None

    def _in_tables(self, number: Number) -> Source | None:
        if number.form not in self._of_tables:
            self._of_tables[number.form] = _derived(islice(_pairs_of(self._tables), _MAX_PAIRS), number.form)
        return _match(number, self._of_tables[number.form], _CHANCE_ALONE)

    def _paragraph(self, number: Number) -> int:
        return bisect_left(self._breaks, number.start + 1)


def _match(number: Number, derived: Sequence[_Derived], limit: float) -> Source | None:
    """Return what a number is one of, unless they lie so close that one would be near wherever the number were."""
    for value, step in number.readings:
        if not value:
            continue
        first, last = (bisect_left(derived, bound, key=_value) for bound in (value / 2, value * 2))
        at = bisect_left(derived, value, first, last, key=_value)
        near = min(derived[max(0, at - 1) : at + 1], key=lambda each: abs(each.value - value), default=None)
        chance = (last - first) * step / (1.5 * value)
        if near and chance <= limit and abs(near.value - value) <= step / 2 + ROUNDING * value:
            return Source(near.kind, near.cells)
    return None


def _pairs_of(tables: Iterable[Sequence[Sequence[Cell]]]) -> Iterator[tuple[Cell, Cell]]:
    """Pair the numbers of lines and of columns."""
    for lines in tables:
        columns: dict[tuple[int, int], list[Cell]] = defaultdict(list)
        for line in lines:
            yield from combinations(line, 2)
            for place, cell in enumerate(line):
                columns[len(line), place].append(cell)
        for column in columns.values():
            yield from combinations(column, 2)


def _derived(pairs: Iterable[tuple[Cell, Cell]], form: Form) -> list[_Derived]:
    """Compute what pairs of numbers may be cited as, without signs, in their order."""
    return sorted((each for pair in pairs for each in _computed(pair, form)), key=_value)


def _order(cell: Cell) -> tuple[int, int]:
    return cell.output, cell.at


def _value(derived: _Derived) -> float:
    return derived.value


def _computed(pair: tuple[Cell, Cell], form: Form) -> Iterator[_Derived]:
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
