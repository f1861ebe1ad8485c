"""Anthropic's Messages API, asked directly (https://platform.claude.com/docs/en/api/messages).

Two halves: ``request_body`` writes a context in the API's terms, and ``_Answer`` turns the API's events into ours.
Between them is one request, the same as the official SDK's (importing that takes longer than most answers do); its
failures are described in words that a user, and a retry, can act on.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar, cast

from indus_nb.base.errors import IndusError
from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
)
from indus_nb.base.streaming import MAX_BLOCKS, AssistantMessageEvent, GrowingMessage
from indus_nb.base.wire import JsonObject, collection_paused
from indus_nb.models.apis.anthropic_usage import UsedTokens
from indus_nb.models.apis.cache_marks import cache_mark, set_marks
from indus_nb.models.apis.conforming import conforming
from indus_nb.models.apis.rules import MIN_THINKING_TOKENS, may_force_tool, reached_url
from indus_nb.models.catalog import Model
from indus_nb.models.http import http
from indus_nb.models.http.failures import (
    MAX_PAGE,
    NotAStreamError,
    check_key,
    check_stream,
    check_url,
    is_json,
    one_line,
    refusal,
    retry_after,
    root_cause,
    transport_sentence,
)
from indus_nb.models.http.handling import updates
from indus_nb.models.http.refusals import MOST_SENT, explain, forgo, note_answer, note_key
from indus_nb.models.http.sse import StreamedError
from indus_nb.models.protocol import Context, StreamOptions
from indus_nb.safety.redaction import hide_shapes, shown_url

_KEY_VARIABLE = "ANTHROPIC_API_KEY"
_TOKEN_VARIABLE = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - a name, not a secret
_HEADERS_VARIABLE = "ANTHROPIC_CUSTOM_HEADERS"
_NO_KEY = "none"  # for a server that wants none; the SDK sends no request without one
VERSION = "2026-10-21"  # that of the newest SDK
_OUTPUT_TOKENS = 32_000
_WHOLE_SECONDS = 270
_SLOW_TOKENS = 30
"""What a slow model writes in a second: meanwhile the server of an answer that comes whole is silent."""
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 16384}
_EFFORTS = {"off": "low", "minimal": "low", "low": "low", "medium": "medium", "high": "high"}
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_INTERLEAVED_BETA = "interleaved-thinking-2025-05-14"
_STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


T = TypeVar("T")


class Reply(NamedTuple):
    """An answer that has begun: its headers, its raw bytes, and its events."""

    headers: Mapping[str, str]
    content: AsyncIterator[bytes]
    events: AsyncIterator[Sequence[object]]


def whole_reply(message: JsonObject) -> Reply:
    """Return a reply that reads as the stream of a message that has come whole."""
    content: object = message.get("content")
    events: list[object] = [{"type": "message_start", "message": message}]
    for number, block in enumerate(cast("list[object]", content) if isinstance(content, list) else ()):
        events.append({"type": "content_block_start", "index": number, "content_block": block})
        events.append({"type": "content_block_stop", "index": number})
    ending = {name: message.get(name) for name in ("stop_reason", "stop_details")}
    events += [{"type": "message_delta", "delta": ending}, {"type": "message_stop"}]
    return Reply({}, _each(()), _each((events,)))


async def _each(items: Iterable[T]) -> AsyncIterator[T]:
    for item in items:
        yield item


class AnthropicProvider:
    """A provider for Claude. ``idle_timeout`` is how many seconds the server may be silent.

    ANTHROPIC_BASE_URL in the environment names another server for Anthropic's own models, and ANTHROPIC_CUSTOM_HEADERS
    more headers for it, one on each line; models of other providers that speak this API are asked at their own URL,
    with their own headers. A key is sent as a bearer token, as the SDK does.
    """

    _url_variable = "ANTHROPIC_BASE_URL"

    def __init__(self, *, idle_timeout: float = 300) -> None:
        self._idle_timeout = idle_timeout

    def preload(self) -> None:
        """Import what a first request needs, and read the certificates unless the environment's URL needs none."""
        http.preload(tls=not os.environ.get(self._url_variable, "").startswith("http:"))

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        """Send one request and yield the answer; see ``Provider.stream``.

        Retries are the caller's.

        Args:
            context: System prompt, messages and tools, as the session holds them.
        """
        answer = _Answer(model)
        where = self._where(model)
        problem: str | None = None
        for number in range(MOST_SENT):
            body: JsonObject = {}
            reached = False
            try:
                body = await _body(model, context, options)
                async with self._asked(model, body, options) as reply:
                    reached = True
                    note_answer(options.api_key, model)
                    await check_stream(reply.headers, reply.content)
                    async for events in reply.events:
                        for update in updates(answer, events):
                            yield update
                        if answer.complete:
                            break
            except Exception as error:  # noqa: BLE001 - by the protocol, whatever goes wrong with a request is data
                problem = self._sentence(error, where, options, reached=reached)
                if isinstance(status := getattr(error, "status_code", None), int):
                    note_key(status, problem, options.api_key, model)
                    if not answer.started and forgo(status, problem, body, model) and number + 1 < MOST_SENT:
                        continue
                    problem += explain(status, problem, body, model)
            else:
                problem = answer.problem or (
                    None
                    if answer.complete
                    else f"The stream from {where} ended early, before the answer was complete. Try again; "
                    "what had arrived is kept."
                )
            break
        if not answer.started:
            yield answer.growing.start()
        yield (
            answer.growing.fail(hide_shapes(problem, self._secrets(model, options)))
            if problem
            else answer.growing.finish(answer.stop_reason)
        )

    def _sentence(self, error: Exception, where: str, options: StreamOptions, *, reached: bool) -> str:
        if isinstance(error, http.HttpStatusError):
            return _status_sentence(error, where, options.key_from() or f"{_KEY_VARIABLE} or {_TOKEN_VARIABLE}")
        idle_timeout = options.idle_timeout or self._idle_timeout
        return _sentence(error, where, idle_timeout, reached=reached, url_variable=self._url_variable)

    async def count_tokens(self, model: Model, context: Context, options: StreamOptions) -> int:
        """Have the server count the tokens of a request; see ``TokenCounter.count_tokens``.

        Args:
            context: System prompt, messages and tools, as the session holds them.

        Returns:
            The tokens of what the model would read.

        Raises:
            IndusError: There is no count; the message says why.
        """
        body = request_body(model, await conforming(context, model), options)
        where = self._where(model)
        try:
            answer = await self._counted(
                model, {key: value for key, value in body.items() if key not in ("stream", "max_tokens")}, options
            )
        except Exception as error:
            problem = self._sentence(error, where, options, reached=False)
            raise IndusError(hide_shapes(problem, self._secrets(model, options))) from error
        match answer:
            case {"input_tokens": int(tokens)}:
                return tokens
            case _:
                raise IndusError(f"{where} did not answer with a number of tokens.")

    async def _counted(self, model: Model, body: JsonObject, options: StreamOptions) -> object:
        """Return the server's reply to a request to count tokens."""
        async with self._sent("/v1/messages/count_tokens", model, body, options) as answer:
            return await answer.value()

    def _url(self, model: Model) -> str:
        return reached_url(model)

    def _where(self, model: Model) -> str:
        """Return the server's name for sentences."""
        return shown_url(self._url(model))

    def _secrets(self, model: Model, options: StreamOptions) -> Iterable[str]:
        """Return the secrets that must not stand in a sentence."""
        return (options.api_key or "", *model.headers.values(), *_environment_headers(model).values())

    def _headers(self, model: Model) -> dict[str, str]:
        """Return the headers that the environment and the user add to requests."""
        return http.merged_headers(_environment_headers(model), model.headers)

    @asynccontextmanager
    async def _asked(self, model: Model, body: JsonObject, options: StreamOptions) -> AsyncGenerator[Reply]:
        """Send the request; the answer is open until the end of the context.

        Raises:
            HttpStatusError: The server rejects it.
            StreamedError: It fails after it has begun to answer.
        """
        async with self._sent("/v1/messages", model, body, options) as answer:
            if options.on_response is not None:
                await options.on_response(answer.status, answer.headers)
            if "stream" in body or not is_json(answer.headers):  # some servers stream whatever they were asked
                yield Reply(answer.headers, answer.content(), answer.events())
                return
            match await answer.value():
                case {"type": "message"} as message:
                    yield whole_reply(cast("JsonObject", message))
                case other:
                    raise NotAStreamError("application/json", json.dumps(other)[:MAX_PAGE])

    @asynccontextmanager
    async def _sent(
        self, path: str, model: Model, body: JsonObject, options: StreamOptions
    ) -> AsyncGenerator[http.StreamingAnswer]:
        key = (options.api_key or "").strip()
        url = self._url(model)
        check_url(url, "Correct ANTHROPIC_BASE_URL, or the model's base URL.")
        check_key(key, model)
        own = {"authorization": f"Bearer {key or _NO_KEY}", "anthropic-version": VERSION}
        headers = http.merged_headers(own, self._headers(model))
        needed = betas(body, interleaved=model.interleaved_thinking, asked=headers.get("anthropic-beta"))
        async with http.stream(
            http.joined_url(url, path),
            body,
            headers=headers | needed,
            idle_timeout=options.idle_timeout or self._idle_timeout,
        ) as answer:
            yield answer


