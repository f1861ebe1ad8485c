"""Where the next new cell of a run goes, whether the user accepted it or the agent's code was written as one.

What this module promises: the cells that one run puts below the same cell stand in the order in which it put them,
and what the user has removed of them is passed over.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator


class RunCells:
    """The new cells of one run, each below the cell that it was meant for.

    Attributes:
        asking: The id of the cell that asks; ``None`` where none does, as in a panel.
    """

    def __init__(self, asking: str | None) -> None:
        """Begin a run, without new cells."""
        self.asking = asking
        self._below: dict[str | None, list[str]] = {}

    def add(self, cell: str, below: str | None) -> None:
        """Note a new cell, by its id.

        Args:
            below: What ``last`` was asked for its place.
        """
        self._below.setdefault(below, []).append(cell)

    def last(self, below: str | None, gone: Collection[str] = ()) -> str | None:
        """Return the cell that the next one goes right below, which is to stand below a cell.

        Args:
            below: The id of that cell, or ``asking``.
            gone: The ids of cells that are not there any more.

        Returns:
            The last one that the run has put below that cell, or below one of those, or else that cell itself.

        >>> run = RunCells("a")
        >>> for cell, below in (("b", "a"), ("c", "a"), ("d", "b")):
        ...     run.add(cell, below)
        >>> run.last("a"), run.last("b"), run.last("a", {"c"}), run.last("a", {"b", "c", "d"}), run.last("x")
        ('c', 'd', 'd', 'a', 'x')
        """
        *_, last = (each for each in self._standing(below) if each == below or each not in gone)
        return last

    def gone(self, there: Iterable[str | None]) -> frozenset[str]:
        """Return those of its cells that are not in the notebook, whose cells have these ids."""
        return frozenset(each for cells in self._below.values() for each in cells).difference(there)

    def copy(self) -> RunCells:
        """Return another one, to be added to by itself."""
        return copy.deepcopy(self)

    @property
    def is_empty(self) -> bool:
        """Return whether it has no new cells."""
        return not self._below

    def _standing(self, below: str | None) -> Iterator[str | None]:
        """Yield a cell and those that the run has put below it, from top to bottom."""
        yield below
        for cell in self._below.get(below, ()):
            yield from self._standing(cell)
