"""Undo in a real JupyterLab: what a cell says of what changed, and the menu of the panel."""

from __future__ import annotations

import json
import re

import pytest
from jupyterlab_page import KERNEL_IS_READY, Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page, expect

KEEPS_PAGE = True

START = "%load_ext indus_nb\nfrom pathlib import Path\nPath('clean.py').write_text('old')\nrows = [1, 2, 3]"
SESSION = "%agent --new --model anthropic/claude-sonnet-4-5 --thinking off --approve never "


def changes() -> tuple[Reply, ...]:
    return (
        Reply(ToolUse("python", {"code": "rows.pop()"})),
        Reply(ToolUse("python", {"code": "Path('clean.py').write_text('new'), Path('fresh.txt').touch()"})),
        Reply("The rows are clean."),
    )


def test_a_cell_says_what_changed_and_what_is_as_before(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("undo.ipynb", START, SESSION + "clean the rows", "%agent undo prompt", "print(rows)")
    notebook = lab.open(page, "undo.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add(*changes())
    notebook.run(1)
    notebook.wait_until_run(1)
    line = "Changed in all: rows 3 → 2 items, clean.py edited, fresh.txt new. %agent undo prompt takes it back."
    expect(notebook.cell(1)).to_contain_text(line)
    notebook.run(2)
    notebook.wait_until_run(2)
    expect(notebook.cell(2)).to_contain_text("Taken back: clean.py, fresh.txt (removed), rows.")
    notebook.screenshot("undo")
    notebook.run(3)
    expect(notebook.cell(3)).to_contain_text("[1, 2, 3]")
    assert (lab.folder / "clean.py").read_text() == "old"
    assert not (lab.folder / "fresh.txt").exists()


def test_the_menu_of_a_panel_undoes_and_asks_about_what_was_changed_since(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("undo-panel.ipynb", START, f"{SESSION}\n%agent panel", "rows.append('mine')", "print(rows)")
    notebook = lab.open(page, "undo-panel.ipynb")
    for number in (0, 1):
        notebook.run(number)
        notebook.wait_until_run(number)
    panel = notebook.cell(1)
    api.add(Reply(ToolUse("python", {"code": "rows.pop(); other = 1"})), Reply("The rows are clean."))
    panel.get_by_label("Message").fill("clean the rows")
    panel.get_by_label("Message").press("Enter")
    expect(panel).to_contain_text("The rows are clean.")
    notebook.run(2)
    notebook.wait_until_run(2)
    if panel.get_by_role("button", name="Menu").is_visible():
        panel.get_by_role("button", name="Menu").click()
    panel.get_by_role("button", name="Undo", exact=True).click()
    expect(panel).to_contain_text("rows was changed since, by you.")
    notebook.screenshot("undo-panel")
    panel.get_by_text("Leave it, and put the other one beside it").click()
    expect(panel).to_contain_text("new beside it: rows_before")
    notebook.run(3)
    expect(notebook.cell(3)).to_contain_text("[1, 2, 'mine']")


def test_going_back_in_the_tree_of_a_panel_offers_what_was_there(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("undo-tree.ipynb", START, f"{SESSION}\n%agent panel", "print(rows)")
    notebook = lab.open(page, "undo-tree.ipynb")
    for number in (0, 1):
        notebook.run(number)
        notebook.wait_until_run(number)
    panel = notebook.cell(1)
    api.add(*changes())
    panel.get_by_label("Message").fill("clean the rows")
    panel.get_by_label("Message").press("Enter")
    expect(panel).to_contain_text("The rows are clean.")
    if panel.get_by_role("button", name="Menu").is_visible():
        panel.get_by_role("button", name="Menu").click()
    panel.get_by_role("button", name="Tree", exact=True).click()
    panel.locator(".ia-entry").filter(has_text="clean the rows").click()
    expect(panel).to_contain_text("Also take back what the agent changed since?")
    expect(panel).to_contain_text("rows 3 → 2 items, clean.py edited, fresh.txt new")
    notebook.screenshot("undo-tree")
    panel.get_by_role("button", name="Yes, take it back").click()
    expect(panel).to_contain_text("Taken back: clean.py, fresh.txt (removed), rows.")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("[1, 2, 3]")


def test_cells_that_were_accepted_and_run_are_taken_back_and_come_back_with_their_outputs(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    undo, redo = "%agent undo prompt", "%agent redo 2"
    lab.write("undo-cells.ipynb", START, "total = 0", SESSION + "sum the rows", undo, redo, "print(rows, total)")
    notebook = lab.open(page, "undo-cells.ipynb")
    for number in (0, 1):
        notebook.run(number)
        notebook.wait_until_run(number)
    cells = [{"source": "## The sum", "cell_type": "markdown"}, {"source": "print('the sum is', sum(rows))"}]
    api.add(
        Reply(ToolUse("python", {"code": "rows.append(4)"})),
        Reply(
            ToolUse("propose_cell", {"cells": [*cells, {"source": "total = sum(rows)", "replace": notebook.id_of(1)}]})
        ),
        Reply("They are yours."),
    )
    notebook.run(2)
    dialog = notebook.cell(2).get_by_role("dialog")
    expect(dialog).to_contain_text("Put these 3 cells into the notebook?")
    dialog.get_by_role("button", name="Accept and run").click()
    notebook.wait_until_run(2)
    notebook.wait_until_run(4)
    expect(notebook.cell(4).locator(".jp-OutputArea")).to_contain_text("the sum is 10")
    expect(notebook.cell(2)).to_contain_text(
        re.compile(r"(4th cell|below \[\d+\]) new, .*(5th cell|below \[\d+\]) new, (the 2nd cell|cell \[\d+\]) edited")
    )
    expect(notebook.cell(1)).to_contain_text("total = sum(rows)")
    notebook.screenshot("undo-cells-before")

    notebook.run(5)
    notebook.wait_until_run(3)  # it has moved up
    expect(notebook.cell(3)).to_contain_text(re.compile(r"Taken back: (?=.*rows)(?:.*\(removed\)){2}"))
    expect(notebook.cell(1)).to_contain_text("total = 0")
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(6)
    notebook.screenshot("undo-cells")

    notebook.run(4)
    notebook.wait_until_run(6)
    expect(notebook.cell(6)).to_contain_text(re.compile(r"(?=.*rows)(?:.*\(put back\)){2}"))
    expect(notebook.cell(3)).to_contain_text("The sum")
    expect(notebook.cell(4).locator(".jp-OutputArea")).to_contain_text("the sum is 10")
    expect(notebook.cell(1)).to_contain_text("total = sum(rows)")
    notebook.save()
    assert [cell["source"] for cell in json.loads((lab.folder / "undo-cells.ipynb").read_text())["cells"]][3:5] == [
        ["## The sum"],
        ["print('the sum is', sum(rows))"],
    ]
    notebook.screenshot("redo-cells")


def test_a_cell_that_the_user_has_edited_since_is_asked_about(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("undo-asks.ipynb", START, f"{SESSION}\n%agent panel", "total = 0")
    notebook = lab.open(page, "undo-asks.ipynb")
    for number in (0, 1):
        notebook.run(number)
        notebook.wait_until_run(number)
    panel = notebook.cell(1)
    change = {"source": "total = sum(rows)", "replace": notebook.id_of(2)}
    api.add(Reply(ToolUse("propose_cell", change)), Reply("It is yours."))
    panel.get_by_label("Message").fill("sum the rows")
    panel.get_by_label("Message").press("Enter")
    panel.get_by_role("dialog").get_by_role("button", name="Accept", exact=True).click()
    expect(panel).to_contain_text("It is yours.")
    expect(notebook.cell(2)).to_contain_text("total = sum(rows)")
    notebook.cell(2).locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("  # mine")
    if panel.get_by_role("button", name="Menu").is_visible():
        panel.get_by_role("button", name="Menu").click()
    panel.get_by_role("button", name="Undo", exact=True).click()
    expect(panel).to_contain_text(
        re.compile(r"(the 3rd cell|(the (2nd )?cell below|cell) \[\d+\]) was changed since, by you\.")
    )
    notebook.screenshot("undo-cells-asks")
    panel.get_by_text("Leave it, and put the other one beside it").click()
    expect(panel).to_contain_text(re.compile(r"new beside it: the (4th cell|.*cell below \[\d+\])"))
    expect(notebook.cell(2)).to_contain_text("total = sum(rows)  # mine")
    expect(notebook.cell(3)).to_contain_text("total = 0")


def test_after_a_restart_the_first_undo_waits_for_the_page_that_has_the_cells(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("undo-restart.ipynb", "%load_ext indus_nb", SESSION + "propose", "%agent undo")
    notebook = lab.open(page, "undo-restart.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add(Reply(ToolUse("propose_cell", {"source": "total = 1"})), Reply("Done."))
    notebook.run(1)
    notebook.cell(1).get_by_role("button", name="Accept", exact=True).click()
    notebook.wait_until_run(1)
    expect(notebook.cell(2)).to_contain_text("total = 1")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.wait_for_function(KERNEL_IS_READY)
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run(3)
    expect(notebook.cell(2)).to_contain_text("%agent undo")
    expect(notebook.cell(2)).to_contain_text("Taken back: ")


@pytest.mark.parametrize("answer", ["Leave that, take back the rest", "No, change nothing"])
def test_how_an_undo_ended_whose_question_was_answered_after_a_reload_is_in_the_notebook(
    lab: Lab, page: Page, api: MessagesApi, answer: str
) -> None:
    name = f"reloaded-{answer[:2]}.ipynb"
    lab.write(name, "%load_ext indus_nb\nmine, other = [1], [1]", f"{SESSION}go", "mine.append(3)", "%agent undo", "1")
    notebook = lab.open(page, name)
    api.add(Reply(ToolUse("python", {"code": "mine.append(2); other.append(2)"})), Reply("Done."))
    for number in range(3):
        notebook.run(number)
        notebook.wait_until_run(number)
    notebook.run(3)
    cell = notebook.cell(3)
    expect(cell.get_by_role("dialog")).to_contain_text("mine was changed since, by you.")
    notebook.save()
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    cell.get_by_text(answer).click()
    outcome = "Taken back: other" if answer.startswith("Leave") else "Nothing was changed."
    expect(cell.locator(".jp-OutputArea")).to_contain_text(outcome)
    expect(cell.get_by_role("dialog")).to_have_count(0)
    notebook.cell(4).locator(".cm-content").click()
    notebook.save()
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    expect(cell.locator(".jp-OutputArea")).to_contain_text(outcome)
    expect(page.get_by_text(re.compile("Error displaying widget|model not found"))).to_have_count(0)
