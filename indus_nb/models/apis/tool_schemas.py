"""The one check of how a tool is described to a model: its name and the JSON schema of its arguments.

One tool that an API rejects makes it reject every request. What can be repaired is repaired for requests
(``sound_schema``); a tool whose schema cannot is rejected by name where it is registered (``check_tool``). The rules
are those that satisfy every API; their sources are in docs/requests.md.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.models.protocol import ToolSpec

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_COMBINERS = ("anyOf", "oneOf", "allOf")
_FORBIDDEN_AT_THE_TOP = (*_COMBINERS, "not", "enum", "const")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMAS = (
    "additionalProperties",
    "items",
    "additionalItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LISTS = (*_COMBINERS, "prefixItems")
_TEXTS = ("title", "description", "pattern", "format", "$ref", "$comment")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_BOUNDS = {
    "minimum": "exclusiveMinimum",
    "maximum": "exclusiveMaximum",
    "exclusiveMinimum": "minimum",
    "exclusiveMaximum": "maximum",
}
_MAX_DEPTH = 60
_MAX_REMEMBERED = 1024


class SchemaError(ValueError):
    """A schema that no repair makes acceptable; the text is a clause with the reason."""


def check_tool(spec: ToolSpec) -> None:
    """Check that every API accepts the tool.

    Raises ``UsageError`` naming the tool and the reason if a request that offers it would be rejected.
    """
    if not _NAME.fullmatch(spec.name):
        raise UsageError(f"{spec.name[:100]!r} cannot name a tool: use up to 64 of a-z A-Z 0-9 _ -")
    try:
        sound_schema(spec.parameters)
    except SchemaError as error:
        raise UsageError(f"The tool {spec.name} cannot be offered: {error}.") from error


def check_tools(specs: Iterable[ToolSpec]) -> None:
    """Run ``check_tool`` for each tool, and check that no name is used twice."""
    names: set[str] = set()
    for spec in specs:
        check_tool(spec)
        if spec.name in names:
            raise UsageError(f"The tool {spec.name} is given twice. Give each tool a name of its own.")
        names.add(spec.name)


_remembered: OrderedDict[int, tuple[object, JsonObject]] = OrderedDict()


def sound_schema(schema: object) -> JsonObject:
    """Return the schema as every API accepts it.

    That is of an object, with properties, without choices at the top.

    The schema itself is returned if nothing is wrong with it. Choices at the top (``anyOf``, ``oneOf``, ``allOf``) are
    merged so that whatever they allow stays allowed:

    >>> sound_schema({"type": "object"})
    {'type': 'object', 'properties': {}}
    >>> sound_schema({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]})
    {'type': 'object', 'properties': {'a': {}, 'b': {}}}

    Raises ``SchemaError`` for one that cannot be repaired.
    """
    known = _remembered.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    sound = _sound(schema)
    _remembered[id(schema)] = schema, sound  # the schema is kept, so that its id stays its own
    if len(_remembered) > _MAX_REMEMBERED:
        _remembered.popitem(last=False)
    return sound


def _sound(schema: object) -> JsonObject:
    if not isinstance(schema, dict):
        raise SchemaError("its parameters are no JSON schema, which is an object")
    given = cast("JsonObject", schema)
    checked = cast("JsonObject", _checked(given, "parameters", 0))
    merged = _merged(checked, checked, 0)
    names = cast("JsonObject", merged["properties"])
    if wrong := [name for name in names if not _PROPERTY.fullmatch(name)]:
        raise SchemaError(
            f"its argument {wrong[0][:100]!r} has a name that APIs refuse: use up to 64 of a-z A-Z 0-9 _ . -"
        )
    return given if merged == given else merged


# --- the top ---------------------------------------------------------------------------------------------------------


def _merged(schema: JsonObject, root: JsonObject, depth: int) -> JsonObject:
    """Return ``schema`` as that of an object with properties; raise ``SchemaError`` if it is another type's."""
    if depth > _MAX_DEPTH:
        raise SchemaError("its choices refer to each other without end")
    if isinstance(reference := schema.get("$ref"), str):
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _merged({**_target(reference, root), **rest}, root, depth + 1)
    _check_is_object(schema)
    merged: JsonObject = {key: value for key, value in schema.items() if key not in _FORBIDDEN_AT_THE_TOP}
    properties: JsonObject = dict(cast("JsonObject", schema.get("properties", {})))
    required = dict.fromkeys(cast("list[str]", schema.get("required", [])))
    for key in _COMBINERS:
        if key in schema:
            branches = [_merged(part, root, depth + 1) for part in schema[key] if _may_be_object(part)]
            if not branches:
                raise SchemaError(f"none of the choices of its `{key}` is an object")
            _merge_branches(branches, merged, properties)
            required |= dict.fromkeys(_needed(branches, by_all=key != "allOf"))
    merged.pop("required", None)
    if required:
        merged["required"] = [*required]
        for name in required:
            properties.setdefault(name, {})
    return {**({} if "type" in merged else {"type": "object"}), **merged, "type": "object", "properties": properties}


