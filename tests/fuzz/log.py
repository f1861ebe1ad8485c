"""What was sent and what came back in one fuzzing round, in one list; and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
SENT = "sent"
"""The type of an item that is no frame: ``{"type": "sent", "command": …}``."""


@dataclass(frozen=True)
class Violation:
    """A rule that was broken; ``at`` is the index of the item in the log where that showed."""

    kind: str
    at: int
    text: str


@dataclass
class Log:
    """A round. ``items`` are frames and, where they were written, the commands; ``final`` are the last answers."""

    wire: str
    has_extension: bool
    items: list[Json] = field(default_factory=list)
    stderr: str = ""
    status: int | None = 0
    leftovers: list[str] = field(default_factory=list)
    directory: Path | None = None
    hurried: bool = False
    """Whether standard input was closed while something may have gone on."""
    problems: list[Violation] = field(default_factory=list)
    """What the player itself met: a command that nobody answered, a session that never became idle."""

    @property
    def frames(self) -> int:
        """How many frames came."""
        return sum(item["type"] != SENT for item in self.items)

    @property
    def commands(self) -> int:
        """How many lines were sent."""
        return len(self.items) - self.frames

    def around(self, at: int, before: int = 25, after: int = 8) -> list[str]:
        """The items near ``at``, each in one short line."""
        start = max(0, at - before)
        return [
            f"{'>>' if index == at else '  '} {index:4} {brief(self.items[index])}"
            for index in range(start, min(len(self.items), at + after + 1))
        ]


def brief(item: Json) -> str:
    """An item in a few words."""
    kind = item["type"]
    match kind:
        case "sent":
            return f"      <-- {str(item['command'])[:110]}"
        case "response":
            told = item.get("error") or _brief_data(item.get("data"))
            return f"response {item.get('id')} {item['command']} {'ok' if item['success'] else 'REFUSED'} {told}"
        case "message_start" | "message_end":
            message = item["message"]
            return f"{kind} {message['role']} {message.get('stopReason', '')} {text_of(message)[:50]!r}"
        case "message_update":
            return f"{kind} {item['assistantMessageEvent']['type']}"
        case "agent_end":
            return f"{kind} willRetry={item.get('willRetry')}"
        case _:
            rest = {key: value for key, value in item.items() if key not in ("type", "args", "partialResult")}
            return f"{kind} {str(rest)[:120]}"


def _brief_data(data: Any) -> str:
    if isinstance(data, dict) and "isStreaming" in data:
        keys = ("isStreaming", "isCompacting", "messageCount", "pendingMessageCount")
        return str({key: data.get(key) for key in keys})
    return "" if data is None else str(data)[:60]


def text_of(message: Json) -> str:
    """The text of a message of any role."""
    content = message.get("content", "")
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)
