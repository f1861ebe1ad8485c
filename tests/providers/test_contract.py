"""What every provider does alike, each against a real local server that answers one script in its language."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from both_ways import Served, Wire
from messages_api import (
    Control,
    Cut,
    End,
    Gate,
    HttpError,
    Page,
    Raw,
    Redacted,
    Reply,
    SseError,
    Text,
    Thinking,
    ToolUse,
)
from openai_api import OpenAIApi
from pictures import DOT
from platform_apis import PlatformsApi

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    for_model,
)
from indus_nb.base.streaming import AssistantMessageEvent, StreamDone, StreamError, StreamStart
from indus_nb.core.loop.retry import RetrySettings, is_overflow, is_passing
from indus_nb.models import Context, Model, Provider, StreamOptions, ToolSpec
from indus_nb.models.apis.anthropic import AnthropicProvider
from indus_nb.models.apis.offline import OfflineProvider
from indus_nb.models.apis.openai import OpenAICompletionsProvider, OpenAIResponsesProvider
from indus_nb.models.apis.platforms import BedrockMantleProvider, BedrockProvider, FoundryProvider, VertexProvider
from indus_nb.models.catalog import ModelCost, find_model

KEY = "sk-very-secret-indeed"
COST = ModelCost(input=2, output=10, cache_read=0.5)
MODELS = {
    "anthropic-messages": Model(
        id="claude-haiku-4-5",
        name="Claude",
        api="anthropic-messages",
        provider="anthropic",
        base_url="",
        reasoning=True,
        thinking_style="budget",
        input=["text", "image"],
        cost=COST,
    ),
    "openai-completions": Model(
        id="llama",
        name="Llama",
        api="openai-completions",
        provider="ollama",
        base_url="",
        reasoning=True,
        input=["text", "image"],
        cost=COST,
    ),
    "openai-responses": Model(
        id="gpt",
        name="GPT",
        api="openai-responses",
        provider="openai",
        base_url="",
        reasoning=True,
        input=["text", "image"],
        cost=COST,
    ),
}
PLATFORMS = {  # by their APIs, what the address of each server ends with
    "anthropic-bedrock": "",
    "anthropic-bedrock-mantle": "/anthropic",
    "anthropic-vertex": "/v1",
    "anthropic-foundry": "/anthropic",
}
MODELS |= {api: MODELS["anthropic-messages"].replace(api=api, provider=api.partition("-")[2]) for api in PLATFORMS}
PROVIDERS: dict[str, Callable[..., Provider]] = {
    "anthropic-messages": AnthropicProvider,
    "anthropic-bedrock": BedrockProvider,
    "anthropic-bedrock-mantle": BedrockMantleProvider,
    "anthropic-vertex": VertexProvider,
    "anthropic-foundry": FoundryProvider,
    "openai-completions": OpenAICompletionsProvider,
    "openai-responses": OpenAIResponsesProvider,
}
LS = ToolSpec("ls", "Lists.", {"type": "object", "properties": {"path": {"type": "string"}}})
IMAGE = ImageContent(data=DOT, mime_type="image/png")


@pytest.fixture(autouse=True)
def clouds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "my-project")


@pytest.fixture
def server() -> Iterator[OpenAIApi]:
    with PlatformsApi() as api:
        yield api


@dataclass
class Asked:
    """One API, and the model that is reached by it at the local server."""

    api: str
    server: OpenAIApi

    @property
    def model(self) -> Model:
        base_url = self.server.url if self.api == "anthropic-messages" else self.server.v1
        if self.api in PLATFORMS:
            base_url = self.server.url + PLATFORMS[self.api]
        return MODELS[self.api].replace(base_url=base_url)

    def stream(self, *messages: ModelMessage, idle_timeout: float = 10, tools=(), model=None, **options):
        context = Context("Be brief.", messages or (UserMessage(content="Hi"),), tools)
        provider = PROVIDERS[self.api](idle_timeout=idle_timeout)
        if "idle_timeout_of_options" in options:
            options["idle_timeout"] = options.pop("idle_timeout_of_options")
        return provider.stream(model or self.model, context, StreamOptions(**{"api_key": KEY, **options}))

    async def events(self, *messages: ModelMessage, **wishes) -> list[AssistantMessageEvent]:
        return [event async for event in self.stream(*messages, **wishes)]

    async def answer(self, *messages: ModelMessage, **wishes) -> AssistantMessage:
        last = (await self.events(*messages, **wishes))[-1]
        assert isinstance(last, StreamDone), last
        return last.message

    async def failure(self, **wishes) -> AssistantMessage:
        events = await self.events(**wishes)
        assert isinstance(events[0], StreamStart)
        assert isinstance(events[-1], StreamError), events[-1]
        return events[-1].error


@contextmanager
def closing_server() -> Iterator[str]:
    """A server that takes a request and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)  # of a client that never comes

        def serve() -> None:
            with contextlib.suppress(TimeoutError), listening.accept()[0] as connection:
                connection.recv(100_000)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.fixture(params=MODELS)
