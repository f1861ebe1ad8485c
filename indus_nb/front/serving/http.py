"""Tools served over HTTP, to programs of this machine that know a token.

What this module promises:

- **The token is in one file**, which its owner alone can read and which ends with the server. It is never logged.
  ``guard`` decides which connections and requests are admitted.
- It listens on 127.0.0.1 alone, and the port is free again once `HttpServer.stop` has returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb.base.errors import UsageError
from indus_nb.base.files import make_private_directory, write_atomically
from indus_nb.front.serving.guard import HOST, MAX_REQUESTS, MAX_SESSIONS, PATH, Guard, Waiting
from indus_nb.front.serving.served_tools import ServedTools

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_ACCEPTED_AT_ONCE = 4
"""Connections accepted at once: so few that one with a token shows it before later ones have pushed it out."""
_MAX_BODY_BYTES = 4 << 20
_IDLE_SECONDS = 3600.0
_END_SECONDS = 3
_LOGGERS = ("mcp.", "sse_starlette", "uvicorn")
_TOKENS = "served"


class HttpServer:
    """HTTP server of tools at an address of this machine; used on one event loop.

    Args:
        agent_dir: The user's own directory, in which the token's file is.
    """

    def __init__(self, tools: ServedTools, agent_dir: Path) -> None:
        self._tools = tools
        self._tokens = agent_dir / _TOKENS
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.url: str = ""
        self.token_file: Path = self._tokens / f"{os.getpid()}-{secrets.token_hex(4)}.token"

    @property
    def serves(self) -> bool:
        """Return whether the server answers."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Open the port, and answer requests from now on.

        Raises:
            UsageError: The system refuses the port, or the file of the token.
        """
        token = secrets.token_urlsafe(32)
        listening = _Listening(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.bind((HOST, 0))
            listening.listen()
            port = listening.getsockname()[1]
            self._keep(token)
        except OSError as error:
            listening.close()
            raise UsageError(f"The kernel cannot be served, for the system refused it: {error}.") from error
        self.url = f"http://{HOST}:{port}{PATH}"
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._serve(listening, token, port, ready), name="indus_nb served")
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            await self._task

    async def stop(self) -> None:
        """End all calls and connections, and free the port."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=2 * _END_SECONDS)

    def _keep(self, token: str) -> None:
        make_private_directory(self._tokens)
        for path in self._tokens.glob("*.token"):  # of kernels that were killed
            process = path.name.partition("-")[0]
            if process.isdigit() and not _lives(int(process)):
                path.unlink(missing_ok=True)
        write_atomically(self.token_file, token.encode(), mode=0o600)

    async def _serve(self, listening: socket.socket, token: str, port: int, ready: asyncio.Event) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        manager = StreamableHTTPSessionManager(
            self._tools.server(),
            max_request_body_size=_MAX_BODY_BYTES,
            max_sessions=2 * MAX_SESSIONS,
            session_idle_timeout=_IDLE_SECONDS,
        )
        waiting = Waiting()
        server, serving = _uvicorn(Guard(manager.handle_request, token, port, waiting), waiting, listening)
        try:
            await self._until_stopped(manager, serving, ready)
        finally:
            server.should_exit = True
            await asyncio.wait([serving], timeout=_END_SECONDS)
            server.force_exit = True
            serving.cancel()
            listening.close()
            with contextlib.suppress(OSError):
                self.token_file.unlink()

    async def _until_stopped(
        self, manager: StreamableHTTPSessionManager, serving: asyncio.Task[None], ready: asyncio.Event
    ) -> None:
        async with manager.run():
            _silence()
            ready.set()
            stopping = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([stopping, serving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopping.cancel()


class _Listening(socket.socket):
    """A socket that keeps connections waiting in the system, however few are accepted at once."""

    def listen(self, backlog: int = 0, /) -> None:
        super().listen(max(backlog, 2 * MAX_REQUESTS))


def _uvicorn(app: Guard, waiting: Waiting, listening: socket.socket) -> tuple[Any, asyncio.Task[None]]:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    config = uvicorn.Config(
        app,
        http=waiting.protocol(H11Protocol),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=_ACCEPTED_AT_ONCE,
        limit_concurrency=4 * MAX_REQUESTS,
        timeout_graceful_shutdown=_END_SECONDS,
    )
    server = uvicorn.Server(config)
    return server, asyncio.create_task(server.serve(sockets=[listening]), name="indus_nb HTTP")


def _silence() -> None:
    """Turn off the logs of libraries on this thread: hosts, session ids and the like do not belong there."""
    here = threading.get_ident()
    for name in tuple(logging.root.manager.loggerDict):
        if name.startswith(_LOGGERS):
            logging.getLogger(name).addFilter(lambda record: record.thread != here)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
