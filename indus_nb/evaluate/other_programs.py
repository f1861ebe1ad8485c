"""Programs of others that solve tasks: those that print a session's events as lines of JSON, as pi and omp do.

What this module promises: a program works in the trial's directory, confined to it but with a network, through which
it asks its model; it has a home of its own there, so that no extension or setting of the user's counts; and its result
is a script, which is run in the trial's kernel like the code of any other harness.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.messages import Usage
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, load_object
from indus_nb.core.limits.budget import spending
from indus_nb.core.session.stats import SessionStats
from indus_nb.evaluate.benchmark_task import made_file
from indus_nb.evaluate.harness import ALONE, Harness, Solved, Surrounding, again, run_cells
from indus_nb.safety.sandbox import Confined, Sandbox, make_policy

SCRIPT = "solution.py"
_ENDINGS = {
    "answer": "Write a program {script} that computes the result from the data and leaves it in the variable `answer`.",
    "figure": "Write a program {script} that makes the figure with matplotlib and leaves it in the variable `figure`.",
    "notebook": "Save the notebook under the same name; it has to leave the result in the variable `answer`.",
}
_HOME = ".home"
_MAX_LINE_BYTES = 64 << 20
_MAX_ERROR_CHARACTERS = 500


def installed(name: str) -> str:
    """Return the path of an installed program.

    Raises:
        UsageError: There is none of that name.
    """
    path = shutil.which(name)
    if path is None:
        raise UsageError(f"The program {name} is not installed: nothing of that name is on the path.")
    return path


def program(name: str) -> Harness:
    """Return a harness that is an installed program.

    Args:
        name: Its name on the path; it takes ``-p --mode json``, a provider, a model and prompts.
    """

    async def solve(surrounding: Surrounding) -> Solved:
        events = _Events()
        await _run([installed(name), *_arguments(surrounding)], surrounding, events)
        solved = Solved(stats=events.stats, questions=events.questions)
        if (outer := spending()) is not None:
            outer.charge(events.stats.cost)
        script = surrounding.kernel.directory / SCRIPT
        if surrounding.task.result != "notebook":
            with suppress(OSError):  # there is none
                solved.code = [(await asyncio.to_thread(made_file, script)).decode("utf-8", "replace")]
                await run_cells(surrounding, solved.code)
        return solved

    return solve


def _arguments(surrounding: Surrounding) -> list[str]:
    options, task = surrounding.options, surrounding.task
    chosen = {"--provider": options.provider, "--model": options.model, "--thinking": options.thinking}
    given = [word for name, value in chosen.items() if value is not None for word in (name, value)]
    ending = " ".join([_ENDINGS[task.result].format(script=SCRIPT), *again(task), ALONE])
    prompts = [f"{task.prompts[0]}\n\n{ending}", *task.prompts[1:]]
    return ["-p", "--mode", "json", "--no-session", *given, *prompts]


class _Events:
    """Counts of what a program prints."""

    def __init__(self) -> None:
        self.stats = SessionStats()
        self.questions = 0
        self.error: str | None = None
        self._text = ""

    def take(self, line: bytes) -> None:
        """Take a line; what is no event, or of a form that is not known, counts nowhere."""
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            event = load_object(line)
            if event.get("type") == "message_end" and event["message"].get("role") == "assistant":
                self._count(event["message"])
            elif event.get("type") == "agent_end":
                self.questions += self._text.rstrip().endswith("?")

    def _count(self, message: JsonObject) -> None:
        blocks = cast("list[JsonObject]", message.get("content") or [])
        self._text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        self.error = str(message.get("errorMessage")) if message.get("stopReason") == "error" else None
        usage = Usage.from_wire(message.get("usage") or {})
        stats = self.stats
        stats.assistant_messages += 1
        stats.tool_calls += sum(block.get("type") == "toolCall" for block in blocks)
        stats.cost += usage.cost.total
        for name in ("input", "output", "cache_read", "cache_write"):
            setattr(stats.tokens, name, getattr(stats.tokens, name) + getattr(usage, name))


async def _run(command: Sequence[str], surrounding: Surrounding, events: _Events) -> None:
    directory = surrounding.kernel.directory
    home = directory / _HOME
    await asyncio.to_thread(home.mkdir, exist_ok=True)
    sandbox = _sandbox(directory, surrounding.hidden) if surrounding.confined else None
    held = await sandbox.confined(command, unset=()) if sandbox is not None else Confined(list(command))
    process: asyncio.subprocess.Process | None = None
    try:
        process = await asyncio.create_subprocess_exec(
            *held.arguments,
            cwd=directory,
            env=_environment(home),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=held.pass_fds,
            start_new_session=True,
            limit=_MAX_LINE_BYTES,
        )
        held.release()
        told: list[bytes] = []
        with suppress(TimeoutError):  # what is there by then is graded
            async with asyncio.timeout((surrounding.options.timeout or 900) * len(surrounding.task.prompts)):
                await asyncio.gather(_read(process.stdout, events.take), _read(process.stderr, told.append))
                await process.wait()
        if process.returncode not in (0, None) or events.error is not None:
            why = events.error or plain(b"".join(told[-20:]).decode("utf-8", "replace"))[-_MAX_ERROR_CHARACTERS:]
            raise IndusError(f"{Path(command[0]).name} ended with status {process.returncode}: {why.strip()}")
    finally:
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        await asyncio.to_thread(held.close)
        if sandbox is not None:
            await asyncio.to_thread(sandbox.close)


async def _read(stream: asyncio.StreamReader | None, take: Any) -> None:
    while stream is not None and (line := await stream.readline()):
        take(line)


def _sandbox(directory: Path, hidden: Sequence[Path]) -> Sandbox:
    paths = [str(path) for path in (Path(__file__).parent, *hidden)]
    return Sandbox(make_policy("workspace", directory, network=True, hidden=paths))


def _environment(home: Path) -> dict[str, str]:
    own = {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    return {**os.environ, **own, "PI_CODING_AGENT_DIR": str(home / "agent")}
