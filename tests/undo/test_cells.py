"""What calls did to cells of a notebook is planned as edits, which whoever reaches the notebook carries out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indus_nb.kernel.undo import (
    Book,
    CellsChange,
    CellsPlan,
    CellState,
    CellStep,
    CheckpointBudget,
    Contents,
    Files,
    History,
    Step,
    Touched,
    leave_cells,
    plan_cells,
    take,
)
from indus_nb.kernel.undo.cells import cells_from_json
from indus_nb.kernel.undo.sealing import sealed


class Notebook:
    """Cells by id, as a page has them: it carries out edits, each only if the cell is as the edit says."""

    def __init__(self, **sources: str) -> None:
        self.cells = dict(sources)

    def insert(self, cell: str, source: str, above: str) -> CellStep:
        self._place(cell, source, above)
        return CellStep(cell, "code", None, source, above, [*self.cells].index(cell) + 1)

    def replace(self, cell: str, source: str) -> CellStep:
        names = [*self.cells]
        at = names.index(cell)
        step = CellStep(cell, "code", self.cells[cell], source, names[at - 1] if at else "", at + 1)
        self.cells[cell] = source
        return step

    def plan(self, *changes: CellsChange, touched: Touched = "") -> CellsPlan:
        return plan_cells(changes, [CellState(*cell) for cell in self.cells.items()], touched)

    def carry_out(self, plan: CellsPlan) -> None:
        for edit in plan.edits:
            assert self.cells.get(edit["cell"]) == edit["old"]
            if edit["source"] is None:
                del self.cells[edit["cell"]]
            elif edit["old"] is None:
                self._place(edit["cell"], edit["source"], edit["after"])
            else:
                self.cells[edit["cell"]] = edit["source"]
        plan.turn()

    def _place(self, cell: str, source: str, above: str) -> None:
        names = [*self.cells]
        names.insert(names.index(above) + 1 if above else 0, cell)
        self.cells = {name: self.cells.get(name, source) for name in names}


@pytest.fixture
def notebook() -> Notebook:
    return Notebook(load="rows = [1]", run="%agent go", plot="plot(rows)")


def test_a_cell_that_the_user_changed_is_asked_about_again_once_it_was_overwritten_and_redone(
    notebook: Notebook,
) -> None:
    change = CellsChange([notebook.replace("load", "rows = [2]"), notebook.insert("new", "1", "run")])
    notebook.cells |= {"load": "rows = ['mine']", "new": "mine"}
    users = dict(notebook.cells)
    for _ in range(2):
        assert notebook.plan(change).undecided == {"the 1st cell", "the 3rd cell"}
        notebook.carry_out(notebook.plan(change, touched="over"))
        assert notebook.cells == {"load": "rows = [1]", "run": "%agent go", "plot": "plot(rows)"}
        change = cells_from_json(json.loads(json.dumps(change.to_json())))  # as in another process
        notebook.carry_out(notebook.plan(change))
        assert notebook.cells == users
    assert notebook.plan(change, touched="keep").kept == {"the 1st cell", "the 3rd cell"}


def test_new_and_changed_cells_are_taken_back_and_done_once_more_in_their_places(notebook: Notebook) -> None:
    before = [*notebook.cells.items()]
    change = CellsChange(
        [
            notebook.insert("one", "x = 1", "run"),
            notebook.insert("two", "x = 2", "one"),
            notebook.replace("load", "rows = [2]"),
            notebook.insert("top", "# Title", ""),
        ]
    )
    after = [*notebook.cells.items()]
    assert change.summary == "the 3rd cell new, the 4th cell new, the 1st cell edited, the 1st cell new"
    for _ in range(2):
        undo = notebook.plan(change)
        notebook.carry_out(undo)
        assert [*notebook.cells.items()] == before
        assert undo.names == {
            "the 1st cell (removed)",
            "the 1st cell",
            "the 4th cell (removed)",
            "the 3rd cell (removed)",
        }
        redo = notebook.plan(change)
        notebook.carry_out(redo)
        assert [*notebook.cells.items()] == after
        assert redo.names == {
            "the 3rd cell (put back)",
            "the 4th cell (put back)",
            "the 1st cell",
            "the 1st cell (put back)",
        }


def test_several_steps_on_one_cell_are_planned_one_after_the_other(notebook: Notebook) -> None:
    before = dict(notebook.cells)
    first = CellsChange([notebook.insert("new", "1", "run")])
    second = CellsChange([notebook.replace("new", "2")])
    plan = notebook.plan(second, first)
    notebook.carry_out(plan)
    assert notebook.cells == before
    notebook.carry_out(notebook.plan(first, second))
    assert notebook.cells["new"] == "2"


def test_cells_are_found_wherever_they_have_moved(notebook: Notebook) -> None:
    change = CellsChange([notebook.insert("new", "1", "run")])
    notebook.cells = dict(reversed(notebook.cells.items()))
    notebook.carry_out(notebook.plan(change))
    assert [*notebook.cells] == ["plot", "run", "load"]


@pytest.mark.parametrize(
    ("touched", "source", "beside"),
    [("keep", "mine", []), ("over", "rows = [1]", []), ("both", "mine", ["rows = [1]"])],
)
def test_what_the_user_changed_since_is_asked_about(
    notebook: Notebook, touched: Touched, source: str, beside: list[str]
) -> None:
    change = CellsChange([notebook.replace("load", "rows = [2]"), notebook.insert("new", "1", "run")])
    notebook.cells["load"] = "mine"
    asked = notebook.plan(change)
    assert asked.undecided == {"the 1st cell"}
    plan = notebook.plan(change, touched=touched)
    notebook.carry_out(plan)
    assert plan.kept == ({"the 1st cell"} if touched != "over" else set())
    assert "new" not in notebook.cells
    assert notebook.cells["load"] == source
    assert [text for name, text in notebook.cells.items() if name not in ("load", "run", "plot")] == beside
    notebook.carry_out(notebook.plan(change))
    assert notebook.cells["load"] == "mine"
    assert [*notebook.cells] == ["load", "run", "new", "plot"]


def test_a_new_cell_that_the_user_has_deleted_needs_nothing(notebook: Notebook) -> None:
    change = CellsChange([notebook.insert("new", "1", "run")])
    del notebook.cells["new"]
    plan = notebook.plan(change)
    assert (plan.edits, plan.undecided) == ([], set())
    notebook.carry_out(plan)
    assert notebook.plan(change).edits == []
    assert change.is_empty


def test_a_changed_cell_that_the_user_has_deleted_is_asked_about(notebook: Notebook) -> None:
    change = CellsChange([notebook.replace("plot", "draw(rows)")])
    del notebook.cells["plot"]
    assert notebook.plan(change).undecided == {"a cell that is gone"}
    notebook.carry_out(notebook.plan(change, touched="over"))
    assert [*notebook.cells.items()][-1] == ("plot", "plot(rows)")


def test_a_cell_goes_to_the_end_when_the_one_above_is_gone(notebook: Notebook) -> None:
    change = CellsChange([notebook.insert("new", "1", "run")])
    notebook.carry_out(notebook.plan(change))
    del notebook.cells["run"]
    notebook.carry_out(notebook.plan(change))
    assert [*notebook.cells] == ["load", "plot", "new"]


def test_what_a_removed_cell_showed_and_whose_it_was_come_back_with_it(notebook: Notebook) -> None:
    change = CellsChange([notebook.insert("new", "1", "run")])
    plan = notebook.plan(change)
    notebook.carry_out(plan)
    shown = [{"output_type": "stream", "name": "stdout", "text": "1\n"}]
    mark = {"run": "1", "call": "2"}
    plan.keep_removed({"new": {"outputs": shown, "agent": mark}})
    assert [(edit["outputs"], edit.get("agent")) for edit in notebook.plan(change).edits] == [(shown, mark)]


def test_the_edits_of_a_plan_have_an_inverse(notebook: Notebook) -> None:
    change = CellsChange([notebook.insert("new", "1", "run"), notebook.replace("load", "2")])
    after = dict(notebook.cells)
    plan = notebook.plan(change)
    notebook.carry_out(plan)
    plan.edits[:] = plan.inverse()
    notebook.carry_out(plan)
    assert notebook.cells == after
    assert notebook.plan(change).edits, "it can be taken back as before"


def test_cells_that_are_left_are_forgotten(notebook: Notebook) -> None:
    change = CellsChange([notebook.insert("new", "1", "run")])
    plan = leave_cells([change])
    plan.turn()
    assert plan.kept == {"cells of the notebook"}
    assert notebook.plan(change).edits == []


class Place:
    """Variables, files and a notebook, with the history of all."""

    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.work.mkdir(exist_ok=True)
        self.names: dict[str, Any] = {"__name__": "__main__", "work": self.work}
        self.history = History(self.names)
        self.book = Book(Files(self.work, Contents(root / "kept")))
        self.notebook = Notebook(run="%agent go")

    def run(self, code: str, *cells: CellStep) -> None:
        files, variables = self.book.files.begin(), take(self.names, code, CheckpointBudget(30))
        exec(code, self.names)
        step = Step(code, "run", variables.close(), files.close(), self.book, CellsChange(cells) if cells else None)
        self.history.add(step, 1 << 30)

    def plan(self, steps: list[Step]) -> CellsPlan:
        return self.notebook.plan(*(step.cells for step in reversed(steps) if step.cells is not None))

    @property
    def state(self) -> object:
        files = {path.name: path.read_text() for path in self.work.iterdir()}
        return repr(self.names["rows"]), "rows_before" in self.names, files, dict(self.notebook.cells)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_move_whose_cells_could_not_be_changed_is_moved_back(place: Place) -> None:
    place.names["rows"] = [1]
    place.run("rows.append(2); (work / 'a').write_text('1')", place.notebook.insert("new", "x", "run"))
    place.run("rows.append(3)")
    before, steps = place.state, [*place.history.done]
    moved = place.history.undo(2, cells=place.plan(place.history.done))
    assert "the 2nd cell (removed)" in moved.names
    assert place.names["rows"] == [1]
    moved.back()
    assert place.state == before
    assert (place.history.done, place.history.undone) == (steps, [])
    assert place.plan(place.history.done).edits, "it can be taken back as before"


def test_a_move_back_leaves_what_the_user_has_changed_and_nothing_beside_it(place: Place) -> None:
    place.names["rows"] = [1]
    place.run("rows.append(2)", place.notebook.insert("new", "x", "run"))
    place.names["rows"].append("mine")
    before = place.state
    moved = place.history.undo(1, "both", cells=place.plan(place.history.done))
    assert "rows_before" in place.names
    moved.back()
    assert place.state == before
    assert place.history.done[0].touched() == {"rows"}


def test_another_process_takes_back_cells(place: Place, tmp_path: Path) -> None:
    place.names["rows"] = [1]
    place.run("rows.append(2)")
    place.run("pass", place.notebook.insert("new", "x", "run"), place.notebook.replace("run", "y"))
    later = Place(tmp_path)
    later.history.load(later.book)
    (step,) = later.history.done  # the other one changed nothing that is still there
    assert step.cells is not None
    assert step.summary == "the 2nd cell new, the 1st cell edited"
    plan = place.notebook.plan(step.cells)
    place.notebook.carry_out(plan)
    assert place.notebook.cells == {"run": "%agent go"}


KILLED = """
import json, sys
from pathlib import Path
from indus_nb.base.files import write_atomically
from indus_nb.kernel.undo import Book, CellsChange, CellState, CellStep, CheckpointBudget, Contents, Files, History
from indus_nb.kernel.undo import Step, plan_cells, take

