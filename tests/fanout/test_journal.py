"""The journal: what survives, what is asked again, and what is left alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from living import ending

from indus_nb.base.errors import UsageError
from indus_nb.fanout import Done, Journal, key_of

WRITER = """
import sys
from indus_nb.fanout import Done, Journal
with Journal("rows.jsonl") as journal:
    for number in range(len(journal), 100_000):
        journal.add(f"row {number}", Done({"text": "é" * (number % 300)}, cost=0.01))
        print(number, flush=True)
"""


def test_rows_are_read_again_with_all_that_came_of_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = {"a": Done([1, "é"], cost=0.25, session="a.jsonl"), "b": Done(None, "It failed.", 0.5), "c": Done(None)}
    with Journal(path) as journal:
        for key, done in rows.items():
            journal.add(key, done)
        journal.add("b", Done("better", cost=0.25))
    assert path.stat().st_mode & 0o077 == 0
    with Journal(path) as journal:
        assert (journal.get("a"), journal.get("b"), journal.get("c")) == (rows["a"], Done("better", cost=0.25), Done())
        assert (journal.get("d"), len(journal), journal.cost) == (None, 3, 1.0)
    assert (rows["a"].is_good, rows["b"].is_good) == (True, False)


def test_what_was_added_survives_kill_9_at_any_time(tmp_path: Path) -> None:
    chance = random.Random(3)
    kept = 0
    for _ in range(10):
        with ending(
            subprocess.Popen([sys.executable, "-c", WRITER], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        ) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randint(1, 40)):
                told = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
        with Journal(tmp_path / "rows.jsonl") as journal:
            assert len(journal) > told >= kept
            assert all(journal.get(f"row {number}") is not None for number in range(told + 1))
            kept = len(journal)
            assert journal.cost == pytest.approx(kept * 0.01)


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_a_torn_line_is_cut_off_and_the_row_is_asked_again(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rows.jsonl"
    with Journal(path) as journal:
        journal.add("a", Done("é"))
        journal.add("b", Done("é"))
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal(path) as journal:
        assert (journal.get("a"), journal.get("b")) == (Done("é"), None)
        journal.add("b", Done(2))
    with Journal(path) as journal:
        assert (journal.get("a"), journal.get("b")) == (Done("é"), Done(2))


def test_a_torn_header_is_written_anew_and_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"type":"fanout-jo')
    with Journal(path) as journal:
        journal.add("a", Done(1))
    with path.open("ab") as file:
        file.write(b'\xff\x00garbage\n[1]\n{"key": 3}\n{"key": "b", "value": 2, "cost": "dear", "error": 7}\n')
    with Journal(path) as journal:
        assert (journal.get("a"), journal.get("b"), len(journal)) == (Done(1), Done(2), 2)


@pytest.mark.parametrize(
    "content", [b"a,b\n1,2\n", b'{"type":"session"}\n', b"no line", b'{"type":"fanout-journal","version":9}\n']
)
def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"[Nn]ame another file"):
        Journal(path)
    assert path.read_bytes() == content


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    with Journal(tmp_path / "rows.jsonl"):
        done = subprocess.run(
            [sys.executable, "-c", WRITER], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
    assert "Another process writes to the journal" in done.stderr
    assert done.stdout == ""


def test_by_a_hard_link_no_second_process_writes_either(tmp_path: Path) -> None:
    with Journal(tmp_path / "first.jsonl") as journal:
        os.link(journal.path, tmp_path / "rows.jsonl")
        done = subprocess.run(
            [sys.executable, "-c", WRITER], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
    assert "Another process writes to the journal" in done.stderr


def test_a_mistyped_path_makes_no_folders(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"There is no folder {tmp_path}/new/folder for the journal rows"):
        Journal(tmp_path / "new" / "folder" / "rows.jsonl")
    assert [*tmp_path.iterdir()] == []


def test_a_journal_of_others_and_a_link_to_nothing_are_rejected(tmp_path: Path) -> None:
    path, link = tmp_path / "rows.jsonl", tmp_path / "link.jsonl"
    path.touch()
    path.chmod(0o666)
    with pytest.raises(UsageError, match="Other users can write to the journal"):
        Journal(path)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="which is not there"):
        Journal(link)
    assert not (tmp_path / "elsewhere").exists()


def remove(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace_by_a_copy(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.rename(path)


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def add_half_a_line(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"key": "torn')


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (remove, "had gone"),
        (Path.unlink, "had gone"),
        (replace_by_a_copy, "was replaced"),
        (cut_off, "was cut off by another program"),
        (add_half_a_line, None),
    ],
)
def test_what_others_do_to_the_file_loses_no_row(
    tmp_path: Path, change: Callable[[Path], None], problem: str | None
) -> None:
    (tmp_path / "journals").mkdir()
    path = tmp_path / "journals" / "rows.jsonl"
    with Journal(path) as journal:
        for key, done in (("a", Done(None, "It failed.", 0.25)), ("a", Done(1, cost=0.5)), ("b", Done(2, cost=0.5))):
            journal.add(key, done)
        change(path)
        journal.add("c", Done(3, cost=0.5))
        journal.add("d", Done(4, cost=0.5))
        assert [f"{problem} while rows were asked, and was written anew" in text for text in journal.problems] == (
            [True] if problem else []
        )
    with Journal(path) as journal:
        assert [journal.get(key) for key in "abcd"] == [Done(n, cost=0.5) for n in (1, 2, 3, 4)]
        assert (journal.cost, journal.times("a")) == (2.25, 2)


def test_another_file_in_the_place_of_the_journal_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with Journal(path) as journal:
        journal.add("a", Done(1))
        path.unlink()
        path.write_text("mine\n")
        with pytest.raises(OSError, match="another file has taken its place"):
            journal.add("b", Done(2))
    assert path.read_text() == "mine\n"


def test_a_copy_that_others_can_write_to_is_not_written_and_ends_no_map_with_an_exception_of_its_own(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.jsonl"
    with Journal(path) as journal:
        journal.add("a", Done(1))
        replace_by_a_copy(path)
        path.chmod(0o622)
        for _ in range(2):
            with pytest.raises(OSError, match="Other users can write to the journal"):
                journal.add("b", Done(2))
        path.chmod(0o600)
        journal.add("b", Done(2))
    with Journal(path) as journal:
        assert [journal.get(key) for key in "ab"] == [Done(1), Done(2)]


def test_a_disk_that_is_full_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    with Journal(path) as journal:
        journal.add("a", Done(1))
        before = path.read_bytes()
        write = os.write
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:10]) if len(data) > 10 else _full())
        with pytest.raises(OSError, match="full"):
            journal.add("b", Done(2))
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert journal.get("b") is None
        journal.add("b", Done(2))
    with Journal(path) as journal:
        assert journal.get("b") == Done(2)


def _full() -> int:
    raise OSError(28, "the disk is full")


def test_a_key_changes_with_each_of_its_parts() -> None:
    one = key_of(prompt="a", row={"x": 1}, model="m")
    assert one == key_of(model="m", row={"x": 1}, prompt="a")
    others = [key_of(prompt="b", row={"x": 1}, model="m"), key_of(prompt="a", row={"x": "1"}, model="m")]
    assert len({one, *others, key_of(prompt="a", row={"x": 1})}) == 4
