"""What OpenAI's two APIs have in common; see also ``test_contract``."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
from messages_api import Gate, HttpError, Raw, Reply, SseError, Text
from openai_api import data
from openai_asked import HI, KEY, answer, body_of, calling, delta, event, failure, model_at, piece, result, said
from work import counting_work

from indus_nb.base.messages import (
    TextContent,
    ThinkingContent,
    ToolCall,
    UserMessage,
)
from indus_nb.core.loop.retry import is_overflow, is_passing
from indus_nb.models.http.refusals import refused_key

# --- requests and answers --------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("signature", ["nonsense", "5", '{"reasoning_details": "all", "extra_content": [1]}', "[]"])
async def test_signatures_that_are_none_are_left_out(server, signature):
    thought = ThinkingContent(thinking="hm", thinking_signature=signature)
    call = ToolCall(id="c1", name="ls", arguments={}, thought_signature=signature)
    for api in ("completions", "responses"):
        model = model_at(server, api, reasoning=True)
        body = await body_of(server, HI, said(model, thought, call), result("c1"), model=model)
        assert not {"reasoning", "reasoning_details", "extra_content", "hm"} & set(json.dumps(body).split('"'))


@pytest.mark.parametrize("api", ["completions", "responses"])
async def test_a_server_that_does_not_hang_up_is_not_waited_for(server, api):
    usage = Raw(data({"choices": [], "usage": {"prompt_tokens": 1}}))
    ending = [delta("stop"), usage] if api == "completions" else [event("completed", response={})]
    server.add(Reply("Hello", *ending, Gate()))
    async with asyncio.timeout(120):
        assert (await answer(model_at(server, api))).text == "Hello"


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


@pytest.mark.parametrize(
    ("status", "message", "refused"),
    [
        (401, "no such token", True),
        (400, "API key not valid. Please pass a valid API key.", True),
        (400, "Incorrect API key provided: ab***yz", True),
        (400, "the model key is invalid", False),
        (429, "Invalid API key quota", False),
    ],
)
async def test_what_a_server_says_of_a_wrong_key_is_remembered_of_that_key(server, status, message, refused):
    server.add(HttpError(status, "invalid_request_error", message))
    model = model_at(server)
    await failure(model)
    assert refused_key(model, KEY) is refused
    assert not refused_key(model, "another key")


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
        "import sys, indus_nb.models.apis.openai as a\n"
        "assert 'h11' not in sys.modules\n"
        "a.OpenAICompletionsProvider().preload()\n"
        "assert 'h11' in sys.modules and 'ssl' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
