"""Which notebook is meant in a real JupyterLab, of two on one kernel, and what becomes of the file of an open one."""

from __future__ import annotations

import re

from jupyterlab_page import Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page, expect

SESSION = "%agent --model anthropic/claude-sonnet-4-5 --thinking off --approve never "


def test_what_a_notebook_asks_is_done_to_that_notebook(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("first.ipynb", "%load_ext indus_nb", SESSION + "hello", "x = 1")
    lab.write("second.ipynb", "1 / 0", "%agent verify", "%agent look at it", "%agent cell all")
    first = lab.open(page, "first.ipynb")
    first.run(0)
    first.wait_until_run(0)
    api.add("Hello.")
    first.run(1)
    first.wait_until_run(1)
    second = lab.open_beside(page, "second.ipynb")
    second.run(0)
    second.wait_until_run(0)
    second.run(1)
    second.wait_until_run(1)
    expect(second.cell(1)).to_contain_text("second.ipynb: 0 of 1 cells ran well")
    expect(second.cell(1)).to_contain_text(re.compile(r"(The 1st cell|Cell \[\d+\]) fails: ZeroDivisionError"))
    api.add(Reply(ToolUse("notebook", {}), ToolUse("python", {"code": "print(6 * 7)"})), Reply("Seen."))
    second.run(2)
    second.wait_until_run(2)
    read = str(api.requests[-1].body["messages"][-1])
    assert "1 / 0" in read
    assert "second.ipynb · 4 cells" in read
    assert "first.ipynb" not in read
    assert "Unsaved" not in read
    expect(second.cell(2)).to_contain_text("second.ipynb · 4 cells")
    second.run(3)
    second.wait_until_run(3)
    expect(second.cell(4)).to_contain_text("print(6 * 7)")
    second.screenshot("two-notebooks")
    sizes = page.evaluate(
        """() => Object.fromEntries([...window.jupyterapp.shell.widgets('main')].filter(({context}) => context)
            .map(({context}) => [context.path, [...context.model.cells].length]))"""
    )
    assert sizes["first.ipynb"] == 3


def test_a_command_that_writes_the_open_notebook_is_told_from_the_page_that_saves_it(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("open.ipynb", "%load_ext indus_nb", SESSION + "wait", "%agent write", "%agent undo", "# Notes")
    path = lab.folder / "open.ipynb"
    notebook = lab.open(page, "open.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add(Reply(ToolUse("bash", {"command": "until [ -e saved ]; do sleep 0.1; done"})), Reply("Waited."))
    notebook.run(1)
    expect(notebook.cell(1)).to_contain_text("until [ -e saved ]")
    before = path.read_bytes()
    notebook.save()
    assert path.read_bytes() != before
    notebook.cell(4).dblclick()
    page.keyboard.type("written on after the save")
    (lab.folder / "saved").touch()
    notebook.wait_until_run(1)
    expect(notebook.cell(1)).to_contain_text("Waited.")
    expect(notebook.cell(1)).not_to_contain_text("written as a file")
    saved = path.read_bytes()
    api.add(Reply(ToolUse("bash", {"command": "echo '{}' > open.ipynb"})), Reply("Written."))
    notebook.run(2)
    notebook.wait_until_run(2)
    expect(notebook.cell(2)).to_contain_text("open.ipynb, a notebook that is open, was written as a file")
    notebook.run(3)
    notebook.wait_until_run(3)
    expect(notebook.cell(3)).to_contain_text("Taken back: open.ipynb")
    assert path.read_bytes() == saved
