"""Tools that a client of a session may offer in place of the built-in tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from indus_nb.tools.commands.shell import Shell
    from indus_nb.tools.tool import FunctionTool


class ClientTools(Protocol):
    """Client that runs commands and reads and writes files, in place of this process."""

    def shell(self, shell: Shell) -> Shell:
        """Return the shell that runs the commands of ``bash``."""
        ...

    def tools(self, tools: Mapping[str, FunctionTool[Any]], cwd: Path, read_whole: int) -> dict[str, FunctionTool[Any]]:
        """Return the tools that the session has.

        Args:
            cwd: Directory that relative paths start from.
            read_whole: Most bytes of a file of which no part is asked for.
        """
        ...
