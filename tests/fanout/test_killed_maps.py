"""What was answered is not paid again, wherever the process was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from messages_api import MessagesApi, Recorded, Reply

ROWS = 200
KILLS = 10
PARALLEL = 4
PROGRAM = f"""
import sys
from indus_nb import agent
done = agent.map("{{item}}", range({ROWS}), parallel={PARALLEL}, journal=sys.argv[1], model="claude-haiku-4-5")
print(done.failed, [int(text) for text in done] == list(range({ROWS})), round(done.cost, 6))
"""


def rows_in(journal: Path) -> int:
    """How many rows a journal holds."""
    return journal.read_bytes().count(b'{"key"') if journal.exists() else 0


def test_killed_at_any_point_it_goes_on_where_it_was(home: Path, messages_api: MessagesApi) -> None:
    paid: Counter[str] = Counter()

    def answer(request: Recorded) -> Reply:
        content = request.body["messages"][0]["content"]
        row = content if isinstance(content, str) else content[0]["text"]
        paid[row] += 1
        return Reply(row, at_once=True)

    messages_api.default = answer  # type: ignore[assignment]
    journal = home / "rows.jsonl"
    command = [sys.executable, "-c", PROGRAM, str(journal)]
    repeated = 0
    kept: dict[str, int] = {}
    for kill in range(1, KILLS + 1):
        running = subprocess.Popen(command, cwd=home / "work")
        goal = kill * ROWS // (KILLS + 2)
        while rows_in(journal) < goal and running.poll() is None:
            time.sleep(0.002)
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        kept |= {row: paid[row] for row in rows_of(journal) if row not in kept}
        repeated += PARALLEL  # of rows that were asked when it was killed nobody can know the answers
    last = subprocess.run(command, cwd=home / "work", capture_output=True, text=True, check=True)
    assert last.stdout.startswith("[] True ")
    assert len(kept) >= ROWS // 2
    assert {row: paid[row] for row in kept} == kept
    assert set(paid) == {str(number) for number in range(ROWS)}
    assert sum(paid.values()) <= ROWS + repeated
    total = sum(paid.values())
    again = subprocess.run(command, cwd=home / "work", capture_output=True, text=True, check=True)
    assert (again.stdout, sum(paid.values())) == (last.stdout, total)


def rows_of(journal: Path) -> list[str]:
    """The rows that a journal holds the answers of; the last line may be torn."""
    lines = journal.read_bytes().split(b"\n")[1:-1]
    return [json.loads(line)["value"] for line in lines]
