"""Many tools of MCP servers: searched and called by two tools, which stay the same over a conversation."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from messages_api import MessagesApi, Recorded, Reply, ToolUse

from indus_nb.base.events import ToolExecutionEnd, ToolExecutionStart
from indus_nb.core.session.session import AgentSession
from indus_nb.start import SessionOptions, open_session

SERVER = """
import json, os, sys, time
folder, count = sys.argv[1], int(sys.argv[2])
while len(sys.argv) > 3 and not os.path.exists(folder + "/" + sys.argv[3]):
    time.sleep(0.02)

def tool(number):
    words = ["issue", "invoice", "calendar", "weather"][number % 4]
    text = {"type": "string"}
    return {"name": f"{words}Tool{number}", "description": f"Looks at {words}s, as number {number}.",
            "inputSchema": {"type": "object", "properties": {"text": text}, "required": ["text"]}}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "many", "version": "1"}}
    if method == "tools/list":
        return {"tools": [tool(number) for number in range(count)]}
    return {"content": [{"type": "text", "text": params["name"] + " got " + params["arguments"]["text"]}]}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        try:
            reply = {"result": answer(message["method"], message.get("params"))}
        except KeyError:
            reply = {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"""
TWO = ["search_tools", "call_tool"]


def server(folder: Path, count: int, *waits_for: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", "-c", SERVER, str(folder), str(count), *waits_for], **more}


@pytest_asyncio.fixture
async def open_(
    messages_api: MessagesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., AgentSession]]:
    (tmp_path / "agent").mkdir()
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    opened: list[AgentSession] = []

    def open_one(servers: dict[str, Any], limit: int | None = None, **options: Any) -> AgentSession:
        settings = {"mcpServers": servers} | ({} if limit is None else {"mcpToolLimit": limit})
        (tmp_path / "agent" / "settings.json").write_text(json.dumps(settings))
        usual = {"model": "anthropic/claude-haiku-4-5", "thinking": "off", "cwd": tmp_path, "no_session": True}
        session = open_session(SessionOptions(**{**usual, "tools": None, "builtin_tools": False, **options}))
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        await session.end()


def names(request: Recorded) -> list[str]:
    return [tool["name"] for tool in request.body.get("tools", ())]


def result(request: Recorded) -> str:
    return request.texts[0]


async def test_many_tools_are_searched_and_called_as_what_they_are(
    open_: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    seen: list[tuple[str, Any]] = []

    def setup(api: Any) -> None:
        @api.on("tool_call")
        def look(event: Any, ctx: Any) -> None:
            described = ctx.describe_call(event.tool_name, event.input)
            seen.append((event.tool_name, described.approval().question if described.has_effects else None))

    session = open_({"many": server(tmp_path, 20)}, extensions=[setup])
    events: list[Any] = []
    session.subscribe(events.append)
    messages_api.add(
        Reply(ToolUse("search_tools", {"query": "look at an invoice"})),
        Reply(ToolUse("call_tool", {"name": "many_invoiceTool1", "arguments": {"text": "A-7"}})),
        Reply(ToolUse("call_tool", {"name": "many_invoiceTool5", "arguments": '{"text": "A-8"}'})),
        Reply("Done."),
    )
    await session.prompt("which invoices?")
    assert [names(request) for request in messages_api.requests] == [TWO] * 4
    assert all(request.body["tools"] == messages_api.requests[0].body["tools"] for request in messages_api.requests)
    assert "- many: 20 tools" in messages_api.requests[0].body["tools"][0]["description"]
    found = result(messages_api.requests[1])
    assert found.startswith("5 of 20 tools:\n\n## many_invoiceTool1\nLooks at invoices, as number 1.\nArguments: {")
    assert '"required":["text"]' in found
    assert result(messages_api.requests[2]) == "invoiceTool1 got A-7"
    assert result(messages_api.requests[3]) == "invoiceTool5 got A-8"
    asked = "Call many_invoiceTool{} of the MCP server many?"
    assert seen == [
        ("search_tools", None),
        ("many_invoiceTool1", asked.format(1)),
        ("many_invoiceTool5", asked.format(5)),
    ]
    starts = [(event.tool_name, event.args) for event in events if isinstance(event, ToolExecutionStart)]
    assert starts[1:] == [("many_invoiceTool1", {"text": "A-7"}), ("many_invoiceTool5", {"text": "A-8"})]
    assert [event.tool_name for event in events if isinstance(event, ToolExecutionEnd)] == [name for name, _ in seen]
    described = session.all_tools["call_tool"].describe_call(  # type: ignore[attr-defined]
        {"name": "many_invoiceTool1", "arguments": {"text": "A-7"}}
    )
    assert (described.name, described.details) == ("many_invoiceTool1", {"text": "A-7"})


async def test_what_is_approved_is_the_call_of_the_tool_itself(
    open_: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_({"many": server(tmp_path, 20)}, approve="writes")
    call = ToolUse("call_tool", {"name": "many_issueTool0", "arguments": {"text": "x"}})
    messages_api.add(Reply(call), "No.")
    await session.prompt("call it")
    assert "needs the user's approval" in result(messages_api.requests[1])
    missing = ToolUse("call_tool", {"name": "many_nothing", "arguments": {}})
    messages_api.add(Reply(missing, ToolUse("call_tool", {"name": "many_issueTool0", "arguments": 3})), "No.")
    await session.prompt("call another")
    first, second = messages_api.requests[3].texts[:2]
    assert first == "Nothing was done. There is no tool named many_nothing to be called so. Find one with search_tools."
    assert second == "Nothing was done. The arguments of many_issueTool0 are an object."


@pytest.mark.parametrize(
    ("count", "limit", "deferred"), [(12, None, False), (13, None, True), (2, 1, True), (20, 20, False)]
)
async def test_up_to_a_number_tools_are_sent_as_they_are(
    count: int,
    limit: int | None,
    open_: Callable[..., AgentSession],
    messages_api: MessagesApi,
    tmp_path: Path,
    *,
    deferred: bool,
) -> None:
    session = open_({"many": server(tmp_path, count)}, limit)
    messages_api.add("Hello.")
    await session.prompt("hello")
    sent = names(messages_api.requests[0])
    assert (sent == TWO) if deferred else (len(sent) == count and not set(TWO) & {*sent})


async def test_a_server_that_is_late_changes_no_tools_and_is_found(
    open_: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_({"few": server(tmp_path, 1), "late": server(tmp_path, 2, "go", timeoutMs=5000)})
    messages_api.add("Hello.")
    await session.prompt("hello")
    (tmp_path / "go").touch()
    messages_api.add(
        Reply(ToolUse("search_tools", {"query": "tools of the late server"})),
        Reply(ToolUse("call_tool", {"name": "late_issueTool0", "arguments": {"text": "late"}})),
        "Done.",
    )
    await session.prompt("go on")
    assert names(messages_api.requests[0]) == ["few_issueTool0", *TWO]
    assert "- late: not connected;" in messages_api.requests[0].body["tools"][1]["description"]
    tools = [request.body["tools"] for request in messages_api.requests]
    assert tools == [tools[0]] * 4
    assert result(messages_api.requests[2]).startswith("2 of 2 tools:\n\n## late_issueTool0\n")
    assert result(messages_api.requests[3]) == "issueTool0 got late"


async def test_servers_of_the_settings_and_of_the_client_are_named_together_from_the_first_request_on(
    open_: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    of_client = {"few": server(tmp_path, 2), "late": server(tmp_path, 3, "go", timeoutMs=5000)}
    session = open_({"many": server(tmp_path, 20)}, mcp_servers=of_client)
    messages_api.add("Hello.")
    await session.prompt("hello")
    (tmp_path / "go").touch()
    messages_api.add(Reply(ToolUse("search_tools", {"query": "tools of the late server"})), "Done.")
    await session.prompt("go on")
    tools = [request.body["tools"] for request in messages_api.requests]
    assert tools == [tools[0]] * 3
    assert sorted(names(messages_api.requests[0])) == sorted([*TWO, "few_issueTool0", "few_invoiceTool1"])
    (described,) = [tool["description"] for tool in tools[0] if tool["name"] == "search_tools"]
    listed = described.partition("Servers:\n")[2].splitlines()
    assert listed == ["- many: 20 tools", "- late: not connected; a search that finds nothing tries again"]


async def test_of_a_long_query_its_beginning_counts(
    open_: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_({"many": server(tmp_path, 100)})
    query = " ".join(["invoices", *(f"filler{number}ing" for number in range(5_000)), "calendar"])
    messages_api.add(Reply(ToolUse("search_tools", {"query": query})), "Done.")
    await session.prompt("which?")
    found = [line for line in result(messages_api.requests[1]).splitlines() if line.startswith("## ")]
    assert found == [f"## many_invoiceTool{number}" for number in (1, 5, 9, 13, 17)]


async def test_an_excluded_tool_is_neither_found_nor_called_and_a_chosen_one_is_sent(
    open_: Callable[..., AgentSession], messages_api: MessagesApi, tmp_path: Path
) -> None:
    session = open_({"many": server(tmp_path, 20)}, exclude_tools=["many_issueTool0"])
    messages_api.add(
        Reply(ToolUse("search_tools", {"query": "many_issueTool0"})),
        Reply(ToolUse("call_tool", {"name": "many_issueTool0", "arguments": {"text": "x"}})),
        "No.",
        "Yes.",
    )
    await session.prompt("call it")
    assert "## many_issueTool0\n" not in result(messages_api.requests[1])
    assert "There is no tool named many_issueTool0" in result(messages_api.requests[2])
    session.set_active_tools(["many_issueTool4"])
    await session.prompt("and now?")
    assert names(messages_api.requests[3]) == ["many_issueTool4"]
