"""Arguments of ``bwrap`` that enforce a policy: namespaces, mounts and variables.

What this module promises: the file system is read-only but for the writable places; what is hidden cannot be opened;
later mounts lie deeper than earlier ones, so none uncovers what another has covered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from indus_nb.safety.sandbox.policy import PRIVATE_PLACES, SYSTEM_PLACES, Policy, ProtectedPaths

_KERNEL_FILES = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "driver", "mtrr", "asound", "kcore")
"""Files of ``/proc`` that change the machine; of root's own files it asks for no capability."""
_NAME_SERVICE = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")


def namespaces(*, user: bool, disable_nested: bool, network: bool, processes: bool = False) -> list[str]:
    """Return the options for namespaces and capabilities.

    Args:
        user: Whether there is a user namespace; without one only root can make the others.
        disable_nested: Whether ``bwrap`` knows how to forbid more user namespaces within.

    Returns:
        Options of ``bwrap``.
    """
    options = ["--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-uts"]
    options += [] if processes else ["--unshare-pid"]
    options += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    options += ["--unshare-user"] if user else []
    options += ["--disable-userns"] if user and disable_nested else []
    return options if network else [*options, "--unshare-net"]


def mounts(policy: Policy, special: ProtectedPaths, private: Path) -> list[str]:
    """Return the options for the view of the file system.

    Args:
        private: The directory that is shown as ``/tmp``.

    Returns:
        Options of ``bwrap``.
    """
    options = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for name in _KERNEL_FILES:
        if Path(f"/proc/{name}").exists():
            options += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
    return [*options, *_ordered(_mounts(policy, special, private))]


def _ordered(planned: Iterable[tuple[Path, list[str]]]) -> Iterator[str]:
    """Yield the options for mounts, the deeper ones later, and those that leave what is empty read-only."""
    mounts = sorted(planned, key=lambda mount: len(mount[0].parts))
    for _, made in mounts:
        yield from made
    for path, made in mounts:
        if "--tmpfs" in made:
            yield from ("--remount-ro", str(path))


def look_mounts(policy: Policy, private: Path, refused: Path) -> list[str]:
    """List the options for a trial's view of the file system: paths as they are, all read-only.

    What may not be read is empty, and cannot be listed.

    Args:
        private: The directory for temporary files, which stays where it is.
        refused: A file that no user may read, which stands for all that may not be.

    Returns:
        Options of ``bwrap``.
    """
    hidden = [path for path in policy.hidden if path.exists()]
    shown = [path for path in (policy.workspace, *policy.readable) if path.exists()]
    shown = [path for path in shown if not any(map(path.is_relative_to, hidden))]
    covered = [Path(name) for name in (*PRIVATE_PLACES, *SYSTEM_PLACES) if _is_directory(name)]
    covered += [path for path in policy.closed if path not in shown]
    planned = [
        (path, ["--perms", "0111", "--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", str(refused), str(path)])
        for path in covered
    ]
    planned += [(path, ["--ro-bind", str(path), str(path)]) for path in shown if any(map(path.is_relative_to, covered))]
    for path in hidden:
        if any(map(path.is_relative_to, covered)) and not any(map(path.is_relative_to, shown)):
            continue
        if path.is_dir():
            planned.append((path, ["--perms", "0000", "--tmpfs", str(path)]))
        else:
            planned.append((path, ["--ro-bind", str(refused), str(path)]))
    planned.append((private, ["--bind", str(private), str(private)]))
    return ["--ro-bind", "/", "/", "--dev", "/dev", *_ordered(planned)]


def _mounts(policy: Policy, special: ProtectedPaths, private: Path) -> Iterator[tuple[Path, list[str]]]:
    visible = (policy.workspace, *policy.writable_roots)
    yield from _private_mounts(policy, private)
    for path in (*policy.writable_roots, *special.pinned, *special.outside):
        yield path, ["--bind", str(path), str(path)]
    shown = [policy.workspace] if policy.mode == "read-only" else []
    shown += [path for path in own_places() if path.is_dir() and not any(map(path.is_relative_to, visible))]
    for path in (*special.read_only, *filter(_is_covered, shown)):
        yield path, ["--ro-bind", str(path), str(path)]
    for path in policy.hidden:
        if _is_covered(path) and not any(map(path.is_relative_to, visible)):
            continue
        if path.is_dir():
            yield path, ["--perms", "0000", "--tmpfs", str(path)]
        elif path.exists():
            yield path, ["--ro-bind", "/dev/null", str(path)]


def _private_mounts(policy: Policy, private: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the mounts over world-writable directories and those with sockets of services."""
    for name in filter(_is_directory, PRIVATE_PLACES):
        yield Path(name), ["--bind", str(private), name]
    for name in filter(_is_directory, SYSTEM_PLACES):
        yield Path(name), ["--tmpfs", name]
    if policy.network is True:
        for name in _NAME_SERVICE:
            yield Path(name), ["--ro-bind-try", name, name]


def _is_directory(name: str) -> bool:
    return Path(name).is_dir() and not Path(name).is_symlink()


def _is_covered(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in (*PRIVATE_PLACES, *SYSTEM_PLACES, "/dev", "/proc"))


def own_places() -> list[Path]:
    """Return the directories of this interpreter: programs need it wherever it lies."""
    return [Path(os.path.realpath(place)) for place in dict.fromkeys((sys.prefix, sys.base_prefix))]


def variables(unset: list[str], changed: Mapping[str, str]) -> list[str]:
    """Return the options for variables.

    Args:
        unset: Names of variables that the program does not get.

    Returns:
        Options of ``bwrap``.
    """
    options: list[str] = []
    for name in unset:
        options += ["--unsetenv", name]
    for name, value in changed.items():
        options += ["--setenv", name, value]
    return options
