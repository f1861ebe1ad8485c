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

import builtins
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count, islice
from types import FunctionType, GeneratorType, ModuleType
from typing import Any, cast

from indus_nb.kernel.undo import words
from indus_nb.kernel.undo.budget import CheckpointBudget, TooMuchError
from indus_nb.kernel.undo.change import Change, Differences, Held, new_change
from indus_nb.kernel.undo.differences import Clock, differences
from indus_nb.kernel.undo.found_once import is_found_once
from indus_nb.kernel.undo.keeper import ABSENT, Keeper, class_of
from indus_nb.kernel.undo.objects import outside
from indus_nb.kernel.undo.objects.builtin_kinds import is_users_class
from indus_nb.kernel.undo.objects.kinds import Kinds, kinds_of
from indus_nb.kernel.undo.objects.libraries import IndexKind, NotRestorableError, PandasKind, is_array, place_of
from indus_nb.kernel.undo.reach import Names, Reached, names_in, names_in_source
from indus_nb.kernel.values.extent import Extent

_FEW = 64
"""Number of parts of an object that are looked at without asking whether there is time."""
_LARGE = 1 << 20
"""Smallest copy whose time is measured, in bytes."""
_AFTER = CheckpointBudget(0.02, 32 << 20)
"""Budget for remembering new objects, so that the user's changes to them are noticed."""
_MOST_NEW = 10_000
"""Most parts of an object that is searched for new ones."""
_SHELLS = frozenset({"In", "Out", "exit", "quit", "open", "get_ipython"})
_OUTPUTS = ("Out", "_oh")
_COMPARING_SECONDS = 0.2
"""Time for finding out how values differ that are said to have changed."""
_BESIDE = CheckpointBudget(0.5, 64 << 20)
"""Budget for remembering the variables of modules."""
_UNDERSCORED = re.compile(r"__\w+__|_+|_i+|_i?\d+|_[dio]h|_exit_code")


def is_users(name: str) -> bool:
    """Return whether a name is one of the user's, and set by neither the shell nor Python."""
    return name not in _SHELLS and (name[:1] != "_" or _UNDERSCORED.fullmatch(name) is None)


def _is_output(name: str) -> bool:
    """Return whether the shell binds a name to what cells have displayed."""
    return name in _OUTPUTS or re.fullmatch(r"_+|_\d+", name) is not None


