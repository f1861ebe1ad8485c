"""The built-in tools: ``read``, ``bash``, ``edit``, ``write``, ``grep``, ``find`` and ``ls``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb.tools.commands.bash import Looks, bash_tool
from indus_nb.tools.commands.shell import Shell, ShellResult
from indus_nb.tools.description import Approval, CallDescription, describe_call
from indus_nb.tools.tool import AGENTS, JOB, TODO, FunctionTool, Tool, ToolContext, ToolError, text_output
from indus_nb.tools.truncate import MAX_BYTES

if TYPE_CHECKING:
    from indus_nb.tools.client import ClientTools
    from indus_nb.tools.files.writing import FileQueue
    from indus_nb.tools.jobs import Jobs

__all__ = [
    "AGENTS",
    "BUILTIN_TOOLS",
    "DEFAULT_TOOLS",
    "JOB",
    "RESERVED_TOOLS",
    "TODO",
    "Approval",
    "CallDescription",
    "FunctionTool",
    "Looks",
    "Shell",
    "ShellResult",
    "Tool",
    "ToolContext",
    "ToolError",
    "builtin_tools",
    "describe_call",
    "text_output",
]

BUILTIN_TOOLS = ("read", "bash", "edit", "write", "grep", "find", "ls")
"""Tools that ``builtin_tools`` makes, in the order in which the model sees them."""
DEFAULT_TOOLS = ("read", "bash", "edit", "write")
"""Tools that are active unless others are chosen."""
RESERVED_TOOLS = (*BUILTIN_TOOLS, TODO, AGENTS, JOB, "python", "variables", "state", "notebook", "propose_cell")
"""Reserved names that no server's tool is given: the above, and the notebook's own tools."""


def builtin_tools(  # noqa: PLR0913 - each is for other tools
    cwd: Path,
    *,
    shell: Shell | None = None,
    auto_resize_images: bool = True,
    jobs: Jobs | None = None,
    client: ClientTools | None = None,
    queue: FileQueue | None = None,
    looks: Looks | None = None,
    read_whole: int | None = None,
) -> dict[str, Tool]:
    """Return all built-in tools by name, for a session that works in ``cwd``.

    Args:
        shell: Shell that runs the commands of ``bash``; its sandbox counts for the tools on files too.
        auto_resize_images: Scale large images down; otherwise the model gets them as they are, whatever their size.
        jobs: Jobs that long commands become; with it there is the tool ``job``.
        client: Client that runs commands and reads and writes files in place of this process.
        queue: Keeps changes of a file in order; shared by sessions that work at the same time.
        read_whole: Most bytes that ``read`` shows of a file of which no part is asked for; ``None`` for as many as of a
            part.

    Returns:
        The tools by name, in the order in which the model sees them.
    """
    from indus_nb.tools.files.read import read_tool
    from indus_nb.tools.files.search import find_tool, grep_tool
    from indus_nb.tools.files.writing import FileQueue, edit_tool, ls_tool, write_tool  # no start needs them

    shell = shell or Shell()
    runs = shell if client is None else client.shell(shell)
    queue = queue or FileQueue()
    whole = min(read_whole or MAX_BYTES, MAX_BYTES)
    tools: list[FunctionTool[Any]] = [
        read_tool(cwd, auto_resize_images=auto_resize_images, whole=whole),
        bash_tool(cwd, runs, jobs, looks),
        edit_tool(cwd, queue),
        write_tool(cwd, queue),
        grep_tool(cwd),
        find_tool(cwd),
        ls_tool(cwd),
    ]
    if jobs is not None:
        from indus_nb.tools.jobs import job_tool

        tools.append(job_tool(jobs))
    by_name = {tool.name: tool for tool in tools}
    if client is not None:
        by_name = client.tools(by_name, cwd, whole)
    if shell.sandbox is None:
        return {**by_name}
    from indus_nb.tools.files.confining import confined_tools

    return {**confined_tools(by_name, cwd, shell.sandbox)}
