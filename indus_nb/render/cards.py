"""Tool calls as cards, for notebooks and exported pages.

A card that is finished folds to a line with its outcome, and several that follow each other fold into one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.messages import ToolCall
from indus_nb.base.wire import JsonObject
from indus_nb.render import markdown, markup
from indus_nb.tools.description import CallDescription, describe_call, title_of
from indus_nb.tools.todo import TodoList

MimeBundle: TypeAlias = dict[str, str]
CallState = Literal["writing", "waiting", "running", "done", "failed", "not run"]

_OUTPUT_TAIL = 4_000
_OPEN_LINES = 20
_NOTABLE = 0.1
_REMEDY = re.compile(r" \(%agent undo[^)]*\)")
"""The part of the words below a card that its one line does without."""
_MAX_RESULT_CHARACTERS = 100
_MAX_SHOWN_TITLES = 3
_MAX_REMARK_CHARACTERS = 300
_WHERE = {"copy": "in a copy", "read-only": "read-only"}
"""Words for where a call without effects ran, by the details of its result."""
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
        arguments: Its arguments, once they are complete.
        written: The characters of arguments that have arrived, while they do.
        state: The state of the call in its life cycle.
        asked: Whether the user is asked about it, after a trial of which it has reported.
        shows: The titles of what it shows outside of its output, such as tables.
        ran: The place of a call without effects, in a word or three; empty if it could have some.
        diff: Its changes of a file, shown in the place of arguments and output.
        outcome: Its outcome in words for people, shown in the place of its output.
        interrupted: The reason why it ended early, in a word or two; its output ends with a sentence about that.
        checklist: The task list that it changed, shown in their place.
        described: The tool's description of it; without that its name and arguments describe it.
        folded: Whether it is shown as one line until the user opens it.
        whole: Whether nothing is left out of what is long.
    """

    name: str
    arguments: JsonObject
    described: CallDescription | None = None
    written: int = 0
    state: CallState = "writing"
    begun: bool = False
    asked: bool = False
    output: str = ""
    shows: Sequence[str] = ()
    changed: str = ""
    ran: str = ""
    diff: str | None = None
    outcome: str = ""
    interrupted: str = ""
    checklist: TodoList | None = None
    seconds: float | None = None
    folded: bool = False
    whole: bool = False

    def steps(self) -> Steps:
        """Return its counts for a row of calls."""
        return Steps(1, int(self.state == "failed"), int(self.state == "not run"), self.seconds or 0)

    def cut(self, text: str, *, lines: int = 120, characters: int = 12_000) -> str:
        """Shorten a text to what the card shows.

        Args:
            lines: The most lines, unless it is shown whole.
            characters: The most characters of these.
        """
        return text if self.whole else markup.cut(text, lines=lines, characters=characters)


@dataclass(frozen=True)
class Steps:
    """Summary of calls that follow each other."""

    count: int = 0
    failed: int = 0
    not_run: int = 0
    seconds: float = 0

    def __add__(self, other: Steps) -> Steps:
        """Add up two rows of calls."""
        return Steps(
            self.count + other.count,
            self.failed + other.failed,
            self.not_run + other.not_run,
            self.seconds + other.seconds,
        )

    def title(self) -> str:
        """Describe the calls in a few words.

        >>> Steps(14, failed=1, seconds=9.06).title()
        '14 steps · 1 failed · 9.1 s'
        """
        parts = [textcut.counted(self.count, "step")]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.not_run} not run"] if self.not_run else []
        parts += [duration(self.seconds)] if self.seconds >= _NOTABLE else []
        return " · ".join(parts)


