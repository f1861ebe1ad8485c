"""A local HTTP server that speaks the Messages API and answers from a script, for tests of all kinds.

It runs in a thread on a real socket, so it serves coroutines, subprocesses and kernels alike::

    with MessagesApi(Reply("Hello"), Reply(Thinking("hm"), ToolUse("bash", {"command": "ls"}))) as api:
        ...  # ANTHROPIC_BASE_URL=api.url
        assert api.requests[0].body["messages"][-1]["role"] == "user"

Each request takes the next reply. What a reply is made of besides blocks of text, thinking and tool calls tells the
server to pause (``Gate``), to break off (``Cut``, ``End``) or to misbehave (``SseError``, ``Raw``) at that very place,
between blocks or, as parts of a ``Text``, within one.

An answer comes whole where no stream is requested, unless what it is made of can only be told by a stream.

A request that breaks a rule of the real API is refused in its words, and takes no reply: see ``api_rules``.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from api_rules import Refusal, check_messages


class Gate:
    """Holds the stream until ``open`` is called; ``reached`` is set once the server stands here."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        """Let the stream go on."""
        self._opened.set()

    @property
    def is_open(self) -> bool:
        """Whether the stream may go on."""
        return self._opened.is_set()


@dataclass(frozen=True)
class Cut:
    """The connection breaks here."""


@dataclass(frozen=True)
class End:
    """The response ends here, in order as far as HTTP knows, but before the message is complete."""


@dataclass(frozen=True)
class SseError:
    """An ``error`` event, and the end of the response."""

    type: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True)
class Raw:
    """Bytes to put into the stream as they are."""

    data: bytes


Control = Gate | Cut | End | SseError | Raw


class Text:
    """A text block; ``parts`` are its text and what happens in the middle of it."""

    def __init__(self, *parts: str | Control) -> None:
        self.parts = parts


@dataclass(frozen=True)
class Thinking:
    """A thinking block."""

    text: str
    signature: str = "c2ln"


@dataclass(frozen=True)
class Redacted:
    """A redacted thinking block."""

    data: str


@dataclass(frozen=True)
class ToolUse:
    """A tool call; a string as ``input`` is sent as it is, JSON or not. ``hold`` is a gate before a text in it."""

    name: str
    input: Mapping[str, Any] | str
    id: str | None = None
    hold: tuple[str, Gate] | None = None


Block = str | Text | Thinking | Redacted | ToolUse


class Reply:
    """An answer; in a stream text, thinking and arguments come in deltas of ``chunk`` characters.

    ``stop_reason`` is by default ``tool_use`` or ``end_turn``, as the blocks are. ``usage`` goes into ``message_start``
    and ``final_usage`` into ``message_delta``. With ``at_once`` all of it is sent together.
    """

    def __init__(
        self,
        *content: Block | Control,
        chunk: int = 24,
        stop_reason: str | None = None,
        usage: Mapping[str, Any] | None = None,
        final_usage: Mapping[str, Any] | None = None,
        stop_details: Mapping[str, Any] | None = None,
        at_once: bool = False,
    ) -> None:
        self.content = content
        self.at_once = at_once
        self.chunk = chunk
        calls = any(isinstance(block, ToolUse) for block in content)
        self.stop_reason = stop_reason or ("tool_use" if calls else "end_turn")
        self.usage = {"input_tokens": 100, "output_tokens": 1, **(usage or {})}
        self.final_usage = {"output_tokens": 20} if final_usage is None else final_usage
        self.stop_details = stop_details


@dataclass(frozen=True)
class HttpError:
    """An answer with an error status; ``body`` replaces the usual JSON."""

    status: int
    type: str = "api_error"
    message: str = "Something is wrong"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    param: str | None = None
    code: str | None = None


@dataclass(frozen=True)
class Page:
    """What something else than the API answers, with status 200."""

    body: str
    content_type: str = "text/html; charset=utf-8"


Answer = Reply | HttpError | Page | str


@dataclass
class Recorded:
    """A request; ``disconnected`` is set when the client went away before the answer was complete."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    disconnected: threading.Event = field(default_factory=threading.Event)

    @property
    def texts(self) -> list[str]:
        """The texts of the last message, those of tool results included."""
        content = self.body["messages"][-1]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        inner = [part for block in blocks for part in (block["content"] if block["type"] == "tool_result" else [block])]
        return [part["text"] for part in inner if part["type"] == "text"]


AS_ANTHROPIC = {"anthropic": {"compat": {"supportsLongCacheRetention": True, "supportsStrictTools": True}}}
"""`providers` of a models.json by which this server is asked for all that Anthropic's own is."""


