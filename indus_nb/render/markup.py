"""Text of models, tools and files made fit to show: whatever they wrote reaches a page only through this module.

``page`` is the one way to HTML. It lets through the tags below, links to the web and to mail, and the styles and
classes of this module, whatever the pieces it is given hold. Colours come from the front end's own variables, with
fallbacks that can be read on light and on dark ground.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from indus_nb.base import textcut
from indus_nb.base.terminal import plain
from indus_nb.base.wire import clean_text
from indus_nb.render import formulas
from indus_nb.render.live import FAILED, NO_VALUE, VALUE, LiveLookup, in_source, put_values
from indus_nb.render.untraced import BEGIN, TITLE, UNTRACED, put_marks, unmarked

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from pygments.lexer import Lexer

_MUTED = "color-mix(in srgb,currentcolor 30%,#808080)"
_RULE = "border-top:1px solid #8885;"
# Saved notebooks repeat these in every output, so they are short: what is as good by default is left out. A viewer that
# drops variables (JupyterLab does, in notebooks that it does not trust) drops the property.
_MONO = "font-family:var(--jp-code-font-family,monospace);"  # pages of nbconvert have none for blocks of code
_WRAPPED = f"white-space:pre-wrap;word-break:normal;font-size:12px;{_MONO}"  # JupyterLab breaks words in blocks
_PRE = f"margin:0;padding:8px 12px;background:none;border:0;max-height:24em;overflow:auto;{_WRAPPED}"
_CARD = (
    "border:1px solid #8885;border-radius:6px;margin:4px 0;overflow:hidden;overflow-wrap:anywhere;"
    "font-size:13px;line-height:1.4;"
)

STYLES = {
    "answer": "margin:8px 0 -4px 0;",
    "link": "text-decoration:underline;",  # front ends mark links by colour only, which not every reader can see
    "quiet": f"color:{_MUTED};font-size:12px;",
    "card": _CARD,
    "head": "padding:6px 12px;cursor:pointer;",
    "steps": "margin:4px 0;font-size:13px;",
    "command": "background:none;padding:0;font-size:12px;",
    "aside": f"float:right;margin-left:12px;color:{_MUTED};font-size:12px;",
    "result": f"color:{_MUTED};",
    "arguments": f"{_PRE}{_RULE}color:{_MUTED};",
    "output": f"{_PRE}{_RULE}",
    # Its end says what went wrong: it is in sight without scrolling.
    "failed-output": f"{_PRE}{_RULE}display:flex;flex-direction:column-reverse;color:var(--jp-error-color1,#d9534f);",
    "changed": f"{_RULE}padding:6px 12px;color:{_MUTED};font-size:12px;",
    "listing": _PRE,
    "title": "padding:8px 12px 0 12px;",
    "cell": "text-align:left;vertical-align:top;",
    "short-cell": "text-align:left;vertical-align:top;white-space:nowrap;",
    "told": f"margin:0;padding:8px 12px;background:none;border:0;{_WRAPPED}",
    "shown": "padding:0 12px;overflow-x:auto;overflow-wrap:normal;",
    "inner": f"{_RULE}padding:0 12px;",
    "said": "margin:12px 0 4px 0;padding:6px 12px;border-left:3px solid var(--jp-brand-color1,#3b82c4);"
    "white-space:pre-wrap;overflow-wrap:anywhere;",
    "thinking": f"padding:0 12px 6px 12px;color:{_MUTED};font-size:13px;",
    "box": f"{_CARD}border-left:4px solid var(--jp-error-color1,#d9534f);padding:8px 12px;white-space:pre-wrap;",
    "code": "margin:8px 0;padding:8px 12px;border-radius:4px;background:#8882;overflow-x:auto;white-space:pre;"
    f"font-size:13px;{_MONO}",
    "good": "color:var(--jp-success-color1,#2e9e5b);",
    "bad": "color:color-mix(in srgb,var(--jp-error-color1,#d9534f) 85%,currentcolor);",
    "busy": "color:var(--jp-brand-color1,#3b82c4);",
    "added": "display:inline-block;width:100%;background:#2ea04333;",
    "removed": "display:inline-block;width:100%;background:#f8514933;",
    "live": "text-decoration:underline 1px #8888;text-underline-offset:3px;",
    "live_before": "text-decoration:underline 1px dashed #8888;text-underline-offset:3px;",
    "untraced": "text-decoration:underline dotted var(--jp-warn-color1,#b0821f);text-underline-offset:3px;",
}
_CLASS_NAMES = "answer said thinking call code error notice waiting usage shown steps context hint runs"
CLASSES = tuple(_CLASS_NAMES.split())


def _ink(colour: str) -> str:
    """Return a colour nearer to that of the text: by itself it is too pale to be read on either ground."""
    return f"color:color-mix(in srgb,{colour} 75%,currentcolor);"


_TOKEN_TAGS = {"Comment": "em", "Keyword": "b"}
_TOKEN_STYLES = {
    "Name.Function": _ink("#3b82c4"),
    "Name.Class": _ink("#3b82c4"),
    "Literal.String": _ink("#c9605d"),
    "Literal.Number": _ink("#2e9e5b"),
    "Generic.Inserted": "background:#2ea04333;",
    "Generic.Deleted": "background:#f8514933;",
}
"""Colours of few tokens, for each coloured word is as much text again in the saved notebook."""
_DIFF_ROW = re.compile(r"(?P<place>(?P<sign>[-+ ])(?: *\d+ )?)")
_MAX_FENCE_CHARACTERS = 200
_MAX_SWELLING = 4
_MAX_SWOLLEN = 10_000
_DELIMITERS = re.compile(r"[\s>|:0-9.)*+-]+")
"""A row that may be the delimiter row of a table, in a list or a quote too."""
# Of a lexer that is not named here a single step may take minutes on text that is made for it, and nothing else runs in
# the process meanwhile. These were tried with such text, of that many characters.
_COLOURED = {
    10_000: (
        "bash cmake css diff docker go graphql haskell html http java javascript js json jsx julia kotlin latex less "
        "lua nginx perl php powershell protobuf py pycon python pytb rb rs rust scss sh splus sql swift toml ts tsx "
        "xml yaml zig"
    ),
    2_000: "c console cpp csharp ini ipython matlab objective-c octave",
}
_LANGUAGES = {name: limit for limit, names in _COLOURED.items() for name in names.split()}
_COLOUR_SECONDS = 0.3
_TAG_NAMES = (
    "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong summary "
    "table tbody td th thead tr ul"
)
_TAGS = frozenset(_TAG_NAMES.split()) | formulas.TAGS
_ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "details": {"open"},
    **{tag: {"style"} for tag in ("code", "pre", "summary", "td", "th")},
    "span": {"style", "title", "tabindex", "class"},
    "div": {"style", "class"},
    **formulas.ATTRIBUTES,
}
_SIDES = ("text-align:left", "text-align:center", "text-align:right")
_ALLOWED_STYLES = frozenset([*STYLES.values(), *_TOKEN_STYLES.values(), *_SIDES])
_ALLOWED_CLASSES = frozenset(f"indus-{name}" for name in CLASSES)

_drawn_formulas: ContextVar[formulas.Formulas | None] = ContextVar("drawn_formulas", default=None)

_SENTENCE_END = re.compile("[.!?] |[\u3002\uff01\uff1f]")
_WEB_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_PICTURE = re.compile(r"image/(?:png|jpeg|gif|webp)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def cut(text: str, *, lines: int = 120, characters: int = 12_000) -> str:
    r"""Shorten a text to what a view shows: head and tail, with a note of how much was left out between them.

    >>> print(cut("1\n2\n3\n4\n5\n6\n7", lines=4))
    1
    2
    [... 3 lines left out ...]
    6
    7

    Args:
        lines: The most lines that are kept.
        characters: The most characters of these that are kept.

    Returns:
        The text itself, or its ends and the note.
    """
    text = textcut.middle_lines(text, lines, "[... {left:,} lines left out ...]")
    return textcut.middle(text, characters, "\n[... {left:,} characters left out ...]\n")


def page(*pieces: str) -> str:
    """Join pieces of HTML, and remove what could act, load or hide."""
    import nh3

    def allowed(_tag: str, attribute: str, value: str) -> str | None:
        if attribute == "style":
            return value if value in _ALLOWED_STYLES else None
        if attribute == "class":
            return value if value in _ALLOWED_CLASSES else None
        if attribute == "tabindex":
            return value if value == "0" else None
        return value

    return nh3.clean(
        clean_text("".join(pieces)),
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        set_tag_attribute_values={"a": {"style": STYLES["link"]}},
        attribute_filter=allowed,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer",
    )


def is_base64(text: str) -> bool:
    """Return whether it is bytes in base64: pages and other viewers write those as they stand."""
    return len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None


def picture(kind: str, data: str, alternative: str = "image of a tool") -> str:
    """Return an image within the page; empty if it is of no known kind, or its data is no base64.

    Args:
        data: The image in base64.
        alternative: Shown by viewers without images; it is not escaped.
    """
    if not (_PICTURE.fullmatch(kind) and is_base64(data)):
        return ""
    return f'<img class="indus-picture" alt="{alternative}" src="data:{kind};base64,{data}">'


def element(tag: str, inner: str, style: str | None = None, kind: str | None = None) -> str:
    """Return an element around HTML.

    Args:
        inner: HTML; it is not escaped.
        style: One of ``STYLES``.
        kind: One of ``CLASSES``, by which stylesheets of front ends know it.
    """
    attributes = (f' class="indus-{kind}"' if kind else "") + (f' style="{STYLES[style]}"' if style else "")
    return f"<{tag}{attributes}>{inner}</{tag}>"


def escape(text: str) -> str:
    """Return ``text`` as HTML that looks like it.

    A dollar sign stands in an element of its own, for notebooks render text between two of them as a formula.
    """
    return html.escape(plain(text)).replace("$", "<span>$</span>")


def highlighted(code: str, info: str, style: str = "code") -> str:
    """Return a block of code, coloured if its language is known and colouring does not take long.

    Args:
        code: The code, which may be hostile.
        info: The info string of a fence; its first word is the language.
        style: One of ``STYLES``.
    """
    code = plain(code)
    marked = _marked(code, info)
    text = html.escape(code) if marked is None else "".join(f"{start}{text}{end}" for (start, end), text in marked)
    return element("pre", text, style)


def _marked(code: str, info: str, *, strips: bool = True) -> list[tuple[tuple[str, str], str]] | None:
    """Return code in pieces, each with the tags around it; ``None`` if it is not to be coloured.

    Empty lines around it are left out if the lexer ``strips``.
    """
    words = info.split(maxsplit=1)
    if not words or len(code) > max(_COLOURED):
        return None
    try:
        from pygments import lexers
        from pygments.util import ClassNotFound
    except ModuleNotFoundError:
        return None
    untyped: Any = lexers
    try:
        lexer: Lexer = untyped.get_lexer_by_name(words[0], stripnl=strips)
    except ClassNotFound:
        return None
    if len(code) > max(_LANGUAGES.get(alias, 0) for alias in lexer.aliases):
        return None
    pieces: list[tuple[tuple[str, str], str]] = []
    began = time.thread_time()
    for kind, value in lexer.get_tokens(code):
        if time.thread_time() - began > _COLOUR_SECONDS:
            return None
        marks = ("", "") if value.isspace() else _token_marks(str(kind).removeprefix("Token."))
        pieces.append((marks, html.escape(value)))
    return [(marks, "".join(text for _, text in same)) for marks, same in groupby(pieces, key=itemgetter(0))]


def coloured_diff(diff: str, language: str = "") -> str:
    """Return a diff as a block of code, changed lines on coloured ground, headings in bold.

    Args:
        diff: Lines that begin with a sign and, if it is numbered, their number; any other line is a heading.
        language: The language of what differs, as it stands behind a fence.
    """
    rows = [_diff_row(row) for row in plain(diff).split("\n")]
    shown = [html.escape(place + code) for place, _, code in rows]
    for other in "+-":  # what was and what comes are coloured each by itself
        which = [number for number, (_, sign, _) in enumerate(rows) if sign and sign != other]
        for number, code in zip(which, _coloured_rows([rows[number][2] for number in which], language), strict=True):
            shown[number] = html.escape(rows[number][0]) + code
    parts: list[str] = []
    for sign, same in groupby(zip(rows, shown, strict=True), key=lambda row: row[0][1]):
        text = "\n".join(row for _, row in same)
        style = {"+": "added", "-": "removed"}.get(sign)
        heading = text if sign or not text.strip() else f"<b>{text}</b>"
        parts.append(element("span", text, style) if style else heading)
    return element("pre", "\n".join(parts), "output")


def _diff_row(row: str) -> tuple[str, str, str]:
    """Return a row's place, its first sign, and its code; a heading has neither of the first two."""
    found = _DIFF_ROW.match(row)
    return (found["place"], found["sign"], row[found.end() :]) if found else ("", "", row)


