"""One question for many rows: each ends, in its order, within the limits, and what was answered is not paid again."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fanout_calls import asked, interrupted
from messages_api import Cut, Gate, HttpError, MessagesApi, Recorded, Reply, Text, ToolUse

from indus_nb import SessionOptions, agent, open_session
from indus_nb.base.errors import CredentialsError, IndusError, UsageError
from indus_nb.base.messages import AssistantMessage
from indus_nb.fanout.agent import Agent
from indus_nb.fanout.asking import RowRetry
from indus_nb.fanout.mapping import Map
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.question import question
from indus_nb.fanout.reporting import Reporter
from indus_nb.fanout.results import Answers
from indus_nb.fanout.rows import table_of

pytestmark = pytest.mark.usefixtures("in_work")


@dataclass
class Size:
    """An answer with fields."""

    length: int
    word: str


def echo(request: Recorded) -> Reply:
    """Answer with what was asked."""
    return Reply(f"<{asked(request)}>", at_once=True)


def answer_with(api: MessagesApi, answer: Callable[[Recorded], Any]) -> None:
    """Let a function answer every request."""
    api.default = answer  # type: ignore[assignment]


def test_answers_come_in_the_order_of_the_rows(messages_api: MessagesApi) -> None:
    answer_with(messages_api, echo)
    words = [f"word {number}" for number in range(40)]
    done = agent.map("say {item}", words, parallel=7)
    assert list(done) == [f"<say {word}>" for word in words]
    assert (done.failed, len(messages_api.requests), messages_api.refusals) == ([], 40, [])


def test_a_frame_gets_the_fields_of_the_answers_beside_its_own(messages_api: MessagesApi) -> None:
    def sized(request: Recorded) -> Reply | HttpError:
        word = asked(request)
        if word == "bad":
            return HttpError(400, "invalid_request_error", "no such word")
        return Reply(ToolUse("answer", {"length": len(word), "word": word}))

    answer_with(messages_api, sized)
    data = pd.DataFrame({"word": ["one", "bad", "three"]}, index=[10, 20, 30])
    done = agent.map("{word}", data, result=Size)
    assert done[0] == Size(3, "one")
    assert done.failed == [1]
    frame = done.frame
    assert list(frame.columns) == ["word", "length", "answer_word", "error"]
    assert (list(frame.index), list(frame["answer_word"].isna())) == ([10, 20, 30], [False, True, False])
    assert "no such word" in frame["error"][20]


def test_numbers_of_a_frame_stay_exact_where_a_row_has_none(messages_api: MessagesApi) -> None:
    exact = 2**53 + 1

    def numbered(request: Recorded) -> Reply | HttpError:
        if asked(request) == "bad":
            return HttpError(400, "invalid_request_error", "no")
        return Reply(ToolUse("answer", {"answer": exact if asked(request) == "big" else 3}))

    answer_with(messages_api, numbered)
    frame = agent.map("{item}", ["big", "bad", "small"], result=int).frame
    assert (frame["answer"][0], frame["answer"].isna()[1], frame["answer"][2]) == (exact, True, 3)
    assert str(frame["answer"].dtype) == "Int64"


def test_it_says_why_rows_are_asked_again_as_long_as_one_waits(messages_api: MessagesApi) -> None:
    gate, seen = Gate(), list[str]()
    refusal = HttpError(529, "overloaded_error", "Over\x1b[2Jloaded", headers={"retry-after": "1"})
    replies = iter([refusal, Reply(Text("ok", gate))])
    answer_with(messages_api, lambda _: next(replies))

    class Seen(Reporter):
        def show(self, progress: Progress) -> None:
            seen.append(str(progress))
            if progress.failure:
                gate.open()

    asked = question("{item}", table_of([1]), session=SessionOptions(), directory=Path("rows"))
    assert list(Map([1], asked).here(Seen())) == ["ok"]
    assert any("asking again after: 529 overloaded_error" in text for text in seen)
    assert "\x1b" not in "".join(seen)
    assert "asking again" not in seen[-1]


@pytest.mark.parametrize(
    "options", [{}, {"max_cost": 5.0}, {"tools": ["read"]}, {"cheap": "claude-haiku-4-5", "model": "claude-sonnet-4-5"}]
)
def test_no_more_requests_go_on_at_once_than_parallel_says(messages_api: MessagesApi, options: dict[str, Any]) -> None:
    together, lock, at_once = threading.Barrier(6), threading.Lock(), Counter[str]()

    def answer(request: Recorded) -> Reply:
        with lock:
            at_once["now"] += 1
            at_once["most"] = max(at_once["most"], at_once["now"])
        together.wait(60)
        with lock:
            at_once["now"] -= 1
        unsure = ToolUse("answer", {"answer": "?", "probability": 0.1})
        return Reply(unsure) if request.body["model"] == options.get("cheap") else Reply("sure")

    answer_with(messages_api, answer)
    done = agent.map("{item}", range(24), parallel=6, **options)
    assert ([*done], at_once["most"]) == (["sure"] * 24, 6)


def test_no_row_waits_for_its_place_while_its_timeout_runs(messages_api: MessagesApi) -> None:
    latency = threading.Event()

    def answer(_: Recorded) -> Reply:
        latency.wait(3.5)
        return Reply("in time")

    answer_with(messages_api, answer)
    assert [*agent.map("{item}", range(8), parallel=4, timeout=6)] == ["in time"] * 8


def test_each_row_is_a_session_that_can_be_continued(messages_api: MessagesApi) -> None:
    answer_with(messages_api, echo)
    done = agent.map("say {item}", ["a", "b"])
    with open_session(SessionOptions(session=done.rows[1].session)) as session:
        assert session.last_text == "<say b>"
        assert session.run("again") == "<say b>"
    usual = Path(str(done.rows[0].session)).parents[2]
    assert list(usual.glob("*.jsonl")) == []


@pytest.mark.parametrize(("tools", "marks"), [((), ["system"]), (("read",), ["system", "message"])])
def test_a_rows_own_message_is_kept_only_where_calls_of_tools_go_on_from_it(
    messages_api: MessagesApi, tools: tuple[str, ...], marks: list[str]
) -> None:
    answer_with(messages_api, echo)
    agent.map("say {item}", ["one"], tools=tools)
    body = messages_api.requests[0].body
    parts = [("system", part) for part in body["system"]]
    parts += [("message", part) for message in body["messages"] for part in message["content"]]
    assert [where for where, part in parts if "cache_control" in part] == marks
    assert all(part["cache_control"] == {"type": "ephemeral"} for _, part in parts if "cache_control" in part)


def test_a_row_that_begins_with_a_slash_is_no_command(messages_api: MessagesApi) -> None:
    @agent.command("leave")
    def leave(_arguments: str, _context: object) -> None:
        raise AssertionError("a row ran a command")

    try:
        answer_with(messages_api, echo)
        assert list(agent.map("{item}", ["/leave now", "/skill:x"])) == ["</leave now>", "</skill:x>"]
    finally:
        agent.forget(["leave"])


def test_rows_have_no_tools_unless_they_are_given(messages_api: MessagesApi) -> None:
    @agent.tool
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    def answer(request: Recorded) -> Reply:
        tools = [tool["name"] for tool in request.body.get("tools", ())]
        last = request.body["messages"][-1]["content"]
        if tools == ["shout"] and len(request.body["messages"]) == 1:
            return Reply(ToolUse("shout", {"text": asked(request)}))
        return Reply(f"{tools} {'HI' in json.dumps(last)}")

    try:
        answer_with(messages_api, answer)
        assert list(agent.map("{item}", ["hi"])) == ["[] False"]
        assert list(agent.map("{item}", ["hi"], tools=["shout"])) == ["['shout'] True"]
    finally:
        agent.forget(["shout"])


class Faulty:
    """A server that fails as real ones do: 20 % 429 with a time to wait, 5 % 500, 1 % streams that break off."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.answered: Counter[str] = Counter()
        self.lock = threading.Lock()

    def __call__(self, request: Recorded) -> Reply | HttpError:
        with self.lock:
            chance = self.random.random()
            if chance < 0.20:
                return HttpError(429, "rate_limit_error", "Too many", headers={"retry-after": "0.02"})
            if chance < 0.25:
                return HttpError(500)
            if chance < 0.26:
                return Reply(Text("half of", Cut()))
            self.answered[asked(request)] += 1
        return echo(request)


