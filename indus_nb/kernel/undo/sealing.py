"""HMAC key of the user's own, which tells this program's records from forged ones."""

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
    """Return the key for a session's records, derived from the user's key, which is made on first need.

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
    """Return the HMAC of a content, which only the holder of the key can compute."""
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
    """Create the file atomically, as another process may create it too: the first one's key counts for both."""
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