def call(shown: Call) -> MimeBundle:
    """Draw the card of a tool call.

    It has the name, the arguments, and the output or the end of that so far; a folded one has its outcome.
    """
    icon, icon_style = _ICONS[shown.state]
    described = shown.described or describe_call(shown.name, shown.arguments)
    code = shown.cut((described.code or "").strip("\n"))
    arguments = _details(shown, described)
    written = shown.cut(described.text.rstrip("\n"))
    if _may_be_asked_about(shown, described):
        code = arguments = written = ""  # a dialog below shows them
    if shown.diff is not None:
        written = ""
    output = _output(shown)
    below = f"{shown.outcome}\n{shown.changed}"
    changed = [row for row in markup.cut(markup.plain(below)).split("\n") if row]
    aside = _aside(shown)
    name = " ".join(markup.cut(shown.name, characters=100).split())
    lines = sum(text.count("\n") for text in (code, arguments, output, written))
    is_change = shown.diff is not None or shown.checklist is not None
    opened = not shown.folded and (shown.state != "done" or is_change or lines < _OPEN_LINES)

    main = described.summary
    head = [markup.element("span", icon, icon_style), " ", markup.element("b", markup.escape(name))]
    if line := main or ("" if opened else title_of(code or _longer_text(described))):
        head += [" ", markup.element("code", markup.escape(line), "command")]
    if not opened and (result := _result(shown)):
        head.append(markup.element("span", f" · {markup.escape(result)}", "result"))
    if aside:
        head.insert(0, markup.element("span", markup.escape(aside), "aside"))
    body = markup.element("div", markup.highlighted(code, "python", "output"), kind="code") if code else ""
    body += markup.preformatted(arguments, "arguments") if arguments else ""
    body += markup.highlighted(written, _language(described), "output") if written else ""
    if shown.diff is not None:
        body += markup.coloured_diff(shown.cut(shown.diff), _language(described))
    elif output:
        body += markup.preformatted(output, "failed-output" if shown.state == "failed" else "output")
    body += markup.element("div", "<br>".join(map(markup.escape, changed)), "changed") if changed else ""
    summary = markup.element("summary", "".join(head), "head")
    card = unfolding(summary, body, opened=opened) if body else markup.element("div", "".join(head), "head")

    shown_output = shown.cut(shown.diff) if shown.diff is not None else output
    title = f"{icon} **{markdown.literal(name)}**" + (f" {markdown.code_span(main)}" if main else "")
    parts = [title + (f" · {aside}" if aside else "")]
    parts += [markdown.fenced(code, "python")] if code else []
    parts += [markdown.fenced(arguments)] if arguments else []
    parts += [markdown.fenced(written, _language(described))] if written else []
    if shown.checklist is not None:
        parts.append(_task_list(shown.checklist))
    elif shown_output:
        parts.append(markdown.fenced(shown_output, "text" if shown.diff is None else "diff"))
    parts += [f"*{markdown.literal(row)}*" for row in changed]
    rows = [
        f"{icon} {markup.plain(name)}" + (f"  {markup.plain(main)}" if main else "") + (f"  ({aside})" if aside else "")
    ]
    rows += [indented(markup.plain(text)) for text in (code, arguments, written, shown_output, *changed) if text]
    return {
        "text/html": markup.page(markup.element("div", card, "card", "call")),
        "text/markdown": "\n\n".join(parts),
        "text/plain": "\n".join(rows),
    }


def steps(amount: Steps, bundles: Iterable[MimeBundle]) -> MimeBundle:
    """Fold calls that follow each other into one line.

    Returns:
        HTML, in which they are folded away, Markdown and plain text.
    """
    kept = list(bundles)
    summary = markup.element("summary", markup.escape(amount.title()), "head")
    html = unfolding(summary, "".join(bundle["text/html"] for bundle in kept), opened=False)
    return {
        "text/html": markup.page(markup.element("div", html, "steps", "steps")),
        "text/markdown": "\n\n".join([f"*{amount.title()}*", *(bundle["text/markdown"] for bundle in kept)]),
        "text/plain": "\n".join([amount.title(), *(bundle["text/plain"] for bundle in kept)]),
    }


def answer_html(text: str) -> str:
    """Draw a piece of an answer, where nothing but HTML is needed."""
    return markup.page(markup.element("div", markup.markdown_html(text), "answer", "answer"))


def is_remark(text: str) -> bool:
    """Return whether a text of the model's may stand between two calls of a row: it is a sentence or two."""
    text = text.strip()
    return len(text) <= _MAX_REMARK_CHARACTERS and "\n\n" not in text


def arguments_of(call: ToolCall) -> JsonObject:
    """Return the arguments of a call, or what came in their place."""
    return call.arguments if call.malformed is None else {"arguments (not JSON)": call.malformed}


def told_by(details: object) -> JsonObject:
    """Return the details of a result, which come from tools, if they are an object."""
    return cast("JsonObject", details) if isinstance(details, dict) else {}


def diff_of(details: object) -> str | None:
    """Return the diff that a call reports for a file, if any."""
    diff = told_by(details).get("diff")
    return diff if isinstance(diff, str) else None


def outcome_of(details: object) -> str:
    """Describe the outcome of a call for people, in the place of what the model reads; empty if unknown."""
    outcome = told_by(details).get("outcomeInWords")
    return outcome if isinstance(outcome, str) else ""


def interrupted(details: object) -> str:
    """Describe in a word or two what ended a call before its time; empty if nothing did."""
    ended_by = told_by(details).get("interrupted")
    return ended_by if isinstance(ended_by, str) else ""


def ran_in(details: object) -> str:
    """Describe for people where a call without effects ran; empty if it could have some."""
    ran = told_by(details).get("ran")
    return _WHERE.get(ran, "") if isinstance(ran, str) else ""


def changed(details: object, *, remedy: str = "") -> str:
    """Describe the changes that a call reports, which the model does not see.

    A difference, where there is one, says it better.

    Returns:
        Lines for the user.
    """
    line, problem, unseen = map(told_by(details).get, ("changed", "notUndoable", "notInPreview"))
    shows_difference = diff_of(details) is not None and not outcome_of(details)
    lines = [f"\N{WARNING SIGN} {unseen}"] if isinstance(unseen, str) and unseen else []
    lines += [f"Changed: {line}{remedy}"] if isinstance(line, str) and line and not shows_difference else []
    lines += [f"This call cannot be undone ({problem})"] if isinstance(problem, str) and problem else []
    return "\n".join(lines)


