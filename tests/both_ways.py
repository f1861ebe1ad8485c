"""One request in two ways, by our client and by the vendor's SDK: what a server received of each, and how each ended.

``Wire`` is a server that records requests byte by byte and answers with the bytes that it is given; with ``tls`` it
speaks TLS, and it serves as a proxy too. ``received`` is what of a request must be the same; ``end_of_ours`` and
``end_of_sdk`` put an end in one word, by the words of our sentence and by the kind of the SDK's exception.
"""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, Self

from indus_nb.base.streaming import AssistantMessageEvent

OUR_OWN = re.compile(r"user-agent|x-stainless-.*|host")
"""Headers that may differ: who asks, what the SDK says of itself, and the name of the server, which is another."""


@dataclass(frozen=True)
class Seen:
    """A request as it came: ``target`` is what stands behind the method."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def __getitem__(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


def received(request: Seen) -> tuple[str, str, list[tuple[str, str]], object]:
    """What must be the same in both ways.

    Headers and the keys of the body are compared without their order; that the body is encoded alike shows in its
    length, which is a header.
    """
    headers = sorted(
        # The SDKs ask for every encoding that their library finds installed, we for none.
        (name, "identity" if name == "accept-encoding" and value.startswith("gzip, deflate") else value)
        for name, value in request.headers
        if not OUR_OWN.fullmatch(name)
    )
    return request.method, request.target, headers, json.loads(request.body or b"null")


@dataclass(frozen=True)
class Served:
    """An answer: ``pieces`` are written as they are, an event among them is waited for.

    Without ``length`` the end of the connection is the end of the body; ``chunked`` tells where it ends, unless it
    is ``cut``.
    """

    pieces: tuple[bytes | threading.Event, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    chunked: bool = True
    cut: bool = False


def served(*pieces: bytes | threading.Event, **fields: Any) -> Served:
    """An answer of these pieces."""
    return Served(pieces, **fields)


def refused(status: int, body: bytes, **headers: str) -> Served:
    """An answer with an error status, in JSON; underscores in the names of headers are hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Served((body,), status, {"content-type": "application/json", **named})


class Wire:
    """The server: each request takes one answer, or else ``default``; a ``CONNECT`` takes none and opens a tunnel."""

    def __init__(self, *answers: Served, default: Served | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.tls = tls
        self.closing = threading.Event()
        self._answers = list(answers)
        self._default = default
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"wire": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Its root, without a slash at the end."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self._server.server_address[1]}"

    def add(self, *answers: Served) -> None:
        """Append to what is answered."""
        with self._lock:
            self._answers.extend(answers)

    def take(self, request: Seen) -> Served:
        """Record a request and return its answer."""
        with self._lock:
            self.seen.append(request)
            if self._answers:
                return self._answers.pop(0)
        return self._default or refused(400, b'{"error": {"message": "no answer is scripted", "type": "test"}}')

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = False  # so that closing waits for them and no socket outlives the test
    request_queue_size = 32


class _Handler(socketserver.StreamRequestHandler):
    wire: Wire

    def setup(self) -> None:
        self.request.settimeout(20)
        if self.wire.tls is not None:
            self.request = self.wire.tls.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
        super().setup()

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            if (request := self._read()) is None:
                return
            answer = self.wire.take(request)
            if request.method == "CONNECT" and answer.status == 200:
                self._tunnel(request.target)
            else:
                self._write(answer)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        self.request.close()

    def _read(self) -> Seen | None:
        start = self.rfile.readline().decode("latin-1").split()
        if len(start) != 3:
            return None
        headers: list[tuple[str, str]] = []
        while line := self.rfile.readline().decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            headers.append((name.lower(), value.strip()))
        length = int(dict(headers).get("content-length", 0))
        return Seen(start[0], start[1], headers, self.rfile.read(length))

    def _write(self, answer: Served) -> None:
        headers = {**answer.headers, "connection": "close"}
        if answer.chunked:
            headers["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, 'Odd')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode())
        for piece in answer.pieces:
            if isinstance(piece, threading.Event):
                self._wait(piece)
            elif piece:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if answer.chunked else piece)
        if answer.chunked and not answer.cut:
            self.wfile.write(b"0\r\n\r\n")

    def _wait(self, opened: threading.Event) -> None:
        while not opened.wait(0.01):
            if self.wire.closing.is_set() or select.select([self.connection], [], [], 0)[0]:
                raise ConnectionAbortedError

    def _tunnel(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        here = "127.0.0.1" if host.endswith(".test") else host  # a proxy's names are its own
        with socket.create_connection((here, int(port))) as there:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            ends = {self.connection: there, there: self.connection}
            while not self.wire.closing.is_set():
                for one in select.select(list(ends), [], [], 0.02)[0]:
                    if not (data := one.recv(65536)):
                        return
                    ends[one].sendall(data)


# --- how a request ended ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """``how`` is a word, ``text`` what had arrived by then."""

    how: str
    text: str = ""


_ENDS = (
    (r"(.*) \(in the stream from ", "an error in the stream: {0}"),
    (r"(\d{3}) ", "status {0}"),
    (r"Request timed out: ", "silent"),
    (r"Connection error: ", "not reached"),
    (r"Connection lost: ", "lost"),
    (r"TLS failed: ", "no trust"),
    (r"The answer from \S+ broke off: a part of it is no (JSON|text)", "no {0}"),
    (r".* ended early, before the answer was complete", "ended early"),
    (r".* did not answer as the API does: it sent (\S+) instead", "no stream: {0}"),
    (r".* is not what \S+ sends", "not understood"),
)


def end_of_ours(events: Iterable[AssistantMessageEvent]) -> Ended:
    """How the events of an answer of ours ended."""
    last = list(events)[-1]
    if last.type == "done":
        return Ended("whole", last.message.text)
    problem = last.error.error_message or ""
    for pattern, how in _ENDS:
        if match := re.match(pattern, problem):
            return Ended(how.format(*match.groups()), last.error.text)
    return Ended(problem, last.error.text)


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""What the end of a connection within the handshake is called: it depends on the version of Python."""


def end_of_sdk(error: Exception, text: str = "") -> Ended:
    """How a request by an SDK ended that raised ``error``; the SDKs call their exceptions the same."""
    causes = _causes(error)
    kinds = {kind.__name__ for each in causes for kind in type(each).__mro__}
    if "APIStatusError" in kinds:
        how = f"status {error.status_code}"  # type: ignore[attr-defined] - of its class, which is the SDK's
    elif "JSONDecodeError" in kinds:
        how = "no JSON"
    elif "UnicodeDecodeError" in kinds:
        how = "no text"
    elif any(isinstance(each, ssl.SSLError) and not isinstance(each, HUNG_UP) for each in causes):
        how = "no trust"
    elif kinds & {"ConnectError", "ConnectTimeout", "ProxyError"}:
        how = "not reached"
    elif "TimeoutException" in kinds:
        how = "silent"
    elif "TransportError" in kinds:
        how = "lost"
    elif "RequestError" in kinds:
        how = "not reached"
    elif "APIError" in kinds:
        how = f"an error in the stream: {error}"
    else:
        how = repr(error)
    return Ended(how, text)
