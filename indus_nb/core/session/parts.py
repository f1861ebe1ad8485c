"""The parts of a session, put together: what can be read of them, the session's events, its start and its end.

What this module promises: every value that lasts is kept by one part, and every part is reached by its name. A session
is started once, before its first activity, and closed once; closing it loses nothing that can still be saved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakKeyDictionary

from indus_nb.base import textcut
from indus_nb.base.errors import NotAskedError, RunFailedError
from indus_nb.base.events import SessionEvent
from indus_nb.base.images import Admission
from indus_nb.base.messages import (
    NOT_ASKED,
    AssistantMessage,
    Message,
    ThinkingLevel,
)
from indus_nb.core.loop import AbortSignal, MessageQueue
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.core.session.branching import Branching
from indus_nb.core.session.compactor import Compactor
from indus_nb.core.session.conversation import ContextUsage, Conversation
from indus_nb.core.session.dialogs import Ui
from indus_nb.core.session.hooks import SessionHooks, ShutdownReason
from indus_nb.core.session.model_choice import ModelChoice
from indus_nb.core.session.publisher import Listener, Publisher
from indus_nb.core.session.queues import Queues
from indus_nb.core.session.recorder import Recorder
from indus_nb.core.session.recovery import Recovery
from indus_nb.core.session.replacing import Equip, Replacing, Stores
from indus_nb.core.session.runs import Runs
from indus_nb.core.session.state import SessionSettings, SessionState
from indus_nb.core.session.toolbox import Equipment, Toolbox
from indus_nb.core.session.trusting import Trusting
from indus_nb.core.session.turns import Turns
from indus_nb.core.session.user_input import UserInput
from indus_nb.core.session.user_shell import UserShell
from indus_nb.core.storage.store import SessionStore
from indus_nb.models import Model
from indus_nb.models.registry import ModelRegistry
from indus_nb.tools.tool import Tool
from indus_nb.tools.truncate import kept_outputs, remove_kept_outputs

if TYPE_CHECKING:
    from indus_nb.core.session.clearing import Clearing
    from indus_nb.core.session.outside import OutsideCalls
    from indus_nb.core.session.prompting import Prompting
    from indus_nb.core.session.stats import SessionStats, Tally

_T = TypeVar("_T")
_log = logging.getLogger("indus_nb")


class Stage(Enum):
    """Stages in the life of a session.

    It goes through these from the top down, and may skip to the last.
    """

    OPENED = "opened"
    STARTING = "starting"
    """Extensions are being set up."""
    STARTED = "started"
    CLOSED = "closed"


class SessionParts:
    """Components of a session.

    ``AgentSession`` adds what can be asked of it, and describes the arguments.
    """

    def __init__(  # noqa: PLR0913 - each is a thing that a session is made of
        self,
        store: SessionStore,
        settings: SessionSettings,
        *,
        registry: ModelRegistry,
        model: Model | None,
        thinking_level: ThinkingLevel,
        equip: Equip,
        stores: Stores,
        hooks: Callable[[Any], SessionHooks] | None = None,
    ) -> None:
        stored = store.context()
        state = SessionState(settings, registry, store, Conversation(stored), model, thinking_level)
        self.state: SessionState = state
        state.problems += store.warnings
        self.on_shutdown: Callable[[], None] = lambda: None  # the owner of the process may end it then
        self.save_problem: str | None = None  # what ``close`` could not put into the session's own file
        self.watchers: list[RunWatcher] = []
        self.ui: Ui = Ui()
        self.turns: Turns = Turns(self._on_idle, self._abort_activity, self.start)
        self.trusting: Trusting = Trusting(state, self.ui, self.turns)
        self.recorder: Recorder = Recorder(state)
        self.publisher: Publisher = Publisher(state, self.recorder)
        self.models: ModelChoice = ModelChoice(state, self.publisher)
        self.toolbox: Toolbox = Toolbox(state, equip(store.cwd))
        self.queues: Queues = Queues(self.publisher)
        self.user_shell: UserShell = UserShell(state, self.turns, self.recorder, self.publisher)
        self.compactor: Compactor = Compactor(state, self.publisher, self.recorder, self.models)
        self.recovery: Recovery = Recovery(
            state,
            self.compactor,
            self.publisher,
            lambda model: self.clearing.begin(model),  # noqa: PLW0108 - it is late
        )
        self.branching: Branching = Branching(state, self.turns, self.publisher, self.recorder, self.models)
        images = Admission(resize=settings.resize_images)
        self._images = images
        self._input = UserInput(state, self.toolbox, images)
        self._runs = Runs(
            state,
            turns=self.turns,
            publisher=self.publisher,
            models=self.models,
            toolbox=self.toolbox,
            queues=self.queues,
            recovery=self.recovery,
            shell=self.user_shell,
            images=images,
            watchers=self.watchers,
        )
        self.replacing: Replacing = Replacing(
            state,
            turns=self.turns,
            publisher=self.publisher,
            recorder=self.recorder,
            models=self.models,
            toolbox=self.toolbox,
            queues=self.queues,
            shell=self.user_shell,
            equip=equip,
            stores=stores,
        )
        self._tallies: WeakKeyDictionary[SessionStore, Tally] = WeakKeyDictionary()
        self._make_hooks = hooks
        self._stage = Stage.OPENED
        self._starting: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._runner: asyncio.Runner | None = None
        state.thinking_level = self.models.clamped(thinking_level)
        self.models.record_start(stored)
        self.publisher.watch(store)

    @cached_property
    def _prompting(self) -> Prompting:
        from indus_nb.core.session.prompting import Prompting

        return Prompting(
            self.state,
            turns=self.turns,
            runs=self._runs,
            user_input=self._input,
            queues=self.queues,
            publisher=self.publisher,
        )

    @cached_property
    def clearing(self) -> Clearing:
        """Return what decides which old results the conversation goes on without."""
        from indus_nb.core.session.clearing import Clearing  # which no start waits for

        return Clearing(self.state, self.models, self.toolbox)

    @cached_property
    def outside(self) -> OutsideCalls:
        """Return the tool calls of other programs."""
        from indus_nb.core.session.outside import OutsideCalls

        return OutsideCalls(self.state, self.toolbox, self.publisher, self._images, self.start)

    # What a session is

    @property
    def stage(self) -> Stage:
        """Return the stage of the session's life."""
        return self._stage

    @property
    def closed(self) -> bool:
        """Return whether the session was closed."""
        return self._stage is Stage.CLOSED

    @property
    def store(self) -> SessionStore:
        """Return the entries, and the file that they are kept in."""
        return self.state.store

    @property
    def settings(self) -> SessionSettings:
        """Return the settings of the session."""
        return self.state.settings

    @property
    def registry(self) -> ModelRegistry:
        """Return the models and their providers."""
        return self.state.registry

    @property
    def hooks(self) -> SessionHooks:
        """Return the hooks of extensions."""
        return self.state.hooks

    @property
    def conversation(self) -> Conversation:
        """Return the messages on the way to the leaf."""
        return self.state.conversation

    @property
    def problems(self) -> list[str]:
        """Return sentences for the user about what was found wrong.

        ``all_problems`` has those of other parts as well.
        """
        return self.state.problems

    @property
    def all_problems(self) -> list[str]:
        """Return the problems of settings, models, resources and extensions, as far as they are known."""
        unsaved = [] if self.closed else self.recorder.problems()
        resources = map(str, self.equipment.resources.diagnostics)
        found = [*unsaved, *self.problems, *self.registry.problems, *resources, *self.hooks.problems()]
        return list(dict.fromkeys(found))

    @property
    def is_running(self) -> bool:
        """Return whether a run is going on, or about to go on by itself."""
        return self.turns.running

    @property
    def is_compacting(self) -> bool:
        """Return whether a summary is being written."""
        return self.compactor.running

    @property
    def abort_signal(self) -> AbortSignal | None:
        """Return the signal that ends the current run; ``None`` without one."""
        return self.state.run.abort if self.state.run is not None else None

    # The conversation

    @property
    def messages(self) -> list[Message]:
        """Return the conversation, oldest message first."""
        return self.conversation.messages

    @property
    def last_answer(self) -> AssistantMessage | None:
        """Return the newest answer, failed ones included."""
        return self.conversation.last_answer

    @property
    def last_text(self) -> str | None:
        """Return the text of the newest answer that has any content; ``None`` without one."""
        return self.conversation.last_text

    def answer_or_raise(self) -> AssistantMessage:
        """Return the last answer if it ended well.

        Raises:
            RunFailedError: It did not, and has that error message; or there is none yet.
            NotAskedError: No model is asked in this process.
        """
        answer = self.last_answer
        if answer is None:
            raise RunFailedError("There is no answer yet.", "error")
        if answer.stop_reason in ("error", "aborted"):
            message = answer.error_message or f"The answer ended as {answer.stop_reason}."
            kind = NotAskedError if message.startswith(NOT_ASKED) else RunFailedError
            raise kind(message, answer.stop_reason)
        return answer

    def context_usage(self) -> ContextUsage | None:
        """Return how full the model's context is; ``None`` without a model."""
        return self.models.context_usage()

    def stats(self) -> SessionStats:
        """Count messages, tool calls, tokens and cost, all branches included.

        Only what was added since the last time is looked at.
        """
        from indus_nb.core.session.stats import Tally

        tally = self._tallies.setdefault(self.store, Tally())
        return tally.stats(self.store.entries)

    # Queues

    @property
    def steering(self) -> MessageQueue:
        """Return the queue that is delivered after the tool call at hand."""
        return self.queues.steering

    @property
    def follow_up_queue(self) -> MessageQueue:
        """Return the queue that is delivered when the model has nothing more to do."""
        return self.queues.follow_up

    @property
    def pending_count(self) -> int:
        """Return the number of messages in both queues."""
        return self.queues.pending_count

    # Model and tools

    @property
    def model(self) -> Model | None:
        """Return the chosen model; ``None`` as long as none is chosen."""
        return self.state.model

    @property
    def thinking_level(self) -> ThinkingLevel:
        """Return the thinking level of the model."""
        return self.state.thinking_level

    @property
    def equipment(self) -> Equipment:
        """Return the equipment, which depends on the working directory."""
        return self.toolbox.equipment

    @property
    def all_tools(self) -> dict[str, Tool]:
        """Return the tools that could be offered.

        They are the session's own, those of extensions, and those lent.
        """
        return self.toolbox.all

    @property
    def active_tools(self) -> dict[str, Tool]:
        """Return the tools that the model is offered."""
        return self.toolbox.active

    @property
    def chosen_tools(self) -> Sequence[str] | None:
        """Return the names of the chosen tools; ``None`` for the usual ones."""
        return self.toolbox.chosen

    @property
    def system_prompt(self) -> str:
        """Return the system prompt with the tools that are active now."""
        return self.toolbox.system_prompt

    # Events

    def subscribe(self, listener: Listener, on_close: Callable[[], None] = lambda: None) -> Callable[[], None]:
        """Call ``listener`` with every event, in order.

        Args:
            listener: an awaitable that it returns is waited for: a slow reader slows the run down instead of piling up
                what it did not read.
            on_close: called once, when the session is closed, in the thread that closes it; must not raise.

        Returns:
            A function that ends the subscription.
        """
        return self.publisher.subscribe(listener, on_close)

    @property
    def open_calls(self) -> Sequence[SessionEvent]:
        """Return the events of calls that have begun and whose results are not stored, for who subscribes meanwhile.

        Of each call it is the last event of each kind, in their order.
        """
        return self.publisher.open_calls

    async def emit(self, event: SessionEvent) -> None:
        """Dispatch an event to extensions, the session file and subscribers, in that order."""
        await self.publisher.emit(event)

    # Start and end

    async def start(self) -> None:
        """Start extensions, once, and look for a model if there is none; every prompt sees to it."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name="indus_nb start")
        if asyncio.current_task() not in (self._starting, self._loading):
            await asyncio.shield(self._starting)
            await self.trusting.settle()
            await self.models.choose_if_none()

    async def load(self) -> None:
        """Load extensions, once, before ``start`` lets them begin; it does so by itself."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load(), name="indus_nb load")
        await asyncio.shield(self._loading)

    async def _load(self) -> None:
        self._move(Stage.STARTING)
        await self.trusting.settle(starting=True)
        if self._make_hooks is not None:
            self.state.hooks = self._make_hooks(self)
        await self.hooks.load()

    async def _start(self) -> None:
        await self.load()
        await self.hooks.started("startup")
        self._move(Stage.STARTED)

    def _move(self, stage: Stage) -> None:
        if self._stage is not Stage.CLOSED:
            self._stage = stage

    async def end(self, reason: ShutdownReason = "quit") -> None:
        """End extensions, then ``close``."""
        begun = self._starting or self._loading
        if begun is not None and begun.done():
            await self.hooks.shutdown(reason)
        if self.settings.jobs is not None:
            await self.settings.jobs.close()
        await self.publisher.announce()
        self.close()

    def close(self) -> None:
        """Save what is unsaved, if need be in another file, and close the session file.

        A run that is going on is asked to end, but not waited for. ``save_problem`` and ``problems`` describe
        afterwards what the session's own file does not hold.
        """
        self.turns.request_abort()
        if self.settings.jobs is not None:
            self.settings.jobs.cancel()
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        if not self.closed:
            self._runs.record_nested()
            self.user_shell.add_held_back()
            self._report_what_is_lost()
        self._move(Stage.CLOSED)
        self.publisher.close()
        if self.store.path is None and kept_outputs:  # no other session can go on with it, and look at them
            named = b"".join(entry.to_json() for entry in self.store.entries)
            remove_kept_outputs(lambda name: name.encode() in named)
        self.store.close()

    def _report_what_is_lost(self) -> None:
        self.save_problem = self.recorder.rescue_at_end()
        if self.save_problem:
            self.problems.append(self.save_problem)
            _log.error("%s", self.save_problem)
        if queued := [*self.steering.texts, *self.follow_up_queue.texts]:
            shown = "; ".join(f'"{textcut.one_line(text, 80)}"' for text in queued[:5])
            counted = textcut.counted(len(queued), "queued message")
            _log.warning("The session ended before the delivery of %s: %s", counted, shown)

    def _run_here(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for work from plain synchronous code, also where a loop runs: that goes on meanwhile."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            if self._runner is None:
                self._runner = asyncio.Runner()
            return self._runner.run(work)
        import nest_asyncio2  # pyright: ignore[reportMissingTypeStubs]

        nest_asyncio2.apply(loop)  # pyright: ignore[reportUnknownMemberType]
        return loop.run_until_complete(work)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_idle(self) -> None:
        self.user_shell.add_held_back()

    def _abort_activity(self) -> None:
        self.ui.cancel_all()
        if self.state.run is not None:
            self.state.run.abort.request()
        if "outside" in self.__dict__:
            self.outside.request_abort()
        self.compactor.abort.request()
        self.branching.abort.request()
