"""The Messages API asked by our client and by Anthropic's own: what the server receives and how it ends is the same.

What differs on purpose has a test of its own, which names both ends. Of the headers, those are left out by which the
SDK counts its own use (``x-stainless-*``), and ``user-agent`` names this package.
"""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import pytest
import trustme
from both_ways import Ended, Served, Wire, end_of_ours, end_of_sdk, received, refused, served
from pictures import DOT

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from indus_nb.base.streaming import AssistantMessageEvent
from indus_nb.models import Context, Model, StreamOptions, ToolSpec
from indus_nb.models.apis.anthropic import AnthropicProvider
from indus_nb.models.catalog import find_model

KEY = "sk-ant-very-secret"
LS = ToolSpec("ls", "Lists Ünïcode.", {"type": "object", "properties": {"path": {"type": "string"}}})
HI = UserMessage(content="Hi “there” \u2028 ☃")
HAIKU = find_model("claude-haiku-4-5")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("API_KEY", "AUTH_TOKEN", "BASE_URL", "CUSTOM_HEADERS", "PROFILE", "LOG")
    for name in (*(f"ANTHROPIC_{name}" for name in names), "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as server:
        yield server


@dataclass(frozen=True)
class Way:
    """A model at a base URL."""

    base_url: str
    model: Model = HAIKU
    provider: str = "mine"
    idle_timeout: float = 10
    headers: dict[str, str] = field(default_factory=dict)

    async def events(self, *messages: ModelMessage, **options: Any) -> list[AssistantMessageEvent]:
        place = {"base_url": self.base_url, "headers": self.headers, "provider": self.provider}
        context = Context("Be brief.", messages or (HI,), (LS,))
        wishes = StreamOptions(**{"api_key": KEY, "thinking": "low", "idle_timeout": self.idle_timeout, **options})
        stream = AnthropicProvider().stream(self.model.replace(**place), context, wishes)
        return [event async for event in stream]

    async def sdk(self, body: dict[str, Any], *, betas: str | None = None, **credentials: str) -> Ended:
        """The same by the SDK's own method."""
        text = ""
        timeout = anthropic.Timeout(self.idle_timeout, connect=self.idle_timeout)
        settings: Any = {"default_headers": self.headers, "timeout": timeout, "max_retries": 0}
        thinks = body.get("thinking", {}).get("type") == "enabled" and body.get("tools")
        wished = {name.lower(): value for name, value in self.headers.items()}.get("anthropic-beta")
        names = filter(None, (wished, betas, "interleaved-thinking-2025-05-14" if thinks else None))
        extra = {"anthropic-beta": needed} if (needed := ",".join(names)) else None
        try:
            async with anthropic.AsyncAnthropic(
                **(credentials or {"api_key": KEY}), base_url=self.base_url, **settings
            ) as client:
                async for event in await client.messages.create(**body, extra_headers=extra):
                    if event.type == "content_block_delta" and event.delta.type == "text_delta":
                        text += event.delta.text
        except anthropic.APIStatusError as error:
            if error.status_code >= 400:
                return end_of_sdk(error, text)
            told: Any = error.body
            words = f"{told['error']['type']}: {told['error']['message']}" if isinstance(told, dict) else told
            return Ended(f"an error in the stream: {words}", text)
        except Exception as error:
            return end_of_sdk(error, text)
        return Ended("whole", text)

    async def both(self, *messages: ModelMessage, betas: str | None = None, **options: Any) -> tuple[Ended, Ended]:
        """How the same request ended in both ways."""
        bodies: list[dict[str, Any]] = []

        async def keep(body: dict[str, Any]) -> dict[str, Any]:
            bodies.append(body)
            return body

        ours = end_of_ours(await self.events(*messages, on_request=keep, **options))
        return ours, await self.sdk(bodies[0], betas=betas)


@pytest.fixture
def way(wire: Wire) -> Way:
    return Way(wire.url)


def event(**fields: Any) -> bytes:
    return f"event: {fields['type']}\ndata: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def text(words: str) -> bytes:
    return event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": words})


_MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
OPENING = event(type="message_start", message={**_MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 1}}) + event(
    type="content_block_start", index=0, content_block={"type": "text", "text": ""}
)
CLOSING = event(type="content_block_stop", index=0) + event(
    type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}
)
STOP = event(type="message_stop")


