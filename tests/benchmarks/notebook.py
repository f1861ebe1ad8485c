"""What the notebook's interface costs: watching an answer, what finished cells leave, a long panel, and loading.

    python tests/benchmarks/notebook.py [--only stream cells panel load] [--deltas 10000] [--rate 200] [--json FILE]

``stream`` watches an answer that comes at a steady pace from a local server in a real kernel, before a page that says
``ready``, and compares it with the same answer that nothing shows: processor time of the kernel, and bytes on iopub.
``cells`` counts what thirty finished cells leave in a kernel, and what they put into the file of the notebook.
``panel`` opens a panel with a thousand messages in a browser, scrolls and types, and lists tasks of more than 50 ms.
``load`` is the processor time that ``%load_ext indus_nb`` takes on the user's thread, the smallest of five.

``notebook_lab.py`` watches the same answer in a real JupyterLab, beside other ways to show it.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bare_page import full_message, messages, open_panel, served
from fake_page import FakePage
from jupyterlab_page import launch
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import sync_playwright

from benchmarks.notebook_lab import open_in_time, pace, used

ASK = "%agent --model sonnet-4-5 --thinking off --no-session go"
NOTHING = """
from indus_nb import SessionOptions, open_session
session = open_session(SessionOptions(model="sonnet-4-5", thinking="off", no_session=True))
await session.prompt("go")
"""
CELLS = 30
LOAD = """
import time
before = time.thread_time()
get_ipython().run_line_magic("load_ext", "indus_nb")
print(time.thread_time() - before)
"""
LEFT = """
import threading
from ipywidgets.widgets import widget
shell = get_ipython()
print([len(widget._instances), len(shell.kernel.comm_manager.comms), threading.active_count(),
    sum(map(len, shell.events.callbacks.values()))])
