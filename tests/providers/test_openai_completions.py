"""What is peculiar to OpenAI's chat completions and to the many servers that speak them; see also ``test_openai``."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from messages_api import Cut, End, Raw, Reply, Thinking, ToolUse
from openai_api import OpenAIApi, data
from openai_asked import HI, IMAGE, LS, PICTURE, answer, body_of, calling, delta, failure, model_at, piece, result, said

from indus_nb.base.messages import (
    ImageContent,
    TextContent,
    ToolCall,
    UrlSource,
    UserMessage,
)

# --- requests --------------------------------------------------------------------------------------------------------


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


# --- answers ---------------------------------------------------------------------------------------------------------


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
        strict = model.replace(compat={"replayReasoning": False})
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


@pytest.mark.parametrize(
    ("provider", "usage", "dollars"),
    [
        ("openrouter", {"cost": 0.0123}, 0.0123),
        ("openrouter", {"cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}}, 0.021),
        ("openrouter", {"cost": 0}, 0),
        ("openrouter", {"cost": {"total": 1}}, 0.00007),
        ("openrouter", {"cost": math.inf}, 0.00007),
        ("local", {"cost": 5}, 0.00007),
    ],
)
async def test_openrouter_says_itself_what_an_answer_cost(server, provider, usage, dollars):
    server.add(counted(prompt_tokens=10, completion_tokens=5, **usage))
    assert (await answer(model_at(server, provider=provider))).usage.cost.total == pytest.approx(dollars)


@pytest.mark.parametrize("accident", [Cut(), End()])
async def test_an_answer_that_is_whole_survives_the_loss_of_its_counts(server, accident):
    server.add(Reply("Hello", delta("stop"), accident))
    assert (await answer(model_at(server))).text == "Hello"


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
