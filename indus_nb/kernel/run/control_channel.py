"""Requests of attached programs, taken from the kernel's control channel, which is read while a cell runs.

What this module promises: a request is acknowledged on the channel before what was sent behind it is answered, so that
a program knows at once when nobody takes it. Everything after that happens on other threads.

Nothing here, and nothing that it imports, needs more than the standard library: it is in place before the rest is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias

REQUEST, REPLY = "indus_nb_request", "indus_nb_reply"
"""Types of the messages."""

Reply: TypeAlias = Callable[[dict[str, Any]], None]
"""Function that sends a message about a request to the program that made it, from any thread."""


class ControlRequests:
    """The requests that reach one kernel of ipykernel."""

    def __init__(self, kernel: Any, receive: Callable[[dict[str, Any], Reply], None]) -> None:
        """Take requests from now on.

        Args:
            receive: Called with each on the thread of the channel, which it must not hold up.

        Raises:
            AttributeError: The kernel is of another make.
        """
        self._kernel = kernel
        self._receive = receive
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

        send({"do": "taken"})
        self._receive(message["content"], reply)
