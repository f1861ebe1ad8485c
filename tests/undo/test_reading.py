"""What code has read: which of it differs after others ran, and that none does once they are taken back."""

from __future__ import annotations

import gc
import random
import sys
import time
import weakref
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from indus_nb.kernel.undo import CheckpointBudget, read, take

FRAMES = ("f0", "f1", "f2", "f3")
POLARS = ("p0", "p1") if find_spec("polars") else ()
ALL, ROWS = "all of it", "rows"
A, B, C = (frozenset({column, ROWS}) for column in "abc")
WHOLE, NEW_ROWS = frozenset({ALL}), frozenset({ALL, ROWS, "a", "b", "c"})
Table = dict[str, tuple[tuple[str, ...], frozenset[str]]]
READS: Table = {
    "{}.a.mean()": (FRAMES, A),
    "{}['a'].mean() + {}['b'].max()": (FRAMES, A | B),
    "{}[['a', 'c']].size": (FRAMES, A | C),
    "{}.c.unique()": (FRAMES, C),
    "{}[{}.b > 2].a.sum()": (FRAMES, A | B),
    "{}[({}.b > 2) & ~({}.c == 'x')]['b'].sum()": (FRAMES, B | C),
    "len({})": ((*FRAMES, *POLARS), frozenset({ROWS})),
    "{}.a.sum() / {}.size": (FRAMES, WHOLE),
    "{}.describe()": (FRAMES, WHOLE),
    "list({}.columns)": ((*FRAMES, *POLARS), WHOLE),
    "len(rows)": (("rows",), WHOLE),
    "sum({})": (("rows",), WHOLE),
    "{}.sum()": (("grid",), WHOLE),
    "n + {}": (("n",), WHOLE),
    "total()": ((), WHOLE),
    "total() + f1.b.sum()": ((), WHOLE),
    "{}.a.max()": (("alias",), A),
    "box.value": ((), WHOLE),
    "f0.a.sum() - alias.a.sum()": ((), A),
    "{}.num_addresses": (("net",), WHOLE),
}
"""Expressions, the variables that may stand in them, and what of these they read."""
ALSO = {
    "total()": {"total", "f1", "n"},
    "total() + f1.b.sum()": {"total", "f1", "n"},
    "box.value": {"box"},
    "f0.a.sum() - alias.a.sum()": {"f0", "alias"},
}
IN_PLACE: Table = {
    "{}['a'] = {}.a + 1": (FRAMES, A - {ROWS} | WHOLE),
    "{}.loc[{}.index[0], 'b'] = 9": (FRAMES, B - {ROWS} | WHOLE),
    "{}['new'] = 1": (FRAMES, WHOLE),
    "{}.columns = ['d' if name == 'c' else name for name in {}.columns]": (FRAMES, C - {ROWS} | WHOLE),
    "{}.index = range(10, 10 + len({}))": (FRAMES, NEW_ROWS),
    "rows.append(1)": (("rows",), WHOLE),
    "rows[0] = -1": (("rows",), WHOLE),
    "grid[0, 0] += 1": (("grid",), WHOLE),
    "box.value.append(3)": (("box",), WHOLE),
    "net.purpose = 'tests'": (("net",), WHOLE),
}
"""Statements that change an object, what they may be about, and what of it differs then."""
REBINDING: Table = {
    "{0} = {0}.copy()": (FRAMES, WHOLE),
    "{0} = {0}.assign(b={0}.b + 1, more=0)": (FRAMES, B - {ROWS} | WHOLE),
    "{0} = {0}.rename(columns={'c': 'd'})": (FRAMES, C - {ROWS} | WHOLE),
    "{0} = {0}[{0}.b % 5 > 0]": (FRAMES, NEW_ROWS),
    "{0} = {0}.rename_axis('row')": (FRAMES, NEW_ROWS),
    "n = n + 1": (("n",), WHOLE),
    "rows = [*rows]": (("rows",), WHOLE),
    "total = lambda: f1.a.sum()": (("total",), WHOLE),
    "box = Box()": (("box",), WHOLE),
    "net = ip_network('10.0.0.0/28')": (("net",), WHOLE),
}
if POLARS:
    READS |= {
        "{}['a'].mean() + {}['b'].max()": ((*FRAMES, *POLARS), A | B),
        "{}[['a', 'c']].width": (POLARS, A | C),
        "{}['c'].unique()": (POLARS, C),
        "{}.height + {}['a'].sum()": (POLARS, WHOLE),
    }
    IN_PLACE |= {
        "{}[0, 'b'] = 9": (POLARS, B - {ROWS} | WHOLE),
        "{}.insert_column(0, pl.Series(f'new{{}.width}', {}['a']))": (POLARS, WHOLE),
    }
    REBINDING |= {
        "{0} = {0}.clone()": (POLARS, WHOLE),
        "{0} = {0}.with_columns(a={0}['a'] + 1, more=0)": (POLARS, A - {ROWS} | WHOLE),
        "{0} = {0}.rename({'c': 'd'}, strict=False)": (POLARS, C - {ROWS} | WHOLE),
        "{0} = {0}.filter({0}['b'] % 5 > 0)": (POLARS, NEW_ROWS),
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
    columns = {"a": [1.0, 2.0, 3.0], "b": [1, 5, 3], "c": ["x", "y", "z"]}
    for name in FRAMES:
        namespace[name] = pd.DataFrame(columns)
    for name in POLARS:
        namespace["pl"] = import_module("polars")
        namespace[name] = namespace["pl"].DataFrame(columns)
    namespace["grid"], namespace["alias"] = np.arange(6.0).reshape(2, 3), namespace["f0"]
    exec(MAKES, namespace)
    return namespace


Parts = set[tuple[str, str]]
"""Variables, each with something of it."""


def chosen(draw: random.Random, table: Table) -> tuple[str, Parts]:
    """A line of a table with a variable in it, and what of that variable it is about."""
    template, (names, parts) = draw.choice([*table.items()])
    name = draw.choice(names) if names else ""
    filled = template.replace("{0}", name).replace("{}", name)
    return filled, {(each, part) for each in ALSO.get(template, {name}) for part in parts}


def changed_by(draw: random.Random) -> tuple[str, Parts]:
    """A later cell, and what differs afterwards."""
    kind = draw.randrange(3)
    if kind == 0:
        return draw.choice(HARMLESS), set()
    code, parts = chosen(draw, IN_PLACE if kind == 1 else REBINDING)
    return code, parts | ({("alias", part) for name, part in parts if name == "f0"} if kind == 1 else set())


@pytest.mark.parametrize("part", range(4))
def test_exactly_what_read_a_changed_variable_or_column_differs_and_each_undo_takes_that_back(part: int) -> None:
    for seed in range(part * 250, part * 250 + 250):
        draw = random.Random(seed)
        namespace = notebook()
        claims: list[tuple[str, Parts, Any]] = []
        for _ in range(draw.randint(1, 3)):  # answers
            for _ in range(draw.randint(1, 4)):
                expression, parts = chosen(draw, READS)
                reading = read(namespace, expression)
                assert reading.names == {name for name, _ in parts}, (seed, expression)
                assert not reading.left_out
                eval(expression, namespace)  # it fills caches
                claims.append((expression, parts, reading))
        changes = []
        differing: list[Parts] = [set()]  # after each cell
        for _ in range(draw.randint(1, 4)):
            code, parts = changed_by(draw)
            if namespace["alias"] is not namespace["f0"]:
                parts = {(name, part) for name, part in parts if name != "alias"}
            checkpoint = take(namespace, code)
            try:
                exec(code, namespace)
            except Exception as error:
                raise AssertionError((seed, code)) from error
            changes.append(checkpoint.close())
            differing.append(differing[-1] | parts)
        context = (seed, [change.summary for change in changes])
        while True:
            for expression, parts, reading in claims:
                found = {name for name, _ in parts & differing[-1]}
                assert reading.differing() == found, (context, expression, len(changes))
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


class Linked:
    """An object in a ring."""

    def __init__(self) -> None:
        self.next: Any = None


def ring(count: int) -> dict[str, Any]:
    nodes = [Linked() for _ in range(count)]
    for node, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        node.next = following
    return {"__name__": "__main__", "nodes": nodes}


def calls_of(work: Callable[[], object]) -> int:
    """How many functions work calls, also those in C."""
    count = 0

    def called(_frame: object, event: str, _about: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def compared(count: int) -> tuple[int, int]:
    """How many calls finding the changes of a ring takes: for a reading, and for a checkpoint."""
    namespace, budget = ring(count), CheckpointBudget(100)
    reading, checkpoint = read(namespace, "len(nodes)", budget), take(namespace, "nodes[0].next = 1", budget)
    for node in namespace["nodes"]:
        node.value = 1
    found = calls_of(reading.differing), calls_of(checkpoint.close)
    assert reading.differing() == {"nodes"}
    return found


def test_the_work_to_compare_a_ring_grows_with_its_length_and_not_with_the_square() -> None:
    for few, many in zip(compared(200), compared(800), strict=True):
        assert many < 8 * few


def test_in_a_ring_each_variable_that_leads_to_it_differs_and_no_other() -> None:
    namespace = {**ring(3), "tail": [1], "other": [2]}
    namespace["nodes"][0].tail = namespace["tail"]
    namespace["one"] = namespace["nodes"][1]
    readings = {name: read(namespace, name) for name in ("nodes", "one", "tail", "other")}
    checkpoint = take(namespace, "nodes, one, tail, other")
    namespace["nodes"][2].value = 3
    assert {name for name, reading in readings.items() if reading.differing()} == {"nodes", "one"}
    namespace["tail"].append(2)
    assert {name for name, reading in readings.items() if reading.differing()} == {"nodes", "one", "tail"}
    assert checkpoint.close().names == {"nodes", "one", "tail"}


@pytest.mark.parametrize(
    "make",
    [lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), lambda: np.arange(9.0), Linked],
    ids=["frame", "array", "object"],
)
def test_a_reading_keeps_no_object_alive_that_can_be_held_weakly(make: Callable[[], Any]) -> None:
    namespace = {"value": make(), "n": 1}
    gone = weakref.ref(namespace["value"])
    reading = read(namespace, "value, n")
    assert reading.differing() == frozenset()
    kept, namespace["value"] = namespace["value"], None
    assert reading.differing() == {"value"}
    namespace["value"] = kept
    assert reading.differing() == frozenset()
    del kept, namespace["value"]
    gc.collect()
    assert gone() is None
    namespace["value"] = None
    assert reading.differing() == {"value"}


def test_what_a_gone_array_held_is_let_go_too() -> None:
    namespace: dict[str, Any] = {"box": Linked()}
    namespace["box"].next = np.arange(9.0)
    gone = weakref.ref(namespace["box"].next)
    reading = read(namespace, "box.next")
    del namespace["box"]
    gc.collect()
    assert gone() is None
    assert reading.differing() == {"box"}


@pytest.mark.parametrize(
    ("code", "then"),
    [
        ("len(df.query('v > @lim'))", "lim = 3"),
        ("filtered()", "lim = 3"),
        ("len(rows)", "len = lambda of: 0"),
        ("later()", "bound_later = 1"),
    ],
)
def test_names_in_queries_and_names_that_are_bound_later_count(code: str, then: str) -> None:
    namespace: dict[str, Any] = {"df": pd.DataFrame({"v": [1, 2, 3]}), "rows": [1], "lim": 2}
    exec("def filtered(): return len(df.query('v > @lim'))\ndef later(): return bound_later", namespace)
    reading = read(namespace, code)
    assert reading.differing() == frozenset()
    exec(then, namespace)
    assert reading.differing() == {then.partition(" ")[0]}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("cfg.rate * 2", "cfg"),
        ("rate()", "rate"),
        ("pd.read_csv('x.csv').a.sum()", "read_csv"),
        ("from_file()", "open"),
        ("os.environ['HOME']", "environ"),
        ("os.getenv('HOME')", "getenv"),
    ],
)
def test_what_is_read_past_variables_is_named(code: str, name: str) -> None:
    cfg = ModuleType("settings_of_mine")
    exec("value = 1\ndef rate(): return value", vars(cfg))
    namespace: dict[str, Any] = {"pd": pd, "cfg": cfg, "rate": cfg.rate}
    exec("def from_file(): return open('x').read()", namespace)
    assert [*read(namespace, code).left_out] == [name]


