"""A local HTTP server that answers one script in three languages, by the path that is asked for.

``OpenAIApi`` is a ``MessagesApi`` that speaks chat completions and OpenAI's responses besides::

    with OpenAIApi(Reply(Thinking("hm"), ToolUse("bash", {"command": "ls"}))) as api:
        ...  # api.url + "/v1/chat/completions", "/v1/responses" or, as ever, "/v1/messages"

The tokens of a ``Reply`` are told as these APIs do: the prompt includes what was cached. A thought's signature is the
encrypted content of a reasoning item; completions have no place for it. Their thoughts come as ``reasoning_content``,
unless the server is made with another ``reasoning_field``. With ``dialect="mistral"`` it refuses what Mistral refuses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from api_rules import check_completions, check_responses
from messages_api import (
    Answer,
    Block,
    Control,
    Cut,
    End,
    Gate,
    Handler,
    HttpError,
    MessagesApi,
    Raw,
    Recorded,
    Redacted,
    Reply,
    SseError,
    Text,
    Thinking,
    ToolUse,
    pieces,
    sse,
)

_FINISH_REASONS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
_CONTROLS = Gate | Cut | End | SseError | Raw


class OpenAIApi(MessagesApi):
    """The server; ``v1`` is the base URL for OpenAI's APIs and ``url`` the one for Anthropic's."""

    def __init__(self, *answers: Answer, reasoning_field: str = "reasoning_content", dialect: str = "openai") -> None:
        self.reasoning_field = reasoning_field
        self.dialect = dialect
        super().__init__(*answers)

    @property
    def v1(self) -> str:
        """The base URL of OpenAI's APIs."""
        return f"{self.url}/v1"

    def check(self, request: Recorded, size: int) -> None:
        """See ``MessagesApi.check``."""
        if request.path.endswith("/responses"):
            check_responses(request.body, size)
        elif request.path.endswith("/chat/completions"):
            check_completions(request.body, size, self.dialect)
        else:
            super().check(request, size)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (OpenAIHandler,), {"owner": self})


class OpenAIHandler(Handler):
    """One connection; what the server says is in the language of the path."""

    owner: OpenAIApi

    def steps(self, reply: Reply, request: Recorded, number: int) -> Iterator[bytes | Control]:
        if request.path.endswith("/responses"):
            return _responses(reply, request, number)
        if request.path.endswith("/chat/completions"):
            return _completions(reply, request, number, self.owner.reasoning_field)
        return super().steps(reply, request, number)

    def error_event(self, error: SseError) -> bytes:
        if self.path.endswith("/responses"):
            return sse({"type": "error", "code": error.type, "message": error.message, "param": None})
        if self.path.endswith("/chat/completions"):
            return data({"error": {"type": error.type, "code": None, "message": error.message}})
        return super().error_event(error)

    def error_body(self, answer: HttpError) -> dict[str, Any]:
        if self.path.endswith(("/responses", "/chat/completions")):
            return {
                "error": {"message": answer.message, "type": answer.type, "param": answer.param, "code": answer.code}
            }
        return super().error_body(answer)


def data(chunk: object) -> bytes:
    """A server-sent event without a name."""
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()


def _tokens(reply: Reply) -> tuple[int, int, int]:
    """How many tokens the prompt has, how many of them were cached, and how many the answer has."""
    counted: dict[str, Any] = {**reply.usage, **{name: n for name, n in reply.final_usage.items() if n is not None}}
    cached = counted.get("cache_read_input_tokens", 0)
    return counted["input_tokens"] + cached, cached, counted["output_tokens"]


def _parts(item: Block, chunk: int) -> Iterator[str | Control]:
    """The deltas of a block, with what happens between them."""
    match item:
        case str():
            yield from pieces(item, chunk)
        case Text():
            for part in item.parts:
                yield from pieces(part, chunk) if isinstance(part, str) else (part,)
        case Thinking():
            yield from pieces(item.text, chunk)
        case ToolUse():
            yield from pieces(item.input if isinstance(item.input, str) else json.dumps(item.input), chunk)
        case Redacted():
            pass


