"""The providers that record and replay cassettes.

What this module promises: both keep the contract of ``Provider``, so whatever goes wrong with a cassette is an answer
with ``stop_reason="error"``. Such an answer is not asked for again, because no second attempt would mend it.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar, Literal, Self, get_args

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.messages import AssistantBlock, Cost, TextContent, ThinkingContent, ToolCall
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage, StreamDone, StreamError
from indus_nb.base.wire import JsonObject
from indus_nb.models import Context, Model, Provider, StreamOptions
from indus_nb.models.cassettes.difference import difference
from indus_nb.models.cassettes.file import RECORD_ANEW, StoredAnswer, StoredExchange, StoredRequest, load
from indus_nb.models.cassettes.keeping import Kept
from indus_nb.models.cassettes.normal_form import (
    RULES,
    Observer,
    Rule,
    Surroundings,
    map_block,
    normal_request,
)
from indus_nb.models.cassettes.recording import Exchange, Recording, whole_request
from indus_nb.models.http.failures import failed_answer

Mode = Literal["replay", "record", "auto", "keep"]

_AT_FAULT = "422"  # an error that begins with such a number is not asked again, whatever words its diff is made of
_DELTA_CHARACTERS = 32


class RecordingProvider:
    """A provider that answers as ``inner`` does, and adds every answer to a cassette.

    Errors are added as well.

    A recording begins with its first answer, which replaces what the cassette held before. From its first request until
    ``close``, or its end, no other recording to the file can begin. An answer that is aborted is not added. When an
    answer cannot be added, it ends as an error with the reason.

    Args:
        inner: The provider to ask.
        cassette: The file to record to, or a recording that several providers share.
    """

    def __init__(self, inner: Provider, cassette: Path | str | Recording) -> None:
        self._inner = inner
        self._recording = cassette if isinstance(cassette, Recording) else Recording(cassette)

    def preload(self) -> None:
        """Import what the recorded provider needs."""
        self._inner.preload()

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        """Ask ``inner`` once and yield its answer; see ``Provider``.

        The answer is in the file before its last event is emitted.

        Args:
            model: The model to ask.
            context: What it is shown.
            options: How it is to answer.

        Returns:
            The events of the answer.
        """
        try:
            exchange = self._recording.begin(model, context, options)
        except UsageError as error:
            for failure in failed_answer(model, f"{_AT_FAULT} {error}"):
                yield failure
            return
        try:
            async with aclosing(self._inner.stream(model, context, options)) as events:
                async for event in events:
                    yield self._recorded(exchange, event)
        finally:
            self._recording.leave(exchange)

    def _recorded(self, exchange: Exchange, event: AssistantMessageEvent) -> AssistantMessageEvent:
        if not isinstance(event, StreamDone | StreamError) or (event.type == "error" and event.reason == "aborted"):
            return event
        message = event.message if isinstance(event, StreamDone) else event.error
        try:
            self._recording.finish(exchange, message)
        except OSError as error:
            problem = (
                f"{_AT_FAULT} The answer came, and could not be added to the cassette {self._recording.path} "
                f"({error.strerror or error}). Make room there, or name another file, and record anew."
            )
            failed = message.replace(stop_reason="error", error_message=problem)
            return StreamError(reason="error", error=failed)
        return event

    def close(self) -> None:
        """Release the lock of the file; the next request begins a new recording."""
        self._recording.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReplayProvider:
    """A provider that replays the answers of a cassette, in their order.

    Requests must be those recorded.

    Another request, one too many, or a file that cannot be replayed is an answer with ``stop_reason="error"`` that
    shows the difference; the exchange that was expected stays the next one. The file is read at the first request.

    Args:
        path: The cassette.
        rules: What of a request's texts does not count.

    Attributes:
        path: The cassette's absolute path.
        answered: How many requests were answered from it.
    """

    asks_nobody: ClassVar[bool] = True
    may_answer: ClassVar[bool] = True

    def __init__(self, path: Path | str, *, rules: Sequence[Rule] = RULES) -> None:
        self.path: Path = Path(path).expanduser().resolve()
        self._observer = Observer(rules)
        self._stored: list[StoredExchange] | None = None
        self.answered: int = 0
        self._request: JsonObject = {}
        self._mutex = threading.Lock()

    @property
    def remaining(self) -> list[str]:
        """Return a line for each exchange that was not replayed yet.

        Raises ``UsageError`` for a file that cannot be.
        """
        with self._mutex:
            exchanges = self._exchanges()
            return [
                f"exchange {number}: {_summary(exchange.request)}"
                for number, exchange in enumerate(exchanges, 1)
                if number > self.answered
            ]

    @property
    def words(self) -> str:
        """Return what is shown in the place of the cost of answers."""
        return f"replayed from {self.path.name}"

    def preload(self) -> None:
        """Do nothing: everything is imported."""

    def close(self) -> None:
        """Do nothing: nothing is held open."""

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        """Yield the next answer in small deltas; see ``Provider``.

        Args:
            model: The model that is asked.
            context: What it is shown; model, context and tools must be those recorded.
            options: How it is to answer; none of it counts.

        Returns:
            The events of the recorded answer, or of one that failed because the request is another one.
        """
        try:
            answer, around = self._next_answer(model, context, options)
        except UsageError as error:
            for failure in failed_answer(model, f"{_AT_FAULT} {error}"):
                yield failure
            return
        async for event in replayed(model, answer, around):
            yield event

    def _next_answer(self, model: Model, context: Context, options: StreamOptions) -> tuple[StoredAnswer, Surroundings]:
        with self._mutex:
            exchanges = self._exchanges()
            if self.answered >= len(exchanges):
                raise UsageError(
                    f"The cassette {self.path} is used up: all of its exchanges ({len(exchanges)}) were replayed, "
                    "and here is another request. Restart the kernel, or the program, to replay it from its beginning. "
                    f"{RECORD_ANEW}"
                )
            around = self._observer.around(model, context, options)
            expected = self._expected(exchanges, around)
            asked = normal_request(model, context, around)
            if asked != expected:
                raise UsageError(
                    f"This request is not the one that was recorded as exchange {self.answered + 1} of {self.path}. "
                    f"{self._where_to_begin} {RECORD_ANEW} What differs:\n{difference(expected, asked)}"
                )
            self._request = expected
            self.answered += 1
            return exchanges[self.answered - 1].answer, around

    @property
    def _where_to_begin(self) -> str:
        if self.answered:
            return "To replay from the beginning, restart the kernel or the program, and run everything in its order."
        return "A recording holds a conversation from its first message: in a notebook `%agent --new` begins one."

    def _exchanges(self) -> list[StoredExchange]:
        if self._stored is None:
            self._stored = load(self.path)
        return self._stored

    def _expected(self, exchanges: Sequence[StoredExchange], around: Surroundings) -> JsonObject:
        before = (self._request, exchanges[self.answered - 1].answer.content) if self._request else None
        return whole_request(exchanges[self.answered].request, before, around, (self.path, self.answered))


class KeepingProvider:
    """A provider that answers as ``inner`` did, where the request is one that it has answered before.

    Any other request is asked, and its answer kept, unless it failed or was aborted. An answer that cannot be written
    is given all the same, and ``Kept.changes`` says why.

    Args:
        inner: The provider to ask.
        kept: The answers so far.
    """

    def __init__(self, inner: Provider, kept: Kept) -> None:
        self._inner = inner
        self._kept = kept

    def preload(self) -> None:
        """Import what the provider behind it needs."""
        self._inner.preload()

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        """Yield the answer that is kept for this request, at no cost, else that of ``inner``; see ``Provider``.

        Args:
            model: The model to ask.
            context: What it is shown.
            options: How it is to answer; of them the thinking level counts.

        Returns:
            The events of the answer.
        """
        try:
            exchange, answer, why = await asyncio.to_thread(self._kept.find, model, context, options)
        except UsageError as error:
            for failure in failed_answer(model, f"{_AT_FAULT} {error}"):
                yield failure
            return
        if answer is not None:
            async for event in replayed(model, answer, exchange.around):
                yield event
            return
        async with aclosing(self._inner.stream(model, context, options)) as events:
            async for event in events:
                if isinstance(event, StreamDone):
                    await asyncio.to_thread(self._kept.keep, exchange, event.message)
                if isinstance(event, StreamError) and event.reason != "aborted":
                    message = f"{event.error.error_message or 'The request failed.'} {why}"
                    yield StreamError(reason=event.reason, error=event.error.replace(error_message=message))
                else:
                    yield event


async def replayed(model: Model, answer: StoredAnswer, around: Surroundings) -> AsyncGenerator[AssistantMessageEvent]:
    """Yield the events of a recorded answer, in small deltas and at no cost: it was paid for when it was recorded."""
    growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
    growing.usage = answer.usage.replace(cost=Cost(replayed=True, before=answer.usage.cost.total or None))
    yield growing.start()
    for block in answer.content:
        for event in _events_of(growing, map_block(block, around.local)):
            yield event
            await asyncio.sleep(0)  # between any two deltas others get their turn, and an abort its chance
    if answer.stop_reason == "error":
        yield growing.fail(around.local(answer.error_message or "The recorded answer failed."))
    else:
        yield growing.finish(answer.stop_reason)


def _events_of(growing: GrowingMessage, block: AssistantBlock) -> Iterator[AssistantMessageEvent]:
    signature: str | None = None
    redacted: bool | None = None
    match block:
        case TextContent():
            opened, text = growing.open_text(), block.text
        case ThinkingContent():
            opened, text = growing.open_thinking(), block.thinking
            signature, redacted = block.thinking_signature, block.redacted
        case ToolCall():
            opened = growing.open_tool_call(block.id, block.name)
            text = json.dumps(block.arguments, ensure_ascii=False) if block.malformed is None else block.malformed
    yield opened
    for start in range(0, len(text), _DELTA_CHARACTERS):
        yield growing.append(opened.content_index, text[start : start + _DELTA_CHARACTERS])
    closed = growing.close(opened.content_index, signature=signature, redacted=redacted)
    match growing.block(opened.content_index):
        case TextContent() as made if isinstance(block, TextContent):
            made.text_signature = block.text_signature
        case ToolCall() as made if isinstance(block, ToolCall):
            made.thought_signature = block.thought_signature
        case _:
            pass
    yield closed


def _summary(request: StoredRequest) -> str:
    last = request.messages[-1] if request.messages else {}
    line = textcut.one_line_fit(json.dumps(last.get("content", ""), ensure_ascii=False), 80)
    return f"{last.get('role', 'no message')} {line}"


def cassette_provider(mode: Mode, path: Path | str, inner: Provider) -> Provider:
    """Make a provider that replays a cassette or records ``inner`` to it.

    Args:
        mode: ``replay``, ``record``, ``auto`` (replay what is there, record when nothing is), or ``keep`` (reuse the
            answer of an equal request, whenever it was asked, and add the others).
        path: The cassette.
        inner: The provider to record.

    Returns:
        The provider to use in place of ``inner``.

    Raises:
        UsageError: The mode is another one.
    """
    return provider_of(open_cassette(mode, path), inner)


def provider_of(cassette: Recording | ReplayProvider | Kept, inner: Provider) -> Provider:
    """Return the provider that asks a cassette in place of ``inner``, or before it."""
    if isinstance(cassette, Recording):
        return RecordingProvider(inner, cassette)
    return cassette if isinstance(cassette, ReplayProvider) else KeepingProvider(inner, cassette)


def open_cassette(mode: str, path: Path | str) -> Recording | ReplayProvider | Kept:
    """Open the cassette at ``path`` to record to it, to replay it, or to do both.

    Args:
        mode: See ``cassette_provider``.
        path: The cassette.

    Returns:
        What records, what replays, or what does both.

    Raises:
        UsageError: The mode is unknown.
    """
    if mode not in get_args(Mode):
        raise UsageError(f"Unknown cassette mode: {mode}. Choose one of {', '.join(get_args(Mode))}.")
    if mode == "keep":
        return Kept(path)
    replays = mode == "replay" or (mode == "auto" and Path(path).expanduser().exists())
    return ReplayProvider(path) if replays else Recording(path)
