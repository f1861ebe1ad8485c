"""Notebooks that run without anybody who watches, by the programs that people run them with, and a plain terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pexpect
import pytest
from kernels import private_environment
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

BIN = Path(sys.executable).parent


def notebook(*cells: str) -> nbformat.NotebookNode:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


GOOD = ("%load_ext indus_nb", "%agent --provider offline list the files here", "print('done')")
BAD = ("%load_ext indus_nb", "%agent --provider nobody hello", "print('done')")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").touch()
    nbformat.write(notebook(*GOOD), folder / "good.ipynb")
    nbformat.write(notebook(*BAD), folder / "bad.ipynb")
    return folder


def call(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this environment."""
    environment = private_environment(folder.parent)
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=folder,
        env={**environment, "PATH": f"{BIN}{os.pathsep}{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def transcript(path: Path) -> list[str]:
    """The plain text of the outputs of the agent's cell in a saved notebook."""
    cell = nbformat.read(path, as_version=4).cells[1]
    return [output.data["text/plain"] for output in cell.outputs if "data" in output]


def assert_is_a_transcript(shown: list[str]) -> None:
    assert any("✓ bash  ls" in text and "notes.txt" in text for text in shown)
    assert shown[-1].startswith("offline · ")
    assert not any("waiting for" in text for text in shown)


def test_nbclient_keeps_the_transcript_in_the_outputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in private_environment(folder.parent).items():
        monkeypatch.setenv(name, value)
    made = notebook(*GOOD)
    NotebookClient(made, timeout=60, resources={"metadata": {"path": str(folder)}}).execute()
    assert_is_a_transcript([output.data["text/plain"] for output in made.cells[1].outputs])
    assert made.cells[2].outputs[0].text == "done\n"


def test_nbclient_stops_at_a_cell_that_failed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in private_environment(folder.parent).items():
        monkeypatch.setenv(name, value)
    made = notebook(*BAD)
    with pytest.raises(CellExecutionError, match="Unknown provider: nobody"):
        NotebookClient(made, timeout=60, resources={"metadata": {"path": str(folder)}}).execute()
    assert made.cells[1].outputs[0].output_type == "error"
    assert not made.cells[2].outputs


def test_nbconvert_executes_and_its_pages_read_well(folder: Path) -> None:
    done = call(folder, "jupyter", "nbconvert", "--execute", "--to", "notebook", "--inplace", "good.ipynb")
    assert done.returncode == 0, done.stderr
    assert_is_a_transcript(transcript(folder / "good.ipynb"))
    done = call(folder, "jupyter", "nbconvert", "--to", "html", "good.ipynb")
    assert done.returncode == 0, done.stderr
    assert 'class="indus-call"' in (folder / "good.html").read_text(encoding="utf-8")


def test_nbconvert_fails_with_the_cell(folder: Path) -> None:
    done = call(folder, "jupyter", "nbconvert", "--execute", "--to", "notebook", "--inplace", "bad.ipynb")
    assert done.returncode != 0
    assert "Unknown provider: nobody" in done.stderr


def test_papermill_keeps_the_transcript(folder: Path) -> None:
    done = call(folder, "papermill", "good.ipynb", "out.ipynb")
    assert done.returncode == 0, done.stderr
    assert_is_a_transcript(transcript(folder / "out.ipynb"))


def test_papermill_fails_with_the_cell(folder: Path) -> None:
    done = call(folder, "papermill", "bad.ipynb", "out.ipynb")
    assert done.returncode != 0
    assert "Unknown provider: nobody" in done.stderr


def test_a_plain_ipython_prints_each_block_once(folder: Path) -> None:
    program = "; ".join(
        f"get_ipython().run_line_magic('{GOOD[n][1:].split()[0]}', '{GOOD[n].split(' ', 1)[1]}')" for n in (0, 1)
    )
    done = call(folder, "ipython", "--colors=NoColor", "-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("✓ bash  ls -la -- .") == 1
    assert done.stdout.count("Files in `.`") == 1
    assert "waiting" not in done.stdout
    assert "<" not in done.stdout


def test_an_interrupt_in_a_terminal_stops_the_agent_and_ipython_goes_on(folder: Path) -> None:
    shell = pexpect.spawn(
        str(BIN / "ipython"),
        ["--simple-prompt", "--no-banner", "--colors=NoColor", "--no-confirm-exit"],
        cwd=str(folder),
        env={**private_environment(folder.parent), "TERM": "dumb"},
        encoding="utf-8",
        timeout=20,
    )
    try:
        shell.expect_exact("In [1]: ")
        shell.sendline("%load_ext indus_nb")
        shell.expect_exact("In [2]: ")
        shell.sendline("%agent --provider offline run sleep 60")
        shell.expect_exact("● bash  sleep 60")
        shell.sendintr()
        shell.expect_exact("Interrupted: the agent was stopped")
        shell.expect_exact("In [3]: ")
        shell.sendline("6 * 7")
        shell.expect_exact("42")
        shell.sendline("exit")
        shell.expect(pexpect.EOF)
    finally:
        shell.close(force=True)
    assert shell.exitstatus == 0