class MessagesApi:
    """The server. Answers are given to it at the start or with ``add``; each request takes one.

    A function among them is called with the request and returns the answer. When there is none left, ``default``
    answers, or else an error that says so.
    """

    def __init__(self, *answers: Answer | Callable[[Recorded], Answer], default: Answer | None = None) -> None:
        self.requests: list[Recorded] = []
        self.keys: set[str] | None = None
        """The keys that may list models; all of them unless some are named. A list takes no answer of the script."""
        self.lists: list[str] = []
        """The keys that came with requests for a list."""
        self.refusals: list[str] = []
        self.default = default
        self._answers = list(answers)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._connections: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """What to set ANTHROPIC_BASE_URL to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, *answers: Answer | Callable[[Recorded], Answer]) -> None:
        """Append to the script."""
        with self._changed:
            self._answers.extend(answers)

    def clear(self) -> None:
        """Drop what is left of the script."""
        with self._changed:
            self._answers.clear()

    def wait_for_requests(self, count: int, timeout: float = 240) -> None:
        """Return when that many requests have come; raises ``TimeoutError`` if they do not."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came within {timeout} s")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        for connection in tuple(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (Handler,), {"owner": self})

    def check(self, request: Recorded, size: int) -> None:
        """Raise ``Refusal`` for a request that the API refuses."""
        if request.path.partition("?")[0].endswith("/messages"):
            check_messages(request.body, size)

    def _take(self, request: Recorded, size: int) -> tuple[int, Answer]:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            number = len(self.requests)
            try:
                self.check(request, size)
            except Refusal as refusal:
                self.refusals.append(refusal.message)
                return number, HttpError(
                    refusal.status, refusal.type, refusal.message, param=refusal.param, code=refusal.code
                )
            answer = self._answers.pop(0) if self._answers else self.default
        if callable(answer):
            answer = answer(request)
        return number, answer or HttpError(400, "invalid_request_error", f"no answer is scripted for request {number}")


