"""What answers cost: a table of usages as servers report them, with the dollars that their price lists make of these.

The dollars are worked out by hand, from the lists and not from the package: each row writes out its sum.
"""

from __future__ import annotations

from typing import Any

import pytest
from messages_api import End, Raw, Reply, sse
from openai_api import data

from indus_nb.base.messages import AssistantMessage, UserMessage
from indus_nb.models import Context, Model, StreamOptions
from indus_nb.models.apis.adapters import adapter
from indus_nb.models.catalog import find_model

HAIKU, SONNET = find_model("claude-haiku-4-5"), find_model("claude-sonnet-4-6")  # 1/5 and 3/15 dollars for a million
SMALL = find_model("claude-haiku-5-5")  # 0.1/0.5; above 100,000 tokens of the prompt 0.5/2.5
SOL, GPT55, MINI = find_model("gpt-5.6-sol"), find_model("gpt-5.5"), find_model("gpt-5-mini")
GEMINI = find_model("gemini-2.5-flash")
ROUTED = find_model("openrouter/anthropic/claude-sonnet-4.5")
UNPRICED = find_model("openrouter/openrouter/auto")
MILLION = 1_000_000


async def answered(server: Any, model: Model, reply: Reply, **options: Any) -> AssistantMessage:
    server.add(reply)
    url = server.url if model.api.startswith("anthropic") else server.v1
    context = Context("", [UserMessage(content="x")])
    wishes = StreamOptions(**{"api_key": "k", **options})
    events = [event async for event in adapter(model.api).stream(model.replace(base_url=url), context, wishes)]
    assert events[-1].type == "done"
    return events[-1].message


def claude(**usage: Any) -> Reply:
    return Reply("x", usage={"input_tokens": 1000, **usage}, final_usage={"output_tokens": 100})


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        pytest.param(HAIKU, {}, (1000 * 1 + 100 * 5) / MILLION, id="plain"),
        pytest.param(
            SONNET,
            {"cache_read_input_tokens": 5000, "cache_creation_input_tokens": 200},
            (1000 * 3 + 100 * 15 + 5000 * 0.30 + 200 * 3.75) / MILLION,
            id="read, and written for five minutes",
        ),
        pytest.param(
            SONNET,
            {"cache_creation_input_tokens": 9000, "cache_creation": {"ephemeral_1h_input_tokens": 9000}},
            (1000 * 3 + 100 * 15 + 9000 * 6) / MILLION,
            id="written for an hour",
        ),
        pytest.param(
            SONNET,
            {
                "cache_creation_input_tokens": 9000,
                "cache_creation": {"ephemeral_1h_input_tokens": 4000, "ephemeral_5m_input_tokens": 5000},
            },
            (1000 * 3 + 100 * 15 + 4000 * 6 + 5000 * 3.75) / MILLION,
            id="written for both",
        ),
        pytest.param(SONNET, {"service_tier": "batch"}, (1000 * 3 + 100 * 15) / 2 / MILLION, id="in a batch"),
        pytest.param(SONNET, {"service_tier": "standard"}, (1000 * 3 + 100 * 15) / MILLION, id="not in a batch"),
        pytest.param(SONNET, {"inference_geo": "us"}, (1000 * 3 + 100 * 15) * 1.1 / MILLION, id="in one country"),
        pytest.param(
            SONNET,
            {"inference_geo": "us", "service_tier": "batch"},
            (1000 * 3 + 100 * 15) * 1.1 / 2 / MILLION,
            id="in a batch in one country",
        ),
        pytest.param(
            SONNET,
            {"server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 7}},
            (1000 * 3 + 100 * 15) / MILLION + 3 * 0.01,
            id="searches cost, what is fetched does not",
        ),
        pytest.param(
            SMALL,
            {"input_tokens": 100_000, "cache_read_input_tokens": 1},
            (100_000 * 0.5 + 100 * 2.5 + 1 * 0.05) / MILLION,
            id="a long prompt",
        ),
        pytest.param(SMALL, {"input_tokens": 100_000}, (100_000 * 0.1 + 100 * 0.5) / MILLION, id="not yet a long one"),
    ],
)
async def test_claude(server, model, usage, dollars):
    cost = (await answered(server, model, claude(**usage))).usage.cost
    assert cost.total == pytest.approx(dollars)
    assert cost.unknown is None


async def test_the_fast_mode_of_claude_costs_more_by_an_unknown_share(server):
    assert (await answered(server, SONNET, claude(speed="fast"))).usage.cost.unknown


def chat(usage: dict[str, Any], **chunk: Any) -> Reply:
    whole = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100, **usage}
    ending = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": whole, **chunk}
    return Reply("x", Raw(data(ending)), End())


