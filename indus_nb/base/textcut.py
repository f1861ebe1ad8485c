r"""Shortening text: the one place that decides how a cut is made and where its mark stands.

What this module promises:

- Text within the limit is returned as it is; no mark is added to it.
- ``{left}`` in a mark (``{left:,}`` with separators) is the number of characters, or lines, that were left out.
- The time depends on the limit and not on the length of the text (for lines: on the text's length, once).
- No character is cut in half: limits in bytes leave out a character that does not fit whole.

How much of a tool's output a model reads is decided in ``tools.truncate``, which is built on this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ELLIPSIS = "…"


def head(text: str, characters: int, mark: str = ELLIPSIS) -> str:
    """Return the beginning of a text, with a mark behind it if more follows.

    >>> head("a long text", 6), head("short", 6), head("a long text", 6, " [{left} more]")
    ('a long…', 'short', 'a long [5 more]')

    Args:
        characters: How many characters of the text are kept; the mark comes on top of them.

    Returns:
        The text itself, or its first ``characters`` characters and the mark.
    """
    return text if len(text) <= characters else text[:characters] + _filled(mark, len(text) - characters)


def fit(text: str, characters: int, mark: str = ELLIPSIS) -> str:
    """Return the beginning of a text that is, with its mark, no longer than a limit.

    >>> fit("a long text", 6), fit("a long text", 6, "...")
    ('a lon…', 'a l...')

    Args:
        characters: How many characters the result has at most, the mark included.
        mark: What stands for the rest; it must be shorter than the limit, and holds no ``{left}``.

    Returns:
        The text itself, or as much of its beginning as leaves room for the mark, and the mark.
    """
    return text if len(text) <= characters else head(text, characters - len(mark), mark)


def tail(text: str, characters: int, mark: str = ELLIPSIS) -> str:
    """Return the end of a text, with a mark before it if it is not all of it.

    >>> tail("a long text", 4), tail("text", 4)
    ('…text', 'text')

    Args:
        characters: How many characters of the text are kept; the mark comes on top of them.

    Returns:
        The text itself, or the mark and its last ``characters`` characters.
    """
    return text if len(text) <= characters else _filled(mark, len(text) - characters) + text[len(text) - characters :]


def middle(text: str, characters: int, mark: str = ELLIPSIS) -> str:
    """Return both ends of a text, with a mark between them if something was left out.

    >>> middle("a very long text", 8), middle("a very long text", 8, " [{left}] ")
    ('a ve…text', 'a ve [8] text')

    Args:
        characters: How many characters of the text are kept, half of them from each end.
        mark: What stands for the part that is left out.

    Returns:
        The text itself, or its ends and the mark.
    """
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}{_filled(mark, len(text) - 2 * half)}{text[len(text) - half :]}"


def middle_lines(text: str, lines: int, mark: str = ELLIPSIS) -> str:
    r"""Return the first and the last lines of a text, with a mark on a line of its own between them.

    >>> middle_lines("1\n2\n3\n4\n5", 4, "[{left:,} lines left out]")
    '1\n2\n[1 line left out]\n4\n5'
    >>> middle_lines("1\n2\n3\n4\n5\n6", 4, "[{left} more]")
    '1\n2\n[2 more]\n5\n6'

    Args:
        lines: How many lines are kept, half of them from each end.
        mark: What stands on the line between them.

    Returns:
        The text itself, or its ends and the mark.
    """
    rows = text.split("\n")
    if len(rows) <= lines:
        return text
    half = lines // 2
    return "\n".join([*rows[:half], _filled(mark, len(rows) - 2 * half), *rows[len(rows) - half :]])


def one_line(text: str, characters: int, mark: str = ELLIPSIS) -> str:
    r"""Return the beginning of a text on one line: every run of blanks and line ends is one blank.

    >>> one_line("  a\n   b\t c ", 80), one_line("first\nsecond\nthird", 12)
    ('a b c', 'first second…')

    Args:
        text: The text to shorten; what stands behind ten times the limit is not looked at.
        characters: How many characters are kept; the mark comes on top of them.

    Returns:
        A line without line ends, and without blanks at its ends.
    """
    return head(_joined(text, characters), characters, mark)


def one_line_fit(text: str, characters: int, mark: str = ELLIPSIS) -> str:
    r"""Shorten like ``one_line``, but count the mark: the line is never longer than the limit.

    >>> one_line_fit("first\nsecond\nthird", 12)
    'first secon…'

    Args:
        text: The text to shorten; what stands behind ten times the limit is not looked at.
        characters: How many characters the line has at most, the mark included.

    Returns:
        A line without line ends, and without blanks at its ends.
    """
    return fit(_joined(text, characters), characters, mark)


def head_bytes(text: str, size: int) -> str:
    """Return the beginning of a text that has at most ``size`` bytes in UTF-8, without a mark.

    >>> head_bytes("größe", 4)
    'grö'

    Args:
        size: How many bytes are kept at most.

    Returns:
        The longest beginning of whole characters that fits.
    """
    return text[:size].encode(errors="replace")[:size].decode(errors="ignore")


def tail_bytes(text: str, size: int) -> str:
    """Return the end of a text that has at most ``size`` bytes in UTF-8, without a mark.

    >>> tail_bytes("größe", 3)
    'ße'

    Args:
        size: How many bytes are kept at most.

    Returns:
        The longest end of whole characters that fits.
    """
    if size <= 0:
        return ""
    return text[-size:].encode(errors="replace")[-size:].decode(errors="ignore")


def byte_size(text: str) -> int:
    """Count the bytes of a text in UTF-8; a lone surrogate counts as the one byte that replaces it."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _joined(text: str, characters: int) -> str:
    return " ".join(text[: 10 * characters].split())


def counted(count: int, noun: str) -> str:
    """Return a number of things in words.

    >>> counted(1, "message"), counted(1200, "message")
    ('1 message', '1,200 messages')

    Args:
        noun: What one of them is called.

    Returns:
        The number, and the noun as that asks for.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def numbered(lines: Iterable[str]) -> str:
    """Return lines with their numbers, as a list in Markdown.

    >>> print(numbered(["look", "draw"]))
    1. look
    2. draw
    """
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def _filled(mark: str, left: int) -> str:
    filled = mark.format(left=left)
    return re.sub(r"\b1 (line|character)s\b", r"1 \1", filled) if left == 1 else filled
