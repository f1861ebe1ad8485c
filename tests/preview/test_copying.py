"""A copy that is given up leaves nothing, and nothing of it is closed that others may use by then."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest
from waiting import until

from indus_nb.kernel.preview import Copy, Report, Send, Stop, copying
from indus_nb.kernel.undo.objects import libraries
from indus_nb.safety.effects import Effect
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")


class Nothing:
    """A task that does nothing."""

    def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
        pass

    def report(self) -> Report:
        return Report()


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def on_a_loop(do: Callable[[], None]) -> None:
    async def whole() -> None:
        do()

    thread = threading.Thread(target=lambda: asyncio.run(whole()))
    thread.start()
    thread.join()


def test_a_fork_that_is_given_up_meanwhile_is_ended_by_the_thread_that_forks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, processes = descriptors(), children()
    copy, forked = Copy(5, []), copying._forked
    files: list[TextIO] = []

    def slow() -> int:
        on_a_loop(copy.abandon)
        files.extend((tmp_path / f"{number}.txt").open("w") for number in range(8))
        return forked()

    monkeypatch.setattr(copying, "_forked", slow)
    copy.fork(Nothing())
    for file in files:
        file.write("mine")
        file.close()  # an error if its descriptor was closed
    assert {path.read_text() for path in tmp_path.glob("*.txt")} == {"mine"}
    assert (copy.begun, descriptors(), children()) == (False, before, processes)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


@pytest.mark.parametrize("forks", ["not", "later", "before"])
def test_a_copy_that_is_abandoned_leaves_nothing(forks: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, processes = descriptors(), children()
    copy = Copy(5, [])
    if forks == "before":
        copy.fork(Nothing())
        assert copy.begun
    on_a_loop(copy.abandon)  # which waits for its executor
    on_a_loop(copy.abandon)
    if forks == "later":
        copy.fork(Nothing())
    assert (copy.begun, descriptors(), children()) == (False, before, processes)
    assert [*tmp_path.iterdir()] == []


def test_a_copy_that_is_followed_reports_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, processes = descriptors(), children()
    copy = Copy(20, [("/", False)])
    copy.fork(Nothing())
    assert asyncio.run(copy.follow(lambda _, __: None)).how in ("done", "none")
    assert (descriptors(), children()) == (before, processes)
    assert [*tmp_path.iterdir()] == []


class Following:
    """A task that tells whether the copy knows of large arrays by their pages whether it writes to them."""

    def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
        pass

    def report(self) -> Report:
        return Report(outcome=str(libraries._pages is not None))


async def test_each_copy_knows_its_own_pages_however_soon_this_process_goes_on() -> None:
    found: list[str] = []
    for _ in range(10):
        copy = Copy(20, [])
        copy.fork(Following())
        report = await copy.follow(lambda *_: None)
        found.append(report.outcome or report.why)
    assert found == ["True"] * 10


async def test_nothing_is_left_of_one_whose_making_was_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def held() -> list[str]:
        links: list[str] = []
        for each in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                links.append(str(each.readlink()))
        return sorted(link for link in links if link.startswith(("pipe:", str(tmp_path))))

    made: list[int] = []

    class Noted(Copy):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(1)

    before = held()
    making = [asyncio.create_task(Noted.made(1.0, [])) for _ in range(5)]
    await asyncio.sleep(0)
    for each in making:
        each.cancel()
    await asyncio.gather(*making, return_exceptions=True)
    await until(lambda: len(made) == len(making) and held() == before and not [*tmp_path.iterdir()])
