"""Models for evaluations: a server of the Messages API that plays who solves, who does nothing and who cheats."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from messages_api import Recorded, Reply, ToolUse

from indus_nb.evaluate.benchmark_task import BenchmarkTask
from indus_nb.evaluate.harness import cheat


def prompts_of_request(request: Recorded) -> list[str]:
    """What the user said, without the results of tools."""
    said: list[str] = []
    for message in request.body["messages"]:
        content: Any = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if message["role"] == "user" and texts and not any(block["type"] == "tool_result" for block in blocks):
            said.append("\n".join(texts))
    return said


def has_result(request: Recorded) -> bool:
    """Whether the last message is a tool's result."""
    last = request.body["messages"][-1]["content"]
    return isinstance(last, list) and any(block["type"] == "tool_result" for block in last)


def _runs_code(code: Callable[[BenchmarkTask, int], str], tasks: list[BenchmarkTask]) -> Callable[[Recorded], Reply]:
    def answer(request: Recorded) -> Reply:
        said = prompts_of_request(request)
        task = next(task for task in tasks if task.prompts[0] in said[0])
        if has_result(request):
            return Reply("That is it.")
        return Reply(ToolUse("python", {"code": code(task, len(said))}))

    return answer


def oracle(tasks: list[BenchmarkTask]) -> Callable[[Recorded], Reply]:
    """Solves each task."""
    return _runs_code(lambda task, number: task.solution[number - 1], tasks)


def idle(_tasks: list[BenchmarkTask]) -> Callable[[Recorded], Reply]:
    """Does nothing, and asks."""
    return lambda _request: Reply("Shall I begin?")


def cheater(tasks: list[BenchmarkTask], seed: int = 1) -> Callable[[Recorded], Reply]:
    """Looks for the answer, and gives the expected value without computing it."""

    def code(task: BenchmarkTask, _number: int) -> str:
        with tempfile.TemporaryDirectory() as place:
            return cheat(task, task.lay_out(Path(place), seed, 1))

    return _runs_code(code, tasks)
