"""`indusagi --mode mcp --kernel …`: a kernel's tools over real pipes, used by the official client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp_types
import psutil
import pytest
from kernels import Kernel, private_environment
from mcp import Client, MCPError
from mcp_clients import HANDSHAKE, STATELESS, call, over_pipes
from waiting import until, wait_until

from indus_nb.front.serving import asking
from indus_nb.front.serving.served_tools import ServedTools
from indus_nb.start import SessionOptions, open_session

PROTOCOLS = [HANDSHAKE, STATELESS, "auto"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Here the settings say ``approve: never``."""
    return private_environment(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, world: dict[str, str]) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("work"), world) as kernel:
        kernel.run("import pathlib, time")
        yield kernel


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_another_agent_uses_the_variables_of_a_running_kernel(
    kernel: Kernel, world: dict[str, str], protocol: str
) -> None:
    kernel.run("rows = [1, 2, 3]")
    file = str(kernel.connection_file)
    async with over_pipes("--kernel", file, "--approve", "never", world=world, protocol=protocol) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["python", "variables", "notebook"]
        assert tools[0].input_schema["required"] == ["code"]
        assert await call(client, "python", code="rows.append(4); sum(rows)") == ("10\n", False)
        assert (await call(client, "variables", pattern="rows"))[0].startswith("rows")
        text, failed = await call(client, "python", cod="1")
        assert failed
        assert text == "Nothing was done. Invalid arguments for python:\n- code: Field required"
    assert kernel.run("print(rows)").streams == "[1, 2, 3, 4]\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_client_that_can_ask_its_user_is_asked_whatever_the_settings_say(
    kernel: Kernel, world: dict[str, str], protocol: str
) -> None:
    kernel.run("allowed = 'no'")
    questions: list[str] = []
    answers = iter(["No", "Yes, once", None])

    def asked(question: str, options: list[str]) -> str | None:
        questions.append(question)
        assert options[0] == "Yes, once"
        return next(answers)

    file = str(kernel.connection_file)
    async with over_pipes("--kernel", file, world=world, asked=asked, protocol=protocol) as client:
        outcomes = [await call(client, "python", code=f"allowed += 'yes {n}'") for n in range(3)]
    assert [failed for _, failed in outcomes] == [True, False, True]
    assert kernel.run("print(allowed)").streams == "noyes 1\n"
    assert "did not allow" in outcomes[0][0]
    assert all("asks: This changes allowed. Run this code in the kernel of" in question for question in questions)
    assert "allowed += 'yes 0'" in questions[0]


async def test_an_answer_counts_once_and_for_the_call_that_was_asked_about_alone(
    kernel: Kernel, world: dict[str, str]
) -> None:
    kernel.run("counted = []")
    arguments, other = {"code": "counted.append(1)"}, {"code": "counted.append(2)"}
    yes = mcp_types.ElicitResult(action="accept", content={"answer": "Yes, once"})

    def asked(_question: str, _options: list[str]) -> str | None:
        return "No"

    file = str(kernel.connection_file)
    async with over_pipes("--kernel", file, world=world, asked=asked, protocol=STATELESS) as client:
        question = await client.session.call_tool("python", arguments, allow_input_required=True)
        assert isinstance(question, mcp_types.InputRequiredResult)
        assert kernel.run("print(counted)").streams == "[]\n"
        state = question.request_state
        answers: mcp_types.InputResponses = dict.fromkeys(question.input_requests or {}, yes)
        with pytest.raises(MCPError, match="counts for nothing"):
            await client.session.call_tool("python", other, input_responses=answers, request_state=state)
        result = await client.session.call_tool("python", arguments, input_responses=answers, request_state=state)
        assert not result.is_error
        with pytest.raises(MCPError, match="counts for nothing"):
            await client.session.call_tool("python", arguments, input_responses=answers, request_state=state)
    assert kernel.run("print(counted)").streams == "[1]\n"


async def test_undo_in_the_notebook_takes_back_what_came_over_pipes(kernel: Kernel, world: dict[str, str]) -> None:
    kernel.run("%load_ext indus_nb\nkept = [1]")
    async with over_pipes("--kernel", str(kernel.connection_file), "--approve", "never", world=world) as client:
        assert not (await call(client, "python", code="kept.append(2)"))[1]
        assert kernel.run("print(kept)").streams == "[1, 2]\n"
        undone = kernel.run("%agent --provider offline undo")
        assert undone.status == "ok", undone.error
        assert kernel.run("print(kept)").streams == "[1]\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_client_that_cannot_ask_is_told_how_calls_are_allowed(
    kernel: Kernel, world: dict[str, str], protocol: str
) -> None:
    async with over_pipes("--kernel", str(kernel.connection_file), world=world, protocol=protocol) as client:
        text, failed = await call(client, "python", code="unasked = 1")
    assert failed
    assert "--approve never" in text
    assert kernel.run("print('unasked' in globals())").streams == "False\n"


