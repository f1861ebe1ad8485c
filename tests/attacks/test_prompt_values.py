"""Text pasted into a prompt: its ``{expressions}`` and ``$names`` look at data, and run nothing in the kernel."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import os
import pathlib
import subprocess
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from indus_nb.kernel.values.describe import describe, for_prompt
from indus_nb.kernel.values.interpolation import Computed, Interpolated, code_of, interpolate, written

ran: list[str] = []


class Watched:
    """An object each of whose methods and properties is noticed when it runs."""

    def __init__(self) -> None:
        self.held = 5
        self.function = lambda: ran.append("function")

    @property
    def p(self) -> int:
        ran.append("property")
        return 1


ANSWERS = {
    "__hash__": 1,
    "__bool__": True,
    "__len__": 1,
    "__index__": 1,
    "__int__": 1,
    "__float__": 1.0,
    "__str__": "x",
}
METHODS = (
    "__call__ __getattr__ __getitem__ __setitem__ __delitem__ __format__ __str__ __repr__ __add__ __radd__ __mul__ "
    "__rmul__ __sub__ __rsub__ __truediv__ __mod__ __rmod__ __pow__ __and__ __or__ __neg__ __invert__ __eq__ __lt__ "
    "__gt__ __le__ __ge__ __ne__ __contains__ __len__ __iter__ __bool__ __index__ __int__ __float__ __round__ __abs__ "
    "__hash__ __deepcopy__ __enter__ __bytes__ __fspath__ __length_hint__ __next__ __sizeof__ __dir__"
)


def _noticed(name: str) -> Any:
    def method(_self: object, *_arguments: object) -> Any:
        ran.append(name)
        return ANSWERS.get(name, NotImplemented)

    return method


for _name in METHODS.split(" "):
    setattr(Watched, _name, _noticed(_name))


class Greedy:
    """One that notices every look at it."""

    def __getattribute__(self, name: str) -> Any:
        ran.append(name)
        return object.__getattribute__(self, name)


class Missing(dict[str, int]):
    def __missing__(self, key: str) -> int:
        ran.append("__missing__")
        return 1


class Descriptor:
    def __get__(self, owner: object, kind: object = None) -> int:
        ran.append("__get__")
        return 1


class Describing:
    described = Descriptor()


class Frames(pd.DataFrame):
    @property
    def shape(self) -> Any:
        ran.append("shape")
        return (1, 1)

    def mean(self, *arguments: Any, **keywords: Any) -> Any:
        ran.append("mean")
        return 1


class OwnFrame(pd.DataFrame):
    @property
    def _constructor(self) -> Any:
        ran.append("_constructor")
        return OwnFrame

    @property
    def obj(self) -> Any:
        ran.append("obj")
        return self


class OwnSeries(pd.Series):
    @property
    def _constructor(self) -> Any:
        ran.append("_constructor")
        return OwnSeries

    def __finalize__(self, *arguments: Any, **keywords: Any) -> Any:
        ran.append("__finalize__")
        return super().__finalize__(*arguments, **keywords)


class Pretender:
    """A class that says it is numpy's."""

    __module__ = "numpy"

    @property
    def shape(self) -> tuple[int]:
        ran.append("shape")
        return (1,)

    def mean(self) -> int:
        ran.append("mean")
        return 1


Pretender.__qualname__ = Pretender.__name__ = "ndarray"


@dataclasses.dataclass
class Point:
    x: int = 3
    tags: list[str] = dataclasses.field(default_factory=lambda: ["a"])


@dataclasses.dataclass(slots=True)
class Slotted:
    x: int = 4


class Colour(enum.Enum):
    RED = 1


def do(*_arguments: object, **_keywords: object) -> int:
    ran.append("do")
    return 1


class Zone(dt.tzinfo):
    """One that notices when it is asked."""

    def utcoffset(self, _moment: object) -> dt.timedelta:
        ran.append("utcoffset")
        return dt.timedelta(0)

    def dst(self, _moment: object) -> dt.timedelta:
        ran.append("dst")
        return dt.timedelta(0)

    def __repr__(self) -> str:
        ran.append("repr of a zone")
        return "zone"


class Date:
    """A class that says it is one of Python's own dates."""

    __module__ = "datetime"

    def __repr__(self) -> str:
        ran.append("repr of a date")
        return "date"


Date.__qualname__ = Date.__name__ = "date"


class Arrays(np.ndarray[Any, Any]):
    def __array_finalize__(self, obj: object) -> None:
        ran.append("__array_finalize__")


