"""Old results that a conversation goes on without: when, which, and that later requests begin as the ones before."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from messages_api import AS_ANTHROPIC, Gate, HttpError, MessagesApi, Reply, Text, ToolUse

from indus_nb.base.messages import ToolResultMessage, text_of
from indus_nb.core.session.session import AgentSession
from indus_nb.start import SessionOptions, open_session


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass on the clock of this process."""
    real, seconds, passed = time.time_ns, time.time, [0.0]

    def pass_by(minutes: float) -> None:
        passed[0] += 60 * minutes

    monkeypatch.setattr(time, "time_ns", lambda: real() + int(passed[0] * 1e9))
    monkeypatch.setattr(time, "time", lambda: seconds() + passed[0])
    return pass_by


def opened(home: Path, tools: Sequence[str] = ("bash", "read"), **options: Any) -> AgentSession:
    (home / "agent").mkdir(exist_ok=True)
    (home / "agent/models.json").write_text(json.dumps({"providers": AS_ANTHROPIC}))
    return open_session(SessionOptions(cwd=home / "work", model="claude-sonnet-4-6", tools=[*tools], **options))


async def work(session: AgentSession, api: MessagesApi, prompts: int, calls: int = 1, tokens: int = 40_000) -> None:
    """Prompts with calls whose results have some 4,000 characters; the server counts so many tokens at the end."""
    for number in range(prompts):
        command = {"command": f"seq -f 'number %g of prompt {number}' 200"}
        for _ in range(calls):
            api.add(Reply(ToolUse("bash", command), usage={"input_tokens": tokens}))
        api.add(Reply(f"Done {number}.", usage={"input_tokens": tokens}))
        await session.prompt(f"prompt {number}")


def sent(api: MessagesApi) -> list[str]:
    """The results in the last request."""
    blocks = [block for message in api.requests[-1].body["messages"] for block in message["content"]]
    found = [block["content"] for block in blocks if isinstance(block, dict) and block["type"] == "tool_result"]
    return [content if isinstance(content, str) else content[0]["text"] for content in found]


def prefix(body: dict[str, Any]) -> list[str]:
    """The parts of a request in the order of the cache, without its marks."""
    parts = [body["tools"], body["system"], *body["messages"]]
    return [json.dumps(_without_marks(part), sort_keys=True) for part in parts]


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_marks(each) for key, each in value.items() if key != "cache_control"}
    return [*map(_without_marks, value)] if isinstance(value, list) else value


async def test_after_a_pause_old_results_are_one_line_each_and_the_latest_three_are_whole(
    home: Path, messages_api: MessagesApi, wait: Callable[[float], None]
) -> None:
    with opened(home) as session:
        await work(session, messages_api, prompts=6)
        assert not any("cleared" in text for text in sent(messages_api))
        wait(6)
        await work(session, messages_api, prompts=1)
        results = sent(messages_api)
        assert [("was cleared" in text, len(text) > 4_000) for text in results] == [(True, False)] * 3 + [
            (False, True)
        ] * 4
        assert results[0] == (
            "[This result of bash (200 lines) was cleared to save tokens. "
            "Do not repeat what changes something to see it again.]"
        )
        spoken = json.dumps(messages_api.requests[-1].body["messages"])
        assert all(f"prompt {number}" in spoken and f"Done {number}." in spoken for number in range(6))
        whole = [message for message in session.messages if isinstance(message, ToolResultMessage)]
        assert all(len(text_of(message.content)) > 4_000 for message in whole), "views keep them"


async def test_what_is_cleared_stays_cleared_in_every_request_that_follows_and_in_forks_and_reopened_sessions(
    home: Path, messages_api: MessagesApi, wait: Callable[[float], None]
) -> None:
    with opened(home) as session:
        await work(session, messages_api, prompts=6)
        wait(6)
        await work(session, messages_api, prompts=2)
        before = prefix(messages_api.requests[-1].body)
        path = session.store.path
        messages_api.add(Reply("Yes."))
        await session.prompt("still?")
        assert prefix(messages_api.requests[-1].body)[: len(before)] == before
        await session.clone()
        messages_api.add(Reply("Yes."))
        await session.prompt("in the copy?")
        assert prefix(messages_api.requests[-1].body)[: len(before)] == before
    with opened(home, session=str(path)) as session:
        messages_api.add(Reply("Yes."))
        await session.prompt("reopened?")
        assert prefix(messages_api.requests[-1].body)[: len(before)] == before


