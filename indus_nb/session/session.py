"""A conversation: one agent, its messages, queues and file, and everybody who watches it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeVar, cast, get_args

from indus_nb import textcut
from indus_nb.errors import (
    CompactionError,
    CredentialsError,
    ModelNotFoundError,
    RunFailedError,
    SessionBusyError,
    SessionFileError,
    UsageError,
)
from indus_nb.events import (
    AgentEnd,
    AgentSettled,
    BranchMoved,
    CompactionReason,
    MessageEnd,
    MessageStart,
    ModelChanged,
    QueueUpdate,
    SessionEvent,
    SessionInfoChanged,
    SessionReplaced,
    SessionSaveFailed,
    ThinkingLevelChanged,
)
from indus_nb.images import Admission, admit_attachments, admit_blocks
from indus_nb.loop import loop
from indus_nb.loop.loop import AbortSignal, InterruptMode, MessageQueue, RunAborted, ToolExecution
from indus_nb.loop.retry import RetrySettings
from indus_nb.loop.watchers import RunWatcher
from indus_nb.messages import (
    AssistantMessage,
    Attachment,
    BashExecutionMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingLevel,
    Usage,
    UserMessage,
    text_of,
)
from indus_nb.providers import Model, StreamOptions
from indus_nb.providers.registry import ModelRegistry, ScopedModel
from indus_nb.providers.tool_schemas import check_tools
from indus_nb.resources.settings import BranchSummarySettings, CompactionSettings
from indus_nb.session.compaction import CompactionResult, Summariser
from indus_nb.session.compactor import Compactor
from indus_nb.session.conversation import ContextUsage, Conversation
from indus_nb.session.dialogs import Ui
from indus_nb.session.hooks import (
    BranchChange,
    BranchPlan,
    InputSource,
    ReplaceReason,
    Said,
    SessionHooks,
    ShutdownReason,
)
from indus_nb.session.publisher import Listener, Publisher
from indus_nb.session.recorder import Recorder, sentence
from indus_nb.session.recovery import Recovery
from indus_nb.session.turns import Activity, Turns
from indus_nb.session.user_shell import UserShell
from indus_nb.storage.format import Entry
from indus_nb.storage.store import SessionStore
from indus_nb.tools import Shell
from indus_nb.tools.bash import ShellResult
from indus_nb.tools.tool import Tool
from indus_nb.wire import JsonObject

if TYPE_CHECKING:
    from indus_nb.resources.loading import Resources

StreamingBehavior = Literal["steer", "followUp"]
ApproveMode = Literal["never", "writes", "always"]
T = TypeVar("T")
MAX_NAME_CHARACTERS = 1000

_log = logging.getLogger("indus_nb")


class Equipment:
    """What depends on the directory that a session works in.

    ``active`` names the tools that are offered unless somebody chooses others. ``load_resources`` is given more places
    to look for skills and for prompt templates; it is called when resources are first needed.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        active: Sequence[str],
        load_resources: Callable[[Sequence[str], Sequence[str]], Resources],
        write_prompt: Callable[[Iterable[Tool], Resources], str],
    ) -> None:
        self.tools = tools
        self.active = active
        self._load_resources = load_resources
        self._write_prompt = write_prompt
        self._places: tuple[Sequence[str], Sequence[str]] = ((), ())
        self._resources: Resources | None = None

    @property
    def resources(self) -> Resources:
        """The user's skills, prompt templates and context files."""
        if self._resources is None:
            self._resources = self._load_resources(*self._places)
        return self._resources

    def look_again(self, skills: Sequence[str], prompts: Sequence[str]) -> None:
        """Find the resources anew, in these places too."""
        self._places = skills, prompts
        self._resources = None

    def system_prompt(self, tools: Iterable[Tool]) -> str:
        """What the model is told first when it is offered ``tools``."""
        return self._write_prompt(tools, self.resources)


