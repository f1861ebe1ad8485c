"""Walk over the objects that code can reach, which remembers each of them that can change.

It names the variables that lead to an object, and those that it could not remember, with the reason.
"""

from __future__ import annotations

import builtins
import re
import sys
import time
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from types import FunctionType, GeneratorType, ModuleType
from typing import Any, cast

from indus_nb.kernel.undo.budget import CheckpointBudget, TooMuchError
from indus_nb.kernel.undo.change import Held
from indus_nb.kernel.undo.keeper import Keeper, class_of
from indus_nb.kernel.undo.objects.builtin_kinds import is_users_class
from indus_nb.kernel.undo.objects.kinds import Kinds, kinds_of
from indus_nb.kernel.undo.objects.libraries import IndexKind, NotRestorableError, PandasKind, is_array, place_of
from indus_nb.kernel.undo.reach import Names, names_in

_FEW = 64
"""Number of parts of an object that are looked at without asking whether there is time."""
_LARGE = 1 << 20
"""Smallest copy whose time is measured, in bytes."""
_MOST_NEW = 10_000
"""Most parts of an object that is searched for new ones."""
_SHELLS = frozenset({"In", "Out", "exit", "quit", "open", "get_ipython"})
_OUTPUTS = ("Out", "_oh")
_BESIDE = CheckpointBudget(0.5, 64 << 20)
"""Budget for remembering the variables of modules."""
_UNDERSCORED = re.compile(r"__\w+__|_+|_i+|_i?\d+|_[dio]h|_exit_code")


def is_users(name: str) -> bool:
    """Return whether a name is one of the user's, and set by neither the shell nor Python."""
    return name not in _SHELLS and (name[:1] != "_" or _UNDERSCORED.fullmatch(name) is None)


def can_change_inside(value: Any) -> bool:
    """Return whether code of the user's may change what is inside of a value, and so what a variable holds.

    What modules and objects of ours hold is not counted as the user's.
    """
    kind = class_of(value)
    if issubclass(type(value), ModuleType) or str(_module_of(kind)).partition(".")[0] == __name__.partition(".")[0]:
        return False
    kinds = kinds_of(kind)
    return bool(kinds.keepers or kinds.problem)


def is_output(name: str) -> bool:
    """Return whether the shell binds a name to what cells have displayed."""
    return name in _OUTPUTS or re.fullmatch(r"_+|_\d+", name) is not None


class Walk:
    """Walk over the object graph that snapshots mutable objects.

    Attributes:
        nodes: Snapshots, by the identity of the object and the place within it.
        named: Names in the code, of variables or not.
        mentioned: The same, and names of attributes.
    """

    def __init__(self, namespace: Mapping[str, Any], budget: CheckpointBudget, keep: bool) -> None:  # noqa: FBT001
        self.nodes: dict[tuple[int, int], Held] = {}
        self.reached: set[str] = set()
        self.named: set[str] = set()
        self.mentioned: set[str] = set()
        self.rebound: set[str] = set()
        self.everything: bool = False
        self._namespace = namespace
        self._budget = budget
        self._keep = keep
        self._spaces = {id(namespace)}
        self._modules: set[Any] = set()
        self._beside: dict[str, Any] = {}
        self._weak: dict[int, weakref.ref[Any]] = {}
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
        new += [name for name in names.names - self.reached if name in self._namespace and is_output(name)]
        self.named |= names.names
        self.mentioned |= names.mentioned
        self.rebound |= names.rebound
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
        leading = self.names_by_key(self._problems)
        return {
            name: why
            for key, (_, why) in self._problems.items()
            for name in leading[key] & self._beside.keys()
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
        leading = self.names_by_key(self._problems)
        for key, (obj, why) in self._problems.items():
            for name in () if self._is_own_counter(obj) else leading[key]:
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
        held = [each for key in self._holders.get(id(obj), ()) if (each := self.object_at(key)) is not None]
        return [*held, self._namespace] if id(obj) in self._roots else held

    def object_at(self, key: int) -> Any:
        """Return a remembered object by its id; ``None`` once it is gone."""
        weak = self._weak.get(key)
        return self._seen.get(key) if weak is None else weak()

    def hold_weakly(self) -> None:
        """Hold what variables are bound to weakly from now on, where that is possible.

        With such an object goes what was remembered of it, and of all to which it alone leads.
        """
        below: dict[frozenset[str], list[tuple[int, Held]]] = {}
        leading = self.names_by_key([key for key, _ in self.nodes])
        for (key, _), node in self.nodes.items():
            below.setdefault(leading[key], []).append((key, node))
        for key, names in self._roots.items():
            self._problems.pop(key, None)
            held, obj = below.get(frozenset(names), []), self._seen.get(key)
            try:
                self._weak[key] = weakref.ref(obj, _Release(self._seen, held))
            except TypeError:
                continue
            del self._seen[key]
            for node in (node for at, node in held if at == key):
                node.obj = None

    def names_of(self, *keys: int) -> frozenset[str]:
        """Return the variables that lead to any of some objects."""
        return frozenset(name for at in self._above(*keys) for name in self._roots.get(at, ()))

    def names_by_key(self, keys: Iterable[int]) -> Mapping[int, frozenset[str]]:
        """Return the variables that lead to each of some objects: of objects in a ring the same ones."""
        names: dict[int, frozenset[str]] = {}
        number: dict[int, int] = {}
        path: list[int] = []
        ring_starts: list[int] = []
        for first in keys:
            waiting = [] if first in number else [first]
            climbing: list[tuple[int, Iterator[int]]] = []
            while waiting or climbing:
                if waiting:
                    key = waiting.pop()
                    number[key] = len(number)
                    path.append(key)
                    ring_starts.append(number[key])
                    climbing.append((key, iter(self._holders.get(key, ()))))
                key, holders = climbing[-1]
                for holder in holders:
                    if holder not in number:
                        waiting.append(holder)
                        break
                    while holder not in names and ring_starts[-1] > number[holder]:
                        ring_starts.pop()
                else:
                    climbing.pop()
                    if ring_starts[-1] == number[key]:
                        ring_starts.pop()
                        ring = [path.pop()]
                        while ring[-1] != key:
                            ring.append(path.pop())
                        names.update(dict.fromkeys(ring, self._leading_to(ring, names)))
        return names

    def _leading_to(self, ring: Sequence[int], names: Mapping[int, frozenset[str]]) -> frozenset[str]:
        above = {names[holder] for key in ring for holder in self._holders.get(key, ()) if holder in names}
        return frozenset[str]().union(*above, *(self._roots.get(key, ()) for key in ring))

    def frames_of(self, *keys: int) -> Iterator[Held]:
        """Find the frames and labels that any of some arrays belongs to."""
        held = (self.nodes.get((at, place)) for at in self._above(*keys) for place in (0, 1))
        return (node for node in held if node is not None and isinstance(node.keeper, PandasKind | IndexKind))

    def _above(self, *keys: int) -> set[int]:
        """Return the ids of all objects that lead to any of some objects, and their own."""
        seen, waiting = {*keys}, [*keys]
        while waiting:
            more = {*self._holders.get(waiting.pop(), ())} - seen
            seen |= more
            waiting += more
        return seen


class _Release:
    """Release of what was remembered below an object that is gone; refers to no walk, so that there is no ring."""

    def __init__(self, seen: dict[int, Any], held: Sequence[tuple[int, Held]]) -> None:
        self._seen = seen
        self._held = held

    def __call__(self, _gone: object) -> None:
        for key, node in self._held:
            self._seen.pop(key, None)
            node.obj = node.kept = None


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
