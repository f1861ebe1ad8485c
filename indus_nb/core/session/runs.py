"""The runs of a session: one prompt, the runs that answer it, and what follows them by itself.

What this module promises:

- A prompt is one activity (``Activity.RUNNING``): runs, retries, compactions and queued messages included. It ends with
  one ``agent_settled``, whatever happens.
- Nothing rejects a prompt after ``accept`` was called; what goes wrong then is in the events.
- What a run is to end with (``FinalAnswer``) is asked for in that run only, retries and compactions included.
- ``agent_end`` holds whether another attempt follows. Where none does, a subscriber that gets it may prompt at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from indus_nb.base.errors import SessionFileError
from indus_nb.base.events import AgentEnd, AgentEvent, AgentSettled, MessageEnd, ToolExecutionEnd
from indus_nb.base.images import Admission
from indus_nb.base.messages import CustomMessage, UserMessage, text_of
from indus_nb.core import loop
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.core.session.hooks import UserPrompt
from indus_nb.core.session.model_choice import ModelChoice
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.queues import Queues
from indus_nb.core.session.recovery import Recovery
from indus_nb.core.session.state import SessionState
from indus_nb.core.session.toolbox import Toolbox
from indus_nb.core.session.turns import Activity, Turns
from indus_nb.core.session.user_input import images_of
from indus_nb.core.session.user_shell import UserShell
from indus_nb.core.storage.text import NESTED

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.session.limits import RunLimits


class Runs:
    """Begins the runs of one session and follows them to their end.

    Args:
        state: the session's shared state; ``state.run`` is the run that goes on.
        shell: holds the user's commands back until a run begins or has ended.
        watchers: look at the answers of each run.
    """

    def __init__(  # noqa: PLR0913 - a run has to do with every part of a session
        self,
        state: SessionState,
        *,
        turns: Turns,
        publisher: Publisher,
        models: ModelChoice,
        toolbox: Toolbox,
        queues: Queues,
        recovery: Recovery,
        shell: UserShell,
        images: Admission,
        watchers: list[RunWatcher],
    ) -> None:
        self._state = state
        self._turns = turns
        self._publisher = publisher
        self._models = models
        self._toolbox = toolbox
        self._queues = queues
        self._recovery = recovery
        self._shell = shell
        self._images = images
        self._watchers = watchers
        self._has_run = False

    def begin(
        self,
        message: UserMessage | CustomMessage | None,
        accept: Callable[[], None] = lambda: None,
        answer: FinalAnswer | None = None,
        limits: RunLimits | None = None,
    ) -> asyncio.Task[None]:
        """Begin to answer a message; the session must be idle.

        Args:
            message: what is answered; ``None`` for the first of the queues, which leaves them when nothing can reject
                it any more. One must wait there.
            accept: called when nothing can reject it any more, before the first event.
            limits: where the run ends, in the place of the settings.

        Returns:
            The activity; ``Turns.outcome`` waits for it.

        Raises:
            CredentialsError: There is no model, or no key for it. Nothing has happened then.
        """
        try:
            run, limits = self._prepare(answer, limits)
        except BaseException:
            self._toolbox.end_with(None)
            raise
        accept()
        self._state.run, self._has_run = run, True
        queued = message is None
        prompt = self._queues.take_first() if message is None else message
        work = self._drive(run, limits, prompt, () if answer is None else answer.told(), queued=queued)
        return self._turns.begin(Activity.RUNNING, work)

    def _prepare(self, answer: FinalAnswer | None, limits: RunLimits | None) -> tuple[loop.Run, RunLimits]:
        from indus_nb.core.limits.paying import check_price
        from indus_nb.core.session.limits import RunLimits

        model = self._models.required
        budget = self._state.payer.budget.for_code()
        check_price(model, budget)
        settings = self._state.settings
        options = self._models.stream_options(model)
        watchers: Sequence[RunWatcher] = self._watchers
        if answer is not None:
            others = self._toolbox.active
            self._toolbox.end_with(answer)
            answer.on_missing = partial(self._require, answer.tool_name)
            if not others and not answer.is_told:
                options = replace(options, must_call=answer.tool_name)
            watchers = [*watchers, answer]
        limits = limits or RunLimits(settings.max_turns, settings.timeout)
        run = loop.Run(
            model=model,
            provider=self._state.provider_of(model),
            system_prompt=self._toolbox.system_prompt,
            messages=self._state.messages,
            tools=self._toolbox.active,
            options=options,
            emit=self._emit,
            tool_execution=settings.tool_execution,
            interrupt_mode=settings.interrupt_mode,
            steering=self._queues.steering,
            follow_up=self._queues.follow_up,
            queues_changed=self._queues.publish,
            will_retry=self._recovery.will_retry,
            hooks=self._state.hooks,
            images=self._images,
            watchers=[*watchers, limits],
            vault=settings.vault,
            result_characters=settings.tools.result_characters,
            as_sent=self._state.conversation.sent,
        )
        limits.end, limits.final = partial(self._recovery.end_run, run.abort), answer
        limits.refusal = lambda: budget.refusal(0)
        return run, limits

    def _require(self, tool: str) -> None:
        """Make the model call a tool with its next answer, and those that follow."""
        if self._state.run is not None:
            self._state.run.options = replace(self._state.run.options, must_call=tool)

    async def _drive(
        self,
        run: loop.Run,
        limits: RunLimits,
        prompt: UserMessage | CustomMessage,
        asked: Sequence[CustomMessage],
        *,
        queued: bool,
    ) -> None:
        from indus_nb.core.limits.budget import spending_from

        with spending_from(self._state.payer.budget.for_code()), limits.timed():
            await self._driven(run, prompt, asked, queued=queued)

    async def _driven(
        self, run: loop.Run, prompt: UserMessage | CustomMessage, asked: Sequence[CustomMessage], *, queued: bool
    ) -> None:
        try:
            if queued:
                await self._queues.publish()
            self._shell.add_held_back()
            await self._recovery.begin(run)
            attached = (prompt.attachments if isinstance(prompt, UserMessage) else None) or ()
            start = await self._state.hooks.before_run(
                UserPrompt(text_of(prompt.content), images_of(prompt), attached), run.system_prompt
            )
            if start.system_prompt != run.system_prompt:
                run.system_prompt = self._state.settings.vault.hide(start.system_prompt)
            added = self._queues.pop_for_next_prompt()
            await loop.run(run, [*start.before, prompt, *asked, *added, *start.messages])
            while await self._recovery.goes_on(run) or self._has_queued(run):
                self._turns.resume()
                await loop.run(run, [])
            self.record_nested()
            self._turns.settle()
            await self._publisher.emit(AgentSettled())
        except Exception:
            # A defect of ours: subscribers must not wait forever for an end.
            await self._emit(AgentEnd(messages=[]))
            await self._publisher.emit(AgentSettled())
            raise
        finally:
            self._state.run = None
            self._toolbox.end_with(None)

    def record_nested(self) -> None:
        """Record the usage of other sessions for this one: code of the model's may ask models, too."""
        usage = self._state.payer.budget.take_nested() if self._has_run else None
        if usage is not None and (usage.total_tokens or usage.cost.unconfirmed or usage.cost.before):
            with suppress(SessionFileError):  # the session's next message says what is wrong with its file
                self._state.store.append("custom", custom_type=NESTED, usage=usage.to_wire())

    async def _emit(self, event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionEnd | AgentEnd):
            self.record_nested()
        if isinstance(event, AgentEnd) and not event.will_retry:
            await self._publisher.emit(event, before_subscribers=self._turns.settle)
        else:
            await self._publisher.emit(event)
        if isinstance(event, MessageEnd):
            await self._recovery.on_message_end(event.message)

    def _has_queued(self, run: loop.Run) -> bool:
        """Return whether a message was queued after the run looked for the last time."""
        answer = self._state.last_answer
        good = answer is not None and answer.stop_reason != "error"
        return good and self._queues.pending_count > 0 and not run.abort.requested
