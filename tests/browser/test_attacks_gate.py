"""Long and hostile questions in a real JupyterLab: nothing is allowed before it could be read, or by a stray key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jupyterlab_page import Lab, Notebook
from playwright.sync_api import Browser, Locator, expect

MAKE = """\
import asyncio, json, threading
from IPython.display import display
from indus_nb.front.notebook.page.widget import AgentWidget
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
heard, live = [], None
def hear(request): heard.append({each.key: getattr(request, name) for name, each in request.wire_fields.items()})
def ask(method, **more): live.signal({"type": "extension_ui_request", "method": method, **more})"""
SHOW = """\
live = AgentWidget("cell", hear, loop.call_soon_threadsafe)
display(live.bundle, metadata=live.metadata, raw=True)"""
EXECUTE = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const future = kernel.requestExecute({code, store_history: false});
    let printed = '';
    future.onIOPub = ({header, content}) => { if (header.msg_type === 'stream') printed += content.text; };
    await future.done;
    return printed;
}"""
LONG = "Run this command? (400 lines)\n\n" + "\n".join(f"echo {number}" for number in range(399)) + "\ntouch EVIL"
OPTIONS = ["Yes, once", "Yes, and always in this session: bash: x", "No"]
HELD_QUIET_MS = 600
PRESS_AS_SOON_AS_FOCUSED = """() => document.addEventListener("focusin", event => {
    const press = kind => new KeyboardEvent(kind, { key: "1", code: "Digit1", bubbles: true, cancelable: true });
    setTimeout(() => {
        event.target.dispatchEvent(press("keydown"));
        event.target.dispatchEvent(press("keyup"));
        window.pressed = true;
    });
}, { once: true })"""
"""From within the page: how long a press from outside takes is for the machine to say."""


class Stage:
    """A cell with a widget, and what it hears."""

    def __init__(self, notebook: Notebook) -> None:
        self.page = notebook.page
        self.notebook = notebook
        self.cell: Locator = notebook.cell(1)
        self.dialog = self.cell.get_by_role("dialog")
        self.text = self.dialog.get_by_role("group", name="Details")
        self.rest = self.dialog.locator(".ia-unread")

    def do(self, code: str) -> str:
        return self.page.evaluate(EXECUTE, code)

    def ask(self, method: str, **more: Any) -> None:
        self.do(f"heard.clear(); ask({method!r}, **json.loads({json.dumps(more)!r}))")
        expect(self.dialog).to_have_count(1)
        expect(self.dialog.locator(".ia-option:enabled").first).to_be_visible()

    def answers(self) -> list[Any]:
        return [each["value"] for each in json.loads(self.do("print(json.dumps(heard))")) if each["kind"] == "answer"]

    def answer(self) -> Any:
        for _ in range(200):
            if found := self.answers():
                return found[0]
            self.page.wait_for_timeout(25)
        raise AssertionError("there was no answer within five seconds")

    def button(self, name: str) -> Locator:
        return self.dialog.get_by_role("button", name=name, exact=True)


