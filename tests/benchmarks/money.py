"""What the same conversations cost: scripted sessions by the real programs, priced by a simulated prompt cache.

    python tests/benchmarks/money.py [--before REVISION] [--peer NAME=COMMAND] [--only coding notebook] [--json FILE]

A local server plays the model. It has a script of thinking, calls and answers, looks at every request, and reports the
usage that the cache (``simulated_cache.py``) would have had. Where an edit asks for a line that the request does not
hold (it was cut or cleared), the scripted model reads it again first, as a real one must. Between prompts time passes
on the clock of the measured process: ``sitecustomize.py``, put before its packages, adds an offset to ``time.time``.

- ``coding``: 25 prompts, 75 calls in the console: 30 reads, 15 edits, 25 commands (5 print 1,500 lines, 5 print 400)
  and 5 writes.
- ``notebook``: 25 prompts with 42 calls in a kernel, the user's own cells between them.

The price is that of what is sent, at Sonnet's prices; answers are the same for all. Tokens are those of the last
tokenizer that was published for Claude (in the wheel of anthropic 0.34.2, which is installed into a directory of its
own), else a 3.6th of the characters.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels import Kernel, private_environment
from messages_api import AS_ANTHROPIC, MessagesApi, Recorded, Reply, Thinking, ToolUse

from benchmarks.programs import a_home, kill_family
from benchmarks.simulated_cache import Bill, SimulatedCache, tokenizer

MODEL = "claude-sonnet-4-5"
PATIENCE = 1200.0
PROMPTS = 25
RHYTHMS: dict[str, Callable[[int], float]] = {
    "steady": lambda _: 30,
    "6 min before each prompt": lambda _: 360,
    "27 % of pauses above 5 min": lambda prompt: 600 if prompt * 27 % 100 < 27 else 60,
}
CLOCK = """
import mmap, os, struct, time
_offset = mmap.mmap(os.open(os.environ["SIMULATED_OFFSET"], os.O_RDONLY), 8, prot=mmap.PROT_READ)
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + struct.unpack_from("d", _offset)[0]
time.time_ns = lambda: _time_ns() + int(struct.unpack_from("d", _offset)[0] * 1e9)
"""
THOUGHT = (
    "The question is where this value comes from, so I look at the place that computes it and at who calls it. " * 4
)
SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 7, 9)
"""Files of the project, in KB."""


class Clock:
    """A clock that can be set forward, for this process and for those that are given its directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "sitecustomize.py").write_text(CLOCK)
        self._file = directory / "offset"
        self._file.write_bytes(bytes(8))
        with self._file.open("r+b") as file:
            self._offset = mmap.mmap(file.fileno(), 8)
        self.environment = {"PYTHONPATH": str(directory), "SIMULATED_OFFSET": str(self._file)}
        self._passed = 0.0

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._passed += seconds
        struct.pack_into("d", self._offset, 0, self._passed)

    def now(self) -> float:
        """Seconds since the epoch, as the processes see them."""
        return time.time() + self._passed


@dataclass
class Model:
    """The scripted model: answers in their order, and what was paid for the requests."""

    turns: Iterator[Sequence[ToolUse] | str]
    cache: SimulatedCache
    clock: Clock
    bill: Bill = field(default_factory=Bill)
    read_again: int = 0
    _waiting: Sequence[ToolUse] | None = None

    def __call__(self, request: Recorded) -> Reply:
        bill = self.cache.charge(request.body, self.clock.now())
        self.bill.add(bill)
        calls = self._next(request)
        blocks = [calls] if isinstance(calls, str) else [*calls]
        written = bill.short + bill.long
        usage = {
            "input_tokens": bill.input,
            "cache_read_input_tokens": bill.read,
            "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_5m_input_tokens": bill.short, "ephemeral_1h_input_tokens": bill.long},
        }
        return Reply(Thinking(THOUGHT), *blocks, usage=usage, final_usage={"output_tokens": 150}, at_once=True)

    def _next(self, request: Recorded) -> Sequence[ToolUse] | str:
        calls, self._waiting = self._waiting or next(self.turns), None
        for call in () if isinstance(calls, str) else calls:
            if call.name == "edit" and call.input["edits"][0]["oldText"] not in json.dumps(request.body["messages"]):
                self._waiting = calls
                self.read_again += 1
                line = int(call.input["edits"][0]["oldText"].split("_")[2].split(" ")[0])
                part = {"path": call.input["path"], "offset": max(line - 40, 1), "limit": 80}
                return [ToolUse("read", part)]
        return calls


