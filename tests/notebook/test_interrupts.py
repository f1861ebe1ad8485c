"""Interrupts of the main thread: counted, raised in code, put off; and the life cycle of a job that they end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from indus_nb.kernel.run.interrupts import CodeInterrupts, counted
from indus_nb.kernel.run.main_thread import Job, JobState, running, work_here
from indus_nb.tools.tool import ToolError


def press() -> None:
    """Interrupt now, on the main thread."""
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def handler() -> Iterator[Callable[..., None]]:
    """A handler that no interrupt of these tests should reach, and that must be there again after them."""

    def unexpected(*_: object) -> None:
        raise AssertionError("the interrupt went past")

    before = signal.signal(signal.SIGINT, unexpected)
    trace = sys.gettrace()
    try:
        yield unexpected
        assert signal.getsignal(signal.SIGINT) is unexpected
        assert sys.gettrace() is trace
    finally:
        signal.signal(signal.SIGINT, before)


def run_code(code: Callable[[CodeInterrupts], Awaitable[None] | None], *, ends: bool = True) -> list[str]:
    """Run code with interrupts routed to it; what was noted, and how it ended."""
    seen: list[str] = []
    interrupts = CodeInterrupts(noted=lambda: seen.append("noted"), ends_code=lambda: ends, inside=lambda: True)

    async def body() -> None:
        code(interrupts)

    with interrupts.routed():
        try:
            interrupts.run(body()).send(None)
        except StopIteration:
            seen.append("done")
        except KeyboardInterrupt:
            seen.append("interrupted")
    return seen


def test_interrupts_are_counted_and_nothing_is_raised() -> None:
    interrupts: list[int] = []
    with counted(interrupts):
        press()
        press()
    assert interrupts == [signal.SIGINT] * 2


def test_an_interrupt_ends_the_code_that_runs() -> None:
    assert run_code(lambda _: press()) == ["noted", "interrupted"]


def test_an_interrupt_is_only_noted_while_no_code_runs() -> None:
    assert run_code(lambda _: press(), ends=False) == ["noted", "done"]


def test_an_interrupt_is_put_off_to_the_end_of_our_own_work() -> None:
    done: list[str] = []

    def code(interrupts: CodeInterrupts) -> None:
        with interrupts.postponed():
            press()
            done.append("all of it")
        done.append("too much")

    assert run_code(code) == ["noted", "interrupted"]
    assert done == ["all of it"]


def test_code_that_swallows_an_interrupt_is_interrupted_within_its_except() -> None:
    swallowed: list[int] = []

    def code(_: CodeInterrupts) -> None:
        for number in range(5):
            try:
                press()
            except KeyboardInterrupt:
                swallowed.append(number)

    assert run_code(code) == ["noted", "noted", "interrupted"]
    assert swallowed == [0]


class Noting:
    """Work that notes in which state its job is, and does something then."""

    def __init__(self, do: Callable[[], object] = lambda: None, *, fails: bool = False) -> None:
        self.states: list[JobState] = []
        self._do = do
        self._fails = fails

    def prepare(self) -> bool:
        if self._fails:
            raise ValueError("cannot be compiled")
        return False

    async def run(self, job: Job) -> None:
        self.states.append(job.state)
        assert work_here() is self
        self._do()
        job.finish()
        self.states.append(job.state)
        press()  # which ends nothing any more


def begin(job: Job, *, interrupted: bool = False) -> bool:
    def unexpected(*_: Any) -> None:
        raise AssertionError("nothing of it awaits")

    return job.run(unexpected, lambda: None, lambda: interrupted)


async def test_a_job_runs_once_and_ends() -> None:
    work = Noting()
    job = Job(work, None)
    assert job.state is JobState.WAITING
    assert begin(job)
    assert work.states == [JobState.RUNNING, JobState.FINISHING]
    assert job.state is JobState.ENDED
    assert running == []
    assert not begin(job)
    await job.done
    assert len(work.states) == 2


async def test_a_job_that_is_withdrawn_before_it_begins_never_does() -> None:
    work = Noting()
    job = Job(work, None)
    await job.withdraw()
    assert job.state is JobState.WITHDRAWN
    assert not begin(job)
    assert job.state is JobState.ENDED
    await job.done
    assert work.states == []


async def test_a_job_that_is_withdrawn_while_it_is_prepared_does_not_run() -> None:
    class Withdrawing(Noting):
        def prepare(self) -> bool:
            withdrawal.send(None)
            return False

    work = Withdrawing()
    job = Job(work, None)
    withdrawal = job.withdraw()
    assert begin(job)
    assert job.state is JobState.ENDED
    await job.done
    assert work.states == []
    withdrawal.close()


async def test_a_job_that_cannot_be_prepared_ends_with_the_reason() -> None:
    job = Job(Noting(fails=True), None)
    assert begin(job)
    assert job.state is JobState.ENDED
    with pytest.raises(ToolError, match="ValueError: cannot be compiled"):
        await job.done


async def test_a_job_of_an_interrupted_cell_does_not_run() -> None:
    work = Noting()
    job = Job(work, None)
    assert begin(job, interrupted=True)
    with pytest.raises(ToolError, match="Nothing was run"):
        await job.done
    assert work.states == []


async def test_an_interrupted_job_says_by_whom() -> None:
    job = Job(Noting(press), None)
    assert begin(job)
    assert job.ended_by == "user"
    with pytest.raises(ToolError, match="KeyboardInterrupt"):
        await job.done


async def test_a_job_that_finds_no_place_fails_only_while_it_waits() -> None:
    job = Job(Noting(), None)
    job.fail(ToolError("no place"))
    with pytest.raises(ToolError, match="no place"):
        await job.done
    ended = Job(Noting(), None)
    begin(ended)
    ended.fail(ToolError("too late"))
    await ended.done
