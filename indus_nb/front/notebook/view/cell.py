"""A run drawn into its cell: finished blocks as displays, which stay, and growing ones in a widget below them.

Only what changed is drawn again, a few times a second, so the cost follows the length of the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from indus_nb.base.wire import JsonObject
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.folding import Rows
from indus_nb.front.notebook.view.growing import LiveDrawing, live_state
from indus_nb.front.notebook.view.output import (
    NOTHING,
    Display,
    Own,
    Screen,
    can_change,
    draws_widgets_late,
    is_compared,
    typesets_html,
)
from indus_nb.front.notebook.view.parts import MAX_FOUND, Block, Card, Line, Prose
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.kernel.run.outputs import Output
from indus_nb.render import markup
from indus_nb.render.cards import is_remark
from indus_nb.render.live import MARK
from indus_nb.render.untraced import Found

if TYPE_CHECKING:
    from indus_nb.front.notebook.page.widget import AgentWidget

_PACE = 0.2
_READY_WITHIN = 3.0
_STEP = 1_000
"""Characters of an answer after which it is looked at whether a part of it is complete."""


class StaticDrawing:
    """Drawing of blocks as displays that any viewer can show.

    Text that grows is cut into several of them.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._drawn: dict[str, _Drawn] = {}
        self._rows = Rows(self._vacate) if can_change(screen) else None
        self.tells_measures: bool = not is_compared(screen)
        """Whether it says what differs from run to run, which a page says beside it else."""
        self._typesets_html = typesets_html(screen)
        self._calls: dict[str, str | None] = {}
        """By the keys of blocks, in the order in which these stand: the ids of calls, ``None`` for what is no card."""
        self._places: dict[int, tuple[int, Display]] = {}
        """Position of each display among the others, by its identity."""
        self._free: list[Display] = []
        """Displays that the next new ones replace, the first one first."""
        self._waiting: Display | None = None
        self.widget: Display | None = None
        """Display of the widget, below all that is drawn but the outputs of a call that runs."""

    def draw(self, block: Block) -> None:
        """Draw the changes of a block; a finished one is drawn for the last time."""
        drawn = self._drawn.setdefault(block.key, _Drawn())
        self._calls[block.key] = _call_of(block)
        if isinstance(block, Card) and block.finished and not self.tells_measures:
            block.call.seconds = None
        if drawn.version != block.version or block.finished:
            drawn.version = block.version
            match block:
                case Block(instead=instead) if instead is not None:
                    self._draw_instead(instead, drawn)
                case Prose():
                    self._draw_prose(block, drawn)
                case Card():
                    self._draw_card(block, drawn)
                case Line():
                    self.end_row()
                    if block.card is None or block.card.is_in_row:
                        self.show((self.tells_measures and block.unsaved) or block.shown, final=True)
                case _:
                    pass
        if block.finished:
            del self._drawn[block.key]

    def fold(self) -> None:
        """Fold the calls that something follows, and rows of calls that have ended."""
        if self._rows is not None:
            self._rows.settle()

    def end_row(self) -> None:
        """End a row of calls: what comes next is something else."""
        if self._rows is not None:
            self._rows.end()
            self._rows.settle()

    def _draw_instead(self, bundle: MimeBundle, drawn: _Drawn) -> None:
        """Draw the replacement of a part of an answer, of which some may be drawn."""
        self.end_row()
        before = [*drawn.before, *([drawn.display] if drawn.display is not None else [])]
        if self._rows is not None:
            for display in before:
                display.update(NOTHING, final=False)
            self._vacate(before)
        elif bundle and before:  # it stands there for good
            bundle = blocks.notice(bundle["text/plain"].split("\n", 1)[0])
        if bundle:
            self.show(bundle, final=True)

    def _draw_card(self, card: Card, drawn: _Drawn) -> None:
        if not card.finished:
            self._put(drawn, card.bundle(), final=False)
            self.draw_outputs(card)
            return
        self.fold()  # what is before it, so that it may move up
        if card.call.described is not None and card.call.described.is_answer and card.call.state == "done":
            self.end_row()  # the answer stays in sight
        bundle = card.bundle()
        display = self._put(drawn, bundle, final=self._rows is None)
        pictures = card.pictures()
        if self._rows is not None:
            self._rows.add_card(card, display, bundle)
            if pictures or card.outputs:
                self._rows.end()  # they stand below it
        for picture in pictures:
            self.show(blocks.picture(picture), final=True)
        self.draw_outputs(card)
        if drawn.outputs:
            self._go_below(drawn.outputs[-1][0])

    def draw_ahead(self, card: Card) -> None:
        """Draw a finished card before its row is complete: a card above it still runs."""
        drawn = self._drawn.setdefault(card.key, _Drawn())
        self._calls[card.key] = _call_of(card)
        if drawn.version != card.version:
            drawn.version = card.version
            self._put(drawn, card.bundle(), final=False)

    def draw_outputs(self, card: Card) -> None:
        """Draw the outputs of a call, below all that was drawn before."""
        drawn = self._drawn.setdefault(card.key, _Drawn())
        is_preview = card.call.asked and not card.finished
        turned, drawn.is_preview = drawn.is_preview is not is_preview, is_preview
        for number, output in enumerate(card.outputs):
            is_new = number == len(drawn.outputs)
            if not (is_new or card.finished or turned or drawn.outputs[number][1] is not output):
                continue
            shown = blocks.preview(output.title, output.data) if is_preview else output.data
            data, own = cast("MimeBundle", shown), Own(output.metadata, output.display_id)
            if is_new:
                drawn.outputs.append((self.show(data, final=card.finished, own=own), output))
            else:
                display, _ = drawn.outputs[number]
                display.update(data, final=card.finished, own=own)
                drawn.outputs[number] = display, output
        cleared = drawn.outputs[len(card.outputs) :]
        for display, shown in cleared:
            if shown is not None:
                display.update(NOTHING, final=False)
        drawn.outputs[len(card.outputs) :] = [(display, None) for display, _ in cleared]
        if card.finished:
            self._vacate([display for display, _ in cleared])

    def is_growing(self) -> bool:
        """Return whether a display is shown that will change."""
        return any(drawn.display is not None for drawn in self._drawn.values())

    def show(self, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> Display:
        """Show a bundle as a new display, or in the first that is free.

        Args:
            final: Whether it will not change any more.
        """
        if not self._free or (own is not None and own.display_id):
            display = self._screen.show(bundle, final=final, own=own)
            self._places.setdefault(id(display), (len(self._places), display))
            return display
        display = self._free.pop(0)
        display.update(bundle, final=final, own=own)
        return display

    def show_waiting(self, bundle: MimeBundle | None) -> None:
        """Show a placeholder until the next block replaces it; ``None`` removes it."""
        shown = self._waiting if self._waiting is not None and self.is_free(self._waiting) else None
        if shown is not None and bundle is not None and self._free[0] is shown:
            shown.update(bundle, final=False)
            return
        if shown is not None:
            shown.update(NOTHING, final=False)
        self._waiting = None
        if bundle is not None:
            self._waiting = self.show(bundle, final=False)
            self.release(self._waiting)

    def release(self, display: Display) -> None:
        """Mark a display as free for another block."""
        self._free.append(display)
        self._free.sort(key=self._place)

    def keep(self, display: Display) -> None:
        """Mark a display as not free after all."""
        self._free = [free for free in self._free if free is not display]

    def is_free(self, display: Display) -> bool:
        """Return whether a display is free for another block."""
        return any(free is display for free in self._free)

    def _place(self, display: Display) -> int:
        return self._places[id(display)][0]

    def _vacate(self, displays: Sequence[Display]) -> None:
        """Free empty displays that have nothing permanent below them."""
        ends = {id(display) for display in (*displays, *self._free, self.widget)}
        last = next((place for key, (place, _) in reversed(self._places.items()) if key not in ends), -1)
        for display in displays:
            if self._place(display) > last:
                self.release(display)

    def _go_below(self, display: Display) -> None:
        """Make new displays appear below this one."""
        for free in self._free:
            if self._place(free) < self._place(display) and free is self.widget:
                free.update(NOTHING, final=False)
        self._free = [free for free in self._free if self._place(free) > self._place(display)]

    def _draw_prose(self, block: Prose, drawn: _Drawn) -> None:
        text = drawn.rest + "".join(block.pieces[drawn.pieces_read :])
        drawn.pieces_read = len(block.pieces)
        drawn.rest = text
        if not text.strip():
            return
        is_short = block.thinking or (is_remark(text) and MARK not in text)
        if not is_short:
            self.end_row()
        if block.thinking:
            bundle = blocks.thinking(text, growing=not (block.ended or block.finished))
        else:
            live = block.live
            while not block.waits_for_values(drawn.rest) and (whole := drawn.split_off()):
                if whole.strip():
                    shown = self._settled(whole, blocks.answer(block.with_marks(whole), live))
                    drawn.before.append(self._put(drawn, shown, final=True, own=self._own(whole, block)))
                    drawn.display = None
            if not drawn.rest.strip():
                return
            bundle = blocks.answer(block.with_marks(drawn.rest) if block.finished else drawn.rest, live)
        in_row = is_short and self._rows is not None and self._rows.is_open
        alone = self._settled(drawn.rest, bundle) if block.finished and not block.thinking else None
        shown, own = bundle if in_row else alone or bundle, self._own(drawn.rest, block) if block.finished else None
        display = self._put(drawn, shown, final=block.finished and not in_row, own=own)
        if in_row and block.finished and self._rows is not None:
            self._rows.add_remark(display, bundle, alone, own)

    def _own(self, text: str, block: Prose) -> Own | None:
        """Return the metadata of a complete part of an answer: its values, and which cards have put out its numbers."""
        ours: JsonObject = {}
        live = block.live if block.finished and MARK in text else None
        if live is not None and (values := blocks.answer_values(text, live)):
            ours["values"] = values
        if block.tracing is not None and (found := self._found(block.tracing.found_in(text))):
            ours["found"] = found
        return Own({"indus_nb": ours}) if ours else None

    def _found(self, found: Found) -> list[list[str | int]]:
        """Return numbers with the places of their cards among those of the output; without those of other outputs."""
        cards = (call_id for call_id in self._calls.values() if call_id is not None)
        places = {call_id: place for place, call_id in enumerate(cards)}
        numbers = [[text, *(places[call_id] for call_id in calls if call_id in places)] for text, calls in found]
        return [number for number in numbers if len(number) > 1][:MAX_FOUND]

    def _settled(self, text: str, bundle: MimeBundle) -> MimeBundle:
        """Return the bundle of a complete part of an answer; its formulas have to be typeset."""
        if self._typesets_html or not markup.has_formulas(text):
            return bundle
        return {kind: drawn for kind, drawn in bundle.items() if kind != "text/html"}  # HTML goes before Markdown

    def _put(self, drawn: _Drawn, bundle: MimeBundle, *, final: bool, own: Own | None = None) -> Display:
        if drawn.display is None:
            drawn.display = self.show(bundle, final=final, own=own)
        else:
            drawn.display.update(bundle, final=final, own=own)
        return drawn.display


def _call_of(block: Block) -> str | None:
    """Return the id of the call whose card a block shows, empty for a command of the user's; ``None`` for no card."""
    if isinstance(block, Card):
        return None if block.call.is_plan or block.instead is not None else block.call_id
    is_card = isinstance(block, Line) and 'class="indus-call"' in block.shown.get("text/html", "")
    return "" if is_card else None


@dataclass
class _Drawn:
    """Drawing state of a block: ``pieces_read`` counts the pieces, of which ``rest`` is what its display shows.

    ``before`` are those of a text before its last one. ``outputs`` are the displays of what a call shows, ``None`` for
    what its code has cleared.
    """

    version: int = -1
    display: Display | None = None
    before: list[Display] = field(default_factory=list[Display])
    pieces_read: int = 0
    rest: str = ""
    outputs: list[tuple[Display, Output | None]] = field(default_factory=list[tuple[Display, Output | None]])
    is_preview: bool = False
    judged: int = 0
    """How many characters of the rest hold nothing to split off."""

    def split_off(self) -> str:
        """Split a part off the rest, at a place that does not depend on how fast the text came; empty for none."""
        for end in range(self.judged + _STEP, len(self.rest) + 1, _STEP):
            whole, rest = markup.split_answer(self.rest[:end])
            if whole:
                self.rest, self.judged = rest + self.rest[end:], 0
                return whole
            self.judged = end
        return ""


class CellView:
    """View of one run in its cell.

    What is finished is drawn as displays, what grows in a widget below them if there is one.

    Without a widget, or while no page is ready after three seconds, what grows is drawn as displays as well. When one
    is ready after all, the widget shows what comes from then on; what was begun as a display is ended there.
    """

    def __init__(
        self,
        transcript: Transcript,
        screen: Screen,
        live: AgentWidget | None = None,
        *,
        spent_before: float = 0,
        is_held: Callable[[], bool] = lambda: False,
        goes_on: Callable[[], bool] = lambda: False,
    ) -> None:
        """Show that the run has begun.

        Args:
            live: The widget, if a page may show it.
            spent_before: The session's cost until now, in US dollars.
            is_held: Returns whether displays may not move, so that a dialog stays where it is.
            goes_on: Returns whether what that asks about runs meanwhile.
        """
        self._transcript = transcript
        self._shown_at = transcript.clock()
        self._static = StaticDrawing(screen)
        self._live = live
        self._keeps_place = draws_widgets_late(screen)
        """Whether nothing may take the widget's place until a page has drawn it."""
        self._late: AgentWidget | None = None
        """The widget after three seconds without a page that is ready."""
        self._begun: set[str] = set()
        """The blocks that were drawn as displays until the page was ready."""
        self._tail = LiveDrawing(live) if live is not None else None
        self._waiting: MimeBundle | None = None
        self._is_held = is_held
        self._goes_on = goes_on
        self._spent_before = spent_before
        if live is not None:
            live.set(busy=True, started_ms_ago=0)
            self._static.widget = self._static.show(live.bundle, final=False)
        else:
            self._draw_waiting()

    @property
    def live(self) -> AgentWidget | None:
        """Return the widget while it is shown, else ``None``."""
        return self._live

    @property
    def is_given_up(self) -> bool:
        """Return whether no page was ready to show the widget within three seconds, nor has been since."""
        return self._late is not None

    async def drawn(self, *, always: bool = False) -> None:
        """Wait until a page has drawn the widget, or was given time to, if nothing may take its place before.

        Args:
            always: Whether to wait even if something may.
        """
        while (always or self._keeps_place) and self._live is not None and not self._live.ready.is_set():
            if self._transcript.clock() - self._shown_at > _READY_WITHIN:
                self._give_up()
                return
            await asyncio.sleep(_PACE)

    async def draw_soon(self) -> None:
        """Schedule a drawing, so that changes of a moment are drawn together."""
        await asyncio.sleep(_PACE if self._tail is None or self._live is None else self._tail.pace)
        self.draw()

    def draw(self) -> None:
        """Draw what changed."""
        self._transcript.tick(asking=self._is_held(), goes_on=self._goes_on())
        if self._late is not None and self._late.ready.is_set():
            self._come_back(self._late)
        if self._live is None:
            self._draw_static()
            return
        if not self._live.ready.is_set() and self._transcript.clock() - self._shown_at > _READY_WITHIN:
            self._give_up()
            return
        self._draw_live(self._live)

    def close(self, *, keeps_widget: bool = False, tells_measures: bool = False) -> None:
        """Draw the rest, and detach from the widget.

        Args:
            tells_measures: Whether no page can say what the run took, so that the closing line does.
            keeps_widget: Whether to leave it open, for pages that do not get the displays.
        """
        live, tail = self._live, self._tail
        self._static.tells_measures |= tells_measures
        if self._late is not None:
            self._late.close()
        if live is not None and tail is not None:
            live.set(busy=False, stopping=False, note="")
            for block in self._transcript.blocks if live.reloaded else ():
                tail.draw(block)  # the page does not know the displays of the one before: it keeps the widget
            live.send()
            self._live = None
            self._free_slot()
        try:
            self._draw_static()
            self._static.end_row()
            self._clear_slot()
        finally:
            if live is not None and not (keeps_widget or live.reloaded):
                live.close()

    def _give_up(self) -> None:
        """Wait for no page: clicks do not arrive while a cell is busy, there are no widgets, or it is very slow."""
        self._late, self._live = self._live, None
        if self._tail is not None:
            for block in self._transcript.blocks:
                self._tail.drop(block)
        self._free_slot()
        self._draw_static()
        self._clear_slot()

    def _come_back(self, live: AgentWidget) -> None:
        """Show the widget again, for new blocks: its page is ready after all."""
        self._late, self._live = None, live
        self._begun = {block.key for block in self._transcript.blocks}
        self._static.show_waiting(None)
        self._waiting = None
        self._show_widget(live)

    def _free_slot(self) -> None:
        """Mark the widget's display as free for the next block."""
        if self._static.widget is not None:
            self._static.release(self._static.widget)

    def _draw_static(self) -> None:
        self._transcript.blocks[:] = self._draw_in_order(self._transcript.blocks)
        self._static.fold()
        self._draw_waiting()

    def _draw_in_order(self, growing: Sequence[Block]) -> list[Block]:
        """Draw blocks as displays; returns those that may change."""
        unfinished: list[Block] = []
        for block in growing:
            if unfinished and _shows_outputs(unfinished[-1]):  # it would stand above those
                unfinished.append(block)
            elif unfinished and _has_to_wait(block, unfinished[-1]):
                self._static.draw_ahead(cast("Card", block))
                unfinished.append(block)
            else:
                self._static.draw(block)
                unfinished += [] if block.finished else [block]
        return unfinished

    def _draw_waiting(self) -> None:
        """Show below all blocks that the model is being waited for, until its next block."""
        since = self._transcript.waiting_since
        if since is None or self._static.is_growing():
            bundle = None
        else:
            bundle = blocks.waiting(self._transcript.model, self._transcript.clock() - since)
        if bundle != self._waiting:
            self._static.show_waiting(bundle)
        self._waiting = bundle

    def _show_widget(self, live: AgentWidget) -> None:
        """Show the widget below all that is drawn, or leave it where it is if that is so."""
        slot = self._static.widget
        if slot is not None and self._static.is_free(slot):
            self._static.keep(slot)
        else:
            self._static.widget = self._static.show(live.bundle, final=False)

    def _clear_slot(self) -> None:
        """Empty the display of the closed widget, unless another block uses it."""
        slot, self._static.widget = self._static.widget, None
        if slot is not None and self._static.is_free(slot):
            slot.update(NOTHING, final=False)

    def _draw_live(self, live: AgentWidget) -> None:
        assert self._tail is not None  # noqa: S101 - it comes and goes with the widget
        self._end_begun(live)
        done: list[Block] = []
        if not self._is_held() and not live.reloaded and (live.ready.is_set() or not self._keeps_place):
            done = _finished_first(self._transcript.blocks)
        for block in self._transcript.blocks[len(done) :]:
            if block.key not in self._begun:
                self._tail.draw(block)
        live.set(**live_state(self._transcript, self._spent_before))
        if done:
            self._free_slot()
            for block in done:
                self._static.draw(block)
                self._tail.drop(block)
            del self._transcript.blocks[: len(done)]
            self._show_widget(live)
        if not (self._is_held() or live.reloaded):
            self._static.fold()
        growing = self._transcript.blocks[0] if self._transcript.blocks else None
        if isinstance(growing, Card) and not live.reloaded and (growing.call.asked or not self._is_held()):
            self._static.draw_outputs(growing)  # below the widget, where they stay when the card takes its place
        live.send()

    def _end_begun(self, live: AgentWidget) -> None:
        """Draw the changes of blocks that are displays already, above the widget."""
        begun = [block for block in self._transcript.blocks if block.key in self._begun]
        if begun:
            self._free_slot()
            self._transcript.blocks[: len(begun)] = self._draw_in_order(begun)
            self._show_widget(live)


def _shows_outputs(block: Block) -> bool:
    return isinstance(block, Card) and bool(block.outputs) and not block.finished


def _has_to_wait(block: Block, before: Block) -> bool:
    """Return whether a card has ended before the previous one, a call of the same answer that still runs."""
    if not (isinstance(block, Card) and block.finished and isinstance(before, Card)):
        return False
    return before.shows is None or before.shows.job is None


def _finished_first(growing: Sequence[Block]) -> list[Block]:
    """Return the finished blocks before the first unfinished one, which the others wait for."""
    done: list[Block] = []
    for block in growing:
        if not block.finished:
            break
        done.append(block)
    return done
