"""Money: reserved before a request, and what that did not cost given back. Budgets stand inside one another.

What this module promises: what was spent, what may have been spent and what is reserved never exceed a limit together,
neither that of the budget that is asked nor that of any budget that it stands in. A request may cost more than was
reserved for it, so what was spent may pass the limit by that much for each request that goes on, and by no more.
Requests that wait for money of one limit are given it in the order in which they came. Amounts are added as whole
billionths of a dollar, so that sums are exact. Budgets may be used from several event loops and threads; ``spending``
is the budget that the code at hand spends from.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date
from functools import cache, wraps
from weakref import WeakKeyDictionary

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.messages import OVER_BUDGET, Usage
from indus_nb.core.limits.words import limit_in_words

_UNIT = 1_000_000_000
_MOST = 1e12
"""Upper bound of a server's cost, in US dollars, so that it can be added."""
_RAISE = "Raise the budget to go on; what is done is kept."
_lock = threading.Lock()
_days: dict[date, int] = {}
"""What all sessions of this process spent on a local date, of which only the newest is kept."""
_numbers = itertools.count()
_watchers: list[Callable[[], None]] = []
"""Called when a request was paid for."""


def watch_spending(call: Callable[[], None]) -> Callable[[], None]:
    """Have ``call`` called after each request that was paid for, on the thread that asked it.

    Args:
        call: Returns at once; what it raises is ignored.

    Returns:
        Ends that.
    """
    _watchers.append(call)

    def end() -> None:
        if call in _watchers:
            _watchers.remove(call)

    return end


def spent_today() -> float:
    """Return the least that this process's finished requests of today cost, in US dollars; a day is a local date."""
    return _days.get(date.today(), 0) / _UNIT  # noqa: DTZ011 - the user's own calendar


class BudgetExhaustedError(IndusError):
    """Raised when a request would pass the limit; nothing was asked."""


class Reservation:
    """Money that is kept for one request."""

    def __init__(self, amount: int, settle: Callable[[Reservation], None]) -> None:
        self.amount = amount
        self._settle = settle
        self._is_settled = False
        self.cost: int | None = None
        self.unconfirmed: int = 0
        self.usage: Usage = Usage()

    @property
    def dollars(self) -> float:
        """Return the reserved amount, in US dollars."""
        return self.amount / _UNIT

    def spend(self, dollars: float, unconfirmed: float = 0.0) -> None:
        """Set the cost of the request.

        Args:
            dollars: What it has cost at least.
            unconfirmed: What it may have cost besides.
        """
        self.cost, self.unconfirmed = _billionths(dollars), _billionths(unconfirmed)

    def release(self) -> None:
        """Release the part of the reservation that was not spent; does nothing the second time."""
        if not self._is_settled:
            self._is_settled = True
            self._settle(self)


@dataclass(eq=False, slots=True)
class _Account:
    """Account of one budget, in billionths of a dollar; changed under the lock alone."""

    limit: int | None
    of_session: bool
    recorded: bool
    spent: int = 0
    unconfirmed: int = 0
    reserved: int = 0
    unpriced: bool = False
    has_refused: bool = False
    nested: Usage = field(default_factory=Usage)
    waiting: int = 0
    queue: list[tuple[int, _Request]] = field(default_factory=list["tuple[int, _Request]"])
    """Heap of the requests waiting for money of this account; whenever the lock is free, the first one has to."""

    def has_room(self, amount: int) -> bool:
        """Return whether so much could be spent once others have given back all that is reserved."""
        return self.limit is None or self.spent + self.unconfirmed + amount <= self.limit

    def free(self) -> int:
        """Return the amount that could be reserved now."""
        return (self.limit or 0) - self.spent - self.unconfirmed - self.reserved

    def refusal(self, amount: int) -> str:
        """Return the reason that there is no room, and note that it was asked for."""
        self.has_refused = True
        limit, spent = limit_in_words((self.limit or 0) / _UNIT), f"${self.spent / _UNIT:.4f}"
        if not amount:
            return f"{OVER_BUDGET}{limit} is spent: {spent}. {_RAISE}"
        more = f", up to ${self.unconfirmed / _UNIT:.4f} more may be by requests that broke off" * bool(
            self.unconfirmed
        )
        return (
            f"{OVER_BUDGET}{limit} has no room: {spent} are spent{more}, and the next request may cost "
            f"${amount / _UNIT:.4f}. {_RAISE}"
        )