def _coloured_rows(rows: list[str], language: str) -> Iterator[str]:
    """Yield rows of code as HTML, coloured as a whole."""
    marked = _marked("\n".join(rows), language, strips=False)
    escaped = [html.escape(row) for row in rows]
    if marked is None or "".join(text for _, text in marked).removesuffix("\n") != "\n".join(escaped).removesuffix(
        "\n"
    ):
        return iter(escaped)
    whole = "".join(
        "\n".join(f"{start}{piece}{end}" if piece else "" for piece in text.split("\n"))
        for (start, end), text in marked
    )
    return iter(whole.split("\n")[: len(rows)])


@contextmanager
def drawn_formulas() -> Generator[None]:
    """Have ``markdown_html`` draw formulas, as far as that does not take long; notebooks do so themselves."""
    token = _drawn_formulas.set(formulas.Formulas())
    try:
        yield
    finally:
        _drawn_formulas.reset(token)


def markdown_html(text: str, live: LiveLookup | None = None) -> str:
    """Render Markdown as HTML in which tags are text, images are links, and links lead to the web or to mail.

    Args:
        live: Values for the expressions in it; ``None`` leaves them as code.
    """
    parser = _parser()
    return parser.renderer.render(markdown_tokens(text, live), parser.options, {})


def markdown_text(text: str, live: LiveLookup | None = None) -> str:
    """Return Markdown as plain text, as it was written but for the values of expressions in it."""
    text = plain(text)
    return unmarked(text if live is None else in_source(text, markdown_tokens(text), live))


