"""Functions of tools in the engines of ipyparallel."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import ipyparallel
import pytest
from fanout_calls import Calling
from messages_api import MessagesApi

from indus_nb import agent
from indus_nb.fanout import pulse

pytestmark = pytest.mark.usefixtures("in_work")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of two engines, whose files lie in a directory of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        with ipyparallel.Cluster(n=2, log_level=logging.CRITICAL) as client:
            yield client


def test_answers_come_in_order_from_its_engines(messages_api: MessagesApi, client: Any) -> None:
    @agent.tool
    def where(text: str) -> str:
        """Say where it runs."""
        import os

        return f"{text} {os.getpid()}"

    server = Calling.on(messages_api, "where")
    engines = {str(process) for process in client[:].apply_sync(os.getpid)}
    done = agent.map("{item}", range(20), tools=["where"], over=client.executor())
    assert (done.failed, done.problems) == ([], ())
    assert [str(value).split()[0] for value in done] == [str(number) for number in range(20)]
    assert {str(value).split()[1] for value in done} == engines
    assert round(done.cost * 1e9) == server.dollars


def test_an_executor_that_runs_a_call_everywhere_is_no_engine(messages_api: MessagesApi, client: Any) -> None:
    @agent.tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    Calling.on(messages_api, "echo")
    done = agent.map("{item}", ["a"], tools=["echo"], over=client[:].executor)
    assert "gave back list for one call of echo" in str(done.rows[0].error)
    assert len(messages_api.requests) == 1


def test_killed_engines_end_their_rows_and_without_any_no_more_begin(
    messages_api: MessagesApi, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(pulse, "PATIENCE_SECONDS", 5.0)
    here = os.getpid()

    @agent.tool
    def fatal(text: str) -> str:
        """Kill the engine that it runs in."""
        import os
        import signal

        if int(text) >= 4 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"<{text}>"

    server = Calling.on(messages_api, "fatal")
    done = agent.map("{item}", range(20), tools=["fatal"], over=client.executor(), parallel=1)
    assert list(done)[:5] == ["<0>", "<1>", "<2>", "<3>", None]
    errors = [row.error for row in done.rows if row.error is not None]
    assert "died while running" in errors[0]
    assert "ViewExecutor of ipyparallel" in errors[0]
    assert "no worker for" in errors[-1]
    assert done.problems == (errors[-1],)
    assert len(messages_api.requests) == 2 * 4 + len(errors)
    again = done.retry(over=None)
    assert list(again) == [f"<{number}>" for number in range(20)]
    assert round(again.cost * 1e9) == server.dollars
