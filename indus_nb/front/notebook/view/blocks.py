"""The parts of a transcript as MIME bundles: answers, thinking, tool calls, notices and the closing line.

Every bundle holds HTML, Markdown and plain text with the same content, so that a saved notebook can be read in any
viewer, without a kernel and without scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from indus_nb.base.files import without_home
from indus_nb.base.images import thumbnail
from indus_nb.base.messages import Cost, ImageContent, Usage
from indus_nb.base.wire import JsonObject
from indus_nb.core.limits.words import cost_in_words
from indus_nb.render import cards, markup
from indus_nb.render.cards import Call, Steps
from indus_nb.render.live import LiveLookup, expressions_in
from indus_nb.render.nodes import Box, CodeBlock, FailureText, Fold, Grid, Node, Passage, Quotation, Sentence, Written
from indus_nb.render.writers import MimeBundle, as_html, bundle

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
        return as_html(Box("shown", "shown", Passage(texts["text/markdown"])))
    if "text/plain" in texts and not interactive and "text/html" not in texts:
        return as_html(Box("inner", "shown", CodeBlock(texts["text/plain"])))
    return as_html(_line(f"{title}: it can be shown in a cell only. Run the code there to see it.", "notice"))


def preview(title: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Label a table or an image of code that was only tried; what draws itself stays as it is."""
    html: object = data.get("text/html")
    if any(kind.startswith("application/") for kind in data):
        return data
    if not isinstance(html, str):
        if not any(kind in data for kind in _PICTURES):
            return data
        html = output_html(title, data)
    label = notice(f"{cards.PREVIEW.capitalize()}:")
    return {
        "text/html": label["text/html"] + html,
        "text/plain": f"{label['text/plain']}\n{data.get('text/plain', '')}",
    }


def call(shown: Call) -> MimeBundle:
    """Draw the card of a tool call."""
    return bundle(cards.card(shown))


def steps(amount: Steps, bundles: Sequence[MimeBundle]) -> MimeBundle:
    """Fold calls that follow each other, and are drawn, into one line."""
    return bundle(cards.steps(amount, [*map(Written, bundles)]))


def answer(text: str, live: LiveLookup | None = None) -> MimeBundle:
    """Draw a piece of an answer, which is Markdown.

    Args:
        live: Values for the expressions in it; ``None`` leaves them as code.
    """
    return bundle(cards.answer(text, live))


def answer_html(text: str, live: LiveLookup | None = None) -> str:
    """Draw a piece of an answer, where nothing but HTML is needed."""
    return as_html(cards.answer(text, live))


def answer_values(text: str, live: LiveLookup) -> list[JsonObject]:
    """Return the expressions whose values a piece of an answer shows, for its metadata."""
    found = {source: live(source) for source in expressions_in(markup.markdown_tokens(text))}
    return [value.to_json(source) for source, value in found.items() if value is not None]


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
    return bundle(Box("said", "said", Quotation(text)))


def panel_message(text: str, images: Sequence[ImageContent], sent_at: int) -> str:
    """Draw a message of the user for a panel: with small pictures of its images, and when it was sent.

    Args:
        sent_at: In milliseconds since 1970.
    """
    small = [thumbnail(image, _THUMBNAIL_PIXELS) for image in images]
    pictures = (markup.picture("image/png", image.data or "", "image of yours") for image in small if image is not None)
    drawn = "".join(pictures)
    left = sum(image is None for image in small)
    note = f"\n[{left} image{'s' if left > 1 else ''}]" if left else ""
    inner = markup.page(markup.escape(f"{markup.cut(text)}{note}".lstrip("\n")))
    if drawn:
        inner += f"<div>{drawn}</div>"
    message = markup.element("div", inner, "said", "said")
    with suppress(ValueError, OverflowError, OSError):  # a time that a file holds
        at = datetime.fromtimestamp(sent_at / 1000).astimezone()
        return f'<div title="{at:%Y-%m-%d %H:%M}">{message}</div>'
    return message


