"""A ``sandbox-exec`` profile that enforces a policy on macOS. Untested: no test of this project runs on macOS."""

from __future__ import annotations

from pathlib import Path

from indus_nb.safety.sandbox.policy import Policy, ProtectedPaths, SandboxError

PROGRAM = "/usr/bin/sandbox-exec"


def arguments(policy: Policy, special: ProtectedPaths, private: Path) -> list[str]:
    """Return the arguments before a program's own that run it confined.

    Raises:
        SandboxError: The policy has a list of domains.
    """
    if not isinstance(policy.network, bool):
        raise SandboxError("`sandbox.network` as a list of domains is not available on macOS: set it to false or true.")
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    lines += [f"(allow file-write* {_below(path)})" for path in (*policy.writable_roots, *special.outside, private)]
    lines.append('(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))')
    for path in (*special.read_only, *special.absent):
        lines.append(f"(deny file-write* {_below(path)})")
    for path in special.pinned:
        lines.append(f"(deny file-write-unlink (literal {_quoted(path)}))")
    lines += [f"(deny file-read* file-write* {_below(path)})" for path in policy.hidden]
    if not policy.network:
        lines.append("(deny network*)")
    elif not policy.unix_sockets:
        lines.append("(deny network* (local unix) (remote unix))")
    lines += ["(deny appleevent-send)", "(deny process-info* (target others))", "(deny signal (target others))"]
    return [PROGRAM, "-p", "\n".join(lines)]


def _below(path: Path) -> str:
    return f"(subpath {_quoted(path)})"


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
