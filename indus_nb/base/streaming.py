"""An answer while it grows: the deltas a provider yields, and the message they add up to.

A provider builds its answer with one ``GrowingMessage`` and yields what its methods return:

>>> growing = GrowingMessage(api="anthropic-messages", provider="anthropic", model="claude-haiku-4-5")
>>> growing.start().type
'start'
>>> opened = growing.open_text()
>>> growing.append(opened.content_index, "Hello").delta
'Hello'
>>> growing.close(opened.content_index).content
'Hello'
>>> growing.finish("stop").message.text
'Hello'

Deltas are kept as they came and joined when they are needed, so that an answer costs time in proportion to its length.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from indus_nb.base.messages import (
    AssistantBlock,
    AssistantMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    now_ms,
)
from indus_nb.base.wire import JsonObject, check_json_depth, check_json_values, clean_text, from_json, random_hex
from indus_nb.base.wire_model import FrozenModel, wire_field

MAX_ANSWER_CHARACTERS = 16 * 1024 * 1024
"""Most characters of one answer: text, thinking, tool calls, and what is signed of them."""
MAX_BLOCKS = 2000
"""Most blocks of one answer; while it grows a snapshot of it names them all."""
_MAX_LOOSE = 1024


class AnswerTooLargeError(ValueError):
    """An answer is larger than any model gives; the text is a clause that says so."""


class StreamEvent(FrozenModel):
    """A piece of an answer; it never changes."""


class StreamStart(StreamEvent):
    """The answer begins; ``growing`` is the message that will grow."""

    type: Literal["start"] = "start"
    growing: Any = wire_field(default=None, hidden=True)


class TextStart(StreamEvent):
    """A text block begins."""

    type: Literal["text_start"] = "text_start"
    content_index: int


class TextDelta(StreamEvent):
    """More text of a block."""

    type: Literal["text_delta"] = "text_delta"
    content_index: int
    delta: str


class TextEnd(StreamEvent):
    """A text block is whole."""

    type: Literal["text_end"] = "text_end"
    content_index: int
    content: str


class ThinkingStart(StreamEvent):
    """A thinking block begins."""

    type: Literal["thinking_start"] = "thinking_start"
    content_index: int


class ThinkingDelta(StreamEvent):
    """More thinking of a block."""

    type: Literal["thinking_delta"] = "thinking_delta"
    content_index: int
    delta: str


class ThinkingEnd(StreamEvent):
    """A thinking block is whole."""

    type: Literal["thinking_end"] = "thinking_end"
    content_index: int
    content: str


class ToolCallStart(StreamEvent):
    """A tool call begins; its arguments follow as pieces of JSON text."""

    type: Literal["toolcall_start"] = "toolcall_start"
    content_index: int
    id: str
    tool_name: str


class ToolCallDelta(StreamEvent):
    """More of the arguments' JSON text."""

    type: Literal["toolcall_delta"] = "toolcall_delta"
    content_index: int
    delta: str


class ToolCallEnd(StreamEvent):
    """A tool call is whole."""

    type: Literal["toolcall_end"] = "toolcall_end"
    content_index: int
    tool_call: ToolCall


class StreamDone(StreamEvent):
    """The answer is whole."""

    type: Literal["done"] = "done"
    reason: StopReason
    message: AssistantMessage


class StreamError(StreamEvent):
    """The answer failed or was aborted; ``error`` is the answer as far as it came, with ``error_message``."""

    type: Literal["error"] = "error"
    reason: Literal["error", "aborted"]
    error: AssistantMessage


BlockDelta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta
DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)
"""The same, to ask for the type of an event: a union takes longer."""
AssistantMessageEvent: TypeAlias = (
    StreamStart
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | StreamDone
    | StreamError
)


_Kind: TypeAlias = Literal["text", "thinking", "toolCall"]
_DELTAS: dict[_Kind, type[BlockDelta]] = {"text": TextDelta, "thinking": ThinkingDelta, "toolCall": ToolCallDelta}


