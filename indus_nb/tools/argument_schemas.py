"""JSON schemas of the arguments of built-in tools, made from their classes."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from indus_nb.base.readers import Bounds
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_items": "minItems",
    "pattern": "pattern",
}


def schema_of(arguments: type[WireModel]) -> JsonObject:
    """Build the JSON schema of arguments from their class, with references to the classes in it."""
    within: dict[str, JsonObject] = {}
    schema = _schema(arguments, within)
    return {"$defs": within, **schema} if within else schema


def _schema(arguments: type[WireModel], within: dict[str, JsonObject]) -> JsonObject:
    kinds = get_type_hints(arguments)
    properties: dict[str, JsonObject] = {}
    for name, declared in arguments.wire_fields.items():
        schema = _schema_of_type(kinds[name], declared.bounds, within)
        if declared.has_default:
            schema["default"] = declared.default
        if declared.description:
            schema["description"] = declared.description
        properties[declared.key] = dict(sorted(schema.items()))
    required = [declared.key for declared in arguments.wire_fields.values() if declared.is_required]
    return {"properties": properties, **({"required": required} if required else {}), "type": "object"}


def _schema_of_type(kind: Any, bounds: Bounds, within: dict[str, JsonObject]) -> JsonObject:
    parts = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return {"anyOf": [_schema_of_type(part, {} if part is NoneType else bounds, within) for part in parts]}
    if get_origin(kind) is Literal:
        return {"enum": [*parts], "type": "string"}
    held = {_BOUNDS[name]: bound for name, bound in bounds.items() if name in _BOUNDS}
    if get_origin(kind) is list:
        return {"items": _schema_of_type(parts[0], {}, within), "type": "array", **held}
    if get_origin(kind) is dict:
        return {"additionalProperties": True, "type": "object"}
    if kind in _TYPES:
        return dict(sorted({"type": _TYPES[kind], **held}.items()))
    within[kind.__name__] = _schema(kind, within)
    return {"$ref": f"#/$defs/{kind.__name__}"}
