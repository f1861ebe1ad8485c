"""`--kernel`: the console program at work in running Jupyter kernels."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import nbformat
import psutil
import pytest
from acp_process import AcpProcess
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from rpc_process import RpcProcess, indusagi
from waiting import wait_until

ID = "0f1e2d3c-0000-4000-8000-000000000001"


@pytest.fixture
def world(tmp_path: Path) -> dict[str, str]:
    """The environment of kernels and programs that find each other, and nobody else."""
    return private_environment(tmp_path / "jupyter")


@pytest.fixture
def kernel(tmp_path: Path, world: dict[str, str]) -> Iterator[Kernel]:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    with Kernel(work, world, id=ID) as kernel:
        kernel.run("import pandas as pd\nframe = pd.DataFrame({'name': ['Ada', 'Bob'], 'amount': [17, 25]})")
        yield kernel


class Server:
    """A real Jupyter server, without a page, in whose root notebooks are opened."""

    def __init__(self, root: Path, world: dict[str, str]) -> None:
        arguments = ("--no-browser", "--allow-root", "--port=0", "--ServerApp.ip=127.0.0.1")
        self._log = (root.parent / "server.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *arguments, f"--ServerApp.root_dir={root}"],
            env=world,
            stdout=self._log,
            stderr=self._log,
        )
        self._file = Path(world["JUPYTER_RUNTIME_DIR"], f"jpserver-{self._process.pid}.json")
        wait_until(self._answers, 90)

    def _answers(self) -> bool:
        try:
            self._about = json.loads(self._file.read_text())
            self.request("/api")
        except (OSError, ValueError):
            return False
        return True

    def request(self, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"token {self._about['token']}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._about["url"].rstrip("/") + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def open(self, name: str, *cells: str) -> str:
        """Write a notebook, and start its kernel as a page does; returns the kernel's id."""
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbformat.write(made, self._about["root_dir"] + "/" + name)
        session = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        return self.request("/api/sessions", session)["kernel"]["id"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kernel in self.request("/api/kernels"):
            process = next((p for p in psutil.process_iter() if kernel["id"] in " ".join(_command(p))), None)
            if process is not None:
                process.kill()
        self._process.kill()
        self._process.wait()
        self._log.close()


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def more(world: dict[str, str], api: MessagesApi) -> dict[str, str]:
    return {
        "JUPYTER_RUNTIME_DIR": world["JUPYTER_RUNTIME_DIR"],
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "sk-test",
    }


def rpc(kernel: str, home: Path, world: dict[str, str], api: MessagesApi, *arguments: str) -> RpcProcess:
    arguments = ("--kernel", kernel, "--no-session", *arguments)
    return RpcProcess(*arguments, home=home, cwd=home / "work", more=more(world, api))


def python(code: str, **arguments: Any) -> Reply:
    return Reply(ToolUse("python", {"code": code, **arguments}))


def results(api: MessagesApi, at: int = -1) -> str:
    """What the model was told of its calls with its last request."""
    content = api.requests[at].body["messages"][-1]["content"]
    return "".join(str(block.get("content", "")) for block in content if block["type"] == "tool_result")


def printed(update: dict[str, Any]) -> str:
    return "".join(block["text"] for block in update["partialResult"]["content"])


@pytest.mark.parametrize("spec", ["auto", ID, ID[:8], f"kernel-{ID}.json", "the file"])
def test_the_model_reads_a_live_frame_of_a_kernel_named_in_any_way(
    spec: str, kernel: Kernel, world: dict[str, str], tmp_path: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(python("print(frame.amount.sum())"), Reply("Done"))
    named = str(kernel.connection_file) if spec == "the file" else spec
    done = indusagi("--kernel", named, "sum it", home=tmp_path, cwd=tmp_path / "work", **more(world, messages_api))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Done\n", "")
    assert "42" in results(messages_api)
    assert kernel.run("print(len(In), Out)").streams == "3 {}\n"


def test_a_kernel_that_is_not_there_is_refused_with_those_that_are(
    kernel: Kernel, world: dict[str, str], tmp_path: Path, messages_api: MessagesApi
) -> None:
    done = indusagi("--kernel", "feedface", "hi", home=tmp_path, cwd=tmp_path / "work", **more(world, messages_api))
    assert done.returncode == 2
    assert "no running kernel 'feedface'" in done.stderr
    assert ID in done.stderr
    assert messages_api.requests == []


def test_an_abort_interrupts_our_code_only(
    kernel: Kernel, world: dict[str, str], tmp_path: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(python("print('begun')\nimport time\ntime.sleep(1000)"))
    with rpc("auto", tmp_path, world, messages_api) as agent:
        agent.send({"type": "prompt", "message": "wait"})
        agent.wait(lambda frame: frame["type"] == "tool_execution_update" and printed(frame) == "begun\n")
        cell = kernel.begin("print('the cell of the user')")
        agent.send({"type": "abort"})
        ended = agent.wait("tool_execution_end")
        cell.finish()
    assert "The run was aborted: the code was interrupted." in str(ended)
    assert (cell.streams, cell.error) == ("the cell of the user\n", None)


def test_a_session_of_an_editor_asks_before_it_reads_a_live_frame(
    kernel: Kernel, world: dict[str, str], tmp_path: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(python("frame = frame.amount.sum(); frame"), Reply("It is 42."))
    environment = more(world, messages_api)
    with AcpProcess("--kernel", "auto", home=tmp_path, cwd=tmp_path / "work", more=environment) as agent:
        agent.request("initialize", protocolVersion=1, clientCapabilities={})
        opened = agent.request("session/new", cwd=str(tmp_path / "work"), mcpServers=[])["sessionId"]
        prompt = agent.begin("session/prompt", sessionId=opened, prompt=[{"type": "text", "text": "sum"}])
        asked = agent.asked("session/request_permission")
        assert "Run this code in the kernel of" in str(asked)
        assert "frame = frame.amount.sum(); frame" in str(asked)
        agent.reply(asked, {"outcome": {"outcome": "selected", "optionId": asked["params"]["options"][0]["optionId"]}})
        assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    assert "42" in results(messages_api)
    assert kernel.run("print(frame)").streams == "42\n"


def test_code_waits_for_a_cell_of_the_users_and_nothing_is_left_of_it_when_the_run_is_aborted_meanwhile(
    kernel: Kernel, world: dict[str, str], tmp_path: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(python("frame = 'ours'"))
    messages_api.add(python("print(frame)"), Reply("Done"))
    (tmp_path / "fifo").parent.mkdir(exist_ok=True)
    go_on = tmp_path / "go on"
    cell = kernel.begin(f"import os, time\nprint('begun')\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.05)")
    cell.wait_for(lambda cell: "begun" in cell.streams)
    with rpc("auto", tmp_path, world, messages_api) as agent:
        agent.send({"type": "prompt", "message": "wait"})
        waits = "(waits for the cell that runs)"
        agent.wait(lambda frame: frame["type"] == "tool_execution_update" and printed(frame) == waits)
        agent.send({"type": "abort"})
        agent.wait("agent_settled")
        agent.send({"type": "prompt", "message": "and now?"})
        agent.wait(lambda frame: frame["type"] == "tool_execution_update" and printed(frame) == waits)
        go_on.touch()
        cell.finish()
        agent.wait("agent_settled")
    assert cell.error is None
    assert "Ada" in results(messages_api)


def test_a_kernel_that_is_killed_ends_the_call_and_leaves_the_session(
    kernel: Kernel, world: dict[str, str], tmp_path: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(python("print('begun')\nimport time\ntime.sleep(1000)"), Reply("A pity."), Reply("Still here."))
    with rpc("auto", tmp_path, world, messages_api) as agent:
        agent.send({"type": "prompt", "message": "wait"})
        agent.wait(lambda frame: frame["type"] == "tool_execution_update" and printed(frame) == "begun\n")
        kernel.kill()
        agent.wait("agent_settled")
        agent.send({"type": "prompt", "message": "are you there?"})
        agent.wait("agent_settled")
    told = results(messages_api, 1)
    assert "begun" in told
    assert f"The kernel of kernel-{ID}.json is gone" in told
    assert "its variables are lost. Ask the user to start it again" in told
    assert len(messages_api.requests) == 3


def test_an_agent_that_is_killed_leaves_a_kernel_that_works_and_nothing_of_its_own(
    kernel: Kernel, world: dict[str, str], tmp_path: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(python("print('begun')\nimport time\ntime.sleep(1000)"))
    look = (
        "import sys, threading\n"
        "print(sorted(name for name in globals() if not name.startswith('_')), Out)\n"
        "print(sys.displayhook is get_ipython().displayhook, type(sys.stdout), get_ipython().display_pub)\n"
    )
    before = kernel.run(look).streams
    with rpc("auto", tmp_path, world, messages_api) as agent:
        agent.send({"type": "prompt", "message": "wait"})
        agent.wait(lambda frame: frame["type"] == "tool_execution_update" and printed(frame) == "begun\n")
        agent.signal(signal.SIGKILL)
        agent.wait_for_end()
        after = kernel.run(look, timeout=60).streams
        modules = kernel.run("print({name.partition('.')[0] for name in sys.modules if 'indus' in name})").streams
    assert modules == "{'indus_nb'}\n"
    assert after == before.replace("'threading'", "'threading', 'time'")
    assert kernel.run("print(len(In))").streams == "6\n"


def test_another_language_is_refused_at_the_start(tmp_path: Path, world: dict[str, str]) -> None:
    program = (
        "from ipykernel.kernelapp import IPKernelApp\n"
        "from ipykernel.kernelbase import Kernel\n"
        "class R(Kernel):\n"
        "    implementation = implementation_version = banner = 'IRkernel'\n"
        "    language_info = {'name': 'R', 'mimetype': 'text/x-r-source', 'file_extension': '.r'}\n"
        "IPKernelApp.launch_instance(kernel_class=R)\n"
    )
    file = tmp_path / "kernel-r.json"
    kernel = subprocess.Popen([sys.executable, "-c", program, "-f", str(file)], env=world, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: file.exists() and bool(file.read_text()))
        spec = ("--kernel", str(file), "hi")
        wait_until(lambda: "runs R" in indusagi(*spec, home=tmp_path, **world).stderr)
        done = indusagi(*spec, home=tmp_path, **world)
    finally:
        kernel.kill()
        kernel.wait()
    assert done.returncode == 2
    assert "The kernel of kernel-r.json runs R: only kernels of Python (IPython) can be worked in." in done.stderr


def test_where_the_extension_is_loaded_it_asks_describes_and_takes_back(
    kernel: Kernel, world: dict[str, str], tmp_path: Path, messages_api: MessagesApi
) -> None:
    kernel.run("%load_ext indus_nb\nnumbers = [1, 2, 3]")
    messages_api.add(python("numbers.append(4)\nmore = 5"), Reply("Done"))
    messages_api.add(Reply(ToolUse("variables", {})), Reply("Seen"))
    with rpc("auto", tmp_path, world, messages_api, "--approve", "writes") as agent:
        agent.send({"type": "prompt", "message": "add"})
        asked = agent.wait("extension_ui_request")
        assert "Run this code in the kernel of" in asked["title"]
        assert "numbers.append(4)" in asked["title"]
        agent.send({"type": "extension_ui_response", "id": asked["id"], "value": asked["options"][0]})
        ended = agent.wait("tool_execution_end")
        assert "numbers" in ended["result"]["details"]["changed"]
        agent.wait("agent_settled")
        agent.send({"type": "prompt", "message": "look"})
        agent.wait("agent_settled")
        assert "more (made by you): int" in results(messages_api)
        assert kernel.run("print(numbers, more)").streams == "[1, 2, 3, 4] 5\n"
        agent.send({"type": "prompt", "message": "/undo"})
        agent.wait(lambda frame: "Taken back: more (removed), numbers." in str(frame))
        assert kernel.run("print(numbers, 'more' in globals())").streams == "[1, 2, 3] False\n"
        agent.send({"type": "prompt", "message": "/redo"})
        agent.wait(lambda frame: "Done once more: more (put back), numbers." in str(frame))
        assert kernel.run("print(numbers, more)").streams == "[1, 2, 3, 4] 5\n"


@pytest.mark.parametrize("version", ["6.29.5"])
def test_the_oldest_supported_kernel_works_too(version: str, tmp_path: Path, messages_api: MessagesApi) -> None:
    world = private_environment(tmp_path / "jupyter", ipykernel=version)
    (tmp_path / "work").mkdir(exist_ok=True)
    messages_api.add(python("import asyncio\nawait asyncio.sleep(0)\nprint(42)"), Reply("Done"))
    messages_api.add(python("print('begun')\nimport time\ntime.sleep(1000)"))
    with Kernel(tmp_path / "work", world, id=ID) as kernel, rpc("auto", tmp_path, world, messages_api) as agent:
        agent.send({"type": "prompt", "message": "add"})
        agent.wait("agent_settled")
        assert "42" in results(messages_api)
        agent.send({"type": "prompt", "message": "wait"})
        agent.wait(lambda frame: frame["type"] == "tool_execution_update" and printed(frame) == "begun\n")
        agent.send({"type": "abort"})
        agent.wait("agent_settled")
        assert kernel.run("import ipykernel; print(ipykernel.__version__)").streams == "6.29.5\n"


def test_a_notebook_is_named_by_its_path_and_read_as_it_was_saved(
    tmp_path: Path, world: dict[str, str], messages_api: MessagesApi
) -> None:
    work, other = tmp_path / "work", tmp_path / "work" / "other"
    other.mkdir(parents=True)
    messages_api.add(python("total = 40 + 2"), Reply("Done"))
    messages_api.add(Reply(ToolUse("notebook", {})), Reply("Read"))
    with Server(work, world) as server:
        first, second = server.open("first.ipynb", "one = 1"), server.open("other/second.ipynb", "two = 2")
        with rpc("first.ipynb", tmp_path, world, messages_api) as agent:
            agent.send({"type": "prompt", "message": "add"})
            agent.wait("agent_settled")
            agent.send({"type": "prompt", "message": "read"})
            agent.wait("agent_settled")
        assert "first.ipynb · 1 cells" in results(messages_api)
        assert "one = 1" in results(messages_api)
        assert "of the kernel of first.ipynb" not in results(messages_api)

        # Each directory has one open notebook, so that `auto` knows which is meant; from elsewhere it does not.
        messages_api.add(python("print('total' in globals())"), Reply("Done"))
        auto = ("--kernel", "auto", "look")
        done = indusagi(*auto, home=tmp_path, cwd=work, **more(world, messages_api))
        assert (done.returncode, "True" in results(messages_api)) == (0, True), done.stderr
        done = indusagi(*auto, home=tmp_path, cwd=tmp_path, **more(world, messages_api))
        assert done.returncode == 2
        assert done.stderr.count("\n  ") == 2
        assert f"{first} · " in done.stderr
        assert f"{second} · " in done.stderr


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "cannot be read as a connection file"),
        ("[1]", "cannot be read as a connection file: it is no object"),
        ('{"shell_port": 1}', "is no connection file of a kernel: it names no ports"),
        (
            '{"shell_port": 1, "iopub_port": 1, "control_port": 1, "hb_port": 1, "ip": "127.0.0.1"}',
            "No kernel answers behind",
        ),
    ],
)
def test_a_file_behind_which_no_kernel_is_says_so(
    content: str, problem: str, tmp_path: Path, world: dict[str, str]
) -> None:
    (tmp_path / "named.json").write_text(content)
    done = indusagi("--kernel", "named.json", "hi", home=tmp_path, **world)
    assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


def test_the_kernel_of_a_client_that_names_none_that_runs_is_an_error_of_its_session(
    tmp_path: Path, world: dict[str, str]
) -> None:
    with AcpProcess(
        "--kernel", "auto", home=tmp_path, more={"JUPYTER_RUNTIME_DIR": world["JUPYTER_RUNTIME_DIR"]}
    ) as agent:
        agent.request("initialize", protocolVersion=1, clientCapabilities={})
        failed = agent.failure("session/new", cwd=str(tmp_path), mcpServers=[])
    assert failed["code"] == -32602
    assert "No running kernel was found. Open a notebook and run a cell of it" in failed["message"]