@dataclass(slots=True)
class SessionSettings:
    """How a session behaves; each may be changed while it lives."""

    thinking_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    tool_execution: ToolExecution = "auto"
    interrupt_mode: InterruptMode = "immediate"
    shell: Shell = field(default_factory=Shell)
    retry: RetrySettings = field(default_factory=RetrySettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    branch_summary: BranchSummarySettings = field(default_factory=BranchSummarySettings)
    cycled_models: Sequence[ScopedModel] | None = None
    resize_images: bool = True
    """Whether images that are too large for a model are scaled; otherwise they are rejected."""
    approve: ApproveMode = "never"
    """Which tool calls the user is asked about: none, those with effects, or all."""


@dataclass(frozen=True, slots=True)
class Navigation:
    """What came of going to another entry: a text to edit, and the summary's entry if one was written."""

    editor_text: str | None = None
    cancelled: bool = False
    aborted: bool = False
    summary_entry: Entry | None = None


def _user_message(
    text: str, images: Sequence[ImageContent], attachments: Sequence[Attachment] | None = None
) -> UserMessage:
    if not text.strip() and not images and not attachments:
        raise UsageError("The message is empty. Write something, or attach an image.")
    return UserMessage(content=[TextContent(text=text), *images], attachments=list(attachments or ()) or None)


class AgentSession:
    """A conversation with a model that uses tools.

    One event loop runs it; from another thread hand work to that loop. Use it as a context manager, or ``close`` it::

        with open_session(SessionOptions(provider="offline")) as session:
            await session.prompt("list the files here")
            print(session.last_text)
    """

    def __init__(  # noqa: PLR0913 - each is a thing that a session is made of
        self,
        store: SessionStore,
        settings: SessionSettings,
        *,
        registry: ModelRegistry,
        model: Model | None,
        thinking_level: ThinkingLevel,
        equip: Callable[[Path], Equipment],
        new_store: Callable[[Path, str | None], SessionStore],
        hooks: Callable[[AgentSession], SessionHooks] | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.registry = registry
        self.equipment = equip(store.cwd)
        self.model = model
        self.on_shutdown: Callable[[], None] = lambda: None  # whoever owns the process may end it then
        self.closed = False
        self.save_problem: str | None = None  # what ``close`` could not put into the session's own file
        self.hooks = SessionHooks()
        self.watchers: list[RunWatcher] = []
        self._make_hooks = hooks
        self.ui = Ui()
        self.steering = MessageQueue()
        self.follow_up_queue = MessageQueue()
        self._equip = equip
        self._new_store = new_store
        self._publisher = Publisher(lambda: self.hooks)
        self._run: loop.Run | None = None
        self._turns = Turns(on_idle=self._add_held_back)
        self._recorder = Recorder(lambda: self.store)
        self._held_back: list[BashExecutionMessage] = []
        self._lent_tools: Mapping[str, Tool] = {}
        self._chosen_tools: Sequence[str] | None = None
        self._for_next_prompt: list[CustomMessage] = []
        self._starting: asyncio.Task[None] | None = None
        self._navigation = AbortSignal()
        self._images = Admission(resize=settings.resize_images)
        self._compactor = Compactor(settings.compaction, self.emit, self._publisher.announce, lambda: self.hooks)
        self._recovery = Recovery(settings.retry, self._compactor, self.emit, self._compact_by_itself)
        self._shell = UserShell(settings.shell, self.emit)
        self._runner: asyncio.Runner | None = None
        self.problems: list[str] = [*store.warnings]
        stored = store.context()
        self.conversation = Conversation(stored)
        self.thinking_level: ThinkingLevel = self._clamped(thinking_level)
        self._record_start(stored.model, stored.thinking_level)
        self._publisher.watch(store)

    # What a session is

    def list_commands(self) -> list[JsonObject]:
        """What may be prompted as ``/name``: commands of extensions, prompt templates and skills."""
        listed = self.hooks.list_commands()
        resources = self.equipment.resources
        found = [(each.name, each.description, "prompt", each.path, each.scope) for each in resources.templates]
        found += [(f"skill:{each.name}", each.description, "skill", each.path, each.scope) for each in resources.skills]
        for name, description, source, path, scope in found:
            info = {"path": str(path), "source": source, "scope": scope, "origin": "top-level"}
            command: JsonObject = {"name": name, "description": description, "source": source, "path": str(path)}
            listed.append({**command, "sourceInfo": info})
        return listed

    @property
    def is_running(self) -> bool:
        """Whether a run is going on, or about to go on by itself."""
        return self._turns.running

    @property
    def is_compacting(self) -> bool:
        """Whether a summary is being written."""
        return self._compactor.running

    @property
    def messages(self) -> list[Message]:
        """The conversation, oldest message first."""
        return self.conversation.messages

    @property
    def last_answer(self) -> AssistantMessage | None:
        """The newest answer, failed ones included."""
        return self.conversation.last_answer

    @property
    def last_text(self) -> str | None:
        """The text of the newest answer that has any content; ``None`` without one."""
        return self.conversation.last_text

    @property
    def abort_signal(self) -> AbortSignal | None:
        """The wish to end the current run; ``None`` without one."""
        return self._run.abort if self._run is not None else None

    @property
    def all_tools(self) -> dict[str, Tool]:
        """The tools that could be offered: the session's own, those of extensions, and those lent."""
        return {**self.equipment.tools, **self.hooks.tools(), **self._lent_tools}

    @property
    def active_tools(self) -> dict[str, Tool]:
        """The tools that the model is offered."""
        everything = self.all_tools
        usual = dict.fromkeys([*self.equipment.active, *self.hooks.tools(), *self._lent_tools])
        names = self._chosen_tools if self._chosen_tools is not None else usual
        return {name: everything[name] for name in names if name in everything}

    @property
    def all_problems(self) -> list[str]:
        """What is wrong with settings, models, resources and extensions, as far as it is known."""
        resources = map(str, self.equipment.resources.diagnostics)
        found = [*self._saving_problems(), *self.problems, *self.registry.problems, *resources, *self.hooks.problems()]
        return list(dict.fromkeys(found))

    def _saving_problems(self) -> list[str]:
        count = self._recorder.unsaved_count
        if not count or self.closed:
            return []
        many = "message is" if count == 1 else f"{count} messages are"
        return [f"The last {many} kept in memory only: {self.store.path} did not take it. It is tried again."]

    @property
    def system_prompt(self) -> str:
        """What the model is told first."""
        return self.equipment.system_prompt(self.active_tools.values())

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
        attachments: Sequence[Attachment] = (),
        streaming_behavior: StreamingBehavior | None = None,
        on_accepted: Callable[[], None] | None = None,
        source: InputSource = "interactive",
    ) -> None:
        """Say ``text`` and return when the session has settled; how it went is told by events and ``last_answer``.

        While a run is going on ``streaming_behavior`` says how to join it, and the call returns at once: ``steer``
        delivers after the tool call at hand, ``followUp`` when the model has nothing more to do. ``on_accepted`` is
        called when nothing can refuse the prompt any more, before its first event. Cancelling the call aborts the run.
        Commands of extensions, skills and prompt templates are looked up, unless the ``source`` is an extension.
        The model is shown the text of ``attachments`` that are documents, and the others as images.

        Raises ``SessionBusyError``, ``CredentialsError`` or ``UsageError`` when the prompt is refused; nothing has
        happened then.
        """
        await self._submit(
            _user_message(text, images, attachments),
            streaming_behavior=streaming_behavior,
            on_accepted=on_accepted,
            source=source,
        )

    async def abort_and_prompt(
        self,
        text: str,
        images: Sequence[ImageContent] = (),
        *,
        attachments: Sequence[Attachment] = (),
        on_accepted: Callable[[], None] | None = None,
    ) -> None:
        """End what goes on and then ``prompt``; raises ``SessionBusyError`` when it is aborted before it has begun."""
        said = await self._admitted(_user_message(text, images, attachments))  # what cannot be said aborts nothing
        self._request_abort()
        await self._submit(said, on_accepted=on_accepted, when_idle=True)

    async def _submit(
        self,
        said: UserMessage,
        *,
        streaming_behavior: StreamingBehavior | None = None,
        on_accepted: Callable[[], None] | None = None,
        source: InputSource = "interactive",
        when_idle: bool = False,
    ) -> None:
        text = text_of(said.content)
        accept = on_accepted or (lambda: None)
        ticket = self._turns.ticket
        async with self._turns.admission():
            await self.start()
            if when_idle:
                await self._turns.wait_until_idle()
            if source != "extension" and self.hooks.is_command(text):
                message = running = None
            elif (message := await self._heard(await self._admitted(said), source)) is None:
                accept()
                return
            else:
                await self._turns.wait_for_turn(ticket)
                running = self._begin_run(message, accept) if self._turns.idle else None
        if message is None:
            accept()
            await self.hooks.command(text)
        elif running is not None:
            await self._outcome(running)
        elif streaming_behavior is not None:
            accept()
            await self._enqueue(self.steering if streaming_behavior == "steer" else self.follow_up_queue, message)
        else:
            raise SessionBusyError(
                "The agent is running. Say how the message joins the run with streamingBehavior: "
                '"steer" (after the tool call at hand) or "followUp" (when it has finished).'
            )

    async def steer(
        self, text: str, images: Sequence[ImageContent] = (), attachments: Sequence[Attachment] = ()
    ) -> None:
        """Queue a message for after the tool call at hand; while idle it waits for the next run.

        Raises ``UsageError`` for an empty one.
        """
        message = await self._admitted(_user_message(text, images, attachments))
        await self._enqueue(self.steering, self._queueable(message))

    async def follow_up(
        self, text: str, images: Sequence[ImageContent] = (), attachments: Sequence[Attachment] = ()
    ) -> None:
        """Queue a message for when the model has nothing more to do; while idle it waits for the next run.

        Raises ``UsageError`` for an empty one.
        """
        message = await self._admitted(_user_message(text, images, attachments))
        await self._enqueue(self.follow_up_queue, self._queueable(message))

    def _queueable(self, message: UserMessage) -> UserMessage:
        text = text_of(message.content)
        if self.hooks.is_command(text):
            raise UsageError(f"{text.split(maxsplit=1)[0]} is a command and cannot be queued. Send it as a prompt.")
        return self._expanded(message)

    async def _admitted(self, message: UserMessage) -> UserMessage:
        """The message with images that a model can be shown; raises ``UsageError`` for one that cannot be."""
        admitted: JsonObject = {}
        if not isinstance(message.content, str):
            admitted["content"] = await admit_blocks(self._images, message.content)
        if message.attachments:
            admitted["attachments"] = await admit_attachments(self._images, message.attachments)
        return message.model_copy(update=admitted)

    async def _heard(self, message: UserMessage, source: InputSource) -> UserMessage | None:
        """The message as extensions leave it and with what it names put in; ``None`` when nothing is left to do."""
        text, images = text_of(message.content), [b for b in message.content if isinstance(b, ImageContent)]
        said = await self.hooks.input(Said(text, images), source)
        if said is None:
            return None
        admitted = images if said.images is images else await self._images.admit(said.images)
        heard = _user_message(said.text, admitted, message.attachments)
        return heard if source == "extension" else self._expanded(heard)

    def _expanded(self, message: UserMessage) -> UserMessage:
        text = text_of(message.content)
        if not text.startswith("/"):
            return message
        from indus_nb.resources.loading import expand

        images = [block for block in message.content if isinstance(block, ImageContent)]
        return _user_message(expand(text, self.equipment.resources), images, message.attachments)

    async def send_message(
        self,
        message: CustomMessage,
        *,
        trigger_turn: bool = False,
        deliver_as: Literal["steer", "followUp", "nextTurn"] = "steer",
    ) -> None:
        """Say something to the model that is not the user's.

        During a run it joins as ``deliver_as`` says. Otherwise it is added to the conversation, and a run starts with
        ``trigger_turn``; ``nextTurn`` keeps it for the user's next prompt in either case. Raises ``UsageError`` for an
        image that no model could be shown.
        """
        if not isinstance(message.content, str):
            message = message.model_copy(update={"content": await admit_blocks(self._images, message.content)})
        if deliver_as == "nextTurn":
            self._for_next_prompt.append(message)
            return
        await self._turns.wait_for_turn(self._turns.ticket if trigger_turn else None)
        if not self._turns.idle:
            await self._enqueue(self.steering if deliver_as == "steer" else self.follow_up_queue, message)
        elif trigger_turn:
            await self._outcome(self._begin_run(message))
        else:
            await self._outcome(self._turns.begin(Activity.ADDING, self._add(message)))

    async def _add(self, message: CustomMessage) -> None:
        await self.emit(MessageStart(message=message))
        final = await self.hooks.message_end(message)
        self.messages.append(final)
        await self.emit(MessageEnd(message=final))

    async def start(self) -> None:
        """Let extensions begin, once; every prompt sees to it. Returns when they have."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._begin(), name="indus_nb start")
        if asyncio.current_task() is not self._starting:
            await asyncio.shield(self._starting)

    async def _begin(self) -> None:
        if self._make_hooks is not None:
            self.hooks = self._make_hooks(self)
        await self.hooks.started("startup")

    async def end(self, reason: ShutdownReason = "quit") -> None:
        """Let extensions end, then ``close``."""
        if self._starting is not None and self._starting.done():
            await self.hooks.shutdown(reason)
        await self._publisher.announce()
        self.close()

    async def abort(self) -> None:
        """End whatever goes on, and return when the session is idle. What was said is kept, and so are the queues."""
        self._request_abort()
        if self._turns.activity is not Activity.REPLACING:  # that cannot be aborted, and ends by itself
            await self._turns.wait_for_end()

    def _request_abort(self) -> None:
        self._turns.count_abort()
        self.ui.cancel_all()
        if self._run is not None:
            self._run.abort.request()
        self._compactor.abort.request()
        self._navigation.request()

    async def _make_idle(self) -> None:
        """End what goes on, for a command that is admitted and begins something else in the same step."""
        self._turns.check_caller()
        while not self._turns.idle:
            self._request_abort()
            await self._turns.wait_for_end()

    async def abort_retry(self) -> None:
        """Do not wait for another attempt: the failed answer is the last one. Does nothing when nothing waits."""
        if self._recovery.end_wait():
            await self.wait_until_idle()

    async def clear_queue(self) -> tuple[list[str], list[str]]:
        """Take back what waits; returns the texts of both queues, steering first."""
        taken = self.steering.texts, self.follow_up_queue.texts
        if self.pending_count:
            self.steering.waiting.clear()
            self.follow_up_queue.waiting.clear()
            await self._queues_changed()
        return taken

    async def unqueue(self, queue: StreamingBehavior, index: int) -> UserMessage | CustomMessage:
        """Take back the message that waits at ``index``; raises ``UsageError`` when none does."""
        waiting = (self.steering if queue == "steer" else self.follow_up_queue).waiting
        if not 0 <= index < len(waiting):
            raise UsageError("Nothing waits there any more: it was delivered, or taken back.")
        message = waiting.pop(index)
        await self._queues_changed()
        return message

    async def _outcome(self, task: asyncio.Task[T]) -> T:
        """Wait for an activity; cancelling the wait aborts it."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await self.abort()
            raise

    async def wait_until_idle(self) -> None:
        """Return when nothing goes on."""
        await self._turns.wait_until_idle()

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

    async def set_model(self, model: Model) -> None:
        """Talk to another model from the next request on; ``registry.find`` finds it by name.

        Raises ``SessionFileError``, or ``CredentialsError`` when a run is going on that could not use it; nothing has
        changed then.
        """
        reached_by = self.registry.provider_of(model)
        options = self._options(model) if self._run is not None else None
        self.store.append("model_change", provider=model.provider, modelId=model.id)
        self.model = model
        if self._run is not None and options is not None:
            self._run.model, self._run.provider, self._run.options = model, reached_by, options
        await self.emit(ModelChanged(provider=model.provider, model_id=model.id))
        await self.set_thinking_level(self.thinking_level)

    async def set_thinking_level(self, level: ThinkingLevel) -> ThinkingLevel:
        """Think more or less from the next request on; returns the nearest level that the model knows."""
        level = self._clamped(level)
        if level != self.thinking_level:
            self.store.append("thinking_level_change", thinkingLevel=level)
            self.thinking_level = level
            await self.emit(ThinkingLevelChanged(level=level))
        if self._run is not None:
            self._run.options = replace(self._run.options, thinking=level)
        return level

    def set_interrupt_mode(self, mode: InterruptMode) -> None:
        """Say whether a steering message skips the tool calls that have not started; counts at once."""
        self.settings.interrupt_mode = mode
        if self._run is not None:
            self._run.interrupt_mode = mode

    def available_models(self) -> list[Model]:
        """The models of every provider that needs no key or has one."""
        return self.registry.available()

    async def cycle_model(self) -> Model | None:
        """Talk to the next of the models to cycle through, by default all available ones; ``None`` without another.

        A thinking level that was named with it is taken as well. The offline demonstration takes no part unless it is
        chosen already: it is used only when asked for.
        """
        offline = self.model is not None and self.model.provider == "offline"
        models = self.settings.cycled_models or [
            ScopedModel(model) for model in self.available_models() if offline or model.provider != "offline"
        ]
        at = next((index for index, scoped in enumerate(models) if scoped.model == self.model), -1)
        if len(models) < 2:
            return None
        chosen = models[(at + 1) % len(models)]
        await self.set_model(chosen.model)
        if chosen.thinking_level is not None:
            await self.set_thinking_level(chosen.thinking_level)
        return chosen.model

    async def cycle_thinking_level(self) -> ThinkingLevel | None:
        """Think more, or after the most not at all; ``None`` when the model knows only one level."""
        levels = self.model.thinking_levels if self.model is not None else ()
        if len(levels) < 2:
            return None
        return await self.set_thinking_level(levels[(levels.index(self.thinking_level) + 1) % len(levels)])

    async def set_name(self, name: str) -> None:
        """Give the session a name; raises ``UsageError`` for one that is empty or too long."""
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
        """Mark an entry, or with an empty label take its mark away; raises ``UsageError`` for an unknown id."""
        self.store.append("label", target_id=self.store.entry(entry_id).id, label=(label or "").strip())

    # Another session, another branch

    async def new_session(self, parent_session: str | None = None) -> bool:
        """Start over with an empty conversation in a file of its own; a run that is going on is aborted first.

        Tells whether no extension objected.
        """
        async with self._changing():
            if not await self.hooks.before_switch("new", None):
                return False
            await self._make_idle()
            await self._replace_store(self._new_store(self.store.cwd, parent_session), "new")
        return True

    async def switch_session(self, path: Path) -> bool:
        """Go on with the session in the file at ``path``; a run that is going on is aborted first.

        Tells whether no extension objected. Raises ``SessionFileError`` when it cannot be used; this session goes on
        then, and that file is as it was. The session's own file is opened again when another program has changed it.
        """
        if self.store.is_at(path) and self.store.is_current():
            return True
        async with self._changing():
            if self.store.is_at(path):
                return await self._reopen(path)
            store = SessionStore.open(path)
            try:
                store.check_cwd()
                equipment = self._equip(store.cwd) if store.cwd != self.store.cwd else self.equipment
                if not await self.hooks.before_switch("resume", path):
                    store.close()
                    return False
                await self._make_idle()
            except BaseException:
                store.close()
                raise
            before, self.equipment = self.equipment, equipment
            try:
                await self._replace_store(store, "resume")
            except SessionFileError:  # what is unsaved found no place, so this session goes on
                self.equipment = before
                store.close()
                raise
        return True

    async def _reopen(self, path: Path) -> bool:
        SessionStore.read(path)  # raises before anything has changed
        if not await self.hooks.before_switch("resume", path):
            return False
        await self._make_idle()
        await self._replace_store(None, "resume")
        return True

    async def fork(self, entry_id: str, *, position: Literal["before", "at"] = "before") -> str | None:
        """Go on in a new session that ends before the user's message ``entry_id``; returns that message's text.

        With ``position="at"`` it ends with that entry, whatever it is, and there is no text (an empty one). ``None``
        means that an extension objected. Raises ``UsageError`` when there is no such message.
        """
        async with self._changing():
            return await self._fork(entry_id, position)

    async def _fork(self, entry_id: str, position: Literal["before", "at"]) -> str | None:
        entry = next((entry for entry in self.store.entries if entry.id == entry_id), None)
        message = entry.message if entry is not None and entry.type == "message" else None
        if entry is None or (position == "before" and not isinstance(message, UserMessage)):
            raise UsageError(f"Invalid entry ID for forking: {entry_id} is no message of the user in this session.")
        if not await self.hooks.before_fork(entry_id, position):
            return None
        await self._make_idle()
        self._recorder.save_all()
        leaf_id = entry.parent_id if position == "before" else entry_id
        await self._replace_store(self.store.fork(leaf_id, self._directory), "fork")
        return text_of(message.content) if isinstance(message, UserMessage) and position == "before" else ""

    async def clone(self) -> bool:
        """Go on in a new session that begins with this one's conversation; tells whether no extension objected.

        Raises ``UsageError`` without a conversation.
        """
        if self.store.leaf_id is None:
            raise UsageError("There is nothing to clone yet: the session is empty.")
        self._recorder.save_all()
        return await self.fork(self.store.leaf_id, position="at") is not None

    @property
    def _directory(self) -> Path | None:
        return self.store.path.parent if self.store.path is not None else None

    @asynccontextmanager
    async def _changing(self) -> AsyncGenerator[None]:
        """Put another session in the place of this one; prompts wait until that is done."""
        if self._turns.admitting:
            self._request_abort()  # who waits for its turn would hold this up
        async with self._turns.admission():
            await self.start()
            yield

    async def _replace_store(self, store: SessionStore | None, reason: ReplaceReason) -> None:
        """Go on with another session; without a ``store`` with what the session's own file holds now."""
        await asyncio.shield(self._turns.begin(Activity.REPLACING, self._go_on_with(store, reason)))

    async def _go_on_with(self, store: SessionStore | None, reason: ReplaceReason) -> None:
        previous = self.store.path
        await self.abort_bash()
        self._add_held_back()
        if problem := self._recorder.rescue():  # raises before anything has changed
            self.problems.append(problem)
        await self.hooks.shutdown(reason, store.path if store is not None else previous)
        self._add_held_back()
        self.store.close()
        if store is None:
            store = SessionStore.open(cast("Path", previous))
        self.store = store
        self.problems += store.warnings
        stored = store.context()
        self.conversation = Conversation(stored)
        if stored.model is not None:
            try:
                self.model = self.registry.with_id(stored.model[1], stored.model[0])
            except ModelNotFoundError as error:
                self.problems.append(f"The session's own model is not to be had; another one goes on. {error}")
        if stored.thinking_level in get_args(ThinkingLevel):
            self.thinking_level = self._clamped(cast("ThinkingLevel", stored.thinking_level))
        try:
            self._record_start(stored.model, stored.thinking_level)
        except SessionFileError as error:
            self.problems.append(str(error))  # the next message says it again, where it matters
        await self.clear_queue()
        self._for_next_prompt.clear()
        await self.hooks.started(reason, previous)
        self._publisher.watch(self.store)
        path = self.store.path
        file = None if path is None else str(path)
        await self.emit(SessionReplaced(reason=reason, session_id=self.store.session_id, session_file=file))

    async def navigate(
        self,
        entry_id: str,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Navigation:
        """Go on from another entry of this session; what was said since stays in the tree.

        From a user's or an extension's message one goes on before it, and its text is offered for editing. With
        ``summarize`` a summary of what is left behind is put at the new place; aborting that leaves all as it was.
        Raises ``SessionBusyError`` while a run is going on, ``UsageError``, ``CredentialsError`` and
        ``CompactionError``.
        """
        plan = BranchPlan(custom_instructions=instructions, replace_instructions=replace_instructions, label=label)
        busy = SessionBusyError("The agent is running. Wait until it has finished, or abort it, and navigate then.")
        if self._turns.running:
            raise busy
        ticket = self._turns.ticket
        async with self._turns.admission():  # a prompt that comes now goes on from there
            await self.start()
            await self._turns.wait_for_turn(ticket)
            if not self._turns.idle:
                raise busy
            self._navigation = AbortSignal()
            work = self._turns.begin(Activity.NAVIGATING, self._navigate(plan, entry_id, summarize=summarize))
            return await self._outcome(work)

    async def _navigate(self, wish: BranchPlan, entry_id: str, *, summarize: bool) -> Navigation:
        self._recorder.save_all()
        target = self.store.entry(entry_id)
        left = self.store.leaf_id
        if left == entry_id:
            return Navigation()
        message = target.message if target.type in ("message", "custom_message") else None
        asks = isinstance(message, UserMessage | CustomMessage)
        place = target.parent_id if asks else entry_id
        common, behind = self._left_behind(entry_id)
        plan = await self.hooks.before_branch(
            BranchChange(
                entry_id,
                left,
                common,
                behind,
                summarize,
                wish.custom_instructions,
                wish.replace_instructions,
                wish.label,
            ),
            self._navigation,
        )
        if plan.cancel:
            return Navigation(cancelled=True)
        summary: tuple[str, JsonObject, Usage | None] | None = None
        if plan.summary is not None:
            summary = (*plan.summary, None)
        elif summarize and behind:
            try:
                with self._navigation.interruptible():
                    summary = await self._summariser().summarise_branch(
                        behind,
                        self.settings.branch_summary,
                        plan.custom_instructions,
                        replace_instructions=plan.replace_instructions,
                    )
            except RunAborted:
                return Navigation(cancelled=True, aborted=True)
        self.store.move_leaf(place)
        entry: Entry | None = None
        if summary is not None:
            text, details, usage = summary
            fields = {"summary": text, "fromId": left or "root", "details": details}
            fields |= {"usage": usage.to_wire()} if usage is not None else {"fromHook": True}
            entry = self.store.entry(self.store.append("branch_summary", **fields))
        if plan.label:
            self.set_label(entry.id if entry is not None else entry_id, plan.label)
        self.conversation.reload(self.store)
        await self.emit(BranchMoved(leaf_id=self.store.leaf_id, old_leaf_id=left))
        await self.hooks.branched(self.store.leaf_id, left, entry, by_hook=plan.summary is not None)
        return Navigation(editor_text=text_of(message.content) if asks else None, summary_entry=entry)

    def _left_behind(self, entry_id: str) -> tuple[str | None, list[Entry]]:
        """Where the way to that entry parts from this branch, and what of this branch lies behind that."""
        ahead = {entry.id for entry in self.store.branch(entry_id)}
        here = self.store.branch()
        common = next((entry.id for entry in reversed(here) if entry.id in ahead), None)
        return common, [entry for entry in here if entry.id not in ahead]

    # Compaction and the user's shell

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Put a summary in the place of the conversation's older part; a run that is going on is aborted first.

        ``instructions`` say what matters most. Raises ``CompactionError``, ``CredentialsError`` or
        ``SessionFileError``; the conversation is as it was then.
        """
        self._request_abort()
        ticket = self._turns.ticket
        async with self._turns.admission():
            await self.start()
            await self._turns.wait_for_end()
            if self._turns.aborted_since(ticket):
                raise CompactionError("Compaction cancelled: an abort came before it had begun.")
            await self._make_idle()
            summariser = self._summariser()
            self._recorder.save_all()
            work = self._compactor.compact(self.store, self.conversation, summariser, "manual", instructions)
            compacting = self._turns.begin(Activity.COMPACTING, work)
        return await self._outcome(compacting)

    def context_usage(self) -> ContextUsage | None:
        """How full the model's context is; ``None`` without a model."""
        if self.model is None or not self.model.context_window:
            return None
        return self.conversation.usage(self.model)

    async def bash(
        self, command: str, *, exclude_from_context: bool = False, command_id: str | int | None = None
    ) -> ShellResult:
        """Run a shell command beside the agent; the model is shown it with the next prompt, unless excluded.

        Raises ``UsageError`` when it could not be started.
        """
        store = self.store
        given = await self.hooks.user_bash(command, store.cwd, exclude_from_context=exclude_from_context)
        if isinstance(given, ShellResult):
            result = given
        else:
            result = await self._shell.run(command, store.cwd, command_id, shell=given)
        message = BashExecutionMessage(
            command=command,
            output=result.output,
            exit_code=result.exit_code,
            cancelled=result.cancelled,
            truncated=result.truncation.truncated,
            full_output_path=result.full_output_path,
            full_output_problem=result.file_problem,
            exclude_from_context=exclude_from_context or None,
        )
        if store is self.store:
            self._held_back.append(message)
            if self._turns.idle:
                self._add_held_back()
        return result

    async def abort_bash(self) -> None:
        """End the user's shell commands, and return when they have ended."""
        await self._shell.abort()

    def _add_held_back(self) -> None:
        """Say what the user ran meanwhile: between a tool call and its result it had no place."""
        held_back, self._held_back = self._held_back, []
        for message in held_back:
            self.messages.append(message)
            self._save(message)

    def lend_tools(self, lent: Iterable[Tool]) -> None:
        """Offer these tools besides the session's own from the next prompt on, in the place of those lent before.

        Raises ``UsageError`` for a name that stands twice or that one of its own tools has, and for a tool that an API
        would refuse; nothing has changed then.
        """
        specs = [(tool.spec, tool) for tool in lent]
        check_tools(spec for spec, _ in specs)
        tools = {spec.name: tool for spec, tool in specs}
        if taken := [name for name in tools if name in self.equipment.tools]:
            raise UsageError(f"The session has a tool named {', '.join(taken)} of its own. Choose another name.")
        self._lent_tools = tools
        self.refresh_equipment()

    @property
    def chosen_tools(self) -> Sequence[str] | None:
        """The tools that somebody chose; ``None`` for the usual ones."""
        return self._chosen_tools

    def set_active_tools(self, names: Sequence[str] | None) -> None:
        """Offer only these tools from the next request on, with ``None`` the usual ones; unknown names are ignored."""
        self._chosen_tools = names
        self.refresh_equipment()

    def refresh_equipment(self) -> None:
        """Offer a run that is going on the tools that there are now, from its next request on."""
        if self._run is not None:
            self._run.tools = self.active_tools

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every event, in order; returns what ends that.

        An awaitable that the listener returns is waited for: a slow reader slows the run down instead of piling up
        what it did not read.
        """
        return self._publisher.subscribe(listener)

    def close(self) -> None:
        """Save what is unsaved, if need be in another file, and let go of the session file.

        A run that is going on is asked to end, but not waited for. ``save_problem`` and ``problems`` say afterwards
        what the session's own file does not hold.
        """
        self._request_abort()
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        if not self.closed:
            self._add_held_back()
            self._say_what_is_lost()
        self.closed = True
        self._publisher.close()
        self.store.close()

    def _say_what_is_lost(self) -> None:
        try:
            self.save_problem = self._recorder.rescue()
        except SessionFileError as error:
            count = self._recorder.unsaved_count
            lost = "The last message" if count == 1 else f"The last {count} messages"
            self.save_problem = f"{sentence(error)} {lost} of the conversation could not be saved anywhere."
        if self.save_problem:
            self.problems.append(self.save_problem)
            _log.error("%s", self.save_problem)
        if queued := [*self.steering.texts, *self.follow_up_queue.texts]:
            shown = "; ".join(f'"{textcut.one_line(text, 80)}"' for text in queued[:5])
            _log.warning("The session ended before %d queued messages were delivered: %s", len(queued), shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # A run

    def _prepare(self) -> loop.Run:
        model = self._chosen_model()
        return loop.Run(
            model=model,
            provider=self.registry.provider_of(model),
            system_prompt=self.system_prompt,
            messages=self.messages,
            tools=self.active_tools,
            options=self._options(model),
            emit=self.emit,
            tool_execution=self.settings.tool_execution,
            interrupt_mode=self.settings.interrupt_mode,
            steering=self.steering,
            follow_up=self.follow_up_queue,
            queues_changed=self._queues_changed,
            hooks=self.hooks,
            images=self._images,
            watchers=self.watchers,
        )

    def _options(self, model: Model) -> StreamOptions:
        return StreamOptions(
            api_key=self.registry.key_for(model),
            thinking=self.thinking_level,
            thinking_budgets=self.settings.thinking_budgets,
            idle_timeout=self.settings.retry.provider.idle_timeout,
            on_request=self.hooks.request,
            on_response=self.hooks.response,
        )

    def _chosen_model(self) -> Model:
        if self.model is None:
            raise CredentialsError(
                "none",
                "No model is chosen. Set ANTHROPIC_API_KEY to use Claude, or start with --provider offline, "
                "which needs neither key nor network (and is no language model).",
            )
        return self.model

    def _summariser(self) -> Summariser:
        model = self._chosen_model()
        provider = self.registry.provider_of(model)
        options = self._options(model)
        return Summariser(
            model, provider, lambda max_tokens: replace(options, max_tokens=max_tokens), self.settings.retry
        )

    def _begin_run(
        self, message: UserMessage | CustomMessage, accept: Callable[[], None] = lambda: None
    ) -> asyncio.Task[None]:
        run = self._prepare()
        accept()
        self._run = run
        return self._turns.begin(Activity.RUNNING, self._drive(run, message))

    async def _drive(self, run: loop.Run, prompt: UserMessage | CustomMessage) -> None:
        try:
            self._add_held_back()
            await self._recovery.begin(run, self.conversation)
            images = [] if isinstance(prompt.content, str) else prompt.content
            said = Said(text_of(prompt.content), [block for block in images if isinstance(block, ImageContent)])
            start = await self.hooks.before_run(said, run.system_prompt)
            run.system_prompt = start.system_prompt
            added, self._for_next_prompt = self._for_next_prompt, []
            await loop.run(run, [*start.before, prompt, *added, *start.messages])
            while await self._recovery.goes_on(run, self.conversation) or self._has_queued(run):
                self._turns.resume()
                await loop.run(run, [])
            self._turns.settle()
            await self.emit(AgentSettled())
        except Exception:
            # A defect of ours: those who watch must not wait for an end for ever.
            await self.emit(AgentEnd(messages=[]))
            await self.emit(AgentSettled())
            raise
        finally:
            self._run = None

    def _has_queued(self, run: loop.Run) -> bool:
        """Whether a message was queued after the run looked for the last time."""
        answer = self.last_answer
        good = answer is not None and answer.stop_reason != "error"
        return good and self.pending_count > 0 and not run.abort.requested

    async def _compact_by_itself(self, reason: CompactionReason) -> bool:
        try:
            self._recorder.save_all()
            await self._compactor.compact(self.store, self.conversation, self._summariser(), reason)
        except (CompactionError, CredentialsError, SessionFileError):
            return False  # compaction_end told why, and the conversation goes on as it is
        return True

    async def _enqueue(self, queue: MessageQueue, message: UserMessage | CustomMessage) -> None:
        queue.waiting.append(message)
        await self._queues_changed()

    async def _queues_changed(self) -> None:
        await self.emit(QueueUpdate(steering=self.steering.texts, follow_up=self.follow_up_queue.texts))

    async def emit(self, event: SessionEvent) -> None:
        """Dispatch an event to extensions, the session file and subscribers, in that order."""
        if isinstance(event, AgentEnd) and self._run is not None:
            event = event.model_copy(update={"will_retry": self._recovery.will_retry(self._run, self.last_answer)})
        problem: SessionSaveFailed | None = None

        def save() -> None:
            nonlocal problem
            problem = self._save(event.message) if isinstance(event, MessageEnd) else None

        def settle() -> None:
            if isinstance(event, AgentEnd) and not event.will_retry and self._run is not None:
                self._turns.settle()  # who sees the end of the last run may prompt at once

        await self._publisher.emit(event, save=save, published=settle)
        if problem is not None:
            await self.emit(problem)
        if isinstance(event, MessageEnd):
            await self._recovery.take_note(event.message)

    def _save(self, message: Message) -> SessionSaveFailed | None:
        try:
            self._recorder.save(message)
        except SessionFileError as error:
            # The message stays in memory and is tried again with the next one; to go on unsaved is the user's decision.
            problem = f"{sentence(error)} What was said is kept in memory."
            if self._run is not None:
                self._run.abort.request(f"{problem} The run was stopped.")
            return SessionSaveFailed(error=problem, unsaved=self._recorder.unsaved_count)
        return None

    # Model and thinking

    def _record_start(self, model: tuple[str, str] | None, thinking_level: str | None) -> None:
        if self.model is not None and model != (self.model.provider, self.model.id):
            self.store.append("model_change", provider=self.model.provider, modelId=self.model.id)
        if thinking_level != self.thinking_level:
            self.store.append("thinking_level_change", thinkingLevel=self.thinking_level)

    def _clamped(self, level: ThinkingLevel) -> ThinkingLevel:
        return self.model.nearest_thinking_level(level) if self.model is not None else level
