"""Gate that every request of every row passes: retries, repairs and the turns after tools included.

What this module promises: no request begins before the limiter lets it. What a server asks to wait holds for all rows.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from indus_nb.base.messages import AssistantMessage
from indus_nb.base.streaming import AssistantMessageEvent, StreamError
from indus_nb.core.limits.limiter import Limiter
from indus_nb.core.loop.retry import asked_delay, failed_status
from indus_nb.models import Context, Model, Provider, StreamOptions

_WAITS = (429, 503, 529)
_USUAL_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class Gate:
    """Makes providers pass the limits; see ``ModelRegistry.behind``.

    Attributes:
        limiter: When a request may begin.
        on_failure: Called with the answer of each request that failed.
        name: Gives each request a name, see ``StreamOptions.request_name``.
        on_begin: Called when a request begins.
        longest_pause: For how many seconds a server may make all others wait; what asks for more waits alone.
    """

    limiter: Limiter
    on_failure: Callable[[AssistantMessage], None] = lambda _: None
    name: Callable[[], str] | None = None
    on_begin: Callable[[], None] = lambda: None
    longest_pause: float = math.inf

    def provider_for(self, inner: Provider) -> Provider:
        """Return ``inner`` behind the limits."""
        return _Gated(inner, self)


@dataclass(frozen=True, slots=True)
class _Gated:
    inner: Provider
    gate: Gate

    def preload(self) -> None:
        self.inner.preload()

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        if self.gate.name is not None:
            options = replace(options, request_name=self.gate.name())
        async with self.gate.limiter.request(), aclosing(self.inner.stream(model, context, options)) as events:
            self.gate.on_begin()
            async for event in events:
                if isinstance(event, StreamError):
                    self._failed(event.error)
                    self.gate.on_failure(event.error)
                yield event

    def _failed(self, answer: AssistantMessage) -> None:
        if failed_status(answer) not in _WAITS:
            return
        wait = asked_delay(answer) or _USUAL_WAIT
        if wait <= self.gate.longest_pause:
            self.gate.limiter.pause(wait)
