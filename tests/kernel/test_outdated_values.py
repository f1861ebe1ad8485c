"""Values in answers that do not hold: pages are sent them after the cell that changed what they read, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi
from panel_pages import Page, Wire

from indus_nb.base.errors import UsageError
from indus_nb.kernel.claims.kept import Claim, KeptClaims
from indus_nb.kernel.claims.outdated import Outdated, OutdatedAnswers
from indus_nb.render.live import LiveValue
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version
from indus_nb.tools import ToolError

VIEW = "application/vnd.jupyter.widget-view+json"
SET_UP = "items, limits = [1, 2], [10]"
ANSWER = "`{python} sum(items)` of `{python} len(items)`, at most `{python} max(limits)`."
STALE = {"now": None, "why": "from before [6] ran"}


class Pages:
    """A page with the front-end extension, and all that the kernel has sent it of values that do not hold."""

    def __init__(self, kernel: Kernel) -> None:
        self._client: Any = kernel._client  # pyright: ignore[reportPrivateUsage]
        kernel.run("from indus_nb.front.notebook import open_doors\nopen_doors()")
        self._say("comm_open", target_name="indus_nb.door", data={"kind": "shows", "path": "one", "client": "page"})
        self._next("state")

    def _say(self, message_type: str, **content: Any) -> None:
        self._client.shell_channel.send(self._client.session.msg(message_type, {"comm_id": "door", **content}))

    def _next(self, kind: str) -> dict[str, Any]:
        while True:
            content: dict[str, Any] = self._client.get_iopub_msg(timeout=60)["content"]
            data: dict[str, Any] = content.get("data", {}) if content.get("comm_id") == "door" else {}
            if data.get("kind") == kind:
                return data

    def check(self) -> dict[str, Any]:
        """Have the stale values computed again, as a click does."""
        self._say("comm_msg", data={"kind": "check_values"})
        return self.sent()

    def sent(self) -> dict[str, Any]:
        """What the page is sent next."""
        return self._next("outdated")

    def begin(self, code: str) -> None:
        """Run a cell, and do not wait for its end."""
        self._client.execute(code)

    def after(self, code: str, cell_id: str = "") -> list[dict[str, Any]]:
        """What is sent once a cell has run."""
        self.run(code, cell_id)
        return self._next("outdated")["cells"]

    def run(self, code: str, cell_id: str = "") -> None:
        request = self._client.session.msg(
            "execute_request", {"code": code, "store_history": True}, metadata={"cellId": cell_id}
        )
        self._client.shell_channel.send(request)
        while True:
            reply = self._client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                assert reply["content"]["status"] == "ok", reply["content"]
                return


@pytest.fixture
def pages(tmp_path: Path, api: MessagesApi) -> Iterator[Pages]:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        pages = Pages(kernel)
        pages.run(SET_UP)
        pages.run("%agent --thinking off --approve never --model anthropic/claude-sonnet-4-5")
        api.add(ANSWER)
        pages.run("%agent so", "asks")
        pages.run("pass")
        yield pages


def value(expression: str, was: str, **state: Any) -> dict[str, Any]:
    return {"expression": expression, "value": was, **state}


class Rows:
    """Claims about a list, and how often it was looked at."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"rows": [1]}
        self.claims = KeptClaims()
        self.looks = 0
        self.failure: BaseException | None = None
        self.sent: list[tuple[OutdatedAnswers, ...]] = []
        self.outdated = Outdated(self.claims, self.do)

    async def do(self, work: Callable[[dict[str, Any]], Any]) -> Any:
        self.looks += 1
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return work(self.namespace)

    def claim(self) -> None:
        reading = self.claims.read(self.namespace, ["len(rows)"])["len(rows)"]
        self.claims.add([Claim("len(rows)", "len(rows)", LiveValue("1"), "asks", reading)])


async def test_nothing_is_looked_at_without_a_page_or_without_values() -> None:
    rows = Rows()
    rows.claim()
    rows.outdated.look_soon(1)
    assert rows.outdated.is_idle
    rows.claims.drop()
    rows.outdated.watch(rows.sent.append)
    rows.outdated.look_soon(2)
    assert (rows.outdated.is_idle, rows.looks, rows.sent) == (True, 0, [()])


async def test_a_page_is_sent_what_has_changed_and_nothing_else() -> None:
    rows = Rows()
    rows.claim()
    end = rows.outdated.watch(rows.sent.append)
    await rows.outdated.look()
    rows.namespace["rows"].append(2)
    for _ in range(3):
        await rows.outdated.look()
    rows.namespace["rows"].pop()
    await rows.outdated.look()
    assert [[value.why for each in sent for value in each.values] for sent in rows.sent] == [
        [],
        ["from before rows changed"],
        [],
    ]
    end()
    rows.namespace["rows"].append(2)
    await rows.outdated.look()
    assert len(rows.sent) == 3


