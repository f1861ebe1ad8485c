"""Frames of Dask, which stay where they are: the columns of prompts are fetched, and the answers are sent back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any

from indus_nb.base import textcut
from indus_nb.base.errors import IndusError, UsageError, failure_text
from indus_nb.fanout.rows import Table, table_of
from indus_nb.fanout.template import Template

_MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Partitions:
    """Frame in partitions, and the number of rows that each had when they were asked.

    Attributes:
        lengths: The number of rows of each partition.
    """

    frame: Any
    lengths: tuple[int, ...]

    def with_columns(self, columns: Mapping[str, Any]) -> Any:
        """Add columns to each partition where it lives.

        Args:
            columns: A series of pandas for each column, by its name.

        Returns:
            A frame of Dask with the same index and divisions, computed when it is asked for.
        """
        # By name, for type checkers need not find it.
        add = import_module("dask").delayed(add_columns)
        ends = pairwise(accumulate(self.lengths, initial=0))
        parts = [
            add(part, {name: values.iloc[begin:end] for name, values in columns.items()})
            for part, (begin, end) in zip(self.frame.to_delayed(), ends, strict=True)
        ]
        like = add_columns(self.frame._meta, {name: values.iloc[:0] for name, values in columns.items()})  # noqa: SLF001 - the types of its columns, which have no public name
        divisions = self.frame.divisions if self.frame.known_divisions else None
        return import_module("dask.dataframe").from_delayed(parts, meta=like, divisions=divisions)


def add_columns(part: Any, columns: Mapping[str, Any]) -> Any:
    """Add columns to one partition; called where it lives.

    Args:
        columns: A series of the same length for each column, by its name.

    Raises:
        ValueError: The partition has not as many rows as it had.
    """
    frame = part.copy()
    for name, values in columns.items():
        if len(values) != len(frame):
            raise ValueError(
                f"A partition has {len(frame)} rows and had {len(values)} when they were asked, so nobody can say "
                "which answer belongs to which. Give agent.map what persist() of the frame returns."
            )
        frame[name] = values.set_axis(frame.index)
    return frame


def is_partitioned(data: object) -> bool:
    """Return whether the data is a frame of Dask, which none is if Dask was not imported to make it."""
    library = type(data).__module__.partition(".")[0]
    return library in ("dask", "dask_expr") and hasattr(data, "iterrows") and hasattr(data, "to_delayed")


def bring(data: Any, template: Template) -> tuple[Partitions, Table]:
    """Fetch columns, one partition after the other.

    Returns:
        The frame, and its rows: with the names of all columns, and values of those that were brought.

    Raises:
        UsageError: Two columns have the same name, or the prompt names one that the frame does not have.
        IndusError: A partition cannot be computed.
    """
    columns = {str(name): name for name in data.columns}
    if len(columns) < len(data.columns):
        raise UsageError("The data has columns of the same name. Give them names of their own.")
    template.check(columns)
    wanted = data[[columns[name] for name in template.columns]]
    rows: list[dict[str, Any]] = []
    lengths: list[int] = []
    for number in range(wanted.npartitions):
        try:
            part = wanted.get_partition(number).compute()
        except Exception as error:
            reason = textcut.one_line(failure_text(error), _MAX_REASON_CHARACTERS)
            raise IndusError(f"Partition {number} of the data cannot be computed: {reason}") from error
        rows += table_of(part).rows if template.columns else [{} for _ in range(len(part))]
        lengths.append(len(part))
    return Partitions(data, tuple(lengths)), Table(tuple(columns), tuple(rows))
