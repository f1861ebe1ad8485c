"""Compaction of a session's conversation: when it is due, and how it is done.

What this module promises: a compaction either is complete (in the file and in the conversation), or everything is as it
was. Each one is framed by ``compaction_start`` and ``compaction_end``, also when it fails or is aborted.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence

from indus_nb.base.errors import CompactionError, CredentialsError, IndusError, SessionFileError
from indus_nb.base.events import CompactionEnd, CompactionReason, CompactionStart
from indus_nb.core.loop import AbortSignal, RunAborted
from indus_nb.core.session.compaction import CompactionResult, Preparation, Summariser, prepare
from indus_nb.core.session.hooks import CompactionPlan
from indus_nb.core.session.model_choice import ModelChoice
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.recorder import Recorder
from indus_nb.core.session.state import SessionState
from indus_nb.core.storage.entries import Entry
from indus_nb.models import Model

_CANCELLED = "Compaction cancelled"


class Compactor:
    """Compacts the conversation of one session."""

    def __init__(self, state: SessionState, publisher: Publisher, recorder: Recorder, models: ModelChoice) -> None:
        self.abort: AbortSignal = AbortSignal()
        self.running: bool = False
        self._state = state
        self._publisher = publisher
        self._recorder = recorder
        self._models = models

    def is_due(self, model: Model) -> bool:
        """Return whether the conversation has come too near to the end of the model's context."""
        settings = self._state.settings.compaction.within(model.context_window)
        if not settings.enabled or not model.context_window:
            return False
        tokens = self._state.conversation.usage(model).tokens
        return tokens is not None and tokens > model.context_window - settings.reserve_tokens

    def compact(
        self, reason: CompactionReason, instructions: str | None = None
    ) -> Coroutine[None, None, CompactionResult]:
        """Begin to replace old messages by a summary.

        An abort takes effect from this call on.

        Args:
            instructions: what matters most, for the model that writes the summary.

        Returns:
            The work; awaited, it returns the summary, or raises ``CompactionError`` or ``SessionFileError``.

        Raises:
            CredentialsError: No model can write the summary.
            SessionFileError: The messages that are not saved yet cannot be written.
        """
        summariser = self._models.summariser()
        self._recorder.save_all()
        self.abort = AbortSignal()
        return self._compact(summariser, reason, instructions)

    async def try_to_compact(self, reason: CompactionReason) -> bool:
        """Compact without being asked; returns whether it was done.

        Its events hold the reason if not.
        """
        try:
            await self.compact(reason)
        except (CompactionError, CredentialsError, SessionFileError):
            return False
        return True

    async def _compact(
        self, summariser: Summariser, reason: CompactionReason, instructions: str | None
    ) -> CompactionResult:
        store, conversation = self._state.store, self._state.conversation
        settings = self._state.settings.compaction.within(summariser.model.context_window)
        self.running = True
        try:
            await self._publisher.emit(CompactionStart(reason=reason))
            branch = store.branch()
            preparation = prepare(branch, settings, conversation.tokens().total, conversation.cleared)
            with self.abort.interruptible():
                plan = await self._plan(preparation, branch, instructions)
                result = plan.result or await summariser.compact(preparation, settings, instructions)
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
        await self._publisher.announce()
        await self._state.hooks.compacted(store.entry(entry_id), by_hook=by_hook)
        await self._end(CompactionEnd(reason=reason, result=result.to_wire(), will_retry=reason == "overflow"))
        return result

    async def _plan(
        self, preparation: Preparation, branch: Sequence[Entry], instructions: str | None
    ) -> CompactionPlan:
        plan = await self._state.hooks.before_compact(preparation, branch, instructions, self.abort)
        if plan.cancel:
            raise RunAborted
        return plan

    async def _end(self, event: CompactionEnd) -> None:
        self.running = False
        await self._publisher.emit(event)
