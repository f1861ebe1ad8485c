"""The limits that all workers share."""

from __future__ import annotations

import asyncio
import math
import random
from itertools import pairwise

import pytest

from indus_nb.errors import UsageError
from indus_nb.limits import Budget, BudgetExhaustedError, Limiter


class Time:
    """A clock that goes on when it is looked at, by what the limiter then waits for: nothing sleeps in these tests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(asyncio, "timeout", self._timeout)

    def _timeout(self, seconds: float) -> asyncio.Timeout:
        self.now += seconds
        return asyncio.Timeout(asyncio.get_running_loop().time())

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


async def test_requests_begin_in_order_and_never_faster_than_the_rate(time: Time) -> None:
    limiter = Limiter(1000, rpm=120, clock=time)
    begun: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        async with limiter.request():
            begun.append((number, time.now))

    await asyncio.gather(*map(ask, range(50)))
    assert [number for number, _ in begun] == [*range(50)]
    moments = [moment for _, moment in begun]
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(moments))
    assert moments[-1] - moments[0] == pytest.approx(49 * 0.5)


async def test_only_so_many_go_on_at_once_and_a_failed_one_gives_its_place_back() -> None:
    limiter = Limiter(3)
    going_on, most = 0, 0

    async def ask(number: int) -> None:
        nonlocal going_on, most
        async with limiter.request():
            going_on += 1
            most = max(most, going_on)
            await asyncio.sleep(0)
            going_on -= 1
            if number % 2:
                raise LookupError

    await asyncio.gather(*map(ask, range(20)), return_exceptions=True)
    assert (going_on, most) == (0, 3)


async def test_a_pause_holds_for_all_and_they_do_not_begin_together_after_it(time: Time) -> None:
    limiter = Limiter(1000, rpm=60, clock=time)
    begun: list[float] = []

    async def ask() -> None:
        async with limiter.request():
            begun.append(time.now)

    limiter.pause(30)
    limiter.pause(5)
    assert limiter.paused_for == 30
    await asyncio.gather(*(ask() for _ in range(5)))
    assert begun == [1030, 1031, 1032, 1033, 1034]


async def test_a_pause_that_comes_while_one_waits_holds_for_it() -> None:
    limiter = Limiter(2, rpm=0.001)
    async with limiter.request():
        pass
    waiting = asyncio.create_task(anext(aiter(_entered(limiter))))
    await asyncio.sleep(0)
    limiter.pause(10_000_000)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert limiter.paused_for > 60_000
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def _entered(limiter: Limiter):
    async with limiter.request():
        yield


@pytest.mark.parametrize(("parallel", "rpm"), [(0, None), (1, 0), (1, -1), (1, math.nan)])
def test_a_limit_that_is_none_is_refused(parallel: int, rpm: float | None) -> None:
    with pytest.raises(UsageError):
        Limiter(parallel, rpm)


# --- money -----------------------------------------------------------------------------------------------------------


async def test_what_is_spent_and_reserved_never_exceeds_the_limit_and_sums_are_exact() -> None:
    budget = Budget(1.0)
    chance = random.Random(7)
    refused = 0

    async def ask() -> None:
        nonlocal refused
        try:
            async with budget.request(0.1) as reservation:
                assert budget.left >= 0
                await asyncio.sleep(0)
                reservation.spend(chance.choice((0.01, 0.1)))
        except BudgetExhaustedError:
            refused += 1

    await asyncio.gather(*(ask() for _ in range(200)))
    assert 0.9 < budget.spent <= 1.0
    assert refused > 0
    assert round(budget.spent * 100) == pytest.approx(budget.spent * 100, abs=1e-9)


async def test_one_waits_for_what_another_may_give_back_and_is_refused_when_it_does_not() -> None:
    for cost, ends_well in ((0.1, True), (0.6, False)):
        budget = Budget(1.0)
        async with budget.request(0.6) as first:
            second = asyncio.create_task(_spend(budget, 0.6))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not second.done()
            first.spend(cost)
        outcome = (await asyncio.gather(second, return_exceptions=True))[0]
        assert isinstance(outcome, BudgetExhaustedError) is not ends_well


async def _spend(budget: Budget, dollars: float) -> None:
    async with budget.request(dollars) as reservation:
        reservation.spend(dollars)


async def test_what_was_reserved_for_a_request_that_does_not_say_what_it_cost_is_held_back() -> None:
    budget = Budget(1.0)
    with pytest.raises(LookupError):
        async with budget.request(0.25):
            raise LookupError
    assert (budget.spent, budget.unconfirmed, budget.left) == (0, 0.25, 0.75)
    asking = asyncio.create_task(_forever(budget))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (budget.spent, budget.unconfirmed, budget.left) == (0, 0.5, 0.5)


async def _forever(budget: Budget) -> None:
    async with budget.request(0.25):
        await asyncio.Event().wait()


async def test_what_an_earlier_process_has_spent_counts_and_without_a_limit_nothing_is_refused() -> None:
    budget = Budget(1.0)
    budget.charge(0.95)
    with pytest.raises(BudgetExhaustedError, match=r"The budget of \$1 has no room: \$0.9500 are spent"):
        await _spend(budget, 0.1)
    free = Budget()
    await _spend(free, 5)
    assert (free.spent, free.left) == (5, math.inf)
    for limit in (0, -1, math.nan, math.inf):
        with pytest.raises(UsageError):
            Budget(limit)
