"""Markdown files with fields in front, as users and projects write them for the agent.

The bytes that are read are bounded, and nothing is waited for that is no ordinary file.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import cast

_MAX_FILE_BYTES = 1 << 20
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN_LINE = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,63}):[ ]+([^\W\d_].*)")


class UnusableFileError(ValueError):
    """Raised for a file that cannot be used; the text follows its path in a sentence."""


def read_text(path: Path) -> str:
    """Return the file's text with plain line ends; raises ``OSError`` or ``UnusableFileError``."""
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnusableFileError("is no ordinary file")
        content = file.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise UnusableFileError("is larger than 1 MiB; shorten it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableFileError(f"is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    if "\0" in text:
        raise UnusableFileError("is no text, for it holds zero bytes; replace it")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _open_at_once(path: str, flags: int) -> int:
    # Opening a named pipe would block until something writes to it.
    return os.open(path, flags | os.O_NONBLOCK)


def split_frontmatter(text: str) -> tuple[str, str]:
    """Return the lines between the marks at the beginning of a file's text, and the text behind them."""
    found = _FRONTMATTER.match(text)
    return (found[1], text[found.end() :].strip()) if found else ("", text.strip())


def read_fields(front: str) -> dict[str, object]:
    r"""Read the frontmatter's fields. The grammar is YAML without types: all is text, lists and mappings of texts.

    Plain lines, which most are, are YAML that needs no parser, so it is neither loaded nor run for them.

    Args:
        front: The lines between the marks, as ``split_frontmatter`` returns them.

    Raises:
        UnusableFileError: It is no YAML, or no mapping.

    >>> read_fields("name: notes\ndescription: Use it")
    {'name': 'notes', 'description': 'Use it'}
    """
    plain = _plain_fields(front)
    return _yaml_fields(front) if plain is None else plain


def _plain_fields(front: str) -> dict[str, object] | None:
    """Parse the fields if all lines are plain, as YAML would read them; else return ``None``."""
    fields: dict[str, object] = {}
    for line in front.split("\n"):
        found = _PLAIN_LINE.fullmatch(line)
        if found is None:
            if line.strip(" "):
                return None
            continue
        value = found[2].rstrip(" ")
        if not line.isprintable() or ": " in value or " #" in value or value.endswith(":"):
            return None
        fields[found[1]] = value
    return fields


def _yaml_fields(front: str) -> dict[str, object]:
    import yaml

    try:
        # It knows only strings, lists and mappings: no tags to obey, no merge keys to multiply, no numbers to compute.
        value: object = yaml.load(front, Loader=yaml.BaseLoader)  # noqa: S506 - safer than the safe one
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark: object = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if isinstance(mark, yaml.Mark) else ""
        what = getattr(error, "problem", None) or type(error).__name__
        raise UnusableFileError(
            f"its frontmatter is no YAML{where} ({what}); quote texts that hold `: ` or `#`"
        ) from error
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise UnusableFileError("its frontmatter must be lines of `key: value`")
    fields = cast("dict[object, object]", value)
    return {key: field for key, field in fields.items() if isinstance(key, str)}
