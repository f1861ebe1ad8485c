"""The front-end extension in a real JupyterLab: its panel beside the notebook."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyterlab_page import Lab
from kernels import private_environment
from messages_api import MessagesApi
from playwright.sync_api import Page


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("door")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Lab(folder, environment, extension=True) as lab:
        yield lab


def test_the_panel(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("first.ipynb", "x = 1")
    page.on("console", lambda m: print("CONSOLE", m.type, m.text[:300]))
    lab.open(page, "first.ipynb")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    try:
        page.locator(".indus_nb-SidePanel textarea").wait_for(timeout=20000)
        api.add("Hello there.")
        page.keyboard.type("hello", delay=20)
        page.keyboard.press("Enter")
        page.wait_for_timeout(4000)
    finally:
        page.screenshot(path="/tmp/shots27/l-panel.png")
        print(page.locator(".indus_nb-SidePanel").inner_text())
    raise SystemExit
