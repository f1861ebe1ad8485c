"""Undo and redo of what calls did to cells of a notebook, carried out by the caller, which reaches the notebook.

What this module promises:

- A plan is made of what the notebook holds, and changes nothing. Its edits are to be done in order, all of them or
  none, each only if the cell is as the plan knows it.
- Cells are known by their ids, wherever they have moved. What is neither what the call left nor what it should be was
  changed by the user since, and is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import uuid4

from indus_nb.kernel.cell_names import cell_name

_MAX_NAMED = 8
_TOP = ""


class CellState(NamedTuple):
    """State of one cell in the notebook."""

    id: str
    source: str
    shown: int | None = None
    """The number in brackets that stands at it."""
    ran: str | None = None
    """The source whose output it shows; ``None`` where it shows none, or that is not known."""


class CellEdit(TypedDict):
    """One change of a cell, in the terms of the page's protocol."""

    cell: str
    type: Literal["code", "markdown"]
    old: str | None
    source: str | None
    after: str | None
    outputs: list[Any]
    agent: NotRequired[Any]


def new_cell(
    source: str,
    type_: Literal["code", "markdown"],
    after: str | None,
    outputs: Iterable[Any] = (),
    agent: Mapping[str, str] | None = None,
) -> CellEdit:
    """Return the edit that inserts a cell, with an id of its own.

    Args:
        after: The id of the cell above it; empty for the top, ``None`` for the cell that shows the page's widget.
        outputs: Of a code cell, in the form of the notebook format.
        agent: What says that the agent wrote it.
    """
    edit = CellEdit(cell=str(uuid4()), type=type_, old=None, source=source, after=after, outputs=[*outputs])
    return edit if agent is None else {**edit, "agent": {**agent}}


class RemovedCell(TypedDict):
    """What a cell held beside its source when it was removed, in the terms of the page's protocol."""

    outputs: list[Any]
    agent: NotRequired[Any]


@dataclass(frozen=True, slots=True)
class CellStep:
    """State of one cell before and after a step.

    Attributes:
        other: The source that it is to have; ``None`` if it is not to be there.
        now: The source that it should have at present; ``None`` if it should not be there.
        above: The id of the cell above it, empty at the top; where it goes if it is not there.
        number: Its place when it was changed, counted from 1; 0 if that is not known.
        name: What it was called for the user then; empty where its place alone names it.
        own: The source that the step itself had left, where ``other`` is another one that a move has overwritten.
        is_earlier: Whether an earlier process made it, whose numbers of cells may mean others by now.
    """

    id: str
    type: Literal["code", "markdown"]
    other: str | None
    now: str | None
    above: str = _TOP
    number: int = 0
    name: str = ""
    own: tuple[str | None, ...] = ()
    is_earlier: bool = False

    @property
    def called(self) -> str:
        """Return what it was called for the user when it was changed; by its place if that was in another process."""
        return self.name if self.name and not self.is_earlier else cell_name(self.number)

    def ran_since(self, source: str, shown: int | None) -> bool:
        """Return whether a cell that an earlier process changed ran there with what it holds now.

        Args:
            source: What it holds now.
            shown: The number that stands at it.
        """
        return self.is_earlier and source == self.now and shown is not None and self.name != cell_name(1, [shown])

    def turned(self, source: str | None, above: str) -> CellStep:
        """Return the step once ``other`` is in the place of a source, which it may not have left there."""
        own = () if source == self.now else (self.now,)
        now = self.own[0] if self.own else self.other
        return replace(self, other=source, now=now, above=above, own=own)


