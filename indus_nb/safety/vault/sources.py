"""Sources of secrets that a session can know: variables of the environment, ``.env``, ``.netrc``, and given values."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from indus_nb.safety.redaction import is_secret_value, looks_random, names_secret

Known = tuple[str, str]
"""The label of a secret, and its value."""
_MAX_FILE_BYTES = 1 << 20
_MOST_OF_OTHERS = 200
_ENV_LINE = r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]{0,100})[ \t]*=[ \t]*(?:\"([^\"]*)\"|'([^']*)'|([^\n#]*))"
_IN_ADDRESS = r"://[^\s/:@]{0,100}:([^\s/@]{1,200})@"


def from_environment(environment: Mapping[str, str]) -> Iterator[Known]:
    """List the secrets among variables: by the variable's name, and passwords in addresses."""
    for name, value in environment.items():
        if names_secret(name):
            yield name, value
        if "@" in value and "://" in value:
            yield from ((f"{name} password", unquote(found)) for found in re.findall(_IN_ADDRESS, value))


def from_env_file(path: Path, *, vouched: bool) -> Iterator[Known]:
    """List the secrets of a file such as ``.env``; one that cannot be read holds none.

    Args:
        vouched: Whether the user trusts its author. If not, the names in it are never shown, and values that
            could have been chosen as words are ignored.
    """
    found = _named(path)
    if vouched:
        yield from found
        return
    random = (value for _, value in found if looks_random(value))
    yield from ((f"{path.name} {number}", value) for number, value in enumerate(islice(random, _MOST_OF_OTHERS), 1))


def _named(path: Path) -> Iterator[Known]:
    text = _text(path)
    if text:
        found = re.findall(_ENV_LINE, text)
        variables = {name: double or single or bare.strip() for name, double, single, bare in found}
        yield from ((f"{label} of {path.name}", value) for label, value in from_environment(variables))


def from_netrc(path: Path) -> Iterator[Known]:
    """List the passwords of ``.netrc``, by host."""
    host = "default"
    words = iter(_text(path).split())
    for word in words:
        if word == "machine":
            host = next(words, "")
        elif word in ("password", "account"):
            yield f"{word} of {host} in .netrc", next(words, "")


def usable(known: Iterable[Known]) -> Iterator[Known]:
    """Return the secrets that can be replaced wherever they stand, each of them once."""
    seen: set[str] = set()
    for label, given in known:
        value = re.sub(r"(?i)^(?:bearer|basic|token|apikey|bot)\s+", "", given.strip())
        if value not in seen and is_secret_value(value):
            seen.add(value)
            yield label, value


def state_of(path: Path | None) -> tuple[int, ...]:
    """Return a value that changes when a file does; empty while it is missing."""
    try:
        found = os.stat(path) if path is not None else None  # noqa: PTH116 - asked for often
    except (OSError, ValueError):
        return ()
    return () if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def _text(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return ""
        with path.open("rb") as file:
            return file.read(_MAX_FILE_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ""
