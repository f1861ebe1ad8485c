"""A run drawn into the output of its cell, block by block, while it goes on.

Each block (a piece of an answer, a thought, a tool call) is a display of its own. Only blocks that still change are
drawn again, and that at most five times a second, so the cost follows the length of the answer.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from indus_nb import markup
from indus_nb.events import (
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    SessionEvent,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from indus_nb.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    text_of,
)
from indus_nb.notebook import blocks
from indus_nb.notebook.blocks import MimeBundle
from indus_nb.streaming import (
    AssistantMessageEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from indus_nb.wire import JsonObject

_PACE = 0.2
_SEPARATE = 30
_PAGE = 20_000
_CLEAR_LINE = "\r\x1b[K"


class Display(Protocol):
    """One display in a cell's output."""

    def update(self, bundle: MimeBundle, *, final: bool) -> None:
        """Show ``bundle`` instead; after a ``final`` one nothing follows."""
        ...


class Screen(Protocol):
    """Where displays appear."""

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """A new display below the others."""
        ...


class NotebookScreen:
    """The output of one run of a cell.

    JupyterLab shows no more than 50 outputs of a cell until somebody asks for the others. So after the first 30
    displays finished ones move together, as many into one as make a page, and what follows moves up.
    """

    def __init__(self) -> None:
        self._displays: list[_NotebookDisplay] = []
        self._page = _SEPARATE

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """A new display below the others."""
        from IPython.display import DisplayHandle

        handle = self._freed_handle()
        if handle is None:
            handle = cast("Any", DisplayHandle())
            handle.display(bundle, raw=True)
        else:
            handle.update(bundle, raw=True)
        display = _NotebookDisplay(handle, bundle, final)
        self._displays.append(display)
        return display

    def _freed_handle(self) -> Any:
        """The last handle, after the display behind the page moved onto it and the others moved up; or ``None``."""
        while len(self._displays) > self._page + 1:
            page, following = self._displays[self._page : self._page + 2]
            if not (page.final and following.final):
                return None
            together = {kind: f"{text}\n\n{following.bundle[kind]}" for kind, text in page.bundle.items()}
            if len(together["text/markdown"]) > _PAGE:
                self._page += 1
                continue
            page.update(together, final=True)
            handles = [display.handle for display in self._displays]
            del self._displays[self._page + 1]
            for display, handle in zip(self._displays[self._page + 1 :], handles[self._page + 1 :], strict=False):
                display.handle = handle
                display.update(display.bundle, final=display.final)
            return handles[-1]
        return None


@dataclass
class _NotebookDisplay:
    handle: Any
    bundle: MimeBundle
    final: bool

    def update(self, bundle: MimeBundle, *, final: bool) -> None:
        self.bundle, self.final = bundle, final
        self.handle.update(bundle, raw=True)


class TerminalScreen:
    """A terminal, where nothing can be taken back: what is final is printed, above one line on what goes on."""

    def show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """Print the bundle's text."""
        self.update(bundle, final=final)
        return self

    def update(self, bundle: MimeBundle, *, final: bool) -> None:
        """Print the bundle's text, or only a line of it while it is not final."""
        text = bundle["text/plain"]
        live = sys.stdout.isatty()
        if final:
            sys.stdout.write((_CLEAR_LINE if live else "") + text + "\n")
        elif live:
            sys.stdout.write(_CLEAR_LINE + text.split("\n", 1)[0][: shutil.get_terminal_size().columns - 1])
        sys.stdout.flush()


@dataclass
class _Block:
    """Something that is shown in one display, as soon as it has something to show."""

    display: Display | None = None
    changed: bool = False
    finished: bool = False


@dataclass
class _Prose(_Block):
    """A text or thinking block; ``rest`` is what its current display shows, ``pieces`` came after."""

    thinking: bool = False
    rest: str = ""
    pieces: list[str] = field(default_factory=list[str])


@dataclass
class _Card(_Block):
    """A tool call. ``output`` is the latest report, turned into text when it is drawn."""

    call: blocks.Call = field(default_factory=lambda: blocks.Call("", {}))
    output: list[TextContent | ImageContent] = field(default_factory=list[TextContent | ImageContent])
    started: float | None = None


