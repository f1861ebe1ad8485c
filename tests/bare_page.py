"""The page's half of the widget in a browser without Jupyter: the test, or a measurement, says what the kernel says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from indus_nb.front.notebook.view import blocks

STATIC = Path(blocks.__file__).parents[1] / "page" / "static"
STATE: dict[str, Any] = {
    "busy": False,
    "models": [],
    "levels": ["off"],
    "level": "off",
    "session": {"name": "Long", "id": "1"},
    "commands": [],
    "model": "Sonnet",
    "queue": {"steering": [], "followUp": []},
}
DOCUMENT = """<!doctype html>
<html lang="en"><head><title>Panel</title><link rel="stylesheet" href="/agent.css">
<style>body { margin: 0 } #out { width: 900px; height: 700px } .ia-panel { height: 680px !important }</style></head>
<body><div id="out" class="jp-Cell"></div>
<script type="module">
import make from "/agent.js";
window.long = [];
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) window.long.push(Math.round(duration));
}).observe({ entryTypes: ["longtask"] });
let handle;
const model = { get: () => "panel", on: (_, handler) => { handle = handler; }, send: () => {} };
const widget = make();
widget.initialize({ model });
window.receive = (message) => handle(message);
widget.render({ el: document.getElementById("out") });
window.ready = true;
</script></body></html>"""
CODE = "".join(f"def step_{n}(frame, column='total'):\n    return frame.groupby(column).mean()\n" for n in range(6))


def messages(count: int) -> list[str]:
    """The HTML of a conversation of so many messages: questions, answers with code and tables, tool calls."""
    output = "\n".join(f"-rw-r--r-- 1 user user {number * 37} file-{number}.txt" for number in range(30))
    made: list[str] = []
    for number in range(count):
        match number % 4:
            case 0:
                shown = blocks.user_message(f"Say what is odd about part {number}, in a few words.")["text/html"]
            case 1:
                table = f"| a | b |\n|---|---|\n| 1 | {number} |\n"
                shown = blocks.answer_html(
                    f"Part **{number}** takes $O(n \\log n)$.\n\n- one\n- two\n\n{table}\n```python\n{CODE}```"
                )
            case 2:
                call = blocks.Call("bash", {"command": f"ls part-{number}"}, state="done", begun=True, output=output)
                shown = blocks.call(call)["text/html"]
            case _:
                shown = blocks.answer_html(f"Part {number} has dates that are written in two ways. " * 12)
        made.append(shown)
    return made


def full_message(html: Sequence[str]) -> dict[str, Any]:
    """What the kernel sends to a page that shows these blocks for the first time."""
    return {"kind": "full", "n": 0, "ops": [*(["put", f"b{n}", each] for n, each in enumerate(html)), ["set", STATE]]}


@contextmanager
def served(static: Path = STATIC) -> Iterator[str]:
    """Serve a page with an empty panel; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/")
            body = (static / name).read_bytes() if name in ("agent.js", "agent.css") else DOCUMENT.encode()
            kind = {"agent.js": "text/javascript", "agent.css": "text/css"}.get(name, "text/html")
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def open_panel(page: Page, address: str, message: dict[str, Any]) -> None:
    """Load the page, and have the message ready in it as ``window.full``."""
    page.goto(address)
    page.wait_for_function("window.ready")
    page.evaluate("text => { window.full = JSON.parse(text); }", json.dumps(message))
