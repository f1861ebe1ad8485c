"""What many rows cost: the same question with a long codebook, by the prompts that ours and the others really send.

    python tests/benchmarks/rows_money.py [--rows 300] [--of 10000] [--tokens DIRECTORY] [--only NAME ...] [--json FILE]
    python tests/benchmarks/rows_money.py --estimates

Rows of about 450 tokens are asked with a codebook of about 2,900 tokens before them, typed, 16 at once. The server
prices each prompt by the simulated cache (``simulated_cache.py``), at Sonnet's prices; what a prompt writes to the
cache can be read once its answer has begun. ``--rows`` are asked, the first hundred count as they are, and the mean of
the others is taken for all that are left of ``--of``. Answers are the same for all and are not counted.

With ``--estimates`` ours says what rows of three kinds will cost, without and with a sample of 20, and then asks for
all of them; the server counts tokens with the last tokenizer that was published for Claude.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.rows import counted, filling, in_process, installed, row_text, served
from benchmarks.rows_ways import MARKED, Order, Task
from benchmarks.simulated_cache import tokenizer

MODEL = "claude-sonnet-4-5"
PARALLEL = 16
DELAY = 0.5
WORDS = 325
"""Words more in each row, which then has 450 tokens."""
ENTRIES = 127
"""Rules in the codebook, which then has 2,900 tokens."""
BEGINNING = 100
"""Rows that count as they are: who begins with many at once writes the codebook as often."""
NAMES = (
    "agent.map, typed",
    "bare loop, typed, streaming",
    "instructor + gather",
    "pydantic-ai + gather",
    "chatlas parallel_chat_structured",
    *MARKED,
)
KINDS: dict[str, tuple[int, int, bool]] = {
    "short ones, a text": (0, 0, False),
    "of 2,000 tokens, a text": (0, 1500, False),
    "of 450 tokens behind a codebook of 2,900, typed": (ENTRIES, WORDS, True),
}
"""Entries of the codebook, words of a row, and whether the answers are typed."""


def codebook(entries: int = ENTRIES) -> str:
    """Rules of coding, each some 23 tokens."""
    return "Code what is ordered by these rules.\n" + "\n".join(
        f"{number}. A {word} that is meant for part {number * 7} is an article of group {number % 9}, of whatever size."
        for number, word in enumerate(filling(1, entries).split(), 1)
    )


def main() -> None:
    """Price the ways that are asked for, or compare estimates with prices, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--of", type=int, default=10_000)
    parser.add_argument("--tokens", type=Path, help="where anthropic 0.34.2 and tokenizers are installed already")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--estimates", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what this program starts itself with
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(_estimated(*json.loads(asked.one), asked.rows)))
        return
    count, counter = tokenizer(asked.tokens)
    options = ["--cache", *(["--tokens", str(asked.tokens)] if asked.tokens else [])]
    print(f"Tokens by {counter}; the codebook has {count(codebook()):,}, a row {count(filling(1, WORDS)) + 20:,}.\n")
    if asked.estimates:
        found = [_compared(kind, asked.rows, options) for kind in KINDS]
        print(estimates_table(found))
    else:
        found = [_priced(name, asked.rows, asked.of, options) for name in installed(asked.only, {})]
        print(prices_table(found, asked.of))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2))


def _priced(name: str, rows: int, of: int, options: Sequence[str]) -> dict[str, Any]:
    """Let one way ask for some rows, and price all."""
    with served(DELAY, *options) as environment:
        told = in_process(name, Task(MODEL, codebook(), PARALLEL), rows, environment, {}, WORDS)
    counts = told["counts"]
    prices = counts["dollars"]
    first, others = prices[:BEGINNING], prices[BEGINNING:]
    dollars = sum(first) + statistics.mean(others) * (of * len(prices) / rows - len(first))
    print(f"{name}: ${dollars:.2f}", file=sys.stderr, flush=True)
    return {"way": name, "dollars": dollars, "tokens": counts["sent"] / rows, "requests": told["requests"] / rows}


def prices_table(found: Sequence[Mapping[str, Any]], of: int) -> str:
    """The prices as Markdown; in brackets divided by that with a mark on each row."""
    base = next((each["dollars"] for each in found if each["way"].endswith("a mark on each row")), None)
    lines = [f"| | tokens sent for a row | prompts of {of:,} rows |", "|---|---|---|"]
    for each in found:
        share = f" ({each['dollars'] / base:.2f} x)" if base else ""
        lines.append(f"| {each['way']} | {each['tokens']:,.0f} | ${each['dollars']:.2f}{share} |")
    return "\n".join(lines)


def _compared(kind: str, rows: int, options: Sequence[str]) -> dict[str, Any]:
    """Estimate in a process what rows of a kind cost, and ask for them."""
    with served(0.2, *options) as environment:
        command = [sys.executable, __file__, "--rows", str(rows), "--one", json.dumps(KINDS[kind])]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return {"kind": kind, "rows": rows, **json.loads(done.stdout.splitlines()[-1])}


def _estimated(entries: int, words: int, typed: bool, rows: int) -> dict[str, Any]:
    """Estimate, ask for a sample, and for all, in this process."""
    from indus_nb import agent

    task = Task(MODEL, codebook(entries) if entries else "", PARALLEL)
    data = [{"text": row_text(number, words)} for number in range(rows)]
    options: dict[str, Any] = {"model": MODEL, "parallel": PARALLEL, "max_tokens": 1024, "progress": False}
    options |= {"result": Order if typed else None, "sessions": False}
    before: Any = agent.map(task.template, data, estimate=True, **options).estimate
    counted()
    sampled = agent.map(task.template, data, sample=20, **options)
    done = sampled.retry()
    if done.failed or done.cost_left:
        raise RuntimeError(done.summary)
    counts = counted()
    prompts = sum(counts["dollars"])
    return {
        "tokens": [before.tokens, counts["sent"]],
        "prompts": [before.least, prompts],
        "all": [sampled.cost + sampled.cost_left, done.cost],
        "most": before.most,
    }


def estimates_table(found: Sequence[Mapping[str, Any]]) -> str:
    """What was said before, beside what it was; in brackets the one divided by the other."""
    lines = [
        "| rows | tokens to read: said, were | to read in dollars: said, was | all, by a sample of 20: said, was |",
        "|---|---|---|---|",
    ]

    def cell(form: str, said: float, was: float) -> str:
        return f"{form.format(said)}, {form.format(was)} ({said / was:.2f} x)"

    for each in found:
        cells = [cell("{:,.0f}", *each["tokens"]), cell("${:.4f}", *each["prompts"]), cell("${:.4f}", *each["all"])]
        lines.append(f"| {each['rows']} {each['kind']} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
