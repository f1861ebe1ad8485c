"""RPC mode as a process: from its first line on standard input to its end, however that comes."""

from __future__ import annotations

import asyncio
import threading

from indus_nb.base.wire import dump
from indus_nb.core.session.dialogs import Cancel, DialogChanged, Host, SetWorkingMessage, UiFrame
from indus_nb.core.session.session import AgentSession
from indus_nb.front.console.frames import Wire, dialect_of
from indus_nb.front.console.intake import carry_out
from indus_nb.front.console.rpc import RpcServer
from indus_nb.front.console.stdio import FrameWriter, on_signals
from indus_nb.models.http.preloading import preload_in_background
from indus_nb.safety.vault import preload
from indus_nb.tools.tool import preload_schemas

_CLOSING_SECONDS = 1.0
_IDLE_SECONDS = 0.2
_SHUTDOWN_SECONDS = 3.0


async def _start(session: AgentSession) -> None:
    """Start the extensions once the commands that came before are answered."""
    await asyncio.sleep(_IDLE_SECONDS / 4)
    await session.start()


async def _end(session: AgentSession) -> None:
    try:
        async with asyncio.timeout(_SHUTDOWN_SECONDS):
            await session.end()
    except TimeoutError:
        session.close()


def _host(writer: FrameWriter) -> Host:
    """Build a host that renders UI requests as frames. Call it on the event loop that writes."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def show(frame: UiFrame) -> None:
        left_out = (SetWorkingMessage, DialogChanged, *([] if dialect_of(writer.wire) is None else [Cancel]))
        if isinstance(frame, left_out):
            return
        line = dump(frame)
        if threading.get_ident() == thread:
            writer.send_line(line)
        else:  # a tool's function works in a thread of its own
            loop.call_soon_threadsafe(writer.send_line, line)

    return show


async def serve(session: AgentSession, descriptor_in: int, descriptor_out: int, wire: Wire = "snapshot") -> int:
    """Serve a session until standard input closes or a signal ends the process.

    Args:
        descriptor_in: The descriptor that commands are read from, see ``stdio.claim``.
        descriptor_out: The descriptor that responses and events are written to.

    Returns:
        The exit status: 0, 1 when the session could not be saved, 128 and more after a signal.
    """
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    asked_for: list[int] = []

    def end(code: int) -> None:
        asked_for.append(code)
        over.set()

    writer = FrameWriter(descriptor_out, wire, on_broken=lambda: end(0))  # a host that reads no more has gone
    server = RpcServer(session, writer)
    if wire == "omp":
        writer.send_line(b'{"type":"ready"}')
    session.subscribe(writer.send)

    async def read() -> None:
        end(await carry_out(server, writer, descriptor_in))

    async def leave() -> None:
        await session.wait_until_idle()
        end(0)

    leaving: list[asyncio.Task[None]] = []
    session.on_shutdown = lambda: leaving.append(asyncio.create_task(leave()))
    session.ui.attach(_host(writer), place="RPC mode")
    session.trusting.in_background = True  # a host may never answer
    on_signals(end)
    reading = asyncio.create_task(read())
    starting = asyncio.create_task(_start(session))
    preloading = [
        loop.call_later(_IDLE_SECONDS, session.models.preload),
        loop.call_later(2 * _IDLE_SECONDS, preload_in_background, preload),
        loop.call_later(4 * _IDLE_SECONDS, preload_in_background, preload_schemas),
    ]
    await over.wait()
    reading.cancel()
    for each in preloading:
        each.cancel()
    writer.stop_blocking()
    await server.shut_down()
    starting.cancel()
    await _end(session)
    await writer.close(_CLOSING_SECONDS)
    return max(*asked_for, 1 if session.save_problem else 0)
