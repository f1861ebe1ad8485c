"""The wait of a cell for the agent: whose thread does what, and what an interrupt does."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from indus_nb.base.errors import Interrupted
from indus_nb.core.session.dialogs import Ui
from indus_nb.front.notebook.cells.cell_dialogs import CellDialogs
from indus_nb.kernel.run import agent_thread as agent_thread_module
from indus_nb.kernel.run import main_thread
from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.tools import ToolError


@pytest.fixture(scope="module")
def agent_thread() -> AgentThread:
    return AgentThread()


def test_a_closed_thread_ends_with_its_tasks() -> None:
    agent_thread = AgentThread()
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("ended")

    async def begin() -> tuple[threading.Thread, asyncio.Task[None]]:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        return threading.current_thread(), task

    served, _ = agent_thread.drive(begin, Inbox(), nothing)
    agent_thread.close()
    served.join(10)
    assert not served.is_alive()
    assert ended == ["ended"]


def nothing() -> None:
    pass


def test_the_work_runs_in_the_agents_thread_and_jobs_in_the_callers(agent_thread: AgentThread) -> None:
    inbox, seen = Inbox(), []

    async def work() -> str:
        for number in range(3):
            inbox.put(lambda number=number: seen.append((number, threading.current_thread())))
        return threading.current_thread().name

    assert agent_thread.drive(work, inbox, nothing) == "indus_nb agent"
    assert seen == [(number, threading.current_thread()) for number in range(3)]


def test_the_caller_ticks_while_it_waits(agent_thread: AgentThread) -> None:
    ticks = []
    released = asyncio.Event()

    async def work() -> None:
        await released.wait()

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 5:
            agent_thread._loop.call_soon_threadsafe(released.set)

    agent_thread.drive(work, Inbox(), tick)
    assert len(ticks) >= 5


def test_the_caller_needs_nothing_to_tick(agent_thread: AgentThread) -> None:
    inbox, seen = Inbox(), []

    async def work() -> int:
        inbox.put(lambda: seen.append(threading.current_thread()))
        return 7

    assert agent_thread.drive(work, inbox) == 7
    assert seen == [threading.current_thread()]


def test_what_the_work_raises_is_raised(agent_thread: AgentThread) -> None:
    async def work() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        agent_thread.drive(work, Inbox(), nothing)


def test_work_that_exits_does_not_take_the_thread_along(agent_thread: AgentThread) -> None:
    async def leave() -> None:
        sys.exit(3)

    async def stay() -> int:
        return 7

    with pytest.raises(SystemExit):
        agent_thread.drive(leave, Inbox(), nothing)
    assert agent_thread.drive(stay, Inbox(), nothing) == 7


def test_the_work_sees_the_context_of_its_cell(agent_thread: AgentThread) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("cell 5")

    async def work() -> str:
        return variable.get()

    assert agent_thread.drive(work, Inbox(), nothing) == "cell 5"


def test_when_drawing_fails_the_work_is_stopped_first(agent_thread: AgentThread) -> None:
    stopped = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    def tick() -> None:
        raise ValueError("cannot draw")

    with pytest.raises(ValueError, match="cannot draw"):
        agent_thread.drive(work, Inbox(), tick)
    assert stopped == [True]


def test_an_interrupt_lets_the_work_end_in_order_and_is_then_raised(agent_thread: AgentThread) -> None:
    ended = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            ended.append(True)

    with pytest.raises(KeyboardInterrupt) as caught:
        agent_thread.drive(work, Inbox(), nothing)
    assert ended == [True]
    assert isinstance(caught.value, Interrupted)
    assert len(caught.value._render_traceback_()) == 1


def test_an_interrupt_cancels_the_work_before_the_waiting_thread_comes_round(agent_thread: AgentThread) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    class Busy(Inbox):
        """The waiting thread is interrupted, and comes to nothing else until the work is cancelled."""

        def get(self, block: bool = True, timeout: float | None = None) -> Callable[[], None]:
            if not cancelled.is_set():
                assert begun.wait()  # a task cancelled before its first step runs none of its body
                signal.raise_signal(signal.SIGINT)
                assert cancelled.wait()
            return super().get(block, timeout)

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(Interrupted):
        agent_thread.drive(work, Busy(), nothing)


def test_an_interrupt_counts_even_if_the_work_ended_at_that_moment(agent_thread: AgentThread) -> None:
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        agent_thread.drive(work, Inbox(), nothing)


def test_the_handler_of_interrupts_is_put_back(agent_thread: AgentThread) -> None:
    def mine(*_: object) -> None:
        pass

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    before = signal.signal(signal.SIGINT, mine)
    try:
        with pytest.raises(Interrupted):
            agent_thread.drive(work, Inbox(), nothing)
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_impatient_user_gets_away_from_work_that_does_not_stop(
    agent_thread: AgentThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_thread_module, "_REPEATED_CANCEL_SECONDS", 0.5)
    release = threading.Event()

    async def work() -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                os.kill(os.getpid(), signal.SIGINT)

    inbox = Inbox()

    async def body() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await work()

    began = time.monotonic()
    with pytest.raises(Interrupted, match="Restart the kernel"):
        agent_thread.drive(body, inbox, nothing)
    assert time.monotonic() - began > 0.5
    release.set()


def test_a_cell_in_another_thread_than_the_main_one_can_wait_too(agent_thread: AgentThread) -> None:
    async def work() -> int:
        return 4

    results: list[int] = []
    cell = threading.Thread(target=lambda: results.append(agent_thread.drive(work, Inbox(), nothing)))
    cell.start()
    cell.join()
    assert results == [4]


def test_no_interrupt_is_lost_however_it_falls() -> None:
    program = """
