"""One change at a time: what is said of it, what has no way back, and what happens when something is in the way."""

from __future__ import annotations

import sys
import threading
import tracemalloc
import types
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from work import counting_work

from indus_nb.kernel.undo import Change, CheckpointBudget, RefusedError, TouchedError, forecast, take


def namespace(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(code, names)
    return names


def changed(names: dict[str, Any], code: str, budget: CheckpointBudget | None = None) -> Change:
    checkpoint = take(names, code, budget or CheckpointBudget(30))
    exec(code, names)
    return checkpoint.close()


def test_says_what_changed_in_a_line() -> None:
    names = namespace("rows = [1, 2, 3]; x = 5; gone = 'text'; same = []; token = 1234")
    change = changed(names, "rows.pop(); x = 6; del gone; fresh = {}; same.append(1); same.pop(); token = 5678")
    assert change.summary == "x 5 → 6, token changed, rows 3 → 2 items, gone deleted, fresh new"


def test_says_how_many_rows_a_frame_has_lost() -> None:
    names = namespace("import pandas as pd; sales = pd.DataFrame({'a': range(1200)})")
    assert changed(names, "sales = sales[sales.a >= 52]").summary == "sales 1200 → 1148 rows"


def test_an_array_below_a_column_is_taken_back_though_the_column_has_moved_since() -> None:
    names = namespace("import pandas as pd; names = pd.Series(['a', 'b', 'c'])")
    first = changed(names, "names.array[0] = names.array[1]")
    again = changed(names, "names[0] = names[1]")
    again.undo()
    first.undo()
    assert list(names["names"]) == ["a", "b", "c"]
    first.redo()
    assert list(names["names"]) == ["b", "b", "c"]


FRAME = "import pandas as pd; df = pd.DataFrame({'a': [1, None, 3], 'b': [True, None, False]}).convert_dtypes()"


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        (FRAME, "df['a'].values[:] = 0"),
        (FRAME, "v = df['a'].values; v[v.isna()] = 0"),
        (FRAME, "df['b'].values[2] = True"),
        (f"{FRAME}; s = df['a'].astype('Float64')", "s.values[0] = 9.5"),
        (f"{FRAME}; s = pd.Series(list('uvu'), dtype='category')", "s.values[0] = 'v'"),
        (f"{FRAME}\ndef clean(df): df['a'].values[df['a'].isna()] = 0", "clean(df)"),
        (f"{FRAME}; df = pd.DataFrame({{'x': [1.5, 2.5]}})", "df['x'].array[0] = 9"),
        (f"{FRAME}; i = pd.Index([1, 2]); i.get_loc(2)", "v = i.values; v.flags.writeable = True; v[0] = 3"),
    ],
)
def test_what_is_written_below_the_columns_of_frames_is_taken_back(setup: str, code: str) -> None:
    names = namespace(setup)

    def look() -> str:
        return repr([names[name] for name in ("df", "s", "i") if name in names])

    before = look()
    change = changed(names, code)
    after = look()
    assert after != before
    assert {"df", "s", "i"} & change.names
    change.undo()
    assert look() == before
    change.redo()
    assert look() == after
    change.undo()
    if "i" in names:
        assert (names["i"].get_loc(2), names["i"].get_loc(1)) == (1, 0)


META = (
    "class Meta(type):\n    known = []\n    def __init__(cls, *_): Meta.known.append(1)\nclass A(metaclass=Meta): pass"
)
COLOR = "import enum\nclass Color(enum.Enum): RED = [1]\nred = Color.RED"
POINT = "from typing import NamedTuple\nclass Point(NamedTuple): x: int\nPoint.seen = []; p = Point(1)"