def _merge_branches(branches: list[JsonObject], merged: JsonObject, properties: JsonObject) -> None:
    for branch in branches:
        for name, value in cast("JsonObject", branch["properties"]).items():
            properties[name] = value if name not in properties else _either(properties[name], value)
        for definitions in ("$defs", "definitions"):
            if definitions in branch:
                merged[definitions] = {**branch[definitions], **merged.get(definitions, {})}


def _needed(branches: list[JsonObject], *, by_all: bool) -> list[str]:
    """Return the names that every branch requires, or any of them."""
    lists = [cast("list[str]", branch.get("required", [])) for branch in branches]
    names = dict.fromkeys(name for names in lists for name in names)
    return [name for name in names if not by_all or all(name in needed for needed in lists)]


def _either(one: object, other: object) -> object:
    return one if one == other else {"anyOf": [one, other]}


def _check_is_object(schema: JsonObject) -> None:
    kind: object = schema.get("type", "object")
    kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
    if "object" not in kinds:
        raise SchemaError(f'its parameters are of type {kind!r}; arguments are an object: {{"type": "object", …}}')


def _may_be_object(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    kind: object = cast("JsonObject", part).get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _target(reference: str, root: JsonObject) -> JsonObject:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        found = cast("JsonObject", found).get(name) if isinstance(found, dict) else None
    if reference.startswith("#/") and isinstance(found, dict):
        return cast("JsonObject", found)
    raise SchemaError(f"it refers to {reference[:100]}, which is not in it")


# --- all of it -------------------------------------------------------------------------------------------------------


def _checked(schema: object, where: str, depth: int) -> object:
    """Rewrite the schema in draft 2020-12, against which APIs check; raise ``SchemaError``."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        raise SchemaError(f"`{where}` is no JSON schema, but {_brief(schema)}")
    if depth > _MAX_DEPTH:
        raise SchemaError(f"`{where}` is nested more than {_MAX_DEPTH} levels deep")
    given = cast("JsonObject", schema)
    _check_kind(given, where)
    checked: JsonObject = {}
    for key, value in given.items():
        if (value is None and key not in ("const", "default")) or (key == "enum" and value == []):
            continue  # sent by servers that leave nothing out
        if key == "items" and isinstance(value, list):  # until draft 2019-09
            checked["prefixItems"] = _each(cast("list[object]", value), f"{where}.{key}", depth)
        elif key in _BOUNDS:
            checked |= _bound(key, given, where)
        else:
            checked[key] = _checked_keyword(key, value, f"{where}.{key}", depth)
    return checked


def _checked_keyword(key: str, value: object, place: str, depth: int) -> object:
    if key in _MAPS:
        return {name: _checked(part, f"{place}.{name}", depth + 1) for name, part in _mapping(value, place).items()}
    if key in _LISTS:
        if not isinstance(value, list) or not value:
            raise SchemaError(f"`{place}` must be a list of schemas")
        return _each(cast("list[object]", value), place, depth)
    return _checked(value, place, depth + 1) if key in _SCHEMAS else _checked_value(key, value, place)


def _bound(key: str, schema: JsonObject, where: str) -> JsonObject:
    """Return a limit of a number. Until draft 4 ``exclusiveMinimum`` was a flag beside ``minimum``."""
    other = _BOUNDS[key]
    if isinstance(schema[key], bool):
        return {key: _checked_value(key, schema[other], where)} if schema[key] and other in schema else {}
    if schema.get(other) is True:
        return {}
    return {key: _checked_value(key, schema[key], f"{where}.{key}")}


def _each(parts: list[object], where: str, depth: int) -> list[object]:
    return [_checked(part, f"{where}.{number}", depth + 1) for number, part in enumerate(parts)]


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise SchemaError(f"`{where}` must be an object of schemas, not {_brief(value)}")
    return cast("Mapping[str, object]", value)


def _check_kind(schema: JsonObject, where: str) -> None:
    kind: object = schema.get("type")
    if "type" not in schema:
        return
    kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
    if not kinds or any(each not in _TYPES for each in kinds):
        raise SchemaError(f"`{where}.type` is {_brief(schema['type'])}; types are {', '.join(_TYPES)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_VALUES: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (_TEXTS, lambda value: isinstance(value, str), "text"),
    (_COUNTS, lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a whole number"),
    (_NUMBERS, _is_number, "a number"),
    (("multipleOf",), lambda value: _is_number(value) and value > 0, "a number above 0"),
    (("enum",), lambda value: isinstance(value, list), "a list"),
)


def _checked_value(key: str, value: object, where: str) -> object:
    if key == "required":
        if isinstance(value, bool):  # until draft 3: of the property, not of the object
            return []
        if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[object]", value)):
            raise SchemaError(f"`{where}` must be a list of names, not {_brief(cast('object', value))}")
        return list(dict.fromkeys(cast("list[str]", value)))
    for keys, fits, wanted in _VALUES:
        if key in keys and not fits(value):
            raise SchemaError(f"`{where}` must be {wanted}, not {_brief(value)}")
    return value


def _brief(value: object) -> str:
    return textcut.fit(repr(value), 60, "...")