@dataclass(eq=False, slots=True)
class _Request:
    """A request for a reservation of ``least`` to ``most``; changed under the lock alone.

    ``amount`` is what it has been given, ``refusal`` why it is given nothing.
    """

    accounts: tuple[_Account, ...]
    most: int
    least: int
    decided: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    amount: int = 0
    refusal: str | None = None
    given_up: bool = False

    @property
    def is_gone(self) -> bool:
        """Return whether nothing waits for it any more."""
        return self.given_up or self.decided.get_loop().is_closed()

    def decide(self, *, is_new: bool = False) -> _Account | None:
        """Reserve or reject; returns the account for whose money it has to wait instead, a new one behind others."""
        self.refusal = _refusal(self.accounts, self.least)
        limited = [account for account in self.accounts if account.limit is not None]
        for account in limited if self.refusal is None else ():
            if account.free() < self.least or (is_new and account.queue):
                return account
        if self.refusal is None:
            self.amount = min([self.most, *(account.free() for account in limited)])
            for account in self.accounts:
                account.reserved += self.amount
        return None

    def give_up(self) -> None:
        """Stop waiting, and give back what was reserved meanwhile."""
        with _lock:
            self.given_up = True
            for account in self.accounts:
                account.reserved -= self.amount
            self.amount = 0
            decided = _decide(self.accounts)
        _wake(decided)


def _refusal(accounts: Iterable[_Account], amount: int) -> str | None:
    return next((account.refusal(amount) for account in accounts if not account.has_room(amount)), None)


def _decide(accounts: Iterable[_Account]) -> list[_Request]:
    """Reserve free money for the waiting requests in their order, up to the first that has to go on waiting."""
    decided: list[_Request] = []
    for account in accounts:
        while account.queue:
            number, request = account.queue[0]
            waits_for = None if request.is_gone else request.decide()
            if waits_for is account:
                break
            heapq.heappop(account.queue)
            if waits_for is not None:
                heapq.heappush(waits_for.queue, (number, request))
            elif not request.is_gone:
                decided.append(request)
    return decided


