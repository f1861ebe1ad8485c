"""What it costs to watch an answer of 10,000 deltas in JupyterLab: kernel, wire and browser, beside other ways.

    python tests/benchmarks/notebook_lab.py [--deltas 10000] [--rate 200] [--json FILE]

The same answer comes from a local server at the same pace, and is shown by ``%agent``; by a Markdown display that is
replaced 30 and 5 times a second; and not at all (``nothing``), which is what the model's client costs. All of them run
in the same JupyterLab, one after the other, in a kernel of their own each.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from jupyterlab_page import Lab, launch
from kernels import private_environment
from messages_api import Gate, MessagesApi, Reply, Text
from playwright.sync_api import Page, sync_playwright

WORDS = "The running time of **merge sort** is $O(n \\log n)$ in every case, and `sorted` uses it.\n\n"
BURSTS_PER_SECOND = 20
BY_HAND = """
import asyncio, time
from IPython.display import Markdown, display
from indus_nb import SessionOptions, open_session
session = open_session(SessionOptions(model="sonnet-4-5", thinking="off", no_session=True))
pieces, drawn = [], 0.0
handle = display(Markdown("…"), display_id=True)
def hear(event):
    global drawn
    if event.type == "message_update" and event.assistant_message_event.type == "text_delta":
        pieces.append(event.assistant_message_event.delta)
        if PACE and time.monotonic() - drawn > PACE:
            drawn = time.monotonic()
            handle.update(Markdown("".join(pieces)))
session.subscribe(hear)
await session.prompt("go")
if PACE:
    handle.update(Markdown("".join(pieces)))
"""
WAYS = {
    "%agent": "%agent --model sonnet-4-5 --thinking off --no-session go",
    "Markdown at 30 Hz": f"PACE = 1 / 30\n{BY_HAND}",
    "Markdown at 5 Hz": f"PACE = 1 / 5\n{BY_HAND}",
    "nothing": f"PACE = 0\n{BY_HAND}",
}


def main() -> None:
    """Measure every way and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deltas", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp())
    folder = root / "work"
    folder.mkdir()
    measured: dict[str, dict[str, float]] = {}
    with MessagesApi() as api, sync_playwright() as playwright:
        environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="key")
        with Lab(folder, environment) as lab:
            for way, cell in WAYS.items():
                browser = launch(playwright)
                page = browser.new_page(viewport={"width": 1200, "height": 1000})
                measured[way] = measure(lab, page, api, cell, asked.deltas, asked.rate)
                print(way, measured[way], flush=True)
                browser.close()
                lab.shut_down_kernels()
    print(f"\n{asked.deltas} deltas at {asked.rate} a second")
    print("| way | kernel CPU | to the page | browser tasks |\n|---|---|---|---|")
    for way, figures in measured.items():
        print(
            f"| {way} | {figures['kernel_seconds']:.2f} s | {figures['megabytes']:.2f} MB "
            f"| {figures['browser_seconds']:.1f} s |"
        )
    if asked.json:
        asked.json.write_text(json.dumps(measured, indent=2))


def measure(lab: Lab, page: Page, api: MessagesApi, cell: str, deltas: int, rate: int) -> dict[str, float]:
    """Run the cell while the answer comes, and see what that took."""
    warm = "%load_ext indus_nb\nimport anywidget, anthropic, markdown_it, os\nprint(os.getpid())"
    lab.write("bench.ipynb", warm, cell)
    received: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda data: received.append(size(data))))
    notebook = lab.open(page, "bench.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    kernel = psutil.Process(int(notebook.cell(0).locator(".jp-OutputArea-output pre").inner_text()))
    gates = pace(api, deltas, rate)
    protocol = page.context.new_cdp_session(page)
    protocol.send("Performance.enable")
    before, began, sent = used(kernel), tasks(protocol), sum(received)
    notebook.run(1)
    gates[0].reached.wait(20)
    threading.Thread(target=open_in_time, args=(gates,), daemon=True).start()
    status = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
    page.wait_for_function(f"() => {status} === 'busy'")
    page.wait_for_function(f"() => {status} === 'idle'", timeout=(deltas / rate * 3 + 30) * 1000)
    page.wait_for_timeout(1000)
    return {
        "kernel_seconds": used(kernel) - before,
        "megabytes": (sum(received) - sent) / 1e6,
        "browser_seconds": tasks(protocol) - began,
    }


def pace(api: MessagesApi, deltas: int, rate: int) -> list[Gate]:
    """Script an answer that comes in bursts; each waits for its gate."""
    burst = max(1, rate // BURSTS_PER_SECOND)
    text = (WORDS * (deltas * 6 // len(WORDS) + 1))[: deltas * 6]
    parts: list[Any] = []
    gates: list[Gate] = []
    for start in range(0, len(text), burst * 6):
        gates.append(Gate())
        parts += [gates[-1], text[start : start + burst * 6]]
    api.add(Reply(Text(*parts), chunk=6))
    return gates


def open_in_time(gates: list[Gate]) -> None:
    """Open one gate after the other."""
    began = time.monotonic()
    for number, gate in enumerate(gates):
        time.sleep(max(0.0, began + number / BURSTS_PER_SECOND - time.monotonic()))
        gate.open()


def used(process: psutil.Process) -> float:
    """Seconds of CPU."""
    times = process.cpu_times()
    return times.user + times.system


def tasks(protocol: Any) -> float:
    """Seconds that the page's main thread was busy."""
    metrics = protocol.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def size(data: str | bytes) -> int:
    """Bytes of a frame."""
    return len(data.encode()) if isinstance(data, str) else len(data)


if __name__ == "__main__":
    main()
