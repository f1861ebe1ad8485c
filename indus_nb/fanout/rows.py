"""Data of any kind as rows of JSON values, in their order; imports none of the libraries that it comes from.

What this module promises: ``rows_in`` reads a row when it is taken, and keeps none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject, clean_text, dump
from indus_nb.base.wire_model import WireModel
from indus_nb.fanout.contents import Content, holds_content

ITEM = "item"
"""The column of values that are no rows themselves, such as texts."""

_MAX_DEPTH = 20
_MAX_LABEL_CHARACTERS = 60
_BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the names of their columns.

    Attributes:
        columns: The names; where rows differ all that occur, in the order in which they come.
        rows: The values by column, as JSON knows them. A row need not have every column.
        index: The labels of the rows, of a frame of pandas; ``None`` where they have none. The frame may get others.
    """

    columns: tuple[str, ...]
    rows: tuple[JsonObject, ...]
    index: Sequence[object] | None = None

    def label(self, number: int) -> str:
        """Return what users of the data call a row: its label as ``loc`` of the frame takes it, else its number.

        Args:
            number: The number of the row, from 0.
        """
        label: Any = number if self.index is None else self.index[number]
        if isinstance(label, tuple):  # with numbers of numpy, which show as such
            label = tuple(part.item() if hasattr(part, "item") else part for part in cast("tuple[Any, ...]", label))
        return textcut.one_line(str(label), _MAX_LABEL_CHARACTERS)


def table_of(data: object) -> Table:
    """Read all rows of data; see ``rows_in``.

    Raises:
        UsageError: There are no rows in it, or two columns have the same name.
    """
    columns, read = rows_in(data)
    rows = tuple(read)
    names = tuple(dict.fromkeys(name for row in rows for name in row)) if columns is None else columns
    return Table(names, rows, getattr(data, "index", None) if hasattr(data, "itertuples") else None)


def rows_in(data: object) -> tuple[tuple[str, ...] | None, Iterator[JsonObject]]:
    """Return the rows of a frame, of a list of rows, or of anything that can be iterated over, to be read one by one.

    A frame of pandas or polars and a table of pyarrow give their rows; a mapping of columns to lists of the same length
    too. Of anything else each element is a row if it is a mapping, a dataclass, a named tuple or a model of pydantic,
    and otherwise a row with the one column ``item``; a named column of a frame gives its name to that.

    Args:
        data: The data. It is iterated over once.

    Returns:
        The names of the columns, ``None`` if the rows say them; and the rows.

    Raises:
        UsageError: There are no rows in it, or two columns have the same name.
    """
    if isinstance(data, str | bytes | bytearray):
        raise UsageError("The data is one text; give a list of rows, or [text] for a single one.")
    if hasattr(data, "dask") or (hasattr(data, "collect") and hasattr(data, "collect_schema")):
        raise UsageError(f"A {_kind(data)} holds no rows yet. Give what its compute() or collect() returns.")
    if isinstance(data, Mapping):
        return _of_columns(cast("Mapping[object, object]", data))
    if (frame := _of_frame(data)) is not None:
        return frame
    if not hasattr(data, "__iter__"):
        raise UsageError(f"A {_kind(data)} is no data: give a frame, a list of rows, or anything to iterate over.")
    name = getattr(data, "name", None)
    column = name if isinstance(name, str) and name and hasattr(data, "dtype") else ITEM
    return None, (_row(element, column) for element in cast("Iterable[object]", data))


_Read: TypeAlias = tuple[tuple[str, ...], Iterator[JsonObject]]


def _of_frame(data: object) -> _Read | None:
    source: Any = data
    if hasattr(source, "itertuples") and hasattr(source, "columns"):  # pandas
        return _named(source.columns, source.itertuples(index=False, name=None))
    if hasattr(source, "iter_rows") and hasattr(source, "columns"):  # polars
        return _named(source.columns, source.iter_rows())
    if hasattr(source, "to_pylist") and hasattr(source, "column_names"):  # pyarrow
        batches = source.to_batches(_BATCH_ROWS) if hasattr(source, "to_batches") else [source]
        rows = (row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns), strict=True))
        return _named(source.column_names, rows)
    return None