def goes_on(details: object) -> tuple[str, str] | None:
    """Return the last lines of a call that goes on as a job, and its handle, if its result has them."""
    job = told_by(told_by(details).get("job"))
    lines, handle = job.get("lastLines"), job.get("id")
    return (lines, handle) if isinstance(lines, str) and isinstance(handle, str) else None


def unfolding(summary: str, body: str, *, opened: bool) -> str:
    """Return HTML that the user can fold.

    Args:
        body: HTML that is shown when it is unfolded.
    """
    return f"<details{' open' if opened else ''}>{summary}{body}</details>"


def indented(text: str) -> str:
    """Return the text with two spaces before each of its lines."""
    return "\n".join(f"  {row}".rstrip() for row in text.split("\n"))


def duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{seconds:.1f} s"


def _details(shown: Call, described: CallDescription) -> str:
    """Return the arguments that nothing else shows, one below the other."""
    if shown.checklist is not None or shown.diff is not None:
        return ""  # which shows better what was done
    rows: list[str] = []
    for key, value in described.details.items():
        if not isinstance(value, str):
            rows.append(f"{key}: {json.dumps(value, ensure_ascii=False, default=str)}")
        elif "\n" in value:
            rows += [f"{key}:", indented(value.rstrip("\n"))]
        else:
            rows.append(f"{key}: {value}")
    return shown.cut("\n".join(rows), lines=60, characters=6_000)


def _language(described: CallDescription) -> str:
    """Return the language of the text that a call writes, by the name of its file."""
    return PurePath(described.summary).suffix.lstrip(".") or "python"


def _may_be_asked_about(shown: Call, described: CallDescription) -> bool:
    """Return whether the user may still be asked about the call."""
    is_open = shown.state in ("waiting", "running") and (shown.asked or not shown.begun)
    return described.announces_start and is_open


def _task_list(todos: TodoList) -> str:
    """Return the list as Markdown: viewers draw boxes for brackets."""
    rows: list[str] = []
    for phase in todos.phases:
        rows += [f"{markdown.literal(phase.name)}", ""]
        for task in phase.tasks:
            text = markdown.literal(task.content)
            mark = {"abandoned": "~~", "in_progress": "**"}.get(task.status, "")
            rows.append(f"- [{' ' if task.is_open else 'x'}] {mark}{text}{mark}")
        rows.append("")
    return "\n".join(rows).rstrip()


def _output(shown: Call) -> str:
    if shown.outcome:
        return ""
    if shown.checklist is not None:
        return markup.plain(shown.checklist.checklist())
    if shown.state != "running":
        return shown.cut(markup.plain(shown.output).rstrip())
    end = markup.plain(shown.output[-_OUTPUT_TAIL:]).rstrip()
    return "\n".join(end.split("\n")[-_OPEN_LINES:])


def _longer_text(described: CallDescription) -> str:
    """Return the first argument of several lines, such as a command: it has no place in the title as a whole."""
    texts = (value for value in described.details.values() if isinstance(value, str) and "\n" in value)
    return next(texts, "")


def _result(shown: Call) -> str:
    """Describe the result of a finished call in a few words."""
    if shown.outcome:
        return textcut.one_line(markup.plain(shown.outcome), _MAX_RESULT_CHARACTERS)
    if shown.state == "failed":
        rows = [row for row in markup.plain(shown.output).split("\n") if row.strip()]
        last = [*rows[-2:-1], markup.plain(shown.interrupted)] if shown.interrupted else rows[-1:]
        return " · ".join(textcut.one_line(row, _MAX_RESULT_CHARACTERS) for row in last)
    if shown.state != "done":
        return ""
    if shown.checklist is not None:
        return shown.checklist.summary
    if shown.diff is not None:
        rows = shown.diff.split("\n")
        return " ".join(
            f"{name}{sum(row.startswith(sign) for row in rows)}" for sign, name in (("+", "+"), ("-", "\u2212"))
        )
    titles = {*(f"↓ {title}" for title in shown.shows), *(["(no output)"] if shown.changed else [])}
    rows = [row for row in markup.plain(shown.output).split("\n") if row.strip() and row.strip() not in titles]
    parts = [rows[0] if len(rows) == 1 else f"{len(rows):,} lines"] if rows else []
    if len(shown.shows) > _MAX_SHOWN_TITLES:
        parts.append(f"{len(shown.shows)} outputs")
    else:
        parts += shown.shows
    parts += [_REMEDY.sub("", shown.changed)] if shown.changed else []
    return textcut.one_line(" · ".join(parts), _MAX_RESULT_CHARACTERS)


def _aside(shown: Call) -> str:
    match shown.state:
        case "writing":
            return f"{shown.written:,} characters …" if shown.written else ""
        case "waiting" | "not run":
            return shown.state
        case "running" | "done" | "failed":
            is_notable = shown.seconds is not None and shown.seconds >= _NOTABLE
            return " · ".join(filter(None, (shown.ran, duration(shown.seconds or 0) if is_notable else "")))
