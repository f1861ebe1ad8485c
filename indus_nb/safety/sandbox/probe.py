"""Sandboxing that this machine supports: tried, and not guessed from versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from indus_nb.safety.sandbox import bwrap, launcher, seatbelt

Backend = Literal["bwrap", "landlock", "seatbelt"]
_TRUSTED_PATH = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
_SECONDS = 10
_INSTALL = "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`, `apk add bubblewrap`)"


@dataclass(frozen=True, slots=True)
class Bwrap:
    """``bwrap`` as it works here."""

    path: str
    version: str
    user_namespace: bool
    disables_nested: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """Sandboxing available here. ``bwrap_problem`` is why ``bwrap`` is not."""

    bwrap: Bwrap | None
    bwrap_problem: str
    landlock: int
    filters: bool
    seatbelt: bool

    @property
    def backend(self) -> Backend | None:
        """Return what programs are confined with; ``None`` if nothing is there."""
        if self.seatbelt:
            return "seatbelt"
        if self.bwrap is not None and self.filters:
            return "bwrap"
        return "landlock" if self.landlock and self.filters else None

    @property
    def problem(self) -> str:
        """Return why nothing can be confined here, and what to do."""
        if sys.platform == "linux" and not self.filters:
            return f"system calls of {os.uname().machine} are not known to this program"
        missing = f"bwrap: {self.bwrap_problem}"
        return f"{missing}; the kernel has no Landlock; {_INSTALL}, or choose --sandbox off"

    def report(self) -> Iterator[str]:
        """Yield lines for a person: what was tried, and what will be used."""
        if self.bwrap is None:
            yield f"bwrap: no ({self.bwrap_problem})"
        else:
            namespaces = "with user namespaces" if self.bwrap.user_namespace else "as root, without user namespaces"
            yield f"bwrap: yes ({self.bwrap.version}, {namespaces}; tried)"
        yield f"Landlock: {f'yes (version {self.landlock})' if self.landlock else 'no'}"
        yield f"filter of system calls: {'yes' if self.filters else 'no'}"
        listed = self.backend == "bwrap"
        yield f"network by list of domains: {'yes' if listed else 'no (needs bwrap)'}"
        yield f"used: {self.backend or f'nothing, so commands are refused ({self.problem})'}"
        if self.backend == "landlock":
            yield f"to have more: {_INSTALL}"


@cache
def machine() -> Machine:
    """Probe this machine, once."""
    if sys.platform == "darwin":
        return Machine(None, "is for Linux", 0, filters=False, seatbelt=Path(seatbelt.PROGRAM).exists())
    if sys.platform != "linux":
        return Machine(None, "is for Linux", 0, filters=False, seatbelt=False)
    found, problem = _find_bwrap()
    return Machine(found, problem, launcher.landlock_version(), launcher.can_filter(), seatbelt=False)


def _find_bwrap() -> tuple[Bwrap | None, str]:
    path = shutil.which("bwrap", path=_TRUSTED_PATH)
    if path is None:
        return None, "is not installed"
    version = _run(path, "--version")[1].removeprefix("bubblewrap").strip()
    disables = "--disable-userns" in _run(path, "--help")[1]
    problem = ""
    ways = [(True, disables), (True, False), (False, False)]
    for user, nested in dict.fromkeys(ways):
        if not user and os.geteuid() != 0:
            continue
        options = bwrap.namespaces(user=user, disable_nested=nested, network=False)
        status, output = _run(path, *options, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--", "true")
        if status == 0:
            return Bwrap(path, version, user, nested), ""
        problem = problem or f"does not work here: {output.strip()[:200] or f'status {status}'}"
    return None, problem


def _run(*command: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        return 1, str(error)
    return done.returncode, done.stdout + done.stderr
