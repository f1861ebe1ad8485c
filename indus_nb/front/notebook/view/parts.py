"""Blocks of a transcript: texts of the model, cards of calls, and lines that are complete from the beginning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from indus_nb.base.events import SessionSaveFailed, TodoReminder, TtsrTriggered
from indus_nb.base.messages import ImageContent, TextContent
from indus_nb.base.wire import JsonObject, dump
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.changes import undo
from indus_nb.kernel.run.outputs import CallOutputs, Output
from indus_nb.render import cards
from indus_nb.render.live import MARK, LiveLookup, pending
from indus_nb.render.markup import plain
from indus_nb.render.nodes import Node
from indus_nb.render.untraced import Tracing, with_marks
from indus_nb.render.writers import bundle

MAX_FOUND = 200
"""How many numbers of a part of an answer lead to their cards."""


@dataclass
class Block:
    """A part of a transcript.

    ``version`` grows with every change. A ``finished`` one will not change any more, but a card may still fold.
    ``instead`` is shown in its place since its answer was begun again; nothing is, if that is empty.
    """

    key: str
    version: int = 0
    finished: bool = False
    instead: MimeBundle | None = None


@dataclass
class Prose(Block):
    """A text of the model, or its reasoning, in the pieces that were streamed, until it has ``ended``.

    ``live`` has the values of its expressions, or marks while these are not known; ``None`` leaves them as code.
    ``tracing`` looks up where its numbers come from; ``None`` marks none.
    """

    thinking: bool = False
    ended: bool = False
    pieces: list[str] = field(default_factory=list[str])
    live: LiveLookup | None = None
    tracing: Tracing | None = None

    def with_marks(self, text: str) -> str:
        """Return a complete part of the text with marks around numbers that no result shows."""
        return text if self.tracing is None else with_marks(text, self.tracing.untraced_in)

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self.pieces)

    def waits_for_values(self, text: str) -> bool:
        """Return whether a part of the text may have expressions whose values are not known yet."""
        return self.live is pending and MARK in text


@dataclass
class Card(Block):
    """A tool call.

    ``output`` is the latest report; ``started`` is a time of the transcript's clock. ``shows`` is what it shows the
    user in the place of that, if that is another thing than what the model reads. ``drawn`` is the version of ``shows``
    that was drawn, while the call goes on as a job. ``in_panel`` tells whether a panel shows it, ``is_in_row`` whether
    it is folded away into a row of steps.
    """

    call: blocks.Call = field(default_factory=lambda: blocks.Call("", {}))
    call_id: str = ""
    output: Sequence[TextContent | ImageContent] = ()
    started: float | None = None
    shows: CallOutputs | None = None
    drawn: int = 0
    in_panel: bool = False
    is_in_row: bool = False

    def report_place(self, place: str, now: float) -> None:
        """Note where the call runs by its newest report; its time begins anew where it ran in a trial before."""
        call = self.call
        if call.ran and not place:
            self.started = now
        call.begun, call.ran, call.asked = True, place, call.asked and bool(place)

    def follow_job(self, *, last: bool = False) -> bool:
        """Update the card of a call that became a job, for the ``last`` time or not; return whether the job runs."""
        job = None if self.shows is None else self.shows.job
        if self.finished or self.shows is None or job is None:
            return False
        self.version: int = self.version + self.shows.version - self.drawn
        self.drawn = self.shows.version
        self.call.ran = cards.ran_in(job.output.details)  # a trial may have gone before
        if not job.running or last:
            if not job.running:
                self.call.report(job.output.details, remedy=f" ({undo(in_panel=self.in_panel)})")
            self.call.seconds = job.seconds
            self.call.state = "failed" if job.state in ("failed", "stopped") else "went on" if job.running else "done"
            self.finished = True
        return job.running

    def show_result(self, content: Sequence[TextContent | ImageContent], details: object, *, stored: bool) -> None:
        """Show the result of the call; of one that became a job, the part for the user.

        Args:
            stored: Whether the result comes from a stored session.
        """

        def went_on(handle: str) -> str:
            if stored:
                return f"It went on as {handle}."
            if self.shows is not None and not self.in_panel:  # the cell may end before, and then stays as it is
                holds_kernel = self.shows.job is not None and not self.shows.job.in_background
                wait = "Cells wait for its end, then " if holds_kernel else ""
                return f"It went on as {handle}. {wait}%agent jobs says what came of it."
            stops = f" %agent jobs stop {handle.removeprefix('job-')} stops it." if self.shows is None else ""
            return f"It goes on as {handle}.{stops}"

        if cards.state_of(details, is_error=True) == "not run":
            self.shows = None  # what its trial has printed did not happen here
        job = self.call.report(details, remedy=f" ({undo(in_panel=self.in_panel)})", went_on=went_on)
        self.output = cards.for_user(content, details) if job is None else [TextContent(text=job)]

    @property
    def outputs(self) -> Sequence[Output]:
        """Return the outputs of the call, which are shown below the card."""
        return self.shows.outputs if self.shows is not None else ()

    def drawn_now(self) -> Node:
        """Draw the card in its current state."""
        shown = None if self.shows is None else self.shows.text
        self.call.output = "\n".join(_as_text(block) for block in self.output) if shown is None else shown
        self.call.shows = [output.title for output in self.outputs]
        return cards.card(self.call)

    def bundle(self) -> MimeBundle:
        """Write the card in its current state, in all forms."""
        return bundle(self.drawn_now())

    def pictures(self) -> list[ImageContent]:
        """Return the images among the output that can be shown, and are not shown otherwise."""
        if self.shows is not None:
            return []
        images = [block for block in self.output if isinstance(block, ImageContent)]
        return [image for image in images if blocks.can_show(image)]


@dataclass
class Line(Block):
    """A block that is complete from the beginning.

    It is a notice, an error, or a message that is not the model's. ``in_panel`` is HTML for the place of what is shown.
    ``unsaved`` is shown in its place where no file keeps it. One that repeats what a ``card`` says is shown only if
    that is folded away into a row.
    """

    shown: MimeBundle = field(default_factory=dict[str, str])
    unsaved: MimeBundle | None = None
    in_panel: str = ""
    is_notice: bool = False
    card: Card | None = None


def drawn_bundle(drawn: object, text: str) -> MimeBundle | None:
    """Validate the bundle that an extension drew.

    Args:
        text: The plain text, if the bundle has none.

    Returns:
        The MIME bundle; ``None`` if it is none.
    """
    if not isinstance(drawn, dict):
        return None
    try:
        bundle: JsonObject = {"text/plain": plain(text), **json.loads(dump(cast("JsonObject", drawn)))}
    except (TypeError, ValueError):
        return None
    whole = all(isinstance(data, str) for kind, data in bundle.items() if kind.startswith("text/"))
    return cast("MimeBundle", bundle) if whole else None


def notice_of(event: TodoReminder | TtsrTriggered | SessionSaveFailed) -> str:
    """Return the notice that an event is shown as."""
    match event:
        case TodoReminder():
            count = len(event.todos)
            tasks = "1 task is open" if count == 1 else f"{count} tasks are open"
            return f"{tasks}: the model is reminded ({event.attempt} of {event.max_attempts})."
        case TtsrTriggered():
            names = ", ".join(str(rule.get("name")) for rule in event.rules)
            return f"The answer was stopped by a rule ({names}). Asking again …"
        case SessionSaveFailed():
            return f"Not saved: {event.error}"


def images_of(content: object) -> list[ImageContent]:
    """Return the images among the content of a message."""
    if not isinstance(content, list):
        return []
    return [block for block in cast("list[object]", content) if isinstance(block, ImageContent)]


def _as_text(block: TextContent | ImageContent) -> str:
    if isinstance(block, TextContent):
        return block.text
    if blocks.can_show(block):
        return ""
    where = block.source.url if block.source else f"{len(block.data or '') * 3 // 4:,} bytes"
    return f"[image: {block.mime_type or 'from the web'}, {where}]"
