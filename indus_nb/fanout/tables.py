"""Rows as data frames, some of them in an order of their own, and as tables of a page."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, overload

from indus_nb.base import textcut
from indus_nb.base.errors import IndusError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.fanout.rows import Table
from indus_nb.fanout.words import as_html, part_shown

_MAX_CELL_CHARACTERS = 120
_PLACES = 6
"""As many as pandas prints."""
_MOST_FIXED = 1e16
_MIDNIGHT = "T00:00:00"


def pandas() -> Any:
    """Return pandas; raises ``IndusError`` if it is not installed."""
    try:
        import pandas as pd  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise IndusError("There is no pandas here to make a frame with: install it, or use `records`.") from error
    return pd


def is_polars(data: object) -> bool:
    """Return whether the data is a frame of polars."""
    return type(data).__module__.partition(".")[0] == "polars" and hasattr(data, "with_columns")


def pandas_frame(data: Any, table: Table) -> Any:
    """Return all rows as a new frame of pandas; those of a frame of pandas keep their index and types."""
    pd = pandas()
    if isinstance(data, pd.DataFrame):
        return data.copy()
    columns = {name: [row.get(name) for row in table.rows] for name in table.columns}
    return pd.DataFrame(columns, index=range(len(table.rows)))


def chosen_frame(data: Any, table: Table, numbers: Sequence[int]) -> Any:
    """Return some rows as a new frame, one of polars if the data is one, and of pandas otherwise.

    Args:
        numbers: Their numbers, from 0, in the order that they are to have.
    """
    if is_polars(data):
        return data.select(sys.modules["polars"].all().gather(list(numbers)))
    return pandas_frame(data, table).iloc[list(numbers)]


def cell(value: object) -> str:
    """Return a value as a cell of a page: one line, and nothing that a page obeys."""
    text = "" if value is None else value if isinstance(value, str) else dump(value).decode()
    return as_html(textcut.one_line(text, _MAX_CELL_CHARACTERS))


def as_shown(values: Sequence[object], *, are_times: bool = False) -> list[object]:
    """Return the values of a column as a frame would print them: numbers with as many places, days without a time.

    >>> as_shown([200.10000000000002, 3.25, None]), as_shown([4.0]), as_shown([3e-9, 1.0])
    (['200.10', '3.25', None], ['4.0'], ['3.000000e-09', '1.000000e+00'])
    >>> as_shown(["2025-03-03T00:00:00"], are_times=True), as_shown(["2025-03-03T08:00:00"], are_times=True)
    (['2025-03-03'], ['2025-03-03 08:00:00'])

    Args:
        are_times: Whether its texts are points in time, in ISO format.
    """
    if are_times:
        texts = [value for value in values if isinstance(value, str)]
        days = all(text.endswith(_MIDNIGHT) for text in texts)
        return [
            value if not isinstance(value, str) else value.removesuffix(_MIDNIGHT) if days else value.replace("T", " ")
            for value in values
        ]
    numbers = [value for value in values if isinstance(value, float)]
    fixed = all(not number or 10**-_PLACES <= abs(number) < _MOST_FIXED for number in numbers)
    needed = (len(f"{number:.{_PLACES}f}".rstrip("0").partition(".")[2]) for number in numbers if fixed)
    form = f".{max(1, *needed, 1)}f" if fixed else f".{_PLACES}e"
    return [format(value, form) if isinstance(value, float) else value for value in values]


def _are_times(data: Any, name: str) -> bool:
    """Return whether a column of a frame has the type of points in time."""
    if name not in getattr(data, "columns", ()):
        return False
    return str(getattr(data[name], "dtype", "")).lower().startswith("datetime")


def html_table(names: Sequence[str], rows: Sequence[Sequence[object]], data: object) -> str:
    """Return rows as a table of a page; empty without any.

    Args:
        names: The names of their columns, without that of the first, which has their labels.
        data: The source of the rows, which knows what its columns are.
    """
    if not rows:
        return ""
    labels, *columns = zip(*rows, strict=True)
    shown = [as_shown(column, are_times=_are_times(data, name)) for name, column in zip(names, columns, strict=True)]
    rows = [*zip(labels, *shown, strict=True)]
    head = "<th></th>" + "".join(f"<th>{cell(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Chosen(Sequence[JsonObject]):
    """Some rows of the data, as dictionaries of their columns.

    Args:
        data: The source of the rows.
        table: All rows.
        numbers: The numbers of those that were chosen, in their order here.
    """

    _MOST_ROWS = 20
    _MOST_COLUMNS = 10

    def __init__(self, data: object, table: Table, numbers: Sequence[int]) -> None:
        self._data = data
        self._table = table
        self.numbers: tuple[int, ...] = tuple(numbers)
        """The numbers of these rows in the data, from 0."""

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int, /) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[JsonObject]: ...
    def __getitem__(self, index: int | slice, /) -> JsonObject | list[JsonObject]:
        rows, numbers = self._table.rows, self.numbers
        return [rows[number] for number in numbers[index]] if isinstance(index, slice) else rows[numbers[index]]

    def __iter__(self) -> Iterator[JsonObject]:
        return (self._table.rows[number] for number in self.numbers)

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    @property
    def summary(self) -> str:
        """Summarise the outcome in a line."""
        return f"{len(self):,} of {len(self._table.rows):,} rows"

    @property
    def records(self) -> list[JsonObject]:
        """Return these rows as dictionaries, without pandas."""
        return list(self)

    @property
    def frame(self) -> Any:
        """Return these rows as a data frame with the columns of the data and no others.

        It is one of polars if the data was one, and of pandas otherwise; the rows of a data frame of pandas keep
        their index and types.

        Raises:
            IndusError: There is no pandas here; ``records`` needs none.
        """
        return chosen_frame(self._data, self._table, self.numbers)

    def _repr_html_(self) -> str:
        """Return the summary and the first rows as HTML for notebooks."""
        names = self._table.columns[: self._MOST_COLUMNS]
        shown = self.numbers[: self._MOST_ROWS]
        table = self._table
        rows = [[table.label(number), *(table.rows[number].get(name) for name in names)] for number in shown]
        part = part_shown(len(shown), len(self), len(names), len(table.columns))
        more = f"<p>{part}; <code>frame</code> has all.</p>" if part else ""
        return f"<p>{as_html(self.summary)}</p>{html_table(names, rows, self._data)}{more}"
