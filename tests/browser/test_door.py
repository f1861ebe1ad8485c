"""The front-end extension in a real JupyterLab: its panel beside the notebook."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyterlab_page import Lab, Notebook
from kernels import private_environment
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("door")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Lab(folder, environment, extension=True) as lab:
        yield lab


def test_two(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("first.ipynb", "x = 1", "%agent --thinking off hi")
    lab.write("second.ipynb", "y = 2", "%agent --thinking off hi")
    page.on("console", lambda m: m.type == "error" and print("CONSOLE", m.type, m.text[:300]))
    lab.open(page, "first.ipynb")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    panel = page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")
    composer = panel.locator("textarea")
    try:
        composer.wait_for(timeout=20000)
        api.add("Hello first.")
        composer.fill("hello one")
        page.keyboard.press("Enter")
        panel.get_by_text("Hello first.").wait_for(timeout=10000)
        lab.open_beside(page, "second.ipynb")
        page.screenshot(path="/tmp/shots27/l-two-before.png")
        print(
            page.evaluate(
                "[...window.jupyterapp.shell.widgets('main')].filter(w=>w.context).map(w => [w.context.path, w.sessionContext.session.kernel.id, w.sessionContext.session.kernel.handleComms, w.sessionContext.session.kernel.clientId])"
            )
        )
        composer.wait_for(timeout=20000)
        api.add(Reply(ToolUse("notebook", {})), "Hello second.")
        composer.fill("hello two")
        page.keyboard.press("Enter")
        page.wait_for_timeout(4000)
        page.screenshot(path="/tmp/shots27/l-two.png")
        print(str(api.requests[-1].body["messages"])[-1500:])
        api.add("In a cell.")
        nb = Notebook(page, ".jp-NotebookPanel:not(.lm-mod-hidden) ")
        nb.run(1)
        page.wait_for_timeout(4000)
        print([len(r.body["messages"]) for r in api.requests])
        page.screenshot(path="/tmp/shots27/l-two-cell.png")
        page.reload()
        page.wait_for_timeout(9000)
        page.screenshot(path="/tmp/shots27/l-two-reload.png")
    finally:
        page.screenshot(path="/tmp/shots27/l-two-end.png")
    raise SystemExit
