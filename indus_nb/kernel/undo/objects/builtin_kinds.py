"""Kinds of objects that Python itself brings: containers, instances, classes, functions, cells, buffers."""

from __future__ import annotations

import ast
import functools
import gc
import io
import random
import sys
import threading
import types
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, cast

from indus_nb.kernel.undo.keeper import (
    ABSENT,
    Keeper,
    OneHeld,
    SeveralHeld,
    State,
    attributes,
    class_of,
    identical,
    same_items,
)

_OWN_OF_CLASSES = frozenset(
    {"__dict__", "__weakref__", "__annotate_func__", "__annotations_cache__", "_abc_impl", "__slotnames__"}
    | {"__static_attributes__", "__firstlineno__"}
)
"""Attributes of classes that Python keeps by itself."""
_OUTER_OF_CLASSES = ("__class__", "__name__", "__qualname__", "__bases__")
_OF_FUNCTIONS = (
    *("__code__", "__defaults__", "__kwdefaults__", "__dict__", "__name__", "__qualname__", "__doc__", "__module__"),
    # from Python 3.14 on annotations are what this function returns, and to read them runs code
    "__annotate__" if hasattr(types.FunctionType, "__annotate__") else "__annotations__",
)
_ARRAY: Any = array
"""The array type as ``Any``: Python 3.11 does not take an index of it."""
_OF_DECIMALS = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


class ListKind(State):
    """Lists: their elements."""

    kind: Any = list

    def size(self, obj: Any) -> int:
        return 8 * self.kind.__len__(obj)

    def remember(self, obj: Any) -> list[Any]:
        return list[Any].__getitem__(obj, slice(None))

    def put(self, obj: Any, state: list[Any]) -> None:
        list[Any].__setitem__(obj, slice(None), state)

    def same(self, obj: Any, state: list[Any]) -> bool:
        return self.kind.__len__(obj) == len(state) and identical(self.kind.__iter__(obj), state)

    def parts(self, state: list[Any]) -> Iterable[Any]:
        return state

    def weight(self, state: list[Any]) -> int:
        return 8 * len(state)


class DictKind(State):
    """Dictionaries: their items, in order."""

    kind: Any = dict

    def size(self, obj: Any) -> int:
        return dict[Any, Any].__sizeof__(obj)

    def remember(self, obj: Any) -> dict[Any, Any]:
        return dict[Any, Any](self.kind.items(obj))

    def former(self, obj: Any, state: dict[Any, Any]) -> dict[Any, Any]:  # noqa: ARG002
        return state

    def put(self, obj: Any, state: dict[Any, Any]) -> None:
        dict[Any, Any].clear(obj)
        dict[Any, Any].update(obj, state)

    def same(self, obj: Any, state: dict[Any, Any]) -> bool:
        if dict[Any, Any].__len__(obj) != len(state) or not identical(self.kind.__iter__(obj), state):
            return False
        return identical(self.kind.values(obj), state.values())

    def parts(self, state: dict[Any, Any]) -> Iterable[Any]:
        return chain(state, state.values())

    def weight(self, state: dict[Any, Any]) -> int:
        return state.__sizeof__()


class PlainDictKind(DictKind):
    """Dictionaries of no class of their own, which copy at once and without asking keys for their hashes."""

    def remember(self, obj: Any) -> dict[Any, Any]:
        return dict[Any, Any].copy(obj)


class OrderedDictKind(DictKind):
    """Dictionaries whose order is apart from what ``dict`` knows."""

    kind: Any = OrderedDict

    def put(self, obj: Any, state: dict[Any, Any]) -> None:
        OrderedDict[Any, Any].clear(obj)
        for key, value in state.items():
            OrderedDict[Any, Any].__setitem__(obj, key, value)


class SetKind(State):
    """Sets: their elements."""

    def size(self, obj: Any) -> int:
        return set[Any].__sizeof__(obj)

    def remember(self, obj: Any) -> set[Any]:
        return set[Any]().union(set[Any].__iter__(obj)) if class_of(obj) is not set else set[Any].copy(obj)

    def put(self, obj: Any, state: set[Any]) -> None:
        set[Any].clear(obj)
        set[Any].update(obj, state)

    def same(self, obj: Any, state: set[Any]) -> bool:
        return set[Any].__len__(obj) == len(state) and {*map(id, set[Any].__iter__(obj))} == {*map(id, state)}

    def parts(self, state: set[Any]) -> Iterable[Any]:
        return state

    def weight(self, state: set[Any]) -> int:
        return state.__sizeof__()


