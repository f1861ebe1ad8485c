"""What a cell of the notebook is called for the user."""

from __future__ import annotations

from collections.abc import Sequence

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def cell_name(place: int, shown: Sequence[int | None] = ()) -> str:
    """Name a cell by the number in brackets that stands at it, or else by its place.

    Args:
        place: Which cell of the notebook it is, from 1; 0 if that is not known.
        shown: The numbers that stand at the cells, from top to bottom; what stands at several names none of them.

    Returns:
        The name, to be read within a sentence.

    >>> cell_name(2, [None, 14, 15])
    'cell [14]'
    >>> cell_name(1, [None, 14, 15]), cell_name(23), cell_name(112), cell_name(0)
    ('the 1st cell', 'the 23rd cell', 'the 112th cell', 'a cell')
    """
    if place < 1:
        return "a cell"
    number = shown[place - 1] if place <= len(shown) else None
    if number is not None and shown.count(number) == 1:
        return f"cell [{number}]"
    ending = "th" if place % 100 in (11, 12, 13) else _ENDINGS.get(place % 10, "th")
    return f"the {place}{ending} cell"