def whole(*pieces: bytes, **fields: Any) -> Served:
    """An answer whose text is in these events."""
    return served(OPENING, *pieces, CLOSING, STOP, **fields)


# --- what the server receives ----------------------------------------------------------------------------------------


async def alike(way: Way, wire: Wire, *messages: ModelMessage, **options: Any) -> None:
    """Both ways send the same and read the same answer."""
    wire.add(*[whole(text("Hello "), text("there"))] * 2)
    before = len(wire.seen)
    ends = await way.both(*messages, **options)
    assert ends == (Ended("whole", "Hello there"),) * 2
    ours, theirs = wire.seen[before:]
    assert received(ours) == received(theirs)


async def test_a_conversation_with_thoughts_tools_and_images_is_the_same_request(way, wire):
    call = ToolCall(id="c1", name="ls", arguments={"path": "ä\u2028/☃", "n": 1.5, "none": None})
    thought = ThinkingContent(thinking="Hm…", thinking_signature="c2ln")
    redacted = ThinkingContent(thinking="", thinking_signature="b3BhcXVl", redacted=True)
    asked = AssistantMessage(
        content=[thought, redacted, TextContent(text="Looking…"), call],
        api="anthropic-messages",
        provider="mine",
        model=HAIKU.id,
    )
    image = ImageContent(data=DOT, mime_type="image/png")
    distant = ImageContent(source=UrlSource(url="https://example.org/a.png"), mime_type="image/png")
    result = ToolResultMessage(tool_call_id="c1", tool_name="ls", content=[TextContent(text="a\tb\u0000"), image])
    await alike(way, wire, UserMessage(content=[TextContent(text="See"), image, distant]), asked, result, max_tokens=5)
    sent = wire.seen[0]
    assert (sent.method, sent.target, sent["anthropic-version"]) == ("POST", "/v1/messages", "2026-10-21")
    assert sent.body.count(b'"cache_control"') == 3
    assert (sent["content-type"], sent["accept"]) == ("application/json", "application/json")
    assert (sent["user-agent"] or "").startswith("indus_nb/")


async def test_what_a_body_asks_for_beyond_the_version_is_named_in_a_header(way, wire):
    opus = find_model("claude-opus-4-7")
    beta = "thinking-binding-controls-2026-08-01"
    bound = Way(way.base_url, opus.replace(bound_thinking=True))
    await alike(bound, wire, betas=beta)
    assert wire.seen[0]["anthropic-beta"] == beta
    await alike(Way(bound.base_url, bound.model, headers={"Anthropic-Beta": "mine"}), wire, betas=beta)
    assert wire.seen[2]["anthropic-beta"] == f"mine,{beta}"


async def test_an_odd_value_of_an_extension_is_encoded_alike(way, wire):
    odd = ("tuple", True, 0.1, 10**30, "\x7f\u2028")

    async def change(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "metadata": {"user_id": odd}}

    wire.add(whole(), whole())
    await way.events(on_request=change)
    await way.sdk({**json.loads(wire.seen[0].body), "metadata": {"user_id": odd}})
    ours, theirs = wire.seen
    assert received(ours) == received(theirs)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/api/anthropic/", "/a%2Fb/v1", "/ü/v1", "/a b"])
async def test_the_base_urls_path_is_joined_to_the_same_address(wire, path):
    await alike(Way(wire.url + path), wire)


async def test_a_query_of_the_base_url_stays_behind_the_path_in_ours_alone(wire):
    wire.add(whole(), whole())
    await Way(f"{wire.url}/api?tenant=1").both()
    assert [request.target for request in wire.seen] == ["/api/v1/messages?tenant=1", "/api?tenant=1/v1/messages"]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Team": "mine", "x-other": ""},
        {"Authorization": "Bearer mine"},
        {"X-Api-Key": "mine", "AUTHORIZATION": "Basic bWluZQ=="},
        {"accept": "text/event-stream", "CONTENT-TYPE": "application/json; charset=utf-8"},
        {"Anthropic-Version": "2099-01-01", "anthropic-beta": "a,b"},
        {"User-Agent": "mine", "accept-encoding": "identity", "Connection": "close"},
    ],
)
async def test_a_models_headers_come_in_place_of_those_that_are_sent_anyway(way, wire, headers):
    await alike(Way(way.base_url, headers=headers), wire, thinking="off")
    assert {name: wire.seen[0][name.lower()] for name in headers} == headers


