"""Processes that try to outlive the agent: they leave their group, their session, their parent and their name behind.

Each flees in another way; then the agent is killed, told to end, or stops the command, and nothing of it may be left.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from living import ending
from messages_api import MessagesApi, Reply, ToolUse
from rpc_process import RpcProcess, environment
from waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process group is all that there is")

DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
os.closerange(0, 256)
os.execve({sleep!r}, ["a daemon", {seconds!r}], {{}})
"""
FLIGHTS = {
    "in the background": "{sleep} {seconds} &",
    "without a hang-up": "nohup {sleep} {seconds} > /dev/null 2>&1 & disown",
    "into a session of its own": "setsid {sleep} {seconds} &",
    "as an orphan": "(setsid {sleep} {seconds} > /dev/null 2>&1 < /dev/null &)",
    "without its environment": "(env -i setsid {sleep} {seconds} > /dev/null 2>&1 &)",
    "as a daemon": "{python} {daemon}",
    "by a child that starts it later": "(setsid bash -c 'sleep 0.3; env -i {sleep} {seconds} & sleep 1000' &) ",
    "stopped": "(setsid bash -c 'nohup {sleep} {seconds} > /dev/null 2>&1 & sleep 0.1; kill -STOP $!' &)",
    "deaf to signals": "(trap '' TERM HUP INT; setsid {sleep} {seconds} &)",
}
_NUMBERS = itertools.count(1)


class Fugitive:
    """A process that a command starts and that nobody else would: it is known by how long it sleeps."""

    def __init__(self, way: str, folder: Path) -> None:
        self.seconds = f"1000.{os.getpid()}{next(_NUMBERS)}"
        daemon = folder / "daemon.py"
        daemon.write_text(DAEMON.format(sleep="/bin/sleep", seconds=self.seconds))
        python, script = shlex.quote(sys.executable), shlex.quote(str(daemon))
        names = {"sleep": "/bin/sleep", "python": python, "daemon": script, "seconds": self.seconds}
        self.flight = FLIGHTS[way].format(**names)

    @property
    def command(self) -> str:
        """Starts it, and goes on."""
        return f"{self.flight}\necho begun; sleep {self.seconds}1"

    def processes(self) -> list[psutil.Process]:
        """It, and what waits beside it."""
        return [process for process, _ in self._found()]

    def _found(self) -> Iterator[tuple[psutil.Process, list[str]]]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                arguments = process.cmdline()[1:]
                if any(self.seconds in argument for argument in arguments) and process.status() != "zombie":
                    yield process, arguments

    def runs(self) -> bool:
        """Whether it sleeps, beside the command that goes on."""
        return {self.seconds, f"{self.seconds}1"} <= {arguments[-1] for _, arguments in self._found()}

    def is_gone(self) -> bool:
        return not self.processes()


@pytest.fixture
def flee(tmp_path: Path) -> Iterator[Callable[[str], Fugitive]]:
    made: list[Fugitive] = []

    def make(way: str) -> Fugitive:
        made.append(Fugitive(way, tmp_path))
        return made[-1]

    yield make
    for fugitive in made:
        for process in fugitive.processes():
            process.kill()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RpcProcess]:
    with RpcProcess("--no-session", "--provider", "offline", home=tmp_path, cwd=tmp_path) as process:
        yield process


Flee = Callable[[str], Fugitive]


@pytest.mark.parametrize("way", FLIGHTS)
def test_a_killed_agent_leaves_nothing_of_a_running_command(way: str, flee: Flee, agent: RpcProcess) -> None:
    fugitive = flee(way)
    agent.send({"type": "bash", "command": fugitive.command})
    wait_until(fugitive.runs)
    agent.signal(signal.SIGKILL)
    wait_until(fugitive.is_gone)


