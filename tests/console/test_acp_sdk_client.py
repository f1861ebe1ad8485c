"""ACP mode with the client half of the protocol's own Python library at the other end."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse


class Client(acp.Client):
    """Shows nothing, and answers questions as told."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Keep what is shown."""
        self.updates.append(update)

    async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> Any:
        """Allow the call once."""
        self.asked.append(tool_call)
        once = next(option for option in options if option.kind == "allow_once")
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=once.option_id)
        )

    def text(self) -> str:
        """What the agent said."""
        said = [update for update in self.updates if isinstance(update, schema.AgentMessageChunk)]
        return "".join(chunk.content.text for chunk in said if isinstance(chunk.content, schema.TextContentBlock))


@pytest.fixture
def environment(messages_api: MessagesApi, tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("INDUS", "ANTHROPIC"))}
    return {**usual, "HOME": str(home), "ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}


async def test_a_call_is_allowed_a_run_cancelled_and_the_session_loaded(
    messages_api: MessagesApi, tmp_path: Path, environment: dict[str, str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    program = (sys.executable, "-m", "indus_nb", "--mode", "acp", "--model", "claude-haiku-4-5", "--thinking", "off")
    client = Client()
    async with acp.spawn_agent_process(client, *program, cwd=project, env=environment) as (agent, _):
        about = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert (about.protocol_version, about.agent_capabilities.load_session) == (1, True)
        session = await agent.new_session(cwd=str(project), mcp_servers=[])
        messages_api.add(Reply(ToolUse("bash", {"command": "echo ran > here"})), Reply("It ran."))
        answered = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("run it")])
        assert answered.stop_reason == "end_turn"
        assert (project / "here").read_text() == "ran\n"
        assert len(client.asked) == 1
        gate = Gate()
        messages_api.add(Reply(Text("Half ", gate, "done.")))
        prompt = agent.prompt(session_id=session.session_id, prompt=[acp.text_block("talk")])
        running = asyncio.ensure_future(prompt)
        assert await asyncio.to_thread(gate.reached.wait, 240)
        await agent.cancel(session_id=session.session_id)
        assert (await running).stop_reason == "cancelled"
        gate.open()
    later = Client()
    async with acp.spawn_agent_process(later, *program, cwd=project, env=environment) as (agent, _):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        await agent.load_session(cwd=str(project), session_id=session.session_id, mcp_servers=[])
        assert "It ran." in later.text()
        messages_api.add(Reply("Still here."))
        answered = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("and now?")])
        assert answered.stop_reason == "end_turn"
        assert later.text().endswith("Still here.")
