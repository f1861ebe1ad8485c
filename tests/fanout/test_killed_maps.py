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
from typing import Any

import pytest
from fanout_calls import asked
from messages_api import MessagesApi, Recorded, Reply, ToolUse

ROWS = 200
KILLS = 10
KILLS_OF_EACH = 4
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


CALLS = {
    "filter, of rows that are alike": ('agent.filter("Is {item} odd?", [n % 60 for n in range(180)]', "done.numbers"),
    "map, with a cheap model first": ('agent.map("{item}", range(60), cheap="claude-haiku-4-5", sure=0.9', "[*done]"),
    "join": ('agent.join("Is {left.item} {right.item}?", range(8), range(8)', "done.pairs"),
    "reduce": ('agent.reduce("Add up.", range(90), result=int, characters=42', "done[0]"),
    "stream": ('agent.stream("Is {item} odd?", range(90), result=bool', "[answer.value for _, answer in done]"),
    "topk": ('agent.topk("Which is the highest?", range(48), k=3, compared=8', "done.numbers"),
}


def computed(request: Recorded) -> Reply:
    """What each of the calls would be answered, had the model computed it."""
    prompt = asked(request)
    head, _, below = prompt.rpartition("\n\n")
    lines = [json.loads(line) for line in below.split("\n")] if head else []
    answer: Any
    match prompt.split():
        case ["Is", number, "odd?"]:
            answer = int(number) % 2 == 1
        case ["Is", left, right]:
            answer = f"{left}?" == right
        case ["Add", "up.", *_]:
            answer = sum(line["answer"] if "answer" in line else int(line["text"]) for line in lines)
        case ["Which", *_]:
            answer = [line["row"] for line in sorted(lines, key=lambda line: -int(line["text"]))][:3]
        case _ if "haiku" in request.body["model"]:
            sure = 0.95 if int(prompt) % 2 else 0.5
            return Reply(ToolUse("answer", {"answer": f"cheap {prompt}", "probability": sure}), at_once=True)
        case _:
            return Reply(f"usual {prompt}", at_once=True)
    return Reply(ToolUse("answer", {"answer": answer}), at_once=True)


@pytest.mark.parametrize("call", CALLS)
def test_each_call_killed_at_any_point_goes_on_where_it_was(home: Path, messages_api: MessagesApi, call: str) -> None:
    begun, shown = CALLS[call]
    program = f"import sys\nfrom indus_nb import agent\ndone = {begun}, parallel={PARALLEL}, journal=sys.argv[1])\n"
    program += f"print(done.problems, {shown})"
    journal = home / "rows.jsonl"

    def run(at: Path) -> str:
        command = [sys.executable, "-c", program, str(at)]
        return subprocess.run(command, cwd=home / "work", capture_output=True, text=True, check=True).stdout

    messages_api.default = computed  # type: ignore[assignment]
    whole = run(home / "other.jsonl")
    needed = len(messages_api.requests)
    for kill in range(1, KILLS_OF_EACH + 1):
        running = subprocess.Popen([sys.executable, "-c", program, str(journal)], cwd=home / "work")
        goal = kill * rows_in(home / "other.jsonl") // (KILLS_OF_EACH + 2)
        while rows_in(journal) < goal and running.poll() is None:
            time.sleep(0.002)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert run(journal) == whole
    paid = len(messages_api.requests) - needed
    assert paid <= needed + KILLS_OF_EACH * PARALLEL  # of what was asked when it was killed nobody can know the answers
    assert run(journal) == whole
    assert len(messages_api.requests) == needed + paid