async def test_an_answer_that_is_packed_is_asked_for_by_the_sdk_alone(way, wire):
    await alike(way, wire)
    ours, theirs = [request["accept-encoding"] for request in wire.seen]
    assert ours == "identity"
    assert theirs.startswith("gzip, deflate")


async def test_a_token_is_sent_as_the_key_is(way, wire, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    wire.add(*[whole()] * 2)
    bodies: list[dict[str, Any]] = []

    async def keep(body: dict[str, Any]) -> dict[str, Any]:
        bodies.append(body)
        return body

    await way.events(api_key="token", on_request=keep)
    await way.sdk(bodies[0], auth_token="token")
    ours, theirs = wire.seen
    assert received(ours) == received(theirs)
    assert ours["authorization"] == "Bearer token"


async def test_a_user_and_password_in_the_address_are_sent_in_place_of_the_key(way, wire):
    await alike(Way(way.base_url.replace("//", "//user:pass%40word@")), wire)
    assert wire.seen[0]["authorization"] == "Basic dXNlcjpwYXNzQHdvcmQ="


async def test_headers_of_the_environment_are_sent_to_anthropic_alike_and_by_us_to_nobody_else(wire, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Team: mine \n nonsense\nX-Own:a:b\nAuthorization: Bearer env")
    await alike(Way(wire.url, provider="anthropic"), wire)
    assert [wire.seen[0][name] for name in ("x-team", "x-own", "authorization")] == ["mine", "a:b", "Bearer env"]
    await alike(Way(wire.url, provider="anthropic", headers={"X-OWN": "said"}), wire)
    assert wire.seen[2]["x-own"] == "said"
    wire.add(whole(), whole())
    await Way(wire.url).both()
    assert [request["x-team"] for request in wire.seen[4:]] == [None, "mine"]


# --- streams ---------------------------------------------------------------------------------------------------------


_BODY = OPENING + text("Hellö ☃") + CLOSING + STOP
ODDITIES: dict[str, Served] = {
    "carriage returns": served(_BODY.replace(b"\n", b"\r")),
    "carriage returns and line feeds": served(_BODY.replace(b"\n", b"\r\n")),
    "byte by byte": served(*(bytes([byte]) for byte in _BODY.replace(b"\n", b"\r\n"))),
    "comments": whole(b": keep-alive\n\n:\n\n", text("Hello"), b": ping\n"),
    "data of several lines": whole(text("Hello").replace(b", ", b",\ndata: ")),
    "no blank behind the colon": whole(text("Hello").replace(b"data: ", b"data:")),
    "fields of other names": whole(b"vendor: x\nnonsense\n" + text("Hello")),
    "an id with each event": whole(b"id: 1\nretry: 5\n" + text("Hello")),
    "other ends of lines in the text": whole(text("a\u2028b\u0085c\u2029d\x0be\x0cf\x1cg")),
    "pings, whatever they say": whole(b"event: ping\ndata: {}\n\nevent: ping\ndata: nonsense\n\n", text("Hello")),
    "events of other kinds": whole(event(type="weather", sun=True), text("Hello")),
    "events without data": whole(b"event: message_stop\n\nevent: message_stop\ndata:\n\n", text("Hello")),
    "an event above a megabyte": whole(text("x" * 1_200_000)),
    "no type of content": whole(text("Hello"), headers={}),
    "another type of content": whole(text("x"), headers={"content-type": "text/plain"}),
    "compressed": served(
        gzip.compress(_BODY), headers={"content-type": "text/event-stream", "content-encoding": "gzip"}
    ),
    "until the connection ends": whole(text("Hello"), chunked=False),
}


@pytest.mark.parametrize("oddity", ODDITIES)
async def test_streams_are_read_alike_however_they_are_written(way, wire, oddity):
    wire.add(*[ODDITIES[oddity]] * 2)
    ours, theirs = await way.both()
    assert ours == theirs
    assert ours.how == "whole"
    assert ours.text


LENIENT: dict[str, tuple[Served, Ended]] = {
    # The SDK takes the first event's name to be another than it is, and knows no message.
    "a mark of the byte order": (served(b"\xef\xbb\xbf" + _BODY), Ended("whole", "Hellö ☃")),
    # It passes over events without a name, which the standard allows and some servers send.
    "no names of events": (
        served(b"".join(line for line in _BODY.splitlines(keepends=True) if not line.startswith(b"event"))),
        Ended("whole", ""),
    ),
    # It drops the last event, and does not miss it.
    "no line behind the last event": (served(_BODY.rstrip(b"\n")), Ended("whole", "Hellö ☃")),
}


@pytest.mark.parametrize("oddity", LENIENT)
async def test_streams_that_the_sdk_reads_in_part_are_read_whole_by_us(way, wire, oddity):
    answer, read_by_sdk = LENIENT[oddity]
    wire.add(answer, answer)
    assert await way.both() == (Ended("whole", "Hellö ☃"), read_by_sdk)


@pytest.mark.parametrize("broken", ["connection", "JSON", "text", "silence"])
async def test_a_stream_breaks_alike_and_keeps_what_had_arrived(way, wire, broken):
    piece: bytes | threading.Event = {
        "JSON": b"event: message_delta\ndata: {nonsense\n\n",
        "text": b"event: message_delta\ndata: \xff\xff\n\n",
        "silence": threading.Event(),
    }.get(broken, b"")
    answer = served(OPENING, text("Half"), piece, cut=broken == "connection")
    wire.add(answer, answer)
    ours, theirs = await Way(way.base_url, idle_timeout=0.3 if broken == "silence" else 10).both()
    how = {"connection": "lost", "silence": "silent"}.get(broken, f"no {broken}")
    assert ours == theirs == Ended(how, "Half")


async def test_an_error_in_the_stream_ends_both(way, wire):
    error = event(type="error", error={"type": "overloaded_error", "message": "Overloaded"})
    wire.add(*[served(OPENING, text("Half"), error, text(" more"))] * 2)
    assert await way.both() == (Ended("an error in the stream: overloaded_error: Overloaded", "Half"),) * 2


async def test_an_error_in_the_stream_that_is_no_json_ends_both_and_is_quoted_by_the_sdk_alone(way, wire):
    wire.add(*[served(OPENING, text("Half"), b"event: error\ndata: <oops>\n\n")] * 2)
    ours, theirs = await way.both()
    assert ours == Ended(f"an error in the stream: error from {wire.url}", "Half")
    assert theirs == Ended("an error in the stream: <oops>", "Half")


async def test_an_answer_without_its_end_is_whole_to_the_sdk_alone(way, wire):
    for rest in (b"", CLOSING, CLOSING + b'event: message_stop\ndata: {"type": "mess'):
        answer = served(OPENING, text("Half"), rest)
        wire.add(answer, answer)
        assert await way.both() == (Ended("ended early", "Half"), Ended("whole", "Half"))


async def test_a_page_instead_of_a_stream_is_an_empty_answer_to_the_sdk_alone(way, wire):
    page = served(b"<p>Please sign in</p>", headers={"content-type": "text/html"})
    wire.add(page, page)
    assert await way.both() == (Ended("no stream: text/html"), Ended("whole"))


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 408, 409, 413, 429, 500, 502, 503, 504, 529])
async def test_every_status_of_an_error_ends_both_after_one_request(way, wire, status):
    body = b'{"type": "error", "error": {"type": "t_error", "message": "No"}}'
    wire.add(*[refused(status, body, retry_after="7", request_id="req_1")] * 2)
    assert await way.both() == (Ended(f"status {status}"),) * 2
    assert len(wire.seen) == 2


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"<html>", b"\xff\xfe", b'{"error": null}', b'"text"', b"x" * 200_000]
)
async def test_no_body_of_an_error_changes_its_end(way, wire, body):
    wire.add(refused(500, body), refused(500, body))
    assert await way.both() == (Ended("status 500"),) * 2


