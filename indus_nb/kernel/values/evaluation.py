"""Values of expressions in prompts, looked up without running code that could do anything but read.

A prompt holds text from elsewhere: a log, a question, a page. So Python's ``eval`` never sees it. What this module
evaluates, it evaluates itself, node by node, and only where it knows the class of every value:

- names, constants, lists, tuples and dictionaries of them;
- what an object holds: in its ``__dict__``, in slots, in a class. No property and no ``__getattr__`` of a class that is
  not known is asked;
- items of lists, tuples, dictionaries, texts, arrays and frames;
- arithmetic and comparisons of numbers, texts, dates, arrays and frames;
- the functions in ``FUNCTIONS`` and the methods in ``METHODS``, which only read, called with plain values.

Anything else raises ``RefusedError``. That includes calls of anything else, lambdas, comprehensions, assignments, and
all that would call methods of the user's own classes: their operators, their items, their formats.
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import math
import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any, cast

from indus_nb.kernel.values.known_classes import (
    has_known_zone,
    has_odd_labels,
    has_plain_attrs,
    is_a,
    is_of_a_library,
    library_of,
    whole,
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _names("abs bool dict float int len list max min round set sorted str sum")
FUNCTIONS_OF_MODULES: Mapping[str, frozenset[str]] = {
    "math": _names("ceil cos exp floor fsum hypot isclose isnan log log10 log2 sin sqrt tan"),
    "numpy": _names(
        "abs argmax argmin max mean median min ndim percentile quantile round shape size sqrt std sum unique var"
    ),
}
METHODS: Mapping[str, frozenset[str]] = {
    "data": _names(
        "abs all any argmax argmin corr count cov cumsum day_name describe diff dim drop_duplicates dropna duplicated "
        "first get groupby head idxmax idxmin isna isnull isoformat item keys last max mean median memory_usage min "
        "mode month_name n_unique nlargest notna notnull nsmallest null_count numel nunique pct_change prod quantile "
        "reset_index round size sort_index sort_values squeeze std strftime sum tail to_list tolist total_seconds "
        "unique value_counts var weekday"
    ),
    "text": _names(
        "capitalize casefold count endswith find index isalpha isdigit isnumeric join lower lstrip partition "
        "removeprefix removesuffix rfind rpartition rstrip split splitlines startswith strip title upper"
    ),
    "container": _names("count get index items keys most_common total values"),
    "number": _names("as_integer_ratio bit_length conjugate is_integer"),
    "time": _names("date isocalendar isoformat isoweekday strftime time timestamp total_seconds weekday"),
}
"""Methods that may be called, by kind of value: arrays, series and frames are data."""
ATTRIBUTES = _names(
    "T at columns day days device dt dtype dtypes empty hasnans height hour iat iloc imag index is_unique itemsize loc "
    "microsecond minute month name names nbytes ndim nlevels real schema second seconds shape size values width year"
)
"""Attributes that are read of arrays, series, frames, numbers and dates."""
_PATH_PARTS = _names("name parent parts stem suffix suffixes")
_LIBRARIES = _names("cupy geopandas jax jaxlib numpy pandas polars pyarrow torch xarray")
_CLASSES = _names(
    "Array BaseGroupBy ChunkedArray DataArray DataFrame DataType Dataset ExtensionArray ExtensionDtype Index Interval "
    "NAType NDArrayBackedExtensionArray NDFrame NDFrameIndexerBase NaTType Period Properties RecordBatch Scalar Schema "
    "Series Size Table Tensor Timedelta Timestamp device dtype generic ndarray"
)
"""Classes of these libraries, with their subclasses there, which hold data and nothing else."""
_KEYWORDS = _names(
    "as_index ascending axis by ddof decimals default descending dim drop dropna exclude include keep keepdim keepdims "
    "level method n ndigits normalize numeric_only observed percentiles periods q reverse skipna sort start subset"
)
_TIMES = _names("datetime decimal fractions uuid")
_NUMBERS: tuple[type[object], ...] = (bool, int, float, complex)
_ATOMS: tuple[type[object], ...] = (*_NUMBERS, str, bytes, type(None))
_MAPPINGS: tuple[type[object], ...] = (dict, OrderedDict, Counter, defaultdict, MappingProxyType)
_CONTAINERS: tuple[type[object], ...] = (*_MAPPINGS, list, tuple, set, frozenset, deque, range)
_NONE: dict[object, object] = {}
_VIEWS: tuple[type[object], ...] = (type(_NONE.keys()), type(_NONE.values()), type(_NONE.items()))
_MAX_PARTS = 1_000_000
_MAX_BITS = 20_000
_MAX_DIGITS = 400
_MAX_NESTING = 3
_MAX_ARGUMENT = 1000
_OPERATORS: Any = operator
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _OPERATORS.add,
    ast.Sub: _OPERATORS.sub,
    ast.Mult: _OPERATORS.mul,
    ast.Div: _OPERATORS.truediv,
    ast.FloorDiv: _OPERATORS.floordiv,
    ast.Mod: _OPERATORS.mod,
    ast.Pow: _OPERATORS.pow,
    ast.BitAnd: _OPERATORS.and_,
    ast.BitOr: _OPERATORS.or_,
    ast.BitXor: _OPERATORS.xor,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda part, whole: part in whole,
    ast.NotIn: lambda part, whole: part not in whole,
}
_MISSING = object()


class RefusedError(Exception):
    """An expression, or a part of it, would run code that is not known to be harmless."""


def evaluate(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of node
    tree: ast.expr, namespace: Mapping[str, object]
) -> Any:
    """Evaluate an expression without running code that is not known to be harmless.

    Returns:
        Its value, which may be of any class.

    Raises:
        RefusedError: It would run code that is not known to be harmless, or take too long.
        Exception: Whatever the operation raises, such as ``KeyError`` for an item that is not there.
    """
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return namespace[name] if name in namespace else vars(builtins)[name]
        case ast.Attribute(value=owner, attr=name):
            return _attribute(evaluate(owner, namespace), name)
        case ast.Subscript(value=owner, slice=key):
            return _item(evaluate(owner, namespace), evaluate(key, namespace))
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(None if part is None else evaluate(part, namespace) for part in (lower, upper, step)))
        case ast.Tuple(elts=parts):
            return tuple(evaluate(part, namespace) for part in parts)
        case ast.List(elts=parts):
            return [evaluate(part, namespace) for part in parts]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return {_key(_part(key, namespace)): evaluate(value, namespace) for key, value in pairs}
        case ast.Call():
            return _call(tree, namespace)
        case ast.BinOp(left=left, op=sign, right=right):
            return _binary(sign, evaluate(left, namespace), evaluate(right, namespace))
        case ast.UnaryOp(op=sign, operand=operand):
            return _UNARY[type(sign)](_computable(evaluate(operand, namespace)))
        case ast.Compare():
            return _compare(tree, namespace)
        case ast.BoolOp(op=sign, values=parts):
            value: Any = None
            for part in parts:
                value = evaluate(part, namespace)
                if bool(_computable(value)) is isinstance(sign, ast.Or):
                    break
            return value
        case ast.IfExp(test=test, body=body, orelse=other):
            return evaluate(body if _computable(evaluate(test, namespace)) else other, namespace)
        case _:
            raise RefusedError


def can_format(value: object) -> bool:
    """Return whether a value's ``__format__`` is harmless."""
    return _is_plain(value) or (_is_known(value) and not _holds_objects(value))