class _Walk:
    """Walk over the object graph that snapshots mutable objects.

    Attributes:
        nodes: Snapshots, by the identity of the object and the place within it.
    """

    def __init__(self, namespace: Mapping[str, Any], budget: CheckpointBudget, keep: bool) -> None:  # noqa: FBT001
        self.nodes: dict[tuple[int, int], Held] = {}
        self.reached: set[str] = set()
        self.everything = False
        self._namespace = namespace
        self._budget = budget
        self._keep = keep
        self._spaces = {id(namespace)}
        self._modules: set[Any] = set()
        self._beside: dict[str, Any] = {}
        self._seen: dict[int, Any] = {id(space): space for space in (namespace, vars(builtins))}
        self._roots: dict[int, set[str]] = {}
        self._holders: dict[int, list[int]] = {}
        self._beneath: list[tuple[int, Any]] = []
        self._problems: dict[int, tuple[Any, str]] = {}
        self._waiting: deque[str] = deque()
        budget.start()

    def reach(self, names: Names) -> None:
        """Mark the variables with these names as reached."""
        if names.everything:
            self.everything = True
        found = self._namespace if self.everything else names.names
        new = [name for name in found if name in self._namespace and name not in self.reached and is_users(name)]
        new += [name for name in names.names - self.reached if name in self._namespace and _is_output(name)]
        self.reached.update(new)
        self._waiting.extend(sorted(new))

    def go(self, first: Collection[str] = ()) -> None:
        """Snapshot all waiting variables, ``first`` before others and small ones before large ones."""
        ahead = {*first}
        while self._waiting:
            names = sorted(self._waiting, key=lambda name: (name not in ahead, _rough_size(self._namespace[name])))
            self._waiting.clear()
            for name in names:
                for value in self._values(name):
                    self.add([name], value)
        self.go_beneath()

    def _values(self, name: str) -> list[Any]:
        """Return the values behind a name: each of the outputs, as the shell adds others to them."""
        value = self._namespace[name]
        if name in _OUTPUTS and type(value) is dict:
            return [*cast("dict[Any, Any]", value).values()]
        return [value]

    def go_beside(self, modules: Mapping[str, ModuleType]) -> dict[str, Any]:
        """Snapshot the variables of modules as well, within the budget; return them by their full names."""
        self._budget = CheckpointBudget(_BESIDE.seconds, _BESIDE.room)
        self._budget.start()
        self._modules |= modules.keys()
        self._spaces |= {id(vars(module)) for module in modules.values()}
        self._beside = {
            f"{module}.{name}": value
            for module, held in modules.items()
            for name, value in [*vars(held).items()]
            if not name.startswith("__")
        }
        for name, value in sorted(self._beside.items(), key=lambda each: _rough_size(each[1])):
            self.add([name], value)
        self.go()  # to what functions of the user's that modules hold reach
        return self._beside

    def left_out_beside(self, reached: Collection[str]) -> dict[str, str]:
        """Return the reached variables of modules that are not in the snapshot, or only in part."""
        return {
            name: why
            for key, (_, why) in self._problems.items()
            for name in self.names_of(key) & self._beside.keys()
            if name in reached
        }

    def add(self, names: Iterable[str], value: Any) -> None:
        """Snapshot the object graph below a variable, or a part of one; all of it, or nothing."""
        self._roots.setdefault(id(value), set()).update(names)
        if failure := self._attempt(value):
            self._problems[id(value)] = value, failure

    def add_new(self, node: Held) -> None:
        """Snapshot the new parts of a changed object."""
        now, then = (
            {
                **{id(part): part for part in islice(node.keeper.parts(state), _MOST_NEW)},
                **{place_of(part): part for part in node.keeper.beneath(state)},
            }
            for state in (node.seal, node.kept)
        )
        if max(len(now), len(then)) < _MOST_NEW:
            for key in now.keys() - then.keys():
                if self._kinds(now[key]).keepers:
                    self.add(node.names, now[key])

    def go_beneath(self) -> None:
        """Snapshot copy-on-write buffers, small ones first, as far as there is room.

        Arrays of numpy below frames can be written to by those alone who evade what pandas hands out, so none is named
        for its size. The others are handed out as they are.
        """
        copied = self._keep and self._budget.below_frames
        beneath = [each for each in self._beneath if copied or not is_array(each[1])]
        self._beneath.clear()
        for holder, value in sorted(beneath, key=lambda each: int(getattr(each[1], "nbytes", 0))):
            failure = self._attempt(value)
            if failure and not is_array(value):
                self._problems[holder] = self._seen[holder], failure

    def left_out(self) -> dict[str, str]:
        """Return the variables that are not in the snapshot, or only in part, by all their names, and why."""
        found: dict[str, str] = {}
        for name, value in [*self._namespace.items()] if self._problems else ():
            if id(value) in self._problems and is_users(name):
                found[name] = self._problems[id(value)][1]
        for key, (obj, why) in self._problems.items():
            for name in () if self._is_own_counter(obj) else self.names_of(key):
                found.setdefault(name, why)
        return found

    def _is_own_counter(self, obj: Any) -> bool:
        """Return whether an object is a counter of a library's object, used for identity only."""
        above = [
            self._seen.get(key) for holder in self._holders.get(id(obj), ()) for key in self._holders.get(holder, ())
        ]
        return type(obj) is count and bool(above) and not any(_is_users_own(each) for each in above)

    def _attempt(self, value: Any) -> str:
        """Snapshot the object graph below a value; or nothing, and return why."""
        room, seen, nodes, beneath = self._budget.room, list[int](), list[tuple[int, int]](), len(self._beneath)
        try:
            self._follow(value, seen, nodes)
        except Exception as error:  # noqa: BLE001 - too large, not restorable, or changed by another thread meanwhile
            self._budget.room = room
            del self._beneath[beneath:]
            for key in nodes:
                del self.nodes[key]
            for key in seen:
                del self._seen[key]
            known = isinstance(error, TooMuchError | NotRestorableError)
            return str(error) if known else type(error).__name__
        return ""

    def _follow(self, value: Any, seen: list[int], nodes: list[tuple[int, int]]) -> None:
        waiting = [value]
        while waiting:
            obj = waiting.pop()
            key = id(obj)
            if key in self._seen:
                continue
            kinds = self._kinds(obj)
            if kinds.problem:
                self._problems[key] = obj, kinds.problem
            if not kinds.keepers:
                continue
            self._seen[key] = obj
            seen.append(key)
            if len(seen) > _FEW and not len(seen) % _FEW:
                self._budget.objects(_FEW)
            self._read_code(obj)
            for place, keeper in enumerate(kinds.keepers):
                waiting += self._remember(obj, place, keeper, nodes)

    def _remember(self, obj: Any, place: int, keeper: Keeper, nodes: list[tuple[int, int]]) -> list[Any]:
        """Snapshot one place of an object, and return the objects in it."""
        key = id(obj)
        many = keeper.elements(obj)
        if many > _FEW:
            self._budget.elements(many)
        began = time.thread_time()
        state = self._state(obj, keeper)
        if keeper.holds_state:
            self.nodes[key, place] = Held(obj, keeper, state)
            nodes.append((key, place))
        leading = self._leading(key, keeper.parts(state), is_accounted=many > _FEW)
        for part in keeper.beneath(state):
            self._holders.setdefault(id(part), []).append(key)
            self._beneath.append((key, part))
        if many > _LARGE // 8 or (self._keep and keeper.size(obj) >= _LARGE):
            self._budget.grant(time.thread_time() - began)
        return leading

    def _state(self, obj: Any, keeper: Keeper) -> Any:
        if not keeper.holds_state:
            return obj
        self._budget.copy(keeper.size(obj))
        return keeper.remember(obj) if self._keep else keeper.outline(obj)

    def _leading(self, holder: int, parts: Iterable[Any], *, is_accounted: bool) -> list[Any]:
        """List the parts that can change, or lead to mutable objects."""
        listed = parts if isinstance(parts, list | tuple) else [*parts]
        if len(listed) > _FEW and not is_accounted:
            self._budget.parts(len(listed))
        types = {kind for kind in {*map(type, listed)} if kinds_of(kind) != _NOTHING}
        if not types:
            return []
        leading = [part for part in listed if type(part) in types]
        if len(leading) > _FEW:
            self._budget.objects(len(leading))
        for part in leading:
            self._holders.setdefault(id(part), []).append(holder)
        return leading

    def _kinds(self, obj: Any) -> Kinds:
        kinds = kinds_of(class_of(obj))
        if type(obj) is FunctionType:
            return kinds if id(obj.__globals__) in self._spaces or obj.__closure__ else _NOTHING
        if issubclass(type(obj), type):
            return kinds if is_users_class(obj) or _module_of(obj) in self._modules else _NOTHING
        if issubclass(type(obj), ModuleType):
            name = ModuleType.__getattribute__(obj, "__name__")
            return _NOTHING if sys.modules.get(name) is obj else kinds
        return kinds

    def _read_code(self, obj: Any) -> None:
        """Follow the names in a function of the user's, or in a generator that has not ended."""
        if type(obj) is FunctionType and obj.__globals__ is self._namespace:
            self.reach(names_in(obj.__code__))
        elif type(obj) is GeneratorType and obj.gi_frame is not None and obj.gi_frame.f_globals is self._namespace:
            self.reach(names_in(obj.gi_code))

    def holders_of(self, obj: Any) -> list[Any]:
        """Return the remembered objects that hold an object, and the namespace if a variable is bound to it."""
        held = [self._seen[key] for key in self._holders.get(id(obj), ()) if key in self._seen]
        return [*held, self._namespace] if id(obj) in self._roots else held

    def names_of(self, key: int) -> frozenset[str]:
        """Return the variables that lead to an object."""
        return frozenset(name for at in self._above(key) for name in self._roots.get(at, ()))

    def frames_of(self, key: int) -> Iterator[Held]:
        """Find the frames and labels that an array belongs to."""
        held = (self.nodes.get((at, place)) for at in self._above(key) for place in (0, 1))
        return (node for node in held if node is not None and isinstance(node.keeper, PandasKind | IndexKind))

    def _above(self, key: int) -> set[int]:
        """Return the ids of all objects that lead to an object, and its own."""
        seen, waiting = {key}, [key]
        while waiting:
            more = {*self._holders.get(waiting.pop(), ())} - seen
            seen |= more
            waiting += more
        return seen


