"""The page's half of the protocol in a few lines: what tests put in the place of a browser."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from itertools import count
from typing import Any, get_args, get_type_hints

from indus_nb.base.wire import JsonObject
from indus_nb.front.notebook.page import protocol, states
from indus_nb.front.notebook.page.widget import AgentWidget

STATE_NAMES = frozenset(states.PanelState.__annotations__) | frozenset(states.CellState.__annotations__)
STATE_NAMES |= frozenset(states.RunState.__annotations__)
_OPERATIONS: dict[str, type[protocol.Operation]] = {
    get_args(get_type_hints(operation)["op"])[0]: operation for operation in get_args(protocol.Operation)
}
_numbers = count(1)


class FakePage:
    """One page that shows one widget: does with its messages what a browser's page does, and sends others back.

    ``send`` carries a message to the widget. What the widget sends goes into `take`. ``number`` is that of the last
    message; a page that has none waits for a `protocol.Full` message.
    """

    draws = True
    """Whether views show what comes: a page may be there whose front end draws none."""

    def __init__(self, send: Callable[[JsonObject], None], *, number: int | None = None) -> None:
        self.name = f"page {next(_numbers)}"
        self.send = send
        self.number = number
        self.messages: list[JsonObject] = []
        self.blocks: dict[str, str] = {}
        self.found: dict[str, list[list[str]]] = {}
        self.state: JsonObject = {}
        self.dialogs: dict[str, protocol.OpenDialog] = {}
        self.toasts: list[str] = []
        self.downloads: list[JsonObject] = []
        self.largest = 0
        self._newest_toast = 0
        self._drawn: set[str] = set()

    @classmethod
    def of(cls, widget: AgentWidget) -> FakePage:
        """A page in the test's own process, which has heard of everything so far."""
        page = cls(lambda message: widget._on_message(None, message, []), number=0)
        widget._widget.send = page.take
        return page

    def tell(self, kind: str, **fields: Any) -> None:
        """Send a message of the protocol, as this page unless another is named."""
        message = {"kind": kind, "page": self.name, **fields}
        protocol.parse(message, "panel")
        self.send(message)

    def prompt(self, text: str, how: str = "send", images: list[JsonObject] | None = None) -> None:
        """Send a prompt, and each of its images before it, whatever they are."""
        for image in images or []:
            self.send({"kind": "image", "page": self.name, **image})
        self.tell("prompt", text=text, how=how)

    def take(self, message: Any) -> None:
        """Do what a message of the widget asks for."""
        self.messages.append(message)
        self.largest = max(self.largest, len(json.dumps(message)))
        match message["kind"]:
            case "full":
                self.blocks, self.state, self.dialogs = {}, {}, {}
            case "patch" if self.number is None or message["n"] <= self.number:
                return
            case "patch" if message["n"] != self.number + 1:
                self.tell("resync")
                return
            case "patch":
                pass
            case "request" if message["what"] in ("cells", "change_cells"):
                return  # a test replies, if any does
            case "request":
                self.tell("reply", id=message["id"], value={"error": "unavailable"})
                return
            case _:
                return
        self.number = message["n"]
        for op, *given in message["ops"]:
            self._carry_out(_OPERATIONS[op](op, *given))
        for dialog_id in self.dialogs.keys() - self._drawn if self.draws else ():
            self._drawn.add(dialog_id)
            self.tell("dialog_shown", id=dialog_id)

    def _carry_out(self, operation: protocol.Operation) -> None:  # noqa: C901 - one case for each operation
        match operation:
            case protocol.Put():
                self.blocks[operation.key] = operation.html
            case protocol.Tail():
                units = self.blocks[operation.key].encode("utf-16-le")
                self.blocks[operation.key] = units[: 2 * operation.keep].decode("utf-16-le") + operation.html
            case protocol.Drop():
                del self.blocks[operation.key]
            case protocol.LeadToCards():
                self.found[operation.key] = operation.numbers
            case protocol.SetState():
                assert operation.state.keys() <= STATE_NAMES
                self.state |= operation.state
                if operation.state.get("download"):
                    self.downloads.append(operation.state["download"])
            case protocol.OpenDialog():
                self.dialogs[operation.dialog["id"]] = operation
            case protocol.CloseDialog():
                self.dialogs.pop(operation.id, None)
            case protocol.ShowToast():
                if operation.toast["n"] > self._newest_toast:
                    self._newest_toast = operation.toast["n"]
                    self.toasts.append(operation.toast["text"])

    @property
    def text(self) -> str:
        """What the blocks say, each on a line of its own."""
        return "\n".join(html.unescape(re.sub(r"<[^>]*>", "", block)).strip() for block in [*self.blocks.values()])

    @property
    def shown(self) -> JsonObject:
        """The state, but for what is the same for every session."""
        return {name: value for name, value in self.state.items() if name not in ("models", "commands")}
