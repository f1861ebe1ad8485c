"""How a model is reached: the ``Provider`` protocol, and what it is given."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from indus_nb.messages import ModelMessage, ThinkingLevel
from indus_nb.providers.catalog import Model
from indus_nb.streaming import AssistantMessageEvent
from indus_nb.wire import JsonObject

__all__ = ["Context", "Model", "Provider", "StreamOptions", "ToolSpec"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it; ``parameters`` is a JSON schema of an object."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True)
class Context:
    """All that a model is shown in one request."""

    system_prompt: str
    messages: Sequence[ModelMessage]
    tools: Sequence[ToolSpec] = ()


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a model is to answer.

    ``thinking_budgets`` (tokens by level) replaces the defaults. ``max_tokens`` limits the answer, thinking aside.
    ``idle_timeout`` is how many seconds the server may be silent; ``None`` leaves that to the provider.
    ``on_request`` is given the body of the request and returns the one to send; ``on_response`` is told the status and
    the headers of the answer before any of it is taken.
    """

    api_key: str | None = field(default=None, repr=False)
    thinking: ThinkingLevel = "off"
    thinking_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    max_tokens: int | None = None
    idle_timeout: float | None = None
    on_request: Callable[[JsonObject], Awaitable[JsonObject]] | None = None
    on_response: Callable[[int, Mapping[str, str]], Awaitable[None]] | None = None


class Provider(Protocol):
    """A way to reach models."""

    def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[AssistantMessageEvent]:
        """Ask once and yield the answer as it comes.

        The first event is ``start``, the last one ``done`` or ``error``. Whatever goes wrong with the request or the
        model is such an ``error`` and never an exception. Cancelling the task that iterates ends the request.
        """
        ...

    def preload(self) -> None:
        """Import what the first request will need. Called from a thread, at most a few times, cheap when done.

        It may raise: what is missing is told by the first request, see ``preloading``.
        """
        ...
