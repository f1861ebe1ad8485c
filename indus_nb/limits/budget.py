"""Money: reserved before a request, and what that did not cost given back. Budgets stand inside one another.

What this module promises: what was spent, what may have been spent and what is reserved never exceed a limit together,
neither that of the budget that is asked nor that of any budget that it stands in. A request may cost more than was
reserved for it, so what was spent may pass the limit by that much for each request that goes on, and by no more.
Amounts are added as whole billionths of a dollar, so that sums are exact. Budgets may be used from several event loops
and threads; ``spending`` is the budget that the code at hand spends from.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from indus_nb.errors import IndusError, UsageError
from indus_nb.messages import Usage

_UNIT = 1_000_000_000
_RAISE = "Raise the budget to go on; what is done is kept."
_lock = threading.Lock()


class BudgetExhaustedError(IndusError):
    """A request would pass the limit; nothing was asked."""


class Reservation:
    """Money that is kept for one request."""

    def __init__(self, amount: int, settle: Callable[[Reservation], None]) -> None:
        self.amount = amount
        self._settle = settle
        self._is_settled = False
        self.cost: int | None = None
        self.unconfirmed = 0
        self.usage = Usage()

    @property
    def dollars(self) -> float:
        """What is reserved, in US dollars."""
        return self.amount / _UNIT

    def spend(self, dollars: float, unconfirmed: float = 0.0) -> None:
        """Set what the request has cost.

        Args:
            dollars: What it has cost at least.
            unconfirmed: What it may have cost besides.
        """
        self.cost, self.unconfirmed = _billionths(dollars), _billionths(unconfirmed)

    def release(self) -> None:
        """Give back what the request has not cost; does nothing the second time."""
        if not self._is_settled:
            self._is_settled = True
            self._settle(self)


class Budget:
    """Keeps account of the requests of a session, of rows or of sub-agents.

    Args:
        limit: US dollars; ``None`` for no limit.
        inside: Budgets that are charged too, and whose limits hold too.
        of_session: Whether it is that of a session, whose messages record what its own requests used.
        recorded: Whether what is spent here is recorded in the session that it stands in.

    Raises:
        UsageError: The limit is not above zero.
    """

    def __init__(
        self,
        limit: float | None = None,
        inside: tuple[Budget | None, ...] = (),
        *,
        of_session: bool = False,
        recorded: bool = False,
    ) -> None:
        if limit is not None and not 0 < limit < math.inf:
            raise UsageError("A budget is an amount of US dollars above zero.")
        self._limit = None if limit is None else _billionths(limit)
        self._spent = self._unconfirmed = self._reserved = 0
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        self._of_session, self._recorded = of_session, recorded
        self._nested = Usage()
        self._chain: tuple[Budget, ...] = (self, *chain(*inside))
        self.unpriced = False
        """Whether requests were made whose price is unknown."""

    @property
    def waiting(self) -> int:
        """How many requests wait for money that others hold."""
        return len(self._waiting)

    @property
    def limit(self) -> float | None:
        """The limit in US dollars, if there is one."""
        return None if self._limit is None else self._limit / _UNIT

    @property
    def is_limited(self) -> bool:
        """Whether it, or one that it stands in, has a limit."""
        return any(budget._limit is not None for budget in self._chain)  # noqa: SLF001 - it is one of these

    @property
    def spent(self) -> float:
        """What requests that have ended did cost at least, in US dollars."""
        return self._spent / _UNIT

    @property
    def unconfirmed(self) -> float:
        """What requests that broke off may have cost besides, in US dollars; it counts against the limit."""
        return self._unconfirmed / _UNIT

    @property
    def left(self) -> float:
        """What could still be reserved of its own limit; without one infinite."""
        if self._limit is None:
            return math.inf
        return max(0, self._limit - self._spent - self._unconfirmed - self._reserved) / _UNIT

    def for_code(self) -> Budget:
        """Return what code is to spend from that works for this budget's session, and for whoever spends at hand."""
        outer = spending()
        return outer if outer is not None and self in outer._chain else Budget(None, (self, outer))

    def charge(self, dollars: float, unconfirmed: float = 0.0) -> None:
        """Count what was spent before, by an earlier process.

        Args:
            dollars: What was spent.
            unconfirmed: What may have been spent besides.
        """
        with _lock:
            self._spent += _billionths(dollars)
            self._unconfirmed += _billionths(unconfirmed)

    def take_nested(self) -> Usage:
        """Return what other sessions have used within this one since the last time, and no entry of its file says."""
        with _lock:
            nested, self._nested = self._nested, Usage()
        return nested

    @asynccontextmanager
    async def request(self, estimate: float, least: float | None = None) -> AsyncGenerator[Reservation]:
        """Reserve money for a request; waits while others hold what they may give back.

        A request that does not set what it has cost is counted as one that may have cost what was reserved.

        Args:
            estimate: What it may cost, in US dollars.
            least: What it may be cut down to, if there is not more left.

        Yields:
            The reservation, where what the request has cost is to be set.

        Raises:
            BudgetExhaustedError: A limit would be passed, whatever the others give back.
        """
        most = _billionths(estimate)
        least_amount = most if least is None else min(most, _billionths(least))
        while isinstance(amount := self._reserve(most, least_amount), asyncio.Future):
            await self._released(amount)
        reservation = Reservation(amount, self._settle)
        try:
            yield reservation
        finally:
            # Without an await, so that a cancelled request is accounted for too.
            reservation.release()

    def _reserve(self, most: int, least: int) -> int | asyncio.Future[None]:
        """Reserve what is free of ``most``, or return what ends when others have given something back."""
        with _lock:
            if (sentence := self._refusal(least)) is not None:
                raise BudgetExhaustedError(sentence)
            limited = [each for each in self._chain if each._limit is not None]
            free = min((each._free for each in limited), default=most)
            if free < least:
                loop = asyncio.get_running_loop()
                future: asyncio.Future[None] = loop.create_future()
                for each in self._chain:
                    each._waiting[future] = loop
                return future
            amount = min(most, free)
            for each in self._chain:
                each._reserved += amount
            return amount

    @property
    def _free(self) -> int:
        return (self._limit or 0) - self._spent - self._unconfirmed - self._reserved

    async def _released(self, future: asyncio.Future[None]) -> None:
        try:
            await future
        finally:
            with _lock:
                for each in self._chain:
                    each._waiting.pop(future, None)

    def _settle(self, reservation: Reservation) -> None:
        cost = reservation.cost or 0
        unconfirmed = reservation.amount if reservation.cost is None else reservation.unconfirmed
        waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        with _lock:
            sessions = 0
            for each in self._chain:
                each._reserved -= reservation.amount
                each._spent += cost
                each._unconfirmed += unconfirmed
                each.unpriced |= bool(reservation.usage.cost.unknown)
                sessions += each._of_session
                if each._recorded:
                    sessions = -math.inf
                elif each._of_session and sessions > 1:
                    each._nested += reservation.usage
                waiting |= each._waiting
        for future, loop in waiting.items():
            with suppress(RuntimeError):  # its loop is closed, so nothing waits there
                loop.call_soon_threadsafe(_wake, future)

    def refusal(self, estimate: float) -> str | None:
        """Return why no request of such a cost can begin any more, in US dollars; ``None`` if one could."""
        with _lock:
            return self._refusal(_billionths(estimate))

    def _refusal(self, amount: int) -> str | None:
        for each in self._chain:
            if each._limit is not None and each._spent + each._unconfirmed + amount > each._limit:
                return each._sentence(amount)
        return None

    def _sentence(self, amount: int) -> str:
        if not amount:
            return f"The budget of ${(self._limit or 0) / _UNIT:g} is spent: ${self.spent:.4f}. {_RAISE}"
        perhaps = f", up to ${self.unconfirmed:.4f} more may be by requests that broke off" if self._unconfirmed else ""
        return (
            f"The budget of ${(self._limit or 0) / _UNIT:g} has no room: ${self.spent:.4f} are spent{perhaps}, and the "
            f"next request may cost ${amount / _UNIT:.4f}. {_RAISE}"
        )


