"""Objects of many kinds, and statements that change them in every way that they allow.

Each kind has expressions that make an object, and statements about ``{v}``, which is one of its names; ``{o}`` is any
other variable and ``{n}`` a number that no other statement has. They are apart by two spaces, or lines.
"""

from __future__ import annotations

import random
import re
from importlib.util import find_spec

HAS = {name for name in ("networkx", "numpy", "pandas", "polars", "pyarrow", "scipy", "sklearn") if find_spec(name)}

BEGINNING = """
import array, collections, enum, functools, io, random, types, weakref
from typing import NamedTuple
class Meta(type):
    known = {}
    def __init__(cls, *given):
        super().__init__(*given)
        Meta.known[cls.__name__] = cls
    def count(cls):
        return len(Meta.known)
class Limited:
    kept = weakref.WeakKeyDictionary()
    def __set_name__(self, owner, name): self.name = name
    def __get__(self, obj, owner=None): return self if obj is None else Limited.kept.get(obj, [])
    def __set__(self, obj, value): Limited.kept[obj] = value
class Base(metaclass=Meta):
    made = []
    level: int = 1
    limit = Limited()
    def __init_subclass__(cls, **given): Base.made.append(cls.__name__)
    def __init__(self, one): self.one = one
    def grow(self): self.made.append(self.one); return self
class Slotted(Base):
    __slots__ = ("left", "right")
class Bare:
    __slots__ = ("left", "__weakref__")
    def __init__(self, one): self.left = one
class Point(NamedTuple):
    x: object
    y: int = 2
Point.seen = []
class Color(enum.Enum):
    RED = [1]
    BLUE = {"k": 2}
class Right(enum.Flag):
    READ = 1
    WRITE = 2
class Tree(list):
    __slots__ = ()
    planted = []
def shape(a, *rest, b=[1], **more):
    "What it does."
    b.append(len(rest))
    return a
def closing(start):
    held = [start]
    def add(x):
        nonlocal start
        start = x
        held.append(x)
        return start
    return add
def growing(rows):
    for at in range(5):
        rows.append(at)
        yield at
@functools.singledispatch
def say(x): return "any"
"""

