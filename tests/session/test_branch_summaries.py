"""Summaries of branches that are left: what of a branch the model reads, and what is put at the new place."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from messages_api import HttpError, MessagesApi, Reply, ToolUse

from indus_nb import AgentSession, SessionOptions, open_session
from indus_nb.base.errors import CompactionError
from indus_nb.base.streaming import StreamEvent
from indus_nb.core.session.compaction import Summariser
from indus_nb.core.storage import SessionStore
from indus_nb.models import Context, Model, StreamOptions


@pytest.fixture
def session(home: Path) -> Iterator[AgentSession]:
    options = SessionOptions(model="claude-haiku-4-5", thinking="off", cwd=home / "work", no_session=True)
    with open_session(options) as session:
        session.settings.retry.base_delay_ms = 1
        yield session


async def talk(session: AgentSession, api: MessagesApi, *texts: str) -> None:
    for text in texts:
        api.add(Reply(f"Answer to {text}."))
        await session.prompt(text)


def first(session: AgentSession) -> str:
    return next(entry.id for entry in session.store.entries if entry.type == "message")


def budget(session: AgentSession, tokens: int) -> None:
    """Leave so many tokens for the branch."""
    session.settings.branch_summary.reserve_tokens = 200_000 - tokens


def read(api: MessagesApi) -> str:
    """The conversation that the model was last asked to summarise."""
    (text,) = api.requests[-1].texts
    return text.partition("<conversation>\n")[2].partition("\n</conversation>")[0]


async def test_the_summary_says_that_it_is_one_of_another_branch_and_names_its_files(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    await talk(session, messages_api, "stays")
    here = session.store.leaf_id
    assert here is not None
    messages_api.add(Reply(ToolUse("read", {"path": "note.txt"})), "Done.", "We read it.")
    await session.prompt("goes")
    left = session.store.leaf_id
    done = await session.navigate(here, summarize=True)
    assert read(messages_api) == (
        '[User]: goes\n\n[Assistant tool calls]: read(path="note.txt")\n\n[Assistant]: Done.'  # without the result
    )
    entry = done.summary_entry
    assert entry is not None
    assert entry.data["summary"] == (
        "The user explored another branch of this conversation before coming back here. What happened there:\n\n"
        "We read it.\n\n<read-files>\nnote.txt\n</read-files>"
    )
    assert (entry.data["fromId"], entry.parent_id) == (left, here)
    assert entry.data["details"] == {"readFiles": ["note.txt"], "modifiedFiles": []}
    assert entry.data["usage"]["output"] == 20
    assert messages_api.requests[-1].body["max_tokens"] == 2048
    assert [message.role for message in session.messages] == ["user", "assistant", "branchSummary"]


async def test_of_a_branch_that_is_too_long_the_newest_is_read(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    await talk(session, messages_api, "aaaa", "bbbb", "cccc")  # 1 token each, and 4 for the answer
    budget(session, 12)
    messages_api.add("The summary.")
    await session.navigate(first(session), summarize=True)
    assert read(messages_api) == (
        "[User]: bbbb\n\n[Assistant]: Answer to bbbb.\n\n[User]: cccc\n\n[Assistant]: Answer to cccc."
    )


async def test_where_nothing_of_it_fits_there_is_no_summary_and_nothing_is_asked(
    session: AgentSession, messages_api: MessagesApi
) -> None:
    await talk(session, messages_api, "aaaa")
    budget(session, 3)
    done = await session.navigate(first(session), summarize=True)
    assert (done.summary_entry, session.messages, len(messages_api.requests)) == (None, [], 1)


@pytest.mark.parametrize(("room", "is_read"), [(12, True), (5, False)])
async def test_an_earlier_summary_is_read_though_it_is_too_long_if_there_is_some_room(
    session: AgentSession, messages_api: MessagesApi, room: int, is_read: bool
) -> None:
    await talk(session, messages_api, "aaaa")
    messages_api.add(f"The earlier one. {'x' * 4000}")
    await session.navigate(first(session), summarize=True)
    await talk(session, messages_api, "bbbb")
    budget(session, room)
    messages_api.add("Both.")
    done = await session.navigate(first(session), summarize=True)
    assert done.summary_entry is not None
    assert ("[Summary]: The user explored" in read(messages_api)) is is_read
    assert "[User]: bbbb" in read(messages_api)


async def test_files_of_an_earlier_summary_are_named_again(session: AgentSession, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(ToolUse("read", {"path": "a.py"}), ToolUse("read", {"path": "b.py"})), "Done.", "Sum.")
    await session.prompt("go")
    await session.navigate(first(session), summarize=True)
    messages_api.add(Reply(ToolUse("write", {"path": "b.py", "content": "x"})), "Done.", "Both.")
    await session.prompt("again")
    done = await session.navigate(first(session), summarize=True)
    assert done.summary_entry is not None
    assert done.summary_entry.data["details"] == {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}


@pytest.mark.parametrize(
    ("wish", "has_own", "has_usual"),
    [
        ({}, False, True),
        ({"instructions": "be kind"}, True, True),
        ({"instructions": "be kind", "replace_instructions": True}, True, False),
        ({"replace_instructions": True}, False, True),
    ],
)
async def test_instructions_are_added_or_stand_for_the_usual_ones(
    session: AgentSession, messages_api: MessagesApi, wish: dict[str, Any], has_own: bool, has_usual: bool
) -> None:
    await talk(session, messages_api, "aaaa")
    messages_api.add("The summary.")
    await session.navigate(first(session), summarize=True, **wish)
    (text,) = messages_api.requests[-1].texts
    own = "be kind" if wish.get("replace_instructions") else "\n\nPay special attention to this: be kind"
    assert text.endswith(own) is has_own
    assert ("This branch of the conversation was left" in text) is has_usual
    assert ("## Next steps" in text) is has_usual


@pytest.mark.parametrize("answer", [Reply(" "), HttpError(400, "invalid_request_error", "no")])
async def test_without_a_summary_one_stays_where_one_was(
    session: AgentSession, messages_api: MessagesApi, answer: Any
) -> None:
    await talk(session, messages_api, "aaaa", "bbbb")
    before, leaf = [*session.messages], session.store.leaf_id
    messages_api.add(answer)
    with pytest.raises(CompactionError, match="The conversation is as it was"):
        await session.navigate(first(session), summarize=True)
    assert (session.messages, session.store.leaf_id) == (before, leaf)
    assert not any(entry.type == "branch_summary" for entry in session.store.entries)


class Silent:
    """A provider that ends its answers without saying how they went."""

    async def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[StreamEvent]:
        for event in ():
            yield event


async def test_a_provider_that_ends_its_answer_without_an_end_is_named(session: AgentSession) -> None:
    model = session.model
    assert model is not None
    summariser = Summariser(model, Silent(), lambda _: StreamOptions())  # pyright: ignore[reportArgumentType]
    store = SessionStore.in_memory(session.store.cwd)
    store.append("branch_summary", summary="earlier", from_id="root")
    with pytest.raises(CompactionError, match="provider anthropic ended its answer without saying how it went"):
        await summariser.summarise_branch(store.branch(), session.settings.branch_summary)
