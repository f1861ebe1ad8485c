"""The agent and the notebook of its kernel: reading its cells, and proposing cells that the user accepts or not."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb.kernel.document import notebook_file
from indus_nb.kernel.document.proposed_cells import ChangedCell, NewCell, outcome_of

SETUP = """\
import asyncio
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.document import NotebookTools
from indus_nb.start import SessionOptions, open_session

front, asked, answers, questions, notes, offered, waits = {}, [], [], [], [], [], True

async def ask_front(what, payload):
    asked.append((what, payload))
    return front.get(what)

def insert_below(text):
    if waits:
        get_ipython().set_next_input(text, replace=False)
    return waits

def host(frame):
    if frame.method == "notify":
        notes.append(frame.message)
    elif frame.method == "dialogChanged":
        offered.append(frame.dialog.options)
        asyncio.get_running_loop().call_soon(session.ui.answer, frame.dialog.id, answers.pop(0))
    elif frame.method != "cancel":
        questions.append(frame.title)
        offered.append(getattr(frame, "options", None))
        given = answers.pop(0)
        if given == "(wait for more)":
            return
        answer, _, reason = (None, "", "") if given is None else given.partition(": ")
        asyncio.get_running_loop().call_soon(session.ui.answer, frame.id, answer, reason)

tools = NotebookTools(get_ipython(), ask_front, insert_below, CellIds(get_ipython()))
session = open_session(
    SessionOptions(model="anthropic/claude-sonnet-4-5", thinking="off", no_session=True, extensions=[tools])
)
await session.start()
detach = session.ui.attach(host)
"""
FRESH = "front, asked[:], answers[:], questions[:], notes[:], waits = {}, [], [], [], [], True"
CHANGES = "front['change_cells'] = {'numbers': [], 'removed': []}"
RUNS = f"{CHANGES}; front['run_cells'] = {{'ids': []}}"

NEXT_NUMBER = "len(get_ipython().history_manager.input_hist_raw)"


@dataclass
class Book:
    """A kernel with its notebook's file, an agent in it, and what its model is told."""

    kernel: Kernel
    api: MessagesApi
    path: Path

    def run(self, code: str, cell_id: str = "", page: str = "") -> tuple[Cell, list[dict[str, Any]]]:
        """Run code as the cell of that id, as a front end for notebooks does; the cell, and its payload.

        With ``page`` the front end is connected by that name.
        """
        client = self.kernel._client
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        message = client.session.msg("execute_request", content, metadata={"cellId": cell_id} if cell_id else {})
        message["header"]["session"] = page or message["header"]["session"]
        client.shell_channel.send(message)
        cell = Cell(client, message["header"]["msg_id"])
        cell.cells[cell.message_id] = cell
        cell.wait_for(lambda cell: cell.idle, 30)
        while True:
            reply = client.get_shell_msg(timeout=240)
            if reply["parent_header"].get("msg_id") == cell.message_id:
                break
        assert reply["content"]["status"] == "ok", cell.error
        return cell, reply["content"]["payload"]

    def call(
        self, *calls: tuple[str, dict[str, Any]], before: str = "", answers: tuple[str | None, ...] = ()
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The results that the model reads of these calls in one answer, and the payload of the cell."""
        self.api.add(Reply(*(ToolUse(name, arguments) for name, arguments in calls)), Reply("Done."))
        code = f"{FRESH}\n{before}\nanswers += {list(answers)!r}\nawait session.prompt('go')"
        _, payload = self.run(code, "running-cell")
        content = self.api.requests[-1].body["messages"][-1]["content"]
        return [block for block in content if block["type"] == "tool_result"], payload

    def seen(self, name: str) -> Any:
        """The value of a variable in the kernel."""
        return ast.literal_eval(self.run(f"print({name!s})")[0].streams)

    @property
    def changes(self) -> list[list[dict[str, Any]]]:
        """The changes that the page was asked for, each with its edits."""
        return [payload["edits"] for what, payload in self.seen("asked") if what == "change_cells"]

    def write(self, *cells: tuple[str, str, str]) -> None:
        """Save the notebook with cells of these types, ids and sources."""
        made = nbformat.v4.new_notebook()
        for cell_type, cell_id, source in cells:
            new = nbformat.v4.new_code_cell if cell_type == "code" else nbformat.v4.new_markdown_cell
            made.cells.append(new(source, id=cell_id))
        nbformat.write(made, self.path)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Book]:
    root = tmp_path_factory.mktemp("cells")
    path = root / "book.ipynb"
    environment = private_environment(
        root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME=str(path)
    )
    with Kernel(root, environment) as kernel:
        book = Book(kernel, api, path)
        book.run(SETUP, "setup-cell")
        yield book


@pytest.fixture
def book(started: Book) -> Book:
    started.write(
        ("markdown", "title-cell", "# A study"),
        ("code", "load-cell", "rows = [1, 2, 3]"),
        ("code", "running-cell", "%agent go"),
        ("code", "plot-cell", "plot(rows)"),
    )
    return started


def text_of(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def test_the_model_reads_the_saved_cells_and_hears_what_is_not_saved(book: Book) -> None:
    book.run("rows = [1, 2, 3]", "load-cell")
    book.run("fresh = 'never saved'", "fresh-cell")
    (result,), _ = book.call(("notebook", {}))
    told = text_of(result)
    assert not result.get("is_error"), told
    assert told.startswith(f"{book.path} · 4 cells · saved ")
    assert "id title-cell · markdown · place 1\n# A study" in told
    assert "id plot-cell · code · place 4 · not run\nplot(rows)" in told
    number = int(book.seen("get_ipython().history_manager.input_hist_raw.index(\"fresh = 'never saved'\")"))
    unsaved = next(line for line in told.split("\n") if line.startswith("Unsaved: "))
    assert f"In [{number}]" in unsaved
    assert f"In [{number - 1}]" not in unsaved


def test_a_figure_in_the_notebook_is_shown_to_the_model(book: Book) -> None:
    notebook = nbformat.read(book.path, 4)
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
    notebook.cells[3].outputs = [nbformat.v4.new_output("display_data", {"image/png": png, "text/plain": "<Figure>"})]
    nbformat.write(notebook, book.path)
    (result,), _ = book.call(("notebook", {"cells": "plot-cell"}))
    assert "[image 1, below]" in text_of(result)
    assert "A study" not in text_of(result)
    assert [block["type"] for block in result["content"]] == ["text", "image"]


def test_a_long_notebook_is_listed_first(book: Book) -> None:
    book.write(("code", "running-cell", "x"), *(("code", f"cell-{n}", f"value_{n} = {n}\n" * 200) for n in range(30)))
    (listed, one), _ = book.call(("notebook", {}), ("notebook", {"cells": "31"}))
    assert 'See cells in full with cells="3-7"' in text_of(listed)
    assert "id cell-29 · code · place 31 · not run · 201 lines\n      value_29 = 29\n" in text_of(listed)
    assert len(text_of(listed)) < 6000
    assert text_of(one).count("value_29 = 29") == 200


def test_what_the_browser_shows_counts_more_than_the_file(book: Book) -> None:
    shown = [
        {"id": "load-cell", "type": "code", "source": "rows = [4]"},
        {"id": "new-cell", "type": "code", "source": "unsaved = True"},
    ]
    before = f"front['cells'] = {{'cells': {shown!r}}}"
    (result,), _ = book.call(("notebook", {}), before=before)
    told = text_of(result)
    assert "2 cells" in told
    assert "Sources are as the browser shows them now" in told
    assert "id load-cell · code · place 1" in told
    assert "rows = [4]" in told
    assert "unsaved = True" in told
    assert "A study" not in told


def test_a_notebook_that_was_never_saved_is_read_from_the_browser(book: Book) -> None:
    book.path.unlink()
    before = "front['cells'] = {'cells': [{'id': 'new-cell', 'type': 'code', 'source': 'unsaved = True'}]}"
    (result,), _ = book.call(("notebook", {}), before=before)
    assert "as the browser shows it · 1 cells · its outputs are not known" in text_of(result)
    assert "unsaved = True" in text_of(result)


def test_an_answer_of_the_page_that_makes_no_sense_changes_nothing(book: Book) -> None:
    for answer in ({"error": "unavailable"}, {"cells": 7}, {"cells": [None, 3]}, {}):
        (result,), _ = book.call(("notebook", {}), before=f"front['cells'] = {answer!r}")
        assert "4 cells · saved" in text_of(result)


def test_a_notebook_that_was_renamed_is_read_under_its_new_name(book: Book) -> None:
    renamed = book.path.with_name("renamed.ipynb")
    book.path.rename(renamed)
    try:
        (result,), _ = book.call(("notebook", {}))
        assert text_of(result).startswith(str(renamed))
        assert "It was book.ipynb when the kernel was started." in text_of(result)
    finally:
        renamed.unlink()
    (result,), _ = book.call(("notebook", {}))
    assert result["is_error"]
    assert "is not there any more" in text_of(result)


def test_an_accepted_cell_comes_below_the_running_one_and_the_file_stays_as_it_is(book: Book) -> None:
    saved = book.path.read_bytes(), book.path.stat().st_mtime_ns
    (result,), payload = book.call(("propose_cell", {"source": "total = sum(rows)"}), answers=("Accept",))
    assert not result.get("is_error")
    assert "It comes below the running cell" in text_of(result)
    assert payload == [{"source": "set_next_input", "text": "total = sum(rows)", "replace": False}]
    assert book.seen("questions") == ["Insert this code cell below the one that runs?\n\ntotal = sum(rows)"]
    assert (book.path.read_bytes(), book.path.stat().st_mtime_ns) == saved


def test_all_cells_that_were_accepted_in_one_run_arrive(book: Book) -> None:
    (_, second, _, fourth), payload = book.call(
        ("propose_cell", {"source": "one = 1"}),
        ("propose_cell", {"source": "## Two\ntext", "cell_type": "markdown"}),
        ("propose_cell", {"source": "%%bash\nls"}),
        ("propose_cell", {"source": "four = 4"}),
        answers=("Accept", "Accept", "Accept", "No"),
    )
    assert "shares that with what was accepted before" in text_of(second)
    assert fourth["is_error"]
    (only,) = payload
    assert only["text"] == ("# %%\none = 1\n\n# %% [markdown]\n# ## Two\n# text\n\n# %%\n# %%bash\n# ls")
    _, payload = book.call(("propose_cell", {"source": "five = 5"}), answers=("Accept",))
    assert [item["text"] for item in payload] == ["five = 5"]


def test_text_alone_is_put_into_a_cell_that_shows_it(book: Book) -> None:
    (result,), payload = book.call(
        ("propose_cell", {"source": "# Title", "cell_type": "markdown"}), answers=("Accept",)
    )
    assert payload[0]["text"] == "%%markdown\n# Title"
    assert "begins with %%markdown" in text_of(result)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (("No",), "Nothing was put into the notebook. Ask what to do instead."),
        (("No: use pandas",), "Nothing was put into the notebook. They said: use pandas"),
        ((None,), "The user did not decide"),
    ],
)
def test_a_refused_cell_leaves_nothing_and_the_reason_is_told(
    book: Book, answers: tuple[str | None, ...], told: str
) -> None:
    (result,), payload = book.call(("propose_cell", {"source": "x = 1"}), answers=answers)
    assert result["is_error"]
    assert told in text_of(result)
    refused = book.seen("session.messages[-2].details.get('refusedByUser', False)")
    assert refused == (answers != (None,)), "a front end shows it as refused, and not as a failure"
    assert payload == []
    assert book.changes == []


def test_a_page_that_can_puts_the_cell_where_it_belongs(book: Book) -> None:
    (result,), payload = book.call(
        ("propose_cell", {"source": "# Sorted", "after": "load-cell", "cell_type": "markdown"}),
        before=CHANGES,
        answers=("Accept",),
    )
    (inserted,) = book.changes[-1]
    own_id = inserted.pop("cell")
    assert f"in the notebook now, below cell load-cell (rows = [1, 2, 3]), with id {own_id}." in text_of(result)
    assert payload == []
    assert inserted == {"type": "markdown", "old": None, "source": "# Sorted", "after": "load-cell", "outputs": []}


def test_cells_that_a_page_puts_below_the_running_one_keep_their_order(book: Book) -> None:
    _, payload = book.call(
        ("propose_cell", {"source": "one = 1"}),
        ("propose_cell", {"source": "two = 2"}),
        before=CHANGES,
        answers=("Accept", "Accept"),
    )
    assert payload == []
    (first,), (second,) = book.changes
    assert (first["after"], second["after"]) == ("running-cell", first["cell"])


def test_a_page_that_cannot_leaves_it_to_the_cell(book: Book) -> None:
    _, payload = book.call(
        ("propose_cell", {"source": "one = 1"}),
        before="front['change_cells'] = {'error': 'unavailable'}",
        answers=("Accept",),
    )
    assert [item["text"] for item in payload] == ["one = 1"]


def test_cells_are_named_to_the_user_by_the_numbers_that_stand_at_them_and_to_the_model_by_ids(
    book: Book,
) -> None:
    sources = {"load-cell": 9014, "again": 9015, "twice": 9015, "running-cell": None}
    cells = [{"id": each, "type": "code", "source": each, "executionCount": at} for each, at in sources.items()]
    (result,), _ = book.call(
        (
            "propose_cell",
            {
                "cells": [
                    {"source": "one = 1", "replace": "load-cell"},
                    {"source": "two", "replace": "again"},
                    {"source": "3", "after": "In [9014]"},
                ]
            },
        ),
        before=f"front['cells'] = {{'cells': {cells}}}; {CHANGES}",
        answers=("Accept",),
    )
    (question,) = book.seen("questions")
    assert "1 of 3 · change of cell [9014]\n" in question
    assert "2 of 3 · change of the cell below [9014]\n" in question
    assert "3 of 3 · new code cell below cell [9014] (load-cell)\n" in question
    assert "cell load-cell has the new source now" in text_of(result)


def test_the_number_of_a_run_names_that_cell_and_not_the_one_that_ran_before_it(book: Book) -> None:
    first = book.seen(NEXT_NUMBER)
    book.run("%lsmagic", "load-cell")
    book.run("plot = print", "plot-cell")
    shown = {"load-cell": ("%lsmagic", first), "plot-cell": ("plot = print", first + 1)}
    cells = [{"id": each, "type": "code", "source": code, "executionCount": at} for each, (code, at) in shown.items()]
    change = {"source": "plot = len", "replace": f"In [{first + 1}]"}
    read, proposed = book.call(
        ("notebook", {"cells": f"In [{first + 1}]"}),
        ("propose_cell", change),
        before=f"front['cells'] = {{'cells': {cells}}}; {CHANGES}",
        answers=("Accept",),
    )[0]
    assert "id plot-cell" in text_of(read)
    assert "id load-cell" not in text_of(read)
    assert "cell plot-cell has the new source now" in text_of(proposed)


def test_a_number_that_is_one_cells_place_and_another_cells_run_changes_neither(book: Book) -> None:
    ran = book.seen(NEXT_NUMBER)
    book.run("rows = [1, 2, 3]", "load-cell")
    cells = [("code", f"filler-{place}", f"filler = {place}") for place in range(2, ran + 1)]
    book.write(("code", "load-cell", "rows = [1, 2, 3, 4]"), *cells, ("code", "running-cell", "%agent go"))
    (result,), _ = book.call(("propose_cell", {"source": "rows = []", "replace": str(ran)}))
    assert result["is_error"]
    assert f"'{ran}' may be cell filler-{ran}, at that place" in text_of(result)
    assert f"or cell load-cell, run as In [{ran}] (rows = [1, 2, 3, 4]). Name one, by its id." in text_of(result)
    assert book.seen("questions") == []
    change = {"source": "rows = []", "replace": f"In [{ran}]"}
    (result,), _ = book.call(("propose_cell", change), before=RUNS, answers=("Accept",))
    assert "cell load-cell has the new source now" in text_of(result)


def test_a_change_is_shown_as_a_difference_and_made_by_the_page(book: Book) -> None:
    (result,), payload = book.call(
        ("propose_cell", {"source": "rows = [1, 2, 3, 4]", "replace": "load-cell"}),
        before=CHANGES,
        answers=("Accept",),
    )
    assert "cell load-cell has the new source now" in text_of(result)
    assert payload == []
    (question,) = book.seen("questions")
    assert question.startswith("Change the 2nd cell?\n\n--- now")
    assert "\n-rows = [1, 2, 3]\n+rows = [1, 2, 3, 4]" in question
    (change,) = book.changes[-1]
    assert (change["cell"], change["old"], change["source"]) == ("load-cell", "rows = [1, 2, 3]", "rows = [1, 2, 3, 4]")


def test_a_cell_is_accepted_and_run_where_the_page_can_run_it(book: Book) -> None:
    (result,), _ = book.call(("propose_cell", {"source": "x = 1"}), before=RUNS, answers=("Accept and run",))
    (new,) = book.changes[-1]
    assert (new["after"], new["type"], new["source"]) == ("running-cell", "code", "x = 1")
    told = f"with id {new['cell']}. It runs as soon as the kernel is free; you are told what it gave"
    assert told in text_of(result)
    assert book.seen("asked")[-1] == ("run_cells", {"cells": [new["cell"]]})
    before = f"offered[:] = []\n{RUNS}"
    (result,), _ = book.call(("propose_cell", {"source": "x = 1"}), before=before, answers=("Accept",))
    assert "It was not run." in text_of(result)
    assert book.seen("offered") == [["Accept", "No", "Accept and run"]], "as where the page answers late"
    assert all(not payload["cells"] for what, payload in book.seen("asked") if what == "run_cells")


@pytest.mark.parametrize(
    ("arguments", "before"),
    [
        ({"source": "x = 1"}, CHANGES),
        ({"source": "# Text", "cell_type": "markdown"}, RUNS),
        ({"source": "import math\n%agent go on"}, RUNS),
    ],
)
def test_where_it_cannot_be_run_that_is_not_offered(book: Book, arguments: dict[str, Any], before: str) -> None:
    (result,), _ = book.call(("propose_cell", arguments), before=f"offered[:] = []\n{before}", answers=("Accept",))
    assert "It was not run." in text_of(result)
    assert book.seen("offered") == [["Accept", "No"]]


def test_a_page_that_answers_late_has_the_choice_added_to_the_open_question(book: Book) -> None:
    before = f"""offered[:] = []
{RUNS}
class Late(dict):
    def get(self, what, default=None):
        return None if what == 'run_cells' and not questions else super().get(what, default)
front = Late(front)"""
    answers = ("(wait for more)", "Accept and run")
    (result,), _ = book.call(("propose_cell", {"source": "x = 1"}), before=before, answers=answers)
    assert "It runs as soon as the kernel is free" in text_of(result)
    assert book.seen("offered") == [["Accept", "No"], ["Accept", "No", "Accept and run"]]
    assert book.seen("asked")[-1] == ("run_cells", {"cells": [book.changes[-1][0]["cell"]]})


def test_a_page_that_does_not_run_it_after_all_is_said(book: Book) -> None:
    before = f"""{RUNS}
class Once(dict):
    def get(self, what, default=None):
        return (self.pop if what == 'run_cells' else super().get)(what, default)
front = Once(front)"""
    (result,), _ = book.call(("propose_cell", {"source": "x = 1"}), before=before, answers=("Accept and run",))
    assert text_of(result).endswith("It was not run.")
    assert book.seen("notes") == ["The front end did not run the new cells: run them yourself."]


def test_several_cells_are_one_question_and_come_in_order(book: Book) -> None:
    cells = [
        {"source": "# Totals", "cell_type": "markdown", "after": "load-cell"},
        {"source": "total = sum(rows)\ntotal"},
        {"source": "rows = [1, 2, 3, 4]", "replace": "load-cell"},
        {"source": "last = 1"},
    ]
    (result,), payload = book.call(("propose_cell", {"cells": cells}), before=RUNS, answers=("Accept and run",))
    assert payload == []
    (question,) = book.seen("questions")
    assert question.startswith(
        "Put these 4 cells into the notebook?\n\n1 of 4 · new markdown cell below the 2nd cell (rows"
    )
    assert "2 of 4 · new code cell below that\n+total = sum(rows)\n+total" in question
    assert "3 of 4 · change of the 2nd cell\n--- now" in question
    (edits,) = book.changes
    first, second, changed, third = edits
    assert (first["after"], first["type"]) == ("load-cell", "markdown")
    assert second["after"] == first["cell"]
    assert (changed["cell"], changed["old"]) == ("load-cell", "rows = [1, 2, 3]")
    assert third["after"] == "running-cell"
    assert book.seen("asked")[-1] == ("run_cells", {"cells": [second["cell"], "load-cell", third["cell"]]})
    told = text_of(result)
    assert told.startswith(
        "The user accepted 4 cells.\n1. Accepted: the cell is in the notebook now, below cell load-cell"
    )
    assert told.count("It runs as soon as") == 3
    assert told.count("It was not run.") == 1


@pytest.mark.parametrize(
    ("done", "sent", "said"),
    [
        ([True] * 4, [False] * 4, "3 cells inserted below cell [7]; Changed cell [2]"),
        (
            [True] * 4,
            [True] * 4,
            "3 cells inserted below cell [7], sent to the kernel; Changed cell [2], sent to the kernel",
        ),
        (
            [True] * 4,
            [True, False, True, False],
            "3 cells inserted below cell [7], 2 of them sent to the kernel; Changed cell [2]",
        ),
        ([True, False, False, True], [False] * 4, "Inserted below cell [7]; 2 cells inserted below; Changed cell [2]"),
    ],
)
def test_cells_that_were_inserted_one_below_the_other_are_counted_in_the_words_for_the_user(
    done: list[bool], sent: list[bool], said: str
) -> None:
    first = NewCell("x", "code", "a", "a", "below cell [7]", "", named=True)
    others = [NewCell(source, "code", "a", None, "below that", "", named=True, follows=True) for source in "yz"]
    changed = ChangedCell("w", 2, "cell [2]", "", notebook_file.Cell("code", "v"), "", "")
    assert outcome_of([first, *others, changed], done, sent) == said


def test_of_several_cells_nothing_is_proposed_when_one_cannot_be(book: Book) -> None:
    for cells, said in (
        ([{"source": "x = 1"}, {"source": " "}], "empty"),
        ([{"source": "x = 1", "replace": "load-cell"}, {"source": "y", "replace": "load-cell"}], "named twice"),
        ([{"source": f"x{n} = 1"} for n in range(31)], "too many for a question"),
        ([{"source": "x" * 19_000}] * 3, "too long for one question"),
    ):
        (result,), payload = book.call(("propose_cell", {"cells": cells}), before=RUNS)
        assert result["is_error"]
        assert said in text_of(result)
        assert payload == []
        assert book.seen("questions") == []
    (result,), _ = book.call(("propose_cell", {"source": "x", "cells": [{"source": "y"}]}))
    assert "not both" in text_of(result)


def test_several_cells_without_such_a_page_share_the_one_below(book: Book) -> None:
    cells = [{"source": "one = 1"}, {"source": "two = 2"}]
    (result,), payload = book.call(("propose_cell", {"cells": cells}), answers=("Accept",))
    assert [item["text"] for item in payload] == ["# %%\none = 1\n\n# %%\ntwo = 2"]
    assert "shares that with what was accepted before" in text_of(result)


def test_without_such_a_page_the_new_version_stands_below_and_the_user_is_told(book: Book) -> None:
    (result,), payload = book.call(
        ("propose_cell", {"source": "rows = []", "replace": "load-cell"}), answers=("Accept",)
    )
    assert "until then that cell is as it was" in text_of(result)
    assert payload[0]["text"] == "rows = []"
    assert book.seen("notes") == [
        "The new version of the 2nd cell comes in a cell below the running one: put it in its place."
    ]


def test_an_accepted_cell_that_cannot_be_put_anywhere_is_said(book: Book) -> None:
    (result,), payload = book.call(("propose_cell", {"source": "x = 1"}), before="waits = False", answers=("Accept",))
    assert result["is_error"]
    assert "Show it in your answer" in text_of(result)
    assert payload == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"source": "x = 1", "after": 999}, "There is no cell '999'"),
        ({"source": "x = 1", "replace": "1-2"}, "Name one, by its id"),
        ({"source": "x = 1", "replace": 1, "after": 1}, "not both"),
        ({"source": " \n"}, "empty"),
        ({"source": "rows = [1, 2, 3]\n", "replace": "load-cell"}, "has that source already"),
        ({"source": "x = '\u202e'"}, "cannot be shown"),
        ({"source": "print('\x1b[2J')"}, "cannot be shown"),
        ({"source": "x" * 30_000}, "too many for one cell"),
    ],
)
def test_what_cannot_be_proposed_is_not_asked(book: Book, arguments: dict[str, Any], told: str) -> None:
    (result,), _ = book.call(("propose_cell", arguments))
    assert result["is_error"]
    assert told in text_of(result)
    assert book.seen("questions") == []


def test_where_nobody_can_be_asked_nothing_is_proposed(book: Book) -> None:
    (result,), payload = book.call(("propose_cell", {"source": "x = 1"}), before="detach()")
    book.run("detach = session.ui.attach(host)")
    assert result["is_error"]
    assert "Nobody can be asked here" in text_of(result)
    assert payload == []


def test_the_user_is_asked_once_also_when_writes_need_approval(book: Book) -> None:
    before = "session.settings.approve = 'writes'"
    _, payload = book.call(("propose_cell", {"source": "x = 1"}), before=before, answers=("Accept",))
    book.run("session.settings.approve = 'never'")
    assert len(payload) == 1
    assert len(book.seen("questions")) == 1


def test_a_kernel_that_runs_a_notebook_of_another_name_refuses_to_guess(tmp_path: Path, api: MessagesApi) -> None:
    # As when a notebook executes another one: the name is inherited.
    parent = tmp_path / "parent.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("!jupyter execute child.ipynb")]), parent)
    environment = private_environment(
        tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME=str(parent)
    )
    with Kernel(tmp_path, environment) as kernel:
        book = Book(kernel, api, parent)
        book.run(SETUP)
        api.add(Reply(ToolUse("notebook", {})), Reply("Done."))
        book.run("await session.prompt('go')")
        told = json.dumps(api.requests[-1].body["messages"][-1]["content"])
        assert "The name may be inherited from another kernel." in told
        assert "child" not in told


def test_of_two_notebooks_on_one_kernel_the_one_that_asks_is_read_and_none_that_does_not_hold_the_cell(
    tmp_path: Path, api: MessagesApi
) -> None:
    first, second = Book(None, api, tmp_path / "first.ipynb"), Book(None, api, tmp_path / "second.ipynb")  # type: ignore[arg-type]
    first.write(("code", "first-cell", "x = 1"))
    second.write(("code", "second-cell", "y = 2"))
    environment = private_environment(tmp_path, JPY_SESSION_NAME=str(first.path))
    with Kernel(tmp_path, environment) as kernel:
        first.kernel = second.kernel = kernel
        first.run("%load_ext indus_nb\nx = 1", "first-cell")
        for book, cell_id in ((first, "first-cell"), (second, "second-cell")):
            shown = book.run("%agent verify", cell_id, page=cell_id)[0].shown
            assert shown[-1].startswith(f"{book.path.name}: 1 of 1 cells ran well")
        with pytest.raises(AssertionError, match="other cells ran in this kernel too"):
            second.run("%agent verify", "unsaved-cell", page="another")


def test_an_open_notebook_is_never_written_as_a_file_unnoticed(tmp_path: Path, api: MessagesApi) -> None:
    book = Book(None, api, tmp_path / "book.ipynb")  # type: ignore[arg-type]
    book.write(("code", "first-cell", "x = 1"))
    before = book.path.read_bytes()
    environment = private_environment(
        tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME=str(book.path)
    )
    (tmp_path / "link").symlink_to(book.path)
    with Kernel(tmp_path, environment) as kernel:
        book.kernel = kernel
        book.run("%load_ext indus_nb")
        api.add(
            Reply(
                ToolUse("write", {"path": "link", "content": "{}"}),
                ToolUse("edit", {"path": "book.ipynb", "edits": [{"oldText": "x = 1", "newText": "x = 2"}]}),
                ToolUse("write", {"path": "other.ipynb", "content": "{}"}),
            ),
            Reply("Done."),
        )
        book.run("%agent --approve never write it")
        refused = api.requests[-1].body["messages"][-1]["content"]
        assert all("Nothing was written. Change its cells with propose_cell." in str(each) for each in refused[:2])
        assert "Wrote 2 bytes" in str(refused[2])
        assert book.path.read_bytes() == before
        for call in (
            ToolUse("bash", {"command": "echo '{}' > book.ipynb"}),
            ToolUse("python", {"code": "open('book.ipynb', 'w').write('{}')"}),
        ):
            api.add(Reply(call), Reply("Done."))
            shown = "\n".join(book.run("%agent write it")[0].shown)
            assert "⚠ book.ipynb, a notebook that is open, was written as a file" in shown
            assert "propose_cell instead" in str(api.requests[-1].body["messages"][-1])
            assert book.path.read_bytes() != before
            assert "book.ipynb" in "\n".join(book.run("%agent undo")[0].shown)
            assert book.path.read_bytes() == before


WAITS = "\nimport time\nwhile not os.path.exists('.beside/go'): time.sleep(0.05)"


@pytest.mark.parametrize("goes_on", [False, True], ids=["at once", "as a job"])
def test_what_a_call_changed_beside_an_open_notebook_is_taken_back_with_it(
    tmp_path: Path, api: MessagesApi, goes_on: bool
) -> None:
    book = Book(None, api, tmp_path / "book.ipynb")  # type: ignore[arg-type]
    book.write(("code", "first-cell", "x = 1"))
    before = book.path.read_bytes()
    clean = tmp_path / "clean.csv"
    clean.write_text("a,b\n")
    (tmp_path / ".beside").mkdir()
    environment = private_environment(
        tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME=str(book.path)
    )
    (tmp_path / "agent" / "settings.json").write_text(json.dumps({"approve": "never", "jobs": {"afterSeconds": 1}}))
    with Kernel(tmp_path, environment) as kernel:
        book.kernel = kernel
        book.run("%load_ext indus_nb\norders = [1, 2]\nimport os, time")
        code = "orders.pop(); os.remove('clean.csv'); open('book.ipynb', 'w').write('{}')"
        run = len(api.requests)
        api.add(Reply(ToolUse("python", {"code": code + (WAITS if goes_on else "")})), "Done.", *["Seen."] * goes_on)
        cell = kernel.begin("%agent write it")
        api.wait_for_requests(run + 2)
        (tmp_path / ".beside" / "go").touch()
        cell.finish()
        assert not clean.exists()
        listed = " ".join("\n".join(book.run("%agent undo list")[0].shown).split())
        assert "orders 2 → 1 items, clean.csv deleted, book.ipynb edited" in listed
        assert len(re.findall(r"\d\d:\d\d:\d\d", listed)) == 1
        shown = "\n".join(book.run("%agent undo")[0].shown)
        assert "Taken back: book.ipynb, clean.csv (put back), orders." in shown
        assert (book.path.read_bytes(), clean.read_text()) == (before, "a,b\n")
        assert book.run("print(orders)")[0].streams == "[1, 2]\n"