def line_of(file: int, line: int) -> str:
    """A line of a file of the project."""
    return f"    value_{file}_{line} = compute(rows, column={line * 7 % 97}, limit={line})  # as agreed with the client"


def make_project(folder: Path) -> None:
    """Write the files that are read and changed."""
    for file, size in enumerate(SIZES):
        count = size * 1024 // len(line_of(file, 100))
        (folder / f"module_{file}.py").write_text("\n".join(line_of(file, line) for line in range(1, count + 1)))


def coding() -> Iterator[Sequence[ToolUse] | str]:
    """The calls of a session that changes a project, and what is said at the end of each prompt."""
    for prompt in range(PROMPTS):
        file = prompt * 5 % len(SIZES)
        reads = [file, (file + 7) % len(SIZES)] if prompt % 5 == 0 else [file]
        yield [ToolUse("read", {"path": f"module_{each}.py"}) for each in reads]
        if prompt % 5 in (1, 2, 3):
            line = (prompt * 37) % (SIZES[file] * 9) + 1
            old = line_of(file, line)
            new = old.replace("as agreed", f"checked {prompt}, as agreed")
            yield [ToolUse("edit", {"path": f"module_{file}.py", "edits": [{"oldText": old, "newText": new}]})]
        lines = {4: 1500, 0: 400}.get(prompt % 5, 15)
        tests = f"seq -f 'tests/test_module.py::test_case_%05g of run {prompt} PASSED' {lines}"
        calls = [ToolUse("bash", {"command": tests})]
        if prompt % 5 == 4:
            calls.append(
                ToolUse("write", {"path": f"notes_{prompt}.md", "content": "A note on what was found.\n" * 20})
            )
        yield calls
        yield f"Done with step {prompt}: the value is computed once, and its callers are as they were. The tests pass."


TABLE = """
for n in range(%d):
    print(f"{n:4d}  north-{n % 7}  {n * 31.7:10.2f}  {n % 13:3d}  2026-01-{n % 28 + 1:02d}")
"""


def analysis() -> Iterator[Sequence[ToolUse] | str]:
    """The calls of a session in a notebook."""
    for prompt in range(PROMPTS):
        rows = 300 if prompt % 5 == 4 else 30
        yield [ToolUse("python", {"code": TABLE.replace("%d", str(rows))})]
        if prompt % 6 == 1:
            yield [ToolUse("read", {"path": f"module_{prompt % 4 + 2}.py"})]
        elif prompt % 2 == 0:
            yield [ToolUse("python", {"code": f"total_{prompt} = sum(range({prompt + 5}))\ntotal_{prompt}"})]
        yield f"In step {prompt} the north is ahead by 12 %, which the second table shows; nothing else stands out."


def price_coding(command: Sequence[str], model: Model, pauses: Callable[[int], float], extra: dict[str, str]) -> None:
    """Let a program that speaks the protocol work through the script."""
    with MessagesApi() as api, a_home(api.url) as (home, known):
        api.default = model
        work = home / "work"
        work.mkdir()
        make_project(work)
        settings = {"approve": "never", "defaultTrust": "always", "compaction": {"enabled": False}}
        (home / "agent/settings.json").write_text(json.dumps(settings))
        arguments = ("--mode", "rpc", "--provider", "anthropic", "--model", MODEL, "--thinking", "low")
        with (home / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=work,
                env={**known, **extra},
            )
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        try:
            for prompt in range(PROMPTS):
                model.clock.wait(pauses(prompt))
                _prompt(
                    process, f"Step {prompt}: look at the module, put right what the client asked for, run the tests."
                )
        except BrokenPipeError:
            raise SystemExit((home / "errors").read_text()[-2000:]) from None
        finally:
            watchdog.cancel()
            kill_family(process)
        _check(api)


def _prompt(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"id": "p", "type": "prompt", "message": text}).encode() + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        frame = json.loads(line)
        if frame.get("type") == "agent_end" and not frame.get("willRetry"):
            return
        if frame.get("success") is False:
            raise SystemExit(f"the prompt was refused: {line[:500]!r}")
    raise BrokenPipeError


