"""Removal of secret values from the memory of a copy, so that code in it cannot read keys there.

What this module promises: sizes and addresses stay, so whatever holds a value goes on with one of the same length. It
takes no longer than some tenths of a second; what it leaves out then are the newest parts of the largest mappings.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

FILLER = "x"
_MAX_VALUES = 32
_BUDGET = 1 << 30
"""Limit of bytes times values: each value is searched for by itself, at 10 to 20 GB a second."""
_Span = tuple[int, int]
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw.p \S+ \S+ 0 *(\[(?:heap|stack|anon).*|)")
"""Anonymous mappings, which hold data of programs and not their code."""


def forget(values: Iterable[bytes]) -> None:
    """Overwrite values wherever they stand in the memory of this process.

    Args:
        values: None of them empty, the most important first; more than 32 are left out.
    """
    wanted = list(dict.fromkeys(values))[:_MAX_VALUES]
    if not wanted:
        return
    with mmap.mmap(-1, sum(map(len, wanted)), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as kept:
        kept.write(b"".join(wanted))  # what is looked for stays whole here alone
        sizes = [*map(len, wanted)]
        del wanted
        held = ctypes.c_char.from_buffer(kept)
        start = ctypes.addressof(held)
        try:
            _overwrite(start, sizes)
        finally:
            ctypes.memset(start, 0, len(kept))
            del held


def _overwrite(values: int, sizes: Sequence[int]) -> None:
    find = ctypes.CDLL(None).memmem
    find.restype = ctypes.c_void_p
    find.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
    own = values - values % mmap.PAGESIZE, values + sum(sizes)
    room = _BUDGET // len(sizes)
    for first, end in _spans(own):
        if room <= 0:
            return
        start = max(first, end - room)
        room -= end - start
        value = values
        for size in sizes:
            at = find(start, end - start, value, size)
            while at is not None:
                ctypes.memset(at, ord(FILLER), size)
                at = find(at + size, end - at - size, value, size)
            value += size


def _spans(but: _Span) -> Iterator[_Span]:
    """List what is in memory: the stack and small mappings first, of large ones the oldest parts first."""
    lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    found = [match for line in lines if (match := _MAPPING.match(line)) is not None]
    mappings = [(int(each[1], 16), int(each[2], 16)) for each in found]
    for start, end in sorted(mappings, key=lambda span: span[1] - span[0]):
        for part in _without(start, end, but):
            yield from _resident(*part)


def _without(start: int, end: int, but: _Span) -> Iterator[_Span]:
    hole = max(start, but[0]), min(end, -(-but[1] // mmap.PAGESIZE) * mmap.PAGESIZE)
    yield from ((start, end),) if hole[0] >= hole[1] else ((hole[1], end), (start, hole[0]))


def _resident(start: int, end: int) -> Iterator[_Span]:
    """List the parts of a mapping that were ever written to; mappings grow downwards, so the oldest first."""
    pages = (end - start) // mmap.PAGESIZE
    if not pages:
        return
    states = ctypes.create_string_buffer(pages)
    if ctypes.CDLL(None).mincore(ctypes.c_void_p(start), ctypes.c_size_t(end - start), states) != 0:
        return
    there = states.raw.translate(bytes(number & 1 for number in range(256)))
    at = pages
    while (last := there.rfind(b"\1", 0, at)) >= 0:
        first = there.rfind(b"\0", 0, last) + 1
        yield start + first * mmap.PAGESIZE, start + (last + 1) * mmap.PAGESIZE
        at = first
