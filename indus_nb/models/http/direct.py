"""One request to a server without a proxy: HTTP/1.1 by ``h11``, on asyncio streams.

The HTTP library takes longer to import than most answers take to begin, and what it knows beyond this (proxies,
redirects, cookies, odd URLs) a plain request does not need. Where it does, ``suits`` is false and the library is asked.
Failures are those of the library, with its words, so that callers need not know which way a request took.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from indus_nb.models.http.connections import Kept, KeptByLoop, Link, opened

if TYPE_CHECKING:
    import ssl

    import h11

_PLAIN_URL = re.compile(
    r"https?://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?(/[!$&-;=@-Z_a-z~%]*)?(\?[!$&-;=?@-Z_a-z~%]*)?"
)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_MAX_HEAD_BYTES = 100 * 1024
_MAX_ENDING_SECONDS = 1.0
_MAX_ENDING_BYTES = 64 * 1024
_MAX_STALE_SECONDS = 2.0


def suits(url: str) -> bool:
    """Return whether a request can be made here: there is no proxy, and the URL needs no special handling."""
    # Elsewhere the system's settings may name a proxy, too.
    proxied = sys.platform != "linux" or any(name.lower() in _PROXIES and os.environ[name] for name in os.environ)
    plain = _PLAIN_URL.fullmatch(url)
    proxied = proxied and not is_on_this_machine(url)
    return not proxied and plain is not None and "/." not in (plain[1] or "") and not re.search("%(?![0-9A-F]{2})", url)


def is_on_this_machine(url: str) -> bool:
    """Return whether a server listens on this machine alone, where no proxy reaches it."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host == "::1" or re.fullmatch(r"(.+\.)?localhost|127(\.[0-9]{1,3}){3}", host) is not None


class DirectResponse:
    """An answer that has begun.

    Attributes:
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

    async def aclose(self, *, ended: bool = False) -> None:
        """Release the connection, which is closed if the answer has not ended.

        Args:
            ended: Whether nothing is wanted of what is still to come, for it should be the end: then the connection has
                a moment for it.
        """
        self._connection.release(ended=ended)


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("ascii")
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


@asynccontextmanager
async def posted(
    url: str, content: bytes, headers: Mapping[str, str], *, tls: ssl.SSLContext | None, seconds: tuple[float, float]
) -> AsyncGenerator[DirectResponse]:
    """Send a request and wait for the head of its answer, which is closed with the context.

    A kept connection that the server has closed meanwhile is replaced by a new one, once.

    Args:
        url: Where to send it; ``suits`` is true for it.
        headers: The headers of the request, but for those that every request has.
        tls: What an ``https`` server is trusted by.
        seconds: How long connecting may take, and how long the server may be silent.

    Raises:
        httpx2.TransportError: The server could not be reached, or the connection broke.
    """
    parts = urlsplit(url)
    tls = tls if parts.scheme == "https" else None
    host, port = parts.hostname or "", parts.port or (443 if tls else 80)
    server = (host, port, tls)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    usual = {"host": parts.netloc, "connection": "keep-alive", "content-length": str(len(content))}
    kept = await _kept.here()

    async def begun(connection: _Connection) -> DirectResponse:
        connection.use(seconds[1])
        try:
            await connection.send(target, {**usual, **headers}, content)
            return DirectResponse(connection, await connection.head())
        except BaseException:
            connection.close()
            raise

    answer = None
    if (connection := kept.take(server)) is not None:
        began = monotonic()
        try:
            answer = await begun(connection)
        except Exception:
            # A server that closed a kept connection says so at once; one that hangs up later may have begun to work.
            if not connection.is_stale or monotonic() - began > _MAX_STALE_SECONDS:
                raise
    if answer is None:
        state = _new_state()  # first, for without it no connection could be used
        connection = _Connection(state, await _connected(host, port, tls, seconds[0]), server, kept)
        answer = await begun(connection)
    try:
        yield answer
    finally:
        await answer.aclose()


async def _connected(host: str, port: int, tls: ssl.SSLContext | None, seconds: float) -> Link:
    if tls is not None:
        tls.set_alpn_protocols(["http/1.1"])
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await opened(host, port, tls)
    except (OSError, UnicodeError) as error:  # the latter for a name with an empty part or a very long one
        if deadline.expired():
            wanted = "connection" if tls is None else "connection with TLS"
            raise _failure("ConnectTimeout", OSError(f"no {wanted} within {seconds:g} s")) from None
        raise _failure("ConnectError", error) from error


def _new_state() -> h11.Connection:
    import h11

    return h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)


class _Connection:
    """A connection to a server, for one request after another."""

    def __init__(self, state: h11.Connection, link: Link, server: Hashable, kept: Kept[_Connection]) -> None:
        self._state = state
        self._link = link
        self._server = server
        self._kept = kept
        self._idle_timeout = 0.0
        self._has_begun = self._has_received = self._is_released = self._is_broken = False
        self.is_stale: bool = False
        """Whether the server has closed the connection before it said anything to this request."""

    def use(self, idle_timeout: float) -> None:
        """Begin a request: what comes now is read."""
        self._link.on_idle = None
        self._idle_timeout = idle_timeout
        self._has_begun = self._has_received = self._is_released = self.is_stale = False

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
                await self._link.write((head or b"") + (body or b""))
        except OSError as error:
            self._is_broken = True
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
                piece = await self._link.read()
        except OSError as error:
            self.is_stale = not self._has_received and not deadline.expired()
            raise _failure("ReadTimeout" if deadline.expired() else "ReadError", error) from error
        if not piece and not self._has_begun:
            self.is_stale = not self._has_received
            raise _failure("RemoteProtocolError", EOFError("Server disconnected without sending a response."))
        self._has_received = True
        return piece

    def release(self, *, ended: bool = False) -> None:
        """End the request; the connection is kept if its answer has ended, see ``DirectResponse.aclose``."""
        if self._is_released:
            return
        self._is_released = True
        if ended and not self._has_ended:
            self._end()
        else:
            self._keep_or_close()

    def _end(self) -> None:
        """Read the rest of the answer as it comes, for a moment, after its reader has left."""
        left = _MAX_ENDING_BYTES

        def read() -> None:
            nonlocal left
            import h11

            try:
                piece = self._link.received()
                left -= len(piece)
                if piece:
                    self._state.receive_data(piece)
                while isinstance(self._state.next_event(), h11.Data):
                    pass
            except h11.RemoteProtocolError:
                left = 0
            if self._has_ended or left <= 0 or self._link.has_ended:
                self._kept.forget(self)
                self._keep_or_close()

        self._kept.keep(None, self, seconds=_MAX_ENDING_SECONDS)
        self._link.on_idle = read
        read()

    @property
    def _has_ended(self) -> bool:
        import h11

        return self._state.our_state is h11.DONE and self._state.their_state is h11.DONE

    def _keep_or_close(self) -> None:
        if self._is_broken or not self._has_ended or self._state.trailing_data[0] or not self._link.is_quiet:
            self.close()
            return
        self._state.start_next_cycle()
        self._link.on_idle = lambda: self._kept.drop(self)
        self._kept.keep(self._server, self)

    def close(self) -> None:
        """Close the connection, whatever of the answer has arrived."""
        self._is_released = True
        self._link.close()


_kept = KeptByLoop(_Connection.close)


def _failure(kind: str, error: Exception) -> Exception:
    """Return the library's exception of that name."""
    import httpx2

    return getattr(httpx2, kind)("" if isinstance(error, TimeoutError) else str(error))
