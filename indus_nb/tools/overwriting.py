r"""Folding of overwritten lines, as of progress bars, to what a terminal shows of them.

``PlainText(keeps_cursor=True)`` leaves three characters in a text that act on the current line: ``\r`` goes back to
its beginning, ``\b`` one character back, and ``\x1b`` erases the rest of it.
"""

from __future__ import annotations

import re

_ACTING = re.compile("([\r\b\x1b])")
_MAX_OPEN_CHARACTERS = 8192
"""Longest line that is held back: nothing is written over a longer one, and it would be copied with every piece."""


class FoldedLines:
    r"""A text that comes in pieces, line by line as a terminal shows it.

    >>> lines = FoldedLines()
    >>> lines.feed("begin\n 10%\r 20%"), lines.line
    ('begin\n', ' 20%')
    >>> lines.feed("\r done\n"), lines.line
    (' done\n', '')

    Attributes:
        line: The line that is not ended yet.
    """

    def __init__(self) -> None:
        self.line: str = ""
        self.overwritten: bool = False
        self._column = 0

    def feed(self, text: str) -> str:
        """Add a piece; return the lines that cannot change any more."""
        done: list[str] = []
        if self._column == len(self.line) and _ACTING.search(text) is None:
            whole, end, rest = text.rpartition("\n")
            if end:
                self.line += whole
                done.append(self._end(end))
            self.line += rest
            self._column = len(self.line)
        else:
            for number, row in enumerate(text.split("\n")):
                if number:
                    done.append(self._end("\n"))
                self._write_over(row)
        if len(self.line) > _MAX_OPEN_CHARACTERS and self._column == len(self.line):
            done.append(self._end(""))
        return "".join(done)

    def _end(self, end: str) -> str:
        ended = self.line + end
        self.line, self._column, self.overwritten = "", 0, False
        return ended

    def _write_over(self, row: str) -> None:
        if not row:
            return
        for part in _ACTING.split(row):
            match part:
                case "\r":
                    self._column = 0
                case "\b":
                    self._column = max(self._column - 1, 0)
                case "\x1b":
                    self.line = self.line[: self._column]
                case _:
                    after = self._column + len(part)
                    self.line = self.line[: self._column] + part + self.line[after:]
                    self._column = after
        self.overwritten = True


class FoldedStream:
    r"""A text in pieces, folded for a reader to whom nothing can be sent twice.

    A line that is written over is given out once it has ended; if a part of it was given out before, on a new line.

    >>> stream = FoldedStream()
    >>> [stream.feed(piece) for piece in ("name? ", "\n1", "\r2", "\r3", "\nend")]
    ['name? ', '\n1', '', '', '\n3\nend']
    """

    def __init__(self) -> None:
        self._lines = FoldedLines()
        self._given: str = ""

    def feed(self, text: str, *, final: bool = False) -> str:
        """Add a piece, and return the text to show.

        Returns:
            What can be shown by now.
        """
        done = self._lines.feed(text)
        held = self._lines.overwritten and not final
        fresh = done + ("" if held else self._lines.line)
        if not fresh:
            return ""
        given = self._given
        self._given = "" if held else self._lines.line
        return fresh[len(given) :] if fresh.startswith(given) else f"\n{fresh}"
