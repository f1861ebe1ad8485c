"""What passes without a question: nothing that writes, runs, connects or reads keys is among it."""

from __future__ import annotations

import builtins
import datetime as dt
import enum
import shutil
import typing
from typing import Any

import numpy as np
import pandas as pd
import pytest

from indus_nb.notebook.kernel.harmless import only_looks
from indus_nb.notebook.kernel.inside import stays_inside


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("it was asked")

    def __hash__(self) -> int:
        raise AssertionError("it was asked")

    def __repr__(self) -> str:
        raise AssertionError("it was asked")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"it was asked for {name}")


class Frame(pd.DataFrame):
    pass


class Zone(dt.tzinfo):
    def utcoffset(self, _date: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(0)

    def dst(self, _date: dt.datetime | None) -> None:
        raise AssertionError("it was asked")

    def tzname(self, _date: dt.datetime | None) -> str:
        raise AssertionError("it was asked")


def with_method(method: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"x": [1]})
    vars(frame)["describe"] = method
    return frame


def with_attributes() -> pd.DataFrame:
    frame = pd.DataFrame({"x": [1]})
    frame.attrs["x"] = Hostile()
    return frame


def nested_objects() -> Any:
    array = np.empty(1, dtype=object)
    array[0] = held_objects()
    return array


def zoned() -> Any:
    dates: Any = pd.DatetimeIndex(["2020"])
    return dates.tz_localize(Zone())


def held_objects() -> Any:
    array = np.empty(1, dtype=object)
    array[0] = Hostile()
    return array


NAMES: dict[str, Any] = {
    "sales": pd.DataFrame({"units": [1, 2], "city": ["a", None]}),
    "array": np.arange(4),
    "number": 3,
    "text": "x",
    "hostile": Hostile(),
    "held": pd.Series(held_objects()),
    "objects": held_objects(),
    "frame": Frame({"x": [1]}),
    "pd": pd,
    "np": np,
    "function": print,
    "items": [1],
    "patched": with_method(print),
    "attributes": with_attributes(),
    "nested": nested_objects(),
    "dates": pd.Series([dt.datetime(2020, 1, 1, tzinfo=Zone())], dtype=object),
    "zones": pd.Series(zoned()),
    "zoned": pd.DataFrame({"x": [1]}, index=zoned()),
    "sparse": pd.Series(pd.arrays.SparseArray(held_objects())),
    "dated": pd.Series(pd.Categorical([dt.datetime(2020, 1, 1, tzinfo=Zone())])),
    "many": pd.DataFrame({"units": np.arange(200_000), "city": ["a"] * 200_000}),
    "long": np.arange(200_000),
    "row": np.zeros((1, 200_000)),
    "places": np.zeros(200_000, dtype=int),
    "repeated": pd.Series(1.0, index=np.zeros(20_000, dtype=int)),
    "again": pd.Series(np.zeros(20_000, dtype=int)),
    "wide": pd.DataFrame(np.zeros((2, 6_000))),
    "groups": pd.DataFrame(
        {"a": pd.Categorical.from_codes([0], range(6_000)), "b": pd.Categorical.from_codes([0], range(6_000)), "c": [1]}
    ),
    "flags": pd.DataFrame({"yes": [True] * 6_000, "n": range(6_000)}),
    "enum": enum,
    "shutil": shutil,
    "typing": typing,
}


@pytest.mark.parametrize(
    "code",
    [
        *("sales.shape", "sales.describe()", "sales.isna().sum()", "sales", "sales.head(3)", "sales['units'].mean()"),
        *(
            "sales.units.sum()",
            "sales[sales.units > 1]",
            "len(sales)",
            "print(sales.dtypes)",
            "array.max()",
            "number + 1",
        ),
        *("sales.groupby('city')['units'].mean()", "sales.iloc[0]", "sales.sort_values('units', ascending=False)"),
        *("sales.units * 2", "sales['units'] * 2", "sales.city + 'x'", "many.units.mean() * 100", "long * 2 + 1"),
        *("many.units / many.units.sum()", "many.units.isna().sum() / len(many)", "many[many.units > 3].describe()"),
        *("(many.units > 1) & (many.units < 5)", "many.units - many.units.mean()", "many.shape[0] * 2"),
        *("many[['units', 'city']]", "many[~(many.units > 3) & many.city.isna()]", "long[long > 3]", "sales.corr()"),
        *("sales.groupby('city').units.mean()", "sales.groupby('city').units.describe().round(1)"),
        *("groups.groupby(['a', 'b'], observed=True).count()", "number", "round(number, 2)", "sales.round(-1)"),
        *("flags[flags.yes]", "flags[~flags['yes']]", "flags.n[flags.yes]"),
        *("row[0]", "many.iloc[[0, 1, -1]]", "wide.describe()", "groups.head()"),
        *("sales.groupby('city').units.mean()", "sales[sales.units > 1].groupby('city').units.sum().sort_values()"),
        *("sales.head(2).units", "many[many.units > 3].units.max()", "sales[1:].units", "sales.units.agg('mean')"),
        *("sales.groupby('city').units.agg(['mean', 'sum'])", "sales.groupby('city').agg({'units': ['min', 'max']})"),
    ],
)
def test_expressions_that_only_look_are_known(code: str) -> None:
    assert only_looks(code, NAMES, str)


