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
