"""Steps in variables and files are taken back all of them or none, and what was written down is read again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from indus_nb.kernel.undo import (
    Book,
    CellsPlan,
    CheckpointBudget,
    Contents,
    Dropped,
    Files,
    History,
    RefusedError,
    Step,
    TouchedError,
    take,
)
from indus_nb.kernel.undo.cells import CellEdit
from indus_nb.kernel.undo.directory import SETTLED_NS
from indus_nb.kernel.undo.sealing import session_key


class Place:
    """Variables and files, with the history of both."""

    def __init__(self, root: Path) -> None:
        (root / "work").mkdir(exist_ok=True)
        self.work = root / "work"
        self.names: dict[str, Any] = {"__name__": "__main__", "work": self.work}
        self.history = History(self.names)
        self.book = Book(Files(self.work, Contents(root / "kept")), session_key(root / "agent", "1") or b"")

    def run(self, code: str, room: int = 1 << 30, run: str = "run") -> Dropped:
        files = self.book.files.begin()
        variables = take(self.names, code, CheckpointBudget(30))
        exec(code, self.names)
        return self.history.add(Step(code, run, variables.close(), files.close(), self.book), room)

    def read(self, name: str) -> str | None:
        path = self.work / name
        return path.read_text() if path.exists() else None


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_variables_and_files_of_several_steps_are_taken_back_together(place: Place) -> None:
    place.names["rows"] = [1]
    place.run("rows.append(2); (work / 'a').write_text('1')")
    place.run("rows.append(3); (work / 'a').write_text('2')")
    moved = place.history.undo(2)
    assert moved.names == {"a", "rows"}
    assert (place.names["rows"], place.read("a")) == ([1], None)
    place.history.redo(2)
    assert (place.names["rows"], place.read("a")) == ([1, 2, 3], "2")


def test_a_step_that_is_in_the_way_leaves_all_of_them_as_they_were(place: Place) -> None:
    place.names["rows"] = [1]
    place.run("rows.append(2); (work / 'a').write_text('1')")
    place.run("rows.append(3)")
    (place.work / "a").write_text("mine")
    with pytest.raises(TouchedError) as refused:
        place.history.undo(2)
    assert refused.value.names == ["a"]
    assert (place.names["rows"], place.read("a")) == ([1, 2, 3], "mine")
    place.history.undo(2, "keep")
    assert (place.names["rows"], place.read("a")) == ([1], "mine")


def test_the_question_names_all_that_the_user_changed_since_in_whichever_step(place: Place) -> None:
    place.names |= {"a": [1], "b": [1], "c": [1], "apart": [1]}
    place.run("a.append(2); (work / 'old').write_text('1')")
    place.run("b.append(2); apart.append(2)")
    place.run("c.append(2); (work / 'new').write_text('1')")
    for name in ("a", "b", "c"):
        place.names[name].append("mine")
    for name in ("old", "new"):
        (place.work / name).write_text("mine")
    with pytest.raises(TouchedError) as refused:
        place.history.undo(3)
    assert refused.value.names == ["a", "b", "c", "new", "old"]
    assert [place.names[name] for name in ("a", "b", "c", "apart")] == [[1, 2, "mine"]] * 3 + [[1, 2]]
    assert (place.read("old"), place.read("new")) == ("mine", "mine")
    place.history.undo(3, "over")
    for name in ("a", "b"):
        place.names[name].append("mine")
    with pytest.raises(TouchedError) as refused:
        place.history.redo(3)
    assert refused.value.names == ["a", "b"]
    assert [place.names[name] for name in ("a", "b", "c", "apart")] == [[1, "mine"]] * 2 + [[1]] * 2


@pytest.mark.parametrize("state", [False, True])
def test_the_question_names_what_the_user_changed_below_a_later_step_and_nothing_that_steps_did(
    place: Place, *, state: bool
) -> None:
    place.names |= {"both": [1], "x": [1], "calls": [1]}
    if state:
        place.history.save("raw")
    place.run("both.append(2); calls.append(2); (work / 'a').write_text('1'); (work / 'b').write_text('1')")
    place.names["both"].append("mine")
    (place.work / "a").write_text("mine")
    if state:
        place.history.settle()
    place.run(
        "both.append(3); calls.append(3); x.append(2); (work / 'a').write_text('2'); (work / 'b').write_text('2')"
    )
    place.names["x"].append("mine")
    was = (place.work / "a").stat()
    with pytest.raises(TouchedError) as refused:
        place.history.undo(2)
    assert refused.value.names == ["a", "both", "x"]
    assert (place.names["both"], place.names["calls"]) == ([1, 2, "mine", 3], [1, 2, 3])
    assert place.names["x"] == [1, 2, "mine"]
    assert (place.work / "a").stat().st_mtime_ns == was.st_mtime_ns, "it is not written for a question"
    place.history.undo(2, "over")
    assert [place.names[name] for name in ("both", "x", "calls")] == [[1]] * 3


def test_a_step_that_cannot_be_taken_back_hides_no_question_about_others(place: Place) -> None:
    place.names |= {"x": [1], "held": bytearray(b"1"), "y": [1]}
    for name in ("x", "held", "y"):
        place.run(f"{name}.append(2)")
    for name in ("x", "y"):
        place.names[name].append("mine")
    view = memoryview(place.names["held"])  # which cannot be resized while there is one
    with pytest.raises(TouchedError) as refused:
        place.history.undo(3)
    assert refused.value.names == ["x", "y"]
    with pytest.raises(RefusedError, match="re-sized"):
        place.history.undo(3, "over")
    assert (place.names["x"], bytes(view), place.names["y"]) == ([1, 2, "mine"], b"1\x02", [1, 2, "mine"])


def test_a_step_from_below_others_leaves_them_and_named_states_as_they_were(place: Place) -> None:
    place.names |= {"rows": [1], "others": [1]}
    place.run("rows.append(2); (work / 'a').write_text('1')", run="one 1")
    place.run("others.append(2); (work / 'b').write_text('1')", run="two 1")
    place.history.save("both")
    steps = place.history.newest_of("one", 1)
    assert place.history.above(steps) == (0, frozenset())
    place.history.undo(steps)
    assert (place.names["rows"], place.names["others"]) == ([1], [1, 2])
    assert (place.read("a"), place.read("b")) == (None, "1")
    assert [state.steps for state in place.history.states()] == [1]
    place.history.back("both")
    assert (place.names["rows"], place.names["others"], place.read("a")) == ([1, 2], [1, 2], "1")


def test_a_refused_step_from_below_leaves_named_states_as_near_as_they_were(place: Place) -> None:
    place.names |= {"rows": [1], "others": [1]}
    place.run("rows.append(2)", run="one 1")
    place.history.save("first")
    place.run("others.append(2)", run="two 1")
    steps = place.history.newest_of("one", 1)
    place.names["rows"].append("mine")
    with pytest.raises(TouchedError):
        place.history.undo(steps)
    place.names["rows"].pop()
    assert [(state.name, state.steps) for state in place.history.states()] == [("first", 1)]
    assert place.history.back("first").names >= {"others"}
    assert (place.names["rows"], place.names["others"]) == ([1, 2], [1])


def test_a_setting_of_a_library_counts_as_shared_by_the_steps_that_set_it(place: Place) -> None:
    name = "INDUS_NB_SHARED"
    for at in ("1", "2"):
        place.run(f"import os; os.environ[{name!r}] = {at!r}", run=f"session-{at} 1")
    steps = place.history.newest_of("session-1", 1)
    assert place.history.above(steps) == (1, frozenset({"environment variables"}))
    with pytest.raises(RefusedError, match="newer steps have changed the same"):
        place.history.undo(steps)
    assert os.environ[name] == "2"
    place.history.undo(2)
    assert name not in os.environ


def test_planned_steps_are_moved_whatever_was_made_since_or_none_is(place: Place) -> None:
    place.names |= {"rows": [1], "others": [1]}
    place.run("rows.append(2)", run="one 1")
    planned = place.history.done
    place.run("others.append(2)", run="two 1")
    place.history.undo(planned)
    assert (place.names["rows"], place.names["others"]) == ([1], [1, 2])
    with pytest.raises(RefusedError, match="moved or dropped since"):
        place.history.undo(planned)
    planned = place.history.undone
    place.history.undo(1)
    with pytest.raises(RefusedError, match="other steps were taken back since"):
        place.history.redo(planned)
    assert (place.names["rows"], place.names["others"]) == ([1], [1])


def test_a_prompts_steps_are_taken_from_below_without_the_users_cells(place: Place) -> None:
    place.names |= {"rows": [1], "mine": 0}
    place.run("rows.append(2)", run="one 1")
    place.run("rows.append(3)", run="one 2")
    place.run("rows.append(4)", run="one 2")
    variables = take(place.names, "mine = 1", CheckpointBudget(30))
    place.names["mine"] = 1
    cell = Step("cell", "cell 1", variables.close(), cell=1)
    place.history.add(cell, 1 << 30)
    assert place.history.newest_of("one", 0) == place.history.done[1:3]
    assert place.history.newest_of("one", 1) == [cell]


def test_what_is_made_while_a_page_is_asked_stays_when_the_move_is_reverted(place: Place) -> None:
    place.names |= {"rows": [1], "others": [1]}
    place.run("rows.append(2); (work / 'a').write_text('1')", run="one 1")
    edit = CellEdit(cell="1", type="code", old="x", source="y", after="", outputs=[])
    place.history.save("before")
    moved = place.history.undo(1, cells=CellsPlan([edit]))
    place.run("others.append(2)", run="two 1")
    place.history.save("since")
    moved.back()
    assert [step.run for step in place.history.done] == ["one 1", "two 1"]
    assert (place.names["rows"], place.names["others"], place.read("a")) == ([1, 2], [1, 2], "1")
    place.history.back("since")
    assert (place.names["rows"], place.names["others"], place.read("a")) == ([1], [1, 2], None)
    place.history.back("before")
    assert (place.names["rows"], place.names["others"], place.read("a")) == ([1, 2], [1], "1")


def test_a_file_of_which_the_metadata_was_compared_is_seen_to_change_in_size_and_time_that_stay(place: Place) -> None:
    place.run("(work / 'a').write_text('1')")
    path = place.work / "a"
    was = path.stat()
    (change,) = [step.files for step in place.history.done if step.files is not None]
    while time.time_ns() - was.st_ctime_ns <= 2 * SETTLED_NS:
        time.sleep(0.01)
    for _ in range(2):  # by its content, and then by its metadata
        assert change.since(set()) == ([], {})
    path.write_text("2")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    found, lost = change.since(set())
    assert (found, [*lost]) == ([], ["a"]), "what it held is kept nowhere"


def test_a_file_is_a_sessions_own_while_it_is_as_its_calls_left_it(place: Place) -> None:
    path = place.work / "a"
    place.run("(work / 'a').write_text('1')", run="one 1")
    assert place.history.has_made("one", path)
    assert not place.history.has_made("two", path)
    place.run("(work / 'a').write_text('2')", run="one 2")
    assert place.history.has_made("one", path)
    path.write_text("mine")
    assert not place.history.has_made("one", path)
    place.run("(work / 'a').write_text('3')", run="one 3")
    assert not place.history.has_made("one", path), "it was changed in between"
    place.run("(work / 'a').unlink()", run="one 4")
    assert not place.history.has_made("one", path)
    place.run("(work / 'a').write_text('4')", run="one 5")
    assert place.history.has_made("one", path)


@pytest.mark.parametrize("how", ["os.link(work / 'a', work / 'b')", "(work / 'a').rename(work / 'b')"])
def test_a_users_file_under_another_name_is_not_the_sessions_own(place: Place, how: str) -> None:
    (place.work / "a").write_text("mine")
    place.run(f"import os; {how}", run="one 1")
    assert not place.history.has_made("one", place.work / "b")
    (place.work / "a").unlink(missing_ok=True)
    assert not place.history.has_made("one", place.work / "b"), "though there is no other name of it"
    assert place.read("b") == "mine"


@pytest.mark.parametrize("before", ["", "(work / 'b').write_text('2')"])
@pytest.mark.parametrize(
    "move", ["(work / 'a').rename(work / 'b')", "(work / 'a').rename(work / 'b'); (work / 'b').write_text('3')"]
)
def test_a_file_that_was_moved_is_own_where_it_was_so_before(place: Place, before: str, move: str) -> None:
    (place.work / "a").write_text("mine")
    place.run(before, run="one 1")
    place.run(move, run="one 2")
    assert not place.history.has_made("one", place.work / "b")
    place.history.undo(2 if before else 1)
    (place.work / "a").unlink()
    place.run("(work / 'a').write_text('1')", run="one 3")
    place.run(before, run="one 4")
    place.run(move, run="one 5")
    assert place.history.has_made("one", place.work / "b")


def test_another_process_knows_from_which_file_one_was_moved(place: Place) -> None:
    (place.work / "a").write_text("mine")
    place.run("(work / 'a').rename(work / 'b'); (work / 'b').write_text('3')", run="one 1")
    later = History({})
    later.load(place.book)
    assert not later.has_made("one", place.work / "b")


def test_what_is_refused_is_still_asked_about_afterwards(place: Place) -> None:
    place.names["rows"] = [1]
    place.run("(work / 'a').write_text('1')")
    place.run("rows.append(2)")
    place.names["rows"].append("mine")
    (place.work / "a").unlink()
    (place.work / "a").mkdir()
    with pytest.raises(RefusedError):
        place.history.undo(2, "over")
    assert place.names["rows"] == [1, 2, "mine"]
    with pytest.raises(TouchedError) as refused:
        place.history.undo(1)
    assert refused.value.names == ["rows"]


def test_both_can_be_had_with_names_of_their_own(place: Place) -> None:
    place.names["rows"] = {"x": [1]}
    place.names["rows_before"] = "taken"
    (place.work / "a.py").write_text("old")
    place.run("rows['x'].append(2); (work / 'a.py').write_text('new')")
    place.names["rows"]["x"].append("mine")
    (place.work / "a.py").write_text("mine")
    moved = place.history.undo(1, "both")
    assert moved.beside == {"rows_before_", "a.before.py"}
    assert moved.kept == {"rows", "a.py"}
    assert place.names["rows"] == {"x": [1, 2, "mine"]}
    assert place.names["rows_before_"] == {"x": [1]}
    assert (place.read("a.py"), place.read("a.before.py")) == ("mine", "old")
    assert moved.fates == {}
    moved = place.history.redo(1)
    assert (moved.names, moved.fates) == ({"a.before.py"}, {"a.before.py": "removed"})
    assert place.history.undo(1).fates == {"a.before.py": "put back"}


USERS_OWN = pytest.mark.parametrize(
    ("code", "mine", "name", "look"),
    [
        ("rows.append(2)", "rows.append('mine')", "rows", "rows"),
        ("rows = [2]", "rows = ['mine']", "rows", "rows"),
        ("rows = [2]", "rows.append('mine')", "rows", "rows"),
        ("new = [2]", "new.append('mine')", "new", "globals().get('new')"),
        ("del rows", "rows = ['mine']", "rows", "globals().get('rows')"),
        ("(work / 'a').write_text('2')", "(work / 'a').write_text('mine')", "a", "(work / 'a').read_text()"),
        ("(work / 'a').unlink()", "(work / 'a').write_text('mine')", "a", "(work / 'a').exists()"),
    ],
)
"""Code of a call, what the user changes after it, and how to look at that."""


@USERS_OWN
@pytest.mark.parametrize("state", [False, True])
def test_what_the_user_changed_is_asked_about_again_once_it_was_overwritten_and_redone(
    place: Place, code: str, mine: str, name: str, look: str, *, state: bool
) -> None:
    def seen() -> Any:
        return repr(eval(look, place.names))

    place.names["rows"] = [1]
    (place.work / "a").write_text("1")
    before = seen()
    if state:
        place.history.save("raw")
    place.run(code)
    exec(mine, place.names)
    users = seen()
    for _ in range(2):
        with pytest.raises(TouchedError) as refused:
            place.history.undo(1)
        assert refused.value.names == [name]
        assert seen() == users
        place.history.undo(1, "over")
        assert seen() == before
        place.history.redo(1)
        assert seen() == users
    assert place.history.undo(1, "keep").kept == {name}
    assert seen() == users


def test_what_the_user_changed_before_a_redo_is_asked_about_again_as_well(place: Place) -> None:
    place.names["rows"] = [1]
    (place.work / "a").write_text("1")
    place.run("rows.append(2); (work / 'a').write_text('2')")
    place.history.undo(1)
    place.names["rows"].append("mine")
    (place.work / "a").write_text("mine")
    for _ in range(2):
        with pytest.raises(TouchedError) as refused:
            place.history.redo(1)
        assert refused.value.names == ["a", "rows"]
        place.history.redo(1, "over")
        assert (place.names["rows"], place.read("a")) == ([1, 2], "2")
        place.history.undo(1)
        assert (place.names["rows"], place.read("a")) == ([1, "mine"], "mine")


def test_another_process_asks_about_what_the_user_changed_in_a_file_before_it_was_overwritten(
    place: Place, tmp_path: Path
) -> None:
    (place.work / "a").write_text("1")
    place.run("(work / 'a').write_text('2')")
    (place.work / "a").write_text("mine")
    place.history.undo(1, "over")
    later = Place(tmp_path)
    later.history.load(later.book)
    later.history.redo(1)
    with pytest.raises(TouchedError):
        later.history.undo(1)
    assert later.read("a") == "mine"


def test_what_cannot_be_copied_is_refused_before_anything_is_changed(place: Place) -> None:
    place.names["held"] = [iter([1])]
    exec("class Own:\n    def __deepcopy__(self, memo): raise TypeError('no')", place.names)
    place.names["held"] = [place.names["Own"]()]
    place.run("held.append(1)")
    place.names["held"].append("mine")
    with pytest.raises(RefusedError, match="held cannot be copied"):
        place.history.undo(1, "both")
    assert place.names["held"][1:] == [1, "mine"]
    with pytest.raises(TouchedError):
        place.history.undo(1)


def test_the_oldest_steps_are_dropped_when_there_is_no_room(place: Place) -> None:
    place.names["data"] = bytearray(1000)
    assert place.run("data[0] = 1", room=3000) == (0, [])
    assert place.run("data[0] = 2", room=3000) == (1, [])
    assert len(place.history.done) == 1


def test_another_process_reads_what_was_done_to_files(place: Place, tmp_path: Path) -> None:
    place.run("(work / 'a').write_text('1')")
    place.run("(work / 'b').write_text('1')")
    place.history.undo(1)
    later = Place(tmp_path)
    later.history.load(later.book)
    assert later.history.undo(1).names == {"a"}
    assert later.history.redo(2).names == {"a", "b"}
    assert (later.read("a"), later.read("b")) == ("1", "1")


@pytest.mark.parametrize("change", ["steps", "key", "session", "format"])
def test_a_book_that_was_not_written_with_the_key_of_its_session_does_not_count(
    place: Place, tmp_path: Path, change: str
) -> None:
    (place.work / "a").write_text("old")
    place.run("(work / 'a').unlink()")
    later = Place(tmp_path)
    steps = tmp_path / "kept/steps.json"
    held = json.loads(steps.read_text())
    if change == "steps":
        held["steps"] = held["steps"].replace(str(place.work / "a"), str(tmp_path / "outside"))
    elif change == "format":
        held = {**json.loads(held["steps"]), "version": 1}
    else:
        key = session_key(tmp_path / ("other" if change == "key" else "agent"), "1" if change == "key" else "2")
        assert key is not None
        later.book.key = key
    steps.write_text(json.dumps(held))
    later.history.load(later.book)
    assert (later.history.done, later.history.undone) == ([], [])


@pytest.mark.parametrize("spoil", ["open", "link", "short", "directory", "pipe"])
def test_a_key_that_is_not_the_users_alone_is_none(tmp_path: Path, spoil: str) -> None:
    key = session_key(tmp_path, "1")
    path = tmp_path / "undo.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert key is not None
    assert session_key(tmp_path, "1") == key
    assert session_key(tmp_path, "2") != key
    assert [file.name for file in tmp_path.iterdir()] == ["undo.key"]
    if spoil == "open":
        path.chmod(0o644)
    elif spoil == "short":
        path.write_text("")
    else:
        path.unlink()
        makes: dict[str, Callable[[], object]] = {
            "link": lambda: path.symlink_to("nowhere"),
            "directory": path.mkdir,
            "pipe": lambda: os.mkfifo(path),
        }
        makes[spoil]()
    assert session_key(tmp_path, "1") is None


def test_processes_that_make_the_key_at_the_same_time_have_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = {*pool.map(lambda _: session_key(tmp_path, "1"), range(64))}
    assert len(keys) == 1
    assert keys != {None}


def test_contents_that_no_step_needs_are_dropped(place: Place, tmp_path: Path) -> None:
    (place.work / "a").write_text("old")
    place.run("(work / 'a').write_text('1')")
    place.history.undo(1)
    assert {path.read_text() for path in (tmp_path / "kept").glob("?" * 64)} == {"old", "1"}
    place.run("(work / 'b').write_text('2')")
    assert not [*(tmp_path / "kept").glob("?" * 64)]


def test_a_book_of_another_program_is_left_out(place: Place, tmp_path: Path) -> None:
    place.run("(work / 'a').write_text('1')")
    for content in ("[", "[]", '{"version": 2}', '{"version": 1, "done": [{}]}', "7" * 5000):
        (tmp_path / "kept/steps.json").write_text(content)
        later = Place(tmp_path)
        later.history.load(later.book)
        assert later.history.done == []


KILLED = """
import os, sys
from pathlib import Path
from indus_nb.kernel.undo import Book, Contents, Files, History
from indus_nb.kernel.undo.sealing import session_key
book = Book(Files(Path(sys.argv[1]), Contents(Path(sys.argv[2]))), session_key(Path(sys.argv[3]), "1"))
history = History({})
history.load(book)
def kill(event, args):
    if event == "os.rename" and str(args[0]).endswith(".undo"):
        os.kill(os.getpid(), 9)
