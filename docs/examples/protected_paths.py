"""Refuses to write to files that no model should touch.

It watches every tool that changes files and names one in ``path``. A shell command can write anywhere, so start without
``bash`` (``--tools read,edit,write,grep``), or have commands approved.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import ToolCallAnswer, ToolCallEvent
from indus_nb.tools.files.paths import resolve

PROTECTED = (".env", ".env.*", ".git", ".ssh", "*.pem", "node_modules")


def setup(api: ExtensionApi) -> None:
    """Watch tools with a ``path``."""

    @api.on("tool_call")
    def refuse(event: ToolCallEvent, ctx: Context) -> ToolCallAnswer | None:
        path = event.input.get("path")
        if not isinstance(path, str) or ctx.is_read_only(event.tool_name):
            return None
        name = protected_name(path, ctx.cwd)
        if name is None:
            return None
        return ToolCallAnswer(block=True, reason=f"{path} was not touched: {name} is protected. Ask the user to do it.")


def protected_name(path: str, cwd: Path) -> str | None:
    """The file or folder on the way to ``path`` that is protected, if there is one."""
    meant = resolve(path, cwd)  # as the tools do it, so that no spelling leads past this
    # What it is called counts, and where links lead as well.
    for place, root in ((Path(os.path.normpath(meant)), cwd), (meant.resolve(), cwd.resolve())):
        below = place.relative_to(root) if place.is_relative_to(root) else place
        for name in below.parts:
            if any(fnmatchcase(name.casefold(), pattern) for pattern in PROTECTED):
                return name
    return None
