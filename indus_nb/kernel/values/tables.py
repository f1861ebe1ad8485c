"""Frames, series and arrays in several lines: their types, what is missing, and the first rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from math import prod
from typing import Any, cast

from indus_nb.kernel.values.extent import BY, memory, shape
from indus_nb.kernel.values.known_classes import families, type_name
from indus_nb.kernel.values.short import MAX_LINE_CHARACTERS, cut, is_secret_label, short
from indus_nb.safety.redaction import is_secret_cell

COLUMNS = 20
_ROWS = 10
_CELL = 40
_CELLS_TO_COUNT = 2_000_000
_VALUES_TO_COMPARE = 10_000_000


def schema(frame: Any) -> list[tuple[str, str]]:
    """Return names and types of the first columns."""
    return [(_cell(label), cut(str(dtype), _CELL)) for label, dtype in _columns(frame)]


def has_secret_labels(frame: Any) -> bool:
    """Return whether a name of the columns of pandas, such as of those of a pivot, says that they are secrets."""
    return ("pandas", "DataFrame") in families(frame) and any(map(is_secret_label, frame.columns.names))


def _columns(frame: Any) -> list[tuple[Any, Any]]:
    kinds = families(frame)
    if ("pandas", "DataFrame") in kinds:
        return list(frame.iloc[:, :COLUMNS].dtypes.items())
    if ("polars", "DataFrame") in kinds:
        return list(zip(frame.columns[:COLUMNS], frame.dtypes[:COLUMNS], strict=True))
    return [(field.name, field.type) for field in islice(frame.schema, COLUMNS)]


def _nulls(frame: Any, columns: int) -> list[int]:
    kinds = families(frame)
    if ("pandas", "DataFrame") in kinds:
        counts: Iterable[Any] = frame.iloc[:, :columns].isna().sum()
    elif ("polars", "DataFrame") in kinds:
        counts = frame[:, :columns].null_count().row(0) if columns else ()
    else:
        counts = (frame.column(index).null_count for index in range(columns))
    return [int(count) for count in counts]


def _head(frame: Any, dtypes: Sequence[Any], *, unasked: bool) -> list[list[Any]]:
    """Return the first rows; those of pandas begin with the label."""
    kinds = families(frame)
    labels: list[Any] = []
    if ("pandas", "DataFrame") in kinds:
        first = frame.iloc[:_ROWS, : len(dtypes)]
        labels = [first.index]
        columns: list[Any] = [first.iloc[:, index] for index in range(len(dtypes))]
    elif ("polars", "DataFrame") in kinds:
        columns = frame[:_ROWS, : len(dtypes)].get_columns()
    else:
        first = frame.slice(0, _ROWS)
        columns = [first.column(index) for index in range(len(dtypes))]
    values = [_values(column, dtype, unasked=unasked) for column, dtype in zip(columns, dtypes, strict=True)]
    return [list(row) for row in zip(*labels, *values, strict=True)]


def _values(first: Any, dtype: Any, *, unasked: bool) -> Sequence[Any]:
    """Return the values of a column or series; unasked, what is nested is not made of Python's lists."""
    if unasked and _is_nested(dtype):
        return [f"<{cut(str(dtype), _CELL)}>"] * len(first)
    if hasattr(first, "to_pylist"):
        return first.to_pylist()
    return first.to_list() if hasattr(first, "to_list") else list(first)


def _is_nested(dtype: Any) -> bool:
    dtype = dtype.pyarrow_dtype if ("pandas", "ArrowDtype") in families(dtype) else dtype
    kinds = families(dtype)
    if ("pyarrow", "DataType") in kinds:
        return bool(cast("Any", sys.modules["pyarrow"]).types.is_nested(dtype))
    return ("polars", "NestedType") in kinds


