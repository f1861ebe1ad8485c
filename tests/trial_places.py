"""A home with keys and a project in it, and the tool ``bash`` that tries its commands there, by each way to confine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from gates import RecordingGate

from indus_nb.base.events import ToolOutput
from indus_nb.safety.sandbox import Machine, machine
from indus_nb.tools import FunctionTool, Looks, Shell, ToolContext, ToolError
from indus_nb.tools.commands.bash import bash_tool

HERE = machine()
WAYS = {
    "landlock": replace(HERE, bwrap=None) if HERE.landlock and HERE.filters else None,
    "bwrap": replace(HERE, landlock=0) if HERE.bwrap is not None and HERE.filters else None,
}
KEY = "open-sesame-6e1f"
"""What all files hold that a trial must not read."""


@dataclass
class Ran:
    """What became of a command."""

    text: str
    details: dict[str, Any]
    failed: bool
    gate: RecordingGate
    shown: list[ToolOutput]
    """What it has printed so far, each time that was told."""

    @property
    def words(self) -> list[str]:
        """The effects of the last question."""
        return self.gate.asked[-1].words if self.gate.asked else []


@dataclass
class Place:
    """The project, and what runs commands there."""

    way: str
    here: Machine
    home: Path
    project: Path

    def tool(self, shell: Shell | None = None, seconds: float = 600.0) -> FunctionTool[Any]:
        """Return the tool ``bash`` of a session in the project."""
        return bash_tool(self.project, shell or Shell(), None, Looks(seconds=seconds, here=self.here))

    async def run(
        self, command: str, gate: RecordingGate | None = None, *, tool: FunctionTool[Any] | None = None, **more: Any
    ) -> Ran:
        """Run a command by the tool, with a gate that says no unless another one is given."""
        gate = gate or RecordingGate()
        tool = tool or self.tool()
        failed, shown = False, list[ToolOutput]()
        try:
            arguments = tool.check({"command": command, **more})
            output: ToolOutput = await tool.execute(arguments, ToolContext("1", shown.append, gate=gate))
        except ToolError as error:
            output, failed = error.output, True
        return Ran(output.content[0].text, output.details or {}, failed, gate, shown)  # type: ignore[union-attr]

    def tried(self, command: str) -> Ran:
        """Run a command that is not allowed to have effects."""
        return asyncio.run(self.run(command))

    def states(self) -> dict[str, tuple[int, int, bytes]]:
        """What stands in the home: modes, times of change and contents."""
        found: dict[str, tuple[int, int, bytes]] = {}
        for at, _, files in os.walk(self.home):
            for path in (Path(at), *(Path(at, name) for name in files)):
                state = path.lstat()
                content = b""
                if path.is_symlink():
                    content = os.fsencode(path.readlink())
                elif path.is_file():
                    content = path.read_bytes()
                found[str(path)] = state.st_mode, state.st_mtime_ns, content
        return found


def git(*arguments: str, cwd: Path) -> None:
    """Run git as a user of the tests."""
    subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments], cwd=cwd, check=True)


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Place]:
    """The place, with each way to confine that this machine has."""
    here = WAYS[request.param]
    if here is None:
        pytest.skip(f"{request.param} cannot be had here: {HERE.problem}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    outside = next((each for each in (Path.home(), Path.cwd(), Path("/srv")) if os.access(each, os.W_OK)), tmp_path)
    home = Path(os.path.realpath(tempfile.mkdtemp(prefix="trial-test-", dir=outside)))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("SOME_API_KEY", KEY)
    project = home / "work" / "project"
    (project / "sub").mkdir(parents=True)
    (project / "out").mkdir()
    for name in (".ssh/id_rsa", ".aws/credentials", ".netrc", "diary.txt", "work/other/plan.txt", "work/project/.env"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(KEY)
    (project / "x.csv").write_text("a,b\nfoo,2\nbar,3\n")
    (project / "sub" / "y.csv").write_text("a,b\n")
    (project / "out" / "old.csv").write_text("old\n")
    (project / "x.py").write_text("import os\nfoo = 1\nprint(foo)\n")
    (project / "d.json").write_text('{"a": 1}')
    (project / "Makefile").write_text("all: out.txt\nout.txt: x.csv\n\tcp x.csv out.txt\n")
    (project / ".gitignore").write_text(".env\n")
    git("init", "-q", "-b", "main", cwd=project)
    git("add", ".", cwd=project)
    git("commit", "-q", "-m", "one", cwd=project)
    with (project / "x.csv").open("a") as file:
        file.write("baz,4\n")
    with contextlib.ExitStack() as opened:
        opened.callback(shutil.rmtree, home, ignore_errors=True)
        yield Place(request.param, here, home, project)


def running(mark: str) -> list[int]:
    """The processes that have a text among their arguments."""
    found: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and any(mark in word for word in process.cmdline()):
                found.append(process.pid)
    return found
