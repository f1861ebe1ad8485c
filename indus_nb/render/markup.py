"""Text of models, tools and files made fit to show: whatever they wrote reaches a page only through this module.

``page`` is the one way to HTML. It lets through the tags below, links to the web and to mail, and the styles and
classes of this module, whatever the pieces it is given hold. Colours come from the front end's own variables, with
fallbacks that can be read on light and on dark ground.
"""

from __future__ import annotations

import html
import re
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from indus_nb import textcut
from indus_nb.wire import clean_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from pygments.lexer import Lexer

_MUTED = "var(--jp-ui-font-color2,#808080)"
_LINE = "var(--jp-border-color2,rgba(128,128,128,0.35))"
_MONO = (
    "margin:0;padding:8px 12px;background:none;border:0;overflow-x:auto;overflow-y:auto;max-height:24em;"
    "white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.4;font-size:12px;"
    "font-family:var(--jp-code-font-family,ui-monospace,monospace);"
)
_COMMAND = "background:none;padding:0;font-size:12px;font-family:var(--jp-code-font-family,ui-monospace,monospace);"
_CARD = (
    # The plain colours are for viewers that drop variables, as JupyterLab does in notebooks that it does not trust.
    f"border:1px solid rgba(128,128,128,0.35);border-color:{_LINE};border-radius:6px;margin:4px 0;overflow:hidden;"
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:1.4;"
)
_CODE = (
    "margin:8px 0;padding:8px 12px;border-radius:4px;"
    "background-color:rgba(128,128,128,0.1);background-color:var(--jp-cell-editor-background,rgba(128,128,128,0.1));"
    "overflow-x:auto;white-space:pre;line-height:1.4;font-size:13px;"
    "font-family:var(--jp-code-font-family,ui-monospace,monospace);"
)

STYLES = {
    "answer": "margin:8px 0 -4px 0;",
    "link": "text-decoration:underline;",  # front ends mark links by colour only, which not every reader can see
    "quiet": f"color:{_MUTED};font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:12px;",
    "card": _CARD,
    "head": "padding:6px 12px;cursor:pointer;overflow-wrap:anywhere;",
    "command": _COMMAND,
    "aside": f"float:right;margin-left:12px;color:{_MUTED};font-size:12px;",
    "arguments": f"{_MONO}border-top:1px solid {_LINE};color:{_MUTED};",
    "output": f"{_MONO}border-top:1px solid {_LINE};",
    "failed-output": f"{_MONO}border-top:1px solid {_LINE};color:var(--jp-error-color1,#d9534f);",
    "listing": _MONO,
    "inner": f"border-top:1px solid {_LINE};padding:0 12px;",
    "said": "margin:12px 0 4px 0;padding:6px 12px;border-left:3px solid var(--jp-brand-color1,#3b82c4);"
    "white-space:pre-wrap;overflow-wrap:anywhere;",
    "thinking": f"padding:0 12px 6px 12px;color:{_MUTED};font-size:13px;",
    "box": f"{_CARD}border-left:4px solid var(--jp-error-color1,#d9534f);padding:8px 12px;white-space:pre-wrap;"
    "overflow-wrap:anywhere;",
    "code": _CODE,
    "good": "color:var(--jp-success-color1,#2e9e5b);font-weight:600;",
    "bad": "color:var(--jp-error-color1,#d9534f);font-weight:600;",
    "busy": "color:var(--jp-brand-color1,#3b82c4);font-weight:600;",
    "added": "display:inline-block;width:100%;background:rgba(46,160,67,0.2);",
    "removed": "display:inline-block;width:100%;background:rgba(248,81,73,0.2);",
}
CLASSES = ("answer", "said", "thinking", "call", "code", "error", "notice", "waiting", "usage")


def _ink(name: str, fallback: str) -> str:
    """A colour of the front end's editor, nearer to that of the text: some of them are too pale to be read by all."""
    return f"color:color-mix(in srgb,var(--jp-mirror-editor-{name}-color,{fallback}) 75%,currentcolor);"