@pytest.mark.parametrize(
    ("setup", "code", "look"),
    [
        (META, "class B(A): pass", "Meta.known"),
        (COLOR, "red.value.append(2)", "Color.RED.value"),
        (COLOR, "red._value_ = 5", "Color.RED.value"),
        (POINT, "p.seen.append(1)", "Point.seen"),
        ("def f(x: int): 'Old.'", "f.__name__ = 'g'; f.__doc__ = 'New.'", "f.__name__, f.__doc__"),
        ("def f(x: int): 'Old.'", "f.__annotations__['x'] = str", "f.__annotations__"),
        ("class A: 'Old.'", "A.__doc__ = 'New.'; A.__qualname__ = A.__name__ = 'B'", "A.__doc__, repr(A)"),
        ("class A: x: int = 1", "A.__annotations__['y'] = int; A.__module__ = 'm'", "A.__annotations__, A.__module__"),
        ("import types; d = {1: [2]}; view = types.MappingProxyType(d)", "view[1].append(3)", "d"),
        ("import types; d = types.MappingProxyType({1: [2]})", "d[1].append(3)", "dict(d)"),
        ("class A: rows = []\nheld = vars(A)", "held['rows'].append(1)", "A.rows"),
        ("rows = [[1]]; d = dict(a=rows).values()", "next(iter(d)).append(2)", "rows"),
        ("import io; a = io.BytesIO(b'abc'); b = a", "b.write(b'x')", "a.getvalue(), b.tell()"),
        ("import io; a = io.StringIO('abc'); b = [a]", "b[0].write('x')", "a.getvalue(), a.tell()"),
        ("import array; a = array.array('i', [1, 2]); b = a", "b.append(3)", "list(a), list(b)"),
        ("e = ValueError([1], 2)", "e.args[0].append(2); e.args = (3, 4); e.__cause__ = e", "e.args, e.__cause__ is e"),
        ("import ast; tree = ast.parse('x = 1')", "tree.body.clear(); tree.more = 1", "ast.dump(tree), vars(tree)"),
        ("import decimal; c = decimal.Context(prec=3)", "c.prec = 9", "c.prec"),
        ("import logging; log = logging.getLogger('mine')", "log.setLevel(10)", "log.level, log.isEnabledFor(10)"),
        (
            "import logging",
            "logging.getLogger().addHandler(logging.NullHandler())",
            "len(logging.getLogger().handlers)",
        ),
        ("import sys", "sys.setrecursionlimit(sys.getrecursionlimit() + 100)", "sys.getrecursionlimit()"),
        ("rows = []; gen = (rows.append(i) for i in range(3))", "next(gen)", "rows"),
        ("rows = []; it = map(rows.append, [1, 2])", "next(it)", "rows"),
        ("import numpy as np; a = np.zeros(3); flat = a.flat", "flat[:] = 1", "a.tolist()"),
        ("import numpy as np; a = np.zeros(2, [('x', int)])", "a.dtype.names = ('y',)", "a.dtype.names"),
    ],
)
def test_every_kind_of_change_is_taken_back(setup: str, code: str, look: str) -> None:
    names = namespace(setup)
    before = repr(eval(look, names))
    change = changed(names, code)
    after = repr(eval(look, names))
    assert after != before
    for _ in range(2):
        change.undo()
        assert repr(eval(look, names)) == before
        change.redo()
        assert repr(eval(look, names)) == after
    change.undo()


def test_what_cannot_be_put_back_is_named_and_the_rest_is() -> None:
    names = namespace("import io, numpy as np; held = io.BytesIO(b'a'); grown = np.zeros(2); rows = []")
    change = changed(names, "held.close(); grown.resize(5, refcheck=False); rows.append(1)")
    assert change.left_out == {"held": "it is closed", "grown": "it was resized in its place"}
    assert "grown 2 → 5 (cannot be undone: it was resized in its place)" in change.summary
    assert "held changed (cannot be undone: it is closed)" in change.summary
    assert "held (cannot be undone: it is closed)" in change.outcome
    change.undo()
    assert names["rows"] == []


def test_all_names_of_what_has_no_way_back_are_named() -> None:
    names = namespace("numbers = iter([1, 2]); also = numbers; held = [numbers]; more = [held]")
    assert forecast(names, "next(numbers), held, more").keys() == {"numbers", "also", "held", "more"}


def test_what_the_user_writes_below_the_columns_is_not_overwritten() -> None:
    names = namespace(FRAME)
    change = changed(names, "df.loc[0, 'a'] = 7")
    exec("df['a'].values[2] = 99", names)
    assert change.touched() == {"df"}
    change.undo(over=["df"])
    assert names["df"]["a"][0] == 1
    exec("df['a'].values[0] = 55", names)
    assert change.touched() == {"df"}


