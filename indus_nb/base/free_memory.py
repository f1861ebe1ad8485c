"""Memory that programs may still take: of the machine, and of the control groups that a container or a hub sets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free_memory(root: Path = Path("/")) -> int:
    """Return how many bytes programs may still take; 0 where the system does not say.

    A group's inactive file cache counts as free, for the system gives it up.

    Args:
        root: Where ``proc`` and ``sys`` are.

    Returns:
        The least of what the machine has and what each group above this process leaves.
    """
    machine = _of_machine(root)
    return min([machine, *_of_groups(root)]) if machine else 0


def _of_machine(root: Path) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    with suppress(OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0


def _of_groups(root: Path) -> Iterator[int]:
    groups = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":
            mounts, names = (groups, groups / "unified"), _VERSION_2
        elif "memory" in controllers.split(","):
            mounts, names = (groups / "memory", groups / controllers), _VERSION_1
        else:
            continue
        for mount in mounts:
            # In a container the path may be that of the host: then only the mount's own directory is there.
            for place in [mount, *(mount / part for part in _prefixes(path))]:
                yield from _of_group(place, *names)


def _prefixes(path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _of_group(place: Path, limit_name: str, used_name: str, given_up_name: str) -> Iterator[int]:
    limit, used = _read(place / limit_name).strip(), _read(place / used_name).strip()
    if not (limit.isdecimal() and used.isdecimal()):
        return  # "max", or no such group
    given_up = 0
    for line in _read(place / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == given_up_name and value.strip().isdecimal():
            given_up = int(value)
    yield max(int(limit) - int(used) + given_up, 0)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""
