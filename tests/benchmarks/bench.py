"""Whole processes measured from outside, side by side with peers in the same run.

    python tests/benchmarks/bench.py [--peer NAME=COMMAND ...] [--runs N] [--json FILE]

A peer is a program that speaks the same protocol, such as ``--peer "pi=node DIR/node_modules/.bin/pi"``. Every figure
is the median of interleaved runs; the table shows it with the ratio of ours to each peer's.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

MODEL = ("--provider", "anthropic", "--model", "claude-haiku-4-5")
ENTRIES = 20_000
PIPELINED = 2_000
DELTAS = (200, 1_000, 10_000)


class Source:
    """A model server that answers every request with the same stream, rendered beforehand."""

    def __init__(self, deltas: int) -> None:
        def event(name: str, **fields: Any) -> bytes:
            return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()

        usage = {"input_tokens": 100, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        delta = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "word "})
        self.body = b"".join(
            (
                event("message_start", message={**message, "stop_reason": None, "stop_sequence": None}),
                event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
                delta * deltas,
                event("content_block_stop", index=0),
                event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": deltas}),
                event("message_stop"),
            )
        )
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reading:
            length = 0
            for line in reading:
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                if line == b"\r\n":
                    break
            reading.read(length)
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            connection.sendall(head.encode() + self.body)


class Agent:
    """A running process, spoken to over pipes."""

    def __init__(self, command: list[str], home: Path, url: str) -> None:
        agent = home / "agent"
        agent.mkdir(parents=True, exist_ok=True)
        (agent / "models.json").write_text(json.dumps({"providers": {"anthropic": {"baseUrl": url}}}))
        (agent / "settings.json").write_text(json.dumps({"compaction": {"enabled": False}}))
        names = ("INDUSAGI_CODING_AGENT_DIR", "PI_CODING_AGENT_DIR")
        own = {"HOME": str(home), "ANTHROPIC_API_KEY": "sk-none", "ANTHROPIC_BASE_URL": url, "PI_OFFLINE": "1"}
        self.written = 0
        self.process = subprocess.Popen(
            [*command, "--mode", "rpc", *MODEL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env={**os.environ, **own, **dict.fromkeys(names, str(agent))},
            bufsize=1 << 20,
        )

    def send(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, mark: bytes) -> bytes:
        """Read lines until one begins with, or names, ``mark``."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.written += len(line)
            if mark in line[:200]:
                return line
        raise RuntimeError(f"{self.process.args} ended without {mark!r}")

    def ask(self, name: str, **fields: Any) -> None:
        self.send(id=f"q-{name}", type=name, **fields)
        self.until(f'"id":"q-{name}"'.encode())


@contextmanager
def running(command: list[str], url: str = "http://127.0.0.1:9", *arguments: str) -> Iterator[Agent]:
    with tempfile.TemporaryDirectory() as home:
        agent = Agent([*command, *arguments], Path(home), url)
        try:
            yield agent
        finally:
            agent.process.kill()
            agent.process.wait()


def seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def start(command: list[str]) -> dict[str, float]:
    began = time.perf_counter()
    with running(command, "http://127.0.0.1:9", "--no-session") as agent:
        agent.ask("get_state")
        taken = time.perf_counter() - began
        time.sleep(2)  # what is loaded in the background belongs to an idle process
        family = [psutil.Process(agent.process.pid)]
        family += family[0].children(recursive=True)
        return {
            "start to get_state, s": taken,
            "idle memory, MB": sum(process.memory_info().rss for process in family) / 1e6,
        }


def stream(deltas: int, wire: tuple[str, ...], name: str) -> Callable[[list[str]], dict[str, float]]:
    def measure(command: list[str]) -> dict[str, float]:
        source = Source(deltas)
        with running(command, source.url, "--no-session", *wire) as agent:
            agent.ask("get_state")
            for _ in range(2):  # the first prompt loads what the others find loaded
                agent.written = 0
                agent.send(type="prompt", message="talk")
                taken = seconds(lambda: agent.until(b'"type":"agent_end"') and None)
            return {
                f"{deltas:,} deltas, {name}, s": taken,
                f"{deltas:,} deltas, {name}, MB written": agent.written / 1e6,
            }

    return measure