def chain(*budgets: Budget | None) -> tuple[Budget, ...]:
    """Return budgets and those that they stand in, each once."""
    return tuple(dict.fromkeys(each for budget in budgets if budget is not None for each in budget._chain))  # noqa: SLF001


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _billionths(dollars: float) -> int:
    return round(dollars * _UNIT)


# Which budget code spends from

_spending: ContextVar[Budget | None] = ContextVar("indus_nb budget", default=None)
_running: list[tuple[frozenset[threading.Thread], Budget]] = []
_threads: WeakKeyDictionary[threading.Thread, Budget] = WeakKeyDictionary()


def spending() -> Budget | None:
    """Return the budget that the code at hand spends from: that of the run which has it carried out, if one does."""
    found = _spending.get()
    if found is not None or not (_running or _threads):
        return found
    thread = threading.current_thread()
    with _lock:
        if (adopted := _threads.get(thread)) is not None:
            return adopted
        return next((budget for before, budget in reversed(_running) if thread not in before), None)


@contextmanager
def spending_from(budget: Budget | None) -> Generator[None]:
    """Let what is called here, and tasks that it begins, spend from ``budget``."""
    token = _spending.set(budget)
    try:
        yield
    finally:
        _spending.reset(token)


@contextmanager
def code_spends_from(budget: Budget | None) -> Generator[None]:
    """Let code spend from ``budget``, and the threads that it starts, also once it has ended."""
    if budget is None:
        yield
        return
    before = frozenset(threading.enumerate())
    running = (before, budget)
    with _lock:
        _running.append(running)
    try:
        with spending_from(budget):
            yield
    finally:
        with _lock:
            _running.remove(running)
            _threads.update((thread, budget) for thread in threading.enumerate() if thread not in before)