def test_readings_that_share_a_budget_share_its_time() -> None:
    namespace = {"first": [{"a": 1}], "second": [{"a": number} for number in range(10_000)]}
    budget = CheckpointBudget(0.3)
    assert not read(namespace, "first", budget).left_out
    ends = time.thread_time() + 0.3
    while time.thread_time() <= ends:
        pass
    assert [*read(namespace, "second", budget).left_out] == ["second"]


@pytest.mark.parametrize(
    ("code", "frame"),
    [
        ("f.count.sum()", {"count": [1], "b": [1]}),
        ("f.a.sum() + f.b[0]", {"a": [1], "b": [[]]}),
        ("f['a'].sum() + by_function()", {"a": [1], "b": [1]}),
        ("f[f.b].a.sum()", {"a": [1], "b": [True]}),
        ("f.loc[0, 'a']", {"a": [1], "b": [1]}),
        ("f.query('a > b').a.sum()", {"a": [1], "b": [1]}),
        ("f.gone.sum()", {"a": [1], "b": [1]}),
        ("globals()['f'].b.sum() + f.a.sum()", {"a": [1], "b": [1]}),
    ],
)
def test_where_it_is_not_sure_that_columns_alone_are_read_the_whole_frame_counts(
    code: str, frame: dict[str, list[Any]]
) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__", "f": pd.DataFrame(frame)}
    exec("def by_function(): return f.b.sum()", namespace)
    reading = read(namespace, code)
    namespace["f"]["new"] = 1
    assert reading.differing() == {"f"}


