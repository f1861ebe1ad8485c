"""What is declared of the kernel's tools once, for this process and for a kernel that the agent is attached to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from indus_nb.base.wire_model import wire_field
from indus_nb.core.resources.settings import NotebookSettings
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.tool import Arguments

GUIDELINES = (
    "Work on the user's live variables with python rather than reading their files again",
    "Do not overwrite or delete the user's variables unless asked to; choose new names",
)
"""Advice for a model that has the tool ``python``."""


class PythonArguments(Arguments):
    """The arguments of the tool ``python``."""

    code: str = wire_field(description="The code to run, as in a notebook cell: magics and top-level await work")
    timeout: float | None = wire_field(
        default=None, gt=0, finite=True, description="Seconds after which it is interrupted"
    )


class NotebookArguments(Arguments):
    """The arguments of the tool ``notebook``."""

    cells: str = wire_field(
        default="",
        description='Which cells to see in full: numbers as listed ("3", "3-7", "2,5") or ids. Empty for the notebook.',
    )


class VariablesArguments(Arguments):
    """The arguments of the tool ``variables``."""

    pattern: str = wire_field(
        default="", description="A variable's name for a closer look, or a part of names, or df_*"
    )


def described(
    default: CallDescription, arguments: PythonArguments, *, tries: bool, approval: Callable[[], Approval]
) -> CallDescription:
    """Describe a call of ``python``.

    Args:
        default: What its arguments alone say.
    """
    others = {name: value for name, value in default.details.items() if name != "code"}
    return replace(
        default,
        summary="",
        code=arguments.code,
        text="",
        details=others,
        announces_start=True,
        tries=tries,
        approval=approval,
    )


def time_limit(settings: NotebookSettings, *, goes_on: bool) -> float | None:
    """Return the time limit in seconds; for code that continues as a job, only a limit that the user set."""
    chosen = not goes_on or "python_timeout_seconds" in vars(settings)
    return settings.python_timeout_seconds if chosen else None
