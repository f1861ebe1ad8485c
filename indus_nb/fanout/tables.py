"""Rows as data frames, some of them in an order of their own, and as tables of a page."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, overload

from indus_nb.base import textcut
from indus_nb.base.errors import IndusError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.fanout.rows import Table
from indus_nb.fanout.words import as_html, rows_of

_MAX_CELL_CHARACTERS = 120


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


def html_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows as a table of a page; empty without any.

    Args:
        names: The names of their columns, without that of the first, which numbers them.
    """
    if not rows:
        return ""
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
        rows = [[number, *(self._table.rows[number].get(name) for name in names)] for number in shown]
        more = f"<p>{len(shown)} of {rows_of(len(self))}; <code>frame</code> has all.</p>"
        return f"<p>{as_html(self.summary)}</p>{html_table(names, rows)}{more * (len(shown) < len(self))}"
