"""A notebook that runs again, with the same answers, is the same file: what differs from run to run is in no output."""

from __future__ import annotations

from pathlib import Path

import nbformat
from kernels import private_environment
from messages_api import MessagesApi
from nbclient import NotebookClient
from scripted_cells import CELLS, answers


def executed(path: Path, environment: dict[str, str]) -> str:
    """The text of a notebook after all of its cells ran, as it would be saved."""
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=None, record_timing=False, resources=place).execute(env=environment)
    return nbformat.writes(notebook)


def test_two_runs_without_a_page_show_the_same_whatever_the_pace_of_the_answers(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    cells = [nbformat.v4.new_code_cell(source, id=f"c{number}") for number, source in enumerate(CELLS)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "n.ipynb")
    with MessagesApi() as api:
        environment = private_environment(
            tmp_path,
            ANTHROPIC_BASE_URL=api.url,
            ANTHROPIC_API_KEY="test-key",
            JPY_SESSION_NAME=str(folder / "n.ipynb"),  # so that it finds its conversation again
        )
        runs: list[str] = []
        for chunk in (400, 20):
            api.clear()
            api.add(*answers(chunk))
            runs.append(executed(folder / "n.ipynb", environment))
    assert runs[0] == runs[1]
    assert "ZeroDivisionError" in runs[0]
    assert "Paragraph 39" in runs[0]
    assert '"text/html": []' not in runs[0]
