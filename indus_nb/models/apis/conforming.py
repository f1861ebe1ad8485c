"""The one place where a request is changed to what its API accepts.

What an API rejects with 400 it rejects again with every later request, for the conversation still holds it. So each
provider passes its context through ``conforming`` first.

What this module promises:

- Whatever a session holds (old files, results of tools, messages of extensions, answers that broke off), the context
  that comes back keeps the rules of ``rules``, and has at least one message of the user.
- What cannot be sent is replaced by a note that the model reads; the session itself stays as it is, and nothing of the
  context is changed in place. Blocks that need no change are the same objects.
- The same context is made the same request each time, so that the provider's prompt cache works: images are left out
  oldest first, and ids of calls are made of the ids in the session.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from indus_nb.base.errors import UsageError
from indus_nb.base.images import ImageFacts, image_type_of, inspect
from indus_nb.base.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from indus_nb.base.wire import dump
from indus_nb.models.apis.rules import MAX_TOOL_NAME, ApiRules, holds_schemas, rules_of
from indus_nb.models.apis.strict_schemas import strict_schema
from indus_nb.models.apis.tool_schemas import check_tool, sound_schema
from indus_nb.models.catalog import Model
from indus_nb.models.http.refusals import refused
from indus_nb.models.protocol import Context, ToolSpec

_Content: TypeAlias = list[TextContent | ImageContent]

_RESERVE = 100_000  # bytes of a request besides messages and tools
_NO_TEXT = "(This message has no text.)"
_NO_BEGINNING = "(The conversation began with what the assistant said.)"
_GO_ON = "(The results were taken note of.)"


async def conforming(context: Context, model: Model) -> Context:
    """Change a context so that the model's API accepts it.

    Args:
        context: System prompt, messages and tools, as the session holds them.
        model: The model to ask, whose API and ``compat`` decide the rules.

    Returns:
        A changed copy, which shares the messages that need no change.
    """
    rules = rules_of(model)
    tools = _tools(context.tools, model)
    facts: Mapping[int, ImageFacts] = {}
    left_out: Mapping[int, str] = {}
    if images := [image for message in context.messages for image in _images(message)]:
        if "image" in model.input:
            facts = await inspect(images)
        other_bytes = _RESERVE + _size(context.system_prompt) + sum(len(dump(tool.parameters)) for tool in tools)
        left_out = _left_out(context.messages, images, model, rules, facts, other_bytes)
    return replace(context, messages=_Conforming(model, rules, left_out).messages(context.messages), tools=tools)


def _images(message: ModelMessage) -> list[ImageContent]:
    if isinstance(message, AssistantMessage) or isinstance(message.content, str):
        return []
    return [block for block in message.content if isinstance(block, ImageContent)]


# --- images ----------------------------------------------------------------------------------------------------------


def _left_out(
    messages: Sequence[ModelMessage],
    images: Sequence[ImageContent],
    model: Model,
    rules: ApiRules,
    facts: Mapping[int, ImageFacts],
    other_bytes: int,
) -> dict[int, str]:
    """Map the ``id()`` of each image that is not sent to the reason: a defect, or too many, oldest first."""
    if "image" not in model.input:
        return {id(image): f"{model.name} takes none" for image in images}
    reasons: dict[int, str] = {}
    room = rules.max_request_bytes - other_bytes - sum(_text_bytes(message) for message in messages)
    count = 0
    for image in reversed(images):
        problem = _image_problem(image, model, rules, facts.get(id(image)))
        if problem is not None:
            reasons[id(image)] = problem
            continue
        size = facts[id(image)].encoded_bytes if id(image) in facts else 0
        if count >= rules.images.max_images:
            reasons[id(image)] = f"there are more than {rules.images.max_images} in the conversation"
        elif size > room:
            reasons[id(image)] = "the conversation holds more than fits into a request"
            room = 0  # what is older is left out as well, or the beginning of the conversation would change each time
        else:
            count += 1
            room -= size
    if rules.images.many is not None and count > rules.images.many:
        for image in images:
            known = facts.get(id(image))
            if id(image) not in reasons and known and max(known.width, known.height) > rules.images.many_max_side:
                reasons[id(image)] = f"it is {known.width} x {known.height} pixels large, and there are many others"
    return reasons


def _image_problem(image: ImageContent, model: Model, rules: ApiRules, facts: ImageFacts | None) -> str | None:
    if refused(model, image):
        return "the API refused it before"
    if image.source is not None:
        if not rules.images.urls:
            return f"{model.name} there takes no addresses of images"
        is_web = image.source.url.lower().startswith(("http://", "https://"))
        return None if is_web else "its URL does not begin with http:// or https://"
    if facts is None or facts.problem is not None:
        return facts.problem if facts is not None else "it could not be looked at"
    limits = rules.images
    problem = None
    if facts.mime_type not in limits.types:
        problem = f"{model.name} takes no {facts.mime_type}"
    elif facts.encoded_bytes > limits.max_bytes:
        size, largest = facts.encoded_bytes / 1e6, limits.max_bytes / 1e6
        problem = f"it has {size:.1f} MB of base64, and {largest:.1f} MB are accepted"
    elif limits.max_side is not None and max(facts.width, facts.height) > limits.max_side:
        problem = f"it is {facts.width} x {facts.height} pixels large, and {limits.max_side} a side are accepted"
    return problem


def _typed(image: ImageContent) -> ImageContent:
    """Return the image with the type that its bytes have; APIs compare the two."""
    if image.source is not None or (mime_type := image_type_of(image)) in (None, image.mime_type):
        return image
    return image.replace(mime_type=mime_type)


def _text_bytes(message: ModelMessage) -> int:
    """Estimate how much of a request the message's text is."""
    if isinstance(message, AssistantMessage):
        return sum(_block_bytes(block) for block in message.content)
    if isinstance(message.content, str):
        return _size(message.content)
    return sum(_size(block.text) for block in message.content if isinstance(block, TextContent))


