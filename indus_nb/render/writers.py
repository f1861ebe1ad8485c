"""The three forms of a tree of blocks: HTML for front ends, Markdown for any viewer, plain text for the rest.

What a text holds is made harmless here, by the functions of ``markup`` and ``markdown`` and nowhere else: every node's
text passes one of them on its way into each form, and HTML passes ``markup.page`` as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from indus_nb.render import markdown, markup, nodes
from indus_nb.render.markup import element, escape, plain
from indus_nb.render.nodes import Node

MimeBundle: TypeAlias = dict[str, str]
_FAILED = "✗ Error"
_CODE = re.compile(r"`([^`]+)`")
_TASK_MARKS = {"abandoned": "~~", "failed": "~~", "in_progress": "**"}


def bundle(node: Node) -> MimeBundle:
    """Write a block in all three forms, so that a saved notebook can be read in any viewer."""
    return {"text/html": as_html(node), "text/markdown": as_markdown(node), "text/plain": as_text(node)}


def as_html(*nodes: Node) -> str:
    """Write blocks as HTML that is fit for a page."""
    return markup.page(*map(_html, nodes))


def _html(node: Node) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each kind
    match node:
        case nodes.Box(style, kind, inner):
            return element("div", _html(inner), style, kind)
        case nodes.Passage(text, live):
            return markup.markdown_html(text, live)
        case nodes.Sentence(text):
            return _with_code(text)
        case nodes.Quotation(text):
            return escape(text)
        case nodes.FailureText(text):
            return f"{element('span', _FAILED, 'bad')}\n{escape(text)}"
        case nodes.CodeBlock(text, style, language):
            return markup.highlighted(text, language, style)
        case nodes.DiffBlock(text, language):
            return markup.coloured_diff(text, language)
        case nodes.TaskBlock(todos):
            return markup.highlighted(todos.checklist(), "", "output")
        case nodes.Remarks(rows):
            return element("div", "<br>".join(map(escape, rows)), "changed")
        case nodes.Grid():
            return _grid_html(node)
        case nodes.CardHead():
            return _head_html(node)
        case nodes.Fold():
            return _fold_html(node)
        case nodes.Written(written):
            return written["text/html"]


def _with_code(text: str) -> str:
    parts = _CODE.split(text)
    return "".join(f"<code>{escape(part)}</code>" if at % 2 else escape(part) for at, part in enumerate(parts))


def _grid_html(grid: nodes.Grid) -> str:
    columns = max(map(len, grid.rows))
    styles = [*["short-cell"] * (columns - 1), "cell"]  # a line breaks in the last column alone
    rows = (
        "".join(element("td", escape(cell), style) for cell, style in zip(row, styles, strict=True))
        for row in grid.rows
    )
    head = element("div", _with_code(grid.title), "title") if grid.title else ""
    return head + element("div", f"<table><tbody><tr>{'</tr><tr>'.join(rows)}</tr></tbody></table>", "shown")


def _head_html(head: nodes.CardHead) -> str:
    aside = element("span", escape(head.aside), "aside") if head.aside else ""
    runs = "runs" if head.tone == "busy" else None  # a page ends it, should the kernel end before
    parts = [f"{aside}{element('span', head.icon, head.tone, runs)}", element("b", escape(head.name))]
    if line := head.summary or head.hint:
        parts.append(element("code", escape(line), "command"))
    result = element("span", f" · {escape(head.result)}", "result") if head.result else ""
    return " ".join(parts) + result


def _fold_html(fold: nodes.Fold) -> str:
    head, body = _html(fold.head), "".join(map(_html, fold.parts))
    if not body:
        return element("div", head, "head")
    return f"<details{' open' if fold.opened else ''}>{element('summary', head, 'head')}{body}</details>"


def as_markdown(node: Node, *, quoted: bool = False) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each kind
    """Write a block as Markdown that every viewer reads the same.

    Args:
        quoted: Whether what models wrote stands in a block quote.
    """
    match node:
        case nodes.Box(inner=inner):
            return as_markdown(inner, quoted=quoted)
        case nodes.Passage(text, live):
            return markdown.rendition(text, quoted=quoted, live=live)
        case nodes.Sentence(text):
            return _emphasised(text)
        case nodes.Quotation(text):
            return _quoted(markdown.literal_lines(text))
        case nodes.FailureText(text):
            return f"**{_FAILED}**\n\n{markdown.fenced(text)}"
        case nodes.CodeBlock(text, language=language):
            return markdown.fenced(text, language or "text")
        case nodes.DiffBlock(text):
            return markdown.fenced(text, "diff")
        case nodes.TaskBlock():
            return _task_list(node)
        case nodes.Remarks(rows):
            return "\n\n".join(map(_emphasised, rows))
        case nodes.Grid():
            return _grid_markdown(node)
        case nodes.CardHead():
            return _head_markdown(node)
        case nodes.Fold():
            return _fold_markdown(node)
        case nodes.Written(written):
            return written["text/markdown"]


def _emphasised(text: str) -> str:
    return f"*{markdown.literal(text)}*"


def _quoted(rows: Iterable[str]) -> str:
    return "\n".join(f"> {row}" if row else ">" for row in rows)


def _grid_markdown(grid: nodes.Grid) -> str:
    columns = len(grid.rows[0])
    rows = [[""] * columns, ["---"] * columns, *(map(markdown.literal, row) for row in grid.rows)]
    return "\n".join([markdown.literal(grid.title), "", *(f"| {' | '.join(row)} |" for row in rows)])


def _head_markdown(head: nodes.CardHead) -> str:
    summary = f" {markdown.code_span(head.summary)}" if head.summary else ""
    aside = f" · {markdown.literal(head.aside)}" if head.aside else ""
    return f"{head.icon} **{markdown.literal(head.name)}**{summary}{aside}"


def _fold_markdown(fold: nodes.Fold) -> str:
    head = as_markdown(fold.head)
    match fold.elsewhere:
        case "below":
            return "\n\n".join([head, *map(as_markdown, fold.parts)])
        case "quoted":
            return "\n>\n".join([f"> {head}", *(as_markdown(part, quoted=True) for part in fold.parts)]).rstrip("\n>")
        case "left out":
            return head


def _task_list(block: nodes.TaskBlock) -> str:
    """Return the list as Markdown: viewers draw boxes for brackets."""
    rows: list[str] = []
    for phase in block.todos.phases:
        rows += [markdown.literal(phase.name), ""]
        for task in phase.tasks:
            mark = _TASK_MARKS.get(task.status, "")
            rows.append(f"- [{' ' if task.is_open else 'x'}] {mark}{markdown.literal(task.line)}{mark}")
        rows.append("")
    return "\n".join(rows).rstrip()


def as_text(node: Node) -> str:  # noqa: C901, PLR0911 - one case for each kind
    """Write a block as plain text: what a line unfolds to is indented below it, and blocks of their own stand there."""
    match node:
        case nodes.Box(inner=inner):
            return as_text(inner)
        case nodes.Passage(text, live):
            return markup.markdown_text(text, live)
        case nodes.Sentence(text) | nodes.CodeBlock(text) | nodes.DiffBlock(text):
            return plain(text)
        case nodes.Quotation(text):
            return _quoted(map(str.rstrip, plain(text).split("\n")))
        case nodes.FailureText(text):
            return f"{_FAILED}\n{_indented(plain(text))}"
        case nodes.TaskBlock(todos):
            return plain(todos.checklist())
        case nodes.Remarks(rows):
            return plain("\n".join(rows))
        case nodes.Grid():
            return _columns(node)
        case nodes.CardHead():
            aside = f"({node.aside})" if node.aside else ""
            return "  ".join(filter(None, (f"{node.icon} {plain(node.name)}", plain(node.summary), aside)))
        case nodes.Fold(head, elsewhere="left out"):
            return as_text(head)
        case nodes.Fold(head, parts):
            return "\n".join([as_text(head), *map(_below, parts)])
        case nodes.Written(written):
            return written["text/plain"]


def _columns(grid: nodes.Grid) -> str:
    shown = [[plain(cell) for cell in row] for row in grid.rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    rows = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown)
    return "\n".join([plain(grid.title), "", *rows]).lstrip("\n")


def _below(part: Node) -> str:
    text = as_text(part)
    return text if isinstance(part, nodes.Written) else _indented(text)


def _indented(text: str) -> str:
    return "\n".join(f"  {row}".rstrip() for row in text.split("\n"))
