"""Objects of pydantic models made without pydantic, where its result is certain.

A value that has exactly the declared type needs no check, a whole number stands for a float, and what is not given has
its default. What is less plain than that (a number for a text, a bound to keep, a validator, a field that is missing)
is not decided here: the answer is ``None``, and the caller has pydantic decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

DECLARED: dict[type, dict[str, Any]] = {}
"""Arguments of the ``class`` statements of models, by class."""

_MISSING: Any = object()
_SCALARS = frozenset((str, int, float, bool, NoneType))
_MAX_EXACT = 1 << 53
_STATE = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
SLOTS = ("__dict__", *_STATE)
"""Slots of models' objects, chosen so that classes can change from one way of being a model to the other."""
_UNCHECKED_OPTIONS = frozenset(("default", "default_factory", "exclude", "repr", "description", "discriminator"))
"""Options of a field that do not check its values."""
_CONFIGURED = frozenset(
    (
        *("alias_generator", "validate_by_name", "validate_by_alias", "serialize_by_alias", "extra", "frozen"),
        *("defer_build", "ser_json_inf_nan", "strict"),
    )
)


class Declared:
    """A placeholder for something of pydantic's in a ``class`` statement: its name and its arguments."""

    def __init__(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.name = name
        self.options = options
        self.arguments = arguments
        self.function: Any = _MISSING

    def __call__(self, function: Any) -> Declared:
        """Record a decorated function."""
        self.function = function
        return self

    def real(self) -> Any:
        """Return the pydantic object that this stands for."""
        import pydantic

        made = getattr(pydantic, self.name)(*self.arguments, **self.options)
        return made if self.function is _MISSING else made(self.function)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Provide the schema of the real object behind a type (``Annotated``)."""
        return handler.generate_schema(Annotated[source, self.real()])


class UncertainError(Exception):
    """A result that only pydantic can determine."""


class LightField:
    """A field of a model.

    Attributes:
        key: Its name in JSON.
        is_hidden: Whether it is left out of JSON.
        is_checked: Whether a value must be more than of its type.
        checks: Functions that a value goes through in the end.
    """

    __slots__ = (
        *("_annotation", "_kind", "_module", "checks", "default", "factory", "is_checked", "is_hidden", "key", "name"),
    )

    def __init__(self, name: str, key: str, annotation: str, value: Any, module: str) -> None:
        self.name = name
        self.key = key
        self._annotation = annotation
        self._module = module
        self._kind: Any = _MISSING
        options: dict[str, Any] = value.options if isinstance(value, Declared) else {}
        self.default = options.get("default", _MISSING) if isinstance(value, Declared) else value
        self.factory: Callable[[], Any] | None = options.get("default_factory")
        self.is_hidden = bool(options.get("exclude"))
        self.is_checked = not options.keys() <= _UNCHECKED_OPTIONS
        self.checks: list[Callable[[Any], Any]] = []

    def taken(self, value: object) -> Any:
        """Return what pydantic makes of a value."""
        if self.is_checked:
            raise UncertainError
        if self._kind is _MISSING:
            self._kind = eval(self._annotation, vars(sys.modules[self._module]))  # noqa: S307 - our own source
        value = _taken(value, self._kind)
        try:
            for check in self.checks:
                value = check(value)
        except Exception as error:
            raise UncertainError from error  # what becomes of it is pydantic's to say
        return value

    def usual(self) -> Any:
        """Return the default."""
        if self.factory is not None:
            return self.factory()
        if self.default is _MISSING:
            raise UncertainError
        return self.default


class _Fields:
    """Fields of a class, and what else is needed to make an object of it."""

    def __init__(self, fields: dict[str, LightField], config: Mapping[str, Any]) -> None:
        self.all = fields
        self.extra = config.get("extra", "ignore")
        self.known = {field.name: field for field in fields.values()} if config.get("validate_by_name") else {}
        self.known |= {field.key: field for field in fields.values()}


_FIELDS: dict[type, _Fields | None] = {}


def _fields(cls: type) -> _Fields | None:
    if cls not in _FIELDS:
        _FIELDS[cls] = _collected(cls)
    return _FIELDS[cls]


def _collected(cls: type) -> _Fields | None:
    config: dict[str, Any] = {}
    fields: dict[str, LightField] = {}
    for base in reversed(type.mro(cls)):
        config |= DECLARED.get(base, {}).get("model_config", {})
    key_of: Callable[[str], str] = config.get("alias_generator") or str
    for base in reversed(type.mro(cls)):
        if base in DECLARED and not _add(fields, DECLARED[base], key_of):
            return None
    return _Fields(fields, config) if config.keys() <= _CONFIGURED else None


def _add(fields: dict[str, LightField], own: dict[str, Any], key_of: Callable[[str], str]) -> bool:
    """Add the fields of a class; return whether it holds nothing else that pydantic has to see."""
    annotations: dict[str, Any] = own.get("__annotations__", {})
    if any(type(value).__module__.startswith("pydantic.") for value in own.values()):
        return False  # what a statement holds that was read after pydantic was there, such as a validator
    for name, annotation in annotations.items():
        if isinstance(annotation, str) and annotation.startswith("ClassVar"):
            continue
        value = own.get(name, _MISSING)
        if not _is_plain(annotation, value) or name.startswith("_"):
            return False
        fields[name] = LightField(name, key_of(name), annotation, value, own["__module__"])
    for value in (value for name, value in own.items() if isinstance(value, Declared) and name not in annotations):
        if value.name != "field_validator":
            return False
        for name in value.arguments:
            if value.options or not _takes_a_value(value.function):
                fields[name].is_checked = True
            else:
                fields[name].checks.append(value.function)
    return own.keys().isdisjoint(_OWN_WAYS)


def _takes_a_value(function: Any) -> bool:
    """Return whether a validator takes a value and nothing else."""
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    return code.co_argcount == 1 and code.co_varnames[:1] not in (("cls",), ("self",)) and not code.co_kwonlyargcount


def _is_plain(annotation: object, value: object) -> bool:
    """Return whether a field's type is written down and its default can be shared."""
    return isinstance(annotation, str) and (
        value is _MISSING
        or type(value) in _SCALARS
        or (isinstance(value, Declared) and type(value.options.get("default")) in _SCALARS)
    )


_OWN_WAYS = ("__init__", "__new__", "model_post_init", "__annotate__", "__annotate_func__")


def fields_of(cls: type) -> dict[str, LightField] | None:
    """Return the fields of a class that holds nothing but fields and methods."""
    fields = _fields(cls)
    return None if fields is None else fields.all


def made(cls: type, given: Mapping[str, Any], *, check: bool = True) -> Any:
    """Make an object of a model.

    Args:
        cls: Its class, which is in ``DECLARED``.
        given: Values, by the names of fields or by their keys in JSON.
        check: Whether the values must be of the declared types.

    Returns:
        The object; ``None`` if it is not certain what pydantic would do.
    """
    fields = _fields(cls)
    if fields is None:
        return None
    try:
        found, extra = _read(fields, given, check)
        values = {name: found[name] if name in found else field.usual() for name, field in fields.all.items()}
    except UncertainError:
        return None
    keeps = fields.extra == "allow"
    given_names = {*found, *extra} if keeps and check else set(found)
    return _filled(object.__new__(cls), values, given_names, extra if keeps else None)


def taken(value: object, kind: Any) -> Any:
    """Return what pydantic makes of a value.

    Args:
        kind: A type, as in the annotation of a field.

    Returns:
        An object; ``None`` as for ``made``.
    """
    try:
        return _taken(value, kind)
    except UncertainError:
        return None


def _read(fields: _Fields, given: Mapping[str, Any], check: bool) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: FBT001
    found: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in given.items():
        field = fields.known.get(key)
        if field is None:
            if type(key) is not str or fields.extra == "forbid":
                raise UncertainError
            extra[key] = value
        elif field.name in found:
            raise UncertainError
        else:
            found[field.name] = field.taken(value) if check else value
    return found, extra


def copied(original: Any, update: Mapping[str, Any]) -> Any:
    """Copy an object of a class that is not completed, as ``model_copy`` does.

    Args:
        update: Values that the copy has instead, by the names of fields; they are not checked.

    Returns:
        The copy; ``None`` as for ``made``.
    """
    fields = _fields(original.__class__)
    if fields is None or not update.keys() <= fields.all.keys():
        return None
    given = original.__pydantic_fields_set__ | update.keys()
    extra = original.__pydantic_extra__
    return _filled(
        object.__new__(original.__class__), original.__dict__ | update, given, None if extra is None else {**extra}
    )


def _filled(made: Any, values: dict[str, Any], given: set[str], extra: dict[str, Any] | None) -> Any:
    made.__dict__.update(values)
    for name, value in zip(_STATE, (given, extra, None), strict=True):
        object.__setattr__(made, name, value)
    return made


def _taken(value: Any, kind: Any) -> Any:
    origin = get_origin(kind)
    if origin is None:
        return _taken_by_class(value, kind)
    parts = get_args(kind)
    if origin is UnionType or origin is Union:
        return _taken_by_one(value, parts)
    if origin is Literal:
        if type(value) is str and value in parts:
            return value
    elif origin is Annotated:
        if all(isinstance(mark, Declared) and mark.options.keys() <= _UNCHECKED_OPTIONS for mark in parts[1:]):
            name = next((mark.options["discriminator"] for mark in parts[1:] if "discriminator" in mark.options), None)
            return _taken(value, parts[0] if name is None else _named(value, get_args(parts[0]), name))
    elif origin is list and type(value) is list:
        return [_taken(each, parts[0]) for each in cast("list[Any]", value)]
    elif origin is dict and type(value) is dict:
        entries = cast("dict[Any, Any]", value)
        return {_taken(key, parts[0]): _taken(each, parts[1]) for key, each in entries.items()}
    raise UncertainError


def _named(value: Any, kinds: tuple[Any, ...], name: str) -> Any:
    """Return which of several models a value selects by its discriminator."""
    if type(value) is not dict:
        return next((kind for kind in kinds if isinstance(value, kind)), None)
    named: Any = cast("dict[Any, Any]", value).get(name)
    for kind in kinds:
        field = (fields_of(kind) or {}).get(name)
        if field is not None and field.key == name and type(named) is str and field.default == named:
            return kind
    return None


def _taken_by_class(value: Any, kind: Any) -> Any:
    if kind is Any or (kind in _SCALARS and type(value) is kind):
        return value
    if kind is float and type(value) is int and abs(value) <= _MAX_EXACT:
        return float(value)
    if kind in DECLARED:
        if isinstance(value, kind):
            return value
        if type(value) is dict and (of_kind := made(kind, cast("dict[str, Any]", value))) is not None:
            return of_kind
    raise UncertainError


def _taken_by_one(value: Any, kinds: tuple[Any, ...]) -> Any:
    if type(value) is int and {int, float} <= {*kinds}:
        raise UncertainError
    composite = [kind for kind in kinds if kind not in _SCALARS and get_origin(kind) is not Literal]
    if len(composite) > 1 and type(value) in (dict, list):
        raise UncertainError  # which of them it is, may depend on what is in it
    for kind in kinds:
        try:
            return _taken(value, kind)
        except UncertainError:
            continue
    raise UncertainError
