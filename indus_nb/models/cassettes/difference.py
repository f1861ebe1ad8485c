"""Difference between a request and the recorded one, short enough for an error message."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping

from indus_nb.base.wire import JsonObject
from indus_nb.models.cassettes.file import fold_lines, map_texts
from indus_nb.models.cassettes.normal_form import common_prefix_length

_MAX_LINES = 80  # of a difference
_MAX_PART_LINES = 200  # lines of one part that are looked at behind their common beginning
_MAX_LINE_CHARACTERS = 120


def difference(expected: JsonObject, asked: JsonObject) -> str:
    """Return a unified diff of two normal forms, part by part.

    Its length and the time for it are bounded.

    Returns:
        The lines of the diff, the two lines of its head first.
    """
    recorded, wanted = _parts(expected), _parts(asked)
    lines = ["--- recorded", "+++ asked now"]
    for name in dict.fromkeys((*recorded, *wanted)):
        if recorded.get(name) != wanted.get(name):
            lines += _part_difference(name, _lines(recorded.get(name)), _lines(wanted.get(name)))
        if len(lines) > _MAX_LINES:
            return "\n".join([*lines[:_MAX_LINES], "… (the rest of the difference is left out)"])
    return "\n".join(lines)


def _parts(request: JsonObject) -> Mapping[str, object]:
    tools = {f"tool {name}": schema for name, schema in request["tools"].items()}
    messages = {f"message {number}": message for number, message in enumerate(request["messages"], 1)}
    return {"model": request["model"], "system": {"system": request["system"]}, **tools, **messages}


def _lines(value: object) -> list[str]:
    if value is None:
        return []
    text = json.dumps(map_texts(value, fold_lines), ensure_ascii=False, indent=1)
    return [
        line[start : start + _MAX_LINE_CHARACTERS]
        for line in text.split("\n")
        for start in range(0, len(line), _MAX_LINE_CHARACTERS)
    ]


def _part_difference(name: str, recorded: list[str], asked: list[str]) -> list[str]:
    same = common_prefix_length(recorded, asked)
    window = slice(max(0, same - 2), same + _MAX_PART_LINES)
    found = list(difflib.unified_diff(recorded[window], asked[window], n=2, lineterm=""))[2:]
    numbered = [line if line[:1] in ("+", "-", " ") else "@@" for line in found]
    return [f"@@ {name} @@", *numbered[1:]]