def _part(node: ast.expr | None, namespace: Mapping[str, object]) -> Any:
    if node is None:  # {**other}
        raise RefusedError
    return evaluate(node, namespace)


# What is known of a value


def _class(value: object) -> type[object]:
    """Return the true class, which the value cannot override."""
    return type(value)


def _is_plain(value: object) -> bool:
    """Return whether it is a number, a text, a date or ``None``: immutable, with Python's own methods."""
    kind = _class(value)
    return kind in _ATOMS or (library_of(kind) in _TIMES and is_of_a_library(kind) and has_known_zone(value))


def _is_known(value: object) -> bool:
    """Return whether it is an array, a frame, a series or a part of one, of a library's own class."""
    kind = _class(value)
    if library_of(kind) not in _LIBRARIES or not is_of_a_library(kind):
        return False
    bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    holds_data = (
        type.__dict__["__name__"].__get__(base) in _CLASSES and library_of(base) in _LIBRARIES for base in bases
    )
    return any(holds_data) and has_plain_attrs(value)


def _computable(value: Any) -> Any:
    """Return a value that may be computed with: its class is known, and those of its parts; else refuse."""
    if _is_plain(value) or (_is_known(value) and not _holds_objects(value)):
        return value
    if _class(value) in (*_CONTAINERS, *_VIEWS) and _has_plain_parts(value):
        return value
    raise RefusedError


