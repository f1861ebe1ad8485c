"""What rows cost: prices that are unknown, requests that broke off, and journals that vanish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fanout_calls import asked
from messages_api import Cut, HttpError, MessagesApi, Recorded, Reply, Text

from indus_nb import agent
from indus_nb.base.errors import UsageError
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.reporting import bundle_of
from indus_nb.models.catalog import model_with_id

pytestmark = pytest.mark.usefixtures("in_work")


def test_rows_that_no_journal_holds_are_named_once(messages_api: MessagesApi, tmp_path: Path) -> None:
    journal = tmp_path / "rows.jsonl"

    def answer(_: Recorded) -> Reply:
        mine = tmp_path / uuid4().hex
        mine.write_text("mine\n")
        mine.replace(journal)
        return Reply("fine")

    messages_api.default = answer  # type: ignore[assignment]
    done = agent.map("{item}", range(20), journal=journal, parallel=4)
    answered = len(done) - len(done.failed)
    assert 1 <= answered < 20
    told = [problem for problem in done.problems if "journal" in problem]
    assert len(told) == 1
    assert "another file has taken its place" in told[0]
    assert f"{answered} row" in told[0]
    assert journal.read_text() == "mine\n"


def test_a_limit_in_money_without_a_price_is_refused_and_a_price_of_nothing_said_aloud_is_one(
    messages_api: MessagesApi, home: Path
) -> None:
    def models(**cost: Any) -> None:
        model = {"id": "claude-new-9", "api": "anthropic-messages", **cost}
        config = {"providers": {"mine": {"baseUrl": messages_api.url, "apiKey": "k", "models": [model]}}}
        (home / "agent" / "models.json").write_text(json.dumps(config))

    messages_api.default = Reply("fine", usage={"input_tokens": 900_000})
    models()
    with pytest.raises(UsageError, match="The price of mine/claude-new-9 is unknown") as refused:
        agent.map("x {item}", range(30), max_cost=0.01, model="mine/claude-new-9")
    assert '`"cost": 0` says that it is free' in str(refused.value)
    assert messages_api.requests == []
    assert agent.map("x {item}", [1], model="mine/claude-new-9").summary == "1 row, 1 answered, cost unknown"
    for cost in (0, {"input": 0, "output": 0}):
        models(cost=cost)
        done = agent.map("x {item}", [1], max_cost=0.01, model="mine/claude-new-9")
        assert done.summary == "1 row, 1 answered, $0.0000"
    for cost in ({"input": 1}, {}, None):
        models(cost=cost)
        with pytest.raises(UsageError, match="is unknown"):
            agent.map("x {item}", [1], max_cost=0.01, model="mine/claude-new-9")
    for name in ("gemini-3.6-flash", "deepseek-v4-pro", "openrouter/auto", "openai/gpt-oss-120b"):
        provider = {"g": "google", "d": "deepseek"}.get(name[0], "openrouter")
        assert not model_with_id(name, provider).cost.known
    assert model_with_id("offline", "offline").cost.known


def test_what_a_request_that_broke_off_may_have_cost_is_shown_beside_what_it_has_cost(
    messages_api: MessagesApi,
) -> None:
    messages_api.add(Reply(Text("half ", Cut())))
    messages_api.default = Reply("whole")
    done = agent.map("{item}", range(4), parallel=1, max_cost=0.05)
    assert done.failed == []
    assert 5 * 0.0001 < done.cost < 0.002
    assert done.cost_unconfirmed == pytest.approx(4096 * 5e-6, rel=0.01)
    more = f"up to ${done.cost_unconfirmed:.4f} more for answers that broke off"
    assert done.summary.endswith(f"at least ${done.cost:.4f} ({more})")


def test_a_notebook_shows_how_it_went_the_first_rows_and_why_others_failed(messages_api: MessagesApi) -> None:
    pages = {"<b>7</b>": HttpError(400, "invalid_request_error", "not <seven>")}
    messages_api.default = lambda request: pages.get(request.texts[-1], Reply("<i>fine</i>"))  # type: ignore[assignment]
    done = agent.map("{item}", [*range(30), "<b>7</b>"])
    page = done._repr_html_()
    assert "31 rows, 30 answered, 1 failed" in page
    assert page.count("<tr>") == 1 + 20
    assert page.index("<td>30</td>") < page.index("<td>0</td>")  # what failed comes first
    assert "&lt;i&gt;fine" in page
    assert "<i>" not in page
    assert "not &lt;seven&gt;" in page
    assert "<code>retry()</code> of this result asks for" in page
    assert "session" not in page
    assert list(done.frame.columns) == ["item", "answer", "error"]
    assert done.rows[0].session is not None


def test_a_notebook_says_how_many_rows_failed_for_reasons_that_it_does_not_list(messages_api: MessagesApi) -> None:
    messages_api.default = lambda request: HttpError(400, "invalid_request_error", f"not {request.texts[-1]}")  # type: ignore[assignment]
    assert "3 rows: other reasons" in agent.map("{item}", range(6))._repr_html_()


def test_dollars_of_a_summary_are_no_formula_of_a_notebook_and_all_of_it_is_there(messages_api: MessagesApi) -> None:
    messages_api.default = Reply("costs $5 or $6")
    done = agent.map("{item}", range(20), sample=2)
    page = done._repr_html_()
    assert "$" not in page.replace("<span>$</span>", "")
    assert page.startswith("<p>" + done.summary.replace("$", "<span>$</span>") + "</p>")
    assert "costs <span>$</span>5 or <span>$</span>6" in page
    shown = bundle_of(Progress(3, cost=1.0, cost_before=1.0))["text/html"].split(">", 1)[1]
    assert "$" not in shown.replace("<span>$</span>", "")


def test_where_the_first_rows_all_fail_alike_no_other_is_paid_for(messages_api: MessagesApi) -> None:
    messages_api.default = HttpError(400, "invalid_request_error", "no such thing")
    done = agent.map("{item}", range(100), parallel=4)
    assert 20 <= len(messages_api.requests) < 30
    assert len(done.failed) == 100
    assert any("The first 20 rows all failed" in problem for problem in done.problems)

    def answer(request: Recorded) -> Reply | HttpError:
        return Reply("fine") if asked(request) == "5" else HttpError(400, "x", "no")

    messages_api.default = answer  # type: ignore[assignment]
    again = agent.map("{item}", range(60), parallel=4)
    assert [number for number, row in enumerate(again.rows) if row.error is None] == [5]
    messages_api.default = Reply("fine")
    assert [*done.retry()] == ["fine"] * 100
