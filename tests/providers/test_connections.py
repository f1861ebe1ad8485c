"""Connections are used again where HTTP allows it, and nowhere else: real sockets, and a server that obeys a script."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import httpx2
import pytest

from indus_nb.models.http.connections import Kept
from indus_nb.models.http.http import HttpStatusError, stream

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\n\r\n"
COUNTED = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes"
CLOSING = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nyes"
OLD = b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nyes"
UNTIL_END = b"HTTP/1.1 200 OK\r\n\r\nyes"
REFUSED = b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}"


@dataclass
class Connection:
    """What became of one connection."""

    requests: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    """The client has closed it."""


@dataclass
class Scripted:
    """A server; each request takes the next answer, and what comes behind an answer is done then."""

    answers: list[tuple[bytes, Callable[[socket.socket], object]]]
    connections: list[Connection] = field(default_factory=list[Connection])

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        known = Connection()
        self.connections.append(known)
        with connection, suppress(OSError):
            received = b""
            while True:
                if not (piece := connection.recv(65536)):
                    break
                received += piece
                if not received.endswith(b"{}"):
                    continue
                received, known.requests = b"", known.requests + 1
                said, then = self.answers.pop(0)
                connection.sendall(said)
                then(connection)
        known.ended.set()

    @property
    def requests(self) -> list[int]:
        """How many came over each connection."""
        return [connection.requests for connection in self.connections]


def nothing(_: socket.socket) -> None:
    """Wait for the next request."""


def say(more: bytes, *, after: Callable[[float], object] = lambda _: None) -> Callable[[socket.socket], object]:
    """Say more after what is waited for."""

    def then(connection: socket.socket) -> None:
        after(10)
        connection.sendall(more)

    return then


def hang_up(connection: socket.socket) -> None:
    """Close the connection."""
    connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def served() -> Iterator[Callable[..., Scripted]]:
    """Start servers, which end with the test."""
    servers: list[Scripted] = []

    def serve(*answers: bytes | tuple[bytes, Callable[[socket.socket], object]]) -> Scripted:
        pairs = [answer if isinstance(answer, tuple) else (answer, nothing) for answer in answers]
        servers.append(Scripted(pairs))
        return servers[-1]

    yield serve
    for server in servers:
        server.listener.close()


async def ask(url: str, idle_timeout: float = 30) -> bytes:
    async with stream(url, {}, headers={}, idle_timeout=idle_timeout) as answer:
        return b"".join([piece async for piece in answer.content()])


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something is so."""
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)


Serve = Callable[..., Scripted]


@pytest.mark.parametrize("said", [CHUNKED, COUNTED], ids=["chunked", "counted"])
async def test_requests_one_after_another_share_a_connection(served: Serve, said: bytes) -> None:
    server = served(said, said, said)
    assert [await ask(server.url) for _ in range(3)] == [b"yes"] * 3
    assert server.requests == [3]


async def test_requests_at_the_same_time_have_a_connection_each_and_use_them_again(served: Serve) -> None:
    together = threading.Barrier(4)
    slow = (b"", say(COUNTED, after=together.wait))
    server = served(*[slow] * 8)
    for _ in range(2):
        assert await asyncio.gather(*(ask(server.url) for _ in range(4))) == [b"yes"] * 4
    assert server.requests == [2, 2, 2, 2]


@pytest.mark.parametrize("said", [CLOSING, OLD, (UNTIL_END, hang_up)], ids=["close", "old", "until the end"])
async def test_a_connection_that_the_server_will_close_is_not_used_again(served: Serve, said: bytes) -> None:
    server = served(said, CHUNKED)
    assert [await ask(server.url) for _ in range(2)] == [b"yes"] * 2
    assert server.requests == [1, 1]


async def test_a_refusal_that_was_read_leaves_the_connection_open(served: Serve) -> None:
    server = served(REFUSED, CHUNKED)
    with pytest.raises(HttpStatusError):
        await ask(server.url)
    assert await ask(server.url) == b"yes"
    assert server.requests == [2]


async def test_a_redirect_whose_body_is_left_unread_closes_its_connection(served: Serve) -> None:
    moved = b"HTTP/1.1 307 Moved\r\nlocation: /there\r\ncontent-length: 100000\r\n\r\nsome of it"
    server = served(moved, CHUNKED)
    assert await ask(server.url) == b"yes"
    assert server.requests == [1, 1]
    assert server.connections[0].ended.wait()


async def test_an_answer_that_is_cut_off_closes_its_connection_at_once(served: Serve) -> None:
    server = served(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nyes\r\n", CHUNKED)
    asking = asyncio.create_task(ask(server.url))
    await until(lambda: server.requests == [1])
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(server.connections[0].ended.wait, 10)
    assert await ask(server.url) == b"yes"
    assert server.requests == [1, 1]


async def test_the_end_of_a_body_that_comes_after_its_last_event_is_waited_for_by_nobody(served: Serve) -> None:
    event = b'data: {"last": true}\n\ndata: [DONE]\n\n'
    begun = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(event), event)
    go_on = threading.Event()
    server = served((begun, say(b"0\r\n\r\n", after=go_on.wait)), CHUNKED)
    async with stream(server.url, {}, headers={}, idle_timeout=30) as answer:
        assert [events async for events in answer.events()] == [[{"last": True}]]
    go_on.set()
    await asyncio.sleep(0.2)  # within the second for which it is listened to
    assert await ask(server.url) == b"yes"
    assert server.requests == [2]


