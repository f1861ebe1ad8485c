"""Tool calls as cards, for notebooks, exported pages and questions.

A card that is finished folds to a line with its outcome, and several that follow each other fold into one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, NamedTuple, cast

from indus_nb.base import textcut
from indus_nb.base.messages import ImageContent, TextContent, ToolCall
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.questions import Question
from indus_nb.render import markup
from indus_nb.render.live import LiveLookup
from indus_nb.render.nodes import Box, CardHead, CodeBlock, DiffBlock, Fold, Node, Passage, Remarks, Sentence, TaskBlock
from indus_nb.tools.description import CallDescription, describe_call, title_of
from indus_nb.tools.todo import TodoList, list_of_result
from indus_nb.tools.tool import NOT_RUN, REFUSED

CallState = Literal["writing", "waiting", "running", "went on", "done", "failed", "refused", "not run"]

_OUTPUT_TAIL = 4_000
_OPEN_LINES = 20
_NOTABLE = 0.1
_REMEDY = re.compile(r" \(%agent undo[^)]*\)")
"""The part of the words below a card that its one line does without."""
_NOTE = re.compile(r"\[[A-Z].*\.\]")
"""A sentence for the model beside what a call has printed."""
_MAX_RESULT_CHARACTERS = 100
_MAX_CHANGED_CHARACTERS = 400
_MAX_SHOWN_TITLES = 3
_MAX_REMARK_CHARACTERS = 300
PREVIEW = "preview, not run yet"
"""What a call shows while the user is asked about it: it comes from a trial."""
_WHERE = {"copy": "in a copy", "read-only": "read-only"}
"""Words for where a call ran, by the details of its result."""
_TAKEN_OVER = "tried in a copy, taken over"
"""Words for where one ran whose changes are those of a copy."""
_ICONS: dict[CallState, tuple[str, str]] = {
    "writing": ("…", "busy"),
    "waiting": ("…", "busy"),
    "running": ("●", "busy"),
    "went on": ("→", "quiet"),
    "done": ("✓", "good"),
    "failed": ("✗", "bad"),
    "refused": ("\u2013", "quiet"),
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
        ran: The place of a call that runs elsewhere at first, in a few words; empty if it runs here.
        diff: Its changes of a file, shown in the place of arguments and output.
        outcome: Its outcome in words for people, shown in the place of its output.
        interrupted: The reason why it ended early, in a word or two; its output ends with a sentence about that.
        checklist: The task list that it changed, shown in their place.
        plan: The steps of the plan that it gave, shown in the place of the whole card.
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
    plan: Sequence[str] = ()
    seconds: float | None = None
    folded: bool = False
    whole: bool = False

    def report(
        self,
        details: object,
        *,
        remedy: str = "",
        went_on: Callable[[str], str] = "It went on as {}.".format,
    ) -> str | None:
        """Take over what the details of a result say for people.

        Args:
            remedy: How to undo the changes, put behind them.
            went_on: Says that the call became the job with this handle.

        Returns:
            Output in the place of what the model reads, if the call became a job.
        """
        told = told_by(details)
        self.diff, self.outcome = _text(told, "diff") or None, _text(told, "outcomeInWords")
        self.interrupted, self.ran = _text(told, "interrupted"), ran_in(details)
        self.checklist = list_of_result(self.name, details)
        self.plan = _texts(told, "plannedSteps")
        self.changed = _changed(told, remedy)
        if (job := _job(told)) is None:
            return None
        handle, lines = job
        self.changed = "\n".join(filter(None, (went_on(handle), self.changed)))
        return lines

    @property
    def is_plan(self) -> bool:
        """Return whether the steps of a plan stand in the place of the card."""
        return bool(self.plan) and self.state == "done"

    def steps(self) -> Steps:
        """Return its counts for a row of calls."""
        failed, refused, not_run = (int(self.state == state) for state in ("failed", "refused", "not run"))
        return Steps(1, failed, refused, not_run, self.seconds or 0)

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
    refused: int = 0
    not_run: int = 0
    seconds: float = 0

    def __add__(self, other: Steps) -> Steps:
        """Add up two rows of calls."""
        return Steps(
            self.count + other.count,
            self.failed + other.failed,
            self.refused + other.refused,
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
        parts += [f"{self.refused} refused"] if self.refused else []
        parts += [f"{self.not_run} not run"] if self.not_run else []
        parts += [duration(self.seconds)] if self.seconds >= _NOTABLE else []
        return " · ".join(parts)


class _Asked(NamedTuple):
    """What a call is about, below its first line: code that runs, arguments, and text that is written."""

    code: str = ""
    arguments: str = ""
    written: str = ""


def card(shown: Call) -> Node:
    """Draw the card of a tool call.

    It has the name, the arguments, and the output or the end of that so far; a folded one has its outcome. In the place
    of a call that gave a plan stand the steps, as if they were said.
    """
    if shown.is_plan:
        return answer(textcut.numbered(shown.plan))
    icon, tone = _ICONS[shown.state]
    described = shown.described or describe_call(shown.name, shown.arguments)
    asked = _asked(shown, described)
    output = _output(shown, described)
    lines = sum(text.count("\n") for text in (*asked, output))
    is_change = shown.diff is not None or shown.checklist is not None
    opened = not shown.folded and (shown.state not in ("done", "went on") or is_change or lines < _OPEN_LINES)
    head = CardHead(
        icon,
        tone,
        " ".join(markup.cut(shown.name, characters=100).split()),
        described.summary,
        hint="" if opened else title_of(asked.code or _longer_text(described)),
        result="" if opened else _result(shown),
        aside=_aside(shown),
    )
    return Box("card", "call", Fold(head, [*_parts(shown, asked, output, _language(described))], opened))


def _parts(shown: Call, asked: _Asked, output: str, language: str) -> Iterator[Node]:
    """Yield what a card has below its first line."""
    if asked.code:
        yield Box(None, "code", CodeBlock(asked.code, language="python"))
    if asked.arguments:
        yield CodeBlock(asked.arguments, "arguments")
    if asked.written:
        yield CodeBlock(asked.written, language=language)
    if shown.diff is not None:
        yield DiffBlock(shown.cut(shown.diff), language)
    elif output:
        style = "failed-output" if shown.state == "failed" else "output"
        yield CodeBlock(output, style) if shown.checklist is None else TaskBlock(shown.checklist)
    below = markup.cut(markup.plain(f"{shown.outcome}\n{shown.changed}"))
    if changed := [row for row in below.split("\n") if row]:
        yield Remarks(changed)


def steps(amount: Steps, cards: Sequence[Node]) -> Node:
    """Fold calls that follow each other into one line."""
    return Box("steps", "steps", Fold(Sentence(amount.title()), cards))


def answer(text: str, live: LiveLookup | None = None) -> Node:
    """Draw a piece of an answer, which is Markdown.

    Args:
        live: Values for the expressions in it; ``None`` leaves them as code.
    """
    return Box("answer", "answer", Passage(text, live))


def asked_about(question: Question) -> Node | None:
    """Draw what a question is about as the finished card will show it; ``None`` if it is in the heading."""
    if question.diff:
        return DiffBlock(question.diff, question.language)
    return CodeBlock(question.body.strip("\n"), "code", question.language) if question.body.strip() else None


def is_remark(text: str) -> bool:
    """Return whether a text of the model's may stand between two calls of a row: it is a sentence or two."""
    text = text.strip()
    return len(text) <= _MAX_REMARK_CHARACTERS and "\n\n" not in text


