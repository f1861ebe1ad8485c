"""OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses).

Nothing is stored at OpenAI: the whole conversation is sent each time, the model's reasoning among it, encrypted.
Therefore no item carries an id; the server would look for it among what it has stored.

A model whose ``compat`` is ``{"reasoningSummary": false}`` is not asked to summarise its reasoning: some organisations
are refused that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, cast

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
)
from indus_nb.base.streaming import MAX_BLOCKS, AnswerTooLargeError, AssistantMessageEvent
from indus_nb.base.wire import JsonObject, encodable
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
from indus_nb.models.apis.rules import may_force_tool
from indus_nb.models.catalog import Model
from indus_nb.models.http.failures import refusal
from indus_nb.models.http.sse import StreamedError
from indus_nb.models.protocol import Context, StreamOptions

_MIN_OUTPUT_TOKENS = 16
_PHASES = ("commentary", "final_answer")
_TEXT_DELTAS = ("response.output_text.delta", "response.refusal.delta")
_THINKING_DELTAS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ARGUMENTS_DELTA = "response.function_call_arguments.delta"
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_ITEMS = ("response.output_item.added", "response.output_item.done", "response.reasoning_summary_part.added")
_UNDERSTOOD = {*_TEXT_DELTAS, *_THINKING_DELTAS, _ARGUMENTS_DELTA, *_ITEMS, *_ENDS}


# --- what is asked ---------------------------------------------------------------------------------------------------


def request_body(model: Model, context: Context, options: StreamOptions) -> JsonObject:
    """Write the JSON body of a streaming request.

    Args:
        context: What it is shown; it conforms to the API's rules, see ``conforming``.
    """
    body: JsonObject = {"model": model.id, "stream": True, "store": False, "input": list(_items(context, model))}
    body |= cache_fields(model, options)
    if context.system_prompt.strip():
        body["instructions"] = context.system_prompt
    if (limit := answer_limit(model, options)) is not None:
        body["max_output_tokens"] = max(limit, _MIN_OUTPUT_TOKENS)
    if model.reasoning:
        body["include"] = ["reasoning.encrypted_content"]
    if (wanted := effort(model, options)) is not None:
        body["reasoning"] = {"effort": wanted}
        if options.thinking != "off" and (model.compat or {}).get("reasoningSummary") is not False:
            body["reasoning"]["summary"] = "auto"
    if context.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": tool.strict,  # its rules for schemas are not those of most tools
            }
            for tool in context.tools
        ]
        if options.must_call in [tool.name for tool in context.tools] and may_force_tool(model, options):
            body["tool_choice"] = {"type": "function", "name": options.must_call}
    return body


def _items(context: Context, model: Model) -> Iterator[JsonObject]:
    for message in context.messages:
        if isinstance(message, AssistantMessage):
            yield from _assistant_items(message, model)
        elif isinstance(message, ToolResultMessage):
            content = message.content
            plain = "\n".join(block.text for block in content if isinstance(block, TextContent))
            yield {
                "type": "function_call_output",
                "call_id": message.tool_call_id,
                "output": _parts(content) if any(isinstance(block, ImageContent) for block in content) else plain,
            }
        else:
            content = [TextContent(text=message.content)] if isinstance(message.content, str) else message.content
            yield {"role": "user", "content": _parts(content)}


def _parts(content: Iterable[TextContent | ImageContent]) -> list[JsonObject]:
    return [
        {"type": "input_text", "text": block.text}
        if isinstance(block, TextContent)
        else {"type": "input_image", "detail": "auto", "image_url": image_url(block)}
        for block in content
    ]


def _assistant_items(message: AssistantMessage, model: Model) -> Iterator[JsonObject]:
    own = is_own(message, model)
    reasoning: list[JsonObject] = []  # rejected where nothing follows it
    for block in message.content:
        match block:
            case ThinkingContent():
                if own and block.thinking_signature and (item := _reasoning_item(block.thinking_signature)):
                    reasoning.append(item)
                continue
            case TextContent():
                item = {"role": "assistant", "content": block.text}
                if own and block.text_signature in _PHASES:
                    item["phase"] = block.text_signature
            case ToolCall():
                item = {
                    "type": "function_call",
                    "call_id": block.id,
                    "name": block.name,
                    "arguments": json.dumps(encodable(block.arguments), ensure_ascii=False),
                }
        yield from reasoning
        reasoning.clear()
        yield item


def _reasoning_item(signature: str) -> JsonObject | None:
    try:
        value: object = json.loads(signature)
    except ValueError:
        return None
    match value:
        case {"encrypted_content": str(encrypted), "summary": list()}:
            summary: object = cast("JsonObject", value)["summary"]
            return {"type": "reasoning", "encrypted_content": encrypted, "summary": summary}
        case _:  # a session file may hold anything
            return None


# --- what is answered ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _OpenItem:
    kind: str  # the type of the item
    index: int | None = None  # of its block, once there is one
    streamed: bool = False  # whether something of it came in deltas
    parted: bool = False  # whether what comes next begins a part


class ResponsesAnswer(OpenAIAnswer):
    """An answer so far. Each item becomes a block.

    What the API adds to its items is skipped.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._open: dict[int, _OpenItem] = {}
        self._has_calls = False
        self._refusal: list[str] = []

    def added_by(self, event: object) -> Iterator[AssistantMessageEvent]:
        """Return what an event adds to the answer; see ``OpenAIAnswer``."""
        if not self.started:
            self.started = True
            yield self.growing.start()
        match cast("JsonObject", event):
            case {"type": str(kind), "output_index": int(number), "delta": str(delta)} if kind in _UNDERSTOOD:
                yield from self._append(number, kind, delta)
            case {"type": "response.output_item.added", "output_index": int(number), "item": {**item}}:
                yield from self._begin(number, item)
            case {"type": "response.output_item.done", "output_index": int(number), "item": {**item}}:
                yield from self._finish(number, item)
            case {"type": "response.reasoning_summary_part.added", "output_index": int(number)}:
                self._item(number).parted = self._item(number).streamed
            case {"type": str(kind), "response": {**response}} if kind in _ENDS:
                self._stop(kind, response)
            case {"type": "response.created", "response": {**response}}:
                self.growing.response_id = text_in(response, "id") or None
            case {"type": "error", **fields}:
                raise StreamedError(fields)
            case {"type": str(kind)} if kind not in _UNDERSTOOD:
                pass
            case _:
                raise BadEventError(f"an unexpected event {json.dumps(event)[:200]}")

    def delta_in(self, event: object) -> tuple[object, str] | None:
        """Return the delta of an event; see ``handling.GrowingAnswer``."""
        match cast("JsonObject", event):
            case {"type": str(kind), "output_index": int(number), "delta": str(delta)} if kind in _UNDERSTOOD:
                return (kind, number), delta
            case _:
                return None

    def with_delta(self, event: JsonObject, text: str) -> JsonObject:
        """Return an event with another text; see ``handling.GrowingAnswer``.

        Returns:
            An event that says the same with this text.
        """
        return {**event, "delta": text}

    def end(self) -> Iterator[AssistantMessageEvent]:
        """Close the open blocks; see ``OpenAIAnswer``."""
        for item in self._open.values():
            if item.index is not None:
                yield self.growing.close(item.index)
        if self._has_calls and self.stop_reason == "stop":
            self.stop_reason: StopReason = "toolUse"

    def _item(self, number: int) -> _OpenItem:
        if number not in self._open:
            raise BadEventError(f"something of item {number}, which is not open")
        return self._open[number]

    def _begin(self, number: int, fields: JsonObject) -> Iterator[AssistantMessageEvent]:
        if number in self._open:
            raise BadEventError(f"item {number} begins out of turn")
        if len(self._open) >= MAX_BLOCKS:
            raise AnswerTooLargeError(f"the answer has more than {MAX_BLOCKS:,} blocks")
        item = self._open[number] = _OpenItem(text_in(fields, "type"))
        if item.kind == "function_call":
            call_id = text_in(fields, "call_id") or text_in(fields, "id")
            self._has_calls = True
            opened = self.growing.open_tool_call(call_id, text_in(fields, "name"))
            item.index = opened.content_index
            yield opened

    def _append(self, number: int, kind: str, delta: str) -> Iterator[AssistantMessageEvent]:
        item = self._item(number)
        if kind == "response.refusal.delta":
            self.growing.reserve(len(delta))
            self._refusal.append(delta)
        elif kind in _TEXT_DELTAS:
            yield from self._extend(item, "message", delta)
        elif kind in _THINKING_DELTAS:
            yield from self._extend(item, "reasoning", delta)
        else:
            yield from self._extend(item, "function_call", delta)

    def _extend(
        self, item: _OpenItem, kind: Literal["message", "reasoning", "function_call"], text: str
    ) -> Iterator[AssistantMessageEvent]:
        if item.kind != kind:
            raise BadEventError(f"a delta of a {kind} in a {item.kind}")
        if not text:
            return
        if item.index is None:
            opened = self.growing.open_text() if kind == "message" else self.growing.open_thinking()
            item.index = opened.content_index
            yield opened
        yield self.growing.append(item.index, f"\n\n{text}" if item.parted else text)
        item.streamed, item.parted = True, False

    def _finish(self, number: int, fields: JsonObject) -> Iterator[AssistantMessageEvent]:
        if number not in self._open:
            yield from self._begin(number, fields)
        item = self._item(number)
        match item.kind:
            case "message":
                if not item.streamed:
                    yield from self._extend(item, "message", _whole_text(fields, "content"))
                yield from self._close(number)
                block = self.growing.block(item.index) if item.index is not None else None
                if isinstance(block, TextContent) and (phase := text_in(fields, "phase")):
                    self.growing.reserve(len(phase))
                    block.text_signature = phase
            case "reasoning":
                if not item.streamed:
                    yield from self._extend(item, "reasoning", _whole_text(fields, "summary"))
                yield from self._finish_reasoning(number, fields)
            case "function_call":
                if not item.streamed:
                    yield from self._extend(item, "function_call", text_in(fields, "arguments"))
                yield from self._close(number)
            case _:
                del self._open[number]

    def _finish_reasoning(self, number: int, fields: JsonObject) -> Iterator[AssistantMessageEvent]:
        item, signature = self._item(number), None
        if encrypted := text_in(fields, "encrypted_content"):
            signature = json.dumps({"encrypted_content": encrypted, "summary": list_in(fields, "summary")})
            if item.index is None:
                opened = self.growing.open_thinking()
                item.index = opened.content_index
                yield opened
        yield from self._close(number, signature, redacted=None if item.streamed else True)

    def _close(
        self, number: int, signature: str | None = None, *, redacted: bool | None = None
    ) -> Iterator[AssistantMessageEvent]:
        item = self._open.pop(number)
        if item.index is not None:
            yield self.growing.close(item.index, signature=signature, redacted=redacted)

    def _stop(self, kind: str, response: JsonObject) -> None:
        usage = object_in(response, "usage")
        details = object_in(usage, "input_tokens_details")
        self.count(
            prompt=number_in(usage, "input_tokens"),
            cached=number_in(details, "cached_tokens"),
            written=number_in(details, "cache_write_tokens"),
            output=number_in(usage, "output_tokens"),
            total=number_in(usage, "total_tokens"),
            tier=response.get("service_tier"),
        )
        if kind == "response.failed":
            raise StreamedError(object_in(response, "error"))
        self.whole = self.complete = True
        if self._refusal:
            self.problem: str | None = refusal("".join(self._refusal))
        elif kind == "response.incomplete":
            self.stop_reason = "length"
            if text_in(object_in(response, "incomplete_details"), "reason") == "content_filter":
                self.problem = FILTERED


def _whole_text(fields: JsonObject, name: str) -> str:
    """Return the text of an item that did not come in deltas."""
    parts = [cast("JsonObject", part) for part in list_in(fields, name) if isinstance(part, dict)]
    return "\n\n".join(text_in(part, "text") for part in parts)
