"""How many rows of ``agent.map`` are answered in a second, and what they cost, beside a bare loop and peers.

    python tests/benchmarks/rows.py [--rows 600] [--parallel 16] [--delay 0.2] [--runs 5] [--tls] [--only NAME ...]
        [--refuse P] [--fail P] [--limit RATE --burst N [--headers]] [--retry-after SECONDS]
        [--python PEER=INTERPRETER ...] [--json FILE]

Each way to ask (``rows_ways.py``) is a process of its own, which asks one row before its clock begins; the ways take
turns, ``--runs`` times each, and medians are shown. All ask the same server (``rows_server.py``), which is a process
that answers after ``--delay`` seconds, and fails and refuses as it is told. With ``--delay 0`` what is left is the
processor time of the asking process. Peers that are not installed are left out: ``pip install chatlas instructor
"pydantic-ai-slim[anthropic]"``; one that needs an environment of its own is asked by the interpreter that ``--python``
names.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows_server import ORDER, TEXT
from benchmarks.rows_ways import MARKED, PACKAGES, WAYS, Order, Task, Way, is_typed, peer_of

MODEL = "claude-haiku-4-5"
SERVER = Path(__file__).with_name("rows_server.py")
FAULTS = ("refuse", "fail", "limit", "burst", "retry_after", "seed")
BASES = {True: "bare loop, typed, streaming", False: "bare loop, streaming"}
"""What the others are divided by: typed, and texts."""


class Figures(NamedTuple):
    """What one way to ask took in one process."""

    rows_per_second: float
    unanswered: float
    requests: float
    refused: float
    cpu_ms_per_row: float
    peak_mb: float
    connections: float


def main() -> None:
    """Measure the ways that are asked for in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tls", action="store_true", help="ask over TLS")
    for name in FAULTS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, help="see rows_server.py")
    parser.add_argument("--headers", action="store_true", help="the server says how full its bucket is")
    parser.add_argument("--only", nargs="+", choices=[*WAYS], default=[*WAYS])
    parser.add_argument("--python", nargs="+", default=[], metavar="PEER=INTERPRETER")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    interpreters = dict(each.partition("=")[::2] for each in asked.python)
    given = {name: getattr(asked, name) for name in FAULTS if getattr(asked, name) is not None}
    options = [f"--{name.replace('_', '-')}={value:g}" for name, value in given.items()]
    options += ["--headers"] if asked.headers else []
    names = installed(asked.only, interpreters)
    found: dict[str, list[Figures]] = {name: [] for name in names}
    for _ in range(asked.runs):
        for name in names:
            with served(asked.delay, *options, tls=asked.tls) as environment:
                task = Task(MODEL, "", asked.parallel)
                told = in_process(name, task, asked.rows, environment, interpreters)
                figures = Figures(**{key: told[key] for key in Figures._fields})
                if not given and (figures.unanswered or figures.requests != asked.rows):
                    raise SystemExit(f"{name}: {figures}")
                found[name].append(figures)
                print(f"{name}: {figures.rows_per_second:.1f} rows/s", file=sys.stderr, flush=True)
    print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps({name: [run._asdict() for run in runs] for name, runs in found.items()}))


def installed(names: Sequence[str], interpreters: Mapping[str, str]) -> Sequence[str]:
    """The ways that can be asked; says which peers are not installed."""
    missing = {
        peer
        for name in names
        if (peer := peer_of(name)) and peer not in interpreters and importlib.util.find_spec(PACKAGES[peer]) is None
    }
    for peer in sorted(missing):
        print(f"{peer} is not measured, for it is not installed", file=sys.stderr)
    return [name for name in names if peer_of(name) not in missing]


