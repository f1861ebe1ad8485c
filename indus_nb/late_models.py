"""Pydantic models whose classes are completed when they are first used.

Pydantic collects the fields of a class in its ``class`` statement, half a millisecond for each class, which for all the
classes of a program is a good part of its start; most of them are not used by most processes. A ``class`` statement of
this package therefore makes a class without its content, and the first use (a call, an attribute, a subclass, a field
of that type in a model that is used) has pydantic fill the same class. From then on it is a model like any other.

This stands on how pydantic's metaclass makes a class. With a version that it was not tried with, classes are complete
at once, as they would be without this module.
"""

from __future__ import annotations

import threading
from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from pydantic import VERSION, BaseModel

_TRIED = ((2, 11), (2, 14))
"""The first and the last version of pydantic with which classes were completed late."""
_WAITING: dict[type, tuple[tuple[type, ...], dict[str, Any], dict[str, Any]]] = {}
"""What stood in the ``class`` statements of classes that are not completed."""
_COMPLETING = threading.RLock()
_KEPT = ("__module__", "__qualname__", "__doc__", "__classcell__", "__firstlineno__", "__setstate__")
_USES = ("__dict__", "__annotations__", "__init__", "__signature__", "__class_vars__", "__private_attributes__")
_CLASS = "__completed_class__"


def is_complete(cls: type) -> bool:
    """Whether a class is a model by now; as long as it is none, it has no objects, and neither has a subclass."""
    return cls not in _WAITING


def complete(cls: type) -> None:
    """Fill a class, unless that was done; another thread that is doing so is waited for."""
    with _COMPLETING:
        waiting = _WAITING.pop(cls, None)
        if waiting is None:
            return
        bases, namespace, options = waiting
        try:
            _model(cls.__name__, bases, {**namespace, _CLASS: cls}, options)
        except BaseException:
            _WAITING[cls] = waiting
            raise
        cls.__class__ = _Model


def _model(name: str, bases: tuple[type, ...], namespace: dict[str, Any], options: dict[str, Any]) -> type:
    for base in bases:
        complete(base)
    return _META.__new__(_Model, name, bases, namespace, **options)


_META: Any = type(BaseModel)


class _SameClass(ABCMeta):
    """Where pydantic's metaclass would make a class, this one takes the class that is there."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        cls = namespace.pop(_CLASS, None)
        if cls is None:
            return super().__new__(mcs, name, bases, namespace, **options)
        for key, value in namespace.items():
            if key not in _KEPT:
                setattr(cls, key, value)
                if hasattr(value, "__set_name__"):
                    value.__set_name__(cls, key)
        return cls


class _Model(_META, _SameClass):
    """The metaclass of completed classes: pydantic's own, but for ``class`` statements."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        if not _is_ours(namespace):
            return _model(name, bases, namespace, options)
        kept = {key: namespace.pop(key) for key in _KEPT if key in namespace}
        cls = ABCMeta.__new__(_Unused, name, bases, kept)
        _WAITING[cls] = (bases, namespace, options)
        namespace |= {key: value for key, value in kept.items() if key != "__classcell__"}
        return cls


def _is_ours(namespace: dict[str, Any]) -> bool:
    """Whether the class stands in a module of this package, and not in a function, whose names would be gone."""
    return namespace["__module__"].startswith("indus_nb.") and "<locals>" not in namespace["__qualname__"]


class _Unused(_Model):
    """The metaclass of classes that are not completed."""

    def __call__(cls, *arguments: Any, **fields: Any) -> Any:
        complete(cls)
        return cls(*arguments, **fields)

    def __getattribute__(cls, name: str) -> Any:
        if name in _USES or "pydantic" in name or not (name.startswith("__") or name in ("_abc_impl", "mro")):
            complete(cls)
        return type.__getattribute__(cls, name)  # not of super(), for by now it may be a class of _Model


if TYPE_CHECKING:

    class LateModel(BaseModel):
        """A pydantic model; a class of this package that derives from it is completed when it is first used."""

elif _TRIED[0] <= tuple(map(int, VERSION.split(".")[:2])) <= _TRIED[1]:

    def _set_state(self: BaseModel, state: dict[Any, Any]) -> None:
        complete(type(self))  # unpickling makes an object without asking its class
        BaseModel.__setstate__(self, state)

    _content = {
        "__module__": __name__,
        "__qualname__": "LateModel",
        "model_config": {"defer_build": True},
        "__setstate__": _set_state,
    }
    LateModel = _Model("LateModel", (BaseModel,), _content)
else:

    class LateModel(BaseModel):
        """A pydantic model whose validators are built when it is first used."""

        model_config = {"defer_build": True}
