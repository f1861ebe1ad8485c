"""OpenAI's two APIs over HTTP: chat completions, which many servers speak, and OpenAI's own responses.

``_ask`` sends one request and lets an ``OpenAIAnswer`` make events of what comes back. Failures are described in
words that a user, and a retry, can act on.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from typing import cast

from indus_nb.base.errors import IndusError
from indus_nb.base.streaming import AssistantMessageEvent
from indus_nb.base.wire import JsonObject, collection_paused
from indus_nb.models.apis import openai_completions, openai_responses
from indus_nb.models.apis.conforming import conforming
from indus_nb.models.apis.openai_common import OpenAIAnswer, object_in
from indus_nb.models.apis.rules import is_openai
from indus_nb.models.catalog import Model
from indus_nb.models.http import http
from indus_nb.models.http.failures import (
    check_key,
    check_stream,
    check_url,
    is_transport,
    one_line,
    retry_after,
    root_cause,
    transport_sentence,
)
from indus_nb.models.http.handling import updates
from indus_nb.models.http.refusals import MOST_SENT, explain, forgo, note_answer, note_key
from indus_nb.models.http.sse import StreamedError
from indus_nb.models.protocol import Context, StreamOptions
from indus_nb.safety.redaction import hide_shapes, shown_url

_HINT = "Check the network and the model's base URL."
_NO_KEY = "none"  # there are servers that want a key and look at none


class _Provider:
    """Base of both providers. ``idle_timeout`` is how many seconds the server may be silent."""

    def __init__(self, *, idle_timeout: float = 300) -> None:
        self._idle_timeout = idle_timeout

    def preload(self) -> None:
        """Import what a first request loads."""
        http.preload()


class OpenAICompletionsProvider(_Provider):
    """A provider for chat completions, at OpenAI's or any other server.

    See ``openai_completions`` for its kinds.
    """

    def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[AssistantMessageEvent]:
        """Send one request and yield the answer; see ``Provider.stream``.

        Retries are the caller's.

        Args:
            context: System prompt, messages and tools, as the session holds them.
        """
        answer = openai_completions.CompletionsAnswer(model, options)
        request = _Request("/chat/completions", openai_completions.request_body, model, context, options)
        return _ask(request, answer, options.idle_timeout or self._idle_timeout)


class OpenAIResponsesProvider(_Provider):
    """A provider for the Responses API, which is OpenAI's own."""

    def stream(self, model: Model, context: Context, options: StreamOptions) -> AsyncGenerator[AssistantMessageEvent]:
        """Send one request and yield the answer; see ``Provider.stream``.

        Retries are the caller's.

        Args:
            context: System prompt, messages and tools, as the session holds them.
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
        conformed = await conforming(self.context, self.model)
        with collection_paused():
            body = self.write(self.model, conformed, self.options)
        on_request = self.options.on_request
        return body if on_request is None else await on_request(body)


async def _ask(request: _Request, answer: OpenAIAnswer, idle_timeout: float) -> AsyncGenerator[AssistantMessageEvent]:
    model, options = request.model, request.options
    where = shown_url(model.base_url)
    key = (options.api_key or "").strip() or _NO_KEY
    more_headers = http.headers_in(os.environ.get("OPENAI_CUSTOM_HEADERS", "")) if is_openai(model.base_url) else {}
    secrets = [key, *model.headers.values(), *more_headers.values()]
    problem: str | None = None
    for number in range(MOST_SENT):
        body: JsonObject = {}
        reached = False
        try:
            check_url(model.base_url, "Correct the model's base URL.")
            check_key(key, model)
            own_headers = {"authorization": f"Bearer {key}", **_membership(model)}
            headers = http.merged_headers(own_headers, more_headers, model.headers)
            body = await request.body()
            url = http.joined_url(model.base_url, request.path)
            async with http.stream(url, body, headers=headers, idle_timeout=idle_timeout) as reply:
                if options.on_response is not None:
                    await options.on_response(reply.status, reply.headers)
                reached = True
                note_answer(options.api_key, model)
                await check_stream(reply.headers, reply.content())
                async for events in reply.events():
                    for update in updates(answer, events):
                        yield update
                    if answer.complete:
                        break
            early = f"The stream from {where} ended early, before the answer was complete. Try again; "
            problem = answer.problem or (None if answer.whole else f"{early}what had arrived is kept.")
        except Exception as error:  # noqa: BLE001 - by the protocol, whatever goes wrong with a request is data
            lost = answer.whole and is_transport(error)
            problem = answer.problem if lost else _sentence(error, model, where, idle_timeout, reached=reached)
            if problem and isinstance(error, http.HttpStatusError):
                reason = f"{_fields(error.body).get('param') or ''} {problem}"
                note_key(error.status_code, reason, options.api_key, model)
                if forgo(error.status_code, reason, body, model) and number + 1 < MOST_SENT:
                    continue
                problem += explain(error.status_code, reason, body, model)
        break
    for event in _ending(answer, hide_shapes(problem, secrets) if problem else None):
        yield event


def _ending(answer: OpenAIAnswer, problem: str | None) -> Iterator[AssistantMessageEvent]:
    if not answer.started:
        yield answer.growing.start()
    if problem:
        yield answer.growing.fail(problem)
    else:
        yield from answer.end()
        yield answer.growing.finish(answer.stop_reason)


def _membership(model: Model) -> dict[str, str]:
    """Return headers that name the account to charge; empty for servers other than OpenAI's."""
    if not is_openai(model.base_url):
        return {}
    named = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
    return {name: os.environ[variable] for name, variable in named.items() if variable in os.environ}


