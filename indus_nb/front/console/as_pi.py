"""Dialect of ``--wire pi``: the events and fields of pi 0.73, for clients that know no others."""

from __future__ import annotations

from collections.abc import Mapping

from indus_nb.front.console.shapes import ByType, Dialect, Given, Shape, fields, run_events, updates

_PRICES = "input output cacheRead cacheWrite"
_USAGE = fields(f"{_PRICES} totalTokens", cost=fields(f"{_PRICES} total"))
_MODEL = fields(
    "id name api provider baseUrl reasoning input contextWindow maxTokens thinkingLevelMap headers compat",
    cost=fields(_PRICES),
)
_BLOCK = ByType(
    "type",
    {
        "text": fields("type text textSignature"),
        "thinking": fields("type thinking thinkingSignature redacted"),
        "toolCall": fields("type id name arguments thoughtSignature"),
        "image": fields("type data mimeType"),
    },
)
_MESSAGE = ByType(
    "role",
    {
        "user": fields("role timestamp", content=[_BLOCK]),
        "assistant": fields(
            "role api provider model stopReason errorMessage responseId timestamp", content=[_BLOCK], usage=_USAGE
        ),
        "toolResult": fields("role toolCallId toolName details isError timestamp", content=[_BLOCK]),
        "bashExecution": Given(
            fields("role command output exitCode cancelled truncated fullOutputPath excludeFromContext timestamp")
        ),
    },
)
_OUTPUT = fields("details", content=[_BLOCK])
_COMPACTION = fields("summary firstKeptEntryId tokensBefore details")
_UPDATE = ByType("type", updates(_BLOCK))
_EVENTS: Mapping[str, Shape] = {
    "session": fields("type version id timestamp cwd parentSession"),
    **run_events(_MESSAGE, _UPDATE, _OUTPUT),
    "queue_update": fields("type steering followUp"),
    "compaction_start": fields("type reason"),
    "compaction_end": Given(fields("type reason aborted willRetry errorMessage", result=_COMPACTION)),
    "auto_retry_end": Given(fields("type success attempt finalError")),
    "session_info_changed": fields("type name"),
    "thinking_level_changed": fields("type level"),
    "extension_error": fields("type extensionPath event error"),
}
_ANSWERS: Mapping[str, Shape] = {
    "get_state": Given(
        fields(
            "thinkingLevel isStreaming isCompacting steeringMode followUpMode sessionFile sessionId sessionName "
            "autoCompactionEnabled messageCount pendingMessageCount",
            model=_MODEL,
        )
    ),
    "get_messages": fields("", messages=[_MESSAGE]),
    "get_last_assistant_text": Given(fields("text")),
    "set_model": _MODEL,
    "cycle_model": fields("thinkingLevel isScoped", model=_MODEL),
    "get_available_models": fields("", models=[_MODEL]),
    "compact": _COMPACTION,
    "bash": fields("output exitCode cancelled truncated fullOutputPath"),
    "get_session_stats": fields(
        "sessionFile sessionId userMessages assistantMessages toolCalls toolResults totalMessages cost contextUsage",
        tokens=fields(f"{_PRICES} total"),
    ),
}

PI = Dialect(_EVENTS, _ANSWERS, _MESSAGE, _BLOCK, _UPDATE, newer_compaction=True)
