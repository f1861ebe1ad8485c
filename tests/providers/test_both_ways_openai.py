"""OpenAI's two APIs asked by our client and by OpenAI's own: what the server receives and how it ends is the same.

What differs on purpose has a test of its own, which names both ends.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest
import trustme
from both_ways import Ended, Served, Wire, end_of_ours, end_of_sdk, received, refused, served

from indus_nb.base.messages import AssistantMessage, ModelMessage, TextContent, ToolCall, ToolResultMessage, UserMessage
from indus_nb.models import Context, Model, StreamOptions, ToolSpec
from indus_nb.models.apis.openai import OpenAICompletionsProvider, OpenAIResponsesProvider

KEY = "sk-very-secret-indeed"
LS = ToolSpec("ls", "Lists Ünïcode.", {"type": "object", "properties": {"path": {"type": "string"}}})
HI = UserMessage(content="Hi “there” \u2028 ☃")
APIS = ("openai-completions", "openai-responses")


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as server:
        yield server


@dataclass(frozen=True)
class Way:
    """One of the two APIs, at a base URL."""

    api: str
    base_url: str
    idle_timeout: float = 10
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        return Model(
            id="m",
            name="Model",
            api=self.api,
            provider="local",
            base_url=self.base_url,
            headers=self.headers,
            reasoning=True,
            input=["text", "image"],
        )

    async def ours(self, *messages: ModelMessage, **options: Any) -> Ended:
        provider = OpenAIResponsesProvider() if self.api == "openai-responses" else OpenAICompletionsProvider()
        context = Context("Be brief.", messages or (HI,), (LS,))
        wishes = StreamOptions(**{"api_key": KEY, "thinking": "low", "idle_timeout": self.idle_timeout, **options})
        return end_of_ours([event async for event in provider.stream(self.model, context, wishes)])

    async def sdk(self, body: dict[str, Any]) -> Ended:
        """The same by the SDK's own methods, which refuse parameters that the API does not know."""
        text = ""
        timeout = openai.Timeout(self.idle_timeout, connect=self.idle_timeout)
        options: Any = {"default_headers": self.headers, "timeout": timeout, "max_retries": 0}
        try:
            async with openai.AsyncOpenAI(api_key=KEY, base_url=self.base_url, **options) as client:
                if self.api == "openai-responses":
                    async for event in await client.responses.create(**body):
                        if event.type == "error":
                            return Ended(f"an error in the stream: {event.message}", text)
                        text += event.delta if event.type == "response.output_text.delta" else ""
                else:
                    async for chunk in await client.chat.completions.create(**body):
                        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        except Exception as error:
            return end_of_sdk(error, text)
        return Ended("whole", text)

    async def both(self, *messages: ModelMessage, **options: Any) -> tuple[Ended, Ended]:
        """How the same request ended in both ways."""
        bodies: list[dict[str, Any]] = []

        async def keep(body: dict[str, Any]) -> dict[str, Any]:
            bodies.append(body)
            return body

        ours = await self.ours(*messages, on_request=keep, **options)
        return ours, await self.sdk(bodies[0])


@pytest.fixture(params=APIS)
def way(request: pytest.FixtureRequest, wire: Wire) -> Way:
    return Way(request.param, f"{wire.url}/v1")


def event(**fields: Any) -> bytes:
    name = f"event: {fields['type']}\n" if "type" in fields else ""
    return f"{name}data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def text(api: str, words: str) -> bytes:
    """The event of a piece of text."""
    if api == "openai-responses":
        return event(type="response.output_text.delta", output_index=0, delta=words, **_PLACE)
    return event(id="c1", object="chat.completion.chunk", choices=[{"index": 0, "delta": {"content": words}}])


_PLACE = {"item_id": "i", "content_index": 0, "logprobs": [], "sequence_number": 1}


def opening(api: str) -> bytes:
    """What comes before text."""
    if api == "openai-responses":
        item = {"type": "message", "id": "i", "role": "assistant", "content": [], "status": "in_progress"}
        return event(type="response.output_item.added", output_index=0, item=item, sequence_number=0)
    return b""


