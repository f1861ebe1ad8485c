"""Summaries that replace a conversation's older part, or a branch that was left.

Where to cut and what a summary holds is decided here; ``summary_prompts`` has what the model reads, and ``Compactor``
decides when, and saves.
Source of the numbers: one token is counted as four characters, an image 1200 tokens.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from indus_nb.base.errors import CompactionError
from indus_nb.base.messages import (
    ANSWER_TYPE,
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
from indus_nb.base.streaming import StreamDone, StreamError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.core.loop.retry import RetrySettings
from indus_nb.core.resources.settings import BranchSummarySettings, CompactionSettings
from indus_nb.core.storage.entries import Entry
from indus_nb.models import Context, Model, Provider, StreamOptions

if TYPE_CHECKING:
    from indus_nb.core.session.cleared import Results

_CHARACTERS_PER_TOKEN = 4
_IMAGE_CHARACTERS = 4800
_BRANCH_TOKENS = 2048
_UNKNOWN_WINDOW = 128_000
_SYSTEM_PROMPT = (
    "You write summaries of conversations between a user and an agent. You are given a conversation as text: "
    "do not continue it and do not answer what is asked in it. Write the summary alone."
)
_LEAST_CHARACTERS_PER_TOKEN = 2.5
"""Characters of a token where they are fewest, in numbers: by these a request cannot be too long."""

_BRANCH_PREAMBLE = "The user explored another branch of this conversation before coming back here. What happened there:"
_NO_HISTORY = "No earlier history."
_CUT = "\n\n[This summary was cut off at its limit.]"
_BEGIN_A_TURN = (UserMessage, BashExecutionMessage, CustomMessage, BranchSummaryMessage)


class CompactionResult(WireModel):
    """Result of a compaction.

    ``first_kept_entry_id`` is where the conversation goes on word for word.
    """

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Any = None
    usage: Usage | None = wire_field(default=None, hidden=True)


# How long a context is


def estimated_tokens(message: Message) -> int:
    """Estimate the tokens of a message; images of the user are not counted."""
    return estimated_text_tokens(_characters(message))


def estimated_text_tokens(characters: int) -> int:
    """Estimate the tokens of that many characters."""
    return math.ceil(characters / _CHARACTERS_PER_TOKEN)


def _characters(message: Message) -> int:
    match message:
        case AssistantMessage():
            return sum(map(_block_characters, message.content))
        case BashExecutionMessage():
            return len(message.command) + len(message.output)
        case BranchSummaryMessage() | CompactionSummaryMessage():
            return len(message.summary)
        case UserMessage():
            return len(text_of(message.whole_content))
        case ToolResultMessage() | CustomMessage():
            content = message.content if isinstance(message, CustomMessage) else message.as_read().content
            images = 0 if isinstance(content, str) else sum(isinstance(block, ImageContent) for block in content)
            return len(text_of(content)) + images * _IMAGE_CHARACTERS


def _block_characters(block: TextContent | ThinkingContent | ToolCall) -> int:
    match block:
        case TextContent():
            return len(block.text)
        case ThinkingContent():
            return len(block.thinking)
        case ToolCall():
            return len(block.name) + len(dump(block.arguments))


def is_good_answer(message: Message) -> bool:
    """Return whether it is an answer that neither failed nor was aborted."""
    return isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted")


class ContextTokens(NamedTuple):
    """Tokens of a conversation.

    ``counted`` are those that the server has counted with the last good answer, system prompt and tools among them, 0
    if there is none; ``estimated`` are those of the messages since.
    """

    counted: int
    estimated: int

    @property
    def total(self) -> int:
        """Return all tokens that are known of."""
        return self.counted + self.estimated


def counted_tokens(message: Message) -> int:
    """Return the tokens that the server has counted with a good answer, 0 for other messages."""
    if not isinstance(message, AssistantMessage) or not is_good_answer(message):
        return 0
    usage = message.usage
    return usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write


def context_tokens(newest_first: Iterable[Message], cleared: Results = MappingProxyType({})) -> ContextTokens:
    """Return the number of tokens in a conversation, counted as far as they can be.

    Args:
        cleared: Results that no model is sent: of those that an answer has counted, the ones that were cleared since
            are taken off.
    """
    messages, estimated = iter(newest_first), 0
    for message in messages:
        if counted := counted_tokens(message):
            less = _cleared_since(message, messages, cleared) if cleared else 0
            return ContextTokens(max(0, counted - less), estimated)
        estimated += _tokens_sent(message, cleared) if cleared else estimated_tokens(message)
    return ContextTokens(0, estimated)


def _tokens_sent(message: Message, cleared: Results) -> int:
    from indus_nb.core.session.cleared import sent  # with what only a long conversation needs

    return estimated_tokens(sent(message, cleared))


def _cleared_since(answer: Message, before: Iterable[Message], cleared: Results) -> int:
    """Return about how many tokens before an answer it has counted that are sent no more."""
    from indus_nb.core.session.cleared import since

    gone = since(cleared, answer.timestamp)
    results = (message for message in before if isinstance(message, ToolResultMessage)) if gone else ()
    return sum(estimated_tokens(message) - _tokens_sent(message, gone) for message in results)


# Where to cut


@dataclass(frozen=True, slots=True)
class Preparation:
    """Input of a compaction.

    ``turn_head`` is the beginning of a turn that is cut in two.
    """

    first_kept_entry_id: str
    history: list[Message]
    turn_head: list[Message]
    tokens_before: int
    previous_summary: str | None
    files: FileNames


def prepare(
    path: Sequence[Entry], settings: CompactionSettings, tokens_before: int, cleared: Results = MappingProxyType({})
) -> Preparation:
    """Split a conversation into what is kept and what becomes a summary.

    Args:
        settings: How many tokens are kept word for word.
        cleared: Results that no model is sent.

    Returns:
        What is to be summarised, and the first entry that is kept.

    Raises:
        CompactionError: There is nothing to summarise.
    """
    if path and path[-1].type == "compaction":
        raise CompactionError("The conversation was compacted just now; there is nothing new to summarise.")
    previous, start = _previous_compaction(path)
    cut = _cut(path, start, settings.keep_recent_tokens, cleared)
    head = _turn_start(path, start, cut)
    history = _messages(path[start : cut if head is None else head])
    turn_head = [] if head is None else _messages(path[head:cut])
    if not history and not turn_head:
        raise CompactionError(
            "There is too little to compact: all of the conversation is as recent as what is kept word for word "
            f"({settings.keep_recent_tokens} tokens, setting compaction.keepRecentTokens)."
        )
    files = FileNames.of([*history, *turn_head])
    if previous is not None and not (previous.data.get("fromHook") or previous.data.get("fromExtension")):
        files.add_details(previous.data.get("details"))
    return Preparation(
        first_kept_entry_id=path[cut].id,
        history=history,
        turn_head=turn_head,
        tokens_before=tokens_before,
        previous_summary=None if previous is None else str(previous.data.get("summary") or "") or None,
        files=files,
    )


def _previous_compaction(path: Sequence[Entry]) -> tuple[Entry | None, int]:
    """Return the latest compaction, and where what it did not summarise begins."""
    for index in reversed(range(len(path))):
        if path[index].type == "compaction":
            kept_id = path[index].data.get("firstKeptEntryId")
            kept = next((number for number in range(index) if path[number].id == kept_id), index + 1)
            return path[index], kept
    return None, 0


def _cut(path: Sequence[Entry], start: int, keep_tokens: int, cleared: Results) -> int:
    """Return the index of the first entry that is kept."""
    from indus_nb.core.session.cleared import sent

    allowed = [index for index in range(start, len(path)) if _may_begin(path[index])]
    if not allowed:
        raise CompactionError("There is nothing to compact yet: nobody has said anything.")
    cut = allowed[0]
    kept = 0
    for index in reversed(range(start, len(path))):
        message = _message(path[index])
        if message is None:
            continue
        kept += estimated_tokens(sent(message, cleared))
        if kept >= keep_tokens and not _is_of_prompt(message):
            cut = next((place for place in allowed if place >= index), allowed[-1])
            break
    while cut > start and _message(path[cut - 1]) is None and path[cut - 1].type != "compaction":
        cut -= 1
    return cut


def _may_begin(entry: Entry) -> bool:
    message = _message(entry)
    if message is None or _is_of_prompt(message):
        return False
    return not isinstance(message, ToolResultMessage | CompactionSummaryMessage)


def _is_of_prompt(message: Message | None) -> bool:
    """Return whether a message belongs to the prompt before it, from which it is not cut."""
    return isinstance(message, CustomMessage) and message.custom_type == ANSWER_TYPE


def _turn_start(path: Sequence[Entry], start: int, cut: int) -> int | None:
    """Return the start of the turn that the cut goes through; ``None`` when the cut is at a turn's beginning."""
    first = next((index for index in range(cut, len(path)) if _message(path[index]) is not None), cut)
    for index in range(first, start - 1, -1):
        message = _message(path[index])
        if isinstance(message, _BEGIN_A_TURN) and not _is_of_prompt(message):
            return None if index == first else index
    return None


