"""A server as a process of ours, spoken to over its pipes.

What this module promises: a message is a line of bounded length with a bounded number of values in it, so no server can
make us hold more; what it writes on
standard error, or on standard output besides messages, ends up in its log; and when the transport is left, nothing is
left of what the server has started. For that its input is closed, then it is asked to terminate, then it is killed,
with a second between the steps. Should this process be killed, the guard (``tools.processes.guard``) does so.

The SDK's own transport holds lines of any length, and a server that does not react to the end of its input would
outlive us.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from indus_nb.base.wire import check_json_values
from indus_nb.extend.mcp.config import MAX_MESSAGE_BYTES, ServerSpec
from indus_nb.extend.mcp.log import MAX_LOG_CHARACTERS, ServerLog
from indus_nb.tools.processes.guard import GuardedProgram
from indus_nb.tools.truncate import size_text

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

    from indus_nb.safety.sandbox import Confined

GRACE_SECONDS = 1.0
"""Seconds that a process has to end when its input is closed, and again when it is asked to terminate."""


@contextlib.asynccontextmanager
async def over_pipes(
    spec: ServerSpec, log: ServerLog, lose: Callable[[str | None], None]
) -> AsyncGenerator[TransportStreams]:
    """Run the server's process, and leave nothing behind of what it has started.

    Args:
        spec: The server; its entry has a ``command``.
        log: Where its standard error goes.
        lose: Called with the reason when the connection is over, and with ``None`` when the reason is not known yet.

    Yields:
        The streams of messages from and to the server, while the context is entered.

    Raises:
        ValueError: There is no such program, or it cannot be confined as it should be.
        OSError: The program cannot be started.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    program = await _start_program(spec, log, lose)
    arrive, arrived = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    leave, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(program.read, arrive)
            pumps.start_soon(program.write, leaving)
            pumps.start_soon(program.read_errors)
            try:
                yield arrived, leave
            finally:
                with anyio.CancelScope(shield=True):
                    await program.end()
                pumps.cancel_scope.cancel()
    finally:
        for stream in (arrive, arrived, leave, leaving):
            stream.close()
        with anyio.CancelScope(shield=True):
            await program.release()


async def _start_program(spec: ServerSpec, log: ServerLog, lose: Callable[[str | None], None]) -> _Program:
    from mcp.client.stdio import get_default_environment

    environment = get_default_environment() | spec.config.env
    command = spec.config.command or ""
    path = _find_program(command, spec.directory, environment)
    confined = await _confined([path, *spec.config.args], spec)
    guarded = GuardedProgram()
    try:
        process = await asyncio.create_subprocess_exec(
            *guarded.arguments(confined.arguments if confined is not None else [path, *spec.config.args]),
            pass_fds=confined.pass_fds if confined is not None else (),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=MAX_MESSAGE_BYTES,
            cwd=spec.directory,
            env=guarded.environment(environment),
            start_new_session=True,
        )
    except BaseException:
        guarded.kill()  # it may have been cancelled when the program ran already
        await guarded.sweep()
        guarded.release()
        if confined is not None:
            await confined.closed()
        raise
    guarded.started(process.pid)
    if confined is not None:
        confined.release()
    return _Program(process, guarded, log, lose, confined)


async def _confined(arguments: Sequence[str], spec: ServerSpec) -> Confined | None:
    if spec.sandbox is None:
        return None
    from indus_nb.safety.sandbox import SandboxError

    try:
        return await spec.sandbox.confined(arguments, unset=())
    except SandboxError as error:
        raise ValueError(str(error)) from error


def _find_program(command: str, cwd: Path, environment: Mapping[str, str]) -> str:
    wanted = str(cwd / Path(command).expanduser()) if "/" in command else command
    path = shutil.which(wanted, path=environment.get("PATH", os.defpath))
    if path is None:
        raise ValueError(f"there is no program {command} (relative paths start at {cwd}, names are sought in PATH)")
    return path


class _Program:
    """Running server process: its three pipes, and its end."""

    def __init__(
        self,
        process: Process,
        guarded: GuardedProgram,
        log: ServerLog,
        lose: Callable[[str | None], None],
        confined: Confined | None,
    ) -> None:
        self._process = process
        self._guarded = guarded
        self._confined = confined
        self._log = log
        self._lose = lose
        self._stdin = cast("asyncio.StreamWriter", process.stdin)
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self._stderr = cast("asyncio.StreamReader", process.stderr)
        self._logged = asyncio.Event()
        self._silent = False

    async def read(self, arrive: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Pass on its messages until its output ends."""
        from anyio import BrokenResourceError, ClosedResourceError
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        with arrive:
            while True:
                try:
                    line = await self._stdout.readline()
                except ValueError:
                    self._lose(f"sent a message of more than {size_text(MAX_MESSAGE_BYTES)}")
                    return
                if not line:
                    self._silent = True
                    self._lose(None)
                    return
                try:
                    check_json_values(line)
                except ValueError as error:
                    self._lose(f"sent a message that is not read: {error}")
                    return
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    self._log.add(b"[on standard output, no message] " + line[:MAX_LOG_CHARACTERS])
                    continue
                try:
                    await arrive.send(SessionMessage(message))
                except (BrokenResourceError, ClosedResourceError):
                    return

    async def write(self, leaving: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send our messages."""
        with contextlib.suppress(OSError):  # it has ended, as `read` will see
            async for message in leaving:
                data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._stdin.write(data.encode() + b"\n")
                await self._stdin.drain()

    async def read_errors(self) -> None:
        """Record the end of its standard error."""
        while data := await self._stderr.read(1 << 16):
            self._log.add(data)
        self._logged.set()

    async def end(self) -> None:
        """Close its input, ask it to terminate, kill what is left.

        Gives the reason why its output ended, if it did.
        """
        import anyio

        try:
            self._stdin.close()
            ended = await self._ended(GRACE_SECONDS)
            if self._silent:
                self._lose(_how_it_ended(self._process.returncode))
            if not ended:
                self._guarded.signal(signal.SIGTERM)
                await self._ended(GRACE_SECONDS)
        finally:
            self._guarded.kill()
            await self._guarded.sweep()
        await self._ended(GRACE_SECONDS)
        with anyio.move_on_after(
            GRACE_SECONDS / 4
        ):  # used up only if a process that fled from the group holds the pipe
            await self._logged.wait()

    async def _ended(self, seconds: float) -> bool:
        import anyio

        # Waiting also lasts too long when another process holds a pipe.
        with anyio.move_on_after(seconds):
            await self._process.wait()
        return self._process.returncode is not None

    async def release(self) -> None:
        """Close the pipes, whatever other process holds them, and restore what it must not have changed."""
        self._guarded.release()
        cast("Any", self._process)._transport.close()  # noqa: SLF001 - nothing public does it
        if self._confined is not None:
            await self._confined.closed()
            for sentence in self._confined.said:
                self._log.add(f"[sandbox] {sentence}\n".encode())


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "closed its standard output"
    return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
