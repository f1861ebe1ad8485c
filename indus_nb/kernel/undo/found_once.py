"""Lazy attributes and caches of objects of installed libraries, which are no change of the objects.

A graph that was asked for its degrees has a view of them from then on, a model its residuals, a symbol its hash. Which
of an object's attributes are such is known by how Python makes them, or by what the library's author calls them:

- an attribute that was not there, or was ``None``, and is private, or is what a descriptor of the class leaves in the
  object's own dictionary (`functools.cached_property` and its kind);
- what is in a dictionary that the object has under a name with "cache" in it;
- what is added to a dictionary that belongs to an object whose hash is its value: that never changes;
- the empty values that a dictionary with a default gets where it is asked for what it does not have.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from enum import EnumType
from types import FunctionType
from typing import Any, cast

from indus_nb.base.installed import is_installed
from indus_nb.kernel.undo.change import Held
from indus_nb.kernel.undo.keeper import ABSENT, class_of
from indus_nb.kernel.undo.objects.builtin_kinds import DictKind, InstanceKind, slot, slots_of

_Dict = dict[Any, Any]
"""Class whose methods are called: a subclass may override them."""
Holders = Callable[[Any], Iterable[Any]]


def is_found_once(node: Held, holders: Holders) -> bool:
    """Return whether nothing but lazy attributes and caches of a library's object changed.

    Args:
        holders: Returns the objects that hold a given one, of those that were remembered.

    Returns:
        Whether it is so, wherever the object is held.
    """
    obj, kind = node.obj, class_of(node.obj)
    if isinstance(node.keeper, InstanceKind):
        slots = zip(slots_of(kind), node.kept[2:], strict=False)
        return kind is node.kept[0] and is_librarys(kind) and all(_slot_found(obj, *each) for each in slots)
    if not isinstance(node.keeper, DictKind):
        return False
    above = [*holders(obj)]
    return bool(above) and all(_keeps(each, node, holders) for each in above)


def is_librarys(kind: type[Any]) -> bool:
    """Return whether a class is an installed library's, and not one of Python's own kinds of containers."""
    module = type.__dict__["__module__"].__get__(kind)
    return isinstance(module, str) and module != "builtins" and is_installed(module)


def is_private(name: str) -> bool:
    """Return whether a name is private by Python's custom."""
    return name.startswith("_") and not name.endswith("__")


def _slot_found(obj: Any, member: Any, was: Any) -> bool:
    now = slot(obj, member)
    if now is was:
        return True
    empty = was is None or was is ABSENT or _is_default(class_of(obj), was)
    return empty and now is not ABSENT and is_private(member.__name__)


def _is_default(kind: type[Any], value: Any) -> bool:
    """Return whether a value is the default that all objects of a class share."""
    bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return _is_value(kind) and any(value is each for base in bases for each in vars(base).values())


def _keeps(holder: Any, node: Held, holders: Holders) -> bool:
    """Return whether the holder of a dictionary uses it as a cache."""
    was: dict[Any, Any] = node.kept
    now: dict[Any, Any] = node.obj
    if issubclass(type(holder), EnumType):
        return _are_members(holder, was, now)
    if _attributes(holder) is now:
        names = [
            name for name in was.keys() | _Dict.keys(now) if was.get(name, ABSENT) is not _Dict.get(now, name, ABSENT)
        ]
        return all(_is_kept(class_of(holder), name, was.get(name), now) for name in names)
    owners = [(holder, name) for name, value in _slots(holder) if value is now]
    if class_of(holder) is dict:
        owned = [owner for owner in holders(holder) if _attributes(owner) is holder]
        owners = [(owner, str(name)) for owner in owned for name, value in _Dict.items(holder) if value is now]
    added = all(_Dict.get(now, key, ABSENT) is value for key, value in was.items())
    if owners and added and _is_looked_up(now, was):
        return True
    return bool(owners) and all(
        is_private(name) and ("cache" in name.lower() or (added and _is_value(class_of(owner))))
        for owner, name in owners
    )


def _are_members(kind: Any, was: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Return whether an enumeration has got no more than members for combined flags, which it makes once."""
    kept = all(_Dict.get(now, key, ABSENT) is value for key, value in was.items())
    return kept and all(
        type(value) is kind and value._value_ == key  # pyright: ignore[reportPrivateUsage] - documented
        for key, value in _Dict.items(now)
        if key not in was
    )


def _is_looked_up(now: dict[Any, Any], was: dict[Any, Any]) -> bool:
    """Return whether a ``defaultdict`` has got no more than empty defaults, as by a look-up."""
    made = getattr(now, "default_factory", None) if class_of(now) is defaultdict else None
    new = [value for key, value in _Dict.items(now) if key not in was]
    return made in (set, list, dict) and all(type(value) is made and not value for value in new)


def _is_kept(kind: type[Any], name: Any, was: Any, now: dict[Any, Any]) -> bool:
    return was is None and name in now and isinstance(name, str) and (is_private(name) or _is_computed(kind, name))


def _is_computed(kind: type[Any], name: str) -> bool:
    """Return whether a class computes an attribute once and then leaves it to the object's dictionary."""
    found: Any = inspect.getattr_static(kind, name, None)
    has = [hasattr(cast("Any", type(found)), method) for method in ("__get__", "__set__")]
    return has == [True, False] and not isinstance(found, FunctionType)


def _is_value(kind: type[Any]) -> bool:
    """Return whether objects of a class compare by value and are hashable, so that the value stays."""
    return kind.__hash__ not in (None, object.__hash__) and kind.__eq__ is not object.__eq__


def _attributes(obj: Any) -> Any:
    """Return the dictionary of a library's object."""
    try:
        return object.__getattribute__(obj, "__dict__") if is_librarys(class_of(obj)) else None
    except AttributeError:
        return None


def _slots(obj: Any) -> Iterator[tuple[str, Any]]:
    """List the slots of a library's object with their values."""
    members = slots_of(class_of(obj)) if is_librarys(class_of(obj)) else ()
    return ((member.__name__, slot(obj, member)) for member in members)