def _environment_headers(model: Model) -> dict[str, str]:
    """Return the environment's headers for Anthropic: other servers do not get them."""
    return http.headers_in(os.environ.get(_HEADERS_VARIABLE, "")) if model.provider == "anthropic" else {}


async def _body(model: Model, context: Context, options: StreamOptions) -> JsonObject:
    conformed = await conforming(context, model)
    with collection_paused():
        body = request_body(model, conformed, options)
    return body if options.on_request is None else await options.on_request(body)


# --- what is asked ---------------------------------------------------------------------------------------------------


def request_body(model: Model, context: Context, options: StreamOptions) -> JsonObject:
    """Write the JSON body of a request.

    Args:
        context: What it is shown; it conforms to the API's rules, see ``conforming``.
    """
    thinking = _thinking(model, options)
    keep_thinking = not (model.bound_thinking and "block_binding" not in thinking.get("thinking", {}))
    messages = _messages(context.messages, keep_thinking=keep_thinking)
    longest = _max_tokens(model, options)
    is_short = longest <= _SLOW_TOKENS * min(options.idle_timeout or _WHOLE_SECONDS, _WHOLE_SECONDS)
    body: JsonObject = {
        "model": model.id,
        **({"stream": True} if options.is_streamed or not is_short else {}),
        "max_tokens": longest,
        **thinking,
        "messages": messages,
    }
    if context.system_prompt.strip():
        body["system"] = [{"type": "text", "text": context.system_prompt}]
    if context.tools:
        body["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.parameters,
                **({"strict": True} if tool.strict else {"eager_input_streaming": True}),
            }
            for tool in context.tools
        ]
        if options.must_call in [tool.name for tool in context.tools] and may_force_tool(model, options):
            body["tool_choice"] = {"type": "tool", "name": options.must_call}
    if (mark := cache_mark(model, options)) is not None:
        head = next(iter(body.get("system") or body.get("tools", ())[-1:]), None)
        set_marks(mark, head, messages, options)
    return body


