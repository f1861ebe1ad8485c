"""A conversation that changes provider on its way, as a user's files set the providers up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from messages_api import Reply, Thinking, ToolUse
from openai_api import OpenAIApi

from indus_nb.start import SessionOptions, open_session


@pytest.fixture
def server():
    with OpenAIApi() as server:
        yield server


async def test_a_conversation_goes_to_a_local_server_and_back_with_its_tools_and_without_foreign_thoughts(
    server: OpenAIApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = tmp_path / "agent"
    agent.mkdir()
    local = {"baseUrl": f"{server.url}/v1", "api": "openai-completions", "models": [{"id": "small", "reasoning": True}]}
    (agent / "models.json").write_text(f'{{"providers": {{"local": {json.dumps(local)}, }} }} // a comment')
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(agent))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    options = SessionOptions(cwd=tmp_path, model="anthropic/claude-sonnet-4-5", thinking="high", tools=["bash"])
    with open_session(options) as session:
        assert session.problems == []
        for turn, wanted in enumerate(("anthropic/claude-sonnet-4-5", "local/small", "anthropic/claude-sonnet-4-5")):
            await session.set_model(session.registry.find(wanted))
            call = ToolUse("bash", {"command": f"echo out {turn}"})
            server.add(Reply(Thinking(f"thought {turn}"), call), Reply(f"answer {turn}"))
            await session.prompt(f"question {turn}")
            assert session.last_text == f"answer {turn}"
    paths = [request.path for request in server.requests]
    assert paths == ["/v1/messages"] * 2 + ["/v1/chat/completions"] * 2 + ["/v1/messages"] * 2
    there, back = (json.dumps(server.requests[number].body) for number in (3, 5))
    for body, turns in ((there, 2), (back, 3)):
        for turn in range(turns):
            assert f"question {turn}" in body
            assert f"out {turn}" in body
    assert "thought 0" not in there
    assert "thought 1" in there
    assert "thought 0" in back
    blocks = [block for message in server.requests[5].body["messages"] for block in message["content"]]
    assert [block["thinking"] for block in blocks if block["type"] == "thinking"] == ["thought 0", "thought 2"]
    assert {"type": "text", "text": "thought 1"} in blocks  # another model's is told, but not as this one's
    assert "sk-ant-test" not in str(server.requests[3].headers)
    assert "sk-ant-test" not in session.store.path.read_text()
