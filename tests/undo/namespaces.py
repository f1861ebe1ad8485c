"""Random namespaces, random programs over them, and portraits of namespaces that know what is shared."""

from __future__ import annotations

import enum
import hashlib
import os
import random
import sys
import types
from collections import defaultdict, deque
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HAS = {name: find_spec(name) is not None for name in ("numpy", "pandas", "polars", "sklearn")}

BEGINNING = """
import random, sys, os
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from functools import partial, lru_cache
events = []
total = 0
class Account:
    opened = []
    limit = 10
    def __init__(self, owner):
        self.owner, self.entries = owner, [owner]
        Account.opened.append(owner)
    def book(self, amount):
        self.entries.append(amount)
        events.append(amount)
        return self
    @property
    def last(self):
        return self.entries[-1]
    @last.setter
    def last(self, amount):
        self.entries[-1:] = [amount]
    @classmethod
    def forget(cls):
        cls.opened.clear()
    @staticmethod
    def note(text):
        events.append(text)
class Saving(Account):
    __slots__ = ("rate",)
    def __init__(self, owner):
        super().__init__(owner)
        self.rate = 0.5
class Point:
    __slots__ = ("x", "y", "__weakref__")
    def __init__(self, x):
        self.x = x
class Stack(list):
    def __init__(self, *given):
        super().__init__(given)
        self.pushed = len(given)
    def push(self, one):
        self.pushed += 1
        self.append(one)
class Register(dict):
    def __missing__(self, key):
        events.append(key)
        return key
@dataclass
class Order:
    number: int
    lines: list = field(default_factory=list)
def count_up(by=1):
    global total
    total += by
    return total
def counter():
    seen, value = [], 0
    def tick(more=1):
        nonlocal value
        value += more
        seen.append(value)
        return value
    def peek():
        return value, seen
    return tick, peek
tick, peek = counter()
def collect(one, into=[]):
    into.append(one)
    return into
@lru_cache
def squared(x):
    return x * x
"""
PLAIN = {
    "lst": ["[]", "[1, 2, 3]", "[[1], [2, [3]], 'x']", "[None, 2.5, (1, [2])]", "list(range(70))", "Stack(4, [5])"],
    "dct": [
        "{}",
        "{'a': 1, 'b': [2]}",
        "{1: {2: {3: []}}}",
        "OrderedDict(z=1, y=[2], x=3)",
        "defaultdict(list, k=[1])",
        "Counter('banana')",
        "Register(a=[1])",
    ],
    "grp": ["set()", "{1, 2, (3, 4)}", "{'a', None}"],
    "que": ["deque([1, [2], 3], maxlen=6)", "deque()"],
    "obj": ["Account('ann')", "Saving('bob')", "Order(1, [2])", "Point([1])", "Point({})"],
    "fun": ["tick", "counter()[0]", "Account('eve').book", "partial(collect, into=events)", "collect", "squared"],
    "val": ["5", "'text'", "(1, [2], {'k': [3]})", "bytearray(b'abc')", "None", "frozenset([1])", "1.5"],
    "rnd": ["random.Random(3)"],
}
NUMPY = {
    "arr": [
        "np.arange(12.)",
        "np.zeros((3, 4))",
        "np.ones(6, dtype=int)",
        "np.asfortranarray(np.arange(12.).reshape(3, 4))",
        "np.array(['a', 'bb', 'c'])",
        "np.array([[1], 'x', {'k': 1}, None], dtype=object)",
        "np.arange(24.)[::2]",
        "np.array([(1, 2.0), (3, 4.0)], dtype=[('i', 'i4'), ('f', 'f8')])",
        "np.array(3.0)",
        "np.arange(6).reshape(2, 3).T",
        "np.array(['2020-01-01', 'NaT'], dtype='M8[D]')",
        "np.frombuffer(bytearray(b'12345678'), dtype='u1')",
        "np.ma.masked_array([1., 2., 3.], mask=[0, 1, 0])",
        "np.array([True, False, True])",
    ],
    "gen": ["np.random.default_rng(1)", "np.random.RandomState(2)", "np.random.Generator(np.random.MT19937(4))"],
}
PANDAS = {
    "frm": [
        "pd.DataFrame({'a': [3, 1, 2], 'b': [1.0, np.nan, 3.0], 's': list('xyz')})",
        "pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list('pqr'))",
        "pd.DataFrame({'t': pd.date_range('2021', periods=3), 'c': pd.Categorical(list('uvu')), 'o': [[1], {}, None]})",
        "pd.DataFrame({'i': pd.array([1, None], dtype='Int64'), 'a': [1, 2]}, index=pd.Index(list('kl'), name='id'))",
        "pd.DataFrame({'v': range(4)}, index=pd.MultiIndex.from_product([[1, 2], ['x', 'y']], names=['n', 'm']))",
        "pd.DataFrame({'b': [True, False], 'z': pd.to_datetime(['2020', None], utc=True)})",
    ],
    "ser": [
        "pd.Series([1.0, 2.0, 3.0], name='one')",
        "pd.Series(list('abc'))",
        "pd.Series([[1], [2]], index=['x', 'y'])",
        "pd.Series(pd.array([1, 2, None], dtype='Int64'))",
    ],
}
POLARS = {
    "plf": [
        "pl.DataFrame({'a': [1, 2, 3], 's': ['x', None, 'z']})",
        "pl.DataFrame({'f': [1.5, float('nan')], 'l': [[1], [2, 3]]})",
    ],
    "pls": ["pl.Series('q', [1.5, None, 2.0])", "pl.Series('t', ['a', 'b'])"],
}
MODELS = {
    "mod": [
        "LinearRegression().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.5])",
        "DecisionTreeClassifier(max_depth=2, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 1])",
        "make_pipeline(StandardScaler(), LinearRegression()).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.5])",
    ],
}
ACTIONS = {
    "lst": [
        *(
            "{v}.append({o})",
            "{v}.extend([7, [8]])",
            "{v}[:0] = [9]",
            "{v}.clear()",
            "{v}.reverse()",
            "{v}.pop()",
            "{v} += [{o}]",
        ),
        *(
            "del {v}[::2]",
            "{v}.sort(key=repr)",
            "{v}[0] = {o}",
            "{v} *= 2",
            "{v}.insert(1, {v})",
            "{v} = {v} + [1]",
            "{v}.push({o})",
        ),
        *("{v}[0].append(4)", "{v}[1][0] = 'in'", "{v}.extra = [1]", "random.shuffle({v})"),
    ],
    "dct": [
        *(
            "{v}['n{i}'] = {o}",
            "{v}.clear()",
            "{v}.update(a=2, zz=[])",
            "{v}.popitem()",
            "{v}['b'].append(3)",
            "{v}['me'] = {v}",
        ),
        *(
            "{v}['a'] = {v}.pop('a')",
            "{v}['k'].append({o})",
            "{v}.move_to_end('z')",
            "{v}.subtract('ab')",
            "{v}['lacking']",
        ),
        *(
            "del {v}['a']",
            "{v} |= {{'or': 1}}",
            "{v}.default_factory = set",
            "{v}[1][2][3].append(1)",
            "{v} = dict({v})",
        ),
    ],
    "grp": ["{v}.add({i})", "{v}.clear()", "{v} |= {{5, 6}}", "{v}.discard(1)", "{v} -= {{2}}", "{v} = {v} | {{1}}"],
    "que": [
        "{v}.append({o})",
        "{v}.rotate()",
        "{v}.popleft()",
        "{v}.clear()",
        "{v}.extendleft([1, 2])",
        "{v}[1].append(2)",
    ],
    "obj": [
        *(
            "{v}.book({i})",
            "{v}.entries.append({o})",
            "{v}.new{i} = {o}",
            "{v}.last = {o}",
            "del {v}.owner",
            "{v}.forget()",
        ),
        *(
            "{v}.rate = {i}",
            "del {v}.rate",
            "{v}.x.append(1)",
            "{v}.y = {o}",
            "del {v}.x",
            "{v}.lines.append({v})",
            "{v}.number += 1",
        ),
        *(
            "{v}.__dict__.clear()",
            "{v}.__dict__ = {{'owner': 1}}",
            "{v}.note({i})",
            "{v}.__class__ = Account",
            "vars({v})['w'] = 1",
        ),
        *(
            "Account.opened.append({i})",
            "Account.new{i} = []",
            "Account.limit = {o}",
            "del Account.limit",
            "Account.book = lambda self, a: a",
        ),
    ],
    "fun": [
        *(
            "{v}({i})",
            "{v}({i})",
            "{v}.tag = [1]",
            "{v}.tag.append(2)",
            "count_up()",
            "count_up({i})",
            "tick()",
            "peek()[1].append({i})",
        ),
        *(
            "collect.__defaults__[0].append(1)",
            "collect.__defaults__ = ([],)",
            "tick.__closure__[0].cell_contents = [{i}]",
            "collect({o})",
        ),
        *("collect.__code__ = (lambda one, into: one).__code__", "tick, peek = counter()", "squared({i})"),
    ],
    "val": [
        "{v} = {o}",
        "{v} += {v}",
        "{v}[1].append({o})",
        "{v}[2]['q'] = {v}",
        "{v}[0] = 65",
        "{v} += b'x'",
        "{v}.extend(b'yz')",
    ],
    "rnd": ["{v}.random()", "{v}.seed({i})", "random.random()", "random.seed({i})"],
    "arr": [
        *(
            "{v}[...] = 0",
            "{v}.sort()",
            "{v}.flat[0] = 5",
            "{v} += 1",
            "np.negative({v}, out={v})",
            "{v}[1:] = {v}[:-1]",
            "{v}[0] = {o}",
        ),
        *(
            "{v} = {v} * 2",
            "{v}.shape = (-1,)",
            "{v}.T[-1:] = 3",
            "{v}['f'] = 9",
            "{v}.setflags(write=False)",
            "np.random.shuffle({v})",
        ),
        *(
            "{v}[2]['z'] = 1",
            "{v}[0].append(2)",
            "{v}.fill(1)",
            "{v}[::2] = 4",
            "new{i} = {v}[1:]",
            "{v}.mask[0] = True",
            "{v}[1] = np.ma.masked",
        ),
        *(
            "{v}[0] = np.datetime64('2022-02-02')",
            "np.copyto({v}, {v}[::-1])",
            "{v}.base[0] = 66",
            "np.put({v}, [0], 8)",
        ),
    ],
    "gen": [
        "{v}.random()",
        "{v}.normal(size=3)",
        "{v}.shuffle({o})",
        "np.random.rand()",
        "np.random.seed({i})",
        "{v}.integers(9)",
    ],
    "frm": [
        *(
            "{v}['n{i}'] = {i}",
            "{v}.iloc[0, 0] = {v}.iloc[-1, 0]",
            "{v}.drop(columns={v}.columns[0], inplace=True)",
            "{v}.iloc[:, 0] += 1",
        ),
        *(
            "{v}.columns = [f'c{{j}}' for j in range({v}.shape[1])]",
            "{v}.index.name = 'label'",
            "{v}.insert(0, 'i{i}', range(len({v})))",
        ),
        *(
            "{v}.sort_values({v}.columns[0], inplace=True)",
            "{v}.pop({v}.columns[-1])",
            "{v}.fillna(0, inplace=True)",
            "{v} = {v}.head(1)",
        ),
        *("{v}[{v}.columns[0]] = {v}[{v}.columns[0]].astype(str)", "{v}.attrs['k'] = [1]", "{v}.attrs['k'].append(2)"),
        *(
            "{v}.reset_index(inplace=True)",
            "{v}.loc[{v}.index[0], {v}.columns[-1]] = None",
            "{v}.rename(columns=str.upper, inplace=True)",
        ),
        *(
            "{v} = pd.concat([{v}, {v}])",
            "{v}.replace({{1: 2}}, inplace=True)",
            "{v}.eval('e{i} = 1', inplace=True)",
            "{v}.at[{v}.index[0], 'w'] = 3",
        ),
        *(
            "{v}['o'].iloc[0].append(5)",
            "{v}['o'][1]['n'] = 1",
            "new{i} = {v}.iloc[1:]",
            "{v}.to_numpy()",
            "{v}.describe()",
            "{v}.copy()",
        ),
        *(
            "{v}.dropna(inplace=True)",
            "{v}.columns.name = 'cols'",
            "{v}['c'] = {v}['c'].cat.add_categories('new')",
            "{v}.index.names = ['r', 's']",
        ),
        *(
            "{v}.values[0] = 4",
            "{v}.iloc[0] = {v}.iloc[-1]",
            "{v}[{v}.columns[0]].iloc[0] = {v}.iloc[-1, 0]",
            "{v}.set_index({v}.columns[0], inplace=True)",
        ),
        *(
            "{v}.where({v} == 1, 0, inplace=True)",
            "{v}.mask({v} == 1, inplace=True)",
            "{v}['lst'] = [[1]] * len({v})",
            "{v}.flags.allows_duplicate_labels = False",
        ),
    ],
    "ser": [
        *(
            "{v}.iloc[0] = {v}.iloc[-1]",
            "{v}.name = 'other'",
            "{v}.sort_values(inplace=True, ascending=False)",
            "{v}[{v}.index[0]] = 5",
        ),
        *(
            "{v}.iloc[0].append(3)",
            "{v}.index = range(5, 5 + len({v}))",
            "{v} = {v} * 2",
            "{v}.dropna(inplace=True)",
            "{v}.pop({v}.index[0])",
        ),
        *(
            "{v}.update(pd.Series([9]))",
            "{v}.array[0] = {v}.array[1]",
            "{v}.loc['more'] = 1",
            "{v} += {v}",
            "{v}.attrs['x'] = 1",
        ),
    ],
    "plf": [
        *(
            "{v}[0, 0] = {v}[1, 0]",
            "{v}.columns = ['m', 'n']",
            "{v}.insert_column(0, pl.Series('i{i}', [0] * {v}.height))",
            "{v} = {v}.head(1)",
        ),
        *(
            "{v}.extend({v})",
            "{v}.replace_column(0, pl.Series('r', [5] * {v}.height))",
            "{v}.drop_in_place({v}.columns[0])",
            "{v}.vstack({v}, in_place=True)",
        ),
    ],
    "pls": [
        "{v}[0] = {v}[1]",
        "{v} = {v}.sort()",
        "{v}.append({v})",
        "{v}.rename('w')",
        "{v}.extend({v})",
        "{v}.set_sorted()",
    ],
    "mod": [
        "{v}.fit([[0.0], [1.0]], [1, 0])",
        "{v}.coef_[0] = 7",
        "{v}.set_params(n_jobs=2)",
        "{v}.more = [1]",
        "{v}.steps.append(1)",
        "{v}.predict([[1.0]])",
    ],
}
ANYWHERE = [
    *(
        "{a} = {o}",
        "del {a}",
        "new{i} = {o}",
        "new{i} = [{o}, {a}]",
        "{a} = None",
        "{a} = [{a}, 1]",
        "for q{i} in range(2): {a} = q{i}",
    ),
    *(
        "globals()['g{i}'] = {o}",
        "exec('total = 99')",
        "(lambda: events.append({i}))()",
        "events = []",
        "def collect(one): return one",
    ),
    *(
        "class Account: pass",
        "os.environ['INDUS_NB_UNDO'] = '{i}'",
        "sys.path.append('/nowhere')",
        "os.chdir('/')",
        "import json",
    ),
    *(
        "raise ValueError('stop')",
        "_private{i} = {o}",
        "try: {a}.append(1)\nexcept Exception: total += 1",
        "new{i} = lambda: {o}",
    ),
    *("import warnings; warnings.simplefilter('ignore', ImportWarning)", "[events.append(z) for z in range(2)]"),
]
LIBRARY = {
    "numpy": ["np.set_printoptions(precision=3)", "np.seterr(all='ignore')"],
    "pandas": ["pd.set_option('display.max_rows', 7)"],
}


