"""A panel in the test's own process: it follows what happens to its session elsewhere, by the session's events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_page import FakePage

from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.panel.chat_panel import ChatPanel
from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.start import SessionOptions, open_session


class Shown:
    """A session, a panel on it, and the panel's page."""

    def __init__(self, session: AgentSession, thread: AgentThread) -> None:
        self.session = session
        self.thread = thread
        self.panel = ChatPanel(session, thread=thread)
        self.page = FakePage.of(self.panel.page)
        self.page.tell("ready")
        self.wait_for(lambda: self.page.state.get("session"))

    def elsewhere(self, work: Callable[[], Any]) -> None:
        """Do something to the session that the panel is not asked for."""
        self.thread.drive(work, Inbox(), lambda: None)

    def wait_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 240
        while not condition():
            assert time.monotonic() < deadline, (self.page.text, self.page.shown, self.page.toasts)
            time.sleep(0.01)

    def ask(self, text: str) -> None:
        self.elsewhere(lambda: self.session.prompt(text))
        self.wait_for(lambda: text in self.page.text and not self.page.state["busy"])


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.chdir(tmp_path)
    thread = AgentThread()
    session = open_session(SessionOptions(provider="offline", model="offline"))
    shown = Shown(session, thread)
    yield shown
    shown.panel.close()
    shown.elsewhere(session.end)
    thread.close()


def test_a_session_that_goes_to_another_branch_elsewhere_is_shown_there(shown: Shown) -> None:
    shown.ask("first of all")
    first = shown.session.store.leaf_id
    assert first is not None
    shown.ask("and then")
    shown.page.tell("show_tree")
    shown.elsewhere(lambda: shown.session.navigate(first))
    shown.wait_for(lambda: "and then" not in shown.page.text)
    assert "first of all" in shown.page.text
    assert "another branch" in shown.page.state["warning"]
    shown.wait_for(lambda: [row["id"] for row in shown.page.state["tree"] if row["here"]] == [first])


def test_a_session_that_is_replaced_elsewhere_is_shown_from_its_beginning(shown: Shown) -> None:
    shown.ask("first of all")
    path = shown.session.store.path
    assert path is not None
    shown.elsewhere(shown.session.new_session)
    shown.wait_for(lambda: "first of all" not in shown.page.text)
    assert shown.page.state["session"]["id"] == shown.session.store.session_id
    assert shown.page.state["warning"] is None
    shown.elsewhere(lambda: shown.session.switch_session(path))
    shown.wait_for(lambda: "first of all" in shown.page.text)


def test_a_fork_elsewhere_says_that_the_kernel_did_not_go_along(shown: Shown) -> None:
    shown.ask("first of all")
    last = shown.session.store.leaf_id
    assert last is not None
    shown.elsewhere(lambda: shown.session.fork(last, position="at"))
    shown.wait_for(lambda: shown.page.state["session"]["id"] == shown.session.store.session_id)
    shown.wait_for(lambda: "another branch" in (shown.page.state["warning"] or ""))
    assert "first of all" in shown.page.text


def test_a_label_that_is_set_elsewhere_is_in_the_tree(shown: Shown) -> None:
    shown.ask("first of all")
    last = shown.session.store.leaf_id
    assert last is not None
    shown.page.tell("show_tree")
    shown.wait_for(lambda: shown.page.state.get("tree"))

    async def label() -> None:
        shown.session.set_label(last, "here it was")

    shown.elsewhere(label)
    shown.wait_for(lambda: any(row["label"] == "here it was" for row in shown.page.state["tree"]))


def test_a_session_that_is_closed_elsewhere_is_said_to_be_so(shown: Shown) -> None:
    shown.ask("first of all")
    shown.elsewhere(shown.session.end)
    shown.wait_for(lambda: "closed" in (shown.page.state["warning"] or ""))
    assert "first of all" in shown.page.text


def test_a_panel_in_which_nothing_goes_on_wakes_by_events_alone(shown: Shown) -> None:
    shown.ask("first of all")

    async def timers() -> list[asyncio.TimerHandle]:
        loop: Any = asyncio.get_running_loop()
        return [timer for timer in loop._scheduled if not timer.cancelled()]

    shown.wait_for(lambda: not shown.thread.drive(timers, Inbox(), lambda: None))
    shown.ask("and then")
    assert "and then" in shown.page.text


def test_commands_of_a_project_that_was_trusted_elsewhere_are_listed_with_the_next_prompt(
    shown: Shown, tmp_path: Path
) -> None:
    shown.ask("first of all")  # by now the session has asked about what there was at its start
    prompts = tmp_path / ".indusagi" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "greet.md").write_text("---\ndescription: Say hello\n---\nSay hello.\n")
    assert "greet" not in [each["name"] for each in shown.page.state["commands"]]
    shown.elsewhere(lambda: shown.session.trusting.decide("directory"))
    shown.ask("hello")
    shown.wait_for(lambda: "greet" in [each["name"] for each in shown.page.state["commands"]])