class Label:
    """An object without parts each of whose other methods is noticed."""


for _name in METHODS.split(" "):
    if _name not in ("__getattr__", "__getitem__", "__iter__", "__len__", "__next__", "__sizeof__", "__dir__"):
        setattr(Label, _name, _noticed(_name))


def labelled() -> dict[str, Any]:
    """What pandas holds in other places than its values."""
    held = np.empty(2, dtype=object)
    held[0], held[1] = Label(), "a"
    labels = pd.Index(held)
    codes = pd.Categorical.from_codes([0, 1], categories=labels)
    named = pd.Series([1, 2])
    named.name = held[0]
    index_named = pd.Series([1, 2])
    index_named.index.name = held[0]
    noted = pd.DataFrame({"a": [1, 2], "c": ["x", "y"]})
    noted.attrs["by"] = {"whom": [Watched()]}
    noted_column = pd.Series([1, 2])
    noted_column.attrs["by"] = Watched()
    return {
        "noted": noted,
        "noted_column": noted_column,
        "own_frame": OwnFrame({"a": [1, 2], "c": ["x", "y"]}),
        "own_column": OwnSeries([1, 2]),
        "by_object": pd.Series([1, 2], index=labels),
        "columns": pd.DataFrame([[1, 2]], columns=labels),
        "named": named,
        "index_named": index_named,
        "category": pd.Series(codes),
        "categories": pd.DataFrame({"c": codes, "n": [1, 2]}),
        "sparse": pd.Series(pd.arrays.SparseArray(held)),
        "levels": pd.Series([1, 2], index=pd.MultiIndex.from_arrays([held, [1, 2]])),
        "labels": labels,
        "array": held,
        "zoned": dt.datetime(2026, 1, 2, tzinfo=Zone()),
        "zoned_time": dt.time(1, tzinfo=Zone()),
        "date": Date(),
        "arrays": np.zeros(3).view(Arrays),
    }


def variables(folder: pathlib.Path) -> dict[str, Any]:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.5], "b": ["x", "y", None], "big": [1, 2, 3]})
    odd = Watched()
    array = np.empty(2, dtype=object)
    array[0] = odd
    return {
        "os": os,
        "subprocess": subprocess,
        "pathlib": pathlib,
        "path": folder / "made",
        "np": np,
        "pd": pd,
        "math": math,
        "do": do,
        "e": odd,
        "greedy": Greedy(),
        "odd": {"key": odd, odd: 1},
        "objects": [odd, odd],
        "missing": Missing(),
        "defaults": defaultdict(do),
        "describing": Describing(),
        "describing_class": Describing,
        "frames": Frames({"a": [1]}),
        "pretender": Pretender(),
        "series_of_objects": pd.Series(array),
        "array_of_objects": array,
        "df": frame,
        "x": np.arange(6.0).reshape(2, 3),
        "out": np.zeros(6),
        "n": 7,
        "name": "Ada",
        "items": [3, 1, 2],
        "nested": {"rows": [{"id": 1}, {"id": 2}]},
        "point": Point(),
        "slotted": Slotted(),
        "space": SimpleNamespace(rate=0.5),
        "colour": Colour.RED,
        "when": dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC),
        "amount": Decimal("2.50"),
        "many": Counter("aab"),
        "ordered": OrderedDict(k=1),
        "queue": deque([1, 2]),
        "text": "x" * 3_000_000,
        "get_ipython": do,
    }


