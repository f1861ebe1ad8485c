"""Locks of files: one holder at a time, among programs too, and nothing left of them."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from living import ending

from indus_nb.base.locks import FileLock, HeldError

_COUNTS = """
import sys
from pathlib import Path
from indus_nb.base.locks import FileLock

counter = Path(sys.argv[1])
for _ in range(100):
    with FileLock(counter, seconds=60):
        counter.write_text(str(int(counter.read_text()) + 1))
"""
_HOLDS = """
import sys
from pathlib import Path
from indus_nb.base.locks import FileLock

lock = FileLock(Path(sys.argv[1]), note="somebody")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "counter"


def test_programs_that_take_turns_lose_nothing_and_leave_nothing(path: Path) -> None:
    path.write_text("0")
    programs = [subprocess.Popen([sys.executable, "-c", _COUNTS, path]) for _ in range(4)]
    assert [program.wait() for program in programs] == [0] * 4
    assert path.read_text() == "400"
    assert [*path.parent.iterdir()] == [path]


def test_who_holds_it_is_told_and_a_killed_holder_holds_it_no_more(path: Path) -> None:
    command = [sys.executable, "-c", _HOLDS, path]
    with ending(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HeldError) as told:
            FileLock(path)
        assert told.value.note == "somebody"
        holder.kill()
        holder.wait()
        FileLock(path).release()
    assert not [*path.parent.iterdir()]


def test_one_that_waits_has_it_after_the_release(path: Path) -> None:
    first = FileLock(path)
    assert first.is_held
    threading.Timer(0.1, first.release).start()
    with FileLock(path, seconds=60) as second:
        assert not first.is_held
        assert second.is_held
    first.release()
    second.release()


def test_a_lock_whose_file_somebody_has_replaced_leaves_that_one(path: Path) -> None:
    lock = FileLock(path)
    lock.path.unlink()
    lock.path.write_text("another one's")
    lock.release()
    assert lock.path.read_text() == "another one's"