def test_every_row_ends_on_a_server_that_fails(messages_api: MessagesApi) -> None:
    server = Faulty()
    answer_with(messages_api, server)
    done = agent.map("{item}", range(200), parallel=16)
    assert (done.failed, list(done)) == ([], [f"<{number}>" for number in range(200)])
    assert set(server.answered.values()) == {1}
    assert len(messages_api.requests) > 230


def test_rows_have_the_settings_with_which_the_first_one_began(messages_api: MessagesApi, home: Path) -> None:
    settings = home / "agent" / "settings.json"

    def change_then_fail_once(request: Recorded) -> Reply | HttpError:
        settings.write_text('{"retry": {"enabled": false}, "secrets": ')
        if len(messages_api.requests) == 2:
            return HttpError(529, "overloaded_error", "busy")
        return echo(request)

    answer_with(messages_api, change_then_fail_once)
    assert list(agent.map("{item}", ["one", "two", "three"], parallel=1)) == ["<one>", "<two>", "<three>"]


def test_the_keys_of_a_file_beside_the_data_are_not_in_the_sessions_of_rows(
    messages_api: MessagesApi, home: Path
) -> None:
    settings = home / "agent" / "settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "defaultTrust": "always"}))
    answer_with(messages_api, echo)
    secret = "q7Zt0Kx4Vw9Lm2Rb8Ns5"
    Path(".env").write_text(f"TEST_TOKEN={secret}\n")
    done = agent.map("{item}", ["first", f"say {secret}"], parallel=1)
    assert list(done) == ["<first>", "<say [secret TEST_TOKEN of .env]>"]
    session = done.rows[1].session
    assert session is not None
    assert secret not in Path(session).read_text()


