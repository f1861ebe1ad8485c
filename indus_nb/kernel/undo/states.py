"""States of a history under names: where each stands among the steps, and what the budget of memory leaves of them.

What this module promises:

- A state is the path of its steps from the oldest one on, so that it costs nothing but the steps, which it shares with
  the history and with other states. A step is done if it is on the history's path, else it is undone.
- Steps that a state needs are kept, also where they can no longer be redone. Where there is no room for all, the oldest
  steps that no state needs are dropped first, then whole states, the oldest first: none loses a part of its steps.
- What the user changed outside of steps, and what a move has left or overwritten, takes nothing from states (`rests`);
  where it cannot be kept, each knows what it cannot bring back. What was so before it got its name is a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from indus_nb.kernel.undo.files import LostFile, there
from indus_nb.kernel.undo.steps import Lost, Step
from indus_nb.kernel.undo.transaction import RefusedError

MAX_STEPS = 100
"""Most steps that are kept without a state that needs them."""
MAX_HELD = 500
"""Most steps that are kept in all."""
LAST = "last"
"""The state that was left when the user last went to another one; the ones before it are ``last-2`` and so on."""


def is_of_left(name: str) -> bool:
    """Return whether a name is one of those that states get when they are left.

    >>> is_of_left("last"), is_of_left("last-2"), is_of_left("last-look")
    (True, True, False)
    """
    first, _, number = name.partition("-")
    return first == LAST and (name == LAST or number.isdigit())


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
        found: Files that were changed outside of steps before, as they are in it.
        unread: Variables that could not be read then.
        unsure: Variables and files that cannot be brought back, as they were changed outside of steps; each file as it
            is in the state.
    """

    path: list[Step]
    found: Mapping[str, LostFile] = field(default_factory=dict[str, LostFile])
    unread: frozenset[str] = frozenset()
    unsure: dict[str, LostFile | None] = field(default_factory=dict[str, "LostFile | None"])

    def copy(self) -> State:
        """Return a state that keeps to be as this one is now."""
        return State([*self.path], self.found, self.unread, {**self.unsure})


class States:
    """The named states of one history, oldest first; used under its lock."""

    def __init__(self) -> None:
        """Begin with none."""
        self.named: dict[str, State] = {}
        self._lost: Sequence[Lost] = ()

    def save(self, name: str, done: Iterable[Step]) -> None:
        """Give the present state, of which is known what cannot be put back, a name; no other one has it any more."""
        self.named.pop(name, None)
        found = {name: file for lost in self._lost for name, file in lost.files.items()}
        self.named[name] = State([*done], found, frozenset[str]().union(*(lost.variables for lost in self._lost)))

    def leave(self, done: Sequence[Step], ahead: Collection[Step]) -> None:
        """Give the present state the name ``LAST``; earlier ones of it get a number where they alone have some step.

        Args:
            ahead: Steps that are done once the present state is left.
        """
        lasts = [self.named.pop(name) for name in self.lasts()]
        held = {*self.steps(), *ahead, *done}
        kept = list[State]()
        for state in lasts:
            if not held.issuperset(state.path):
                kept.append(state)
                held.update(state.path)
        self.save(LAST, done)
        self.named |= {f"{LAST}-{number}": state for number, state in enumerate(kept, 2)}

    def lasts(self) -> list[str]:
        """Return the names of states that were left, the newest first."""
        return sorted(filter(is_of_left, self.named), key=lambda name: (len(name), name))

    def mark(self) -> Callable[..., None]:
        """Return what leaves all states as they are now, but for those that are given to it.

        It takes names of states that stay, and steps that are on no path then.
        """
        named = {name: state.copy() for name, state in self.named.items()}

        def back(since: Collection[str] = (), without: Collection[Step] = ()) -> None:
            stay = {name: self.named[name] for name in since}
            for state in stay.values():
                state.path = [step for step in state.path if step not in without]
            self.named = {name: state.copy() for name, state in named.items() if name not in stay} | stay

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

    def steps(self) -> set[Step]:
        """Return all steps on paths of states."""
        return {step for state in self.named.values() for step in state.path}

    def begin_with(self, steps: Sequence[Step]) -> None:
        """Put older steps at the beginning of each path."""
        for state in self.named.values():
            state.path[:0] = steps

    def note_lost(self, found: Sequence[Lost], rests: Iterable[Step]) -> None:
        """Record what states cannot bring back any more, and that it is so in the present one.

        Args:
            rests: What can be put back, which other steps know.
        """
        self._lost = found
        files = [file for rest in rests if rest.files is not None for file in rest.files.steps]
        kept = {file.path: file.other for file in files}
        for lost in found:
            for state in self.named.values():
                if lost.step not in state.path:
                    continue
                behind = state.path[state.path.index(lost.step) + 1 :]
                later = frozenset[str]().union(*(each.names for each in behind))
                state.unsure |= dict.fromkeys(lost.variables - later - state.unread)
                for name in lost.files.keys() - later:
                    file = lost.files[name]
                    wanted = state.found[name].now if name in state.found else file.was
                    if wanted != file.now and not (file.path in kept and kept[file.path] == wanted):
                        state.unsure.setdefault(name, file._replace(now=wanted))

    def unsure(self, name: str, done: Sequence[Step]) -> list[str]:
        """Return what a state cannot bring back, without files that are as in it by now and in no step's way."""
        on_the_way = frozenset[str]().union(*(step.names for step in self.route(name, done).steps))
        unsure = self.named[name].unsure.items()
        return sorted(
            each for each, file in unsure if file is None or each in on_the_way or there(file.path) != file.now
        )

    def divide(self, step: Step, rest: Step, *, before: bool) -> None:
        """Put a part of a step, which was taken out of it, beside it on each path."""
        for state in self.named.values():
            if step in state.path:
                state.path.insert(state.path.index(step) + (not before), rest)

    def put_below(self, step: Step, rests: Iterable[Step]) -> None:
        """Put rests that were there before a step was redone before it on each path."""
        for state in self.named.values():
            if step in state.path:
                at = state.path.index(step)
                state.path[at:at] = [rest for rest in rests if rest not in state.path[:at]]

    def put_behind(self, step: Step, staying: Collection[Step]) -> None:
        """Put a step behind what follows it on a path and stays when it is undone, with which it shares nothing."""
        for state in self.named.values():
            if step in state.path:
                at = state.path.index(step)
                while at + 1 < len(state.path) and state.path[at + 1] in staying:
                    state.path[at : at + 2] = [state.path[at + 1], step]
                    at += 1

    def forget_rests(self, done: list[Step]) -> None:
        """Remove the rests from ``done`` if there is no state that needs them."""
        if not self.named:
            done[:] = [step for step in done if not step.is_rest]

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
            count = sum(not step.is_rest for step in done)
            if free > 0 and (is_over or count > MAX_STEPS):
                dropped += not done[0].is_rest
                del done[0]
                for state in self.named.values():
                    del state.path[0]
            elif is_over and self.named:
                lost.append((self.lasts() or [*self.named][:1])[-1])
                del self.named[lost[-1]]
                self.forget_rests(done)
            else:
                return Dropped(dropped, lost)


def _common(one: Sequence[Step], other: Sequence[Step]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine is not yours), min(len(one), len(other)))
