"""What went along with the prompts of cells, to go along again as it was where all of it is still so.

In a kernel that goes on there are more cells and variables when a cell asks again than when it asked first. In a
notebook that keeps answers the model is shown no more than it was then, so that its answers fit again.

What this module promises: nothing goes along again of which anything is another one now, nor in a conversation that
knows more or less than the one with which it went along; cells that ran since are new to the prompts that follow.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.run.journal import Journal
from indus_nb.kernel.toolset.variables import KernelVariables

_MAX_CELLS = 1000
_MAX_OF_CELL = 5
_SECONDS = 5.0
"""Processor time for a look at all the variables that were listed with a prompt."""
_OF_NAMES = ("functions", "classes", "modules")
"""What begins the lines that list names only."""


class Told(NamedTuple):
    """What goes along with a prompt.

    Attributes:
        variables: The list of variables in it; empty where there is none.
        profiles: The digests of profiles that the conversation knows with it, by the names of frames.
    """

    text: str
    details: JsonObject
    variables: str = ""
    profiles: Mapping[str, str] = MappingProxyType({})


class Known(NamedTuple):
    """What a conversation knew before a prompt.

    Attributes:
        details: Those of the last message of this kind.
        is_new_kernel: Whether that was in another kernel, of which nothing is left.
    """

    details: JsonObject
    is_new_kernel: bool = False


class Noted(NamedTuple):
    """What went along with a prompt once.

    Attributes:
        known: What went along is right only for a conversation that knows as much.
        told: ``None`` for nothing.
        cells: The cells in it by their ids; ``None`` where one has none.
    """

    prompt: str
    known: Known
    told: Told | None
    cells: Mapping[str, str] | None


class ToldAgain:
    """What went along with the last prompts of one kernel's cells."""

    def __init__(self, journal: Journal, variables: KernelVariables) -> None:
        """Begin without any."""
        self._journal = journal
        self._variables = variables
        self._noted: OrderedDict[str, deque[Noted]] = OrderedDict()

    def note(self, cell: str, prompt: str, known: Known, told: Told | None) -> None:
        """Remember what goes along with a cell's prompt; ``None`` for nothing."""
        noted = self._noted.pop(cell, None) or deque(maxlen=_MAX_OF_CELL)
        noted.append(Noted(prompt, known, told, self._journal.told_in("" if told is None else told.text)))
        self._noted[cell] = noted
        if len(self._noted) > _MAX_CELLS:
            self._noted.popitem(last=False)

    def find(self, cell: str, prompt: str, known: Known) -> Noted | None:
        """Return what went along with a prompt of a cell and is still so, the newest; ``None`` where nothing is."""
        ends = time.thread_time() + _SECONDS
        alike = (each for each in reversed(self._noted.get(cell, ())) if (each.prompt, each.known) == (prompt, known))
        newest: dict[str, Noted] = {}
        for each in alike:
            newest.setdefault("" if each.told is None else each.told.text, each)
        return next((each for each in newest.values() if self._is_so(each, ends)), None)

    def _is_so(self, noted: Noted, ends: float) -> bool:
        told = noted.told
        if noted.cells is None or any(self._journal.last_told(each) != text for each, text in noted.cells.items()):
            return False
        return told is None or (self._has_variables(told, ends) and self._has_profiles(told, ends))

    def _has_variables(self, told: Told, ends: float) -> bool:
        lines = told.variables.split("\n") if told.variables else []
        names = {name for line in lines for name in _names_in(line)}
        left = ends - time.thread_time()
        return not lines or {*lines} == {*self._variables.summary((), left, only=names).text.split("\n")}

    def _has_profiles(self, told: Told, ends: float) -> bool:
        found = self._variables.profiles(told.profiles, told.profiles, ends - time.thread_time())
        return not found.text and time.thread_time() < ends


def _names_in(line: str) -> list[str]:
    what, _, rest = line.partition(": ")
    return [part.partition(" ")[0] for part in rest.split(", ")] if what in _OF_NAMES else [what]
