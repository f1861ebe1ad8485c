"""Rows that have ended leave nothing that only the garbage collector could free."""

from __future__ import annotations

import gc

import pytest
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb import agent
from indus_nb.core.loop import Run
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage import SessionStore

pytestmark = pytest.mark.usefixtures("in_work")


@pytest.mark.parametrize(
    ("result", "reply"),
    [(None, Reply("ok", at_once=True)), (int, Reply(ToolUse("answer", {"answer": 1}), at_once=True))],
    ids=["text", "typed"],
)
def test_the_session_of_a_row_is_freed_when_the_row_ends(
    messages_api: MessagesApi, result: type[int] | None, reply: Reply
) -> None:
    messages_api.default = reply
    assert not agent.map("{item}", ["imports what is needed"], result=result).failed
    gc.collect()
    gc.disable()
    try:
        before = _alive()
        assert not agent.map("Say ok to {item}", range(20), parallel=4, result=result).failed
        left = _alive() - before
    finally:
        gc.enable()
    assert left <= 3  # those of the session that the rows worked for


def _alive() -> int:
    return sum(isinstance(each, AgentSession | SessionStore | Run) for each in gc.get_objects())
