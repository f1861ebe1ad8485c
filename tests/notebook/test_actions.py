"""The verbs that the panel and the sub-commands share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from indus_nb.base.errors import UsageError
from indus_nb.base.messages import ImageContent, UserMessage, text_of
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook import actions
from indus_nb.start import SessionOptions, open_session


@pytest.fixture
async def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AgentSession]:
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.chdir(tmp_path)
    session = open_session(SessionOptions(provider="offline", model="offline"))
    yield session
    await session.end()


async def test_at_a_users_message_one_goes_on_before_it_and_has_its_text(session: AgentSession) -> None:
    await session.prompt("first of all")
    message = session.store.entries[-2].id
    assert await actions.navigate(session, message) == actions.Moved(done=True, text="first of all")
    await session.prompt("instead")
    before = session.store.path
    assert await actions.fork(session, message) == actions.Moved(done=True, text="first of all")
    assert session.store.path != before
    assert session.messages == []


async def test_before_a_message_without_words_one_goes_on_with_an_empty_text(session: AgentSession) -> None:
    await session.prompt("first of all")
    image = ImageContent(data="aGk=", mime_type="image/png")
    message = session.store.append_message(UserMessage(content=[image]))
    assert await actions.fork(session, message) == actions.Moved(done=True, text="")


async def test_at_an_answer_one_goes_on_behind_it(session: AgentSession) -> None:
    await session.prompt("first of all")
    answer = session.store.leaf_id
    assert answer is not None
    await session.prompt("and then")
    assert await actions.navigate(session, answer) == actions.Moved(done=True)
    assert await actions.fork(session, answer) == actions.Moved(done=True)
    assert [message.role for message in session.messages] == ["user", "assistant"]


@pytest.mark.parametrize("act", [actions.navigate, actions.fork])
async def test_an_unknown_entry_moves_nothing(
    session: AgentSession, act: Callable[..., Awaitable[actions.Moved]]
) -> None:
    await session.prompt("first of all")
    leaf = session.store.leaf_id
    with pytest.raises(UsageError, match="nowhere"):
        await act(session, "nowhere")
    assert session.store.leaf_id == leaf


async def test_what_is_queued_comes_back_steering_first(session: AgentSession) -> None:
    await session.follow_up("later")
    await session.steer("soon")
    assert [text_of(message.content) for message in await actions.clear_queue(session)] == ["soon", "later"]
    assert session.pending_count == 0


async def test_the_sessions_of_the_directory_are_those_that_began_there(session: AgentSession, tmp_path: Path) -> None:
    await session.prompt("first of all")
    assert [info.id for info in await actions.sessions_here(session.store)] == [session.store.session_id]
    unsaved = open_session(SessionOptions(provider="offline", no_session=True))
    assert await actions.sessions_here(unsaved.store) == []
    await unsaved.end()


async def test_an_export_never_takes_the_place_of_a_file(session: AgentSession, tmp_path: Path) -> None:
    await session.prompt("first of all")
    first, second = (actions.export(session.store, "page.html") for _ in range(2))
    assert (first.path, second.path) == (tmp_path / "page.html", tmp_path / "page-2.html")
    assert second.asked == first.path


async def test_a_first_prompt_with_values_names_the_conversation_as_it_was_written(session: AgentSession) -> None:
    await actions.name_by_prompt(session, "why is $sales low?", "why is sales (a frame of 3 rows) low?")
    assert session.store.name == "why is $sales low?"
    await session.prompt("why is sales (a frame of 3 rows) low?")
    await actions.name_by_prompt(session, "and $costs?", "and costs (4)?")
    assert session.store.name == "why is $sales low?"
