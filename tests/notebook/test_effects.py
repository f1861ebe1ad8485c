"""Which of the user's variables code overwrites, deletes or changes."""

from __future__ import annotations

import collections
import sys
from collections.abc import Sequence

import pandas as pd
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from indus_nb.notebook.kernel.effects import Touched, touched

NAMESPACE = {
    "df": pd.DataFrame({"x": [1]}),
    "x": 1,
    "y": 2,
    "items": [1],
    "table": {"a": 1},
    "queue": collections.deque([1]),
    "pd": pd,
    "e": 3,
    "Path": 4,
}


def names(code: str) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    found = touched(code, NAMESPACE, TransformerManager().transform_cell)
    return found.overwritten, found.deleted, found.changed


@pytest.mark.parametrize(
    ("code", "overwritten"),
    [
        ("x = 1", ["x"]),
        ("new = 1", []),
        ("x += 1", ["x"]),
        ("x: int = 1", ["x"]),
        ("a, (x, *y) = 1, (2, 3)", ["x", "y"]),
        ("for x in range(3): pass", ["x"]),
        ("async def f():\n    x = 1", []),
        ("with open('f') as x, g() as [y]: pass", ["x", "y"]),
        ("if (x := 1): pass", ["x"]),
        ("[y := 1 for x in range(3)]", ["y"]),
        ("print({x for x in range(3)}, lambda x: x)", []),
        ("def x(): pass", ["x"]),
        ("class x:\n    y = 1", ["x"]),
        ("def f():\n    global x\n    x = 1", ["x"]),
        ("if True:\n    try:\n        x = 1\n    finally:\n        y = 1", ["x", "y"]),
        ("match 1:\n    case {'a': x, **y}: pass", ["x", "y"]),
        ("match 1:\n    case [*items] as x: pass", ["items", "x"]),
        ("import x", ["x"]),
        ("import os.path as x", ["x"]),
        ("from pathlib import Path", ["Path"]),
        ("import pandas as pd", []),
        ("import pandas", []),
        ("globals()['x'] = 1", ["x"]),
        ("x = !ls", ["x"]),
        ("%time x = 1", ["x"]),
        ("%%time\nx = 1\ny = !ls", ["x", "y"]),
        ("%%capture out\nx = 1", ["x"]),
        ("%%capture x\n1", ["x"]),
        ("%%bash --out x\nls", ["x"]),
        ("%store -r x", ["x"]),
        ("%%bash\nx=1", []),
        ("%timeit -n 10 x = 1", []),
        ("def f():\n    x = 1\n    [y := 1 for _ in x]", []),
        ("{k: (x := k) for k in y}", ["x"]),
        ("def f():\n    global x\n    return [(x := i) for i in y]", ["x"]),
        ("f = lambda: (x := 1)", []),
        ("def f(): exec('x = 1')", []),
        ("from math import *", ["e"]),
        ("exec('x = 1')", ["x"]),
        ("exec('exec(\\'x = 1\\')')", ["x"]),
        ("globals().update(x=1, **{'y': 2})", ["x"]),
        ("globals().update({'x': 1}, y=2)", ["x", "y"]),
        ("globals().setdefault('x', 1)", ["x"]),
        ("get_ipython().user_ns['x'] = 1", ["x"]),
        ("get_ipython().push({'x': 1})", ["x"]),
        ("get_ipython().run_cell('x = !ls')", ["x"]),
        ("import __main__\n__main__.x = 1", ["x"]),
        ("x == 1", []),
        ("print('x = 1')", []),
    ],
)
def test_names_that_are_bound_are_overwritten(code: str, overwritten: list[str]) -> None:
    assert names(code) == (overwritten, [], [])


