"""Where every request of every row passes: retries, repairs and the turns after tools included.

What this module promises: no request begins before the limiter lets it and the budget holds the most that it can cost.
What a server asks to wait holds for all rows. A request that a server refused costs nothing, one that was answered what
its usage says, and one that broke off as much as was reserved, for nobody knows better.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from indus_nb.limits.budget import Budget, BudgetExhaustedError, Reservation
from indus_nb.limits.limiter import Limiter
from indus_nb.loop.retry import asked_delay, failed_status
from indus_nb.messages import AssistantMessage
from indus_nb.providers import Context, Model, Provider, StreamOptions
from indus_nb.streaming import AssistantMessageEvent, StreamDone, StreamError
from indus_nb.wire import dump

_WAITS = (429, 503, 529)
_USUAL_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class Gate:
    """Makes providers pass the limits; see ``ModelRegistry.behind``.

    Attributes:
        limiter: When a request may begin.
        budget: What it may cost.
        max_tokens: The longest answer, thinking included; ``None`` for the model's own limit.
        on_cost: Called with what each request counts as, in US dollars.
        on_failure: Called with the answer of each request that failed.
        name: Gives each request a name, see ``StreamOptions.request_name``.
        on_begin: Called when a request begins.
        longest_pause: For how many seconds a server may make all others wait; what asks for more waits alone.
    """

    limiter: Limiter
    budget: Budget
    max_tokens: int | None = None
    on_cost: Callable[[float], None] = lambda _: None
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
        limiter, budget, most = self.gate.limiter, self.gate.budget, self.gate.max_tokens
        if most is not None and most < model.max_tokens:
            model = model.model_copy(update={"max_tokens": most})
            options = replace(options, max_tokens=min(most, options.max_tokens or most))
        if self.gate.name is not None:
            options = replace(options, request_name=self.gate.name())
        try:
            # Money first: a request that waits for it holds no place of the limiter's.
            async with (
                budget.request(worst_cost(model, context)) as reservation,
                limiter.request(),
                aclosing(self.inner.stream(model, context, options)) as events,
            ):
                self.gate.on_begin()
                try:
                    async for event in events:
                        if isinstance(event, StreamDone):
                            reservation.spend(event.message.usage.cost.total)
                        elif isinstance(event, StreamError):
                            self._failed(event.error, reservation)
                            self.gate.on_failure(event.error)
                        yield event
                finally:
                    self.gate.on_cost(reservation.charged)
        except BudgetExhaustedError as error:
            from indus_nb.providers.failures import failed_answer

            # With the status that says that another attempt changes nothing, whatever amounts the sentence holds.
            for event in failed_answer(model, f"402 {error}"):
                yield event

    def _failed(self, answer: AssistantMessage, reservation: Reservation) -> None:
        if (status := failed_status(answer)) is None:
            return
        if not answer.usage.input and not answer.content:  # else a status that came within an answer
            reservation.spend(0)
        wait = asked_delay(answer) or _USUAL_WAIT
        if status in _WAITS and wait <= self.gate.longest_pause:
            self.gate.limiter.pause(wait)


def own_sentence(text: str) -> str:
    """Return an error without the status that it has for retries only, if no server has said it."""
    return text[4:] if text.startswith(("402 The budget ", "410 The batch ")) else text


def longest_answer_cost(model: Model, most: int | None) -> float:
    """Return what the longest answer costs: no request reserves less.

    Args:
        model: The model that is asked.
        most: The longest answer that is allowed, in tokens; ``None`` for the model's own limit.

    Returns:
        US dollars.
    """
    tokens = model.max_tokens if most is None else min(most, model.max_tokens)
    return model.cost.usage(input=0, output=tokens).cost.total


def worst_cost(model: Model, context: Context) -> float:
    """Return the most that a request can cost.

    A token is a byte at least, and no answer is longer than the model's longest.

    Args:
        model: The model that is asked.
        context: What it is shown.

    Returns:
        US dollars.
    """
    tools = [[tool.name, tool.description, tool.parameters] for tool in context.tools]
    size = len(dump([context.system_prompt, tools])) + sum(len(dump(message)) for message in context.messages)
    prices = model.cost
    read = max(
        prices.usage(input=size, output=0).cost.total, prices.usage(input=0, output=0, cache_write=size).cost.total
    )
    return read + longest_answer_cost(model, None)
