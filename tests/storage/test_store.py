"""A session's entries: appending, branches, the context that they amount to, forks."""

from __future__ import annotations

import cProfile
import json
import os
import re
import stat
import time
from pathlib import Path

import pytest

from indus_nb.base.errors import SessionFileError, SessionNotFoundError, UsageError
from indus_nb.base.messages import (
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    TextContent,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from indus_nb.core.storage import SessionStore, find_session, list_sessions, most_recent_session, session_directory


def user(text: str) -> UserMessage:
    return UserMessage(content=text, timestamp=1_700_000_000_000)


def answer(text: str, **fields: object) -> AssistantMessage:
    return AssistantMessage.from_wire(
        {
            "content": [{"type": "text", "text": text}],
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": "claude-x",
            "timestamp": 1_700_000_001_000,
            **fields,
        }
    )


def lines_of(path: Path | None) -> list[dict]:
    assert path is not None
    raw = path.read_bytes()
    assert raw.endswith(b"\n")
    return [json.loads(line) for line in raw.splitlines()]


def texts(store: SessionStore) -> list[str]:
    return [
        message.summary
        if isinstance(message, BranchSummaryMessage | CompactionSummaryMessage)
        else text_of(message.content)  # type: ignore[arg-type]
        for message in store.context().messages()
    ]


def write(path: Path, *objects: object) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in objects))
    return path


HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/somewhere"}


def entry(entry_id: str, parent_id: str | None, **fields: object) -> dict:
    return {"id": entry_id, "parentId": parent_id, "timestamp": "2026-01-02T03:04:06.000Z", **fields}


def said(entry_id: str, parent_id: str | None, text: str) -> dict:
    message = {"role": "user", "content": text, "timestamp": 1}
    return entry(entry_id, parent_id, type="message", message=message)


# Making and writing


def test_an_abandoned_session_leaves_no_file(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path / "sessions") as store:
        store.append("model_change", provider="anthropic", modelId="claude-x")
        store.append("thinking_level_change", thinkingLevel="high")
    assert list(tmp_path.iterdir()) == []


