"""Resolution of a path as a model gives it: relative, with ``@`` or ``~``, or in another system's spelling."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from indus_nb.tools.tool import ToolError

_SPACES = "[\u00a0\u2000-\u200a\u202f\u205f\u3000]"


def resolve(path: str, cwd: Path) -> Path:
    """Return the absolute path of an existing file meant by a path, else of the one that would be created.

    A file of exactly that name comes first. Then it is read as a mention and unusual spaces become plain ones; then
    the spellings that macOS gives to names are tried.

    Args:
        cwd: Directory that relative paths start from.

    Returns:
        The path; a file need not be there.

    Raises:
        ToolError: It cannot be a path.
    """
    if (error := rejection(path)) is not None:
        raise error
    plain = _expanded(re.sub(_SPACES, " ", mentioned(path)), cwd)
    candidates = (_expanded(path, cwd), plain, *_macos_spellings(plain))
    return next((found for found in candidates if os.path.lexists(found)), plain)


def mention(path: str) -> str:
    """Write a path as a prompt mentions it.

    >>> mention("data.csv"), mention("my data.csv")
    ('@data.csv', '@"my data.csv"')
    """
    return f'@"{path}"' if re.search(r"\s", path) and '"' not in path else f"@{path}"


def mentioned(path: str) -> str:
    """Return the path of a mention; what is none stays as it is.

    >>> mentioned("@data.csv"), mentioned('@"my data.csv"'), mentioned("my data.csv")
    ('data.csv', 'my data.csv', 'my data.csv')
    """
    quoted = re.fullmatch(r'@"([^"]+)"', path.strip())
    return quoted[1] if quoted else path.removeprefix("@")


def rejection(path: str) -> ToolError | None:
    """Return why a text cannot be a path; ``None`` for one that can, whether or not anything is there."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return ToolError(f"{path!r} is no path: it holds half a character. Nothing was done.")
    if "\0" in path:
        return ToolError(f"{path!r} is no path: it holds a NUL character. Nothing was done.")
    return None


def _expanded(path: str, cwd: Path) -> Path:
    return cwd / os.path.expanduser(path)  # noqa: PTH111, pathlib's fails for unknown users


def _macos_spellings(path: Path) -> Iterator[Path]:
    text = str(path)
    narrow = re.sub(r" (?=[AP]M\b)", "\u202f", text, flags=re.IGNORECASE)
    for spelling in (text, narrow):
        for curly in (spelling, spelling.replace("'", "\u2019")):
            yield Path(curly)
            yield Path(unicodedata.normalize("NFD", curly))


def failure(action: str, path: str | Path, error: OSError) -> ToolError:
    """Build the tool error for a failed system call.

    Args:
        action: The failed action, as a verb.
        path: To what, as the model called it.

    Returns:
        The error, with advice where there is any.
    """
    match error:
        case FileNotFoundError():
            advice = " Check the path with ls or find."
        case IsADirectoryError():
            advice = " It is a folder; ls shows what is in it."
        case PermissionError():
            advice = " Check its owner and mode."
        case _:
            advice = ""
    return ToolError(f"Could not {action} {path}: {error.strerror or error}.{advice}")
