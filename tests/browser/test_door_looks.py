"""The panel at the side in Notebook 7: narrow, dark, by keyboard, and for screen readers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from jupyterlab_page import Lab
from kernels import private_environment
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page, expect

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PANEL = ".indus_nb-SidePanel"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("looks")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (root / "agent" / "settings.json").unlink()  # somebody is there to be asked
    with Lab(folder, environment, program="notebook", extension=True) as lab:
        yield lab


def serious_problems(page: Page) -> list[str]:
    found = Axe().run(page, PANEL, {"runOnly": {"type": "tag", "values": RULES}}).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


def test_a_question_is_answered_by_keyboard_in_a_narrow_dark_window(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("narrow.ipynb", "x = 1")
    notebook = lab.open(page, "narrow.ipynb")
    page.set_viewport_size({"width": 560, "height": 900})
    notebook.use_theme("JupyterLab Dark")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    expect(page.locator(f"{PANEL} textarea")).to_be_focused()
    assert serious_problems(page) == []
    api.add(Reply(ToolUse("bash", {"command": "touch made"})), "It is there.")
    page.keyboard.type("make a file")
    page.keyboard.press("Enter")
    expect(page.locator(PANEL).get_by_role("dialog")).to_be_visible()
    notebook.screenshot("door-question")
    assert serious_problems(page) == []
    page.keyboard.press("1")
    expect(page.locator(f"{PANEL} .indus-answer").last).to_have_text("It is there.")
    assert (lab.folder / "made").exists()
    box = page.locator(f"{PANEL} textarea").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 560
    notebook.screenshot("door-narrow")
