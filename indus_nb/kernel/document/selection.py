"""Which cells of a notebook a text names: by ids, by the numbers that they ran with, or by their places.

A number alone may be a place or the number of a run. Where one cell is to be changed, it counts only if both are the
same cell.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from indus_nb.base.textcut import one_line
from indus_nb.base.wire import clean_text
from indus_nb.kernel.document.notebook_file import Cell
from indus_nb.render.markup import plain
from indus_nb.safety.redaction import hide, labelled_secrets
from indus_nb.tools.tool import ToolError

RunAs = Callable[[int], Sequence[int]]
"""Finds the places of the cells that ran with a number, or show it."""
_RUN = re.compile(r"in\s*\[\s*(\d{1,9})\s*\]", re.IGNORECASE)
_SPAN = re.compile(r"\[?(\d{1,9})\s*(?:[-:\u2013]\s*(\d{1,9}))?\]?")
_PART = re.compile(rf"{_RUN.pattern}|[^\s,]+", re.IGNORECASE)
_BY_ID = "Name one, by its id. Nothing was proposed."
_MAX_LISTED = 5
_MAX_LINE_CHARACTERS = 60


def last_runs(cells: Sequence[Cell], ran: Sequence[str], ids: Mapping[int, str]) -> dict[int, int]:
    """Find with which numbers the cells ran last in this kernel, of those whose source is as it was then.

    Cells are recognised by their ids. By its source one is where no id is known, or none of a cell that is there, as
    when front ends have given new ones; then no other cell may have that source, and the number stands beside it.

    Args:
        cells: All cells of the notebook.
        ran: The sources of cells that ran here, by number; an empty one for the number 0.
        ids: The ids of cells that ran here, by number.

    Returns:
        The numbers, by the places of the cells, from 1.

    >>> cells = [Cell("code", "x = 11", id="a"), Cell("code", "x = 11", id="b"), Cell("code", "y")]
    >>> last_runs(cells, ["", "x = 11", "x = 11", "y", "x = 11"], {1: "a", 2: "b"})
    {1: 1, 2: 2, 3: 3}
    """
    sources = [cell.source.strip() for cell in cells]
    often, there = Counter(sources), {cell.id for cell in cells if cell.id}
    by_id: dict[str, int] = {}
    by_source: dict[str, int] = {}
    renamed: set[tuple[str, int]] = set()
    for number, source in ((number, code.strip()) for number, code in enumerate(ran) if code.strip()):
        own_id = ids.get(number)
        if own_id is None:
            by_source[source] = number
        elif own_id in there:
            by_id[own_id] = number
        else:
            renamed.add((source, number))
    found: dict[int, int] = {}
    for place, (cell, source) in enumerate(zip(cells, sources, strict=True), 1):
        number = by_id.get(cell.id or "")
        if number is not None:
            if ran[number].strip() == source:
                found[place] = number
        elif often[source] == 1:
            shown = next((each for each in (cell.shown_as, cell.run_as) if each and (source, each) in renamed), None)
            if (number := shown or by_source.get(source)) is not None:
                found[place] = number
    return found


def chosen_cells(cells: Sequence[Cell], text: str, run_as: RunAs = lambda _number: ()) -> list[int]:
    """Parse a selection of cells.

    Args:
        cells: All cells of the notebook.
        text: Places (``3``), spans of them (``3-7``), numbers of runs (``In [3]``) or ids, several of them with commas.
        run_as: Where the cells are that ran with a number.

    Returns:
        The places of the cells, from 1, in the order given, each once.

    Raises:
        ToolError: There is no such cell.
    """
    ids = {cell.id: place for place, cell in enumerate(cells, 1) if cell.id}
    places: dict[int, None] = {}
    for part in (found[0] for found in _PART.finditer(text)):
        span, run = _SPAN.fullmatch(part), _RUN.fullmatch(part)
        if span and 1 <= int(span[1]) <= len(cells):
            places.update(dict.fromkeys(range(int(span[1]), min(int(span[2] or span[1]), len(cells)) + 1)))
        elif part in ids:
            places[ids[part]] = None
        elif run and (found := run_as(int(run[1]))):
            places.update(dict.fromkeys(found))
        else:
            raise ToolError(
                f"There is no cell {part[:80]!r}. The cells have ids, and the places 1-{len(cells)}; "
                "those that ran are In [number]."
            )
    return [*places]


def one_cell(cells: Sequence[Cell], wanted: str, run_as: RunAs) -> int:
    """Return the place of the one cell that a text names.

    Args:
        cells: All cells of the notebook.
        wanted: An id, ``In [3]``, or a number that is a place and no other cell's run.
        run_as: Where the cells are that ran with a number.

    Raises:
        ToolError: It names none, several, or may mean one or another.

    >>> cells = [Cell("code", "x", id="a"), Cell("code", "y", id="b")]
    >>> one_cell(cells, "In [2]", lambda number: [1]), one_cell(cells, "b", lambda number: [1])
    (1, 2)
    >>> one_cell(cells, "2", lambda number: [1])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    indus_nb.tools.tool.ToolError: '2' may be cell b, at that place (y), or cell a, run as In [2] (x). Name one, ...
    """
    span = _SPAN.fullmatch(wanted.strip())
    if span is not None and span[2] is None and (runs := run_as(int(span[1]))):
        number = int(span[1])
        meant = [_described(cells, place, f", run as In [{number}]") for place in runs]
        if 1 <= number <= len(cells) and number not in runs:
            meant.insert(0, _described(cells, number, ", at that place"))
        if len(meant) > 1:
            raise ToolError(f"{wanted!r} may be {', or '.join(meant)}. {_BY_ID}")
        return runs[0]
    places = chosen_cells(cells, wanted, run_as)
    if len(places) != 1:
        listed = "; ".join(_described(cells, place) for place in places[:_MAX_LISTED])
        raise ToolError(f"{wanted!r} names {len(places)} cells: {listed}. {_BY_ID}")
    return places[0]


def name_for_model(cells: Sequence[Cell], place: int) -> str:
    """Name a cell as the model names it in its calls: by its id, or by its place where it has none.

    >>> name_for_model([Cell("code", "", id="a"), Cell("code", "")], 1), name_for_model([Cell("code", "")], 1)
    ('cell a', 'the cell at place 1')
    """
    cell_id = cells[place - 1].id
    return f"cell {cell_id}" if cell_id else f"the cell at place {place}"


def _described(cells: Sequence[Cell], place: int, how: str = "") -> str:
    line = hide(plain(clean_text(one_line(cells[place - 1].first_line(), _MAX_LINE_CHARACTERS))), labelled_secrets())
    return f"{name_for_model(cells, place)}{how} ({line})"
