"""Sessions as trajectories in Harbor's Agent Trajectory Interchange Format (ATIF), version 1.8.

What this module promises: each answer of the model is a step with its calls, their results and what it has cost; texts
are those of the session file, in which secrets are hidden; pictures are named, and not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from indus_nb.base.wire import JsonObject
from indus_nb.core.storage import SessionStore
from indus_nb.version import __version__

VERSION = "ATIF-v1.8"


def trajectory(store: SessionStore, agent: str) -> JsonObject:
    """Return a session as a trajectory.

    Args:
        agent: Name of the harness.
    """
    messages = [entry.data["message"] for entry in store.entries if isinstance(entry.data.get("message"), dict)]
    steps: list[JsonObject] = [{"step_id": number, **step} for number, step in enumerate(_steps(messages), 1)]
    models = dict.fromkeys(f"{each['provider']}/{each['model']}" for each in messages if each["role"] == "assistant")
    return {
        "schema_version": VERSION,
        "session_id": store.session_id,
        "agent": {"name": agent, "version": __version__, **({"model_name": next(iter(models))} if models else {})},
        "steps": steps,
        "final_metrics": _total([step["metrics"] for step in steps if "metrics" in step], len(steps)),
    }


def _steps(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    for at, message in enumerate(messages):
        match message["role"]:
            case "assistant":
                yield _answer(message, list(_results(messages[at + 1 :])))
            case "user":
                yield {**_said(message, "user"), "message": _text(message["content"])}
            case "toolResult":
                pass  # it belongs to the answer that asked for it
            case _:
                yield {**_said(message, "system"), "message": _text(message.get("content") or message.get("summary"))}


def _results(following: Iterable[JsonObject]) -> Iterator[JsonObject]:
    for message in following:
        if message["role"] == "assistant":
            return
        if message["role"] == "toolResult":
            yield message


def _answer(message: JsonObject, results: Sequence[JsonObject]) -> JsonObject:
    blocks = cast("list[JsonObject]", message["content"])
    thoughts = "\n\n".join(block["thinking"] for block in blocks if block["type"] == "thinking" and block["thinking"])
    calls = [
        {"tool_call_id": block["id"], "function_name": block["name"], "arguments": block["arguments"]}
        for block in blocks
        if block["type"] == "toolCall"
    ]
    ids = {call["tool_call_id"] for call in calls}
    observed = [
        {
            "source_call_id": result["toolCallId"],
            "content": _text(result["content"]),
            **({"extra": {"is_error": True}} if result.get("isError") else {}),
        }
        for result in results
        if result["toolCallId"] in ids
    ]
    step = {
        **_said(message, "agent"),
        "model_name": f"{message['provider']}/{message['model']}",
        "message": _text([block for block in blocks if block["type"] == "text"]),
        "metrics": _metrics(message.get("usage") or {}),
    }
    step |= {"reasoning_content": thoughts} if thoughts else {}
    step |= {"tool_calls": calls} if calls else {}
    return step | ({"observation": {"results": observed}} if observed else {})


def _said(message: JsonObject, source: str) -> JsonObject:
    at = message.get("timestamp")
    time = datetime.fromtimestamp(at / 1000, UTC).isoformat() if isinstance(at, int) else None
    return {"source": source, **({"timestamp": time} if time else {})}


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return str(content or "")
    blocks = cast("list[JsonObject]", content)
    return "\n\n".join(block["text"] if block["type"] == "text" else f"[{block['type']}]" for block in blocks)


def _metrics(usage: JsonObject) -> JsonObject:
    cost = cast("JsonObject", usage.get("cost") or {})
    read = sum(usage.get(name, 0) for name in ("input", "cacheRead", "cacheWrite"))
    found = {"prompt_tokens": read, "completion_tokens": usage.get("output", 0)}
    return {**found, "cached_tokens": usage.get("cacheRead", 0), "cost_usd": cost.get("total", 0.0)}


def _total(metrics: Sequence[JsonObject], steps: int) -> JsonObject:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
    return {**{f"total_{name}": sum(each[name] for each in metrics) for name in names}, "total_steps": steps}
