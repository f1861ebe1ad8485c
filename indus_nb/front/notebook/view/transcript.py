"""The events of a run, or of a whole session, as blocks in the order in which they began.

A ``Transcript`` does not draw. Its blocks are drawn by ``cell``: into the output of a cell, or into a widget while they
still grow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

from indus_nb.base import textcut
from indus_nb.base.events import (
    AgentEnd,
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    SessionEvent,
    SessionSaveFailed,
    TodoReminder,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TtsrTriggered,
    TurnStart,
)
from indus_nb.base.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    now_ms,
    text_of,
)
from indus_nb.base.streaming import (
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
from indus_nb.base.wire import JsonObject
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.changes import ChangesOfRun
from indus_nb.front.notebook.view.parts import (
    Block,
    Card,
    Line,
    Prose,
    drawn_bundle,
    images_of,
    notice_of,
)
from indus_nb.front.notebook.view.rewriting import (
    Rewriting,
    stored_rewritten,
    stored_text,
    with_values,
)
from indus_nb.kernel.run.outputs import CallOutputs, OutputBoard
from indus_nb.models.http.refusals import GO_BACK
from indus_nb.render.cards import CallState, arguments_of, ran_in, state_of
from indus_nb.render.context import context, contexts_along, is_along, is_context
from indus_nb.render.live import VALUES_TYPE, LiveLookup, pending
from indus_nb.render.untraced import Tracing
from indus_nb.render.writers import bundle
from indus_nb.tools import CallDescription, Tool, describe_call
from indus_nb.tools.jobs import Job

Renderer: TypeAlias = Callable[[str], Callable[..., Any] | None]
"""Lookup of the renderer for an extension's message type, if there is one."""
ValuesOf: TypeAlias = Callable[[str], LiveLookup | None]
"""Lookup of the values in an answer, by its text; ``None`` where it has none."""

BlockT = TypeVar("BlockT", bound=Block)
_MAX_SEPARATE_BLOCKS = 30
_MAX_NOTICE_CHARACTERS = 10_000
_MAX_REASON_CHARACTERS = 80
_FEW_LINES = 3
"""Most lines of a job's end that are not folded away."""
_CUT_OFF = "cut off at the model's limit of output"
_NOT_ASKED = "Nothing was asked of the model."
_UNSEEN = "the model will not see what it said last"
_STOPPED = "Stopped. What was said and done so far is kept."
_STOPPED_UNSEEN = f"Stopped. What was said and done so far stays here, but {_UNSEEN}."


def advice(failure: str) -> str:
    """Return advice for a notebook's user about a failed answer; empty if its message has it."""
    return (
        " `%agent tree` lists the entries, `%agent tree ENTRY` goes on from one of them." if GO_BACK in failure else ""
    )


def _stored_end(answer: AssistantMessage) -> Iterable[str]:
    """Return how an answer ended, if not well."""
    return ["stopped"] if answer.stop_reason == "aborted" else [_CUT_OFF] if answer.stop_reason == "length" else []


@dataclass
class _StoredTurn:
    """What stored messages have told so far of the answer to one of the user's: when it began is in ms since 1970."""

    spent: Usage = field(default_factory=Usage)
    begun: int | None = None
    last: AssistantMessage | None = None


