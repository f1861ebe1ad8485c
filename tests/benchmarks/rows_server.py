"""A model's server that costs next to nothing: it answers every request after the same delay.

    python tests/benchmarks/rows_server.py [--delay SECONDS] [--certificate FILE]

It speaks as much of the Messages API as one row needs, streaming or not, over connections that are kept: a text, the
input of the tool that is forced or offered, or the JSON of a schema. Its port is the first line that it writes. Every
``GET`` is answered with what it has counted since the last one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TEXT = "Three bolts of size M6 are ordered, and they shall come with the next delivery on Tuesday."
ORDER = {"pieces": 3, "article": "bolts M6"}
_DELTA_CHARACTERS = 8
_PARTS = 4  # what the deltas of an answer arrive in, over the second half of its delay
_USAGE = {"input_tokens": 100, "output_tokens": 30, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--certificate", type=Path, help="a file with a key and certificates: answer over TLS")
    asked = parser.parse_args()
    asyncio.run(_serve(asked.delay, asked.certificate))


async def _serve(delay: float, certificate: Path | None) -> None:
    tls = None
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
    counts: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(delay, counts), "127.0.0.1", 0, ssl=tls, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


class _Connection(asyncio.Protocol):
    """One connection, which holds one request at a time."""

    def __init__(self, delay: float, counts: Counter[str]) -> None:
        self._delay = delay
        self._counts = counts
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._counts["connections"] += 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        if head.startswith(b"GET "):
            self._counts["connections"] -= 1  # this one
            body = json.dumps(self._counts).encode()
            self._counts.clear()
            self._received = rest
            self._transport.write(_whole(body))
            return
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        if len(rest) < length:
            return
        self._received = rest[length:]
        self._counts["requests"] += 1
        request = json.loads(rest[:length])
        steps = _streamed(request) if request.get("stream") else [_whole(json.dumps(_message(request)).encode())]
        # The first half until the model begins, the second until it ends.
        later = asyncio.get_running_loop().call_later
        for number, step in enumerate(steps, len(steps)):
            later(self._delay * (number + 1) / (2 * len(steps)), self._transport.write, step)


def _whole(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _block(request: Mapping[str, Any]) -> dict[str, Any]:
    if tools := request.get("tools"):
        # The schema of a tool may hold the answer in one argument.
        properties = tools[0]["input_schema"]["properties"]
        given = ORDER if "pieces" in properties else {next(iter(properties)): ORDER}
        return {"type": "tool_use", "id": "toolu_1", "name": tools[0]["name"], "input": given}
    is_json = any(key in request for key in ("output_config", "output_format"))
    return {"type": "text", "text": json.dumps(ORDER) if is_json else TEXT}


def _message(request: Mapping[str, Any]) -> dict[str, Any]:
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
        "usage": _USAGE,
    }


def _streamed(request: Mapping[str, Any]) -> Sequence[bytes]:
    """The answer in parts, which chunks of HTTP are."""
    message = _message(request)
    (block,) = message["content"]
    if block["type"] == "text":
        text, empty, kind, key = block["text"], block | {"text": ""}, "text_delta", "text"
    else:
        text, empty, kind, key = json.dumps(block["input"]), block | {"input": {}}, "input_json_delta", "partial_json"
    begun: dict[str, Any] = message | {"content": [], "stop_reason": None, "usage": _USAGE | {"output_tokens": 1}}
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
            "usage": {"output_tokens": 30},
        },
        {"type": "message_stop"},
    ]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = [_chunk(part) for part in [first, *parts[:-1], parts[-1] + last]]
    return [head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"]


def _chunk(events: Sequence[Mapping[str, Any]]) -> bytes:
    data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


if __name__ == "__main__":
    main()
