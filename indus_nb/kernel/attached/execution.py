"""Output of the model's code in a kernel that the agent is attached to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.run.outputs import Displays
from indus_nb.tools.commands.shell import PlainText
from indus_nb.tools.truncate import GrowingTail, Truncation


class AttachedExecution:
    """One run of code; a ``Watcher`` of it.

    Attributes:
        tail: The printed text, with short texts for the model about displays.
        waiting: Whether it waits for a cell of the user's.
        prompt: A key that the calls of one prompt share.
        sent: Set when it was sent to the kernel.
        ended: Whether none of it will run any more.
        interrupt: Interrupts it, once it was sent.
    """

    def __init__(self, on_change: Callable[[], None], prompt: str) -> None:
        """Start with no output.

        Args:
            on_change: Called when there is something new.
            prompt: A key that the calls of one prompt share.
        """
        self.prompt = prompt
        self.tail = GrowingTail("python", folds=True)
        self.displays = Displays()
        self.waiting = self.ended = False
        self.sent = asyncio.Event()
        self.interrupt: Callable[[], None] = lambda: None
        self._plain = PlainText(keeps_cursor=True)
        self._on_change = on_change
        self._clears = False

    def waits(self) -> None:
        """Record that the code has to wait for a cell."""
        self.waiting = True
        self._on_change()

    def begins(self, interrupt: Callable[[], None]) -> None:
        """Record that the code is sent, and how to interrupt it."""
        self.waiting, self.interrupt = False, interrupt
        self.sent.set()
        self._on_change()

    def message(self, kind: str, content: JsonObject) -> None:
        """Store printed text or a display from a message."""
        match kind:
            case "stream":
                self._clear_now()
                self._append(str(content.get("text", "")))
            case "display_data" | "execute_result" | "update_display_data":
                self._show(content, update=kind == "update_display_data")
            case "clear_output":
                self._clears = True
                if not content.get("wait"):
                    self._clear_now()
            case _:
                return
        self._on_change()

    def _show(self, content: JsonObject, *, update: bool) -> None:
        data, metadata = _mapping(content.get("data")), _mapping(content.get("metadata"))
        display_id: object = _mapping(content.get("transient")).get("display_id")
        named = display_id if isinstance(display_id, str) else None
        if update and not self.displays.has(named):
            return
        self._clear_now()
        display, text = self.displays.prepared(data, metadata, named)
        if display is not None:
            text, _ = self.displays.add(display, update=update)
        if text:
            self.tail.end_line()
            self._append(text if text.endswith("\n") else f"{text}\n")

    @property
    def begun(self) -> bool:
        """Return whether the code was sent to the kernel."""
        return self.sent.is_set()

    def add_line(self, text: str) -> None:
        """Add a text on lines of its own."""
        self.tail.end_line()
        self._append(text)

    def _append(self, text: str) -> None:
        self.tail.append(self._plain.feed(text.encode(errors="replace")))

    def _clear_now(self) -> None:
        if self._clears:
            self._clears = False
            self.tail.clear()
            self.displays.clear()

    def text(self) -> Truncation:
        """Return the printed text so far, or the end of it."""
        return self.tail.shown()


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
