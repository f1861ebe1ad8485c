"""A running kernel that the agent is attached to: code and requests to it, and the facts known of it.

What this module promises:

- **Nothing stays there.** Requests are silent and carry the helper with them; what code defines in the user's namespace
  is all that is left.
- **Only our code is interrupted.** Where the kernel is on this machine, the helper watches a file that is locked
  here as long as this process waits: once the lock is gone, also because this process was killed, it interrupts the
  code, and does not begin with code that still waits. Elsewhere an interrupt is sent only after our code has begun and
  before it has ended.
- **Nothing waits in the kernel while a cell of the user's runs** but a question that leaves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, Self, cast

from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, random_hex
from indus_nb.kernel.attached.connection import Connection, KernelGoneError, Request, language_in, payload_of
from indus_nb.kernel.attached.finding import FoundKernel, interrupt_by_server
from indus_nb.safety.redaction import labelled_secrets
from indus_nb.tools.tool import ToolError

_BUSY_SECONDS = 0.4
_END_SECONDS = 5.0
_INTERRUPT_SECONDS = 1.0
_NAME = "<indus attached>"


@dataclass(slots=True)
class About:
    """Facts that a kernel reports about itself.

    Attributes:
        secrets: Values of its environment that are secret, with their names.
    """

    leases: bool
    has_extension: bool
    secrets: Mapping[str, str]


@dataclass(slots=True)
class Ended:
    """Result of code that has ended.

    Attributes:
        error: The traceback of what it raised; ``None`` if it raised nothing, empty if it was interrupted.
        changed: Its changes, as a line.
        pages: Help texts that a front end would show beside the cell.
    """

    error: str | None
    kind: str
    changed: str
    not_undoable: str
    pages: list[str]


class Watcher(Protocol):
    """Observer of the progress of code.

    Attributes:
        prompt: A key that the calls of one prompt share.
        ended: Set when nothing of it will run any more.
    """

    prompt: str
    ended: bool

    def waits(self) -> None:
        """Handle that the code has to wait for a cell."""
        ...

    def begins(self, interrupt: Callable[[], None]) -> None:
        """Handle that the code is sent, and take the callback that interrupts it."""
        ...

    def message(self, kind: str, content: JsonObject) -> None:
        """Handle a message with what the code prints or displays."""
        ...


class Lease:
    """A file that is locked as long as this process waits; used as a context."""

    def __init__(self) -> None:
        self._file, self.path = tempfile.mkstemp(prefix="indusagi-", suffix=".lease")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._held = True

    def release(self) -> None:
        """Release the lock, so that the helper interrupts the code."""
        if self._held:
            self._held = False
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held = False
        os.close(self._file)
        with contextlib.suppress(OSError):
            Path(self.path).unlink()


class RunningKernel:
    """Client of one kernel, with one request at a time."""

    def __init__(self, found: FoundKernel) -> None:
        """Create a client of a kernel; the first request opens the channels."""
        self.found = found
        self._connection: Connection | None = None
        self._about: About | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def secrets(self) -> Mapping[str, str]:
        """Return secret values that must not be shown: of this process's environment, and of the kernel's if known."""
        return {**labelled_secrets(), **(self._about.secrets if self._about is not None else {})}

    @property
    def about(self) -> About | None:
        """Return what the kernel has reported about itself; ``None`` before the first request."""
        return self._about

    def close(self) -> None:
        """Close the channels; the next request opens others."""
        connection, self._connection, self._about = self._connection, None, None
        if connection is not None:
            connection.close()

    async def open(self) -> Connection:
        """Open the channels."""
        return Connection(self.found)

    @contextlib.asynccontextmanager
    async def _free(self, on_busy: Callable[[], None]) -> AsyncGenerator[Connection]:
        """Wait until the kernel runs no cell."""
        async with self._one_at_a_time:
            try:
                if self._connection is None:
                    self._connection = await self.open()
                connection = self._connection
                info = asyncio.ensure_future(connection.ask("kernel_info_request"))
                try:
                    await asyncio.wait([info], timeout=_BUSY_SECONDS)
                    if not info.done():
                        on_busy()
                    if problem := refusal(language_in(await info), self.found):
                        raise ToolError(problem)
                finally:
                    info.cancel()
                if self._about is None:
                    self._about = await self._hello(connection)
                yield connection
            except KernelGoneError:
                self.close()
                raise ToolError(
                    f"The kernel of {self.found.label} is gone: it was shut down, restarted or killed, and its "
                    "variables are lost. Ask the user to start it again and to run the cells that are needed."
                ) from None

    async def _hello(self, connection: Connection) -> About:
        with Lease() as lease:
            reply = await self._answer(connection, {"do": "hello", "lease": lease.path})
        leases = reply.get("leases") is True
        if leases:
            started: object = reply.get("started")
            connection.process = (int(reply["pid"]), started if isinstance(started, str) else None)
        return About(leases, reply.get("extension") is True, _secrets(reply))

    async def _answer(self, connection: Connection, given: JsonObject) -> JsonObject:
        number = random_hex(8)
        with connection.executing(_request({**given, "id": number}), lambda _kind, _content: None) as request:
            reply = await connection.unless_gone(request.reply)
        return self._read(reply, number)

    def _read(self, reply: JsonObject, number: str) -> JsonObject:
        answer = payload_of(reply, number)
        if answer is None:
            message = f"{reply.get('ename', '')}: {reply.get('evalue', '')}".strip(": ")
            why = f" ({message[:300]})" if message else ""
            raise ToolError(f"The kernel of {self.found.label} did not do what it was asked{why}: it needs IPython.")
        return answer

    async def ask(self, given: JsonObject, on_busy: Callable[[], None] = lambda: None) -> JsonObject:
        """Send the helper a short request, once no cell runs.

        Args:
            on_busy: Called if a cell runs.

        Raises:
            ToolError: The kernel is gone, or cannot be asked.
        """
        async with self._free(on_busy) as connection:
            return await self._answer(connection, given)

    async def run(self, code: str, call: str, name: str, watcher: Watcher) -> Ended:
        """Run code of the model's; when the task is cancelled, the code is interrupted.

        Raises:
            ToolError: The kernel is gone, or cannot run it.
        """
        async with self._free(watcher.waits) as connection:
            about = cast("About", self._about)
            given: JsonObject = {"do": "run", "code": code, "call": call, "name": name, "prompt": watcher.prompt}
            with Lease() as lease:
                given["lease"] = lease.path if about.leases else ""
                answer = await self._execute(connection, {**given, "awaits": False}, lease, watcher)
                if answer.get("awaits"):
                    answer = await self._execute(connection, {**given, "awaits": True}, lease, watcher)
            about.secrets = _secrets(answer)
            error, pages = answer.get("error"), answer.get("pages")
            return Ended(
                error=None if error is None else str(error),
                kind=str(answer.get("kind", "")),
                changed=str(answer.get("changed") or ""),
                not_undoable=str(answer.get("notUndoable") or ""),
                pages=[str(page) for page in cast("list[object]", pages)] if isinstance(pages, list) else [],
            )

    async def _execute(self, connection: Connection, given: JsonObject, lease: Lease, watcher: Watcher) -> JsonObject:
        number = random_hex(8)
        code = _request({**given, "id": number}, awaits=given["awaits"])
        with connection.executing(code, watcher.message) as request:
            interrupts: set[asyncio.Future[None]] = set()

            def interrupt() -> None:
                lease.release()
                if not given["lease"] and not interrupts:
                    interrupts.add(asyncio.ensure_future(_interrupt(connection, request, self.found)))

            watcher.begins(interrupt)
            try:
                reply = await connection.all_of(request)
            except asyncio.CancelledError:
                interrupt()
                ending = asyncio.ensure_future(connection.all_of(request))
                await asyncio.wait([ending], timeout=_END_SECONDS)
                watcher.ended = request.reply.done()
                ending.cancel()
                raise
            finally:
                for sent in interrupts:
                    sent.cancel()
            watcher.ended = True
            return self._read(reply, number)


async def _interrupt(connection: Connection, request: Request, found: FoundKernel) -> None:
    """Interrupt our code in a kernel elsewhere, once it has begun and until it has ended."""
    await request.begun.wait()
    while not (request.idle.is_set() or request.reply.done()):
        try:
            await asyncio.wait_for(connection.ask("interrupt_request", "control"), _INTERRUPT_SECONDS)
        except TimeoutError:  # of a kernel that takes signals only: its server sends one
            if not (request.idle.is_set() or request.reply.done()):
                await asyncio.to_thread(interrupt_by_server, found)
        except KernelGoneError:
            return
        await asyncio.sleep(_INTERRUPT_SECONDS)


def refusal(language: str, found: FoundKernel) -> str | None:
    """Return why a kernel cannot be worked in; ``None`` if it can."""
    if language.casefold() in ("python", "ipython"):
        return None
    what = f"runs {plain(language[:40])}" if language else "does not say what it runs"
    return f"The kernel of {found.label} {what}: only kernels of Python (IPython) can be worked in."


def _secrets(reply: JsonObject) -> dict[str, str]:
    """Return the secrets of the kernel's environment, by their values."""
    environment: object = reply.get("environment")
    held = cast("dict[str, str]", environment) if isinstance(environment, dict) else {}
    return {**labelled_secrets(held)}


def _request(given: JsonObject, *, awaits: bool = False) -> str:
    """Build the code that sends the helper a request and leaves no name behind."""
    run = f'exec(compile({_helper()!r}, {_NAME!r}, "exec"), helper) or helper["main"]({json.dumps(given)!r})'
    return f"{'await ' if awaits else ''}(lambda helper: {run})({{}})"


@cache
def _helper() -> str:
    return "\n\n".join(Path(__file__).with_name(name).read_text("utf-8") for name in ("inventory.py", "helper.py"))