root, book_of = Path(sys.argv[1]), Path(sys.argv[2])
names = {"work": root / "work"}
rows = names["rows"] = list(range(20_000))
history, book = History(names), Book(Files(root / "work", Contents(root / "kept")))
code = "rows.reverse()\\nfor path in work.iterdir(): path.write_bytes(path.read_bytes()[::-1] * 2)"
files, variables = book.files.begin(), take(names, code, CheckpointBudget(30))
exec(code, names)
cells = CellsChange([CellStep("new", "code", None, "x", "run"), CellStep("run", "code", "old", "new")])
history.add(Step("call", "run", variables.close(), files.close(), book, cells), 1 << 30)
book_of.write_text(json.dumps({"run": "new", "new": "x"}))
print("ready", flush=True)
while True:
    for side, move in ((history.done, history.undo), (history.undone, history.redo)):
        there = json.loads(book_of.read_text())
        plan = plan_cells([side[-1].cells], [CellState(*cell) for cell in there.items()], "")
        moved = move(1, cells=plan)
        for edit in plan.edits:  # in the place of a page
            there[edit["cell"]] = edit["source"]
        there = {name: source for name, source in there.items() if source is not None}
        write_atomically(book_of, json.dumps(there).encode())
        moved.finish()
"""


def test_a_process_that_is_killed_leaves_files_and_cells_each_as_before_or_after_and_the_rest_is_done_later(
    tmp_path: Path,
) -> None:
    work, notebook = tmp_path / "work", tmp_path / "book.json"
    work.mkdir()
    old = {f"{number}.bin": os.urandom(100_000) for number in range(6)}
    new = {name: data[::-1] * 2 for name, data in old.items()}
    cells = {"run": "old"}, {"run": "new", "new": "x"}
    seen: set[str] = set()
    for attempt in range(8):
        shutil.rmtree(tmp_path / "kept", ignore_errors=True)
        for name, data in old.items():
            (work / name).write_bytes(data)
        child = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path, notebook], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        watched = work / [*old][attempt % len(old)]
        while watched.stat().st_size != len(old[watched.name]):
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for name, data in old.items():
            found = (work / name).read_bytes()
            assert found in (data, new[name])
            seen.add("old" if found == data else "new")
        there = json.loads(notebook.read_text())
        assert there in cells

        names: dict[str, Any] = {}
        history, book = History(names), Book(Files(work, Contents(tmp_path / "kept")))
        history.load(book)
        (step,) = [*history.done, *history.undone]
        assert step.cells is not None
        plan = plan_cells([step.cells], [CellState(*cell) for cell in there.items()], "")
        files, sources = (old, cells[0]) if history.done else (new, cells[1])
        (history.undo if history.done else history.redo)(1, cells=plan).finish()
        for edit in plan.edits:
            there[edit["cell"]] = edit["source"]
        assert {name: source for name, source in there.items() if source is not None} == sources
        assert {path.name: path.read_bytes() for path in work.iterdir() if path.suffix == ".bin"} == files
    assert "old" in seen


@pytest.mark.parametrize("written", ["[[1, 2]]", '[["a", "code", 5, null, "", 1]]', "7"])
def test_cells_of_another_program_are_left_out(place: Place, tmp_path: Path, written: str) -> None:
    place.names["rows"] = []
    place.run("pass", place.notebook.insert("new", "x", "run"))
    path = tmp_path / "kept/steps.json"
    text = json.loads(path.read_text())["steps"]
    assert '"cells": [[' in text
    start = text.index('"cells": ') + len('"cells": ')
    steps = text[:start] + written + text[text.index("]]", start) + 2 :]
    path.write_text(json.dumps({"version": 2, "code": sealed(b"", steps.encode()).hex(), "steps": steps}))
    later = Place(tmp_path)
    later.history.load(later.book)
    assert later.history.done == []