def arguments_of(call: ToolCall) -> JsonObject:
    """Return the arguments of a call, or what came in their place."""
    return call.arguments if call.malformed is None else {"arguments (not JSON)": call.malformed}


def for_user(content: Sequence[TextContent | ImageContent], details: object) -> list[TextContent | ImageContent]:
    """Return the blocks of a result without the notes that its details name as being for the model alone."""
    notes = _texts(told_by(details), "forModel")
    return [block for block in content if not (isinstance(block, TextContent) and block.text in notes)]


def told_by(details: object) -> JsonObject:
    """Return the details of a result, which come from tools, if they are an object."""
    return cast("JsonObject", details) if isinstance(details, dict) else {}


def state_of(details: object, *, is_error: bool) -> CallState:
    """Return the state of a call that has this result."""
    told = told_by(details)
    if told.get(REFUSED) is True or told.get(NOT_RUN) is True:
        return "refused" if told.get(REFUSED) is True else "not run"
    return "failed" if is_error else "done" if _job(told) is None else "went on"


def _job(told: JsonObject) -> tuple[str, str] | None:
    """Return the handle and the last lines of a call that became a job; ``None`` for one that did not."""
    job = told_by(told.get("job"))
    handle, lines = job.get("id"), job.get("lastLines")
    return (handle, lines) if isinstance(handle, str) and isinstance(lines, str) else None


def ran_in(details: object) -> str:
    """Describe for people where a call ran that ran elsewhere at first; empty if it ran here at once."""
    told = told_by(details)
    ran = _text(told, "ran")
    return _TAKEN_OVER if ran == "copy" and told.get("changed") else _WHERE.get(ran, "")


def _changed(told: JsonObject, remedy: str) -> str:
    """Return lines about the changes that a call reports, which the model does not see.

    A difference, where there is one, says it better.
    """
    line, problem, unseen, not_kept, not_brought = (
        _text(told, key) for key in ("changed", "notUndoable", "notInPreview", "notKept", "notBrought")
    )
    shows_difference = isinstance(told.get("diff"), str) and not _text(told, "outcomeInWords")
    lines = [f"\N{WARNING SIGN} {unseen}"] if unseen else []
    lines += [f"Changed: {line}{remedy}"] if line and not shows_difference else []
    lines += [f"This call cannot be undone ({problem})"] if problem else []
    lines += [f"Not brought back: {not_brought}"] if not_brought else []
    lines += [f"Not kept: {not_kept}. Run the code as a cell of yours to have these"] if not_kept else []
    return "\n".join(lines)


