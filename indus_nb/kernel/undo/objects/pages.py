"""Memory that a copy of a process has not written to: known by its pages, without a copy of the bytes.

After a fork both processes have the same pages of memory, until one of them writes to one. The system tells of each
page whether it is this process' alone. So what a copy did to gigabytes of arrays is known in milliseconds. A page that
the other process wrote to is taken for changed, which is never the other way round.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any, NamedTuple

_PAGE = mmap.PAGESIZE
_LEAST_BYTES = 1 << 20
"""Size below which buffers are copied: most of their pages hold something else too."""
_ENTRY_BYTES = 8
_OWN, _SWAPPED = 1 << 56, 1 << 62
_MAP = "/proc/self/pagemap"


class Unwritten(NamedTuple):
    """A buffer that had not been written to, with the bytes of it that share a page with something else."""

    address: int
    nbytes: int
    edges: bytes
    swapped: bool


class Pages:
    """The pages of this process, which is a copy of another one."""

    def __init__(self) -> None:
        """Open the page map of this process.

        Raises:
            OSError: This system has no page map.
        """
        self.number: int = os.open(_MAP, os.O_RDONLY | os.O_CLOEXEC)

    def remember(self, content: Any) -> Unwritten | None:
        """Return a record by which later writes to a buffer are noticed.

        Args:
            content: The buffer, as an array of bytes.

        Returns:
            That; ``None`` if it cannot be known so, for the buffer is small or was written to since the fork.
        """
        if content.nbytes < _LEAST_BYTES:
            return None
        own, swapped = self._flags(content)
        return None if own else Unwritten(_address(content), content.nbytes, _edges(content), swapped)

    def holds(self, content: Any, state: Unwritten) -> bool:
        """Return whether a buffer is the remembered one, and was not written to since.

        Args:
            content: The buffer, as an array of bytes.

        Returns:
            Whether it is so; not where the other process has written to a page of it, or one was swapped out since.
        """
        if (_address(content), content.nbytes) != state[:2] or _edges(content) != state.edges:
            return False
        own, swapped = self._flags(content)
        return not own and (state.swapped or not swapped)

    def _flags(self, content: Any) -> tuple[bool, bool]:
        """Return whether any page of a buffer, edges apart, is the process' own, and whether any is swapped out."""
        first, last = _within(content)
        numpy: Any = sys.modules["numpy"]
        data = os.pread(self.number, (last - first) * _ENTRY_BYTES, first * _ENTRY_BYTES)
        if len(data) != (last - first) * _ENTRY_BYTES:
            return True, True
        entries = numpy.frombuffer(data, dtype="u8")
        return bool((entries & _OWN).any()), bool((entries & _SWAPPED).any())


def _address(content: Any) -> int:
    return int(content.__array_interface__["data"][0])


def _within(content: Any) -> tuple[int, int]:
    """Return the first page that is the buffer's alone, and the one after the last."""
    start = _address(content)
    return -(-start // _PAGE), (start + content.nbytes) // _PAGE


def _edges(content: Any) -> bytes:
    start, (first, last) = _address(content), _within(content)
    return content[: first * _PAGE - start].tobytes() + content[last * _PAGE - start :].tobytes()


class Probe:
    """A page by which a copy finds out whether the system has page maps; made before the fork."""

    def __init__(self) -> None:
        """Allocate the page."""
        self._page = mmap.mmap(-1, _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page[0] = 1

    def pages(self) -> Pages | None:
        """Return the pages of this process, the copy; ``None`` if the system does not show which are its own."""
        import ctypes

        try:
            pages = Pages()
        except OSError:
            return None
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._page)) // _PAGE * _ENTRY_BYTES
        before = int.from_bytes(os.pread(pages.number, _ENTRY_BYTES, at), sys.byteorder)
        self._page[0] = 2
        after = int.from_bytes(os.pread(pages.number, _ENTRY_BYTES, at), sys.byteorder)
        return pages if not before & _OWN and after & _OWN else None
