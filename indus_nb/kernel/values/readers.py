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
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
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
def _of_arrow(rows: int, step: int) -> range | tuple[int, ...]:
    return range(rows) if step == 1 else tuple(map(int, sampled_rows(rows, step)))


# pandas


def of_pandas(frame: Any, most: int, step: int, *, whole: bool) -> Iterator[Part]:
    """Read the levels of a named index, and the first columns of a frame, of each ``step``-th row.

    The indexes must be known ones.

    Args:
        whole: Whether numbers are read of all rows, too.
    """
    names, notes = frame.columns, _notes(frame.attrs)
    rows = sampled_rows(len(frame), step) if step > 1 else slice(None)
    for name, dtype, cells in _levels_of_pandas(frame.index, rows, whole=whole):
        yield Part("index" if name is None else _label(name), dtype, cells, is_index=True)
    # Not by ``iloc``, which makes views of all columns, and gives each a deep copy of the ``attrs``.
    held = object.__getattribute__(frame, "_mgr")
    for number in range(most):
        name, array = names[number], held.blocks[held.blknos[number]].values
        if is_known_array(array):
            array = held.iget_values(number)
        typed = _typed_of_pandas(array, rows, whole=whole)
        yield Part(_label(name), *typed, notes=notes.get(name, {}) if type(name) is str else {})


def _levels_of_pandas(index: Any, rows: slice, *, whole: bool) -> Iterator[tuple[Any, str, Cells]]:
    """Read the levels of an index, each with its name, but for row numbers, and what is left of them."""
    if class_name(_class(index)) == "MultiIndex":
        # Not by their names, which would be compared.
        for name, level, codes in islice(zip(index.names, index.levels, index.codes, strict=True), _MOST_LEVELS):
            if name is not None or level.dtype.kind not in "iu":
                yield name, *_coded(level, codes[rows])
    elif index.name is not None or index.dtype.kind not in "iu":
        if class_name(_class(index)) != "RangeIndex":
            yield index.name, *_typed_of_pandas(_array_of(index), rows, whole=whole)
        else:
            held, rows = (index, rows) if whole else (index[rows], slice(None))
            yield index.name, *_typed_of_pandas(held.to_numpy(), rows, whole=whole)


def has_known_indexes(frame: Any) -> bool:
    """Return whether the labels of a frame of pandas are in arrays that are not of the user's classes."""
    return is_known_index(frame.index) and is_known_index(frame.columns)


def _is_of(kind: type, *libraries: str) -> bool:
    """Return whether a class is one of these libraries' own."""
    return library_of(kind) in libraries and is_of_a_library(kind)


def _array_of(index: Any) -> Any:
    """Return what an index keeps its values in, without asking whose class that is."""
    return object.__getattribute__(index, "_data")


def is_known_array(array: Any) -> bool:
    """Return whether no code but that of pandas and numpy answers what an array is asked."""
    kind = _class(array)
    if class_name(kind) == "Categorical" and _is_of(kind, "pandas"):
        return is_known_index(array.dtype.categories)
    return _is_of(kind, "numpy", "pandas")


def is_known_index(index: Any) -> bool:
    """Return whether the labels of an index are in arrays that are not of the user's classes."""
    kind = _class(index)
    if class_name(kind) == "MultiIndex" and _is_of(kind, "pandas"):
        return all(map(is_known_index, index.levels))
    return _is_of(kind, "pandas") and (class_name(kind) == "RangeIndex" or is_known_array(_array_of(index)))


def _typed_of_pandas(held: Any, rows: Any, *, whole: bool) -> tuple[str, Cells]:
    """Read an array, with its type; of an array of another library nothing but the name of its class.

    Args:
        rows: A slice, or the numbers of rows as an array.
    """
    if not is_known_array(held):
        return _name(held), Cells()
    dtype = held.dtype
    kind, text = class_name(_class(dtype)), text_of_type(dtype)
    if not text:
        return _name(dtype), Cells()
    if kind == "CategoricalDtype":
        return text, _coded(dtype.categories, held.codes[rows])[1]
    if kind == "ArrowDtype" or (kind == "StringDtype" and dtype.storage == "pyarrow"):
        of_arrow = range(len(held))[rows] if type(rows) is slice else tuple(rows.tolist())
        return text, _typed_of_arrow(held.__arrow_array__(), of_arrow, whole=whole)[1]
    if kind in _PANDAS_TYPES:
        return text, Cells(held[rows].tolist(), missing=int(held.isna().sum()) if whole else None)
    read = _times_of_pandas if kind == "DatetimeTZDtype" or dtype.kind in "mM" else _numbers_of_numpy
    return text, read(held, rows, whole=whole)


def text_of_type(dtype: Any) -> str:
    """Write a type; empty where it holds an object that may be the user's, which would have to write itself."""
    kind = class_name(_class(dtype))
    zone = getattr(getattr(dtype, "subtype", dtype), "tz", None)
    if kind == "SparseDtype" or not has_known_zone(dt.datetime(2000, 1, 1, tzinfo=zone)):
        return ""
    return "" if kind == "ArrowDtype" and not _is_of(_class(dtype.pyarrow_dtype), "pyarrow") else _cut(str(dtype))


