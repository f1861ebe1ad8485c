"""Notebooks that run without anybody who watches, by the programs that people run them with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from kernels import private_environment
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import get_exporter
from traitlets.config import Config

BIN = Path(sys.executable).parent


def notebook(*cells: str) -> nbformat.NotebookNode:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


GOOD = (
    "%load_ext indus_nb",
    "%agent --provider offline list the files here",
    """\
from indus_nb import agent
@agent.command()
async def ask(arguments, ctx):
    ui = ctx.ui
    asked = [ui.select("Which?", ["a", "b"]), ui.confirm("Sure?", ""), ui.input("Who?"), ui.editor("Edit", "text")]
    ui.notify(f"answers: {[await each for each in asked]}")""",
    "%agent --provider offline --approve writes /ask",
    "%agent run touch unasked",
    "%agent panel",
    "print('done')",
)
BAD = ("%load_ext indus_nb", "%agent --provider nobody hello", "print('done')")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / "notes.txt").touch()
    nbformat.write(notebook(*GOOD), directory / "good.ipynb")
    nbformat.write(notebook(*BAD), directory / "bad.ipynb")
    return directory


def call(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this environment."""
    environment = private_environment(directory.parent)
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=directory,
        env={**environment, "PATH": f"{BIN}{os.pathsep}{environment['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def texts(cell: nbformat.NotebookNode) -> list[str]:
    """The plain text of the outputs of a cell."""
    return [output.data["text/plain"] for output in cell.outputs if "data" in output]


def assert_no_user_was_asked(made: nbformat.NotebookNode, directory: Path) -> None:
    """Every dialog answered what no user said, and what needed a yes was refused with the reason."""
    (told, *_), refused = map(texts, made.cells[3:5])
    assert told == "answers: [None, False, None, None]"
    assert any("✗ bash  touch unasked" in text and "nobody can be asked" in text for text in refused)
    assert "left out: nobody is there" in made.cells[5].outputs[0].data["text/plain"]
    assert made.cells[6].outputs[0].text == "done\n"
    assert not (directory / "unasked").exists()


def assert_has_no_widget(made: nbformat.NotebookNode) -> None:
    """Nothing in the file needs a kernel or a widget manager to be shown."""
    assert "widgets" not in made.metadata
    kinds = {kind for cell in made.cells for output in cell.outputs for kind in output.get("data", {})}
    assert kinds == {"text/html", "text/markdown", "text/plain"}


def assert_has_the_transcript(made: nbformat.NotebookNode) -> None:
    shown = texts(made.cells[1])
    assert any("✓ bash  ls" in text and "notes.txt" in text for text in shown)
    assert shown[-1] == "offline"
    assert not any("waiting for" in text for text in shown)


def test_nbclient_keeps_the_transcript_in_the_outputs_and_answers_no_question(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in private_environment(directory.parent).items():
        monkeypatch.setenv(name, value)
    made = notebook(*GOOD)
    NotebookClient(made, timeout=240, resources={"metadata": {"path": str(directory)}}).execute()
    assert_has_the_transcript(made)
    assert_no_user_was_asked(made, directory)
    assert_has_no_widget(made)


def test_nbclient_stops_at_a_cell_that_failed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in private_environment(directory.parent).items():
        monkeypatch.setenv(name, value)
    made = notebook(*BAD)
    with pytest.raises(CellExecutionError, match="Unknown provider: nobody"):
        NotebookClient(made, timeout=240, resources={"metadata": {"path": str(directory)}}).execute()
    assert made.cells[1].outputs[0].output_type == "error"
    assert not made.cells[2].outputs


def test_nbconvert_executes_and_answers_no_question_and_what_it_makes_of_it_reads_well(directory: Path) -> None:
    done = call(directory, "jupyter", "nbconvert", "--execute", "--to", "notebook", "--inplace", "good.ipynb")
    assert done.returncode == 0, done.stderr
    made = nbformat.read(directory / "good.ipynb", as_version=4)
    assert_has_the_transcript(made)
    assert_no_user_was_asked(made, directory)
    assert_has_no_widget(made)

    def converted(kind: str, source: nbformat.NotebookNode = made, **settings: Any) -> str:
        return get_exporter(kind)(config=Config(settings)).from_notebook_node(source)[0]

    page, empty_page = converted("html"), converted("html", notebook(*GOOD))
    assert 'class="indus-call"' in page
    assert re.findall(r"<script.*?>", page) == re.findall(r"<script.*?>", empty_page)  # those of nbconvert's own
    markdown = converted("markdown")
    assert 'class="indus-call"' in markdown
    assert "<script" not in markdown
    plain = converted("markdown", NbConvertBase={"display_data_priority": ["text/markdown", "text/plain"]})
    assert "✓ **bash** `ls -la -- .`" in plain
    assert "<div" not in plain
    script = converted("script")
    assert "run_line_magic('agent', '--provider offline list the files here')" in script
    compile(script, "good.py", "exec")


def test_nbconvert_fails_with_the_cell(directory: Path) -> None:
    done = call(directory, "jupyter", "nbconvert", "--execute", "--to", "notebook", "--inplace", "bad.ipynb")
    assert done.returncode != 0
    assert "Unknown provider: nobody" in done.stderr


def test_papermill_keeps_the_transcript_and_answers_no_question(directory: Path) -> None:
    done = call(directory, "papermill", "good.ipynb", "out.ipynb")
    assert done.returncode == 0, done.stderr
    made = nbformat.read(directory / "out.ipynb", as_version=4)
    assert_has_the_transcript(made)
    assert_no_user_was_asked(made, directory)
    assert_has_no_widget(made)


def test_papermill_fails_with_the_cell(directory: Path) -> None:
    done = call(directory, "papermill", "bad.ipynb", "out.ipynb")
    assert done.returncode != 0
    assert "Unknown provider: nobody" in done.stderr
