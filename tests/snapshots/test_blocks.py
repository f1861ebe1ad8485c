"""What a cell shows of a run, in the three formats of each display: one file for each kind of block."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from snapshot import SNAPSHOTS, assert_snapshot

from indus_nb.base.messages import Cost, CustomMessage, ImageContent, Usage
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import Call
from indus_nb.render.context import context
from indus_nb.render.live import LiveValue, pending
from indus_nb.render.writers import bundle

DOT = "R0lGODlhAQABAIAAAP8AAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="
EDIT = {"path": "a.py", "edits": [{"oldText": "1", "newText": "2"}]}
USAGE = Usage(input=1200, output=345, cache_read=10_000, total_tokens=11_545, cost=Cost(total=0.0123))
BUNDLES = {
    "waiting": blocks.waiting("Model M", 3.2),
    "answer": blocks.answer(
        "# Title\n\nText with `code`, **bold** and [a link](https://example.com).\n\n```python\nx = 1\n```\n"
    ),
    "hostile_answer": blocks.answer("<script>alert(1)</script> [x](javascript:alert(1)) ![i](https://e.com/i.png)"),
    "live_answer": blocks.answer(
        "It is `{python} mean(x)`, **`{python} y`**, `{python} z`.\n\n```\n`{python} mean(x)`\n```\n\n| a |\n|---|\n"
        "| `{python} mean(x)` |\n",
        {"mean(x)": LiveValue("<b>2</b> $5$ | `_"), "y": LiveValue(problem="NameError: \"y'")}.get,
    ),
    "growing_live_answer": blocks.answer("It is `{python} mean(x)`", pending),
    "thinking": blocks.thinking("First this.\n\nThen that."),
    "growing_thinking": blocks.thinking("First", growing=True),
    "call_in_writing": blocks.call(Call("write", {"path": "a.py"}, written=300)),
    "call_running": blocks.call(
        Call("bash", {"command": "make test"}, state="running", begun=True, output="1 of 3", seconds=2)
    ),
    "call_done": blocks.call(Call("bash", {"command": "make test"}, state="done", output="3 passed", seconds=12.3)),
    "call_failed": blocks.call(Call("read", {"path": "none.txt"}, state="failed", output="There is no file none.txt.")),
    "call_not_run": blocks.call(Call("grep", {"pattern": "x+", "path": "src"}, state="not run")),
    "call_with_a_diff": blocks.call(
        Call("edit", EDIT, state="done", output="ok", diff="-1 x = 1\n+1 x = 2", seconds=0.1)
    ),
    "said": blocks.user_message("what is odd about <sales>?"),
    "picture": blocks.picture(ImageContent(data=DOT, mime_type="image/gif")),
    "folded": blocks.folded("Summary", "what was said before"),
    "context": bundle(
        context(CustomMessage(custom_type="cells", content="Cell [1]:\nx = 1", details={"toldCells": 1}))
    ),
    "notice": blocks.notice("Another model answers from now on."),
    "listing": blocks.listing("one\ntwo"),
    "usage": blocks.usage("Model M", blocks.measures(USAGE, 12.3)),
    "usage_of_what_was_stopped": blocks.usage("Model M", "stopped"),
    "error": blocks.error("No key for anthropic. Set ANTHROPIC_API_KEY."),
}


def as_text(bundle: Mapping[str, str]) -> str:
    """All formats below each other, HTML with a line for each element."""
    lines = {kind: text.replace("><", ">\n<") if kind == "text/html" else text for kind, text in bundle.items()}
    return "\n".join(f"=== {kind}\n{text.rstrip()}\n" for kind, text in sorted(lines.items()))


@pytest.mark.parametrize("name", BUNDLES)
def test_a_block_looks_as_it_did(name: str) -> None:
    assert_snapshot(f"blocks/{name}.txt", as_text(BUNDLES[name]))


def test_every_snapshot_of_a_block_is_compared() -> None:
    assert {path.stem for path in (SNAPSHOTS / "blocks").iterdir()} == set(BUNDLES)
