"""Rows that are asked in batches: half the price, and nothing is sent twice whatever becomes of the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from batches_api import BatchesApi, HangUp
from messages_api import HttpError, MessagesApi, Reply, ToolUse

from indus_nb import SessionOptions, agent, open_session
from indus_nb.base import front_end
from indus_nb.base.errors import UsageError
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.reporting import Reporter

PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background switches it off
from indus_nb import agent
from indus_nb.fanout import batches
batches._FIRST_POLL_SECONDS = 0.05
try:
    done = agent.map("{item}", range(int(sys.argv[2])), batch=True, journal=sys.argv[1])
except KeyboardInterrupt:
    done = agent.interrupted
print(list(done), round(done.cost, 9))
"""


@dataclass
class Size:
    """An answer with fields."""

    length: int


def text_of(body: Mapping[str, Any]) -> str:
    """What the first message of a request holds."""
    return body["messages"][0]["content"][0]["text"]


def echo(body: Mapping[str, Any]) -> Reply:
    """Answer with what was asked."""
    return Reply(f"<{text_of(body)}>")


@pytest.fixture
def api(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchesApi]:
    """A server with batches, which is polled quickly."""
    (home / "agent").mkdir()
    settings = {"defaultModel": "claude-haiku-4-5", "retry": {"baseDelayMs": 10}}
    (home / "agent" / "settings.json").write_text(json.dumps(settings))
    monkeypatch.chdir(home / "work")
    monkeypatch.setattr("indus_nb.fanout.batches._FIRST_POLL_SECONDS", 0.02)
    with BatchesApi(echo) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield server


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_all_rows_are_one_batch_and_their_answers_come_in_order(api: BatchesApi) -> None:
    words = [f"word {number}" for number in range(40)]
    done = agent.map("say {item}", words, batch=True)
    assert list(done) == [f"<say {word}>" for word in words]
    assert ([len(batch.requests) for batch in api.batches], api.refusals, api.requests) == ([40], [], [])
    with open_session(SessionOptions(session=done.rows[1].session)) as session:
        assert session.last_text == "<say word 1>"


