r"""Markdown of models beyond CommonMark: formulas between ``\(…\)`` and ``\[…\]``, and boxes of task lists.

CommonMark reads those backslashes as escapes of the brackets, and of the signs in the formula.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline

_MAX_FORMULA_CHARACTERS = 3_000
_MAX_FORMULA_LINES = 100
_CLOSED_BY = {"(": r"\)", "[": r"\]"}
_KINDS = {"(": "math_inline", "[": "math_inline_double"}
_OF_FORMULAS = re.compile(r"[\\^_=<>]")
r"""Signs of a formula in ``\[…\]`` within a paragraph, which may be text in brackets, such as ``\[1\]``."""
_REACHES_OUT = re.compile(r"\\(?:href|url|require|html|include|class|cssId|style)")
"""Commands of some viewers that lead elsewhere."""
_BOX = re.compile(r"\[([ xX])\](?=\s)")


def dialect(parser: MarkdownIt) -> None:
    r"""Install the dialect as a plugin of markdown-it.

    Formulas become the tokens of ``dollarmath``, boxes the characters ☐ and ☑.

    >>> from markdown_it import MarkdownIt
    >>> [token.type for token in MarkdownIt().use(dialect).parseInline(r"Let \(x_1\) be")[0].children]
    ['text', 'math_inline', 'text']
    """
    parser.inline.ruler.before("escape", "bracketed_math", _inline_formula)
    parser.block.ruler.before(
        "fence", "bracketed_math_block", _formula_block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    parser.core.ruler.after("inline", "task_boxes", _boxes)


def _inline_formula(state: StateInline, silent: bool) -> bool:  # noqa: FBT001 - as markdown-it calls it
    source, start = state.src, state.pos
    sign = source[start + 1 : start + 2]
    if source[start] != "\\" or sign not in _CLOSED_BY or start + 1 >= state.posMax:
        return False
    end = source.find(_CLOSED_BY[sign], start + 2, min(state.posMax, start + _MAX_FORMULA_CHARACTERS))
    formula = source[start + 2 : end]
    if end < 0 or not _is_formula(formula):
        return False
    if sign == "[" and (not _OF_FORMULAS.search(formula) or source[end + 2 : end + 3] in ("(", "[")):
        return False
    if not silent:
        token = state.push(_KINDS[sign], "math", 0)
        token.content = formula
        token.markup = "\\" + sign
    state.pos = end + 2
    return True


def _formula_block(state: StateBlock, first: int, behind: int, silent: bool) -> bool:  # noqa: FBT001 - see above
    last = _last_row(state, first, behind)
    if last is None:
        return False
    whole = state.getLines(first, last + 1, state.blkIndent, keepLastLF=False).strip()
    formula = whole[2:-2]
    if not whole.endswith(r"\]") or len(whole) > _MAX_FORMULA_CHARACTERS or not _is_formula(formula):
        return False
    if not silent:
        state.line = last + 1
        token = state.push("math_block", "math", 0)
        token.block = True
        token.content = formula
        token.markup = r"\["
        token.map = [first, state.line]
    return True


def _last_row(state: StateBlock, first: int, behind: int) -> int | None:
    """Return the row that closes what the first one opens, if any does."""

    def row(number: int) -> str:
        return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]

    if state.is_code_block(first) or not row(first).startswith(r"\["):
        return None
    if r"\]" in row(first)[2:]:
        return first
    for number in range(first + 1, min(behind, first + _MAX_FORMULA_LINES)):
        # A row that opens a formula is looked at by itself, so no row is looked at often.
        if state.isEmpty(number) or state.sCount[number] < state.blkIndent or row(number).startswith(r"\["):
            return None
        if r"\]" in row(number):
            return number
    return None


def _is_formula(text: str) -> bool:
    """Return whether the text can stand between dollar signs."""
    closed = "$" not in text and r"\]" not in text and r"\)" not in text
    return bool(text.strip()) and closed and not _REACHES_OUT.search(text)


def _boxes(state: StateCore) -> None:
    for item, paragraph, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if item.type != "list_item_open" or paragraph.type != "paragraph_open" or not inline.children:
            continue
        first = inline.children[0]
        box = _BOX.match(first.content) if first.type == "text" else None
        if box is not None:
            first.content = ("☐" if box[1] == " " else "☑") + first.content[box.end() :]
