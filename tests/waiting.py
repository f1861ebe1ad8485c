"""Waiting for what happens in its own time, and failing when it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

ValueT = TypeVar("ValueT")


async def until(condition: Callable[[], ValueT], seconds: float = 240) -> ValueT:
    """Wait, while the event loop goes on, until the condition holds, and return what it returned."""
    async with asyncio.timeout(seconds):
        while not (value := condition()):
            await asyncio.sleep(0.01)
    return value


def wait_until(condition: Callable[[], object], seconds: float = 240) -> None:
    """Block this thread until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
