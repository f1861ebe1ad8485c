"""Copies that die, hang, or send what they should not: there is a reason, and this process is as it was."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from copied import Doing, copied

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.preview import Copy, Report, Send, Stop
from indus_nb.safety.effects import Effect
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir() if path.exists()}


def children() -> str:
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()


def recurse() -> None:
    recurse()


def fill() -> None:
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 64 << 20))


def close_all() -> None:
    os.closerange(0, 4096)


DEATHS: dict[str, tuple[Callable[[], object], str]] = {
    "it is killed": (lambda: signal.raise_signal(signal.SIGKILL), "its copy ended without a result"),
    "it exits": (lambda: os._exit(7), "its copy ended without a result"),
    "it exits by an exception": (lambda: sys.exit(7), "its copy ended without a result"),
    "it reads at no address": (lambda: ctypes.string_at(0), "its copy ended by SIGSEGV"),
    "it aborts": (os.abort, "its copy ended by SIGABRT"),
    "it terminates itself": (lambda: signal.raise_signal(signal.SIGTERM), "its copy ended by SIGTERM"),
    "it interrupts itself": (lambda: signal.raise_signal(signal.SIGINT), "its copy ended by SIGINT"),
    "it closes its pipe": (close_all, "its copy ended without a result"),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_copy_that_dies_says_how_and_leaves_nothing(death: str) -> None:
    do, why = DEATHS[death]
    before = descriptors(), children(), signal.getsignal(signal.SIGTERM)
    done = copied(do)
    assert (done.report.how, done.report.why) == ("none", why)
    assert (descriptors(), children(), signal.getsignal(signal.SIGTERM)) == before


FAILURES: dict[str, tuple[Callable[[], object], str]] = {
    "no end to calls": (recurse, "RecursionError"),
    "no end to memory": (fill, "OSError: [Errno 12]"),
    "more than may be had at once": (lambda: len(bytearray(8 << 30)), "MemoryError"),
    "more than may be mapped": (lambda: mmap.mmap(-1, 8 << 30), "OSError: [Errno 12]"),
    "more files than may be open": (lambda: [os.dup(0) for _ in range(5000)], "OSError: [Errno 24]"),
    "a limit that is raised again": (
        lambda: resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
        "ValueError: not allowed to raise maximum limit",
    ),
    "a process by the system's own function": (lambda: {"pid": ctypes.CDLL(None).fork()}["pid"] == -1 or 1 / 0, ""),
}


@pytest.mark.parametrize("wish", FAILURES)
def test_what_is_more_than_a_copy_may_have_fails_there(wish: str) -> None:
    do, raised = FAILURES[wish]
    before = resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_NOFILE), children()
    done = copied(do)
    assert done.raised.startswith(raised)
    assert (done.report.how, bool(raised) or done.gave) == ("done", True)
    assert (resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_NOFILE), children()) == before


def forever() -> None:
    while True:
        pass


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    forever()


def with_threads() -> None:
    for _ in range(20):
        threading.Thread(target=forever, daemon=True).start()
    forever()


@pytest.mark.parametrize("do", [forever, deaf, with_threads, threading.Event().wait])
def test_one_that_does_not_end_is_ended_when_its_time_is_over(do: Callable[[], object]) -> None:
    before = children()
    report = copied(do, seconds=0.3).report
    assert (report.how, report.why) == ("none", "it takes longer than 0.3 s")
    assert children() == before


async def test_a_copy_whose_follower_is_cancelled_is_ended_and_waited_for(tmp_path: Path) -> None:
    before = children(), descriptors()
    copy, begun = Copy(240, [("/", False)]), asyncio.Event()

    def begin_and_wait() -> None:
        raise AssertionError

    class Waiting(Doing):
        def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
            send({"begun": True}, b"")
            threading.Event().wait()

    copy.fork(Waiting(begin_and_wait))
    following = asyncio.create_task(copy.follow(lambda *_: begun.set()))
    await begun.wait()
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert (children(), descriptors()) == before


def sent(*data: Any) -> Callable[[Send], None]:
    def send_all(send: Send) -> None:
        for each in data:
            send(*each)

    return send_all


TOO_MUCH: dict[str, tuple[Callable[[Send], None], str]] = {
    "a text that is too long": (sent(({"text": "x" * (17 << 20)}, b"")), "it sent too much at once"),
    "bytes that are too many": (sent(({"values": []}, b"x" * (65 << 20))), "it sent too much at once"),
    "what is too deep": (
        lambda send: os.write(_pipe(), _frame(b'{"a":' * 100_000)),
        "it sent what cannot be read",
    ),
    "what is no JSON": (lambda send: os.write(_pipe(), _frame(b"{no")), "JSONDecodeError"),
    "what is no object": (lambda send: os.write(_pipe(), _frame(b"[1]")), "it sent what cannot be read"),
    "what is no frame": (lambda send: os.write(_pipe(), b"\xff" * 8), "it sent too much at once"),
}


def _pipe() -> int:
    """The descriptor that a copy reports by."""
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(path.readlink()).startswith("pipe:"):
                return int(path.name)
    raise AssertionError


def _frame(text: bytes) -> bytes:
    return struct.pack(">II", len(text), 0) + text


@pytest.mark.parametrize("what", TOO_MUCH)
async def test_what_cannot_be_taken_ends_the_copy_and_not_this_process(what: str) -> None:
    do, why = TOO_MUCH[what]

    class Flooding(Doing):
        def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
            do(send)

    before = children()
    copy = Copy(240, [("/", False)])
    copy.fork(Flooding(forever))
    report = await copy.follow(lambda *_: None)
    assert report.how == "none"
    assert why in report.why
    assert children() == before


@pytest.mark.parametrize(
    "report",
    [
        {"how": "fine"},
        {"how": "done"},
        {**Report().to_json(), "why": 7},
        {**Report().to_json(), "effects": "none"},
        {**Report().to_json(), "effects": [7]},
        {**Report().to_json(), "effects": [{"kind": "safe", "what": "", "words": ""}]},
        {**Report().to_json(), "effects": [{"kind": "deletes", "what": 7, "words": ""}]},
        {**Report().to_json(), "effects": [{"kind": "deletes", "what": "", "words": ""}] * 1100},
        {**Report().to_json(), "kept": ["x"] * 1001},
        {**Report().to_json(), "dropped": [7]},
    ],
)
async def test_a_report_that_is_none_is_not_taken_for_one(report: JsonObject) -> None:
    class Reporting(Doing):
        def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
            send(report, b"")
            forever()

    copy = Copy(240, [("/", False)])
    copy.fork(Reporting(forever))
    found = await copy.follow(lambda *_: None)
    assert (found.how, found.why, found.effects) == ("none", "its copy ended without a result", [])


async def test_a_frame_that_cannot_be_shown_is_the_copys_failure() -> None:
    def refuse(_: JsonObject, __: bytes) -> None:
        raise KeyError("shown")

    copy = Copy(240, [("/", False)])
    copy.fork(Doing(lambda: 1))
    report = await copy.follow(refuse)
    assert report.how == "none"
    assert "KeyError" in report.why


class Failing(Doing):
    """A task whose report fails."""

    def report(self) -> Report:
        raise KeyboardInterrupt


async def test_a_report_that_fails_is_an_empty_one_with_what_was_about_to_happen() -> None:
    copy = Copy(240, [("/", False)])
    copy.fork(Failing(lambda: socket.create_connection(("127.0.0.1", 9))))
    report = await copy.follow(lambda *_: None)
    assert (report.how, report.why) == ("stopped", "connects to 127.0.0.1:9")


class Raising(Doing):
    """A task that fails itself."""

    def run(self, stop: Stop, send: Send, effects: list[Effect]) -> None:
        raise LookupError("no such thing")


async def test_a_task_that_fails_is_named() -> None:
    copy = Copy(240, [("/", False)])
    copy.fork(Raising(forever))
    report = await copy.follow(lambda *_: None)
    assert (report.how, "LookupError: no such thing" in report.why) == ("none", True)


class TestSeparation:
    """What a copy has of the process that it was."""

    def test_nothing_that_was_open_can_be_read_written_or_closed_from_there(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("here")
        ours, theirs = socket.socketpair()
        with (tmp_path / "a.txt").open("r+b", buffering=0) as file, ours, theirs:
            assert copied(lambda: os.write(file.fileno(), b"x")).report.how == "stopped"
            assert copied(lambda: os.read(file.fileno(), 1)).report.how == "stopped"
            assert copied(lambda: theirs.send(b"x")).raised.startswith("OSError: [Errno 9]")
            assert copied(lambda: os.close(file.fileno())).report.how == "done"
            assert file.read() == b"here"
            ours.setblocking(False)
            with pytest.raises(BlockingIOError):
                ours.recv(1)

    def test_new_files_do_not_get_the_numbers_of_those_that_were_open(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("here")
        with (tmp_path / "a.txt").open():
            numbers = {int(entry.name) for entry in Path("/proc/self/fd").iterdir() if entry.exists()}
            assert copied(lambda: os.open("/dev/null", os.O_RDONLY) in numbers).gave is False

    def test_memory_that_is_shared_is_its_own_there(self, tmp_path: Path) -> None:
        shared = mmap.mmap(-1, 4096)
        shared[:4] = b"here"
        (path := tmp_path / "mapped").write_bytes(b"file" + b"\0" * 4092)

        def write() -> str:
            found = (shared[:4] + mapped[:4]).decode()
            shared[:4] = mapped[:4] = b"gone"
            return found + (shared[:4] + mapped[:4]).decode()

        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            assert copied(write).gave == "herefilegonegone"
            assert shared[:4] == b"here"
            assert mapped[:4] == b"file"
        assert path.read_bytes()[:4] == b"file"
        shared.close()

    def test_the_random_numbers_are_those_that_would_have_come_here(self) -> None:
        import random

        random.seed(7)
        drawn = copied(random.random).gave
        assert drawn == random.random()

    def test_it_is_in_a_session_of_its_own_and_is_the_first_to_go_where_memory_is_short(self) -> None:
        def about() -> list[object]:
            return [os.getsid(0) == os.getpid(), Path("/proc/self/oom_score_adj").read_text().strip()]

        assert copied(about).gave == [True, "1000"]

    def test_signals_that_this_process_handles_are_not_handled_there(self) -> None:
        noted: list[int] = []
        before = signal.signal(signal.SIGTERM, lambda number, _: noted.append(number))
        try:
            assert copied(lambda: signal.raise_signal(signal.SIGTERM)).report.why == "its copy ended by SIGTERM"
        finally:
            signal.signal(signal.SIGTERM, before)
        assert noted == []

    def test_what_traces_this_process_does_not_trace_it(self) -> None:
        seen: list[str] = []

        def note(frame: Any, event: str, _: object) -> None:
            seen.append(event)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            assert copied(lambda: sys.getprofile() is None).gave is True
        finally:
            sys.setprofile(before)