def _numbers_of_numpy(held: Any, rows: Any, *, whole: bool) -> Cells:
    """Read numbers, and objects of any kind."""
    kind = held.dtype.kind
    if library_of(_class(held)) == "pandas" or kind not in "biufO":
        return Cells()
    some = held[rows]
    values: list[Any] = some.tolist()
    if kind == "O":
        return Cells(values)
    if kind == "f" and cast("Any", sys.modules["numpy"]).isnan(some).any():
        values = [None if value != value else value for value in values]  # noqa: PLR0124 - so is NaN alone
    family: Family = "bool" if kind == "b" else "number" if kind == "f" else "int"
    return Cells(values, family, SHOWN.get(family, str), array=held if whole and kind != "b" else None)


def _times_of_pandas(held: Any, rows: Any, *, whole: bool) -> Cells:
    numbers = held.asi8
    values = [None if value == NO_TIME else value for value in numbers[rows].tolist()]
    array = numbers if whole else None
    if held.dtype.kind == "m":
        return Cells(values, "span", _span(held.unit), array=array)
    return Cells(values, "time", _moment(held.unit, held.tz or dt.UTC), array=array)


def _coded(distinct: Any, codes: Any) -> tuple[str, Cells]:
    """Read values that are held once each, of which a copy for each row might not fit into memory."""
    used = cast("Any", sys.modules["numpy"]).unique(codes)
    used = used[used >= 0]
    if class_name(_class(distinct)) == "RangeIndex":
        dtype, cells = _typed_of_pandas(distinct[used].to_numpy(), slice(None), whole=False)
    else:
        dtype, cells = _typed_of_pandas(_array_of(distinct), used, whole=False)
    if cells.values is None:
        return dtype, Cells()
    held = dict(zip(used.tolist(), cells.values, strict=True))
    return dtype, cells._replace(values=list(map(held.get, codes.tolist())), missing=None)


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


def of_polars(frame: Any, most: int, step: int, *, whole: bool) -> Iterator[Part]:
    """Read the first columns of a frame, of each ``step``-th row, and numbers of all rows if ``whole``."""
    for column in map(frame.to_series, range(most)):
        yield Part(_label(column.name), *_typed_of_polars(column, step, whole=whole))


def _typed_of_polars(column: Any, step: int, *, whole: bool) -> tuple[str, Cells]:
    dtype, missing = column.dtype, column.null_count()
    if not _is_of(_class(dtype), "polars"):
        return _name(dtype), Cells()
    name = class_name(_class(dtype))
    if name in ("Datetime", "Duration", "Date"):
        return _cut(str(dtype)), _times_of_polars(column, dtype, step, whole=whole)
    some = column.gather(_of_polars(len(column), step)) if step > 1 else column
    if name in ("Categorical", "Enum"):
        return _cut(str(dtype)), Cells(_categories_of_polars(some), missing=missing)
    is_long = name == "String" and (some.str.len_bytes().sum() or 0) > MOST_TEXT_BYTES
    if is_long or not (dtype.is_numeric() or name in ("Boolean", "String")):
        return _cut(str(dtype)), Cells(missing=missing)
    counted = None if missing and dtype.is_float() else missing  # in numbers NaN is missing, too
    array = _array(column) if whole and not missing and (dtype.is_integer() or dtype.is_float()) else None
    return _cut(str(dtype)), Cells(some.to_list(), missing=counted, array=array)


def _categories_of_polars(some: Any) -> list[Any] | None:
    """Return texts that are held once each, without a copy of one; ``None`` where these have megabytes."""
    distinct = some.unique()
    texts = distinct.cast(cast("Any", sys.modules["polars"]).String)
    if (texts.str.len_bytes().sum() or 0) > MOST_TEXT_BYTES:
        return None
    held = dict(zip(distinct.to_physical().to_list(), texts.to_list(), strict=True))
    return [held[number] for number in some.to_physical().to_list()]


def _times_of_polars(column: Any, dtype: Any, step: int, *, whole: bool) -> Cells:
    unit, missing, numbers = getattr(dtype, "time_unit", "D"), column.null_count(), column.to_physical()
    values = (numbers.gather(_of_polars(len(column), step)) if step > 1 else numbers).to_list()
    array = _array(numbers) if whole and not missing else None
    if class_name(_class(dtype)) == "Duration":
        return Cells(values, "span", _span(unit), missing, array)
    return Cells(values, "time", _moment(unit, _zone(getattr(dtype, "time_zone", None))), missing, array)


# pyarrow


