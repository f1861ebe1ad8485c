"""Cells as the result of a run, in JupyterLab: proposed, accepted and run; or made of what the agent ran."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
from jupyterlab_page import Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page, expect

KEEPS_PAGE = True

LOAD = "%load_ext indus_nb"
ASK = "%agent --model anthropic/claude-sonnet-4-5 --thinking off --approve never "


def test_proposed_cells_are_accepted_and_run_in_one_question(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("propose.ipynb", LOAD, f"{ASK}go", "last = 1")
    cells = [
        {"source": "## Totals", "cell_type": "markdown"},
        {"source": "rows = [3, 4]\nprint('computing')\nsum(rows)"},
        {"source": "print('the sum is', _)"},
    ]
    api.add(Reply(ToolUse("propose_cell", {"cells": cells})), Reply("They are yours."), Reply("I see 7."))
    notebook = lab.open(page, "propose.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run(1)
    dialog = notebook.cell(1).get_by_role("dialog")
    expect(dialog).to_contain_text("Put these 3 cells into the notebook?")
    notebook.screenshot("proposed-cells")
    dialog.get_by_role("button", name="Accept and run").click()
    notebook.wait_until_run(1)
    notebook.wait_until_run(4)
    expect(notebook.cell(2)).to_contain_text("Totals")
    expect(notebook.cell(3).locator(".jp-OutputArea")).to_contain_text("computing")
    expect(notebook.cell(3).locator(".jp-OutputArea")).to_contain_text("7")
    expect(notebook.cell(4).locator(".jp-OutputArea")).to_contain_text("the sum is 7")
    expect(notebook.cell(5)).to_contain_text("last = 1")
    notebook.screenshot("accepted-cells-that-ran")
    page.keyboard.press("Escape")
    notebook.cell(5).locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("%agent what came out?")
    notebook.run(5)
    notebook.wait_until_run(5)
    assert "Out: int · 7" in str(api.requests[-1].body["messages"])


def test_a_run_becomes_cells_with_their_outputs_in_order(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("all.ipynb", LOAD, f"{ASK}look", "%agent cell all", "last = 1")
    shown = "from IPython.display import HTML\nprint('first')\nHTML('<b>bold words</b>')"
    api.add(
        Reply(ToolUse("python", {"code": shown}), ToolUse("python", {"code": "second = 2\nprint(second)"})),
        Reply(ToolUse("python", {"code": "1 / 0"})),
        Reply(ToolUse("python", {"code": "second"})),
        Reply(ToolUse("python", {"code": "third = 3"})),
        Reply("And now the last one.", ToolUse("python", {"code": "fourth = 4"})),
        Reply("Done."),
    )
    notebook = lab.open(page, "all.ipynb")
    for number in range(3):
        notebook.run(number)
        notebook.wait_until_run(number)
    expect(notebook.cell(3)).to_contain_text("print('first')")
    expect(notebook.cell(3).locator(".jp-OutputArea b")).to_have_text("bold words")
    expect(notebook.cell(3).locator(".jp-OutputArea")).to_contain_text("first")
    expect(notebook.cell(3).locator(".jp-OutputArea")).not_to_contain_text("↓")
    expect(notebook.cell(4)).to_contain_text("second = 2")
    expect(notebook.cell(4).locator(".jp-OutputArea")).to_contain_text("2")
    expect(notebook.cell(4).locator(".cm-content")).to_have_text("second = 2print(second)third = 3")
    expect(notebook.cell(5)).to_contain_text("fourth = 4")
    expect(notebook.cell(6)).to_contain_text("last = 1")
    expect(notebook.cell(2)).to_contain_text(
        "3 cells below hold what the agent ran, with what it gave. 1 call that only looked is left out."
    )
    notebook.screenshot("run-as-cells")


def test_work_in_cells_stands_below_the_cell_that_asks_with_its_outputs_and_holds_when_verified(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write(
        "in-cells.ipynb",
        *(LOAD, "rows = [3, 4]", f"{ASK}--cells total", "last = 1"),
        *("%agent verify", "%agent undo", "%agent redo"),
    )
    table = "import pandas as pd\nframe = pd.DataFrame({'a': rows})\nprint('made')\nframe"
    api.add(
        Reply(ToolUse("python", {"code": "len(rows)"})),
        Reply("First the frame.", ToolUse("python", {"code": table})),
        Reply(ToolUse("python", {"code": "total = frame.a.sum()\nprint(total)"})),
        Reply("It is 7."),
    )
    notebook = lab.open(page, "in-cells.ipynb")
    for number in range(3):
        notebook.run(number)
        notebook.wait_until_run(number)
    asking, first, second = (notebook.cell(number) for number in (2, 3, 4))
    expect(first.locator(".cm-content")).to_contain_text("frame = pd.DataFrame")
    expect(first.locator(".jp-OutputArea")).to_contain_text("made")
    expect(first.locator(".jp-OutputArea table")).to_have_count(1)
    expect(asking.locator(".jp-OutputArea table")).to_have_count(0)
    expect(second.locator(".jp-OutputArea")).to_contain_text("7")
    expect(notebook.cell(5)).to_contain_text("last = 1")
    expect(asking).to_contain_text(re.compile(r"the (4th cell|.*cell below \[\d+\]) new"))
    for cell, is_marked in ((asking, False), (first, True), (second, True), (notebook.cell(5), False)):
        expect(cell).to_have_class(re.compile("ia-of-agent") if is_marked else re.compile("^(?!.*ia-of-agent)"))
    sign = "cell => getComputedStyle(cell.querySelector('.jp-InputPrompt'), '::before').content"
    assert [cell.evaluate(sign) for cell in (asking, first, second)] == ["none", '"✓ "', '"✓ "'], "these were run"
    notebook.screenshot("work-in-cells")
    notebook.run(5)
    notebook.run(6)
    notebook.wait_until_run(6)
    expect(notebook.cell(6)).to_contain_text("All outputs are as the notebook shows them", timeout=90_000)
    notebook.save()
    saved = json.loads((lab.folder / "in-cells.ipynb").read_text())["cells"]
    marks = [cell["metadata"].get("indus_nb") for cell in saved]
    assert [mark is not None for mark in marks] == [False] * 3 + [True] * 2 + [False] * 4
    assert marks[3]["run"] == marks[4]["run"]
    notebook.run(7)
    expect(notebook.cell(6)).to_contain_text("Taken back")
    expect(notebook.cell(4)).to_contain_text("last = 1")
    notebook.run(7)
    expect(notebook.cell(8).locator(".jp-OutputArea")).to_contain_text("Done once more")
    expect(second.locator(".cm-content")).to_contain_text("total = ")
    expect(second).to_have_class(re.compile("ia-of-agent"))


def test_a_notebook_that_is_verified_says_what_it_runs_and_stop_ends_that(
    lab: Lab, page: Page, api: MessagesApi, tmp_path: Path
) -> None:
    ended = tmp_path / "ended"
    slow = f"import time, pathlib\ntime.sleep(600)\npathlib.Path({str(ended)!r}).touch()"
    lab.write("verify.ipynb", LOAD, f"{ASK}verify", "print('one')", slow, "print('next')")
    made = nbformat.read(lab.folder / "verify.ipynb", as_version=4)
    for number, cell in enumerate(made.cells, 1):
        cell.execution_count = number  # as where an earlier kernel has run them
    nbformat.write(made, lab.folder / "verify.ipynb")
    notebook = lab.open(page, "verify.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell).to_contain_text(
        re.compile(r"(the 4th cell|(the (\w+ )?cell below|cell) \[\d+\]) runs in a fresh kernel: import time, pathlib"),
        timeout=90_000,
    )
    notebook.screenshot("verifying")
    notebook.run(4)  # which waits its turn, and does not get it
    cell.get_by_role("button", name="Stop").click()
    expect(cell).to_contain_text("Stopped: the fresh kernel has ended, and all that its cells had started.")
    expect(cell).to_contain_text("2 of 4 cells ran well in a fresh kernel")
    expect(cell).to_contain_text(
        re.compile(r"(The 4th cell|(The (\w+ )?cell below|Cell) \[\d+\]) was running when it was stopped\.")
    )
    expect(cell.get_by_role("button", name="Stop")).to_have_count(0)
    notebook.screenshot("verifying-stopped")
    notebook.run(4)
    expect(notebook.cell(4).locator(".jp-OutputArea")).to_contain_text("next")
    assert not ended.exists()


def test_what_the_model_was_told_unfolds_above_the_answer_in_the_cell_the_file_and_a_panel(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("told.ipynb", LOAD, "price = 5\nprint('five')", f"{ASK}look", "%agent again", "%agent panel")
    api.add(Reply("It is **cheap**."), Reply("Still."))
    notebook = lab.open(page, "told.ipynb")
    for number in range(5):
        notebook.run(number)
        notebook.wait_until_run(number)
    told = notebook.cell(2).locator(".indus-context")
    line, text = told.locator("summary"), told.locator("pre")
    expect(line).to_have_text(re.compile(r"^Context · 1 cell, 1 variable, about \d+ tokens$"))
    expect(text).to_be_hidden()
    answer = notebook.cell(2).locator(".indus-answer").bounding_box()
    above = line.bounding_box()
    assert answer is not None
    assert above is not None
    assert above["y"] + above["height"] <= answer["y"]
    expect(notebook.cell(3).locator(".indus-answer")).to_have_text("Still.")
    expect(notebook.cell(3).locator(".indus-context")).to_have_count(0)
    line.click()
    expect(text).to_contain_text("price = 5")
    expect(text).to_contain_text("price: int · 5")
    in_panel = notebook.cell(4).locator(".ia-panel")
    expect(in_panel.locator(".indus-context")).to_have_count(1)
    in_panel.locator(".indus-context summary").click()
    expect(in_panel.locator(".indus-context pre")).to_contain_text("price = 5")
    notebook.screenshot("what-the-model-was-told")
    notebook.save()
    saved = lab.open_without_kernel(page, "told.ipynb")
    saved.cell(2).locator(".indus-context summary").click()
    expect(saved.cell(2).locator(".indus-context pre")).to_contain_text("price = 5")
