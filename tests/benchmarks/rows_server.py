"""A model's server that costs next to nothing: it answers every request after the same delay.

    python tests/benchmarks/rows_server.py [--delay SECONDS] [--certificate FILE]
        [--refuse P] [--fail P] [--seed N] [--limit RATE --burst N [--headers]] [--retry-after SECONDS]
        [--cache [--tokens DIRECTORY]]

It speaks as much of the Messages API as one row needs, streaming or not, over connections that are kept: a text, the
input of the tool that is forced or offered, or the JSON of a schema. Its port is the first line that it writes. Every
``GET`` is answered with what it has counted since the last one.

``--refuse`` and ``--fail`` are the shares of requests that get status 429 and 500, by chance with a seed. ``--limit``
is a true limit: a bucket with ``--burst`` places, into which ``RATE`` come back every second; a request that finds
none is refused. With ``--headers`` each answer says how full the bucket is, as the API's do: when it will be full is
said in whole seconds. ``--retry-after 0`` leaves out that header of a refusal.

With ``--cache`` the usage is what a simulated prompt cache has read and written (``simulated_cache.py``), and the
count has the price of each prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import ssl
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.simulated_cache import SimulatedCache, tokenizer

TEXT = "Three bolts of size M6 are ordered, and they shall come with the next delivery on Tuesday."
ORDER = {"pieces": 3, "article": "bolts M6"}
_DELTA_CHARACTERS = 8
_PARTS = 4  # what the deltas of an answer arrive in, over the second half of its delay
_USAGE = {"input_tokens": 100, "output_tokens": 30, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
_STATUS = {429: b"429 Too Many Requests", 500: b"500 Internal Server Error"}
_ERRORS = {
    429: {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many requests."}},
    500: {"type": "error", "error": {"type": "api_error", "message": "Internal server error"}},
}
_OUTCOMES = {200: "answered", 429: "refused", 500: "failed"}


@dataclass
class Faults:
    """What goes wrong: by chance, and by a limit."""

    refuse: float
    fail: float
    rate: float
    burst: int
    retry_after: float
    headers: bool
    chance: random.Random
    _left: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._left = self.burst
        self._at = time.monotonic()

    def status(self) -> int:
        """What the next request is answered with."""
        drawn = self.chance.random()
        if drawn < self.refuse + self.fail:
            return 429 if drawn < self.refuse else 500
        if not self.rate:
            return 200
        self._fill()
        if self._left < 1:
            return 429
        self._left -= 1
        return 200

    def _fill(self) -> None:
        now = time.monotonic()
        self._left = min(self.burst, self._left + (now - self._at) * self.rate)
        self._at = now

    def headers_of(self, status: int) -> bytes:
        """What an answer says of the limit."""
        lines: list[str] = []
        if status == 429 and self.retry_after:
            lines.append(f"retry-after: {self.retry_after:g}")
        if self.rate and self.headers:
            full = math.ceil(time.time() + (self.burst - self._left) / self.rate)
            at = datetime.fromtimestamp(full, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            values = {"limit": self.burst, "remaining": int(self._left), "reset": at}
            lines += [f"anthropic-ratelimit-requests-{name}: {value}" for name, value in values.items()]
        return "".join(f"{line}\r\n" for line in lines).encode()


@dataclass
class Server:
    """What all connections share."""

    delay: float
    faults: Faults
    cache: SimulatedCache | None
    counts: Counter[str] = field(default_factory=Counter[str])
    first: float | None = None
    """When the first request came, on the clock of all processes."""
    dollars: list[float] = field(default_factory=list[float])
    """The price of each prompt, in the order in which they came."""
    sent: int = 0
    """Tokens of all prompts."""

    def counted(self) -> bytes:
        """What was counted since the last call."""
        found = {**self.counts, "first": self.first, "dollars": self.dollars, "sent": self.sent}
        self.counts.clear()
        self.first, self.dollars, self.sent = None, [], 0
        return json.dumps(found).encode()

    def usage(self, request: dict[str, Any]) -> dict[str, Any]:
        """The tokens of a request."""
        if self.cache is None:
            return _USAGE
        now = time.time()
        bill = self.cache.charge(request, now, now + self.delay / 2)  # when its answer begins
        self.dollars.append(bill.dollars)
        self.sent += bill.sent
        return {
            "input_tokens": bill.input,
            "output_tokens": _USAGE["output_tokens"],
            "cache_read_input_tokens": bill.read,
            "cache_creation_input_tokens": bill.short + bill.long,
            "cache_creation": {"ephemeral_5m_input_tokens": bill.short, "ephemeral_1h_input_tokens": bill.long},
        }


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--certificate", type=Path, help="a file with a key and certificates: answer over TLS")
    parser.add_argument("--refuse", type=float, default=0.0)
    parser.add_argument("--fail", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=0.0)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--headers", action="store_true")
    parser.add_argument("--retry-after", type=float, default=1.0)
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--tokens", type=Path, help="where anthropic 0.34.2 and tokenizers are installed already")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    shares = asked.refuse, asked.fail, asked.limit, asked.burst, asked.retry_after
    cache = SimulatedCache(tokenizer(asked.tokens)[0]) if asked.cache else None
    asyncio.run(_serve(Server(asked.delay, Faults(*shares, asked.headers, chance), cache), asked.certificate))


async def _serve(shared: Server, certificate: Path | None) -> None:
    tls = None
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(shared), "127.0.0.1", 0, ssl=tls, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


class _Connection(asyncio.Protocol):
    """One connection, which holds one request at a time."""

    def __init__(self, shared: Server) -> None:
        self._shared = shared
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._shared.counts["connections"] += 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        shared = self._shared
        if head.startswith(b"GET "):
            shared.counts["connections"] -= 1  # this one
            self._received = rest
            self._transport.write(_whole(shared.counted()))
            return
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        if len(rest) < length:
            return
        self._received = rest[length:]
        shared.first = shared.first or time.monotonic()
        status = shared.faults.status()
        shared.counts.update(("requests", _OUTCOMES[status]))
        more = shared.faults.headers_of(status)
        if status != 200:
            self._transport.write(_whole(json.dumps(_ERRORS[status]).encode(), _STATUS[status], more))
            return
        request = json.loads(rest[:length])
        message = _message(request, shared.usage(request))
        steps = _streamed(message, more) if request.get("stream") else [_whole(json.dumps(message).encode(), more=more)]
        # The first half until the model begins, the second until it ends.
        later = asyncio.get_running_loop().call_later
        for number, step in enumerate(steps, len(steps)):
            later(shared.delay * (number + 1) / (2 * len(steps)), self._transport.write, step)


def _whole(body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n"
    return head % (status, len(body), more) + body


def _block(request: Mapping[str, Any]) -> dict[str, Any]:
    if tools := request.get("tools"):
        # The schema of a tool may hold the answer in one argument.
        properties = tools[0]["input_schema"]["properties"]
        given = ORDER if "pieces" in properties else {next(iter(properties)): ORDER}
        return {"type": "tool_use", "id": "toolu_1", "name": tools[0]["name"], "input": given}
    is_json = any(key in request for key in ("output_config", "output_format"))
    return {"type": "text", "text": json.dumps(ORDER) if is_json else TEXT}


def _message(request: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    block = _block(request)
    reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [block],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _streamed(message: Mapping[str, Any], more: bytes) -> Sequence[bytes]:
    """The answer in parts, which chunks of HTTP are."""
    (block,) = message["content"]
    if block["type"] == "text":
        text, empty, kind, key = block["text"], block | {"text": ""}, "text_delta", "text"
    else:
        text, empty, kind, key = json.dumps(block["input"]), block | {"input": {}}, "input_json_delta", "partial_json"
    usage = {**message["usage"], "output_tokens": 1}
    begun: dict[str, Any] = {**message, "content": [], "stop_reason": None, "usage": usage}
    deltas: list[dict[str, Any]] = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": kind, key: text[at : at + _DELTA_CHARACTERS]}}
        for at in range(0, len(text), _DELTA_CHARACTERS)
    ]
    size = -(-len(deltas) // _PARTS)
    parts = [deltas[at : at + size] for at in range(0, len(deltas), size)]
    first: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
    ]
    last: list[dict[str, Any]] = [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": message["usage"]["output_tokens"]},
        },
        {"type": "message_stop"},
    ]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n%b\r\n" % more
    chunks = [_chunk(part) for part in [first, *parts[:-1], parts[-1] + last]]
    return [head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"]


def _chunk(events: Sequence[Mapping[str, Any]]) -> bytes:
    data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


if __name__ == "__main__":
    main()
