"""One streaming request over HTTP: what every provider without an SDK of its own stands on.

The library is the one that the official SDKs stand on. It is imported when the first request is made, or by
``preload`` before that.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from indus_nb.errors import UsageError
from indus_nb.providers.failures import one_line
from indus_nb.providers.sse import EventDecoder, json_or_text
from indus_nb.providers.tls import tls_context
from indus_nb.redaction import shown_url
from indus_nb.version import __version__
from indus_nb.wire import JsonObject

if TYPE_CHECKING:
    import ssl

    import httpx2

_CONNECT_SECONDS = 10.0
_MAX_ERROR_BYTES = 1024 * 1024
_MAX_REDIRECTS = 3
ENCODINGS = {"accept-encoding": "gzip, deflate"}
"""What is asked for: the library offers whatever it finds installed, and unpacks some of it without a limit."""
_IN_NAMES = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_HEADERS = {
    **ENCODINGS,
    "accept": "application/json",
    "content-type": "application/json",
    "user-agent": f"indus_nb/{__version__}",
}


class HttpStatusError(Exception):
    """The server answered with an error status.

    Attributes:
        status_code: The status.
        reason_phrase: Its name, by the server or by the standard; may be empty.
        headers: The headers of the answer.
        body: The value of its body's JSON, else its text, of both the first megabyte.
        request_id: By what the server knows the request, if it says so.
    """

    def __init__(self, status_code: int, reason_phrase: str, headers: Mapping[str, str], body: object) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code
        self.reason_phrase = reason_phrase
        self.headers = headers
        self.body = body
        self.request_id = headers.get("request-id") or headers.get("x-request-id")


class StreamingAnswer:
    """An answer that has begun: ``status``, ``headers``, and the events as they arrive."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._events: AsyncGenerator[Any] | None = None

    def content(self) -> AsyncIterator[bytes]:
        """Return the body, for who does not ask for events; see ``check_stream``."""
        return self._response.aiter_bytes()

    def events(self) -> AsyncGenerator[Any]:
        """Yield the decoded data of each event, see ``EventDecoder``; may be asked for once.

        Raises:
            StreamedError: The server reports an error.
            ValueError: What it sent is no UTF-8 or no JSON, or an event does not end.
        """
        self._events = self._read()
        return self._events

    async def _read(self) -> AsyncGenerator[Any]:
        decoder = EventDecoder()
        async with aclosing(self._response.aiter_bytes()) as pieces:
            async for piece in pieces:
                for event in decoder.feed(piece):
                    yield event
                if decoder.is_done:
                    return
        for event in decoder.end():
            yield event

    async def value(self) -> object:
        """Return what the body says: the value of its JSON, else its text, of both the first megabyte."""
        return await _beginning(self._response)

    async def close(self) -> None:
        """End the request, whatever of the answer has arrived."""
        if self._events is not None:
            await self._events.aclose()
        await self._response.aclose()


@asynccontextmanager
async def stream(
    url: str, body: JsonObject, *, headers: Mapping[str, str], idle_timeout: float
) -> AsyncGenerator[StreamingAnswer]:
    """Send a JSON body and open the answer, which is closed with the context.

    The environment's proxies and certificates count. A redirect is followed to the same scheme, host and port only.

    Args:
        url: Where to send it.
        body: The JSON object to send.
        headers: Beside those that every request has; they may replace these.
        idle_timeout: How many seconds the server may be silent.

    Yields:
        The answer, whose status is below 300.

    Raises:
        UsageError: A header holds what none can hold, the environment names certificates or a proxy that cannot be
            used, or the server sends the request elsewhere.
        HttpStatusError: The server answered with an error.
        httpx2.TransportError: It could not be reached, or the connection broke.
    """
    import httpx2

    content = json_bytes(body)
    raw = [(name.encode(), value.encode()) for name, value in merged_headers(_HEADERS, headers).items()]
    # One client for each request: kept connections would outlive the event loop, and nothing could close them then.
    with naming_proxies():
        client = httpx2.AsyncClient(
            verify=_context(url),
            timeout=httpx2.Timeout(idle_timeout, connect=min(_CONNECT_SECONDS, idle_timeout)),
            follow_redirects=False,
        )
    async with client:
        request = client.build_request("POST", url, content=content, headers=raw)
        response = await _send(client, request)
        answer = StreamingAnswer(response)
        try:
            if not response.is_success:
                raise HttpStatusError(
                    response.status_code, response.reason_phrase, response.headers, await _beginning(response)
                )
            yield answer
        finally:
            await answer.close()


