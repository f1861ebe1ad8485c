"""Whether a process still lives, where it may end at any moment; and its end with the test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import AnyStr

import psutil


def lives(process: psutil.Process | int) -> bool:
    """Say whether a process, or one of this id, is there and is no zombie."""
    try:
        if isinstance(process, int):
            process = psutil.Process(process)
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def ending(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """A program for the block, which waits for its end; one that fails kills it instead of waiting for ever."""
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
