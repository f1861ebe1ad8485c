"""Which conversation a notebook finds again: by its path, and by the id in its metadata."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indus_nb.base.messages import UserMessage
from indus_nb.core.storage import SessionStore, session_directory
from indus_nb.front.notebook.notebook_sessions import NotebookSessions, own_notebook
from indus_nb.kernel.cell_ids import CellIds


class World:
    """A user's directory with notebooks, whose kernels are asked which conversation they had."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._set = monkeypatch.setenv
        self._set("INDUSAGI_CODING_AGENT_DIR", str(root / "agent"))

    def session(self, said: str) -> Path:
        directory = session_directory(self.root, self.root / "agent")
        with SessionStore.create(self.root, directory) as store:
            store.append_message(UserMessage(content=said))
            store.save()
            assert store.path is not None
            return store.path

    def notebook(self, name: str, metadata: object = None, *cells: str) -> Path:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        made = [{"cell_type": "code", "id": cell, "source": "1", "outputs": [], "metadata": {}} for cell in cells]
        path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata or {}, "cells": made}))
        return path

    def kernel(self, path: Path, cell: str | None = None) -> NotebookSessions:
        self._set("JPY_SESSION_NAME", str(path))
        request: dict[str, Any] = {"metadata": {"cellId": cell}}
        events = SimpleNamespace(register=lambda *_: None, unregister=lambda *_: None)
        shell = SimpleNamespace(starting_dir=str(self.root), user_ns={}, events=events, get_parent=lambda: request)
        cells = CellIds(shell)
        return NotebookSessions(own_notebook(shell, cells), cells)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def named(path: Path) -> dict[str, Any]:
    return {"indus_nb": {"session": path.stem.partition("_")[2]}}


@pytest.mark.parametrize("name", ["copy.ipynb", "elsewhere/moved.ipynb"])
def test_a_notebook_that_was_copied_or_moved_finds_its_conversation(world: World, name: str) -> None:
    session = world.session("first")
    world.session("of another notebook")
    kernel = world.kernel(world.notebook(name, named(session)))
    assert kernel.last() == session
    assert f"%agent --session {session.stem.partition('_')[2][:13]}` goes on" in (kernel.offer() or "")


def test_a_notebook_goes_on_by_itself_with_its_own_conversation_and_not_with_that_of_the_one_it_was_copied_from(
    world: World,
) -> None:
    session = world.session("first")
    original = world.notebook("a.ipynb", named(session))
    world.kernel(original).note(session)
    copy = world.notebook("copy.ipynb", named(session))
    assert "1 message, goes on. `%agent --new` begins another one." in (world.kernel(original).resumed() or "")
    assert world.kernel(copy).resumed() is None
    assert world.kernel(copy).offer() is not None
    original.unlink()  # so it was moved
    assert world.kernel(copy).resumed() is not None
    (world.root / "agent" / "settings.json").write_text('{"notebook": {"afterRestart": "new"}}')
    assert world.kernel(copy).resumed() is None


def test_one_that_was_renamed_while_its_kernel_ran_is_found_by_its_cells(world: World) -> None:
    session = world.session("first")
    world.notebook("analysis.ipynb", named(session), "the-cell-that-runs")
    assert world.kernel(world.root / "Untitled.ipynb", "the-cell-that-runs").last() == session


def test_of_two_conversations_the_one_used_last_is_found(world: World) -> None:
    earlier, later = world.session("first"), world.session("second")
    os.utime(earlier, (1, 1))
    notebook = world.notebook("a.ipynb", named(earlier))
    world.kernel(notebook).note(later)
    assert world.kernel(notebook).last() == later
    os.utime(later, (0, 0))
    assert world.kernel(notebook).last() == earlier


def test_what_is_no_id_of_a_session_here_finds_nothing(world: World) -> None:
    session = world.session("private")
    whole = session.stem.partition("_")[2]
    wrong = [str(session), f"../{session.parent.name}/{session.name}", session.name, whole[:8], whole[-8:]]
    wrong += [f"x_{whole}", "*", "", "no-such-id", f"{whole}\n", "a" * 5000]
    hostile: list[object] = [{"session": value} for value in [*wrong, 5, None, [whole], {"id": whole}]]
    for metadata in [*({"indus_nb": value} for value in [*hostile, whole, [whole], None]), [whole], whole]:
        assert world.kernel(world.notebook("a.ipynb", metadata)).last() is None, metadata
    assert world.kernel(world.notebook("a.ipynb", named(session))).last() == session


def test_a_notebook_that_cannot_be_read_is_no_error(world: World) -> None:
    path = world.notebook("a.ipynb")
    for text in ("", "{", "[]", '{"nbformat": 3}'):
        path.write_text(text)
        assert world.kernel(path).last() is None