@dataclass(slots=True)
class _OpenBlock:
    kind: _Kind
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    loose: int = 0  # pieces at the end that were not joined yet

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.loose += 1
        if self.loose == _MAX_LOOSE:  # a string of two characters takes fifty bytes
            self.pieces[-_MAX_LOOSE:] = ["".join(self.pieces[-_MAX_LOOSE:])]
            self.loose = 0

    def joined(self) -> str:
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
            self.loose = 0
        return self.pieces[0] if self.pieces else ""


class GrowingMessage:
    """An assistant message to which deltas are appended and of which a whole copy can be had at any time.

    >>> growing = GrowingMessage(api="a", provider="p", model="m")
    >>> index = growing.open_text().content_index
    >>> growing.append(index, "Hel").delta, growing.append(index, "lo").delta
    ('Hel', 'lo')
    >>> growing.snapshot().text
    'Hello'
    """

    def __init__(self, *, api: str, provider: str, model: str) -> None:
        self.api = api
        self.provider = provider
        self.model = model
        self.usage: Usage = Usage()
        self.response_id: str | None = None
        self._timestamp = now_ms()
        self._blocks: list[AssistantBlock | _OpenBlock] = []
        self._call_ids: set[str] = set()
        self._left = MAX_ANSWER_CHARACTERS

    def start(self) -> StreamStart:
        """Return the first event of every stream."""
        return StreamStart(growing=self)

    def open_text(self) -> TextStart:
        """Begin a text block; its ``content_index`` names it from then on."""
        return TextStart(content_index=self._open(_OpenBlock("text")))

    def open_thinking(self) -> ThinkingStart:
        """Begin a thinking block."""
        return ThinkingStart(content_index=self._open(_OpenBlock("thinking")))

    def open_tool_call(self, call_id: str, name: str) -> ToolCallStart:
        """Begin a tool call; its arguments are appended as JSON text.

        Args:
            call_id: The id that the server gave it. One that is empty, or that another call of this answer has, is
                replaced: results could not be told apart.
            name: The tool's name.

        Returns:
            The event to emit, with the id that the result will refer to; its ``content_index`` names the block from
            then on.
        """
        if not call_id or call_id in self._call_ids:
            call_id = f"call_{random_hex(12)}"
        self._call_ids.add(call_id)
        self.reserve(len(call_id) + len(name))
        index = self._open(_OpenBlock("toolCall", call_id=call_id, name=name))
        return ToolCallStart(content_index=index, id=call_id, tool_name=name)

    @property
    def characters(self) -> int:
        """Return how many characters it holds so far."""
        return MAX_ANSWER_CHARACTERS - self._left

    def reserve(self, characters: int) -> None:
        """Count characters that the answer holds, or that are held for it until it is whole.

        Raises:
            AnswerTooLargeError: There are too many.
        """
        self._left -= characters
        if self._left < 0:
            raise AnswerTooLargeError(f"the answer is larger than {MAX_ANSWER_CHARACTERS // 1024 // 1024} MB")

    def _open(self, block: _OpenBlock) -> int:
        if len(self._blocks) >= MAX_BLOCKS:
            raise AnswerTooLargeError(f"the answer has more than {MAX_BLOCKS:,} blocks")
        self._blocks.append(block)
        return len(self._blocks) - 1

    def append(self, index: int, delta: str) -> BlockDelta:
        """Append text to an open block.

        Args:
            index: The block's ``content_index``.
            delta: The text; lone surrogates are replaced.

        Returns:
            The event to emit.

        Raises:
            AnswerTooLargeError: The answer would be larger than any.
        """
        block = self._open_block(index)
        delta = clean_text(delta)
        self.reserve(len(delta))
        block.add(delta)
        return _DELTAS[block.kind](content_index=index, delta=delta)

    def close(
        self, index: int, *, signature: str | None = None, redacted: bool | None = None
    ) -> TextEnd | ThinkingEnd | ToolCallEnd:
        """End an open block.

        Args:
            index: The block's ``content_index``.
            signature: The signature of a thinking block.
            redacted: Whether the provider encrypted the thinking.

        Returns:
            The event to emit, with the whole content. Arguments of a tool call that are no JSON object are kept as
            ``malformed``.
        """
        block = self._open_block(index)
        self.reserve(len(signature or ""))
        text = block.joined()
        if block.kind == "text":
            self._blocks[index] = TextContent(text=text)
            return TextEnd(content_index=index, content=text)
        if block.kind == "thinking":
            self._blocks[index] = ThinkingContent(thinking=text, thinking_signature=signature, redacted=redacted)
            return ThinkingEnd(content_index=index, content=text)
        arguments = _arguments(text)
        call = ToolCall(
            id=block.call_id,
            name=block.name,
            arguments={} if arguments is None else arguments,
            malformed=text if arguments is None else None,
        )
        self._blocks[index] = call
        return ToolCallEnd(content_index=index, tool_call=call)

    def is_open(self, index: int) -> bool:
        """Return whether block ``index`` can still be appended to."""
        return isinstance(self._blocks[index], _OpenBlock)

    def finish(self, reason: StopReason) -> StreamDone:
        """Return the last event of a successful answer."""
        return StreamDone(reason=reason, message=self.snapshot(reason))

    def fail(self, message: str, reason: Literal["error", "aborted"] = "error") -> StreamError:
        """End an answer that broke off; what has arrived is kept.

        Args:
            message: The error message for the user.
            reason: Whether it failed or was aborted.

        Returns:
            The last event of the stream.
        """
        return StreamError(reason=reason, error=self.snapshot(reason, error_message=clean_text(message)))

    def block(self, index: int) -> AssistantBlock:
        """Return block ``index`` as it stands."""
        block = self._blocks[index]
        return _frozen(block) if isinstance(block, _OpenBlock) else block

    def snapshot(
        self, stop_reason: StopReason = "stop", *, error_message: str | None = None, with_content: bool = True
    ) -> AssistantMessage:
        """Copy the message as it stands.

        Args:
            stop_reason: The copy's stop reason.
            error_message: The copy's error message.
            with_content: Whether to include the content blocks, which takes time proportional to their length.

        Returns:
            A message that does not grow with this one.
        """
        return AssistantMessage(
            content=[self.block(index) for index in range(len(self._blocks))] if with_content else [],
            api=self.api,
            provider=self.provider,
            model=self.model,
            usage=self.usage,
            stop_reason=stop_reason,
            error_message=error_message,
            response_id=self.response_id,
            timestamp=self._timestamp,
        )

    def _open_block(self, index: int) -> _OpenBlock:
        block = self._blocks[index]
        if not isinstance(block, _OpenBlock):
            raise ValueError(f"block {index} is closed")
        return block


def _frozen(block: _OpenBlock) -> AssistantBlock:
    text = block.joined()
    if block.kind == "text":
        return TextContent(text=text)
    if block.kind == "thinking":
        return ThinkingContent(thinking=text)
    return ToolCall(id=block.call_id, name=block.name, arguments=partial_arguments(text))


def _arguments(text: str) -> JsonObject | None:
    if not text.strip():
        return {}
    try:
        check_json_values(text)
        check_json_depth(text)
        value: object = from_json(text)
    except ValueError:
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def partial_arguments(text: str) -> JsonObject:
    """Parse as much as possible of a JSON object of which only the beginning has arrived.

    >>> partial_arguments('{"command": "ls -l", "timeo')
    {'command': 'ls -l'}
    """
    try:
        check_json_values(text)
        value: object = from_json(text, allow_partial=True)
    except ValueError:
        return {}
    return cast("JsonObject", value) if isinstance(value, dict) else {}
