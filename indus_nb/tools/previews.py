"""What the user sees of a change before it is made, and what else an approval of it covers."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from indus_nb.key_places import holds_keys
from indus_nb.tools.description import Target
from indus_nb.tools.replacement import Replacement
from indus_nb.tools.targets import open_target, parent_of
from indus_nb.tools.tool import ToolError

_MAX_FILE_BYTES = 256 * 1024
_MAX_LINES = 2000
_ANY_ARGUMENTS = " …"
_PLAIN_COMMAND = re.compile(r"[A-Za-z0-9 ._/,:@%+=-]+")
"""Characters that no shell does more with than to split words at blanks; an assignment is told apart below."""
_HARMLESS = frozenset({"ls", "pwd", "wc", "du", "df", "whoami"})
"""Programs whose arguments change nothing: none that runs a program, be it one that is configured, and none that
writes to a path among them."""
_RUNS_OTHERS = frozenset(
    [
        ".",
        "arch",
        "at",
        "bash",
        "batch",
        "bind",
        "bpftrace",
        "builtin",
        "busybox",
        "bwrap",
        "cgexec",
        "chroot",
        "chrt",
        "command",
        "compgen",
        "complete",
        "coproc",
        "crontab",
        "dash",
        "doas",
        "enable",
        "env",
        "eval",
        "exec",
        "expect",
        "fakeroot",
        "fc",
        "firejail",
        "fish",
        "flatpak",
        "flock",
        "gdb",
        "hash",
        "ionice",
        "ksh",
        "ld.so",
        "linux32",
        "linux64",
        "ltrace",
        "mapfile",
        "nice",
        "nohup",
        "nsenter",
        "numactl",
        "parallel",
        "perl",
        "pkexec",
        "prlimit",
        "proot",
        "proxychains",
        "readarray",
        "rlwrap",
        "rsh",
        "ruby",
        "run-parts",
        "runcon",
        "runuser",
        "script",
        "setarch",
        "setpriv",
        "setsid",
        "sg",
        "sh",
        "softlimit",
        "source",
        "ssh",
        "sshpass",
        "start-stop-daemon",
        "stdbuf",
        "strace",
        "su",
        "sudo",
        "systemd-run",
        "taskset",
        "time",
        "timeout",
        "toybox",
        "trap",
        "unbuffer",
        "unshare",
        "valgrind",
        "watch",
        "xargs",
        "xterm",
        "zsh",
    ]
)
"""Programs, and builtins of shells, that run what they are given as words."""
_RUN_BY_PROGRAMS = re.compile(
    r"(?:gnu)?makefile(?:\..*)?|.*\.(?:mk|mak|cmake|ninja|gradle|sh|bash|zsh|fish|pth|so|dylib|service|desktop|plist)"
    r"|cmakelists\.txt|justfile|dockerfile.*|containerfile.*|vagrantfile|rakefile|gemfile|gruntfile.*|gulpfile.*"
    r"|jenkinsfile|procfile|package\.json|package-lock\.json|pyproject\.toml|setup\.(?:py|cfg)|tox\.ini|noxfile\.py"
    r"|pytest\.ini|conftest\.py|sitecustomize\.py|usercustomize\.py|tasks\.py|build\.rs|cargo\.toml|go\.mod|sconstruct"
    r"|docker-compose.*|compose\.ya?ml|.*\.config\.[cm]?[jt]s|agents\.md|claude\.md|skill\.md|system\.md",
    re.IGNORECASE,
)
"""Names of files that programs run, or take for instructions, when they find them."""


def command_rule(command: str, cwd: Path) -> str | None:
    """What an approval of a shell command may cover.

    Args:
        command: The command.
        cwd: Where it runs.

    Returns:
        A harmless program with any words, else that very command; ``None`` for one that a shell does more with, and
        where the agent could put another program in the place of the one that runs.

    >>> command_rule("ls -l src", Path("/work")), command_rule("git status", Path("/work"))
    ('ls …', 'git status')
    >>> print(command_rule("git status; rm x", Path("/work")), command_rule("LS_COLORS=1 ls", Path("/work")))
    None None
    """
    if not is_plain(command):
        return None
    words = command.split()
    program = words[0]
    if _runs_others(program) or _is_within(program, cwd):
        return None
    takes_any = program in _HARMLESS and not any(word.startswith("--") for word in words[1:])
    return f"{program}{_ANY_ARGUMENTS}" if takes_any else command


def is_plain(command: str) -> bool:
    """Whether a command is words and blanks alone, for every shell."""
    if _PLAIN_COMMAND.fullmatch(command) is None or not command.strip():
        return False
    program = command.split(maxsplit=1)[0]
    return "=" not in program and not program.startswith(("-", "%", "+", "@"))


def _runs_others(program: str) -> bool:
    return program.rpartition("/")[2] in _RUNS_OTHERS


def _is_within(program: str, cwd: Path) -> bool:
    """Whether a program is a file of the project, which a later call could write."""
    import shutil

    found = cwd / program if "/" in program else shutil.which(program)
    if found is None:
        return False
    here = Path(os.path.realpath(cwd))
    return any(Path(path).is_relative_to(here) for path in (os.path.realpath(found), os.path.abspath(found)))  # noqa: PTH100


def is_sound(rule: str, cwd: Path) -> bool:
    """Whether a kept rule is one that could be offered today; older versions offered more.

    Args:
        rule: The rule.
        cwd: The directory that it is kept for.

    Returns:
        Whether it still counts.
    """
    kind, colon, what = rule.partition(": ")
    if not colon:
        return False
    if kind == "bash":
        program = what.removesuffix(_ANY_ARGUMENTS)
        return program in _HARMLESS if program != what else is_plain(what) and not _runs_others(what.split()[0])
    if kind in ("write", "edit") and not what.startswith("{"):
        return _file_objection(Path(what), Path(os.path.realpath(cwd))) is None
    return True


def started_elsewhere(cwd: Path) -> bool:
    """Whether the process works in another directory than the session."""
    try:
        return os.path.realpath(cwd) != os.path.realpath(Path.cwd())
    except OSError:
        return True


def file_notes(target: Target, given: str, cwd: Path) -> str | None:
    """What the user should know of a file that is to be changed.

    Args:
        target: The file.
        given: The path as the model gave it.
        cwd: The session's working directory.

    Returns:
        Sentences, or ``None``.
    """
    here = Path(os.path.realpath(cwd))
    notes: list[str] = []
    named = Path(os.path.normpath(here / os.path.expanduser(given.removeprefix("@"))))  # noqa: PTH111
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


def file_rule(kind: str, target: Target, cwd: Path) -> str | None:
    """The rule for any change of a file; ``None`` where what it holds may run, or configure what runs.

    Args:
        kind: The tool that changes it.
        target: The file.
        cwd: The session's working directory.

    Returns:
        The rule, of the file by its real path.
    """
    here = Path(os.path.realpath(cwd))
    unusual = target.is_executable or target.other_names or not target.path.is_relative_to(here)
    return None if unusual or _file_objection(target.path, here) else f"{kind}: {target.path}"


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
        new: All that it will hold.

    Returns:
        A unified difference, and one with numbered lines; the new content and ``None`` if there is no file with text,
        or if it is too large to compare.
    """
    if target.state is None:
        return new, None
    if not stat.S_ISREG(target.state.st_mode) or target.state.st_size > _MAX_FILE_BYTES:
        return f"(in the place of what is there)\n\n{new}", None
    try:
        with parent_of(target) as at:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            with os.fdopen(os.open(target.path.name, flags, dir_fd=at), "rb") as file:
                old = file.read(_MAX_FILE_BYTES + 1).decode()
    except (OSError, ValueError, ToolError):
        return f"(in the place of what is there)\n\n{new}", None
    return changed_text(old, new)


def changed_text(old: str, new: str) -> tuple[str, str | None]:
    """Show what putting a text in the place of another changes.

    Args:
        old: The text that is there.
        new: All that will be there.

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
    """The difference with numbered lines; ``None`` where that would not show all: it takes no notice of line ends."""
    from indus_nb.tools.edit import numbered_diff

    return None if "\r" in old or "\r" in new else numbered_diff(old, new)


def edited_file(target: Target, edits: Sequence[Replacement]) -> str | None:
    """Show what replacing pieces of a file changes, with numbered lines; reads the file.

    Args:
        target: The file.
        edits: What is to be replaced.

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
        edits: What is to be replaced.

    Returns:
        The difference; ``None`` if the pieces are not found there, or a line's end is among what changes.
    """
    from indus_nb.tools.edit import replace

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
    r"""The lines of a text, which end with ``\n`` and nothing else: few programs take other characters for an end."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]
