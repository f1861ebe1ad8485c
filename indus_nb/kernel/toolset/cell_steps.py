"""The user's own cells as steps, once that is asked for: their variables and settings, as those of the agent's code.

A cell that the agent works in (``text = %agent …``) is a step before that, and another one behind it: what the agent's
code changes is its own. What a cell changes while such code awaits something is no step, but a part of that code's.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from itertools import count
from typing import Any, NamedTuple

from indus_nb.kernel.run.journal import without_our_lines
from indus_nb.kernel.run.main_thread import work_here
from indus_nb.kernel.toolset.undoing import Steps, dropped_in_words
from indus_nb.kernel.undo import Checkpoint, Step, can_change_inside


class LeftOut(NamedTuple):
    """Why a variable could not be remembered, and the number of the cell that reached it."""

    why: str
    cell: int


class CellSteps:
    """Recorder of one shell's cells; used on its main thread.

    Attributes:
        on: Whether cells are recorded.
    """

    def __init__(self, shell: Any, steps: Steps) -> None:
        """Record nothing yet."""
        self.on: bool = False
        self._left_out: dict[str, LeftOut] = {}
        self._shell = shell
        self._steps = steps
        self._numbers = count(1)
        self._code = ""
        self._number = 0
        self._checkpoint: Checkpoint | None = None
        steps.cell_pauses, steps.cell_goes_on = self._pause, self._go_on

    @property
    def left_out(self) -> dict[str, LeftOut]:
        """Return variables that the last cell that reached them could not have remembered, by name.

        What that cell changed inside of them is in no step; cells that reached less may have changed them in steps.
        Those that are gone, or in which nothing can change, are not among them.
        """
        held = self._shell.user_ns
        return {name: each for name, each in [*self._left_out.items()] if can_change_inside(held.get(name))}

    def switch(self, *, on: bool) -> None:
        """Record the cells from the next one on, or no more."""
        if self.on == on:
            return
        self._pause()  # what the cell has changed so far is a step, what it changes now is none
        self.on = on
        events = self._shell.events
        for event, callback in (("pre_run_cell", self._begin), ("post_run_cell", self._end)):
            if on:
                events.register(event, callback)
            else:
                with contextlib.suppress(ValueError):
                    events.unregister(event, callback)
        self._code = ""

    def _begin(self, info: Any) -> None:
        if work_here() is not None or not _is_on_main_thread():
            return
        self._pause()  # a cell of which no end was told
        code = getattr(info, "raw_cell", "") or ""
        lines = without_our_lines(code) if getattr(info, "store_history", True) else ""
        self._number = len(self._shell.history_manager.input_hist_raw)  # versions of IPython count it now or at its end
        self._code = lines if any(line.strip() != "pass" for line in lines.split("\n") if line.strip()) else ""
        self._go_on()

    def _end(self, _: Any) -> None:
        if work_here() is None and _is_on_main_thread():
            self._pause()
            self._code = ""

    def _go_on(self) -> None:
        """Take a checkpoint for what is left of the cell that runs, if one does that counts."""
        if not (self._code and _is_on_main_thread()) or self._steps.code_runs or not self._steps.settings.undo:
            return
        with contextlib.suppress(Exception):  # of an object of the user's that fails: the cell runs all the same
            self._checkpoint = self._steps.checkpoint(self._code)

    def _pause(self) -> None:
        """Make a step of what the cell has changed since the checkpoint."""
        checkpoint, self._checkpoint = self._checkpoint, None
        if checkpoint is None:
            return
        number, reached = next(self._numbers), checkpoint.reached
        try:
            step = Step(f"cell-{number}", f"cell {number}", checkpoint.close(), cell=self._number)
        except Exception:  # noqa: BLE001 - as at its beginning
            return
        if step.variables is not None:
            for name in reached - step.variables.left_out.keys():
                self._left_out.pop(name, None)
            self._left_out |= {name: LeftOut(why, self._number) for name, why in step.variables.left_out.items()}
        if not step.is_empty and (dropped := self._steps.add(step)).states:
            print(f"{dropped_in_words(dropped)}.", file=sys.stderr)  # noqa: T201 - in the cell that made it necessary


def _is_on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
