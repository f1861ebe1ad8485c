r"""LaTeX formulas as MathML, for pages that bring no program that would draw them.

What this module promises: an element is made of the tags and attributes below and of text, whatever the formula says,
so links, styles and classes that LaTeX dialects have are left out. What the converter does not understand, or would
take long for, stays the source that it was. The source is the element's alternative text in any case.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_MAX_CHARACTERS = 3_000
_MAX_CHARACTERS_OF_ALL = 200_000
"""Longest formulas of a page: a character takes up to twenty microseconds, and is up to fifteen in the page."""

_TAG_NAMES = (
    "math menclose mfrac mi mn mo mover mpadded mphantom mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd "
    "mtext mtr munder munderover"
)
TAGS = frozenset(_TAG_NAMES.split())
ATTRIBUTES = {
    "math": {"display", "alttext"},
    "mfrac": {"linethickness"},
    "mo": {"fence", "form", "largeop", "maxsize", "minsize", "movablelimits", "stretchy"},
    "mover": {"accent"},
    "mspace": {"width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"displaystyle"},
    "mtd": {"style"},
    "munder": {"accentunder"},
}
"""Attributes that browsers draw, by element (MathML Core)."""

_PARTS = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "mover": 2, "munder": 2, "msubsup": 3, "munderover": 3}
_VALUE = re.compile(r"-?[0-9a-z.%]{1,20}")
_SIDES = {"left": "text-align:left", "right": "text-align:right"}
_ENVIRONMENTS = {"aligned": "split", "gathered": "matrix", "gather": "matrix", "gather*": "matrix"}
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([a-z]+\*?)\}")
_NOT_UNDERSTOOD = re.compile(r"\\[A-Za-z]|&")


class Formulas:
    """Renderer of the formulas of one page, as many as do not take long together."""

    def __init__(self) -> None:
        self._left = _MAX_CHARACTERS_OF_ALL

    def drawn(self, latex: str, *, display: bool) -> str | None:
        r"""Return a formula as a MathML element.

        >>> print(Formulas().drawn(r"x^2", display=False))
        <math display="inline" alttext="x^2"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>
        >>> Formulas().drawn(r"\unknown{x}", display=False) is None
        True

        Args:
            latex: The formula without the signs around it, which may be hostile.
            display: Whether it stands in lines of its own.

        Returns:
            HTML; ``None`` if the converter does not understand it, or formulas took long already.
        """
        if len(latex) > min(_MAX_CHARACTERS, self._left):
            return None
        self._left -= len(latex)
        from latex2mathml.converter import convert_to_element

        kind = "block" if display else "inline"
        known = _ENVIRONMENT.sub(lambda found: f"\\{found[1]}{{{_ENVIRONMENTS.get(found[2], found[2])}}}", latex)
        try:
            math: Element = convert_to_element(known, display=kind)
            inner = "".join(piece for child in math for piece in _pieces(child))
        except (Exception, RecursionError):  # noqa: BLE001 - a converter of what is hostile may fail in any way
            return None
        if not inner:
            return None
        return f'<math display="{kind}" alttext="{html.escape(latex)}">{inner}</math>'


class _NotUnderstoodError(ValueError):
    """The converter made an element of a command that it does not know."""


def _pieces(element: Element) -> Iterator[str]:
    text = html.unescape(element.text or "")
    parts = _PARTS.get(element.tag, len(element))
    if (
        element.tag not in TAGS
        or len(element) != parts
        or (element.tag in ("mi", "mo") and _NOT_UNDERSTOOD.match(text))
    ):
        raise _NotUnderstoodError
    yield f"<{element.tag}{_attributes(element)}>"
    yield html.escape(text)
    for before, table, behind in zip(element, element[1:], element[2:], strict=False):
        if table.tag == "mtable" and before.tag == behind.tag == "mo":  # as high as the matrix between them
            before.attrib |= {"form": "prefix", "stretchy": "true"}
            behind.attrib |= {"form": "postfix", "stretchy": "true"}
    for child in element:
        yield from _pieces(child)
    yield f"</{element.tag}>"


def _attributes(element: Element) -> str:
    attributes = ((name, str(value)) for name, value in element.attrib.items())
    allowed = ATTRIBUTES.get(element.tag, set[str]())
    kept = {name: value for name, value in attributes if name in allowed - {"style"} and _VALUE.fullmatch(value)}
    if (side := _SIDES.get(str(element.get("columnalign")))) and element.tag == "mtd":
        kept["style"] = side
    return "".join(f' {name}="{value}"' for name, value in kept.items())
