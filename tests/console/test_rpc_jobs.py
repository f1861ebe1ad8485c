"""Commands that go on as jobs, in RPC mode through real pipes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from living import lives
from messages_api import MessagesApi, Reply, ToolUse
from rpc_process import RpcProcess, indusagi
from waiting import wait_until


@pytest.fixture
def start(messages_api: MessagesApi, tmp_path: Path) -> Iterator[Callable[[object], RpcProcess]]:
    processes: list[RpcProcess] = []

    def start(settings: object) -> RpcProcess:
        (tmp_path / "agent").mkdir()
        (tmp_path / "agent" / "settings.json").write_text(json.dumps(settings))
        more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
        processes.append(
            RpcProcess("--model", "claude-haiku-4-5", "--thinking", "off", "--no-session", home=tmp_path, more=more)
        )
        return processes[-1].__enter__()

    yield start
    for process in processes:
        process.__exit__(None, None, None)


WAITS = "echo $$ > pid; echo begun; until [ -e go ]; do sleep 0.05; done; echo over"


def test_a_client_sees_a_job_begin_and_a_run_begin_when_it_ends(
    start: Callable[[object], RpcProcess], messages_api: MessagesApi, tmp_path: Path
) -> None:
    process = start({"jobs": {"afterSeconds": 0.3}})
    messages_api.add(Reply(ToolUse("bash", {"command": WAITS})), Reply("It runs."), Reply("It is over."))
    assert process.ask("prompt", message="go")["success"]
    ended = process.wait("tool_execution_end")
    assert ended["isError"] is False
    assert ended["result"]["details"]["job"]["id"] == "job-1"
    process.wait("agent_settled")
    (tmp_path / "go").touch()
    process.wait("agent_start")
    message = process.wait(lambda frame: frame["type"] == "message_end" and frame["message"]["role"] == "custom")
    assert message["message"]["customType"] == "job"
    assert message["message"]["details"]["job"]["state"] == "ended"
    process.wait("agent_settled")
    assert process.ask("get_last_assistant_text")["data"]["text"] == "It is over."


def test_a_client_lists_jobs_and_stops_one_and_no_run_begins_of_that(
    start: Callable[[object], RpcProcess], messages_api: MessagesApi, tmp_path: Path
) -> None:
    process = start({"jobs": {"afterSeconds": 0.3}})
    assert process.ask("get_jobs")["data"] == {"jobs": []}
    waits = f"# Wait for a file\n{WAITS}"
    messages_api.add(Reply(ToolUse("bash", {"command": waits})), Reply("It runs."), Reply("You stopped it."))
    assert process.ask("prompt", message="go")["success"]
    began = process.wait("job_update")["job"]
    assert began.pop("seconds") > 0
    assert began == {"id": "job-1", "tool": "bash", "title": "Wait for a file", "state": "running"}
    process.wait("agent_settled")
    (listed,) = process.ask("get_jobs")["data"]["jobs"]
    assert listed["state"] == "running"
    assert listed["lastLines"] == "begun"
    pid = int((tmp_path / "pid").read_text())
    assert psutil.pid_exists(pid)

    stopped = process.ask("stop_job", jobId="job-1")
    assert stopped["data"]["job"]["state"] == "stopped"
    assert not psutil.pid_exists(pid)
    assert [frame["job"]["state"] for frame in process.frames if frame["type"] == "job_update"] == [
        "running",
        "stopped",
    ]
    assert process.ask("stop_job", jobId="job-1")["data"]["job"]["state"] == "stopped"
    assert process.ask("prompt", message="and now?")["success"]
    process.wait("agent_settled")
    assert "job-1 (bash: Wait for a file) was stopped by the user" in json.dumps(messages_api.requests[-1].body)
    assert len(messages_api.requests) == 3


def test_a_job_that_is_not_there_cannot_be_stopped(
    start: Callable[[object], RpcProcess], messages_api: MessagesApi
) -> None:
    process = start({})
    assert process.ask("get_jobs")["data"] == {"jobs": []}
    failed = process.ask("stop_job", jobId="job-7")
    assert failed["success"] is False
    assert failed["error"] == "There is no job job-7. get_jobs lists those that there are."


def test_a_job_ends_with_the_program(
    start: Callable[[object], RpcProcess], messages_api: MessagesApi, tmp_path: Path
) -> None:
    process = start({"jobs": {"afterSeconds": 0.3}})
    messages_api.add(Reply(ToolUse("bash", {"command": WAITS})), Reply("It runs."))
    process.ask("prompt", message="go")
    process.wait("agent_settled")
    pid = int((tmp_path / "pid").read_text())
    assert psutil.pid_exists(pid)
    process.__exit__(None, None, None)
    wait_until(lambda: not psutil.pid_exists(pid))


def test_a_job_ends_when_the_program_is_killed(
    start: Callable[[object], RpcProcess], messages_api: MessagesApi, tmp_path: Path
) -> None:
    process = start({"jobs": {"afterSeconds": 0.3}})
    messages_api.add(Reply(ToolUse("bash", {"command": WAITS})), Reply("It runs."))
    process.ask("prompt", message="go")
    process.wait("agent_settled")
    pid = int((tmp_path / "pid").read_text())
    psutil.Process(process.pid).kill()
    wait_until(lambda: not lives(pid))


def test_in_the_modes_that_end_with_the_answer_a_command_is_waited_for(
    messages_api: MessagesApi, tmp_path: Path
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text(json.dumps({"jobs": {"afterSeconds": 0.1}}))
    messages_api.add(Reply(ToolUse("bash", {"command": "sleep 1; echo over"})), Reply("It is over."))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    done = indusagi("--model", "claude-haiku-4-5", "--no-session", "go", home=tmp_path, **more)
    assert done.stdout == "It is over.\n"
    assert messages_api.requests[-1].texts == ["over\n"]


def test_without_the_setting_a_command_is_waited_for(
    start: Callable[[object], RpcProcess], messages_api: MessagesApi
) -> None:
    process = start({})
    messages_api.add(Reply(ToolUse("bash", {"command": "echo hi"})), Reply("Done."))
    process.ask("prompt", message="go")
    process.wait("agent_settled")
    assert [tool["name"] for tool in messages_api.requests[0].body["tools"]] == ["read", "bash", "edit", "write"]
