"""A question of a cell beside the panel at the side: its details are shown once, where they are in sight."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from jupyterlab_page import Lab, Notebook, keep_screenshot
from messages_api import Gate, MessagesApi, Reply, ToolUse
from playwright.sync_api import Locator, Page, expect

LAB = {"extension": True, "settings": {}}
KEEPS_PAGE = True

AGENT = "%agent --approve writes --thinking off go"
LONG = "\n".join(f"value_{number} = {number}  # a line" for number in range(93))
WAITS = "A question waits at the 1st cell: show"
FAR = "'below'\n" * 120
SPOKEN = """() => [...document.querySelectorAll('.ia-announced[aria-live]')]
    .flatMap(log => [...log.children].map(line => line.textContent))
    .filter(text => text.startsWith('The agent asks'))"""
SCROLL = """down => {
    const scroller = document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer');
    scroller.scrollTop = down ? scroller.scrollHeight : 0;
}"""


@pytest.fixture(autouse=True)
def fresh(lab: Lab, api: MessagesApi) -> Iterator[None]:
    yield
    api.clear()
    lab.shut_down_kernels()


class Beside:
    """A notebook whose first cell asks, and its panel at the side."""

    def __init__(self, lab: Lab, page: Page, name: str, *cells: str) -> None:
        lab.write(name, AGENT, *cells)
        page.set_viewport_size({"width": 1500, "height": 900})
        self.page = page
        self.notebook: Notebook = lab.open(page, name)
        page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
        self.chat = page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")
        self.composer = self.chat.locator("textarea.ia-text")
        expect(self.composer).to_be_focused()  # which would take the focus from a question later
        self.in_cell: Locator = self.notebook.cell(0).get_by_role("dialog")
        self.in_panel = self.chat.get_by_role("dialog")
        self.line = self.chat.locator(".ia-where")

    def run(self) -> None:
        self.notebook.run_by_mouse(0)  # a question does not take the focus while keys are pressed
        expect(self.in_cell).to_be_visible()
        expect(self.line).to_have_text(WAITS)

    def scroll(self, *, down: bool) -> None:
        self.page.evaluate(SCROLL, down)


def python(*codes: str) -> list[Reply]:
    """Answers of a model that runs code, a call at a time."""
    return [*(Reply(ToolUse("python", {"code": code})) for code in codes), Reply("I see.")]


def yes(dialog: Locator) -> Locator:
    return dialog.get_by_role("button", name="Yes", exact=True)


def test_the_panel_says_only_where_a_question_waits_as_long_as_that_is_in_sight(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    api.add(*python("import os\nos.environ['ONE'] = '1'"))
    beside = Beside(lab, page, "once.ipynb", FAR)
    beside.run()
    expect(beside.in_cell).to_be_focused()
    expect(beside.in_panel).to_have_count(0)
    assert page.evaluate(SPOKEN) == [], "the focus announces it"
    keep_screenshot(page, "question-once")
    beside.scroll(down=True)
    expect(beside.in_panel).to_be_visible()
    expect(beside.in_panel.locator(".ia-body")).to_contain_text("os.environ")
    expect(beside.line).to_be_hidden()
    keep_screenshot(page, "question-out-of-sight")
    beside.scroll(down=False)
    expect(beside.in_panel).to_be_hidden()
    expect(beside.in_cell).to_be_visible()
    beside.composer.click()
    beside.line.click()
    expect(beside.in_cell).to_be_in_viewport()
    expect(beside.in_cell).to_be_focused()
    expect(beside.in_panel).to_be_hidden()
    assert page.evaluate(SPOKEN) == []
    yes(beside.in_cell).click()
    beside.notebook.wait_until_run(0)
    expect(beside.line).to_have_count(0)
    assert "did not allow" not in str(api.requests[-1].body)


def test_a_question_out_of_sight_is_answered_in_the_panel_and_so_is_the_next_one(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    api.add(*python("import os\nos.environ['ONE'] = '1'", "os.environ['TWO'] = '2'"))
    beside = Beside(lab, page, "answers.ipynb", FAR)
    beside.run()
    beside.scroll(down=True)
    expect(yes(beside.in_panel)).to_be_enabled()
    yes(beside.in_panel).click()
    expect(beside.in_panel.locator(".ia-body")).to_contain_text("TWO")
    expect(beside.in_panel).to_be_focused()
    beside.scroll(down=False)
    expect(beside.in_cell).to_be_in_viewport()
    expect(beside.in_panel).to_be_visible()  # which has the focus
    beside.composer.click()
    expect(beside.in_panel).to_be_hidden()
    page.keyboard.type("y")
    expect(beside.composer).to_have_value("y")
    expect(beside.in_cell).to_be_visible()
    yes(beside.in_cell).click()
    beside.notebook.wait_until_run(0)
    assert "did not allow" not in str(api.requests[-1].body)


def test_what_was_read_to_its_end_in_the_cell_may_be_allowed_in_the_panel_and_nothing_before(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    api.add(*python(LONG + "\nimport os\nos.environ['LONG'] = '1'"))
    beside = Beside(lab, page, "long.ipynb", FAR)
    beside.run()
    expect(beside.in_cell.locator(".ia-unread")).to_be_visible()
    beside.scroll(down=True)
    expect(beside.in_panel.get_by_role("button", name="No", exact=True)).to_be_enabled()
    expect(yes(beside.in_panel)).to_be_disabled()
    beside.scroll(down=False)
    expect(beside.in_panel).to_be_hidden()
    beside.in_cell.locator(".ia-body").evaluate("node => node.scrollTo(0, node.scrollHeight)")
    expect(yes(beside.in_cell)).to_be_enabled()
    beside.scroll(down=True)
    expect(yes(beside.in_panel)).to_be_enabled()
    yes(beside.in_panel).click()
    beside.notebook.wait_until_run(0)
    assert "did not allow" not in str(api.requests[-1].body)


def test_a_text_whose_lines_are_all_in_sight_in_a_narrow_panel_may_be_allowed(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    short = "\n".join(f"value_{number} = {number}" for number in range(6))
    api.add(*python(f"{short}\nimport os; os.environ['ONE'] = 'a line that is broken once'"))
    beside = Beside(lab, page, "narrow.ipynb", FAR)
    root = beside.chat.locator(".ia-root")
    root.evaluate("root => Object.assign(root.style, {flex: 'none', width: '400px'})")
    beside.run()
    beside.scroll(down=True)
    body = beside.in_panel.locator(".ia-body")
    assert round(body.evaluate("body => body.scrollHeight / parseFloat(getComputedStyle(body).lineHeight)")) == 9
    expect(beside.in_panel.locator(".ia-unread")).to_be_hidden()
    expect(yes(beside.in_panel)).to_be_enabled()
    root.evaluate("root => root.style.width = '300px'")
    expect(beside.in_panel.locator(".ia-unread")).to_be_hidden()
    root.evaluate("root => root.style.width = '190px'")
    expect(beside.in_panel.locator(".ia-unread")).to_have_text(re.compile(r"^▼ \d+ more lines? below$"))
    yes(beside.in_panel).click()
    beside.notebook.wait_until_run(0)
    assert "did not allow" not in str(api.requests[-1].body)


@pytest.mark.parametrize("how", ["another document", "the output is collapsed"])
def test_a_question_whose_cell_is_hidden_is_shown_in_the_panel(
    lab: Lab, page: Page, api: MessagesApi, how: str
) -> None:
    api.add(*python("import os\nos.environ['ONE'] = '1'"))
    beside = Beside(lab, page, f"{how.replace(' ', '_')}.ipynb")
    beside.run()
    expect(beside.in_panel).to_have_count(0)
    if how == "another document":
        page.evaluate("window.jupyterapp.commands.execute('launcher:create')")
    else:
        page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets[0].outputHidden = true")
    expect(beside.in_panel).to_be_visible()
    beside.composer.click()
    expect(yes(beside.in_panel)).to_be_enabled()
    page.keyboard.press("Alt+y")
    expect(beside.in_panel).to_have_count(0)
    expect(beside.chat.locator(".indus-answer").last).to_have_text("I see.")
    assert "did not allow" not in str(api.requests[-1].body)


def test_a_question_takes_nothing_from_who_types_in_the_panel_and_is_announced_once(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    held = Gate()
    first, last = python("import os\nos.environ['ONE'] = '1'")
    api.add(Reply(held, *first.content), last)
    beside = Beside(lab, page, "typing.ipynb", FAR)
    beside.composer.click()
    page.keyboard.type("what I")
    page.evaluate("""() => {
        const { commands, shell } = window.jupyterapp;
        shell.currentWidget.content.activeCellIndex = 0;
        commands.execute('notebook:run-cell');
    }""")
    beside.composer.click()
    page.keyboard.type(" mean")
    held.open()
    expect(beside.in_cell).to_be_visible()
    expect(beside.line).to_have_text(WAITS)
    expect(beside.in_panel).to_have_count(0)
    page.keyboard.type(" is y1")
    expect(beside.composer).to_have_value("what I mean is y1")
    page.wait_for_function(f"({SPOKEN})().length === 1")
    beside.scroll(down=True)
    expect(beside.in_panel).to_be_visible()
    expect(beside.composer).to_be_focused()
    expect(yes(beside.in_panel)).to_be_enabled()
    assert len(page.evaluate(SPOKEN)) == 1
    beside.in_panel.get_by_role("button", name="No", exact=True).click()
    beside.notebook.wait_until_run(0)
    assert re.search("did not allow", str(api.requests[-1].body))
