"""JSON lines in and out of the process, and the base class of all values in them.

Inside the package names are snake_case; on the wire and in files they are camelCase. ``WireModel`` is the only place
where one becomes the other.
"""

from __future__ import annotations

import gc
import json
import math
import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, Self, TypeAlias, Unpack, cast, dataclass_transform, get_type_hints

from indus_nb.base.readers import Bounds, FieldProblem, InvalidFieldsError, Limits, Reader, reader, wrong

JsonObject: TypeAlias = dict[str, Any]
MAX_JSON_VALUES = 250_000
"""Most values in JSON of a server or of a model; to read as many takes up to 0.2 s and 30 MB."""
_JSON_STRING = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'


def to_camel(name: str) -> str:
    """Return a name as it is on the wire.

    >>> to_camel("to_camel")
    'toCamel'
    """
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def to_snake(key: str) -> str:
    """Return the name of a key on the wire.

    >>> to_snake("toSnake")
    'to_snake'
    """
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key)


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
        self.key = key
        self.default = default
        self.factory = factory
        self.bounds: Bounds = {}
        self.check: Callable[[Any], Any] | None = None
        self.description = ""
        self.is_hidden = False
        self.is_shown = True

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
class WireModel:
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
                problems[name] = error.within(cls.wire_fields[name].key)
        for name in cls._required.difference(values, problems):
            problems[name] = [FieldProblem(cls.wire_fields[name].key, "Field required", given, "missing")]
        if cls._unknown_keys == "refused":
            problems |= {key: [FieldProblem(key, "Extra inputs are not permitted", unknown[key])] for key in unknown}
        if problems:
            raise InvalidFieldsError(each for name in (*cls.wire_fields, *unknown) for each in problems.get(name, ()))
        return values, unknown

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

    def to_wire(self) -> JsonObject:
        """Return the JSON object, absent values left out."""
        return cast("JsonObject", json.loads(dump(self)))

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


def random_hex(length: int) -> str:
    """Return random bytes in hexadecimal like ``secrets``, which imports what no start needs."""
    return os.urandom(length).hex()


def dump(value: object) -> bytes:
    r"""Serialize ``value`` (wire models included) as compact JSON on one line, without a line end.

    Non-finite numbers become ``null``, for JSON knows none; lone surrogates become replacement characters.
    Absent values of models are left out, ``None`` in plain
    dictionaries is kept:

    >>> dump({"model": None, "text": "größer\u2028"})
    b'{"model":null,"text":"gr\xc3\xb6\xc3\x9fer\xe2\x80\xa8"}'
    """
    try:
        text = _encoded(value)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    try:
        return text.encode()
    except UnicodeEncodeError:  # half characters, as in a file name that is no UTF-8
        return clean_text(text).encode()


def _encoded(value: object) -> str:
    try:
        return _ENCODER.encode(value)
    except TypeError:  # keys that are no texts
        return _ENCODER.encode(_as_plain(value))
    except ValueError:
        # With a number that JSON does not know; any other defect shows again.
        text = json.dumps(value, default=_plain_value)
        return _ENCODER.encode(json.loads(text, parse_constant=lambda _: None))


def _plain_value(value: object) -> object:
    return value.frame() if isinstance(value, WireModel) else _as_plain(value)


def _as_plain(value: object) -> object:
    """Return what pydantic makes of a value of others in JSON: a data class, a date, a set; raises ``ValueError``."""
    import pydantic_core

    return pydantic_core.to_jsonable_python(
        value, by_alias=True, exclude_none=True, inf_nan_mode="null", fallback=_frame_only
    )


def _frame_only(value: object) -> JsonObject:
    if isinstance(value, WireModel):
        return value.frame()
    import pydantic_core

    raise pydantic_core.PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")


def from_json(text: str | bytes, *, allow_inf_nan: bool = True, allow_partial: bool = False) -> Any:
    """Return the value of JSON text.

    Args:
        text: The text, in UTF-8 if it is bytes.
        allow_inf_nan: Whether the numbers that JSON does not know are read.
        allow_partial: Whether the text may end early, in a string too.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return _decoded(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError):
        pass  # what is odd is read, or refused in its words, by the library
    import pydantic_core

    return pydantic_core.from_json(
        text, allow_inf_nan=allow_inf_nan, allow_partial="trailing-strings" if allow_partial else False
    )


def _decoded(text: str) -> Any:
    if text[:1] == "{":  # else there may be blanks before it
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    return _DECODER.decode(text)


def load_object(line: bytes) -> JsonObject:
    r"""Parse the JSON object on ``line``.

    Raises ``ValueError`` with a reason fit for a user when the line holds no JSON or JSON of another kind. Programs
    that count text in UTF-16 cut characters in half and write the halves as escapes. Those lines are read, with
    replacement characters:

    >>> load_object(rb'{"text": "cut \ud83d"}')
    {'text': 'cut �'}
    """
    try:
        value: object = from_json(line, allow_inf_nan=False)
        if _HALF_ESCAPES.search(line):
            value = _read_tolerantly(line, ValueError("half a character"))
    except ValueError as error:
        value = _read_tolerantly(line, error)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {_kind(value)}")
    return cast("JsonObject", value)


def check_json_values(text: bytes | str) -> None:
    """Check that JSON does not blow up when parsed: a value of two bytes takes fifty in memory.

    Args:
        text: JSON, or what should be some, or its beginning.

    Raises:
        ValueError: It holds more than ``MAX_JSON_VALUES``.
    """
    # Nearly always one of these is so, and the strings need not be left out.
    if len(text) <= MAX_JSON_VALUES or _signs_before_values(text) <= MAX_JSON_VALUES:
        return
    content = text.encode(errors="replace") if isinstance(text, str) else text
    if _signs_before_values(re.sub(_JSON_STRING, b"", content)) > MAX_JSON_VALUES:
        raise ValueError(f"it holds more than {MAX_JSON_VALUES:,} values of JSON")


def _signs_before_values(text: bytes | str) -> int:
    if isinstance(text, bytes):
        return sum(map(text.count, (b",", b"[", b"{")))
    return sum(map(text.count, (",", "[", "{")))


def _read_tolerantly(line: bytes, defect: ValueError) -> object:
    """Parse a line with lone surrogates or deep nesting; raise ``defect`` when something else is wrong."""
    try:
        text = json.dumps(json.loads(line.decode(), parse_constant=_refuse), ensure_ascii=False)
        return json.loads(clean_text(text))
    except (ValueError, RecursionError):
        raise defect from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain_value)
_HALF_ESCAPES = re.compile(rb"\\u[dD][89a-fA-F]")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "something else")


@contextmanager
def collection_paused() -> Generator[None]:
    """Pause garbage collection while many objects are made, which it would slow down."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def clean_text(text: str) -> str:
    r"""Replace lone surrogates in ``text``, so that it can be encoded.

    >>> clean_text("a\ud83d b")
    'a� b'
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encodable(value: Any) -> Any:
    """Replace lone surrogates and non-finite numbers in ``value``.

    Returns it unchanged if it has none.
    """
    return value if _is_encodable(value) else _cleaned(value)


def _is_encodable(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii() or clean_text(value) is value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return all(map(_is_encodable, fields)) and all(map(_is_encodable, fields.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_encodable, cast("list[Any]", value)))
    return not isinstance(value, float) or math.isfinite(value)


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean_text(value)
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {_cleaned(key): _cleaned(item) for key, item in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [_cleaned(item) for item in cast("list[Any]", value)]
        case _:
            return value
