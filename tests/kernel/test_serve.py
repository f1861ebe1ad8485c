"""`%agent serve`: other agents at work in a real kernel, over real HTTP, by the official client."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kernels import Cell, Kernel, private_environment
from mcp import MCPError
from mcp_clients import HANDSHAKE, STATELESS, call, over_http
from messages_api import Gate, MessagesApi, Reply, ToolUse
from panel_pages import Page, Wire
from waiting import until

CLIENTS = Path(__file__).parents[1] / "mcp_clients.py"


@dataclass
class Served:
    """A kernel that is served, and what its user pastes elsewhere."""

    kernel: Kernel
    url: str
    token_file: Path
    cell: Cell

    @property
    def token(self) -> str:
        return self.token_file.read_text()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> dict[str, str]:
    root = tmp_path_factory.mktemp("served")
    model = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "test-key"}
    return private_environment(root, JPY_SESSION_NAME=str(root / "seen.ipynb"), **model)  # a page may show widgets


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, world: dict[str, str]) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("work"), world) as kernel:
        assert kernel.run("%load_ext indus_nb\nimport time, pathlib").status == "ok"
        yield kernel


def serve(kernel: Kernel, line: str = "%agent serve") -> Served:
    cell = kernel.begin(line, asks=True).finish()
    assert cell.status == "ok", cell.error
    text = "\n".join(cell.shown)
    url = re.search(r"http://127\.0\.0\.1:\d+/mcp", text)
    token = re.search(r"\$\(cat '?(.*?\.token)'?\)", text)
    assert url is not None
    assert token is not None
    return Served(kernel, url[0], Path(token[1].replace("~", str(Path.home()))), cell)


@pytest.fixture
async def served(kernel: Kernel) -> AsyncGenerator[Served]:
    yield serve(kernel, "%agent serve --approve never")
    assert kernel.run("%agent serve stop").status == "ok"


def panel_of(served: Served) -> str:
    """The widget below what is to be pasted."""
    kind = "application/vnd.jupyter.widget-view+json"
    (shown,) = [bundles[-1][kind] for bundles in served.cell.displays.values() if kind in bundles[-1]]
    return shown["model_id"]


def ask(served: Served, **headers: str) -> tuple[int, bytes]:
    """Send a request with these headers and no others; returns its status and body."""
    place = urlsplit(served.url)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=10)
    connection.putrequest("POST", "/mcp", skip_host=True)
    for name, value in {"Host": place.netloc, "Content-Length": "0", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


async def test_two_clients_use_the_live_variables_once_the_cell_that_runs_has_ended(served: Served) -> None:
    go = served.kernel.folder / "go"
    running = served.kernel.begin("n = 1\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nn = 10")
    await asyncio.to_thread(running.wait_for, lambda cell: not cell.idle)
    async with over_http(served.url, served.token, "one") as one, over_http(served.url, served.token, "two") as two:
        assert [tool.name for tool in (await one.list_tools()).tools] == [
            "python",
            "variables",
            "notebook",
            "propose_cell",
        ]
        calls = [asyncio.create_task(call(each, "python", code="n += 1; n")) for each in (one, two)]
        look = asyncio.create_task(call(two, "variables", pattern="n"))
        done, _ = await asyncio.wait([*calls, look], timeout=1)
        assert not done
        go.touch()
        assert {text for text, _ in await asyncio.gather(*calls)} == {"11\n", "12\n"}
        assert re.search(r"^n\b.*\b1[012]$", (await look)[0], re.DOTALL)
    await asyncio.to_thread(running.finish)
    status = served.kernel.run("%agent serve status")
    assert "one (calls: 1)" in status.shown[0]
    assert "two (calls: 2)" in status.shown[0]


@pytest.mark.parametrize("given", [None, "Bearer wrong", "Bearer ", "Basic {token}", "{token}", "Bearer {token}é"])
async def test_without_the_token_a_client_gets_nothing(served: Served, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given.format(token=served.token)}
    for more in ({}, {"Host": "elsewhere.example"}, {"Content-Length": str(1 << 40)}):
        assert ask(served, **{**headers, **more}) == (401, b"")


async def test_pages_of_other_origins_and_names_of_other_hosts_are_rejected(served: Served) -> None:
    known = {"Authorization": f"Bearer {served.token}"}
    assert ask(served, **known, Host="localhost") == (421, b"")
    assert ask(served, **known, Origin="http://127.0.0.1:1") == (403, b"")
    assert ask(served, **known, Origin="null") == (403, b"")


async def test_connections_without_the_token_take_neither_descriptors_nor_the_place_of_others(
    tmp_path: Path, world: dict[str, str]
) -> None:
    few = "import os, resource\nfew = len(os.listdir('/proc/self/fd')) + 100\n"
    few += "resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))"
    with Kernel(tmp_path, world) as kernel, contextlib.ExitStack() as opened:
        assert kernel.run(f"%load_ext indus_nb\n%agent doctor\n{few}").status == "ok"
        served = serve(kernel, "%agent serve --approve never")
        for part in [b"", b"POST /mcp HTTP/1.1\r\nHost: "] * 250:
            half = opened.enter_context(socket.create_connection(("127.0.0.1", urlsplit(served.url).port), timeout=30))
            half.sendall(part)
        cell = kernel.run("import subprocess; subprocess.run(['echo', 'x'], stdout=subprocess.PIPE, check=True)")
        assert cell.status == "ok", cell.error
        async with over_http(served.url, served.token) as client:
            text, failed = await call(client, "python", code="1 + 1")
        assert (text, failed) == ("2\n", False)
        half.settimeout(30)
        assert half.recv(1) == b""


async def test_a_new_client_takes_the_place_of_the_session_that_was_idle_longest(served: Served) -> None:
    def post(message: dict[str, object], **more: str) -> http.client.HTTPResponse:
        place = urlsplit(served.url)
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
        headers = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
        headers |= {"Accept": "application/json, text/event-stream", **more}
        connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    def begin() -> http.client.HTTPResponse:
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        return post({"id": 1, "method": "initialize", "params": client})

    async with over_http(served.url, served.token) as client:
        begun = [await asyncio.to_thread(begin) for _ in range(70)]
        assert {answer.status for answer in begun} == {200}
        sessions = [answer.headers["mcp-session-id"] for answer in begun]
        ping = {"id": 2, "method": "ping"}
        asked = [await asyncio.to_thread(post, ping, **{"Mcp-Session-Id": sessions[at]}) for at in (0, -1)]
        assert [answer.status for answer in asked] == [404, 200]
        assert await call(client, "python", code="1 + 1") == ("2\n", False)


async def test_undo_takes_back_what_another_agent_has_changed(served: Served) -> None:
    served.kernel.run("kept = [1, 2]")
    async with over_http(served.url, served.token) as client:
        text, failed = await call(client, "python", code="kept.append(3); made = 1")
        assert not failed, text
        assert served.kernel.run("print(kept, made)").streams == "[1, 2, 3] 1\n"
        undone = served.kernel.run("%agent undo")
        assert "kept" in undone.shown[-1], undone.error
        assert served.kernel.run("print(kept, 'made' in globals())").streams == "[1, 2] False\n"


async def test_arguments_that_are_not_valid_give_an_error_that_says_so(served: Served) -> None:
    async with over_http(served.url, served.token) as client:
        text, failed = await call(client, "python", cod="1")
        assert failed
        assert text == "Nothing was done. Invalid arguments for python:\n- code: Field required"
        text, failed = await call(client, "bash", command="ls")
        assert failed
        assert "no tool named bash. Tools that can be called: python, variables" in text
        text, failed = await call(client, "python", code="1 / 0")
        assert failed
        assert "ZeroDivisionError" in text


@pytest.mark.parametrize("protocol", [HANDSHAKE, STATELESS])
async def test_the_user_is_asked_in_the_notebook_whatever_the_settings_allow_the_agent(
    kernel: Kernel, protocol: str
) -> None:
    served = serve(kernel)  # in this world the settings say `approve: never`
    wire = Wire(kernel)
    try:
        page = await asyncio.to_thread(Page, wire, panel_of(served))
        await asyncio.to_thread(page.settle)  # it shows dialogs from now on
        async with over_http(served.url, served.token, "Claude <b>Code</b>", protocol=protocol) as client:
            for answer, outcome in (("No", "The user did not allow this call."), ("Yes, once", "asked for\n")):
                calling = asyncio.create_task(call(client, "python", code="told = 'asked for'; print(told)"))
                await asyncio.to_thread(page.wait_for, lambda: page.dialogs)
                ((dialog_id, opened),) = page.dialogs.items()
                asked = "Claude <b>Code</b> asks: This adds told. Run this code in your kernel?"
                assert opened.dialog["title"].startswith(asked)
                page.tell("answer", id=dialog_id, value=answer)
                text, failed = await calling
                assert outcome in text
                assert failed is (answer == "No")
                await asyncio.to_thread(page.wait_for, lambda: not page.dialogs)
            await asyncio.to_thread(page.wait_for, lambda: "told = 'asked for'" in page.text)
            assert await call(client, "python", code="told") == ("'asked for'\n", False)  # it has no effect
            calling = asyncio.create_task(call(client, "python", code="again = 1"))
            await asyncio.to_thread(page.wait_for, lambda: page.dialogs)
            ((dialog_id, opened),) = page.dialogs.items()
            again = "Yes, and always in this session: may make new variables, and change its own"
            assert opened.dialog["options"] == ["Yes, once", again, "No"]
            page.tell("answer", id=dialog_id, value=again)
            assert not (await calling)[1]
            assert not (await call(client, "python", code="more = 2"))[1]
            await asyncio.to_thread(page.wait_for, lambda: not page.dialogs)
            assert kernel.run("print(told, again, more); del told, again, more").streams == "asked for 1 2\n"
    finally:
        wire.close()
        kernel.run("%agent serve stop")


@pytest.mark.parametrize("protocol", [HANDSHAKE, STATELESS])
async def test_where_no_page_is_open_a_call_that_needs_an_answer_is_rejected(kernel: Kernel, protocol: str) -> None:
    cell = kernel.run("%agent serve")
    assert len(cell.shown) == 1  # nobody is there who could look at a panel
    url = re.search(r"http://\S+/mcp", cell.shown[0])
    token = re.search(r"\$\(cat (\S+\.token)\)", cell.shown[0])
    assert url is not None
    assert token is not None
    try:
        async with over_http(url[0], Path(token[1]).read_text(), protocol=protocol) as client:
            text, failed = await call(client, "python", code="never = 1")
            assert failed
            assert "nobody can be asked" in text
            assert "--approve never" in text
            assert (await call(client, "variables", pattern="never"))[0].startswith("No variable matches")
    finally:
        kernel.run("%agent serve stop")


async def test_a_cell_that_another_agent_proposes_is_shown_with_the_name_of_that_agent(kernel: Kernel) -> None:
    served = serve(kernel)
    wire = Wire(kernel)
    try:
        page = await asyncio.to_thread(Page, wire, panel_of(served))
        await asyncio.to_thread(page.settle)  # it shows dialogs from now on
        async with over_http(served.url, served.token, "codex") as client:
            calling = asyncio.create_task(call(client, "propose_cell", source="1 + 1"))
            await asyncio.to_thread(page.wait_for, lambda: page.dialogs, 30)
            ((dialog_id, opened),) = page.dialogs.items()
            assert opened.dialog["title"].startswith("codex asks: ")
            page.tell("answer", id=dialog_id, value="No")
            text, failed = await calling
            assert failed
            assert "The user did not accept the cell." in text
    finally:
        wire.close()
        kernel.run("%agent serve stop")


async def test_unloading_the_extension_ends_what_is_served(tmp_path: Path, world: dict[str, str]) -> None:
    with Kernel(tmp_path, world) as kernel:
        kernel.run("%load_ext indus_nb")
        served = serve(kernel, "%agent serve --approve never")
        token = served.token
        assert kernel.run("%unload_ext indus_nb").status == "ok"
        assert token
        assert not served.token_file.exists()
        with pytest.raises(ConnectionRefusedError):
            ask(served)


async def test_calls_come_in_between_those_of_an_agent_that_works_for_a_cell(served: Served, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(gate, ToolUse("python", {"code": "order.append('agent')"})), "Done.")
    served.kernel.run("order = []")
    cell = served.kernel.begin("%agent --new --approve never add yourself to the order")
    await asyncio.to_thread(gate.reached.wait, 240)
    async with over_http(served.url, served.token) as client:
        assert await call(client, "python", code="order.append('other'); order") == ("['other']\n", False)
        gate.open()
        await asyncio.to_thread(cell.finish)
        assert await call(client, "python", code="order") == ("['other', 'agent']\n", False)


async def test_the_code_of_a_client_that_is_killed_ends_and_others_go_on(served: Served) -> None:
    begun = served.kernel.folder / "begun"
    code = "pathlib.Path('begun').touch()\nwhile True: time.sleep(0.01)"
    client = subprocess.Popen([sys.executable, str(CLIENTS), served.url, served.token, code], stderr=subprocess.DEVNULL)
    await until(begun.exists)
    client.kill()
    client.wait()
    async with over_http(served.url, served.token) as other:
        assert await call(other, "python", code="'free'") == ("'free'\n", False)
    assert served.kernel.run("print('the user as well')").streams == "the user as well\n"


async def test_stopping_ends_calls_and_frees_the_port_and_the_token(kernel: Kernel) -> None:
    served = serve(kernel, "%agent serve --approve never")
    assert served.token_file.stat().st_mode & 0o777 == 0o600
    assert served.token_file.parent.stat().st_mode & 0o777 == 0o700
    stopped = await asyncio.to_thread(kernel.run, "%agent serve stop")
    assert "the port is free" in stopped.shown[0]
    assert not served.token_file.exists()
    with pytest.raises(ConnectionRefusedError):
        ask(served)
    assert "Nothing is served" in kernel.run("%agent serve status").shown[0]


async def test_the_token_stands_in_no_output_and_in_no_log(kernel: Kernel, world: dict[str, str]) -> None:
    log = kernel.folder / "everything.log"
    kernel.run(f"import logging; logging.basicConfig(filename={str(log)!r}, level=0, force=True)")
    served = serve(kernel, "%agent serve --approve never")
    try:
        token = served.token
        async with over_http(served.url, token) as client:
            await call(client, "python", code="1")
        ask(served, Host="logged.example", Authorization=f"Bearer {token}")
        assert token not in str(served.cell.displays) + served.cell.streams
        status = kernel.run("%agent serve status")
        assert token not in str(status.displays)
        kept = [path for path in Path(world["INDUS_NB_AGENT_DIR"]).rglob("*") if path.is_file()]
        assert [path for path in kept if token.encode() in path.read_bytes()] == [served.token_file]
        written = log.read_text()
        assert token not in written
        assert "logged.example" not in written
        assert "session ID" not in written
    finally:
        kernel.run("%agent serve stop")


async def test_what_a_killed_kernel_leaves_is_a_refused_connection(tmp_path: Path, world: dict[str, str]) -> None:
    with Kernel(tmp_path, world) as kernel:
        kernel.run("%load_ext indus_nb\nimport time")
        served = serve(kernel, "%agent serve --approve never")
        begun = tmp_path / "begun"
        async with over_http(served.url, served.token) as client:
            code = "from pathlib import Path; Path('begun').touch(); time.sleep(1000)"
            waiting = asyncio.create_task(call(client, "python", code=code))
            await until(begun.exists)
            kernel.kill()
            with pytest.raises(MCPError, match=r"closed|ended|terminated"):
                await waiting
        with pytest.raises(ConnectionRefusedError):
            ask(served)


def test_without_the_library_a_sentence_says_what_to_install(kernel: Kernel) -> None:
    cell = kernel.run("import sys; sys.modules['uvicorn'] = None\n%agent serve")
    kernel.run("del sys.modules['uvicorn']")
    assert cell.error is not None
    assert '`pip install ".[mcp]"` in the clone of indus_nb' in cell.error["evalue"]


def test_what_the_agents_code_runs_cannot_serve_the_kernel(kernel: Kernel) -> None:
    kernel.run("import indus_nb")
    assert "Nothing is served" in kernel.run("indus_nb.serve('status')").shown[0]
    cell = kernel.run("%agent serve --approve perhaps")
    assert cell.error is not None
    assert "choose never, effects, writes, always or looks" in cell.error["evalue"]