"""
Figures = dict[str, float]


def main() -> None:
    """Measure the parts that are asked for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts: dict[str, Callable[[argparse.Namespace], Figures]] = {
        "stream": stream,
        "cells": cells,
        "panel": panel,
        "load": load,
    }
    parser.add_argument("--only", nargs="+", choices=[*parts], default=[*parts])
    parser.add_argument("--deltas", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    measured = {name: parts[name](asked) for name in asked.only}
    print("| part | figure | |\n|---|---|---|")
    for name, figures in measured.items():
        for figure, value in figures.items():
            print(f"| {name} | {figure} | {value:,.3g} |")
    if asked.json:
        asked.json.write_text(json.dumps(measured, indent=2))


@contextmanager
def kernel_with(api: MessagesApi) -> Iterator[Kernel]:
    """A fresh kernel that a front end for notebooks has started, as far as it can see."""
    root = Path(tempfile.mkdtemp())
    path = root / "work" / "n.ipynb"
    path.parent.mkdir()
    environment = private_environment(
        root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="key", JPY_SESSION_NAME=str(path)
    )
    with Kernel(path.parent, environment) as kernel:
        yield kernel


def watched(kernel: Kernel, code: str) -> tuple[int, list[dict[str, Any]]]:
    """Run a cell before a page that shows its widgets; the bytes on iopub, and the displays that it leaves."""
    client: Any = kernel._client
    message_id = client.execute(code, allow_stdin=True)
    size, displays = 0, dict[str, Any]()
    pages: dict[str, FakePage] = {}

    def page(comm_id: str) -> FakePage:
        def send(content: dict[str, Any]) -> None:
            data = {"method": "custom", "content": content}
            client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": comm_id, "data": data}))

        return FakePage(send)

    while True:
        frames: list[bytes] = client.iopub_channel.socket.recv_multipart()
        size += sum(map(len, frames))
        message = client.session.deserialize(client.session.feed_identities(frames)[1])
        content = message["content"]
        match message["msg_type"]:
            case "comm_open" if "_anywidget_id" in content["data"].get("state", {}):
                pages[content["comm_id"]] = page(content["comm_id"])
                pages[content["comm_id"]].tell("ready")
            case "comm_msg" if content["comm_id"] in pages and content["data"].get("method") == "custom":
                pages[content["comm_id"]].take(content["data"]["content"])
            case "display_data" | "update_display_data":
                displays[content["transient"]["display_id"]] = content["data"]
            case "error":
                raise RuntimeError("\n".join(content["traceback"]))
            case "status" if content["execution_state"] == "idle" and message["parent_header"]["msg_id"] == message_id:
                while client.get_shell_msg(timeout=30)["parent_header"]["msg_id"] != message_id:
                    pass
                return size, [*displays.values()]
            case _:
                pass


def stream(asked: argparse.Namespace) -> Figures:
    """Watch an answer, and let the same answer come with nothing shown."""
    figures: Figures = {}
    for way, code in (("watched", ASK), ("not shown", NOTHING)):
        with MessagesApi() as api, kernel_with(api) as kernel:
            kernel.run(
                "%load_ext indus_nb\nimport anywidget, markdown_it\nimport indus_nb.front.notebook.conversations"
            )
            time.sleep(2)  # in which what is imported in the background comes to an end
            process = psutil.Process(kernel._manager.provisioner.process.pid)
            gates = pace(api, asked.deltas, asked.rate)
            threading.Thread(
                target=lambda gates=gates: (gates[0].reached.wait(30), open_in_time(gates)), daemon=True
            ).start()
            before = used(process)
            size, _ = watched(kernel, code)
            figures[f"kernel CPU, {way}, s"] = used(process) - before
            figures[f"iopub, {way}, MB"] = size / 1e6
    figures["kernel CPU of watching, s"] = figures["kernel CPU, watched, s"] - figures["kernel CPU, not shown, s"]
    return figures


def cells(_: argparse.Namespace) -> Figures:
    """Run cells, each with a tool call and about a hundred deltas, and count what is left after the last of them."""
    words = "The running time of **merge sort** is $O(n \\log n)$ in every case, and `sorted` uses it.\n\n" * 7
    left: list[list[int]] = []
    sizes: list[int] = []
    with MessagesApi() as api, kernel_with(api) as kernel:
        kernel.run("%load_ext indus_nb\n%agent --new --model sonnet-4-5 --thinking off")
        for number in range(CELLS + 1):
            api.add(Reply(words, ToolUse("bash", {"command": f"seq {number + 40}"}), chunk=12), Reply(words, chunk=12))
            displays = watched(kernel, f"%%agent\nquestion {number}")[1]
            sizes.append(len(json.dumps(displays)))
            if number in (0, CELLS):
                left.append(ast.literal_eval(kernel.run(LEFT).streams.strip()))
    names = ("widgets", "comms", "threads", "callbacks")
    grown = {f"{name} more": float(after - before) for name, before, after in zip(names, *left, strict=True)}
    return {**grown, "largest cell in the file, KB": max(sizes) / 1000}


def panel(_: argparse.Namespace) -> Figures:
    """Open, scroll and type; the longest task of the page's main thread in each."""
    figures: Figures = {}
    with served() as address, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        open_panel(page, address, full_message(messages(1_000)))

        def measure(name: str, work: Callable[[], object]) -> None:
            page.wait_for_timeout(1_500)
            page.evaluate("window.long.length = 0")
            work()
            page.wait_for_timeout(1_500)
            long: list[int] = page.evaluate("window.long")
            figures[f"long tasks, {name}"] = len(long)
            figures[f"longest, {name}, ms"] = max(long, default=0)

        def scroll() -> None:
            page.mouse.move(400, 300)
            for _ in range(60):
                page.mouse.wheel(0, -700)
                page.wait_for_timeout(30)

        measure("opening", lambda: page.evaluate("() => void setTimeout(() => window.receive(window.full))"))
        measure("scrolling", scroll)
        page.get_by_label("Message").click()
        measure("typing", lambda: page.keyboard.type("Please say what is odd about the last part.", delay=20))
        browser.close()
    return figures


def load(_: argparse.Namespace) -> Figures:
    """Load the extension in fresh kernels."""
    taken: list[float] = []
    with MessagesApi() as api:
        for _ in range(5):
            with kernel_with(api) as kernel:
                taken.append(float(kernel.run(LOAD).streams))
    return {"CPU of the user's thread, s": min(taken)}


if __name__ == "__main__":
    main()
