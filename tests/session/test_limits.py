"""Where a run ends that would go on for ever: turns, time, money, and calls that bring nothing new."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, MessagesApi, Page, Recorded, Reply, Text, ToolUse

from indus_nb import agent
from indus_nb.base.errors import RunFailedError, UsageError
from indus_nb.base.events import MessageUpdate, SessionEvent
from indus_nb.base.messages import CustomMessage, ToolCall, ToolResultMessage, text_of
from indus_nb.base.streaming import TextDelta
from indus_nb.core.session.limits import RunLimits
from indus_nb.core.session.session import AgentSession
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools.tool import text_output


def opened(home: Path, **options: Any) -> AgentSession:
    (home / "work/notes.txt").write_text("notes")
    return open_session(SessionOptions(cwd=home / "work", model="claude-haiku-4-5", tools=["read"], **options))


def loops(paths: Callable[[int], str]) -> Callable[[Recorded], Reply]:
    numbers = count(1)
    return lambda _: Reply(ToolUse("read", {"path": paths(next(numbers))}))


@pytest.mark.parametrize(
    ("options", "paths", "requests", "sentence"),
    [
        ({"max_turns": 1}, lambda number: f"{number}.txt", 1, "Stopped after 1 turn, as many as this prompt may take"),
        ({"max_turns": 3}, lambda number: f"{number}.txt", 3, "Stopped after 3 turns, as many as this prompt may take"),
        ({}, lambda _: "notes.txt", 21, "the last 20 tool calls repeated earlier ones and had the same results"),
        ({}, lambda number: ("notes.txt", "b.txt")[number % 2], 22, "the last 20 tool calls repeated earlier ones"),
        ({"max_cost": 0.015}, lambda number: f"{number}.txt", None, "The budget of $0.015 has no room"),
    ],
)
async def test_a_run_that_would_go_on_for_ever_ends_with_a_sentence_and_goes_on_when_it_is_prompted_again(
    home: Path,
    messages_api: MessagesApi,
    options: dict[str, Any],
    paths: Callable[[int], str],
    requests: int | None,
    sentence: str,
) -> None:
    messages_api.default = loops(paths)
    with opened(home, **options) as session:
        await session.prompt("look")
        with pytest.raises(RunFailedError) as failed:
            session.answer_or_raise()
        assert sentence in str(failed.value)
        assert requests in (None, len(messages_api.requests))
        notes = [message for message in session.messages if isinstance(message, CustomMessage)]
        assert len(notes) == ("repeated" in sentence)
        assert session.state.payer.budget.spent <= options.get("max_cost", 1)
        if "max_cost" not in options:
            messages_api.default = lambda _: Reply("There it is.")
            assert await session.ask("go on") == "There it is."


async def test_a_poll_whose_results_differ_goes_on(home: Path, messages_api: MessagesApi) -> None:
    answers = loops(lambda number: f"{number % 30}.txt")
    messages_api.default = lambda request: answers(request) if len(messages_api.requests) < 30 else Reply("done")
    with opened(home) as session:
        assert await session.ask("look") == "done"


def test_results_that_differ_by_a_word_of_their_own_are_no_repeats_and_those_that_differ_by_their_file_are() -> None:
    limits = RunLimits()
    call = ToolCall(id="1", name="look", arguments={})
    for number in range(8):
        limits.after_call(call, text_output("value: " + "None" * number), is_error=False)
        assert limits.before_answer() == ()
    for number in range(6):
        kept = {"fullOutputPath": f"/tmp/{number}.log"}
        limits.after_call(call, text_output(f"The whole output: /tmp/{number}.log", kept), is_error=False)
    assert [note.custom_type for note in limits.before_answer()] == ["repeated-calls"]


async def test_a_prompt_that_takes_too_long_ends_and_keeps_what_arrived(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(Text("So far, ", Gate(), "and on")))
    with opened(home, timeout=0.3) as session:
        await asyncio.wait_for(session.prompt("look"), 20)
        assert session.last_text == "So far, "
        with pytest.raises(RunFailedError, match=r"Stopped after 0.3 s, the time that this prompt may take"):
            session.answer_or_raise()


async def test_a_prompt_that_takes_too_long_waits_for_no_compaction_either(
    home: Path, messages_api: MessagesApi
) -> None:
    settings = {"compaction": {"keepRecentTokens": 1, "reserveTokens": 2000}}
    (home / "agent").mkdir(exist_ok=True)
    (home / "agent/settings.json").write_text(json.dumps(settings))
    messages_api.add(Reply(Text("one ")), Reply(Text("two "), usage={"input_tokens": 199_500}))
    messages_api.default = lambda _: Reply(Text("a summary", Gate()))
    with opened(home, timeout=1.0) as session:
        await session.prompt("look")
        await asyncio.wait_for(session.prompt("look again"), 20)
        assert len(messages_api.requests) > 2  # the summary was asked for
        assert session.last_text == "two "


@pytest.mark.parametrize("option", ["max_cost", "max_turns", "timeout"])
def test_a_limit_that_is_none_is_rejected_before_anything(home: Path, option: str) -> None:
    with pytest.raises(UsageError, match=f"{option} is a number above zero"):
        opened(home, **{option: 0})


async def test_where_a_limit_is_tight_the_server_counts_what_a_request_has(
    home: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(Page(json.dumps({"input_tokens": 8000}), "application/json"), Reply("Counted."))
    with opened(home, max_cost=0.03, system_prompt="word " * 8000) as session:
        assert await session.ask("look") == "Counted."
    assert [request.path for request in messages_api.requests] == ["/v1/messages/count_tokens", "/v1/messages"]


async def test_a_prompt_within_a_limit_in_money_needs_a_price(home: Path, messages_api: MessagesApi) -> None:
    options = SessionOptions(cwd=home / "work", model="anthropic/claude-new-9", max_cost=1)
    with (
        open_session(options) as session,
        pytest.raises(UsageError, match="price of anthropic/claude-new-9 is unknown"),
    ):
        await session.prompt("hello")
    assert messages_api.requests == []


async def test_what_a_tool_asks_models_is_charged_to_the_run_and_counted_in_its_session(
    home: Path, messages_api: MessagesApi
) -> None:
    @agent.tool
    def summarise(rows: int) -> str:
        """Summarise rows."""
        done = agent.map("row {item}", range(rows), model="claude-haiku-4-5", progress=False)
        return done.summary

    messages_api.default = lambda _: Reply("fine")
    messages_api.add(Reply(ToolUse("summarise", {"rows": 3})))
    usual = SessionOptions(
        cwd=home / "work", model="claude-haiku-4-5", tools=["summarise"], more_tools=["summarise"], max_cost=5
    )
    try:
        with open_session(usual) as session:
            await session.ask("go")
            assert len(messages_api.requests) == 5
            assert session.stats().cost == pytest.approx(session.state.payer.budget.spent)
            assert session.stats().tokens.input == 500
        messages_api.requests.clear()
        messages_api.add(Reply(ToolUse("summarise", {"rows": 50})))
        with open_session(replace(usual, max_cost=0.0235)) as session:
            await session.prompt("go")
            assert 0.001 < session.state.payer.budget.spent <= 0.0235
            result = next(message for message in session.messages if isinstance(message, ToolResultMessage))
            assert "failed" in text_of(result.content)
    finally:
        agent.forget()


@pytest.mark.parametrize("arrives_at_first", [True, False])
async def test_what_a_stopped_answer_counts_as_is_the_same_in_its_message_the_statistics_and_the_budget(
    home: Path, messages_api: MessagesApi, arrives_at_first: bool
) -> None:
    gate, hold = Gate(), threading.Event()
    said = "x" * 400

    def silent(_: Recorded) -> Reply:
        gate.reached.set()
        hold.wait(20)
        return Reply("late")

    messages_api.add(Reply(Text(said, gate)) if arrives_at_first else silent)
    arrived = 0

    def watch(event: SessionEvent) -> None:
        nonlocal arrived
        if isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta):
            arrived += len(event.assistant_message_event.delta)

    with opened(home, max_cost=1) as session:
        session.subscribe(watch)
        prompting = asyncio.create_task(session.prompt("look"))
        await asyncio.to_thread(gate.reached.wait, 20)
        while arrives_at_first and arrived < len(said):
            await asyncio.sleep(0.01)
        await session.abort()
        await prompting
        hold.set()
        answer, budget, stats = session.last_answer, session.state.payer.budget, session.stats()
        assert answer is not None
        assert answer.stop_reason == "aborted"
        assert answer.usage.output == (100 if arrives_at_first else 0)
        assert 0.01 < budget.unconfirmed < 1
        assert stats.cost == answer.usage.cost.total == pytest.approx(budget.spent, abs=1e-8)
        assert stats.cost_unconfirmed == answer.usage.cost.unconfirmed == pytest.approx(budget.unconfirmed, abs=1e-8)
