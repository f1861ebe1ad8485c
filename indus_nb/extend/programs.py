"""Running a program for an extension: no shell, no input, a time limit, and never an exception."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from indus_nb.tools.processes.process import Child


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Result of a program: output, exit code (``None``: it was killed or not started), and whether it was killed."""

    stdout: str
    stderr: str
    code: int | None
    killed: bool


async def run_program(
    arguments: Sequence[str], cwd: Path, seconds: float | None, environment: Mapping[str, str] | None = None
) -> ExecResult:
    """Run a program to its end. Never raises but ``CancelledError``, which kills the program.

    Args:
        seconds: How long it may run before it is killed; ``None`` for no limit.
        environment: Its variables; without them those that ``child_environment`` chooses.

    Returns:
        What it printed and how it ended. A program that cannot be started has the reason as ``stderr``.
    """
    import tempfile

    with tempfile.TemporaryFile() as errors:
        output = bytearray()
        killed = False
        try:
            async with Child(arguments, cwd=cwd, stderr=errors, environment=environment) as child:
                until = None if seconds is None else asyncio.get_running_loop().time() + seconds
                try:
                    while chunk := await child.read(until):
                        output += chunk
                except TimeoutError:
                    killed = True
                    output += child.kill()
            code = child.exit_code
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return ExecResult("", f"{arguments[0]} could not be started: {error}", None, killed=False)
        errors.seek(0)
        stderr = errors.read().decode(errors="replace")
    return ExecResult(output.decode(errors="replace"), stderr, None if killed else code, killed)
