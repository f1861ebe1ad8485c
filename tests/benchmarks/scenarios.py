"""What is measured: each scenario runs a program and returns its figures by name, whose end is the unit."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.programs import Agent, Answer, Program, ProgramError, answer_once, forget_files, memory, running
from benchmarks.workload import KEPT, ModelServer, write_session

PIPELINED = 1_000
FIRST = 200
DELTAS = (FIRST, 1_000, 4_000, 10_000)
OPENED = (20_000, 100_000)
LENGTHS = (1_000, 20_000, 100_000)
TURN_DELTAS = 20
TURNS_CONTEXT = 2 * KEPT

Figures = dict[str, float]


@dataclass(frozen=True)
class Scenario:
    """One thing to measure."""

    name: str
    measure: Callable[[Program], Figures]
    only_ours: bool = False
    bare: Callable[[], Figures] | None = None
    """The lower bound: the same work by a reader that does nothing with what it reads."""


def scenarios(processes: int, report: Callable[[str], None]) -> list[Scenario]:
    """All scenarios in the order of the table; ``report`` takes remarks on how something was measured."""
    return [
        Scenario("start", start),
        *(Scenario(f"deltas-{deltas}", prompts(deltas), bare=bare_reader(deltas)) for deltas in DELTAS),
        Scenario(f"wire-delta-{DELTAS[-1]}", prompts(DELTAS[-1], wire="delta"), only_ours=True),
        *(Scenario(f"open-{length}", opening(length)) for length in OPENED),
        *(
            Scenario(f"turn-{length}{'-compacted' if compacted else ''}", turns(length, compacted=compacted))
            for length in LENGTHS
            for compacted in (True, False)
        ),
        Scenario("pipelined", pipelined),
        Scenario("once-text", once_text),
        Scenario("once-json", once_json),
        Scenario("cold", cold(report)),
        Scenario("many", many(processes)),
    ]


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def model(deltas: int) -> Iterator[ModelServer]:
    """A model server for as long as it is needed."""
    server = ModelServer(deltas)
    try:
        yield server
    finally:
        server.close()


def start(program: Program) -> Figures:
    """Start, and memory before and after the first answer, each when nothing is loaded in the background any more."""
    with model(FIRST) as server, running(program, "--no-session", url=server.url) as agent:
        agent.ask("get_state")
        taken = time.perf_counter() - agent.began
        agent.settle()
        idle = memory(agent.process.pid)
        answer = agent.prompt(FIRST)
        agent.settle()
        answered = memory(agent.process.pid)
    return {
        "spawn to get_state, s": taken,
        f"first prompt of a process that was idle, {FIRST} deltas, s": answer.seconds,
        **{f"memory at start, {kind}, MB": size for kind, size in idle.items()},
        **{f"memory after the first answer, {kind}, MB": size for kind, size in answered.items()},
    }


def prompts(deltas: int, wire: str = "") -> Callable[[Program], Figures]:
    """The first prompt of a fresh process, right after get_state, and the second one when it is idle again."""
    named = f"{deltas:,} deltas{f', --wire {wire}' if wire else ''}"

    def measure(program: Program) -> Figures:
        shape = ("--wire", wire) if wire else ()
        with model(deltas) as server, running(program, "--no-session", *shape, url=server.url) as agent:
            agent.ask("get_state")
            first = agent.prompt(deltas)
            agent.settle()
            second = agent.prompt(deltas)
        to_delta = {f"{named}, first prompt, to its first delta, s": _first_delta(first)} if deltas == FIRST else {}
        return {
            **to_delta,
            f"{named}, first prompt, s": first.seconds,
            f"{named}, second prompt, s": second.seconds,
            f"{named}, written, MB": second.written / 1e6,
        }

    return measure


def _first_delta(answer: Answer) -> float:
    if answer.first_delta is None:
        raise ProgramError("the answer was not streamed")
    return answer.first_delta


@cache
def _sessions() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="bench-sessions-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@contextmanager
def session(messages: int, *, compacted: bool = False) -> Iterator[str]:
    """The path of a session file that may be written to."""
    original = _sessions() / f"{messages}-{compacted}.jsonl"
    if not original.exists():
        write_session(original, messages, compacted=compacted)
    with tempfile.TemporaryDirectory(prefix="bench-session-") as folder:
        yield str(shutil.copy(original, Path(folder) / "2026-01-01T00-00-00-000Z_0199aaaa.jsonl"))


def opening(entries: int) -> Callable[[Program], Figures]:
    """Start with a long session, read its messages; and switch to it from an empty one."""

    def measure(program: Program) -> Figures:
        with session(entries) as path:
            with running(program, "--session", path) as agent:
                state = agent.ask("get_state")
                opened = time.perf_counter() - agent.began
                _check_count(state, entries)
                began = time.perf_counter()
                answer = agent.ask("get_messages")
                messages = time.perf_counter() - began
            if (found := len(json.loads(answer)["data"]["messages"])) != entries:
                raise ProgramError(f"get_messages has {found} messages")
            with running(program) as agent:
                agent.ask("get_state")
                agent.settle()
                switched = seconds(lambda: agent.ask("switch_session", sessionPath=path))
                _check_count(agent.ask("get_state"), entries)
        named = f"{entries:,} entries"
        return {
            f"{named}, spawn to get_state, s": opened,
            f"{named}, switch_session, s": switched,
            f"{named}, get_messages, s": messages,
        }

    return measure


def _check_count(state: bytes, entries: int) -> None:
    if (found := json.loads(state)["data"]["messageCount"]) != entries:
        raise ProgramError(f"the open session has {found} messages")


def turns(length: int, *, compacted: bool) -> Callable[[Program], Figures]:
    """The first and the second turn after a session was opened, whose model sees all of it or what was compacted."""
    named = f"{length:,} entries, {'compacted' if compacted else 'all in the context'}"

    def measure(program: Program) -> Figures:
        with (
            session(length, compacted=compacted) as path,
            model(TURN_DELTAS) as server,
            running(program, "--session", path, url=server.url) as agent,
        ):
            agent.ask("get_state")
            agent.settle()
            first = agent.prompt(TURN_DELTAS)
            agent.settle()
            second = agent.prompt(TURN_DELTAS)
        asked = TURNS_CONTEXT if compacted else length
        if not all(asked <= messages <= asked + 10 for messages in server.messages):
            raise ProgramError(f"the model was asked with {server.messages} messages instead of about {asked}")
        return {f"{named}, first turn, s": first.seconds, f"{named}, second turn, s": second.seconds}

    return measure


def pipelined(program: Program) -> Figures:
    """Commands that are all written before the first response is read."""
    lines = b"".join(json.dumps({"id": f"n{n}", "type": "get_state"}).encode() + b"\n" for n in range(PIPELINED))
    with running(program, "--no-session") as agent:
        agent.ask("get_state")
        agent.settle()
        found: list[bytes] = []

        def work() -> None:
            threading.Thread(target=agent.write, args=(lines,), daemon=True).start()
            while len(found) < PIPELINED:
                found.append(agent.read())

        taken = seconds(work)
    if [json.loads(line).get("id") for line in found] != [f"n{n}" for n in range(PIPELINED)]:
        raise ProgramError("the responses are not those to the commands, in their order")
    return {f"{PIPELINED:,} pipelined get_state, /s": PIPELINED / taken}


def once_text(program: Program) -> Figures:
    """``-p``, which writes the answer when it is complete."""
    with model(FIRST) as server:
        found = answer_once(program, server, "-p")
    return {
        "once, -p, spawn to the request, s": found.request,
        "once, -p, spawn to exit, s": found.exit,
    }


def once_json(program: Program) -> Figures:
    """``--mode json``, which writes events as they come."""
    with model(FIRST) as server:
        found = answer_once(program, server, "--mode", "json")
    if found.first_delta is None:
        raise ProgramError("the answer was not streamed")
    return {
        "once, --mode json, spawn to the first delta, s": found.first_delta,
        "once, --mode json, spawn to exit, s": found.exit,
    }


def cold(report: Callable[[str], None]) -> Callable[[Program], Figures]:
    """Start and first prompt of a program whose files have to be read from the disk."""

    def measure(program: Program) -> Figures:
        with model(FIRST) as server:
            report(f"Cold start: {forget_files(program)}; what running processes have mapped stays.")
            with running(program, "--no-session", url=server.url) as agent:
                agent.ask("get_state")
                taken = time.perf_counter() - agent.began
                first = agent.prompt(FIRST)
        return {
            "cold, spawn to get_state, s": taken,
            f"cold, first prompt, {FIRST} deltas, s": first.seconds,
        }

    return measure


def many(processes: int) -> Callable[[Program], Figures]:
    """Processes that start at the same time, and answer one prompt each."""

    def measure(program: Program) -> Figures:
        agents: list[Agent] = []
        problems: list[Exception] = []
        answered = threading.Barrier(processes + 1)
        looked = threading.Event()

        def one(url: str) -> None:
            try:
                with running(program, url=url) as agent:
                    agent.ask("get_state")
                    agent.prompt(FIRST)
                    agents.append(agent)
                    answered.wait()
                    looked.wait()
            except Exception as error:
                problems.append(error)
                answered.abort()

        with model(FIRST) as server:
            threads = [threading.Thread(target=one, args=(server.url,)) for _ in range(processes)]
            began = time.perf_counter()
            try:
                for thread in threads:
                    thread.start()
                answered.wait()
                taken = time.perf_counter() - began
                sizes = memory(*(agent.process.pid for agent in agents))
            except threading.BrokenBarrierError:
                raise problems[0] from None
            finally:
                looked.set()
                for thread in threads:
                    thread.join()
        return {
            f"{processes} processes, to the last answer, s": taken,
            **{f"{processes} processes, {kind}, MB": size for kind, size in sizes.items() if kind != "USS"},
        }

    return measure


def bare_reader(deltas: int) -> Callable[[], Figures]:
    """The model's answer read from the socket, and nothing done with it."""

    def measure() -> Figures:
        def work() -> None:
            with socket.create_connection(server.address) as connection:
                connection.sendall(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
                while connection.recv(1 << 16):
                    pass

        with model(deltas) as server:
            return {f"{deltas:,} deltas, second prompt, s": seconds(work)}

    return measure
