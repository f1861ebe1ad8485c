"""What the front-end extension puts around a notebook: bars below errors, commands, the state at a glance."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from jupyterlab_page import EXTENSION, KERNEL_IS_READY, Lab
from kernels import private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from playwright.sync_api import Locator, Page, expect

LAB = {"extension": True, "settings": {}}
KEEPS_PAGE = True

FAILS = "price = {'tea': 3}\nprice['milk']"
LONG = "def down(n):\n    return {}[n] if n == 0 else up(n)\ndef up(n):\n    return down(n - 1)\ndown(20)"
OPAQUE_OVER = """node => {
    const [own, text] = [node, node.previousSibling].map(each => each.getBoundingClientRect());
    const alpha = getComputedStyle(node).backgroundColor.startsWith("rgb(") ? "opaque" : "seen through";
    return { alpha, left: own.left <= text.left, right: own.right >= text.right };
}"""
"""How a bar lies over the traceback before it."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(autouse=True)
def _afresh(lab: Lab, api: MessagesApi) -> Iterator[None]:
    yield
    api.clear()
    lab.shut_down_kernels()
    for changed in (lab.folder.parent / "jupyter" / "lab-settings").rglob("*.jupyterlab-settings"):
        changed.unlink()  # the server keeps what a test turned off


def bar(within: Locator | Page) -> Locator:
    return within.get_by_role("group", name="Ask the agent about this error")


def command(page: Page, name: str) -> None:
    page.evaluate("name => { window.jupyterapp.commands.execute(`indus_nb:${name}`) }", name)


def said(api: MessagesApi) -> str:
    api.wait_for_requests(1)
    return "\n".join(api.requests[-1].texts)


