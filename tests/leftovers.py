"""Processes that carry a mark in their environment, wherever their parents went, and the end of them.

python tests/leftovers.py NAME VALUE    kill all that were started with this variable, and print what they were
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import psutil


def marked(name: str, value: str) -> Iterator[psutil.Process]:
    """Yield the other processes that were started with this environment variable."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(name) == value:
                yield process


def kill(process: psutil.Process) -> str:
    """Kill a process that may have ended meanwhile, and return its command."""
    try:
        command = " ".join(process.cmdline())[:200]
        process.kill()
    except psutil.Error:
        return ""
    return command


if __name__ == "__main__":
    parents = {process.pid for process in psutil.Process().parents()}
    for found in list(marked(*sys.argv[1:3])):
        if found.pid not in parents and (was := kill(found)):
            print("was still running, and was killed:", was, flush=True)
