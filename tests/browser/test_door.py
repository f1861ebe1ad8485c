"""The front-end extension in a real JupyterLab: the agent's panel at the side of the notebook in front."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from jupyterlab_page import KERNEL_IS_READY, Lab
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
    lab.write("first.ipynb", "x = 1")
    lab.write("second.ipynb", "y = 2", "%agent --thinking off and here?")
    lab.open(page, "first.ipynb")
    chat = open_panel(page)
    expect(chat.locator("textarea")).to_be_focused()
    api.add("In the first.")
    ask(chat, "where?", "In the first.")
    second = lab.open_beside(page, "second.ipynb")
    expect(chat.locator("textarea")).to_be_visible()
    expect(answer_in(chat)).to_have_count(0)
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


def test_the_panel_outlives_a_reload_a_new_name_and_a_restart(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("lives.ipynb", "x = 1")
    notebook = lab.open(page, "lives.ipynb")
    chat = open_panel(page)
    api.add("Still here.")
    ask(chat, "are you there?", "Still here.")
    notebook.save()
    page.evaluate("window.jupyterapp.shell.currentWidget.context.rename('renamed.ipynb')")
    expect(page.locator(".jp-NotebookPanel")).to_be_visible()
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


def test_a_kernel_that_runs_a_cell_is_waited_for(lab: Lab, page: Page) -> None:
    lab.write("busy.ipynb", "import os, time\nwhile not os.path.exists('go'): time.sleep(0.1)")
    notebook = lab.open(page, "busy.ipynb")
    notebook.run(0)
    expect(notebook.cell(0).locator(".jp-InputPrompt")).to_have_text("[*]:")
    chat = open_panel(page)
    expect(chat.get_by_role("status")).to_contain_text("The kernel is busy")
    (lab.folder / "go").touch()
    expect(chat.locator("textarea")).to_be_visible()


def test_a_kernel_without_the_package_gets_it_by_a_button(lab: Lab, page: Page) -> None:
    lab.write("bare.ipynb", "x = 1", kernel="bare")
    lab.open(page, "bare.ipynb")
    chat = open_panel(page)
    expect(chat.get_by_text("%pip install indus_nb", exact=True)).to_be_visible()
    chat.get_by_role("button", name="Install it").click()
    expect(chat.locator("textarea")).to_be_visible()


def test_a_kernel_of_another_language_is_left_alone(lab: Lab, page: Page) -> None:
    lab.write("other.ipynb", "x = 1", kernel="other")
    lab.open(page, "other.ipynb")
    expect(open_panel(page).get_by_role("status")).to_contain_text("Python")


def test_no_notebook_in_front_is_said(lab: Lab, page: Page) -> None:
    lab.open(page, "first.ipynb")
    page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    page.evaluate("window.jupyterapp.commands.execute('indus_nb:open-panel')")
    expect(page.get_by_text("Open a notebook to talk to the agent")).to_be_visible()