class _GoneError(Exception):
    """The client, or the test, has left."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them and no socket outlives the test
    request_queue_size = 32


class Handler(BaseHTTPRequestHandler):
    """One connection; what the server says is in the words of the Messages API."""

    owner: MessagesApi
    protocol_version = "HTTP/1.1"
    stream_type = "text/event-stream; charset=utf-8"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.owner._connections.add(self.connection)

    def finish(self) -> None:
        self.owner._connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        self.owner.lists.append(key)
        if self.owner.keys is None or key in self.owner.keys:
            self._send(200, b'{"data": []}', "application/json", {})
        else:
            self._send_error(HttpError(401, "authentication_error", "invalid key"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = Recorded(self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(body))
        number, answer = self.owner._take(request, len(body))
        if isinstance(answer, str):
            answer = Reply(answer)
        try:
            if isinstance(answer, HttpError):
                self._send_error(answer)
            elif isinstance(answer, Page):
                self._send(200, answer.body.encode(), answer.content_type, {})
            elif not self.is_stream(request) and (steps := _whole(list(_steps(answer, request, number)))):
                self._send_whole(steps)
            else:
                self._send_stream(request, number, answer)
        except (_GoneError, ConnectionError):
            request.disconnected.set()
            self.close_connection = True

    def is_stream(self, request: Recorded) -> bool:
        """Whether the request is one for a stream of events."""
        return request.body.get("stream") is True

    def _send_error(self, answer: HttpError) -> None:
        body = (json.dumps(self.error_body(answer)) if answer.body is None else answer.body).encode()
        kind = "application/json" if answer.body is None else "text/html"
        self._send(answer.status, body, kind, answer.headers)

    def _send(self, status: int, body: bytes, content_type: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _send_whole(self, steps: Sequence[Gate | Mapping[str, Any]]) -> None:
        for step in steps:
            if isinstance(step, Gate):
                self._wait(step)
            else:
                self._send(200, json.dumps(step).encode(), "application/json", {})

    def _send_stream(self, request: Recorded, number: int, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("content-type", self.stream_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        steps = self.steps(reply, request, number)
        if reply.at_once:
            steps = [b"".join(step for step in steps if isinstance(step, bytes))]
        for step in steps:
            match step:
                case bytes():
                    self._send_chunk(step)
                case Gate():
                    self._wait(step)
                case Cut():
                    self.close_connection = True
                    return
                case End():
                    break
                case SseError():
                    self._send_chunk(self.error_event(step))
                    break
                case Raw():
                    self._send_chunk(step.data)
        self.wfile.write(b"0\r\n\r\n")

    def steps(self, reply: Reply, request: Recorded, number: int) -> Iterator[bytes | Control]:
        """The stream, event by event, with what else happens in it."""
        for step in _steps(reply, request, number):
            yield sse(step) if isinstance(step, dict) else step

    def error_event(self, error: SseError) -> bytes:
        """An error within the stream."""
        return sse({"type": "error", "error": {"type": error.type, "message": error.message}})

    def error_body(self, answer: HttpError) -> dict[str, Any]:
        """The JSON of an answer with an error status."""
        return {"type": "error", "error": {"type": answer.type, "message": answer.message}}

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _wait(self, gate: Gate) -> None:
        gate.reached.set()
        while not gate.is_open:
            if self.owner._closing.is_set():
                raise _GoneError
            if select.select([self.connection], [], [], 0.01)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                raise _GoneError


def sse(event: Mapping[str, Any]) -> bytes:
    """A server-sent event whose name is its type."""
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _steps(reply: Reply, request: Recorded, number: int) -> Iterator[Mapping[str, Any] | Control]:
    message = {
        "id": f"msg_{number:02}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": reply.usage,
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    index = 0
    for item in reply.content:
        if isinstance(item, Gate | Cut | End | SseError | Raw):
            yield item
            continue
        opening, deltas = _block(item, f"toolu_{number:02}_{index}", reply.chunk)
        yield {"type": "content_block_start", "index": index, "content_block": opening}
        for delta in deltas:
            if isinstance(delta, dict):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            else:
                yield delta
        yield {"type": "content_block_stop", "index": index}
        index += 1
    ending: dict[str, Any] = {"stop_reason": reply.stop_reason, "stop_sequence": None}
    if reply.stop_details is not None:
        ending["stop_details"] = reply.stop_details
    yield {"type": "message_delta", "delta": ending, "usage": reply.final_usage}
    yield {"type": "message_stop"}


def _whole(steps: Sequence[Mapping[str, Any] | Control]) -> list[Gate | Mapping[str, Any]]:
    """The gates of a stream and the message that it adds up to; nothing for one that adds up to none."""
    message: dict[str, Any] = {}
    block: dict[str, Any] = {}
    arguments = ""
    for step in steps:
        match step:
            case Cut() | End() | SseError() | Raw():
                return []
            case {"type": "message_start", "message": begun}:
                message = {**begun, "content": []}
            case {"type": "content_block_start", "content_block": opening}:
                block, arguments = {**opening}, ""
                message["content"].append(block)
            case {"type": "content_block_delta", "delta": delta}:
                block |= {key: block[key] + delta[key] for key in ("text", "thinking", "signature") if key in delta}
                arguments += delta.get("partial_json", "")
            case {"type": "content_block_stop"} if arguments:
                try:
                    block["input"] = json.loads(arguments)
                except ValueError:
                    return []
            case {"type": "message_delta", "delta": ending, "usage": usage}:
                message |= {**ending, "usage": {**message["usage"], **usage}}
            case _:
                pass
    return [*(step for step in steps if isinstance(step, Gate)), message]


def pieces(text: str, length: int) -> list[str]:
    """``text`` in pieces of that length."""
    return [text[start : start + length] for start in range(0, len(text), length)]


def _block(item: Block, call_id: str, chunk: int) -> tuple[dict[str, Any], list[dict[str, Any] | Control]]:
    match item:
        case str() | Text():
            deltas: list[dict[str, Any] | Control] = []
            for part in (item,) if isinstance(item, str) else item.parts:
                if isinstance(part, str):
                    deltas.extend({"type": "text_delta", "text": piece} for piece in pieces(part, chunk))
                else:
                    deltas.append(part)
            return {"type": "text", "text": ""}, deltas
        case Thinking():
            thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(item.text, chunk)]
            signature = {"type": "signature_delta", "signature": item.signature}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]
        case Redacted():
            return {"type": "redacted_thinking", "data": item.data}, []
        case ToolUse():
            text = item.input if isinstance(item.input, str) else json.dumps(item.input)
            at = text.index(item.hold[0]) if item.hold else len(text)
            before, after = (
                [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(part, chunk)]
                for part in (text[:at], text[at:])
            )
            gates = [item.hold[1]] if item.hold else []
            opening = {"type": "tool_use", "id": item.id or call_id, "name": item.name, "input": {}}
            return opening, [{"type": "input_json_delta", "partial_json": ""}, *before, *gates, *after]
