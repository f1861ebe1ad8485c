"""Anthropic's Message Batches API: requests that are answered within a day, at half the price.

A request looks as it does when it is streamed, and its answer is read by the same code: ``BatchProvider`` only sends
it another way. ``BatchClient`` is the official SDK's, with failures as those of ``AnthropicProvider``. It repeats
nothing by itself, for a batch that is sent twice is paid twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.installed import how_to_install
from indus_nb.base.wire import JsonObject, encodable, from_json
from indus_nb.models.apis.anthropic import AnthropicProvider, Reply, betas, whole_reply
from indus_nb.models.catalog import Model
from indus_nb.models.http import http
from indus_nb.models.http.bodies import MAX_STREAM_BYTES
from indus_nb.models.http.failures import check_key, check_url, is_transport
from indus_nb.models.http.tls import tls_context
from indus_nb.models.protocol import StreamOptions

if TYPE_CHECKING:
    import anthropic
    from anthropic.types.messages import MessageBatch

CANCELLED = "410 The batch was cancelled before this request was answered. Ask for the row again."
"""With a status that says that the server will not answer, so that nothing is tried again or counted."""
_SHARE = 0.5  # of the usual price
_SECONDS = 600.0  # a batch may be large
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_PASSING = (408, 409, 429)
_NOT_REACHED = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}


def at_half_price(model: Model) -> Model:
    """Return a model with the prices of a batch, by which all that counts money goes.

    Raises:
        UsageError: Batches are not for models of this provider.
    """
    if model.api != "anthropic-messages" or model.provider != "anthropic":
        raise UsageError(
            f"Batches are for Anthropic's own models, and {model.provider}/{model.id} is none of them. "
            "Name one of them as the model, or leave out batch."
        )
    cost = model.cost
    long = cost.long_prompt
    if long is not None:
        long = long.replace(**_halved(long))
    return model.replace(cost=cost.replace(**_halved(cost), long_prompt=long, of_batch=True))


def _halved(prices: Any) -> dict[str, float]:
    return {name: getattr(prices, name) * _SHARE for name in ("input", "output", "cache_read", "cache_write")}


@dataclass(frozen=True, slots=True)
class Batch:
    """State of a batch as the server reports it.

    Attributes:
        created: When it was made, in seconds since 1970.
        is_lost: Whether its results are there no more.
    """

    id: str
    created: float
    requests: int
    status: str
    is_lost: bool

    @property
    def ended(self) -> bool:
        """Return whether all its requests are done."""
        return self.status == "ended"


def _batch(made: MessageBatch) -> Batch:
    counts = made.request_counts
    return Batch(
        made.id,
        made.created_at.timestamp(),
        counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired,
        made.processing_status,
        made.archived_at is not None or (made.processing_status == "ended" and made.results_url is None),
    )


class BatchClient:
    """A client of the batches endpoint; ``close`` it."""

    def __init__(self, client: anthropic.AsyncAnthropic) -> None:
        self._sdk = client
        self._batches = client.messages.batches

    async def create(self, requests: Sequence[tuple[str, JsonObject]]) -> Batch:
        """Submit requests as a batch.

        Args:
            requests: The name of each, which no other has, and its body.
        """
        headers: dict[str, str] = {}
        for _, body in requests:
            headers |= betas(body, interleaved=True)  # which servers ignore for a model that needs no telling
        sent: Any = [{"custom_id": name, "params": encodable(body)} for name, body in requests]
        with _described():
            return _batch(await self._batches.create(requests=sent, extra_headers=headers))

    async def retrieve(self, batch: str) -> Batch:
        """Return the current state of a batch."""
        with _described():
            return _batch(await self._batches.retrieve(batch))

    async def since(self, created: float) -> list[Batch]:
        """Return the batches that were made since then, the newest first."""
        found: list[Batch] = []
        with _described():
            async for made in self._batches.list(limit=100):
                if (batch := _batch(made)).created < created:
                    break
                found.append(batch)
        return found

    async def results(self, batch: str) -> AsyncGenerator[tuple[str, JsonObject]]:
        """Yield each request's name and result of a batch that has ended, in no order."""
        with _described():
            # As bytes: the SDK's decoder takes fields away that it does not know.
            response = (await self._batches.results(batch)).http_response
            try:
                async for line in _lines(response.aiter_bytes()):
                    match from_json(line):
                        case {"custom_id": str(name), "result": {} as result}:
                            yield name, cast("JsonObject", result)
                        case _:
                            continue
            finally:
                await response.aclose()

    async def cancel(self, batch: str) -> None:
        """Cancel the requests of a batch that have not begun."""
        with _described():
            await self._batches.cancel(batch)

    async def close(self) -> None:
        """Close its connections."""
        await self._sdk.close()


