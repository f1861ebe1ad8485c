"""How long the provider of a session is asked to keep its conversation: by setting, interface, pauses and purpose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from messages_api import AS_ANTHROPIC, MessagesApi, Recorded, Reply
from openai_api import OpenAIApi

from indus_nb import AgentSession, SessionOptions, open_session
from indus_nb.front.notebook.magic.request import parse
from indus_nb.front.notebook.magic.told import told
from indus_nb.front.notebook.session_options import session_options

SIX_MINUTES_MS = 360_000


@pytest.fixture
def open_(messages_api: MessagesApi, home: Path) -> Iterator[Callable[..., AgentSession]]:
    sessions: list[AgentSession] = []
    messages_api.default = Reply("Yes.")

    def open_one(settings: dict[str, Any] | None = None, **options: Any) -> AgentSession:
        (home / "agent").mkdir(exist_ok=True)
        (home / "agent" / "settings.json").write_text(json.dumps(settings or {}))
        (home / "agent" / "models.json").write_text(json.dumps({"providers": AS_ANTHROPIC}))
        chosen = SessionOptions(**{"cwd": home / "work", "model": "haiku", **options})
        sessions.append(open_session(chosen))
        return sessions[-1]

    yield open_one
    for session in sessions:
        session.close()


def kept(request: Recorded) -> list[str]:
    """The lifetimes of a request's marks."""
    parts = [*request.body["system"], *(block for each in request.body["messages"] for block in each["content"])]
    return [part["cache_control"].get("ttl", "5m") for part in parts if "cache_control" in part]


@pytest.mark.parametrize(
    ("setting", "usual", "lifetimes"),
    [
        (None, "short", ["5m", "5m"]),
        (None, "long", ["1h", "1h"]),
        ("long", "short", ["1h", "1h"]),
        ("short", "long", ["5m", "5m"]),
        ("none", "long", []),
    ],
)
async def test_the_setting_decides_else_the_interface(messages_api, open_, setting, usual, lifetimes):
    settings = {} if setting is None else {"cacheRetention": setting}
    await open_(settings, usual_cache_retention=usual).prompt("Hi")
    assert kept(messages_api.requests[0]) == lifetimes


@pytest.mark.parametrize("variable", ["INDUS_NB_CACHE_RETENTION", "INDUSAGI_CACHE_RETENTION"])
@pytest.mark.parametrize(("setting", "lifetime"), [("auto", "1h"), ("short", "5m")])
async def test_the_environment_counts_where_the_setting_leaves_it_open(
    messages_api, open_, monkeypatch, setting, lifetime, variable
):
    monkeypatch.setenv(variable, "long")
    await open_({"cacheRetention": setting}).prompt("Hi")
    assert kept(messages_api.requests[0])[0] == lifetime


def test_a_notebooks_conversations_are_kept_for_long():
    options = session_options(parse("Hi"), None, None, (), (), "")
    assert (options.usual_cache_retention, SessionOptions().usual_cache_retention) == ("long", "short")


async def test_a_session_that_has_once_waited_for_more_than_five_minutes_is_kept_for_long(messages_api, open_):
    session = open_()
    await session.prompt("One")
    await session.prompt("Two")
    session.messages[-1].timestamp -= SIX_MINUTES_MS
    await session.prompt("Three")
    await session.prompt("Four, at once")
    assert [kept(request)[0] for request in messages_api.requests] == ["5m", "5m", "1h", "1h"]


async def test_another_session_in_its_place_begins_anew(messages_api, open_):
    session = open_()
    await session.prompt("One")
    session.messages[-1].timestamp -= SIX_MINUTES_MS
    await session.prompt("Two")
    await session.new_session()
    await session.prompt("Three")
    assert [kept(request)[0] for request in messages_api.requests] == ["5m", "1h", "5m"]


async def test_a_summary_is_kept_by_nobody(messages_api, open_):
    session = open_({"compaction": {"keepRecentTokens": 1}}, usual_cache_retention="long")
    for prompt in ("One", "Two", "Three"):
        await session.prompt(prompt)
    asked = len(messages_api.requests)
    await session.compact()
    summaries = messages_api.requests[asked:]
    assert summaries
    assert [kept(request) for request in summaries] == [[]] * len(summaries)


async def test_openai_gets_a_key_that_is_the_conversations_own(messages_api, home):
    with OpenAIApi("a", "b") as server:
        entry = {"baseUrl": server.v1, "apiKey": "k", "compat": {"supportsPromptCacheKey": True}}
        (home / "agent").mkdir()
        (home / "agent" / "models.json").write_text(json.dumps({"providers": {"openai": entry}}))
        with open_session(SessionOptions(cwd=home / "work", model="openai/gpt-5-mini")) as session:
            await session.prompt("One")
            await session.prompt("Two")
            names = [request.body["prompt_cache_key"] for request in server.requests]
            assert names == [session.store.session_id] * 2


async def test_before_a_prompt_the_session_knows_what_it_costs(messages_api, open_):
    session = open_()
    assert session.models.prompt_price() is None
    counted = {"usage": {"input_tokens": 99_900}, "final_usage": {"output_tokens": 100}}
    messages_api.add(Reply("Yes.", **counted), Reply("Yes.", **counted))
    await session.prompt("One")
    assert session.models.prompt_price() == (pytest.approx(0.001), pytest.approx(0.001))
    session.messages[-1].timestamp -= SIX_MINUTES_MS
    for _ in range(2):  # it was kept for five minutes, however often that is asked
        assert session.models.prompt_price() == (pytest.approx(0.02), pytest.approx(0.001))
    await session.prompt("Two")
    session.messages[-1].timestamp -= SIX_MINUTES_MS
    assert session.models.prompt_price() == (pytest.approx(0.001), pytest.approx(0.001))


async def test_another_model_has_nothing_of_the_conversation(messages_api, open_):
    session = open_()
    messages_api.add(Reply("Yes.", usage={"input_tokens": 100_000}, final_usage={"output_tokens": 0}))
    await session.prompt("One")
    assert not session.models.prompt_price().is_expired
    await session.set_model(session.state.registry.with_id("claude-opus-4-6", "anthropic"))
    assert session.models.prompt_price() == (pytest.approx(0.625), pytest.approx(0.05))


# --- the context as it was counted -----------------------------------------------------------------------------------


async def test_before_the_first_answer_the_context_is_estimated_and_says_so(open_):
    rows = await told(open_(), "")
    assert rows[-1][2] == "estimated"


async def test_after_an_answer_the_context_is_what_the_server_has_counted(messages_api, open_):
    session = open_()
    messages_api.add(
        Reply(
            "Yes.",
            usage={"input_tokens": 4, "cache_read_input_tokens": 70_000, "cache_creation_input_tokens": 4_000},
            final_usage={"output_tokens": 157},
        )
    )
    await session.prompt("Hi")
    rows = await told(session, "")
    assert rows[-1] == ("together", "74,161 tokens", "")
    assert session.context_usage().tokens == 74_161


async def test_what_goes_along_is_all_that_is_estimated_then(messages_api, open_):
    session = open_()
    messages_api.add(Reply("Yes.", usage={"input_tokens": 74_000}, final_usage={"output_tokens": 100}))
    await session.prompt("Hi")
    rows = await told(session, "x" * 40)
    assert rows[-1] == ("together", "74,110 tokens", "of which 10 are estimated")
