"""Values of variables, sent by a copy and taken over: as data, of which nothing is called that the copy could choose.

What this module promises: `loaded` makes containers, numbers, texts, dates, arrays and frames from their contents, and
refers to variables, modules, and functions and classes of installed modules; whatever the bytes are, it calls
constructors of these kinds alone, and changes nothing that was there. A value that cannot be sent so that it comes out
equal, or that shares a part with what was there before, is refused by `dumped` with the reason.

>>> data, refused = dumped({"x": [1, {"a": 2.5}], "f": object()}, {})
>>> refused
{'f': 'an object'}
>>> loaded(data, {}, {})
{'x': [1, {'a': 2.5}]}
"""

from __future__ import annotations

import datetime as dt
import json
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from fractions import Fraction
from types import FunctionType, ModuleType
from typing import Any, cast

MAX_BYTES = 48 << 20
"""Of all values together; what is larger is made where it is to be."""
_MAX_TEXT_BYTES = 16 << 20
_MAX_PARTS = 500_000
_MAX_DEPTH = 60
_HEAD = struct.Struct(">I")
_FREE = "biufcSUV"
"""Kinds of numpy's types whose bytes are all that there is to them; dates are sent as numbers."""
_FACTORIES: Mapping[str, Any] = {kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple)}


class RefusedValueError(Exception):
    """A value cannot be sent, or bytes cannot be read; the message says why, behind the name of a variable."""


def dumped(
    values: Mapping[str, Any], known: Mapping[int, str], functions: Collection[str] = ()
) -> tuple[bytes, dict[str, str]]:
    """Return values as they are sent, in the copy.

    Args:
        values: New values by the names of their variables.
        known: The ids of objects that were there before and can change, with the variables that are bound to them;
            empty where only a part of a variable is such an object.
        functions: Those of the variables whose functions can be made again where they are to be.

    Returns:
        The bytes, and why the others cannot be sent, by name.
    """
    refused: dict[str, str] = {}
    sender = _Sender(known, {id(value): name for name, value in values.items() if name in functions})
    found: dict[str, Any] = {}
    for name, value in values.items():
        mark = sender.mark()
        try:
            found[name] = sender.top(value)
        except RefusedValueError as error:
            refused[name] = str(error)
        except Exception as error:  # noqa: BLE001 - code of the object's own class
            refused[name] = f"it cannot be copied ({type(error).__name__})"
        if name in refused:
            sender.back(mark)
    text = json.dumps(found).encode(errors="surrogatepass")
    if len(text) + sender.size > MAX_BYTES or len(text) > _MAX_TEXT_BYTES:
        return _HEAD.pack(2) + b"{}", dict.fromkeys(values, f"{(len(text) + sender.size) / 2**20:,.0f} MB")
    return b"".join([_HEAD.pack(len(text)), text, *sender.buffers]), refused


