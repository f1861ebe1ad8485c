"""Which conversation a notebook finds again: by its path, and by the id in its metadata."""

from __future__ import annotations

import json
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
        self._set("INDUS_NB_AGENT_DIR", str(root / "agent"))

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


def named(number: int = 1) -> dict[str, Any]:
    return {"indus_nb": {"id": f"notebook-{number:016x}"}}


def noted(world: World, number: int, session: Path, path: str = "gone.ipynb") -> None:
    """Have a notebook with that id use a conversation, at another path."""
    assert world.kernel(world.notebook(path, named(number))).note(session) == named(number)["indus_nb"]["id"]


@pytest.mark.parametrize("name", ["copy.ipynb", "elsewhere/moved.ipynb"])
def test_a_notebook_that_was_copied_or_moved_finds_its_conversation(world: World, name: str) -> None:
    session = world.session("first")
    noted(world, 1, session)
    noted(world, 2, world.session("of another notebook"), "other.ipynb")
    kernel = world.kernel(world.notebook(name, named(1)))
    assert kernel.last() == session
    assert f"%agent --session {session.stem.partition('_')[2][:13]}` goes on" in (kernel.offer() or "")


def test_a_notebook_goes_on_by_itself_with_its_own_conversation_and_not_with_that_of_the_one_it_was_copied_from(
    world: World,
) -> None:
    session = world.session("first")
    original = world.notebook("a.ipynb", named())
    world.kernel(original).note(session)
    copy = world.notebook("copy.ipynb", named())
    assert "1 message, goes on. `%agent --new` begins another one." in (world.kernel(original).resumed() or "")
    assert world.kernel(copy).resumed() is None
    offer = world.kernel(copy).offer() or ""
    assert offer.startswith("a.ipynb (copy or original of this notebook) has a conversation of today")
    assert (world.kernel(original).offer() or "").startswith("This notebook has a conversation of today")
    original.unlink()  # so it was moved
    assert world.kernel(copy).resumed() is not None
    (world.root / "agent" / "settings.json").write_text('{"notebook": {"afterRestart": "new"}}')
    assert world.kernel(copy).resumed() is None


def test_what_a_copy_of_a_notebook_begins_is_not_the_conversation_of_the_original(world: World) -> None:
    first, second = world.session("first"), world.session("of the copy")
    original, copy = world.notebook("a.ipynb", named()), world.notebook("copy.ipynb", named())
    world.kernel(original).note(first)
    world.kernel(copy).note(second)
    assert world.kernel(original).last() == first
    assert world.kernel(original).resumed() is not None
    assert world.kernel(copy).last() == second


def test_the_first_conversation_of_a_user_is_found_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session, path = world.session("first"), world.notebook("a.ipynb")
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(world.root / "home" / "not made yet"))
    world.kernel(path).note(session)
    assert world.kernel(path).last() == session


def test_one_that_was_renamed_while_its_kernel_ran_is_found_by_its_cells(world: World) -> None:
    session = world.session("first")
    noted(world, 1, session)
    world.notebook("analysis.ipynb", named(), "the-cell-that-runs")
    assert world.kernel(world.root / "Untitled.ipynb", "the-cell-that-runs").last() == session


def test_a_notebook_keeps_its_id_with_each_conversation(world: World) -> None:
    path = world.notebook("a.ipynb")
    kernel = world.kernel(path)
    given = kernel.note(world.session("first"))
    assert given is not None
    assert kernel.note(world.session("second")) == given
    world.notebook("a.ipynb", {"indus_nb": {"id": given}})
    assert world.kernel(path).note(world.session("third")) == given


def test_a_conversation_whose_file_was_never_written_hides_none(world: World) -> None:
    session, path = world.session("first"), world.notebook("a.ipynb")
    kernel = world.kernel(path)
    kernel.note(session)
    kernel.note(world.root / "nothing-was-said.jsonl")
    assert world.kernel(path).last() == session


def test_what_is_no_id_of_a_notebook_here_finds_nothing(world: World) -> None:
    session = world.session("private")
    noted(world, 1, session)
    known = str(named()["indus_nb"]["id"])
    wrong = [str(session), str(world.root / "gone.ipynb"), session.name, known[:-1], f"{known}0", known.upper()]
    wrong += [f"x_{known}", "*", "", "no-such-id", f"{known}\n", "a" * 5000]
    hostile: list[object] = [{"id": value} for value in [*wrong, 5, None, [known], {"id": known}]]
    for metadata in [*({"indus_nb": value} for value in [*hostile, known, [known], None]), [known], known]:
        assert world.kernel(world.notebook("a.ipynb", metadata)).last() is None, metadata
    assert world.kernel(world.notebook("a.ipynb", named())).last() == session


def test_a_notebook_that_cannot_be_read_is_no_error(world: World) -> None:
    path = world.notebook("a.ipynb")
    for text in ("", "{", "[]", '{"nbformat": 3}'):
        path.write_text(text)
        assert world.kernel(path).last() is None


def test_a_notebook_that_a_program_runs_is_known_by_its_first_cells_and_names_its_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    sessions = NotebookSessions(None, CellIds(SimpleNamespace(events=SimpleNamespace(register=lambda *_: None))))
    for name, sources in (("one", ["a = 1", "b = 2"]), ("two", ["a = 1", "b = 3"]), ("three", [])):
        made = [{"cell_type": "code", "source": source, "outputs": [], "metadata": {}} for source in sources]
        content = {"nbformat": 4, "metadata": {"indus_nb": {"keep": f"{name}.json"}}, "cells": made}
        (world.root / f"{name}.ipynb").write_text(json.dumps(content))

    def kept(*ran: str) -> str | None:
        found = sessions.kept_answers(world.root, ["", *ran])
        return None if found is None else found.name

    assert kept("a = 1", "b = 2") == "one.json"
    assert kept("# Parameters\nx = 1\n", "a = 1 ", "b = 3") == "two.json"
    assert kept("a = 1") is None  # both begin so
    assert kept() is None
    assert kept("a = 1", "b = 2", "c = 3") is None


@pytest.mark.parametrize("name", ["\ud800.json", "\0.json", "../a.json"])
def test_a_name_for_kept_answers_that_no_file_beside_the_notebook_can_have_is_none(world: World, name: str) -> None:
    path = world.notebook("a.ipynb", {"indus_nb": {"keep": name}})
    assert world.kernel(path).kept_answers(world.root, []) is None


def test_a_conversation_that_is_open_elsewhere_is_offered_for_when_it_is_closed_there(world: World) -> None:
    path, session = world.notebook("a.ipynb"), world.session("hello")
    kernel = world.kernel(path)
    kernel.note(session)
    with SessionStore.open(session):
        offer = kernel.offer() or ""
        assert ", open in " in offer
        assert "goes on with it once it is closed there. This one is new." in offer
        assert "`%agent --name main` goes on with it." in (kernel.offer("main") or "")
    assert (kernel.offer() or "").endswith("` goes on with it.")


def test_a_notebook_that_is_renamed_keeps_its_conversation_beside_others_with_its_id(world: World) -> None:
    path, session = world.notebook("a.ipynb", named()), world.session("hello")
    kernel = world.kernel(path)
    kernel.note(session)
    kernel.move(str(path.rename(world.root / "b.ipynb")))
    noted(world, 1, world.session("of a copy"))
    assert world.kernel(world.root / "b.ipynb").last() == session
