"""Cells that the agent proposed and the user accepted are taken back with what its calls did besides, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from panel_pages import NotebookPage, Wire

OPEN = """\
%agent --new --model anthropic/claude-sonnet-4-5 --thinking off --approve never
%agent panel"""
NEW = {"source": "total = sum(rows)", "after": 2}
CHANGE = {"source": "rows = [1, 2]", "replace": 1}
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("cells")
    (root / "work").mkdir()
    environment = private_environment(
        root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME="book.ipynb"
    )
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb\nfrom pathlib import Path").status == "ok"
        yield kernel


@pytest.fixture
def page(kernel: Kernel, api: MessagesApi) -> Iterator[NotebookPage]:
    api.requests.clear()
    api._answers.clear()
    wire = Wire(kernel)
    kernel.run("rows = [1]; Path('a.txt').write_text('old')")
    cell = kernel.begin(OPEN, asks=True).finish()
    assert cell.status == "ok", cell.error
    bundle = [bundles[-1] for bundles in cell.displays.values()][-1]
    try:
        yield NotebookPage(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
    finally:
        wire.close()


def propose(page: NotebookPage, api: MessagesApi, *calls: ToolUse, said: str = "Done.") -> None:
    """Have the agent make calls, and accept what it proposes."""
    api.add(Reply(*calls), Reply(said))
    page.prompt("go")
    for call in calls:
        if call.name == "propose_cell":
            page.wait_for(lambda: page.dialogs)
            (dialog,) = page.dialogs
            page.tell("answer", id=dialog, value="Accept")
            page.wait_for(lambda answered=dialog: answered not in page.dialogs)
    page.wait_until_idle(said)


def undo(page: NotebookPage, command: str, shown: str) -> None:
    page.prompt(command)
    page.wait_for(lambda: shown in f"{page.text} {page.toasts}")


def decline(page: NotebookPage, command: str, question: str) -> None:
    page.prompt(command)
    page.wait_for(lambda: any(question in str(each.dialog) for each in page.dialogs.values()))
    (asked,) = page.dialogs
    page.tell("answer", id=asked, value="No, change nothing")
    page.wait_for(lambda: not page.dialogs)


def page_number(kernel: Kernel) -> int:
    """The number that the last cell ran with."""
    return int(kernel.run("print(len(In) - 2)").streams)


def state(kernel: Kernel) -> str:
    return kernel.run("print(rows, Path('a.txt').read_text())").streams.strip()


WORK = ToolUse("python", {"code": "rows.append(2); Path('a.txt').write_text('new')"})


def test_accepted_cells_are_taken_back_and_done_once_more(kernel: Kernel, page: NotebookPage, api: MessagesApi) -> None:
    before = dict(page.cells)
    propose(page, api, ToolUse("propose_cell", NEW), ToolUse("propose_cell", CHANGE), WORK)
    after = dict(page.cells)
    assert [*after.values()] == ["rows = [1, 2]", "%agent panel", "total = sum(rows)"]
    assert "the 3rd cell new" in page.text
    assert "the 1st cell edited" in page.text
    assert "Changed in all: the 3rd cell new, the 1st cell edited, rows" in page.text
    undo(page, "/undo prompt", "Taken back: a.txt, rows, the 1st cell, the 3rd cell (removed).")
    assert (page.cells, state(kernel)) == (before, "[1] old")
    undo(page, "/redo 3", "Done once more: a.txt, rows, the 1st cell, the 3rd cell (put back).")
    assert (page.cells, state(kernel)) == (after, "[1, 2] new")
    api.add(Reply("I see."))
    page.prompt("what now?")
    page.wait_until_idle("I see.")
    assert "the 3rd cell (removed)" in str(api.requests[-1].body["messages"])


def test_a_cell_that_the_user_changed_since_is_asked_about(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    propose(page, api, WORK, ToolUse("propose_cell", CHANGE))
    page.cells["load"] = "mine"
    decline(page, "/undo 2", "the 1st cell was changed since")
    assert (page.cells["load"], state(kernel)) == ("mine", "[1, 2] new")
    kernel.run("rows.append(3)")
    decline(page, "/undo 2", "rows, the 1st cell were changed since")
    assert (page.cells["load"], state(kernel)) == ("mine", "[1, 2, 3] new")
    kernel.run("rows.pop()")
    undo(page, "/undo 2 both", "left as the user has it: the 1st cell; new beside it: the 2nd cell")
    assert state(kernel) == "[1] old"
    assert page.cells["load"] == "mine"
    assert "rows = [1]" in page.cells.values()


def test_a_listed_cell_has_the_number_that_it_ran_with_last(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    kernel.run("rows = [1]", cell_id="load")
    page.in_brackets["load"] = number = page_number(kernel)
    propose(page, api, ToolUse("propose_cell", CHANGE), ToolUse("propose_cell", {**NEW, "after": 1}))
    undo(page, "/undo list", f"the cell below [{number}] new")
    assert f"cell [{number}] edited" in page.text
    kernel.run("rows = [1, 2]", cell_id="load")
    page.in_brackets["load"] = number = page_number(kernel)
    undo(page, "/undo list", f"cell [{number}] edited")
    assert re.search(rf"first N\.1\d\d:\d\d:\d\dthe cell below \[{number}\] new2", page.text)


def test_the_list_says_which_cells_the_user_has_removed_since(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    propose(page, api, ToolUse("propose_cell", NEW), ToolUse("propose_cell", CHANGE))
    page.cells.popitem()
    undo(page, "/undo list", "the 3rd cell new (removed since)")
    assert re.search(r"the 1st cell edited(?! \(removed)", page.text)
    cell = kernel.begin("%agent undo list", asks=True, cell_id="lists")
    page.wait_for(lambda: cell.message_id in page.wire.ended)
    assert cell.finish().status == "ok", cell.error
    assert "the 3rd cell new (removed since)" in str(cell.shown)


def test_a_cell_that_shows_the_output_of_the_code_that_was_taken_back_is_named(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    page.cells["load"] = "rows = [1]; rows"
    propose(page, api, ToolUse("propose_cell", {"source": "rows = [1, 2]; rows", "replace": 1}))
    page.outputs["load"] = [{"output_type": "stream", "name": "stdout", "text": "[1, 2]"}]
    undo(page, "/undo", "Taken back: the 1st cell. /redo")  # it was accepted, and has not run
    undo(page, "/redo", "Done once more: the 1st cell. /undo")
    kernel.run("rows = [1, 2]; rows", cell_id="load")
    page.in_brackets["load"] = number = page_number(kernel)
    name = f"cell [{number}]"
    shows = f"{name} still shows the output of code that is replaced: run it again."
    undo(page, "/undo", f"Taken back: {name}; {shows}")
    undo(page, "/redo", f"Done once more: {name}. /undo")
    page.outputs.clear()
    undo(page, "/undo", f"Taken back: {name}. /redo")


def restarted(kernel: Kernel, page: NotebookPage, like: int) -> NotebookPage:
    """Restart the kernel, run other cells with its numbers anew, and go on in a panel of the same notebook."""
    kernel.restart()
    assert kernel.run("%load_ext indus_nb\nfrom pathlib import Path\nrows = [1, 2]").status == "ok"
    assert kernel.begin("%agent --continue", asks=True).finish().status == "ok"
    for each in range(like):
        kernel.run("1", cell_id=f"cell {each}")
    cell = kernel.begin("%agent panel", asks=True).finish()
    (bundle,) = (bundles[-1] for bundles in cell.displays.values() if WIDGET in bundles[-1])
    drawn = NotebookPage(Wire(kernel), bundle[WIDGET]["model_id"])
    drawn.cells, drawn.in_brackets, drawn.outputs = page.cells, page.in_brackets, page.outputs
    return drawn


@pytest.mark.parametrize("ran", [True, False], ids=["accepted and run", "accepted alone"])
def test_after_a_restart_cells_have_the_numbers_of_the_page_and_are_outdated_as_before(
    kernel: Kernel, page: NotebookPage, api: MessagesApi, ran: bool
) -> None:
    kernel.run("rows = [1]", cell_id="load")
    page.in_brackets["load"] = number = page_number(kernel)
    page.outputs["load"] = [{"output_type": "stream", "name": "stdout", "text": "[1]"}]
    propose(page, api, ToolUse("propose_cell", CHANGE))
    if ran:
        kernel.run("rows = [1, 2]", cell_id="load")
        page.in_brackets["load"] = page_number(kernel)
    drawn = restarted(kernel, page, number)
    name = f"cell [{drawn.in_brackets['load']}]"
    drawn.silent = True
    undo(drawn, "/undo list", "the 1st cell edited")
    drawn.silent = False
    undo(drawn, "/undo list", f"{name} edited")
    shows = f"; {name} still shows the output of code that is replaced: run it again." if ran else ". /redo"
    undo(drawn, "/undo", f"Taken back: {name}{shows}")
    assert drawn.cells["load"] == "rows = [1]"
    undo(drawn, "/redo", f"Done once more: {name}. /undo")
    drawn.wire.close()


def test_what_a_removed_cell_did_when_it_ran_is_named_for_it_stays(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    propose(page, api, ToolUse("propose_cell", {"source": "total, more = sum(rows), 1", "after": 1}))
    (made,) = [cell for cell, source in page.cells.items() if source.startswith("total")]
    kernel.run("total, more = sum(rows), 1", cell_id=made)
    undo(page, "/undo", "what a removed cell did when it ran stays: more, total and any files that it wrote")
    assert kernel.run("total").results[-1]["text/plain"] == "1"
    undo(page, "/redo", "Done once more: ")
    undo(page, "/undo", "(removed)")


@pytest.mark.parametrize("how", ["refuses", "does not answer", "is not there"])
def test_without_its_cells_nothing_is_taken_back(
    kernel: Kernel, page: NotebookPage, api: MessagesApi, how: str
) -> None:
    propose(page, api, WORK, ToolUse("propose_cell", NEW))
    after = dict(page.cells)
    page.silent, page.refuses = how == "is not there", "read-only" if how == "refuses" else None
    if how == "does not answer":  # to the edits: it does them, and then what undoes them
        answered = page._answered
        page._answered = lambda message: (answered(message), None)[1] if "edits" in message else answered(message)
    undo(page, "/undo 2", "Nothing was changed")
    page.settle()
    assert (page.cells, state(kernel)) == (after, "[1, 2] new")
    if how == "is not there":
        undo(page, "/undo 2 keep", "left as the user has it: cells of the notebook")
        assert (page.cells, state(kernel)) == (after, "[1] old")
    else:
        page.refuses = None
        page.__dict__.pop("_answered", None)
        undo(page, "/undo 2", "Taken back: a.txt, rows, the 3rd cell (removed).")
        assert state(kernel) == "[1] old"


def interrupted_at(kernel: Kernel, page: NotebookPage, request: str) -> tuple[Cell, NotebookPage]:
    """Undo in a cell that is interrupted once its page was asked for that; the page has not answered by then."""
    cell = kernel.begin("%agent undo prompt", asks=True)
    cell.wait_for(lambda cell: any(WIDGET in bundles[-1] for bundles in cell.displays.values()))
    (bundle,) = (bundles[-1] for bundles in cell.displays.values())
    drawn = NotebookPage(page.wire, bundle[WIDGET]["model_id"])
    drawn.cells, drawn.refuses, drawn.keeps = page.cells, page.refuses, request
    drawn.wait_for(lambda: drawn.asked and drawn.asked[-1]["what"] == request)
    kernel.interrupt()
    return cell, drawn


def test_an_undo_that_was_interrupted_before_it_changed_anything_is_not_done_later(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    propose(page, api, ToolUse("propose_cell", NEW), WORK)
    after = dict(page.cells)
    cell, drawn = interrupted_at(kernel, page, "cells")
    assert cell.finish().status == "error"
    drawn.answer_kept()
    page.settle()
    assert (drawn.cells, state(kernel)) == (after, "[1, 2] new")
    undo(page, "/undo prompt", "Taken back: a.txt, rows, the 3rd cell (removed).")
    assert state(kernel) == "[1] old"


@pytest.mark.parametrize("refuses", [None, "The notebook was closed."], ids=["to its end", "back"])
def test_an_undo_that_was_interrupted_later_is_all_done_or_not_at_all_when_the_cell_ends(
    kernel: Kernel, page: NotebookPage, api: MessagesApi, refuses: str | None
) -> None:
    before = dict(page.cells)
    propose(page, api, ToolUse("propose_cell", NEW), WORK)
    after, page.refuses = dict(page.cells), refuses
    cell, drawn = interrupted_at(kernel, page, "change_cells")
    drawn.answer_kept()
    assert cell.finish().status == "error"
    assert (drawn.cells, state(kernel)) == ((before, "[1] old") if refuses is None else (after, "[1, 2] new"))


def test_cells_go_back_and_forth_with_a_named_state(kernel: Kernel, page: NotebookPage, api: MessagesApi) -> None:
    undo(page, "/state save raw", "This state is “raw” now.")
    before = dict(page.cells)
    propose(page, api, ToolUse("propose_cell", NEW), ToolUse("propose_cell", CHANGE), WORK)
    after = dict(page.cells)
    undo(page, "/state diff raw", "Since “raw”: rows 1 → 2 items, a.txt edited, 2 cells of the notebook.")
    page.refuses = "read-only"
    undo(page, "/state back raw", "Nothing was changed")
    assert (page.cells, state(kernel)) == (after, "[1, 2] new")
    page.refuses = None
    undo(page, "/state back raw", "This is “raw” again: a.txt, rows, the 1st cell, the 3rd cell (removed).")
    assert (page.cells, state(kernel)) == (before, "[1] old")
    undo(page, "/state back last", "This is “last” again")
    assert (page.cells, state(kernel)) == (after, "[1, 2] new")
    page.cells["load"] = "mine"
    decline(page, "/state back raw", "the 1st cell was changed since")
    assert (page.cells, state(kernel)) == (after | {"load": "mine"}, "[1, 2] new")
    page.cells["load"] = after["load"]
    undo(page, "/state", "raw")