def _block_bytes(block: AssistantBlock) -> int:
    match block:
        case TextContent():
            return _size(block.text)
        case ThinkingContent():
            return _size(block.thinking) + len(block.thinking_signature or "")
        case ToolCall():
            return sum(_size(value) if isinstance(value, str) else 100 for value in block.arguments.values())


def _size(text: str) -> int:
    return len(text) if text.isascii() else 3 * len(text)


# --- messages --------------------------------------------------------------------------------------------------------


class _Conforming:
    """One pass over the messages of a request."""

    def __init__(self, model: Model, rules: ApiRules, left_out: Mapping[int, str]) -> None:
        self._model = model
        self._rules = rules
        self._left_out = left_out
        self._ids: set[str] = set()  # of all tool calls so far, as they are sent
        self._sent_as: dict[str, list[str]] = {}  # the ids of the latest calls, in order where they have the same

    def messages(self, messages: Iterable[ModelMessage]) -> list[ModelMessage]:
        sent: list[ModelMessage] = []
        pictures: _Content = []  # of the results before, which may not hold them

        def show_pictures() -> None:
            if pictures:
                self._add_user(sent, UserMessage(content=[*pictures]))
                pictures.clear()

        for message in messages:
            if isinstance(message, ToolResultMessage):
                result, moved = self._result(message)
                sent.append(result)
                pictures += moved
                continue
            show_pictures()
            if isinstance(message, AssistantMessage):
                if (answer := self._answer(message)) is not None:
                    sent.append(answer)
            elif content := self._visible(message.content):
                same = _same(content, message.content)
                self._add_user(sent, message if same else message.replace(content=content))
        show_pictures()
        if not sent or isinstance(sent[-1], AssistantMessage):
            sent.append(UserMessage(content=[TextContent(text=_NO_TEXT)]))
        if isinstance(sent[0], AssistantMessage):
            sent.insert(0, UserMessage(content=[TextContent(text=_NO_BEGINNING)]))
        return sent

    def _add_user(self, sent: list[ModelMessage], message: UserMessage) -> None:
        if self._rules.assistant_after_results and sent and isinstance(sent[-1], ToolResultMessage):
            model = self._model
            sent.append(
                AssistantMessage(
                    content=[TextContent(text=_GO_ON)], api=model.api, provider=model.provider, model=model.id
                )
            )
        sent.append(message)

    def _visible(self, content: str | Iterable[TextContent | ImageContent]) -> _Content:
        """Return the content that can be shown: no blank text, and notes for images that cannot be sent."""
        if isinstance(content, str):
            content = [TextContent(text=content)]
        blocks: _Content = []
        for block in content:
            if isinstance(block, TextContent):
                if block.text.strip():
                    blocks.append(block)
            elif (reason := self._left_out.get(id(block))) is not None:
                blocks.append(TextContent(text=f"(An image was left out: {reason}.)"))
            else:
                blocks.append(_typed(block))
        return blocks

    def _result(self, message: ToolResultMessage) -> tuple[ToolResultMessage, _Content]:
        """Return the result as it may be sent, and the blocks that have to follow all results."""
        content = self._visible(message.content)
        moved: _Content = []
        where = self._rules.result_images
        if where == "outside" or (where == "outside_failed" and message.is_error):
            moved = [block for block in content if isinstance(block, ImageContent)]
            content = [block for block in content if isinstance(block, TextContent)]
        if moved:
            several = "The image follows" if len(moved) == 1 else f"The {len(moved)} images follow"
            content.append(TextContent(text=f"({several} behind the results.)"))
            moved.insert(0, TextContent(text=f"What {message.tool_name} gave back:"))
        content = content or [TextContent(text="(no output)")]
        sent_as = self._sent_as.get(message.tool_call_id)
        sent = sent_as.pop(0) if sent_as else message.tool_call_id
        name = _valid_name(message.tool_name)
        if _same(content, message.content) and (sent, name) == (message.tool_call_id, message.tool_name):
            return message, moved
        return message.replace(content=content, tool_call_id=sent, tool_name=name), moved

    def _answer(self, message: AssistantMessage) -> AssistantMessage | None:
        """Return the answer as it may be replayed, ``None`` when nothing of it can be."""
        self._sent_as = {}
        blocks = [kept for block in message.content if (kept := self._block(block, message)) is not None]
        while self._rules.signed_thinking and blocks and isinstance(blocks[-1], ThinkingContent):
            blocks.pop()
        if all(isinstance(block, ThinkingContent) for block in blocks):
            return None
        return message if _same(blocks, message.content) else message.replace(content=blocks)

    def _block(self, block: AssistantBlock, message: AssistantMessage) -> AssistantBlock | None:
        match block:
            case TextContent():
                return block if block.text.strip() else None
            case ThinkingContent():
                return self._thinking(block, message) if self._rules.signed_thinking else block
            case ToolCall():
                return self._call(block)

    def _thinking(self, block: ThinkingContent, message: AssistantMessage) -> AssistantBlock | None:
        # A signature is valid for the model that gave it. Without one the thought is sent as text.
        own = (message.provider, message.model) == (self._model.provider, self._model.id)
        if own and block.thinking_signature:
            return None if refused(self._model, block) else block
        if block.redacted or not block.thinking.strip():
            return None
        return TextContent(text=block.thinking)

    def _call(self, call: ToolCall) -> ToolCall:
        sent = call_id(call.id, self._rules.max_call_id)
        attempt = 1
        while sent in self._ids:  # a server that counts anew in each answer
            attempt += 1
            sent = call_id(f"{call.id}#{attempt}", self._rules.max_call_id)
        self._ids.add(sent)
        self._sent_as.setdefault(call.id, []).append(sent)
        name = _valid_name(call.name)
        if (sent, name) == (call.id, call.name):
            return call
        return call.replace(id=sent, name=name)


