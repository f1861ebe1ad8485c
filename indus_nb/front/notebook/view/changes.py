"""Reported changes of calls, for the user: below each call, and of all calls of a prompt below its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from indus_nb.base.textcut import one_line
from indus_nb.base.wire import JsonObject
from indus_nb.kernel.cell_names import CELL_NAME, moved_by

_MAX_LINE_CHARACTERS = 400
_CELL = re.compile(CELL_NAME)
_PART = re.compile(rf"(?P<name>(?:{_CELL.pattern})(?= new| edited)|\S+) (?P<what>.*)", re.DOTALL)
_FROM_TO = re.compile(
    r"(?P<was>[^(]*) \N{RIGHTWARDS ARROW} (?P<now>[^ ]+(?: \N{MULTIPLICATION SIGN} [^ ]+)*)(?P<unit>[^(]*)(?: \(.*)?"
)


class ChangesOfRun:
    """Changes of all calls of one prompt."""

    def __init__(self, *, in_panel: bool = False) -> None:
        """Create an empty list of changes, for a cell or ``in_panel``."""
        self._lines: list[str] = []
        self._in_panel = in_panel

    def add(self, details: object) -> bool:
        """Add the changes in the details of a call's result; return whether there are any."""
        reported: object = details
        line = cast("JsonObject", reported).get("changed") if isinstance(reported, dict) else None
        if not (isinstance(line, str) and line):
            return False
        self._lines.append(line)
        return True

    @property
    def are_of_one_call(self) -> bool:
        """Return whether one call alone changed something, whose card says it."""
        return len(self._lines) == 1

    def take(self) -> str:
        """Return a line about what the calls changed, and how to undo it; empty if nothing changed. Then reset."""
        lines, self._lines = self._lines, []
        if not lines:
            return ""
        if len(lines) == 1:
            changed = one_line(lines[0], _MAX_LINE_CHARACTERS)
            return f"Changed: {changed}. {undo(in_panel=self._in_panel)} takes it back."
        in_all = one_line(joined(lines) or "nothing is left of it", _MAX_LINE_CHARACTERS)
        return f"Changed in all: {in_all}. {undo(in_panel=self._in_panel)} prompt takes it back."


def undo(*, in_panel: bool) -> str:
    """Return what undoes a call: a panel has commands of its own."""
    return "/undo" if in_panel else "%agent undo"


def joined(lines: Sequence[str]) -> str:
    """Merge the changes of several consecutive calls into one line.

    >>> joined(["x 1 → 2, fresh new, a.py edited", "x 2 → 5, fresh 1 → 2 items, old new", "old deleted, y deleted"])
    'x 1 → 5, fresh new, a.py edited, y deleted'

    What differs besides is said by the cards of the calls.

    >>> joined(["sales 9 → 5 rows (a: str → float64)", "sales 5 → 4 rows (b added)"])
    'sales 9 → 4 rows'

    Cells are named by their places, which are those of the moment: their changes are not merged, and a new one moves
    those that were below it.

    >>> joined(["the cell below [3] new", "the 2nd cell below [3] new, x 1 → 2"])
    'the cell below [3] new, the 2nd cell below [3] new, x 1 → 2'
    >>> joined(["the cell below [3] new", "the 2nd cell below [3] edited", "the cell below [3] new"])
    'the 2nd cell below [3] new, the 3rd cell below [3] edited, the cell below [3] new'
    """
    known: dict[str, tuple[str, str]] = {}
    for at, line in enumerate(lines):
        parts = [found for part in line.split(", ") if (found := _PART.fullmatch(part)) is not None]
        for new in [found["name"] for found in parts if found["what"] == "new" and _CELL.fullmatch(found["name"])]:
            known = {key: (moved_by(name, new), what) for key, (name, what) in known.items()}
        for number, found in enumerate(parts):
            name, what = found["name"], found["what"]
            key = f"{name} {at} {number}" if _CELL.fullmatch(name) else name
            before = known.get(key, (name, ""))[1]
            known[key] = name, _one_after_the_other(before, what) if before else what
    return ", ".join(f"{name} {what}" for name, what in known.values() if what)


def _one_after_the_other(before: str, after: str) -> str:
    if before == "new":
        return "" if after == "deleted" else "new"
    if before == "deleted" and after == "new":
        return "changed"
    first, second = _FROM_TO.fullmatch(before), _FROM_TO.fullmatch(after)
    if first is not None and second is not None and first["unit"] == second["unit"]:
        if first["was"] == second["now"]:
            return "changed"
        return f"{first['was']} \N{RIGHTWARDS ARROW} {second['now']}{second['unit']}"
    return "deleted" if after == "deleted" else after if before == after else "changed"
