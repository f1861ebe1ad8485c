"""One streaming request over HTTP: the base of every provider without an SDK.

A request that no proxy stands before is made by ``direct``. For others there is the library that the official SDKs
stand on, which is imported when the first of them is made, or by ``preload`` before that.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject, encodable
from indus_nb.models.http import direct
from indus_nb.models.http.bodies import IDENTITY, MAX_STREAM_BYTES, Pace, beginning, begun_in_time, bounded
from indus_nb.models.http.failures import one_line
from indus_nb.models.http.sse import EventDecoder, StreamedError, json_or_text
from indus_nb.models.http.tls import tls_context
from indus_nb.safety.redaction import shown_url
from indus_nb.version import __version__

if TYPE_CHECKING:
    import ssl

    import httpx2

_CONNECT_SECONDS = 10.0
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_REPEATS = (307, 308)
_MOST_TOGETHER = 128
_ALLOWED = re.compile(r"[\t -~\x80-\ud7ff\ue000-\U0010ffff]*").fullmatch
"""What a header's value may be; surrogates come from variables that are no UTF-8."""
_IN_NAMES = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_HEADERS = {
    **IDENTITY,
    "accept": "application/json",
    "content-type": "application/json",
    "user-agent": f"indus_nb/{__version__}",
}


class HttpStatusError(Exception):
    """An error status of a server.

    Attributes:
        reason_phrase: Its name, by the server or by the standard; may be empty.
        body: The value of its body's JSON, else its text, of both the first megabyte.
        request_id: By what the server knows the request, if it says so.
    """

    def __init__(self, status_code: int, reason_phrase: str, headers: Mapping[str, str], body: object) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code
        self.reason_phrase = reason_phrase
        self.headers = headers
        self.body = body
        self.request_id: str | None = headers.get("request-id") or headers.get("x-request-id")


class StreamingAnswer:
    """An answer that has begun: ``status``, ``headers``, and the events as they arrive."""

    def __init__(self, response: httpx2.Response | direct.DirectResponse, idle_timeout: float) -> None:
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._idle_timeout = idle_timeout
        self._events: AsyncGenerator[list[Any]] | None = None

    def content(self) -> AsyncGenerator[bytes]:
        """Return the raw body; see ``check_stream``."""
        return bounded(self._response.aiter_raw(), self.headers, limit=MAX_STREAM_BYTES)

    def events(self) -> AsyncGenerator[list[Any]]:
        """Yield the decoded data of events, see ``decoded_events``; can be called once.

        Raises:
            StreamedError: The server reports an error.
            ValueError: What it sent is no UTF-8 or no JSON, an event does not end, or there are too many.
        """
        self._events = decoded_events(self.content())
        return self._events

    async def value(self) -> object:
        """Return the body's first megabyte: the value of its JSON, else its text."""
        async with begun_in_time(self._idle_timeout):
            return json_or_text(await beginning(self._response.aiter_raw(), self.headers))

    async def close(self, *, ended: bool = False) -> None:
        """Close the request, whatever of the answer has arrived."""
        if self._events is not None:
            await self._events.aclose()
        if isinstance(self._response, direct.DirectResponse):
            await self._response.aclose(ended=ended)
        else:
            await self._response.aclose()


async def decoded_events(content: AsyncGenerator[bytes]) -> AsyncGenerator[list[Any]]:
    """Yield the decoded data of the events of a bounded body, which is closed at the end.

    Those that arrived together come together, up to a limit.

    Raises:
        StreamedError: The server reports an error.
        ValueError: What it sent is no UTF-8 or no JSON, an event does not end, or there are too many.
    """
    decoder, pace = EventDecoder(), Pace()
    async with aclosing(content):
        async for piece in content:
            events: list[Any] = []
            try:
                for event in decoder.feed(piece):
                    events.append(event)
                    if len(events) == _MOST_TOGETHER:
                        yield events
                        events = []
                        await pace.rest()
            except (ValueError, StreamedError):
                if events:
                    yield events
                raise
            if events:
                yield events
                await pace.rest()
            if decoder.is_done:
                return
    if events := list(decoder.end()):
        yield events


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
    content, known = json_bytes(body), merged_headers(_HEADERS, headers)
    opening = _asked_directly if direct.suits(url) else _asked_by_library
    async with opening(url, content, known, idle_timeout) as response:
        answer = StreamingAnswer(response, idle_timeout)
        try:
            if not 200 <= response.status_code < 300:
                raise HttpStatusError(
                    response.status_code, response.reason_phrase, response.headers, await answer.value()
                )
            yield answer
            await answer.close(ended=True)
        finally:
            await answer.close()


@asynccontextmanager
async def _asked_directly(
    url: str, content: bytes, headers: Mapping[str, str], idle_timeout: float
) -> AsyncGenerator[direct.DirectResponse]:
    tls = tls_context() if url.startswith("https:") else None
    seconds = (min(_CONNECT_SECONDS, idle_timeout), idle_timeout)
    for tried in range(_MAX_REDIRECTS + 1):
        async with AsyncExitStack() as open_until_then:
            async with begun_in_time(idle_timeout):
                response = await open_until_then.enter_async_context(
                    direct.posted(url, content, headers, tls=tls, seconds=seconds)
                )
            location = response.headers.get("location")
            if location is None or response.status_code not in _REDIRECTS:
                yield response
                return
        with suppress(ValueError):
            target = urljoin(url, location)
            is_same = urlsplit(target)[:2] == urlsplit(url)[:2]
            if is_same and response.status_code in _REPEATS and tried < _MAX_REDIRECTS and direct.suits(target):
                url = target
                continue
        raise redirected(url, location, response.status_code)


