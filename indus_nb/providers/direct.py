"""One request to a server that no proxy stands before: HTTP/1.1 as ``h11`` knows it, on streams of asyncio.

The HTTP library takes longer to import than most answers take to begin, and what it knows beyond this (proxies, pools,
redirects, cookies, odd URLs) a plain request does not need. Where it does, ``suits`` is false and the library is asked.
Failures are those of the library, with its words, so that nobody else need know which way a request took.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

    import h11

_PLAIN_URL = re.compile(
    r"https?://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?(/[!$&-;=@-Z_a-z~%]*)?(\?[!$&-;=?@-Z_a-z~%]*)?"
)
_MAX_HEAD_BYTES = 100 * 1024
_PIECE_BYTES = 64 * 1024
_HAPPY_EYEBALLS_SECONDS = 0.25


def suits(url: str) -> bool:
    """Whether a request can be made here: no proxy is named, and the URL is one that needs no care."""
    # Elsewhere the system's settings may name a proxy, too.
    proxied = sys.platform != "linux" or any(
        value and name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name, value in os.environ.items()
    )
    plain = _PLAIN_URL.fullmatch(url)
    return not proxied and plain is not None and "/." not in (plain[1] or "") and not re.search("%(?![0-9A-F]{2})", url)


class Answer:
    """An answer that has begun.

    Attributes:
        status_code: Its status.
        reason_phrase: The name of the status, by the server.
        headers: Its headers, by their names in lower case.
    """

    def __init__(self, connection: _Connection, head: Any) -> None:
        self.status_code: int = head.status_code
        self.reason_phrase: str = head.reason.decode("ascii", errors="ignore")
        self.headers: Mapping[str, str] = _headers(head.headers)
        self._connection = connection

    async def aiter_raw(self) -> AsyncGenerator[bytes]:
        """Yield the body as it is sent."""
        import h11

        while isinstance(event := await self._connection.event(), h11.Data):
            yield bytes(event.data)

    async def aclose(self) -> None:
        """End the connection, whatever of the answer has arrived."""
        self._connection.close()


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("ascii")
        try:
            said = value.decode()
        except UnicodeDecodeError:
            said = value.decode("latin-1")
        headers[key] = f"{headers[key]}, {said}" if key in headers else said
    return headers


@asynccontextmanager
async def posted(
    url: str, content: bytes, headers: Mapping[str, str], *, tls: ssl.SSLContext | None, seconds: tuple[float, float]
) -> AsyncGenerator[Answer]:
    """Send a request and wait for the head of its answer; the connection is closed with the context.

    Args:
        url: Where to send it; ``suits`` is true for it.
        content: The body.
        headers: The headers of the request, but for those that every request has.
        tls: What an ``https`` server is trusted by.
        seconds: How long connecting may take, and how long the server may be silent.

    Yields:
        The answer.

    Raises:
        httpx2.TransportError: The server could not be reached, or the connection broke.
    """
    import h11

    parts = urlsplit(url)
    state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    streams = await _connected(parts.hostname or "", parts.port, tls if parts.scheme == "https" else None, seconds[0])
    connection = _Connection(state, *streams, seconds[1])
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        usual = {"host": parts.netloc, "connection": "keep-alive", "content-length": str(len(content))}
        await connection.send(target, {**usual, **headers}, content)
        yield Answer(connection, await connection.head())
    finally:
        connection.close()


async def _connected(
    host: str, port: int | None, tls: ssl.SSLContext | None, seconds: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if tls is not None:
        tls.set_alpn_protocols(["http/1.1"])
    # Other event loops, such as uvloop's, do not know this option.
    is_usual = type(asyncio.get_running_loop()).create_connection is asyncio.BaseEventLoop.create_connection
    options: dict[str, Any] = {"happy_eyeballs_delay": _HAPPY_EYEBALLS_SECONDS} if is_usual else {}
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await asyncio.open_connection(host, port or (443 if tls else 80), ssl=tls, **options)
    except (OSError, UnicodeError) as error:  # the latter for a name with an empty part or a very long one
        raise _failure("ConnectTimeout" if deadline.expired() else "ConnectError", error) from error


class _Connection:
    """A connection that one request is made over."""

    def __init__(
        self,
        state: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        idle_timeout: float,
    ) -> None:
        self._state = state
        self._reader = reader
        self._writer = writer
        self._idle_timeout = idle_timeout
        self._has_begun = False

    async def send(self, target: str, headers: Mapping[str, str], content: bytes) -> None:
        import h11

        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        try:
            head = self._state.send(h11.Request(method="POST", target=target.encode(), headers=raw))
            body = self._state.send(h11.Data(data=content))
            self._state.send(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            raise _failure("LocalProtocolError", error) from error
        deadline = asyncio.timeout(self._idle_timeout)
        try:
            async with deadline:
                self._writer.write((head or b"") + (body or b""))
                await self._writer.drain()
        except OSError as error:
            if deadline.expired():
                raise _failure("WriteTimeout", error) from error
            # It may have said why it hung up.

    async def head(self) -> Any:
        import h11

        while not isinstance(event := await self.event(), h11.Response):
            pass
        self._has_begun = True
        return event

    async def event(self) -> Any:
        import h11

        try:
            while (event := self._state.next_event()) is h11.NEED_DATA:
                self._state.receive_data(await self._read())
        except h11.RemoteProtocolError as error:
            raise _failure("RemoteProtocolError", error) from error
        return event

    async def _read(self) -> bytes:
        deadline = asyncio.timeout(self._idle_timeout)
        try:
            async with deadline:
                piece = await self._reader.read(_PIECE_BYTES)
        except OSError as error:
            raise _failure("ReadTimeout" if deadline.expired() else "ReadError", error) from error
        if not piece and not self._has_begun:
            raise _failure("RemoteProtocolError", EOFError("Server disconnected without sending a response."))
        return piece

    def close(self) -> None:
        # At once: the farewells of TLS are waited for by nobody.
        self._writer.transport.abort()


def _failure(kind: str, error: Exception) -> Exception:
    """The library's exception of that name."""
    import httpx2

    return getattr(httpx2, kind)("" if isinstance(error, TimeoutError) else str(error))
