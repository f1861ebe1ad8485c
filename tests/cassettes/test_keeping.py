"""Answers that are kept: reused where everything that the model was shown is the same, and asked anew elsewhere."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from messages_api import HttpError, MessagesApi, Reply, ToolUse
from PIL import Image

from indus_nb import AgentSession, SessionOptions, open_session
from indus_nb.base.errors import RunFailedError
from indus_nb.models.cassettes.environment import environment_cassette
from indus_nb.models.cassettes.keeping import Kept


@pytest.fixture(autouse=True)
def _at_work(home: Path, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home / "work")
    (home / "agent").mkdir()
    (home / "agent/settings.json").write_text('{"defaultModel": "claude-haiku-4-5"}')
    messages_api.default = Reply("hi")


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a process that keeps its answers."""
    monkeypatch.setenv("INDUS_NB_CASSETTE", str(tmp_path / "answers.json"))
    monkeypatch.setenv("INDUS_NB_CASSETTE_MODE", "keep")
    return tmp_path / "answers.json"


@pytest.fixture(autouse=True)
def _each_begins_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield
    monkeypatch.undo()
    environment_cassette.is_replaying()  # the cassette of a test is closed with it


def opened(**options: object) -> AgentSession:
    return open_session(SessionOptions(no_session=True, tools=["read"], **options))  # type: ignore[arg-type]


def answer_by_file(api: MessagesApi) -> None:
    """Have the model read ``numbers.txt`` and repeat what it holds."""

    def reply(request: object) -> Reply:
        last = request.body["messages"][-1]["content"][-1]  # type: ignore[attr-defined]
        if last["type"] == "tool_result":
            return Reply(f"They are {last['content'][0]['text'].split(chr(10))[0]}")
        return Reply(ToolUse("read", {"path": "numbers.txt"}))

    api.default = reply  # type: ignore[assignment]


def kept() -> Kept:
    found = environment_cassette.kept
    assert found is not None
    return found


def test_an_equal_request_is_asked_once_in_any_order_and_costs_nothing_again(
    messages_api: MessagesApi, answers: Path
) -> None:
    messages_api.default = lambda request: Reply(f"to {request.body['messages'][-1]['content'][-1]['text']}")  # type: ignore[assignment]
    for prompts in (("one", "two"), ("two", "one")):
        said = []
        for prompt in prompts:
            with opened() as session:
                said.append(session.run(prompt))
                cost = session.stats().cost
        assert said == [f"to {prompt}" for prompt in prompts]
    assert len(messages_api.requests) == 2
    assert cost == 0
    assert (kept().reused, kept().asked) == (2, 2)


def test_tools_run_again_and_what_they_find_decides_whether_the_model_is_asked(
    messages_api: MessagesApi, answers: Path
) -> None:
    answer_by_file(messages_api)
    numbers = Path("numbers.txt")
    for text, asked in (("1 2 3", 2), ("1 2 3", 2), ("1 2 4", 3), ("1 2 3", 3)):
        numbers.write_text(text)
        with opened() as session:
            assert session.run("which numbers?") == f"They are {text}"
        assert len(messages_api.requests) == asked
    assert list(kept().changes) == ["a result of read changed: '1 2 3' → '1 2 4'"]


def test_lines_that_came_or_went_are_told_as_such(messages_api: MessagesApi, answers: Path) -> None:
    answer_by_file(messages_api)
    numbers = Path("numbers.txt")
    for text in ("1\n2", "1\n```\n7\n```\n2", "1"):
        numbers.write_text(text)
        with opened() as session:
            session.run("which numbers?")
    assert list(kept().changes) == [
        "a result of read changed: '``` 7 ```' is new",
        "a result of read changed: '2' is gone",
    ]


def test_another_model_or_thinking_level_is_asked_and_said(messages_api: MessagesApi, answers: Path) -> None:
    for options in (
        {"thinking": "off"},
        {"thinking": "high"},
        {"model": "claude-opus-4-5", "thinking": "off"},
        {"thinking": "off"},
    ):
        with opened(**options) as session:
            session.run("hello")
    assert len(messages_api.requests) == 3
    changes = list(kept().changes)
    assert changes[0] == "the thinking level was off and is high"
    assert "the model was" in changes[1]


def test_a_failed_answer_is_not_kept_and_says_that_none_was(messages_api: MessagesApi, answers: Path) -> None:
    messages_api.default = HttpError(400, "invalid_request_error", "no")
    with opened() as session, pytest.raises(RunFailedError, match="no answer to such a prompt is kept"):
        session.run("hello")
    assert not answers.exists()


