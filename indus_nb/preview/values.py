"""Values of variables, sent by a copy and taken over: as data, of which nothing is called that the copy could choose.

What this module promises: `loaded` makes builtin containers, numbers, texts, dates, arrays and frames from their
contents, and refers to variables, modules and functions that are there. It calls constructors of these alone, whatever
the bytes are. A value that cannot be sent so that it comes out equal, or that shares parts with what was there before,
is refused by `dumped` with the reason.

>>> data, refused = dumped({"x": [1, {"a": 2.5}], "f": print}, {})
>>> refused
{'f': 'a builtin_function_or_method'}
>>> loaded(data, {}, {})
{'x': [1, {'a': 2.5}]}
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, cast

MAX_BYTES = 48 << 20
"""Of all values together; what is larger is made where it is to be."""
_CLASSES = frozenset(
    {("builtins", name) for name in ("complex", "set", "frozenset", "bytearray", "range", "slice")}
    | {("builtins", name) for name in ("list", "dict", "int", "float", "str", "tuple", "bool")}
    | {("collections", name) for name in ("OrderedDict", "defaultdict", "Counter", "deque")}
    | {("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")}
    | {("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID")}
)
"""What the bytes may name: classes whose constructors do nothing but make a value."""
_FREE = "biufcSUV"
"""Kinds of numpy's types whose bytes are all that there is to them; dates are sent as numbers."""


class RefusedValueError(Exception):
    """A value cannot be sent; the message says why, behind the name of a variable."""


def dumped(values: Mapping[str, Any], known: Mapping[int, str]) -> tuple[bytes, dict[str, str]]:
    """Return values as they are sent, in the copy.

    Args:
        values: New values by the names of their variables.
        known: The ids of objects that were there before and can change, with the variables that are bound to them;
            empty where only a part of a variable is such an object.

    Returns:
        The bytes, and why the others cannot be sent, by name.
    """
    refused: dict[str, str] = {}
    while True:
        sent = {name: value for name, value in values.items() if name not in refused}
        try:
            return _dumped(sent, known), refused
        except RefusedValueError as error:
            reasons = {name: why for name in sent if (why := _refusal(name, sent[name], known))}
            refused |= reasons or dict.fromkeys(sent, str(error))


def _refusal(name: str, value: Any, known: Mapping[int, str]) -> str:
    try:
        _dumped({name: value}, known)
    except RefusedValueError as error:
        return str(error)
    return ""


def _dumped(values: dict[str, Any], known: Mapping[int, str]) -> bytes:
    file = io.BytesIO()
    pickler = _Pickler(file, known, {id(value): name for name, value in values.items()})
    try:
        pickler.dump(values)
    except RefusedValueError:
        raise
    except Exception as error:
        raise RefusedValueError(f"it cannot be copied ({type(error).__name__})") from error
    if file.tell() > MAX_BYTES:
        raise RefusedValueError(f"{file.tell() / 2**20:,.0f} MB")
    return file.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, known: Mapping[int, str], names: Mapping[int, str]) -> None:
        super().__init__(file, protocol=5)
        self._known = known
        self._names = names
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        kind: Any = type(obj)
        if (name := self._known.get(id(obj))) is not None:
            if name:
                return "variable", name
            raise RefusedValueError("it shares a part with another variable")
        if kind is ModuleType:
            return "module", obj.__name__
        if kind is FunctionType:
            return "function", self._names.get(id(obj), "")
        send = _SENT.get((kind.__module__.partition(".")[0], kind.__name__))
        if send is None:
            return None
        if id(obj) in self._numbers:
            return "same", self._numbers[id(obj)]
        number = self._numbers[id(obj)] = len(self._numbers)
        self._kept.append(obj)
        return number, *send(obj, self._known)

    def reducer_override(self, obj: Any) -> Any:
        kind: Any = obj if isinstance(obj, type) else type(obj)
        if (kind.__module__, kind.__qualname__) not in _CLASSES:
            name = kind.__name__
            raise RefusedValueError(f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}")
        return NotImplemented