def ending(api: str) -> bytes:
    """What comes behind text."""
    if api == "openai-responses":
        return event(type="response.completed", response={"id": "r", "usage": None}, sequence_number=2)
    choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
    return event(id="c1", object="chat.completion.chunk", choices=[choice]) + b"data: [DONE]\n\n"


def whole(api: str, *pieces: bytes, **fields: Any) -> Served:
    """An answer whose text is in these events."""
    return served(opening(api), *pieces, ending(api), **fields)


# --- what the server receives ----------------------------------------------------------------------------------------


async def alike(way: Way, wire: Wire, *messages: ModelMessage, **options: Any) -> None:
    """Both ways send the same and read the same answer."""
    wire.add(*[whole(way.api, text(way.api, "Hello "), text(way.api, "there"))] * 2)
    before = len(wire.seen)
    ends = await way.both(*messages, **options)
    assert ends == (Ended("whole", "Hello there"),) * 2
    ours, theirs = wire.seen[before:]
    assert received(ours) == received(theirs)


async def test_a_conversation_with_tools_is_the_same_request_to_the_byte(way, wire):
    call = ToolCall(id="c1", name="ls", arguments={"path": "ä\u2028/☃", "n": 1.5, "none": None})
    asked = AssistantMessage(content=[TextContent(text="Looking…"), call], api=way.api, provider="local", model="m")
    result = ToolResultMessage(tool_call_id="c1", tool_name="ls", content=[TextContent(text="a\tb\u0000")])
    await alike(way, wire, HI, asked, result, max_tokens=500)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/a%2Fb/v1", "/ü/v1", "/a b", "//v1", "/v1//"])
async def test_the_base_urls_path_is_joined_to_the_same_address(wire, path):
    for api in APIS:
        await alike(Way(api, wire.url + path), wire)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Team": "mine", "x-other": ""},
        {"Authorization": "Bearer mine"},
        {"authorization": "Basic bWluZQ=="},
        {"api-key": "azure", "AUTHORIZATION": ""},
        {"accept": "text/event-stream", "CONTENT-TYPE": "application/json; charset=utf-8"},
        {"User-Agent": "mine", "accept-encoding": "identity", "Connection": "close"},
        {"HTTP-Referer": "https://example.org", "X-Title": "a title"},
    ],
)
async def test_a_models_headers_come_in_place_of_those_that_are_sent_anyway(way, wire, headers):
    await alike(Way(way.api, way.base_url, headers=headers), wire)
    sent = {name: wire.seen[0][name.lower()] for name in headers}
    assert sent == headers


async def test_a_user_and_password_in_the_address_are_sent_in_place_of_the_key(way, wire):
    await alike(Way(way.api, way.base_url.replace("//", "//user:pass%40word@")), wire)
    assert wire.seen[0]["authorization"] == "Basic dXNlcjpwYXNzQHdvcmQ="


async def test_what_the_environment_says_for_openai_is_the_same_at_openai(wire, monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: mine \n nonsense\nX-Own:a:b")
    monkeypatch.setenv("HTTP_PROXY", wire.url)
    for api in APIS:
        await alike(Way(api, "http://api.openai.com/v1"), wire)
        await alike(
            Way(api, "http://eu.api.openai.com/v1", headers={"X-OWN": "said", "Authorization": "Bearer b"}), wire
        )
    told = wire.seen[0]
    assert (told["openai-organization"], told["openai-project"], told["x-own"]) == ("org-mine", "proj-mine", "a:b")
    assert wire.seen[2]["x-own"] == "said"


async def test_the_environments_authorization_stands_in_for_the_key_at_openai(wire, monkeypatch):
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "authorization: Bearer ambient")
    monkeypatch.setenv("HTTP_PROXY", wire.url)
    await alike(Way(APIS[0], "http://api.openai.com/v1"), wire)
    assert wire.seen[0]["authorization"] == "Bearer ambient"
    await alike(Way(APIS[0], "http://api.openai.com/v1", headers={"Authorization": "Bearer own"}), wire)
    assert wire.seen[2]["authorization"] == "Bearer own"


