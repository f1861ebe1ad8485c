"""Snapshot of a namespace before code runs, as far as the code can reach it.

Of every object that can change and that the code can come to, a checkpoint refers to what that object itself holds
(`keeper`). After the run it compares, keeps what differs as a `Change`, and forgets the rest. So taking back happens in
the objects, and all other references to one of them (another name, a closure, a cycle) see it too.

>>> namespace, code = {"name": "a"}, "name = 'b'"
>>> checkpoint = take(namespace, code)
>>> exec(code, namespace)
>>> change = checkpoint.close()
>>> sorted(change.undo()), namespace["name"]
(['name'], 'a')

Code that runs at the same time in other threads is no part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import ModuleType
from typing import Any

from indus_nb.kernel.undo import words
from indus_nb.kernel.undo.budget import CheckpointBudget
from indus_nb.kernel.undo.change import Change, Differences, Held, new_change
from indus_nb.kernel.undo.differences import Clock, differences
from indus_nb.kernel.undo.found_once import is_found_once
from indus_nb.kernel.undo.keeper import ABSENT, class_of
from indus_nb.kernel.undo.objects import outside
from indus_nb.kernel.undo.objects.kinds import kinds_of
from indus_nb.kernel.undo.reach import Reached, names_in_source
from indus_nb.kernel.undo.walk import Walk, is_output, is_users
from indus_nb.kernel.values.extent import Extent

_AFTER = CheckpointBudget(0.02, 32 << 20)
"""Budget for remembering new objects, so that the user's changes to them are noticed."""
_COMPARING_SECONDS = 0.2
"""Time for finding out how values differ that are said to have changed."""


