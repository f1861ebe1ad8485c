"""Values in answers that do not hold any more, in JupyterLab: marked after the cell that ran, and computed by a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from jupyterlab_page import Lab
from kernels import private_environment
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page, expect

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

LAB = {"extension": True}
KEEPS_PAGE = True

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")

ASK = "%agent --model anthropic/claude-sonnet-4-5 --thinking off --approve never so"
WATCH = """button => {
    window.framesOfComputing = 0;
    const look = () => {
        if (button.textContent.startsWith("Computing")) window.framesOfComputing += 1;
        requestAnimationFrame(look);
    };
    look();
}"""
FRAMES_OF_DRAWING = 2
"""For how many frames at most a button says something that is overwritten when the page draws."""
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}


def problems(page: Page, context: str) -> list[str]:
    return [each["id"] for each in Axe().run(page, context=context, options=RULES).response["violations"]]


def ground(place: Any) -> str:
    return place.evaluate("node => getComputedStyle(node).backgroundColor")


def test_a_stale_value_is_marked_at_once_and_computed_by_a_key_beside_the_old_one(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("stale.ipynb", "%load_ext indus_nb\nitems = [1, 2]", ASK, "items.append(3)", "items.pop()")
    api.add("In all `{python} sum(items)` in `{python} len(items)` items, of 1 kind.")
    notebook = lab.open(page, "stale.ipynb")
    for number in range(2):
        notebook.run(number)
        notebook.wait_until_run(number)
    output = notebook.cell(1).locator(".jp-OutputArea").first
    total = output.get_by_title("sum(items)")
    expect(total).to_have_text("3")
    line = output.locator(".indus-outdated-line")
    expect(line).to_have_count(0)
    quiet = ground(total)
    notebook.run(2)
    expect(line).to_contain_text("2 values are from before [3] ran.")
    expect(output).to_contain_text("In all 3 (old) in 2 (old) items")
    assert ground(total) != quiet
    assert problems(page, ".jp-OutputArea:has(.indus-outdated-line)") == []
    notebook.screenshot("stale-values")
    button = line.get_by_role("button", name="Compute again")
    page.evaluate(WATCH, button.element_handle())
    button.focus()
    page.keyboard.press("Enter")
    expect(output).to_contain_text("In all 3 → 6 now in 2 → 3 now items")
    expect(line).to_contain_text("2 values have changed. The file keeps the old values: run the cell again for a new")
    expect(line.get_by_role("button")).to_have_count(0)
    assert page.evaluate("window.framesOfComputing") > FRAMES_OF_DRAWING
    assert problems(page, ".jp-OutputArea:has(.indus-outdated-line)") == []
    notebook.run(3)
    expect(line).to_have_count(0)
    expect(output).to_contain_text("In all 3 in 2 items")
    assert ground(total) == quiet
    notebook.run(2)
    expect(output).to_contain_text("In all 3 → 6 now in 2 → 3 now items")
    notebook.save()
    assert "6 now" not in (lab.folder / "stale.ipynb").read_text()


def test_that_a_cell_ran_is_said_beside_the_button_until_it_has_ended(lab: Lab, page: Page, api: MessagesApi) -> None:
    waits = "import pathlib, time\nprint('begun')\nwhile not pathlib.Path('go-on').exists(): time.sleep(0.02)"
    lab.write("busy.ipynb", "%load_ext indus_nb\nrows = [1, 2]", ASK, "rows.append(4)", waits)
    api.add("In all `{python} sum(rows)`.")
    notebook = lab.open(page, "busy.ipynb")
    for number in range(2):
        notebook.run(number)
        notebook.wait_until_run(number)
    line = notebook.cell(1).locator(".indus-outdated-line")
    notebook.run(2)
    expect(line).to_contain_text("1 value is from before")
    notebook.run(3)
    expect(notebook.cell(3).locator(".jp-OutputArea")).to_contain_text("begun")
    line.get_by_role("button", name="Compute again").click()
    expect(line).to_contain_text("A cell of yours was running")
    (lab.folder / "go-on").touch()
    notebook.wait_until_run(3)
    expect(line).not_to_contain_text("A cell of yours")
    expect(line).to_contain_text("1 value is from before")
    line.get_by_role("button", name="Compute again").click()
    expect(line).to_contain_text("1 value has changed.")


def test_marks_come_back_with_the_page_and_go_with_an_undo(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("undone.ipynb", "%load_ext indus_nb\nrows = [1, 2]", ASK, f"{ASK} change", "%agent undo")
    api.add("In all `{python} sum(rows)`.")
    notebook = lab.open(page, "undone.ipynb")
    for number in range(2):
        notebook.run(number)
        notebook.wait_until_run(number)
    output = notebook.cell(1).locator(".jp-OutputArea").first
    line = output.locator(".indus-outdated-line")
    api.add(Reply(ToolUse("python", {"code": "rows.append(5)"})))
    api.add("Done.")
    notebook.run(2)
    notebook.wait_until_run(2)
    expect(line).to_contain_text("1 value is from before rows changed.")
    notebook.save()
    page.reload()
    expect(output).to_contain_text("In all 3 (old).")
    notebook.run(3)
    expect(output).to_contain_text("In all 3.")
    expect(line).to_have_count(0)


def test_the_panel_marks_them_too_and_computes_them_by_a_click(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("panel.ipynb", "%load_ext indus_nb\nrows = [1, 2]", ASK, "%agent panel", "rows.append(7)")
    api.add("In all `{python} sum(rows)`.")
    notebook = lab.open(page, "panel.ipynb")
    for number in range(3):
        notebook.run(number)
        notebook.wait_until_run(number)
    panel = page.locator(".ia-panel").first
    expect(panel).to_contain_text("In all 3.")
    notebook.run(3)
    line = panel.locator(".indus-outdated-line")
    expect(line).to_contain_text("1 value in answers above is from before [4] ran.")
    expect(panel).to_contain_text("In all 3 (old).")
    assert problems(page, ".ia-panel") == []
    line.get_by_role("button", name="Compute again").click()
    expect(panel).to_contain_text("In all 3 → 10 now.")
    expect(line).to_contain_text("1 value in answers above has changed.")
    expect(line).not_to_contain_text("run the cell again")  # which need not be a cell's answer


def test_they_are_marked_in_notebook_7(tmp_path: Path, page: Page, api: MessagesApi) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Lab(folder, environment, program="notebook", extension=True) as jupyter:
        jupyter.write("seven.ipynb", "%load_ext indus_nb\nrows = [1, 2]", ASK, "rows.append(5)")
        api.add("In all `{python} sum(rows)`.")
        notebook = jupyter.open(page, "seven.ipynb")
        for number in range(3):
            notebook.run(number)
            notebook.wait_until_run(number)
        output = notebook.cell(1).locator(".jp-OutputArea").first
        expect(output).to_contain_text("In all 3 (old).")
        output.get_by_role("button", name="Compute again").click()
        expect(output).to_contain_text("In all 3 → 8 now.")
