"""What a cell of the notebook is called for the user."""

from __future__ import annotations

import re
from collections.abc import Sequence

CELL_NAME = r"a cell|cell \[\d+\]|the (?:\d+(?:st|nd|rd|th) )?cell(?: below \[\d+\])?"
"""Pattern of the names that ``cell_name`` gives."""
_BY_PLACE = re.compile(r"the (?:(\d+)(?:st|nd|rd|th) )?cell(?: below \[(\d+)\])?")
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def cell_name(place: int, shown: Sequence[int | None] = ()) -> str:
    """Name a cell by the number in brackets that stands at it, or the nearest one above, or else by its place.

    Args:
        place: Which cell of the notebook it is, from 1; 0 if that is not known.
        shown: The numbers that stand at the cells, from top to bottom; what stands at several names none of them.

    Returns:
        The name, to be read within a sentence.

    >>> cell_name(2, [None, 14, 15])
    'cell [14]'
    >>> cell_name(4, [None, 14, 15, None, None]), cell_name(5, [None, 14, 15, None, None])
    ('the cell below [15]', 'the 2nd cell below [15]')
    >>> cell_name(1, [None, 14, 15]), cell_name(23), cell_name(112), cell_name(0)
    ('the 1st cell', 'the 23rd cell', 'the 112th cell', 'a cell')
    """
    if place < 1:
        return "a cell"
    for above, number in enumerate(reversed(shown[:place]) if place <= len(shown) else ()):
        if number is not None and shown.count(number) == 1:
            which = "the cell" if above == 1 else f"the {_ordinal(above)} cell"
            return f"{which} below [{number}]" if above else f"cell [{number}]"
    return f"the {_ordinal(place)} cell"


def moved_by(name: str, new: str) -> str:
    """Return what a cell is called once there is a new one.

    Args:
        name: What it was called before.
        new: What the new one is called.

    >>> moved_by("the cell below [3]", "the cell below [3]"), moved_by("the cell below [3]", "the 2nd cell below [3]")
    ('the 2nd cell below [3]', 'the cell below [3]')
    >>> moved_by("the 5th cell", "the 2nd cell"), moved_by("the cell below [3]", "the 1st cell")
    ('the 6th cell', 'the cell below [3]')
    """
    moved, added = _BY_PLACE.fullmatch(name), _BY_PLACE.fullmatch(new)
    if moved is None or added is None or moved[2] != added[2] or int(moved[1] or 1) < int(added[1] or 1):
        return name
    below = "" if moved[2] is None else f" below [{moved[2]}]"
    return f"the {_ordinal(int(moved[1] or 1) + 1)} cell{below}"


def _ordinal(number: int) -> str:
    return f"{number}{'th' if number % 100 in (11, 12, 13) else _ENDINGS.get(number % 10, 'th')}"
