"""The notebooks of one kernel, and the names of their conversations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from indus_nb.front.notebook.door.messages import Shows
from indus_nb.front.notebook.notebooks import Notebooks
from indus_nb.kernel.cell_ids import CellIds


@pytest.fixture
def notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notebooks:
    """The notebooks of a kernel that was started for ``own.ipynb``, which a page shows."""
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "own.ipynb"))
    events = SimpleNamespace(register=lambda *_: None, unregister=lambda *_: None)
    shell = SimpleNamespace(starting_dir=str(tmp_path), user_ns={}, events=events, get_parent=dict)
    notebooks = Notebooks(shell, CellIds(shell))
    notebooks.note(Shows(kind="shows", path="own.ipynb", client="first"), None)
    return notebooks


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (["b.ipynb"], "b"),
        (["b.ipynb", "final report.ipynb"], "final-report"),
        (["b.ipynb", "elsewhere/b.ipynb"], "b"),
        (["b.ipynb", "elsewhere/own.ipynb"], "own"),
        (["b-old.ipynb", "b.ipynb"], "b"),
        (["b.ipynb", "main.ipynb"], "main-2"),
    ],
)
def test_a_notebooks_conversation_is_called_as_its_file_is_now(
    notebooks: Notebooks, paths: Sequence[str], name: str
) -> None:
    before = None
    for path in paths:
        shown = Shows(kind="shows", path=path, client="second")
        for _ in range(2):  # two pages say so, one after the other
            notebooks.rename(notebooks.note(shown, before))
        before = shown
    assert notebooks.of("second").conversation == name


def test_a_conversation_that_another_notebook_talks_to_or_that_the_user_has_named_keeps_its_name(
    notebooks: Notebooks,
) -> None:
    before, after = (Shows(kind="shows", path=f"{name}.ipynb", client="second") for name in ("b", "c"))
    used, first = notebooks.note(before, None), notebooks.of("first")
    used.conversation = "mine"
    assert notebooks.rename(notebooks.note(after, before)) == ""
    used.conversation = first.conversation = "b"
    assert notebooks.rename(notebooks.note(before, after)) == ""
    assert used.conversation == "b"