def loaded(data: bytes, variables: Mapping[str, Any], functions: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Make the values that a copy has sent.

    Args:
        data: The bytes; hostile.
        variables: The variables that values may refer to.
        functions: What makes the functions that values may be, by name.

    Returns:
        The values by name.

    Raises:
        RefusedValueError: They are not what ``dumped`` makes.
    """
    try:
        values: Any = _Unpickler(io.BytesIO(data), variables, functions).load()
    except RefusedValueError:
        raise
    except Exception as error:
        raise RefusedValueError(f"the values cannot be read ({type(error).__name__}: {error})") from error
    if type(values) is not dict or not all(type(name) is str for name in cast("dict[Any, Any]", values)):
        raise RefusedValueError("the values cannot be read")
    return cast("dict[str, Any]", values)


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, file: io.BytesIO, variables: Mapping[str, Any], functions: Mapping[str, Callable[[], Any]]
    ) -> None:
        super().__init__(file)
        self._variables = variables
        self._functions = functions
        self._made: dict[int, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _CLASSES:
            raise RefusedValueError(f"{module}.{name} is no plain value")
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        match pid:
            case ("variable", str() as name):
                return self._variables[name]
            case ("module", str() as name):
                return _module(name)
            case ("function", str() as name):
                return self._functions[name]()
            case ("same", int() as number):
                return self._made[number]
            case (int() as number, str() as what, *arguments):
                made = self._made[number] = _MADE[what](*arguments)
                return made
            case _:
                raise RefusedValueError("the values cannot be read")


def _module(name: str) -> ModuleType:
    """A module of the environment, imported if need be."""
    import importlib

    if not is_of_environment(name):
        raise RefusedValueError(f"the module {name} is not an installed one")
    return importlib.import_module(name)


def is_of_environment(name: str) -> bool:
    """Return whether a module belongs to Python or to an installed package, and not to the project."""
    import importlib.util
    import os
    import sysconfig

    top = name.partition(".")[0]
    if top in sys.stdlib_module_names and top not in ("antigravity", "this", "idlelib", "turtledemo", "__main__"):
        return True
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if found is None:
        return False
    paths = sysconfig.get_paths()
    places = tuple(f"{os.path.realpath(paths[each])}/" for each in ("purelib", "platlib"))
    origins = [found.origin] if found.has_location and found.origin else [*(found.submodule_search_locations or ())]
    return bool(origins) and all(os.path.realpath(origin).startswith(places) for origin in origins)


# Values of numpy and pandas: what is sent of them, and how they are made of it

_Sent = tuple[Any, ...]


def _array(obj: Any, known: Mapping[int, str]) -> _Sent:
    base = obj.base
    while base is not None:
        if id(base) in known:
            raise RefusedValueError("it shares its memory with another variable")
        base = getattr(base, "base", None)
    if type(obj).__module__ != "numpy" or obj.dtype.metadata:
        raise RefusedValueError(f"an array of the class {type(obj).__name__}")
    if obj.dtype.kind == "O":
        return "objects", obj.shape, obj.ravel(order="C").tolist()
    if obj.dtype.kind in "mM":
        return "dates", obj.dtype.str, obj.shape, obj.astype("i8").tobytes()
    if obj.dtype.kind not in _FREE or obj.dtype.names:
        raise RefusedValueError(f"an array of {obj.dtype}")
    return "array", obj.dtype.str, obj.shape, bool(obj.flags.fnc), obj.tobytes("A" if obj.flags.fnc else "C")


def _made_array(dtype: str, shape: tuple[int, ...], fortran: bool, data: bytes) -> Any:  # noqa: FBT001
    numpy: Any = sys.modules["numpy"]
    kind = numpy.dtype(_text(dtype))
    if kind.kind not in _FREE or kind.names:
        raise RefusedValueError(f"an array of {kind}")
    flat = numpy.frombuffer(bytearray(data), dtype=kind)
    return flat.reshape(_shape(shape), order="F" if fortran else "C")


def _made_dates(dtype: str, shape: tuple[int, ...], data: bytes) -> Any:
    numpy: Any = sys.modules["numpy"]
    kind = numpy.dtype(_text(dtype))
    if kind.kind not in "mM":
        raise RefusedValueError(f"dates of {kind}")
    return numpy.frombuffer(bytearray(data), dtype="i8").reshape(_shape(shape)).view(kind)


def _made_objects(shape: tuple[int, ...], values: list[Any]) -> Any:
    numpy: Any = sys.modules["numpy"]
    made = numpy.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        made[at] = value
    return made.reshape(_shape(shape))


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > 100:
        raise RefusedValueError("the values cannot be read")
    return value


def _shape(value: Any) -> tuple[int, ...]:
    if type(value) is not tuple or not all(type(each) is int and each >= 0 for each in cast("tuple[Any, ...]", value)):
        raise RefusedValueError("the values cannot be read")
    return cast("tuple[int, ...]", value)


def _scalar(obj: Any, _: Mapping[int, str]) -> _Sent:
    numpy: Any = sys.modules["numpy"]
    return "scalar", numpy.asarray(obj)


def _made_scalar(array: Any) -> Any:
    numpy: Any = sys.modules["numpy"]
    if type(array) is not numpy.ndarray or array.shape != ():
        raise RefusedValueError("the values cannot be read")
    return array[()]


def _dtype(obj: Any, _: Mapping[int, str]) -> _Sent:
    if obj.names or obj.metadata:
        raise RefusedValueError("a type of records")
    return "dtype", obj.str


def _made_dtype(text: str) -> Any:
    return cast("Any", sys.modules["numpy"]).dtype(_text(text))


def _column(obj: Any, known: Mapping[int, str]) -> Any:
    """What is sent of the values of a column, or of labels."""
    pandas: Any = sys.modules["pandas"]
    dtype = obj.dtype
    name = str(dtype)
    if name == "category":
        return "category", obj.codes.copy(), pandas.Index(obj.categories), bool(obj.ordered)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        zone = str(dtype.tz)
        return "zoned", pandas.Series(obj).dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(copy=True), zone
    if isinstance(dtype, pandas.PeriodDtype | pandas.IntervalDtype | pandas.SparseDtype):
        raise RefusedValueError(f"a column of {name}")
    if hasattr(dtype, "na_value") and not hasattr(dtype, "kind") or isinstance(dtype, pandas.api.extensions.ExtensionDtype):
        return "listed", [None if pandas.isna(value) else value for value in obj.astype(object)], name
    values = pandas.Series(obj).to_numpy(copy=True)
    del known
    return "plain", values


def _made_column(sent: Any) -> Any:
    pandas: Any = sys.modules["pandas"]
    match sent:
        case ("category", codes, categories, bool() as ordered):
            return pandas.Categorical.from_codes(codes, categories, ordered=ordered)
        case ("zoned", values, str() as zone):
            return pandas.Series(values).dt.tz_localize("UTC").dt.tz_convert(_text(zone)).array
        case ("listed", list() as values, str() as name):
            return pandas.array(cast("list[Any]", values), dtype=_text(name))
        case ("plain", values):
            return values
        case _:
            raise RefusedValueError("the values cannot be read")


def _index(obj: Any, known: Mapping[int, str]) -> _Sent:
    pandas: Any = sys.modules["pandas"]
    if isinstance(obj, pandas.RangeIndex):
        return "range", int(obj.start), int(obj.stop), int(obj.step), obj.name
    if isinstance(obj, pandas.MultiIndex):
        return "levels", [_column(obj.get_level_values(at).array, known) for at in range(obj.nlevels)], [*obj.names]
    return "index", _column(obj.array, known), obj.name, getattr(obj, "freqstr", None)


def _made_range(start: int, stop: int, step: int, name: Any) -> Any:
    return cast("Any", sys.modules["pandas"]).RangeIndex(start, stop, step, name=name)


def _made_levels(levels: list[Any], names: list[Any]) -> Any:
    made = [_made_column(level) for level in levels]
    return cast("Any", sys.modules["pandas"]).MultiIndex.from_arrays(made, names=names)


def _made_index(column: Any, name: Any, frequency: str | None) -> Any:
    made = cast("Any", sys.modules["pandas"]).Index(_made_column(column), name=name)
    if frequency is not None:
        made.freq = _text(frequency)
    return made


def _series(obj: Any, known: Mapping[int, str]) -> _Sent:
    _check_plain(obj)
    sent = "series", _column(obj.array, known), obj.index, obj.name
    return _checked(obj, sent, _made_series)


def _made_series(column: Any, index: Any, name: Any) -> Any:
    return cast("Any", sys.modules["pandas"]).Series(_as_long(_made_column(column), index), index=index, name=name)


def _as_long(column: Any, index: Any) -> Any:
    """The column, if it is as long as its labels; a single value would be repeated for each."""
    if type(column).__module__ == "builtins" or len(column) != len(index):
        raise RefusedValueError("the values cannot be read")
    return column


def _frame(obj: Any, known: Mapping[int, str]) -> _Sent:
    _check_plain(obj)
    columns = [_column(obj.iloc[:, at].array, known) for at in range(obj.shape[1])]
    sent = "frame", columns, obj.index, obj.columns
    return _checked(obj, sent, _made_frame)


def _made_frame(columns: list[Any], index: Any, names: Any) -> Any:
    pandas: Any = sys.modules["pandas"]
    made = pandas.DataFrame({at: _as_long(_made_column(each), index) for at, each in enumerate(columns)}, index=index)
    made.columns = names
    return made


def _check_plain(obj: Any) -> None:
    kind: Any = type(obj)
    if not kind.__module__.startswith("pandas.") and kind.__module__ != "pandas":
        raise RefusedValueError(f"a {kind.__name__} of its own class")
    if obj.attrs or not obj.flags.allows_duplicate_labels:
        raise RefusedValueError("it has attributes of its own")


def _checked(obj: Any, sent: _Sent, make: Callable[..., Any]) -> _Sent:
    """What is sent, if it comes out equal."""
    again = make(*sent[1:])
    same_types = [*map(str, again.dtypes)] == [*map(str, obj.dtypes)] if hasattr(obj, "columns") else (
        str(again.dtype) == str(obj.dtype)
    )
    if not same_types or not again.equals(obj):
        raise RefusedValueError("it does not come out equal")
    return sent


def _zone(obj: Any, _: Mapping[int, str]) -> _Sent:
    if obj.key is None:
        raise RefusedValueError("a time zone without a name")
    return "zone", obj.key


def _made_zone(key: str) -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo(_text(key))


def _stamp(obj: Any, _: Mapping[int, str]) -> _Sent:
    pandas: Any = sys.modules["pandas"]
    if obj is pandas.NaT:
        return ("nat",)
    return "stamp", _column(pandas.Index([obj]).array, {})


def _made_stamp(column: Any) -> Any:
    return cast("Any", sys.modules["pandas"]).Index(_made_column(column))[0]


def _made_nat() -> Any:
    return cast("Any", sys.modules["pandas"]).NaT


_INDEXES = ("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "CategoricalIndex")
_SCALARS = (
    *("bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"),
    *("float64", "complex64", "complex128", "datetime64", "timedelta64", "str_", "bytes_", "longlong", "ulonglong"),
)
_SENT: Mapping[tuple[str, str], Callable[[Any, Mapping[int, str]], _Sent]] = {
    ("numpy", "ndarray"): _array,
    **{("numpy", name): _scalar for name in _SCALARS},
    ("pandas", "Series"): _series,
    ("pandas", "DataFrame"): _frame,
    **{("pandas", name): _index for name in _INDEXES},
    **{("pandas", name): _stamp for name in ("Timestamp", "Timedelta", "NaTType")},
    ("zoneinfo", "ZoneInfo"): _zone,
}
_MADE: Mapping[str, Callable[..., Any]] = {
    "array": _made_array,
    "dates": _made_dates,
    "objects": _made_objects,
    "scalar": _made_scalar,
    "dtype": _made_dtype,
    "range": _made_range,
    "levels": _made_levels,
    "index": _made_index,
    "series": _made_series,
    "frame": _made_frame,
    "zone": _made_zone,
    "stamp": _made_stamp,
    "nat": _made_nat,
}
