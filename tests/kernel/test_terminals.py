"""``%agent`` in a terminal: in IPython itself, and in a console whose kernel is a process of its own."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import psutil
import pytest
from kernels import private_environment
from waiting import wait_until

from indus_nb.front.notebook.view.output import TerminalScreen, free_line

BIN = Path(sys.executable).parent
PROGRAMS = {
    "ipython": ["ipython", "--simple-prompt", "--no-banner", "--colors=NoColor", "--no-confirm-exit"],
    "console": ["jupyter-console", "--simple-prompt", "--kernel=python3"],
}
QUESTION = ", y, n, n and why, or nothing to dismiss: "


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / "notes.txt").touch()
    return directory


class Terminal:
    """Somebody who types; lines are numbered as the program numbers them."""

    def __init__(self, directory: Path, program: str) -> None:
        command, *arguments = PROGRAMS[program]
        environment = private_environment(directory.parent)
        environment |= {"TERM": "dumb", "PATH": f"{BIN}{os.pathsep}{environment['PATH']}"}
        self.process = pexpect.spawn(
            str(BIN / command), arguments, cwd=str(directory), env=environment, encoding="utf-8", timeout=240
        )
        self._line = 1

    def wait_for_outputs(self, runtime: Path) -> None:
        """Wait until the console hears what its kernel publishes.

        It prompts before, and waits for ever for the end of a cell that it did not hear of.
        """
        self.process.expect_exact("In [")
        self.process.buffer = self.process.after + self.process.buffer
        [file] = runtime.glob("kernel-*.json")
        port = json.loads(file.read_text())["iopub_port"]
        console = psutil.Process(self.process.pid)
        wait_until(
            lambda: any(
                there.status == "ESTABLISHED" and there.raddr.port == port for there in console.net_connections()
            )
        )

    def type(self, line: str) -> None:
        """Wait for the prompt, and type."""
        self.process.expect_exact(f"In [{self._line}]: ")
        self._line += 1
        self.process.sendline(line)

    def shown(self, line: str) -> str:
        """Type, and return what is printed until the next prompt, without what was written over."""
        self.type(line)
        self.process.expect_exact(f"In [{self._line}]: ")
        self.process.buffer = self.process.after + self.process.buffer
        return re.sub(r"[^\n]*\r\x1b\[K", "", self.process.before)


@pytest.fixture(params=PROGRAMS)
def terminal(directory: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    terminal = Terminal(directory, request.param)
    try:
        if request.param == "console":
            terminal.wait_for_outputs(directory.parent / "jupyter" / "runtime")
        terminal.type("%load_ext indus_nb")
        yield terminal
        terminal.type("exit")
        terminal.process.expect(pexpect.EOF)
    finally:
        terminal.process.close(force=True)
    assert terminal.process.exitstatus == 0


def test_a_transcript_is_printed_once(terminal: Terminal) -> None:
    shown = terminal.shown("%agent --provider offline list the files here")
    assert shown.count("✓ bash  ls -la -- .") == 1
    assert shown.count("Files in `.`") == 1
    assert "waiting" not in shown
    assert "<" not in shown


def test_the_cell_that_loads_the_extension_shows_the_answer_once_and_no_empty_value(directory: Path) -> None:
    def shown(*lines: str) -> str:
        code = "\n".join(["%load_ext indus_nb", *lines])
        command = [str(BIN / "ipython"), "--no-banner", "--colors=NoColor", "-c", code]
        environment = private_environment(directory.parent)
        return subprocess.check_output(command, cwd=directory, env=environment, text=True)

    ask = "%agent --provider offline --thinking off who are you"
    told = shown(ask)
    assert told.count("I am no language model.") == 1
    assert "Out[" not in told
    assert "Out[0]: 5" in shown(ask, "5")
    assert re.search(r"Out\[0\]:\s+['\"].*I am no language model.", shown(f"text = {ask}", "text"), re.DOTALL)


def test_a_question_is_answered_where_it_is_asked(terminal: Terminal, directory: Path) -> None:
    terminal.type("%agent --provider offline --approve writes run touch made")
    for answer, made in (("n", False), ("1", True)):
        terminal.process.expect_exact("I run `touch made`.")
        terminal.process.expect_exact("Run this command?")
        terminal.process.expect_exact("touch made")
        terminal.process.expect_exact(QUESTION)
        terminal.process.sendline(answer)
        if not made:
            terminal.process.expect_exact("\N{EN DASH} bash  touch made")
            terminal.type("%agent run touch made")
    terminal.process.expect_exact("✓ bash  touch made")
    assert (directory / "made").exists()


def test_an_interrupt_stops_the_agent_and_the_terminal_goes_on(terminal: Terminal) -> None:
    terminal.type("%agent --provider offline --approve writes run sleep 60")
    terminal.process.expect_exact(QUESTION)
    terminal.process.sendintr()
    terminal.process.expect_exact("Interrupted: the agent was stopped")
    terminal.type("%agent --approve never run sleep 60")
    terminal.process.expect_exact("I run")
    terminal.process.sendintr()
    terminal.process.expect_exact("Interrupted: the agent was stopped")
    terminal.type("6 * 7")
    terminal.process.expect_exact("42")


def test_the_status_line_is_not_written_while_the_user_types(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdout", stream)
    display = TerminalScreen().show({"text/plain": "● tool"}, final=False)
    with free_line():
        stream.write("Sure? ")
        display.update({"text/plain": "● tool  (1.0 s)"}, final=False)
        assert stream.getvalue().endswith("● tool\r\x1b[KSure? ")
    display.update({"text/plain": "● tool  (2.0 s)"}, final=False)
    assert stream.getvalue().endswith("● tool  (2.0 s)")


def test_a_panel_is_refused_with_what_to_do_instead(terminal: Terminal) -> None:
    shown = terminal.shown("%agent --provider offline panel")
    assert "A chat panel needs a notebook. Here `%agent PROMPT` is how to talk to the agent." in shown


def test_a_plain_ipython_without_a_terminal_prints_each_block_once(directory: Path) -> None:
    program = "\n".join(
        f"get_ipython().run_line_magic({magic!r}, {line!r})"
        for magic, line in (("load_ext", "indus_nb"), ("agent", "--provider offline list the files here"))
    )
    done = subprocess.run(
        [str(BIN / "ipython"), "--colors=NoColor", "-c", program],
        cwd=directory,
        env=private_environment(directory.parent),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("✓ bash  ls -la -- .") == 1
    assert done.stdout.count("Files in `.`") == 1
    assert "waiting" not in done.stdout
    assert "<" not in done.stdout
