"""Rows that pass a question, and pairs that belong together: each row and pair is true, false or unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fanout_calls import asked, interrupted
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text, ToolUse

from indus_nb import agent
from indus_nb.base.errors import IndusError, UsageError

pytestmark = pytest.mark.usefixtures("in_work")


def yes_if(api: MessagesApi, holds: Callable[[str], bool], broken: set[str] | None = None) -> None:
    """Answer yes where a prompt fulfils a condition, and fail for some prompts."""

    def answer(request: Recorded) -> Reply | HttpError:
        prompt = asked(request)
        if prompt in (broken or ()):
            return HttpError(400, "invalid_request_error", "refused")
        return Reply(ToolUse("answer", {"answer": holds(prompt)}))

    api.default = answer  # type: ignore[assignment]


def test_the_rows_that_pass_are_a_frame_with_their_own_index_and_columns(messages_api: MessagesApi) -> None:
    yes_if(messages_api, lambda prompt: "bill" in prompt.partition("?")[2])
    tickets = pd.DataFrame(
        {"text": ["my bill", "a bug", "bill again"], "day": pd.to_datetime(["2026-01-01"] * 3)}, index=[7, 8, 9]
    )
    kept = agent.filter("Is this about billing? {text}", tickets)
    pd.testing.assert_frame_equal(kept.frame, tickets.loc[[7, 9]])
    assert (kept.numbers, kept.unknown, len(kept)) == ((0, 2), [], 2)
    assert list(kept.answers) == [True, False, True]
    assert kept.summary.startswith("2 pass: 3 rows, 3 answered, $0.0")
    assert "<tr><td>9</td><td>bill again" in kept._repr_html_()
    assert "a bug" not in kept._repr_html_()
    assert "frame</code> has all" not in kept._repr_html_()


def test_a_table_says_how_many_of_the_rows_it_shows(messages_api: MessagesApi) -> None:
    yes_if(messages_api, lambda _: True)
    assert "<p>20 of 60 rows; <code>frame</code> has all.</p>" in agent.filter("{item}", range(60))._repr_html_()


def test_a_table_has_the_columns_that_the_prompt_names_and_says_how_many_it_leaves_out(
    messages_api: MessagesApi,
) -> None:
    yes_if(messages_api, lambda _: True)
    page = agent.map("{n} and {j}", [{name: name * 3 for name in "abcdefghijklmn"}] * 2)._repr_html_()
    shown = [name for name in "abcdefghijklmn" if f"<th>{name}</th>" in page]
    assert shown == [*"abcdefjn"]
    assert "<p>8 of 14 columns; <code>frame</code> of this result has all.</p>" in page


def test_a_table_prints_numbers_and_days_as_a_frame_does_and_leaves_texts_and_data_alone(
    messages_api: MessagesApi,
) -> None:
    yes_if(messages_api, lambda _: True)
    data = pd.DataFrame(
        {
            "price": [200.10000000000002, 3.0],
            "day": pd.to_datetime(["2025-03-03", None]),
            "at": pd.to_datetime(["2025-03-03 08:30", "2025-03-04 00:00"]),
            "note": ["2025-03-03T00:00:00", "x"],
        }
    )
    kept = agent.filter("{price}", data)
    page = kept._repr_html_()
    assert "<td>200.1</td><td>2025-03-03</td><td>2025-03-03 08:30:00</td><td>2025-03-03T00:00:00</td>" in page
    assert "<td>3.0</td><td></td><td>2025-03-04 00:00:00</td>" in page
    assert kept[0]["price"] == 200.10000000000002
    assert "<td>200.1</td><td>2025-03-03</td>" in agent.map("{price}", data)._repr_html_()


def test_a_list_is_filtered_without_a_frame(messages_api: MessagesApi) -> None:
    yes_if(messages_api, lambda prompt: int(prompt) > 1)
    kept = agent.filter("{item}", [3, 0, 2])
    assert (list(kept), kept[0], kept[1:]) == ([{"item": 3}, {"item": 2}], {"item": 3}, [{"item": 2}])
    assert agent.filter("{n}", pd.DataFrame({"n": [0]})).frame.shape == (0, 1)


def test_a_row_that_failed_is_unknown_and_asked_once_more(messages_api: MessagesApi) -> None:
    broken = {"1"}
    yes_if(messages_api, lambda prompt: prompt != "0", broken)
    kept = agent.filter("{item}", [0, 1, 2])
    assert (kept.numbers, kept.unknown) == ((2,), [1])
    assert kept.summary.startswith("1 pass, 1 unknown: 3 rows, 2 answered, 1 failed")
    broken.clear()
    again = kept.retry()
    assert (again.numbers, again.unknown, len(messages_api.requests)) == ((1, 2), [], 4)
    assert again.cost > kept.cost > 0


def test_where_rows_failed_the_result_says_the_commonest_reason(messages_api: MessagesApi) -> None:
    yes_if(messages_api, lambda _: True, {"0", "1"})
    kept = agent.filter("{item}", [0, 1])
    for shown in (kept.summary, repr(kept), kept._repr_html_()):
        assert re.search(r"2 failed, .*; 2 rows failed: .*refused", shown)
    assert "rows failed" not in agent.filter("{item}", [2]).summary


def test_a_filter_has_the_options_of_a_map_but_for_the_type_of_its_answers(
    messages_api: MessagesApi, tmp_path: Path
) -> None:
    yes_if(messages_api, lambda prompt: True)
    journal = tmp_path / "rows.jsonl"
    kept = agent.filter("{item}", range(9), journal=journal, sample=3)
    assert (len(kept), len(kept.unknown)) == (3, 6)
    assert agent.filter("{item}", range(9), journal=journal, estimate=True).answers.estimate.rows == 6  # type: ignore[union-attr]
    assert len(agent.filter("{item}", range(9), journal=journal)) == 9
    assert len(messages_api.requests) == 9
    assert agent.filter("{item}", range(9), journal=journal).problems == ()
    assert len(messages_api.requests) == 9
    with pytest.raises(TypeError, match="no option 'result' here"):
        agent.filter("{item}", [1], result=int)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"names {text}, which the data does not have"):
        agent.filter("{text}", [1])


FIRMS = pd.DataFrame({"name": ["Acme", "Bolt"], "town": ["Rome", "Oslo"]})
COMPANIES = [
    {"company": "ACME Inc", "city": "Rome"},
    {"company": "Bolts", "city": "Oslo"},
    {"company": "Acme", "city": "Oslo"},
    {"company": "Nut", "city": None},
]
QUESTION = "Do {left.name} and {right.company} name the same firm?"


def same_start(prompt: str) -> bool:
    """Compare the first letters of both names."""
    words = prompt.split()
    return words[1][:3].lower() == words[3][:3].lower()


def test_each_row_is_paired_with_each_where_nothing_else_is_said(messages_api: MessagesApi) -> None:
    yes_if(messages_api, same_start)
    pairs = agent.join(QUESTION, FIRMS, COMPANIES)
    assert pairs.pairs == ((0, 0), (0, 2), (1, 1))
    assert len(messages_api.requests) == len(pairs.asked) == 8
    frame = pairs.frame
    assert list(frame.columns) == ["left.name", "left.town", "right.company", "right.city"]
    assert frame["right.company"].tolist() == ["ACME Inc", "Acme", "Bolts"]
    assert pairs.records[0] == {
        "left.name": "Acme",
        "left.town": "Rome",
        "right.company": "ACME Inc",
        "right.city": "Rome",
    }


@pytest.mark.parametrize(
    "on", [("town", "city"), (lambda row: row["town"], lambda row: row["city"])], ids=["columns", "functions"]
)
def test_only_pairs_with_equal_keys_are_asked_about_and_none_without_a_key(messages_api: MessagesApi, on: Any) -> None:
    yes_if(messages_api, same_start)
    pairs = agent.join(QUESTION, pd.concat([FIRMS, pd.DataFrame({"name": ["Nut"], "town": [None]})]), COMPANIES, on=on)
    assert pairs.asked == ((0, 0), (1, 1), (1, 2))
    assert pairs.pairs == ((0, 0), (1, 1))
    itself = agent.join("{left.city} {right.company}", COMPANIES, COMPANIES, on="city", estimate=True)
    assert itself.asked == ((0, 0), (1, 1), (1, 2), (2, 1), (2, 2))


def test_the_nearest_rows_by_vectors_are_asked_about(messages_api: MessagesApi) -> None:
    yes_if(messages_api, same_start)
    seen: list[list[str]] = []

    def embed(texts: list[str]) -> list[list[float]]:
        seen.append(texts)
        return [[text.lower().startswith("a") * 2.0, text.lower().startswith("b") * 1.0, 0.1] for text in texts]

    pairs = agent.join(QUESTION, FIRMS, COMPANIES, embed=embed, nearest=2)
    assert pairs.asked == ((0, 0), (0, 2), (1, 1), (1, 3))
    assert seen == [["Acme", "Bolt"], ["ACME Inc", "Bolts", "Acme", "Nut"]]
    assert len(agent.join(QUESTION, FIRMS, COMPANIES, embed=embed, nearest=99, estimate=True).asked) == 8
    with pytest.raises(UsageError, match="a vector of finite numbers for each text; on the left it did not"):
        agent.join(QUESTION, FIRMS, COMPANIES, embed=lambda texts: [[1.0]])
    with pytest.raises(UsageError, match="vectors of 1 and of 2 numbers"):
        agent.join(QUESTION, FIRMS, COMPANIES, embed=lambda texts: [[1.0] * (len(texts) // 2)] * len(texts))
    with pytest.raises(IndusError, match="embed failed on the left: ZeroDivisionError"):
        agent.join(QUESTION, FIRMS, COMPANIES, embed=lambda texts: 1 / 0)
    with pytest.raises(UsageError, match="names no column on the right"):
        agent.join("{left.name}?", FIRMS, COMPANIES, embed=embed)


def test_too_many_pairs_and_what_fits_no_data_are_refused_before_anything_is_asked(messages_api: MessagesApi) -> None:
    with pytest.raises(UsageError, match="200 and 300 rows make 60,000 pairs to ask about, more than max_pairs=10,000"):
        agent.join("{left.item} {right.item}", range(200), range(300))
    with pytest.raises(UsageError, match=r"The prompt names {name}, which the data does not have"):
        agent.join("{name}", FIRMS, COMPANIES)
    with pytest.raises(UsageError, match=r"no column 'city' on the left. There are: name, town"):
        agent.join(QUESTION, FIRMS, COMPANIES, on="city")
    with pytest.raises(UsageError, match="failed for row 0 on the left: KeyError"):
        agent.join(QUESTION, FIRMS, COMPANIES, on=lambda row: row["city"])
    with pytest.raises(UsageError, match="a pair of these"):
        agent.join(QUESTION, FIRMS, COMPANIES, on=("town", "city", "name"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not both"):
        agent.join(QUESTION, FIRMS, COMPANIES, on="x", embed=lambda texts: texts)
    with pytest.raises(UsageError, match="nearest is a whole number"):
        agent.join(QUESTION, FIRMS, COMPANIES, nearest=0)
    assert messages_api.requests == []


def test_a_pair_that_failed_is_unknown_and_what_was_answered_is_in_the_journal(
    messages_api: MessagesApi, tmp_path: Path
) -> None:
    journal = tmp_path / "pairs.jsonl"
    broken = {"Do Acme and Acme name the same firm?"}
    yes_if(messages_api, same_start, broken)
    pairs = agent.join(QUESTION, FIRMS, COMPANIES, journal=journal)
    assert [pairs.asked[number] for number in pairs.unknown] == [(0, 2)]
    assert pairs.pairs == ((0, 0), (1, 1))
    broken.clear()
    assert pairs.retry().pairs == ((0, 0), (0, 2), (1, 1))
    count = len(messages_api.requests)
    assert count == 9
    assert agent.join(QUESTION, FIRMS, COMPANIES, journal=journal).pairs == ((0, 0), (0, 2), (1, 1))
    assert len(messages_api.requests) == count


def test_whole_numbers_are_equal_keys_also_in_a_column_with_gaps(messages_api: MessagesApi) -> None:
    yes_if(messages_api, lambda _: True)
    left, right = pd.DataFrame({"id": [1, 2]}), pd.DataFrame({"id": [2, None, 1]})
    pairs = agent.join("Is {left.id} the same as {right.id}?", left, right, on="id")
    assert pairs.asked == ((0, 2), (1, 0))


def test_an_interrupted_filter_has_the_rows_that_pass_so_far_and_asks_for_the_others(
    messages_api: MessagesApi, interrupt_at: Callable[[Gate], None]
) -> None:
    gate = Gate()

    def answer(request: Recorded) -> Reply:
        held = [Text("", gate)] if asked(request) == "1" else []
        return Reply(*held, ToolUse("answer", {"answer": True}))

    messages_api.default = answer  # type: ignore[assignment]
    interrupt_at(gate)
    kept = interrupted(lambda: agent.filter("{item}", range(4), parallel=1))
    assert (kept.numbers, kept.unknown) == ((0, 1), [2, 3])
    gate = Gate()
    messages_api.default = lambda _: Reply(Text("", gate), ToolUse("answer", {"answer": True}))  # type: ignore[assignment]
    interrupt_at(gate)
    more = interrupted(kept.retry)
    assert (more.numbers, more.unknown) == ((0, 1, 2), [3])
    assert more.retry().numbers == (0, 1, 2, 3)
