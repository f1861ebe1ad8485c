"""What code reads: its variables remembered, so that it is seen later which of them differ.

>>> namespace = {"rows": [1, 2], "other": 3}
>>> reading = read(namespace, "sum(rows)")
>>> sorted(reading.names), sorted(reading.differing())
(['rows'], [])
>>> namespace["rows"].append(3)
>>> sorted(reading.differing())
['rows']
>>> _ = namespace["rows"].pop()
>>> sorted(reading.differing())
[]

No code of theirs runs, neither now nor when they are compared. A variable that is bound to another object differs, but
for a number or a text that is the same; so does one whose object, or one that this leads to, holds something else. A
frame of which columns alone are read differs where one of these or the labels of the rows do, whatever frame it is.
"""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from indus_nb.base.installed import is_installed
from indus_nb.kernel.undo.budget import CheckpointBudget
from indus_nb.kernel.undo.change import Held
from indus_nb.kernel.undo.columns_read import ColumnsRead, columns_in, is_same_atom
from indus_nb.kernel.undo.found_once import is_found_once
from indus_nb.kernel.undo.keeper import ABSENT
from indus_nb.kernel.undo.objects.libraries import PandasKind, PolarsKind, copies_on_write
from indus_nb.kernel.undo.reach import names_in_source
from indus_nb.kernel.undo.walk import Walk, is_users

_FILES, _ENVIRONMENT = frozenset({"open"}), frozenset({"environ", "getenv"})
"""Variables and attributes by which code reads what no variable holds; methods that read files begin with ``read_``."""
_BUILTINS = frozenset(vars(builtins))
_COPIED = 200
"""Bytes that a snapshot takes besides its content."""
_GONE: Any = object()
"""Stands for an object that is gone."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Variables that code reads, as they were.

    What they are bound to is held weakly where Python allows it: it differs once it is gone, and what was remembered of
    it goes with it.

    Attributes:
        names: The variables, also those that functions among them read.
        left_out: Those whose contents could not be remembered, or not all, and what is read past variables, with the
            reason: of variables only the binding counts.
    """

    names: frozenset[str]
    left_out: Mapping[str, str]
    _weight: int
    _code: str = field(repr=False)
    _within: frozenset[str] = field(repr=False)
    _namespace: Mapping[str, Any] = field(repr=False)
    _bound: Mapping[str, Callable[[], Any]] = field(repr=False)
    _walk: Walk = field(repr=False)
    _columns: Mapping[str, ColumnsRead] = field(repr=False)

    @property
    def weight(self) -> int:
        """Return roughly how many bytes it keeps from being freed; what frames share with it counts for nothing."""
        return self._weight + sum(columns.weight for columns in self._columns.values())

    def differing(self) -> frozenset[str]:
        """Return the variables that are not as they were; it may be asked at any time, on the main thread."""
        return self.concerning(self._code, self.changed())

    def concerning(self, code: str, changed: frozenset[str]) -> frozenset[str]:
        """Return what of that which has changed concerns code that reads the same variables.

        Args:
            changed: Result of ``changed``.
        """
        hidden = changed & _BUILTINS - self.names - self._within
        return changed - hidden | (hidden & names_in_source(code, str).names if hidden else hidden)

    def changed(self) -> frozenset[str]:
        """Return the variables that are not as they were, and all that hide a name of Python's since."""
        walk = self._walk
        now = self._namespace
        names = {name for name, was in self._bound.items() if not is_same_atom(was(), now.get(name, ABSENT))}
        names |= {name for name, columns in self._columns.items() if not _has(now.get(name, ABSENT), columns)}
        changed = [key for (key, _), node in walk.nodes.items() if not _holds(node, walk.object_at(key), walk)]
        return frozenset((self._bound.keys() | self._columns.keys()) & (names | walk.names_of(*changed)))


