"""What it costs to try a look in a copy of the kernel, beside running it there: time and memory.

    python tests/benchmarks/looks.py [--megabytes 200 4000] [--runs 5]

In a kernel with a frame of that size each look is tried and run in turn. "Added" is how much longer the trial took,
"memory" what the copy had for itself at most (USS). The first picture is that of a fresh kernel, in which nothing has
been drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.previews import DRIVER, asked
from kernels import Kernel, private_environment

FRAME = """
import os, json, numpy as np, pandas as pd
rows = {megabytes} * 2**20 // (8 * 10)
frame = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, 10)), columns=[*"abcdefghij"])
frame["k"] = np.resize(np.arange(7), rows)
"""
LOOKS = (
    "frame.shape",
    "frame.head()",
    "frame.dtypes",
    "frame['a'].mean()",
    "frame.iloc[:100_000].describe()",
    "frame.iloc[:500_000].groupby('k')['b'].mean()",
    "frame.columns.tolist()",
    "frame['k'].iloc[:500_000].value_counts()",
)
PICTURE = "import matplotlib.pyplot as plt; plt.plot([1, 2, 3]); plt.show()"
TIMED = "(_time.perf_counter(), {call}, _time.perf_counter())"


class Peak:
    """The most memory that copies of a kernel had for themselves."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._kernel = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            for child in self._kernel.children():
                with contextlib.suppress(psutil.Error):
                    self.bytes = max(self.bytes, child.memory_full_info().uss)


@contextlib.contextmanager
def kernel(begin: str) -> Iterator[Kernel]:
    """A kernel that has run a cell and can try code."""
    with tempfile.TemporaryDirectory() as root:
        (work := Path(root, "work")).mkdir()
        with Kernel(work, private_environment(Path(root))) as started:
            for code in (begin, "%load_ext indus_nb", DRIVER):
                cell = started.run(code, 600)
                assert cell.status == "ok", cell.error
            yield started


def seconds(where: Kernel, call: str) -> float:
    """How long a call of the driver takes."""
    began, seen, ended = asked(where, TIMED.format(call=call), 600)
    assert seen["how"] == "done", seen
    return ended - began


def measured(megabytes: int, runs: int) -> None:
    """Print a line for each look, and what eight of them in a row take."""
    with kernel(FRAME.format(megabytes=megabytes)) as where, Peak(where.pid) as peak:
        print(f"{megabytes} MB: look, run s, tried s, added s, within 1.3 x + 0.25 s")
        added: list[float] = []
        for look in LOOKS:
            pairs = [(seconds(where, f"_real({look!r})"), seconds(where, f"_try({look!r}, 60)")) for _ in range(runs)]
            real, tried = (statistics.median(each) for each in zip(*pairs, strict=True))
            added.append(tried - real)
            holds = "yes" if tried <= 1.3 * real + 0.25 else "no"
            print(f"  {look:50} {real:6.3f} {tried:6.3f} {tried - real:6.3f}  {holds}", flush=True)
        row = sum(seconds(where, f"_try({look!r}, 60)") for look in LOOKS)
        print(f"  median added {statistics.median(added):.3f} s; eight in a row {row:.2f} s", flush=True)
    print(f"  memory of a copy at most {peak.bytes / 2**20:.0f} MB", flush=True)


def first_picture() -> None:
    """Print how long the first picture of a fresh kernel takes, tried and run."""
    found: list[float] = []
    for call in (f"_real({PICTURE!r})", f"_try({PICTURE!r}, 60)"):
        with kernel("import os, json") as where:
            found.append(seconds(where, call))
    print(f"first picture: run {found[0]:.2f} s, tried {found[1]:.2f} s")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[200, 4000])
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    for megabytes in arguments.megabytes:
        measured(megabytes, arguments.runs)
    first_picture()


if __name__ == "__main__":
    main()
