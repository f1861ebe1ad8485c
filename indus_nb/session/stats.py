"""What a session amounts to: messages, tool calls, tokens and cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from pydantic import Field, ValidationError

from indus_nb.messages import Usage
from indus_nb.storage.entries import Entry
from indus_nb.storage.text import stored_message
from indus_nb.wire import JsonObject, WireModel


class TokenCounts(WireModel):
    """Tokens by kind."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0


class SessionStats(WireModel):
    """Counts of a whole session, all branches and what was compacted included.

    ``cost`` is in US dollars.
    """

    user_messages: int = 0
    assistant_messages: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    total_messages: int = 0
    tokens: TokenCounts = Field(default_factory=TokenCounts)
    cost: float = 0


def session_stats(entries: Iterable[Entry]) -> SessionStats:
    """Count ``entries``; summaries count with what they cost."""
    roles: dict[str, int] = {}
    tool_calls = 0
    usage = Usage()
    for entry in entries:
        message = stored_message(entry)
        if entry.type == "message":
            role = str(message.get("role"))
            roles[role] = roles.get(role, 0) + 1
            content: object = message.get("content")
            if role == "assistant" and isinstance(content, list):
                tool_calls += sum(map(_is_tool_call, cast("list[object]", content)))
        paid: object = message.get("usage") or entry.data.get("usage")
        if paid:
            try:
                usage = usage + Usage.model_validate(paid)
            except ValidationError:
                continue  # of a shape unknown here
    return SessionStats(
        user_messages=roles.get("user", 0),
        assistant_messages=roles.get("assistant", 0),
        tool_calls=tool_calls,
        tool_results=roles.get("toolResult", 0),
        total_messages=sum(roles.values()),
        tokens=TokenCounts(
            input=usage.input,
            output=usage.output,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            total=usage.input + usage.output + usage.cache_read + usage.cache_write,
        ),
        cost=usage.cost.total,
    )


def _is_tool_call(block: object) -> bool:
    return isinstance(block, dict) and cast("JsonObject", block).get("type") == "toolCall"