def _text(told: JsonObject, key: str) -> str:
    """Return a text among the details of a result; empty for none, and for anything else."""
    text = told.get(key)
    return text if isinstance(text, str) else ""


def _texts(told: JsonObject, key: str) -> Sequence[str]:
    """Return texts among the details of a result; none for anything else."""
    listed = told.get(key)
    return [each for each in cast("list[object]", listed) if isinstance(each, str)] if isinstance(listed, list) else []


def duration(seconds: float) -> str:
    """Return a time in words."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{seconds:.1f} s"


def _may_ask(shown: Call, described: CallDescription) -> bool:
    """Return whether a dialog may show what a call is about, and what came of its trial."""
    is_open = shown.state in ("waiting", "running") and (shown.asked or not shown.begun)
    return described.announces_start and is_open


def _asked(shown: Call, described: CallDescription) -> _Asked:
    """Return what nothing else shows of what a call is about."""
    if _may_ask(shown, described):
        return _Asked()
    code = shown.cut((described.code or "").strip("\n"))
    written = shown.cut(described.text.rstrip("\n"))
    if shown.diff is not None:
        return _Asked(code)  # which shows better what was done
    return _Asked(code, "" if shown.checklist is not None else _arguments(shown, described), written)


def _arguments(shown: Call, described: CallDescription) -> str:
    """Return the arguments that nothing else shows, one below the other."""
    rows: list[str] = []
    for key, value in described.details.items():
        if not isinstance(value, str):
            rows.append(f"{key}: {json.dumps(value, ensure_ascii=False, default=str)}")
        elif "\n" in value:
            rows += [f"{key}:", *(f"  {row}".rstrip() for row in value.rstrip("\n").split("\n"))]
        else:
            rows.append(f"{key}: {value}")
    return shown.cut("\n".join(rows), lines=60, characters=6_000)


def _language(described: CallDescription) -> str:
    """Return the language of the text that a call writes, by the name of its file."""
    return PurePath(described.summary).suffix.lstrip(".") or "python"


def _output(shown: Call, described: CallDescription) -> str:
    if shown.outcome or (_may_ask(shown, described) and shown.asked):
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
    rows = [row for row in markup.plain(shown.output).split("\n") if row.strip()]
    beside_notes = [row for row in rows if not _NOTE.fullmatch(row.strip())]
    rows = beside_notes if beside_notes or shown.shows else rows
    if shown.state == "failed":
        last = [*rows[-2:-1], markup.plain(shown.interrupted)] if shown.interrupted else rows[-1:]
        # Nobody expects changes of what has failed: how to undo them stands there too.
        changed = textcut.one_line(markup.plain(shown.changed).replace("\n", " · "), _MAX_CHANGED_CHARACTERS)
        return " · ".join(filter(None, (*(textcut.one_line(row, _MAX_RESULT_CHARACTERS) for row in last), changed)))
    if shown.state not in ("done", "went on"):
        return ""
    if shown.checklist is not None:
        return shown.checklist.summary
    if shown.diff is not None:
        signs = [row[:1] for row in shown.diff.split("\n")]
        return f"+{signs.count('+')} \N{MINUS SIGN}{signs.count('-')}"
    there = textcut.one_line(" · ".join(_what_is_there(shown, rows)), _MAX_RESULT_CHARACTERS)
    changed = textcut.one_line(_REMEDY.sub("", shown.changed).replace("\n", " · "), _MAX_CHANGED_CHARACTERS)
    return " · ".join(filter(None, (there, changed)))


def _what_is_there(shown: Call, rows: Sequence[str]) -> Iterator[str]:
    """Yield what a call has printed and shown, each in a few words."""
    titles = {*(f"↓ {title}" for title in shown.shows), *(["(no output)"] if shown.changed else [])}
    printed = [row for row in rows if row.strip() not in titles]
    if printed:
        yield printed[0] if len(printed) == 1 else f"{len(printed):,} lines"
    yield from [f"{len(shown.shows)} outputs"] if len(shown.shows) > _MAX_SHOWN_TITLES else shown.shows


def _aside(shown: Call) -> str:
    match shown.state:
        case "writing":
            return f"{shown.written:,} characters …" if shown.written else ""
        case "waiting" | "refused" | "not run" | "went on":
            return shown.state
        case "running" | "done" | "failed":
            is_notable = shown.seconds is not None and shown.seconds >= _NOTABLE
            place = PREVIEW if shown.asked and shown.state == "running" else shown.ran
            return " · ".join(filter(None, (place, duration(shown.seconds or 0) if is_notable else "")))