def test_a_class_made_of_frames_counts_as_a_whole_and_none_of_its_code_runs() -> None:
    class Mine(pd.DataFrame):
        def __getattribute__(self, name: str) -> Any:
            if active:
                raise AssertionError(name)
            return super().__getattribute__(name)

    active = False
    namespace: dict[str, Any] = {"f": Mine({"a": [1]})}
    active = True
    assert not read(namespace, "f['a']").differing()


def test_columns_of_another_class_or_type_or_with_other_labels_differ() -> None:
    namespace: dict[str, Any] = {"f": pd.DataFrame({"a": pd.Categorical(["x", "y"]), "b": [1, 2]})}
    readings = {column: read(namespace, f"f.{column}") for column in "ab"}
    first = namespace["f"]

    def differing(frame: object) -> set[str]:
        namespace["f"] = frame
        return {column for column, reading in readings.items() if reading.differing()}

    assert differing(first.copy()) == set()
    assert differing(first.assign(b=first.b.astype(float))) == {"b"}
    assert differing(first.assign(a=first.a.cat.reorder_categories(["y", "x"]))) == {"a"}
    assert differing(first.set_axis([0.0, 1.0])) == {"a", "b"}
    assert differing(first[["b"]]) == {"a"}
    assert differing(pd.concat([first, first[["b"]]], axis=1)) == {"b"}
    assert differing(first.to_dict()) == {"a", "b"}
    assert differing(first) == set()


