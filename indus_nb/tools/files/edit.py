"""Replacement of pieces of a file's text; every line that no replacement changes keeps its bytes.

A piece is looked for as written and, failing that, tolerantly: both sides are compared in a form with plain quotes,
dashes and spaces, composed characters (NFKC) and no blanks at line ends. Only the comparison is tolerant; what is
replaced is the stretch of the file itself, and a line that a replacement repeats unchanged stays as it is there.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from indus_nb.base.wire import clean_text
from indus_nb.tools.files.replacement import Replacement
from indus_nb.tools.tool import ToolError

_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_LINE_END = r"\r\n|\r|\n"
_CONTEXT = 4
_MAX_COMPARED = 250_000
"""Pairs of lines above which changed stretches are no longer compared line by line: that can cost their product."""
_MAX_CLUSTER_CHARACTERS = 32
"""Characters that are normalised together: no text has more, and the cost of putting marks in order is quadratic."""

_PLAIN = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys(["\u00a0", *map(chr, range(0x2000, 0x200B)), "\u202f", "\u205f", "\u3000"], " ")
)


@dataclass(frozen=True, slots=True)
class Edited:
    """Result of replacements: the file's bytes, a diff for readers, and the number of the first changed line."""

    data: bytes
    diff: str
    first_changed_line: int


def replace(data: bytes, replacements: Sequence[Replacement]) -> Edited:
    r"""Make replacements in a file's bytes, each located in ``data`` as it is given.

    A byte order mark, bytes that are no UTF-8 and the line ends of lines that stay are kept; line ends that come with
    a replacement get the form of the file's first one.

    >>> replace(b"one  \r\n\xe2\x80\x9ctwo\xe2\x80\x9d\r\n", [Replacement(old_text='"two"', new_text="2\n3")]).data
    b'one  \r\n2\r\n3\r\n'

    Returns:
        The new bytes, and a diff.

    Raises:
        ToolError: A piece is empty, missing, there more than once or overlapping another, or nothing would change.
    """
    bom = _BOM if data.startswith(_BOM) else b""
    # Bytes that are no UTF-8 ride along as half surrogates.
    file = _File(data[len(bom) :].decode(errors="surrogateescape"))
    spans: list[_Span] = []
    for index, replacement in enumerate(replacements):
        label = f"edits[{index}]: " if len(replacements) > 1 else ""
        spans.append(file.locate(replacement, label))
    numbered = sorted(enumerate(spans), key=lambda item: (item[1].start, item[1].end))
    for (first, before), (second, after) in pairwise(numbered):
        if after.start < before.end:
            raise ToolError(
                f"edits[{first}] and edits[{second}] overlap: both change line {file.line_at(after.start) + 1}. "
                "Nothing was changed; join them into one edit."
            )
    edited = [(span.start, span.end, file.replaced(span, replacements[index])) for index, span in numbered]
    hunks = list(_hunks(file, edited))
    if not hunks:
        raise ToolError("The edit changes nothing: the text is the same afterwards. The file was left as it is.")
    pieces: list[str] = []
    position = 0
    for start, end, text in edited:
        pieces += file.text[position:start], text
        position = end
    pieces.append(file.text[position:])
    result = bom + "".join(pieces).encode(errors="surrogateescape")
    return Edited(result, _diff(file, hunks), hunks[0].new_start + 1)