def test_what_fails_is_a_value_and_is_asked_again_on_request(messages_api: MessagesApi) -> None:
    broken = {"b"}

    def answer(request: Recorded) -> Reply | HttpError:
        return HttpError(400, "invalid_request_error", "refused") if asked(request) in broken else echo(request)

    answer_with(messages_api, answer)
    done = agent.map("{item}", ["a", "b", "c"])
    assert (list(done), done.failed) == (["<a>", None, "<c>"], [1])
    assert "refused" in str(done.rows[1].error)
    broken.clear()
    again = done.retry()
    assert (list(again), again.failed, len(messages_api.requests)) == (["<a>", "<b>", "<c>"], [], 4)
    assert again.cost > done.cost > 0
    with pytest.raises(TypeError, match="journal"):
        again.retry(journal="elsewhere")


def test_with_an_event_loop_the_same_is_awaited(messages_api: MessagesApi) -> None:
    failing = [True]
    answer_with(messages_api, lambda request: HttpError(400) if failing[0] else echo(request))

    async def mapping() -> tuple[Answers, Answers]:
        done = await agent.map_async("{item}", ["a"], parallel=2)
        failing.clear()
        failing.append(False)
        return done, await done.retry_async()

    done, again = asyncio.run(mapping())
    assert (done.failed, list(again)) == ([0], ["<a>"])


