"""How many tokens the next request has: counted by the server where it can, else estimated, and which of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from messages_api import HttpError, MessagesApi, Page, Reply

from indus_nb import AgentSession, SessionOptions, open_session
from indus_nb.base.errors import CredentialsError


@pytest.fixture
def open_(messages_api: MessagesApi, home: Path) -> Iterator[Callable[..., AgentSession]]:
    sessions: list[AgentSession] = []

    def open_one(**options: Any) -> AgentSession:
        sessions.append(open_session(SessionOptions(cwd=home / "work", no_session=True, **options)))
        return sessions[-1]

    yield open_one
    for session in sessions:
        session.close()


def counted(tokens: int) -> Page:
    return Page(json.dumps({"input_tokens": tokens}), "application/json")


async def test_the_server_counts_what_the_next_request_has(messages_api, open_):
    messages_api.add("Hello.", counted(1234))
    session = open_(model="haiku")
    await session.prompt("Hi")
    count = await session.count_tokens()
    assert (count.tokens, count.is_exact, count.reason) == (1234, True, None)
    asked, counting = messages_api.requests
    assert counting.path == "/v1/messages/count_tokens"
    assert counting.body["system"] == asked.body["system"]
    assert counting.body["tools"] == asked.body["tools"]
    assert [message["role"] for message in counting.body["messages"]] == ["user", "assistant", "user"]
    assert not {"stream", "max_tokens"} & counting.body.keys()


async def test_counting_changes_nothing(messages_api, open_):
    messages_api.add(counted(10), "Hello.")
    session = open_(model="haiku")
    events: list[Any] = []
    session.subscribe(events.append)
    await session.count_tokens()
    assert (events, session.messages) == ([], [])
    await session.prompt("Hi")
    assert session.last_text == "Hello."


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (HttpError(401, "authentication_error", "invalid key sk-test-secret"), "401 authentication_error: invalid key"),
        (Page("[]", "application/json"), "did not answer with a number of tokens"),
        (Page("<html>"), "did not answer with a number of tokens"),
    ],
)
async def test_what_the_server_does_not_count_is_estimated(messages_api, open_, monkeypatch, answer, reason):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-secret")
    messages_api.add(Reply("Hello.", usage={"input_tokens": 5000}, final_usage={"output_tokens": 20}), answer)
    session = open_(model="haiku")
    await session.prompt("Hi")
    count = await session.count_tokens()
    assert (count.tokens, count.is_exact) == (5020, False)
    assert reason in count.reason
    assert "secret" not in count.reason


async def test_an_estimate_without_an_answer_has_the_system_prompt_and_the_tools(open_):
    session = open_(provider="offline", tools=["read"])
    small = await session.count_tokens()
    assert not small.is_exact
    assert small.reason == "No tokens are counted for offline."
    assert small.tokens > len(session.system_prompt) / 4
    session.set_active_tools(["read", "bash", "edit"])
    assert (await session.count_tokens()).tokens > small.tokens


async def test_without_a_key_the_reason_is_that(open_, monkeypatch):
    session = open_(model="haiku")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    count = await session.count_tokens()
    assert not count.is_exact
    assert count.reason.startswith("No API key for anthropic")


async def test_without_a_model_there_is_nothing_to_count(open_, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(CredentialsError):
        await open_().count_tokens()
