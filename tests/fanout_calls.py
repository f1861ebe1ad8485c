"""A server for rows that each call one tool, which counts the money."""

from __future__ import annotations

import threading
from typing import Self

from messages_api import MessagesApi, Recorded, Reply, ToolUse


def asked(request: Recorded) -> str:
    """What the first message of a request holds."""
    content = request.body["messages"][0]["content"]
    return content if isinstance(content, str) else content[0]["text"]


class Calling:
    """Lets each row call a tool with its text, and answers with what the tool gave."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.dollars = 0
        """What the requests cost, in 1e-9 US dollars, at the prices of Claude Haiku."""
        self._lock = threading.Lock()

    @classmethod
    def on(cls, api: MessagesApi, tool: str) -> Self:
        """Answer every request of that server."""
        api.default = server = cls(tool)  # type: ignore[assignment]
        return server

    def __call__(self, request: Recorded) -> Reply:
        with self._lock:
            self.dollars += 100 * 1000 + 20 * 5000
        if len(request.body["messages"]) == 1:
            return Reply(ToolUse(self.tool, {"text": asked(request)}), at_once=True)
        return Reply(" ".join(request.texts), at_once=True)
