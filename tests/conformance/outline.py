"""A conversation over the protocol, reduced to what hosts rely on: the order of events, and keys with their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Shapes = dict[str, set[str]]
FREE_FORM = {"args", "arguments", "details"}
"""Keys whose value is up to the tool."""


def kind(frame: dict[str, Any]) -> str:
    """What sort of frame it is, as a reader would tell it apart."""
    name = frame["type"]
    if name == "message_update":
        return f"update {frame['assistantMessageEvent']['type']}"
    if name in ("message_start", "message_end"):
        return f"{name} {frame['message']['role']}"
    if name == "response":
        return f"response {frame.get('command')} {'success' if frame['success'] else 'failure'}"
    return name


def order(frames: Iterable[dict[str, Any]]) -> list[str]:
    """The kinds of the events in their order; of updates that follow each other only the first of a kind counts."""
    kinds: list[str] = []
    for frame in frames:
        if frame["type"] != "response" and not (
            kinds and kinds[-1] == kind(frame) and frame["type"].endswith("update")
        ):
            kinds.append(kind(frame))
    return kinds


def responses(frames: Iterable[dict[str, Any]]) -> dict[str, str]:
    """What each command with an id was answered."""
    return {str(frame["id"]): kind(frame) for frame in frames if frame["type"] == "response" and "id" in frame}


def shapes(frames: Iterable[dict[str, Any]]) -> Shapes:
    """For each kind of frame the paths in it, with the types found there."""
    found: Shapes = {}
    for frame in frames:
        found.setdefault(kind(frame), set()).update(_paths(frame, ""))
    return found


def entry_kinds(entries: Iterable[dict[str, Any]]) -> list[str]:
    """The entries of a session file in their order."""
    return [f"{entry['type']} {entry.get('message', {}).get('role', '')}".strip() for entry in entries]


def _paths(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield f"{path}:object"
        for key, inner in value.items():
            if key == "partial":
                yield f"{path}.partial:message"
            elif key in FREE_FORM:
                yield f"{path}.{key}"
            else:
                yield from _paths(inner, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}:list"
        for item in value:
            name = (item.get("role") or item.get("type", "")) if isinstance(item, dict) else ""
            yield from _paths(item, f"{path}[{name}]")
    else:
        names = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}
        yield f"{path}:{'number' if value == '<ms>' else names[type(value)]}"
