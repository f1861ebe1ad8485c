"""Servers that misbehave: whatever they send, an answer ends as an error, memory is bounded, and an abort is felt."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from rpc_process import environment

from attacks.bad_server import BadServer, Connection, attacks
from indus_nb.base.errors import IndusError
from indus_nb.base.messages import AssistantMessage, UserMessage
from indus_nb.base.streaming import MAX_BLOCKS, StreamDone, StreamError
from indus_nb.core.loop.abort import AbortSignal, RunAborted
from indus_nb.core.loop.retry import is_passing
from indus_nb.models import Context, Model, StreamOptions
from indus_nb.models.apis.adapters import adapter
from indus_nb.models.http.bodies import IDENTITY
from indus_nb.models.http.failures import NotAStreamError, transport_sentence
from indus_nb.models.protocol import count_tokens

APIS = ("anthropic-messages", "openai-completions", "openai-responses", "anthropic-foundry")
KEY = "sk-very-secret-indeed"
CONTEXT = Context("", (UserMessage(content="The conversation."),), ())


def spoken(api: str) -> str:
    """The API whose streams are spoken by that one."""
    return "anthropic-messages" if api == "anthropic-foundry" else api


def model_at(api: str, url: str, **headers: str) -> Model:
    """A model at that server."""
    return Model(id="m", name="M", api=api, provider="mine", base_url=url, headers=headers)


async def asked(api: str, url: str, seconds: float = 20) -> AssistantMessage:
    """The answer."""
    options = StreamOptions(api_key=KEY, idle_timeout=seconds)
    events = [event async for event in adapter(api).stream(model_at(api, url, **{"x-secret": KEY}), CONTEXT, options)]
    last = events[-1]
    assert isinstance(last, StreamDone | StreamError)
    return last.message if isinstance(last, StreamDone) else last.error


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", attacks(APIS[0]))
async def test_an_abort_is_felt_whatever_the_server_sends(api, case):
    with BadServer(attacks(spoken(api))[case]) as server:
        signal = AbortSignal()

        async def run() -> None:
            options = StreamOptions(api_key=KEY, idle_timeout=20)
            events = adapter(api).stream(model_at(api, server.url), CONTEXT, options)
            while True:
                with signal.interruptible():
                    await anext(events)

        task = asyncio.create_task(run())
        async with asyncio.timeout(60):
            while not (task.done() or server.silent.is_set() or server.sent > 1_000_000):
                await asyncio.sleep(0.01)
            signal.request()
            ends = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ends[0], RunAborted | StopAsyncIteration)


ENDING = {
    "a gzip bomb": "larger than 16 MB",
    "a gzip bomb in a gzip bomb": "compressed",
    "a gzip bomb as an error": "529",
    "an error without an end": "529",
    "an error of deep JSON": "529",
    "a web page of open tags": "text/html",
    "a line without an end": "larger than 16 MB",
    "an event of empty lines of data": "larger than",
    "text for ever": "the answer is larger than 16 MB",
    "blocks for ever": f"more than {MAX_BLOCKS:,} blocks",
    "events of many values": "values of JSON",
    "trailers without an end": "",
    "headers without an end": "",
    "what is no HTTP": "",
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("case", ENDING)
async def test_an_answer_beyond_a_bound_is_an_error_that_says_so(api, case):
    with BadServer(attacks(spoken(api))[case]) as server:
        answer = await asked(api, server.url)
    assert answer.stop_reason == "error"
    assert ENDING[case] in answer.error_message
    assert KEY not in answer.error_message
    if "text" in case or "blocks" in case or "line" in case:
        assert not is_passing(answer)
        assert answer.text.startswith("Before.")


REDIRECTS = ["http://127.0.0.1:{port}/v1/messages", "http://localhost:1/x", "//127.0.0.1:{port}", "file:///etc/passwd"]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", REDIRECTS)
async def test_nothing_of_a_conversation_follows_a_redirect(api, status, location):
    async def nothing(connection: Connection) -> None:
        await connection.head()

    with BadServer(nothing) as other:
        port = other.url.rpartition(":")[2]

        async def redirect(connection: Connection) -> None:
            await connection.head(f"location: {location.format(port=port)}", "content-length: 0", status=f"{status} Go")

        with BadServer(redirect) as server:
            answer = await asked(api, server.url)
    assert other.requests == []
    assert answer.stop_reason == "error"
    assert not is_passing(answer) or "location" in answer.error_message.lower()
    assert "\x1b" not in answer.error_message


@pytest.mark.parametrize("api", ["anthropic-messages", "anthropic-foundry"])
@pytest.mark.parametrize("case", ["a gzip bomb as an error", "an error without an end", "a gzip bomb"])
async def test_a_count_of_tokens_is_bounded(api, case):
    with BadServer(attacks(APIS[0])[case]) as server:
        options = StreamOptions(api_key=KEY, idle_timeout=20)
        with pytest.raises(IndusError):
            await count_tokens(adapter(api), model_at(api, server.url), CONTEXT, options)
        assert server.sent < 64 * 1024 * 1024


async def test_a_conversation_asks_for_no_packing():
    with BadServer(attacks(APIS[0])["an error without an end"]) as server:
        await asked(APIS[0], server.url)
    assert "accept-encoding: identity" in server.requests[0].lower()
    assert IDENTITY == {"accept-encoding": "identity"}


RSS = """
import asyncio, resource, sys
from indus_nb.base.messages import UserMessage
from indus_nb.models import Context, Model, StreamOptions
from indus_nb.models.apis.adapters import adapter

async def main():
    model = Model(id="m", name="M", api={api!r}, provider="mine", base_url={url!r})
    provider = adapter({api!r})
    provider.preload()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    context = Context("", (UserMessage(content="Hi"),), ())
    async for event in provider.stream(model, context, StreamOptions(api_key="k", idle_timeout=20)):
        pass
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

asyncio.run(main())
"""


@pytest.mark.parametrize("api", ["anthropic-messages", "openai-responses", "anthropic-foundry"])
@pytest.mark.parametrize("case", ["a gzip bomb", "a line without an end", "an error without an end", "text for ever"])
def test_the_memory_that_a_server_takes_is_bounded(api, case, tmp_path):
    with BadServer(attacks(spoken(api))[case]) as server:
        run = subprocess.run(
            [sys.executable, "-"],
            input=RSS.format(api=api, url=server.url),
            capture_output=True,
            text=True,
            env=environment(tmp_path),
            check=False,
        )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 200 * 1024


def test_a_web_page_is_quoted_in_time_that_grows_with_it():
    for page in ("<" * 65536, "<script" * 9000, "<script>" * 8000, "</style><style " * 4000):
        error = NotAStreamError("text/html", page)
        assert "text/html" in (transport_sentence(error, "there", 1, reached=True, hint="") or "")
