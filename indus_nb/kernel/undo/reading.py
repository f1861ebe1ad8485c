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
for a number or a text that is the same; so does one whose object, or one that this leads to, holds something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from indus_nb.kernel.undo.budget import CheckpointBudget
from indus_nb.kernel.undo.change import Held
from indus_nb.kernel.undo.found_once import is_found_once
from indus_nb.kernel.undo.keeper import ABSENT
from indus_nb.kernel.undo.reach import names_in_source
from indus_nb.kernel.undo.walk import Walk

_ATOMS: frozenset[type[Any]] = frozenset({bool, int, float, complex, str, bytes, type(None)})


@dataclass(frozen=True)
class Reading:
    """Variables that code reads, as they were.

    Attributes:
        names: The variables, also those that functions among them read.
        left_out: Those whose contents could not be remembered, or not all, and why: of these only the binding counts.
    """

    names: frozenset[str]
    left_out: Mapping[str, str]
    _namespace: Mapping[str, Any] = field(repr=False)
    _bound: Mapping[str, Any] = field(repr=False)
    _walk: Walk = field(repr=False)

    def differing(self) -> frozenset[str]:
        """Return the variables that are not as they were; it may be asked at any time, on the main thread."""
        walk = self._walk
        names = {name for name, was in self._bound.items() if not _is_same(was, self._namespace.get(name, ABSENT))}
        for (key, _), node in walk.nodes.items():
            if not (_is_as_it_was(node) or is_found_once(node, walk.holders_of)):
                names |= walk.names_of(key)
        return self.names & names


def read(namespace: Mapping[str, Any], code: str, budget: CheckpointBudget | None = None) -> Reading:
    """Remember what code reads.

    Args:
        code: Python, such as an expression.
        budget: Budget for what has to be copied.
    """
    walk = Walk(namespace, budget or CheckpointBudget(), keep=True)
    walk.reach(names_in_source(code, str))
    walk.go()
    names = frozenset(walk.reached)
    left_out = {name: why for name, why in walk.left_out().items() if name in names}
    return Reading(names, left_out, namespace, {name: namespace[name] for name in names}, walk)


def _is_same(was: Any, now: Any) -> bool:
    if was is now:
        return True
    return type(was) is type(now) and type(was) in _ATOMS and (was == now or (was != was and now != now))  # noqa: PLR0124 - nan


def _is_as_it_was(node: Held) -> bool:
    try:
        return node.keeper.sealed(node.obj, node.kept)
    except Exception:  # noqa: BLE001 - an object in a state that cannot be read
        return False
