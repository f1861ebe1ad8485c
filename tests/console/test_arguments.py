"""Arguments that clients of other programs pass, and those that nobody understands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from messages_api import MessagesApi, Reply, ToolUse
from rpc_process import RpcProcess, indusagi

from indus_nb.version import __version__

GETTING = {
    "rpc": '{"id": 1, "type": "bash", "command": "touch RAN"}\n',
    "acp": '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}\n',
    "mcp": '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
    "json": "hello",
}
TOOL = """
def setup(api):
    api.register_flag("colour", type="string", default="red")

    @api.tool
    def shout(text: str) -> str:
        "Return the text in capitals."
        return text.upper()
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nonsense",), "--nonsense"),
        (("--sandbx=workspace",), "--sandbx"),
        (("--no-tool",), "--no-tool"),
        (("--nonsense", "X"), "--nonsense"),
        (("--approve", "alwys"), "alwys"),
        (("-e", "tool.py", "--color=blue"), "--color"),
        (("-e", "tool.py", "--colour"), "--colour=VALUE"),
    ],
)
@pytest.mark.parametrize("mode", [*GETTING])
def test_nothing_is_served_with_an_option_that_is_not_understood(
    tmp_path: Path, mode: str, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    kernel = ("--kernel", "any") if mode == "mcp" else ()
    more = ("--mode", mode, *kernel, "--provider", "offline", *arguments)
    done = indusagi(*more, home=tmp_path, stdin=GETTING[mode])
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert not (tmp_path / "RAN").exists()


def test_an_option_of_an_extension_is_understood_in_every_mode(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    for mode in ("rpc", "acp", "json"):
        more = ("--mode", mode, "--provider", "offline", "-e", "tool.py", "--colour=blue")
        done = indusagi(*more, home=tmp_path, stdin=GETTING[mode])
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        (("--no-builtin-tools",), {"shout"}),
        (("--exclude-tools", "bash,shout"), {"read", "edit", "write"}),
        (("--exclude-tools=bash", "-xt", "write"), {"read", "edit", "shout"}),
        (("--no-tools",), set()),
    ],
)
def test_the_tools_that_an_option_takes_away_are_not_offered_and_do_not_run(
    messages_api: MessagesApi, tmp_path: Path, arguments: tuple[str, ...], offered: set[str]
) -> None:
    (tmp_path / "tool.py").write_text(TOOL)
    messages_api.add(Reply(ToolUse("bash", {"command": "touch RAN"})), Reply("Done."))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    with RpcProcess("-e", "tool.py", *arguments, home=tmp_path, more=more) as process:
        process.ask("prompt", message="go")
        process.wait("agent_settled")
    tools = messages_api.requests[0].body.get("tools", [])
    assert {tool["name"] for tool in tools} - {"job"} == offered
    assert not (tmp_path / "RAN").exists()


def test_a_session_begins_with_the_name_and_the_id_that_a_client_chooses(tmp_path: Path) -> None:
    def state(*arguments: str) -> dict[str, Any]:
        with RpcProcess("--provider", "offline", *arguments, home=tmp_path) as process:
            process.ask("prompt", message="hello")
            process.wait("agent_settled")
            return process.ask("get_state")["data"]

    first = state("--session-id", "chosen-1", "--name", "The first")
    assert (first["sessionId"], first["sessionName"], first["messageCount"]) == ("chosen-1", "The first", 2)
    again = state("--session-id", "chosen-1", "--theme", "dark")
    assert (again["sessionFile"], again["messageCount"]) == (first["sessionFile"], 4)
    fork = state("--fork", "chosen-1")
    assert (fork["sessionFile"] != first["sessionFile"], fork["messageCount"]) == (True, 6)
    assert state("--session-id", "chosen-1")["messageCount"] == 6
    page = indusagi("--export", "chosen-1", "page.html", home=tmp_path)
    assert (page.returncode, page.stdout) == (0, f"{tmp_path / 'page.html'}\n")
    assert "hello" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("place", ["variable", "settings", "option"])
def test_a_session_is_exported_from_where_the_user_keeps_sessions(tmp_path: Path, place: str) -> None:
    kept, more = str(tmp_path / "kept"), {"INDUS_NB_AGENT_DIR": str(tmp_path / "own")}
    option = ("--session-dir", kept) if place == "option" else ()
    if place == "variable":
        more["INDUS_NB_SESSION_DIR"] = kept
    if place == "settings":
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "settings.json").write_text(json.dumps({"sessionDir": kept}))
    chosen = ("--provider", "offline", "--session-id", "kept-1", *option)
    assert indusagi(*chosen, "hello", home=tmp_path, **more).returncode == 0
    page = indusagi("--export", "kept-1", "page.html", *option, home=tmp_path, **more)
    assert (page.returncode, page.stderr) == (0, "")
    assert "hello" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("mode", ["rpc", "json", "text"])
def test_a_directory_by_pis_name_counts_where_a_host_starts_the_program(tmp_path: Path, mode: str) -> None:
    chosen = {"INDUS_NB_AGENT_DIR": "", "PI_CODING_AGENT_DIR": str(tmp_path / "pi")}
    options = ("--provider", "offline")
    if mode == "rpc":
        with RpcProcess(*options, home=tmp_path, more=chosen) as process:
            process.ask("prompt", message="hello")
            process.wait("agent_settled")
    else:
        assert indusagi(*options, "--mode", mode, "hello", home=tmp_path, **chosen).returncode == 0
    assert [*(tmp_path / "pi").rglob("*.jsonl")] if mode != "text" else not (tmp_path / "pi").exists()


def test_the_version_is_what_a_client_insists_on(tmp_path: Path) -> None:
    told = [indusagi("--version", home=tmp_path, **more).stdout for more in ({}, {"INDUS_NB_VERSION_AS": "0.87.1"})]
    assert told == [f"{__version__}\n", "0.87.1\n"]


def test_a_client_of_omp_is_told_first_that_the_program_is_ready(tmp_path: Path) -> None:
    with RpcProcess("--provider", "offline", "--wire", "omp", home=tmp_path) as process:
        process.ask("prompt", message="hello")
        process.wait("agent_settled")
    assert process.frames[0] == {"type": "ready"}


def test_json_mode_is_called_as_clients_of_pi_call_it(tmp_path: Path) -> None:
    done = indusagi("--mode", "json", "-p", "--provider", "offline", "--no-approve", "--", "--approve", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    header, *events = map(json.loads, done.stdout.splitlines())
    asked = next(event["message"] for event in events if event["type"] == "message_end")
    assert (header["type"], asked["content"][0]["text"]) == ("session", "--approve")


@pytest.mark.parametrize(("option", "used"), [("--trust", True), ("-a", True), ("--no-approve", False)])
def test_the_trust_options_of_pi_decide_about_the_project(
    messages_api: MessagesApi, tmp_path: Path, option: str, *, used: bool
) -> None:
    (tmp_path / "AGENTS.md").write_text("Speak of whales.")
    messages_api.add(Reply("Done."))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    done = indusagi(option, "-p", "hi", home=tmp_path, **more)
    assert done.returncode == 0
    assert ("Speak of whales." in json.dumps(messages_api.requests[0].body["system"])) is used


@pytest.mark.parametrize("arguments", [("hi", "--approve"), ("--approve", "-p", "hi"), ("--approve", "--", "hi")])
def test_approve_without_a_value_is_rejected_and_trusts_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "AGENTS.md").write_text("Speak of whales.")
    done = indusagi("--provider", "offline", *arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "never, effects, writes, always or looks" in done.stderr
    assert "is --trust here" in done.stderr