def betas(body: JsonObject, *, interleaved: bool, asked: str | None = None) -> dict[str, str]:
    """Return the header that a body needs for what it asks for beyond the API's version.

    Args:
        interleaved: Whether its model thinks between tool calls if it is told to by the header.
        asked: What the user's own header asks for.
    """
    thinking: JsonObject = body.get("thinking", {})
    names = [*map(str.strip, asked.split(","))] if asked else []
    if "block_binding" in thinking:
        names.append(_BINDING_BETA)
    if interleaved and thinking.get("type") == "enabled" and body.get("tools"):
        names.append(_INTERLEAVED_BETA)
    return {"anthropic-beta": ",".join(dict.fromkeys(names))} if names else {}


def _budget(options: StreamOptions) -> int:
    budget = options.thinking_budgets.get(options.thinking, _BUDGETS.get(options.thinking, 0))
    return 0 if options.thinking == "off" else max(budget, MIN_THINKING_TOKENS)


def _max_tokens(model: Model, options: StreamOptions) -> int:
    if model.thinking_style == "effort" and options.thinking == "xhigh":
        return model.max_tokens  # there is no budget to go by, and thinking counts towards this limit
    return min((options.max_tokens or _OUTPUT_TOKENS) + (_budget(options) if model.reasoning else 0), model.max_tokens)


