"""Kill the process groups of this process when it ends, also when it is killed itself.

What this module promises:

- Whatever ends this process (``SIGKILL`` and a crash included), the groups that are guarded then are killed.
- A group that was released lives on: its program has ended, and what it left behind is meant to stay.
- Guarding never blocks and never fails: without a guard process the groups run unguarded.
- A forked child guards nothing of its parent's, and does not keep the parent's guard alive.

How: a guard, which is a small shell in a session of its own, reads from a pipe whose only write end is held here. One
line announces a process group, another one its end. The operating system closes the pipe with this process, and then
the guard kills the groups that are left. A group is known to the guard some ten microseconds after its program was
started. The guard is started with the first group and is not a child of this process, so that waiting for any child
never returns it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading

_SCRIPT = """
exec 3<&0 </dev/null
{
    trap '' HUP INT TERM
    groups=' '
    while read -r change group <&3; do
        case $change$groups in
            +*) groups="$groups$group " ;;
            -*" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;;
        esac
    done
    for group in $groups; do kill -s KILL -- "-$group"; done
} >/dev/null 2>&1 &
"""


class _Guard:
    """The guarded groups, and the pipe to the guard process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._pipe: int | None = None

    def start(self) -> None:
        """Start it unless it runs already; where no process can be made the groups go unguarded."""
        with self._lock, contextlib.suppress(OSError):
            self._start()

    def add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            try:
                self._send(f"+ {group}\n")
            except BrokenPipeError:  # the guard was killed: another one gets all groups
                self._close()
                with contextlib.suppress(OSError):
                    self._start()

    def discard(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            with contextlib.suppress(BrokenPipeError):
                self._send(f"- {group}\n")

    def kill_all(self) -> None:
        with self._lock:
            for group in self._groups:
                kill_group(group)

    def forget(self) -> None:
        """Called in a forked child, whose parent the groups belong to: its copy of the pipe must not keep that open."""
        self._close()
        self.__init__()

    def _start(self) -> None:
        if self._pipe is not None:
            return
        reading, writing = os.pipe()
        try:
            os.set_blocking(writing, False)  # a guard that was stopped must not stop us
            subprocess.run(
                ["/bin/sh", "-c", _SCRIPT, "guard of indus_nb"],
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
        for group in self._groups:
            self._send(f"+ {group}\n")

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


def start_guard() -> None:
    """Start the guard process if it does not run yet. Call it before the program to be guarded starts."""
    _guard.start()


def guard_group(group: int) -> None:
    """Have a process group killed when this process ends."""
    _guard.add(group)


def release_group(group: int) -> None:
    """Guard a process group no longer: its program has ended."""
    _guard.discard(group)


def kill_groups() -> None:
    """Kill all guarded groups now."""
    _guard.kill_all()


def kill_group(group: int) -> None:
    """Kill a process group; does nothing when it has ended."""
    # No process left, or (macOS) none but zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
