"""Delivery of widget messages to the agent while a cell is busy.

A kernel handles one message after the other, so a page's message waits until the running cell has ended:
a click on a button in the output of that very cell comes too late. `CommGate` sits where the kernel reads messages
from its shell socket, and intercepts those that are meant for the agent. When that is depends on the kernel:

- ipykernel 7 reads the socket in a thread of its own, so the gate sees every message as it arrives.
- ipykernel 6 reads it in the main thread, between two messages. A cell that waits has it read by `CommGate.pump`.

What this module promises:

- Only messages of comms that are watched are intercepted, and only those that are signed with the kernel's key.
  Everything else goes to the kernel untouched and in its order.
- A callback runs on the agent's thread, in a copy of the context of the cell that waits or was the last to wait.
- No failure of the gate or of a callback reaches the loop that reads for the kernel; it is logged.
- When the gate is closed, the kernel is as it was.

Neither way is documented. So the gate first checks that the kernel has the attributes that it needs; if not, it does
nothing, and the kernel works as if it were not there.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, cast

_NEEDED = attrgetter(
    "session.feed_identities",
    "session.unpack",
    "session.deserialize",
    "comm_manager.comms",
    "shell_handlers",
    "_publish_status",
    "log.error",
    "shell_stream.on_recv",
    "shell_stream.flush",
    "shell_stream._recv_callback",
    "shell_stream._recv_copy",
)
"""Attributes of a kernel that the gate uses; some are private."""

_THREAD_SECONDS = 5.0
"""Seconds within which a thread that reads a socket starts a piece of work."""

_STATUS_SECONDS = 1.0
"""Seconds until the kernel's status is published again: what else it was asked meanwhile ended with an idle."""

_QUESTIONS = frozenset({"kernel_info_request", "comm_info_request"})
DOOR = "indus_nb.door"
"""The target of comms that the front-end extension opens."""
_TARGETS = frozenset({"jupyter.widget.control", DOOR})
"""Targets of comms that pages open, whose messages are delivered while a cell waits."""


@dataclass(frozen=True, slots=True)
class _Intercepted:
    """A verified message that the kernel does not get."""

    kind: str
    sender: list[bytes]
    message: dict[str, Any]