import asyncio, os, random, signal, threading, time
from indus_nb.kernel.run import main_thread
from indus_nb.kernel.run import agent_thread
from indus_nb.front.notebook.cells.cell_dialogs import CellDialogs
from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.base.errors import Interrupted
from indus_nb.tools import ToolError
from indus_nb.core.session.dialogs import Ui
agent_thread, caught = AgentThread(), 0
async def work():
    threading.Timer(random.random() / 50, os.kill, (os.getpid(), signal.SIGINT)).start()
    await asyncio.Event().wait()
for _ in range(60):
    try:
        agent_thread.drive(work, Inbox(), lambda: None)
    except Interrupted:
        caught += 1
print(caught)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "60"


class Noting:
    """Work that notes that it was done; ``before`` is called while it is prepared."""

    def __init__(self, before: Callable[[], None] = nothing) -> None:
        self.done = False
        self._before = before

    def prepare(self) -> bool:
        self._before()
        return False

    async def run(self, job: main_thread.Job) -> None:
        self.done = True


def press() -> None:
    """Interrupt now, on the main thread."""
    signal.raise_signal(signal.SIGINT)


def press_before_the_next_job(inbox: Inbox) -> None:
    """Hold the main thread until the caller has put its job and waits; then interrupt, and let it take that job."""
    placed = threading.Event()
    inbox.put(lambda: placed.wait(10) and None)
    inbox.put(press)
    asyncio.get_running_loop().call_soon(placed.set)


@pytest.mark.parametrize("moment", ["before the job is taken", "while it is prepared"])
def test_code_whose_cell_was_interrupted_a_moment_before_does_not_begin(
    agent_thread: AgentThread, moment: str, tmp_path: Path
) -> None:
    shell = InteractiveShell(ipython_dir=str(tmp_path), config=Config(HistoryManager={"enabled": False}))
    main = main_thread.MainThread(shell)
    inbox, inside = Inbox(), Noting(press if moment == "while it is prepared" else nothing)
    refusals: list[str] = []

    async def work() -> None:
        if moment == "before the job is taken":
            press_before_the_next_job(inbox)
        try:
            await main.do(inside)
        except ToolError as error:
            refusals.append(str(error))
            raise

    with main.serving(inbox), pytest.raises(Interrupted, match="was stopped"):
        agent_thread.drive(work, inbox, nothing)
    assert not inside.done
    assert all("Nothing was run" in refusal for refusal in refusals)
    main.close(nothing)


def test_a_question_whose_cell_was_interrupted_a_moment_before_is_not_asked(agent_thread: AgentThread) -> None:
    asked: list[str] = []
    inbox = Inbox()

    async def work() -> None:
        ui = Ui()
        dialogs = CellDialogs(ui, agent_thread, in_page=lambda _: False, inbox=inbox, show_notice=asked.append)
        dialogs.attach(asks=True)
        press_before_the_next_job(inbox)
        asked.append(str(await ui.confirm("Sure?", "Really?")))

    with pytest.raises(Interrupted, match="was stopped"):
        agent_thread.drive(work, inbox, nothing)
    assert asked in ([], ["False"])
