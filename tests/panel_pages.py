"""Pages that show widgets of a kernel, as tests are them: they speak over the widgets' comms."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from fake_page import FakePage
from kernels import Kernel

numbers = count(1)


class Wire:
    """A page's connection to the kernel, shared by the widgets on it."""

    def __init__(self, kernel: Kernel) -> None:
        self.client = kernel._manager.blocking_client()
        self.client.start_channels()
        self.pages: list[Page] = []
        self.ended: set[str] = set()
        """The messages, such as those that run cells, that the kernel is done with."""

    def close(self) -> None:
        self.client.stop_channels()

    def send(self, comm_id: str, content: dict[str, Any]) -> None:
        data = {"method": "custom", "content": content}
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        self.client.shell_channel.send(message)

    def take(self, timeout: float) -> None:
        """Take one message, and give it to those whom it is for."""
        message = self.client.get_iopub_msg(timeout=timeout)
        if message["content"].get("execution_state") == "idle":
            self.ended.add(message["parent_header"].get("msg_id", ""))
        if message["msg_type"] == "comm_msg" and message["content"]["data"].get("method") == "custom":
            for page in self.pages:
                if page.comm_id == message["content"]["comm_id"]:
                    page.take(message["content"]["data"]["content"])

    def wait_for(self, condition: Callable[[], object], timeout: float = 240) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            try:
                self.take(max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                seen = "\n\n".join(f"{page.text}\n{page.shown}\n{page.toasts}" for page in self.pages)
                raise TimeoutError(f"it did not come; the pages show:\n{seen}") from None


class Page(FakePage):
    """A page that speaks to a widget in a kernel.

    Args:
        passing: The widget may be closed before this page has said a word, and answers nothing then.
    """

    def __init__(self, wire: Wire, comm_id: str, *, passing: bool = False) -> None:
        super().__init__(lambda message: wire.send(comm_id, message))
        self.wire = wire
        self.comm_id = comm_id
        wire.pages.append(self)
        self.tell("ready")
        self.wait_for(lambda: passing or self.number is not None)

    def wait_for(self, condition: Callable[[], object], timeout: float = 240) -> None:
        self.wire.wait_for(condition, timeout)

    def wait_until_idle(self, texts: str) -> None:
        self.wait_for(lambda: texts in self.text and not self.state["busy"])

    def settle(self) -> None:
        """Return when what was asked for so far is done and shown."""
        text = f"/{next(numbers)}"
        self.tell("complete", text=text)
        self.wait_for(lambda: self.state.get("completions", {}).get("text") == text)


class NotebookPage(Page):
    """A page that has a notebook, and may be told to do nothing with it."""

    def __init__(self, wire: Wire, comm_id: str) -> None:
        self.cells = {"load": "rows = [1]", "panel": "%agent panel"}
        self.marks: dict[str, dict[str, Any]] = {}
        """The marks of cells that the agent wrote."""
        self.asked: list[dict[str, Any]] = []
        self.refuses: str | None = None
        self.silent = False
        self.keeps = ""
        """The requests that `answer_kept` answers, later than they come."""
        self.inserts_code = True
        self.in_brackets: dict[str, int] = {}
        """The numbers in brackets that stand at cells."""
        self.outputs: dict[str, list[dict[str, Any]]] = {}
        super().__init__(wire, comm_id)

    def take(self, message: Any) -> None:
        if message["kind"] != "request":
            super().take(message)
            return
        self.asked.append(message)
        if message["what"] != self.keeps:
            self._answer(message)

    def answer_kept(self) -> None:
        """Answer the last request, now that something else has happened."""
        self._answer(self.asked[-1])

    def _answer(self, message: dict[str, Any]) -> None:
        value = self._answered(message)
        if value is not None:
            self.tell("reply", id=message["id"], value=value)

    def _answered(self, message: dict[str, Any]) -> dict[str, Any] | None:
        match message["what"]:
            case "cells":
                listed = [
                    {"id": name, "type": "code", "source": text, "executionCount": self.in_brackets.get(name)}
                    | ({"agent": self.marks[name]} if name in self.marks else {})
                    | ({"outputs": self.outputs.get(name, [])} if message.get("outputs") else {})
                    for name, text in self.cells.items()
                ]
                return {"cells": listed} if not self.silent else None
            case "change_cells" if self.refuses is not None:
                return {"error": self.refuses}
            case "change_cells":
                return self._changed(message["edits"])
            case _:
                return {"error": "unavailable"}

    def _changed(self, edits: list[dict[str, Any]]) -> dict[str, Any] | None:
        cells = [*self.cells.items()]
        for edit in edits:
            own_id, old, source = edit["cell"], edit["old"], edit["source"]
            ids = [each for each, _ in cells]
            if dict(cells).get(own_id) != old:
                return {"error": "The cell was changed meanwhile."}
            if old is None and edit["type"] == "code" and not self.inserts_code:
                return {"error": "The notebook was closed."}
            at = ids.index(edit["after"]) + 1 if edit["after"] in ids else len(ids)
            at = ids.index(own_id) if old is not None else at
            cells[at : at + (old is not None)] = [] if source is None else [(own_id, source)]
            self.marks |= {own_id: edit["agent"]} if "agent" in edit else {}
        self.cells = dict(cells)
        numbers = [[*self.cells].index(edit["cell"]) + 1 if edit["cell"] in self.cells else 0 for edit in edits]
        return {"numbers": numbers, "removed": []} if not self.silent else None
