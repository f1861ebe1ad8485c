"""Intake of commands, line by line, as fast as a host reads the responses, and as long as it may want them.

What this module promises: a host that has hung up is not worked for without an end. It is given up when it does not
read what waits for it, or when none of very many commands ends. A defect while reading is reported, and
ends with status 1.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import Protocol

from indus_nb.front.console.stdio import FrameWriter, LineTooLongError, complain, has_hung_up, read_lines

_STALLED_SECONDS = 3.0
_MAX_TASKS = 64
_log = logging.getLogger("indus_nb")


class CommandServer(Protocol):
    """Server that carries commands out; ``tasks`` are those that wait."""

    tasks: set[asyncio.Task[None]]

    def handle_line(self, line: bytes | LineTooLongError) -> bool:
        """Dispatch a command; returns whether a task was started for it."""
        ...


async def carry_out(server: CommandServer, writer: FrameWriter, descriptor: int) -> int:
    """Pass lines to the server until there are no more, or no reader wants more answers.

    Args:
        writer: The writer of its responses.
        descriptor: The descriptor of the lines.

    Returns:
        The status to exit with: 0, or 1 after a defect.
    """
    try:
        async with aclosing(read_lines(descriptor)) as lines:
            async for line in lines:
                if server.handle_line(line):
                    await asyncio.sleep(0)  # so that what it begins has begun when the next one is looked at
                if (problem := await _problem(server, writer, descriptor)) is not None:
                    complain(f"The host has closed its end and {problem}.")
                    return 0
    except Exception as error:  # noqa: BLE001 - it would end the process without a word
        _log.error("Commands cannot be read any more", exc_info=error)
        complain(f"Internal error: {type(error).__name__}: {error}. No more commands are read.")
        return 1
    return 0


async def _problem(server: CommandServer, writer: FrameWriter, descriptor: int) -> str | None:
    """Wait for the host where it is far behind; returns why it is to be given up."""
    has_many = len(server.tasks) > _MAX_TASKS
    if (writer.far_behind or has_many) and not await _is_read(writer, descriptor):
        return "does not read what waits for it"
    if has_many and has_hung_up(descriptor) and not await _has_room(server):
        return "none of its commands ends; the others were not begun"
    return None


async def _is_read(writer: FrameWriter, descriptor: int) -> bool:
    """Wait for the reader; returns whether it goes on reading, which a host that has hung up may not do."""
    while True:
        written = writer.written
        try:
            async with asyncio.timeout(_STALLED_SECONDS):
                await writer.wait_for_reader()
        except TimeoutError:
            if writer.written == written and has_hung_up(descriptor):
                return False
        else:
            return True


async def _has_room(server: CommandServer) -> bool:
    """Wait until enough commands have ended for another one to begin; returns whether they do end."""
    while len(server.tasks) > _MAX_TASKS:
        ended, _ = await asyncio.wait(server.tasks, timeout=_STALLED_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ended:
            return False
    return True
