"""Undo and redo of what code changed in a namespace.

Both are the same: what is there is remembered, and what was kept is put in its place. Before anything is written,
everything is compared with what the code, or the last undo, left behind: what the user changed since is overwritten
only if the caller says so. It does not become a part of the change by that: where it is back later, it is compared
with what the change itself had left there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from indus_nb.base.errors import failure_text
from indus_nb.kernel.undo.keeper import ABSENT, Keeper
from indus_nb.kernel.undo.transaction import RefusedError, TouchedError, carry_out


@dataclass(slots=True)
class Held:
    """A mutable object with a snapshot of it.

    Attributes:
        seal: Snapshot of what it should hold now, or enough to compare with.
        names: The variables that lead to it; none of a setting.
    """

    obj: Any
    keeper: Keeper
    kept: Any
    seal: Any = None
    names: frozenset[str] = frozenset()

    def is_touched(self) -> bool:
        """Return whether it changed since it was sealed."""
        try:
            return not self.keeper.sealed(self.obj, self.seal)
        except Exception:  # noqa: BLE001 - it cannot be read any more
            return True


Bound = Mapping[str, tuple[Any, Any]]
"""Names with their values after an undo or redo, and their present values."""


@dataclass(frozen=True)
class Side:
    """State that a change keeps for its next undo or redo, with seals that show changes made meanwhile.

    Attributes:
        own_bound: What the change itself had bound to names, where the last move has overwritten something else.
        own: Objects with the seals that the change itself had set, where the last move has overwritten something else.
        roots: Variables that were bound to the objects it fills, and to which nothing else led, with these objects.
    """

    undone: bool
    bound: Bound
    held: list[Held]
    watched: list[Held]
    own_bound: Mapping[str, Any] = field(default_factory=dict[str, Any])
    own: Sequence[Held] = ()
    roots: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Differences(NamedTuple):
    """Differences after code has run, by kind.

    Attributes:
        words: Rebound variables and those changed in place, as they stand behind "changes": ``rows 3 → 2 items``.
        uncalled: Those created that a summary does not call new, modules, functions and classes, each with whether it
            was imported.
    """

    created: frozenset[str]
    deleted: frozenset[str]
    rebound: frozenset[str]
    in_place: frozenset[str]
    settings: Sequence[str]
    words: Mapping[str, str]
    uncalled: Mapping[str, bool]


@dataclass
class Change:
    """Changes of a namespace by one piece of code, which can be undone and redone in turn.

    Attributes:
        summary: The changes in one line; empty if none is worth mentioning.
        outcome: The same as a sentence without subject, with the functions and classes that the code makes.
        known: The ids of objects that were there before and can change, with a variable that is bound to them, or "".
        left_out: Variables whose contents are not taken back, or not all, and why.
    """

    summary: str
    outcome: str
    found: Differences
    known: Mapping[int, str]
    left_out: Mapping[str, str]
    namespace: MutableMapping[str, Any] = field(repr=False)
    _side: Side = field(repr=False)
    _watch: Callable[[Iterable[Any], Iterable[Held]], list[Held]] = field(repr=False)
    _weighed: tuple[Side | None, int] = field(default=(None, 0), repr=False)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed."""
        return not self._side.bound and not self._side.held

    @property
    def undone(self) -> bool:
        """Return whether it is taken back at present."""
        return self._side.undone

    def mark(self) -> Side:
        """Return the present state, for ``reset``."""
        return self._side

    def reset(self, mark: Side) -> None:
        """Restore the state of ``mark``, once the change was undone and redone in between.

        Otherwise what the user changed before that would be taken for a part of it.
        """
        self._side = mark

    def forget_own(self) -> None:
        """Take what the last move has overwritten for its own."""
        self._side = replace(self._side, own_bound={}, own=())

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the variables that it concerns."""
        return frozenset(self._side.bound).union(*(node.names for node in self._side.held))

    @property
    def removed(self) -> frozenset[str]:
        """Return the variables that are not there once it is undone, or redone if it is undone."""
        return frozenset(name for name, (other, _) in self._side.bound.items() if other is ABSENT)

    @property
    def bound(self) -> frozenset[str]:
        """Return the variables that the code bound and did not delete."""
        return self.found.created | self.found.rebound

    def binds(self, name: str) -> bool:
        """Return whether the code bound a variable, and nothing has bound it since."""
        now = self._side.bound.get(name, (ABSENT, ABSENT))[1]
        return name in self.bound and self.namespace.get(name, ABSENT) is now is not ABSENT

    @property
    def weight(self) -> int:
        """Return roughly how many bytes it keeps from being freed."""
        if self._weighed[0] is not self._side:
            held = sum(node.keeper.weight(state) for node in self._side.held for state in (node.kept, node.seal))
            held += sum(node.keeper.weight(node.seal) for node in (*self._side.watched, *self._side.own))
            values = [*(other for other, _ in self._side.bound.values()), *self._side.own_bound.values()]
            self._weighed = self._side, held + sum(map(_nbytes, values))
        return self._weighed[1]

    def held_before(self, name: str) -> int:
        """Return the id of a variable's value before the code; 0 if there was none, or it is the same."""
        before = self._side.bound.get(name, (ABSENT, ABSENT))[0]
        return 0 if before is ABSENT else id(before)

    def was_callable(self, name: str) -> bool:
        """Return whether the former value of a rebound variable was callable."""
        return callable(self._side.bound.get(name, (None, None))[0])

    def touched(self) -> frozenset[str]:
        """Return the variables that were changed since."""
        bound, nodes = self._touched()
        return frozenset(bound).union(*(node.names for node in nodes))

    def _touched(self) -> tuple[dict[str, Any], list[Held]]:
        """Return the names bound otherwise since, with their values from before, and the objects that hold others."""
        nodes = (*self._side.held, *self._side.watched)
        return self.rebound, [node for node in nodes if node.names and node.is_touched()]

    @property
    def rebound(self) -> dict[str, Any]:
        """Return the names that are bound otherwise since, with what they were bound to; in any thread."""
        bound = {
            name: now for name, (_, now) in self._side.bound.items() if self.namespace.get(name, ABSENT) is not now
        }
        return bound | self._left_roots()

    def _left_roots(self) -> dict[str, Any]:
        """Return the variables that led to an object which it fills, where none of them does any more."""
        roots, namespace = self._side.roots, self.namespace
        there = {id(obj) for name, obj in roots.items() if namespace.get(name, ABSENT) is obj}
        return {name: obj for name, obj in roots.items() if id(obj) not in there}

    @property
    def keys(self) -> set[str | int]:
        """Return what it writes: the variables that it binds, and the ids of the objects that it fills."""
        return {*self._side.bound, *(id(node.obj) for node in self._side.held)}

    def shared(self, other: Change) -> frozenset[str]:
        """Return those of its variables that another change concerns too, by their names or by an object."""
        mine, others = self._side, other._side
        held, all_held = ({id(node.obj) for node in nodes} for nodes in (others.held, [*others.held, *others.watched]))
        both = [node.names for node in mine.held if id(node.obj) in all_held]
        both += [node.names for node in mine.watched if id(node.obj) in held]
        return (self.names & other.names).union(*both)

    def shared_settings(self, other: Change) -> frozenset[str]:
        """Return the names of the settings and generators of libraries that another change concerns too."""
        theirs = {_setting(node) for node in other._side.held if not node.names}
        return frozenset(_an_object(node) for node in self._side.held if not node.names and _setting(node) in theirs)

    def part(self, mark: Side, names: Collection[str]) -> Change:
        """Return a change with what it held of some variables at ``mark``."""
        bound = {name: values for name, values in mark.bound.items() if name in names}
        held, watched, own = (
            [n for n in nodes if not n.names.isdisjoint(names)] for nodes in (mark.held, mark.watched, mark.own)
        )
        return self._other(Side(mark.undone, bound, held, watched, mark.own_bound, own))

    def since(self, seen: set[str | int]) -> tuple[dict[str, tuple[Any, Any]], list[Held], frozenset[str]]:
        """Find what was changed since in variables and objects, as another change would keep it.

        Args:
            seen: Variables, and ids of objects, that are not looked at; its own are added.

        Returns:
            Names bound otherwise; objects that hold something else; variables of objects that cannot be read.
        """
        side, held, lost = self._side, list[Held](), frozenset[str]()
        rebound = self.rebound
        bound = {n: (was, self.namespace.get(n, ABSENT)) for n, was in rebound.items() if n not in seen}
        for node in (*side.held, *side.watched):
            if node.names and id(node.obj) not in seen and node.is_touched():
                try:
                    held.append(replace(node, kept=node.seal, seal=node.keeper.seal(node.obj)))
                except Exception:  # noqa: BLE001 - an object in a state that cannot be read
                    lost |= node.names
        seen.update(side.bound, rebound, (id(node.obj) for node in (*side.held, *side.watched)))
        return bound, held, lost

    def after(self, bound: Bound, held: list[Held]) -> Change:
        """Return a change of the same namespace that was just made by other code."""
        watched = self._watch((now for _, now in bound.values()), held)
        seen = {id(node.obj) for node in held}
        return self._other(Side(False, bound, held, [n for n in watched if id(n.obj) not in seen]))  # noqa: FBT003

    def with_later(self, later: Change) -> Change:
        """Return this and a later change of the same variables and objects as one change."""
        mine, other = self._side, later._side
        bound = {name: (was, other.bound[name][1]) for name, (was, _) in mine.bound.items()}
        kept = {id(node.obj): node.kept for node in mine.held}
        held = [replace(node, kept=kept[id(node.obj)]) for node in other.held]
        return self._other(Side(mine.undone, bound, held, other.watched))

    def _other(self, side: Side) -> Change:
        nothing = Differences(frozenset(), frozenset(), frozenset(), frozenset(), (), {}, {})
        return Change("", "", nothing, {}, {}, self.namespace, side, self._watch)

    def undo(self, *, keep: Collection[str] = (), over: Collection[str] = ()) -> frozenset[str]:
        """Restore the state before the code.

        Args:
            keep: Variables that stay as they are, of those that were changed since.
            over: Variables that are taken back although they were changed since.

        Returns:
            The variables that are as they were before the code.

        Raises:
            TouchedError: Others were changed since; nothing was done.
            RefusedError: It is not possible; nothing was done.
        """
        if self.undone:
            raise RefusedError("it is taken back already")
        return self._move(keep, over)

    def redo(self, *, keep: Collection[str] = (), over: Collection[str] = ()) -> frozenset[str]:
        """Restore the state after the code, without running it.

        Args:
            keep: Variables that stay as they are, of those that were changed since.
            over: Variables that are changed although they were changed since.

        Returns:
            The variables that are as the code had left them.

        Raises:
            TouchedError: Others were changed since; nothing was done.
            RefusedError: It is not possible; nothing was done.
        """
        if not self.undone:
            raise RefusedError("it is not taken back")
        return self._move(keep, over)

    def _move(self, keep: Collection[str], over: Collection[str]) -> frozenset[str]:
        writing = self.prepare(keep=keep, over=over)
        carry_out([writing])
        return writing.names

    def prepare(self, *, keep: Collection[str] = (), over: Collection[str] = ()) -> Writing:
        """Check that it can be undone or redone, and write nothing.

        Args:
            over: Variables that are written although they were changed since.

        Returns:
            The writes, for ``carry_out``.

        Raises:
            TouchedError: Others were changed since.
            RefusedError: It is not possible.
        """
        touched, nodes = self._touched()
        if undecided := frozenset(touched).union(*(node.names for node in nodes)) - {*keep} - {*over}:
            raise TouchedError(undecided)
        side, stay = self._side, {*keep}
        held = [node for node in side.held if not node.names & stay and (node.names or not node.is_touched())]
        rebound = {name: (obj, obj) for name, obj in touched.items() if name not in side.bound}
        bound = {name: values for name, values in {**side.bound, **rebound}.items() if name not in stay}
        try:
            found = [node.keeper.remember(node.obj) for node in held]
        except Exception as error:
            raise RefusedError(failure_text(error)) from error
        now = {name: self.namespace.get(name, ABSENT) for name in bound}
        own_bound = {name: value for name, value in touched.items() if name in bound}
        own, before = ([node for node in each if not node.names & stay] for each in (nodes, side.own))
        return Writing(self, bound, now, held, found, own_bound, own, {id(node.obj): node for node in before})

    def turned(self, writing: Writing) -> None:
        """Record that ``writing`` was carried out; idempotent."""
        if writing.side is None:
            side, own = self._side, writing.own_before
            bound = {
                name: (writing.now[name], side.own_bound.get(name, new)) for name, (new, _) in writing.bound.items()
            }
            watched = self._watch((other for other, _ in writing.bound.values()), writing.sealed)
            sealed = [replace(n, seal=own[id(n.obj)].seal) if id(n.obj) in own else n for n in writing.sealed]
            seen = {id(node.obj) for node in writing.held}
            watched = [n for at, n in {**{id(n.obj): n for n in watched}, **own}.items() if at not in seen]
            roots = {name: obj for name, obj in side.roots.items() if name not in bound and id(obj) in seen}
            writing.side = Side(not side.undone, bound, sealed, watched, writing.own_bound, writing.own, roots)
        self._side = writing.side


