"""What the reader sees of a run that grows: scroll bars, what stays in place, and the line with Stop."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from jupyterlab_page import Lab, Notebook
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from playwright.sync_api import Locator, Page, expect

LAB = {"settings": {}}

ASK = "%agent --new --model sonnet-4-5 --thinking off --approve never "
BELOW = [f"for line in range(12): print('cell', {number}, line)" for number in range(6)]
WATCH = """() => {
    window.seen = [];
    const scroller = document.querySelector('.jp-WindowedPanel-outer');
    const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[1];
    const area = () => cell.querySelector('.jp-Cell-outputArea').getBoundingClientRect();
    const look = () => {
        const window_ = scroller.getBoundingClientRect();
        const stops = [...cell.querySelectorAll('.ia-stop')].filter(stop => stop.offsetParent !== null);
        window.seen.push({
            top: cell.getBoundingClientRect().top - window_.top,
            end: area().bottom - window_.top,
            height: window_.height,
            stops: stops.length,
            text: cell.textContent.length,
        });
        window.watching = requestAnimationFrame(look);
    };
    look();
}"""
"""Note, in every frame, where the second cell and the end of its output are in the notebook's window."""
OVERFLOWING = """cell => [...cell.querySelectorAll('.jp-OutputArea, .jp-OutputArea-output, .ia-root')]
    .filter(node => node.scrollHeight > node.clientHeight || node.scrollWidth > node.clientWidth)
    .map(node => `${node.className}: ${node.scrollHeight}/${node.clientHeight}`)"""


def opened(lab: Lab, page: Page, *cells: str) -> Notebook:
    """A notebook at its top, with one more cell that has run."""
    name = f"following-{len(list(lab.folder.iterdir()))}.ipynb"
    lab.write(name, "%load_ext indus_nb", *cells)
    notebook = lab.open(page, name)
    notebook.run(0)
    notebook.wait_until_run(0)
    return notebook


def with_cells_below(lab: Lab, page: Page) -> Notebook:
    notebook = opened(lab, page, ASK + "tell me much", *BELOW)
    for number in range(len(BELOW)):
        notebook.run(2 + number)
        notebook.wait_until_run(2 + number)
    page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
    return notebook


def seen(page: Page) -> list[dict[str, Any]]:
    return page.evaluate("window.seen.splice(0)")


def now(page: Page) -> dict[str, Any]:
    """What is seen once nothing has moved for a while."""
    page.wait_for_function(
        """() => {
            const last = window.seen.slice(-20);
            return last.length === 20 && new Set(last.map(one => JSON.stringify(one))).size === 1;
        }"""
    )
    return seen(page)[-1]


def test_neither_a_run_nor_its_question_has_a_scroll_bar(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, ASK.replace("never", "writes") + "make a file")
    held = Gate()
    api.add(Reply(Text("I ", held, "will.")))
    notebook.run(1)
    cell: Locator = notebook.cell(1)
    expect(cell.locator(".ia-stop")).to_be_visible()
    expect(cell).to_contain_text("I ")
    assert cell.evaluate(OVERFLOWING) == []
    notebook.screenshot("no-scroll-bar")
    held.open()
    notebook.wait_until_run(1)


def test_the_cell_that_is_read_stays_in_view_with_others_below_it(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = with_cells_below(lab, page)
    short, long, end = Gate(), Gate(), Gate()
    lines = "".join(f"Line {number} of the answer.\n\n" for number in range(60))
    api.add(Reply(Text(lines[:200], short, lines[200:], long, lines, end, "The end."), chunk=60))
    page.evaluate(WATCH)
    notebook.run(1)
    cell = notebook.cell(1)
    short.reached.wait()
    expect(cell).to_contain_text("Line 7")
    before = now(page)
    assert before["top"] >= 0  # all of it is there
    assert before["end"] < before["height"]
    short.open()
    expect(cell).to_contain_text("Line 59")
    grown = now(page)
    assert grown["top"] < 0
    assert abs(grown["end"] - grown["height"]) < 60  # its end is
    notebook.screenshot("following")
    cell.hover()
    page.mouse.wheel(0, -700)
    page.wait_for_timeout(300)
    read = now(page)
    long.open()
    page.wait_for_function("length => window.seen.at(-1)?.text > length + 500", arg=read["text"])
    assert abs(now(page)["top"] - read["top"]) < 3  # the reader is left alone
    end.open()
    notebook.wait_until_run(1)
    page.evaluate("cancelAnimationFrame(window.watching)")


def test_a_fast_run_of_calls_ends_with_its_end_in_sight(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = with_cells_below(lab, page)
    calls = [Reply(ToolUse("bash", {"command": f"seq 1 {number + 5}"})) for number in range(15)]
    api.add(*calls, Reply("That was all of it."))
    page.evaluate(WATCH)
    notebook.run(1)
    notebook.wait_until_run(1)
    last = now(page)
    assert 0 < last["end"] <= last["height"], last
    expect(notebook.cell(1).locator(".indus-usage")).to_be_in_viewport()
    expect(notebook.cell(1).get_by_text("That was all of it.")).to_be_in_viewport()
    notebook.screenshot("fast-run")


def test_a_long_question_that_is_gone_leaves_the_run_in_view(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, ASK.replace("never", "writes") + "do much", *BELOW)
    held = Gate()
    command = "\n".join([*(f"echo {number}" for number in range(20)), "touch made"])
    lines = "".join(f"Line {number} of the answer.\n\n" for number in range(12))
    api.add(Reply(lines, ToolUse("bash", {"command": command})), Reply(Text("So it ", held, "is.")))
    page.evaluate(WATCH)
    notebook.run(1)
    cell = notebook.cell(1)
    dialog = cell.get_by_role("dialog")
    yes = dialog.get_by_role("button", name=re.compile("Yes")).first
    expect(yes).to_be_in_viewport(ratio=1)
    dialog.locator("pre").evaluate("shown => shown.scrollTo(0, shown.scrollHeight)")
    expect(yes).to_be_enabled()
    asked = now(page)
    assert asked["end"] <= asked["height"], asked
    yes.click()
    expect(cell).to_contain_text("So it")
    after = now(page)
    assert after["height"] / 3 < after["end"] <= after["height"], after
    held.open()
    notebook.wait_until_run(1)


def test_stop_is_in_every_frame_of_a_run(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, ASK + "go on")
    for number in range(8):
        api.add(Reply(f"Step {number}.", ToolUse("bash", {"command": f"sleep 0.2; seq 1 {number + 5}"})))
    held = Gate()
    api.add(Reply(Text("All ", held, "done.")))
    page.evaluate(WATCH)
    notebook.run(1)
    expect(notebook.cell(1)).to_contain_text("All")
    stops = [frame["stops"] for frame in seen(page)]
    began = stops.index(1)
    assert set(stops[began:]) == {1}, [(n, len([*same])) for n, same in groupby(stops)]
    held.open()
    notebook.wait_until_run(1)
