"""A run drawn into its cell: finished blocks as displays, which stay, and growing ones in a widget below them.

Only what changed is drawn again, a few times a second, so the cost follows the length of the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indus_nb.notebook.view import blocks
from indus_nb.notebook.view.blocks import MimeBundle
from indus_nb.notebook.view.growing import LiveDrawing, live_state
from indus_nb.notebook.view.output import Display, Screen
from indus_nb.notebook.view.transcript import Block, Card, Line, Prose, Transcript
from indus_nb.render import markup

if TYPE_CHECKING:
    from indus_nb.notebook.page.widget import AgentWidget

_PACE = 0.2
_READY_WITHIN = 3.0


class StaticDrawing:
    """Draws blocks as displays that any viewer can show.

    Text that grows is cut into several of them.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._drawn: dict[str, _Drawn] = {}
        self.free: Display | None = None
        """A display that the next new one replaces."""

    def draw(self, block: Block) -> None:
        """Draw what changed of a block; a finished one is drawn for the last time."""
        drawn = self._drawn.setdefault(block.key, _Drawn())
        if drawn.version != block.version or block.finished:
            drawn.version = block.version
            match block:
                case Prose():
                    self._draw_prose(block, drawn)
                case Card():
                    self._put(drawn, block.bundle(), final=block.finished)
                    for picture in block.pictures() if block.finished else ():
                        self.show(blocks.picture(picture), final=True)
                case Line():
                    self.show(block.shown, final=True)
                case _:
                    pass
        if block.finished:
            del self._drawn[block.key]

    def is_growing(self) -> bool:
        """Return whether something is shown that will change."""
        return any(drawn.display is not None for drawn in self._drawn.values())

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """Show a bundle as a new display, or in the one that is free.

        Args:
            bundle: What to show.
            final: Whether it will not change any more.

        Returns:
            The display that holds it.
        """
        display, self.free = self.free, None
        if display is None:
            return self._screen.show(bundle, final=final)
        display.update(bundle, final=final)
        return display

    def _draw_prose(self, block: Prose, drawn: _Drawn) -> None:
        text = drawn.rest + "".join(block.pieces[drawn.pieces_read :])
        drawn.pieces_read = len(block.pieces)
        drawn.rest = text
        if not text.strip():
            return
        if block.thinking:
            bundle = blocks.thinking(text, growing=not block.finished)
        else:
            whole, drawn.rest = markup.split_answer(text)
            while whole:
                if whole.strip():
                    self._put(drawn, blocks.answer(whole), final=True)
                    drawn.display = None
                whole, drawn.rest = markup.split_answer(drawn.rest)
            if not drawn.rest.strip():
                return
            bundle = blocks.answer(drawn.rest)
        self._put(drawn, bundle, final=block.finished)

    def _put(self, drawn: _Drawn, bundle: MimeBundle, *, final: bool) -> None:
        if drawn.display is None:
            drawn.display = self.show(bundle, final=final)
        else:
            drawn.display.update(bundle, final=final)


@dataclass
class _Drawn:
    """How far a block is drawn: ``pieces_read`` counts the pieces, of which ``rest`` is what its display shows."""

    version: int = -1
    display: Display | None = None
    pieces_read: int = 0
    rest: str = ""


class CellView:
    """Draws one run into its cell.

    What is finished is drawn as displays, what grows in a widget below them if there is one.

    Without a widget, or when no page is ready within three seconds, what grows is drawn as displays as well.
    """

    def __init__(
        self,
        transcript: Transcript,
        screen: Screen,
        live: AgentWidget | None = None,
        *,
        spent_before: float = 0,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        """Show that the run has begun.

        Args:
            transcript: The run.
            screen: The cell's output.
            live: The widget, if a page may show it.
            spent_before: What the session has cost until now, in US dollars.
            is_held: While it is true nothing moves, so that a dialog stays where it is.
        """
        self._transcript = transcript
        self._shown_at = transcript.clock()
        self._static = StaticDrawing(screen)
        self._live = live
        self._tail = LiveDrawing(live) if live is not None else None
        self._waiting: MimeBundle | None = None
        self._slot: Display | None = None
        self._is_held = is_held
        self._spent_before = spent_before
        if live is not None:
            live.set(busy=True, started_ms_ago=0)
            self._slot = screen.show(live.bundle, final=False)
        else:
            self._draw_waiting()

    @property
    def live(self) -> AgentWidget | None:
        """The widget, while it is shown and not given up."""
        return self._live

    async def draw_soon(self) -> None:
        """Draw what changed, after a moment in which more may."""
        await asyncio.sleep(_PACE if self._tail is None or self._live is None else self._tail.pace)
        self.draw()

    def draw(self) -> None:
        """Draw what changed."""
        self._transcript.tick(asking=self._is_held())
        if self._live is None:
            self._draw_static()
            return
        if not self._live.ready.is_set() and self._transcript.clock() - self._shown_at > _READY_WITHIN:
            self._give_up()
            return
        self._draw_live(self._live)

    def close(self) -> None:
        """Draw all that is left, and detach from the widget."""
        live, tail = self._live, self._tail
        if live is not None and tail is not None:
            live.set(busy=False, stopping=False, note="")
            for block in self._transcript.blocks if live.reloaded else ():
                tail.draw(block)  # the page does not know the displays of the one before: it keeps the widget
            live.send()
            self._live = None
            self._static.free, self._slot = self._slot, None
        try:
            self._draw_static()
        finally:
            if live is not None and not live.reloaded:
                live.close()

    def _give_up(self) -> None:
        """No page can answer: clicks do not arrive while a cell is busy, or no front end shows widgets."""
        live, self._live = self._live, None
        if live is not None:
            live.close()
        self._static.free, self._slot = self._slot, None
        self._draw_static()

    def _draw_static(self) -> None:
        unfinished: list[Block] = []
        for block in self._transcript.blocks:
            self._static.draw(block)
            if not block.finished:
                unfinished.append(block)
        self._transcript.blocks[:] = unfinished
        self._draw_waiting()

    def _draw_waiting(self) -> None:
        """Show that the model is being waited for, below everything else, until its next block comes."""
        since = self._transcript.waiting_since
        if since is None or self._static.is_growing():
            return
        bundle = blocks.waiting(self._transcript.model, self._transcript.clock() - since)
        if bundle != self._waiting:
            self._static.free = self._static.show(bundle, final=False)
        self._waiting = bundle

    def _draw_live(self, live: AgentWidget) -> None:
        assert self._tail is not None  # noqa: S101 - it comes and goes with the widget
        done: list[Block] = []
        if not self._is_held() and not live.reloaded:
            done = _finished_first(self._transcript.blocks)
        for block in self._transcript.blocks[len(done) :]:
            self._tail.draw(block)
        live.set(**live_state(self._transcript, self._spent_before))
        if done:
            self._static.free, self._slot = self._slot, None
            for block in done:
                self._static.draw(block)
                self._tail.drop(block)
            del self._transcript.blocks[: len(done)]
            self._slot = self._static.show(live.bundle, final=False)
        live.send()


def _finished_first(growing: Sequence[Block]) -> list[Block]:
    """The finished blocks before the first that is not: the others must wait for it, to keep their order."""
    done: list[Block] = []
    for block in growing:
        if not block.finished:
            break
        done.append(block)
    return done
