"""Files of older versions, of newer peers and of neighbours: read as they are meant, and left as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from indus_nb.base.errors import SessionFileError
from indus_nb.base.messages import CustomMessage, TextContent, UserMessage
from indus_nb.base.wire import load_object
from indus_nb.core.storage.entries import Entry, entry_of, has_oddities
from indus_nb.core.storage.format import format_line
from indus_nb.core.storage.store import SessionStore

V3_HEADER = '{"type":"session","version":3,"id":"s3","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/w"}\n'

V1 = (
    '{"type":"session","id":"old","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/w","provider":"anthropic"}\n'
    '{"type":"message","timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"one","timestamp":1}}\n'
    "this line is broken\n"
    '{"type":"message","timestamp":"2025-01-01T00:00:02.000Z","message":{"role":"user","content":"two","timestamp":2}}\n'
    '{"type":"message","timestamp":"2025-01-01T00:00:03.000Z",'
    '"message":{"role":"hookMessage","customType":"ci","content":"three","display":true,"timestamp":3,"extra":[1]}}\n'
    '{"type":"compaction","timestamp":"2025-01-01T00:00:04.000Z","summary":"sum","firstKeptEntryIndex":2,'
    '"tokensBefore":7}\n'
    '{"type":"message","timestamp":"2025-01-01T00:00:05.000Z","message":{"role":"user","content":"four","timestamp":4}}\n'
)

V2 = (
    '{"type":"session","version":2,"id":"mid","timestamp":"2025-06-01T00:00:00.000Z","cwd":"/w"}\n'
    '{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"2025-06-01T00:00:01.000Z",'
    '"message":{"role":"hookMessage","customType":"ci","content":"built","display":false,"timestamp":1}}\n'
    '{"type":"novelty","id":"bbbbbbbb","parentId":"aaaaaaaa","timestamp":"2025-06-01T00:00:02.000Z","keep":{"me":[null]}}\n'
)

NEWER_PI = V3_HEADER + (
    '{"type":"message","id":"00000001","parentId":null,"timestamp":"t","message":'
    '{"role":"system","sections":{"base":"You are"},"toolsAdded":[{"name":"read"}],"timestamp":1}}\n'
    '{"type":"message","id":"00000002","parentId":"00000001","timestamp":"t","message":'
    '{"role":"user","content":"secret","timestamp":2}}\n'
    '{"type":"usage","id":"00000003","parentId":"00000002","timestamp":"t","kind":"compaction","usage":{"input":1}}\n'
    '{"type":"message","id":"00000004","parentId":"00000003","timestamp":"t","message":'
    '{"role":"user","content":"long text","timestamp":3}}\n'
    '{"type":"context_edit","id":"00000005","parentId":"00000004","timestamp":"t","targetId":"00000002",'
    '"replacement":null}\n'
    '{"type":"context_edit","id":"00000006","parentId":"00000005","timestamp":"t","targetId":"00000004",'
    '"replacement":"first try"}\n'
    '{"type":"context_edit","id":"00000007","parentId":"00000006","timestamp":"t","targetId":"00000004",'
    '"replacement":[{"type":"text","text":"short"}]}\n'
    '{"type":"compaction","id":"00000008","parentId":null,"timestamp":"t","summary":"all","firstKeptEntryId":"00000008",'
    '"tokensBefore":5,"systemMessage":{"role":"system"},"usage":{"input":2}}\n'
)

OMP = (
    json.dumps({"type": "title", "title": "A title", "pad": ""})[:-2]
    + "x" * 190
    + '"}\n'
    + '{"type":"session","version":3,"id":"omp1","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/w",'
    '"title":"A title","titleSource":"auto","additionalDirectories":["/x"]}\n'
    '{"type":"model_change","id":"00000001","parentId":null,"timestamp":"t","model":"anthropic/claude-x"}\n'
    '{"type":"model_change","id":"00000002","parentId":"00000001","timestamp":"t","model":"openai/mini","role":"smol"}\n'
    '{"type":"service_tier_change","id":"00000003","parentId":"00000002","timestamp":"t","serviceTier":"flex"}\n'
    '{"type":"message","id":"00000004","parentId":"00000003","timestamp":"t","message":{"role":"user","content":'
    '[{"type":"text","text":"look"},{"type":"image","data":"blob:sha256:00ff","mimeType":"image/png"}],"timestamp":1}}\n'
    '{"type":"compaction","id":"00000005","parentId":"00000004","timestamp":"t","summary":"long","shortSummary":"s",'
    '"firstKeptEntryId":"00000004","tokensBefore":5,"tokensAfter":2,"method":"x","fromExtension":true}\n'
    '{"type":"title_change","id":"00000006","parentId":"00000005","timestamp":"t","title":"Other"}\n'
)


def file(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_text(content)
    return path


def test_version_one_becomes_a_tree_and_is_rewritten_once(tmp_path: Path) -> None:
    path = file(tmp_path, V1)
    path.chmod(0o640)
    with SessionStore.open(path) as store:
        one, two, three, compaction, four = store.branch()
        assert [type(item.message).__name__ for item in store.branch()] == [
            "UserMessage",
            "UserMessage",
            "CustomMessage",
            "CompactionSummaryMessage",
            "UserMessage",
        ]
        assert compaction.data["firstKeptEntryId"] == two.id
        assert "firstKeptEntryIndex" not in compaction.data
        assert [type(message).__name__ for message in store.context().messages()] == [
            "CompactionSummaryMessage",
            "UserMessage",
            "CustomMessage",
            "UserMessage",
        ]
        assert one.parent_id is None
        assert four.parent_id == compaction.id
        assert len(store.warnings) == 1
        assert "line 3" in store.warnings[0]
        store.append_message(UserMessage(content="five"))
    rewritten = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o640
    assert rewritten.splitlines()[2] == b"this line is broken"
    assert json.loads(rewritten.splitlines()[0]) == {**json.loads(V1.splitlines()[0]), "version": 3}
    assert json.loads(rewritten.splitlines()[4])["message"]["extra"] == [1]
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    with SessionStore.open(path) as again:
        assert [item.id for item in again.branch()][:5] == [one.id, two.id, three.id, compaction.id, four.id]
    assert path.read_bytes() == rewritten


def test_version_two_keeps_its_tree_and_unknown_entries(tmp_path: Path) -> None:
    path = file(tmp_path, V2)
    with SessionStore.open(path) as store:
        (message,) = store.context().messages()
        assert isinstance(message, CustomMessage)
        assert message.content == "built"
    header, first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert header["version"] == 3
    assert (first["id"], first["message"]["role"]) == ("aaaaaaaa", "custom")
    assert second == json.loads(V2.splitlines()[2])


def test_reading_an_old_file_leaves_it_old(tmp_path: Path) -> None:
    for content, count in ((V1, 4), (V2, 1)):
        path = file(tmp_path, content)
        assert len(SessionStore.read(path).context().messages()) == count
        assert path.read_text() == content


def test_a_newer_version_number_is_read_unchanged(tmp_path: Path) -> None:
    content = V3_HEADER.replace('"version":3', '"version":9') + NEWER_PI.splitlines(keepends=True)[2]
    path = file(tmp_path, content)
    with SessionStore.open(path) as store:
        assert store.header["version"] == 9
        assert len(store.warnings) == 1
        assert "entry 00000002 could not be joined to what came before" in store.warnings[0]
    assert path.read_text() == content


def test_entries_of_newer_peers_have_their_effect_and_survive(tmp_path: Path) -> None:
    path = file(tmp_path, NEWER_PI)
    with SessionStore.open(path) as store:
        assert [message.summary for message in store.context().messages()] == ["all"]
        store.move_leaf("00000007")
        (edited,) = store.context().messages()
        assert edited.content == [TextContent(text="short")]
        store.move_leaf("00000004")
        assert [message.content for message in store.context().messages()] == ["secret", "long text"]
        assert store.warnings == []
        store.append_message(UserMessage(content="on"))
    assert path.read_text().startswith(NEWER_PI)


def test_a_padded_title_line_and_entries_of_neighbours_survive(tmp_path: Path) -> None:
    assert len(OMP.splitlines()[0]) > 200
    path = file(tmp_path, OMP)
    with SessionStore.open(path) as store:
        assert store.session_id == "omp1"
        context = store.context()
        assert context.model == ("anthropic", "claude-x")
        summary, kept = context.messages()
        assert summary.summary == "long"
        assert kept.content[0].text == "look"
        assert isinstance(kept.content[1], TextContent), "an image that is not there cannot be sent"
        assert store.warnings == []
        store.append_message(UserMessage(content="on"))
    assert path.read_text().startswith(OMP)
    with SessionStore.open(path) as again:
        assert again.context().messages()[-1].content == "on"


def test_header_and_entries_written_twice_count_once(tmp_path: Path) -> None:
    message = (
        '{"type":"message","id":"00000001","parentId":null,"timestamp":"t","message":{"role":"user","content":"hi"}}\n'
    )
    more = message.replace("00000001", "00000002").replace('"parentId":null', '"parentId":"00000001"')
    path = file(tmp_path, V3_HEADER + message + V3_HEADER + message + more)
    with SessionStore.open(path) as store:
        assert [item.id for item in store.entries] == ["00000001", "00000002"]
        assert [message.content for message in store.context().messages()] == ["hi", "hi"]
        assert store.warnings == []


def test_unreadable_lines_are_reported_skipped_and_kept(tmp_path: Path) -> None:
    content = V3_HEADER.encode() + (
        b'{"type":"message","id":"00000001","parentId":null,"timestamp":"t","message":{"role":"user","content":"a"}}\r\n'
        b"\n"
        b"[1, 2]\n"
        b'{"type":"custom"}\n'
        b"\xff\xfe\n" + b"[" * 100_000 + b"\n"
        b'{"type":"message","id":"00000002","parentId":"00000001","timestamp":"t","message":'
        b'{"role":"user","content":"half \\ud83d"}}\n'
    )
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with SessionStore.open(path) as store:
        assert [message.content for message in store.context().messages()] == ["a", "half �"]
        assert len(store.warnings) == 1
        assert "lines 4, 5, 6, 7 could not be read" in store.warnings[0]
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\x00" * 4096,
        b'{"type":"session"}\n',
        b'{"type":"session","id":5}\n',
        b'{"type":"message","id":"x"}\n' + V3_HEADER.encode(),
        b'{"type":"title"}\n{"type":"title"}\n' + V3_HEADER.encode(),
        V3_HEADER.encode()[:-20],
        b"print('hello')\n",
        b"not a session" * 100_000,
    ],
    ids=[
        "empty",
        "blank line",
        "zeroes",
        "no id",
        "id of another kind",
        "header too late",
        "two titles",
        "torn header",
        "program",
        "one long line",
    ],
)
def test_a_file_that_is_no_session_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    for use in (SessionStore.open, SessionStore.read):
        with pytest.raises(SessionFileError, match="no session file"):
            use(path)
    assert path.read_bytes() == content
    assert [item.name for item in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_line_that_can_be_written_can_be_read() -> None:
    nested: dict = {}
    for _ in range(230):
        nested = {"x": nested}
    for data in ({"deep": nested}, {"half": "\udc00 and \ud83d"}, {"big": 10**400}, {"": "\n\r\u2028\x00"}):
        line = format_line(data)
        assert line.count(b"\n") == 1
        assert format_line(load_object(line)) == line


USUAL = {"type": "message", "id": "00000001", "parentId": None, "timestamp": "2026-01-02T03:04:05.678Z"}
ANSWER = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
        {"type": "text", "text": "gr\u00f6\u00dfer \u2028 NaN"},
        {"type": "toolCall", "id": "c", "name": "ls", "arguments": {"deep": [1, 2.5, None, {"x": "\u20ac"}]}},
    ],
    "api": "a",
    "provider": "p",
    "model": "m",
    "usage": {"input": 1, "output": 2, "cost": {"total": 0.5}},
    "stopReason": "toolUse",
    "timestamp": 2,
    "unheardOf": {"kept": True},
}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hi", "timestamp": 1},
        {"role": "user", "content": [{"type": "text", "text": "a", "more": 1}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": [], "attachments": "nonsense"},
        {"role": "user", "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
        {"role": "user", "content": [{"type": "image", "data": "blob:x", "mimeType": "image/png"}]},
        ANSWER,
        {"role": "toolResult", "toolCallId": "c", "toolName": "ls", "content": [{"type": "text", "text": "x"}]},
        {"role": "bashExecution", "command": "ls", "output": "x"},
        {"role": "custom", "customType": "c", "content": "x", "details": [1]},
        {"role": "user", "content": None},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": ["text"]},
        {"role": "system", "content": "x"},
        {"role": "unheardOf", "content": "x"},
        {"role": "assistant", "content": "x"},
        {"content": "x"},
    ],
)
def test_an_entry_is_the_same_however_its_line_is_written(message: dict) -> None:
    data = {**USUAL, "message": message}
    usual = cast("Entry", entry_of(format_line(data)[:-1]))
    patient = cast("Entry", entry_of(json.dumps(data).encode()))
    plain = Entry(data)
    for entry in (usual, patient):
        assert (entry.id, entry.parent_id, entry.type) == ("00000001", None, "message")
        assert entry.timestamp == USUAL["timestamp"]
        assert entry.data == data
        assert json.loads(entry.to_json()) == data
        assert entry.speaks == plain.speaks
        written, other = entry.message_json(), plain.message_json()
        assert written == other or json.loads(written or b"0") == json.loads(other or b"1") == message
        assert _message_or_error(entry) == _message_or_error(plain)


def _message_or_error(entry: Entry) -> object:
    try:
        message = entry.message
    except ValueError:
        return ValueError
    return message and (type(message), {**message.to_wire(), "timestamp": 0})


@pytest.mark.parametrize(
    "body",
    [
        b'{"role":"user","content":"a"},"id":"other"',
        b'{"role":"user","content":"a"},"parentId":"other"',
        b'{"role":"user","content":"a"},"message":{"role":"user","content":"b"}',
    ],
    ids=["id", "parent", "message"],
)
def test_of_a_key_that_comes_twice_the_last_one_counts(body: bytes) -> None:
    line = format_line({**USUAL, "message": 0})[:-3] + body + b"}"
    entry = cast("Entry", entry_of(line))
    assert entry.data == load_object(line)
    assert (entry.id, entry.parent_id) == (entry.data["id"], entry.data["parentId"])
    assert json.loads(entry.message_json() or b"") == entry.data["message"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"role":"user","content":"a","x":NaN}',
        b'{"role":"user","content":"a","x":-Infinity}',
        b'{"role":"user","content":"\xff"}',
        b'{"role":"user","content":"a"} x',
        b'{"role":"user","content":"a"',
        b'{"role":"user","content":"tab\there"}',
        b'{"role":"user","content":01}',
    ],
)
def test_a_line_that_begins_as_usual_and_is_no_json_is_no_entry(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        entry_of(format_line({**USUAL, "message": 0})[:-3] + body + b"}", odd=has_oddities(body))


def test_a_message_is_sent_on_one_line_whatever_stands_between_its_parts(tmp_path: Path) -> None:
    line = format_line({**USUAL, "message": {"role": "user", "content": "a"}})
    path = tmp_path / "a.jsonl"
    path.write_bytes(V3_HEADER.encode() + line.replace(b',"content"', b',\r"content"'))
    [entry] = SessionStore.read(path).entries
    assert entry.message_json() == b'{"role":"user","content":"a"}'
    assert b"\r" not in entry.to_json()