@pytest.mark.parametrize(
    "code",
    [
        *("", "x = 1", "sales = 1", "del sales", "sales['a'] = 1", "sales.units += 1", "import os", "(y := 1)"),
        *(
            "sales.to_csv('x')",
            "sales.drop(columns='units', inplace=True)",
            "sales.pop('units')",
            "sales.eval('a = 1')",
        ),
        *(
            "sales.query('@pd.io.common.os.system(1)')",
            "sales.apply(print)",
            "sales.pipe(print)",
            "sales.agg('to_csv')",
        ),
        *("sales.apply('to_csv')", "sales.map(print)", "sales.sort_values('units', key=print)", "sales.plot()"),
        *("sales.sort_values('units', inplace=True)", "sales.style", "sales.attrs", "sales._mgr", "sales.__class__"),
        *("sales.head.__globals__", "pd.read_csv('x')", "pd.io", "np.load('x')", "np.save('x', array)", "open('x')"),
        *("eval('1')", "exec('1')", "__import__('os')", "getattr(sales, 'to_csv')", "function(1)", "print(1, file=x)"),
        *(
            "array.tofile('x')",
            "array.dump('x')",
            "array.sort()",
            "array.fill(1)",
            "array.max(0, array)",
            "array.sum(out=array)",
        ),
        *("hostile", "hostile.x", "hostile + 1", "hostile == 1", "held", "held.sum()", "held == 1", "objects.sum()"),
        *("frame.shape", "items.append(1)", "text * 10 ** 10", "'a' * 10000000000", "9 ** 9 ** 9", "lambda: 1"),
        *(
            "[x for x in sales]",
            "f'{hostile}'",
            "await x",
            "sales.loc[function]",
            "sales[lambda d: d]",
            "max(items, key=print)",
        ),
        *(
            "get_ipython().system('x')",
            "sales.info(buf=x)",
            "sales.to_numpy(out=array)",
            "sales if 1 else 2",
            "_",
            "__name__",
        ),
        *(
            "sorted(sales, key=print)",
            "print(*sales)",
            "sales.head(*[1])",
            "text.format(hostile)",
            "missing",
            "sales.missing",
        ),
        *("patched.describe()", "attributes.head()", "nested", "dates", "zones", "zoned", "sparse", "dated"),
        *("sales.city * 1000000000", "'%1000000000d' % sales.units", "sales.shape * 1000000000", "sales * 1000000000"),
        *("sales.units.to_list() * 1000000000", "sales.city.max() * 1000000000", "sales.columns * 1000000000"),
        *(
            "long[:, None] * long",
            "many - many.mean(1)",
            "many.units - many.T",
            "many.T.corr()",
            "sales.idxmax() * 99",
        ),
        *(
            "row[places]",
            "row[:, places][places]",
            "row[places, :]",
            "repeated.loc[again]",
            "repeated[again]",
            "flags.loc[flags.n]",
        ),
        *("row[[0, 0, 0, 0, 0" + ", 0" * 100 + "]]", "repeated.loc[many.units]", "wide.corr()", "wide.cov()"),
        *("sales.groupby('city').apply", "sales.groupby('city').pipe.mean()"),
        *("sales.groupby('city')._obj", "array.groupby('city').units"),
        *("wide.groupby(0).corr()", "groups.groupby(['a', 'b']).count()", "groups[['a', 'b']].value_counts()"),
        *("groups.groupby(['a', 'b'], observed=False)['c'].sum()", "round(1, -1000000000)", "round(number, -number)"),
        *(
            "sales.units.agg('to_csv')",
            "sales.agg(['mean', 'to_csv'])",
            "sales.agg({'units': 'to_csv'})",
            "sales.agg(print)",
        ),
        *(
            "sales.agg('to_csv', axis=0)",
            "sales.agg(func='mean')",
            "sales.agg([])",
            "sales.agg(text)",
            "sales.agg(['mean', f])",
        ),
        *("sales.groupby('city').agg(lambda g: g)", "sales.groupby('city').apply", "sales.groupby('city').obj"),
        *(
            "sales.groupby('city').missing",
            "sales.head(2).attrs",
            "sales.iloc[0].units",
            "sales.T.units",
            "hostile.head().x",
        ),
        *("array.round(-1000000000)", "sales.round(decimals=-1000000000)", "round(1, number * number * -number)"),
    ],
)
def test_no_other_expression_passes_and_nothing_of_the_users_classes_is_asked(code: str) -> None:
    assert not only_looks(code, NAMES, str)