async def test_the_query_of_the_base_url_stays_behind_the_path_where_the_sdk_writes_into_it(way, wire):
    wire.add(*[whole(way.api, text(way.api, "Hello"))] * 2)
    await Way(way.api, f"{wire.url}/openai/v1?api-version=preview").both()
    path = "responses" if way.api == "openai-responses" else "chat/completions"
    ours, theirs = wire.seen
    assert ours.target == f"/openai/v1/{path}?api-version=preview"
    assert theirs.target == f"/openai/v1/?api-version=preview{path}"


async def test_a_models_headers_count_more_than_the_environments_however_they_are_written(wire, monkeypatch):
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-environment")
    monkeypatch.setenv("HTTP_PROXY", wire.url)
    wire.add(whole(APIS[0], text(APIS[0], "Hello")))
    await Way(APIS[0], "http://api.openai.com/v1", headers={"openai-project": "proj-model"}).ours()
    assert wire.seen[0]["openai-project"] == "proj-model"


# --- streams ---------------------------------------------------------------------------------------------------------


def lines(api: str, newline: bytes) -> Served:
    body = opening(api) + text(api, "Hello") + ending(api)
    return served(body.replace(b"\n", newline))


ODDITIES: dict[str, Callable[[str], Served]] = {
    "carriage returns": lambda api: lines(api, b"\r"),
    "carriage returns and line feeds": lambda api: lines(api, b"\r\n"),
    "byte by byte": lambda api: served(
        *(bytes([byte]) for byte in opening(api) + text(api, "Hellö ☃") + ending(api).replace(b"\n", b"\r\n"))
    ),
    "comments": lambda api: whole(api, b": OPENROUTER PROCESSING\n\n:\n\n", text(api, "Hello"), b": ping\n"),
    "data of several lines": lambda api: whole(api, text(api, "Hello").replace(b", ", b",\ndata: ")),
    "no blank behind the colon": lambda api: whole(api, text(api, "Hello").replace(b"data: ", b"data:")),
    "fields of other names": lambda api: whole(api, b"vendor: x\nnonsense\n" + text(api, "Hello")),
    "an id with each event": lambda api: whole(api, b"id: 1\n" + text(api, "Hello")),
    "other ends of lines in the text": lambda api: whole(api, text(api, "a\u2028b\u0085c\u2029d\x0be\x0cf\x1cg")),
    "an event above a megabyte": lambda api: whole(api, text(api, "x" * 1_200_000)),
    "no type of content": lambda api: whole(api, text(api, "Hello"), headers={}),
    "another type of content": lambda api: whole(api, text(api, "x"), headers={"content-type": "text/plain"}),
    "compressed": lambda api: served(
        gzip.compress(opening(api) + text(api, "Hello") + ending(api)),
        headers={"content-type": "text/event-stream", "content-encoding": "gzip"},
    ),
    "until the connection ends": lambda api: whole(api, text(api, "Hello"), chunked=False),
    "a name that another API gives": lambda api: whole(api, b"event: message\n" + text(api, "Hello")),
}


@pytest.mark.parametrize("oddity", ODDITIES)
async def test_streams_are_read_alike_however_they_are_written(way, wire, oddity):
    wire.add(*[ODDITIES[oddity](way.api)] * 2)
    ours, theirs = await way.both()
    assert ours == theirs
    assert ours.how == "whole"
    assert ours.text


@pytest.mark.parametrize("broken", ["connection", "JSON", "text", "silence"])
async def test_a_stream_breaks_alike_and_keeps_what_had_arrived(way, wire, broken):
    piece: bytes | threading.Event = {"JSON": b"data: {nonsense\n\n", "text": b"data: \xff\xff\n\n"}.get(broken, b"")
    if broken == "silence":
        piece = threading.Event()
    answer = served(opening(way.api), text(way.api, "Half"), piece, cut=broken == "connection")
    wire.add(answer, answer)
    ours, theirs = await Way(way.api, way.base_url, idle_timeout=0.3 if broken == "silence" else 10).both()
    how = {"connection": "lost", "silence": "silent"}.get(broken, f"no {broken}")
    assert ours == theirs == Ended(how, "Half")


