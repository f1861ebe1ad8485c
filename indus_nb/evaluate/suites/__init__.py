"""Suites of tasks, by name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from indus_nb.base.errors import UsageError
from indus_nb.evaluate.benchmark_task import BenchmarkTask

_NOTEBOOK = ("facts", "traps", "drawings", "repairs", "rollbacks", "logs")
_NEEDS = ("matplotlib", "numpy", "pandas", "sklearn", "statsmodels")


def suite_tasks(name: str) -> list[BenchmarkTask]:
    """Return the tasks of a suite.

    Raises:
        UsageError: There is none of that name, or a package that it needs is missing.
    """
    if name != "notebook":
        raise UsageError(f"There is no suite {name!r}. Known is notebook.")
    return notebook_tasks()


def notebook_tasks() -> list[BenchmarkTask]:
    """Return the tasks of the suite ``notebook``.

    Raises:
        UsageError: A package that they need is missing.
    """
    if missing := [name for name in _NEEDS if find_spec(name) is None]:
        raise UsageError(f'The suite needs {", ".join(missing)}: pip install "indus_nb[eval]".')
    modules = (import_module(f"{__name__}.{name}") for name in _NOTEBOOK)
    return [task for module in modules for task in module.TASKS]