def test_another_prompt_in_a_cell_that_shows_no_answer_replaces_nothing(lab: Lab, page: Page, api: MessagesApi) -> None:
    ask = "%agent --model anthropic/claude-sonnet-4-5 --thinking off "
    lab.write("empty.ipynb", "%load_ext indus_nb", "")
    notebook = lab.open(page, "empty.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)

    def asked(prompt: str, *, clears: bool) -> list[str]:
        api.add("Well.")
        notebook.cell(1).locator(".cm-content").click()
        if clears:
            page.evaluate("window.jupyterapp.commands.execute('notebook:clear-cell-output')")
            expect(notebook.cell(1).locator(".jp-OutputArea-output")).to_have_count(0)
        page.keyboard.press("Control+a")
        page.keyboard.type(f"{ask}{prompt}")
        notebook.run(1)
        notebook.wait_until_run(1)
        expect(notebook.cell(1)).to_contain_text("Well.")
        sent = [message["content"][-1]["text"] for message in api.requests[-1].body["messages"]]
        return [text for text in sent if text != "Well."]

    assert asked("one", clears=False) == ["one"]
    assert asked("two", clears=True) == ["one", "two"]
    assert asked("three", clears=False) == ["one", "three"]
    assert asked("three", clears=True) == ["one", "three"]


def test_an_error_is_asked_about_by_a_click_before_anything_was_loaded(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("error.ipynb", FAILS, "%agent --nonsense")
    notebook = lab.open(page, "error.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add("There is no milk.")
    bar(notebook.cell(0)).get_by_role("button", name="Explain").click()
    expect(page.get_by_text("There is no milk.").first).to_be_visible()
    assert "Explain in a few sentences why" in said(api)
    assert "price['milk']" in said(api)
    assert "KeyError: 'milk'" in said(api)

    notebook.run(1)
    expect(notebook.cell(1)).to_contain_text("There is no option --nonsense")
    expect(bar(page)).to_have_count(1)
    notebook.run(0)
    notebook.wait_until_run(0)
    expect(bar(page)).to_have_count(1)
    expect(notebook.cell(0)).not_to_contain_text("%agent fix asks")
    notebook.screenshot("presence-error")

    notebook.cell(0).locator(".cm-content").fill("1")
    expect(bar(page)).to_have_count(1)
    notebook.run(0)
    expect(bar(page)).to_have_count(0)
    notebook.save()
    assert "Explain" not in (lab.folder / "error.ipynb").read_text()


SHOWS_LINE = """%load_ext indus_nb
from indus_nb.front.notebook.view import blocks, output
def show(result):
    if not result.success:
        output.screen_of(shell).show(blocks.hint("%agent fix asks the agent about this error."), final=True)
shell = get_ipython()
shell.events.register("post_run_cell", show)"""
"""As a kernel does that knows of no door yet; whether it does depends on which came first."""


def test_beside_the_bar_the_line_that_names_the_command_is_not_seen(lab: Lab, own_page: Page) -> None:
    lab.write("loaded.ipynb", SHOWS_LINE, FAILS)
    notebook = lab.open(own_page, "loaded.ipynb")
    for number in range(2):
        notebook.run(number)
        notebook.wait_until_run(number)
    expect(bar(notebook.cell(1)).get_by_role("button", name="Fix")).to_be_visible()
    line = notebook.cell(1).get_by_text("asks the agent about this error.").first
    expect(line).to_be_attached()
    expect(line).to_be_hidden()
    own_page.evaluate("() => { window.jupyterapp.commands.execute('settingeditor:open', {query: 'Indus agent'}) }")
    own_page.get_by_label("Buttons below errors").uncheck()
    expect(bar(own_page)).to_have_count(0)
    own_page.get_by_role("tab", name="loaded.ipynb").click()
    expect(line).to_be_visible()


def test_the_bar_is_reached_and_pressed_with_keys(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("keys.ipynb", FAILS, "'below'")
    notebook = lab.open(page, "keys.ipynb")
    notebook.run(0)
    fix = bar(notebook.cell(0)).get_by_role("button", name="Fix")
    expect(fix).to_be_visible()
    notebook.cell(0).locator(".jp-InputPrompt").click()
    for _ in range(12):
        if fix.evaluate("button => button === document.activeElement"):
            break
        page.keyboard.press("Tab")
    held, before = Gate(), len(api.requests)
    api.add(Reply(Text("Men", held, "ded.")))
    page.keyboard.press("Enter")
    fix.press("Enter")
    held.reached.wait(60)
    expect(page.locator(".indus-status button")).to_contain_text("Agent works")
    fix.press("Enter")  # the same again, which it is at
    held.open()
    expect(page.get_by_text("Mended.").first).to_be_visible()
    expect(page.locator(".indus-status button")).to_contain_text("Agent idle")
    assert "propose the mended cell" in said(api)
    assert len(api.requests) == before + 1
    api.add("Mended once more.")
    fix.press("Enter")
    expect(page.get_by_text("Mended once more.").first).to_be_visible()
    assert notebook.cell(0).locator(".jp-InputPrompt").inner_text() == "[1]:"


def test_fix_tells_of_the_failure_and_of_what_was_typed_into_the_cell_since(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("since.ipynb", "%load_ext indus_nb", FAILS)
    notebook = lab.open(page, "since.ipynb")
    notebook.run(0)
    notebook.run(1)
    fix = bar(notebook.cell(1)).get_by_role("button", name="Fix")
    expect(fix).to_be_visible()
    notebook.cell(1).locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nkept = 42")
    api.add("Mended.")
    fix.click()
    expect(page.get_by_text("Mended.").first).to_be_visible()
    failed, _, since = said(api).partition("The cell was changed since")
    assert "kept" not in failed
    assert "kept = 42" in since


def test_the_bar_of_a_long_traceback_is_in_sight_where_its_beginning_is(lab: Lab, page: Page) -> None:
    lab.write("long.ipynb", LONG)
    notebook = lab.open(page, "long.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    fix = bar(notebook.cell(0)).get_by_role("button", name="Fix")
    page.evaluate("document.querySelector('.jp-Notebook .jp-WindowedPanel-outer').scrollTop = 0")
    expect(notebook.cell(0).locator(".cm-content")).to_be_in_viewport()
    taller = "node => node.querySelector('.jp-OutputArea-output').clientHeight > innerHeight"
    assert notebook.cell(0).evaluate(taller)
    notebook.screenshot("presence-long-traceback")
    expect(fix).to_be_in_viewport(ratio=1)
    behind = bar(notebook.cell(0)).evaluate(OPAQUE_OVER)
    assert behind == {"alpha": "opaque", "left": True, "right": True}
    fix.scroll_into_view_if_needed()
    fix.click(trial=True)


def test_saved_errors_have_a_bar_and_hostile_ones_are_text_and_bounded(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("saved.ipynb", "boom()", "stopped()")
    path = lab.folder / "saved.ipynb"
    saved = nbformat.read(path, as_version=4)
    page_text = "<img src=x onerror='window.attacked = 1'>" + "z" * 100_000 + " the end {price} $price"
    for cell, name in zip(saved.cells, ("NameError", "KeyboardInterrupt"), strict=True):
        cell.outputs = [nbformat.v4.new_output("error", ename=name, evalue="", traceback=[page_text])]
    nbformat.write(saved, path)
    before = path.read_bytes()
    notebook = lab.open(page, "saved.ipynb")
    expect(bar(page)).to_have_count(1)  # an interrupt is no error
    api.add("It was saved.")
    bar(notebook.cell(0)).get_by_role("button", name="Explain").click()
    expect(page.get_by_text("It was saved.").first).to_be_visible()
    asked = next(text for text in api.requests[-1].texts if "Explain in a few sentences" in text)
    assert "boom()" in asked
    assert asked.endswith("the end {price} $price\n```")
    assert len(asked) < 6_000
    assert page.evaluate("window.attacked") is None
    assert path.read_bytes() == before


def test_a_cell_that_asks_needs_no_load_ext(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("bare.ipynb", "%agent --model sonnet-4-5 hello", "%load_ext indus_nb", "%%agent\nand again", "len(dir())")
    notebook = lab.open(page, "bare.ipynb")
    api.add("Hello to you.", "Once more.")
    for number, answer in ((0, "Hello to you."), (2, "Once more.")):
        notebook.run(number)
        notebook.wait_until_run(number)
        expect(notebook.cell(number)).to_contain_text(answer)
    assert notebook.cell(0).locator(".jp-InputPrompt").inner_text() == "[1]:"


def test_a_question_is_seen_from_everywhere_and_takes_no_focus(lab: Lab, page: Page, api: MessagesApi) -> None:
    ask = "%agent --new --model sonnet-4-5 --thinking off "
    lab.write("asks.ipynb", ask + "make a file", *(f"# Line {number}" for number in range(60)), "last = 1")
    notebook = lab.open(page, "asks.ipynb")
    status = page.locator(".indus-status button")
    expect(status).to_have_text("Agent")
    held = Gate()
    api.add(Reply(Text("I ", held, "will."), ToolUse("bash", {"command": "touch made"})), "Done.")
    notebook.run(0)
    expect(status).to_contain_text("Agent works · Claude Sonnet 4.5")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.scrollToItem(61)")
    editor = notebook.page.locator(".jp-Notebook .jp-Cell .cm-content").last
    editor.click()
    page.keyboard.type("typed = ")
    held.open()
    expect(status).to_contain_text("Agent asks")
    page.keyboard.type("2")
    expect(editor).to_contain_text("typed = 2")
    tab = page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab.indus-mod-asks")
    expect(tab).to_have_attribute("title", re.compile("The agent asks a question here"))
    notebook.screenshot("presence-asks")
    status.click()
    yes = notebook.cell(0).get_by_role("dialog").get_by_role("button").first
    expect(yes).to_be_in_viewport()
    expect(yes).to_be_focused()
    page.keyboard.press("Enter")
    expect(status).to_contain_text("Agent idle")
    expect(status).to_contain_text("$0.01 today")
    expect(tab).to_have_count(0)


@pytest.mark.parametrize("progress", [True, False], ids=["with progress", "without"])
def test_the_status_bar_says_that_rows_of_a_cell_are_asked_before_there_is_a_conversation(
    lab: Lab, page: Page, api: MessagesApi, *, progress: bool
) -> None:
    model = f"model='claude-opus-4-5', parallel=1, progress={progress}"
    asks = f"from indus_nb import agent\nagent.map('{{item}}', range(2), {model})"
    takes = f"asked = agent.stream('{{item}}', range(9), {model})\nnext(asked)"
    lab.write("rows.ipynb", "%load_ext indus_nb", asks, takes)
    notebook = lab.open(page, "rows.ipynb")
    notebook.run(0)
    status = page.locator(".indus-status button")
    expect(status).to_contain_text("Agent idle")
    first, second = Gate(), Gate()
    api.default = Reply("yes", usage={"input_tokens": 2_000})
    api.add(Reply(Text(first, "no."), usage={"input_tokens": 2_000}), Reply(Text(second, "no.")))
    notebook.run(1)
    expect(status).to_contain_text("Agent works")
    first.open()
    expect(status).to_contain_text(re.compile(r"works.*\$[\d.]+ today"))
    second.open()
    expect(status).to_contain_text(re.compile(r"idle.*\$[\d.]+ today"))
    notebook.run(2)
    notebook.wait_until_run(2)
    expect(status).to_contain_text("idle")


def test_what_rows_cost_is_told_when_they_end(lab: Lab, page: Page, api: MessagesApi) -> None:
    rows = "from indus_nb import agent\nagent.map('{item}', range(60), model='claude-opus-4-5', progress=False)"
    lab.write("rows.ipynb", "%agent --new --model sonnet-4-5 --thinking off hello", rows)
    notebook = lab.open(page, "rows.ipynb")
    api.add("Hello.")
    notebook.run(0)
    status = page.locator(".indus-status")
    expect(status).to_contain_text(re.compile(r"idle.*\$[\d.]+ today"))
    shown = re.search(r"\$([\d.]+) today", status.inner_text())
    assert shown is not None
    before = round(100 * float(shown[1]))  # what other kernels of today have cost, too
    api.default = Reply("yes", at_once=True)
    notebook.run(1)
    expect(status).to_contain_text(re.compile(rf"\$0\.({before + 5:02}|{before + 6:02}|{before + 7:02}) today"))


def test_the_status_bar_counts_jobs_until_they_end_and_the_panel_lists_them(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("job.ipynb", "%agent --new --model sonnet-4-5 --thinking off --approve never train", "trained")
    notebook = lab.open(page, "job.ipynb")
    code = "# Train\nimport os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\ntrained = 7"
    api.add(Reply(ToolUse("python", {"code": code, "beside": True})), "It trains.")
    api.default = Reply("It is trained.")
    notebook.run(0)
    notebook.wait_until_run(0)
    status = page.locator(".indus-status button")
    expect(status).to_contain_text("idle · 1 job · Claude Sonnet 4.5")
    command(page, "open-panel")
    jobs = page.locator(".indus_nb-Chat").get_by_role("group", name="Jobs")
    expect(jobs).to_contain_text("python beside: Train")
    notebook.screenshot("presence-job")
    (lab.folder / "go").touch()
    expect(status).not_to_contain_text("job")
    expect(jobs).to_be_hidden()
    notebook.run(1)
    expect(notebook.cell(1).locator(".jp-OutputArea-output")).to_have_text("7")


def test_the_question_after_a_sample_is_a_question_like_others(lab: Lab, page: Page, api: MessagesApi) -> None:
    answered = "kinds.summary"
    line = '%agent map -o kinds --sample 3 --model claude-haiku-4-5 "What is {item}?" over range(9)'
    lab.write("sample.ipynb", "%load_ext indus_nb", line, answered)
    notebook = lab.open(page, "sample.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.default = Reply("seven")
    for button, count in (("Stop", 3), ("No", 3), ("Yes", 9)):
        notebook.run(1)
        dialog = notebook.cell(1).get_by_role("dialog")
        expect(dialog).to_contain_text("Go on with the other 6 rows for about $0.0")
        expect(page.locator(".indus-status button")).to_contain_text("asks")
        expect(page.locator(".lm-TabBar-tab.indus-mod-asks")).to_have_count(1)
        expect(notebook.cell(1).locator(".jp-Stdin-input")).to_have_count(0)
        notebook.screenshot("sample-question")
        notebook.cell(1).get_by_role("button", name=button, exact=True).click()
        notebook.wait_until_run(1)
        expect(notebook.cell(1).get_by_role("dialog")).to_have_count(0)
        expect(page.locator(".indus-status button")).not_to_contain_text("asks")
        notebook.run(2)
        notebook.wait_until_run(2)
        expect(notebook.cell(2).locator(".jp-OutputArea-output")).to_contain_text(f"{count} answered")


def test_the_question_is_gone_to_from_another_notebook(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("asks.ipynb", "%agent --new --model sonnet-4-5 --thinking off --approve always go")
    lab.write("other.ipynb", "x = 1")
    notebook = lab.open(page, "asks.ipynb")
    api.add(Reply(ToolUse("bash", {"command": "touch made"})), "Done.")
    notebook.run(0)
    question = notebook.cell(0).get_by_role("dialog")
    expect(question).to_be_visible()
    page.evaluate("window.jupyterapp.commands.execute('docmanager:open', {path: 'other.ipynb'})")
    expect(question).to_be_hidden()
    expect(page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .cm-content")).to_contain_text("x = 1")
    page.keyboard.press("Control+Alt+g")
    expect(question.get_by_role("button").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(notebook.cell(0)).to_contain_text("Done.")


@pytest.mark.parametrize("by", ["status", "mark"])
def test_a_question_that_no_cell_shows_is_gone_to_in_the_panel(lab: Lab, page: Page, api: MessagesApi, by: str) -> None:
    name = f"gone-{by}.ipynb"
    lab.write(name, "%agent --new --no-wait --model sonnet-4-5 --thinking off --approve always go", "x = 1")
    notebook = lab.open(page, name)
    held = Gate()
    api.add(Reply(held, ToolUse("bash", {"command": f"touch {by}"})), "Done.")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.cell(0).locator(".jp-InputPrompt").click()
    page.keyboard.press("d")
    page.keyboard.press("d")
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(1)
    held.open()
    status = page.locator(".indus-status button")
    expect(status).to_contain_text("Agent asks")
    if by == "status":
        status.click()
    else:
        label = page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab.indus-mod-asks .lm-TabBar-tabLabel")
        label.click(position={"x": 60, "y": 8})  # beside the mark
        expect(page.locator(".indus_nb-Chat")).to_have_count(0)
        label.click(position={"x": 6, "y": 8})
    dialog = page.locator(".indus_nb-Chat").get_by_role("dialog")
    expect(dialog.get_by_role("button").first).to_be_focused()
    notebook.screenshot(f"presence-gone-{by}")
    page.keyboard.press("Enter")
    expect(page.locator(".indus_nb-Chat .indus-answer").last).to_have_text("Done.")
    assert (lab.folder / by).exists()


def test_a_notebook_that_was_switched_to_the_kernel_of_another_shows_its_run_and_its_panel(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("third.ipynb", "%load_ext indus_nb", "%agent --model sonnet-4-5 hello")
    lab.write("second.ipynb", "1", "%agent --approve always set x to 99", "x")
    third = lab.open(page, "third.ipynb")
    third.run(0)
    third.wait_until_run(0)
    api.add("Hello.")
    third.run(1)
    third.wait_until_run(1)
    second = lab.open_beside(page, "second.ipynb", on_own_kernel=True)
    second.run(0)
    second.wait_until_run(0)
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    panel = page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")
    expect(panel.locator("textarea.ia-text")).to_be_visible(timeout=60_000)
    lab.switch_to_kernel_of(page, "third.ipynb")
    api.add(Reply(ToolUse("python", {"code": "x = 99"})), Reply("It is set."))
    second.run(1)
    dialog = second.cell(1).get_by_role("dialog")
    expect(dialog).to_be_visible(timeout=30_000)
    expect(panel.locator("textarea.ia-text")).to_be_visible()
    second.screenshot("switched-kernel")
    dialog.get_by_role("button", name="Yes", exact=True).click()
    second.wait_until_run(1)
    expect(second.cell(1)).to_contain_text("It is set.")
    second.run(2)
    expect(second.cell(2).locator(".jp-OutputArea-output")).to_have_text("99")


def test_a_page_that_knows_no_widget_of_a_new_kernel_asks_by_input_and_its_panel_says_what_helps(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("first.ipynb", "1")
    lab.write("alone.ipynb", "%agent --new --model sonnet-4-5 --thinking off --approve always set x")
    lab.open(page, "first.ipynb")
    alone = lab.open_beside(page, "alone.ipynb")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.changeKernel({name: 'python3'})")
    page.wait_for_function(KERNEL_IS_READY)
    command(page, "open-panel")
    panel = page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")
    expect(panel).to_contain_text("Reload the page.")
    expect(panel).not_to_contain_text("Error")
    api.add(Reply(ToolUse("python", {"code": "x = 99"})), Reply("It is set."))
    alone.run(0)
    typed = alone.cell(0).locator(".jp-Stdin-input")
    expect(typed).to_be_visible()
    typed.fill("y")
    typed.press("Enter")
    expect(alone.cell(0)).to_contain_text("It is set.")


def test_where_the_page_cannot_draw_the_view_a_question_is_asked_by_input(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("undrawn.ipynb", "%agent --new --model sonnet-4-5 --thinking off --approve always set x", "x")
    notebook = lab.open(page, "undrawn.ipynb")
    expect(page.locator(".indus-status button")).to_have_text("Agent")
    page.evaluate(
        """() => {
            const { rendermime } = window.jupyterapp.shell.currentWidget.content;
            const factory = rendermime.getFactory('application/vnd.jupyter.widget-view+json');
            const usual = factory.createRenderer.bind(factory);
            const renderModel = () => Promise.reject(Error('no view is drawn here'));
            factory.createRenderer = (options) => Object.assign(usual(options), { renderModel });
        }"""
    )
    api.add(Reply(ToolUse("python", {"code": "x = 99"})), Reply("It is set."))
    notebook.run(0)
    typed = notebook.cell(0).locator(".jp-Stdin-input")
    expect(typed).to_be_visible()
    typed.fill("y")
    typed.press("Enter")
    notebook.wait_until_run(0)
    expect(notebook.cell(0)).to_contain_text("It is set.")
    notebook.run(1)
    expect(notebook.cell(1).locator(".jp-OutputArea-output")).to_have_text("99")


def test_what_is_proposed_for_a_long_traceback_is_brought_into_sight_and_takes_no_focus(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("mended.ipynb", LONG)
    notebook = lab.open(page, "mended.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    held = Gate()
    mended = ToolUse("propose_cell", {"replace": notebook.id_of(0), "source": "1"})
    api.add(Reply(Text("I ", held, "mend it."), mended), "Done.")
    bar(notebook.cell(0)).get_by_role("button", name="Fix").click()
    expect(page.locator(".indus_nb-Chat .indus-answer")).to_contain_text("I")
    page.evaluate("document.querySelector('.jp-Notebook .jp-WindowedPanel-outer').scrollTop = 1e6")
    expect(notebook.cell(0).locator(".cm-content")).not_to_be_in_viewport()
    composer = page.locator(".indus_nb-Chat textarea")
    composer.fill("next")
    held.open()
    expect(notebook.cell(0).get_by_role("button", name="No", exact=True)).to_be_in_viewport()
    expect(notebook.cell(0).locator(".indus_nb-inserted")).to_be_in_viewport()
    expect(composer).to_be_focused()
    notebook.screenshot("presence-mended")


def test_what_is_proposed_next_takes_the_place_of_a_box_that_says_how_the_last_one_ended(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("again.ipynb", FAILS)
    notebook = lab.open(page, "again.ipynb")
    notebook.run(0)
    fix = bar(notebook.cell(0)).get_by_role("button", name="Fix")
    mended = ToolUse("propose_cell", {"replace": notebook.id_of(0), "source": "1"})
    box = page.locator(".indus_nb-box")
    api.add(Reply(mended), "Put away.", Reply(mended), "Done.")
    fix.click()
    expect(box.get_by_role("button", name="No", exact=True)).to_be_visible()
    notebook.cell(0).locator(".cm-content").click()
    page.keyboard.type("#")
    expect(box).to_contain_text("The cell was changed meanwhile")
    expect(page.locator(".indus_nb-Chat .indus-answer").last).to_have_text("Put away.")
    fix.click()
    expect(box.get_by_role("button", name="No", exact=True)).to_be_visible()
    expect(box).to_have_count(1)


def test_what_is_attached_stands_in_the_composer(lab: Lab, page: Page) -> None:
    (lab.folder / "sales.csv").write_text("a,b\n1,2\n")
    lab.write("attach.ipynb", "sales = [1, 2]\nsum(sales)", "not_run = 1")
    notebook = lab.open(page, "attach.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    composer = page.get_by_label("Message", exact=True)
    notebook.cell(0).locator(".cm-line").last.click()
    page.keyboard.press("Shift+Home")
    command(page, "attach-selection")
    expect(composer).to_have_value("```\nsum(sales)\n```\n")
    command(page, "attach-cell")
    expect(composer).to_have_value(re.compile("@cell 1 $"))
    notebook.cell(1).locator(".cm-content").click()
    command(page, "attach-cell")
    expect(composer).to_have_value(re.compile("```\nnot_run = 1\n```\n$"))
    command(page, "attach-variable")
    page.locator(".jp-Dialog select").select_option("sales: list")
    page.locator(".jp-Dialog").get_by_role("button", name="Attach").click()
    expect(composer).to_have_value(re.compile(r"\$sales $"))
    page.locator(".jp-DirListing-item", has_text="sales.csv").click(button="right")
    page.locator(".lm-Menu-item", has_text="Attach to the Agent's Prompt").click()
    expect(composer).to_have_value(re.compile("@sales.csv $"))
    notebook.screenshot("presence-attached")


def test_all_of_it_is_in_palette_toolbar_and_settings_and_can_be_turned_off(lab: Lab, own_page: Page) -> None:
    lab.write("off.ipynb", FAILS)
    notebook = lab.open(own_page, "off.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    status = own_page.locator(".indus-status button")
    expect(bar(own_page)).to_have_count(1)
    expect(status).to_be_visible()
    button = own_page.locator('.jp-NotebookPanel-toolbar [data-command="indus_nb:open-panel"]')
    expect(button).to_be_visible()
    own_page.keyboard.press("Control+Shift+c")
    own_page.locator(".lm-CommandPalette-input").fill("agent")
    for label in ("Open Agent Panel", "Stop the Agent", "Fix the Error of This Cell"):
        expect(own_page.locator(".lm-CommandPalette-itemLabel", has_text=label)).to_have_count(1)
    own_page.keyboard.press("Escape")
    own_page.evaluate("() => { window.jupyterapp.commands.execute('settingeditor:open', {query: 'Indus agent'}) }")
    own_page.get_by_label("Buttons below errors").uncheck()
    expect(bar(own_page)).to_have_count(0)
    own_page.get_by_label("Item in the status bar").uncheck()
    expect(status).to_be_hidden()


def test_no_shortcut_is_one_of_jupyterlab() -> None:
    def shortcuts(schema: Path) -> set[str]:
        declared = json.loads(schema.read_text()).get("jupyter.lab.shortcuts", [])
        return {" ".join(keys) for each in declared for keys in (each["keys"], each.get("macKeys", each["keys"]))}

    ours = shortcuts(EXTENSION / "schemas" / "indus_nb" / "plugin.json")
    theirs = Path(sys.prefix) / "share" / "jupyter" / "lab" / "schemas"
    assert ours
    assert not ours & {keys for schema in theirs.rglob("*.json") for keys in shortcuts(schema)}


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_nothing(lab: Lab, own_page: Page, theme: str) -> None:
    lab.write("axe.ipynb", FAILS)
    notebook = lab.open(own_page, "axe.ipynb")
    notebook.use_theme(theme)
    # Lab's body has no height, and hides what overflows: axe-core would take everything for invisible.
    own_page.add_style_tag(content="body { height: 100vh }")
    notebook.run(0)
    expect(bar(own_page)).to_have_count(1)
    notebook.screenshot(f"presence-{theme.rsplit(maxsplit=1)[-1].lower()}")
    for place in (".indus-error-bar", ".indus-status"):
        found = Axe().run(own_page, context=place, options={"runOnly": RULES}).response["violations"]
        assert not found, [(each["id"], each["nodes"]) for each in found]


def test_in_notebook_7_errors_have_a_bar_and_the_toolbar_a_button(
    tmp_path_factory: pytest.TempPathFactory, page: Page, api: MessagesApi
) -> None:
    root = tmp_path_factory.mktemp("seven")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Lab(folder, environment, program="notebook", extension=True) as lab:
        lab.write("seven.ipynb", FAILS, "%agent --model sonnet-4-5 hello")
        notebook = lab.open(page, "seven.ipynb")
        notebook.run(0)
        notebook.wait_until_run(0)
        api.add("No milk here.", "Hello.")
        bar(notebook.cell(0)).get_by_role("button", name="Fix").click()
        expect(page.get_by_text("No milk here.").first).to_be_visible()
        expect(page.locator('[data-command="indus_nb:open-panel"]').first).to_be_visible()
        notebook.screenshot("presence-notebook-7")
        notebook.run(1)
        notebook.wait_until_run(1)
        expect(notebook.cell(1)).to_contain_text("Hello.")
