"""Messages that begin a run or join one: which are admitted, which are rejected, and what becomes of the rest.

What this module promises: commands are admitted in the order in which they came. Whatever can reject a message does so
before ``accept`` is called, and nothing has happened then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from indus_nb.base.errors import SessionBusyError, UsageError
from indus_nb.base.events import MessageEnd, MessageStart
from indus_nb.base.messages import CustomMessage, UserMessage, text_of
from indus_nb.core.session.hooks import InputSource
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.queues import Disposition, Queues, StreamingBehavior
from indus_nb.core.session.runs import Runs
from indus_nb.core.session.state import SessionState
from indus_nb.core.session.turns import Activity, Turns
from indus_nb.core.session.user_input import UserInput

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.session.limits import RunLimits


class Prompting:
    """Takes the messages of one session.

    Args:
        queues: where messages wait that join a run.
        publisher: publishes a message that no run answers.
    """

    def __init__(
        self,
        state: SessionState,
        *,
        turns: Turns,
        runs: Runs,
        user_input: UserInput,
        queues: Queues,
        publisher: Publisher,
    ) -> None:
        self._state = state
        self._turns = turns
        self._runs = runs
        self._input = user_input
        self._queues = queues
        self._publisher = publisher

    async def submit(
        self,
        message: UserMessage,
        *,
        streaming_behavior: StreamingBehavior | None = None,
        on_accepted: Callable[[Disposition], None] | None = None,
        source: InputSource = "interactive",
        when_idle: bool = False,
        answer: FinalAnswer | None = None,
        limits: RunLimits | None = None,
    ) -> None:
        """Answer a message of the user's; see ``AgentSession.prompt``.

        Args:
            streaming_behavior: how it joins a run that is going on.
            on_accepted: called with its disposition when nothing can reject it any more.
            source: where it comes from.
            when_idle: whether it waits for the end of what goes on.
            limits: where the run ends, in the place of the settings.

        Raises:
            SessionBusyError: A run is going on, or an abort came before this had begun.
            CredentialsError: There is no model, or no key for it.
            UsageError: The message cannot be used.
        """
        text = text_of(message.content)

        def accept(disposition: Disposition) -> None:
            if on_accepted is not None:
                on_accepted(disposition)

        turns = self._turns
        ticket = turns.ticket
        async with turns.admission():
            if when_idle:
                await turns.wait_until_idle()
            if source != "extension" and self._state.hooks.is_command(text):
                if answer is not None:
                    raise UsageError(f"{text.split(maxsplit=1)[0]} is a command, which no model answers.")
                processed = running = None
            elif (processed := await self._input.process(await self._input.admit(message), source)) is None:
                accept("handled")
                return
            else:
                await turns.wait_for_turn(ticket)
                begin = self._runs.begin
                running = begin(processed, lambda: accept("started"), answer, limits) if turns.idle else None
        if processed is None:
            accept("handled")
            await self._state.hooks.command(text)
        elif running is not None:
            await turns.outcome(running)
        elif streaming_behavior is not None:
            accept("queued")
            await self._queues.add(streaming_behavior, processed)
        else:
            raise SessionBusyError(
                "The agent is running. Say how the message joins the run with streamingBehavior: "
                '"steer" (after the tool call at hand) or "followUp" (when it has finished).'
            )

    async def send_queued(self, on_accepted: Callable[[Disposition], None]) -> None:
        """Begin a run with the first queued message; see ``AgentSession.send_queued``.

        Args:
            on_accepted: called with its disposition when nothing can reject it any more; not where nothing is begun.

        Raises:
            SessionBusyError: An abort came before it had begun.
            CredentialsError: There is no model, or no key for it.
        """
        turns = self._turns
        ticket = turns.ticket
        async with turns.admission():
            await turns.wait_for_turn(ticket)
            if not turns.idle or not self._queues.pending_count:
                return
            running = self._runs.begin(None, lambda: on_accepted("started"))
        await turns.outcome(running)

    async def send(
        self, message: CustomMessage, deliver_as: Literal["steer", "followUp", "nextTurn"], *, trigger_turn: bool
    ) -> None:
        """Send the model a message that is not the user's; see ``AgentSession.send_message``.

        Args:
            deliver_as: how it joins a run that is going on.
            trigger_turn: whether a run starts when none is going on.

        Raises:
            UsageError: It has an image that no model could be shown.
            SessionBusyError: An abort came before its run had begun.
            CredentialsError: There is no model for its run, or no key for it.
        """
        message = await self._input.admit_custom(message)
        if deliver_as == "nextTurn":
            self._queues.keep_for_next_prompt(message)
            return
        await self._turns.wait_for_turn(self._turns.ticket if trigger_turn else None)
        if not self._turns.idle:
            await self._queues.add(deliver_as, message)
        elif trigger_turn:
            await self._turns.outcome(self._runs.begin(message))
        else:
            await self._turns.outcome(self._turns.begin(Activity.ADDING, self._add(message)))

    async def _add(self, message: CustomMessage) -> None:
        from indus_nb.safety.vault.messages import hidden_message

        vault = self._state.settings.vault
        message = hidden_message(vault, message)
        await self._publisher.emit(MessageStart(message=message))
        final = await self._state.hooks.message_end(message)
        final = hidden_message(vault, final) if isinstance(final, CustomMessage) else final
        self._state.messages.append(final)
        await self._publisher.emit(MessageEnd(message=final))
