"""What must not be lost or paid in vain when something ends badly: a cut, a full budget, a display, a journal."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fanout_calls import Calling, asked, interrupted
from messages_api import Gate, MessagesApi, Reply, Text
from waiting import wait_until

from indus_nb import SessionOptions, agent
from indus_nb.base.errors import UsageError
from indus_nb.fanout import Journal, table_of
from indus_nb.fanout.mapping import Map
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.question import question
from indus_nb.fanout.reporting import Reporter

pytestmark = pytest.mark.usefixtures("in_work")


def asking(data: list[Any], **options: Any) -> Map:
    return Map(data, question("{item}", table_of(data), session=SessionOptions(), directory=Path("rows"), **options))


def test_what_was_cut_off_counts_against_the_budget_of_the_next_call(messages_api: MessagesApi) -> None:
    gate = Gate()
    messages_api.default = Reply(Text("begins ", gate, "ends"))

    async def cut_off() -> None:
        running = asyncio.ensure_future(agent.map_async("{item}", [1, 2], journal="j", max_cost=0.05))
        await asyncio.to_thread(gate.reached.wait, 240)
        await asyncio.to_thread(messages_api.wait_for_requests, 2)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(cut_off())
    gate.open()
    with Journal("j") as journal:
        assert 0.04 < journal.cost + journal.unconfirmed < 0.05
    done = agent.map("{item}", [1, 2], journal="j", max_cost=0.05, progress=False)
    assert done.failed == [0, 1]
    assert len(messages_api.requests) == 2
    assert "has no room" in str(done.rows[0].error)


def test_a_row_that_is_too_dear_is_refused_alone(messages_api: MessagesApi) -> None:
    messages_api.default = Reply("ok")
    done = agent.map("{item}", ["x" * 400_000, "a", "b"], max_cost=0.05, parallel=1, progress=False)
    assert list(done) == [None, "ok", "ok"]
    assert "The budget of $0.05 has no room: $0.0000 are spent, and the next request may cost $0." in str(
        done.rows[0].error
    )


def test_a_display_that_fails_is_left_out_and_the_rows_go_on(messages_api: MessagesApi) -> None:
    messages_api.default = lambda request: Reply(f"<{asked(request)}>")  # type: ignore[assignment]

    class Broken(Reporter):
        def show(self, progress: Progress) -> None:
            raise RuntimeError("no page")

        def end(self, progress: Progress | None) -> None:
            raise RuntimeError("no page")

    assert list(asking([1, 2, 3]).here(Broken())) == ["<1>", "<2>", "<3>"]


def test_a_stop_does_not_wait_for_requests_that_have_not_begun(messages_api: MessagesApi) -> None:
    messages_api.default = Reply("ok")

    class Stopping(Reporter):
        def begin(self, stop: Callable[[], None]) -> None:
            self._stop = stop

        def show(self, progress: Progress) -> None:
            if progress.done and not progress.stopping:
                self._stop()

    done = interrupted(lambda: asking([1, 2, 3, 4], parallel=4, rpm=1).here(Stopping()))
    assert list(done) == ["ok", None, None, None]
    assert ({row.error for row in done.rows}, len(messages_api.requests)) == ({None}, 1)


def test_a_file_has_one_writer_under_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(tmp_path / "journal")
    with Journal(tmp_path / "journal"), pytest.raises(UsageError, match="Another process writes"):
        Journal(tmp_path / "other")


def test_what_is_no_file_is_no_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no regular file"):
        Journal(tmp_path / "pipe")


def test_half_characters_are_replaced_before_a_row_is_asked_and_found() -> None:
    assert table_of(["x\ud800y"]).rows == ({"item": "x\ufffdy"},)


PROGRAM = """
import pathlib, time
from concurrent.futures import ProcessPoolExecutor
from indus_nb import agent

@agent.tool
def slow(text: str) -> str:
    "Take a while."
    pathlib.Path(f"began {text}").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return f"<{text}>"

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        try:
            done = agent.map("{item}", range(6), tools=["slow"], over=pool, parallel=2, progress=False)
        except KeyboardInterrupt:
            done = agent.interrupted
    print(list(done), done.problems)
"""


def test_an_interruption_of_a_terminal_leaves_the_workers_of_a_pool_at_work(
    home: Path, messages_api: MessagesApi
) -> None:
    Calling.on(messages_api, "slow")
    work = home / "work"
    (work / "program.py").write_text(PROGRAM)
    # Where a shell has started the tests in the background, Ctrl-C is switched off.
    switched_on = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = [sys.executable, "-c", f"{switched_on}runpy.run_path('program.py', run_name='__main__')"]
    program = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: len([*work.glob("began *")]) == 2)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    (work / "go").touch()
    said, _ = program.communicate()
    assert said == "['<0>', '<1>', None, None, None, None] ()\n"
    assert len(messages_api.requests) == 4
