"""JSON lines in and out of the process, and the base class of all values in them.

Inside the package names are snake_case; on the wire and in files they are camelCase. ``WireModel`` and ``WireEvent``
are the only places where one becomes the other.
"""

from __future__ import annotations

import gc
import inspect
import json
import math
import os
import re
from collections.abc import Callable, Generator, Iterable
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar, cast, dataclass_transform

from indus_nb.base import late_models
from indus_nb.base.late_models import ConfigDict, Field, LateModel, is_complete
from indus_nb.base.light_models import fields_of

if TYPE_CHECKING:
    from pydantic import ValidationError

JsonObject: TypeAlias = dict[str, Any]
MAX_JSON_VALUES = 250_000
"""Most values in JSON of a server or of a model; to read as many takes up to 0.2 s and 30 MB."""
_JSON_STRING = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_ModelT = TypeVar("_ModelT", bound="WireModel")


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


class WireModel(LateModel):
    """A value with snake_case attributes here and camelCase keys on the wire; keys it does not know survive.

    >>> class Limits(WireModel):
    ...     max_tokens: int
    ...     note: str | None = None
    >>> Limits.model_validate({"maxTokens": 5, "unheardOf": True}).to_wire()
    {'maxTokens': 5, 'unheardOf': True}
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="allow",
        defer_build=True,
        ser_json_inf_nan="null",
    )

    def to_wire(self) -> JsonObject:
        """Return the JSON object, absent values left out."""
        if (light := _light_json(self)) is not None:
            return cast("JsonObject", _DECODER.decode(light))
        return _with_built_classes(lambda: self.model_dump(mode="json", by_alias=True, exclude_none=True))


@dataclass_transform(kw_only_default=True, frozen_default=True)
class WireEvent:
    """An immutable event, in JSON like a ``WireModel``; its values are not checked.

    A run makes two of them for each piece of an answer, and a process its first ones while a user waits for it. So they
    are no pydantic models: making one is filling a dictionary, and a class needs no schema.

    >>> class Moved(WireEvent, renamed={"by_whom": "id"}, hidden=("reason",)):
    ...     type: str = "moved"
    ...     to_place: int
    ...     by_whom: str | None = None
    ...     reason: str = ""
    >>> moved = Moved(to_place=5, by_whom="me", reason="not told")
    >>> moved
    Moved(type='moved', to_place=5, by_whom='me', reason='not told')
    >>> moved.to_wire(), Moved(to_place=5).to_wire()
    ({'type': 'moved', 'toPlace': 5, 'id': 'me'}, {'type': 'moved', 'toPlace': 5})
    """

    wire_names: ClassVar[dict[str, str]] = {}
    """The attributes that are on the wire, in order, with their names there."""
    _names: ClassVar[AbstractSet[str]] = frozenset()
    _required: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, hidden: tuple[str, ...] = (), renamed: dict[str, str] | None = None) -> None:
        super().__init_subclass__()
        own = [name for name in inspect.get_annotations(cls) if name not in cls._names]
        cls._names = dict.fromkeys((*cls._names, *own)).keys()
        cls._required = frozenset(name for name in cls._names if not hasattr(cls, name))
        shown = {name: (renamed or {}).get(name) or to_camel(name) for name in own if name not in hidden}
        cls.wire_names = {**cls.wire_names, **shown}

    def __init__(self, **values: Any) -> None:
        given = values.keys()
        if not self._required <= given:
            raise TypeError(f"{type(self).__name__} needs {', '.join(sorted(self._required - given))}")
        if not given <= self._names:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(given - self._names))}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: what has happened does not change")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: what has happened does not change")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == cast("Self", other)._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))

    def __repr__(self) -> str:
        values = (f"{name}={value!r}" for name, value in zip(self._names, self._values(), strict=True))
        return f"{type(self).__name__}({', '.join(values)})"

    def _values(self) -> list[object]:
        return [getattr(self, name) for name in self._names]

    def frame(self) -> JsonObject:
        """Return the JSON object with values that may still be models; absent ones are left out."""
        named = ((key, getattr(self, name)) for name, key in self.wire_names.items())
        return {key: value for key, value in named if value is not None}

    def to_wire(self) -> JsonObject:
        """Return the JSON object, absent values left out."""
        return cast("JsonObject", _jsonable(self))


def usual(kind: type[_ModelT]) -> _ModelT:
    """Declare a field whose default is a ``kind`` with its own, unchecked defaults."""

    def make() -> _ModelT:
        return kind.model_construct()  # asked for here, as asking for an attribute completes the class

    return Field(default_factory=make)


def names_of(model: type[WireModel]) -> Iterable[str]:
    """Return the names of a model's fields without completing it."""
    fields = fields_of(model) if not is_complete(model) else None
    return model.model_fields if fields is None else fields


def plain(model: WireModel) -> JsonObject:
    """Return the same as ``to_wire``, for a model without serializers of its own; pydantic builds none for it."""
    written: JsonObject = {}
    for name, key in _shown(type(model)):
        value: object = getattr(model, name)
        if value is not None:
            written[key] = plain(value) if isinstance(value, WireModel) else value
    return {**written, **(model.__pydantic_extra__ or {})}


