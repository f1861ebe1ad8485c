"""A limit of time for every test: one that passes it fails, what it started is killed, and the run goes on.

What a test has started that fails for another reason is killed as well.

Setup, call and teardown have the limit each. The failure is raised where the test waits, once more every now and then
for one that catches it or waits in its cleanup. What no signal can wake ends the run, with the stacks of all threads
(``faulthandler_timeout`` in pyproject.toml).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Generator, Iterator
from types import FrameType

import psutil
import pytest
from leftovers import kill, marked

SECONDS = float(os.environ.get("INDUS_NB_TEST_SECONDS") or 300)
"""Far more than any test takes on a busy machine: only what hangs should meet it."""
SECONDS_AGAIN = float(os.environ.get("INDUS_NB_TEST_SECONDS_AGAIN") or 20)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise a failure in the code within when its time is over, wherever it waits."""
    began = time.time()
    over = f"It took longer than {SECONDS:g} seconds. What it had started was killed."
    met = False

    def fail(_signal: int, _frame: FrameType | None) -> None:
        nonlocal met
        met = True
        for process in started_since(began):
            kill(process)
        pytest.fail(over)

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS_AGAIN)
    try:
        yield
    except (Exception, pytest.fail.Exception):
        for process in started_since(began):  # what waits for the test to go on waits in vain
            kill(process)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if met:
        pytest.fail(over)


def started_since(began: float) -> list[psutil.Process]:
    """Find the processes of this part of this test: by pytest's mark in their environment, which outlives parents.

    Those whose environment was made for them have none; of them it is the descendants that are young enough. What
    earlier parts started, such as a kernel that a whole file shares, has another mark and is left; so are the processes
    of a browser that a whole file shares, which is lost with one of them.
    """
    mark = "PYTEST_CURRENT_TEST"

    def is_ours(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            is_young = process.create_time() > began - 1  # clocks differ by less
            return is_young and mark not in process.environ() and not is_of_browser(process)
        return False

    def is_of_browser(process: psutil.Process) -> bool:
        return "chrom" in process.name() and any("--type=" in argument for argument in process.cmdline())

    own = psutil.Process()
    return [*marked(mark, os.environ.get(mark, "")), *filter(is_ours, own.children(recursive=True))]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    with limited():
        return (yield)
