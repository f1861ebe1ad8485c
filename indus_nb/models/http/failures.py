"""Failures of every provider: their cause, the wait to retry after, and words without secrets.

A sentence names what happened, where, and what to do, and its words are those by which ``indus_nb.core.loop.retry``
knows a failure that passes. What no second attempt mends (a wrong address, a certificate) is therefore described in
others.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

from indus_nb.base import textcut
from indus_nb.base.errors import CredentialsError, UsageError
from indus_nb.base.messages import REFUSED
from indus_nb.base.streaming import AnswerTooLargeError, AssistantMessageEvent, GrowingMessage
from indus_nb.models.catalog import Model
from indus_nb.models.http.bodies import BodyError, refused_packing
from indus_nb.models.http.direct import is_on_this_machine
from indus_nb.safety.redaction import shown_url

MAX_PAGE = 64 * 1024
_NOT_STREAMS = ("text/html", "application/json", "application/problem+json", "application/xhtml+xml")
_TRANSPORT = {"RequestError", "InvalidURL", "OSError", "EndOfStream"}
_HUNG_UP = {"SSLEOFError", "SSLZeroReturnError", "ConnectionResetError"}
_NOT_REACHED = {"ConnectError", "ConnectTimeout", "ProxyError", "PoolTimeout"}
_UNUSABLE_URL = {"InvalidURL", "UnsupportedProtocol"}


class NotAStreamError(Exception):
    """An answer with status 200 that no API gives: ``page``, of the type ``content_type``."""

    def __init__(self, content_type: str, page: str) -> None:
        super().__init__(f"{content_type} instead of a stream")
        self.content_type = content_type
        self.page = page


async def check_stream(headers: Mapping[str, str], content: AsyncIterator[bytes]) -> None:
    """Check that an answer is a stream of events.

    Args:
        content: Its body, which is read only if it is none.

    Raises:
        NotAStreamError: It is a web page or a JSON document, or compressed, which was not requested.
    """
    if (packed := refused_packing(headers)) is not None:
        raise NotAStreamError(f"an answer compressed by {packed} (content-encoding)", "")
    content_type = _type_of(headers)
    if content_type not in _NOT_STREAMS:
        return
    page = bytearray()
    async for piece in content:
        page += piece
        if len(page) > MAX_PAGE:
            break
    raise NotAStreamError(content_type, page[:MAX_PAGE].decode(errors="replace"))


def is_json(headers: Mapping[str, str]) -> bool:
    """Return whether an answer says that it is a JSON document."""
    return _type_of(headers) == "application/json"


def _type_of(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def failed_answer(model: Model, problem: str) -> Iterator[AssistantMessageEvent]:
    """Yield the events of an answer that failed before the request was sent.

    Args:
        problem: What happened and what to do, for the user.

    Yields:
        ``start`` and ``error``.
    """
    growing = GrowingMessage(api=model.api, provider=model.provider, model=model.id)
    yield growing.start()
    yield growing.fail(problem)


def url_problem(url: str) -> str | None:
    """Return why nothing can be sent to ``url``; ``None`` when it is well formed."""
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https"):
        return "it does not begin with http:// or https://"
    if not parts.hostname:
        return "it names no host"
    return "its port is 0" if port == 0 else None


def check_url(url: str, hint: str) -> None:
    """Check that requests can be sent to a URL.

    Args:
        hint: What to do when it is unusable, as a sentence.

    Raises:
        UsageError: It is unusable; the message ends with ``hint``.
    """
    if (problem := url_problem(url)) is not None:
        raise UsageError(f"The address {shown_url(url)} cannot be used: {problem}. {hint}")


def check_key(key: str, model: Model) -> None:
    """Check that a key can be sent; libraries would show it in their errors.

    Raises:
        CredentialsError: It cannot be sent.
    """
    if not (key.isascii() and key.isprintable()):
        problem = f"The key for {model.provider} holds a character that no key has: set it anew."
        raise CredentialsError(model.provider, problem)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait that a server asks for.

    Returns ``None`` when it asks for nothing that can be understood.

    It names them in seconds, in milliseconds, or as the time at which to come back (RFC 9110, section 10.2.3).
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
            return float(value) / unit
    from email.utils import parsedate_to_datetime

    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError):
        return None
    then = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    return float(max(0, round((then - datetime.now(UTC)).total_seconds())))


def root_cause(error: BaseException) -> BaseException:
    """Return the innermost cause of an error; of a group the first one."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        else:
            return error


def _chain(error: BaseException | None) -> Iterable[BaseException]:
    seen: set[int] = set()  # one that is raised while its own consequence is handled has that as its context
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        else:
            error = error.__cause__ or error.__context__


def is_transport(error: Exception) -> bool:
    """Return whether a failure is one of the connection."""
    return any(kind.__name__ in _TRANSPORT for kind in type(error).__mro__)


