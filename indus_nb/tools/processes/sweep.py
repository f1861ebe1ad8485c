"""Killing of processes by a mark that they inherit, wherever they have fled to.

What this module promises:

- Whatever was started by a marked process is found on Linux: in another process group or session, as an orphan, with
  closed descriptors, under another name, and with an emptied environment. Only one that removes both marks, which it
  must know for that, is not. Elsewhere nothing is found: process groups are all that there is.
- Nothing else is killed: a process is killed by a descriptor, so its number cannot have passed to another one.

How: a mark is a number. It stands in a variable of the environment, and it is the limit of an unused resource
(processor time without rest in a real-time class, in microseconds; the numbers are years), which a process cannot
raise. Beside the marked processes their descendants count. The limit holds one mark, so what an agent that runs inside
a marked process has started is known by its own guard alone: marked guards are let finish before they are killed.

The guard runs this file as a program when the process that it guards is gone: nothing but the standard library is
imported here, and what it needs of that is there without a package's directories.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

if sys.platform == "linux":
    import resource

VARIABLE = "INDUS_NB_MARKS"
GUARD = "guard of indus_nb"
"""An argument of every guard, whichever program it is by then: others may not see the environment of each program."""
_SETTERS = ("/usr/bin/prlimit", "/bin/prlimit")
_LEAST_MARK, _MOST_MARK = 1 << 45, 1 << 61
_ROUNDS = 50
_SECONDS_FOR_GUARDS = 5.0
_LIMIT_LINE = b"\nMax realtime timeout"


def new_mark() -> int:
    """Return a number that no other process has."""
    most = _MOST_MARK
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            inherited = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
            if inherited != resource.RLIM_INFINITY:  # a mark of this process, which its children cannot exceed
                most = inherited
    least = min(_LEAST_MARK, most // 2)
    return least + int.from_bytes(os.urandom(8)) % (most - least)


def marked_environment(mark: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with a mark added."""
    marks = filter(None, (environment.get(VARIABLE), str(mark)))
    return {**environment, VARIABLE: ":".join(marks)}


def marked_arguments(mark: int, arguments: Sequence[str]) -> list[str]:
    """Return arguments that start a program with the mark that an emptied environment does not remove.

    Returns:
        The arguments, with a program of the system before them that sets the limit, if there is one. It is left out
        where there is no such program as is to be started: that is reported by who starts it.
    """
    setter = next((path for path in _SETTERS if os.access(path, os.X_OK)), None)
    if setter is None or not _can_be_started(arguments[0]):
        return [*arguments]
    return [setter, f"--rttime={mark}:{mark}", "--", *arguments]


def _can_be_started(program: str) -> bool:
    if program.startswith("/"):
        return os.access(program, os.X_OK)
    import shutil

    return "/" not in program and shutil.which(program) is not None


def mark_process(pid: int, mark: int) -> None:
    """Mark a process that was just started, where ``marked_arguments`` could not.

    It may have started others by then, which have the mark in their environment alone.

    Args:
        pid: The process; nothing happens where it has ended.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_RTTIME, (mark, mark))


def kill_marked(marks: Iterable[int]) -> None:
    """Kill all processes that have one of these marks, and what they start meanwhile; never this process itself.

    A guard among them gets a few seconds, once those that it watches over are killed, to kill what only it knows of.

    Args:
        marks: Results of ``new_mark``.
    """
    wanted = frozenset(marks)
    killed: set[tuple[int, int]] = set()
    guards: set[tuple[int, int]] = set()  # one that becomes another program has no arguments for a moment
    no_more_guards = time.monotonic() + _SECONDS_FOR_GUARDS
    rounds = 0
    while rounds < _ROUNDS:
        found = {process: is_guard for process, is_guard in _with_mark(wanted).items() if process not in killed}
        guards.update(process for process, is_guard in found.items() if is_guard)
        targets = [process for process in found if process not in guards or time.monotonic() > no_more_guards]
        if not found:
            return
        if not targets:
            time.sleep(0.02)
            continue
        for process in targets:
            _kill(*process)
        killed.update(targets)
        rounds += 1


def _with_mark(marks: frozenset[int]) -> dict[tuple[int, int], bool]:
    """Return the marked processes and their descendants, by number and start time, and whether they are guards."""
    alive = {pid: (parent, started) for pid, parent, started in _processes()}
    found = {pid for pid in alive if _has_mark(pid, marks)}
    grown = bool(found)
    while grown:
        more = {pid for pid, (parent, _) in alive.items() if parent in found and pid not in found}
        found |= more
        grown = bool(more)
    return {(pid, alive[pid][1]): _is_guard(pid) for pid in found if pid != os.getpid()}


def _processes() -> Iterator[tuple[int, int, int]]:
    """List number, parent and start time of all running processes."""
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal() and (status := _status(int(entry.name))) is not None:
                yield (int(entry.name), *status)


def _status(pid: int) -> tuple[int, int] | None:
    """Return parent and start time of a process, ``None`` when it has ended."""
    # The name of the program, in brackets, may hold anything.
    fields = _content(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[1]), int(fields[19])) if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def _has_mark(pid: int, marks: frozenset[int]) -> bool:
    for pair in _content(pid, "environ").split(b"\0"):
        name, _, value = pair.partition(b"=")
        if name == VARIABLE.encode() and not marks.isdisjoint(map(_number, value.split(b":"))):
            return True
    limits = _content(pid, "limits").partition(_LIMIT_LINE)[2].split(b"\n", 1)[0]
    return not marks.isdisjoint(map(_number, limits.split()))


def _is_guard(pid: int) -> bool:
    return GUARD.encode() in _content(pid, "cmdline").split(b"\0")


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() else -1


def _content(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - pathlib alone would double the time to start
            return file.read()
    except OSError:
        return b""


def _kill(pid: int, started: int) -> None:
    if sys.platform != "linux":
        return
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):  # it has ended, or neither the system nor this Python has such descriptors
        descriptor = None
    with contextlib.suppress(OSError):
        if (status := _status(pid)) is None or status[1] != started:
            pass
        elif descriptor is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    if descriptor is not None:
        os.close(descriptor)


if __name__ == "__main__":
    kill_marked(map(int, sys.argv[2:]))  # the first argument is GUARD
