"""Cassettes: what is recorded of a real server's answers, and how it is played to the same and to other requests."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import pytest
from messages_api import Cut, Gate, HttpError, MessagesApi, Recorded, Redacted, Reply, Text, Thinking, ToolUse
from work import cpu_stays_in_proportion

from indus_nb.base.errors import UsageError
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
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage, StreamDone, StreamError, StreamStart
from indus_nb.core.loop.retry import is_passing
from indus_nb.models import Context, Model, Provider, StreamOptions, ToolSpec
from indus_nb.models.apis.anthropic import AnthropicProvider
from indus_nb.models.apis.offline import OfflineProvider
from indus_nb.models.cassettes import (
    RULES,
    Recording,
    RecordingProvider,
    ReplayProvider,
    Rule,
    cassette_provider,
    is_replaying,
    provider_from_environment,
)
from indus_nb.models.catalog import find_model

KEY = "sk-ant-very-secret"
HAIKU = find_model("claude-haiku-4-5")
BASH = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {"timeout": {"type": "integer"}}})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, messages_api: MessagesApi) -> Iterator[None]:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "INDUS_NB_CASSETTE", "INDUS_NB_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)
    yield
    monkeypatch.undo()
    is_replaying()  # the cassette of a test is closed with it


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "talk.json"


def user(text: str) -> UserMessage:
    return UserMessage(content=text)


def result(call: ToolCall, text: str, **more) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=[TextContent(text=text)], **more)


async def stream(
    provider: Provider,
    *messages: ModelMessage,
    system: str = "Be brief.",
    tools: tuple[ToolSpec, ...] = (BASH,),
    model: Model = HAIKU,
    key: str | None = None,
) -> list[AssistantMessageEvent]:
    events = provider.stream(model, Context(system, messages, tools), StreamOptions(api_key=key))
    return [event async for event in events]


async def ask(provider: Provider, *messages: ModelMessage, **wishes) -> AssistantMessage:
    events = await stream(provider, *messages, **wishes)
    assert isinstance(events[0], StreamStart)
    assert isinstance(events[-1], StreamDone | StreamError)
    return events[-1].message if isinstance(events[-1], StreamDone) else events[-1].error


def recorder(path: Path) -> RecordingProvider:
    return RecordingProvider(AnthropicProvider(idle_timeout=10), path)


async def record(path: Path, *requests: str, **wishes) -> list[AssistantMessage]:
    with recorder(path) as provider:
        return [await ask(provider, user(request), key=KEY, **wishes) for request in requests]


def content(path: Path) -> dict:
    return json.loads(path.read_text())


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new))


# --- the same again --------------------------------------------------------------------------------------------------


async def test_a_recorded_conversation_is_played_without_server_and_key(path, messages_api):
    messages_api.add(
        Reply(Thinking("hm", "c2lnbmF0dXJl"), Redacted("aGlkZGVu"), "I look.", ToolUse("bash", {"command": "ls"})),
        Reply("Two files:\n\n- a\n- b", usage={"cache_read_input_tokens": 7}),
    )

    async def converse(provider: Provider, key: str | None) -> list[AssistantMessage]:
        first = await ask(provider, user("look"), key=key)
        [call] = first.tool_calls
        return [first, await ask(provider, user("look"), first, result(call, "a\nb"), key=key)]

    with recorder(path) as recording:
        live = await converse(recording, KEY)
    played = await converse(ReplayProvider(path), None)
    for one, other in zip(live, played, strict=True):
        assert one.stop_reason in ("toolUse", "stop")
        assert other.usage.cost.total == 0
        volatile = {"timestamp": 0, "response_id": None, "usage": live[0].usage}
        assert one.usage.replace(cost=other.usage.cost) == other.usage
        assert one.replace(**volatile) == other.replace(**volatile)
    assert len(messages_api.requests) == 2


async def test_recording_changes_no_event_of_the_answer(path, messages_api):
    messages_api.add(Reply("Hello you"), Reply("Hello you"))
    plain = await stream(AnthropicProvider(), user("Hi"), key=KEY)
    with recorder(path) as provider:
        recorded = await stream(provider, user("Hi"), key=KEY)
    assert [(event.type, getattr(event, "delta", None)) for event in plain] == [
        (event.type, getattr(event, "delta", None)) for event in recorded
    ]


async def test_an_answer_is_played_in_small_deltas_that_add_up(path, messages_api):
    code = "x = 1\n" * 100
    messages_api.add(Reply(Thinking("so " * 50), "word " * 100, ToolUse("bash", {"command": code})))
    await record(path, "go")
    events = await stream(ReplayProvider(path), user("go"))
    assert list(dict.fromkeys(event.type for event in events)) == [
        *("start", "thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_end"),
        *("toolcall_start", "toolcall_delta", "toolcall_end", "done"),
    ]
    deltas = [event.delta for event in events if event.type.endswith("_delta")]
    assert len(deltas) > 30
    assert max(map(len, deltas)) <= 40
    assert events[-1].message.tool_calls[0].arguments == {"command": code}


async def test_arguments_that_are_no_json_are_played_as_they_came(path, messages_api):
    messages_api.add(Reply(ToolUse("bash", '{"command": "ls')))
    await record(path, "go")
    [call] = (await ask(ReplayProvider(path), user("go"))).tool_calls
    assert (call.arguments, call.malformed) == ({}, '{"command": "ls')


async def test_what_a_provider_signs_besides_thinking_is_played_too(path):
    class Signing:
        def preload(self) -> None:
            pass

        async def stream(self, model, context, options) -> AsyncGenerator[AssistantMessageEvent]:
            growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
            yield growing.start()
            for opened, text in ((growing.open_text(), "Hi"), (growing.open_tool_call("c1", "bash"), "{}")):
                yield opened
                yield growing.append(opened.content_index, text)
                yield growing.close(opened.content_index)
            growing.block(0).text_signature = "final"
            growing.block(1).thought_signature = "because"
            yield growing.finish("toolUse")

    with RecordingProvider(Signing(), path) as provider:
        live = await ask(provider, user("go"))
    assert (await ask(ReplayProvider(path), user("go"))).content == live.content
    assert live.content[0].text_signature == "final"


async def test_errors_are_recorded_and_played_with_what_had_arrived(path, messages_api):
    messages_api.add(
        HttpError(529, "overloaded_error", "Overloaded"), Reply(Text("Half an", Cut())), Reply("All of it")
    )
    live = await record(path, "go", "go", "go")
    replay = ReplayProvider(path)
    played = [await ask(replay, user("go")) for _ in range(3)]
    assert [answer.stop_reason for answer in played] == ["error", "error", "stop"]
    assert [answer.error_message for answer in played] == [answer.error_message for answer in live]
    assert "Overloaded" in played[0].error_message
    assert is_passing(played[0])
    assert played[1].text == "Half an"


async def test_an_aborted_answer_is_not_recorded(path, messages_api):
    gate = Gate()
    messages_api.add(Reply("One"), Reply(Text("Tw", gate)), Reply("Three"))
    with recorder(path) as provider:
        await ask(provider, user("1"), key=KEY)
        heard = asyncio.Event()

        async def listen() -> None:
            context = Context("Be brief.", [user("2")], (BASH,))
            async with aclosing(provider.stream(HAIKU, context, StreamOptions(api_key=KEY))) as events:
                async for event in events:
                    if event.type == "text_delta":
                        heard.set()

        task = asyncio.create_task(listen())
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await ask(provider, user("3"), key=KEY)
    replay = ReplayProvider(path)
    assert [(await ask(replay, user(text))).text for text in ("1", "3")] == ["One", "Three"]
    assert replay.remaining == []


async def test_playing_can_be_stopped_between_two_deltas(path, messages_api):
    messages_api.add(Reply("word " * 200))
    await record(path, "go")
    heard: list[str] = []

    async def listen() -> None:
        async for event in ReplayProvider(path).stream(
            HAIKU, Context("Be brief.", [user("go")], (BASH,)), StreamOptions()
        ):
            heard.append(event.type)  # noqa: PERF401 - watched while it grows

    task = asyncio.create_task(listen())
    while heard.count("text_delta") < 3:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 3 <= heard.count("text_delta") < 6


# --- another request -------------------------------------------------------------------------------------------------


async def test_another_request_fails_with_the_difference_and_the_way_to_record_anew(path, messages_api):
    messages_api.add(Reply("One"))
    await record(path, "Tell me\nof cats\nplease")
    replay = ReplayProvider(path)
    answer = await ask(replay, user("Tell me\nof dogs\nplease"))
    assert answer.stop_reason == "error"
    assert f"exchange 1 of {path}" in answer.error_message
    assert "INDUS_NB_CASSETTE_MODE=record" in answer.error_message
    assert answer.error_message.endswith(
        "--- recorded\n+++ asked now\n@@ message 1 @@\n"
        '  "content": [\n   "Tell me",\n-  "of cats",\n+  "of dogs",\n   "please"\n  ]'
    )
    assert (await ask(replay, user("Tell me\nof cats\nplease"))).text == "One"


@pytest.mark.parametrize(
    ("wishes", "shown"),
    [
        ({"model": find_model("claude-sonnet-4-5")}, '@@ model @@\n-"claude-haiku-4-5"\n+"claude-sonnet-4-5"'),
        ({"system": "Be long."}, '-  "system": "Be brief."'),
        ({"tools": ()}, "@@ tool bash @@\n-{"),
        ({"tools": (BASH, ToolSpec("ls", "", {}))}, "@@ tool ls @@\n+{}"),
        ({"tools": (ToolSpec("bash", "", {"type": "object"}),)}, '-  "timeout": {'),
    ],
)
async def test_model_system_prompt_and_tools_belong_to_the_request(path, messages_api, wishes, shown):
    messages_api.add(Reply("One"))
    await record(path, "go")
    answer = await ask(ReplayProvider(path), user("go"), **wishes)
    assert answer.stop_reason == "error"
    assert re.sub(r"(?m)^([-+ ]) +", r"\1", shown) in re.sub(r"(?m)^([-+ ]) +", r"\1", answer.error_message)


async def test_a_difference_is_never_asked_again_whatever_it_speaks_of(path, messages_api):
    messages_api.add(Reply("One"))
    await record(path, "a 529 overloaded server, connection reset, timed out")
    for messages in ([user("prompt is short; rate limit")], []):
        answer = await ask(ReplayProvider(path), *messages)
        assert answer.stop_reason == "error"
        assert not is_passing(answer)


async def test_a_difference_is_short_and_quickly_found_however_long_the_requests_are(path, messages_api):
    messages_api.add(Reply("One"))
    await record(path, "\n".join(f"{number} {'x' * 300}" for number in range(5000)))
    other = "\n".join(f"{number} {'y' * 300}" for number in range(5000))
    answer = await asyncio.wait_for(ask(ReplayProvider(path), user(other), user("more"), user("more")), 120)
    assert "left out" in answer.error_message
    assert len(answer.error_message) < 12_000


async def test_another_request_names_the_way_back_to_where_the_recording_begins(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"))
    await record(path, "first", "second")
    replay = ReplayProvider(path)
    assert "`%agent --new` begins one" in (await ask(replay, user("another"))).error_message
    await ask(replay, user("first"))
    later = (await ask(replay, user("another"))).error_message
    assert "restart the kernel or the program" in later
    assert "--new" not in later


async def test_a_used_up_cassette_says_so(path, messages_api):
    messages_api.add(Reply("One"))
    await record(path, "go")
    replay = ReplayProvider(path)
    await ask(replay, user("go"))
    answer = await ask(replay, user("go"))
    assert answer.stop_reason == "error"
    assert f"{path} is used up" in answer.error_message
    assert not is_passing(answer)


async def test_what_was_not_played_can_be_asked_for(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"))
    await record(path, "first", "second")
    replay = ReplayProvider(path)
    await ask(replay, user("first"))
    assert replay.remaining == ['exchange 2: user "second"']


# --- what does not count ---------------------------------------------------------------------------------------------


def surroundings(date: str, cwd: str) -> str:
    return f"Be brief.\n\nCurrent date: {date}\nCurrent working directory: {cwd}"


async def test_python_versions_and_the_place_of_the_notebook_do_not_count(path, messages_api):
    messages_api.add(Reply("One"))
    system = "You are in a notebook.\n\nKernel: Python {0} in {1}; %pip installs there.{2}\n\nGuidelines:"
    told = "modules: pd (pandas)\nversions: pandas {}"
    await record(path, told.format("2.2.3"), system=system.format("3.11.7", "/opt/py", "\nNotebook: /srv/a.ipynb"))
    other = system.format("3.14.0", "/home/ben/env", "")
    answer = await ask(ReplayProvider(path), user(told.format("3.1.1, numpy 2.3")), system=other)
    assert answer.text == "One", answer.error_message


async def test_day_place_and_passing_numbers_do_not_count(path, messages_api, monkeypatch):
    messages_api.add(Reply("One"))
    text = "In {0}/a.py and {1}/x: /tmp/{2}/y, <T at {3}>, pid {4}, {5}, {0}2"
    monkeypatch.setenv("HOME", "/home/ann")
    before = ("/srv/ann/p", "/home/ann", "tmpab12", "0x7f0012345678", 12, "2026-01-02T03:04Z")
    await record(path, text.format(*before), system=surroundings("2026-01-02", "/srv/ann/p"))
    stored = content(path)["exchanges"][0]["request"]
    assert stored["system"][-2:] == ["Current date: <<date>>", "Current working directory: <<cwd>>"]
    said = stored["messages"][0]["content"]
    assert said == (
        "In <<cwd>>/a.py and <<home>>/x: <<tmp>>/y, <T at <<address>>>, pid <<pid>>, <<timestamp>>, /srv/ann/p2"
    )
    monkeypatch.setenv("HOME", "/home/ben")
    after = ("/app", "/home/ben", "x9", "0x7fffffffffff", 7, "2027-12-31 23:59:59.123+01:00")
    asked = text.format(*after).replace("/app2", "/srv/ann/p2")
    answer = await ask(ReplayProvider(path), user(asked), system=surroundings("2027-12-31", "/app"))
    assert answer.text == "One", answer.error_message


async def test_a_long_listing_counts_with_its_names_only(path, messages_api):
    messages_api.add(Reply("One"))
    await record(
        path, "total 8\ndrwx------ 2 ann staff 4096 Nov 21 08:31 .\n-rw-r--r--@ 1 ann staff 11 Nov  2 08:31 a.py"
    )
    other = "total 0\ndrwxr-xr-x 14 root root 64 Dec  1  2027 .\n-rw-rw-r-- 1 root root 12 Dec 1 10:00 {}"
    assert (await ask(ReplayProvider(path), user(other.format("b.py")))).stop_reason == "error"
    assert (await ask(ReplayProvider(path), user(other.format("a.py")))).text == "One"


async def test_answers_name_the_folder_in_which_they_are_played(path, messages_api, monkeypatch):
    call = ToolUse("read", {"path": "/srv/ann/p/a.py", "also": ["/home/ann/.b"]})
    messages_api.add(Reply("I read /srv/ann/p/a.py", call), Reply("Done"))
    monkeypatch.setenv("HOME", "/home/ann")

    async def converse(provider: Provider, cwd: str, key: str | None) -> AssistantMessage:
        system = surroundings("2026-01-02", cwd)
        first = await ask(provider, user("go"), system=system, key=key)
        more = result(first.tool_calls[0], f"{cwd}/a.py is empty")
        last = await ask(provider, user("go"), first, more, system=system, key=key)
        assert last.text == "Done", last.error_message
        return first

    with recorder(path) as provider:
        await converse(provider, "/srv/ann/p", KEY)
    assert "/ann" not in path.read_text()
    monkeypatch.setenv("HOME", "/home/ben")
    played = await converse(ReplayProvider(path), "/app", None)
    assert played.text == "I read /app/a.py"
    assert played.tool_calls[0].arguments == {"path": "/app/a.py", "also": ["/home/ben/.b"]}


async def test_a_folder_named_once_counts_for_requests_that_do_not_name_it(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"))

    async def converse(provider: Provider, cwd: str, key: str | None) -> AssistantMessage:
        await ask(provider, user("go"), system=surroundings("2026-01-02", cwd), key=key)
        return await ask(provider, user(f"sum up: {cwd}/a.py"), key=key)

    with recorder(path) as provider:
        await converse(provider, "/srv/ann/p", KEY)
    assert (await converse(ReplayProvider(path), "/app", None)).text == "Two"


async def test_ids_of_calls_signatures_and_times_do_not_count(path, messages_api):
    messages_api.add(Reply("One"))

    def said(call_id: str, time: int) -> list[ModelMessage]:
        call = ToolCall(id=call_id, name="bash", arguments={"command": "ls"})
        thought = ThinkingContent(thinking="hm", thinking_signature=f"signature{time}")
        answer = AssistantMessage(
            content=[thought, call], api="a", provider="p", model="m", stop_reason="toolUse", timestamp=time
        )
        return [UserMessage(content="go", timestamp=time), answer, result(call, "a", timestamp=time)]

    with recorder(path) as provider:
        await ask(provider, *said("toolu_1", 1), key=KEY)
    assert (await ask(ReplayProvider(path), *said("other|id", 2))).text == "One"


async def test_a_result_counts_with_its_error_and_its_call(path, messages_api):
    messages_api.add(Reply("One"))
    calls = [ToolCall(id=f"c{number}", name="bash", arguments={}) for number in (1, 2)]
    answer = AssistantMessage(content=[*calls], api="a", provider="p", model="m", stop_reason="toolUse")
    with recorder(path) as provider:
        await ask(provider, user("go"), answer, result(calls[0], "a"), result(calls[1], "a"), key=KEY)
    for results in (
        [result(calls[0], "a"), result(calls[1], "a", is_error=True)],
        [result(calls[1], "a"), result(calls[0], "a")],
    ):
        assert (await ask(ReplayProvider(path), user("go"), answer, *results)).stop_reason == "error"


async def test_images_are_known_by_their_digest(path, messages_api):
    messages_api.add(Reply("A cat"))

    def picture(data: str) -> UserMessage:
        return UserMessage(content=[TextContent(text="What?"), ImageContent(data=data, mime_type="image/png")])

    with recorder(path) as provider:
        await ask(provider, picture("aGVsbG8="), key=KEY)
    assert "aGVsbG8=" not in path.read_text()
    assert (await ask(ReplayProvider(path), picture("aGVsbG9v"))).stop_reason == "error"
    assert (await ask(ReplayProvider(path), picture("aGVsbG8="))).text == "A cat"


async def test_a_figure_in_a_result_may_be_drawn_in_other_bytes(path, messages_api):
    messages_api.add(Reply("It rises"))
    call = ToolCall(id="c1", name="python", arguments={"code": "plot()"})
    answer = AssistantMessage(content=[call], api="a", provider="p", model="m", stop_reason="toolUse")

    def conversation(*figures: ImageContent) -> list[ModelMessage]:
        text = TextContent(text="drawn")
        drawn = ToolResultMessage(tool_call_id="c1", tool_name="python", content=[text, *figures], is_error=False)
        return [user("plot it"), answer, drawn]

    def figure(data: str, mime_type: str = "image/png") -> ImageContent:
        return ImageContent(data=data, mime_type=mime_type)

    with recorder(path) as provider:
        await ask(provider, *conversation(figure("aGVsbG8=")), key=KEY)
    assert (await ask(ReplayProvider(path), *conversation(figure("aGVsbG9v")))).text == "It rises"
    for other in ([], [figure("aGVsbG8=", "image/jpeg")], [figure("aGVsbG8=")] * 2):
        assert (await ask(ReplayProvider(path), *conversation(*other))).stop_reason == "error"


async def test_users_add_rules_of_their_own(path, messages_api):
    messages_api.add(Reply("One"))
    rules = (*RULES, Rule("duration", r"\b\d+(\.\d+)? seconds", "<<duration>>"))
    with RecordingProvider(AnthropicProvider(), Recording(path, rules=rules)) as provider:
        await ask(provider, user("took 3 seconds"), key=KEY)
    assert (await ask(ReplayProvider(path, rules=rules), user("took 4.5 seconds"))).text == "One"


# --- secrets ---------------------------------------------------------------------------------------------------------


async def test_no_secret_enters_a_cassette(path, messages_api, monkeypatch):
    secrets = [
        "plain-key-of-options",
        "value-of-a-header",
        "token-of-the-environment-1",
        "sk-ant-abcdefgh",
        "sk-0123456789abcdef",
        "eyJhbGciOiJIUzI1NiJ9.e30.x",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "AKIAIOSFODNN7EXAMPLE",
    ]
    monkeypatch.setenv("MY_SERVICE_TOKEN", secrets[2])
    model = HAIKU.replace(headers={"X-Gateway": secrets[1]})
    text = "\n".join(secrets).replace("eyJ", "Authorization: Bearer eyJ")
    messages_api.add(
        Reply(Thinking(text), text, ToolUse("bash", {"command": text, secrets[3]: [text]})),
        HttpError(401, "authentication_error", f"invalid key {secrets[0]} {secrets[4]}"),
    )
    with recorder(path) as provider:
        options = {"model": model, "key": secrets[0], "system": f"Be brief.\n{text}"}
        first = await ask(provider, user(text), **options)
        assert secrets[0] in first.text  # the user's own answer is left alone
        await ask(provider, user(text), first, result(first.tool_calls[0], text), **options)
    kept = path.read_text()
    assert [secret for secret in secrets if secret in kept] == []
    assert "X-Gateway" not in kept
    assert kept.count("<<secret>>") > 30


async def test_what_only_resembles_a_secret_is_kept(path, messages_api):
    text = "Use sk-learn-contrib, a task-oriented-approach, Bearer authentication, api_key=os.environ['KEY'], none."
    messages_api.add(Reply(text))
    with recorder(path) as provider:
        await ask(provider, user(text), key="none")
    answer = await ask(ReplayProvider(path), user(text))
    assert answer.text == text
    assert "<<secret>>" not in path.read_text()


@pytest.mark.parametrize(
    "trap",
    [
        "sk-",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "bearer ",
        "Current date: ",
        "/tmp/",
        "-rw-r--r-- 1 a b ",
        "2026-01-01T",
        f"{Path.cwd()}",
    ],
    ids=["key", "private", "bearer", "date", "place", "listing", "time", "cwd"],
)
def test_no_text_keeps_the_search_for_secrets_busy(tmp_path, trap):
    def record_some(length):
        with RecordingProvider(OfflineProvider(), tmp_path / f"{length}.json") as provider:
            asyncio.run(ask(provider, user(trap * (length // len(trap))), model=find_model("offline")))

    assert cpu_stays_in_proportion(25_000, record_some)


async def test_a_private_key_is_a_secret(path):
    lines = "MIIEowIBAAKCAQEA\n" * 25
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}-----END RSA PRIVATE KEY-----"
    with RecordingProvider(OfflineProvider(), path) as provider:
        await ask(provider, user(f"my key:\n{key}\nthat is it"), model=find_model("offline"))
    assert content(path)["exchanges"][0]["request"]["messages"][0]["content"] == ["my key:", "<<secret>>", "that is it"]


async def test_a_password_in_code_is_kept_out_of_requests_and_left_in_the_code_that_runs_again(path, messages_api):
    code = "db_password = 'hunter2'; connect(db_password)"
    messages_api.add(Reply(ToolUse("python", {"code": code})), Reply("Done"))
    with recorder(path) as provider:
        first = await ask(provider, user(f"run {code}"), key=KEY)
        await ask(provider, user(f"run {code}"), first, result(first.tool_calls[0], "password=hunter2"), key=KEY)
    requests = [exchange["request"] for exchange in content(path)["exchanges"]]
    assert "hunter2" not in json.dumps(requests)
    player = ReplayProvider(path)
    again = await ask(player, user(f"run {code}"))
    assert again.tool_calls[0].arguments == {"code": code}
    last = await ask(player, user(f"run {code}"), again, result(again.tool_calls[0], "password=hunter2"))
    assert last.text == "Done"


async def test_a_cassette_in_which_a_secret_was_not_recognised_when_it_was_recorded_is_replayed(path, messages_api):
    messages_api.add(Reply("One"))
    await record(path, "DB_PASSWORD=hunter2 and glpat-0123456789abcdef")
    secrets = ("DB_PASSWORD=<<secret>> and <<secret>>", "DB_PASSWORD=hunter2 and glpat-0123456789abcdef")
    path.write_text(path.read_text().replace(*secrets))
    assert "hunter2" in path.read_text()
    answer = await ask(ReplayProvider(path), user("DB_PASSWORD=hunter2 and glpat-0123456789abcdef"))
    assert answer.text == "One"


async def test_a_difference_shows_no_secret(path, messages_api):
    messages_api.add(Reply("One"))
    await record(path, "go")
    answer = await ask(ReplayProvider(path), user("my key is sk-ant-0123456789"))
    assert "my key is <<secret>>" in answer.error_message
    assert "0123456789" not in answer.error_message


# --- the file --------------------------------------------------------------------------------------------------------


async def test_a_cassette_tells_each_thing_once_and_text_in_lines(path, messages_api):
    messages_api.add(Reply("Two\nlines", usage={"input_tokens": 5}, final_usage={"output_tokens": 3}), Reply("Fine"))
    with recorder(path) as provider:
        first = await ask(provider, user("go"), tools=(), key=KEY)
        await ask(provider, user("go"), first, user("and?"), tools=(), key=KEY)
    cassette = content(path)
    for exchange in cassette["exchanges"]:
        usage = exchange["answer"].pop("usage")
        assert usage["input"] > 0
        assert usage["cost"]["total"] > 0
    assert cassette == {
        "format": "indus_nb cassette",
        "version": 1,
        "exchanges": [
            {
                "request": {
                    "model": "claude-haiku-4-5",
                    "system": "Be brief.",
                    "tools": {},
                    "messages": [{"role": "user", "content": "go"}],
                },
                "answer": {"content": [{"type": "text", "text": ["Two", "lines"]}], "stopReason": "stop"},
            },
            {
                "request": {
                    "model": "claude-haiku-4-5",
                    "keptMessages": 2,
                    "messages": [{"role": "user", "content": "and?"}],
                },
                "answer": {"content": [{"type": "text", "text": "Fine"}], "stopReason": "stop"},
            },
        ],
    }
    assert path.read_text() == json.dumps(content(path), indent=2) + "\n"


async def test_a_long_conversation_makes_a_cassette_in_proportion_to_it(path):
    with RecordingProvider(OfflineProvider(), path) as provider:
        messages: list[ModelMessage] = []
        sizes = []
        for number in range(30):
            messages.append(user(f"{number} " + "x" * 1000))
            messages.append(await ask(provider, *messages, model=find_model("offline")))
            sizes.append(path.stat().st_size)
    growth = [after - before for before, after in pairwise(sizes)]
    assert max(growth) < 1.1 * min(growth)


async def test_an_edited_answer_is_played_and_need_be_edited_once(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"))
    with recorder(path) as provider:
        first = await ask(provider, user("go"), key=KEY)
        await ask(provider, user("go"), first, user("more"), key=KEY)
    edit(path, '"text": "One"', '"text": ["Quite", "another"]')
    replay = ReplayProvider(path)
    first = await ask(replay, user("go"))
    assert first.text == "Quite\nanother"
    assert (await ask(replay, user("go"), first, user("more"))).text == "Two"


async def test_every_answer_is_in_the_file_before_its_last_event(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"))
    with recorder(path) as provider:
        for count in (1, 2):
            context = Context("", [user("go")])
            async for event in provider.stream(HAIKU, context, StreamOptions(api_key=KEY)):
                if isinstance(event, StreamDone):
                    assert len(content(path)["exchanges"]) == count
    assert [entry.name for entry in path.parent.iterdir()] == ["talk.json"]


async def test_answers_stand_in_the_order_of_their_requests(path, messages_api):
    gate = Gate()

    def reply(request: Recorded) -> Reply:
        return Reply(Text("Slow", gate) if request.texts == ["2"] else f"Quick {request.texts[0]}")

    messages_api.add(reply, reply, reply)
    with recorder(path) as provider:
        first = await ask(provider, user("1"), key=KEY)
        slow = asyncio.create_task(ask(provider, user("2"), system="Be slow.", key=KEY))
        await asyncio.sleep(0)
        await ask(provider, user("1"), first, user("3"), key=KEY)
        assert len(content(path)["exchanges"]) == 2
        gate.open()
        await slow
    replay = ReplayProvider(path)
    assert (await ask(replay, user("1"))).text == "Quick 1"
    assert (await ask(replay, user("2"), system="Be slow.")).text == "Slow"
    assert (await ask(replay, user("1"), first, user("3"))).text == "Quick 3"


async def test_only_what_is_new_is_told_of_a_conversation_with_many_calls(path, messages_api):
    call = ToolUse("bash", {"command": "ls"})
    messages_api.add(Reply(call, call), Reply("More", call), Reply("Done"))

    async def converse(provider: Provider, key: str | None) -> AssistantMessage:
        messages: list[ModelMessage] = [user("go")]
        while True:
            answer = await ask(provider, *messages, key=key)
            if answer.stop_reason != "toolUse":
                return answer
            messages += [answer, *(result(call, "a") for call in answer.tool_calls)]

    with recorder(path) as provider:
        await converse(provider, KEY)
    told = [exchange["request"]["messages"] for exchange in content(path)["exchanges"]]
    assert [[message.get("toolCallId") for message in messages] for messages in told] == [
        [None],
        ["call-1", "call-2"],
        ["call-3"],
    ]
    assert (await converse(ReplayProvider(path), None)).text == "Done"


async def test_a_new_recording_replaces_the_old_one_with_its_first_answer(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"), HttpError(401, "authentication_error", "no"), Reply("New"))
    await record(path, "a", "b")
    old = path.read_bytes()
    path.with_name(".talk.json.new").write_text("left by a process that died while it wrote")
    path.chmod(0o640)
    with recorder(path):
        assert path.read_bytes() == old
    with recorder(path) as provider:
        await ask(provider, user("c"), key=KEY)
    assert len(content(path)["exchanges"]) == 1
    assert path.stat().st_mode & 0o777 == 0o640


async def test_a_file_that_is_no_cassette_is_not_overwritten_and_nothing_is_asked(path, messages_api):
    path.parent.mkdir()
    for other in ('{"mine": 1}', "notes", "[]"):
        path.write_text(other)
        [answer] = await record(path, "go")
        assert answer.stop_reason == "error"
        assert "is no cassette" in answer.error_message
        assert path.read_text() == other
    assert messages_api.requests == []


async def test_a_cassette_is_its_owners_alone_and_no_pipe(path, messages_api):
    messages_api.add(Reply("One"))
    await record(path, "go")
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    os.mkfifo(path)
    [answer] = await record(path, "go")
    assert "is no cassette" in answer.error_message
    answer = await ask(ReplayProvider(path), user("go"))
    assert f"{path} cannot be read" in answer.error_message


async def test_a_second_recorder_is_refused_before_it_asks(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"))
    with recorder(path) as first:
        await ask(first, user("go"), key=KEY)
        program = (
            "import asyncio, sys\n"
            "from indus_nb.base.messages import UserMessage\n"
            "from indus_nb.models import Context, StreamOptions\n"
            "from indus_nb.models.catalog import find_model\n"
            "from indus_nb.models.apis.offline import OfflineProvider\n"
            "from indus_nb.models.cassettes import RecordingProvider\n"
            "async def ask():\n"
            "    provider = RecordingProvider(OfflineProvider(), sys.argv[1])\n"
            "    context = Context('', [UserMessage(content='hi')])\n"
            "    events = provider.stream(find_model('offline'), context, StreamOptions())\n"
            "    print([event async for event in events][-1].error.error_message)\n"
            "asyncio.run(ask())\n"
        )
        other = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", program, path], capture_output=True, text=True, check=False
        )
        assert "being recorded by somebody else" in other.stdout, other.stderr
        here = await ask(recorder(path), user("go"), key=KEY)
        assert "being recorded by somebody else" in here.error_message
        assert len(messages_api.requests) == 1
        await ask(first, user("go"), key=KEY)
    assert len(content(path)["exchanges"]) == 2


async def test_a_recorder_that_was_forgotten_holds_nobody_up(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"))
    provider = recorder(path)
    await ask(provider, user("go"), key=KEY)
    del provider
    [answer] = await record(path, "go")
    assert answer.text == "Two"


async def test_an_answer_that_cannot_be_kept_says_so_and_is_not_half_kept(path, messages_api):
    messages_api.add(Reply("One"), Reply("Two"), Reply("Three"))
    with recorder(path) as provider:
        await ask(provider, user("1"), key=KEY)
        (path.parent / ".talk.json.new").mkdir()
        answer = await ask(provider, user("2"), key=KEY)
        assert (answer.text, answer.stop_reason) == ("Two", "error")
        assert f"could not be added to the cassette {path}" in answer.error_message
        assert not is_passing(answer)
        (path.parent / ".talk.json.new").rmdir()
        await ask(provider, user("3"), key=KEY)
    assert [entry["answer"]["content"][0]["text"] for entry in content(path)["exchanges"]] == ["One", "Three"]


async def test_an_answer_that_comes_after_the_end_of_the_recording_is_not_kept(path, messages_api):
    gate = Gate()
    messages_api.add(Reply("One"), Reply(Text("Tw", gate, "o")))
    with recorder(path) as provider:
        await ask(provider, user("1"), key=KEY)
        late = asyncio.create_task(ask(provider, user("2"), key=KEY))
        await asyncio.to_thread(gate.reached.wait, 240)
    gate.open()
    assert (await late).text == "Two"
    assert len(content(path)["exchanges"]) == 1


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"version": 1', '"version": 2', "version 2"),
        ('"format": "indus_nb cassette"', '"format": "another"', "is no cassette"),
        ('"stopReason": "stop"', '"stopReason": "aborted"', "`exchanges.0.answer.stopReason`"),
        ('"stopReason": "stop"', '"stopReson": "stop"', "`exchanges.0.answer.stopReason`"),
        ('"system": "Be brief.",', "", "must name `system`"),
        ('"tools"', '"keptMessages": 3, "tools"', "`exchanges.0.request.keptMessages`"),
        ('"exchanges": [', '"exchanges": [[', "is no JSON"),
    ],
)
async def test_a_cassette_that_cannot_be_played_is_an_answer_that_says_where_it_is_wrong(
    path, messages_api, old, new, told
):
    messages_api.add(Reply("One"))
    await record(path, "go")
    edit(path, old, new)
    answer = await ask(ReplayProvider(path), user("go"))
    assert answer.stop_reason == "error"
    assert str(path) in answer.error_message
    assert told in answer.error_message
    assert not is_passing(answer)


async def test_a_missing_cassette_is_an_answer_that_says_how_to_record_one(path):
    answer = await ask(ReplayProvider(path), user("go"))
    assert f"There is no cassette at {path}" in answer.error_message
    assert "INDUS_NB_CASSETTE_MODE=record" in answer.error_message
    with pytest.raises(UsageError, match="There is no cassette"):
        _ = ReplayProvider(path).remaining


# --- which of them ---------------------------------------------------------------------------------------------------


async def test_auto_records_what_is_missing_and_plays_what_is_there(path, messages_api):
    messages_api.add(Reply("One"))
    with cassette_provider("auto", path, AnthropicProvider()) as provider:
        await ask(provider, user("go"), key=KEY)
    again = cassette_provider("auto", path, AnthropicProvider())
    assert isinstance(again, ReplayProvider)
    assert (await ask(again, user("go"))).text == "One"
    with pytest.raises(UsageError, match="Choose one of replay, record, auto"):
        cassette_provider("play", path, AnthropicProvider())


async def test_the_environment_names_one_cassette_for_all_providers_of_a_process(path, messages_api, monkeypatch):
    messages_api.add(Reply("One"), Reply("Three"))
    offline = find_model("offline")

    async def converse(key: str | None) -> list[str]:
        claude = await ask(provider_from_environment(AnthropicProvider()), user("1"), key=key)
        pattern = await ask(provider_from_environment(OfflineProvider()), user("2"), model=offline)
        again = await ask(provider_from_environment(AnthropicProvider()), user("3"), key=key)
        return [claude.text, pattern.text, again.text]

    monkeypatch.setenv("INDUS_NB_CASSETTE", str(path))
    assert not is_replaying()
    recorded = await converse(KEY)
    assert recorded[0::2] == ["One", "Three"]
    assert not is_replaying()  # what it was found to be it stays, though the file is there now
    monkeypatch.setenv("INDUS_NB_CASSETTE_MODE", "replay")
    assert is_replaying()
    assert await converse(None) == recorded
    assert len(messages_api.requests) == 2


def test_without_the_variable_a_provider_is_left_alone(monkeypatch):
    provider = OfflineProvider()
    assert provider_from_environment(provider) is provider
    assert not is_replaying()
    monkeypatch.setenv("INDUS_NB_CASSETTE", "talk.json")
    monkeypatch.setenv("INDUS_NB_CASSETTE_MODE", "rewind")
    with pytest.raises(UsageError, match="Unknown cassette mode: rewind"):
        provider_from_environment(provider)


async def test_a_cassette_that_is_switched_off_is_free_for_others(path, messages_api, monkeypatch):
    messages_api.add(Reply("One"), Reply("Two"))
    monkeypatch.setenv("INDUS_NB_CASSETTE", os.fspath(path))
    provider = provider_from_environment(AnthropicProvider())
    await ask(provider, user("go"), key=KEY)
    monkeypatch.delenv("INDUS_NB_CASSETTE")
    provider_from_environment(AnthropicProvider())
    [answer] = await record(path, "go")
    assert answer.text == "Two"
