"""What it costs to make the agent's code undoable, for namespaces of several kinds: processor time and memory.

    python tests/benchmarks/undo.py                        the table of ours
    python tests/benchmarks/undo.py --kishu PYTHON         beside it Kishu's, of an environment with it and pandas
    python tests/benchmarks/undo.py --large                also a frame of 0.7 GB and an array of 1 GB

Each figure is from a process of its own: milliseconds of its processor, and how much its memory grew. "Budget" is with
what a kernel allows by default; what did not fit then is named. Kishu checkpoints after each of the user's cells by
pickling what changed, and restores by loading that: "take" is what it does before and after the cell, "undo" its
checkout, both without what a notebook adds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

NAMESPACES: dict[str, tuple[str, str]] = {
    "10 MB: 10 frames, 10 arrays, lists": (
        """
import numpy as np, pandas as pd
frames = [pd.DataFrame(np.random.rand(6000, 10)) for _ in range(10)]
arrays = [np.random.rand(60_000) for _ in range(10)]
lists = [[1, 2, 3] * 100 for _ in range(10)]
""",
        "frames[0][0] = 1.0; arrays[0][:5] = 0; lists[0].append(1); frames, arrays, lists",
    ),
    "200 small variables": (
        "globals().update({f'v{number}': [number, str(number)] for number in range(200)})",
        "globals()['v1'].append(1)",
    ),
    "array of 100 MB": ("import numpy as np\na = np.random.rand(13_100_000)", "a[:10] = 0"),
    "list of 1e6 ints": ("l = list(range(1_000_000))", "l[5] = None"),
    "1000 lists of 1000": ("l = [list(range(1000)) for _ in range(1000)]", "l[5][5] = None"),
    "100k dicts of 3": ("l = [{'a': n, 'b': str(n), 'c': None} for n in range(100_000)]", "l[5]['a'] = None"),
    "100k instances": (
        """
class A:
    def __init__(self, n): self.n, self.s = n, str(n)
l = [A(n) for n in range(100_000)]
""",
        "l[5].n = None",
    ),
    "frame of 3M rows, 3 text columns": (
        """
import numpy as np, pandas as pd
f = pd.DataFrame({c: np.random.choice(['one', 'two', 'three'], 3_000_000) for c in 'abc'})
""",
        "f['a'] = 'x'",
    ),
}
LARGE: dict[str, tuple[str, str]] = {
    "frame of 10M rows, 0.7 GB": (
        "import numpy as np, pandas as pd\nf = pd.DataFrame({str(n): np.random.rand(10_000_000) for n in range(9)})",
        "f['0'] = 0.0",
    ),
    "array of 1 GB": ("import numpy as np\na = np.zeros(131_000_000); a += 1", "a[:10] = 0"),
}


def memory() -> float:
    """Return the megabytes that this process has in memory."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(setup: str, code: str) -> dict[str, Any]:
    """Return the figures of the package for one namespace."""
    from indus_nb.kernel.undo import CheckpointBudget, take

    names: dict[str, Any] = {"__name__": "__main__"}
    exec(setup, names)
    figures: dict[str, Any] = {}
    take({"x": [1]}, "x")  # imports, and what is made once
    for name, budget in (("budget", CheckpointBudget(0.1, 256 << 20)), ("whole", CheckpointBudget(600, 64 << 30))):
        before, began = memory(), time.process_time()
        checkpoint = take(names, code, budget)
        figures[f"{name} take"] = 1000 * (time.process_time() - began)
        figures[f"{name} MB"] = memory() - before
        figures[f"{name} left out"] = dict(checkpoint.left_out)
        if name == "budget":
            del checkpoint
            continue
        exec(code, names)
        began = time.process_time()
        change = checkpoint.close()
        figures["find"] = 1000 * (time.process_time() - began)
        began = time.process_time()
        change.undo()
        figures["undo"] = 1000 * (time.process_time() - began)
    return figures


def kishu(setup: str, code: str) -> dict[str, Any]:
    """Return the figures of Kishu for one namespace."""

    def part(module: str, name: str) -> Any:
        return getattr(import_module(f"kishu.{module}"), name)

    names = part("jupyter.namespace", "Namespace")({})
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "kishu.db"
        store = part("storage.checkpoint", "KishuCheckpoint")(database)
        store.init_database()
        ahg = part("storage.disk_ahg", "KishuDiskAHG")(database)
        ahg.init_database()
        graph = part("storage.commit_graph", "KishuCommitGraph").new_var_graph(database)
        graph.init_database()
        planner = part("planning.planner", "CheckpointRestorePlanner")(ahg, graph, names)
        plans: list[Any] = []
        taken, before = 0.0, 0.0
        for number, cell in enumerate((setup, code)):
            before = memory()
            began = time.process_time()
            planner.pre_run_cell_update()
            taken = time.process_time() - began
            exec(
                cell,
                names.get_tracked_namespace(),
            )
            began = time.process_time()
            planner.post_run_cell_update(str(number), cell, 0.1)
            checkpoint, restore = planner.generate_checkpoint_restore_plans(database, str(number))
            checkpoint.run(names)
            taken += time.process_time() - began
            graph.step(str(number))
            plans.append(restore)
        grown = memory() - before
        began = time.process_time()
        plans[0].run(database, "0")
        return {
            "take": 1000 * taken,
            "undo": 1000 * (time.process_time() - began),
            "MB": grown,
            "disk MB": database.stat().st_size / 2**20,
        }


def _measured(python: str, which: str, name: str) -> dict[str, Any]:
    done = subprocess.run([python, __file__, "--one", which, name], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return {"failed": (done.stderr.strip().splitlines() or ["no reason"])[-1][:120]}


def _ours_row(found: dict[str, Any]) -> str:
    if "failed" in found:
        return f"{found['failed']} | | | | |"
    left = "; ".join(f"not kept: {why}" for why in found["budget left out"].values()) or "all kept"
    return (
        f"{found['whole take']:,.1f} | {found['whole MB']:,.0f} | {found['find']:,.1f} | {found['undo']:,.1f} | "
        f"{found['budget take']:,.1f}, {left} |"
    )


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kishu")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--one", nargs=2)
    given = parser.parse_args()
    every = NAMESPACES | LARGE
    if given.one is not None:
        print(json.dumps((ours if given.one[0] == "ours" else kishu)(*every[given.one[1]])))
        return
    head = "| namespace | take, ms | + MB | find, ms | undo, ms | take within the budget, ms |"
    print(head + (" Kishu: take, ms | undo, ms | + MB | on disk, MB |" if given.kishu else ""))
    print("|---" * (10 if given.kishu else 6) + "|")
    for name in every if given.large else NAMESPACES:
        row = f"| {name} | {_ours_row(_measured(sys.executable, 'ours', name))}"
        if given.kishu:
            found = _measured(given.kishu, "kishu", name)
            row += (
                f" {found['failed']} | | | |"
                if "failed" in found
                else (f" {found['take']:,.0f} | {found['undo']:,.0f} | {found['MB']:,.0f} | {found['disk MB']:,.0f} |")
            )
        print(row, flush=True)


if __name__ == "__main__":
    main()
