"""The tool ``todo``: its list, the reminders, and where a user sees it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from messages_api import MessagesApi, Reply, ToolUse
from rpc_process import RpcProcess

from indus_nb.base.messages import ToolResultMessage
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.transcript import Card, Transcript
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools import ToolError
from indus_nb.tools.todo import Task, TodoArguments, TodoList, changed, todo_tool

PLAN = {"op": "init", "phases": [{"name": "Build", "tasks": ["Read", "Write"]}, {"name": "Ship", "tasks": ["Tell"]}]}


def after(*operations: dict[str, Any]) -> TodoList:
    todos = TodoList()
    for operation in operations:
        todos = changed(todos, TodoArguments.from_wire(operation))
    return todos


async def ask_nobody(task: Task) -> str:
    return f"Nobody knows how to go on behind {task.content}."


def statuses(todos: TodoList) -> dict[str, str]:
    return {task.content: task.status for task in todos.tasks}


def test_the_next_task_is_in_progress_when_one_is_done():
    assert statuses(after(PLAN)) == {"Read": "in_progress", "Write": "pending", "Tell": "pending"}
    assert statuses(after(PLAN, {"op": "done", "task": " read "})) == {
        "Read": "completed",
        "Write": "in_progress",
        "Tell": "pending",
    }


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "start", "task": "Tell"}, ["pending", "pending", "in_progress"]),
        ({"op": "drop", "phase": "Build"}, ["abandoned", "abandoned", "in_progress"]),
        ({"op": "done"}, ["completed"] * 3),
        ({"op": "remove", "task": "Read"}, ["in_progress", "pending"]),
        ({"op": "append", "phase": "ship", "tasks": ["Rest"]}, ["in_progress", "pending", "pending", "pending"]),
        ({"op": "append", "phase": "After", "tasks": ["Rest"]}, ["in_progress", "pending", "pending", "pending"]),
        ({"op": "view"}, ["in_progress", "pending", "pending"]),
    ],
)
def test_operations_change_a_task_a_phase_or_all(operation: dict[str, Any], expected: list[str]):
    before = after(PLAN)
    assert list(statuses(changed(before, TodoArguments.from_wire(operation))).values()) == expected
    assert before == after(PLAN), "a list is a value"


def test_what_was_done_stays_done_when_the_rest_is_given_up():
    todos = after(PLAN, {"op": "done", "task": "Read"}, {"op": "drop"})
    assert list(statuses(todos).values()) == ["completed", "abandoned", "abandoned"]


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        ({"op": "done", "task": "Sleep"}, "no such task: Sleep"),
        ({"op": "done", "phase": "Rest"}, "no phase 'Rest'"),
        ({"op": "init"}, "needs `phases`"),
        ({"op": "append"}, "needs `tasks`"),
        ({"op": "append", "tasks": ["x" * 501]}, "at most 500 characters"),
        ({"op": "append", "tasks": [" "]}, "without a name"),
        ({"op": "append", "tasks": ["x"] * 198}, "more than 200 tasks"),
    ],
)
def test_a_wrong_operation_says_what_is_wrong(operation: dict[str, Any], problem: str):
    with pytest.raises(ToolError, match=problem):
        changed(after(PLAN), TodoArguments.from_wire(operation))


def test_a_card_shows_the_list_as_boxes():
    todos = after(PLAN, {"op": "done", "task": "Read"}, {"op": "drop", "task": "Tell"})
    arguments = {"op": "drop", "task": "Tell"}
    described = todo_tool(lambda: todos, lambda _: None, ask_nobody).describe_call(arguments)
    shown = blocks.call(blocks.Call("todo", arguments, described, state="done", checklist=todos))
    assert shown["text/plain"].splitlines() == [
        "✓ todo  drop Tell",
        "  Build",
        "    ☑ Read",
        "    ◐ Write",
        "  Ship",
        "    ☒ Tell",
    ]
    assert "- [x] Read\n- [ ] **Write**" in shown["text/markdown"]
    assert "- [x] ~~Tell~~" in shown["text/markdown"]
    assert "☑ Read" in shown["text/html"]
    assert "<details open" in shown["text/html"]


@pytest.fixture
def session(messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    agent_dir = tmp_path / "agent"
    agent_dir.mkdir()
    settings = {"todo": {"maxReminders": 2, "clearDelaySeconds": 0}, "defaultTools": ["read", "todo"]}
    (agent_dir / "settings.json").write_text(json.dumps(settings))
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(agent_dir))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    options = SessionOptions(model="claude-haiku-4-5", thinking="off", cwd=tmp_path, session_dir=tmp_path / "sessions")
    with open_session(options) as opened:
        yield opened


def last_list(session: AgentSession) -> dict[str, str]:
    results = [message for message in session.messages if isinstance(message, ToolResultMessage)]
    return statuses(TodoList.from_wire(results[-1].details))


async def test_a_model_that_stops_with_open_tasks_is_reminded_a_few_times(session, messages_api: MessagesApi):
    messages_api.add(
        Reply(ToolUse("todo", PLAN)), Reply("Enough."), Reply("Still enough."), Reply("No."), Reply("Yes?")
    )
    events: list[Any] = []
    session.subscribe(events.append)
    await session.prompt("do it")
    reminders = [event for event in events if event.type == "todo_reminder"]
    assert [(event.attempt, event.max_attempts) for event in reminders] == [(1, 2), (2, 2)]
    assert reminders[0].to_wire()["todos"] == [
        {"content": "Read", "status": "in_progress"},
        {"content": "Write", "status": "pending"},
        {"content": "Tell", "status": "pending"},
    ]
    assert [event.type for event in events].count("agent_end") == 1
    assert len(messages_api.requests) == 4
    told = messages_api.requests[2].body["messages"][-1]["content"]
    assert "tasks of your to-do list are open" in json.dumps(told)
    messages_api.add(Reply("Here."), Reply("Still here."))
    await session.prompt("are you there?")
    assert [event.attempt for event in events if event.type == "todo_reminder"][2:] == [1, 2]


async def test_a_list_without_open_tasks_is_emptied_and_not_reminded_of(session, messages_api: MessagesApi):
    messages_api.add(
        Reply(ToolUse("todo", PLAN), ToolUse("todo", {"op": "done"})),
        Reply("Done."),
        Reply(ToolUse("todo", {"op": "view"})),
    )
    messages_api.add(Reply("Nothing."))
    cleared = asyncio.Event()
    types: list[str] = []
    session.subscribe(lambda event: (types.append(event.type), event.type == "todo_auto_clear" and cleared.set())[0])
    await session.prompt("do it")
    async with asyncio.timeout(120):
        await cleared.wait()
    assert "todo_reminder" not in types
    assert list(last_list(session).values()) == ["completed"] * 3
    await session.prompt("and now?")
    assert last_list(session) == {}


async def test_each_branch_and_a_resumed_session_has_its_own_list(session, messages_api: MessagesApi, tmp_path: Path):
    messages_api.add(Reply(ToolUse("todo", PLAN)), Reply("Which?", stop_reason="max_tokens"))
    await session.prompt("plan")
    fork_at = session.store.leaf_id
    messages_api.add(Reply(ToolUse("todo", {"op": "done"})), Reply("Done.", stop_reason="max_tokens"))
    await session.prompt("all of it")
    await session.navigate(fork_at)
    messages_api.add(Reply(ToolUse("todo", {"op": "view"})), Reply("There.", stop_reason="max_tokens"))
    await session.prompt("show")
    assert list(last_list(session).values()) == ["in_progress", "pending", "pending"]
    path = session.store.path
    session.close()
    messages_api.add(Reply(ToolUse("todo", {"op": "done", "task": "Read"})), Reply("Ok.", stop_reason="max_tokens"))
    with open_session(SessionOptions(session=str(path), cwd=tmp_path)) as resumed:
        await resumed.prompt("read")
        assert list(last_list(resumed).values()) == ["completed", "in_progress", "pending"]
        history = Transcript("claude")
        history.add_history(resumed.messages)
    cards = [block for block in history.blocks if isinstance(block, Card)]
    assert "☑ Read" in cards[-1].bundle()["text/plain"]


def test_over_rpc_the_tool_is_offered_when_it_is_asked_for(messages_api: MessagesApi, tmp_path: Path):
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    arguments = ["--model", "claude-haiku-4-5", "--tools", "todo", "--wire", "strict"]
    messages_api.add(Reply(ToolUse("todo", PLAN)), Reply("No."), Reply(ToolUse("todo", {"op": "done"})), Reply("Done."))
    with RpcProcess(*arguments, home=tmp_path, more=more) as process:
        process.ask("prompt", message="do it")
        reminder = process.wait("todo_reminder")
        process.wait("agent_end")
        page = Path(process.ask("export_html")["data"]["path"]).read_text()
    assert reminder == {
        "type": "todo_reminder",
        "todos": [
            {"content": "Read", "status": "in_progress"},
            {"content": "Write", "status": "pending"},
            {"content": "Tell", "status": "pending"},
        ],
        "attempt": 1,
        "maxAttempts": 3,
    }
    assert "todo_auto_clear" not in {frame["type"] for frame in process.frames}
    assert [tool["name"] for tool in messages_api.requests[0].body["tools"]] == ["todo"]
    assert "☑ Write" in page
    assert "3 of 3 tasks are closed" in page