def test_columns_that_are_too_large_to_remember_are_named_and_the_rest_of_the_frame_is_kept() -> None:
    names = namespace("import pandas as pd; df = pd.DataFrame({'a': pd.array(range(300_000), 'Int64')})")
    code = "df['b'] = 1"
    assert forecast(names, code, CheckpointBudget(30, 1 << 20)) == {"df": "2 MB"}
    change = changed(names, code, CheckpointBudget(30, 1 << 20))
    assert change.left_out == {"df": "2 MB"}
    change.undo()
    assert [*names["df"]] == ["a"]


def test_what_the_user_does_to_what_the_code_put_into_an_object_is_noticed() -> None:
    names = namespace("rows = []; other = [1]")
    change = changed(names, "rows.append([1]); rows.append(other)")
    names["other"].append("mine")
    assert not change.touched()
    names["rows"][0].append("mine")
    assert change.touched() == {"rows"}


def test_what_a_library_does_to_warnings_when_it_is_imported_stays_as_the_library_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noisy_library.py").write_text("import warnings\nwarnings.filterwarnings('ignore', message='noisy')")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = namespace("import warnings")
    before = [*warnings.filters]
    change = changed(names, "import noisy_library")
    assert change.summary == ""
    change.undo()
    assert [*warnings.filters] != before
    before = [*warnings.filters]
    change = changed(names, "warnings.filterwarnings('ignore', message='mine')")
    assert change.summary == "warning filters changed"
    change.undo()
    assert [*warnings.filters] == before


@pytest.mark.parametrize(
    ("made", "code"),
    [
        ("rows = [1, [2]]; held = {'a': rows}", "len(rows), held['a'][1]"),
        (
            "import pandas as pd; df = pd.DataFrame({'where': ['a', 'b', 'a'], 'n': [1, 2, 3]}).query('n < 3')",
            "df.groupby('where')[['n']].mean()",
        ),
        (
            "import pandas as pd; df = pd.DataFrame({'a': [1, None], 'k': ['x', 'y']}).convert_dtypes()",
            "df.groupby('k')['a'].sum(), df['a'].dtype.numpy_dtype, df['a'].to_numpy()",
        ),
    ],
)
def test_code_that_only_reads_changes_nothing(made: str, code: str) -> None:
    names = namespace(made)
    change = changed(names, code)
    assert change.is_empty
    assert change.summary == ""


def test_all_names_of_an_object_see_what_is_taken_back() -> None:
    names = namespace("inner = [1]; outer = {'x': inner}\ndef read():\n    return inner")
    change = changed(names, "outer['x'].append(2)")
    assert change.names == {"inner", "outer"}
    change.undo()
    assert names["inner"] == [1]
    assert names["read"]() is names["inner"] is names["outer"]["x"]


def test_objects_that_only_a_function_reaches_are_taken_back() -> None:
    names = namespace("log = []\nclass Book:\n    def add(self, x):\n        log.append(x)\nbooks = [Book()]")
    change = changed(names, "books[0].add(3)")
    assert change.summary == "log 0 → 1 items"
    change.undo()
    assert names["log"] == []


def test_a_change_of_the_users_since_refuses_the_whole_step() -> None:
    names = namespace("a = [1]; b = [1]")
    change = changed(names, "a.append(2); b.append(2)")
    names["b"].append("mine")
    with pytest.raises(TouchedError) as refused:
        change.undo()
    assert refused.value.names == ["b"]
    assert (names["a"], names["b"]) == ([1, 2], [1, 2, "mine"])


def test_the_user_keeps_what_is_theirs_or_has_it_taken_back() -> None:
    names = namespace("a = [1]; b = [1]; c = 1")
    change = changed(names, "a.append(2); b.append(2); c = 2")
    names["b"].append("mine")
    names["c"] = 3
    assert change.undo(keep=["b"], over=["c"]) == {"a", "c"}
    assert (names["a"], names["b"], names["c"]) == ([1], [1, 2, "mine"], 1)
    change.redo()
    assert (names["a"], names["b"], names["c"]) == ([1, 2], [1, 2, "mine"], 3)


def test_a_change_to_what_the_code_has_made_is_noticed() -> None:
    names = namespace("")
    change = changed(names, "fresh = {'rows': [1]}")
    names["fresh"]["rows"].append("mine")
    assert change.touched() == {"fresh"}


