"""Answers beside labels."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest
from messages_api import HttpError, MessagesApi, Recorded, Reply, ToolUse

from indus_nb import agent
from indus_nb.base.errors import UsageError
from indus_nb.fanout.agreement import agreement

pytestmark = pytest.mark.usefixtures("in_work")

ROWS = [
    {"text": "a", "label": "x"},
    {"text": "b", "label": "y"},
    {"text": "c", "label": "y"},
    {"text": "d", "label": None},
]


@pytest.fixture
def api(messages_api: MessagesApi) -> MessagesApi:
    said = {"a": "x", "b": "y", "c": "x", "d": "x"}

    def answer(request: Recorded) -> Reply:
        text = said[request.texts[-1]]
        return Reply(ToolUse("answer", {"kind": text}) if request.body.get("tools") else text)

    messages_api.default = answer  # type: ignore[assignment]
    return messages_api


def test_answers_are_compared_with_a_column_of_the_data(api: MessagesApi) -> None:
    found = agent.map("{text}", ROWS).agree(with_="label")
    assert (found.rows, found.agreed, found.differing) == (3, 2, (2,))
    assert found.confusion == {("x", "x"): 1, ("y", "y"): 1, ("y", "x"): 1}
    without = "; 1 row without an answer or a label left out"
    assert str(found) == f"2 of 3 rows agree (67%), Cohen's kappa 0.40; row 2 differs{without}"
    page = found._repr_html_()
    assert "<tr><th>y</th><td>1</td><td>1</td></tr>" in page
    assert f"row 2 differs{without}</p>" in page


def test_rows_of_a_frame_are_named_by_the_labels_that_it_had(api: MessagesApi) -> None:
    frame = importlib.import_module("pandas").DataFrame(ROWS, index=[10, 20, 30, 40])
    done = agent.map("{text}", frame)
    frame.index = frame.index + 1
    found = done.agree(with_="label")
    assert (found.differing, found.named) == ((2,), ("30",))
    assert "; row 30 differs" in str(found)
    assert "<tr><td>30</td><td>c</td>" in done._repr_html_()


def test_a_label_of_several_levels_or_lines_is_named_on_one_short_line(api: MessagesApi) -> None:
    pandas = importlib.import_module("pandas")
    levels = pandas.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 3), ("b", 4)])
    found = agent.map("{text}", pandas.DataFrame(ROWS, index=levels)).agree(with_="label")
    assert "; row ('b', 3) differs" in str(found)
    lines = pandas.Index(["w", "x", "first\nsecond " + "long " * 100, "z"])
    (named,) = agent.map("{text}", pandas.DataFrame(ROWS, index=lines)).agree(with_="label").named
    assert named.startswith("first second long")
    assert len(named) < 80


def test_a_field_of_the_answers_is_compared_and_rows_without_an_answer_do_not_count(api: MessagesApi) -> None:
    right = api.default
    api.default = lambda request: HttpError(400) if request.texts[-1] == "b" else right(request)  # type: ignore[assignment, operator]
    schema = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
    found = agent.map("{text}", ROWS, result=schema).agree(["x", "y", "y", "<b>"], field="kind")
    assert (found.rows, found.agreed, found.differing) == (3, 1, (2, 3))
    assert "<b>" not in found._repr_html_()


def test_what_cannot_be_compared_is_said(api: MessagesApi) -> None:
    done = agent.map("{text}", ROWS)
    for with_, field, said in (
        ("kind", None, "no column 'kind'. It has: text, label. .* with_=frame\\['kind'\\]"),
        (["x"], None, "1 labels for 4 rows"),
        ("label", "kind", "Not every answer has a field 'kind'"),
    ):
        with pytest.raises(UsageError, match=said):
            done.agree(with_, field)


def test_kappa_is_that_of_scikit_learn() -> None:
    metrics: Any = importlib.import_module("sklearn.metrics")
    chance = random.Random(5)
    for _ in range(20):
        labels = [chance.choice("abc") for _ in range(50)]
        answers = [label if chance.random() < 0.6 else chance.choice("abcd") for label in labels]
        assert agreement(answers, labels).kappa == pytest.approx(metrics.cohen_kappa_score(labels, answers))
    assert agreement([1, {"a": 1, "b": 2.0}], [1.0, {"b": 2.0, "a": 1}]).agreed == 2
    assert agreement(["a"], ["a"]).kappa is None
    assert agreement([], []).kappa is None


def test_of_many_rows_that_differ_the_first_ten_are_named() -> None:
    assert str(agreement("a" * 12, "b" * 12)).endswith("; rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more differ")
