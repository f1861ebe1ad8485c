"""A server that misbehaves in every way that HTTP leaves open: raw sockets, an attack for each request.

An attack is a coroutine that is given the connection once the request was read; what it writes is sent as it is, for as
long as the client takes it. ``sent`` counts the bytes, ``requests`` holds the head of each request.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import threading
import zlib
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Self

STREAM = "text/event-stream"


class Connection:
    """One connection, seen from the server."""

    def __init__(self, server: BadServer, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes, as soon as the client takes them."""
        self._writer.write(data)
        await self._writer.drain()
        self._server.sent += len(data)

    async def head(self, *headers: str, status: str = "200 OK", kind: str = STREAM) -> None:
        """Begin an answer that ends with the connection."""
        lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", "connection: close", *headers]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def for_ever(self, data: bytes) -> None:
        """Send the same for as long as the client takes it."""
        data *= max(1, 65536 // len(data))
        while True:
            await self.send(data)

    async def silence(self) -> None:
        """Send nothing more, and keep the connection."""
        self._server.silent.set()
        await asyncio.Event().wait()


Attack = Callable[[Connection], Awaitable[None]]


class BadServer:
    """The server, in a thread of its own; every request is answered by the attack."""

    def __init__(self, attack: Attack) -> None:
        self.requests: list[str] = []
        self.sent = 0
        self.silent = threading.Event()
        self._attack = attack
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(30)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._server.wait_closed()
        for _ in range(3):  # connections are closed in the turns after they were aborted
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            lengths = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
            await reader.readexactly(int(lengths[0].split(":")[1]) if lengths else 0)
            await self._attack(Connection(self, writer))
        writer.transport.abort()


# --- what a stream says, by the API ----------------------------------------------------------------------------------


def data(value: Any) -> bytes:
    """An event."""
    name = f"event: {value['type']}\n" if isinstance(value, dict) and "type" in value else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()


OPENING = {
    "anthropic-messages": data({"type": "message_start", "message": {"id": "m", "usage": {}}})
    + data({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    "openai-completions": data({"choices": [{"delta": {"role": "assistant"}}]}),
    "openai-responses": data({"type": "response.created", "response": {"id": "r"}})
    + data({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}}),
}


def text(api: str, words: str) -> bytes:
    """A piece of text in the block that ``OPENING`` opens."""
    return {
        "anthropic-messages": data(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}
        ),
        "openai-completions": data({"choices": [{"delta": {"content": words}}]}),
        "openai-responses": data({"type": "response.output_text.delta", "output_index": 0, "delta": words}),
    }[api]


def block(api: str, number: int) -> bytes:
    """A block of its own."""
    return {
        "anthropic-messages": data(
            {"type": "content_block_start", "index": number, "content_block": {"type": "tool_use", "id": f"{number}"}}
        ),
        "openai-completions": data(
            {"choices": [{"delta": {"tool_calls": [{"index": number, "id": f"{number}", "function": {"name": "ls"}}]}}]}
        ),
        "openai-responses": data(
            {
                "type": "response.output_item.added",
                "output_index": number,
                "item": {"type": "function_call", "call_id": f"{number}", "name": "ls"},
            }
        ),
    }[api]


@cache
def packed(what: bytes, megabytes: int) -> bytes:
    """So many megabytes of it, in about a thousandth of that."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    first, same = (
        packer.compress(what * (1024 * 1024 // len(what))) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    return first + same * (megabytes - 1)


def attacks(api: str) -> dict[str, Attack]:  # noqa: C901 - a table, and what it is made of
    """What a server may answer a request with that asks for a stream of that API; none of it ever ends by itself."""

    def stream(what: bytes) -> Attack:
        async def attack(connection: Connection) -> None:
            await connection.head()
            await connection.send(OPENING[api] + text(api, "Before."))
            await connection.for_ever(what)

        return attack

    def with_head(what: bytes, *headers: str, status: str = "200 OK", kind: str = STREAM) -> Attack:
        async def attack(connection: Connection) -> None:
            await connection.head(*headers, status=status, kind=kind)
            await connection.for_ever(what)

        return attack

    def raw(first: bytes, then: bytes) -> Attack:
        async def attack(connection: Connection) -> None:
            await connection.send(first)
            await connection.for_ever(then)

        return attack

    def once(what: bytes, *headers: str, status: str = "200 OK", kind: str = STREAM) -> Attack:
        async def attack(connection: Connection) -> None:
            await connection.head(*headers, status=status, kind=kind)
            await connection.send(what)
            await connection.silence()

        return attack

    async def blocks(connection: Connection) -> None:
        await connection.head()
        await connection.send(OPENING[api] + text(api, "Before."))
        number = 1
        while True:
            await connection.send(b"".join(block(api, each) for each in range(number, number + 500)))
            number += 500

    async def in_single_bytes(connection: Connection) -> None:
        await connection.head("transfer-encoding: chunked")
        await connection.for_ever(b"".join(b"1\r\n%c\r\n" % byte for byte in text(api, "x" * 50)))

    bomb = packed(b"\0", 1024)
    status = "529 Overloaded"
    gzipped = "content-encoding: gzip"
    return {
        "a gzip bomb": once(bomb, gzipped),
        "a gzip bomb of comments": once(packed(b": x\n\n", 1024), gzipped),
        "a gzip bomb in a gzip bomb": once(gzip.compress(bomb), "content-encoding: gzip, gzip"),
        "a deflate bomb": once(bomb, "content-encoding: deflate"),
        "a gzip bomb as an error": once(bomb, gzipped, status=status, kind="application/json"),
        "a gzip bomb as a web page": once(bomb, gzipped, kind="text/html"),
        "an error without an end": with_head(b"x" * 1000, status=status, kind="application/json"),
        "a web page of open tags": with_head(b"<script <" * 1000, kind="text/html"),
        "an error of deep JSON": with_head(b'{"error":' * 1000, status=status, kind="application/json"),
        "a line without an end": stream(b"x" * 1000),
        "an event without an end": stream(b"data: x\n"),
        "an event of empty lines of data": stream(b"data\n"),
        "an event of carriage returns": stream(b"data:\r"),
        "text for ever": stream(text(api, "x" * 1000)),
        "text in pieces of two characters": stream(text(api, "xy")),
        "blocks for ever": blocks,
        "text for a block that does not exist": stream(text(api, "x").replace(b": 0", b": 7")),
        "comments for ever": stream(b": keep-alive\n\n"),
        "pings for ever": stream(b"event: ping\ndata: {}\n\n"),
        "blank lines for ever": stream(b"\n"),
        "events of no known type": stream(data({"type": "weather"})),
        "events of many values": stream(b"data: [" + b"[]," * 5_000_000 + b"[]]\n\n"),
        "events of deep values": stream(b"data: " + b"[" * 1_000_000 + b"\n\n"),
        "chunks of a single byte": in_single_bytes,
        "chunks without a size": raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"0" * 1000),
        "trailers without an end": raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
        "headers without an end": raw(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
        "preliminary answers without an end": raw(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "what is no HTTP": raw(b"", b"\0" * 1000),
    }