def test_random_numbers_drawn_since_are_no_reason_to_ask() -> None:
    names = namespace("import random; a = 1")
    change = changed(names, "random.random(); a = 2")
    exec("random.random()", names)
    assert change.undo() == {"a"}


def test_what_has_no_way_back_is_named_before_and_the_rest_is_taken_back() -> None:
    names = namespace("numbers = iter([1, 2]); rows = [1]; unused = iter([])")
    code = "next(numbers); rows.append(2)"
    assert forecast(names, code) == {"numbers": "a list_iterator"}
    change = changed(names, code)
    assert change.left_out == {"numbers": "a list_iterator"}
    change.undo()
    assert names["rows"] == [1]


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("numbers = 1; print(numbers)", set()),
        ("numbers, rows = 1, 2", set()),
        ("rows = numbers; numbers = 1", {"numbers"}),
        ("if rows: numbers = 1\nprint(numbers)", {"numbers"}),
        ("def f(): return numbers\nf(); numbers = 1", {"numbers"}),
    ],
)
def test_what_is_bound_anew_before_it_is_used_is_not_changed_inside(code: str, named: set[str]) -> None:
    names = namespace("numbers = iter([1, 2]); rows = [1]")
    assert forecast(names, code).keys() == named
    assert "rows 1 → 2 items" in changed(names, "rows = [1, 2]").summary


def test_the_numbers_that_a_library_counts_its_own_parts_by_are_no_obstacle() -> None:
    names = namespace("from matplotlib.figure import Figure; fig = Figure(); ax = fig.subplots()")
    assert forecast(names, "ax.set_title('one'); fig", CheckpointBudget(5)) == {}
    exec("import itertools; ids = itertools.count()", names)
    assert forecast(names, "next(ids)") == {"ids": "a count"}


def test_what_is_beyond_the_budget_is_named_and_small_things_are_kept() -> None:
    names = namespace("large = bytearray(3 << 20); small = [1]")
    budget = CheckpointBudget(room=1 << 20)
    assert forecast(names, "large[0] = 1; small.append(2)", budget) == {"large": "3 MB"}
    change = changed(names, "large[0] = 1; small.append(2)", CheckpointBudget(room=1 << 20))
    change.undo()
    assert (names["large"][0], names["small"]) == (1, [1])


def test_an_array_of_many_objects_is_refused_before_they_are_listed_and_kept_if_wanted() -> None:
    names = namespace("import numpy as np; texts = np.full(1_500_000, 'one', dtype=object)")
    code = "texts[5] = 'two'"
    forecast(names, code, CheckpointBudget())  # what is made once
    tracemalloc.start()
    try:
        assert forecast(names, code, CheckpointBudget()) == {"texts": "too many parts"}
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    wanted = CheckpointBudget(copies=2.0)
    assert forecast(names, code, CheckpointBudget(copies=2.0)) == {}
    change = changed(names, code, wanted)
    change.undo()
    assert names["texts"][5] == "one"
    change.redo()
    assert names["texts"][5] == "two"


def test_what_the_code_is_known_to_change_is_remembered_first() -> None:
    names = namespace("one = bytearray(600_000); two = bytearray(600_000)")
    code = "one, two[0]"
    assert forecast(names, code, CheckpointBudget(room=1_000_000), first=["two"]).keys() == {"one"}