def _of_columns(data: Mapping[object, object]) -> _Read:
    lists = [cast("Sequence[object]", column) for column in data.values() if isinstance(column, list | tuple)]
    if len(lists) < len(data) or len({len(column) for column in lists}) > 1:
        raise UsageError("A mapping is data if each value is a list, all of one length. A single row is [row].")
    return _named(data, zip(*lists, strict=True))


def _named(columns: Iterable[object], rows: Iterable[Sequence[object]]) -> _Read:
    names = [str(name) for name in columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"The data has more than one column {twice[0]!r}. Give them names of their own.")
    return tuple(names), (dict(zip(names, map(plain_value, row), strict=True)) for row in rows)


def _row(element: object, column: str) -> JsonObject:
    fields_of = _fields(element)
    if fields_of is None:
        return {column: plain_value(element)}
    return {str(name): plain_value(value) for name, value in fields_of.items()}


def _fields(element: object) -> Mapping[object, object] | None:
    if isinstance(element, Mapping):
        return cast("Mapping[object, object]", element)
    kind = type(element)
    if is_dataclass(kind):
        return {field.name: getattr(element, field.name) for field in fields(kind)}
    if issubclass(kind, WireModel):
        return {name: getattr(element, name) for name in kind.wire_fields}
    name = "_asdict" if issubclass(kind, tuple) else "model_dump" if hasattr(kind, "model_fields") else None
    as_dict = None if name is None else _method(element, name)
    return None if as_dict is None else cast("Mapping[object, object]", as_dict())


def plain_value(value: object, depth: int = 0) -> Any:
    """Return ``value`` as JSON knows it.

    What is missing in a frame is ``None``, and so are infinite numbers; dates are texts in ISO format; images, bytes
    and paths are ``Content``; and what JSON does not know else is the text that it prints as.

    Returns:
        ``None``, a boolean, number, text, list or dictionary.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return _scalar(value)
    if (content := Content.of(value)) is not None:
        return content
    if depth < _MAX_DEPTH:
        if (fields_of := _fields(value)) is not None:
            return {str(name): plain_value(inner, depth + 1) for name, inner in fields_of.items()}
        if (elements := _elements(value)) is not None:
            return [plain_value(inner, depth + 1) for inner in elements]
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas
        return None
    scalar = _method(value, "isoformat") or (_method(value, "item") if hasattr(value, "dtype") else None)
    return _scalar(str(value) if scalar is None else scalar())


def _scalar(value: object) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, bool) or value is None:
        return value
    return int(value) if isinstance(value, int) else clean_text(str(value))


def _elements(value: object) -> Iterable[object] | None:
    if isinstance(value, list | tuple):
        return cast("Sequence[object]", value)
    if isinstance(value, AbstractSet):
        # In one order, for that of a set differs from one process to the next, and a row is found by its values.
        return sorted(cast("AbstractSet[object]", value), key=repr)
    if getattr(value, "shape", None) and (to_list := _method(value, "tolist")) is not None:  # an array
        return cast("list[object]", to_list())
    return None


def _method(value: object, name: str) -> Callable[[], object] | None:
    method = getattr(value, name, None)
    return cast("Callable[[], object]", method) if callable(method) else None


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def key_of_values(*values: object) -> bytes:
    """Return what is the same for equal values: a column of whole numbers with gaps holds floats.

    >>> key_of_values(1, "a") == key_of_values(1.0, "a")
    True

    Args:
        *values: Values of rows.

    Raises:
        UsageError: One is an image or a file, or holds some.
    """
    if any(map(holds_content, values)):
        raise UsageError("Images, bytes and files are no keys that rows could have in common. Name another column.")
    return dump([int(each) if isinstance(each, float) and each.is_integer() else each for each in values])
