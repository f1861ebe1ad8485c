"""A local HTTP server that answers one script as Claude's other platforms do, by the path that is asked for.

``PlatformsApi`` is an ``OpenAIApi`` that is Amazon Bedrock (``/model/ID/invoke-with-response-stream``), Google's
Vertex AI (``/projects/…:streamRawPredict``) and Microsoft Foundry (``/anthropic/v1/messages``) besides, with the
servers of Google (``/token``) and Azure (``/identity``) that give out access tokens.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from api_rules import Refusal, check_messages
from messages_api import HttpError, Raw, Recorded, Reply, SseError
from openai_api import OpenAIApi, OpenAIHandler

ACCESS_TOKEN = "ya29.a-token-of-google"
AZURE_TOKEN = "a-token-of-azure"
_BEDROCK = "/invoke-with-response-stream"
_VERTEX = ":streamRawPredict"


class PlatformsApi(OpenAIApi):
    """The server; ``tokens`` are the requests for access tokens, which ``token_error`` answers once it is set."""

    def __init__(self, *answers: Any) -> None:
        self.tokens: list[str] = []
        self.token_error: dict[str, Any] | None = None
        super().__init__(*answers)

    def check(self, request: Recorded, size: int) -> None:
        """Raise ``Refusal`` for a request that the platform refuses."""
        path, body = unquote(request.path), request.body
        if path.endswith(_BEDROCK):
            _check_moved(body, ("model", "stream"), "bedrock-2023-05-31", path)
        elif path.endswith(_VERTEX):
            _check_moved(body, ("model",), None, path)
        else:
            super().check(request, size)
            return
        check_messages(body, size)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (PlatformsHandler,), {"owner": self})


def _check_moved(body: Mapping[str, Any], keys: tuple[str, ...], version: str | None, path: str) -> None:
    for key in keys:
        if key in body:
            raise Refusal(f"{key}: Extra inputs are not permitted")
    if "anthropic_version" not in body or version not in (None, body["anthropic_version"]):
        raise Refusal(f"anthropic_version: {body.get('anthropic_version')!r} is not supported on {path}")


class PlatformsHandler(OpenAIHandler):
    """One connection."""

    owner: PlatformsApi

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        self._give_token({"access_token": AZURE_TOKEN, "expires_on": "4102444800", "token_type": "Bearer"})

    def do_POST(self) -> None:  # noqa: N802 - the base class's name
        if self.path == "/token":
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self._give_token({"access_token": ACCESS_TOKEN, "expires_in": 3600, "token_type": "Bearer"})
        else:
            super().do_POST()

    def _give_token(self, token: Mapping[str, str | int]) -> None:
        self.owner.tokens.append(self.path)
        error = self.owner.token_error
        self._send(200 if error is None else 400, json.dumps(error or token).encode(), "application/json", {})

    def is_stream(self, request: Recorded) -> bool:
        """Whether the request is one for a stream of events; of Bedrock the path says it."""
        return self.path.endswith(_BEDROCK) or super().is_stream(request)

    def _send_stream(self, request: Recorded, number: int, reply: Reply) -> None:
        if self.path.endswith(_BEDROCK):
            self.stream_type = "application/vnd.amazon.eventstream"
        super()._send_stream(request, number, reply)

    def _send_error(self, answer: HttpError) -> None:
        if self.path.endswith(_BEDROCK):
            answer = replace(answer, headers={"x-amzn-errortype": answer.type, **answer.headers})
        super()._send_error(answer)

    def steps(self, reply: Reply, request: Recorded, number: int) -> Iterator[Any]:
        """The stream, event by event; Bedrock's are frames with the event in base64."""
        if not self.path.endswith(_BEDROCK):
            yield from super().steps(reply, request, number)
            return
        for step in super().steps(reply, request, number):
            event = step.data if isinstance(step, Raw) and step.data.startswith(b"event: ") else step
            yield (
                chunk(event.partition(b"\n")[2].removeprefix(b"data: ").strip()) if isinstance(event, bytes) else event
            )

    def error_event(self, error: SseError) -> bytes:
        """An error within the stream."""
        if not self.path.endswith(_BEDROCK):
            return super().error_event(error)
        if not error.type.endswith("Exception"):  # of the model, not of AWS
            return chunk(
                json.dumps({"type": "error", "error": {"type": error.type, "message": error.message}}).encode()
            )
        headers = {":exception-type": error.type, ":content-type": "application/json", ":message-type": "exception"}
        return frame(headers, json.dumps({"message": error.message}).encode())

    def error_body(self, answer: HttpError) -> Any:
        """The JSON of an answer with an error status."""
        if self.path.endswith(_BEDROCK):
            return {"message": answer.message}
        if self.path.endswith(_VERTEX) and answer.type.isupper():  # Google's own, not Anthropic's
            return [{"error": {"code": answer.status, "message": answer.message, "status": answer.type}}]
        return super().error_body(answer)


def chunk(event: bytes) -> bytes:
    """A frame with one event of the Messages API."""
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps({"bytes": base64.b64encode(event).decode(), "p": "abcd"}).encode())


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A frame of AWS's event streams: lengths, their checksum, headers, the payload, and a checksum of all of it."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return message + struct.pack(">I", zlib.crc32(message))
