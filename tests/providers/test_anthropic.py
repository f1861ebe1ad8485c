"""The Anthropic provider against a real local server: what it sends, what it makes of answers, how it fails."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from contextlib import aclosing

import pytest
from messages_api import (
    Cut,
    End,
    Gate,
    HttpError,
    MessagesApi,
    Page,
    Raw,
    Redacted,
    Reply,
    SseError,
    Text,
    Thinking,
    ToolUse,
)
from pictures import DOT, encoded
from work import counting_work

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from indus_nb.base.streaming import AssistantMessageEvent, StreamDone, StreamError, StreamStart
from indus_nb.models import Context, Model, StreamOptions, ToolSpec
from indus_nb.models.apis.anthropic import AnthropicProvider
from indus_nb.models.catalog import find_model

JPEG = encoded(kind="JPEG")

KEY = "sk-ant-very-secret"
HAIKU = find_model("claude-haiku-4-5")
MARK = {"type": "ephemeral"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, messages_api: MessagesApi) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)


async def ask(
    *messages: ModelMessage,
    model: Model = HAIKU,
    options: StreamOptions | None = None,
    system: str = "Be brief.",
    tools: tuple[ToolSpec, ...] = (),
    idle_timeout: float = 10,
) -> list[AssistantMessageEvent]:
    context = Context(system, messages or (UserMessage(content="Hi"),), tools)
    provider = AnthropicProvider(idle_timeout=idle_timeout)
    return [event async for event in provider.stream(model, context, options or StreamOptions(api_key=KEY))]


async def answer(*messages: ModelMessage, **wishes) -> AssistantMessage:
    last = (await ask(*messages, **wishes))[-1]
    assert isinstance(last, StreamDone), last
    return last.message


async def failure(**wishes) -> AssistantMessage:
    events = await ask(**wishes)
    assert isinstance(events[0], StreamStart)
    assert isinstance(events[-1], StreamError), events[-1]
    assert KEY not in (events[-1].error.error_message or "")
    return events[-1].error


def kinds(events: list[AssistantMessageEvent]) -> list[str]:
    return [event.type for event in events]


def said(*blocks: TextContent | ThinkingContent | ToolCall, **origin: str) -> AssistantMessage:
    return AssistantMessage(
        content=list(blocks),
        api="anthropic-messages",
        provider=origin.get("provider", "anthropic"),
        model=origin.get("model", "claude-haiku-4-5"),
    )


def result(call_id: str, *content: TextContent | ImageContent, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=list(content), is_error=is_error)


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_text_comes_in_the_servers_deltas(messages_api):
    messages_api.add(Reply("Hello there, friend.", chunk=6))
    events = await ask()
    assert kinds(events) == ["start", "text_start", *["text_delta"] * 4, "text_end", "done"]
    assert [event.delta for event in events if event.type == "text_delta"] == ["Hello ", "there,", " frien", "d."]
    message = events[-1].message
    assert (message.text, message.stop_reason, message.response_id) == ("Hello there, friend.", "stop", "msg_01")
    assert (message.api, message.provider, message.model) == ("anthropic-messages", "anthropic", "claude-haiku-4-5")


async def test_thinking_keeps_its_signature_and_redacted_thinking_its_data(messages_api):
    messages_api.add(Reply(Thinking("Let me see.", "c2lnLTE="), Redacted("b3BhcXVl"), "4"))
    events = await ask()
    assert events[-1].message.content == [
        ThinkingContent(thinking="Let me see.", thinking_signature="c2lnLTE="),
        ThinkingContent(thinking="", thinking_signature="b3BhcXVl", redacted=True),
        TextContent(text="4"),
    ]
    ends = ["thinking_start", "thinking_delta", "thinking_end", "thinking_start", "thinking_end"]
    assert kinds(events)[1:6] == ends


async def test_an_answer_that_nobody_watches_comes_whole_and_is_the_same_message(messages_api):
    reply = Reply(Thinking("Let me see.", "c2lnLTE="), Redacted("b3BhcXVl"), "4", ToolUse("ls", {"path": "größe"}))
    messages_api.add(reply, reply)
    streamed = await answer()
    whole = await answer(options=StreamOptions(api_key=KEY, max_tokens=100, is_streamed=False))
    assert ["stream" in request.body for request in messages_api.requests] == [True, False]
    assert whole.content[:3] == streamed.content[:3]
    assert (whole.tool_calls[0].name, whole.tool_calls[0].arguments) == ("ls", {"path": "größe"})
    assert (whole.usage, whole.stop_reason) == (streamed.usage, streamed.stop_reason)


async def test_an_answer_that_may_be_long_is_streamed_even_if_nobody_watches(messages_api):
    messages_api.default = Reply("Hello")
    for longest, patience in ((None, None), (20_000, None), (4000, 60), (4000, None)):
        options = StreamOptions(api_key=KEY, max_tokens=longest, idle_timeout=patience, is_streamed=False)
        await answer(options=options)
    assert [request.body.get("stream", False) for request in messages_api.requests] == [True, True, True, False]


async def test_a_server_that_streams_whatever_it_is_asked_is_read(messages_api):
    messages_api.add(Reply("Hello ", Raw(b": a comment\n\n"), "there"))
    message = await answer(options=StreamOptions(api_key=KEY, max_tokens=100, is_streamed=False))
    assert message.text == "Hello there"


@pytest.mark.parametrize("body", ['{"type": "news", "text": "x"}', '"Hello"', "{", "[" * 100_000])
async def test_json_that_is_no_message_is_an_error_that_quotes_it(messages_api, body):
    messages_api.add(Page(body, "application/json"))
    failed = await failure(options=StreamOptions(api_key=KEY, max_tokens=100, is_streamed=False))
    assert "did not answer as the API does" in failed.error_message
    assert len(failed.error_message) < 1000


async def test_tool_calls_stream_their_arguments(messages_api):
    calls = ToolUse("bash", {"command": "ls -l"}), ToolUse("read", {"path": "größe"})
    messages_api.add(Reply("Running.", *calls, chunk=5))
    events = await ask()
    message = events[-1].message
    assert message.stop_reason == "toolUse"
    assert message.tool_calls == [
        ToolCall(id="toolu_01_1", name="bash", arguments={"command": "ls -l"}),
        ToolCall(id="toolu_01_2", name="read", arguments={"path": "größe"}),
    ]
    pieces = [event.delta for event in events if event.type == "toolcall_delta" and event.content_index == 1]
    assert len(pieces) > 2
    assert "".join(pieces) == '{"command": "ls -l"}'
    assert "" not in pieces


async def test_a_tool_call_without_arguments_has_empty_ones_and_broken_arguments_are_marked(messages_api):
    messages_api.add(Reply(ToolUse("ls", ""), ToolUse("bash", '{"command": "l')))
    bare, broken = (await answer()).tool_calls
    assert (bare.arguments, bare.malformed) == ({}, None)
    assert (broken.arguments, broken.malformed) == ({}, '{"command": "l')


def event(kind: str, **fields) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


async def test_arguments_that_come_with_the_opening_of_a_call_count_until_deltas_come(messages_api):
    call = {"type": "tool_use", "name": "ls", "input": {"path": "x"}}
    delta = {"type": "input_json_delta", "partial_json": '{"path": "y"}'}
    messages_api.add(
        Reply(
            Raw(event("content_block_start", index=0, content_block={**call, "id": "whole"})),
            Raw(event("content_block_stop", index=0)),
            Raw(event("content_block_start", index=1, content_block={**call, "id": "streamed"})),
            Raw(event("content_block_delta", index=1, delta=delta)),
            Raw(event("content_block_stop", index=1)),
        )
    )
    assert (await answer()).tool_calls == [
        ToolCall(id="whole", name="ls", arguments={"path": "x"}),
        ToolCall(id="streamed", name="ls", arguments={"path": "y"}),
    ]


async def test_unknown_events_and_blocks_are_passed_over(messages_api):
    novelty = Raw(
        event("news")
        + event("content_block_start", index=9, content_block={"type": "novelty"})
        + event("content_block_delta", index=9, delta={"type": "novelty_delta"})
        + event("content_block_stop", index=9)
    )
    messages_api.add(Reply(novelty, "Hello"))
    assert (await answer()).content == [TextContent(text="Hello")]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "toolUse"),
        ("never_heard_of", "stop"),
    ],
)
async def test_stop_reasons(messages_api, theirs, ours):
    messages_api.add(Reply("x", stop_reason=theirs))
    assert (await answer()).stop_reason == ours


async def test_a_refusal_is_an_error_with_the_servers_explanation_and_keeps_the_text(messages_api):
    messages_api.add(Reply("No", stop_reason="refusal", stop_details={"type": "refusal", "explanation": "Too risky."}))
    failed = await failure()
    assert failed.text == "No"
    assert failed.error_message.startswith("The model refused to answer. Too risky.")


async def test_usage_is_there_from_the_start_and_priced_at_the_end(messages_api):
    first = {"input_tokens": 1000, "cache_read_input_tokens": 5000, "cache_creation_input_tokens": 200}
    messages_api.add(Reply("x", usage=first, final_usage={"output_tokens": 300, "input_tokens": None}))
    provider = AnthropicProvider()
    async with aclosing(provider.stream(HAIKU, Context("", [UserMessage(content="x")]), StreamOptions())) as events:
        start = await anext(events)
        early = start.growing.usage
        assert (early.input, early.output, early.cache_read, early.cache_write) == (1000, 1, 5000, 200)
        usage = [event async for event in events][-1].message.usage
    assert (usage.input, usage.output, usage.total_tokens) == (1000, 300, 6500)
    # claude-haiku-4-5 costs 1, 5, 0.1 and 1.25 dollars for a million tokens
    assert usage.cost.total == pytest.approx((1000 * 1 + 300 * 5 + 5000 * 0.1 + 200 * 1.25) / 1e6)
    assert usage.cost.cache_read == pytest.approx(0.0005)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (
            {"cache_creation_input_tokens": 1000, "cache_creation": {"ephemeral_1h_input_tokens": 400}},
            (100 * 1 + 20 * 5 + 600 * 1.25 + 400 * 2) / 1e6,
        ),
        ({"service_tier": "batch"}, (100 * 1 + 20 * 5) / 2e6),
        ({"inference_geo": "us"}, (100 * 1 + 20 * 5) * 1.1 / 1e6),
        ({"server_tool_use": {"web_search_requests": 3}}, (100 * 1 + 20 * 5) / 1e6 + 0.03),
    ],
)
async def test_what_changes_the_price_of_an_answer_is_counted(messages_api, usage, dollars):
    messages_api.add(Reply("x", usage=usage))
    assert (await answer()).usage.cost.total == pytest.approx(dollars)


# --- requests --------------------------------------------------------------------------------------------------------


async def test_the_cache_marks_stand_on_the_system_prompt_and_where_the_user_has_ended(messages_api):
    messages_api.add("x")
    tools = (
        ToolSpec("read", "Reads.", {"type": "object", "properties": {}}),
        ToolSpec("bash", "Runs.", {"type": "object", "properties": {}}),
    )
    earlier = UserMessage(content="One"), said(TextContent(text="Two"))
    await answer(*earlier, UserMessage(content=[TextContent(text="a"), TextContent(text="b")]), tools=tools)
    body = messages_api.requests[0].body
    assert body["stream"] is True
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert body["tools"] == [
        {
            "name": "read",
            "description": "Reads.",
            "input_schema": {"type": "object", "properties": {}},
            "eager_input_streaming": True,
        },
        {
            "name": "bash",
            "description": "Runs.",
            "input_schema": {"type": "object", "properties": {}},
            "eager_input_streaming": True,
        },
    ]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "One", "cache_control": MARK}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Two"}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": MARK}],
        },
    ]


async def test_no_system_prompt_and_no_tools_leave_no_trace(messages_api):
    messages_api.add("x")
    await answer(system=" \n")
    assert not {"system", "tools"} & messages_api.requests[0].body.keys()


async def test_the_results_of_one_turn_go_into_one_user_message(messages_api):
    messages_api.add("x")
    calls = [ToolCall(id=f"t{n}", name="bash", arguments={"n": n}) for n in (1, 2)]
    picture = ImageContent(data=DOT, mime_type="image/png")
    await answer(
        UserMessage(content="Go"),
        said(*calls),
        result("t1", TextContent(text="out"), picture),
        result("t2", is_error=True),
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DOT}}
    assert messages_api.requests[0].body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": f"t{n}", "name": "bash", "input": {"n": n}} for n in (1, 2)],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "out"}, image],
                    "is_error": False,
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [{"type": "text", "text": "(no output)"}],
                    "is_error": True,
                    "cache_control": MARK,
                },
            ],
        },
    ]


async def test_images_of_a_user_are_sent_by_value_or_by_address(messages_api):
    messages_api.add("x")
    pictures = ImageContent(data=JPEG, mime_type="image/jpeg"), ImageContent(source=UrlSource(url="https://a/b.png"))
    await answer(UserMessage(content=[*pictures]))
    assert [block["source"] for block in messages_api.requests[0].body["messages"][0]["content"]] == [
        {"type": "base64", "media_type": "image/jpeg", "data": JPEG},
        {"type": "url", "url": "https://a/b.png"},
    ]


async def test_a_model_that_sees_nothing_is_told_of_the_image(messages_api):
    messages_api.add("x")
    blind = HAIKU.replace(input=["text"])
    await answer(UserMessage(content=[ImageContent(data=DOT, mime_type="image/png")]), model=blind)
    assert "image was left out" in messages_api.requests[0].texts[0]


async def test_blank_text_is_never_sent(messages_api):
    messages_api.add("x")
    blank = TextContent(text=" \n")
    await answer(
        UserMessage(content="  "),
        UserMessage(content=[blank, TextContent(text="Hi")]),
        said(blank),
        said(TextContent(text=""), TextContent(text="Yes")),
        UserMessage(content="Go on"),
    )
    texts = [[block["text"] for block in message["content"]] for message in messages_api.requests[0].body["messages"]]
    assert texts == [["Hi"], ["Yes"], ["Go on"]]


async def test_only_thinking_that_this_model_signed_goes_back_as_thinking(messages_api):
    messages_api.add("x")
    signed = ThinkingContent(thinking="mine", thinking_signature="c2ln")
    wordless = ThinkingContent(thinking="", thinking_signature="d29yZA==")
    redacted = ThinkingContent(thinking="", thinking_signature="b3BhcXVl", redacted=True)
    broken_off = ThinkingContent(thinking="half a")
    text = TextContent(text=".")
    await answer(
        UserMessage(content="Hi"),
        said(signed, wordless, redacted, broken_off, ThinkingContent(thinking=" "), text),
        UserMessage(content="And?"),
        said(signed, redacted, text, model="claude-opus-4-6"),
        UserMessage(content="And?"),
        said(signed, text, provider="offline"),
        UserMessage(content="Go on"),
    )
    messages = messages_api.requests[0].body["messages"]
    own, other_model, other_provider = [message["content"] for message in messages if message["role"] == "assistant"]
    assert own == [
        {"type": "thinking", "thinking": "mine", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": "d29yZA=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "half a"},
        {"type": "text", "text": "."},
    ]
    assert other_model == other_provider == [{"type": "text", "text": "mine"}, {"type": "text", "text": "."}]


async def test_foreign_call_ids_are_renamed_alike_in_call_and_result(messages_api):
    messages_api.add("x")
    foreign = ["call|1", "call 1", "", "x" * 65, "fine_id-1"]
    calls = [ToolCall(id=call_id, name="bash", arguments={}) for call_id in foreign]
    await answer(UserMessage(content="Hi"), said(*calls), *(result(call_id) for call_id in foreign))
    _, called, results = messages_api.requests[0].body["messages"]
    ids = [block["id"] for block in called["content"]]
    assert ids == [block["tool_use_id"] for block in results["content"]]
    assert len(set(ids)) == len(foreign)
    assert all(0 < len(i) <= 64 and i.replace("_", "").replace("-", "").isalnum() for i in ids)
    assert ids[-1] == "fine_id-1"


async def test_half_surrogates_do_not_stop_a_request(messages_api):
    messages_api.add("x")
    call = ToolCall(id="t1", name="bash", arguments={"a\ud83d": ["\ud83d"]})
    await answer(UserMessage(content="a\ud83d b"), said(call), result("t1"), system="s\udc00")
    body = messages_api.requests[0].body
    assert body["messages"][0]["content"][0]["text"] == "a� b"
    assert body["messages"][1]["content"][0]["input"] == {"a�": ["�"]}


@pytest.mark.parametrize(
    ("level", "budget"),
    [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16384), ("xhigh", 16384)],
)
async def test_older_models_think_by_budget(messages_api, level, budget):
    messages_api.add("x")
    await answer(options=StreamOptions(thinking=level))
    body = messages_api.requests[0].body
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget, "display": "summarized"}
    assert body["max_tokens"] == 32000 + budget
    assert "output_config" not in body


async def test_budgets_can_be_set_and_stay_below_what_the_model_can_say(messages_api):
    messages_api.add("x", "x", "x")
    await answer(options=StreamOptions(thinking="minimal", thinking_budgets={"minimal": 10}))
    await answer(options=StreamOptions(thinking="low", thinking_budgets={"low": 5000}))
    await answer(options=StreamOptions(thinking="high", thinking_budgets={"high": 90000}))
    least, small, large = (request.body for request in messages_api.requests)
    assert least["thinking"]["budget_tokens"] == 1024  # the API takes no less
    assert (small["thinking"]["budget_tokens"], small["max_tokens"]) == (5000, 37000)
    assert (large["thinking"]["budget_tokens"], large["max_tokens"]) == (64000 - 1024, 64000)


async def test_off_disables_thinking(messages_api):
    messages_api.add("x")
    await answer()
    body = messages_api.requests[0].body
    assert (body["thinking"], body["max_tokens"]) == ({"type": "disabled"}, 32000)


@pytest.mark.parametrize(
    ("name", "level", "thinking", "effort", "max_tokens"),
    [
        ("claude-opus-4-6", "minimal", {"type": "adaptive", "display": "summarized"}, "low", 33024),
        ("claude-opus-4-6", "medium", {"type": "adaptive", "display": "summarized"}, "medium", 40192),
        ("claude-opus-4-6", "xhigh", {"type": "adaptive", "display": "summarized"}, "max", 128000),
        ("claude-opus-4-8", "xhigh", {"type": "adaptive", "display": "summarized"}, "xhigh", 128000),
        ("claude-opus-4-8", "off", {"type": "disabled"}, None, 32000),
        ("claude-fable-5", "off", {"type": "adaptive", "display": "summarized"}, "low", 32000),
        ("claude-sonnet-5-5", "off", {"type": "between_tools"}, None, 32000),
    ],
)
async def test_newer_models_think_by_effort(messages_api, name, level, thinking, effort, max_tokens):
    messages_api.add("x")
    await answer(model=find_model(name), options=StreamOptions(thinking=level))
    body = messages_api.requests[0].body
    assert body["thinking"] == thinking
    assert body.get("output_config", {}).get("effort") == effort
    assert body["max_tokens"] == max_tokens


async def test_thinking_that_is_bound_to_its_conversation_may_be_dropped_by_the_server(messages_api):
    messages_api.add("x")
    await answer(model=find_model("claude-opus-5-5"), options=StreamOptions(thinking="high"))
    request = messages_api.requests[0]
    assert request.body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert request.headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"


async def test_bound_thinking_stays_at_home_while_thinking_is_off(messages_api):
    messages_api.add("x")
    model = find_model("claude-haiku-5-5")
    thought = ThinkingContent(thinking="mine", thinking_signature="c2ln")
    earlier = said(thought, TextContent(text="Yes"), model=model.id)
    await answer(UserMessage(content="Hi"), earlier, UserMessage(content="Go on"), model=model)
    request = messages_api.requests[0]
    assert request.body["messages"][1]["content"] == [{"type": "text", "text": "Yes"}]
    assert "anthropic-beta" not in request.headers


async def test_a_model_that_cannot_think_is_not_asked_to(messages_api):
    messages_api.add("x")
    plain = HAIKU.replace(reasoning=False, thinking_style="none", max_tokens=8192)
    await answer(model=plain, options=StreamOptions(thinking="high"))
    body = messages_api.requests[0].body
    assert "thinking" not in body
    assert body["max_tokens"] == 8192


# --- keys ------------------------------------------------------------------------------------------------------------


def secrets(headers: dict[str, str]) -> set[str]:
    return {headers[name].removeprefix("Bearer ") for name in ("authorization", "x-api-key") if name in headers}


async def test_the_key_is_the_one_that_is_given(messages_api, monkeypatch):
    messages_api.add("x", "x")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    await answer(options=StreamOptions(api_key="explicit"))
    assert secrets(messages_api.requests[0].headers) == {"explicit"}


async def test_the_token_of_the_environment_is_sent_as_a_bearer_token(messages_api, monkeypatch):
    messages_api.add("x")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", " token \n")
    await answer(options=StreamOptions(api_key="token"))
    assert messages_api.requests[0].headers["authorization"] == "Bearer token"
    assert "x-api-key" not in messages_api.requests[0].headers


async def test_another_providers_server_is_asked_at_its_place_with_its_headers_and_none_of_our_keys(
    messages_api, monkeypatch
):
    messages_api.add("x")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    own = {"provider": "mine", "base_url": messages_api.url, "headers": {"X-Team": "blue"}}
    await answer(model=HAIKU.replace(**own), options=StreamOptions(thinking="off"))
    headers = messages_api.requests[0].headers
    assert headers["x-team"] == "blue"
    assert not {KEY, "token"} & {value.removeprefix("Bearer ") for value in headers.values()}


async def test_a_key_that_cannot_be_one_is_refused_without_showing_it(messages_api):
    assert "broken" not in (await failure(options=StreamOptions(api_key="sk-broken\nkey"))).error_message
    assert messages_api.requests == []


async def test_a_key_that_the_server_repeats_is_hidden(messages_api):
    messages_api.add(HttpError(401, "authentication_error", f"invalid x-api-key {KEY}"))
    message = (await failure()).error_message
    assert message.startswith("401 authentication_error: invalid x-api-key ***")
    assert "ANTHROPIC_API_KEY" in message


async def test_a_password_in_the_base_url_is_hidden(monkeypatch, messages_api):
    messages_api.add(HttpError(502, body="<html>"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url.replace("//", "//user:hidden@") + "/?token=hidden")
    assert (await failure()).error_message.startswith("502 Bad Gateway from http://127.0.0.1:")


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (HttpError(529, "overloaded_error", "Overloaded"), "529 overloaded_error: Overloaded"),
        (
            HttpError(429, "rate_limit_error", "Slow down", {"retry-after": "7"}),
            "429 rate_limit_error: Slow down (retry after 7 s)",
        ),
        (
            HttpError(429, "rate_limit_error", "Slow down", {"retry-after-ms": "1500"}),
            "429 rate_limit_error: Slow down (retry after 1.5 s)",
        ),
        (HttpError(400, "invalid_request_error", "too\nlong\x1b[31m!"), "400 invalid_request_error: too long [31m!"),
    ],
)
async def test_an_error_status_is_one_line_and_asked_once(messages_api, error, message):
    messages_api.add(error)
    failed = await failure()
    assert (failed.error_message, failed.stop_reason, failed.content) == (message, "error", [])
    assert len(messages_api.requests) == 1


async def test_a_monstrous_error_body_is_cut(messages_api):
    messages_api.add(HttpError(400, "invalid_request_error", "x" * 100_000))
    assert len((await failure()).error_message) < 600


@pytest.mark.parametrize(
    ("accident", "message"),
    [
        (Cut(), "Connection lost: the answer from {url} broke off"),
        (End(), "The stream from {url} ended early"),
        (SseError("overloaded_error", "Overloaded"), "overloaded_error: Overloaded (in the stream from {url})"),
        (
            Raw(b"event: content_block_delta\ndata: {nonsense\n\n"),
            "The answer from {url} broke off: a part of it is no JSON",
        ),
        (Raw(b"event: content_block_delta\ndata: 5\n\n"), "The stream from {url} is not what the Messages API sends"),
        (Raw(b"\xff\xff\n\n"), "The answer from {url} broke off"),
        (
            Raw(b'data: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'),
            "overloaded_error: Overloaded (in the stream from {url})",
        ),
        (
            Raw(b"data: " + b"[" * 200_000 + b"\n\n"),
            "The stream from {url} is not what the Messages API sends: data nested too deeply. ",
        ),
        (
            Raw(b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 7, "delta": {}}\n\n'),
            "The stream from {url} is not what the Messages API sends",
        ),
        (
            Raw(b'event: content_block_stop\ndata: {"type": "content_block_stop", "index": 7}\n\n'),
            "The stream from {url} is not what the Messages API sends",
        ),
    ],
)
async def test_a_stream_that_breaks_keeps_what_had_arrived(messages_api, accident, message):
    messages_api.add(Reply(Thinking("Hm", "c2ln"), Text("Half an ans", accident, "wer")))
    failed = await failure()
    assert failed.error_message.startswith(message.format(url=messages_api.url))
    assert failed.content == [
        ThinkingContent(thinking="Hm", thinking_signature="c2ln"),
        TextContent(text="Half an ans"),
    ]
    assert failed.usage.input == 100


# --- the end of a request --------------------------------------------------------------------------------------------


async def test_cancelling_closes_the_connection_and_leaves_nothing_behind(messages_api):
    gate = Gate()
    messages_api.add(Reply(Text("Half", gate, " more")))
    told: list[str] = []

    async def listen() -> None:
        provider = AnthropicProvider()
        async for event in provider.stream(HAIKU, Context("", [UserMessage(content="x")]), StreamOptions()):
            told.append(event.type)  # noqa: PERF401 - watched while it grows

    task = asyncio.create_task(listen())
    await asyncio.to_thread(gate.reached.wait, 240)
    while "text_delta" not in told:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(messages_api.requests[0].disconnected.wait, 10)
    assert told == ["start", "text_start", "text_delta"]
    gc.collect()  # an unclosed connection would warn here, and a warning is an error
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_before_the_answer_begins_closes_the_connection(messages_api):
    held = Gate()

    def hold(request):
        held.reached.set()
        return Reply(Gate())

    messages_api.add(hold)
    task = asyncio.create_task(ask())
    await asyncio.to_thread(held.reached.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(messages_api.requests[0].disconnected.wait, 10)


async def test_leaving_the_stream_early_closes_the_connection(messages_api):
    messages_api.add(Reply(Text("Half", Gate(), " more")))
    provider = AnthropicProvider()
    async with aclosing(provider.stream(HAIKU, Context("", [UserMessage(content="x")]), StreamOptions())) as events:
        async for event in events:
            if event.type == "text_delta":
                break
    assert await asyncio.to_thread(messages_api.requests[0].disconnected.wait, 10)


def test_one_provider_serves_several_event_loops(messages_api):
    messages_api.add("one", "two")
    provider = AnthropicProvider()

    async def once() -> str:
        context = Context("", [UserMessage(content="x")])
        return [event async for event in provider.stream(HAIKU, context, StreamOptions())][-1].message.text

    assert [asyncio.run(once()), asyncio.run(once())] == ["one", "two"]


async def test_a_deprecated_model_warns_nobody(messages_api):
    messages_api.add("x")  # warnings are errors here
    assert (await answer(model=find_model("claude-sonnet-4-5"))).text == "x"


async def test_two_requests_run_side_by_side(messages_api):
    gate = Gate()
    messages_api.add(Reply(Text("slow", gate)), "fast")
    slow = asyncio.create_task(answer())
    await asyncio.to_thread(gate.reached.wait, 240)
    assert (await answer()).text == "fast"
    gate.open()
    assert (await slow).text == "slow"


async def test_the_cost_of_a_delta_does_not_grow_with_the_answer(messages_api):
    async def measure(length: int) -> int:
        messages_api.add(Reply("x" * 4 * length, chunk=4))
        with counting_work() as work:
            assert len((await answer()).text) == 4 * length
        return work.lines

    await measure(10)
    assert await measure(600) < 2.2 * await measure(300)


def test_neither_the_provider_nor_its_preloading_loads_the_sdk():
    code = (
        "import sys, indus_nb.models.apis.anthropic as a\n"
        "assert 'h11' not in sys.modules\n"
        "a.AnthropicProvider().preload()\n"
        "assert 'h11' in sys.modules and 'anthropic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_prompt_in_a_fresh_process_never_loads_the_sdk_and_behind_preloading_nothing_else(messages_api):
    messages_api.add("Hello")
    code = (
        "import asyncio, sys\n"
        "from indus_nb.base.messages import UserMessage\n"
        "from indus_nb.models import Context, StreamOptions\n"
        "from indus_nb.models.apis.anthropic import AnthropicProvider\n"
        "from indus_nb.models.catalog import find_model\n"
        "provider = AnthropicProvider()\n"
        "provider.preload()\n"
        "before = set(sys.modules)\n"
        "async def ask():\n"
        "    context = Context('', [UserMessage(content='x')])\n"
        "    stream = provider.stream(find_model('claude-haiku-4-5'), context, StreamOptions(api_key='k'))\n"
        "    return [event async for event in stream][-1]\n"
        "assert asyncio.run(ask()).message.text == 'Hello'\n"
        "assert 'anthropic' not in sys.modules\n"
        "libraries = ('httpx2', 'httpcore2', 'anyio', 'h11')\n"
        "late = {name for name in set(sys.modules) - before if name.startswith(libraries)}\n"
        "assert not late, late\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
