"""Proposed cells as a front end shows them where they will stand: in the editors of cells, and between cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.render.markup import plain

CellType = Literal["code", "markdown"]

_MAX_DRAFT_CHARACTERS = 40_000
_MAX_DRAFT_CELLS = 30


@dataclass(frozen=True, slots=True)
class PlacedCell:
    """A proposed source with its place.

    Attributes:
        cell: Id of the cell that gets it; ``None`` for a new cell.
        old: The source that this cell has now, as far as it is known.
        after: Id of the cell above a new one; ``None`` where that is the new one before it in the list.
    """

    source: str
    type: CellType = "code"
    cell: str | None = None
    old: str | None = None
    after: str | None = None


class AskedAt(NamedTuple):
    """The cell that a user asks at: what the run proposes is for its place, and ends the run once it is accepted.

    Attributes:
        request: An id of that request.
        changes: Whether it asks for another source of the cell; else for new cells below it.
    """

    request: str
    cell: str
    changes: bool


ASKED_AT: ContextVar[AskedAt | None] = ContextVar("indus_nb asked at", default=None)


def drafted(arguments: JsonObject, at: AskedAt) -> list[PlacedCell]:
    """Return what a call of ``propose_cell`` proposes by arguments that are not whole yet, and may be anything.

    Nothing, once one of the cells has its place elsewhere than at the cell that is asked at.

    >>> drafted({"source": "x = 1"}, AskedAt("1", "a", changes=True))
    [PlacedCell(source='x = 1', type='code', cell='a', old=None, after=None)]
    >>> drafted({"source": "x = 1", "replace": "b"}, AskedAt("1", "a", changes=True))
    []
    """
    listed: object = arguments.get("cells")
    given = cast("list[object]", listed)[:_MAX_DRAFT_CELLS] if isinstance(listed, list) else [arguments]
    placed = list(_placed(given, at))
    return placed if all({each.cell, each.after} <= {at.cell, None} for each in placed) else []


def _placed(given: Sequence[object], at: AskedAt) -> Iterator[PlacedCell]:
    left, behind = _MAX_DRAFT_CHARACTERS, at.cell
    for each in given:
        cell = cast("JsonObject", each) if isinstance(each, dict) else {}
        source: object = cell.get("source")
        if not isinstance(source, str) or len(source) > left:
            return
        left -= len(source)
        kind: CellType = "markdown" if cell.get("cell_type") == "markdown" else "code"
        named, above = (_whole(cell.get(name), at.cell) for name in ("replace", "after"))
        if named is None and above is None and at.changes and len(given) == 1:
            named = at.cell
        text = plain(clean_text(source))
        if named is not None:
            yield PlacedCell(text, kind, cell=named)
        else:
            yield PlacedCell(text, kind, after=behind if above is None else above)
        behind = at.cell if named is not None else None


def _whole(name: object, cell: str) -> str | None:
    """Return a name that is being written; while it may become the cell's id, that id."""
    return None if name is None else cell if cell.startswith(str(name)) else str(name)
