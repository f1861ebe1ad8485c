"""Named states of a kernel, for the user and for the model: what may be done with them, and what is said of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from typing import Literal

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.events import ToolOutput
from indus_nb.base.visible import visible
from indus_nb.base.wire_model import wire_field
from indus_nb.kernel.toolset.cell_steps import CellSteps
from indus_nb.kernel.toolset.undoing import Steps
from indus_nb.kernel.undo import (
    LAST,
    CellsChange,
    CellsPlan,
    Moved,
    NamedState,
    RefusedError,
    Step,
    Touched,
    is_of_left,
)
from indus_nb.safety.effects import Effect
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext, ToolError, text_output

STATE = "state"
"""The tool's name."""
_MAX_NAME_CHARACTERS = 60
_MAX_STATES = 50
_MAX_OF_MODEL = 10
_RANDOM = "random numbers"
_MAX_LINE_CHARACTERS = 1_000
_MAX_DIFFERENCE_CHARACTERS = 20_000
_UNKNOWN = "{} could not be remembered when cell [{}] ran: what that cell changed inside of {} cannot be taken back."
_MAX_CELLS = 3
_CELLS_OFF = "Your own cells are no steps: `%agent state on` makes steps of those that you run from then on."


class KernelStates:
    """The named states of one kernel; used on the thread that runs the user's code."""

    def __init__(self, steps: Steps, cells: CellSteps) -> None:
        """Name states among the steps of a kernel."""
        self.cells = cells
        self._steps = steps
        self._of_model: set[str] = set()

    def save(self, name: str, *, remind: bool = False, by_model: bool = False) -> str:
        """Give the present state a name; return a sentence.

        Args:
            remind: Whether to say that cells of the user's are no steps, where that is so.
            by_model: Whether the model asks, which takes no name of the user's and a few of its own.

        Raises:
            UsageError: The name cannot be one, or steps are not kept.
        """
        is_plain = '"' not in name and visible(textcut.one_line(name, _MAX_NAME_CHARACTERS)) == name
        if not name or not is_plain or is_of_left(name):
            raise UsageError(
                f"A state's name is a line of 1 to {_MAX_NAME_CHARACTERS} visible characters without quotation marks, "
                f"and not {LAST} or {LAST}-2, which are where you were before you went back. Nothing was saved."
            )
        if not self._steps.settings.undo:
            raise UsageError("Nothing was saved: `notebook.undo` is off in the settings, so no steps are kept.")
        held = [each.name for each in self._steps.history.states()]
        if name not in held and len(held) >= _MAX_STATES:
            raise UsageError(f"Nothing was saved: there are {len(held)} states. `%agent state drop NAME` forgets one.")
        if by_model:
            self._check_models_name(name, held)
        self._steps.cell_pauses()
        self._steps.history.save(name)
        self._steps.cell_goes_on()
        self._of_model = self._of_model & {*held} - {name} | ({name} if by_model else set())
        again = ", and no longer an earlier one" if name in held else ""
        return f"This state is “{name}” now{again}.{f' {_CELLS_OFF}' if remind and not self.cells.on else ''}"

    def _check_models_name(self, name: str, held: Collection[str]) -> None:
        own = self._of_model & {*held}
        if name in held and name not in own:
            raise UsageError(f"Nothing was saved: “{name}” is a state of the user's. Choose another name.")
        if name not in own and len(own) >= _MAX_OF_MODEL:
            there = f"there are {len(own)} states of yours: {_listed(own)}"
            raise UsageError(f"Nothing was saved: {there}. One of these names can be given anew.")

    def here(self, name: str) -> str:
        """Return a sentence if nothing is between a state and the present one, else nothing.

        Raises:
            UsageError: There is no such state.
        """
        self._steps.settle()
        if self.way(name):
            return ""
        if self.cells.on:
            return f"This is “{name}” already. Nothing was changed.{self.lost(name)}"
        here = f"No step lies between here and “{name}”: nothing was changed.{self.lost(name)}"
        return f"{here} What your own cells changed since is not known. {_CELLS_OFF}"

    def lost(self, name: str) -> str:
        """Return a sentence on what a state cannot bring back, behind a blank, else nothing; in any thread."""
        unsure = next((held.unsure for held in self._steps.history.states() if held.name == name), ())
        which = f"{_listed(unsure)} {'is' if len(unsure) == 1 else 'are'}"
        return f" {which} not as in it, and cannot be brought back: changed outside of steps." if unsure else ""

    def left_earlier(self) -> str:
        """Return a sentence on what was left before `LAST` and no other state has, behind a blank, else nothing."""
        names = [held.name for held in self._steps.history.states() if is_of_left(held.name) and held.name != LAST]
        return f" What you had left before is {_listed(names)}." if names else ""

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return a row for each state: name, way, memory, and what the user changed outside of steps."""
        self._steps.settle()
        return [
            (
                held.name,
                _way(held),
                _size(held.weight),
                "; ".join(
                    f"{what}: {_listed(names)}"
                    for what, names in (("changed since", held.differing), ("cannot be brought back", held.unsure))
                    if names
                ),
            )
            for held in self._steps.history.states()
        ]

    def places(self) -> dict[str, str]:
        """Return the names of all states, each with how far it is; in any thread."""
        return {name: way for name, way, _, _ in self.rows()}

    def title(self) -> str:
        """Return what is true of all states, in a sentence or two."""
        used, room = self._steps.history.weight, self._steps.room
        recorded = "Your cells are steps." if self.cells.on else _CELLS_OFF
        return f"All steps take {_size(used)} of {_size(room)}. {recorded}{self._unknown()}"

    def _unknown(self) -> str:
        """Say what cells reached that could not be remembered, of the newest ones, behind a blank; else nothing."""
        by_cell: dict[int, list[str]] = {}
        for name, (why, cell) in self.cells.left_out.items():
            by_cell.setdefault(cell, []).append(f"{name} ({why})")
        cells = sorted(by_cell)
        said = [
            _UNKNOWN.format(_listed(names), cell, "it" if len(names) == 1 else "them")
            for cell in cells[-_MAX_CELLS:]
            for names in [by_cell[cell]]
        ]
        earlier = len(cells) - _MAX_CELLS
        if earlier > 0:
            said.append(f"So it was with {textcut.counted(earlier, 'earlier cell')}.")
        return "".join(f" {each}" for each in said)

    def cells_changed(self, name: str) -> list[CellsChange]:
        """Return changes of the notebook's cells on the way to a state, in the order in which they are moved."""
        return [step.cells for step in self.way(name) if step.cells is not None and not step.cells.is_empty]

    def back(self, name: str, touched: Touched = "", cells: CellsPlan | None = None) -> Moved:
        """Go to a state, all of it or not at all.

        Raises:
            ChangedSinceError: Something was changed outside of steps, and ``touched`` does not cover it.
            UsageError: There is no such state, or it is not possible; nothing was changed.
        """
        self.way(name)
        return self._steps.carry_out(f'state back "{name}"', lambda: self._steps.history.back(name, touched, cells))

    def difference(self, name: str) -> str:
        """Describe what differs now from a state, with each variable that going back would change.

        Raises:
            UsageError: There is no such state, or it cannot be compared; nothing was changed.
        """
        self.way(name)
        look = self._steps.history.differences
        found, left_out = self._steps.carry_out(f'state back "{name}"', lambda: look(name, self._steps.budget(4)))
        said = textcut.one_line(found, _MAX_DIFFERENCE_CHARACTERS)
        text = f"Since “{name}”: {said}." if said else f"No step has changed anything since “{name}”."
        text += self.lost(name) + ("" if self.cells.on else f" {_CELLS_OFF}")
        return f"{text} Not compared: {_listed(left_out)}." if left_out else text

    def drop(self, name: str) -> str:
        """Forget a state; return a sentence.

        Raises:
            UsageError: There is none of that name.
        """
        self.way(name)
        self._steps.history.drop(name)
        return f"“{name}” is no state any more. Variables and files are as they were."

    def effects(self, name: str) -> list[Effect]:
        """Return what going to a state would change; in any thread.

        Raises:
            UsageError: There is no such state.
        """
        steps = self.way(name)
        changes = [step.variables for step in steps if step.variables is not None]
        names = sorted({each for change in changes for each in change.names})
        settings = sorted({each for change in changes for each in change.found.settings})
        files = sorted({each.path for step in steps if step.files is not None for each in step.files.steps})
        effects = [Effect("changes_variable", each, f"changes {each}") for each in names]
        effects += [
            Effect("draws_random" if each == _RANDOM else "changes_setting", each, f"changes {each}")
            for each in settings
        ]
        effects += [Effect("writes_file", str(path), f"writes {path}") for path in files]
        if self.cells_changed(name):
            effects.append(Effect("unknown", "cells of the notebook", "changes cells of the notebook"))
        return effects

    def way(self, name: str) -> list[Step]:
        """Return the steps that are moved on the way to a state, in order; in any thread.

        Raises:
            UsageError: There is no such state.
        """
        try:
            return self._steps.history.route(name).steps
        except RefusedError as error:
            named = ", ".join(f"“{each.name}”" for each in self._steps.history.states())
            there = f"There are {named}." if named else "There are none: `%agent state save NAME` makes one."
            there = textcut.one_line(there, _MAX_LINE_CHARACTERS)
            raise UsageError(f"There is no state “{name}”. {there}") from error


