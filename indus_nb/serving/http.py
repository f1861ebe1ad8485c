"""Tools served over HTTP, to programs of this machine that know a token.

What this module promises:

- **Nothing without the token**: a request without it is answered 401 before anything of it is looked at, and its body
  is not read. What names another host, or comes from a page of another origin, is rejected too.
- **The token is in one file**, which its owner alone can read and which ends with the server. It is never logged.
- **Bounded**: so many requests and sessions at a time, so many bytes each.
- It listens on 127.0.0.1 alone, and the port is free again once `HttpServer.stop` has returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from indus_nb.errors import UsageError
from indus_nb.files import make_private_directory, write_atomically
from indus_nb.serving.tools import GONE, ServedTools

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_HOST = "127.0.0.1"
_PATH = "/mcp"
_MAX_BODY_BYTES = 4 << 20
_MAX_SESSIONS = 32
_MAX_REQUESTS = 64
"""Open at a time: each client keeps one for what the server has to say, and one for each call."""
_IDLE_SECONDS = 3600.0
_END_SECONDS = 3
_LOGGERS = ("mcp.", "sse_starlette", "uvicorn")
_TOKENS = "served"

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class _Guard:
    """The outermost application: lets through what may pass, and notes when a client hangs up."""

    def __init__(self, app: Callable[[Any, Receive, Send], Awaitable[None]], token: str, port: int) -> None:
        self._app = app
        self._expected = token.encode()
        self._host = f"{_HOST}:{port}".encode()
        self._open = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status = self._refusal(scope)
        if status is not None:
            await _answer(send, status)
            return
        gone = scope[GONE] = asyncio.Event()

        async def receive_and_note() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        self._open += 1
        try:
            await self._app(scope, receive_and_note, send)
        finally:
            self._open -= 1
            gone.set()

    def _refusal(self, scope: Message) -> int | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = (given[0] if len(given) == 1 else b"").partition(b" ")
        if not (hmac.compare_digest(token.strip(), self._expected) and scheme.lower() == b"bearer"):
            return 401
        if [value for name, value in scope["headers"] if name == b"host"] != [self._host]:
            return 421
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if any(origin != b"http://" + self._host for origin in origins):
            return 403
        if scope["path"] != _PATH:
            return 404
        return 503 if self._open >= _MAX_REQUESTS else None


async def _answer(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


class HttpServer:
    """Serves tools at an address of this machine; used on one event loop.

    Args:
        tools: What is served.
        agent_dir: The user's own directory, in which the token's file is.
    """

    def __init__(self, tools: ServedTools, agent_dir: Path) -> None:
        self._tools = tools
        self._tokens = agent_dir / _TOKENS
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.url = ""
        self.token_file = self._tokens / f"{os.getpid()}-{secrets.token_hex(4)}.token"

    @property
    def serves(self) -> bool:
        """Whether it answers."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Listen.

        Raises:
            UsageError: The system refuses the port, or the file of the token.
        """
        token = secrets.token_urlsafe(32)
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.bind((_HOST, 0))
            listening.listen(_MAX_REQUESTS)
            port = listening.getsockname()[1]
            self._keep(token)
        except OSError as error:
            listening.close()
            raise UsageError(f"The kernel cannot be served, for the system refused it: {error}.") from error
        self.url = f"http://{_HOST}:{port}{_PATH}"
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
            max_sessions=_MAX_SESSIONS,
            session_idle_timeout=_IDLE_SECONDS,
        )
        server, serving = _uvicorn(_Guard(manager.handle_request, token, port), listening)
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


def _uvicorn(app: _Guard, listening: socket.socket) -> tuple[Any, asyncio.Task[None]]:
    import uvicorn

    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=2 * _MAX_REQUESTS,
        timeout_graceful_shutdown=_END_SECONDS,
    )
    server = uvicorn.Server(config)
    return server, asyncio.create_task(server.serve(sockets=[listening]), name="indus_nb HTTP")


def _silence() -> None:
    """Let the libraries log nothing of this thread: hosts, session ids and the like are nobody's business."""
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
