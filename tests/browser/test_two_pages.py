"""One notebook in two pages of a browser, without collaboration: each has its own copy of the cells."""

from __future__ import annotations

from jupyterlab_page import Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Browser, Page, expect

LAB = {"extension": True}
ASK = "%agent --model anthropic/claude-sonnet-4-5 --thinking off add a cell"


def test_cells_accepted_in_another_page_than_the_one_that_gets_them_are_said_to_be_there(
    lab: Lab, page: Page, browser: Browser, api: MessagesApi
) -> None:
    lab.write("twice.ipynb", "%load_ext indus_nb", ASK)
    notebook = lab.open(page, "twice.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.save()
    other_page = browser.new_context(viewport={"width": 1200, "height": 1000}).new_page()
    other_page.set_default_timeout(60_000)
    lab.open(other_page, "twice.ipynb")
    other_page.keyboard.press("Control+Alt+p")
    chat = other_page.locator(".ia-panel")
    expect(chat.locator("textarea")).to_be_visible()
    api.add(Reply(ToolUse("propose_cell", {"source": "total = 1"})), "Put in.")
    notebook.run(1)
    other_page.get_by_role("button", name="Accept", exact=True).first.click()  # in the panel, or in its place
    expect(notebook.cell(2)).to_contain_text("total = 1")
    expect(chat).to_contain_text("Put in.")
    expect(chat.locator(".ia-toast")).to_contain_text("Only one of the pages that show this notebook has what you acc")
    expect(other_page.locator(".jp-Notebook .jp-Cell")).to_have_count(2)
