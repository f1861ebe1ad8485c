"""Messages that wait for their point of delivery in a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from indus_nb.base.messages import CustomMessage, UserMessage, text_of

QueueMode = Literal["one-at-a-time", "all"]


@dataclass(slots=True)
class MessageQueue:
    """Messages that wait for delivery to a run.

    At each point of delivery one is delivered, or all, by the mode.
    """

    mode: QueueMode = "one-at-a-time"
    waiting: list[UserMessage | CustomMessage] = field(default_factory=list["UserMessage | CustomMessage"])

    @property
    def texts(self) -> list[str]:
        """Return the texts of the waiting messages."""
        return [text_of(message.content) for message in self.waiting]