def read(namespace: Mapping[str, Any], code: str, budget: CheckpointBudget | None = None) -> Reading:
    """Remember what code reads.

    Args:
        code: Python, such as an expression.
        budget: Budget for what has to be copied; its time begins with the first reading that uses it.
    """
    budget = budget or CheckpointBudget()
    walk = Walk(namespace, budget, keep=True)
    named = names_in_source(code, str)
    columns = {} if named.everything else _columns_read(namespace, code, named.names, budget)
    walk.reach(named._replace(names=named.names - columns.keys()))
    own = named.names
    walk.named.clear()
    walk.go()
    columns = {name: held for name, held in columns.items() if name not in walk.reached}  # not by functions
    within, names = frozenset(walk.named), frozenset(walk.reached | columns.keys())
    left_out = {name: why for name, why in walk.left_out().items() if name in names}
    left_out |= {name: "of a module of yours" for name in names if _is_of_own_module(namespace.get(name), namespace)}
    left_out |= dict.fromkeys(outside_in(own | within, walk.mentioned), "read past variables")
    weight = sum(_COPIED + node.keeper.weight(node.kept) * (not _is_shared(node)) for node in walk.nodes.values())
    walk.hold_weakly()
    absent = {name for name in own | within | _BUILTINS if name not in namespace and is_users(name)}
    bound = {name: _link(namespace.get(name, ABSENT)) for name in (names - columns.keys()) | absent}
    return Reading(names, left_out, weight, code, within, namespace, bound, walk, columns)


def _columns_read(
    namespace: Mapping[str, Any], code: str, names: Collection[str], budget: CheckpointBudget
) -> dict[str, ColumnsRead]:
    """Remember the frames of which code reads columns alone, as far as that is possible."""
    found: dict[str, ColumnsRead] = {}
    for name, uses in columns_in(namespace, code).items():
        with suppress(Exception):  # what is too much, or in a state that cannot be read, is remembered otherwise
            if name in names and is_users(name):
                found[name] = ColumnsRead(namespace[name], uses, budget)
    return found


def _has(frame: Any, columns: ColumnsRead) -> bool:
    try:
        return columns.is_in(frame)
    except Exception:  # noqa: BLE001 - a frame in a state that cannot be read
        return False


def outside_in(named: Collection[str], mentioned: Collection[str]) -> frozenset[str]:
    """Return the names in code by which it reads files or the environment, as far as they are known by name."""
    read_files = {name for name in mentioned if name.startswith("read_")}
    return frozenset(read_files | _ENVIRONMENT.intersection(mentioned) | _FILES.intersection(named))


def _is_shared(node: Held) -> bool:
    """Return whether an object's snapshot shares its buffers until one of both is written to."""
    return isinstance(node.keeper, PolarsKind) or (isinstance(node.keeper, PandasKind) and copies_on_write())


def _is_of_own_module(value: Any, namespace: Mapping[str, Any]) -> bool:
    """Return whether a value is a module of the user's, or a function of one, whose variables no reading follows."""
    if issubclass(type(value), ModuleType):
        return not is_installed(ModuleType.__getattribute__(value, "__name__"))
    is_other = type(value) is FunctionType and value.__globals__ is not namespace
    return is_other and not is_installed(str(value.__globals__.get("__name__")))


def _link(value: Any) -> Callable[[], Any]:
    """Return what returns a value, and something else once it is gone; weakly where that is possible."""
    try:
        weak = weakref.ref(value)
    except TypeError:
        return lambda: value
    return lambda: _GONE if (found := weak()) is None else found


def _holds(node: Held, obj: Any, walk: Walk) -> bool:
    """Return whether an object is as it was remembered, but for what is found out once."""
    held = Held(node.obj if obj is None else obj, node.keeper, node.kept)
    try:
        return held.obj is not None and (
            held.keeper.sealed(held.obj, held.kept) or is_found_once(held, walk.holders_of)
        )
    except Exception:  # noqa: BLE001 - an object in a state that cannot be read
        return False
