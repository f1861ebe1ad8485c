"""Which files code has changed is known from what Python opens, moves and deletes for it."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from queue import Queue

import pytest

from indus_nb.kernel.toolset.writes import Writes


def test_paths_that_code_opens_for_writing_moves_and_deletes_are_known(tmp_path: Path) -> None:
    for name in ("read", "moved", "deleted"):
        (tmp_path / name).touch()
    writes = Writes()
    (tmp_path / "read").read_text()
    (tmp_path / "written").write_text("1")
    (tmp_path / "moved").rename(tmp_path / "here")
    (tmp_path / "deleted").unlink()
    (tmp_path / "directory").mkdir(exist_ok=True)
    subprocess.run(["touch", tmp_path / "by a program"], check=True)
    writer = threading.Thread(target=(tmp_path / "in a thread").touch)
    writer.start()
    writer.join()
    changed = {Path(path).name for path in writes.end() if Path(path).parent == tmp_path}
    assert changed == {"written", "moved", "here", "deleted", "in a thread"}
    (tmp_path / "later").touch()
    assert str(tmp_path / "later") not in writes.end()


def test_threads_from_before_and_what_other_calls_change_are_left_out(tmp_path: Path) -> None:
    todo, done = Queue[Path](), Queue[None]()

    def work() -> None:
        todo.get().touch()
        done.put(None)

    threading.Thread(target=work).start()
    first = Writes()
    second = Writes()
    todo.put(tmp_path / "of the user's thread")
    done.get()
    (tmp_path / "own").touch()
    (tmp_path / "of another call").touch()
    first.leave_out([tmp_path / "of another call"])
    changed, of_second = first.end(), second.end()
    assert str(tmp_path / "own") in changed
    assert {str(tmp_path / name) for name in ("of the user's thread", "of another call")}.isdisjoint(changed)
    assert str(tmp_path / "of another call") in of_second


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not say which files are open")
def test_a_file_that_another_program_changes_once_the_code_has_closed_it_is_known(tmp_path: Path) -> None:
    shared, again, held = (tmp_path / name for name in ("shared", "again", "held"))
    writes = Writes()
    shared.write_text("own")
    with held.open("w") as file:
        before = time.monotonic() + 20
        while not writes.by_others and time.monotonic() < before:
            subprocess.run(["sh", "-c", f"echo theirs >> {shared}"], check=True)
            again.write_text(f"own {time.monotonic()}")
            file.write("own\n")
            file.flush()
    assert {*map(str, (shared, again, held))} <= writes.end()
    assert writes.by_others == {str(shared)}
