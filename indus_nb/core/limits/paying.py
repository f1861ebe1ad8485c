"""Payment for every request of every session: the most that it can cost is reserved before it is sent.

What this module promises: a request that was answered has cost what its usage says, one that a server rejected or never
got, as where a cassette answers, nothing. One that broke off has cost what it is known to have read and what arrived of
its answer; what it may have cost besides, up to the longest answer, is unconfirmed and counts against the limit. So it
is with an answer whose usage no server reports, but for its length, which is known. With a limit no model is asked
whose price is unknown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.messages import NO_PRICE, AssistantMessage, Usage
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage, StreamDone, StreamError, StreamStart
from indus_nb.base.wire import JsonObject, dump
from indus_nb.core.limits.budget import Budget, BudgetExhaustedError, Reservation
from indus_nb.core.loop.retry import failed_status, was_not_reached
from indus_nb.models import Context, Model, Provider, StreamOptions
from indus_nb.models.protocol import count_tokens

if TYPE_CHECKING:
    from indus_nb.base.messages import ModelMessage

_CHARACTERS_A_TOKEN = 4
_HIDDEN_TOKENS = 500
"""Tokens that servers put before tools."""
_MAX_BYTES_A_TOKEN = 8
"""Most bytes a token has in text as people write it: what exceeds a budget even so need not be counted."""
_SHORTEST_ANSWER = 1024
"""Tokens of the shortest answer worth asking for: rather than a shorter one, nothing is asked."""


def price_problem(model: Model, budget: Budget | None) -> str | None:
    """Return why a model cannot be asked within a budget: its price is unknown. ``None`` if it can."""
    if model.cost.known or budget is None or not budget.is_limited:
        return None
    return (
        f"{NO_PRICE}{model.provider}/{model.id} is unknown, so no limit in money can hold: give its `cost` in "
        'models.json, or leave out max_cost; `"cost": 0` says that it is free. Nothing was asked.'
    )


def check_price(model: Model, budget: Budget | None) -> None:
    """Check that a model can be asked within a budget.

    Raises:
        UsageError: Its price is unknown, and the budget has a limit.
    """
    if (problem := price_problem(model, budget)) is not None:
        raise UsageError(problem)


@dataclass(slots=True)
class Payer:
    """Lets the requests of one session be paid for.

    Attributes:
        max_tokens: The longest answer, thinking included; ``None`` for the model's own limit.
    """

    budget: Budget
    max_tokens: int | None = None
    _asked: tuple[object, Sequence[ModelMessage], int] | None = field(default=None, repr=False)
    """Parts of the last request besides the messages, the messages, and the tokens of both."""

    def provider_for(self, inner: Provider) -> Provider:
        """Return ``inner`` where each request is paid for, from this budget and from that of the code that asks."""
        return _Paid(inner, self)

    def read_tokens(self, model: Model, context: Context) -> int:
        """Return the most tokens that a model reads of a context: a token is a byte at least.

        What went before unchanged was counted by the server, if it was read by the same model.
        """
        head, messages, counted = self._asked or (None, (), 0)
        same = head == _head(model, context) and list(context.messages[: len(messages)]) == list(messages)
        new = context.messages[len(messages) :] if same else context.messages
        known = counted if same else len(dump(_head(model, context))) + (_HIDDEN_TOKENS if context.tools else 0)
        return known + sum(len(dump(message)) for message in new)

    def note(self, model: Model, context: Context, usage: Usage) -> None:
        """Remember the token count of a server."""
        if read := usage.input + usage.cache_read + usage.cache_write:
            self._asked = _head(model, context), list(context.messages), read


def _head(model: Model, context: Context) -> list[object]:
    return [
        model.provider,
        model.id,
        context.system_prompt,
        [[tool.name, tool.description, tool.parameters] for tool in context.tools],
    ]


@dataclass(frozen=True, slots=True)
class _Paid:
    inner: Provider
    payer: Payer

    def preload(self) -> None:
        self.inner.preload()

    async def count_tokens(self, model: Model, context: Context, options: StreamOptions) -> int:
        return await count_tokens(self.inner, model, context, options)

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        budget = self.payer.budget.for_code()
        problem = price_problem(model, budget)
        try:
            if problem is None:
                async with aclosing(self._stream(budget, model, context, options)) as events:
                    async for event in events:
                        yield event
                return
        except BudgetExhaustedError as error:
            problem = str(error)
        from indus_nb.models.http.failures import failed_answer

        for event in failed_answer(model, problem):  # which ``loop.retry`` knows for one that no second attempt mends
            yield event

    async def _stream(
        self, budget: Budget, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        model, options = _limited(model, options, self.payer.max_tokens)
        limited = budget.is_limited
        shortest = model.max_tokens if self.payer.max_tokens is not None else min(_SHORTEST_ANSWER, model.max_tokens)
        read = await self._read_cost(budget, model, context, options, shortest) if limited else 0.0
        most = read + answer_cost(model, model.max_tokens) if limited else 0.0
        least = read + answer_cost(model, shortest) if limited else 0.0
        async with budget.request(most, least) as reservation:
            if reservation.dollars < most - 1e-9:
                model, options = _limited(model, options, _tokens_for(model, reservation.dollars - read))
            request = _Request(self.payer, model, context, options)
            options = replace(options, on_request=request.begin)
            try:
                async with aclosing(self.inner.stream(model, context, options)) as events:
                    async for event in events:
                        if request.follow(event):
                            request.settle(reservation)  # now, for the caller may stop at the last event
                            yield _with_cost(event, reservation.usage)
                        else:
                            yield event
            finally:
                request.settle(reservation)

    async def _read_cost(
        self, budget: Budget, model: Model, context: Context, options: StreamOptions, shortest: int
    ) -> float:
        """Return the most that reading a context costs; counted by the server where that decides."""
        tokens = self.payer.read_tokens(model, context)
        answer = answer_cost(model, shortest)

        def fits(tokens: int) -> bool:
            return budget.refusal(_read_cost(model, tokens) + answer) is None

        if self.payer.max_tokens is None and not fits(tokens) and fits(tokens // _MAX_BYTES_A_TOKEN):
            with suppress(IndusError):
                counted = await self.count_tokens(model, context, options)
                tokens = min(tokens, counted + counted // 50 + _HIDDEN_TOKENS)
        return _read_cost(model, tokens)


class _Request:
    """One request, and the known part of its cost."""

    def __init__(self, payer: Payer, model: Model, context: Context, options: StreamOptions) -> None:
        self._payer, self._model, self._context = payer, model, context
        self._inner, self._on_paid = options.on_request, options.on_paid
        self._growing: GrowingMessage | None = None
        self._end: AssistantMessage | None = None
        self._is_done = self._was_sent = False

    async def begin(self, body: JsonObject) -> JsonObject:
        """Note that the request is sent."""
        sent = body if self._inner is None else await self._inner(body)
        self._was_sent = True
        return sent

    def follow(self, event: AssistantMessageEvent) -> bool:
        """Note the cost in an event; returns whether it is the last one."""
        if isinstance(event, StreamStart):
            self._growing = event.growing
        elif isinstance(event, StreamDone):
            self._end, self._is_done = event.message, True
        elif isinstance(event, StreamError):
            self._end = event.error
        return self._end is not None

    def settle(self, reservation: Reservation) -> None:
        """Set the cost of the request, however it ended; only the first call counts."""
        usage = self._usage()
        if self._is_done and usage.total_tokens:
            self._payer.note(self._model, self._context, usage)
            reservation.usage = usage
            reservation.spend(usage.cost.total)
        elif not self._was_sent or (not usage.total_tokens and not self._is_done and self._was_refused()):
            reservation.spend(0)
        else:
            arrived = max(usage.output, -(-self._characters // _CHARACTERS_A_TOKEN))
            usage = self._with_output(usage, arrived)
            unconfirmed = max(0.0, self._most(usage, reservation) - usage.cost.total)
            reservation.usage = usage.replace(cost=usage.cost.replace(unconfirmed=unconfirmed or None))
            reservation.spend(usage.cost.total, unconfirmed)
        reservation.release()
        if self._on_paid is not None:
            self._on_paid, on_paid = None, self._on_paid
            on_paid(reservation.usage)

    def _most(self, usage: Usage, reservation: Reservation) -> float:
        """Return the most that it may have cost, as far as no server has reported it."""
        if usage.input or usage.cache_read or usage.cache_write:
            return self._with_output(usage, self._model.max_tokens).cost.total
        if not self._is_done and reservation.dollars:
            return reservation.dollars
        read = _read_cost(self._model, self._payer.read_tokens(self._model, self._context))
        return read + answer_cost(self._model, self._characters if self._is_done else self._model.max_tokens)

    def _usage(self) -> Usage:
        known = [each.usage for each in (self._end, self._growing) if each is not None]
        return max(known, key=lambda usage: usage.total_tokens, default=Usage())

    def _was_refused(self) -> bool:
        end = self._end
        has_content = bool(end and end.content)
        return end is not None and not has_content and (failed_status(end) is not None or was_not_reached(end))

    @property
    def _characters(self) -> int:
        return 0 if self._growing is None else self._growing.characters

    def _with_output(self, usage: Usage, tokens: int) -> Usage:
        """Return the usage with a longer answer; a cost that a server reported stays in it, searches for example."""
        counts = {"input": usage.input, "cache_read": usage.cache_read, "cache_write": usage.cache_write}
        now, then = (self._model.cost.usage(output=output, **counts) for output in (usage.output, tokens))
        more = then.cost.output - now.cost.output
        cost = usage.cost.replace(
            output=usage.cost.output + more, total=usage.cost.total + more, unknown=then.cost.unknown
        )
        return usage.replace(output=tokens, total_tokens=usage.total_tokens + tokens - usage.output, cost=cost)


def _with_cost(event: AssistantMessageEvent, usage: Usage) -> AssistantMessageEvent:
    """Return the last event of an answer that broke off, or was not counted, with what the request counts as."""
    if isinstance(event, StreamError):
        return event.replace(error=event.error.replace(usage=usage))
    if isinstance(event, StreamDone) and not event.message.usage.total_tokens:
        # Its tokens stay those of the server: they tell how long the conversation is.
        return event.replace(message=event.message.replace(usage=event.message.usage.replace(cost=usage.cost)))
    return event


def _limited(model: Model, options: StreamOptions, most: int | None) -> tuple[Model, StreamOptions]:
    if most is None or most >= model.max_tokens:
        return model, options
    model = model.replace(max_tokens=most)
    return model, replace(options, max_tokens=min(most, options.max_tokens or most))


def own_sentence(text: str) -> str:
    """Return an error without the status that it has for retries only, if no server has sent it."""
    return text[4:] if text.startswith("410 The batch ") else text


def longest_answer_cost(model: Model, most: int | None) -> float:
    """Return the cost of the longest answer: no request reserves less.

    Args:
        most: The longest answer that is allowed, in tokens; ``None`` for the model's own limit.
    """
    return answer_cost(model, model.max_tokens if most is None else min(most, model.max_tokens))


def answer_cost(model: Model, tokens: int) -> float:
    """Return the most that an answer costs."""
    return tokens * max(prices.output for prices in (model.cost, model.cost.long_prompt) if prices is not None) / 1e6


def _read_cost(model: Model, tokens: int) -> float:
    cost = model.cost
    hour = tokens if cost.cache_write else 0
    ways = [
        cost.usage(input=tokens, output=0),
        cost.usage(input=0, output=0, cache_write=tokens, cache_write_hour=hour),
    ]
    return max(usage.cost.total for usage in ways)


def _tokens_for(model: Model, dollars: float) -> int:
    price = answer_cost(model, 1)
    return model.max_tokens if not price else max(1, int(dollars / price))
