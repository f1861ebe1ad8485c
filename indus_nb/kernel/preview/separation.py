"""A forked process separated from its parent: descriptors, shared memory, limits."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAX_COPIED_BYTES = 128 << 20
_MAX_FILE_BYTES = 16 << 20
_CPU_SECONDS_PER_SECOND = 2
"""Limit of processor time: the parent kills the copy before it is reached, unless the parent was stopped."""
_MAX_NEW_DESCRIPTORS = 128
_PRIVATE_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FIXED = 0x10
_MOVE_THERE = 1 | 2  # MREMAP_MAYMOVE, MREMAP_FIXED


def cut_off(*kept: int) -> None:
    """Separate this process from its parent: no shared files, connections or memory.

    Descriptors stay taken, by one that can neither be read nor written: else new files would get the numbers of those
    that objects of the parent's still refer to.
    """
    os.setsid()
    dead = os.open(os.devnull, os.O_PATH)
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number not in kept:
            _replaced(null if number < 3 else dead, number)
    _unshare_memory()


def _replaced(by: int, number: int) -> None:
    if by != number:
        try:
            os.fstat(number)
        except OSError:
            return  # the one that listed them
        os.dup2(by, number)


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a copy.

    Attributes:
        seconds: Time, until it is killed.
    """

    memory_bytes: int
    seconds: float


def limit(limits: Limits) -> None:
    """Limit the resources of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + limits.memory_bytes
    descriptors = max(map(int, os.listdir("/proc/self/fd"))) + _MAX_NEW_DESCRIPTORS
    for what, wanted in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, math.ceil(_CPU_SECONDS_PER_SECOND * limits.seconds)),
        (resource.RLIMIT_FSIZE, _MAX_FILE_BYTES),
        (resource.RLIMIT_NOFILE, descriptors),
        (resource.RLIMIT_CORE, 1),  # less than any: with 0 a program that takes them would still be started
    ):
        hard = resource.getrlimit(what)[1]
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(what, (most, most))
    os.nice(5)
    Path("/proc/self/oom_score_adj").write_text("1000")  # the first to go where memory is short


def _unshare_memory() -> None:
    """Replace writable shared memory of this process by a private copy, or by none."""
    room = _MAX_COPIED_BYTES
    for start, size in [*_shared()]:
        if size <= room and _copied(start, size):
            room -= size
        else:
            _mapped(start, size, 0, _PRIVATE_ANONYMOUS | _FIXED)


def _shared() -> Iterator[tuple[int, int]]:
    if not any(line.split(maxsplit=2)[1].endswith("s") for line in _lines("/proc/self/maps")):
        return  # as nearly always
    span = (0, 0)
    for line in _lines("/proc/self/smaps"):
        head, _, rest = line.partition(" ")
        if not head.endswith(":"):
            start, end = (int(number, 16) for number in head.split("-"))
            span = start, end - start
        elif head == "VmFlags:" and {"sh", "mw"} <= {*rest.split()}:
            yield span


def _lines(path: str) -> list[str]:
    return Path(path).read_text(errors="replace").splitlines()


def _copied(start: int, size: int) -> bool:
    """Copy shared memory to new memory, which then takes its place."""
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        data = os.pread(memory, size, start)
    except OSError:
        return False  # beyond the end of a file, or a device
    finally:
        os.close(memory)
    if len(data) != size:
        return False
    new = _mapped(None, size, mmap.PROT_READ | mmap.PROT_WRITE, _PRIVATE_ANONYMOUS)
    ctypes.memmove(new, data, size)
    remap = ctypes.CDLL(None, use_errno=True).mremap
    remap.restype = ctypes.c_void_p
    sizes = ctypes.c_size_t(size), ctypes.c_size_t(size)
    return remap(ctypes.c_void_p(new), *sizes, ctypes.c_int(_MOVE_THERE), ctypes.c_void_p(start)) == start


def _mapped(start: int | None, size: int, protection: int, flags: int) -> int:
    map_memory = ctypes.CDLL(None, use_errno=True).mmap
    map_memory.restype = ctypes.c_void_p
    found = map_memory(
        ctypes.c_void_p(start), ctypes.c_size_t(size), protection, flags, ctypes.c_int(-1), ctypes.c_long(0)
    )
    if found in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "memory that is shared could not be replaced")
    return int(found)
