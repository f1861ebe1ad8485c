"""Requests of attached programs, taken from the kernel's control channel, which is read while a cell runs.

What this module promises:

- **A request is acknowledged at once**, and before what was sent behind it is answered: a program finds out when
  nothing takes it. Everything after that happens on other threads.
- **A cell that runs stays busy on its page.** The kernel says *idle* behind every message of this channel, and pages
  take that for the cell.

Nothing here, and nothing that it imports, needs more than the standard library: it is in place before the rest is.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from typing import Any, TypeAlias

REQUEST, REPLY = "indus_nb_request", "indus_nb_reply"
"""Types of the messages."""

Reply: TypeAlias = Callable[[dict[str, Any]], None]
"""Function that sends a message about a request to the program that made it, from any thread."""


class ControlRequests:
    """The requests that reach one kernel of ipykernel.

    Attributes:
        id: Names this kernel in requests. One for another, which was restarted since, is not taken.
    """

    def __init__(
        self, kernel: Any, receive: Callable[[dict[str, Any], Reply], None], cell_runs: Callable[[], bool]
    ) -> None:
        """Take requests from now on.

        Args:
            receive: Called with each on the thread of the channel, which it must not hold up.
            cell_runs: Whether a cell of the user's runs; called on that thread.

        Raises:
            AttributeError: The kernel is of another make.
        """
        self.id: str = secrets.token_hex(8)
        self._kernel = kernel
        self._receive = receive
        self._cell_runs = cell_runs
        kernel.control_handlers[REQUEST] = self._take

    def close(self) -> None:
        """Leave the kernel as it was."""
        self._kernel.control_handlers.pop(REQUEST, None)

    def _take(self, stream: Any, sender: Any, message: dict[str, Any]) -> None:
        def send(content: dict[str, Any]) -> None:
            self._kernel.session.send(stream, REPLY, content, message, ident=sender)

        def reply(content: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the channel's loop is closed: the kernel ends
                stream.io_loop.add_callback(send, content)

        if message["content"].get("kernel") == self.id:
            send({"do": "taken"})
            self._receive(message["content"], reply)
        stream.io_loop.add_callback(self._correct_status)

    def _correct_status(self) -> None:
        if self._cell_runs():
            self._publish("busy")
            if not self._cell_runs():  # it ended meanwhile, and its idle may have come before
                self._publish("idle")

    def _publish(self, state: str) -> None:
        # Without a parent: an end that names the cell would have pages drop the outputs behind it.
        kernel = self._kernel
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": state}, ident=b"status")
