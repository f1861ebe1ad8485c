"""The messages of a session on the way to its leaf, as the model and a reader see them.

What this module promises: messages of a file are parsed when they are first needed. Opening a long session, and sending
its messages to a reader, does not wait for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from indus_nb.base.messages import AssistantMessage, CompactionSummaryMessage, Message
from indus_nb.base.wire import collection_paused, dump
from indus_nb.base.wire_model import FrozenModel, WireModel
from indus_nb.core.session.compaction import (
    ContextTokens,
    context_tokens,
    counted_tokens,
    estimated_text_tokens,
    estimated_tokens,
)
from indus_nb.core.storage.entries import Entry
from indus_nb.core.storage.format import StoredContext
from indus_nb.core.storage.store import SessionStore
from indus_nb.models import Model
from indus_nb.models.protocol import ToolSpec

if TYPE_CHECKING:
    from indus_nb.core.session.cleared import Results


class ContextUsage(FrozenModel):
    """Fill level of a model's context.

    ``tokens`` is ``None`` between a compaction and the next answer.
    """

    tokens: int | None
    context_window: int
    percent: float | None


@lru_cache(maxsize=16)
def _usage(tokens: int | None, window: int) -> ContextUsage:
    percent = None if tokens is None else 100 * tokens / window
    return ContextUsage(tokens=tokens, context_window=window, percent=percent)


class TokenCount(WireModel):
    """Token count of the next request.

    ``is_exact`` is whether the model's server counted them; ``reason`` is why it did not, if they are estimated.
    """

    tokens: int
    is_exact: bool
    reason: str | None = None


class Conversation:
    """Messages that a session goes on from.

    Args:
        stored: where they are in the session file.
    """

    def __init__(self, stored: StoredContext) -> None:
        self._stored = stored
        self._messages: list[Message] | None = None
        self._cleared = _results_in(stored)

    @property
    def messages(self) -> list[Message]:
        """Return all messages, oldest first: one list for as long as this object lives."""
        if self._messages is None:
            self._messages = self._read()
        return self._messages

    def _read(self) -> list[Message]:
        with collection_paused():
            return self._stored.messages()

    def __len__(self) -> int:
        return len(self._stored.entries) if self._messages is None else len(self._messages)

    def reload(self, store: SessionStore) -> None:
        """Go on from the leaf of ``store``."""
        self._stored = store.context()
        self._cleared = _results_in(self._stored)
        if self._messages is not None:
            self._messages[:] = self._read()

    @property
    def cleared(self) -> Results:
        """Return the results that a model is not sent."""
        return self._cleared

    def clear(self, results: Results) -> None:
        """Send some results no more."""
        self._cleared = {**results, **self._cleared}

    def sent(self, messages: Sequence[Message] | None = None) -> list[Message]:
        """Return messages, by default all, as a model is sent them."""
        messages = self.messages if messages is None else messages
        if not self._cleared:
            return [*messages]
        from indus_nb.core.session.cleared import sent

        return [sent(message, self._cleared) for message in messages]

    def forget(self, answer: AssistantMessage) -> None:
        """Go on without an answer that failed; the file keeps it."""
        self.messages[:] = [message for message in self.messages if message is not answer]

    def newest_first(self) -> Iterator[Message]:
        """Return the messages backwards; each is parsed when the iterator comes to it."""
        return self._stored.newest_first() if self._messages is None else reversed(self._messages)

    @property
    def has_asked(self) -> bool:
        """Return whether the file has a message on the way to the leaf that asks for a typed answer.

        One that a summary stands for counts; one that came since the messages were loaded does not.
        """
        return self._stored.has_asked

    @property
    def last_answer(self) -> AssistantMessage | None:
        """Return the newest answer, failed ones included."""
        return next((message for message in self.newest_first() if isinstance(message, AssistantMessage)), None)

    @property
    def counted_at(self) -> int:
        """Return the time stamp of the newest answer whose tokens the server has counted; 0 without one."""
        return next((message.timestamp for message in self.newest_first() if counted_tokens(message)), 0)

    @property
    def last_text(self) -> str | None:
        """Return the text of the newest answer that has any content; ``None`` without one."""
        for message in self.newest_first():
            if isinstance(message, AssistantMessage) and not (message.stop_reason == "aborted" and not message.content):
                return message.text
        return None

    def usage(self, model: Model) -> ContextUsage:
        """Return the fill level of the context of ``model``."""
        window = model.context_window
        if self._is_stale():
            return _usage(None, window)
        return _usage(self.tokens().total, window)

    def tokens(self) -> ContextTokens:
        """Return the tokens of the messages, with those of system prompt and tools if an answer has counted them.

        What has been cleared since that answer is not among them.
        """
        tokens = context_tokens(self.newest_first(), self._cleared)
        if self._is_stale() or not tokens.counted:
            return ContextTokens(0, sum(map(estimated_tokens, self.sent())))
        return tokens

    def to_json(self) -> bytes:
        """Serialise the messages as a JSON array: as in the file, until they are objects, which callers may change."""
        if self._messages is None:
            return b"[%b]" % b",".join(filter(None, map(_as_sent, self._stored.entries)))
        return dump(self._messages)

    def estimate(self, system_prompt: str, tools: Sequence[ToolSpec]) -> int:
        """Estimate the tokens of a request; they are counted as far as an answer did that."""
        tokens = self.tokens()
        if tokens.counted:
            return tokens.total
        offered = dump([[tool.name, tool.description, tool.parameters] for tool in tools])
        return tokens.total + estimated_text_tokens(len(system_prompt) + len(offered))

    def _is_stale(self) -> bool:
        """Return whether no answer came since the latest compaction: tokens counted before it are meaningless."""
        summary = self._first()
        if not isinstance(summary, CompactionSummaryMessage):
            return False
        answer = self.last_answer
        return answer is None or answer.timestamp <= summary.timestamp

    def _first(self) -> Message | None:
        if self._messages is None and self._stored.entries and self._stored.entries[0].type != "compaction":
            return None  # a summary comes first, if there is one
        return next(iter(self.messages), None)


def _results_in(stored: StoredContext) -> Results:
    if not stored.cleared:
        return {}
    from indus_nb.core.session.cleared import results_in  # with what only a long conversation needs

    return results_in(stored.cleared)


def _as_sent(entry: Entry) -> bytes | None:
    if (written := entry.message_json()) is not None:
        return written
    try:
        message = entry.message
    except ValueError:
        return None
    return None if message is None else dump(message)