@pytest.mark.parametrize("way", FLIGHTS)
def test_an_aborted_command_leaves_nothing(way: str, flee: Flee, agent: RpcProcess) -> None:
    fugitive = flee(way)
    agent.send({"type": "bash", "id": "b", "command": fugitive.command})
    wait_until(fugitive.runs)
    agent.ask("abort_bash")
    assert agent.answer_to("b")["data"]["cancelled"]
    wait_until(fugitive.is_gone)


@pytest.mark.parametrize("end", ["standard input closes", "SIGTERM", "SIGINT", "SIGHUP"])
def test_an_agent_that_ends_leaves_nothing_of_a_running_command(end: str, flee: Flee, agent: RpcProcess) -> None:
    fugitive = flee("without its environment")
    agent.send({"type": "bash", "command": fugitive.command})
    wait_until(fugitive.runs)
    if end.startswith("SIG"):
        agent.signal(getattr(signal, end))
    else:
        agent.close_stdin()
    agent.wait_for_end()
    wait_until(fugitive.is_gone)


def test_a_command_that_is_out_of_time_leaves_nothing(flee: Flee, tmp_path: Path, messages_api: MessagesApi) -> None:
    fugitive = flee("as a daemon")
    messages_api.add(Reply(ToolUse("bash", {"command": fugitive.command, "timeout": 2})), Reply("Done."))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    with RpcProcess("--model", "claude-haiku-4-5", "--no-session", home=tmp_path, cwd=tmp_path, more=more) as process:
        process.send({"type": "prompt", "message": "run"})
        wait_until(fugitive.runs)
        process.wait("agent_end")
        wait_until(fugitive.is_gone)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_killed_agent_inside_a_command_of_another_one_leaves_nothing(
    flee: Flee, agent: RpcProcess, tmp_path: Path, *, stopped: bool
) -> None:
    fugitive = flee("as a daemon")
    inner = tmp_path / "inner.jsonl"
    inner.write_text(json.dumps({"type": "bash", "command": fugitive.command}) + "\n")
    program = f"{shlex.quote(sys.executable)} -m indus_nb --mode rpc --no-session --provider offline"
    command = f"(cat {shlex.quote(str(inner))}; sleep 1000) | setsid {program} > /dev/null"
    agent.send({"type": "bash", "command": command})
    wait_until(fugitive.runs)
    if stopped:  # so that it cannot end its command itself: its guard has to
        (within,) = (each for each in psutil.Process(agent.pid).children(recursive=True) if "--mode" in each.cmdline())
        within.send_signal(signal.SIGSTOP)
    agent.signal(signal.SIGKILL)
    wait_until(fugitive.is_gone)


def test_what_another_agent_runs_goes_on_when_one_is_killed(flee: Flee, agent: RpcProcess, tmp_path: Path) -> None:
    mine, other = flee("into a session of its own"), flee("into a session of its own")
    agent.send({"type": "bash", "command": mine.command})
    with RpcProcess("--no-session", "--provider", "offline", home=tmp_path, cwd=tmp_path) as second:
        second.send({"type": "bash", "command": other.command})
        wait_until(lambda: mine.runs() and other.runs())
        agent.signal(signal.SIGKILL)
        wait_until(mine.is_gone)
        assert other.runs()


def test_what_a_command_left_running_on_purpose_goes_on(flee: Flee, agent: RpcProcess) -> None:
    left, aborted = flee("as an orphan"), flee("as an orphan")
    assert agent.ask("bash", command=left.flight)["data"]["exitCode"] == 0
    agent.send({"type": "bash", "command": aborted.command})
    wait_until(aborted.runs)
    agent.signal(signal.SIGKILL)
    wait_until(aborted.is_gone)
    assert len(left.processes()) == 1