class _Sender:
    """Makes of values what JSON can hold, and buffers beside it."""

    def __init__(self, known: Mapping[int, str], names: Mapping[int, str]) -> None:
        self.buffers: list[bytes] = []
        self.size = 0
        self._known = known
        self._names = names
        self._numbers: dict[int, int] = {}
        self._owners: set[int] = set()
        self._kept: list[Any] = []
        self._parts = 0

    def mark(self) -> tuple[int, int, int]:
        return len(self.buffers), self.size, len(self._kept)

    def back(self, mark: tuple[int, int, int]) -> None:
        """Forget what was added since."""
        del self.buffers[mark[0] :]
        self.size = mark[1]
        for obj in self._kept[mark[2] :]:
            self._numbers.pop(id(obj), None)
            self._owners.discard(id(_owner(obj)))
        del self._kept[mark[2] :]

    def bytes(self, data: bytes) -> list[int]:
        if self.size + len(data) > MAX_BYTES:
            raise RefusedValueError(f"{(self.size + len(data)) / 2**20:,.0f} MB")
        at = self.size
        self.buffers.append(data)
        self.size += len(data)
        return [at, len(data)]

    def top(self, value: Any) -> Any:
        """A value that a variable is bound to: it may also be a module, or what an installed module has."""
        kind = cast("Any", type(value))
        if kind is ModuleType:
            return {"k": "module", "v": value.__name__}
        module, name = getattr(value, "__module__", None), getattr(value, "__name__", "")
        if isinstance(module, str) and isinstance(name, str):
            if getattr(sys.modules.get(module), "__dict__", {}).get(name) is value and is_of_environment(module):
                return {"k": "attribute", "v": [module, name]}
            if kind is FunctionType and id(value) in self._names:
                return {"k": "function", "v": self._names[id(value)]}
        return self.value(value, 0)

    def value(self, value: Any, depth: int) -> Any:
        """What is sent of a value."""
        kind = cast("Any", type(value))
        if value is None or kind in (bool, int, float, str):
            return value
        if (name := self._known.get(id(value))) is not None:
            if name:
                return {"k": "variable", "v": name}
            raise RefusedValueError("it shares a part with another variable")
        if id(value) in self._numbers:
            return {"k": "same", "v": self._numbers[id(value)]}
        self._parts += 1
        if depth > _MAX_DEPTH or self._parts > _MAX_PARTS:
            raise RefusedValueError("it has too many parts")
        if (send := _SIMPLE.get(kind)) is not None:
            return {"k": kind.__name__, "v": send(value)}
        parts = self._parts_of(value, kind, depth + 1)
        self._owns(value)
        number = self._numbers[id(value)] = len(self._kept)
        self._kept.append(value)
        return {**parts, "n": number}

    def _owns(self, value: Any) -> None:
        """Refuse a second array in the same memory: each is sent with a copy of it."""
        if _is_ndarray(value):
            if id(_owner(value)) in self._owners:
                raise RefusedValueError("it shares its memory with another new value")
            self._owners.add(id(_owner(value)))

    def _parts_of(self, value: Any, kind: Any, depth: int) -> dict[str, Any]:
        if kind in (list, tuple, set, frozenset):
            return {"k": kind.__name__, "v": [self.value(each, depth) for each in value]}
        if kind is deque:
            return {"k": "deque", "v": [self.value(each, depth) for each in value], "max": value.maxlen}
        if kind in (dict, OrderedDict, Counter, defaultdict):
            held = cast("dict[Any, Any]", value)
            if getattr(value, "__dict__", None):
                raise RefusedValueError("it has attributes of its own")
            methods: Any = OrderedDict if kind is OrderedDict else dict
            ordered: Any = methods.items(held)
            items = [[self.value(key, depth), self.value(each, depth)] for key, each in ordered]
            made = getattr(value, "default_factory", None)
            if made is not None and _FACTORIES.get(made.__name__) is not made:
                raise RefusedValueError("a dictionary with a function of its own")
            return {"k": kind.__name__, "v": items, "made": None if made is None else made.__name__}
        if kind is Plain:
            return {"k": "plain", "v": value.values}
        if kind in (bytes, bytearray):
            return {"k": kind.__name__, "v": self.bytes(bytes(value))}
        if (send := _SENT.get((kind.__module__.partition(".")[0], kind.__name__))) is not None:
            what, *arguments = send(value, self._known)
            return {"k": what, "v": [self.value(each, depth) for each in arguments]}
        name = kind.__name__
        raise RefusedValueError(f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}")


class Plain:
    """A list of texts, numbers and nothing, which may be long."""

    def __init__(self, values: list[Any]) -> None:
        if not {*map(type, values)} <= {str, int, float, bool, type(None)}:
            raise RefusedValueError("a column of mixed values")
        self.values = values


_SIMPLE: Mapping[Any, Callable[[Any], Any]] = {
    complex: lambda value: [value.real, value.imag],
    range: lambda value: [value.start, value.stop, value.step],
    dt.date: lambda value: value.isoformat(),
    dt.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    Fraction: lambda value: [value.numerator, value.denominator],
}


def loaded(
    data: bytes,
    variables: Mapping[str, Any],
    functions: Mapping[str, Callable[[], Any]],
    modules: Collection[str] = (),
) -> dict[str, Any]:
    """Make the values that a copy has sent.

    Args:
        data: The bytes; hostile.
        variables: The variables that values may refer to.
        functions: What makes the functions that values may be, by name.
        modules: Installed modules that may be imported for them, besides those that are.

    Returns:
        The values by name.

    Raises:
        RefusedValueError: They are not what ``dumped`` makes.
    """
    try:
        length = _HEAD.unpack_from(data)[0]
        if length > _MAX_TEXT_BYTES or len(data) > 2 * MAX_BYTES:
            raise RefusedValueError("the values are too large")  # noqa: TRY301 - told like all that cannot be read
        found: Any = json.loads(data[_HEAD.size : _HEAD.size + length])
        receiver = _Receiver(memoryview(data)[_HEAD.size + length :], variables, functions, modules)
        return {str(name): receiver.value(each) for name, each in found.items()}
    except RefusedValueError:
        raise
    except Exception as error:
        raise RefusedValueError(f"the values cannot be read ({type(error).__name__}: {error})") from error