@pytest.mark.parametrize(
    ("code", "deleted"),
    [
        ("del x, y", ["x", "y"]),
        ("del globals()['x']", ["x"]),
        ("globals().pop('x', None)", ["x"]),
        ("globals().clear()", list(NAMESPACE)),
        ("get_ipython().reset()", list(NAMESPACE)),
        ("%xdel x", ["x"]),
        ("%reset -f", list(NAMESPACE)),
        ("%reset_selective -f ^[xy]$", ["x", "y"]),
        ("try:\n    pass\nexcept ValueError as e:\n    pass", ["e"]),
        ("x = 1\ndel x", ["x"]),
    ],
)
def test_names_that_go_are_deleted(code: str, deleted: list[str]) -> None:
    assert names(code) == ([], deleted, [])


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("df['z'] = 1", ["df"]),
        ("df.loc[0, 'x'] = 1", ["df"]),
        ("del df['x']", ["df"]),
        ("df.columns = ['z']", ["df"]),
        ("df.drop(columns='x', inplace=True)", ["df"]),
        ("df.drop(columns='x', inplace=False)", []),
        ("df['x'].fillna(0, inplace=True)", ["df"]),
        ("df.insert(0, 'z', 1)", ["df"]),
        ("items.append(1); table.update(b=1); queue.popleft()", ["items", "table", "queue"]),
        ("df.drop(columns='x', inplace=1)", ["df"]),
        ("def clean():\n    df['z'] = 1\nclean()", ["df"]),
        ("def clean(df):\n    df['z'] = 1", []),
        ("def clean(d, *, e=None):\n    d['z'] = e[0] = 1\nclean(df)\nclean([], e=items)", ["df", "items"]),
        ("def f():\n    items = []\n    items.append(1)", []),
        ("[items.append(n) for n in range(3)]", ["items"]),
        ("[items.append(1) for items in [[]]]", []),
        ("(lambda: items.clear())()", ["items"]),
        ("table['a'].append(1)", ["table"]),
        ("df['x'].add(1)", []),
        ("other = df\nother['z'] = 1", ["df"]),
        ("other = df\nother = other.copy()\nother['z'] = 1", []),
        ("for n, d in enumerate([df, items]): d['z'] = n", ["df", "items"]),
        ("for n in items: df[n] = 1", ["df"]),
        ("for row in items: row['z'] = 1", ["items"]),
        ("import random\nrandom.shuffle(items)", ["items"]),
        ("setattr(df, 'columns', ['z'])", ["df"]),
        ("df.add(1, out=df)\nprint(out=x)", ["df"]),
        ("%timeit items.append(1)", ["items"]),
        ("df.append(1); x.update()", []),
        ("pd.options.display.max_rows = 5", []),
        ("df.head()", []),
        ("def f():\n    items.append(1)\n    def g():\n        items = 2", ["items"]),
        ("class A:\n    items = 1\n    def m(self):\n        items.append(1)", ["items"]),
        ("[items for items in items.pop()]", ["items"]),
        ("def f():\n    items = []\n    [items.append(i) for i in x]", []),
    ],
)
def test_values_that_code_reaches_into_are_changed(code: str, changed: list[str]) -> None:
    assert names(code) == ([], [], changed)


@pytest.mark.parametrize(
    "code", ["x = (", "\0", "x = 1" * 100_000, "(" * 5000, "%%nothing\nx = 1", "", "?", "x\ud83d = 1"]
)
def test_code_that_cannot_be_understood_touches_nothing(code: str) -> None:
    assert names(code) == ([], [], [])


@pytest.mark.parametrize(
    "code",
    [
        "for name in list(globals()): del globals()[name]",
        "globals()[name] = 1",
        "globals().update(found)",
        "from a_module_that_is_not_loaded import *",
        "%run script.py",
        "%store -r",
    ],
)
def test_of_names_that_the_text_does_not_tell_the_user_is_warned(code: str) -> None:
    transform = TransformerManager().transform_cell
    told = touched(code, NAMESPACE, transform).warning()
    assert told == "Which variables it overwrites or deletes cannot be told from its text."
    assert touched(code, {}, transform).warning() is None


def test_a_transformer_that_fails_does_no_harm() -> None:
    def fail(_: str) -> str:
        raise RuntimeError("no")

    assert touched("x = 1", {"x": 1}, fail) == Touched()


def test_the_warning_is_one_sentence() -> None:
    assert touched("new = 1", NAMESPACE).warning() is None
    told = touched("x = 1\ndel y\nitems.append(1)\ndf['a'] = 1", NAMESPACE).warning()
    assert told == ("This deletes your variable y, overwrites your variable x and changes your variables items and df.")
    many = {f"v{number}": number for number in range(100)}
    told = touched("\n".join(f"{name} = 0" for name in many), many).warning()
    assert told == "This overwrites your variables v0, v1, v2, v3, v4, v5, v6 and 93 others."


def test_deep_code_does_not_break_it() -> None:
    touched("x = " + "-" * sys.getrecursionlimit() + "1", {"x": 1})
