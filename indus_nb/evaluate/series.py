"""All trials of a suite: side by side, within a budget, written down one by one, and gone on with where they stopped.

What this module promises: what is written is whole; a second run with the same conditions asks only for what is
missing, and one with others refuses instead of mixing; money that was spent before counts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.files import make_private_directory, write_atomically
from indus_nb.base.wire import JsonObject, dump, load_object
from indus_nb.core.limits import Budget
from indus_nb.core.limits.budget import spending_from
from indus_nb.evaluate.attempts import Attempt, Conditions, attempt
from indus_nb.evaluate.benchmark_task import BenchmarkTask

RESULTS = "results.jsonl"
SESSIONS = "sessions"
TRAJECTORIES = "trajectories"
_LOST = "lost"
_SMALLEST = 1e-6


@dataclass(slots=True)
class Series:
    """The trials of one evaluation, as a file of results holds them.

    Attributes:
        about: Conditions, the same for all trials: suite, harness, model, seed and version.
        lost: What trials without a result have cost, in US dollars.
        problems: Why trials have no result, each once.
    """

    about: JsonObject
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    lost: float = 0.0
    problems: list[str] = field(default_factory=list[str])

    @property
    def label(self) -> str:
        """Return a name for people: the harness and its model."""
        return " · ".join(str(self.about[key]) for key in ("harness", "model") if self.about.get(key))


def read_series(path: Path) -> Series:
    """Read a file of results; a last line that was cut off is left out.

    Raises:
        UsageError: It is no file of results.
    """
    try:
        lines = path.read_bytes().splitlines()
        about = load_object(lines[0])
        if "suite" not in about:
            raise KeyError("suite")
        found = list(_objects(lines[1:]))
        attempts = [Attempt.from_json(each) for each in found if _LOST not in each]
        return Series(about, attempts, sum(each.get(_LOST, 0.0) for each in found))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{path} is no file of results of an evaluation ({error}).") from error


def _objects(lines: Sequence[bytes]) -> Iterator[JsonObject]:
    for number, line in enumerate(lines, 1):
        try:
            yield load_object(line)
        except ValueError:
            if number < len(lines):
                raise


async def run_series(  # noqa: PLR0913 - what a caller may choose
    tasks: Sequence[BenchmarkTask],
    conditions: Conditions,
    about: JsonObject,
    *,
    out: Path,
    trials: int,
    parallel: int,
    max_cost: float | None,
    on_attempt: Callable[[Attempt], None] = lambda _: None,
) -> Series:
    """Run the trials of tasks that a directory has no results of yet.

    Args:
        about: Conditions by which results are told apart.
        out: Where results lie; made if need be.
        trials: How often each task is tried.
        parallel: How many trials go on at once.
        max_cost: US dollars for all of it, what was spent before included.
        on_attempt: Called with each new result, once it is written.

    Returns:
        All results, also those of before. Trials whose model could not be asked have none.

    Raises:
        UsageError: The directory holds results of other conditions.
    """
    series = _opened(out, about)
    done = {(each.task, each.trial) for each in series.attempts}
    missing = [(task, trial) for trial in range(1, trials + 1) for task in tasks if (task.id, trial) not in done]
    budget = Budget(max_cost)
    budget.charge(sum(each.cost for each in series.attempts) + series.lost)
    room = asyncio.Semaphore(parallel)

    async def one(task: BenchmarkTask, trial: int) -> None:
        async with room:
            if series.problems:
                return
            if (spent := budget.refusal(0.0)) is not None:
                series.problems.append(spent)
                return
            try:
                result = await attempt(task, trial, conditions)
            except (IndusError, OSError) as error:
                series.problems.append(f"{task.id}, trial {trial}: {error}")
                return
            if result.session is not None:
                await asyncio.to_thread(_write_trajectory, out, result, str(about["harness"]))
            _append(out / RESULTS, dump(result.to_json()))
            series.attempts.append(result)
            on_attempt(result)

    with spending_from(budget):
        running = [asyncio.create_task(one(task, trial)) for task, trial in missing]
    try:
        await asyncio.gather(*running)
    finally:
        for each in running:
            each.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*running, return_exceptions=True)
        _write_lost(series, budget, out / RESULTS)
    return series


def _write_lost(series: Series, budget: Budget, path: Path) -> None:
    """Write down what was spent on trials that have no result, for it counts the next time too."""
    lost = budget.spent + budget.unconfirmed - sum(each.cost for each in series.attempts) - series.lost
    if lost > _SMALLEST:
        _append(path, dump({_LOST: lost}))
        series.lost += lost


def _opened(out: Path, about: JsonObject) -> Series:
    make_private_directory(out)
    for name in (SESSIONS, TRAJECTORIES):
        make_private_directory(out / name)
    path = out / RESULTS
    if not path.exists() or not path.stat().st_size:
        _append(path, dump(about))
        return Series(about)
    found = read_series(path)
    if found.about != about:
        other = sorted(key for key in {*about, *found.about} if about.get(key) != found.about.get(key))
        raise UsageError(
            f"{path} holds results of another evaluation: {', '.join(other)} differ. Choose another --out, or go on "
            "with the same."
        )
    _cut_off(path)
    return found


def _write_trajectory(out: Path, result: Attempt, harness: str) -> None:
    from indus_nb.core.storage import SessionStore
    from indus_nb.evaluate.atif import trajectory

    store = SessionStore.read(out / SESSIONS / str(result.session))
    place = out / TRAJECTORIES / f"{result.task}-{result.trial}.json"
    write_atomically(place, dump(trajectory(store, f"indus_nb {harness}")))


def _cut_off(path: Path) -> None:
    """Remove the beginning of a line that was being written when the program was killed."""
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())