# --- what goes wrong -------------------------------------------------------------------------------------------------


def _sentence(error: Exception, model: Model, where: str, idle_timeout: float, *, reached: bool) -> str:
    """Describe what happened, where, and what to do, in words by which a passing failure is known."""
    if isinstance(error, IndusError):
        return str(error)
    if isinstance(error, http.HttpStatusError):
        return _status_sentence(error, model, where)
    if isinstance(error, StreamedError):
        return f"{_reason(error.body, with_number=True) or error} (in the stream from {where})"
    if (sentence := transport_sentence(error, where, idle_timeout, reached=reached, hint=_HINT)) is not None:
        return sentence
    detail = one_line(str(root_cause(error))) or type(root_cause(error)).__name__
    if reached and isinstance(error, ValueError):
        detail = f"{detail}. Try again, and check the model's base URL if it goes on; what had arrived is kept."
        return f"The stream from {where} is not what {model.api} sends: {detail}"
    return f"The request to {where} failed: {type(error).__name__}: {detail}"


def _status_sentence(error: http.HttpStatusError, model: Model, where: str) -> str:
    status = error.status_code
    reason = _reason(error.body) or f"{error.reason_phrase or 'error'} from {where}"
    hint = ""
    if status in (401, 403):
        hint = f". Check the key for {model.provider}."
    elif status == 404:
        hint = ". Check the model's id and base URL."
    wait = retry_after(error.headers)
    return f"{status} {reason}{f' (retry after {wait:.10g} s)' if wait is not None else ''}{hint}"


def _fields(body: object) -> JsonObject:
    """Return the fields of an error response, without the usual wrapping; empty if it is no object."""
    fields = cast("JsonObject", body) if isinstance(body, dict) else {}
    return object_in(fields, "error") or fields


def _reason(body: object, *, with_number: bool = False) -> str | None:
    """Return the server's words: each kind of server has a shape of its own for them."""
    if isinstance(body, list):
        body = next(iter(cast("list[object]", body)), None)
    if isinstance(body, str):
        return f"error: {one_line(body)}" if body.strip() and not body.lstrip().startswith("<") else None
    if not isinstance(body, dict):
        return None
    fields = _fields(cast("object", body))
    message: object = fields.get("message") or fields.get("detail") or fields.get("error") or "no reason given"
    names = [
        name
        for name in (fields.get("type"), fields.get("status"), fields.get("code"))
        if name and isinstance(name, str) and name != "error"
    ]
    named = one_line(" ".join(dict.fromkeys(names))) or "error"
    number = f"{fields['code']} " if with_number and isinstance(fields.get("code"), int) else ""
    return f"{number}{named}: {one_line(message if isinstance(message, str) else json.dumps(message))}"
