"""What ``--wire strict`` may hold: each field that the protocol's first documents name, and nothing else.

The documents differ; what one of them names counts. Where they name a thing and leave its fields open (the details of a
tool, the messages of extensions, the dialogs), all of its fields count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from indus_nb.wire import JsonObject, dump, load_object


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Objects whose ``key`` names their type; one that the table does not list is kept as it is."""

    key: str
    shapes: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class _Rest:
    """An object of which only these fields are known; what else it holds is free."""

    shapes: Mapping[str, Shape]


Shape: TypeAlias = Mapping[str, "Shape"] | Sequence["Shape"] | _Kinds | _Rest | None
"""The fields of an object; the one shape of a list's items; ``None`` for a value that is kept as it is."""


def _fields(names: str, **shapes: Shape) -> dict[str, Shape]:
    return {**dict.fromkeys(names.split()), **shapes}


_COST = _fields("input output cacheRead cacheWrite")
_USAGE = _fields("input output cacheRead cacheWrite", cost=_fields("input output cacheRead cacheWrite total"))
MODEL = _fields("id name api provider baseUrl reasoning input contextWindow maxTokens", cost=_COST)
BLOCK = _Kinds(
    "type",
    {
        "text": _fields("type text"),
        "thinking": _fields("type thinking"),
        "toolCall": _fields("type id name arguments"),
        "image": _fields("type", source=_fields("type mediaType data url")),
    },
)
MESSAGE = _Kinds(
    "role",
    {
        "user": _fields("role timestamp attachments", content=[BLOCK]),
        "assistant": _fields("role api provider model stopReason timestamp", content=[BLOCK], usage=_USAGE),
        "toolResult": _fields("role toolCallId toolName isError timestamp", content=[BLOCK]),
        "bashExecution": _fields("role command output exitCode cancelled truncated fullOutputPath timestamp"),
    },
)
_COMPACTION = _fields("summary firstKeptEntryId tokensBefore details")
_OUTPUT = _fields(
    "",
    content=[BLOCK],
    details=_Rest({"truncation": _fields("truncated totalLines totalBytes outputLines outputBytes")}),
)
_TOOL = "type toolCallId toolName args"
_BLOCK_EVENT = "type contentIndex partial"
UPDATE = _Kinds(
    "type",
    {
        "start": _fields("type partial"),
        "text_start": _fields(_BLOCK_EVENT),
        "text_delta": _fields(f"{_BLOCK_EVENT} delta"),
        "text_end": _fields(f"{_BLOCK_EVENT} content"),
        "thinking_start": _fields(_BLOCK_EVENT),
        "thinking_delta": _fields(f"{_BLOCK_EVENT} delta"),
        "thinking_end": _fields(f"{_BLOCK_EVENT} content"),
        "toolcall_start": _fields(_BLOCK_EVENT),
        "toolcall_delta": _fields(f"{_BLOCK_EVENT} delta"),
        "toolcall_end": _fields(_BLOCK_EVENT, toolCall=BLOCK),
        "done": _fields("type reason"),
        "error": _fields("type reason"),
    },
)
EVENTS: Mapping[str, Shape] = {
    "session": _fields("type version id timestamp cwd"),
    "agent_start": _fields("type"),
    "agent_end": _fields("type", messages=[MESSAGE]),
    "turn_start": _fields("type"),
    "turn_end": _fields("type", message=MESSAGE, toolResults=[MESSAGE]),
    "message_start": _fields("type", message=MESSAGE),
    "message_update": _fields("type", message=MESSAGE, assistantMessageEvent=UPDATE),
    "message_end": _fields("type", message=MESSAGE),
    "tool_execution_start": _fields(_TOOL),
    "tool_execution_update": _fields(_TOOL, partialResult=_OUTPUT),
    "tool_execution_end": _fields("type toolCallId toolName isError", result=_OUTPUT),
    "auto_compaction_start": _fields("type reason"),
    "auto_compaction_end": _fields("type aborted willRetry errorMessage", result=_COMPACTION),
    "auto_retry_start": _fields("type attempt maxAttempts delayMs errorMessage"),
    "auto_retry_end": _fields("type success attempt finalError"),
    "extension_error": _fields("type extensionPath event error"),
    "ttsr_triggered": None,
    "todo_reminder": None,
}
"""The events by name; others are not sent."""

