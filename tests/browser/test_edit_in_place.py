"""Asking at a cell in a real JupyterLab: the answer is a difference in the cell itself, which the user settles there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jupyterlab_page import Lab, Notebook
from kernels import private_environment
from messages_api import Gate, MessagesApi, Recorded, Reply, ToolUse
from playwright.sync_api import Locator, Page, expect

OLD = "def area(side):\n    return side * side\n\narea(2)"
NEW = "def area(side):\n    return side**2\n\narea(3)"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("lab")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Lab(folder, environment, extension=True) as lab:
        yield lab


@pytest.fixture(autouse=True)
def fresh(lab: Lab, api: MessagesApi) -> Iterator[None]:
    yield
    api.clear()
    lab.shut_down_kernels()


def asked(notebook: Notebook, number: int, instruction: str, keys: str = "Control+k") -> Locator:
    """The box at a cell in which something was asked."""
    notebook.cell(number).locator(".cm-content").click()
    notebook.page.keyboard.press(keys)
    expect(box(notebook).get_by_role("textbox")).to_be_focused()
    notebook.page.keyboard.type(instruction)
    notebook.page.keyboard.press("Enter")
    return box(notebook)


def box(notebook: Notebook) -> Locator:
    return notebook.page.locator(".indus_nb-box")


def button(where: Locator, name: str) -> Locator:
    found = where.get_by_role("button", name=name, exact=True)
    expect(found).to_be_visible()
    return found


def source(notebook: Notebook, number: int) -> str:
    return sources(notebook)[number]


def sources(notebook: Notebook) -> list[str]:
    """What the notebook would be saved with."""
    found: list[str] = notebook.page.evaluate(
        "[...window.jupyterapp.shell.currentWidget.content.widgets].map(cell => cell.model.sharedModel.getSource())"
    )
    return found


def proposing(source: str = NEW, **more: Any) -> Any:
    """An answer of a model that proposes another source of the cell that it was asked at."""

    def answer(request: Recorded) -> Reply:
        found = re.search(r"replace=([\w-]+)", str(request.body["messages"]))
        assert found is not None
        return Reply(ToolUse("propose_cell", {"replace": found[1], "source": source}, **more))

    return answer


def opened(lab: Lab, page: Page, name: str, *cells: str) -> Notebook:
    lab.write(name, *cells)
    return lab.open(page, name)


def test_a_change_streams_into_the_cell_and_is_there_once_it_is_accepted(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "change.ipynb", OLD)
    half = Gate()
    api.add(proposing(hold=("\\n\\narea", half)))
    asking = asked(notebook, 0, "square it, and show three")
    half.reached.wait(60)
    cell = notebook.cell(0)
    expect(cell.locator(".cm-content .indus_nb-inserted")).to_have_text("    return side**2")
    expect(cell.locator(".cm-line.indus_nb-removed")).to_have_count(0)
    assert sources(notebook) == [OLD], "a draft is no part of the notebook"
    half.open()
    accept = button(asking, "Accept")
    expect(accept).to_be_focused()
    expect(cell.locator(".cm-line.indus_nb-removed")).to_have_text(["    return side * side", "area(2)"])
    expect(cell.locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
    assert sources(notebook) == [OLD], "what is proposed is no part of the notebook"
    page.keyboard.press("Enter")
    expect(asking).to_have_count(0)
    assert sources(notebook) == [NEW]
    expect(cell.locator(".indus_nb-inserted, .indus_nb-removed")).to_have_count(0)
    told = api.requests[-1].texts
    assert any("square it, and show three" in text for text in told)
    assert any("return side * side" in text for text in told), "the model is told what the cell is"
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+z")
    expect(cell.locator(".cm-content")).to_contain_text("side * side")
    assert sources(notebook) == [OLD], "one undo takes it back"
