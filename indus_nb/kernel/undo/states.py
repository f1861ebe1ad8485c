"""States of a history under names: where each stands among the steps, and what the budget of memory leaves of them.

What this module promises:

- A state is the path of its steps from the oldest one on, so that it costs nothing but the steps, which it shares with
  the history and with other states. A step is done if it is on the history's path, else it is undone.
- Steps that a state needs are kept, also where they can no longer be redone. Where there is no room for all, the oldest
  steps that no state needs are dropped first, then whole states, the oldest first: none loses a part of its steps.
- What the user changed outside of steps, and a move has kept or overwritten, is no part of states any more: each knows
  of what it no longer is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from indus_nb.kernel.undo.steps import Step, Touched
from indus_nb.kernel.undo.transaction import RefusedError

MAX_STEPS = 100
"""Most steps that are kept without a state that needs them."""
MAX_HELD = 500
"""Most steps that are kept in all."""
LAST = "last"
"""The state that was left when the user last went to another one."""


class Dropped(NamedTuple):
    """What a new step left no room for."""

    steps: int = 0
    states: Sequence[str] = ()


class Route(NamedTuple):
    """The way to a state: steps to undo, and steps to redo then, both oldest first."""

    undone: Sequence[Step]
    redone: Sequence[Step]

    @property
    def steps(self) -> list[Step]:
        """Return the steps in the order in which they are moved."""
        return [*reversed(self.undone), *self.redone]


@dataclass(eq=False)
class State:
    """A state of the history.

    Attributes:
        path: The steps that were done, oldest first.
        unsure: Variables and files that may differ, as they were changed outside of steps.
    """

    path: list[Step]
    unsure: set[str] = field(default_factory=set[str])


class States:
    """The named states of one history, oldest first; used under its lock."""

    def __init__(self) -> None:
        """Begin with none."""
        self.named: dict[str, State] = {}

    def save(self, name: str, done: Iterable[Step], unsure: Iterable[str] = ()) -> None:
        """Give the present state a name, in the place of another one of that name."""
        self.named.pop(name, None)
        self.named[name] = State([*done], {*unsure})

    def leave(self, done: Iterable[Step]) -> Callable[[], None]:
        """Give the present state, which is left for another one, the name `LAST`; return what turns that around."""
        before = self.named.get(LAST)
        self.save(LAST, done)
        left = self.named[LAST]

        def back() -> None:
            if self.named.get(LAST) is left:
                del self.named[LAST]
                self.named |= {} if before is None else {LAST: before}

        return back

    def route(self, name: str, done: Sequence[Step]) -> Route:
        """Return the way to a state.

        Raises:
            RefusedError: There is none of that name.
        """
        if name not in self.named:
            raise RefusedError(f"there is no state of the name {name}")
        path = self.named[name].path
        common = _common(path, done)
        return Route(done[common:], path[common:])

    def reorder(self, done: Sequence[Step], anew: Sequence[Step]) -> None:
        """Have paths that begin with these steps begin with them in another order, which comes to the same."""
        for state in self.named.values():
            if _common(state.path, done) == len(done):
                state.path[: len(done)] = anew

    def steps(self) -> set[Step]:
        """Return all steps on paths of states."""
        return {step for state in self.named.values() for step in state.path}

    def begin_with(self, steps: Sequence[Step]) -> None:
        """Put older steps at the beginning of each path."""
        for state in self.named.values():
            state.path[:0] = steps

    def note_moved(
        self, moved: Mapping[Step, Collection[str]], touched: Touched, done: Collection[Step]
    ) -> Callable[[], None]:
        """Record what steps that were moved had found changed by the user.

        What was overwritten is kept with the step, for its way back: so it is part of the states that this leads to.

        Args:
            moved: The steps, with the variables and files that were changed since.
            done: The steps that are done now.

        Returns:
            What turns that around.
        """
        new: list[tuple[State, set[str]]] = []
        for step, changed in moved.items():
            for state in self.named.values():
                if touched != "over" or (step in state.path) != (step in done):
                    new.append((state, {*changed} - state.unsure))
                    state.unsure.update(changed)

        def back() -> None:
            for state, names in new:
                state.unsure -= names

        return back

    def make_room(self, done: list[Step], room: int) -> Dropped:
        """Drop steps at the beginning of ``done`` and states, until what is kept fits; never the newest step.

        Args:
            room: Memory that all steps may take, in bytes.
        """
        dropped, lost, weights = 0, list[str](), {step: step.weight for step in self.steps() | {*done}}
        while True:
            held = self.steps() | {*done}
            free = min([len(done) - 1, *(_common(state.path, done) for state in self.named.values())])
            is_over = sum(weights[step] for step in held) > room or len(held) > MAX_HELD
            if free > 0 and (is_over or len(done) > MAX_STEPS):
                del done[0]
                for state in self.named.values():
                    del state.path[0]
                dropped += 1
            elif is_over and self.named:
                lost.append(LAST if LAST in self.named else next(iter(self.named)))
                del self.named[lost[-1]]
            else:
                return Dropped(dropped, lost)


def _common(one: Sequence[Step], other: Sequence[Step]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine is not yours), min(len(one), len(other)))
