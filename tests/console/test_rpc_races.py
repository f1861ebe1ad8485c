"""Commands that meet each other, or things that happen to a session at the wrong moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from living import ending
from messages_api import Gate, HttpError, MessagesApi, Reply, Text
from rpc_process import RpcProcess, environment

LONG = "word " * 200
ARGUMENTS = ("--model", "claude-haiku-4-5", "--thinking", "off", "--session-dir", "sessions")
SETTINGS = {"compaction": {"keepRecentTokens": 100, "reserveTokens": 2000}}


@pytest.fixture
def more(messages_api: MessagesApi, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text(json.dumps(SETTINGS))
    return {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}


@pytest.fixture
def claude(more: dict[str, str], tmp_path: Path):
    with RpcProcess(*ARGUMENTS, home=tmp_path, more=more) as process:
        process.ask("get_state")
        yield process


def say(process: RpcProcess, text: str) -> None:
    assert process.ask("prompt", message=text)["success"]
    process.wait("agent_settled")


def last_answer(process: RpcProcess) -> dict[str, Any]:
    return next(m for m in reversed(process.ask("get_messages")["data"]["messages"]) if m["role"] == "assistant")


def test_a_setter_counts_for_the_query_behind_it(claude: RpcProcess) -> None:
    claude.send(
        {"id": "set", "type": "set_model", "provider": "anthropic", "modelId": "claude-opus-4-7"},
        {"id": "ask", "type": "get_state"},
    )
    assert claude.answer_to("ask")["data"]["model"]["id"] == "claude-opus-4-7"
    assert claude.answer_to("set")["success"]


def test_file_names_that_are_no_text_are_told_with_replacement_characters(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sessions").mkdir()
    header = {"type": "session", "version": 3, "id": "odd", "timestamp": "2026-01-01T00:00:00Z", "cwd": str(tmp_path)}
    (tmp_path / "sessions" / os.fsdecode(b"caf\xe9.jsonl")).write_text(json.dumps(header) + "\n")
    with RpcProcess(*ARGUMENTS, home=tmp_path, more=more) as process:
        (listed,) = process.ask("list_sessions")["data"]["sessions"]
        assert listed["path"].endswith("caf\ufffd.jsonl")
        assert process.ask("get_state")["success"]


def test_a_queue_that_is_cleared_while_it_is_delivered_ends_the_run_in_order(
    claude: RpcProcess, messages_api: MessagesApi
) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("One. ", gate)), Reply("Two."))
    claude.ask("set_follow_up_mode", mode="all")
    claude.ask("prompt", message="go")
    assert gate.reached.wait()
    claude.send(*({"type": "follow_up", "message": f"number {number}"} for number in range(60)))
    claude.ask("get_state")
    gate.open()
    claude.wait(lambda frame: frame["type"] == "message_end" and "number 3" in str(frame["message"]["content"]))
    claude.send({"id": "clear", "type": "clear_queue"})
    claude.wait("agent_settled")
    assert claude.answer_to("clear")["success"]
    said = sum(m["role"] == "user" for m in claude.ask("get_messages")["data"]["messages"])
    assert said + sum(map(len, claude.answer_to("clear")["data"].values())) == 61


def test_an_abort_reaches_the_prompt_that_was_waiting_when_it_came(
    claude: RpcProcess, messages_api: MessagesApi
) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("One. ", gate)), Reply("Two."))
    claude.ask("prompt", message="first")
    assert gate.reached.wait()
    claude.send({"id": "p", "type": "abort_and_prompt", "message": "second"}, {"id": "a", "type": "abort"})
    assert claude.answer_to("a")["success"]
    assert "aborted" in claude.answer_to("p")["error"]
    assert len(messages_api.requests) == 1


def test_of_two_that_abort_and_prompt_the_later_one_is_answered(claude: RpcProcess, messages_api: MessagesApi) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("One. ", gate)), Reply("Last."))
    claude.ask("prompt", message="first")
    assert gate.reached.wait()
    claude.send(*({"id": name, "type": "abort_and_prompt", "message": name} for name in ("second", "third")))
    assert claude.answer_to("third")["success"]
    assert not claude.answer_to("second")["success"]
    claude.wait(lambda frame: frame["type"] == "message_end" and "Last." in str(frame["message"]["content"]))


def test_a_command_that_is_aborted_in_the_same_breath_is_answered(claude: RpcProcess) -> None:
    for number in range(5):
        name = f"bash {number}"
        claude.send(
            {"id": name, "type": "bash", "command": "sleep 1000"},
            *({"id": f"{name} {again}", "type": "abort_bash"} for again in range(3)),
        )
        assert claude.answer_to(name)["data"]["cancelled"]
        for again in range(3):
            assert claude.answer_to(f"{name} {again}")["success"]


def test_a_compaction_that_is_aborted_in_the_same_breath_changes_nothing(
    claude: RpcProcess, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply(f"One. {LONG}"), Reply(f"Two. {LONG}"))
    say(claude, "first")
    say(claude, "second")
    claude.send({"id": "c", "type": "compact"}, {"id": "a", "type": "abort"})
    assert claude.answer_to("a")["success"]
    assert "cancelled" in claude.answer_to("c")["error"]
    assert len(claude.ask("get_messages")["data"]["messages"]) == 4


def test_what_was_said_is_saved_even_when_nobody_reads_any_more(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("word " * 100_000, gate), chunk=5000))
    process = subprocess.Popen(
        [sys.executable, "-m", "indus_nb", "--mode", "rpc", *ARGUMENTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path, **more),
    )
    with ending(process):
        process.stdin.write(b'{"type": "prompt", "message": "talk"}\n')
        process.stdin.flush()
        assert gate.reached.wait()
        process.stdin.close()
        assert process.wait() == 0
    (path,) = (tmp_path / "sessions").glob("*.jsonl")
    answer = json.loads(path.read_text().splitlines()[-1])["message"]
    assert (answer["role"], answer["stopReason"]) == ("assistant", "aborted")


def test_what_the_file_did_not_take_is_kept_elsewhere_when_the_session_is_left(
    claude: RpcProcess, messages_api: MessagesApi, tmp_path: Path
) -> None:
    messages_api.add(Reply("One."))
    say(claude, "first")
    (path,) = (tmp_path / "sessions").glob("*.jsonl")
    with path.open("a") as file:
        file.write('{"type": "custom", "id": "00000000", "parentId": null, "customType": "elsewhere"}\n')
    claude.ask("bash", command="echo precious")
    assert claude.ask("new_session")["success"]
    (rescued,) = (other for other in (tmp_path / "sessions").glob("*.jsonl") if other != path)
    assert "precious" in rescued.read_text()
    assert "first" in rescued.read_text()
    assert "precious" not in path.read_text()


def test_what_the_user_runs_while_a_branch_is_summarised_belongs_to_the_new_place(
    claude: RpcProcess, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply("One."), Reply("Two."))
    say(claude, "first")
    say(claude, "second")
    entries = claude.ask("get_entries")["data"]["entries"]
    target = next(e["id"] for e in entries if e.get("message", {}).get("role") == "assistant")
    gate = Gate()
    messages_api.add(Reply(Text("A summary of it all. ", gate)))
    claude.send({"id": "n", "type": "navigate_tree", "targetId": target, "summarize": True})
    assert gate.reached.wait()
    assert claude.ask("bash", command="echo meanwhile")["success"]
    gate.open()
    assert claude.answer_to("n")["success"]
    assert claude.ask("get_messages")["data"]["messages"][-1]["output"] == "meanwhile\n"


def test_a_steering_prompt_joins_the_run_that_goes_on_after_a_compaction(
    claude: RpcProcess, messages_api: MessagesApi
) -> None:
    gate = Gate()
    full = {"input_tokens": 199_000}
    messages_api.add(Reply("One."))
    say(claude, f"first {LONG}")
    messages_api.add(
        Reply(f"Two. {LONG}", usage=full), Reply(Text("A summary. ", gate)), Reply("Three."), Reply("Four.")
    )
    claude.ask("prompt", message=f"second {LONG}")
    assert gate.reached.wait()
    claude.ask("follow_up", message="queued")
    claude.send({"id": "s", "type": "prompt", "message": "steered", "streamingBehavior": "steer"})
    gate.open()
    assert claude.answer_to("s")["success"]
    claude.wait("agent_settled")
    said = [m["content"][0]["text"] for m in claude.ask("get_messages")["data"]["messages"] if m["role"] == "user"]
    assert {"queued", "steered"} <= set(said)


def test_a_session_whose_entries_are_odd_can_be_counted_and_exported(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    moment = "9999-12-31T23:59:59-12:00"
    head = {"type": "message", "timestamp": moment}
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "odd", "timestamp": moment, "cwd": str(tmp_path)},
        {**head, "id": "a", "parentId": None, "message": ["no", "message"]},
        {
            "type": "message",
            "id": "b",
            "parentId": "a",
            "timestamp": moment,
            "message": {"role": "user", "content": "hi"},
        },
    ]
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "torn")
    with RpcProcess(*ARGUMENTS, home=tmp_path, more=more) as process:
        assert process.ask("switch_session", sessionPath=str(path))["success"]
        assert process.ask("get_session_stats")["data"]["userMessages"] == 1
        assert process.ask("export_html", outputPath=str(tmp_path / "odd.html"))["success"]
        process.close_stdin()
        process.wait_for_end()
    assert "was not complete" in process.stderr


def test_a_server_that_fails_within_a_run_is_no_failure_of_the_next_one(
    claude: RpcProcess, messages_api: MessagesApi
) -> None:
    messages_api.add(HttpError(400, "invalid_request_error", "no"), Reply("Yes."))
    say(claude, "first")
    say(claude, "second")
    assert last_answer(claude)["content"][0]["text"] == "Yes."
