"""A cheap model that is asked first: when its answer is taken, what goes on to the other one, and what both cost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from fanout_calls import interrupted
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text, ToolUse
from pydantic import BaseModel

from indus_nb import agent
from indus_nb.base.errors import IndusError, UsageError
from indus_nb.core.answers import answer_kind
from indus_nb.fanout.cascade import Cascade
from indus_nb.fanout.mapping import Map
from indus_nb.fanout.question import question
from indus_nb.fanout.reporting import Reporter
from indus_nb.fanout.rows import table_of
from indus_nb.start import SessionOptions

CHEAP, USUAL = "claude-haiku-4-5", "claude-sonnet-4-5"
BOTH = {"cheap": CHEAP, "model": USUAL}

pytestmark = pytest.mark.usefixtures("in_work")


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


def text(request: Recorded) -> str:
    content = request.body["messages"][0]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def rated(answer: Any, probability: float) -> Reply:
    return Reply(ToolUse("answer", {"answer": answer, "probability": probability}))


@pytest.fixture
def asked(messages_api: MessagesApi) -> Callable[..., list[tuple[str, str]]]:
    """Has the two models answer, and returns a function that lists who was asked what."""

    def answer(request: Recorded) -> Reply:
        row = text(request)
        if request.body["model"] != CHEAP:
            return Reply(f"usual {row}")
        return rated(f"cheap {row}", 0.95 if int(row) % 2 else 0.5)

    messages_api.default = answer  # type: ignore[assignment]
    return lambda: [("cheap" if r.body["model"] == CHEAP else "usual", text(r)) for r in messages_api.requests]


def test_rows_that_the_cheap_model_is_not_sure_of_go_on_to_the_other(asked: Callable[..., Any]) -> None:
    done = agent.map("{item}", range(4), parallel=1, **BOTH)
    assert [*done] == ["usual 0", "cheap 1", "usual 2", "cheap 3"]
    assert asked() == [
        *(("cheap", "0"), ("usual", "0"), ("cheap", "1"), ("cheap", "2"), ("usual", "2"), ("cheap", "3")),
    ]
    assert [row.by_cheap for row in done.rows] == [False, True, False, True]
    assert sum(row.cost for row in done.rows) == pytest.approx(done.cost)


def test_the_report_tells_how_many_went_on_how_often_both_agree_and_what_each_cost(messages_api: MessagesApi) -> None:
    def answer(request: Recorded) -> Reply:
        if request.body["model"] == CHEAP:
            return rated("even", 0.99 if text(request) == "0" else 0.2)
        return Reply(ToolUse("answer", {"answer": "even" if text(request) == "2" else "odd"}))

    messages_api.default = answer  # type: ignore[assignment]
    done = agent.map("{item}", [0, 1, 2, 3, 3], result=Literal["even", "odd"], **BOTH)
    assert [*done] == ["even", "odd", "even", "odd", "odd"]
    report = done.cascade
    assert report is not None
    assert (report.rows, report.taken, report.went_on, report.both, report.agreed) == (4, 1, 3, 3, 1)
    assert report.cheap_cost + report.usual_cost == pytest.approx(done.cost)
    assert "1 of 4 by Claude Haiku 4.5 ($" in done.summary
    assert "3 by Claude Sonnet 4.5 ($" in done.summary
    assert "the same answer for 1 of 3" in done.summary


def test_an_answer_that_is_given_twice_is_taken(messages_api: MessagesApi) -> None:
    def answer(request: Recorded) -> Reply:
        if request.body["model"] == USUAL:
            return Reply("usual")
        return Reply("same" if text(request) == "a" else f"answer {len(messages_api.requests)}")

    messages_api.default = answer  # type: ignore[assignment]
    done = agent.map("{item}", ["a", "b"], sure="twice", **BOTH)
    assert [*done] == ["same", "usual"]
    assert len(messages_api.requests) == 5
    assert "probability" not in str([request.body for request in messages_api.requests])


def test_a_rule_of_the_users_decides_and_one_that_fails_pays_for_nothing_more(messages_api: MessagesApi) -> None:
    messages_api.default = lambda r: Reply("short" if r.body["model"] == CHEAP else "long enough")  # type: ignore[assignment]
    assert [*agent.map("{item}", [1], sure=lambda answer: len(answer) > 5, **BOTH)] == ["long enough"]
    assert [*agent.map("{item}", [1], sure=str.islower, **BOTH)] == ["short"]
    messages_api.requests.clear()
    done = agent.map("{item}", [1], sure=lambda answer: answer.nothing, **BOTH)
    assert done.rows[0].error is not None
    assert "The function of sure failed: AttributeError" in done.rows[0].error
    assert len(messages_api.requests) == 1


def test_a_row_that_the_cheap_model_fails_at_is_answered_by_the_other(messages_api: MessagesApi) -> None:
    def answer(request: Recorded) -> Reply | HttpError:
        return Reply("usual") if request.body["model"] == USUAL else HttpError(400, "invalid_request_error", "not this")

    messages_api.default = answer  # type: ignore[assignment]
    done = agent.map("{item}", [1], **BOTH)
    assert [*done] == ["usual"]
    assert done.cascade is not None
    assert (done.cascade.went_on, done.cascade.both) == (1, 0)


def test_nothing_is_asked_before_both_models_can_be(messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for models in (
        {"cheap": "no-such-model", "model": USUAL},
        {"cheap": CHEAP, "model": "no-such-model"},
        {"cheap": "openai/gpt-5-nano", "model": USUAL},
    ):
        with pytest.raises(IndusError):
            agent.map("{item}", [1], **models)  # type: ignore[arg-type]
    assert messages_api.requests == []


def test_the_cheap_model_is_one_of_the_same_provider_and_one_of_another_gets_no_key_of_it(
    messages_api: MessagesApi, home: Path
) -> None:
    model = {"id": "small", "api": "anthropic-messages", "cost": 0}
    other = {"baseUrl": messages_api.url, "apiKey": "key-of-other", "models": [model, model | {"id": CHEAP}]}
    (home / "agent" / "models.json").write_text(json.dumps({"providers": {"other": other}}))
    messages_api.default = lambda r: rated("yes", 1) if r.body["model"] in ("small", CHEAP) else Reply("usual")  # type: ignore[assignment]
    assert [*agent.map("{item}", [1], **BOTH)] == ["yes"]
    assert "key-of-other" not in str(messages_api.requests[-1].headers)
    with pytest.raises(IndusError):
        agent.map("{item}", [1], cheap="small", model=USUAL)
    assert [*agent.map("{item}", [1], cheap="other/small", model=USUAL)] == ["yes"]
    assert "key-of-other" in str(messages_api.requests[-1].headers)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"tools": ["read"]}, "leave out cheap"),
        ({"batch": True}, "leave out cheap"),
        ({"sure": 1.5}, "from 0 to 1"),
        ({"sure": True}, "from 0 to 1"),
        ({"sure": "thrice"}, "from 0 to 1"),
    ],
)
def test_what_does_not_fit_a_cheap_model_is_refused_before_anything_is_asked(
    messages_api: MessagesApi, options: dict[str, Any], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        agent.map("{item}", [1], **BOTH, **options)
    assert messages_api.requests == []


def test_a_journal_holds_the_tries_so_that_none_is_paid_twice(
    messages_api: MessagesApi, asked: Callable[..., Any], tmp_path: Path
) -> None:
    journal = tmp_path / "rows.jsonl"
    first = agent.map("{item}", range(4), journal=journal, **BOTH)
    requests = len(messages_api.requests)
    again = agent.map("{item}", range(4), journal=journal, **BOTH)
    assert [*again] == [*first]
    assert (len(messages_api.requests), again.cost) == (requests, pytest.approx(first.cost))
    assert again.cascade == first.cascade
    bolder = agent.map("{item}", range(4), journal=journal, cheap=CHEAP, sure=0.4)
    assert [*bolder] == [*first], "the journal's model was asked, and its answers are there"
    assert len(messages_api.requests) == requests


def test_a_retry_asks_only_for_what_is_missing(messages_api: MessagesApi) -> None:
    def answer(request: Recorded) -> Reply | HttpError:
        return rated("?", 0.1) if request.body["model"] == CHEAP else HttpError(400, "invalid_request_error", "no")

    messages_api.default = answer  # type: ignore[assignment]
    done = agent.map("{item}", [1], **BOTH)
    assert done.failed == [0]
    messages_api.requests.clear()
    messages_api.default = Reply("usual")
    again = done.retry()
    assert [*again] == ["usual"]
    assert [request.body["model"] for request in messages_api.requests] == [USUAL]
    assert again.rows[0].cost == pytest.approx(again.cost)


def test_a_budget_ends_both(messages_api: MessagesApi, asked: Callable[..., Any]) -> None:
    done = agent.map("{item}", [0], max_cost=1e-9, **BOTH)
    assert messages_api.requests == []
    assert "has no room" in str(done.rows[0].error)


def test_an_estimate_is_at_least_of_the_cheap_model_and_at_most_of_both(messages_api: MessagesApi) -> None:
    def of(**models: Any) -> Any:
        return agent.map("{item}", range(100), estimate=True, **models).estimate

    cheap, usual, both = of(model=CHEAP), of(model=USUAL), of(**BOTH)
    assert cheap.least < both.least < usual.least
    assert both.most > cheap.most + usual.most
    assert messages_api.requests == []


def test_a_stop_ends_a_row_between_the_two(messages_api: MessagesApi, tmp_path: Path) -> None:
    held = Gate()
    answer = rated("?", 0.1)

    def slow(request: Recorded) -> Reply:
        if request.body["model"] == USUAL:
            work.interrupt()
            work.interrupt()
            return Reply(Text("usu", held, "al"))
        return answer

    messages_api.default = slow  # type: ignore[assignment]
    asking = question(
        "{item}",
        table_of(range(3)),
        session=SessionOptions(model=USUAL, tools=(), thinking="off"),
        directory=tmp_path,
        cheap=CHEAP,
        parallel=1,
    )
    work = Map([], asking)
    done = interrupted(lambda: work.here(Reporter()))
    held.open()
    assert done.failed == [0, 1, 2]
    assert [request.body["model"] for request in messages_api.requests] == [CHEAP, USUAL]


def test_the_schema_of_an_answer_keeps_its_references_and_is_read_as_before() -> None:
    kind = Cascade(answer_kind(Tree)).asked_kind
    assert kind is not None
    value = kind.read({"answer": {"name": "a", "children": [{"name": "b"}]}, "probability": 1})
    assert value == (Tree(name="a", children=[Tree(name="b")]), 1.0)
    assert kind.to_json(value)["answer"]["children"][0]["name"] == "b"
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(kind.schema)
    good, bad = {"name": "a", "children": [{"name": "b"}]}, {"name": "a", "children": [{}]}
    assert validator.is_valid({"answer": good, "probability": 0.5})
    assert not validator.is_valid({"answer": bad, "probability": 0.5})
    assert not validator.is_valid({"answer": good, "probability": 2})
    linked = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    with pytest.raises(UsageError, match="refers to #"):
        Cascade(answer_kind(linked))
    assert Cascade(answer_kind(linked), "twice").asked_kind is not None


def test_an_answer_and_a_probability_that_are_written_as_texts_are_read(messages_api: MessagesApi) -> None:
    messages_api.default = Reply(ToolUse("answer", {"answer": "[1, 2]", "probability": "0.95"}))
    assert [*agent.map("{item}", [1], result=list[int], **BOTH)] == [[1, 2]]
    assert len(messages_api.requests) == 1


def test_where_the_cheap_model_fails_at_all_rows_alike_the_dear_one_is_not_asked_for_all_of_them(
    messages_api: MessagesApi,
) -> None:
    def answer(request: Recorded) -> Reply | HttpError:
        is_cheap = request.body["model"] == CHEAP
        return HttpError(404, "not_found_error", "no such model") if is_cheap else Reply("usual")

    messages_api.default = answer  # type: ignore[assignment]
    done = agent.map("{item}", range(200), parallel=2, **BOTH)
    assert sum(row.answered for row in done.rows) < 30
    assert "no such model" in str(done.problems)
    assert done.cascade is not None
    assert done.cascade.failed >= 19


def test_a_stop_lets_no_further_request_of_a_row_begin_and_a_retry_goes_on_from_there(
    messages_api: MessagesApi, tmp_path: Path
) -> None:
    work: Map

    def answer(request: Recorded) -> Reply:
        if request.body["model"] == CHEAP:
            work.interrupt()
        return rated("?", 0.1) if request.body["model"] == CHEAP else Reply("usual")

    messages_api.default = answer  # type: ignore[assignment]
    work = map_of(tmp_path)
    done = interrupted(lambda: work.here(Reporter()))
    assert [request.body["model"] for request in messages_api.requests] == [CHEAP]
    assert [*done.retry(progress=False)] == ["usual"]
    assert [request.body["model"] for request in messages_api.requests] == [CHEAP, USUAL]


def test_a_row_that_is_cut_off_at_the_dear_model_keeps_what_the_cheap_one_said(
    messages_api: MessagesApi, tmp_path: Path
) -> None:
    work: Map
    held = Gate()

    def answer(request: Recorded) -> Reply:
        if request.body["model"] == CHEAP:
            return rated("?", 0.1)
        work.interrupt()
        work.interrupt()
        return Reply(Text("usu", held, "al"))

    messages_api.default = answer  # type: ignore[assignment]
    work = map_of(tmp_path)
    done = interrupted(lambda: work.here(Reporter()))
    held.open()
    assert (done.failed, len(done.rows[0].tries)) == ([0], 1)
    messages_api.default = Reply("usual")
    assert [*done.retry(progress=False)] == ["usual"]
    assert [request.body["model"] for request in messages_api.requests] == [CHEAP, USUAL, USUAL]


def test_a_function_is_asked_once_about_an_answer(messages_api: MessagesApi, tmp_path: Path) -> None:
    def answer(request: Recorded) -> Reply | HttpError:
        return Reply("cheap") if request.body["model"] == CHEAP else HttpError(400, "x", "no")

    messages_api.default = answer  # type: ignore[assignment]
    called: list[str] = []
    options: Any = {"journal": tmp_path / "rows.jsonl", "sure": called.append, **BOTH}
    done = agent.map("{item}", [1], **options)
    assert (done.failed, called) == ([0], ["cheap"])
    done.retry(progress=False)
    assert called == ["cheap"]
    agent.map("{item}", [1], **options)
    assert called == ["cheap"] * 2

    async def later(_: str) -> bool:
        return True

    with pytest.raises(UsageError, match="plain function"):
        agent.map("{item}", [1], sure=later, **BOTH)


def test_a_retry_may_have_another_rule_or_no_cheap_model(messages_api: MessagesApi) -> None:
    messages_api.default = lambda r: Reply("cheap" if r.body["model"] == CHEAP else "usual")  # type: ignore[assignment]
    done = agent.map("{item}", [1], sure=lambda answer: answer.nothing, **BOTH)
    assert [*done.retry(sure=str.islower, progress=False)] == ["cheap"]
    assert len(messages_api.requests) == 1
    assert [*done.retry(cheap=None, progress=False)] == ["usual"]
    with pytest.raises(UsageError, match="name one with cheap"):
        agent.map("{item}", [1], sure=0.9)


def test_what_prompts_share_is_written_once_for_each_of_the_two(messages_api: MessagesApi) -> None:
    beside: list[int] = []
    held, others = Gate(), threading.Event()

    def answer(request: Recorded) -> Reply:
        if request.body["model"] == CHEAP:
            return rated("?", 0.1)
        asked = [r.body["model"] for r in messages_api.requests].count(USUAL)
        if asked == 1:
            others.wait(0.5)  # which would come, were the others asked as well
            beside.append([r.body["model"] for r in messages_api.requests].count(USUAL))
            return Reply(Text("us", held, "ual"))
        others.set()
        held.open()
        return Reply("usual")

    messages_api.default = answer  # type: ignore[assignment]
    assert [*agent.map(f"{'By these rules. ' * 400}{{item}}", range(6), parallel=6, **BOTH)] == ["usual"] * 6
    assert beside == [1]


def test_a_level_of_thinking_may_stand_behind_the_name(messages_api: MessagesApi) -> None:
    messages_api.default = rated("yes", 1)
    assert [*agent.map("{item}", [1], cheap=f"{CHEAP}:off", model=USUAL)] == ["yes"]


def map_of(directory: Path) -> Map:
    asking = question(
        "{item}",
        table_of([1]),
        session=SessionOptions(model=USUAL, tools=(), thinking="off"),
        directory=directory,
        cheap=CHEAP,
    )
    return Map([1], asking)


@pytest.mark.parametrize("given", [{}, [], {"answer": "a"}, {"answer": "a", "probability": True}, {"probability": 1}])
def test_an_answer_without_its_probability_is_none(given: Any) -> None:
    kind = Cascade(None).asked_kind
    assert kind is not None
    with pytest.raises(ValueError, match="probability"):
        kind.read(given)
