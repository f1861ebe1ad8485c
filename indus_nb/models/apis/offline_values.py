"""Values that fit a JSON schema, made of the numbers and lines in a text, for the demonstration's answers.

No model thinks about them. What the text does not give is the least that the schema allows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from indus_nb.base.wire import JsonObject

_MAX_DEPTH = 8
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]\d)")
_TOOL = re.compile(r"calling the tool (?P<tool>[\w-]+):")
_SCHEMA, _END = "<answer-schema>", "</answer-schema>\n</system-reminder>"
_TIMES = {
    "date-time": "2000-01-01T00:00:00",
    "date": "2000-01-01",
    "time": "00:00:00",
    "duration": "PT0S",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


class AnswerWanted(NamedTuple):
    """A value that a message asks for: the schema of it, and the tool to call."""

    tool: str
    schema: JsonObject


def wanted_in(text: str) -> AnswerWanted | None:
    """Return the value that a text asks for."""
    if not text.endswith(_END):
        return None
    before, _, written = text.removesuffix(_END).rpartition(_SCHEMA)
    if (found := _TOOL.search(before)) is None:
        return None
    try:
        schema: object = json.loads(written)
    except (ValueError, RecursionError):
        return None
    return AnswerWanted(found["tool"], cast("JsonObject", schema)) if isinstance(schema, dict) else None


def value_for(schema: JsonObject, text: str) -> Any:
    """Make a value that fits a schema, as far as its types go.

    >>> value_for({"properties": {"answer": {"type": "integer"}}, "required": ["answer"]}, "6 * 7 is 42")
    {'answer': 6}
    >>> value_for({"type": "array", "items": {"type": "number"}}, "1.5 and 2")
    [1.5, 2.0]
    >>> value_for({"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": True}, "7 and 7")
    [0, 1]

    Args:
        text: Where numbers and lines are taken from, in order.
    """
    return _Values(schema, text).value(schema, 0)


class _Values:
    def __init__(self, root: JsonObject, text: str) -> None:
        self._root = root
        self._numbers = [float(number) for number in _NUMBER.findall(text) if math.isfinite(float(number))]
        self._lines = [line.strip() for line in text.splitlines() if line.strip()]

    def value(self, schema: Any, depth: int) -> Any:
        fields: JsonObject = cast("JsonObject", schema) if isinstance(schema, dict) else {}
        if "const" in fields or fields.get("enum"):
            return fields["const"] if "const" in fields else fields["enum"][0]
        if choices := fields.get("anyOf") or fields.get("oneOf"):
            return self.value(_first(choices, least=depth >= _MAX_DEPTH // 2), depth + 1)
        if "$ref" in fields or "allOf" in fields:
            inner = self._target(fields["$ref"]) if "$ref" in fields else fields["allOf"][0]
            return self.value(inner, depth + 1) if depth < _MAX_DEPTH else None
        kind = fields.get("type", "object" if "properties" in fields else "string")
        made: Mapping[str, Callable[[], Any]] = {
            "object": lambda: self._object(fields, depth),
            "array": lambda: self._list(fields, depth),
            "integer": lambda: int(self._number(fields)),
            "number": lambda: self._number(fields),
            "boolean": lambda: True,
            "null": lambda: None,
        }
        return made.get(kind if isinstance(kind, str) else "", lambda: self._text(fields))()

    def _object(self, fields: JsonObject, depth: int) -> JsonObject:
        properties: JsonObject = fields.get("properties", {})
        return {name: self.value(properties.get(name), depth + 1) for name in fields.get("required", [])}

    def _target(self, reference: str) -> Any:
        found: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            found = cast("JsonObject", found).get(step, {}) if isinstance(found, dict) else {}
        return found

    def _list(self, fields: JsonObject, depth: int) -> list[Any]:
        if isinstance(parts := fields.get("prefixItems"), list):
            return [self.value(part, depth + 1) for part in cast("list[Any]", parts)]
        items: Any = fields.get("items", {})
        kind: Any = cast("JsonObject", items).get("type") if isinstance(items, dict) else None
        found = {"integer": len(self._numbers), "number": len(self._numbers), "string": len(self._lines)}
        count = found.get(str(kind), 1)
        least, most = fields.get("minItems", 0), fields.get("maxItems", 100)
        if kind == "integer" and fields.get("uniqueItems"):
            first = int(cast("JsonObject", items).get("minimum", 0))
            return [*range(first, first + least)]  # of an order, and numbers of the text may be none of it
        if depth >= _MAX_DEPTH // 2:
            count = 0
        return [self.value(items, depth + 1) for _ in range(min(max(count, least), most))]

    def _number(self, fields: JsonObject) -> float:
        least = fields.get("minimum", fields.get("exclusiveMinimum", -1) + 1)
        return self._numbers.pop(0) if self._numbers else float(max(0, least))

    def _text(self, fields: JsonObject) -> str:
        about = f"{fields.get('format', '')} {fields.get('description', '')}"
        if "decimal number" in about:
            return f"{self._number(fields):g}"
        for name, value in _TIMES.items():
            if re.search(rf"(?:^|format: ){name}\b", about):
                return value
        return self._lines.pop(0) if len(self._lines) > 1 else (self._lines or [""])[0]


def _first(choices: list[JsonObject], *, least: bool) -> JsonObject:
    """Return the first choice that is not null; with ``least`` null where that is allowed."""
    null = [each for each in choices if each.get("type") == "null"]
    others = [each for each in choices if each.get("type") != "null"]
    return [*null, *others][0] if least else [*others, *null][0]
