"""Results of tools that were cleared: which these are, by the session's entries, and what the model reads instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias, cast

from indus_nb.base.messages import Message, TextContent, ToolResultMessage, text_of
from indus_nb.base.textcut import counted


class HowCleared(NamedTuple):
    """What is known of a result that was cleared.

    ``counted_at`` is the time stamp of the latest answer with counted tokens then, 0 if there was none;
    ``is_repeatable`` whether the call changed nothing, as the tool declared then, and can be made again.
    """

    counted_at: int
    is_repeatable: bool


Results: TypeAlias = Mapping[tuple[str, int], HowCleared]
"""Results by the ids of their calls and their time stamps: some servers give an id to several calls."""


def key(message: ToolResultMessage) -> tuple[str, int]:
    """Return what a result is known by."""
    return message.tool_call_id, message.timestamp


def results_in(entries: Iterable[object]) -> Results:
    """Return the results that entries have cleared; whatever else they hold is ignored."""
    found: dict[tuple[str, int], HowCleared] = {}
    for each in entries:
        data = cast("dict[str, object]", each) if isinstance(each, dict) else {}
        listed, counted_at = data.get("results"), data.get("countedAt")
        counted_at = counted_at if isinstance(counted_at, int) else 0
        for row in cast("list[object]", listed) if isinstance(listed, list) else []:
            match row:
                case [str(call_id), int(timestamp)]:
                    found.setdefault((call_id, timestamp), HowCleared(counted_at, is_repeatable=False))
                case [str(call_id), int(timestamp), bool(is_repeatable)]:
                    found.setdefault((call_id, timestamp), HowCleared(counted_at, is_repeatable))
                case _:
                    pass
    return found


def since(cleared: Results, counted_at: int) -> Results:
    """Return those that were cleared when this was the time stamp of the latest answer with counted tokens."""
    return {result: how for result, how in cleared.items() if how.counted_at == counted_at}


def sent(message: Message, cleared: Results) -> Message:
    """Return a message as a model is sent it."""
    if not isinstance(message, ToolResultMessage) or (how := cleared.get(key(message))) is None:
        return message
    text, pictures = text_of(message.content), sum(block.type == "image" for block in message.content)
    lines = [counted(len(text.splitlines()), "line")] if text else []
    held = " and ".join([*lines, *([counted(pictures, "image")] if pictures else [])])
    details: object = message.details
    path = cast("dict[str, object]", details).get("fullOutputPath") if isinstance(details, dict) else None
    ways = [*([f"read {path}"] if path else []), *(["make the call again"] if how.is_repeatable else [])]
    again = (
        f"To see it again, {', or '.join(ways)}." if ways else "Do not repeat what changes something to see it again."
    )
    note = f"[This result of {message.tool_name} ({held}) was cleared to save tokens. {again}]"
    return message.replace(content=[TextContent(text=note)], shortened=None)
