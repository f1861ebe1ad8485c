"""JSON schemas of answers, in the words that every API takes.

What this module promises: a schema that comes back allows whatever the given one allows, and its bounds are kept by the
validation, not by the API. References to parts of it are replaced by these parts where none refers to itself; formats
and patterns that some APIs reject become words of the description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.models.apis.tool_schemas import SchemaError, check_tool, sound_schema
from indus_nb.models.protocol import ToolSpec

MAX_SCHEMA_BYTES = 100_000
"""Largest schema accepted, in bytes: a larger one would be most of what the model reads, with every request."""
_MAX_INLINED_BYTES = 20_000
_DEFINITIONS = ("$defs", "definitions")
_KNOWN_FORMATS = ("date-time",)
_NAMED = ("properties", "patternProperties", *_DEFINITIONS)
_VALUES = ("const", "default", "enum", "examples", "required")
WRAPPED = "answer"
"""Name of the argument that holds an answer which is no object with known fields."""


def readable_schema(schema: JsonObject) -> JsonObject:
    """Return a schema as a model reads it best: without titles, and without references where that can be."""
    return _plain(_inlined(schema))


def tool_schema(schema: JsonObject, name: str) -> tuple[JsonObject, bool]:
    """Make the arguments of a tool of the schema of an answer.

    Args:
        schema: The JSON schema of the answer.
        name: What the type is called in errors.

    Returns:
        The schema of the arguments, and whether the answer is an argument of them rather than all of them.

    Raises:
        UsageError: No API would take it.
    """
    try:
        plain = readable_schema(schema)
    except RecursionError:
        raise UsageError(f"{name} cannot be the type of an answer: its schema is nested too deeply.") from None
    wrapped = not _has_fields(plain)
    whole = _wrapped(plain) if wrapped else plain
    try:
        try:
            whole = sound_schema(whole)
        except SchemaError:
            if wrapped:
                raise
            whole, wrapped = sound_schema(_wrapped(plain)), True
        check_tool(ToolSpec(WRAPPED, "", whole))
    except SchemaError as error:
        problem = str(error).replace("its parameters", "the schema")
        raise UsageError(f"{name} cannot be the type of an answer: {problem}.") from error
    if (size := len(dump(whole))) > MAX_SCHEMA_BYTES:
        raise UsageError(
            f"{name} cannot be the type of an answer: its schema has {size:,} bytes, and a request holds at most "
            f"{MAX_SCHEMA_BYTES:,} of it. Ask for a smaller type, or for parts of it one after another."
        )
    return whole, wrapped


def _has_fields(schema: JsonObject) -> bool:
    """Return whether the schema is an object with fields and nothing else, so that it can be a tool's as it is."""
    if isinstance(reference := schema.get("$ref"), str):  # of a type that holds itself
        name = reference.rpartition("/")[2]
        targets = [cast("JsonObject", schema[key][name]) for key in _DEFINITIONS if name in schema.get(key, {})]
        return bool(targets) and "$ref" not in targets[0] and _has_fields(targets[0])
    return schema.get("type") == "object" and bool(schema.get("properties"))


def _wrapped(schema: JsonObject) -> JsonObject:
    inner = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
    return {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        "additionalProperties": False,
        **definitions,
    }


# --- references ------------------------------------------------------------------------------------------------------


def _inlined(schema: JsonObject) -> JsonObject:
    """Inline the references of a schema, if none leads back to itself and the result is not much larger."""
    definitions = {f"#/{key}/{name}": part for key in _DEFINITIONS for name, part in schema.get(key, {}).items()}
    if not definitions:
        return schema
    room = [_MAX_INLINED_BYTES + len(dump(schema))]
    body = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    try:
        return cast("JsonObject", _resolved(body, definitions, (), room))
    except _RefersToItselfError:
        return schema


class _RefersToItselfError(Exception):
    """Raised for a reference that leads back to itself, or a schema that grows too large without them."""


def _resolved(part: Any, definitions: Mapping[str, Any], within: tuple[str, ...], room: list[int]) -> Any:
    if isinstance(part, list):
        return [_resolved(each, definitions, within, room) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    fields = cast("JsonObject", part)
    reference = fields.get("$ref")
    if isinstance(reference, str) and reference in definitions:
        if reference in within:
            raise _RefersToItselfError
        target = definitions[reference]
        room[0] -= len(dump(target))
        if room[0] < 0:
            raise _RefersToItselfError
        beside = {key: value for key, value in fields.items() if key != "$ref"}
        return {**_resolved(target, definitions, (*within, reference), room), **beside}
    return {
        key: value if key in _VALUES else _resolved(value, definitions, within, room) for key, value in fields.items()
    }


# --- words that some APIs reject -------------------------------------------------------------------------------------


def _plain(schema: Any) -> JsonObject:
    """Return the schema without titles; formats and patterns become words where they are not known everywhere."""
    if not isinstance(schema, dict):
        return schema
    fields = cast("JsonObject", schema)
    plain: JsonObject = {}
    notes: list[str] = []
    for key, value in fields.items():
        if key in _NAMED and isinstance(value, dict):
            plain[key] = {name: _plain(part) for name, part in cast("JsonObject", value).items()}
        elif key == "format" and isinstance(value, str) and value not in _KNOWN_FORMATS:
            notes.append(f"format: {value}")
        elif key == "pattern" and isinstance(value, str) and "(?" in value:
            notes.append(f"pattern: {value}")
        elif key in ("title", "discriminator", "$schema", "$id", "writeOnly", "readOnly"):
            continue
        elif key in _VALUES:
            plain[key] = value
        elif isinstance(value, list):
            plain[key] = [_plain(part) for part in cast("list[Any]", value)]
        else:
            plain[key] = _plain(value)
    if notes:
        plain["description"] = " ".join(filter(None, (plain.get("description"), f"({'; '.join(notes)})")))
    return plain
