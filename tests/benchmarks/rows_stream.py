"""How soon ``agent.stream`` asks for the first of a million rows, and what memory it takes for how many of them.

    python tests/benchmarks/rows_stream.py [--rows 1000000] [--take 2000 20000] [--parallel 32] [--json FILE]

The rows come from a generator. Each number of rows to take is a process of its own, in which the stream ends after so
many. The server (``rows_server.py``) answers at once, and says when the first request came.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows import MODEL, counted, peak_mb, row_text, served
from benchmarks.rows_ways import QUESTION


def main() -> None:
    """Take rows, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--take", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--parallel", type=int, default=32)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)  # what this program starts itself with
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(_taken(asked.rows, asked.one, asked.parallel)))
        return
    found: list[Mapping[str, float]] = []
    for take in asked.take:
        with served(0.0) as environment:
            command = [sys.executable, __file__, "--rows", str(asked.rows), "--parallel", str(asked.parallel)]
            command += ["--one", str(take)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    print(table(found, asked.rows))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2))


def _taken(rows: int, take: int, parallel: int) -> dict[str, Any]:
    """Take some rows of so many in this process; everything is imported before."""
    from indus_nb import agent

    read = 0

    def data() -> Iterator[dict[str, str]]:
        nonlocal read
        for number in range(rows):
            read = number + 1
            yield {"text": row_text(number, 0)}

    options: dict[str, Any] = {"model": MODEL, "parallel": parallel, "max_tokens": 4096, "progress": False}
    with agent.stream(QUESTION, [{"text": "one"}], **options) as stream:
        list(stream)
    counted()
    before = psutil.Process().memory_info().rss / 2**20
    began = time.monotonic()
    with agent.stream(QUESTION, data(), **options) as stream:
        wrong = sum(answer.error is not None for _, answer in islice(stream, take))
        seconds = time.monotonic() - began
        ahead = read - take
    if wrong:
        raise RuntimeError(f"{wrong} of {take} rows have no answer")
    first = counted()["first"] - began
    return {"taken": take, "first": first, "seconds": seconds, "before": before, "peak": peak_mb(), "ahead": ahead}


def table(found: Sequence[Mapping[str, float]], rows: int) -> str:
    """The figures as Markdown."""
    lines = [
        f"| taken of {rows:,} rows | first request after, s | rows/s | MB before | peak MB | read ahead |",
        "|---|---|---|---|---|---|",
    ]
    for each in found:
        rate = each["taken"] / each["seconds"]
        lines.append(
            f"| {each['taken']:,} | {each['first']:.2f} | {rate:.0f} | {each['before']:.0f} | {each['peak']:.0f} "
            f"| {each['ahead']:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
