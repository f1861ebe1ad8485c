"""Terminals: no escape code of a model, a file, a project or a server reaches one."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from messages_api import HttpError, MessagesApi, Reply
from rpc_process import environment

from indus_nb.base.terminal import PlainFormatter, plain
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.output import TerminalScreen

OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
CODES = {
    "a colour": "\x1b[31mred\x1b[0m",
    "a cleared screen": "\x1b[2J\x1b[H\x1bc",
    "a title": "\x1b]0;title\x07\x1b]2;title\x1b\\",
    "a link": "\x1b]8;;http://host\x1b\\x\x1b]8;;\x1b\\",
    "the clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "a question to the terminal": "\x1b[6n\x1b[c\x1bP$q\x1b\\\x05",
    "codes of one character": "\x9b31m\x9d0;title\x9c\x90x\x9c\x85\x84\x8d",
    "a half code": "\x1b",
    "a half title": "\x1b]0;",
    "codes within codes": "\x1b[\x1b[31m\x1b]\x1b]0;x\x07",
    "what is written over": "safe\r\x1b[Kevil\x08\x08\x7f",
    "another direction": "\u202egnp.exe\u2066x\u2069",
    "half a character": "\ud83d",
}
ALL = "".join(code for name, code in CODES.items() if name not in ("half a character", "a half title"))


@pytest.mark.parametrize("name", CODES)
def test_no_code_is_left_in_plain_text(name: str) -> None:
    for text in (CODES[name], f"a{CODES[name]}b", CODES[name] * 3, "".join(f"{sign}\n" for sign in CODES[name])):
        assert not OBEYED.search(plain(text)), repr(plain(text))
        plain(text).encode()
    assert plain("größer\tund\nmehr 😀") == "größer\tund\nmehr 😀"


def models(home: Path) -> list[str]:
    write(home / "agent/models.json", {"providers": {ALL: {"baseUrl": 5, "models": [{"id": ALL}]}}})
    return ["--list-models"]


def listed(home: Path) -> list[str]:
    provider = {"baseUrl": "http://127.0.0.1:9", "api": "openai-completions", "apiKey": "k"}
    known = {"id": f"m{ALL}", "name": ALL}
    write(home / "agent/models.json", {"providers": {f"p{ALL}": {**provider, "models": [known]}}})
    return ["--list-models"]


def settings(home: Path) -> list[str]:
    write(home / "agent/settings.json", {ALL: 1, "approve": ALL, "retry": {ALL: ALL}})
    return ["--provider", "offline", "--no-session", "hi"]


def broken_settings(home: Path) -> list[str]:
    (home / "agent").mkdir(exist_ok=True)
    (home / "agent/settings.json").write_text(f'{{"{ALL}": }}')
    return ["--provider", "offline", "--no-session", "hi"]


def a_model(_home: Path) -> list[str]:
    return ["--model", ALL.replace("\x00", ""), "hi"]


def a_provider(_home: Path) -> list[str]:
    return ["--provider", ALL, "hi"]


def an_option(_home: Path) -> list[str]:
    return ["--mode", ALL, f"--{ALL}", "hi"]


def another_option(_home: Path) -> list[str]:
    return [f"--{ALL}", "--provider", "offline", "hi"]


def a_session(home: Path) -> list[str]:
    path = home / "s.jsonl"
    path.write_text(json.dumps({"type": "session", "version": ALL, "id": ALL, "cwd": ALL}) + "\n{" + ALL + "\n")
    return ["--provider", "offline", "--session", str(path), "hi"]


def a_missing_session(_home: Path) -> list[str]:
    return ["--provider", "offline", "--session", ALL, "hi"]


def a_file(_home: Path) -> list[str]:
    return ["--provider", "offline", f"@{ALL}", "hi"]


def an_extension(home: Path) -> list[str]:
    path = home / "broken.py"
    path.write_text(f"raise ValueError({ALL!r})\n")
    return ["--provider", "offline", "--no-session", "-e", str(path), "hi"]


def an_extension_in_work(home: Path) -> list[str]:
    path = home / "broken.py"
    path.write_text(
        f"def setup(api):\n    @api.on('agent_start')\n    def fail(*_):\n        raise ValueError({ALL!r})\n"
    )
    return ["--provider", "offline", "--no-session", "-e", str(path), "hi"]


def a_missing_extension(home: Path) -> list[str]:
    return ["--provider", "offline", "--no-session", "-e", f"{home}/{ALL}.py", "hi"]


def a_skill(home: Path) -> list[str]:
    folder = home / "skills/odd"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {json.dumps(ALL)}\n{ALL}: [\n---\n")
    return ["--provider", "offline", "--no-session", "--skill", str(home / "skills"), "hi"]


def a_server(home: Path) -> list[str]:
    write(home / "agent/settings.json", {"mcpServers": {ALL: {"command": ALL}, "b": {ALL: ALL}}})
    return ["--provider", "offline", "--no-session", "hi"]


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


PLACES = [
    *(models, listed, settings, broken_settings, a_model, a_provider, an_option, another_option, a_session, a_file),
    *(a_missing_session, an_extension, an_extension_in_work, a_missing_extension, a_skill, a_server),
]


def shown(arguments: list[str], home: Path, cwd: Path, **variables: str) -> str:
    """What the program writes to a terminal, as that gets it."""
    process = pexpect.spawn(
        sys.executable,
        ["-m", "indus_nb", *arguments],
        cwd=str(cwd),
        env={**environment(home), **variables, "TERM": "xterm"},
        echo=False,
    )
    process.expect(pexpect.EOF)
    process.close()
    return process.before.decode(errors="replace").replace("\r\n", "\n")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_no_code_reaches_the_terminal_of_the_program(place: Callable[[Path], list[str]], tmp_path: Path) -> None:
    seen = shown(place(tmp_path), tmp_path, tmp_path)
    assert seen.strip()
    assert not OBEYED.search(seen), seen
    assert "\r" not in seen


def test_no_code_of_a_directory_an_answer_or_a_failure_reaches_it(tmp_path: Path, messages_api: MessagesApi) -> None:
    folder = tmp_path / ALL.replace("/", "")
    folder.mkdir()
    (folder / "AGENTS.md").write_text(ALL)
    messages_api.add(Reply(f"well {ALL}"), HttpError(400, f"no {ALL}"))
    server = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "k"}
    for begin in ("well ", "indus-nb: "):
        seen = shown(["--provider", "anthropic", "--model", "haiku", "--trust", "hi"], tmp_path, folder, **server)
        assert begin in seen
        assert not OBEYED.search(seen), seen


def test_no_text_can_pose_as_another_sentence_of_the_program(tmp_path: Path) -> None:
    seen = shown(["--model", "x\nindus-nb: all is well\rindus-nb: and more", "hi"], tmp_path, tmp_path)
    assert len(re.findall("^indus-nb: ", seen, re.MULTILINE)) == 1


def test_the_log_has_no_codes_either() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainFormatter())
    failure = ValueError(ALL)
    handler.emit(logging.LogRecord("n", logging.ERROR, ALL, 1, "failed: %s", (ALL,), (ValueError, failure, None)))
    assert "failed: " in stream.getvalue()
    assert not OBEYED.search(stream.getvalue())


def test_no_block_writes_a_code_to_ipython_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal in (False, True):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr(sys, "stdout", stream)
        screen = TerminalScreen()
        for bundle in (
            blocks.answer(ALL),
            blocks.folded(ALL, ALL),
            blocks.call(blocks.Call(ALL, {ALL: ALL}, state="done", output=ALL)),
            blocks.user_message(ALL),
            blocks.error(ALL),
            blocks.notice(ALL),
            blocks.listing(ALL),
            {"text/plain": ALL},
        ):
            screen.show(bundle, final=False)
            screen.show(bundle, final=True)
        written = stream.getvalue().replace("\r\x1b[K", "")
        assert not OBEYED.search(written), repr(written)


def test_an_error_of_the_magic_has_no_codes(tmp_path: Path) -> None:
    line = re.sub(r"[\r\n]", "", f"%agent --session {ALL} hi")
    program = (
        "from IPython.testing.globalipapp import start_ipython\n"
        "shell = start_ipython()\n"
        "shell.run_line_magic('load_ext', 'indus_nb')\n"
        f"shell.run_cell({line!r})\n"
    )
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    (told,) = (row for row in (done.stdout + done.stderr).split("\n") if "Error: " in row)
    assert not OBEYED.search(told), told
