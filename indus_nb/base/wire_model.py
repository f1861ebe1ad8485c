"""The base class of all values that are on the wire and in files.

Inside the package names are snake_case; on the wire and in files they are camelCase. ``WireModel`` is the only place
where one becomes the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeAlias, Unpack, cast, dataclass_transform, get_type_hints

from indus_nb.base.readers import Bounds, FieldProblem, InvalidFieldsError, Limits, Reader, reader, wrong
from indus_nb.base.wire import Framed, JsonObject, to_camel

_MISSING: Any = object()
_Unknown: TypeAlias = Literal["kept", "ignored", "refused"]


class WireField:
    """What a class says of one of its fields, see ``wire_field``.

    Attributes:
        key: Its name on the wire.
        is_hidden: Whether it is left out there.
        is_shown: Whether it is part of ``repr``.
    """

    __slots__ = ("bounds", "check", "default", "description", "factory", "is_hidden", "is_shown", "key")

    def __init__(self, default: Any = _MISSING, factory: Callable[[], Any] | None = None, *, key: str = "") -> None:
        self.key: str = key
        self.default: Any = default
        self.factory: Callable[[], Any] | None = factory
        self.bounds: Bounds = {}
        self.check: Callable[[Any], Any] | None = None
        self.description: str = ""
        self.is_hidden: bool = False
        self.is_shown: bool = True

    @property
    def has_default(self) -> bool:
        """Return whether objects share its default."""
        return self.default is not _MISSING

    @property
    def is_required(self) -> bool:
        """Return whether it has no default."""
        return not self.has_default and self.factory is None

    def reader(self, kind: Any, *, strict: bool) -> Reader:
        """Return the function that reads its values, which are of type ``kind``."""
        read = Limits(**self.bounds).applied_to(reader(kind, strict=strict))
        check = self.check
        if check is None:
            return read

        def read_checked(value: Any) -> Any:
            found = read(value)
            try:
                return check(found)
            except ValueError as error:
                raise wrong(str(error), value) from None

        return read_checked


def wire_field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    key: str = "",
    hidden: bool = False,
    repr: bool = True,  # noqa: A002 - as in dataclasses
    check: Callable[[Any], Any] | None = None,
    description: str = "",
    **bounds: Unpack[Bounds],
) -> Any:
    """Declare a field of a ``WireModel`` that needs more than a type and a plain default.

    Bounds and ``check`` hold for values that are read; a program's own are not checked.

    Args:
        default: Its value where none is given.
        default_factory: A function that makes that value.
        key: Its name on the wire, if that is not its own in camelCase.
        hidden: Whether it is left out on the wire.
        repr: Whether it is part of ``repr``.
        check: A function that returns the value to use, and raises ``ValueError`` with a reason for a wrong one.
        description: What a model is told of it, where it is an argument of a tool.
    """
    declared = WireField(default, default_factory, key=key)
    declared.is_hidden, declared.is_shown, declared.description = hidden, repr, description
    declared.check, declared.bounds = check, bounds
    return declared


@dataclass_transform(kw_only_default=True, field_specifiers=(wire_field,))
class WireModel(Framed):
    """A value with snake_case attributes here and camelCase keys on the wire; keys it does not know survive.

    It is declared and made like a dataclass of keywords. What the program itself makes is not checked; ``from_wire``
    checks what comes from outside. ``vars`` of an object holds what it was given, and no plain defaults.

    >>> class Limits(WireModel):
    ...     max_tokens: int
    ...     note: str | None = None
    >>> Limits(max_tokens=5)
    Limits(max_tokens=5, note=None)
    >>> Limits.from_wire({"maxTokens": 5, "unheardOf": True}).to_wire()
    {'maxTokens': 5, 'unheardOf': True}

    A class may have ``unknown="ignored"`` or ``"refused"`` for keys that it does not know, and ``strict=True`` to take
    no text for a number. Its subclasses have the same.
    """

    wire_fields: ClassVar[Mapping[str, WireField]] = {}
    """The declared fields by name, those of the bases first."""
    _required: ClassVar[frozenset[str]] = frozenset()
    _factories: ClassVar[Sequence[tuple[str, Callable[[], Any]]]] = ()
    _unknown_keys: ClassVar[_Unknown] = "kept"
    _is_strict: ClassVar[bool] = False
    _readers: ClassVar[dict[str, tuple[str, Reader]] | None] = None
    _unknown: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, *, unknown: _Unknown | None = None, strict: bool | None = None) -> None:
        super().__init_subclass__()
        cls._unknown_keys = cls._unknown_keys if unknown is None else unknown
        cls._is_strict = cls._is_strict if strict is None else strict
        cls._readers = None
        fields = dict(cls.wire_fields)
        for name, kind in cls.__annotations__.items():
            if name.startswith("_") or "ClassVar" in str(kind):
                continue
            declared: Any = cls.__dict__.get(name, _MISSING)
            if not isinstance(declared, WireField):
                declared = WireField(declared)
            elif declared.has_default:
                setattr(cls, name, declared.default)
            else:
                delattr(cls, name)
            declared.key = declared.key or to_camel(name)
            fields[name] = declared
        cls.wire_fields = fields
        cls._required = frozenset(name for name, each in fields.items() if each.is_required)
        cls._factories = [(name, each.factory) for name, each in fields.items() if each.factory is not None]

    def __init__(self, **values: Any) -> None:
        given = values.keys()
        if not self._required <= given:
            raise TypeError(f"{type(self).__name__} needs {', '.join(sorted(self._required - given))}")
        if not given <= self.wire_fields.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(given - self.wire_fields.keys()))}")
        for name, factory in self._factories:
            if name not in values:
                values[name] = factory()
        self.__dict__.update(values)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the whole object; raises ``ValueError``."""

    @classmethod
    def from_wire(cls, value: Any) -> Self:
        """Read a JSON object, whose keys may also be the names of attributes.

        Args:
            value: The JSON object; an object of the class is returned as it is.

        Raises:
            InvalidFieldsError: It is none of this kind.
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise wrong(f"Input should be a valid dictionary or instance of {cls.__name__}", value)
        try:
            given = cls.usual_shape(cast("JsonObject", value))
        except ValueError as error:
            raise wrong(str(error), value) from None
        values, unknown = cls._read(given)
        made = cls.__new__(cls)
        made.__dict__.update(values)
        made.__dict__.update((name, factory()) for name, factory in cls._factories if name not in values)
        if unknown and cls._unknown_keys == "kept":
            made.__dict__["_unknown"] = unknown
        try:
            made.__post_init__()
        except ValueError as error:
            raise wrong(str(error), value) from None
        return made

    @classmethod
    def _read(cls, given: JsonObject) -> tuple[dict[str, Any], JsonObject]:
        """Return the values by the names of fields, and what belongs to none."""
        readers = cls._readers or cls._made_readers()
        values: dict[str, Any] = {}
        unknown: JsonObject = {}
        problems: dict[str, list[FieldProblem]] = {}
        for key, item in given.items():
            if key not in readers:
                unknown[key] = item
                continue
            name, read = readers[key]
            try:
                values[name] = read(item)
            except InvalidFieldsError as error:
                problems[name] = error.within(key)
        for name in cls._required.difference(values, problems):
            problems[name] = [FieldProblem(cls.wire_fields[name].key, "Field required", given, "missing")]
        if cls._unknown_keys == "refused":
            problems |= {key: [FieldProblem(key, "Extra inputs are not permitted", unknown[key])] for key in unknown}
        if problems:
            raise InvalidFieldsError(each for name in (*cls.wire_fields, *unknown) for each in problems.get(name, ()))
        return values, unknown

    def checked(self) -> Self:
        """Return the object with its values checked, and those within them: for one that other code has made.

        Raises:
            InvalidFieldsError: A value is not what its field declares.
        """
        given = {name: self.__dict__[name] for name in self.wire_fields if name in self.__dict__}
        for value in given.values():
            for each in cast("list[object]", value) if isinstance(value, list) else [value]:
                if isinstance(each, WireModel):
                    each.checked()
        return type(self).from_wire({**given, **self._unknown})

    @classmethod
    def usual_shape(cls, given: JsonObject) -> JsonObject:
        """Return a JSON object as the fields describe it, where others write it in another way."""
        return given

    @classmethod
    def _made_readers(cls) -> dict[str, tuple[str, Reader]]:
        kinds = get_type_hints(cls, include_extras=True)
        named = {
            name: (name, declared.reader(kinds[name], strict=cls._is_strict))
            for name, declared in cls.wire_fields.items()
        }
        cls._readers = named | {declared.key: named[name] for name, declared in cls.wire_fields.items()}
        return cls._readers

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values in some fields; neither they nor the copy are checked."""
        fields = self.wire_fields
        if not changes.keys() <= fields.keys():
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(changes.keys() - fields.keys()))}")
        copy = type(self).__new__(type(self))
        kept = (name for name in (*fields, "_unknown") if name in self.__dict__)
        copy.__dict__.update({name: self.__dict__[name] for name in kept}, **changes)
        return copy

    def frame(self) -> JsonObject:
        """Return the JSON object with values that may still be models; absent ones are left out."""
        named = ((each.key, getattr(self, name)) for name, each in self.wire_fields.items() if not each.is_hidden)
        return {**{key: value for key, value in named if value is not None}, **self._unknown}

    def _values(self) -> list[object]:
        return [self._unknown, *(getattr(self, name) for name in self.wire_fields)]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == cast("Self", other)._values()

    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride] - it can change

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, each in self.wire_fields.items() if each.is_shown)
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(wire_field,))
class FrozenModel(WireModel):
    """A ``WireModel`` that never changes: all who have it see the same.

    >>> class Moved(FrozenModel):
    ...     to_place: int
    ...     by_whom: str | None = wire_field(default=None, key="id")
    ...     reason: str = wire_field(default="", hidden=True)
    >>> moved = Moved(to_place=5, by_whom="me", reason="not told")
    >>> moved
    Moved(to_place=5, by_whom='me', reason='not told')
    >>> moved.to_wire(), Moved(to_place=5).to_wire()
    ({'toPlace': 5, 'id': 'me'}, {'toPlace': 5})
    """

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: it does not change")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: it does not change")

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash((type(self), *self._values()[1:]))
