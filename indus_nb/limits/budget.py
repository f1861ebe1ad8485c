"""One amount of money for all workers: reserved before a request, and what it did not cost given back.

What this module promises: what was spent and what is reserved never exceed the limit together. A request may cost more
than was reserved for it, so what was spent may pass the limit by that much for each request that goes on, and by no
more. Amounts are added as whole billionths of a dollar, so that sums are exact.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from indus_nb.errors import IndusError, UsageError

_UNIT = 1_000_000_000


class BudgetExhaustedError(IndusError):
    """A request would pass the limit; nothing was asked."""


class Reservation:
    """Money that is kept for one request."""

    def __init__(self, amount: int) -> None:
        self.amount = amount
        self.cost: int | None = None

    def spend(self, dollars: float) -> None:
        """Say what the request has cost; several amounts are added."""
        self.cost = (self.cost or 0) + _billionths(dollars)

    @property
    def charged(self) -> float:
        """What it counts as, in US dollars: what it has cost, or as long as nobody has said that, what was reserved."""
        return (self.amount if self.cost is None else self.cost) / _UNIT


class Budget:
    """Keeps account; to be used on one event loop.

    Args:
        limit: US dollars; ``None`` for no limit.

    Raises:
        UsageError: The limit is not above zero.
    """

    def __init__(self, limit: float | None = None) -> None:
        if limit is not None and not 0 < limit < math.inf:
            raise UsageError("A budget is an amount of US dollars above zero.")
        self._limit = None if limit is None else _billionths(limit)
        self._spent = self._reserved = 0
        self._settled = asyncio.Condition()
        self.waiting = 0
        """How many requests wait for money that others hold."""

    @property
    def spent(self) -> float:
        """What requests that have ended did cost, in US dollars."""
        return self._spent / _UNIT

    @property
    def left(self) -> float:
        """What could still be reserved; without a limit infinite."""
        return math.inf if self._limit is None else max(0, self._limit - self._spent - self._reserved) / _UNIT

    def charge(self, dollars: float) -> None:
        """Count what was spent before, by an earlier process."""
        self._spent += _billionths(dollars)

    @asynccontextmanager
    async def request(self, estimate: float) -> AsyncGenerator[Reservation]:
        """Reserve money for a request; waits while others hold what they may give back.

        A request that does not say what it has cost, for it broke off, is counted as what was reserved.

        Args:
            estimate: What it may cost, in US dollars.

        Yields:
            The reservation, which is told what the request has cost.

        Raises:
            BudgetExhaustedError: The limit would be passed, whatever the others give back.
        """
        reservation = Reservation(_billionths(estimate))
        async with self._settled:
            while not self._fits(reservation.amount):
                self.waiting += 1
                try:
                    await self._settled.wait()
                finally:
                    self.waiting -= 1
            self._reserved += reservation.amount
        try:
            yield reservation
        finally:
            # Without an await before it, so that a cancelled request is accounted for too.
            self._reserved -= reservation.amount
            self._spent += reservation.amount if reservation.cost is None else reservation.cost
            await asyncio.shield(self._tell())

    def _fits(self, amount: int) -> bool:
        if self._limit is None:
            return True
        if (sentence := self._refusal(amount)) is not None:
            raise BudgetExhaustedError(sentence)
        return self._spent + self._reserved + amount <= self._limit

    def refusal(self, estimate: float) -> str | None:
        """Return why no request of such a cost can begin any more, in US dollars; ``None`` if one could."""
        return self._refusal(_billionths(estimate))

    def _refusal(self, amount: int) -> str | None:
        if self._limit is None or self._spent + amount <= self._limit:
            return None
        return (
            f"The budget of ${self._limit / _UNIT:g} has no room: ${self.spent:.4f} are spent, and the next request "
            f"may cost ${amount / _UNIT:.4f}. Raise the budget to go on; what is done is kept."
        )

    async def _tell(self) -> None:
        async with self._settled:
            self._settled.notify_all()


def _billionths(dollars: float) -> int:
    return round(dollars * _UNIT)
