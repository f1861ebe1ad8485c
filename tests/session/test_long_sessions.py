"""Sessions of many entries: a turn costs what the model is shown, and nothing for what only lies in the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from messages_api import MessagesApi, Reply
from work import counting_work, grows_with

from indus_nb.base.messages import UserMessage
from indus_nb.core.session.conversation import Conversation
from indus_nb.core.storage.format import format_line
from indus_nb.core.storage.store import SessionStore
from indus_nb.start import SessionOptions, open_session

MOMENT = "2026-01-02T03:04:05.678Z"


def long_file(path: Path, count: int, *, compacted: bool) -> Path:
    """A session file of questions and answers; ``compacted`` leaves the last four to the model."""
    lines = [{"type": "session", "version": 3, "id": "s1", "timestamp": MOMENT, "cwd": str(path.parent)}]
    fixed = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-haiku-4-5", "stopReason": "stop"}
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0.0)
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": cost}
    for number in range(count):
        message = {"role": "user", "content": [{"type": "text", "text": f"word {number}"}], "timestamp": number}
        if number % 2:
            message |= {"role": "assistant", **fixed, "usage": usage}
        head = {"type": "message", "id": f"{number:08x}", "parentId": f"{number - 1:08x}" if number else None}
        lines.append({**head, "timestamp": MOMENT, "message": message})
    if compacted:
        head = {"type": "compaction", "id": "c", "parentId": lines[-1]["id"], "timestamp": MOMENT}
        lines.append({**head, "summary": "It was long.", "firstKeptEntryId": lines[-4]["id"], "tokensBefore": 5})
    path.write_bytes(b"".join(map(format_line, lines)))
    return path


async def work_of_a_turn(path: Path, messages_api: MessagesApi) -> int:
    with open_session(SessionOptions(session=str(path))) as session:
        for number in range(3):
            messages_api.add(Reply(f"Answer {number}."))
        for _ in range(2):  # the first prompt loads what the others find loaded
            await session.prompt("go on")
            session.stats()
        with counting_work() as work:
            await session.prompt("go on")
            assert session.stats().user_messages > 3
        assert session.last_text == "Answer 2."
        return work.lines


async def test_a_turn_after_a_compaction_costs_the_same_in_a_file_of_any_length(
    home: Path, messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    short = await work_of_a_turn(long_file(home / "short.jsonl", 500, compacted=True), messages_api)
    long = await work_of_a_turn(long_file(home / "long.jsonl", 10_000, compacted=True), messages_api)
    assert long < 1.1 * short


def test_the_work_of_sending_all_messages_is_in_proportion_to_them(tmp_path: Path) -> None:
    def send(count: int) -> None:
        store = SessionStore.read(long_file(tmp_path / f"{count}.jsonl", count, compacted=False))
        conversation = Conversation(store.context())
        before = json.loads(conversation.to_json())
        assert len(before) == len(conversation.messages) == count
        assert json.loads(conversation.to_json()) == before  # also when the messages have been read

    assert grows_with(500, send) < 2.2


def test_messages_of_the_file_are_sent_as_it_has_them_and_new_ones_behind(tmp_path: Path) -> None:
    path = long_file(tmp_path / "s.jsonl", 3, compacted=False)
    odd = {"role": "user", "content": [{"type": "text", "text": "x"}], "timestamp": 9, "unheardOf": [None]}
    head = {"type": "message", "id": "x", "parentId": "00000002", "timestamp": MOMENT}
    with path.open("ab") as file:
        file.write(format_line({**head, "message": {"role": "unheardOf"}}))
        file.write(format_line({**head, "id": "y", "parentId": "x", "message": odd}))
    conversation = Conversation(SessionStore.read(path).context())
    first = json.loads(conversation.to_json())
    assert first[3] == odd
    answer = conversation.last_answer
    assert answer is not None
    conversation.messages.append(answer)
    assert json.loads(conversation.to_json())[:4] == first
    assert len(json.loads(conversation.to_json())) == 5
    conversation.forget(answer)
    conversation.messages.pop(0)
    assert [message["timestamp"] for message in json.loads(conversation.to_json())] == [2, 9]


def test_a_message_that_was_changed_is_sent_as_it_is_now(tmp_path: Path) -> None:
    conversation = Conversation(SessionStore.read(long_file(tmp_path / "s.jsonl", 3, compacted=False)).context())
    first = conversation.messages[0]
    assert isinstance(first, UserMessage)
    first.content = "[removed]"
    assert json.loads(conversation.to_json())[0]["content"] == "[removed]"
