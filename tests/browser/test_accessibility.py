"""What screen readers, keyboards and weak eyes need: axe-core on all that we draw, and a run without the mouse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from jupyterlab_page import KERNEL_IS_READY, TOKEN, Lab, Notebook
from messages_api import Gate, MessagesApi, Reply, Text, Thinking, ToolUse
from playwright.sync_api import Browser, Locator, Page, expect

LAB = {"settings": {}}

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ASK = "%agent --new --model sonnet-4-5 --thinking off "
COMMAND = """
from indus_nb import agent
@agent.command()
async def ask(kind, ctx):
    ui = ctx.ui
    ui.notify("It is <saved>.", "warning")
    ui.set_status("git", "main +2")
    ui.set_widget("todo", ["[x] one", "[ ] two"])
    match kind:
        case "select": await ui.select("Change cell 3?\\n\\n@@ -1 +1 @@\\n-old\\n+new", ["Yes", "No"], timeout=60)
        case "confirm": await ui.confirm("Sure?", "It cannot be undone.", timeout=60)
        case "input": await ui.input("What is it called?", "a name")
        case "editor": await ui.editor("Edit the text", "some\\nlines")
"""
SAID = """\
It divides by **zero**, see [the manual](https://docs.python.org):

```python
def mean(values: list[float]) -> float:
    \"\"\"The mean of some values.\"\"\"
    if not values:  # nothing to divide by
        raise ValueError("mean() of nothing", 0, True)
    return sum(values) / len(values)
```

| input | before |
|---|---|
| `[]` | `ZeroDivisionError` |

> Errors should never pass silently.

"""


@pytest.fixture(scope="module", params=["JupyterLab Light", "JupyterLab Dark"])
def opened(lab: Lab, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Notebook]:
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    page.set_default_timeout(15_000)
    lab.write("page.ipynb", "%load_ext indus_nb", COMMAND, "6 * 7", "print('next')", "print('last')")
    notebook = lab.open(page, "page.ipynb")
    notebook.use_theme(request.param)
    # Lab's body has no height, and hides what overflows: axe-core would take everything for invisible.
    page.add_style_tag(content="body { height: 100vh }")
    notebook.run(0)
    notebook.wait_until_run(0)
    yield notebook
    page.close()
    lab.shut_down_kernels()


@pytest.fixture
def notebook(opened: Notebook) -> Iterator[Notebook]:
    """A notebook in which the cell before number 2 has just run."""
    opened.run(1)
    opened.wait_until_run(1)
    yield opened
    if opened.cell(2).get_by_text("[*]:").count():  # the test failed
        opened.interrupt()
        opened.wait_until_run(2)


def ask(notebook: Notebook, code: str) -> Locator:
    """Run code in cell 2, and give its output."""
    cell = notebook.cell(2)
    cell.locator(".cm-content").click()
    notebook.page.keyboard.press("Control+a")
    notebook.page.keyboard.insert_text(code)
    notebook.page.keyboard.press("Shift+Enter")
    return cell.locator(".jp-OutputArea")


def check(notebook: Notebook, name: str, within: str = ".ia-root") -> None:
    """Fail with what axe-core finds wrong with our elements; the picture is for people."""
    is_light = notebook.page.evaluate("document.body.dataset.jpThemeLight === 'true'")
    notebook.screenshot(f"accessible-{name}-{'light' if is_light else 'dark'}")
    check_as_it_is(notebook, within)


def check_as_it_is(notebook: Notebook, within: str) -> None:
    """Do that with the mouse where it is, without a picture."""
    options = {"runOnly": {"type": "tag", "values": RULES}}
    report = Axe().run(notebook.page, context=within, options=options).response
    assert "color-contrast" in {rule["id"] for rule in report["passes"]}  # it has seen something
    found = [
        f"{rule['id']}: {node['target']} {node['html'][:200]}\n  {node['failureSummary']}"
        for rule in report["violations"]
        for node in rule["nodes"]
    ]
    assert not found, "\n".join(found)


def test_a_run_while_it_streams_and_what_stays_of_it(notebook: Notebook, api: MessagesApi) -> None:
    held = Gate()
    api.add(
        Reply(
            Thinking("First I look at **the code**."),
            "I look.",
            ToolUse("read", {"path": "no-such-file"}),
            ToolUse("ls", {}),
            usage={"input_tokens": 1900},
        ),
        Reply(Thinking("So it is."), Text(SAID, "And then ", held, "it is done.")),
    )
    output = ask(notebook, ASK + "why?")
    expect(output).to_contain_text("And then")  # in a display where the page was slow to show the widget
    check(notebook, "streaming")
    check(notebook, "streaming", ".jp-OutputArea-output")
    held.open()
    notebook.wait_until_run(2)
    output.locator("details").evaluate_all("nodes => nodes.forEach(node => (node.open = true))")
    check(notebook, "static", ".jp-OutputArea-output")


def test_a_run_that_failed(notebook: Notebook, api: MessagesApi) -> None:
    output = ask(notebook, ASK + "--no-wait hello")  # one that is waited for says it in Jupyter's own box
    notebook.wait_until_run(2)
    expect(output.locator(".indus-error")).to_contain_text("no answer is scripted")
    check(notebook, "failed", ".jp-OutputArea-output")


def test_a_form_for_a_key(notebook: Notebook) -> None:
    output = ask(notebook, "%agent key")
    expect(output.get_by_label("API key")).to_be_visible()
    check(notebook, "key-form")


@pytest.mark.parametrize("kind", ["select", "confirm", "input", "editor"])
def test_a_dialog_in_a_cell(notebook: Notebook, kind: str) -> None:
    output = ask(notebook, f"{ASK}/ask {kind}")
    dialog = output.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_role("button").first).to_be_enabled()
    check(notebook, f"{kind}")
    for button in dialog.get_by_role("button").all():
        button.hover()
        check_as_it_is(notebook, ".ia-dialog")
    leave = {"select": "No", "confirm": "No"}.get(kind, "Cancel")
    dialog.get_by_role("button", name=leave, exact=True).click()
    notebook.wait_until_run(2)


def test_the_panel(notebook: Notebook, api: MessagesApi) -> None:
    page = notebook.page
    output = ask(notebook, "%agent --new --model sonnet-4-5 --thinking off panel")
    root = output.locator(".ia-root")
    composer = root.get_by_label("Message")
    expect(composer).to_be_visible()
    check(notebook, "panel-idle")

    composer.fill("/")
    composer.press("End")
    page.keyboard.type("a")
    expect(root.locator(".ia-choice").first).to_be_visible()
    check(notebook, "panel-completions")
    composer.fill("")

    held = Gate()
    api.add(Reply(Thinking("Hm."), ToolUse("ls", {})), Reply(Text(SAID, "And then ", held, "it is done.")), "Yes.")
    composer.fill("why?")
    composer.press("Enter")
    expect(root).to_contain_text("And then")
    for text, key in (("then test", "Alt+Enter"), ("not that", "Enter")):
        composer.fill(text)
        composer.press(key)
        expect(root.locator(".ia-queue")).to_contain_text(text)
    composer.fill("more")
    check(notebook, "panel-running")
    held.open()
    expect(root.locator(".indus-answer").last).to_contain_text("Yes.")

    root.get_by_role("button", name="Sessions").click()
    expect(root.locator(".ia-entry").first).to_be_visible()
    check(notebook, "panel-sessions")
    page.keyboard.press("Escape")
    root.get_by_role("button", name="Tree").click()
    expect(root.locator(".ia-entry[aria-current=true]")).to_be_visible()
    check(notebook, "panel-tree")
    page.keyboard.press("Escape")
    composer.fill("/ask select")
    composer.press("Enter")
    expect(root.get_by_role("dialog").get_by_role("button").first).to_be_enabled()
    check(notebook, "panel-dialog")


PRESS_1_AT_ONCE = """() => {
    const press = ({ target }) => {
        if (!target.matches("[role=dialog]")) return;
        document.removeEventListener("focusin", press);
        target.dispatchEvent(new KeyboardEvent("keydown", {key: "1", bubbles: true, cancelable: true}));
        window.pressed = true;
    };
    document.addEventListener("focusin", press);
}"""
"""Presses a key in the very step in which a dialog takes the focus: from outside it may come too late."""


def test_a_run_is_begun_answered_and_stopped_by_the_keyboard_alone(
    lab: Lab, notebook: Notebook, api: MessagesApi
) -> None:
    keyboard = notebook.page.keyboard
    api.add(Reply(ToolUse("bash", {"command": "touch by-keyboard"})), Reply(Text("It is there. ", Gate())))
    keyboard.press("Enter")  # cell 2 was selected when the one before it ran
    keyboard.press("Control+a")
    keyboard.insert_text(ASK + "make a file")
    notebook.page.evaluate(PRESS_1_AT_ONCE)
    keyboard.press("Shift+Enter")
    cell = notebook.cell(2)
    dialog = cell.get_by_role("dialog")
    expect(dialog).to_contain_text("touch by-keyboard")
    expect(dialog.get_by_role("button", name="Yes", exact=True)).to_be_enabled()
    expect(dialog).to_be_focused()
    assert notebook.page.evaluate("window.pressed"), "the key was on its way when the dialog came"
    for key in ("Enter", "Space"):  # meant for the notebook, perhaps
        keyboard.press(key)
    expect(dialog).to_be_focused()
    assert not (lab.folder / "by-keyboard").exists()
    notebook.page.wait_for_timeout(600)  # in which keys do not count
    keyboard.press("Enter")
    expect(cell.locator(".indus-answer")).to_contain_text("It is there.")
    assert (lab.folder / "by-keyboard").exists()
    expect(notebook.cell(3)).to_be_focused()  # as before the dialog
    stop = cell.get_by_role("button", name="Stop")
    keyboard.press("Shift+Tab")
    expect(stop).to_be_focused()
    keyboard.press("Enter")
    notebook.wait_until_run(2)
    expect(cell).to_contain_text("Stopped: the agent was told to end.")
    expect(cell).to_be_focused()
    keyboard.press("ArrowDown")
    keyboard.press("Shift+Enter")
    expect(notebook.cell(3).locator(".jp-OutputArea-output")).to_have_text("next")
    expect(notebook.page.locator(".jp-Notebook .jp-MarkdownCell")).to_have_count(0)
    (lab.folder / "by-keyboard").unlink()


def test_a_dialog_in_a_frame_takes_the_focus_from_nobody_around_it(lab: Lab, page: Page, api: MessagesApi) -> None:
    held = Gate()
    api.add(Reply(Text("I will. ", held), ToolUse("bash", {"command": "touch framed"})), "Done.")
    lab.write("framed.ipynb", "%load_ext indus_nb", ASK + "make a file")
    around = (
        f"<textarea></textarea><iframe src='/lab/tree/framed.ipynb?reset&token={TOKEN}' width=1000 height=800></iframe>"
    )
    page.route("**/around.html", lambda route: route.fulfill(body=around, content_type="text/html"))
    page.goto(f"{lab.url}/around.html")
    frame = page.frames[1]
    frame.wait_for_function(KERNEL_IS_READY, timeout=60_000)
    frame.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    expect(frame.locator(".indus-answer")).to_contain_text("I will.")
    frame.evaluate("document.activeElement.blur()")
    field = page.locator("textarea")
    field.focus()
    held.open()
    dialog = frame.get_by_role("dialog")
    expect(dialog.get_by_role("button").first).to_be_enabled()
    page.keyboard.type("1")
    expect(field).to_have_value("1")
    dialog.get_by_role("button", name="Yes", exact=True).click()
    expect(frame.locator(".indus-answer").last).to_contain_text("Done.")
