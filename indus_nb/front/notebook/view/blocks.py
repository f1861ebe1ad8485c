"""The parts of a transcript as MIME bundles: answers, thinking, tool calls, notices and the closing line.

Every bundle holds HTML, Markdown and plain text with the same content, so that a saved notebook can be read in any
viewer, without a kernel and without scripts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from indus_nb.base.files import without_home
from indus_nb.base.images import thumbnail
from indus_nb.base.messages import Cost, ImageContent, Usage
from indus_nb.render import markdown, markup
from indus_nb.render.cards import (
    Call,
    CallState,
    MimeBundle,
    Steps,
    answer_html,
    call,
    duration,
    indented,
    steps,
    unfolding,
)

__all__ = [
    "OTHER_BRANCH",
    "Call",
    "CallState",
    "MimeBundle",
    "Steps",
    "answer",
    "answer_html",
    "call",
    "can_show",
    "dollars",
    "error",
    "folded",
    "joined",
    "listing",
    "notice",
    "output_html",
    "picture",
    "steps",
    "table",
    "thinking",
    "usage",
    "user_message",
    "waiting",
]

OTHER_BRANCH = (
    "The conversation went to another branch, and the kernel did not: its variables are what the cells and tools that "
    "ran last have made of them."
)
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MAX_PICTURE_CHARACTERS = 2 * 1024 * 1024
_MAX_HTML_CHARACTERS = 1_000_000
_THUMBNAIL_PIXELS = 240
_THINKING_TAIL = 1_000
_MAX_LINE_CHARACTERS = 4_000
_LEAST_COST = 0.0001
_CODE = re.compile(r"`([^`]+)`")


def joined(first: MimeBundle, second: MimeBundle) -> MimeBundle:
    """Join two bundles, one below the other."""
    return {kind: f"{text}\n\n{second[kind]}" for kind, text in first.items()}


def can_show(image: ImageContent) -> bool:
    """Return whether a front end can show an image of a tool.

    It must have its bytes, be of a type that browsers know, and not be too large.
    """
    data = image.data or ""
    return image.mime_type in _PICTURES and len(data) <= _MAX_PICTURE_CHARACTERS and markup.is_base64(data)


def picture(image: ImageContent) -> MimeBundle:
    """Draw an image that can be shown, as the outputs of cells hold one."""
    size = f"[image: {image.mime_type}, {len(image.data or '') * 3 // 4:,} bytes]"
    return {str(image.mime_type): image.data or "", "text/plain": size}


def output_html(title: str, data: Mapping[str, Any]) -> str:
    """Draw a display of executed code as HTML: an image, or sanitised markup."""
    for kind in _PICTURES:
        image: object = data.get(kind)
        if isinstance(image, str) and len(image) <= _MAX_PICTURE_CHARACTERS and (shown := markup.picture(kind, image)):
            return shown
    texts = {kind: text for kind, text in data.items() if isinstance(text, str) and len(text) <= _MAX_HTML_CHARACTERS}
    interactive = any(kind.startswith("application/") for kind in data)
    if "text/html" in texts and not interactive and "<script" not in texts["text/html"]:
        return markup.page(markup.element("div", texts["text/html"], "shown", "shown"))
    if "text/markdown" in texts:
        return markup.page(markup.element("div", markup.markdown_html(texts["text/markdown"]), "shown", "shown"))
    if "text/plain" in texts and not interactive and "text/html" not in texts:
        return markup.page(markup.element("div", markup.preformatted(texts["text/plain"], "output"), "inner", "shown"))
    text = f"{title}: it can be shown in a cell only. Run the code there to see it."
    return markup.page(markup.element("div", markup.escape(text), "quiet", "notice"))


def answer(text: str) -> MimeBundle:
    """Draw a piece of an answer, which is Markdown."""
    return {
        "text/html": answer_html(text),
        "text/markdown": markdown.rendition(text),
        "text/plain": markup.plain(text),
    }


def thinking(text: str, *, growing: bool = False) -> MimeBundle:
    """Draw a model's reasoning.

    Args:
        growing: Whether more will come: its end is shown then, and the whole is folded away afterwards.
    """
    if not growing:
        return folded("Thinking", text)
    shown = ("… " if len(text) > _THINKING_TAIL else "") + text[-_THINKING_TAIL:]
    return folded(f"Thinking … ({len(text):,} characters)", shown, opened=True)


def user_message(text: str, images: Sequence[ImageContent] = ()) -> MimeBundle:
    """Draw a message of the user, word for word.

    Args:
        images: The images that went with it, which are counted.
    """
    text = markup.cut(text)
    if images:
        text = f"{text}\n[{len(images)} image{'s' if len(images) > 1 else ''}]".lstrip("\n")
    return {
        "text/html": markup.page(markup.element("div", markup.escape(text), "said", "said")),
        "text/markdown": "\n".join(f"> {row}" if row else ">" for row in markdown.literal_lines(text)),
        "text/plain": "\n".join(f"> {row}".rstrip() for row in markup.plain(text).split("\n")),
    }


def panel_message(text: str, images: Sequence[ImageContent], sent_at: int) -> str:
    """Draw a message of the user for a panel: with small pictures of its images, and when it was sent.

    Args:
        sent_at: In milliseconds since 1970.
    """
    small = [thumbnail(image, _THUMBNAIL_PIXELS) for image in images]
    drawn = "".join(markup.picture("image/png", image.data or "") for image in small if image is not None)
    left = sum(image is None for image in small)
    note = f"\n[{left} image{'s' if left > 1 else ''}]" if left else ""
    inner = markup.page(markup.escape(f"{markup.cut(text)}{note}".lstrip("\n")))
    if drawn:
        inner += f"<div>{drawn.replace('image of a tool', 'image of yours')}</div>"
    message = markup.element("div", inner, "said", "said")
    with suppress(ValueError, OverflowError, OSError):  # a time that a file holds
        at = datetime.fromtimestamp(sent_at / 1000).astimezone()
        return f'<div title="{at:%Y-%m-%d %H:%M}">{message}</div>'
    return message


def folded(title: str, text: str, *, opened: bool = False) -> MimeBundle:
    """Draw Markdown that is folded away."""
    shown = markup.cut(text, lines=400, characters=20_000)
    body = markup.element("div", markup.markdown_html(shown), "thinking")
    details = unfolding(markup.element("summary", markup.escape(title), "head"), body, opened=opened)
    return {
        "text/html": markup.page(markup.element("div", details, "card", "thinking")),
        "text/markdown": f"> *{markdown.literal(title)}*\n>\n{markdown.rendition(shown, quoted=True)}".rstrip("\n>"),
        "text/plain": f"{title}\n{indented(markup.plain(shown))}",
    }


def waiting(model: str, seconds: float = 0) -> MimeBundle:
    """Draw the line that is shown until the model's first words."""
    text = f"… waiting for {model}" + (f" · {seconds:.0f} s" if seconds >= 1 else "")
    return _line(text, "waiting")


