"""A running kernel that is looked for when it is needed, for sessions that begin before there is one.

A chat beside notebooks is opened when its user likes, and outlives their kernels.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.kernel.attached.connection import Connection
from indus_nb.kernel.attached.finding import FoundKernel, find
from indus_nb.kernel.attached.kernel import RunningKernel
from indus_nb.tools.tool import ToolError

_NONE_YET = FoundKernel(Path("found when it is needed"), "")


class LateKernel(RunningKernel):
    """The one kernel that runs, or that of the only open notebook in a directory; the user may name another.

    It stays the same until it ends; the call after that looks for one again. It is an extension, too, with the command
    ``/kernel``.
    """

    def __init__(self, cwd: Path) -> None:
        """Store where to look for a kernel, without looking yet.

        Args:
            cwd: Where relative paths start, and where an open notebook is looked for.
        """
        super().__init__(_NONE_YET)
        self._cwd = cwd
        self.found: FoundKernel = _NONE_YET
        self._wanted = "auto"

    def __call__(self, api: ExtensionApi) -> None:
        """Add the command to a session."""
        api.register_command("kernel", self._choose, "Work in another running kernel: an open notebook, or an id")

    async def open(self) -> Connection:
        """Look for the kernel, and open its channels."""
        try:
            self.found = await asyncio.to_thread(find, self._wanted, self._cwd, how="the user chooses with /kernel ID")
        except UsageError as error:
            raise ToolError(f"{error}\nNothing was done. Tell the user.") from error
        return await super().open()

    async def _choose(self, arguments: str, ctx: Context) -> None:
        wanted = arguments.strip() or "auto"
        found = await asyncio.to_thread(find, wanted, self._cwd, how="/kernel ID")
        if found.connection != self.found.connection:
            self.close()
        self._wanted, self.found = wanted, found
        ctx.ui.notify(f"The agent works in the kernel of {found.label}.")
