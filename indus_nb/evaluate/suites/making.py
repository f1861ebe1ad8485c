"""How tasks are written down, and what they start from: data that packages ship, made different by a seed."""

# Frames are of libraries that say little of their types:
# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal

from indus_nb.evaluate.benchmark_task import BenchmarkTask, Make
from indus_nb.evaluate.graders import Grader

if TYPE_CHECKING:
    from numpy.random import Generator


def task(
    category: str,
    prompts: str | Sequence[str],
    solution: str | Sequence[str],
    grader: Grader,
    result: Literal["answer", "figure", "notebook"] = "answer",
) -> Callable[[Make], BenchmarkTask]:
    """Turn a function that makes data and the expected value into a task, which has its name.

    Args:
        prompts: What is said; several are said one after another.
        solution: Code that solves it, a piece for each prompt.
    """

    def made(make: Make) -> BenchmarkTask:
        return BenchmarkTask(
            id=make.__name__.replace("_", "-"),
            category=category,
            prompts=_texts(prompts),
            make=make,
            grader=grader,
            solution=_texts(solution),
            result=result,
        )

    return made


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(dedent(text).strip() for text in ([given] if isinstance(given, str) else given))


def toy(name: str) -> Any:
    """Return a data set of scikit-learn as a frame; of one with classes the column ``target`` names them."""
    from sklearn import datasets

    bunch: Any = getattr(datasets, f"load_{name}")(as_frame=True)
    frame = bunch.frame.copy()
    frame.columns = [str(column).replace(" (cm)", "").replace(" ", "_").replace("/", "_") for column in frame]
    if hasattr(bunch, "target_names"):
        frame["target"] = [str(bunch.target_names[number]) for number in frame["target"]]
    return frame


def survey(name: str) -> Any:
    """Return a data set of statsmodels as a frame."""
    from importlib import import_module

    return import_module(f"statsmodels.datasets.{name}").load_pandas().data.copy()


def varied(frame: Any, random: Generator, columns: Sequence[str], rows: int | None = None) -> Any:
    """Return a sample of the rows in which columns are scaled and shaken a little, in another order."""
    sample = frame.sample(n=rows or int(len(frame) * 0.8), random_state=random).reset_index(drop=True)
    for column in columns:
        scale = random.uniform(0.8, 1.25)
        shaken = sample[column] * scale * random.uniform(0.97, 1.03, len(sample))
        sample[column] = shaken.round(3)
    return sample
