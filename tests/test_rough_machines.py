"""Machines that refuse what is usual: no home, no room, odd files, few resources. Each is told in a sentence."""

from __future__ import annotations

import json
import os
import resource
import shlex
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from living import ending
from messages_api import MessagesApi, Reply, ToolUse
from rpc_process import RpcProcess, environment, indusagi

from indus_nb.tools.commands.shell import Shell
from indus_nb.tools.tool import ToolError

OFFLINE = ("--provider", "offline", "--no-session")


def in_shell(folder: Path, before: str, *arguments: str) -> Any:
    """Run the program in a shell that does something before."""
    program = shlex.join([sys.executable, "-m", "indus_nb", *arguments])
    return subprocess.run(
        ["/bin/sh", "-c", f"{before}; exec {program}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder),
        check=False,
    )


def test_a_removed_working_directory_is_named_as_such(tmp_path: Path) -> None:
    done = in_shell(tmp_path, "mkdir gone; cd gone; rmdir ../gone", *OFFLINE, "hello")
    assert done.returncode == 2
    assert done.stderr.endswith("it was removed, or you may not look into it. Change to another one.\n")
    assert "Traceback" not in done.stderr


def test_a_file_name_that_is_too_long_is_named_and_not_called_output(tmp_path: Path) -> None:
    name = f"/{'x' * 5000}.jsonl"
    done = indusagi("--provider", "offline", "--session", name, "hello", home=tmp_path)
    assert done.returncode in (1, 2)
    assert "File name too long" in done.stderr or "no such session file" in done.stderr
    assert "output" not in done.stderr


def test_too_few_descriptors_are_told_as_what_they_are(tmp_path: Path) -> None:
    done = in_shell(tmp_path, "ulimit -n 8", *OFFLINE, "hello")
    assert done.returncode == 1
    assert "Too many open files" in done.stderr
    assert "output" not in done.stderr
    assert "Traceback" not in done.stderr


NOBODY = """
import pwd, sys
def unknown(uid):
    raise KeyError(uid)
pwd.getpwuid = unknown
from indus_nb.front.console.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("directory", [None, "agent"])
def test_a_user_without_a_home_is_told_what_to_set(tmp_path: Path, directory: str | None) -> None:
    given = environment(tmp_path)
    del given["HOME"], given["INDUS_NB_AGENT_DIR"]
    if directory is not None:
        given["INDUS_NB_AGENT_DIR"] = str(tmp_path / directory)
    done = subprocess.run(
        [sys.executable, "-c", NOBODY, *OFFLINE, "compute 6 * 7"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=given,
        check=False,
    )
    if directory is None:
        assert done.returncode == 2
        assert "there is no home directory" in done.stderr
        assert "Set HOME, or INDUS_NB_AGENT_DIR" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")
        assert "42" in done.stdout


@pytest.mark.parametrize("name", ["settings.json", "models.json", "auth.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "agent").mkdir()
    os.mkfifo(tmp_path / "agent" / name)
    done = indusagi(*OFFLINE, "--approve", "never", "compute 6 * 7", home=tmp_path)
    assert done.returncode == 0
    assert "42" in done.stdout
    assert f"{name}: cannot be read (it is a pipe or device, not a file)" in done.stderr


def test_a_byte_order_mark_before_settings_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_bytes(b'\xef\xbb\xbf{"defaultProvider": "offline"}')
    done = indusagi("--no-session", "compute 6 * 7", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "42" in done.stdout


@pytest.mark.parametrize("full", ["from the start", "later"])
def test_output_that_cannot_be_kept_is_told_to_the_user_and_the_model(
    tmp_path: Path, messages_api: MessagesApi, full: str
) -> None:
    (tmp_path / "temporary").mkdir()
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    more["TMPDIR"] = str(tmp_path / "temporary")
    messages_api.add(Reply("I see."))
    with RpcProcess("--model", "claude-haiku-4-5", "--no-session", home=tmp_path, more=more) as process:
        if full == "later":
            kept = process.ask("bash", command="seq 10000", excludeFromContext=True)["data"]
            assert Path(kept["fullOutputPath"]).read_text().endswith("10000\n")
            assert "fullOutputProblem" not in kept
            Path(kept["fullOutputPath"]).unlink()
        # No file of this process may hold anything from now on, as on a disk without room.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        data = process.ask("bash", command="seq 10000")["data"]
        process.ask("prompt", message="well?")
        process.wait("agent_settled")
    problem = "File too large" if full == "later" else "No usable temporary directory"
    assert data["truncated"]
    assert problem in data["fullOutputProblem"]
    assert "fullOutputPath" not in data
    assert not list((tmp_path / "temporary").iterdir())
    told = messages_api.requests[-1].body["messages"][0]["content"]
    assert "The full output could not be kept: [Errno" in json.dumps(told)
    assert problem in json.dumps(told)


def test_a_host_that_hangs_up_and_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    with ending(
        subprocess.Popen(
            [sys.executable, "-m", "indus_nb", "--mode", "rpc", *OFFLINE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env=environment(tmp_path),
        )
    ) as process:
        # As many as it takes in, and far more answers than the pipe holds.
        process.stdin.write(b'{"type":"get_available_models"}\n' * 3000)
        process.stdin.close()
        assert process.stdout.read(1)
        assert process.wait() == 0


def test_a_host_that_hangs_up_and_reads_gets_every_answer(tmp_path: Path) -> None:
    commands = b'{"type":"get_available_models"}\n' * 300
    done = subprocess.run(
        [sys.executable, "-m", "indus_nb", "--mode", "rpc", *OFFLINE],
        input=commands,
        capture_output=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        check=True,
    )
    assert len(done.stdout.splitlines()) == 300


def test_what_makes_no_path_or_name_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with RpcProcess("--provider", "offline", home=tmp_path) as process:
        process.ask("prompt", message="hello")
        process.wait("agent_settled")
        refused = process.ask("switch_session", sessionPath="a\0b")["error"]
        assert "a path cannot hold the character U+0000" in refused
        refused = process.ask("export_html", outputPath="a\0b")["error"]
        assert "a path cannot hold the character U+0000" in refused
        refused = process.ask("set_session_name", name="x" * 1001)["error"]
        assert "`name`: String should have at most 1000 characters" in refused
        assert process.ask("set_session_name", name="x" * 1000)["success"]


def test_a_name_given_before_the_first_message_is_kept(tmp_path: Path) -> None:
    with RpcProcess("--provider", "offline", home=tmp_path) as process:
        assert process.ask("set_session_name", name="the plan")["success"]
    with RpcProcess("--provider", "offline", "--continue", home=tmp_path) as process:
        assert process.ask("get_state")["data"]["sessionName"] == "the plan"


def test_nobody_else_may_look_into_what_is_made(tmp_path: Path) -> None:
    program = "import os, sys; os.umask(0); from indus_nb.front.console.cli import main; main(sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", program, "--provider", "offline", "hello"],
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment(tmp_path),
        check=True,
    )
    made = [tmp_path / "agent", *(tmp_path / "agent").rglob("*")]
    assert any(path.suffix == ".jsonl" for path in made)
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode) & 0o077) for path in made} == dict.fromkeys(
        (path.name for path in made), "0o0"
    )


@pytest.mark.parametrize("content", ["rubbish", '{"PLACE": "writes_file: any"}', "world-writable"])
def test_rules_that_cannot_be_used_are_told_and_do_not_count(
    tmp_path: Path, messages_api: MessagesApi, content: str
) -> None:
    rules = tmp_path / "agent" / "approved.json"
    rules.parent.mkdir()
    valid = json.dumps({str(tmp_path): [f"writes_file: {tmp_path}/made"]})
    rules.write_text(valid if content == "world-writable" else content.replace("PLACE", str(tmp_path)))
    rules.chmod(0o666 if content == "world-writable" else 0o600)
    before = rules.read_bytes()
    messages_api.add(Reply(ToolUse("write", {"path": "made", "content": ""})), Reply("Done."))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    arguments = ("--model", "claude-haiku-4-5", "--no-session", "--approve", "writes")
    with RpcProcess(*arguments, home=tmp_path, more=more) as process:
        process.ask("prompt", message="go")
        told = process.wait(lambda frame: frame.get("method") == "notify")
        assert str(rules) in told["message"]
        assert "No rule in it counts" in told["message"]
        dialog = process.wait(lambda frame: frame.get("method") == "select")
        always = next(option for option in dialog["options"] if "folder" in option)
        process.send({"type": "extension_ui_response", "id": dialog["id"], "value": always})
        process.wait("agent_settled")
    assert rules.read_bytes() == before
    assert (tmp_path / "made").exists()


def test_a_rule_that_is_kept_is_nobody_elses_to_change(tmp_path: Path, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(ToolUse("write", {"path": "made", "content": ""})), Reply("Done."))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    arguments = ("--model", "claude-haiku-4-5", "--no-session", "--approve", "writes")
    with RpcProcess(*arguments, home=tmp_path, more=more) as process:
        process.ask("prompt", message="go")
        dialog = process.wait(lambda frame: frame.get("method") == "select")
        always = next(option for option in dialog["options"] if "folder" in option)
        process.send({"type": "extension_ui_response", "id": dialog["id"], "value": always})
        process.wait("agent_settled")
    assert stat.S_IMODE((tmp_path / "agent" / "approved.json").stat().st_mode) == 0o600


async def test_a_command_for_which_there_is_no_thread_is_refused(tmp_path: Path) -> None:
    usual = threading.stack_size(1 << 45)  # more than there is, so that no thread can be started
    try:
        with pytest.raises(ToolError, match=r"could not be started .* Resource temporarily unavailable"):
            await Shell().run("touch made; sleep 1000", cwd=tmp_path)
    finally:
        threading.stack_size(usual)
