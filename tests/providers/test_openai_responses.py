"""What is peculiar to OpenAI's Responses API; see also ``test_openai``."""

from __future__ import annotations

import json

import pytest
from messages_api import End, Reply, Thinking, ToolUse
from openai_asked import HI, LS, answer, body_of, event, failure, item, model_at, result

from indus_nb.base.messages import (
    ThinkingContent,
)
from indus_nb.core.loop.retry import is_passing


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
    silent = model.replace(compat={"reasoningSummary": False})
    assert (await body_of(server, model=silent, thinking="low"))["reasoning"] == {"effort": "low"}


async def test_no_limit_is_smaller_than_the_api_takes(server):
    assert (await body_of(server, model=model_at(server, "responses"), max_tokens=1))["max_output_tokens"] == 16


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
