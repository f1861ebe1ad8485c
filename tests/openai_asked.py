"""Asking a model of ``OpenAIApi``, and parts of what such a server sends."""

from __future__ import annotations

from typing import Any

from messages_api import End, Raw, Reply, sse
from openai_api import OpenAIApi, data
from pictures import DOT

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from indus_nb.base.streaming import StreamDone, StreamError
from indus_nb.models import Context, Model, StreamOptions, ToolSpec
from indus_nb.models.apis.openai import OpenAICompletionsProvider, OpenAIResponsesProvider
from indus_nb.models.catalog import ModelCost

KEY = "sk-very-secret-indeed"
LS = ToolSpec("ls", "Lists.", {"type": "object", "properties": {}})
IMAGE = ImageContent(data=DOT, mime_type="image/png")
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}"}}
HI = UserMessage(content="Hi")


def model_at(server: OpenAIApi, api: str = "completions", **fields: Any) -> Model:
    known = {"id": "m", "name": "Model", "provider": "local", "base_url": server.v1, "input": ["text", "image"]}
    return Model(**{**known, "api": f"openai-{api}", "cost": ModelCost(input=2, output=10, cache_read=0.5), **fields})


async def ask(model: Model, *messages: ModelMessage, system: str = "", tools=(), **options):
    context = Context(system, messages or (HI,), tools)
    provider = OpenAIResponsesProvider() if model.api == "openai-responses" else OpenAICompletionsProvider()
    wishes = StreamOptions(**{"api_key": KEY, **options})
    return [event async for event in provider.stream(model, context, wishes)]


async def answer(model: Model, *messages: ModelMessage, **wishes) -> AssistantMessage:
    last = (await ask(model, *messages, **wishes))[-1]
    assert isinstance(last, StreamDone), last
    return last.message


async def failure(model: Model, **wishes) -> AssistantMessage:
    last = (await ask(model, **wishes))[-1]
    assert isinstance(last, StreamError), last
    return last.error


async def body_of(server: OpenAIApi, *messages: ModelMessage, model: Model | None = None, **wishes) -> dict[str, Any]:
    server.add("x")
    await answer(model or model_at(server), *messages, **wishes)
    return server.requests[-1].body


def said(model: Model, *blocks: TextContent | ThinkingContent | ToolCall) -> AssistantMessage:
    return AssistantMessage(content=list(blocks), api=model.api, provider=model.provider, model=model.id)


def result(call_id: str, *content: TextContent | ImageContent) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="ls", content=list(content))


# --- pieces of chat completions --------------------------------------------------------------------------------------


def delta(finish_reason: str | None = None, **fields: Any) -> Raw:
    return Raw(data({"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}))


def calling(*pieces: dict[str, Any], finish_reason: str = "tool_calls") -> Reply:
    return Reply(*(delta(tool_calls=[piece]) for piece in pieces), delta(finish_reason), End())


def piece(arguments: Any, name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"arguments": arguments, **({"name": name} if name else {})}}


# --- events of responses ---------------------------------------------------------------------------------------------


def event(kind: str, index: int = 0, **fields: Any) -> Raw:
    return Raw(sse({"type": f"response.{kind}", "output_index": index, **fields}))


def item(kind: str, change: str, index: int = 0, **fields: Any) -> Raw:
    return event(f"output_item.{change}", index, item={"type": kind, **fields})