def _same(blocks: Sequence[object], before: str | Sequence[object]) -> bool:
    """Return whether nothing was changed, so that no copy is needed."""
    return len(blocks) == len(before) and all(one is other for one, other in zip(blocks, before, strict=True))


def call_id(wanted: str, max_characters: int) -> str:
    """Turn the id of a tool call into one that the API accepts.

    >>> call_id("toolu_01", 40), call_id("fc|1", 40), call_id("toolu_01", 0)
    ('toolu_01', 'fc_1_7f56b2ebcebcf1d2', '7a95b7039')

    Args:
        max_characters: The longest id that the API accepts; 0 for exactly nine letters and digits, as Mistral requires.

    Returns:
        ``wanted`` itself if it is accepted, else an id derived from it, always the same.
    """
    accepted = r"[a-zA-Z0-9_-]+" if max_characters else r"[a-zA-Z0-9]{9}"
    if re.fullmatch(accepted, wanted) and len(wanted) <= (max_characters or 9):
        return wanted
    digest = hashlib.sha256(wanted.encode("utf-8", "surrogatepass")).hexdigest()
    if not max_characters:
        return digest[:9]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', wanted)[: max_characters - 17]}_{digest[:16]}"


def _valid_name(name: str) -> str:
    """Turn a tool's name into one that APIs accept: models call tools that do not exist by any name."""
    if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:MAX_TOOL_NAME] or "_"


# --- tools -----------------------------------------------------------------------------------------------------------


def _tools(tools: Iterable[ToolSpec], model: Model) -> list[ToolSpec]:
    """Return the tools with sound schemas. Tools without one were rejected at registration."""
    sound: dict[str, ToolSpec] = {}
    for tool in tools:
        try:
            check_tool(tool)
        except UsageError:
            continue
        offered = replace(tool, parameters=sound_schema(tool.parameters), strict=False)
        schema = strict_schema(offered.parameters) if tool.strict and holds_schemas(model) else None
        if schema is not None and not refused(model, held := replace(offered, parameters=schema, strict=True)):
            offered = held
        if not refused(model, offered):
            sound.setdefault(tool.name, offered)
    return [*sound.values()]
