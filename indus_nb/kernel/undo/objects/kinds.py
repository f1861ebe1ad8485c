"""Lookup of an object's kind: how it is remembered, or why it cannot be."""

from __future__ import annotations

import datetime as dt
import random
import types
from collections import defaultdict
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from indus_nb.kernel.undo.keeper import Keeper, OneHeld
from indus_nb.kernel.undo.objects import builtin_kinds, libraries
from indus_nb.kernel.undo.objects.builtin_kinds import (
    BEHIND,
    BY_BASE,
    CLASS,
    FUNCTION,
    PLAIN_DICT,
    InstanceKind,
    is_python_class,
    is_users_class,
    slots_of,
)
from indus_nb.kernel.undo.objects.libraries import COLUMN, LIVE, WHOLE

_BY_NAME = {**builtin_kinds.BY_NAME, **libraries.BY_NAME}
_STATE_ELSEWHERE = frozenset(
    {
        "asyncio",
        "comm",
        "concurrent",
        "cupy",
        "duckdb",
        "h5py",
        "httpx",
        "io",
        "_io",
        "ipykernel",
        "ipywidgets",
        "IPython",
    }
    | {"multiprocessing", "PIL", "pyspark", "queue", "requests", "selectors", "socket", "sqlalchemy", "sqlite3", "ssl"}
    | {"subprocess", "tempfile", "tensorflow", "threading", "torch", "traitlets", "urllib3", "zmq"}
)
"""Packages with classes of Python's whose objects stand for things outside of Python: files, processes, devices."""
_NO_STATE = frozenset(
    {"_abc", "abc", "_decimal", "decimal", "fractions", "jaxlib", "matplotlib", "numpy", "operator", "_operator"}
    | {"pandas", "pathlib", "polars", "pyarrow", "re", "scipy", "_sre", "sklearn", "_struct", "types", "typing"}
    | {"unicodedata", "uuid", "zoneinfo", "string", "enum", "datetime", "weakref", "contextvars", "_contextvars"}
)
"""Packages whose objects in C do not change, but for those with a kind of their own."""
_LEADING = frozenset({"builtins", "itertools", "functools"})
"""Packages with iterators in C, which are not remembered themselves, and go to others or run functions."""
_SCALARS = (int, float, complex, str, bytes, dt.date, dt.time, dt.timedelta, dt.tzinfo)
_OPEN_C_BASES = (
    *(object, *_SCALARS, BaseException, types.SimpleNamespace, defaultdict, random.Random.__base__, types.ModuleType),
    *(base for base, _ in BY_BASE),
)
"""Types in C that classes may inherit from: they hold nothing more, or have a kind."""
_CHANGES = frozenset({"SRE_Scanner", "Context", "ProxyType", "CallableProxyType", "weakproxy", "weakcallableproxy"})
"""Classes of these packages whose objects are mutable after all, or stand for others; so are all iterators."""
_NEVER_CHANGE = frozenset(
    {"NoneType", "NotImplementedType", "ellipsis", "bool", "range", "slice", "code", "object"}
    | {"wrapper_descriptor", "method_descriptor", "classmethod_descriptor"}
    | {"getset_descriptor", "member_descriptor", "cython_function_or_method", "fused_cython_function", "traceback"}
)


class _DefaultKind(OneHeld):
    """Default factories of ``defaultdict``."""

    def remember(self, obj: Any) -> Any:
        return obj.default_factory

    def put(self, obj: Any, state: Any) -> None:
        obj.default_factory = state


class Kinds(NamedTuple):
    """Keepers of the objects of a class.

    Attributes:
        keepers: One for each of the places in which such an object holds something; none if it holds nothing.
        problem: Why it cannot be remembered; empty if it can.
    """

    keepers: tuple[Keeper, ...]
    problem: str = ""


_NOTHING = Kinds(())
_DEFAULT = _DefaultKind()
_known: WeakKeyDictionary[type, Kinds] = WeakKeyDictionary()


def kinds_of(kind: type[Any]) -> Kinds:
    """Return the keepers of the objects of a class, or why there are none."""
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = _find(kind)
    return found


def _find(kind: type[Any]) -> Kinds:
    if kind is dict:
        return Kinds((PLAIN_DICT,))
    if issubclass(kind, type):
        return Kinds((CLASS,))
    if kind is types.FunctionType:
        return Kinds((FUNCTION,))
    if kind in _SCALARS or kind.__name__ in _NEVER_CHANGE:
        return _NOTHING
    bases: tuple[type[Any], ...] = type.__dict__["__mro__"].__get__(kind)
    if (found := _of_library(kind, bases)) is not None:
        return found
    return _of_python(kind, bases)


def _of_library(kind: type[Any], bases: tuple[type[Any], ...]) -> Kinds | None:
    for base in bases:
        package = _package(base)
        keeper = _BY_NAME.get((package, base.__name__))
        if kind.__name__ == "memmap":
            return Kinds((), "a file in memory")
        if keeper is not None:
            if base.__name__ in WHOLE:
                return Kinds((keeper,))
            return Kinds((keeper, *((COLUMN,) if package == "pandas" else _instance(kind))))
        if package in _STATE_ELSEWHERE and base is not object:
            return Kinds((), _a(kind))
    return None


def _of_python(kind: type[Any], bases: tuple[type[Any], ...]) -> Kinds:
    in_c = [
        base
        for base in bases
        if not is_python_class(base) and base not in _OPEN_C_BASES and not issubclass(base, BaseException)
    ]
    if in_c:
        if _package(in_c[0]) in _NO_STATE and not (hasattr(kind, "__next__") or kind.__name__ in _CHANGES):
            return Kinds((LIVE,)) if any("__getstate__" in vars(base) for base in in_c) else _NOTHING
        return Kinds((BEHIND,) if _package(in_c[0]) in _LEADING else (), _a(kind))
    keepers = tuple(keeper for base, keeper in BY_BASE if issubclass(kind, base))[:1]
    if defaultdict in bases:
        keepers = (*keepers, _DEFAULT)
    return Kinds((*keepers, *_instance(kind)))


def _instance(kind: type[Any]) -> tuple[Keeper, ...]:
    has_place = is_users_class(kind) or kind.__dictoffset__ or slots_of(kind)
    return (InstanceKind(kind),) if has_place else ()


def _package(kind: type[Any]) -> str:
    return str(type.__dict__["__module__"].__get__(kind)).partition(".")[0]


def _a(kind: type[Any]) -> str:
    return f"{'an' if kind.__name__[:1].lower() in 'aeiou' else 'a'} {kind.__name__}"