# --- chat completions ------------------------------------------------------------------------------------------------


def _completions(reply: Reply, request: Recorded, number: int, reasoning_field: str) -> Iterator[bytes | Control]:
    def chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return data({**frame, "choices": [choice], "usage": None})

    frame = {"id": f"chatcmpl-{number:02}", "object": "chat.completion.chunk", "model": request.body.get("model")}
    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for position, item in enumerate(reply.content):
        if isinstance(item, _CONTROLS):
            yield item
            continue
        if isinstance(item, ToolUse):
            opening = {"name": item.name, "arguments": ""}
            call_id = item.id or f"call_{number:02}_{position}"
            yield chunk({"tool_calls": [{"index": calls, "id": call_id, "type": "function", "function": opening}]})
        for part in _parts(item, reply.chunk):
            match item:
                case _ if not isinstance(part, str):
                    yield part
                case ToolUse():
                    yield chunk({"tool_calls": [{"index": calls, "function": {"arguments": part}}]})
                case Thinking():
                    yield chunk({reasoning_field: part})
                case _:
                    yield chunk({"content": part})
        calls += isinstance(item, ToolUse)
    yield chunk({}, _FINISH_REASONS.get(reply.stop_reason, reply.stop_reason))
    if request.body.get("stream_options", {}).get("include_usage"):
        prompt, cached, output = _tokens(reply)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": output // 2},
        }
        yield data({**frame, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


# --- responses -------------------------------------------------------------------------------------------------------


def _responses(reply: Reply, request: Recorded, number: int) -> Iterator[bytes | Control]:
    response = {"id": f"resp_{number:02}", "object": "response", "model": request.body.get("model"), "error": None}
    yield sse({"type": "response.created", "response": {**response, "status": "in_progress", "usage": None}})
    yield sse({"type": "response.in_progress", "response": {**response, "status": "in_progress", "usage": None}})
    index = 0
    for item in reply.content:
        if isinstance(item, _CONTROLS):
            yield item
            continue
        yield from _item(item, index, number, reply.chunk)
        index += 1
    prompt, cached, output = _tokens(reply)
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": output // 2},
        "total_tokens": prompt + output,
    }
    reason = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}.get(reply.stop_reason)
    status = "incomplete" if reason else "completed"
    ending = {**response, "status": status, "incomplete_details": reason and {"reason": reason}, "usage": usage}
    yield sse({"type": f"response.{status}", "response": ending})


def _item(item: Block, index: int, number: int, chunk: int) -> Iterator[bytes | Control]:
    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": f"response.{kind}", "output_index": index, **fields})

    where = f"{number:02}_{index}"
    text = "".join(part for part in _parts(item, chunk) if isinstance(part, str))
    match item:
        case ToolUse():
            call = {"type": "function_call", "id": f"fc_{where}", "call_id": item.id or f"call_{where}"}
            opening = {**call, "name": item.name, "arguments": "", "status": "in_progress"}
            closing = {**call, "name": item.name, "arguments": text, "status": "completed"}
            delta = "function_call_arguments.delta"
        case Thinking() | Redacted():
            encrypted = item.signature if isinstance(item, Thinking) else item.data
            summary = [{"type": "summary_text", "text": text}] if text else []
            opening = {"type": "reasoning", "id": f"rs_{where}", "summary": [], "encrypted_content": "unfinished"}
            closing = {**opening, "summary": summary, "encrypted_content": encrypted}
            delta = "reasoning_summary_text.delta"
        case _:
            message = {"type": "message", "id": f"msg_{where}", "role": "assistant"}
            opening = {**message, "content": [], "status": "in_progress"}
            content = [{"type": "output_text", "text": text, "annotations": []}]
            closing = {**message, "content": content, "status": "completed"}
            delta = "output_text.delta"
    yield event("output_item.added", item=opening)
    if text and isinstance(item, Thinking):
        yield event("reasoning_summary_part.added", summary_index=0, part={"type": "summary_text", "text": ""})
    for part in _parts(item, chunk):
        yield event(delta, delta=part) if isinstance(part, str) else part
    yield event("output_item.done", item=closing)
