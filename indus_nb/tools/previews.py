"""What the user sees of a change before it is made, and what else an approval of it covers."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from indus_nb.tools.replacement import Replacement

_MAX_FILE_BYTES = 256 * 1024
_MAX_LINES = 2000
_ANY_ARGUMENTS = " …"
_SHELL_SIGNS = frozenset(";&|`$<>(){}[]*?~!\\\n'\"#=")
# Programs whose arguments change little: none that runs what it is given, and none that writes to a path among them.
_HARMLESS = frozenset({"ls", "pwd", "wc", "du", "df", "whoami", "git status"})


def command_rule(command: str) -> str:
    """What an approval of a shell command covers: a harmless program with any words, else that very command.

    >>> command_rule("git status --short"), command_rule("git status; rm x"), command_rule("rm x")
    ('git status …', 'git status; rm x', 'rm x')
    """
    words = _words(command)
    if words:
        for program in (" ".join(words[:2]), words[0]):
            if program in _HARMLESS:
                return f"{program}{_ANY_ARGUMENTS}"
    return command


def _words(command: str) -> Sequence[str] | None:
    """The words of one plain command; ``None`` for anything that a shell would do more with."""
    if not command.strip() or _SHELL_SIGNS & set(command):
        return None
    import shlex

    try:
        return shlex.split(command)
    except ValueError:
        return None


def written_file(path: Path, new: str) -> str:
    """Show what writing a file changes; reads the file.

    Args:
        path: The file, which need not exist.
        new: All that it will hold.

    Returns:
        A unified difference; the new content if there is no file with text, or if it is too large to compare.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE_BYTES:
            return f"(in the place of what is there)\n\n{new}"
        old = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return new
    import difflib

    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > _MAX_LINES:
        return f"(in the place of the {len(before)} lines that are there)\n\n{new}"
    return "\n".join(difflib.unified_diff(before, after, "now", "then", lineterm=""))


def replacements(edits: Iterable[Replacement]) -> str:
    """Show the pieces that an edit removes (``-``) and puts in their place (``+``)."""
    lines: list[str] = []
    for edit in edits:
        lines += [f"-{line}" for line in edit.old_text.splitlines()]
        lines += [*(f"+{line}" for line in edit.new_text.splitlines()), ""]
    return "\n".join(lines)
