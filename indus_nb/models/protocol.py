"""The ``Provider`` protocol, its arguments, and the ``Cassette`` that may replace its answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from indus_nb.base.errors import IndusError
from indus_nb.base.messages import ModelMessage, ThinkingLevel, Usage
from indus_nb.base.streaming import AssistantMessageEvent
from indus_nb.base.wire import JsonObject
from indus_nb.models.catalog import Model

CacheRetention = Literal["none", "short", "long"]
"""How long a prompt cache is kept: not at all, five minutes, or an hour, as far as the API offers that."""
CacheRetentionSetting = Literal["auto", "none", "short", "long"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Description of a tool for a model.

    ``parameters`` is the JSON schema of an object. A call of one that ``is_final`` is the model's answer. With
    ``strict`` the API is to see to it that calls keep the schema, where it can and the schema is one that it can hold.
    """

    name: str
    description: str
    parameters: JsonObject
    is_final: bool = False
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that a model is shown in one request."""

    system_prompt: str
    messages: Sequence[ModelMessage]
    tools: Sequence[ToolSpec] = ()


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options for a model's answer.

    Attributes:
        api_key: The provider's key; ``None`` when it needs none.
        key_from: Says where that key is from, for people who are told that it was refused; empty where nobody knows.
        thinking: The thinking level, one of those that the model has.
        thinking_budgets: Tokens by level, in place of the provider's own budgets.
        max_tokens: The limit of the answer, thinking aside; ``None`` leaves it to the provider.
        idle_timeout: How many seconds the server may be silent; ``None`` leaves it to the provider.
        request_name: What the caller calls this request, for a provider that collects requests.
        must_call: The name of a tool that the model has to call, where its API allows to say so.
        cache_retention: How long the provider is to keep the prompt for the next request, as far as it can.
        is_continued: Whether a later request is likely to begin with these messages; if not, only what precedes them
            is worth keeping.
        shared_characters: How many characters at the start of the first message other requests begin with as well.
        is_streamed: Whether the answer is worth having while it grows; if not, a provider may ask for it whole.
        session_id: What requests have in common that begin alike, for servers that choose a machine by it.
        on_request: Called with the body of the request; returns the body to send.
        on_response: Called with the status and the headers of the answer before anything of it is read.
        on_paid: Called by the code that pays with what the request counts as, once that is settled.
    """

    api_key: str | None = field(default=None, repr=False)
    key_from: Callable[[], str] = str
    thinking: ThinkingLevel = "off"
    thinking_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    max_tokens: int | None = None
    idle_timeout: float | None = None
    must_call: str | None = None
    request_name: str | None = None
    cache_retention: CacheRetention = "short"
    is_continued: bool = True
    shared_characters: int = 0
    is_streamed: bool = True
    session_id: str | None = None
    on_request: Callable[[JsonObject], Awaitable[JsonObject]] | None = None
    on_response: Callable[[int, Mapping[str, str]], Awaitable[None]] | None = None
    on_paid: Callable[[Usage], None] | None = None


class Provider(Protocol):
    """A way to reach models."""

    def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[AssistantMessageEvent]:
        """Send one request and yield the answer as it arrives.

        The first event is ``start``, the last one ``done`` or ``error``. Whatever goes wrong with the request or the
        model is such an ``error`` and never an exception. Cancelling the task that iterates ends the request.

        Args:
            model: The model to ask.
            context: System prompt, messages and tools, as the session holds them.
            options: Key, thinking level, limits and callbacks.

        Returns:
            The events of one answer.
        """
        ...

    def preload(self) -> None:
        """Import what the first request will need.

        Called from a thread, at most a few times, cheap when done.

        It may raise: what is missing is reported by the first request, see ``preloading``.
        """
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """A provider whose servers count tokens."""

    async def count_tokens(self, model: Model, context: Context, options: StreamOptions) -> int:
        """Count the tokens of a request without having it answered.

        Args:
            model: The model that would be asked.
            context: System prompt, messages and tools, as the session holds them.
            options: Key, thinking level and limits; no callback is called.

        Returns:
            The tokens of what the model would read.

        Raises:
            IndusError: There is no count; the message says why.
        """
        ...


async def count_tokens(provider: Provider, model: Model, context: Context, options: StreamOptions) -> int:
    """Count the tokens of a request if the provider can; see ``TokenCounter``.

    Args:
        provider: What would be asked.
        model: The model that would be asked.
        context: System prompt, messages and tools, as the session holds them.
        options: Key, thinking level and limits.

    Returns:
        The tokens of what the model would read.

    Raises:
        IndusError: There is no count; the message says why.
    """
    if not isinstance(provider, TokenCounter):
        raise IndusError(f"No tokens are counted for {model.provider}.")
    return await provider.count_tokens(model, context, options)


class Cassette(Protocol):
    """A recorder of providers' answers, which can also replay them.

    ``ModelRegistry`` asks it anew for every request, so it may be switched on and off while a session lives.
    """

    def is_replaying(self) -> bool:
        """Return whether answers are replayed and no model is reached.

        Neither keys nor headers are needed then.
        """
        ...

    def may_answer(self) -> bool:
        """Return whether a request may be answered without the model; no key is asked for beforehand then."""
        ...

    def provider_for(self, inner: Provider) -> Provider:
        """Return the provider to use in place of ``inner``.

        That is ``inner`` itself, one that records it, or one that replays.

        Raises:
            UsageError: The cassette's configuration makes no sense.
        """
        ...
