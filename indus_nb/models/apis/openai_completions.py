"""OpenAI's chat completions, and the many servers that speak them: Ollama, vLLM, llama.cpp, OpenRouter, Groq, Gemini.

https://platform.openai.com/docs/api-reference/chat. What a server does otherwise is declared by its models' ``compat``:

- ``{"maxTokensField": "max_tokens"}``: what the limit of an answer is called, by default ``max_completion_tokens``
- ``{"supportsReasoningEffort": false}``: it rejects ``reasoning_effort``
- ``{"supportsUsageInStreaming": false}``: it rejects ``stream_options``, and does not report what was used
- ``{"requiresToolResultName": true}``: the result of a tool is sent with the tool's name
- ``{"replayReasoning": false}``: it refuses to be sent the reasoning that led to its tool calls

What it accepts besides is declared in ``indus_nb.models.apis.rules``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
)
from indus_nb.base.streaming import AssistantMessageEvent
from indus_nb.base.wire import JsonObject, encodable
from indus_nb.models.apis.cache_marks import cache_mark, is_kept_long, set_marks
from indus_nb.models.apis.openai_common import (
    FILTERED,
    BadEventError,
    OpenAIAnswer,
    answer_limit,
    cache_fields,
    effort,
    image_url,
    is_own,
    list_in,
    number_in,
    object_in,
    text_in,
)
from indus_nb.models.apis.rules import may_force_tool, takes_marks
from indus_nb.models.catalog import Model
from indus_nb.models.http.failures import refusal
from indus_nb.models.protocol import Context, StreamOptions

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_STOP_REASONS: Mapping[str, StopReason] = {"length": "length", "tool_calls": "toolUse", "function_call": "toolUse"}


# --- what is asked ---------------------------------------------------------------------------------------------------


def request_body(model: Model, context: Context, options: StreamOptions) -> JsonObject:
    """Write the JSON body of a streaming request.

    Args:
        context: What it is shown; it conforms to the API's rules, see ``conforming``.
    """
    compat = model.compat or {}
    messages = list(_messages(context, model))
    body: JsonObject = {"model": model.id, "stream": True, "messages": messages, **cache_fields(model, options)}
    if compat.get("supportsUsageInStreaming") is not False:
        body["stream_options"] = {"include_usage": True}
    if (limit := answer_limit(model, options)) is not None:
        body[str(compat.get("maxTokensField") or "max_completion_tokens")] = limit
    if (wanted := effort(model, options)) is not None:
        body["reasoning_effort"] = wanted
    if context.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    **({"strict": True} if tool.strict else {}),
                },
            }
            for tool in context.tools
        ]
        if options.must_call in [tool.name for tool in context.tools] and may_force_tool(model, options):
            body["tool_choice"] = {"type": "function", "function": {"name": options.must_call}}
    if takes_marks(model) and (mark := cache_mark(model, options)) is not None:
        set_marks(mark, _head(body), messages, options)
    return body


def _head(body: JsonObject) -> JsonObject | None:
    """Return the last part of a body that precedes its conversation; the system message's text is made a part."""
    first: JsonObject = body["messages"][0]
    if first["role"] != "system":
        return next(iter(body.get("tools", ())[-1:]), None)
    first["content"] = [{"type": "text", "text": first["content"]}]
    return first["content"][0]


def _messages(context: Context, model: Model) -> Iterator[JsonObject]:
    if context.system_prompt.strip():
        yield {"role": "system", "content": context.system_prompt}
    named = (model.compat or {}).get("requiresToolResultName") is True
    for message in context.messages:
        if isinstance(message, ToolResultMessage):
            yield {
                "role": "tool",
                **({"name": message.tool_name} if named else {}),
                "tool_call_id": message.tool_call_id,
                "content": "\n".join(block.text for block in message.content if isinstance(block, TextContent)),
            }
        elif isinstance(message, AssistantMessage):
            yield _assistant_message(message, model)
        else:
            yield _user_message(message.content)


def _user_message(content: str | Iterable[TextContent | ImageContent]) -> JsonObject:
    if isinstance(content, str):
        return {"role": "user", "content": content}
    parts = [
        {"type": "text", "text": block.text}
        if isinstance(block, TextContent)
        else {"type": "image_url", "image_url": {"url": image_url(block)}}
        for block in content
    ]
    if all(part["type"] == "text" for part in parts):  # small servers know nothing but plain text
        return {"role": "user", "content": "\n".join(str(part["text"]) for part in parts)}
    return {"role": "user", "content": parts}


