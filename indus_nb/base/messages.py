"""The messages of a session: content blocks, messages, usage, and the part of them that a model is sent."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any, Literal, TypeAlias, cast

from indus_nb.base.readers import InvalidFieldsError, reader
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel, wire_field

REFUSED = "The model refused to answer."
OVER_BUDGET = "The budget of "
NO_PRICE = "The price of "
NOT_ASKED = "No model is asked "
StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]
ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]


def now_ms() -> int:
    """Return milliseconds since the epoch: the time stamp of a message."""
    return time.time_ns() // 1_000_000


class TextContent(WireModel):
    """Text of a user, a model or a tool."""

    type: Literal["text"] = "text"
    text: str
    text_signature: str | None = None


class UrlSource(WireModel):
    """Address of an image that is not sent along."""

    type: Literal["url"] = "url"
    url: str


class ImageContent(WireModel):
    """An image, either its bytes in base64 (``data`` and ``mime_type``) or the place it lies at (``source``).

    Both spellings of the protocol are read; the flat one is written:

    >>> ImageContent.from_wire(
    ...     {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "aGk="}}
    ... ).to_wire()
    {'type': 'image', 'data': 'aGk=', 'mimeType': 'image/png'}
    """

    type: Literal["image"] = "image"
    data: str | None = None
    mime_type: str | None = None
    source: UrlSource | None = None

    @classmethod
    def usual_shape(cls, given: JsonObject) -> JsonObject:
        """Return the flat spelling."""
        source: object = given.get("source")
        if isinstance(source, dict) and cast("JsonObject", source).get("type") == "base64":
            inner = cast("JsonObject", source)
            rest = {key: item for key, item in given.items() if key != "source"}
            return {**rest, "data": inner.get("data"), "mimeType": inner.get("mediaType") or inner.get("media_type")}
        return given

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if there is no image."""
        if self.source is None and not (self.data and self.mime_type):
            raise ValueError("an image needs data and mimeType, or a source with a url")