def notice(text: str) -> MimeBundle:
    """Draw a quiet line."""
    return _line(without_home(text), "notice")


def listing(text: str) -> MimeBundle:
    """Draw text in columns."""
    text = without_home(text)
    return {
        "text/html": markup.page(markup.element("div", markup.preformatted(text, "listing"), "card", "notice")),
        "text/markdown": markdown.fenced(text),
        "text/plain": markup.plain(text),
    }


def table(title: str, rows: Sequence[Sequence[str]]) -> MimeBundle:
    """Draw rows below a sentence.

    Args:
        title: The sentence, which may be empty; what stands between backticks in it is code.
        rows: Cells of text, which may be hostile; as many in each row.
    """
    title = without_home(title)
    shown = [[markup.plain(without_home(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    columns = ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown)
    styles = [*["short-cell"] * (len(widths) - 1), "cell"]  # a line breaks in the last column alone
    drawn = (
        "".join(markup.element("td", markup.escape(cell), style) for cell, style in zip(row, styles, strict=True))
        for row in shown
    )
    body = markup.element("div", f"<table><tbody><tr>{'</tr><tr>'.join(drawn)}</tr></tbody></table>", "shown")
    head = markup.element("div", _with_code(title), "title") if title else ""
    listed = [
        ["", *[""] * (len(widths) - 1)],
        ["---"] * len(widths),
        *[list(map(markdown.literal, row)) for row in shown],
    ]
    return {
        "text/html": markup.page(markup.element("div", head + body, "card", "notice")),
        "text/markdown": "\n".join([markdown.literal(title), "", *(f"| {' | '.join(row)} |" for row in listed)]),
        "text/plain": "\n".join([title, "", *columns]).lstrip("\n"),
    }


def usage(
    model: str, total: Usage, seconds: float, *, conversation: str | None = None, ending: str | None = None
) -> MimeBundle:
    """Draw the closing line of a run.

    Args:
        conversation: The name of the conversation, if it is to be shown.
        ending: How it ended, if that was not well, and remarks.

    >>> usage("m", Usage(input=1200, output=34), 2.5)["text/plain"]
    'm · 1,200 tokens in, 34 out · 2.5 s'
    """
    parts = [model]
    read = total.input + total.cache_read + total.cache_write
    if read or total.output:
        cached = f" ({total.cache_read:,} from cache)" if total.cache_read else ""
        parts.append(f"{read:,} tokens in{cached}, {total.output:,} out")
    if cost := paid(total.cost):
        parts.append(cost)
    parts.append(duration(seconds))
    if conversation:
        parts.append(conversation)
    if ending:
        parts.append(ending)
    return _line(" · ".join(parts), "usage")


def paid(cost: Cost) -> str:
    """Format a cost; empty where nothing was paid.

    >>> paid(Cost(total=0.25)), paid(Cost(unknown=True)), paid(Cost())
    ('$0.2500', 'cost unknown', '')
    """
    if cost.unknown:
        return f"{dollars(cost.total)} and an unknown cost" if cost.total else "cost unknown"
    return dollars(cost.total) if cost.total else ""


def dollars(cost: float) -> str:
    """Format a cost in dollars; a very small one as less than the smallest amount.

    >>> dollars(0.0123), dollars(0.00003)
    ('$0.0123', '< $0.0001')
    """
    return f"${cost:.4f}" if cost >= _LEAST_COST else f"< ${_LEAST_COST:.4f}"


def error(text: str) -> MimeBundle:
    """Draw a box that describes what went wrong."""
    text = markup.cut(without_home(text), lines=60, characters=6_000)
    title = markup.element("span", "✗ Error", "bad")
    return {
        "text/html": markup.page(markup.element("div", f"{title}\n{markup.escape(text)}", "box", "error")),
        "text/markdown": f"**✗ Error**\n\n{markdown.fenced(text)}",
        "text/plain": f"✗ Error\n{indented(markup.plain(text))}",
    }


def _line(text: str, kind: str) -> MimeBundle:
    text = " ".join(markup.plain(markup.cut(text, characters=_MAX_LINE_CHARACTERS)).split())
    return {
        "text/html": markup.page(markup.element("div", _with_code(text), "quiet", kind)),
        "text/markdown": f"*{markdown.literal(text)}*",
        "text/plain": text,
    }


def _with_code(text: str) -> str:
    """Render a line as HTML, with backticks as code."""
    parts = _CODE.split(text)
    return "".join(
        f"<code>{markup.escape(part)}</code>" if at % 2 else markup.escape(part) for at, part in enumerate(parts)
    )
