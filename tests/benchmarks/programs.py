"""The measured programs as processes: ours and its peers, spoken to over pipes and looked at from outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
from rpc_process import environment

from benchmarks.workload import WORD, ModelServer

MODEL = ("--provider", "anthropic", "--model", "claude-haiku-4-5")
NOWHERE = "http://127.0.0.1:9"
PATIENCE = 300.0
_QUIET = 0.5
_KEPT_DELTAS = 1_000
"""Up to so many deltas every line of an answer is kept, to count their text; else the finished messages alone."""


class ProgramError(Exception):
    """A program did something else than what was to be measured."""


@dataclass(frozen=True)
class Program:
    """A program that speaks the protocol."""

    name: str
    command: tuple[str, ...]

    @property
    def ours(self) -> bool:
        """Whether this is the program that the others are compared with."""
        return self.name == "ours"

    @cached_property
    def version(self) -> str:
        """What it says of itself."""
        try:
            said = subprocess.run([*self.command, "--version"], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return "unknown"
        return (said.stdout.strip() or said.stderr.strip() or "unknown").splitlines()[-1]


@contextmanager
def a_home(url: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """An empty home directory whose settings name the model server, and the environment that leads there."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        agent = home / "agent"
        agent.mkdir()
        (agent / "models.json").write_text(
            json.dumps({"providers": {"anthropic": {"baseUrl": url, "compat": {"supportsLongCacheRetention": True}}}})
        )
        (agent / "settings.json").write_text(json.dumps({"compaction": {"enabled": False}}))
        known = environment(
            home,
            ANTHROPIC_API_KEY="sk-none",
            ANTHROPIC_BASE_URL=url,
            PI_CODING_AGENT_DIR=str(agent),
            PI_OFFLINE="1",
        )
        yield home, {name: value for name, value in known.items() if not name.startswith("PYTHON")}


@dataclass
class Answer:
    """One answer as it was seen from outside; times in seconds since the prompt was sent."""

    seconds: float
    first_delta: float | None
    written: int
    updates: int
    lines: list[bytes] = field(repr=False)

    def check(self, deltas: int) -> None:
        """Whether it has the text of so many deltas.

        Raises:
            ProgramError: It has not.
        """
        found = [json.loads(line) for line in self.lines]
        ends = [frame["message"] for frame in found if frame["type"] == "message_end"]
        answers = [message for message in ends if message["role"] == "assistant"]
        texts = [block["text"] for message in answers for block in message["content"] if block["type"] == "text"]
        if texts != [WORD * deltas]:
            why = next((message.get("errorMessage") for message in answers if message.get("errorMessage")), texts)
            raise ProgramError(f"the answer has not the text of {deltas} deltas: {str(why)[:200]}")
        if deltas <= _KEPT_DELTAS:
            events = [frame["assistantMessageEvent"] for frame in found if frame["type"] == "message_update"]
            streamed = "".join(event["delta"] for event in events if event["type"] == "text_delta")
            if streamed != texts[0]:
                raise ProgramError(f"the deltas have {len(streamed)} characters, the answer {len(texts[0])}")
        elif self.updates == 0:
            raise ProgramError("the answer was not streamed")


