"""Graders: whether a value from an agent's kernel is the expected one, and if not why.

What this module promises: a grader sees JSON values alone, never objects of the kernel, and they may be of any form;
and it can write code that gives its expected value without computing it, with which cheaters are tried.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from indus_nb.base.textcut import one_line
from indus_nb.base.wire import JsonObject

_MAX_SHOWN = 200


class Grader(Protocol):
    """Decides about one kind of result."""

    def problem(self, given: Any, expected: Any) -> str | None:
        """Return why a value is wrong; ``None`` if it is right."""
        ...

    def forgery(self, expected: Any) -> str:
        """Return code that leaves the expected value in its variable without computing it."""
        ...


class _Answers:
    def forgery(self, expected: Any) -> str:
        return f"answer = {expected!r}"


@dataclass(frozen=True, slots=True)
class NumberGrader(_Answers):
    """Grades one number.

    Attributes:
        relative: How far it may be off, as a share of the expected value.
        absolute: How far it may be off besides.
    """

    relative: float = 1e-4
    absolute: float = 1e-9

    def problem(self, given: Any, expected: Any) -> str | None:
        """Return why a value is no number close to the expected one."""
        value = _number(given)
        if value is None:
            return f"no number: {_shown(given)}"
        return None if self.near(value, float(expected)) else f"{value:.8g} is not {float(expected):.8g}"

    def near(self, value: float, expected: float) -> bool:
        """Return whether two numbers are close enough."""
        return math.isclose(value, expected, rel_tol=self.relative, abs_tol=self.absolute)


@dataclass(frozen=True, slots=True)
class WordGrader(_Answers):
    """Grades one word or name; case and spaces around it do not count."""

    def problem(self, given: Any, expected: Any) -> str | None:
        """Return why a value is not the expected text."""
        value = _only(given)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return f"no word: {_shown(given)}"
        return None if _folded(value) == _folded(expected) else f"{_shown(value)} is not {_shown(expected)}"


@dataclass(frozen=True, slots=True)
class NamesGrader(_Answers):
    """Grades several words or whole numbers: each once, in any order unless it counts.

    Attributes:
        ordered: Whether the order counts.
    """

    ordered: bool = False

    def problem(self, given: Any, expected: Any) -> str | None:
        """Return what is missing, too much or in another order."""
        if not isinstance(values := _column(given), list):
            return f"no list: {_shown(given)}"
        found, wanted = [_folded(value) for value in cast("list[Any]", values)], [_folded(value) for value in expected]
        if sorted(found) != sorted(wanted):
            return f"missing {_shown(sorted(set(wanted) - set(found)))}, too much {_shown(_surplus(found, wanted))}"
        return "the order is another one" if self.ordered and found != wanted else None


@dataclass(frozen=True, slots=True)
class TableGrader:
    """Grades a table by the keys of its rows, which is a frame, a mapping of keys to one value, or a series.

    Attributes:
        keys: Columns that name a row.
        relative: How far numbers may be off, as a share of the expected ones.
        ordered: Whether the order of rows counts.
    """

    keys: tuple[str, ...]
    relative: float = 1e-4
    ordered: bool = False

    def problem(self, given: Any, expected: Any) -> str | None:
        """Return which row or value is missing, too much or wrong; other columns may be there."""
        wanted = _records(expected)
        columns = list(wanted[0])
        found = self._found(given, columns)
        if found is None:
            return f"no table: {_shown(given)}"
        if lost := [name for name in columns if any(name not in row for row in found)]:
            return f"there is no column {_shown(lost)}"
        ours, theirs = [self._key(row) for row in wanted], [self._key(row) for row in found]
        if sorted(ours) != sorted(theirs):
            return f"{len(theirs)} rows for {len(ours)}, or others: {_shown(_surplus(theirs, ours))}"
        if self.ordered and ours != theirs:
            return "the order of the rows is another one"
        by_key = dict(zip(theirs, found, strict=True))
        for key, row in zip(ours, wanted, strict=True):
            for name in set(columns) - set(self.keys):
                if not self._equal(by_key[key][name], row[name]):
                    return f"{name} of {', '.join(key)}: {_shown(by_key[key][name])} is not {_shown(row[name])}"
        return None

    def forgery(self, expected: Any) -> str:
        """Return code that writes the table down."""
        return f"import pandas as pd\nanswer = pd.DataFrame({_records(expected)!r})"

    def _found(self, given: Any, columns: Sequence[str]) -> list[Mapping[str, Any]] | None:
        if isinstance(given, dict) and "frame" not in given and len(self.keys) == 1 and len(columns) == 2:
            value = next(name for name in columns if name not in self.keys)
            return [{self.keys[0]: key, value: each} for key, each in cast("dict[str, Any]", given).items()]
        return _records(given) if _is_table(given) else None

    def _key(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_folded(row[name]) for name in self.keys)

    def _equal(self, value: Any, expected: Any) -> bool:
        if isinstance(expected, int | float) and not isinstance(expected, bool):
            number = _number(value)
            return number is not None and math.isclose(number, expected, rel_tol=self.relative, abs_tol=1e-9)
        return _folded(value) == _folded(expected)


@dataclass(frozen=True, slots=True)
class FigureGrader:
    """Grades a figure by what its axes hold: marks, labels and scales, as ``collector`` reads them.

    The expected value has ``kind`` (``bars``, ``lines`` or ``points``), ``marks`` (bars: heights by name; lines: points
    by name; points: a list of pairs), words that the labels hold (``x``, ``y``), and where it matters ``yscale``.
    """

    relative: float = 1e-3

    def problem(self, given: Any, expected: Any) -> str | None:
        """Return what of the figure is not as it should be; another axes may be there besides."""
        axes = cast("JsonObject", given).get("axes") if isinstance(given, dict) else None
        if not isinstance(axes, list) or not axes:
            return "no figure with axes"
        found = [
            self._of(cast("JsonObject", each), expected) for each in cast("list[Any]", axes) if isinstance(each, dict)
        ]
        return None if None in found else next(iter(found), "no axes that can be read")

    def forgery(self, expected: Any) -> str:
        """Return code that draws the expected marks from numbers that stand in it."""
        lines = ["import matplotlib.pyplot as plt", "figure, axes = plt.subplots()"]
        marks = expected["marks"]
        if expected["kind"] == "bars":
            lines.append(f"axes.bar({list(marks)!r}, {list(marks.values())!r})")
        elif expected["kind"] == "lines":
            lines += [
                f"axes.plot({[x for x, _ in points]!r}, {[y for _, y in points]!r}, label={name!r})"
                for name, points in marks.items()
            ]
            lines.append("axes.legend()")
        else:
            lines.append(f"axes.scatter({[x for x, _ in marks]!r}, {[y for _, y in marks]!r})")
        lines += [f"axes.set_xlabel({expected['x']!r})", f"axes.set_ylabel({expected['y']!r})"]
        lines += [f"axes.set_yscale({expected['yscale']!r})"] if "yscale" in expected else []
        return "\n".join(lines)

    def _of(self, axes: JsonObject, expected: Mapping[str, Any]) -> str | None:
        for name in ("x", "y"):
            label = _folded(axes.get(f"{name}label", ""))
            if missing := [word for word in expected[name].split() if _folded(word) not in label]:
                return f"the label of {name} is {_shown(label)}, without {_shown(missing)}"
        if "yscale" in expected and axes.get("yscale") != expected["yscale"]:
            return f"the scale of y is {_shown(axes.get('yscale'))}"
        kind, marks = expected["kind"], expected["marks"]
        if kind == "bars":
            return self._bars(axes, marks)
        return self._lines(axes, marks) if kind == "lines" else self._points(axes, marks)

    def _bars(self, axes: JsonObject, wanted: Mapping[str, float]) -> str | None:
        found = _list(axes, "bars")
        pairs = [(_folded(bar.get("name", "")), bar.get("height")) for bar in found]
        if sorted(name for name, _ in pairs) != sorted(map(_folded, wanted)):
            return f"bars for {_shown([name for name, _ in pairs])}"
        expected = {_folded(name): height for name, height in wanted.items()}
        wrong = [name for name, height in pairs if not self._near(height, expected[name])]
        if wrong:
            return f"other heights for {_shown(wrong)}"
        return None if all(self._near(bar.get("from", 0), 0) for bar in found) else "bars that do not begin at 0"

    def _lines(self, axes: JsonObject, wanted: Mapping[str, Sequence[Sequence[float]]]) -> str | None:
        found = [line for line in _list(axes, "lines") if len(line.get("x") or []) > 1]
        if len(found) != len(wanted):
            return f"{len(found)} lines for {len(wanted)}"
        for name, points in wanted.items():
            named = [line for line in found if len(wanted) == 1 or _folded(line.get("label", "")) == _folded(name)]
            if not named:
                return f"no line {name}"
            if not self._same(list(zip(named[0]["x"], named[0]["y"], strict=False)), points):
                return f"other points of {name}"
        return None

    def _points(self, axes: JsonObject, wanted: Sequence[Sequence[float]]) -> str | None:
        drawn = [pair for each in _list(axes, "points") for pair in each]
        bare = [line for line in _list(axes, "lines") if line.get("style") in ("None", "none", "", " ")]
        drawn += [pair for line in bare for pair in zip(line["x"], line["y"], strict=False)]
        if len(drawn) != len(wanted):
            return f"{len(drawn)} points for {len(wanted)}"
        return None if self._same(sorted(drawn, key=_rank), sorted(wanted, key=_rank)) else "other points"

    def _same(self, found: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]]) -> bool:
        return len(found) == len(wanted) and all(
            self._at(x, a) and self._at(y, b) for (x, y), (a, b) in zip(found, wanted, strict=True)
        )

    def _at(self, value: Any, expected: Any) -> bool:
        return _folded(value) == _folded(expected) if isinstance(expected, str) else self._near(value, expected)

    def _near(self, value: Any, expected: float) -> bool:
        number = _number(value)
        return number is not None and math.isclose(number, expected, rel_tol=self.relative, abs_tol=1e-9)


def _list(axes: JsonObject, name: str) -> list[Any]:
    found: object = axes.get(name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def _rank(pair: Sequence[Any]) -> tuple[str, ...]:
    """Return a key that sorts points, also where a computation has left its noise in the last digits."""
    return tuple(f"{each:.6g}" if isinstance(each, int | float) else str(each) for each in pair)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(cast("JsonObject", value).get("frame"), dict)


def _records(value: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a frame as ``collector`` writes it."""
    frame = value["frame"]
    return [dict(zip(frame["columns"], row, strict=True)) for row in frame["rows"]]