sys.addaudithook(kill)
history.undo(1)
"""


def test_the_hidden_copy_that_a_killed_process_left_is_gone_when_another_one_goes_on(place: Place) -> None:
    (place.work / "a").write_text("old")
    place.run("(work / 'a').write_text('new')")
    kept = place.book.files.contents.directory
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(place.work), str(kept), str(kept.parent / "agent")], check=False
    )
    assert killed.returncode == -9
    assert (place.read("a"), len([*place.work.iterdir()])) == ("new", 2)
    History({}).load(place.book)
    assert [path.name for path in place.work.iterdir()] == ["a"]
    place.history.undo(1)
    assert place.read("a") == "old"


def test_a_file_that_undo_left_goes_back_with_a_state_which_says_what_it_has_lost(place: Place) -> None:
    (place.work / "a").write_text("old")
    place.history.save("raw")
    place.run("(work / 'a').write_text('new'); (work / 'b').write_text('new')")
    place.history.save("two")
    (place.work / "a").write_text("mine")
    place.history.undo(1, "keep")
    assert (place.read("a"), place.read("b")) == ("mine", None)
    with pytest.raises(TouchedError):
        place.history.back("raw")
    place.history.back("raw", "over")
    assert (place.read("a"), place.read("b")) == ("old", None)
    lost = {held.name: [*held.unsure] for held in place.history.states()}
    assert lost == {"raw": [], "two": ["a"], "last": []}  # what the call wrote was in the file alone
    place.history.back("last")
    assert (place.read("a"), place.read("b")) == ("mine", None)


def unsure(place: Place) -> dict[str, list[str]]:
    place.history.settle()
    return {held.name: [*held.unsure] for held in place.history.states()}


def test_a_file_that_the_user_changed_before_a_state_was_saved_is_as_in_it_until_it_changes_again(place: Place) -> None:
    place.run("(work / 'a').write_text('new')")
    place.history.save("two")
    (place.work / "a").write_text("mine")
    place.history.save("handy")
    assert unsure(place) == {"two": ["a"], "handy": []}
    (place.work / "a").write_text("later")
    assert unsure(place) == {"two": ["a"], "handy": ["a"]}
    (place.work / "a").write_text("mine")
    assert unsure(place) == {"two": ["a"], "handy": []}
    (place.work / "a").write_text("new")
    assert unsure(place) == {"two": [], "handy": ["a"]}


def test_a_step_on_the_way_brings_back_what_a_file_held_when_the_state_was_saved(place: Place) -> None:
    place.history.save("raw")
    place.run("(work / 'a').write_text('new')")
    (place.work / "a").write_text("mine")
    place.history.save("handy")
    place.history.settle()
    place.run("(work / 'a').write_text('newer')")
    assert unsure(place) == {"raw": [], "handy": []}
    place.history.back("handy")
    assert (place.read("a"), unsure(place)["handy"]) == ("mine", [])
    place.history.back("raw", "over")
    assert place.read("a") is None
    place.history.back("handy")
    assert (place.read("a"), unsure(place)) == ("mine", {"raw": [], "handy": [], "last": [], "last-2": []})


def test_a_step_on_the_way_does_not_hide_that_a_file_changed_between_the_save_and_that_step(place: Place) -> None:
    place.run("(work / 'a').write_text('new')")
    (place.work / "a").write_text("mine")
    place.history.save("handy")
    (place.work / "a").write_text("later")
    place.history.settle()
    place.run("(work / 'a').write_text('newest')")
    assert unsure(place) == {"handy": ["a"]}
    place.history.back("handy")
    assert (place.read("a"), unsure(place)["handy"]) == ("later", ["a"])


def test_what_undo_kept_of_a_file_saved_while_a_call_ran_is_as_in_the_state_saved_next(place: Place) -> None:
    place.run("(work / 'a').write_text('new')")
    (place.work / "a").write_text("mine")
    place.run("(work / 'a').write_text('newer')")
    place.history.undo(1)
    place.history.save("now")
    assert (place.read("a"), unsure(place)) == ("mine", {"now": []})
    (place.work / "a").write_text("later")
    assert unsure(place) == {"now": []}, "the step that was undone has kept it"
    place.history.back("now", "over")
    assert (place.read("a"), unsure(place)["now"]) == ("mine", [])


def test_a_file_too_large_to_be_kept_is_as_in_a_state_until_it_is_written_again(place: Place) -> None:
    place.run("(work / 'a').write_text('new')")
    large = place.work / "a"
    os.truncate(large, 65 << 20)
    place.history.save("large")
    assert unsure(place) == {"large": []}
    os.utime(large, ns=(1, 1))
    assert unsure(place) == {"large": ["a"]}


def test_a_variable_that_could_not_be_read_when_a_state_was_saved_is_no_loss_of_it(place: Place) -> None:
    place.run("import pandas; frame = pandas.DataFrame({'x': [1]})")
    place.run("frame['x'] = 2")
    place.history.save("whole")
    del place.names["frame"]._mgr
    place.history.save("broken")
    assert unsure(place) == {"whole": ["frame"], "broken": []}
