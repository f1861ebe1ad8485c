"""Files beyond the project: those that a call without effects is asked about all the same.

Reading is no harm to a file, but what is read goes to the model and into the session file. So reads outside the
working directory, of files that are there to keep secrets, and of what the system shows of processes are asked about.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from indus_nb.safety.key_places import AT_HOME, holds_keys
from indus_nb.tools.description import Target

_SYSTEM = tuple(map(Path, ("/proc", "/dev", "/sys")))
_LOOKED_AT = 1 << 14
_KEYS = "It is a place that keys and passwords are kept in."


def _is_within(path: Path, directories: Iterable[Path]) -> bool:
    """Return whether ``path`` is one of the directories, or below one."""
    return any(path.is_relative_to(directory) for directory in directories)


def keeps_secrets(path: Path, here: Path, private: Iterable[Path] = ()) -> bool:
    """Return whether a file has secrets by its place or name, or belongs to the system or a private directory.

    Args:
        path: The file's real path.
        here: The real path of a directory whose own name says nothing of what is in it.
        private: Directories of which nothing is shown.

    Returns:
        Whether it is there to keep secrets, or belongs to the system or to a private directory.
    """
    inside = path.relative_to(here) if path.is_relative_to(here) else path
    return holds_keys(inside) or _is_within(path, _SYSTEM) or _is_within(path, private)


def reason_to_ask(
    target: Target, cwd: Path, *, searched: bool, private: Iterable[Path] = (), open_to: Iterable[Path] = ()
) -> str | None:
    """Return why the user is asked before a file is read.

    Args:
        searched: True if all that is below it is read as well.
        private: Directories of which nothing is read unasked, wherever they are.
        open_to: Files and directories outside the working directory that may be read: skills, context files, output
            that our tools have kept.

    Returns:
        A sentence; ``None`` if the user need not be asked.
    """
    path, here = target.path, Path(os.path.realpath(cwd))
    inside = path.relative_to(here) if path.is_relative_to(here) else None
    reason = None
    if _is_within(path, _SYSTEM):
        reason = "It is no file: the system shows processes or devices there, and keys among them."
    elif holds_keys(inside or path):
        reason = _KEYS
    elif _is_within(path, open_to):
        reason = None
    elif _is_within(path, private):
        reason = "It is in the directory of the agent's own settings, keys and sessions."
    elif _is_within(path, _at_home()) and not _is_within(here, _at_home()):
        reason = _KEYS
    elif inside is not None and not target.is_directory and _shows_secrets(path):
        reason = "What looks like a key or password stands in it."
    elif searched and (covered := _covered(path, private)) is not None:
        reason = f"{covered} is in it, a place that keys and passwords are kept in."
    elif inside is None:
        reason = f"It is outside the working directory, {here}."
    return reason


def _shows_secrets(path: Path) -> bool:
    """Return whether something at the beginning of a file looks like a secret."""
    from indus_nb.safety.redaction import replace_named, replace_shapes

    found: list[str] = []

    def note(_kind: str, value: str) -> str:
        found.append(value)
        return value

    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - see flags
            head = file.read(_LOOKED_AT) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return False  # the reader says why it cannot be read
    replace_named(replace_shapes(head.decode(errors="replace"), note), note)
    return bool(found)


def _home() -> Path:
    return Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - pathlib's fails without a home


def _at_home() -> list[Path]:
    home = _home()
    return [home / name for name in AT_HOME]


def _covered(path: Path, private: Iterable[Path]) -> Path | None:
    places = [*private, *_SYSTEM, *_at_home()]
    return next((place for place in places if place.is_relative_to(path) and os.path.lexists(place)), None)


def places_read_with(target: Target) -> Sequence[str]:
    """Return the directories that a rule about reading a target may name, nearest first.

    Each ends with a slash. There is none for what is there to keep secrets.
    """
    directory = target.path if target.is_directory else target.path.parent
    home = _home()
    if holds_keys(target.path) or _is_within(target.path, (*_SYSTEM, *_at_home())):
        return ()
    if not target.is_directory and _shows_secrets(target.path):
        return ()
    usable = (each for each in (directory, *directory.parents) if len(each.parts) > 2 and not home.is_relative_to(each))
    return [f"{each}/" for each in usable]
