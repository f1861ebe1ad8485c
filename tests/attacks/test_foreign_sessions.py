"""A session file that somebody else wrote holds a conversation: it chooses no directory, and has no files written."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from rpc_process import RpcProcess, indusagi

from indus_nb.base.errors import UsageError
from indus_nb.core.storage.listing import session_directory
from indus_nb.kernel.toolset.undoing import Steps
from indus_nb.kernel.undo.contents import digest_of
from indus_nb.start import SessionOptions, open_session

SENTENCE = "not among your own sessions"


class Places:
    """The user's working directory, and that of somebody else, with a session file."""

    def __init__(self, top: Path) -> None:
        self.home = top
        self.agent = top / "agent"
        self.here, self.theirs = top / "here", top / "theirs"
        for place in (self.agent, self.here, self.theirs):
            place.mkdir()
        self.own = session_directory(self.theirs, self.agent) / "own.jsonl"

    def write(self, path: Path, cwd: Path | str | None = None) -> Path:
        header = {"type": "session", "version": 3, "id": path.stem, "timestamp": "2026-01-01T00:00:00.000Z"}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**header, "cwd": str(cwd or self.theirs)}) + "\n")
        return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    return Places(tmp_path)


@pytest.mark.parametrize(
    ("how", "where"),
    [
        *itertools.product(("start", "switch", "again"), ("sent.jsonl", "here/sessions/x.jsonl", "link")),
        ("continue", "here/sessions/x.jsonl"),
        ("continue", "link"),
    ],
)
async def test_a_session_file_from_elsewhere_does_not_choose_the_directory(
    places: Places, how: str, where: str
) -> None:
    path = places.home / where
    if where == "link":
        path = places.own.with_name("link.jsonl")
        path.parent.mkdir(parents=True)
        path.symlink_to(places.write(places.home / "sent.jsonl"))
    else:
        places.write(path)
    before = path.read_bytes()
    wishes: dict[str, object] = {"switch": {}, "continue": {"continue_last": True, "session_dir": path.parent}}.get(
        how, {"session": str(path)}
    )
    with open_session(SessionOptions(provider="offline", cwd=places.here, **wishes)) as session:
        if how == "switch":
            assert await session.switch_session(path)
        if how == "again":  # another program has written to it
            with path.open("a") as file:
                entry = {"type": "session_info", "id": "1" * 8, "parentId": None, "name": "x"}
                file.write(json.dumps({**entry, "timestamp": "2026-01-01T00:00:00.000Z"}) + "\n")
            before = path.read_bytes()
            assert await session.switch_session(path)
        assert session.store.session_id == path.resolve().stem or where == "link"
        assert session.store.cwd == places.here
        assert session.store.header["cwd"] == str(places.here)
        assert str(places.theirs) not in session.system_prompt
        (line,) = {problem for problem in session.problems if SENTENCE in problem}
        assert str(places.theirs) in line
    assert path.read_bytes().startswith(before)


async def test_the_users_own_session_works_where_it_did(places: Places) -> None:
    places.write(places.own)
    options = SessionOptions(provider="offline", cwd=places.here, session=str(places.own))
    with open_session(options) as session:
        assert session.store.cwd == places.theirs
        assert not any(SENTENCE in problem for problem in session.problems)
    chosen = places.write(places.home / "chosen" / "x.jsonl")
    wishes = SessionOptions(provider="offline", cwd=places.here, session_dir=str(chosen.parent), no_session=False)
    with open_session(wishes) as session:
        assert await session.switch_session(chosen)
        assert session.store.cwd == places.theirs
        chosen.chmod(0o666)
    with open_session(wishes) as session:
        assert await session.switch_session(chosen)
        assert session.store.cwd == places.here


@pytest.mark.parametrize("cwd", ["here", "nothing", "gone", "\u202e/x\n\x1b[2J" + "y" * 5000])
async def test_what_a_file_names_is_shown_only_if_it_is_another_directory(places: Places, cwd: str) -> None:
    named = {"here": places.here, "gone": places.home / "gone"}.get(cwd, cwd)
    path = places.write(places.home / "sent.jsonl", named)
    if cwd == "nothing":
        path.write_text(path.read_text().replace(', "cwd": "nothing"', ""))
    with open_session(SessionOptions(provider="offline", cwd=places.here, session=str(path))) as session:
        assert session.store.cwd == places.here
        lines = [problem for problem in session.problems if SENTENCE in problem]
        assert len(lines) == (0 if cwd in ("here", "nothing") else 1)
        assert all(line.isprintable() and len(line) < 1500 for line in lines)


def test_a_command_of_the_console_runs_where_the_user_is_and_one_line_says_so(places: Places) -> None:
    (places.theirs / "private").write_text("PRIVATE")
    path = places.write(places.home / "sent.jsonl")
    with RpcProcess("--session", str(path), "--provider", "offline", home=places.home, cwd=places.here) as rpc:
        output = rpc.ask("bash", command="pwd; cat private")["data"]["output"]
        assert output.startswith(f"{places.here}\n")
        assert "PRIVATE" not in output
        rpc.ask("new_session")
        rpc.ask("switch_session", sessionPath=str(path))
        assert rpc.ask("bash", command="pwd")["data"]["output"] == f"{places.here}\n"
    assert rpc.stderr.count(SENTENCE) == 2
    done = indusagi("--mode", "json", "--session", str(path), "hi", home=places.home, cwd=places.here)
    assert json.loads(done.stdout.splitlines()[0])["cwd"] == str(places.here)
    assert done.stderr.count(SENTENCE) == 1


@pytest.mark.parametrize("where", ["sent.jsonl", "own"])
def test_steps_that_somebody_else_wrote_down_are_not_taken_back(places: Places, where: str) -> None:
    path = places.write(places.own if where == "own" else places.home / where, places.here)
    planted = places.here / "hooks" / "post-checkout"
    planted.parent.mkdir()
    kept = path.with_suffix(".undo")
    kept.mkdir()
    content = b"#!/bin/sh\ntouch pwned\n"
    (kept / digest_of(content)).write_bytes(content)
    old = {"path": str(planted), "before": [digest_of(content), 0o755], "after": None}
    step = {"call": "c", "run": "r", "files": {"root": str(places.here), "steps": [old]}, "cells": None}
    steps = json.dumps({"done": [step], "undone": []})
    for written in ({"version": 1, "done": [step], "undone": []}, {"version": 2, "code": "0" * 64, "steps": steps}):
        (kept / "steps.json").write_text(json.dumps(written))
        with open_session(SessionOptions(provider="offline", cwd=places.here, session=str(path))) as session:
            found = Steps({}, str)
            found.open_book(session.store, places.agent)
            for verb in ("undo", "redo"):
                with pytest.raises(UsageError, match="none can be"):
                    found.newest(verb, 1)
    assert not planted.exists()


def test_steps_are_kept_beside_the_users_own_sessions_alone(places: Places) -> None:
    for path in (places.write(places.own, places.here), places.write(places.home / "sent.jsonl", places.here)):
        with open_session(SessionOptions(provider="offline", cwd=places.here, session=str(path))) as session:
            found = Steps({}, str)
            found.open_book(session.store, places.agent)
            (places.here / "a").write_text("old")
            found.announce("1", session.store.session_id)
            found.begin_files("1", [places.here / "a"])
            (places.here / "a").write_text("new")
            found.end("1")
        assert path.with_suffix(".undo").exists() is (path == places.own)
    assert (places.agent / "undo.key").stat().st_mode & 0o777 == 0o600