@asynccontextmanager
async def _asked_by_library(
    url: str, content: bytes, headers: Mapping[str, str], idle_timeout: float
) -> AsyncGenerator[httpx2.Response]:
    async with _client(url, idle_timeout) as client:
        request = client.build_request("POST", url, content=content, headers=_raw(headers))
        async with begun_in_time(idle_timeout):
            response = await _send(client, request)
        yield response


async def fetched(url: str, *, headers: Mapping[str, str], seconds: float) -> object:
    """Fetch the JSON value at a URL, or its text, of both the first megabyte; redirects are not followed.

    Args:
        url: What to get.
        headers: Beside those that every request has; they may replace these.
        seconds: How long the server may be silent.

    Raises:
        UsageError: See ``stream``.
        HttpStatusError: The server answered with another status than success.
        httpx2.TransportError: It could not be reached, or the connection broke.
    """
    async with _client(url, seconds) as client:
        request = client.build_request("GET", url, headers=_raw(merged_headers(_HEADERS, headers)))
        async with begun_in_time(seconds):
            response = await client.send(request, stream=True)
        answer = StreamingAnswer(response, seconds)
        try:
            value = await answer.value()
        finally:
            await answer.close()
    if not response.is_success:
        raise HttpStatusError(response.status_code, response.reason_phrase, response.headers, value)
    return value


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _client(url: str, idle_timeout: float) -> httpx2.AsyncClient:
    """Make a client for one request: kept connections would outlive the event loop, and nothing could close them."""
    import httpx2

    with naming_proxies():
        return httpx2.AsyncClient(
            verify=_context(url),
            timeout=httpx2.Timeout(idle_timeout, connect=min(_CONNECT_SECONDS, idle_timeout)),
            follow_redirects=False,
            trust_env=not direct.is_on_this_machine(url),
        )


@contextmanager
def naming_proxies() -> Generator[None]:
    """Name the environment's proxies as the cause when the library cannot make a client for them.

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
    # Some are imported by name, when the first connection is opened.
    for name in (
        ("h11",) if direct.suits("https://localhost") else ("httpx2", "httpcore2", "anyio._backends._asyncio", "h11")
    ):
        importlib.import_module(name)
    if tls:
        tls_context()


def merged_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by their lower-case names; later layers override earlier ones.

    Blanks and line ends around a value are no part of it.

    Raises:
        UsageError: A name or a value holds a character that no header has.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.items():
            # The library would tell of either as a problem of the connection, and quote the value in its own way.
            lower, text = name.lower(), value.strip()
            if not (name and name.isascii() and _IN_NAMES.issuperset(lower)) or _ALLOWED(text) is None:
                raise UsageError(f"The header {one_line(name)} holds a character that no header has: write it anew.")
            merged[lower] = text
    return merged


def headers_in(text: str) -> dict[str, str]:
    """Parse the headers of a variable, one on each line; skip what is no header."""
    pairs = [line.partition(":") for line in text.split("\n") if ":" in line]
    return {name.strip(): value.strip() for name, _, value in pairs}


def json_bytes(body: JsonObject) -> bytes:
    """Encode ``body`` as it is sent, lone surrogates and non-finite numbers replaced."""
    try:
        return _json_bytes(body)
    except ValueError:  # rare, and looking for them takes longer than writing all of it
        return _json_bytes(encodable(body))


def _json_bytes(body: JsonObject) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def joined_url(base_url: str, path: str) -> str:
    """Append a path to a base URL; the base's query stays behind both.

    >>> joined_url("https://example.org/api/?tenant=1", "/v1/messages")
    'https://example.org/api/v1/messages?tenant=1'

    Args:
        base_url: The base URL; one slash at the end of its path makes no difference.

    Returns:
        The URL to ask.
    """
    parts = urlsplit(base_url)
    return urlunsplit(parts._replace(path=parts.path.removesuffix("/") + path, fragment=""))


def _context(url: str) -> ssl.SSLContext:
    import ssl

    # Without certificates it is cheap to make, and it trusts no server.
    return tls_context() if urlsplit(url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def _send(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    redirects = 0
    while (following := (response := await client.send(request, stream=True)).next_request) is not None:
        await response.aclose()
        redirects += 1
        if following.method != "POST" or _origin(following.url) != _origin(request.url) or redirects > _MAX_REDIRECTS:
            raise redirected(str(request.url), str(following.url), response.status_code)
        request = following
    return response


def redirected(url: str, location: str, status: int) -> UsageError:
    """Describe a redirect that is not followed: neither the conversation nor a key goes to an unintended host.

    Args:
        location: Where it sends the request, by its own words.
    """
    with suppress(ValueError):
        location = urljoin(url, location)
    return UsageError(
        f"{shown_url(url)} redirects to {one_line(shown_url(location))} (status {status}), where the conversation is "
        "not sent on its own. If that is the right place, set it as the base URL."
    )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
