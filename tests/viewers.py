"""Viewers of Markdown: what each of the parsers that people read notebooks with makes of a text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import mistune
from javascript import node
from markdown_it import MarkdownIt
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from nbconvert.filters.markdown_mistune import markdown2html_mistune

_LAB = Path(sys.prefix) / "share/jupyter/lab/static"
_LOADING = {"href", "src", "srcset", "data", "xlink:href", "poster", "background", "action", "style"}
_PROSE = frozenset(
    {"a", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "eq", "eqn", "h1", "h2", "h3", "h4", "h5"}
    | {"h6", "hr", "input", "li", "ol", "p", "pre", "s", "section", "span", "strong", "sup", "table", "tbody", "td"}
    | {"th", "thead", "tr", "ul"}
)


class Found(HTMLParser):
    """What in a page leads or loads something from elsewhere, and its tags that are no text's."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.targets: set[tuple[str, str, str]] = set()
        self.tags: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _PROSE:
            self.tags.add(tag)
        for name, value in attrs:
            if name.startswith("on") or (name in _LOADING and not (value or "").startswith(("#", "text-align"))):
                self.targets.add((tag, name, unquote(value or "")))


def links(page: str) -> set[str]:
    """Where the links of a page lead."""
    return {target for tag, name, target in Found(page).targets if (tag, name) == ("a", "href")}


def _markdown_it(preset: str, *, plugins: bool = False) -> Callable[[str], str]:
    parser = MarkdownIt(preset, {"html": True, "linkify": preset != "commonmark"})
    parser.validateLink = lambda _url: True  # type: ignore[method-assign]  # there are viewers that let all through
    if plugins:
        for plugin in (dollarmath_plugin, footnote_plugin, deflist_plugin, front_matter_plugin):
            parser.use(plugin)
    return parser.render


_mistune = mistune.create_markdown(
    escape=False,
    plugins=["strikethrough", "footnotes", "table", "url", "task_lists", "def_list", "abbr", "superscript", "math"],
)
VIEWERS: Mapping[str, Callable[[str], str]] = {
    "CommonMark": _markdown_it("commonmark"),
    "GitHub": _markdown_it("gfm-like"),
    "VS Code": _markdown_it("js-default", plugins=True),
    "nbconvert": markdown2html_mistune,
    "mistune": lambda text: str(_mistune(text)),
}
"""Those that are written in Python, or have a twin that is; of JupyterLab's see ``in_jupyterlab``."""


def in_jupyterlab(texts: Sequence[str]) -> list[str]:
    """The pages that JupyterLab's own code makes of texts."""
    command = [str(node()), str(Path(__file__).with_name("lab_markdown.cjs")), str(_LAB)]
    run = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    return json.loads(run.stdout)
