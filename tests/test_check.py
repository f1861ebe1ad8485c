"""The test command ends whatever it runs, runs all of it, and says what failed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import check
import pytest
from living import lives
from waiting import wait_until

FLAKY = """
import pathlib, pytest

@pytest.mark.parametrize("number", range(NUMBER))
def test_fails_once(number):
    seen = pathlib.Path(__file__).with_name(f"seen {number}")
    before = seen.exists()
    seen.touch()
    assert before

def test_passes():
    pass

@pytest.mark.skip(reason="no such machine")
def test_of_another_machine():
    pass
"""
TWICE = """
import pathlib, pytest

@pytest.fixture
def broken():
    yield
    assert False

@pytest.mark.parametrize("number", range(25))
def test_fails_with_its_fixture(broken, number):
    assert False
"""
BROKEN = """
def test_fails():
    assert False
"""
CUT_OFF = """
import os

def test_ends_everything():
    os._exit(0)
"""
OF_ONE_FILE = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(8))
def test_leaves_the_name_of_its_worker(number):
    pathlib.Path(__file__).with_name(os.environ["PYTEST_XDIST_WORKER"]).touch()
"""
ORPHANS = """
import pathlib, subprocess, sys, time
for name in ("first", "second"):
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    pathlib.Path(sys.argv[1], name).write_text(str(child.pid))
if sys.argv[2] == "hang":
    time.sleep(1000)
"""


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., check.Result]:
    """Runs code as the tests of a part."""
    monkeypatch.setattr(check, "BIN", Path(sys.executable).parent)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    here = Path(__file__).parent
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {shlex.quote(str(here))}\n", encoding="utf-8")
    (tmp_path / "conftest.py").write_text((here / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")

    def run(code: str, *options: str) -> check.Result:
        (tmp_path / "test_it.py").write_text(code, encoding="utf-8")
        return check.run_tests("-q", *options, "test_it.py", output=sys.stdout)

    return run


@pytest.mark.parametrize(
    ("code", "failed", "passed_then"),
    [
        (FLAKY.replace("NUMBER", "2"), 0, 2),
        (FLAKY.replace("NUMBER", "25"), 22, 0),
        (TWICE, 12, 0),
        (BROKEN, 1, 0),
        (CUT_OFF, 1, 0),
    ],
    ids=["a few", "too many", "too many in few tests", "again", "cut off"],
)
def test_what_failed_is_run_once_more_if_it_is_little(
    tests: Callable[..., check.Result], code: str, failed: int, passed_then: int
) -> None:
    result = tests(code)
    assert (len(result.failed), len(result.passed_then)) == (failed, passed_then)
    assert all("test_it.py" in test or "before all tests ran" in test for test in result.failed)
    assert result.left_out == (["1 tests: no such machine"] if passed_then else [])


def test_the_tests_of_a_file_share_a_worker(
    tests: Callable[..., check.Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDUS_NB_WORKERS", "2")
    assert not tests(OF_ONE_FILE, *check.workers()).failed
    assert len([*tmp_path.glob("gw*")]) == 1


@pytest.mark.parametrize("end", ["hang", "return"])
def test_whatever_a_program_starts_ends_with_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(check, "BIN", Path(sys.executable).parent)
    monkeypatch.setattr(check, "PART_SECONDS", 3 if end == "hang" else 300)
    status = check.attempt("python", "-c", ORPHANS, str(tmp_path), end)
    assert bool(status) == (end == "hang")
    for name in ("first", "second"):
        wait_until(lambda name=name: not lives(int((tmp_path / name).read_text())))


def test_what_a_part_says_is_printed_once_and_while_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "SAY_SECONDS", 0.01)
    shown: list[str] = []

    def is_shown(text: str) -> bool:
        shown.append(capsys.readouterr().out)
        return text in "".join(shown)

    def part(said: IO[str]) -> check.Result:
        print("so far", file=said, flush=True)
        wait_until(lambda: is_shown("slow:\nso far\n"))
        print("the end", file=said, flush=True)
        return check.Result()

    check.run_row({"slow": part})
    assert is_shown("the end\n")
    assert "".join(shown).count("so far") == 1


def test_every_part_runs_and_every_failure_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def fail(*what: str, **_: object) -> check.Result:
        ran.append(what[0])
        return check.Result([f"{what[0]} failed"])

    monkeypatch.setattr(check, "install", lambda *_: None)
    monkeypatch.setattr(check, "can", lambda *_: False)
    monkeypatch.setattr(check, "side_by_side", lambda *_: ["pyright (status 1)"])
    monkeypatch.setattr(check, "failures", lambda *_, **_more: [])
    monkeypatch.setattr(check, "run_tests", fail)
    with pytest.raises(SystemExit, match="1"):
        check.main([])
    shown = capsys.readouterr().out
    assert len(ran) == 3
    assert "tests/browser" not in ran
    for line in (
        "code and site: failed",
        "fresh installations: passed",
        "failed: pyright",
        "no Chromium could be started",
    ):
        assert line in shown


def test_what_runs_in_the_oldest_kernel_is_there_and_names_no_kernel_itself() -> None:
    for name in check.SPEAK_TO_THE_KERNEL:
        assert check.OLDEST_KERNEL not in (check.ROOT / name).read_text(encoding="utf-8")
