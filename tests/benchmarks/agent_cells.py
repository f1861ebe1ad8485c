"""What many ``%agent`` cells cost a page of JupyterLab, beside as many plain cells that show the same text.

    python tests/benchmarks/agent_cells.py [--cells 200] [--json FILE]

Both notebooks run in the same JupyterLab, one after the other, each in a browser of its own, and are saved and opened
again in another. A plain cell displays the same as the other one: the answer's Markdown, and the line that closes it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from jupyterlab_page import Lab, Notebook, launch
from kernels import private_environment
from messages_api import MessagesApi, Reply
from playwright.sync_api import Page, sync_playwright

TEXT = "The mean is **{number}**, see `sales`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n" + "So it is. " * 40
CLOSES = "claude-sonnet-4-5 · 100 tokens in, 20 out · 0.0 s"
SETTLED = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
SCROLLS = """async () => {
    const node = document.querySelector('.jp-WindowedPanel-outer') ?? document.querySelector('.jp-Notebook');
    const frames = [];
    node.scrollTop = 0;
    for (let at = 0; at < 60; at++) {
        const begun = performance.now();
        node.scrollTop += node.clientHeight / 2;
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        frames.push(performance.now() - begun);
    }
    return frames.sort((one, other) => one - other)[30];
}"""

SHOWS_ALL = """async () => {
    const node = document.querySelector('.jp-WindowedPanel-outer') ?? document.querySelector('.jp-Notebook');
    for (node.scrollTop = 0; node.scrollTop + node.clientHeight < node.scrollHeight - 1; ) {
        node.scrollTop += node.clientHeight / 2;
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
    }
    node.scrollTop = 0;
}"""
"""The front end makes cells when it shows them or has nothing else to do, and fewer of them when the cells run fast."""


def main() -> None:
    """Measure both notebooks, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp())
    folder = root / "work"
    folder.mkdir()
    measured: dict[str, dict[str, float]] = {}
    with MessagesApi() as api, sync_playwright() as playwright:
        environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="key")
        with Lab(folder, environment) as lab:
            for way in ("plain", "%agent"):
                measured[way] = measure(lab, playwright, api, way, asked.cells)
                print(way, measured[way], flush=True)
                lab.shut_down_kernels()
    print(f"\n{asked.cells} cells\n| what | plain | %agent | ratio |\n|---|---|---|---|")
    for what, plain in measured["plain"].items():
        ours = measured["%agent"][what]
        print(f"| {what} | {plain:.1f} | {ours:.1f} | {ours / max(plain, 0.01):.2f} |")
    if asked.json:
        asked.json.write_text(json.dumps(measured, indent=2))


def measure(lab: Lab, playwright: Any, api: MessagesApi, way: str, count: int) -> dict[str, float]:
    """Run a notebook of such cells, and open it again."""
    texts = [TEXT.format(number=number) for number in range(count)]
    if way == "plain":
        cells = [f"display(Markdown({text!r}), Markdown('{CLOSES}'))" for text in texts]
    else:
        api.add(*(Reply(text, at_once=True) for text in texts))
        cells = ["%agent go"] * count
    first = "from IPython.display import Markdown, display\n%load_ext indus_nb\n%agent --model sonnet-4-5 --no-session"
    lab.write("cells.ipynb", first, *cells)
    browser = launch(playwright)
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    notebook = lab.open(page, "cells.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    before = figures(page)
    page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    last = f"() => window.jupyterapp.shell.currentWidget.model.cells.get({count}).executionCount"
    page.wait_for_function(last, timeout=count * 10_000)
    page.wait_for_function(SETTLED, timeout=60_000)
    page.evaluate(SHOWS_ALL)
    page.wait_for_timeout(2000)
    after = figures(page)
    found = {f"{what}, run": after[what] for what in after}
    found |= {f"{what}, of the cells": after[what] - before[what] for what in after}
    found["ms to scroll, run"] = page.evaluate(SCROLLS)
    notebook.save()
    browser.close()
    lab.shut_down_kernels()
    found |= reopened(lab, playwright)
    found["kB of the file"] = (lab.folder / "cells.ipynb").stat().st_size / 1000
    return found


def reopened(lab: Lab, playwright: Any) -> dict[str, float]:
    """Open the saved notebook in another browser."""
    browser = launch(playwright)
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    page.goto("about:blank")
    began = time.monotonic()
    notebook: Notebook = lab.open_without_kernel(page, "cells.ipynb")
    notebook.cell(1).locator(".jp-OutputArea-output").first.wait_for()
    seconds = time.monotonic() - began
    found = {f"{what}, opened": value for what, value in figures(page).items()}
    found |= {"s to open": seconds, "ms to scroll, opened": page.evaluate(SCROLLS)}
    browser.close()
    return found


def figures(page: Page) -> dict[str, float]:
    """What the page holds, after what it holds no more is collected."""
    protocol = page.context.new_cdp_session(page)
    protocol.send("HeapProfiler.collectGarbage")
    protocol.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in protocol.send("Performance.getMetrics")["metrics"]}
    return {"MB of heap": metrics["JSHeapUsedSize"] / 1e6, "nodes": metrics["Nodes"]}


if __name__ == "__main__":
    main()
