"""A test that hangs fails in the end, takes with it what it started, and keeps no other test from running."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from living import lives
from outcomes import VARIABLE, Outcomes, read

HANGING = """
import asyncio, os, pathlib, subprocess, sys, time
import pytest

CODE = "import os, pathlib, time; pathlib.Path({!r}).write_text(str(os.getpid())); time.sleep(1000)"

def child(name, **options):
    return subprocess.Popen([sys.executable, "-c", CODE.format(name)], **options)

def test_waits_for_a_child():
    with child("waited"):
        pass

def test_left_children_and_catches_what_is_raised():
    child("orphan", start_new_session=True, env={**os.environ})
    child("bare", env={})
    for _ in range(2):
        try:
            time.sleep(1000)
        except BaseException:
            pass

async def test_waits_in_the_event_loop():
    await asyncio.sleep(1000)

@pytest.fixture
def slow():
    time.sleep(1000)

def test_waits_in_a_fixture(slow):
    pass

def test_passes():
    pass
"""
UNWAKEABLE = """
import ctypes

def test_holds_the_interpreter():
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(256)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)

def test_never_runs():
    pass
"""
TESTS = Path(__file__).parent


def run(folder: Path, code: str, *options: str) -> tuple[str, Outcomes]:
    """Run tests within limits of two seconds; returns what pytest showed, and what became of them."""
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_hanging.py").write_text(code, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {shlex.quote(str(TESTS))}\nasyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\n",
        encoding="utf-8",
    )
    record = folder / "outcomes"
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    more = {VARIABLE: str(record), "INDUS_NB_TEST_SECONDS": "2", "INDUS_NB_TEST_SECONDS_AGAIN": "0.5"}
    # Of its own: the usual one below the temporary directory may be another user's.
    arguments = [sys.executable, "-m", "pytest", f"--basetemp={folder / 'temporary'}", *options, "test_hanging.py"]
    ended = subprocess.run(arguments, cwd=folder, env={**outside, **more}, capture_output=True, text=True, check=False)
    return ended.stdout, read(record)


def test_a_test_that_hangs_fails_and_what_it_started_is_killed(tmp_path: Path) -> None:
    shown, outcomes = run(tmp_path, HANGING)
    assert [test.removeprefix("test_hanging.py::") for test in outcomes.failed] == [
        "test_waits_for_a_child",
        "test_left_children_and_catches_what_is_raised",
        "test_waits_in_the_event_loop",
        "test_waits_in_a_fixture",
    ]
    assert "3 failed, 1 passed, 1 error" in shown
    assert "took longer than 2 seconds" in shown
    assert outcomes.complete
    for name in ("waited", "orphan", "bare"):
        assert not lives(int((tmp_path / name).read_text()))


def test_a_test_that_no_signal_wakes_ends_the_run_and_is_named(tmp_path: Path) -> None:
    limit = ("-o", "faulthandler_timeout=4", "-o", "faulthandler_exit_on_timeout=true")
    _, outcomes = run(tmp_path, UNWAKEABLE, "-n1", "--max-worker-restart=0", "--dist=loadgroup", *limit)
    assert outcomes.failed == ["test_hanging.py::test_holds_the_interpreter"]
    assert not outcomes.complete