def test_locks_in_an_object_are_no_obstacle() -> None:
    names = namespace("import threading\nclass Safe: pass\ns = Safe(); s.lock = threading.Lock(); s.n = 0")
    change = changed(names, "with s.lock: s.n = 1")
    assert change.left_out == {}
    change.undo()
    assert names["s"].n == 0


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        ("import threading; lock = threading.Lock()", "lock.acquire()"),
        ("import threading; lock = threading.RLock()", "lock.acquire()"),
        ("import threading; lock = threading.RLock(); lock.acquire()", "lock.acquire()"),
        ("import threading; ready = threading.Condition()", "ready.acquire()"),
        ("import threading; places = threading.Semaphore(2)", "places.acquire()"),
        ("import numpy as np; bits = np.random.PCG64(1)", "bits.spawn(1)"),
        ("import numpy as np; seeds = np.random.SeedSequence(1)", "seeds.spawn(1)"),
        ("import numpy as np; rng = np.random.default_rng(1)", "rng.spawn(1)"),
        ("import numpy as np; place = np.arange(3).flat", "next(place)"),
        ("import numpy as np; place = np.nditer(np.arange(3))", "next(place)"),
        ("import re; place = re.compile('a').scanner('aa')", "place.match()"),
        ("import struct; place = struct.iter_unpack('B', b'ab')", "next(place)"),
        ("import contextvars; v = contextvars.ContextVar('v'); c = contextvars.copy_context()", "c.run(v.set, 1)"),
        ("import weakref\nclass T: pass\nt = T(); end = weakref.finalize(t, print)", "end.detach()"),
        ("import weakref\nclass T: pass\nheld = {T: T()}; proxy = weakref.proxy(held[T])", "proxy.x = 1"),
    ],
    ids=lambda text: text if len(text) < 20 else "",
)
def test_what_cannot_be_taken_back_is_named(setup: str, code: str) -> None:
    assert changed(namespace(setup), code).left_out


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        ("import threading; done = threading.Event()", "done.set()"),
        ("import functools\n@functools.cache\ndef options(): return {}\noptions()", "options()['debug'] = True"),
        ("import functools\n@functools.lru_cache(2)\ndef options(): return {}\noptions()", "options()['debug'] = True"),
        ("import types; module = types.ModuleType('module'); module.rows = []", "module.rows.append(1)"),
        ("import logging\nclass Kept(logging.Handler): pass\nkept = Kept(); kept.rows = []", "kept.rows.append(1)"),
        ("import logging; shape = logging.Formatter('%(message)s')", "shape.datefmt = '%H'"),
        ("import logging, io; h = logging.StreamHandler(); h.n = io.StringIO()", "h.setStream(h.n)"),
        ("import contextvars; v = contextvars.ContextVar('v'); v.set([1])", "v.get().append(2)"),
        ("_ = [1]", "_.append(2)"),
        ("import pandas as pd; days = pd.date_range('2024', periods=3)", "days.freq = None"),
        ("import pandas as pd; s = pd.Series(1, pd.date_range('2024', periods=3))", "s.index.freq = None"),
        ("Out = {1: [1]}; _oh = Out", "Out[1].append(2)"),
    ],
    ids=lambda text: text if len(text) < 20 else "",
)
def test_what_is_reached_by_other_ways_than_variables_is_taken_back(setup: str, code: str) -> None:
    change = changed(namespace(setup), code)
    assert change.left_out == {}
    assert change.found.in_place
    change.undo()
    assert change.touched() == frozenset()


@pytest.mark.parametrize("begin", ["", "twice(1)"])
@pytest.mark.parametrize("cache", ["cache", "lru_cache", "lru_cache(maxsize=2)"])
def test_a_cache_that_fills_is_no_change(cache: str, begin: str) -> None:
    names = namespace(f"import functools\n@functools.{cache}\ndef twice(x): return [2 * x]\n{begin}")
    assert changed(names, "twice(2); twice(3); twice(4)").is_empty


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        ("_ = [0]", "for _, number in [(1, 2)]: pass"),
        ("import copy, enum\nclass Point: pass\npoint = Point()", "copy.deepcopy(point)"),
        ("import enum\nclass Right(enum.Flag): READ = 1; WRITE = 2", "Right.READ | Right.WRITE"),
    ],
    ids=["loop", "copy", "flags"],
)
def test_what_python_does_by_itself_is_no_change(setup: str, code: str) -> None:
    change = changed(namespace(setup), code)
    assert (change.found.in_place, change.left_out) == (frozenset(), {})


def test_an_enumeration_that_gets_a_member_is_changed() -> None:
    change = changed(
        namespace("import enum\nclass Color(enum.Enum): RED = 1"), "Color._value2member_map_[9] = Color.RED"
    )
    assert change.found.in_place == {"Color"}