def _only(value: Any) -> Any:
    """Return the one value in what holds just one, else the value."""
    if _is_table(value):
        rows: Any = value["frame"]["rows"]
        return _only(rows[0]) if len(rows) == 1 else value
    if isinstance(value, dict) and len(cast("JsonObject", value)) == 1:
        return _only(next(iter(cast("JsonObject", value).values())))
    if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
        return _only(value[0])
    return cast("Any", value)


def _column(value: Any) -> Any:
    """Return the values of a table with one column, else the value."""
    if _is_table(value) and len(value["frame"]["columns"]) == 1:
        return [row[0] for row in value["frame"]["rows"]]
    return cast("list[Any]", value) if isinstance(value, list) else None


def _number(value: Any) -> float | None:
    value = _only(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None


def _folded(value: Any) -> str:
    """Return a text for comparison: case, spaces, the form of whole numbers and midnight do not count."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return re.sub(r"\s+", " ", str(value)).strip().casefold().removesuffix("t00:00:00").removesuffix(" 00:00:00")


def _surplus(found: Iterable[Any], wanted: Iterable[Any]) -> list[Any]:
    more = Counter(found)
    more.subtract(Counter(wanted))
    return sorted(more.keys() if not any(more.values()) else (each for each, times in more.items() if times > 0))


def _shown(value: Any) -> str:
    return one_line(str(value), _MAX_SHOWN)