TOUCH = "touch made"
RUNNING = [
    *(f"{{os.system('{TOUCH}')}}", f"{{subprocess.run(['{TOUCH}'], shell=True)}}", f"{{os.popen('{TOUCH}').read()}}"),
    *("{path.touch()}", "{path.write_text('x')}", "{open(path, 'w').write('x')}", "{pathlib.Path('made').touch()}"),
    *("{path.open('w')}", "{path.parent.joinpath('made').touch()}", "{np.save(path, x)}", "{x.tofile(path)}"),
    *(
        "{df.to_csv(path)}",
        "{df.to_pickle(path)}",
        "{df.to_markdown(path)}",
        "{df.to_string(path)}",
        "{df.to_json(path)}",
    ),
    *(
        "{df.query('@do()')}",
        "{df.eval('@do()')}",
        "{df.apply(do)}",
        "{df['a'].map(do)}",
        "{df.pipe(do)}",
        "{df.agg(do)}",
    ),
    *("{df[do]}", "{df.loc[do]}", "{df.iloc[do]}", "{df.groupby(do)}", "{df['a'].apply(do)}", "{df.transform(do)}"),
    *(
        "{df.sort_values('a', key=do)}",
        "{df.rename(do)}",
        "{df.style}",
        "{df.plot()}",
        "{df.info()}",
        "{df.assign(c=do)}",
    ),
    *(
        "{df.describe(do)}",
        "{df['a'].sort_values(0, True, True)}",
        "{df.drop('a', axis=1, inplace=True)}",
        "{df.pop('a')}",
    ),
    *("{df.insert(0, 'z', 1)}", "{df.update(df)}", "{pd.read_pickle(path)}", "{pd.eval('@do()')}", "{np.load(path)}"),
    *("{x.sort()}", "{x.fill(0)}", "{x.resize(1)}", "{np.sqrt(x, out)}", "{x.sum(0, None, out)}", "{x.mean(out=out)}"),
    *(
        "{np.vectorize(do)(x)}",
        "{np.apply_along_axis(do, 0, x)}",
        "{np.round(x, 1, out)}",
        "{x.astype(do)}",
        "{x.data}",
    ),
    *(
        "{do()}",
        "{do(*items)}",
        "{do(**nested)}",
        "{(lambda: do())()}",
        "{[do() for v in items]}",
        "{max(items, key=do)}",
    ),
    *(
        "{sorted(items, key=do)}",
        "{any(do() for v in items)}",
        "{dict(a=do())}",
        "{print(n)}",
        "{eval('do()')}",
        "{exec(name)}",
    ),
    *("{__import__('os').system('touch made') or n}", "{getattr(os, 'system')(name)}", "{vars(os)['system'](name)}"),
    *(
        "{globals()['do']() or n}",
        "{locals() and n}",
        "{input(name)}",
        "{breakpoint() or n}",
        "{exit(n)}",
        "{get_ipython()}",
    ),
    *(
        "{name.__class__}",
        "{name.__class__.__mro__[1].__subclasses__()}",
        "{do.__globals__}",
        "{os._exit(n)}",
        "{e.__dict__}",
    ),
    *("{name.format(n)}", "{'{0.p}'.format(e)}", "{f'{do()}' + name}", "{f'{e}' + name}", "{name % e}", "{'%s' % e}"),
    *(
        "{e.p}",
        "{e.q}",
        "{e()}",
        "{e[0]}",
        "{e['p']}",
        "{-e}",
        "{~e}",
        "{e + 1}",
        "{1 + e}",
        "{e * 2}",
        "{2 * e}",
        "{e ** 2}",
    ),
    *(
        "{e - e}",
        "{e % 2}",
        "{name + e}",
        "{e == 1}",
        "{1 < e}",
        "{e in items}",
        "{1 in e}",
        "{e and 1}",
        "{not e}",
        "{n if e else 1}",
    ),
    *(
        "{e!r}",
        "{e!s}",
        "{e!a}",
        "{e:>9}",
        "{e:%Y}",
        "{len(e)}",
        "{str(e)}",
        "{int(e)}",
        "{float(e)}",
        "{bool(e)}",
        "{list(e)}",
    ),
    *(
        "{abs(e)}",
        "{round(e)}",
        "{sum(e)}",
        "{max(e)}",
        "{sorted(e)}",
        "{set(e)}",
        "{dict(e)}",
        "{items[e]}",
        "{nested[e]}",
    ),
    *(
        "{x[e]}",
        "{df[e]}",
        "{df['a'] + e}",
        "{df['a'] == e}",
        "{x + e}",
        "{e + x}",
        "{x == e}",
        "{np.mean(e)}",
        "{math.sqrt(e)}",
    ),
    *(
        "{odd['key'].p}",
        "{odd['key'] + 1}",
        "{objects == objects}",
        "{1 in objects}",
        "{sorted(objects)}",
        "{sum(objects)}",
    ),
    *(
        "{objects.count(1)}",
        "{objects.index(1)}",
        "{max(objects)}",
        "{set(objects)}",
        "{' '.join(objects)}",
        "{objects[0] + 1}",
    ),
    *(
        "{series_of_objects.sum()}",
        "{series_of_objects + 1}",
        "{series_of_objects == 1}",
        "{series_of_objects.unique()}",
    ),
    *(
        "{series_of_objects.describe()}",
        "{series_of_objects.mean()}",
        "{array_of_objects.sum()}",
        "{array_of_objects == 1}",
    ),
    *(
        "{array_of_objects + 1}",
        "{np.unique(array_of_objects)}",
        "{greedy.p}",
        "{greedy.x}",
        "{missing['a']}",
        "{defaults['a']}",
    ),
    *("{defaults[n]}", "{describing.described}", "{describing_class.described}", "{frames.shape}", "{frames.mean()}"),
    *("{frames['a'].mean()}", "{pretender.shape}", "{pretender.mean()}", "{len(pretender)}", "{e.function()}"),
    *(
        "{items.append(1)}",
        "{items.sort()}",
        "{items.clear()}",
        "{items.pop()}",
        "{nested.pop('rows')}",
        "{nested.update(a=1)}",
    ),
    *(
        "{nested.setdefault('a', 1)}",
        "{queue.popleft()}",
        "{many.update(name)}",
        "{ordered.popitem()}",
        "{(y := n)}",
        "{[n := 1]}",
    ),
    *(
        "{colour.__class__}",
        "{point.tags.append(1)}",
        "{space.__dict__.clear()}",
        "{when.__reduce__()}",
        "{when.astimezone(e)}",
    ),
    *(
        "{name:{do()}}",
        "{n:{e.p}}",
        "{n:>{do()}}",
        "{await do()}",
        "{(yield n)}",
        "{*items}",
        "{**nested}",
        "{n!r:{do()}}",
    ),
    *(
        "$e",
        "$objects",
        "$odd",
        "$greedy",
        "$series_of_objects",
        "$array_of_objects",
        "{e}",
        "{objects}",
        "{odd}",
        "{greedy}",
    ),
    *("$do", "{do}", "$describing", "$frames", "{path.exists()}", "{path.read_text()}", "{path / e}", "{e / path}"),
]
TOO_MUCH = [
    *(
        "{10 ** 10 ** 8}",
        "{n ** n ** n}",
        "{'a' * 10 ** 10 + name}",
        "{name * 10 ** 9}",
        "{[n] * 10 ** 9}",
        "{n << 10 ** 9}",
    ),
    *(
        "{n:999999999d}",
        "{n:.999999999f}",
        "{'%999999999d' % n}",
        "{list(range(n * 10 ** 9))}",
        "{sum(range(n * 10 ** 9))}",
    ),
    *("{0.5 in range(n * 10 ** 9)}", "{round(n, -10 ** 9)}", "{x[:, :, None, None] * out.reshape(1, 1, 1, 6)}"),
    *(
        "{name.ljust(10 ** 9)}",
        "{name.center(10 ** 9)}",
        "{name.replace('', text)}",
        "{text.join(text)}",
        "{name.zfill(10 ** 9)}",
    ),
    *(
        "{sum([[n]] * 1000000, [])}",
        "{math.factorial(10 ** 7)}",
        "{np.zeros(10 ** 11)}",
        "{x @ x.T}",
        "{x.repeat(10 ** 9)}",
    ),
]
LOOKING = {
    "{df.shape}": "(3, 3)",
    "{len(df)} {len(items)} {len(name)} {len(nested['rows'])}": "3 3 3 2",
    '{df["a"].mean():.2f} {df.a.sum()}': "2.17 6.5",
    "{list(df.columns)}": "['a', 'b', 'big']",
    "{df['b'].nunique()} {df['a'].max()} {df.b.isna().sum()}": "2 3.5 1",
    "{df.iloc[0, 0]} {df.loc[1, 'b']} {df['a'][0]}": "1.0 y 1.0",
    "{df[df['a'] > 1.5].shape} {df[['a', 'big']].shape}": "(2, 3) (3, 2)",
    "{df.groupby('b')['a'].mean()['x']}": "1.0",
    "{df['a'].round(1).tolist()} {df['a'].quantile(0.5)}": "[1.0, 2.0, 3.5] 2.0",
    "{df['a'].describe()['max']} {df.head(2).shape} {len(df.tail(1))}": "3.5 (2, 3) 1",
    "{df['b'].value_counts().shape}": "(2)",
    "{(df['a'] * 2 + 1).sum()} {df['a'].corr(df['big']):.3f}": "16.0 0.993",
    "{x.T.shape} {x.mean():.1f} {x[0, 1]} {x[0].sum()} {x.dtype} {x.size}": "(3, 2) 2.5 1.0 3.0 float64 6",
    "{np.mean(x)} {np.percentile(x, 50)} {np.round(x[0], 1).tolist()} {np.pi:.3f}": "2.5 2.5 [0.0, 1.0, 2.0] 3.142",
    "{math.sqrt(49)} {math.pi:.2f} {n / 2} {n % 2} {-n} {n ** 2}": "7.0 3.14 3.5 1 -7 49",
    "{n > 3} {3 < n < 5} {n not in items} {name == 'Ada'} {n is None}": "True False True True False",
    "{name.upper()} {name[0]} {name!r} {name:>5} {', '.join(['x', name])}": "ADA A 'Ada'   Ada x, Ada",
    "{nested['rows'][1]['id']} {items[-1]} {items[1:]}": "2 2 [1, 2]",
    "{sorted(items)} {max(items)} {sum(items)}": "[1, 2, 3] 3 6",
    "{point.x} {point.tags[0]} {slotted.x} {space.rate:.0%} {colour.name} {colour.value} {e.held}": "3 a 4 50% RED 1 5",
    "{when:%Y-%m-%d} {when.year} {when.isoformat()}": "2026-01-02 2026 2026-01-02T03:04:00+00:00",
    "{amount:.1f} {amount * 2} {round(2.555, n - 6)}": "2.5 Decimal('5.00') 2.6",
    "{many['a']} {many.most_common(1)} {ordered['k']} {queue[0]} {list(nested)}": "2 [('a', 2)] 1 1 ['rows']",
    "{path.name} {path.suffix} {nested.get('none', n)} {n if items else 0} {name or n}": "made  7 7 Ada",
    "{str(n) + name} {int('5') + n} {'a' in name}": "7Ada 12 True",
    "{df[['a', 'b']].shape} {df.loc[[0, 2], 'a'].sum()} {df.iloc[[2, 1]].shape} {df[[True, False, True]].shape}": (
        "(3, 2) 4.5 (2, 3) (2, 3)"
    ),
    "{x[[1, 0]].shape} {x[:, [0, 2]].tolist()} {x[x > 2].size}": "(2, 3) [[0.0, 2.0], [3.0, 5.0]] 3",
    "$n {n} {n!r} {n:05.1f} $name": "7 7 7 007.0 Ada",
}


