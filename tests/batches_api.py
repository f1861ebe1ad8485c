"""The local Messages API with the endpoints of Message Batches, as https://docs.claude.com describes them.

What a request of a batch is answered with is made by ``answer``: a ``Reply`` whose blocks are plain texts and tool
calls, an ``HttpError`` for an errored one, or the name of another ending (``expired``, ``canceled``)::

    with BatchesApi(answer=lambda body: Reply("hello")) as api:
        ...  # ANTHROPIC_BASE_URL=api.url
        assert [len(batch.requests) for batch in api.batches] == [3]

A batch ends when it has been retrieved ``polls`` times. ``faults`` are answered first, by method and end of the path.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

from api_rules import Refusal, check_messages
from messages_api import Handler, HttpError, MessagesApi, Reply, ToolUse

Ending = Reply | HttpError | str


@dataclass
class Batch:
    """A batch; ``polls`` are those that are still to come before it ends."""

    id: str
    requests: list[dict[str, Any]]
    polls: int
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: str = "in_progress"
    archived: bool = False
    collected: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """What its requests are called."""
        return [request["custom_id"] for request in self.requests]


@dataclass(frozen=True)
class HangUp:
    """A fault: the request is carried out, and the connection ends before it is answered."""


class BatchesApi(MessagesApi):
    """The server."""

    def __init__(self, answer: Callable[[Mapping[str, Any]], Ending], polls: int = 2) -> None:
        super().__init__()
        self.answer = answer
        self.polls = polls
        self.batches: list[Batch] = []
        self.cancelled: list[str] = []
        self.faults: list[tuple[str, str, HttpError | HangUp]] = []
        self.calls: list[tuple[str, str]] = []
        self.lock = threading.RLock()
        self._random = random.Random(7)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (_Handler,), {"owner": self})

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of all requests in all batches."""
        return [request["params"] for batch in self.batches for request in batch.requests]

    def end(self, batch: Batch) -> None:
        """Let a batch end."""
        with self.lock:
            if batch.status == "ended":
                return
            cancelled = batch.status == "canceling"
            batch.status = "ended"
            for request in batch.requests:
                ending = "canceled" if cancelled else self.answer(request["params"])
                batch.results.append({"custom_id": request["custom_id"], "result": _result(ending, request)})
            self._random.shuffle(batch.results)

    def fault(self, method: str, path: str) -> HttpError | HangUp | None:
        """Take what shall go wrong with a request."""
        with self.lock:
            self.calls.append((method, path))
            for number, (name, end, fault) in enumerate(self.faults):
                if name == method and re.search(end + "$", path):
                    del self.faults[number]
                    return fault
        return None

    def make(self, requests: list[dict[str, Any]]) -> Batch:
        """Accept a batch, or refuse it as the API does."""
        names = [request["custom_id"] for request in requests]
        if not requests or len(set(names)) < len(names):
            raise Refusal("requests: custom_id must be unique")
        for request in requests:
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", request["custom_id"]):
                raise Refusal("requests: custom_id does not match")
            if "stream" in request["params"]:
                raise Refusal("requests.0.params.stream: Extra inputs are not permitted")
            check_messages(request["params"], 0)
        with self.lock:
            batch = Batch(f"msgbatch_{len(self.batches) + 1:02}", requests, self.polls)
            self.batches.append(batch)
        return batch


class _Handler(Handler):
    owner: BatchesApi

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        self._serve("GET", {})

    def do_POST(self) -> None:  # noqa: N802 - the library's name
        if "/batches" not in self.path:
            super().do_POST()
        else:
            self._serve("POST", json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}"))

    def _serve(self, method: str, body: dict[str, Any]) -> None:
        path = self.path.partition("?")[0]
        fault = self.owner.fault(method, path)
        if isinstance(fault, HttpError):
            self._send_error(fault)
            return
        try:
            kind, content = self._answer(method, path, body)
        except Refusal as refusal:
            self.owner.refusals.append(refusal.message)
            self._send_error(HttpError(refusal.status, refusal.type, refusal.message))
            return
        if isinstance(fault, HangUp):
            self.close_connection = True
            return
        self._send(200, content, kind, {})

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[str, bytes]:
        owner = self.owner
        if path == "/v1/messages/batches":
            if method == "POST":
                return _json(self._shown(owner.make(body["requests"])))
            newest = [self._shown(batch) for batch in reversed(owner.batches)]
            return _json({"data": newest, "has_more": False, "first_id": None, "last_id": None})
        parts = re.fullmatch(r"/v1/messages/batches/(\w+)(?:/(\w+))?", path)
        batch = next((batch for batch in owner.batches if parts and batch.id == parts[1]), None)
        if parts is None or batch is None:
            raise Refusal("batch not found", 404, "not_found_error")
        if parts[2] == "results":
            batch.collected += 1
            lines = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in batch.results)
            return "application/x-jsonl", lines
        if parts[2] == "cancel":
            owner.cancelled.append(batch.id)
            if batch.status == "in_progress":
                batch.status, batch.polls = "canceling", 1
        else:
            batch.polls -= 1
            if batch.polls <= 0:
                owner.end(batch)
        return _json(self._shown(batch))

    def _shown(self, batch: Batch) -> dict[str, Any]:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        for line in batch.results:
            counts[line["result"]["type"]] += 1
        counts["processing"] = len(batch.requests) - len(batch.results)
        ended = batch.status == "ended" and not batch.archived
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": batch.status,
            "request_counts": counts,
            "created_at": batch.created.isoformat(),
            "expires_at": (batch.created + timedelta(days=1)).isoformat(),
            "ended_at": None,
            "archived_at": batch.created.isoformat() if batch.archived else None,
            "cancel_initiated_at": None,
            "results_url": f"{self.owner.url}/v1/messages/batches/{batch.id}/results" if ended else None,
        }


def _json(value: object) -> tuple[str, bytes]:
    return "application/json", json.dumps(value).encode()


def _result(ending: Ending, request: dict[str, Any]) -> dict[str, Any]:
    if isinstance(ending, str):
        return {"type": ending}
    if isinstance(ending, HttpError):
        error = {"type": ending.type, "message": ending.message}
        return {"type": "errored", "error": {"type": "error", "error": error, "request_id": None}}
    content: list[dict[str, Any]] = []
    for number, block in enumerate(ending.content):
        if isinstance(block, ToolUse):
            call = {"type": "tool_use", "id": block.id or f"toolu_{number}", "name": block.name, "input": block.input}
            content.append(call)
        else:
            content.append({"type": "text", "text": block})
    message = {
        "id": f"msg_{request['custom_id'][:8]}",
        "type": "message",
        "role": "assistant",
        "model": request["params"]["model"],
        "content": content,
        "stop_reason": ending.stop_reason,
        "stop_sequence": None,
        "usage": {**ending.usage, **ending.final_usage},
    }
    return {"type": "succeeded", "message": message}