@cache
def _shown(model: type[WireModel]) -> list[tuple[str, str]]:
    """Return the names of the fields that are on the wire, with their keys there."""
    if not is_complete(model) and (fields := fields_of(model)) is not None:
        return [(field.name, field.key) for field in fields.values() if not field.is_hidden]
    shown = ((name, field) for name, field in model.model_fields.items() if not field.exclude)
    # Older versions of pydantic set the alias with the build.
    return [(name, field.serialization_alias or to_camel(name)) for name, field in shown]


def _with_built_classes(serialize: Callable[[], Any]) -> Any:
    """Call ``serialize``; if a model class that is not built makes it fail, build all and call it again.

    Classes are built when first used (``defer_build``), which keeps the start short. But an object that a union's
    adapter made does not count as a use of its class, and pydantic before 2.14 refuses to serialize such an object.
    """
    try:
        return serialize()
    except TypeError:
        if not _build_classes():
            raise
        return serialize()


def _build_classes() -> bool:
    """Build the model classes that are not built yet; return whether there were any."""
    any_built = False
    waiting: list[type[WireModel]] = [WireModel]
    while waiting:
        model = waiting.pop()
        if is_complete(model):
            waiting.extend(model.__subclasses__())
            any_built |= model.model_rebuild(raise_errors=False) is True
    return any_built


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
    if (light := _light_json(value)) is not None:
        return light.encode()
    import pydantic_core

    try:
        return pydantic_core.to_json(
            value, by_alias=True, exclude_none=True, inf_nan_mode="null", fallback=_event_frame
        )
    except ValueError:
        # Half characters, as in a file name that is no UTF-8, or a class not built yet; any other defect shows again.
        text = json.dumps(_jsonable(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return clean_text(text).encode()


def _light_json(value: object) -> str | None:
    """Serialize a value without pydantic; ``None`` if pydantic is imported, or is needed for the value."""
    if late_models.is_loaded():
        return None
    try:
        text = _ENCODER.encode(value)
        return text if text.isascii() or not _HALVES.search(text) else None
    except (ValueError, TypeError, RecursionError):
        return None


def _light_frame(value: object) -> JsonObject:
    if isinstance(value, WireEvent):
        return value.frame()
    if isinstance(value, WireModel) and not is_complete(type(value)):
        return plain(value)
    raise TypeError(type(value).__name__)


def _jsonable(value: object) -> object:
    import pydantic_core

    return _with_built_classes(
        lambda: pydantic_core.to_jsonable_python(
            value, by_alias=True, exclude_none=True, inf_nan_mode="null", fallback=_event_frame
        )
    )


def _event_frame(value: object) -> JsonObject:
    if isinstance(value, WireEvent):
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
    if not late_models.is_loaded():
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
        if _HALF_ESCAPES.search(line) and not late_models.is_loaded():
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
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_light_frame)
_HALVES = re.compile("[\ud800-\udfff]")
_HALF_ESCAPES = re.compile(rb"\\u[dD][89a-fA-F]")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "something else")


@dataclass(frozen=True)
class FieldProblem:
    """A problem with one field of a value that a model rejected."""

    path: str
    """The keys that lead to the field, joined by dots; empty when the value as a whole is wrong."""
    reason: str
    """Why, in pydantic's words or in those of a validator; holds nothing of the value itself."""
    kind: str
    """Pydantic's name of the error, such as ``missing``."""
    value: object = field(repr=False)
    """What was given; for a missing field, what it is missing in. It may be secret."""

    def __str__(self) -> str:
        return f"`{self.path}` is wrong: {self.reason}" if self.path else f"it is wrong: {self.reason}"


def field_problems(error: ValidationError, *, where: str = "") -> list[FieldProblem]:
    """List everything that is wrong with a value, in the order of its fields.

    Args:
        where: The path of the value itself, in front of the fields' paths.

    Returns:
        A problem for each wrong field, at least one.
    """
    return [
        FieldProblem(
            path=".".join(part for part in (where, *map(str, each["loc"])) if part),
            reason=each["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, "),
            kind=each["type"],
            value=each["input"],
        )
        for each in error.errors(include_url=False, include_context=False)
    ]


def first_problem(error: ValidationError, *, where: str = "") -> FieldProblem:
    """Return the first problem of a value; as text it is a sentence without an end.

    >>> from pydantic import ValidationError
    >>> class Point(WireModel):
    ...     x_place: int
    >>> try:
    ...     Point.model_validate({"xPlace": "left"})
    ... except ValidationError as error:
    ...     print(first_problem(error))
    `xPlace` is wrong: Input should be a valid integer, unable to parse string as an integer

    Args:
        where: The path of the value itself, in front of the field's path.

    Returns:
        The first of ``field_problems``.
    """
    return field_problems(error, where=where)[0]


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
