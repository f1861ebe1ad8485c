"""What is declared of the kernel's tools once, for this process and for a kernel that the agent is attached to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from indus_nb.base.events import ToolOutput
from indus_nb.base.wire_model import wire_field
from indus_nb.core.resources.settings import NotebookSettings
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext

_GUIDELINES = (
    "Compute on the variables that are there rather than reading their files again.",
    "Choose new names: overwrite or delete the user's variables only when asked to.",
    "Look at size, types and a few rows before you print, plot or join much.",
    "Take the numbers of an answer from results, not from memory.",
    "Check what an answer rests on, as units, time zones, duplicates, missing values and joins that multiply rows.",
    "Say what you found by that, and what you assumed.",
    "The user sees what python prints, and its figures and tables: do not repeat them, say what they mean.",
)
_UNDO = "The user can undo what a call changed, and may be asked before code acts outside the kernel."
_NO_UNDO = "The user may be asked before code acts outside the kernel."
_REFUSED = "What they refuse, do not try in another way."


class PythonArguments(Arguments):
    """The arguments of the tool ``python``."""

    code: str = wire_field(description="Source of a cell; magics and top-level await work")
    timeout: float | None = wire_field(
        default=None, gt=0, finite=True, description="Seconds after which it is interrupted"
    )


class LiveArguments(PythonArguments):
    """The arguments of the tool ``python`` of the kernel that this process is."""

    beside: bool = wire_field(
        default=False,
        description="For minutes of pure computing: a job in a copy of the kernel, beside the user; data in new "
        "variables comes back",
    )


ArgumentsT = TypeVar("ArgumentsT", bound=PythonArguments)


class NotebookArguments(Arguments):
    """The arguments of the tool ``notebook``."""

    cells: str = wire_field(
        default="",
        description='Cells to see in full: numbers ("3", "3-7", "2,5") or ids; empty for the whole notebook',
    )


class VariablesArguments(Arguments):
    """The arguments of the tool ``variables``."""

    pattern: str = wire_field(default="", description="Name, part of names, or pattern such as df_*; empty for all")


def python_tool(
    where: str,
    arguments: type[ArgumentsT],
    *,
    run: Callable[[ArgumentsT, ToolContext], Awaitable[ToolOutput]],
    approval: Callable[[str], Approval],
    tries: Callable[[], bool],
    undo: bool,
) -> FunctionTool[ArgumentsT]:
    """Declare the tool ``python`` of a kernel.

    Args:
        where: Names the kernel in a few words.
        arguments: What a call may give.
        approval: Builds the question before code; called off the event loop.
        tries: Whether code is tried in a copy before it is asked about.
        undo: Whether it is sure that what a call changes can be undone.
    """

    def describe(default: CallDescription, arguments: ArgumentsT) -> CallDescription:
        return replace(
            default,
            summary="",
            code=arguments.code,
            text="",
            details={name: value for name, value in default.details.items() if name != "code"},
            announces_start=True,
            tries=tries(),
            approval=partial(approval, arguments.code),
        )

    return FunctionTool(
        name="python",
        description=(
            f"Run Python code in {where}, as a cell would: its variables are there, and what it defines stays. Use "
            "it to look at data, compute and draw. What it prints and displays comes back, figures as images and "
            "tables in short. Long output is shortened in the middle; the whole is kept in a file whose path is given. "
            "Run programs as !command to see their output."
        ),
        arguments=arguments,
        run=run,
        starts_jobs=True,
        describe=describe,
        secret_arguments=("code",),
        guidelines=(*_GUIDELINES, _UNDO if undo else _NO_UNDO, _REFUSED),
    )


def variables_tool(
    kernel: str, run: Callable[[VariablesArguments, ToolContext], Awaitable[ToolOutput]]
) -> FunctionTool[VariablesArguments]:
    """Declare the tool ``variables`` of a kernel, which is named in a few words."""
    return FunctionTool(
        name="variables",
        description=(
            f"List the variables of {kernel} with type, shape, columns and a short view. Give a name for a closer look "
            "with the first rows. Use it before you work with what you have not seen. It runs no code."
        ),
        arguments=VariablesArguments,
        run=run,
        read_only=True,
    )


def time_limit(settings: NotebookSettings, *, goes_on: bool) -> float | None:
    """Return the time limit in seconds; for code that continues as a job, only a limit that the user set."""
    chosen = not goes_on or "python_timeout_seconds" in vars(settings)
    return settings.python_timeout_seconds if chosen else None
