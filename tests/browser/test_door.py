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


def test_the_extension_is_there_when_a_notebook_opens(lab: Lab, page: Page) -> None:
    lab.write("first.ipynb", "x = 1")
    lab.open(page, "first.ipynb")
    assert page.evaluate("window.jupyterapp.commands.hasCommand('indus_nb:open-panel')")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