_MAX_NAME_CHARACTERS = 200
_SIGNATURES = {
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
"""First bytes of each kind of image."""
IMAGE_TYPES = tuple(_SIGNATURES)
"""The MIME types of images that models accept."""


def image_type(start: bytes) -> str | None:
    """Return the MIME type of a file by its first 12 bytes, ``None`` if models do not accept it.

    >>> image_type(b"GIF89a......"), image_type(b"%PDF-1.7....")
    ('image/gif', None)
    """
    return next((kind for kind, signature in _SIGNATURES.items() if signature.match(start)), None)


def check_image(image: ImageContent) -> None:
    """Raise ``ValueError`` for an image from outside that no model could be shown: it would spoil every request."""
    if image.source is not None:
        if not image.source.url.lower().startswith(("http://", "https://")):
            raise ValueError("the url of an image must begin with http:// or https://")
        return
    kind = image.mime_type or ""
    if kind not in IMAGE_TYPES:
        raise ValueError(f"mimeType must be one of {', '.join(IMAGE_TYPES)}")
    try:
        data = base64.b64decode(image.data or "", validate=True)
    except ValueError as error:
        raise ValueError(f"data must be base64 ({error})") from error
    if image_type(data[:12]) != kind:
        raise ValueError(f"data is no {kind.removeprefix('image/')} image")


class ThinkingContent(WireModel):
    """A model's reasoning. ``redacted`` blocks carry no text, only the signature to send back."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    thinking_signature: str | None = None
    redacted: bool | None = None


class ToolCall(WireModel):
    """A model's request to run a tool.

    ``malformed`` holds the argument text as received when it was no JSON object; ``arguments`` is empty then.
    """

    type: Literal["toolCall"] = "toolCall"
    id: str
    name: str
    arguments: dict[str, Any]
    thought_signature: str | None = None
    malformed: str | None = wire_field(default=None, hidden=True)


UserBlock: TypeAlias = TextContent | ImageContent
AssistantBlock: TypeAlias = TextContent | ThinkingContent | ToolCall


class Cost(WireModel):
    """Cost of a request, in US dollars; ``unknown`` is true where a price is not known, and the amounts lack it.

    ``unconfirmed`` is the most that it may have cost besides, where nobody has said what it did. ``replayed`` is true
    of a request that was not sent, for its answer was recorded or kept, and ``before`` is what it had cost then.
    """

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0
    unknown: bool | None = None
    unconfirmed: float | None = None
    replayed: bool | None = None
    before: float | None = None

    def scaled(self, share: float, more: float = 0.0) -> Cost:
        """Return the cost at a share of the prices, with something that is no token.

        Args:
            share: What each amount is multiplied by.
            more: US dollars that are in the total alone.
        """
        if share == 1 and not more:
            return self
        amounts = {name: getattr(self, name) * share for name in _AMOUNTS}
        return Cost(**{**amounts, "total": amounts["total"] + more}, unknown=self.unknown)


class Usage(WireModel):
    """The tokens of a request, and their price."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = wire_field(default_factory=Cost)

    @property
    def sent(self) -> Usage:
        """Return what was sent: no tokens of a request that was replayed, which tell how long a conversation is."""
        return Usage(cost=self.cost) if self.cost.replayed else self

    def __add__(self, other: Usage) -> Usage:
        """Return the usage of two requests together, of which only those that were sent have tokens."""
        one, two = self.sent, other.sent
        cost = {name: getattr(one.cost, name) + getattr(two.cost, name) for name in _AMOUNTS}
        return Usage(
            **{name: getattr(one, name) + getattr(two, name) for name in Usage.wire_fields if name != "cost"},
            cost=Cost(
                **cost,
                unknown=one.cost.unknown or two.cost.unknown,
                unconfirmed=(one.cost.unconfirmed or 0) + (two.cost.unconfirmed or 0) or None,
                before=(one.cost.before or 0) + (two.cost.before or 0) or None,
            ),
        )


_AMOUNTS = ("input", "output", "cache_read", "cache_write", "total")


CONTEXT = "context"
"""The ``type`` of an attachment that holds what goes along with the user's words, for the model."""
_KINDS = {"image": "Image", CONTEXT: "Context"}


class Attachment(WireModel):
    """A file that was sent along with a message: its bytes in base64 (``content``), and the text that is in them.

    An ``image`` is shown to the model as an image. Of a ``context`` the model is given the text as it stands, and front
    ends show it folded. Any other type is a document, of which the model is given the name and the text:
    ``extracted_text``, or ``content`` where that is text already. ``preview`` is for front ends.
    """

    id: str = ""
    type: str = "document"
    file_name: str
    mime_type: str = "application/octet-stream"
    size: int = 0
    content: str = ""
    extracted_text: str | None = None
    preview: str | None = None
    _block: TextContent | ImageContent | None = None

    def frame(self) -> JsonObject:
        """Return the JSON object; the text and the preview are in it also where they are absent."""
        return {**super().frame(), "extractedText": self.extracted_text, "preview": self.preview}

    @property
    def title(self) -> str:
        """Return its kind and name, on one line."""
        return f"[{_KINDS.get(self.type, 'Document')}: {' '.join(self.file_name.split())[:_MAX_NAME_CHARACTERS]}]"

    def block(self) -> TextContent | ImageContent:
        """Build the block that a model is shown; raise ``ValueError`` when there is none."""
        if self._block is None:  # every request of a conversation asks
            self._block = self._made_block()
        return self._block

    def as_read(self) -> TextContent | ImageContent:
        """Return the block that a model is shown, or a text that says why there is none."""
        try:
            return self.block()
        except ValueError as error:
            return TextContent(text=f"{self.title}\n(It cannot be shown: {error}.)")

    def _made_block(self) -> TextContent | ImageContent:
        if self.type == "image":
            if not self.content:
                raise ValueError("content is empty")
            image = ImageContent(data=self.content, mime_type=self.mime_type)
            check_image(image)
            return image
        return TextContent(text=self._text() if self.type == CONTEXT else f"{self.title}\n{self._text()}")

    def _text(self) -> str:
        if self.extracted_text:
            return self.extracted_text
        if not self.content:
            raise ValueError("content and extractedText are empty")
        try:
            text = base64.b64decode(self.content, validate=True).decode()
        except UnicodeDecodeError:
            text = "\0"
        except ValueError as error:
            raise ValueError(f"content must be base64 ({error})") from error
        if "\0" in text:
            raise ValueError("content is no text in UTF-8: send its text as extractedText")
        return text


def going_along(name: str, text: str) -> Attachment:
    """Make a text that goes along with the words of the user.

    Args:
        name: What it is, for front ends.
    """
    return Attachment(type=CONTEXT, file_name=name, mime_type="text/plain", extracted_text=text)


class UserMessage(WireModel):
    """A message of the user."""

    role: Literal["user"] = "user"
    content: str | list[UserBlock]
    attachments: list[Attachment] | None = None
    timestamp: int = wire_field(default_factory=now_ms)

    @classmethod
    def usual_shape(cls, given: JsonObject) -> JsonObject:
        """Return the message without attachments that are none: a file may hold anything there."""
        try:
            return {**given, "attachments": _attachments(given["attachments"])} if "attachments" in given else given
        except InvalidFieldsError:
            return {**given, "attachments": None}

    @property
    def whole_content(self) -> str | list[UserBlock]:
        """Return the content, followed by the blocks of the attachments."""
        if not self.attachments:
            return self.content
        own: list[UserBlock] = [TextContent(text=self.content)] if isinstance(self.content, str) else [*self.content]
        return [*own, *(each.as_read() for each in self.attachments)]


class AssistantMessage(WireModel):
    """A model's answer, whole or, while it streams, so far."""

    role: Literal["assistant"] = "assistant"
    content: list[AssistantBlock]
    api: str
    provider: str
    model: str
    usage: Usage = wire_field(default_factory=Usage)
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    response_id: str | None = None
    timestamp: int = wire_field(default_factory=now_ms)

    @property
    def refused(self) -> bool:
        """Return whether the model declined to answer, by the provider's stop reason."""
        return self.stop_reason == "error" and (self.error_message or "").startswith(REFUSED)

    @property
    def was_not_asked(self) -> bool:
        """Return whether no request was sent for it, by the sentence that is its error."""
        return self.stop_reason == "error" and (self.error_message or "").startswith((OVER_BUDGET, NO_PRICE, NOT_ASKED))

    @property
    def text(self) -> str:
        """Return all text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Return the tool calls, in the model's order."""
        return [block for block in self.content if isinstance(block, ToolCall)]


class ToolResultMessage(WireModel):
    """A tool's result. ``details`` is for front ends and never sent to a model.

    ``shortened`` is what a model reads in the place of a long text.
    """

    role: Literal["toolResult"] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: list[UserBlock]
    details: Any = None
    is_error: bool = False
    shortened: str | None = None
    timestamp: int = wire_field(default_factory=now_ms)

    def as_read(self) -> ToolResultMessage:
        """Return the result as a model reads it."""
        if self.shortened is None:
            return self
        images = [block for block in self.content if isinstance(block, ImageContent)]
        return self.replace(content=[TextContent(text=self.shortened), *images], shortened=None)


class BashExecutionMessage(WireModel):
    """A shell command that the user ran, as opposed to a model's call of the bash tool."""

    role: Literal["bashExecution"] = "bashExecution"
    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    full_output_problem: str | None = None
    exclude_from_context: bool | None = None
    timestamp: int = wire_field(default_factory=now_ms)

    def frame(self) -> JsonObject:
        """Return the JSON object; the path is in it also where it is absent, as the protocol's documents print it."""
        written = super().frame()
        written.setdefault("fullOutputPath", None)
        return written


ANSWER_TYPE = "answer_type"
"""The ``custom_type`` of a message that asks for a typed answer: it belongs to the prompt right before it."""


class CustomMessage(WireModel):
    """A message of an extension, shown to the model as the user's."""

    role: Literal["custom"] = "custom"
    custom_type: str
    content: str | list[UserBlock]
    display: bool = True
    details: Any = None
    timestamp: int = wire_field(default_factory=now_ms)


class BranchSummaryMessage(WireModel):
    """The summary of a branch that was left; made while a session is read, never stored as a message."""

    role: Literal["branchSummary"] = "branchSummary"
    summary: str
    from_id: str
    timestamp: int = wire_field(default_factory=now_ms)


class CompactionSummaryMessage(WireModel):
    """The summary that stands for older messages; made while a session is read, never stored as a message."""

    role: Literal["compactionSummary"] = "compactionSummary"
    summary: str
    tokens_before: int
    timestamp: int = wire_field(default_factory=now_ms)


Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
)
ModelMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage


