"""Inputs that a project brings to sessions: where they are, found by calls of ``stat`` alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from indus_nb.base.files import others_can_write

Decision: TypeAlias = Literal["directory", "parent", "session", "no", "ignore"]
"""Decision of a user: to trust the directory, its parent, it for this session; not to, or not in this session."""
DefaultTrust: TypeAlias = Literal["ask", "always", "never"]

PROJECT_DIRECTORY = ".indusagi"
RULES_DIRECTORY = "rules"
"""Directory of stream rules, in the project's directory and in the user's."""
CONTEXT_NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
_OWN_NAMES = ("settings.json", "extensions", RULES_DIRECTORY, "SYSTEM.md", "APPEND_SYSTEM.md", "skills", "prompts")


class ProjectInput(NamedTuple):
    """Something that a project brings: what it is, where it is, and the directory that it holds for."""

    kind: str
    path: str
    directory: str


def project_inputs(directory: str, agent_dir: Path) -> list[ProjectInput]:
    """List what a directory and those above it bring to sessions there, by calls of ``stat`` alone.

    Args:
        directory: The real path of the sessions' working directory.
        agent_dir: The user's own directory, which is no project's.
    """
    found: list[ProjectInput] = []
    own = os.path.join(directory, PROJECT_DIRECTORY)  # noqa: PTH118 - this is on the way of every start
    if _kind(own) and not _is_same(own, agent_dir):
        found += [ProjectInput(name, path, directory) for name in _OWN_NAMES if _kind(path := f"{own}/{name}")]
    shared = os.path.realpath(os.path.expanduser("~/.agents/skills"))  # noqa: PTH111 - there may be no home
    in_repository = True
    above = directory
    while True:
        base = above.rstrip("/")
        found += [ProjectInput(name, f"{base}/{name}", above) for name in CONTEXT_NAMES if _kind(f"{base}/{name}")][:1]
        if in_repository:
            skills = f"{base}/.agents/skills"
            if _kind(skills) and os.path.realpath(skills) != shared:
                found.append(ProjectInput("skills", skills, above))
            in_repository = not _kind(f"{base}/.git")
        parent = os.path.dirname(above)  # noqa: PTH120 - see above
        if parent == above:
            return found
        above = parent


def _kind(path: str) -> int:
    try:
        return stat.S_IFMT(os.stat(path).st_mode)  # noqa: PTH116 - see above
    except (OSError, ValueError):
        return 0


def _is_same(path: str, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)  # noqa: PTH121 - of a string
    except OSError:
        return False


def may_be_trusted_whole(directory: Path) -> bool:
    """Return whether everything below a directory may be trusted: it is the user's own, and not all the user has."""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - there may be no home
    if directory == directory.parent or Path(home).is_relative_to(directory):
        return False
    try:
        state = directory.stat()
    except OSError:
        return False
    return state.st_uid == os.geteuid() and not others_can_write(state)
