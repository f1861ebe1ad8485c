"""Numbers of answers that a call has put out, in JupyterLab: a click or a key goes to the card of that call."""

from __future__ import annotations

import json
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from jupyterlab_page import Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page, expect

LAB = {"extension": True}

ASK = "%agent --model anthropic/claude-sonnet-4-5 --thinking off --approve never so"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
PROSE = "The sum is **500.75**, the mean 166.92 and `500.75` in code; <b>7</b>.\n\nSo 500.75."
HOSTILE = [None, 5, [], [None, 0], ["and", 0], ["166.92", -1, 10**9, "0", {"x": 1}], ["<b>7</b>", 0], ["500.75", 0]]


def script(api: MessagesApi) -> None:
    """Two calls, each with a long result below its code, and an answer with a number of each."""
    for value in ("sum(sales)", "round(sum(sales) / 3, 2)"):
        lines = "for row in 'abcdefgh' * 8: print('row', row)"
        api.add(Reply(ToolUse("python", {"code": f"print({value})\n{lines}"})))
    api.add(PROSE)


def expect_at(card: Any) -> None:
    """Wait until a card is open and in sight, and its first line has the focus."""
    expect(card.locator("details")).to_have_attribute("open", "")
    expect(card.locator("summary")).to_be_focused()
    expect(card.locator("summary")).to_be_in_viewport()


def test_a_click_on_a_number_goes_to_the_card_of_its_call_also_when_the_page_is_loaded_again(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("found.ipynb", "%load_ext indus_nb\nsales = [120.5, 80.25, 300]", ASK)
    script(api)
    notebook = lab.open(page, "found.ipynb")
    for number in range(2):
        notebook.run(number)
        notebook.wait_until_run(number)
    output = notebook.cell(1).locator(".jp-OutputArea").first
    numbers, cards = output.get_by_role("link"), output.locator(".indus-call")
    expect(numbers).to_have_text(["500.75", "166.92", "500.75"])
    expect(cards.first.locator("summary")).to_be_hidden()  # in the row of steps
    ink = "node => getComputedStyle(node).color"
    assert numbers.nth(1).evaluate(ink) == output.locator(".indus-answer").first.evaluate(ink)
    numbers.nth(1).hover()
    expect(numbers.nth(1)).to_have_attribute("title", "from the result of print(round(sum(sales) / 3, 2)) …")
    numbers.nth(1).click()
    expect_at(cards.nth(1))
    expect(cards.first.locator("details")).not_to_have_attribute("open", "")
    assert Axe().run(page, context=".indus-answer", options=RULES).response["violations"] == []
    notebook.save()
    saved = (lab.folder / "found.ipynb").read_text()
    assert "indus-found" not in saved
    found = [output["metadata"] for cell in json.loads(saved)["cells"] for output in cell["outputs"]]
    assert {"indus_nb": {"found": [["500.75", 0], ["166.92", 1], ["500.75", 0]]}} in found
    page.reload()
    expect(numbers).to_have_text(["500.75", "166.92", "500.75"])
    numbers.first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    expect(numbers.first).to_be_focused()
    page.keyboard.press("Enter")
    expect_at(cards.first)
    expect(notebook.cell(1).locator(".cm-content")).to_contain_text(ASK)


def test_hostile_metadata_of_another_notebook_changes_nothing(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("hostile.ipynb", "%load_ext indus_nb\nsales = [120.5, 80.25, 300]", ASK)
    script(api)
    notebook = lab.open(page, "hostile.ipynb")
    for number in range(2):
        notebook.run(number)
        notebook.wait_until_run(number)
    notebook.save()
    file = lab.folder / "hostile.ipynb"
    made = json.loads(file.read_text())
    for at, output in enumerate(made["cells"][1]["outputs"]):
        is_answer = "found" in output["metadata"].get("indus_nb", {})
        output["metadata"]["indus_nb"] = {"found": HOSTILE} if is_answer else [None, "x", {"found": "500.75"}][at % 3]
    file.write_text(json.dumps(made))
    notebook = lab.open(page, "hostile.ipynb")
    output = notebook.cell(1).locator(".jp-OutputArea").first
    expect(output.get_by_role("link")).to_have_text(["166.92", "<b>7</b>", "500.75"])
    text = output.locator(".indus-answer").last.inner_text()
    output.get_by_role("link").first.click()
    expect(output.locator("details[open]")).to_have_count(0)
    assert output.locator(".indus-answer").last.inner_text() == text
    output.get_by_role("link").last.click()
    expect_at(output.locator(".indus-call").first)


def test_numbers_lead_to_their_cards_in_the_panel(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("panel.ipynb", "%load_ext indus_nb\nsales = [120.5, 80.25, 300]", ASK, "%agent panel")
    script(api)
    notebook = lab.open(page, "panel.ipynb")
    for number in range(3):
        notebook.run(number)
        notebook.wait_until_run(number)
    panel = page.locator(".ia-panel").first
    numbers = panel.get_by_role("link")
    expect(numbers).to_have_text(["500.75", "166.92", "500.75"])
    expect(panel.get_by_label("Message", exact=True)).to_be_focused()  # which a panel that has just come takes
    numbers.nth(1).focus()
    page.keyboard.press("Enter")
    expect_at(panel.locator(".indus-call").nth(1))
