"""The live view of a run in a real JupyterLab, on the oldest and the newest ipykernel: ask, stop, interrupt, reload."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from jupyterlab_page import Lab, Notebook
from kernels import private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from playwright.sync_api import Locator, Page, expect

KEEPS_PAGE = True

VERSIONS = ["6.29.5", "7.4.0"]
ASK = "%agent --new --model sonnet-4-5 --thinking off "


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi, version: str) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("lab")
    folder = root / "work"
    folder.mkdir()
    environment = private_environment(root, ipykernel=version, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (root / "agent" / "settings.json").unlink()  # somebody is there to be asked
    with Lab(folder, environment) as lab:
        yield lab


def opened(lab: Lab, page: Page, api: MessagesApi, version: str, *cells: str) -> Notebook:
    """A notebook whose first cell has run, which proves what kernel it is."""
    lab.write("live.ipynb", "%load_ext indus_nb\nimport ipykernel, time\nprint(ipykernel.__version__)", *cells)
    notebook = lab.open(page, "live.ipynb")
    notebook.run(0)
    expect(notebook.cell(0).locator(".jp-OutputArea-output")).to_contain_text(version)
    return notebook


def footer(cell: Locator) -> Locator:
    return cell.get_by_role("button", name="Stop")


def test_a_dialog_is_answered_by_the_keyboard_while_the_cell_is_busy(
    lab: Lab, page: Page, api: MessagesApi, version: str
) -> None:
    notebook = opened(lab, page, api, version, ASK + "make a file", "print('next')")
    api.add(Reply(ToolUse("bash", {"command": f"touch asked-{version}"})), Reply("It is there."))
    notebook.run(1)
    cell = notebook.cell(1)
    dialog = cell.get_by_role("dialog")
    expect(dialog).to_contain_text(f"touch asked-{version}")
    notebook.run(2)  # which waits its turn
    expect(dialog.get_by_role("button", name="Yes", exact=True)).to_be_enabled()
    dialog.get_by_role("button", name="Yes", exact=True).focus()
    notebook.screenshot(f"dialog-{version}")
    page.keyboard.press("1")
    notebook.wait_until_run(1)
    expect(cell.locator(".indus-answer")).to_contain_text("It is there.")
    expect(notebook.cell(2)).to_contain_text("next")
    expect(cell.get_by_role("dialog")).to_have_count(0)
    assert (lab.folder / f"asked-{version}").exists()


def test_stop_is_there_before_the_first_token_and_ends_the_run(
    lab: Lab, page: Page, api: MessagesApi, version: str
) -> None:
    notebook = opened(lab, page, api, version, ASK + "hello", "print('next')")
    api.add(Reply(Gate(), "never said"))
    notebook.run(1)
    cell = notebook.cell(1)
    expect(footer(cell)).to_be_visible()
    expect(cell).to_contain_text("waiting for")
    notebook.screenshot(f"stop-{version}")
    footer(cell).click()
    notebook.wait_until_run(1)
    expect(cell).to_contain_text("Stopped: the agent was told to end.")
    expect(cell.locator(".indus-usage")).not_to_contain_text("stopped")  # it is said once
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("next")


def test_an_interrupt_ends_the_run_and_its_dialog(lab: Lab, page: Page, api: MessagesApi, version: str) -> None:
    notebook = opened(lab, page, api, version, ASK + "make a file", "print('next')")
    api.add(Reply("I will.", ToolUse("bash", {"command": "touch interrupted"})))
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.get_by_role("dialog")).to_contain_text("touch interrupted")
    notebook.interrupt()
    notebook.wait_until_run(1)
    expect(cell.get_by_role("dialog")).to_have_count(0)
    expect(cell.locator(".indus-answer")).to_contain_text("I will.")
    expect(cell).to_contain_text("Interrupted: the agent was stopped.")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("next")
    assert not (lab.folder / "interrupted").exists()


def test_a_page_that_is_loaded_again_shows_the_dialog_and_can_answer_it(
    lab: Lab, page: Page, api: MessagesApi, version: str
) -> None:
    notebook = opened(lab, page, api, version, ASK + "make a file", "print('next')")
    held = Gate()
    api.add(Reply(ToolUse("bash", {"command": f"touch reloaded-{version}"})), Reply(Text("It is ", held, "there.")))
    notebook.run(1)
    expect(notebook.cell(1).get_by_role("dialog")).to_contain_text("touch reloaded")
    notebook.save()
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    cell = notebook.cell(1)
    expect(cell.get_by_role("dialog")).to_contain_text(f"touch reloaded-{version}")
    cell.get_by_role("button", name="Yes", exact=True).click()
    expect(cell.locator(".indus-answer")).to_contain_text("It is")
    assert (lab.folder / f"reloaded-{version}").exists()
    held.open()
    expect(cell.locator(".indus-answer")).to_contain_text("It is there.")
    expect(cell.locator(".indus-usage")).to_be_visible()
    notebook.screenshot(f"reloaded-{version}")
    expect(footer(cell)).to_have_count(0)


def test_a_steering_message_from_another_cell_joins_a_run_in_the_background(
    lab: Lab, page: Page, api: MessagesApi, version: str
) -> None:
    notebook = opened(
        lab, page, api, version, ASK + "--no-wait count to three", "%agent steer and then to four", "6 * 7"
    )
    held = Gate()
    api.add(Reply(Text("One, ", held, "two, three.")), Reply("Four."))
    notebook.run(1)
    notebook.wait_until_run(1)
    cell = notebook.cell(1)
    expect(cell.locator(".indus-answer")).to_contain_text("One,")
    notebook.run(2)
    notebook.wait_until_run(2)
    notebook.run(3)
    expect(notebook.cell(3)).to_contain_text("42")
    held.open()
    expect(cell.locator(".indus-answer").last).to_contain_text("Four.")
    expect(cell.locator(".indus-usage")).to_be_visible()
    notebook.screenshot(f"steered-{version}")


def test_what_running_code_prints_shows_at_once_and_stop_ends_it(
    lab: Lab, page: Page, api: MessagesApi, version: str
) -> None:
    notebook = opened(lab, page, api, version, ASK + "--approve never wait", "print('next')")
    api.add(Reply(ToolUse("python", {"code": "print('begun', flush=True)\ntime.sleep(60)"})))
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.locator(".indus-call")).to_contain_text("begun")
    if version.startswith("7"):
        footer(cell).click()
    else:
        notebook.interrupt()  # messages are not taken while code of the model's runs in the main thread
    notebook.wait_until_run(1)
    ended = re.compile(r"begun\s+The (run was aborted: the code was interrupted|code was interrupted by the user)\.")
    expect(cell.locator(".indus-call").first).to_contain_text(ended)
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("next")