def _has_plain_parts(value: Any, depth: int = _MAX_NESTING) -> bool:
    if len(value) > _MAX_PARTS:
        return False
    if _class(value) in _MAPPINGS:
        parts: Iterable[Any] = [*value.keys(), *value.values()]
    else:
        parts = value
    return all(
        _is_plain(part)
        or (_is_known(part) and not _holds_objects(part))
        or (depth > 0 and _class(part) in _CONTAINERS and _has_plain_parts(part, depth - 1))
        for part in parts
    )


def _holds_objects(value: Any) -> bool:
    """Return whether an array or a frame may hold objects of other classes, whose operators would be called."""
    library = library_of(_class(value))
    if library == "polars":
        dtypes: Any = getattr(value, "dtypes", None) or [getattr(value, "dtype", "")]
        return any(str(dtype) == "Object" for dtype in dtypes)
    if library not in ("numpy", "pandas", "geopandas"):
        return False
    if has_odd_labels(value):
        return True
    if "ngroups" in dir(_class(value)):
        return _holds_objects(value.obj)
    if hasattr(value, "dtypes") and hasattr(value, "columns"):
        columns = (value.iloc[:, at] for at, dtype in enumerate(value.dtypes) if not _is_plain_dtype(dtype))
        return any(map(_has_objects_in_it, columns))
    return not _is_plain_dtype(getattr(value, "dtype", None)) and _has_objects_in_it(value)


def _has_objects_in_it(value: Any) -> bool:
    """Return whether an array or a series of a type that is not plain has objects of other classes in it."""
    dtype: Any = getattr(value, "dtype", None)
    if not getattr(dtype, "hasobject", False) or dtype.names:
        return True  # of a class that is not known
    held: Any = value.to_numpy() if hasattr(value, "to_numpy") else value
    return held.size > _MAX_PARTS or not all(_is_plain_class(kind) for kind in set(map(type, held.flat)))


def _is_plain_dtype(dtype: Any) -> bool:
    """Return whether values of a type are of Python's or a library's classes; so must be those that it stands for."""
    if dtype is None:
        return True
    if library_of(_class(dtype)) not in _LIBRARIES or getattr(dtype, "hasobject", False):
        return False
    return _is_plain_dtype(getattr(dtype, "subtype", None))


def _is_plain_class(kind: type) -> bool:
    return kind in _ATOMS or library_of(kind) in (*_TIMES, "numpy", "pandas")


# Parts of values


def _attribute(value: Any, name: str) -> Any:
    if name.startswith("_"):
        raise RefusedError
    if _is_known(value):
        _check_labels(value)
        return _known_attribute(value, name)
    is_path = library_of(_class(value)) == "pathlib" and is_of_a_library(_class(value))
    if _is_plain(value) or is_path:
        if name not in (_PATH_PARTS if is_path else ATTRIBUTES):
            raise RefusedError
        return getattr(value, name)
    return _held(value, name)


