"""Rows that are asked as they are read: what is read when, in which order they come back, and how it ends."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fanout_calls import asked
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text

from indus_nb import agent
from indus_nb.base import front_end
from indus_nb.base.errors import IndusError, UsageError
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.reporting import Reporter
from indus_nb.fanout.results import RowAnswer
from indus_nb.fanout.rows import rows_in

pytestmark = pytest.mark.usefixtures("in_work")


@pytest.fixture
def api(messages_api: MessagesApi) -> MessagesApi:
    messages_api.default = lambda request: Reply(f"for {asked(request)}")  # type: ignore[assignment]
    return messages_api


def test_rows_without_an_end_are_read_a_few_ahead_and_come_back_in_their_order(api: MessagesApi) -> None:
    read: list[int] = []

    def rows() -> Iterator[dict[str, int]]:
        for number in count():
            read.append(number)
            yield {"n": number}

    for row, answer in islice(agent.stream("{n}", rows(), parallel=3), 50):
        assert answer.value == f"for {row['n']}"
        assert len(read) - row["n"] <= 3 * 4 + 1
    assert read[49] == 49
    assert not [thread for thread in threading.enumerate() if thread.name == "indus_nb rows"]


def test_a_slow_row_holds_up_none_that_was_read(api: MessagesApi) -> None:
    held = Gate()

    def answer(request: Recorded) -> Reply:
        if asked(request) == "0":
            return Reply(Text("la", held, "te"))
        if len(api.requests) == 8:
            held.open()
        return Reply(f"for {asked(request)}")

    api.default = answer  # type: ignore[assignment]
    done = [answer.value for _, answer in agent.stream("{item}", range(8), parallel=2)]
    assert done == ["late", *(f"for {number}" for number in range(1, 8))]


def test_a_cursor_of_a_database_is_read_on_the_thread_that_made_it(api: MessagesApi) -> None:
    with sqlite3.connect(":memory:") as database:
        database.row_factory = sqlite3.Row
        database.execute("create table t (name)")
        database.executemany("insert into t values (?)", [("a",), ("b",)])
        rows = (dict(row) for row in database.execute("select name from t"))
        assert [(row, answer.value) for row, answer in agent.stream("{name}", rows)] == [
            ({"name": "a"}, "for a"),
            ({"name": "b"}, "for b"),
        ]


def test_frames_are_read_row_by_row_and_their_columns_are_known_before(api: MessagesApi) -> None:
    frame = pd.DataFrame({"name": ["a", "b"], "n": [1, 2]})
    assert [answer.value for _, answer in agent.stream("{name}{n}", frame)] == ["for a1", "for b2"]
    with pytest.raises(UsageError, match="which the data does not have"):
        agent.stream("{nam}", frame)
    columns, rows = rows_in(pd.DataFrame({"n": range(10**6)}))
    assert (columns, next(rows)) == (("n",), {"n": 0})


def test_failures_are_results_and_rows_that_no_prompt_fits_too(api: MessagesApi) -> None:
    api.default = lambda r: HttpError(400, "invalid_request_error", "no") if asked(r) == "b" else Reply("ok")  # type: ignore[assignment]
    rows = [{"x": "a"}, {"x": "b"}, {"y": "c"}, {"x": "d"}]
    results = [answer for _, answer in agent.stream("{x}", rows)]
    assert [result.value for result in results] == ["ok", None, None, "ok"]
    assert "no" in str(results[1].error)
    assert "This row has no {x}" in str(results[2].error)


def test_leaving_the_loop_cuts_off_what_is_asked_and_reads_no_more(api: MessagesApi) -> None:
    held = Gate()
    api.default = lambda r: Reply("first") if asked(r) == "0" else Reply(Text("a", held))  # type: ignore[assignment]
    read: list[int] = []
    for _, answer in agent.stream("{item}", (read.append(n) or n for n in range(1000)), parallel=2):
        assert answer.value == "first"
        break
    assert len(read) <= 9
    assert not [thread for thread in threading.enumerate() if thread.name == "indus_nb rows"]
    held.open()


def test_what_was_read_is_given_back_before_an_error_of_the_data_is_raised(api: MessagesApi) -> None:
    def rows() -> Iterator[int]:
        yield from range(6)
        raise OSError("the disk is gone")

    stream = agent.stream("{item}", rows())
    given: list[str] = []
    with pytest.raises(OSError, match="the disk is gone"):
        given.extend(answer.value for _, answer in stream)
    assert given == [f"for {number}" for number in range(6)]
    assert list(stream) == []


def test_where_no_money_is_left_the_data_is_read_no_further(api: MessagesApi) -> None:
    read: list[int] = []
    rows = (read.append(number) or number for number in count())
    given: list[RowAnswer] = []
    with pytest.raises(IndusError, match=r"has no room|is spent"):
        given.extend(answer for _, answer in agent.stream("{item}", rows, max_cost=0.0215, parallel=1))
    assert given[0].answered
    assert len(given) == len(read) < 200


def test_a_display_that_fails_ends_no_stream(api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Reporter):
        def show(self, progress: Progress) -> None:
            raise OSError("the display is gone")

    monkeypatch.setattr(front_end, "reporter", lambda _: Gone())
    assert [answer.value for _, answer in agent.stream("{item}", [1, 2])] == ["for 1", "for 2"]


def test_a_stream_with_a_name_ends_with_its_statement(api: MessagesApi, tmp_path: Path) -> None:
    journal = tmp_path / "rows.jsonl"
    with agent.stream("{item}", range(100), journal=journal, parallel=2) as stream:
        for _ in stream:
            break
    assert not [thread for thread in threading.enumerate() if thread.name == "indus_nb rows"]
    assert list(stream) == []
    agent.map("{item}", range(2), journal=journal)


def test_equal_prompts_are_found_in_the_journal_of_a_map(api: MessagesApi, tmp_path: Path) -> None:
    journal = tmp_path / "rows.jsonl"
    agent.map("{item}", ["a", "a", "a"], journal=journal)
    assert [answer.value for _, answer in agent.stream("{item}", ["a", "a"], journal=journal)] == ["for a"] * 2
    assert len(api.requests) == 1


def test_a_stop_gives_back_every_row_that_was_read(api: MessagesApi) -> None:
    held = Gate()
    api.default = lambda r: Reply("first") if asked(r) == "0" else Reply(Text("a", held, "b"))  # type: ignore[assignment]
    stream = agent.stream("{item}", range(1000), parallel=2)
    first = next(stream)
    stream.stop()
    held.open()
    rest = list(stream)
    assert first[1].value == "first"
    assert [row["item"] for row, _ in rest] == [*range(1, len(rest) + 1)]
    assert len(rest) <= 8
    assert [answer.answered for _, answer in rest].count(False) >= len(rest) - 2
    assert all(answer.error is None for _, answer in rest)


def test_what_is_in_the_journal_is_not_asked_again_and_a_map_finds_it_too(api: MessagesApi, tmp_path: Path) -> None:
    journal = tmp_path / "rows.jsonl"
    first = agent.stream("{item}", ["a", "b", "a"], journal=journal)
    assert [answer.value for _, answer in first] == ["for a", "for b", "for a"]
    asked_first = len(api.requests)
    assert asked_first in (2, 3), "equal prompts that are on their way at once are asked each"
    again = agent.stream("{item}", ["a", "b", "c", "a"], journal=journal)
    assert [answer.value for _, answer in again] == ["for a", "for b", "for c", "for a"]
    assert len(api.requests) == asked_first + 1
    assert again.cost > first.cost > 0
    assert "4 rows, 3 of them answered before" in again.summary
    assert [*agent.map("{item}", ["c", "a"], journal=journal)] == ["for c", "for a"]
    assert len(api.requests) == asked_first + 1


def test_no_session_files_are_kept_unless_they_are_asked_for(api: MessagesApi, home: Path) -> None:
    ((_, without),) = agent.stream("{item}", [1])
    ((_, kept),) = agent.stream("{item}", [1], sessions=True)
    assert (without.session, Path(str(kept.session)).is_file()) == (None, True)
    assert agent.map("{item}", [1], sessions=False).rows[0].session is None


def test_a_cheap_model_is_asked_first_here_too(api: MessagesApi) -> None:
    api.default = lambda r: Reply("short" if r.body["model"] == "claude-haiku-4-5" else "usual")  # type: ignore[assignment]
    models: Any = {"model": "claude-sonnet-4-5", "cheap": "claude-haiku-4-5", "sure": lambda answer: len(answer) > 5}
    ((_, answer),) = agent.stream("{item}", [1], **models)
    assert (answer.value, answer.by_cheap, len(answer.tries)) == ("usual", False, 1)


def test_what_cannot_be_asked_is_an_error_and_nothing_is_left_running(
    api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TypeError, match="There is no option 'sample' here"):
        agent.stream("{item}", [1], sample=3)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="parallel"):
        agent.stream("{item}", [1], parallel=0)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(IndusError, match="key"):
        list(agent.stream("{item}", range(100)))
    assert not [thread for thread in threading.enumerate() if thread.name == "indus_nb rows"]


def test_nothing_is_asked_before_the_first_row_is_taken_and_no_rows_are_no_requests(api: MessagesApi) -> None:
    stream = agent.stream("{item}", range(3))
    assert api.requests == []
    stream.close()
    assert list(stream) == []
    assert list(agent.stream("{item}", [])) == []
    assert api.requests == []