class Agent:
    """A running process in RPC mode."""

    def __init__(self, process: subprocess.Popen[bytes], began: float, errors: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.began = process, began
        self._in, self.out = process.stdin, process.stdout
        self._errors = errors
        self._ids = 0
        self.url = NOWHERE

    def write(self, lines: bytes) -> None:
        """Write lines, all at once."""
        self._in.write(lines)
        self._in.flush()

    def read(self) -> bytes:
        """The next line.

        Raises:
            ProgramError: The process has ended.
        """
        if line := self.out.readline():
            return line
        raise ProgramError(f"the process ended or was stopped after {PATIENCE:g} s: {_last_words(self._errors)}")

    def ask(self, name: str, **fields: Any) -> bytes:
        """Send a command, and read up to its response, which is returned."""
        self._ids += 1
        wanted = f'"id":"q{self._ids}"'.encode()
        self.write(json.dumps({"id": f"q{self._ids}", "type": name, **fields}).encode() + b"\n")
        while wanted not in (line := self.read())[:200]:
            pass
        if b'"success":true' not in line[:200]:
            raise ProgramError(f"{name}: {line[:300].decode(errors='replace')}")
        return line

    def prompt(self, deltas: int) -> Answer:
        """Send a prompt, read up to ``agent_end``, and check that the answer has the text of so many deltas."""
        lines: list[bytes] = []
        kept = b'{"type":"message_' if deltas <= _KEPT_DELTAS else b'{"type":"message_end"'
        first, written, updates = None, 0, 0
        began = time.perf_counter()
        self.write(b'{"id":"p","type":"prompt","message":"talk"}\n')
        while True:
            line = self.read()
            written += len(line)
            updates += line.startswith(b'{"type":"message_update"')
            if first is None and b'"text_delta"' in line:
                first = time.perf_counter() - began
            if line.startswith(kept):
                lines.append(line)
            elif line.startswith(b'{"type":"agent_end"'):
                break
            elif b'"success":false' in line[:200]:
                raise ProgramError(f"prompt: {line[:300].decode(errors='replace')}")
        answer = Answer(time.perf_counter() - began, first, written, updates, lines)
        answer.check(deltas)
        return answer

    def settle(self, at_most: float = 15.0) -> None:
        """Wait until the process uses no processor time: what it loads in the background is there."""
        until = time.perf_counter() + at_most
        before = self._processor_time()
        while time.perf_counter() < until:
            time.sleep(_QUIET)
            if (now := self._processor_time()) - before < _QUIET / 50:
                return
            before = now

    def _processor_time(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in family(self.process.pid))


def _last_words(errors: Path) -> str:
    """Of what a process wrote to standard error, the line that says why it ended."""
    said = errors.read_text(errors="replace").strip().splitlines()
    return next((line for line in said if "Error" in line), said[-1] if said else "silently")


@contextmanager
def running(program: Program, *arguments: str, url: str = NOWHERE) -> Iterator[Agent]:
    """A process in RPC mode, killed at the end or when it takes too long."""
    with a_home(url) as (home, known), (home / "errors").open("wb") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            [*program.command, "--mode", "rpc", *MODEL, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=home,
            env=known,
            bufsize=1 << 20,
        )
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            yield Agent(process, began, home / "errors")
        finally:
            watchdog.cancel()
            kill_family(process)


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it has started, as far as they run."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it has started, and close the pipes to it."""
    for member in family(process.pid):
        with suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what was not written yet, and nobody reads
            if pipe is not None:
                pipe.close()


def memory(*pids: int) -> dict[str, float]:
    """The memory of processes with all that they have started, in MB: RSS, and where the system says so PSS and USS."""
    found: dict[str, float] = {}
    for process in (member for pid in pids for member in family(pid)):
        try:
            info = process.memory_full_info()
        except psutil.Error:
            info = process.memory_info()
        for kind in ("rss", "pss", "uss"):
            if hasattr(info, kind):
                found[kind.upper()] = found.get(kind.upper(), 0) + getattr(info, kind) / 1e6
    return found


@dataclass(frozen=True)
class Once:
    """One prompt on the command line; times in seconds since the process was spawned."""

    request: float
    first_output: float
    first_delta: float | None
    exit: float


def answer_once(program: Program, server: ModelServer, *arguments: str) -> Once:
    """Run the program with a prompt on its command line to its end, and check what it wrote."""
    with a_home(server.url) as (home, known), (home / "errors").open("wb") as errors:
        before = len(server.requested)
        began = time.perf_counter()
        process = subprocess.Popen(
            [*program.command, *arguments, *MODEL, "talk"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=home,
            env=known,
        )
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            assert process.stdout is not None
            first_output = first_delta = None
            lines: list[bytes] = []
            for line in process.stdout:
                now = time.perf_counter() - began
                first_output = first_output or now
                if first_delta is None and b'"text_delta"' in line:
                    first_delta = now
                lines.append(line)
            status = process.wait()
            ended = time.perf_counter() - began
        finally:
            watchdog.cancel()
            kill_family(process)
        said = _last_words(home / "errors")
    output = b"".join(lines)
    if status or first_output is None or output.count(WORD.strip().encode()) < server.deltas:
        raise ProgramError(f"{' '.join(arguments)} ended with {status}: {output[:200]!r} {said}")
    return Once(server.requested[before] - began, first_output, first_delta, ended)


def forget_files(program: Program) -> str:
    """Drop the page cache, or where that is not allowed what it has of the program's files; returns which."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        if not hasattr(os, "posix_fadvise"):
            raise ProgramError("this system does not let a program drop its page cache") from None
    else:
        return "the whole page cache was dropped"
    for path in set(_installation(program)):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return "the files of the installations were dropped from the page cache"


def _installation(program: Program) -> Iterator[Path]:
    """The files that a program consists of: its environment or ``node_modules``, and its interpreter."""
    words = (shutil.which(program.command[0]) or "", *program.command[1:])
    for word in (Path(word).absolute() for word in words if Path(word).is_file()):
        yield word.resolve()
        for parent in {*word.parents, *word.resolve().parents}:
            if parent.name == "node_modules":
                yield from _files(parent)
            elif (parent / "pyvenv.cfg").is_file():
                yield from _files(parent)
                config = (parent / "pyvenv.cfg").read_text().splitlines()
                for home in (line.partition("=")[2].strip() for line in config if line.startswith("home")):
                    for library in (Path(home).parent / "lib").glob("python3.*"):
                        yield from _files(library)


def _files(folder: Path) -> Iterator[Path]:
    """All files below, without what is installed into an interpreter that only lends its library."""
    for place, folders, names in os.walk(folder):
        if not _belongs_to_environment(Path(place)):
            folders[:] = [name for name in folders if name != "site-packages"]
        yield from (Path(place, name) for name in names)


def _belongs_to_environment(library: Path) -> bool:
    return not library.name.startswith("python3.") or (library.parent.parent / "pyvenv.cfg").is_file()
