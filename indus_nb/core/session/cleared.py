"""Results of tools that were cleared: which these are, by the session's entries, and what the model reads instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias, cast

from indus_nb.base.messages import Message, TextContent, ToolResultMessage, text_of
from indus_nb.base.textcut import counted


class HowCleared(NamedTuple):
    """What is known of a result that was cleared.

    ``counted_at`` is the time stamp of the latest answer with counted tokens then, 0 if there was none.
    """

    counted_at: int


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
        how = HowCleared(counted_at if isinstance(counted_at, int) else 0)
        for row in cast("list[object]", listed) if isinstance(listed, list) else []:
            match row:
                case [str(call_id), int(timestamp)]:
                    found.setdefault((call_id, timestamp), how)
                case _:
                    pass
    return found


def since(cleared: Results, counted_at: int) -> Results:
    """Return those that were cleared when this was the time stamp of the latest answer with counted tokens."""
    return {result: how for result, how in cleared.items() if how.counted_at == counted_at}


def sent(message: Message, cleared: Results) -> Message:
    """Return a message as a model is sent it."""
    if not isinstance(message, ToolResultMessage) or key(message) not in cleared:
        return message
    text, pictures = text_of(message.content), sum(block.type == "image" for block in message.content)
    lines = [counted(len(text.splitlines()), "line")] if text else []
    held = " and ".join([*lines, *([counted(pictures, "image")] if pictures else [])])
    details: object = message.details
    path = cast("dict[str, object]", details).get("fullOutputPath") if isinstance(details, dict) else None
    again = f"read {path}, or make the call again" if path else "make the call again"
    note = f"[This result of {message.tool_name} ({held}) was cleared to save tokens. To see it again, {again}.]"
    return message.replace(content=[TextContent(text=note)], shortened=None)
