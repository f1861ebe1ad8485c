"""Restrictions of a sandbox on the tools that work within this process, which it cannot hold."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from indus_nb.base.events import ToolOutput
from indus_nb.safety.sandbox import Sandbox, SandboxError
from indus_nb.tools.files.paths import resolve
from indus_nb.tools.tool import FunctionTool, ToolContext, ToolError


def confined_tools(tools: Mapping[str, FunctionTool[Any]], cwd: Path, sandbox: Sandbox) -> dict[str, FunctionTool[Any]]:
    """Wrap the file tools so that they refuse what no confined program could do.

    Args:
        cwd: Directory that relative paths start from.

    Returns:
        The tools, those that change files or read them with a look at the path before.
    """
    checks: dict[str, Callable[[Path], None]] = {
        **dict.fromkeys(("write", "edit"), sandbox.check_change),
        **dict.fromkeys(("read", "ls"), sandbox.check_read),
        **dict.fromkeys(("grep", "find"), sandbox.check_search),
    }
    return {name: _checked(tool, cwd, checks[name]) if name in checks else tool for name, tool in tools.items()}


def _checked(tool: FunctionTool[Any], cwd: Path, check: Callable[[Path], None]) -> FunctionTool[Any]:
    async def run(arguments: Any, context: ToolContext) -> ToolOutput:
        def look() -> None:
            target = context.target
            check(Path(os.path.realpath(resolve(arguments.path, cwd))) if target is None else target.path)

        try:
            await asyncio.to_thread(look)
        except (SandboxError, OSError) as error:
            raise ToolError(str(error)) from error
        return await tool.run(arguments, context)

    return replace(tool, run=run)
