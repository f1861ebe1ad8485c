"""What the measured programs work on: a model that answers at once, and session files of any length."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

WORD = "word "
KEPT = 10
"""Messages that a compaction keeps, and as many follow it."""

_MOMENT = "2026-01-01T00:00:00.000Z"
_MILLISECONDS = 1767225600000
_ROLE = re.compile(rb'"role": ?"(?:user|assistant)"')


class ModelServer:
    """A server that answers every request with the same stream of so many deltas, rendered beforehand."""

    def __init__(self, deltas: int) -> None:
        self.deltas = deltas
        self.requested: list[float] = []
        """When requests were read, by ``time.perf_counter``."""
        self.messages: list[int] = []
        """How many messages they had."""
        self._body = _stream(deltas)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = ("127.0.0.1", int(self._listening.getsockname()[1]))
        self.url = f"http://127.0.0.1:{self.address[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as reading:
                length = 0
                for line in reading:
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                    if line == b"\r\n":
                        break
                body = reading.read(length)
                self.requested.append(time.perf_counter())
                head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
                connection.sendall(head.encode() + self._body)
                self.messages.append(len(_ROLE.findall(body)))
        except OSError:
            pass  # the program has ended meanwhile


def _stream(deltas: int) -> bytes:
    def event(name: str, **fields: Any) -> bytes:
        return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()

    usage = {"input_tokens": 100, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    return b"".join(
        (
            event("message_start", message={**message, "stop_reason": None, "stop_sequence": None}),
            event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": WORD}) * deltas,
            event("content_block_stop", index=0),
            event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": deltas}),
            event("message_stop"),
        )
    )


def write_session(path: Path, messages: int, *, compacted: bool = False) -> Path:
    """Write a session of so many messages; ``compacted`` leaves the last twenty of them in the context."""
    lines: list[dict[str, Any]] = [
        {
            "type": "session",
            "version": 3,
            "id": "0199aaaa-0000-7000-8000-000000000000",
            "timestamp": _MOMENT,
            "cwd": "/",
        }
    ]
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    fixed = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-haiku-4-5", "stopReason": "stop"}
    parent: str | None = None

    def add(kind: str, **fields: Any) -> None:
        nonlocal parent
        lines.append({"type": kind, "id": f"{len(lines):08x}", "parentId": parent, "timestamp": _MOMENT, **fields})
        parent = f"{len(lines) - 1:08x}"

    for number in range(messages):
        if compacted and number == messages - KEPT:
            first = f"{len(lines) - KEPT:08x}"
            add("compaction", summary="Words were said.", firstKeptEntryId=first, tokensBefore=100_000)
        message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": WORD * 20}]}
        if number % 2:
            message |= {"role": "assistant", **fixed, "usage": {**usage, "cost": cost}}
        add("message", message={**message, "timestamp": _MILLISECONDS})
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path
