"""OpenAI's two APIs over the official SDK: chat completions, which many servers speak, and OpenAI's own responses.

``_ask`` sends one request and lets an ``Answer`` make events of what comes back. Failures are described in
words that a user, and a retry, can act on.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from indus_nb.errors import IndusError, UsageError
from indus_nb.providers import openai_completions, openai_responses
from indus_nb.providers.catalog import Model
from indus_nb.providers.conforming import conforming
from indus_nb.providers.failures import (
    check_key,
    check_stream,
    check_url,
    one_line,
    retry_after,
    root_cause,
    transport_sentence,
)
from indus_nb.providers.openai_common import Answer, StreamedError, object_in
from indus_nb.providers.protocol import Context, StreamOptions
from indus_nb.providers.refusals import explain
from indus_nb.providers.tls import tls_context
from indus_nb.redaction import hide_shapes, shown_url
from indus_nb.streaming import AssistantMessageEvent
from indus_nb.wire import JsonObject

if TYPE_CHECKING:
    import openai

_HINT = "Check the network and the model's base URL."
_NO_KEY = "none"  # the SDK insists on one; servers of one's own look at none


class _SdkProvider:
    """What reaches models over the SDK. ``idle_timeout`` is how many seconds the server may be silent."""

    def __init__(self, *, idle_timeout: float = 300) -> None:
        self._idle_timeout = idle_timeout

    def preload(self) -> None:
        """Import the SDK with what a first request makes it load."""
        _client(_NO_KEY, "https://localhost", {}, self._idle_timeout)


class OpenAICompletionsProvider(_SdkProvider):
    """Reaches models by chat completions, at OpenAI's or any other server.

    See ``openai_completions`` for its kinds.
    """

    def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[AssistantMessageEvent]:
        """Send one request and yield the answer; see ``Provider.stream``.

        Retries are the caller's.

        Args:
            model: The model to ask.
            context: System prompt, messages and tools, as the session holds them.
            options: Key, thinking level, limits and callbacks.

        Returns:
            The events of one answer.
        """
        answer = openai_completions.CompletionsAnswer(model)
        request = _Request("/chat/completions", openai_completions.request_body, model, context, options)
        return _ask(request, answer, options.idle_timeout or self._idle_timeout)


class OpenAIResponsesProvider(_SdkProvider):
    """Reaches models by the Responses API, which is OpenAI's own."""

    def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[AssistantMessageEvent]:
        """Send one request and yield the answer; see ``Provider.stream``.

        Retries are the caller's.

        Args:
            model: The model to ask.
            context: System prompt, messages and tools, as the session holds them.
            options: Key, thinking level, limits and callbacks.

        Returns:
            The events of one answer.
        """
        answer = openai_responses.ResponsesAnswer(model)
        request = _Request("/responses", openai_responses.request_body, model, context, options)
        return _ask(request, answer, options.idle_timeout or self._idle_timeout)


@dataclass(frozen=True, slots=True)
class _Request:
    path: str
    write: Callable[[Model, Context, StreamOptions], JsonObject]
    model: Model
    context: Context
    options: StreamOptions

    async def body(self) -> JsonObject:
        body = self.write(self.model, await conforming(self.context, self.model), self.options)
        return body if self.options.on_request is None else await self.options.on_request(body)


async def _ask(request: _Request, answer: Answer, idle_timeout: float) -> AsyncGenerator[AssistantMessageEvent]:
    model, options = request.model, request.options
    where = shown_url(model.base_url)
    key = (options.api_key or "").strip() or _NO_KEY
    secrets = [key, *model.headers.values()]
    body: JsonObject = {}
    reached = False
    try:
        _check(model, key)
        body = await request.body()
        async with _client(key, model.base_url, model.headers, idle_timeout) as client:
            from openai import AsyncStream

            # Not the typed methods: making their objects costs three times what the plain ones do.
            events = await client.post(
                request.path, cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
            )
            reached = True
            if options.on_response is not None:
                await options.on_response(events.response.status_code, events.response.headers)
            async with events:
                await check_stream(events.response.headers, events.response.aiter_bytes())
                async for event in events:
                    for update in answer.handle(event):
                        yield update
                    if answer.complete:
                        break
        early = f"The stream from {where} ended early, before the answer was complete. Try again; "
        problem = answer.problem or (None if answer.whole else f"{early}what had arrived is kept.")
    except Exception as error:  # noqa: BLE001 - by the protocol, whatever goes wrong with a request is data
        lost_after_all = answer.whole and _is_transport(error)
        problem = answer.problem if lost_after_all else _sentence(error, model, where, idle_timeout, reached=reached)
        if problem and isinstance(status := getattr(error, "status_code", None), int):
            problem += explain(status, f"{getattr(error, 'param', None) or ''} {problem}", body, model)
    if not answer.started:
        yield answer.growing.start()
    if problem:
        yield answer.growing.fail(hide_shapes(problem, secrets))
    else:
        for update in answer.end():
            yield update
        yield answer.growing.finish(answer.stop_reason)