@dataclass
class CellsChange:
    """Changes of cells by one call, which can be undone and redone in turn.

    Attributes:
        steps: The cells, in the order in which they were changed.
        removed: What is put back with cells that are not there now, by their ids.
    """

    steps: Sequence[CellStep]
    removed: dict[str, RemovedCell] = field(default_factory=dict[str, RemovedCell])

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to be taken back."""
        return all(step.other == step.now for step in self.steps)

    @property
    def summary(self) -> str:
        """Return the changed cells in one line, as they were called then."""
        return self.described(lambda step: step.called)

    def described(self, named: Callable[[CellStep], str], gone: Collection[str] = ()) -> str:
        """Return the changed cells in one line, by names that are given to them.

        Args:
            gone: The ids of cells that the user has removed since.
        """
        changes = [
            f"{named(step)} {'new' if step.other is None else 'edited'}{' (removed since)' if step.id in gone else ''}"
            for step in self.steps
        ]
        if len(changes) > _MAX_NAMED:
            changes = [*changes[: _MAX_NAMED - 1], f"{len(changes) - _MAX_NAMED + 1} more cells"]
        return ", ".join(changes)

    def shared(self, other: CellsChange) -> frozenset[str]:
        """Return the names of the cells that another change concerns as well."""
        theirs = {step.id for step in other.steps}
        return frozenset(step.called for step in self.steps if step.id in theirs)

    def to_json(self) -> list[list[Any]]:
        """Return the change as JSON, for another process; without what was removed."""
        return [[s.id, s.type, s.other, s.now, s.above, s.number, s.name, [*s.own]] for s in self.steps]


def cells_from_json(value: Iterable[Any]) -> CellsChange:
    """Read a change from the JSON of ``to_json``; raises ``ValueError`` or ``TypeError`` if it is none."""
    steps: list[CellStep] = []
    for cell_id, kind, other, now, above, number, *more in value:
        name = more[0] if more else ""  # which earlier versions did not write down, as what follows
        own = tuple(more[1]) if len(more) > 1 else ()
        texts = (cell_id, above, name, *(text or "" for text in (other, now, *own)))
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
        type_: Literal["code", "markdown"] = "markdown" if kind == "markdown" else "code"
        steps.append(CellStep(cell_id, type_, other, now, above, int(number), name, own, is_earlier=True))
    return CellsChange(steps)


@dataclass
class CellsPlan:
    """Edits that undo or redo steps in the cells of a notebook, all of them or none.

    Attributes:
        edits: The edits for the caller that reaches the notebook, in order.
        kept: Names of cells that the user changed since and that stay as they are.
        undecided: Names of cells that were changed since without a policy for them; then the plan has no edits.
        removed: Those of them that overwriting would remove.
        outdated: Names of cells that show the output of the source that is replaced.
        turned: The changes, with what is to be known of them next.
    """

    edits: list[CellEdit] = field(default_factory=list[CellEdit])
    names: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    beside: set[str] = field(default_factory=set[str])
    undecided: set[str] = field(default_factory=set[str])
    removed: set[str] = field(default_factory=set[str])
    outdated: set[str] = field(default_factory=set[str])
    turned: list[tuple[CellsChange, Sequence[CellStep]]] = field(
        default_factory=list[tuple[CellsChange, Sequence[CellStep]]]
    )

    def turn(self) -> None:
        """Swap the states before and after in all changes, as the plan is carried out or reverted."""
        turned = self.turned
        self.turned = [(change, change.steps) for change, _ in turned]
        for change, steps in turned:
            change.steps = steps

    def keep_removed(self, removed: Mapping[str, RemovedCell]) -> None:
        """Keep what removed cells held, for the inverse plan."""
        for change, _ in self.turned:
            change.removed = {step.id: removed[step.id] for step in change.steps if step.id in removed}

    def inverse(self) -> list[CellEdit]:
        """Return the edits that revert those of the plan; they have no effect without those."""
        return [
            CellEdit(cell=e["cell"], type=e["type"], old=e["source"], source=e["old"], after=e["after"], outputs=[])
            for e in reversed(self.edits)
        ]


def leave_cells(changes: Iterable[CellsChange]) -> CellsPlan:
    """Build a plan that leaves all cells as they are, and forget the changes of them."""
    return CellsPlan(kept={"cells of the notebook"}, turned=[(change, []) for change in changes])


def plan_cells(
    changes: Iterable[CellsChange], cells: Iterable[CellState], touched: Literal["", "keep", "over", "both"]
) -> CellsPlan:
    """Plan the edits that undo or redo changes of cells.

    Args:
        changes: Changes by calls, in the order in which they are undone or redone.
        cells: The cells of the notebook, from top to bottom.
    """
    plan, there = CellsPlan(), _Cells(cells)
    for change in changes:
        turned: list[CellStep] = []
        for step in reversed(change.steps):
            source = there.sources.get(step.id)
            if source == step.other:  # as it should be already
                turned.append(replace(step, other=source, now=source, own=()))
                continue
            name = there.name(step.id)
            if source == step.now or touched == "over":
                above = step.above if source is None else there.above(step.id)
                turned.append(step.turned(source, above))
                plan.edits.append(there.edit(turned[-1], step.other, change.removed.get(step.id)))
                if step.other is None:
                    name = f"{name} (removed)"
                elif source is None:
                    name = f"{there.name(step.id)} (put back)"
                plan.names.add(name)
            elif not touched:
                plan.undecided.add(name)
                (plan.removed.add if step.other is None else plan.removed.discard)(name)
            else:
                plan.kept.add(name)
                if touched == "both" and step.other is not None:
                    above = step.above if source is None else step.id
                    turned.append(CellStep(str(uuid4()), step.type, None, step.other, above))
                    plan.edits.append(there.edit(turned[-1], step.other))
                    plan.beside.add(there.name(turned[-1].id))
        plan.turned.append((change, turned))
    edited = {edit["cell"] for edit in plan.edits}
    plan.outdated = {there.name(each) for each in edited if there.is_outdated(each)}
    return plan


class _Cells:
    """The cells of a notebook, as they would be after the edits so far."""

    def __init__(self, cells: Iterable[CellState]) -> None:
        there = [*cells]
        self.sources: dict[str, str] = {cell.id: cell.source for cell in there}
        self._shown = {cell.id: cell.shown for cell in there}
        self._current = {cell.id: cell.ran for cell in there if cell.ran == cell.source}
        self._order = [*self.sources]

    def name(self, cell: str) -> str:
        if cell not in self.sources:
            return "a cell that is gone"
        return cell_name(self._order.index(cell) + 1, [self._shown.get(each) for each in self._order])

    def is_outdated(self, cell: str) -> bool:
        """Return whether a cell showed the output of its source, and has another one now."""
        return cell in self._current and self.sources.get(cell, self._current[cell]) != self._current[cell]

    def above(self, cell: str) -> str:
        at = self._order.index(cell)
        return self._order[at - 1] if at else _TOP

    def edit(self, turned: CellStep, source: str | None, removed: RemovedCell | None = None) -> CellEdit:
        """Apply the inverse of a step, and return it as an edit, with what the cell held when it was removed.

        Args:
            source: What the cell is to hold.
        """
        old, after = turned.other, turned.above
        if old is None:
            if after != _TOP and after not in self.sources:
                after = self._order[-1] if self._order else _TOP
            self._order.insert(self._order.index(after) + 1 if after else 0, turned.id)
        if source is None:
            self._order.remove(turned.id)
            del self.sources[turned.id]
        else:
            self.sources[turned.id] = source
        held = removed if old is None and removed is not None else RemovedCell(outputs=[])
        return CellEdit(cell=turned.id, type=turned.type, old=old, source=source, after=after, **held)