class _Receiver:
    def __init__(
        self,
        buffers: memoryview,
        variables: Mapping[str, Any],
        functions: Mapping[str, Callable[[], Any]],
        modules: Collection[str],
    ) -> None:
        self._modules = modules
        self._parts = 0
        self._buffers = buffers
        self._variables = variables
        self._functions = functions
        self._made: dict[int, Any] = {}

    def value(self, sent: Any) -> Any:
        if type(sent) is not dict:
            if isinstance(sent, list):
                raise RefusedValueError("the values cannot be read")
            return sent
        fields = cast("dict[str, Any]", sent)
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise RefusedValueError("the values have too many parts")
        kind, content = fields["k"], fields["v"]
        made = self._reference(kind, content) if kind in _REFERENCES else self._make(kind, content, fields)
        if "n" in fields:
            self._made[int(fields["n"])] = made
        return made

    def _reference(self, kind: str, content: Any) -> Any:
        match kind:
            case "variable":
                return self._variables[content]
            case "same":
                return self._made[content]
            case "function":
                return self._functions[content]()
            case "module":
                return self._module(content)
            case _:
                module, name = content
                return vars(self._module(module))[name]

    def _module(self, name: Any) -> ModuleType:
        """An installed module that is imported, or that the code imports."""
        import importlib

        if name in sys.modules and is_of_environment(name):
            return sys.modules[name]
        if name not in self._modules or not is_of_environment(name):
            raise RefusedValueError(f"the module {name} is not an installed one that the code imports")
        return importlib.import_module(name)

    def _make(self, kind: str, content: Any, fields: Mapping[str, Any]) -> Any:
        if kind in _MADE_SIMPLE:
            return _MADE_SIMPLE[kind](content)
        if kind in _FACTORIES_OF:
            return _FACTORIES_OF[kind](map(self.value, content))
        if kind == "deque":
            return deque(map(self.value, content), fields["max"])
        if kind in ("bytes", "bytearray"):
            at, length = content
            return (bytes if kind == "bytes" else bytearray)(self._buffers[at : at + length])
        if kind in _DICTIONARIES:
            return self._dictionary(kind, content, fields["made"])
        return _MADE[kind](*map(self.value, content))

    def _dictionary(self, kind: str, content: Any, made: Any) -> Any:
        items = [(self.value(key), self.value(each)) for key, each in content]
        if kind == "defaultdict":
            return defaultdict(_FACTORIES[made] if made else None, items)
        if kind == "Counter":
            counter: Counter[Any] = Counter()  # not ``Counter[Any]()``, which leaves that in an attribute
            dict[Any, Any].update(counter, items)
            return counter
        made_of: Any = OrderedDict if kind == "OrderedDict" else dict
        return made_of(items)


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise RefusedValueError("the values cannot be read")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise RefusedValueError("the values cannot be read")
    return value


