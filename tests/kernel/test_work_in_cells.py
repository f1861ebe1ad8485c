"""Code of the agent's that changed something is written as cells of the notebook, with what it showed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from panel_pages import NotebookPage, Wire

OPEN = """\
%agent --new --cells --model anthropic/claude-sonnet-4-5 --thinking off --approve never
%agent panel"""
HEADING = "**Agent:** fill the &#42;gaps&#42;"


def python(code: str) -> ToolUse:
    return ToolUse("python", {"code": code})


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("work-in-cells")
    (root / "work").mkdir()
    environment = private_environment(
        root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME="book.ipynb"
    )
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def page(kernel: Kernel, api: MessagesApi) -> Iterator[NotebookPage]:
    api.requests.clear()
    api._answers.clear()
    wire = Wire(kernel)
    kernel.run("rows = [1]")
    cell = kernel.begin(OPEN, asks=True).finish()
    assert cell.status == "ok", cell.error
    bundle = [bundles[-1] for bundles in cell.displays.values()][-1]
    try:
        yield NotebookPage(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
    finally:
        wire.close()


def test_that_the_option_stays_and_how_to_end_it_is_said(kernel: Kernel) -> None:
    assert "%agent --no-cells" in "\n".join(kernel.run("%agent --cells").shown)
    assert "not for this prompt alone" in "\n".join(kernel.run("%agent --no-cells").shown)


def ask(page: NotebookPage, api: MessagesApi, *replies: Reply, said: str = "Done.") -> None:
    api.add(*replies, Reply(said))
    page.prompt("fill the *gaps*")
    page.wait_until_idle(said)


def inserted(page: NotebookPage) -> list[dict[str, Any]]:
    changes = [message["edits"] for message in page.asked if message["what"] == "change_cells"]
    return [edit for edits in changes for edit in edits if edit["old"] is None]


def results(api: MessagesApi) -> str:
    return str(api.requests[-1].body["messages"])


def test_what_changes_something_becomes_a_cell_and_a_look_stays_in_its_card(
    page: NotebookPage, api: MessagesApi
) -> None:
    ask(
        page,
        api,
        Reply(python("len(rows)")),
        Reply(python("rows.append(2)\nprint('two')\nrows")),
        Reply(python("total = sum(rows)")),
    )
    heading, first, second = inserted(page)
    assert (heading["type"], heading["source"]) == ("markdown", HEADING)
    assert first["source"] == "rows.append(2)\nprint('two')\nrows"
    assert first["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "two\n[1, 2]\n"}]
    assert (second["source"], second["outputs"]) == ("total = sum(rows)", [])
    assert first["agent"]["run"] == second["agent"]["run"] == heading["agent"]["run"]
    assert first["agent"]["call"] != second["agent"]["call"]
    assert [*page.cells.values()][2:] == [each["source"] for each in (heading, first, second)]
    assert "It is cell 4 of the notebook now" in results(api)
    assert results(api).count("of the notebook now") == 2
    assert "the 4th cell new" in page.text


def test_a_look_that_showed_a_figure_becomes_a_cell_with_it(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    kernel.run("%matplotlib inline\nimport matplotlib.pyplot as plt")
    draws = "plt.plot(rows)\nplt.show()"
    ask(page, api, Reply(python("len(rows)")), Reply(python(draws)))
    _, drawn = inserted(page)
    assert drawn["source"] == draws
    assert ["image/png" in output.get("data", {}) for output in drawn["outputs"]] == [True]
    assert results(api).count("of the notebook now") == 1
    page.prompt("/undo")
    page.wait_for(lambda: "Taken back: " in f"{page.text} {page.toasts}")
    assert draws not in page.cells.values()


def test_cells_without_a_number_are_named_by_the_one_above_and_notes_for_the_model_are_not_shown(
    page: NotebookPage, api: MessagesApi
) -> None:
    page.in_brackets["load"] = 18
    ask(page, api, Reply(python("rows.append(2)")), Reply(python("rows.append(1 / 0)")))
    assert "the 2nd cell below [18] new, the 3rd cell below [18] new" in page.text
    assert "It is cell 4 of the notebook now" in results(api)
    assert "need not be proposed" not in page.text
    assert "no cell was written" not in page.text


def test_a_cell_below_the_one_that_asks_is_named_by_the_number_that_this_gets(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    page.cells = {"load": "rows = [1]", "asks": "%agent fill them"}
    page.in_brackets = {"load": 1}
    api.add(Reply(python("rows.append(2)")), Reply("Done."))
    shown = run(kernel, page, "%agent fill them", "asks")
    number = kernel.run("print(len(In) - 2)").streams.strip()
    assert f"It is the cell below [{number}] of the notebook." in shown
    assert f"the cell below [{number}] new" in shown


def test_what_is_proposed_comes_below_what_the_run_has_written_and_that_below_what_was_proposed(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    cells = page.cells = {"asks": "%agent fill them", "last": "last = 1"}
    sources = ["rows.append(2)", "total = sum(rows)", "rows.append(3)", "total"]
    first, proposed, third, last = sources
    propose = ToolUse("propose_cell", {"source": proposed})
    api.add(Reply(python(first)), Reply(propose), Reply(python(third)))
    api.add(Reply(ToolUse("propose_cell", {"source": last, "after": "asks"})), Reply("Done."))
    cell = kernel.begin("%agent fill them", asks=True, cell_id="asks")
    for _ in range(2):
        page.wait_for(lambda: page.dialogs)
        (dialog,) = page.dialogs
        page.tell("answer", id=dialog, value="Accept")
        page.wait_for(lambda answered=dialog: answered not in page.dialogs)
    page.wait_for(lambda: cell.message_id in page.wire.ended)
    assert cell.finish().status == "ok", cell.error
    assert [*page.cells.values()] == [cells["asks"], *sources, cells["last"]]
    written = [*page.cells][1:4]
    told = results(api)
    assert f"in the notebook now, below cell {written[0]} ({first}), with id {written[1]}" in told
    assert f"in the notebook now, below cell {written[2]} ({third}), with id" in told
    number = kernel.run("print(len(In) - 2)").streams.strip()
    in_all = str(cell.shown).rpartition("Changed in all: ")[2]
    names = [f"the {which}cell below [{number}] new" for which in ("", "2nd ", "3rd ", "4th ")]
    assert [each for each in in_all.split(". ")[0].split(", ") if each.endswith(" new")] == names


def test_one_undo_takes_back_cells_and_what_their_code_changed(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    before = dict(page.cells)
    ask(page, api, Reply(python("rows.append(2)")), Reply(python("rows.append(3)")))
    after = dict(page.cells)
    assert len(after) == len(before) + 3
    page.prompt("/undo prompt")
    page.wait_for(lambda: "Taken back: " in f"{page.text} {page.toasts}")
    assert page.cells == before
    assert kernel.run("print(rows)").streams == "[1]\n"
    page.prompt("/redo 2")
    page.wait_for(lambda: "Done once more: " in f"{page.text} {page.toasts}")
    assert page.cells == after
    assert kernel.run("print(rows)").streams == "[1, 2, 3]\n"


def test_a_heading_whose_cell_could_not_be_inserted_is_taken_back_with_the_call(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    page.inserts_code = False
    before = dict(page.cells)
    ask(page, api, Reply(python("rows.append(2)")))
    assert [*page.cells.values()] == [*before.values(), HEADING]
    page.prompt("/undo prompt")
    page.wait_for(lambda: "Taken back: " in f"{page.text} {page.toasts}")
    assert page.cells == before
    assert kernel.run("print(rows)").streams == "[1]\n"


def test_a_heading_holds_no_secret_that_the_run_has_found(kernel: Kernel, page: NotebookPage, api: MessagesApi) -> None:
    given = "import os; os.environ['SERVICE_TOKEN'] = '-'.join(['given', 'Value', '1234'])"
    api.add(Reply(python(given)), Reply("Done."))
    page.prompt("the token is given-Value-1234")
    page.wait_until_idle("Done.")
    heading, _ = inserted(page)
    assert "given-Value-1234" not in heading["source"]
    assert heading["source"].startswith("**Agent:** the token is ")
    kernel.run("del os.environ['SERVICE_TOKEN']")


def test_code_that_failed_has_no_cell_and_the_model_is_told_so(page: NotebookPage, api: MessagesApi) -> None:
    ask(page, api, Reply(python("rows.append(2); 1 / 0")), Reply(python("rows.append(3)")))
    assert [each["source"] for each in inserted(page)][1:] == ["rows.append(3)"]
    assert "no cell was written" in results(api)


def test_cells_go_behind_those_before_them_also_when_one_was_deleted(page: NotebookPage, api: MessagesApi) -> None:
    page.cells["below"] = ""
    ask(page, api, Reply(python("rows.append(2)")), Reply(python("rows.append(3)")))
    assert [*page.cells.values()][-1] == ""
    page.cells = {name: text for name, text in page.cells.items() if text != "rows.append(3)"}
    ask(page, api, Reply(python("rows.append(4)")), said="Done again.")
    assert [*page.cells.values()][-3:] == [HEADING, "rows.append(4)", ""]


def test_code_that_cannot_be_read_as_it_is_stays_in_its_card(page: NotebookPage, api: MessagesApi) -> None:
    ask(page, api, Reply(python("rows.append('\u202e')")))
    assert inserted(page) == []


def test_where_no_cell_can_be_written_that_is_said_once_and_cards_show_all(
    page: NotebookPage, api: MessagesApi
) -> None:
    page.silent = True
    ask(page, api, Reply(python("rows.append(2)")), Reply(python("rows.append(3)\nrows")))
    assert inserted(page) == []
    shown = f"{page.text} {page.toasts}"
    assert shown.count("lets nobody write cells") == 1
    assert "[1, 2, 3]" in page.text


def test_without_the_mode_nothing_is_written(kernel: Kernel, page: NotebookPage, api: MessagesApi) -> None:
    assert kernel.begin("%agent --no-cells", asks=True).finish().status == "ok"
    ask(page, api, Reply(python("rows.append(2)")))
    assert inserted(page) == []


def run(kernel: Kernel, page: NotebookPage, line: str, cell_id: str) -> str:
    """Run a cell, whose requests the page answers meanwhile; return what it shows."""
    cell = kernel.begin(line, asks=True, cell_id=cell_id)
    page.wait_for(lambda: cell.message_id in page.wire.ended)
    assert cell.finish().status == "ok", cell.error
    return str(cell.shown)


@pytest.mark.parametrize("line", ["%agent cell all", "%agent cell"])
def test_what_stands_in_the_notebook_already_is_not_added_again(
    kernel: Kernel, page: NotebookPage, api: MessagesApi, line: str
) -> None:
    prompt = "%agent --no-cells fill them"
    page.cells = {"asks": prompt, "collects": line}
    page.in_brackets = {"asks": 6, "collects": 7}
    code = "rows.append(5)"

    def run_all(code: str) -> str:
        api.add(Reply(python(code)), Reply("Done."))
        run(kernel, page, prompt, "asks")
        return run(kernel, page, line, "collects")

    assert "The cell below holds what the agent ran" in run_all(code)
    assert [*page.cells.values()] == [prompt, line, code]
    assert "The cell below [7] has what the agent ran for this prompt: nothing was added." in run_all(code)
    assert "before, and nothing was added. Delete it and run this cell again" in run_all("rows.append(6)")
    assert [*page.cells.values()] == [prompt, line, code]
    prompt = page.cells["asks"] = "%agent --no-cells fill others"
    assert "The cell below holds what the agent ran" in run_all("rows.append(7)")
    assert [*page.cells.values()] == [prompt, line, "rows.append(7)", code]


def test_calls_that_a_server_only_counts_are_told_apart_by_their_code(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    page.cells = {"one": "%agent --no-cells one", "other": "%agent --no-cells other", "collects": "%agent cell"}
    for asks, code in (("one", "rows.append(5)"), ("other", "rows.append(6)")):
        api.add(Reply(ToolUse("python", {"code": code}, id="call_0")), Reply("Done."))
        run(kernel, page, page.cells[asks], asks)
        assert "The cell below holds what the agent ran" in run(kernel, page, "%agent cell", "collects")
    assert [*page.cells.values()][-2:] == ["rows.append(6)", "rows.append(5)"]


def test_a_call_whose_run_was_stopped_at_its_question_is_shown_as_not_run(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    kernel.begin("%agent --no-cells --approve effects", asks=True).finish()
    api.add(Reply(python("rows.append(99)\nprint('it is', rows[-1])")))
    page.prompt("fill them")
    page.wait_for(lambda: page.dialogs)
    assert "it is 99" in str(page.dialogs)
    page.tell("abort")
    page.wait_until_idle("not run")
    assert "it is 99" not in page.text
    assert kernel.run("print(rows)").streams == "[1]\n"
    kernel.begin("%agent --approve never", asks=True).finish()
