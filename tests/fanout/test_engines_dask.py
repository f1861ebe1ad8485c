"""Functions of tools, and frames, in the workers of Dask."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster
from fanout_calls import Calling
from messages_api import MessagesApi

from indus_nb import agent
from indus_nb.base.errors import IndusError
from indus_nb.fanout import pulse

pytestmark = pytest.mark.usefixtures("in_work")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client of two workers that are processes; a call that kills its worker is not tried again."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def where() -> str:
    """A tool that says in which process it runs."""

    @agent.tool
    def where(text: str) -> str:
        """Say where it runs."""
        import os

        return f"{text} {os.getpid()}"

    return "where"


def test_answers_come_in_order_from_its_workers(messages_api: MessagesApi, client: Client, where: str) -> None:
    server = Calling.on(messages_api, where)
    workers = {str(process) for process in client.run(os.getpid).values()}
    done = agent.map("{item}", range(20), tools=[where], over=client.get_executor())
    assert (done.failed, done.problems) == ([], ())
    assert [str(value).split()[0] for value in done] == [str(number) for number in range(20)]
    assert {str(value).split()[1] for value in done} <= workers
    assert round(done.cost * 1e9) == server.dollars


def test_equal_calls_each_run(messages_api: MessagesApi, client: Client, tmp_path: Path) -> None:
    log = str(tmp_path / "log")

    @agent.tool
    def note(text: str) -> str:
        """Note that it was called."""
        from pathlib import Path

        with Path(log).open("a") as file:
            file.write(text)
        return text

    Calling.on(messages_api, "note")
    agent.map("{item}", ["x"] * 5, tools=["note"], over=client.get_executor())
    assert Path(log).read_text() == "xxxxx"


def test_a_killed_worker_ends_its_row_and_holds_no_permit(
    messages_api: MessagesApi, client: Client, tmp_path: Path
) -> None:
    flag = str(tmp_path / "killed")

    @agent.tool
    def fatal(text: str) -> str:
        """Kill the worker, once."""
        import os
        from pathlib import Path

        if text == "2" and not Path(flag).exists():
            Path(flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return f"<{text}>"

    server = Calling.on(messages_api, "fatal")
    # One request at a time, and money for one: a permit that the dead worker kept would let nobody pass.
    limits: dict[str, Any] = {"parallel": 1, "max_cost": 0.03}
    done = agent.map("{item}", range(6), tools=["fatal"], over=client.get_executor(), **limits)
    assert list(done) == ["<0>", "<1>", None, "<3>", "<4>", "<5>"]
    assert str(done.rows[2].error).startswith("fatal was not carried out by ClientExecutor of distributed")
    assert (done.problems, len(messages_api.requests)) == ((), 11)
    again = done.retry(over=client.get_executor())
    assert list(again) == [f"<{number}>" for number in range(6)]
    assert round(again.cost * 1e9) == server.dollars


@contextlib.contextmanager
def _own_cluster(directory: Path) -> Iterator[tuple[Client, subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """A scheduler and a worker that nobody restarts, as processes."""
    file = directory / "scheduler.json"
    command = [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": directory}
    at = ["--scheduler-file", str(file), "--no-dashboard"]
    with contextlib.ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []
        for more in (["scheduler", "--port", "0"], ["worker", "--no-nanny", "--nthreads", "1"]):
            process = stack.enter_context(subprocess.Popen([*command, *more, *at], **quiet))
            stack.callback(process.kill)
            started.append(process)
            while not file.exists():
                time.sleep(0.02)
        client = stack.enter_context(Client(scheduler_file=str(file), timeout=30))
        client.wait_for_workers(1, 60)
        yield client, started[0], started[1]


@pytest.mark.parametrize(("victim", "reason"), [("scheduler", "of distributed is lost"), ("worker", "no worker for")])
def test_what_nobody_restarts_is_not_waited_for(
    messages_api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str, reason: str
) -> None:
    monkeypatch.setattr(pulse, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(pulse, "PATIENCE_SECONDS", 3.0)
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), _own_cluster(tmp_path) as (client, *processes):
        doomed, here = processes[victim == "worker"].pid, os.getpid()

        @agent.tool
        def fatal(text: str) -> str:
            """Kill what is to be killed."""
            import os
            import signal
            import time

            if text == "3" and os.getpid() != here:
                os.kill(doomed, signal.SIGKILL)
                time.sleep(60)
            return f"<{text}>"

        server = Calling.on(messages_api, "fatal")
        done = agent.map("{item}", range(30), tools=["fatal"], over=client.get_executor(), parallel=2)
        # When the fourth row begins, at most one of the three before it has not ended.
        assert len({"<0>", "<1>", "<2>"}.intersection(done)) >= 2
        assert reason in str(done.rows[3].error)
        assert done.problems == (done.rows[3].error,)
        assert list(done)[10:] == [None] * 20
        assert round(done.cost * 1e9) == server.dollars
        if victim == "scheduler":
            with pytest.raises(IndusError, match="ClientExecutor of distributed is lost"):
                done.retry(over=client.get_executor())
    assert list(done.retry(over=None)) == [f"<{number}>" for number in range(30)]
