"""What a question looks like in a real JupyterLab, how it is answered, and what its answers lead to."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jupyterlab_page import Lab, Notebook
from messages_api import Gate, MessagesApi, Reply, ToolUse
from playwright.sync_api import Locator, Page, expect

KEEPS_PAGE = True
NEW = "%agent --new --approve writes --model anthropic/claude-sonnet-4-5 --thinking off "
ALWAYS = "Yes, and always …"
ASKS = "● asks \u2013 "
LONG = "\n".join(f"value_{number} = {number}  # a line" for number in range(93))
KEYS_COUNT_AFTER_MS = 600
"""A question that took the focus takes no key before that."""


@pytest.fixture(autouse=True)
def fresh(lab: Lab, api: MessagesApi) -> Iterator[None]:
    yield
    api.clear()
    lab.shut_down_kernels()


def opened(lab: Lab, page: Page, name: str, *cells: str) -> Notebook:
    """A notebook whose first cell was run."""
    lab.write(name, "%load_ext indus_nb\nx = 1\nsales = [1, 2]\nsource = (number for number in range(9))", *cells)
    notebook = lab.open(page, name)
    notebook.run(0)
    notebook.wait_until_run(0)
    return notebook


def asked(notebook: Notebook, number: int = 1) -> Locator:
    """The question that a cell asks when it is run."""
    notebook.run(number)
    return waiting(notebook, number)


def waiting(notebook: Notebook, number: int = 1) -> Locator:
    dialog = notebook.cell(number).get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def button(dialog: Locator, name: str) -> Locator:
    """A button that takes answers."""
    found = dialog.get_by_role("button", name=name, exact=True)
    expect(found).to_be_enabled()
    return found


def python(*codes: str) -> list[Reply]:
    """Answers of a model that runs code, a call at a time."""
    return [*(Reply(ToolUse("python", {"code": code})) for code in codes), Reply("I see.")]


def writing(*paths: str) -> list[Reply]:
    """Answers of a model that writes files, a call at a time."""
    return [*(Reply(ToolUse("write", {"path": path, "content": "x"})) for path in paths), Reply("I see.")]


def last_result(api: MessagesApi) -> str:
    return str(api.requests[-1].body["messages"][-1])


def box(locator: Locator) -> dict[str, Any]:
    found = locator.bounding_box()
    assert found is not None
    return {**found, "bottom": found["y"] + found["height"]}


def test_the_question_names_the_effects_and_code_preview_and_one_row_of_answers_stand_below(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    api.add(*python("sales = sales[:1]\ndel x\nprint('done')"))
    notebook = opened(lab, page, "warning.ipynb", NEW + "tidy up")
    dialog = asked(notebook)
    heading = dialog.locator(".ia-heading")
    expect(heading).to_have_text("This deletes x and changes sales 2 → 1 items. Run this code in your kernel?")
    body, preview = dialog.locator(".ia-body"), dialog.locator(".ia-outcome")
    expect(body).not_to_contain_text("deletes")
    expect(preview).to_contain_text("Preview — not run yet: changes sales 2 → 1 items; deletes x; prints done")
    card = notebook.cell(1).locator(".indus-call")
    expect(card).to_contain_text("preview, not run yet")
    expect(card.locator("pre")).to_have_count(0)  # the question shows code and output
    assert body.locator("span[style]").count() >= 1, "the code is not coloured"
    button(dialog, "Yes")
    answers = [box(answer) for answer in dialog.locator(".ia-options").first.get_by_role("button").all()]
    parts = [box(part) for part in (heading, body, preview)] + answers[:1]
    assert all(above["bottom"] <= below["y"] for above, below in itertools.pairwise(parts))
    assert len({(each["y"], each["height"]) for each in answers}) == 1, "the answers stand in one row"
    expect(page).to_have_title(re.compile(re.escape(ASKS)))  # JupyterLab writes it anew now and then
    notebook.screenshot("question-warning")
    notebook.use_theme("JupyterLab Dark")
    notebook.screenshot("question-warning-dark")
    notebook.use_theme("JupyterLab Light")
    button(dialog, "No").click()
    notebook.wait_until_run(1)
    expect(dialog).to_have_count(0)
    assert not page.title().startswith(ASKS)


def test_a_no_may_say_why_and_the_model_reads_it(lab: Lab, page: Page, api: MessagesApi) -> None:
    api.add(*python("del x"))
    notebook = opened(lab, page, "reason.ipynb", NEW + "tidy up")
    dialog = asked(notebook)
    button(dialog, "No, because …").click()
    reason = dialog.get_by_label("Why not?")
    expect(reason).to_be_focused()
    reason.fill("x is needed below")
    notebook.screenshot("question-reason")
    reason.press("Enter")
    notebook.wait_until_run(1)
    assert "They said: x is needed below" in last_result(api)


@pytest.mark.parametrize(
    ("keys", "runs"), [("y", True), ("Enter", True), ("1", True), ("n", False), ("3", False), ("22", True)]
)
def test_a_key_answers(lab: Lab, page: Page, api: MessagesApi, keys: str, *, runs: bool) -> None:
    api.add(*writing("keys/seen.txt"))
    notebook = opened(lab, page, "keys.ipynb", NEW + "write it")
    dialog = asked(notebook)
    expect(dialog).to_be_focused()
    page.wait_for_timeout(KEYS_COUNT_AFTER_MS)
    for key in [keys] if keys == "Enter" else keys:  # the first 2 only shows what it allows
        page.keyboard.press(key)
    notebook.wait_until_run(1)
    assert ("Wrote" if runs else "did not allow") in last_result(api)


def test_what_cannot_be_taken_back_needs_a_key_of_its_own(lab: Lab, page: Page, api: MessagesApi) -> None:
    file = lab.folder / "kept.txt"
    file.touch()
    command = Reply(ToolUse("bash", {"command": "rm kept.txt"}))
    api.add(command, Reply("Kept."), command, Reply("Gone."))
    for key, is_kept in (("Enter", True), ("1", False)):
        notebook = opened(lab, page, f"deletes-{key}.ipynb", NEW + "tidy up")
        dialog = asked(notebook)
        expect(dialog).to_contain_text("This deletes kept.txt.")
        expect(dialog).to_be_focused()
        expect(dialog.locator(".ia-default")).to_have_text("No2")
        notebook.screenshot("question-deletes")
        page.wait_for_timeout(KEYS_COUNT_AFTER_MS)
        page.keyboard.press(key)
        notebook.wait_until_run(1)
        assert file.exists() is is_kept


NOTE_FOCUS = """() => {
    window.hadFocus = [];
    new MutationObserver((changes) => {
        for (const node of changes.flatMap(({addedNodes}) => [...addedNodes]))
            if (node instanceof Element && node.matches('.ia-dialog')) window.hadFocus.push(node.matches(':focus'));
    }).observe(document.body, {childList: true, subtree: true});
}"""


STOP_CLOCK = "() => { window.clock ??= Date.now; const now = window.clock(); Date.now = () => now; }"
START_CLOCK = "() => { Date.now = window.clock; }"
"""So that a key comes at once, however slow the machine is."""


def test_questions_in_a_row_are_answered_by_keys_and_one_that_came_too_early_says_so(
    lab: Lab, own_page: Page, api: MessagesApi
) -> None:
    api.add(*python(*(f"seen_{number} = 'it ran'" for number in range(4))))
    notebook = opened(lab, own_page, "quick.ipynb", NEW + "set them")
    own_page.evaluate(NOTE_FOCUS)
    notebook.cell(1).locator(".jp-InputPrompt").click()  # in command mode a key would be a command
    own_page.evaluate(STOP_CLOCK)
    own_page.keyboard.press("Control+Enter")
    early = notebook.cell(1).locator(".ia-early")
    for number in range(4):
        body = notebook.cell(1).locator(".ia-body", has_text=f"seen_{number}")
        expect(body).to_be_visible()
        own_page.keyboard.press("1")  # at once
        expect(early).to_contain_text("press it again")
        notebook.screenshot("question-early")
        own_page.evaluate(START_CLOCK)
        own_page.keyboard.press("1")
        own_page.evaluate(STOP_CLOCK)
        expect(body).to_have_count(0)
        own_page.keyboard.press("x")  # between two questions, where it would cut the cell
    notebook.wait_until_run(1)
    assert own_page.evaluate("window.hadFocus") == [True] * 4, "each takes the focus at once"
    assert "did not allow" not in str(api.requests[-1].body)


def test_what_is_typed_after_the_answer_reaches_the_cell_below(lab: Lab, page: Page, api: MessagesApi) -> None:
    rest = Gate()
    api.add(Reply(ToolUse("python", {"code": "seen = 1"})), Reply(rest, "I see."))
    notebook = opened(lab, page, "typed_on.ipynb", NEW + "set it")
    dialog = asked(notebook)
    expect(dialog).to_be_focused()
    button(dialog, "Yes").click()
    expect(dialog).to_have_count(0)
    page.keyboard.type("total = 1")
    expect(notebook.cell(2).locator(".cm-content")).to_have_text("total = 1")
    rest.open()
    notebook.wait_until_run(1)


def test_a_digit_whose_answer_is_not_offered_gives_none_and_says_so(lab: Lab, page: Page, api: MessagesApi) -> None:
    api.add(*writing("Makefile"))  # which programs run, so that it cannot be allowed for good
    notebook = opened(lab, page, "numbers.ipynb", NEW + "write it")
    dialog = asked(notebook)
    expect(dialog.get_by_role("button", name=ALWAYS)).to_have_count(0)
    expect(dialog).to_be_focused()
    page.wait_for_timeout(KEYS_COUNT_AFTER_MS)
    for key in "349":
        page.keyboard.press(key)
        expect(dialog.locator(".ia-early")).to_have_text("No answer here has that key.")
    expect(dialog).to_be_visible()
    page.keyboard.press("2")
    notebook.wait_until_run(1)
    assert "did not allow" in last_result(api)


def test_what_was_allowed_for_a_directory_is_not_asked_about_again(lab: Lab, page: Page, api: MessagesApi) -> None:
    again = NEW.replace("--new ", "") + "go on"
    notebook = opened(lab, page, "again.ipynb", NEW + "begin", again, again)
    api.add(*writing("again/a.txt", "again/deep/b.txt", "again/Makefile"))
    dialog = asked(notebook)
    button(dialog, ALWAYS).click()
    notebook.screenshot("question-again")
    button(dialog, "always in this session: may write below again/").click()
    expect(dialog.locator(".ia-heading")).to_contain_text("Makefile")
    expect(dialog.get_by_role("button", name=ALWAYS)).to_have_count(0)
    button(dialog, "No").click()
    notebook.wait_until_run(1)
    api.add(*writing("again/c.txt", "other/d.txt"))
    dialog = asked(notebook, 2)
    expect(dialog.locator(".ia-heading")).to_contain_text("d.txt")
    button(dialog, "No").click()
    notebook.wait_until_run(2)


def test_long_code_can_be_shown_as_a_whole_and_is_not_allowed_before_its_end_was_seen(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    api.add(*python(LONG))
    notebook = opened(lab, page, "long.ipynb", NEW + "set values")
    dialog = asked(notebook)
    expect(dialog.locator(".ia-heading")).to_have_text(
        "This adds value_0, adds value_1 and adds value_10. Run this code in your kernel? (93 lines)"
    )
    expect(dialog.locator(".ia-outcome")).to_contain_text("It also adds value_11, adds value_12, ")
    expect(dialog.locator(".ia-caution", has_text="It also")).to_have_count(0)
    expect(dialog.get_by_role("button", name="Yes", exact=True)).to_be_disabled()
    assert dialog.locator(".ia-body").evaluate("node => node.clientHeight / innerHeight") < 0.61
    notebook.screenshot("question-long")
    button(dialog, "Show all of it").click()
    expect(dialog.locator(".ia-rest")).to_be_hidden()
    notebook.screenshot("question-whole")
    expect(dialog.get_by_role("button", name="Yes", exact=True)).to_be_disabled()
    dialog.get_by_role("button", name="Yes", exact=True).scroll_into_view_if_needed()
    button(dialog, "Yes").click()
    notebook.wait_until_run(1)
    assert "did not allow" not in last_result(api)


def test_an_edit_shows_numbered_lines_around_it(lab: Lab, page: Page, api: MessagesApi) -> None:
    (lab.folder / "clean.py").write_text("".join(f"line_{number} = 1\n" for number in range(20)))
    edit = {"path": "clean.py", "edits": [{"oldText": "line_9 = 1", "newText": "line_9 = 2"}]}
    api.add(Reply(ToolUse("edit", edit)), Reply("Done."))
    notebook = opened(lab, page, "edit.ipynb", NEW + "mend it")
    dialog = asked(notebook)
    body = dialog.locator(".ia-body")
    expect(body).to_contain_text(re.compile(r"-10 line_9 = 1\s+\+10 line_9 = 2"))
    expect(body).to_contain_text(" 7 line_6 = 1")
    expect(body).not_to_contain_text("---")
    assert body.locator("span[style*=background]").count() == 2
    notebook.screenshot("question-edit")
    button(dialog, ALWAYS).click()
    expect(dialog.get_by_role("button", name="always in this directory: may write clean.py")).to_be_visible()
    notebook.screenshot("question-rules")
    button(dialog, "No").click()
    notebook.wait_until_run(1)


def test_a_question_takes_the_focus_from_an_empty_editor_but_from_nobody_who_types(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    typing = Gate()
    api.add(*python("seen = 1"), Reply(typing, ToolUse("python", {"code": "seen = 2"})), Reply("I see."))
    notebook = opened(lab, page, "focus.ipynb", NEW + "set it")
    dialog = asked(notebook)  # below which a cell was added, whose editor has the focus
    expect(dialog).to_be_focused()
    page.wait_for_timeout(KEYS_COUNT_AFTER_MS)
    page.keyboard.press("1")
    notebook.wait_until_run(1)
    below = notebook.cell(2).locator(".cm-content")
    expect(below).to_have_text("")
    notebook.run(1)
    below.click()
    page.keyboard.type("a = ")
    typing.open()
    dialog = waiting(notebook)
    for key in ("1", "2", "y"):
        page.keyboard.type(key)
    expect(below).to_have_text("a = 12y")
    expect(dialog).to_be_visible()
    assert not dialog.evaluate("node => node.contains(document.activeElement)")
    button(dialog, "No").click()
    notebook.wait_until_run(1)
    assert "did not allow" in last_result(api)


def test_a_change_of_a_cell_is_asked_about_and_kept_as_a_numbered_difference(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    before = "".join(f"line_{number} = 1\n" for number in range(12)).rstrip()
    notebook = opened(lab, page, "proposal.ipynb", NEW + "mend the cell", before)
    change = {"source": before.replace("line_9 = 1", "line_9 = 2"), "replace": notebook.id_of(2)}
    new = {"source": "total = sum([1, 2])\nprint('the sum is', total)"}
    api.add(Reply(ToolUse("propose_cell", change)), Reply(ToolUse("propose_cell", new)), Reply("Done."))
    notebook.save()  # else the cells are not known by their numbers
    dialog = asked(notebook)
    expect(dialog.locator(".ia-heading")).to_have_text(
        re.compile(r"Change (the 3rd cell|the (2nd )?cell below \[\d+\])\?")
    )
    body = dialog.locator(".ia-body")
    expect(body).to_contain_text(re.compile(r"-10 line_9 = 1\s+\+10 line_9 = 2"))
    expect(body).not_to_contain_text("---")
    notebook.screenshot("question-proposal")
    page.set_viewport_size({"width": 740, "height": 1000})
    expect(body).to_have_css("word-break", "normal")
    page.wait_for_function("""() => {  // else it has a scroll bar
        const output = document.querySelector('.jp-OutputArea-output:has([role=dialog])');
        return output.scrollWidth === output.clientWidth;
    }""")
    button(dialog, "Accept").click()
    expect(dialog.locator(".ia-heading")).to_have_text("Insert this code cell below the one that runs?")
    assert dialog.locator(".ia-body span[style]").count() > 1, "the code is not coloured"
    button(dialog, "Accept").click()
    notebook.wait_until_run(1)
    cards = notebook.cell(1).locator(".indus-call")
    notebook.cell(1).locator(".indus-steps > details > summary").click()
    cards.first.locator("summary").click()
    expect(cards.first).to_contain_text("+10 line_9 = 2")
    expect(cards.first).to_contain_text(re.compile(r"Changed (the 3rd cell|the (2nd )?cell below \[\d+\])"))
    cards.last.locator("summary").click()
    expect(cards.last).to_contain_text("Inserted below")
    expect(cards.last).to_contain_text("the sum is")
    for word in ("source", "The user accepted", "with id"):
        expect(notebook.cell(1).locator(".indus-steps")).not_to_contain_text(word)
    notebook.screenshot("proposal-cards")


def test_a_question_that_nobody_sees_is_notified_of_until_it_is_seen_or_over(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    api.add(*python("seen = 1", "seen = 2"))
    notebook = opened(lab, page, "unseen.ipynb", NEW + "set it", *["'below'\n" * 30] * 3)
    dialog = asked(notebook)
    notice = page.locator(".Toastify__toast")
    page.evaluate("window.jupyterapp.commands.execute('launcher:create')")
    expect(dialog).to_be_hidden()
    expect(notice).to_have_text(re.compile("unseen.ipynb: the agent asks. This adds seen. Run this"))
    notebook.screenshot("question-unseen")
    notice.get_by_role("button", name="Show").click()
    expect(dialog).to_be_in_viewport()
    expect(notice).to_have_count(0)
    expect(dialog).to_be_focused()
    button(dialog, "Yes").click()
    expect(dialog.locator(".ia-body")).to_contain_text("seen = 2")
    page.mouse.move(700, 500)
    page.mouse.wheel(0, 3000)
    expect(dialog).not_to_be_in_viewport()
    expect(notice).to_have_count(1)
    notebook.interrupt()
    expect(notice).to_have_count(0)
    assert not page.title().startswith(ASKS)
