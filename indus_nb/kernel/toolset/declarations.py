"""What is declared of the kernel's tools once, for this process and for a kernel that the agent is attached to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from indus_nb.base.events import ToolOutput
from indus_nb.base.wire_model import wire_field
from indus_nb.core.resources.settings import NotebookSettings
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext

_GUIDELINES = (
    "Work on the user's live variables with python rather than reading their files again",
    "Do not overwrite or delete the user's variables unless asked to; choose new names",
)


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


def python_tool(
    description: str,
    *,
    snippet: str,
    run: Callable[[PythonArguments, ToolContext], Awaitable[ToolOutput]],
    approval: Callable[[str], Approval],
    tries: Callable[[], bool],
) -> FunctionTool[PythonArguments]:
    """Declare the tool ``python`` of a kernel.

    Args:
        approval: Builds the question before code; called off the event loop.
        tries: Whether code is tried in a copy before it is asked about.
    """

    def describe(default: CallDescription, arguments: PythonArguments) -> CallDescription:
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
        description=description,
        arguments=PythonArguments,
        run=run,
        starts_jobs=True,
        describe=describe,
        secret_arguments=("code",),
        snippet=snippet,
        guidelines=_GUIDELINES,
    )


def variables_tool(
    kernel: str, run: Callable[[VariablesArguments, ToolContext], Awaitable[ToolOutput]]
) -> FunctionTool[VariablesArguments]:
    """Declare the tool ``variables`` of a kernel, which is named in a few words."""
    return FunctionTool(
        name="variables",
        description=(
            f"List the variables of {kernel}: name, type, shape, types of columns, a short view; one of them more "
            "closely, with its first rows."
        ),
        arguments=VariablesArguments,
        run=run,
        read_only=True,
        snippet=f"See which variables {kernel} holds",
    )


def time_limit(settings: NotebookSettings, *, goes_on: bool) -> float | None:
    """Return the time limit in seconds; for code that continues as a job, only a limit that the user set."""
    chosen = not goes_on or "python_timeout_seconds" in vars(settings)
    return settings.python_timeout_seconds if chosen else None