def test_header_and_pending_entries_are_on_disk_with_the_first_message(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path / "a" / "b", parent_session="/old.jsonl") as store:
        model = store.append("model_change", provider="anthropic", modelId="claude-x")
        message = store.append_message(user("größer\u2028"))
        header, first, second = lines_of(store.path)
        assert store.path is not None
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert header == {
        "type": "session",
        "version": 3,
        "id": store.session_id,
        "timestamp": header["timestamp"],
        "cwd": str(tmp_path),
        "parentSession": "/old.jsonl",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", header["timestamp"])
    assert store.path.name == re.sub("[:.]", "-", header["timestamp"]) + f"_{store.session_id}.jsonl"
    assert first == {
        "type": "model_change",
        "id": model,
        "parentId": None,
        "timestamp": first["timestamp"],
        "provider": "anthropic",
        "modelId": "claude-x",
    }
    assert second["message"] == {"role": "user", "content": "größer\u2028", "timestamp": 1_700_000_000_000}
    assert (second["id"], second["parentId"]) == (message, model)
    assert re.fullmatch("[0-9a-f]{8}", message)


def test_each_append_adds_one_line_and_changes_none_before(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as store:
        store.append_message(user("one"))
        assert store.path is not None
        before = store.path.read_bytes()
        store.append("session_info", name=" tidy up ")
        after = store.path.read_bytes()
        assert after.startswith(before)
        assert after[len(before) :].count(b"\n") == 1
        assert store.name == "tidy up"
        store.append("session_info", name="")
        assert store.name is None


def test_session_ids_are_time_ordered_uuids_of_version_seven(tmp_path: Path) -> None:
    ids = []
    for _ in range(3):
        now = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == now:
            pass
        ids.append(SessionStore.in_memory(tmp_path).session_id)
    assert ids == sorted(ids)
    for session_id in ids:
        assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", session_id)
    assert abs(int(ids[0].replace("-", "")[:12], 16) - time.time() * 1000) < 60_000


def test_a_chosen_session_id_must_be_free_and_fit_a_file_name(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path, session_id="nightly.1") as store:
        store.append_message(user("hi"))
    assert find_session("nightly.1", tmp_path) == store.path
    for bad in ("nightly.1", "../x", "", "a/b", "x" * 200):
        with pytest.raises(UsageError, match="session"):
            SessionStore.create(tmp_path, tmp_path, session_id=bad)


def test_a_session_in_memory_writes_nothing(tmp_path: Path) -> None:
    store = SessionStore.in_memory(tmp_path)
    store.append_message(user("hi"))
    store.save()
    store.close()
    assert store.path is None
    assert texts(store) == ["hi"]
    assert list(tmp_path.iterdir()) == []


def test_a_stored_session_comes_back_whole(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as store:
        store.append("model_change", provider="anthropic", model_id="claude-x")
        store.append("thinking_level_change", thinking_level="low")
        messages = [
            user("list the files"),
            answer("", content=[{"type": "toolCall", "id": "t1", "name": "ls", "arguments": {"path": None}}]),
            ToolResultMessage(tool_call_id="t1", tool_name="ls", content=[TextContent(text="a\nb")], details={"n": 2}),
            answer("two files"),
        ]
        for message in messages:
            store.append_message(message)
    assert store.path is not None
    with SessionStore.open(store.path) as again:
        context = again.context()
        assert context.messages() == messages
        assert context.model == ("anthropic", "claude-x")
        assert context.thinking_level == "low"
        assert again.leaf_id == store.leaf_id
        assert again.cwd == tmp_path
        assert again.warnings == []


def test_what_is_in_memory_is_what_a_reader_of_the_file_gets(tmp_path: Path) -> None:
    payload = {"rows": [1, None], "nested": {"x": 1}}
    with SessionStore.create(tmp_path, tmp_path) as store:
        store.append_message(user("cut \ud83d emoji"))
        store.append("custom", custom_type="notes", data=payload)
        payload["rows"].append(99)
        assert store.path is not None
        again = SessionStore.read(store.path)
    assert [item.data for item in again.entries] == [item.data for item in store.entries]
    assert again.entries[1].data["data"] == {"rows": [1, None], "nested": {"x": 1}}
    assert texts(again) == ["cut � emoji"]


def test_an_entry_cannot_override_its_own_place_in_the_tree(tmp_path: Path) -> None:
    store = SessionStore.in_memory(tmp_path)
    first = store.append_message(user("one"))
    second = store.append("custom", id=first, parent_id="nowhere", data=1)
    assert second != first
    assert [item.id for item in store.branch()] == [first, second]


def test_summaries_are_refused_as_messages(tmp_path: Path) -> None:
    store = SessionStore.in_memory(tmp_path)
    with pytest.raises(ValueError, match="compaction"):
        store.append_message(CompactionSummaryMessage(summary="x", tokens_before=1))
    assert list(store.entries) == []


def test_a_closed_session_can_be_read_but_not_written(tmp_path: Path) -> None:
    store = SessionStore.create(tmp_path, tmp_path)
    store.append_message(user("hi"))
    store.close()
    store.close()
    assert texts(store) == ["hi"]
    with pytest.raises(SessionFileError, match="closed"):
        store.append_message(user("more"))
    assert texts(store) == ["hi"]


def test_reading_takes_no_lock_and_refuses_to_write(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as writer:
        writer.append_message(user("hi"))
        assert writer.path is not None
        reader = SessionStore.read(writer.path)
        writer.append_message(user("more"))
        with pytest.raises(SessionFileError, match="reading only"):
            reader.append("custom", customType="x")
        assert texts(reader) == ["hi"]
        assert texts(SessionStore.read(writer.path)) == ["hi", "more"]


def test_the_work_of_opening_grows_with_the_number_of_entries_and_no_faster(tmp_path: Path) -> None:
    def work_for(count: int) -> int:
        objects = [said(f"{n:08x}", f"{n - 1:08x}" if n else None, "word " * 50) for n in range(count)]
        path = write(tmp_path / f"{count}.jsonl", HEADER, *objects)
        profile = cProfile.Profile()
        with profile, SessionStore.open(path) as store:
            assert len(store.branch()) == count
            assert len(store.tree()) == 1
        return sum(entry.callcount for entry in profile.getstats())

    work_for(10)
    assert work_for(4_000) < 4.5 * work_for(1_000)


# Branches and context


def test_a_moved_leaf_begins_a_branch(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as store:
        store.append_message(user("question"))
        fork_point = store.append_message(answer("answer"))
        store.append_message(user("left"))
        store.move_leaf(fork_point)
        store.append_message(user("right"))
        assert texts(store) == ["question", "answer", "right"]
        store.move_leaf(None)
        assert store.context().messages() == []
        assert store.context().model is None
        root = store.append_message(user("another start"))
        assert store.entry(root).parent_id is None
        with pytest.raises(UsageError, match="cafebabe"):
            store.move_leaf("cafebabe")
        assert store.leaf_id == root
    assert store.path is not None
    again = SessionStore.read(store.path)
    assert texts(again) == ["another start"]
    assert len(again.tree()) == 2
    assert [child.entry.message.content for child in again.tree()[0].children[0].children] == ["left", "right"]
    assert again.branch(None) == []


def test_after_a_compaction_the_summary_stands_for_what_was_not_kept(tmp_path: Path) -> None:
    store = SessionStore.in_memory(tmp_path)
    store.append_message(user("old"))
    kept = store.append_message(user("kept"))
    store.append("compaction", summary="first summary", first_kept_entry_id=kept, tokens_before=9)
    between = store.append_message(user("between"))
    store.append("compaction", summary="second summary", firstKeptEntryId=kept, tokensBefore=99)
    store.append_message(user("new"))
    assert texts(store) == ["second summary", "kept", "between", "new"]
    summary = store.context().messages()[0]
    assert isinstance(summary, CompactionSummaryMessage)
    assert summary.tokens_before == 99
    store.move_leaf(between)
    assert texts(store) == ["first summary", "kept", "between"]


def test_a_compaction_that_keeps_nothing_keeps_nothing(tmp_path: Path) -> None:
    for kept in ("12345678", None):
        store = SessionStore.in_memory(tmp_path)
        store.append_message(user("old"))
        compaction = store.append("compaction", summary="all of it", firstKeptEntryId=kept, tokensBefore=9)
        store.append_message(user("new"))
        assert texts(store) == ["all of it", "new"]
        assert store.entry(compaction).type == "compaction"


def test_summaries_of_branches_and_extensions_messages_are_part_of_the_context(tmp_path: Path) -> None:
    store = SessionStore.in_memory(tmp_path)
    store.append("branch_summary", summary="went there", from_id="root")
    store.append("branch_summary", summary="", from_id="root")
    store.append_message(CustomMessage(custom_type="ci", content="build failed", display=False, details={"n": 1}))
    store.append("custom", custom_type="state", data={"hidden": True})
    store.append("label", target_id=store.entries[0].id, label="here")
    assert texts(store) == ["went there", "build failed"]
    assert store.entries[2].type == "custom_message"
    assert store.entries[2].data["details"] == {"n": 1}
    assert store.labels[store.entries[0].id][0] == "here"
    store.append("label", target_id=store.entries[0].id, label="")
    assert store.labels == {}


def test_the_last_model_counts_whether_it_was_chosen_or_answered(tmp_path: Path) -> None:
    store = SessionStore.in_memory(tmp_path)
    store.append("model_change", provider="openai", modelId="gpt-x")
    assert store.context().model == ("openai", "gpt-x")
    store.append_message(answer("hi"))
    assert store.context().model == ("anthropic", "claude-x")
    assert store.context().thinking_level is None


def test_messages_of_unknown_kinds_are_left_out_with_one_warning_and_survive(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        HEADER,
        said("00000001", None, "hi"),
        entry("00000002", "00000001", type="message", message={"role": "hologram", "content": "?"}),
        entry("00000003", "00000002", type="message", message={"role": "assistant", "content": 5}),
        entry("00000004", "00000003", type="message"),
        entry("00000005", "00000004", type="compaction_of_the_future", secret={"deep": [1]}),
        entry("00000006", "00000005", type="custom_message", content=7),
    )
    before = path.read_bytes()
    with SessionStore.open(path) as store:
        assert texts(store) == ["hi"]
        store.context()
        assert len(store.warnings) == 1
        assert all(f"0000000{n}" in store.warnings[0] for n in (2, 3, 4, 6))
        store.append_message(user("more"))
        assert texts(store) == ["hi", "more"]
    assert path.read_bytes().startswith(before)


def test_a_file_with_cycles_and_missing_parents_opens(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        HEADER,
        said("00000001", "00000003", "one"),
        said("00000002", "00000001", "two"),
        said("00000003", "00000002", "three"),
        said("00000004", "00000004", "itself"),
        said("00000005", "99999999", "orphan"),
        said("00000006", "00000005", "child"),
    )
    with SessionStore.open(path) as store:
        assert texts(store) == ["orphan", "child"]
        store.move_leaf("00000003")
        assert len(store.branch()) == 3
        store.move_leaf("00000004")
        assert texts(store) == ["itself"]
        seen = []
        waiting = store.tree()
        while waiting:
            node = waiting.pop()
            seen.append(node.entry.id)
            waiting.extend(node.children)
        assert sorted(seen) == [f"0000000{n}" for n in range(1, 7)]
        assert len(store.warnings) == 1
        copied = store.copy(tmp_path, None)
        assert [item.data for item in copied.entries] == [item.data for item in store.entries]


# Forks


def test_a_fork_holds_the_path_its_labels_and_its_origin(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as store:
        first = store.append_message(user("first"))
        store.append("label", target_id=first, label="start")
        second = store.append_message(answer("second"))
        other = store.append_message(user("elsewhere"))
        store.append("label", target_id=other, label="dropped")
        store.move_leaf(second)
        store.append_message(user("third"))
        before = store.path.read_bytes()
        with store.fork(second, tmp_path / "forks") as forked:
            assert texts(forked) == ["first", "second"]
            assert {target: label for target, (label, _) in forked.labels.items()} == {first: "start"}
            assert forked.labels[first][1] == store.labels[first][1]
            assert forked.header["parentSession"] == str(store.path)
            assert forked.session_id != store.session_id
            forked.append_message(user("on my own"))
        assert store.path.read_bytes() == before
    again = SessionStore.read(forked.path)
    assert texts(again) == ["first", "second", "on my own"]
    assert again.warnings == []


def test_a_fork_of_nothing_said_has_no_file_until_something_is(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as store:
        model = store.append("model_change", provider="anthropic", modelId="claude-x")
        store.append_message(user("first"))
        with store.fork(model, tmp_path) as forked, store.fork(None, tmp_path) as empty:
            assert not forked.path.exists()
            assert list(empty.entries) == []
            forked.append_message(user("again"))
            assert [line["type"] for line in lines_of(forked.path)] == ["session", "model_change", "message"]
        assert store.fork(store.leaf_id, None).path is None


def test_a_copy_for_another_directory_keeps_every_branch(tmp_path: Path) -> None:
    with SessionStore.create(tmp_path, tmp_path) as store:
        root = store.append_message(user("root"))
        store.append_message(user("left"))
        store.move_leaf(root)
        store.append_message(user("right"))
        reader = SessionStore.read(store.path)
    with reader.copy(Path("/elsewhere"), tmp_path / "copies") as copied:
        assert copied.cwd == Path("/elsewhere")
        assert lines_of(copied.path)[1:] == lines_of(store.path)[1:]
        assert copied.header["parentSession"] == str(store.path)


# Finding


def test_what_was_kept_in_memory_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    store = SessionStore.in_memory(tmp_path)
    assert store.write_to(tmp_path / "kept") is None
    store.append_message(user("one"))
    store.append_message(answer("two"))
    path = store.write_to(tmp_path / "kept")
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.id for entry in SessionStore.read(path).entries] == [entry.id for entry in store.entries]
    assert list(path.parent.iterdir()) == [path]
    before = path.read_bytes()
    with pytest.raises(SessionFileError, match="File exists"):
        store.write_to(tmp_path / "kept")
    assert path.read_bytes() == before


def test_the_session_directory_is_named_after_the_working_directory() -> None:
    directory = session_directory(Path("/home/ada/C:x"), Path("/agent"))
    assert directory == Path("/agent/sessions/--home-ada-C-x--")


def test_the_most_recent_session_is_found_even_behind_a_long_header(tmp_path: Path) -> None:
    assert most_recent_session(tmp_path / "missing") is None
    old = write(tmp_path / "old.jsonl", HEADER)
    new = write(tmp_path / "new.jsonl", {**HEADER, "cwd": "/other", "additionalDirectories": ["/d" * 5000]})
    newer_but_none = write(tmp_path / "none.jsonl", {"type": "message"})
    (tmp_path / "directory.jsonl").mkdir()
    for path, seconds in ((old, 100), (new, 200), (newer_but_none, 300)):
        os.utime(path, (seconds, seconds))
    assert most_recent_session(tmp_path) == new
    assert most_recent_session(tmp_path, Path("/somewhere")) == old
    assert most_recent_session(tmp_path, Path("/nowhere")) is None


def test_a_session_is_found_by_path_name_or_beginning_of_its_id(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", {**HEADER, "id": "abc-1"})
    two = write(tmp_path / "two.jsonl", {**HEADER, "id": "abc-12"})
    assert find_session(str(one), Path("/nowhere")) == one
    assert find_session("two.jsonl", tmp_path) == two
    assert find_session("abc-12", tmp_path) == two
    assert find_session("abc-1", tmp_path) == one
    with pytest.raises(UsageError, match=r"one\.jsonl, two\.jsonl"):
        find_session("abc", tmp_path)
    for wanted in ("xyz", "missing.jsonl", "no/such", "a\0b.jsonl"):
        with pytest.raises(SessionNotFoundError):
            find_session(wanted, tmp_path)


def test_a_list_of_sessions_tells_what_each_was_about(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "look at"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    write(
        tmp_path / "a.jsonl",
        {**HEADER, "parentSession": "/old.jsonl"},
        entry("00000001", None, type="session_info", name="First"),
        entry("00000002", "00000001", type="message", message={"role": "user", "content": blocks, "timestamp": 5_000}),
        entry("00000003", "00000002", type="message", message={"role": "toolResult", "timestamp": 9_000}),
        entry("00000004", "00000003", type="session_info", name=" Renamed "),
        {"type": "message", "message": {"role": "user", "content": 5}},
    )
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b'{"type":"message","mess')
    write(tmp_path / "b.jsonl", HEADER)
    write(tmp_path / "c.jsonl", {"no": "session"})
    later, earlier = list_sessions(tmp_path)
    assert earlier.path.name == "a.jsonl"
    assert (earlier.name, earlier.first_message, earlier.message_count) == ("Renamed", "look at", 3)
    assert (earlier.id, earlier.cwd, earlier.parent_session) == ("s1", "/somewhere", "/old.jsonl")
    assert (later.path.name, later.name, later.first_message) == ("b.jsonl", None, "")
    assert later.created == later.modified == 1_767_323_045_678
    assert list_sessions(tmp_path / "missing") == []


def test_of_many_sessions_only_those_written_to_last_are_read(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps({"type": "session", "version": 3, "id": f"s{number}", "cwd": "/"}) + "\n")
        os.utime(path, (number, number))
    assert [info.id for info in list_sessions(tmp_path, limit=2)] == ["s2", "s1"]


def test_the_first_message_of_a_list_has_no_blanks_around_it_and_is_none_of_blanks(tmp_path: Path) -> None:
    texts = (" \n ", "  hello there \n", "later")
    contents = [[{"type": "text", "text": text}] for text in texts]
    lines = [{"type": "message", "message": {"role": "user", "content": content}} for content in contents]
    write(tmp_path / "a.jsonl", HEADER, *lines)
    (info,) = list_sessions(tmp_path)
    assert info.first_message == "hello there"
