"""Displays that do nothing in a page but show themselves: only these are shown without a question.

What this module promises: of what `inert` returns nothing runs in the page, is fetched by it, looks like a part of it,
or leaves the place where outputs stand. HTML is written anew by a sanitiser that reads it as browsers do; if it has
styles or drawings of its own it stands in a frame in which nothing runs and for which nothing is fetched. What is more
than that beside a form that is not (the script of a chart beside its description) is left out; the user is asked
about what has no such form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from html.parser import HTMLParser
from typing import Any, cast

from indus_nb.kernel.run.formulas import only_draws

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PLOTLY = re.compile(r"application/vnd\.plotly\.v[\d.]+\+json")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_ELEMENTS = frozenset(
    {"a", "abbr", "b", "br", "caption", "code", "col", "colgroup", "dd", "div", "dl", "dt", "em", "h1", "h2", "h3"}
    | {"h4", "h5", "h6", "hr", "i", "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "sup", "table"}
    | {"tbody", "td", "tfoot", "th", "thead", "tr", "tt", "u", "ul"}
)
_ATTRIBUTES = {"*": {"style"}, "a": {"href"}, "td": {"colspan", "rowspan"}, "th": {"colspan", "rowspan"}}
_FRAMED_ELEMENTS = _ELEMENTS | {
    *("article", "aside", "details", "figcaption", "figure", "footer", "header", "input", "label", "main", "nav"),
    *("section", "style", "summary"),
    *(
        "circle",
        "defs",
        "ellipse",
        "g",
        "line",
        "path",
        "polygon",
        "polyline",
        "rect",
        "svg",
        "symbol",
        "text",
        "tspan",
    ),
}
_FRAMED_ATTRIBUTES = {
    "*": {"class", "id", "style", "title", "role"},
    "input": {"type", "checked", "disabled"},
    "label": {"for"},
    "details": {"open"},
    **{name: _ATTRIBUTES[name] for name in ("td", "th")},
    **dict.fromkeys(
        ("circle", "ellipse", "g", "line", "path", "polygon", "polyline", "rect", "svg", "symbol", "text", "tspan"),
        {"cx", "cy", "d", "fill", "height", "points", "r", "rx", "ry", "stroke", "stroke-width", "text-anchor"}
        | {"transform", "viewbox", "viewBox", "width", "x", "x1", "x2", "y", "y1", "y2", "dx", "dy", "font-size"},
    ),
}
_DRAWN = re.compile("<(?:circle|ellipse|line|path|polygon|polyline|rect|text)\\b")
_FRAME_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
_ROW_PIXELS = 26
_LEAST_PIXELS, _MOST_PIXELS = 90, 480
_STYLES = frozenset({"background-color", "color", "font-weight", "text-align", "white-space"})
_NO_CALL = re.compile(r"[^(\\]*|(?:rgb|rgba|hsl|hsla)\([\d\s.,%/]*\)")
_ADDRESS = re.compile(r"[/\\]\s*[/\\]|\b[a-z][a-z0-9+.-]*:\s*[/\\]|\b(?:javascript|data|https?):", re.IGNORECASE)
_LINK = re.compile(r":\s*/|//|\bwww\.|\b(?:javascript|data|https?|mailto):", re.IGNORECASE)
_WITHOUT_TEXT = re.compile(r"<.*(?:\bobject| at 0x[0-9a-f]+)>", re.DOTALL)
_TRACES = frozenset(
    {"bar", "box", "candlestick", "contour", "funnel", "heatmap", "histogram", "histogram2d", "histogram2dcontour"}
    | {"icicle", "indicator", "ohlc", "parcats", "parcoords", "pie", "sankey", "scatter", "scatter3d", "scattergl"}
    | {"scatterpolar", "splom", "sunburst", "surface", "table", "treemap", "violin", "waterfall"}
)
"""Kinds of plotly's that draw what is in them; maps and images fetch more."""


