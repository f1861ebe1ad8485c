"""Values of expressions in prompts that can be looked up, without running code.

A prompt may hold text from elsewhere. So Python's ``eval`` sees none of it in this process. What this module evaluates,
it evaluates itself, node by node:

- names and constants;
- what an object holds: in its ``__dict__``, in slots, in a class; of arrays, frames and dates also ``ATTRIBUTES``. No
  property and no ``__getattr__`` of a class that is not known is asked;
- items of lists, tuples, dictionaries, texts, arrays and frames, by plain keys.

Anything else raises ``NotHeldError``: it would have to be computed, which a confined copy of the kernel may do
(`indus_nb.kernel.trials`).
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from types import MemberDescriptorType, ModuleType
from typing import Any, cast

from indus_nb.kernel.values.known_classes import (
    has_known_zone,
    has_odd_labels,
    has_plain_attrs,
    is_a,
    is_of_a_library,
    library_of,
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
_TIMES = _names("datetime decimal fractions uuid")
_ATOMS: tuple[type[object], ...] = (bool, int, float, complex, str, bytes, type(None))
_MISSING = object()


class NotHeldError(Exception):
    """No object holds the value of an expression, or a part of it: code would have to compute it."""


def evaluate(  # noqa: PLR0911 - one case for each kind of node
    tree: ast.expr, namespace: Mapping[str, object]
) -> Any:
    """Look the value of an expression up, without running code.

    Returns:
        Its value, which may be of any class.

    Raises:
        NotHeldError: It has to be computed.
        Exception: Whatever the look raises, such as ``KeyError`` for an item that is not there.
    """
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
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
        case _:
            raise NotHeldError


def can_format(value: object) -> bool:
    """Return whether a value's ``__format__`` runs no code but Python's own or numpy's for its numbers."""
    kind = _class(value)
    return _is_plain(value) or (library_of(kind) == "numpy" and _is_known(value) and not hasattr(kind, "__len__"))


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


# Parts of values


def _attribute(value: Any, name: str) -> Any:
    if name.startswith("_"):
        raise NotHeldError
    if _is_known(value):
        _check_labels(value)
        return _known_attribute(value, name)
    is_path = library_of(_class(value)) == "pathlib" and is_of_a_library(_class(value))
    if _is_plain(value) or is_path:
        if name not in (_PATH_PARTS if is_path else ATTRIBUTES):
            raise NotHeldError
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
            raise NotHeldError
    if found is _MISSING:
        raise NotHeldError
    return found


def _known_attribute(value: Any, name: str) -> Any:
    if name in ATTRIBUTES:
        found = getattr(value, name)
        if inspect.ismethod(found) or inspect.isbuiltin(found):
            raise NotHeldError
        return found
    columns: Any = getattr(value, "columns", None) if library_of(_class(value)) == "pandas" else None
    if columns is not None and inspect.getattr_static(value, name, _MISSING) is _MISSING and name in columns:
        return value[name]
    raise NotHeldError


def _item(value: Any, key: Any) -> Any:
    if _is_known(value):
        _check_labels(value)
        return value[_selection(key)]
    for base in (dict, list, tuple, str, bytes, deque, range):
        if is_a(value, base):
            own = inspect.getattr_static(_class(value), "__getitem__", None) is base.__dict__["__getitem__"]
            if not own and _class(value) not in (Counter, OrderedDict, defaultdict):
                raise NotHeldError
            if base is dict and _key(key) not in cast("Any", dict).keys(value):
                raise KeyError(key)  # without `__missing__`, which may put something there
            return cast("Any", base).__getitem__(value, _index(key))
    raise NotHeldError


def _key(key: Any) -> Any:
    """Return the key if Python's own code hashes and compares it; else refuse."""
    if _is_plain(key) or (_class(key) is tuple and all(_is_plain(part) for part in cast("tuple[Any, ...]", key))):
        return key
    raise NotHeldError


def _index(key: Any) -> Any:
    return key if _class(key) is slice and all(map(_is_plain, (key.start, key.stop, key.step))) else _key(key)


def _selection(key: Any) -> Any:
    """Return the key if it selects no part of an array or a frame twice, and runs no code there."""
    if _class(key) is tuple:
        return tuple(map(_selection, key))
    if _class(key) is list:
        if len(set(map(_key, key))) < len(key):
            raise NotHeldError
        return key
    return key if key is Ellipsis else _index(key)


def _check_labels(value: Any) -> None:
    if has_odd_labels(value):
        raise NotHeldError
