"""What code has read: which of it differs after others ran, and that none does once they are taken back."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from indus_nb.kernel.undo import CheckpointBudget, read, take

FRAMES = ("f0", "f1", "f2", "f3")
READS = {
    "{}.a.mean()": FRAMES,
    "len({})": (*FRAMES, "rows", "grid"),
    "{}[{}.b > 2].a.sum()": FRAMES,
    "{}.describe()": FRAMES,
    "list({}.columns)": FRAMES,
    "sum({})": ("rows",),
    "{}.sum()": ("grid",),
    "n + {}": ("n",),
    "total()": (),
    "{}.a.max()": ("alias",),
    "box.value": (),
    "f0.a.sum() - alias.a.sum()": (),
    "{}.num_addresses": ("net",),
}
"""Expressions, and the variables that may stand in them."""
ALSO = {
    "total()": {"total", "f1", "n"},
    "box.value": {"box"},
    "f0.a.sum() - alias.a.sum()": {"f0", "alias"},
}
IN_PLACE = {
    "{}['a'] = {}.a + 1": FRAMES,
    "{}.loc[0, 'b'] = 9": FRAMES,
    "{}['new'] = 1": FRAMES,
    "rows.append(1)": ("rows",),
    "rows[0] = -1": ("rows",),
    "grid[0, 0] += 1": ("grid",),
    "box.value.append(3)": ("box",),
    "net.purpose = 'tests'": ("net",),
}
"""Statements that change an object, and what they may be about."""
REBINDING = {
    "{0} = {0}.copy()": FRAMES,
    "n = n + 1": ("n",),
    "rows = [*rows]": ("rows",),
    "total = lambda: f1.a.sum()": ("total",),
    "box = Box()": ("box",),
    "net = ip_network('10.0.0.0/28')": ("net",),
}
HARMLESS = (
    "other = 1",
    "f0.a.mean()",
    "f1.describe()",
    "n = n + 0",
    "x = f2.head()",
    "grid.sum()",
    "f3.index.is_unique",
    "net.broadcast_address",  # it keeps this in an attribute
)
MAKES = """
from ipaddress import ip_network
class Box:
    def __init__(self): self.value = [1, 2]
def total(): return f1.a.sum() + n
rows, n, box, net = [1, 2, 3], 1000, Box(), ip_network("10.0.0.0/30")
"""


def notebook() -> dict[str, Any]:
    """Variables as the cells of a notebook make them."""
    namespace: dict[str, Any] = {"__name__": "__main__", "pd": pd}
    for name in FRAMES:
        namespace[name] = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1, 5, 3], "c": ["x", "y", "z"]})
    namespace["grid"], namespace["alias"] = np.arange(6.0).reshape(2, 3), namespace["f0"]
    exec(MAKES, namespace)
    return namespace


def chosen(draw: random.Random, table: dict[str, tuple[str, ...]]) -> tuple[str, set[str]]:
    """A line of a table with a variable in it, and that variable."""
    template, names = draw.choice([*table.items()])
    name = draw.choice(names) if names else draw.choice(FRAMES)
    filled = template.replace("{0}", name).replace("{}", name)
    return filled, {name} if names or "{}" in template else set()


def changed_by(draw: random.Random) -> tuple[str, set[str]]:
    """A later cell, and the variables that differ afterwards."""
    kind = draw.randrange(3)
    if kind == 0:
        return draw.choice(HARMLESS), set()
    code, names = chosen(draw, IN_PLACE if kind == 1 else REBINDING)
    return code, names | ({"alias"} if names == {"f0"} and kind == 1 else set())


@pytest.mark.parametrize("part", range(4))
def test_exactly_what_read_a_changed_variable_differs_and_each_undo_takes_that_back(part: int) -> None:
    for seed in range(part * 250, part * 250 + 250):
        draw = random.Random(seed)
        namespace = notebook()
        claims: list[tuple[str, set[str], Any]] = []
        for _ in range(draw.randint(1, 3)):  # answers
            for _ in range(draw.randint(1, 4)):
                expression, names = chosen(draw, READS)
                names |= ALSO.get(expression, set())
                reading = read(namespace, expression)
                assert reading.names == names, (seed, expression)
                assert not reading.left_out
                eval(expression, namespace)  # it fills caches
                claims.append((expression, names, reading))
        changes = []
        differing: list[set[str]] = [set()]  # after each cell
        for _ in range(draw.randint(1, 4)):
            code, names = changed_by(draw)
            if "alias" in names and namespace["alias"] is not namespace["f0"]:
                names = names - {"alias"}
            checkpoint = take(namespace, code)
            try:
                exec(code, namespace)
            except Exception as error:
                raise AssertionError((seed, code)) from error
            changes.append(checkpoint.close())
            differing.append(differing[-1] | names)
        context = (seed, [change.summary for change in changes])
        while True:
            for expression, names, reading in claims:
                assert reading.differing() == names & differing[-1], (context, expression, len(changes))
            if not changes:
                break
            changes.pop().undo()
            differing.pop()


def test_a_value_that_cannot_be_remembered_is_named() -> None:
    namespace = {"large": np.zeros(1 << 20), "n": 1}
    reading = read(namespace, "large.sum() + n", CheckpointBudget(room=1 << 20))
    assert [*reading.left_out] == ["large"]
    large = namespace["large"]
    large[0] = 1
    assert reading.differing() == frozenset()
    namespace["large"] = large.copy()
    assert reading.differing() == {"large"}


def test_no_code_of_the_users_runs() -> None:
    class Odd:
        def __init__(self) -> None:
            self.held = [1]

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None

        def __getattr__(self, name: str) -> Any:
            raise AssertionError

    namespace: dict[str, Any] = {"odd": Odd(), "value": float("nan")}
    reading = read(namespace, "odd.held, value")
    namespace["value"] = float("nan")
    assert reading.differing() == frozenset()
    namespace["odd"].held.append(2)
    assert reading.differing() == {"odd"}
    namespace["odd"] = Odd()
    del namespace["value"]
    assert reading.differing() == {"odd", "value"}