@pytest.mark.parametrize(
    ("model", "usage", "chunk", "dollars"),
    [
        pytest.param(GEMINI, {}, {}, (1000 * 0.3 + 100 * 2.5) / MILLION, id="Google"),
        pytest.param(
            GEMINI,
            {"total_tokens": 1500},
            {},
            (1000 * 0.3 + 500 * 2.5) / MILLION,
            id="Google, which thinks",
        ),
        pytest.param(
            GEMINI,
            {"prompt_tokens_details": {"cached_tokens": 400}},
            {},
            (600 * 0.3 + 400 * 0.03 + 100 * 2.5) / MILLION,
            id="Google, cached",
        ),
        pytest.param(
            MINI.replace(api="openai-completions"),
            {"prompt_tokens_details": {"cached_tokens": 400}},
            {},
            (600 * 0.25 + 400 * 0.025 + 100 * 2) / MILLION,
            id="OpenAI, cached",
        ),
        pytest.param(
            MINI.replace(api="openai-completions"),
            {},
            {"service_tier": "flex"},
            (1000 * 0.25 + 100 * 2) / 2 / MILLION,
            id="OpenAI, when there is room",
        ),
        pytest.param(
            MINI.replace(api="openai-completions"),
            {},
            {"service_tier": "priority"},
            (1000 * 0.45 + 100 * 3.6) / MILLION,
            id="OpenAI, before others",
        ),
        pytest.param(
            MINI.replace(api="openai-completions", provider="groq"),
            {},
            {"service_tier": "flex"},
            (1000 * 0.25 + 100 * 2) / MILLION,
            id="a tier of that name elsewhere",
        ),
        pytest.param(ROUTED, {"cost": 0.0123}, {}, 0.0123, id="OpenRouter says what it cost"),
        pytest.param(
            ROUTED,
            {"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}},
            {},
            0.021,
            id="OpenRouter with a key of one's own",
        ),
        pytest.param(UNPRICED, {"cost": 0.5}, {}, 0.5, id="what OpenRouter says of a model without a price"),
    ],
)
async def test_chat_completions(server, model, usage, chunk, dollars):
    cost = (await answered(server, model, chat(usage, **chunk))).usage.cost
    assert cost.total == pytest.approx(dollars)
    assert cost.unknown is None


@pytest.mark.parametrize(("retention", "written"), [("short", 3.75), ("long", 6)])
async def test_what_a_gateway_has_written_for_claude_costs_what_was_asked_for(server, retention, written):
    usage = {"prompt_tokens_details": {"cached_tokens": 300, "cache_write_tokens": 500}}
    keeps = ROUTED.replace(compat={"supportsLongCacheRetention": True})
    message = await answered(server, keeps, chat(usage), cache_retention=retention)
    assert message.usage.cost.total == pytest.approx((200 * 3 + 300 * 0.3 + 500 * written + 100 * 15) / MILLION)


async def test_a_model_without_a_price_costs_what_nobody_knows(server):
    cost = (await answered(server, UNPRICED, chat({}))).usage.cost
    assert (cost.unknown, cost.total) == (True, 0)


def response(usage: dict[str, Any], **fields: Any) -> Reply:
    whole = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100, **usage}
    return Reply("x", Raw(sse({"type": "response.completed", "response": {"usage": whole, **fields}})), End())


@pytest.mark.parametrize(
    ("model", "usage", "fields", "dollars"),
    [
        pytest.param(SOL, {}, {}, (1000 * 4 + 100 * 20) / MILLION, id="plain"),
        pytest.param(
            SOL,
            {"input_tokens_details": {"cached_tokens": 300, "cache_write_tokens": 500}},
            {"service_tier": "default"},
            (200 * 4 + 300 * 0.4 + 500 * 5 + 100 * 20) / MILLION,
            id="read and written",
        ),
        pytest.param(
            GPT55,
            {"input_tokens_details": {"cached_tokens": 300, "cache_write_tokens": 0}},
            {"service_tier": "priority"},
            (700 * 5 + 300 * 0.5 + 100 * 30) * 2.5 / MILLION,
            id="before others",
        ),
        pytest.param(SOL, {}, {"service_tier": "priority"}, (1000 * 8 + 100 * 40) / MILLION, id="before others, too"),
        pytest.param(SOL, {}, {"service_tier": "flex"}, (1000 * 2 + 100 * 10) / MILLION, id="when there is room"),
        pytest.param(
            SOL,
            {"input_tokens": 272_001, "total_tokens": 272_101},
            {},
            (272_001 * 8 + 100 * 30) / MILLION,
            id="a long prompt",
        ),
    ],
)
async def test_responses(server, model, usage, fields, dollars):
    cost = (await answered(server, model, response(usage, **fields))).usage.cost
    assert cost.total == pytest.approx(dollars)
    assert cost.unknown is None
