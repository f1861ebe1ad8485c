"""Whether a process still lives, where it may end at any moment."""

from __future__ import annotations

import psutil


def lives(process: psutil.Process | int) -> bool:
    """Say whether a process, or one of this id, is there and is no zombie."""
    try:
        if isinstance(process, int):
            process = psutil.Process(process)
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
