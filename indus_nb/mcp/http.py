"""A server at an address: streamable HTTP.

What this module promises: no message is longer than ``MAX_MESSAGE_BYTES``, and how HTTP answered the requests of one
task (``HttpOutcome``), which the SDK's errors leave out, is known to that task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from indus_nb.mcp.config import CONNECT_SECONDS, MAX_MESSAGE_BYTES, McpServerConfig
from indus_nb.tools.truncate import size_text

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

_MIN_READ_SECONDS = 300.0


@dataclass(slots=True)
class HttpOutcome:
    """How HTTP answered the requests of one task.

    Attributes:
        status: The status of the last refusal; ``None`` when nothing was refused.
        session_forgotten: Whether that refusal was because the server does not know the session.
    """

    status: int | None = None
    session_forgotten: bool = False


# The SDK's HTTP transport sends each message in the context of the task that asked for it.
_outcome: ContextVar[HttpOutcome] = ContextVar("_outcome")


def watch_http() -> HttpOutcome:
    """Begin to record how HTTP answers the requests of the current task."""
    outcome = HttpOutcome()
    _outcome.set(outcome)
    return outcome


def add_status(error: BaseException, outcome: HttpOutcome) -> None:
    """Add the status of a refusal to an error, as a note.

    Args:
        error: What the SDK raised.
        outcome: How HTTP answered the requests of the task.
    """
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
            headers={"accept-encoding": "identity", **config.headers},
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
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _bounded(cast("httpx2.AsyncByteStream", response.stream))


def _bounded(stream: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MAX_MESSAGE_BYTES:
                    raise httpx2.ReadError(f"it sent a message of more than {size_text(MAX_MESSAGE_BYTES)}")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