class CommGate:
    """Gate that delivers comm messages in the agent's thread while the kernel is busy.

    ``call`` runs work in the agent's thread. A comm's own message callback gets the message there, in a copy of the
    context of the cell that waits or was the last to wait: what it sends belongs to that cell. Around it the kernel's
    status is published as the kernel would, because pages do not send until they see it.

    Everything else goes to the kernel untouched and in order, and so does a message that is malformed or not signed
    with the kernel's key. A failure of the gate or of a callback is written to the kernel's log and ends nothing.

    Make it and close it in the main thread; `watch` and `forget` may be called in any.
    """

    mode: Literal["thread", "pump", "none"]
    """Way of interception: as messages arrive, when `pump` is called, or not at all."""
    _onward: Callable[[list[Any]], Awaitable[object] | None]

    def __init__(self, kernel: Any, call: Callable[[Callable[[], object]], None]) -> None:
        self.mode = "none"
        self._kernel = kernel
        self._call = call
        self._watched: set[str] = set()
        self._controls: set[str] = set()
        self._context = copy_context()
        self._waiting: dict[object, Context] = {}
        self._last_word = threading.Lock()
        self._reminds = False
        if not _has_what_is_needed(kernel):
            return
        self._stream = kernel.shell_stream
        self._reader = getattr(kernel, "shell_channel_thread", None)
        if self._where_it_is_read(self._install):
            self.mode = "pump" if self._reader is None else "thread"

    def watch(self, comm_id: str) -> None:
        """Intercept this comm's messages from now on."""
        self._watched.add(comm_id)

    def forget(self, comm_id: str) -> None:
        """Stop intercepting this comm's messages."""
        self._watched.discard(comm_id)

    @contextlib.contextmanager
    def busy(self) -> Generator[None]:
        """Mark one of our cells as waiting within this context; several may be.

        A page that is loaded meanwhile asks which kernel and which comms there are, and then for the state of all
        widgets. Only now it is answered at once: it would show nothing of what the waiting cell displayed otherwise.

        Pages believe the last status that they read, and it is an idle one when the kernel has answered something
        that does not pass here, such as a request for a subshell. So that of the cell is repeated.
        """
        cell = object()
        self._context = self._waiting[cell] = copy_context()
        if self.mode != "none":
            with contextlib.suppress(RuntimeError):  # no loop runs there: nothing is repeated
                self._call(self._begin_reminding)
        try:
            yield
        finally:
            with self._last_word:
                del self._waiting[cell]
            if self._waiting:
                self._context = next(reversed(self._waiting.values()))

    def pump(self) -> None:
        """Read the kernel's socket on the main thread while it waits.

        Needed in mode ``pump`` only.
        """
        if self.mode == "pump":
            self._stream.flush()

    def close(self) -> None:
        """Restore the kernel's handlers."""
        if self.mode != "none":
            self.mode = "none"  # lets everything through, should it be impossible to remove the gate
            self._where_it_is_read(self._uninstall)

    def _install(self) -> None:
        self._onward = attrgetter("_recv_callback")(self._stream)
        self._stream.on_recv(self._receive, copy=False)

    def _uninstall(self) -> None:
        if attrgetter("_recv_callback")(self._stream) == self._receive:
            self._stream.on_recv(self._onward, copy=False)

    def _where_it_is_read(self, work: Callable[[], None]) -> bool:
        """Run a function in the thread that owns the socket; returns whether it ran without an error."""
        done: list[bool] = []
        ended = threading.Event()

        def attempt() -> None:
            try:
                work()
                done.append(True)
            except Exception:  # noqa: BLE001 - another version may do anything; the cell must not fail because of it
                self._log("The gate for widget messages could not be opened or closed.")
            ended.set()

        if self._reader is None:
            attempt()
        elif self._reader.is_alive():
            self._reader.io_loop.add_callback(attempt)
            ended.wait(_THREAD_SECONDS)
        return bool(done)

    # What follows runs in the thread that reads the socket.

    def _receive(self, frames: list[Any]) -> Awaitable[object] | None:
        intercepted: _Intercepted | None = None
        if self.mode != "none":
            # Bytes from outside can be wrong in any way; reporting it is left to the kernel.
            with contextlib.suppress(Exception):
                intercepted = self._intercept(frames)
        if intercepted is None:
            return self._onward(frames)
        try:
            if intercepted.kind in _QUESTIONS:
                self._answer(intercepted)
            else:
                deliver = self._context.copy().run
                self._call(lambda: deliver(self._deliver, intercepted))
        except Exception:  # noqa: BLE001 - raised here, it would reach the loop that reads for the whole kernel
            self._log(f"A {intercepted.kind} was lost: it could not be handed to the agent.")
        return None

    def _intercept(self, frames: list[Any]) -> _Intercepted | None:
        """Return the message in the frames if it is for us and its signature is valid, else ``None``."""
        session = self._kernel.session
        sender, parts = session.feed_identities(frames, copy=False)
        kind = session.unpack(parts[1].bytes)["msg_type"]
        if kind in _QUESTIONS:
            ours = bool(self._waiting)
        elif kind in {"comm_open", "comm_msg", "comm_close"}:
            ours = self._is_ours(kind, session.unpack(parts[4].bytes))
        else:
            ours = False
        if not ours:
            return None
        # This notes the signature, and refuses one that it knows. So what the kernel shall get must not pass here.
        message = session.deserialize(parts, content=True, copy=False)
        if kind == "comm_open":
            self._controls.add(message["content"]["comm_id"])
        elif kind == "comm_close":
            self._controls.discard(message["content"]["comm_id"])
        return _Intercepted(kind, sender, message)

    def _is_ours(self, kind: str, content: dict[str, Any]) -> bool:
        if kind == "comm_open":
            return bool(self._waiting) and content["target_name"] in _TARGETS
        comm_id = content["comm_id"]
        return comm_id in self._controls or (kind == "comm_msg" and comm_id in self._watched)

    def _answer(self, intercepted: _Intercepted) -> None:
        """Call the kernel's own handler, in this thread: a socket may be used by one thread only."""
        with self._status(intercepted):
            answer = self._kernel.shell_handlers[intercepted.kind](
                self._stream, intercepted.sender, intercepted.message
            )
            if inspect.isawaitable(answer):
                _run_at_once(cast("Coroutine[Any, Any, object]", answer))

    # What follows runs in the agent's thread.

    def _deliver(self, intercepted: _Intercepted) -> None:
        manager = self._kernel.comm_manager
        try:
            with self._status(intercepted):
                if intercepted.kind != "comm_msg":
                    getattr(manager, intercepted.kind)(None, intercepted.sender, intercepted.message)
                elif comm := manager.comms.get(intercepted.message["content"]["comm_id"]):
                    # Its `handle_msg` would also run the hooks of a cell, which flush figures: in the wrong thread.
                    (getattr(comm, "_msg_callback", None) or comm.handle_msg)(intercepted.message)
        except Exception:  # noqa: BLE001 - a callback may fail in any way, and the next message shall be delivered
            self._log(f"A {intercepted.kind} could not be handled.")

    def _begin_reminding(self) -> None:
        if not self._reminds:
            asyncio.get_running_loop().call_later(_STATUS_SECONDS, self._remind)
            self._reminds = True

    def _remind(self) -> None:
        with self._last_word:
            self._reminds = bool(self._waiting) and self.mode != "none"
            if self._reminds:
                self._context.copy().run(self._kernel._publish_status, "busy", "shell")  # noqa: SLF001 - see below
        if self._reminds:
            asyncio.get_running_loop().call_later(_STATUS_SECONDS, self._remind)

    # The rest runs in both.

    @contextlib.contextmanager
    def _status(self, intercepted: _Intercepted) -> Generator[None]:
        publish = self._kernel._publish_status  # noqa: SLF001 - nothing public marks a message as handled
        publish("busy", "shell", intercepted.message)
        try:
            yield
        finally:
            # Pages and servers believe the last status of the kernel, and an idle one may be culled. The lock
            # sees to it that the kernel has it when the cell ends.
            with self._last_word:
                publish("idle", "shell", intercepted.message)
                if self._waiting:
                    self._context.copy().run(publish, "busy", "shell")

    def _log(self, what: str) -> None:
        self._kernel.log.error(what, exc_info=sys.exception())


def _has_what_is_needed(kernel: Any) -> bool:
    try:
        *_, receive, copies = _NEEDED(kernel)
        reader = getattr(kernel, "shell_channel_thread", None)
        if reader is not None:
            attrgetter("is_alive", "io_loop.add_callback")(reader)
    except Exception:  # noqa: BLE001 - a kernel of another make may raise anything here
        return False
    return callable(receive) and not copies


def _run_at_once(coroutine: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never suspends, without an event loop: none may be free."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("the kernel's handler of this message wants to wait, which is impossible here")