@dataclass
class Checkpoint:
    """Snapshot of a namespace before code runs.

    Attributes:
        left_out: Variables that the code reaches and whose contents cannot be taken back, or not all, with the reason;
            what they are bound to can.
    """

    left_out: Mapping[str, str]
    _namespace: MutableMapping[str, Any] = field(repr=False)
    _walk: Walk = field(repr=False)
    _before: dict[str, Any] = field(repr=False)
    _extents: dict[str, Extent] = field(repr=False)
    _settings: list[Held] = field(repr=False)
    _beside: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def reached(self) -> frozenset[str]:
        """Return the variables that the code may reach, or binds otherwise; until it is closed."""
        return frozenset(self._walk.reached | self._walk.rebound)

    @cached_property
    def _direct(self) -> dict[int, set[str]]:
        """Map the id of each object to the variables that were bound to it."""
        names: dict[int, set[str]] = {}
        for name, value in self._before.items():
            names.setdefault(id(value), set()).add(name)
        return names

    def _known(self) -> dict[int, str]:
        """Map the id of each mutable object to a variable that is bound to it."""
        direct = self._direct
        return {key: min(direct.get(key, ("",))) for key, _ in self._walk.nodes}

    def only_below(self, names: Collection[str]) -> set[int]:
        """Return the ids of the remembered objects to which some variables alone lead."""
        direct, keys = self._direct, {key for key, _ in self._walk.nodes}
        leading = self._walk.names_by_key(keys)
        return {key for key in keys if leading[key] | direct.get(key, set()) <= {*names}}

    def _former(self, name: str) -> Any:
        """Return a variable's value as it was, as far as it is remembered."""
        value = self._before.get(name, self._beside.get(name, ABSENT))
        node = self._walk.nodes.get((id(value), 0))
        try:
            found = ABSENT if node is None else node.keeper.former(node.obj, node.kept)
        except Exception:  # noqa: BLE001 - of a library in a version that keeps it in another way
            return value
        return value if found is ABSENT else found

    def _compared(self) -> tuple[list[Held], dict[int, str], dict[int, str]]:
        """Find the objects that are not as they were.

        Returns:
            These objects; the ids of those that cannot be put back, and of those that cannot be read, with the reason.
        """
        moved, lacking, unread = list[Held](), dict[int, str](), dict[int, str]()
        for (key, _), node in self._walk.nodes.items():
            try:
                if node.keeper.same(node.obj, node.kept):
                    continue
                if why := node.keeper.lacks(node.obj, node.kept):
                    lacking[key] = why
                else:
                    moved.append(node)
            except Exception as error:  # noqa: BLE001 - an object in a state that cannot be read
                unread[key] = type(error).__name__
        return moved, lacking, unread

    def _changed(self) -> tuple[list[Held], dict[str, str], dict[str, str]]:
        """Find the objects that are not as they were, sealed and with their names.

        Returns:
            These objects; variables that cannot be put back, and those that cannot be read, with the reason.
        """
        moved, lacking, unread = self._compared()
        # A frame may have its values in another array by the time when this one is put back, and labels
        # know where they found what.
        around = self._walk.frames_of(*(id(node.obj) for node in moved))
        held = list[Held]()
        for node in {id(each): each for each in (*moved, *around)}.values():
            try:
                node.seal = node.keeper.seal(node.obj)
            except Exception as error:  # noqa: BLE001 - an object in a state that cannot be read
                unread[id(node.obj)] = type(error).__name__
            else:
                held.append(node)
        leading = self._walk.names_by_key({*(id(node.obj) for node in held), *lacking, *unread})
        for node in held:
            node.names = leading[id(node.obj)] | self._direct.get(id(node.obj), set())
        lost = {name: why for key, why in lacking.items() for name in leading[key] | self._direct.get(key, set())}
        return held, lost, {name: why for key, why in unread.items() for name in leading[key]}

    def close(self, *, names_all: bool = False) -> Change:
        """Find the changes since; the checkpoint is of no use afterwards.

        Args:
            names_all: Whether the summary names each variable, functions and modules among them.
        """
        walk, before, after = self._walk, self._before, self._namespace
        bound = {name: (value, ABSENT) for name, value in before.items() if name not in after} | {
            name: (before.get(name, ABSENT), value)
            for name, value in [*after.items()]
            if before.get(name, ABSENT) is not value and is_users(name)
        }
        left_out = dict(self.left_out)
        held, lost, unread = self._changed()
        left_out |= unread
        around = [
            node
            for node in self._settings
            if not node.keeper.same(node.obj, node.kept)
            and (not isinstance(node.obj, outside.Setting) or node.obj.counts())
        ]
        for node in around:
            node.seal = node.keeper.seal(node.obj)
        seen = [node for node in held if not is_found_once(node, walk.holders_of)]
        in_place = {name for node in seen for name in node.names} - bound.keys()
        created = {name: now for name, (was, now) in bound.items() if was is ABSENT}
        deleted = [name for name, (_, now) in bound.items() if now is ABSENT]
        rebound = [name for name in bound if name not in created and name not in deleted]
        now, home = {**self._beside, **after}, after.get("__name__")
        clock = Clock(_COMPARING_SECONDS)
        sizes = {
            name: (self._extents.get(name, ()), words.measured(name, now[name]), lost.get(name, ""))
            for name in (*rebound, *sorted(in_place | lost.keys() - bound.keys()))
            if name in now and (is_users(name) or is_output(name))
        }
        changes = [
            words.changed(name, *each, differences(self._former(name), now[name], clock))
            for name, each in sizes.items()
        ]
        described = {name: words.changed(name, *each) for name, each in sizes.items()}
        settings = sorted({*(getattr(node.obj, "name", "random numbers") for node in around)})
        known = {id(node.obj) for node in walk.nodes.values()}
        watched = [
            node
            for node in _watched(self._namespace, [now for _, now in bound.values()], held)
            if id(node.obj) not in known
        ]
        return new_change(
            self._namespace,
            (
                words.line(created, deleted, changes, settings, names_all=names_all),
                words.outcome(created, deleted, changes, settings),
                Differences(
                    frozenset(created),
                    frozenset(deleted),
                    frozenset(rebound),
                    frozenset(described.keys() - bound.keys()),
                    settings,
                    {name: words.behind_verb(text) for name, text in described.items()},
                    {
                        name: words.is_imported(value, home)
                        for name, value in created.items()
                        if not words.is_called_new(value)
                    },
                ),
                self._known(),
            ),
            left_out | lost,
            (bound, [*held, *around], watched),
            partial(_watched, self._namespace),
        )


