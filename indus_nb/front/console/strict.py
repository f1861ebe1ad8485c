"""Dialect of ``--wire strict``: each field that the protocol's first documents name, and nothing else.

The documents differ; what one of them names counts. Where they name a thing and leave its fields open (the details of a
tool, the messages of extensions, the dialogs), all of its fields count.
"""

from __future__ import annotations

from collections.abc import Mapping

from indus_nb.base.wire import JsonObject
from indus_nb.front.console.shapes import ByType, Dialect, Rest, Shape, fields, run_events, updates

_COST = fields("input output cacheRead cacheWrite")
_USAGE = fields("input output cacheRead cacheWrite", cost=fields("input output cacheRead cacheWrite total"))
MODEL = fields("id name api provider baseUrl reasoning input contextWindow maxTokens", cost=_COST)
BLOCK = ByType(
    "type",
    {
        "text": fields("type text"),
        "thinking": fields("type thinking"),
        "toolCall": fields("type id name arguments"),
        "image": fields("type", source=fields("type mediaType data url")),
    },
)
MESSAGE = ByType(
    "role",
    {
        "user": fields("role timestamp attachments", content=[BLOCK]),
        "assistant": fields("role api provider model stopReason timestamp", content=[BLOCK], usage=_USAGE),
        "toolResult": fields("role toolCallId toolName isError timestamp", content=[BLOCK]),
        "bashExecution": fields("role command output exitCode cancelled truncated fullOutputPath timestamp"),
    },
)
_COMPACTION = fields("summary firstKeptEntryId tokensBefore details")
_OUTPUT = fields(
    "",
    content=[BLOCK],
    details=Rest({"truncation": fields("truncated totalLines totalBytes outputLines outputBytes")}),
)
UPDATE = ByType(
    "type",
    {
        "start": fields("type partial"),
        **updates(BLOCK),
        "done": fields("type reason"),
        "error": fields("type reason"),
    },
)
EVENTS: Mapping[str, Shape] = {
    "session": fields("type version id timestamp cwd"),
    **run_events(MESSAGE, UPDATE, _OUTPUT),
    "auto_compaction_start": fields("type reason"),
    "auto_compaction_end": fields("type aborted willRetry errorMessage", result=_COMPACTION),
    "auto_retry_end": fields("type success attempt finalError"),
    "extension_error": fields("type extensionPath event error"),
    "ttsr_triggered": None,
    "todo_reminder": None,
}
"""The events by name; others are not sent."""

_QUESTIONS = fields("", messages=[fields("entryId text")])
_FORKED = fields("text cancelled")
_CANCELLED = fields("cancelled")
DATA: Mapping[str, Shape] = {
    "get_state": fields(
        "thinkingLevel isStreaming isCompacting steeringMode followUpMode interruptMode sessionFile sessionId "
        "sessionName autoCompactionEnabled messageCount pendingMessageCount queuedMessageCount",
        model=MODEL,
    ),
    "get_messages": fields("", messages=[MESSAGE]),
    "set_model": MODEL,
    "cycle_model": fields("thinkingLevel isScoped", model=MODEL),
    "get_available_models": fields("", models=[MODEL]),
    "cycle_thinking_level": fields("level"),
    "compact": _COMPACTION,
    "bash": fields(
        "output exitCode cancelled truncated totalLines totalBytes outputLines outputBytes fullOutputPath artifactId"
    ),
    "get_session_stats": fields(
        "sessionFile sessionId userMessages assistantMessages toolCalls toolResults totalMessages cost",
        tokens=fields("input output cacheRead cacheWrite total"),
    ),
    "export_html": fields("path"),
    "new_session": _CANCELLED,
    "switch_session": _CANCELLED,
    "fork": _FORKED,
    "branch": _FORKED,
    "get_fork_messages": _QUESTIONS,
    "get_branch_messages": _QUESTIONS,
    "get_last_assistant_text": fields("text"),
}
"""The data of responses, by command. A client that sends a command that is not listed knows its response."""


def _as_first_written(value: JsonObject) -> JsonObject:
    """Return an image in the form that the documents give it."""
    if value.get("type") != "image" or "mimeType" not in value or "data" not in value:
        return value
    source = {"type": "base64", "mediaType": value["mimeType"], "data": value["data"]}
    return {"type": "image", "source": source}


STRICT = Dialect(EVENTS, DATA, MESSAGE, BLOCK, UPDATE, written=_as_first_written)