def test_a_variable_that_was_bound_otherwise_since_counts_as_changed_where_only_its_object_was_filled() -> None:
    names = namespace("a = [7, 8]")
    change = changed(names, "a.append(9)")
    filled, names["a"] = names["a"], [0]
    with pytest.raises(TouchedError) as refused:
        change.undo()
    assert {*refused.value.names} == {"a"}
    assert change.undo(over={"a"}) == {"a"}
    assert names["a"] is filled
    assert filled == [7, 8]
    assert change.redo() == {"a"}
    assert names["a"] == [0], "what was there is there again"
    assert filled == [7, 8, 9]
    with pytest.raises(TouchedError):
        change.undo()  # it is still the user's


def test_a_filled_object_that_another_variable_still_has_is_taken_back_without_a_question() -> None:
    names = namespace("a = b = [7, 8]")
    change = changed(names, "a.append(9)")
    del names["a"]
    assert "b" in change.undo()
    assert names["b"] == [7, 8]


def test_a_variable_that_is_kept_leaves_its_filled_object_as_it_is() -> None:
    names = namespace("a = [7, 8]")
    change = changed(names, "a.append(9)")
    filled = names.pop("a")
    assert change.undo(keep={"a"}) == frozenset()
    assert "a" not in names
    assert filled == [7, 8, 9]


def test_builtins_are_not_emptied_when_a_module_of_ones_own_is_put_back() -> None:
    names = namespace("import builtins, types\nown = types.ModuleType('own'); exec('n = 1', vars(own))")
    change = changed(names, "builtins.of_this_test = 1; own.n = 2")
    change.undo()
    assert names["own"].n == 1
    assert vars(names["builtins"]).pop("of_this_test") == 1


def test_threads_that_wait_for_an_event_are_still_woken_once_it_is_put_back() -> None:
    names = namespace("import threading\nevent = threading.Event()\nwaits = threading.Event()")
    code = "thread = threading.Thread(target=lambda: event.wait(60)); thread.start()"
    change = changed(names, f"{code}\nwhile not event._cond._waiters: pass\nwaits.set()")
    thread = names["thread"]
    change.undo()
    names["event"].set()
    thread.join(30)
    assert not thread.is_alive()
    assert not names["waits"].is_set()


def test_variables_of_modules_are_compared_where_they_are_given() -> None:
    module = types.ModuleType("settings_of_mine")
    exec("rows = [1]\nclass Kind: all = []\ndef seen(x, known=[]): known.append(x)", vars(module))
    names: dict[str, Any] = {"__name__": "__main__", "settings_of_mine": module, "free": iter([1])}
    code = "settings_of_mine.rows.append(2); settings_of_mine.Kind.all.append(1); settings_of_mine.seen(1)"
    checkpoint = take(names, code, CheckpointBudget(30), beside={"settings_of_mine": module})
    exec(code, names)
    change = checkpoint.close()
    wanted = {"settings_of_mine.rows", "settings_of_mine.Kind", "settings_of_mine.seen"}
    assert wanted <= change.found.in_place
    assert change.left_out == {}


