"""Files that are sent along with a message: how they reach the model, the session file and a reader."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from messages_api import MessagesApi, Reply
from PIL import Image
from rpc_process import RpcProcess

from indus_nb.base.messages import Attachment, UserMessage, for_model, going_along, parse_message
from indus_nb.core.storage.format import format_line


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def png() -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(buffer, "PNG")
    return encoded(buffer.getvalue())


PHOTO: dict[str, Any] = {
    "id": "img1",
    "type": "image",
    "fileName": "photo.png",
    "mimeType": "image/png",
    "size": 70,
    "content": png(),
    "extractedText": None,
    "preview": None,
}
REPORT: dict[str, Any] = {
    "id": "doc1",
    "type": "document",
    "fileName": "report\n.pdf",
    "mimeType": "application/pdf",
    "size": 4,
    "content": encoded(b"%PDF"),
    "extractedText": "Sales fell.",
    "preview": png(),
}
NOTES: dict[str, Any] = {"fileName": "notes.txt", "mimeType": "text/plain", "content": encoded("größer".encode())}


def shown(*attachments: dict[str, Any]) -> list[Any]:
    message = {"role": "user", "content": "look", "attachments": list(attachments)}
    [sent] = for_model([parse_message(message)])
    return [block.text if block.type == "text" else block.mime_type for block in sent.content]


def test_a_model_is_shown_images_as_images_and_the_text_of_documents():
    assert shown(PHOTO, REPORT, NOTES) == [
        "look",
        "image/png",
        "[Document: report .pdf]\nSales fell.",
        "[Document: notes.txt]\ngrößer",
    ]


@pytest.mark.parametrize(
    ("attachment", "reason"),
    [
        ({**REPORT, "extractedText": None, "content": encoded(b"%PDF\x00\xff")}, "send its text as extractedText"),
        ({**REPORT, "extractedText": None, "content": ""}, "content and extractedText are empty"),
        ({**PHOTO, "content": "no base64!"}, "data must be base64"),
        ({**PHOTO, "mimeType": "image/tiff"}, "mimeType must be one of"),
    ],
)
def test_a_model_is_told_of_an_attachment_that_it_cannot_be_shown(attachment: dict[str, Any], reason: str):
    [_, told] = shown(attachment)
    assert told.startswith(f"[{'Image' if attachment['type'] == 'image' else 'Document'}: ")
    assert reason in told


@pytest.mark.parametrize("attachments", [[], None, "odd", [1], [{"type": "image"}]])
def test_what_was_said_is_read_whatever_stands_among_its_attachments(attachments: object):
    message = parse_message({"role": "user", "content": "look", "attachments": attachments})
    assert [block.content for block in for_model([message])] == ["look"]


def test_an_attachment_is_written_as_it_was_read():
    message = {"role": "user", "content": "look", "attachments": [PHOTO, {**REPORT, "page": 3}], "timestamp": 1}
    assert json.loads(format_line(parse_message(message))) == message
    assert "attachments" not in UserMessage(content="look").to_wire()
    assert Attachment(file_name="a").to_wire()["extractedText"] is None


def test_attachments_of_a_prompt_reach_model_file_and_reader(messages_api: MessagesApi, tmp_path: Path):
    messages_api.add(Reply("A red square."), Reply("Still red."))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    arguments = ["--model", "claude-haiku-4-5", "--session-dir", "sessions"]
    with RpcProcess(*arguments, home=tmp_path, more=more) as process:
        assert process.ask("prompt", message="what is it?", attachments=[PHOTO, REPORT])["success"]
        process.wait("agent_settled")
        said = next(frame["message"] for frame in process.frames if frame["type"] == "message_end")
        assert said["attachments"] == [PHOTO, REPORT]
        assert process.ask("get_messages")["data"]["messages"][0] == said
        path = process.ask("get_state")["data"]["sessionFile"]
        refused = process.ask("prompt", message="and this?", attachments=[{**PHOTO, "content": "?"}])
        assert not refused["success"]
        assert "`attachments`" in refused["error"]
    stored = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert next(entry["message"] for entry in stored if entry["type"] == "message") == said
    with RpcProcess(*arguments, "--continue", home=tmp_path, more=more) as process:
        assert process.ask("get_messages")["data"]["messages"][0] == said
        process.ask("prompt", message="", attachments=[NOTES])
        process.wait("agent_settled")
        page = Path(process.ask("export_html")["data"]["path"]).read_text()
    assert "photo.png" in page
    assert "Sales fell." in page
    first = messages_api.requests[-1].body["messages"][0]["content"]
    assert [block["type"] for block in first] == ["text", "image", "text"]
    assert first[1]["source"]["data"] == PHOTO["content"]
    assert "Sales fell." in first[2]["text"]
    last = messages_api.requests[-1].body["messages"][-1]["content"]
    assert last[-1]["text"] == "[Document: notes.txt]\ngrößer"


def test_what_goes_along_with_the_words_is_shown_to_the_model_as_it_stands():
    assert shown(going_along("the plan", "Go step by step.").to_wire()) == ["look", "Go step by step."]
