"""What a session does by itself when a run has ended: ask again, or make room in the model's context."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from indus_nb.events import AutoRetryEnd, AutoRetryStart, CompactionReason, SessionEvent
from indus_nb.loop.loop import Run, RunAborted
from indus_nb.loop.retry import RetrySettings, is_overflow
from indus_nb.messages import AssistantMessage, Message
from indus_nb.providers import Model
from indus_nb.session.compaction import is_good_answer
from indus_nb.session.compactor import Compactor
from indus_nb.session.conversation import Conversation

_CANCELLED = "Retry cancelled"


class Recovery:
    """Follows the runs of one prompt after another.

    ``compact`` makes room and tells whether it did; it reports its failures itself.
    """

    def __init__(
        self,
        retry: RetrySettings,
        compactor: Compactor,
        emit: Callable[[SessionEvent], Awaitable[None]],
        compact: Callable[[CompactionReason], Awaitable[bool]],
    ) -> None:
        self._retry = retry
        self._compactor = compactor
        self._emit = emit
        self._compact = compact
        self._attempt = 0
        self._overflow_met = False
        self._wait: asyncio.Event | None = None

    async def begin(self, run: Run, conversation: Conversation) -> None:
        """Before the first run for a prompt: make room if there is too little."""
        self._attempt = 0
        self._overflow_met = False
        await self._make_room(run, conversation)

    def will_retry(self, run: Run, answer: AssistantMessage | None) -> bool:
        """Whether ``run``, which ended with ``answer``, is followed by another attempt."""
        return answer is not None and not run.abort.requested and self._delay_ms(answer) is not None

    async def goes_on(self, run: Run, conversation: Conversation) -> bool:
        """Whether to ask again; waits for that as long as it takes, and makes room where that is needed."""
        answer = conversation.last_answer
        if answer is None or run.abort.requested:
            if self._attempt:
                await self._end(success=False, final_error=_CANCELLED)
            return False
        if (delay_ms := self._delay_ms(answer)) is not None:
            return await self._wait_for_retry(run, conversation, answer, delay_ms)
        if self._attempt and answer.stop_reason == "error":
            await self._end(success=False, final_error=answer.error_message)
        if self._overflows(answer, run.model):
            self._overflow_met = True
            if not await self._compact("overflow"):
                return False
            conversation.forget(answer)
            return not run.abort.requested
        if answer.stop_reason != "error":
            await self._make_room(run, conversation)
        return False

    async def take_note(self, message: Message) -> None:
        """A message has ended: a good answer is the end of retrying."""
        if self._attempt and is_good_answer(message):
            await self._end(success=True)

    def end_wait(self) -> bool:
        """Do not wait for another attempt; tells whether anything waited."""
        if self._wait is None:
            return False
        self._wait.set()
        return True

    def _delay_ms(self, answer: AssistantMessage) -> int | None:
        return self._retry.delay_ms(answer, self._attempt + 1)

    def _overflows(self, answer: AssistantMessage, model: Model) -> bool:
        if self._overflow_met or not self._compactor.settings.enabled:
            return False
        same = (answer.provider, answer.model) == (model.provider, model.id)
        return same and is_overflow(answer, model.context_window)

    async def _wait_for_retry(
        self, run: Run, conversation: Conversation, answer: AssistantMessage, delay_ms: int
    ) -> bool:
        self._attempt += 1
        self._wait = asyncio.Event()
        await self._emit(
            AutoRetryStart(
                attempt=self._attempt,
                max_attempts=self._retry.max_retries,
                delay_ms=delay_ms,
                error_message=answer.error_message or "",
            )
        )
        try:
            with run.abort.interruptible():
                async with asyncio.timeout(delay_ms / 1000):
                    await self._wait.wait()
        except TimeoutError:
            conversation.forget(answer)
            return True
        except RunAborted:
            pass
        finally:
            self._wait = None
        await self._end(success=False, final_error=_CANCELLED)
        return False

    async def _end(self, *, success: bool, final_error: str | None = None) -> None:
        attempt, self._attempt = self._attempt, 0
        await self._emit(AutoRetryEnd(success=success, attempt=attempt, final_error=final_error))

    async def _make_room(self, run: Run, conversation: Conversation) -> None:
        if not run.abort.requested and self._compactor.is_due(conversation, run.model):
            await self._compact("threshold")