def test_a_second_run_pays_only_for_what_is_missing(messages_api: MessagesApi, tmp_path: Path) -> None:
    answer_with(messages_api, echo)
    journal = tmp_path / "rows.jsonl"
    first = agent.map("{item}", ["a", "b", "a"], journal=journal)
    second = agent.map("{item}", ["x", "a", "b", "a"], journal=journal)
    assert list(second) == ["<x>", "<a>", "<b>", "<a>"]
    assert len(messages_api.requests) == 3
    assert second.rows[1].session == first.rows[0].session
    assert second.cost == pytest.approx(first.cost / 2 * 3)
    assert second.cost_before == first.cost
    assert second.summary.startswith("4 rows, 4 answered, 3 of them before, $0.0")
    assert second.summary.endswith(f" now, ${first.cost:.4f} before")
    assert (first.cost_before, first.problems, second.problems) == (0, (), ())
    other = agent.map("{item}", ["a"], journal=journal, system_prompt="Be brief.")
    assert [problem for problem in other.problems if "had 3 rows, none of which is one of these" in problem]
    assert len(messages_api.requests) == 4


def test_a_journal_goes_on_with_the_model_that_it_began_with(messages_api: MessagesApi, tmp_path: Path) -> None:
    answer_with(messages_api, echo)
    journal = tmp_path / "rows.jsonl"
    agent.map("{item}", ["a"], journal=journal, model="claude-haiku-4-5")
    again = agent.map("{item}", ["a", "b"], journal=journal)  # with none named, and another one in the settings
    assert (list(again), again.problems) == (["<a>", "<b>"], ())
    assert [request.body["model"] for request in messages_api.requests] == ["claude-haiku-4-5"] * 2
    agent.map("{item}", ["a"], journal=journal, model="claude-sonnet-4-5")
    assert messages_api.requests[-1].body["model"].startswith("claude-sonnet-4-5")
    agent.map("{item}", ["c"], journal=journal)
    assert messages_api.requests[-1].body["model"] == "claude-haiku-4-5"


def test_an_answer_that_its_type_takes_no_more_is_asked_for_again(messages_api: MessagesApi, tmp_path: Path) -> None:
    answer_with(messages_api, lambda _: Reply(ToolUse("answer", {"answer": 5})))
    journal = tmp_path / "rows.jsonl"
    assert list(agent.map("{item}", ["a"], result=int, journal=journal)) == [5]
    lines = journal.read_text().replace('"value":5', '"value":"five"')
    journal.write_text(lines)
    assert list(agent.map("{item}", ["a"], result=int, journal=journal)) == [5]
    assert len(messages_api.requests) == 2


def test_the_budget_is_not_passed_by_more_than_a_request_of_each_worker(messages_api: MessagesApi) -> None:
    usage = {"input_tokens": 100_000}  # more than was reserved: $0.1 for each
    answer_with(messages_api, lambda _: Reply("ok", usage=usage, at_once=True))
    done = agent.map("{item}", range(60), parallel=4, max_cost=1.0)
    assert 0.9 < done.cost <= 1.0 + 4 * 0.11
    assert len(messages_api.requests) == 60 - len(done.failed) < 20
    sentence = str(done.rows[-1].error)
    assert sentence.startswith("The budget of $1 has no room")
    assert done.retry(max_cost=100).failed == []
    assert len(messages_api.requests) == 60


def test_a_reservation_is_no_larger_than_the_longest_answer_that_was_allowed(messages_api: MessagesApi) -> None:
    answer_with(messages_api, echo)
    # Of $0.01 the model's own limit of output could not be paid once.
    done = agent.map("{item}", ["a", "b"], max_cost=0.01, max_tokens=100)
    assert done.failed == []
    assert {request.body["max_tokens"] for request in messages_api.requests} == {100}