def _held(value: Any, name: str) -> Any:
    """Return an attribute of a module or any object without running its code."""
    if is_a(value, ModuleType):
        found = object.__getattribute__(value, "__dict__").get(name, _MISSING)
    elif is_a(value, enum.Enum) and name in ("name", "value"):
        found = object.__getattribute__(value, "__dict__")[f"_{name}_"]
    else:
        found = inspect.getattr_static(value, name, _MISSING)
        if _class(found) is MemberDescriptorType or library_of(_class(found)) == "_collections":
            return found.__get__(value, _class(value))  # a slot, or a field of a named tuple
        if inspect.getattr_static(_class(found), "__get__", _MISSING) is not _MISSING:
            raise RefusedError
    if found is _MISSING:
        raise RefusedError
    return found


def _known_attribute(value: Any, name: str) -> Any:
    if name in ATTRIBUTES:
        found = getattr(value, name)
        if inspect.ismethod(found) or inspect.isbuiltin(found):
            raise RefusedError
        return found
    columns: Any = getattr(value, "columns", None) if library_of(_class(value)) == "pandas" else None
    if columns is not None and inspect.getattr_static(value, name, _MISSING) is _MISSING and name in columns:
        return value[name]
    raise RefusedError


def _item(value: Any, key: Any) -> Any:
    if _is_known(value):
        _check_labels(value)
        selected = _selection(value, key)
        _check_selected(value, selected)
        return value[selected]
    for base in (dict, list, tuple, str, bytes, deque, range):
        if is_a(value, base):
            own = inspect.getattr_static(_class(value), "__getitem__", None) is base.__dict__["__getitem__"]
            if not own and _class(value) not in (Counter, OrderedDict, defaultdict):
                raise RefusedError
            if base is dict and _key(key) not in cast("Any", dict).keys(value):
                raise KeyError(key)  # without `__missing__`, which may put something there
            return cast("Any", base).__getitem__(value, _index(key))
    raise RefusedError


def _key(key: Any) -> Any:
    """Return the key if Python's own code hashes and compares it; else refuse."""
    if _is_plain(key) or (_class(key) is tuple and all(_is_plain(part) for part in cast("tuple[Any, ...]", key))):
        return key
    raise RefusedError


def _index(key: Any) -> Any:
    return key if _class(key) is slice and all(map(_is_plain, (key.start, key.stop, key.step))) else _key(key)


def _selection(value: Any, key: Any) -> Any:
    """Return the key if it may index an array or a frame; a function would be called."""
    if _class(key) in (tuple, list):
        for part in key:
            _selection(value, part)
        return key
    if _is_known(key) and not _holds_objects(key) and not callable(key):
        return key
    return key if key is Ellipsis else _index(key)


def _check_labels(value: Any) -> None:
    if has_odd_labels(value):
        raise RefusedError


def _check_selected(value: Any, key: Any) -> None:
    """Refuse a key that repeats parts of an array or a frame until the result is far larger than it."""
    shape: Any = getattr(whole(value), "shape", ())
    if _class(shape) is not tuple or not shape or 0 in shape:
        return
    by_columns = len(shape) == 2 and hasattr(value, "columns")
    size = math.prod(shape)
    growth = 1.0
    for axis, part in enumerate(key if _class(key) is tuple else (key,)):
        if (count := _count_selected(part)) > 1:
            growth *= count / shape[1 if by_columns else min(axis, len(shape) - 1)]
    if size * growth > max(_MAX_PARTS, 2 * size):
        raise RefusedError


def _count_selected(part: Any) -> int:
    """Count the rows, columns or values that a part of a key selects; a mask selects each once at most."""
    if _class(part) is list:
        return 1 if _class(part[0] if part else None) is bool else sum(map(_count_selected, part))
    return part.size if _is_known(part) and hasattr(part, "size") and str(part.dtype) not in ("bool", "boolean") else 1


