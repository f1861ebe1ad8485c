"""Liveness of an engine: some let a call wait for ever when their workers or their scheduler are gone.

What this module promises: looking never blocks the event loop, and an engine whose workers are only starting, or that
has none because none is needed, is not taken for lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeAlias

LOOK_SECONDS = 3.0
"""Time between two probes."""
PATIENCE_SECONDS = 60.0
"""Longest time that an engine that has worked may be without a worker, or not answer: workers may be on their way."""

Probe: TypeAlias = Callable[[], int]
"""Returns the number of workers, and raises when it can no longer be found out; may block."""


def probe_of(executor: Executor) -> Probe | None:
    """Return the probe for an engine, which counts its workers.

    Returns:
        The probe; ``None`` for engines that let calls fail themselves, as those of the standard library do.
    """
    library = type(executor).__module__.partition(".")[0]
    given: Any = executor
    if library == "distributed":
        client = getattr(given, "_client", None)  # it has no public name
        return None if client is None or client.asynchronous else lambda: _dask_workers(client)
    if library == "ipyparallel":
        client = given.view.client
        return lambda: _ipyparallel_workers(client)
    return None


def _dask_workers(client: Any) -> int:
    if client.status in ("closing", "closed"):
        raise ConnectionError("its client is closed, or has lost the scheduler")
    return len(client.nthreads())


def _ipyparallel_workers(client: Any) -> int:
    client.queue_status()  # which its controller answers, while the client alone knows the engines
    return len(client.ids)


async def lost(probe: Probe, waited_for: Callable[[], bool], has_worked: Callable[[], bool]) -> str:
    """Wait until an engine is gone, and return why."""
    seen = time.monotonic()
    while True:
        if waited_for():
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    workers = await _in_daemon(probe)
            except TimeoutError:
                return f"it has not answered for {PATIENCE_SECONDS:g} s"
            except Exception as error:  # noqa: BLE001 - whatever its library raises
                return str(error).rstrip(".") or type(error).__name__
            now = time.monotonic()
            if not workers and has_worked() and now - seen >= PATIENCE_SECONDS:
                return f"it has had no worker for {PATIENCE_SECONDS:g} s"
            seen = now if workers or not has_worked() else seen
        else:
            seen = time.monotonic()
        await asyncio.sleep(LOOK_SECONDS)


async def _in_daemon(probe: Probe) -> int:
    """Run a probe in a thread that nothing waits for, not even the end of this process."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[int] = loop.create_future()

    def settle(workers: int, error: Exception | None) -> None:
        if answered.done():
            return
        if error is None:
            answered.set_result(workers)
        else:
            answered.set_exception(error)

    def run() -> None:
        workers, failure = 0, None
        try:
            workers = probe()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no caller waits
            loop.call_soon_threadsafe(settle, workers, failure)

    threading.Thread(target=run, name="indus_nb looks after an engine", daemon=True).start()
    return await answered