async def test_only_calls_that_change_nothing_are_to_be_made_again_and_a_file_with_the_whole_is_named(
    home: Path, messages_api: MessagesApi, wait: Callable[[float], None]
) -> None:
    (home / "work/long.txt").write_text("a line of a file\n" * 200)
    calls = [
        ToolUse("read", {"path": "long.txt"}),
        ToolUse("bash", {"command": "seq 300"}),
        ToolUse("bash", {"command": "seq 9000"}),
        ToolUse("todo", {"op": "init", "phases": [{"name": "One", "tasks": [f"Look at part {n}" for n in range(40)]}]}),
    ]
    with opened(home, tools=["bash", "read", "todo"]) as session:
        messages_api.add(*(Reply(call, usage={"input_tokens": 40_000}) for call in calls))
        messages_api.add(Reply("Done.", usage={"input_tokens": 40_000}))
        await session.prompt("look")
        await work(session, messages_api, prompts=3)
        wait(6)
        await work(session, messages_api, prompts=1)
        notes = sent(messages_api)[:4]
        path = session.store.path
    assert notes[0].endswith("was cleared to save tokens. To see it again, make the call again.]")
    assert "was cleared to save tokens. To see it again, read /" in notes[2]
    assert "call" not in notes[2]
    for index in (1, 3):
        assert notes[index].endswith(
            "was cleared to save tokens. Do not repeat what changes something to see it again.]"
        )
    with opened(home, session=str(path)) as session:
        session.set_active_tools(["bash"])
        messages_api.add(Reply("Yes."))
        await session.prompt("reopened?")
        assert sent(messages_api)[:4] == notes, "whatever tools there are now"


async def test_a_branch_from_before_the_clearing_has_everything(
    home: Path, messages_api: MessagesApi, wait: Callable[[float], None]
) -> None:
    with opened(home) as session:
        await work(session, messages_api, prompts=6)
        leaf = session.store.leaf_id
        wait(6)
        messages_api.add(Reply("Yes.", usage={"input_tokens": 20_000}))
        await session.prompt("go on")
        assert any("cleared" in text for text in sent(messages_api))
        assert leaf is not None
        await session.navigate(leaf)
        messages_api.add(Reply("Yes."))
        session.settings.tools.clear_old_results = False
        await session.prompt("from there")
        assert not any("cleared" in text for text in sent(messages_api))


@pytest.mark.parametrize(
    ("tokens", "minutes", "on"), [(20_000, 6, True), (40_000, 4, True), (40_000, 6, False), (40_000, 0, True)]
)
async def test_nothing_is_cleared_of_a_short_conversation_nor_while_it_costs_more_nor_if_it_is_off(
    home: Path, messages_api: MessagesApi, wait: Callable[[float], None], tokens: int, minutes: int, on: bool
) -> None:
    (home / "agent").mkdir(exist_ok=True)
    (home / "agent/settings.json").write_text(json.dumps({"tools": {"clearOldResults": on}}))
    with opened(home) as session:
        await work(session, messages_api, prompts=4, tokens=tokens)
        wait(minutes)
        await work(session, messages_api, prompts=1, tokens=tokens)
        assert not any("cleared" in text for text in sent(messages_api))


async def test_while_the_provider_has_the_conversation_results_are_cleared_once_that_pays(
    home: Path, messages_api: MessagesApi
) -> None:
    with opened(home) as session:
        await work(session, messages_api, prompts=8, calls=3)
        results = sent(messages_api)
        cleared = [index for index, text in enumerate(results) if "was cleared" in text]
        assert cleared == [*range(len(cleared))]
        assert 6 <= len(cleared) <= len(results) - 9, "those of the latest prompts stay"
        breaks = 0
        for earlier, later in zip(messages_api.requests, messages_api.requests[1:], strict=False):
            before = prefix(earlier.body)
            breaks += prefix(later.body)[: len(before)] != before
        assert breaks == 1, "the rest is sent anew once"


async def test_what_is_kept_for_an_hour_is_dearer_to_send_anew_and_so_cleared_later(
    home: Path, messages_api: MessagesApi
) -> None:
    cleared: dict[str, bool] = {}
    for retention in ("short", "long"):
        with opened(home, usual_cache_retention=retention) as session:
            await work(session, messages_api, prompts=4, calls=3, tokens=31_000)
            messages_api.add(*[Reply("Yes.", usage={"input_tokens": 31_000})] * 2)
            await session.prompt("x" * 34_000)  # it would be sent anew
            assert not any("was cleared" in text for text in sent(messages_api))
            await session.prompt("and now?")
            cleared[retention] = any("was cleared" in text for text in sent(messages_api))
    assert cleared == {"short": True, "long": False}