def test_all_rows_wait_when_one_is_told_to(messages_api: MessagesApi) -> None:
    refused = threading.Event()

    def answer(request: Recorded) -> Reply | HttpError:
        if not refused.is_set():
            refused.set()
            return HttpError(429, "rate_limit_error", "Slow down", headers={"retry-after": "50"})
        return echo(request)

    answer_with(messages_api, answer)
    done: list[Answers] = []

    async def mapping() -> None:
        task = asyncio.ensure_future(agent.map_async("{item}", ["a", "b", "c"], parallel=1))
        while not (await asyncio.sleep(0.05)) and len(messages_api.requests) < 1:
            pass
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            done.append(await task)

    asyncio.run(mapping())
    assert (done, len(messages_api.requests)) == ([], 1)


def test_a_row_that_is_refused_again_waits_little_longer_at_first_and_as_long_in_all_as_one_that_fails() -> None:
    def waits(reason: str) -> list[int | None]:
        wire = {"content": [], "api": "", "provider": "", "model": "", "stopReason": "error", "errorMessage": reason}
        policy = RowRetry(max_retries=8, base_delay_ms=500)
        return [policy.delay_ms(AssistantMessage.from_wire(wire), attempt) for attempt in range(1, 10)]

    assert waits("429 Too many requests") == [500, 500, 500, 1000, 2000, 4000, 8000, 16_000, None]
    assert waits("429 Too many requests (retry after 1.5 s)") == [1500] * 8 + [None]
    assert waits("429 Too many requests (retry after 61 s)") == [61_000] * 8 + [None]
    assert waits("429 Too many requests (retry after 3600 s)") == [3_600_000] * 8 + [None]
    assert waits("429 Too many requests (retry after 3601 s)") == [None] * 9
    assert waits("500 Internal server error") == [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, None]


def test_a_server_that_asks_for_days_stops_the_row_that_it_refused_and_no_other(messages_api: MessagesApi) -> None:
    slow_down = HttpError(429, "rate_limit_error", "Slow down", headers={"retry-after": "31536000"})
    answer_with(messages_api, lambda request: slow_down if asked(request) == "a" else echo(request))
    done = agent.map("{item}", ["a", "b", "c"], parallel=1)
    assert list(done) == [None, "<b>", "<c>"]
    error = str(done.rows[0].error)
    assert "retry after 31536000 s" in error
    assert error.startswith("The server asks for a longer wait than the 1.0 h that rows take. 429 ")
    assert len(messages_api.requests) == 3


def test_the_line_of_the_last_rows_says_why_they_wait_and_not_how_long(messages_api: MessagesApi) -> None:
    gate, seen = Gate(), list[str]()
    slow_down = HttpError(529, "overloaded_error", "Overloaded", headers={"retry-after": "50"})

    def answer(request: Recorded) -> Reply | HttpError:
        if asked(request) == "quick":
            return Reply(Text("", gate, "ok"))
        gate.reached.wait()  # else the other row would not begin
        return slow_down

    answer_with(messages_api, answer)
    data = ["quick", "refused"]
    mapped = Map(data, question("{item}", table_of(data), session=SessionOptions(), directory=Path("rows")))

    class Seen(Reporter):
        def show(self, progress: Progress) -> None:
            if progress.failure:
                gate.open()
            if progress.done and not progress.stopping:
                seen.append(str(progress))
                mapped.work.stop()

    assert list(mapped.here(Seen())) == ["ok", None]
    assert seen[0].startswith("1 of 2 rows")
    assert "asking again after: 529 overloaded_error" in seen[0]
    assert " left" not in seen[0]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C reaches this process, which a shell that started it in the background has switched off."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_keeps_what_is_done_and_lets_what_was_asked_end(messages_api: MessagesApi) -> None:
    gate = Gate()

    def answer(request: Recorded) -> Reply:
        if asked(request) in ("2", "3"):
            return Reply(Text("late ", gate, asked(request)))
        return echo(request)

    answer_with(messages_api, answer)

    def interrupt() -> None:
        import _thread

        messages_api.wait_for_requests(4)
        gate.reached.wait()
        _thread.interrupt_main()
        opening.start()

    opening = threading.Timer(0.5, gate.open)
    threading.Thread(target=interrupt).start()
    done = interrupted(lambda: agent.map("{item}", range(50), parallel=2))
    opening.join()
    assert list(done)[:4] == ["<0>", "<1>", "late 2", "late 3"]
    assert list(done)[4:] == [None] * 46
    assert {row.error for row in done.rows} == {None}
    assert len(done.failed) == 46


