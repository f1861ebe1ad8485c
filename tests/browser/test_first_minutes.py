"""The first minutes with a notebook: an answer, a mended error and a figure, and how many clicks each takes."""

from __future__ import annotations

from jupyterlab_page import Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Locator, Page, expect

LAB = {"extension": True, "settings": {}}

FRAME = """\
import matplotlib.pyplot as plt
import pandas as pd

sales = pd.DataFrame({'month': range(1, 13), 'tea': range(12, 24)})"""
FAILS = "sales.groupby('mnth').tea.sum().max()"
PLOT = "fig, ax = plt.subplots()\nax.plot(sales.month, sales.tea)"
PROMPTS_ARE_SHORT = """chat => [...chat.querySelectorAll(".indus-said")]
    .every(said => said.clientHeight < chat.clientHeight / 2)"""


class Hand:
    """Clicks, and counts them."""

    def __init__(self) -> None:
        self.clicks = 0

    def click(self, target: Locator) -> None:
        """Click where the middle of the target is in sight and nothing lies over it."""
        target.click()
        self.clicks += 1

    def counted(self) -> int:
        """The clicks since the last count."""
        clicks, self.clicks = self.clicks, 0
        return clicks


def test_an_answer_a_mended_error_and_a_figure_take_two_clicks_each(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("tea.ipynb", FRAME, FAILS)
    notebook = lab.open(page, "tea.ipynb")
    hand = Hand()
    notebook.run(0)
    notebook.wait_until_run(0)

    hand.click(page.locator("[data-id='indus_nb-panel']"))
    chat = page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")
    expect(chat.locator("textarea")).to_be_focused()
    assert chat.evaluate("chat => chat.closest('.lm-SplitPanel-child').offsetWidth") >= 320
    api.add("It has a month and the tea of it.")
    page.keyboard.type("What is in $sales?")
    page.keyboard.press("Enter")
    expect(chat.locator(".indus-answer").last).to_have_text("It has a month and the tea of it.")
    assert hand.counted() <= 2

    notebook.run(1)
    notebook.wait_until_run(1)
    mended = {"replace": notebook.id_of(1), "source": FAILS.replace("mnth", "month")}
    api.add(Reply(ToolUse("propose_cell", mended)), "The column is called month.")
    hand.click(notebook.cell(1).get_by_role("button", name="Fix"))
    hand.click(chat.get_by_role("button", name="Accept and run"))
    expect(notebook.cell(1).locator(".jp-OutputArea-executeResult")).to_contain_text("23")
    expect(chat.locator(".indus-answer").last).to_have_text("The column is called month.")
    assert chat.evaluate(PROMPTS_ARE_SHORT)
    assert hand.counted() <= 2

    api.add(Reply(ToolUse("python", {"code": PLOT})), "It grows.")
    hand.click(chat.locator("textarea"))
    page.keyboard.type("Plot tea by month")
    page.keyboard.press("Enter")
    expect(chat.locator("img")).to_be_visible()
    expect(chat.locator(".indus-answer").last).to_have_text("It grows.")
    assert hand.counted() <= 2
    notebook.screenshot("first-minutes")
