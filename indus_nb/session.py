"""A conversation: one agent, its messages, queues and file, and everybody who watches it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias

from indus_nb import agent
from indus_nb.agent import InterruptMode, MessageQueue, ToolExecution
from indus_nb.errors import CredentialsError, RunFailedError, SessionBusyError, SessionFileError
from indus_nb.events import (
    AgentEnd,
    AgentSettled,
    MessageEnd,
    ModelChanged,
    QueueUpdate,
    SessionEvent,
    ThinkingLevelChanged,
)
from indus_nb.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingLevel,
    UserMessage,
)
from indus_nb.providers import Model, Provider, StreamOptions, provider_for
from indus_nb.providers.catalog import find_model
from indus_nb.store import SessionStore
from indus_nb.tools.tool import Tool

StreamingBehavior = Literal["steer", "followUp"]
Listener: TypeAlias = Callable[[SessionEvent], Awaitable[None] | None]

_log = logging.getLogger("indus_nb")


@dataclass(slots=True)
class SessionSettings:
    """How a session behaves; each may be changed while it lives.

    ``api_keys`` are keys given by name of the provider that they are for; they go to no other.
    """

    system_prompt: str
    tools: Mapping[str, Tool]
    api_keys: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    thinking_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    tool_execution: ToolExecution = "auto"
    interrupt_mode: InterruptMode = "immediate"


class AgentSession:
    """A conversation with a model that uses tools.

    One event loop runs it; from another thread hand work to that loop. Use it as a context manager, or ``close`` it::

        with open_session(SessionOptions(provider="offline")) as session:
            await session.prompt("list the files here")
            print(session.last_text)
    """

    def __init__(
        self,
        store: SessionStore,
        settings: SessionSettings,
        *,
        model: Model | None,
        thinking_level: ThinkingLevel,
        new_store: Callable[[str | None], SessionStore],
        providers: Callable[[str], Provider] = provider_for,
    ) -> None:
        self.store = store
        self.settings = settings
        self.model = model
        self.steering = MessageQueue()
        self.follow_up_queue = MessageQueue()
        self._new_store = new_store
        self._providers = providers
        self._listeners: list[Listener] = []
        self._run: agent.Run | None = None
        self._task: asyncio.Task[None] | None = None
        self._settling = False
        self._unsaved: list[Message] = []
        self._runner: asyncio.Runner | None = None
        self.problems: list[str] = [*store.warnings]
        stored = store.context()
        self.messages: list[Message] = stored.messages
        self.thinking_level: ThinkingLevel = self._clamped(thinking_level)
        self._record_start(stored.model, stored.thinking_level)

    # What a session is

    @property
    def is_running(self) -> bool:
        """Whether a run is going on, or about to go on by itself."""
        return self._task is not None and not self._settling

    @property
    def last_answer(self) -> AssistantMessage | None:
        """The newest answer, failed ones included."""
        return next((m for m in reversed(self.messages) if isinstance(m, AssistantMessage)), None)

    @property
    def last_text(self) -> str | None:
        """The text of the newest answer that has any content; ``None`` without one."""
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage) and not (message.stop_reason == "aborted" and not message.content):
                return message.text
        return None

    @property
    def pending_count(self) -> int:
        """How many messages wait in both queues."""
        return len(self.steering.waiting) + len(self.follow_up_queue.waiting)

    # Talking to it

    async def prompt(
        self,
        text: str,
        images: Sequence[ImageContent] = (),
        *,
        streaming_behavior: StreamingBehavior | None = None,
        on_accepted: Callable[[], None] | None = None,
    ) -> None:
        """Say ``text`` and return when the session has settled; how it went is told by events and ``last_answer``.

        While a run is going on ``streaming_behavior`` says how to join it, and the call returns at once: ``steer``
        delivers after the tool call at hand, ``followUp`` when the model has nothing more to do. ``on_accepted`` is
        called when nothing can refuse the prompt any more, before its first event. Cancelling the call aborts the run.

        Raises ``SessionBusyError``, ``CredentialsError`` or ``UsageError`` when the prompt is refused; nothing has
        happened then.
        """
        while self._settling and self._task is not None:
            await asyncio.shield(self._task)
        message = UserMessage(content=[TextContent(text=text), *images])
        accept = on_accepted or (lambda: None)
        if self._task is not None:
            if streaming_behavior is None:
                raise SessionBusyError(
                    "The agent is running. Say how the message joins the run with streamingBehavior: "
                    '"steer" (after the tool call at hand) or "followUp" (when it has finished).'
                )
            accept()
            await self._enqueue(self.steering if streaming_behavior == "steer" else self.follow_up_queue, message)
            return
        run = self._prepare()
        accept()
        self._run = run
        self._task = asyncio.create_task(self._drive(run, [message]), name="indus_nb run")
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.abort()
            raise

    async def steer(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Queue a message for after the tool call at hand; while idle it waits for the next run."""
        await self._enqueue(self.steering, UserMessage(content=[TextContent(text=text), *images]))

    async def follow_up(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Queue a message for when the model has nothing more to do; while idle it waits for the next run."""
        await self._enqueue(self.follow_up_queue, UserMessage(content=[TextContent(text=text), *images]))

    async def abort(self) -> None:
        """End the run, if any, and return when the session is idle. What was said is kept, and so are the queues."""
        if self._run is not None:
            self._run.abort.request()
        await self.wait_until_idle()

    async def wait_until_idle(self) -> None:
        """Return when no run is going on."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def events(self, text: str, images: Sequence[ImageContent] = ()) -> AsyncGenerator[SessionEvent]:
        """Prompt, and yield every event until the session has settled. Leaving the loop early aborts the run."""
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

    def run(self, text: str, images: Sequence[ImageContent] = ()) -> str:
        """Prompt from plain synchronous code and return the answer's text.

        Works where no event loop runs, and inside one that does (a notebook cell, a callback), by letting that loop go
        on meanwhile. Raises ``RunFailedError`` when the answer ended badly, and what ``prompt`` raises.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            if self._runner is None:
                self._runner = asyncio.Runner()
            self._runner.run(self.prompt(text, images))
        else:
            import nest_asyncio2  # pyright: ignore[reportMissingTypeStubs]

            nest_asyncio2.apply(loop)  # pyright: ignore[reportUnknownMemberType]
            loop.run_until_complete(self.prompt(text, images))
        return self.answer_or_raise().text

    def answer_or_raise(self) -> AssistantMessage:
        """The last answer if it ended well; raises ``RunFailedError`` with its error message otherwise."""
        answer = self.last_answer
        if answer is None:
            raise RunFailedError("There is no answer yet.", "error")
        if answer.stop_reason in ("error", "aborted"):
            raise RunFailedError(
                answer.error_message or f"The answer ended as {answer.stop_reason}.", answer.stop_reason
            )
        return answer

    # Changing it

    async def set_model(self, wanted: str, provider: str | None = None) -> Model:
        """Talk to another model from the next request on.

        Raises ``ModelNotFoundError``, ``SessionFileError``, or ``CredentialsError`` when a run is going on that could
        not use it; nothing has changed then.
        """
        model = find_model(wanted, provider)
        reached_by = self._providers(model.provider)
        options = self._options(model, reached_by) if self._run is not None else None
        self.store.append("model_change", provider=model.provider, modelId=model.id)
        self.model = model
        if self._run is not None and options is not None:
            self._run.model, self._run.provider, self._run.options = model, reached_by, options
        await self._emit(ModelChanged(provider=model.provider, model_id=model.id))
        await self.set_thinking_level(self.thinking_level)
        return model

    async def set_thinking_level(self, level: ThinkingLevel) -> ThinkingLevel:
        """Think more or less from the next request on; returns the nearest level that the model knows."""
        level = self._clamped(level)
        if level != self.thinking_level:
            self.store.append("thinking_level_change", thinkingLevel=level)
            self.thinking_level = level
            await self._emit(ThinkingLevelChanged(level=level))
        if self._run is not None:
            self._run.options = self._options(self._run.model, self._run.provider)
        return level

    def set_interrupt_mode(self, mode: InterruptMode) -> None:
        """Say whether a steering message skips the tool calls that have not started; counts at once."""
        self.settings.interrupt_mode = mode
        if self._run is not None:
            self._run.interrupt_mode = mode

    async def new_session(self, parent_session: str | None = None) -> None:
        """Start over with an empty conversation in a file of its own; a run that is going on is aborted first."""
        await self.abort()
        store = self._new_store(parent_session)
        self.store.close()
        self.store = store
        self.messages = store.context().messages
        self._unsaved.clear()
        had_queued = self.pending_count
        self.steering.waiting.clear()
        self.follow_up_queue.waiting.clear()
        self._record_start(None, None)
        if had_queued:
            await self._queues_changed()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every event, in order; returns what ends that.

        An awaitable that the listener returns is waited for: a slow reader slows the run down instead of piling up
        what it did not read.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def close(self) -> None:
        """Let go of the session file. A run that is going on is asked to end, but not waited for."""
        if self._run is not None:
            self._run.abort.request()
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # A run

    def _prepare(self) -> agent.Run:
        if self.model is None:
            raise CredentialsError(
                "none",
                "No model is chosen. Set ANTHROPIC_API_KEY to use Claude, or start with --provider offline, "
                "which needs neither key nor network (and is no language model).",
            )
        provider = self._providers(self.model.provider)
        return agent.Run(
            model=self.model,
            provider=provider,
            system_prompt=self.settings.system_prompt,
            messages=self.messages,
            tools=self.settings.tools,
            options=self._options(self.model, provider),
            emit=self._emit,
            tool_execution=self.settings.tool_execution,
            interrupt_mode=self.settings.interrupt_mode,
            steering=self.steering,
            follow_up=self.follow_up_queue,
            queues_changed=self._queues_changed,
        )

    def _options(self, model: Model, provider: Provider) -> StreamOptions:
        return StreamOptions(
            api_key=provider.find_key(self.settings.api_keys.get(model.provider)),
            thinking=self.thinking_level,
            thinking_budgets=self.settings.thinking_budgets,
        )

    async def _drive(self, run: agent.Run, prompts: Sequence[UserMessage]) -> None:
        try:
            await agent.run(run, prompts)
            # A message may have been queued after the run looked for the last time.
            while self.pending_count and self._ended_well():
                self._settling = False
                await agent.run(run, [])
            self._settling = True
            await self._emit(AgentSettled())
        finally:
            self._settling = False
            self._run = self._task = None

    def _ended_well(self) -> bool:
        answer = self.last_answer
        return answer is not None and answer.stop_reason not in ("error", "aborted")

    async def _enqueue(self, queue: MessageQueue, message: UserMessage) -> None:
        queue.waiting.append(message)
        await self._queues_changed()

    async def _queues_changed(self) -> None:
        await self._emit(QueueUpdate(steering=self.steering.texts, follow_up=self.follow_up_queue.texts))

    async def _emit(self, event: SessionEvent) -> None:
        if isinstance(event, MessageEnd):
            self._save(event.message)
        elif isinstance(event, AgentEnd):
            self._settling = True  # whoever sees the end of a run may prompt at once
        for listener in tuple(self._listeners):
            try:
                waiting = listener(event)
                if waiting is not None:
                    await waiting
            except Exception:  # noqa: BLE001 - one watcher's defect must end neither the run nor the others' view of it
                _log.exception("A subscriber failed on %s", event.type)

    def _save(self, message: Message) -> None:
        self._unsaved.append(message)
        try:
            while self._unsaved:
                self.store.append_message(self._unsaved[0])
                del self._unsaved[0]
        except SessionFileError as error:
            # The message stays in memory and is tried again with the next one; to go on unsaved is the user's decision.
            if self._run is not None:
                self._run.abort.request(f"{error} The run was stopped; what was said is kept in memory.")

    # Model and thinking

    def _record_start(self, model: tuple[str, str] | None, thinking_level: str | None) -> None:
        if self.model is not None and model != (self.model.provider, self.model.id):
            self.store.append("model_change", provider=self.model.provider, modelId=self.model.id)
        if thinking_level != self.thinking_level:
            self.store.append("thinking_level_change", thinkingLevel=self.thinking_level)

    def _clamped(self, level: ThinkingLevel) -> ThinkingLevel:
        return self.model.nearest_thinking_level(level) if self.model is not None else level
