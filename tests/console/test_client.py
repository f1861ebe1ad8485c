"""The Python client of RPC mode, against the real process."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, HttpError, MessagesApi, Reply, Text, ToolUse
from rpc_process import environment

from indus_nb import HostTool, RpcClient
from indus_nb.base.errors import ClientClosedError, CommandFailedError, RunFailedError
from indus_nb.front.console.client import Report
from indus_nb.front.verbs.host_tools import HostToolDefinition
from indus_nb.front.verbs.session_verbs import GetMessages
from indus_nb.front.verbs.setting_verbs import SetModel
from indus_nb.front.verbs.tree_verbs import Fork, GetEntries, GetForkMessages, GetTree


@pytest.fixture
def claude(messages_api: MessagesApi, tmp_path: Path) -> RpcClient:
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    arguments = ("--model", "claude-haiku-4-5", "--thinking", "off", "--no-session")
    return RpcClient(*arguments, cwd=tmp_path, env=environment(tmp_path, **more))


async def test_an_answer_is_waited_for_and_returned(claude: RpcClient, messages_api: MessagesApi) -> None:
    messages_api.add(Reply("One."), Reply("Two."))
    async with claude as client:
        assert await client.prompt_and_wait("first") == "One."
        kinds = [event["type"] async for event in client.events("second")]
        assert (kinds[0], kinds[-1]) == ("agent_start", "agent_settled")
        assert (await client.get_state())["messageCount"] == 4
        entries = await client.ask(GetForkMessages())
        forked = await client.ask(Fork(entry_id=entries["messages"][1]["entryId"]))
        assert forked["text"] == "second"


async def test_failures_are_raised(claude: RpcClient, messages_api: MessagesApi) -> None:
    messages_api.add(HttpError(400, "invalid_request_error", "no such thing"))
    async with claude as client:
        with pytest.raises(RunFailedError, match="no such thing"):
            await client.prompt_and_wait("first")
        with pytest.raises(CommandFailedError, match="Model not found: x/y") as caught:
            await client.ask(SetModel(provider="x", model_id="y"))
        assert caught.value.command == "set_model"


async def test_a_dead_process_ends_every_wait(claude: RpcClient, messages_api: MessagesApi) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("half ", gate)))
    async with claude as client:
        waiting = asyncio.create_task(client.prompt_and_wait("first"))
        await asyncio.to_thread(gate.reached.wait, 240)
        assert client._process is not None
        client._process.kill()
        with pytest.raises(ClientClosedError, match="status -9"):
            await waiting
        with pytest.raises(ClientClosedError, match="has ended"):
            await client.get_state()
    gate.open()


async def test_a_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    async with RpcClient("--model", "nonesuch", env=environment(tmp_path), cwd=tmp_path) as client:
        with pytest.raises(ClientClosedError, match="Model not found: nonesuch"):
            await client.get_state()
    with pytest.raises(ClientClosedError, match="not started"):
        await RpcClient().get_state()


async def test_leaving_the_events_early_aborts_the_run(claude: RpcClient, messages_api: MessagesApi) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("half ", gate)))
    async with claude as client:
        events = client.events("first")
        async for event in events:
            if event["type"] == "message_update":
                break
        await events.aclose()
        assert (await client.get_state())["isStreaming"] is False
    gate.open()


async def test_long_lines_and_many_questions_at_once(claude: RpcClient, messages_api: MessagesApi) -> None:
    messages_api.add(Reply(Text("x" * 1_000_000), chunk=500_000))
    async with claude as client:
        answer = asyncio.create_task(client.prompt_and_wait("first"))
        states = await asyncio.gather(*(client.get_state() for _ in range(200)))
        assert {state["sessionId"] for state in states} == {states[0]["sessionId"]}
        assert len(await answer) == 1_000_000


async def test_events_that_nobody_reads_hold_up_neither_questions_nor_memory(
    claude: RpcClient, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply(Text("word " * 4000), chunk=5))
    async with claude as client:
        seen = 0
        async for _ in client.events("first"):
            if seen == 0:
                assert (await client.get_state())["isStreaming"] is True
            seen += 1
        assert seen > 10


def shout(**more: Any) -> HostToolDefinition:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return HostToolDefinition(name="shout", description="Shout", parameters=schema, **more)


async def test_a_lent_tool_is_called_reports_and_answers(claude: RpcClient, messages_api: MessagesApi) -> None:
    async def run(arguments: dict[str, Any], report: Report) -> str:
        await report("taking a breath")
        if not arguments:
            raise ValueError("nothing to shout")
        return str(arguments["text"]).upper()

    messages_api.add(Reply(ToolUse("shout", {"text": "hi"}), ToolUse("shout", {})), Reply("Done."))
    async with claude as client:
        await client.set_host_tools([HostTool(shout(), run)])
        events = [event async for event in client.events("shout hi")]
        reports = [e["partialResult"]["content"][0]["text"] for e in events if e["type"] == "tool_execution_update"]
        assert reports[0] == "taking a breath"
        ends = [event for event in events if event["type"] == "tool_execution_end"]
        assert [(e["result"]["content"][0]["text"], e["isError"]) for e in ends] == [
            ("HI", False),
            ("ValueError: nothing to shout", True),
        ]
        with pytest.raises(CommandFailedError, match="a tool named bash of its own"):
            await client.set_host_tools([HostTool(shout().replace(name="bash"), run)])


async def test_an_abort_cancels_a_lent_tool(claude: RpcClient, messages_api: MessagesApi) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def run(_: dict[str, Any], __: Report) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    messages_api.add(Reply(ToolUse("shout", {})))
    async with claude as client:
        await client.set_host_tools([HostTool(shout(), run)])
        asking = asyncio.create_task(client.prompt_and_wait("shout"))
        async with asyncio.timeout(120):
            await started.wait()
            await client.abort()
            await cancelled.wait()
            with pytest.raises(RunFailedError):
                await asking


async def test_a_dialog_is_answered_by_the_callback(tmp_path: Path) -> None:
    program = tmp_path / "asks.py"
    program.write_text(
        "import json, sys\n"
        "print(json.dumps({'type': 'extension_ui_request', 'id': 'd', 'method': 'confirm', 'title': 'Sure?'}))\n"
        "sys.stdout.flush()\n"
        "answer = json.loads(sys.stdin.readline())\n"
        "command = json.loads(sys.stdin.readline())\n"
        "print(json.dumps({'type': 'response', 'id': command['id'], 'success': True, 'data': answer}))\n"
    )

    answered = asyncio.Event()

    async def confirm(request: dict[str, Any]) -> dict[str, Any]:
        answered.set()
        return {"confirmed": request["title"] == "Sure?"}

    async with RpcClient(program=[sys.executable, str(program)], on_dialog=confirm) as client:
        async with asyncio.timeout(120):
            await answered.wait()
            state = await client.get_state()
        assert state == {"type": "extension_ui_response", "id": "d", "confirmed": True}


async def test_a_refused_prompt_leaves_the_run_of_another_alone(claude: RpcClient, messages_api: MessagesApi) -> None:
    gate = Gate()
    messages_api.add(Reply(Text("Slowly ", gate, "said.")))
    async with claude as agent:
        first = asyncio.create_task(agent.prompt_and_wait("first"))
        await asyncio.to_thread(gate.reached.wait, 240)
        with pytest.raises(CommandFailedError):
            await agent.prompt_and_wait("second")
        gate.open()
        assert await first == "Slowly said."


@pytest.mark.parametrize(
    "script",
    [
        "import sys; print('no frame', flush=True); sys.stdin.read()",
        "import subprocess, sys; subprocess.Popen(['sleep', '200']); sys.exit(3)",
    ],
)
async def test_a_client_never_waits_for_a_program_that_cannot_answer(script: str) -> None:
    async with RpcClient(program=[sys.executable, "-c", script]) as agent:
        with pytest.raises(ClientClosedError, match="ended"):
            await asyncio.wait_for(agent.get_state(), 15)


def chain(folder: Path, entries: int) -> Path:
    """A session file in which every entry follows the one before; the last but one has two that follow it."""
    lines = [{"type": "session", "version": 3, "id": "deep", "timestamp": "2026-01-01T00:00:00Z", "cwd": str(folder)}]
    for number in range(entries):
        parent = None if number == 0 else f"e{number - 1 - (number == entries - 1)}"
        message = {"role": "user", "content": f"message {number}", "timestamp": number}
        head = {"type": "message", "id": f"e{number}", "parentId": parent, "timestamp": "2026-01-01T00:00:01Z"}
        lines.append({**head, "message": message})
    label = {"targetId": "e0", "label": "root", "timestamp": "2026-01-01T00:00:02Z"}
    lines.append({"type": "label", "id": "l", "parentId": f"e{entries - 1}", **label})
    path = folder / "deep.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


async def test_the_tree_of_a_long_conversation_is_given_as_it_is(tmp_path: Path) -> None:
    path = chain(tmp_path, 5000)
    arguments = ("--provider", "offline", "--session", str(path))
    async with RpcClient(*arguments, cwd=tmp_path, env=environment(tmp_path)) as client:
        data = await client.ask(GetTree())
        flat = await client.ask(GetTree(flat=True))
        assert (await client.get_state())["messageCount"] == 4999
    assert data["leafId"] == flat["leafId"]
    [node] = data["tree"]
    assert (node["label"], node["labelTimestamp"]) == ("root", "2026-01-01T00:00:02Z")
    ids = [node["entry"]["id"]]
    while len(node["children"]) == 1:
        [node] = node["children"]
        ids.append(node["entry"]["id"])
    assert ids == [f"e{number}" for number in range(4998)]
    assert [child["entry"]["id"] for child in node["children"]] == ["e4998", "e4999"]
    by_id = {node["entry"]["id"]: node for node in flat["nodes"]}
    assert len(by_id) == len(flat["nodes"]) > 5000
    assert by_id["e0"]["parentId"] is None
    assert by_id["e4999"] == {"entry": by_id["e4999"]["entry"], "parentId": "e4997", "depth": 4998, "children": ["l"]}
    assert all(by_id[child]["parentId"] == parent for parent in by_id for child in by_id[parent]["children"])


ANSWERS = """
import json, sys
for line in sys.stdin:
    command = json.loads(line)
    head = {"id": command["id"], "type": "response", "command": command["type"], "success": True}
    if command["type"] == "get_messages":
        print(json.dumps(head)[:-1] + ', "data": ' + '{"a":' * 5000 + "1" + "}" * 5001, flush=True)
    elif command["type"] == "get_entries":
        print(json.dumps(head)[:-1] + ', "data": "' + "x" * (64 << 20) + '"}', flush=True)
    else:
        print('{"type": "later", "deep": ' + "[" * 5000 + "]" * 5000 + "}")
        print(json.dumps({**head, "data": {"fine": True}}), flush=True)
"""


async def test_a_response_that_cannot_be_read_fails_its_call_alone() -> None:
    async with RpcClient(program=[sys.executable, "-c", ANSWERS]) as client:
        asked = [client.ask(command) for command in (GetMessages(), GetEntries())]
        deep, long, state = await asyncio.gather(*asked, client.get_state(), return_exceptions=True)
        assert state == {"fine": True}
        assert isinstance(deep, CommandFailedError)
        assert re.match("get_messages: the response cannot be read: recursion limit", str(deep))
        assert isinstance(long, CommandFailedError)
        assert re.match("get_entries: the response cannot be read: the line is longer than", str(long))
        assert await client.get_state() == {"fine": True}
