"""A question to the user of a terminal, before a session begins to write there."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from indus_nb.base.terminal import read_through


def can_ask() -> bool:
    """Return whether standard input and standard error are terminals, so that a user can answer."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def choose(question: str, options: Sequence[str]) -> str | None:
    """Ask on standard error, and wait for a line on standard input.

    A question that is longer than the terminal is shown page by page, and takes an answer below its end.

    Args:
        question: The question, of one line or several.

    Returns:
        The chosen option; ``None`` if the user chose none.
    """
    shown = read_through(question, _answered)
    if shown is None:
        return None
    listed = "\n".join(f"  {number}  {option}" for number, option in enumerate(options, 1))
    asked = f"{shown}\n{listed}\n\n1-{len(options)}, or nothing to decide later: "
    while True:
        chosen = _answered(asked).strip()
        if not chosen:
            return None
        if chosen.isdecimal() and 1 <= int(chosen) <= len(options):
            return options[int(chosen) - 1]
        asked = f"{chosen[:20]!r} is none of 1-{len(options)}. Which one, or nothing to decide later: "


def _answered(asked: str) -> str:
    sys.stderr.write(asked)
    sys.stderr.flush()
    return sys.stdin.readline()