def session_file(path: Path) -> Path:
    moment = "2026-01-01T00:00:00.000Z"
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "0199aaaa-0000-7000-8000-000000000000", "timestamp": moment, "cwd": "/"}
    ]
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    fixed = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-haiku-4-5", "stopReason": "stop"}
    for number in range(ENTRIES):
        message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "word " * 20}]}
        if number % 2:
            message |= {"role": "assistant", **fixed, "usage": {**usage, "cost": cost}}
        head = {"type": "message", "id": f"{number:08x}", "parentId": f"{number - 1:08x}" if number else None}
        lines.append({**head, "timestamp": moment, "message": {**message, "timestamp": 1767225600000}})
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def long_session(command: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(session_file(Path(folder) / "2026-01-01T00-00-00-000Z_0199aaaa.jsonl"))
        began = time.perf_counter()
        with running(command, "http://127.0.0.1:9", "--session", path) as agent:
            agent.ask("get_state")
            opened = time.perf_counter() - began
            messages = seconds(lambda: agent.ask("get_messages"))
        with running(command) as agent:
            agent.ask("get_state")
            switched = seconds(lambda: agent.ask("switch_session", sessionPath=path))
    named = f"{ENTRIES:,} entries"
    return {f"open {named}, s": opened, f"switch to {named}, s": switched, f"get_messages of {named}, s": messages}


def pipelined(command: list[str]) -> dict[str, float]:
    with running(command, "http://127.0.0.1:9", "--no-session") as agent:
        agent.ask("get_state")
        lines = b"".join(json.dumps({"id": f"n{n}", "type": "get_state"}).encode() + b"\n" for n in range(PIPELINED))

        def work() -> None:
            assert agent.process.stdin is not None
            agent.process.stdin.write(lines)
            agent.process.stdin.flush()
            for _ in range(PIPELINED):
                agent.until(b"")

        return {f"{PIPELINED:,} pipelined get_state, s": seconds(work)}


def bare(deltas: int) -> float:
    source = Source(deltas)
    host, port = source.url.removeprefix("http://").split(":")

    def work() -> None:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
            while connection.recv(1 << 16):
                pass

    return seconds(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    programs = {"ours": [sys.executable, "-m", "indus_nb"]}
    programs |= {name: shlex.split(command) for name, _, command in (peer.partition("=") for peer in options.peer)}
    medians = measured(programs, options.runs)
    if options.json:
        options.json.write_text(json.dumps(medians, indent=2) + "\n")
    print(table(medians, [*programs, "bare reader"]))


def measured(programs: dict[str, list[str]], runs: int) -> dict[str, dict[str, float]]:
    """The medians, by figure and program."""
    found: dict[str, dict[str, list[float]]] = {}

    def add(name: str, figures: dict[str, float]) -> None:
        for figure, value in figures.items():
            found.setdefault(figure, {}).setdefault(name, []).append(value)

    for _ in range(runs):
        for name, command in programs.items():
            for scenario in (start, *(stream(n, (), "default shape") for n in DELTAS), long_session, pipelined):
                add(name, scenario(command))
        add("ours", stream(DELTAS[-1], ("--wire", "delta"), "delta shape")(programs["ours"]))
        for deltas in DELTAS:
            add("bare reader", {f"{deltas:,} deltas, default shape, s": bare(deltas)})
    return {figure: {name: statistics.median(taken) for name, taken in by.items()} for figure, by in found.items()}


def table(medians: dict[str, dict[str, float]], names: list[str]) -> str:
    """The medians as Markdown, with the ratio of ours to each peer's."""
    rows = [["figure", *names], ["---"] * (len(names) + 1)]
    for figure, by in medians.items():
        row = [figure]
        for name in names:
            ratio = f" ({by['ours'] / by[name]:.2f} x)" if name not in ("ours", "bare reader") and name in by else ""
            row.append(f"{by[name]:.3g}{ratio}" if name in by else "")
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    main()
