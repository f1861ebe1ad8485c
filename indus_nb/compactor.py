"""When a session's conversation is compacted, and that it either is or stays as it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from indus_nb.agent import AbortSignal, RunAborted
from indus_nb.compaction import CompactionResult, CompactionSettings, Summariser, context_tokens, prepare
from indus_nb.errors import CompactionError, IndusError
from indus_nb.events import CompactionEnd, CompactionReason, CompactionStart, SessionEvent
from indus_nb.messages import AssistantMessage, CompactionSummaryMessage, Message
from indus_nb.providers import Model
from indus_nb.store import SessionStore

_CANCELLED = "Compaction cancelled"


class Compactor:
    """Compacts a conversation when asked, or when it grows too long for its model."""

    def __init__(self, settings: CompactionSettings, emit: Callable[[SessionEvent], Awaitable[None]]) -> None:
        self.settings = settings
        self.abort = AbortSignal()
        self.running = False
        self._emit = emit

    def is_due(self, messages: Sequence[Message], model: Model) -> bool:
        """Whether the conversation has come too near to the end of the model's context."""
        if not self.settings.enabled or not model.context_window or is_stale(messages):
            return False
        return context_tokens(messages) > model.context_window - self.settings.reserve_tokens

    async def compact(
        self,
        store: SessionStore,
        messages: list[Message],
        summariser: Summariser,
        reason: CompactionReason,
        instructions: str | None = None,
    ) -> CompactionResult:
        """Put a summary in the place of what is old, in the file and in ``messages``.

        Raises ``CompactionError`` or ``SessionFileError``; the conversation is as it was then.
        """
        self.running, self.abort = True, AbortSignal()
        try:
            await self._emit(CompactionStart(reason=reason))
            preparation = prepare(store.branch(), self.settings, context_tokens(messages))
            with self.abort.interruptible():
                result = await summariser.compact(preparation, self.settings, instructions)
            store.append("compaction", **result.to_wire(), usage=result.usage.to_wire() if result.usage else None)
        except RunAborted:
            await self._end(CompactionEnd(reason=reason, result=None, aborted=True))
            raise CompactionError(_CANCELLED) from None
        except IndusError as error:
            await self._end(CompactionEnd(reason=reason, result=None, error_message=str(error)))
            raise
        finally:
            self.running = False
        messages[:] = store.context().messages
        await self._end(CompactionEnd(reason=reason, result=result.to_wire(), will_retry=reason == "overflow"))
        return result

    async def _end(self, event: CompactionEnd) -> None:
        self.running = False
        await self._emit(event)


def is_stale(messages: Sequence[Message]) -> bool:
    """Whether nobody answered since the latest compaction: what was counted before it says nothing any more."""
    compacted = next((m.timestamp for m in messages if isinstance(m, CompactionSummaryMessage)), None)
    answered = next((m.timestamp for m in reversed(messages) if isinstance(m, AssistantMessage)), None)
    return compacted is not None and (answered is None or answered <= compacted)