def inert(bundle: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the formats of a display that do nothing in a page but show themselves.

    Returns:
        A bundle, with HTML written anew; ``None`` where only a form that does something shows what is to be seen.
    """
    kept = {kind: safe for kind, content in bundle.items() if (safe := _inert(kind, content)) is not None}
    rich = [kind for kind in kept if kind != "text/plain"]
    plain = str(kept.get("text/plain", ""))
    if rich or kept.keys() == bundle.keys() or (plain and _is_enough(plain, bundle)):
        return kept
    return None


def _is_enough(plain: str, bundle: Mapping[str, Any]) -> bool:
    """Return whether the plain text suffices: not where it is only the ``repr`` of an object."""
    return _WIDGET not in bundle and _WITHOUT_TEXT.fullmatch(plain) is None and "text/html" not in bundle


def _inert(kind: str, content: Any) -> Any:
    if kind == "text/plain" or kind in _IMAGES:
        return content
    if _PLOTLY.fullmatch(kind):
        return content if _draws_itself(content) else None
    return _TEXTS[kind](content) if kind in _TEXTS and isinstance(content, str) else None


def _draws_itself(chart: Any) -> bool:
    """Return whether a chart of plotly's shows nothing but what is in it."""
    fields: dict[str, Any] = cast("dict[str, Any]", chart) if isinstance(chart, dict) else {}
    traces: Any = fields.get("data")
    if not isinstance(traces, list | tuple):
        return False
    listed = [cast("dict[str, Any]", each) for each in cast("list[Any]", traces) if isinstance(each, dict)]
    return all(str(each.get("type", "scatter")) in _TRACES for each in listed) and not _fetches(chart)


def _fetches(chart: Any) -> bool:
    waiting: list[Any] = [chart]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            fields = cast("dict[Any, Any]", value)
            if fields.get("images") or isinstance(fields.get("source"), str):
                return True
            waiting += [*fields, *fields.values()]
        elif isinstance(value, list | tuple):
            waiting += cast("list[Any]", value)
        elif isinstance(value, str):
            if _ADDRESS.search(value):
                return True
        elif not isinstance(value, int | float | bool | None):
            return True
    return False


class _Names(HTMLParser):
    """Finder of elements that a page would do more with than show them."""

    def __init__(self) -> None:
        super().__init__()
        self.others = False
        self._styles = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # The rules that pandas puts before each table are those of the page anyway.
        self._styles = tag == "style" and not any(name == "scoped" for name, _ in attrs)
        self.others |= tag not in _ELEMENTS and tag != "style"

    def handle_data(self, data: str) -> None:
        self.others |= self._styles and bool(data.strip())


def _safe_html(text: str) -> str | None:
    """Return sanitised HTML; ``None`` where nothing of it would be visible."""
    names = _Names()
    try:
        names.feed(text)
        names.close()
    except Exception:  # noqa: BLE001 - what cannot be read may be anything
        return None
    return _framed(text) if names.others else sanitised(text)


def _framed(text: str) -> str | None:
    """Put HTML with its own styles into a frame without scripts; ``None`` if it would be empty."""
    import nh3

    clean = nh3.clean(
        text,
        tags={*_FRAMED_ELEMENTS},
        clean_content_tags={"script", "template", "noscript"},
        attributes=_FRAMED_ATTRIBUTES,
        url_schemes=set(),
        link_rel=None,
    )
    if not re.sub(r"<style.*?</style>|<[^>]*>|\s", "", clean, flags=re.DOTALL | re.IGNORECASE) and not _DRAWN.search(
        clean
    ):
        return None
    rows = sum(clean.count(f"<{name}") for name in ("tr", "li", "dt", "h1", "h2", "h3", "h4", "p", "pre", "summary"))
    height = min(max(_LEAST_PIXELS, _ROW_PIXELS * (rows + clean.count("\n<div"))), _MOST_PIXELS)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_FRAME_POLICY}">'
    page = f"<!DOCTYPE html>{policy}<body style='font: 13px system-ui, sans-serif; margin: 4px'>{clean}"
    look = f"width:100%;height:{height}px;resize:vertical;border:0;background:white;color-scheme:light"
    return f'<iframe sandbox title="output" style="{look}" srcdoc="{escape(page)}"></iframe>'


def sanitised(text: str) -> str:
    """Return HTML without active content, as the sanitiser writes it."""
    import nh3

    return nh3.clean(
        text,
        tags={*_ELEMENTS},
        clean_content_tags={"script", "style"},
        attributes=_ATTRIBUTES,
        attribute_filter=_safe_attribute,
        url_schemes={"http", "https"},
        url_relative="deny",
        filter_style_properties={*_STYLES},
    )


def _safe_attribute(_: str, name: str, value: str) -> str | None:
    if name != "style":
        return value
    kept = [each for each in value.split(";") if _NO_CALL.fullmatch(each.partition(":")[2].strip())]
    return ";".join(kept)


def _safe_maths(text: str) -> str | None:
    """Return a formula, or text with some, if it is harmless as Markdown too; else ``None``."""
    links = any(sign in text for sign in ("](", "![", "]:", "<"))
    return text if not links and _LINK.search(text) is None and only_draws(text) else None


_TEXTS: Mapping[str, Callable[[str], str | None]] = {
    "text/html": _safe_html,
    "text/latex": _safe_maths,
    "text/markdown": lambda text: None if _ADDRESS.search(text) else _safe_maths(text),
}
"""Sanitisers by format: each returns harmless text, or ``None`` if there can be none."""
