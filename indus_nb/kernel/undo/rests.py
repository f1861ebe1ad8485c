"""Rests: what named states need beside steps, so that no move and no change of the user's takes it from them.

What this module promises:

- What the user changed outside of steps is recorded, as far as steps know what was there before: it stands behind the
  steps that were done, and the user is asked before a move takes it back.
- What a move leaves as the user has it stays a part of states: the step is divided, and only one of both parts moves.
- Rests are no steps to users: they are neither counted nor taken back by themselves, and go with the last state.
- Steps and rests that concern neither the same variables and files nor the same objects may change their places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from indus_nb.kernel.undo.change import Held, Side
from indus_nb.kernel.undo.files import FileStep
from indus_nb.kernel.undo.steps import Lost, Step


class Unrecorded(NamedTuple):
    """What the user changed outside of steps.

    Attributes:
        rests: It, to stand behind the steps that were done.
        lost: What cannot be put back.
    """

    rests: Sequence[Step]
    lost: Sequence[Lost]


def unrecorded(ways: Iterable[Iterable[Step]], *, files_alone: bool = False) -> Unrecorded:
    """Find what was changed since steps were moved.

    Args:
        ways: Steps in the order in which they would be moved from here on; of each variable, file and object the first
            one knows what it should be.
        files_alone: Whether variables are left out.
    """
    bound, held, files = dict[str, tuple[Any, Any]](), dict[int, Held](), dict[Path, Step]()
    lost, change = list[Lost](), None
    steps = dict[Step, None]()
    for way in ways:
        seen, paths = set[str | int](), set[Path]()
        for step in way:
            steps[step] = None
            if step.variables is not None and not files_alone:
                change = change or step.variables
                named, nodes, unread = step.variables.since(seen)
                bound = named | bound
                held = {id(node.obj): node for node in nodes} | held
                lost += [Lost(step, variables=unread)] if unread else []
            if step.files is not None:
                changes, gone = step.files.since(paths)
                files = {each.steps[0].path: _rest(files=each, book=step.book) for each in changes} | files
                lost += [Lost(step, files=gone)] if gone else []
    rests = [] if change is None else [_rest(variables=change.after(*each)) for each in _apart(bound, held, steps)]
    return Unrecorded([*rests, *files.values()], lost)


def _rest(**parts: Any) -> Step:
    return Step("", "", is_rest=True, asks=True, **parts)


def with_later(rests: Iterable[Step], later: Iterable[Step], needed: Collection[Step]) -> list[Step]:
    """Return rests with later ones behind them; one of the user's that writes the same takes an earlier place.

    Args:
        needed: Rests that stay as they are.
    """
    found = [*rests]
    for rest in later:
        at = next((at for at in reversed(range(len(found))) if not found[at].keys.isdisjoint(rest.keys)), None)
        if at is None or not found[at].asks or found[at] in needed or found[at].keys != rest.keys:
            found.append(rest)
            continue
        earlier = found[at]
        one = _rest(book=rest.book)
        if earlier.variables is not None and rest.variables is not None:
            one.variables = earlier.variables.with_later(rest.variables)
        if earlier.files is not None and rest.files is not None:
            one.files = earlier.files.with_later(rest.files)
        found[at] = one
    return found


def _apart(
    bound: Mapping[str, tuple[Any, Any]], held: Mapping[int, Held], steps: Iterable[Step]
) -> Iterable[tuple[dict[str, tuple[Any, Any]], list[Held]]]:
    """Divide changes into such of which each step writes all or nothing."""
    writers: dict[str | int, list[int]] = {key: [] for key in (*bound, *held)}
    for at, step in enumerate(steps):
        for key in writers.keys() & step.keys:
            writers[key].append(at)
    groups: dict[tuple[int, ...], tuple[dict[str, tuple[Any, Any]], list[Held]]] = {}
    for key, found in writers.items():
        names, nodes = groups.setdefault(tuple(found), ({}, []))
        if isinstance(key, str):
            names[key] = bound[key]
        else:
            nodes.append(held[key])
    return groups.values()


def left(step: Step, variables: Side | None, files: Sequence[FileStep] | None, names: Collection[str]) -> Step | None:
    """Return what a moved step has left of some variables and files, as a rest; ``None`` for nothing.

    Args:
        variables: Mark of its variables from before the move.
        files: Its files from before the move.
    """
    rest = Step(step.call, step.run, book=step.book, cell=step.cell, is_rest=True, asks=step.asks)
    if step.variables is not None and variables is not None:
        rest.variables = step.variables.part(variables, names)
    if step.files is not None and files is not None:
        rest.files = step.files.part(files, names, undone=not step.files.undone)
    return None if rest.is_empty else rest


def above(path: Sequence[Step], steps: Collection[Step]) -> list[Step]:
    """Return the rests of a path that must be taken back before some steps of it are, oldest first."""
    on_the_way, found = list[Step](), list[Step]()
    for step in path:
        if step in steps or (step.is_rest and any(step.shared(each) for each in on_the_way)):
            on_the_way.append(step)
            found += [] if step in steps else [step]
    return found


def below(rests: Iterable[Step], step: Step) -> list[Step]:
    """Return those of some rests that a step overwrites when it is redone on top of them."""
    return [rest for rest in rests if not rest.keys.isdisjoint(step.keys)]


def apart(rests: Iterable[Step], steps: Sequence[Step]) -> list[Step]:
    """Return the rests that concern nothing of what other steps do, nor of rests that do."""
    staying, others = [*rests], [*steps]
    while meeting := [rest for rest in staying if any(rest.shared(each) for each in others)]:
        staying, others = [rest for rest in staying if rest not in meeting], meeting
    return staying


def trailing(path: Sequence[Step]) -> list[Step]:
    """Return the rests at the end of a path, oldest first."""
    at = next((at for at in range(len(path), 0, -1) if not path[at - 1].is_rest), 0)
    return [*path[at:]]
