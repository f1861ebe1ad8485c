"""Log of a server: its standard error."""

from __future__ import annotations

from indus_nb.tools.commands.shell import PlainText

MAX_LOG_CHARACTERS = 16 * 1024
_MAX_LAST_WORDS = 800


class ServerLog:
    """The end of what a server wrote on standard error, as plain text.

    ``last_words`` are its newest process's.
    """

    def __init__(self) -> None:
        self.text: str = ""
        self.last_words: str = ""
        self._plain = PlainText()

    def add(self, data: bytes) -> None:
        """Append output of the server."""
        new = self._plain.feed(data)
        self.text = (self.text + new)[-MAX_LOG_CHARACTERS:]
        self.last_words = (self.last_words + new)[-_MAX_LAST_WORDS:]

    def begin(self) -> None:
        """Clear the log: another process begins."""
        self.last_words = ""
