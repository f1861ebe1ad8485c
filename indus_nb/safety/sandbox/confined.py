"""Programs that are started confined: how they end, and what all of them get."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

SERVICE_VARIABLES = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"),
    *(
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
        "CONTAINER_HOST",
        "TMUX",
        "STY",
        "JPY_API_TOKEN",
        "JUPYTER_TOKEN",
    ),
    *("VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE", "GIT_ASKPASS", "SSH_ASKPASS", "EMACS_SERVER_FILE"),
)
"""Variables that lead to services of the user's."""
_CACHES = {
    "UV_CACHE_DIR": "uv",
    "PIP_CACHE_DIR": "pip",
    "npm_config_cache": "npm",
    "GOCACHE": "go",
    "MPLCONFIGDIR": "matplotlib",
}
"""Programs that fail, or give bad advice, when their cache cannot be written, by the variable that places it."""


@dataclass(slots=True)
class Confined:
    """A program's arguments, confined, and the descriptors that it inherits.

    Start it while the context is entered or before ``close``, which sets right what it must not have changed and fills
    ``said`` with sentences about that.
    """

    arguments: list[str]
    pass_fds: tuple[int, ...] = ()
    set_right: Callable[[], list[str]] = list[str]
    """Called once, after the end of the program: restores, and returns sentences about that."""
    said: list[str] = field(default_factory=list[str])
    service: Future[None] | None = None
    """What its proxy does for it."""

    def release(self) -> None:
        """Close the descriptors, which the program has inherited."""
        for descriptor in self.pass_fds:
            os.close(descriptor)
        self.pass_fds = ()

    def close(self) -> None:
        """Clean up after the end of the program."""
        self.release()
        if self.service is not None:
            self.service.cancel()
        set_right, self.set_right = self.set_right, list[str]
        self.said += set_right()

    async def closed(self) -> None:
        """Do what ``close`` does, in a thread; that goes on if this is cancelled."""
        await asyncio.shield(asyncio.to_thread(self.close))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def plain_interpreter() -> str:
    """Return the path of this interpreter outside of its virtual environment."""
    return getattr(sys, "_base_executable", None) or sys.executable


def readable_descriptor(content: bytes) -> int:
    """Return a descriptor for a program to read content from: an argument has no room for more than 128 KiB."""
    descriptor = os.memfd_create("indus_nb")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def private_variables(place: Path) -> dict[str, str]:
    """Return the variables that direct programs to a directory of their own."""
    changed = {"TMPDIR": str(place), "TMP": str(place), "TEMP": str(place)}
    return changed | {name: f"{place}/.{what}" for name, what in _CACHES.items() if name not in os.environ}


async def made_in_thread(make: Callable[[], T], discard: Callable[[T], object]) -> T:
    """Make something in a thread, and discard it in one if this is cancelled."""

    def discard_result(made: asyncio.Future[T]) -> None:
        if not made.cancelled() and made.exception() is None:
            made.get_loop().run_in_executor(None, discard, made.result())

    making = asyncio.ensure_future(asyncio.to_thread(make))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(discard_result)
        raise