def _message(entry: Entry) -> Message | None:
    try:
        return entry.message
    except ValueError:
        return None  # of a kind unknown here: no model is shown it, so no summary need speak of it


def _messages(entries: Iterable[Entry]) -> list[Message]:
    messages = (_message(entry) for entry in entries if entry.type != "compaction")
    return [message for message in messages if message is not None]


# Files that were touched


@dataclass(slots=True)
class FileNames:
    """The files that a conversation read and changed, as first mentioned."""

    read: dict[str, None] = field(default_factory=dict[str, None])
    modified: dict[str, None] = field(default_factory=dict[str, None])

    @classmethod
    def of(cls, messages: Iterable[Message]) -> FileNames:
        """Collect the files that tool calls in ``messages`` name."""
        files = cls()
        for message in messages:
            for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
                path = call.arguments.get("path")
                if isinstance(path, str) and call.name in ("read", "write", "edit"):
                    (files.read if call.name == "read" else files.modified)[path] = None
        return files

    def add_details(self, details: object) -> None:
        """Add the files that an earlier summary's ``details`` name."""
        if isinstance(details, dict):
            stored = cast("JsonObject", details)
            for key, names in (("readFiles", self.read), ("modifiedFiles", self.modified)):
                listed: object = stored.get(key)
                if isinstance(listed, list):
                    names.update((name, None) for name in cast("list[object]", listed) if isinstance(name, str))

    def details(self) -> JsonObject:
        """Return the details that are stored with a summary."""
        return {
            "readFiles": [name for name in self.read if name not in self.modified],
            "modifiedFiles": [*self.modified],
        }

    def blocks(self) -> str:
        """Return the text put behind a summary; empty without files."""
        details = self.details()
        tagged = (("read-files", details["readFiles"]), ("modified-files", details["modifiedFiles"]))
        return "".join("\n".join(("", "", f"<{tag}>", *names, f"</{tag}>")) for tag, names in tagged if names)


