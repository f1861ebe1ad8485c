"""The channels to one kernel: requests, and the messages that belong to them.

What this module promises:

- **Only what is ours.** Messages whose parent is none of our requests are thrown away before they are parsed.
- **No request waits for a kernel that is gone.** Its process is looked at if that is known to be on this machine, else
  its heartbeat, and whether anything listens.
- **Nothing of a wrong sender.** Messages without the kernel's signature are thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.attached.finding import FoundKernel
from indus_nb.kernel.run.control_channel import REPLY, REQUEST

T = TypeVar("T")

_LOOK_SECONDS = 0.5
_SILENT_SECONDS = 15.0
_LANGUAGE_SECONDS = 2.0
_MAX_MESSAGE_BYTES = 256 << 20
_IDLE_SECONDS = 5.0

OnMessage = Callable[[str, JsonObject], None]
"""Callback for type and content of each message that a request causes besides its reply."""


class KernelGoneError(Exception):
    """The kernel has ended."""


@dataclass(eq=False)
class Request:
    """One request to the kernel, and its reply.

    Attributes:
        begun: Set when the kernel has begun with it.
        taken: Set when our package in the kernel has taken it.
        idle: Set when the kernel has sent all messages that belong to it.
    """

    id: str
    on_message: OnMessage
    reply: asyncio.Future[JsonObject]
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)


def _nothing(_kind: str, _content: JsonObject) -> None:
    """Ignore a message."""


class Connection:
    """The channels to one kernel, on the event loop that opens them.

    Attributes:
        process: The kernel's process, as ``(pid, when it was started)``, once it is known to be on this machine.
    """

    def __init__(self, kernel: FoundKernel) -> None:
        """Open the channels; nothing is asked yet."""
        import zmq
        from jupyter_client.asynchronous.client import AsyncKernelClient

        client: Any = AsyncKernelClient(connection_file=str(kernel.connection))
        try:
            client.load_connection_file()
        except FileNotFoundError:  # a server removes it with the kernel
            raise KernelGoneError from None
        self.process: tuple[int, str | None] | None = None
        self._client = client
        self._requests: dict[str, Request] = {}
        self._last_message_at = time.monotonic()
        client.context.setsockopt(zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES)  # of the sockets that are made from now on
        client.start_channels(stdin=False)
        channels = {"shell": client.shell_channel, "iopub": client.iopub_channel, "control": client.control_channel}
        self._tasks = [asyncio.ensure_future(self._read(name, channel)) for name, channel in channels.items()]

    def close(self) -> None:
        """Close the channels; pending requests fail."""
        for task in self._tasks:
            task.cancel()
        for request in self._requests.values():
            request.reply.cancel()
        self._client.stop_channels()

    # Messages

    async def _read(self, name: str, channel: Any) -> None:
        socket, session = channel.socket, self._client.session
        while True:
            frames: list[bytes] = await socket.recv_multipart()
            self._last_message_at = time.monotonic()
            with contextlib.suppress(Exception):  # no message of this protocol, or not signed with the kernel's key
                _, parts = session.feed_identities(frames)
                if not any(own_id.encode() in parts[2] for own_id in self._requests):
                    continue
                message: Any = session.deserialize(parts)
                request = self._requests.get(message["parent_header"].get("msg_id"))
                if request is not None:
                    self._handle(request, name, message["msg_type"], message["content"])

    def _handle(self, request: Request, name: str, kind: str, content: JsonObject) -> None:
        if kind == REPLY and content.get("do") != "end":
            request.taken.set()
            request.on_message(str(content.get("do")), content)
        elif name != "iopub":
            if not request.reply.done():
                request.reply.set_result(content)
        elif kind == "status":
            (request.idle if content.get("execution_state") == "idle" else request.begun).set()
        else:
            request.on_message(kind, content)

    @contextlib.contextmanager
    def _sent(
        self, channel: Literal["shell", "control"], kind: str, content: JsonObject, on_message: OnMessage
    ) -> Generator[Request]:
        message: Any = self._client.session.msg(kind, content)
        request = Request(message["header"]["msg_id"], on_message, asyncio.get_running_loop().create_future())
        self._requests[request.id] = request
        try:
            to = self._client.shell_channel if channel == "shell" else self._client.control_channel
            # Not by the channel: its sending takes notice of what has come without waking the task that reads.
            sending: asyncio.Future[object] = to.socket.send_multipart(self._client.session.serialize(message))
            sending.add_done_callback(lambda sent: sent.cancelled() or sent.exception())
            yield request
        finally:
            del self._requests[request.id]

    async def ask(self, kind: str, channel: Literal["shell", "control"] = "shell") -> JsonObject:
        """Send a request that leaves nothing behind, also when the caller is cancelled.

        Args:
            channel: The channel to send it on; ``control`` is answered while a cell runs.

        Raises:
            KernelGoneError: The kernel has ended.
        """
        with self._sent(channel, kind, {}, _nothing) as request:
            return await self.unless_gone(request.reply)

    @contextlib.contextmanager
    def requesting(self, content: JsonObject, on_message: OnMessage) -> Generator[Request]:
        """Send our package in the kernel a request.

        Args:
            on_message: Called with what it reports and asks before its reply.
        """
        with self._sent("control", REQUEST, content, on_message) as request:
            yield request

    def tell(self, content: JsonObject) -> None:
        """Send our package in the kernel what needs no answer."""
        with self._sent("control", REQUEST, content, _nothing):
            return

    def wake(self) -> None:
        """Wake the kernel's loop, which may sleep on while it has taken an interrupt; nothing is left behind."""
        with self._sent("shell", "kernel_info_request", {}, _nothing):
            return

    @contextlib.contextmanager
    def executing(self, code: str, on_message: OnMessage) -> Generator[Request]:
        """Send code that leaves nothing in the history and cannot read from stdin.

        Args:
            on_message: Called with what it prints and displays.
        """
        content: JsonObject = {
            "code": code,
            "silent": True,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        with self._sent("shell", "execute_request", content, on_message) as request:
            yield request

    async def all_of(self, request: Request) -> JsonObject:
        """Wait for the reply to a request, and for all its messages.

        Raises:
            KernelGoneError: The kernel has ended.
        """
        content = await self.unless_gone(request.reply)
        with contextlib.suppress(TimeoutError):  # what a slow reader has missed does not come any more
            await asyncio.wait_for(request.idle.wait(), _IDLE_SECONDS)
        return content

    # Liveness

    async def unless_gone(self, wanted: asyncio.Future[T]) -> T:
        """Wait for something that depends on the kernel's messages; fail if it has ended.

        Raises:
            KernelGoneError: The kernel has ended.
        """
        while not wanted.done():
            await asyncio.wait([wanted], timeout=_LOOK_SECONDS)
            if not wanted.done() and await asyncio.to_thread(self._is_gone):
                raise KernelGoneError
        if wanted.cancelled():
            raise KernelGoneError
        return wanted.result()

    def _is_gone(self) -> bool:
        if self.process is not None:
            return not is_process(*self.process)
        if self._client.hb_channel.is_beating():
            self._last_message_at = time.monotonic()
        return time.monotonic() - self._last_message_at > _SILENT_SECONDS or self._is_refused()

    def _is_refused(self) -> bool:
        """Return whether the kernel's port refuses connections: ZeroMQ retries in silence."""
        if self._client.transport != "tcp":
            return False
        try:
            socket.create_connection((self._client.ip, self._client.shell_port), _LOOK_SECONDS).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False


def is_process(pid: int, started: str | None) -> bool:
    """Return whether a process is still running.

    Args:
        started: When it was started, in the words of ``/proc``; ``None`` where there is none.

    Returns:
        Whether it is there, is no zombie, and is no other one by now.
    """
    if started is None:
        with contextlib.suppress(PermissionError):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return False
        return True
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and fields[19] == started


def language_of(kernel: FoundKernel) -> str | None:
    """Ask a kernel for its language, also while a cell runs; ``None`` without an answer within two seconds."""
    from queue import Empty

    from jupyter_client.blocking.client import BlockingKernelClient

    client: Any = BlockingKernelClient(connection_file=str(kernel.connection))
    client.load_connection_file()
    channel = client.control_channel
    try:
        channel.start()
        channel.send(client.session.msg("kernel_info_request", {}))
        return language_in(channel.get_msg(timeout=_LANGUAGE_SECONDS)["content"])
    except (Empty, ValueError):
        return None
    finally:
        client.stop_channels()


def language_in(info: Mapping[str, Any]) -> str:
    """Return the language that a ``kernel_info_reply`` names; empty if it names none."""
    language: object = info.get("language_info")
    return str(cast("JsonObject", language).get("name", "")) if isinstance(language, dict) else ""


def payload_of(reply: Mapping[str, Any], request: str) -> JsonObject | None:
    """Return the helper's payload in the reply to a request.

    Returns:
        The answer, ``None`` if it gave none.
    """
    listed: object = reply.get("payload")
    for part in cast("list[object]", listed) if isinstance(listed, list) else []:
        if isinstance(part, dict) and cast("JsonObject", part).get("source") == "indus_nb":
            given = cast("JsonObject", part)
            if given.get("to") == request and isinstance(given.get("answer"), dict):
                return given["answer"]
    return None