@pytest.mark.parametrize(
    "error", [{"message": "Provider failed", "code": 502}, {"message": "Slow down", "type": "rate_limit", "code": None}]
)
async def test_an_error_in_the_stream_ends_both(way, wire, error):
    answer = served(opening(way.api), text(way.api, "Half"), event(error=error), text(way.api, " more"))
    wire.add(answer, answer)
    ours, theirs = await way.both()
    assert theirs == Ended(f"an error in the stream: {error['message']}", "Half")
    assert ours.text == theirs.text
    assert ours.how.startswith("an error in the stream: ")
    assert error["message"] in ours.how


@pytest.mark.parametrize("odd", [b"event: ping\n\n", b"id: 7\n\n", b"retry: 3000\n\n", b"event: x\ndata:\n\n"])
async def test_events_without_data_are_passed_over_where_the_sdk_stumbles(way, wire, odd):
    answer = whole(way.api, text(way.api, "Hello "), odd, text(way.api, "there"))
    wire.add(answer, answer)
    assert await way.both() == (Ended("whole", "Hello there"), Ended("no JSON", "Hello "))


async def test_a_mark_of_the_byte_order_hides_no_event(way, wire):
    answer = served(b"\xef\xbb\xbf" + opening(way.api) + text(way.api, "Hello"), ending(way.api))
    wire.add(answer)
    assert await way.ours() == Ended("whole", "Hello")


async def test_an_end_to_which_the_blank_line_is_missing_is_one(way, wire):
    wire.add(served(opening(way.api), text(way.api, "Hello"), ending(way.api).removesuffix(b"data: [DONE]\n\n")[:-1]))
    assert await way.ours() == Ended("whole", "Hello")


async def test_what_comes_behind_the_end_is_not_looked_at(way, wire):
    wire.add(whole(way.api, text(way.api, "Hello"), ending(way.api), b"data: {nonsense\n\n"))
    assert await way.ours() == Ended("whole", "Hello")


@pytest.mark.parametrize(
    ("data", "words"), [(b'{"message": "No GPU", "code": 500}', "500 error: No GPU"), (b"No", "error: No")]
)
async def test_an_event_that_is_named_an_error_is_one_whatever_it_holds(way, wire, data, words):
    wire.add(served(opening(way.api), text(way.api, "Half"), b"event: error\ndata: " + data + b"\n\n"))
    assert await way.ours() == Ended(f"an error in the stream: {words}", "Half")


async def test_an_answer_that_stops_halfway_is_whole_to_the_sdk_alone(way, wire):
    for rest in (b"", b"data: [DONE]\n\n"):
        answer = served(opening(way.api), text(way.api, "Half"), rest)
        wire.add(answer, answer)
        assert await way.both() == (Ended("ended early", "Half"), Ended("whole", "Half"))


async def test_a_page_instead_of_a_stream_is_an_empty_answer_to_the_sdk_alone(way, wire):
    page = served(b"<p>Please sign in</p>", headers={"content-type": "text/html"})
    wire.add(page, page)
    assert await way.both() == (Ended("no stream: text/html"), Ended("whole"))


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529])
async def test_every_status_of_an_error_ends_both_after_one_request(way, wire, status):
    answer = refused(status, b'{"error": {"message": "No", "type": "t", "param": null, "code": "c"}}', retry_after="7")
    wire.add(answer, answer)
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
    assert await Way(way.api, way.base_url, idle_timeout=0.3).both() == (Ended("silent"),) * 2


async def test_a_server_that_says_nothing_at_all_times_out_alike(way, wire):
    with Wire(default=Served((threading.Event(),))) as slow:
        ends = await Way(way.api, slow.url, idle_timeout=0.3).both()
    assert ends == (Ended("silent"),) * 2


@pytest.mark.parametrize("status", [307, 308])
async def test_redirects_within_the_server_are_followed_alike(way, wire, status):
    moved, answer = served(status=status, headers={"location": "/v2/there?x=1"}), whole(way.api, text(way.api, "Moved"))
    wire.add(moved, answer, moved, answer)
    assert await way.both() == (Ended("whole", "Moved"),) * 2
    assert received(wire.seen[1]) == received(wire.seen[3])
    assert (wire.seen[1].method, wire.seen[1].target) == ("POST", "/v2/there?x=1")
    assert wire.seen[1]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("status", [302, 307])
