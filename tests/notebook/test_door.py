"""The door of a notebook, in a real kernel whose page says what no good page would, or says it at a bad moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse

SETTINGS = "settings.json"
CELLS = [{"type": "code", "source": "x = 1", "id": "first", "number": 1}]


class DoorPage:
    """What a page with the front-end extension says to a kernel, and what it hears."""

    def __init__(self, kernel: Kernel, first: dict[str, str] | None = None, comm: str = "door") -> None:
        self.comm = comm
        self.client: Any = kernel._client  # pyright: ignore[reportPrivateUsage]
        kernel.run("from indus_nb.front.notebook import open_doors\nopen_doors()")
        self.say("comm_open", target_name="indus_nb.door", data=first or self.shows())

    def shows(self, path: str = "one.ipynb") -> dict[str, str]:
        return {"kind": "shows", "path": path, "client": "page"}

    def say(self, message_type: str, **content: Any) -> None:
        self.client.shell_channel.send(self.client.session.msg(message_type, {"comm_id": self.comm, **content}))

    def send(self, kind: str, **fields: Any) -> None:
        self.say("comm_msg", data={"kind": kind, **fields})

    def hear(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The next message of a kind with these fields; requests about the notebook are answered meanwhile."""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            content: dict[str, Any] = message["content"]
            data: dict[str, Any] = content.get("data", {}) if content.get("comm_id") == self.comm else {}
            if data.get("kind") == kind and fields.items() <= data.items():
                return data
            if data.get("kind") == "ask_page" and data["request"]["what"] == "cells":
                self.send("reply", id=data["request"]["id"], value={"cells": CELLS})

    def hear_end_of(self, comm: str) -> None:
        """Return when the kernel has closed a comm."""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["msg_type"] == "comm_close" and message["content"]["comm_id"] == comm:
                return


def run_cell(kernel: Kernel, cell_id: str, code: str) -> None:
    """Run a cell as a page does that names its cells."""
    client: Any = kernel._client  # pyright: ignore[reportPrivateUsage]
    request = client.session.msg("execute_request", {"code": code, "store_history": True}, metadata={"cellId": cell_id})
    client.shell_channel.send(request)
    while client.get_shell_msg(timeout=60)["parent_header"].get("msg_id") != request["header"]["msg_id"]:
        pass


