"""The front-end extension in a real JupyterLab: the agent's panel at the side of the notebook in front."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from jupyterlab_page import KERNEL_IS_READY, Lab, Notebook, keep_screenshot
from kernels import private_environment
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Locator, Page, expect

IN_FRONT = ".jp-NotebookPanel:not(.lm-mod-hidden) "
WITHOUT_PACKAGE = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda _, name, *more: None if name == 'indus_nb' else find(name, *more))
"""
PIP = """
def pip(line):
    print('Now', line)
    PathFinder.find_spec = find
get_ipython().register_magic_function(pip)
"""
OTHER_LANGUAGE = """
from ipykernel.ipkernel import IPythonKernel
IPythonKernel.language_info = {**IPythonKernel.language_info, 'name': 'julia'}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("door")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    write_kernel(environment, "bare", "", f"--IPKernelApp.exec_lines=exec('''{WITHOUT_PACKAGE}{PIP}''')")
    write_kernel(environment, "other", OTHER_LANGUAGE)
    write_kernel(environment, "late", "import time; time.sleep(4)")
    with Lab(folder, environment, extension=True) as lab:
        yield lab


def write_kernel(environment: Mapping[str, str], name: str, before: str, *arguments: str) -> None:
    """Let Jupyter know a kernel that runs some code before it is one."""
    launch = f"{before}\nfrom ipykernel.kernelapp import launch_new_instance\nlaunch_new_instance()"
    place = Path(environment["JUPYTER_DATA_DIR"]) / "kernels" / name
    place.mkdir(parents=True)
    argv = [sys.executable, "-c", launch, "-f", "{connection_file}", *arguments]
    described = {"argv": argv, "display_name": name, "language": "python"}
    (place / "kernel.json").write_text(json.dumps(described))


NAME = ".indus_nb-of"
"""The line of a chat that names its notebook."""


def open_panel(page: Page) -> Locator:
    """Open the panel at the side, and return the chat of the notebook in front."""
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    return page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")


def answer_in(chat: Locator) -> Locator:
    """The newest answer in a chat."""
    return chat.locator(".indus-answer").last


def ask(chat: Locator, prompt: str, answer: str) -> None:
    chat.locator("textarea").fill(prompt)
    chat.locator("textarea").press("Enter")
    expect(answer_in(chat)).to_have_text(answer)


def test_two_notebooks_on_one_kernel_have_each_its_own_conversation(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("first.ipynb", "x = 1", "%agent --cells")
    lab.write("second.ipynb", "y = 2", "%agent --thinking off and here?")
    first = lab.open(page, "first.ipynb")
    chat = open_panel(page)
    expect(chat.locator("textarea")).to_be_focused()
    api.add("In the first.")
    ask(chat, "where?", "In the first.")
    expect(chat.locator(NAME)).to_have_text("first.ipynb")
    in_cells = chat.locator("button", has_text="Cells").first
    first.run(1)
    expect(in_cells).to_have_attribute("aria-pressed", "true")
    second = lab.open_beside(page, "second.ipynb")
    expect(chat.locator("textarea")).to_be_visible()
    expect(chat.locator(NAME)).to_have_text("second.ipynb")
    expect(answer_in(chat)).to_have_count(0)
    expect(in_cells).to_have_attribute("aria-pressed", "false")
    api.add(Reply(ToolUse("notebook", {})), "In the second.")
    ask(chat, "and now?", "In the second.")
    read = str(api.requests[-1].body["messages"])
    assert "second.ipynb · 2 cells" in read
    assert "where?" not in read
    api.add("In a cell of the second.")
    second.run(1)
    second.wait_until_run(1)
    assert "and now?" in str(api.requests[-1].body["messages"])
    expect(answer_in(chat)).to_have_text("In a cell of the second.")
    page.evaluate("""async () => {
        await window.jupyterapp.commands.execute('docmanager:open', {path: 'first.ipynb'});
    }""")
    expect(answer_in(chat)).to_have_text("In the first.")
    chat.locator("textarea").fill("/new")
    chat.locator("textarea").press("Enter")
    expect(answer_in(chat)).to_have_count(0)
    expect(in_cells).to_have_attribute("aria-pressed", "true")


def test_a_notebook_is_changed_by_its_first_prompt_and_not_by_the_panel(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("clean.ipynb", "x = 1")
    notebook = lab.open(page, "clean.ipynb")
    notebook.save()  # the front end notes the kernel's language
    chat = open_panel(page)
    expect(chat.get_by_label("Model").locator("option")).not_to_have_count(0)
    assert not page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")
    api.add("Kept.")
    ask(chat, "is it kept?", "Kept.")
    notebook.save()
    saved = json.loads((lab.folder / "clean.ipynb").read_text())
    assert saved["metadata"]["indus_nb"]["id"].startswith("notebook-")


def test_the_panel_outlives_a_reload_a_new_name_and_a_restart(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("lives.ipynb", "x = 1")
    notebook = lab.open(page, "lives.ipynb")
    chat = open_panel(page)
    api.add("Still here.")
    ask(chat, "are you there?", "Still here.")
    notebook.save()
    saved = json.loads((lab.folder / "lives.ipynb").read_text())
    assert "widgets" not in saved["metadata"]  # the panel stands in no cell
    page.evaluate("window.jupyterapp.shell.currentWidget.context.rename('renamed.ipynb')")
    expect(chat.locator(NAME)).to_have_text("renamed.ipynb")
    page.reload()
    page.wait_for_function(KERNEL_IS_READY)
    expect(answer_in(chat)).to_have_text("Still here.")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(chat.locator("textarea")).to_be_visible()
    expect(answer_in(chat)).to_have_text("Still here.")
    api.add("After it.")
    ask(chat, "and after it?", "After it.")
    assert "are you there?" in str(api.requests[-1].body["messages"])


def test_a_page_is_linked_by_itself_to_a_kernel_in_which_the_package_was_loaded_before(lab: Lab, page: Page) -> None:
    lab.write("loaded.ipynb", "get_ipython().run_line_magic('load_ext', 'indus_nb')")
    notebook = lab.open(page, "loaded.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    status = page.locator(".indus-status button")
    expect(status).to_have_text("Agent")
    notebook.save()
    page.reload()
    expect(status).to_contain_text("Agent idle")


KEEP_WHAT_IS_SAID = """() => {
    window.said = new Set();
    new MutationObserver(() => {
        for (const line of document.querySelectorAll('.indus_nb-said:not([hidden])')) window.said.add(line.textContent);
    }).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""


OPEN_COPY = """async path => {
    const {serviceManager, commands} = window.jupyterapp;
    const copy = await serviceManager.contents.copy(path, '');
    await commands.execute('docmanager:open', {path: copy.path});
}"""


def test_the_panel_of_a_duplicate_is_there_without_a_word_of_a_failure(lab: Lab, page: Page) -> None:
    lab.write("day.ipynb", "x = 1")
    lab.open(page, "day.ipynb")
    chat = open_panel(page)
    expect(chat.locator("textarea")).to_be_visible()
    page.evaluate(KEEP_WHAT_IS_SAID)
    page.evaluate(OPEN_COPY, "day.ipynb")
    expect(chat.locator(NAME)).to_have_text("day-Copy1.ipynb")
    expect(chat.locator("textarea")).to_be_visible()
    assert not [line for line in page.evaluate("[...window.said]") if "could not" in line]


CLOSES_DOORS = """
from indus_nb.front.notebook.conversations import Conversations
opens = Conversations.open_door
def refuse(*_): raise RuntimeError('`no door` today')
Conversations.open_door = refuse
"""


def test_a_kernel_that_closes_each_connection_is_tried_again_at_a_click(lab: Lab, page: Page) -> None:
    lab.write("closes.ipynb", CLOSES_DOORS, "Conversations.open_door = opens")
    notebook = lab.open(page, "closes.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    chat = open_panel(page)
    said = chat.get_by_role("status")
    expect(said).to_contain_text(
        "The agent could not be opened. The kernel closed the connection: RuntimeError: no door"
    )
    expect(said.locator("code")).to_have_text("no door")
    again = chat.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    notebook.run(1)
    notebook.wait_until_run(1)
    again.click()
    expect(chat.locator("textarea")).to_be_visible()
    expect(again).to_have_count(0)


def test_a_notebook_that_is_closed_while_its_question_waits_says_so_and_is_opened_again_at_a_click(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("closed.ipynb", "%agent --approve always go")
    notebook = lab.open(page, "closed.ipynb")
    expect(open_panel(page).locator("textarea")).to_be_visible()
    api.add(Reply(ToolUse("bash", {"command": "touch closed"})), "It is made.")
    notebook.run(0)
    expect(notebook.cell(0).get_by_role("dialog")).to_contain_text("touch closed")
    notebook.save()
    page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    notice = page.locator(".Toastify__toast", has_text="The agent in closed.ipynb waits for your answer")
    expect(notice).to_be_visible()
    keep_screenshot(page, "closed-while-it-asks")
    notice.get_by_role("button", name="Open").click()
    question = notebook.cell(0).get_by_role("dialog")
    expect(question).to_contain_text("touch closed")
    expect(notice).to_have_count(0)
    question.get_by_role("button", name=re.compile(r"^No\b")).first.click()
    expect(page.locator(".indus-status button")).to_contain_text("Agent idle")
    page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    expect(page.locator(".jp-NotebookPanel")).to_have_count(0)
    expect(notice).to_have_count(0)


FIRST_VIEWS_ARE_EMPTY = """count => {
    const {rendermime} = window.jupyterapp.shell.currentWidget.content;
    const createRenderer = rendermime.createRenderer.bind(rendermime);
    rendermime.createRenderer = type => {
        const view = createRenderer(type);
        if (type.includes('widget-view') && count-- > 0) view.renderModel = async () => {};
        return view;
    };
}"""


@pytest.mark.parametrize("count", [1, 2])
def test_a_panel_that_is_not_drawn_is_tried_once_more_and_then_says_what_helps(
    lab: Lab, page: Page, count: int
) -> None:
    lab.write("empty.ipynb", "1")
    notebook = lab.open(page, "empty.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    page.evaluate(FIRST_VIEWS_ARE_EMPTY, count)
    chat = open_panel(page)
    expect(chat.get_by_role("status").first).to_have_text("The agent is on its way.")
    if count == 1:
        expect(chat.locator("textarea")).to_be_visible(timeout=30_000)
        expect(chat).not_to_contain_text("on its way")
    else:
        expect(chat).to_contain_text("Reload the page.", timeout=60_000)


def test_a_kernel_that_runs_a_cell_is_waited_for(lab: Lab, page: Page) -> None:
    lab.write("busy.ipynb", "import os, time\nwhile not os.path.exists('go'): time.sleep(0.1)")
    notebook = lab.open(page, "busy.ipynb")
    notebook.run(0)
    expect(notebook.cell(0).locator(".jp-InputPrompt")).to_have_text("[*]:")
    chat = open_panel(page)
    expect(chat.get_by_role("status")).to_contain_text("The kernel is busy")
    (lab.folder / "go").touch()
    expect(chat.locator("textarea")).to_be_visible()


def test_a_kernel_whose_cell_is_interrupted_gets_the_agent_after_all(lab: Lab, page: Page) -> None:
    lab.write("interrupted.ipynb", "import time\nprint('begun')\ntime.sleep(600)")
    notebook = lab.open(page, "interrupted.ipynb")
    notebook.run(0)
    expect(notebook.cell(0).get_by_text("begun", exact=True)).to_be_visible()
    chat = open_panel(page)
    expect(chat.get_by_role("status")).to_contain_text("The kernel is busy")
    notebook.interrupt()
    expect(chat.locator("textarea")).to_be_visible()


HAS_NO_LIVE_VIEW = "!JSON.stringify(window.jupyterapp.shell.currentWidget.model).includes('The live view')"
ADD_CELL = """source => {
    window.jupyterapp.shell.currentWidget.context.model.sharedModel.addCell({cell_type: 'code', source});
}"""


@pytest.mark.parametrize(("saved", "opened"), [(True, True), (False, True), (False, False)])
def test_a_question_waits_in_the_panel_of_a_page_that_is_loaded_again_also_where_its_cell_was_not_saved(
    lab: Lab, page: Page, api: MessagesApi, *, saved: bool, opened: bool
) -> None:
    made = lab.folder / f"made-{saved}-{opened}"
    lab.write(f"{made.name}.ipynb", "x = 1")
    notebook = lab.open(page, f"{made.name}.ipynb")
    chat = page.locator(".indus_nb-Chat:not(.lm-mod-hidden)")
    if opened:
        expect(open_panel(page).locator("textarea")).to_be_visible()
    page.evaluate(ADD_CELL, "%agent --approve always go")
    api.add(Reply(ToolUse("bash", {"command": f"touch {made.name}"})), "It is made.")
    notebook.run(1)
    expect(notebook.cell(1).get_by_role("dialog")).to_contain_text(f"touch {made.name}")
    if saved:
        notebook.save()
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    status = page.locator(".indus-status button")
    expect(status).to_contain_text("Agent asks")
    expect(page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab.indus-mod-asks")).to_have_count(1)
    expect(notebook.cell(1)).to_have_count(1 if saved else 0)
    if not opened:
        status.click()
    if saved and opened:  # then its cell is in sight
        expect(chat.locator(".ia-where")).to_have_text("A question waits at the 2nd cell: show")
    question = (notebook.cell(1) if saved else chat).get_by_role("dialog")
    expect(question).to_contain_text(f"touch {made.name}")
    keep_screenshot(page, f"question-after-a-reload-{saved}-{opened}")
    expect(chat.locator(".ia-where:visible, .ia-dialog:visible")).to_have_count(1)
    call = chat.locator(".indus-call")
    expect(call).to_have_count(1)
    question.get_by_role("button", name=re.compile(r"^Yes\b")).first.click()
    expect(answer_in(chat)).to_have_text("It is made.")
    expect(chat.locator(".indus-usage")).to_have_count(1)
    expect(call).to_have_count(1)
    expect(call).to_contain_text("✓")
    assert made.exists()


def test_the_steps_of_a_plan_are_changed_where_the_user_said_so_and_are_one_text(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("plan.ipynb", "%agent --plan clean it", "print('next')")
    notebook = lab.open(page, "plan.ipynb")
    chat = open_panel(page)
    expect(chat.locator("textarea")).to_be_visible()
    api.add(Reply(ToolUse("answer", {"answer": json.dumps(["Look", "Clean"])})), "It is clean.")
    asked = len(api.requests)
    notebook.run(0)
    cell = notebook.cell(0)
    expect(cell.get_by_role("dialog")).to_contain_text("Carry out this plan?")
    change = cell.get_by_role("button", name="Change the steps")
    expect(change).to_be_enabled()
    change.evaluate("button => button.click()")  # as in browsers that give a clicked button no focus
    steps = cell.get_by_role("textbox", name="The plan, a step in each line")
    copy = chat.get_by_role("textbox", name="The plan, a step in each line")
    expect(steps).to_be_focused()
    expect(chat.locator(".ia-where")).to_be_visible()
    expect(copy).to_have_count(0)
    page.evaluate("window.jupyterapp.commands.execute('launcher:create')")
    expect(copy).to_have_value("Look\nClean")
    copy.fill("Look\nClean\nWrite it down")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:open', {path: 'plan.ipynb'})")
    expect(steps).to_have_value("Look\nClean\nWrite it down")
    cell.get_by_role("button", name="Done").click()
    cell.get_by_role("button", name="Go").click()
    expect(cell.locator(".indus-answer").last).to_have_text("It is clean.")
    api.wait_for_requests(asked + 2)
    assert "Write it down" in "\n".join(api.requests[-1].texts)


def test_an_answer_that_ended_after_the_last_save_is_in_the_notebook_of_the_next_page(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("ended.ipynb", "x = 1", "print('before')\n%agent --approve always go")
    notebook = lab.open(page, "ended.ipynb")
    expect(open_panel(page).locator("textarea")).to_be_visible()
    api.add(Reply("I look.", ToolUse("bash", {"command": "echo from a command"})), "It is done.")
    notebook.run(1)
    cell = notebook.cell(1)
    question = cell.get_by_role("dialog")
    expect(question).to_contain_text("echo from a command")
    notebook.save()
    question.get_by_role("button", name=re.compile(r"^Yes\b")).first.click()
    notebook.wait_until_run(1)
    expect(cell.locator(".ia-root")).to_have_count(0)
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    expect(cell.locator(".indus-answer").last).to_have_text("It is done.")
    expect(cell.locator(".jp-RenderedText")).to_have_text("before")
    expect(cell.get_by_text("I look.")).to_have_count(1)
    expect(cell.get_by_text("The live view of this answer")).to_have_count(0)
    keep_screenshot(page, "ended-after-the-last-save")
    page.wait_for_function(HAS_NO_LIVE_VIEW)


SET_SOURCE = """source => {
    window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel.setSource(source);
}"""


def test_an_answer_stands_below_its_own_prompt_where_the_cell_of_the_next_page_holds_another(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("other.ipynb", "%agent how long is it?", "print('next')")
    notebook = lab.open(page, "other.ipynb")
    api.add("It has two lines.")
    notebook.run(0)
    cell = notebook.cell(0)
    expect(cell.locator(".indus-usage")).to_have_count(1)
    page.wait_for_function(HAS_NO_LIVE_VIEW)
    notebook.save()
    cell.locator(".cm-content").click()
    page.evaluate(SET_SOURCE, "%agent --approve always empty it")
    api.add(Reply("I begin.", ToolUse("bash", {"command": "echo emptied"})), "It is empty now.")
    notebook.run(0)
    expect(cell.get_by_role("dialog")).to_contain_text("echo emptied")
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    expect(cell.locator(".cm-content")).to_have_text("%agent how long is it?")
    shown = cell.locator(".jp-OutputArea-output")
    asked = shown.get_by_text("Answer to: %agent --approve always empty it")
    expect(asked).to_have_count(1)
    cell.get_by_role("dialog").get_by_role("button", name=re.compile(r"^Yes\b")).first.click()
    expect(cell.locator(".ia-root")).to_have_count(0)
    expect(cell.locator(".indus-answer").last).to_have_text("It is empty now.")
    expect(asked).to_have_count(1)
    texts = "\n".join(shown.all_inner_texts())
    order = ["It has two lines.", "Answer to:", "I begin.", "emptied", "It is empty now."]
    assert sorted(order, key=texts.index) == order
    assert [texts.count(each) for each in ("It has two lines.", "I begin.")] == [1, 1]
    keep_screenshot(page, "answer-below-another-prompt")
    page.wait_for_function(HAS_NO_LIVE_VIEW)


def test_quick_answers_of_a_second_notebook_on_the_kernel_have_what_they_took_beside_them(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("first_of_two.ipynb", "%agent hello")
    lab.write("second_of_two.ipynb", *(f"%agent hello {number}" for number in range(8)))
    first = lab.open(page, "first_of_two.ipynb")
    api.add("Hello.")
    first.run(0)
    first.wait_until_run(0)
    second = lab.open_beside(page, "second_of_two.ipynb")
    for number in range(8):
        api.add("Hello.")
        second.run(number)
        second.wait_until_run(number)
        expect(second.cell(number).locator(".indus-usage .ia-beside")).to_contain_text("tokens in")


@pytest.mark.parametrize("cells", [["%load_ext indus_nb", "%agent hello"], ["%agent hello"]])
def test_the_first_answer_has_what_it_took_beside_it_and_not_in_the_file(
    lab: Lab, page: Page, api: MessagesApi, cells: list[str]
) -> None:
    lab.write("first_answer.ipynb", *cells)
    notebook = lab.open(page, "first_answer.ipynb")
    api.add("Hello.")
    for number in range(len(cells)):
        notebook.run(number)
    cell = notebook.cell(len(cells) - 1)
    expect(cell.locator(".indus-usage .ia-beside")).to_contain_text("tokens in", timeout=120_000)
    notebook.save()
    saved = (lab.folder / "first_answer.ipynb").read_text()
    assert "Hello." in saved
    assert re.search(r"\d tokens in, ", saved) is None


def test_a_cell_run_before_its_kernel_answers_finds_the_magic_with_the_panel_open(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("in_time.ipynb", "x = 1")
    lab.write("late.ipynb", "%agent hello", kernel="late")
    lab.open(page, "in_time.ipynb")
    expect(open_panel(page).locator("textarea")).to_be_visible(timeout=60_000)
    page.evaluate("window.jupyterapp.commands.execute('docmanager:open', {path: 'late.ipynb', factory: 'Notebook'})")
    page.wait_for_function(
        """() => {
            const {content, context} = window.jupyterapp.shell.currentWidget ?? {};
            return context?.path.endsWith("late.ipynb") && content.widgets.length > 0;
        }""",
        timeout=60_000,
    )
    api.add("Hello.")
    notebook = Notebook(page, IN_FRONT)
    notebook.run(0)
    expect(notebook.cell(0).locator(".indus-answer")).to_have_text("Hello.", timeout=60_000)


def test_a_kernel_without_the_package_gets_it_by_a_button(lab: Lab, page: Page) -> None:
    lab.write("bare.ipynb", "x = 1", kernel="bare")
    lab.open(page, "bare.ipynb")
    chat = open_panel(page)
    button = chat.get_by_role("button", name="Install it")
    expect(button).to_be_disabled()
    chat.get_by_label("Directory of the clone").fill("/my clone")
    expect(chat.get_by_text('%pip install "/my clone[widgets]"', exact=True)).to_be_visible()
    button.click()
    expect(chat.locator("textarea")).to_be_visible()


def test_a_page_that_knows_no_widgets_says_so_and_has_the_panel_once_it_is_loaded_again(lab: Lab, page: Page) -> None:
    config = next(lab.folder.parent.rglob("page_config.json"))
    before = json.loads(config.read_text())
    without = {**before["disabledExtensions"], "@jupyter-widgets/jupyterlab-manager": True}
    config.write_text(json.dumps({**before, "disabledExtensions": without}))
    try:
        lab.write("no_widgets.ipynb", "x = 1")
        lab.open(page, "no_widgets.ipynb")
        chat = open_panel(page)
        expect(chat.get_by_role("status").first).to_contain_text("This page cannot show widgets. Reload it if")
    finally:
        config.write_text(json.dumps(before))
    page.reload()
    page.wait_for_function(KERNEL_IS_READY)
    open_panel(page)
    expect(chat.locator("textarea")).to_be_visible()


def test_a_kernel_of_another_language_is_left_alone(lab: Lab, page: Page) -> None:
    lab.write("julia.ipynb", "x = 1", kernel="other")
    lab.open(page, "julia.ipynb")
    expect(open_panel(page).get_by_role("status")).to_contain_text("Python")


def test_no_notebook_in_front_is_said(lab: Lab, page: Page) -> None:
    lab.write("first.ipynb", "1")
    lab.open(page, "first.ipynb")
    page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    expect(page.get_by_text("Open a notebook to talk to the agent")).to_be_visible()


@pytest.mark.parametrize("has_panel", [False, True])
def test_a_copy_of_a_notebook_says_which_conversation_the_first_one_has(
    lab: Lab, page: Page, api: MessagesApi, has_panel: bool
) -> None:
    name, offer = f"copied_{has_panel}", re.compile(r"%agent --session \S+ goes on with it")
    lab.write(f"{name}.ipynb", "%agent what is it?", "%agent go on")
    notebook = lab.open(page, f"{name}.ipynb")
    chat = open_panel(page) if has_panel else None
    api.add("It is that.")
    notebook.run(0)
    expect(notebook.cell(0).locator(".indus-answer")).to_have_text("It is that.")
    notebook.wait_until_run(0)
    notebook.save()
    page.evaluate("path => window.jupyterapp.serviceManager.contents.copy(path, '')", f"{name}.ipynb")
    copy = lab.open_beside(page, f"{name}-Copy1.ipynb", on_own_kernel=True)
    if chat is not None:  # so it is the panel that begins the copy's conversation
        expect(chat).to_contain_text(offer)
    api.add("Go on with what?")
    copy.run(1)
    copy.wait_until_run(1)
    expect(copy.cell(1).locator(".indus-answer")).to_have_text("Go on with what?")
    expect(copy.cell(1)).to_contain_text(offer)
    keep_screenshot(page, f"copy-{has_panel}")
    assert "It is that." not in str(api.requests[-1].body["messages"])


def test_after_a_restart_each_notebook_of_a_kernel_goes_on_with_its_own_conversation(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("shared.ipynb", "%agent what is it?", "%agent go on", "%agent and then?")
    first = lab.open(page, "shared.ipynb")
    chat = open_panel(page)
    api.add("It is that.")
    first.run(0)
    first.wait_until_run(0)
    first.save()
    page.evaluate("window.jupyterapp.serviceManager.contents.copy('shared.ipynb', '')")
    copy = lab.open_beside(page, "shared-Copy1.ipynb", on_own_kernel=True)
    lab.switch_to_kernel_of(page, "shared.ipynb")
    expect(chat).to_contain_text(re.compile(r"open in this kernel: %agent --name main goes on with it"))
    api.add("In the copy.")
    copy.run(1)
    copy.wait_until_run(1)
    called = chat.get_by_label("Name of the session")
    expect(called).to_have_value("shared-Copy1")
    page.evaluate("window.jupyterapp.serviceManager.contents.rename('shared-Copy1.ipynb', 'shared-renamed.ipynb')")
    page.wait_for_function("window.jupyterapp.shell.currentWidget.context.path === 'shared-renamed.ipynb'")
    expect(called).to_have_value("shared-renamed")
    for path in ("shared.ipynb", "shared-renamed.ipynb"):
        page.evaluate("path => window.jupyterapp.commands.execute('docmanager:open', {path})", path)
        if path == "shared.ipynb":  # so the other one is not asked whether it wants that
            page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        shown = Notebook(page, IN_FRONT)
        api.add("And then that.")
        shown.run(2)
        shown.wait_until_run(2)
        asked = str(api.requests[-1].body["messages"])
        assert ("It is that." in asked, "In the copy." in asked) == (
            path == "shared.ipynb",
            path == "shared-renamed.ipynb",
        )


def test_in_the_narrow_panel_the_row_of_a_job_has_room_for_its_title_its_state_and_stop(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    waits = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.05)"
    lab.write("narrow.ipynb", "%load_ext indus_nb", "%agent --new --approve never train", waits.format("free"))
    notebook = lab.open(page, "narrow.ipynb")
    train = {"code": f"# Train beside you\n{waits.format('trained')}\nlosses = [1]", "beside": True}
    api.add(Reply(ToolUse("python", train)), "It trains.", "Trained.")
    for number in (0, 1):
        notebook.run(number)
        notebook.wait_until_run(number)
    jobs = open_panel(page).get_by_role("group", name="Jobs")
    expect(jobs).to_contain_text("job-1")
    notebook.run(2)
    (lab.folder / "trained").touch()
    expect(jobs).to_contain_text("waits for your cell")
    notebook.screenshot("job-narrow")
    row, stop, title = (
        each.bounding_box() or {} for each in (jobs, jobs.get_by_role("button"), jobs.get_by_text("Train beside"))
    )
    assert stop["x"] + stop["width"] <= row["x"] + row["width"]
    assert title["width"] > 100
    (lab.folder / "free").touch()
    expect(jobs).to_be_hidden()
