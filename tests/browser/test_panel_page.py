"""The chat panel as somebody uses it in a real JupyterLab, from the first message to the export."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyterlab_page import Lab, Notebook
from kernels import private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from playwright.sync_api import Browser, Locator, expect

BUSY = 'import pathlib, time\nwhile not pathlib.Path("go-on").exists(): time.sleep(0.05)\nprint("done")'


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("panel")
    folder = root / "work"
    folder.mkdir()
    (folder / "rides.csv").write_text("day,rides\n2025-01-01,823\n2025-01-02,855\n")
    (folder / "my notes.txt").write_text("Ask about June.\n")
    environment = private_environment(root)
    models = [
        {"id": "small", "name": "Scripted small", "input": ["text", "image"], "cost": {"input": 1, "output": 5}},
        {"id": "large", "name": "Scripted large", "input": ["text", "image"], "reasoning": True},
    ]
    demo = {"baseUrl": api.url, "api": "anthropic-messages", "apiKey": "test-key", "models": models}
    settings = {"defaultProvider": "demo", "defaultModel": "small", "defaultThinkingLevel": "off"}
    (root / "agent" / "settings.json").write_text(json.dumps(settings))
    (root / "agent" / "models.json").write_text(json.dumps({"providers": {"demo": demo}}))
    with Lab(folder, environment) as lab:
        yield lab


class Panel:
    """A panel in the output of a cell."""

    def __init__(self, notebook: Notebook, number: int) -> None:
        self.notebook, self.page = notebook, notebook.page
        self.root: Locator = notebook.cell(number).locator(".ia-panel")
        self.composer = self.root.get_by_label("Message")
        self.said = self.root.locator(".indus-said")
        self.answers = self.root.locator(".indus-answer")
        self.queue = self.root.locator(".ia-queued")
        self.foot = self.root.locator(".ia-foot")

    def write(self, text: str, key: str = "Enter") -> None:
        self.composer.fill(text)
        self.composer.press(key)

    def press(self, name: str) -> None:
        self.root.get_by_role("button", name=name, exact=True).click()

    def keep(self, name: str) -> None:
        self.notebook.screenshot(f"panel-{name}")


@pytest.fixture(scope="module")
def notebook(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    page.set_default_timeout(20_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(f"{error}\n{error.stack}"))
    lab.write("panel.ipynb", "%load_ext indus_nb", "%agent panel", BUSY, "%agent panel")
    notebook = lab.open(page, "panel.ipynb")
    page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
    for number in (0, 1):
        notebook.run(number)
        notebook.wait_until_run(number)
    yield notebook
    page.close()
    assert errors == []


@pytest.fixture
def panel(notebook: Notebook) -> Panel:
    return Panel(notebook, 1)


def test_a_conversation_with_a_tool(panel: Panel, api: MessagesApi) -> None:
    api.add(
        Reply("I look into the file.", ToolUse("read", {"path": "rides.csv"})),
        Reply("It holds **two days**:\n\n| day | rides |\n|---|---|\n| 1 January | 823 |\n| 2 January | 855 |"),
    )
    panel.keep("empty")
    panel.write("what is in rides.csv?")
    expect(panel.said).to_have_text(["what is in rides.csv?"])
    expect(panel.root.locator(".indus-call")).to_contain_text("2025-01-02,855")
    expect(panel.answers.last.locator("table")).to_be_visible()
    expect(panel.root.locator(".indus-usage")).to_contain_text("small")
    expect(panel.composer).to_be_focused()
    panel.keep("talk")


def test_what_is_written_meanwhile_waits_and_one_of_it_is_taken_back(panel: Panel, api: MessagesApi) -> None:
    counts = Gate()
    api.add(Reply(Text("I count: one, ", counts, "two.")), "By month: January has both.", "The mean is 839.")
    panel.write("count the days")
    expect(panel.answers.last).to_contain_text("I count: one,")
    panel.write("and by month")
    panel.write("then the mean", "Alt+Enter")
    panel.write("and delete the file", "Alt+Enter")
    expect(panel.queue).to_contain_text(["and by month", "then the mean", "and delete the file"])
    panel.keep("queue")
    panel.press("Take back and edit: and delete the file")
    expect(panel.composer).to_have_value("and delete the file")
    expect(panel.queue).to_have_count(2)
    panel.composer.fill("")
    counts.open()
    expect(panel.answers.last).to_contain_text("The mean is 839.")
    expect(panel.said).to_have_text(["what is in rides.csv?", "count the days", "and by month", "then the mean"])
    expect(panel.queue).to_have_count(0)
    assert [request.texts[-1] for request in api.requests[-3:]] == ["count the days", "and by month", "then the mean"]


def test_escape_stops_the_run_and_gives_back_what_waits(panel: Panel, api: MessagesApi) -> None:
    api.add(Reply(Text("This will take long. ", Gate())))
    panel.write("tell me a long story")
    expect(panel.answers.last).to_contain_text("This will take long.")
    panel.write("about a bicycle", "Alt+Enter")
    expect(panel.queue).to_have_count(1)
    panel.composer.press("Escape")
    expect(panel.root.locator(".indus-usage").last).to_contain_text("stopped")
    expect(panel.composer).to_have_value("about a bicycle")
    expect(panel.queue).to_have_count(0)
    expect(panel.foot).to_have_attribute("data-mode", "idle")
    panel.keep("stopped")
    panel.composer.fill("")


def test_what_waits_after_a_stop_says_when_it_is_sent_and_is_sent_by_its_button(panel: Panel, api: MessagesApi) -> None:
    api.add(Reply(Text("A long one. ", Gate())), "On wheels.", "On foot.")
    panel.write("tell me another one")
    expect(panel.answers.last).to_contain_text("A long one.")
    panel.write("about wheels", "Alt+Enter")
    panel.write("about feet", "Alt+Enter")
    expect(panel.queue).to_have_count(2)
    send = panel.root.get_by_role("button", name="Send now")
    expect(send).to_have_count(0)
    panel.press("Stop")
    expect(panel.root.locator(".ia-when")).to_have_text("Will be sent after the answer to your next prompt.")
    panel.keep("queue-idle")
    panel.root.evaluate("node => { node.closest('.ia-root').style.width = '300px' }")
    panel.keep("queue-idle-narrow")
    panel.root.evaluate("node => { node.closest('.ia-root').style.width = '' }")
    send.click()
    expect(panel.answers.last).to_contain_text("On foot.")
    expect(panel.queue).to_have_count(0)
    expect(send).to_have_count(0)
    expect(panel.composer).to_be_focused()
    assert [request.texts[-1] for request in api.requests[-2:]] == ["about wheels", "about feet"]


def test_enter_on_the_beginning_of_a_command_sends_it_and_tab_completes_it(panel: Panel) -> None:
    keyboard = panel.page.keyboard
    shown = panel.root.locator(".ia-area table")
    before = shown.count()
    panel.composer.click()
    keyboard.type("/sta")
    keyboard.press("Tab")
    expect(panel.composer).to_have_value("/stats ")
    panel.composer.fill("")
    keyboard.type("/")
    keyboard.press("Enter")
    expect(panel.composer).to_have_value("/new ")  # which nothing that was typed has chosen
    panel.composer.fill("")
    keyboard.type("/na")
    keyboard.press("Enter")
    expect(panel.composer).to_have_value("/name ")
    keyboard.type("x")
    expect(panel.composer).to_have_value("/name x")
    panel.composer.fill("")
    expect(shown).to_have_count(before)
    keyboard.type("/sta")
    keyboard.press("Enter")
    expect(panel.composer).to_have_value("")
    expect(shown).to_have_count(before + 1)
    expect(shown.last).to_contain_text("conversation")
    keyboard.type("look at @rid")
    expect(panel.root.locator(".ia-choice")).to_have_count(1)
    said = panel.said.count()
    keyboard.press("Enter")
    expect(panel.composer).to_have_value("look at @rides.csv")
    keyboard.type(" and @my")
    keyboard.press("Enter")
    expect(panel.composer).to_have_value('look at @rides.csv and @"my notes.txt"')
    expect(panel.said).to_have_count(said)
    panel.composer.fill("")


def test_another_model_answers_from_then_on(panel: Panel, api: MessagesApi) -> None:
    api.add("I am the large one.")
    panel.root.get_by_label("Model").select_option(label="Scripted large")
    panel.root.get_by_label("Thinking").select_option("low")
    expect(panel.foot).to_contain_text("Scripted large")
    panel.write("who are you?")
    expect(panel.answers.last).to_contain_text("I am the large one.")
    expect(panel.root.locator(".indus-usage").last).to_contain_text("large")
    assert api.requests[-1].body["model"] == "large"


def test_the_tree_leads_back_with_a_warning(panel: Panel, api: MessagesApi) -> None:
    api.add("One more.")
    panel.press("Tree")
    tree = panel.root.get_by_role("dialog", name="Tree")
    entry = tree.locator(".ia-entry").filter(has_text="count the days")
    expect(entry).to_be_visible()
    panel.keep("tree")
    entry.click()
    expect(tree).to_be_hidden()
    expect(panel.root.locator(".ia-warning").first).to_contain_text("went to another branch, and the kernel did not")
    expect(panel.said).to_have_text(["what is in rides.csv?"])
    expect(panel.composer).to_have_value("count the days")
    panel.keep("other-branch")
    panel.composer.press("Enter")
    expect(panel.answers.last).to_contain_text("One more.")
    expect(panel.said).to_have_text(["what is in rides.csv?", "count the days"])
    expect(panel.root.get_by_text("went to another branch")).to_have_count(0)


def test_sessions_are_begun_listed_and_gone_back_to(panel: Panel) -> None:
    panel.press("New")
    expect(panel.said).to_have_count(0)
    panel.press("Sessions")
    sessions = panel.root.get_by_role("dialog", name="Sessions")
    earlier = sessions.locator(".ia-entry").filter(has_text="what is in rides.csv?")
    expect(earlier).to_be_visible()
    panel.keep("sessions")
    earlier.click()
    expect(panel.said).to_have_text(["what is in rides.csv?", "count the days"])


def test_the_conversation_is_offered_as_a_file(panel: Panel, tmp_path: Path) -> None:
    with panel.page.expect_download() as offered:
        panel.press("Menu")
        panel.press("Export")
    assert re.fullmatch(r"indusagi-session-.*\.html", offered.value.suggested_filename)
    path = tmp_path / "session.html"
    offered.value.save_as(path)
    assert "what is in rides.csv?" in path.read_text()
    link = panel.root.get_by_role("link", name="Download")
    expect(link).to_be_visible()
    panel.keep("export")
    link.locator("..").get_by_role("button", name="Close").click()
    expect(link).to_be_hidden()


def test_two_views_are_in_step_while_a_cell_of_the_users_is_busy(
    panel: Panel, notebook: Notebook, lab: Lab, api: MessagesApi
) -> None:
    notebook.run(3)
    notebook.wait_until_run(3)
    other = Panel(notebook, 3)
    notebook.run(2)
    expect(notebook.cell(2).locator(".jp-InputPrompt")).to_have_text("[*]:")
    holds = Gate()
    api.add(Reply(Text("Still ", holds, "here.")))
    other.write("are you there?")
    for view in (panel, other):
        expect(view.said.last).to_have_text("are you there?")
        expect(view.answers.last).to_contain_text("Still")
    other.keep("busy-cell")
    holds.open()
    for view in (panel, other):
        expect(view.answers.last).to_contain_text("Still here.")
        expect(view.foot).to_have_attribute("data-mode", "idle")
    expect(notebook.cell(2).locator(".jp-InputPrompt")).to_have_text("[*]:")
    (lab.folder / "go-on").touch()
    expect(notebook.cell(2).locator(".jp-OutputArea-output")).to_have_text("done")


def test_a_list_opens_in_the_view_in_which_it_was_asked_for(panel: Panel, notebook: Notebook) -> None:
    other = Panel(notebook, 3)
    for view, untouched in ((panel, other), (other, panel)):
        for name in ("Tree", "Sessions"):
            view.press(name)
            shown = view.root.get_by_role("dialog", name=name)
            expect(shown.get_by_label("Filter")).to_be_focused()
            expect(shown.locator(".ia-entry").first).to_be_visible()
            expect(untouched.root.get_by_role("dialog", name=name)).to_be_hidden()
            view.page.keyboard.press("Escape")
            expect(shown).to_be_hidden()
            expect(view.composer).to_be_focused()


OUTSIDE = """node => [...node.querySelectorAll("button, select, input, textarea")]
    .filter(each => each.checkVisibility() && !each.closest(".ia-scroll"))
    .filter(each => each.getBoundingClientRect().right > node.getBoundingClientRect().right)
    .map(each => each.textContent || each.ariaLabel)"""


def test_a_narrow_panel_has_all_of_its_buttons_and_one_that_is_too_narrow_says_so(
    panel: Panel, api: MessagesApi
) -> None:
    gate = Gate()
    api.add(Reply(Text("It ", gate, "goes.")))
    panel.write("go")
    assert gate.reached.wait()
    expect(panel.root.get_by_role("button", name="Stop")).to_be_visible()
    widen = "(node, width) => { node.closest('.ia-root').style.width = `${width}px` }"
    for width in (900, 733, 460, 250, 182):
        panel.root.evaluate(widen, width)
        assert panel.root.evaluate(OUTSIDE) == [], width
        expect(panel.composer).to_be_visible()
    panel.root.evaluate(widen, 95)
    expect(panel.composer).to_be_hidden()
    assert "Too narrow" in panel.root.evaluate("node => getComputedStyle(node, '::before').content")
    gate.open()
    panel.root.evaluate("node => { node.closest('.ia-root').style.width = '' }")
    expect(panel.answers.last).to_have_text("It goes.")


CUT_OFF = """node => [...node.querySelectorAll(".ia-area, .ia-area *, .ia-entry, .ia-entry *")]
    .filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1 && each.clientWidth)
    .map(each => each.textContent)"""


def test_a_panel_as_wide_as_a_side_bar_shows_facts_and_sessions_whole(
    panel: Panel, notebook: Notebook, api: MessagesApi
) -> None:
    api.add("It is short.")
    panel.write("say it")
    expect(panel.answers.last).to_have_text("It is short.")
    panel.root.evaluate("node => { node.closest('.ia-root').style.width = '300px' }")
    panel.write("/stats")
    expect(panel.root.locator(".ia-area table").last).to_contain_text("conversation")
    notebook.screenshot("panel-facts")
    assert panel.root.evaluate(CUT_OFF) == []
    panel.root.get_by_role("button", name="Menu").click()
    panel.root.get_by_role("button", name="Sessions").click()
    expect(panel.root.locator(".ia-entry").first).to_be_visible()
    notebook.screenshot("panel-sessions")
    assert panel.root.evaluate(CUT_OFF) == []
    panel.page.keyboard.press("Escape")
    panel.root.evaluate("node => { node.closest('.ia-root').style.width = '' }")


def test_a_docked_panel_has_all_of_its_height(panel: Panel, notebook: Notebook) -> None:
    page = panel.page
    notebook.cell(1).locator(".jp-InputPrompt").click()
    page.evaluate("window.jupyterapp.commands.execute('notebook:create-output-view')")
    docked = page.locator(".jp-LinkedOutputView .ia-panel")
    expect(docked.get_by_label("Message")).to_be_visible()
    below = "node => node.closest('.jp-LinkedOutputView').clientHeight - node.offsetHeight"
    assert docked.evaluate(below) <= 2
    notebook.screenshot("panel-docked")
    docked.get_by_role("button", name="Tree", exact=True).click()
    expect(docked.get_by_role("dialog", name="Tree")).to_be_visible()
    expect(panel.root.get_by_role("dialog", name="Tree")).to_be_hidden()
    page.keyboard.press("Escape")
