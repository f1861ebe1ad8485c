"""docs/commands.md is made from the commands and events as they are declared.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/test_reference.py`` writes it anew.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import get_args

from indus_nb.base import events
from indus_nb.front.verbs import VERBS
from indus_nb.tools.argument_schemas import schema_of

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# Commands of RPC mode

One JSON object a line on standard input. Every command may have an `id` (a string or an integer), which comes back in
its response `{"id": …, "type": "response", "command": …, "success": true, "data": …}`. A failure has
`"success": false` and an `error` with the reason; nothing has happened then. Fields that are not listed are
ignored.
"""

EVENTS = """
## Events

What happens, as lines without an answer; the life of a prompt is drawn in `indus_nb/base/events.py`. Absent values are
left out. `--wire strict` has only those that the protocol's first documents name, and none of `session_replaced`,
`branch_moved` and `entry_added`; `--wire pi` has those of pi 0.73 ([clients.md](clients.md)). In the shapes `snapshot`,
`omp` and `strict` a compaction that begins by itself is `auto_compaction_start` and `auto_compaction_end`.

| event | when | fields |
|---|---|---|
"""


def reference() -> str:
    parts = [HEAD]
    for verb in dict.fromkeys(VERBS.values()):
        names = " or ".join(f"`{name}`" for name in verb.names)
        parts.append(f"\n## {names}\n\n{inspect.getdoc(verb)}\n")
        schema = schema_of(verb)
        fields = [
            f"| `{name}` | {kind(field)} | {'yes' if name in schema.get('required', ()) else 'no'} |"
            for name, field in schema["properties"].items()
        ]
        if fields:
            parts.append("\n".join(["\n| field | type | required |", "|---|---|---|", *fields, ""]))
    return "".join([*parts, EVENTS, *map(event_row, get_args(events.SessionEvent))])


def event_row(event: type[events.AgentStart]) -> str:
    shown = (each.key for each in event.wire_fields.values() if not each.is_hidden)
    fields = ", ".join(f"`{name}`" for name in shown if name != "type")
    when = " ".join((inspect.getdoc(event) or "").split("\n\n")[0].split()).replace("``", "`")
    return f"| `{event.type}` | {when} | {fields} |\n"


def kind(field: dict) -> str:
    if "anyOf" in field:
        return " or ".join(kind(choice) for choice in field["anyOf"] if choice.get("type") != "null")
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "$ref" in field:
        return field["$ref"].rsplit("/", 1)[1]
    if field.get("type") == "array":
        return f"list of {kind(field['items'])}"
    return field.get("type", "object")


def test_the_reference_of_commands_is_up_to_date() -> None:
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        PAGE.write_text(reference(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == reference(), __doc__