def asked(request: pytest.FixtureRequest, server: OpenAIApi) -> Asked:
    return Asked(request.param, server)


def kinds(events: list[AssistantMessageEvent]) -> list[str]:
    return [event.type for event in events]


def result(call: ToolCall, *content: TextContent | ImageContent) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=list(content))


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_text_comes_in_the_servers_deltas(asked):
    asked.server.add(Reply("Hello there, friend.", chunk=6))
    events = await asked.events()
    assert kinds(events) == ["start", "text_start", *["text_delta"] * 4, "text_end", "done"]
    assert [event.delta for event in events if event.type == "text_delta"] == ["Hello ", "there,", " frien", "d."]
    message = events[-1].message
    assert (message.text, message.stop_reason) == ("Hello there, friend.", "stop")
    assert (message.api, message.provider, message.model) == (asked.api, asked.model.provider, asked.model.id)
    assert message.response_id.endswith("01")


async def test_deltas_that_were_all_sent_at_once_are_fewer_and_say_the_same(asked):
    asked.server.add(Reply("ab" * 3000, ToolUse("ls", {"path": "cd" * 3000}), chunk=2, at_once=True))
    events = await asked.events(tools=(LS,))
    texts = [event.delta for event in events if event.type == "text_delta"]
    assert "".join(texts) == events[-1].message.text == "ab" * 3000
    assert [call.arguments for call in events[-1].message.tool_calls] == [{"path": "cd" * 3000}]
    if asked.api != "anthropic-bedrock":  # whose frames are read one by one
        assert len(texts) < 1000


