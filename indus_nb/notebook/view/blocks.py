"""The parts of a transcript as MIME bundles: answers, thinking, tool calls, notices and the closing line.

Every bundle holds HTML, Markdown and plain text with the same content, so that a saved notebook can be read in any
viewer, without a kernel and without scripts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from indus_nb.messages import ImageContent, Usage
from indus_nb.render import markup
from indus_nb.tools.description import CallDescription, describe_call
from indus_nb.tools.todo import TodoList
from indus_nb.wire import JsonObject

MimeBundle: TypeAlias = dict[str, str]
CallState = Literal["writing", "waiting", "running", "done", "failed", "not run"]

OTHER_BRANCH = (
    "The conversation went to another branch, and the kernel did not: its variables are what the cells and tools that "
    "ran last have made of them."
)
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MAX_PICTURE_CHARACTERS = 2 * 1024 * 1024
_THINKING_TAIL = 1_000
_OUTPUT_TAIL = 4_000
_OPEN_LINES = 20
_NOTABLE = 0.1
_MAX_LINE_CHARACTERS = 4_000
_ICONS: dict[CallState, tuple[str, str]] = {
    "writing": ("…", "busy"),
    "waiting": ("…", "busy"),
    "running": ("●", "busy"),
    "done": ("✓", "good"),
    "failed": ("✗", "bad"),
    "not run": ("\u2013", "quiet"),
}


@dataclass
class Call:
    """A tool call as far as it is known: what was asked for, and its outcome.

    Attributes:
        name: The tool.
        arguments: Its arguments, once they are complete.
        written: How many characters of arguments have arrived, while they do.
        state: Where the call is in its life cycle.
        begun: Whether it has reported something.
        output: Its output so far.
        diff: What it changed in a file, shown in the place of arguments and output.
        checklist: The task list that it changed, shown in their place.
        seconds: How long it has run so far.
        described: The tool's description of it; without that its name and arguments describe it.
    """

    name: str
    arguments: JsonObject
    described: CallDescription | None = None
    written: int = 0
    state: CallState = "writing"
    begun: bool = False
    output: str = ""
    diff: str | None = None
    checklist: TodoList | None = None
    seconds: float | None = None


def joined(first: MimeBundle, second: MimeBundle) -> MimeBundle:
    """Put two bundles one below the other.

    Args:
        first: A bundle whose values are all text.
        second: Another one with the same kinds of text.

    Returns:
        A bundle of those kinds.
    """
    return {kind: f"{text}\n\n{second[kind]}" for kind, text in first.items()}


def can_show(image: ImageContent) -> bool:
    """Return whether an image of a tool's can be shown.

    It must have its bytes, be of a kind that browsers know, and not be too large.
    """
    data = image.data or ""
    return image.mime_type in _PICTURES and len(data) <= _MAX_PICTURE_CHARACTERS and markup.is_base64(data)


def picture(image: ImageContent) -> MimeBundle:
    """Draw an image that can be shown, as the outputs of cells hold one."""
    size = f"[image: {image.mime_type}, {len(image.data or '') * 3 // 4:,} bytes]"
    return {str(image.mime_type): image.data or "", "text/plain": size}


def answer_html(text: str) -> str:
    """Draw a piece of an answer, where nothing but HTML is needed."""
    return markup.page(markup.element("div", markup.markdown_html(text), "answer", "answer"))


def answer(text: str) -> MimeBundle:
    """Draw a piece of an answer, which is Markdown."""
    return {
        "text/html": answer_html(text),
        "text/markdown": markup.tame_markdown(text),
        "text/plain": markup.plain(text),
    }


def thinking(text: str, *, growing: bool = False) -> MimeBundle:
    """Draw a model's reasoning.

    Args:
        text: All of it so far.
        growing: Whether more will come: its end is shown then, and the whole is folded away afterwards.

    Returns:
        HTML, Markdown and plain text.
    """
    if not growing:
        return folded("Thinking", text)
    shown = ("… " if len(text) > _THINKING_TAIL else "") + text[-_THINKING_TAIL:]
    return folded(f"Thinking … ({len(text):,} characters)", shown, opened=True)


def call(shown: Call) -> MimeBundle:
    """Draw the card of a tool call.

    It has the name, the arguments, and the output or the end of that so far.
    """
    icon, icon_style = _ICONS[shown.state]
    described = shown.described or describe_call(shown.name, shown.arguments)
    code = markup.cut((described.code or "").strip("\n"))
    main, arguments = _main_and_others(shown, described)
    if _may_be_asked_about(shown, described):
        code = arguments = ""  # a dialog below shows them
    output = _output(shown)
    aside = _aside(shown)
    name = " ".join(markup.cut(shown.name, characters=100).split())

    head = [markup.element("span", icon, icon_style), " ", markup.element("b", markup.escape(name))]
    if main:
        head += [" ", markup.element("code", markup.escape(main), "command")]
    if aside:
        head.insert(0, markup.element("span", markup.escape(aside), "aside"))
    body = markup.element("div", markup.highlighted(code, "python"), "inner", "code") if code else ""
    body += markup.preformatted(arguments, "arguments") if arguments else ""
    if shown.diff is not None:
        body += markup.coloured_diff(markup.cut(shown.diff))
    elif output:
        body += markup.preformatted(output, "failed-output" if shown.state == "failed" else "output")
    summary = markup.element("summary", "".join(head), "head")
    lines = sum(text.count("\n") for text in (code, arguments, output))
    is_change = shown.diff is not None or shown.checklist is not None
    opened = shown.state != "done" or is_change or lines < _OPEN_LINES
    card = _folded(summary, body, opened=opened) if body else markup.element("div", "".join(head), "head")

    shown_output = markup.cut(shown.diff) if shown.diff is not None else output
    # A backtick there and one among the arguments would be the ends of one code span.
    title = f"{icon} **{markup.tame_line(name.replace('`', chr(39)))}**" + (
        f" {markup.code_span(main)}" if main else ""
    )
    parts = [title + (f" · {aside}" if aside else "")]
    parts += [markup.fenced(code, "python")] if code else []
    parts += [markup.fenced(arguments)] if arguments else []
    if shown.checklist is not None:
        parts.append(_task_list(shown.checklist))
    elif shown_output:
        parts.append(markup.fenced(shown_output, "text" if shown.diff is None else "diff"))
    rows = [
        f"{icon} {markup.plain(name)}" + (f"  {markup.plain(main)}" if main else "") + (f"  ({aside})" if aside else "")
    ]
    rows += [_indented(markup.plain(text)) for text in (code, arguments, shown_output) if text]
    return {
        "text/html": markup.page(markup.element("div", card, "card", "call")),
        "text/markdown": "\n\n".join(parts),
        "text/plain": "\n".join(rows),
    }


def user_message(text: str, images: Sequence[ImageContent] = ()) -> MimeBundle:
    """Draw a message of the user, word for word.

    Args:
        text: The text.
        images: The images that went with it, which are counted.

    Returns:
        HTML, Markdown and plain text.
    """
    text = markup.cut(text)
    if images:
        text = f"{text}\n[{len(images)} image{'s' if len(images) > 1 else ''}]".lstrip("\n")
    return {
        "text/html": markup.page(markup.element("div", markup.escape(text), "said", "said")),
        "text/markdown": "\n".join(f"> {row}".rstrip() for row in markup.tame_markdown(text).split("\n")),
        "text/plain": "\n".join(f"> {row}".rstrip() for row in markup.plain(text).split("\n")),
    }


def folded(title: str, text: str, *, opened: bool = False) -> MimeBundle:
    """Draw Markdown that is folded away.

    Args:
        title: What is always shown.
        text: The Markdown.
        opened: Whether it is unfolded at first.

    Returns:
        HTML, Markdown and plain text.
    """
    shown = markup.cut(text, lines=400, characters=20_000)
    body = markup.element("div", markup.markdown_html(shown), "thinking")
    details = _folded(markup.element("summary", markup.escape(title), "head"), body, opened=opened)
    quoted = "\n".join(f"> {row}".rstrip() for row in markup.tame_markdown(shown).split("\n"))
    return {
        "text/html": markup.page(markup.element("div", details, "card", "thinking")),
        "text/markdown": f"> *{title}*\n>\n{quoted}",
        "text/plain": f"{title}\n{_indented(markup.plain(shown))}",
    }


def waiting(model: str, seconds: float = 0) -> MimeBundle:
    """Draw the line that is shown until the model's first words.

    Args:
        model: The model's name.
        seconds: How long it has been waited for.

    Returns:
        HTML, Markdown and plain text.
    """
    text = f"… waiting for {model}" + (f" · {seconds:.0f} s" if seconds >= 1 else "")
    return _line(text, "waiting")


def notice(text: str) -> MimeBundle:
    """Draw a quiet line."""
    return _line(text, "notice")


def listing(text: str) -> MimeBundle:
    """Draw text in columns."""
    return {
        "text/html": markup.page(markup.element("div", markup.preformatted(text, "listing"), "card", "notice")),
        "text/markdown": markup.fenced(text),
        "text/plain": markup.plain(text),
    }


def usage(model: str, total: Usage, seconds: float, *, ending: str | None = None) -> MimeBundle:
    """Draw the closing line of a run.

    Args:
        model: The model's name.
        total: Tokens and cost.
        seconds: How long the run took.
        ending: How it ended, if that was not well.

    Returns:
        HTML, Markdown and plain text.

    >>> usage("m", Usage(input=1200, output=34), 2.5)["text/plain"]
    'm · 1,200 tokens in, 34 out · 2.5 s'
    """
    parts = [model]
    read = total.input + total.cache_read + total.cache_write
    if read or total.output:
        cached = f" ({total.cache_read:,} from cache)" if total.cache_read else ""
        parts.append(f"{read:,} tokens in{cached}, {total.output:,} out")
    if total.cost.total:
        parts.append(f"${total.cost.total:.4f}")
    parts.append(_duration(seconds))
    if ending:
        parts.append(ending)
    return _line(" · ".join(parts), "usage")


def error(text: str) -> MimeBundle:
    """Draw a box that describes what went wrong."""
    text = markup.cut(text, lines=60, characters=6_000)
    title = markup.element("span", "✗ Error", "bad")
    return {
        "text/html": markup.page(markup.element("div", f"{title}\n{markup.escape(text)}", "box", "error")),
        "text/markdown": f"**✗ Error**\n\n{markup.fenced(text)}",
        "text/plain": f"✗ Error\n{_indented(markup.plain(text))}",
    }


def _line(text: str, kind: str) -> MimeBundle:
    text = " ".join(markup.plain(markup.cut(text, characters=_MAX_LINE_CHARACTERS)).split())
    return {
        "text/html": markup.page(markup.element("div", markup.escape(text), "quiet", kind)),
        "text/markdown": f"*{markup.tame_line(text)}*",
        "text/plain": text,
    }


def _folded(summary: str, body: str, *, opened: bool) -> str:
    return f"<details{' open' if opened else ''}>{summary}{body}</details>"


def _indented(text: str) -> str:
    return "\n".join(f"  {row}".rstrip() for row in text.split("\n"))


def _main_and_others(shown: Call, described: CallDescription) -> tuple[str, str]:
    """The arguments that the title shows, and the others, one below the other."""
    main = described.summary
    if shown.checklist is not None or shown.diff is not None:
        return main, ""  # which shows better what was done
    rows: list[str] = []
    for key, value in described.details.items():
        if not isinstance(value, str):
            rows.append(f"{key}: {json.dumps(value, ensure_ascii=False, default=str)}")
        elif "\n" in value:
            rows += [f"{key}:", _indented(value.rstrip("\n"))]
        else:
            rows.append(f"{key}: {value}")
    return main, markup.cut("\n".join(rows), lines=60, characters=6_000)


def _may_be_asked_about(shown: Call, described: CallDescription) -> bool:
    """Whether it was not allowed yet, for all that is known."""
    return described.announces_start and shown.state in ("waiting", "running") and not shown.begun


def _task_list(todos: TodoList) -> str:
    """The list as Markdown: viewers draw boxes for brackets."""
    rows: list[str] = []
    for phase in todos.phases:
        rows += [f"{markup.tame_line(phase.name)}", ""]
        for task in phase.tasks:
            text = markup.tame_line(task.content)
            mark = {"abandoned": "~~", "in_progress": "**"}.get(task.status, "")
            rows.append(f"- [{' ' if task.is_open else 'x'}] {mark}{text}{mark}")
        rows.append("")
    return "\n".join(rows).rstrip()


def _output(shown: Call) -> str:
    if shown.checklist is not None:
        return markup.plain(shown.checklist.checklist())
    if shown.state != "running":
        return markup.cut(markup.plain(shown.output).rstrip())
    end = markup.plain(shown.output[-_OUTPUT_TAIL:]).rstrip()
    return "\n".join(end.split("\n")[-_OPEN_LINES:])


def _aside(shown: Call) -> str:
    match shown.state:
        case "writing":
            return f"{shown.written:,} characters …" if shown.written else ""
        case "waiting" | "not run":
            return shown.state
        case "running" | "done" | "failed":
            return _duration(shown.seconds) if shown.seconds is not None and shown.seconds >= _NOTABLE else ""


def _duration(seconds: float) -> str:
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{seconds:.1f} s"