def _wake(decided: Iterable[_Request]) -> None:
    for request in decided:
        try:
            request.decided.get_loop().call_soon_threadsafe(_end, request.decided)
        except RuntimeError:  # its loop was closed just now, so nothing waits there
            request.give_up()


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


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
        self._own = _Account(None if limit is None else _billionths(limit), of_session, recorded)
        outer = (account for budget in inside if budget is not None for account in budget.accounts)
        self.accounts: tuple[_Account, ...] = tuple(dict.fromkeys((self._own, *outer)))
        """Its own account, and those of the budgets that it stands in, each once."""

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait for money that others hold."""
        return self._own.waiting

    @property
    def is_limited(self) -> bool:
        """Return whether it, or a budget that it is nested in, has a limit."""
        return any(account.limit is not None for account in self.accounts)

    @property
    def spent(self) -> float:
        """Return the least that finished requests cost, in US dollars."""
        return self._own.spent / _UNIT

    @property
    def unconfirmed(self) -> float:
        """Return the cost that broken-off requests may have besides, in US dollars; it counts against the limit."""
        return self._own.unconfirmed / _UNIT

    @property
    def unpriced(self) -> bool:
        """Return whether requests were made whose price is unknown."""
        return self._own.unpriced

    @property
    def has_refused(self) -> bool:
        """Return whether something could not begin because of its own limit."""
        return self._own.has_refused

    @property
    def left(self) -> float:
        """Return the rest of its own limit that could be reserved; without a limit infinite."""
        return math.inf if self._own.limit is None else max(0, self._own.free()) / _UNIT

    def for_code(self) -> Budget:
        """Return the budget for code of this session, which is also charged to the budget in force here."""
        outer = spending()
        return outer if outer is not None and self._own in outer.accounts else Budget(None, (self, outer))

    def charge(self, dollars: float, unconfirmed: float = 0.0) -> None:
        """Count what was spent before, by an earlier process.

        Args:
            unconfirmed: What may have been spent besides.
        """
        with _lock:
            self._own.spent += _billionths(dollars)
            self._own.unconfirmed += _billionths(unconfirmed)

    def take_nested(self) -> Usage:
        """Return the usage of nested sessions since the last call, which no entry of its file records."""
        with _lock:
            nested, self._own.nested = self._own.nested, Usage()
        return nested

    def refusal(self, estimate: float) -> str | None:
        """Return why no request of such a cost can begin any more, in US dollars; ``None`` if one could."""
        with _lock:
            return _refusal(self.accounts, _billionths(estimate))

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
        reservation = Reservation(await self._reserved(most, least_amount), self._settle)
        try:
            yield reservation
        finally:
            # Without an await, so that a cancelled request is accounted for too.
            reservation.release()

    async def _reserved(self, most: int, least: int) -> int:
        """Reserve what is free of ``most`` once that is ``least``."""
        request = _Request(self.accounts, most, least)
        with _lock:
            if (waits_for := request.decide(is_new=True)) is not None:
                heapq.heappush(waits_for.queue, (next(_numbers), request))
        if waits_for is not None:
            await self._decided(request)
        if request.refusal is not None:
            raise BudgetExhaustedError(request.refusal)
        return request.amount

    async def _decided(self, request: _Request) -> None:
        self._count_waiting(1)
        try:
            await request.decided
        except BaseException:
            request.give_up()
            raise
        finally:
            self._count_waiting(-1)

    def _count_waiting(self, change: int) -> None:
        with _lock:
            for account in self.accounts:
                account.waiting += change

    def _settle(self, reservation: Reservation) -> None:
        cost = reservation.cost or 0
        unconfirmed = reservation.amount if reservation.cost is None else reservation.unconfirmed
        today = date.today()  # noqa: DTZ011 - the user's own calendar
        with _lock:
            earlier = _days.get(today, 0)
            _days.clear()
            _days[today] = earlier + cost
            for account in self.accounts:
                account.reserved -= reservation.amount
                account.spent += cost
                account.unconfirmed += unconfirmed
                account.unpriced |= bool(reservation.usage.cost.unknown)
            for account in self._unrecorded():
                account.nested += reservation.usage
            decided = _decide(self.accounts)
        _wake(decided)
        if cost:
            for call in tuple(_watchers):
                with suppress(Exception):  # what is paid for is not lost because nobody can be told
                    call()

    def _unrecorded(self) -> Iterator[_Account]:
        """Yield the accounts of sessions without a message or entry of a request: not its own, nor those behind."""
        sessions = 0
        for account in self.accounts:
            if account.recorded:
                return
            sessions += account.of_session
            if account.of_session and sessions > 1:
                yield account


def _billionths(dollars: float) -> int:
    return round(min(dollars, _MOST) * _UNIT)


# Which budget code spends from

_spending: ContextVar[Budget | None] = ContextVar("indus_nb budget", default=None)
_running: list[tuple[frozenset[threading.Thread], Budget]] = []
_threads: WeakKeyDictionary[threading.Thread, Budget] = WeakKeyDictionary()


def spending() -> Budget | None:
    """Return the budget that the code at hand spends from: that of the run which has it carried out, if one does."""
    found = _spending.get()
    if found is not None or not (_running or _threads):
        return found
    return _of_thread(threading.current_thread())


def _of_thread(thread: threading.Thread) -> Budget | None:
    """Return the budget of a thread that code, or a thread of that code's, has started."""
    for _ in range(2):  # for code that ends in between: its threads are noted before it goes
        if (adopted := _threads.get(thread)) is not None:
            return adopted
        for before, budget in reversed(_running):
            if thread not in before:
                return budget
    return None


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
    """Let code spend from ``budget``, and the threads that it and they start, also once it has ended."""
    if budget is None:
        yield
        return
    _hand_on_to_threads()
    before = frozenset(threading.enumerate())
    running = (before, budget)
    _running.append(running)
    try:
        with spending_from(budget):
            yield
    finally:
        _threads.update((thread, budget) for thread in threading.enumerate() if thread not in before)
        _running.remove(running)


@cache
def _hand_on_to_threads() -> None:
    """Let threads of code spend from its budget that its other threads start, which may be long after its end."""
    start = threading.Thread.start

    @wraps(start)
    def start_within(self: threading.Thread) -> None:
        if (_running or _threads) and (budget := _of_thread(threading.current_thread())) is not None:
            _threads[self] = budget
        start(self)

    threading.Thread.start = start_within
