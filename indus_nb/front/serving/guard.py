"""Access over HTTP: requests with the token, few connections without it, and sessions that are used.

What this module promises:

- **Nothing without the token**: a request without it is answered 401 before anything of it is looked at, and its body
  is not read. What names another host, or comes from a page of another origin, is rejected too.
- **Few wait without it**: a connection that has not shown a token ends within seconds, and earlier when more of them
  come. So programs without the token take neither this process's descriptors nor the place of those that have it.
- **Bounded**: so many requests and sessions at a time. The session that was idle longest gives way to a new one, for
  clients that go away seldom say so.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from indus_nb.front.serving.served_tools import GONE

if TYPE_CHECKING:
    from collections.abc import Generator

HOST = "127.0.0.1"
PATH = "/mcp"
MAX_SESSIONS = 32
MAX_REQUESTS = 64
"""Most requests at a time: each client keeps one for what the server has to say, and one for each call."""
_MAX_WAITING = 32
_WAITING_SECONDS = 5.0
_SESSION = b"mcp-session-id"

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]


class Waiting:
    """The connections that have not shown the token; used on one event loop."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}

    def protocol(self, protocol: Callable[..., asyncio.Protocol]) -> Any:
        """Make a protocol whose connections are counted until they are admitted."""

        def counted(**options: Any) -> asyncio.Protocol:
            return _Counted(protocol(**options), self._add)

        return counted

    def admit(self, client: object) -> None:
        """Admit a connection: it no longer counts as waiting."""
        _, timer = self._open.pop(_key(client), (None, None))
        if timer is not None:
            timer.cancel()

    def _add(self, transport: asyncio.Transport) -> None:
        for client in [client for client, (other, _) in self._open.items() if other.is_closing()]:
            self.admit(client)
        while len(self._open) >= _MAX_WAITING:
            self._end(next(iter(self._open)))
        client = _key(transport.get_extra_info("peername"))
        timer = asyncio.get_running_loop().call_later(_WAITING_SECONDS, self._end, client)
        self._open[client] = transport, timer

    def _end(self, client: object) -> None:
        transport, _ = self._open[client]
        self.admit(client)
        transport.abort()


class _Counted(asyncio.Protocol):
    def __init__(self, protocol: asyncio.Protocol, add: Callable[[asyncio.Transport], None]) -> None:
        self._protocol = protocol
        self._add = add

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = cast("asyncio.Transport", transport)
        self._add(connection)
        connection.set_protocol(self._protocol)
        self._protocol.connection_made(connection)


def _key(client: object) -> object:
    """Return the address of a client as a connection and a request alike name it."""
    return tuple(cast("tuple[object, ...]", client)[:2]) if isinstance(client, tuple | list) else client


class Guard:
    """Outermost ASGI application: admits or rejects requests, and notes when a client hangs up.

    Args:
        waiting: The connections that have not shown the token.
    """

    def __init__(self, app: App, token: str, port: int, waiting: Waiting) -> None:
        self._app = app
        self._expected = token.encode()
        self._host = f"{HOST}:{port}".encode()
        self._open = 0
        self._waiting = waiting
        self._sessions: dict[bytes, int] = {}
        """The number of open requests of each session; those that were used last stand last."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        status = self._refusal(scope)
        if status != 401:
            self._waiting.admit(scope["client"])
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
            with self._used(_values(scope, _SESSION)):
                await self._app(scope, receive_and_note, self._noting(send))
            await self._end_idle_sessions(scope)
        finally:
            self._open -= 1
            gone.set()

    def _refusal(self, scope: Message) -> int | None:
        given = _values(scope, b"authorization")
        scheme, _, token = (given[0] if len(given) == 1 else b"").partition(b" ")
        if not (hmac.compare_digest(token.strip(), self._expected) and scheme.lower() == b"bearer"):
            return 401
        if _values(scope, b"host") != [self._host]:
            return 421
        if any(origin != b"http://" + self._host for origin in _values(scope, b"origin")):
            return 403
        if scope["path"] != PATH:
            return 404
        return 503 if self._open >= MAX_REQUESTS else None

    @contextmanager
    def _used(self, names: list[bytes]) -> Generator[None]:
        """Count a request as one of the session that it names, if that is known."""
        known = [name for name in names if name in self._sessions]
        for name in known:
            self._sessions[name] = self._sessions.pop(name) + 1
        try:
            yield
        finally:
            for name in known:
                if name in self._sessions:
                    self._sessions[name] = self._sessions.pop(name) - 1

    def _noting(self, send: Send) -> Send:
        """Remember the session that an answer names."""

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                for name in _values(message, _SESSION):
                    self._sessions.setdefault(name, 0)
            await send(message)

        return note

    async def _end_idle_sessions(self, scope: Message) -> None:
        """End those that were idle longest, as their clients could have, and not the one that was used last."""
        idle = [name for name in list(self._sessions)[:-1] if not self._sessions[name]]
        for name in idle[: max(len(self._sessions) - MAX_SESSIONS, 0)]:
            del self._sessions[name]
            headers = [(key, value) for key, value in scope["headers"] if key in (b"host", b"authorization")]
            headers += [(_SESSION, name), (b"accept", b"application/json, text/event-stream")]
            await self._app({**scope, "method": "DELETE", "headers": headers}, _nothing, _ignored)


def _values(message: Message, name: bytes) -> list[bytes]:
    return [value for key, value in message.get("headers", ()) if key.lower() == name]


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignored(message: Message) -> None:
    pass


async def _answer(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0"), (b"connection", b"close")]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
