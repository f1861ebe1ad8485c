"""A key of the user's own, by which what this program wrote down is told from what others put in its place."""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import stat
from contextlib import suppress
from pathlib import Path

from indus_nb.base.files import is_link_of_others, make_private_directory, others_can_write, read_file

KEY_FILE = "undo.key"
_KEY_BYTES = 32


def session_key(directory: Path, session_id: str) -> bytes | None:
    """Return the key for what is written down of one session; it is made from the user's, which is made on first need.

    Returns:
        The key; ``None`` where the user's cannot be kept, or others than the user can read or write it.
    """
    path = directory / KEY_FILE
    with suppress(OSError):
        if not os.path.lexists(path):
            _make(path)
        return sealed(_read(path), session_id.encode(errors="replace"))
    return None


def sealed(key: bytes, content: bytes) -> bytes:
    """Return what only somebody who has the key can make of a content."""
    return hmac.digest(key, content, hashlib.sha256)


def _read(path: Path) -> bytes:
    state = path.stat()
    if is_link_of_others(path) or others_can_write(state) or stat.S_IMODE(state.st_mode) & 0o077:
        raise OSError(errno.EPERM, "others than you can read or write it", str(path))
    key = read_file(path, most=_KEY_BYTES * 2)
    if len(key) != _KEY_BYTES * 2:
        raise OSError(errno.EINVAL, "it is no key", str(path))
    return key


def _make(path: Path) -> None:
    """Make the file at once, for another process may make it too: whoever is first has made the key of both."""
    make_private_directory(path.parent)
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(_KEY_BYTES).hex().encode())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