def program(seed: int) -> tuple[str, list[str]]:
    """The code that makes a namespace, and pieces of code to run on it."""
    chance = random.Random(seed)
    kits = [PLAIN, *([NUMPY] * HAS["numpy"]), *([PANDAS] * HAS["pandas"]), *([POLARS] * HAS["polars"])]
    kits += [MODELS] if HAS["sklearn"] and chance.random() < 0.3 else []
    lines = [BEGINNING]
    lines += (
        ["import numpy as np"] * HAS["numpy"]
        + ["import pandas as pd"] * HAS["pandas"]
        + ["import polars as pl"] * HAS["polars"]
    )
    if MODELS in kits:
        lines += [
            "from sklearn.linear_model import LinearRegression",
            "from sklearn.tree import DecisionTreeClassifier",
        ]
        lines += ["from sklearn.pipeline import make_pipeline", "from sklearn.preprocessing import StandardScaler"]
    names: list[str] = []
    for kit in kits:
        for kind, makers in kit.items():
            for number in range(chance.randint(1, 2)):
                names.append(f"{kind}{number}")
                lines.append(f"{names[-1]} = {chance.choice(makers)}")
    for number in range(chance.randint(3, 10)):
        one, other = chance.choice(names), chance.choice(names)
        made = ["also{n} = {x}", "pair{n} = [{x}, {y}, {x}]", "held{n} = {{'p': {x}, 'q': {y}}}", "obj0.link{n} = {x}"]
        made += [
            "tup{n} = ({x}, {y})",
            "lst0.append({x})",
            "dct0['l{n}'] = {y}",
            "lam{n} = lambda: {x}",
            "def fn{n}(a={x}): return {y}",
        ]
        made += [
            "events.append({x})",
            "lst0.append(lst0)",
            "fun0.link = {x}",
            "part{n} = {x}[1:]",
            "turned{n} = {x}.T",
            "que0.append({y})",
        ]
        made += [
            "first{n} = {x}.iloc[:, 0]",
            "some{n} = {x}.iloc[1:]",
            "over{n} = pd.Series({x}, copy=False)",
            "meth{n} = {x}.append",
        ]
        line = chance.choice(made).format(n=number, x=one, y=other)
        lines.append(f"try:\n    {line}\nexcept Exception:\n    pass")
    return "\n".join(lines), [_piece(chance, names, number) for number in range(chance.randint(1, 3))]