_NOTHING = Kinds(())


def _is_users_own(obj: Any) -> bool:
    kind = class_of(obj)
    return kind.__module__ == "builtins" or is_users_class(kind)


def _module_of(kind: type[Any]) -> Any:
    return type.__dict__["__module__"].__get__(kind)


def _rough_size(value: Any) -> int:
    size = getattr(class_of(value), "nbytes", None)
    if size is not None and type(value).__module__.partition(".")[0] == "numpy":
        return int(value.nbytes)
    return 8 * len(value) if type(value) in (list, dict, set, tuple, bytearray) else 64


@dataclass
class Checkpoint:
    """Snapshot of a namespace before code runs.

    Attributes:
        left_out: Variables that the code reaches and whose contents cannot be taken back, or not all, with the reason;
            what they are bound to can.
    """

    left_out: Mapping[str, str]
    _namespace: MutableMapping[str, Any] = field(repr=False)
    _walk: _Walk = field(repr=False)
    _before: dict[str, Any] = field(repr=False)
    _extents: dict[str, Extent] = field(repr=False)
    _settings: list[Held] = field(repr=False)
    _beside: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

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

    def _former(self, name: str) -> Any:
        """Return a variable's value as it was, as far as it is remembered."""
        value = self._before.get(name, self._beside.get(name, ABSENT))
        node = self._walk.nodes.get((id(value), 0))
        try:
            found = ABSENT if node is None else node.keeper.former(node.obj, node.kept)
        except Exception:  # noqa: BLE001 - of a library in a version that keeps it in another way
            return value
        return value if found is ABSENT else found

    def close(self) -> Change:
        """Find the changes since; the checkpoint is of no use afterwards."""
        walk, before, after = self._walk, self._before, self._namespace
        bound = {name: (value, ABSENT) for name, value in before.items() if name not in after} | {
            name: (before.get(name, ABSENT), value)
            for name, value in [*after.items()]
            if before.get(name, ABSENT) is not value and is_users(name)
        }
        left_out, lost = dict(self.left_out), dict[str, str]()
        changed: dict[int, Held] = {}
        for (key, _), node in walk.nodes.items():
            try:
                if node.keeper.same(node.obj, node.kept):
                    continue
                if why := node.keeper.lacks(node.obj, node.kept):
                    lost |= dict.fromkeys(walk.names_of(key) | self._direct.get(key, set()), why)
                    continue
                # A frame may have its values in another array by the time when this one is put back, and labels
                # know where they found what.
                for each in (node, *walk.frames_of(key)):
                    each.names = walk.names_of(id(each.obj)) | self._direct.get(id(each.obj), set())
                    each.seal = each.keeper.seal(each.obj)
                    changed[id(each)] = each
            except Exception as error:  # noqa: BLE001 - an object in a state that cannot be read
                left_out |= dict.fromkeys(walk.names_of(key), type(error).__name__)
        held = [*changed.values()]
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
        now = {**self._beside, **after}
        clock = Clock(_COMPARING_SECONDS)
        sizes = {
            name: (self._extents.get(name, ()), words.measured(name, now[name]), lost.get(name, ""))
            for name in (*rebound, *sorted(in_place | lost.keys() - bound.keys()))
            if name in now and (is_users(name) or _is_output(name))
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
                words.line(created, deleted, changes, settings),
                words.outcome(created, deleted, changes, settings),
                Differences(
                    frozenset(created),
                    frozenset(deleted),
                    frozenset(rebound),
                    frozenset(described.keys() - bound.keys()),
                    settings,
                    {name: words.behind_verb(text) for name, text in described.items()},
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
    walk = _Walk(namespace, budget or CheckpointBudget(), keep=True)
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
    walk = _Walk(namespace, budget or CheckpointBudget(), keep=False)
    walk.reach(names_in_source(code, transform))
    walk.go(first)
    return walk.left_out()


def _watched(namespace: Mapping[str, Any], values: Iterable[Any], held: Iterable[Held]) -> list[Held]:
    """Snapshot new values and parts that an undo drops, to notice the user's changes to them."""
    walk = _Walk(namespace, CheckpointBudget(_AFTER.seconds, _AFTER.room), keep=True)
    new = {id(value): value for value in values}
    names = {id(value): name for name, value in namespace.items() if id(value) in new and is_users(name)}
    for value in new.values():
        if id(value) in names:
            walk.add([names[id(value)]], value)
    for node in held:
        walk.add_new(node)
    walk.go_beneath()
    for node in walk.nodes.values():
        node.names = walk.names_of(id(node.obj))
        node.seal = node.kept
    return [*walk.nodes.values()]
