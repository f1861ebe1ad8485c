"""Two people in one notebook, with jupyter-collaboration: both see what is proposed, and one answer counts for both."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from installing import Installer
from jupyterlab_page import Lab, Notebook
from kernels import private_environment
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Browser, Page, expect

OLD = "side = 2\nside * side"
NEW = "side = 3\nside * side"
SOURCES = "[...window.jupyterapp.shell.currentWidget.content.widgets].map(cell => cell.model.sharedModel.getSource())"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("together")
    folder = root / "work"
    folder.mkdir()
    installer = Installer()
    python = installer.make_environment(root / "with-collaboration")
    installer.install(python, "jupyterlab", "jupyterlab-widgets", "jupyter-collaboration")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    Path(environment["INDUS_NB_AGENT_DIR"], "settings.json").write_text("{}", encoding="utf-8")
    kernel = Path(environment["JUPYTER_DATA_DIR"]) / "kernels" / "here"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Here", "language": "python"}))
    with Lab(folder, environment, extension=True, python=python) as lab:
        yield lab


@pytest.fixture
def other_page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport={"width": 1200, "height": 1000}) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        yield page


def drawn(notebook: Notebook) -> list[str]:
    """The new lines that a page shows in its first cell."""
    return notebook.cell(0).locator(".indus_nb-inserted").all_inner_texts()


def test_what_is_proposed_is_seen_in_both_pages_and_closed_in_both_by_one_answer(
    lab: Lab, page: Page, other_page: Page, api: MessagesApi
) -> None:
    for each in (page, other_page):  # its server may be slow for the dialog of jupyter-collaboration, which stays
        each.add_locator_handler(each.get_by_role("button", name="Continue waiting"), lambda button: button.click())
    lab.write("shared.ipynb", OLD, "%agent make it three", kernel="here")
    notebook, other = lab.open(page, "shared.ipynb"), lab.open(other_page, "shared.ipynb")
    other.cell(1).locator(".cm-content").press("End")
    other_page.keyboard.type(" please")
    expect(notebook.cell(1)).to_contain_text("make it three please")
    for where in (other, notebook):
        api.add(Reply(ToolUse("propose_cell", {"replace": notebook.id_of(0), "source": NEW})), "As you like.")
        notebook.run(1)
        boxes = [each.page.locator(".indus_nb-box") for each in (notebook, other)]
        for each, box in zip((notebook, other), boxes, strict=True):
            expect(box.get_by_role("button", name="Accept", exact=True)).to_be_visible()
            assert drawn(each) == ["side = 3"]
            assert each.page.evaluate(SOURCES)[0] == OLD
        answer = "No" if where is other else "Accept"
        where.page.locator(".indus_nb-box").get_by_role("button", name=answer, exact=True).click()
        for each, box in zip((notebook, other), boxes, strict=True):
            expect(box).to_have_count(0)
            expect(each.cell(0).locator(".indus_nb-inserted, .indus_nb-removed")).to_have_count(0)
            expect(each.cell(0).locator(".cm-content")).to_contain_text(f"side = {2 if where is other else 3}")
        expect(notebook.cell(1).locator(".jp-OutputArea")).to_contain_text("As you like.")
    assert [each.page.evaluate(SOURCES)[0] for each in (notebook, other)] == [NEW, NEW]
