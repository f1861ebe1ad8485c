"""Columns of frames of any library as plain values: what profiles are made of.

What this module promises:

- **No code of the user's runs.** Only classes that their libraries define themselves are asked. Of objects in columns
  the class is looked at, and values go out only if all of them are of one of Python's own plain classes.
- **Bounded.** Of a frame with more cells than that, one row of each stretch is looked at; what is true of all
  rows is computed up to some million cells. Looking stops when its time is over.
- **The frame is the frame of now.** Nothing is remembered here.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, cast

from indus_nb.base import textcut
from indus_nb.kernel.values.extent import shape
from indus_nb.kernel.values.known_classes import FRAMES, class_name, families, is_of_a_library, library_of
from indus_nb.kernel.values.readers import (
    MOST_TEXT_BYTES,
    NO_TIME,
    SHOWN,
    Cells,
    Family,
    Part,
    has_known_indexes,
    of_arrow,
    of_pandas,
    of_polars,
)
from indus_nb.kernel.values.tables import has_secret_labels

_CELLS, _LEAST_ROWS, _MOST_ROWS = 100_000, 1_000, 20_000
"""Rows of a frame that are looked at: so many that it is about that number of cells, within bounds."""
_MOST_CELLS_IN_ALL = 3_000_000
_MOST_NAME_CHARACTERS = 40
_FAMILIES: Mapping[type, Family] = {
    bool: "bool",
    int: "int",
    float: "number",
    Decimal: "number",
    str: "text",
    dt.date: "date",
}
_LABELS = (str, int, float, bool)
_READERS: Mapping[str, Callable[..., Iterator[Part]]] = {
    "pandas": of_pandas,
    "polars": of_polars,
    "pyarrow": of_arrow,
}


class Whole(NamedTuple):
    """What is known of a column in all rows; no range where only the missing ones were counted."""

    missing: int
    lowest: Any = None
    highest: Any = None
    rising: bool = False
    """Whether each value is greater than the one before, so that none occurs twice."""
    not_numbers: int | None = None
    """How many are NaN, where the library holds these apart from missing ones."""


class Column(NamedTuple):
    """One column, or one level of a named index.

    Attributes:
        dtype: Its type as the library writes it.
        values: Those of the rows that were looked at, plain, ``None`` where one is missing; ``None`` where they are
            not plain, or too large.
        family: What they are; ``time`` and ``span`` are numbers.
        shown: Writes one of them.
        kinds: Names of the classes of values, where these are several or unknown, with how many there are.
        notes: What the frame notes of the column, such as its unit.
        not_numbers: How many of the values are NaN, where the library holds these apart; ``None`` is in their place.
        label: Type and value of its name; ``None`` where that is not plain.
    """

    name: str
    dtype: str
    values: list[Any] | None = None
    family: Family = ""
    shown: Callable[[Any], str] = str
    kinds: Mapping[str, int] = {}
    whole: Whole | None = None
    is_index: bool = False
    notes: Mapping[str, str] = {}
    not_numbers: int = 0
    label: tuple[type, Any] | None = None


class Looked(NamedTuple):
    """A frame that was looked at.

    Attributes:
        rows: How many it has; ``None`` where that would have to be computed.
        width: How many columns it has.
        seen: How many rows were looked at.
        columns: The first of its columns, behind the levels of its index.
        complete: Whether there was time for as many columns as were asked for.
    """

    library: str
    rows: int | None
    width: int
    seen: int
    columns: list[Column]
    complete: bool = True


def look(frame: Any, columns: int, end: float) -> Looked | None:
    """Look at a frame. Never raises.

    Args:
        columns: How many of its columns to look at, at most.
        end: When to stop, on the clock of this thread's processor time.

    Returns:
        What was seen until then; ``None`` for other values, and where nothing is known.
    """
    kind = cast("type[object]", type(frame))
    if not is_of_a_library(kind):
        return None
    try:
        if class_name(kind) == "DuckDBPyRelation" and library_of(kind) in ("duckdb", "_duckdb"):
            return _query(frame, columns)
        known = families(frame) & FRAMES
        if ("pandas", "DataFrame") in known and not has_known_indexes(frame):
            return None
        if has_secret_labels(frame):
            return None
        return _looked(frame, next(iter(known))[0], columns, end) if known else None
    except Exception:  # noqa: BLE001 - the frame is broken, or code changes it at this moment
        return None


def _query(relation: Any, most: int) -> Looked:
    """Return the columns of a query of DuckDB: to know more of it, it would have to run."""
    names = relation.columns
    parts = islice(zip(names, relation.types, strict=True), most)
    columns = [Column(textcut.one_line(name, 60), textcut.one_line(str(kind), 52)) for name, kind in parts]
    return Looked("duckdb", None, len(names), 0, columns)


def _looked(frame: Any, library: str, most: int, end: float) -> Looked:
    rows, width = map(int, shape(frame))
    most = min(most, width)
    room = max(_LEAST_ROWS, min(_MOST_ROWS, _CELLS // max(most, 1)))
    step = max(1, -(-rows // room))
    whole = step > 1 and rows * most <= _MOST_CELLS_IN_ALL
    found: list[Column] = []
    for part in _READERS[library](frame, most, step, whole=whole):
        column = _column(part, sampled=step > 1, whole=whole, apart=library != "pandas")
        number = sum(not column.is_index for column in found)
        found.append(column._replace(label=_label(frame, library, column, number)))
        if time.thread_time() > end:
            break
    complete = sum(not column.is_index for column in found) == most
    return Looked(library, rows, width, -(-rows // step), found, complete)


def _label(frame: Any, library: str, column: Column, number: int) -> tuple[type, Any] | None:
    """Return the name of a column, of which only a part may be shown, or of a level of an index."""
    if column.is_index:
        return (
            (str, column.name) if any(type(name) is str and name == column.name for name in frame.index.names) else None
        )
    label: Any = frame.schema.names[number] if library == "pyarrow" else frame.columns[number]
    kind = cast("type[object]", type(label))
    if _is_of_numpy(kind):
        label = label.item()
        kind = cast("type[object]", type(label))
    return (kind, label) if kind in _LABELS else None


def _column(part: Part, *, sampled: bool, whole: bool, apart: bool) -> Column:
    """Return what is known of a column.

    Args:
        apart: Whether NaN is not the same as a missing value.
    """
    cells = part.cells
    column = Column(part.name, part.dtype, cells.values, cells.family, cells.shown)
    column = column._replace(is_index=part.is_index, notes=part.notes)
    if cells.values is not None and not cells.family:
        column = _plain(column, cells.values)
        if apart and column.family == "number":
            column = column._replace(not_numbers=sum(map(_is_no_number, cells.values)))
    if whole and cells.array is not None:
        found = _in_all(cells)
        no_missing = apart and cells.array.dtype.kind == "f"  # there is an array only where none is missing
        return column._replace(whole=found._replace(missing=0, not_numbers=found.missing) if no_missing else found)
    known = cells.missing is not None and (sampled or column.values is None)
    return column._replace(whole=Whole(cells.missing or 0)) if known else column


def _plain(column: Column, values: list[Any]) -> Column:
    """Return a column with its values as plain ones, if all are; else with the names of their classes."""
    kinds = set(map(type, values))
    if of_numpy := {kind for kind in kinds if _is_of_numpy(kind)}:
        values = [value.item() if type(value) in of_numpy else value for value in values]
        kinds = set(map(type, values))
    missing = {kind for kind in kinds if _is_missing(kind)}
    if missing or float in kinds or Decimal in kinds:
        values = [None if type(value) in missing or _is_no_number(value) else value for value in values]
        kinds = set(map(type, values))
    found = kinds - {type(None)}
    if not found:
        return column._replace(values=values)
    family = _FAMILIES.get(next(iter(found)), "") if len(found) == 1 else ""
    if family == "text" and sum(len(value) for value in values if value is not None) > MOST_TEXT_BYTES:
        family = ""
    if family:
        return column._replace(values=values, family=family, shown=SHOWN.get(family, str))
    counts = Counter(map(type, values))
    without = counts.pop(type(None), 0)
    named: Counter[str] = Counter()
    for kind, count in counts.most_common():
        named[textcut.one_line(class_name(kind), _MOST_NAME_CHARACTERS)] += count
    return column._replace(values=None, kinds=({"missing": without} if without else {}) | named)


def _is_of_numpy(kind: type) -> bool:
    """Return whether a class is one of numpy's scalars, but for times: some of these are plain as numbers alone."""
    if library_of(kind) != "numpy" or not is_of_a_library(kind):
        return False
    numpy: Any = sys.modules["numpy"]
    return issubclass(kind, numpy.generic) and not issubclass(kind, numpy.datetime64 | numpy.timedelta64)


def _is_missing(kind: type) -> bool:
    return class_name(kind) in ("NAType", "NaTType") and library_of(kind) == "pandas" and is_of_a_library(kind)


def _is_no_number(value: Any) -> bool:
    if type(value) is float:
        return value != value  # noqa: PLR0124 - so is NaN alone
    return type(value) is Decimal and value.is_nan()


def _in_all(cells: Cells) -> Whole:
    """Compute what is known of all rows of a column of numbers or times."""
    array, numpy = cells.array, cast("Any", sys.modules["numpy"])
    if array.dtype.kind == "f":
        missing = int(numpy.isnan(array).sum())
        if missing == len(array):
            return Whole(missing)
        return Whole(missing, numpy.fmin.reduce(array).item(), numpy.fmax.reduce(array).item())
    present = array[array != NO_TIME] if cells.family in ("time", "span") else array
    missing = len(array) - len(present)
    if missing == len(array):
        return Whole(missing)
    rising = not missing and bool((array[1:] > array[:-1]).all())
    return Whole(missing, present.min().item(), present.max().item(), rising)
