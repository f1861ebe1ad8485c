"""What a call did to files is found, taken back and done once more, each file as a whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from indus_nb.kernel.undo import RefusedError, TouchedError, carry_out
from indus_nb.kernel.undo.contents import Contents
from indus_nb.kernel.undo.directory import Bounds
from indus_nb.kernel.undo.files import Files, FilesChange, change_from_json


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def files(root: Path, tmp_path: Path) -> Files:
    return Files(root, Contents(tmp_path / "kept"))


def move(change: FilesChange, **how: list[str]) -> frozenset[str]:
    writing = change.prepare(**how)
    carry_out([writing])
    return writing.names


def portrait(root: Path) -> dict[str, object]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else (path.read_bytes(), path.stat().st_mode)
        for path in sorted(root.rglob("*"))
    }


def test_what_the_code_is_not_known_to_have_changed_is_asked_about(root: Path, files: Files) -> None:
    for name in ("edited", "moved", "copied", "theirs"):
        (root / name).write_text(name)
    checkpoint = files.begin([root / "theirs too"])
    (root / "edited").write_text("anew")
    (root / "moved").rename(root / "here")
    (root / "made").mkdir()
    (root / "made/by a program").write_text("of its own")
    (root / "theirs too").write_text("as it was to be")
    shutil.copy(root / "copied", root / "copy")  # by something else
    (root / "copied").write_text("anew")
    (root / "theirs").write_text("anew")
    (root / "log").write_text("new")
    known = [str(root / name) for name in ("edited", "moved", "made", "copied")]
    change = checkpoint.close(known)
    assert change.summary.endswith(" (the last 3 perhaps by you or another program)")
    assert change.doubtful() == {"copy", "log", "theirs"}
    with pytest.raises(TouchedError) as refused:
        move(change)
    assert refused.value.names == ["copy", "log", "theirs"]
    again = change_from_json(json.loads(json.dumps(change.to_json())), files.contents)
    assert again.doubtful() == {"copy", "log", "theirs"}
    (root / "log").write_text("and more")
    assert change.doubtful() == {"copy", "theirs"}  # of the log the user is told that it was changed since
    move(again, keep=["copy", "log"], over=["theirs"])
    assert (root / "theirs").read_text() == "theirs"
    assert (root / "copy").read_text() == "copied"
    assert (root / "log").read_text() == "and more"
    assert sorted(path.name for path in root.iterdir()) == ["copied", "copy", "edited", "log", "moved", "theirs"]
    assert again.touched() == frozenset()


def test_content_mode_and_existence_are_taken_back_and_done_once_more(root: Path, files: Files) -> None:
    (root / "edited.py").write_text("one\n")
    (root / "gone.txt").write_text("gone")
    (root / "deep").mkdir()
    (root / "deep/also.csv").write_text("a,b\n")
    (root / "run.sh").write_text("echo")
    (root / "run.sh").chmod(0o644)
    before = portrait(root)
    checkpoint = files.begin()
    (root / "edited.py").write_text("two\n")
    (root / "gone.txt").unlink()
    (root / "deep/also.csv").unlink()
    (root / "deep").rmdir()
    (root / "run.sh").chmod(0o755)
    (root / "new/below").mkdir(parents=True)
    (root / "new/below/file").write_bytes(b"\0\1")
    after = portrait(root)
    change = checkpoint.close()
    assert change.summary == (
        "deep/also.csv deleted, edited.py edited, gone.txt deleted, new/below/file new, run.sh mode 644 → 755"
    )
    for _ in range(2):
        move(change)
        assert portrait(root) == before
        move(change)
        assert portrait(root) == after


def test_what_was_only_read_or_written_anew_with_the_same_content_is_no_change(root: Path, files: Files) -> None:
    (root / "same").write_text("same")
    checkpoint = files.begin([root / "same"])
    (root / "same").write_text("same")
    os.utime(root / "same", (1, 1))
    change = checkpoint.close()
    assert change.is_empty
    assert change.summary == ""


def test_what_the_user_changed_since_is_asked_about_by_content(root: Path, files: Files) -> None:
    (root / "a").write_text("1")
    (root / "b").write_text("1")
    checkpoint = files.begin()
    (root / "a").write_text("2")
    (root / "b").write_text("2")
    change = checkpoint.close()
    (root / "a").write_text("mine")
    os.utime(root / "b", (1, 1))
    with pytest.raises(TouchedError) as refused:
        move(change)
    assert refused.value.names == ["a"]
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("mine", "2")
    assert move(change, both=["a"]) == {"a.before", "b"}
    assert ((root / "a").read_text(), (root / "a.before").read_text(), (root / "b").read_text()) == ("mine", "1", "1")
    move(change)
    assert not (root / "a.before").exists()
    assert (root / "b").read_text() == "2"


def test_the_user_has_it_overwritten_or_left(root: Path, files: Files) -> None:
    for name in ("a", "b"):
        (root / name).write_text("1")
    checkpoint = files.begin()
    for name in ("a", "b"):
        (root / name).write_text("2")
    change = checkpoint.close()
    for name in ("a", "b"):
        (root / name).write_text("mine")
    move(change, keep=["a"], over=["b"])
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("mine", "1")
    move(change)
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("mine", "mine")


def test_nothing_outside_the_directory_is_written_unasked(root: Path, files: Files, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("1")
    checkpoint = files.begin([outside])
    outside.write_text("2")
    change = checkpoint.close()
    assert change.summary.endswith("outside.txt edited")
    with pytest.raises(TouchedError):
        move(change)
    assert outside.read_text() == "2"
    move(change, over=[str(outside)])
    assert outside.read_text() == "1"


def test_of_a_long_path_the_end_is_shown(root: Path, files: Files) -> None:
    below = root / ("a" * 60) / ("b" * 60)
    below.mkdir(parents=True)
    checkpoint = files.begin([])
    (below / "report.txt").write_text("1")
    summary = checkpoint.close().summary
    assert "b/report.txt new" in summary
    assert "a" * 60 not in summary.split("b/report.txt")[0]


def test_a_link_put_in_the_place_of_a_directory_is_not_followed(root: Path, files: Files, tmp_path: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub/a").write_text("1")
    checkpoint = files.begin()
    (root / "sub/a").write_text("2")
    change = checkpoint.close()
    (root / "sub").rename(tmp_path / "elsewhere")
    (root / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="link"):
        move(change)
    assert (tmp_path / "elsewhere/a").read_text() == "2"


def test_what_was_too_large_to_be_kept_is_named_and_left(root: Path, tmp_path: Path) -> None:
    files = Files(root, Contents(tmp_path / "kept"), Bounds(file_bytes=10))
    (root / "large").write_bytes(b"x" * 100)
    (root / "small").write_text("1")
    checkpoint = files.begin()
    (root / "large").write_bytes(b"y" * 100)
    (root / "small").write_text("2")
    change = checkpoint.close()
    assert change.summary == "large edited (cannot be undone: it was not kept), small edited"
    move(change)
    assert ((root / "large").read_bytes(), (root / "small").read_text()) == (b"y" * 100, "1")


def test_a_file_that_is_known_to_be_changed_is_kept_whatever_its_size(root: Path, tmp_path: Path) -> None:
    files = Files(root, Contents(tmp_path / "kept"), Bounds(file_bytes=10))
    (root / "large").write_bytes(b"x" * 100)
    checkpoint = files.begin([root / "large"])
    (root / "large").write_bytes(b"y" * 100)
    move(checkpoint.close())
    assert (root / "large").read_bytes() == b"x" * 100


def test_files_that_hold_keys_are_not_copied_ahead(root: Path, files: Files, tmp_path: Path) -> None:
    (root / ".env").write_text("PASSWORD=hunter2")
    checkpoint = files.begin()
    (root / ".env").write_text("PASSWORD=hunter3")
    change = checkpoint.close()
    assert change.summary == ".env edited (cannot be undone: it was not kept)"
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_directories_beyond_the_bounds_are_not_told_of(root: Path, tmp_path: Path) -> None:
    files = Files(root, Contents(), Bounds(entries=5))
    (root / "many").mkdir()
    checkpoint = files.begin()
    for number in range(20):
        (root / f"many/{number}").write_text("")
    (root / "here").write_text("")
    assert checkpoint.close().summary == "here new"


def test_a_failure_in_the_middle_leaves_every_file_as_it_was(root: Path, files: Files) -> None:
    for name in ("a", "b"):
        (root / name).write_text("1")
    checkpoint = files.begin()
    for name in ("a", "b"):
        (root / name).write_text("2")
    change = checkpoint.close()
    writing = change.prepare()
    (root / "b").unlink()
    (root / "b").mkdir()  # comes between the look and the write
    with pytest.raises(RefusedError):
        carry_out([writing])
    assert (root / "a").read_text() == "2"
    assert not change.undone


def test_another_process_goes_on_from_what_was_written_down(root: Path, files: Files, tmp_path: Path) -> None:
    (root / "a").write_text("1")
    checkpoint = files.begin()
    (root / "a").write_text("2")
    written = json.dumps(checkpoint.close().to_json())
    change = change_from_json(json.loads(written), Contents(tmp_path / "kept"))
    move(change)
    assert (root / "a").read_text() == "1"


def test_a_content_that_was_tampered_with_is_refused(root: Path, files: Files, tmp_path: Path) -> None:
    (root / "a").write_text("1")
    checkpoint = files.begin()
    (root / "a").write_text("2")
    change = checkpoint.close()
    for path in (tmp_path / "kept").iterdir():
        path.write_text("evil")
    with pytest.raises(RefusedError, match="no longer kept"):
        move(change)
    assert (root / "a").read_text() == "2"


KILLED = """
import json, sys
from pathlib import Path
from indus_nb.kernel.undo import carry_out
from indus_nb.kernel.undo.contents import Contents
from indus_nb.kernel.undo.files import change_from_json
change = change_from_json(json.loads(Path(sys.argv[1]).read_text()), Contents(Path(sys.argv[2])))
print("ready", flush=True)
while True:
    for _ in range(2):
        carry_out([change.prepare()])
