"""Text from elsewhere as a terminal may be given it: without what it would obey.

Every sentence to a person passes ``plain`` where it is written: ``console.stdio.complain``, the log on standard error,
lists of the console program, and what a cell prints in a terminal.
"""

from __future__ import annotations

import logging
import re

from indus_nb.wire import clean_text

_CODES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\n\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
"""With the marks that turn the direction of writing."""


def plain(text: str) -> str:
    r"""``text`` without what a terminal would obey, marks that turn the direction of writing, and half characters.

    >>> plain("\x1b[31mred\x1b[0m\r\nnext\x07\u202e")
    'red\nnext'
    """
    if text.isascii() and text.isprintable():
        return text
    text = re.sub(_CODES, "", text).replace("\r\n", "\n").replace("\r", "\n")
    return clean_text(re.sub(_CONTROLS, "", text))


class PlainFormatter(logging.Formatter):
    """Writes records of the log for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record and its traceback, if it has one."""
        return plain(super().format(record))