_attachments = reader(list[Attachment] | None)
_message = cache(partial(reader, Message))


def parse_message(value: JsonObject) -> Message:
    """Parse a message from a JSON object of a session file or a peer; raise ``InvalidFieldsError``."""
    return _message()(value)


def text_of(content: str | Sequence[TextContent | ImageContent]) -> str:
    """Return the text of a message's content, images left out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


def for_model(messages: Iterable[Message]) -> list[ModelMessage]:
    """Return the messages that a provider is sent.

    Shell commands, summaries and extensions' messages become user messages. Answers that failed or were aborted are
    left out, and prompts for which no request was sent, because of a limit in money. Every tool call is followed by one
    result: one that never came (the process died) is replaced by a note, and results of calls with the same id belong
    to them in their order.
    """
    shown: list[ModelMessage] = []
    prompts: list[UserMessage] = []
    in_run = False
    unanswered: list[ToolCall] = []  # in order: a server may give several the same id

    def answer_missing() -> None:
        shown.extend(
            ToolResultMessage(
                tool_call_id=call.id,
                tool_name=call.name,
                content=[TextContent(text="No result was recorded: the run ended before this call did.")],
                is_error=True,
            )
            for call in unanswered
        )
        unanswered.clear()

    for message in messages:
        if isinstance(message, ToolResultMessage):
            in_run = True
            answered = next((call for call in unanswered if call.id == message.tool_call_id), None)
            if answered is not None:
                unanswered = [call for call in unanswered if call is not answered]
                shown.append(message.as_read())
            continue
        answer_missing()
        if isinstance(message, AssistantMessage):
            if message.was_not_asked:
                shown = [each for each in shown if not any(each is prompt for prompt in prompts)]
            prompts.clear()
            in_run = False
            if message.stop_reason in ("error", "aborted"):
                continue
            shown.append(message)
            unanswered += message.tool_calls
        elif (spoken := _as_user(message)) is not None:
            shown.append(spoken)
            if isinstance(message, UserMessage) and not in_run:
                prompts.append(spoken)
    answer_missing()
    return shown


def _as_user(
    message: UserMessage | BashExecutionMessage | CustomMessage | BranchSummaryMessage | CompactionSummaryMessage,
) -> UserMessage | None:
    match message:
        case UserMessage():
            if not message.attachments:
                return message
            return message.replace(content=message.whole_content, attachments=None)
        case BashExecutionMessage():
            if message.exclude_from_context:
                return None
            return UserMessage(content=_bash_text(message), timestamp=message.timestamp)
        case CustomMessage():
            return UserMessage(content=message.content, timestamp=message.timestamp)
        case BranchSummaryMessage():
            introduction = "This is a summary of a branch of the conversation that was left to continue here:"
        case CompactionSummaryMessage():
            introduction = "The conversation before this point was condensed into this summary:"
    text = f"{introduction}\n\n<summary>\n{message.summary}\n</summary>"
    return UserMessage(content=text, timestamp=message.timestamp)


def _bash_text(message: BashExecutionMessage) -> str:
    output = f"```\n{message.output}\n```" if message.output else "(no output)"
    text = f"Ran `{message.command}`\n{output}"
    if message.cancelled:
        text += "\n\n(the command was cancelled)"
    elif message.exit_code:
        text += f"\n\nCommand exited with code {message.exit_code}"
    if message.truncated and message.full_output_problem:
        kept = f" What was kept of it: {message.full_output_path}" if message.full_output_path else ""
        text += f"\n\n[Output truncated. The full output could not be kept: {message.full_output_problem}.{kept}]"
    elif message.truncated and message.full_output_path:
        text += f"\n\n[Output truncated. Full output: {message.full_output_path}]"
    return text
