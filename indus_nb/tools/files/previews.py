"""Previews of changes of files for the user, and whether a rule may cover them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from indus_nb.safety.key_places import holds_keys
from indus_nb.tools.description import Target
from indus_nb.tools.files.paths import mentioned
from indus_nb.tools.files.replacement import Replacement
from indus_nb.tools.files.targets import open_target
from indus_nb.tools.tool import ToolError

_MAX_FILE_BYTES = 256 * 1024
_MAX_LINES = 2000
_RUN_BY_PROGRAMS = re.compile(
    r"(?:gnu)?makefile(?:\..*)?|.*\.(?:mk|mak|cmake|ninja|gradle|sh|bash|zsh|fish|pth|so|dylib|service|desktop|plist)"
    r"|cmakelists\.txt|justfile|dockerfile.*|containerfile.*|vagrantfile|rakefile|gemfile|gruntfile.*|gulpfile.*"
    r"|jenkinsfile|procfile|package\.json|package-lock\.json|pyproject\.toml|setup\.(?:py|cfg)|tox\.ini|noxfile\.py"
    r"|pytest\.ini|conftest\.py|sitecustomize\.py|usercustomize\.py|tasks\.py|build\.rs|cargo\.toml|go\.mod|sconstruct"
    r"|docker-compose.*|compose\.ya?ml|.*\.config\.[cm]?[jt]s|agents\.md|claude\.md|skill\.md|system\.md",
    re.IGNORECASE,
)
"""Names of files that programs execute or load as configuration when they find them."""


def started_elsewhere(cwd: Path) -> bool:
    """Return whether the process works in another directory than the session."""
    try:
        return os.path.realpath(cwd) != os.path.realpath(Path.cwd())
    except OSError:
        return True


def file_notes(target: Target, given: str, cwd: Path) -> str | None:
    """Return notes for the user on a file that is to be changed.

    Returns:
        Sentences, or ``None``.
    """
    here = Path(os.path.realpath(cwd))
    notes: list[str] = []
    named = Path(os.path.normpath(here / os.path.expanduser(mentioned(given))))  # noqa: PTH111
    if named != target.path:
        notes.append(f"The path {given!r} leads there.")
    if not target.path.is_relative_to(here):
        notes.append(f"It is outside the working directory, {here}.")
    if target.other_names:
        notes.append(f"The file has {target.other_names + 1} names (hard links): it changes under all of them.")
    if target.is_executable:
        notes.append("It is executable.")
    if target.path.suffix == ".ipynb":
        notes.append("It is a notebook: a page that shows it would not show this change.")
    if objection := _file_objection(target.path, here):
        notes.append(objection)
    return " ".join(notes) or None


def may_be_written_unasked(target: Target, here: Path) -> bool:
    """Return whether a rule may cover writing there: to a plain file or directory of the project's own.

    It may not where what is written may run, configure what runs, be a key, or take the place of an open notebook.

    Args:
        target: The file or directory, which need not exist.
        here: The real path of the session's working directory.
    """
    if target.path == here or not target.path.is_relative_to(here) or target.path.suffix.casefold() == ".ipynb":
        return False
    is_other = target.state is not None and not (target.is_directory or stat.S_ISREG(target.state.st_mode))
    unusual = is_other or target.is_executable or target.other_names
    return not unusual and _file_objection(target.path, here) is None


def _file_objection(path: Path, here: Path | None = None) -> str | None:
    inside = path.relative_to(here) if here is not None and path.is_relative_to(here) else path
    names = [name.casefold() for name in inside.parts]
    if ".git" in names:
        return "It is a part of the repository's own data, which git may run."
    if holds_keys(inside):
        return "It is a place that keys and passwords are kept in."
    if any(name.startswith(".") for name in names):
        return "It is a hidden file, or in a hidden directory."
    if names and _RUN_BY_PROGRAMS.fullmatch(names[-1]):
        return "Programs run such a file, or follow it, when they find it."
    return None


def written_file(target: Target, new: str) -> tuple[str, str | None]:
    """Show what writing a file changes; reads the file.

    Args:
        target: The file, which need not exist.

    Returns:
        A unified difference, and one with numbered lines; the new content and ``None`` if there is no file with text,
        or if it is too large to compare.
    """
    if target.state is None:
        return new, None
    if not stat.S_ISREG(target.state.st_mode) or target.state.st_size > _MAX_FILE_BYTES:
        return f"(in the place of what is there)\n\n{new}", None
    try:
        with open_target(target, name=str(target.path)) as file:
            old = file.read(_MAX_FILE_BYTES + 1).decode()
    except (OSError, ValueError, ToolError):
        return f"(in the place of what is there)\n\n{new}", None
    return changed_text(old, new)


def changed_text(old: str, new: str) -> tuple[str, str | None]:
    """Show what putting a text in the place of another changes.

    Returns:
        A unified difference, and one with numbered lines; the new text and ``None`` if it is too large to compare.
    """
    import difflib

    before, after = _lines(old), _lines(new)
    if max(len(before), len(after)) > _MAX_LINES:
        return f"(in the place of the {len(before)} lines that are there)\n\n{new}", None
    if before == after:
        return ("(Nothing changes but for the end of the last line.)" if old != new else "(Nothing changes.)"), None
    return "\n".join(difflib.unified_diff(before, after, "now", "then", lineterm="")), _numbered(old, new)


def _numbered(old: str, new: str) -> str | None:
    """Return the diff with numbered lines; ``None`` if line ends matter, which it would not show."""
    from indus_nb.tools.files.edit import numbered_diff

    return None if "\r" in old or "\r" in new else numbered_diff(old, new)


def edited_file(target: Target, edits: Sequence[Replacement]) -> str | None:
    """Show what replacing pieces of a file changes, with numbered lines; reads the file.

    Returns:
        The difference; ``None`` if the pieces are not found there, or a line's end is among what changes.
    """
    state = target.state
    if state is None or not stat.S_ISREG(state.st_mode) or state.st_size > _MAX_FILE_BYTES:
        return None
    try:
        with open_target(target, name=str(target.path)) as file:
            return edited_text(file.read(), edits)
    except (OSError, ToolError):
        return None


def edited_text(data: bytes, edits: Sequence[Replacement]) -> str | None:
    """Show what replacing pieces of a text changes, with numbered lines.

    Args:
        data: The text as it would stand in a file.

    Returns:
        The difference; ``None`` if the pieces are not found there, or a line's end is among what changes.
    """
    from indus_nb.tools.files.edit import replace

    if any("\r" in edit.new_text for edit in edits):
        return None
    try:
        return replace(data, edits).diff
    except (ValueError, ToolError):
        return None


def replacements(edits: Iterable[Replacement]) -> str:
    """Show the pieces that an edit removes (``-``) and puts in their place (``+``)."""
    lines: list[str] = []
    for edit in edits:
        lines += [f"-{line}" for line in _lines(edit.old_text)]
        lines += [*(f"+{line}" for line in _lines(edit.new_text)), ""]
    return "\n".join(lines)


def _lines(text: str) -> Sequence[str]:
    r"""Split a text at ``\n`` and nothing else: few programs take other characters for the end of a line."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
