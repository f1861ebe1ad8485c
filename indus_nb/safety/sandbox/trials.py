"""Trial runs of commands: they can change nothing, and report what they would change.

What this module promises: a trial sees the machine as it is (its processes, its files where they are, refusals as
refusals) so that what it prints is what the command would print; it writes to a directory of its own alone, which stays
where it is while the session lasts; nothing that it starts outlives it.

Landlock is preferred to ``bwrap`` for that: in another namespace other users' files look like ``nobody``'s. On
macOS there are no reports, so nothing is tried there.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from indus_nb.base.wire import JsonObject
from indus_nb.safety.effects import Effect
from indus_nb.safety.sandbox import bwrap, landlock, launcher
from indus_nb.safety.sandbox.confined import (
    SERVICE_VARIABLES,
    Confined,
    made_in_thread,
    plain_interpreter,
    private_variables,
    readable_descriptor,
)
from indus_nb.safety.sandbox.filters import reporting_filter
from indus_nb.safety.sandbox.looks import holds_hidden, look_policy, may_read
from indus_nb.safety.sandbox.policy import Policy, ProtectedPaths, SandboxError
from indus_nb.safety.sandbox.probe import Machine, machine
from indus_nb.safety.sandbox.supervisor import Supervisor
from indus_nb.safety.sandbox.temporary import Temporary
from indus_nb.safety.sandbox.wanted import Wanted

_VARIABLES = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "LESSHISTFILE": "-",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "npm_config_update_notifier": "false",
}
"""Variables that keep programs from writing and connecting on their own account."""
_GIT_SETTINGS = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null", "gc.auto": "0", "maintenance.auto": "false"}
_HOLDS_TRUNCATE = 3
"""The first version of Landlock that does."""


@dataclass(slots=True)
class CommandTrial:
    """One trial run of a command, once it is started with ``confined``.

    Attributes:
        confined: What to run, to be closed in the end.
    """

    confined: Confined
    _supervisor: Supervisor
    _wanted: Wanted

    @property
    def effects(self) -> list[Effect]:
        """Return the changes that it attempted so far."""
        return self._wanted.effects

    @property
    def last(self) -> Effect | None:
        """Return the last of them, also where it is not named there."""
        return self._wanted.last

    @property
    def only_opens(self) -> bool:
        """Return whether it only tried to open files so far."""
        return self._wanted.only_opens

    @property
    def pretends_from(self) -> Effect | None:
        """Return the first effect after which it went on as if that had happened, reading what was there before."""
        return self._wanted.pretends_from

    @property
    def ran_on(self) -> bool:
        """Return whether it ran another program after that effect."""
        return self._wanted.ran_on

    @property
    def problem(self) -> str | None:
        """Return why it says nothing, after its end, about what the command would do."""
        if not self._supervisor.watched:
            return "it could not be tried here"
        return None if self._supervisor.ended else "it was tried, and its end could not be followed"

    def kill(self) -> None:
        """Kill the program and its children."""
        self._supervisor.kill()


class CommandTrials:
    """Trial runs for a session that works in one directory.

    Args:
        hidden: Paths that may not be read, besides the usual.
        here: What can be had on this machine; by default that is tried.
    """

    def __init__(self, cwd: Path, *, hidden: Sequence[Path] = (), here: Machine | None = None) -> None:
        self._cwd = Path(os.path.realpath(cwd))
        self._hidden = hidden
        self._here = here
        self._private: Temporary | None = None
        self._lock = threading.Lock()
        self._launcher = Path(launcher.__file__).read_text(encoding="utf-8")

    @property
    def backend(self) -> Literal["landlock", "bwrap"] | None:
        """Return what commands are confined with; ``None`` where they cannot be tried."""
        here = self._here or machine()
        if not here.filters:
            return None
        return "landlock" if here.landlock else "bwrap" if here.bwrap is not None else None

    @property
    def holds(self) -> bool:
        """Return whether a command can be confined to writing some files."""
        return self.backend == "landlock"

    async def begin(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        readable: Sequence[Path] = (),
        held: Sequence[Path] = (),
        changed: Mapping[str, str | None] | None = None,
        names_reads: bool = False,
        on_effect: Callable[[], None] = lambda: None,
    ) -> CommandTrial:
        """Prepare the trial of a command, in a thread.

        Args:
            readable: Files and directories that it may read besides the usual.
            held: Files that it may write to, where it can be held to them.
            changed: Variables that it gets with other values, or with ``None`` not at all.
            names_reads: Whether what it is refused to read is an effect too, which makes every file slower to open.
            on_effect: Called on this event loop when it has wanted something for the first time.

        Raises:
            SandboxError: It cannot be tried.
            OSError: No temporary directory or descriptor can be had.
        """
        loop = asyncio.get_running_loop()

        def report() -> None:
            loop.call_soon_threadsafe(on_effect)

        others = changed or {}, names_reads, report
        begin = partial(self._begin, arguments, environment, readable, held, others)
        return await made_in_thread(begin, lambda trial: trial.confined.close())

    def _begin(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        readable: Sequence[Path],
        held: Sequence[Path],
        others: tuple[Mapping[str, str | None], bool, Callable[[], None]],
    ) -> CommandTrial:
        changed, names_reads, report = others
        if self.backend is None:
            raise SandboxError((self._here or machine()).problem)
        private = self._temporary()
        policy = look_policy(self._cwd, readable, hidden=self._hidden, environment=environment)
        lists_all = self.backend == "bwrap"
        names_reads = names_reads or lists_all  # what it covers is not refused but absent

        def reads(path: Path) -> bool:
            return may_read(policy, path) and (lists_all or not (path.is_dir() and holds_hidden(policy, path)))

        spec: JsonObject = {
            "filter": reporting_filter(reads=names_reads).hex(),
            "rules": self._rules(policy, private, held) if self.backend == "landlock" else None,
            "unset": [*SERVICE_VARIABLES, *(name for name, value in changed.items() if value is None)],
            "set": {
                **{name: value for name, value in changed.items() if value is not None},
                **private_variables(private),
                **_VARIABLES,
                **_git_variables(environment),
            },
        }
        started = [*self._prefix(policy, private), plain_interpreter(), "-I", "-S", "-c", self._launcher]
        ours, theirs = socket.socketpair()
        spec["control"] = theirs.fileno()
        truncates = lists_all or (self._here or machine()).landlock >= _HOLDS_TRUNCATE
        wanted = Wanted(self._cwd, private, held, reads, report, truncates=truncates)
        supervisor = Supervisor(ours, wanted)

        def closed() -> list[str]:
            supervisor.close()
            return []

        described = readable_descriptor(json.dumps(spec).encode())
        confined = Confined([*started, str(described), *arguments], (theirs.detach(), described), closed)
        return CommandTrial(confined, supervisor, wanted)

    def _rules(self, policy: Policy, private: Path, held: Sequence[Path]) -> list[tuple[str, bool | None]]:
        return [*landlock.rules(policy, ProtectedPaths(), private), *((str(path), True) for path in held)]

    def _prefix(self, policy: Policy, private: Path) -> list[str]:
        found = (self._here or machine()).bwrap
        if self.backend != "bwrap" or found is None:
            return []
        options = bwrap.namespaces(
            user=found.user_namespace, disable_nested=found.disables_nested, network=False, processes=True
        )
        refused = private / ".refused"
        refused.touch(mode=0)
        return [found.path, *options, *bwrap.look_mounts(policy, private, refused), "--"]

    def _temporary(self) -> Path:
        with self._lock:
            self._private = self._private or Temporary()
            return self._private.path

    def files_to_hold(self, trial: CommandTrial) -> list[Path] | None:
        """Return the files that a command must be able to write to for its effects; they are inspected.

        Returns:
            Files that are there; ``None`` where it cannot be held to its effects, as it cannot where it makes a file:
            who may do that in a directory may make any there, also one that programs follow.
        """
        effects = trial.effects
        if not self.holds or not effects or not trial.only_opens:
            return None
        if any(effect.kind != "writes_file" for effect in effects):
            return None
        files = [Path(effect.what) for effect in effects]
        return files if all(file.is_file() and not file.is_symlink() for file in files) else None


def _git_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return settings of git that override the project's."""
    count = environment.get("GIT_CONFIG_COUNT", "0")
    start = int(count) if count.isascii() and count.isdecimal() else 0
    return {"GIT_CONFIG_COUNT": str(start + len(_GIT_SETTINGS)), **dict(_numbered(start))}


def _numbered(start: int) -> Iterator[tuple[str, str]]:
    for number, (key, value) in enumerate(_GIT_SETTINGS.items(), start):
        yield f"GIT_CONFIG_KEY_{number}", key
        yield f"GIT_CONFIG_VALUE_{number}", value
