"""Tools served over standard input and output, to the program that has started this one.

What this module promises: once that program closes its end, or is killed, calls that go on are ended, and this process
ends too. Where it can ask its user, it is asked what the session asks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import cast

from indus_nb.core.session.session import AgentSession
from indus_nb.front.serving.served_tools import ServedTools


async def serve_stdio(
    session: AgentSession,
    offered: Sequence[str],
    descriptors: tuple[int, int],
    on_signals: Callable[[Callable[[int], None]], None],
) -> int:
    """Serve tools of a session until the client hangs up.

    Args:
        descriptors: The descriptors to read from and write to.
        on_signals: Has a function called with an exit status when the process is to end.
    """
    import anyio
    from mcp.server.runner import serve_dual_era_loop
    from mcp.server.stdio import stdio_server

    read, write = descriptors
    server = ServedTools(session, offered, asks_clients=True).server()
    ended: list[int] = []

    async def serve() -> None:
        # Not closed: a thread may still read it, and the process ends with it.
        source = anyio.wrap_file(os.fdopen(read, encoding="utf-8", errors="replace", closefd=False))
        sink = anyio.wrap_file(os.fdopen(write, "w", encoding="utf-8", closefd=False))
        async with stdio_server(source, sink) as streams, server.lifespan(server) as state:
            await serve_dual_era_loop(server, *streams, lifespan_state=state)

    serving = asyncio.create_task(serve())

    def end(status: int) -> None:
        ended.append(status)
        serving.cancel()

    on_signals(end)
    await asyncio.wait([serving])
    await session.end()
    if not serving.cancelled() and (error := serving.exception()) is not None and not _is_broken(error):
        raise error
    return max(ended, default=0)


def _is_broken(error: BaseException) -> bool:
    """Return whether the client has closed its end."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_broken, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, OSError)