# Operations


def _binary(sign: ast.operator, left: Any, right: Any) -> Any:
    do = _BINARY.get(type(sign))
    _computable(left)
    _computable(right)
    if do is None or (isinstance(sign, ast.Mod) and _class(left) in (str, bytes)):  # which writes any object as text
        raise RefusedError
    if isinstance(sign, ast.Pow) and not _is_small_power(left, right):
        raise RefusedError
    if isinstance(sign, ast.Mult):
        for part, times in ((left, right), (right, left)):
            if _class(part) in (str, bytes, list, tuple, deque) and _class(times) is int:
                _check_length(len(part) * times)
    elif isinstance(sign, ast.Add) and _class(left) in (str, bytes, list, tuple):
        _check_length(len(left) + len(right) if _class(right) is _class(left) else 0)
    _check_broadcast(left, right)
    return do(left, right)


def _is_small_power(left: Any, right: Any) -> bool:
    if _class(left) in (bool, int) and _class(right) in (bool, int):
        return left.bit_length() * right <= _MAX_BITS
    return _class(left) in _NUMBERS or _is_known(left)


def _check_length(length: int) -> None:
    if length > _MAX_PARTS:
        raise RefusedError


def _check_broadcast(left: Any, right: Any) -> None:
    """Refuse a broadcast whose result is far larger than both arrays."""
    shapes: list[Any] = [getattr(side, "shape", ()) if _is_known(side) else () for side in (left, right)]
    if not all(_class(shape) is tuple for shape in shapes):
        return
    first, second = (tuple(reversed(shape)) for shape in shapes)
    longest = max(len(first), len(second))
    sides = zip(*((*each, *[1] * (longest - len(each))) for each in (first, second)), strict=True)
    if math.prod(max(pair) for pair in sides) > max(_MAX_PARTS, 2 * math.prod(first), 2 * math.prod(second)):
        raise RefusedError


def _compare(tree: ast.Compare, namespace: Mapping[str, object]) -> Any:
    left = evaluate(tree.left, namespace)
    value: Any = True
    for sign, node in zip(tree.ops, tree.comparators, strict=True):
        right = evaluate(node, namespace)
        if isinstance(sign, ast.Is | ast.IsNot):
            value = (left is right) is isinstance(sign, ast.Is)
        else:
            _check_broadcast(left, right)
            value = _COMPARED[type(sign)](_computable(left), _computable(right))
        if len(tree.ops) > 1 and not _computable(value):
            return value
        left = right
    return value


def _call(tree: ast.Call, namespace: Mapping[str, object]) -> Any:
    if any(isinstance(argument, ast.Starred) for argument in tree.args):
        raise RefusedError
    keywords = {word.arg: evaluate(word.value, namespace) for word in tree.keywords if word.arg in _KEYWORDS}
    if len(keywords) < len(tree.keywords):
        raise RefusedError
    match tree.func:
        case ast.Name(id=name):
            function = evaluate(tree.func, namespace)
            if name not in FUNCTIONS or function is not vars(builtins)[name]:
                raise RefusedError
            arguments = [evaluate(argument, namespace) for argument in tree.args]
            return _call_function(name, arguments, keywords)
        case ast.Attribute(value=owner, attr=name):
            value = evaluate(owner, namespace)
            arguments = [evaluate(argument, namespace) for argument in tree.args]
            if is_a(value, ModuleType):
                return _call_of_module(value, name, arguments, keywords)
            return _call_method(value, name, arguments, keywords)
        case _:
            raise RefusedError