def test_what_cannot_be_asked_is_said_before_anything_is(
    messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"names \{b\}"):
        agent.map("{b}", [{"a": 1}])
    with pytest.raises(UsageError, match="parallel"):
        agent.map("{a}", [{"a": 1}], parallel=0)
    with pytest.raises(UsageError, match="Unknown tool: telescope"):
        agent.map("{a}", [{"a": 1}], tools=["telescope"])
    (tmp_path / "text").write_text("no journal\n")
    with pytest.raises(UsageError, match="no journal"):
        agent.map("{a}", [{"a": 1}], journal=tmp_path / "text")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(CredentialsError):
        agent.map("{a}", [{"a": 1}], provider="anthropic")
    assert messages_api.requests == []


def test_the_thinking_level_may_stand_behind_the_model(messages_api: MessagesApi) -> None:
    answer_with(messages_api, echo)
    agent.map("{item}", ["a"], model="claude-haiku-4-5:low")
    agent.map("{item}", ["a"], model="claude-haiku-4-5")
    assert ["budget_tokens" in json.dumps(request.body) for request in messages_api.requests] == [True, False]


def test_no_rows_are_no_mistake() -> None:
    done = agent.map("hello", [])
    assert (list(done), done.failed, done.frame.shape[0], done.cost) == ([], [], 0, 0)


def test_inside_a_running_loop_map_works_as_well(messages_api: MessagesApi) -> None:
    answer_with(messages_api, echo)

    async def cell() -> Answers:
        return agent.map("{item}", ["a"])

    assert list(asyncio.run(cell())) == ["<a>"]


def test_a_validator_that_fails_ends_its_row_alone(messages_api: MessagesApi) -> None:
    class Odd:
        name = "odd"
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}  # noqa: RUF012

        def read(self, value: Any) -> int:
            return 1 // value["n"]

        def to_json(self, value: int) -> int:
            return 1 // value

    answer_with(messages_api, lambda request: Reply(ToolUse("answer", {"n": int(asked(request))})))
    done = agent.map("{item}", [1, 2, 1], result=Odd())
    assert done.failed == [1]
    assert "ZeroDivisionError" in str(done.rows[1].error)


def test_the_definitions_are_those_that_sessions_look_at() -> None:
    from indus_nb.extend.definitions import agent as below

    @agent.tool
    def spoon() -> str:
        """Bend it."""
        return ""

    assert isinstance(agent, Agent)
    assert "spoon" in below.tool_names
    below.forget(["spoon"])
    assert "spoon" not in agent.tool_names


def test_records_need_no_pandas(messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(messages_api, echo)
    done = agent.map("{a}", [{"a": "x"}])
    assert done.records[0] | {"session": ""} == {"a": "x", "answer": "<x>", "error": None, "session": ""}
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(IndusError, match="records"):
        _ = done.frame


def test_rows_whose_sessions_cannot_be_saved_have_their_answers_and_that_is_said_once(
    messages_api: MessagesApi, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "a file").write_text("")
    monkeypatch.setenv("INDUS_NB_SESSION_DIR", str(home / "a file"))  # where rows have them, as others do
    messages_api.default = Reply("ok", at_once=True)
    done = agent.map("{item}", range(3))
    assert [*done] == ["ok"] * 3
    assert [row.session for row in done.rows] == [None] * 3
    (told,) = done.problems
    assert told.startswith("3 rows have no session file: ")
    assert "Not a directory" in told