async def test_thinking_comes_before_the_text_and_is_signed(asked):
    asked.server.add(Reply(Thinking("Let me see.", "c2lnLTE="), "4", chunk=6))
    events = await asked.events(thinking="low")
    assert kinds(events)[1:] == [
        *("thinking_start", "thinking_delta", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_end", "done"),
    ]
    thought, text = events[-1].message.content
    assert (thought.thinking, text) == ("Let me see.", TextContent(text="4"))
    assert thought.thinking_signature


async def test_two_calls_in_one_answer_keep_their_arguments_apart(asked):
    asked.server.add(Reply("Running.", ToolUse("ls", {"path": "a"}), ToolUse("ls", {"path": "größe"}), chunk=5))
    events = await asked.events(tools=(LS,))
    message = events[-1].message
    first, second = message.tool_calls
    assert message.stop_reason == "toolUse"
    assert [(call.name, call.arguments) for call in (first, second)] == [
        ("ls", {"path": "a"}),
        ("ls", {"path": "größe"}),
    ]
    assert first.id != second.id
    pieces = [event.delta for event in events if event.type == "toolcall_delta" and event.content_index == 1]
    assert len(pieces) > 1
    assert "".join(pieces) == '{"path": "a"}'
    assert "" not in pieces


async def test_whatever_opens_is_closed_once(asked):
    asked.server.add(Reply(Thinking("hm"), "a", ToolUse("ls", {}), ToolUse("ls", {"path": "b"}), Thinking("so"), "c"))
    events = await asked.events()
    opened = [event.content_index for event in events if event.type.endswith("_start")]
    closed = [event.content_index for event in events if event.type.endswith("_end")]
    assert opened == [0, 1, 2, 3, 4, 5]
    assert sorted(closed) == opened
    for index in opened:
        about = [event.type for event in events if getattr(event, "content_index", None) == index]
        assert about[0].endswith("_start")
        assert about[-1].endswith("_end")
    assert events[-1].message.text == "ac"


async def test_a_call_without_arguments_has_empty_ones_and_broken_arguments_are_marked(asked):
    asked.server.add(Reply(ToolUse("ls", ""), ToolUse("ls", '{"path": "l')))
    bare, broken = (await asked.answer()).tool_calls
    assert (bare.arguments, bare.malformed) == ({}, None)
    assert (broken.arguments, broken.malformed) == ({}, '{"path": "l')


async def test_an_answer_that_hits_the_limit_says_so(asked):
    asked.server.add(Reply("Half an ans", stop_reason="max_tokens"))
    message = await asked.answer()
    assert (message.text, message.stop_reason) == ("Half an ans", "length")


async def test_a_refusal_is_an_error_that_is_not_tried_again(asked):
    asked.server.add(Reply("No", stop_reason="refusal"))
    failed = await asked.failure()
    assert failed.text == "No"
    assert "Rephrase the request" in failed.error_message
    assert not is_passing(failed)


async def test_usage_tells_cached_tokens_from_others_and_is_priced(asked):
    asked.server.add(Reply("x", usage={"input_tokens": 1000, "cache_read_input_tokens": 5000}))
    usage = (await asked.answer()).usage
    assert (usage.input, usage.cache_read, usage.cache_write, usage.output) == (1000, 5000, 0, 20)
    assert usage.total_tokens == 6020
    assert usage.cost.total == pytest.approx((1000 * 2 + 5000 * 0.5 + 20 * 10) / 1e6)


# --- requests --------------------------------------------------------------------------------------------------------


async def test_the_request_names_model_key_and_headers(asked):
    asked.server.add("x")
    model = asked.model.replace(headers={"X-Team": "blue"})
    await asked.answer(model=model)
    request = asked.server.requests[0]
    in_path = asked.api in ("anthropic-bedrock", "anthropic-vertex")
    assert asked.model.id in (request.path if in_path else request.body["model"])
    assert request.body["stream"] if asked.api != "anthropic-bedrock" else request.path.endswith("-stream")
    assert KEY in request.headers.get("x-api-key", request.headers.get("authorization", ""))
    assert request.headers["x-team"] == "blue"


async def test_images_of_a_user_are_sent(asked):
    asked.server.add("x")
    await asked.answer(UserMessage(content=[TextContent(text="What is this?"), IMAGE]))
    assert DOT in json.dumps(asked.server.requests[0].body)


async def test_a_model_that_sees_nothing_is_told_of_images(asked):
    asked.server.add("x")
    blind = asked.model.replace(input=["text"])
    call = ToolCall(id="c1", name="ls", arguments={})
    asking = AssistantMessage(content=[call], api=blind.api, provider=blind.provider, model=blind.id)
    await asked.answer(UserMessage(content=[IMAGE]), asking, result(call, IMAGE), model=blind)
    body = json.dumps(asked.server.requests[0].body)
    assert DOT not in body
    assert body.count("image was left out") == 2


async def test_half_surrogates_do_not_stop_a_request(asked):
    asked.server.add("x")
    call = ToolCall(id="c1", name="ls", arguments={"a\ud83d": ["\ud83d"]})
    asking = AssistantMessage(content=[call], api=asked.api, provider=asked.model.provider, model=asked.model.id)
    await asked.answer(UserMessage(content="a\ud83d b"), asking, result(call, TextContent(text="\udc00")))
    assert json.dumps("a� b")[1:-1] in json.dumps(asked.server.requests[0].body)


async def test_odd_call_ids_are_renamed_alike_in_call_and_result(asked):
    asked.server.add("x")
    odd = ["call|1", "call 1", "", "x" * 65, "x" * 64 + "y", "fine_id-1"]
    calls = [ToolCall(id=call_id, name="ls", arguments={}) for call_id in odd]
    asking = AssistantMessage(content=calls, api="a", provider="b", model="c")
    await asked.answer(UserMessage(content="Hi"), asking, *(result(call) for call in calls))
    called, answered = call_ids(asked.server.requests[0].body)
    assert called == answered
    assert len(set(called)) == len(odd)
    assert called[-1] == "fine_id-1"
    longest = 40 if asked.api == "openai-completions" else 64
    assert all(0 < len(i) <= longest and i.replace("_", "").replace("-", "").isalnum() for i in called)


async def test_calls_of_one_answer_that_have_the_same_id_are_told_apart(asked):
    asked.server.add(Reply(*(ToolUse("ls", {"path": path}, id="same") for path in "abc")))
    calls = (await asked.answer(tools=(LS,))).tool_calls
    assert [call.arguments for call in calls] == [{"path": "a"}, {"path": "b"}, {"path": "c"}]
    assert calls[0].id == "same"
    assert len({call.id for call in calls} - {""}) == 3


async def test_results_of_calls_that_have_the_same_id_belong_to_them_in_their_order(asked):
    asked.server.add("x")
    calls = [ToolCall(id=call_id, name="ls", arguments={"path": call_id}) for call_id in ("same", "other", "same")]
    asking = AssistantMessage(content=calls, api="a", provider="b", model="c")
    results = [result(call, TextContent(text=f"result {n}")) for n, call in enumerate(calls)]
    await asked.answer(UserMessage(content="Hi"), asking, *for_model([asking, results[0], results[2], results[1]])[1:])
    body = asked.server.requests[0].body
    called, answered = call_ids(body)
    assert len(set(called)) == 3
    assert answered == [called[0], called[2], called[1]]
    assert re.findall(r"result \d", json.dumps(body)) == ["result 0", "result 2", "result 1"]


def call_ids(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The ids of the calls in a request, and those of the results."""
    if "input" in body:
        calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
        return calls, [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]
    calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
    results = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    blocks = [block for message in body["messages"] for block in message["content"] or () if isinstance(block, dict)]
    calls += [block["id"] for block in blocks if block["type"] == "tool_use"]
    return calls, results + [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message", "passing"),
    [
        (HttpError(529, "overloaded_error", "Overloaded"), "529 overloaded_error: Overloaded", True),
        (HttpError(500, "server_error", "Oops"), "500 server_error: Oops", True),
        (
            HttpError(429, "rate_limit_error", "Slow down", {"retry-after": "7"}),
            "429 rate_limit_error: Slow down (retry after 7 s)",
            True,
        ),
        (
            HttpError(429, "rate_limit_error", "Slow down", {"retry-after-ms": "1500"}),
            "429 rate_limit_error: Slow down (retry after 1.5 s)",
            True,
        ),
        (
            HttpError(400, "invalid_request_error", "too\nlong\x1b[31m 500!"),
            "400 invalid_request_error: too long [31m 500!",
            False,
        ),
    ],
)
async def test_an_error_status_is_one_line_and_asked_once(asked, error, message, passing):
    asked.server.add(error)
    failed = await asked.failure()
    assert (failed.error_message, failed.stop_reason, failed.content) == (message, "error", [])
    assert is_passing(failed) is passing
    assert len(asked.server.requests) == 1


async def test_a_wait_that_the_server_asks_for_is_kept_to(asked):
    asked.server.add(HttpError(429, "rate_limit_error", "Slow down", {"retry-after": "7"}))
    assert RetrySettings().delay_ms(await asked.failure(), 1) == 7000


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ],
)
async def test_a_conversation_that_is_too_long_is_recognised(asked, message):
    asked.server.add(HttpError(400, "invalid_request_error", message))
    failed = await asked.failure()
    assert is_overflow(failed, 200_000)
    assert not is_passing(failed)


async def test_a_key_that_the_server_repeats_is_hidden(asked):
    asked.server.add(HttpError(401, "authentication_error", f"invalid key {KEY}"))
    failed = await asked.failure()
    assert failed.error_message.startswith("401 authentication_error: invalid key ***. Check ")
    assert not is_passing(failed)


async def test_a_password_in_the_base_url_is_hidden(asked):
    asked.server.add(HttpError(502, body="<html>"))
    model = asked.model
    secretive = model.replace(base_url=model.base_url.replace("//", "//user:hidden@") + "/?token=hidden")
    failed = await asked.failure(model=secretive)
    assert failed.error_message.startswith("502 Bad Gateway from http://127.0.0.1:")
    assert "hidden" not in failed.error_message


async def test_a_monstrous_error_body_is_cut(asked):
    asked.server.add(HttpError(400, "invalid_request_error", "x" * 100_000))
    assert len((await asked.failure()).error_message) < 600


ACCIDENTS: list[tuple[Control, str]] = [
    (Cut(), "Connection lost: the answer from {url} broke off"),
    (End(), "The stream from {url} ended early"),
    (SseError("overloaded_error", "Overloaded"), "overloaded_error: Overloaded (in the stream from {url})"),
    (Raw(b"data: {nonsense\n\n"), "The answer from {url} broke off: a part of it is no JSON"),
    (Raw(b"event: response.output_text.delta\ndata: 5\n\n"), "The stream from {url} is not what"),
    (Raw(b"\xff\xff\n\n"), "The answer from {url} broke off: a part of it is no text"),
]


@pytest.mark.parametrize(("accident", "message"), ACCIDENTS)
async def test_a_stream_that_breaks_keeps_what_had_arrived(asked, accident, message):
    if isinstance(accident, Raw) and b"event: " not in accident.data:  # an event without a name is none to Anthropic
        accident = Raw(b"event: content_block_delta\n" + accident.data)
    elif isinstance(accident, Raw) and asked.api == "anthropic-messages":
        accident = Raw(accident.data.replace(b"response.output_text.delta", b"content_block_delta"))
    asked.server.add(Reply(Thinking("Hm"), Text("Half an ans", accident, "wer")))
    failed = await asked.failure()
    assert failed.error_message.startswith(message.format(url=asked.model.base_url))
    assert [getattr(block, "thinking", "") or block.text for block in failed.content] == ["Hm", "Half an ans"]


async def test_only_accidents_of_the_line_are_tried_again(asked):
    for accident in (
        Cut(),
        End(),
        SseError("overloaded_error", "Overloaded"),
        Raw(b'event: content_block_delta\ndata: {"ty\n\n'),
        Raw(b"event: content_block_delta\ndata: {nonsense\n\n"),
    ):
        asked.server.add(Reply(Text("Half", accident)))
        assert is_passing(await asked.failure())


async def test_a_page_instead_of_a_stream_is_told_with_its_kind_and_words(asked):
    asked.server.add(Page("<html><style>p {}</style><p>Please <b>log in</b></p></html>"))
    failed = await asked.failure()
    assert failed.error_message == (
        f"{asked.model.base_url} did not answer as the API does: it sent text/html instead of a stream of events: "
        '"Please log in". Check the base URL, and whether the network wants you to sign in.'
    )
    assert not is_passing(failed)


async def test_an_error_with_status_200_is_told_in_its_own_words(asked):
    asked.server.add(Page('{"error": {"message": "Quota used up"}}', "application/json"))
    failed = await asked.failure()
    assert "application/json instead of a stream of events" in failed.error_message
    assert "Quota used up" in failed.error_message


async def test_a_server_that_falls_silent_times_out(asked):
    asked.server.add(Reply(Text("Half", Gate())))
    async with asyncio.timeout(120):
        failed = await asked.failure(idle_timeout=0.1)
    assert failed.error_message == (
        f"Request timed out: {asked.model.base_url} was silent for 0.1 s (setting retry.provider.timeoutMs). Try again."
    )
    assert failed.text == "Half"
    assert is_passing(failed)


async def test_a_server_that_is_slow_but_not_silent_is_waited_for(asked):
    gates = [Gate() for _ in range(3)]
    asked.server.add(Reply(Text("a", gates[0], "b", gates[1], "c", gates[2], "d")))
    answer = asyncio.create_task(asked.answer(idle_timeout=0.8))
    for gate in gates:
        await asyncio.to_thread(gate.reached.wait, 240)
        await asyncio.sleep(0.3)  # three of them are longer than the timeout, each is shorter
        gate.open()
    assert (await answer).text == "abcd"


async def test_the_request_may_say_how_long_the_server_may_be_silent(asked):
    asked.server.add(Reply(Text("Half", Gate())))
    failed = await asked.failure(idle_timeout=60, idle_timeout_of_options=0.1)
    assert "was silent for 0.1 s" in failed.error_message


async def test_a_server_that_cannot_be_reached_is_named(asked):
    url = "http://127.0.0.1:1"
    failed = await asked.failure(model=asked.model.replace(base_url=url))
    assert failed.error_message.startswith(f"Connection error: {url} cannot be reached (")
    assert is_passing(failed)


@pytest.mark.parametrize("url", ["not a url", "http://[bad", "http://127.0.0.1:99999", "ftp://example.org", "http://"])
async def test_an_address_that_is_none_is_named_and_not_tried_again(asked, url):
    failed = await asked.failure(model=asked.model.replace(base_url=url))
    assert failed.error_message.startswith(f"The address {url.rstrip('/')} cannot be used: ")
    assert "TaskGroup" not in failed.error_message
    assert not is_passing(failed)


@pytest.mark.parametrize("proxy", ["http://user:hidden@127.0.0.1:1", "user:hidden@127.0.0.1:1"])
async def test_a_proxy_that_is_not_there_is_named(asked, monkeypatch, proxy):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    failed = await asked.failure(model=asked.model.replace(base_url="http://example.invalid"))
    shown = proxy.replace("user:hidden@", "")
    assert f"through the proxy {shown}, which the environment names" in failed.error_message
    assert "hidden" not in failed.error_message


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        (
            "socks5://user:hidden@127.0.0.1:1",
            'a SOCKS proxy, for which a package is missing: pip install "httpx2[socks]".',
        ),
        ("ftp://user:hidden@127.0.0.1:1", "a proxy that cannot be used: Unknown scheme for proxy URL"),
        ("http://user:hidden@127.0.0.1:none", "a proxy that cannot be used: Invalid port"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_told_as_what_it_is(asked, monkeypatch, proxy, words):
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("http_proxy", proxy)
    failed = await asked.failure(model=asked.model.replace(base_url="http://example.invalid"))
    assert failed.error_message.startswith(f"The environment names {words}")
    assert "hidden" not in failed.error_message
    assert not is_passing(failed)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_certificates_that_cannot_be_read_are_named_with_their_variable(asked, monkeypatch, tmp_path, variable):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    place = str(tmp_path / "missing.pem")
    monkeypatch.setenv(variable, place)
    url = asked.server.url.replace("http:", "https:")
    failed = await asked.failure(model=asked.model.replace(base_url=url))
    assert failed.error_message.startswith(f"The certificates that {variable} names cannot be read: {place} (")
    assert not is_passing(failed)


async def test_a_file_that_holds_no_certificate_is_named(asked, monkeypatch, tmp_path):
    (tmp_path / "notes.txt").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "notes.txt"))
    url = asked.server.url.replace("http:", "https:")
    failed = await asked.failure(model=asked.model.replace(base_url=url))
    assert failed.error_message.startswith("The certificates that SSL_CERT_FILE names cannot be read: ")


async def test_an_answer_in_an_encoding_that_nobody_asked_for_is_told_by_its_name(asked, monkeypatch):
    with Wire(Served((b"packed",), headers={"content-type": "text/event-stream", "content-encoding": "br"})) as wire:
        failed = await asked.failure(model=asked.model.replace(base_url=wire.url))
    assert wire.seen[0]["accept-encoding"] == "identity"
    assert "did not answer as the API does: it sent an answer compressed by br" in failed.error_message
    assert not is_passing(failed)


async def test_an_encoding_that_is_none_hinders_nobody(asked):
    stream = Served((b"",), headers={"content-type": "text/event-stream", "content-encoding": "none"})
    with Wire(stream) as wire:
        failed = await asked.failure(model=asked.model.replace(base_url=wire.url))
    assert "ended early" in failed.error_message


@pytest.mark.parametrize(
    ("name", "value"),
    [("X Team", "a"), ("X-Team:", "a"), ("", "a")] + [("X-Team", f"hid{char}den") for char in "\x01\x0b\r\n\x7f\udc80"],
)
async def test_a_header_that_cannot_be_sent_is_named_without_its_value(asked, name, value):
    failed = await asked.failure(model=asked.model.replace(headers={name: value}))
    assert failed.error_message == f"The header {name} holds a character that no header has: write it anew."
    assert asked.server.requests == []


async def test_a_header_is_sent_without_the_blanks_around_it_and_in_utf_8(asked):
    asked.server.add("x")
    headers = {"X-Team": " größe\n", "accept-encoding": "identity"}
    await asked.answer(model=asked.model.replace(headers=headers))
    sent = asked.server.requests[0].headers
    assert (sent["x-team"].encode("latin-1").decode(), sent["accept-encoding"]) == ("größe", "identity")


async def test_a_request_that_the_headers_make_impossible_does_not_blame_the_address(asked):
    failed = await asked.failure(model=asked.model.replace(headers={"Transfer-Encoding": "gzip"}))
    assert failed.error_message.startswith(
        f"The request to {asked.model.base_url} cannot be sent: Only Transfer-Encoding: "
    )
    assert not is_passing(failed)


@pytest.mark.parametrize("error", [ValueError("no such rule"), json.JSONDecodeError("Expecting value", "", 0)])
@pytest.mark.parametrize("hook", ["on_request", "on_response"])
async def test_what_a_callback_raises_is_told_as_what_it_is(asked, hook, error):
    async def fail(*_: object) -> None:
        raise error

    asked.server.add("x")
    failed = await asked.failure(**{hook: fail})
    kind = type(error).__name__
    assert failed.error_message == f"The request to {asked.model.base_url} failed: {kind}: {error}"


async def test_numbers_and_characters_that_no_request_holds_are_replaced_in_a_changed_body(asked):
    async def change(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "metadata": {"user_id": [float("nan"), "a\ud83d"]}}

    asked.server.add("x")
    await asked.answer(on_request=change)
    assert asked.server.requests[0].body["metadata"] == {"user_id": [None, "a\ufffd"]}


async def test_a_changed_body_that_is_no_json_is_told_as_what_it_is(asked):
    async def change(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "metadata": object()}

    failed = await asked.failure(on_request=change)
    assert failed.error_message.startswith(f"The request to {asked.model.base_url} failed: TypeError: ")


async def test_a_connection_that_is_reset_before_an_answer_was_reached_all_the_same(asked):
    with closing_server() as url:
        failed = await asked.failure(model=asked.model.replace(base_url=url))
    assert failed.error_message.startswith(f"Connection lost: {url} ended the connection before it answered (")
    assert is_passing(failed)


async def test_a_server_without_tls_is_told_so_and_not_tried_again(asked):
    url = asked.server.url.replace("http:", "https:")
    failed = await asked.failure(model=asked.model.replace(base_url=url))
    assert failed.error_message.startswith(f"TLS failed: {url} cannot be trusted or speaks no TLS (")
    assert not is_passing(failed)


@pytest.mark.parametrize(("value", "seconds"), [("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("7", 7), ("soon", None)])
async def test_a_wait_may_be_asked_for_as_a_time_of_day(asked, value, seconds):
    asked.server.add(HttpError(529, "overloaded_error", "Overloaded", headers={"retry-after": value}))
    told = (await asked.failure()).error_message
    assert (f"(retry after {seconds:g} s)" in told) if seconds is not None else ("retry after" not in told)


async def test_a_time_of_day_that_is_to_come_is_waited_for(asked):
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    asked.server.add(HttpError(529, "overloaded_error", "Overloaded", headers={"retry-after": then}))
    found = re.search(r"retry after (\d+) s", (await asked.failure()).error_message)
    assert found is not None
    assert 60 <= int(found[1]) <= 101


# --- the end of a request --------------------------------------------------------------------------------------------


async def test_cancelling_closes_the_connection_and_leaves_nothing_behind(asked):
    gate = Gate()
    asked.server.add(Reply(Text("Half", gate, " more")))
    told: list[str] = []

    async def listen() -> None:
        async for event in asked.stream():
            told.append(event.type)  # noqa: PERF401 - watched while it grows

    task = asyncio.create_task(listen())
    await asyncio.to_thread(gate.reached.wait, 240)
    while "text_delta" not in told:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(asked.server.requests[0].disconnected.wait, 10)
    assert told == ["start", "text_start", "text_delta"]
    gc.collect()  # an unclosed connection would warn here, and a warning is an error
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_before_the_answer_begins_closes_the_connection(asked):
    held = Gate()

    def hold(request):
        held.reached.set()
        return Reply(Gate())

    asked.server.add(hold)
    task = asyncio.create_task(asked.events())
    await asyncio.to_thread(held.reached.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(asked.server.requests[0].disconnected.wait, 10)


async def test_leaving_the_stream_early_closes_the_connection(asked):
    asked.server.add(Reply(Text("Half", Gate(), " more")))
    async with aclosing(asked.stream()) as events:
        async for event in events:
            if event.type == "text_delta":
                break
    assert await asyncio.to_thread(asked.server.requests[0].disconnected.wait, 10)


def test_one_provider_serves_several_event_loops(asked):
    asked.server.add("one", "two")
    provider = PROVIDERS[asked.api]()

    async def once() -> str:
        context = Context("", [UserMessage(content="x")])
        options = StreamOptions(api_key=KEY)
        return [event async for event in provider.stream(asked.model, context, options)][-1].message.text

    assert [asyncio.run(once()), asyncio.run(once())] == ["one", "two"]


async def test_two_requests_run_side_by_side(asked):
    gate = Gate()
    asked.server.add(Reply(Text("slow", gate)), "fast")
    slow = asyncio.create_task(asked.answer())
    await asyncio.to_thread(gate.reached.wait, 240)
    assert (await asked.answer()).text == "fast"
    gate.open()
    assert (await slow).text == "slow"


# --- one conversation, several providers -----------------------------------------------------------------------------


async def converse(server: OpenAIApi, apis: list[str]) -> list[ModelMessage]:
    """One turn with each of these: a thought and a call, its result with a picture, a thought and an answer."""
    messages: list[ModelMessage] = []
    for turn, api in enumerate(apis):
        server.add(
            Reply(Thinking(f"thought {turn}", f"c2ln{turn}"), ToolUse("ls", {"path": f"dir{turn}"})),
            Reply(Thinking(f"insight {turn}", f"c2ln{turn}"), f"answer {turn}"),
        )
        asked = Asked(api, server)
        messages.append(UserMessage(content=f"question {turn}"))
        calling = await asked.answer(*messages, tools=(LS,), thinking="low")
        messages += [calling, result(calling.tool_calls[0], TextContent(text=f"listing {turn}"), IMAGE)]
        messages.append(await asked.answer(*messages, tools=(LS,), thinking="low"))
    return messages


@pytest.mark.parametrize(
    "apis",
    [
        ["anthropic-messages", "openai-completions", "anthropic-messages"],
        ["anthropic-messages", "openai-responses", "anthropic-messages"],
        ["openai-completions", "openai-responses", "openai-completions"],
        ["openai-responses", "openai-completions", "openai-responses"],
    ],
)
async def test_a_conversation_goes_on_elsewhere_and_back(server, apis):
    await converse(server, apis)
    for request in server.requests:
        called, answered = call_ids(request.body)
        assert called == answered
    last = server.requests[-1].body
    assert len(call_ids(last)[0]) == 3
    text = json.dumps(last)
    for turn in range(3):
        assert f"question {turn}" in text
        assert f"listing {turn}" in text
        assert f"dir{turn}" in text
    assert text.count(DOT) == 3
    assert "answer 0" in text
    assert "answer 1" in text


async def test_from_anthropic_to_completions_and_back_nothing_signed_strays(server):
    await converse(server, ["anthropic-messages", "openai-completions", "anthropic-messages"])
    there, back = server.requests[3].body, server.requests[5].body
    roles = ["system", "user", "assistant", "tool", "user", "assistant", "user", "assistant", "tool", "user"]
    assert [message["role"] for message in there["messages"]] == roles
    first, second = there["messages"][2], there["messages"][7]
    assert first == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "toolu_01_1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "dir0"}'}}
        ],
    }
    assert second["reasoning_content"] == "thought 1"
    assert there["messages"][3] == {
        "role": "tool",
        "tool_call_id": "toolu_01_1",
        "content": "listing 0\n(The image follows behind the results.)",
    }
    assert there["messages"][4]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{DOT}"},
    }
    assert "c2ln" not in json.dumps(there)
    signed = [
        (block["thinking"], block["signature"])
        for message in back["messages"]
        for block in message["content"]
        if block["type"] == "thinking"
    ]
    assert signed == [("thought 0", "c2ln0"), ("insight 0", "c2ln0"), ("thought 2", "c2ln2")]


async def test_from_anthropic_to_responses_and_back_nothing_signed_strays(server):
    await converse(server, ["anthropic-messages", "openai-responses", "anthropic-messages", "openai-responses"])
    there, back, again = (server.requests[number].body for number in (3, 5, 7))
    assert [item.get("type", item.get("role")) for item in there["input"]] == [
        *("user", "function_call", "function_call_output", "assistant"),
        *("user", "reasoning", "function_call", "function_call_output"),
    ]
    assert there["input"][1] == {
        "type": "function_call",
        "call_id": "toolu_01_1",
        "name": "ls",
        "arguments": '{"path": "dir0"}',
    }
    assert there["input"][2] == {
        "type": "function_call_output",
        "call_id": "toolu_01_1",
        "output": [
            {"type": "input_text", "text": "listing 0"},
            {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{DOT}"},
        ],
    }
    assert "encrypted" not in json.dumps(back)
    reasoning = [item for item in again["input"] if item.get("type") == "reasoning"]
    assert [item["encrypted_content"] for item in reasoning] == ["c2ln1", "c2ln1", "c2ln3"]
    assert all("id" not in item for item in again["input"])


async def test_thinking_of_another_model_of_the_same_provider_stays_away(asked):
    asked.server.add(Reply(Thinking("mine", "c2ln"), ToolUse("ls", {})), "x")
    calling = await asked.answer(thinking="low")
    other = asked.model.replace(id="another")
    await asked.answer(UserMessage(content="Hi"), calling, result(calling.tool_calls[0]), model=other)
    body = json.dumps(asked.server.requests[1].body)
    assert "c2ln" not in body
    assert "reasoning_content" not in body


async def test_a_thought_without_words_goes_back_to_its_model(server):
    for api in ("anthropic-messages", "openai-responses"):
        asked = Asked(api, server)
        server.add(Reply(Redacted("b3BhcXVl"), "Yes"), "x")
        said = await asked.answer()
        assert said.content[0] == ThinkingContent(
            thinking="", thinking_signature=said.content[0].thinking_signature, redacted=True
        )
        await asked.answer(UserMessage(content="Hi"), said, UserMessage(content="Go on"), thinking="low")
        assert "b3BhcXVl" in json.dumps(server.requests[-1].body)


async def test_the_offline_demonstration_takes_part_in_every_conversation(asked):
    offline = find_model("offline")
    asked.server.add(Reply(Thinking("hm"), ToolUse("ls", {"path": "."})), "x")
    question = UserMessage(content="list the files in .")
    calling = await asked.answer(question, tools=(LS,))
    messages = [question, calling, result(calling.tool_calls[0], TextContent(text="a.txt"))]
    context = Context("", messages, (LS,))
    events = [event async for event in OfflineProvider().stream(offline, context, StreamOptions())]
    assert (events[0].type, events[-1].type) == ("start", "done")
    assert (await asked.answer(*messages, events[-1].message, UserMessage(content="Go on"))).text == "x"
