"""The form for a key in a real JupyterLab: below the first prompt of somebody who has none, and in the panel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from file_keyring import NAME, with_keyring
from jupyterlab_page import Lab
from kernels import private_environment
from messages_api import MessagesApi
from playwright.sync_api import Page, expect

KEY = "test-key-that-only-the-keyring-may-have"


@pytest.fixture
def lab(tmp_path: Path, api: MessagesApi) -> Iterator[Lab]:
    api.keys = {KEY}
    (tmp_path / "work").mkdir()
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, **with_keyring(tmp_path / "passwords.json"))
    with Lab(tmp_path / "work", environment) as lab:
        yield lab


def test_from_the_first_prompt_without_a_key_to_its_answer(
    lab: Lab, page: Page, api: MessagesApi, tmp_path: Path
) -> None:
    lab.write("first.ipynb", "%load_ext indus_nb", "%agent hello", "%agent hello again", "%agent panel")
    notebook = lab.open(page, "first.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run(1)
    form = notebook.cell(1).locator(".ia-key-form")
    expect(form.get_by_label("Provider")).to_have_value("anthropic")
    expect(form.get_by_role("radio", name=f"Keep it in {NAME}")).to_be_checked()
    button = form.get_by_role("button", name="Test and save")
    expect(button).to_be_disabled()
    field = form.get_by_label("API key")
    assert field.get_attribute("type") == "password"
    field.click()
    page.keyboard.type("x dd a-wrong-key")  # letters that delete cells where a front end takes them
    page.keyboard.press("Enter")
    expect(form.get_by_role("alert")).to_contain_text("refuses this key (status 401)")
    expect(field).to_have_value("")
    notebook.run(3)
    panel = notebook.cell(3).locator(".ia-panel")
    in_panel = panel.locator(".ia-key-form")
    expect(in_panel).to_be_visible()
    panel.locator("textarea").fill("hello")
    panel.locator("textarea").press("Enter")
    expect(in_panel.get_by_role("alert")).to_contain_text("Fill in this form, and send it again.")
    expect(panel.locator("textarea")).to_have_value("hello")
    in_panel.get_by_label("API key").click()  # nothing lies over it
    expect(panel.locator(".ia-toast")).to_have_count(0)
    field.click()
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    expect(notebook.cell(1)).to_contain_text("The model is Claude Opus 5.5. A first prompt costs about")
    expect(form).to_have_count(0)
    expect(in_panel).to_be_hidden()
    expect(panel).to_contain_text("for no model was chosen. A first prompt costs about")
    api.add("Here I am.")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("Here I am.")
    notebook.save()
    assert "Here I am." in (lab.folder / "first.ipynb").read_text()
    held = [path.name for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert held == ["passwords.json"]


@pytest.mark.parametrize("by", ["Enter", "mouse"])
def test_who_has_given_a_key_in_the_panel_sends_the_prompt_that_waits_there_with_enter(
    lab: Lab, page: Page, api: MessagesApi, by: str
) -> None:
    lab.write("panel.ipynb", "%load_ext indus_nb\n%agent panel")
    notebook = lab.open(page, "panel.ipynb")
    notebook.run(0)
    panel = notebook.cell(0).locator(".ia-panel")
    form = panel.locator(".ia-key-form")
    expect(form).to_be_visible()
    composer = panel.locator("textarea")
    composer.fill("hello")
    field = form.get_by_label("API key")
    for key in ("a-wrong-key", KEY):
        field.click()
        page.keyboard.type(key)
        if by == "Enter":
            page.keyboard.press("Enter")
        else:
            form.get_by_role("button", name="Test and save").click()
        if key != KEY:
            expect(form.get_by_role("alert")).to_contain_text("refuses this key (status 401)")
            expect(field).to_be_focused()
    expect(form).to_be_hidden()
    expect(composer).to_be_focused()
    api.add("Here I am.")
    page.keyboard.press("Enter")
    expect(panel.locator(".indus-answer")).to_have_text("Here I am.")
