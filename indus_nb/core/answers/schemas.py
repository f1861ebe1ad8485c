"""JSON schemas of answers, in the words that every API takes.

What this module promises: a schema that comes back allows whatever the given one allows, and its bounds are kept by the
validation, not by the API.
"""

from __future__ import annotations

from typing import cast

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.models.apis.tool_schemas import SchemaError, check_tool, sound_schema
from indus_nb.models.protocol import ToolSpec
from indus_nb.tools.plain_schemas import DEFINITIONS, inlined, plain_schema

MAX_SCHEMA_BYTES = 100_000
"""Largest schema accepted, in bytes: a larger one would be most of what the model reads, with every request."""
WRAPPED = "answer"
"""Name of the argument that holds an answer which is no object with known fields."""


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
        plain = plain_schema(inlined(schema))
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
        targets = [cast("JsonObject", schema[key][name]) for key in DEFINITIONS if name in schema.get(key, {})]
        return bool(targets) and "$ref" not in targets[0] and _has_fields(targets[0])
    return schema.get("type") == "object" and bool(schema.get("properties"))


def _wrapped(schema: JsonObject) -> JsonObject:
    inner = {key: value for key, value in schema.items() if key not in DEFINITIONS}
    definitions = {key: schema[key] for key in DEFINITIONS if key in schema}
    return {
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        "additionalProperties": False,
        **definitions,
    }