def test_functions_and_methods_that_somebody_replaced_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def replaced(*_arguments: object) -> None:
        raise AssertionError("it was called")

    assert not only_looks("len(text)", {**NAMES, "__builtins__": {"len": replaced}}, str)
    with monkeypatch.context() as patched:
        patched.setattr(builtins, "abs", replaced)
        assert not only_looks("abs(number)", NAMES, str)
    for name in ("describe", "__getitem__", "shape"):
        with monkeypatch.context() as patched:
            patched.setattr(pd.DataFrame, name, property(replaced) if name == "shape" else replaced)
            assert not only_looks("sales", NAMES, str), name
    assert only_looks("sales", NAMES, str)


@pytest.mark.parametrize(
    "code",
    [
        *(
            "x = sales.units.sum()",
            "sales['c'] = sales.units * 2",
            "import numpy as np\nnp.mean([1])",
            "y = [n for n in items]",
        ),
        *("sales = sales.rename(columns={'units': 'u'})", "sales.agg(['sum', 'mean'])", "sales.apply(lambda row: 1)"),
        *(
            "from sklearn.linear_model import LinearRegression",
            "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()",
        ),
        *(
            "np.random.default_rng(1).normal(size=3)",
            "np.random.rand(3)",
            "import random\nrandom.random()",
            "np.sin(1)",
        ),
        *("from functools import partial, reduce", "from collections import Counter", "import copy\ncopy.copy(items)"),
        *("function = [1]\nfunction[0]", "for a, b in zip(*[[1], [2]]):\n    print(a)", "np.linalg.norm([1]) * np.pi"),
    ],
)
def test_code_that_stays_inside_is_known(code: str) -> None:
    assert stays_inside(code, NAMES, str)


@pytest.mark.parametrize(
    "code",
    [
        *("import os", "from os import system", "import numpy.f2py", "from numpy import load", "from numpy import *"),
        *(
            "open('x', 'w')",
            "sales.to_csv('x')",
            "pd.read_csv('x')",
            "pd.io.common.os.system('x')",
            "np.save('x', array)",
        ),
        *(
            "plt.savefig('x')",
            "__import__('os')",
            "getattr(pd, 'read' + '_csv')",
            "eval('1')",
            "exec('1')",
            "().__class__",
        ),
        *("globals()['x'] = 1", "function('x')", "hostile.x", "held.sum()", "frame.x", "get_ipython().system('x')"),
        *(
            "sales.query('x')",
            "sales.eval('x')",
            "sales.apply('to_csv')",
            "sales.agg('to_' + 'csv')",
            "sales.pipe(print)",
        ),
        *(
            "name = 'to_csv'\nsales.apply(name)",
            "sales.agg(x=('units', 'to_csv'))",
            "class A: pass",
            "async def f(): pass",
        ),
        *(
            "from . import x",
            "np.DataSource().open('x')",
            "model.fit(n_jobs=-1)",
            "np.random._pickle.os",
            "pd.ExcelWriter('x')",
        ),
        *(
            "import statsmodels.api as sm\nsm.datasets.get_rdataset('x')",
            "array.tofile('x')",
            "sales.serialize('x')",
            "pd.show_versions(as_json='x')",
        ),
        *("enum.bltns.getattr(pd, 'read_' + 'csv')('x')", "import json.tool\njson.tool.Path('x').unlink()"),
        *("typing.get_type_hints(1)", "import string\nstring.Formatter().get_field('0.io', (pd,), {})"),
        *("if 0:\n    shutil = 1\nshutil.rmtree('x')", "def f(shutil): pass\nshutil.which('x')", "f = shutil.which"),
        *("shutil.which('x')\nshutil = 1", "match np:\n    case object(save=f):\n        f('x', array)"),
        *("sales.plot(backend='evil')", "sales.plot(**{'backend': 'evil'})", "h = sales.hist\nh(*items)"),
        *("import matplotlib.pyplot as plt\nplt.switch_backend('module://evil')", "plt.text(0, 0, 'x', usetex=True)"),
        *("pd.option_context('plotting.backend', 'evil')", "display({'application/javascript': 'x'}, raw=True)"),
        *("from statistics import itemgetter", "from sklearn.utils.metaestimators import attrgetter"),
        *(
            "make_pipeline(1, memory='x')",
            "sales.hist(1, 2, 3, 4, 5, 6, 7, 8, 'evil')",
            "import json\njson.codecs.lookup('x')",
            "import plotly.io as io\nio.write_html(1, 'x')",
        ),
    ],
)
def test_what_could_reach_files_programs_or_the_network_does_not_count_as_inside(code: str) -> None:
    assert not stays_inside(code, NAMES, str)