class Transcript:
    """Blocks of a run or of a session.

    Attributes:
        blocks: The blocks that were not removed after they were finished.
        model: The id of the model that answers; ``name`` until it is known.
        began: When the run began, by that clock.
        usage: Tokens and cost of the run.
        waiting_since: Time, by the clock, since which the model is waited for.
        asides: Additions to the closing line that are others each time.
        beside: What the page says beside the closing line, and no file: what the run took, and ``asides``.
        outputs: Outputs of calls for the user, where they can be shown.
        values_of: Returns the values in a whole answer, where its expressions are looked up.
        tracing: Looks up where the numbers of a part of an answer come from, where that is shown.
        conversation: The name of the conversation, if it is to be shown.
        failure: The run's failure, if the cell is to show it.
    """

    def __init__(
        self,
        model: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        renderer: Renderer = lambda _: None,
        tools: Callable[[], Mapping[str, Tool]] = dict,
        whole: bool = False,
    ) -> None:
        """Create an empty transcript.

        Args:
            tools: Returns the session's tools by name, which describe their calls.
            whole: Whether to show a whole conversation rather than one prompt: with the user's messages, and a
                closing line for every run.
        """
        self.blocks: list[Block] = []
        self.name = self.model = model
        self.clock = clock
        self.began = self._ticked = clock()
        self._changes = ChangesOfRun(in_panel=whole)
        self._changed: Card | None = None
        """The card of the last call that changed something."""
        self.usage: Usage = Usage()
        self.asked: bool = False
        self.waiting_since: float | None = None if whole else self.began
        self.note: str | None = None
        self.asides: list[str] = []
        self.beside = ""
        self._renderer = renderer
        self._tools = tools
        self.outputs: OutputBoard | None = None
        self.values_of: ValuesOf | None = None
        self.tracing: Tracing | None = None
        self._whole = whole
        self.conversation: str | None = None
        self.failure: MimeBundle | None = None
        self._count = 0
        self._prose: dict[int, Prose] = {}
        self._writing: dict[int, Card] = {}
        self._rewriting = Rewriting()
        self._cards: dict[str, Card] = {}
        self._newest: Card | None = None
        """The last card, if nothing follows it: it stays open."""
        self._last: AssistantMessage | None = None
        self._failed: AssistantMessage | None = None
        self._stopped = False
        self._ended: float | None = None
        """When the run ended, by the clock: cells and panels count until then, whatever they do afterwards."""
        self._prompted = False
        self._context: MimeBundle | None = None
        """Context that was sent with the next prompt: it is shown above the answer to that."""
        self._grew_at: float | None = None
        """Time at which the answer in progress grew last."""

    def feed(self, event: SessionEvent) -> None:
        """Update the blocks after an event."""
        match event:
            case MessageUpdate():  # first, for it comes with every delta
                self._grew_at = self.clock()
                self._grow(event.assistant_message_event)
            case AgentStart() | AgentEnd():
                self._begin_or_end(event)
            case TurnStart():
                self.waiting_since = self.clock()
                self.note = None
            case MessageStart(message=AssistantMessage()):
                self._end_failed()
                for block in self._rewriting.release():
                    self._finish(block)
                self._prose.clear()
                self._writing.clear()
            case MessageEnd():
                self._end_message(event.message)
            case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
                self._execute(event)
            case AutoRetryStart() | AutoRetryEnd() | CompactionStart() | CompactionEnd():
                self._recover(event)
            case TodoReminder() | TtsrTriggered() | SessionSaveFailed():
                self.add_notice(notice_of(event))
            case _:
                pass

    def add_notice(self, text: str) -> None:
        """Add a quiet line.

        If there are many, as from an extension, several share a block.
        """
        notice = blocks.notice(text)
        last = self.blocks[-1] if len(self.blocks) > _MAX_SEPARATE_BLOCKS else None
        if isinstance(last, Line) and last.is_notice and len(last.shown["text/html"]) < _MAX_NOTICE_CHARACTERS:
            last.shown = blocks.joined(last.shown, notice)
            last.version += 1
        else:
            self._add(Line(self._key(), finished=True, shown=notice, is_notice=True))

    def add_line(self, bundle: MimeBundle) -> None:
        """Add a finished block."""
        self._add(Line(self._key(), finished=True, shown=bundle))

    def add_history(self, messages: Iterable[Message], *, goes_on: bool = False) -> None:
        """Add stored messages, as they look when they are finished.

        Args:
            goes_on: Whether the run of the last ones goes on, whose events are fed next.
        """
        turn, messages = _StoredTurn(), [*messages]
        for at, message in enumerate(messages):
            if isinstance(message, UserMessage) and turn.last is not None:
                turn = self._end_stored_turn(turn)  # a call has ended it: no answer in words did
            if found := stored_rewritten(messages, at):
                turn = self._add_stored_rewritten(*found, turn)
                continue
            turn = self._add_stored_message(message, turn)
        if goes_on and turn.begun is not None:
            self._go_on(turn.spent, turn.begun, turn.last)
            return
        if turn.last is not None:
            self._end_stored_turn(turn)
        self._changes.take()
        self._finish_all()
        self._fold_newest()
        self._cards.clear()

    def _go_on(self, spent: Usage, begun: int, last: AssistantMessage | None) -> None:
        """Be in the middle of a run, of which the stored messages are the beginning.

        Args:
            begun: When it began, in ms since 1970.
        """
        self.asked, self.usage, self._last = True, spent, last
        self.began = self.clock() - max(0, now_ms() - begun) / 1000
        self.model = self.model if last is None else last.model or self.model
        called = set[str]() if last is None else {each.id for each in last.content if isinstance(each, ToolCall)}
        self._cards = {call_id: card for call_id, card in self._cards.items() if call_id in called}
        for block in self.blocks:
            if isinstance(block, Card) and any(block is card for card in self._cards.values()):
                block.call.state = "waiting"
            elif not block.finished:
                self._finish(block)

    def close(self, *, follows_jobs: bool = False, fails_cell: bool = False) -> None:
        """End open blocks, and add the failure and the closing line.

        Args:
            follows_jobs: Whether calls that became jobs still grow afterwards.
            fails_cell: Whether the cell fails with the error, and so shows it.
        """
        for block in self._rewriting.lost():
            if self._whole:
                block.instead = None
                block.version += 1
            else:
                self._add(replace(block, key=self._key(), instead=None, finished=True))
        self._finish_all(follows_jobs=follows_jobs)
        self._fold_newest()
        self.waiting_since = self.note = None
        if not self.asked:
            if not self._whole:
                self._end_badly(blocks.notice(_NOT_ASKED), fails_cell=fails_cell)
            return
        ending = "stopped" if self._stopped else None
        unseen: str | None = None
        match self._last:
            case AssistantMessage(stop_reason="error") as answer:
                why = answer.error_message or "The model gave no reason."
                self._end_badly(blocks.error(f"{why}{advice(why)}"), fails_cell=fails_cell)
            case AssistantMessage(stop_reason="aborted") as answer:
                ending = "stopped"
                unseen = _UNSEEN if answer.text.strip() else None
            case AssistantMessage(stop_reason="stop") as answer if not answer.text.strip():
                self.add_notice("The model said nothing.")
            case AssistantMessage(stop_reason="length"):
                ending = _CUT_OFF
            case _:
                pass
        if ending == "stopped" and fails_cell:
            self._end_badly(blocks.notice(_STOPPED_UNSEEN if unseen else _STOPPED), fails_cell=True)
            ending = unseen = None
        self._tell_changes()
        ended = self.clock() if self._ended is None else self._ended
        took = blocks.measures(self.usage, ended - self.began)
        ends = (self.conversation, unseen, ending)
        unsaved = blocks.usage(self.model, took, *ends, *self.asides)
        self._add(Line(self._key(), finished=True, shown=blocks.usage(self.model, *ends), unsaved=unsaved))
        self.beside: str = " · ".join(filter(None, (took, *self.asides)))

    def _tell_changes(self) -> None:
        """Say what changed where no card in sight says it: a panel has no rows, so there each card is."""
        said_by = self._changed if self._changes.are_of_one_call else None
        changed = self._changes.take()
        if changed and not (self._whole and said_by is not None):
            told = blocks.notice(changed)
            self._add(Line(self._key(), finished=True, shown=told, is_notice=said_by is None, card=said_by))

    def _end_badly(self, shown: MimeBundle, *, fails_cell: bool) -> None:
        if fails_cell:
            self.failure = shown
        else:
            self.add_line(shown)

    def _begin_or_end(self, event: AgentStart | AgentEnd) -> None:
        if isinstance(event, AgentEnd):
            self._ended = self.clock()
            return
        self._ended = None  # it goes on, as after a retry
        if not self.asked:
            self.began: float = self.clock()
        if self._whole and not self.asked:
            self.usage = Usage()
            self._last = self._failed = None
            self._stopped = False
        self.asked = True

    def end_run(self) -> None:
        """Close the run, and be ready for the next one."""
        self.close(follows_jobs=True)
        self.asked = False
        self._cards.clear()

    # An answer

    def _grow(self, event: AssistantMessageEvent) -> None:
        match event:
            case TextDelta() | ThinkingDelta():
                block = self._prose[event.content_index]
                block.pieces.append(event.delta)
                block.version += 1
                self.waiting_since = None
            case TextStart() | ThinkingStart():
                if isinstance(event, TextStart):
                    self._fold_newest()
                    self._withdraw_rewritten()
                thinking = isinstance(event, ThinkingStart)
                live = None if thinking or self.values_of is None else pending
                tracing = None if thinking else self.tracing
                block = self._add(Prose(self._key(), thinking=thinking, live=live, tracing=tracing))
                self._prose[event.content_index] = block
            case TextEnd() | ThinkingEnd():
                block = self._prose[event.content_index]
                block.ended = True  # and it is finished with its answer, which may still be begun again
                block.version += 1
            case ToolCallStart():
                self._writing[event.content_index] = self._card(event.id, event.tool_name, {})
                self.waiting_since = None
            case ToolCallDelta():
                card = self._writing[event.content_index]
                card.call.written += len(event.delta)
                card.version += 1
            case ToolCallEnd():
                card = self._card(event.tool_call.id, event.tool_call.name, event.tool_call.arguments)
                card.call.arguments = arguments_of(event.tool_call)
                card.call.described = self._described(card.call)
                card.call.state = "waiting"
                card.version += 1
            case _:
                pass

    def _end_message(self, message: Message) -> None:
        match message:
            case AssistantMessage():
                self._end_answer(message)
            case ToolResultMessage():
                self._end_unrun_call(message)
            case UserMessage() if not (self._whole or self._prompted):
                self._prompted = True  # the cell above shows it; what follows came from elsewhere
                self._show_context(message)
            case _:
                self._show_message(message)

    def _end_answer(self, message: AssistantMessage) -> None:
        self._last = message
        self.waiting_since = self._grew_at = None
        self.model: str = message.model or self.model
        self.usage = self.usage + message.usage
        if message.stop_reason == "error":
            return  # it may be begun again, in its place
        for block in self._prose.values():
            if block.live is pending and self.values_of is not None and message.stop_reason != "aborted":
                block.live = self.values_of(block.text)
        ended_well = message.stop_reason == "stop"
        if ended_well and message.text.strip() and (words := self._rewriting.end()) and not self._whole:
            self.asides.append(words)
        held = self._rewriting.hold(self._prose.values()) if ended_well else ()
        for key, block in [*self._prose.items()]:
            if any(block is each for each in held):
                block.version += 1
                del self._prose[key]
            else:
                self._finish(block)
        if message.stop_reason == "aborted":
            self._end_failed()

    def _end_failed(self) -> None:
        """Finish a failed answer that stays in the transcript."""
        for block in self._prose.values():
            if not block.finished:
                self._finish(block)
        for card in self._writing.values():
            if card.call.state in ("writing", "waiting"):
                self._end_card(card, "not run")

    def _withdraw(self, why: str) -> None:
        """Show an answer that is begun again as one line, which unfolds, or as a notice if it has no text."""
        prose = [block for block in self._prose.values() if "".join(block.pieces).strip()]
        parts = sorted((*self._prose.items(), *self._writing.items()), key=itemgetter(0))
        short = textcut.one_line(why, _MAX_REASON_CHARACTERS)
        if not prose:
            self.add_notice(f"The model failed ({short}). Trying again …")
        for _, block in parts:
            block.instead = {}
            if prose and block is prose[0]:
                text = "\n\n".join("".join(each.pieces) for each in prose)
                block.instead = blocks.folded(f"Broken off ({short})", f"{text}\n\n{why}")
            if block is self._newest:
                self._newest = None
            self._finish(block)

    def _withdraw_rewritten(self) -> None:
        """Have the answer that was sent back give way to the new one: a panel keeps it folded, a file nothing."""
        withdrawn = self._rewriting.withdraw()
        for block in withdrawn:
            block.instead = {}
            if self._whole and block is withdrawn[0]:
                text = "\n\n".join(with_values(each.text, each.live) for each in withdrawn)
                block.instead = blocks.folded(self._rewriting.words, text)
            self._finish(block)

    def _show_message(self, message: Message) -> None:
        """Add a message that is no part of the model's turn: of the user, an extension, a summary, a command."""
        match message:
            case UserMessage():
                titles = [each.title for each in message.attachments or () if not is_along(each)]
                text = "\n".join(filter(None, (text_of(message.content), *titles)))
                images = images_of(message.content)
                in_panel = blocks.panel_message(text, images, message.timestamp) if self._whole else ""
                shown = blocks.user_message(text, images)
                self._add(Line(self._key(), finished=True, shown=shown, in_panel=in_panel))
                self._show_context(message)
            case CustomMessage() if is_context(message):
                self._context = bundle(context(message))
            case CustomMessage(custom_type=kind) if kind == VALUES_TYPE:
                self._rewriting.send_back(message)
            case CustomMessage(custom_type="job"):
                title, _, text = text_of(message.content).partition("\n\n")
                shown = blocks.folded(title, f"```\n{text}\n```", opened=len(text.splitlines()) <= _FEW_LINES)
                self.add_line(shown)
            case CustomMessage():
                if message.display:
                    self.add_line(self._drawn(message))
            case BashExecutionMessage():
                self._show_command(message)
            case CompactionSummaryMessage():
                self.add_line(blocks.folded("The conversation so far, summarised", message.summary))
            case BranchSummaryMessage():
                self.add_line(blocks.folded("What another branch came to", message.summary))
            case _:
                pass

    def _show_context(self, message: UserMessage) -> None:
        if self._context is not None:
            self.add_line(self._context)
            self._context = None
        for along in contexts_along(message):
            self.add_line(bundle(along))

    def _show_command(self, message: BashExecutionMessage) -> None:
        state: CallState = "failed" if message.exit_code or message.cancelled else "done"
        call = blocks.Call("!", {"command": message.command}, state=state, output=message.output)
        self.add_line(blocks.call(call))

    def _drawn(self, message: CustomMessage) -> MimeBundle:
        """Return an extension's drawing of its message, or the message as text."""
        draw = self._renderer(message.custom_type)
        try:
            drawn = draw(message) if draw is not None else None
        except Exception:  # noqa: BLE001 - what cannot be drawn is shown as text
            drawn = None
        return drawn_bundle(drawn, text_of(message.content)) or blocks.answer(text_of(message.content))

    # Tool calls

    def _execute(self, event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd) -> None:
        match event:
            case ToolExecutionStart():
                card = self._card(event.tool_call_id, event.tool_name, event.args)
                card.call.state, card.started = "running", self.clock()
                if self.outputs is not None:
                    self.outputs.watch(event.tool_call_id, "panel" if self._whole else "cell")
            case ToolExecutionUpdate():
                card = self._card(event.tool_call_id, event.tool_name, event.args)
                card.output = event.partial_result.content
                card.shows = self._shown(event.tool_call_id)
                card.report_place(ran_in(event.partial_result.details), self.clock())
            case ToolExecutionEnd():
                card = self._card(event.tool_call_id, event.tool_name, {})
                card.shows = card.shows or self._shown(event.tool_call_id)
                card.show_result(event.result.content, event.result.details, stored=False)
                if self._changes.add(event.result.details):
                    self._changed = card
                card.call.seconds = None if card.started is None else self.clock() - card.started
                if not card.follow_job():
                    state = state_of(event.result.details, is_error=event.is_error)
                    self._end_card(card, card.call.state if card.finished else state)
        card.version += 1

    def job(self) -> Job | None:
        """Return the running job that is waited for and whose card is still growing, if any."""
        cards = (block for block in self.blocks if isinstance(block, Card) and not block.finished)
        jobs = (card.shows.job for card in cards if card.shows is not None and card.shows.job is not None)
        return next((job for job in jobs if not job.in_background), None)

    def paused_for(self) -> float:
        """Return the seconds since the answer in progress grew; 0 if there is none."""
        return 0 if self._grew_at is None else self.clock() - self._grew_at

    def tick(self, *, asking: bool = False, goes_on: bool = False) -> None:
        """Update the elapsed time of running calls.

        Args:
            asking: Whether the user is being asked: that time does not count for calls that may wait for the answer.
            goes_on: Whether what the user is asked about runs meanwhile, so that it does.
        """
        now = self.clock()
        passed, self._ticked = now - self._ticked, now
        for block in self.blocks:
            if isinstance(block, Card):
                self._follow_job(block)
            if not (isinstance(block, Card) and block.call.state == "running" and block.started is not None):
                continue
            may_be_asked = asking and (bool(block.call.ran) or not block.call.begun)
            if may_be_asked and not goes_on:
                block.started = min(now, block.started + passed)
            if block.call.asked != (may_be_asked and bool(block.call.ran)):
                block.call.asked = not block.call.asked
                block.version += 1
            seconds = float(int(now - block.started))
            if seconds and seconds != block.call.seconds:
                block.call.seconds = seconds
                block.version += 1

    def _end_unrun_call(self, result: ToolResultMessage) -> None:
        """End the card of a call that never started: the run was aborted, or the user steered the model."""
        card = self._cards.pop(result.tool_call_id, None)
        if card is not None and card.call.state == "waiting":
            card.output = result.content
            self._end_card(card, "not run")

    def _card(self, call_id: str, name: str, arguments: JsonObject) -> Card:
        """Return the card of a call, made on first use."""
        card = self._cards.get(call_id)
        if card is None or card.finished:  # an id may come twice
            call = blocks.Call(name, arguments)
            call.described = self._described(call)
            card = self._cards[call_id] = self._add(Card(self._key(), call=call, call_id=call_id, in_panel=self._whole))
            self._fold_newest(card)
        return card

    def _shown(self, call_id: str) -> CallOutputs | None:
        return self.outputs.of(call_id) if self.outputs is not None else None

    def _described(self, call: blocks.Call) -> CallDescription:
        return describe_call(call.name, call.arguments, self._tools())

    def _end_card(self, card: Card, state: CallState) -> None:
        card.call.state = state
        card.call.folded = card is not self._newest
        self._finish(card)

    def _fold_newest(self, newer: Card | None = None) -> None:
        """Fold the previous card, now that a block follows it; one that still runs folds when it ends."""
        card, self._newest = self._newest, newer
        if card is not None and card.finished:
            card.call.folded = True
            card.version += 1

    # Stored messages

    def _add_stored_message(self, message: Message, turn: _StoredTurn) -> _StoredTurn:
        """Add a message to the turn before it; return the turn of the next one."""
        if isinstance(message, UserMessage | AssistantMessage):
            turn.begun = turn.begun or message.timestamp
        match message:
            case AssistantMessage():
                turn.last = message
                turn.spent += message.usage
                for block in message.content:
                    self._add_stored(block)
                if message.stop_reason == "error":
                    self.add_line(blocks.error(message.error_message or "The model gave no reason."))
                if message.stop_reason != "toolUse":
                    return self._end_stored_turn(turn)
            case ToolResultMessage():
                card = self._cards.get(message.tool_call_id)
                self._end_stored_call(message)
                self._changes.add(message.details)
                if card is not None and card.call.described is not None and card.call.described.is_answer:
                    return self._end_stored_turn(turn)
            case _:
                self._show_message(message)
        return turn

    def _add_stored_rewritten(self, answer: AssistantMessage, words: str, turn: _StoredTurn) -> _StoredTurn:
        """Add an answer that was written anew as a line that unfolds."""
        turn.begun = turn.begun or answer.timestamp
        turn.last = answer
        turn.spent += answer.usage
        texts = [Prose("", pieces=[text], live=self.values_of and self.values_of(text)) for text in stored_text(answer)]
        text = "\n\n".join(with_values(each.text, each.live) for each in texts)
        self.add_line(blocks.folded(words, text))
        return turn

    def _end_stored_turn(self, turn: _StoredTurn) -> _StoredTurn:
        """Add the closing line of what answered one message of the user's; return the next turn."""
        last = turn.last
        model = self.model if last is None else last.model or self.model
        ends = () if last is None else _stored_end(last)
        self.add_line(blocks.usage(model, blocks.measures(turn.spent, None), *ends))
        self._changes.take()
        return _StoredTurn()

    def _add_stored(self, block: TextContent | ThinkingContent | ToolCall) -> None:
        match block:
            case TextContent():
                live = None if self.values_of is None else self.values_of(block.text)
                prose = Prose(self._key(), finished=True, pieces=[block.text], live=live)
                prose.tracing = self.tracing
                self._add(prose)
            case ThinkingContent():
                self._add(Prose(self._key(), finished=True, thinking=True, pieces=[block.thinking]))
            case ToolCall():
                card = self._card(block.id, block.name, arguments_of(block))
                card.call.state = "not run"

    def _end_stored_call(self, result: ToolResultMessage) -> None:
        card = self._cards.pop(result.tool_call_id, None)
        if card is not None:
            card.shows = self._shown(result.tool_call_id) if result.tool_name == card.call.name else None
            card.show_result(result.content, result.details, stored=True)
            self._end_card(card, state_of(result.details, is_error=result.is_error))

    # What follows a run by itself

    def _recover(self, event: AutoRetryStart | AutoRetryEnd | CompactionStart | CompactionEnd) -> None:
        """Update the failed answer while the session retries or compacts."""
        match event:
            case AutoRetryStart():
                self._failed, self._last = self._last, None
                self.note = (
                    f"trying again in {event.delay_ms / 1000:g} s (attempt {event.attempt} of {event.max_attempts})"
                )
                self._withdraw(event.error_message or "no reason given")
            case AutoRetryEnd():
                self.note = None
                self._stopped = self._last is None  # nothing was answered since the wait began
            case CompactionStart():
                self._end_failed()
                self._failed, self._last = self._last, None
                self.note = "summarising the conversation"
                if event.reason != "manual":
                    self.add_notice("The older part of the conversation has grown too long: it is summarised …")
            case CompactionEnd():
                self.note = None
                if event.result is None:
                    self.add_notice(event.error_message or "The summary was cancelled.")
                if not event.will_retry:
                    self._last = self._failed

    # Blocks

    def _key(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def _add(self, block: BlockT) -> BlockT:
        self.blocks.append(block)
        return block

    def _finish(self, block: Block) -> None:
        if isinstance(block, Prose) and block.live is pending:
            block.live = None  # it ended badly: its expressions are not looked up
        block.finished = True
        block.version += 1

    def _follow_job(self, card: Card, *, last: bool = False) -> bool:
        goes_on = card.follow_job(last=last)
        if card.finished and card is not self._newest:
            card.call.folded = True
        return goes_on

    def _finish_all(self, *, follows_jobs: bool = False) -> None:
        for block in self.blocks:
            if isinstance(block, Card) and self._follow_job(block, last=not follows_jobs) and follows_jobs:
                continue
            if block.finished:
                continue
            if isinstance(block, Card) and block.call.state in ("writing", "waiting", "running"):
                block.call.state = "not run"
            self._finish(block)
