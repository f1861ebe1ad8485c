"""Functions of tools in the workers of an executor: what they give is read as ever, and a lost engine ends rows."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fanout_calls import Calling, interrupted
from messages_api import MessagesApi

from indus_nb import agent
from indus_nb.base.errors import IndusError, UsageError
from indus_nb.extend.api import Context
from indus_nb.tools.tool import ToolContext

pytestmark = [
    pytest.mark.usefixtures("in_work"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]


@pytest.fixture
def where() -> str:
    """A tool that says in which process it runs."""

    @agent.tool
    def where(text: str) -> str:
        """Say where it runs."""
        import os

        return f"{text} {os.getpid()}"

    return "where"


@pytest.mark.parametrize("way", ["spawn", "forkserver", "fork"])
def test_functions_run_in_the_workers_and_answers_come_in_order(
    messages_api: MessagesApi, where: str, way: str
) -> None:
    server = Calling.on(messages_api, where)
    with ProcessPoolExecutor(2, multiprocessing.get_context(way)) as pool:
        done = agent.map("{item}", range(10), tools=[where], over=pool)
        workers = {str(process) for process in pool._processes}
    assert (done.failed, done.problems) == ([], ())
    assert [str(value).split()[0] for value in done] == [str(number) for number in range(10)]
    assert {str(value).split()[1] for value in done} <= workers
    assert round(done.cost * 1e9) == server.dollars


def test_what_a_function_raises_is_read_by_the_model(messages_api: MessagesApi) -> None:
    @agent.tool
    def odd(text: str) -> str:
        """Fail for some."""
        if text == "1":
            raise LookupError("no such thing")
        return "fine"

    Calling.on(messages_api, "odd")
    with ProcessPoolExecutor(1) as pool:
        assert list(agent.map("{item}", [0, 1], tools=["odd"], over=pool)) == ["fine", "LookupError: no such thing"]


def test_a_killed_worker_ends_its_rows_with_a_sentence_and_a_new_engine_asks_them_again(
    messages_api: MessagesApi, tmp_path: Path
) -> None:
    flag = str(tmp_path / "killed")
    (tmp_path / "hold").touch()
    hold = str(tmp_path / "hold")

    @agent.tool
    def fatal(text: str) -> str:
        """Kill the worker, once; the other one goes no further than it was until it is ended."""
        import os
        import signal
        import time
        from pathlib import Path

        if text == "6" and not Path(flag).exists():
            Path(flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        while int(text) > 7 and Path(hold).exists():
            time.sleep(0.01)
        return f"<{text}>"

    server = Calling.on(messages_api, "fatal")
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        done = agent.map("{item}", range(40), tools=["fatal"], over=pool, parallel=2)
    # When the row that kills begins, at most one of those before it has not ended.
    assert len({f"<{number}>" for number in range(6)}.intersection(done)) >= 5
    assert done.rows[6].value is None
    assert str(done.rows[6].error).startswith("The engine ProcessPoolExecutor of concurrent is lost")
    assert "retry(over=...)" in str(done.rows[6].error)
    assert done.problems == (done.rows[6].error,)
    assert (list(done)[20:], {row.error for row in done.rows[20:]}) == ([None] * 20, {None})
    assert round(done.cost * 1e9) == server.dollars
    ended = len(done) - len(done.failed)
    lost = sum(row.error is not None for row in done.rows)
    # Rows that the engine did not answer have paid for one request each.
    assert len(messages_api.requests) == 2 * ended + lost
    (tmp_path / "hold").unlink()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        again = done.retry(over=pool)
    assert list(again) == [f"<{number}>" for number in range(40)]
    assert round(again.cost * 1e9) == server.dollars
    assert len(messages_api.requests) == 2 * 40 + lost


def test_the_model_reads_nothing_of_a_lost_engine(messages_api: MessagesApi) -> None:
    @agent.tool
    def fatal(text: str) -> str:
        """Kill the worker."""
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
        return text

    Calling.on(messages_api, "fatal")
    with ProcessPoolExecutor(1) as pool:
        done = agent.map("{item}", ["a"], result=int, tools=["fatal"], over=pool)
    assert done.failed == [0]
    assert len(messages_api.requests) == 1
    assert "is lost" not in Path(str(done.rows[0].session)).read_text()


def test_an_engine_that_takes_no_calls_is_said_before_any_row_is_asked(messages_api: MessagesApi, where: str) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(IndusError, match=r"ThreadPoolExecutor of concurrent is lost: cannot schedule"):
        agent.map("{item}", [1], tools=[where], over=pool)
    assert messages_api.requests == []


def test_a_function_that_cannot_travel_is_said_before_any_row_is_asked(messages_api: MessagesApi) -> None:
    lock = threading.Lock()

    @agent.tool
    def locked(text: str) -> str:
        """Hold a lock."""
        with lock:
            return text

    with ProcessPoolExecutor(1) as pool:
        with pytest.raises(UsageError, match=r"function of the tool locked cannot be sent .*leave it out"):
            agent.map("{item}", [1], tools=["locked"], over=pool)
        with pytest.raises(UsageError, match=r"over= takes an executor.*not a str"):
            agent.map("{item}", [1], tools=["locked"], over="pool")  # type: ignore[arg-type]
    assert messages_api.requests == []


def test_a_function_with_the_name_of_a_builtin_tool_is_said_before_any_row_is_asked(messages_api: MessagesApi) -> None:
    @agent.tool
    def read(text: str) -> str:
        """Read differently."""
        return text

    with ThreadPoolExecutor(1) as pool, pytest.raises(UsageError, match="tool named read"):
        agent.map("{item}", [1], tools=["read"], over=pool)
    assert messages_api.requests == []


def test_without_cloudpickle_a_function_of_a_notebook_says_what_to_install(
    messages_api: MessagesApi, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with ThreadPoolExecutor(1) as pool, pytest.raises(UsageError, match="Install cloudpickle"):
        agent.map("{item}", [1], tools=[where], over=pool)
    assert messages_api.requests == []


def test_functions_that_need_this_process_stay_here(messages_api: MessagesApi) -> None:
    @agent.tool
    def with_call(text: str, call: ToolContext) -> str:
        """Look at the call."""
        return f"{os.getpid()} {bool(call.call_id)} {text}"

    @agent.tool
    def with_session(text: str, context: Context) -> str:
        """Look at the session."""
        return f"{os.getpid()} {context is not None} {text}"

    @agent.tool
    async def waiting(text: str) -> str:
        """Wait."""
        return f"{os.getpid()} True {text}"

    with ProcessPoolExecutor(1) as pool:
        for tool in ("with_call", "with_session", "waiting"):
            Calling.on(messages_api, tool)
            assert list(agent.map("{item}", ["a"], tools=[tool], over=pool)) == [f"{os.getpid()} True a"]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C reaches this process, which a shell that started it in the background has switched off."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("interruptible")
def test_cancelling_cuts_off_calls_that_have_not_begun(messages_api: MessagesApi, tmp_path: Path) -> None:
    begun, opened = str(tmp_path / "begun"), str(tmp_path / "opened")

    @agent.tool
    def slow(text: str) -> str:
        """Wait until it is let go on."""
        import time
        from pathlib import Path

        with Path(begun).open("a") as file:
            file.write(text)
        while not Path(opened).exists():
            time.sleep(0.01)
        return text

    Calling.on(messages_api, "slow")

    def interrupt() -> None:
        import _thread
        import time

        messages_api.wait_for_requests(4)
        while not Path(begun).exists():
            time.sleep(0.01)
        _thread.interrupt_main()
        time.sleep(0.3)
        _thread.interrupt_main()

    with ThreadPoolExecutor(1) as pool:
        threading.Thread(target=interrupt).start()
        done = interrupted(lambda: agent.map("{item}", list("abcd"), tools=["slow"], over=pool, parallel=4))
        Path(opened).touch()
    assert len(Path(begun).read_text()) == 1
    assert list(done) == [None] * 4


@pytest.mark.usefixtures("interruptible")
def test_an_engine_without_a_free_worker_can_be_interrupted(messages_api: MessagesApi, where: str) -> None:
    free = threading.Event()

    class Watched(ThreadPoolExecutor):
        def submit(self, *call: Any, **options: Any) -> Any:
            import _thread

            try:
                return super().submit(*call, **options)
            finally:
                _thread.interrupt_main()

    with Watched(1) as pool:
        ThreadPoolExecutor.submit(pool, free.wait)
        done = interrupted(lambda: agent.map("{item}", range(3), tools=[where], over=pool))
        free.set()
    assert (list(done), messages_api.requests) == ([None] * 3, [])
