"""A cell of the agent far below the part of a long notebook that is on the screen."""

from __future__ import annotations

import re

from jupyterlab_page import Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page, expect

ASKS = "● asks"


def test_a_cell_out_of_sight_is_drawn_and_asks_in_the_page_when_all_cells_run(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    api.add(Reply(ToolUse("python", {"code": "far = 2"})), Reply("Done."))
    plain = [f"number = {n}\nnumber" for n in range(60)]
    lab.write(
        "far.ipynb",
        "%load_ext indus_nb\nfar = 1",
        *plain,
        "%agent --model anthropic/claude-sonnet-4-5 --thinking off --approve writes change far",
    )
    notebook = lab.open(page, "far.ipynb")
    page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    api.wait_for_requests(1)
    expect(page).to_have_title(re.compile(re.escape(ASKS)))
    last = page.locator(".jp-Notebook .jp-Cell").last
    page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(61, 'center')")
    expect(page.locator(".jp-Notebook").get_by_role("dialog")).to_be_visible()
    notebook.screenshot("far-off")
    page.locator(".jp-Notebook").get_by_role("dialog").get_by_role("button", name="Yes", exact=True).click()
    expect(last).to_contain_text("Done.")
