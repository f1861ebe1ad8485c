r"""Live values: inline code of an answer that begins with ``{python}``, and the values that stand in its place.

What is an expression decides the parser of Markdown alone: a token of inline code is one, and nothing in a block of
code, a formula or the text of a tag is. What replaces it is text, which the writers escape like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from indus_nb.base.wire import JsonObject

if TYPE_CHECKING:
    from markdown_it.token import Token

MARK = "{python}"
"""What the content of inline code begins with that is an expression."""
VALUES_TYPE = "live_values"
"""The type of messages that tell a model of its values, which no front end shows, and of entries that hold them."""
REWRITES = "rewrites"
"""Key of the details of such a message that has an answer written anew: why, in words that are shown."""
_EXPRESSION = re.compile(r"\{python\}\s+(?P<source>\S.*)", re.DOTALL)
_BLANK = r"(?:\s+(?:>\s*)*)"
"""Blanks in the source of inline code: it may go on in the next line, also of a quotation."""
MAX_EXPRESSION_CHARACTERS = 1_000
"""Longer ones are code like any other."""
VALUE, FAILED = "live_value", "live_failed"
"""Types of the tokens that take the place of inline code."""
NO_VALUE = "(no value)"


class LiveValue(NamedTuple):
    """Value of an expression as a line of text; or why it has none.

    Attributes:
        reads: The variables that it was computed from.
        is_late: Whether it has none for lack of time alone, which no other expression would mend.
        since: When it was looked up, where that was in a kernel that has ended; empty in this one.
    """

    text: str = ""
    problem: str = ""
    reads: tuple[str, ...] = ()
    is_late: bool = False
    since: str = ""

    @property
    def is_lacking(self) -> bool:
        """Return whether it has none for a reason that the model may mend."""
        return bool(self.problem) and not self.is_late

    def to_json(self, expression: str) -> JsonObject:
        """Return the value as the metadata of an output holds it."""
        if self.problem:
            return {"expression": expression, "problem": self.problem}
        return {"expression": expression, "value": self.text, "reads": [*self.reads]}


LiveLookup: TypeAlias = Callable[[str], LiveValue | None]
"""Returns the value of an expression; ``None`` leaves the expression as code."""

PENDING = LiveValue("…")
"""Stands in the place of a value that is not known yet."""


def pending(_expression: str) -> LiveValue:
    """Return the mark for a value that is not known yet."""
    return PENDING


def expression_in(code: str) -> str | None:
    """Return the expression in the content of inline code; ``None`` where it is other code.

    >>> expression_in("{python} flights.delay.mean()"), expression_in("{python}"), expression_in("flights")
    ('flights.delay.mean()', None, None)
    """
    found = _EXPRESSION.fullmatch(code.strip())
    source = found["source"] if found else ""
    return source if 0 < len(source) <= MAX_EXPRESSION_CHARACTERS else None


def expressions_in(tokens: Sequence[Token]) -> list[str]:
    """Return the expressions in parsed Markdown, each once, in their order."""
    return list(dict.fromkeys(source for _, _, source in _places(tokens)))


def put_values(tokens: Sequence[Token], live: LiveLookup) -> None:
    """Turn inline code with an expression into tokens that hold values.

    Their ``content`` is the value, or the expression where there is none; ``meta`` has what is shown on demand.
    """
    for _, token, source in _places(tokens):
        value = live(source)
        if value is None:
            continue
        token.type = FAILED if value.problem else VALUE
        token.content = source if value.problem else value.text
        title = f"{source} (as of {value.since})" if value.since else source
        token.meta = {"title": value.problem or title, "pending": value is PENDING, "is_of_before": bool(value.since)}


def in_source(text: str, tokens: Sequence[Token], live: LiveLookup) -> str:
    """Return Markdown with values in the place of their expressions.

    Args:
        tokens: What the text was parsed into.
    """
    starts = [0]
    for row in text.split("\n"):
        starts.append(starts[-1] + len(row) + 1)
    pieces: list[str] = []
    at = copied = 0
    for block, token, source in _places(tokens):
        first, behind = block.map or (0, 0)
        content = _BLANK.join(map(re.escape, re.split(r"\s+", token.content)))
        span = re.compile(rf"(?<!`){token.markup}{_BLANK}?{content}{_BLANK}?{token.markup}(?!`)")
        found = span.search(text, max(at, starts[first]), starts[behind])
        value = live(source)
        if found is None or value is None:
            continue
        at = found.end()
        pieces += text[copied : found.start()], f"`{source}` {NO_VALUE}" if value.problem else value.text
        copied = at
    return "".join((*pieces, text[copied:]))


def _places(tokens: Sequence[Token]) -> Iterator[tuple[Token, Token, str]]:
    """Yield inline code with an expression: the token of its paragraph, its own, and the expression."""
    for block in tokens:
        for token in block.children or ():
            if token.type == "code_inline" and (source := expression_in(token.content)) is not None:
                yield block, token, source
