"""Blocks drawn into a widget while they grow.

Only what changed is sent, and of an answer no more than its last paragraph: so the cost follows the length of the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indus_nb.base.messages import Usage
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.parts import MAX_FOUND, Block, Card, Line, Prose
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.render import markup
from indus_nb.render.live import pending
from indus_nb.render.writers import as_html

if TYPE_CHECKING:
    from indus_nb.front.notebook.page.states import RunState
    from indus_nb.front.notebook.page.widget import AgentWidget

_PAUSE_SECONDS = 3
_PACES = ((30_000, 0.4), (10_000, 0.25), (1_000, 0.15), (0, 0.08))
"""Least length of a growing text, in characters, and the seconds between two drawings from there on."""


class LiveDrawing:
    """Drawing of blocks into a widget, where growing text is sent paragraph by paragraph."""

    def __init__(self, live: AgentWidget) -> None:
        self._live = live
        self._drawn: dict[str, _Growing] = {}
        self._cards: dict[str, str] = {}
        """Keys of the cards, by the ids of their calls."""
        self._length = 0

    @property
    def pace(self) -> float:
        """Return the seconds until the next drawing: longer texts are drawn less often."""
        return next(seconds for length, seconds in _PACES if self._length >= length)

    def draw(self, block: Block) -> None:
        """Draw the changes of a block."""
        drawn = self._drawn.setdefault(block.key, _Growing())
        if drawn.version == block.version:
            return
        drawn.version = block.version
        match block:
            case Block(instead=instead) if instead is not None:
                self._forget(block, drawn)
                if instead:
                    self._live.put(block.key, instead["text/html"])
            case Prose(thinking=False):
                self._draw_answer(block, drawn)
            case Prose():
                self._draw_thinking(block, drawn)
            case Card():
                self._cards[block.call_id] = block.key
                shown = "".join(markup.picture(str(image.mime_type), image.data or "") for image in block.pictures())
                if self._live.kind == "panel" or self._live.reloaded:  # where no displays are
                    shown += "".join(blocks.output_html(output.title, output.data) for output in block.outputs)
                self._live.put(block.key, as_html(block.drawn_now()) + shown)
            case Line():
                self._live.put(block.key, block.in_panel or _html(block.unsaved or block.shown))
            case _:
                pass
        self._length = 0 if block.finished else drawn.length

    def drop(self, block: Block) -> None:
        """Remove a block."""
        self._forget(block, self._drawn.pop(block.key, _Growing()))
        if isinstance(block, Card):
            self._cards.pop(block.call_id, None)

    def _forget(self, block: Block, drawn: _Growing) -> None:
        self._live.drop(block.key)
        for number in range(drawn.pieces + 1):
            self._live.drop(f"{block.key}.{number}")

    def _draw_answer(self, block: Prose, drawn: _Growing) -> None:
        live = block.live
        if live is not pending:
            for key, piece in drawn.marked:
                self._put_piece(key, piece, block)
            drawn.marked.clear()
        text = drawn.rest + drawn.read(block)
        whole, drawn.rest = markup.split_answer(text, soft=0)
        while whole:
            if whole.strip():
                key = f"{block.key}.{drawn.pieces}"
                self._put_piece(key, whole, block)
                drawn.marked += [(key, whole)] if block.waits_for_values(whole) else []
                drawn.pieces += 1
            whole, drawn.rest = markup.split_answer(drawn.rest, soft=0)
        if drawn.rest.strip() and block.finished:
            self._put_piece(f"{block.key}.{drawn.pieces}", drawn.rest, block)
        elif drawn.rest.strip():
            self._live.put(f"{block.key}.{drawn.pieces}", blocks.answer_html(drawn.rest, live))

    def _put_piece(self, key: str, piece: str, block: Prose) -> None:
        """Show a complete piece of an answer, whose numbers lead to the cards of their calls."""
        self._live.put(key, blocks.answer_html(block.with_marks(piece), block.live))
        found = () if block.tracing is None else block.tracing.found_in(piece)
        numbers = [[text, *(self._cards[each] for each in calls if each in self._cards)] for text, calls in found]
        self._live.lead_to_cards(key, [number for number in numbers if len(number) > 1][:MAX_FOUND])

    def _draw_thinking(self, block: Prose, drawn: _Growing) -> None:
        drawn.rest += drawn.read(block)
        if drawn.rest.strip():
            self._live.put(
                block.key, blocks.thinking(drawn.rest, growing=not (block.ended or block.finished))["text/html"]
            )
        if block.finished:
            drawn.rest = ""


@dataclass
class _Growing:
    version: int = -1
    pieces_read: int = 0
    length: int = 0
    rest: str = ""
    pieces: int = 0
    marked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Parts of an answer with marks in place of values, and their keys."""

    def read(self, block: Prose) -> str:
        """Return the text that was added since the last call."""
        fresh = "".join(block.pieces[self.pieces_read :])
        self.pieces_read = len(block.pieces)
        self.length += len(fresh)
        return fresh


def _html(bundle: MimeBundle) -> str:
    """Return the HTML of a bundle; an extension may have drawn one without it."""
    return (
        markup.page(bundle["text/html"]) if "text/html" in bundle else blocks.answer_html(bundle.get("text/plain", ""))
    )


def live_state(transcript: Transcript, spent_before: float) -> RunState:
    """Describe a run for a widget's footer.

    Args:
        spent_before: The session's cost before it, in US dollars.

    Returns:
        The part of the widget's state that the footer shows.
    """
    note = transcript.note
    if note is None and transcript.waiting_since is not None:
        note = f"waiting for {transcript.name}"
    if note is None and (job := transcript.job()) is not None:
        note = f"{job.id} goes on: {job.what}"
    if note is None and transcript.paused_for() > _PAUSE_SECONDS:
        note = f"still waiting for {transcript.name}"
    return {"note": note or "", "model": transcript.name, **_counts(transcript.usage, spent_before)}


def _counts(usage: Usage, spent_before: float) -> RunState:
    read = usage.input + usage.cache_read + usage.cache_write
    tokens = f"{read:,} in · {usage.output:,} out" if read or usage.output else ""
    cost = blocks.paid(usage.cost)
    if spent_before:
        cost = " · ".join(filter(None, (cost, f"session {blocks.dollars(spent_before + usage.cost.total)}")))
    return {"tokens": tokens, "cost": cost}