def new_change(
    namespace: MutableMapping[str, Any],
    said: tuple[str, str, Differences, Mapping[int, str]],
    left_out: Mapping[str, str],
    side: tuple[Bound, list[Held], list[Held]],
    watch: Callable[[Iterable[Any], Iterable[Held]], list[Held]],
) -> Change:
    """Build a change that was just made.

    Args:
        said: The changes in one line, as a sentence, and by kind; and the objects from before.
        side: The names that are bound otherwise, the objects that changed, and those that are new.
    """
    bound, held, watched = side
    reached = ((name, node) for node in held for name in node.names)
    direct = {name: node.obj for name, node in reached if namespace.get(name, ABSENT) is node.obj}
    alone = {id(node.obj) for node in held if node.names <= direct.keys()}
    roots = {name: obj for name, obj in direct.items() if id(obj) in alone and name not in bound}
    return Change(*said, left_out, namespace, Side(False, bound, held, watched, roots=roots), watch)  # noqa: FBT003


@dataclass
class Writing:
    """One undo or redo of a `Change`, checked and not yet written.

    Attributes:
        own_bound: What the change had bound to names, of which it overwrites something else.
        own: Objects as the change had sealed them, of which it overwrites something else.
        own_before: Such of the move before this one, by their ids: what is there is back, and is not the change's own.
        side: The state of the change once it is carried out, if it is known.
    """

    change: Change
    bound: Bound
    now: Mapping[str, Any]
    held: list[Held]
    found: list[Any]
    own_bound: Mapping[str, Any]
    own: Sequence[Held]
    own_before: Mapping[int, Held]
    sealed: list[Held] = field(default_factory=list[Held])
    side: Side | None = None

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the variables that it concerns."""
        return frozenset(self.bound).union(*(node.names for node in self.held))

    def write(self) -> None:
        """Write all values, and check that they are in place."""
        for name, (other, _) in self.bound.items():
            self._bind(name, other)
        for node in self.held:
            node.keeper.put(node.obj, node.kept)
        for node in self.held:
            if not node.keeper.same(node.obj, node.kept):
                raise RefusedError(f"{_an_object(node)} does not take what it held before")
        self.sealed = [
            replace(node, kept=found, seal=node.keeper.seal(node.obj))
            for node, found in zip(self.held, self.found, strict=True)
        ]

    def back(self) -> None:
        """Restore the values from before ``write``."""
        for name, value in self.now.items():
            self._bind(name, value)
        for node, found in zip(self.held, self.found, strict=True):
            node.keeper.put(node.obj, found)

    def commit(self) -> None:
        """Record in the change that it was undone or redone."""
        self.change.turned(self)

    def _bind(self, name: str, value: Any) -> None:
        namespace = self.change.namespace
        if value is ABSENT:
            namespace.pop(name, None)
        elif namespace.get(name, ABSENT) is not value:
            namespace[name] = value


def _setting(node: Held) -> str | int:
    return getattr(node.obj, "name", id(node.obj))  # the object of a setting is another one each time


def _an_object(node: Held) -> str:
    what = type(node.obj).__name__
    return f"the {what} in {', '.join(sorted(node.names))}" if node.names else getattr(node.obj, "name", what)


def _nbytes(value: Any) -> int:
    module = type(value).__module__.partition(".")[0]
    try:
        if module == "numpy":
            return int(value.nbytes)
        if module == "pandas" and hasattr(value, "_mgr"):
            return sum(int(block.values.nbytes) for block in value._mgr.blocks)  # noqa: SLF001
        if module == "polars" and hasattr(value, "estimated_size"):
            return int(value.estimated_size())
    except Exception:  # noqa: BLE001 - it is an estimate
        return 64
    return 8 * len(value) if type(value) in (list, dict, set, tuple, str, bytes, bytearray) else 64
