"""Gate that every request of every row passes: retries, repairs and the turns after tools included.

What this module promises: no request begins before the limiter lets it. What a server says of its limits, by refusing
requests and by headers, is told to the limiter, which holds for all rows.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace

from indus_nb.base.messages import AssistantMessage
from indus_nb.base.streaming import AssistantMessageEvent, StreamDone, StreamError
from indus_nb.core.limits.limiter import Limiter
from indus_nb.core.limits.room import spacing
from indus_nb.core.loop.retry import asked_delay, failed_status
from indus_nb.models import Context, Model, Provider, StreamOptions

REFUSALS = (429, 503, 529)
"""Statuses by which a server says that it is asked too much."""
_USUAL_WAIT = 1.0
_NOT_BEGUN = "It was stopped before the request was sent."
_FAILED = 400


@dataclass(frozen=True, slots=True)
class Gate:
    """Makes providers pass the limits; see ``ModelRegistry.behind``.

    Attributes:
        limiter: When a request may begin.
        on_failure: Called with the answer of each request that failed.
        name: Gives each request a name, see ``StreamOptions.request_name``.
        on_begin: Called when a request begins.
        on_answer: Called when an answer begins to arrive.
        streams: Returns whether the answer to the next request is worth having while it grows.
        is_over: Returns whether no request shall begin any more, asked once one could.
        longest_pause: For how many seconds a server may make all others wait; what asks for more waits alone.
    """

    limiter: Limiter
    on_failure: Callable[[AssistantMessage], None] = lambda _: None
    name: Callable[[], str] | None = None
    on_begin: Callable[[], None] = lambda: None
    on_answer: Callable[[], None] = lambda: None
    longest_pause: float = math.inf
    streams: Callable[[], bool] = lambda: True
    is_over: Callable[[], bool] = lambda: False

    def provider_for(self, inner: Provider) -> Provider:
        """Return ``inner`` behind the limits."""
        return _Gated(inner, self)


@dataclass(slots=True)
class _Gated:
    inner: Provider
    gate: Gate
    was_refused: bool = False

    def preload(self) -> None:
        self.inner.preload()

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        gate, inner = self.gate, options.on_response

        async def heed(status: int, headers: Mapping[str, str]) -> None:
            gate.limiter.space(spacing(headers, gate.limiter.usage, gate.limiter.all_going))
            if status < _FAILED:
                gate.on_answer()
            if inner is not None:
                await inner(status, headers)

        name = options.request_name if gate.name is None else gate.name()
        async with gate.limiter.request(again=self.was_refused):
            if gate.is_over():
                from indus_nb.models.http.failures import failed_answer

                for event in failed_answer(model, _NOT_BEGUN):
                    yield event
                return
            # Asked after the wait for a place: what others met meanwhile counts.
            options = replace(options, request_name=name, on_response=heed, is_streamed=gate.streams())
            async with aclosing(self.inner.stream(model, context, options)) as events:
                gate.on_begin()
                async for event in events:
                    if isinstance(event, StreamError):
                        self._failed(event.error)
                        gate.on_failure(event.error)
                    elif isinstance(event, StreamDone):
                        self.was_refused = False
                        gate.limiter.answered(event.message.usage)
                    yield event

    def _failed(self, answer: AssistantMessage) -> None:
        self.was_refused = failed_status(answer) in REFUSALS
        if not self.was_refused:
            self.gate.limiter.answered()
            return
        wait = asked_delay(answer) or _USUAL_WAIT
        self.gate.limiter.refused(wait if wait <= self.gate.longest_pause else 0.0)
