"""A task of a benchmark: data made from a seed, what is asked, the expected value, and a solution as an agent has it.

What this module promises: the same seed makes the same data and expected value, so that harnesses are compared on the
same; a twin of a task's data has another expected value, so that code which only repeats a value fails there.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from indus_nb.base.errors import IndusError
from indus_nb.base.files import open_regular
from indus_nb.base.wire import JsonObject, from_json
from indus_nb.evaluate.graders import Grader

if TYPE_CHECKING:
    from numpy.random import Generator

Make = Callable[["Generator", Path], Any]
"""Writes a task's files into a directory, and returns the expected value as JSON has it."""
_TWINS = 20
_MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkTask:
    """One task.

    Attributes:
        prompts: What is said, one after another in one conversation.
        result: Variable that the value is left in (``answer``, ``figure``); ``notebook`` for the ``answer`` of the
            notebook among the files, run from top to bottom.
        solution: Code that solves it, as an agent would run it, one piece for each prompt.
        has_twin: Whether other data of the same form can be made. What was measured by others is what it is.
    """

    id: str
    category: str
    prompts: tuple[str, ...]
    make: Make
    grader: Grader
    solution: tuple[str, ...] = ()
    result: Literal["answer", "figure", "notebook"] = "answer"
    has_twin: bool = True

    def lay_out(self, directory: Path, seed: int, trial: int, twin: int = 0) -> Any:
        """Write the files of a trial; return the expected value.

        Args:
            twin: 0 for the data that the agent sees.
        """
        from numpy.random import default_rng

        directory.mkdir(parents=True, exist_ok=True)
        return self.make(default_rng([seed, trial, twin, zlib.crc32(self.id.encode())]), directory)

    def problem(self, given: Any, expected: Any) -> str | None:
        """Return why a value that came from a kernel is wrong, whatever it is; ``None`` if it is right."""
        try:
            return self.grader.problem(given, expected)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            return f"no value of the form that is asked for ({type(error).__name__})"

    def lay_out_twin(self, place: Path, seed: int, trial: int) -> tuple[Path, Any]:
        """Write data for which the expected value of the trial is wrong.

        Returns:
            The directory of the files, and the expected value there.

        Raises:
            IndusError: There is none among twenty.
        """
        first = self.lay_out(place / "first", seed, trial)
        for number in range(1, _TWINS + 1):
            expected = self.lay_out(place / f"twin-{number}", seed, trial, number)
            if self.problem(as_collected(first), expected) is not None:
                return place / f"twin-{number}", expected
        raise IndusError(f"The task {self.id} has the same answer for all data, so no cheater could be told.")


def as_collected(expected: Any) -> Any:
    """Return an expected value as it comes from a kernel that has it right."""
    if isinstance(expected, dict) and "marks" in expected:
        return {"axes": [_drawn(cast("JsonObject", expected))]}
    return json.loads(json.dumps(expected))


def _drawn(expected: JsonObject) -> JsonObject:
    marks: Any = expected["marks"]
    axes: JsonObject = {"xlabel": expected["x"], "ylabel": expected["y"], "yscale": expected.get("yscale", "linear")}
    if expected["kind"] == "bars":
        return {**axes, "bars": [{"name": name, "height": height, "from": 0} for name, height in marks.items()]}
    if expected["kind"] == "points":
        return {**axes, "points": [marks]}
    lines = [
        {"label": name, "x": [x for x, _ in points], "y": [y for _, y in points]} for name, points in marks.items()
    ]
    return {**axes, "lines": lines}


def table(frame: Any) -> JsonObject:
    """Return a frame of pandas as an expected value."""
    return {"frame": {"columns": list(frame.columns), "rows": [list(row) for row in frame.to_numpy().tolist()]}}


def notebook(cells: Sequence[str]) -> str:
    """Return the text of a notebook file with cells of code."""
    listed: list[JsonObject] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": source.splitlines(keepends=True),
        }
        for number, source in enumerate(cells)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": listed}, indent=1)


def cells_of(path: Path) -> Iterator[str]:
    """Yield the sources of a notebook's cells of code; nothing of a file that is none."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        found: Any = from_json(made_file(path))
        for cell in found["cells"]:
            if cell["cell_type"] == "code":
                yield "".join(cell["source"])


def made_file(path: Path) -> bytes:
    """Return what a file holds that an agent has made, up to a bound; a link or a pipe is none.

    Raises:
        OSError: It is no file, or cannot be read.
    """
    with open_regular(path, follow_links=False) as file:
        return file.read(_MAX_FILE_BYTES)