async def test_an_error_whose_body_breaks_off_is_lost_alike(way, wire):
    answer = Served((b'{"error": ',), 500, {"content-type": "application/json"}, cut=True)
    wire.add(answer, answer)
    assert await way.both() == (Ended("lost"),) * 2


async def test_an_error_whose_body_never_ends_times_out_alike(way, wire):
    answer = Served((b'{"error": ', threading.Event()), 500, {"content-type": "application/json"})
    wire.add(answer, answer)
    assert await Way(way.base_url, idle_timeout=0.3).both() == (Ended("silent"),) * 2


async def test_of_the_body_of_an_error_we_read_no_more_than_a_megabyte(way, wire):
    unread = threading.Event()  # the server never comes to the end of it
    wire.add(Served((b"x" * 1_200_000, unread), 500, {"content-type": "text/plain"}))
    assert end_of_ours(await way.events()) == Ended("status 500")


async def test_a_server_that_says_nothing_at_all_times_out_alike():
    with Wire(default=Served((threading.Event(),))) as slow:
        ends = await Way(slow.url, idle_timeout=0.3).both()
    assert ends == (Ended("silent"),) * 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_server_is_followed_by_the_sdk_alone(way, wire, status):
    with Wire(default=whole(text("Moved"))) as there:
        moved = served(status=status, headers={"location": f"{there.url}/elsewhere?token=1"})
        wire.add(moved, moved)
        ours, theirs = await way.both()
        assert len(there.seen) == 1  # the SDK's, with the whole conversation if the status keeps the method
        assert (there.seen[0].method == "POST") == (status in (307, 308))
    assert theirs == Ended("whole", "Moved")
    assert ours.how == (
        f"{wire.url}/v1/messages redirects to {there.url}/elsewhere (status {status}), where the conversation is not "
        "sent on its own. If that is the right place, set it as the base URL."
    )


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_a_server_is_followed_alike(way, wire, status):
    moved = served(status=status, headers={"location": "/v2/messages"})
    wire.add(moved, whole(text("Moved")), moved, whole(text("Moved")))
    assert await way.both() == (Ended("whole", "Moved"),) * 2
    _, ours, _, theirs = wire.seen
    assert received(ours) == received(theirs)
    assert (ours.target, ours["authorization"]) == ("/v2/messages", f"Bearer {KEY}")


