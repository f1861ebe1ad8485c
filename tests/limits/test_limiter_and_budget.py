"""The limits that all workers share."""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import Any

import pytest

from indus_nb.base.errors import UsageError
from indus_nb.base.messages import Usage
from indus_nb.core.limits import Budget, BudgetExhaustedError, Limiter
from indus_nb.core.limits.budget import code_spends_from, spending, spent_today, watch_spending
from indus_nb.core.limits.room import spacing


class Time:
    """A clock that goes on when it is looked at, by what the limiter then waits for: nothing sleeps in these tests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.late = 1000.0, 0.0
        self._sleep = asyncio.sleep
        monkeypatch.setattr(asyncio, "sleep", self._pass)

    async def _pass(self, seconds: float) -> None:
        self.now += seconds + (self.late if seconds else 0.0)
        await self._sleep(0)

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
    assert begun == pytest.approx([1030, 1031, 1032, 1033, 1034], abs=0.06)


async def test_a_pause_that_comes_while_one_waits_holds_for_it() -> None:
    limiter = Limiter(2, rpm=0.001)
    async with limiter.request():
        pass
    waiting = asyncio.create_task(_enter(limiter))
    await asyncio.sleep(0)
    limiter.pause(10_000_000)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert limiter.paused_for > 60_000
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def _enter(limiter: Limiter) -> None:
    async with limiter.request():
        pass


async def test_a_process_that_wakes_up_late_does_not_lose_the_rate(time: Time) -> None:
    time.late = 0.002
    limiter, began = Limiter(1000, rpm=30_000, clock=time), time.now

    async def ask() -> None:
        async with limiter.request():
            pass

    await asyncio.gather(*(ask() for _ in range(1000)))
    assert 999 * 0.002 - 0.06 <= time.now - began <= 999 * 0.002 + 0.06


async def most_at_once(limiter: Limiter, refuses: Callable[[int], bool], requests: int = 400) -> int:
    """Return how many of the last requests go on at once, where a server refuses those that it is asked about."""
    going_on, most = 0, 0

    async def ask(number: int) -> None:
        nonlocal going_on, most
        async with limiter.request():
            going_on += 1
            most = max(most, going_on) if number >= requests - 20 else most
            await asyncio.sleep(0)
            limiter.refused(0.0) if refuses(going_on) else limiter.answered()
            going_on -= 1

    await asyncio.gather(*map(ask, range(requests)))
    return most


async def test_where_a_server_takes_fewer_at_once_no_more_are_tried() -> None:
    assert 4 <= await most_at_once(Limiter(64), lambda going_on: going_on > 6, 2000) <= 12


async def test_where_some_are_refused_at_random_all_others_go_on() -> None:
    chance = random.Random(4)
    assert await most_at_once(Limiter(32), lambda _: chance.random() < 0.05) == 32


async def test_while_a_server_refuses_all_nothing_begins_and_then_one_first(time: Time) -> None:
    limiter = Limiter(64, clock=time)
    begun: list[float] = []

    async def refused() -> None:
        async with limiter.request():
            begun.append(time.now)
            await asyncio.sleep(0)  # until all others have begun, too
            limiter.refused(30)

    await asyncio.gather(*(refused() for _ in range(64)))
    assert begun == [1000.0] * 64
    assert limiter.paused_for == 30
    async with limiter.request():
        assert time.now == 1030


async def test_what_was_refused_comes_before_what_was_not_asked_yet() -> None:
    limiter, order = Limiter(1), list[str]()

    async def ask(name: str, *, again: bool = False) -> None:
        async with limiter.request(again=again):
            order.append(name)

    async with limiter.request():
        waiting = [asyncio.create_task(ask("new")), asyncio.create_task(ask("refused", again=True))]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert order == ["refused", "new"]


async def test_who_waits_and_goes_away_takes_no_place_with_it() -> None:
    limiter = Limiter(1)
    async with limiter.request():
        waiting = [asyncio.create_task(_enter(limiter)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
    waiting[1].cancel()  # it has its place by now, and has not noticed
    await asyncio.gather(*waiting[:2], return_exceptions=True)
    await asyncio.wait_for(waiting[2], 10)


async def test_tokens_that_were_used_delay_what_begins_next(time: Time) -> None:
    limiter = Limiter(1, tpm=6000, clock=time)
    begun: list[float] = []
    for _ in range(4):
        async with limiter.request():
            begun.append(time.now)
            limiter.answered(Usage(input=900, output=100, cache_read=50_000))
    assert begun == pytest.approx([1000, 1010, 1020, 1030], abs=0.06)


async def test_the_first_requests_delay_the_others_by_the_tokens_that_they_needed(time: Time) -> None:
    limiter = Limiter(3, tpm=6000, clock=time)
    together = asyncio.Barrier(3)
    begun: list[float] = []

    async def ask(number: int) -> None:
        async with limiter.request():
            begun.append(time.now)
            if number < 3:
                await together.wait()
            limiter.answered(Usage(input=1000))

    await asyncio.gather(*map(ask, range(5)))
    assert begun == pytest.approx([1000, 1000, 1000, 1030, 1040], abs=0.3)


async def test_no_count_of_a_servers_makes_requests_wait_for_ever_or_not_at_all(time: Time) -> None:
    limiter = Limiter(1, tpm=6_000_000, clock=time)
    for tokens in (10**15, -(10**15), 100):
        async with limiter.request():
            limiter.answered(Usage(input=tokens))
    assert 1000 < time.now < 1000 + 300


async def test_where_nothing_is_learnt_as_many_go_on_as_before() -> None:
    assert await most_at_once(Limiter(16, learns=False), lambda going_on: going_on > 6) == 16


async def test_who_is_told_of_costs_and_fails_loses_no_answer() -> None:
    def fails() -> None:
        raise RuntimeError

    end = watch_spending(fails)
    try:
        async with Budget(1).request(0.5) as reservation:
            reservation.spend(0.25)
            reservation.release()
    finally:
        end()
        end()


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "apart"),
    [
        ({}, 0),
        ({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "8"}, 0),  # for all that go on
        ({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}, 0),  # it does not say until when
        (
            {
                "x-ratelimit-limit-requests": "61",
                "x-ratelimit-remaining-requests": "1",
                "x-ratelimit-reset-requests": "1m30s",
            },
            1.5,
        ),
        (
            {
                "x-ratelimit-limit-tokens": "1000",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "250ms",
            },
            0.03,
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-limit": "10000",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-01-01T12:01:00Z",
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": "soon",
            },
            0.6,
        ),
        (
            {
                "x-ratelimit-limit-requests": "1",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "9" * 400,
            },
            60,  # no server makes rows wait for ever
        ),
        (
            {
                "x-ratelimit-limit-requests": "9" * 5000,
                "x-ratelimit-remaining-requests": "-1",
                "x-ratelimit-reset-requests": "nan",
            },
            0,
        ),
    ],
)
def test_headers_say_how_far_apart_requests_have_to_begin(headers: dict[str, str], apart: float) -> None:
    assert spacing(headers, Usage(input=100, output=20, cache_read=4000), 8, NOON) == pytest.approx(apart)


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


async def test_a_day_costs_what_the_requests_of_all_budgets_cost_each_once_and_the_next_one_begins_at_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Calendar:
        today = staticmethod(lambda: date(2999, 5, 1))

    monkeypatch.setattr("indus_nb.core.limits.budget.date", Calendar)
    assert spent_today() == 0
    outer = Budget()
    await _spend(Budget(None, (outer,)), 0.25)
    await _spend(Budget(), 0.5)
    Budget().charge(3)  # an earlier process did, which is not known to be today's
    assert spent_today() == 0.75
    Calendar.today = staticmethod(lambda: date(2999, 5, 2))
    assert spent_today() == 0
    await _spend(outer, 0.125)
    assert spent_today() == 0.125


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


def test_threads_that_code_starts_spend_from_its_budget_even_once_it_has_ended_and_no_others_do() -> None:
    found: dict[str, Budget | None] = {}
    ask, asked = threading.Event(), threading.Barrier(3)

    def look(name: str) -> None:
        ask.wait(10)
        found[name] = spending()
        asked.wait(10)

    threading.Thread(target=look, args=("before",), daemon=True).start()
    budget = Budget(1)
    with code_spends_from(budget):
        during = threading.Thread(target=lambda: found.update(during=spending()))
        during.start()
        during.join()
        threading.Thread(target=look, args=("longer",), daemon=True).start()
    ask.set()
    asked.wait(10)
    assert found == {"before": None, "during": budget, "longer": budget}
    assert spending() is None


def test_threads_that_such_a_thread_starts_after_the_code_has_ended_spend_from_its_budget_too() -> None:
    found: list[Budget | None] = []
    ended = threading.Event()

    def look() -> None:
        found.append(spending())

    def later() -> None:
        ended.wait(10)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(look).result()
            child = threading.Thread(target=lambda: pool.submit(look).result())
            child.start()
            child.join()
        grandchild = threading.Thread(target=look)
        child = threading.Thread(target=lambda: (grandchild.start(), grandchild.join()))
        child.start()
        child.join()

    budget = Budget(1)
    with code_spends_from(budget):
        thread = threading.Thread(target=later)
        thread.start()
    ended.set()
    thread.join()
    assert found == [budget, budget, budget]
    others = threading.Thread(target=look)
    others.start()
    others.join()
    assert found[3:] == [None]


async def test_a_budget_inside_another_keeps_both_limits_and_wakes_who_waits_on_another_loop() -> None:
    outer = Budget(1.0)
    first, second = Budget(0.8, (outer,)), Budget(None, (outer, outer))
    async with first.request(0.7) as reservation:
        elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, _spend(second, 0.5)))
        while not second.waiting:
            await asyncio.sleep(0.01)
        reservation.spend(0.2)
    await elsewhere
    assert (first.spent, second.spent, outer.spent) == (0.2, 0.5, 0.7)
    with pytest.raises(BudgetExhaustedError, match=r"The budget of \$1 "):
        await _spend(second, 0.4)
    with pytest.raises(BudgetExhaustedError, match=r"The budget of \$0.8 "):
        await _spend(first, 0.7)


async def test_each_that_waits_for_money_is_woken_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, outer = asyncio.get_running_loop(), Budget(100.0)
    budget, woken, began = Budget(1.0, (outer,)), 0, list[int]()
    call_soon = loop.call_soon_threadsafe

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal woken
        woken += 1
        return call_soon(*given, **named)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)

    async def ask(number: int) -> None:
        async with budget.request(0.5) as reservation:
            began.append(number)
            await asyncio.sleep(0)
            reservation.spend(0.0001)

    await asyncio.gather(*(ask(number) for number in range(1_000)))
    assert began == list(range(1_000))
    assert woken == 998  # two did not wait
    assert budget.waiting == outer.waiting == 0


async def test_a_small_request_does_not_overtake_a_large_one_that_waits_for_the_same_money_and_others_do() -> None:
    outer = Budget(1.0)
    inner = Budget(0.5, (outer,))
    began: list[str] = []

    async def ask(name: str, budget: Budget, dollars: float) -> None:
        async with budget.request(dollars):
            began.append(name)
            await asyncio.Event().wait()

    async def begin(name: str, budget: Budget, dollars: float) -> asyncio.Task[None]:
        task = asyncio.create_task(ask(name, budget, dollars))
        await _settled()
        return task

    tasks = [await begin("first", inner, 0.4), await begin("waits for the inner one", inner, 0.2)]
    tasks.append(await begin("of the outer one alone", outer, 0.3))
    large = await begin("large", outer, 0.5)
    tasks.append(await begin("small, behind it", outer, 0.1))
    assert began == ["first", "of the outer one alone"]
    large.cancel()
    await _settled()
    assert began[2:] == ["small, behind it"]
    assert (inner.waiting, outer.waiting) == (1, 1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(large, *tasks, return_exceptions=True)
    assert inner.waiting == outer.waiting == 0


async def test_what_was_given_to_one_that_is_cancelled_or_whose_loop_has_ended_is_given_to_the_next() -> None:
    budget = Budget(1.0)
    gone = asyncio.new_event_loop()
    async with budget.request(1.0) as reservation:
        left = await asyncio.to_thread(gone.run_until_complete, _left_waiting(budget))
        cancelled, last = (asyncio.create_task(_spend(budget, 0.8)) for _ in range(2))
        await _settled()
        await asyncio.to_thread(gone.close)
        reservation.spend(0.1)
    cancelled.cancel()  # it has its money already, and does not know it
    await asyncio.gather(cancelled, return_exceptions=True)
    await last
    assert (left.done(), cancelled.cancelled(), budget.spent) == (False, True, 0.9)


async def _left_waiting(budget: Budget) -> asyncio.Task[None]:
    left = asyncio.create_task(_spend(budget, 0.8))
    await _settled()
    return left


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