async def test_room_is_made_by_clearing_before_a_summary_is_asked_for(
    home: Path, messages_api: MessagesApi, wait: Callable[[float], None]
) -> None:
    with opened(home) as session:
        session.settings.compaction = session.settings.compaction.replace(reserve_tokens=200_000)
        model = session.model
        assert model is not None
        near = model.context_window - 200_000 - 500
        await work(session, messages_api, prompts=6, tokens=near)
        session.settings.compaction = session.settings.compaction.replace(reserve_tokens=201_000)
        wait(6)
        messages_api.add(Reply("Yes.", usage={"input_tokens": 20_000}))
        await session.prompt("go on")
        assert session.last_text == "Yes."
        assert not any(entry.type == "compaction" for entry in session.store.entries)


async def stop_an_answer(session: AgentSession, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(Text("a", gate, "b")))
    task = asyncio.ensure_future(session.prompt("go on"))
    await asyncio.to_thread(gate.reached.wait, 20)
    await session.abort()
    gate.open()
    await task


async def fail_an_answer(session: AgentSession, api: MessagesApi) -> None:
    api.add(HttpError(400, "{}"))
    await session.prompt("go on")


@pytest.mark.parametrize("fails", [stop_an_answer, fail_an_answer])
async def test_what_was_cleared_is_counted_no_more_after_answers_that_ended_early_and_in_a_reopened_session(
    home: Path,
    messages_api: MessagesApi,
    wait: Callable[[float], None],
    fails: Callable[[AgentSession, MessagesApi], Awaitable[None]],
) -> None:
    with opened(home) as session:
        await work(session, messages_api, prompts=20)
        wait(6)
        before = session.state.conversation.tokens().total
        await fails(session, messages_api)
        once = session.state.conversation.tokens().total
        assert once < before - 8_000
        path = session.store.path
    with opened(home, session=str(path)) as session:
        assert session.state.conversation.tokens().total == once
        messages_api.add(Reply("Yes.", usage={"input_tokens": 33_000}))
        await session.prompt("again")
        assert 33_000 <= session.state.conversation.tokens().total < 33_100, "the server has counted anew"


async def test_several_clearings_after_one_counted_answer_add_up(
    home: Path, messages_api: MessagesApi, wait: Callable[[float], None]
) -> None:
    nothing = {"input_tokens": 0, "output_tokens": 0}
    with opened(home) as session:
        await work(session, messages_api, prompts=20, tokens=60_000)
        wait(6)
        await fail_an_answer(session, messages_api)
        for _ in range(6):
            messages_api.add(Reply(ToolUse("bash", {"command": "seq 1000"}), usage=nothing, final_usage=nothing))
        messages_api.add(Reply("Done.", usage=nothing, final_usage=nothing))
        await session.prompt("more")
        before = session.state.conversation.tokens().total
        wait(61)
        await fail_an_answer(session, messages_api)
        entries = [entry for entry in session.store.entries if entry.data.get("customType") == "cleared-results"]
        (*_, first, second) = (entry.data["data"] for entry in entries)
        assert first["countedAt"] == second["countedAt"]
        twice = session.state.conversation.tokens().total
        assert twice < before - 5_000, "three that the server has counted, and three that are estimated"
        path = session.store.path
    with opened(home, session=str(path)) as session:
        assert session.state.conversation.tokens().total == twice


async def test_a_message_that_is_dear_because_of_a_pause_is_said_to_be_before_it_is_sent(
    home: Path, messages_api: MessagesApi, wait: Callable[[float], None]
) -> None:
    with opened(home) as session:
        assert session.clearing.notice() is None
        await work(session, messages_api, prompts=1, tokens=100_000)
        assert session.clearing.notice() is None
        wait(6)
        assert session.clearing.notice() == ("The cache has expired: this message costs about $0.60, instead of $0.03.")
        await work(session, messages_api, prompts=1, tokens=100_000)
        wait(6)
        assert session.clearing.notice() is None, "after a pause it is kept for an hour"
        wait(60)
        assert session.clearing.notice() == ("The cache has expired: this message costs about $0.60, instead of $0.03.")
        await work(session, messages_api, prompts=1, tokens=10_000)
        wait(120)
        assert session.clearing.notice() is None, "not worth a word"


async def test_an_entry_that_others_wrote_clears_only_what_it_names(home: Path, messages_api: MessagesApi) -> None:
    with opened(home) as session:
        await work(session, messages_api, prompts=2)
        (first, _) = (message for message in session.messages if isinstance(message, ToolResultMessage))
        hostile: list[Any] = [None, [], {"results": 5}, {"results": [None, [1, 2], ["x"], ["x", "y"], [[], 1]]}]
        for data in [*hostile, {"results": [[first.tool_call_id, first.timestamp], ["no such call", 1]]}]:
            session.store.append("custom", custom_type="cleared-results", data=data)
        path = session.store.path
    with opened(home, session=str(path)) as session:
        messages_api.add(Reply("Yes."))
        await session.prompt("go on")
        assert ["was cleared" in text for text in sent(messages_api)] == [True, False]
