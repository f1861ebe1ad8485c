"""Pydantic models whose classes are completed when they are first used, and pydantic imported with the first of them.

Importing pydantic takes as long as all else that a process needs for its first answer, and collecting the fields of a
class half a millisecond. A ``class`` statement of this package therefore makes a class without its content, for which
this module has ``Field`` and the decorators under pydantic's names. Objects of it are made by ``light_models`` where
that is certain to make what pydantic would make. Anything else (a value to convert or to reject, an attribute of
pydantic's, a user's subclass) has pydantic fill the same class, and its objects are models like any other.

This stands on how pydantic's metaclass makes a class and on what its objects hold. With a version that it was not
tried with, classes are complete at once, as they would be without this module.
"""

from __future__ import annotations

import sys
import threading
from abc import ABCMeta
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from indus_nb.base import light_models
from indus_nb.base.light_models import DECLARED, Declared

if TYPE_CHECKING:
    from pydantic import (
        BaseModel,
        ConfigDict,
        Field,
        PrivateAttr,
        ValidationError,
        computed_field,
        field_validator,
        model_serializer,
        model_validator,
    )

    class LateModel(BaseModel):
        """A pydantic model; a class of this package that derives from it is completed when it is first used."""


__all__ = [
    "ConfigDict",
    "Field",
    "LateModel",
    "PrivateAttr",
    "ValidationError",
    "complete",
    "computed_field",
    "field_validator",
    "is_complete",
    "load",
    "model_serializer",
    "model_validator",
]

_TRIED = ((2, 11), (2, 14))
"""The first and the last version of pydantic with which classes were completed late."""
_WAITING: dict[type, tuple[tuple[type, ...], dict[str, Any], dict[str, Any]]] = {}
"""Arguments of the ``class`` statements of classes that are not completed."""
_COMPLETING = threading.RLock()
_KEPT = ("__module__", "__qualname__", "__doc__", "__classcell__", "__firstlineno__", "__setstate__")
_USES = ("__dict__", "__annotations__", "__init__", "__signature__", "__class_vars__", "__private_attributes__")
_ASKED_BY_NAME = (*("model_config", "__private_attributes__", "__pydantic_fields__", "__pydantic_computed_fields__"),)
_ASKED = (*_ASKED_BY_NAME, "__pydantic_validator__", "__pydantic_serializer__", "__pydantic_setattr_handlers__")
"""Attributes that pydantic's methods read from objects, not classes; it looks for the former in classes, too."""
_METHODS = (FunctionType, property, classmethod, staticmethod)
_CLASS = "__completed_class__"

_known: set[str] = set()
"""The names of methods, which a class has before it is completed."""
_pydantics: list[Any] = []
"""Classes made from pydantic's metaclass, see ``load``."""


def is_complete(cls: type) -> bool:
    """Return whether a class is a model by now; until then ``light_models`` makes all its objects."""
    return cls not in _WAITING


def complete(cls: type) -> None:
    """Complete a class once; wait for another thread that is doing so."""
    with _COMPLETING:
        if cls not in _WAITING:
            return
        load()
        waiting = _WAITING.pop(cls, None)
        if waiting is None:  # the base of all, which was completed when pydantic was loaded
            return
        bases, namespace, options = waiting
        namespace = {name: value.real() if isinstance(value, Declared) else value for name, value in namespace.items()}
        for name in _ASKED_BY_NAME:
            delattr(cls, name)
        try:
            _model(cls.__name__, bases, {**namespace, _CLASS: cls}, options)
        except BaseException:
            _WAITING[cls] = waiting
            for name in _ASKED:
                setattr(cls, name, _Asked(name))
            raise
        for name in _ASKED:
            if isinstance(_dict_of(cls).get(name), _Asked):
                delattr(cls, name)
        cls.__class__ = _pydantics[0]