def _call_function(name: str, arguments: list[Any], keywords: Mapping[str, Any]) -> Any:
    function: Any = vars(builtins)[name]
    if name == "len" and len(arguments) == 1:
        return _length(arguments[0])
    for argument in arguments:
        if name in ("list", "set", "dict", "sorted", "sum", "min", "max") and not _is_plain(argument):
            _check_length(_length(argument))
        if name != "list" or _class(argument) not in (*_CONTAINERS, *_VIEWS):  # which does nothing with what is in it
            _computable(argument)
    if name == "sum" and not all(map(_is_numeric, arguments[0] if _class(arguments[0]) in _CONTAINERS else ())):
        raise RefusedError  # of lists and texts it is quadratic
    if name == "round" and not all(_class(other) is int and abs(other) <= _MAX_DIGITS for other in arguments[1:]):
        raise RefusedError
    if name == "str" and (len(arguments) != 1 or not _is_plain(arguments[0])):
        raise RefusedError
    return function(*arguments, **keywords)


def _is_numeric(value: object) -> bool:
    return _class(value) in _NUMBERS or library_of(_class(value)) in ("numpy", *_TIMES)


def _length(value: Any) -> int:
    if _class(value) in (str, bytes, *_CONTAINERS, *_VIEWS) or _is_known(value):
        return len(value)
    for base in (dict, list, tuple, str):
        if is_a(value, base) and inspect.getattr_static(_class(value), "__len__", None) is base.__dict__["__len__"]:
            return cast("Any", base).__len__(value)
    raise RefusedError


def _call_of_module(module: ModuleType, name: str, arguments: list[Any], keywords: Mapping[str, Any]) -> Any:
    known = FUNCTIONS_OF_MODULES.get(str(object.__getattribute__(module, "__dict__").get("__name__")), frozenset[str]())
    if name not in known or not arguments:
        raise RefusedError
    first, *others = arguments
    # A second array is where some functions of numpy put their result.
    if not all(_is_plain(other) or _class(other) in (list, tuple) for other in others):
        raise RefusedError
    for other in (*others, *keywords.values()):
        _check_argument(other)
    return _attribute(module, name)(_computable(first), *map(_computable, others), **keywords)


def _call_method(value: Any, name: str, arguments: list[Any], keywords: Mapping[str, Any]) -> Any:
    kind = _belongs_to(value)
    # Behind the first argument stand those that have a function put its result into an object.
    if name not in METHODS[kind] or len(arguments) > (1 if kind == "data" and name != "get" else 2):
        raise RefusedError
    for argument in (*arguments, *keywords.values()):
        _computable(argument)
        _check_argument(argument, kind)
        if _is_known(argument) and library_of(_class(value)) not in ("pandas", "polars"):
            raise RefusedError  # an array may be where the result is put
    _check_labels(value)
    if name not in ("head", "tail", "get", "keys", "values", "items", "memory_usage", "describe"):
        _computable(value)
    elif _is_known(value) and name == "describe" and _holds_objects(value):
        raise RefusedError
    if name in ("tolist", "to_list", "join"):
        _check_length(_length(value) if _is_known(value) and getattr(value, "shape", ()) else 0)
    if name == "join" and not (
        len(arguments) == 1 and _class(arguments[0]) in (*_CONTAINERS, *_VIEWS) and len(value) < 100
    ):
        raise RefusedError
    if _class(value) in (dict, Counter, OrderedDict, defaultdict) and name == "get":
        arguments = [_key(arguments[0]), *arguments[1:]]
    return getattr(value, name)(*arguments, **keywords)


def _check_argument(argument: Any, kind: str = "data") -> None:
    """Refuse a format or a list for which every value would be written, or looked for, at length."""
    if kind == "data" and _class(argument) in (str, bytes, list, tuple) and len(argument) > _MAX_ARGUMENT:
        raise RefusedError


def _belongs_to(value: Any) -> str:
    kind = _class(value)
    if _is_known(value):
        return "data"
    if kind in (str, bytes):
        return "text"
    if kind in (*_CONTAINERS, *_VIEWS):
        return "container"
    if kind in _NUMBERS or library_of(kind) in ("decimal", "fractions"):
        return "number"
    if _is_plain(value) and library_of(kind) == "datetime":
        return "time"
    raise RefusedError
