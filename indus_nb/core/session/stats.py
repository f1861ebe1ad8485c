"""Statistics of a session: messages, tool calls, tokens and cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from indus_nb.base.messages import Usage
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.core.storage.entries import Entry


class TokenCounts(WireModel):
    """Tokens by kind."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0


class SessionStats(WireModel):
    """Counts of a whole session, all branches and what was compacted included.

    ``cost`` is in US dollars; ``cost_unknown`` is true if it lacks requests whose price is unknown, and
    ``cost_unconfirmed`` is what requests that broke off may have cost besides, and ``cost_before`` what requests had
    cost that were not sent again: their answers were recorded or kept, and their tokens do not count.
    """

    user_messages: int = 0
    assistant_messages: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    total_messages: int = 0
    tokens: TokenCounts = wire_field(default_factory=TokenCounts)
    cost: float = 0.0
    cost_unknown: bool | None = None
    cost_unconfirmed: float | None = None
    cost_before: float | None = None


class Tally:
    """Running totals over the entries of one session. Each is counted once, however often it is asked."""

    def __init__(self) -> None:
        self._counted = 0
        self._roles: dict[str, int] = {}
        self._tool_calls = 0
        self._usage = Usage()

    def stats(self, entries: Sequence[Entry]) -> SessionStats:
        """Return the counts of all entries, to which some may have been appended since the last time.

        Summaries count with what they cost.
        """
        for entry in entries[self._counted :]:
            self._count(entry)
        self._counted = len(entries)
        usage = self._usage
        return SessionStats(
            user_messages=self._roles.get("user", 0),
            assistant_messages=self._roles.get("assistant", 0),
            tool_calls=self._tool_calls,
            tool_results=self._roles.get("toolResult", 0),
            total_messages=sum(self._roles.values()),
            tokens=TokenCounts(
                input=usage.input,
                output=usage.output,
                cache_read=usage.cache_read,
                cache_write=usage.cache_write,
                total=usage.input + usage.output + usage.cache_read + usage.cache_write,
            ),
            cost=usage.cost.total,
            cost_unknown=usage.cost.unknown,
            cost_unconfirmed=usage.cost.unconfirmed,
            cost_before=usage.cost.before,
        )

    def _count(self, entry: Entry) -> None:
        data = entry.data
        raw: object = data.get("message") if entry.type == "message" else None
        message = cast("JsonObject", raw) if isinstance(raw, dict) else {}
        if entry.type == "message":
            role = str(message.get("role"))
            self._roles[role] = self._roles.get(role, 0) + 1
            content: object = message.get("content")
            if role == "assistant" and isinstance(content, list):
                self._tool_calls += sum(map(_is_tool_call, cast("list[object]", content)))
        if (usage := usage_of(entry)) is not None:
            self._usage += usage


def session_stats(entries: Sequence[Entry]) -> SessionStats:
    """Count ``entries`` once; ``AgentSession.stats`` does so for a session that grows."""
    return Tally().stats(entries)


def usage_of(entry: Entry) -> Usage | None:
    """Return the usage in an entry; ``None`` if it has none that can be read.

    Answers, summaries and reports of sub-agents have one.
    """
    raw: object = entry.data.get("message") if entry.type == "message" else entry.data
    paid = cast("JsonObject", raw).get("usage") or entry.data.get("usage") if isinstance(raw, dict) else None
    try:
        return Usage.from_wire(paid) if paid else None
    except ValueError:  # of a shape unknown here
        return None


def _is_tool_call(block: object) -> bool:
    return isinstance(block, dict) and cast("JsonObject", block).get("type") == "toolCall"
