"""Frames, series and arrays in several lines: their types, what is missing, and the first rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from math import prod
from typing import Any

from indus_nb.kernel.values.extent import BY, memory, shape
from indus_nb.kernel.values.known_classes import families, type_name
from indus_nb.kernel.values.short import MAX_LINE_CHARACTERS, cut, short
from indus_nb.safety.redaction import is_secret_cell

COLUMNS = 20
_ROWS = 10
_CELL = 40
_CELLS_TO_COUNT = 2_000_000
_VALUES_TO_COMPARE = 10_000_000


def schema(frame: Any) -> list[tuple[str, str]]:
    """Return names and types of the first columns."""
    kinds = families(frame)
    if ("pandas", "DataFrame") in kinds:
        pairs: Iterable[tuple[Any, Any]] = frame.iloc[:, :COLUMNS].dtypes.items()
    elif ("polars", "DataFrame") in kinds:
        pairs = zip(frame.columns[:COLUMNS], frame.dtypes[:COLUMNS], strict=True)
    else:
        pairs = ((field.name, field.type) for field in islice(frame.schema, COLUMNS))
    return [(_cell(name), cut(str(dtype), _CELL)) for name, dtype in pairs]


def _nulls(frame: Any, columns: int) -> list[int]:
    kinds = families(frame)
    if ("pandas", "DataFrame") in kinds:
        counts: Iterable[Any] = frame.iloc[:, :columns].isna().sum()
    elif ("polars", "DataFrame") in kinds:
        counts = frame[:, :columns].null_count().row(0) if columns else ()
    else:
        counts = (frame.column(index).null_count for index in range(columns))
    return [int(count) for count in counts]


def _head(frame: Any, columns: int) -> list[list[str]]:
    """Return the first rows; those of pandas begin with the index."""
    kinds = families(frame)
    if ("pandas", "DataFrame") in kinds:
        rows: Iterable[Sequence[Any]] = frame.iloc[:_ROWS, :columns].itertuples(index=True, name=None)
    elif ("polars", "DataFrame") in kinds:
        rows = frame[:_ROWS, :columns].rows()
    else:
        first = frame.slice(0, _ROWS)
        rows = zip(*(first.column(index).to_pylist() for index in range(columns)), strict=True)
    return [[_cell(value) for value in row] for row in rows]


def frame_lines(frame: Any) -> str:
    """Describe a frame by its columns and its first rows."""
    rows, columns = shape(frame)
    named = schema(frame)
    count_nulls = rows * len(named) <= _CELLS_TO_COUNT
    nulls = _nulls(frame, len(named)) if count_nulls else [0] * len(named)
    lines = [f"{type_name(frame)}: {rows} rows {BY} {columns} columns"]
    for (name, dtype), count in zip(named, nulls, strict=True):
        lines.append(f"- {name}: {dtype}{f', {count} null' if count else ''}")
    if columns > len(named):
        lines.append(f"- … and {columns - len(named)} more columns")
    if count_nulls and not any(nulls):
        lines.append("No nulls." if columns == len(named) else "No nulls in these columns.")
    head = _head(frame, len(named))
    header = [name for name, _ in named]
    if head and len(head[0]) > len(header):
        header = ["", *header]
    head = [[_redacted(name, cell) for name, cell in zip(header, row, strict=False)] for row in head]
    return "\n".join([*lines, "", *map(_row, [header, *head] if header else head), *_more(rows)])


def series_lines(series: Any) -> str:
    """Describe a series or an index by its type and its first values."""
    kinds = families(series)
    length = len(series)
    name = getattr(series, "name", None)
    dtype = series.type if ("pyarrow", "ChunkedArray") in kinds else series.dtype
    shown = f"{type_name(series)}{f' {_cell(name)}' if name is not None else ''}: {length} values, {dtype}"
    first = series[:_ROWS]
    if ("pandas", "Series") in kinds:
        if length <= _CELLS_TO_COUNT:
            shown += f", {int(series.isna().sum())} null"
        rows = [_row([_cell(key), _redacted(str(name), _cell(value))]) for key, value in series.iloc[:_ROWS].items()]
        return "\n".join([shown, "", *rows, *_more(length)])
    if ("pandas", "Index") not in kinds:
        count: Any = series.null_count
        shown += f", {count if isinstance(count, int) else count()} null"
    values = first.to_pylist() if hasattr(first, "to_pylist") else first.tolist() if hasattr(first, "tolist") else first
    cells = ", ".join(_redacted(str(name), _cell(value)) for value in values)
    return f"{shown}\n{cells}{' …' if length > _ROWS else ''}"


def _redacted(column: str, cell: str) -> str:
    return "…" if is_secret_cell(column, cell) else cell


def _row(cells: Iterable[str]) -> str:
    return " | ".join(cells)


def _more(rows: int) -> list[str]:
    return [f"… ({rows - _ROWS} more rows)"] if rows > _ROWS else []


def _cell(value: Any) -> str:
    if type(value) is float:
        return f"{value:.6g}"
    text = value[:MAX_LINE_CHARACTERS] if type(value) is str else short(value, text=_CELL)
    return cut(" ".join(text.split()), _CELL, note=False)


def array_lines(array: Any) -> str:
    """Describe an array by its shape, its first values and its range."""
    lengths = shape(array)
    shown = f"{type_name(array)} of shape {lengths}, {array.dtype}{memory(array)}"
    if 0 in lengths:
        return shown
    first = array
    while len(first.shape) > 1:
        first = first[0]
    values = first[:8].tolist() if first.shape else [first.item()]
    more = " …" if len(values) < prod(lengths) else ""
    shown += f"\nfirst values: {', '.join(_cell(value) for value in values)}{more}"
    if type(array).__module__ == "numpy" and array.dtype.kind in "iuf" and array.size <= _VALUES_TO_COMPARE:
        shown += f"\nmin {_cell(array.min().item())}, max {_cell(array.max().item())}"
    return shown