@contextmanager
def naming_proxies() -> Generator[None]:
    """Say that it is the environment's proxies for which the library cannot make a client.

    Raises:
        UsageError: They need a package that is not installed, or are none.
    """
    import httpx2

    try:
        yield
    except (ValueError, httpx2.InvalidURL) as error:
        raise UsageError(f"The environment names a proxy that cannot be used: {one_line(str(error))}.") from error
    except ImportError as error:
        if "socksio" not in str(error):
            raise
        raise UsageError(
            'The environment names a SOCKS proxy, for which a package is missing: pip install "httpx2[socks]".'
        ) from error


def preload(*, tls: bool = True) -> None:
    """Import what the first request needs, and read the certificates.

    Args:
        tls: Whether the servers to come are asked over TLS.
    """
    # The last two are imported by name, when the first connection is opened.
    for name in ("httpx2", "httpcore2", "anyio._backends._asyncio", "h11"):
        importlib.import_module(name)
    if tls:
        tls_context()


def merged_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by their lower-case names; later layers replace what earlier ones say.

    Blanks and line ends around a value are no part of it.

    Raises:
        UsageError: A name or a value holds a character that no header has.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.items():
            # The library would tell of either as a problem of the connection, and quote the value in its own way.
            known, said = name.lower(), value.strip()
            if not (name and name.isascii() and _IN_NAMES.issuperset(known)) or not all(map(_can_be_said, said)):
                raise UsageError(f"The header {one_line(name)} holds a character that no header has: write it anew.")
            merged[known] = said
    return merged


def _can_be_said(char: str) -> bool:
    """Whether it may stand in a header's value; of a value that is no UTF-8 the environment makes surrogates."""
    return (" " <= char != "\x7f" and not "\ud800" <= char <= "\udfff") or char == "\t"


def headers_in(text: str) -> dict[str, str]:
    """The headers in the value of a variable, which holds one on each line; what is no header is left out."""
    pairs = [line.partition(":") for line in text.split("\n") if ":" in line]
    return {name.strip(): value.strip() for name, _, value in pairs}


def json_bytes(body: JsonObject) -> bytes:
    """``body`` as it is sent."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def joined_url(base_url: str, path: str) -> str:
    """Return a base URL with a path behind its own; what it has of a query stays behind both.

    >>> joined_url("https://example.org/api/?tenant=1", "/v1/messages")
    'https://example.org/api/v1/messages?tenant=1'

    Args:
        base_url: The base URL; one slash at the end of its path makes no difference.
        path: The path, beginning with a slash.

    Returns:
        The URL to ask.
    """
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=parts.path.removesuffix("/") + path, fragment=""))


def _context(url: str) -> ssl.SSLContext:
    import ssl

    # Without certificates it is cheap to make, and it trusts nobody.
    return tls_context() if urlsplit(url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _send(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    redirects = 0
    while (following := (response := await client.send(request, stream=True)).next_request) is not None:
        await response.aclose()
        redirects += 1
        if following.method != "POST" or _origin(following.url) != _origin(request.url) or redirects > _MAX_REDIRECTS:
            # Neither the conversation nor a key goes to where nobody has sent it.
            raise UsageError(
                f"{shown_url(str(request.url))} redirects to {one_line(shown_url(str(following.url)))} (status "
                f"{response.status_code}), where the conversation is not sent on its own. If that is the right place, "
                "set it as the base URL."
            )
        request = following
    return response


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


async def _beginning(response: httpx2.Response) -> object:
    content = bytearray()
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            content += piece
            if len(content) > _MAX_ERROR_BYTES:
                break
    return json_or_text(content[:_MAX_ERROR_BYTES].decode(errors="replace").strip())
