"""The chat panel in front ends that are not Jupyter's: marimo, where no IPython is, and Voilà, where no cells are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from app_servers import marimo, voila
from jupyterlab_page import keep_screenshot
from kernels import private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from playwright.sync_api import Locator, Page, expect

MARIMO = """\
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    from indus_nb import ChatPanel, SessionOptions, open_session

    session = open_session(SessionOptions(approve="writes"))
    return ChatPanel, mo, session


@app.cell
def _(ChatPanel, mo, session):
    panel = ChatPanel(session)
    mo.ui.anywidget(panel.widget)
    return (panel,)


@app.cell
def _():
    rides = [823, 855]
    return (rides,)


@app.cell
def _(rides):
    from indus_nb import agent

    @agent.tool(read_only=True)
    def mean_of_rides() -> float:
        "Return the mean of the rides."
        return sum(rides) / len(rides)

    return


@app.cell
def _(mo, panel):
    mo.ui.button(label="Close the panel", on_click=lambda _: panel.close())
    return
"""
KEYS_COUNT_MS = 600
"""After which a dialog that took the focus is answered by keys."""
WAITS = "import pathlib, time\nwhile not pathlib.Path('never').exists(): time.sleep(0.05)"


class Panel:
    """The panel in a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.root: Locator = page.locator(".ia-panel")
        self.composer = self.root.get_by_label("Message")
        self.dialog = self.root.get_by_role("dialog")

    def write(self, text: str) -> None:
        self.composer.fill(text)
        self.composer.press("Enter")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)


@pytest.fixture
def environment(tmp_path: Path, api: MessagesApi) -> dict[str, str]:
    made = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (tmp_path / "agent" / "settings.json").write_text("{}")
    (tmp_path / "work").mkdir()
    return made


@pytest.fixture
def panel(page: Page) -> Iterator[Panel]:
    page.set_default_timeout(60_000)  # a kernel starts, too
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(f"{error}\n{error.stack}"))
    yield Panel(page)
    assert errors == []


def test_marimo_shows_a_panel_that_asks_stops_survives_a_reload_and_closes(
    panel: Panel, environment: dict[str, str], tmp_path: Path, api: MessagesApi
) -> None:
    notebook = tmp_path / "work" / "notebook.py"
    notebook.write_text(MARIMO)
    (tmp_path / "work" / "pyproject.toml").write_text("[tool.marimo.runtime]\nauto_instantiate = true\n")
    with marimo(notebook, environment) as server:
        panel.page.goto(server.url)
        expect(panel.composer).to_be_visible(timeout=90_000)
        expect(panel.root).to_contain_text("files")
        expect(panel.root).not_to_contain_text("Which variables")
        api.add(Reply("I look.", ToolUse("bash", {"command": "touch made; echo hi"})), "It says **hi**.")
        panel.write("make a file")
        expect(panel.dialog).to_contain_text("touch made; echo hi")
        expect(panel.dialog).to_be_focused()
        output = panel.page.locator(".output-area:has(marimo-anywidget)")
        assert output.evaluate("node => node.scrollHeight - node.clientHeight") <= 0
        assert panel.root.evaluate("node => getComputedStyle(node).display") == "flex", "it has its style sheet"
        keep_screenshot(panel.page, "marimo-question")
        assert not (tmp_path / "work" / "made").exists()
        panel.page.wait_for_timeout(KEYS_COUNT_MS)
        panel.dialog.press("1")
        expect(panel.root.locator(".indus-answer").last).to_contain_text("It says hi.")
        assert (tmp_path / "work" / "made").exists()
        expect(panel.root.get_by_role("button", name="To cell")).to_have_count(0)

        api.add(Reply(Text("This takes long. ", Gate())))
        panel.write("tell me a long story")
        expect(panel.root.locator(".indus-answer").last).to_contain_text("This takes long.")
        panel.button("Stop").click()
        expect(panel.root.locator(".indus-usage").last).to_contain_text("stopped")

        panel.page.reload()
        expect(panel.root.locator(".indus-said")).to_have_text(["make a file", "tell me a long story"])
        api.add(Reply(ToolUse("mean_of_rides", {})), "839 is the mean.")
        panel.write("what is the mean?")
        expect(panel.root.locator(".indus-answer").last).to_contain_text("839 is the mean.")
        assert api.requests[-1].texts[-1] == "839.0"
        keep_screenshot(panel.page, "marimo")

        panel.page.get_by_role("button", name="Close the panel").click()
        expect(panel.root).to_contain_text("This panel was closed. The conversation goes on without it.")
        panel.composer.fill("hello?")
        expect(panel.button("Send")).to_be_disabled()