PLAIN = {
    "lis": (
        """
        [3, [1], 2]  [[], {}, ()]  Tree([1, [2]])  collections.UserList([1, [2]])
        """,
        """
        {v}.append({o})  {v}[0:1] = [7, 8]  {v}.reverse()  {v}[1].append({n})  {v} += ({n},)  del {v}[0]
        {v}[0], {v}[1] = {v}[1], {v}[0]  {v}.insert(0, {v})  {v}.planted.append({n})  {v}.data = [{n}]
        """,
    ),
    "dic": (
        """
        {'a': [1], 'b': 2}  collections.ChainMap({'a': 1}, {'b': [2]})  collections.UserDict(a=[1])
        collections.OrderedDict(a=1, b=[2])  collections.defaultdict(list, a=[1])  weakref.WeakValueDictionary()
        """,
        """
        {v}['a'] = {o}  {v}['n{n}'] = [{n}]  {v}['b'].append({n})  {v}['a'].append({n})  {v}.pop('a')
        {v}.maps[1]['b'] = {o}  {v}.maps.append({{}})  {v}.clear()  {v}.setdefault('c', []).append(1)
        {v}.move_to_end('a')  {v}.default_factory = None  {v} |= {{'z': {o}}}  {v}['w'] = Base  {v}.data = {{}}
        """,
    ),
    "prx": (
        """
        types.MappingProxyType({'a': [1], 'b': {'c': 2}})  types.MappingProxyType(vars(Base))  {'a': [1]}.values()
        """,
        """
        {v}['a'].append({n})  {v}['b']['c'] = {o}  {v}['made'].append({n})  next(iter({v})).append({n})
        """,
    ),
    "ins": (
        """
        Base([1])  Slotted([1])  Bare([1])  Point([1])  types.SimpleNamespace(one=[1])  ValueError([1], 2)
        """,
        """
        {v}.one = {o}  {v}.one.append({n})  {v}.left = {o}  {v}.left.append({n})  {v}.limit = {o}  {v}.grow()
        {v}.new{n} = [{n}]  del {v}.one  {v}.seen.append({n})  {v}.x.append({n})  {v}.__dict__['k'] = {n}
        {v}.limit.append({n})  {v}.__class__ = Slotted  {v}.args = ({n},)  {v}.args[0].append({n})
        {v}.__cause__ = KeyError({n})  {v}.add_note('n{n}')  raise {v}
        """,
    ),
    "cls": (
        """
        Base  Slotted  type('Made', (Base,), {'rows': []})  Color  Point  Meta
        """,
        """
        class New{n}(Base): pass  class New{n}({v}): pass  {v}.made.append({n})  {v}.extra{n} = [{n}]
        {v}.__name__ = 'n{n}'  {v}.__doc__ = 'n{n}'  {v}.__qualname__ = 'q{n}'  {v}.__module__ = 'm{n}'
        {v}.grow = lambda self: {n}  {v}.rows.append({n})  {v}.__annotations__['z'] = int  {v}.level = {o}
        {v}.known['k{n}'] = {o}  del {v}.level  {v}.seen.append({n})  {v}.__bases__ = (Slotted,)
        """,
    ),
    "enu": (
        """
        Color.RED  Color.BLUE  Right.READ  Right.READ | Right.WRITE
        """,
        """
        {v}.value.append({n})  {v}._value_ = {n}  {v}.value['n{n}'] = 1  {v}.note = [{n}]  Color.RED.value.clear()
        {v}.__class__.extra{n} = {n}  Color._member_map_['X{n}'] = {v}  {v}._name_ = 'n{n}'
        """,
    ),
    "fun": (
        """
        shape  closing([1])  functools.partial(shape, [1], c=[2])  Base([2]).grow  say  functools.lru_cache(shape)
        """,
        """
        {v}({n})  {v}({n}, 1)  {v}.__name__ = 'n{n}'  {v}.__doc__ = 'n{n}'  {v}.tag = [{n}]  {v}.tag.append({n})
        {v}.__defaults__ = ({n},)  {v}.__kwdefaults__['b'].append({n})  {v}.__kwdefaults__ = None
        {v}.args[0].append({n})  {v}.__qualname__ = 'q{n}'  {v}.__annotations__['a'] = int
        {v}.__code__ = (lambda a: {n}).__code__  {v}.keywords['c'].append({n})  {v}.register(int, len)
        {v}.keywords['d'] = {o}  {v}.__module__ = 'm{n}'  {v}.__closure__[0].cell_contents = [{n}]  {v}()
        {v}.__self__.one = {n}  {v}.register(str)(lambda x: {n})
        """,
    ),
    "buf": (
        """
        array.array('i', [1, 2, 3])  bytearray(b'abcd')  io.BytesIO(b'abcd')  io.StringIO('abcd')
        memoryview(bytearray(4))
        """,
        """
        {v}[0] = 65  {v}[1:2] = {v}[2:3]  {v}.append(66)  {v}.extend({v})  {v}.byteswap()  {v}.pop()  {v}.reverse()
        {v}.write(b'xy')  {v}.write('xy')  {v}.seek(2)  {v}.truncate(1)  {v}.read(1)  {v}.getbuffer()[0] = 67
        memoryview({v})[0] = 9  {v}.clear()  {v}.close()  {v}.release()  {v}.frombytes(bytes(8))  {v}.note = [1]
        """,
    ),
    "gen": (
        """
        growing(lis0)  (lis0.append(x) for x in range(4))  map(lis0.append, [1, 2, 3])  iter([[1], [2]])
        zip([1], [2])
        """,
        """
        next({v})  list({v})  {v}.close()  next({v}).append({n})
        """,
    ),
    "rnd": (
        """
        random.Random(4)  random.SystemRandom()
        """,
        """
        {v}.random()  {v}.seed({n})  {v}.shuffle(lis0)  {v}.gauss(0, 1)  {v}.note = {n}  random.random()
        """,
    ),
    "que": (
        """
        collections.deque([1, [2]], 5)  collections.Counter('aab')  {1, (2,)}  weakref.WeakSet()
        """,
        """
        {v}.rotate(1)  {v}.appendleft({n})  {v}[1].append({n})  {v}['a'] += {n}  {v}.update('xyz')  {v}.add({n})
        {v}.clear()  {v}.add(Base)  {v}.pop()  {v} ^= {{1, {n}}}  {v}.discard(1)  {v}.note = {n}
        """,
    ),
}
NUMPY = {
    "arr": (
        """
        np.arange(6.0)  np.arange(12).reshape(3, 4)[::2, 1:]  np.ma.array([1., 2., 3.], mask=[0, 1, 0])
        np.matrix([[1, 2]])  np.array([(1, 2.5), (3, 4.5)], dtype=[('a', 'i4'), ('b', 'f8')])
        np.array([[1], 'x', None], dtype=object)  np.arange(4.0).flat
        np.rec.array([(1, 2.5)], dtype=[('a', 'i4'), ('b', 'f8')])  np.frombuffer(bytearray(8), 'u1')
        np.dtype([('a', 'i4'), ('b', 'f8')])  np.array(['x', 'yy'])  np.broadcast_to(np.arange(2.0), (2, 2))
        np.char.array(['a', 'b'])
        """,
        """
        {v}[0] = 5  {v}[...] = {v}[::-1]  {v}['a'] = {n}  {v}['b'][0] = {n}  {v}.a = {n}
        {v}.dtype.names = ('p', 'q')  {v}.names = ('c{n}', 'd')  {v}.mask = True  {v}[1] = np.ma.masked
        {v}.data[0] = {n}  {v}.fill_value = {n}  {v}.shape = (-1,)  {v}.dtype = 'u1'  memoryview({v})[0] = {n}
        np.add({v}, 1, out={v})  {v}.flat[1] = {n}  {v}.base[...] = 3  {v}.sort()  {v}.partition(1)
        {v}.flags.writeable = False  {v}[0].append({n})  {v}.harden_mask()  {v}.view()[0] = {n}  {v}.T[...] = 1
        {v}.resize(9, refcheck=False)  np.put({v}, 0, {n})  {v}.itemset(0, 1)  {v}.byteswap(inplace=True)
        {v}.setfield({n}, 'i4')  np.lib.stride_tricks.as_strided({v})[0] = {n}
        """,
    ),
    "nrg": (
        """
        np.random.default_rng(3)  np.random.RandomState(3)  np.random.default_rng(5).bit_generator
        """,
        """
        {v}.random()  {v}.standard_normal(2)  {v}.permuted([1, 2])  {v}.shuffle(lis0)  np.random.rand()
        {v}.random_raw()  {v}.seed({n})
        """,
    ),
}
PANDAS = {
    "frm": (
        """
        pd.DataFrame({'a': [1, None, 3], 'b': [True, None, False], 's': ['x', None, 'z']}).convert_dtypes()
        pd.DataFrame({'a': [1.5, 2.5], 'c': pd.Categorical(['u', 'v']), 't': times})
        pd.DataFrame({'a': pd.array([1, 2], 'Int32'), 'b': pd.array([.5, None], 'Float64'), 'o': [[1], {}]})
        pd.DataFrame({'a': [1, 2], 'b': [3, 4]}, index=pd.MultiIndex.from_tuples([(1, 'x'), (2, 'y')]))
        pd.DataFrame({'a': pd.arrays.SparseArray([0, 1]), 'b': pd.interval_range(0, 2), 'p': periods})
        pd.DataFrame({'a': pd.array(['x', None], 'string'), 'b': pd.to_timedelta([1, 2]), 'd': dates})
        pd.DataFrame({'a': pd.array([1, None], 'int64[pyarrow]'), 's': pd.array(['x', 'y'], 'string[pyarrow]')})
        pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=['a', 'b'], copy=False)
        """,
        """
        {v}['a'].values[:] = {v}['a'].values[0]  {v}['a'].values[1] = {v}['a'].values[0]
        {v}['b'].values[0] = {v}['b'].values[1]  w{n} = {v}['a'].values; w{n}[w{n}.isna()] = 0
        {v}['c'].values[0] = 'v'  {v}['c'].values[0] = {v}['c'].values[1]  {v}['a'].array[0] = {v}['a'].array[1]
        {v}['s'].array[0] = 'q'  {v}['d'].values[0] = {v}['d'].values[1]  {v}.values[0] = {v}.values[1]
        {v}.index.values[0] = {n}  {v}.columns.values[0] = 'z{n}'  {v}.index.name = 'i{n}'
        {v}.loc[{v}.index[0], 'a'] = {v}['a'].iloc[1]  {v}.iloc[0, 1] = {v}.iloc[1, 1]  {v}['n{n}'] = {n}
        {v}.pop('a')  x{n} = {v}['a'].to_numpy(); x{n}.flags.writeable = True; x{n}[0] = {n}
        {v}['a'].values._data[0] = {n}  clean({v})  {v}['a'].values._mask[:] = False
        {v}.sort_index(ascending=False, inplace=True)  {v}['o'].iloc[0].append({n})  {v}['o'].values[0] = {o}
        {v}.attrs['n{n}'] = [{n}]  {v}['a'] = {v}['a'].fillna({n})  {v}.index.values[0] = {v}.index.values[1]
        {v} = {v}.iloc[::-1]  {v}.columns = list(reversed(list({v}.columns)))  {v}['t'].array[0] = {v}['t'].array[1]
        {v}['p'].array[0] = {v}['p'].array[1]  {v}['s'].values[0] = 'q{n}'  {v}.insert(0, 'k{n}', {v}['a'])
        {v}.at[0, 'a'] = 1  {v}['a'].array._pa_array  {v}['c'] = {v}['c'].cat.rename_categories(str.upper)
        {v}.dropna(inplace=True)
        """,
    ),
    "ser": (
        """
        pd.Series(pd.array([1, None, 3], 'Int64'))  pd.Series([1.5, 2.5])  pd.Series(['a', 'b'], dtype='category')
        pd.Series([True, None], dtype='boolean')  pd.Series([[1], {}])  pd.Series(['a', 'b'])
        pd.Series([1, 2], index=['k', 'l'])  pd.array([1, None], 'Int64')  pd.Categorical(['a', 'b'])
        pd.array(['a', None], 'string')  pd.array([1.5, 2.5])
        """,
        """
        {v}.values[0] = {v}.values[1]  {v}.array[0] = {v}.array[1]  {v}[0] = {v}[1]  {v}.iloc[0] = {v}.iloc[1]
        {v}.name = 'n{n}'  {v}._data[0] = {n}  {v}._mask[0] = True  {v}.iloc[0].append({n})
        {v}.index.values[0] = {v}.index.values[1]  {v} = {v} * 2  {v}.values[:] = {v}.values[::-1]
        {v}.attrs['k'] = [{n}]  {v}.loc['z'] = {n}  {v}._ndarray[0] = 1  {v}.values.sort()
        {v}.index = {v}.index[::-1]  {v}.index.name = 'n{n}'  np.asarray({v})[0] = {n}
        {v}.sort_values(inplace=True)
        """,
    ),
    "idx": (
        """
        pd.Index([1, 2, 3])  pd.Index(['a', 'b'])  pd.MultiIndex.from_product([[1, 2], ['x']])
        pd.CategoricalIndex(['a', 'b'])  pd.Index([[1], 2], dtype=object)
        """,
        """
        {v}.values[0] = {v}.values[1]  {v}.values[0] = {n}  {v}.name = 'n{n}'  {v}.names = ['n{n}']
        {v}.array[0] = {v}.array[1]  {v}.get_loc({n})  y{n} = {v}.values; y{n}.flags.writeable = True; y{n}[0] = {n}
        {v}.values[0].append({n})  {v} = {v}[::-1]
        """,
    ),
}
POLARS = {
    "pol": (
        """
        pl.DataFrame({'a': [1, 2], 's': ['x', None]})  pl.Series('a', [1.5, None])
        """,
        """
        {v}[0] = {v}[1]  {v}[0, 'a'] = {n}  {v}.columns = ['p', 'q']  {v}.extend({v})  {v}.append({v})
        {v}.rename('n{n}')  {v}.insert_column(0, pl.Series('n{n}', [1, 2]))  {v} = {v}.head(1)
        {v}.to_numpy()[0] = {n}  {v}.scatter([0], {n})  {v}.note = {n}
        """,
    ),
}
MODELS = {
    "mod": (
        """
        DecisionTreeRegressor(random_state=0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 5.0])
        RandomForestClassifier(2, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
        make_pipeline(StandardScaler(), LinearRegression()).fit([[0.0], [1.0]], [0.0, 1.0])
        KNeighborsClassifier(1, algorithm='kd_tree').fit([[0.0], [1.0]], [0, 1])
        """,
        """
        {v}.tree_.value[:] = {n}  {v}.tree_.threshold[:] = {n}  {v}.estimators_[0].tree_.value[:] = {n}
        {v}.steps[0][1].mean_[:] = {n}  {v}.fit([[0.0], [1.0]], [1, 0])  {v}.set_params(max_depth=1)
        {v}.predict([[1.0]])  {v}.classes_[:] = 1  {v}._fit_X[:] = {n}  {v}.steps[1][1].coef_[0] = {n}
        {v}.estimators_.reverse()  {v}.note = [{n}]  {v}[1].intercept_ = {n}
        """,
    ),
}
SPARSE = {
    "spa": (
        """
        sparse.csr_matrix([[0, 1.0], [2.0, 0]])  sparse.lil_matrix([[0, 1.0]])  sparse.coo_array([[0, 1.0]])
        sparse.dok_matrix((2, 2))
        """,
        """
        {v}.data[:] = {n}  {v}[0, 1] = {n}  {v}.rows[0].append(0)  {v}.indices[:] = 0  {v}.eliminate_zeros()
        {v}.row[:] = 0  {v} = {v} * 2  {v}.setdiag({n})  {v}.resize(1, 2)  {v}.sum_duplicates()
        """,
    ),
}
GRAPHS = {
    "net": (
        """
        nx.path_graph(3)  nx.DiGraph([(1, 2)])
        """,
        """
        {v}.add_edge({n}, 0, w=[1])  {v}.remove_node(1)  {v}.nodes[1]['k'] = [{n}]  {v}.graph['k'] = {n}
        {v}.clear()  {v}.adj[1][2]['w'] = {n}
        """,
    ),
}
ANYWHERE = """
    {v} = {o}  del {v}  new{n} = [{v}, {o}]  {v} = None  raise KeyError({n})  def made{n}(x={v}): return x
    import json  lis0.append({v})  dic0['o{n}'] = {v}  globals()['g{n}'] = {v}  holder.append({v})
    holder[0], holder[-1] = {v}, {o}  1 / 0  class Other{n}(Base): held = {v}  {v} = [{v}]
    for i{n} in range(2): holder.append(i{n})  exec('holder.append({n})')
"""


