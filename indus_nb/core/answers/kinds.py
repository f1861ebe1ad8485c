"""Kinds of answers: any type that pydantic takes, a JSON schema, or a data frame.

What this module promises: a schema is made of the user's types, and a value is checked against them; neither runs what
a model wrote. Every problem of a value is described in words that the model can act on, with the place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.readers import field_problems
from indus_nb.base.wire import JsonObject, dump, from_json
from indus_nb.core.answers.kind import FRAME, MAX_PROBLEM_CHARACTERS, AnswerKind, InvalidValueError

_MAX_VALUE_CHARACTERS = 80
_MAY_BE = (
    "It may be a pydantic model, a dataclass, a TypedDict, list[…], Literal[…], int and the like, a JSON schema as a "
    'dictionary, or the word "frame".'
)


def answer_kind(result: object) -> AnswerKind:
    """Find out how to ask for a type of answer.

    >>> answer_kind(list[int]).read(["1", 2])
    [1, 2]

    Args:
        result: A type that pydantic's ``TypeAdapter`` takes, a JSON schema as a mapping, ``"frame"``, or a kind.

    Returns:
        The kind.

    Raises:
        UsageError: No schema can be made of it.
    """
    if isinstance(result, AnswerKind) and not isinstance(result, type):
        return result
    if result == FRAME or (isinstance(result, type) and _is_frame(result)):
        from indus_nb.core.answers.frames import FrameKind

        return FrameKind()
    if isinstance(result, str):
        quoted = textcut.one_line(result, _MAX_VALUE_CHARACTERS)
        raise UsageError(f'"{quoted}" is a text and no type. Give the type itself. {_MAY_BE}')
    return _SchemaKind(cast("JsonObject", result)) if isinstance(result, Mapping) else _TypeKind(result)


def _is_frame(kind: type) -> bool:
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def type_name(result: object) -> str:
    """Return what a type is called in sentences, in one line."""
    name = result.__name__ if isinstance(result, type) and not hasattr(result, "__args__") else str(result)
    return textcut.one_line(name.replace("typing.", ""), _MAX_VALUE_CHARACTERS)


class _TypeKind:
    """A type that pydantic takes."""

    def __init__(self, result: object) -> None:
        self.name = type_name(result)
        from pydantic import TypeAdapter

        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", result))
            self.schema: JsonObject = self._adapter.json_schema(schema_generator=_generator())
        except Exception as error:
            raise UsageError(f"{self.name} cannot be the type of an answer: {_why(error)} {_MAY_BE}") from error

    def read(self, value: Any) -> Any:
        from pydantic import ValidationError

        try:
            # As JSON, not as objects: types that are strict take a date from a text of JSON only.
            return self._adapter.validate_json(dump(value))
        except ValidationError as error:
            problems = [
                f"{problem.path or 'the answer'}: {problem.reason}{_given(problem.value)}"
                for problem in field_problems(error)
            ]
            raise InvalidValueError(problems) from error
        except Exception as error:  # of the user's validators
            raise InvalidValueError([f"{type(error).__name__}: {error}"]) from error

    def to_json(self, value: Any) -> Any:
        try:
            return self._adapter.dump_python(value, mode="json", by_alias=True)
        except Exception as error:  # of the user's serializers, or for bytes that are no text
            raise UsageError(f"The answer, a {self.name}, cannot be written as JSON: {error}") from error


def _given(value: object) -> str:
    shown = textcut.one_line(repr(value), _MAX_VALUE_CHARACTERS)
    return "" if isinstance(value, dict | list) else f" (given: {shown})"


def _why(error: Exception) -> str:
    """Return pydantic's reason that a schema cannot be made, without its advice for programmers of validators."""
    first = str(error).strip().partition("\n")[0]
    first = re.sub(
        r"Unable to generate pydantic-core schema for (.*?)\. Set .*", r"pydantic knows no fields of \1", first
    )
    first = re.sub(r"Cannot generate a JsonSchema for (.*)", r"JSON has no such values (\1)", first)
    sentence = textcut.one_line(first or type(error).__name__, MAX_PROBLEM_CHARACTERS)
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _generator() -> Any:
    """Return a generator of schemas that asks for decimal numbers as texts, so that none of their digits is lost."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic asks about each
            return False

        def decimal_schema(self, schema: Any) -> dict[str, Any]:
            bounds = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
            limits = [f"{word} {schema[key]}" for key, word in bounds.items() if schema.get(key) is not None]
            return {"type": "string", "description": ", ".join(["a decimal number such as 12.34", *limits])}

    return Generator


class _SchemaKind:
    """A JSON schema; the answer is the plain value."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.name = "The JSON schema"
        try:
            self.schema: JsonObject = from_json(dump(dict(schema)))  # a copy of plain values, whatever was given
        except (ValueError, TypeError) as error:
            raise UsageError(f"{self.name} cannot be used: it holds what is no JSON ({error}).") from error
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry

        kind: Any = validator_for(self.schema, default=Draft202012Validator)
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            where = ".".join(map(str, error.absolute_path)) or "its top"
            raise UsageError(f"{self.name} cannot be used: {where}: {textcut.one_line(error.message, 300)}.") from error
        # With a registry of its own nothing is fetched for a reference.
        self._validator: Any = kind(self.schema, registry=cast("Any", Registry)())

    def read(self, value: Any) -> Any:
        try:
            errors = sorted(self._validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
        except Exception as error:  # a reference that leads nowhere, a pattern that is none
            raise UsageError(f"{self.name} cannot be used: {textcut.one_line(str(error), 300)}.") from error
        if errors:
            raise InvalidValueError(
                [f"{'.'.join(map(str, error.absolute_path)) or 'the answer'}: {error.message}" for error in errors]
            )
        return value

    def to_json(self, value: Any) -> Any:
        return value
