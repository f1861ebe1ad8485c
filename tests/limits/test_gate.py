"""Every request of a session passes the limits that all rows share."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from messages_api import Cut, HttpError, MessagesApi, Reply, Text

from indus_nb.limits import Budget, Gate, Limiter
from indus_nb.messages import UserMessage
from indus_nb.providers import Context, StreamOptions
from indus_nb.resources.settings import agent_directory, model_registry

CONTEXT = Context("Be brief.", [UserMessage(content="hello", timestamp=0)])


def ask(gate: Gate, home: Path) -> list[str]:
    async def asking() -> list[str]:
        registry = model_registry(agent_directory())
        model = registry.find("claude-haiku-4-5")
        provider = gate.provider_for(registry.provider_of(model))
        options = replace(StreamOptions(), api_key="sk-test")
        return [event.type async for event in provider.stream(model, CONTEXT, options)]

    return asyncio.run(asking())


def test_an_answer_costs_what_its_usage_says(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(Text("hi")))
    budget = Budget(5)
    assert ask(Gate(Limiter(1), budget), home)[-1] == "done"
    assert 0 < budget.spent < 0.01


def test_a_refused_request_costs_nothing_and_lets_all_wait(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(HttpError(429, headers={"retry-after": "40"}))
    limiter, budget = Limiter(1), Budget(5)
    assert ask(Gate(limiter, budget), home)[-1] == "error"
    assert (budget.spent, 30 < limiter.paused_for <= 40) == (0, True)


def test_what_the_budget_cannot_hold_is_not_asked(home: Path, messages_api: MessagesApi) -> None:
    assert ask(Gate(Limiter(1), Budget(0.001)), home)[-1] == "error"
    assert messages_api.requests == []


def test_a_request_that_broke_off_is_counted_as_what_was_reserved(home: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(Text("hi", Cut())))
    budget = Budget(5)
    assert ask(Gate(Limiter(1), budget), home)[-1] == "error"
    assert 0.1 < budget.spent < 5