"""


def test_a_process_that_is_killed_leaves_each_file_as_before_or_after(root: Path, files: Files, tmp_path: Path) -> None:
    names = [f"{number}.txt" for number in range(12)]
    old, new = {name: os.urandom(200_000) for name in names}, {name: os.urandom(300_000) for name in names}
    for name in names:
        (root / name).write_bytes(old[name])
    checkpoint = files.begin()
    for name in names:
        (root / name).write_bytes(new[name])
    change = checkpoint.close()
    (tmp_path / "step.json").write_text(json.dumps(change.to_json()))
    sides: set[str] = set()
    for attempt in range(10):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "step.json"), str(tmp_path / "kept")],
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        while (root / names[attempt]).stat().st_size != len(old[names[attempt]]):
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for name in names:
            found = (root / name).read_bytes()
            assert found in (old[name], new[name])
            sides.add("old" if found == old[name] else "new")
        move(change_from_json(change.to_json(), Contents(tmp_path / "kept")))  # completes what was begun
        assert all((root / name).read_bytes() == old[name] for name in names)
        assert {path.name for path in root.iterdir()} == {*names}
        for name in names:
            (root / name).write_bytes(new[name])
    assert sides == {"old", "new"}


def test_a_database_is_told_of_and_never_replaced(root: Path, files: Files) -> None:
    (root / "shop.db").write_text("1")
    (root / "a").write_text("1")
    checkpoint = files.begin()
    (root / "shop.db").write_text("2")
    (root / "new.sqlite").write_text("2")
    (root / "shop.db-journal").write_text("2")
    (root / "a").write_text("2")
    change = checkpoint.close()
    assert change.names == {"a"}
    assert change.left_out == {"shop.db": "a database", "new.sqlite": "a database"}


LONG_AGO = (1_700_000_000, 1_700_000_000)


def old(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, LONG_AGO)
    return path


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (".raw/data.csv", "data.csv"),
        ("../elsewhere.csv", "data.csv"),
        ("notes.ipynb", "notes.json"),
        ("large.bin", "other.bin"),
        ("large.bin", "deep/other.bin"),
        ("kept.db", "kept.bak"),
        (".env", "env.txt"),
        (".raw/data.csv", "there.csv"),
    ],
)
def test_a_file_that_was_moved_here_and_is_nowhere_else_is_left(root: Path, files: Files, was: str, now: str) -> None:
    content = "x" * (2 << 20 if was == "large.bin" else 20)
    source = old(root / was, content)
    old(root / "there.csv", "there")
    (root / "deep").mkdir()
    checkpoint = files.begin()
    source.rename(root / now)
    change = checkpoint.close()
    assert f"{now} {'edited' if now == 'there.csv' else 'new'} (cannot be undone: it may have been moved here)" in (
        change.summary
    )
    assert now in change.left_out
    move(change)
    assert (root / now).read_text() == content


def test_a_directory_that_was_not_looked_at_before_keeps_its_files(root: Path, files: Files) -> None:
    old(root / "env2/pyvenv.cfg", "home = /usr")
    old(root / "env2/mine.py", "mine")
    old(root / ".hidden/also.txt", "also")
    checkpoint = files.begin()
    (root / "env2/pyvenv.cfg").unlink()
    (root / ".hidden").rename(root / "shown")
    change = checkpoint.close()
    assert {*change.left_out} == {"env2/mine.py", "shown/also.txt"}
    move(change)
    assert (root / "env2/mine.py").read_text() == "mine"
    assert (root / "shown/also.txt").read_text() == "also"


def test_a_file_that_was_moved_and_then_written_to_is_left_too(root: Path, files: Files) -> None:
    large = old(root / "large.bin", "x" * (2 << 20))
    checkpoint = files.begin()
    large.rename(root / "other.bin")
    with (root / "other.bin").open("a") as file:
        file.write("more")
    change = checkpoint.close()
    move(change)
    assert (root / "other.bin").read_text().endswith("xmore")


def test_moves_and_copies_of_what_is_kept_are_taken_back(root: Path, files: Files) -> None:
    old(root / "small.txt", "small")
    old(root / "stays.txt", "stays")
    old(root / "large.bin", "x" * (2 << 20))
    old(root / "target.txt", "target")
    before = portrait(root)
    checkpoint = files.begin()
    (root / "small.txt").rename(root / "moved.txt")
    for name in ("stays.txt", "large.bin"):
        shutil.copy2(root / name, root / f"copy of {name}")
    shutil.copy2(root / "stays.txt", root / "target.txt")
    change = checkpoint.close()
    assert not change.left_out
    after = portrait(root)
    move(change)
    assert portrait(root) == before
    move(change)
    assert portrait(root) == after


def test_another_name_of_a_large_file_is_removed_and_the_file_stays(root: Path, files: Files) -> None:
    large = old(root / "large.bin", "x" * (2 << 20))
    checkpoint = files.begin()
    os.link(large, root / "linked.bin")
    change = checkpoint.close()
    move(change)
    assert [path.name for path in root.iterdir()] == ["large.bin"]


def test_of_more_files_than_a_step_takes_back_none_is_removed(
    root: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indus_nb.kernel.undo.files._MAX_FILES", 3)
    for number in range(3):
        old(root / f"z/{number}.txt", f"content {number}")
    checkpoint = files.begin()
    (root / "z").rename(root / "a")
    change = checkpoint.close()
    assert change.is_empty
    assert {*change.left_out.values()} == {"too many files"}
    assert (root / "a/2.txt").read_text() == "content 2"


def test_what_the_user_wrote_is_not_overwritten_where_there_is_no_room_to_keep_it(root: Path) -> None:
    files = Files(root, Contents(most=10))
    path = root / "text"
    path.write_text("before")
    checkpoint = files.begin()
    path.write_text("by agent")
    change = checkpoint.close()
    path.write_text("of the user's own, and longer")
    with pytest.raises(RefusedError, match="no room to keep what text holds now"):
        change.prepare(over=["text"])
    assert path.read_text() == "of the user's own, and longer"
    path.write_text("by agent")
    move(change)
    assert path.read_text() == "before"