def price_notebook(model: Model, pauses: Callable[[int], float], extra: dict[str, str]) -> None:
    """Let the notebook's agent work through the script, in a kernel."""
    with tempfile.TemporaryDirectory(prefix="money-", ignore_cleanup_errors=True) as folder, MessagesApi() as api:
        api.default = model
        root = Path(folder)
        work = root / "work"
        work.mkdir()
        make_project(work)
        known = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="sk-none", **extra)
        (root / "agent" / "models.json").write_text(json.dumps({"providers": AS_ANTHROPIC}))
        with Kernel(work, known) as kernel:
            kernel.run("%load_ext indus_nb")
            for prompt in range(PROMPTS):
                kernel.run(f"step_{prompt} = [{prompt}, {prompt + 1}]\nsum(step_{prompt})")
                model.clock.wait(pauses(prompt))
                begin = f"--model {MODEL} --thinking low " if prompt == 0 else ""
                cell = kernel.run(
                    f"%agent {begin}Step {prompt}: compare the regions, and say what stands out.", PATIENCE
                )
                if cell.error is not None:
                    raise SystemExit(str(cell.error)[:2000])
        _check(api)


def _check(api: MessagesApi) -> None:
    if api.refusals:
        raise SystemExit(f"the API would have refused a request: {api.refusals[0]}")


@contextmanager
def exported(revision: str) -> Iterator[Path]:
    """The package as it was at a revision."""
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory(prefix="before-") as folder:
        packed = subprocess.run(["git", "archive", revision, "indus_nb"], cwd=root, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Path(folder)


def measured(scenario: str, command: Sequence[str] | Path | None, rhythm: str, count: Callable[[str], int]) -> Model:
    """Let one program work through one script.

    Args:
        command: How to start it; for ours the directory with its package, ``None`` for the installed one.
    """
    with tempfile.TemporaryDirectory(prefix="clock-") as folder:
        script = coding() if scenario == "coding" else analysis()
        model = Model(script, SimulatedCache(count), Clock(Path(folder, "clock")))
        extra = dict(model.clock.environment)
        if isinstance(command, Path):
            extra["PYTHONPATH"] = os.pathsep.join([str(command), extra["PYTHONPATH"]])
        if scenario == "notebook":
            price_notebook(model, RHYTHMS[rhythm], extra)
        elif isinstance(command, Path | None):
            price_coding([sys.executable, "-m", "indus_nb"], model, RHYTHMS[rhythm], extra)
        else:
            price_coding(command, model, RHYTHMS[rhythm], {})
    return model


def main() -> None:
    """Let every program work through every script, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="REVISION", help="the package at this revision of git, as well")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--only", nargs="*", choices=["coding", "notebook"], default=["coding", "notebook"])
    parser.add_argument("--tokenizer", type=Path, help="where anthropic 0.34.2 and tokenizers are installed already")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    count, counter = tokenizer(asked.tokenizer)
    figures: list[dict[str, Any]] = []
    peers = {name: command.split() for name, _, command in (peer.partition("=") for peer in asked.peer)}
    with exported(asked.before or "HEAD") as old:
        ours: dict[str, Path | None] = {"before": old, "now": None} if asked.before else {"now": None}
        for scenario in asked.only:
            for program, command in {**ours, **(peers if scenario == "coding" else {})}.items():
                for rhythm in RHYTHMS if scenario == "notebook" else [*RHYTHMS][:2]:
                    model = measured(scenario, command, rhythm, count)
                    known = {"scenario": scenario, "program": program, "rhythm": rhythm}
                    figures.append({**known, "again": model.read_again, **model.bill.figures()})
                    print(figures[-1], file=sys.stderr, flush=True)
    print(table(figures, counter))
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2))


def table(figures: Sequence[dict[str, Any]], counter: str) -> str:
    """The figures as Markdown; in brackets the share of what it cost before."""
    before = {(each["scenario"], each["rhythm"]): each["dollars"] for each in figures if each["program"] == "before"}
    rows = [
        f"Tokens by {counter}.\n",
        "| session | pauses | program | price of what is sent | requests | tokens sent | written to the cache |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in figures:
        base = before.get((each["scenario"], each["rhythm"]))
        share = f" ({each['dollars'] / base:.2f}x)" if base and each["program"] != "before" else ""
        written = each["short"] + each["long"]
        rows.append(
            f"| {each['scenario']} | {each['rhythm']} | {each['program']} | ${each['dollars']:.2f}{share} "
            f"| {each['requests']} | {each['sent'] / 1e6:.2f} M | {written / 1e3:.0f} k |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