def split(text: str) -> list[str]:
    return re.split(r"\s{2,}|\n", text.strip())


def program(seed: int) -> tuple[str, list[str]]:
    """The code that makes a namespace of three to seven variables and their other names, and one to four steps."""
    chance = random.Random(seed)
    kits = {**PLAIN}
    lines = [BEGINNING, "holder = []", "def clean(df): df['a'].values[df['a'].isna()] = 1"]
    for library, kit, imports in (
        ("numpy", NUMPY, "import numpy as np"),
        ("pandas", PANDAS, PANDAS_IMPORTS),
        ("polars", POLARS, "import polars as pl"),
        ("scipy", SPARSE, "from scipy import sparse"),
        ("networkx", GRAPHS, "import networkx as nx"),
        ("sklearn", MODELS, MODEL_IMPORTS),
    ):
        if library in HAS:
            kits |= kit
            lines.append(imports)
    made = {"lis0": "lis", "dic0": "dic"}
    for at in range(chance.randint(3, 7)):
        kind = chance.choice([*kits])
        made[f"{kind}{at}"] = kind
    for name, kind in made.items():
        lines.append(f"{name} = {chance.choice(split(kits[kind][0]))}")
    for at in range(chance.randint(1, 5)):
        name, other = chance.choice([*made]), chance.choice([*made])
        form = chance.choice(split(_OTHER_NAMES))
        if form.startswith("al"):
            made[f"al{at}"] = made[name]
        lines.append(f"try:\n    {form.format(v=name, o=other, n=at)}\nexcept Exception: pass")
    number = iter(range(100, 1000))

    def step() -> str:
        found: list[str] = []
        for _ in range(chance.randint(1, 5)):
            name = chance.choice([*made])
            wild = chance.random() < 0.2
            line = chance.choice(split(ANYWHERE if wild else kits[made[name]][1]))
            line = line.format(v=name, o=chance.choice([*made]), n=next(number))
            bare = chance.random() < 0.1 or line.startswith(("def", "class", "for"))
            found.append(line if bare else f"try: {line}\nexcept Exception: pass")
        return "\n".join(found)

    return "\n".join(lines), [step() for _ in range(chance.randint(1, 4))]


PANDAS_IMPORTS = """
import pandas as pd
times, dates = pd.date_range('2020', periods=2, tz='UTC'), pd.to_datetime(['2020', None])
periods = pd.period_range('2020', periods=2)
"""
MODEL_IMPORTS = """
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
"""
_OTHER_NAMES = """
    al{n} = {v}  al{n} = {v}  al{n} = {v}  holder.append({v})  dic0['in{n}'] = {v}  lis0.append({v})
    box{n} = ({v}, {o})  call{n} = lambda x={v}: {o}  part{n} = functools.partial(shape, {v})  view{n} = {v}[1:]
    view{n} = {v}.T  view{n} = {v}['a']  wrap{n} = types.MappingProxyType({{'a': {v}}})  mem{n} = memoryview({v})
    obj{n} = Base({v})  Base.held{n} = {v}  sub{n} = {v}.iloc[1:]  ref{n} = weakref.ref({v})  pair{n} = [{v}, {v}]
    np{n} = np.asarray({v})  ser{n} = pd.Series({v}, copy=False)  lab{n} = {v}.index
"""
