"""What a cell of the notebook is called for the user."""

from __future__ import annotations

from collections.abc import Sequence

CELL_NAME = r"a cell|cell \[\d+\]|the (?:\d+(?:st|nd|rd|th) )?cell(?: below \[\d+\])?"
"""Pattern of the names that ``cell_name`` gives."""
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


def _ordinal(number: int) -> str:
    return f"{number}{'th' if number % 100 in (11, 12, 13) else _ENDINGS.get(number % 10, 'th')}"
