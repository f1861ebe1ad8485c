"""Steps undone or redone one after the other: all of them or none, or only for as long as something is looked at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial

from indus_nb.kernel.undo.change import Change, Side
from indus_nb.kernel.undo.files import FileStep, all_touched
from indus_nb.kernel.undo.steps import Step, Touched
from indus_nb.kernel.undo.transaction import RefusedError, TouchedError, surely

KEEPING: Collection[Touched] = ("keep", "both")
"""Policies by which what the user changed since stays as it is."""
_Mark = tuple[Step, Side | None, list[FileStep] | None]
"""A step, with the state of its changes from before it was undone or redone."""


@dataclass(slots=True)
class Turned:
    """Steps that were undone or redone, the first one first, and the result."""

    marks: list[_Mark] = field(default_factory=list[_Mark])
    names: set[str] = field(default_factory=set[str])
    beside: set[str] = field(default_factory=set[str])
    kept: dict[Step, frozenset[str]] = field(default_factory=dict[Step, frozenset[str]])


def turn_all(steps: Sequence[Step], touched: Touched, behind: Callable[[Step], Iterable[Step]]) -> Turned:
    """Undo or redo steps in order, all of them or none.

    Args:
        behind: Returns the rests that stay as they are behind a step.

    Raises:
        TouchedError: Something was changed since, and ``touched`` says nothing of it; nothing was done. It names all
            that "over" would overwrite.
        RefusedError: It is not possible; nothing was done.
    """
    turned = Turned()
    try:
        for at, step in enumerate(steps):
            changed = step.touched() if touched else frozenset[str]()  # else it refuses by itself
            if touched in KEEPING:
                changed = changed.union(*(step.shared(each) for each in behind(step)))
                changed |= step.names & frozenset[str]().union(*turned.kept.values())
                turned.kept[step] = changed
            mark = step.variables and step.variables.mark(), step.files and step.files.steps
            turned.marks.append((step, *mark))  # before it moves: an interrupt may come right after that
            try:
                written, new = step.turn(changed, touched)
            except TouchedError as error:
                raise TouchedError(overwritten(steps[at:]).union(error.names)) from error
            turned.names |= written
            turned.beside |= new
    except BaseException:
        turn_back(turned.marks)
        raise
    return turned


def turn_back(marks: Sequence[_Mark]) -> None:
    """Leave steps that were moved as they were."""
    for step, variables, files in reversed(marks):
        if (step.variables and step.variables.mark()) is variables and (step.files and step.files.steps) is files:
            continue  # it did not move
        step.turn(step.touched(), "over")
        if step.variables is not None and variables is not None:
            step.variables.reset(variables)
        if step.files is not None and files is not None:
            step.files.steps = files


def overwritten(steps: Sequence[Step]) -> frozenset[str]:
    """Return what the user changed since and undoing or redoing steps in order would overwrite, and files outside.

    What was changed in a variable before a later step changed it, too, shows only below that step: variables are moved
    meanwhile. No file is.
    """
    files = all_touched(step.files for step in steps if step.files is not None)
    with turned_meanwhile(steps[:-1], as_far_as_possible=True) as found:
        last = [step.variables.touched() for step in steps[-1:] if step.variables is not None]
    return files.union(found, *last)


@contextmanager
def turned_meanwhile(steps: Iterable[Step], *, as_far_as_possible: bool = False) -> Generator[set[str]]:
    """Have the variables of steps undone or redone within the context, whatever the user changed since.

    Args:
        as_far_as_possible: Whether steps that cannot be moved stay as they are.

    Yields:
        The variables that the user changed since.

    Raises:
        RefusedError: It is not possible; or not all could be put back.
    """
    back: list[Callable[[], None]] = []
    found: set[str] = set()
    try:
        for change in (step.variables for step in steps):
            if change is not None:
                found |= change.touched()
                back.insert(0, partial(_turn_back_to, change, change.mark()))  # first: an interrupt may come
                with suppress(RefusedError) if as_far_as_possible else nullcontext():
                    _turn(change)
        yield found
    finally:
        if failures := surely(back):
            raise RefusedError(f"not all could be put back: {'; '.join(map(str, failures))}")


def _turn(change: Change) -> None:
    move: Callable[..., object] = change.redo if change.undone else change.undo
    move(over=change.touched())


def _turn_back_to(change: Change, mark: Side) -> None:
    if change.undone != mark.undone:
        _turn(change)
    change.reset(mark)
