"""Files that are none: what waits when it is read or written, never ends, grows meanwhile, or leads in a circle."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indus_nb.tools import ToolContext, builtin_tools
from indus_nb.tools.files import read as read_module
from indus_nb.tools.tool import ToolError

PATIENCE = 240
BAD_PATTERNS = ["(a+)+$", "(a|a)*b", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?:(?:a{0,99}){0,99}){0,99}b"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="there is no such file")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with one thing of each kind, and a text file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "above").symlink_to("..", target_is_directory=True)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "back").symlink_to("../inner", target_is_directory=True)
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "text.txt").write_text("needle\n")
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        os.chdir(tmp_path)  # the name of a socket may not be long
        try:
            listening.bind("socket")
        finally:
            os.chdir(before)
        yield tmp_path


async def call(tool: str, folder: Path, **arguments: object) -> str:
    """The text of what a tool answers, in time, also when it refuses."""
    made: Any = builtin_tools(folder)[tool]
    async with asyncio.timeout(PATIENCE):
        try:
            output = await made.execute(made.check(arguments), ToolContext("1", lambda _: None))
        except ToolError as error:
            return f"refused: {error}"
    return "\n".join(getattr(block, "text", "") for block in output.content)


@pytest.mark.parametrize("name", ["pipe", "socket", "zero", "circle", "/dev/zero", "/dev/tty", "/dev/random", "inner"])
@pytest.mark.parametrize("tool", ["read", "edit", "grep"])
async def test_what_is_no_file_is_neither_read_nor_waited_for(tool: str, name: str, folder: Path) -> None:
    more = {"edit": {"edits": [{"oldText": "a", "newText": "b"}]}, "grep": {"pattern": "needle"}}.get(tool, {})
    said = await call(tool, folder, path=name, **more)
    assert said.startswith("refused: ") or (tool == "grep" and "No matches" in said)


@linux
@pytest.mark.parametrize("path", ["/proc/kmsg", "/proc/self/pagemap", "/proc/self/mem", "/proc/kcore", "/dev/kmsg"])
async def test_files_of_the_system_that_wait_or_never_end_are_given_up(
    path: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "_MAX_SECONDS", 1.0)
    assert await call("read", folder, path=path)


@linux
async def test_files_of_the_system_that_end_are_read(folder: Path) -> None:
    assert "Linux version" in await call("read", folder, path="/proc/version")


async def test_an_empty_file_is_said_to_be_empty(folder: Path) -> None:
    (folder / "empty").touch()
    assert await call("read", folder, path="empty") == "(empty file)"


@pytest.mark.parametrize("offset", [1, 2, 5_000])
async def test_a_file_that_has_no_end_in_sight_is_given_up(
    offset: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "_MAX_SECONDS", 0.3)
    with (folder / "huge").open("wb") as file:
        file.write(b"line\n" * 3_000)
        file.truncate(1 << 40)
    said = await call("read", folder, path="huge", offset=offset)
    assert "of more than" in said if offset < 3_000 else said.startswith("refused: Line 5000 of huge was not reached")


async def test_a_file_that_grows_while_it_is_read_is_read_to_an_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "_MAX_SECONDS", 0.5)
    over = threading.Event()
    (folder / "log").write_bytes(b"line\n" * 100_000)

    def grow() -> None:
        with (folder / "log").open("ab", buffering=0) as file:
            while not over.is_set() and file.tell() < 1 << 30:
                file.write(b"line\n" * 10_000)

    growing = threading.Thread(target=grow)
    growing.start()
    try:
        assert "[Lines 1-2000 of " in await call("read", folder, path="log")
    finally:
        over.set()
        growing.join()


@pytest.mark.parametrize("reader", ["nobody", "somebody who does not read"])
async def test_writing_to_a_pipe_waits_for_no_reader(
    reader: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indus_nb.base.files._PIPE_SECONDS", 0.2)
    held = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK) if reader != "nobody" else None
    try:
        assert (await call("write", folder, path="pipe", content="x" * 1_000_000)).startswith("refused: ")
    finally:
        if held is not None:
            os.close(held)


async def test_writing_to_a_pipe_that_is_read_writes_all(folder: Path) -> None:
    read: list[bytes] = []

    def take() -> None:
        with (folder / "pipe").open("rb") as pipe:
            ready.set()
            read.append(pipe.read())

    ready = threading.Event()
    held = os.open(folder / "pipe", os.O_RDWR)
    reading = threading.Thread(target=take)
    reading.start()
    ready.wait(PATIENCE)
    assert "Wrote 1000000 bytes" in await call("write", folder, path="pipe", content="x" * 1_000_000)
    os.close(held)
    reading.join(PATIENCE)
    assert read == [b"x" * 1_000_000]


async def test_listing_and_searching_pass_by_what_is_no_file_and_go_in_no_circle(folder: Path) -> None:
    assert {"pipe", "socket", "zero"} <= {line.rstrip("@/*") for line in (await call("ls", folder)).splitlines()}
    assert "text.txt" in await call("find", folder, pattern="*.txt")
    assert (await call("grep", folder, pattern="needle")).splitlines() == ["text.txt:1: needle"]


@pytest.mark.parametrize("pattern", BAD_PATTERNS)
@pytest.mark.parametrize("program", ["as installed", "the stand-in"])
async def test_a_catastrophic_pattern_is_given_up(
    program: str, pattern: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program == "the stand-in":
        monkeypatch.setenv("PATH", "")
    (folder / "bad").write_text("a" * 5_000 + "!\n")
    assert await call("grep", folder, pattern=pattern)
