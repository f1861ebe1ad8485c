"""Show code in docstrings as code on the site: sessions that begin with `>>>`, and blocks behind `::`."""

import re
from typing import Any

import griffe

_SESSION = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
_BLOCK = re.compile(r"::\n\n((?: {4}.*(?:\n|$)|\n(?= {4}|\n))+)")


class CodeInDocstrings(griffe.Extension):
    """Puts fences around code before the docstring is read as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute once it is loaded."""
        if obj.docstring is None:
            return
        text = _SESSION.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
        obj.docstring.value = _BLOCK.sub(lambda found: f":\n\n```text\n{_dedented(found[1])}\n```\n", text)


def _dedented(block: str) -> str:
    return re.sub(r"^ {4}", "", block.rstrip(), flags=re.MULTILINE)