def _piece(chance: random.Random, names: list[str], number: int) -> str:
    lines: list[str] = []
    for place in range(chance.randint(1, 8)):
        name = chance.choice(names)
        more = [line for library, found in LIBRARY.items() if HAS[library] for line in found]
        choices = ACTIONS[name[:3]] if chance.random() < 0.75 else [*ANYWHERE, *more]
        line = chance.choice(choices)
        line = line.format(v=name, a=chance.choice(names), o=chance.choice([*names, "1", "[2]"]), i=number * 10 + place)
        if chance.random() < 0.9 and "\n" not in line and not line.startswith(("def", "class", "for", "with")):
            line = f"try: {line}\nexcept Exception: pass"
        lines.append(line)
    return "\n".join(lines)


class Portrait:
    """All that can be told of a namespace: ``text``, and in ``identities`` which objects those are."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._memory: dict[int, int] = {}
        self.identities: list[int] = []
        self.text = [(name, self._see(namespace[name])) for name in sorted(namespace) if not name.startswith("__")]

    def _see(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in (int, float, complex, str, bytes, bool, type(None), range, slice) or isinstance(obj, enum.Enum):
            return kind.__name__, repr(obj)
        if (
            kind.__module__.partition(".")[0] in ("numpy", "pandas")
            and not hasattr(obj, "__dict__")
            and not any(hasattr(obj, name) for name in ("flat", "bit_generator", "get_state"))
        ):
            return kind.__name__, repr(obj)
        if isinstance(obj, types.ModuleType):
            return "module", obj.__name__
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ != "__main__":
            return "library", obj.__qualname__
        lasting = not isinstance(obj, (tuple, frozenset, types.MethodType, types.BuiltinFunctionType))
        if id(obj) in self._numbers:
            return "again", self._numbers[id(obj)]
        self._numbers[id(obj)] = len(self._numbers)
        self._alive.append(obj)
        if lasting:
            self.identities.append(id(obj))
        return kind.__qualname__, *self._inside(obj)

    def _inside(self, obj: Any) -> list[Any]:  # noqa: C901, PLR0911, PLR0912 - one for each kind of object
        found: list[Any] = []
        module = type(obj).__module__.partition(".")[0]
        if hasattr(obj, "__array_interface__") and hasattr(obj, "flat") and module == "numpy":
            found.append(self._array(obj))
            if module == "numpy" and type(obj).__name__ != "MaskedArray":
                return found
        elif module == "pandas" and hasattr(obj, "_mgr"):
            return self._frame(obj)
        elif module == "pandas" and hasattr(obj, "names"):
            return [repr([*obj]), repr([*obj.names]), str(obj.dtype)]
        elif module == "pandas" and hasattr(obj, "dtype"):
            return [repr(obj)]
        elif module == "polars":
            return [
                repr(obj.to_dict(as_series=False) if hasattr(obj, "height") else (obj.name, obj.dtype, obj.to_list())),
                repr(getattr(obj, "schema", "")),
            ]
        elif hasattr(obj, "bit_generator"):
            return [repr(obj.bit_generator.state)]
        elif hasattr(obj, "get_state") and module == "numpy":
            return [repr(obj.get_state(legacy=False))]
        elif isinstance(obj, random.Random):
            return [repr(obj.getstate())]
        elif isinstance(obj, dict):
            found += [(self._see(key), self._see(value)) for key, value in obj.items()]
            found.append(self._see(obj.default_factory) if isinstance(obj, defaultdict) else "")
        elif isinstance(obj, (list, tuple, deque)):
            found += [self._see(one) for one in obj] + [getattr(obj, "maxlen", None)]
        elif isinstance(obj, (set, frozenset)):
            found += [self._see(one) for one in sorted(obj, key=repr)]
        elif isinstance(obj, bytearray):
            found.append(bytes(obj))
        elif isinstance(obj, types.MethodType):
            return [self._see(obj.__self__), self._see(obj.__func__)]
        elif isinstance(obj, types.FunctionType):
            cells = [self._cell(cell) for cell in obj.__closure__ or ()]
            return [
                obj.__code__.co_code,
                obj.__qualname__,
                self._see(obj.__defaults__),
                self._see(obj.__kwdefaults__),
                self._see(vars(obj)),
                cells,
            ]
        elif isinstance(obj, type):
            skip = ("__dict__", "__weakref__", "__doc__", "__annotations__")
            return [
                (name, self._see(value))
                for name, value in sorted(vars(obj).items())
                if name not in skip
                and type(value).__name__ not in ("member_descriptor", "getset_descriptor")
                and not name.startswith(("__annot", "__static", "__first"))
            ]
        elif isinstance(obj, (property, staticmethod, classmethod)):
            return [self._see(getattr(obj, name, None)) for name in ("fget", "fset", "__func__")]
        elif hasattr(obj, "func") and hasattr(obj, "keywords"):
            return [self._see(obj.func), self._see(obj.args), self._see(obj.keywords)]
        elif isinstance(obj, types.BuiltinFunctionType):
            return [obj.__name__, self._see(obj.__self__)]
        for base in type(obj).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__weakref__", "__dict__"):
                    found.append((name, self._see(getattr(obj, name, "lacking"))))
        if hasattr(obj, "__dict__") and not isinstance(obj, types.MethodType):
            found.append(
                self._see(vars(obj))
                if module != "numpy"
                else [(name, self._see(value)) for name, value in sorted(vars(obj).items())]
            )
        return found

    def _cell(self, cell: Any) -> Any:
        try:
            return self._see(cell.cell_contents)
        except ValueError:
            return "empty"

    def _array(self, array: Any) -> Any:
        import numpy as np

        array = np.asarray(array)
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        address = root.__array_interface__["data"][0] if root.size else id(root)
        self._alive.append(root)
        place = self._memory.setdefault(address, len(self._memory))
        offset = array.__array_interface__["data"][0] - address if array.size and root.size else 0
        held = (
            [self._see(one) for one in array.flat]
            if array.dtype.hasobject
            else hashlib.sha256(array.tobytes()).hexdigest()
        )
        return place, offset, array.shape, array.strides, str(array.dtype), array.flags.writeable, held

    def _frame(self, frame: Any) -> list[Any]:
        import pandas as pd

        found: list[Any] = [self._see(axis) for axis in frame.axes]
        found += [
            repr(getattr(frame, "name", None)) if frame.ndim == 1 else "",
            self._see(frame.attrs),
            repr(frame.flags),
        ]
        for number in range(1 if frame.ndim == 1 else frame.shape[1]):
            column = frame if frame.ndim == 1 else frame.iloc[:, number]
            held = [self._see(one) for one in column.tolist()] if column.dtype == object else repr(column.tolist())
            found.append((str(column.dtype), held))
        if int(pd.__version__.partition(".")[0]) < 3:
            values = [block.values for block in frame._mgr.blocks]
            found += [self._array(one)[:2] for one in values if hasattr(one, "flat")]
        return found


def surroundings() -> str:
    """What code may change beside variables."""
    import warnings

    found: list[Any] = [Path.cwd(), dict(os.environ), [*sys.path], random.getstate(), [*warnings.filters]]
    if "numpy" in sys.modules:
        import numpy as np

        found += [repr(np.random.get_state(legacy=False)), np.get_printoptions(), np.geterr()]
    if "pandas" in sys.modules:
        import pandas as pd

        found.append(pd.get_option("display.max_rows"))
    return repr(found)