@pytest.mark.parametrize(
    ("code", "left_out"),
    [
        ("1 + 1", set[str]()),
        ("module_of_mine.other()", set[str]()),
        ("module_of_mine.engine", {"module_of_mine.engine"}),
        ("module_of_mine.load()", {"module_of_mine.engine"}),
        ("Loader().run()", {"module_of_mine.engine"}),
        ("calls()", {"module_of_mine.engine"}),
        ("mine.load()", set[str]()),
    ],
)
def test_what_of_a_module_cannot_be_compared_is_named_where_code_may_reach_it(
    code: str, left_out: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("module_of_mine")
    monkeypatch.setitem(sys.modules, "module_of_mine", module)
    program = "engine = iter([1])\ndef other(): return 1\ndef load(): return engine\nclass Loader:\n"
    exec(f"{program}    def run(self): return load()", vars(module))
    names: dict[str, Any] = {"__name__": "__main__", "module_of_mine": module, "engine": module.engine}
    names["Loader"] = module.Loader
    exec("def calls(): return module_of_mine.load()\nclass Mine:\n    def load(self): pass\nmine = Mine()", names)
    assert take(names, code, CheckpointBudget(30), beside={"module_of_mine": module}).left_out.keys() == left_out


def test_what_a_function_reaches_that_a_module_calls_is_compared() -> None:
    module = types.ModuleType("module_of_mine")
    exec("hooks = []\ndef run(): [hook() for hook in hooks]", vars(module))
    names = namespace("rows = []\ndef hook(): rows.append(1)")
    names["module_of_mine"] = module
    module.hooks.append(names["hook"])
    checkpoint = take(names, "module_of_mine.run()", CheckpointBudget(30), beside={"module_of_mine": module})
    exec("module_of_mine.run()", names)
    assert "rows" in checkpoint.close().found.in_place


def test_code_of_the_users_classes_does_not_run() -> None:
    names = namespace(
        "ran = 0\nclass Odd(dict):\n    def any(self, *given):\n"
        "        global ran\n        ran += 1\n        return 0\n"
        "    __getattribute__ = __eq__ = __len__ = __iter__ = keys = items = copy = __hash__ = __bool__ = any\n"
        "odd = Odd(a=[1]); held = [odd]"
    )
    checkpoint = take(names, "held, odd", CheckpointBudget(30))
    dict.__setitem__(names["odd"], "a", 2)
    change = checkpoint.close()
    change.undo()
    assert names["ran"] == 0
    assert dict.__getitem__(names["odd"], "a") == [1]


def test_what_cannot_be_written_leaves_everything_as_it_was() -> None:
    names = namespace("rows = [1]; data = bytearray(b'abc')")
    change = changed(names, "rows.append(2); data.extend(b'd')")
    with memoryview(names["data"]), pytest.raises(RefusedError):  # its size cannot change as long as it is looked at
        change.undo()
    assert (names["rows"], names["data"]) == ([1, 2], b"abcd")
    change.undo()
    assert (names["rows"], names["data"]) == ([1], b"abc")


def test_an_interrupt_anywhere_leaves_all_as_before_or_all_taken_back() -> None:
    setup = "import random\nclass A:\n    pass\na = A(); a.rows = [1, 2]; d = {'k': a}; b = bytearray(b'xyz'); s = {1}"
    code = "a.rows.append(3); a.more = []; d['z'] = 1; b[0] = 65; s.add(2); n = 1; del setup; random.random()"

    def state(names: dict[str, Any]) -> object:
        a = names["a"]
        return (
            vars(a).copy(),
            [*a.rows],
            [*names["d"]],
            bytes(names["b"]),
            {*names["s"]},
            "n" in names,
            "setup" in names,
        )

    lines, interrupted, finished = 0, 0, 0
    while True:
        lines += 1
        names = namespace(f"{setup}; setup = 1")
        before = state(names)
        change = changed(names, code)
        after = state(names)
        if not interrupted_undo(change, lines):
            break
        interrupted += 1
        finished += change.undone
        assert state(names) == (before if change.undone else after), f"interrupted at line {lines}"
        assert not change.touched()
        (change.redo if change.undone else change.undo)()
        assert state(names) == (after if not change.undone else before)
    assert interrupted > 100
    assert 0 < finished < interrupted


def interrupted_undo(change: Change, line: int) -> bool:
    """Undo, interrupted when so many lines of the package have run; returns whether there were as many."""
    left = line

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if "undo" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        change.undo()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_another_thread_that_changes_a_variable_meanwhile_breaks_nothing() -> None:
    names = namespace("busy = {}; rows = [1]")
    stop = threading.Event()

    def change_it() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            names["busy"][number % 1000] = number

    thread = threading.Thread(target=change_it)
    thread.start()
    try:
        change = changed(names, "busy, rows.append(2)")
    finally:
        stop.set()
        thread.join()
    change.undo(over=change.touched())
    assert names["rows"] == [1]


def test_names_that_the_code_does_not_touch_cost_next_to_nothing() -> None:
    lines = list[int]()
    for count in (2_000, 4_000):
        namespace: dict[str, Any] = {f"name_{number}": [number] for number in range(count)}
        with counting_work() as work:
            checkpoint = take(namespace, "name_7[0] = 1; fresh = name_8")
            exec("name_7[0] = 1; fresh = name_8", namespace)
            change = checkpoint.close()
        assert sorted(change.undo()) == ["fresh", "name_7"]
        assert (namespace["name_7"], "fresh" in namespace) == ([7], False)
        lines.append(work.lines)
    assert (lines[1] - lines[0]) / 2_000 < 14
