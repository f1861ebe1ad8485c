"""Checks whether this process can be copied now, and why not."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from indus_nb.base.free_memory import free_memory
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

_SECONDS_PER_PAGE = 8e-8
"""Time to copy a page's entry in the page table, on a slow processor."""
_MAX_FORK_SECONDS = 0.1
_MIN_ROOM_BYTES = 128 << 20
_GPU_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
_NOT_COPIED = {"jax": "JAX", "tensorflow": "TensorFlow"}
"""Libraries whose threads a copy would wait for, from their import on."""
_POOLS = {"polars": ("polars-", "Polars"), "duckdb": ("duckdb", "DuckDB")}
"""Libraries whose own threads a copy would wait for once they have begun: the threads' names, and theirs."""
_LOOKS = 4
_OURS = ("indus_nb", "asyncio_")
"""Prefixes of threads that are in no library that a fork could wait for."""


def obstacle(uses: Callable[[str], bool]) -> str:
    """Return why there can be no preview in this process, on Linux; empty if there can.

    Args:
        uses: Returns whether the code reaches objects of a library, by the name of its package.
    """
    return _of_system() or _of_size() or _of_libraries(uses)


def _of_system() -> str:
    if not can_filter():
        return "this processor's system calls are not known"
    return "" if landlock_version() else "this system has no Landlock"


def _of_size() -> str:
    pages = _own_pages()
    if pages * _SECONDS_PER_PAGE > _MAX_FORK_SECONDS:
        return f"the kernel holds {pages * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GB, which takes too long to copy"
    return "" if room_for_copy() >= _MIN_ROOM_BYTES else "too little memory is free for a copy of the kernel"


def room_for_copy() -> int:
    """Return how many bytes would still be free if a copy wrote to all memory of this process.

    The system shares memory between the two until one of them writes to it. Where a container runs out of it, all of
    its processes may be ended.
    """
    return free_memory() - _own_pages() * os.sysconf("SC_PAGE_SIZE")


def _own_pages() -> int:
    fields = _read("/proc/self/statm").split()
    return int(fields[1]) - int(fields[2])  # those of files are not copied


def _of_libraries(uses: Callable[[str], bool]) -> str:
    mapped = _read("/proc/self/maps")
    if any(place in mapped for place in _GPU_FILES):
        return "the kernel uses a GPU"
    threads = {_read(f"/proc/self/task/{task}/comm").strip().lower() for task in os.listdir("/proc/self/task")}
    begun = {
        module: name
        for module, (prefix, name) in _POOLS.items()
        if any(thread.startswith(prefix) for thread in threads) and uses(module)
    }
    for module, name in (_NOT_COPIED | begun).items():
        if module in sys.modules:
            return f"{name} does not work in a copy of a process"
    return ""


def working_thread() -> str:
    """Return the name of a thread that works while the caller holds the interpreter's lock; empty without any.

    It is within a library. Some libraries wait for such work before a fork, and so would this process.
    """
    own = str(threading.get_native_id())
    at_work: set[str] = set()
    for look in range(_LOOKS):
        found = {task for task in os.listdir("/proc/self/task") if task != own and _works(task)}
        at_work = found if look == 0 else at_work & found
        if not at_work:
            return ""
    known = {str(thread.native_id): thread.name for thread in threading.enumerate()}
    names = (known.get(task) or _read(f"/proc/self/task/{task}/comm").strip() for task in at_work)
    return next((name for name in names if name and not name.startswith(_OURS)), "")


def _works(task: str) -> bool:
    return _read(f"/proc/self/task/{task}/stat").rpartition(")")[2][1:2] == "R"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""  # a thread that has ended meanwhile
