"""The prompt cache: what is marked for how long, that a later request finds it again, and what that costs.

What a server keeps is simulated from the bodies that it got: it keeps a request up to each mark, and finds that again
by a mark at the same place or at most twenty blocks behind it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from messages_api import HttpError, Reply
from openai_api import OpenAIApi

from indus_nb.base.messages import AssistantMessage, ImageContent, TextContent, ToolCall, ToolResultMessage, UserMessage
from indus_nb.models import Context, Model, StreamOptions, ToolSpec
from indus_nb.models.apis.adapters import adapter
from indus_nb.models.apis.anthropic import betas, request_body
from indus_nb.models.apis.conforming import conforming
from indus_nb.models.apis.rules import keeps_long
from indus_nb.models.catalog import ModelCost, builtin_models, find_model
from indus_nb.models.models_file import ProviderConfig, apply_config
from indus_nb.models.prompt_cache import prompt_price, retention_for

HAIKU = find_model("claude-haiku-4-5")
ROUTED = find_model("openrouter/anthropic/claude-sonnet-4.5")
LS = ToolSpec("ls", "Lists.", {"type": "object", "properties": {}})
HOUR = {"type": "ephemeral", "ttl": "1h"}
FIVE_MINUTES = {"type": "ephemeral"}
LONG = {"supportsLongCacheRetention": True}
LOOK_BACK = 20


# --- what a server makes of the marks --------------------------------------------------------------------------------


def blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """All that a server reads, in its order."""
    return [
        *body.get("tools", ()),
        *body.get("system", ()),
        *(block for message in body["messages"] for block in message["content"]),
    ]


class Keeper:
    """A server that keeps prompts."""

    def __init__(self) -> None:
        self.kept: set[str] = set()

    def read(self, body: dict[str, Any]) -> tuple[int, int]:
        """How many blocks of a request were kept, and how many there are; keeps it up to its marks."""
        all_blocks = blocks(body)
        bare = [{key: value for key, value in block.items() if key != "cache_control"} for block in all_blocks]
        prefixes = [json.dumps(bare[: end + 1]) for end in range(len(bare))]
        marks = [place for place, block in enumerate(all_blocks) if "cache_control" in block]
        found = [
            place + 1
            for mark in marks
            for place in range(mark, max(-1, mark - LOOK_BACK - 1), -1)
            if prefixes[place] in self.kept
        ]
        self.kept |= {prefixes[mark] for mark in marks}
        return max(found, default=0), len(bare)


async def body_of(*messages: Any, model: Model = HAIKU, system: str = "Be brief.", **options: Any) -> dict[str, Any]:
    context = await conforming(Context(system, messages, (LS,)), model)
    return json.loads(json.dumps(request_body(model, context, StreamOptions(**options))))


def said(*content: Any) -> AssistantMessage:
    return AssistantMessage(content=list(content), api=HAIKU.api, provider=HAIKU.provider, model=HAIKU.id)


def turn(number: int, calls: int) -> list[Any]:
    made = [ToolCall(id=f"t{number}_{call}", name="ls", arguments={"n": call}) for call in range(calls)]
    results = [
        ToolResultMessage(tool_call_id=call.id, tool_name="ls", content=[TextContent(text="out")], is_error=False)
        for call in made
    ]
    return [said(TextContent(text="I look."), *made), *results]


def prefixes(conversation: Sequence[Any]) -> Iterator[list[Any]]:
    """What is sent: the conversation up to each place where the model is asked."""
    for end, message in enumerate(conversation):
        after = conversation[end + 1] if end + 1 < len(conversation) else None
        if not isinstance(message, AssistantMessage) and (after is None or isinstance(after, AssistantMessage)):
            yield list(conversation[: end + 1])


@pytest.mark.parametrize("calls", [1, 9, 12, 40])
async def test_each_request_finds_all_of_the_one_before_however_many_calls_a_turn_has(calls):
    conversation: list[Any] = []
    for number in range(6):
        conversation += [UserMessage(content=f"Prompt {number}"), *turn(number, calls), said(TextContent(text="Done."))]
    server, before = Keeper(), 0
    for messages in prefixes(conversation):
        found, length = server.read(await body_of(*messages))
        assert found >= before
        before = length


async def test_a_conversation_that_goes_on_from_the_turn_before_finds_what_precedes_that():
    conversation = [
        UserMessage(content="One"),
        *turn(1, 12),
        said(TextContent(text="Done.")),
        UserMessage(content="Two"),
        *turn(2, 12),
    ]
    server = Keeper()
    lengths = [server.read(await body_of(*messages))[1] for messages in prefixes(conversation)]
    found, _ = server.read(await body_of(*conversation[:15], UserMessage(content="Another two")))
    assert found == lengths[1]


async def test_what_is_marked_is_what_every_api_accepts(messages_api):
    picture = ImageContent(data="R0lGODlhAQABAAAAACw=", mime_type="image/gif")
    messages_api.add(*[Reply("x")] * 3)
    for retention in ("none", "short", "long"):
        context = Context("Be brief.", [UserMessage(content="a"), *turn(1, 12), UserMessage(content=[picture])], (LS,))
        options = StreamOptions(api_key="k", cache_retention=retention)
        model = HAIKU.replace(base_url=messages_api.url, compat=LONG)
        events = [event async for event in adapter(model.api).stream(model, context, options)]
        assert events[-1].type == "done"
    none, short, long = (
        [block["cache_control"] for block in blocks(request.body) if "cache_control" in block]
        for request in messages_api.requests
    )
    assert (none, short, long) == ([], [FIVE_MINUTES] * 3, [HOUR] * 3)


async def test_the_last_tool_is_marked_where_no_system_prompt_follows_it():
    body = await body_of(UserMessage(content="a"), system="")
    assert body["tools"][0]["cache_control"] == FIVE_MINUTES


async def test_of_a_request_that_nothing_goes_on_from_only_what_others_share_is_marked():
    body = await body_of(UserMessage(content="A row"), is_continued=False)
    marked = [block for block in blocks(body) if "cache_control" in block]
    assert marked == body["system"]


@pytest.mark.parametrize("model", [m for m in builtin_models() if m.api.startswith("anthropic-")], ids=lambda m: m.id)
async def test_every_platform_of_claudes_is_asked_to_keep_for_an_hour(model):
    body = await body_of(UserMessage(content="a"), model=model, cache_retention="long")
    assert body["system"][0]["cache_control"] == HOUR


async def test_a_server_that_is_not_known_to_keep_for_an_hour_is_not_asked_to():
    unknown = HAIKU.replace(provider="mine", compat=None)
    body = await body_of(UserMessage(content="a"), model=unknown, cache_retention="long")
    assert body["system"][0]["cache_control"] == FIVE_MINUTES


async def test_another_server_for_anthropics_models_is_not_asked_to_keep_for_an_hour(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway.example")
    for compat, mark in ((HAIKU.compat, FIVE_MINUTES), (LONG, HOUR)):
        body = await body_of(UserMessage(content="a"), model=HAIKU.replace(compat=compat), cache_retention="long")
        assert body["system"][0]["cache_control"] == mark


async def test_a_server_that_refuses_an_hour_is_asked_for_five_minutes_at_once_and_from_then_on(messages_api):
    refusal = HttpError(400, "invalid_request_error", "system.0.cache_control.ttl: Extra inputs are not permitted")
    messages_api.add(refusal, "x", "x")
    model = HAIKU.replace(base_url=messages_api.url, provider="of five minutes", compat=LONG)
    options = StreamOptions(api_key="k", cache_retention="long")
    for _ in range(2):
        context = Context("Be brief.", [UserMessage(content="a")])
        events = [event async for event in adapter(model.api).stream(model, context, options)]
        assert events[-1].type == "done"
    marks = [request.body["system"][0]["cache_control"] for request in messages_api.requests]
    assert marks == [HOUR, FIVE_MINUTES, FIVE_MINUTES]
    assert prompt_price(model, 1000, 400, "long").is_expired


def test_a_model_of_bedrocks_that_is_not_listed_is_not_known_to_keep_for_an_hour():
    entry = {"id": "anthropic.claude-3-haiku-20240307-v1:0"}
    config = ProviderConfig(models=[entry])
    models = apply_config(builtin_models(), "amazon-bedrock", config)
    kept = {model.id: keeps_long(model) for model in models if model.provider == "amazon-bedrock"}
    assert not kept.pop(entry["id"])
    assert all(kept.values())


# --- gateways that speak chat completions ----------------------------------------------------------------------------


async def completions(api: OpenAIApi, model: Model, *messages: Any, system: str = "Be brief.", **options: Any) -> Any:
    api.add("x")
    asked = Context(system, messages, (LS,))
    wishes = StreamOptions(**{"api_key": "k", **options})
    stream = adapter(model.api).stream(model.replace(base_url=f"{api.url}/v1"), asked, wishes)
    ends = [event async for event in stream]
    assert ends[-1].type == "done"
    return api.requests[-1].body, ends[-1].message


async def test_claude_by_openrouter_is_marked_at_the_same_places(server):
    conversation = [UserMessage(content="One"), *turn(1, 2), said(TextContent(text="Done.")), UserMessage(content="2")]
    model = ROUTED.replace(compat=LONG)
    body, _ = await completions(server, model, *conversation, cache_retention="long")
    marked = [
        (message["role"], part.get("text"), part["cache_control"])
        for message in body["messages"]
        for part in (message["content"] if isinstance(message["content"], list) else ())
        if "cache_control" in part
    ]
    assert marked == [
        ("system", "Be brief.", HOUR),
        ("user", "One", HOUR),
        ("tool", "out", HOUR),
        ("user", "2", HOUR),
    ]


async def test_a_picture_keeps_its_place_and_the_text_before_it_is_marked(server):
    picture = ImageContent(data="R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", mime_type="image/gif")
    body, _ = await completions(server, ROUTED, UserMessage(content=[TextContent(text="See"), picture]))
    text, image = body["messages"][-1]["content"]
    assert text["cache_control"] == FIVE_MINUTES
    assert "cache_control" not in image


async def test_the_last_tool_of_a_gateway_is_marked_where_no_system_prompt_follows_it(server):
    body, _ = await completions(server, ROUTED, UserMessage(content="a"), system="")
    assert body["tools"][0]["cache_control"] == FIVE_MINUTES


@pytest.mark.parametrize(
    ("model", "is_marked"),
    [
        (ROUTED, True),
        (ROUTED.replace(id="anthropic/claude-new-9"), True),
        (ROUTED.replace(compat={"cacheControlFormat": "none"}), False),
        (find_model("openrouter/openai/gpt-oss-120b"), False),
        (ROUTED.replace(provider="mine", compat={"cacheControlFormat": "anthropic"}), True),
        (ROUTED.replace(provider="mine", compat=None), False),
    ],
)
async def test_who_takes_marks_is_known_by_the_server_or_declared(server, model, is_marked):
    body, _ = await completions(server, model, UserMessage(content="a"))
    assert ("cache_control" in json.dumps(body)) == is_marked


# --- OpenAI's own ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["openai-responses", "openai-completions"])
async def test_a_conversations_requests_share_a_key_where_the_server_takes_one(server, api):
    mini = find_model("gpt-5-mini").replace(api=api)
    known = mini.replace(compat={"supportsPromptCacheKey": True})
    keyed, _ = await completions(server, known, UserMessage(content="a"), session_id="s" * 100)
    assert keyed["prompt_cache_key"] == "s" * 64
    for model, options in ((mini, {"session_id": "s"}), (known, {}), (known, {"cache_retention": "none"})):
        body, _ = await completions(server, model, UserMessage(content="a"), **options)
        assert "prompt_cache_key" not in body


async def test_what_costs_to_be_kept_and_is_read_by_nobody_is_not_kept(server):
    sol = find_model("gpt-5.6-sol")
    kept, _ = await completions(server, sol, UserMessage(content="a"))
    single, _ = await completions(server, sol, UserMessage(content="a"), cache_retention="none")
    assert "prompt_cache_options" not in kept
    assert single["prompt_cache_options"] == {"mode": "explicit"}


# --- how long, and at what price -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "usual", "has_paused", "kept"),
    [
        ("auto", "short", False, "short"),
        ("auto", "short", True, "long"),
        ("auto", "long", False, "long"),
        ("auto", "none", True, "none"),
        ("short", "long", True, "short"),
        ("none", "long", True, "none"),
        ("long", "short", False, "long"),
    ],
)
def test_a_setting_comes_before_what_is_usual_and_a_pause_before_that(setting, usual, has_paused, kept):
    assert retention_for(setting, usual, has_paused=has_paused) == kept


SONNET = find_model("claude-sonnet-4-6")


@pytest.mark.parametrize(
    ("retention", "before", "idle", "now", "cached"),
    [
        ("short", None, 10, 0.03, 0.03),
        ("short", None, 301, 0.375, 0.03),
        ("long", None, 301, 0.03, 0.03),
        ("long", "short", 301, 0.6, 0.03),
        ("long", None, 3601, 0.6, 0.03),
        ("none", None, 1, 0.3, 0.03),
        ("short", None, None, 0.375, 0.03),
    ],
)
def test_a_prompt_costs_what_its_cache_has_become(retention, before, idle, now, cached):
    price = prompt_price(SONNET, 100_000, idle, retention, before)
    assert price == (pytest.approx(now), pytest.approx(cached))
    assert price.is_expired == (now > cached)


def test_no_price_is_told_of_a_model_without_one():
    assert prompt_price(find_model("openrouter/openrouter/auto"), 1000, 10, "short") is None


def test_where_nothing_is_charged_for_keeping_a_prompt_costs_what_it_is_read_for():
    gemini = find_model("gemini-2.5-flash")
    assert prompt_price(gemini, 1_000_000, 1000, "long") == (pytest.approx(0.3), pytest.approx(0.03))


def test_where_what_is_kept_has_no_price_of_its_own_nothing_has_become_dearer():
    for cost in (ModelCost(input=3, output=15), ModelCost(input=3, output=15, cache_write=3.75)):
        price = prompt_price(SONNET.replace(cost=cost), 100_000, 600, "short")
        assert (price, price.is_expired) == ((pytest.approx(0.3), pytest.approx(0.3)), False)


def test_a_server_that_keeps_for_five_minutes_alone_is_not_paid_for_an_hour():
    unknown = SONNET.replace(provider="mine", compat=None)
    assert prompt_price(unknown, 100_000, 301, "long") == (pytest.approx(0.375), pytest.approx(0.03))


@pytest.mark.parametrize(("idle", "now"), [(1000, 0.025), (2000, 0.25)])
def test_openai_keeps_for_half_an_hour_at_least(idle, now):
    assert prompt_price(find_model("gpt-5-mini"), 1_000_000, idle, "short") == (now, 0.025)


# --- thinking between tool calls -------------------------------------------------------------------------------------

INTERLEAVED = "interleaved-thinking-2025-05-14"


@pytest.mark.parametrize(
    ("name", "thinking", "tools", "asks"),
    [
        ("claude-haiku-4-5", "low", (LS,), True),
        ("claude-haiku-4-5", "off", (LS,), False),
        ("claude-haiku-4-5", "low", (), False),
        ("claude-sonnet-4-6", "low", (LS,), False),
    ],
)
async def test_a_model_that_must_be_told_to_think_between_calls_is_told_so(messages_api, name, thinking, tools, asks):
    messages_api.add("x")
    model = find_model(name).replace(base_url=messages_api.url, provider="mine")
    options = StreamOptions(api_key="k", thinking=thinking)
    async for _ in adapter(model.api).stream(model, Context("", [UserMessage(content="x")], tools), options):
        pass
    header = {name.lower(): value for name, value in messages_api.requests[0].headers.items()}.get("anthropic-beta", "")
    assert (INTERLEAVED in header) == asks


def test_what_a_users_own_header_asks_for_already_is_not_asked_for_twice():
    body = {"thinking": {"type": "enabled"}, "tools": [{}]}
    asked = betas(body, interleaved=True, asked=f"another-beta, {INTERLEAVED}")
    assert asked == {"anthropic-beta": f"another-beta,{INTERLEAVED}"}


def test_the_catalog_says_which_models_must_be_told():
    told = {model.id for model in builtin_models() if model.interleaved_thinking}
    assert told == {model.id for model in builtin_models() if model.thinking_style == "budget"}
