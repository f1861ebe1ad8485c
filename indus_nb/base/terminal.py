"""Untrusted text made safe for a terminal: without control sequences.

Every sentence to a person passes ``plain`` where it is written: ``console.stdio.complain``, the log on standard error,
lists of the console program, and what a cell prints in a terminal.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable

from indus_nb.base.textcut import counted
from indus_nb.base.wire import clean_text

_CODES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\n\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_ROWS_OF_ANSWERS = 9
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
"""With the marks that turn the direction of writing."""


def plain(text: str) -> str:
    r"""Remove control sequences, bidirectional marks and lone surrogates from ``text``.

    >>> plain("\x1b[31mred\x1b[0m\r\nnext\x07\u202e")
    'red\nnext'
    """
    if text.isascii() and text.isprintable():
        return text
    text = re.sub(_CODES, "", text).replace("\r\n", "\n").replace("\r", "\n")
    return clean_text(re.sub(_CONTROLS, "", text))


def read_through(text: str, ask: Callable[[str], str]) -> str | None:
    """Show a text page by page, each line of it marked, so that none can pass for one of ours.

    Args:
        ask: Shows a prompt, and returns the line that the user types; called for each page but the last.

    Returns:
        The last page, to be shown with the question below it; ``None`` if the user stopped before that.
    """
    columns, rows = shutil.get_terminal_size()
    lines = [piece for line in plain(text).split("\n") for piece in _pieces(line, max(columns - 4, 20))]
    at_once = max(rows - _ROWS_OF_ANSWERS, 10)
    while len(lines) > at_once:
        page, lines = lines[:at_once], lines[at_once:]
        prompt = f"-- {counted(len(lines), 'more line')}: Enter shows what is left, anything else dismisses: "
        if ask(f"{_joined(page)}{prompt}").strip():
            return None
    return _joined(lines)


def _pieces(line: str, width: int) -> list[str]:
    """Split a line into rows of a terminal, those after the first marked as such."""
    if not line.isascii():
        width //= 2  # some characters are two columns wide
    first, rest = line[:width], line[width:]
    return [f"│ {first}", *(f"┆ {rest[at : at + width]}" for at in range(0, len(rest), width))]


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


class PlainFormatter(logging.Formatter):
    """A log formatter for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record and its traceback, if it has one."""
        return plain(super().format(record))
