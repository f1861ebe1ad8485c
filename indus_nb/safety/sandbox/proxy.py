"""An HTTP proxy that lets confined programs reach the listed domains, and nothing else.

What this module promises: a name is looked up here, once, and the connection goes to an address that was looked at; an
address that is not public is reached only if it is listed itself; ports other than 80 and 443 only if listed. A plain
request is passed on as one request to the host that was checked. What goes through a tunnel is not looked into.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from urllib.parse import urlsplit

_MAX_HEAD_BYTES = 32 << 10
_HEAD_SECONDS = 30
_CONNECT_SECONDS = 20
_CLOSE_SECONDS = 2
_MAX_CONNECTIONS = 200
_CHUNK = 1 << 16
_USUAL_PORTS = (80, 443)
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?\Z")
_LOCAL_NAME = "localhost"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class _RefusedError(Exception):
    """A request that is not passed on; the text says why."""


@dataclass(frozen=True, slots=True)
class Destination:
    """One entry of the list: a name, ``*.`` and a name, ``*``, an address or a network; and a port if it has one."""

    name: str
    port: int | None = None

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
        """Return the addresses of an entry that is no name."""
        try:
            return ipaddress.ip_network(self.name, strict=False)
        except ValueError:
            return None

    def fits(self, host: str, port: int) -> bool:
        """Return whether a place matches this entry.

        Returns:
            Whether it may be reached by this entry.
        """
        if port != self.port if self.port is not None else port not in _USUAL_PORTS:
            return False
        if (network := self.network) is not None:
            address = _literal(host)
            return address is not None and address.version == network.version and address in network
        if _literal(host) is not None:
            return False
        if self.name.startswith("*."):
            return host.endswith(self.name[1:])
        return self.name in ("*", host)


def is_of_this_machine(entry: str) -> bool:
    """Return whether an entry is this machine itself, which a sandbox reaches by the proxy only."""
    found = destination(entry)
    return found.name == _LOCAL_NAME or (found.network is not None and found.network.is_loopback)


def destination(entry: str) -> Destination:
    """Read an entry of the list.

    Raises:
        ValueError: It makes no sense.
    """
    name, port = entry.strip().lower().rstrip("."), None
    bracketed = re.fullmatch(r"\[([0-9a-f:.]+)\](?::(\d+))?", name)
    if bracketed:
        name, port = bracketed[1], bracketed[2]
    elif name.count(":") == 1:
        name, port = name.split(":")
    number = int(port) if port is not None and re.fullmatch(r"[0-9]{1,5}", port) else None
    found = Destination(name.rstrip("."), number)
    plain = name.removeprefix("*.") if name != "*" else "x"
    is_name = found.network is not None or _NAME.match(plain)
    if not is_name or (port is not None and not 0 < (number or 0) < 65536):
        raise ValueError(
            f"{entry!r} is neither a domain (`pypi.org`, `*.example.org`, `example.org:8443`) nor an address"
        )
    return found


class Proxy:
    """A proxy for the sockets of confined programs, in a thread of its own.

    Args:
        entries: Whom they may reach.

    Raises:
        ValueError: An entry makes no sense.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._allowed = tuple(map(destination, entries))
        self._loop = asyncio.new_event_loop()
        self._open = 0
        self._thread = threading.Thread(target=self._run, name="sandbox proxy", daemon=True)
        self._thread.start()

    def serve(self, control: socket.socket) -> Future[None]:
        """Serve the listening socket that a confined program is going to send, until that is cancelled.

        Args:
            control: Where it comes from.
        """
        control.setblocking(False)  # noqa: FBT003 - it accepts no keyword
        return asyncio.run_coroutine_threadsafe(self._serve(control), self._loop)

    def close(self) -> None:
        """End the thread, and with it all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        loop = self._loop
        loop.run_forever()
        loop.run_until_complete(_end_tasks())
        loop.close()

    async def _serve(self, control: socket.socket) -> None:
        with control:
            ready = self._loop.create_future()
            self._loop.add_reader(control, lambda: ready.done() or ready.set_result(None))
            try:
                await ready
            finally:
                self._loop.remove_reader(control)
            try:
                _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            except OSError:
                return
        if not descriptors:
            return
        handling: set[asyncio.Task[None]] = set()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is not None:
                handling.add(task)
                task.add_done_callback(handling.discard)
            await self._handle(reader, writer)

        server = await asyncio.start_server(handle, sock=socket.socket(fileno=descriptors[0]), limit=_MAX_HEAD_BYTES)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            for task in tuple(handling):
                task.cancel()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._pass_on(head, reader, writer)
        except _RefusedError as refused:
            text = f"The sandbox refused this: {refused}.\n"
            head = f"HTTP/1.1 403 Refused by the sandbox\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}"
            writer.write(f"{head}\r\nConnection: close\r\n\r\n{text}".encode(errors="replace"))
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            self._open -= 1
            writer.close()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = head[:-4].decode("latin-1").split("\r\n")
        if self._open > _MAX_CONNECTIONS:
            raise _RefusedError("there are too many connections at a time")
        method, _, rest = lines[0].partition(" ")
        target, _, version = rest.rpartition(" ")
        if not re.fullmatch(r"[A-Z]{1,20}", method) or version not in ("HTTP/1.0", "HTTP/1.1"):
            raise _RefusedError("it is no request for a proxy")
        if method == "CONNECT":
            parts = urlsplit(f"//{target}")
            there, back = await self._connect(parts.hostname, parts.port or 443)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _join((reader, writer), (there, back))
            return
        parts = urlsplit(target)
        if parts.scheme != "http":
            raise _RefusedError(f"{target[:200]!r} is no address of a proxy's request")
        request, length = _request(method, target, lines[1:])
        there, back = await self._connect(parts.hostname, parts.port or 80)
        back.write(request)
        await _join((reader, writer), (there, back), length)

    async def _connect(self, host: str | None, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = (host or "").lower().rstrip(".")
        entries = [entry for entry in self._allowed if entry.fits(name, port)]
        literal = _literal(name)
        if not entries or (literal is None and not _NAME.match(name)):
            raise _RefusedError(f"{name[:253] or 'nothing'}, port {port}, is not in `sandbox.network` of the settings")
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                found = await self._loop.getaddrinfo(str(literal or name), port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise _RefusedError(f"{name} was not found") from error
        reasons: list[str] = []
        for family, kind, protocol, _, place in found:
            address = ipaddress.ip_address(str(place[0]).partition("%")[0])
            if not self._may_reach(name, address, port):
                reasons.append(f"{name} is at {address}, which is not public; list the address itself to allow it")
                continue
            connection = socket.socket(family, kind, protocol)
            try:
                connection.setblocking(False)  # noqa: FBT003 - it accepts no keyword
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await self._loop.sock_connect(connection, place)
                return await asyncio.open_connection(sock=connection, limit=_MAX_HEAD_BYTES)
            except OSError as error:
                connection.close()
                reasons.append(f"{name} did not accept the connection ({error})")
            except BaseException:
                connection.close()
                raise
        raise _RefusedError(reasons[0] if reasons else f"{name} was not found")

    def _may_reach(self, name: str, address: Address, port: int) -> bool:
        if all(each.is_global and not each.is_multicast and not each.is_reserved for each in _meanings(address)):
            return True
        if address.is_loopback and any(entry.name == _LOCAL_NAME == name for entry in self._allowed):
            return True  # nothing else is called so
        return any(entry.network is not None and entry.fits(str(address), port) for entry in self._allowed)


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _meanings(address: Address) -> list[Address]:
    """Return the address, and those that are embedded in it."""
    found: list[Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        found += [each for each in inner if each is not None]
    return found


def _request(method: str, target: str, headers: Sequence[str]) -> tuple[bytes, int]:
    """Rewrite a request for its server, for the host of its address only; return it and its body's length."""
    parts = urlsplit(target)
    length = 0
    kept: list[str] = []
    for header in headers:
        name, colon, value = header.partition(":")
        key = name.lower()
        if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9a-z-]+", key):
            raise _RefusedError("a header makes no sense")
        if key == "transfer-encoding":
            raise _RefusedError("a body without a length is not passed on")
        if key == "content-length":
            if length or not value.strip().isascii() or not value.strip().isdecimal():
                raise _RefusedError("the length of the body makes no sense")
            length = int(value)
        if key not in ("host", "connection", "keep-alive", "upgrade", "te", "trailer") and not key.startswith("proxy-"):
            kept.append(header)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.rpartition("@")[2]
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *kept]
    if re.search(r"[\x00-\x1f\x7f]", "".join(lines).replace("\t", "")):
        raise _RefusedError("it holds control characters")
    return "\r\n".join([*lines, "", ""]).encode("latin-1"), length


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _join(one: _Stream, other: _Stream, limit: int | None = None) -> None:
    """Copy both ways until both have ended; of the first at most ``limit`` bytes, then stop reading it."""
    try:
        async with asyncio.TaskGroup() as copying:
            copying.create_task(_copy(one[0], other[1], limit))
            copying.create_task(_copy(other[0], one[1], None))
    except* OSError:
        pass
    finally:
        other[1].close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, limit: int | None) -> None:
    left = limit
    while left is None or left > 0:
        data = await source.read(_CHUNK if left is None else min(_CHUNK, left))
        if not data:
            break
        sink.write(data)
        await sink.drain()
        left = None if left is None else left - len(data)
    if limit is None and sink.can_write_eof():
        sink.write_eof()
