"""The suite of forty tasks as a whole, by scripted models: who solves, who does nothing and who cheats."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluated_model
import pytest
from messages_api import MessagesApi, Recorded, Reply

from indus_nb.evaluate.benchmark_task import BenchmarkTask
from indus_nb.evaluate.suites import notebook_tasks
from indus_nb.safety.sandbox import machine

EVAL = [sys.executable, "-m", "indus_nb", "eval", "notebook"]
pytestmark = pytest.mark.skipif(machine().backend != "bwrap", reason="kernels of trials are confined by bubblewrap")


def results(place: Path) -> list[dict[str, Any]]:
    """The trials that a directory holds."""
    return [json.loads(line) for line in (place / "results.jsonl").read_text().splitlines()[1:]]


@pytest.mark.parametrize(
    ("model", "harness", "endings"),
    [
        (evaluated_model.oracle, "ours", {"solved"}),
        (evaluated_model.idle, "bare", {"nothing", "wrong"}),
        (evaluated_model.cheater, "bare", {"not computed"}),
    ],
)
def test_who_computes_solves_all_tasks_and_who_does_not_none(
    home: Path,
    messages_api: MessagesApi,
    model: Callable[[list[BenchmarkTask]], Callable[[Recorded], Reply]],
    harness: str,
    endings: set[str],
) -> None:
    messages_api.default = model(notebook_tasks())  # type: ignore[assignment]
    done = subprocess.run(
        [*EVAL, "--model", "claude-haiku-4-5", "--harness", harness, "--out", "out", "--parallel", "3"],
        check=False,
        cwd=home / "work",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = results(home / "work" / "out")
    assert {each["task"]: each["why"] for each in found if each["ending"] not in endings} == {}
    assert len({each["task"] for each in found}) == len(found) == 40
    assert messages_api.refusals == []
    prompts = sum(len(task.prompts) for task in notebook_tasks())
    assert sum(each["questions"] for each in found) == (prompts if model is evaluated_model.idle else 0)
    assert all(each["requests"] > 0 and each["tokens"]["input"] > 0 and each["cost"] > 0 for each in found)