class DequeKind(ListKind):
    """Deques: their elements."""

    kind: Any = deque

    def remember(self, obj: Any) -> list[Any]:
        return [*deque[Any].__iter__(obj)]

    def put(self, obj: Any, state: list[Any]) -> None:
        deque[Any].clear(obj)
        deque[Any].extend(obj, state)


class BytearrayKind(State):
    """Byte arrays: their bytes."""

    def size(self, obj: Any) -> int:
        return bytearray.__len__(obj)

    def remember(self, obj: Any) -> bytes:
        return bytes(memoryview(obj))

    def put(self, obj: Any, state: bytes) -> None:
        bytearray.__setitem__(obj, slice(None), state)

    def same(self, obj: Any, state: bytes) -> bool:
        return bytearray.__eq__(obj, state) is True

    def weight(self, state: bytes) -> int:
        return len(state)


class ArrayKind(State):
    """Arrays of the module ``array``: their bytes."""

    def size(self, obj: Any) -> int:
        return obj.itemsize * _ARRAY.__len__(obj)

    def remember(self, obj: Any) -> bytes:
        return _ARRAY.tobytes(obj)

    def put(self, obj: Any, state: bytes) -> None:
        if _ARRAY.__len__(obj) * obj.itemsize == len(state):
            with memoryview(obj) as view, view.cast("B") as content:
                content[:] = state
        else:
            _ARRAY.__delitem__(obj, slice(None))
            _ARRAY.frombytes(obj, state)

    def weight(self, state: bytes) -> int:
        return len(state)


class CellKind(OneHeld):
    """The variable that a function shares with the functions within it."""

    def remember(self, obj: Any) -> Any:
        try:
            return obj.cell_contents
        except ValueError:
            return ABSENT

    def put(self, obj: Any, state: Any) -> None:
        if state is not ABSENT:
            obj.cell_contents = state
        elif self.remember(obj) is not ABSENT:
            del obj.cell_contents


class FunctionKind(SeveralHeld):
    """Functions of the user's: code, defaults, names, attributes, and what they close over."""

    def remember(self, obj: Any) -> tuple[Any, ...]:
        return *(getattr(obj, name) for name in _OF_FUNCTIONS), obj.__closure__

    def put(self, obj: Any, state: tuple[Any, ...]) -> None:
        for name, value in zip(_OF_FUNCTIONS, state, strict=False):
            if getattr(obj, name) is not value:
                setattr(obj, name, value)

    def parts(self, state: tuple[Any, ...]) -> Iterable[Any]:
        return state[1:]