_TOKEN_STYLES = {
    "Comment": _ink("comment", "#7a8a8a") + "font-style:italic;",
    "Keyword": _ink("keyword", "#3a9a3a") + "font-weight:600;",
    "Name.Function": _ink("def", "#3b82c4"),
    "Name.Class": _ink("def", "#3b82c4"),
    "Name.Builtin": _ink("builtin", "#3a9a3a"),
    "Name.Decorator": _ink("meta", "#a25fd0"),
    "Name.Tag": _ink("tag", "#3a9a3a"),
    "Name.Attribute": _ink("attribute", "#3b82c4"),
    "Literal.String": _ink("string", "#c9605d"),
    "Literal.Number": _ink("number", "#2e9e5b"),
    "Operator": _ink("operator", "#a25fd0"),
    "Generic.Inserted": "background:rgba(46,160,67,0.2);",
    "Generic.Deleted": "background:rgba(248,81,73,0.2);",
}
_MAX_FENCE_CHARACTERS = 200
# Of a lexer that is not named here a single step may take minutes on text that is made for it, and nothing else runs in
# the process meanwhile. These were tried with such text, of that many characters.
_COLOURED = {
    10_000: (
        "bash cmake css diff docker go graphql haskell html http java javascript json julia kotlin latex less lua "
        "nginx perl php powershell protobuf pycon python pytb rb rust scss splus sql swift toml ts tsx jsx xml yaml zig"
    ),
    2_000: "c console cpp csharp ini ipython matlab objective-c octave",
}
_LANGUAGES = {name: limit for limit, names in _COLOURED.items() for name in names.split()}
_COLOUR_SECONDS = 0.3
_TAG_NAMES = (
    "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong summary "
    "table tbody td th thead tr ul"
)
_TAGS = frozenset(_TAG_NAMES.split())
_ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "details": {"open"},
    **{tag: {"style"} for tag in ("code", "pre", "span", "summary")},
    "div": {"style", "class"},
}
_ALLOWED_STYLES = frozenset([*STYLES.values(), *_TOKEN_STYLES.values()])
_ALLOWED_CLASSES = frozenset(f"indus-{name}" for name in CLASSES)