class RunView:
    """Draws one run: feed it the session's events, let it ``refresh`` often, and ``close`` it at the end.

    All of it happens on the thread that runs the cell. ``clock`` counts seconds.
    """

    def __init__(
        self,
        screen: Screen,
        model: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        renderer: Callable[[str], Callable[..., Any] | None] = lambda _: None,
    ) -> None:
        self._screen = screen
        self._renderer = renderer
        self._model = model
        self._clock = clock
        self._began = clock()
        self._drawn = self._began
        self._live: list[_Block] = []
        self._prose: dict[int, _Prose] = {}
        self._writing: dict[int, _Card] = {}
        self._cards: dict[str, _Card] = {}
        self._usage = Usage()
        self._started = False
        self._last: AssistantMessage | None = None
        self._failed: AssistantMessage | None = None
        self._stopped = False
        self._waiting_text = blocks.waiting(model)
        self._waiting: Display | None = screen.show(self._waiting_text, final=False)
        self._waiting_since: float | None = self._began

    @property
    def asked(self) -> bool:
        """Whether a run has begun."""
        return self._started

    def feed(self, event: SessionEvent) -> None:
        """Take note of an event; it shows at a later ``refresh``."""
        match event:
            case AgentStart():
                self._started = True
            case TurnStart():
                self._waiting_since = self._clock()
            case MessageStart(message=AssistantMessage()):
                self._prose.clear()
                self._writing.clear()
            case MessageUpdate():
                self._grow(event.assistant_message_event)
            case MessageEnd(message=AssistantMessage() as message):
                self._end_answer(message)
            case MessageEnd(message=CustomMessage() as said):
                self._show_custom(said)
            case MessageEnd(message=ToolResultMessage() as result):
                self._end_unrun_call(result)
            case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
                self._execute(event)
            case AutoRetryStart() | AutoRetryEnd() | CompactionStart() | CompactionEnd():
                self._recover(event)
            case _:
                pass

    def refresh(self) -> None:
        """Draw what changed, if the last time is long enough ago."""
        if self._clock() - self._drawn >= _PACE:
            self._draw()

    def close(self) -> None:
        """Draw all that is left, what went wrong, and the closing line."""
        for block in self._live:
            block.finished = True
            if isinstance(block, _Card) and block.call.state in ("writing", "waiting", "running"):
                block.call.state, block.changed = "not run", True
        self._waiting_since = None
        self._draw()
        if not self._started:
            self._show(blocks.notice("Nothing was asked of the model."), final=True)
            return
        ending = "stopped" if self._stopped else None
        match self._last:
            case AssistantMessage(stop_reason="error") as answer:
                self._show(blocks.error(answer.error_message or "The model gave no reason."), final=True)
            case AssistantMessage(stop_reason="aborted"):
                ending = "stopped"
            case AssistantMessage(stop_reason="stop") as answer if not answer.text.strip():
                self._show(blocks.notice("The model said nothing."), final=True)
            case AssistantMessage(stop_reason="length"):
                ending = "cut off at the model's limit of output"
            case _:
                pass
        self._show(blocks.usage(self._model, self._usage, self._clock() - self._began, ending=ending), final=True)

    def _grow(self, event: AssistantMessageEvent) -> None:
        match event:
            case TextStart() | ThinkingStart():
                block = _Prose(thinking=isinstance(event, ThinkingStart))
                self._prose[event.content_index] = block
                self._live.append(block)
            case TextDelta() | ThinkingDelta():
                block = self._prose[event.content_index]
                block.pieces.append(event.delta)
                block.changed = True
                self._waiting_since = None
            case TextEnd() | ThinkingEnd():
                block = self._prose[event.content_index]
                block.changed = block.finished = True
            case ToolCallStart():
                self._writing[event.content_index] = self._card(event.id, event.tool_name, {})
                self._waiting_since = None
            case ToolCallDelta():
                card = self._writing[event.content_index]
                card.call.written += len(event.delta)
                card.changed = True
            case ToolCallEnd():
                card = self._card(event.tool_call.id, event.tool_call.name, event.tool_call.arguments)
                card.call.arguments = _arguments(event.tool_call)
                card.call.state, card.changed = "waiting", True
            case _:
                pass

    def _execute(self, event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd) -> None:
        match event:
            case ToolExecutionStart():
                card = self._card(event.tool_call_id, event.tool_name, event.args)
                card.call.state, card.started = "running", self._clock()
            case ToolExecutionUpdate():
                card = self._card(event.tool_call_id, event.tool_name, event.args)
                card.output = event.partial_result.content
            case ToolExecutionEnd():
                card = self._card(event.tool_call_id, event.tool_name, {})
                card.output = event.result.content
                card.call.diff = _diff(event.result.details)
                card.call.seconds = None if card.started is None else self._clock() - card.started
                card.call.state, card.finished = "failed" if event.is_error else "done", True
        card.changed = True

    def _recover(self, event: AutoRetryStart | AutoRetryEnd | CompactionStart | CompactionEnd) -> None:
        """An answer that failed is not the last one while the session still tries to do better."""
        match event:
            case AutoRetryStart():
                self._failed, self._last = self._last, None
                self._add_notice(f"The model failed ({event.error_message or 'no reason given'}). Trying again …")
            case AutoRetryEnd():
                self._stopped = self._last is None  # nothing was answered since the wait began
            case CompactionStart():
                self._failed, self._last = self._last, None
                self._add_notice("The conversation has grown too long: its older part is summarised …")
            case CompactionEnd():
                if event.result is None:
                    self._add_notice(event.error_message or "The summary was cancelled.")
                if not event.will_retry:
                    self._last = self._failed

    def _end_answer(self, message: AssistantMessage) -> None:
        self._last = message
        self._waiting_since = None
        self._model = message.model or self._model
        _add(self._usage, message.usage)
        for block in self._prose.values():
            block.finished = True
        if message.stop_reason in ("error", "aborted"):
            for card in self._writing.values():
                card.call.state = "not run"
                card.changed = card.finished = True

    def _end_unrun_call(self, result: ToolResultMessage) -> None:
        """A call that was answered without being started: the run was aborted, or the user said something else."""
        card = self._cards.get(result.tool_call_id)
        if card is not None and card.call.state == "waiting":
            card.output, card.call.state = result.content, "not run"
            card.changed = card.finished = True

    def _card(self, call_id: str, name: str, arguments: JsonObject) -> _Card:
        """The card of that call, which is made when the call is new."""
        card = self._cards.get(call_id)
        if card is None:
            card = self._cards[call_id] = _Card(call=blocks.Call(name, arguments), changed=True)
            self._live.append(card)
        return card

    def _show_custom(self, message: CustomMessage) -> None:
        """A message of an extension, as the extension draws it if it does."""
        if not message.display:
            return
        self._draw()
        draw = self._renderer(message.custom_type)
        try:
            drawn = draw(message) if draw is not None else None
        except Exception:  # noqa: BLE001 - what cannot be drawn is told in words
            drawn = None
        bundle = cast("MimeBundle", drawn) if isinstance(drawn, dict) else blocks.answer(text_of(message.content))
        self._show(bundle, final=True)

    def _add_notice(self, text: str) -> None:
        self._draw()
        self._show(blocks.notice(text), final=True)

    def _draw(self) -> None:
        for block in self._live:
            if isinstance(block, _Prose):
                self._draw_prose(block)
            elif isinstance(block, _Card):
                self._draw_card(block)
        self._live = [block for block in self._live if not block.finished]
        self._draw_waiting()
        self._drawn = self._clock()

    def _draw_prose(self, block: _Prose) -> None:
        if not block.changed and not block.finished:
            return
        text = block.rest + "".join(block.pieces)
        block.pieces.clear()
        if not text.strip():
            block.rest = text
            return
        if block.thinking:
            block.rest = text
            bundle = blocks.thinking(text, growing=not block.finished)
        else:
            whole, block.rest = markup.split_answer(text)
            while whole.strip():
                self._put(block, blocks.answer(whole), final=True)
                block.display = None
                whole, block.rest = markup.split_answer(block.rest)
            if not block.rest.strip():
                return
            bundle = blocks.answer(block.rest)
        self._put(block, bundle, final=block.finished)

    def _draw_card(self, card: _Card) -> None:
        if card.call.state == "running" and card.started is not None:
            seconds = float(int(self._clock() - card.started))
            if seconds and seconds != card.call.seconds:
                card.call.seconds, card.changed = seconds, True
        if card.changed:
            card.call.output = "\n".join(_as_text(block) for block in card.output)
            self._put(card, blocks.call(card.call), final=card.finished)

    def _draw_waiting(self) -> None:
        """Show that the model is being waited for, below everything else, until its next block comes."""
        if self._waiting_since is None or any(block.display for block in self._live):
            return
        bundle = blocks.waiting(self._model, self._clock() - self._waiting_since)
        if self._waiting is None:
            self._waiting = self._screen.show(bundle, final=False)
        elif bundle != self._waiting_text:
            self._waiting.update(bundle, final=False)
        self._waiting_text = bundle

    def _put(self, block: _Block, bundle: MimeBundle, *, final: bool) -> None:
        if block.display is None:
            block.display = self._show(bundle, final=final)
        else:
            block.display.update(bundle, final=final)
        block.changed = False

    def _show(self, bundle: MimeBundle, *, final: bool) -> Display:
        """A new display; it takes the place of the sign that something is waited for."""
        display, self._waiting = self._waiting, None
        if display is None:
            return self._screen.show(bundle, final=final)
        display.update(bundle, final=final)
        return display


def _arguments(call: ToolCall) -> JsonObject:
    return call.arguments if call.malformed is None else {"arguments (not JSON)": call.malformed}


def _diff(details: object) -> str | None:
    if isinstance(details, dict):
        diff: object = cast("JsonObject", details).get("diff")
        if isinstance(diff, str):
            return diff
    return None


def _as_text(block: TextContent | ImageContent) -> str:
    if isinstance(block, TextContent):
        return block.text
    where = block.source.url if block.source else f"{len(block.data or '') * 3 // 4:,} bytes"
    return f"[image: {block.mime_type or 'from the web'}, {where}]"


def _add(total: Usage, more: Usage) -> None:
    total.input += more.input
    total.output += more.output
    total.cache_read += more.cache_read
    total.cache_write += more.cache_write
    total.cost.total += more.cost.total
