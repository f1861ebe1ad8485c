"""The suite of forty tasks as a whole, by scripted models: who solves, who does nothing and who cheats."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import evaluated_model
import pytest
from messages_api import MessagesApi, Recorded, Reply

from indus_nb.evaluate.benchmark_task import BenchmarkTask
from indus_nb.evaluate.suites import notebook_tasks
from indus_nb.safety.sandbox import machine

EVAL = [sys.executable, "-m", "indus_nb", "eval", "notebook"]
TASKS = notebook_tasks()
CATEGORIES = {
    category: [task for task in TASKS if task.category == category]
    for category in dict.fromkeys(task.category for task in TASKS)
}
FIRST = [tasks[0] for tasks in CATEGORIES.values()]
confined = pytest.mark.skipif(machine().backend != "bwrap", reason="kernels of trials are confined by bubblewrap")


def test_the_suite_has_forty_tasks_of_six_kinds() -> None:
    assert {category: len(tasks) for category, tasks in CATEGORIES.items()} == {
        "facts": 8,
        "traps": 11,
        "figures": 6,
        "repairs": 6,
        "rollbacks": 5,
        "logs": 4,
    }
    assert len({task.id for task in TASKS}) == 40
    assert all(len(task.prompts) == len(task.solution) for task in TASKS)


@confined
@pytest.mark.parametrize(
    ("model", "endings", "tasks"),
    [
        *((evaluated_model.oracle, {"solved"}, tasks) for tasks in CATEGORIES.values()),
        (evaluated_model.idle, {"nothing", "wrong"}, FIRST),  # wrong: a notebook that runs, and is to be repaired
        (evaluated_model.cheater, {"not computed"}, FIRST),
    ],
    ids=[*(f"oracle-{category}" for category in CATEGORIES), "idle", "cheater"],
)
def test_who_computes_solves_all_tasks_and_who_does_not_none(
    home: Path,
    messages_api: MessagesApi,
    model: Callable[[list[BenchmarkTask]], Callable[[Recorded], Reply]],
    endings: set[str],
    tasks: list[BenchmarkTask],
) -> None:
    messages_api.default = model(tasks)  # type: ignore[assignment]
    named = ",".join(task.id for task in tasks)
    chosen = ["--tasks", named, "--model", "claude-haiku-4-5", "--harness", "bare", "--out", "out"]
    done = subprocess.run([*EVAL, *chosen], check=False, cwd=home / "work", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in (home / "work" / "out" / "results.jsonl").read_text().splitlines()[1:]]
    assert {each["task"]: each["why"] for each in found if each["ending"] not in endings} == {}
    assert {each["task"] for each in found} == {task.id for task in tasks}
    assert messages_api.refusals == []
    prompts = sum(len(task.prompts) for task in tasks)
    assert sum(each["questions"] for each in found) == (prompts if model is evaluated_model.idle else 0)
    assert all(each["requests"] > 0 and each["tokens"]["input"] > 0 and each["cost"] > 0 for each in found)
