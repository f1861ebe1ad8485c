"""After a process of ours was killed, nothing that it ran goes on: the console program, a kernel, a client."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kernels import Kernel, private_environment
from living import ending
from messages_api import MessagesApi, Reply, ToolUse
from rpc_process import RpcProcess, environment
from waiting import wait_until

# Stubborn, and with a child of its own.
LONG = "trap '' TERM HUP INT; sleep 1000 & echo begun; wait"


def those_in(folder: Path) -> list[psutil.Process]:
    """The processes that work in ``folder``."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the processes of a test work; nothing is left there in the end, whatever happened."""
    folder = tmp_path / "work"
    folder.mkdir()
    yield folder
    for process in those_in(folder):
        process.kill()


def two_commands_of(folder: Path) -> Callable[[], bool]:
    """Whether the shell and its child run."""
    return lambda: len([process for process in those_in(folder) if process.name() in ("bash", "sleep")]) == 2


@pytest.mark.parametrize("whose", ["the agent's", "the user's"])
def test_a_killed_rpc_process_leaves_no_command_behind(
    whose: str, folder: Path, tmp_path: Path, messages_api: MessagesApi
) -> None:
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    with RpcProcess("--model", "claude-haiku-4-5", "--no-session", home=tmp_path, cwd=folder, more=more) as process:
        if whose == "the user's":
            process.send({"type": "bash", "command": LONG})
        else:
            messages_api.add(Reply(ToolUse("bash", {"command": LONG})))
            process.send({"type": "prompt", "message": "run"})
        wait_until(two_commands_of(folder))
        process.signal(signal.SIGKILL)
        wait_until(lambda: not those_in(folder))


def test_a_killed_text_mode_leaves_no_command_behind(folder: Path, tmp_path: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(ToolUse("bash", {"command": LONG})))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    arguments = [sys.executable, "-m", "indus_nb", "--model", "claude-haiku-4-5", "--no-session", "run"]
    with ending(
        subprocess.Popen(arguments, cwd=folder, env=environment(tmp_path, **more), stdin=subprocess.DEVNULL)
    ) as process:
        wait_until(two_commands_of(folder))
        process.kill()
    wait_until(lambda: not those_in(folder))


def test_a_killed_kernel_leaves_no_command_behind(folder: Path, tmp_path: Path, messages_api: MessagesApi) -> None:
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    with Kernel(folder, private_environment(tmp_path, **more)) as kernel:
        # A worker that the user's code forked holds nothing open that the kernel's end must close.
        kernel.run("import multiprocessing\nworker = multiprocessing.get_context('fork').Pool(1)")
        kernel.run("%load_ext indus_nb\n%agent --new --model claude-haiku-4-5 --thinking off")
        messages_api.add(Reply(ToolUse("bash", {"command": "true"})), Reply("Done."))
        kernel.run("%agent run")
        kernel.run("second = multiprocessing.get_context('fork').Pool(1)")
        messages_api.add(Reply(ToolUse("bash", {"command": LONG})))
        kernel.begin("%agent run")
        wait_until(two_commands_of(folder))
        pids = [process for process in those_in(folder) if process.name() in ("bash", "sleep")]
        os.kill(kernel._manager.provisioner.process.pid, signal.SIGKILL)
        wait_until(lambda: not any(process.is_running() for process in pids))


def test_a_client_killed_while_many_commands_wait_leaves_none_behind(folder: Path, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.write_text("".join(json.dumps({"type": "bash", "command": LONG}) + "\n" for _ in range(200)))
    client = (
        "import subprocess, sys, time\n"
        "agent = subprocess.Popen([sys.executable, '-m', 'indus_nb', '--mode', 'rpc', '--no-session',\n"
        "    '--provider', 'offline'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)\n"
        f"agent.stdin.write(open({str(commands)!r}, 'rb').read())\n"
        "agent.stdin.flush()\n"
        "time.sleep(1000)\n"
    )
    with ending(subprocess.Popen([sys.executable, "-c", client], cwd=folder, env=environment(tmp_path))) as process:
        wait_until(lambda: len(those_in(folder)) > 40)
        process.kill()
    wait_until(lambda: not those_in(folder))


def test_background_processes_of_a_command_that_has_ended_stay(folder: Path, tmp_path: Path) -> None:
    with RpcProcess("--no-session", "--provider", "offline", home=tmp_path, cwd=folder) as process:
        process.ask("bash", command="sleep 1000 > /dev/null 2>&1 & echo $!")
        process.signal(signal.SIGKILL)
        process.wait_for_end()
        assert [left.name() for left in those_in(folder)] == ["sleep"]


def test_commands_are_guarded_again_when_somebody_killed_the_guard(folder: Path, tmp_path: Path) -> None:
    with RpcProcess("--no-session", "--provider", "offline", home=tmp_path, cwd=folder) as process:
        process.send({"type": "bash", "command": LONG})
        wait_until(two_commands_of(folder))
        wait_until(lambda: len(guards_of(process.pid)) == 1)  # it may be starting still
        (guard,) = guards_of(process.pid)
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(guard))
        assert process.ask("bash", command="echo again")["data"]["output"] == "again\n"
        process.signal(signal.SIGKILL)
        wait_until(lambda: not those_in(folder))


def guards_of(pid: int) -> list[int]:
    """The guards that read from a pipe of that process."""

    def pipes(descriptors: Path) -> set[str]:
        return {str(entry.readlink()) for entry in descriptors.iterdir() if entry.is_symlink()}

    found: list[int] = []
    for process in psutil.process_iter(["cmdline"]):
        if "guard of indus_nb" in " ".join(process.info["cmdline"] or ()):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if str(Path(f"/proc/{process.pid}/fd/3").readlink()) in pipes(Path(f"/proc/{pid}/fd")):
                    found.append(process.pid)
    return found
