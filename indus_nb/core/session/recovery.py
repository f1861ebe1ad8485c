"""Recovery after a run has ended: ask again, or make room in the model's context.

What this module promises: a retry or a compaction that was announced by ``will_retry`` follows, unless an abort comes
first; ``auto_retry_start`` is always followed by ``auto_retry_end``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from indus_nb.base.events import AutoRetryEnd, AutoRetryStart
from indus_nb.base.messages import AssistantMessage, Message
from indus_nb.core.loop import AbortSignal, Run, RunAborted
from indus_nb.core.loop.retry import is_overflow
from indus_nb.core.session.compaction import is_good_answer
from indus_nb.core.session.compactor import Compactor
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.state import SessionState
from indus_nb.models import Model

_CANCELLED = "Retry cancelled"


class Recovery:
    """Follows the runs of one prompt after another.

    Args:
        begin: Called before the first run for a prompt: it may make what a model is sent shorter.
    """

    def __init__(
        self, state: SessionState, compactor: Compactor, publisher: Publisher, begin: Callable[[Model], None]
    ) -> None:
        self._state = state
        self._compactor = compactor
        self._publisher = publisher
        self._make_short = begin
        self._attempt = 0
        self._overflow_met = False
        self._wait: asyncio.Event | None = None

    async def begin(self, run: Run) -> None:
        """Clear old results before the first run for a prompt, and compact if there is too little room."""
        self._attempt = 0
        self._overflow_met = False
        self._make_short(run.model)
        await self._make_room(run)

    def will_retry(self, run: Run, answer: AssistantMessage) -> bool:
        """Return whether another attempt follows a run."""
        return not run.abort.requested and self._delay_ms(answer) is not None

    async def goes_on(self, run: Run) -> bool:
        """Return whether to ask again.

        Waits for that as long as it takes, and makes room where that is needed.
        """
        answer = self._state.last_answer
        if answer is None or run.abort.requested:
            if self._attempt:
                await self._end(success=False, final_error=_CANCELLED)
            return False
        if (delay_ms := self._delay_ms(answer)) is not None:
            return await self._wait_for_retry(run, answer, delay_ms)
        if self._attempt and answer.stop_reason == "error":
            await self._end(success=False, final_error=answer.error_message)
        if self._overflows(answer, run.model):
            self._overflow_met = True
            if not await self._compactor.try_to_compact("overflow"):
                return False
            self._state.conversation.forget(answer)
            return not run.abort.requested
        if answer.stop_reason != "error":
            await self._make_room(run)
        return False

    def end_run(self, abort: AbortSignal, reason: str) -> None:
        """End a run, and a compaction that it waits for."""
        abort.request(reason)
        self._compactor.abort.request()

    async def on_message_end(self, message: Message) -> None:
        """End retrying with the first good answer."""
        if self._attempt and is_good_answer(message):
            await self._end(success=True)

    def end_wait(self) -> bool:
        """End the wait for another attempt; returns whether anything waited."""
        if self._wait is None:
            return False
        self._wait.set()
        return True

    def _delay_ms(self, answer: AssistantMessage) -> int | None:
        return self._state.settings.retry.delay_ms(answer, self._attempt + 1)

    def _overflows(self, answer: AssistantMessage, model: Model) -> bool:
        if self._overflow_met or not self._state.settings.compaction.enabled:
            return False
        same = (answer.provider, answer.model) == (model.provider, model.id)
        return same and is_overflow(answer, model.context_window)

    async def _wait_for_retry(self, run: Run, answer: AssistantMessage, delay_ms: int) -> bool:
        self._attempt += 1
        self._wait = asyncio.Event()
        await self._publisher.emit(
            AutoRetryStart(
                attempt=self._attempt,
                max_attempts=self._state.settings.retry.max_retries,
                delay_ms=delay_ms,
                error_message=answer.error_message or "",
            )
        )
        try:
            with run.abort.interruptible():
                async with asyncio.timeout(delay_ms / 1000):
                    await self._wait.wait()
        except TimeoutError:
            self._state.conversation.forget(answer)
            return True
        except RunAborted:
            pass
        finally:
            self._wait = None
        await self._end(success=False, final_error=_CANCELLED)
        return False

    async def _end(self, *, success: bool, final_error: str | None = None) -> None:
        attempt, self._attempt = self._attempt, 0
        await self._publisher.emit(AutoRetryEnd(success=success, attempt=attempt, final_error=final_error))

    async def _make_room(self, run: Run) -> None:
        if not run.abort.requested and self._compactor.is_due(run.model):
            await self._compactor.try_to_compact("threshold")
