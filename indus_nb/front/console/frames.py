"""Events as JSON lines, in the shape that a reader asked for.

What this module promises:

- Each event becomes one line or none, and nothing of it depends on what else is sent, but for the answer that grows.
- In a snapshot stream every ``message_update`` holds the whole answer so far. Each piece of text is escaped once, when
  it arrives, and a frame is put together from the pieces: the work for a delta is copying, not encoding.
- In a delta stream a ``message_update`` is as long as the delta.
- A strict stream holds events and fields alone that ``strict`` lists, and one for pi those of ``as_pi``, so that their
  events never gain a field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, assert_never, cast

from indus_nb.base.events import (
    CompactionEnd,
    CompactionStart,
    MessageUpdate,
    SessionEvent,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
)
from indus_nb.base.messages import Usage
from indus_nb.base.streaming import (
    AssistantMessageEvent,
    GrowingMessage,
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    partial_arguments,
)
from indus_nb.base.wire import JsonObject, dump

if TYPE_CHECKING:
    from indus_nb.front.console.shapes import Dialect

Wire = Literal["snapshot", "delta", "strict", "pi", "omp"]
_Part = Literal["message", "block", "update"]


def dialect_of(wire: Wire) -> Dialect | None:
    """Return what a shape lists of which each event and field is listed; ``None`` for the others."""
    if wire == "strict":
        from indus_nb.front.console.strict import STRICT  # few clients ask for either

        return STRICT
    if wire == "pi":
        from indus_nb.front.console.as_pi import PI

        return PI
    return None


class FrameEncoder:
    """Encoder of a stream's frames, one event after the other.

    Args:
        wire: ``snapshot`` repeats the whole answer with each delta, as in the protocol's first documents; ``delta``
            leaves it out; ``strict`` is ``snapshot`` with the fields alone that those documents name, and ``pi`` with
            those of pi 0.73; ``omp`` is ``snapshot`` behind a first frame ``ready``.
    """

    def __init__(self, wire: Wire = "snapshot") -> None:
        self._wire: Wire = wire
        self._dialect = dialect_of(wire)
        self._answer: _EncodedAnswer | None = None

    def encode(self, event: SessionEvent) -> bytes | None:
        """Return the frame of an event, without a line end; ``None`` for one that is not sent in this shape."""
        match event:
            case MessageUpdate():
                return _delta(event) if self._wire == "delta" else self._snapshot(event)
            case CompactionStart() | CompactionEnd():
                newer = self._dialect.newer_compaction if self._dialect is not None else self._wire == "delta"
                line = _compaction(event, newer=newer)
            case SubagentLifecycle() | SubagentProgress() | SubagentEvent():
                return None  # sent to subscribers alone: see ``subagents``
            case _:
                line = dump(event)
        return line if line is None or self._dialect is None else self._dialect.line(line)

    def _dump(self, value: object, part: _Part) -> bytes:
        return dump(value) if self._dialect is None else self._dialect.json(value, getattr(self._dialect, part))

    def _snapshot(self, event: MessageUpdate) -> bytes | None:
        growing = cast("GrowingMessage", event.growing)
        happened = event.assistant_message_event
        if self._answer is None or isinstance(happened, StreamStart):
            self._answer = _EncodedAnswer(growing, self._dump)
        self._answer.apply(happened)
        is_known = self._dialect is None or happened.type in self._dialect.update.shapes
        if isinstance(happened, StreamDone | StreamError):
            self._answer = None
            if not is_known:
                return None
            final = happened.message if isinstance(happened, StreamDone) else happened.error
            return b'{"type":"message_update","message":%b,"assistantMessageEvent":%b}' % (
                self._dump(final, "message"),
                self._dump(happened, "update"),
            )
        if not is_known:
            return None
        message = self._answer.encoded()
        return b'{"type":"message_update","message":%b,"assistantMessageEvent":%b,"partial":%b}}' % (
            message,
            self._dump(happened, "update")[:-1],
            message,
        )


def _delta(event: MessageUpdate) -> bytes:
    growing = cast("GrowingMessage", event.growing)
    return b'{"type":"message_update","usage":%b,"assistantMessageEvent":%b}' % (
        dump(growing.usage),
        dump(event.assistant_message_event),
    )


def _compaction(event: CompactionStart | CompactionEnd, *, newer: bool) -> bytes | None:
    frame: JsonObject = event.to_wire()
    if isinstance(event, CompactionEnd):
        frame["result"] = event.result
    if newer:
        return dump(frame)
    if event.reason == "manual":
        return None
    if isinstance(event, CompactionEnd):
        del frame["reason"]
    return dump({**frame, "type": f"auto_{event.type}"})


class _EncodedAnswer:
    """The JSON of an answer that grows, kept in pieces."""

    def __init__(self, growing: GrowingMessage, dump: Callable[[object, _Part], bytes]) -> None:
        self._growing = growing
        self._dump = dump
        self._blocks: list[_EncodedBlock] = []
        self._head = self._tail = b""
        self._usage: Usage | None = None

    def apply(self, event: AssistantMessageEvent) -> None:
        match event:
            case TextStart():
                self._blocks.append(_EncodedText(b'{"type":"text","text":"'))
            case ThinkingStart():
                self._blocks.append(_EncodedText(b'{"type":"thinking","thinking":"'))
            case ToolCallStart():
                self._blocks.append(_EncodedCall(event))
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                self._blocks[event.content_index].append(event.delta)
            case TextEnd() | ThinkingEnd() | ToolCallEnd():
                block = self._growing.block(event.content_index)
                self._blocks[event.content_index] = _EncodedText(self._dump(block, "block"), b"")
            case StreamStart() | StreamDone() | StreamError():
                pass
            case _:
                assert_never(event)

    def encoded(self) -> bytes:
        if self._usage is not self._growing.usage:
            # What surrounds the content changes only with the usage.
            self._usage = self._growing.usage
            empty = self._growing.snapshot(with_content=False)
            self._head, _, self._tail = self._dump(empty, "message").partition(b'"content":[]')
        content = b",".join(block.encoded() for block in self._blocks)
        return b'%b"content":[%b]%b' % (self._head, content, self._tail)


class _EncodedText:
    def __init__(self, opening: bytes, closing: bytes = b'"}') -> None:
        self._encoded = bytearray(opening)
        self._closing = closing

    def append(self, delta: str) -> None:
        self._encoded += dump(delta)[1:-1]

    def encoded(self) -> bytes:
        return b"".join((self._encoded, self._closing))


class _EncodedCall:
    def __init__(self, start: ToolCallStart) -> None:
        self._opening = dump({"type": "toolCall", "id": start.id, "name": start.tool_name})[:-1]
        self._arguments: list[str] = []

    def append(self, delta: str) -> None:
        self._arguments.append(delta)

    def encoded(self) -> bytes:
        self._arguments[:] = ["".join(self._arguments)]
        return b'%b,"arguments":%b}' % (self._opening, dump(partial_arguments(self._arguments[0])))


_EncodedBlock = _EncodedText | _EncodedCall
