"""Which requests need the HTTP library: those whose URL or environment asks for more than a plain one does."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx2
import pytest
from messages_api import MessagesApi, Reply

from indus_nb.models.http.direct import suits
from indus_nb.models.http.failures import transport_sentence
from indus_nb.models.http.http import stream


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system may name a proxy")
@pytest.mark.parametrize(
    "url",
    [
        "https://api.anthropic.com/v1/messages",
        "http://127.0.0.1:8080/v1/messages?beta=true",
        "http://localhost",
        "https://example.org/a%20b/c-d_e~f.g",
    ],
)
def test_a_plain_request_needs_no_library(url: str) -> None:
    assert suits(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:secret@example.org/",
        "https://exämple.org/",
        "https://EXAMPLE.org/",
        "http://[::1]:80/",
        "https://example.org/a b",
        "https://example.org/a/../b",
        "https://example.org/%zz",
        "https://example.org/?a=ü",
        "https://example.org/a\r\nx: y",
        "https://example.org/#part",
        "ftp://example.org/",
        "https:///path",
        "https://example.org:/",
        "https://-example.org/",
    ],
)
def test_a_url_that_needs_care_is_left_to_the_library(url: str) -> None:
    assert not suits(url)


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "all_proxy"])
def test_where_a_proxy_is_named_the_library_decides_whom_to_ask(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "http://localhost:1")
    assert not suits("https://example.org/")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.8.9.10", "model.localhost", "[::1]"])
async def test_a_server_on_this_machine_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://proxy.invalid:1")
    family, address = (socket.AF_INET6, "::1") if host == "[::1]" else (socket.AF_INET, "0.0.0.0")
    with socket.socket(family) as busy:
        busy.bind((address, 0))  # listens not, so that connections are refused
        port = busy.getsockname()[1]
        with pytest.raises(httpx2.ConnectError) as failed:
            async with stream(f"http://{host}:{port}/v1", {}, headers={}, idle_timeout=30):
                pass
    assert "proxy" not in str(failed.value)
    sentence = transport_sentence(failed.value, f"http://{host}:{port}/v1", 30, reached=False, hint="")
    assert sentence is not None
    assert "proxy" not in sentence


PROGRAM = """
import sys
from indus_nb.start import SessionOptions, open_session
with open_session(SessionOptions(model="claude-haiku-4-5", no_session=True), definable=False) as session:
    assert session.run("hello") == "Hi."
unwanted = {"httpx2", "httpcore2", "anyio", "pydantic", "pydantic_core", "urllib.request"} & set(sys.modules)
assert not unwanted, unwanted
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system may name a proxy")
def test_a_first_answer_needs_neither_the_http_library_nor_pydantic(tmp_path: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply("Hi."))
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "sk-test"}
    environment |= {"ANTHROPIC_BASE_URL": messages_api.url, "INDUS_NB_AGENT_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment, cwd=tmp_path)


async def ask(url: str) -> bytes:
    async with stream(url, {}, headers={}, idle_timeout=30) as answer:
        return b"".join([piece async for piece in answer.content()])


def served(said: bytes, use: Callable[[str], Coroutine[Any, Any, bytes]]) -> Callable[[], Coroutine[Any, Any, bytes]]:
    """What asks a server that says the same to the first request, whatever that is, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(said)

    threading.Thread(target=serve, daemon=True).start()
    return lambda: use(f"http://127.0.0.1:{listener.getsockname()[1]}/")


class OtherLoop(asyncio.SelectorEventLoop):
    """An event loop that knows no more of connections than those of other packages."""

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:  # type: ignore[override]
        assert options.keys() <= {"ssl"}
        return await super().create_connection(*arguments, **options)


def test_a_request_is_made_on_an_event_loop_of_another_package() -> None:
    asking = served(b"HTTP/1.1 200 OK\r\n\r\nyes", ask)
    with asyncio.Runner(loop_factory=OtherLoop) as runner:
        assert runner.run(asking()) == b"yes"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"], ids=["nothing", "to go on"])
async def test_a_server_that_hangs_up_before_its_answer_is_said_to_have_done_so(said: bytes) -> None:
    with pytest.raises(httpx2.RemoteProtocolError, match=r"^Server disconnected without sending a response\.$"):
        await served(said, ask)()


async def test_a_server_that_does_not_answer_to_tls_is_said_not_to_have_done_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(httpx2.ConnectTimeout) as failed:
            async with stream(url, {}, headers={}, idle_timeout=0.2):
                pass
    sentence = transport_sentence(failed.value, url, 0.2, reached=False, hint="Check the base URL.")
    assert sentence is not None
    assert "cannot be reached (no connection with TLS within 0.2 s). Check" in sentence


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".example"])
async def test_a_name_that_no_host_can_have_is_not_reached(host: str) -> None:
    with pytest.raises(httpx2.ConnectError):
        await ask(f"http://{host}/")
