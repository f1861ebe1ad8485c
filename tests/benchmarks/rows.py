"""How many rows of ``agent.map`` end in a second, and what they cost, beside a bare loop and a peer.

    python tests/benchmarks/rows.py [--rows 600] [--parallel 16] [--delay 0.2] [--runs 5] [--tls] [--only NAME ...]
        [--json FILE]

Each way to ask is a process of its own, which asks one row before its clock begins; the ways take turns, ``--runs``
times each, and medians are shown. All ask the same server, which is a process that answers after ``--delay`` seconds.
With ``--delay 0`` what is left is the processor time of the asking process. The peer is chatlas, which is no
dependency: ``pip install chatlas``; without it its lines are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows_server import ORDER, TEXT

MODEL = "claude-haiku-4-5"
MAX_TOKENS = 4096
PROMPT = "What is ordered? {text}"
SERVER = Path(__file__).with_name("rows_server.py")
Way = Callable[[Sequence[str], int], Any]


class Order(BaseModel):
    """What is ordered."""

    pieces: int
    article: str


class Figures(NamedTuple):
    """What one way to ask took in one process."""

    rows_per_second: float
    cpu_ms_per_row: float
    peak_mb: float
    connections: float


def ours(texts: Sequence[str], parallel: int) -> Any:
    """``agent.map`` for texts."""
    return _map(texts, parallel)


def ours_journal(texts: Sequence[str], parallel: int) -> Any:
    """``agent.map`` for texts, with a journal."""
    with tempfile.TemporaryDirectory() as directory:
        return _map(texts, parallel, journal=Path(directory) / "rows.jsonl")


def ours_typed(texts: Sequence[str], parallel: int) -> Any:
    """``agent.map`` for values of a pydantic model."""
    return _map(texts, parallel, result=Order)


def _map(texts: Sequence[str], parallel: int, **options: Any) -> Any:
    from indus_nb import agent

    rows = [{"text": text} for text in texts]
    done = agent.map(PROMPT, rows, parallel=parallel, max_tokens=MAX_TOKENS, progress=False, **options)
    if done.failed:
        raise RuntimeError(done.rows[done.failed[0]].error)
    return list(done)


def bare(texts: Sequence[str], parallel: int) -> Any:
    """A loop over the SDK, streaming."""
    return asyncio.run(_bare(texts, parallel, streaming=True))


def bare_whole(texts: Sequence[str], parallel: int) -> Any:
    """A loop over the SDK, not streaming."""
    return asyncio.run(_bare(texts, parallel, streaming=False))


def bare_typed(texts: Sequence[str], parallel: int) -> Any:
    """A loop over the SDK, streaming, with a tool for the answer."""
    return asyncio.run(_bare(texts, parallel, streaming=True, typed=True))


async def _bare(texts: Sequence[str], parallel: int, *, streaming: bool, typed: bool = False) -> Any:
    from anthropic import AsyncAnthropic

    found: list[Any] = [None] * len(texts)
    waiting = iter(enumerate(texts))
    tool = {"name": "answer", "description": "Give the answer.", "input_schema": Order.model_json_schema()}
    tools: dict[str, Any] = {"tools": [tool], "tool_choice": {"type": "tool", "name": "answer"}} if typed else {}
    async with AsyncAnthropic() as client:

        async def work() -> None:
            for number, text in waiting:
                request: dict[str, Any] = {
                    "model": MODEL,
                    "max_tokens": MAX_TOKENS,
                    "messages": [{"role": "user", "content": PROMPT.format(text=text)}],
                    **tools,
                }
                message: Any
                if streaming:
                    async with client.messages.stream(**request) as stream:
                        message = await stream.get_final_message()
                else:
                    message = await client.messages.create(**request)
                block = message.content[0]
                found[number] = Order.model_validate(block.input) if typed else block.text

        await asyncio.gather(*(work() for _ in range(parallel)))
    return found


def chatlas(texts: Sequence[str], parallel: int) -> Any:
    """``parallel_chat`` of chatlas."""
    import chatlas as peer

    chat = peer.ChatAnthropic(model=MODEL, max_tokens=MAX_TOKENS)
    prompts: Any = [PROMPT.format(text=text) for text in texts]
    done = asyncio.run(peer.parallel_chat(chat, prompts, max_active=parallel, rpm=10**9))
    return [each.get_last_turn().text for each in done]  # type: ignore[union-attr]


def chatlas_typed(texts: Sequence[str], parallel: int) -> Any:
    """``parallel_chat_structured`` of chatlas."""
    import chatlas as peer

    chat = peer.ChatAnthropic(model=MODEL, max_tokens=MAX_TOKENS)
    prompts: Any = [PROMPT.format(text=text) for text in texts]
    done = asyncio.run(peer.parallel_chat_structured(chat, prompts, Order, max_active=parallel, rpm=10**9))
    return [each.data for each in done]  # type: ignore[union-attr]


WAYS: dict[str, Way] = {
    "agent.map": ours,
    "agent.map, journal": ours_journal,
    "bare loop, streaming": bare,
    "bare loop, not streaming": bare_whole,
    "chatlas parallel_chat": chatlas,
    "agent.map, typed": ours_typed,
    "bare loop, typed, streaming": bare_typed,
    "chatlas parallel_chat_structured": chatlas_typed,
}
BASES = {"typed": "bare loop, typed, streaming", "": "bare loop, streaming"}


def main() -> None:
    """Measure the ways that are asked for in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tls", action="store_true", help="ask over TLS")
    parser.add_argument("--only", nargs="+", choices=[*WAYS], default=[*WAYS])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=[*WAYS], help=argparse.SUPPRESS)  # what this program starts itself with
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(_measured(WAYS[asked.one], asked.rows, asked.parallel)))
        return
    names = asked.only
    if importlib.util.find_spec("chatlas") is None:
        names = [name for name in names if not name.startswith("chatlas")]
        print("chatlas is not measured: pip install chatlas", file=sys.stderr)
    found: dict[str, list[Figures]] = {name: [] for name in names}
    for _ in range(asked.runs):
        for name in names:
            with served(asked.delay, tls=asked.tls) as environment:
                found[name].append(_in_process(name, asked.rows, asked.parallel, environment))
    print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps({name: [run._asdict() for run in runs] for name, runs in found.items()}))


