"""A notebook that is run again in JupyterLab, with the same answers, is saved as the same file."""

from __future__ import annotations

import json
import re
from pathlib import Path

from jupyterlab_page import KERNEL_IS_READY, Lab, Notebook
from messages_api import Gate, MessagesApi
from playwright.sync_api import Page, expect
from scripted_cells import CELLS, answers

NO_WIDGETS = "() => !window.jupyterapp.shell.currentWidget.model.getMetadata('widgets')"


def run_all(notebook: Notebook, api: MessagesApi, chunk: int) -> None:
    """Run all cells in a new kernel, with answers in deltas of ``chunk`` characters.

    The first prompt ends once the page has drawn its cell, however busy the machine is.
    """
    held = Gate()
    api.clear()
    api.add(*answers(chunk, held))
    page = notebook.page
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.wait_for_function(KERNEL_IS_READY, timeout=240_000)
    page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    expect(notebook.cell(3).get_by_role("button", name="Stop")).to_be_visible(timeout=240_000)
    held.open()
    for number in range(len(CELLS)):
        expect(notebook.cell(number).locator(".jp-InputPrompt")).to_have_text(f"[{number + 1}]:", timeout=240_000)


def test_two_runs_are_saved_as_the_same_file_and_the_page_says_what_they_took(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("same.ipynb", *CELLS)
    notebook = lab.open(page, "same.ipynb")
    texts: list[str] = []
    for chunk in (400, 20):
        run_all(notebook, api, chunk)
        expect(notebook.cell(3).locator(".indus-usage .ia-beside")).to_contain_text("300 tokens in, 60 out")
        lines = page.locator(".jp-Notebook .indus-usage")
        for number in range(lines.count()):
            expect(lines.nth(number)).to_have_text(re.compile("^(?!.*tokens in.*tokens in).*tokens in"))
        page.wait_for_function(NO_WIDGETS)  # a moment after its end, that of the last run is closed
        notebook.save()
        texts.append(Path(lab.folder / "same.ipynb").read_text())
    first, second = texts
    assert first == second
    assert "300 tokens in" not in first
    assert json.loads(first)["metadata"]["indus_nb"]["id"].startswith("notebook-")
    assert '"text/html": []' not in first
    notebook.screenshot("same")
