"""Sessions that are compacted: what the model that summarises is asked, and what becomes of each of its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from messages_api import Cut, Gate, HttpError, MessagesApi, Recorded, Reply, Text, Thinking, ToolUse

from indus_nb import AgentSession, SessionOptions, open_session
from indus_nb.base.errors import CompactionError, SessionFileError
from indus_nb.base.events import CompactionEnd, SessionEvent
from indus_nb.core.resources.settings import CompactionSettings

LONG = "word " * 200
LAST_TURN = 256
"""Tokens to keep, so that it is the last turn of ``talk``, and no part of another."""
Open = Callable[..., AgentSession]


@pytest.fixture
def open_(home: Path) -> Iterator[Open]:
    opened: list[AgentSession] = []

    def open_one(**options: Any) -> AgentSession:
        options = {"model": "claude-haiku-4-5", "thinking": "off", "cwd": home / "work", "no_session": True} | options
        session = open_session(SessionOptions(**options))
        session.settings.compaction.keep_recent_tokens = 100
        session.settings.retry.base_delay_ms = 1
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.close()


@pytest.fixture
def session(open_: Open) -> AgentSession:
    return open_()


async def talk(session: AgentSession, api: MessagesApi, *texts: str) -> None:
    """Have each of the texts answered at length."""
    for text in texts:
        api.add(Reply(f"Answer to {text}. {LONG}"))
        await session.prompt(text)


def asked(request: Recorded) -> str:
    """What a model that writes a summary is asked."""
    (text,) = request.texts
    return text


def is_for_a_head(request: Recorded) -> bool:
    return "beginning of one long turn" in asked(request)


def told(session: AgentSession) -> list[SessionEvent]:
    events: list[SessionEvent] = []
    session.subscribe(lambda event: events.append(event) if event.type.startswith("compaction") else None)
    return events


def state(session: AgentSession) -> tuple[object, ...]:
    """What a compaction that does not come about leaves as it was."""
    return [*session.messages], [entry.id for entry in session.store.entries], session.store.leaf_id


async def test_what_is_summarised_is_shown_as_text_without_tools(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    (session.store.cwd / "note.txt").write_text("x" * 4999 + "!")
    messages_api.add(Reply(Thinking("It wants me to read."), "I read.", ToolUse("read", {"path": "note.txt"})), "Done.")
    await session.prompt("Read it")
    await talk(session, messages_api, "second")
    messages_api.add("What was read.")
    session.settings.compaction.keep_recent_tokens = LAST_TURN
    await session.compact("the file")
    (request,) = messages_api.requests[3:]
    assert "tools" not in request.body
    assert "You write summaries" in json.dumps(request.body["system"])
    text = asked(request)
    assert text.startswith("<conversation>\n[User]: Read it\n\n[Assistant thinking]: It wants me to read.\n\n")
    assert '[Assistant]: I read.\n\n[Assistant tool calls]: read(path="note.txt")\n\n[Tool result]: xxx' in text
    assert "x\n[... 3000 characters are left out ...]\nx" in text
    assert "x!\n\n[Assistant]: Done.\n</conversation>\n\n" in text
    assert "## Variables" not in text
    assert "<previous-summary>" not in text
    assert text.endswith("\n\nPay special attention to this: the file")


async def test_after_code_in_the_kernel_the_summary_and_those_that_follow_name_variables(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply(ToolUse("python", {"code": "rows = load()"})), "Done.")  # fails here, for there is no kernel
    await session.prompt("Load it")
    await talk(session, messages_api, "second")
    messages_api.add("## Variables\n- `rows`", Reply(ToolUse("python", {"code": "rows"})), f"A. {LONG}", "## Variables")
    session.settings.compaction.keep_recent_tokens = LAST_TURN
    await session.compact()
    assert "\n## Variables\n- `name` in the user's kernel" in asked(messages_api.requests[-1])
    await session.prompt("third")
    session.settings.compaction.keep_recent_tokens = 10
    messages_api.default = Reply("Short.")
    await session.compact()
    assert any(
        "- `name` in the user's kernel" in text for request in messages_api.requests[-2:] for text in request.texts
    )


async def test_a_conversation_is_shown_as_far_as_the_model_has_room_with_both_ends(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    for number in range(6):
        messages_api.add(f"Answer {number}: " + f"{number} " * 3000)
        await session.prompt(f"prompt {number}")
    session.state.model = session.models.required.replace(context_window=8000)
    session.settings.compaction.keep_recent_tokens = 10
    messages_api.default = Reply("A summary.")
    await session.compact()
    texts = [asked(request) for request in messages_api.requests[6:]]
    assert all(len(text) <= 2.5 * 8000 for text in texts)
    (history,) = [text for text in texts if "## Goal" in text]
    assert "[User]: prompt 0\n\n[Assistant]: Answer 0" in history
    assert "characters of the conversation are left out" in history
    assert history.partition("</conversation>")[0].rstrip().endswith("4 4 4")


async def test_a_turn_that_is_cut_has_two_summaries_each_with_its_part_of_the_reserve(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    await talk(session, messages_api, "first")
    (session.store.cwd / "note.txt").write_text("here")
    messages_api.add(Reply(ToolUse("read", {"path": "note.txt"})), f"Read. {LONG}")
    await session.prompt("A long task")
    session.settings.compaction.reserve_tokens = 1000
    messages_api.default = lambda request: "The head." if is_for_a_head(request) else "The history."
    result = await session.compact("the note")
    history, head = sorted(messages_api.requests[3:], key=is_for_a_head)
    assert all(asked(each).endswith("Pay special attention to this: the note") for each in (history, head))
    assert (history.body["max_tokens"], head.body["max_tokens"]) == (800, 500)
    assert "[User]: first" in asked(history)
    assert "A long task" not in asked(history)
    assert "[User]: A long task\n\n[Assistant tool calls]: read" in asked(head)
    assert "first" not in asked(head)
    assert result.summary == (
        "The history.\n\n---\n\n**Turn Context (split turn):**\n\nThe head.\n\n<read-files>\nnote.txt\n</read-files>"
    )
    assert [message.role for message in session.messages] == ["compactionSummary", "assistant"]


async def test_a_turn_that_is_all_there_is_has_no_earlier_history(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply(ToolUse("read", {"path": "none"})), f"No. {LONG}", "The head.")
    await session.prompt("go")
    result = await session.compact()
    assert result.summary.startswith("No earlier history.\n\n---\n\n**Turn Context (split turn):**\n\nThe head.")
    assert is_for_a_head(messages_api.requests[-1])


FAILURES: dict[str, tuple[list[Any], str]] = {
    "it is empty": ([Reply("")], "the model wrote nothing"),
    "it is blank": ([Reply(" \n ")], "the model wrote nothing"),
    "it was only thought of": ([Reply(Thinking("hm"))], "the model wrote nothing"),
    "it is a call of a tool": ([Reply(ToolUse("read", {"path": "x"}))], "the model wrote nothing"),
    "it is refused": (
        [HttpError(400, "invalid_request_error", "no such thing")],
        "400 invalid_request_error: no such thing",
    ),
    "it is too long to be read": (
        [HttpError(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")],
        "prompt is too long",
    ),
    "it breaks off again and again": ([Reply(Text("The su", Cut()))] * 4, "Summarization failed"),
}


@pytest.mark.parametrize("why", FAILURES)
async def test_without_a_summary_everything_is_as_it_was(
    session: AgentSession, messages_api: MessagesApi, why: str
) -> None:
    await talk(session, messages_api, "first", "second")
    session.settings.compaction.keep_recent_tokens = LAST_TURN
    answers, reason = FAILURES[why]
    before, events = state(session), told(session)
    messages_api.add(*answers)
    with pytest.raises(CompactionError) as caught:
        await session.compact()
    assert reason in str(caught.value)
    assert str(caught.value).endswith(". The conversation is as it was.")
    assert "what had arrived is kept" not in str(caught.value)
    assert state(session) == before
    assert [event.type for event in events] == ["compaction_start", "compaction_end"]
    end = events[-1]
    assert isinstance(end, CompactionEnd)
    assert (end.result, end.aborted, end.will_retry, end.error_message) == (None, False, False, str(caught.value))
    await talk(session, messages_api, "third")
    assert len(session.messages) == 6


@pytest.mark.parametrize("fails", ["history", "head"])
async def test_if_one_of_two_summaries_fails_the_other_is_given_up(
    session: AgentSession, messages_api: MessagesApi, fails: str
) -> None:
    await talk(session, messages_api, "first", "second")
    before, gate = state(session), Gate()

    def reply(request: Recorded) -> Any:
        if ("head" if is_for_a_head(request) else "history") != fails:
            return Reply(Text("The ", gate, "other."))
        gate.reached.wait(240)
        return HttpError(400, "invalid_request_error", "no")

    messages_api.default = reply
    with pytest.raises(CompactionError, match=r"400 .*: no"):
        await session.compact()
    other = next(each for each in messages_api.requests[2:] if is_for_a_head(each) is (fails == "history"))
    assert await asyncio.to_thread(other.disconnected.wait, 240)
    assert state(session) == before
    gate.open()


@pytest.mark.parametrize(
    ("again", "summary"),
    [
        (Reply("All of it.", final_usage={"output_tokens": 7}), "All of it."),
        (
            Reply("The beginning of", stop_reason="max_tokens"),
            "The beginning of\n\n[This summary was cut off at its limit.]",
        ),
        (Reply(""), "The begin\n\n[This summary was cut off at its limit.]"),
        (HttpError(400, "invalid_request_error", "no"), "The begin\n\n[This summary was cut off at its limit.]"),
    ],
)
async def test_a_summary_that_reaches_its_limit_is_asked_for_once_more_and_says_if_it_is_not_whole(
    again: Any, summary: str, session: AgentSession, messages_api: MessagesApi
) -> None:
    await talk(session, messages_api, "first", "second")
    session.settings.compaction.keep_recent_tokens = LAST_TURN
    messages_api.add(Reply("The begin", stop_reason="max_tokens"), again)
    result = await session.compact()
    assert result.summary == summary
    assert result.usage is not None
    assert result.usage.output == {"All of it.": 27}.get(summary, result.usage.output)
    first, second = messages_api.requests[2:]
    assert asked(second).startswith(asked(first))
    assert asked(second).endswith("Use at most 5242 words: a longer summary was cut off before its end.")


@pytest.mark.parametrize("by", ["an abort", "a cancelled task"])
async def test_one_that_is_ended_is_announced_as_ended_and_is_not_written_on(
    session: AgentSession, messages_api: MessagesApi, by: str
) -> None:
    await talk(session, messages_api, "first", "second")
    session.settings.compaction.keep_recent_tokens = LAST_TURN
    gate = Gate()
    messages_api.add(Reply(Text("The ", gate, "summary.")))
    before, events = state(session), told(session)
    task = asyncio.create_task(session.compact())
    await asyncio.to_thread(gate.reached.wait, 240)
    if by == "an abort":
        await session.abort()
        with pytest.raises(CompactionError, match="cancelled"):
            await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await asyncio.to_thread(messages_api.requests[-1].disconnected.wait, 240)
    gate.open()
    assert [event.type for event in events] == ["compaction_start", "compaction_end"]
    end = events[-1]
    assert isinstance(end, CompactionEnd)
    assert (end.result, end.aborted, end.error_message) == (None, True, None)
    assert state(session) == before
    messages_api.add("Now it is done.")
    assert (await session.compact()).summary == "Now it is done."


async def test_a_run_that_goes_on_is_ended_and_what_it_has_said_is_kept(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    await talk(session, messages_api, "first", "second")
    gate = Gate()
    messages_api.add(Reply(Text(f"Half an {LONG}", gate, "answer.")))
    messages_api.default = "The summary."
    running = asyncio.create_task(session.prompt("third"))
    await asyncio.to_thread(gate.reached.wait, 240)
    result = await session.compact()
    await asyncio.gather(running, return_exceptions=True)
    gate.open()
    assert result.summary.startswith("The summary.")
    assert not session.is_running
    answer = session.messages[-1]
    assert (answer.role, answer.stop_reason) == ("assistant", "aborted")  # type: ignore[union-attr]
    assert session.store.context().messages() == session.messages


async def test_what_it_costs_is_counted_and_stands_in_the_file(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    await talk(session, messages_api, "first", "second")
    before = session.stats()
    messages_api.default = Reply("Summary.", usage={"input_tokens": 10_000}, final_usage={"output_tokens": 500})
    await session.compact()
    after = session.stats()
    count = len(messages_api.requests) - 2
    assert after.tokens.input - before.tokens.input == count * 10_000
    assert after.tokens.output - before.tokens.output == count * 500
    assert after.cost > before.cost
    entry = session.store.entries[-1]
    assert entry.data["usage"]["output"] == count * 500


async def test_tokens_before_are_those_that_the_last_answer_counted_and_what_was_said_since(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    await talk(session, messages_api, "first")
    messages_api.add(Reply(LONG, usage={"input_tokens": 4000}, final_usage={"output_tokens": 321}))
    messages_api.default = "Summary."
    await session.prompt("second")
    await session.bash(f"echo {'x' * 395}")  # 400 characters, with the command itself some more
    result = await session.compact()
    assert 4321 + 100 <= result.tokens_before <= 4321 + 250
    usage = session.context_usage()
    assert usage is not None
    assert usage.tokens is None  # as nobody has counted what is left
    messages_api.add(Reply("Yes.", usage={"input_tokens": 50}, final_usage={"output_tokens": 5}))
    await session.prompt("third")
    assert session.context_usage() is not None
    assert session.context_usage().tokens == 55


class TestRows:
    """One compaction after another, and sessions that are opened again."""

    async def test_each_summary_is_brought_up_to_date_by_the_next(
        self, session: AgentSession, messages_api: MessagesApi
    ) -> None:
        session.settings.compaction.keep_recent_tokens = 1
        summaries = iter(["One.", "Two.", "Three."])
        for number in range(3):
            await talk(session, messages_api, f"question {number}", f"and {number}")
            before = len(messages_api.requests)
            messages_api.default = lambda request: "A head." if is_for_a_head(request) else next(summaries)
            await session.compact()
            history = next(each for each in messages_api.requests[before:] if not is_for_a_head(each))
            assert f"[User]: question {number}" in asked(history)
            assert f"question {number - 1}" not in asked(history)
            previous = [] if number == 0 else [("One.", "Two.")[number - 1]]
            assert [each in asked(history).partition("<previous-summary>")[2] for each in previous] == [True] * len(
                previous
            )
            assert ("Bring it up to date" in asked(history)) is (number > 0)
        assert session.messages[0].role == "compactionSummary"
        assert session.messages[0].summary.startswith("Three.")
        assert [message.role for message in session.messages].count("compactionSummary") == 1

    async def test_if_a_turn_alone_is_cut_the_summary_of_what_came_before_it_stands(
        self, session: AgentSession, messages_api: MessagesApi
    ) -> None:
        await talk(session, messages_api, "first", "second")
        session.settings.compaction.keep_recent_tokens = LAST_TURN
        messages_api.add("What was first.")
        await session.compact()
        await talk(session, messages_api, "third")
        session.settings.compaction.keep_recent_tokens = 2 * LAST_TURN  # the answer of the second turn is kept
        messages_api.add("The head.")
        result = await session.compact()
        assert result.summary == "What was first.\n\n---\n\n**Turn Context (split turn):**\n\nThe head."
        assert is_for_a_head(messages_api.requests[-1])
        assert "second" in asked(messages_api.requests[-1])

    async def test_a_session_that_is_opened_again_goes_on_from_its_summary(
        self, open_: Open, messages_api: MessagesApi, home: Path
    ) -> None:
        session = open_(no_session=False)
        await talk(session, messages_api, "first", "second", "third")
        session.settings.compaction.keep_recent_tokens = LAST_TURN
        messages_api.add("What was said.")
        await session.compact("the names")
        left, path = [*session.messages], session.store.path
        session.close()
        again = open_(no_session=False, session=str(path))
        assert again.messages == left
        assert again.context_usage() is not None
        assert again.context_usage().tokens is None
        with pytest.raises(CompactionError, match="just now"):
            await again.compact()
        await talk(again, messages_api, "fourth")
        first = messages_api.requests[-1].body["messages"][0]
        assert "What was said." in json.dumps(first)
        assert "first" not in json.dumps(messages_api.requests[-1].body["messages"]).replace("What was said.", "")
        again.settings.compaction.keep_recent_tokens = LAST_TURN
        messages_api.add("What was said, and more.")
        await again.compact()
        text = asked(messages_api.requests[-1])
        assert "<previous-summary>\nWhat was said.\n</previous-summary>" in text
        assert "[User]: third" in text
        assert "[User]: second" not in text

    async def test_all_that_was_said_is_there_again_before_the_compaction(
        self, session: AgentSession, messages_api: MessagesApi
    ) -> None:
        await talk(session, messages_api, "first", "second")
        before, leaf = [*session.messages], session.store.leaf_id
        assert leaf is not None
        messages_api.default = "A summary."
        await session.compact()
        assert session.messages != before
        await session.navigate(leaf)
        assert session.messages == before


class TestByItself:
    """Compactions that nobody has asked for."""

    @staticmethod
    async def filled(session: AgentSession, api: MessagesApi, tokens: int) -> None:
        """Have the last answer count so many tokens."""
        await talk(session, api, "first")
        api.add(Reply(f"Two. {LONG}", usage={"input_tokens": tokens}, final_usage={"output_tokens": 0}))
        api.default = lambda request: "A summary." if "You write" in json.dumps(request.body["system"]) else "Yes."
        await session.prompt("second")

    @pytest.mark.parametrize(("tokens", "is_done"), [(200_000 - 16_384, False), (200_000 - 16_383, True)])
    async def test_it_is_due_as_soon_as_the_reserve_is_touched(
        self, session: AgentSession, messages_api: MessagesApi, tokens: int, is_done: bool
    ) -> None:
        events = told(session)
        await self.filled(session, messages_api, tokens)
        assert bool(events) is is_done
        assert (session.messages[0].role == "compactionSummary") is is_done

    @pytest.mark.parametrize(("tokens", "is_done"), [(4_000, False), (4_001, True)])
    async def test_of_a_small_context_half_is_reserved_and_half_of_the_rest_is_kept(
        self, home: Path, open_: Open, messages_api: MessagesApi, tokens: int, is_done: bool
    ) -> None:
        small = {"providers": {"anthropic": {"models": [{"id": "small", "contextWindow": 8_000}]}}}
        (home / "agent").mkdir(exist_ok=True)
        (home / "agent" / "models.json").write_text(json.dumps(small))
        session = open_(model="anthropic/small")
        session.settings.compaction = CompactionSettings()
        await talk(session, messages_api, *(f"part {number}" for number in range(10)))
        await self.filled(session, messages_api, tokens)
        assert (session.messages[0].role == "compactionSummary") is is_done
        assert "part 9" in str(session.messages)

    async def test_it_is_not_due_again_before_an_answer_has_counted(
        self, session: AgentSession, messages_api: MessagesApi
    ) -> None:
        await self.filled(session, messages_api, 199_000)
        events = told(session)
        await session.prompt("third")
        assert events == []
        assert session.last_text == "Yes."

    async def test_it_can_be_switched_off(self, session: AgentSession, messages_api: MessagesApi) -> None:
        session.settings.compaction.enabled = False
        events = told(session)
        await self.filled(session, messages_api, 199_000)
        assert events == []

    async def test_a_long_session_is_compacted_before_it_is_asked_something_new(
        self, open_: Open, messages_api: MessagesApi
    ) -> None:
        session = open_(no_session=False)
        session.settings.compaction.enabled = False
        await self.filled(session, messages_api, 199_000)
        path = session.store.path
        session.close()
        again = open_(no_session=False, session=str(path))
        asked_before = len(messages_api.requests)
        await again.prompt("third")
        kinds = ["You write" in json.dumps(each.body["system"]) for each in messages_api.requests[asked_before:]]
        assert kinds[0]
        assert not kinds[-1]
        assert "A summary." in json.dumps(messages_api.requests[-1].body["messages"][0])

    async def test_one_that_fails_does_not_keep_the_prompt_from_being_answered(
        self, session: AgentSession, messages_api: MessagesApi
    ) -> None:
        session.settings.compaction.enabled = False
        await self.filled(session, messages_api, 199_000)
        session.settings.compaction.enabled = True
        refused = HttpError(400, "invalid_request_error", "no")
        messages_api.default = lambda request: refused if "You write" in json.dumps(request.body["system"]) else "Yes."
        events = told(session)
        await session.prompt("third")
        assert session.last_text == "Yes."
        ends = [event for event in events if isinstance(event, CompactionEnd)]
        assert ends
        assert all("invalid_request_error: no" in (end.error_message or "") for end in ends)
        assert all(end.reason == "threshold" for end in ends)


async def test_a_file_that_takes_no_summary_leaves_the_conversation_as_it_was(
    open_: Open, messages_api: MessagesApi
) -> None:
    session = open_(no_session=False)
    await talk(session, messages_api, "first", "second")
    messages_api.default = "A summary."
    before, path = [*session.messages], session.store.path
    assert path is not None
    path.unlink()
    path.mkdir()
    events = told(session)
    with pytest.raises(SessionFileError):
        await session.compact()
    assert session.messages == before
    assert not session.is_compacting
    assert [event.type for event in events] == ["compaction_start", "compaction_end"]