def _measured(way: Way, count: int, parallel: int) -> dict[str, float]:
    """Ask in this process, after one row that lets everything be imported."""
    texts = [f"{number} bolts M6, please, with the next delivery" for number in range(count)]
    way(texts[:1], 1)
    _counted()
    process = psutil.Process()
    began, used = time.perf_counter(), sum(process.cpu_times()[:2])
    answers = way(texts, parallel)
    seconds, cpu = time.perf_counter() - began, sum(process.cpu_times()[:2]) - used
    counts = _counted()
    if len(answers) != count or any(answer not in (TEXT, Order.model_validate(ORDER)) for answer in answers):
        raise RuntimeError(f"an answer is wrong: {answers[:3]}")
    if counts["requests"] != count:
        raise RuntimeError(f"{count} rows took {counts['requests']} requests")
    return Figures(count / seconds, cpu / count * 1000, _peak_mb(), counts["connections"])._asdict()


def _counted() -> dict[str, int]:
    with urllib.request.urlopen(os.environ["ANTHROPIC_BASE_URL"]) as answer:
        return json.load(answer)


def _peak_mb() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def _in_process(name: str, rows: int, parallel: int, environment: dict[str, str]) -> Figures:
    command = [sys.executable, __file__, "--one", name, "--rows", str(rows), "--parallel", str(parallel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def served(delay: float, *, tls: bool) -> Generator[dict[str, str]]:
    """Run the server, and yield the environment of a process that asks it."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, str(SERVER), "--delay", str(delay)]
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment |= {"HOME": directory, "INDUS_NB_AGENT_DIR": f"{directory}/agent"}
        environment |= {"ANTHROPIC_API_KEY": "sk-test"}
        if tls:
            command += ["--certificate", _certificate(Path(directory))]
            environment["SSL_CERT_FILE"] = f"{directory}/authority.pem"
        agent = Path(directory) / "agent"
        agent.mkdir()
        (agent / "settings.json").write_text(json.dumps({"defaultModel": MODEL}))
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with server:
            try:
                assert server.stdout is not None
                port = server.stdout.readline().strip()
                environment["ANTHROPIC_BASE_URL"] = f"http{'s' if tls else ''}://127.0.0.1:{port}"
                yield environment
            finally:
                with suppress(ProcessLookupError):
                    server.terminate()


def _certificate(directory: Path) -> str:
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "authority.pem"))
    path = directory / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


def table(found: dict[str, list[Figures]]) -> str:
    """Return a table of medians; the numbers in brackets are divided by those of the bare loop that streams."""
    medians = {
        name: Figures(*(statistics.median(column) for column in zip(*runs, strict=True)))
        for name, runs in found.items()
        if runs
    }
    lines = ["| | rows/s | CPU, ms a row | peak MB | connections |", "|---|---|---|---|---|"]
    for name, figures in medians.items():
        base = medians.get(BASES["typed" if "typed" in name or "structured" in name else ""])

        def cell(value: float, of: float | None) -> str:
            return f"{value:.3g}" if of is None else f"{value:.3g} ({value / of:.2f} x)"

        rate = cell(figures.rows_per_second, base and base.rows_per_second)
        cpu = cell(figures.cpu_ms_per_row, base and base.cpu_ms_per_row)
        lines.append(f"| {name} | {rate} | {cpu} | {figures.peak_mb:.0f} | {figures.connections:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
