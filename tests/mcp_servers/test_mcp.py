"""MCP servers as real processes, over their pipes and over HTTP, in the older and the newer protocol."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from living import ending, lives
from waiting import until

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ImageContent, TextContent
from indus_nb.extend.mcp import McpServers
from indus_nb.tools.tool import ToolContext, ToolError

SERVER = Path(__file__).parents[1] / "mcp_server.py"
HEADERS = {"Authorization": "Bearer open-sesame"}

# Servers made with the SDK take a second to start, so that each serves many tests, and all of them share a loop.
in_one_loop = pytest.mark.asyncio(loop_scope="module")

PLAIN = """
import json, os, signal, subprocess, sys, time
folder = sys.argv[1]
with open(folder + "/started", "a") as started:
    started.write(f"{os.getpid()}\\n")
if "--stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "plain", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "die", "block")]}
    arguments = params["arguments"]
    if params["name"] == "die":
        print(arguments["words"], file=sys.stderr, flush=True)
        os._exit(3)
    if params["name"] == "block":
        ignore = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(300)"
        child = subprocess.Popen([sys.executable, "-c", ignore])
        with open(folder + "/block.new", "w") as told:
            told.write(f"{os.getpid()} {child.pid}")
        os.rename(folder + "/block.new", folder + "/block")
        while True:
            signal.pause()
    return {"content": [{"type": "text", "text": arguments["text"]}]}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        try:
            reply = {"result": answer(message["method"], message.get("params"))}
        except KeyError:
            reply = {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
with open(folder + "/ended", "w"):
    pass
while "--stubborn" in sys.argv:
    signal.pause()
"""
"""A server of the older protocol that is quick to start."""


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))


@contextmanager
def http_server(folder: Path, *flags: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    arguments = [sys.executable, str(SERVER), str(folder), "--http", *flags]
    environment = {**os.environ, "MCP_PORT": str(port)}
    with (
        (folder / "log").open("ab") as log,
        ending(subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)) as process,
    ):
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def plain(folder: Path, *flags: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", "-c", PLAIN, str(folder), *flags], **more}


def with_sdk(folder: Path, *flags: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVER), str(folder), *flags], **more}


@asynccontextmanager
async def started(
    folder: Path, on_change: Callable[[], None] = lambda: None, **configs: Any
) -> AsyncIterator[McpServers]:
    servers = McpServers(configs, folder, on_change=on_change)
    try:
        await servers.start()
        yield servers
    finally:
        await servers.close()


@dataclass
class Reached:
    """A server made with the SDK, and what it tells by files."""

    servers: McpServers
    folder: Path
    changes: list[int]


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["pipes", "pipes --legacy", "http", "http --legacy"]
)
async def reached(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reached]:
    folder = tmp_path_factory.mktemp("server")
    way, *flags = request.param.split()
    changes: list[int] = []
    with ExitStack() as stack:
        if way == "pipes":
            config = with_sdk(folder, *flags)
        else:
            _, port = stack.enter_context(http_server(folder, *flags))
            config = {"url": f"http://127.0.0.1:{port}/mcp", "headers": HEADERS}
        async with started(folder, lambda: changes.append(1), test=config) as servers:
            yield Reached(servers, folder, changes)


async def call(
    servers: McpServers, name: str, report: Callable[[ToolOutput], None] = lambda _: None, /, **arguments: Any
) -> ToolOutput:
    tool = servers.tools[name]
    return await tool.execute(tool.check(arguments), ToolContext("1", report))


async def text(servers: McpServers, name: str, /, **arguments: Any) -> str:
    return shown(await call(servers, name, **arguments))


async def failure(servers: McpServers, name: str, /, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await call(servers, name, **arguments)
    assert str(caught.value) == shown(caught.value.output)
    return str(caught.value)


def shown(output: ToolOutput) -> str:
    return "\n".join(block.text for block in output.content if isinstance(block, TextContent))


def starts(folder: Path) -> list[int]:
    """The ids of the processes that were started, oldest first."""
    return [int(line) for line in (folder / "started").read_text().split()]


# In every way there is to reach a server


@in_one_loop
async def test_a_server_offers_its_tools_under_its_name_and_runs_them(reached: Reached) -> None:
    servers = reached.servers
    assert servers.problems == []
    echo, slow = servers.tools["test_echo"], servers.tools["test_slow"]
    assert echo.spec.name == "test_echo"
    assert echo.spec.description == "Say it again."
    assert echo.spec.parameters["type"] == "object"
    assert echo.spec.parameters["properties"]["text"]["type"] == "string"
    assert echo.spec.parameters["required"] == ["text"]
    assert echo.read_only
    assert not slow.read_only
    assert await text(servers, "test_echo", text="größer\u2028\n") == "größer\u2028\n"


@in_one_loop
async def test_a_tools_failure_is_told_to_the_model(reached: Reached) -> None:
    assert "text" in await failure(reached.servers, "test_echo")
    assert "no such luck" in await failure(reached.servers, "test_fail", text="no such luck")


@in_one_loop
async def test_cancelling_a_call_stops_it_at_the_server(reached: Reached) -> None:
    reports: list[ToolOutput] = []
    running = asyncio.create_task(call(reached.servers, "test_slow", reports.append))
    await until(lambda: reports)
    assert shown(reports[0]) == "1/4: a quarter"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until((reached.folder / "cancelled").exists)
    assert await text(reached.servers, "test_echo", text="still there") == "still there"


@in_one_loop
async def test_tools_that_a_server_announces_later_are_offered(reached: Reached) -> None:
    servers = reached.servers
    before, changes = servers.tools, len(reached.changes)
    await call(servers, "test_learn", name="more")
    await until(lambda: "test_more" in servers.tools)
    assert "test_more" not in before
    assert len(reached.changes) == changes + 1
    assert await text(servers, "test_more", text="new") == "new"


@in_one_loop
async def test_results_of_every_kind_become_text_and_images(reached: Reached) -> None:
    servers = reached.servers
    output = await call(servers, "test_everything")
    images = [block for block in output.content if isinstance(block, ImageContent)]
    assert [image.mime_type for image in images] == ["image/png"]
    assert output.content.index(images[0]) == 2, "in its place between the texts"
    assert shown(output).splitlines() == [
        "first",
        "Image from everything [image/png]",
        "[An image from everything, image/svg+xml, cannot be shown: models take PNG, JPEG, GIF and WebP]",
        "[Audio, audio/wav: cannot be shown]",
        "[Resource file:///a.txt]",
        "inside",
        "[Resource file:///b.bin] application/zip, 3 bytes: cannot be shown",
        "[Resource c: file:///c.txt]",
        '{"deep": [1, 2]}',
    ]
    assert await text(servers, "test_add", left=1, right=2) == '{\n  "sum": 3\n}', "said once, not twice"
    assert await text(servers, "test_echo", text="") == "(no output)"


@in_one_loop
async def test_a_long_result_is_cut_and_kept_in_a_file(reached: Reached) -> None:
    output = await call(reached.servers, "test_lines", count=3000)
    kept = Path(output.details["fullOutputPath"]).read_text()
    assert kept.splitlines() == [f"{number:05d}" for number in range(3000)]
    assert shown(output).startswith("00000\n")
    assert "lines 1-2000 of 3000 lines" in shown(output)
    output = await call(reached.servers, "test_lines", count=1, width=100_000)
    assert len(shown(output)) < 52_000
    assert "the first 50.0 KB of line 1" in shown(output)


@in_one_loop
async def test_what_a_server_writes_elsewhere_is_not_ours(reached: Reached, capfd: pytest.CaptureFixture[str]) -> None:
    assert await text(reached.servers, "test_shout", size=300_000) == "done"
    if reached.servers.log("test"):
        await until(lambda: reached.servers.log("test").rstrip().endswith("red"))
    assert len(reached.servers.log("test")) <= 16 * 1024
    assert "\x1b" not in reached.servers.log("test")
    assert capfd.readouterr() == ("", "")


@in_one_loop
async def test_a_message_without_end_ends_the_connection_instead_of_us(reached: Reached) -> None:
    problem = await failure(reached.servers, "test_huge")
    assert re.search("sent a message of more than 16.0 MB|event exceeded the 16777216 byte limit", problem)
    assert await text(reached.servers, "test_echo", text="again") == "again"


@in_one_loop
async def test_a_message_of_too_many_values_ends_the_connection_instead_of_us(reached: Reached) -> None:
    problem = await failure(reached.servers, "test_many")
    assert re.search("holds more than 250,000 values of JSON|stream ended without a response", problem)
    assert await text(reached.servers, "test_echo", text="again") == "again"
    commas = "," * 300_000
    assert await text(reached.servers, "test_echo", text=commas), "signs in a text are no values"


# Processes


async def test_a_process_gets_its_folder_and_only_the_environment_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-for-servers")
    (tmp_path / "inside").mkdir()
    config = with_sdk(tmp_path, env={"GIVEN": "yes"}, cwd="inside", timeoutMs=15000)
    async with started(tmp_path, test=config) as servers:
        _, folder, environment = (await text(servers, "test_process")).split("\n")
        assert folder == str(tmp_path / "inside")
        assert "GIVEN=yes" in environment
        assert "PATH=" in environment
        assert "not-for-servers" not in environment
        assert "did not answer slow within 15 seconds" in await failure(servers, "test_slow")
        await until((tmp_path / "cancelled").exists)


async def test_a_server_that_died_is_started_again_but_not_for_ever(tmp_path: Path) -> None:
    async with started(tmp_path, test=plain(tmp_path, env={"KEY": "s3cr3t-value"})) as servers:
        for _ in range(4):
            problem = await failure(servers, "test_die", words="it was the disk: s3cr3t-value")
            assert "ended with exit code 3, while die was running" in problem
            assert "it was the disk: ***" in problem
        problem = await failure(servers, "test_echo", text="now?")
        assert re.search(r"ended with exit code 3\. It was started again 3 times .* for \d\d seconds", problem)
        assert len(starts(tmp_path)) == 4


async def test_a_server_that_was_killed_between_calls_is_started_again(tmp_path: Path) -> None:
    async with started(tmp_path, test=plain(tmp_path)) as servers:
        [first] = starts(tmp_path)
        os.kill(first, signal.SIGKILL)
        [problem] = await until(lambda: servers.problems)
        assert "ended by signal 9. A call of one of its tools connects anew" in problem
        answers = await asyncio.gather(*(text(servers, "test_echo", text=str(number)) for number in range(3)))
        assert answers == ["0", "1", "2"]
        assert servers.problems == []
        assert len(starts(tmp_path)) == 2


async def test_closing_lets_a_server_end_in_order(tmp_path: Path) -> None:
    async with started(tmp_path, test=plain(tmp_path)) as servers:
        pass
    assert (tmp_path / "ended").exists()
    await servers.close()
    assert "is closed" in await failure(servers, "test_echo", text="late")
    assert len(starts(tmp_path)) == 1


async def test_closing_leaves_no_process_behind_whatever_they_ignore(tmp_path: Path) -> None:
    async with started(tmp_path, test=plain(tmp_path, "--stubborn")) as servers:
        running = asyncio.create_task(failure(servers, "test_block"))
        await until((tmp_path / "block").exists)
    assert "was closed, while block was running" in await running
    for pid in map(int, (tmp_path / "block").read_text().split()):
        await until(lambda pid=pid: not lives(pid))


OWNER = """
import asyncio, sys
from pathlib import Path
from indus_nb.extend.mcp import McpServers
from indus_nb.tools.tool import ToolContext

async def main():
    folder, *arguments = sys.argv[1:]
    servers = McpServers({"test": {"command": sys.executable, "args": arguments}}, Path(folder))
    await servers.start()
    if END == "return":
        return
    await servers.tools["test_block"].execute({}, ToolContext("1", print))

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["return", "kill"])
async def test_no_process_outlives_ours(tmp_path: Path, end: str) -> None:
    code = OWNER.replace("END", repr(end))
    arguments = [sys.executable, "-X", "dev", "-c", code, str(tmp_path), *plain(tmp_path, "--stubborn")["args"]]
    with ending(subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)) as owner:
        if end == "kill":
            await until((tmp_path / "block").exists)
            owner.kill()
        _, complaints = await asyncio.to_thread(owner.communicate)
    assert "Warning" not in complaints
    assert "Traceback" not in complaints
    pids = (tmp_path / "block").read_text().split() if end == "kill" else starts(tmp_path)
    for pid in map(int, pids):
        await until(lambda pid=pid: not lives(pid))