def folded(title: str, text: str, *, opened: bool = False) -> MimeBundle:
    """Draw Markdown that is folded away."""
    shown = markup.cut(text, lines=400, characters=20_000)
    inner = Box("thinking", None, Passage(shown))
    return bundle(Box("card", "thinking", Fold(Sentence(title), [inner], opened, elsewhere="quoted")))


def waiting(model: str, seconds: float = 0) -> MimeBundle:
    """Draw the line that is shown until the model's first words."""
    text = f"… waiting for {model}" + (f" · {seconds:.0f} s" if seconds >= 1 else "")
    return bundle(_line(text, "waiting"))


def notice(text: str) -> MimeBundle:
    """Draw a quiet line."""
    return bundle(_line(without_home(text), "notice"))


def hint(text: str) -> MimeBundle:
    """Draw a quiet line about what the front-end extension has buttons for: where it draws them, the line is hidden."""
    return bundle(_line(text, "hint"))


def listing(text: str) -> MimeBundle:
    """Draw text in columns."""
    return bundle(Box("card", "notice", CodeBlock(without_home(text), "listing")))


def table(title: str, rows: Sequence[Sequence[str]]) -> MimeBundle:
    """Draw rows below a sentence.

    Args:
        title: The sentence, which may be empty; what stands between backticks in it is code.
        rows: Cells of text, which may be hostile; as many in each row. Without any the sentence stands alone.
    """
    if not rows:
        return notice(title)
    cells = [[without_home(cell) for cell in row] for row in rows]
    return bundle(Box("card", "notice", Grid(without_home(title), cells)))


def measures(total: Usage, seconds: float | None) -> str:
    """Return what a run took, which is another with each run; without the seconds where they are not known.

    >>> measures(Usage(input=1200, output=34), 2.5)
    '1,200 tokens in, 34 out · 2.5 s'
    """
    read = total.input + total.cache_read + total.cache_write
    cached = f" ({total.cache_read:,} from cache)" if total.cache_read else ""
    tokens = f"{read:,} tokens in{cached}, {total.output:,} out" if read or total.output else ""
    return " · ".join(filter(None, (tokens, paid(total.cost), "" if seconds is None else cards.duration(seconds))))


def usage(*parts: str | None) -> MimeBundle:
    """Draw the closing line of a run.

    Args:
        parts: The model, what it took, the conversation's name, how it ended, remarks; empty ones are left out.
    """
    return bundle(_line(" · ".join(filter(None, parts)), "usage"))


def paid(cost: Cost) -> str:
    """Format a cost; empty where nothing was paid.

    >>> paid(Cost(total=0.25)), paid(Cost(unknown=True)), paid(Cost())
    ('$0.2500', 'cost unknown', '')
    >>> paid(Cost(total=0.0014, unconfirmed=0.39))
    'at least $0.0014'
    >>> paid(Cost(replayed=True, before=0.25))
    '$0.0000 now, $0.2500 before'
    """
    if cost.before:
        return cost_in_words(cost.total + cost.before, unpriced=bool(cost.unknown), before=cost.before)
    if cost.unknown or (cost.unconfirmed and not cost.total):
        return f"{dollars(cost.total)} and an unknown cost" if cost.total else "cost unknown"
    return f"{'at least ' * bool(cost.unconfirmed)}{dollars(cost.total)}" if cost.total else ""


def dollars(cost: float) -> str:
    """Format a cost in dollars; a very small one as less than the smallest amount.

    >>> dollars(0.0123), dollars(0.00003)
    ('$0.0123', '< $0.0001')
    """
    return f"${cost:.4f}" if cost >= _LEAST_COST else f"< ${_LEAST_COST:.4f}"


def error(text: str) -> MimeBundle:
    """Draw a box that describes what went wrong."""
    text = markup.cut(without_home(text), lines=60, characters=6_000)
    return bundle(Box("box", "error", FailureText(text)))


def _line(text: str, kind: str) -> Node:
    text = " ".join(markup.plain(markup.cut(text, characters=_MAX_LINE_CHARACTERS)).split())
    return Box("quiet", kind, Sentence(text))