def numbered_diff(old: str, new: str) -> str:
    r"""Compare two texts line by line, and show what changes with numbered lines and some around them.

    >>> print(numbered_diff("one\ntwo\n", "one\n2\n"))
     1 one
    -2 two
    +2 2

    Returns:
        The difference; empty if there is none.
    """
    hunks = list(_changes(_whole_lines(old), _whole_lines(new)))
    return _diff(_File(old), hunks) if hunks else ""


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of the file that stands for a piece of text.

    Characters of the file that only begin or end in that piece (a ligature) belong to it whole; what they hold beyond
    it is ``before`` and ``after``.
    """

    start: int
    end: int
    before: str = ""
    after: str = ""


class _File:
    """A file's text and, line by line, the forms that it is searched in."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: list[str] = []
        self.ends: list[str] = []
        for match in _LINE.finditer(text):
            self.lines.append(match[1])
            self.ends.append(match[2])
            if not match[2]:
                break
        self.line_end = self.ends[0] or "\n"
        self.starts = _starts(len(line) + len(end) for line, end in zip(self.lines, self.ends, strict=True))

    @cached_property
    def _exact(self) -> _Form:
        return _Form(self.lines)

    @cached_property
    def _tolerant(self) -> _Form:
        return _Form([_tolerant_line(line) for line in self.lines])

    def line_at(self, position: int) -> int:
        return bisect_right(self.starts, position) - 1

    def locate(self, replacement: Replacement, label: str) -> _Span:
        """Return the span of the old text; raises ``ToolError`` unless it stands in one place."""
        old = _plain_line_ends(replacement.old_text)
        if not old:
            raise ToolError(f"{label}oldText is empty. Nothing was changed; give the text to replace.")
        exact = self._exact.find(old)
        *first_lines, last_line = old.split("\n")
        first_lines = [_tolerant_line(line) for line in first_lines]
        # Blanks at the very end of the piece may stand before more text on their line; only if they do not, they are
        # blanks at a line's end, which need not be there.
        tolerant = self._tolerant.find("\n".join([*first_lines, _tolerant_characters(last_line)]))
        line_end = False
        if not exact and not tolerant and last_line != last_line.rstrip():
            line_end = True
            tolerant = self._tolerant.find("\n".join([*first_lines, _tolerant_line(last_line)]), at_line_end=True)
        count = max(len(exact), len(tolerant))
        if count > 1:
            places = " and ".join(str(self._line_of(start, exact, tolerant) + 1) for start in range(2))
            raise ToolError(
                f"{label}oldText occurs more than once (from lines {places} on, for example). Nothing was changed; "
                "add lines around it until it is unique."
            )
        if exact:
            start, end = (self._position(*self._exact.place(edge)) for edge in exact[0])
            return _Span(start, end)
        if not tolerant:
            raise ToolError(
                f"{label}oldText does not occur in the file. Nothing was changed; read the file and copy the text "
                "from it, with its indentation."
            )
        return self._tolerant_span(*tolerant[0], line_end=line_end)

    def _line_of(self, index: int, exact: list[tuple[int, int]], tolerant: list[tuple[int, int]]) -> int:
        form, found = (self._exact, exact) if len(exact) > 1 else (self._tolerant, tolerant)
        return form.place(found[index][0])[0]

    def _position(self, line: int, column: int) -> int:
        return self.starts[line] + column

    def _tolerant_span(self, start: int, end: int, *, line_end: bool) -> _Span:
        first, first_column = self._tolerant.place(start)
        last, last_column = self._tolerant.place(end)
        column, _, before, _ = _original_columns(self.lines[first], first_column)
        _, end_column, _, after = _original_columns(self.lines[last], last_column)
        if line_end:
            end_column = len(self.lines[last])
        return _Span(self._position(first, column), self._position(last, end_column), before, after)

    def replaced(self, span: _Span, replacement: Replacement) -> str:
        """Return the new text for ``span``, in which lines that stay are as they were, line ends included."""
        old = _plain_line_ends(replacement.old_text).split("\n")
        new = _plain_line_ends(clean_text(replacement.new_text)).split("\n")
        parts = _LINE.findall(self.text, span.start, span.end)[: len(old)]
        there = [content for content, _ in parts]
        ends = [end or self.line_end for _, end in parts]
        lines = list(new)
        new_ends = [self.line_end] * len(new)
        if there != old or any(end != self.line_end for end in ends):
            i = j = 0
            for kept_i, kept_j, count in [*_kept(old, new), (len(old), len(new), 0)]:
                # A line that is rewritten keeps the end it had; lines beyond those that were there get the usual one.
                for rewritten in range(min(kept_i - i, kept_j - j)):
                    new_ends[j + rewritten] = ends[i + rewritten]
                for offset in range(count):
                    new_ends[kept_j + offset] = ends[kept_i + offset]
                    edge = (kept_i + offset == 0 and span.before) or (kept_i + offset == len(old) - 1 and span.after)
                    if not edge:
                        lines[kept_j + offset] = there[kept_i + offset]
                i, j = kept_i + count, kept_j + count
        new_ends[-1] = ""
        body = "".join(line + end for line, end in zip(lines, new_ends, strict=True))
        return span.before + body + span.after


