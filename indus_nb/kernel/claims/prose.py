"""Which parts of an answer are prose: its Markdown, with what readers do not read as text left blank.

The result is as long as the source, so places in it are places there. It need not know all of Markdown, for nothing is
drawn from it: what it takes for prose by mistake is looked up in vain, what it takes for code is left alone. The time
is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*(`{3,}|~{3,})")
_HEADING = re.compile(r"[ >]{0,20}#{1,6}[ \t]+(?:\*\*)?(?:[0-9]{1,4}(?:\.[0-9]{1,4}){0,5}[.):]?(?=[ \t]))?")
_ITEM = re.compile(r"[ \t>]{0,40}(?:[-*+][ \t]+)?(?:\*\*)?[0-9]{1,9}[.)](?=\s)")
_LIST = re.compile(r"[ \t>]{0,40}(?:[-*+]|[0-9]{1,9}[.)])\s")
_FIRST_CELL = re.compile(r"[ \t>]{0,40}\|[ \t]*([0-9]{1,6})[ \t]*\|")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_TICKS = re.compile("`+")
_ADDRESS = re.compile(r"\b(?:https?|ftp|file|mailto):[^\s<>]+|\bwww\.[^\s<>]+")
_TAG = re.compile(r"<(?:/?[A-Za-z][^<>\n]{0,1000}|!--[^<>]{0,1000}--)>")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:[^\n]*$", re.MULTILINE)
_LONGEST_TARGET = 2_000
_FILLER = "\x00"


def prose_of(markdown: str) -> str:
    """Return a text with all that is no prose of it left blank, as long as it was.

    >>> prose_of("2. See `x = 1` in [7 rows](http://a.example/8)").replace(chr(0), ".")
    '.. See ....... in [7 rows.....................'
    """
    return _without_inline(_without_blocks(markdown))


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with signs that are no words, blanks or digits in the place of some spans, given in order."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        if start >= at:
            pieces += text[at:start], _FILLER * (end - start)
            at = end
    return "".join([*pieces, text[at:]])


def _without_blocks(text: str) -> str:
    """Leave blank what lines begin with, and blocks of code."""
    lines = text.split("\n")
    fence = ""
    in_list = after_blank = False
    counted: int | None = None
    for number, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence or mark:
            lines[number] = " " * len(line)
            if not fence:
                fence = mark[1] if mark else ""
            elif mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
            continue
        if line.startswith(("    ", "\t")) and after_blank and not in_list:
            lines[number] = " " * len(line)
            continue
        if line.strip():
            in_list = bool(_LIST.match(line)) or (in_list and line[0] in " \t")
        after_blank = not line.strip()
        begins = _HEADING.match(line) or _ITEM.match(line)
        cell = _FIRST_CELL.match(line)
        if cell and int(cell[1]) == (counted + 1 if counted is not None else min(int(cell[1]), 1)):
            counted = int(cell[1])
            begins = cell
        elif "|" not in line:
            counted = None
        if begins:
            lines[number] = _FILLER * begins.end() + line[begins.end() :]
    return "\n".join(lines)


def _without_inline(text: str) -> str:
    """Leave blank code within lines, targets of links, addresses and tags."""
    text = blanked(text, _code_spans(text))
    text = blanked(text, _targets(text))
    for pattern in (_DEFINITION, _TAG, _ADDRESS):
        text = blanked(text, (found.span() for found in pattern.finditer(text)))
    return text


def _code_spans(text: str) -> list[tuple[int, int]]:
    """Find code within lines: from some backticks to the next that are as many, in the same paragraph."""
    found: list[tuple[int, int]] = []
    ends = [match.start() for match in _BLANK_LINE.finditer(text)]
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        runs = list(_TICKS.finditer(text, start, end))
        closing: list[int | None] = []
        seen: dict[int, int] = {}
        for place in range(len(runs) - 1, -1, -1):
            length = len(runs[place][0])
            closing.append(seen.get(length))
            seen[length] = place
        closing.reverse()
        place = 0
        while place < len(runs):
            closed = closing[place]
            if closed is not None:
                found.append((runs[place].start(), runs[closed].end()))
                place = closed
            place += 1
    return found


def _targets(text: str) -> list[tuple[int, int]]:
    """Find what links and images lead to."""
    found: list[tuple[int, int]] = []
    at = 0
    while (opened := text.find("](", at)) >= 0:
        at = opened + 2
        closed = text.find(")", at, at + _LONGEST_TARGET)
        if closed >= 0 and "\n" not in text[at:closed]:
            found.append((opened, closed + 1))
            at = closed + 1
    return found
