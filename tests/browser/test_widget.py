"""The widget by itself in a real JupyterLab: a cell makes a widget, and the test plays the agent."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE
from jupyterlab_page import Lab, Notebook
from PIL import Image
from playwright.sync_api import Browser, Locator, expect

MAKE = """\
import asyncio, json, threading
from IPython.display import display
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.page.widget import AgentWidget
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
kind, heard, live = "cell", [], None
def hear(request):
    images = [image.to_wire() for image in getattr(request, "images", ())]
    fields = {each.key: getattr(request, name) for name, each in request.wire_fields.items()}
    heard.append({"kind": getattr(request, "names", [None])[0], **fields, "images": images})
def ask(method, **more): live.signal({"type": "extension_ui_request", "method": method, **more})
def said(text): return blocks.answer(text)["text/html"]"""
SHOW = """\
live = AgentWidget(kind, hear, loop.call_soon_threadsafe)
display(live.bundle, metadata=live.metadata, raw=True)"""
OPEN_DIALOG = """\
from indus_nb.core.session.dialogs import Select
open_dialog = Select(id="s", title="Go on?", options=["Yes", "No"], timeout=60_000)
live.open_dialogs = lambda: [(open_dialog, 58.0)]"""
"""What the session says of the dialog that is open."""
OPEN_QUESTION = """\
from indus_nb.core.session.questions import Choice, Question
kinds = {"Yes": "yes", "Always": "again", "No": "no"}
question = Question("Run this?", [Choice(option, kind) for option, kind in kinds.items()], body="ls")
live.question_of = lambda _: question"""
KEYS_ONE_AFTER_THE_OTHER = """async keys => {
    const [field, box] = ['.ia-text', '.ia-dialog'].map(name => document.querySelector(name));
    const press = key => field.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
    field.focus();
    for (const key of keys) {
        const passed = new Promise(done => box.addEventListener('keydown', () => setTimeout(done), {once: true}));
        press(key);
        if (key !== keys.at(-1)) await passed;
    }
}"""
"""Presses keys in the composer, each as soon as the one before was passed on to the question."""
EXECUTE = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const future = kernel.requestExecute({code, store_history: false});
    let printed = '', failed = null;
    future.onIOPub = ({header, content}) => {
        if (header.msg_type === 'stream') printed += content.text;
        if (header.msg_type === 'error') failed = content.traceback.join('\\n');
    };
    await future.done;
    if (failed) throw new Error(failed);
    return printed;
}"""
PANEL_STATE: dict[str, Any] = {
    "busy": False,
    "models": [
        {"provider": "anthropic", "id": "sonnet", "name": "Sonnet", "reasoning": True},
        {"provider": "openai", "id": "gpt", "name": "GPT", "reasoning": True},
    ],
    "current_model": {"provider": "anthropic", "id": "sonnet"},
    "levels": ["off", "low", "high"],
    "level": "low",
    "session": {"name": "Mend the mean", "id": "1"},
    "commands": [{"name": "compact", "description": "Summarise", "source": "builtin"}],
    "tokens": "1,200 in · 34 out",
    "cost": "$0.0132 · session $0.42",
    "model": "Sonnet",
}


SIDE_BAR = "node => { node.style.width = '300px' }"
COVERED = """node => {
    const lines = [];
    const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode;
        const parent = text.parentElement;
        if (!text.data.trim() || parent.closest('button') || !parent.checkVisibility()) continue;
        const range = document.createRange();
        range.selectNodeContents(text);
        for (const box of range.getClientRects()) lines.push([text.data, box]);
    }
    const cross = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    return [...node.querySelectorAll('.ia-area button')].filter(button => button.checkVisibility()).flatMap(button => {
        const box = button.getBoundingClientRect();
        return lines.filter(([, line]) => cross(box, line)).map(([text]) => `${button.className}: ${text}`);
    });
}"""
"""Texts of which a line lies below a button of the conversation."""
LINES = """node => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size;
}"""
OUTSIDE = """node => [...node.children]
    .filter(each => each.checkVisibility() && each.getBoundingClientRect().right > node.getBoundingClientRect().right)
    .map(each => each.textContent)"""

KEYS_COUNT_MS = 600
"""After which a dialog that took the focus is answered by keys."""