async def test_a_look_that_an_interrupt_ended_is_taken_again_for_the_same_cell() -> None:
    rows, changed = Rows(), asyncio.Event()
    rows.claim()
    rows.outdated.watch(lambda sent: changed.set() if sent else None)
    rows.namespace["rows"].append(2)
    rows.failure = ToolError("Interrupted before it began.")
    rows.outdated.look_soon(7)
    await asyncio.wait_for(changed.wait(), 30)
    assert [value.why for each in rows.outdated.answers for value in each.values] == ["from before [7] ran"]


async def test_a_look_for_which_a_cell_left_no_time_is_taken_for_it_later() -> None:
    rows = Rows()
    rows.claim()
    rows.outdated.watch(rows.sent.append)
    rows.namespace["rows"].append(2)
    rows.failure = UsageError("A cell of yours was running.")
    rows.outdated.look_soon(7)
    with pytest.raises(UsageError):
        await rows.outdated.look()
    await rows.outdated.look()
    assert [value.why for each in rows.sent[-1] for value in each.values] == ["from before [7] ran"]


@pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")
def test_a_page_gets_the_stale_values_of_a_cell_and_their_new_ones_after_a_check(pages: Pages) -> None:
    stale = [value("sum(items)", "3", **STALE), value("len(items)", "2", **STALE)]
    sent = pages.after("items.append(3)")
    assert sent == [
        {"cell": "asks", "outdated": {"words": "2 values are from before [6] ran", "stale": True, "values": stale}}
    ]
    checked = pages.check()
    assert checked["problem"] == ""
    assert checked["cells"][0]["outdated"] == {
        "words": "2 values have changed. The file keeps the old values: run the cell again for a new answer",
        "stale": False,
        "values": [
            value("sum(items)", "3", now="6", why="differs: now 6"),
            value("len(items)", "2", now="3", why="differs: now 3"),
        ],
    }
    assert pages.after("items.pop()") == []


@pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")
def test_while_a_cell_runs_nothing_is_computed_and_the_page_says_why(pages: Pages, tmp_path: Path) -> None:
    pages.after("items.append(3)")
    pages.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)")
    checked = pages.check()
    (tmp_path / "go").touch()
    assert checked["problem"].startswith("A cell of yours was running")
    assert checked["cells"][0]["outdated"]["stale"]
    assert pages.sent() == {**checked, "problem": ""}, "the cell has ended"
    assert not pages.check()["cells"][0]["outdated"]["stale"]


@pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")
def test_a_fork_goes_on_with_the_stale_values_of_the_answers_that_it_has_and_of_no_others(
    tmp_path: Path, api: MessagesApi
) -> None:
    environment = private_environment(
        tmp_path, JPY_SESSION_NAME=str(tmp_path / "a.ipynb"), ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key"
    )
    with Kernel(tmp_path, environment) as kernel:
        kernel.run(f"%load_ext indus_nb\n{SET_UP}")
        kernel.run("%agent --thinking off --approve never --model anthropic/claude-sonnet-4-5")
        wire = Wire(kernel)
        shown = kernel.begin("%agent panel", asks=True).finish()
        panel = Page(wire, next(each[VIEW]["model_id"] for (each,) in shown.displays.values() if VIEW in each))
        api.add("There are `{python} len(items)`.", "In all `{python} sum(items)`.")
        for prompt, answer in (("how many?", "There are"), ("how much?", "In all")):
            panel.prompt(prompt)
            panel.wait_until_idle(answer)
        kernel.run("items.append(3)")
        panel.wait_for(lambda: panel.state["outdated"] and len(panel.state["outdated"]["values"]) == 2)
        origin = panel.state["session"]["id"]
        panel.tell("show_tree")
        panel.settle()
        (entry,) = (row["id"] for row in panel.state["tree"] if row["text"] == "how much?")
        panel.tell("fork", entryId=entry)
        panel.wait_for(lambda: panel.state["session"]["id"] != origin and "In all" not in panel.text)
        panel.settle()
        (stale,) = panel.state["outdated"]["values"]
        assert (stale["expression"], stale["value"], stale["now"]) == ("len(items)", "2", None)
        panel.tell("new_session")
        panel.wait_for(lambda: "There are" not in panel.text)
        panel.settle()
        assert panel.state["outdated"] is None
        wire.close()
