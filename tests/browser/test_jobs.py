"""Code that goes on as a job in a real JupyterLab: its cell and a panel show how it gets on, and stop it."""

from __future__ import annotations

import json
import re

from jupyterlab_page import Lab
from messages_api import MessagesApi, Reply, ToolUse
from playwright.sync_api import Page, expect

LAB = {"settings": {"approve": "never", "jobs": {"afterSeconds": 1}}}
KEEPS_PAGE = True

COUNTS = """\
# Count to sixty
import asyncio, time
for i in range(60):
    print(i)
    """
SESSION = "%agent --new --model anthropic/claude-sonnet-4-5 --thinking off "


def test_a_cell_shows_how_its_code_gets_on_and_its_stop_ends_it(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("job.ipynb", "%load_ext indus_nb", SESSION + "count", "print(6 * 7)")
    notebook = lab.open(page, "job.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add(Reply(ToolUse("python", {"code": COUNTS + "time.sleep(0.5)"})), Reply("It counts. I wait for its end."))
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell).to_contain_text("I wait for its end.")
    expect(cell).to_contain_text("0\n1\n2\n3\n4\n5")
    notebook.screenshot("job")
    cell.get_by_role("button", name="Stop").click()
    notebook.wait_until_run(1)
    expect(cell.get_by_role("button", name="Stop")).to_have_count(0)
    expect(cell).to_contain_text("It was stopped: the code was interrupted.")
    notebook.screenshot("job-stopped")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("42")


def test_a_panel_shows_how_its_code_gets_on_and_its_stop_ends_it(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("job-panel.ipynb", "%load_ext indus_nb", f"{SESSION}\n%agent panel", "print(6 * 7)")
    notebook = lab.open(page, "job-panel.ipynb")
    for number in (0, 1):
        notebook.run(number)
        notebook.wait_until_run(number)
    panel = notebook.cell(1)
    code = COUNTS + "await asyncio.sleep(0.5)"
    api.add(Reply(ToolUse("python", {"code": code})), Reply("It counts. I wait for its end."))
    panel.get_by_label("Message").fill("count")
    panel.get_by_label("Message").press("Enter")
    expect(panel).to_contain_text("I wait for its end.")
    expect(panel).to_contain_text("job-1 goes on: Count to sixty")
    expect(panel).to_contain_text("0\n1\n2\n3\n4\n5")
    jobs = panel.get_by_role("group", name="Jobs")
    expect(jobs).to_contain_text("job-1")
    expect(jobs).to_contain_text("python: Count to sixty")
    panel.get_by_label("Message").fill("a message begins a run, for no answer goes on")
    expect(panel.get_by_role("button", name="Send")).to_be_visible()
    expect(panel.get_by_role("button", name="Follow up")).to_be_hidden()
    panel.get_by_label("Message").fill("")
    notebook.screenshot("job-panel")
    panel.get_by_role("button", name="Stop", exact=True).click()
    expect(panel.get_by_role("button", name="Stop")).to_have_count(0)
    expect(jobs).to_be_hidden()
    notebook.screenshot("job-panel-stopped")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("42")
    api.add("It was stopped at five.")
    panel.get_by_label("Message").fill("how far did it come?")
    panel.get_by_label("Message").press("Enter")
    expect(panel).to_contain_text("It was stopped at five.")
    assert "job-1 (python: Count to sixty) was stopped by the user" in json.dumps(api.requests[-1].body["messages"])


def test_a_panel_shows_commands_that_go_on_and_stops_each(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("job-commands.ipynb", "%load_ext indus_nb", f"{SESSION}\n%agent panel")
    notebook = lab.open(page, "job-commands.ipynb")
    for number in (0, 1):
        notebook.run(number)
        notebook.wait_until_run(number)
    panel = notebook.cell(1)
    commands = ("# Serve the files\nsleep 600", "# Watch the files\nsleep 600")
    calls = [ToolUse("bash", {"command": command, "background": True}) for command in commands]
    api.add(Reply(*calls), Reply("Both run."))
    panel.get_by_label("Message").fill("serve and watch")
    panel.get_by_label("Message").press("Enter")
    expect(panel).to_contain_text("Both run.")
    jobs = panel.get_by_role("group", name="Jobs")
    expect(jobs.locator(".ia-line")).to_have_text(["bash: Serve the files", "bash: Watch the files"])
    expect(jobs.locator(".ia-ran").first).to_have_text(re.compile(r"\d s"))
    expect(panel.get_by_role("button", name="Send")).to_be_visible()
    notebook.screenshot("job-commands")
    jobs.get_by_role("button", name="Stop job-1: Serve the files").click()
    expect(jobs.locator(".ia-line")).to_have_text(["bash: Watch the files"])
    jobs.get_by_role("button", name="Stop job-2: Watch the files").press("Enter")
    expect(jobs).to_be_hidden()
    expect(panel.get_by_label("Message")).to_be_focused()


def test_a_command_that_goes_on_says_so_to_the_user_and_how_to_stop_it(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("job-command.ipynb", "%load_ext indus_nb", SESSION + "serve the files", "%agent jobs stop 1")
    notebook = lab.open(page, "job-command.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    command = {"command": "# Serve the files\necho ready; sleep 600", "background": True}
    api.add(Reply(ToolUse("bash", command)), Reply("It serves."))
    notebook.run(1)
    notebook.wait_until_run(1)
    cell = notebook.cell(1)
    expect(cell).to_contain_text("bash Serve the files · ready · It goes on as job-1. %agent jobs stop 1 stops it.")
    expect(cell).to_contain_text("ready")
    expect(cell).not_to_contain_text("You are told when it ends")
    notebook.screenshot("job-command")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("job-1 (bash: Serve the files) was stopped by you")