def take(
    namespace: MutableMapping[str, Any],
    code: str,
    budget: CheckpointBudget | None = None,
    *,
    transform: Callable[[str], str] = str,
    first: Collection[str] = (),
    beside: Mapping[str, ModuleType] | None = None,
) -> Checkpoint:
    """Take a snapshot of what code can change.

    Args:
        budget: Budget for the checkpoint.
        transform: Makes Python of what a notebook allows besides.
        first: Variables that the code is known to change; the budget is spent on them first.
        beside: Modules whose variables are remembered too, by name, as far as they can be.

    Returns:
        The checkpoint, to be closed when the code has run.
    """
    walk = Walk(namespace, budget or CheckpointBudget(), keep=True)
    before = {name: value for name, value in [*namespace.items()] if is_users(name)}
    names = names_in_source(code, transform)
    walk.reach(names)
    walk.go(first)
    left_out, held_beside = walk.left_out(), dict[str, Any]()
    if beside:
        held_beside = walk.go_beside(beside)
        reached = Reached(beside)
        reached.follow(names.mentioned, namespace)
        left_out |= walk.left_out_beside(reached.names)
    named, remembered = walk.reached | names.rebound, {key for key, place in walk.nodes if place == 0}
    extents = {
        name: words.measured(name, value) for name, value in before.items() if name in named or id(value) in remembered
    }
    settings = [Held(setting, outside.KIND, setting.get()) for setting in outside.settings()]
    for generator in outside.generators():
        keeper = kinds_of(class_of(generator)).keepers[0]
        settings.append(Held(generator, keeper, keeper.remember(generator)))
    held = {id(node.obj) for node in settings}
    for key in [key for key in walk.nodes if key[0] in held]:
        del walk.nodes[key]  # a variable names it too
    return Checkpoint(left_out, namespace, walk, before, extents, settings, held_beside)


def forecast(
    namespace: Mapping[str, Any],
    code: str,
    budget: CheckpointBudget | None = None,
    *,
    transform: Callable[[str], str] = str,
    first: Collection[str] = (),
) -> Mapping[str, str]:
    """List the variables that a checkpoint would leave out, without copying anything.

    Args:
        budget: Budget for the checkpoint.
        transform: Makes Python of what a notebook allows besides.

    Returns:
        Variables whose contents could not be taken back, with the reason.
    """
    walk = Walk(namespace, budget or CheckpointBudget(), keep=False)
    walk.reach(names_in_source(code, transform))
    walk.go(first)
    return walk.left_out()


def _watched(namespace: Mapping[str, Any], values: Iterable[Any], held: Iterable[Held]) -> list[Held]:
    """Snapshot new values and parts that an undo drops, to notice the user's changes to them."""
    walk = Walk(namespace, CheckpointBudget(_AFTER.seconds, _AFTER.room), keep=True)
    new = {id(value): value for value in values}
    names = {id(value): name for name, value in namespace.items() if id(value) in new and is_users(name)}
    for value in new.values():
        if id(value) in names:
            walk.add([names[id(value)]], value)
    for node in held:
        walk.add_new(node)
    walk.go_beneath()
    leading = walk.names_by_key([id(node.obj) for node in walk.nodes.values()])
    for node in walk.nodes.values():
        node.names = leading[id(node.obj)]
        node.seal = node.kept
    return [*walk.nodes.values()]
