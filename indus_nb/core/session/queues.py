"""Messages that wait: for the next point of delivery in a run, or for the user's next prompt.

What this module promises: every change of the two queues of a run is published as one ``queue_update``, after it.
"""

from __future__ import annotations

from typing import Literal

from indus_nb.base.errors import UsageError
from indus_nb.base.events import QueueUpdate
from indus_nb.base.messages import CustomMessage, UserMessage
from indus_nb.core.loop import MessageQueue
from indus_nb.core.session.publisher import Publisher

StreamingBehavior = Literal["steer", "followUp"]
Disposition = Literal["started", "queued", "handled"]
"""Fate of an accepted prompt: a run of its own, a place in a queue, or neither, for it was a command."""


class Queues:
    """The queues of one session."""

    def __init__(self, publisher: Publisher) -> None:
        self.steering: MessageQueue = MessageQueue()
        self.follow_up: MessageQueue = MessageQueue()
        self._publisher = publisher
        self._for_next_prompt: list[CustomMessage] = []

    @property
    def pending_count(self) -> int:
        """Return the number of messages in both queues of a run."""
        return len(self.steering.waiting) + len(self.follow_up.waiting)

    async def add(self, queue: StreamingBehavior, message: UserMessage | CustomMessage) -> None:
        """Queue a message.

        Args:
            queue: ``steer`` for after the tool call at hand, ``followUp`` for when the model has nothing more to do.
        """
        self._named(queue).waiting.append(message)
        await self.publish()

    async def remove(self, queue: StreamingBehavior, index: int) -> UserMessage | CustomMessage:
        """Remove one message.

        Args:
            index: its place there, counted from 0.

        Raises:
            UsageError: No message waits there.
        """
        waiting = self._named(queue).waiting
        if not 0 <= index < len(waiting):
            raise UsageError("Nothing waits there any more: it was delivered, or taken back.")
        message = waiting.pop(index)
        await self.publish()
        return message

    def take_first(self) -> UserMessage | CustomMessage:
        """Remove and return the message that is next, steering ones first; the caller publishes that.

        One must wait.
        """
        return (self.steering.waiting or self.follow_up.waiting).pop(0)

    async def clear(self) -> tuple[list[str], list[str]]:
        """Empty the queues of the run; returns the texts of both, steering first."""
        texts = self.steering.texts, self.follow_up.texts
        if self.pending_count:
            self.steering.waiting.clear()
            self.follow_up.waiting.clear()
            await self.publish()
        return texts

    async def publish(self) -> None:
        """Publish the waiting messages."""
        await self._publisher.emit(QueueUpdate(steering=self.steering.texts, follow_up=self.follow_up.texts))

    def keep_for_next_prompt(self, message: CustomMessage) -> None:
        """Queue a message for the user's next prompt."""
        self._for_next_prompt.append(message)

    def pop_for_next_prompt(self) -> list[CustomMessage]:
        """Remove and return the messages for the user's prompt."""
        messages, self._for_next_prompt = self._for_next_prompt, []
        return messages

    def _named(self, queue: StreamingBehavior) -> MessageQueue:
        return self.steering if queue == "steer" else self.follow_up
