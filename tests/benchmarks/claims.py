"""How many wrong numbers of answers tracing finds, how many right ones it takes for wrong, and how long that takes.

    python tests/benchmarks/claims.py                            the table
    python tests/benchmarks/claims.py --docs docs/claims.md      the table, into that page
    python tests/benchmarks/claims.py --seed 1 --cases 5 --show  what was judged falsely

Beside it stands what looking numbers up among the values of the table gives. The seed of the published table was used
for nothing else; change the code by what other seeds show.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.figures import replace_block
from benchmarks.traced_answers import Answer, answers
from benchmarks.traced_statements import KINDS, STYLES
from indus_nb.kernel.claims import Kind, Output, trace

PUBLISHED_SEED = 4_000_000
PUBLISHED_CASES = 40
"""Of each kind and way of writing."""


@dataclass
class Tally:
    """How many answers there were of each sort, and of how many the number was flagged."""

    wrong: int = 0
    wrong_flagged: int = 0
    wrong_not_in_table: int = 0
    right: int = 0
    right_flagged: int = 0
    right_not_in_table: int = 0
    misplaced_flagged: int = 0
    numbers: int = 0
    numbers_flagged: int = 0
    milliseconds: list[float] = field(default_factory=list[float])
    judged_falsely: list[str] = field(default_factory=list[str])

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self, name: str) -> str:
        shares = (
            (self.wrong_flagged, self.wrong),
            (self.right_flagged, self.right),
            (self.misplaced_flagged, self.wrong),
            (self.wrong_not_in_table, self.wrong),
            (self.right_not_in_table, self.right),
        )
        cells = [name, str(self.wrong), *(f"{100 * part / whole:.1f} %" for part, whole in shares)]
        return f"| {' | '.join(cells)} |"


def measured(kind: str, style: str, seeds: Iterable[int]) -> Tally:
    """Trace the answers of a kind in a way of writing."""
    tally = Tally()
    for made in filter(None, (answers(kind, style, seed) for seed in seeds)):
        right, wrong, misplaced = made
        began = time.thread_time()
        traced = trace(right.text, right.outputs, right.asked)
        tally.milliseconds.append(1000 * (time.thread_time() - began))
        flagged = [(each.start, each.end) for each in traced if each.kind is Kind.MISSING]
        tally.numbers += len(traced)
        tally.numbers_flagged += len(flagged)
        tally.right += 1
        tally.right_flagged += is_flagged(right)
        tally.right_not_in_table += is_flagged(right, by_search=True)
        tally.wrong += 1
        tally.wrong_flagged += is_flagged(wrong)
        tally.wrong_not_in_table += is_flagged(wrong, by_search=True)
        tally.misplaced_flagged += is_flagged(misplaced)
        tally.judged_falsely += [_marked("right, flagged", right.text, span) for span in flagged]
        if not is_flagged(wrong):
            tally.judged_falsely.append(_marked("wrong, not flagged", wrong.text, wrong.focus))
    return tally


def is_flagged(answer: Answer, *, by_search: bool = False) -> bool:
    """Whether the number that an answer is about is in no output, or by search in no cell of the table."""
    outputs = [Output("table", answer.frame.to_csv(index=False))] if by_search else answer.outputs
    found = {Kind.EXACT, Kind.ROUNDED, Kind.DATE, Kind.ASKED} if by_search else set(Kind) - {Kind.MISSING}
    start, end = answer.focus
    traced = trace(answer.text, outputs, answer.asked)
    return any(each.kind not in found and start <= each.start < end for each in traced)


def _marked(what: str, text: str, span: tuple[int, int]) -> str:
    start, end = span
    marked = f"{text[max(0, start - 60) : start]}[[{text[start:end]}]]{text[end : end + 40]}"
    return f"{what}: {' '.join(marked.split())}"


def page(by_kind: dict[str, Tally], by_style: dict[str, Tally], everything: Tally) -> str:
    """Write the table and what stands below it."""
    heads = (
        *("statement", "answers", "wrong: flagged", "right: flagged", "in the wrong place: flagged"),
        *("by search in the table: wrong flagged", "right flagged"),
    )
    share = 100 * everything.numbers_flagged / everything.numbers
    median, most = (
        statistics.median(everything.milliseconds),
        statistics.quantiles(everything.milliseconds, n=100)[98],
    )
    rows = [
        f"| {' | '.join(heads)} |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(tally.row(kind) for kind, tally in by_kind.items()),
        *(tally.row(f"written as {style}") for style, tally in by_style.items()),
        everything.row("**all**"),
        "",
        f"Of all {everything.numbers:,} numbers that were looked up in the right answers, {share:.1f} % were flagged.",
        f"Tracing an answer took {median:.1f} ms of the processor in the median, {most:.1f} ms in 99 of 100.",
    ]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=PUBLISHED_SEED)
    parser.add_argument("--cases", type=int, default=PUBLISHED_CASES, help="of each kind and way of writing")
    parser.add_argument("--show", action="store_true", help="print what was judged falsely")
    parser.add_argument("--docs", type=Path, metavar="PAGE", help="replace the table of a page in Markdown")
    options = parser.parse_args()
    by_kind = {kind: Tally() for kind in KINDS}
    by_style = {style: Tally() for style in STYLES}
    everything = Tally()
    for kind in KINDS:
        for style in STYLES:
            tally = measured(kind, style, range(options.seed, options.seed + options.cases))
            for each in (by_kind[kind], by_style[style], everything):
                each.add(tally)
    if options.show:
        print("\n".join(everything.judged_falsely))
    text = page(by_kind, by_style, everything)
    print(text)
    if options.docs:
        replace_block(options.docs, text)


if __name__ == "__main__":
    main()
