"""What today has cost: summed over the kernels of a user, of which each writes its own part."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path

KERNEL = """
import asyncio, sys, threading
from pathlib import Path
from indus_nb.core.limits import Budget
from indus_nb.front.notebook.day_cost import DayCost
from indus_nb.kernel.run.agent_thread import AgentThread

async def spend(dollars):
    async with Budget().request(dollars) as reservation:
        reservation.spend(dollars)

thread, told = AgentThread(), threading.Event()
cost = DayCost(Path(sys.argv[1]), thread, told.set)
for dollars in sys.argv[2:]:
    asyncio.run(spend(float(dollars)))
if sys.argv[2:]:
    assert told.wait(30)
cost.close()
print(cost.total())
thread.close()
"""


def total(directory: Path, *spent: float) -> float:
    """Return what a new kernel says that today has cost, once it has spent amounts."""
    done = subprocess.run(
        [sys.executable, "-c", KERNEL, str(directory), *map(str, spent)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_a_kernel_knows_what_those_before_it_have_spent_today(tmp_path: Path) -> None:
    directory = tmp_path / "spent"
    assert total(directory) == 0
    assert not directory.exists()
    assert total(directory, 0.25, 0.5) == 0.75
    assert total(directory) == 0.75
    assert total(directory, 0.125) == 0.875
    assert len(list(directory.iterdir())) == 2


def test_other_days_and_files_that_are_no_amounts_count_nothing_and_old_ones_go(tmp_path: Path) -> None:
    today = datetime.now().astimezone().date().isoformat()
    for name, content in (("2001-01-01.a", "3"), (f"{today}.b", "x"), (f"{today}.c", "nan"), (f"{today}.d", "-4")):
        (tmp_path / name).write_text(content)
    (tmp_path / f"{today}.e").mkdir()
    assert total(tmp_path) == 0
    assert total(tmp_path, 1) == 1
    assert not (tmp_path / "2001-01-01.a").exists()


def test_where_nothing_can_be_written_this_kernel_s_own_cost_is_told(tmp_path: Path) -> None:
    (tmp_path / "spent").write_text("a file")
    assert total(tmp_path / "spent", 0.5) == 0.5