async def test_a_kernel_that_is_killed_is_reported_as_gone(tmp_path: Path, world: dict[str, str]) -> None:
    with Kernel(tmp_path, world) as kernel:
        file = str(kernel.connection_file)
        async with over_pipes("--kernel", file, "--approve", "never", world=world) as client:
            code = "import time, pathlib; pathlib.Path('begun').touch(); time.sleep(1000)"
            waiting = asyncio.create_task(call(client, "python", code=code))
            await until((tmp_path / "begun").exists)
            kernel.kill()
            text, failed = await waiting
            assert failed
            assert "is gone: it was shut down, restarted or killed" in text
            text, failed = await call(client, "variables")
            assert failed
            assert "is gone" in text


def test_when_its_client_is_killed_the_program_ends_and_so_does_the_code(
    kernel: Kernel, world: dict[str, str], tmp_path: Path
) -> None:
    begun = kernel.folder / "begun"
    client = tmp_path / "client.py"
    client.write_text(
        "import asyncio, os, sys\n"
        "from mcp_clients import call, over_pipes\n"
        "async def work():\n"
        "    async with over_pipes(*sys.argv[1:], world=os.environ) as client:\n"
        "        code = 'pathlib.Path(\"begun\").touch()\\nwhile True: time.sleep(0.01)'\n"
        "        await call(client, 'python', code=code)\n"
        "asyncio.run(work())\n"
    )
    arguments = [str(client), "--kernel", str(kernel.connection_file), "--approve", "never"]
    tests = str(Path(__file__).parents[1])
    process = subprocess.Popen([sys.executable, *arguments], env={**world, "PYTHONPATH": tests})
    wait_until(begun.exists)
    (program,) = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    program.wait()
    assert kernel.run("print('free')").streams == "free\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "In MCP mode say which running kernel is served: --kernel auto, or its connection file."),
        (("--kernel", "auto", "do it"), "In MCP mode prompts come as commands on standard input"),
        (("--kernel", "nothing-like-it"), "nothing-like-it"),
    ],
)
def test_what_cannot_be_served_is_said_on_standard_error(
    world: dict[str, str], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "indus_nb", "--mode", "mcp", *arguments],
        env=world,
        cwd=tmp_path,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stdout == ""


class Raw:
    """The program, written to and read from line by line."""

    def __init__(self, kernel: Kernel, world: dict[str, str], *more: str) -> None:
        arguments = [sys.executable, "-m", "indus_nb", "--mode", "mcp", "--kernel", str(kernel.connection_file), *more]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(arguments, env=world, text=True, **pipes)
        self._count = 0

    def ask(self, method: str, *, elicitation: object = None, **params: Any) -> Any:
        """Send a request of 2026-07-28; returns its result, or its error."""
        capabilities = {} if elicitation is None else {"elicitation": elicitation}
        about = {"protocolVersion": STATELESS, "clientCapabilities": capabilities}
        meta = {f"io.modelcontextprotocol/{name}": value for name, value in about.items()}
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": {**params, "_meta": meta}}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        while (answer := json.loads(self.process.stdout.readline())).get("id") != self._count:
            assert "method" in answer, answer
            assert "id" not in answer, "a server sends no requests by this protocol"
        return answer.get("result", answer.get("error"))


@pytest.fixture
def raw(kernel: Kernel, world: dict[str, str]) -> Iterator[Callable[..., Raw]]:
    with contextlib.ExitStack() as opened:

        def start(*more: str) -> Raw:
            started = Raw(kernel, world, *more)
            opened.callback(started.process.communicate)
            return started

        yield start


def answered(question: Any) -> dict[str, Any]:
    """What a client adds to a call that it makes again."""
    given = {key: {"action": "accept", "content": {"answer": "Yes, once"}} for key in question["inputRequests"]}
    return {"requestState": question["requestState"], "inputResponses": given}


def test_a_call_that_asks_ends_with_the_question_and_goes_on_with_the_answer(
    kernel: Kernel, raw: Callable[..., Raw]
) -> None:
    kernel.run("made = []")
    program = raw()
    assert STATELESS in program.ask("server/discover")["supportedVersions"]
    call = {"name": "python", "arguments": {"code": "made.append(1)"}, "elicitation": {}}
    first = program.ask("tools/call", **call)
    assert first["resultType"] == "input_required"
    ((key, question),) = first["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    assert "made.append(1)" in question["params"]["message"]
    again = program.ask("tools/call", **call, requestState=first["requestState"], inputResponses={})
    assert again["inputRequests"] == {key: question}
    assert again["requestState"] != first["requestState"]
    assert program.ask("tools/call", **call, **answered(first))["code"] == -32602
    assert kernel.run("print(made)").streams == "[]\n"
    last = program.ask("tools/call", **call, **answered(again))
    assert (last["resultType"], last["isError"]) == ("complete", False)
    assert kernel.run("print(made)").streams == "[1]\n"


@pytest.mark.parametrize(
    "given",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"answer": "Yes, always"}},
        {"action": "accept", "content": {"answer": True}},
        {"action": "accept"},
        {"roots": []},
    ],
)
def test_what_is_no_answer_to_the_question_rejects_the_call(
    kernel: Kernel, raw: Callable[..., Raw], given: dict[str, Any]
) -> None:
    kernel.run("made = []")
    program = raw()
    call = {"name": "python", "arguments": {"code": "made.append(1)"}, "elicitation": {"form": {}}}
    first = program.ask("tools/call", **call)
    answers = dict.fromkeys(first["inputRequests"], given)
    last = program.ask("tools/call", **call, requestState=first["requestState"], inputResponses=answers)
    assert last["isError"]
    assert "did not allow" in last["content"][0]["text"]
    assert kernel.run("print(made)").streams == "[]\n"


