"""Values of JSON read as the types that annotations name, with a reason for everything that does not fit.

``reader`` knows the types that declarations of this package use: scalars, ``Literal``, lists, dictionaries, unions, and
classes that have ``from_wire``. Without ``strict`` a value may be written as a program may write it: the number 5 as
``"5"``, yes as ``"true"``. The reasons are in pydantic's words, as are those for the arguments of tools.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypedDict,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from pydantic import ValidationError

Reader: TypeAlias = Callable[[Any], Any]
"""A function that returns a value as its type has it, or raises ``InvalidFieldsError``."""
_YES = frozenset((1, "1", "on", "t", "true", "y", "yes"))
_NO = frozenset((0, "0", "off", "f", "false", "n", "no"))


@dataclass(frozen=True)
class FieldProblem:
    """A problem with one field of a value that was rejected."""

    path: str
    """The keys that lead to the field, joined by dots; empty when the value as a whole is wrong."""
    reason: str
    """Why; holds nothing of the value itself."""
    value: object = field(repr=False)
    """What was given; for a missing field, what it is missing in. It may be secret."""
    kind: Literal["missing", "tag", "value"] = "value"
    """Whether there is no value, or one that belongs to none of several classes."""

    def __str__(self) -> str:
        return f"`{self.path}` is wrong: {self.reason}" if self.path else f"it is wrong: {self.reason}"

    def within(self, key: object) -> FieldProblem:
        """Return the same problem, seen from the value that holds this one under ``key``."""
        return FieldProblem(".".join(filter(None, (str(key), self.path))), self.reason, self.value, self.kind)


class InvalidFieldsError(ValueError):
    """A value that is not what it should be; as text the first problem, a sentence without an end.

    Attributes:
        problems: What is wrong with it, in the order of its fields.
    """

    def __init__(self, problems: Iterable[FieldProblem]) -> None:
        self.problems: list[FieldProblem] = [*problems]
        super().__init__(str(self.problems[0]))

    def within(self, key: object) -> list[FieldProblem]:
        """Return the problems, seen from the value that holds this one under ``key``."""
        return [problem.within(key) for problem in self.problems]


def field_problems(error: ValidationError) -> list[FieldProblem]:
    """List everything that pydantic finds wrong with a value, in the order of its fields."""
    return [
        FieldProblem(
            path=".".join(map(str, each["loc"])),
            reason=each["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, "),
            value=each["input"],
        )
        for each in error.errors(include_url=False, include_context=False)
    ]


class Bounds(TypedDict, total=False):
    """Bounds of numbers, texts and lists, named as in pydantic; ``finite`` excludes numbers that JSON does not know."""

    ge: float
    gt: float
    le: float
    min_length: int
    max_length: int
    min_items: int
    pattern: str
    finite: bool


_HELD: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "finite": (lambda value, _: math.isfinite(value), "Input should be a finite number"),
    "ge": (operator.ge, "Input should be greater than or equal to {}"),
    "gt": (operator.gt, "Input should be greater than {}"),
    "le": (operator.le, "Input should be less than or equal to {}"),
    "min_length": (lambda value, least: len(value) >= least, "String should have at least {} characters"),
    "max_length": (lambda value, most: len(value) <= most, "String should have at most {} characters"),
    "min_items": (
        lambda value, least: len(value) >= least,
        "List should have at least {} item after validation, not 0",
    ),
    # Not a search: behind ``$`` Python lets a line end stand, other languages do not.
    "pattern": (lambda value, pattern: re.fullmatch(str(pattern), value), "String should match pattern '{}'"),
}
"""For each bound whether a value is within it, and the reason if it is not."""


class Limits:
    """Bounds that a type may have behind it in ``Annotated``."""

    def __init__(self, **bounds: Unpack[Bounds]) -> None:
        self.bounds: dict[str, Any] = {**bounds}

    def applied_to(self, read: Reader) -> Reader:
        """Return a reader that also checks the bounds; ``None`` has none."""
        held = [(*held, self.bounds[name]) for name, held in _HELD.items() if name in self.bounds]

        def read_within(value: Any) -> Any:
            found = read(value)
            for is_within, reason, bound in held if found is not None else ():
                if not is_within(found, bound):
                    raise wrong(reason.format(bound), value)
            return found

        return read_within if held else read


def wrong(reason: str, value: Any, kind: Literal["missing", "tag", "value"] = "value") -> InvalidFieldsError:
    """Build the error for a value that is wrong as a whole."""
    return InvalidFieldsError([FieldProblem("", reason, value, kind)])


def reader(kind: Any, *, strict: bool = False) -> Reader:
    """Return the function that reads values of a type.

    Args:
        kind: A type, as in the annotation of a field; ``Annotated`` may add ``Limits``.
        strict: Whether scalars and lists must be of that type already; an integer is a ``float`` all the same.
    """
    made_of_parts = _MADE_OF_PARTS.get(get_origin(kind))
    if made_of_parts is not None:
        return made_of_parts(get_args(kind), strict)
    if kind in _SCALARS:
        return _SCALARS[kind][strict]
    return getattr(kind, "from_wire", None) or _instance(kind)


def _as_it_is(value: Any) -> Any:
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise wrong("Input should be None", value)


def _str(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise wrong("Input should be a valid string", value)


def _strict_int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise wrong("Input should be a valid integer", value)


def _int(value: Any) -> int:
    match value:
        case int():
            return int(value)
        case float():
            if value.is_integer():
                return int(value)
            if not math.isfinite(value):
                raise wrong("Input should be a finite number", value)
            raise wrong("Input should be a valid integer, got a number with a fractional part", value)
        case str():
            if re.fullmatch(r"\s*[+-]?\d{1,4000}(?:\.0*)?\s*", value):
                return int(value.partition(".")[0])
            raise wrong("Input should be a valid integer, unable to parse string as an integer", value)
        case _:
            raise wrong("Input should be a valid integer", value)


def _strict_float(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value)
    raise wrong("Input should be a valid number", value)


def _float(value: Any) -> float:
    if not isinstance(value, int | float | str):
        raise wrong("Input should be a valid number", value)
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise wrong("Input should be a valid number, unable to parse string as a number", value) from None


def _strict_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise wrong("Input should be a valid boolean", value)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    meant = value.lower() if isinstance(value, str) else value if isinstance(value, int | float) else None
    if meant not in _YES and meant not in _NO:
        what = ", unable to interpret input" if isinstance(value, str | int) else ""
        raise wrong(f"Input should be a valid boolean{what}", value)
    return meant in _YES


_SCALARS: dict[Any, tuple[Reader, Reader]] = {
    str: (_str, _str),
    int: (_int, _strict_int),
    float: (_float, _strict_float),
    bool: (_bool, _strict_bool),
    NoneType: (_none, _none),
    Any: (_as_it_is, _as_it_is),
    object: (_as_it_is, _as_it_is),
}
"""Readers of each scalar, the strict one behind the other."""


def _annotated(parts: tuple[Any, ...], strict: bool) -> Reader:  # noqa: FBT001
    read = reader(parts[0], strict=strict)
    for mark in parts[1:]:
        if isinstance(mark, Limits):
            read = mark.applied_to(read)
    return read


def _one_of(values: tuple[Any, ...], _strict: bool) -> Reader:  # noqa: FBT001
    shown = [f"'{value}'" for value in values]
    words = " or ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))

    def read(value: Any) -> Any:
        if isinstance(value, str) and value in values:
            return value
        raise wrong(f"Input should be {words}", value)

    return read


def _instance(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise wrong(f"Input should be an instance of {kind.__name__}", value)

    return read


def _list(parts: tuple[Any, ...], strict: bool) -> Reader:  # noqa: FBT001
    read_item, kinds = reader(parts[0], strict=strict), list if strict else (list, tuple)

    def read(value: Any) -> list[Any]:
        if not isinstance(value, kinds):
            raise wrong("Input should be a valid list", value)
        found: list[Any] = []
        problems: list[FieldProblem] = []
        for index, item in enumerate(cast("list[Any]", value)):
            try:
                found.append(read_item(item))
            except InvalidFieldsError as error:
                problems += error.within(index)
        if problems:
            raise InvalidFieldsError(problems)
        return found

    return read


def _dict(parts: tuple[Any, ...], strict: bool) -> Reader:  # noqa: FBT001
    read_key, read_value = (reader(part, strict=strict) for part in parts)

    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise wrong("Input should be a valid dictionary", value)
        found: dict[Any, Any] = {}
        problems: list[FieldProblem] = []
        for key, item in cast("dict[Any, Any]", value).items():
            try:
                read_as = read_key(key)
            except InvalidFieldsError as error:
                problems += (problem.within("[key]").within(key) for problem in error.problems)
                read_as = key
            try:
                found[read_as] = read_value(item)
            except InvalidFieldsError as error:
                problems += error.within(key)
        if problems:
            raise InvalidFieldsError(problems)
        return found

    return read


def _union(kinds: tuple[Any, ...], strict: bool) -> Reader:  # noqa: FBT001
    some = [kind for kind in kinds if kind is not NoneType]
    if len(some) == 1:
        read_some = reader(some[0], strict=strict)
    elif all(hasattr(kind, "from_wire") for kind in some):
        read_some = _tagged(tuple(some))
    else:
        read_some = _first_of(some, strict=strict)
    if len(some) == len(kinds):
        return read_some
    return lambda value: None if value is None else read_some(value)


def _first_of(kinds: list[Any], *, strict: bool) -> Reader:
    """Return the reader of a union whose types look different; one that fits as it stands comes before the others."""
    names = [(get_origin(kind) or kind).__name__ for kind in kinds]
    exact = [reader(kind, strict=True) for kind in kinds]
    tolerant = [] if strict else [reader(kind) for kind in kinds]

    def read(value: Any) -> Any:
        problems: list[FieldProblem] = []
        for readers in filter(None, (exact, tolerant)):
            problems.clear()
            for name, read_kind in zip(names, readers, strict=True):
                try:
                    return read_kind(value)
                except InvalidFieldsError as error:
                    problems += error.within(name)
        raise InvalidFieldsError(problems)

    return read


@cache
def _tagged(kinds: tuple[Any, ...]) -> Reader:
    """Return the reader of a union of classes that a field with one text each tells apart, such as ``type``."""
    hints = [get_type_hints(kind) for kind in kinds]
    name = next(name for name in hints[0] if all(get_origin(each.get(name)) is Literal for each in hints))
    by_tag = {tag: kind for kind, each in zip(kinds, hints, strict=True) for tag in get_args(each[name])}
    expected = ", ".join(f"'{tag}'" for tag in by_tag)

    def read(value: Any) -> Any:
        if isinstance(value, kinds):
            return value
        if not isinstance(value, dict):
            raise wrong("Input should be a valid dictionary or object to extract fields from", value)
        tag: object = cast("dict[Any, Any]", value).get(name)
        if tag is None:
            raise wrong(f"Unable to extract tag using discriminator '{name}'", value, "tag")
        kind = by_tag.get(tag) if isinstance(tag, str) else None
        if kind is None:
            reason = f"Input tag '{tag}' found using '{name}' does not match any of the expected tags: {expected}"
            raise wrong(reason, value, "tag")
        try:
            return kind.from_wire(value)
        except InvalidFieldsError as error:
            raise InvalidFieldsError(error.within(tag)) from None

    return read


_MADE_OF_PARTS: dict[Any, Callable[[tuple[Any, ...], bool], Reader]] = {
    Annotated: _annotated,
    Literal: _one_of,
    Union: _union,
    UnionType: _union,
    list: _list,
    dict: _dict,
}
