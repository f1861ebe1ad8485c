"""Markdown for saved notebooks: written anew from what our own parser found, so that every viewer reads the same.

Viewers differ in where they see code, formulas, tags, images and links. So nothing of a hostile text is handed on as
it was written. What this module promises of its Markdown, whichever parser reads it:

- There is no image, no tag and no definition in it, and no link but those that ``markup.markdown_html`` has. These lead
  to the web or to mail.
- What means something to a parser and stands in prose is written as a character reference (``&#91;``), which every
  parser turns into the character and none takes for a sign. There is no backslash in prose, for viewers of formulas
  look for those first. What is linked wherever it stands (``www.``, ``//host``, ``name@host``) holds a word joiner.
- Blocks of code stand at the margin between empty lines, behind a fence longer than any run in them. Code within a line
  holds nothing that begins or ends code or a formula; such parts stand beside it.
- A formula is handed on only where it is one to every viewer, and holds nothing that would be more to one without any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indus_nb.render.live import FAILED, NO_VALUE, LiveLookup
from indus_nb.render.markup import known_language, markdown_tokens, plain

if TYPE_CHECKING:
    from markdown_it.token import Token

_JOINER = "\u2060"
_SIGNS = re.compile(r"[&<>\[\]`*~|{}$!\\^]|=(?==)|(?<!\w)_|_(?!\w)")
_LINKED = re.compile(
    r"/(?=/)|www(?=\.)|(?P<at>@(?=\w))",
    re.IGNORECASE,
)
_DOT = re.compile(r"(?<=\w)\.(?=[^\W\d_]{2}|\d{1,3}\.\d{1,3}\.\d)")
"""A dot of what may be the name of a host, or its number."""
_LINE_BEGINNING = re.compile(r"(?P<blanks>[ \t]*)(?:(?P<sign>[#+=:-])|(?P<number>\d{1,9})(?P<mark>[.)]))?")
_APART = re.compile(r"[$`|]|\\(?=[\\()\[\]]|begin|end|$)")
"""Signs that code within a line does not hold."""
_BACKTICKS = re.compile("`+")
_ADDRESS = re.compile(r"[^\w:/?#@=+,;%.-]|_", re.ASCII)
_ENVIRONMENT = re.compile(r"\\(begin|end)(?:\{([a-z]*\*?)\})?")
_IN_FORMULAS = (
    (re.compile(r"<(?=[A-Za-z/!?])|[!^](?=\[)|\](?=[(\[:])|\\\\(?=[(\[])|/(?=/)"), r"\g<0> "),
    (re.compile(r"(?<=\w)[.@](?=\w)|(?<=www)\."), r" \g<0> "),
)
_INLINE = {
    "softbreak": "\n",
    "hardbreak": "  \n",
    **dict.fromkeys(("em_open", "em_close"), "*"),
    **dict.fromkeys(("strong_open", "strong_close"), "**"),
    **dict.fromkeys(("s_open", "s_close"), "~~"),
}
"""How tokens that hold no text are written."""
_MAX_INDENTATION = 40
_LIST_MARKS = frozenset("-+*")


def rendition(text: str, *, quoted: bool = False, live: LiveLookup | None = None) -> str:
    r"""Return Markdown of models, tools or users as inert Markdown that looks the same in every viewer.

    >>> print(rendition("# A *title*\n![x](http://a.example/b) <b> [y](javascript:z)"))
    # A *title*
    <BLANKLINE>
    [&#91;image: x&#93;](http://a.example/b) &lt;b&gt; &#91;y&#93;(javascript:z)

    Args:
        quoted: Whether all but blocks of code stands in a block quote.
        live: Values for the expressions in it; ``None`` leaves them as code.
    """
    writer = _Writer()
    if quoted:
        writer.enter("> ", "> ")
    writer.write(markdown_tokens(text, live))
    return "\n".join(writer.rows).strip("\n")


def literal(text: str) -> str:
    """Return a part of a line as Markdown that looks like it, whatever stands before and behind it."""
    return _referenced(plain(text)).replace("\n", " ")


def literal_lines(text: str) -> list[str]:
    """Return lines of Markdown that look like those of ``text``, each shown as a line of its own."""
    rows = [_beginning(_indented(row)) for row in plain(text).split("\n")]
    return [f"{row}  " if row and number < len(rows) - 1 else row for number, row in enumerate(rows)]


def fenced(text: str, language: str = "text") -> str:
    """Return a text as a Markdown block of code that it cannot break out of.

    Args:
        text: The text, which may be hostile.
        language: Its language, left out if it is not known: names of files and models' fences may hold anything, and of
            some languages viewers make pictures.

    Returns:
        Markdown, which has to stand at the margin between empty lines.
    """
    text = plain(text)
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    info = language if language == "text" or known_language(language) else ""
    return f"{fence}{info}\n{text}\n{fence}"


def code_span(text: str) -> str:
    """Return ``text`` as Markdown code within a line; what code cannot hold in every viewer stands beside it."""
    text = " ".join(plain(text).split())
    pieces: list[str] = []
    at = 0
    for sign in _APART.finditer(text):
        pieces += _span(text[at : sign.start()]), f"&#{ord(sign[0])};"
        at = sign.end()
    return "".join([*pieces, _span(text[at:])])


def _span(text: str) -> str:
    return f"`{text}`" if text.strip() else text


def _referenced(text: str) -> str:
    """Escape each sign of prose, and put a joiner in what would be linked without any."""
    text = _SIGNS.sub(_reference, text)
    text = _LINKED.sub(_parted, text)
    return _DOT.sub("&#46;", text)


def _reference(sign: re.Match[str]) -> str:
    named = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(sign[0])
    # Some viewers look for formulas once more in what they have drawn: commands in those may be links.
    return named or f"&#{ord(sign[0])};" + _JOINER * (sign[0] == "\\")


def _parted(found: re.Match[str]) -> str:
    return f"{_JOINER}@" if found["at"] else f"{found[0]}{_JOINER}"


def _beginning(row: str) -> str:
    """Escape a line of prose so that it begins no block."""
    found = _LINE_BEGINNING.match(row)
    if found is None or not (found["sign"] or found["number"]):
        return row
    sign = f"&#{ord(found['sign'])};" if found["sign"] else f"{found['number']}&#{ord(found['mark'])};"
    return f"{found['blanks']}{sign}{row[found.end() :]}"


def _indented(row: str) -> str:
    """Return a line of prose that keeps its indentation."""
    row = row.replace("\t", "    ")
    text = row.lstrip(" ")
    blanks = min(len(row) - len(text), _MAX_INDENTATION) if text else 0
    return "&#160;" * blanks + _referenced(text)


@dataclass
class _Container:
    """A quote or an item of a list: what its lines begin with, the first and the others."""

    first: str
    others: str
    begun: bool = False


@dataclass
class _List:
    number: int | None
    mark: str
    tight: bool
    begun: bool = False


@dataclass
class _Writer:
    """Writer of the lines of blocks, each with what the quotes and lists around it put before it."""

    rows: list[str] = field(default_factory=list[str])
    _around: list[_Container] = field(default_factory=list[_Container])
    _lists: list[_List] = field(default_factory=list[_List])
    _gap: bool = False

    def enter(self, first: str, others: str) -> None:
        self._around.append(_Container(first, others))

    def write(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                at = self._table(tokens, at)
                continue
            self._write_one(tokens, at)
            at += 1

    def _write_one(self, tokens: Sequence[Token], at: int) -> None:  # noqa: C901 - one case for each kind
        token = tokens[at]
        match token.type:
            case "blockquote_open":
                self.enter("> ", "> ")
            case "bullet_list_open" | "ordered_list_open":
                number = int(token.attrs.get("start", 1)) if token.type[0] == "o" else None
                self._lists.append(_List(number, token.markup, _is_tight(tokens, at)))
            case "list_item_open":
                self._item()
            case "list_item_close":
                if not self._around[-1].begun:
                    self._block([""])  # there is nothing in it
                self._around.pop()
            case "blockquote_close":
                self._around.pop()
                self._gap = True
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._gap = True
            case "inline":
                self._block(_paragraph(token, tokens[at - 1]))
            case "fence" | "code_block":
                language = next(iter(token.info.split(maxsplit=1)), "")
                self._at_margin(fenced(token.content.removesuffix("\n"), language))
            case "math_block" | "math_block_label":
                label = f" ({token.info})" if token.info else ""
                self._block([_formula(token.content, "$$") + literal(label)])
            case "hr":
                self._block(["___"])
            case _:
                pass

    def _item(self) -> None:
        holding = self._lists[-1]
        if holding.tight and (holding.begun or (len(self._lists) > 1 and self._lists[-2].tight)):
            self._gap = False
        holding.begun = True
        mark = f"{holding.mark if holding.mark in _LIST_MARKS else '-'} "
        if holding.number is not None:
            mark = f"{holding.number}{holding.mark if holding.mark == ')' else '.'} "
            holding.number += 1
        self.enter(mark, " " * len(mark))

    def _block(self, lines: Iterable[str]) -> None:
        if self._gap and self.rows and self.rows[-1]:
            self.rows.append("".join(each.others for each in self._around if each.begun).rstrip())
        for line in lines:
            start = ""
            for each in self._around:
                start += each.others if each.begun else each.first
                each.begun = True
            self.rows.append(f"{start}{line}" if line else start.rstrip())
        self._gap = True

    def _at_margin(self, block: str) -> None:
        """Write a block of code outside of all quotes and lists: there a fence is one to every viewer."""
        if any(not each.begun and each.first != each.others for each in self._around):
            self._block([""])  # the item's mark
        self.rows += ["", *block.split("\n"), ""]
        for each in self._around:
            if not each.others.startswith(">"):
                each.others = ""  # what follows in an item is no part of it any more
        self._gap = True

    def _table(self, tokens: Sequence[Token], at: int) -> int:
        rows: list[list[str]] = []
        signs: list[str] = []
        while tokens[at].type != "table_close":
            token = tokens[at]
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                sides = {"text-align:left": ":--", "text-align:right": "--:", "text-align:center": ":-:"}
                signs.append(sides.get(str(token.attrs.get("style")), "---"))
            elif token.type == "inline":
                rows[-1].append(_Line(token.children or []).text.replace("\n", " "))
            at += 1
        rows.insert(1, signs)
        self._block([f"| {' | '.join(row)} |" for row in rows])
        return at + 1


class _Line:
    """Inline content of a paragraph, a heading or a cell of a table."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._pieces: list[str] = []
        self._prose: list[str] = []
        self._targets: list[str] = []
        for token in tokens:
            self._write(token)
        self._end_prose()
        self.text = "".join(self._pieces)

    def _write(self, token: Token) -> None:
        piece = self._piece(token)
        if piece is None:
            self._prose.append(token.content)
            return
        self._end_prose()
        if self._pieces and piece[:1] in ("$", "`") and self._pieces[-1].endswith(piece[0]):
            piece = f" {piece}"  # or the two would be one sign
        self._pieces.append(piece)

    def _piece(self, token: Token) -> str | None:
        """Return what is more than prose; ``None`` for prose."""
        match token.type:
            case "softbreak" | "hardbreak" if self._targets:
                piece = " "
            case "code_inline":
                piece = code_span(token.content)
            case kind if kind == FAILED:
                piece = f"{code_span(token.content)} {NO_VALUE}"
            case "link_open":
                self._targets.append(_address(str(token.attrs.get("href", ""))))
                piece = "["
            case "link_close":
                piece = f"]({self._targets.pop()})"
            case "image":
                source = str(token.attrs.get("src", ""))
                named = literal(f"[image: {token.content or source}]")
                piece = named if self._targets else f"[{named}]({_address(source)})"
            case "math_inline" | "math_inline_double":
                piece = _formula(token.content, "$" if token.type == "math_inline" else "$$")
            case kind:
                piece = _INLINE.get(kind)
        return piece

    def _end_prose(self) -> None:
        if self._prose:
            self._pieces.append(literal("".join(self._prose)))
            self._prose.clear()


def _paragraph(token: Token, before: Token) -> list[str]:
    """Return the lines of a paragraph, or the one of a heading."""
    rows = _Line(token.children or []).text.split("\n")
    if before.type == "heading_open":
        return [" ".join(["#" * int(before.tag[1:]), *rows]).rstrip()]
    return [_beginning(row.lstrip(" \t")) for row in rows]


def _address(url: str) -> str:
    """Return the target of a link, in which only what means nothing to any parser stands as it is."""
    return _ADDRESS.sub(lambda sign: "&amp;" if sign[0] == "&" else f"&#{ord(sign[0])};", plain(url))


def _formula(content: str, sign: str) -> str:
    """Return a formula for viewers that show them; as prose where they would not agree on its end."""
    shown = " ".join(plain(content).split())
    if not shown or re.search(r"[$`|%]|@@|\\$", shown) or not _is_balanced(shown):
        return literal(f"{sign}{content}{sign}")
    for pattern, spaced in _IN_FORMULAS:
        shown = pattern.sub(spaced, shown)
    return f"{sign}{shown}{sign}"


def _is_balanced(formula: str) -> bool:
    """Return whether each environment ends in it that begins there, and the other way round."""
    opened: list[str] = []
    for which, name in _ENVIRONMENT.findall(formula):
        if not name:
            return False
        if which == "begin":
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


def _is_tight(tokens: Sequence[Token], at: int) -> bool:
    """Return whether no empty lines stand between the items of the list that begins there."""
    level = tokens[at].level
    for token in tokens[at + 1 :]:
        if token.level == level:
            return True
        if token.type == "paragraph_open" and token.level == level + 2:
            return token.hidden
    return True
