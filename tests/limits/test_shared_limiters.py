"""Limiters of several threads that share one account at a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from indus_nb.core.limits import Limiter

_ACCOUNT = "https://api.example", "key", "model"
_made: list[Limiter] = []


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    while _made:
        _made.pop().close()


def shared(parallel: int, *, rpm: float | None = None) -> Limiter:
    limiter = Limiter(parallel, rpm)
    limiter.share(*_ACCOUNT)
    _made.append(limiter)
    return limiter


def let_two_go_on(limiter: Limiter) -> None:
    """Teach an account that two of its requests may go on at once."""
    for _ in range(1000):
        limiter.refused(0.0)
    for _ in range(8):
        limiter.answered()


class Server:
    """Counts the requests that go on at once."""

    def __init__(self) -> None:
        self._changed = threading.Lock()
        self._going = 0
        self.most = 0

    async def ask(self, limiter: Limiter) -> None:
        async with limiter.request():
            with self._changed:
                self._going += 1
                self.most = max(self.most, self._going)
            await asyncio.sleep(0)
            with self._changed:
                self._going -= 1

    def ask_many(self, limiter: Limiter) -> None:
        async def ask() -> None:
            await asyncio.gather(*(self.ask(limiter) for _ in range(300)))

        asyncio.run(ask())


def test_what_one_has_learnt_of_a_server_holds_for_both_together() -> None:
    server, first, second = Server(), shared(64), shared(64)
    for _ in range(1000):
        first.refused(0.0)  # as often as it takes for one at a time
    with ThreadPoolExecutor(2) as threads:
        for asking in [threads.submit(server.ask_many, limiter) for limiter in (first, second)]:
            asking.result()
    assert server.most <= 2  # one of each may always go on


def test_another_key_is_another_account() -> None:
    first, second = shared(1), Limiter(1)
    second.share("https://api.example", "another key", "model")
    first.pause(1000)
    assert (first.paused_for > 900, second.paused_for) == (True, 0)
    third = shared(1)
    assert third.paused_for > 900
    for limiter in (first, third):
        limiter.close()
    assert shared(1).paused_for == 0  # nothing is left of what the others had learnt


def test_one_that_is_cancelled_lets_the_other_go_on_in_its_thread() -> None:
    first, second = shared(2), shared(2)
    let_two_go_on(first)
    has_place, waits, held = threading.Event(), threading.Event(), list[Callable[[], object]]()

    async def hold() -> None:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        held.append(lambda: loop.call_soon_threadsafe(task.cancel if task is not None else has_place.set))
        async with first.request():
            has_place.set()
            await asyncio.Event().wait()

    async def wait() -> bool:
        async def ask() -> None:
            async with second.request():
                pass

        async with second.request():
            asking = asyncio.create_task(ask())
            await asyncio.sleep(0)
            waited = not asking.done()
            waits.set()
            await asking
            return waited

    with ThreadPoolExecutor(2) as threads:
        holding = threads.submit(asyncio.run, hold())
        assert has_place.wait(30)
        waiting = threads.submit(asyncio.run, wait())
        assert waits.wait(30)
        held[0]()
        assert waiting.result(30)
        assert isinstance(holding.exception(30), asyncio.CancelledError)


async def test_one_whose_loop_has_gone_keeps_no_place_once_it_is_closed() -> None:
    gone, other = shared(2), shared(2)
    let_two_go_on(gone)
    loop = asyncio.new_event_loop()
    holding = gone.request()
    loop.run_in_executor(None, lambda: None)
    await asyncio.to_thread(loop.run_until_complete, holding.__aenter__())
    loop.close()
    async with other.request():
        asking = asyncio.create_task(Server().ask(other))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not asking.done()
        gone.close()
        await asking


async def test_one_of_each_may_go_on_for_the_code_that_holds_the_others_may_wait_for_it() -> None:
    first, second = shared(1), shared(1)
    for _ in range(1000):
        first.refused(0.0)
    async with first.request(), second.request():
        pass


async def test_the_smaller_rate_holds_for_both_until_its_limiter_ends() -> None:
    slow, quick = shared(1, rpm=0.01), shared(1)
    async with slow.request():
        pass
    asking = asyncio.create_task(Server().ask(quick))
    await asyncio.sleep(0)
    assert not asking.done()
    slow.close()
    await asking
