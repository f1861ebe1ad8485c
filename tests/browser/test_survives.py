"""What stays of runs and panels when their page or their kernel goes away, in a real JupyterLab."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyterlab_page import KERNEL_IS_READY, Lab, Notebook, keep_screenshot
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from playwright.sync_api import Browser, Page, expect

LOAD = "%load_ext indus_nb\nimport os\nprint(os.getpid())"
ASK = "%agent --new --model sonnet-4-5 --thinking off "
PANEL = "%agent --new --model sonnet-4-5 --thinking off\n%agent panel"
NO_WIDGETS = "() => !window.jupyterapp.shell.currentWidget.model.getMetadata('widgets')"
NOTED = "() => window.jupyterapp.shell.currentWidget.content.model.getMetadata('widgets')"
RESTART = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"


def opened(lab: Lab, page: Page, name: str, *cells: str) -> tuple[Notebook, int]:
    """A notebook whose first cell has loaded the extension, and its kernel's process."""
    lab.write(name, LOAD, *cells)
    notebook = lab.open(page, name)
    notebook.run(0)
    notebook.wait_until_run(0)
    return notebook, int(notebook.cell(0).locator(".jp-OutputArea-output").inner_text())


def outputs(lab: Lab, name: str, number: int) -> list[dict[str, Any]]:
    return json.loads((lab.folder / name).read_text())["cells"][number]["outputs"]


def opened_again(page: Page) -> None:
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    page.wait_for_function(KERNEL_IS_READY, timeout=60_000)


@pytest.mark.parametrize("crash", [False, True])
def test_a_run_and_a_panel_say_that_their_kernel_is_gone(lab: Lab, page: Page, api: MessagesApi, crash: bool) -> None:
    name = f"gone-{crash}.ipynb"
    notebook, kernel = opened(lab, page, name, PANEL, "%agent count", "print('next')")
    notebook.run(1)
    panel = notebook.cell(1).locator(".ia-panel")
    expect(panel).to_be_visible()
    held = Gate()
    api.add(Reply("First part.", ToolUse("bash", {"command": "true"})), Reply(Text("One, two", held, "never said")))
    notebook.run(2)
    cell = notebook.cell(2)
    expect(cell.locator(".indus-answer").last).to_contain_text("One, two")
    panel.get_by_label("Message").fill("a draft")
    notebook.save()
    if crash:
        os.kill(kernel, signal.SIGKILL)
    else:
        page.evaluate(RESTART)
    expect(cell).to_contain_text("The kernel was restarted: this run ended. What was finished is above.")
    expect(cell).to_contain_text("One, two")
    expect(cell.get_by_role("button", name="Stop")).to_have_count(0)
    expect(panel.locator(".ia-ended")).to_contain_text("The kernel was restarted. Run the cell again to go on.")
    expect(panel.get_by_role("button", name="Send")).to_be_disabled()
    assert panel.get_by_label("Message").input_value() == "a draft"
    if crash:
        page.locator(".jp-Dialog").get_by_role(
            "button", name="Ok", exact=True
        ).click()  # JupyterLab says that the kernel died
    notebook.screenshot(f"kernel-gone-{crash}")
    held.open()

    notebook.cell(3).locator(".cm-content").click()
    notebook.save()
    assert "application/vnd.jupyter.widget-view+json" not in json.dumps(outputs(lab, name, 2))
    opened_again(page)
    expect(notebook.cell(2)).to_contain_text("One, two")
    expect(notebook.cell(1)).to_contain_text("A chat with the agent. Run the cell to open it again.")
    expect(page.get_by_text(re.compile("Error displaying widget|model not found"))).to_have_count(0)
    notebook.screenshot(f"kernel-gone-{crash}-opened-again")


def test_a_saved_panel_is_a_line_without_a_broken_link_in_a_kernel_that_did_not_make_it(lab: Lab, page: Page) -> None:
    notebook, _ = opened(lab, page, "saved-panel.ipynb", PANEL)
    notebook.run(1)
    expect(notebook.cell(1).locator(".ia-panel")).to_be_visible()
    page.wait_for_function(NOTED)
    notebook.save()
    lab.shut_down_kernels()
    opened_again(page)
    saved = notebook.cell(1)
    widget = saved.locator(".jupyter-widgets-disconnected")
    expect(widget).to_have_text("A chat with the agent. Run the cell to open it again.")
    keep_screenshot(page, "saved-panel-of-another-kernel")
    assert widget.evaluate("node => getComputedStyle(node, '::before').display") == "none"


