"""Which displays do nothing in a page but show themselves: what nobody was asked about may be no other.

What this module promises: of what `inert` returns nothing runs in the page, is fetched by it, or leaves the place where
outputs stand. What is only more than that beside a form that is not (the script of a chart beside its description) is
left out; what has no such form is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from typing import Any, cast

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_CHARTS = re.compile(r"application/vnd\.(?:plotly|vegalite|vega)\.v[\d.]+\+json")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_ELEMENTS = frozenset(
    {"a", "abbr", "b", "br", "caption", "code", "col", "colgroup", "dd", "details", "div", "dl", "dt", "em", "h1", "h2"}
    | {"h3", "h4", "h5", "h6", "hr", "i", "label", "li", "ol", "p", "pre", "s", "small", "span", "strong", "style"}
    | {"sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul"}
)
_ATTRIBUTES = frozenset(
    {"align", "border", "cellpadding", "cellspacing", "class", "colspan", "halign", "id", "nowrap", "open", "rowspan"}
    | {"scope", "scoped", "style", "target", "title", "type", "valign", "width", "height", "rel"}
)
_ACTIVE_STYLE = re.compile(r"url\s*\(|@import|expression\s*\(|position\s*:|\\|z-index|behaviou?r\s*:", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//|\bjavascript:|\bdata:text", re.IGNORECASE)
_MATHS_COMMANDS = re.compile(r"\\(?:href|require|url|class|cssId|style|unicode|includegraphics|html)", re.IGNORECASE)
_WITHOUT_TEXT = re.compile(r"<.*(?:\bobject| at 0x[0-9a-f]+)>", re.DOTALL)


def inert(bundle: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what of a display does nothing in a page.

    Args:
        bundle: Its MIME bundle.

    Returns:
        A bundle; ``None`` where only a form that does something shows what is to be seen.
    """
    kept = {kind: content for kind, content in bundle.items() if _is_inert(kind, content)}
    rich = [kind for kind in kept if kind != "text/plain"]
    plain = str(kept.get("text/plain", ""))
    if rich or kept.keys() == bundle.keys() or (plain and _is_enough(plain, bundle)):
        return kept
    return None


def _is_enough(plain: str, bundle: Mapping[str, Any]) -> bool:
    """Whether the text says what the others would show: not where it is only the name of an object."""
    return _WIDGET not in bundle and _WITHOUT_TEXT.fullmatch(plain) is None and "text/html" not in bundle


def _is_inert(kind: str, content: Any) -> bool:
    if kind in {"text/plain", "application/json"} or kind in _IMAGES:
        return True
    if _CHARTS.fullmatch(kind):
        return not _addresses(content)
    return isinstance(content, str) and kind in _TEXTS and _TEXTS[kind](content)


def _addresses(content: Any) -> bool:
    """Whether a chart names an address that a page would fetch; that of its own format is none."""
    waiting: list[Any] = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [each for name, each in cast("dict[Any, Any]", value).items() if name != "$schema"]
            waiting += [name for name in cast("dict[Any, Any]", value) if name != "$schema"]
        elif isinstance(value, list | tuple):
            waiting += cast("list[Any]", value)
        elif isinstance(value, str) and _ADDRESS.search(value):
            return True
        elif not isinstance(value, str | int | float | bool | None):
            return _addresses(json.loads(json.dumps(value, default=str)))
    return False


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.active = False
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        self.active |= tag not in _ELEMENTS or any(_is_active(tag, name, value or "") for name, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        self._in_style = self._in_style and tag != "style"

    def handle_data(self, data: str) -> None:
        self.active |= self._in_style and _ACTIVE_STYLE.search(data) is not None

    # Browsers and this parser do not agree where all of these end.

    def handle_comment(self, data: str) -> None:  # noqa: ARG002 - the parser's method
        self.active = True

    def handle_decl(self, decl: str) -> None:  # noqa: ARG002
        self.active = True

    def handle_pi(self, data: str) -> None:  # noqa: ARG002
        self.active = True

    def unknown_decl(self, data: str) -> None:  # noqa: ARG002
        self.active = True


def _is_active(tag: str, name: str, value: str) -> bool:
    """Whether an attribute does more than to say how something looks, or where a click leads to."""
    if name == "href" and tag == "a":
        return re.match(r"https?://|#", value) is None
    if name == "style":
        return _ACTIVE_STYLE.search(value) is not None
    return name not in _ATTRIBUTES and not re.fullmatch(r"(?:data|aria)-[a-z-]+", name)


def _is_inert_html(text: str) -> bool:
    reader = _Reader()
    try:
        reader.feed(text)
        reader.close()
    except Exception:  # noqa: BLE001 - what cannot be read may be anything
        return False
    return not reader.active


_TEXTS: Mapping[str, Callable[[str], bool]] = {
    "text/html": _is_inert_html,
    "text/latex": lambda text: "<" not in text and _MATHS_COMMANDS.search(text) is None,
    "text/markdown": lambda text: "](" not in text and _MATHS_COMMANDS.search(text) is None and _is_inert_html(text),
}
"""What tells of a format whether a text in it does nothing."""
