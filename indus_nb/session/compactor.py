"""When a session's conversation is compacted, and that it either is or stays as it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence

from indus_nb.errors import CompactionError, IndusError
from indus_nb.events import CompactionEnd, CompactionReason, CompactionStart, SessionEvent
from indus_nb.loop.loop import AbortSignal, RunAborted
from indus_nb.providers import Model
from indus_nb.resources.settings import CompactionSettings
from indus_nb.session.compaction import CompactionResult, Preparation, Summariser, context_tokens, prepare
from indus_nb.session.conversation import Conversation
from indus_nb.session.hooks import CompactionPlan, SessionHooks
from indus_nb.storage.format import Entry
from indus_nb.storage.store import SessionStore

_CANCELLED = "Compaction cancelled"


class Compactor:
    """Compacts a conversation when asked, or when it grows too long for its model."""

    def __init__(
        self,
        settings: CompactionSettings,
        emit: Callable[[SessionEvent], Awaitable[None]],
        announce: Callable[[], Awaitable[None]],
        hooks: Callable[[], SessionHooks],
    ) -> None:
        self.settings = settings
        self.abort = AbortSignal()
        self.running = False
        self._emit = emit
        self._announce = announce
        self._hooks = hooks

    def is_due(self, conversation: Conversation, model: Model) -> bool:
        """Whether the conversation has come too near to the end of the model's context."""
        if not self.settings.enabled or not model.context_window:
            return False
        tokens = conversation.usage(model).tokens
        return tokens is not None and tokens > model.context_window - self.settings.reserve_tokens

    def compact(
        self,
        store: SessionStore,
        conversation: Conversation,
        summariser: Summariser,
        reason: CompactionReason,
        instructions: str | None = None,
    ) -> Coroutine[None, None, CompactionResult]:
        """Put a summary in the place of what is old, in the file and in ``conversation``.

        Raises ``CompactionError`` or ``SessionFileError``; the conversation is as it was then.
        """
        self.abort = AbortSignal()  # now: an abort may come before the work has begun
        return self._compact(store, conversation, summariser, reason, instructions)

    async def _compact(
        self,
        store: SessionStore,
        conversation: Conversation,
        summariser: Summariser,
        reason: CompactionReason,
        instructions: str | None,
    ) -> CompactionResult:
        self.running = True
        try:
            await self._emit(CompactionStart(reason=reason))
            branch = store.branch()
            preparation = prepare(branch, self.settings, context_tokens(conversation.newest_first()))
            with self.abort.interruptible():
                plan = await self._plan(preparation, branch, instructions)
                result = plan.result or await summariser.compact(preparation, self.settings, instructions)
            by_hook = plan.result is not None
            paid = result.usage.to_wire() if result.usage else None
            entry_id = store.append("compaction", **result.to_wire(), usage=paid, fromHook=by_hook or None)
        except RunAborted:
            await self._end(CompactionEnd(reason=reason, result=None, aborted=True))
            raise CompactionError(_CANCELLED) from None
        except IndusError as error:
            await self._end(CompactionEnd(reason=reason, result=None, error_message=str(error)))
            raise
        finally:
            self.running = False
        conversation.reload(store)
        await self._announce()
        await self._hooks().compacted(store.entry(entry_id), by_hook=by_hook)
        await self._end(CompactionEnd(reason=reason, result=result.to_wire(), will_retry=reason == "overflow"))
        return result

    async def _plan(
        self, preparation: Preparation, branch: Sequence[Entry], instructions: str | None
    ) -> CompactionPlan:
        plan = await self._hooks().before_compact(preparation, branch, instructions, self.abort)
        if plan.cancel:
            raise RunAborted
        return plan

    async def _end(self, event: CompactionEnd) -> None:
        self.running = False
        await self._emit(event)