async def test_the_conversation_follows_no_redirect_to_another_server_where_the_sdks_does(way, wire, status):
    with Wire(default=whole(way.api, text(way.api, "Moved"))) as there:
        moved = served(status=status, headers={"location": f"{there.url}/v2/there"})
        wire.add(moved, moved)
        ours, theirs = await way.both()
        assert "set it as the base URL" in ours.how
        assert theirs == Ended("whole", "Moved")
        assert len(there.seen) == 1


async def test_redirects_in_a_circle_end(way):
    with Wire(default=served(status=307, headers={"location": "/v1/again"})) as circle:
        ours, theirs = await Way(way.api, circle.url).both()
    assert "set it as the base URL" in ours.how
    assert theirs == Ended("not reached")


# --- on the way to the server ----------------------------------------------------------------------------------------


async def test_a_server_that_is_not_there_is_not_reached_alike(way):
    assert await Way(way.api, "http://127.0.0.1:1/v1").both() == (Ended("not reached"),) * 2


async def test_a_name_that_is_nobodys_is_not_reached_alike(way):
    assert await Way(way.api, "http://nobody.invalid/v1").both() == (Ended("not reached"),) * 2


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_a_proxy_of_the_environment_is_asked_alike(way, wire, monkeypatch, name):
    monkeypatch.setenv(name, wire.url.replace("//", "//user:pass@"))
    await alike(Way(way.api, "http://models.invalid/v1"), wire)
    path = "responses" if way.api == "openai-responses" else "chat/completions"
    assert wire.seen[0].target == f"http://models.invalid/v1/{path}"
    assert wire.seen[0]["proxy-authorization"] == "Basic dXNlcjpwYXNz"


@pytest.mark.parametrize("exempt", ["127.0.0.1", "*", "example.org,127.0.0.1"])
async def test_hosts_that_need_no_proxy_are_asked_directly_alike(way, wire, monkeypatch, exempt):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", exempt)
    await alike(way, wire)
    assert wire.seen[0].target.startswith("/v1/")


async def test_a_proxy_that_refuses_is_told_alike(way, wire, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", wire.url)
    wire.add(*[refused(407, b"")] * 2)
    assert await Way(way.api, "https://models.invalid/v1").both() == (Ended("not reached"),) * 2


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[Wire]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with Wire(tls=context) as server:
        yield server


async def test_a_certificate_of_ones_own_authority_is_trusted_alike(secure, authority, monkeypatch, tmp_path):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    for api in APIS:
        await alike(Way(api, f"{secure.url}/v1"), secure)


async def test_a_certificate_of_nobody_is_trusted_by_neither(secure):
    for api in APIS:
        assert await Way(api, f"{secure.url}/v1").both() == (Ended("no trust"),) * 2
    assert secure.seen == []


async def test_a_server_that_hangs_up_on_tls_is_lost_alike(way):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)  # of a client that never comes

        def hang_up() -> None:
            for _ in range(2):
                with contextlib.suppress(TimeoutError):
                    listening.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        ours, theirs = await Way(way.api, f"https://127.0.0.1:{listening.getsockname()[1]}/v1").both()
        thread.join()
    assert (ours, theirs) == (Ended("not reached"),) * 2


async def test_a_proxy_of_an_unknown_kind_is_told(way, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "gopher://127.0.0.1:1")
    ended = await Way(way.api, "http://models.invalid/v1").ours()
    assert "Unknown scheme for proxy URL" in ended.how
    assert ended.how.startswith("The environment names a proxy that cannot be used: ")


async def test_a_tunnel_through_a_proxy_ends_at_the_server_alike(secure, wire, authority, monkeypatch, tmp_path):
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("HTTPS_PROXY", wire.url)
    wire.add(*[served()] * 4)
    for api in APIS:
        await alike(Way(api, f"{secure.url}/v1"), secure)
    ours, theirs, *_ = wire.seen
    assert (ours.method, ours.target) == ("CONNECT", secure.url.removeprefix("https://"))
    assert received(ours) == received(theirs)
    assert ours["authorization"] is None
