"""JSON schemas in the few words that every model and every API understands.

What this module promises: references to parts of a schema are replaced by these parts where none refers to itself;
titles go; formats and patterns that some APIs reject become words of the description. Of arguments it is not said that
they may be ``null`` where they may be left out, nor that others are forbidden: that is decided where they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from indus_nb.base.wire import JsonObject, dump

DEFINITIONS = ("$defs", "definitions")
_MAX_INLINED_BYTES = 20_000
_KNOWN_FORMATS = ("date-time",)
_NAMED = ("properties", "patternProperties", *DEFINITIONS)
_VALUES = ("const", "default", "enum", "examples", "required")
_NULL: JsonObject = {"type": "null"}
_EMPTY: tuple[object, ...] = (None, "", [], {})
"""Defaults that say no more than that the argument may be left out."""


def plain_arguments(schema: JsonObject) -> JsonObject:
    """Return the schema of a tool's arguments as models read it."""
    body = {key: value for key, value in schema.items() if key != "description"}
    return _shortened(plain_schema(inlined(body)))


def _shortened(part: Any) -> Any:
    if isinstance(part, list):
        return [_shortened(each) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    fields = cast("JsonObject", part)
    required = fields.get("required", ())
    whole: JsonObject = {}
    for key, value in fields.items():
        if key in _NAMED and isinstance(value, dict):
            named = {name: _shortened(schema) for name, schema in cast("JsonObject", value).items()}
            optional = key == "properties"
            whole[key] = {name: _optional(s) if optional and name not in required else s for name, s in named.items()}
        elif not (key == "additionalProperties" and value is False):
            whole[key] = value if key in _VALUES else _shortened(value)
    return whole


def _optional(argument: Any) -> Any:
    if not isinstance(argument, dict):
        return argument
    fields = cast("JsonObject", argument)
    rest = {key: value for key, value in fields.items() if key != "default" or value not in _EMPTY}
    choices: object = rest.pop("anyOf", None)
    if not isinstance(choices, list):
        return rest if choices is None else {**rest, "anyOf": choices}
    others = [choice for choice in cast("list[Any]", choices) if choice != _NULL]
    return {**others[0], **rest} if len(others) == 1 else {**rest, "anyOf": others}


# --- references ------------------------------------------------------------------------------------------------------


def inlined(schema: JsonObject) -> JsonObject:
    """Inline the references of a schema, if none leads back to itself and the result is not much larger."""
    definitions = {f"#/{key}/{name}": part for key in DEFINITIONS for name, part in schema.get(key, {}).items()}
    if not definitions:
        return schema
    room = [_MAX_INLINED_BYTES + len(dump(schema))]
    body = {key: value for key, value in schema.items() if key not in DEFINITIONS}
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
        besides = _resolved(beside, definitions, within, room)
        return {**_resolved(target, definitions, (*within, reference), room), **besides}
    whole: JsonObject = {}
    for key, value in fields.items():
        if key in _NAMED and isinstance(value, dict):  # its keys are names, also where they read like keywords
            named = cast("JsonObject", value).items()
            whole[key] = {name: _resolved(schema, definitions, within, room) for name, schema in named}
        else:
            whole[key] = value if key in _VALUES else _resolved(value, definitions, within, room)
    return whole


# --- words that some APIs reject -------------------------------------------------------------------------------------


def plain_schema(schema: Any) -> JsonObject:
    """Return the schema without titles; formats and patterns become words where they are not known everywhere."""
    if not isinstance(schema, dict):
        return schema
    fields = cast("JsonObject", schema)
    plain: JsonObject = {}
    notes: list[str] = []
    for key, value in fields.items():
        if key in _NAMED and isinstance(value, dict):
            plain[key] = {name: plain_schema(part) for name, part in cast("JsonObject", value).items()}
        elif key == "format" and isinstance(value, str) and value not in _KNOWN_FORMATS:
            notes.append(f"format: {value}")
        elif key == "pattern" and isinstance(value, str) and "(?" in value:
            notes.append(f"pattern: {value}")
        elif key in ("title", "discriminator", "$schema", "$id", "writeOnly", "readOnly"):
            continue
        elif key in _VALUES:
            plain[key] = value
        elif isinstance(value, list):
            plain[key] = [plain_schema(part) for part in cast("list[Any]", value)]
        else:
            plain[key] = plain_schema(value)
    if notes:
        plain["description"] = " ".join(filter(None, (plain.get("description"), f"({'; '.join(notes)})")))
    return plain
