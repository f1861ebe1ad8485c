"""A server at an address: streamable HTTP.

What this module promises: no message is longer than ``MAX_MESSAGE_BYTES``, or holds more values than any does, and how
HTTP answered the requests of one task (``HttpOutcome``), which the SDK's errors leave out, is known to that task.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from indus_nb.base.wire import check_json_values
from indus_nb.extend.mcp.config import CONNECT_SECONDS, MAX_MESSAGE_BYTES, McpServerConfig
from indus_nb.models.http.bodies import IDENTITY, BodyError, TooLargeError, bound_response
from indus_nb.tools.truncate import size_text

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

_MIN_READ_SECONDS = 300.0
_ENDS_OF_EVENT = (b"\n\n", b"\r\n\r\n", b"\r\r")


@dataclass(slots=True)
class HttpOutcome:
    """Status of the HTTP responses to the requests of one task.

    Attributes:
        status: The status of the last rejection; ``None`` when nothing was rejected.
        session_forgotten: Whether that rejection was because the server does not know the session.
    """

    status: int | None = None
    session_forgotten: bool = False


# The SDK's HTTP transport sends each message in the context of the task that asked for it.
_outcome: ContextVar[HttpOutcome] = ContextVar("_outcome")


def watch_http() -> HttpOutcome:
    """Record HTTP responses to the requests of the current task."""
    outcome = HttpOutcome()
    _outcome.set(outcome)
    return outcome


def add_status(error: BaseException, outcome: HttpOutcome) -> None:
    """Add the HTTP status of a rejection to an error, as a note."""
    if outcome.status is not None:
        phrase = HTTPStatus(outcome.status).phrase if outcome.status in set(HTTPStatus) else ""
        error.add_note(f"HTTP {outcome.status} {phrase}".strip())


@contextlib.asynccontextmanager
async def over_http(config: McpServerConfig) -> AsyncGenerator[TransportStreams]:
    """Speak streamable HTTP with the server at ``config.url``."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    seconds = max(_MIN_READ_SECONDS, (config.timeout_ms or 0) / 1000)

    def make() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers={**IDENTITY, **config.headers},
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=seconds),
            event_hooks={"response": [_inspect]},
        )

    # In a thread, because it reads certificates.
    async with (
        await asyncio.to_thread(make) as client,
        streamable_http_client(config.url or "", http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


async def _inspect(response: httpx2.Response) -> None:
    if response.status_code >= 400 and response.request.method == "POST" and (seen := _outcome.get(None)):
        seen.status = response.status_code
        seen.session_forgotten = response.status_code == 404 and "mcp-session-id" in response.request.headers
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    limit = sys.maxsize if is_stream else MAX_MESSAGE_BYTES
    through = partial(_with_few_values, in_events=is_stream)
    bound_response(response, limit=limit, through=through, failure=_failure)


async def _with_few_values(pieces: AsyncGenerator[bytes], *, in_events: bool) -> AsyncGenerator[bytes]:
    """Pass a body on, but for the end of a message whose JSON would take far more memory than its text."""
    message = bytearray()
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            searched = max(0, len(message) - 3)
            message += piece
            if in_events and (end := max(message.rfind(mark, searched) for mark in _ENDS_OF_EVENT)) >= 0:
                _check_values(message)
                del message[:end]
            yield piece
    _check_values(message)


def _check_values(message: bytearray) -> None:
    try:
        check_json_values(bytes(message))
    except ValueError as error:
        raise BodyError(str(error)) from error


def _failure(error: BodyError) -> Exception:
    """Return the exception that the SDK reports as a failure of its request."""
    import httpx2

    too_large = f"a message of more than {size_text(MAX_MESSAGE_BYTES)}"
    what = too_large if isinstance(error, TooLargeError) else f"a message that is not read: {error}"
    return httpx2.ReadError(f"it sent {what}")
