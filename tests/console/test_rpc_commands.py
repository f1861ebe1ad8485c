"""The commands of RPC mode beyond prompting: models, compaction, retry, shell, sessions, trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, HttpError, MessagesApi, Reply, Text, ToolUse
from rpc_process import RpcProcess

SETTINGS = {"retry": {"baseDelayMs": 10}, "compaction": {"keepRecentTokens": 100, "reserveTokens": 2000}}


@pytest.fixture
def start(messages_api: MessagesApi, tmp_path: Path):
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    processes: list[RpcProcess] = []

    def start_one(*arguments: str, settings: dict[str, Any] = SETTINGS) -> RpcProcess:
        (tmp_path / "agent").mkdir(exist_ok=True)
        (tmp_path / "agent" / "settings.json").write_text(json.dumps(settings))
        fixed = ("--model", "claude-haiku-4-5", "--thinking", "off", "--session-dir", "sessions")
        processes.append(RpcProcess(*fixed, *arguments, home=tmp_path, more=more))
        return processes[-1].__enter__()

    yield start_one
    for process in processes:
        process.__exit__(None, None, None)


@pytest.fixture
def claude(start) -> RpcProcess:
    return start()


def say(process: RpcProcess, text: str) -> None:
    assert process.ask("prompt", message=text)["success"]
    process.wait("agent_settled")


def data(process: RpcProcess, kind: str, /, **fields: Any) -> Any:
    response = process.ask(kind, **fields)
    assert response["success"], response
    return response.get("data")


def error(process: RpcProcess, kind: str, /, **fields: Any) -> str:
    response = process.ask(kind, **fields)
    assert not response["success"], response
    return response["error"]


def kinds(process: RpcProcess, *wanted: str) -> list[str]:
    return [frame["type"] for frame in process.frames if frame["type"] in wanted]


def texts(process: RpcProcess) -> list[str]:
    shown = []
    for message in data(process, "get_messages")["messages"]:
        content = message.get("content", message.get("summary", message.get("output")))
        shown.append(content if isinstance(content, str) else "".join(block.get("text", "") for block in content))
    return shown


# Retry


def test_an_overloaded_server_is_asked_again_and_the_failed_answer_forgotten(claude, messages_api):
    messages_api.add(HttpError(529, "overloaded_error", "Overloaded"), Reply("Recovered."))
    say(claude, "hi")
    order = kinds(claude, "agent_start", "agent_end", "auto_retry_start", "auto_retry_end", "agent_settled")
    assert order == [
        "agent_start", "agent_end", "auto_retry_start", "agent_start", "auto_retry_end", "agent_end", "agent_settled",
    ]  # fmt: skip
    first, last = (frame for frame in claude.frames if frame["type"] == "agent_end")
    assert (first["willRetry"], last["willRetry"]) == (True, False)
    started = next(frame for frame in claude.frames if frame["type"] == "auto_retry_start")
    assert (started["attempt"], started["maxAttempts"], started["delayMs"]) == (1, 3, 10)
    assert "529" in started["errorMessage"]
    ended = next(frame for frame in claude.frames if frame["type"] == "auto_retry_end")
    assert (ended["success"], ended["attempt"]) == (True, 1)
    assert texts(claude) == ["hi", "Recovered."]
    assert len(messages_api.requests) == 2
    entries = data(claude, "get_entries")["entries"]
    assert [e["message"]["stopReason"] for e in entries if e.get("message", {}).get("role") == "assistant"] == [
        "error",
        "stop",
    ]


def test_after_the_last_attempt_the_failure_stays(claude, messages_api):
    messages_api.add(*[HttpError(529, "overloaded_error", "Overloaded")] * 4)
    say(claude, "hi")
    assert kinds(claude, "auto_retry_start") == ["auto_retry_start"] * 3
    ended = next(frame for frame in claude.frames if frame["type"] == "auto_retry_end")
    assert (ended["success"], ended["attempt"]) == (False, 3)
    assert "529" in ended["finalError"]
    assert claude.frames[-1]["type"] == "agent_settled"


def test_a_mistake_in_the_request_is_not_tried_again(claude, messages_api):
    messages_api.add(HttpError(400, "invalid_request_error", "500 is too large"))
    say(claude, "hi")
    assert kinds(claude, "auto_retry_start") == []


def test_the_servers_own_delay_counts_and_one_beyond_the_limit_is_not_waited_for(claude, messages_api):
    messages_api.add(HttpError(429, "rate_limit_error", "slow down", headers={"retry-after": "3600"}))
    say(claude, "hi")
    assert kinds(claude, "auto_retry_start") == []
    messages_api.add(HttpError(429, "rate_limit_error", "slow down", headers={"retry-after": "0.05"}), Reply("ok"))
    say(claude, "again")
    started = next(frame for frame in claude.frames if frame["type"] == "auto_retry_start")
    assert started["delayMs"] == 50


def test_the_settings_say_how_long_a_server_may_be_silent(start, messages_api):
    process = start(settings={"retry": {"enabled": False, "provider": {"timeoutMs": 200}}})
    messages_api.add(Reply(Text("One. ", Gate())))
    process.ask("prompt", message="go")
    assert "silent for 0.2 s" in process.wait("agent_end")["messages"][-1]["errorMessage"]


@pytest.mark.parametrize("command", ["abort_retry", "abort"])
def test_the_wait_for_a_retry_can_be_ended(start, messages_api, command):
    process = start(settings={"retry": {"baseDelayMs": 60_000}})
    messages_api.add(HttpError(529, "overloaded_error", "Overloaded"))
    assert process.ask("prompt", message="hi")["success"]
    process.wait("auto_retry_start")
    assert data(process, "get_state")["isStreaming"] is True
    assert process.ask(command)["success"]
    ended = process.frames[[frame["type"] for frame in process.frames].index("auto_retry_end")]
    assert (ended["success"], ended["finalError"]) == (False, "Retry cancelled")
    assert data(process, "get_state")["isStreaming"] is False


def test_retrying_can_be_turned_off(claude, messages_api):
    assert data(claude, "get_state")["autoRetryEnabled"] is True
    assert claude.ask("set_auto_retry", enabled=False)["success"]
    messages_api.add(HttpError(529, "overloaded_error", "Overloaded"))
    say(claude, "hi")
    assert kinds(claude, "auto_retry_start") == []
    assert data(claude, "get_state")["autoRetryEnabled"] is False


# Compaction


LONG = "word " * 200


def test_a_manual_compaction_summarises_the_old_and_keeps_the_new(claude, messages_api):
    messages_api.add(Reply(f"One. {LONG}"), Reply(f"Two. {LONG}"))
    say(claude, "first")
    say(claude, "second")
    messages_api.add(Reply("The summary."), Reply("The head."))
    result = data(claude, "compact", customInstructions="the poem")
    assert "summary" in result["summary"].lower()
    assert result["tokensBefore"] > 0
    assert result["details"] == {"readFiles": [], "modifiedFiles": []}
    assert kinds(claude, "auto_compaction_start", "compaction_start") == []
    assert "the poem" in json.dumps(messages_api.requests[2].body)
    assert texts(claude)[0] == result["summary"]
    assert data(claude, "get_state")["contextUsage"] == {"tokens": None, "contextWindow": 200_000, "percent": None}
    assert "just now" in error(claude, "compact")
    messages_api.add(Reply("After."))
    say(claude, "go on")
    assert "<summary>" in json.dumps(messages_api.requests[-1].body["messages"][0])
    stats = data(claude, "get_session_stats")
    assert (stats["userMessages"], stats["assistantMessages"]) == (3, 3)


def test_nothing_to_compact_is_said_and_changes_nothing(claude, messages_api):
    assert "nobody has said anything" in error(claude, "compact")
    assert messages_api.requests == []


def test_a_failed_compaction_changes_nothing(claude, messages_api):
    messages_api.add(Reply(f"One. {LONG}"), Reply(f"Two. {LONG}"))
    say(claude, "first")
    say(claude, "second")
    before, entries = texts(claude), data(claude, "get_entries")
    messages_api.add(*[HttpError(400, "invalid_request_error", "no")] * 2)
    assert "Summarization failed: 400" in error(claude, "compact")
    assert (texts(claude), data(claude, "get_entries")) == (before, entries)


def test_a_prompt_is_answered_with_what_becomes_of_it(claude, messages_api):
    gate = Gate()
    messages_api.add(Reply(Text("One", gate)), Reply("Two."), Reply("Three."), Reply("Four."))
    assert data(claude, "prompt", message="go") == {"disposition": "started"}
    assert gate.reached.wait(60)
    assert data(claude, "prompt", message="more", streamingBehavior="followUp") == {"disposition": "queued"}
    assert data(claude, "steer", message="this") == {"disposition": "queued"}
    assert data(claude, "follow_up", message="that") == {"disposition": "queued"}
    gate.open()
    claude.wait("agent_settled")
    assert data(claude, "abort_and_prompt", message="again") == {"disposition": "started"}


def test_what_waited_in_queues_is_told_when_another_session_takes_the_place(claude, messages_api):
    gate = Gate()
    messages_api.add(Reply(Text("One", gate)))
    data(claude, "prompt", message="go")
    assert gate.reached.wait(60)
    data(claude, "follow_up", message="that")
    data(claude, "steer", message="this")
    assert data(claude, "new_session") == {"cancelled": False}
    gate.open()
    assert data(claude, "new_session") == {"cancelled": False}
    replaced = [frame for frame in claude.frames if frame["type"] == "session_replaced"]
    assert [frame.get("dropped") for frame in replaced] == [["this", "that"], None]


def test_a_tree_that_is_too_deep_for_parsers_is_asked_for_as_a_list(start, tmp_path):
    head = {
        "type": "session",
        "version": 3,
        "id": "deep",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": str(tmp_path),
    }
    entries = [
        {"type": "label", "id": f"{n:08x}", "parentId": f"{n - 1:08x}" if n else None, "timestamp": head["timestamp"]}
        | {"targetId": "none", "label": "x"}
        for n in range(3000)
    ]
    path = tmp_path / "deep.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [head, *entries]))
    process = start("--session", str(path))
    answer = process.ask("get_tree")
    assert not answer["success"]
    assert '"flat": true' in answer["error"]
    assert len(data(process, "get_tree", flat=True)["nodes"]) >= 3000


def test_an_aborted_compaction_changes_nothing(claude, messages_api):
    messages_api.add(Reply(f"One. {LONG}"), Reply(f"Two. {LONG}"))
    say(claude, "first")
    say(claude, "second")
    before = texts(claude)
    gates = [Gate(), Gate()]
    messages_api.add(*[Reply(Text("The ", gate, "summary.")) for gate in gates])
    claude.send({"id": "c", "type": "compact"})
    assert gates[0].reached.wait()
    assert data(claude, "get_state")["isCompacting"] is True
    assert claude.ask("abort")["success"]
    answer = claude.answer_to("c")
    assert (answer["success"], answer["error"]) == (False, "Compaction cancelled")
    assert texts(claude) == before
    for gate in gates:
        gate.open()


@pytest.mark.parametrize(("wire", "prefix"), [("snapshot", "auto_"), ("strict", "auto_"), ("delta", "")])
def test_a_conversation_that_grows_too_long_is_compacted_after_the_run(start, messages_api, wire, prefix):
    process = start("--wire", wire)
    messages_api.add(Reply(f"One. {LONG}"), Reply(f"Two. {LONG}", usage={"input_tokens": 199_000}))
    messages_api.add(Reply("A summary."), Reply("A head."), Reply("After."))
    process.ask("prompt", message="first")
    process.wait("agent_end")
    process.ask("prompt", message="second")
    ended = process.wait(f"{prefix}compaction_end")
    assert "summary" in ended["result"]["summary"]
    assert (ended["aborted"], ended["willRetry"]) == (False, False)
    assert ("reason" in ended) is (wire == "delta")
    started = next(frame for frame in process.frames if frame["type"] == f"{prefix}compaction_start")
    assert started["reason"] == "threshold"
    assert process.ask("prompt", message="go on")["success"]
    process.wait("agent_end")
    assert texts(process)[-2:] == ["go on", "After."]


def test_a_conversation_that_is_too_long_is_compacted_and_asked_again_once(claude, messages_api):
    messages_api.add(Reply(f"One. {LONG}"))
    say(claude, "first")
    messages_api.add(
        HttpError(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        Reply("A summary."),
        Reply("Better."),
    )
    say(claude, f"second {LONG}")
    ended = next(frame for frame in claude.frames if frame["type"] == "auto_compaction_end")
    assert (ended["willRetry"], ended["aborted"]) == (True, False)
    assert texts(claude)[-1] == "Better."


def test_a_second_overflow_ends_the_run_with_its_error(claude, messages_api):
    messages_api.add(Reply(f"One. {LONG}"))
    say(claude, "first")
    too_long = HttpError(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
    messages_api.add(too_long, Reply("A summary."), too_long)
    say(claude, f"second {LONG}")
    assert kinds(claude, "auto_compaction_start") == ["auto_compaction_start"]
    last = [frame["message"] for frame in claude.frames if frame["type"] == "message_end"][-1]
    assert (last["stopReason"], "too long" in last["errorMessage"]) == ("error", True)


def test_when_no_room_can_be_made_the_failure_is_the_last_answer(claude, messages_api):
    messages_api.add(Reply(f"One. {LONG}"))
    say(claude, "first")
    too_long = HttpError(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
    messages_api.add(too_long, HttpError(400, "invalid_request_error", "no summaries today"))
    say(claude, f"second {LONG}")
    last = data(claude, "get_messages")["messages"][-1]
    assert (last["stopReason"], "too long" in last["errorMessage"]) == ("error", True)


# The user's shell


def test_a_command_of_the_user_streams_and_is_shown_to_the_model_with_the_next_prompt(claude, messages_api):
    result = data(claude, "bash", command="printf 'a\\nb'; exit 3")
    assert result == {
        "output": "a\nb", "exitCode": 3, "cancelled": False, "truncated": False,
        "totalLines": 2, "totalBytes": 3, "outputLines": 2, "outputBytes": 3,
    }  # fmt: skip
    updates = [frame for frame in claude.frames if frame["type"] == "bash_execution_update"]
    assert "".join(update["delta"] for update in updates) == "a\nb"
    (response,) = (frame for frame in claude.frames if frame.get("command") == "bash")
    assert {update["id"] for update in updates} == {response["id"]}
    assert data(claude, "bash", command="echo secret", excludeFromContext=True)["output"] == "secret\n"
    messages_api.add(Reply("I see."))
    say(claude, "what was that?")
    sent = json.dumps(messages_api.requests[0].body["messages"])
    assert "Ran `printf" in sent
    assert "exited with code 3" in sent
    assert "secret" not in sent


def test_a_command_can_be_aborted_and_others_are_answered_meanwhile(claude):
    claude.send({"id": "b", "type": "bash", "command": "echo begin; sleep 60; echo end"})
    claude.wait("bash_execution_update")
    assert data(claude, "get_state")["isStreaming"] is False
    assert claude.ask("abort_bash")["success"]
    answer = claude.answer_to("b")
    assert (answer["data"]["output"], answer["data"]["cancelled"]) == ("begin\n", True)
    assert "exitCode" not in answer["data"]


def test_a_command_during_a_run_waits_for_its_place_in_the_conversation(claude, messages_api):
    gate = Gate()
    messages_api.add(Reply(Text("one ", gate, "two")))
    assert claude.ask("prompt", message="talk")["success"]
    assert gate.reached.wait()
    assert data(claude, "bash", command="echo hidden")["output"] == "hidden\n"
    assert len(data(claude, "get_messages")["messages"]) == 1
    gate.open()
    claude.wait("agent_settled")
    assert texts(claude) == ["talk", "one two", "hidden\n"]


def test_keys_of_output_that_was_not_cut_are_there_and_null(claude, messages_api):
    messages_api.add(Reply(ToolUse("bash", {"command": "echo hi"})), Reply("Done."))
    data(claude, "bash", command="echo mine")
    claude.ask("prompt", message="go")
    claude.wait("agent_settled")
    updates = [frame["partialResult"]["details"] for frame in claude.frames if frame["type"] == "tool_execution_update"]
    assert updates
    assert all(details == {"truncation": None, "fullOutputPath": None} for details in updates)
    ran = data(claude, "get_messages")["messages"][0]
    assert (ran["role"], ran["output"], ran["fullOutputPath"]) == ("bashExecution", "mine\n", None)


def test_long_output_is_cut_and_kept_whole_in_a_file(claude):
    result = data(claude, "bash", command="seq 1 5000")
    assert (result["truncated"], result["totalLines"], result["outputLines"]) == (True, 5000, 2000)
    assert Path(result["fullOutputPath"]).read_text() == "".join(f"{n}\n" for n in range(1, 5001))
    assert result["artifactId"] == Path(result["fullOutputPath"]).stem
    Path(result["fullOutputPath"]).unlink()


# Sessions


def test_a_fork_goes_on_before_a_message_in_a_file_of_its_own(claude, messages_api):
    assert data(claude, "get_fork_messages") == {"messages": []}
    messages_api.add(Reply("One."), Reply("Two."))
    say(claude, "first")
    say(claude, "second")
    before = data(claude, "get_state")["sessionFile"]
    (first, second) = data(claude, "get_fork_messages")["messages"]
    assert (first["text"], second["text"]) == ("first", "second")
    assert data(claude, "fork", entryId=second["entryId"]) == {"text": "second", "cancelled": False}
    assert texts(claude) == ["first", "One."]
    state = data(claude, "get_state")
    assert state["sessionFile"] != before
    assert json.loads(Path(state["sessionFile"]).read_text().splitlines()[0])["parentSession"] == before
    response = claude.ask("branch", entryId=first["entryId"])
    assert (response["command"], response["data"]["text"]) == ("branch", "first")
    assert texts(claude) == []
    assert "Invalid entry ID for forking" in error(claude, "fork", entryId="cafebabe")


def test_a_clone_has_the_same_conversation_and_another_file(claude, messages_api):
    messages_api.add(Reply("One."))
    say(claude, "first")
    before = data(claude, "get_state")
    assert data(claude, "clone") == {"cancelled": False}
    after = data(claude, "get_state")
    assert after["sessionId"] != before["sessionId"]
    assert texts(claude) == ["first", "One."]


def test_switching_back_finds_the_conversation_and_bad_files_change_nothing(claude, messages_api, tmp_path):
    messages_api.add(Reply("One."), Reply("Two."))
    say(claude, "first")
    first = data(claude, "get_state")["sessionFile"]
    assert data(claude, "new_session") == {"cancelled": False}
    say(claude, "second")
    assert data(claude, "switch_session", sessionPath=first) == {"cancelled": False}
    assert texts(claude) == ["first", "One."]
    broken = tmp_path / "broken.jsonl"
    broken.write_text("this is no session\n{\n")
    assert "no such session file" in error(claude, "switch_session", sessionPath=str(tmp_path / "none.jsonl"))
    assert "no session file" in error(claude, "switch_session", sessionPath=str(broken))
    assert broken.read_text() == "this is no session\n{\n"
    assert data(claude, "get_state")["sessionFile"] == first
    listed = data(claude, "list_sessions")["sessions"]
    assert [session["firstMessage"] for session in listed] == ["second", "first"]
    assert listed[1]["path"] == first


def test_a_session_has_a_name(claude):
    assert claude.ask("set_session_name", name=" my feature ")["success"]
    assert next(frame for frame in claude.frames if frame["type"] == "session_info_changed")["name"] == "my feature"
    assert error(claude, "set_session_name", name="  ") == "Session name cannot be empty"
    assert data(claude, "get_state")["sessionName"] == "my feature"


# Trees


def test_navigating_back_offers_the_text_and_begins_a_branch(claude, messages_api):
    messages_api.add(Reply("One."), Reply("Two."), Reply("Other two."))
    say(claude, "first")
    say(claude, "second")
    second = data(claude, "get_fork_messages")["messages"][1]["entryId"]
    assert data(claude, "navigate_tree", targetId=second, label="here") == {"cancelled": False, "editorText": "second"}
    assert texts(claude) == ["first", "One."]
    say(claude, "second, differently")
    tree = data(claude, "get_tree")
    found = [node for node in walk(tree["tree"]) if node["entry"]["id"] == second]
    assert found[0]["label"] == "here"
    assert claude.ask("set_label", entryId=second, label="")["success"]
    assert all("label" not in node for node in walk(data(claude, "get_tree")["tree"]))
    assert "cafebabe" in error(claude, "navigate_tree", targetId="cafebabe")
    assert texts(claude) == ["first", "One.", "second, differently", "Other two."]
    entries = data(claude, "get_entries")
    later = data(claude, "get_entries", since=second)["entries"]
    assert entries["entries"][-len(later) :] == later


def test_a_branch_that_is_left_can_be_summarised(claude, messages_api):
    messages_api.add(Reply("One."), Reply("Two."))
    say(claude, "first")
    say(claude, "second")
    leaf = data(claude, "get_entries")["leafId"]
    first = data(claude, "get_fork_messages")["messages"][0]["entryId"]
    messages_api.add(Reply("We tried two."))
    done = data(claude, "navigate_tree", targetId=first, summarize=True, customInstructions="be kind", label="tried")
    assert done["editorText"] == "first"
    assert "We tried two." in done["summaryEntry"]["summary"]
    assert done["summaryEntry"]["fromId"] == leaf
    assert "be kind" in json.dumps(messages_api.requests[-1].body)
    assert "We tried two." in texts(claude)[0]
    messages_api.add(HttpError(400, "invalid_request_error", "no"))
    assert "Summarization failed" in error(claude, "navigate_tree", targetId=leaf, summarize=True)
    assert "We tried two." in texts(claude)[0]


def walk(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += node["children"]
    return found


# Models and queues


def test_models_and_levels_can_be_cycled(claude):
    first = data(claude, "cycle_model")
    assert first["model"]["provider"] == "anthropic"
    assert first["model"]["id"] != "claude-haiku-4-5"
    assert data(claude, "get_state")["model"] == first["model"]
    assert data(claude, "set_model", provider="anthropic", modelId="claude-haiku-4-5")["id"] == "claude-haiku-4-5"
    levels = data(claude, "get_available_thinking_levels")["levels"]
    assert levels[0] == "off"
    assert data(claude, "cycle_thinking_level") == {"level": levels[1]}


def test_with_one_model_there_is_nothing_to_cycle(tmp_path):
    with RpcProcess("--provider", "offline", "--no-session", home=tmp_path) as process:
        assert process.ask("cycle_model") == {**process.frames[-1], "data": None}
        assert data(process, "get_commands") == {"commands": []}
        assert data(process, "get_available_commands") == {"commands": []}


def test_a_model_is_chosen_by_its_id_and_not_by_a_part_of_it(claude):
    assert error(claude, "set_model", provider="anthropic", modelId="haiku").startswith("Model not found")
    assert data(claude, "get_state")["model"]["id"] == "claude-haiku-4-5"


@pytest.mark.parametrize("command", ["prompt", "steer", "follow_up", "abort_and_prompt"])
def test_an_empty_message_is_refused(claude, command):
    assert "empty" in error(claude, command, message=" \n")
    assert data(claude, "get_state")["pendingMessageCount"] == 0


def test_what_waits_can_be_taken_back(claude):
    for command, text in (("steer", "a"), ("follow_up", "b"), ("steer", "c")):
        assert claude.ask(command, message=text)["success"]
    assert data(claude, "get_state")["pendingMessageCount"] == 3
    assert data(claude, "clear_queue") == {"steering": ["a", "c"], "followUp": ["b"]}
    assert data(claude, "get_state")["queuedMessageCount"] == 0


def test_abort_and_prompt_takes_the_place_of_the_run(claude, messages_api):
    gate = Gate()
    messages_api.add(Reply(Text("one ", gate)), Reply("Two."))
    assert claude.ask("prompt", message="first")["success"]
    claude.wait(lambda frame: frame.get("assistantMessageEvent", {}).get("type") == "text_delta")
    assert claude.ask("abort_and_prompt", message="second")["success"]
    claude.wait(lambda frame: frame["type"] == "agent_settled" and texts_of(claude)[-1:] == ["Two."])
    assert texts(claude) == ["first", "one ", "second", "Two."]
    gate.open()


def texts_of(process: RpcProcess) -> list[str]:
    ended = (frame["message"] for frame in process.frames if frame["type"] == "message_end")
    return ["".join(block.get("text", "") for block in message["content"]) for message in ended]


# Shapes of the stream


def test_a_delta_stream_never_repeats_the_answer(start, messages_api):
    process = start("--wire", "delta")
    messages_api.add(Reply("Hello, ", "world!"))
    say(process, "hi")
    updates = [frame for frame in process.frames if frame["type"] == "message_update"]
    assert all("message" not in update and "partial" not in update["assistantMessageEvent"] for update in updates)
    assert all("input" in update["usage"] for update in updates)


def test_a_strict_stream_names_nothing_that_is_newer(start, messages_api):
    process = start("--wire", "strict")
    messages_api.add(Reply("Hello."))
    assert process.ask("set_session_name", name="x")["success"]
    assert process.ask("steer", message="wait")["success"]
    assert process.ask("clear_queue")["success"]
    assert process.ask("prompt", message="hi")["success"]
    ended = process.wait("agent_end")
    assert "willRetry" not in ended
    data(process, "get_state")
    known = {"response", "agent_start", "agent_end", "turn_start", "turn_end"}
    known |= {"message_start", "message_update", "message_end"}
    assert {frame["type"] for frame in process.frames} == known


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({"type": "image", "data": "###", "mimeType": "image/png"}, "base64"),
        ({"type": "image", "data": "aGk=", "mimeType": "text/html"}, "image/png"),
        ({"type": "image", "data": "", "mimeType": "image/png"}, "needs data"),
        ({"type": "image"}, "image"),
    ],
)
def test_a_bad_image_is_refused_before_anything_happens(claude, image, words):
    assert words in error(claude, "prompt", message="look", images=[image])
    assert data(claude, "get_state")["messageCount"] == 0


def test_a_session_can_be_exported_to_a_page(claude, messages_api, tmp_path):
    assert "Nothing to export yet" in error(claude, "export_html")
    messages_api.add(Reply("One."))
    say(claude, "first")
    path = Path(data(claude, "export_html")["path"])
    assert path.parent == tmp_path
    assert "One." in path.read_text()
    chosen = data(claude, "export_html", outputPath=str(tmp_path / "out" / "page.html"))["path"]
    assert Path(chosen) == tmp_path / "out" / "page.html"


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([{"name": "a", "description": "", "parameters": {"type": "string"}}], "The tool a cannot be offered: "),
        ([{"name": "a b", "description": "", "parameters": {}}], "'a b' cannot name a tool"),
        ([{"name": "a", "description": "", "parameters": {}}] * 2, "The tool a is given twice"),
    ],
)
def test_a_lent_tool_that_an_api_would_refuse_is_refused_by_name(claude, messages_api, tools, words):
    good = {"name": "good", "description": "", "parameters": {}}
    assert claude.ask("set_host_tools", tools=[good])["success"]
    answer = claude.ask("set_host_tools", tools=tools)
    assert not answer["success"]
    assert words in answer["error"]
    messages_api.add("Yes.")
    say(claude, "hi")
    offered = [tool["name"] for tool in messages_api.requests[0].body["tools"]]
    assert "good" in offered
    assert "a" not in offered


def test_going_back_before_what_is_refused_over_rpc_lets_the_session_go_on(claude, messages_api):
    def answer(request):
        if "poison" not in json.dumps(request.body):
            return Reply("Fine.")
        return HttpError(400, "invalid_request_error", "messages.0.content.0.text: Odd text")

    messages_api.add(answer, answer, answer)
    say(claude, "this is poison")
    say(claude, "go on")
    failed = claude.ask("get_messages")["data"]["messages"][-1]
    assert 'This is about the message "this is poison' in failed["errorMessage"]
    assert "navigate to an earlier entry of the session, or fork there" in failed["errorMessage"]
    (poisoned, *_) = data(claude, "get_fork_messages")["messages"]
    assert claude.ask("navigate_tree", targetId=poisoned["entryId"])["success"]
    say(claude, "go on")
    assert texts(claude)[-1] == "Fine."
