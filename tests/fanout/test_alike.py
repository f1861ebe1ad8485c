"""Rows that are alike: what their prompts share is kept by the server, and the same prompt is paid once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text, ToolUse

from indus_nb import agent
from indus_nb.base.errors import UsageError

CODEBOOK = "Sort by these rules. " * 300
MARK = {"type": "ephemeral"}

pytestmark = pytest.mark.usefixtures("in_work")


def texts(request: Recorded) -> list[str]:
    return [block["text"] for block in request.body["messages"][0]["content"]]


@pytest.fixture
def api(messages_api: MessagesApi) -> MessagesApi:
    messages_api.default = lambda request: Reply(f"for {texts(request)[-1]}")  # type: ignore[assignment]
    return messages_api


def test_what_prompts_begin_with_is_a_marked_part_and_the_row_is_not(api: MessagesApi) -> None:
    done = agent.map(f"{CODEBOOK}{{item}}", ["a", "b"])
    assert [*done] == ["for a", "for b"]
    for request, row in zip(api.requests, ("a", "b"), strict=True):
        shared, own = request.body["messages"][0]["content"]
        assert (shared["text"], shared["cache_control"]) == (CODEBOOK, MARK)
        assert own == {"type": "text", "text": row}


@pytest.mark.parametrize("template", ["{item}: is it odd?", "Is {item} odd?", CODEBOOK.replace("Sort", "Sort {item}")])
def test_a_prompt_with_little_or_nothing_before_its_row_is_sent_as_one_part(api: MessagesApi, template: str) -> None:
    api.default = Reply("yes")
    agent.map(template, [1])
    (content,) = (message["content"] for message in api.requests[0].body["messages"])
    assert "cache_control" not in str(content)


def test_rows_without_tools_are_told_neither_the_date_nor_the_directory(api: MessagesApi) -> None:
    agent.map("{item}", ["a"])
    agent.map("{item}", ["a"], tools=["read"])
    bare, with_tools = (request.body["system"][0]["text"] for request in api.requests)
    assert "Current" not in bare
    assert "Current date: " in with_tools


def test_the_first_row_is_asked_alone_until_its_answer_begins_where_the_others_begin_alike(api: MessagesApi) -> None:
    beside: list[int] = []
    held, all_asked = Gate(), threading.Event()

    def answer(_: Recorded) -> Reply:
        if len(api.requests) == 1:
            all_asked.wait(0.5)  # which would come, were the others asked as well
            beside.append(len(api.requests) - 1)
            return Reply(Text("y", held, "es"))
        if len(api.requests) == 5:
            all_asked.set()
            held.open()
        return Reply("yes", at_once=True)

    api.default = answer  # type: ignore[assignment]
    assert [*agent.map(f"{CODEBOOK}{{item}}", range(20), parallel=5)] == ["yes"] * 20
    assert beside == [0]


def test_only_the_row_that_others_wait_for_is_streamed(api: MessagesApi) -> None:
    assert len(agent.map(f"{CODEBOOK}{{item}}", range(4), parallel=1).failed) == 0
    agent.map("{item}", ["a"])
    agent.map("{item}", ["b"], max_tokens=10_000)
    assert ["stream" in request.body for request in api.requests] == [True, False, False, False, False, True]


def test_answers_are_streamed_once_a_gateway_was_not_patient_enough_for_a_whole_one(api: MessagesApi) -> None:
    api.add(Reply("first"), HttpError(504, "timeout_error", "Gateway timeout"))
    done = agent.map("{item}", ["a", "b", "c"], parallel=1)
    assert done.failed == []
    assert ["stream" in request.body for request in api.requests] == [False, False, True, True]


def test_rows_with_the_same_prompt_share_one_answer_and_its_cost(api: MessagesApi, tmp_path: Path) -> None:
    done = agent.map("{item}", ["a", "b", "a", "a", "b"], journal=tmp_path / "journal.jsonl")
    assert [*done] == ["for a", "for b", "for a", "for a", "for b"]
    assert len(api.requests) == 2
    assert sum(row.cost for row in done.rows) == pytest.approx(done.cost)
    again = agent.map("{item}", ["b", "a", "a"], journal=tmp_path / "journal.jsonl")
    assert [*again] == ["for b", "for a", "for a"]
    assert len(api.requests) == 2


def test_rows_with_the_same_answer_share_no_value(api: MessagesApi) -> None:
    api.default = Reply(ToolUse("answer", {"answer": [1, 2]}))
    done = agent.map("{item}", ["a", "a"], result=list[int])
    done[0].append(3)
    done.records[0]["answer"].append(4)
    assert (done[1], done.records[1]["answer"], len(api.requests)) == ([1, 2], [1, 2], 1)


def test_a_failure_is_that_of_all_rows_with_that_prompt_and_is_asked_once_more_by_a_retry(api: MessagesApi) -> None:
    api.default = HttpError(400, "invalid_request_error", "not this")
    done = agent.map("{item}", ["a", "a"])
    assert done.failed == [0, 1]
    assert all("not this" in str(row.error) for row in done.rows)
    api.default = Reply("well")
    assert [*done.retry()] == ["well", "well"]
    assert len(api.requests) == 2


def test_a_sample_asks_rows_from_everywhere_and_tells_what_the_others_cost(api: MessagesApi, tmp_path: Path) -> None:
    rows = [f"{number:03}" for number in range(40)]
    some = agent.map("{item}", [*rows, *rows], sample=5, journal=tmp_path / "journal.jsonl")
    assert [row.split()[-1] for row in some if row] == ["000", "008", "016", "024", "032"] * 2
    assert (len(api.requests), len(some.failed)) == (5, 70)
    assert some.cost_left == pytest.approx(some.cost / 5 * 35)
    assert some.summary.startswith("80 rows, 10 answered, 70 not asked, $")
    alike = "5 prompts for 10 rows: rows with the same one are asked once"
    assert some.summary.endswith(f", about ${some.cost_left:.4f} for the others, {alike}")
    assert some._repr_html_().count("<tr>") == 11
    assert "asked once" not in agent.map("{item}", rows, sample=5).summary
    before = len(api.requests)
    done = some.retry()
    assert [*done] == [f"for {row}" for row in [*rows, *rows]]
    assert (len(api.requests) - before, done.cost_left) == (35, 0)


def test_a_sample_is_told_apart_from_what_the_first_row_pays_for_the_others(api: MessagesApi) -> None:
    def answer(_: Recorded) -> Reply:
        first = len(api.requests) == 1
        return Reply("yes", usage={"cache_creation_input_tokens" if first else "cache_read_input_tokens": 3000})

    api.default = answer  # type: ignore[assignment]
    some = agent.map(f"{CODEBOOK}{{item}}", range(100), sample=10)
    assert some.cost_left == pytest.approx((some.cost - some.rows[0].cost) / 9 * 90)
    assert some.rows[0].cost > 5 * some.rows[10].cost


def test_bytes_are_no_prompt_and_stay_in_the_table_where_the_prompt_does_not_name_them(api: MessagesApi) -> None:
    rows = [{"name": "a", "picture": b"\x89PNG"}, {"name": "b", "picture": "b.png"}]
    done = agent.map("{name} {picture}", rows)
    assert (done.failed, len(api.requests)) == ([0], 1)
    assert "The column 'picture' holds bytes here" in str(done.rows[0].error)
    assert [*agent.map("{name}", rows)] == ["for a", "for b"]
    assert done.records[0]["picture"] == r"b'\x89PNG'"


def test_an_estimate_asks_nothing_and_counts_what_would_be_read(api: MessagesApi, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    agent.map("{item}", ["a"], journal=journal)
    known = agent.map("{item}", ["a", "b", "b", "c" * 4000], journal=journal, estimate=True).estimate
    assert known is not None
    assert (known.rows, len(api.requests)) == (2, 1)
    assert known.least is not None
    assert known.most is not None
    assert 1000 < known.tokens < 1200
    assert 0 < known.least < known.most
    long, split = (
        agent.map(text, range(50), estimate=True).estimate for text in (f"{{item}}{CODEBOOK}", f"{CODEBOOK}{{item}}")
    )
    assert long is not None
    assert split is not None
    assert long.tokens == split.tokens
    assert (split.least or 0) < (long.least or 0) / 5


def test_what_the_rows_cost_that_have_failed_is_still_to_be_paid(api: MessagesApi) -> None:
    api.default = lambda request: Reply("yes") if texts(request)[-1] < "c" else HttpError(400)  # type: ignore[assignment]
    done = agent.map("{item}", ["a", "b", "c", "d"], parallel=1)
    assert done.cost_left == pytest.approx(done.cost)


def test_an_answer_that_is_in_the_journal_is_that_of_all_rows_with_its_prompt(api: MessagesApi, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    answers = iter([HttpError(400), Reply("second"), Reply("third")])
    api.default = lambda _: next(answers)  # type: ignore[assignment]
    agent.map("{item}", ["a", "a", "a"], dedupe=False, parallel=1, journal=journal)
    assert [*agent.map("{item}", ["a", "a", "a"], journal=journal)] == ["second", "second", "third"]
    assert len(api.requests) == 3


def test_bytes_within_a_value_are_no_prompt_either(api: MessagesApi) -> None:
    done = agent.map("{item}", [[{"p": b"\x89"}], "b"])
    assert (done.failed, len(api.requests)) == ([0], 1)


@pytest.mark.parametrize("sample", [0, -1, True])
def test_a_sample_of_no_rows_is_refused(api: MessagesApi, sample: Any) -> None:
    with pytest.raises(UsageError, match="sample is a whole number of rows"):
        agent.map("{item}", ["a"], sample=sample)
    assert api.requests == []


@pytest.mark.parametrize(
    ("template", "options"), [("{item}", {"dedupe": False}), ("draft one", {}), ("{item}", {"tools": ["read"]})]
)
def test_where_each_row_is_to_be_asked_each_is(api: MessagesApi, template: str, options: dict[str, Any]) -> None:
    api.default = Reply("yes")
    assert [*agent.map(template, ["a", "a", "a"], **options)] == ["yes"] * 3
    assert len(api.requests) == 3


def test_rows_without_a_value_in_their_prompt_are_counted_and_asked(api: MessagesApi) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"question": ["a", None, float("nan"), "d"], "place": ["x", "y", None, "z"], "n": [None] * 4}
    )
    assert "value" not in agent.map("{question}", frame.head(1)).summary
    estimate = agent.map("{question}?", frame, estimate=True)
    assert estimate.summary.endswith(", 2 rows have no value for `question`")
    assert "no value for <code>question</code>" in estimate._repr_html_()
    done = agent.map("{question} {place}", frame.tail(3), sample=1)
    assert done.summary.endswith(", 2 rows have no value for `question` or `place`")
    assert done.retry().summary.endswith(", 2 rows have no value for `question` or `place`")
    lacking = agent.map("{question}?", [{"question": "a"}, {"question": None}, {"n": 1}])
    texts = agent.map("{question}?", [{"question": text} for text in ("x", "", " \n")], estimate=True)
    assert texts.summary.endswith(", 2 rows have no value for `question`")
    assert (lacking.failed, lacking.summary.endswith(", 1 row has no value for `question`")) == ([2], True)