def test_a_client_killed_while_thousands_of_commands_wait_leaves_none(flee: Flee, tmp_path: Path) -> None:
    fugitive = flee("without its environment")
    commands = tmp_path / "commands"
    commands.write_text((json.dumps({"type": "bash", "command": fugitive.command}) + "\n") * 5_000)
    client = (
        "import subprocess, sys, time\n"
        "agent = subprocess.Popen([sys.executable, '-m', 'indus_nb', '--mode', 'rpc', '--no-session',\n"
        "    '--provider', 'offline'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"agent.stdin.write(open({str(commands)!r}, 'rb').read())\n"
        "agent.stdin.flush()\n"
        "time.sleep(1000)\n"
    )
    with ending(subprocess.Popen([sys.executable, "-c", client], cwd=tmp_path, env=environment(tmp_path))) as process:
        wait_until(lambda: len(fugitive.processes()) > 40)
        process.kill()
    wait_until(fugitive.is_gone)


def hosted(tmp_path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The agent with pipes that nobody reads unless the test does."""
    command = [sys.executable, "-m", "indus_nb", "--mode", "rpc", "--provider", "offline", *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment(tmp_path),
    )


@pytest.mark.parametrize("command", ["get_state", "bash"])
def test_an_agent_ends_when_nobody_can_read_what_it_writes(command: str, flee: Flee, tmp_path: Path) -> None:
    fugitive = flee("as an orphan")
    with ending(hosted(tmp_path)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"type": command, "command": fugitive.command}).encode() + b"\n")
        process.stdin.flush()
        if command == "bash":
            wait_until(fugitive.runs)
        else:
            process.stdout.readline()
        process.stdout.close()
        assert process.wait() == 0
    wait_until(fugitive.is_gone)


@pytest.mark.parametrize(
    ("commands", "count"),
    [({"type": "get_state"}, 2_000), ({"type": "bash", "command": "yes"}, 100), ({"type": "get_entries"}, 2_000)],
    ids=["states", "endless output", "entries"],
)
def test_an_agent_whose_host_neither_reads_nor_writes_ends(
    commands: dict[str, str], count: int, tmp_path: Path
) -> None:
    with ending(hosted(tmp_path)) as process:
        assert process.stdin is not None
        process.stdin.write((json.dumps(commands).encode() + b"\n") * count)
        process.stdin.close()
        process.wait()


def test_an_agent_begins_few_of_the_commands_of_a_host_that_has_gone(flee: Flee, tmp_path: Path) -> None:
    fugitive = flee("in the background")
    command = {"type": "bash", "command": f"{fugitive.flight} wait"}
    begun: set[int] = set()
    with ending(hosted(tmp_path)) as process:
        assert process.stdin is not None
        process.stdin.write((json.dumps(command).encode() + b"\n") * 1_000)
        process.stdin.close()
        while process.poll() is None:
            begun |= {each.pid for each in fugitive.processes()}
        assert process.returncode == 0
    assert len(begun) < 300
    wait_until(fugitive.is_gone)


SERVER = """
import json, subprocess, sys
subprocess.run(["bash", "-c", {flight!r}])
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        info = {{"protocolVersion": message["params"]["protocolVersion"], "capabilities": {{}},
                "serverInfo": {{"name": "hostile", "version": "1"}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": info}}), flush=True)
"""


@pytest.mark.parametrize("end", ["standard input closes", "SIGKILL", "SIGTERM"])
@pytest.mark.parametrize("way", ["into a session of its own", "as a daemon", "without its environment"])
def test_a_daemon_of_a_server_ends_with_the_session(way: str, end: str, flee: Flee, tmp_path: Path) -> None:
    fugitive = flee(way)
    server = tmp_path / "server.py"
    server.write_text(SERVER.format(flight=fugitive.flight))
    agent_dir = tmp_path / "agent"
    agent_dir.mkdir()
    servers = {"hostile": {"command": sys.executable, "args": [str(server)]}}
    (agent_dir / "settings.json").write_text(json.dumps({"mcpServers": servers}))
    with RpcProcess("--no-session", "--provider", "offline", home=tmp_path, cwd=tmp_path) as process:
        wait_until(lambda: len(fugitive.processes()) == 1, 90)
        if end.startswith("SIG"):
            process.signal(getattr(signal, end))
        else:
            process.close_stdin()
        process.wait_for_end()
        wait_until(fugitive.is_gone)