@pytest.mark.parametrize("saved", [True, False])
def test_an_answer_that_ended_without_a_page_is_in_the_notebook_afterwards(
    lab: Lab, browser: Browser, api: MessagesApi, saved: bool
) -> None:
    name = f"away-{saved}.ipynb"
    held, ends = Gate(), Gate()
    asked = len(api.requests)
    api.add(
        Reply(Text("First part. ", held), ToolUse("bash", {"command": "echo from a command"})),
        Reply(Text("The answer is ", ends, "**42**.")),
    )
    page = browser.new_page()
    notebook, _ = opened(lab, page, name, ASK + "ask", "print('next')")
    notebook.save()
    notebook.run(1)
    expect(notebook.cell(1)).to_contain_text("First part.")
    if saved:
        notebook.save()
    page.close(run_before_unload=False)
    held.open()
    api.wait_for_requests(asked + 2)
    ends.open()

    page = browser.new_page(viewport={"width": 1200, "height": 900})
    notebook = lab.open(page, name)
    cell = notebook.cell(1)
    expect(cell.locator(".indus-usage")).to_contain_text("sonnet")
    expect(cell.locator(".ia-root")).to_have_count(0)
    expect(cell).to_contain_text("First part.")
    expect(cell.locator(".indus-call")).to_contain_text("from a command")
    expect(cell.locator(".indus-answer").last).to_contain_text("The answer is 42.")
    expect(page.get_by_text(re.compile("Error displaying widget|model not found"))).to_have_count(0)
    notebook.screenshot(f"away-{saved}")
    page.wait_for_function(NO_WIDGETS)
    notebook.cell(2).locator(".cm-content").click()
    notebook.save()
    kept = nbformat.read(lab.folder / name, as_version=4)
    assert "widgets" not in kept.metadata
    known = json.loads((lab.folder.parent / "agent" / "notebooks.json").read_text())
    assert Path(known[kept.metadata["indus_nb"]["id"]][-1]).is_file()
    assert [output.output_type for output in kept.cells[1].outputs] == ["display_data"] * len(kept.cells[1].outputs)
    assert "The answer is **42**." in json.dumps(kept.cells[1].outputs)
    page.close()


def test_a_page_that_is_loaded_again_has_all_of_the_run_in_its_notebook(lab: Lab, page: Page, api: MessagesApi) -> None:
    held = Gate()
    api.add(
        Reply("First part.", ToolUse("bash", {"command": "echo from a command"})),
        Reply(Text("The answer ", held, "is 42.")),
    )
    notebook, _ = opened(lab, page, "again.ipynb", "print('before')\n" + ASK + "ask", "print('next')")
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.locator(".indus-answer").last).to_contain_text("The answer")
    notebook.save()
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    expect(cell.get_by_role("button", name="Stop")).to_be_visible()
    held.open()
    expect(cell.locator(".indus-usage")).to_have_count(1)
    expect(cell.locator(".ia-root")).to_have_count(0)
    expect(cell.locator(".indus-answer").last).to_contain_text("The answer is 42.")
    expect(cell.locator(".jp-OutputArea-output").first).to_have_text("before")
    expect(cell.get_by_text("First part.")).to_have_count(1)


MOVE_DOWN = "window.jupyterapp.commands.execute('notebook:move-cell-down')"