def test_nothing_runs_for_clients_that_show_no_form_invent_a_state_or_hang_up(
    kernel: Kernel, raw: Callable[..., Raw]
) -> None:
    kernel.run("made = []")
    program = raw()
    call: dict[str, Any] = {"name": "python", "arguments": {"code": "made.append(1)"}}
    for elicitation in (None, {"url": {}}):
        rejected = program.ask("tools/call", **call, elicitation=elicitation)
        assert "nobody can be asked" in rejected["content"][0]["text"]
    invented = {"requestState": "0" * 32, "inputResponses": {"0": {"action": "accept", "content": {}}}}
    assert program.ask("tools/call", **call, **invented, elicitation={})["code"] == -32602
    assert program.ask("initialize", protocolVersion="2025-11-25", capabilities={})["code"] == -32022
    assert program.ask("tools/call", **call, elicitation={})["resultType"] == "input_required"
    rest, _ = program.process.communicate()
    assert (rest, program.process.returncode) == ("", 0)
    assert kernel.run("print(made)").streams == "[]\n"


def test_a_call_that_waits_for_its_answer_holds_up_no_other(kernel: Kernel, raw: Callable[..., Raw]) -> None:
    kernel.run("made = {n: [] for n in range(3)}; first, second, third = made.values()")
    program = raw()
    codes = ("first.append(1)", "second.append(1)", "third.append(1)")  # what one does changes no other's question
    calls = [{"name": "python", "arguments": {"code": code}, "elicitation": {}} for code in codes]
    dropped, second, third = (program.ask("tools/call", **call) for call in calls)
    assert program.ask("tools/call", **calls[2], **answered(third))["isError"] is False
    assert program.ask("tools/call", **calls[1], **answered(second))["isError"] is False
    assert kernel.run("print(*made.values())").streams == "[] [1] [1]\n"
    assert dropped["resultType"] == "input_required"
    rest, _ = program.process.communicate()
    assert (rest, program.process.returncode) == ("", 0)
    assert kernel.run("print(*made.values())").streams == "[] [1] [1]\n"


def test_of_too_many_calls_that_wait_for_an_answer_the_first_is_given_up(raw: Callable[..., Raw]) -> None:
    program = raw("--approve", "always")
    call = {"name": "variables", "arguments": {}, "elicitation": {}}
    questions = [program.ask("tools/call", **call) for _ in range(17)]
    assert {question["resultType"] for question in questions} == {"input_required"}
    ends = [program.ask("tools/call", **call, **answered(each)) for each in questions]
    assert ends[0]["code"] == -32602
    assert [end.get("isError") for end in ends[1:]] == [False] * 16


async def test_a_question_that_is_open_for_too_long_rejects_the_call_and_lets_the_next_one_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    options = SessionOptions(cwd=tmp_path, provider="offline", no_session=True, approve="writes")
    arguments = {"path": "made", "content": "x"}
    yes = mcp_types.ElicitResult(action="accept", content={"answer": "Yes, once"})

    async def elicit(context: object, params: object) -> mcp_types.ElicitResult:
        return yes

    with open_session(options) as session:
        server = ServedTools(session, ["write"], asks_clients=True).server()
        async with Client(server, elicitation_callback=elicit, mode=STATELESS) as client:
            with monkeypatch.context() as short:
                short.setattr(asking, "_OPEN_SECONDS", 0.0)
                text, failed = await call(client, "write", **arguments)
            assert failed
            assert "did not allow" in text
            question = await client.session.call_tool("write", arguments, allow_input_required=True)
            assert isinstance(question, mcp_types.InputRequiredResult)
            session.ui.cancel_all()
            answers: mcp_types.InputResponses = dict.fromkeys(question.input_requests or {}, yes)
            late = {"input_responses": answers, "request_state": question.request_state}
            await until(lambda: not session.ui.has_host)  # the call has ended
            with pytest.raises(MCPError, match="counts for nothing"):
                await client.session.call_tool("write", arguments, **late)
            assert not (tmp_path / "made").exists()
            assert not (await call(client, "write", **arguments))[1]
    assert (tmp_path / "made").read_text() == "x"


def test_nothing_but_messages_is_written_to_standard_output(kernel: Kernel, world: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "indus_nb", "--mode", "mcp", "--kernel", str(kernel.connection_file)],
        env=world,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    first = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"no json\n{first}\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline())]
    while answers[-1].get("id") != 1:
        answers.append(json.loads(process.stdout.readline()))
    assert answers[-1]["result"]["serverInfo"]["name"] == "indus"
    rest, _ = process.communicate()
    assert rest == ""
    assert process.returncode == 0
