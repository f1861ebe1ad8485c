"""Asking at a cell in a real JupyterLab: the answer is a difference in the cell itself, and is settled there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from jupyterlab_page import Lab, Notebook, keep_screenshot
from messages_api import Gate, HttpError, MessagesApi, Recorded, Reply, Text, ToolUse
from playwright.sync_api import Locator, Page, expect

LAB = {"extension": True, "settings": {}}
KEEPS_PAGE = True

GREETS = "print('This is the area of a square:')"
OLD = f"def area(side):\n    return side * side\n\n\n{GREETS}\narea(2)"
NEW = f"def area(side):\n    return side**2\n\n\n{GREETS}\narea(3)"


@pytest.fixture(autouse=True)
def fresh(lab: Lab, api: MessagesApi) -> Iterator[None]:
    yield
    api.clear()
    lab.shut_down_kernels()


def asked(notebook: Notebook, number: int, instruction: str, keys: str = "Control+k") -> Locator:
    """The box at a cell in which something was asked."""
    notebook.cell(number).locator(".cm-content").click()
    notebook.page.keyboard.press(keys)
    expect(box(notebook).get_by_role("textbox")).to_be_focused()
    notebook.page.keyboard.type(instruction)
    notebook.page.keyboard.press("Enter")
    return box(notebook)


def box(notebook: Notebook) -> Locator:
    return notebook.page.locator(".indus_nb-box")


def button(where: Locator, name: str) -> Locator:
    found = where.get_by_role("button", name=name, exact=True)
    expect(found).to_be_visible()
    return found


def is_gone(asking: Locator) -> None:
    expect(asking).to_have_text([])  # which shows what a box says that is there


def source(notebook: Notebook, number: int) -> str:
    return sources(notebook)[number]


def sources(notebook: Notebook) -> list[str]:
    """What the notebook would be saved with."""
    found: list[str] = notebook.page.evaluate(
        "[...window.jupyterapp.shell.currentWidget.content.widgets].map(cell => cell.model.sharedModel.getSource())"
    )
    return found


def proposing(source: str = NEW, **more: Any) -> Any:
    """An answer of a model that proposes another source of the cell that it was asked at."""

    def answer(request: Recorded) -> Reply:
        cell = re.findall(r"replace=([\w-]+)", str(request.body["messages"]))[-1]
        return Reply(ToolUse("propose_cell", {"replace": cell, "source": source}, **more))

    return answer


def opened(lab: Lab, page: Page, name: str, *cells: str) -> Notebook:
    lab.write(name, *cells)
    return lab.open(page, name)


def test_a_change_streams_into_the_cell_and_is_there_once_it_is_accepted(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "change.ipynb", OLD)
    half = Gate()
    api.add(proposing(hold=("\\n\\n\\nprint", half)))
    asking = asked(notebook, 0, "square it, and show three")
    half.reached.wait(60)
    cell = notebook.cell(0)
    expect(cell.locator(".cm-content .indus_nb-inserted")).to_have_text("    return side**2")
    expect(cell.locator(".cm-line.indus_nb-removed")).to_have_count(0)
    assert sources(notebook) == [OLD], "a draft is no part of the notebook"
    half.open()
    accept = button(asking, "Accept")
    expect(accept).to_be_focused()
    expect(cell.locator(".cm-line.indus_nb-removed")).to_have_text(["    return side * side", "area(2)"])
    expect(cell.locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
    assert sources(notebook) == [OLD], "what is proposed is no part of the notebook"
    page.keyboard.press("Enter")
    is_gone(asking)
    assert sources(notebook) == [NEW]
    expect(cell.locator(".indus_nb-inserted, .indus_nb-removed")).to_have_count(0)
    told = api.requests[-1].texts
    assert any("square it, and show three" in text for text in told)
    assert any("return side * side" in text for text in told), "the model is told what the cell is"
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+z")
    expect(cell.locator(".cm-content")).to_contain_text("side * side")
    assert sources(notebook) == [OLD], "one undo takes it back"


def test_a_rejected_change_leaves_the_cell_as_it_was_and_a_reason_brings_another(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "reject.ipynb", OLD)
    api.add(proposing("area(1)"), proposing())
    asking = asked(notebook, 0, "shorter")
    button(asking, "Ask again").click()
    expect(asking.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("keep the function")
    page.keyboard.press("Enter")
    expect(notebook.cell(0).locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
    assert "keep the function" in str(api.requests[-1].texts)
    requests = len(api.requests)
    page.keyboard.press("Escape")
    is_gone(asking)
    assert sources(notebook) == [OLD]
    expect(notebook.cell(0).locator(".indus_nb-inserted, .indus_nb-removed")).to_have_count(0)
    assert len(api.requests) == requests, "the model is not asked for more words"


def test_what_is_proposed_goes_along_with_a_cell_that_is_moved(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, "moved.ipynb", OLD, "'below'")
    half = Gate()
    api.add(proposing(hold=("\\n\\n\\nprint", half)))
    asked(notebook, 0, "square it, and show three")
    half.reached.wait(60)
    expect(notebook.cell(0).locator(".cm-content .indus_nb-inserted")).to_have_text("    return side**2")
    move = "down => window.jupyterapp.commands.execute(`notebook:move-cell-${down ? 'down' : 'up'}`)"
    page.evaluate(move, True)
    half.open()
    moved = notebook.cell(1)
    expect(moved.locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
    page.evaluate(move, False)
    moved = notebook.cell(0)
    expect(moved.locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
    asking = page.locator(".indus_nb-box")
    expect(asking).to_have_count(1)
    assert sources(notebook) == [OLD, "'below'"]
    button(asking, "Accept").click()
    is_gone(asking)
    assert sources(notebook) == [NEW, "'below'"]


def test_a_cell_that_is_not_the_one_asked_at_cannot_be_changed_from_there(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "elsewhere.ipynb", OLD, "\n".join(["x = 1"] * 150), "far = 1")
    half, words = Gate(), Gate()
    api.add(
        Reply(ToolUse("propose_cell", {"source": NEW, "replace": notebook.id_of(2)}, hold=("\\n\\n\\nprint", half))),
        Reply(Text("The last cell ", words, "must change.")),
    )
    asking = asked(notebook, 0, "make it far")
    half.reached.wait(60)
    expect(notebook.cell(0).locator(".indus_nb-inserted")).to_have_text("    return side**2")
    half.open()
    words.reached.wait(60)
    expect(page.locator(".indus_nb-inserted, .indus_nb-removed")).to_have_count(0)
    words.open()
    expect(asking).to_contain_text("The last cell must change.")
    expect(asking.get_by_role("button", name="Accept")).to_have_count(0)
    assert sources(notebook) == [OLD, "\n".join(["x = 1"] * 150), "far = 1"]


@pytest.mark.parametrize("place", ["the box", "the cell"])
def test_after_an_answer_in_words_the_next_question_is_written_in_the_box(
    lab: Lab, page: Page, api: MessagesApi, place: str
) -> None:
    notebook = opened(lab, page, "words.ipynb", OLD, "other = 1")
    api.add("It is an area.", "It is two dimensional.")
    asking = asked(notebook, 0, "what is it?")
    expect(asking).to_contain_text("It is an area.")
    if place == "the cell":
        notebook.cell(0).locator(".jp-InputPrompt").click()
    page.keyboard.press("Control+k")
    expect(asking.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("draw a bar, then x rays or y dd")
    expect(asking.get_by_role("textbox")).to_have_value("draw a bar, then x rays or y dd")
    expect(asking).to_contain_text("It is an area.")
    page.keyboard.press("Enter")
    expect(asking).to_contain_text("It is two dimensional.")
    assert "draw a bar, then x rays or y dd" in str(api.requests[-1].texts)
    assert sources(notebook) == [OLD, "other = 1"]


def test_the_key_that_asks_opens_the_field_also_where_an_answer_has_the_focus(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "again.ipynb", OLD, "other = 1")
    api.add(proposing("area(1)"), proposing())
    asking = asked(notebook, 0, "shorter")
    expect(button(asking, "Accept")).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("keep the function, add x")
    page.keyboard.press("Enter")
    expect(notebook.cell(0).locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
    assert "keep the function, add x" in str(api.requests[-1].texts)
    assert sources(notebook) == [OLD, "other = 1"]


def test_who_types_while_the_box_waits_neither_ends_the_request_nor_changes_the_notebook(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "waits.ipynb", OLD, "other = 1")
    half = Gate()
    api.add(Reply(Text("It is ", half, "an area.")))
    asking = asked(notebook, 0, "what is it?")
    half.reached.wait(60)
    page.keyboard.press("Control+k")
    page.keyboard.type("a b x dd r y m")
    half.open()
    expect(asking).to_contain_text("It is an area.")
    expect(asking.get_by_role("textbox")).to_be_focused()
    page.keyboard.press("Escape")
    is_gone(asking)
    assert sources(notebook) == [OLD, "other = 1"]
    types = "[...window.jupyterapp.shell.currentWidget.content.widgets].map(cell => cell.model.type)"
    assert page.evaluate(types) == ["code", "code"]


@pytest.mark.parametrize("mode", ["edit", "command"])
@pytest.mark.parametrize("by", ["mouse", "Enter", "Space"])
def test_who_presses_the_button_of_a_cell_writes_in_the_box_and_not_commands(
    lab: Lab, page: Page, mode: str, by: str
) -> None:
    notebook = opened(lab, page, "pressed.ipynb", OLD, "other = 1")
    notebook.cell(0).locator(".cm-content").click()
    if mode == "command":
        page.keyboard.press("Escape")
    ask = notebook.cell(0).get_by_role("button", name="Ask the agent at this cell")
    field = box(notebook).get_by_role("textbox")
    for text in ("a b dd m x y", "a b dd m x y, once more"):
        if by == "mouse":
            ask.click()
        else:
            ask.press(by)
        expect(field).to_be_visible()
        page.keyboard.type(text.removeprefix(field.input_value()))
        expect(field).to_have_value(text)
        expect(field).to_be_focused()
    assert sources(notebook) == [OLD, "other = 1"]


def test_who_types_while_the_answer_streams_keeps_what_he_typed_and_ends_it(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "typing.ipynb", OLD)
    half = Gate()
    api.add(proposing(hold=("\\n\\n\\nprint", half)))
    asking = asked(notebook, 0, "square it")
    cell = notebook.cell(0)
    expect(cell.locator(".indus_nb-inserted")).to_have_count(1)
    cell.locator(".cm-line").last.click()
    page.keyboard.press("End")
    page.keyboard.type("  # mine")
    expect(asking).to_contain_text("The cell was changed meanwhile")
    expect(cell.locator(".indus_nb-inserted")).to_have_count(0)
    assert api.requests[-1].disconnected.wait(60), "the model is not asked any longer"
    assert sources(notebook) == [f"{OLD}  # mine"]
    expect(cell.locator(".cm-content")).to_be_focused()


def test_a_change_is_accepted_and_run_by_key_from_the_editor(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, "run.ipynb", OLD)
    api.add(proposing())
    asking = asked(notebook, 0, "three")
    button(asking, "Accept and run")
    notebook.cell(0).locator(".cm-content").click()
    page.keyboard.press("Alt+Shift+Y")
    expect(notebook.cell(0).locator(".jp-OutputArea")).to_contain_text("9")
    is_gone(asking)
    assert sources(notebook) == [NEW]


@pytest.mark.parametrize(
    ("keys", "left", "number"),
    [
        *[("Alt+y", NEW, r"\[ \]:"), ("Alt+Shift+Y", NEW, r"\[\d+\]:"), ("Alt+n", OLD, r"\[ \]:")],
        *[("1", NEW, r"\[ \]:"), ("2", OLD, r"\[ \]:"), ("3", NEW, r"\[\d+\]:")],
    ],
)
def test_the_keys_of_the_answers_work_from_the_box_which_has_the_focus(
    lab: Lab, page: Page, api: MessagesApi, keys: str, left: str, number: str
) -> None:
    notebook = opened(lab, page, "keys.ipynb", OLD)
    api.add(proposing())
    asking = asked(notebook, 0, "three")
    button(asking, "Accept and run")
    expect(button(asking, "Accept")).to_be_focused()
    page.keyboard.press("y")
    expect(button(asking, "Accept")).to_be_focused()
    page.keyboard.press(keys)
    is_gone(asking)
    assert sources(notebook) == [left]
    expect(notebook.cell(0).locator(".jp-InputPrompt")).to_have_text(re.compile(number))


def test_the_buttons_show_their_keys_which_are_text_in_the_field(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, "shown_keys.ipynb", OLD)
    api.add(proposing())
    asking = asked(notebook, 0, "three")
    expect(asking.locator(".indus_nb-box-key")).to_have_text(["(1)", "(2)", "(3)"])
    keep_screenshot(page, "box-keys")
    button(asking, "Ask again").click()
    page.keyboard.type("123")
    expect(asking.get_by_role("textbox")).to_have_value("123")
    page.keyboard.press("Escape")
    button(asking, "Accept and run").focus()
    page.keyboard.press("2")
    is_gone(asking)
    assert sources(notebook) == [OLD]


def test_a_cell_that_is_accepted_and_run_comes_into_sight_and_leaves_the_focus_where_it_is(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "sight.ipynb", OLD, "\n".join(["x = 1"] * 150), "'here'")
    api.add(proposing())
    button(asked(notebook, 0, "three"), "Accept and run")
    last = notebook.cell(2)
    last.scroll_into_view_if_needed()
    last.locator(".cm-content").click()
    expect(notebook.cell(0)).not_to_be_in_viewport()
    page.keyboard.press("Alt+Shift+Y")
    expect(notebook.cell(0).locator(".jp-OutputArea")).to_contain_text("9")
    expect(notebook.cell(0)).to_be_in_viewport()
    expect(last.locator(".cm-content")).to_be_focused()


def test_new_cells_stand_below_as_one_group_until_all_are_accepted(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, "new.ipynb", "x = 1", "y = 2")
    cells = [{"source": "x + 1"}, {"source": "## What it <b>is</b>", "cell_type": "markdown"}]
    api.add(Reply(ToolUse("propose_cell", {"cells": cells})))
    asking = asked(notebook, 0, "what comes next?", keys="Control+Alt+k")
    accept = button(asking, "Accept all")
    expect(page.locator(".indus_nb-ghost")).to_have_text(["x + 1", "## What it <b>is</b>"])
    assert sources(notebook) == ["x = 1", "y = 2"]
    accept.click()
    is_gone(asking)
    expect(page.locator(".indus_nb-ghost")).to_have_count(0)
    assert sources(notebook) == ["x = 1", "x + 1", "## What it <b>is</b>", "y = 2"]
    notebook.cell(0).locator(".jp-InputPrompt").click()
    page.keyboard.press("z")
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(2)
    assert sources(notebook) == ["x = 1", "y = 2"]


def test_cells_that_several_calls_propose_below_one_stand_and_are_shown_in_their_order(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "chain.ipynb", "x = 1", "y = 2")
    chain = ["one = x", "two = one + 1", "three = two + 1"]
    below = {"after": notebook.id_of(0)}
    first, *others = ({"source": source, **below} for source in chain)
    api.add(Reply(ToolUse("propose_cell", first), ToolUse("propose_cell", {"cells": others})))
    asking = asked(notebook, 0, "in steps", keys="Control+Alt+k")
    expect(notebook.cell(0).locator(".indus_nb-ghost")).to_have_text(chain[:1])
    button(asking, "Accept").click()
    expect(notebook.cell(1).locator(".indus_nb-ghost")).to_have_text(chain[1:])
    button(asking, "Accept all").click()
    is_gone(asking)
    assert sources(notebook) == ["x = 1", *chain, "y = 2"]


def test_after_a_reload_the_cell_is_as_it_was_and_the_question_is_there_again(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "reload.ipynb", OLD)
    api.add(proposing())
    expect(button(asked(notebook, 0, "square it"), "Accept")).to_be_focused()
    notebook.save()
    assert nbformat.read(lab.folder / "reload.ipynb", 4).cells[0].source == OLD
    notebook = lab.open(page, "reload.ipynb")
    assert sources(notebook) == [OLD]
    expect(notebook.cell(0).locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
    button(box(notebook), "Accept").click()
    expect(notebook.cell(0).locator(".cm-content")).to_contain_text("side**2")
    assert sources(notebook) == [NEW]


def test_what_a_cell_of_the_agent_proposes_is_shown_in_its_place_and_answered_once(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "agent.ipynb", OLD, "%agent improve the first cell", "z = 1")
    api.add("Hello.")
    expect(asked(notebook, 2, "hello")).to_contain_text("Hello.")
    page.keyboard.press("Escape")
    for where in ("in place", "in the dialog"):
        api.add(Reply(ToolUse("propose_cell", {"replace": notebook.id_of(0), "source": NEW})), "I see.")
        notebook.run(1)
        dialog = notebook.cell(1).get_by_role("dialog")
        expect(dialog).to_be_visible()
        reject = button(box(notebook), "No")
        expect(notebook.cell(0).locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
        expect(dialog).to_contain_text(re.compile(r"Change (the 1st cell|cell \[1\])\?"))
        expect(dialog.get_by_role("group", name="Details")).to_be_hidden()
        way = dialog.get_by_role("button", name="in the notebook, where you see it")
        expect(dialog.get_by_role("button", name="Accept", exact=True)).to_be_enabled()
        if where == "in place":
            way.click()
            expect(button(box(notebook), "Accept")).to_be_focused()
            reject.click()
        else:
            dialog.get_by_role("button", name="No", exact=True).click()
        expect(box(notebook)).to_have_count(0)
        expect(dialog).to_have_count(0)
        expect(notebook.cell(1).locator(".jp-OutputArea")).to_contain_text("I see.")
        assert sources(notebook)[0] == OLD


def test_no_yes_is_taken_before_the_end_of_what_is_proposed_was_in_sight(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "low.ipynb", "%agent write two cells")
    cells = [{"source": "\n".join(f"row_{number} = {number}" for number in range(60))}, {"source": "last = 1"}]
    api.add(Reply(ToolUse("propose_cell", {"cells": cells})), "I see.")
    notebook.run(0)
    proposed = notebook.cell(0).locator(".indus_nb-inserted").last
    expect(proposed).to_have_text("last = 1")
    expect(proposed).not_to_be_in_viewport()
    dialog = notebook.cell(0).get_by_role("dialog")
    yes = dialog.get_by_role("button", name="Accept all")
    expect(yes).to_be_disabled()
    expect(yes).to_have_attribute("title", "Scroll to the end of what is asked first")
    expect(dialog.locator(".ia-in-place")).to_contain_text("scroll to its end there before you accept it")
    button(box(notebook), "Accept all").click()
    expect(box(notebook)).to_contain_text("Not all of it was in sight yet: look, and answer once more.")
    expect(proposed).to_be_in_viewport()
    expect(yes).to_be_enabled()
    expect(yes).not_to_have_attribute("title", re.compile("Scroll"))
    assert "last = 1" not in sources(notebook)
    page.keyboard.press("Alt+y")
    expect(notebook.cell(2).locator(".cm-content")).to_have_text("last = 1")


FILLED = "\n".join(f"row_{number} = {number}" for number in range(60))
THIRTY_FRAMES = """async () => {
    for (let frame = 0; frame < 30; frame += 1) await new Promise(requestAnimationFrame);
}"""


@pytest.mark.parametrize("then", ["reads the end", "reads further up", "types"])
def test_what_a_cell_at_the_end_proposes_comes_into_sight_for_who_reads_its_end(
    lab: Lab, page: Page, api: MessagesApi, then: str
) -> None:
    notebook = opened(lab, page, "fills.ipynb", FILLED, "%agent write two cells")
    cells = [{"source": "first = 1\n" * 5}, {"source": "last = 1"}]
    held = Gate()
    text = "".join(f"Line {number} of the answer.\n\n" for number in range(5))
    api.add(Reply(Text(text, held, "So."), ToolUse("propose_cell", {"cells": cells})), "I see.")
    notebook.cell(1).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")  # no cell below it gets the focus
    asking = notebook.cell(1)
    expect(asking).to_contain_text("Line 4")
    expect(asking.get_by_role("button", name="Stop")).to_be_in_viewport()
    if then == "reads further up":
        asking.hover()
        page.mouse.wheel(0, -400)
        expect(asking.get_by_role("button", name="Stop")).not_to_be_in_viewport()
    elif then == "types":
        asking.locator(".cm-content").click()
        page.keyboard.type("#")
    held.open()
    dialog, proposed = asking.get_by_role("dialog"), asking.locator(".indus_nb-inserted").last
    expect(proposed).to_have_text("last = 1")
    if then == "reads the end":
        expect(dialog.get_by_role("button", name="Accept all")).to_be_enabled()
        expect(proposed).to_be_in_viewport(ratio=1)
        expect(box(notebook)).to_be_in_viewport(ratio=1)
        notebook.screenshot("proposed-at-the-end")
    else:
        expect(dialog.locator(".ia-in-place")).to_contain_text("scroll to its end there")
        page.evaluate(THIRTY_FRAMES)  # in which it would have scrolled
        expect(proposed).not_to_be_in_viewport()
    dialog.get_by_role("button", name="No", exact=True).click()
    notebook.wait_until_run(1)


SCROLLED = "document.querySelector('.jp-WindowedPanel-outer').scrollTop"


@pytest.mark.parametrize("scrolls", [False, True])
def test_new_cells_below_a_long_output_come_into_sight_for_who_has_not_scrolled_since_asking(
    lab: Lab, page: Page, api: MessagesApi, scrolls: bool
) -> None:
    notebook = opened(lab, page, f"traceback-{scrolls}.ipynb", "for line in range(60): print(line)")
    notebook.run(0)
    notebook.wait_until_run(0)
    held = Gate()
    cells = [{"source": "\n".join(f"row_{number} = {number}" for number in range(5))}]
    api.add(Reply(Text("Let me see ", held, "it."), ToolUse("propose_cell", {"cells": cells})))
    asking = asked(notebook, 0, "what comes next?", keys="Control+Alt+k")
    held.reached.wait(60)
    if scrolls:
        before = page.evaluate(SCROLLED)
        asking.hover()
        page.mouse.wheel(0, -60)
        page.wait_for_function(f"before => {SCROLLED} < before", arg=before)
    held.open()
    accept, end = button(asking, "Accept"), page.locator(".indus_nb-ghosts > div").last
    expect(page.locator(".indus_nb-ghost")).to_contain_text("row_4 = 4")
    if scrolls:
        at = page.evaluate(SCROLLED)
        page.evaluate(THIRTY_FRAMES)  # in which it would have scrolled
        assert page.evaluate(SCROLLED) == at
        return
    expect(page.locator(".indus_nb-ghost")).to_be_in_viewport(ratio=1)
    expect(asking).to_be_in_viewport(ratio=1)
    expect(accept).to_be_focused()
    assert end.evaluate("node => node.getBoundingClientRect().bottom < innerHeight")
    notebook.screenshot("proposed-below-a-long-output")
    page.keyboard.press("Alt+y")
    is_gone(asking)
    assert "row_4 = 4" in source(notebook, 1)


FOLLOW_UNTIL_YES = """() => {
    const dialog = document.querySelector('.ia-dialog');
    const isTaken = !dialog.querySelector('.ia-option:disabled');
    if (!isTaken) dialog.querySelector('.ia-in-place').click();
    return isTaken;
}"""


def test_the_line_in_the_dialog_leads_to_each_end_that_was_not_in_sight_until_a_yes_is_taken(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "ends.ipynb", "x = 1", "y = 2", "%agent change both")
    ends = [{"replace": notebook.id_of(at), "source": "z = 1\n" * 60 + f"end = {at}"} for at in (0, 1)]
    api.add(Reply(ToolUse("propose_cell", {"cells": ends})), "I see.")
    notebook.run(2)
    dialog = notebook.cell(2).get_by_role("dialog")
    way = dialog.locator(".ia-in-place")
    yes = dialog.get_by_role("button", name="Accept all")
    for at in (0, 1):
        expect(notebook.cell(at).locator(".indus_nb-inserted").last).to_contain_text(f"end = {at}")
    expect(way).to_contain_text("scroll to its end there before you accept it")
    expect(yes).to_be_disabled()
    page.wait_for_function(FOLLOW_UNTIL_YES, polling=500)
    expect(yes).to_be_enabled()
    expect(way).to_contain_text("go there")


def test_what_a_running_cell_proposes_is_in_its_place_again_after_a_reload(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    notebook = opened(lab, page, "running.ipynb", OLD, "%agent improve the first cell")
    api.add(Reply(ToolUse("propose_cell", {"replace": notebook.id_of(0), "source": NEW})), "I see.")
    notebook.run(1)
    button(box(notebook), "No")
    notebook.save()
    page.reload()
    reject = button(box(notebook), "No")
    expect(notebook.cell(0).locator(".indus_nb-inserted")).to_have_text(["    return side**2", "area(3)"])
    reject.click()
    expect(notebook.cell(1).locator(".jp-OutputArea")).to_contain_text("I see.")


def test_what_the_agent_asks_on_the_way_is_asked_in_the_box(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, "asks.ipynb", OLD)
    (lab.folder / "mine.txt").write_text("mine", encoding="utf-8")
    api.add(Reply(ToolUse("bash", {"command": "rm mine.txt"})), proposing())
    asking = asked(notebook, 0, "square it")
    expect(asking).to_contain_text("mine.txt")
    button(asking, "No").click()
    button(asking, "Accept")
    assert (lab.folder / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_a_model_that_fails_says_so_in_the_box_and_changes_nothing(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, "fails.ipynb", OLD)
    api.add(HttpError(400, "invalid_request_error", "No credit is left"))
    asking = asked(notebook, 0, "square it")
    expect(asking).to_contain_text("No credit is left")
    expect(asking.get_by_role("textbox")).to_have_value("square it")
    assert sources(notebook) == [OLD]


def test_what_cannot_be_asked_now_stays_in_the_field_with_the_reason(lab: Lab, page: Page, api: MessagesApi) -> None:
    notebook = opened(lab, page, "waits.ipynb", OLD, "other = 1")
    api.add(proposing(), "It is a number.")
    accept = button(asked(notebook, 0, "square it"), "Accept")
    notebook.cell(1).locator(".cm-content").click()
    page.keyboard.press("Control+Alt+k")
    second = box(notebook).last
    field = second.get_by_role("textbox")
    expect(field).to_be_focused()
    page.keyboard.type("a long and careful question")
    page.keyboard.press("Enter")
    expect(second).to_contain_text(
        re.compile(r"waits for your answer to “Change (the 1st cell|cell \[\d+\])\?”\. Answer that, and ask again\.")
    )
    expect(field).to_have_value("a long and careful question")
    expect(field).to_be_focused()
    accept.click()
    expect(box(notebook)).to_have_count(1)
    field.press("Enter")
    expect(box(notebook)).to_contain_text("It is a number.")
    expect(field).to_have_value("")


def test_a_key_answers_the_question_of_the_active_cell_and_of_several_elsewhere_none(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    aside = "%agent --new --name aside --approve writes --thinking off --no-wait write it"
    lookalike = """display({"text/html": "<div class='ia-root'><div class='ia-dialog'>Yes?</div></div>"}, raw=True)"""
    notebook = opened(lab, page, "two.ipynb", OLD, aside, "%agent --new --name main hello", lookalike)
    api.add(Reply(ToolUse("write", {"path": "aside.txt", "content": "x"})))
    notebook.run(1)
    dialog = notebook.cell(1).get_by_role("dialog")
    expect(button(dialog, "Yes")).to_be_enabled()
    api.add("Hello.", proposing())
    notebook.run(2)  # so that the notebook talks to another conversation than the one that asks
    notebook.wait_until_run(2)
    notebook.run(3)
    expect(notebook.cell(3).locator(".jp-OutputArea .ia-dialog")).to_be_visible()
    accept = button(asked(notebook, 0, "three"), "Accept")
    api.add("I see.")
    notice = page.locator(".Toastify__toast")
    notebook.cell(3).locator(".cm-content").click()
    page.keyboard.press("Alt+y")
    expect(notice).to_have_text(
        re.compile(r"Questions wait at the 1st cell and at (cell \[\d+\]|the 2nd cell)\. Select")
    )
    notebook.screenshot("questions-wait")
    expect(accept).to_be_visible()
    expect(dialog).to_be_visible()
    assert source(notebook, 0) == OLD
    notebook.cell(1).locator(".cm-content").click()
    page.keyboard.press("Alt+y")
    expect(dialog).to_have_count(0)
    expect(notebook.cell(1).locator(".jp-OutputArea")).to_contain_text("I see.")
    assert (lab.folder / "aside.txt").read_text(encoding="utf-8") == "x"
    assert source(notebook, 0) == OLD
    expect(accept).to_be_visible()
    notebook.cell(3).locator(".cm-content").click()
    page.keyboard.press("Alt+y")  # the only one that is left
    expect(box(notebook)).to_have_count(0)
    assert source(notebook, 0) == NEW


@pytest.mark.parametrize("saved", [False, True])
def test_the_model_sees_the_figure_that_the_cell_shows(lab: Lab, page: Page, api: MessagesApi, saved: bool) -> None:
    plot = "import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.show()"
    notebook = opened(lab, page, f"figure-{saved}.ipynb", plot)
    notebook.run(0)
    notebook.wait_until_run(0)
    expect(notebook.cell(0).locator(".jp-OutputArea img")).to_be_visible()
    if saved:
        notebook.save()
    api.add("It falls.")
    expect(asked(notebook, 0, "what does it show?")).to_contain_text("It falls.")
    asking = api.requests[-1].body["messages"][-1]["content"]
    assert [block["type"] for block in asking].count("image") == 1
    assert any("--- image/png ---\n[image 1, above]" in text for text in api.requests[-1].texts)