def of_arrow(table: Any, most: int, step: int, *, whole: bool) -> Iterator[Part]:
    """Read the first columns of a table, of each ``step``-th row, and numbers of all rows if ``whole``."""
    fields: Iterator[Any] = islice(table.schema, most)
    for number, field in enumerate(fields):
        metadata: Mapping[bytes, bytes] = field.metadata or {}
        notes = {
            _cut(key.decode(errors="replace"), _NOTE): _cut(value.decode(errors="replace"), _NOTE)
            for key, value in islice(metadata.items(), 3)
            if len(value) <= _NOTE and not key.startswith((b"PARQUET:", b"ARROW:"))
        }
        typed = _typed_of_arrow(table.column(number), _of_arrow(table.num_rows, step), whole=whole)
        yield Part(_label(field.name), *typed, notes=notes)


def _typed_of_arrow(column: Any, rows: range | tuple[int, ...], *, whole: bool) -> tuple[str, Cells]:
    kind, missing = column.type, int(column.null_count)
    if not _is_of(_class(kind), "pyarrow"):
        return _name(kind), Cells()
    arrow: Any = sys.modules["pyarrow"]
    is_dictionary = arrow.types.is_dictionary(kind)
    name = _cut(f"dictionary<{kind.value_type}>" if is_dictionary else str(kind))
    some = _taken(column, rows) if _is_flat(kind) else None
    if some is None:
        return name, Cells(missing=missing)
    if is_dictionary:
        return name, Cells(_decoded(some), missing=missing)
    if arrow.types.is_temporal(kind):
        return name, _times_of_arrow(column, some, whole=whole)
    is_float = arrow.types.is_floating(kind)
    is_read = whole and not missing and (is_float or arrow.types.is_integer(kind))
    counted = None if missing and is_float else missing
    return name, Cells(some.to_pylist(), missing=counted, array=_array(column) if is_read else None)


def _taken(column: Any, rows: range | tuple[int, ...]) -> Any:
    """Take some rows, in rising order, of each chunk alone, as else all chunks may be copied into one.

    Returns:
        A column in chunks; ``None`` where these rows have megabytes of text.
    """
    arrow: Any = sys.modules["pyarrow"]
    found: list[Any] = []
    start, room = 0, MOST_TEXT_BYTES
    for chunk in getattr(column, "chunks", [column]):
        first, end = bisect_left(rows, start), bisect_left(rows, start + len(chunk))
        if first < end:
            part = rows[first:end]
            at = _shifted(part, start) if isinstance(part, range) else tuple(row - start for row in part)
            room -= _text_bytes(chunk, at)
            if room < 0:
                return None
            found.append(chunk if len(at) == len(chunk) else chunk.take(_numbers(at)))
        start += len(chunk)
    return arrow.chunked_array(found, type=column.type)


def _shifted(rows: range, by: int) -> range:
    return range(rows.start - by, rows.stop - by, rows.step)


@lru_cache(maxsize=16)
def _numbers(rows: range | tuple[int, ...]) -> Any:
    """Return numbers of rows for pyarrow; columns of a table mostly have the same."""
    return cast("Any", sys.modules["pyarrow"]).array(rows)


def _text_bytes(chunk: Any, rows: Sequence[int]) -> int:
    """Count the bytes of texts in some rows; 0 for what has no texts."""
    of = cast("Any", sys.modules["pyarrow"]).types
    if not (of.is_string(chunk.type) or of.is_large_string(chunk.type)):
        return 0
    if chunk.nbytes <= MOST_TEXT_BYTES // 10:
        return chunk.nbytes
    size, code = (8, "q") if of.is_large_string(chunk.type) else (4, "i")
    held = memoryview(chunk.buffers()[1])
    ends = held[chunk.offset * size : (chunk.offset + len(chunk) + 1) * size].cast("B").cast(code)
    return sum(ends[row + 1] - ends[row] for row in rows)


def _decoded(some: Any) -> list[Any] | None:
    """Return texts that are held once each, without a copy for each row; ``None`` where these have megabytes."""
    values: list[Any] = []
    room = MOST_TEXT_BYTES
    for chunk in some.chunks:
        codes: list[int | None] = chunk.indices.to_pylist()
        used = tuple(sorted({code for code in codes if code is not None}))
        texts = _taken(chunk.dictionary, used)
        if texts is None or (room := room - texts.nbytes) < 0:
            return None
        held = dict(zip(used, texts.to_pylist(), strict=True))
        values += [None if code is None else held[code] for code in codes]
    return values


def _times_of_arrow(column: Any, some: Any, *, whole: bool) -> Cells:
    kind, missing, of = column.type, int(column.null_count), cast("Any", sys.modules["pyarrow"]).types
    number = "int32" if of.is_date32(kind) else "int64"
    array = _array(column.cast(number)) if whole and not missing else None
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


def _array(column: Any) -> Any:
    """Return a column of polars or pyarrow without missing values as an array."""
    if "numpy" not in sys.modules:
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
    return str(int(value)) if abs(value) < 10**15 and float(text) == int(value) else text


def _integer(value: int) -> str:
    return str(value) if abs(value) < 10**20 else f"{value:.6g}" if abs(value) < 10**300 else ""


SHOWN: Mapping[Family, Callable[[Any], str]] = {"number": _number, "int": _integer}
"""What writes plain values, where ``str`` would be long."""