_TERMINAL_CODES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_WEB_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_TAG_OR_IMAGE = re.compile(r"<(?=[A-Za-z/!?])(?!https?://[^\s<>]*>)|!(?=\[)")
_PICTURE = re.compile(r"image/(?:png|jpeg|gif|webp)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_BACKTICKS = re.compile("`+")


def plain(text: str) -> str:
    r"""``text`` without what a terminal would obey, marks that turn the direction of writing, and half characters.

    >>> plain("\x1b[31mred\x1b[0m\r\nnext\x07\u202e")
    'red\nnext'
    """
    text = _TERMINAL_CODES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return clean_text(_CONTROLS.sub("", text))


def cut(text: str, *, lines: int = 120, characters: int = 12_000) -> str:
    r"""Shorten a text to what a view shows: head and tail, with a note of how much was left out between them.

    >>> print(cut("1\n2\n3\n4\n5\n6\n7", lines=4))
    1
    2
    [... 3 lines left out ...]
    6
    7

    Args:
        text: The text to shorten.
        lines: How many lines are kept.
        characters: How many characters of these are kept.

    Returns:
        The text itself, or its ends and the note.
    """
    text = textcut.middle_lines(text, lines, "[... {left:,} lines left out ...]")
    return textcut.middle(text, characters, "\n[... {left:,} characters left out ...]\n")


def page(*pieces: str) -> str:
    """The pieces of HTML as one, with nothing left in it that could act, load or hide."""
    import nh3

    def allowed(_tag: str, attribute: str, value: str) -> str | None:
        if attribute == "style":
            return value if value in _ALLOWED_STYLES else None
        if attribute == "class":
            return value if value in _ALLOWED_CLASSES else None
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
    """Whether it is bytes in base64: pages and other viewers write those into their text as they stand."""
    return _BASE64.fullmatch(text) is not None


def picture(kind: str, data: str) -> str:
    """An image within the page; empty if it is of no known kind, or its data is no base64.

    Args:
        kind: The MIME type.
        data: The image in base64.

    Returns:
        HTML.
    """
    if not (_PICTURE.fullmatch(kind) and is_base64(data)):
        return ""
    return f'<img class="indus-picture" alt="image of a tool" src="data:{kind};base64,{data}">'


def element(tag: str, inner: str, style: str | None = None, kind: str | None = None) -> str:
    """An element around HTML.

    Args:
        tag: The element's name.
        inner: HTML; it is not escaped.
        style: One of ``STYLES``.
        kind: One of ``CLASSES``, by which stylesheets of front ends know it.

    Returns:
        HTML.
    """
    attributes = (f' class="indus-{kind}"' if kind else "") + (f' style="{STYLES[style]}"' if style else "")
    return f"<{tag}{attributes}>{inner}</{tag}>"


def escape(text: str) -> str:
    """``text`` as HTML that looks like it.

    A dollar sign stands in an element of its own, for notebooks render text between two of them as a formula.
    """
    return html.escape(plain(text)).replace("$", "<span>$</span>")


def preformatted(text: str, style: str) -> str:
    """A text as a block of code, escaped.

    Args:
        text: The text, which may be hostile.
        style: One of ``STYLES``.

    Returns:
        HTML.
    """
    return element("pre", html.escape(plain(text)), style)


def highlighted(code: str, info: str) -> str:
    """A block of code, coloured if its language is known and colouring does not take long.

    Args:
        code: The code, which may be hostile.
        info: What stands behind a fence; its first word is the language.

    Returns:
        HTML.
    """
    words = info.split(maxsplit=1)
    plainly = element("pre", html.escape(code), "code")
    if not words or len(code) > max(_COLOURED):
        return plainly
    from pygments import lexers
    from pygments.util import ClassNotFound

    untyped: Any = lexers
    try:
        lexer: Lexer = untyped.get_lexer_by_name(words[0])
    except ClassNotFound:
        return plainly
    if len(code) > max(_LANGUAGES.get(alias, 0) for alias in lexer.aliases):
        return plainly
    pieces: list[str] = []
    began = time.thread_time()
    for kind, value in lexer.get_tokens(code):
        if time.thread_time() - began > _COLOUR_SECONDS:
            return plainly
        style = _token_style(str(kind).removeprefix("Token."))
        shown = html.escape(value)
        pieces.append(f'<span style="{style}">{shown}</span>' if style and not value.isspace() else shown)
    return element("pre", "".join(pieces), "code")


def coloured_diff(diff: str) -> str:
    """A diff as a block of code, its added and removed lines on coloured ground."""
    rows: list[str] = []
    for row in plain(diff).split("\n"):
        style = {"+": "added", "-": "removed"}.get(row[:1])
        rows.append(element("span", html.escape(row), style) if style else html.escape(row))
    return element("pre", "\n".join(rows), "output")


def markdown_html(text: str) -> str:
    """The HTML of Markdown in which tags are text, images are links, and links lead to the web or to mail."""
    return _parser().render(plain(text))


def tame_markdown(text: str) -> str:
    r"""Markdown that looks the same and does nothing but that where a viewer would run tags and load images.

    An invisible word joiner parts what would begin a tag or an image. Only in fences it does not, where code shall stay
    as it is: in those that begin at the margin and so are fences in whatever place, for all that is shown before them
    ends there too. The last one is closed.

    >>> tame_markdown("![x](http://a) <b>\n\n~~~\n<b>\n~~~").replace("\u2060", "|")
    '!|[x](http://a) <|b>\n\n~~~\n<b>\n~~~'
    """
    text = plain(text)
    rows = text.split("\n")
    if "```" not in text and "~~~" not in text:  # so most answers are parsed only once
        return "\n".join(map(tame_line, rows))
    _, with_formulas = _fences(_block_parser(), text)
    last, code = _fences(_plain_block_parser(), text)
    code &= with_formulas  # what stands between dollar signs is a formula to one viewer, and text to the other
    shown = [row if number in code and not _FENCE.match(row) else tame_line(row) for number, row in enumerate(rows)]
    if last is not None and not _is_closed(last, rows):
        shown.append(last.markup)
    return "\n".join(shown)


def tame_line(text: str) -> str:
    """``tame_markdown`` for a part of a line."""
    return _TAG_OR_IMAGE.sub(lambda match: match[0] + "\u2060", plain(text))


def fenced(text: str, info: str = "text") -> str:
    """A text as a Markdown block of code that it cannot break out of.

    Args:
        text: The text, which may be hostile.
        info: The language.

    Returns:
        Markdown.
    """
    text = plain(text)
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"


def code_span(text: str) -> str:
    """``text`` as Markdown code within a line."""
    text = " ".join(plain(text).split())
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}" if longest else f"`{text}`"


