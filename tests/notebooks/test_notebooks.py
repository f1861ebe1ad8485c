"""The notebooks that are shown to users, run from top to bottom as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from kernels import private_environment
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def shown(cell: nbformat.NotebookNode) -> str:
    """The plain text of a cell's outputs."""
    return "\n".join(output.text if "text" in output else output.data["text/plain"] for output in cell.outputs)


def test_the_quickstart_runs_without_key_and_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in private_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, folder)
    notebook = nbformat.read(folder / "quickstart.ipynb", as_version=4)
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [shown(cell) for cell in notebook.cells if cell.cell_type == "code"]
    words = ("", "no language model", "quickstart.ipynb", "42", "The answer is 42.", "a fresh start", "1024")
    assert [word in output for word, output in zip(words, outputs, strict=True)] == [True] * len(words)
    assert (folder / "answer.txt").read_text() == "The answer is 42."


def test_notebooks_are_kept_without_outputs() -> None:
    for path in NOTEBOOKS.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == [], path.name