@pytest.mark.parametrize(
    ("made", "code", "change"),
    [
        ("{'a': pd.Series([1, 'x'], dtype=object)}", "f.a.tolist()", "{'a': pd.Series([True, 'x'], dtype=object)}"),
        ("{'a': pd.Series([1, 'x'], dtype=object)}", "f.a.tolist()", "{'a': pd.Series([1.0, 'x'], dtype=object)}"),
        ("{'a': pd.Series([None], dtype=object)}", "f.a.tolist()", "{'a': pd.Series([np.nan], dtype=object)}"),
        (
            "{'a': [1, 2]}, index=pd.CategoricalIndex(['x', 'y'], categories=['x', 'y'])",
            "f.a.sort_index().tolist()",
            "{'a': [1, 2]}, index=pd.CategoricalIndex(['x', 'y'], categories=['y', 'x'])",
        ),
        ("{'a': [1]}", "f[['a']].columns.name", "{'a': [1]}, columns=pd.Index(['a'], name='q')"),
        ("{'a': [1]}", "f.a.flags", "f.set_flags(allows_duplicate_labels=False)"),
    ],
)
def test_what_pandas_takes_for_equal_differs_where_code_can_tell_it_apart(made: str, code: str, change: str) -> None:
    namespace: dict[str, Any] = {"pd": pd, "np": np}
    exec(f"f = pd.DataFrame({made})", namespace)
    reading = read(namespace, code)
    exec(f"f = pd.DataFrame({made})", namespace)
    assert not reading.differing()
    exec(f"f = {change}" if change.startswith("f.") else f"f = pd.DataFrame({change})", namespace)
    assert reading.differing() == {"f"}


def test_columns_outlive_their_frame_where_they_are_small_and_keep_nothing_else_of_it() -> None:
    for rows, is_kept in ((1 << 20, True), (3 << 20, False)):
        namespace: dict[str, Any] = {"f": pd.DataFrame(np.ones((rows, 3)), columns=[*"abc"])}
        below = weakref.ref(namespace["f"]._mgr.blocks[0].values.base)
        reading = read(namespace, "f.a.sum()")
        assert reading.weight < 1 << 20
        namespace["f"] = pd.DataFrame({"a": np.ones(rows)})
        gc.collect()
        assert below() is None
        assert (not reading.differing(), reading.weight >= 1 << 20) == (is_kept, is_kept)