def _thinking(model: Model, options: StreamOptions) -> JsonObject:
    if not model.reasoning or model.thinking_style == "none":
        return {}
    budget = min(_budget(options), _max_tokens(model, options) - MIN_THINKING_TOKENS)
    off = options.thinking == "off" or (model.thinking_style == "budget" and budget < MIN_THINKING_TOKENS)
    if off and model.thinking_off != "adaptive":
        return {"thinking": {"type": model.thinking_off}}
    if model.thinking_style == "budget":
        return {"thinking": {"type": "enabled", "budget_tokens": budget, "display": "summarized"}}
    thinking: JsonObject = {"type": "adaptive", "display": "summarized"}
    if model.bound_thinking:
        # After a compaction, or with other tools, older thinking no longer fits what precedes it. Left to itself
        # the server rejects such a request.
        thinking["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return {"thinking": thinking, "output_config": {"effort": _EFFORTS.get(options.thinking, model.top_effort)}}


def _messages(messages: Iterable[ModelMessage], *, keep_thinking: bool) -> list[JsonObject]:
    """Convert the messages to the API's format; neighbours of one role are merged, as the API counts them."""
    merged: list[JsonObject] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            blocks = [_tool_result(message)]
        elif isinstance(message, AssistantMessage):
            blocks = _assistant_blocks(message, keep_thinking=keep_thinking)
        else:
            blocks = _user_blocks(message.content)
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if blocks and merged and merged[-1]["role"] == role:
            merged[-1]["content"] += blocks
        elif blocks:
            merged.append({"role": role, "content": blocks})
    return merged


def _user_blocks(content: str | Iterable[TextContent | ImageContent]) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [
        {"type": "text", "text": block.text} if isinstance(block, TextContent) else _image_block(block)
        for block in content
    ]


def _image_block(image: ImageContent) -> JsonObject:
    if image.source is not None:
        return {"type": "image", "source": {"type": "url", "url": image.source.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.mime_type, "data": image.data}}


def _tool_result(message: ToolResultMessage) -> JsonObject:
    return {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": _user_blocks(message.content),
        "is_error": message.is_error,
    }


def _assistant_blocks(message: AssistantMessage, *, keep_thinking: bool) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    for block in message.content:
        match block:
            case TextContent():
                blocks.append({"type": "text", "text": block.text})
            case ThinkingContent():
                if keep_thinking:
                    blocks.append(_signed(block))
            case ToolCall():
                blocks.append({"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments})
    return blocks


def _signed(block: ThinkingContent) -> JsonObject:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.thinking_signature}
    return {"type": "thinking", "thinking": block.thinking, "signature": block.thinking_signature}


# --- what is answered ------------------------------------------------------------------------------------------------


class _BadEventError(ValueError):
    """An event that the API's documentation does not allow."""


@dataclass(slots=True)
class _OpenBlock:
    index: int
    delta: str  # the type of its deltas
    signature: list[str] = field(default_factory=list[str])
    redacted: bool | None = None
    whole_input: str = ""  # arguments of a server that does not stream them, as JSON


_TEXT_KEYS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""The key of the text, by the type of a delta."""


class _Answer:
    """An answer so far, built from the API's events, which come as plain objects."""

    def __init__(self, model: Model) -> None:
        self.growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
        self.started = False
        self.complete = False
        self.stop_reason: StopReason = "stop"
        self.problem: str | None = None
        self._used = UsedTokens(model.cost)
        self._open: dict[int, _OpenBlock | None] = {}

    def handle(self, event: object) -> Iterable[AssistantMessageEvent]:
        """Return what ``event`` adds to the answer.

        Unknown types of events, blocks and deltas are skipped.
        """
        updates: Iterable[AssistantMessageEvent] = ()
        match cast("JsonObject", event):
            case {"type": "content_block_delta", "index": int(number), "delta": {"type": str(kind)} as delta}:
                updates = self._append(number, kind, delta)
            case {"type": "content_block_start", "index": int(number), "content_block": {"type": str(kind)} as block}:
                updates = self._begin(number, kind, block)
            case {"type": "content_block_stop", "index": int(number)}:
                updates = self._end(number)
            case {"type": "message_start", "message": {} as message}:
                updates = self._start(message)
            case {"type": "message_delta", "delta": {} as delta} as whole:
                self._count(whole.get("usage"))
                self._stop(delta)
            case {"type": "message_stop"}:
                self.complete = True
                updates = [end for number in tuple(self._open) for end in self._end(number)]
            case {"type": "error"}:  # by a server that does not name its events
                raise StreamedError(event)
            case {"type": str(kind)} if not kind.startswith(("content_block_", "message_")):
                pass
            case _:
                raise _BadEventError(f"an unexpected event {json.dumps(event)[:200]}")
        return updates

    def delta_in(self, event: object) -> tuple[object, str] | None:
        """Return the delta of an event; see ``handling.GrowingAnswer``."""
        if not isinstance(event, dict) or cast("JsonObject", event).get("type") != "content_block_delta":
            return None
        fields = cast("JsonObject", event)
        delta: object = fields.get("delta")
        if not isinstance(delta, dict) or not isinstance(kind := cast("JsonObject", delta).get("type"), str):
            return None
        text: object = cast("JsonObject", delta).get(_TEXT_KEYS.get(kind, ""))
        return ((fields.get("index"), kind), text) if isinstance(text, str) else None

    def with_delta(self, event: JsonObject, text: str) -> JsonObject:
        """Return an event with another text; see ``handling.GrowingAnswer``.

        Returns:
            An event that says the same with this text.
        """
        delta: JsonObject = event["delta"]
        return {**event, "delta": {**delta, _TEXT_KEYS[delta["type"]]: text}}

    def _start(self, message: JsonObject) -> Iterable[AssistantMessageEvent]:
        if self.started:
            raise _BadEventError("a second message_start")
        if isinstance(message.get("id"), str):
            self.growing.response_id = message["id"]
        self._count(message.get("usage"))
        self.started = True
        return (self.growing.start(),)

    def _begin(self, number: int, kind: str, block: JsonObject) -> Iterable[AssistantMessageEvent]:
        if len(self._open) >= MAX_BLOCKS:
            raise _BadEventError(f"more than {MAX_BLOCKS:,} blocks that are open")
        if not self.started or number in self._open:
            raise _BadEventError(f"block {number} begins out of turn")
        growing = self.growing
        match kind:
            case "text":
                opening = growing.open_text()
                opened = _OpenBlock(opening.content_index, "text_delta")
            case "thinking" | "redacted_thinking":
                opening = growing.open_thinking()
                opened = _OpenBlock(opening.content_index, "thinking_delta")
                opened.redacted = True if kind == "redacted_thinking" else None
                self._sign(opened, _text(block, "data" if opened.redacted else "signature"))
            case "tool_use":
                opening = growing.open_tool_call(_text(block, "id"), _text(block, "name"))
                opened = _OpenBlock(opening.content_index, "input_json_delta")
                opened.whole_input = json.dumps(whole) if (whole := block.get("input")) else ""
                growing.reserve(len(opened.whole_input))
            case _:
                self._open[number] = None
                return ()
        self._open[number] = opened
        first = _text(block, _TEXT_KEYS[opened.delta])
        return (opening, growing.append(opened.index, first)) if first else (opening,)

    def _append(self, number: int, kind: str, delta: JsonObject) -> Iterable[AssistantMessageEvent]:
        if number not in self._open:
            raise _BadEventError(f"a delta of block {number}, which is not open")
        block = self._open[number]
        if block is None:
            return ()
        if kind == block.delta:
            block.whole_input = ""
            text = _text(delta, _TEXT_KEYS[kind])
            return (self.growing.append(block.index, text),) if text else ()
        if kind == "signature_delta":
            self._sign(block, _text(delta, "signature"))
        return ()

    def _sign(self, block: _OpenBlock, signature: str) -> None:
        self.growing.reserve(len(signature))
        block.signature.append(signature)

    def _end(self, number: int) -> Iterable[AssistantMessageEvent]:
        if number not in self._open:
            raise _BadEventError(f"the end of block {number}, which is not open")
        block = self._open.pop(number)
        if block is None:
            return ()
        whole = [self.growing.append(block.index, block.whole_input)] if block.whole_input else []
        end = self.growing.close(block.index, signature="".join(block.signature) or None, redacted=block.redacted)
        return (*whole, end)

    def _stop(self, delta: JsonObject) -> None:
        reason = delta.get("stop_reason")
        if reason == "refusal":
            details: object = delta.get("stop_details")
            stated = cast("JsonObject", details).get("explanation") if isinstance(details, dict) else None
            self.problem = refusal(stated if isinstance(stated, str) else "")
        elif isinstance(reason, str):
            self.stop_reason = _STOP_REASONS.get(reason, "stop")

    def _count(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        self.growing.usage = self._used.count(cast("JsonObject", usage))


def _text(fields: JsonObject, name: str) -> str:
    value: object = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _BadEventError(f"{name} is no text")
    return value


# --- what goes wrong -------------------------------------------------------------------------------------------------


def _sentence(error: Exception, where: str, idle_timeout: float, *, reached: bool, url_variable: str) -> str:
    """Describe what happened, where, and what to do, in words by which a passing failure is known."""
    if isinstance(error, IndusError):
        return str(error)
    if isinstance(error, StreamedError):
        return f"{_reason(error.body) or f'error from {where}'} (in the stream from {where})"
    hint = f"Check the network and {url_variable}."
    if (sentence := transport_sentence(error, where, idle_timeout, reached=reached, hint=hint)) is not None:
        return sentence
    detail = one_line(str(root_cause(error))) or type(root_cause(error)).__name__
    if reached and isinstance(error, ValueError):
        return (
            f"The stream from {where} is not what the Messages API sends: {detail}. Try again, and check "
            f"{url_variable} if it goes on; what had arrived is kept."
        )
    return f"The request to {where} failed: {type(error).__name__}: {detail}"


def _status_sentence(error: http.HttpStatusError, where: str, key_from: str) -> str:
    reason = _reason(error.body) or f"{error.reason_phrase or 'error'} from {where}"
    hint = f". Check {key_from}." if error.status_code in (401, 403) else ""
    wait = retry_after(error.headers)
    return f"{error.status_code} {reason}{f' (retry after {wait:.10g} s)' if wait is not None else ''}{hint}"


def _reason(body: object) -> str | None:
    """Return the server's words, where they are such as the API's documentation shows them."""
    inner: object = cast("JsonObject", body).get("error") if isinstance(body, dict) else None
    if not isinstance(inner, dict):
        return None
    fields = cast("JsonObject", inner)
    return one_line(f"{fields.get('type') or 'error'}: {fields.get('message') or 'no reason given'}")