def load() -> None:
    """Import pydantic; all classes derive from its ``BaseModel`` from then on."""
    with _COMPLETING:
        if _pydantics:
            return
        from pydantic import BaseModel

        meta: Any = type(BaseModel)

        class _Model(meta, _SameClass):
            """The metaclass of completed classes: pydantic's own, but for ``class`` statements."""

            def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
                if not _is_ours(namespace):
                    return _model(name, bases, namespace, options)
                return _declared(name, bases, namespace, options)

        class _UnusedModel(_Deferred, _Model):
            """The metaclass of classes that are not completed."""

        LateModel.__bases__ = (BaseModel,)
        _WAITING[LateModel] = ((BaseModel,), *_WAITING[LateModel][1:])
        for cls in _WAITING:
            cls.__class__ = _UnusedModel
        _pydantics[:] = (_Model, meta, _UnusedModel)
        complete(LateModel)


def preload() -> None:
    """Load pydantic, and what it imports itself when it makes its first validator."""
    load()
    from pydantic import TypeAdapter

    TypeAdapter(int)


def is_loaded() -> bool:
    """Return whether pydantic is imported, so that what it does best need not be done without it."""
    return bool(_pydantics)


def _model(name: str, bases: tuple[type, ...], namespace: dict[str, Any], options: dict[str, Any]) -> type:
    for base in bases:
        complete(base)
    model, meta, _ = _pydantics
    return meta.__new__(model, name, bases, namespace, **options)


class _SameClass(ABCMeta):
    """A metaclass that returns the existing class where pydantic's would create one."""

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


class _Deferred(ABCMeta):
    """Behaviour of classes that are not completed yet: each use completes them."""

    def __call__(cls, *arguments: Any, **fields: Any) -> Any:
        if not arguments and not is_complete(cls) and (made := light_models.made(cls, fields)) is not None:
            return made
        complete(cls)
        return cls(*arguments, **fields)

    def __getattribute__(cls, name: str) -> Any:
        if name in _LIGHT and not is_complete(cls):
            return partial(_LIGHT[name], cls)
        hidden = name.startswith("__") or name in ("_abc_impl", "mro") or name in _known
        if name in _USES or "pydantic" in name or not hidden:
            complete(cls)
        return type.__getattribute__(cls, name)  # not of super(), for by now it may be a class of pydantic's


def _construct(cls: Any, /, **values: Any) -> Any:
    made = None if "_fields_set" in values else light_models.made(cls, values, check=False)
    if made is None:
        complete(cls)
        made = cls.model_construct(**values)
    return made


def _validate(cls: Any, value: object, /, **options: Any) -> Any:
    if not options:
        if isinstance(value, cls):
            return value
        if type(value) is dict and (made := light_models.made(cls, cast("dict[str, Any]", value))) is not None:
            return made
    complete(cls)
    return cls.model_validate(value, **options)


_LIGHT = {"model_construct": _construct, "model_validate": _validate}
"""The methods of pydantic's that a class has before it is completed."""


class _Unused(_Deferred):
    """The metaclass of classes that are not completed, as long as pydantic is not there."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        if _is_ours(namespace):
            return _declared(name, bases, namespace, options)
        load()
        return _model(name, bases, namespace, options)


def _declared(name: str, bases: tuple[type, ...], namespace: dict[str, Any], options: dict[str, Any]) -> type:
    """Make a class without its fields, and keep what pydantic will be given."""
    kept = {key: namespace.pop(key) for key in _KEPT if key in namespace}
    methods: dict[str, Any] = {key: value for key, value in namespace.items() if isinstance(value, _METHODS)}
    annotations: dict[str, object] = namespace.get("__annotations__", {})
    shared = {key: namespace[key] for key in namespace.keys() & annotations if "ClassVar" in str(annotations[key])}
    asked = {key: _Asked(key) for key in _ASKED}
    with _COMPLETING:
        # Looked up here: another thread may have loaded pydantic since the ``class`` statement chose a metaclass.
        metaclass: Any = _pydantics[2] if _pydantics else _Unused
        cls: type = ABCMeta.__new__(metaclass, name, bases, {**asked, **shared, **methods, **kept})
        _known.update(methods, shared)
        namespace |= {key: value for key, value in kept.items() if key != "__classcell__"}
        _WAITING[cls] = (bases, namespace, options)
        DECLARED[cls] = namespace
        return cls


def _is_ours(namespace: dict[str, Any]) -> bool:
    """Return whether the class is at the top of a module of this package: names of a function would be gone."""
    return namespace["__module__"].startswith("indus_nb.") and "<locals>" not in namespace["__qualname__"]


class _Asked:
    """A descriptor that completes the class of the object it is read from."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, made: object, cls: type) -> Any:
        complete(cls)
        for base in type.mro(cls):
            found = _dict_of(base).get(self._name, self)
            if not isinstance(found, _Asked):
                return found
        raise AttributeError(self._name)