def frame_lines(frame: Any, *, unasked: bool = False) -> str:
    """Describe a frame by its columns and its first rows.

    Args:
        unasked: Whether nobody asked for its values, so that none is told that a name may say to be a secret.
    """
    rows, columns = shape(frame)
    found = _columns(frame)
    named = schema(frame)
    count_nulls = rows * len(named) <= _CELLS_TO_COUNT
    lines = [f"{type_name(frame)}: {rows} rows {BY} {columns} columns"]
    if unasked and has_secret_labels(frame):
        return lines[0]
    nulls = _nulls(frame, len(named)) if count_nulls else [0] * len(named)
    secret = [unasked and is_secret_label(label) for label, _ in found]
    for (name, dtype), count, is_secret in zip(named, nulls, secret, strict=True):
        told = dtype.partition("(")[0] if is_secret else dtype  # which may list values
        lines.append(f"- {name}: {told}{f', {count} null' if count else ''}")
    if columns > len(named):
        lines.append(f"- … and {columns - len(named)} more columns")
    if count_nulls and not any(nulls):
        lines.append("No nulls." if columns == len(named) else "No nulls in these columns.")
    head = _head(frame, [dtype for _, dtype in found], unasked=unasked)
    header = [name for name, _ in named]
    if head and len(head[0]) > len(header):
        header = ["", *header]
        secret = [unasked and any(map(is_secret_label, frame.index.names)), *secret]
    shown = [_shown(row, header, secret, unasked=unasked) for row in head]
    return "\n".join([*lines, "", *map(_row, [header, *shown] if header else shown), *_more(rows)])


def _shown(row: Sequence[Any], header: Sequence[str], secret: Sequence[bool], *, unasked: bool) -> list[str]:
    """Write a row without secrets; unasked, a label or cell that names one hides the others."""
    cells = [_redacted(name, _cell(value)) for name, value in zip(header, row, strict=True)]
    if not unasked:
        return cells
    names = [_names_secret(value) for value in row]
    return [
        "…" if is_secret or (any(names) and not is_name) else cell
        for cell, is_secret, is_name in zip(cells, secret, names, strict=True)
    ]


def _names_secret(value: object) -> bool:
    """Return whether a label or cell is the name of a secret, and not a text that speaks of one."""
    if type(value) is tuple:
        return any(map(_names_secret, cast("tuple[object, ...]", value)))
    return type(value) is str and re.fullmatch(r"[\w. -]{1,60}", value) is not None and is_secret_label(value)


def series_lines(series: Any, *, unasked: bool = False) -> str:
    """Describe a series or an index by its type and its first values.

    Args:
        unasked: As in ``frame_lines``.
    """
    kinds = families(series)
    length = len(series)
    name = getattr(series, "name", None)
    names = series.names if ("pandas", "Index") in kinds else [name]
    is_secret = unasked and any(map(is_secret_label, names))
    dtype = series.type if ("pyarrow", "ChunkedArray") in kinds else series.dtype
    kind = str(dtype).partition("(")[0] if is_secret else dtype  # which may list values
    shown = f"{type_name(series)}{f' {_cell(name)}' if name is not None else ''}: {length} values, {kind}"
    is_pandas = ("pandas", "Series") in kinds
    if is_pandas:
        shown += f", {int(series.isna().sum())} null" if length <= _CELLS_TO_COUNT else ""
    elif ("pandas", "Index") not in kinds:
        count: Any = series.null_count
        shown += f", {count if isinstance(count, int) else count()} null"
    if is_secret:
        return shown
    first = series.iloc[:_ROWS] if is_pandas else series[:_ROWS]
    values = _values(first, dtype, unasked=unasked)
    if is_pandas:
        secret = [unasked and any(map(is_secret_label, first.index.names)), False]
        pairs = zip(first.index, values, strict=True)
        rows = [_row(_shown(pair, ["", str(name)], secret, unasked=unasked)) for pair in pairs]
        return "\n".join([shown, "", *rows, *_more(length)])
    cells = ", ".join(_redacted(str(name), _cell(value)) for value in values)
    return f"{shown}\n{cells}{' …' if length > _ROWS else ''}"


def _redacted(column: str, cell: str) -> str:
    return "…" if is_secret_cell(column, cell.strip(" '")) else cell


def _row(cells: Iterable[str]) -> str:
    return " | ".join(cells)


def _more(rows: int) -> list[str]:
    return [f"… ({rows - _ROWS} more rows)"] if rows > _ROWS else []


def _cell(value: Any) -> str:
    if type(value) is float:
        return f"{value:.6g}"
    text = value[:MAX_LINE_CHARACTERS] if type(value) is str else short(value, text=_CELL)
    if text != text.strip():  # in quotes, for the blanks at its ends to be seen
        return cut(re.sub(r"\s", " ", f"'{text}'"), _CELL, note=False)
    return cut(" ".join(text.split()), _CELL, note=False)


def array_lines(array: Any, *, unasked: bool = False) -> str:  # noqa: ARG001 - as of the others
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
