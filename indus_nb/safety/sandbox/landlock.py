"""Rules of Landlock that enforce a policy, where namespaces cannot be had.

What this module promises: what is hidden has no rule, and neither has a directory on the way to it, which therefore
cannot be listed. Landlock only allows, and whole trees: what is protected within a writable place is put back after the
program (``restoring``), and a policy that needs more than that is rejected.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from indus_nb.safety.sandbox.bwrap import own_places
from indus_nb.safety.sandbox.policy import PRIVATE_PLACES, SYSTEM_PLACES, Policy, ProtectedPaths, SandboxError

_DEVICES = ("null", "zero", "full", "random", "urandom")


def rules(policy: Policy, special: ProtectedPaths, private: Path | None) -> list[tuple[str, bool | None]]:
    """List the readable paths, and those that are writable too.

    Args:
        private: The directory for temporary files, if there is one.

    Returns:
        Paths, and whether they may be changed; with ``None`` the directories below them may be listed and no more.

    Raises:
        SandboxError: Landlock cannot hold the policy.
    """
    _check(policy)
    writable = [*policy.writable_roots, *special.outside, *([] if private is None else [private])]
    covered = [Path(os.path.realpath(name)) for name in (*PRIVATE_PLACES, *SYSTEM_PLACES, "/dev")]
    covered = [*(path for path in covered if path.exists()), *policy.closed]
    hidden = [path for path in policy.hidden if path.exists()]
    allowed: list[tuple[str, bool | None]] = [(str(path), False) for path in _readable(Path("/"), {*hidden, *covered})]
    for shown in dict.fromkeys((policy.workspace, *policy.readable)):
        if any(map(shown.is_relative_to, hidden)):
            continue
        inner = {path for path in (*hidden, *covered) if path.is_relative_to(shown) and path != shown}
        if any(map(shown.is_relative_to, covered)):
            allowed += [(str(path), False) for path in _readable(shown, inner)]
        if inner and policy.closed and shown != Path("/"):
            allowed.append((str(shown), None))
    allowed += [(str(path), False) for path in own_places() if any(path.is_relative_to(place) for place in covered)]
    allowed += [(f"/dev/{name}", True) for name in _DEVICES]
    return [*allowed, *((str(path), True) for path in writable)]


def _check(policy: Policy) -> None:
    needs = "and user namespaces are not to be had here. Install bubblewrap where they are, or choose --sandbox off"
    if policy.network and not isinstance(policy.network, bool):
        raise SandboxError(
            "`sandbox.network` is a list of domains. Landlock knows ports but no addresses, so it cannot hold one, "
            f"{needs}, or set `network` to false or true."
        )
    for root in policy.writable_roots:
        for path in policy.hidden:
            if path.is_relative_to(root) and path.exists():
                raise SandboxError(
                    f"{path} is hidden and lies in {root}, which is writable. Landlock cannot hold that, {needs}."
                )
        for path in policy.kept:
            if path.is_relative_to(root):
                raise SandboxError(
                    f"This program runs from {path}, which lies in {root} and would be writable. Landlock cannot hold "
                    f"that, {needs}, or install it elsewhere."
                )


def _readable(directory: Path, closed: Iterable[Path]) -> Iterator[Path]:
    """Yield the largest trees below a directory that hold nothing closed."""
    inside = [path for path in closed if path.is_relative_to(directory)]
    if not inside:
        yield directory
        return
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        path = Path(entry.path)
        if path in inside or entry.is_symlink():
            continue
        if any(each.is_relative_to(path) for each in inside):
            yield from _readable(path, inside)
        else:
            yield path