def _check(model: Model, key: str) -> None:
    """Raise ``IndusError`` for a URL that is none, and for what no header can hold: the SDK would show the value."""
    check_url(model.base_url, "Correct the model's base URL.")
    check_key(key, model)
    for name, value in model.headers.items():
        if not (name.isascii() and value.isascii() and (name + value).isprintable()):
            raise UsageError(
                f"The header {one_line(name)} of {model.provider} holds a character that no header has: write it anew."
            )


def _is_openai(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host == "openai.com" or host.endswith(".openai.com")


def _client(key: str, base_url: str, headers: Mapping[str, str], idle_timeout: float) -> openai.AsyncOpenAI:
    # One client for each request: kept connections would outlive the event loop, and nothing could close them then.
    try:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit, Timeout
    except ModuleNotFoundError as error:
        raise UsageError(
            f'The {error.name} package, which reaches this model, is not installed: pip install "indus_nb[openai]".'
        ) from error

    # What the environment sets for OpenAI is not for other servers.
    is_openai = _is_openai(base_url)
    ambient = "" if is_openai else os.environ.get("OPENAI_CUSTOM_HEADERS", "")
    unwanted: dict[str, Any] = {line.partition(":")[0].strip(): Omit() for line in ambient.split("\n") if ":" in line}
    client = AsyncOpenAI(
        api_key=key,
        base_url=base_url,
        default_headers={**unwanted, **headers},
        max_retries=0,
        timeout=Timeout(idle_timeout, connect=min(10, idle_timeout)),
        http_client=DefaultAsyncHttpxClient(verify=tls_context()),
    )
    if not is_openai:
        client.organization = client.project = None
    return client


# --- what goes wrong -------------------------------------------------------------------------------------------------


def _kinds(error: Exception) -> set[str]:
    # Below the SDK is one of two HTTP libraries, by its version; both call their errors the same.
    return {kind.__name__ for kind in type(error).__mro__}


def _is_transport(error: Exception) -> bool:
    return bool(_kinds(error) & {"APIConnectionError", "TransportError"})


def _sentence(error: Exception, model: Model, where: str, idle_timeout: float, *, reached: bool) -> str:
    """What happened, where, and what to do. The words are those by which a passing failure is known."""
    if isinstance(error, IndusError):
        return str(error)
    import openai

    if isinstance(error, openai.APIStatusError):
        return _status_sentence(error, model, where)
    if (sentence := transport_sentence(error, where, idle_timeout, reached=reached, hint=_HINT)) is not None:
        return sentence
    detail = one_line(str(root_cause(error))) or type(root_cause(error)).__name__
    if isinstance(error, StreamedError | openai.APIError):
        body = error.fields if isinstance(error, StreamedError) else error.body
        return f"{_reason(body, with_number=True) or detail} (in the stream from {where})"
    if isinstance(error, ValueError):
        detail = f"{detail}. Try again, and check the model's base URL if it goes on; what had arrived is kept."
        return f"The stream from {where} is not what {model.api} sends: {detail}"
    return f"The request to {where} failed: {type(error).__name__}: {detail}"


def _status_sentence(error: openai.APIStatusError, model: Model, where: str) -> str:
    status = error.status_code
    reason = _reason(error.body) or f"{error.response.reason_phrase or 'error'} from {where}"
    hint = ""
    if status in (401, 403):
        hint = f". Check the key for {model.provider}."
    elif status == 404:
        hint = ". Check the model's id and base URL."
    wait = retry_after(error.response.headers)
    return f"{status} {reason}{f' (retry after {wait:g} s)' if wait is not None else ''}{hint}"


def _reason(body: object, *, with_number: bool = False) -> str | None:
    """The server's words: each kind of server has a shape of its own for them."""
    if isinstance(body, list):
        body = next(iter(cast("list[object]", body)), None)
    if isinstance(body, str):
        return f"error: {one_line(body)}" if body.strip() and not body.lstrip().startswith("<") else None
    if not isinstance(body, dict):
        return None
    fields = cast("JsonObject", body)
    fields = object_in(fields, "error") or fields
    message: object = fields.get("message") or fields.get("detail") or fields.get("error") or "no reason given"
    names = [
        name
        for name in (fields.get("type"), fields.get("status"), fields.get("code"))
        if name and isinstance(name, str)
    ]
    named = one_line(" ".join(dict.fromkeys(names))) or "error"
    number = f"{fields['code']} " if with_number and isinstance(fields.get("code"), int) else ""
    return f"{number}{named}: {one_line(message if isinstance(message, str) else json.dumps(message))}"
