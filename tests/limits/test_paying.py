"""Every request of a session is paid for: what is reserved before it, and what it counts as afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from messages_api import Cut, HttpError, MessagesApi, Reply, Text

from indus_nb.base.messages import AssistantMessage, Usage, UserMessage
from indus_nb.base.streaming import StreamDone, StreamError
from indus_nb.core.limits import Budget, Gate, Limiter, Payer
from indus_nb.core.limits.budget import spending_from
from indus_nb.core.resources.settings import agent_directory, model_registry
from indus_nb.models import Context, StreamOptions
from indus_nb.models.catalog import unknown_cost

CONTEXT = Context("Be brief.", [UserMessage(content="hello", timestamp=0)])


def ask(budget: Budget, *, limiter: Limiter | None = None, known: bool = True) -> AssistantMessage:
    async def asking() -> AssistantMessage:
        registry = model_registry(agent_directory())
        model = registry.find("claude-haiku-4-5")
        if not known:
            model = model.replace(cost=unknown_cost())
        gated = Gate(limiter or Limiter(1)).provider_for(registry.provider_of(model))
        provider = Payer(budget).provider_for(gated)
        options = replace(StreamOptions(), api_key="sk-test")
        events = [event async for event in provider.stream(model, CONTEXT, options)]
        assert isinstance(events[-1], StreamDone | StreamError)
        return events[-1].message if isinstance(events[-1], StreamDone) else events[-1].error

    return asyncio.run(asking())


def test_an_answer_costs_what_its_usage_says(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(Text("hi")))
    budget = Budget(5)
    assert ask(budget).stop_reason == "stop"
    assert 0 < budget.spent < 0.01
    assert (budget.unconfirmed, budget.left) == (0, 5 - budget.spent)


def test_a_refused_request_costs_nothing_and_lets_all_wait(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(HttpError(429, headers={"retry-after": "40"}))
    limiter, budget = Limiter(1), Budget(5)
    assert ask(budget, limiter=limiter).stop_reason == "error"
    assert (budget.spent, budget.unconfirmed, 30 < limiter.paused_for <= 40) == (0, 0, True)


def test_what_the_budget_cannot_hold_is_not_asked(home: Path, messages_api: MessagesApi) -> None:
    assert "The budget of $0.0001 has no room" in (ask(Budget(0.0001)).error_message or "")
    assert messages_api.requests == []


def test_a_small_budget_makes_the_longest_answer_shorter(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(Text("hi")))
    assert ask(Budget(0.02)).stop_reason == "stop"
    assert 1024 <= messages_api.requests[0].body["max_tokens"] < 4000


def test_a_request_that_broke_off_counts_as_what_is_known_and_the_rest_is_held_back(
    home: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply(Text("hi" * 100, Cut())))
    budget = Budget(5)
    answer = ask(budget)
    assert answer.stop_reason == "error"
    assert answer.usage.output == 50
    assert answer.usage.cost.total == pytest.approx(budget.spent, rel=1e-6)
    assert answer.usage.cost.unconfirmed == pytest.approx(budget.unconfirmed, rel=1e-6)
    assert 0 < budget.spent < 0.001
    assert 0.1 < budget.unconfirmed < 5
    assert budget.left == pytest.approx(5 - budget.spent - budget.unconfirmed)


def test_a_server_that_is_not_reached_has_cost_nothing(
    home: Path, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    budget = Budget(5)
    assert "cannot be reached" in (ask(budget).error_message or "")
    assert (budget.spent, budget.unconfirmed) == (0, 0)


def test_within_a_limit_a_model_without_a_price_is_not_asked(home: Path, messages_api: MessagesApi) -> None:
    assert "give its `cost` in models.json" in (ask(Budget(5), known=False).error_message or "")
    with spending_from(Budget(1)):
        assert "give its `cost` in models.json" in (ask(Budget(), known=False).error_message or "")
    assert messages_api.requests == []
    messages_api.add(Reply(Text("hi")))
    budget = Budget()
    assert ask(budget, known=False).usage.cost.unknown
    assert budget.unpriced


def test_what_code_asks_is_charged_to_the_run_that_carries_it_out(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(Text("hi")))
    outer = Budget(5, of_session=True)
    with spending_from(outer):
        ask(own := Budget(of_session=True))
    assert own.spent == outer.spent > 0
    assert outer.take_nested().cost.total == pytest.approx(own.spent)
    assert (own.take_nested().total_tokens, outer.take_nested().total_tokens) == (0, 0)
    with spending_from(Budget(0.0001)):
        assert "has no room" in (ask(Budget(5)).error_message or "")


def test_an_answer_whose_usage_nobody_says_is_held_back(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(Text("word " * 400), usage={"input_tokens": 0, "output_tokens": 0}, final_usage={}))
    budget = Budget(5)
    answer = ask(budget)
    assert answer.stop_reason == "stop"
    assert (answer.usage.total_tokens, answer.usage.cost.total) == (0, pytest.approx(budget.spent, rel=1e-6))
    assert answer.usage.cost.unconfirmed == pytest.approx(budget.unconfirmed, rel=1e-6)
    assert 0.002 < budget.spent < 0.004  # for the length of the answer
    assert 0.005 < budget.unconfirmed < 0.02
    assert "has no room" in (budget.refusal(5 - budget.spent) or "")


def test_what_was_written_to_the_cache_for_an_hour_is_paid_though_the_answer_broke_off(
    home: Path, messages_api: MessagesApi
) -> None:
    written = {"cache_creation_input_tokens": 1000, "cache_creation": {"ephemeral_1h_input_tokens": 1000}}
    messages_api.add(Reply(Text("hi", Cut()), usage=written))
    budget = Budget(5)
    assert ask(budget).stop_reason == "error"
    assert 0.0021 <= budget.spent < 0.0022


def test_a_cost_beyond_all_bounds_can_be_added() -> None:
    budget = Budget(5)
    budget.charge(float("inf"))
    assert budget.refusal(0) is not None


def test_what_one_model_has_counted_says_nothing_of_what_another_reads(home: Path) -> None:
    registry = model_registry(agent_directory())
    model, other = registry.find("claude-haiku-4-5"), registry.find("claude-sonnet-4-5")
    payer = Payer(Budget(5))
    uncounted = payer.read_tokens(other, CONTEXT)
    payer.note(model, CONTEXT, Usage(input=2))
    assert (payer.read_tokens(model, CONTEXT), payer.read_tokens(other, CONTEXT)) == (2, uncounted)