RERUN = """\
import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo
    from indus_nb import ChatPanel, SessionOptions, open_session

    session = open_session(SessionOptions(approve="writes"))
    again = mo.ui.button(label="Run again", value=0, on_click=lambda times: times + 1)
    again
    return ChatPanel, again, mo, session


@app.cell
def _(ChatPanel, again, mo, session):
    again
    panel = ChatPanel(session)
    mo.ui.anywidget(panel.widget)
    return (panel,)


@app.cell
def _(ChatPanel, again, mo, panel):
    import gc

    def count(_):
        gc.collect()
        panels = sum(isinstance(each, ChatPanel) for each in gc.get_objects())
        return f"replaced {again.value}, left {panels}"

    look = mo.ui.button(label="Count", value="not counted", on_click=count)
    look
    return (look,)


@app.cell
def _(look, mo):
    mo.md(look.value)
    return
"""


def test_a_marimo_cell_that_runs_again_closes_the_panel_that_it_replaces(
    panel: Panel, environment: dict[str, str], tmp_path: Path, api: MessagesApi
) -> None:
    notebook = tmp_path / "work" / "notebook.py"
    notebook.write_text(RERUN)
    (tmp_path / "work" / "pyproject.toml").write_text("[tool.marimo.runtime]\nauto_instantiate = true\n")
    page = panel.page
    with marimo(notebook, environment) as server:
        page.goto(server.url)
        for replaced, prompt in enumerate(("one", "two", "three")):
            expect(panel.composer).to_be_visible(timeout=90_000)
            api.add(f"Answer to {prompt}.")
            panel.write(prompt)
            expect(panel.root.locator(".indus-answer").last).to_contain_text(f"Answer to {prompt}.")
            page.get_by_role("button", name="Count").click()
            expect(page.locator(".output-area", has_text=f"replaced {replaced}, left 1").first).to_be_visible()
            page.get_by_role("button", name="Run again").click()
            expect(page.locator(".output-area", has_text="not counted").first).to_be_visible()
        keep_screenshot(page, "marimo-ran-again")


def notebook_of(tmp_path: Path, *cells: str) -> Path:
    """A notebook with these cells."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = tmp_path / "work" / "app.ipynb"
    nbformat.write(notebook, path)
    return path


def test_voila_shows_a_panel_with_the_kernel_behind_it(
    panel: Panel, environment: dict[str, str], tmp_path: Path, api: MessagesApi
) -> None:
    cells = ("%load_ext indus_nb\nrides = [823, 855]", "%agent panel")
    with voila(notebook_of(tmp_path, *cells), environment) as server:
        panel.page.goto(server.url)
        expect(panel.composer).to_be_visible(timeout=90_000)
        expect(panel.page.locator("body")).not_to_contain_text("load_ext")
        api.add(Reply(ToolUse("python", {"code": "rides.append(901)\nrides"})), "Three by now.")
        panel.write("add a ride to {len(rides)} others")
        expect(panel.dialog).to_contain_text("This changes rides 2 → 3 items.")
        expect(panel.dialog).to_be_focused()
        keep_screenshot(panel.page, "voila-question")
        panel.dialog.locator(".ia-default").click()
        expect(panel.root.locator(".indus-answer").last).to_contain_text("Three by now.")
        assert "[823, 855, 901]" in json.dumps(api.requests[-1].body["messages"])
        assert "add a ride to 2 others" in json.dumps(api.requests[-1].body["messages"])

        # The kernel is busy with the agent's code, and gets what the page sends all the same.
        api.add(Reply(ToolUse("python", {"code": WAITS})))
        panel.write("wait")
        expect(panel.dialog).to_contain_text("It still runs in a copy of the kernel.")
        panel.dialog.get_by_role("button", name="Yes, run it here").click()
        expect(panel.dialog).to_have_count(0)
        panel.write("and then?")
        expect(panel.root.locator(".ia-queued")).to_contain_text("and then?")
        keep_screenshot(panel.page, "voila-busy")
        panel.composer.press("Escape")
        expect(panel.composer).to_have_value("and then?")
        expect(panel.root.locator(".ia-foot")).to_have_attribute("data-mode", "idle")


def test_voila_shows_a_panel_on_a_session_of_ones_own(
    panel: Panel, environment: dict[str, str], tmp_path: Path, api: MessagesApi
) -> None:
    cells = (
        "from indus_nb import ChatPanel, SessionOptions, open_session",
        "ChatPanel(open_session(SessionOptions(tools=())))",
    )
    with voila(notebook_of(tmp_path, *cells), environment) as server:
        panel.page.goto(server.url)
        expect(panel.composer).to_be_visible(timeout=90_000)
        api.add("Hello.")
        panel.write("hi")
        expect(panel.root.locator(".indus-answer")).to_contain_text("Hello.")
        assert api.requests[-1].body.get("tools", []) == []
