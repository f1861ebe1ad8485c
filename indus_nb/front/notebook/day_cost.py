"""What today has cost: in this kernel, and in the user's others, each of which writes its own part into a file.

What this module promises: no kernel writes to a file of another, so none waits for a lock. Where files cannot be
written, or are no numbers, they count nothing.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path

from indus_nb.base.files import make_private_directory, write_atomically
from indus_nb.base.wire import random_hex
from indus_nb.core.limits import spent_today, watch_spending
from indus_nb.kernel.run.agent_thread import AgentThread

_SECONDS = 0.3
"""How long after a request its cost is told, together with that of others."""
_READ_SECONDS = 2.0
"""How long what other kernels have spent is not read again."""
_MAX_FILE_BYTES = 100


class DayCost:
    """Today's cost in US dollars; a day is a local date."""

    def __init__(self, directory: Path, thread: AgentThread, changed: Callable[[], None]) -> None:
        """Begin to watch what this process spends.

        Args:
            directory: The directory of the files, which is made when something is spent.
            thread: The thread that everything but this runs on.
            changed: Called a moment after something was spent.
        """
        self._directory = directory
        self._name = random_hex(8)
        self._thread = thread
        self._changed = changed
        self._telling: asyncio.TimerHandle | None = None
        self._others = 0.0
        self._read_at = -math.inf
        self._end = watch_spending(lambda: thread.call(self._tell_soon))

    def close(self) -> None:
        """End watching, and write down what was spent last."""
        self._end()
        if spent_today():
            self._write()

    def total(self) -> float:
        """Return what all kernels have spent today; what others did is known a few seconds later."""
        if time.monotonic() - self._read_at > _READ_SECONDS:
            self._read_at = time.monotonic()
            self._others = sum(map(_amount, self._files(but=self._name)))
        return spent_today() + self._others

    def _tell_soon(self) -> None:
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_SECONDS, self._tell)

    def _tell(self) -> None:
        self._telling = None
        self._write()
        self._changed()

    def _write(self) -> None:
        own = self._directory / f"{_today()}.{self._name}"
        with suppress(OSError):
            is_new = not own.exists()
            make_private_directory(self._directory)
            write_atomically(own, f"{spent_today():.9f}".encode(), mode=0o600)
            for file in self._directory.iterdir() if is_new else ():
                if file.name[:10] < _today():
                    file.unlink(missing_ok=True)

    def _files(self, but: str) -> list[Path]:
        with suppress(OSError):
            return [file for file in self._directory.glob(f"{_today()}.*") if file.suffix != f".{but}"]
        return []


def _today() -> str:
    return date.today().isoformat()  # noqa: DTZ011 - the user's own calendar


def _amount(file: Path) -> float:
    with suppress(OSError, ValueError), file.open("rb") as opened:
        amount = float(opened.read(_MAX_FILE_BYTES))
        return amount if math.isfinite(amount) and amount > 0 else 0.0
    return 0.0