async def test_a_body_that_goes_on_after_its_last_event_is_not_read_for_long(served: Serve) -> None:
    begun = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n"

    def go_on(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")

    server = served((begun, go_on))
    async with stream(server.url, {}, headers={}, idle_timeout=30) as answer:
        assert [events async for events in answer.events()] == []
    assert await asyncio.to_thread(server.connections[0].ended.wait, 10)


@pytest.mark.parametrize(
    "more", [COUNTED, b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"], ids=["an answer", "a farewell"]
)
async def test_what_a_server_says_unasked_is_no_answer_to_the_next_request(served: Serve, more: bytes) -> None:
    server = served((CHUNKED, say(more)), CHUNKED)
    assert await ask(server.url) == b"yes"
    assert await asyncio.to_thread(server.connections[0].ended.wait, 10)
    assert await ask(server.url) == b"yes"
    assert server.requests == [1, 1]


async def test_what_comes_in_one_piece_with_an_answer_and_behind_it_closes_the_connection(served: Serve) -> None:
    server = served(COUNTED + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno", CHUNKED)
    assert [await ask(server.url) for _ in range(2)] == [b"yes"] * 2
    assert server.requests == [1, 1]


async def test_a_connection_that_the_server_has_closed_between_requests_is_replaced(served: Serve) -> None:
    server = served((CHUNKED, hang_up), CHUNKED)
    assert await ask(server.url) == b"yes"
    assert await asyncio.to_thread(server.connections[0].ended.wait, 10)
    assert await ask(server.url) == b"yes"
    assert server.requests == [1, 1]


async def test_a_request_that_a_kept_connection_loses_before_any_answer_is_made_again(served: Serve) -> None:
    server = served(CHUNKED, (b"", hang_up), CHUNKED)
    assert [await ask(server.url) for _ in range(2)] == [b"yes"] * 2
    assert server.requests == [2, 1]


async def test_a_request_is_made_again_once_and_no_more(served: Serve) -> None:
    server = served(CHUNKED, (b"", hang_up), (b"", hang_up), CHUNKED)
    assert await ask(server.url) == b"yes"
    with pytest.raises(httpx2.RemoteProtocolError, match="without sending a response"):
        await ask(server.url)
    assert server.requests == [2, 1]


@pytest.mark.parametrize("said", [b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome"])
async def test_a_request_that_was_answered_in_part_is_not_made_again(served: Serve, said: bytes) -> None:
    server = served(CHUNKED, (said, hang_up), CHUNKED)
    assert await ask(server.url) == b"yes"
    with pytest.raises(httpx2.RemoteProtocolError):
        await ask(server.url)
    assert server.requests == [2]


async def test_a_server_that_is_silent_over_a_kept_connection_is_not_asked_again(served: Serve) -> None:
    server = served(CHUNKED, b"", CHUNKED)
    assert await ask(server.url) == b"yes"
    with pytest.raises(httpx2.ReadTimeout):
        await ask(server.url, idle_timeout=0.1)
    assert server.requests == [2]


def test_every_event_loop_has_its_own_connections_and_closes_them_at_its_end(served: Serve) -> None:
    server = served(CHUNKED, CHUNKED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(2):
            assert asyncio.run(ask(server.url)) == b"yes"
            assert server.connections[number].ended.wait()
        gc.collect()
    assert server.requests == [1, 1]


def test_a_loop_that_was_closed_without_a_word_disturbs_no_other(served: Serve) -> None:
    server = served(CHUNKED, CHUNKED)
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(ask(server.url)) == b"yes"
    loop.close()
    assert asyncio.run(ask(server.url)) == b"yes"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del loop
        gc.collect()
    assert server.connections[0].ended.wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
async def test_a_forked_process_leaves_the_connections_of_the_first_one_alone() -> None:
    closed: list[str] = []
    kept = Kept(closed.append)
    kept.keep("server", "connection")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child has not
        child = os.fork()
    if child == 0:
        os._exit(0 if kept.take("server") is None and not closed else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert kept.take("server") == "connection"


async def test_kept_connections_are_bounded(served: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indus_nb.models.http.connections.MAX_KEPT", 2)
    servers = [served(CHUNKED, CHUNKED) for _ in range(3)]
    for server in servers:
        assert await ask(server.url) == b"yes"
    assert await asyncio.to_thread(servers[0].connections[0].ended.wait, 10)
    for server in reversed(servers):
        assert await ask(server.url) == b"yes"
    assert [server.requests for server in servers] == [[1, 1], [2], [2]]
