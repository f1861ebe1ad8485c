"""The events of a run, or of a whole session, as blocks in the order in which they began.

A ``Transcript`` draws nothing. Its blocks are drawn by ``cell``: into the output of a cell, or into a widget while they
still grow.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

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
    SessionSaveFailed,
    TodoReminder,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TtsrTriggered,
    TurnStart,
)
from indus_nb.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from indus_nb.notebook.view import blocks
from indus_nb.notebook.view.blocks import MimeBundle
from indus_nb.providers.refusals import GO_BACK
from indus_nb.render.markup import plain
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
from indus_nb.tools import CallDescription, Tool, describe_call
from indus_nb.tools.todo import list_of_result
from indus_nb.wire import JsonObject, dump

Renderer: TypeAlias = Callable[[str], Callable[..., Any] | None]
"""Gives what draws the messages of an extension's type, if anything does."""


@dataclass
class Block:
    """A part of a transcript.

    ``version`` grows with every change; a ``finished`` one will not change any more.
    """

    key: str
    version: int = 0
    finished: bool = False


@dataclass
class Prose(Block):
    """A text of the model's, or its reasoning, in the pieces in which it came."""

    thinking: bool = False
    pieces: list[str] = field(default_factory=list[str])


@dataclass
class Card(Block):
    """A tool call.

    ``output`` is the latest report; ``started`` is a time of the transcript's clock.
    """

    call: blocks.Call = field(default_factory=lambda: blocks.Call("", {}))
    output: Sequence[TextContent | ImageContent] = ()
    started: float | None = None

    def bundle(self) -> MimeBundle:
        """The card as it is now."""
        self.call.output = "\n".join(_as_text(block) for block in self.output)
        return blocks.call(self.call)

    def pictures(self) -> list[ImageContent]:
        """The images among its output that can be shown."""
        images = [block for block in self.output if isinstance(block, ImageContent)]
        return [image for image in images if blocks.can_show(image)]


@dataclass
class Line(Block):
    """Something that is whole from the beginning.

    It is a notice, an error, or a message that is not the model's.
    """

    shown: MimeBundle = field(default_factory=dict[str, str])
    is_notice: bool = False


BlockT = TypeVar("BlockT", bound=Block)
_MAX_SEPARATE_BLOCKS = 30
_MAX_NOTICE_CHARACTERS = 10_000


