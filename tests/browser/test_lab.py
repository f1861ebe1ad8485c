"""``%agent`` as a user of JupyterLab sees it, in a real browser."""

from __future__ import annotations

import json

import nbformat
from hostile import HOSTILE
from jupyterlab_page import Lab
from messages_api import Gate, MessagesApi, Reply, Text, Thinking, ToolUse
from playwright.sync_api import Page, expect

LOAD = "%load_ext indus_nb"


def test_a_transcript_appears_can_be_interrupted_and_stays_in_the_file(lab: Lab, page: Page) -> None:
    (lab.folder / "notes.txt").write_text("remember the milk\n")
    lab.write("demo.ipynb", LOAD, "%agent --provider offline list the files here", "%agent run sleep 60", "6 * 7")
    notebook = lab.open(page, "demo.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)

    notebook.run(1)
    notebook.wait_until_run(1)
    listing = notebook.cell(1)
    expect(listing.locator(".indus-call summary")).to_contain_text("bash")
    expect(listing.locator(".indus-call pre")).to_contain_text("notes.txt")
    expect(listing.locator(".indus-answer").last).to_contain_text("notes.txt")
    expect(listing.locator(".indus-usage")).to_contain_text("offline")
    expect(listing.locator(".indus-waiting")).to_have_count(0)

    notebook.run(2)
    sleeping = notebook.cell(2)
    expect(sleeping.locator(".indus-call")).to_contain_text("●")
    notebook.interrupt()
    notebook.wait_until_run(2)
    expect(sleeping.locator(".indus-call summary")).to_contain_text("✗")
    expect(sleeping).to_contain_text("Interrupted: the agent was stopped.")
    notebook.run(3)
    expect(notebook.cell(3)).to_contain_text("42")
    notebook.save()

    lab.shut_down_kernels()
    reopened = lab.open_without_kernel(page, "demo.ipynb")
    expect(reopened.cell(1).locator(".indus-call pre")).to_contain_text("notes.txt")
    expect(reopened.cell(1).locator(".indus-answer").last).to_contain_text("notes.txt")
    expect(reopened.cell(2).locator(".indus-call summary")).to_contain_text("✗")
    reopened.screenshot("reopened")


SAID = """\
The test fails because `mean` divides by **zero** for an empty list. I changed it to raise a `ValueError` instead:

```python
def mean(values: list[float]) -> float:
    \"\"\"The mean of some values.\"\"\"
    if not values:  # nothing to divide by
        raise ValueError("mean() of nothing")
    return sum(values) / len(values)
```

| input | before | after |
|---|---|---|
| `[1, 2, 3]` | 2.0 | 2.0 |
| `[]` | `ZeroDivisionError` | `ValueError` |

1. The running time is still $O(n)$, and costs neither $1 nor $2.
2. See the [documentation](https://docs.python.org/3/library/statistics.html) for *other* means.

> Errors should never pass silently.

"""


def a_whole_transcript(lab: Lab, api: MessagesApi, name: str) -> None:
    """A notebook, and answers that show everything that a transcript is made of."""
    (lab.folder / "stats.py").write_text("def mean(values):\n    return sum(values) / len(values)\n")
    edit = {
        "path": "stats.py",
        "edits": [
            {
                "oldText": "    return",
                "newText": '    if not values:\n        raise ValueError("mean() of nothing")\n    return',
            }
        ],
    }
    usage = {"input_tokens": 1900, "cache_read_input_tokens": 1200}
    api.add(
        Reply(
            Thinking("The user wants me to fix a test. First I look at **the code**.\n\nThen I run it."),
            "I look at the code first.",
            ToolUse("read", {"path": "stats.py"}),
            ToolUse("bash", {"command": "python -c 'from stats import mean; mean([])'"}),
            usage=usage,
        ),
        Reply("An empty list is not handled.", ToolUse("edit", edit), ToolUse("bash", {"command": "seq 1 300"})),
        Reply(SAID, usage=usage),
        Reply(Text("I begin to think about ", Gate())),
    )
    lab.write(
        name,
        "# A conversation",
        LOAD,
        "%%agent --model sonnet-4-5\nThe test of `mean` in stats.py fails. Why? Please mend it.",
        "%agent what is the meaning of it?",
    )


def test_a_whole_transcript_can_be_read_in_light_dark_and_untrusted(lab: Lab, api: MessagesApi, page: Page) -> None:
    a_whole_transcript(lab, api, "whole.ipynb")
    page.set_viewport_size({"width": 1200, "height": 1900})
    notebook = lab.open(page, "whole.ipynb")
    notebook.run(1)
    notebook.wait_until_run(1)
    notebook.run(2)
    notebook.wait_until_run(2)
    cell = notebook.cell(2)
    expect(cell.locator(".indus-call")).to_have_count(4)
    expect(cell.locator(".indus-answer table")).to_have_count(1)
    expect(cell.locator("mjx-container")).to_have_count(1)  # one formula; the prices are none
    expect(cell.get_by_text("neither $1 nor $2")).to_have_count(1)
    notebook.run(3)
    expect(notebook.cell(3).locator(".indus-answer")).to_contain_text("I begin to think about")
    notebook.screenshot("light")
    notebook.use_theme("JupyterLab Dark")
    notebook.screenshot("dark")
    notebook.use_theme("JupyterLab Light")
    notebook.interrupt()
    notebook.wait_until_run(3)
    notebook.save()

    lab.shut_down_kernels()
    saved = nbformat.read(lab.folder / "whole.ipynb", as_version=4)
    saved.cells[0].source += " from elsewhere"  # which makes it untrusted
    nbformat.write(saved, lab.folder / "elsewhere.ipynb")
    untrusted = lab.open_without_kernel(page, "elsewhere.ipynb")
    expect(untrusted.cell(2)).to_contain_text("mean() of nothing")
    expect(untrusted.cell(2).locator("table")).to_have_count(1)
    expect(untrusted.cell(2).locator("details")).to_have_count(6)
    untrusted.screenshot("untrusted")


def test_hostile_text_neither_acts_nor_loads_anything_in_a_trusted_notebook(lab: Lab, page: Page) -> None:
    (lab.folder / "hostile.json").write_text(json.dumps(HOSTILE))
    show = """
import json
from IPython.display import display
from indus_nb.front.notebook.view import blocks
shown = []
for text in json.load(open("hostile.json")):
    call = blocks.Call(text, {"command": text, text: text}, state="done", output=text)
    diff = blocks.Call(text, {}, state="done", diff="+" + text)
    shown.append([blocks.answer(text), blocks.thinking(text, growing=True), blocks.call(call), blocks.call(diff),
                  blocks.error(text), blocks.notice(text)])
pairs = [sum(shown[at:at + 2], []) for at in range(0, len(shown), 2)]  # of many outputs JupyterLab shows 50
for bundles in pairs:
    display({"text/html": "".join(bundle["text/html"] for bundle in bundles)}, raw=True)
"""
    markdown = """
for bundles in pairs:
    display({"text/markdown": "\\n\\n".join(bundle["text/markdown"] for bundle in bundles)}, raw=True)
"""
    lab.write("hostile.ipynb", show, markdown, "print('end')")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("dialog", lambda dialog: requested.append(dialog.message))
    notebook = lab.open(page, "hostile.ipynb")
    for number in range(3):
        notebook.run(number)
        notebook.wait_until_run(number)
    expect(notebook.cell(2).locator(".jp-OutputArea-output")).to_contain_text("end")
    expect(notebook.cell(0).locator(".indus-call")).to_have_count(2 * len(HOSTILE))
    expect(notebook.cell(1).locator(".jp-RenderedMarkdown")).to_have_count((len(HOSTILE) + 1) // 2)
    page.evaluate("() => new Promise(requestIdleCallback)")
    assert page.evaluate("window.hacked") is None
    assert [
        url for url in requested if not url.startswith((lab.url, lab.url.replace("http", "ws"), "data:", "blob:"))
    ] == []
    assert page.locator(".jp-OutputArea-output").locator("script, iframe, img, object, embed, form").count() == 0


def test_the_agent_asks_in_the_cell_before_it_runs_a_command_and_works_on_live_objects(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    call = ToolUse("python", {"code": "total = sum(numbers)\nprint('the sum is', total)"})
    api.add(Reply(call), Reply("It is **6**."))
    lab.write(
        "asking.ipynb",
        LOAD,
        "numbers = [1, 2, 3]",
        "%agent --model sonnet-4-5 --thinking off --approve writes what is the sum of my numbers?",
        "total",
    )
    notebook = lab.open(page, "asking.ipynb")
    for index in (0, 1):
        notebook.run(index)
        notebook.wait_until_run(index)
    notebook.run(2)
    cell = notebook.cell(2)
    question = cell.get_by_role("dialog")
    expect(question).to_contain_text("This adds total. Run this code in your kernel?")
    expect(question).to_contain_text("total = sum(numbers)")
    notebook.screenshot("asking")
    question.get_by_role("button", name="Yes", exact=True).click()
    notebook.wait_until_run(2)
    expect(cell.locator(".indus-call pre").last).to_contain_text("the sum is 6")
    notebook.run(3)
    expect(notebook.cell(3)).to_contain_text("6")
    notebook.screenshot("answered")