async def _lines(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for piece in content:
        *lines, last = piece.split(b"\n")
        for line in lines:
            yield bytes(rest + line)
            rest.clear()
        rest += last
        if len(rest) > MAX_STREAM_BYTES:
            raise IndusError(f"A result of a batch has more than {MAX_STREAM_BYTES:,} bytes. It was not read.")
    if rest:
        yield bytes(rest)


@contextmanager
def _described() -> Generator[None]:
    """Raise the same exceptions as the other ways to the API."""
    from anthropic import APIConnectionError, APIStatusError

    broken: Exception | None = None
    try:
        yield
    except APIStatusError as error:
        response = error.response
        raise http.HttpStatusError(error.status_code, response.reason_phrase, response.headers, error.body) from error
    except APIConnectionError as error:
        broken = error.__cause__ if isinstance(error.__cause__, Exception) else error
    if broken is not None:
        raise broken  # here, for within the handler its context would be what it has caused: a circle


def is_passing(error: Exception) -> bool:
    """Return whether a retry may work soon: the server is busy, or the connection broke."""
    if isinstance(error, http.HttpStatusError):
        return error.status_code in _PASSING or error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return _is_of_line(error)


def may_have_been_accepted(error: Exception) -> bool:
    """Return whether the server may have made a batch although it did not say so."""
    if isinstance(error, http.HttpStatusError):
        return error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return _is_of_line(error) and not _NOT_REACHED & {kind.__name__ for kind in type(error).__mro__}


def _is_of_line(error: Exception) -> bool:
    return is_transport(error) or type(error).__name__ in ("APIConnectionError", "APITimeoutError")


Opened: TypeAlias = Callable[[], Awaitable[BatchClient]]
Ask: TypeAlias = Callable[[str, JsonObject, Opened], Awaitable[JsonObject]]


class BatchProvider(AnthropicProvider):
    """A provider that reaches Claude by batches; ``StreamOptions.request_name`` names a request in its batch.

    Args:
        ask: Given the name of a request, its body, and what opens a client, returns the result of the request as the
            API has it.
    """

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask

    @asynccontextmanager
    async def _asked(self, model: Model, body: JsonObject, options: StreamOptions) -> AsyncGenerator[Reply]:
        if options.request_name is None:
            raise UsageError("A request of a batch needs a name.")
        whole = {key: value for key, value in body.items() if key != "stream"}

        async def opened() -> BatchClient:
            return await asyncio.to_thread(self._opened, model, options)

        message = _message(await self._ask(options.request_name, whole, opened))
        yield whole_reply(message)

    def _opened(self, model: Model, options: StreamOptions) -> BatchClient:
        try:
            from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Timeout
        except ModuleNotFoundError as error:
            raise UsageError(
                f"Batches need the package {error.name}, which is not installed: {how_to_install('batch')}."
            ) from None
        url, key = self._url(model), (options.api_key or "").strip()
        check_url(url, "Correct ANTHROPIC_BASE_URL, or the model's base URL.")
        check_key(key, model)
        with http.naming_proxies():
            client = DefaultAsyncHttpxClient(verify=tls_context() if url.startswith("https:") else False)
        return BatchClient(
            AsyncAnthropic(
                api_key=key or "none",
                base_url=url,
                max_retries=0,
                timeout=Timeout(_SECONDS, connect=10),
                default_headers=self._headers(model),
                http_client=client,
            )
        )


def _message(result: JsonObject) -> JsonObject:
    """Return the message in a result; raise what the request would have raised."""
    match result:
        case {"type": "succeeded", "message": {} as message}:
            return message
        case {"type": "errored", "error": {} as error}:
            raise _error(error)
        case {"type": "expired"}:
            words = "the batch ended after 24 hours, before this request had begun"
            raise _error({"error": {"type": "timeout_error", "message": words}})
        case {"type": "canceled"}:
            raise IndusError(CANCELLED)
        case _:
            raise IndusError("The result of this request is none that is known. Update indus_nb, or leave out batch.")


def _error(body: Mapping[str, Any]) -> http.HttpStatusError:
    inner: object = body.get("error")
    kind: object = cast("JsonObject", inner).get("type") if isinstance(inner, dict) else None
    return http.HttpStatusError(_STATUS.get(str(kind), 500), "", {}, body)