class _Form:
    """Lines joined for a search, with a map from a place in them to line and column."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._text = "\n".join(lines) + "\n"
        self._starts = _starts(len(line) + 1 for line in lines)

    def find(self, piece: str, *, at_line_end: bool = False) -> list[tuple[int, int]]:
        """Return start and end of ``piece``: of the only place, of the first two, or none."""
        wanted = piece + "\n" if at_line_end else piece
        found: list[tuple[int, int]] = []
        if not piece.strip() and (at_line_end or not piece):
            return found
        # The line end after the last line is not the file's.
        limit = len(self._text) if at_line_end else len(self._text) - 1
        position = self._text.find(wanted, 0, limit)
        while position >= 0 and len(found) < 2:
            found.append((position, position + len(piece)))
            position = self._text.find(wanted, position + 1, limit)
        return found

    def place(self, position: int) -> tuple[int, int]:
        line = bisect_right(self._starts, position) - 1
        return line, position - self._starts[line]


def _starts(sizes: Iterator[int] | Sequence[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))[:-1]


def _plain_line_ends(text: str) -> str:
    return re.sub(_LINE_END, "\n", text)


def _tolerant_line(line: str) -> str:
    return _tolerant_characters(line).rstrip()


def _tolerant_characters(text: str) -> str:
    if text.isascii():
        return text
    if unicodedata.is_normalized("NFKC", text):
        return text.translate(_PLAIN)
    return "".join(_tolerant_cluster(cluster) for cluster in _clusters(text))


def _tolerant_cluster(cluster: str) -> str:
    return unicodedata.normalize("NFKC", cluster).translate(_PLAIN)


def _clusters(text: str) -> Iterator[str]:
    """Split ``text`` where its normal form may be split: a character and what joins it are one part."""
    cluster = ""
    for character in text:
        if cluster and not _separate(cluster, character):
            cluster += character
            continue
        if cluster:
            yield cluster
        cluster = character
    if cluster:
        yield cluster


def _separate(cluster: str, character: str) -> bool:
    if character.isascii() or len(cluster) == _MAX_CLUSTER_CHARACTERS:
        return True
    if unicodedata.combining(character):
        return False
    normal = unicodedata.normalize
    return normal("NFKC", cluster + character) == normal("NFKC", cluster) + normal("NFKC", character)


def _original_columns(line: str, column: int) -> tuple[int, int, str, str]:
    """Return the columns of ``line`` for ``column`` of its tolerant form, as a start and as an end.

    They differ inside a cluster: a start lies before it and an end after it, and the tolerant characters on the other
    side of ``column`` are given with them.
    """
    if line.isascii() or unicodedata.is_normalized("NFKC", line):
        return column, column, "", ""
    original = tolerant = 0
    for cluster in _clusters(line):
        if tolerant >= column:
            break
        form = _tolerant_cluster(cluster)
        if tolerant + len(form) > column:
            inside = column - tolerant
            return original, original + len(cluster), form[:inside], form[inside:]
        original += len(cluster)
        tolerant += len(form)
    return original, original, "", ""


def _kept(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """List runs of lines that ``old`` and ``new`` share, in order: where in ``old``, where in ``new``, how many."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if head:
        yield 0, 0, head
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if 0 < len(middle_old) * len(middle_new) <= _MAX_COMPARED:
        from difflib import SequenceMatcher

        for i, j, count in SequenceMatcher(None, middle_old, middle_new, autojunk=False).get_matching_blocks():
            if count:
                yield head + i, head + j, count
    if tail:
        yield len(old) - tail, len(new) - tail, tail


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Neighbouring lines that changed, numbered from 0 before (``start``) and after (``new_start``)."""

    start: int
    new_start: int
    old: Sequence[str]
    new: Sequence[str]


def _hunks(file: _File, edited: Sequence[tuple[int, int, str]]) -> Iterator[_Hunk]:
    """List the changed lines, from replacements that are in order and do not overlap."""
    grown = 0
    index = 0
    while index < len(edited):
        first = file.line_at(edited[index][0])
        position = file.starts[first]
        pieces: list[str] = []
        last = first
        # Replacements that touch the same line make one stretch of whole lines.
        while index < len(edited) and file.line_at(edited[index][0]) <= last:
            start, end, text = edited[index]
            pieces += file.text[position:start], text
            position = end
            last = max(last, file.line_at(end))
            index += 1
        after = file.starts[last] + len(file.lines[last]) + len(file.ends[last])
        pieces.append(file.text[position:after])
        old = _whole_lines(file.text[file.starts[first] : after])
        new = _whole_lines("".join(pieces))
        yield from _changes(old, new, first, grown)
        grown += len(new) - len(old)


def _changes(old: Sequence[str], new: Sequence[str], first: int = 0, grown: int = 0) -> Iterator[_Hunk]:
    """List the hunks between lines; ``first`` is the number of the first line, which moved by ``grown``."""
    i = j = 0
    for kept_i, kept_j, count in [*_kept(old, new), (len(old), len(new), 0)]:
        if (i, j) != (kept_i, kept_j):
            yield _Hunk(first + i, first + grown + j, old[i:kept_i], new[j:kept_j])
        i, j = kept_i + count, kept_j + count


def _whole_lines(text: str) -> list[str]:
    return [match.group() for match in _LINE.finditer(text) if match.group()]


def _diff(file: _File, hunks: Sequence[_Hunk]) -> str:
    """Format the hunks with numbered lines, signs, some lines around them and ``...`` for what lies between."""
    lines = file.lines if file.ends[-1] or file.lines[-1] else file.lines[:-1]
    last = hunks[-1]
    width = len(str(max(len(lines), last.new_start + len(last.new) + _CONTEXT)))
    shown: list[str] = []

    def show(sign: str, number: int, line: str) -> None:
        content = line.rstrip("\r\n").encode(errors="replace").decode()
        shown.append(f"{sign}{number + 1:>{width}} {content}")

    def show_kept(begin: int, end: int) -> None:
        for number in range(begin, end):
            show(" ", number + shift, lines[number])

    position = shift = trail = 0
    for hunk in [*hunks, _Hunk(len(lines), 0, (), ())]:
        lead = _CONTEXT if hunk.old or hunk.new else 0
        trail_end = min(position + trail, hunk.start)
        lead_start = max(hunk.start - lead, trail_end)
        show_kept(position, trail_end)
        if lead_start > trail_end:
            shown.append(f" {'':>{width}} ...")
        show_kept(lead_start, hunk.start)
        for offset, line in enumerate(hunk.old):
            show("-", hunk.start + offset, line)
        for offset, line in enumerate(hunk.new):
            show("+", hunk.new_start + offset, line)
        position = hunk.start + len(hunk.old)
        shift = hunk.new_start + len(hunk.new) - position
        trail = _CONTEXT
    return "\n".join(shown)