# Addresses


@pytest.mark.parametrize("flags", [(), ("--legacy",)])
async def test_an_http_server_may_go_away_and_come_back(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with http_server(tmp_path, *flags) as (process, port):
        async with started(tmp_path, test={"url": f"http://127.0.0.1:{port}/mcp", "headers": HEADERS}) as servers:
            process.kill()
            process.wait()
            with http_server(tmp_path, *flags, port=port) as (second, _):
                assert await text(servers, "test_echo", text="once more") == "once more"
                second.kill()
                second.wait()
                assert "All connection attempts failed" in await failure(servers, "test_echo", text="gone")
                assert "could not be started again" in await failure(servers, "test_echo", text="gone")
            with http_server(tmp_path, *flags, port=port):
                assert await text(servers, "test_echo", text="back") == "back"
                assert servers.problems == []


async def test_a_refusal_names_its_status_and_no_secret(tmp_path: Path) -> None:
    with http_server(tmp_path) as (_, port):
        config = {
            "url": f"http://user:password-in-url@127.0.0.1:{port}/mcp?key=key-in-query",
            "headers": {"Authorization": "Bearer wrong-token"},
        }
        async with started(tmp_path, test=config) as servers:
            [problem] = servers.problems
    assert f"test (http://127.0.0.1:{port}/mcp) is not available" in problem
    assert "HTTP 401 Unauthorized" in problem
    assert not re.search("password-in-url|key-in-query|wrong-token", problem)


# What users write


def problems(config: object) -> list[str]:
    return McpServers({"test": config}, Path.cwd()).problems


@pytest.mark.parametrize(
    ("config", "field", "reason"),
    [
        ("npx", "mcpServers.test", "valid dictionary"),
        ({}, "mcpServers.test", "either `command` or `url`"),
        ({"command": "a", "url": "http://b"}, "mcpServers.test", "either `command` or `url`"),
        ({"command": "a", "args": "b"}, "mcpServers.test.args", "valid list"),
        ({"command": "a", "env": {"PORT": 1}}, "mcpServers.test.env.PORT", "valid string"),
        ({"url": "ftp://a"}, "mcpServers.test.url", "match pattern"),
        ({"url": "http://[a"}, "mcpServers.test", "IPv6"),
        ({"command": "a", "timeoutMs": 0}, "mcpServers.test.timeoutMs", "greater than 0"),
        ({"type": "sse", "url": "http://a"}, "mcpServers.test.type", "streamable-http"),
    ],
)
def test_an_entry_that_makes_no_sense_is_named_with_its_field(config: object, field: str, reason: str) -> None:
    [problem] = problems(config)
    assert f"`{field}` is wrong" in problem
    assert reason in problem


def test_a_problem_shows_no_value() -> None:
    [problem] = problems({"command": "a", "headers": {"Authorization": ["secret-token"]}})
    assert "mcpServers.test.headers.Authorization" in problem
    assert "secret-token" not in problem


async def test_one_bad_server_does_not_keep_the_others_from_working(tmp_path: Path) -> None:
    async with started(
        tmp_path,
        wrong={"args": []},
        missing={"command": "no-such-program"},
        failing={"command": "sh", "args": ["-c", "echo no licence >&2; exit 4"]},
        silent={"command": "sleep", "args": ["1000"], "timeoutMs": 1500},
        off={"command": "no-such-program", "enabled": False},
        good=plain(tmp_path, timeoutMs=20_000),
    ) as servers:
        assert await text(servers, "good_echo", text="yes") == "yes"
        wrong, missing, failing, silent = servers.problems
        assert "mcpServers.wrong" in wrong
        assert "there is no program no-such-program" in missing
        assert "failing" in failing
        assert "ended with exit code 4" in failing
        assert "no licence" in failing
        assert "was not ready within 1.5 seconds" in silent


async def test_names_are_made_valid_and_unique(tmp_path: Path) -> None:
    configs = {
        "my server/ü": plain(tmp_path),
        "n" * 80: plain(tmp_path),
        "bare": plain(tmp_path, prefix=""),
        "twin": plain(tmp_path, prefix=""),
    }
    servers = McpServers(configs, tmp_path, reserved=["block"])
    await servers.start()
    names = list(servers.tools)
    count = len(names) // 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert names[0] == "my_server___echo"
    assert len(names[count]) == 64
    assert names[2 * count] == "echo"
    assert names[3 * count].startswith("echo_")
    assert "block" not in names
    assert all(tool.spec.name == name for name, tool in servers.tools.items())
    assert await text(servers, names[3 * count], text="twin") == "twin"
    await servers.close()


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout


NO_SDK = """
import asyncio, sys
from pathlib import Path
sys.modules["mcp"] = None
from indus_nb.extend.mcp import McpServers
servers = McpServers({"test": {"command": "true"}}, Path.cwd())
asyncio.run(servers.start())
print(*servers.problems)
"""


def test_a_missing_sdk_is_a_problem_that_says_what_to_install() -> None:
    assert '`pip install ".[mcp]"` in the clone of indus_nb' in python(NO_SDK)


UNUSED = """
import asyncio, sys
from pathlib import Path
from indus_nb.extend.mcp import McpServers
servers = McpServers({"off": {"command": "true", "enabled": False}, "wrong": {}}, Path.cwd())
asyncio.run(servers.start())
asyncio.run(servers.close())
print(sorted({"mcp", "httpx2", "anyio"} & set(sys.modules)))
"""


def test_the_sdk_is_imported_only_when_a_server_is_started() -> None:
    assert python(UNUSED) == "[]\n"


# Loops


def test_servers_work_in_another_thread_inside_a_loop_that_was_made_reentrant(tmp_path: Path) -> None:
    code = f"""
import asyncio, nest_asyncio2, threading
from pathlib import Path
from indus_nb.extend.mcp import McpServers
from indus_nb.tools.tool import ToolContext

async def outer():
    loop = asyncio.get_running_loop()
    nest_asyncio2.apply(loop)
    servers = McpServers({{"test": {plain(tmp_path)!r}}}, Path({str(tmp_path)!r}))
    loop.run_until_complete(servers.start())
    output = loop.run_until_complete(servers.tools["test_echo"].execute({{"text": "nested"}}, ToolContext("1", print)))
    print(output.content[0].text)
    await servers.close()

thread = threading.Thread(target=lambda: asyncio.run(outer()))
thread.start()
thread.join()
"""
    assert python(code) == "nested\n"
