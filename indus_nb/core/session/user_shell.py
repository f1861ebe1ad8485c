"""Shell commands that the user runs beside the agent, whose output the model is shown with the next prompt.

What this module promises: a command and its output join the conversation while the session is idle, never between a
tool call and its result, and in the order in which the commands ended.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from indus_nb.base.errors import UsageError
from indus_nb.base.events import BashExecutionUpdate
from indus_nb.base.messages import BashExecutionMessage
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.recorder import Recorder
from indus_nb.core.session.state import SessionState
from indus_nb.core.session.turns import Turns
from indus_nb.tools import Shell
from indus_nb.tools.commands.shell import ShellResult
from indus_nb.tools.tool import ToolError
from indus_nb.tools.truncate import Truncation


class UserShell:
    """Runs the shell commands of one session's user.

    Several may run at a time, and all can be ended at once.

    Args:
        turns: knows when the session is idle.
    """

    def __init__(self, state: SessionState, turns: Turns, recorder: Recorder, publisher: Publisher) -> None:
        self._state = state
        self._turns = turns
        self._recorder = recorder
        self._publisher = publisher
        self._running: set[asyncio.Task[ShellResult]] = set()
        self._held_back: list[BashExecutionMessage] = []

    async def run(
        self, command: str, *, exclude_from_context: bool = False, command_id: str | int | None = None
    ) -> ShellResult:
        """Run a command to its end and add it to the conversation.

        Its output is published as it comes.

        Args:
            exclude_from_context: whether the model is not shown it.
            command_id: the caller's name for it, which its events carry.

        Raises:
            UsageError: It could not be started.
        """
        store = self._state.store
        given = await self._state.hooks.user_bash(command, store.cwd, exclude_from_context=exclude_from_context)
        vault = self._state.settings.vault
        if isinstance(given, ShellResult):
            result = given
        else:
            shell = given or self._state.settings.shell
            shell = shell if shell.vault is not None else replace(shell, vault=vault)
            result = await self._execute(shell, command, store.cwd, command_id)
        # Once more, for the whole of it: a name may stand in another piece of the output than its value.
        shown = result.truncation.replace(content=vault.hide(result.output))
        result = replace(result, truncation=shown)
        message = BashExecutionMessage(
            command=vault.hide(command, typed=True),
            output=result.output,
            exit_code=result.exit_code,
            cancelled=result.cancelled,
            truncated=result.truncation.truncated,
            full_output_path=result.full_output_path,
            full_output_problem=result.file_problem,
            exclude_from_context=exclude_from_context or None,
        )
        if store is self._state.store:  # else the session was replaced meanwhile
            self._held_back.append(message)
            if self._turns.idle:
                self.add_held_back()
        return result

    def add_held_back(self) -> None:
        """Add the commands that ended while the session was busy to the conversation."""
        held_back, self._held_back = self._held_back, []
        for message in held_back:
            self._recorder.add(message)

    async def abort(self) -> None:
        """End all commands, and return when they have ended."""
        running = tuple(self._running)
        for task in running:
            if not task.cancelling():
                task.cancel()
        if running:
            await asyncio.wait(running)

    async def _execute(self, shell: Shell, command: str, cwd: Path, command_id: str | int | None) -> ShellResult:
        async def show(text: str) -> None:
            await self._publisher.emit(BashExecutionUpdate(command_id=command_id, delta=text))

        task = asyncio.create_task(shell.run(command, cwd=cwd, on_text=show))
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


def _never_begun() -> ShellResult:
    nothing = Truncation(content="", total_lines=0, total_bytes=0, output_lines=0, output_bytes=0)
    return ShellResult(nothing, cancelled=True)
