"""Access to the user's variables for the agent's thread: on the main thread, between cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

from indus_nb.base.errors import UsageError
from indus_nb.kernel.run.main_thread import Job, MainThread

T = TypeVar("T")

_WAIT_SECONDS = 3.0


class UserNamespace:
    """The variables of one shell."""

    def __init__(self, shell: Any, main: MainThread) -> None:
        """Make the namespace of a shell."""
        self._shell = shell
        self._main = main

    def kinds(self) -> dict[str, str]:
        """Return the names of the user's variables, the newest last, each with the name of its class.

        May be called in any thread: no object is asked for anything.
        """
        hidden: Mapping[str, Any] = self._shell.user_ns_hidden
        missing = object()
        return {
            name: type(value).__name__
            for name, value in dict(self._shell.user_ns).items()
            if not name.startswith("_") and hidden.get(name, missing) is not value
        }

    async def do(self, work: Callable[[dict[str, Any]], T]) -> T:
        """Run ``work`` on the main thread: between cells, or within the one that waits for the agent.

        Raises:
            UsageError: A cell of the user's runs, and did not end within three seconds.
        """
        looking = ShortWork(lambda: work(self._shell.user_ns))
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._main.do(looking)
        except TimeoutError:
            if not looking.over:
                raise UsageError(
                    "A cell of yours was running, so your variables were not looked at. Try again when it has ended."
                ) from None
        return looking.result()


class ShortWork(Generic[T]):
    """A short piece of our own work on the main thread."""

    def __init__(self, work: Callable[[], T], *, whole: bool = False) -> None:
        """Create the work.

        Args:
            whole: Whether an interrupt ends nothing of it, for it would leave half of a change.
        """
        self.over: bool = False
        self._work = work
        self._whole = whole
        self._value: T | None = None
        self._error: Exception | None = None

    def prepare(self) -> bool:
        """Wait for nothing."""
        return False

    async def run(self, job: Job) -> None:
        """Do the work."""
        if self._whole:
            job.finish()
        try:
            self._value = self._work()
        except Exception as error:  # noqa: BLE001 - the caller gets it, on another thread
            self._error = error
        self.over = True

    def result(self) -> T:
        """Return what the work has returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return cast("T", self._value)