def test_a_cell_that_is_moved_while_its_answer_comes_has_all_of_it(lab: Lab, page: Page, api: MessagesApi) -> None:
    began, held = Gate(), Gate()
    api.add(
        Reply("An earlier paragraph.", ToolUse("bash", {"command": "echo from a command"})),
        Reply(Text("While it ", began, "is moved.\n\n"), ToolUse("bash", {"command": "echo more"})),
        Reply(Text("The answer ", held, "is 42.")),
    )
    notebook, _ = opened(lab, page, "moved.ipynb", ASK + "ask", "print('next')", "print('last')")
    notebook.run(1)
    expect(notebook.cell(1)).to_contain_text("While it")
    notebook.cell(1).locator(".jp-InputPrompt").click()
    page.evaluate(MOVE_DOWN)
    cell = notebook.cell(2)
    expect(cell.get_by_role("button", name="Stop")).to_be_visible()
    began.open()
    expect(cell).to_contain_text("The answer")
    for text in ("An earlier paragraph.", "While it is moved."):
        expect(cell.locator(".indus-answer").get_by_text(text)).to_have_count(1)
    page.evaluate(MOVE_DOWN)
    cell = notebook.cell(3)
    expect(cell.get_by_role("button", name="Stop")).to_be_visible()
    held.open()
    expect(cell.locator(".indus-usage")).to_have_count(1)
    expect(cell.locator(".ia-root")).to_have_count(0)
    expect(cell.locator(".indus-answer").last).to_have_text("The answer is 42.")
    for text in ("An earlier paragraph.", "While it is moved."):
        expect(cell.locator(".indus-answer").get_by_text(text)).to_have_count(1)
    notebook.screenshot("moved")
    page.wait_for_function(NO_WIDGETS)
    notebook.save()
    kept = json.dumps(outputs(lab, "moved.ipynb", 3))
    assert [kept.count(each) > 0 for each in ("An earlier paragraph.", "The answer is 42.", "The live view")] == [
        *(True, True, False),
    ]


STOPPED = "Stopped. What was said and done so far stays here, but the model will not see what it said last."


def test_a_run_that_is_stopped_in_a_page_that_was_loaded_again_says_so_there(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    api.add(Reply(Text("On and on ", Gate())))
    notebook, _ = opened(lab, page, "stopped.ipynb", ASK + "ask", "print('next')")
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.locator(".indus-answer")).to_contain_text("On and on")
    notebook.save()
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    cell.get_by_role("button", name="Stop").click()
    expect(cell.locator(".indus-usage")).to_have_count(1)
    expect(cell.locator(".ia-root")).to_have_count(0)
    expect(cell.get_by_text(STOPPED)).to_have_count(1)


