"""The temporary directory of a sandbox, and the end of those whose process was killed.

What this module promises: a directory is locked for as long as its process, or one forked from it, is there; only an
unlocked one of the same user is removed, and none that was made a moment ago, for its lock may be on the way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

_PREFIX = "indusagi-sandbox-"
_MIN_AGE_SECONDS = 600.0
_MAX_REMOVED = 20


class Temporary:
    """A new directory, for as long as this object; those that killed processes have left are removed meanwhile.

    Attributes:
        path: Where it is, resolved.
    """

    def __init__(self) -> None:
        self.path: Path = Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))
        self.remove: Callable[[], object] = weakref.finalize(self, _remove, self.path, _locked(self.path), os.getpid())
        """Removes it with what is in it, at the end of the process at the latest."""
        threading.Thread(target=remove_stale, args=(self.path.parent,), name="indus_nb sandbox", daemon=True).start()


def _remove(path: Path, lock: int | None, process: int) -> None:
    if process != os.getpid():  # a forked process ends: the directory is its parent's
        return
    shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def remove_stale(place: Path, min_age_seconds: float = _MIN_AGE_SECONDS) -> None:
    """Remove what killed processes have left in a directory, a limited number at a time.

    Args:
        min_age_seconds: How long ago they were made, at least.
    """
    for path, _ in zip(_old_ones(place, min_age_seconds), range(_MAX_REMOVED), strict=False):
        lock = _locked(path)
        if lock is not None:
            _remove(path, lock, os.getpid())


def _old_ones(place: Path, min_age_seconds: float) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                state = entry.stat(follow_symlinks=False)
                if state.st_uid == os.geteuid() and time.time() - state.st_ctime >= min_age_seconds:
                    yield place / entry.name


def _locked(path: Path) -> int | None:
    """Return a descriptor that holds the lock of a directory; ``None`` if another process has it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
