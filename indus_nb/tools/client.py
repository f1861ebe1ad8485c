"""What a program that shows a session may do in place of the built-in tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from indus_nb.tools.commands.shell import Shell
    from indus_nb.tools.tool import FunctionTool


class ClientTools(Protocol):
    """Where commands run and files are read and written, if not in this process."""

    def shell(self, shell: Shell) -> Shell:
        """What runs the commands of ``bash``."""
        ...

    def tools(self, tools: Mapping[str, FunctionTool[Any]], cwd: Path) -> dict[str, FunctionTool[Any]]:
        """The tools that the session has.

        Args:
            cwd: Where relative paths start.
        """
        ...
