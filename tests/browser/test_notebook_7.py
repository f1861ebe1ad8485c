"""``%agent`` in Notebook 7, whose pages are JupyterLab's parts in another frame."""

from __future__ import annotations

import re

import nbformat
from jupyterlab_page import Lab
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from playwright.sync_api import Page, expect

LAB = {"program": "notebook", "settings": {}}

ASK = "%agent --new --model sonnet-4-5 --thinking off "


def test_a_run_streams_asks_is_stopped_and_stays_in_the_file(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("classic.ipynb", "%load_ext indus_nb", ASK + "make a file", ASK + "go on for ever", "%agent panel")
    notebook = lab.open(page, "classic.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)

    held = Gate()
    api.add(Reply(Text("I ", held, "will."), ToolUse("bash", {"command": "touch made"})), "It is there.")
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.locator(".indus-answer")).to_have_text("I")
    expect(cell.get_by_role("button", name="Stop")).to_be_visible()
    held.open()
    expect(cell.locator(".indus-answer").last).to_have_text("I will.")
    yes = cell.get_by_role("dialog").get_by_role("button", name="Yes", exact=True)
    expect(yes).to_be_enabled()
    notebook.screenshot("notebook-7")
    page.wait_for_timeout(600)  # a key counts once the question has been there for a moment
    page.keyboard.press("1")
    notebook.wait_until_run(1)
    assert (lab.folder / "made").exists()
    expect(cell.locator(".indus-answer").last).to_have_text("It is there.")

    api.add(Reply(ToolUse("propose_cell", {"source": "proposed = 1", "after": notebook.id_of(3)})), "It is yours.")
    notebook.run(2)
    notebook.cell(2).get_by_role("dialog").locator('[data-k$=" Accept"]').click()
    notebook.wait_until_run(2)
    expect(notebook.cell(4)).to_contain_text("proposed = 1")  # where it was meant to be, though that was not saved yet

    api.add(Reply("On and on ", Gate()))
    notebook.run(2)
    cell = notebook.cell(2)
    expect(cell.locator(".indus-answer")).to_contain_text("On and on")
    cell.get_by_role("button", name="Stop").click()
    notebook.wait_until_run(2)
    expect(cell).to_contain_text("Stopped: the agent was told to end.")

    api.add(Reply("And on ", Gate()))
    notebook.run(2)
    expect(cell.locator(".indus-answer")).to_contain_text("And on")
    notebook.interrupt()
    notebook.wait_until_run(2)
    expect(cell).to_contain_text("Interrupted: the agent was stopped.")

    api.add("In the panel.")
    notebook.run(3)
    composer = notebook.cell(3).get_by_label("Message")
    composer.fill("and here?")
    composer.press("Enter")
    expect(notebook.cell(3).locator(".indus-answer").last).to_contain_text("In the panel.")
    notebook.save()

    saved = nbformat.read(lab.folder / "classic.ipynb", as_version=4).cells
    for number, said in ((1, "It is there."), (2, "And on")):
        outputs = [output.data for output in saved[number].outputs if "data" in output]
        assert any(said in data["text/plain"] for data in outputs)
        assert not any("widget-view" in kind for data in outputs for kind in data)


def test_a_long_answer_is_followed_and_is_not_put_into_a_box_that_scrolls(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    below = [f"for line in range(12): print('cell', {number}, line)" for number in range(6)]
    lab.write("long.ipynb", "%load_ext indus_nb", ASK + "tell me much", *below)
    notebook = lab.open(page, "long.ipynb")
    for number in (0, 2, 3, 4, 5, 6, 7):
        notebook.run(number)
        notebook.wait_until_run(number)
    read, end = Gate(), Gate()
    lines = "".join(f"Line {number} of the answer.\n\n" for number in range(60))
    api.add(Reply(Text(lines, read, lines, end, "The end."), chunk=60))
    notebook.run(1)
    cell = notebook.cell(1)
    answer = cell.locator(".indus-answer")  # what is announced to screen readers stands in the cell too
    expect(answer.get_by_text("Line 59 of")).to_be_in_viewport()
    expect(cell.get_by_role("button", name="Stop")).to_be_in_viewport()
    notebook.screenshot("notebook-7-following")
    cell.hover()
    page.mouse.wheel(0, -700)
    line = answer.get_by_text("Line 30 of").first
    expect(line).to_be_in_viewport()
    read.open()
    expect(answer.get_by_text("Line 59 of")).to_have_count(2)
    expect(line).to_be_in_viewport()
    end.open()
    notebook.wait_until_run(1)
    expect(cell.locator(".indus-usage")).to_have_count(1)
    expect(cell.locator(".ia-root")).to_have_count(0)
    expect(line).to_be_in_viewport()  # the reader is where he was
    expect(cell).not_to_have_class(re.compile("outputsScrolled"))
    notebook.screenshot("notebook-7-read")
