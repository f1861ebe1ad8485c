"""What calls did to cells of a notebook, taken back and done once more by whoever reaches the notebook.

What this module promises:

- A plan is made of what the notebook holds, and changes nothing. Its edits are to be done in order, all of them or
  none, each only if the cell is as the plan knows it.
- Cells are known by their ids, wherever they have moved. What is neither what the call left nor what it should be was
  changed by somebody since, and is asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import uuid4

_MAX_NAMED = 8
_TOP = ""


class CellState(NamedTuple):
    """A cell as it is in the notebook."""

    id: str
    source: str


class CellEdit(TypedDict):
    """A change of one cell, in the words of the page's protocol."""

    cell: str
    type: Literal["code", "markdown"]
    old: str | None
    source: str | None
    after: str
    outputs: list[Any]


@dataclass(frozen=True, slots=True)
class CellStep:
    """One cell of a step.

    Attributes:
        other: The source that it is to have; ``None`` if it is not to be there.
        now: The source that it should have at present; ``None`` if it should not be there.
        above: The id of the cell above it, empty at the top; where it goes if it is not there.
        number: Its place when it was changed, counted from 1; 0 if that is not known.
    """

    id: str
    type: Literal["code", "markdown"]
    other: str | None
    now: str | None
    above: str = _TOP
    number: int = 0


@dataclass
class CellsChange:
    """What one call changed in cells, which can be undone and redone in turn.

    Attributes:
        steps: The cells, in the order in which they were changed.
    """

    steps: Sequence[CellStep]
    outputs: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be taken back."""
        return all(step.other == step.now for step in self.steps)

    @property
    def summary(self) -> str:
        """What changed, in a line."""
        said = [f"{_numbered(step.number)} {'new' if step.other is None else 'edited'}" for step in self.steps]
        if len(said) > _MAX_NAMED:
            said = [*said[: _MAX_NAMED - 1], f"{len(said) - _MAX_NAMED + 1} more cells"]
        return ", ".join(said)

    def to_json(self) -> list[list[Any]]:
        """Return it as JSON, for another process; without outputs."""
        return [[step.id, step.type, step.other, step.now, step.above, step.number] for step in self.steps]


def cells_from_json(value: Iterable[Any]) -> CellsChange:
    """Return a change that ``to_json`` wrote down; raises ``ValueError`` or ``TypeError`` if something else did."""
    steps: list[CellStep] = []
    for cell_id, kind, other, now, above, number in value:
        if not all(isinstance(text, str) for text in (cell_id, above, other or "", now or "")):
            raise TypeError
        steps.append(CellStep(cell_id, "markdown" if kind == "markdown" else "code", other, now, above, int(number)))
    return CellsChange(steps)


@dataclass
class CellsPlan:
    """What is to be done to the cells of a notebook, as a whole.

    Attributes:
        edits: What whoever reaches the notebook does, in order.
        kept: Those that the user changed since and that stay as they are.
        undecided: Those that were changed since, if nothing is said of them; then there is nothing to be done.
        turned: The changes, with what is to be known of them next.
    """

    edits: list[CellEdit] = field(default_factory=list[CellEdit])
    names: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    beside: set[str] = field(default_factory=set[str])
    undecided: set[str] = field(default_factory=set[str])
    turned: list[tuple[CellsChange, Sequence[CellStep]]] = field(
        default_factory=list[tuple[CellsChange, Sequence[CellStep]]]
    )

    def turn(self) -> None:
        """Take note that it is done, or, the next time, that it is not."""
        turned = self.turned
        self.turned = [(change, change.steps) for change, _ in turned]
        for change, steps in turned:
            change.steps = steps

    def keep_outputs(self, removed: Mapping[str, list[Any]]) -> None:
        """Keep the outputs of cells that were removed, for the way back."""
        for change, _ in self.turned:
            change.outputs = {step.id: removed[step.id] for step in change.steps if step.id in removed}

    def inverse(self) -> list[CellEdit]:
        """Return the edits that leave what was there before those of the plan; they do nothing without those."""
        return [
            CellEdit(cell=e["cell"], type=e["type"], old=e["source"], source=e["old"], after=e["after"], outputs=[])
            for e in reversed(self.edits)
        ]


def leave_cells(changes: Iterable[CellsChange]) -> CellsPlan:
    """Return a plan that leaves all cells as they are, and forgets what was done to them."""
    return CellsPlan(kept={"cells of the notebook"}, turned=[(change, []) for change in changes])


def plan_cells(
    changes: Iterable[CellsChange], cells: Iterable[CellState], touched: Literal["", "keep", "over", "both"]
) -> CellsPlan:
    """Plan how cells are taken back, or done once more.

    Args:
        changes: What calls changed, in the order in which it is turned around.
        cells: The cells of the notebook, from top to bottom.
    """
    plan, there = CellsPlan(), _Cells(cells)
    for change in changes:
        turned: list[CellStep] = []
        for step in reversed(change.steps):
            source = there.sources.get(step.id)
            if source == step.other:  # as it should be already
                turned.append(replace(step, other=source, now=source))
                continue
            name = there.name(step.id)
            if source == step.now or touched == "over":
                above = step.above if source is None else there.above(step.id)
                turned.append(replace(step, other=source, now=step.other, above=above))
                plan.edits.append(there.edit(turned[-1], change.outputs.get(step.id, [])))
                if step.other is None:
                    name = f"{name} (removed)"
                elif source is None:
                    name = f"{there.name(step.id)} (put back)"
                plan.names.add(name)
            elif not touched:
                plan.undecided.add(name)
            else:
                plan.kept.add(name)
                if touched == "both" and step.other is not None:
                    above = step.above if source is None else step.id
                    turned.append(CellStep(str(uuid4()), step.type, None, step.other, above))
                    plan.edits.append(there.edit(turned[-1], []))
                    plan.beside.add(there.name(turned[-1].id))
        plan.turned.append((change, turned))
    return plan


class _Cells:
    """The cells of a notebook, as they would be after the edits so far."""

    def __init__(self, cells: Iterable[CellState]) -> None:
        self.sources: dict[str, str] = {cell.id: cell.source for cell in cells}
        self._order = [*self.sources]

    def name(self, cell: str) -> str:
        return f"cell {self._order.index(cell) + 1}" if cell in self.sources else "a cell that is gone"

    def above(self, cell: str) -> str:
        at = self._order.index(cell)
        return self._order[at - 1] if at else _TOP

    def edit(self, turned: CellStep, outputs: list[Any]) -> CellEdit:
        """Do what a step that is turned around has done, and return it as an edit."""
        old, source, after = turned.other, turned.now, turned.above
        if old is None:
            if after != _TOP and after not in self.sources:
                after = self._order[-1] if self._order else _TOP
            self._order.insert(self._order.index(after) + 1 if after else 0, turned.id)
        if source is None:
            self._order.remove(turned.id)
            del self.sources[turned.id]
        else:
            self.sources[turned.id] = source
        return CellEdit(
            cell=turned.id,
            type=turned.type,
            old=old,
            source=source,
            after=after,
            outputs=outputs if old is None else [],
        )


def _numbered(number: int) -> str:
    return f"cell {number}" if number else "a cell"
