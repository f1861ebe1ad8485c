"""A transcript drawn: into the output of a cell, where it stays, and into a widget while it grows.

Only what changed is drawn again, and that a few times a second, so the cost follows the length of what was said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indus_nb.messages import Usage
from indus_nb.notebook.view import blocks
from indus_nb.notebook.view.blocks import MimeBundle
from indus_nb.notebook.view.output import Display, Screen
from indus_nb.notebook.view.transcript import Block, Card, Line, Prose, Transcript
from indus_nb.render import markup

if TYPE_CHECKING:
    from indus_nb.notebook.page.protocol import RunState
    from indus_nb.notebook.page.widget import AgentWidget

_PACE = 0.2
_LIVE_PACE = 0.08
_READY_WITHIN = 3.0
_LONGEST_PIECE = 2_000


class StaticDrawing:
    """Draws blocks as displays that any viewer can show; text that grows is cut into several of them."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._drawn: dict[str, _Drawn] = {}
        self.free: Display | None = None
        """A display that the next new one takes the place of."""

    def draw(self, block: Block) -> None:
        """Draw what changed of it; after it was drawn finished it is forgotten."""
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
        """Whether something is shown that will change."""
        return any(drawn.display is not None for drawn in self._drawn.values())

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """A new display, or the one that is free."""
        display, self.free = self.free, None
        if display is None:
            return self._screen.show(bundle, final=final)
        display.update(bundle, final=final)
        return display

    def _draw_prose(self, block: Prose, drawn: _Drawn) -> None:
        text = drawn.rest + "".join(block.pieces[drawn.taken :])
        drawn.taken = len(block.pieces)
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
    """How far a block is drawn: ``taken`` pieces, of which ``rest`` is what its display shows."""

    version: int = -1
    display: Display | None = None
    taken: int = 0
    rest: str = ""


class LiveDrawing:
    """Draws blocks into a widget, where growing text is sent paragraph by paragraph."""

    def __init__(self, live: AgentWidget) -> None:
        self._live = live
        self._drawn: dict[str, _Growing] = {}

    def draw(self, block: Block) -> None:
        """Draw what changed of it."""
        drawn = self._drawn.setdefault(block.key, _Growing())
        if drawn.version == block.version:
            return
        drawn.version = block.version
        match block:
            case Prose(thinking=False):
                self._draw_answer(block, drawn)
            case Prose():
                self._draw_thinking(block, drawn)
            case Card():
                shown = "".join(markup.picture(str(image.mime_type), image.data or "") for image in block.pictures())
                self._live.put(block.key, block.bundle()["text/html"] + shown)
            case Line():
                self._live.put(block.key, _html(block.shown))
            case _:
                pass

    def drop(self, block: Block) -> None:
        """Take it away."""
        drawn = self._drawn.pop(block.key, _Growing())
        self._live.drop(block.key)
        for number in range(drawn.pieces + 1):
            self._live.drop(f"{block.key}.{number}")

    def _draw_answer(self, block: Prose, drawn: _Growing) -> None:
        text = drawn.rest + "".join(block.pieces[drawn.taken :])
        drawn.taken = len(block.pieces)
        whole, drawn.rest = markup.split_answer(text, soft=0, hard=_LONGEST_PIECE)
        while whole:
            if whole.strip():
                self._live.put(f"{block.key}.{drawn.pieces}", blocks.answer_html(whole))
                drawn.pieces += 1
            whole, drawn.rest = markup.split_answer(drawn.rest, soft=0, hard=_LONGEST_PIECE)
        if drawn.rest.strip():
            self._live.put(f"{block.key}.{drawn.pieces}", blocks.answer_html(drawn.rest))

    def _draw_thinking(self, block: Prose, drawn: _Growing) -> None:
        drawn.rest += "".join(block.pieces[drawn.taken :])
        drawn.taken = len(block.pieces)
        if drawn.rest.strip():
            self._live.put(block.key, blocks.thinking(drawn.rest, growing=not block.finished)["text/html"])
        if block.finished:
            drawn.rest = ""


@dataclass
class _Growing:
    version: int = -1
    taken: int = 0
    rest: str = ""
    pieces: int = 0


def _html(bundle: MimeBundle) -> str:
    """What a widget shows of a bundle: an extension may have drawn one without HTML."""
    return (
        markup.page(bundle["text/html"]) if "text/html" in bundle else blocks.answer_html(bundle.get("text/plain", ""))
    )


def live_state(transcript: Transcript, spent_before: float) -> RunState:
    """What a widget's footer tells of a run; ``spent_before`` is what the session had cost by then, in US dollars."""
    note = transcript.note
    if note is None and transcript.waiting_since is not None:
        note = f"waiting for {transcript.name}"
    return {"note": note or "", "model": transcript.name, **_counts(transcript.usage, spent_before)}


def _counts(usage: Usage, spent_before: float) -> RunState:
    read = usage.input + usage.cache_read + usage.cache_write
    tokens = f"{read:,} in · {usage.output:,} out" if read or usage.output else ""
    cost = f"${usage.cost.total:.4f}" if usage.cost.total else ""
    if spent_before:
        cost = f"{cost or '$0'} · session ${spent_before + usage.cost.total:.4f}"
    return {"tokens": tokens, "cost": cost}


class CellView:
    """Draws one run into its cell: what is finished as displays, what grows in a widget below them if there is one.

    Without a widget, or when no page is ready within three seconds, what grows is drawn as displays as well.
    While ``is_held()`` nothing moves, so that a dialog stays where it is. ``spent_before`` is what the session has cost
    until now, in US dollars.
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
        await asyncio.sleep(_PACE if self._live is None else _LIVE_PACE)
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
        """Draw all that is left, and let go of the widget."""
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
        """No page can answer: clicks do not arrive here while a cell is busy, or nobody shows widgets."""
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