def markdown_tokens(text: str, live: LiveLookup | None = None) -> list[Token]:
    """Parse Markdown into the tokens of ``markdown_html``.

    A few signs can stand for many: cells that are left out in rows of a wide table, and the address of a reference that
    is used over and over. Where they would stand for far more than there is, they are text.
    """
    text = plain(text)
    without = _without_tables(text)
    tokens = _parser(without).parse(text)
    addresses = (
        len(str(child.attrs.get("href") or child.attrs.get("src") or ""))
        for token in tokens
        for child in token.children or ()
    )
    if sum(addresses) > _MAX_SWELLING * len(text) + _MAX_SWOLLEN:
        tokens = _parser((*without, "reference")).parse(text)
    if BEGIN in text:
        put_marks(tokens)
    if live is not None:
        put_values(tokens, live)
    return tokens


def has_formulas(text: str) -> bool:
    """Return whether there are formulas in Markdown.

    >>> has_formulas("so $x^2$"), has_formulas("`$x$` for $5")
    (True, False)
    """
    tokens = markdown_tokens(text)
    return any(token.type.startswith("math") for each in tokens for token in (each, *(each.children or ())))


def _without_tables(text: str) -> tuple[str, ...]:
    """Return the rule for tables, if those in the text would have far more cells than it has characters."""
    cells = columns = 0
    for row in text.split("\n"):
        if "|" in row and "-" in row and _DELIMITERS.fullmatch(row):
            columns = row.count("|") + 1
        elif not row.strip():
            columns = 0
        cells += columns
    return ("table",) if cells > _MAX_SWELLING * len(text) + _MAX_SWOLLEN else ()


