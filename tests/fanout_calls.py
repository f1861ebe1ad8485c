"""What calls about rows asked, and gave when they were interrupted; a server that counts their money."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

import pytest
from messages_api import MessagesApi, Recorded, Reply, ToolUse

from indus_nb import agent


def asked(request: Recorded) -> str:
    """What the first message of a request holds."""
    content = request.body["messages"][0]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def interrupted(call: Callable[[], object]) -> Any:
    """What a call gave that is interrupted."""
    with pytest.raises(KeyboardInterrupt, match=r"agent\.interrupted has the answers so far") as caught:
        call()
    assert agent.interrupted is caught.value.result  # type: ignore[attr-defined]
    return agent.interrupted


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
