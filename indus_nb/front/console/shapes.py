"""Parts of JSON values: which fields of events and answers a dialect of the protocol has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from indus_nb.base.wire import JsonObject, dump, load_object


@dataclass(frozen=True, slots=True)
class ByType:
    """Objects whose ``key`` names their type; one that the table does not list is kept as it is."""

    key: str
    shapes: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Rest:
    """An object of which only these fields are known; what else it holds is free."""

    shapes: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Given:
    """An object with these fields, where they are not null."""

    shapes: Mapping[str, Shape]


Shape: TypeAlias = Mapping[str, "Shape"] | Sequence["Shape"] | ByType | Rest | Given | None
"""The fields of an object; the one shape of a list's items; ``None`` for a value that is kept as it is."""


def fields(names: str, **shapes: Shape) -> dict[str, Shape]:
    """Make the shape of an object.

    Args:
        names: The fields that are kept as they are, with blanks between them.
    """
    return {**dict.fromkeys(names.split()), **shapes}


def updates(block: Shape) -> dict[str, Shape]:
    """Make the shapes of the parts of a ``message_update`` about a block, which all dialects share."""
    at = "type contentIndex partial"
    each = {"start": at, "delta": f"{at} delta", "end": f"{at} content"}
    kinds = ("text", "thinking", "toolcall")
    found: dict[str, Shape] = {f"{kind}_{what}": fields(each[what]) for kind in kinds for what in each}
    return {**found, "toolcall_end": fields(at, toolCall=block)}


def run_events(message: Shape, update: Shape, output: Shape) -> dict[str, Shape]:
    """Make the shapes of the events of a run, which all dialects share."""
    call = "type toolCallId toolName"
    return {
        "agent_start": fields("type"),
        "agent_end": fields("type", messages=[message]),
        "turn_start": fields("type"),
        "turn_end": fields("type", message=message, toolResults=[message]),
        "message_start": fields("type", message=message),
        "message_update": fields("type", message=message, assistantMessageEvent=update),
        "message_end": fields("type", message=message),
        "tool_execution_start": fields(f"{call} args"),
        "tool_execution_update": fields(f"{call} args", partialResult=output),
        "tool_execution_end": fields(f"{call} isError", result=output),
        "auto_retry_start": fields("type attempt maxAttempts delayMs errorMessage"),
    }


def kept(value: Any, shape: Shape, written: Callable[[JsonObject], JsonObject] = lambda value: value) -> Any:
    """Return a JSON value with the fields of a shape alone.

    Args:
        value: A value of JSON.
        shape: The fields to keep; ``None`` keeps all.
        written: Applied to each object before.

    Returns:
        A copy without the other fields.
    """
    if shape is None:
        return value
    if isinstance(value, list) and isinstance(shape, Sequence):
        return [kept(item, shape[0], written) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return _kept_fields(written(cast("JsonObject", value)), shape, written)
    return cast("Any", value)


def _kept_fields(fields: JsonObject, shape: Shape, written: Callable[[JsonObject], JsonObject]) -> Any:
    match shape:
        case ByType():
            return kept(fields, shape.shapes.get(str(fields.get(shape.key))), written)
        case Rest():
            return {name: kept(inner, shape.shapes.get(name), written) for name, inner in fields.items()}
        case Given():
            present = {name: inner for name, inner in fields.items() if inner is not None}
            return _kept_fields(present, shape.shapes, written)
        case Mapping():
            return {name: kept(inner, shape[name], written) for name, inner in fields.items() if name in shape}
        case _:
            return fields


@dataclass(frozen=True, slots=True)
class Dialect:
    """Dialect of the protocol for a client that fails at events or fields that it does not know.

    Attributes:
        events: The events by name; others are not sent.
        answers: The data of responses, by command. One that is not listed is answered as always.
        update: The shapes of a ``message_update``, by type; other types are not sent.
        newer_compaction: Whether compactions have the names without ``auto_``.
        written: Applied to each object before.
    """

    events: Mapping[str, Shape]
    answers: Mapping[str, Shape]
    message: ByType
    block: ByType
    update: ByType
    newer_compaction: bool = False
    written: Callable[[JsonObject], JsonObject] = lambda value: value

    def kept(self, value: Any, shape: Shape) -> Any:
        """Return the part of a JSON value that has a shape.

        Args:
            value: A value of JSON.
            shape: The fields to keep; ``None`` keeps all.

        Returns:
            A copy without the other fields.
        """
        return kept(value, shape, self.written)

    def json(self, value: object, shape: Shape) -> bytes:
        """Encode the part of a value that has a shape.

        Args:
            value: Anything that ``wire.dump`` encodes.
            shape: The fields to keep; ``None`` keeps all.

        Returns:
            The JSON, on one line.
        """
        encoded = dump(value)
        return encoded if shape is None else dump(self.kept(load_object(b'{"value":%b}' % encoded)["value"], shape))

    def line(self, line: bytes) -> bytes | None:
        """Return the known part of an encoded event or header; ``None`` for an event that is not listed."""
        frame = load_object(line)
        name = str(frame.get("type"))
        return dump(self.kept(frame, self.events[name])) if name in self.events else None
