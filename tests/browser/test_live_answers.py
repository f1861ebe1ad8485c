"""Live values of an answer in JupyterLab: a mark while it comes, then the value with its expression, also as saved."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from jupyterlab_page import Lab
from messages_api import Gate, MessagesApi, Reply
from playwright.sync_api import Page, expect

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")

ASK = "%agent --model anthropic/claude-sonnet-4-5 --thinking off --approve never so"
EXPRESSION = "f'{sum(items) / 2:.1f} <b>'"


def test_a_value_is_shown_with_its_expression_and_stays_in_the_saved_notebook(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("values.ipynb", "%load_ext indus_nb\nitems = [1, 2]", ASK)
    gate = Gate()
    api.add(Reply(f"The mean is `{{python}} {EXPRESSION}`, ", gate))
    notebook = lab.open(page, "values.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run(1)
    output = notebook.cell(1).locator(".jp-OutputArea")
    place = output.get_by_title(EXPRESSION)
    expect(place).to_have_text("…")
    gate.open()
    expect(place).to_have_text("1.5 <b>")
    notebook.wait_until_run(1)
    expect(output).to_contain_text("The mean is 1.5 <b>,")
    place.focus()
    expect(place).to_be_focused()
    notebook.screenshot("live-value")
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    found = Axe().run(page, context=".jp-OutputArea span[title]", options=options).response["violations"]
    assert [each["id"] for each in found] == []
    notebook.save()
    saved = lab.open_without_kernel(page, "values.ipynb")
    expect(saved.cell(1).locator(".jp-OutputArea").get_by_title(EXPRESSION)).to_have_text("1.5 <b>")
