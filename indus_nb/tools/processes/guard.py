"""Guard that kills what this process has started when it ends, also when it is killed itself.

What this module promises:

- Whatever ends this process (``SIGKILL`` and a crash included), the guarded programs are killed, and all that they have
  started: their process groups everywhere, on Linux also what has left those (``tools.processes.sweep``).
- What was released lives on: its program has ended, and what it left behind is meant to stay.
- Guarding never blocks and never fails: without a guard process the programs run unguarded.
- A forked child guards nothing of its parent's, and does not keep the parent's guard alive.

How: a guard, which is a small shell in a session of its own, reads from a pipe whose only write end is held here. One
line announces the mark of a program before it starts, another one its process group, and further ones their end. The
operating system closes the pipe with this process, and then the guard kills what is left. The guard is started with
the first program and is not a child of this process, so that waiting for any child never returns it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from indus_nb.tools.processes import sweep

_SCRIPT = """
exec 3<&0 </dev/null
{
    trap '' HUP INT TERM
    known=' '
    while read -r change name <&3; do
        case $change$known in
            +*) known="$known$name " ;;
            -*" $name "*)  # in one pass: cutting a text takes some shells the square of its length
                kept=' '
                for each in $known; do
                    [ "$each" = "$name" ] || kept="$kept$each "
                done
                known=$kept
                ;;
        esac
    done
    marks=
    for name in $known; do
        case $name in
            m*) marks="$marks ${name#m}" ;;
            *) kill -s KILL -- "-$name" ;;
        esac
    done
    [ -z "$marks" ] || exec "$1" -I -S "$2" "$0" $marks
} >/dev/null 2>&1 &
"""


class _Guard:
    """Names of what is guarded, which go over a pipe: the number of a process group, or a mark."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._pipe: int | None = None

    def start(self) -> None:
        """Start the guard unless it runs already; where no process can be made the programs go unguarded."""
        with self._lock, contextlib.suppress(OSError):
            self._start()

    def add(self, name: str) -> None:
        with self._lock:
            self._names.add(name)
            try:
                self._send(f"+ {name}\n")
            except BrokenPipeError:  # the guard was killed: another one gets all names
                self._close()
                with contextlib.suppress(OSError):
                    self._start()

    def discard(self, name: str) -> None:
        with self._lock:
            self._names.discard(name)
            with contextlib.suppress(BrokenPipeError):
                self._send(f"- {name}\n")

    def kill_all(self) -> None:
        with self._lock:
            marks = {int(name[1:]) for name in self._names if name.startswith("m")}
            for name in self._names:
                if not name.startswith("m"):
                    _signal_group(int(name), signal.SIGKILL)
        if marks:
            sweep.kill_marked(marks)

    def forget(self) -> None:
        """Close the pipe in a forked child, whose copy must not stay open: the programs are its parent's."""
        self._close()
        self.__init__()

    def _start(self) -> None:
        if self._pipe is not None:
            return
        reading, writing = os.pipe()
        try:
            os.set_blocking(writing, False)  # a guard that was stopped must not stop us
            subprocess.run(
                ["/bin/sh", "-c", _SCRIPT, sweep.GUARD, sys.executable, sweep.__file__],
                cwd="/",
                stdin=reading,
                start_new_session=True,
                check=True,
            )
        except BaseException as error:
            os.close(writing)
            if isinstance(error, subprocess.SubprocessError):
                raise OSError(str(error)) from error
            raise
        finally:
            os.close(reading)
        self._pipe = writing
        for name in self._names:
            self._send(f"+ {name}\n")

    def _send(self, line: str) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._pipe, line.encode())

    def _close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


_guard = _Guard()
os.register_at_fork(after_in_child=_guard.forget)


class _Sweeps:
    """Sweeps for processes that escaped from killed programs, one for all of them as each takes its time."""

    def __init__(self) -> None:
        self._wanted: set[int] = set()
        self._sweeping = threading.Lock()

    def want(self, mark: int) -> None:
        self._wanted.add(mark)

    def carry_out(self, mark: int) -> None:
        """Kill the processes with the wanted marks, unless that was done since this one was wanted."""
        with self._sweeping:
            if mark not in self._wanted:
                return
            marks = frozenset(self._wanted)
            self._wanted -= marks
            sweep.kill_marked(marks)
        for swept in marks:
            _guard.discard(f"m{swept}")


_sweeps = _Sweeps()


class GuardedProgram:
    """A program with all that it will start, which is killed when this process ends.

    Make one before the program is started, start it with ``arguments`` and ``environment`` and as the leader of a
    process group, and call ``started``. ``release`` when it has ended, or could not be started.
    """

    def __init__(self) -> None:
        self._mark = sweep.new_mark()
        self._group: int | None = None
        self._killed = False
        _guard.start()
        _guard.add(f"m{self._mark}")

    def arguments(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments of the program with its mark."""
        return sweep.marked_arguments(self._mark, arguments)

    def environment(self, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return this process's environment, or the given one, with the program's mark."""
        return sweep.marked_environment(self._mark, os.environ if environment is None else environment)

    def started(self, pid: int) -> None:
        """Record that the program runs; its process group has the same number."""
        sweep.mark_process(pid, self._mark)
        self._group = pid
        _guard.add(str(pid))

    def signal(self, number: int) -> None:
        """Send the whole group a signal; does nothing when it has ended."""
        if self._group is not None:
            _signal_group(self._group, number)

    def kill(self) -> None:
        """Kill the whole group at once; ``sweep`` then kills what has left it."""
        self._killed = True
        _sweeps.want(self._mark)
        self.signal(signal.SIGKILL)

    async def sweep(self) -> None:
        """Kill the processes that left the group, if that was killed."""
        if self._killed:
            await asyncio.to_thread(_sweeps.carry_out, self._mark)

    def release(self) -> None:
        """Stop guarding it; unless it was killed, the processes that it left behind are meant to stay."""
        if not self._killed:
            _guard.discard(f"m{self._mark}")
        if self._group is not None:
            _guard.discard(str(self._group))


def kill_guarded() -> None:
    """Kill all guarded programs now."""
    _guard.kill_all()


def _signal_group(group: int, number: int) -> None:
    # No process left, or (macOS) none but zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