def test_a_question_whose_kernel_was_restarted_leaves_its_code_in_the_cell(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("asked.ipynb", "%load_ext indus_nb\nsales = [1, 2]", "%agent --model sonnet-4-5 --approve writes tidy")
    notebook = lab.open(page, "asked.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add(Reply(ToolUse("python", {"code": "sales = sales[:1]"})))
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.get_by_role("dialog")).to_contain_text("sales = sales[:1]")
    page.evaluate(RESTART)
    expect(cell).to_contain_text("The kernel was restarted: this run ended.")
    expect(cell).to_contain_text("preview, not run")
    expect(cell).not_to_contain_text("not run yet")
    expect(cell.locator("pre", has_text="sales = sales[:1]")).to_be_visible()
    notebook.screenshot("restarted-at-a-question")


def test_a_cell_that_is_run_again_after_a_restart_replaces_its_turn(lab: Lab, page: Page, api: MessagesApi) -> None:
    api.add("Zero.", "One.", "Two.")
    notebook, _ = opened(lab, page, "rerun.ipynb", ASK + "begin", "%agent --continue count")
    for number in (1, 2):
        notebook.run(number)
        notebook.wait_until_run(number)
    expect(notebook.cell(2)).to_contain_text("One.")
    notebook.save()
    page.evaluate(RESTART)
    page.wait_for_function(KERNEL_IS_READY, timeout=60_000)
    opened_again(page)  # the cells are those of the file now
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run(2)
    notebook.wait_until_run(2)
    cell = notebook.cell(2)
    expect(cell.locator(".indus-answer")).to_have_text("Two.")
    expect(cell.locator(".indus-usage")).to_contain_text("replaces the answer before")
    assert [m["content"][-1]["text"] for m in api.requests[-1].body["messages"]] == ["begin", "Zero.", "count"]


def test_another_client_that_was_there_before_sees_the_run_and_can_answer(
    lab: Lab, page: Page, browser: Browser, api: MessagesApi
) -> None:
    api.add(Reply("I will.", ToolUse("bash", {"command": "touch by-another"})), Reply("Done."))
    notebook, _ = opened(lab, page, "two.ipynb", ASK + "--approve always ask", "print('next')")
    notebook.save()
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    other = lab.open(context.new_page(), "two.ipynb")
    notebook.run(1)
    expect(notebook.cell(1).get_by_role("dialog")).to_contain_text("touch by-another")
    question = other.cell(1).get_by_role("dialog")
    expect(question).to_contain_text("touch by-another")
    other.screenshot("another-client")
    question.get_by_role("button", name=re.compile(r"^Yes\b")).first.click()
    for each in (notebook, other):
        expect(each.cell(1).locator(".indus-usage")).to_have_count(1)
        expect(each.cell(1).locator(".indus-answer").last).to_contain_text("Done.")
        expect(each.cell(1).locator(".ia-root")).to_have_count(0)
    context.close()


@pytest.mark.parametrize("by", ["a click", "a number"])
def test_a_page_that_was_too_busy_takes_the_question_over_and_shows_each_word_once(
    lab: Lab, page: Page, api: MessagesApi, by: str
) -> None:
    made, held = lab.folder / f"by-{by.split()[1]}", Gate()
    api.add(
        Reply(Text("I look, "), ToolUse("bash", {"command": f"touch {made.name}"})),
        Reply(Text("On and ", held, "on.")),
    )
    notebook, _ = opened(lab, page, f"{made.name}.ipynb", ASK + "--approve writes look", "6 * 7")
    cell = notebook.cell(1)
    notebook.run_in_busy_page(1, seconds=7)
    typed, question = cell.locator(".jp-Stdin-input"), cell.get_by_role("dialog")
    expect(typed).to_be_visible()
    expect(question).to_contain_text(f"touch {made.name}")
    expect(cell.get_by_text("I look,")).to_have_count(1)
    notebook.screenshot(f"late-{made.name}")
    if by == "a click":
        question.get_by_role("button", name=re.compile(r"^Yes\b")).first.click()
    else:
        typed.fill("1")
        typed.press("Enter")
    expect(question).to_have_count(0)
    expect(typed).to_be_hidden()
    expect(cell).to_contain_text("On and")
    held.open()
    notebook.wait_until_run(1)
    assert made.exists()
    for text in ("I look,", "On and on."):
        expect(cell.get_by_text(text)).to_have_count(1)
    expect(cell.locator(".ia-root")).to_have_count(0)
    notebook.screenshot(f"late-{made.name}-over")
    notebook.run(2)  # which JupyterLab refuses as long as it takes an input for pending
    expect(notebook.cell(2).locator(".jp-OutputArea-output")).to_have_text("42")


KEYS_COUNT_AFTER_MS = 600
"""From when on a key answers a question that has just come."""
TWO_AT_ONCE = """\
import asyncio
from indus_nb import agent
@agent.command()
async def both(arguments, ctx):
    answers = await asyncio.gather(ctx.ui.input("First?"), ctx.ui.input("Second?"))
    ctx.ui.notify(" and ".join(answers))"""


def test_an_answer_closes_the_box_of_its_own_question_alone(lab: Lab, page: Page) -> None:
    notebook, _ = opened(lab, page, "boxes.ipynb", "%agent /both", TWO_AT_ONCE)
    notebook.run(2)
    notebook.wait_until_run(2)
    cell = notebook.cell(1)
    notebook.run_in_busy_page(1, seconds=7)
    boxes, question = cell.locator(".jp-Stdin"), cell.get_by_role("dialog")
    expect(boxes).to_contain_text("First?")
    field = question.get_by_label("First?")
    field.fill("one")
    page.wait_for_timeout(KEYS_COUNT_AFTER_MS)
    field.press("Enter")
    expect(boxes.filter(has_text="First?")).to_be_hidden()
    second = boxes.filter(has_text="Second?").locator("input")
    expect(second).to_be_visible()
    expect(question).to_contain_text("Second?")
    notebook.screenshot("boxes")
    second.fill("two")
    second.press("Enter")
    expect(cell).to_contain_text("one and two")
    notebook.wait_until_run(1)
