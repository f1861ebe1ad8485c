"""What of a conversation becomes a summary: where it is cut, what the model that writes it reads, what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indus_nb.base.errors import CompactionError
from indus_nb.base.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from indus_nb.core.resources.settings import CompactionSettings
from indus_nb.core.session.compaction import (
    FileNames,
    Preparation,
    context_tokens,
    estimated_tokens,
    is_good_answer,
    prepare,
)
from indus_nb.core.storage import SessionStore

PNG = ImageContent(data="iVBORw0KGgo=", mime_type="image/png")


def user(text: str) -> UserMessage:
    return UserMessage(content=text, timestamp=1)


def answer(text: str = "", *calls: str, usage: int = 0, stop_reason: str = "stop", path: str = "a.py") -> Message:
    """An answer with calls of the tools of these names, which are named after their place."""
    blocks = [{"type": "text", "text": text}] if text else []
    named = [
        {"type": "toolCall", "id": f"{name}-{number}", "name": name, "arguments": {"path": path}}
        for number, name in enumerate(calls)
    ]
    fixed = {"api": "anthropic-messages", "provider": "anthropic", "model": "m", "timestamp": 2}
    counted = {"input": usage, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": usage}
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0.0)
    return AssistantMessage.from_wire(
        {**fixed, "content": [*blocks, *named], "usage": {**counted, "cost": cost}, "stopReason": stop_reason}
    )


def result(call: str, text: str = "ok") -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call,
        tool_name=call.partition("-")[0],
        content=[TextContent(text=text)],
        is_error=False,
        timestamp=3,
    )


def stored(folder: Path, messages: Sequence[Message]) -> SessionStore:
    store = SessionStore.in_memory(folder)
    for message in messages:
        store.append_message(message)
    return store


def prepared(store: SessionStore, keep: int, tokens: int = 7) -> Preparation:
    return prepare(store.branch(), CompactionSettings(keep_recent_tokens=keep), tokens)


def kept(store: SessionStore, preparation: Preparation) -> list[Message]:
    """The messages that go on word for word."""
    ids = [entry.id for entry in store.branch()]
    rest = store.branch()[ids.index(preparation.first_kept_entry_id) :]
    return [entry.message for entry in rest if entry.message is not None]


WORDS = "w" * 40
"""Ten tokens."""


def test_the_newest_messages_are_kept_and_all_before_them_is_summarised(tmp_path: Path) -> None:
    said = [user(WORDS), answer(WORDS), user(WORDS), answer(WORDS), user(WORDS), answer(WORDS)]
    store = stored(tmp_path, said)
    found = prepared(store, 20, tokens=99)
    assert (found.history, found.turn_head, kept(store, found)) == (said[:4], [], said[4:])
    assert (found.tokens_before, found.previous_summary) == (99, None)


@pytest.mark.parametrize(("keep", "count"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (59, 6)])
def test_at_least_as_many_tokens_are_kept_as_the_setting_says(tmp_path: Path, keep: int, count: int) -> None:
    said = [user(WORDS), *[each for _ in range(3) for each in (user(WORDS), answer(WORDS))]]
    store = stored(tmp_path, said)
    assert kept(store, prepared(store, keep)) == said[-count:]


def test_a_turn_that_is_cut_in_two_has_its_beginning_apart_from_what_came_before_it(tmp_path: Path) -> None:
    before = [user("first"), answer(WORDS)]
    head = [user("a long task"), answer(WORDS, "read"), result("read-0", WORDS)]
    tail = [answer(WORDS, "write"), result("write-0", WORDS), answer("done")]
    store = stored(tmp_path, [*before, *head, *tail])
    found = prepared(store, 20)
    assert (found.history, found.turn_head, kept(store, found)) == (before, head, tail)


@pytest.mark.parametrize(
    "beginning",
    [
        user("go"),
        BashExecutionMessage(command="ls", output="a", exit_code=0, cancelled=False, truncated=False),
        CustomMessage(custom_type="note", content="go", display=True),
        BranchSummaryMessage(summary="tried", from_id="x", timestamp=1),
    ],
)
def test_a_turn_begins_with_whatever_the_model_answers(tmp_path: Path, beginning: Message) -> None:
    store = SessionStore.in_memory(tmp_path)
    if isinstance(beginning, BranchSummaryMessage):
        store.append("branch_summary", summary=beginning.summary, from_id="x")
    else:
        store.append_message(beginning)
    for message in (answer(WORDS, "read"), result("read-0"), answer(WORDS)):
        store.append_message(message)
    found = prepared(store, 10)
    assert (found.history, [message.role for message in found.turn_head]) == (
        [],
        [beginning.role, "assistant", "toolResult"],
    )


def test_a_result_is_kept_with_its_call_however_long_it_is(tmp_path: Path) -> None:
    said = [user("go"), answer("", "read"), result("read-0", WORDS * 100), answer("done")]
    store = stored(tmp_path, said)
    assert kept(store, prepared(store, 5)) == said[3:]
    said = [user("go"), answer("", "read", "read"), result("read-0"), result("read-1", WORDS * 100)]
    store = stored(tmp_path, said)
    assert kept(store, prepared(store, 5)) == said[1:]


TURNS = st.lists(
    st.tuples(
        st.sampled_from(["user", "bash", "custom"]),
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400)), max_size=4),
    ),
    min_size=1,
    max_size=6,
)


@given(turns=TURNS, keep=st.integers(0, 300), labels=st.booleans(), again=st.booleans())
def test_no_conversation_is_cut_between_a_call_and_its_result_and_none_of_it_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
    turns: list[tuple[str, list[tuple[int, int]]]],
    keep: int,
    labels: bool,
    again: bool,
) -> None:
    store = SessionStore.in_memory(tmp_path_factory.getbasetemp())
    said: list[Message] = []

    def say(message: Message) -> None:
        said.append(message)
        entry = store.append_message(message)
        if labels:
            store.append("label", target_id=entry, label="here")

    for kind, steps in turns:
        begins = {
            "user": user(WORDS),
            "bash": BashExecutionMessage(command="ls", output=WORDS, exit_code=0, cancelled=False, truncated=False),
            "custom": CustomMessage(custom_type="note", content=WORDS, display=True),
        }
        say(begins[kind])
        for calls, length in steps:
            say(answer("x" * length, *["read"] * calls))
            for number in range(calls):
                say(result(f"read-{number}", "y" * length))
    try:
        found = prepared(store, keep)
    except CompactionError:
        return
    rest = kept(store, found)
    assert [*found.history, *found.turn_head, *rest] == said
    assert not isinstance(rest[0], ToolResultMessage)
    assert not found.turn_head or found.turn_head[0].role != "assistant"
    if again:  # what was kept then is summarised or kept by the next compaction
        store.append("compaction", summary="s", firstKeptEntryId=found.first_kept_entry_id, tokensBefore=1)
        say(user(WORDS))
        later = prepared(store, 1)
        assert later.previous_summary == "s"
        assert [*later.history, *later.turn_head, said[-1]] == [*rest, said[-1]]


def test_what_is_no_message_stays_with_the_message_behind_it(tmp_path: Path) -> None:
    store = stored(tmp_path, [user(WORDS), answer(WORDS)])
    label = store.append("custom", custom_type="state", data={})
    store.append_message(user(WORDS))
    assert prepared(store, 10).first_kept_entry_id == label


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([], "nobody has said anything"),
        ([user(WORDS), answer(WORDS)], "as recent as what is kept word for word \\(1000 tokens"),
    ],
)
def test_where_nothing_can_be_summarised_the_reason_is_said(tmp_path: Path, said: list[Message], reason: str) -> None:
    with pytest.raises(CompactionError, match=reason):
        prepared(stored(tmp_path, said), 1000)


class TestAgain:
    """Compactions of a conversation that has been compacted before."""

    @staticmethod
    def compacted(folder: Path, **fields: object) -> tuple[SessionStore, list[Message]]:
        """A conversation whose first question is in the summary, and what has been said since."""
        store = stored(folder, [user("old"), answer("old answer")])
        said = [user(WORDS), answer(WORDS)]
        first = store.append_message(said[0])
        store.append_message(said[1])
        store.append("compaction", summary="What was old.", firstKeptEntryId=first, tokensBefore=9, **fields)
        return store, said

    def test_nothing_new_is_no_reason_for_another_one(self, tmp_path: Path) -> None:
        store, _ = self.compacted(tmp_path)
        with pytest.raises(CompactionError, match="just now"):
            prepared(store, 1)

    def test_the_summary_stands_for_what_came_before_and_what_it_kept_is_summarised(self, tmp_path: Path) -> None:
        store, said = self.compacted(tmp_path)
        new = [user(WORDS), answer(WORDS)]
        for message in new:
            store.append_message(message)
        found = prepared(store, 20)
        assert found.previous_summary == "What was old."
        assert (found.history, found.turn_head, kept(store, found)) == (said, [], new)

    def test_one_that_kept_nothing_has_only_what_came_after_it_summarised(self, tmp_path: Path) -> None:
        store = stored(tmp_path, [user("old")])
        store.append("compaction", summary="All.", firstKeptEntryId="00000000", tokensBefore=9)
        new = [user(WORDS), answer(WORDS), user(WORDS)]
        for message in new:
            store.append_message(message)
        found = prepared(store, 10)
        assert (found.history, found.previous_summary, kept(store, found)) == (new[:2], "All.", new[2:])

    def test_a_turn_that_an_earlier_one_has_cut_is_not_taken_for_a_new_turn(self, tmp_path: Path) -> None:
        store = stored(tmp_path, [user("task")])
        steps = [answer(WORDS, "read"), result("read-0", WORDS), answer(WORDS, "read"), result("read-0", WORDS)]
        ids = [store.append_message(message) for message in steps]
        store.append("compaction", summary="The task.", firstKeptEntryId=ids[0], tokensBefore=9)
        store.append_message(answer(WORDS))
        found = prepared(store, 30)
        assert (found.history, found.turn_head) == (steps[:2], [])

    def test_a_long_summary_is_not_what_goes_on_word_for_word(self, tmp_path: Path) -> None:
        store = stored(tmp_path, [user("old")])
        kept_then = store.append_message(user("kept"))
        store.append("compaction", summary=WORDS * 10, firstKeptEntryId=kept_then, tokensBefore=9)
        new = store.append_message(user(WORDS))
        assert prepared(store, 20).first_kept_entry_id == new

    def test_files_that_an_earlier_one_named_are_named_still(self, tmp_path: Path) -> None:
        named = {"readFiles": ["a.py", "b.py"], "modifiedFiles": ["c.py"]}
        store, _ = self.compacted(tmp_path, details=named)
        for message in (answer("", "edit", path="b.py"), result("edit-0"), user(WORDS)):
            store.append_message(message)
        assert prepared(store, 1).files.details() == {"readFiles": ["a.py"], "modifiedFiles": ["b.py", "c.py"]}

    @pytest.mark.parametrize("mark", ["fromHook", "fromExtension"])
    def test_what_an_extension_has_put_there_is_not_taken_for_files(self, tmp_path: Path, mark: str) -> None:
        store, _ = self.compacted(tmp_path, details={"readFiles": ["a.py"]}, **{mark: True})
        store.append_message(user(WORDS))
        assert prepared(store, 1).files.details() == {"readFiles": [], "modifiedFiles": []}

    @pytest.mark.parametrize("details", [None, 5, [], {"readFiles": 7}, {"readFiles": [7, None]}])
    def test_details_of_another_program_are_passed_by(self, tmp_path: Path, details: object) -> None:
        store, _ = self.compacted(tmp_path, details=details)
        store.append_message(user(WORDS))
        assert prepared(store, 1).files.blocks() == ""


class TestTokens:
    """How long a conversation is taken to be."""

    @pytest.mark.parametrize(
        ("message", "tokens"),
        [
            (user("w" * 9), 3),
            (user(""), 0),
            (UserMessage(content=[TextContent(text="w" * 8), PNG], timestamp=1), 2),
            (answer("w" * 4, "read"), 6),  # the name of the tool, and what it is given
            (result("read-0", "w" * 8), 2),
            (
                ToolResultMessage(tool_call_id="1", tool_name="read", content=[PNG, PNG], is_error=False, timestamp=3),
                2400,
            ),
            (BashExecutionMessage(command="w" * 4, output="w" * 8, exit_code=0, cancelled=False, truncated=False), 3),
            (CustomMessage(custom_type="note", content="w" * 8, display=True), 2),
            (CustomMessage(custom_type="note", content=[TextContent(text="w" * 8), PNG], display=True), 1202),
            (BranchSummaryMessage(summary="w" * 8, from_id="x", timestamp=1), 2),
            (CompactionSummaryMessage(summary="w" * 8, tokens_before=1, timestamp=1), 2),
        ],
    )
    def test_four_characters_are_one_token_and_an_image_of_a_tool_is_1200(self, message: Message, tokens: int) -> None:
        assert estimated_tokens(message) == tokens

    def test_the_last_good_answer_has_counted_what_came_before_it(self) -> None:
        newest_first = [user(WORDS), answer("no", usage=9, stop_reason="error"), answer("yes", usage=500), user(WORDS)]
        assert context_tokens(newest_first) == (500, 10 + 1)
        assert context_tokens(newest_first).total == 511

    def test_without_a_count_all_of_it_is_estimated(self) -> None:
        assert context_tokens([answer("four"), user(WORDS)]) == (0, 1 + 10)
        assert context_tokens([]) == (0, 0)

    def test_an_answer_that_counted_parts_alone_has_counted_their_sum(self) -> None:
        message = answer("x")
        assert isinstance(message, AssistantMessage)
        message.usage = Usage(input=1, output=20, cache_read=300, cache_write=4000)
        assert context_tokens([message]) == (4321, 0)

    @pytest.mark.parametrize(
        ("reason", "good"), [("stop", True), ("length", True), ("error", False), ("aborted", False)]
    )
    def test_an_answer_that_failed_or_was_aborted_is_not_a_good_one(self, reason: str, good: bool) -> None:
        assert is_good_answer(answer("x", stop_reason=reason)) is good
        assert not is_good_answer(user("x"))


def test_files_are_named_once_each_and_those_that_were_changed_only_as_such() -> None:
    calls = [
        answer("", "read", path="a.py"),
        answer("", "read", path="b.py"),
        answer("", "write", "read", path="a.py"),
        answer("", "edit", path="c.py"),
        answer("", "bash", path="d.py"),
        user("read e.py"),
    ]
    files = FileNames.of(calls)
    assert files.details() == {"readFiles": ["b.py"], "modifiedFiles": ["a.py", "c.py"]}
    assert files.blocks() == (
        "\n\n<read-files>\nb.py\n</read-files>\n\n<modified-files>\na.py\nc.py\n</modified-files>"
    )
    assert FileNames.of([answer("", "read", path="b.py")]).blocks() == "\n\n<read-files>\nb.py\n</read-files>"
    assert FileNames().blocks() == ""
