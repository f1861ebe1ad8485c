"""Connections to servers, on transports of asyncio: opened, kept when an answer has ended, and used again.

What this module promises:

- A connection is kept only after an answer that has ended as HTTP says, over which nothing else has come since, and
  that neither side wants to close. Every other one is closed at once, without a closing handshake.
- A kept connection belongs to its event loop and its server, with the TLS context that trusted it. It is closed when
  the server closes it or says anything, after ``KEPT_SECONDS``, when others are kept in its place, and with its loop.
- At most ``MAX_KEPT`` are kept for a loop.

A kept connection may be closed by the server in the moment in which it is used again: its user sees to that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Hashable
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import ssl

_T = TypeVar("_T")
KEPT_SECONDS = 30.0
"""Seconds that an idle connection is kept: servers and their proxies close it after a minute or more, as a rule."""
MAX_KEPT = 128
_MAX_WAITING_BYTES = 256 * 1024
_HAPPY_EYEBALLS_SECONDS = 0.25
_NUMBERS = frozenset("0123456789.")


class Link(asyncio.Protocol):
    """A connection's bytes. Reading ends with ``b""``, or with the error that broke the connection."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._has_ended = False
        self._is_paused = False
        self._error: Exception | None = None
        self._changed: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self.on_idle: Callable[[], None] | None = None
        """Called, once there is no reader any more, when something has come or the connection has ended."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport; called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Buffer what has come until it is read; called by asyncio."""
        self._received += data
        if len(self._received) > _MAX_WAITING_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._tell()

    def eof_received(self) -> bool:
        """Note the end of the server's data; called by asyncio."""
        self._has_ended = True
        self._tell()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note how the connection has ended; called by asyncio."""
        self._has_ended, self._error = True, exc
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._tell()

    def pause_writing(self) -> None:
        """Make ``write`` wait (backpressure); called by asyncio."""
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let ``write`` continue; called by asyncio."""
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def _tell(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        if self.on_idle is not None:
            self.on_idle()

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait until the system has taken most of them.

        Raises:
            OSError: The connection is closed.
        """
        self._transport.write(data)
        if self._writable is not None:
            await asyncio.shield(self._writable)
        if self._error is not None:
            raise self._error
        if self._transport.is_closing():
            raise ConnectionResetError("Connection lost")

    async def read(self) -> bytes:
        """Wait for bytes, and return all that there are.

        Raises:
            OSError: The connection broke.
        """
        while not self._received:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return b""
            self._changed = asyncio.get_running_loop().create_future()
            try:
                await self._changed
            finally:
                self._changed = None
        return self.received()

    def received(self) -> bytes:
        """Return the unread bytes, without waiting."""
        piece = bytes(self._received)
        self._received.clear()
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    @property
    def has_ended(self) -> bool:
        """Return whether nothing more will come."""
        return self._has_ended

    @property
    def is_quiet(self) -> bool:
        """Return whether the connection is open, and nothing waits in either direction."""
        return not (
            self._received or self._has_ended or self._transport.is_closing() or self._transport.get_write_buffer_size()
        )

    def close(self) -> None:
        """Close the connection at once, without waiting for TLS's close handshake."""
        self.on_idle = None
        self._transport.abort()


async def opened(host: str, port: int, tls: ssl.SSLContext | None) -> Link:
    """Connect to a server.

    Args:
        tls: What it is trusted by; ``None`` for a connection without TLS.

    Raises:
        OSError: It cannot be reached, or is not trusted.
        UnicodeError: No host can have this name.
    """
    loop = asyncio.get_running_loop()
    # Other event loops, such as uvloop's, do not know this option. An address in numbers is the only one of its host,
    # and a race that is cancelled when it is won leaves its socket open.
    races = type(loop).create_connection is asyncio.BaseEventLoop.create_connection and not _NUMBERS.issuperset(host)
    options: dict[str, Any] = {"happy_eyeballs_delay": _HAPPY_EYEBALLS_SECONDS} if races else {}
    _, link = await loop.create_connection(Link, host, port, ssl=tls, **options)
    return link


class Kept(Generic[_T]):
    """Idle connections of one event loop, each in an object of its user."""

    def __init__(self, close: Callable[[_T], None]) -> None:
        self._close = close
        self._process = os.getpid()
        self._idle: dict[_T, tuple[Hashable, asyncio.TimerHandle]] = {}  # in the order in which they were kept
        self._until_loop_ends = self._closed_with_loop()

    async def begin(self) -> None:
        """Register with the loop, which closes what is kept when it ends its generators."""
        await anext(self._until_loop_ends)

    async def _closed_with_loop(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            for kept in tuple(self._idle):
                self.drop(kept)

    def take(self, server: Hashable) -> _T | None:
        """Remove and return the server's connection that was kept last; ``None`` if there is none."""
        if self._process != os.getpid():  # the sockets are the other process's, who goes on with them
            for _, timer in self._idle.values():
                timer.cancel()
            self._idle.clear()
            self._process = os.getpid()
        for kept, (its_server, _) in reversed(self._idle.items()):
            if its_server == server:
                self.forget(kept)
                return kept
        return None

    def keep(self, server: Hashable, kept: _T, *, seconds: float = KEPT_SECONDS) -> None:
        """Keep a connection until it is taken, forgotten or dropped.

        Args:
            server: The key by which ``take`` finds it; ``None`` for one that is never taken.
            seconds: After how long it is closed.
        """
        timer = asyncio.get_running_loop().call_later(seconds, self.drop, kept)
        self._idle[kept] = (server, timer)
        if len(self._idle) > MAX_KEPT:
            self.drop(next(iter(self._idle)))

    def forget(self, kept: _T) -> bool:
        """Remove a connection without closing it."""
        if (found := self._idle.pop(kept, None)) is None:
            return False
        found[1].cancel()
        return True

    def drop(self, kept: _T) -> None:
        """Close a connection, if it is kept."""
        if self.forget(kept):
            self._close(kept)


class KeptByLoop(Generic[_T]):
    """Idle connections of every event loop."""

    def __init__(self, close: Callable[[_T], None]) -> None:
        self._close = close
        self._lock = Lock()
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Kept[_T]] = WeakKeyDictionary()

    async def here(self) -> Kept[_T]:
        """Return the idle connections of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if (known := self._by_loop.get(loop)) is not None:
                return known
            # A loop that was closed without ending its generators is held by what is kept of it.
            for other in [each for each in self._by_loop if each.is_closed()]:
                del self._by_loop[other]
            kept = self._by_loop[loop] = Kept(self._close)
        await kept.begin()
        return kept
