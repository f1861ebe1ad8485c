"""Shell commands that the user runs beside the agent, whose output the model is shown with the next prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from indus_nb.errors import UsageError
from indus_nb.events import BashExecutionUpdate, SessionEvent
from indus_nb.tools import Shell
from indus_nb.tools.bash import ShellResult
from indus_nb.tools.tool import ToolError
from indus_nb.tools.truncate import Truncation


class UserShell:
    """Runs commands, several at a time if need be, and can end them all."""

    def __init__(self, shell: Shell, emit: Callable[[SessionEvent], Awaitable[None]]) -> None:
        self._shell = shell
        self._emit = emit
        self._running: set[asyncio.Task[ShellResult]] = set()

    async def run(
        self, command: str, cwd: Path, command_id: str | int | None = None, *, shell: Shell | None = None
    ) -> ShellResult:
        """Run ``command`` to its end; its output goes out in events as it comes, at the pace of who listens.

        ``shell`` runs it in the place of the usual one. Raises ``UsageError`` when it could not be started.
        """

        async def show(text: str) -> None:
            await self._emit(BashExecutionUpdate(command_id=command_id, delta=text))

        task = asyncio.create_task((shell or self._shell).run(command, cwd=cwd, on_text=show))
        self._running.add(task)
        try:
            await asyncio.wait([task])
            return task.result() if not task.cancelled() else _never_begun()
        except ToolError as error:
            raise UsageError(str(error)) from error
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            self._running.discard(task)

    async def abort(self) -> None:
        """End all commands, and return when they have ended."""
        running = tuple(self._running)
        for task in running:
            if not task.cancelling():
                task.cancel()
        if running:
            await asyncio.wait(running)


def _never_begun() -> ShellResult:
    nothing = Truncation(content="", total_lines=0, total_bytes=0, output_lines=0, output_bytes=0)
    return ShellResult(nothing, cancelled=True)