def _dict_of(cls: type) -> Any:
    return type.__getattribute__(cls, "__dict__")


def _by_pydantic(name: str) -> Any:
    def method(self: Any, *arguments: Any) -> Any:
        complete(self.__class__)
        return getattr(self.__class__, name)(self, *arguments)

    return method


def _copy(self: Any, *, update: dict[str, Any] | None = None, deep: bool = False) -> Any:
    made = None if deep else light_models.copied(self, update or {})
    if made is None:
        complete(self.__class__)
        made = self.model_copy(update=update, deep=deep)
    return made


def _other(self: Any, name: str) -> Any:
    complete(self.__class__)
    return getattr(self, name)


def _set_state(self: Any, state: dict[Any, Any]) -> None:
    complete(self.__class__)  # unpickling makes an object without asking its class
    from pydantic import BaseModel

    BaseModel.__setstate__(self, state)


def _late_model() -> Any:
    special = ("eq", "hash", "repr", "setattr", "delattr", "copy", "deepcopy", "reduce_ex", "iter")
    by_pydantic = {name: _by_pydantic(name) for each in special if (name := f"__{each}__")}
    content = {"__module__": __name__, "__slots__": light_models.SLOTS, **by_pydantic}
    light = ABCMeta.__new__(_Unused, "Light", (), {**content, "__getattr__": _other, "model_copy": _copy})
    content = {"__module__": __name__, "__qualname__": "LateModel", "__setstate__": _set_state}
    return _declared("LateModel", (light,), {**content, "model_config": {"defer_build": True}}, {})


def _is_tried() -> bool:
    """Return whether it is known how the installed pydantic makes classes; pydantic is not imported for that."""
    version: str | None = getattr(sys.modules.get("pydantic"), "VERSION", None)
    if version is None:  # it has none yet while another thread imports it
        found = PathFinder.find_spec("pydantic")
        folder = ((found and found.submodule_search_locations) or [""])[0]
        try:
            source = Path(folder, "version.py").read_text(encoding="utf-8")
        except OSError:
            return False
        version = source.partition("\nVERSION = '")[2].partition("'")[0] or "0.0"
    return _TRIED[0] <= tuple(map(int, version.split(".")[:2])) <= _TRIED[1]


def _declarer(name: str) -> Any:
    def declare(*arguments: Any, **options: Any) -> Any:
        declared = Declared(name, arguments, options)
        return declared.real() if _pydantics else declared

    return declare


if not TYPE_CHECKING:
    ConfigDict = dict
    if _is_tried():
        LateModel = _late_model()
        Field, PrivateAttr, computed_field, field_validator, model_serializer, model_validator = map(
            _declarer,
            ("Field", "PrivateAttr", "computed_field", "field_validator", "model_serializer", "model_validator"),
        )
    else:
        from pydantic import (
            BaseModel,
            Field,
            PrivateAttr,
            computed_field,
            field_validator,
            model_serializer,
            model_validator,
        )

        class LateModel(BaseModel):
            """A pydantic model whose validators are built when it is first used."""

            model_config = {"defer_build": True}

        _pydantics[:] = (type(BaseModel),) * 3

    def __getattr__(name: str) -> Any:
        if name == "ValidationError":
            from pydantic import ValidationError

            return ValidationError
        raise AttributeError(name)
