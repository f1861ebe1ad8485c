"""A running kernel that the agent is attached to: requests to it, and the facts known of it.

Where our package is installed in the kernel's environment it is loaded there, and answers requests over the control
channel (`indus_nb.front.notebook.lent`); elsewhere code is sent as text, and that is all (`plain`).

What this module promises:

- **Nothing stays there** but our package among the imported modules, and what code defines.
- **Nothing waits in the kernel while a cell of the user's runs** but a question that leaves nothing.
- **A program that is gone ends its code**: it holds a file locked, which is watched in the kernel.
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
from typing import cast

from indus_nb.base.terminal import plain
from indus_nb.base.textcut import head, one_line
from indus_nb.base.wire import JsonObject, clean_text, encodable, random_hex
from indus_nb.kernel.attached.connection import (
    Connection,
    KernelGoneError,
    OnMessage,
    Request,
    language_in,
    payload_of,
)
from indus_nb.kernel.attached.finding import FoundKernel
from indus_nb.safety.redaction import labelled_secrets
from indus_nb.tools.tool import ToolError
from indus_nb.version import __version__

_BUSY_SECONDS = 0.4
_TAKEN_SECONDS = 0.5
_END_SECONDS = 6.0
_MAX_WHY_CHARACTERS = 300
_MAX_ERROR_CHARACTERS = 100_000
_NAME = "<indus attached>"
_REMEDY = (
    "so only code can be run there and the variables be listed by name and type. For all tools of the notebook, with "
    "previews and undo: `%pip install` the clone of indus_nb {version} in that notebook, and start its kernel again."
)


@dataclass(slots=True)
class About:
    """Facts that a kernel reports about itself.

    Attributes:
        id: Names the kernel in requests to our package there.
        limits: Why our package cannot be used there, and what to do, as a sentence; empty where it can.
        secrets: Values of its environment that are secret, with their names, where nothing hides them over there.
    """

    id: str
    limits: str
    secrets: Mapping[str, str]


class Lease:
    """A file that is locked as long as this process uses a kernel.

    Attributes:
        client: Names this use of it in requests.
    """

    def __init__(self) -> None:
        self.client: str = random_hex(8)
        self._file, path = tempfile.mkstemp(prefix="indusagi-", suffix=".lease")
        self.path: str = path
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def close(self) -> None:
        """Release the lock, and remove the file."""
        os.close(self._file)
        with contextlib.suppress(OSError):
            Path(self.path).unlink()


class RunningKernel:
    """Client of one kernel.

    Attributes:
        about: What the kernel has reported about itself; ``None`` before the first request.
    """

    def __init__(self, found: FoundKernel) -> None:
        """Create a client of a kernel; the first request opens the channels."""
        self.found = found
        self.about: About | None = None
        self._connection: Connection | None = None
        self._lease: Lease | None = None
        self._process: tuple[int, str | None] | None = None
        self._attaching = asyncio.Lock()

    @property
    def secrets(self) -> Mapping[str, str]:
        """Return secret values that must not be shown: of this process's environment, and of the kernel's if known."""
        return {**labelled_secrets(), **(self.about.secrets if self.about is not None else {})}

    def close(self) -> None:
        """Close the channels; the next request opens others."""
        connection, self._connection, self.about = self._connection, None, None
        lease, self._lease, self._process = self._lease, None, None
        if connection is not None:
            connection.close()
        if lease is not None:
            lease.close()

    async def open(self) -> Connection:
        """Open the channels."""
        return Connection(self.found)

    @contextlib.asynccontextmanager
    async def channels(self, on_busy: Callable[[], None]) -> AsyncGenerator[Connection]:
        """Open the channels to the kernel if need be, and attach to it, once no cell runs there.

        Raises:
            ToolError: The kernel is gone, or cannot be worked in.
        """
        try:
            async with self._attaching:
                connection = self._connection
                if connection is None:
                    connection = self._connection = await self.open()
                if self.about is None:
                    await self._attach(connection, on_busy)
            yield connection
        except KernelGoneError:
            self.close()
            raise ToolError(
                f"The kernel of {self.found.label} is gone: it was shut down, restarted or killed, and its "
                "variables are lost. Ask the user to start it again and to run the cells that are needed."
            ) from None

    async def attach(self, on_busy: Callable[[], None]) -> str:
        """Attach to the kernel; returns why only code can be run there, as a sentence, empty if everything can be done.

        Raises:
            ToolError: The kernel is gone, or cannot be worked in.
        """
        async with self.channels(on_busy):
            return "" if self.about is None else self.about.limits

    async def _attach(self, connection: Connection, on_busy: Callable[[], None]) -> None:
        await self.wait_until_free(connection, on_busy)
        self._lease = self._lease or Lease()
        request: JsonObject = {"do": "attach", "lease": self._lease.path, "version": __version__}
        reply = await self.entrance(connection, request)
        pid, started, why, environment = (reply.get(key) for key in ("pid", "started", "why", "environment"))
        process = (pid, started if isinstance(started, str) else None) if isinstance(pid, int) else None
        if self._process not in (None, process):
            raise KernelGoneError  # another one has taken its place
        self._process = process
        connection.process = process if reply.get("here") is True else None
        limits = _told(f"{why}, {_REMEDY.format(version=__version__)}") if why else ""
        held = cast("dict[str, str]", environment) if isinstance(environment, dict) else {}
        self.about = About(str(reply.get("kernel")), limits, {**labelled_secrets(held)})

    async def wait_until_free(self, connection: Connection, on_busy: Callable[[], None]) -> None:
        """Wait until no cell runs.

        Args:
            on_busy: Called if a cell runs.
        """
        info = asyncio.ensure_future(connection.ask("kernel_info_request"))
        try:
            await asyncio.wait([info], timeout=_BUSY_SECONDS)
            if not info.done():
                on_busy()
            if problem := refusal(language_in(await info), self.found):
                raise ToolError(problem)
        finally:
            info.cancel()

    async def entrance(self, connection: Connection, given: JsonObject) -> JsonObject:
        """Have the text that is sent along carry out a request."""
        number = random_hex(8)
        call = f'helper["main"]({json.dumps({**given, "id": number})!r})'
        code = f'(lambda helper: exec(compile({_entrance()!r}, {_NAME!r}, "exec"), helper) or {call})({{}})'
        with connection.executing(code, lambda _kind, _content: None) as request:
            reply = await connection.unless_gone(request.reply)
        answer = payload_of(reply, number)
        if answer is None:
            message = _told(f"{reply.get('ename', '')}: {reply.get('evalue', '')}".strip(": "))
            why = f" ({message})" if message else ""
            raise ToolError(f"The kernel of {self.found.label} did not do what it was asked{why}: it needs IPython.")
        return answer

    async def call(
        self, content: JsonObject, on_message: OnMessage, on_busy: Callable[[], None], *, is_job: Callable[[], bool]
    ) -> JsonObject:
        """Make a request of our package in the kernel; when the task is cancelled, what it does is ended.

        Args:
            content: The request, with the id of the ``call``.
            on_message: Called with what the kernel reports and asks meanwhile.
            is_job: Whether the call has become a job.

        Raises:
            ToolError: The kernel is gone, or our package has failed there.
        """
        async with self.channels(on_busy) as connection:
            reply = await self._reply(connection, content, on_message, is_job)
            if reply is None:  # our package was unloaded there: nothing was done
                self.about = None
        if reply is None:
            async with self.channels(on_busy) as connection:
                reply = await self._reply(connection, content, on_message, is_job)
        if reply is None or "error" in reply:
            error = (reply or {}).get("error", f"The kernel of {self.found.label} does not answer.")
            raise ToolError(clean_text(plain(head(str(error), _MAX_ERROR_CHARACTERS))))
        return reply

    async def _reply(
        self, connection: Connection, content: JsonObject, on_message: OnMessage, is_job: Callable[[], bool]
    ) -> JsonObject | None:
        """Return the reply; ``None`` if nothing takes the request."""
        with connection.requesting(self._addressed(content), on_message) as request:
            try:
                await self._handled(connection, request)
                return await connection.unless_gone(request.reply) if request.taken.is_set() else None
            except asyncio.CancelledError:
                self.tell({"do": "cancel", "call": content["call"], "job": is_job()})
                ending = asyncio.ensure_future(connection.unless_gone(request.reply))
                try:
                    await asyncio.wait([ending], timeout=_END_SECONDS)
                finally:
                    ending.cancel()
                if ending.done() and ending.exception() is None and "output" in (reply := ending.result()):
                    return reply
                raise

    async def _handled(self, connection: Connection, request: Request) -> None:
        """Wait until a request is taken, or cannot be any more: something that was sent behind it is answered."""
        try:
            async with asyncio.timeout(_TAKEN_SECONDS):
                await request.taken.wait()
        except TimeoutError:
            # Only now: pages take the end of this request for that of the cell that runs.
            await connection.ask("kernel_info_request", "control")

    def tell(self, content: JsonObject) -> None:
        """Send our package in the kernel something about a request."""
        if self._connection is not None:
            self._connection.tell(self._addressed(content))

    def _addressed(self, content: JsonObject) -> JsonObject:
        lease, about = self._lease, self.about
        is_here = self._connection is not None and self._connection.process is not None
        return {
            **cast("JsonObject", encodable(content)),
            "client": lease.client if lease is not None else "",
            "lease": lease.path if lease is not None and is_here else "",
            "kernel": about.id if about is not None else "",
        }


def refusal(language: str, found: FoundKernel) -> str | None:
    """Return why a kernel cannot be worked in; ``None`` if it can."""
    if language.casefold() in ("python", "ipython"):
        return None
    what = f"runs {plain(language[:40])}" if language else "does not say what it runs"
    return f"The kernel of {found.label} {what}: only kernels of Python (IPython) can be worked in."


def _told(text: str) -> str:
    """Return a text of the kernel's as it may be shown."""
    return one_line(plain(clean_text(text)), _MAX_WHY_CHARACTERS + len(_REMEDY))


@cache
def _entrance() -> str:
    return Path(__file__).with_name("entrance.py").read_text("utf-8")
