"""Kinds of objects that Python itself brings: containers, instances, classes, functions, cells, buffers."""

from __future__ import annotations

import functools
import random
import types
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from indus_nb.undo.keeper import ABSENT, Keeper, State, class_of, identical

_OWN_OF_CLASSES = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__annotate_func__", "_abc_impl"}
    | {"__annotations_cache__", "__static_attributes__", "__firstlineno__"}
)
"""Attributes of classes that Python keeps by itself."""


class ListKind(State):
    """Lists: their elements."""

    def size(self, obj: Any) -> int:
        return 8 * list[Any].__len__(obj)

    def remember(self, obj: Any) -> list[Any]:
        return list[Any].__getitem__(obj, slice(None))

    def put(self, obj: Any, state: list[Any]) -> None:
        list[Any].__setitem__(obj, slice(None), state)

    def same(self, obj: Any, state: list[Any]) -> bool:
        return list[Any].__len__(obj) == len(state) and identical(list[Any].__iter__(obj), state)

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


class DequeKind(State):
    """Deques: their elements."""

    def size(self, obj: Any) -> int:
        return 8 * deque[Any].__len__(obj)

    def remember(self, obj: Any) -> list[Any]:
        return [*deque[Any].__iter__(obj)]

    def put(self, obj: Any, state: list[Any]) -> None:
        deque[Any].clear(obj)
        deque[Any].extend(obj, state)

    def same(self, obj: Any, state: list[Any]) -> bool:
        return deque[Any].__len__(obj) == len(state) and identical(deque[Any].__iter__(obj), state)

    def parts(self, state: list[Any]) -> Iterable[Any]:
        return state

    def weight(self, state: list[Any]) -> int:
        return 8 * len(state)


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
        return obj.itemsize * array[Any].__len__(obj)

    def remember(self, obj: Any) -> bytes:
        return array[Any].tobytes(obj)

    def put(self, obj: Any, state: bytes) -> None:
        if array[Any].__len__(obj) * obj.itemsize == len(state):
            with memoryview(obj) as view, view.cast("B") as content:
                content[:] = state
        else:
            array[Any].__delitem__(obj, slice(None))
            array[Any].frombytes(obj, state)

    def same(self, obj: Any, state: bytes) -> bool:
        return array[Any].tobytes(obj) == state

    def weight(self, state: bytes) -> int:
        return len(state)


class CellKind(State):
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

    def same(self, obj: Any, state: Any) -> bool:
        return self.remember(obj) is state

    def parts(self, state: Any) -> Iterable[Any]:
        return (state,)


class FunctionKind(State):
    """Functions of the user's: code, defaults, attributes, and what they close over."""

    def remember(self, obj: Any) -> tuple[Any, ...]:
        return obj.__code__, obj.__defaults__, obj.__kwdefaults__, obj.__dict__, obj.__closure__

    def put(self, obj: Any, state: tuple[Any, ...]) -> None:
        obj.__code__, obj.__defaults__, obj.__kwdefaults__, obj.__dict__ = state[:4]

    def same(self, obj: Any, state: tuple[Any, ...]) -> bool:
        return identical(self.remember(obj), state)

    def parts(self, state: tuple[Any, ...]) -> Iterable[Any]:
        return state[1:]


class ClassKind(State):
    """Classes of the user's: their bases and attributes."""

    def remember(self, obj: Any) -> tuple[Any, dict[str, Any]]:
        own = type.__dict__["__dict__"].__get__(obj)
        return type.__dict__["__bases__"].__get__(obj), {
            name: value
            for name, value in own.items()
            if name not in _OWN_OF_CLASSES
            and type(value) not in (types.MemberDescriptorType, types.GetSetDescriptorType)
        }

    def put(self, obj: Any, state: tuple[Any, dict[str, Any]]) -> None:
        (bases, now), (wanted_bases, wanted) = self.remember(obj), state
        if bases != wanted_bases:
            type.__setattr__(obj, "__bases__", wanted_bases)
        for name in now.keys() - wanted.keys():
            type.__delattr__(obj, name)
        for name, value in wanted.items():
            if now.get(name, ABSENT) is not value:
                type.__setattr__(obj, name, value)

    def same(self, obj: Any, state: tuple[Any, dict[str, Any]]) -> bool:
        (bases, now), (wanted_bases, wanted) = self.remember(obj), state
        return (
            identical(bases, wanted_bases)
            and now.keys() == wanted.keys()
            and all(now[name] is value for name, value in wanted.items())
        )

    def parts(self, state: tuple[Any, dict[str, Any]]) -> Iterable[Any]:
        return (*state[0], *state[1].values())


class InstanceKind(State):
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
            *(_slot(obj, member) for member in self._slots),
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

    def same(self, obj: Any, state: list[Any]) -> bool:
        return type(obj) is state[0] and identical(self.remember(obj), state)

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

    def same(self, obj: Any, state: Any) -> bool:
        return random.Random.getstate(obj) == state


class Through(Keeper):
    """Objects that cannot change and lead to others."""

    def __init__(self, parts: Callable[[Any], Iterable[Any]]) -> None:
        """Ask ``parts`` for what an object leads to."""
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


def is_python_class(kind: type) -> bool:
    """Return whether a ``class`` statement made it: its instances hold nothing that Python cannot reach."""
    held = type.__dict__["__dict__"].__get__(kind)
    heap = bool(kind.__flags__ & (1 << 9))
    return heap and not any(type(value) in _IN_C for name, value in held.items() if name not in _OWN_OF_CLASSES)


_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


def _has_dictionary(kind: type) -> bool:
    held = type.__dict__["__dict__"].__get__(kind).get("__dict__")
    return type(held) in (types.GetSetDescriptorType, types.MemberDescriptorType)


def _slot(obj: Any, member: Any) -> Any:
    try:
        return member.__get__(obj)
    except AttributeError:
        return ABSENT


def _wrapped(obj: Any) -> Iterable[Any]:
    return (getattr(obj, "__wrapped__", None),)


_SELF = Through(lambda obj: (obj.__self__,))

BY_BASE: tuple[tuple[type, Keeper], ...] = (
    (list, ListKind()),
    (OrderedDict, OrderedDictKind()),
    (dict, DictKind()),
    (set, SetKind()),
    (deque, DequeKind()),
    (bytearray, BytearrayKind()),
    (array, ArrayKind()),
    (random.Random, RandomKind()),
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
    (type(functools.lru_cache(len)), Through(_wrapped)),
    (memoryview, Through(lambda obj: (obj.obj,))),
    (weakref.ReferenceType, Through(lambda obj: (obj(),))),
    (types.CellType, CellKind()),
)
"""Kinds of objects by the built-in type that their class is, or stands on. Classes and functions are not among them."""
PLAIN_DICT = PlainDictKind()
CLASS = ClassKind()
FUNCTION = FunctionKind()