_QUESTIONS = _fields("", messages=[_fields("entryId text")])
_FORKED = _fields("text cancelled")
_CANCELLED = _fields("cancelled")
DATA: Mapping[str, Shape] = {
    "get_state": _fields(
        "thinkingLevel isStreaming isCompacting steeringMode followUpMode interruptMode sessionFile sessionId "
        "sessionName autoCompactionEnabled messageCount pendingMessageCount queuedMessageCount",
        model=MODEL,
    ),
    "get_messages": _fields("", messages=[MESSAGE]),
    "set_model": MODEL,
    "cycle_model": _fields("thinkingLevel isScoped", model=MODEL),
    "get_available_models": _fields("", models=[MODEL]),
    "cycle_thinking_level": _fields("level"),
    "compact": _COMPACTION,
    "bash": _fields(
        "output exitCode cancelled truncated totalLines totalBytes outputLines outputBytes fullOutputPath artifactId"
    ),
    "get_session_stats": _fields(
        "sessionFile sessionId userMessages assistantMessages toolCalls toolResults totalMessages cost",
        tokens=_fields("input output cacheRead cacheWrite total"),
    ),
    "export_html": _fields("path"),
    "new_session": _CANCELLED,
    "switch_session": _CANCELLED,
    "fork": _FORKED,
    "branch": _FORKED,
    "get_fork_messages": _QUESTIONS,
    "get_branch_messages": _QUESTIONS,
    "get_last_assistant_text": _fields("text"),
}
"""What commands are answered. Whoever sends a command that is not listed knows its answer."""


def kept(value: Any, shape: Shape) -> Any:
    """A JSON value with the fields of a shape alone.

    Args:
        value: Made of what JSON knows.
        shape: The fields to keep; ``None`` keeps all.

    Returns:
        A copy without the other fields.
    """
    if shape is None:
        return value
    if isinstance(value, list) and isinstance(shape, Sequence):
        return [kept(item, shape[0]) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return _kept_fields(_as_first_written(cast("JsonObject", value)), shape)
    return cast("Any", value)


def _kept_fields(fields: JsonObject, shape: Shape) -> Any:
    match shape:
        case _Kinds():
            return kept(fields, shape.shapes.get(str(fields.get(shape.key))))
        case _Rest():
            return {name: kept(inner, shape.shapes.get(name)) for name, inner in fields.items()}
        case Mapping():
            return {name: kept(inner, shape[name]) for name, inner in fields.items() if name in shape}
        case _:
            return fields


def _as_first_written(value: JsonObject) -> JsonObject:
    """An image in the form that the documents give it."""
    if value.get("type") != "image" or "mimeType" not in value or "data" not in value:
        return value
    source = {"type": "base64", "mediaType": value["mimeType"], "data": value["data"]}
    return {"type": "image", "source": source}


def strict_json(value: object, shape: Shape) -> bytes:
    """A value as JSON with the fields of a shape alone.

    Args:
        value: Anything that ``wire.dump`` encodes.
        shape: The fields to keep; ``None`` keeps all.

    Returns:
        The JSON, on one line.
    """
    encoded = dump(value)
    return encoded if shape is None else dump(kept(load_object(b'{"value":%b}' % encoded)["value"], shape))


def strict_line(line: bytes) -> bytes | None:
    """An encoded event or header with its known fields; ``None`` for an event that is not listed."""
    frame = load_object(line)
    name = str(frame.get("type"))
    return dump(kept(frame, EVENTS[name])) if name in EVENTS else None
