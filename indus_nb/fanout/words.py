"""Amounts as sentences to users have them."""

from __future__ import annotations

import html
import re

_MINUTE = 60
_HOUR = 3600


def rows_of(count: int) -> str:
    """Return a number of rows in words.

    >>> rows_of(1), rows_of(2000)
    ('1 row', '2,000 rows')
    """
    return f"{count:,} row{'' if count == 1 else 's'}"


def part_shown(rows: int, of_rows: int, columns: int, of_columns: int) -> str:
    """Return how much of a table is shown, in words; empty if it is all of it.

    >>> part_shown(20, 60, 8, 9), part_shown(3, 3, 1, 1), part_shown(3, 3, 8, 9)
    ('20 of 60 rows and 8 of 9 columns', '', '8 of 9 columns')
    """
    parts = [f"{rows:,} of {rows_of(of_rows)}"] if rows < of_rows else []
    parts += [f"{columns:,} of {of_columns:,} columns"] if columns < of_columns else []
    return " and ".join(parts)


def duration(seconds: float) -> str:
    """Return a time as it is shown while something goes on.

    >>> duration(4.2), duration(200), duration(8000)
    ('5 s', '4 min', '2.2 h')
    """
    if seconds < _MINUTE:
        return f"{int(seconds) + 1} s"
    return f"{int(seconds / _MINUTE) + 1} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"


def sentence_as_html(text: str) -> str:
    """Return a sentence of ours as HTML, with code for what stands between backticks.

    >>> sentence_as_html("1 row has no value for `a`")
    '1 row has no value for <code>a</code>'
    """
    return re.sub("`([^`]*)`", r"<code>\1</code>", as_html(text))


def as_html(text: str) -> str:
    """Return a text as HTML, in which notebooks take nothing between two dollar signs for a formula."""
    return html.escape(text).replace("$", "<span>$</span>")
