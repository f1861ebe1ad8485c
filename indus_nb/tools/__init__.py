"""The built-in tools: ``read``, ``bash``, ``edit``, ``write``, ``grep``, ``find`` and ``ls``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb._moved import Renamed
from indus_nb.tools.bash import Shell, ShellResult, bash_tool
from indus_nb.tools.description import Approval, CallDescription, describe_call
from indus_nb.tools.tool import TODO, FunctionTool, Tool, ToolContext, ToolError, text_output

__all__ = [
    "BUILTIN_TOOLS",
    "DEFAULT_TOOLS",
    "TODO",
    "Approval",
    "CallDescription",
    "FunctionTool",
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
"""The tools that ``builtin_tools`` makes, in the order in which the model sees them."""
DEFAULT_TOOLS = ("read", "bash", "edit", "write")
"""The tools that are active unless others are chosen."""


def builtin_tools(cwd: Path, *, shell: Shell | None = None, auto_resize_images: bool = True) -> dict[str, Tool]:
    """All built-in tools by name, for a session that works in ``cwd``.

    Args:
        cwd: The session's working directory.
        shell: Where ``bash`` runs its commands.
        auto_resize_images: Scale large images down; otherwise the model gets them as they are, whatever their size.

    Returns:
        The tools by name, in the order in which the model sees them.
    """
    from indus_nb.tools.files import FileQueue, edit_tool, ls_tool, write_tool  # no start needs them
    from indus_nb.tools.read import read_tool
    from indus_nb.tools.search import find_tool, grep_tool

    queue = FileQueue()
    tools: list[FunctionTool[Any]] = [
        read_tool(cwd, auto_resize_images=auto_resize_images),
        bash_tool(cwd, shell or Shell()),
        edit_tool(cwd, queue),
        write_tool(cwd, queue),
        grep_tool(cwd),
        find_tool(cwd),
        ls_tool(cwd),
    ]
    return {tool.name: tool for tool in tools}


if not TYPE_CHECKING:
    __getattr__ = Renamed(__name__, {"read_image": "indus_nb.tools.read:read_image"})