@pytest.fixture(scope="module")
def opened(lab: Lab, browser: Browser) -> Iterator[Stage]:
    page = browser.new_page(viewport={"width": 1000, "height": 700})
    page.set_default_timeout(15_000)
    lab.write("questions.ipynb", MAKE, SHOW)
    notebook = lab.open(page, "questions.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    yield Stage(notebook)
    page.close()


@pytest.fixture
def stage(opened: Stage) -> Iterator[Stage]:
    opened.notebook.run(1)
    for _ in range(200):
        if opened.do("print(live is not None and live.ready.is_set())").strip() == "True":
            break
        opened.page.wait_for_timeout(25)
    yield opened
    opened.do("live.close(); live = None")


def test_a_long_question_takes_no_yes_before_its_end_was_in_sight(stage: Stage) -> None:
    stage.ask("select", id="long", title=LONG, options=OPTIONS)
    expect(stage.rest).to_contain_text("more lines below")
    stage.notebook.screenshot("long-question")
    for name in OPTIONS[:2]:
        expect(stage.button(name)).to_be_disabled()
    expect(stage.button("No")).to_be_enabled()
    stage.button("Yes, once").dispatch_event("click")
    stage.text.focus()
    for key in ("1", "2", "Enter"):
        stage.page.keyboard.press(key)
    stage.page.wait_for_timeout(HELD_QUIET_MS)
    assert stage.answers() == []
    stage.text.evaluate("node => { node.scrollTop = node.scrollHeight / 2 }")
    expect(stage.rest).to_contain_text("more lines below")
    expect(stage.button("Yes, once")).to_be_disabled()
    stage.text.evaluate("node => { node.scrollTop = node.scrollHeight }")
    expect(stage.rest).to_be_hidden()
    stage.button("Yes, once").click()
    assert stage.answer() == "Yes, once"


def test_a_long_question_is_read_and_answered_by_the_keyboard_alone(stage: Stage) -> None:
    stage.ask("select", id="keys", title=LONG, options=OPTIONS)
    stage.text.focus()
    stage.page.keyboard.press("End")
    expect(stage.button("Yes, once")).to_be_enabled()
    stage.page.keyboard.press("Tab")
    expect(stage.button("Yes, once")).to_be_focused()
    stage.page.keyboard.press("Enter")
    assert stage.answer() == "Yes, once"


def test_the_line_below_leads_to_the_end(stage: Stage) -> None:
    stage.ask("select", id="bar", title=LONG[:600], options=OPTIONS)
    for _ in range(20):
        if stage.rest.is_hidden():
            break
        stage.rest.press("Enter")
        stage.page.wait_for_timeout(50)
    expect(stage.button("Yes, once")).to_be_enabled()
    stage.button("No").click()
    assert stage.answer() == "No"


def test_no_can_be_said_without_reading(stage: Stage) -> None:
    stage.ask("select", id="no", title=LONG, options=OPTIONS)
    stage.button("No").click()
    assert stage.answer() == "No"


def test_a_long_message_takes_no_yes_either(stage: Stage) -> None:
    stage.ask("confirm", id="confirm", title="Sure?", message=LONG)
    expect(stage.button("Yes")).to_be_disabled()
    stage.text.focus()
    stage.page.keyboard.press("y")
    stage.page.wait_for_timeout(HELD_QUIET_MS)
    assert stage.answers() == []
    stage.text.evaluate("node => { node.scrollTop = node.scrollHeight }")
    stage.button("Yes").click()
    assert stage.answer() is True


def test_a_short_question_can_be_answered_at_once(stage: Stage) -> None:
    stage.ask("select", id="short", title="Run this command?\n\necho hi", options=OPTIONS)
    expect(stage.rest).to_be_hidden()
    stage.button("Yes, once").click()
    assert stage.answer() == "Yes, once"


@pytest.mark.parametrize("keys", ["yes", "11", "1 ", "nono"])
def test_a_dialog_that_took_the_focus_is_not_answered_by_who_goes_on_to_type(stage: Stage, keys: str) -> None:
    stage.cell.locator(".jp-InputPrompt").click()  # in command mode
    stage.ask("select", id=f"k{keys}", title="Run this command?\n\nrm -rf x", options=["y", "Yes, once", "No"])
    expect(stage.dialog).to_be_focused()
    stage.page.wait_for_timeout(HELD_QUIET_MS)  # so that it takes keys
    for key in keys:
        stage.page.keyboard.press("Space" if key == " " else key)
    stage.page.wait_for_timeout(HELD_QUIET_MS)
    assert stage.answers() == []
    stage.page.keyboard.press("Escape")
    assert stage.answer() is None


def test_a_key_right_after_the_dialog_took_the_focus_answers_nothing(stage: Stage) -> None:
    stage.cell.locator(".jp-InputPrompt").click()
    stage.page.evaluate(PRESS_AS_SOON_AS_FOCUSED)
    stage.ask("select", id="early", title="Run this command?\n\nrm -rf x", options=OPTIONS)
    expect(stage.dialog).to_be_focused()
    stage.page.wait_for_function("window.pressed === true")
    stage.page.wait_for_timeout(HELD_QUIET_MS)
    assert stage.answers() == []
    stage.page.keyboard.press("1")
    assert stage.answer() == OPTIONS[0]


def test_keys_that_go_on_when_a_dialog_comes_are_not_meant_for_it(stage: Stage) -> None:
    stage.cell.locator(".jp-InputPrompt").click()
    stage.do("heard.clear(); ask('select', id='typed', title='Run this?\\n\\nrm x', options=['Yes, once', 'No'])")
    expect(stage.dialog).to_have_count(1)
    for _ in range(6):  # quicker than the pause that the dialog waits for
        stage.page.keyboard.press("ArrowDown", delay=20)
        stage.page.keyboard.press("Enter", delay=20)
    assert stage.answers() == []
    stage.page.keyboard.press("Escape")


def test_letters_stand_in_the_order_in_which_they_count(stage: Stage) -> None:
    stage.ask("select", id="order", title="Run this?\n\necho \u05d0\u05d1 rm", options=["No"])
    assert stage.text.evaluate("node => getComputedStyle(node).unicodeBidi") == "bidi-override"
    assert stage.text.evaluate("node => getComputedStyle(node).direction") == "ltr"
    stage.button("No").click()
