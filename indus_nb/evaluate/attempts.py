"""One trial: data laid out, a harness let loose on them in a fresh kernel, and the result graded.

What this module promises: nothing with the expected value lies where the kernel can read; a value counts only if the
same code gives the right one on twin data too; and what has failed for other reasons than the agent's raises, so that
it is not taken for an answer.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from indus_nb.base.terminal import plain
from indus_nb.base.textcut import one_line
from indus_nb.base.wire import JsonObject, dump
from indus_nb.evaluate.benchmark_task import BenchmarkTask, cells_of, made_file
from indus_nb.evaluate.harness import Harness, Solved, Surrounding
from indus_nb.evaluate.sandboxed_kernel import KernelFailedError, SandboxedKernel, sandboxed_kernel
from indus_nb.start import SessionOptions

Ending = Literal["solved", "wrong", "not computed", "nothing"]
"""``not computed``: right on the data that were shown, and wrong on their twin."""
_REPLAY_SECONDS = 900.0
_MAX_COPIED_BYTES = 64 << 20
_MAX_FILES = 10_000
_MAX_WHY_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Outcome of one trial.

    Attributes:
        why: What is wrong with the value, for people.
        seconds: Time of the harness, without the start of kernels and the grading.
        tokens: Counts by kind: ``input``, ``output``, ``cacheRead``, ``cacheWrite``.
        cost: US dollars; a lower bound with ``cost_unknown``.
        session: Name of the session file, if there is one.
    """

    task: str
    category: str
    trial: int
    ending: Ending
    why: str = ""
    seconds: float = 0.0
    requests: int = 0
    calls: int = 0
    questions: int = 0
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    cost: float = 0.0
    cost_unknown: bool = False
    session: str | None = None

    @property
    def success(self) -> bool:
        """Return whether the task was solved."""
        return self.ending == "solved"

    def to_json(self) -> JsonObject:
        """Return the fields as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: JsonObject) -> Attempt:
        """Read what ``to_json`` has written; keys that are not known are left out.

        Raises:
            ValueError: A field is missing, or of another type.
        """
        found = _reader()(dump(given), strict=True)
        if not math.isfinite(found.cost):
            raise ValueError("cost")
        return found


@cache
def _reader() -> Callable[..., Attempt]:
    from pydantic import TypeAdapter

    return TypeAdapter(Attempt).validate_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What all trials of one evaluation have in common.

    Attributes:
        options: Model and limits of sessions, and where their files go.
        hidden: What neither code nor tools of an agent may read.
        confined: Whether kernels are confined.
    """

    harness: Harness
    options: SessionOptions
    seed: int
    hidden: Sequence[Path] = ()
    confined: bool = True


async def attempt(task: BenchmarkTask, trial: int, conditions: Conditions) -> Attempt:
    """Have a task solved once, and grade the result.

    Raises:
        IndusError: The model could not be asked, or no kernel could be started.
    """
    place = Path(tempfile.mkdtemp(prefix="indus-e-"))
    try:
        return await _Grading(task, trial, conditions, place).attempt()
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Grading:
    task: BenchmarkTask
    trial: int
    conditions: Conditions
    place: Path

    async def attempt(self) -> Attempt:
        task, work = self.task, self.place / "work"
        expected = await asyncio.to_thread(task.lay_out, work, self.conditions.seed, self.trial)
        files = {path.relative_to(work) for path in work.rglob("*")}
        async with self._kernel(work) as kernel:
            began = time.monotonic()
            solved = await self.conditions.harness(
                Surrounding(
                    task=task,
                    kernel=kernel,
                    options=self.conditions.options,
                    hidden=self.conditions.hidden,
                    expected=expected,
                    confined=self.conditions.confined,
                )
            )
            seconds = time.monotonic() - began
            given, why = await self._value(kernel) if task.result != "notebook" else (None, "")
        code = solved.code
        if task.result == "notebook":
            code = [cell for name in sorted(files) if name.suffix == ".ipynb" for cell in cells_of(work / name)]
            again = self.place / "again"
            await asyncio.to_thread(task.lay_out, again, self.conditions.seed, self.trial)
            given, why = await self._run(again, code, work, files)
        ending: Ending = "solved"
        if given is None:
            ending = "nothing"
        elif (problem := task.problem(given, expected)) is not None:
            ending, why = "wrong", problem
        elif task.has_twin:
            twin, other = await asyncio.to_thread(
                task.lay_out_twin, self.place / "twins", self.conditions.seed, self.trial
            )
            given, why = await self._run(twin, code, work, files)
            problem = why if given is None else task.problem(given, other)
            ending, why = ("solved", "") if problem is None else ("not computed", f"on other data: {problem}")
        return self._attempt(solved, seconds, ending, why)

    def _kernel(self, directory: Path) -> AbstractAsyncContextManager[SandboxedKernel]:
        return sandboxed_kernel(directory, hidden=self.conditions.hidden, confined=self.conditions.confined)

    async def _value(self, kernel: SandboxedKernel) -> tuple[Any, str]:
        """Return the value of the task's variable, or ``None`` and why there is none."""
        name = "figure" if self.task.result == "figure" else "answer"
        try:
            found = await kernel.collect([name])
        except KernelFailedError as error:
            return None, str(error)
        return found.get(name), "" if found.get(name) is not None else f"there is no value in `{name}`"

    async def _run(self, directory: Path, code: Sequence[str], work: Path, files: Collection[Path]) -> tuple[Any, str]:
        """Run code in a fresh kernel on other files, with those that the agent has made besides."""
        await asyncio.to_thread(_copy_made, work, directory, files)
        async with self._kernel(directory) as kernel:
            try:
                results = await kernel.run(code, _REPLAY_SECONDS)
            except KernelFailedError as error:
                return None, str(error)
            failed = next((result.error for result in results if result.error or not result.ended), None)
            if self.task.result == "notebook" and failed is not None:
                return None, f"a cell fails: {failed or 'it takes too long'}"
            return await self._value(kernel)

    def _attempt(self, solved: Solved, seconds: float, ending: Ending, why: str) -> Attempt:
        stats = solved.stats
        read, written = stats.tokens, stats.tokens.output
        cached = {"cacheRead": read.cache_read, "cacheWrite": read.cache_write}
        return Attempt(
            task=self.task.id,
            category=self.task.category,
            trial=self.trial,
            ending=ending,
            why=one_line(plain(why), _MAX_WHY_CHARACTERS),
            seconds=round(seconds, 3),
            requests=stats.assistant_messages,
            calls=stats.tool_calls,
            questions=solved.questions,
            tokens={"input": read.input, "output": written, **cached},
            cost=stats.cost,
            cost_unknown=bool(stats.cost_unknown),
            session=None if solved.session is None else solved.session.name,
        )


def _copy_made(work: Path, directory: Path, files: Collection[Path]) -> None:
    """Copy what the agent has made besides the task's own files, as far as it is not too much."""
    left = _MAX_COPIED_BYTES
    for path in islice(work.rglob("*"), _MAX_FILES):
        name = path.relative_to(work)
        if name in files or name.parts[0].startswith(".") or (directory / name).exists():
            continue
        with suppress(OSError):
            content = made_file(path)
            left -= len(content)
            if left < 0:
                return
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_bytes(content)
