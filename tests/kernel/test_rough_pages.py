"""Pages that click at bad moments, and what goes on when the extension is loaded again: in real kernels."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import panel_pages
import pytest
from fake_page import FakePage
from kernels import Cell, Kernel, private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("rough")
    environment = private_environment(
        root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME=str(root / "work" / "n.ipynb")
    )
    (root / "work").mkdir()
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Kernel:
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    api.requests.clear()
    api._answers.clear()
    return kernel


class Page(FakePage):
    """A page that sends to the widget of a cell, and does not look at it unless it is told to read."""

    def __init__(self, kernel: Kernel, cell: Cell) -> None:
        cell.wait_for(lambda cell: bool(widgets_of(cell)))
        comm_id = widgets_of(cell)[0]
        client = kernel._client
        self.comm_id, self.cell = comm_id, cell

        def send(content: dict[str, Any]) -> None:
            data = {"method": "custom", "content": content}
            client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": comm_id, "data": data}))

        super().__init__(send)

    def read_until(self, condition: Callable[[], object]) -> None:
        while not condition():
            message = self.cell.client.get_iopub_msg(timeout=240)
            content = message["content"]
            if message["msg_type"] == "comm_msg" and content["comm_id"] == self.comm_id:
                self.take(content["data"].get("content", {"kind": "state"}))
            elif message["parent_header"].get("msg_id") == self.cell.message_id:
                self.cell._take(message["msg_type"], content)


def widgets_of(cell: Cell) -> list[str]:
    bundles: list[Any] = [bundle for bundles in cell.displays.values() for bundle in bundles]
    return [bundle[WIDGET]["model_id"] for bundle in bundles if WIDGET in bundle]


def within(seconds: float, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


COMMAND = (
    "import asyncio\n"
    "from indus_nb import agent\n"
    "@agent.command('slow')\n"
    "async def slow(text, ctx):\n"
    "    print('begun')\n"
    "    await asyncio.sleep(60)\n"
)


def test_stop_ends_a_command_that_does_not_end(claude: Kernel) -> None:
    assert claude.run(COMMAND).status == "ok"
    cell = claude.begin("%agent /slow", asks=True)
    page = Page(claude, cell)
    page.tell("ready")
    cell.wait_for(lambda cell: "begun" in cell.streams)
    page.tell("stop")
    page.tell("stop")
    assert cell.finish().status == "error"
    assert cell.error is not None
    assert cell.error["ename"] == "Interrupted"
    assert not any(WIDGET in bundles[-1] for bundles in cell.displays.values())
    claude.run("agent.forget()")


def test_a_stop_that_comes_too_late_leaves_the_next_run_alone(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("bash", {"command": "sleep 0.5"})), Reply("One."))
    first = claude.begin("%agent one", asks=True)
    page = Page(claude, first)
    page.tell("ready")
    page.tell("ready", page="the same, loaded again")
    assert first.finish().status == "ok"
    api.add(Reply(ToolUse("bash", {"command": "sleep 1"})), Reply("Two."))
    second = claude.begin("%agent two", asks=True)
    within(5, lambda: len(api.requests) >= 3)
    page.tell("stop")
    assert second.finish().status == "ok"
    assert "Two." in second.shown


def test_loading_the_extension_again_takes_panels_away_that_lose_their_thread(kernel: Kernel) -> None:
    cell = kernel.run(
        "from indus_nb.front.notebook import conversations_of\n"
        "from indus_nb.front.notebook.panel.chat_panel import ChatPanel\n"
        "from indus_nb.start import SessionOptions, open_session\n"
        "mine = ChatPanel(open_session(SessionOptions(provider='offline', no_session=True)))\n"
    )
    assert cell.status == "ok", cell.error
    assert kernel.run("%reload_ext indus_nb").status == "ok"
    cell = kernel.run(
        "import time\n"
        "deadline = time.monotonic() + 5\n"
        "while mine.page._widget.comm is not None and time.monotonic() < deadline: time.sleep(0.05)\n"
        "assert mine.page._widget.comm is None\n"
        "mine.close()\n"
    )
    assert cell.status == "ok", cell.error
    assert not cell.streams


def test_loading_the_extension_again_ends_what_runs_in_the_background(claude: Kernel, api: MessagesApi) -> None:
    code = "import asyncio\nopen('awaits', 'w').close()\nawait asyncio.sleep(1000)"
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
    cell = claude.begin("%agent --no-wait do it", asks=True).goes_on()
    within(20, (claude.folder / "awaits").exists)
    assert claude.run("%reload_ext indus_nb").status == "ok"
    assert not any(WIDGET in bundles[-1] for bundles in cell.displays.values())
    assert claude.run("%agent help").status == "ok"


def test_ten_thousand_notices_of_an_extension_do_not_drown_the_page(claude: Kernel, api: MessagesApi) -> None:
    assert (
        claude.run(
            "from indus_nb import agent\n"
            "@agent.command('shout')\n"
            "async def shout(text, ctx):\n"
            "    for number in range(10_000):\n"
            "        ctx.ui.notify(f'notice {number}')\n"
            "        ctx.ui.set_status(f'key {number % 50}', str(number))\n"
        ).status
        == "ok"
    )
    cell = claude.begin("%agent /shout", asks=True)
    Page(claude, cell).tell("ready")
    assert cell.finish(60).status == "ok"
    assert "notice 9999" in "".join(cell.shown)
    assert sum(map(len, cell.displays.values())) < 3_000
    claude.run("agent.forget()")


def test_a_page_that_shows_a_later_cell_after_its_answer_is_whole_is_told_what_that_took(
    tmp_path: Path, api: MessagesApi
) -> None:
    path = str(tmp_path / "n.ipynb")
    environment = private_environment(
        tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME=path
    )
    with Kernel(tmp_path, environment) as kernel:
        kernel.load_from_page()
        client, wire = kernel._client, panel_pages.Wire(kernel)
        shows = {"kind": "shows", "path": path, "client": client.session.session}
        content = {"comm_id": "door", "target_name": "indus_nb.door", "data": shows}
        client.shell_channel.send(client.session.msg("comm_open", content))
        for answer in ("It is one.", "It is two."):
            api.add(answer)
            cell = kernel.begin("%agent --model anthropic/claude-sonnet-4-5 --thinking off so?", asks=True)
            cell.wait_for(lambda cell: bool(widgets_of(cell)))
            within(60, lambda answer=answer: any(answer in each.read_text() for each in tmp_path.rglob("*.jsonl")))
            page = panel_pages.Page(wire, widgets_of(cell)[0], passing=True)
            assert cell.finish().status == "ok"
            page.wait_for(lambda page=page: "tokens in" in str(page.state.get("beside")), timeout=10)
        wire.close()


@pytest.mark.parametrize("by", ["page", "input"])
def test_a_page_that_is_ready_late_shows_what_input_asks_and_the_first_answer_counts(
    claude: Kernel, api: MessagesApi, by: str
) -> None:
    reads = claude.run("import ipykernel\nprint(ipykernel.version_info[0])").streams != "6\n"
    made = claude.folder / f"by-{by}"
    held = Gate()
    api.add(
        Reply("I ask.", ToolUse("bash", {"command": f"touch {made.name}"})),
        Reply(Text("Half, ", held, "whole.")),
    )
    cell = claude.begin("%agent --new --approve writes --model anthropic/claude-sonnet-4-5 go", asks=True)
    page = Page(claude, cell)
    assert made.name in cell.answer(None)  # asked, and not answered
    page.tell("ready")
    if reads:  # in ipykernel 6 nothing reads what a page sends while `input()` waits
        page.read_until(lambda: page.dialogs and len(widgets_of(cell)) > 1)
        assert not page.text  # what was shown outside of the page stays there
    if reads and by == "page":
        ((key, question),) = page.dialogs.items()
        page.tell("answer", id=key, value=question.dialog["options"][0])
    else:
        claude._client.input("1")
    page.read_until(lambda: "Half," in page.text + "".join(cell.shown))  # outside, if it came before the next drawing
    assert not page.dialogs or by == "page"  # a page closes what it has answered by itself
    held.open()
    assert cell.finish().status == "ok"
    assert made.exists()
    assert [sum(text.strip() == said for text in cell.shown) for said in ("I ask.", "Half, whole.")] == [1, 1]
    assert not any(WIDGET in bundles[-1] for bundles in cell.displays.values())


@pytest.mark.parametrize("by", ["page", "input"])
def test_a_page_that_is_ready_and_draws_no_view_has_the_question_asked_by_input_too(
    claude: Kernel, api: MessagesApi, by: str
) -> None:
    reads = claude.run("import ipykernel\nprint(ipykernel.version_info[0])").streams != "6\n"
    made = claude.folder / f"undrawn-by-{by}"
    api.add(Reply(ToolUse("bash", {"command": f"touch {made.name}"})), "Done.")
    cell = claude.begin("%agent --new --approve writes --model anthropic/claude-sonnet-4-5 go", asks=True)
    page = Page(claude, cell)
    page.draws = False
    page.tell("ready")
    page.read_until(lambda: page.dialogs)
    ((key, question),) = page.dialogs.items()
    assert made.name in cell.answer(None)  # asked, and not answered
    if reads and by == "page":  # a view may be drawn after all
        page.tell("answer", id=key, value=question.dialog["options"][0])
    else:
        claude._client.input("1")
    assert cell.finish().status == "ok"
    assert made.exists()


def test_a_question_that_a_view_shows_is_asked_nowhere_else(claude: Kernel, api: MessagesApi) -> None:
    made = claude.folder / "drawn"
    api.add(Reply(ToolUse("bash", {"command": f"touch {made.name}"})), "Done.")
    cell = claude.begin("%agent --new --approve writes --model anthropic/claude-sonnet-4-5 go", asks=True)
    page = Page(claude, cell)
    page.tell("ready")
    page.read_until(lambda: page.dialogs)
    ((key, question),) = page.dialogs.items()
    with pytest.raises(queue.Empty):
        claude._client.get_stdin_msg(timeout=4)  # longer than it waits for a view
    page.tell("answer", id=key, value=question.dialog["options"][0])
    assert cell.finish().status == "ok"
    assert made.exists()