async def test_redirects_in_a_circle_end():
    with Wire(default=served(status=307, headers={"location": "/v1/messages"})) as circle:
        ended = end_of_ours(await Way(circle.url).events())
        assert "redirects to" in ended.how
        assert len(circle.seen) < 10


# --- on the way to the server ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://nobody.invalid"])
async def test_a_server_that_is_not_there_is_not_reached_alike(url):
    assert await Way(url).both() == (Ended("not reached"),) * 2


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_a_proxy_of_the_environment_is_asked_alike(wire, monkeypatch, name):
    monkeypatch.setenv(name, wire.url.replace("//", "//user:pass@"))
    await alike(Way("http://models.invalid"), wire)
    assert wire.seen[0].target == "http://models.invalid/v1/messages"
    assert wire.seen[0]["proxy-authorization"] == "Basic dXNlcjpwYXNz"


@pytest.mark.parametrize("exempt", ["127.0.0.1", "*", "example.org,127.0.0.1"])
async def test_hosts_that_need_no_proxy_are_asked_directly_alike(way, wire, monkeypatch, exempt):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", exempt)
    await alike(way, wire)
    assert wire.seen[0].target == "/v1/messages"


async def test_a_proxy_that_refuses_is_told_alike(wire, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", wire.url)
    wire.add(*[refused(407, b"")] * 2)
    assert await Way("https://models.invalid").both() == (Ended("not reached"),) * 2


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[Wire]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "models.test").configure_cert(context)
    with Wire(tls=context) as server:
        yield server


async def test_a_certificate_of_ones_own_authority_is_trusted_alike(secure, authority, monkeypatch, tmp_path):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    await alike(Way(secure.url), secure)


async def test_a_certificate_of_nobody_is_trusted_by_neither(secure):
    assert await Way(secure.url).both() == (Ended("no trust"),) * 2
    assert secure.seen == []


async def test_a_tunnel_through_a_proxy_ends_at_the_server_alike(secure, wire, authority, monkeypatch, tmp_path):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("HTTPS_PROXY", wire.url)
    wire.add(served(), served())
    url = secure.url.replace("127.0.0.1", "models.test")
    await alike(Way(url), secure)
    ours, theirs = wire.seen
    assert (ours.method, ours.target) == ("CONNECT", url.removeprefix("https://"))
    assert received(ours) == received(theirs)
    assert ours["authorization"] is None
