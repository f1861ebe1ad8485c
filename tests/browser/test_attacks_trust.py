"""A hostile project in a real JupyterLab: the question is in sight, and nothing of the project is used before a yes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from jupyterlab_page import Lab, Notebook
from messages_api import MessagesApi, Reply
from playwright.sync_api import Browser, Locator, expect

QUESTION = "Do you trust"
IGNORED = "is not trusted, and what it brings is ignored"
EXTENSION = """\
open({mark!r}, "w").close()
def setup(api):
    api.register_command("planted", print)
"""


class Project:
    """A directory whose parts leave a mark when they run, and say a word when they speak."""

    def __init__(self, lab: Lab, api: MessagesApi, name: str) -> None:
        self._api = api
        self.directory = lab.folder / "above" / name
        self._marks = lab.folder.parent / f"marks-{name}"
        own = self.directory / ".indusagi"
        for made in (self._marks, own / "extensions"):
            made.mkdir(parents=True)
        (own / "extensions" / "planted.py").write_text(EXTENSION.format(mark=str(self._marks / "extension")))
        settings = {
            "sessionDir": str(self.directory / "sessions"),
            "mcpServers": {"planted": {"command": "touch", "args": [str(self._marks / "server")]}},
        }
        (own / "settings.json").write_text(json.dumps(settings))
        (own / "SYSTEM.md").write_text("PLANTED-SYSTEM")
        (self.directory / "AGENTS.md").write_text("PLANTED-HERE")
        (self.directory.parent / "CLAUDE.md").write_text("PLANTED-ABOVE")

    @property
    def ran(self) -> list[str]:
        """What of it has run."""
        return sorted(path.name for path in self._marks.iterdir())

    @property
    def sent(self) -> list[str]:
        """What of it the model was told."""
        everything = json.dumps([request.body for request in self._api.requests])
        return [word for word in ("SYSTEM", "HERE", "ABOVE") if f"PLANTED-{word}" in everything]


@pytest.fixture
def notebook(lab: Lab, api: MessagesApi, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Notebook]:
    name = request.node.originalname.rpartition("_")[2]
    request.node.project = Project(lab, api, name)
    api.requests.clear()
    api.default = Reply("Hello from the server.")
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.set_default_timeout(20_000)
    lab.write(f"above/{name}/work.ipynb", "%load_ext indus_nb", "%agent hi", "%agent panel")
    notebook = lab.open(page, f"above/{name}/work.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    yield notebook
    page.close()
    lab.shut_down_kernels()


@pytest.fixture
def project(notebook: Notebook, request: pytest.FixtureRequest) -> Project:
    return request.node.project


def is_in_sight(button: Locator) -> bool:
    """Whether a click into its middle reaches it without scrolling."""
    return button.evaluate("""node => {
        const {x, y, width, height} = node.getBoundingClientRect();
        return node.contains(document.elementFromPoint(x + width / 2, y + height / 2));
    }""")


def test_a_cell_asks_and_uses_nothing_after_a_no(notebook: Notebook, project: Project) -> None:
    notebook.run(1)
    cell = notebook.cell(1)
    dialog = cell.get_by_role("dialog")
    expect(dialog).to_contain_text(QUESTION)
    for named in ("MCP server planted: touch", "extension .indusagi/extensions/planted.py", "AGENTS.md", "CLAUDE.md"):
        expect(dialog).to_contain_text(named)
    expect(dialog.locator(".ia-unread")).to_be_hidden()  # all of so short a question is in sight
    assert all(map(is_in_sight, dialog.locator(".ia-option").all()))
    notebook.screenshot("trust-cell")
    assert (project.ran, project.sent) == ([], [])
    dialog.get_by_role("button", name="No, ignore what it brings").click()
    expect(cell).to_contain_text("Hello from the server.")
    notebook.wait_until_run(1)
    assert (project.ran, project.sent) == ([], [])
    assert not (project.directory / "sessions").exists()


def test_a_dismissed_question_is_a_no_for_the_session_and_a_line_says_so(notebook: Notebook, project: Project) -> None:
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.get_by_role("dialog").locator(".ia-option:enabled").first).to_be_visible()
    notebook.page.keyboard.press("Escape")
    expect(cell).to_contain_text("Hello from the server.")
    expect(cell.get_by_text(IGNORED)).to_have_count(1)
    assert (project.ran, project.sent) == ([], [])


def test_a_yes_by_the_keyboard_in_the_panel_uses_the_project(notebook: Notebook, project: Project) -> None:
    notebook.run(2)
    panel = notebook.cell(2)
    message = panel.get_by_label("Message")  # whose placeholder is another one once the question is open
    message.fill("hi")
    message.press("Enter")
    dialog = panel.get_by_role("dialog")
    yes = dialog.get_by_role("button", name="Trust this directory")
    expect(dialog.locator(".ia-option:enabled").first).to_be_visible()
    expect(panel.get_by_text(IGNORED)).to_have_count(0)
    notebook.screenshot("trust-panel")
    assert is_in_sight(dialog.get_by_role("button", name="No, ignore what it brings"))
    assert (project.ran, project.sent) == ([], [])
    dialog.get_by_role("group", name="Details").focus()
    notebook.page.keyboard.press("End")
    expect(yes).to_be_enabled()
    notebook.page.keyboard.press("Tab")
    expect(yes).to_be_focused()
    notebook.page.keyboard.press("Enter")
    expect(panel).to_contain_text("Hello from the server.")
    expect(panel).to_contain_text("sessionDir cannot be set by a project")
    notebook.screenshot("trust-panel-yes")
    assert (project.ran, project.sent) == (["extension", "server"], ["SYSTEM", "HERE", "ABOVE"])
    assert not (project.directory / "sessions").exists()