_REFERENCES = frozenset({"variable", "same", "function", "module", "attribute"})
_DICTIONARIES = frozenset({"dict", "OrderedDict", "Counter", "defaultdict"})
_FACTORIES_OF: Mapping[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MADE_SIMPLE: Mapping[str, Callable[[Any], Any]] = {
    "complex": lambda content: complex(*map(_number, content)),
    "range": lambda content: range(*map(_whole, content)),
    "date": lambda content: dt.date.fromisoformat(_text(content)),
    "timedelta": lambda content: dt.timedelta(*map(_whole, content)),
    "Decimal": lambda content: Decimal(_text(content)),
    "Fraction": lambda content: Fraction(*map(_whole, content)),
    "plain": Plain,
}


def is_of_environment(name: str) -> bool:
    """Return whether a module belongs to Python or to an installed package, and not to the project."""
    import importlib.util
    import os
    import sysconfig

    top, *below = name.split(".")
    if top in _STARTS_SOMETHING or "__main__" in below:
        return False
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if found is None or found.origin in ("built-in", "frozen"):
        return found is not None
    paths = sysconfig.get_paths()
    places = tuple(f"{os.path.realpath(paths[each])}/" for each in ("purelib", "platlib", "stdlib", "platstdlib"))
    origins = [found.origin] if found.has_location and found.origin else [*(found.submodule_search_locations or ())]
    return bool(origins) and all(os.path.realpath(origin).startswith(places) for origin in origins)


_STARTS_SOMETHING = frozenset({"__main__", "antigravity", "this", "idlelib", "turtledemo", "test"})
"""Modules of Python's that do more when they are imported than to be there."""


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
    writable = bool(obj.flags.writeable)
    if obj.dtype.kind == "O":
        return "objects", obj.shape, obj.ravel(order="C").tolist(), writable
    if obj.dtype.kind in "mM":
        return "dates", obj.dtype.str, obj.shape, obj.astype("i8").tobytes(), writable
    if obj.dtype.kind not in _FREE or obj.dtype.names:
        raise RefusedValueError(f"an array of {obj.dtype}")
    data = obj.tobytes("A" if obj.flags.fnc else "C")
    return "array", obj.dtype.str, obj.shape, bool(obj.flags.fnc), data, writable


def _is_ndarray(value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _owner(value: Any) -> Any:
    """What has the memory that an array is in."""
    while (base := getattr(value, "base", None)) is not None:
        value = base
    return value


def _fixed(array: Any, writable: Any) -> Any:
    if writable is not True:
        array.flags.writeable = False
    return array


def _made_array(dtype: str, shape: tuple[int, ...], fortran: bool, data: bytes, writable: bool) -> Any:  # noqa: FBT001
    numpy: Any = sys.modules["numpy"]
    kind = numpy.dtype(_text(dtype))
    if kind.kind not in _FREE or kind.names:
        raise RefusedValueError(f"an array of {kind}")
    flat = numpy.frombuffer(bytearray(data), dtype=kind)
    return _fixed(flat.reshape(_shape(shape), order="F" if fortran else "C"), writable)


def _made_dates(dtype: str, shape: tuple[int, ...], data: bytes, writable: bool) -> Any:  # noqa: FBT001
    numpy: Any = sys.modules["numpy"]
    kind = numpy.dtype(_text(dtype))
    if kind.kind not in "mM":
        raise RefusedValueError(f"dates of {kind}")
    return _fixed(numpy.frombuffer(bytearray(data), dtype="i8").reshape(_shape(shape)).view(kind), writable)


def _made_objects(shape: tuple[int, ...], values: list[Any], writable: bool) -> Any:  # noqa: FBT001
    numpy: Any = sys.modules["numpy"]
    made = numpy.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        made[at] = value
    return _fixed(made.reshape(_shape(shape)), writable)


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


def _column(obj: Any) -> Any:
    """What is sent of the values of a column, or of labels."""
    pandas: Any = sys.modules["pandas"]
    column = pandas.Series(obj)
    dtype = column.dtype
    if not isinstance(dtype, pandas.api.extensions.ExtensionDtype):
        return "whole", column.to_numpy(copy=True)
    if isinstance(dtype, pandas.CategoricalDtype):
        return "category", obj.codes.copy(), obj.categories.copy(), bool(obj.ordered)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return "zoned", column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(copy=True), str(dtype.tz)
    if isinstance(dtype, pandas.PeriodDtype | pandas.IntervalDtype | pandas.SparseDtype):
        raise RefusedValueError(f"a column of {dtype}")
    values, missing = column.astype(object).tolist(), column.isna().tolist()
    listed = [None if gone else _item(value) for value, gone in zip(values, missing, strict=True)]
    return "listed", Plain(listed), str(dtype)


def _is_array(value: Any) -> bool:
    return type(value) is cast("Any", sys.modules["numpy"]).ndarray and value.ndim == 1


def _item(value: Any) -> Any:
    """A number as Python has it."""
    return value.item() if type(value).__module__ == "numpy" else value


def _made_column(sent: Any) -> Any:
    pandas: Any = sys.modules["pandas"]
    match sent:
        case ("category", codes, categories, bool() as ordered) if _is_array(codes) and hasattr(categories, "array"):
            return pandas.Categorical.from_codes(codes, categories, ordered=ordered)
        case ("zoned", values, str() as zone) if _is_array(values):
            return pandas.Series(values).dt.tz_localize("UTC").dt.tz_convert(_text(zone)).array
        case ("listed", Plain() as listed, str() as name):
            return pandas.array(listed.values, dtype=_text(name))
        case ("whole", values) if _is_array(values):
            return values
        case _:
            raise RefusedValueError("the values cannot be read")


def _index(obj: Any, _: Mapping[int, str]) -> _Sent:
    pandas: Any = sys.modules["pandas"]
    if isinstance(obj, pandas.RangeIndex):
        return "labels", int(obj.start), int(obj.stop), int(obj.step), obj.name
    if isinstance(obj, pandas.MultiIndex):
        return "levels", [_column(obj.get_level_values(at).array) for at in range(obj.nlevels)], [*obj.names]
    return "index", _column(obj.array), obj.name, getattr(obj, "freqstr", None)


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


def _series(obj: Any, _: Mapping[int, str]) -> _Sent:
    _check_plain(obj)
    sent = "series", _column(obj.array), obj.index.copy(), obj.name
    return _checked(obj, sent, _made_series)


def _made_series(column: Any, index: Any, name: Any) -> Any:
    return cast("Any", sys.modules["pandas"]).Series(_as_long(_made_column(column), index), index=index, name=name)


def _as_long(column: Any, index: Any) -> Any:
    """The column, if it is as long as its labels; a single value would be repeated for each."""
    if type(column).__module__ == "builtins" or len(column) != len(index):
        raise RefusedValueError("the values cannot be read")
    return column


def _frame(obj: Any, _: Mapping[int, str]) -> _Sent:
    _check_plain(obj)
    columns = [_column(obj.iloc[:, at].array) for at in range(obj.shape[1])]
    sent = "frame", columns, obj.index.copy(), obj.columns.copy()
    return _checked(obj, sent, _made_frame)


def _made_frame(columns: list[Any], index: Any, names: Any) -> Any:
    pandas: Any = sys.modules["pandas"]
    made = pandas.DataFrame({at: _as_long(_made_column(each), index) for at, each in enumerate(columns)}, index=index)
    made.columns = names
    return made


def _check_plain(obj: Any) -> None:
    kind = cast("Any", type(obj))
    if not kind.__module__.startswith("pandas.") and kind.__module__ != "pandas":
        raise RefusedValueError(f"a {kind.__name__} of its own class")
    if obj.attrs or not obj.flags.allows_duplicate_labels:
        raise RefusedValueError("it has attributes of its own")


def _checked(obj: Any, sent: _Sent, make: Callable[..., Any]) -> _Sent:
    """What is sent, if it comes out equal."""
    again = make(*sent[1:])
    same_types = (
        [*map(str, again.dtypes)] == [*map(str, obj.dtypes)]
        if hasattr(obj, "columns")
        else (str(again.dtype) == str(obj.dtype))
    )
    if not same_types or not again.equals(obj):
        raise RefusedValueError("it does not come out equal")
    return sent


def _moment(obj: Any, _: Mapping[int, str]) -> _Sent:
    text = obj.replace(tzinfo=None).isoformat()
    return type(obj).__name__, type(obj).__name__, text, obj.tzinfo, obj.fold


def _made_moment(kind: str, text: str, zone: Any, fold: int) -> Any:
    made: Any = (dt.datetime if kind == "datetime" else dt.time).fromisoformat(_text(text))
    return made.replace(tzinfo=zone, fold=fold)


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
    return "stamp", _column(pandas.Index([obj]).array)


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
    ("datetime", "datetime"): _moment,
    ("datetime", "time"): _moment,
    ("datetime", "timezone"): lambda obj, _: ("offset", obj.utcoffset(None)),
}
_MADE: Mapping[str, Callable[..., Any]] = {
    "array": _made_array,
    "dates": _made_dates,
    "objects": _made_objects,
    "scalar": _made_scalar,
    "labels": _made_range,
    "levels": _made_levels,
    "index": _made_index,
    "series": _made_series,
    "frame": _made_frame,
    "zone": _made_zone,
    "datetime": _made_moment,
    "time": _made_moment,
    "offset": dt.timezone,
    "stamp": _made_stamp,
    "nat": _made_nat,
}
"""How each kind is made of its parts, which have been made before."""