class StateArguments(Arguments):
    """The arguments of the tool ``state``."""

    action: Literal["save", "list", "back", "diff"] = wire_field(description="diff: what differs now")
    name: str = wire_field(default="", description="Of the state; needed but for list")


class StateTool:
    """The tool ``state`` of one kernel."""

    def __init__(
        self,
        states: KernelStates,
        run: Callable[[Callable[[], str]], Awaitable[str]],
        go_back: Callable[[str], Awaitable[str]],
    ) -> None:
        """Make the tool of a kernel's states.

        Args:
            run: Runs work on the thread that runs the user's code.
            go_back: Goes to a state, and returns a sentence.
        """
        self._states = states
        self._run = run
        self._go_back = go_back
        self._asked: dict[str, list[Step]] = {}
        """What the user was asked about, which alone an answer allows."""

    def tool(self) -> FunctionTool[StateArguments]:
        """Return the tool, for a session."""
        return FunctionTool(
            name=STATE,
            description=(
                "Save the state of variables and files under a name before you try something, and go back to it. "
                "No code is run again."
            ),
            arguments=StateArguments,
            run=self._do,
            describe=self._describe,
            keeps_state=True,
        )

    async def _do(self, arguments: StateArguments, _: ToolContext) -> ToolOutput:
        states, name = self._states, arguments.name
        try:
            match arguments.action:
                case "save":
                    text = await self._run(lambda: states.save(name, by_model=True))
                case "list":
                    text = await self._run(lambda: "\n".join("; ".join(filter(None, row)) for row in states.rows()))
                case "diff":
                    text = await self._run(lambda: states.difference(name))
                case "back":
                    way = states.way(name)
                    if self._asked.pop(name, way) != way:
                        raise ToolError("Nothing was changed: there are other steps by now. Look at it again first.")
                    text = await self._go_back(name)
        except UsageError as error:
            raise ToolError(str(error)) from error
        return text_output(text or "There are no states.")

    def _describe(self, default: CallDescription, arguments: StateArguments) -> CallDescription:
        summary = " ".join(filter(None, (arguments.action, arguments.name)))
        shown = replace(default, summary=summary, details={}, has_effects=False)
        if arguments.action != "back":
            return shown
        try:
            moves = bool(self._states.way(arguments.name))
        except UsageError as error:
            return replace(shown, rejection=ToolError(str(error)))
        return replace(shown, has_effects=moves, approval=lambda: self._approval(arguments.name))

    def _approval(self, name: str) -> Approval:
        self._asked[name] = self._states.way(name)
        effects = self._states.effects(name)
        lines = "\n".join(effect.words for effect in effects)
        return Approval(f"Go back to the state “{name}”?", lines, effects=effects)


def _way(held: NamedState) -> str:
    if held.is_here:
        return "here"
    return f"{textcut.counted(held.steps, 'step') if held.steps else 'changes of yours'} from here"


def _listed(names: Iterable[str]) -> str:
    return textcut.one_line(", ".join(sorted(names)), _MAX_LINE_CHARACTERS)


def _size(count: int) -> str:
    return f"{count / 2**20:,.1f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"