def one() -> None:
    """Ask in this process, which ``in_process`` has started, and print what was measured."""
    name, model, instructions, parallel, count, words = json.loads(sys.argv[2])
    way, task = {**WAYS, **MARKED}[name], Task(model, instructions, parallel)
    texts = [row_text(number, words) for number in range(count)]
    for _ in range(10):  # lets everything be imported; where requests fail it may fail as well
        if _is_right(_asked(way, Task(model, "", 1), ["one"])[0]):
            break
    counted()
    process = psutil.Process()
    began, used = time.perf_counter(), sum(process.cpu_times()[:2])
    answers = _asked(way, task, texts)
    seconds, cpu = time.perf_counter() - began, sum(process.cpu_times()[:2]) - used
    counts = counted()
    good = sum(map(_is_right, answers))
    if wrong := [each for each in answers if isinstance(each, str | Order) and not _is_right(each)]:
        raise RuntimeError(f"an answer is wrong: {wrong[:3]}")
    found = Figures(
        good / seconds,
        count - good,
        counts["requests"],
        counts.get("refused", 0),
        cpu / count * 1000,
        peak_mb(),
        counts["connections"],
    )
    print(json.dumps({**found._asdict(), "counts": counts}))


def _asked(way: Way, task: Task, texts: Sequence[str]) -> Sequence[Any]:
    """Ask; what ends all of it is what every row has in place of an answer."""
    try:
        return way(task, texts)
    except Exception as error:
        print(f"all rows are lost: {error!r}", file=sys.stderr)
        return [error] * len(texts)


def _is_right(answer: Any) -> bool:
    return answer == TEXT or (isinstance(answer, Order) and answer.model_dump() == ORDER)


_WORDS = ("valve", "hose", "pump", "flange", "gasket", "washer", "screw", "bearing", "shaft", "wheel", "belt", "chain")


def row_text(number: int, words: int) -> str:
    """The text of a row, with so many words more."""
    return f"{number} bolts M6, please, with the next delivery{filling(number, words)}"


def filling(number: int, words: int) -> str:
    """So many words more, others for each row."""
    return "".join(f" {_WORDS[(number * 7 + word * (number % 13 + 3)) % len(_WORDS)]}" for word in range(words))


def counted() -> dict[str, Any]:
    """What the server has counted since the last call."""
    with urllib.request.urlopen(os.environ["ANTHROPIC_BASE_URL"]) as answer:
        return json.load(answer)


def peak_mb() -> float:
    """The most memory that this process has had."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def in_process(
    name: str,
    task: Task,
    rows: int,
    environment: Mapping[str, str],
    interpreters: Mapping[str, str],
    words: int = 0,
) -> dict[str, Any]:
    """Let a process ask; returns figures by name, and under ``counts`` what the server has counted.

    Args:
        words: How many words more each row has.
    """
    python = interpreters.get(peer_of(name) or "", sys.executable)
    given = json.dumps([name, task.model, task.instructions, task.parallel, rows, words])
    done = subprocess.run(
        [python, __file__, "--one", given], capture_output=True, text=True, check=False, env={**environment}
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def served(delay: float, *options: str, tls: bool = False) -> Generator[dict[str, str]]:
    """Run the server with options of its own, and yield the environment of a process that asks it."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, str(SERVER), "--delay", str(delay), *options]
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


def table(found: Mapping[str, Sequence[Figures]]) -> str:
    """Return a table of medians; the numbers in brackets are divided by those of the bare loop that streams."""
    medians = {
        name: Figures(*(statistics.median(column) for column in zip(*runs, strict=True)))
        for name, runs in found.items()
        if runs
    }
    lines = [
        "| | answered rows/s | without an answer, all runs | requests | CPU, ms a row | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for name, figures in medians.items():
        base = medians.get(BASES[is_typed(name)])

        def cell(value: float, of: float | None) -> str:
            return f"{value:.3g}" if of is None else f"{value:.3g} ({value / of:.2f} x)"

        rate = cell(figures.rows_per_second, base and base.rows_per_second)
        cpu = cell(figures.cpu_ms_per_row, base and base.cpu_ms_per_row)
        lost = sum(run.unanswered for run in found[name])
        lines.append(f"| {name} | {rate} | {lost:.0f} | {figures.requests:.0f} | {cpu} | {figures.peak_mb:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        sys.path.remove(str(Path(__file__).parent))  # where profile.py is another one than the library's
        one()
    else:
        main()