def known_language(name: str) -> bool:
    """Return whether code of that language is coloured; of others a viewer might make a picture."""
    return name in _LANGUAGES


def split_answer(text: str, *, soft: int = 3_000, hard: int = 12_000) -> tuple[str, str]:
    """Split growing Markdown into a part that will not change and the rest, so that little is drawn again.

    The cut lies between two blocks. A single block that is too long is cut after a line; there a fence is closed and
    opened again, and a table begins with its head again. Call again with the rest, until nothing is split off.

    Args:
        soft: Nothing is split off a text with fewer characters.
        hard: A single block of more characters is cut.

    Returns:
        The part that will not change, at most twice ``hard`` characters of it, and the rest.
    """
    if len(text) < soft:
        return "", text
    whole = text[: 2 * hard].rpartition("\n")[0]  # a bit of it, for the whole may have come at once
    rows = whole.split("\n")
    blocks = [
        token
        for token in _block_parser(_without_tables(whole)).parse(whole)
        if token.level == 0 and token.map and token.nesting >= 0
    ]
    start = blocks[-1].map[0] if blocks and blocks[-1].map else 0
    if start > 0:
        at = sum(map(len, rows[:start])) + start
        return text[:at], text[at:]
    if len(text) <= hard:
        return "", text
    at = _end_of_line(text, hard // 2, hard)
    return _cut_block(blocks[0] if blocks else None, rows, text[:at], text[at:])


def _cut_block(block: Token | None, rows: list[str], head: str, rest: str) -> tuple[str, str]:
    """Return the parts of a block, which begins with these rows, such that each is one of its kind."""
    if block is not None and block.type == "fence" and len(rows[0]) < _MAX_FENCE_CHARACTERS:
        if not rest.strip().strip(block.markup[0]):
            return head + rest, ""
        return f"{head.rstrip()}\n{block.markup}\n", f"{rows[0]}\n{rest}"
    if block is not None and block.type == "table_open" and head.endswith("\n") and rest.strip():
        top = "\n".join(rows[:2]) + "\n"
        if 4 * len(top) < len(head):
            return head, top + rest
    return head, rest


def _end_of_line(text: str, low: int, high: int) -> int:
    """Return where to cut ``text`` between two positions: after a line, a sentence or a word, else anywhere."""
    sentence = max((end.end() for end in _SENTENCE_END.finditer(text, low, high)), default=0)
    cuts = (text.rfind("\n", low, high) + 1, sentence, text.rfind(" ", low, high) + 1)
    return next(filter(None, cuts), high)


@cache
def _block_parser(without: tuple[str, ...] = ()) -> MarkdownIt:
    """Return ``_parser`` for the ends of blocks alone: what stands within a paragraph takes most of the time."""
    return _made_parser(without).disable("inline")


def _made_parser(without: tuple[str, ...]) -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    from indus_nb.render.dialect import dialect

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True).use(dialect)
    return parser.disable([*without])


