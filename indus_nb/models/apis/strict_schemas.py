"""Schemas that a server can hold a model's calls to while it writes them: those of Claude and OpenAI alike.

What this module promises: whatever keeps the schema that comes back keeps the given one too, but for bounds, which are
words of the description there; so calls are validated all the same. A schema that says something else that servers do
not understand, or that is large, has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from indus_nb.base.wire import JsonObject, dump

_MAX_PROPERTIES = 60
_MAX_CHOICES = 16
_MAX_VALUES = 250
_MAX_DEPTH = 10
_SCALARS = ("string", "number", "integer", "boolean", "null")
_KEPT = ("type", "description", "enum")
_READ = ("properties", "required", "additionalProperties", "items", "anyOf", "oneOf", "const", "default", "format")
_WORDS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
)
"""Bounds, which are said in words."""
_FORMATS = ("date-time",)


class _UnfitError(ValueError):
    """Raised for a schema that servers cannot hold a model to."""


@dataclass(slots=True)
class _Size:
    properties: int = 0
    choices: int = 0
    values: int = 0

    def check(self) -> None:
        if self.properties > _MAX_PROPERTIES or self.choices > _MAX_CHOICES or self.values > _MAX_VALUES:
            raise _UnfitError


def strict_schema(schema: JsonObject) -> JsonObject | None:
    """Return the schema of a tool's arguments as servers can hold calls to it.

    >>> strict_schema({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]})
    {'type': 'object', 'properties': {'a': {'type': 'integer', 'description': '(minimum: 1)'}}, 'required': ['a'], \
'additionalProperties': False}

    Args:
        schema: A sound schema, see ``tool_schemas``.

    Returns:
        A schema of which every object is closed and has all its properties; ``None`` if there is none like that.
    """
    try:
        return _strict(schema, _Size(), 0)
    except _UnfitError:
        return None


def _strict(schema: Any, size: _Size, depth: int) -> JsonObject:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        raise _UnfitError
    fields = cast("JsonObject", schema)
    if not fields.keys() <= {*_KEPT, *_READ, *_WORDS}:
        raise _UnfitError
    strict: JsonObject = {key: fields[key] for key in _KEPT if key in fields}
    if "const" in fields:
        strict["enum"] = [fields["const"]]
    size.values += len(strict.get("enum", ()))
    if "format" in fields:
        if fields["format"] not in _FORMATS:
            raise _UnfitError
        strict["format"] = fields["format"]
    choices: object = fields.get("anyOf", fields.get("oneOf"))
    if choices is not None:
        if not isinstance(choices, list) or ("anyOf" in fields and "oneOf" in fields) or "properties" in fields:
            raise _UnfitError
        size.choices += 1
        strict["anyOf"] = [_strict(choice, size, depth + 1) for choice in cast("list[object]", choices)]
    else:
        strict |= _content(fields, size, depth)
    size.check()
    if words := "; ".join(f"{key}: {dump(fields[key]).decode()}" for key in _WORDS if key in fields):
        strict["description"] = " ".join(filter(None, (strict.get("description"), f"({words})")))
    return strict


def _content(fields: JsonObject, size: _Size, depth: int) -> JsonObject:
    """Return what a schema without choices says of the inner of its values."""
    kind: object = fields.get("type")
    if isinstance(kind, list):
        size.choices += 1
    kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]  # without one, servers refuse an enum
    content: JsonObject = {}
    for each in kinds:
        if each == "object":
            content |= _object(fields, size, depth)
        elif each == "array":
            content["items"] = _strict(fields.get("items"), size, depth + 1)
        elif each not in _SCALARS:
            raise _UnfitError
    return content


def _object(fields: JsonObject, size: _Size, depth: int) -> JsonObject:
    properties: JsonObject = fields.get("properties", {})
    if not properties or fields.get("additionalProperties", False) is not False:
        raise _UnfitError  # closed, it would allow less
    if not properties.keys() >= {*fields.get("required", ())}:
        raise _UnfitError
    size.properties += len(properties)
    optional = [part for name, part in properties.items() if name not in fields.get("required", ())]
    if not all(map(_may_say_nothing, optional)):
        raise _UnfitError  # the model would have to invent a value that it may leave out
    return {
        "properties": {name: _strict(part, size, depth + 1) for name, part in properties.items()},
        "required": [*properties],
        "additionalProperties": False,
    }


def _may_say_nothing(schema: Any) -> bool:
    """Return whether a property that may be left out has a value that says as little: a default, null, no items."""
    fields = cast("JsonObject", schema) if isinstance(schema, dict) else {}
    return "default" in fields or fields.get("type") == "array" or _allows_null(fields)


def _allows_null(schema: Any) -> bool:
    fields = cast("JsonObject", schema) if isinstance(schema, dict) else {}
    kind: object = fields.get("type")
    choices: Any = fields.get("anyOf", fields.get("oneOf", ()))
    return kind == "null" or (isinstance(kind, list) and "null" in kind) or any(map(_allows_null, choices))
