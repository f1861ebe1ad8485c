"""What many finished cells leave behind in a kernel, and in the file of the notebook: static output, and no more."""

from __future__ import annotations

import ast
import contextlib
import json
import queue
import re
from collections.abc import Iterator
from typing import Any

import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from panel_pages import Page, Wire

WIDGET = "application/vnd.jupyter.widget-view+json"
CELLS = 30
MAX_BYTES = 60_000
ANSWER = "The running time of **merge sort** is $O(n \\log n)$ in every case, and `sorted` uses it.\n\n" * 7
COUNT = """
import gc, threading
from ipywidgets.widgets import widget
from indus_nb.front.notebook import conversations_of
shell = get_ipython()
ours = conversations_of(shell)
for thread in threading.enumerate():
    if "preload" in thread.name or thread.name.startswith("wait for "):  # they end by themselves
        thread.join()
gc.collect()
print({
    "widgets": len(widget._instances),
    "comms": len(shell.kernel.comm_manager.comms),
    "callbacks": {event: len(called) for event, called in shell.events.callbacks.items()},
    "threads": sorted(thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_")),
    "subscribers": len(ours.session.publisher._listeners),
    "names": sorted(name for name in shell.user_ns if not name.startswith("_")),
    "watched": len(ours.comm_gate()._watched),
    "shown": len(ours._shown),
})
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("finished")
    path = root / "work" / "n.ipynb"
    path.parent.mkdir()
    environment = private_environment(
        root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME=str(path)
    )
    with Kernel(path.parent, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
        yield kernel


@pytest.fixture(scope="module")
def wire(kernel: Kernel) -> Iterator[Wire]:
    wire = Wire(kernel)
    while not wire.ended:  # what a kernel says before somebody listens is lost
        kernel.run("pass")
        with contextlib.suppress(queue.Empty):
            wire.take(0.1)
    yield wire
    wire.close()


def ask(kernel: Kernel, api: MessagesApi, wire: Wire, number: int) -> Cell:
    """Run a cell whose answer has a tool call and a hundred deltas, before a page that shows its widget."""
    command = {"command": f"seq {number} {number + 40}"}
    api.add(Reply(ANSWER, ToolUse("bash", command), chunk=12), Reply(ANSWER, chunk=12))
    cell = kernel.begin(f"%%agent\nquestion {number}", asks=True)
    cell.wait_for(lambda cell: bool(widgets_of(cell)))
    page = Page(wire, widgets_of(cell)[0], passing=True)
    page.wait_for(lambda: cell.message_id in wire.ended)  # it answers what it is asked
    wire.pages.remove(page)
    assert cell.finish().status == "ok", cell.error
    return cell


def widgets_of(cell: Cell) -> list[str]:
    bundles: list[Any] = [bundle for bundles in cell.displays.values() for bundle in bundles]
    return [bundle[WIDGET]["model_id"] for bundle in bundles if WIDGET in bundle]


def html_text(html: str) -> str:
    """What is read of HTML."""
    return re.sub("<[^>]*>", "", html)


def counted(kernel: Kernel) -> dict[str, Any]:
    cell = kernel.run(COUNT)
    assert cell.status == "ok", cell.error
    return ast.literal_eval(cell.streams.strip())


def test_finished_cells_leave_static_output_of_limited_size_and_nothing_in_the_kernel(
    kernel: Kernel, api: MessagesApi, wire: Wire
) -> None:
    ask(kernel, api, wire, 0)
    before = counted(kernel)
    for number in range(1, CELLS):
        cell = ask(kernel, api, wire, number)
        left = [bundles[-1] for bundles in cell.displays.values()]
        assert not any(WIDGET in bundle for bundle in left)
        assert any(f"seq {number} " in bundle["text/plain"] for bundle in left)
        assert len(json.dumps(left)) < MAX_BYTES
    assert counted(kernel) == before


_TIME = re.compile(r'<span style="float:right[^>]*>[0-9.]+ s</span>')
"""How long a call took stands there only where that is noticeable."""


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("sales[:3]\nlen(sales)", "1200"),
        ("sales = [*filter(None, sales)]\nlen(sales)", "1199 · Changed: sales 1200 → 1199 items"),
    ],
)
def test_the_card_of_a_short_call_takes_about_a_kilobyte(
    kernel: Kernel, api: MessagesApi, code: str, content: str
) -> None:
    kernel.run("sales = [*range(1200)]")
    api.add(Reply(ToolUse("python", {"code": code})), "Done.")
    cell = kernel.run("%agent --approve never look")
    assert cell.status == "ok", cell.error
    html = next(b[-1]["text/html"] for b in cell.displays.values() if "✓ python" in b[-1]["text/plain"])
    assert content in html
    assert html.count("len(sales)") == 1
    limit = 1_080 + (len(html_text(html)) if "Changed" in content else 0)
    assert len(_TIME.sub("", html)) <= limit, html


def test_a_panel_that_a_new_conversation_closes_leaves_a_line(kernel: Kernel) -> None:
    panel = kernel.begin("%agent panel", asks=True).finish()
    assert "application/vnd.jupyter.widget-view+json" in [*panel.displays.values()][-1][-1]
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    assert panel.shown[-1].startswith("This panel was closed")
    assert "application/vnd.jupyter.widget-view+json" not in [*panel.displays.values()][-1][-1]