@pytest.fixture
def kernel(tmp_path: Path, messages_api: MessagesApi) -> Iterator[Kernel]:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=messages_api.url, ANTHROPIC_API_KEY="test-key")
    agent = Path(environment["INDUS_NB_AGENT_DIR"])
    (agent / SETTINGS).write_text("{}", encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    with Kernel(folder, environment) as kernel:
        yield kernel


def test_a_request_that_is_dropped_before_it_began_costs_nothing(kernel: Kernel, messages_api: MessagesApi) -> None:
    page = DoorPage(kernel)
    page.send("edit", id="1", cell="first", instruction="make it 2")
    page.send("drop", id="1")
    messages_api.add("Here I am.")
    page.send("edit", id="2", cell="first", instruction="make it 3")
    assert page.hear("edit_over", id="2")["text"] == "Here I am."
    assert len(messages_api.requests) == 1


def test_a_page_is_told_that_the_agent_works_from_the_request_at_a_cell_to_its_end(
    kernel: Kernel, messages_api: MessagesApi
) -> None:
    page = DoorPage(kernel)
    messages_api.add("Here I am.")
    page.send("edit", id="1", cell="first", instruction="make it 2")
    assert page.hear("state", phase="working")["session"] is None  # the conversation is opened first
    page.hear("edit_over", id="1")
    page.hear("state", phase="idle")


def test_a_cell_of_another_notebook_is_told_with_the_name_of_that(kernel: Kernel, messages_api: MessagesApi) -> None:
    session = kernel._client.session  # pyright: ignore[reportPrivateUsage]
    page, own = DoorPage(kernel), session.session
    DoorPage(kernel, {**page.shows("other.ipynb"), "client": "other"}, comm="second")
    session.session = "other"
    run_cell(kernel, "theirs", "x = 1")
    session.session = "page"
    run_cell(kernel, "mine", "y = 2")
    messages_api.add("Seen.")
    run_cell(kernel, "asks", "%agent --thinking off --model anthropic/claude-sonnet-4-5 look")
    session.session = own
    asked = str(messages_api.requests[0].body["messages"])
    assert "In other.ipynb:\\nCell [3]:\\n```python\\nx = 1" in asked
    assert "\\n\\nCell [4]:\\n```python\\ny = 2" in asked
    assert "one.ipynb" not in asked


def test_a_request_that_finds_no_conversation_says_so_where_it_was_asked(kernel: Kernel) -> None:
    request = {"kind": "edit", "id": "1", "cell": "first", "instruction": "make it 2"}
    over = DoorPage(kernel, request).hear("edit_over", id="1")
    assert over["failed"]
    assert "which notebook" in over["text"]


def test_variables_whose_names_hold_half_characters_are_listed(kernel: Kernel) -> None:
    page = DoorPage(kernel)
    kernel.run("globals()['half\\ud800'] = 1")
    page.send("list_variables")
    names = [variable["name"] for variable in page.hear("variables")["variables"]]
    assert "half\ufffd" in names


def test_a_draft_that_is_larger_than_a_proposal_may_be_is_not_drawn(kernel: Kernel, messages_api: MessagesApi) -> None:
    page = DoorPage(kernel)
    page.send("open_panel")
    name = "a" * 100_000
    messages_api.add(Reply(ToolUse("propose_cell", {"replace": name, "source": "x = 2"})), "I cannot.")
    page.send("edit", id="1", cell="first", instruction="make it 2")
    assert len(str(page.hear("draft", id="1", done=True))) < 2_000
    page.hear("edit_over", id="1")


def test_a_page_that_is_closed_in_the_middle_of_a_request_ends_it(kernel: Kernel, messages_api: MessagesApi) -> None:
    page = DoorPage(kernel)
    gate = Gate()
    messages_api.add(Reply(Text("I think", gate)))
    page.send("edit", id="1", cell="first", instruction="make it 2")
    page.send("reply", id=page.hear("ask_page")["request"]["id"], value={"cells": CELLS})
    messages_api.wait_for_requests(1)
    page.say("comm_close", data={})
    page.say("comm_open", target_name="indus_nb.door", data=page.shows())
    page.hear("state", phase="idle")
    gate.open()
    messages_api.add("I am here.")
    page.send("edit", id="2", cell="first", instruction="make it 3")
    assert page.hear("edit_over", id="2")["text"] == "I am here."


def test_an_error_that_mentions_a_cell_is_asked_about_as_it_is(kernel: Kernel, messages_api: MessagesApi) -> None:
    page = DoorPage(kernel)
    messages_api.add("It divides by zero.")
    page.send("fix", cell="first", source="1 / 0  # as in @cell 99", error="ZeroDivisionError: see @cell 99 and {x}")
    messages_api.wait_for_requests(1)
    assert "@cell 99 and {x}" in str(messages_api.requests[0].body)


def test_a_cell_that_failed_before_another_is_told_once_and_as_it_ran(
    kernel: Kernel, messages_api: MessagesApi
) -> None:
    page = DoorPage(kernel)
    run_cell(kernel, "first", "1 / 0")
    run_cell(kernel, "second", "[][1]")
    messages_api.add("It divides by zero.")
    page.send("explain", cell="first", source="1 / 0  # changed since", error="ZeroDivisionError")
    messages_api.wait_for_requests(1)
    told = "\n".join(messages_api.requests[0].texts)
    assert told.count("```python\n1 / 0\n```") == 1
    assert "changed since" not in told
    assert told.count("```python\n[][1]\n```") == 1


def test_a_page_follows_the_conversation_that_a_cell_has_gone_over_to(
    kernel: Kernel, messages_api: MessagesApi
) -> None:
    page = DoorPage(kernel)
    messages_api.add("In the first.", "In the second.")
    kernel.run("%agent --name first hello")
    page.say("comm_msg", data=page.shows())
    first = page.hear("state")["session"]
    kernel.run("%agent --name second hello")
    kernel.begin("%agent --name first")
    assert page.hear("state", session=first)["phase"] == "idle"


def test_a_page_that_goes_away_is_asked_no_more_until_it_is_back(kernel: Kernel) -> None:
    has_host = "print(conversations_of(get_ipython()).session.ui.has_host)"
    page = DoorPage(kernel)
    page.send("open_panel")
    while (session := page.hear("state")["session"]) is None:
        pass
    kernel.run("from indus_nb.front.notebook import conversations_of")
    assert kernel.run(has_host).streams == "True\n"
    page.send("leaves")
    page.hear("state", session=None)
    assert kernel.run(has_host).streams == "False\n"
    page.say("comm_msg", data=page.shows())
    page.hear("state", session=session)
    assert kernel.run(has_host).streams == "True\n"


def test_the_door_of_a_page_that_does_not_answer_any_more_is_closed_when_another_opens(kernel: Kernel) -> None:
    DoorPage(kernel).hear("state")
    another = DoorPage(kernel, comm="another")
    another.hear_end_of("door")
    another.send("list_variables")
    another.hear("variables")
    comms = kernel.run("print(*get_ipython().kernel.comm_manager.comms)").streams.split()
    assert comms == ["another"]
