"""Suites of tasks, by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.base.installed import how_to_install
from indus_nb.evaluate.benchmark_task import BenchmarkTask

SUITES = ("notebook", "kramabench", "dataagentbench")
_NOTEBOOK = ("facts", "traps", "drawings", "repairs", "rollbacks", "logs")
_NEEDS = ("matplotlib", "numpy", "pandas", "sklearn", "statsmodels")


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks, and what of this machine would give their answers away."""

    tasks: list[BenchmarkTask]
    hidden: tuple[Path, ...] = ()


def open_suite(name: str, data: Path | None = None) -> Suite:
    """Open a suite by its name.

    Args:
        data: Where the user has what a suite of others is made of.

    Raises:
        UsageError: There is none of that name, its data are missing, or a package that it needs.
    """
    if name == "notebook":
        return Suite(notebook_tasks())
    if name not in SUITES:
        raise UsageError(f"There is no suite {name!r}. Known are {', '.join(SUITES)}.")
    if data is None:
        raise UsageError(f"The suite {name} is not part of this package: fetch it, and say where it lies with --data.")
    from indus_nb.evaluate.suites.fetched import dataagentbench_tasks, kramabench_tasks

    tasks = kramabench_tasks(data) if name == "kramabench" else dataagentbench_tasks(data)
    return Suite(tasks, (data,))


def notebook_tasks() -> list[BenchmarkTask]:
    """Return the tasks of the suite ``notebook``.

    Raises:
        UsageError: A package that they need is missing.
    """
    if missing := [name for name in _NEEDS if find_spec(name) is None]:
        raise UsageError(f"The suite needs {', '.join(missing)}: {how_to_install('eval')}.")
    modules = (import_module(f"{__name__}.{name}") for name in _NOTEBOOK)
    return [task for module in modules for task in module.TASKS]
