"""The columns of a frame as each library holds them, read as plain lists and arrays of numbers.

What this module promises:

- **Only types that the libraries define themselves are read**; of others nothing but the name is known.
- **Texts are not read where they have megabytes**, and nested values never.
- **Times are numbers**, with a function that writes them in their zone.
- **A sample has no period.** Each stretch of ``step`` rows gives one, at another place in it each time, and the same
  ones to all columns and at any later time.

No library is imported for it: who has such a frame has done so.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, cast
from zoneinfo import ZoneInfo

from indus_nb.base import textcut
from indus_nb.kernel.values.known_classes import class_name, has_known_zone, is_of_a_library, library_of
from indus_nb.kernel.values.short import short

Family: TypeAlias = Literal["bool", "int", "number", "text", "time", "span", "date", ""]
"""What the values of a column are; empty where they are of several kinds, or of one that is not known."""

MOST_TEXT_BYTES = 4_000_000
NO_TIME = -(2**63)
"""The number that numpy has in the place of a time that is missing."""
_MOST_LEVELS = 4
_NAME, _TYPE, _NOTE = 60, 52, 20
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_GOLDEN = 2_654_435_769
"""The golden section of 2**32, whose multiples are spread evenly, with no period."""
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "D": 86_400_000_000}
_PANDAS_TYPES = frozenset(
    (
        *("StringDtype", "CategoricalDtype", "BooleanDtype", "Float32Dtype", "Float64Dtype"),
        *(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    )
)
_FLAT_ARROW_TYPES = (
    *("is_integer", "is_floating", "is_boolean", "is_string", "is_large_string", "is_decimal"),
    *("is_date32", "is_timestamp", "is_duration"),
)


class Cells(NamedTuple):
    """What a library has in a column.

    Attributes:
        values: Those of the rows that are looked at; ``None`` where they are not read.
        family: What they are, if their type says so; ``time`` and ``span`` are numbers.
        shown: Writes one of them.
        missing: How many are missing in all rows, where the library knows.
        array: Those of all rows, as an array of numbers in which only ``NaN`` or ``NO_TIME`` are missing.
    """

    values: list[Any] | None = None
    family: Family = ""
    shown: Callable[[Any], str] = str
    missing: int | None = None
    array: Any = None


class Part(NamedTuple):
    """A column of a frame, or a level of its index, with what the frame notes of it, such as its unit."""

    name: str
    dtype: str
    cells: Cells
    is_index: bool = False
    notes: Mapping[str, str] = {}


@lru_cache(maxsize=4)
def sampled_rows(rows: int, step: int) -> Any:
    """Return the numbers of the rows that are looked at, one of each ``step``: an array where numpy is in use."""
    count = -(-rows // step)
    if numpy := cast("Any", sys.modules.get("numpy")):
        at = numpy.arange(count)
        return (at * step + ((at * _GOLDEN & 0xFFFF_FFFF) * step >> 32)).clip(max=rows - 1)
    return [min(at * step + ((at * _GOLDEN & 0xFFFF_FFFF) * step >> 32), rows - 1) for at in range(count)]


@lru_cache(maxsize=4)
def _of_polars(rows: int, step: int) -> Any:
    return cast("Any", sys.modules["polars"]).Series(sampled_rows(rows, step))


@lru_cache(maxsize=4)
def _of_arrow(rows: int, step: int) -> Any:
    return cast("Any", sys.modules["pyarrow"]).array(sampled_rows(rows, step))


# pandas


def of_pandas(frame: Any, most: int, step: int) -> Iterator[Part]:
    """Read the levels of a named index, and the first columns of a frame, of each ``step``-th row."""
    notes = _notes(frame.attrs)
    part = frame.iloc[:, :most]
    part.attrs = {}  # else each column gets a deep copy
    index = part.index[sampled_rows(len(part), step)] if step > 1 else part.index
    for number in range(min(index.nlevels, _MOST_LEVELS)):
        level, name = index.get_level_values(number), index.names[number]
        if name is not None or level.dtype.kind not in "iu":  # else row numbers, or what is left of them
            yield Part("index" if name is None else _label(name), *_typed_of_pandas(level, 1), is_index=True)
    names = part.columns
    for number in range(most):
        name, column = names[number], part.iloc[:, number]
        yield Part(
            _label(name), *_typed_of_pandas(column, step), notes=notes.get(name, {}) if type(name) is str else {}
        )


def _typed_of_pandas(held: Any, step: int) -> tuple[str, Cells]:
    """Read a series, or an index, with its type."""
    dtype = held.dtype
    kind = _class(dtype)
    if library_of(kind) not in ("numpy", "pandas") or not is_of_a_library(kind):
        return _name(dtype), Cells()
    if class_name(kind) == "DatetimeTZDtype" or (library_of(kind) == "numpy" and dtype.kind in "mM"):
        return _cut(str(dtype)), _times_of_pandas(held, dtype, step)
    if class_name(kind) == "ArrowDtype":
        return _cut(str(dtype)), _typed_of_arrow(held.array.__arrow_array__(), step)[1]
    read = _extension_of_pandas if library_of(kind) == "pandas" else _numbers_of_pandas
    return _cut(str(dtype)), read(held, dtype, step)


def _numbers_of_pandas(held: Any, dtype: Any, step: int) -> Cells:
    """Read numbers, and objects of any kind."""
    if dtype.kind not in "biufO":
        return Cells()
    numbers = held.to_numpy()
    some = numbers[sampled_rows(len(numbers), step)] if step > 1 else numbers
    values: list[Any] = some.tolist()
    if dtype.kind == "O":
        return Cells(values)
    if dtype.kind == "f" and cast("Any", sys.modules["numpy"]).isnan(some).any():
        values = [None if value != value else value for value in values]  # noqa: PLR0124 - so is NaN alone
    family: Family = "bool" if dtype.kind == "b" else "number" if dtype.kind == "f" else "int"
    return Cells(values, family, SHOWN.get(family, str), array=None if dtype.kind == "b" else numbers)


def _times_of_pandas(held: Any, dtype: Any, step: int) -> Cells:
    zone, array = getattr(dtype, "tz", None), held.array
    if not has_known_zone(dt.datetime(2000, 1, 1, tzinfo=zone)):
        return Cells()
    numbers = array.asi8
    some = numbers[sampled_rows(len(numbers), step)] if step > 1 else numbers
    values = [None if value == NO_TIME else value for value in some.tolist()]
    if dtype.kind == "m":
        return Cells(values, "span", _span(array.unit), array=numbers)
    return Cells(values, "time", _moment(array.unit, zone or dt.UTC), array=numbers)


def _extension_of_pandas(held: Any, dtype: Any, step: int) -> Cells:
    """Read texts, categories, and what may be missing."""
    kind = class_name(_class(dtype))
    if kind not in _PANDAS_TYPES:
        return Cells()
    missing = None if kind == "CategoricalDtype" or step == 1 else int(held.isna().sum())
    if held.nbytes / step > MOST_TEXT_BYTES:
        return Cells(missing=missing)
    return Cells((held.array[sampled_rows(len(held), step)] if step > 1 else held.array).tolist(), missing=missing)


def _notes(attrs: Any) -> dict[str, dict[str, str]]:
    """Return what the ``attrs`` of a frame note of its columns, such as ``{"units": {"price": "EUR"}}``."""
    found: dict[str, dict[str, str]] = {}
    for what, of_columns in islice(cast("dict[Any, Any]", attrs).items(), 20):
        if type(what) is str and type(of_columns) is dict:
            for name, value in islice(cast("dict[Any, Any]", of_columns).items(), 1000):
                if type(value) is str and type(name) is str:
                    found.setdefault(name, {})[_cut(what, _NOTE)] = _cut(value, _NOTE)
    return found


# polars


def of_polars(frame: Any, most: int, step: int) -> Iterator[Part]:
    """Read the first columns of a frame, of each ``step``-th row."""
    for column in map(frame.to_series, range(most)):
        yield Part(_label(column.name), *_typed_of_polars(column, step))


def _typed_of_polars(column: Any, step: int) -> tuple[str, Cells]:
    dtype, missing = column.dtype, column.null_count()
    if not is_of_a_library(_class(dtype)):
        return _name(dtype), Cells()
    name = class_name(_class(dtype))
    if name in ("Datetime", "Duration", "Date"):
        return _cut(str(dtype)), _times_of_polars(column, dtype, step)
    some = column.gather(_of_polars(len(column), step)) if step > 1 else column
    if name in ("Categorical", "Enum"):
        return _cut(str(dtype)), Cells(_categories_of_polars(some), missing=missing)
    is_long = name == "String" and (some.str.len_bytes().sum() or 0) > MOST_TEXT_BYTES
    if is_long or not (dtype.is_numeric() or name in ("Boolean", "String")):
        return _cut(str(dtype)), Cells(missing=missing)
    counted = None if missing and dtype.is_float() else missing  # in numbers NaN is missing, too
    array = _array(column, step) if not missing and (dtype.is_integer() or dtype.is_float()) else None
    return _cut(str(dtype)), Cells(some.to_list(), missing=counted, array=array)


def _categories_of_polars(some: Any) -> list[Any] | None:
    """Return texts that are held once each, without a copy of one; ``None`` where these have megabytes."""
    distinct = some.unique()
    texts = distinct.cast(cast("Any", sys.modules["polars"]).String)
    if (texts.str.len_bytes().sum() or 0) > MOST_TEXT_BYTES:
        return None
    held = dict(zip(distinct.to_physical().to_list(), texts.to_list(), strict=True))
    return [held[number] for number in some.to_physical().to_list()]


def _times_of_polars(column: Any, dtype: Any, step: int) -> Cells:
    unit, missing, numbers = getattr(dtype, "time_unit", "D"), column.null_count(), column.to_physical()
    values = (numbers.gather(_of_polars(len(column), step)) if step > 1 else numbers).to_list()
    array = None if missing else _array(numbers, step)
    if class_name(_class(dtype)) == "Duration":
        return Cells(values, "span", _span(unit), missing, array)
    return Cells(values, "time", _moment(unit, _zone(getattr(dtype, "time_zone", None))), missing, array)


# pyarrow


def of_arrow(table: Any, most: int, step: int) -> Iterator[Part]:
    """Read the first columns of a table, of each ``step``-th row."""
    fields: Iterator[Any] = islice(table.schema, most)
    for number, field in enumerate(fields):
        metadata: Mapping[bytes, bytes] = field.metadata or {}
        notes = {
            _cut(key.decode(errors="replace"), _NOTE): _cut(value.decode(errors="replace"), _NOTE)
            for key, value in islice(metadata.items(), 3)
            if len(value) <= _NOTE and not key.startswith((b"PARQUET:", b"ARROW:"))
        }
        yield Part(_label(field.name), *_typed_of_arrow(table.column(number), step), notes=notes)


def _typed_of_arrow(column: Any, step: int) -> tuple[str, Cells]:
    kind, missing = column.type, int(column.null_count)
    if not is_of_a_library(_class(kind)):
        return _name(kind), Cells()
    if not _is_flat(kind) or column.nbytes / step > MOST_TEXT_BYTES:
        return _cut(str(kind)), Cells(missing=missing)
    arrow: Any = sys.modules["pyarrow"]
    some = column.take(_of_arrow(len(column), step)) if step > 1 else column
    if arrow.types.is_dictionary(kind):
        return _cut(f"dictionary<{kind.value_type}>"), Cells(_decoded(some), missing=missing)
    if arrow.types.is_temporal(kind):
        return _cut(str(kind)), _times_of_arrow(column, some, step)
    is_float = arrow.types.is_floating(kind)
    array = None if missing or not (is_float or arrow.types.is_integer(kind)) else _array(column, step)
    return _cut(str(kind)), Cells(some.to_pylist(), missing=None if missing and is_float else missing, array=array)


def _decoded(some: Any) -> list[Any] | None:
    """Return texts that are held once each, without a copy of one; ``None`` where these have megabytes."""
    chunks: list[Any] = getattr(some, "chunks", [some])
    if sum(chunk.dictionary.nbytes for chunk in chunks) > MOST_TEXT_BYTES:
        return None
    values: list[Any] = []
    for chunk in chunks:
        held = chunk.dictionary.to_pylist()
        values += [None if index is None else held[index] for index in chunk.indices.to_pylist()]
    return values


def _times_of_arrow(column: Any, some: Any, step: int) -> Cells:
    kind, missing, of = column.type, int(column.null_count), cast("Any", sys.modules["pyarrow"]).types
    number = "int32" if of.is_date32(kind) else "int64"
    array = None if missing or step == 1 else _array(column.cast(number), step)
    values: list[Any] = some.cast(number).to_pylist()
    if of.is_duration(kind):
        return Cells(values, "span", _span(kind.unit), missing, array)
    unit, zone = ("D", None) if of.is_date32(kind) else (kind.unit, kind.tz)
    return Cells(values, "time", _moment(unit, _zone(zone)), missing, array)


def _is_flat(kind: Any) -> bool:
    """Return whether the values of a type of pyarrow are numbers, texts or times."""
    of: Any = sys.modules["pyarrow"].types
    if of.is_dictionary(kind):
        return bool(of.is_string(kind.value_type) or of.is_large_string(kind.value_type))
    return any(getattr(of, name)(kind) for name in _FLAT_ARROW_TYPES)


def _array(column: Any, step: int) -> Any:
    """Return a column of polars or pyarrow without missing values as an array, where a sample does not say it all."""
    if step == 1 or "numpy" not in sys.modules:
        return None
    found = column.to_numpy()
    return found if found.dtype.kind in "iuf" else None


# How it is written


def _name(value: Any) -> str:
    """Return the name of a type that its library does not define."""
    return _cut(class_name(_class(value)))


def _class(value: Any) -> type:
    return cast("type[object]", type(value))


def _cut(text: str, characters: int = _TYPE) -> str:
    return textcut.one_line(text, characters)


def _label(name: Any) -> str:
    return _cut(name if type(name) is str else short(name, text=_NAME), _NAME)


def _zone(name: str | None) -> dt.tzinfo | None:
    with contextlib.suppress(Exception):  # an offset, or a zone that is not known here
        return dt.UTC if name is None else ZoneInfo(name)
    return None


def _since(value: int, unit: str) -> dt.timedelta:
    return dt.timedelta(microseconds=value // 1000 if unit == "ns" else value * _MICROSECONDS[unit])


def _moment(unit: str, zone: dt.tzinfo | None) -> Callable[[int], str]:
    """Return what writes a time in its zone, down to the second; an empty text where that cannot be."""

    def shown(value: int) -> str:
        if zone is None:
            return ""
        try:
            text = (_EPOCH + _since(value, unit)).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
        except (OverflowError, ValueError):
            return ""
        return text.removesuffix(" 00:00:00")

    return shown


def _span(unit: str) -> Callable[[int], str]:
    """Return what writes a time that something takes; an empty text where it is too long."""

    def shown(value: int) -> str:
        try:
            return str(_since(value, unit)).replace(",", "")
        except OverflowError:
            return ""

    return shown


def _number(value: float | Decimal) -> str:
    text = f"{value:.6g}"
    return str(int(value)) if abs(value) < 1e15 and float(text) == int(value) else text


def _integer(value: int) -> str:
    return str(value) if abs(value) < 10**20 else f"{value:.6g}" if abs(value) < 10**300 else ""


SHOWN: Mapping[Family, Callable[[Any], str]] = {"number": _number, "int": _integer}
"""What writes plain values, where ``str`` would be long."""