def transport_sentence(error: Exception, where: str, idle_timeout: float, *, reached: bool, hint: str) -> str | None:
    """Describe a failure of the connection.

    Args:
        where: The server's URL, without what may be secret in it.
        idle_timeout: The seconds that it may be silent.
        hint: What to check when the server cannot be reached, as a sentence.

    Returns:
        A sentence or two for the user; ``None`` when the failure is of another kind.
    """
    # By name, as importing the libraries takes longer than a request, and those of SDKs may be others.
    chain = list(_chain(error))
    kinds = {kind.__name__ for each in chain for kind in type(each).__mro__}
    described = [words for each in (root_cause(error), *reversed(chain)) if (words := one_line(str(each)))]
    detail = described[0] if described else type(root_cause(error)).__name__
    sentence = None
    if isinstance(error, NotAStreamError):
        sentence = _page_sentence(error, where)
    elif (
        excess := next((each for each in chain if isinstance(each, BodyError | AnswerTooLargeError)), None)
    ) is not None:
        kept = "; what had arrived is kept" if reached else ""
        sentence = f"What {where} sent was not read to its end: {excess}. Check the base URL{kept}."
    elif reached and isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        kind = "JSON" if isinstance(error, json.JSONDecodeError) else "text"
        sentence = f"The answer from {where} broke off: a part of it is no {kind} ({detail}). Try again."
    elif kinds & _TRANSPORT:
        if any(isinstance(each, ssl.SSLError) for each in chain) and not kinds & _HUNG_UP:
            sentence = (
                f"TLS failed: {where} cannot be trusted or speaks no TLS ({detail}). Check the address, this machine's "
                "clock, and its certificates (SSL_CERT_FILE names others)."
            )
        elif kinds & _UNUSABLE_URL:
            sentence = f"The address {where} cannot be used: {detail}. {hint}"
        elif "LocalProtocolError" in kinds:
            sentence = f"The request to {where} cannot be sent: {detail}. Check the model's headers."
        elif "TimeoutException" in kinds and "ConnectTimeout" not in kinds:
            setting = "(setting retry.provider.timeoutMs)"
            sentence = f"Request timed out: {where} was silent for {idle_timeout:g} s {setting}. Try again."
        else:
            sentence = _lost_sentence(kinds, detail, where, reached=reached, hint=hint)
    return sentence


def _lost_sentence(kinds: set[str], detail: str, where: str, *, reached: bool, hint: str) -> str:
    if reached:
        return f"Connection lost: the answer from {where} broke off ({detail}). Try again; what had arrived is kept."
    if kinds & _NOT_REACHED or not kinds & {"NetworkError", "ProtocolError"}:
        return f"Connection error: {where} cannot be reached{_by_proxy(where)} ({detail}). {hint}"
    return f"Connection lost: {where} ended the connection before it answered ({detail}). Try again."


def _page_sentence(error: NotAStreamError, where: str) -> str:
    words = _words(error.page)
    try:
        value: Any = json.loads(error.page)
    except ValueError:
        value = None
    if isinstance(value, dict) and (reported := cast("dict[str, Any]", value).get("error")):
        words = one_line(reported if isinstance(reported, str) else json.dumps(reported, ensure_ascii=False))
    quoted = f': "{words[:200]}"' if words else ""
    return (
        f"{where} did not answer as the API does: it sent {error.content_type} instead of a stream of events{quoted}. "
        "Check the base URL, and whether the network wants you to sign in."
    )


def _words(page: str) -> str:
    """Return the words of a web page, on one line."""
    words: list[str] = []
    inside: str | None = None  # of a script or style sheet
    # No part of a tag is looked at twice, whatever the page leaves open.
    for part in re.split(r"(<[^<>]*>)", page):
        if tag := re.match(r"<(/?)(script|style)\b", part, re.IGNORECASE):
            name = tag[2].lower()
            inside = (None if inside == name else inside) if tag[1] else inside or name
        elif inside is None and not part.startswith("<"):
            words.append(part)
    return one_line(" ".join(words))


def _by_proxy(where: str) -> str:
    """Return a note on the proxy that the environment names for this URL."""
    from urllib.request import getproxies, proxy_bypass  # slow to import, and rarely asked

    parts = urlsplit(where)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or not parts.hostname or is_on_this_machine(where) or proxy_bypass(parts.hostname):
        return ""
    return f" through the proxy {shown_url(proxy)}, which the environment names"


def refusal(explanation: str) -> str:
    """Return the sentence for an answer that the model refused to give."""
    reason = one_line(explanation)
    return f"{REFUSED}{f' {reason}' if reason else ''} Rephrase the request, or take another model."


def one_line(text: str) -> str:
    """Return ``text`` on one line of bearable length, without control characters."""
    return textcut.one_line("".join(char if char.isprintable() else " " for char in text[:2000]), 500)