def _assistant_message(message: AssistantMessage, model: Model) -> JsonObject:
    own = is_own(message, model)
    text = "\n".join(block.text for block in message.content if isinstance(block, TextContent))
    calls = message.tool_calls
    return {
        "role": "assistant",
        "content": text or None,
        **({"tool_calls": [_call(call, own=own) for call in calls]} if calls else {}),
        **(_reasoning(message, model) if calls and own else {}),
    }


def _reasoning(message: AssistantMessage, model: Model) -> JsonObject:
    """Return the reasoning behind the calls of ``message``: some models reject a call without it."""
    reasoning: JsonObject = {}
    if details := [detail for call in message.tool_calls for detail in _signed(call)["reasoning_details"]]:
        reasoning["reasoning_details"] = details
    thoughts = [block for block in message.content if isinstance(block, ThinkingContent)]
    for name in _REASONING_FIELDS if (model.compat or {}).get("replayReasoning") is not False else ():
        if texts := [block.thinking for block in thoughts if block.thinking_signature == name]:
            reasoning[name] = "\n".join(texts)
    return reasoning


def _call(call: ToolCall, *, own: bool) -> JsonObject:
    arguments = json.dumps(encodable(call.arguments), ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
        **({"extra_content": extra} if own and (extra := _signed(call)["extra_content"]) else {}),
    }


def _signed(call: ToolCall) -> JsonObject:
    """Return the data that came with the call and must go back; empty if a session file holds something else."""
    try:
        value: object = json.loads(call.thought_signature or "")
    except ValueError:
        value = None
    kept = cast("JsonObject", value) if isinstance(value, dict) else {}
    details: object = kept.get("reasoning_details")
    return {
        "extra_content": object_in(kept, "extra_content"),
        "reasoning_details": cast("list[object]", details) if isinstance(details, list) else [],
    }


# --- what is answered ------------------------------------------------------------------------------------------------


def _object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise BadEventError(f"no object: {json.dumps(value)[:200]}")
    return cast("JsonObject", value)


def _weight(value: object) -> int:
    """Estimate the size of an object that is kept until the end: in memory it is larger than as text."""
    return 8 * len(json.dumps(value))


@dataclass(slots=True)
class _OpenCall:
    index: int
    sent_id: str
    signature: JsonObject = field(default_factory=dict[str, Any])