@pytest.fixture
def namespace(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    return variables(tmp_path)


def state(namespace: dict[str, Any]) -> list[str]:
    return [
        *(
            str(namespace[name])
            for name in ("items", "nested", "point", "space", "queue", "many", "ordered", "defaults")
        ),
        *(repr(namespace[name].tolist()) for name in ("x", "out")),
        namespace["df"].to_csv(),
        ",".join(namespace),
    ]


def filled(text: str, namespace: dict[str, Any]) -> Interpolated:
    """Fill values in; what has to be computed is computed here, as a copy of the kernel does it."""
    found = interpolate(text, namespace, for_prompt).to_compute
    values = {each: eval(code_of(each), dict(namespace)) for each in found}
    computed = {each: Computed(written(each, value, for_prompt)) for each, value in values.items()}
    return interpolate(text, namespace, for_prompt, computed)


@pytest.mark.parametrize("text", RUNNING)
def test_no_code_runs_for_a_prompt(text: str, namespace: dict[str, Any], tmp_path: pathlib.Path) -> None:
    before = state(namespace)
    ran.clear()
    said = interpolate(f"explain this: {text}", namespace, for_prompt)
    assert ran == []
    assert [*tmp_path.iterdir()] == []
    assert state(namespace) == before
    assert said.text.startswith("explain this: ")


LOOKS = [
    *(
        "${}",
        "{{{}}}",
        "{{{}!r}}",
        "{{{}:>5}}",
        "{{[{}]}}",
        "{{str({})}}",
        "{{list({})}}",
        "{{len({})}}",
        "{{{}['a']}}",
    ),
    *("{{{}[0]}}", "{{{}.a}}", "{{{}.loc['a']}}", "{{{}.iloc[0]}}", "{{{} + 1}}", "{{{} == 1}}", "{{1 in {}}}"),
    *("{{{}.sum()}}", "{{{}.unique()}}", "{{{}.value_counts()}}", "{{{}.describe()}}", "{{{}.sort_index()}}"),
    *("{{{}.head()}}", "{{{}.groupby('c').size()}}", "{{{}.get('a')}}", "{{{}.keys()}}", "{{{}.T}}", "{{{}.index}}"),
    *("{{sorted({})}}", "{{set({})}}", "{{dict({})}}", "{{np.unique({})}}", "{{df[{}]}}", "{{x[{}]}}", "{{df.a + {}}}"),
    *("{{nested[{}]}}", "{{{}.isoformat()}}", "{{{}.strftime('%Y')}}", "{{{}.timestamp()}}", "{{when - {}}}"),
    *("{{{}.shape}}", "{{{}.dtypes}}", "{{{}.name}}", "{{{}.memory_usage()}}", "{{{}.reset_index()}}", "{{{}['c']}}"),
]
NAMES = [
    *("by_object", "columns", "named", "index_named", "category", "categories", "sparse", "levels", "labels", "array"),
    *("zoned", "zoned_time", "date", "arrays", "noted", "noted_column", "own_frame", "own_column"),
]


@pytest.mark.parametrize("name", NAMES)
def test_no_label_category_or_zone_of_data_is_asked(name: str, namespace: dict[str, Any]) -> None:
    namespace |= labelled()
    for look in LOOKS:
        ran.clear()
        interpolate(look.format(name), namespace, for_prompt)
        assert ran == [], look
    describe(namespace[name], name)
    assert ran == []


REPEATED = [
    "{wide[[0] * 900].shape}",
    "{wide[[0] * 900, :].sum()}",
    "{wide[:, [0] * 90000000].shape}",
    "{wide[positions].shape}",
    "{wide.T[[[0] * 1000] * 1000].shape}",
    "{frame[['a'] * 90000].shape}",
    "{frame.loc[[0] * 900000].shape}",
    "{frame.iloc[[0] * 900000].shape}",
    "{days.dt.strftime('x' * 100000).size}",
    "{np.quantile(wide, [0.5] * 9000, axis=0).shape}",
    "{frame.quantile([0.5] * 100000).shape}",
]


@pytest.mark.parametrize("text", REPEATED)
def test_a_selection_makes_not_much_more_than_there_is(text: str, namespace: dict[str, Any]) -> None:
    namespace["wide"] = np.zeros((10, 100_000))
    namespace["positions"] = np.zeros(100_000, dtype=int)
    namespace["frame"] = pd.DataFrame({name: np.zeros(50_000) for name in "abcdefghijklmnopqrstuvwxyz"})
    namespace["days"] = pd.Series(pd.date_range("2020", periods=100_000, freq="min"))
    said = interpolate(text, namespace, for_prompt)
    assert said.text == text
    assert said.to_compute == [text]


@pytest.mark.parametrize("text", TOO_MUCH)
def test_no_expression_takes_all_the_time_or_memory(text: str, namespace: dict[str, Any]) -> None:
    said = interpolate(text, namespace, for_prompt)
    assert said.text == text or len(said.text) < 30_000


@pytest.mark.parametrize("text", LOOKING)
def test_data_can_be_looked_at(text: str, namespace: dict[str, Any]) -> None:
    expected = LOOKING[text]
    said = filled(text, namespace)
    assert said.kept == {}
    assert said.text == expected


def test_plain_notes_and_plain_subclasses_of_frames_are_shown(namespace: dict[str, Any]) -> None:
    class Table(pd.DataFrame):
        def total(self) -> float:
            return 0.0

    noted = namespace["df"].copy()
    noted.attrs = {"source": {"file": "a.csv", "rows": [1, 2], "at": dt.date(2026, 1, 2)}}
    namespace |= {"noted": noted, "table": Table({"a": [1, 2]})}
    text = filled("{noted} {noted.a.sum()} {table}", namespace).text
    assert "3.5" in text
    assert "6.5" in text
    assert text.count("rows") == 2


def test_values_are_bounded_each_and_together(namespace: dict[str, Any]) -> None:
    one = interpolate("{text}", namespace, for_prompt).text
    assert len(one) < 21_000
    assert one.endswith("(2980000 more characters)")
    many = interpolate("{text}{n}" * 2_000, namespace, for_prompt)
    assert len(many.text) < 1_100_000
    assert set(many.kept.values()) == {"there are too many values in this prompt"}


def test_what_is_refused_stays_and_is_told(namespace: dict[str, Any]) -> None:
    text = "a {os.system('x')} b {e.p} c {items[9]} d {n}"
    said = interpolate(text, namespace, for_prompt, {"{e.p}": Computed(problem="it failed")})
    assert said.text == "a {os.system('x')} b {e.p} c {items[9]} d 7"
    assert said.kept == {
        "{os.system('x')}": "it has to be computed",
        "{e.p}": "it failed",
        "{items[9]}": "IndexError: list index out of range",
    }
    assert said.to_compute == ["{os.system('x')}"]
