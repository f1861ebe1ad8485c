"""Kernels and copies of kernels that are killed at random moments, and what is left of them.

    python tests/fuzz/kills.py --rounds 100 [--seed 7]

In each round the agent's code is tried in a copy of the kernel, and then the kernel, or the copy, is killed with
``SIGKILL``. After that no process of theirs may be there, their directories must go with the next clean-up, the user's
files must be as they were, and the session must open in the next kernel. A kernel whose copy was killed must go on.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from waiting import wait_until

from fuzz.play import leftovers
from indus_nb.safety.sandbox.temporary import remove_stale

SESSION = "%load_ext indus_nb\n%agent --model anthropic/claude-sonnet-4-5 --thinking off"
ENDLESS = (
    "total = 0\nwhile True: total += 1",
    "for number in range(10**9): open(f'{number % 9}.txt', 'w').write('x' * 1000)",
)
CODES = (
    *ENDLESS,
    "import json, decimal, sqlite3\nprint('text ' * 200_000)\nrows.append(1)",
    "print(rows)",
    "big = [b'x' * 1_000_000 for _ in range(300)]",
)


class LeftError(Exception):
    """Something was left, or is not as it was."""


def copies_of(kernel: Kernel) -> list[psutil.Process]:
    """The copies of a kernel that are at work."""
    name = psutil.Process(kernel.pid).name()
    return [each for each in kernel.children() if each.name() == name]


def play(root: Path, api: MessagesApi, draw: random.Random) -> str:
    """Kill once; returns what was killed."""
    environment = private_environment(
        root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", TMPDIR=str(root / "tmp")
    )
    (root / "agent" / "settings.json").write_text(json.dumps({"approve": "effects", "looksSeconds": 600}))
    what = draw.choice(["kernel", "copy"])
    with Kernel(root / "work", environment) as kernel:
        for code in ("rows = [1, 2]", SESSION):
            if (cell := kernel.run(code)).status != "ok":
                raise LeftError(f"{code}: {cell.error}")
        code = draw.choice(CODES if what == "kernel" else ENDLESS)
        api.add(Reply(ToolUse("python", {"code": code})), Reply("I see."))
        cell = kernel.begin("%agent go")
        time.sleep(draw.random() * 2)
        if what == "copy":
            wait_until(lambda: copies_of(kernel), 20)
        if what == "kernel":
            kernel.kill()
        else:
            for each in copies_of(kernel):
                each.kill()
            if cell.finish().status != "ok" or kernel.run("assert rows == [1, 2]").status != "ok":
                raise LeftError("the kernel did not go on")
    if left := leftovers(Path(environment["HOME"])):
        raise LeftError(f"processes: {left}")
    remove_stale(root / "tmp", 0)
    if left := [each.name for each in (root / "tmp").iterdir() if each.name.startswith("indusagi-")]:
        raise LeftError(f"directories: {left}")
    if left := [each.name for each in (root / "work").iterdir() if each.name != "mine.txt"]:
        raise LeftError(f"files: {left}")
    return what


def main() -> None:
    """Kill, and say what was killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    killed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        for name in ("work", "tmp"):
            (root / name).mkdir()
        (root / "work" / "mine.txt").touch()
        for number in range(arguments.rounds):
            with MessagesApi() as api:  # who was killed has not asked for all its answers
                killed[play(root, api, random.Random(f"{arguments.seed}.{number}"))] += 1
            print(number, dict(killed), flush=True)


if __name__ == "__main__":
    main()
