"""Numbers of answers that no result shows: signs around them while their text is parsed, and tokens of their own then.

The signs are noncharacters of Unicode, which no text that is meant for people holds. Where one stands in code, an
address or a formula it is dropped, so a mark can only ever be drawn around text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from markdown_it.token import Token

UNTRACED = "untraced"
"""Type of the tokens of such numbers."""
TITLE = "not from a result"
BEGIN, END = "\ufdd0", "\ufdd1"
_MARKED = re.compile(f"{BEGIN}([^{BEGIN}{END}]{{1,60}}){END}")
_NEITHER = str.maketrans("", "", BEGIN + END)

Spans: TypeAlias = Sequence[tuple[int, int]]
"""Where parts of a text begin and end, in characters, in their order."""
Found: TypeAlias = Sequence[tuple[str, Sequence[str]]]
"""Numbers as they are written, in their order, each with the ids of the calls whose results show it."""
UntracedIn: TypeAlias = Callable[[str], Spans]
"""Finds the numbers of a part of an answer that no result shows."""


class Tracing(NamedTuple):
    """Looks up where the numbers of a part of an answer come from.

    Attributes:
        untraced_in: Finds those that no result shows.
        found_in: Finds those that results of calls show.
    """

    untraced_in: UntracedIn
    found_in: Callable[[str], Found]


def _nothing(_: str) -> tuple[()]:
    return ()


NO_TRACING = Tracing(_nothing, _nothing)


def with_marks(text: str, untraced_in: UntracedIn) -> str:
    """Put signs around numbers in the Markdown of an answer."""
    text = unmarked(text)
    pieces: list[str] = []
    at = 0
    for start, end in untraced_in(text):
        pieces += text[at:start], BEGIN, text[start:end], END
        at = end
    return "".join((*pieces, text[at:]))


def unmarked(text: str) -> str:
    """Return a text without signs around numbers.

    >>> unmarked(with_marks("of 5,000", lambda _: [(3, 8)]))
    'of 5,000'
    """
    return text.translate(_NEITHER) if BEGIN in text or END in text else text


def put_marks(tokens: Sequence[Token]) -> None:
    """Make tokens of numbers between signs, and drop the signs."""
    for block in tokens:
        if block.children is not None:
            block.children = [part for token in block.children for part in _parts(token)]
        _drop_signs(block)


def _parts(token: Token) -> Iterator[Token]:
    """Yield a token, or what text of it is a number between signs and what is not."""
    if token.type == "text":
        for at, piece in enumerate(_MARKED.split(token.content)):
            if piece:
                part = copy(token)
                part.type, part.content = UNTRACED if at % 2 else "text", unmarked(piece)
                yield part
    else:
        _drop_signs(token)
        yield token


def _drop_signs(token: Token) -> None:
    token.content = unmarked(token.content)
    for name, value in token.attrs.items():
        if isinstance(value, str):
            token.attrs[name] = unmarked(value).replace("%EF%B7%90", "").replace("%EF%B7%91", "")
