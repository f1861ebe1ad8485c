"""What is peculiar to OpenAI's two APIs and to the servers that speak the older one; see also ``test_contract``."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from messages_api import Cut, End, Gate, HttpError, Raw, Reply, SseError, Text, Thinking, ToolUse, sse
from openai_api import OpenAIApi, data
from pictures import DOT
from work import counting_work

from indus_nb.loop.retry import is_overflow, is_passing
from indus_nb.messages import (
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
from indus_nb.providers import Context, Model, StreamOptions, ToolSpec
from indus_nb.providers.catalog import ModelCost
from indus_nb.providers.openai import OpenAICompletionsProvider, OpenAIResponsesProvider
from indus_nb.streaming import StreamDone, StreamError

KEY = "sk-very-secret-indeed"
LS = ToolSpec("ls", "Lists.", {"type": "object", "properties": {}})
IMAGE = ImageContent(data=DOT, mime_type="image/png")
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}"}}
HI = UserMessage(content="Hi")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[OpenAIApi]:
    with OpenAIApi() as api:
        yield api


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


# --- chat completions: requests --------------------------------------------------------------------------------------


async def test_a_request_for_completions_holds_what_every_server_understands(server):
    body = await body_of(server, HI, system="Be brief.", tools=(LS,))
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "tools": [
            {
                "type": "function",
                "function": {"name": "ls", "description": "Lists.", "parameters": {"type": "object", "properties": {}}},
            }
        ],
    }


async def test_no_system_prompt_and_no_tools_leave_no_trace(server):
    body = await body_of(server, system=" \n")
    assert (len(body["messages"]), "tools" in body) == (1, False)


async def test_the_limit_of_an_answer_has_the_name_that_the_server_knows(server):
    body = await body_of(server, max_tokens=500)
    assert body["max_completion_tokens"] == 500
    local = model_at(server, compat={"maxTokensField": "max_tokens"})
    body = await body_of(server, model=local, max_tokens=500)
    assert (body["max_tokens"], "max_completion_tokens" in body) == (500, False)


@pytest.mark.parametrize("api", ["completions", "responses"])
async def test_thinking_comes_on_top_of_the_limit_and_both_stay_below_the_models(server, api):
    name = "max_completion_tokens" if api == "completions" else "max_output_tokens"
    thinker = model_at(server, api, reasoning=True, max_tokens=10_000)
    assert (await body_of(server, model=thinker, max_tokens=500, thinking="low"))[name] == 2548
    budgets = {"low": 100}
    body = await body_of(server, model=thinker, max_tokens=500, thinking="low", thinking_budgets=budgets)
    assert body[name] == 600
    assert (await body_of(server, model=thinker, max_tokens=500, thinking="high"))[name] == 10_000
    assert (await body_of(server, model=thinker, max_tokens=500))[name] == 500
    assert name not in await body_of(server, model=thinker, thinking="low")


@pytest.mark.parametrize(
    ("fields", "level", "effort"),
    [
        ({}, "low", "low"),
        ({}, "off", None),
        ({}, "xhigh", "high"),
        ({"top_effort": "max"}, "xhigh", "max"),
        ({"thinking_level_map": {"off": "none", "minimal": "low"}}, "off", "none"),
        ({"thinking_level_map": {"off": "none", "minimal": "low"}}, "minimal", "low"),
        ({"thinking_level_map": {"high": None}}, "high", None),
        ({"reasoning": False}, "low", None),
        ({"compat": {"supportsReasoningEffort": False}}, "low", None),
    ],
)
async def test_how_much_to_think_is_said_in_the_models_words(server, fields, level, effort):
    for api in ("completions", "responses"):
        body = await body_of(server, model=model_at(server, api, **{"reasoning": True, **fields}), thinking=level)
        wanted = body.get("reasoning", {}).get("effort") if api == "responses" else body.get("reasoning_effort")
        assert wanted == effort


async def test_a_server_that_cannot_count_is_not_asked_to(server):
    body = await body_of(server, model=model_at(server, compat={"supportsUsageInStreaming": False}))
    assert "stream_options" not in body


async def test_text_goes_as_text_and_images_by_value_or_by_address(server):
    linked = ImageContent(source=UrlSource(url="https://a/b.png"))
    body = await body_of(
        server,
        UserMessage(content=[TextContent(text="a"), TextContent(text=" "), TextContent(text="b")]),
        UserMessage(content=[TextContent(text="c"), IMAGE, linked]),
    )
    assert [message["content"] for message in body["messages"]] == [
        "a\nb",
        [{"type": "text", "text": "c"}, PICTURE, {"type": "image_url", "image_url": {"url": "https://a/b.png"}}],
    ]


async def test_images_of_results_follow_the_last_result_of_the_turn(server):
    calls = [ToolCall(id=f"c{n}", name="ls", arguments={}) for n in (1, 2, 3)]
    body = await body_of(
        server,
        HI,
        said(model_at(server), *calls),
        result("c1", TextContent(text="one"), IMAGE),
        result("c2", IMAGE),
        result("c3"),
        UserMessage(content="Well?"),
    )
    assert body["messages"][2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "one\n(The image follows behind the results.)"},
        {"role": "tool", "tool_call_id": "c2", "content": "(The image follows behind the results.)"},
        {"role": "tool", "tool_call_id": "c3", "content": "(no output)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What ls gave back:"},
                PICTURE,
                {"type": "text", "text": "What ls gave back:"},
                PICTURE,
            ],
        },
        {"role": "user", "content": "Well?"},
    ]


async def test_what_says_nothing_is_not_sent(server):
    model = model_at(server)
    blank = TextContent(text=" \n")
    for api in ("completions", "responses"):
        body = await body_of(
            server,
            UserMessage(content="  "),
            HI,
            said(model, blank, ThinkingContent(thinking="hm")),
            said(model, blank, TextContent(text="Yes")),
            UserMessage(content="Go on"),
            model=model_at(server, api),
        )
        told = body.get("messages") or body["input"]
        assert [message["role"] for message in told] == ["user", "assistant", "user"]
        assert told[1] == {"role": "assistant", "content": "Yes"}


# --- chat completions: answers ---------------------------------------------------------------------------------------


def delta(finish_reason: str | None = None, **fields: Any) -> Raw:
    return Raw(data({"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}))


def calling(*pieces: dict[str, Any], finish_reason: str = "tool_calls") -> Reply:
    return Reply(*(delta(tool_calls=[piece]) for piece in pieces), delta(finish_reason), End())


def piece(arguments: Any, name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"arguments": arguments, **({"name": name} if name else {})}}


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [piece('{"a": 1}', "ls", index=0, id="c1"), piece('{"b": 2}', "ls", index=1, id="c2")], id="each-at-once"
        ),
        pytest.param([piece('{"a": 1}', "ls", id="c1"), piece('{"b": 2}', "ls", id="c2")], id="without-index"),
        pytest.param(
            [piece('{"a": 1}', "ls", index=0, id="c1"), piece('{"b": 2}', "ls", index=0, id="c2")], id="all-number-0"
        ),
        pytest.param([piece({"a": 1}, "ls", index=0, id="c1"), piece({"b": 2}, "ls", index=1, id="c2")], id="objects"),
        pytest.param(
            [
                piece('{"a"', "ls", index=0, id="c1"),
                piece(": 1}", "ls", index=0, id="c1"),
                piece('{"b": 2}', "ls", id="c2"),
            ],
            id="id-repeated",
        ),
        pytest.param(
            [
                piece("", "ls", index=0, id="c1"),
                piece("", "ls", index=1, id="c2"),
                piece('{"b"', index=1),
                piece('{"a": 1}', index=0),
                piece(": 2}", index=1),
            ],
            id="mixed",
        ),
        pytest.param(
            [
                piece('{"a"', "ls", id="c1"),
                piece(": 1}"),
                piece('{"b": 2}', "ls", id="c2"),
            ],
            id="neither-index-nor-id-repeated",
        ),
    ],
)
async def test_calls_are_told_apart_however_the_server_marks_them(server, pieces):
    server.add(calling(*pieces))
    message = await answer(model_at(server))
    assert message.tool_calls == [
        ToolCall(id="c1", name="ls", arguments={"a": 1}),
        ToolCall(id="c2", name="ls", arguments={"b": 2}),
    ]
    assert message.stop_reason == "toolUse"


@pytest.mark.parametrize("call_id", [None, "", "same"])
async def test_calls_without_an_id_of_their_own_get_one(server, call_id):
    pieces = [piece(f'{{"n": {n}}}', "ls", index=n, id=call_id) for n in range(2)]
    server.add(calling(*pieces), calling(*(dict(part, index=None) for part in pieces if not call_id)))
    first, second = (await answer(model_at(server))).tool_calls
    assert (first.arguments, second.arguments) == ({"n": 0}, {"n": 1})
    assert first.id != second.id
    assert first.id
    assert second.id
    if not call_id:
        assert len({call.id for call in (await answer(model_at(server))).tool_calls}) == 2


async def test_a_call_counts_whatever_reason_the_server_gives_for_its_end(server):
    server.add(calling(piece("{}", "ls", index=0, id="c1"), finish_reason="stop"), Reply("x", stop_reason="tool_use"))
    assert (await answer(model_at(server))).stop_reason == "toolUse"
    assert (await answer(model_at(server))).stop_reason == "stop"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_becomes_thinking_and_goes_back_by_its_own_name_with_calls(name):
    with OpenAIApi(reasoning_field=name) as server:
        model = model_at(server, reasoning=True)
        server.add(Reply(Thinking("hm"), ToolUse("ls", {}, id="c1")), Reply(Thinking("so"), "Done"))
        first = await answer(model, HI)
        second = await answer(model, HI, first, result("c1"))
        assert [block.thinking for block in (first.content[0], second.content[0])] == ["hm", "so"]
        body = await body_of(server, HI, first, result("c1"), second, UserMessage(content="Go on"), model=model)
        assert [message.get(name) for message in body["messages"]] == [None, "hm", None, None, None]
        strict = model.model_copy(update={"compat": {"replayReasoning": False}})
        body = await body_of(server, HI, first, result("c1"), model=strict)
        assert "hm" not in json.dumps(body)


async def test_reasoning_that_a_server_sends_under_two_names_is_thought_once(server):
    server.add(Reply(delta(reasoning="hm", reasoning_content="hm"), "x"))
    assert (await answer(model_at(server))).content[0].thinking == "hm"


async def test_what_gemini_signs_of_a_call_goes_back_with_it(server):
    signed = {"google": {"thought_signature": "c2ln"}}
    server.add(calling(piece("{}", "ls", index=0, id="c1", extra_content=signed)))
    message = await answer(model_at(server))
    body = await body_of(server, HI, message, result("c1"))
    assert body["messages"][1]["tool_calls"][0]["extra_content"] == signed
    body = await body_of(server, HI, message, result("c1"), model=model_at(server, id="another"))
    assert "c2ln" not in json.dumps(body)


async def test_what_openrouter_signs_of_a_call_goes_back_with_its_message(server):
    detail = {"type": "reasoning.encrypted", "id": "c1", "data": "c2ln", "format": "google-gemini-v1"}
    spoken = {"type": "reasoning.text", "text": "hm"}
    called = piece("{}", "ls", index=0, id="c1")
    server.add(Reply(delta(reasoning_details=[spoken, detail]), delta(tool_calls=[called]), delta("tool_calls")))
    message = await answer(model_at(server))
    body = await body_of(server, HI, message, result("c1"))
    assert body["messages"][1]["reasoning_details"] == [detail]


@pytest.mark.parametrize("signature", ["nonsense", "5", '{"reasoning_details": "all", "extra_content": [1]}', "[]"])
async def test_signatures_that_are_none_are_left_out(server, signature):
    thought = ThinkingContent(thinking="hm", thinking_signature=signature)
    call = ToolCall(id="c1", name="ls", arguments={}, thought_signature=signature)
    for api in ("completions", "responses"):
        model = model_at(server, api, reasoning=True)
        body = await body_of(server, HI, said(model, thought, call), result("c1"), model=model)
        assert not {"reasoning", "reasoning_details", "extra_content", "hm"} & set(json.dumps(body).split('"'))


def counted(**usage: Any) -> Reply:
    return Reply("x", Raw(data({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": usage})), End())


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, (10, 5, 0, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 5}, (10, 5, 0, 0)),
        pytest.param({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}, (10, 30, 0, 0), id="thinking"),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}, (6, 5, 4, 0)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
            },
            (3, 5, 4, 3),
        ),
        ({"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": None}, (10, 0, 0, 0)),
        ({"prompt_tokens": -5, "completion_tokens": "many", "prompt_tokens_details": []}, (0, 0, 0, 0)),
    ],
)
async def test_tokens_are_counted_as_each_server_tells_of_them(server, usage, tokens):
    server.add(counted(**usage))
    counts = (await answer(model_at(server))).usage
    assert (counts.input, counts.output, counts.cache_read, counts.cache_write) == tokens


@pytest.mark.parametrize("accident", [Cut(), End()])
async def test_an_answer_that_is_whole_survives_the_loss_of_its_counts(server, accident):
    server.add(Reply("Hello", delta("stop"), accident))
    assert (await answer(model_at(server))).text == "Hello"


@pytest.mark.parametrize("api", ["completions", "responses"])
async def test_a_server_that_does_not_hang_up_is_not_waited_for(server, api):
    usage = Raw(data({"choices": [], "usage": {"prompt_tokens": 1}}))
    ending = [delta("stop"), usage] if api == "completions" else [event("completed", response={})]
    server.add(Reply("Hello", *ending, Gate()))
    async with asyncio.timeout(5):
        assert (await answer(model_at(server, api))).text == "Hello"


async def test_a_refusal_is_told_in_the_models_words(server):
    server.add(Reply(delta(refusal="I can "), delta(refusal="not."), delta("stop"), End()))
    message = (await failure(model_at(server))).error_message
    assert message == "The model refused to answer. I can not. Rephrase the request, or take another model."


@pytest.mark.parametrize(
    "nonsense",
    [
        {"choices": "none"},
        {"choices": [5]},
        {"choices": [{"delta": {"content": ["a"]}}]},
        {"choices": [{"delta": {"tool_calls": [5]}}]},
        {"choices": [{"delta": {"tool_calls": 5}}]},
    ],
)
async def test_chunks_that_make_no_sense_end_the_answer_with_a_sentence(server, nonsense):
    server.add(Reply("Half", Raw(data(nonsense))))
    failed = await failure(model_at(server))
    assert failed.error_message.startswith(f"The stream from {server.v1} is not what openai-completions sends: ")
    assert failed.text == "Half"


async def test_chunks_of_unknown_kinds_are_passed_over(server):
    server.add(Reply(Raw(b": keep-alive\n\n" + data({}) + data({"choices": [], "timings": {}})), "Hello"))
    assert (await answer(model_at(server))).text == "Hello"


# --- responses -------------------------------------------------------------------------------------------------------


async def test_a_request_for_a_response_stores_nothing(server):
    body = await body_of(server, HI, model=model_at(server, "responses"), system="Be brief.", tools=(LS,))
    assert body == {
        "model": "m",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "tools": [
            {
                "type": "function",
                "name": "ls",
                "description": "Lists.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
    }


async def test_a_thinking_model_is_asked_for_its_reasoning_both_readable_and_encrypted(server):
    model = model_at(server, "responses", reasoning=True, thinking_level_map={"off": "none"})
    body = await body_of(server, model=model, thinking="low")
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["include"] == ["reasoning.encrypted_content"]
    assert (await body_of(server, model=model))["reasoning"] == {"effort": "none"}
    silent = model.model_copy(update={"compat": {"reasoningSummary": False}})
    assert (await body_of(server, model=silent, thinking="low"))["reasoning"] == {"effort": "low"}


async def test_no_limit_is_smaller_than_the_api_takes(server):
    assert (await body_of(server, model=model_at(server, "responses"), max_tokens=1))["max_output_tokens"] == 16


def event(kind: str, index: int = 0, **fields: Any) -> Raw:
    return Raw(sse({"type": f"response.{kind}", "output_index": index, **fields}))


def item(kind: str, change: str, index: int = 0, **fields: Any) -> Raw:
    return event(f"output_item.{change}", index, item={"type": kind, **fields})


async def test_items_that_come_whole_count_like_those_that_come_in_pieces(server):
    encrypted = {"encrypted_content": "c2ln", "summary": [{"type": "summary_text", "text": "hm"}]}
    server.add(
        Reply(
            item("reasoning", "done", 0, id="rs_1", **encrypted),
            item("message", "added", 1),
            item("message", "done", 1, content=[{"type": "output_text", "text": "Hello"}]),
            item("function_call", "done", 2, call_id="c1", name="ls", arguments='{"a": 1}'),
        )
    )
    message = await answer(model_at(server, "responses"))
    thought, text, call = message.content
    assert (thought.thinking, json.loads(thought.thinking_signature)) == ("hm", encrypted)
    assert (text.text, call.id, call.arguments) == ("Hello", "c1", {"a": 1})


async def test_the_parts_of_a_summary_are_paragraphs(server):
    words = [event("reasoning_summary_text.delta", delta=text) for text in ("One", " two", "Three")]
    part = event("reasoning_summary_part.added", summary_index=0)
    server.add(Reply(item("reasoning", "added"), part, *words[:2], part, words[2], item("reasoning", "done"), End()))
    failed = await failure(model_at(server, "responses"))
    assert failed.content == [ThinkingContent(thinking="One two\n\nThree")]


async def test_reasoning_in_plain_text_is_thinking_as_well(server):
    text = event("reasoning_text.delta", delta="hm")
    server.add(Reply(item("reasoning", "added"), text, item("reasoning", "done", summary=[])))
    assert (await answer(model_at(server, "responses"))).content == [ThinkingContent(thinking="hm")]


async def test_reasoning_of_which_nothing_is_told_leaves_no_trace(server):
    server.add(Reply(item("reasoning", "added"), item("reasoning", "done", summary=[]), item("web_search", "added", 1)))
    assert (await answer(model_at(server, "responses"))).content == []


async def test_the_phase_of_a_message_goes_back_with_it(server):
    done = item("message", "done", phase="commentary", content=[{"type": "output_text", "text": "Looking."}])
    server.add(Reply(item("message", "added"), event("output_text.delta", delta="Looking."), done))
    model = model_at(server, "responses")
    message = await answer(model)
    body = await body_of(server, HI, message, HI, model=model)
    assert body["input"][1] == {"role": "assistant", "content": "Looking.", "phase": "commentary"}
    body = await body_of(server, HI, message, HI, model=model_at(server, "responses", id="another"))
    assert "phase" not in body["input"][1]


async def test_reasoning_stands_once_before_what_it_led_to(server):
    model = model_at(server, "responses", reasoning=True)
    server.add(Reply(Thinking("hm", "c2ln1"), Thinking("so", "c2ln2"), "Looking.", ToolUse("ls", {}, id="c1")))
    body = await body_of(server, HI, await answer(model), result("c1"), model=model)
    summaries = [[{"type": "summary_text", "text": text}] for text in ("hm", "so")]
    assert body["input"][1:] == [
        {"type": "reasoning", "encrypted_content": "c2ln1", "summary": summaries[0]},
        {"type": "reasoning", "encrypted_content": "c2ln2", "summary": summaries[1]},
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "(no output)"},
    ]


async def test_reasoning_that_nothing_follows_stays_at_home(server):
    model = model_at(server, "responses", reasoning=True)
    server.add(Reply(Thinking("hm", "c2ln"), stop_reason="max_tokens"))
    body = await body_of(server, HI, await answer(model), HI, model=model)
    assert [entry.get("role") for entry in body["input"]] == ["user", "user"]


async def test_a_response_that_fails_is_told_in_the_servers_words(server):
    error = {"code": "rate_limit_exceeded", "message": "Slow down"}
    ending = {"status": "failed", "error": error, "usage": {"input_tokens": 7, "output_tokens": 1}}
    server.add(Reply("Half", event("failed", response=ending)))
    failed = await failure(model_at(server, "responses"))
    assert failed.error_message == f"rate_limit_exceeded: Slow down (in the stream from {server.v1})"
    assert (failed.text, failed.usage.input, is_passing(failed)) == ("Half", 7, True)


async def test_a_refusal_of_a_response_is_told_in_the_models_words(server):
    server.add(Reply(item("message", "added"), event("refusal.delta", delta="I can not."), item("message", "done")))
    assert "refused to answer. I can not." in (await failure(model_at(server, "responses"))).error_message


@pytest.mark.parametrize(
    "nonsense",
    [
        event("output_text.delta", 7, delta="x"),
        event("output_text.delta", 0),
        event("function_call_arguments.delta", 0, delta="x"),
        event("reasoning_summary_part.added", 7),
        item("message", "added", 0),
        event("completed"),
    ],
)
async def test_events_that_make_no_sense_end_the_answer_with_a_sentence(server, nonsense):
    server.add(Reply(item("message", "added"), event("output_text.delta", delta="Half"), nonsense))
    failed = await failure(model_at(server, "responses"))
    assert failed.error_message.startswith(f"The stream from {server.v1} is not what openai-responses sends: ")
    assert failed.text == "Half"


async def test_events_of_unknown_kinds_are_passed_over(server):
    server.add(Reply(event("news"), item("news", "added", 9), event("news.delta", 9, delta="x"), "Hello"))
    assert (await answer(model_at(server, "responses"))).text == "Hello"


# --- keys and headers ------------------------------------------------------------------------------------------------


async def test_without_a_key_a_server_of_ones_own_is_asked_all_the_same(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.add("x", "x")
    assert (await answer(model_at(server), api_key=None)).text == "x"
    assert (await answer(model_at(server), api_key=" ")).text == "x"
    for request in server.requests:
        assert KEY not in json.dumps(request.headers)


async def test_what_the_environment_says_for_openai_is_told_to_openai_alone(server, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: mine\nX-Other: mine as well")
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.add("x", "x")
    await answer(model_at(server, headers={"X-Other": "said"}))
    await answer(model_at(server, base_url="http://api.openai.com/v1"))
    elsewhere, at_openai = (request.headers for request in server.requests)
    assert elsewhere["x-other"] == "said"
    assert "mine" not in json.dumps(elsewhere)
    assert (at_openai["openai-organization"], at_openai["openai-project"]) == ("org-mine", "proj-mine")


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_a_models_own_authorization_replaces_the_key(server, name):
    server.add("x")
    await answer(model_at(server, headers={name: "Bearer mine"}))
    assert server.requests[0].headers["authorization"] == "Bearer mine"


@pytest.mark.parametrize("key", ["sk-broken\nkey", "sk-brök€n"])
async def test_a_key_that_cannot_be_one_is_refused_without_showing_it(server, key):
    message = (await failure(model_at(server), api_key=key)).error_message
    assert message == "The key for local holds a character that no key has: set it anew."
    assert server.requests == []


async def test_a_header_that_cannot_be_one_is_refused_without_showing_it(server):
    message = (await failure(model_at(server, headers={"X-Token": "sk-broken\r\nX-Evil: 1"}))).error_message
    assert message == "The header X-Token holds a character that no header has: write it anew."
    assert server.requests == []


async def test_headers_that_the_server_repeats_are_hidden(server):
    server.add(HttpError(401, "authentication_error", "no such token: header-secret"))
    model = model_at(server, headers={"Authorization": "Bearer header-secret", "X-Short": "to"})
    message = (await failure(model)).error_message
    assert message == "401 authentication_error: no such token: ***. Check the key for local."


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error": {"message": "Slow", "type": "t", "code": "c"}}', "400 t c: Slow"),
        ('{"error": {"message": "Slow", "type": "same", "code": "same"}}', "400 same: Slow"),
        ('{"error": "model not loaded"}', "400 error: model not loaded"),
        ('[{"error": {"code": 400, "message": "Bad", "status": "INVALID_ARGUMENT"}}]', "400 INVALID_ARGUMENT: Bad"),
        ('{"object": "error", "message": "Bad", "type": "BadRequestError", "code": 400}', "400 BadRequestError: Bad"),
        ('{"detail": [{"loc": "x"}]}', '400 error: [{"loc": "x"}]'),
        ("no json", "400 error: no json"),
        ("", "400 Bad Request from {url}"),
        ("<html>Bad</html>", "400 Bad Request from {url}"),
        ("[]", "400 Bad Request from {url}"),
        ("null", "400 Bad Request from {url}"),
        ("{}", "400 error: no reason given"),
    ],
)
async def test_every_servers_way_to_tell_of_an_error_is_understood(server, body, message):
    server.add(HttpError(400, body=body))
    assert (await failure(model_at(server))).error_message == message.replace("{url}", server.v1)


async def test_an_error_code_tells_of_a_conversation_that_is_too_long(server):
    error = {"message": "Please reduce it.", "type": "invalid_request_error", "code": "context_length_exceeded"}
    server.add(HttpError(400, body=json.dumps({"error": error})))
    assert is_overflow(await failure(model_at(server)), 1000)


async def test_an_unknown_model_or_path_is_told_with_what_to_check(server):
    server.add(HttpError(404, body="404 page not found"))
    message = (await failure(model_at(server))).error_message
    assert message == "404 error: 404 page not found. Check the model's id and base URL."


@pytest.mark.parametrize(("code", "passing"), [(502, True), (429, True), (400, False), (402, False)])
async def test_an_error_in_the_stream_keeps_its_number(server, code, passing):
    error = {"error": {"code": code, "message": "Provider returned error"}}
    server.add(Reply(Text("Half", Raw(data(error)))))
    failed = await failure(model_at(server))
    assert failed.error_message == f"{code} error: Provider returned error (in the stream from {server.v1})"
    assert is_passing(failed) is passing


async def test_an_error_event_without_a_number_is_told_as_it_is(server):
    for api in ("completions", "responses"):
        server.add(Reply(SseError("server_error", "Oops")))
        failed = await failure(model_at(server, api))
        assert failed.error_message == f"server_error: Oops (in the stream from {server.v1})"


# --- cost ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["completions", "responses"])
async def test_the_cost_of_a_delta_does_not_grow_with_the_answer(server, api):
    async def measure(length: int) -> int:
        server.add(Reply("x" * 4 * length, chunk=4))
        with counting_work() as work:
            assert len((await answer(model_at(server, api))).text) == 4 * length
        return work.lines

    await measure(10)
    assert await measure(600) < 2.2 * await measure(300)


async def test_the_cost_of_a_call_does_not_grow_with_their_number(server):
    async def measure(count: int) -> int:
        server.add(calling(*(piece("{}", "ls", index=n, id=f"c{n}") for n in range(count))))
        with counting_work() as work:
            assert len((await answer(model_at(server))).tool_calls) == count
        return work.lines

    await measure(10)
    assert await measure(400) < 2.2 * await measure(200)


def test_importing_the_providers_loads_no_http_and_preload_does():
    code = (
        "import sys, indus_nb.providers.openai as a\n"
        "assert 'httpx2' not in sys.modules\n"
        "a.OpenAICompletionsProvider().preload()\n"
        "assert 'httpx2' in sys.modules and 'ssl' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