class Transcript:
    """The blocks of a run or of a session.

    Attributes:
        blocks: Those that were not removed after they were finished.
        name: The name of the model that was asked.
        model: The id of the model that answers; ``name`` until it is known.
        clock: Counts seconds.
        began: When the run began, by that clock.
        usage: Tokens and cost of the run.
        asked: Whether the run has begun.
        waiting_since: Since when the model is waited for, by the clock.
        note: What goes on beside the answer.
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
        """Begin without blocks.

        Args:
            model: The model's name.
            clock: Counts seconds.
            renderer: Finds what draws the messages of an extension.
            tools: Gives the session's tools by name, which describe their calls.
            whole: Whether to show a whole conversation rather than one prompt: with the user's messages, and a
                closing line for every run.
        """
        self.blocks: list[Block] = []
        self.name = self.model = model
        self.clock = clock
        self.began = self._ticked = clock()
        self.usage = Usage()
        self.asked = False
        self.waiting_since: float | None = None if whole else self.began
        self.note: str | None = None
        self._renderer = renderer
        self._tools = tools
        self._whole = whole
        self._count = 0
        self._prose: dict[int, Prose] = {}
        self._writing: dict[int, Card] = {}
        self._cards: dict[str, Card] = {}
        self._last: AssistantMessage | None = None
        self._failed: AssistantMessage | None = None
        self._stopped = False
        self._prompted = False

    def feed(self, event: SessionEvent) -> None:
        """Update the blocks after an event."""
        match event:
            case MessageUpdate():  # first, for it comes with every delta
                self._grow(event.assistant_message_event)
            case AgentStart():
                self._begin()
            case TurnStart():
                self.waiting_since = self.clock()
                self.note = None
            case MessageStart(message=AssistantMessage()):
                self._prose.clear()
                self._writing.clear()
            case MessageEnd():
                self._end_message(event.message)
            case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
                self._execute(event)
            case AutoRetryStart() | AutoRetryEnd() | CompactionStart() | CompactionEnd():
                self._recover(event)
            case TodoReminder() | TtsrTriggered() | SessionSaveFailed():
                self.add_notice(_notice(event))
            case _:
                pass

    def add_notice(self, text: str) -> None:
        """Add a quiet line.

        Of many, which an extension may add at once, several share a block.
        """
        notice = blocks.notice(text)
        last = self.blocks[-1] if len(self.blocks) > _MAX_SEPARATE_BLOCKS else None
        if isinstance(last, Line) and last.is_notice and len(last.shown["text/html"]) < _MAX_NOTICE_CHARACTERS:
            last.shown = blocks.joined(last.shown, notice)
            last.version += 1
        else:
            self._add(Line(self._key(), finished=True, shown=notice, is_notice=True))

    def add_history(self, messages: Iterable[Message]) -> None:
        """Add stored messages, as they look when they are finished."""
        for message in messages:
            match message:
                case AssistantMessage():
                    for block in message.content:
                        self._add_stored(block)
                    if message.stop_reason == "error":
                        self._add_line(blocks.error(message.error_message or "The model gave no reason."))
                case ToolResultMessage():
                    self._end_stored_call(message)
                case _:
                    self._show_message(message)
        self._finish_all()
        self._cards.clear()

    def close(self) -> None:
        """End what is still open, and add what went wrong and the closing line."""
        self._finish_all()
        self.waiting_since = self.note = None
        if not self.asked:
            if not self._whole:
                self.add_notice("Nothing was asked of the model.")
            return
        ending = "stopped" if self._stopped else None
        match self._last:
            case AssistantMessage(stop_reason="error") as answer:
                self._add_line(blocks.error(answer.error_message or "The model gave no reason."))
                if GO_BACK in (answer.error_message or ""):
                    self.add_notice("%agent tree lists the entries, and %agent tree ENTRY goes on from one of them.")
            case AssistantMessage(stop_reason="aborted"):
                ending = "stopped"
            case AssistantMessage(stop_reason="stop") as answer if not answer.text.strip():
                self.add_notice("The model said nothing.")
            case AssistantMessage(stop_reason="length"):
                ending = "cut off at the model's limit of output"
            case _:
                pass
        self._add_line(blocks.usage(self.model, self.usage, self.clock() - self.began, ending=ending))

    def _begin(self) -> None:
        if self._whole and not self.asked:
            self.began = self.clock()
            self.usage = Usage()
            self._last = self._failed = None
            self._stopped = False
        self.asked = True

    def end_run(self) -> None:
        """Close the run, and be ready for the next one."""
        self.close()
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
                block = self._add(Prose(self._key(), thinking=isinstance(event, ThinkingStart)))
                self._prose[event.content_index] = block
            case TextEnd() | ThinkingEnd():
                self._finish(self._prose[event.content_index])
            case ToolCallStart():
                self._writing[event.content_index] = self._card(event.id, event.tool_name, {})
                self.waiting_since = None
            case ToolCallDelta():
                card = self._writing[event.content_index]
                card.call.written += len(event.delta)
                card.version += 1
            case ToolCallEnd():
                card = self._card(event.tool_call.id, event.tool_call.name, event.tool_call.arguments)
                card.call.arguments = _arguments(event.tool_call)
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
            case _:
                self._show_message(message)

    def _end_answer(self, message: AssistantMessage) -> None:
        self._last = message
        self.waiting_since = None
        self.model = message.model or self.model
        self.usage = self.usage + message.usage
        for block in self._prose.values():
            self._finish(block)
        if message.stop_reason in ("error", "aborted"):
            for card in self._writing.values():
                self._end_card(card, "not run")

    def _show_message(self, message: Message) -> None:
        """Add a message that is no part of the model's turn: of the user, an extension, a summary, a command."""
        match message:
            case UserMessage():
                titles = [attachment.title for attachment in message.attachments or ()]
                text = "\n".join(filter(None, (text_of(message.content), *titles)))
                self._add_line(blocks.user_message(text, _images(message.content)))
            case CustomMessage():
                if message.display:
                    self._add_line(self._drawn(message))
            case BashExecutionMessage():
                self._show_command(message)
            case CompactionSummaryMessage():
                self._add_line(blocks.folded("The conversation so far, summarised", message.summary))
            case BranchSummaryMessage():
                self._add_line(blocks.folded("What another branch came to", message.summary))
            case _:
                pass

    def _show_command(self, message: BashExecutionMessage) -> None:
        state: blocks.CallState = "failed" if message.exit_code or message.cancelled else "done"
        call = blocks.Call("!", {"command": message.command}, state=state, output=message.output)
        self._add_line(blocks.call(call))

    def _drawn(self, message: CustomMessage) -> MimeBundle:
        """A message of an extension, as the extension draws it if it does."""
        draw = self._renderer(message.custom_type)
        try:
            drawn = draw(message) if draw is not None else None
        except Exception:  # noqa: BLE001 - what cannot be drawn is shown as text
            drawn = None
        return _bundle(drawn, text_of(message.content)) or blocks.answer(text_of(message.content))

    # Tool calls

    def _execute(self, event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd) -> None:
        match event:
            case ToolExecutionStart():
                card = self._card(event.tool_call_id, event.tool_name, event.args)
                card.call.state, card.started = "running", self.clock()
            case ToolExecutionUpdate():
                card = self._card(event.tool_call_id, event.tool_name, event.args)
                card.output = event.partial_result.content
                card.call.begun = True
            case ToolExecutionEnd():
                card = self._card(event.tool_call_id, event.tool_name, {})
                card.output = event.result.content
                card.call.diff = _diff(event.result.details)
                card.call.checklist = list_of_result(event.tool_name, event.result.details)
                card.call.seconds = None if card.started is None else self.clock() - card.started
                self._end_card(card, "failed" if event.is_error else "done")
        card.version += 1

    def tick(self, *, asking: bool = False) -> None:
        """Update the elapsed time of running calls.

        Args:
            asking: Whether the user is being asked: that time does not count for calls that may wait for the answer.
        """
        now = self.clock()
        passed, self._ticked = now - self._ticked, now
        for block in self.blocks:
            if not (isinstance(block, Card) and block.call.state == "running" and block.started is not None):
                continue
            if asking and not block.call.begun:
                block.started = min(now, block.started + passed)
            seconds = float(int(now - block.started))
            if seconds and seconds != block.call.seconds:
                block.call.seconds = seconds
                block.version += 1

    def _end_unrun_call(self, result: ToolResultMessage) -> None:
        """A call that was answered without being started: the run was aborted, or the user steered the model."""
        card = self._cards.pop(result.tool_call_id, None)
        if card is not None and card.call.state == "waiting":
            card.output = result.content
            self._end_card(card, "not run")

    def _card(self, call_id: str, name: str, arguments: JsonObject) -> Card:
        """The card of that call, which is made when the call is new."""
        card = self._cards.get(call_id)
        if card is None or card.finished:  # an id may come twice
            call = blocks.Call(name, arguments)
            call.described = self._described(call)
            card = self._cards[call_id] = self._add(Card(self._key(), call=call))
        return card

    def _described(self, call: blocks.Call) -> CallDescription:
        return describe_call(call.name, call.arguments, self._tools())

    def _end_card(self, card: Card, state: blocks.CallState) -> None:
        card.call.state = state
        self._finish(card)

    # Stored messages

    def _add_stored(self, block: TextContent | ThinkingContent | ToolCall) -> None:
        match block:
            case TextContent():
                self._add(Prose(self._key(), finished=True, pieces=[block.text]))
            case ThinkingContent():
                self._add(Prose(self._key(), finished=True, thinking=True, pieces=[block.thinking]))
            case ToolCall():
                card = self._card(block.id, block.name, _arguments(block))
                card.call.state = "not run"

    def _end_stored_call(self, result: ToolResultMessage) -> None:
        card = self._cards.pop(result.tool_call_id, None)
        if card is not None:
            card.output = result.content
            card.call.diff = _diff(result.details)
            card.call.checklist = list_of_result(result.tool_name, result.details)
            self._end_card(card, "failed" if result.is_error else "done")

    # What follows a run by itself

    def _recover(self, event: AutoRetryStart | AutoRetryEnd | CompactionStart | CompactionEnd) -> None:
        """An answer that failed is not the last one while the session still tries to do better."""
        match event:
            case AutoRetryStart():
                self._failed, self._last = self._last, None
                self.note = (
                    f"trying again in {event.delay_ms / 1000:g} s (attempt {event.attempt} of {event.max_attempts})"
                )
                self.add_notice(f"The model failed ({event.error_message or 'no reason given'}). Trying again …")
            case AutoRetryEnd():
                self.note = None
                self._stopped = self._last is None  # nothing was answered since the wait began
            case CompactionStart():
                self._failed, self._last = self._last, None
                self.note = "summarising the conversation"
                why = "" if event.reason == "manual" else " has grown too long: it"
                self.add_notice(f"The older part of the conversation{why} is summarised …")
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

    def _add_line(self, bundle: MimeBundle) -> None:
        self._add(Line(self._key(), finished=True, shown=bundle))

    def _finish(self, block: Block) -> None:
        block.finished = True
        block.version += 1

    def _finish_all(self) -> None:
        for block in self.blocks:
            if isinstance(block, Card) and block.call.state in ("writing", "waiting", "running"):
                block.call.state = "not run"
            if not block.finished:
                self._finish(block)


def _bundle(drawn: object, text: str) -> MimeBundle | None:
    """What an extension drew, with ``text`` as its plain text; ``None`` if it is no MIME bundle."""
    if not isinstance(drawn, dict):
        return None
    try:
        bundle: JsonObject = {"text/plain": plain(text), **json.loads(dump(cast("JsonObject", drawn)))}
    except (TypeError, ValueError):
        return None
    whole = all(isinstance(data, str) for kind, data in bundle.items() if kind.startswith("text/"))
    return cast("MimeBundle", bundle) if whole else None


def _notice(event: TodoReminder | TtsrTriggered | SessionSaveFailed) -> str:
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


def _arguments(call: ToolCall) -> JsonObject:
    return call.arguments if call.malformed is None else {"arguments (not JSON)": call.malformed}


def _diff(details: object) -> str | None:
    if isinstance(details, dict):
        diff: object = cast("JsonObject", details).get("diff")
        if isinstance(diff, str):
            return diff
    return None


def _images(content: object) -> list[ImageContent]:
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
