"""All trials of a suite: side by side, within a budget, written down one by one, and gone on with where they stopped.

What this module promises: what is written is whole; a second run with the same conditions asks only for what is
missing, and one with others refuses instead of mixing; money that was spent before counts.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
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
_BEGUN = "begun"
_SMALLEST = 1e-6


@dataclass(slots=True)
class Series:
    """The trials of one evaluation, as a file of results holds them.

    Attributes:
        about: Conditions, the same for all trials: suite, harness, model, seed, limits and version; and when it began.
        lost: What trials without a result have cost, in US dollars.
        unread: Lines that are no results, and were left out.
        problems: Why trials have no result, each once.
        is_spent: Whether money ran out.
    """

    about: JsonObject
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    lost: float = 0.0
    unread: int = 0
    problems: list[str] = field(default_factory=list[str])
    is_spent: bool = False

    @property
    def label(self) -> str:
        """Return a name for people: the harness and its model."""
        return " · ".join(str(self.about[key]) for key in ("harness", "model") if self.about.get(key))


def read_series(path: Path) -> Series:
    """Read a file of results; what is no result is left out, and counted unless it is a last line that was cut off.

    Raises:
        UsageError: It is no file of results.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}): give a directory of results, or its file."
        ) from error
    try:
        lines = data.splitlines(keepends=True)
        about = load_object(lines[0])
        if "suite" not in about:
            raise KeyError("suite")
    except (ValueError, LookupError) as error:
        raise UsageError(f"{path} is no file of results of an evaluation ({error}).") from error
    series = Series(about)
    for line in lines[1:]:
        try:
            _take(series, load_object(line))
        except (ValueError, OverflowError):
            series.unread += line.endswith(b"\n")
    return series


def _take(series: Series, given: JsonObject) -> None:
    if _LOST not in given:
        series.attempts.append(Attempt.from_json(given))
        return
    lost = given[_LOST]
    if type(lost) not in (int, float) or not math.isfinite(lost):
        raise ValueError(_LOST)
    series.lost += lost


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
        UsageError: The directory holds results of other conditions, or cannot be made.
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
    series.is_spent = budget.has_refused
    return series


def _write_lost(series: Series, budget: Budget, path: Path) -> None:
    """Write down what was spent on trials that have no result, for it counts the next time too."""
    lost = budget.spent + budget.unconfirmed - sum(each.cost for each in series.attempts) - series.lost
    if lost > _SMALLEST:
        _append(path, dump({_LOST: lost}))
        series.lost += lost


def _opened(out: Path, about: JsonObject) -> Series:
    path = out / RESULTS
    try:
        for place in (out, out / SESSIONS, out / TRAJECTORIES):
            make_private_directory(place)
        found = read_series(path) if path.exists() and path.stat().st_size else None
        if found is not None and (other := _differing(about, found.about)):
            if found.attempts or found.lost or found.unread:
                raise UsageError(
                    f"{path} holds results of another evaluation: its {' and '.join(other)} "
                    f"{'differs' if len(other) == 1 else 'differ'}. Choose another --out, or go on with the same."
                )
            found = None
        if found is None:
            about = {**about, _BEGUN: datetime.now(UTC).date().isoformat()}
            write_atomically(path, dump(about) + b"\n")
            return Series(about)
        _cut_off(path)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be a directory of results: {error.strerror}.") from error
    return found


def _differing(about: JsonObject, other: JsonObject) -> list[str]:
    keys = {*about, *other} - {_BEGUN}
    return sorted(key.replace("_", "-") for key in keys if about.get(key) != other.get(key))


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