# Asking for the summary


@dataclass(frozen=True, slots=True)
class Summariser:
    """The model that writes summaries."""

    model: Model
    provider: Provider
    options: Callable[[int], StreamOptions]
    """Callback for the options of a request whose answer may have so many tokens."""
    retry: RetrySettings = field(default_factory=RetrySettings)
    """Retries of a summary that fails for a reason that may pass, as an answer has them."""

    async def compact(
        self, preparation: Preparation, settings: CompactionSettings, instructions: str | None
    ) -> CompactionResult:
        """Summarise a preparation.

        Args:
            preparation: What becomes the summary, see ``prepare``.
            settings: How many tokens the summary may have.

        Raises:
            CompactionError: The model fails.
        """
        from indus_nb.core.session import summary_prompts  # with what only a summary needs

        previous = preparation.previous_summary
        usage = Usage()
        history = previous or _NO_HISTORY
        tasks: list[asyncio.Task[tuple[str, Usage]]] = []
        try:
            async with asyncio.TaskGroup() as group:
                if preparation.history:
                    question = summary_prompts.about_history(preparation.history, previous, instructions)
                    tasks.append(self._begin(group, preparation.history, question, 0.8 * settings.reserve_tokens))
                if preparation.turn_head:
                    question = summary_prompts.about_turn_head(preparation.turn_head, instructions)
                    tasks.append(self._begin(group, preparation.turn_head, question, 0.5 * settings.reserve_tokens))
        except BaseExceptionGroup as group:
            failed, other = group.split(CompactionError)
            if failed is None or other is not None:
                raise
            raise failed.exceptions[0] from None
        answers = [task.result() for task in tasks]
        for _, paid in answers:
            usage = usage + paid
        if preparation.history:
            history, _ = answers[0]
        summary = history
        if preparation.turn_head:
            summary = f"{history}\n\n---\n\n**Turn Context (split turn):**\n\n{answers[-1][0]}"
        return CompactionResult(
            summary=summary + preparation.files.blocks(),
            first_kept_entry_id=preparation.first_kept_entry_id,
            tokens_before=preparation.tokens_before,
            details=preparation.files.details(),
            usage=usage,
        )

    async def summarise_branch(
        self,
        entries: Sequence[Entry],
        settings: BranchSummarySettings,
        instructions: str | None = None,
        *,
        replace_instructions: bool = False,
    ) -> tuple[str, JsonObject, Usage] | None:
        """Summarise the entries of a branch that is left.

        The newest ones count when not all fit.

        Args:
            replace_instructions: whether these are all that the model is given besides the entries.

        Returns:
            The summary, its details for the entry, and its price; ``None`` when there is nothing to summarise.

        Raises:
            CompactionError: The model fails.
        """
        window = self.model.context_window or _UNKNOWN_WINDOW
        settings = settings.within(window)
        budget = window - settings.reserve_tokens
        files = FileNames()
        messages: list[Message] = []
        total = 0
        for entry in reversed(entries):
            message = _message(entry)
            if isinstance(message, BranchSummaryMessage):
                files.add_details(entry.data.get("details"))
            if message is None or isinstance(message, ToolResultMessage):
                continue
            tokens = estimated_tokens(message)
            is_summary = isinstance(message, BranchSummaryMessage | CompactionSummaryMessage)
            if total + tokens > budget and not (is_summary and total < 0.9 * budget):
                break
            total += tokens
            messages.append(message)
        if not messages:
            return None
        messages.reverse()
        files.add_details(FileNames.of(messages).details())
        from indus_nb.core.session import summary_prompts

        question = summary_prompts.about_branch(messages, instructions, replaces=replace_instructions)
        text, usage = await self._ask(messages, question, _BRANCH_TOKENS)
        return f"{_BRANCH_PREAMBLE}\n\n{text}{files.blocks()}", files.details(), usage

    def _begin(
        self, group: asyncio.TaskGroup, messages: Sequence[Message], question: str, max_tokens: float
    ) -> asyncio.Task[tuple[str, Usage]]:
        return group.create_task(self._ask(messages, question, int(max_tokens)))

    async def _ask(self, messages: Sequence[Message], question: str, max_tokens: int) -> tuple[str, Usage]:
        """Return a summary and its price; one that reaches its limit is asked for once more, to be shorter."""
        from indus_nb.core.session import summary_prompts

        window = self.model.context_window or _UNKNOWN_WINDOW
        room = int((window - max_tokens) * _LEAST_CHARACTERS_PER_TOKEN) - len(question)
        request = f"{summary_prompts.as_text(messages, max(room, 0))}\n\n{question}"
        answer = await self._written(request, max_tokens)
        usage = answer.usage
        if answer.stop_reason == "length":
            with suppress(CompactionError):  # then the first one is better than none
                second = await self._written(f"{request}\n\n{summary_prompts.shorter(max_tokens)}", max_tokens)
                usage = usage + second.usage
                answer = second if second.text.strip() else answer
        if not answer.text.strip():
            raise CompactionError("Summarization failed: the model wrote nothing. The conversation is as it was.")
        return answer.text + (_CUT if answer.stop_reason == "length" else ""), usage

    async def _written(self, request: str, max_tokens: int) -> AssistantMessage:
        context = Context(_SYSTEM_PROMPT, [UserMessage(content=[TextContent(text=request)])])
        answer = await self._answer(context, max_tokens)
        attempt = 1
        while (delay_ms := self.retry.delay_ms(answer, attempt)) is not None:
            await asyncio.sleep(delay_ms / 1000)
            answer = await self._answer(context, max_tokens)
            attempt += 1
        if answer.stop_reason in ("error", "aborted"):
            message = answer.error_message or "no reason given"
            reason = message.replace("; what had arrived is kept", "").rstrip(".")
            raise CompactionError(f"Summarization failed: {reason}. The conversation is as it was.")
        return answer

    async def _answer(self, context: Context, max_tokens: int) -> AssistantMessage:
        async with aclosing(self.provider.stream(self.model, context, self.options(max_tokens))) as events:
            async for event in events:
                if isinstance(event, StreamDone):
                    return event.message
                if isinstance(event, StreamError):
                    return event.error
        raise CompactionError(
            f"Summarization failed: the provider {self.model.provider} ended its answer without saying how it went. "
            "The conversation is as it was."
        )
