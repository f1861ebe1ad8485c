"""Frames between a host and the agent: impossible values are refused, and a bad one costs no more than itself."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rpc_process import RpcProcess

from indus_nb.base.errors import CommandFailedError
from indus_nb.base.images import image_type_of
from indus_nb.base.messages import Attachment, ImageContent, check_image
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.front.console.client import RpcClient
from indus_nb.front.notebook.view import blocks
from indus_nb.front.verbs import VERBS
from indus_nb.front.verbs.session_verbs import GetMessages
from indus_nb.render import markup

PATHS = {
    "a null byte": "a\0b",
    "too many characters": "x" * 5_000,
    "too many characters of several bytes": "é" * 3_000,
    "a name that is too long": "/tmp/" + "y" * 300,
    "half a character": "\ud800x",
    "nothing": "",
    "blanks": "  ",
    "a user that is not there": "~nobody-of-that-name/x",
    "memory": "/proc/self/mem",
    "below a device": "/dev/null/x.html",
    "a directory": "/",
    "a directory that is not there": "/proc/nonexistent/x.html",
    "control characters": "a\x1b[2J\r\n",
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcProcess]:
    home = tmp_path_factory.mktemp("home")
    with RpcProcess("--provider", "offline", home=home) as agent:
        agent.ask("prompt", message="hello")
        agent.wait("agent_settled")
        yield agent


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("command", ["switch_session", "export_html", "new_session"])
def test_an_impossible_path_is_refused_and_the_reason_told(agent: RpcProcess, command: str, path: str) -> None:
    field = {"switch_session": "sessionPath", "export_html": "outputPath", "new_session": "parentSession"}[command]
    answer = agent.ask(command, **{field: PATHS[path]})
    if not answer["success"]:
        assert "Internal error" not in answer["error"]
        assert "\0" not in answer["error"]
        assert len(answer["error"]) < 10_000
    if path in ("a null byte", "too many characters", "too many characters of several bytes"):
        assert not answer["success"]
        assert field in answer["error"]
    assert agent.ask("get_state")["success"]


@pytest.mark.parametrize(
    ("command", "field"),
    [
        ("set_session_name", "name"),
        ("set_label", "label"),
        ("set_label", "entryId"),
        ("set_model", "modelId"),
        ("set_model", "provider"),
        ("fork", "entryId"),
        ("get_entries", "since"),
        ("navigate_tree", "targetId"),
        ("navigate_tree", "label"),
        ("get_command_completions", "name"),
    ],
)
def test_a_name_or_id_without_end_is_refused(command: str, field: str) -> None:
    kind = VERBS[command]
    others = {key: "x" for key in ("name", "entryId", "modelId", "provider", "targetId") if key != field}
    for length, fits in ((1_000, True), (1_001, False), (50_000_000, False)):
        frame = {**others, field: "n" * length}
        if fits:
            kind.from_wire(frame)
        else:
            with pytest.raises(InvalidFieldsError, match="at most 1000 characters"):
                kind.from_wire(frame)


BAD = [
    b"a print of an extension",
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"{",
    b"{}",
    b'{"type": 5}',
    b'{"type": ["response"]}',
    b'{"type": "response"}',
    b'{"type": "response", "id": ["client-1"]}',
    b'{"type": "response", "id": "client-99", "success": true}',
    b'{"type": "host_tool_call"}',
    b'{"type": "host_tool_call", "id": {}}',
    b'{"type": "host_tool_call", "id": "t", "toolName": ["x"], "arguments": 5}',
    b'{"type": "host_tool_cancel"}',
    b'{"type": "host_tool_cancel", "targetId": []}',
    b'{"type": "extension_ui_request"}',
    b'{"type": "extension_ui_request", "id": null, "method": 7}',
    b'{"type": "message_end"}',
    b'{"type": "message_end", "message": null}',
    b'{"type": "message_update", "message": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"type": "event", "x": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001,
    b"\xff\xfe{}",
    b'{"type": "event", "n": NaN}',
    b"\x00" * 100,
]
SERVER = """
import json, sys
bad = [bytes.fromhex(line) for line in open(sys.argv[1]).read().split("\\n")]
out = sys.stdout.buffer
out.write(b'{"type": "session_start"}\\n')
for line in sys.stdin:
    command = json.loads(line)
    for each in bad:
        out.write(each + b"\\n")
    head = {"id": command["id"], "type": "response", "command": command["type"], "success": True}
    if command["type"] == "get_messages":
        out.write(b'{"data": ' + b"[" * 200000 + b"]" * 200000 + b"," + json.dumps(head)[1:].encode() + b"\\n")
    else:
        out.write(json.dumps({**head, "data": {"fine": True}}).encode() + b"\\n")
    if command["type"] == "prompt":
        answer = {"role": "assistant", "content": [{"type": "text", "text": "well"}], "stopReason": "stop"}
        ends = [{"type": "message_end", "message": answer}, {"type": "agent_settled"}]
        for each in (*bad, *(json.dumps(end).encode() for end in ends)):
            out.write(each + b"\\n")
    out.flush()
"""


async def test_no_bad_frame_ends_a_client(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("\n".join(line.hex() for line in BAD))

    async def on_dialog(_frame: dict[str, Any]) -> dict[str, Any]:
        return {"cancelled": True}

    program = [sys.executable, "-c", SERVER, str(tmp_path / "bad")]
    async with RpcClient(program=program, on_dialog=on_dialog) as client:
        # The arguments of the mode follow the program's own.
        assert await asyncio.wait_for(client.get_state(), 120) == {"fine": True}
        with pytest.raises(CommandFailedError, match="the response cannot be read"):
            await asyncio.wait_for(client.ask(GetMessages()), 120)
        assert await asyncio.wait_for(client.prompt_and_wait("hi"), 120) == "well"
        assert await asyncio.wait_for(client.get_state(), 120) == {"fine": True}


@pytest.mark.parametrize(
    "data", ["é" * 20, "\ud800", "=", "a", "A" * 5, "data:image/png;base64,AAAA", "\0", "\u2028" * 16]
)
def test_data_of_an_image_that_is_none_is_refused_and_shown_as_nothing(data: str) -> None:
    image = ImageContent(data=data, mime_type="image/png")
    with pytest.raises(ValueError, match="data "):
        check_image(image)
    assert image_type_of(image) is None
    assert markup.picture("image/png", data) == ""
    assert not blocks.can_show(image)
    with pytest.raises(ValueError, match=r"content|no text"):
        Attachment(type="document", file_name="x", mime_type="text/plain", content=data, size=1).block()


def test_a_session_with_such_an_image_is_exported(tmp_path: Path) -> None:
    head = {"timestamp": "2026-01-01T00:00:00Z"}
    content = [{"type": "image", "data": "é" * 20, "mimeType": "image/png"}, {"type": "text", "text": "look"}]
    lines = [
        {"type": "session", "version": 3, "id": "s", "cwd": str(tmp_path), **head},
        {"type": "message", "id": "e", "parentId": None, "message": {"role": "user", "content": content}, **head},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with RpcProcess("--provider", "offline", "--session", str(path), home=tmp_path) as agent:
        answer = agent.ask("export_html", outputPath=str(tmp_path / "page.html"))
        assert answer["success"], answer["error"]
    assert "look" in (tmp_path / "page.html").read_text()