@cache
def _parser(without: tuple[str, ...] = ()) -> MarkdownIt:
    parser = _made_parser(without)
    parser.validateLink = lambda url: _WEB_LINK.match(url) is not None  # type: ignore[method-assign]

    def text(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return escape(tokens[index].content)

    def code(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return highlighted(tokens[index].content, tokens[index].info)

    def image(_: Any, tokens: Any, index: int, *__: Any) -> str:
        source = html.escape(str(tokens[index].attrs.get("src", "")))
        return f'<a href="{source}">[image: {escape(tokens[index].content) or source}]</a>'

    def formula(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return _formula(tokens[index].content, "$")

    def displayed_formula(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return f"<div>{_formula(tokens[index].content, '$$')}</div>"

    def cell(renderer: Any, tokens: Any, index: int, options: Any, _: Any) -> str:
        tokens[index].attrs.setdefault("style", _SIDES[0])  # else front ends put texts to the right, like numbers
        return renderer.renderToken(tokens, index, options, {})

    def inline_displayed_formula(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return _formula(tokens[index].content, "$$")

    for names, rule in (
        (("text",), text),
        (("fence", "code_block"), code),
        (("image",), image),
        (("td_open", "th_open"), cell),
        ((VALUE, FAILED), _live),
        ((UNTRACED,), _untraced),
        (("math_inline",), formula),
        (("math_block", "math_block_label"), displayed_formula),
        (("math_inline_double",), inline_displayed_formula),
    ):
        for name in names:
            parser.add_render_rule(name, rule)
    return parser


def live_title(expression: str) -> str:
    """Return an expression as the title of its value shows it: a line of plain text."""
    return plain(expression).replace("\n", " ")


def _live(_: Any, tokens: Any, index: int, *__: Any) -> str:
    """Return a value with its expression as title; or the expression with the reason why it has none."""
    token: Token = tokens[index]
    title = html.escape(live_title(token.meta["title"]))
    kind = "quiet" if token.meta["pending"] else "live_before" if token.meta["is_of_before"] else "live"
    shown, style = escape(token.content), STYLES[kind]
    if token.type == FAILED:
        return f'<span title="{title}" tabindex="0"><code>{shown}</code> {NO_VALUE}</span>'
    return f'<span style="{style}" title="{title}" tabindex="0">{shown}</span>'


def _untraced(_: Any, tokens: Any, index: int, *__: Any) -> str:
    """Return a number that no result shows."""
    return f'<span style="{STYLES["untraced"]}" title="{TITLE}">{escape(tokens[index].content)}</span>'


def _formula(latex: str, sign: str) -> str:
    """Return a formula as what notebooks draw, or drawn."""
    formulas_of_page = _drawn_formulas.get()
    drawn = formulas_of_page.drawn(latex, display=sign == "$$") if formulas_of_page else None
    return drawn or f"{sign}{html.escape(latex)}{sign}"


@cache
def _token_marks(kind: str) -> tuple[str, str]:
    """Return what stands before and behind such a token."""
    while kind:
        if tag := _TOKEN_TAGS.get(kind):
            return f"<{tag}>", f"</{tag}>"
        if style := _TOKEN_STYLES.get(kind):
            return f'<span style="{style}">', "</span>"
        kind = kind.rpartition(".")[0]
    return "", ""