def test_it_costs_exactly_half(api: BatchesApi, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    half = agent.map("{item}", range(3), batch=True)
    messages_api.default = Reply("<0>")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    whole = agent.map("{item}", range(3))
    assert half.cost * 2 == pytest.approx(whole.cost, rel=1e-12)
    assert half.cost > 0
    assert [row.cost * 2 for row in half.rows] == [row.cost for row in whole.rows]


def test_what_is_reserved_is_half_too(api: BatchesApi) -> None:
    sizes: list[int] = []
    done = agent.map("{item}", range(10), batch=True, max_tokens=1_000_000, max_cost=0.5, model="claude-haiku-4-5")
    sizes += [len(batch.requests) for batch in api.batches]
    assert done.failed == []
    assert sum(sizes) == 10
    assert 1 < max(sizes) < 10  # one fits at the full price


def test_a_wrong_answer_is_repaired_in_a_second_batch(api: BatchesApi) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        good = text_of(body) != "b" or len(body["messages"]) > 1
        return Reply(ToolUse("answer", {"length": 1 if good else "long"}))

    api.answer = answer
    done = agent.map("{item}", ["a", "b", "c"], result=Size, batch=True)
    assert list(done) == [Size(1)] * 3
    assert [len(batch.requests) for batch in api.batches] == [3, 1]
    assert done.rows[1].cost > done.rows[0].cost


def test_errors_stay_in_their_rows_and_what_passes_is_asked_again(api: BatchesApi) -> None:
    seen: Counter[str] = Counter()

    def answer(body: Mapping[str, Any]) -> Reply | HttpError | str:
        seen[word := text_of(body)] += 1
        if word == "bad":
            return HttpError(400, "invalid_request_error", "no such word")
        if word in ("slow", "busy") and seen[word] == 1:
            return "expired" if word == "slow" else HttpError(529, "overloaded_error", "Overloaded")
        return "canceled" if word == "gone" else echo(body)

    api.answer = answer
    done = agent.map("{item}", ["a", "bad", "slow", "busy", "gone"], batch=True)
    assert list(done) == ["<a>", None, "<slow>", "<busy>", None]
    assert "no such word" in str(done.rows[1].error)
    assert str(done.rows[4].error).startswith("The batch was cancelled")
    assert (done.rows[1].cost, done.rows[4].cost, done.rows[2].cost) == (0, 0, done.rows[0].cost)
    api.answer = echo
    assert done.retry().failed == []


@pytest.mark.parametrize("status", [429, 500])
def test_a_busy_server_is_asked_again_and_makes_no_second_batch(api: BatchesApi, status: int) -> None:
    refusal = HttpError(status, "rate_limit_error", "Later", headers={"retry-after": "0.05"})
    api.faults += [("POST", "batches", refusal), ("GET", "batches/\\w+", refusal), ("GET", "results", refusal)]
    assert list(agent.map("{item}", ["a", "b"], batch=True)) == ["<a>", "<b>"]
    assert ([len(batch.requests) for batch in api.batches], api.faults) == ([2], [])


def test_a_batch_whose_acceptance_was_not_heard_of_is_found(api: BatchesApi, tmp_path: Path) -> None:
    api.faults.append(("POST", "batches", HangUp()))
    assert list(agent.map("{item}", ["a", "b"], batch=True)) == ["<a>", "<b>"]
    assert [len(batch.requests) for batch in api.batches] == [2]


def test_a_batch_that_is_refused_is_an_error_of_its_rows(api: BatchesApi) -> None:
    api.faults.append(("POST", "batches", HttpError(403, "permission_error", "no batches here")))
    done = agent.map("{item}", ["a", "b"], batch=True)
    assert (done.failed, done.cost) == ([0, 1], 0)
    assert "no batches here" in str(done.rows[0].error)


def test_more_rows_than_wait_at_once_are_several_batches(api: BatchesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indus_nb.fanout.batches.MAX_ROWS", 4)
    assert len(list(agent.map("{item}", range(10), batch=True))) == 10
    assert [len(batch.requests) for batch in api.batches] == [4, 4, 2]


def test_batches_are_of_bounded_size(api: BatchesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indus_nb.fanout.batches._MAX_BYTES", 3000)
    done = agent.map("{item}", range(10), batch=True)
    assert done.failed == []
    assert len(api.batches) > 1
    assert max(len(json.dumps([each["params"] for each in batch.requests])) for batch in api.batches) < 4000


def test_what_needs_other_ways_is_said_before_anything_is_asked(api: BatchesApi) -> None:
    for options, word in (
        ({"tools": ["read"]}, "tools"),
        ({"rpm": 5}, "rpm"),
        ({"provider": "offline"}, "offline"),
    ):
        with pytest.raises(UsageError, match=word):
            agent.map("{item}", ["a"], batch=True, **options)  # type: ignore[arg-type]
    assert (api.calls, api.requests) == ([], [])


@pytest.mark.parametrize("moment", ["sending", "waiting", "collecting"])
def test_killed_at_any_moment_nothing_is_sent_twice(
    api: BatchesApi, home: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = home / "rows.jsonl"
    command = [sys.executable, "-c", PROGRAM, str(journal), "30"]
    api.polls = 1_000_000
    reached = threading.Event()
    make, end = api.make, api.end

    def made(requests: list[dict[str, Any]]) -> Any:
        batch = make(requests)
        if moment == "sending" and not reached.is_set():
            reached.set()
            gone.wait(30)
        return batch

    def ended(batch: Any) -> None:
        end(batch)
        if moment == "collecting" and not reached.is_set():
            reached.set()
            gone.wait(30)

    gone = threading.Event()
    monkeypatch.setattr(api, "make", made)
    monkeypatch.setattr(api, "end", ended)
    running = subprocess.Popen(command, cwd=home / "work")
    wait_until(lambda: bool(api.batches))
    if moment == "collecting":
        api.batches[0].polls = 1
    if moment == "waiting":
        wait_until(lambda: any(path.endswith("msgbatch_01") for _, path in api.calls))
    else:
        assert reached.wait()
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    gone.set()
    api.batches[0].polls = 1
    last = subprocess.run(command, cwd=home / "work", capture_output=True, text=True, check=True)
    values, cost = last.stdout.rsplit(" ", 1)
    assert values == str([f"<{number}>" for number in range(30)])
    assert float(cost) > 0
    assert [len(batch.requests) for batch in api.batches] == [30]


def test_interrupted_with_a_journal_the_batch_goes_on_and_is_collected(api: BatchesApi, home: Path) -> None:
    api.polls = 1_000_000
    journal = home / "rows.jsonl"
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + "print(done.problems)", str(journal), "3"],
        cwd=home / "work",
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: any(path.endswith("msgbatch_01") for _, path in api.calls))
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate()
    assert said.startswith("[None, None, None] 0")
    assert "msgbatch_01" in said
    assert "collects" in said
    api.batches[0].polls = api.polls = 1
    again = agent.map("{item}", range(4), batch=True, journal=journal)
    assert (list(again), again.failed) == ([f"<{number}>" for number in range(4)], [])
    assert ([len(batch.requests) for batch in api.batches], api.cancelled) == ([3, 1], [])


def test_interrupted_without_a_journal_it_is_cancelled(api: BatchesApi, home: Path) -> None:
    api.polls = 1_000_000
    program = PROGRAM.replace("journal=sys.argv[1]", "").replace("print(", "print(done.failed, ")
    running = subprocess.Popen(
        [sys.executable, "-c", program, "", "3"], cwd=home / "work", stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: any(path.endswith("msgbatch_01") for _, path in api.calls))
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate()
    assert said == "[0, 1, 2] [None, None, None] 0.0\n"
    assert api.cancelled == ["msgbatch_01"]


def test_a_server_that_is_not_there_is_an_error_of_the_rows(api: BatchesApi, home: Path) -> None:
    settings = {"defaultModel": "claude-haiku-4-5", "retry": {"enabled": False}}
    (home / "agent" / "settings.json").write_text(json.dumps(settings))
    program = PROGRAM.replace("journal=sys.argv[1]", "") + "print(done.rows[0].error, done.cost_unconfirmed)"
    running = subprocess.run(
        [sys.executable, "-c", program, "", "3"],
        cwd=home / "work",
        env={**os.environ, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "http://127.0.0.1:9 cannot be reached" in running.stdout
    assert running.stdout.endswith(" 0.0\n")


@pytest.mark.parametrize("journaled", [False, True])
def test_one_interruption_ends_the_search_for_a_batch_that_may_have_been_accepted(
    api: BatchesApi, home: Path, *, journaled: bool
) -> None:
    api.faults += [("POST", "batches", HangUp()), *[("GET", "batches", HttpError(503, "api_error", "Later"))] * 9999]
    program = PROGRAM if journaled else PROGRAM.replace("journal=sys.argv[1]", "")
    program += "print(done.problems, done.cost_unconfirmed > 0)"
    running = subprocess.Popen(
        [sys.executable, "-c", program, str(home / "rows.jsonl"), "3"],
        cwd=home / "work",
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: ("GET", "/v1/messages/batches") in api.calls)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate()
    assert "not known whether Anthropic has accepted a batch of 3 requests" in said
    assert ("with the same journal looks for it" in said, "True" in said) == (journaled, not journaled)
    api.faults.clear()
    if journaled:
        assert agent.map("{item}", range(3), batch=True, journal=home / "rows.jsonl").failed == []
    assert [len(batch.requests) for batch in api.batches] == [3]


def test_a_second_interruption_waits_for_no_acceptance(
    api: BatchesApi, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered, make = threading.Event(), threading.Event(), api.make

    def made(requests: list[dict[str, Any]]) -> Any:
        asked.set()
        answered.wait(240)
        return make(requests)

    monkeypatch.setattr(api, "make", made)
    program = PROGRAM.replace("journal=sys.argv[1]", "").replace("try:", "batches._FAREWELL_SECONDS = 1000\ntry:")
    program = program.replace("batch=True", "batch=True, progress=False") + "print(done.problems)"
    running = subprocess.Popen([sys.executable, "-c", program, "", "3"], cwd=home / "work", stdout=subprocess.PIPE)
    assert asked.wait(240)
    running.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(1)  # for what is accepted can be cancelled
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    answered.set()
    assert b"not known whether Anthropic has accepted a batch of 3 requests" in said


def test_a_batch_that_is_not_heard_of_is_looked_for_for_a_while_and_not_sent_again(
    api: BatchesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indus_nb.fanout.batches._SENDING_SECONDS", 0.3)
    shown: list[str] = []

    class Noting(Reporter):
        def show(self, progress: Progress) -> None:
            shown.append(str(progress))

    monkeypatch.setattr(front_end, "reporter", lambda _: Noting())
    api.faults += [("POST", "batches", HangUp()), *[("GET", "batches", HttpError(503, "api_error", "Later"))] * 9999]
    done = agent.map("{item}", ["a", "b"], batch=True)
    assert (done.failed, len(api.batches), done.cost_unconfirmed > 0) == ([0, 1], 1, True)
    assert "a batch of 2 requests (503 Service Unavailable). Look into its console" in done.problems[0]
    assert any(
        "being looked for" in line and "cannot be asked (503 Service Unavailable), tried for" in line for line in shown
    )


def test_rows_that_failed_are_asked_anew_and_lost_results_too(api: BatchesApi, home: Path) -> None:
    journal = home / "rows.jsonl"
    api.answer = lambda body: HttpError(400, "invalid_request_error", "refused") if text_of(body) == "b" else echo(body)
    first = agent.map("{item}", ["a", "b"], batch=True, journal=journal)
    assert first.failed == [1]
    api.answer = echo
    second = agent.map("{item}", ["a", "b"], batch=True, journal=journal)
    assert list(second) == ["<a>", "<b>"]
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b'"key"' not in line))
    for batch in api.batches:
        batch.archived = True
    third = agent.map("{item}", ["a", "b"], batch=True, journal=journal)
    assert list(third) == ["<a>", "<b>"]
    assert [len(batch.requests) for batch in api.batches] == [2, 1, 2]


def test_on_the_console(api: BatchesApi, home: Path) -> None:
    data = home / "work" / "rows.csv"
    data.write_text("word\na\nb\n")
    command = [sys.executable, "-m", "indus_nb", "map", "rows.csv", "--prompt", "{word}", "--out", "out.csv", "--batch"]
    subprocess.run(command, cwd=home / "work", check=True)
    written = (home / "work" / "out.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in written] == [["word", "answer"], ["a", "<a>"], ["b", "<b>"]]
    assert [len(batch.requests) for batch in api.batches] == [2]