def test_kept_answers_need_no_key(messages_api: MessagesApi, answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as session:
        before = session.run("hello")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    asked = len(messages_api.requests)
    with opened(provider="anthropic", model="claude-haiku-4-5") as session:
        assert session.run("hello") == before
        with pytest.raises(RunFailedError, match=r"^No API key for anthropic: set .* does not have this answer"):
            session.run("another 500")
    assert len(messages_api.requests) == asked


def test_two_processes_that_keep_answers_in_one_file_lose_none(messages_api: MessagesApi, answers: Path) -> None:
    with opened() as session:
        session.run("one")
    other = Kept(answers)
    assert [each.text for each in other.prompts()] == ["one"]
    with opened() as session:
        session.run("two")
    assert [each.text for each in other.prompts()] == ["one", "two"]
    assert other.drop() == 2
    with opened() as session:
        session.run("one")
    assert len(messages_api.requests) == 3
    assert [each.text for each in kept().prompts()] == ["one"]


def test_what_is_kept_is_a_cassette_of_the_users_own_without_keys(answers: Path) -> None:
    with opened(api_key="a-key-of-mine-1234567") as session:
        session.run("is a-key-of-mine-1234567 my key?")
    assert json.loads(answers.read_text())["format"] == "indus_nb cassette"
    assert "a-key-of-mine" not in answers.read_text()
    assert stat.S_IMODE(answers.stat().st_mode) == 0o600


def test_a_file_of_another_kind_is_left_as_it_is(messages_api: MessagesApi, answers: Path) -> None:
    answers.write_text("mine")
    with opened() as session, pytest.raises(RunFailedError, match="is no cassette, so it is left as it is"):
        session.run("hello")
    assert answers.read_text() == "mine"


def test_an_answer_that_cannot_be_written_is_given_all_the_same(
    messages_api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("INDUS_NB_CASSETTE", str(tmp_path / "file/answers.json"))
    monkeypatch.setenv("INDUS_NB_CASSETTE_MODE", "keep")
    with opened() as session:
        first = session.run("hello")
    with opened() as session:
        assert session.run("hello") == first
    assert "could not be written" in kept().changes[0]


async def test_requests_at_the_same_time_are_all_kept(messages_api: MessagesApi, answers: Path) -> None:
    async def ask(text: str) -> None:
        with opened() as session:
            await session.prompt(text)

    await asyncio.gather(*(ask(f"number {number}") for number in range(8)))
    assert len(json.loads(answers.read_text())["exchanges"]) == 8
    await asyncio.gather(*(ask(f"number {number}") for number in range(8)))
    assert len(messages_api.requests) == 8


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("last order 2024-03-05 10:00:00", "last order 2025-03-05 10:00:00"),
        ("PID: 42", "PID: 43"),
        ("/tmp/a", "/tmp/b"),
        ("total 3", "total 4"),
        ("-rw-r--r-- 1 me me 5 Mar 1 10:00 a", "-rw-r--r-- 1 me me 6 Mar 2 10:00 a"),
    ],
)
def test_results_that_a_recording_takes_for_the_same_are_others_here(
    messages_api: MessagesApi, answers: Path, first: str, second: str
) -> None:
    answer_by_file(messages_api)
    for text in (first, second):
        Path("numbers.txt").write_text(text)
        with opened() as session:
            assert session.run("which numbers?") == f"They are {text}"
    assert len(messages_api.requests) == 3


def test_another_picture_is_another_result(messages_api: MessagesApi, answers: Path) -> None:
    messages_api.default = lambda request: (  # type: ignore[assignment]
        Reply("seen")
        if any(block["type"] == "tool_result" for block in request.body["messages"][-1]["content"])
        else Reply(ToolUse("read", {"path": "plot.png"}))
    )
    for colour in ("red", "red", "blue"):
        Image.new("RGB", (8, 8), colour).save("plot.png")
        with opened() as session:
            session.run("look")
    assert len(messages_api.requests) == 3


@pytest.mark.parametrize(
    "spoil",
    [
        lambda exchange: exchange["request"]["messages"][0].update(content=[5]),
        lambda exchange: exchange["request"]["messages"][0].pop("role"),
        lambda exchange: exchange["request"].update(tools={"a": json.loads("[" * 900 + "]" * 900)}),
    ],
)
def test_a_file_that_somebody_else_has_made_is_refused_with_a_sentence(
    messages_api: MessagesApi, answers: Path, spoil: Callable[[Any], object]
) -> None:
    with opened() as session:
        session.run("hello")
    held = json.loads(answers.read_text())
    spoil(held["exchanges"][0])
    answers.write_text(json.dumps(held))
    with opened() as session, pytest.raises(RunFailedError, match=re.escape(str(answers))):
        session.run("hello")


def test_conversations_that_take_turns_share_what_is_kept_of_each(messages_api: MessagesApi, answers: Path) -> None:
    long = "x" * 5_000
    with opened() as one, opened() as other:
        for number in range(10):
            one.run(f"one {number} {long}")
            other.run(f"other {number} {long}")
    assert answers.stat().st_size < 30 * len(long)
    for each in ("one", "other"):
        with opened() as session:
            for number in range(10):
                session.run(f"{each} {number} {long}")
    assert len(messages_api.requests) == 20