def split_answer(text: str, *, soft: int = 3_000, hard: int = 12_000) -> tuple[str, str]:
    """Split growing Markdown into a part that will not change and the rest, so that only a short end is drawn again.

    The cut lies between two blocks. A single block that is too long is cut after a line; there a fence is closed and
    opened again, and a table begins with its head again. Call again with the rest, until nothing is split off.

    Args:
        text: The Markdown so far.
        soft: Nothing is split off a text with fewer characters.
        hard: A single block of more characters is cut.

    Returns:
        The part that will not change, at most twice ``hard`` characters of it, and the rest.
    """
    if len(text) < soft:
        return "", text
    whole = text[: 2 * hard].rpartition("\n")[0]  # a bit of it, for the whole may have come at once
    rows = whole.split("\n")
    blocks = [token for token in _block_parser().parse(whole) if token.level == 0 and token.map and token.nesting >= 0]
    start = blocks[-1].map[0] if blocks and blocks[-1].map else 0
    if start > 0:
        at = sum(map(len, rows[:start])) + start
        return text[:at], text[at:]
    if len(text) <= hard:
        return "", text
    at = _end_of_line(text, hard // 2, hard)
    return _cut_block(blocks[0] if blocks else None, rows, text[:at], text[at:])


def _cut_block(block: Token | None, rows: list[str], head: str, rest: str) -> tuple[str, str]:
    """The parts of a block, which begins with these rows, such that each is one of its kind."""
    if block is not None and block.type == "fence" and len(rows[0]) < _MAX_FENCE_CHARACTERS:
        if not rest.strip().strip(block.markup[0]):
            return head + rest, ""
        return f"{head.rstrip()}\n{block.markup}\n", f"{rows[0]}\n{rest}"
    if block is not None and block.type == "table_open" and head.endswith("\n") and rest.strip():
        top = "\n".join(rows[:2]) + "\n"
        if 4 * len(top) < len(head):
            return head, top + rest
    return head, rest


def _fences(parser: MarkdownIt, text: str) -> tuple[Token | None, set[int]]:
    """The fence that the text ends in, if it does, and the rows of all that begin at the margin."""
    rows = text.split("\n")
    last: Token | None = None
    inside: set[int] = set()
    for token in parser.parse(text):
        if token.level == 0 and token.map:
            last = token if token.type == "fence" else None
            if token.type == "fence" and not rows[token.map[0]].startswith(" "):
                inside.update(range(*token.map))
    return last, inside


def _is_closed(fence: Token, rows: list[str]) -> bool:
    first, end = fence.map or (0, 0)
    closing = rows[end - 1].strip()
    return end - first > 1 and closing.startswith(fence.markup) and not closing.strip(fence.markup[0])


def _end_of_line(text: str, low: int, high: int) -> int:
    """Where to cut ``text`` between the two positions: after a line, else after a word, else anywhere."""
    return text.rfind("\n", low, high) + 1 or text.rfind(" ", low, high) + 1 or high


@cache
def _plain_block_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).disable("inline")


@cache
def _block_parser() -> MarkdownIt:
    """``_parser`` for where blocks begin and end: what stands within a paragraph takes most of the time."""
    return _made_parser().disable("inline")


def _made_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)


@cache
def _parser() -> MarkdownIt:
    parser = _made_parser()
    parser.validateLink = lambda url: _WEB_LINK.match(url) is not None  # type: ignore[method-assign]

    def text(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return escape(tokens[index].content)

    def code(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return highlighted(tokens[index].content, tokens[index].info)

    def image(_: Any, tokens: Any, index: int, *__: Any) -> str:
        source = html.escape(str(tokens[index].attrs.get("src", "")))
        return f'<a href="{source}">[image: {escape(tokens[index].content) or source}]</a>'

    def formula(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return f"${html.escape(tokens[index].content)}$"

    def displayed_formula(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return f"<div>$${html.escape(tokens[index].content)}$$</div>"

    def inline_displayed_formula(_: Any, tokens: Any, index: int, *__: Any) -> str:
        return f"$${html.escape(tokens[index].content)}$$"

    for names, rule in (
        (("text",), text),
        (("fence", "code_block"), code),
        (("image",), image),
        (("math_inline",), formula),
        (("math_block", "math_block_label"), displayed_formula),
        (("math_inline_double",), inline_displayed_formula),
    ):
        for name in names:
            parser.add_render_rule(name, rule)
    return parser


@cache
def _token_style(kind: str) -> str | None:
    while kind:
        if kind in _TOKEN_STYLES:
            return _TOKEN_STYLES[kind]
        kind = kind.rpartition(".")[0]
    return None