class Stage:
    """A notebook whose first cell made what the agent has, and whose second cell shows the widget."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.page = notebook.page
        self.cell: Locator = notebook.cell(1)
        self.root: Locator = self.cell.locator(".ia-root")
        self.dialog = self.root.get_by_role("dialog")
        self.composer = self.root.get_by_label("Message")

    def do(self, code: str) -> str:
        """Run code in the kernel; returns what it prints."""
        return self.page.evaluate(EXECUTE, code)

    def show(self, kind: str, **state: Any) -> None:
        self.do(f"kind = {kind!r}; heard.clear()")
        self.notebook.run(1)
        expect(self.root).to_have_count(1)
        self.wait(lambda: self.do("print(live is not None and live.ready.is_set())").strip() == "True")
        self.set(**state)

    def set(self, **state: Any) -> None:
        self.do(f"live.set(**json.loads({json.dumps(state)!r})); live.send()")

    def ask(self, method: str, **more: Any) -> None:
        self.do(f"ask({method!r}, **json.loads({json.dumps(more)!r}))")

    def wait(self, condition: Callable[[], bool]) -> None:
        for _ in range(200):
            if condition():
                return
            self.page.wait_for_timeout(25)
        raise AssertionError("it did not come true within five seconds")

    def heard(self) -> list[dict[str, Any]]:
        return json.loads(self.do("print(json.dumps(heard))"))

    def hears(self, **message: Any) -> None:
        """Wait until the page has sent such a message."""
        self.wait(lambda: any(message.items() <= each.items() for each in self.heard()))

    def ready(self, name: str) -> Locator:
        """A button of the dialog, once it takes answers."""
        button = self.dialog.get_by_role("button", name=name)
        expect(button).to_be_enabled()
        return button


@pytest.fixture(scope="module")
def opened(lab: Lab, browser: Browser) -> Iterator[Stage]:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(15_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(f"{error}\n{error.stack}"))
    lab.write("widget.ipynb", MAKE, SHOW, "6 * 7")
    notebook = lab.open(page, "widget.ipynb")
    page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
    notebook.run(0)
    notebook.wait_until_run(0)
    yield Stage(notebook)
    page.close()
    assert errors == []


@pytest.fixture
def stage(opened: Stage) -> Iterator[Stage]:
    yield opened
    opened.do("if live: live.close()")
    expect(opened.root).to_have_count(0)
    opened.page.set_viewport_size({"width": 1200, "height": 900})


@pytest.fixture
def cell(stage: Stage) -> Stage:
    stage.show("cell", model="Sonnet", note="waiting for Sonnet", started_ms_ago=65_000, tokens="1,200 in · 34 out")
    return stage


@pytest.fixture
def panel(stage: Stage) -> Stage:
    stage.show("panel", **PANEL_STATE)
    return stage


# A cell


def test_text_streams_in_and_stop_is_there_from_the_first_moment(stage: Stage) -> None:
    stage.show("cell")
    stop = stage.root.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    stage.set(busy=True, started_ms_ago=61_000, note="waiting for Sonnet", cost="$0.01")
    expect(stage.root.locator(".ia-foot")).to_contain_text("waiting for Sonnet")
    expect(stage.root.locator(".ia-time")).to_have_text(re.compile(r"1:0\d"))
    text = "One 😀 two $O(n)$ three **four** and five."
    for end in range(1, len(text) + 3, 3):
        stage.do(f"live.put('b', said('above')); live.put('a', said({text[:end]!r})); live.send()")
    expect(stage.root.locator(".ia-area")).to_have_text(re.compile(r"above\s*One 😀 two .* four and five"))
    spoken = stage.root.locator("[aria-live=polite][role=log] p")
    expect(spoken).to_have_text(["above"])  # no sentence has ended below it
    stage.do("live.drop('a'); live.send()")
    expect(stage.root.locator(".ia-area")).to_have_text(re.compile(r"^\s*above\s*$"))
    expect(spoken).to_have_text(["above", "One 😀 two $O(n)$ three four and five."])

    height = stage.root.locator(".ia-foot").bounding_box()
    stop.click()
    stage.hears(kind="stop")
    expect(stage.root.get_by_role("button", name="Stopping …")).to_be_disabled()
    stage.set(busy=False, stopping=False)
    expect(stage.root.locator(".ia-stop")).to_be_hidden()
    after = stage.root.locator(".ia-foot").bounding_box()
    assert height is not None
    assert after is not None
    assert height["height"] == after["height"]


def test_what_grows_keeps_the_selection_and_what_was_folded(cell: Stage) -> None:
    put = "live.put('t', blocks.thinking({!r}, growing=True)['text/html']); live.put('a', said({!r})); live.send()"
    cell.do(put.format("I think", "The answer"))
    cell.root.locator("summary").click()
    expect(cell.root.locator("details")).not_to_have_attribute("open", "")
    cell.root.locator(".indus-answer p").select_text()
    cell.do(put.format("I think more", "The answer is long"))
    expect(cell.root.locator(".indus-answer")).to_contain_text("is long")
    expect(cell.root.locator("summary")).to_contain_text("12 characters")
    expect(cell.root.locator("details")).not_to_have_attribute("open", "")
    assert cell.page.evaluate("getSelection().toString()").startswith("The answer")


def test_a_page_that_missed_a_patch_asks_for_all(cell: Stage) -> None:
    cell.do("live.put('a', said('first')); live.send(); sent = live._widget.send")
    cell.do("live._widget.send = lambda _: None; live.put('b', said('second')); live.send(); live._widget.send = sent")
    expect(cell.root.locator(".ia-area")).to_have_text(re.compile(r"^\s*first\s*$"))
    cell.do("live.put('c', said('third')); live.send()")
    expect(cell.root.locator(".ia-area")).to_have_text(re.compile(r"first\s*second\s*third"))
    cell.do("live.put('c', said('third time')); live.send()")
    expect(cell.root.locator(".ia-area")).to_contain_text("third time")


def test_choosing_by_keyboard_and_by_mouse(cell: Stage) -> None:
    question = "Run this?\n\nimport os\nprint(1)"
    cell.cell.locator(".jp-InputPrompt").click()  # in command mode, at this cell
    cell.ask("select", id="s1", title=question, options=["Yes, once", "Yes, always", "No"])
    expect(cell.dialog.locator(".ia-heading")).to_have_text("Run this?")
    expect(cell.dialog.locator("pre")).to_have_text("import os\nprint(1)")
    expect(cell.dialog).to_have_accessible_name("Run this?")
    expect(cell.root.locator(".ia-foot")).to_contain_text("waiting for your answer")
    expect(cell.ready("Yes, once")).to_be_enabled()
    expect(cell.dialog).to_be_focused()
    for key in ("Enter", "Space"):  # which were meant for the notebook, perhaps
        cell.page.keyboard.press(key)
    cell.page.wait_for_timeout(KEYS_COUNT_MS)
    cell.page.keyboard.press("ArrowDown")
    expect(cell.dialog.get_by_role("button", name="Yes, once")).to_be_focused()
    cell.page.keyboard.press("ArrowDown")
    expect(cell.dialog.get_by_role("button", name="Yes, always")).to_be_focused()
    cell.page.keyboard.press("ArrowUp")
    cell.page.keyboard.press("ArrowUp")
    cell.page.keyboard.press("Enter")
    cell.hears(kind="answer", id="s1", value="No")
    expect(cell.dialog).to_have_count(0)

    cell.ask("select", id="s2", title="Again?", options=["a", "b"])
    cell.ask("select", id="s3", title="And again?", options=["c", "the last"])
    expect(cell.ready("b")).to_be_visible()
    expect(cell.dialog).to_contain_text("1 more after this")
    expect(cell.dialog).to_be_focused()
    cell.page.wait_for_timeout(KEYS_COUNT_MS)
    cell.page.keyboard.press("2")
    cell.hears(kind="answer", id="s2", value="b")
    cell.ready("the last").click()
    cell.hears(kind="answer", id="s3", value="the last")


def test_a_choice_that_comes_later_stands_behind_the_others_and_takes_no_key_that_was_under_way(cell: Stage) -> None:
    cell.cell.locator(".jp-InputPrompt").click()
    cell.do(f"{OPEN_QUESTION}\nkinds['Run'] = 'more'")
    cell.do("question = Question('Put it in?', [Choice('Yes', 'yes'), Choice('No', 'no')], body='x = 1')")
    cell.ask("select", id="l", title="Put it in?", options=["Yes", "No"])
    expect(cell.ready("Yes")).to_be_enabled()
    expect(cell.dialog).to_be_focused()
    cell.do(
        "question = Question('Put it in?', [Choice(each, kinds[each]) for each in ('Yes', 'No', 'Run')], body='x = 1')"
    )
    changed = {"method": "select", "id": "l", "title": "Put it in?", "options": ["Yes", "No", "Run"]}
    cell.ask("dialogChanged", id="c", dialog=changed)
    expect(cell.dialog.get_by_role("button")).to_have_text(["Yes1", "No2", "Run3"])
    expect(cell.dialog).to_be_focused()
    cell.page.keyboard.press("3")  # within the time in which a new dialog takes none
    assert not [each for each in cell.heard() if each["kind"] == "answer"]
    cell.ready("Run").click()
    cell.hears(kind="answer", id="l", value="Run")
    expect(cell.dialog).to_have_count(0)


def test_yes_no_and_dismiss(cell: Stage) -> None:
    cell.cell.locator(".jp-InputPrompt").click()
    for key, value in (("y", True), ("n", False), ("Escape", None)):
        cell.ask("confirm", id=f"c{key}", title="Sure?", message="It cannot be undone.")
        expect(cell.dialog).to_contain_text("It cannot be undone.")
        expect(cell.ready("Yes")).to_be_enabled()
        expect(cell.dialog).to_be_focused()
        cell.page.wait_for_timeout(KEYS_COUNT_MS)
        cell.page.keyboard.press(key)
        cell.hears(kind="answer", id=f"c{key}", value=value)
    for name, value in (("Yes", True), ("No", False)):
        cell.ask("confirm", id=name, title="Sure?", message="")
        cell.ready(name).click()
        cell.hears(kind="answer", id=name, value=value)


def test_writing_answers(cell: Stage) -> None:
    cell.ask("input", id="i1", title="Name?", placeholder="yours")
    field = cell.dialog.get_by_role("textbox")
    expect(field).to_have_attribute("placeholder", "yours")
    expect(cell.ready("Send")).to_be_visible()
    field.fill("dd")  # which would delete cells in command mode
    field.press("Enter")
    cell.hears(kind="answer", id="i1", value="dd")
    cell.ask("editor", id="e1", title="Edit", prefill="one")
    expect(field).to_have_value("one")
    expect(cell.ready("Done")).to_be_visible()
    field.press("End")
    field.press("Enter")
    cell.page.keyboard.type("two")
    field.press("Control+Enter")
    cell.hears(kind="answer", id="e1", value="one\ntwo")
    cell.ask("input", id="i2", title="Name?")
    cell.dialog.get_by_role("textbox").fill("x")
    cell.ready("Send").click()
    cell.hears(kind="answer", id="i2", value="x")
    expect(cell.page.locator(".jp-Notebook .jp-Cell")).to_have_count(3)


def test_a_dialog_counts_down_and_goes_when_it_is_answered_elsewhere(cell: Stage) -> None:
    cell.ask("confirm", id="c1", title="Sure?", message="", timeout=30_000)
    expect(cell.dialog.locator(".ia-left")).to_have_text(re.compile("(29|30) s left"))
    expect(cell.dialog.locator(".ia-left")).to_have_text("28 s left")
    cell.ask("cancel", id="x", targetId="c1")
    expect(cell.dialog).to_have_count(0)
    assert cell.heard() == []


def test_keys_are_taken_by_a_dialog_only_from_those_who_look_at_it(cell: Stage) -> None:
    cell.notebook.cell(2).locator(".cm-content").click()
    cell.ask("confirm", id="c1", title="Sure?", message="")
    expect(cell.ready("Yes")).not_to_be_focused()
    cell.page.keyboard.type("y")
    expect(cell.notebook.cell(2)).to_contain_text("y")
    cell.page.keyboard.press("Backspace")
    cell.ready("Yes").focus()
    for key in ("d", "d", "a", "x", "Shift+Enter"):
        cell.page.keyboard.press(key)
    assert cell.heard() == []
    cell.page.keyboard.press("Enter")
    cell.hears(kind="answer", id="c1", value=True)
    expect(cell.page.locator(".jp-Notebook .jp-Cell")).to_have_count(3)


def test_signs_stand_beside_the_blocks(cell: Stage) -> None:
    cell.ask("notify", id="1", message="Saved.", notifyType="info")
    cell.ask("notify", id="2", message="It <b>failed</b>.", notifyType="error")
    cell.ask("setStatus", id="3", statusKey="git", statusText="main +2")
    cell.ask("setWidget", id="4", widgetKey="todo", widgetLines=["[x] one", "[ ] two"], widgetPlacement="aboveEditor")
    cell.ask("setTitle", id="5", title="A title")
    cell.set(warning="Variables are those of another branch.")
    for text in ("Saved.", "It <b>failed</b>.", "main +2", "[ ] two", "A title", "Variables are"):
        expect(cell.root).to_contain_text(text)
    cell.notebook.screenshot("widget-signs")
    cell.root.locator(".ia-toast.ia-error").get_by_role("button", name="Close").click()
    expect(cell.root.locator(".ia-toast.ia-error")).to_have_count(0)
    cell.ask("setStatus", id="6", statusKey="git")
    cell.ask("setWidget", id="7", widgetKey="todo")
    cell.set(warning=None)
    for text in ("main +2", "[ ] two", "Variables are"):
        expect(cell.root).not_to_contain_text(text)


def test_a_view_that_moves_has_the_half_written_answer_and_the_focus(cell: Stage) -> None:
    cell.do("live.put('a', said('above')); live.send()")
    cell.ask("input", id="i1", title="Name?")
    expect(cell.ready("Send")).to_be_visible()
    field = cell.dialog.get_by_role("textbox")
    field.fill("half")
    field.press("ArrowLeft")
    # What happens when something that is finished is shown above it.
    cell.page.evaluate(
        """() => {
            const outputs = window.jupyterapp.shell.currentWidget.content.widgets[1].model.outputs;
            const widget = outputs.get(0).toJSON();
            outputs.set(0, {output_type: 'display_data', data: {'text/plain': 'finished'}, metadata: {}});
            outputs.add(widget);
        }"""
    )
    expect(cell.cell).to_contain_text("finished")
    expect(field).to_have_value("half")
    expect(field).to_be_focused()
    cell.page.keyboard.type("-")
    expect(field).to_have_value("hal-f")
    field.press("Enter")
    cell.hears(kind="answer", id="i1", value="hal-f")


def test_the_notebook_follows_the_end_until_the_reader_scrolls_up(cell: Stage) -> None:
    def at_end() -> bool:
        return cell.page.evaluate(
            """() => {
                const bottom = document.querySelector('.ia-foot').getBoundingClientRect().bottom;
                return bottom <= document.querySelector('.jp-WindowedPanel-outer').getBoundingClientRect().bottom;
            }"""
        )

    grow = "live.put('a', said('line\\n\\n' * {})); live.send()"
    cell.do(grow.format(60))
    cell.wait(at_end)
    cell.do(grow.format(90))
    cell.wait(at_end)
    cell.root.hover()
    cell.page.mouse.wheel(0, -800)
    cell.wait(lambda: not at_end())
    cell.do(grow.format(91))
    expect(cell.root.locator(".ia-area p")).to_have_count(91)  # what is read aloud holds some of them too
    assert not at_end()
    while not at_end():
        cell.page.mouse.wheel(0, 300)
    cell.do(grow.format(120))
    cell.wait(at_end)


def test_code_of_a_call_can_become_a_cell_and_the_page_tells_of_cells(cell: Stage) -> None:
    cell.do(
        "from indus_nb.tools.description import CallDescription\n"
        "described = CallDescription('python', code='total = 1\\nprint(total)')\n"
        "call = blocks.Call('python', {}, described, state='done')\n"
        "live.put('a', blocks.call(call)['text/html']); live.send()"
    )
    button = cell.root.get_by_role("button", name="To cell")
    button.focus()
    button.press("Enter")
    cell.hears(kind="to_cell", code="total = 1\nprint(total)")

    def request(**payload: Any) -> Any:
        code = f"asyncio.run_coroutine_threadsafe(live.request(**{payload!r}), loop).add_done_callback("
        cell.do("answers = []\n" + code + "lambda done: answers.append(done.result()))")
        cell.wait(lambda: cell.do("print(len(answers))").strip() == "1")
        return json.loads(cell.do("print(json.dumps(answers[0]))"))

    cells = request(what="cells")["cells"]
    assert [each["source"] for each in cells] == [MAKE, SHOW, "6 * 7"]
    assert [each["type"] for each in cells] == ["code"] * 3

    def change(own_id: str, source: str, **edit: Any) -> Any:
        whole = {"cell": own_id, "type": "code", "old": None, "source": source, "after": "", "outputs": [], **edit}
        return request(what="change_cells", edits=[whole])

    assert change("new", "# New", type="markdown", after=cells[1]["id"]) == {"numbers": [3], "removed": []}
    expect(cell.notebook.cell(2)).to_contain_text("# New")
    assert "error" in change("new", "x", old="something else")
    assert change("new", "# Newer", old="# New") == {"numbers": [3], "removed": []}
    expect(cell.notebook.cell(2)).to_contain_text("# Newer")
    assert "error" in change("other", "x", after="nowhere")
    assert "error" in request(what="unheard_of")
    change("below", "'below its own'", after=None)
    expect(cell.notebook.cell(2)).to_contain_text("below its own")
    cell.do("live._used = 'another page'")
    assert request(what="cells", timeout=0.3) is None
    for _ in range(2):
        cell.notebook.cell(2).locator(".jp-InputPrompt").click()
        for _ in range(2):
            cell.page.keyboard.press("d")
    expect(cell.page.locator(".jp-Notebook .jp-Cell")).to_have_count(3)


def test_hostile_text_stays_text_everywhere(stage: Stage) -> None:
    requested: list[str] = []
    stage.page.on("request", lambda request: requested.append(request.url))
    stage.do(f"hostile = json.loads({json.dumps(HOSTILE)!r})")
    for kind in ("cell", "panel"):
        stage.show(kind, **PANEL_STATE)
        stage.do(
            textwrap.dedent(
                """
                everything = "\\n".join(hostile)
                live.set(model=everything, tokens=everything, cost=everything, note=everything, warning=everything,
                    title=everything, session={"name": everything, "id": everything}, level=hostile[0],
                    levels=hostile, current_model={"provider": hostile[0], "id": hostile[0]},
                    models=[{"provider": text, "id": text, "name": text} for text in hostile],
                    queue={"steering": hostile, "followUp": hostile},
                    commands=[{"name": text, "description": text, "source": text} for text in hostile],
                    sessions=[{"path": text, "name": text, "modified": text, "messages": text} for text in hostile],
                    tree=[{"id": text, "depth": 1, "role": text, "text": text, "label": text} for text in hostile],
                    composer={"text": everything, "n": 1}, download={"name": everything, "html": everything, "n": 1},
                    completions={"text": "/", "items": [{"text": t, "label": t, "detail": t} for t in hostile]})
                for text in hostile:
                    live.put(text, said(text))
                    ask("notify", id=text, message=text, notifyType=text)
                    ask("setStatus", id=text, statusKey=text, statusText=text)
                    ask("setWidget", id=text, widgetKey=text, widgetLines=[text])
                ask("select", id="s", title=everything, options=hostile)
                """
            )
        )
        expect(stage.dialog.locator(".ia-option")).to_have_count(len(HOSTILE))
        if kind == "panel":
            for name in ("Tree", "Sessions"):
                stage.root.get_by_role("button", name=name).click()
                expect(stage.root.locator(".ia-entry")).to_have_count(len(HOSTILE))
            stage.root.locator(".ia-overlay").get_by_role("button", name="Close").click()
            stage.composer.fill("/")
            expect(stage.root.locator(".ia-choice")).not_to_have_count(0)
        foreign = "script, iframe, img, object, embed, form, svg, math, style, link, base"
        of_ours = "mjx-container *, .ia-key-fields"  # formulas are typeset, and a key has a form
        found = stage.root.locator(f":is({foreign}):not({of_ours})")
        assert found.evaluate_all("elements => elements.map(each => each.outerHTML.slice(0, 300))") == []
        links = stage.root.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
        assert [link for link in links if not re.match("https?:|mailto:|blob:", link)] == []
        acting = "els => els.flatMap(e => [...e.attributes].map(a => a.name)).filter(name => name.startsWith('on'))"
        assert stage.root.locator("*").evaluate_all(acting) == []
        stage.do("live.close()")
        expect(stage.root).to_have_count(0)
    stage.page.evaluate("() => new Promise(requestIdleCallback)")
    assert stage.page.evaluate("window.hacked") is None
    assert [url for url in requested if "evil" in url] == []


# A panel


def test_what_is_written_is_sent_steers_or_follows_up(panel: Stage) -> None:
    box = panel.composer
    box.fill("hello")
    box.press("Shift+Enter")
    panel.page.keyboard.type("there")
    box.press("Enter")
    panel.hears(kind="prompt", text="hello\nthere", how="send", images=[])
    expect(box).to_have_value("")
    panel.set(busy=True, started_ms_ago=0)
    box.fill("not that file")
    expect(panel.root.get_by_role("button", name="Steer")).to_be_enabled()
    box.press("Enter")
    panel.hears(kind="prompt", text="not that file", how="steer")
    box.fill("then test")
    box.press("Alt+Enter")
    panel.hears(kind="prompt", text="then test", how="followUp")
    box.fill("and then rest")
    panel.root.get_by_role("button", name="Follow up").click()
    panel.hears(kind="prompt", text="and then rest", how="followUp")
    panel.root.get_by_role("button", name="Stop", exact=True).click()
    panel.hears(kind="stop")
    panel.set(stopping=False)
    panel.set(stopping=True)
    panel.set(stopping=False)
    box.press("Escape")
    panel.hears(kind="abort")
    panel.set(busy=False, stopping=False)
    for expected in ("and then rest", "then test", "not that file", "hello\nthere", "hello\nthere"):
        box.press("ArrowUp")
        expect(box).to_have_value(expected)
    for expected in ("not that file", "then test", "and then rest", ""):
        box.press("ArrowDown")
        expect(box).to_have_value(expected)
    expect(panel.page.locator(".jp-Notebook .jp-Cell")).to_have_count(3)


def test_a_stop_that_came_too_late_does_not_disable_the_next_one(panel: Stage) -> None:
    panel.set(busy=True)
    stop = panel.root.get_by_role("button", name="Stop")
    panel.do("live.set(busy=False, stopping=False); live._widget_send = live._widget.send; live._known_patch = []")
    panel.do("live._widget.send = live._known_patch.append; live.send()")  # the end of the run is still on its way
    stop.click()
    panel.hears(kind="stop")
    panel.do("live._widget.send = live._widget_send; live._widget.send(live._known_patch[0])")
    expect(stop).to_be_hidden()
    panel.set(busy=True, stopping=False)
    expect(stop).not_to_have_attribute("aria-disabled", "true")
    stop.click()
    panel.wait(lambda: [each["kind"] for each in panel.heard()].count("stop") == 2)


def test_images_are_pasted_dropped_and_removed(panel: Stage, tmp_path: Path) -> None:
    Image.new("RGB", (40, 30), "teal").save(tmp_path / "teal.png")
    chooser = panel.root.locator("input[type=file]")
    paste = """(node, files) => {
        const begin = {'image/png': '\\x89PNG\\r\\n\\x1a\\n', 'image/gif': 'GIF89a', 'image/webp': 'RIFF....WEBP'};
        const data = new DataTransfer();
        for (const [name, type, size] of files) {
            const bytes = new Uint8Array(Math.max(size, 12));
            bytes.set([...begin[type] ?? ''].map(each => each.charCodeAt(0)));
            data.items.add(new File([bytes], name, {type}));
        }
        const as = {bubbles: true, cancelable: true};
        node.dispatchEvent(new ClipboardEvent('paste', {...as, clipboardData: data}));
    }"""
    panel.composer.evaluate(paste, [["big.png", "image/png", 5_000_001], ["notes.txt", "text/plain", 5]])
    expect(panel.root.get_by_role("alert")).to_contain_text("big.png has 5.0 MB")
    panel.hears(kind="file", name="notes.txt")
    chooser.set_input_files(tmp_path / "teal.png")
    expect(panel.root.locator(".ia-image")).to_have_count(1)
    panel.composer.evaluate(paste, [[f"{n}.png", "image/png", 3] for n in range(8)])
    expect(panel.root.locator(".ia-image")).to_have_count(8)
    expect(panel.root.get_by_role("alert")).to_contain_text("7.png was left out")
    panel.notebook.screenshot("widget-images")
    for number in range(1, 7):
        panel.root.get_by_role("button", name=f"Remove {number}.png").click()
    drop = paste.replace("ClipboardEvent('paste', {...as, clipboardData", "DragEvent('drop', {...as, dataTransfer")
    panel.root.locator(".ia-composer").evaluate(
        drop, [["dropped.gif", "image/gif", 6_000], ["x.webp", "image/webp", 1]]
    )
    expect(panel.root.locator(".ia-image")).to_have_count(4)
    panel.composer.fill("look")
    panel.composer.press("Enter")
    panel.hears(kind="prompt", text="look")
    images = panel.heard()[-1]["images"]
    assert [image["mimeType"] for image in images] == ["image/png", "image/png", "image/gif", "image/webp"]
    assert images[0]["data"].startswith("iVBOR")
    expect(panel.root.locator(".ia-image")).to_have_count(0)


def test_images_of_more_than_a_server_takes_at_once_arrive(panel: Stage) -> None:
    many = """node => {
        const data = new DataTransfer();
        const bytes = new Uint8Array(4_900_000);
        bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
        for (const name of ['a', 'b', 'c', 'd']) data.items.add(new File([bytes], name, {type: 'image/png'}));
        node.dispatchEvent(new ClipboardEvent('paste', {bubbles: true, cancelable: true, clipboardData: data}));
    }"""
    panel.composer.evaluate(many)
    expect(panel.root.locator(".ia-image")).to_have_count(4)
    panel.composer.fill("look")
    panel.composer.press("Enter")
    panel.wait(lambda: panel.do("print([len(each.get('images', ())) for each in heard])").strip() == "[4]")


def test_commands_are_completed(panel: Stage) -> None:
    panel.composer.click()
    panel.page.keyboard.type("/com")
    expect(panel.root.locator(".ia-choice")).to_have_count(1)
    panel.page.keyboard.press("Tab")
    expect(panel.composer).to_have_value("/compact ")
    expect(panel.root.get_by_role("listbox")).to_be_hidden()
    panel.composer.fill("")
    panel.page.keyboard.type("see @src")
    panel.hears(kind="complete", text="see @src")
    items = [{"text": "see @src/a.py", "label": "src/a.py"}, {"text": "@src/b.py", "label": "src/b.py"}]
    panel.set(completions={"text": "see @src", "items": items})
    expect(panel.root.locator(".ia-choice")).to_have_count(2)
    panel.notebook.screenshot("widget-completion")
    panel.page.keyboard.press("ArrowDown")
    panel.page.keyboard.press("Enter")
    expect(panel.composer).to_have_value("see @src/b.py")
    panel.page.keyboard.type("/")
    panel.hears(kind="complete", text="see @src/b.py/")
    panel.set(busy=True)
    panel.set(completions={"text": "see @src/b.py/", "items": items})
    expect(panel.root.locator(".ia-choice")).to_have_count(2)
    panel.page.keyboard.press("Escape")
    expect(panel.root.locator(".ia-choice")).to_have_count(0)
    assert not any(message["kind"] == "abort" for message in panel.heard())


def test_enter_waits_for_the_mentions_that_were_asked_for(panel: Stage) -> None:
    panel.composer.click()
    keyboard = panel.page.keyboard

    def write(text: str) -> None:
        keyboard.type(text)
        keyboard.press("Enter")
        panel.hears(kind="complete", text=text)

    def answer(text: str, *offered: str) -> None:
        panel.set(completions={"text": text, "items": [{"text": each, "label": each} for each in offered]})

    def sent() -> list[str]:
        return [message["text"] for message in panel.heard() if message["kind"] == "prompt"]

    write("look at @fli")
    expect(panel.composer).to_have_value("look at @fli")
    answer("look at @fli", "@flights.csv", "@flight_codes.csv")
    expect(panel.composer).to_have_value("look at @flights.csv")
    assert sent() == []
    keyboard.press("Enter")
    panel.wait(lambda: sent() == ["look at @flights.csv"])
    write("tell @nobody")  # for which there is nothing
    answer("tell @nobody")
    panel.wait(lambda: sent()[1:] == ["tell @nobody"])
    write("what of @flights.csv")  # as it stands
    answer("what of @flights.csv", "@flights.csv", "@flights.csv.gz")
    panel.wait(lambda: sent()[2:] == ["what of @flights.csv"])
    write("see @late")  # which no answer comes to
    panel.wait(lambda: sent()[3:] == ["see @late"])
    write("but @on")
    keyboard.type("ly a beginning")
    answer("but @on", "@only.csv")
    panel.hears(kind="complete", text="but @only")
    expect(panel.composer).to_have_value("but @only a beginning")
    assert len(sent()) == 4


def test_what_waits_can_be_taken_back(panel: Stage) -> None:
    panel.composer.fill("half-written")
    panel.set(busy=True, queue={"steering": ["not that"], "followUp": ["then test\nand rest"]})
    expect(panel.root.locator(".ia-queued")).to_have_count(2)
    panel.root.get_by_role("button", name="Take back and edit: then test").click()
    panel.hears(kind="unqueue", queue="followUp", index=0, text="then test\nand rest")
    panel.set(composer={"text": "then test\nand rest", "n": 1}, queue={"steering": ["not that"], "followUp": []})
    expect(panel.composer).to_have_value("then test\nand rest\n\nhalf-written")
    panel.root.get_by_role("button", name="Clear", exact=True).click()
    panel.hears(kind="clear_queue")
    panel.ask("set_editor_text", id="1", text="an extension's words")
    expect(panel.composer).to_have_value("an extension's words")


def test_models_names_and_sessions_are_chosen(panel: Stage) -> None:
    panel.root.get_by_label("Model").select_option("GPT")
    panel.hears(kind="set_model", provider="openai", modelId="gpt")
    panel.root.get_by_label("Thinking").select_option("high")
    panel.hears(kind="set_thinking_level", level="high")
    name = panel.root.get_by_label("Name of the session")
    expect(name).to_have_value("Mend the mean")
    name.fill("Thrown away")
    name.press("Escape")
    expect(name).to_have_value("Mend the mean")
    name.fill("Better")
    name.press("Enter")
    panel.hears(kind="set_session_name", name="Better")
    assert [message["name"] for message in panel.heard() if message["kind"] == "set_session_name"] == ["Better"]
    for *buttons, kind in (("New", "new_session"), ("Menu", "Compact", "compact")):
        for button in buttons:
            panel.root.get_by_role("button", name=button).click()
        panel.hears(kind=kind)
    panel.root.get_by_role("button", name="Sessions").click()
    panel.hears(kind="list_sessions")
    expect(panel.root).to_contain_text("Loading …")
    session = {"name": "Other", "modified": "2026-11-01T10:00:00Z", "messages": 3, "current": False}
    panel.set(sessions=[{**session, "path": f"/{n}", "name": f"Other {n}", "current": n == 0} for n in range(3)])
    expect(panel.root.locator(".ia-entry")).to_have_count(3)
    panel.notebook.screenshot("widget-sessions")
    panel.page.keyboard.type("other 1")
    expect(panel.root.locator(".ia-entry:visible")).to_have_count(1)
    panel.page.keyboard.press("ArrowDown")
    panel.page.keyboard.press("Enter")
    panel.hears(kind="switch_session", sessionPath="/1")
    expect(panel.root.locator(".ia-entry")).to_have_count(0)


def test_a_way_of_working_that_is_on_is_seen_in_its_switch_and_on_the_menu(panel: Stage) -> None:
    panel.set(kernel=True)
    menu = panel.root.get_by_role("button", name="Menu", exact=True)
    for mode, name in (("cells", "Cells"), ("plan", "Plan")):
        switch = panel.root.get_by_role("button", name=name, exact=True)
        expect(switch).to_have_attribute("aria-pressed", "false")
        switch.click()
        panel.hears(kind="switch", mode=mode, on=True)
        panel.set(**{mode: True})
        expect(switch).to_have_attribute("aria-pressed", "true")
        expect(menu).to_have_attribute("title", f"{name} is on")
        switch.click()
        panel.hears(kind="switch", mode=mode, on=False)
        panel.set(**{mode: False})
        expect(switch).to_have_attribute("aria-pressed", "false")
        expect(menu).to_have_attribute("title", "")


def test_the_tree_leads_back_and_forks(panel: Stage) -> None:
    rows = [
        {
            "id": str(n),
            "depth": n % 3,
            "role": "user",
            "text": f"said {n}",
            "leaf": False,
            "here": n == 30,
            "label": None,
        }
        for n in range(40)
    ]
    for _ in range(2):
        panel.root.get_by_role("button", name="Tree").click()
        panel.hears(kind="show_tree")
        panel.set(tree=rows)
        here = panel.root.locator(".ia-entry[aria-current=true]")
        expect(here).to_be_in_viewport()
        if not any(message["kind"] == "navigate_tree" for message in panel.heard()):
            panel.notebook.screenshot("widget-tree")
            here.focus()
            panel.page.keyboard.press("ArrowUp")
            panel.page.keyboard.press("Enter")
            panel.hears(kind="navigate_tree", targetId="29")
    panel.root.get_by_role("button", name="Fork: said 31").click()
    panel.hears(kind="fork", entryId="31")
    panel.root.get_by_role("button", name="Tree").click()
    panel.page.keyboard.press("Escape")
    expect(panel.root.locator(".ia-overlay")).to_be_hidden()
    expect(panel.composer).to_be_focused()


def test_an_export_is_downloaded_and_never_opened(panel: Stage) -> None:
    with panel.page.expect_download() as download:
        panel.root.get_by_role("button", name="Menu").click()
        panel.root.get_by_role("button", name="Export").click()
        panel.hears(kind="export")
        panel.set(download={"name": "talk.html", "html": "<script>window.hacked=1</script>", "n": 1})
    assert download.value.suggested_filename == "talk.html"
    assert Path(download.value.path()).read_text() == "<script>window.hacked=1</script>"
    expect(panel.root.get_by_role("link", name="Download talk.html")).to_be_visible()
    assert panel.page.evaluate("window.hacked") is None


def test_a_long_conversation_stays_at_its_end_and_lets_itself_be_read(panel: Stage) -> None:
    panel.do("for n in range(200): live.put(str(n), said(f'**{n}** ' + 'word ' * 80))\nlive.send()")
    expect(panel.root.locator(".ia-block").last).to_be_in_viewport()
    scroller = panel.root.locator(".ia-scroll")
    panel.root.locator(".ia-block").last.hover()
    panel.page.mouse.wheel(0, -2000)
    end = panel.root.get_by_role("button", name="To the end")
    expect(end).to_be_visible()
    top = scroller.evaluate("node => node.scrollTop")
    panel.do("live.put('new', said('new words')); live.send()")
    expect(panel.root.locator(".ia-block")).to_have_count(201)
    assert abs(scroller.evaluate("node => node.scrollTop") - top) < 2
    end.click()
    expect(panel.root.locator(".ia-block").last).to_be_in_viewport()
    expect(end).to_be_hidden()


def test_it_can_be_read_narrow_dark_and_in_forced_colours(panel: Stage) -> None:
    panel.do(
        "live.put('u', said('Please mend the mean.'))\n"
        "live.put('a', said('It divides by **zero**:\\n\\n```python\\ndef mean(values):\\n    return 1\\n```'))\n"
        "call = blocks.Call('bash', {'command': 'ls'}, state='done', output='a\\nb')\n"
        "live.put('c', blocks.call(call)['text/html'])\n"
    )
    panel.set(busy=True, started_ms_ago=3000, note="waiting for Sonnet", queue={"steering": ["x"], "followUp": []})
    panel.ask(
        "select", id="s", title="Change cell 3?\n\n@@ -1 +1 @@\n-old\n+new", options=["Yes", "No"], timeout=60_000
    )
    expect(panel.ready("Yes")).to_be_visible()
    panel.notebook.screenshot("widget-panel")
    panel.page.set_viewport_size({"width": 500, "height": 900})
    panel.root.scroll_into_view_if_needed()
    fold = panel.root.get_by_role("button", name="Menu")
    fold.click()
    expect(panel.root.get_by_role("button", name="Tree")).to_be_visible()
    panel.notebook.screenshot("widget-narrow")
    panel.page.keyboard.press("Escape")
    expect(panel.root.get_by_role("button", name="Tree")).to_be_hidden()
    overflow = "node => node.scrollWidth - node.clientWidth"
    assert panel.root.evaluate(overflow) <= 0
    panel.notebook.use_theme("JupyterLab Dark")
    panel.notebook.screenshot("widget-dark")
    panel.notebook.use_theme("JupyterLab Light")
    panel.page.emulate_media(forced_colors="active")
    panel.notebook.screenshot("widget-forced-colors")
    panel.page.emulate_media(forced_colors="none")


def test_a_dialog_in_the_panel_takes_no_keys_from_what_is_being_written(panel: Stage) -> None:
    panel.composer.press_sequentially("hello ")
    panel.ask("select", id="s", title="Go on?", options=["Yes", "No"])
    expect(panel.ready("Yes")).to_be_enabled()
    panel.page.keyboard.type("there 1 2")
    expect(panel.composer).to_have_value("hello there 1 2")
    assert panel.heard() == []
    panel.ready("No").click()
    panel.hears(kind="answer", id="s", value="No")


def test_a_key_in_the_empty_composer_answers_only_if_none_follows_before_the_answer_is_given(panel: Stage) -> None:
    panel.ask("confirm", id="c", title="Go on?", message="")
    panel.ready("Yes")
    panel.page.evaluate(KEYS_ONE_AFTER_THE_OTHER, ["y", "e"])
    expect(panel.composer).to_have_value("y")
    panel.page.wait_for_timeout(KEYS_COUNT_MS)
    assert panel.heard() == []
    panel.composer.fill("")
    panel.composer.press("y")
    panel.hears(kind="answer", id="c", value=True)


def test_a_key_that_answers_nothing_is_written_in_the_composer(panel: Stage) -> None:
    panel.ask("input", id="i", title="Which column?")
    panel.ready("Send")
    panel.composer.press("y")
    expect(panel.composer).to_have_value("y")
    panel.composer.press_sequentially("es")
    expect(panel.composer).to_have_value("yes")
    panel.ready("Cancel").click()
    panel.hears(kind="answer", id="i", value=None)


def test_a_key_in_the_composer_moves_the_focus_onto_no_answer(panel: Stage) -> None:
    panel.do(OPEN_QUESTION)
    panel.ask("select", id="q", title="Run this?", options=["Yes", "Always", "No"])
    panel.ready("No")
    panel.composer.press("2")
    expect(panel.dialog.get_by_role("button", name=re.compile("^Always"))).to_be_visible()
    expect(panel.composer).to_be_focused()
    panel.composer.press("Space")
    expect(panel.composer).to_have_value(" ")
    assert panel.heard() == []
    panel.composer.fill("")
    panel.composer.press("2")
    panel.hears(kind="answer", id="q", value="Always")


def test_a_question_that_does_not_take_the_focus_is_announced(panel: Stage) -> None:
    panel.composer.press_sequentially("hello ")
    panel.ask("confirm", id="c", title="Remove the file?", message="")
    expect(panel.root.locator(".ia-announced[aria-live]")).to_have_text("The agent asks: Remove the file?")


def test_buttons_that_copy_are_no_part_of_the_answer(panel: Stage) -> None:
    panel.do("live.put('a', said('Do this:\\n\\n```python\\nprint(1)\\n```')); live.send()")
    answer = panel.root.locator(".indus-answer")
    button = answer.get_by_role("button", name="Copy", exact=True)
    expect(button).to_have_count(1)
    assert answer.evaluate("node => node.textContent.trim()") == "Do this:\nprint(1)"
    button.hover()
    panel.notebook.screenshot("widget-copy")
    expect(panel.root.locator(".ia-announced[aria-live]")).to_have_text("Do this:\nprint(1)", use_inner_text=False)


def test_an_answer_of_several_pieces_has_one_button_that_copies_it_at_its_end(panel: Stage) -> None:
    pieces = "; ".join(f"live.put('b3.{n}', said('Piece {n}')); live.send()" for n in range(3))
    panel.do(pieces)
    button = panel.root.get_by_role("button", name="Copy as Markdown")
    expect(button).to_have_count(1)
    button.focus()
    panel.page.keyboard.press("Enter")
    panel.hears(kind="copy", block="b3.2")


@pytest.mark.parametrize("kind", ["panel", "cell"])
def test_no_button_of_an_answer_or_a_call_lies_over_text(stage: Stage, kind: str) -> None:
    stage.show(kind, **(PANEL_STATE if kind == "panel" else {}))
    stage.root.evaluate(SIDE_BAR)
    stage.do(
        "from indus_nb.tools.description import CallDescription\n"
        'long = \'frame.groupby(["region", "customer"]).quantity.sum().plot.bar(ax=ax)\'\n'
        "code = f'x = 1\\n{long}\\n{long}'\n"
        "described = CallDescription('python', code=code)\n"
        "live.put('a', said('You said: Which columns of the table of all orders have gaps, and why do they?'))\n"
        "live.put('b', said(f'Do:\\n\\n```python\\n{code}\\n```\\n\\nor\\n\\n```python\\n{long}\\n```'))\n"
        "live.put('c', blocks.call(blocks.Call('python', {}, described, state='done'))['text/html'])\n"
        "live.put('d', said('- It is one thing\\n- and ' + 'another ' * 20))\n"
        "live.put('e', blocks.usage('claude-opus-5-5', '100 tokens in, 20 out', '$0.0008')['text/html']); live.send()"
    )
    expect(stage.root.locator(".ia-block")).to_have_count(5)
    expect(stage.root.get_by_role("button", name="To cell")).to_be_visible()
    expect(stage.root.get_by_role("button", name="Copy", exact=True)).to_have_count(3)
    for number in range(5):
        stage.root.locator(".ia-block").nth(number).scroll_into_view_if_needed()
        stage.notebook.screenshot(f"widget-buttons-{kind}-{number}")
    assert stage.root.evaluate(COVERED) == []


@pytest.mark.parametrize("kind", ["panel", "cell"])
def test_a_wide_table_keeps_its_numbers_whole_and_scrolls_by_itself(stage: Stage, kind: str) -> None:
    stage.show(kind, **(PANEL_STATE if kind == "panel" else {}))
    stage.root.evaluate(SIDE_BAR)
    stage.do(
        "rows = [[str(row * column * 37) for column in range(12)] for row in (1, 1000)]\n"
        "rows = [[f'c{column}' for column in range(12)], ['---'] * 12, *rows]\n"
        "wide = '\\n'.join('| ' + ' | '.join(row) + ' |' for row in rows)\n"
        "long = '| n | note |\\n|---|---|\\n| 1234567890 | ' + 'some words of a note ' * 9 + '|'\n"
        "live.put('a', said(wide)); live.put('b', said(long)); live.send()"
    )
    wide, long = stage.root.locator("table").first, stage.root.locator("table").nth(1)
    expect(long).to_be_visible()
    stage.notebook.screenshot(f"widget-tables-{kind}")
    assert {cell.evaluate(LINES) for cell in wide.locator("td, th").all()} == {1}
    assert wide.evaluate("node => node.scrollWidth > node.clientWidth && getComputedStyle(node).overflowX") == "auto"
    assert long.locator("td").first.evaluate(LINES) == 1
    assert long.locator("td").last.evaluate(LINES) > 1
    for each in (long, stage.root.locator(".ia-area"), stage.root):
        assert each.evaluate("node => node.scrollWidth - node.clientWidth") <= 0


@pytest.mark.parametrize("kind", ["panel", "cell"])
def test_a_long_cost_is_cut_off_within_the_line_at_the_foot(stage: Stage, kind: str) -> None:
    stage.show(kind, **PANEL_STATE)
    cost = "at least $0.0390 (up to $10.2394 more for answers that broke off) · session at least $0.0708, and a word"
    stage.set(busy=True, started_ms_ago=65_000, note="waiting for Sonnet", cost=cost)
    foot = stage.root.locator(".ia-foot")
    expect(foot.locator(".ia-cost")).to_have_text(cost)
    for width in (900, 500, 300):
        stage.root.evaluate("(node, width) => { node.style.width = `${width}px` }", width)
        stage.notebook.screenshot(f"widget-cost-{kind}")
        assert foot.evaluate(OUTSIDE) == [], width
        assert foot.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
        assert foot.locator(".ia-note").evaluate("node => node.clientWidth") > 20
    expect(foot.locator(".ia-cost")).to_have_attribute("title", cost)


def test_a_panel_of_calls_of_other_programs_is_a_plain_log(panel: Stage) -> None:
    panel.set(log=True, examples=["Look at sales"])
    expect(panel.root).to_contain_text("What other programs call is shown here.")
    panel.notebook.screenshot("widget-log")
    for part in (panel.composer, panel.root.get_by_label("Model"), panel.root.get_by_role("button", name="New")):
        expect(part).to_be_hidden()
    expect(panel.root).not_to_contain_text("Look at sales")
    panel.ask("select", id="s", title="mcp asks: Run this?", options=["Yes", "No"])
    panel.ready("Yes").click()
    panel.hears(kind="answer", id="s", value="Yes")
    panel.set(log=False)
    expect(panel.composer).to_be_visible()


def test_keys_in_the_field_are_its_own_but_saving_and_chords_are_the_front_ends(panel: Stage) -> None:
    page = panel.page
    panel.composer.click()
    page.keyboard.type("dd a b x z 00 m y")
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    page.keyboard.type("jk")
    expect(panel.composer).to_have_value("dd a b x z 00 m y\njk")
    expect(panel.composer).to_be_focused()
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(3)
    assert [each["kind"] for each in panel.heard() if each["kind"] in ("prompt", "abort")] == []
    page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty = true")
    panel.notebook.save()
    page.keyboard.press("Control+Shift+c")
    palette = page.locator("#modal-command-palette")
    expect(palette).to_be_visible()
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()


def test_a_page_loaded_again_shows_what_goes_on(panel: Stage) -> None:
    panel.do("live.put('a', said('Still here.')); live.send()")
    panel.set(composer={"text": "old words", "n": 5})
    panel.composer.press("Enter")
    panel.hears(kind="prompt", text="old words")
    panel.ask("select", id="s", title="Go on?", options=["Yes", "No"], timeout=60_000)
    panel.do(OPEN_DIALOG)
    panel.notebook.save()
    panel.page.reload()
    expect(panel.root).to_contain_text("Still here.")
    expect(panel.dialog.locator(".ia-left")).to_have_text(re.compile(r"5\d s left"))
    expect(panel.composer).to_have_value("")
    panel.ready("Yes").click()
    panel.hears(kind="answer", id="s", value="Yes")
    assert panel.do("print(live.reloaded)").strip() == "True"
