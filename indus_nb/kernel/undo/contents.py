"""Contents of files, kept by their digests: in memory, or as files of the user's own.

A content is written before anything refers to it, and read again only if it still has its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from indus_nb.base.files import make_private_directory, write_atomically

MAX_BYTES = 256 << 20
"""Largest total size of the contents in one place."""


def digest_of(data: bytes) -> str:
    """Return the digest under which a content is kept."""
    return hashlib.sha256(data).hexdigest()


class Contents:
    """Store of contents by their digests."""

    def __init__(self, directory: Path | None = None, most: int = MAX_BYTES) -> None:
        """Set the directory, which is made when there is something to keep.

        Args:
            directory: The directory; ``None`` keeps them in memory.
            most: Bytes to keep at most.
        """
        self.directory = directory
        self.most = most
        self._held: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        if directory is not None:
            with suppress(OSError):
                self._sizes = {found.name: found.stat().st_size for found in directory.glob("?" * 64)}

    @property
    def size(self) -> int:
        """Return how many bytes are kept."""
        return sum(self._sizes.values())

    def put(self, data: bytes) -> str | None:
        """Keep a content; returns its digest, or ``None`` if there is no room for it.

        Raises:
            OSError: It cannot be written.
        """
        digest = digest_of(data)
        if digest in self._sizes:
            return digest
        if self.size + len(data) > self.most:
            return None
        if self.directory is None:
            self._held[digest] = data
        else:
            make_private_directory(self.directory)
            write_atomically(self.directory / digest, data, mode=0o600)
        self._sizes[digest] = len(data)
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return a content; ``None`` if it is missing or damaged."""
        if self.directory is None:
            return self._held.get(digest)
        try:
            data = (self.directory / digest).read_bytes()
        except OSError:
            return None
        return data if digest_of(data) == digest else None

    def keep_only(self, wanted: Collection[str]) -> None:
        """Drop all other contents."""
        for digest in self._sizes.keys() - {*wanted}:
            del self._sizes[digest]
            self._held.pop(digest, None)
            if self.directory is not None:
                with suppress(OSError):
                    (self.directory / digest).unlink()