class ClassKind(State):
    """Classes of the user's: their class, names, bases and attributes."""

    def remember(self, obj: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        own = type.__dict__["__dict__"].__get__(obj)
        outer: tuple[Any, ...] = (class_of(obj), *(type.__dict__[name].__get__(obj) for name in _OUTER_OF_CLASSES[1:]))
        return outer, {
            name: value
            for name, value in own.items()
            if name not in _OWN_OF_CLASSES
            and type(value) not in (types.MemberDescriptorType, types.GetSetDescriptorType)
            and (name != "__annotations__" or value)  # to read them makes an empty dictionary
        }

    def put(self, obj: Any, state: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        (outer, now), (wanted_outer, wanted) = self.remember(obj), state
        for name, held, value in zip(_OUTER_OF_CLASSES, outer, wanted_outer, strict=True):
            if held != value:
                type.__setattr__(obj, name, value)
        for name in now.keys() - wanted.keys():
            type.__delattr__(obj, name)
        for name, value in wanted.items():
            if now.get(name, ABSENT) is not value:
                type.__setattr__(obj, name, value)

    def same(self, obj: Any, state: tuple[tuple[Any, ...], dict[str, Any]]) -> bool:
        (outer, now), (wanted_outer, wanted) = self.remember(obj), state
        return outer == wanted_outer and same_items(now, wanted)

    def parts(self, state: tuple[tuple[Any, ...], dict[str, Any]]) -> Iterable[Any]:
        return (state[0][0], *state[0][-1], *state[1].values())


class InstanceKind(SeveralHeld):
    """Instances: their class, the dictionary of their attributes, and their slots."""

    def __init__(self, kind: type) -> None:
        """Look up where instances of ``kind`` hold their attributes."""
        bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
        self._dictionary = next((vars(base)["__dict__"] for base in bases if _has_dictionary(base)), None)
        self._slots = slots_of(kind)
        self._kind = kind

    def remember(self, obj: Any) -> list[Any]:
        if type(obj) is not self._kind:  # it was given another class
            return InstanceKind(class_of(obj)).remember(obj)
        return [
            type(obj),
            None if self._dictionary is None else self._dictionary.__get__(obj),
            *(slot(obj, member) for member in self._slots),
        ]

    def put(self, obj: Any, state: list[Any]) -> None:
        if type(obj) is not state[0]:
            object.__setattr__(obj, "__class__", state[0])
        if state[0] is not self._kind:
            InstanceKind(state[0]).put(obj, state)
            return
        now = self.remember(obj)
        if self._dictionary is not None and now[1] is not state[1]:
            self._dictionary.__set__(obj, state[1])
        for member, held, value in zip(self._slots, now[2:], state[2:], strict=True):
            if held is value:
                continue
            if value is ABSENT:
                member.__delete__(obj)
            else:
                member.__set__(obj, value)

    def parts(self, state: list[Any]) -> Iterable[Any]:
        return state


class RandomKind(State):
    """Generators of random numbers."""

    def size(self, obj: Any) -> int:  # noqa: ARG002
        return 5000

    def remember(self, obj: Any) -> Any:
        return random.Random.getstate(obj)

    def put(self, obj: Any, state: Any) -> None:
        random.Random.setstate(obj, state)


_OF_EXCEPTIONS = ("args", "__cause__", "__context__", "__suppress_context__", "__traceback__")
_NOT_OF_LOGGING = frozenset({"lock", "manager", "parent", "root", "_cache"})


class ExceptionKind(SeveralHeld):
    """Exceptions: their arguments, and what they came from."""

    def remember(self, obj: Any) -> tuple[Any, ...]:
        return tuple(BaseException.__dict__[name].__get__(obj) for name in _OF_EXCEPTIONS)

    def put(self, obj: Any, state: tuple[Any, ...]) -> None:
        for name, value in zip(_OF_EXCEPTIONS, state, strict=True):
            BaseException.__dict__[name].__set__(obj, value)

    def parts(self, state: tuple[Any, ...]) -> Iterable[Any]:
        return state[:3]


class MemoryFileKind(State):
    """Files in memory: what they hold, and the place in it."""

    def __init__(self, kind: Any) -> None:
        """Set the class whose methods read and write the file."""
        self._kind = kind

    def size(self, obj: Any) -> int:
        return int(self._kind.__sizeof__(obj))

    def remember(self, obj: Any) -> Any:
        return None if self._is_closed(obj) else self._kind.__getstate__(obj)[:-1]

    def put(self, obj: Any, state: Any) -> None:
        if self.same(obj, state):
            return
        if state is None:
            self._kind.close(obj)
        else:
            self._kind.__setstate__(obj, (*state, None))

    def lacks(self, obj: Any, state: Any) -> str:
        return "it is closed" if state is not None and self._is_closed(obj) else ""

    def weight(self, state: Any) -> int:
        return 64 if state is None else len(state[0])

    def _is_closed(self, obj: Any) -> bool:
        return bool(self._kind.closed.__get__(obj))


class ViewKind(OneHeld):
    """Views of memory: whether they are released; what they show is that of another object."""

    def remember(self, obj: Any) -> Any:
        try:
            return obj.obj
        except ValueError:
            return ABSENT

    def put(self, obj: Any, state: Any) -> None:
        if state is ABSENT:
            memoryview.release(obj)

    def lacks(self, obj: Any, state: Any) -> str:
        return "it is released" if self.remember(obj) is ABSENT and state is not ABSENT else ""


class DecimalContextKind(State):
    """Contexts of decimal arithmetic."""

    def remember(self, obj: Any) -> dict[str, Any]:
        return {**{name: getattr(obj, name) for name in _OF_DECIMALS}, "traps": dict(obj.traps)}

    def put(self, obj: Any, state: dict[str, Any]) -> None:
        for name in _OF_DECIMALS:
            setattr(obj, name, state[name])
        obj.traps.update(state["traps"])


class LoggingKind(State):
    """Loggers and handlers: what is attached to them, and which stream they write to, but not what is in that."""

    def remember(self, obj: Any) -> dict[str, Any]:
        held = attributes(obj, _NOT_OF_LOGGING)
        return {name: [*value] if isinstance(value, list) else value for name, value in held.items()}

    def put(self, obj: Any, state: dict[str, Any]) -> None:
        own: dict[str, Any] = obj.__dict__
        for name in own.keys() - state.keys() - _NOT_OF_LOGGING:
            del own[name]
        for name, value in state.items():
            if isinstance(value, list) and isinstance(own.get(name), list):
                own[name][:] = value
            else:
                own[name] = value
        if (manager := getattr(obj, "manager", None)) is not None:
            manager._clear_cache()  # noqa: SLF001 - of what is enabled

    def same(self, obj: Any, state: dict[str, Any]) -> bool:
        now = self.remember(obj)
        return now.keys() == state.keys() and all(_same_or_listed(now[name], state[name]) for name in now)

    def parts(self, state: dict[str, Any]) -> Iterable[Any]:
        for name, value in state.items():
            if name != "stream":
                yield from value if isinstance(value, list) else (value,)


def _same_or_listed(one: Any, other: Any) -> bool:
    if type(one) is not list or type(other) is not list:
        return one is other
    listed, others = cast("list[Any]", one), cast("list[Any]", other)
    return len(listed) == len(others) and identical(listed, others)


class FinalizerKind(SeveralHeld):
    """Finalizers: whether they are alive, which cannot be restored."""

    fixed = "it is called otherwise than before"

    def remember(self, obj: Any) -> Any:
        return *(obj.peek() or ())[:3], obj.atexit


class LockKind(State):
    """Locks, and what stands on one: how they are held, which stays as it is."""

    fixed = "a lock was taken or released"

    def __init__(self, kind: type[Any]) -> None:
        self._shown: Any = kind.__repr__

    def remember(self, obj: Any) -> str:
        shown = self._shown(obj)
        return shown.rpartition(", ")[0] or shown  # without how many threads wait for a condition


class EventKind(State):
    """Events of threads: whether they are set."""

    def remember(self, obj: Any) -> bool:
        return threading.Event.is_set(obj)

    def put(self, obj: Any, state: bool) -> None:  # noqa: FBT001
        (threading.Event.set if state else threading.Event.clear)(obj)


class Through(Keeper):
    """Immutable objects that lead to others."""

    def __init__(self, parts: Callable[[Any], Iterable[Any]]) -> None:
        """Set the function that lists the parts of an object."""
        self._parts = parts

    def parts(self, state: Any) -> Iterable[Any]:
        return self._parts(state)


def slots_of(kind: type) -> list[Any]:
    """Return the descriptors of a class's slots, with those of its bases."""
    bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return [
        member
        for base in bases
        for member in type.__dict__["__dict__"].__get__(base).values()
        if type(member) is types.MemberDescriptorType and is_python_class(base)
    ]


def is_users_class(kind: type) -> bool:
    """Return whether a class is defined by the user, in no imported module."""
    module = type.__dict__["__module__"].__get__(kind)
    return module == "__main__" or not isinstance(module, str) or module not in sys.modules


def is_python_class(kind: type) -> bool:
    """Return whether a ``class`` statement made it: its instances hold nothing that Python cannot reach."""
    held = type.__dict__["__dict__"].__get__(kind)
    heap = bool(kind.__flags__ & (1 << 9))
    return heap and not any(type(value) in _IN_C for name, value in held.items() if name not in _OWN_OF_CLASSES)


_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


def _has_dictionary(kind: type) -> bool:
    held = type.__dict__["__dict__"].__get__(kind).get("__dict__")
    return type(held) in (types.GetSetDescriptorType, types.MemberDescriptorType)


def slot(obj: Any, member: Any) -> Any:
    """Return the value in an object's slot.

    Returns:
        The value; ``ABSENT`` if there is none.
    """
    try:
        return member.__get__(obj)
    except AttributeError:
        return ABSENT


def _in_context(obj: Any) -> Iterable[Any]:
    return (obj.get(None),)


_CACHED: Any = type(functools.lru_cache(len))


def _cached(obj: Any) -> Iterable[Any]:
    """List the function behind a cache and the cached results; a result more or less is no change."""
    own = obj.__dict__
    info = _CACHED.cache_info(obj)
    for part in gc.get_referents(obj):
        if type(part) is not dict or part is own:
            yield part
        elif info.maxsize is None:  # the cache itself, and else one of its entries or results
            yield from [*cast("dict[Any, Any]", part).values()]
        elif info.currsize and not any(map(_is_entry, [*cast("dict[Any, Any]", part).values()])):
            yield part


def _is_entry(value: Any) -> bool:
    """Return whether an object is an entry of a bounded ``functools.lru_cache``."""
    return class_of(value).__name__ == "_lru_list_elem"


def _behind(obj: Any) -> Iterable[Any]:
    """List the objects behind a view; the dictionary of a class is not to be written to."""
    for part in gc.get_referents(obj):
        if type(part) is dict and {"__module__", "__doc__"} <= part.keys():
            yield from part.values()
        else:
            yield part


_SELF = Through(lambda obj: (obj.__self__,))
BEHIND = Through(_behind)
_EMPTY: dict[Any, Any] = {}
_VIEWS: tuple[type[Any], ...] = (
    *(types.MappingProxyType, super),
    *map(type, (_EMPTY.keys(), _EMPTY.values(), _EMPTY.items())),
)

BY_BASE: tuple[tuple[type, Keeper], ...] = (
    (list, ListKind()),
    (OrderedDict, OrderedDictKind()),
    (dict, DictKind()),
    (set, SetKind()),
    (deque, DequeKind()),
    (bytearray, BytearrayKind()),
    (array, ArrayKind()),
    (random.Random, RandomKind()),
    (BaseException, ExceptionKind()),
    (tuple, Through(tuple[Any, ...].__iter__)),
    (frozenset, Through(frozenset[Any].__iter__)),
    (types.MethodType, Through(lambda obj: (obj.__self__, obj.__func__))),
    (types.BuiltinFunctionType, _SELF),
    (types.MethodWrapperType, _SELF),
    (functools.partial, Through(lambda obj: (obj.func, obj.args, obj.keywords))),
    (property, Through(lambda obj: (obj.fget, obj.fset, obj.fdel))),
    (staticmethod, Through(lambda obj: (obj.__func__,))),
    (classmethod, Through(lambda obj: (obj.__func__,))),
    (functools.cached_property, Through(lambda obj: (obj.func,))),
    (_CACHED, Through(_cached)),
    (memoryview, ViewKind()),
    (weakref.ReferenceType, Through(lambda obj: (obj(),))),
    *((kind, LockKind(kind)) for kind in (type(threading.Lock()), type(threading.RLock()))),
    (types.CellType, CellKind()),
    (ast.AST, Keeper()),
    *((kind, BEHIND) for kind in _VIEWS),
)
"""Kinds of objects by the built-in base of their class. Classes and functions are not among them."""
BY_NAME: dict[tuple[str, str], Keeper] = {
    ("_io", "BytesIO"): MemoryFileKind(io.BytesIO),
    ("_io", "StringIO"): MemoryFileKind(io.StringIO),
    ("decimal", "Context"): DecimalContextKind(),
    ("threading", "Condition"): LockKind(threading.Condition),
    ("threading", "Semaphore"): LockKind(threading.Semaphore),
    ("threading", "Event"): EventKind(),
    ("weakref", "finalize"): FinalizerKind(),
    ("contextvars", "ContextVar"): Through(_in_context),
    ("_contextvars", "ContextVar"): Through(_in_context),
    ("logging", "Logger"): LoggingKind(),
    ("logging", "Handler"): LoggingKind(),
}
"""Kinds by the package and the name of a class, of packages whose objects else stand for things outside of Python."""
PLAIN_DICT = PlainDictKind()
CLASS = ClassKind()
FUNCTION = FunctionKind()
