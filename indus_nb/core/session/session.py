"""``AgentSession``: what can be asked of a session.

What this module promises: the methods here admit, order and delegate. Values that last are kept by the parts
(``indus_nb.core.session.parts``), which do the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from indus_nb.base.errors import CompactionError, UsageError
from indus_nb.base.events import SessionEvent, SessionInfoChanged
from indus_nb.base.messages import (
    Attachment,
    CustomMessage,
    ImageContent,
    ThinkingLevel,
    UserMessage,
)
from indus_nb.base.wire import JsonObject
from indus_nb.core.loop import InterruptMode
from indus_nb.core.session.branching import Navigation
from indus_nb.core.session.compaction import CompactionResult
from indus_nb.core.session.conversation import TokenCount
from indus_nb.core.session.hooks import BranchPlan, InputSource
from indus_nb.core.session.parts import SessionParts, Stage
from indus_nb.core.session.publisher import Listener
from indus_nb.core.session.queues import Disposition, StreamingBehavior
from indus_nb.core.session.state import ApproveMode, SessionSettings
from indus_nb.core.session.toolbox import Equipment
from indus_nb.core.session.turns import Activity
from indus_nb.core.session.user_input import user_message
from indus_nb.models import Model
from indus_nb.tools.commands.shell import ShellResult
from indus_nb.tools.tool import Tool

__all__ = [
    "MAX_NAME_CHARACTERS",
    "AgentSession",
    "ApproveMode",
    "Equipment",
    "Listener",
    "Navigation",
    "SessionSettings",
    "Stage",
    "StreamingBehavior",
]

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.session.limits import RunLimits

T = TypeVar("T")
Images: TypeAlias = Sequence[ImageContent]
MAX_NAME_CHARACTERS = 1000


class AgentSession(SessionParts):
    """A session with a model that uses tools.

    One event loop runs it; from another thread hand work to that loop. Use it as a context manager, or ``close`` it::

        with open_session(SessionOptions(provider="offline")) as session:
            await session.prompt("list the files here")
            print(session.last_text)

    Args:
        store: the entries, and the file that they are kept in.
        settings: how the session behaves.
        registry: the models and their providers.
        model: what it talks to; ``None`` as long as none is chosen.
        thinking_level: how much that thinks; the nearest level that the model knows counts.
        equip: returns the equipment of a working directory.
        stores: opens and makes session files.
        hooks: makes the hooks of the session; called when it starts.
    """

    # Prompts

    async def prompt(  # noqa: PLR0913 - each is a thing that a caller may choose
        self,
        text: str,
        images: Images = (),
        *,
        attachments: Sequence[Attachment] = (),
        streaming_behavior: StreamingBehavior | None = None,
        on_accepted: Callable[[Disposition], None] | None = None,
        source: InputSource = "interactive",
        answer: FinalAnswer | None = None,
        limits: RunLimits | None = None,
    ) -> None:
        """Send a user message and wait until the session is idle.

        Cancelling the call aborts the run.

        Failures of the model do not raise: see the events and ``last_answer``.

        Args:
            text: what the user wrote. Commands of extensions, skills and prompt templates are looked up in it, unless
                the ``source`` is an extension.
            images: pictures shown to the model.
            attachments: files; the model is shown the text of documents, and the others as images.
            streaming_behavior: how the message joins a run that is going on; the call returns at once then. ``steer``
                delivers it after the tool call at hand, ``followUp`` when the model has nothing more to do.
            on_accepted: called with the disposition of the prompt when nothing can reject it any more, before its first
                event.
            source: where the message comes from.
            answer: asks for a typed answer, and keeps it; see ``ask``.
            limits: turns and time that this prompt may take, in the place of those of the session.

        Raises:
            SessionBusyError: A run is going on, or an abort came before this had begun.
            CredentialsError: There is no model, or no key for it.
            UsageError: The message cannot be used, or a limit in money cannot hold. In each case nothing has happened.
        """
        await self._prompting.submit(
            user_message(text, images, attachments),
            streaming_behavior=streaming_behavior,
            on_accepted=on_accepted,
            source=source,
            answer=answer,
            limits=limits,
        )

    async def abort_and_prompt(
        self,
        text: str,
        images: Images = (),
        *,
        attachments: Sequence[Attachment] = (),
        on_accepted: Callable[[Disposition], None] | None = None,
    ) -> None:
        """Abort the current activity and then ``prompt``.

        Args:
            text: what the user wrote.
            images: pictures shown to the model.
            attachments: files.
            on_accepted: called with the disposition of the prompt when nothing can reject it any more.

        Raises:
            SessionBusyError: It was aborted itself before it had begun.
            CredentialsError: There is no model, or no key for it.
            UsageError: The message cannot be used; nothing is aborted then.
        """
        message = await self._input.admit(user_message(text, images, attachments))
        self.turns.request_abort()
        await self._prompting.submit(message, on_accepted=on_accepted, when_idle=True)

    async def send_message(
        self,
        message: CustomMessage,
        *,
        trigger_turn: bool = False,
        deliver_as: Literal["steer", "followUp", "nextTurn"] = "steer",
    ) -> None:
        """Send the model a message that is not the user's.

        Args:
            message: what the model is shown.
            trigger_turn: whether a run starts when none is going on; otherwise the message is added to the
                conversation.
            deliver_as: how it joins a run that is going on; ``nextTurn`` keeps it for the user's next prompt.

        Raises:
            UsageError: It has an image that no model could be shown.
            SessionBusyError: An abort came before its run had begun.
            CredentialsError: There is no model for its run, or no key for it.
        """
        await self._prompting.send(message, deliver_as, trigger_turn=trigger_turn)

    async def events(self, text: str, images: Images = ()) -> AsyncGenerator[SessionEvent]:
        """Prompt, and yield every event until the session has settled.

        Leaving the loop early aborts the run.

        Args:
            text: what the user wrote.
            images: pictures shown to the model.

        Yields:
            The events, in order.
        """
        arriving: asyncio.Queue[SessionEvent | None] = asyncio.Queue(maxsize=256)
        left = False

        async def arrive(event: SessionEvent | None) -> None:
            if not left:
                await arriving.put(event)

        async def prompt() -> None:
            try:
                await self.prompt(text, images)
            finally:
                await arrive(None)

        unsubscribe = self.subscribe(arrive)
        prompting = asyncio.create_task(prompt())
        try:
            while (event := await arriving.get()) is not None:
                yield event
            await prompting
        finally:
            left = True
            unsubscribe()
            while not arriving.empty():
                arriving.get_nowait()
            if not prompting.done():
                await self.abort()
                await prompting

    @overload
    async def ask(self, text: str, images: Images = (), *, repairs: int | None = ...) -> str: ...

    @overload
    async def ask(self, text: str, images: Images = (), *, result: type[T], repairs: int | None = ...) -> T: ...

    @overload
    async def ask(self, text: str, images: Images = (), *, result: Any, repairs: int | None = ...) -> Any: ...

    async def ask(self, text: str, images: Images = (), *, result: Any = None, repairs: int | None = None) -> Any:
        """Prompt and return the answer: its text, or a value of the type that is asked for.

        Args:
            text: what the user wrote.
            images: pictures shown to the model.
            result: what to answer with: any type that pydantic's ``TypeAdapter`` takes, such as a model, a dataclass
                or ``list[int]``, a JSON schema as a mapping, or ``"frame"`` for a data frame of pandas.
            repairs: how often the model may correct a value that is not valid; by default twice.

        Returns:
            The text, or the value.

        Raises:
            RunFailedError: The answer ended badly; as ``InvalidAnswerError`` with the attempts if none was valid. What
                ``prompt`` raises comes as well.
        """
        if result is None:
            await self.prompt(text, images)
            return self.answer_or_raise().text
        from indus_nb.core.answers import FinalAnswer, answer_kind

        answer = FinalAnswer(answer_kind(result), repairs)
        await self.prompt(text, images, answer=answer)
        self.answer_or_raise()
        return answer.value()

    @overload
    def run(self, text: str, images: Images = (), *, repairs: int | None = ...) -> str: ...

    @overload
    def run(self, text: str, images: Images = (), *, result: type[T], repairs: int | None = ...) -> T: ...

    @overload
    def run(self, text: str, images: Images = (), *, result: Any, repairs: int | None = ...) -> Any: ...

    def run(self, text: str, images: Images = (), *, result: Any = None, repairs: int | None = None) -> Any:
        """Call ``ask`` from plain synchronous code.

        Works where no event loop runs, and inside one that does (a notebook cell, a callback), by letting that loop go
        on meanwhile.

        Args:
            text: what the user wrote.
            images: pictures shown to the model.
            result: what to answer with; see ``ask``.
            repairs: how often the model may correct it.

        Returns:
            The text of the answer, or the value.

        Raises:
            RunFailedError: The answer ended badly. What ``prompt`` raises comes as well.
        """
        return self._run_here(self.ask(text, images, result=result, repairs=repairs))

    # Queues

    async def steer(self, text: str, images: Images = (), attachments: Sequence[Attachment] = ()) -> None:
        """Queue a message for after the tool call at hand.

        While idle it waits for the next run.

        Args:
            text: what the user wrote.
            images: pictures shown to the model.
            attachments: files.

        Raises:
            UsageError: The message cannot be used, or is a command.
        """
        await self.queues.add("steer", await self._input.queueable(user_message(text, images, attachments)))

    async def follow_up(self, text: str, images: Images = (), attachments: Sequence[Attachment] = ()) -> None:
        """Queue a message for when the model has nothing more to do.

        While idle it waits for the next run.

        Args:
            text: what the user wrote.
            images: pictures shown to the model.
            attachments: files.

        Raises:
            UsageError: The message cannot be used, or is a command.
        """
        await self.queues.add("followUp", await self._input.queueable(user_message(text, images, attachments)))

    async def send_queued(self, on_accepted: Callable[[Disposition], None] = lambda _: None) -> None:
        """Begin a run with the first queued message, and wait until the session is idle.

        Steering messages come first. The others are delivered in that run. Does nothing where none waits, nor while a
        run goes on, which delivers them by itself.

        Args:
            on_accepted: called with the disposition when nothing can reject it any more, before its first event.

        Raises:
            SessionBusyError: An abort came before this had begun.
            CredentialsError: There is no model, or no key for it. All of them wait as before then.
        """
        await self._prompting.send_queued(on_accepted)

    async def clear_queue(self) -> tuple[list[str], list[str]]:
        """Empty the queues; returns the texts of both, steering first."""
        return await self.queues.clear()

    async def unqueue(self, queue: StreamingBehavior, index: int) -> UserMessage | CustomMessage:
        """Remove a message from a queue; see ``Queues.remove``.

        Args:
            queue: where it waits.
            index: its place there, counted from 0.

        Returns:
            The message.

        Raises:
            UsageError: None waits there.
        """
        return await self.queues.remove(queue, index)

    def set_interrupt_mode(self, mode: InterruptMode) -> None:
        """Set whether a steering message skips the tool calls that have not started.

        Counts at once.
        """
        self.settings.interrupt_mode = mode
        if self.state.run is not None:
            self.state.run.interrupt_mode = mode

    # Ending what goes on

    async def abort(self) -> None:
        """Abort the current run and wait until the session is idle.

        The messages so far are kept, and so are the queues.
        """
        await self.turns.abort()

    async def abort_retry(self) -> None:
        """Cancel the wait for another attempt: the failed answer is the last one.

        Does nothing when nothing waits.
        """
        if self.recovery.end_wait():
            await self.wait_until_idle()

    async def wait_until_idle(self) -> None:
        """Wait until nothing goes on."""
        await self.turns.wait_until_idle()

    # Model and thinking

    def available_models(self) -> list[Model]:
        """Return the models of every provider that needs no key or has one."""
        return self.registry.available()

    async def count_tokens(self) -> TokenCount:
        """Return the token count of the next request before a prompt is added.

        They are counted by the model's server, which answers nothing and takes no money for it, where there is such
        a server (Claude's); else they are estimated, and ``reason`` is why. Raises ``CredentialsError`` without a
        model.
        """
        await self.start()
        return await self.models.count_tokens(self.system_prompt, [tool.spec for tool in self.active_tools.values()])

    async def set_model(self, model: Model) -> None:
        """Choose another model, from the next request on; see ``ModelChoice.set_model``."""
        await self.models.set_model(model)

    async def set_thinking_level(self, level: ThinkingLevel) -> ThinkingLevel:
        """Set how much the model thinks, from the next request on.

        Returns the nearest level that the model knows.
        """
        return await self.models.set_thinking_level(level)

    async def cycle_model(self) -> Model | None:
        """Choose the next of the models to cycle through; ``None`` without another."""
        return await self.models.cycle_model()

    async def cycle_thinking_level(self) -> ThinkingLevel | None:
        """Raise the thinking level, or turn thinking off after the highest.

        Returns ``None`` when the model knows only one level.
        """
        return await self.models.cycle_thinking_level()

    # Tools, prompt templates and skills

    def set_active_tools(self, names: Sequence[str] | None) -> None:
        """Offer only these tools from the next request on, with ``None`` the usual ones.

        Unknown names are ignored.
        """
        self.toolbox.choose(names)

    def lend_tools(self, lent: Iterable[Tool]) -> None:
        """Offer these tools besides the session's own, in the place of those lent before.

        See ``Toolbox.lend``.
        """
        self.toolbox.lend(lent)

    def refresh_equipment(self) -> None:
        """Offer the current tools to the active run, from its next request on."""
        self.toolbox.refresh()

    def list_commands(self) -> list[JsonObject]:
        """List what may be prompted as ``/name``.

        That is commands of extensions, prompt templates and skills.
        """
        return self.toolbox.list_commands()

    # Name, branches and other sessions

    async def set_name(self, name: str) -> None:
        """Give the session a name.

        Raises ``UsageError`` for one that is empty or too long.
        """
        if not name.strip():
            raise UsageError("Session name cannot be empty")
        if len(name.strip()) > MAX_NAME_CHARACTERS:
            raise UsageError(
                f"A session name has at most {MAX_NAME_CHARACTERS} characters, and this one has {len(name.strip())}. "
                "The session keeps the name it had."
            )
        self.store.append("session_info", name=name.strip())
        await self.emit(SessionInfoChanged(name=self.store.name))

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Mark an entry, or remove its mark; see ``Branching.set_label``.

        Args:
            entry_id: the entry.
            label: its mark; without one the mark that it has is removed.

        Raises:
            UsageError: There is no such entry.
            SessionFileError: The session file cannot be written.
        """
        self.branching.set_label(entry_id, label)

    async def navigate(
        self,
        entry_id: str,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Navigation:
        """Go on from another entry of this session; see ``Branching.navigate``.

        Args:
            entry_id: the entry.
            summarize: whether a summary of what is left behind is put at the new place.
            instructions: what matters most in it.
            replace_instructions: whether these replace the usual instructions.
            label: a mark for the place.

        Returns:
            What came of it.
        """
        plan = BranchPlan(custom_instructions=instructions, replace_instructions=replace_instructions, label=label)
        return await self.branching.navigate(entry_id, plan, summarize=summarize)

    async def new_session(self, parent_session: str | None = None) -> bool:
        """Start over with an empty conversation; see ``Replacing.new_session``.

        A run that goes on is aborted first.
        """
        return await self.replacing.new_session(parent_session)

    async def switch_session(self, path: Path) -> bool:
        """Go on with the session in a file; see ``Replacing.switch_session``.

        A run that goes on is aborted first.
        """
        return await self.replacing.switch_session(path)

    async def fork(self, entry_id: str, *, position: Literal["before", "at"] = "before") -> str | None:
        """Go on in a new session with a part of this one's conversation.

        See ``Replacing.fork``.

        Args:
            entry_id: where that part ends.
            position: ``before`` the user's message ``entry_id``, or ``at`` that entry, whatever it is.

        Returns:
            The text of the user's message that was left out, empty with ``at``; ``None`` when an extension objected.

        Raises:
            UsageError: There is no such message.
            SessionFileError: A session file cannot be written.
        """
        return await self.replacing.fork(entry_id, position)

    async def clone(self) -> bool:
        """Go on in a new session with this one's conversation; see ``Replacing.clone``."""
        return await self.replacing.clone()

    # Compaction and the user's shell

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Replace the conversation's older part by a summary.

        A run that is going on is aborted first.

        Raises:
            CompactionError: There is nothing to compact, another compaction is going on, or it failed or was aborted.
            CredentialsError: No model can write the summary.
            SessionFileError: The file cannot be written. In each case the conversation is as it was.
        """
        if self.is_compacting:
            raise CompactionError(
                "A compaction is going on already, and goes on. Wait for its end, or abort it before you start another."
            )
        self.turns.request_abort()
        ticket = self.turns.ticket
        async with self.turns.admission():
            await self.turns.wait_for_end()
            if self.turns.aborted_since(ticket):
                raise CompactionError("Compaction cancelled: an abort came before it had begun.")
            await self.turns.make_idle()
            compacting = self.turns.begin(Activity.COMPACTING, self.compactor.compact("manual", instructions))
        return await self.turns.outcome(compacting)

    async def bash(
        self, command: str, *, exclude_from_context: bool = False, command_id: str | int | None = None
    ) -> ShellResult:
        """Run a shell command beside the agent.

        The model is shown it with the next prompt, unless excluded.

        Args:
            command: what the shell is given.
            exclude_from_context: whether the model is not shown it.
            command_id: the caller's name for it, which its events carry.

        Returns:
            How it ended, with its output.

        Raises:
            UsageError: It could not be started.
        """
        return await self.user_shell.run(command, exclude_from_context=exclude_from_context, command_id=command_id)

    async def abort_bash(self) -> None:
        """End the user's shell commands, and return when they have ended."""
        await self.user_shell.abort()