class CompletionsAnswer(OpenAIAnswer):
    """The answer so far.

    Text and thinking are open one at a time, calls until the end: their pieces may be mixed.
    """

    def __init__(self, model: Model, options: StreamOptions) -> None:
        super().__init__(model)
        self._writes_for_hour = takes_marks(model) and is_kept_long(model, options)
        self._prose: tuple[Literal["text", "thinking"], int] | None = None
        self._reasoning_field: str | None = None
        self._calls: list[_OpenCall] = []
        self._by_number: dict[int, _OpenCall] = {}
        self._details: dict[str, JsonObject] = {}  # what is signed of a call, by its id
        self._refusal: list[str] = []
        self._says_cost = model.provider == "openrouter" or model.base_url.startswith("https://openrouter.ai/")

    def added_by(self, event: object) -> Iterator[AssistantMessageEvent]:
        """Return what a chunk adds to the answer; see ``OpenAIAnswer``."""
        chunk = _object(event)
        if not self.started:
            self.started = True
            yield self.growing.start()
        if self.growing.response_id is None and (response_id := text_in(chunk, "id")):
            self.growing.response_id = response_id
        for choice in list_in(chunk, "choices")[:1]:
            yield from self._add(object_in(_object(choice), "delta"))
            if reason := text_in(_object(choice), "finish_reason"):
                self._stop(reason)
        if usage := object_in(chunk, "usage"):
            details = object_in(usage, "prompt_tokens_details")
            self.count(
                prompt=number_in(usage, "prompt_tokens"),
                cached=number_in(details, "cached_tokens") or number_in(usage, "prompt_cache_hit_tokens"),
                written=number_in(details, "cache_write_tokens"),
                output=number_in(usage, "completion_tokens"),
                total=number_in(usage, "total_tokens"),
                for_hour=self._writes_for_hour,
                tier=chunk.get("service_tier"),
            )
            if self._says_cost:
                self._set_cost(usage)
            self.complete: bool = self.whole

    def _set_cost(self, usage: JsonObject) -> None:
        """Take the server's cost in US dollars: the server knows which provider has answered."""
        amounts = [usage.get("cost"), object_in(usage, "cost_details").get("upstream_inference_cost")]
        paid = [
            each
            for each in amounts[: 1 + bool(usage.get("is_byok"))]
            if isinstance(each, int | float) and 0 <= each < math.inf
        ]
        if paid and not isinstance(usage.get("cost"), bool):
            counted = self.growing.usage
            cost = counted.cost.replace(total=float(sum(paid)), unknown=None)
            self.growing.usage = counted.replace(cost=cost)

    def delta_in(self, event: object) -> tuple[object, str] | None:
        """Return the delta of prose in the usual form; see ``handling.GrowingAnswer``."""
        match cast("JsonObject", event):
            case {"choices": [{"delta": {"content": str(text), **more}, **others}], **whole} if text:
                present = {name for name, value in (*more.items(), *others.items()) if value is not None}
                is_plain = present <= {"role", "index"} and not whole.get("usage") and not whole.get("error")
                return ("content", text) if is_plain else None
            case _:
                return None

    def with_delta(self, event: JsonObject, text: str) -> JsonObject:
        """Return an event with another text; see ``handling.GrowingAnswer``.

        Returns:
            An event that says the same with this text.
        """
        choice: JsonObject = event["choices"][0]
        return {**event, "choices": [{**choice, "delta": {**choice["delta"], "content": text}}]}

    def end(self) -> Iterator[AssistantMessageEvent]:
        """Close the open blocks; see ``OpenAIAnswer``."""
        yield from self._close_prose()
        for call in self._calls:
            end = self.growing.close(call.index)
            if detail := self._details.get(call.sent_id):
                call.signature["reasoning_details"] = [detail]
            if call.signature and end.type == "toolcall_end":
                end.tool_call.thought_signature = json.dumps(call.signature)
            yield end
        if self.stop_reason != "length":
            self.stop_reason = "toolUse" if self._calls else "stop"  # servers do not agree on what ends a call

    def _add(self, delta: JsonObject) -> Iterator[AssistantMessageEvent]:
        for name in _REASONING_FIELDS:  # a server that sends both sends the same in them
            thought: object = delta.get(name)
            if isinstance(thought, str) and thought:
                self._reasoning_field = self._reasoning_field or name
                yield from self._append("thinking", thought)
                break
        if text := text_in(delta, "content"):
            yield from self._append("text", text)
        if refused := text_in(delta, "refusal"):
            self.growing.reserve(len(refused))
            self._refusal.append(refused)
        for piece in list_in(delta, "tool_calls"):
            yield from self._extend_call(_object(piece))
        for detail in list_in(delta, "reasoning_details"):
            match detail:
                case {"type": "reasoning.encrypted", "id": str(call_id), "data": str()}:
                    self.growing.reserve(_weight(detail))
                    self._details[call_id] = cast("JsonObject", detail)
                case _:
                    pass

    def _append(self, kind: Literal["text", "thinking"], text: str) -> Iterator[AssistantMessageEvent]:
        if self._prose is None or self._prose[0] != kind:
            yield from self._close_prose()
            opened = self.growing.open_text() if kind == "text" else self.growing.open_thinking()
            yield opened
            self._prose = kind, opened.content_index
        yield self.growing.append(self._prose[1], text)

    def _close_prose(self) -> Iterator[AssistantMessageEvent]:
        if self._prose is not None:
            yield self.growing.close(self._prose[1], signature=self._reasoning_field)
            self._prose = None

    def _extend_call(self, piece: JsonObject) -> Iterator[AssistantMessageEvent]:
        function = object_in(piece, "function")
        sent_id, name, number = text_in(piece, "id"), text_in(function, "name"), piece.get("index")
        if isinstance(number, int):
            call = self._by_number.get(number)
        else:
            number = len(self._calls)
            call = None if name and not sent_id else next(reversed(self._calls), None)
        if call is None or (sent_id and sent_id != call.sent_id):  # there are servers that count from 0 for each call
            yield from self._close_prose()
            opened = self.growing.open_tool_call(sent_id, name)
            yield opened
            call = self._by_number[number] = _OpenCall(opened.content_index, sent_id)
            self._calls.append(call)
        if extra := object_in(piece, "extra_content"):
            self.growing.reserve(_weight(extra))
            call.signature["extra_content"] = extra
        arguments: object = function.get("arguments")
        text = json.dumps(arguments) if isinstance(arguments, dict) else text_in(function, "arguments")
        if text:
            yield self.growing.append(call.index, text)

    def _stop(self, reason: str) -> None:
        self.whole = True
        self.stop_reason: StopReason = _STOP_REASONS.get(reason, "stop")
        if self._refusal:
            self.problem: str | None = refusal("".join(self._refusal))
        elif reason == "content_filter":
            self.problem = FILTERED
