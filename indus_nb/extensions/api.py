"""What an extension has in its hands: the API to register with, and the context that its handlers get."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from indus_nb.errors import CredentialsError, UsageError
from indus_nb.events import ToolOutput
from indus_nb.extensions.events import unknown_event
from indus_nb.extensions.loader import Source
from indus_nb.messages import CustomMessage, ImageContent, TextContent, ThinkingLevel, text_of
from indus_nb.providers import Model, ToolSpec
from indus_nb.providers.tool_schemas import check_tool
from indus_nb.storage.format import Entry
from indus_nb.tools import FunctionTool, Tool, ToolContext
from indus_nb.tools.function import as_output, function_tool
from indus_nb.tools.process import Child
from indus_nb.wire import JsonObject

if TYPE_CHECKING:
    from indus_nb.extensions.host import Extensions
    from indus_nb.loop.loop import AbortSignal
    from indus_nb.session.compaction import CompactionResult
    from indus_nb.session.conversation import ContextUsage
    from indus_nb.session.dialogs import Ui
    from indus_nb.session.session import AgentSession, Navigation, SessionSettings
    from indus_nb.storage.store import SessionStore

Handler = Callable[[Any, "Context"], Any]
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])
Completer = Callable[[str], "Sequence[Any] | Awaitable[Sequence[Any] | None] | None"]
DeliverAs = Literal["steer", "followUp", "nextTurn"]


class StaleExtensionError(UsageError):
    """Something of an extension was used after its session was replaced or its code reloaded."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of an extension: ``/name arguments``."""

    name: str
    handler: Callable[[str, CommandContext], Any]
    description: str | None = None
    complete: Completer | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of the command line that an extension understands."""

    name: str
    type: Literal["boolean", "string"]
    default: bool | str | None = None
    description: str | None = None


@dataclass(slots=True)
class Extension:
    """What one extension has registered."""

    source: Source
    handlers: dict[str, list[Handler]] = field(default_factory=dict[str, list[Handler]])
    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    commands: dict[str, Command] = field(default_factory=dict[str, Command])
    flags: dict[str, Flag] = field(default_factory=dict[str, Flag])
    renderers: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a program printed, how it ended (``None``: killed), and whether it had to be killed."""

    stdout: str
    stderr: str
    code: int | None
    killed: bool


@dataclass(frozen=True, slots=True)
class ExtensionTool:
    """A tool with a JSON schema; ``execute`` is called as ``execute(tool_call_id, params, signal, on_update, ctx)``.

    What it returns becomes content: a ``ToolOutput``, a text, an object, a figure; what it raises is a failure that
    the model reads. ``on_update`` takes the same, accumulated.
    """

    name: str
    description: str
    parameters: JsonObject
    execute: Callable[..., Any]
    label: str | None = None
    prompt_snippet: str | None = None
    prompt_guidelines: Sequence[str] = ()
    prepare_arguments: Callable[[JsonObject], JsonObject] | None = None
    read_only: bool = False
    render_call: Callable[..., Any] | None = None
    render_result: Callable[..., Any] | None = None


class _BoundTool:
    """An ``ExtensionTool`` behind the ``Tool`` protocol."""

    def __init__(self, tool: ExtensionTool, host: Extensions) -> None:
        self._tool = tool
        self._host = host
        self.read_only = tool.read_only
        self.snippet = tool.prompt_snippet
        self.guidelines = tuple(tool.prompt_guidelines)
        self.spec = ToolSpec(tool.name, tool.description, tool.parameters)

    def check(self, arguments: JsonObject) -> JsonObject:
        return self._tool.prepare_arguments(arguments) if self._tool.prepare_arguments else arguments

    async def execute(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        ctx = self._host.handler_context()

        def update(partial: Any) -> None:
            context.report(as_output(partial))

        result = self._tool.execute(context.call_id, arguments, ctx.signal, update, ctx)
        return as_output(await result if isinstance(result, Awaitable) else result)


class Events:
    """A bus that all extensions of a session share."""

    def __init__(self, report: Callable[[str, BaseException], None]) -> None:
        self._report = report
        self._listeners: dict[str, list[Callable[[Any], Any]]] = {}

    def on(self, channel: str, listener: Callable[[Any], Any]) -> Callable[[], None]:
        """Call ``listener`` with what is emitted on ``channel``; returns what ends that."""
        listeners = self._listeners.setdefault(channel, [])
        listeners.append(listener)

        def end() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return end

    def emit(self, channel: str, data: Any = None) -> None:
        """Call everybody who listens to ``channel``; what fails there is reported and harms nobody else."""
        for listener in tuple(self._listeners.get(channel, ())):
            try:
                listener(data)
            except Exception as error:  # noqa: BLE001 - one listener's defect is no business of the others
                self._report(f"events.{channel}", error)


class Guarded:
    """Something that may be used only as long as the extension that it was given to is in force."""

    def __init__(self, host: Extensions) -> None:
        self.__host = host
        self.__generation = host.generation

    @property
    def in_force(self) -> bool:
        """Whether it may still be used."""
        return self.__generation == self.__host.generation

    @property
    def _host(self) -> Extensions:
        if self.__generation != self.__host.generation:
            raise StaleExtensionError(
                "The session was replaced or reloaded since, so this object is of the past. "
                "Use the context that the handler is given."
            )
        return self.__host

    @property
    def _session(self) -> AgentSession:
        return self._host.session


class Context(Guarded):
    """What a handler may look at and do."""

    @property
    def ui(self) -> Ui:
        """Dialogs and signs for the user."""
        return self._session.ui

    @property
    def has_ui(self) -> bool:
        """Whether anybody shows dialogs; without, they answer themselves."""
        return self._session.ui.has_host

    @property
    def settings(self) -> SessionSettings:
        """How the session behaves."""
        return self._session.settings

    @property
    def cwd(self) -> Path:
        """The directory that the session works in."""
        return self._session.store.cwd

    @property
    def session(self) -> SessionStore:
        """The session's entries, to read."""
        return self._session.store

    session_manager = session

    @property
    def model(self) -> Model | None:
        """The model that is talked to."""
        return self._session.model

    @property
    def models(self) -> Sequence[Model]:
        """The models that can be talked to."""
        return self._session.available_models()

    @property
    def thinking_level(self) -> ThinkingLevel:
        """How much the model thinks."""
        return self._session.thinking_level

    @property
    def signal(self) -> AbortSignal | None:
        """The wish to end the current run; ``None`` while there is none."""
        return self._session.abort_signal

    def is_read_only(self, tool_name: str) -> bool:
        """Whether that tool changes nothing, as code of this process says; a server's own word is no proof."""
        tool = self._session.all_tools.get(tool_name)
        return isinstance(tool, FunctionTool | _BoundTool) and tool.read_only

    def warning(self, tool_name: str, arguments: JsonObject) -> str | None:
        """What that tool has to say of a call before the user allows it, if anything."""
        tool: Any = self._session.all_tools.get(tool_name)
        return tool.warning(arguments) if isinstance(tool, FunctionTool) else None

    def builtin(self, tool_name: str) -> Tool | None:
        """The built-in tool of that name, unless something else is offered under it."""
        tool = self._session.equipment.tools.get(tool_name)
        return tool if tool is self._session.all_tools.get(tool_name) else None

    def is_idle(self) -> bool:
        """Whether nothing goes on."""
        return not self._session.is_running

    def abort(self) -> None:
        """End the current run; does not wait for that."""
        self._host.background(self._session.abort(), "abort")

    def has_pending_messages(self) -> bool:
        """Whether a message waits in a queue."""
        return self._session.pending_count > 0

    def shutdown(self) -> None:
        """End the process once it is idle; without effect where the session belongs to somebody else."""
        self._session.on_shutdown()

    def get_context_usage(self) -> ContextUsage | None:
        """How full the model's context is."""
        return self._session.context_usage()

    def compact(
        self,
        custom_instructions: str | None = None,
        *,
        on_complete: Callable[[CompactionResult], Any] | None = None,
        on_error: Callable[[Exception], Any] | None = None,
    ) -> None:
        """Compact the conversation; does not wait for that. A run that is going on is aborted first.

        Args:
            custom_instructions: What the summary should mind.
            on_complete: Called with the result, plain or async.
            on_error: Called with the reason when nothing was compacted, plain or async. Without it the failure is
                reported as the extension's.
        """
        session = self._session

        async def work() -> None:
            try:
                result = await session.compact(custom_instructions)
            except Exception as error:
                if on_error is None:
                    raise
                answer = on_error(error)
            else:
                answer = None if on_complete is None else on_complete(result)
            if inspect.isawaitable(answer):
                await answer

        self._host.background(work(), "compact")

    def get_system_prompt(self) -> str:
        """What the model is told first."""
        return self._host.system_prompt


class CommandContext(Context):
    """What a command may do besides; in handlers of events these would wait for themselves."""

    async def wait_for_idle(self) -> None:
        """Return when nothing goes on."""
        await self._session.wait_until_idle()

    async def new_session(self, parent_session: str | None = None) -> bool:
        """Start over; tells whether nobody objected. This context is of the past then."""
        return await self._session.new_session(parent_session)

    async def fork(self, entry_id: str, *, position: Literal["before", "at"] = "before") -> str | None:
        """Go on in a new session; returns the text of the message before which it begins, ``None`` if refused."""
        return await self._session.fork(entry_id, position=position)

    async def navigate_tree(self, target_id: str, **options: Any) -> Navigation:
        """Go on from another entry; see ``AgentSession.navigate``."""
        return await self._session.navigate(target_id, **options)

    async def switch_session(self, path: Path | str) -> bool:
        """Go on with another session; tells whether nobody objected. This context is of the past then."""
        return await self._session.switch_session(Path(path))

    async def reload(self) -> None:
        """Load all extensions and resources anew; the last thing that a command does."""
        await self._host.reload()


class ExtensionApi(Guarded):
    """What ``setup(api)`` is given. While it runs only registering is possible."""

    def __init__(self, host: Extensions, extension: Extension) -> None:
        super().__init__(host)
        self._extension = extension

    @property
    def events(self) -> Events:
        """The bus that all extensions share."""
        return self._host.bus

    # Registering

    @overload
    def on(self, event: str, handler: Handler) -> Callable[[], None]: ...
    @overload
    def on(self, event: str) -> Callable[[HandlerT], HandlerT]: ...
    def on(self, event: str, handler: Handler | None = None) -> Any:
        """Call ``handler(event, ctx)``, sync or async, when it happens; also a decorator. Returns what ends that.

        An event that does not exist is reported as a problem of the extension, and the handler is never called.
        """
        if handler is None:

            def decorate(function: HandlerT) -> HandlerT:
                self.on(event, function)
                return function

            return decorate
        if (problem := unknown_event(event)) is not None:
            self._host.report_soon(event, UsageError(problem), self._extension)
        handlers = self._extension.handlers.setdefault(event, [])
        handlers.append(handler)
        self._host.listening.add(event)

        def end() -> None:
            if handler in handlers:
                handlers.remove(handler)

        return end

    def register_tool(self, tool: Tool | ExtensionTool | Callable[..., Any]) -> None:
        """Offer a tool, or a typed function as one, from the next request on; of two with one name the first counts.

        One that an API would refuse is left out, and stands among the problems with the reason.
        """
        if isinstance(tool, ExtensionTool):
            self._add_tool(_BoundTool(tool, self._host))
        elif inspect.isroutine(tool):
            self._add_tool(function_tool(tool, inject={Context: self._host.handler_context}))
        else:
            self._add_tool(cast("Tool", tool))

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a typed function a tool (a decorator); ``options`` as for ``function_tool``."""
        if function is None:
            return partial(self.tool, **options)
        self._add_tool(function_tool(function, inject={Context: self._host.handler_context}, **options))
        return function

    def replace_tools(self, tools: Mapping[str, Tool]) -> None:
        """Offer these in the place of all that this extension has registered."""
        self._extension.tools = dict(tools)
        self._host.tools_changed()

    def _add_tool(self, tool: Tool) -> None:
        spec = tool.spec
        try:
            check_tool(spec)
        except UsageError as error:  # the others of this extension are none the worse for it
            self._host.background(self._host.report(self._extension, "register_tool", error), "register_tool")
            return
        self._extension.tools[spec.name] = tool
        self._host.tools_changed()

    def register_command(
        self,
        name: str,
        handler: Callable[[str, CommandContext], Any],
        description: str | None = None,
        complete: Completer | None = None,
    ) -> None:
        """Answer ``/name arguments``.

        Args:
            name: What is written behind the slash.
            handler: Called as ``handler(arguments, ctx)``, plain or async.
            description: Shown in lists; the first line of the handler's docstring when it is not given.
            complete: Called with what is typed of the arguments, plain or async, when the user presses Tab; returns
                texts, or ``Completion`` objects (or dictionaries) with ``value``, ``label`` and ``description``.
        """
        if not name or any(character.isspace() for character in name):
            raise UsageError(f"{name!r} cannot name a command: it needs a name without spaces.")
        self._extension.commands[name] = Command(name, handler, description or _first_line(handler), complete)

    def command(
        self, name: str | None = None, *, description: str | None = None, complete: Completer | None = None
    ) -> Callable[[HandlerT], HandlerT]:
        """The same as a decorator; the function's name is the command's."""

        def decorate(function: HandlerT) -> HandlerT:
            self.register_command(name or function.__name__.replace("_", "-"), function, description, complete)
            return function

        return decorate

    def register_flag(
        self,
        name: str,
        type: Literal["boolean", "string"] = "boolean",  # noqa: A002 - as everywhere in this family of programs
        *,
        default: bool | str | None = None,
        description: str | None = None,
    ) -> None:
        """Understand ``--name`` on the command line."""
        self._extension.flags[name] = Flag(name, type, default, description)

    def get_flag(self, name: str) -> bool | str | None:
        """What was given for a flag of this extension, else its default."""
        flag = self._extension.flags.get(name)
        return None if flag is None else self._host.flag_values.get(name, flag.default)

    def register_message_renderer(self, custom_type: str, renderer: Callable[..., Any]) -> None:
        """Show messages of that type in a notebook as what ``renderer(message)`` returns, a MIME bundle."""
        self._extension.renderers[custom_type] = renderer

    def register_shortcut(self, key: str, handler: Callable[..., Any], description: str | None = None) -> None:
        """Without effect: no front end here has keys to give away."""

    def register_provider(self, name: str, config: Mapping[str, Any]) -> None:
        """Reach more models, or the known ones otherwise; see ``ModelRegistry.register``."""
        self._host.register_provider(self._extension, name, config)

    def unregister_provider(self, name: str) -> None:
        """Take that back."""
        self._host.session.registry.unregister(name)

    # Acting

    @property
    def _acting(self) -> AgentSession:
        if not self._host.ready:
            raise UsageError("The extension is still being set up: register now, act in the handler of session_start.")
        return self._session

    def send_message(
        self,
        custom_type: str,
        content: str | list[TextContent | ImageContent],
        *,
        display: bool = True,
        details: Any = None,
        trigger_turn: bool = False,
        deliver_as: DeliverAs = "steer",
    ) -> None:
        """Say something to the model as this extension.

        During a run it is delivered as steering, as a follow-up, or with the user's next prompt. Otherwise it is added
        at once, and a run starts only with ``trigger_turn``.

        Args:
            custom_type: What kind of message it is, for renderers and for extensions that read it again.
            content: What the model reads.
            display: Whether the user sees it too.
            details: What is saved with it and no model reads.
            trigger_turn: Whether the model answers at once when it is idle.
            deliver_as: When it is delivered during a run.

        Raises:
            UsageError: The content is blank; models refuse such messages.
        """
        if not isinstance(content, str) and any(isinstance(block, ImageContent) for block in content):
            pass
        elif not text_of(content).strip():
            raise UsageError(
                f"The message {custom_type!r} is blank and was not sent: models refuse such messages. Give it a text, "
                "or save what only the extension reads with append_entry."
            )
        message = CustomMessage(custom_type=custom_type, content=content, display=display, details=details)
        work = self._acting.send_message(message, trigger_turn=trigger_turn, deliver_as=deliver_as)
        self._host.background(work, "send_message", self._extension)

    def send_user_message(
        self,
        content: str,
        images: Sequence[ImageContent] = (),
        *,
        deliver_as: Literal["steer", "followUp"] | None = None,
    ) -> None:
        """Prompt in the user's name, word for word; during a run ``deliver_as`` is needed."""
        work = self._acting.prompt(content, images, streaming_behavior=deliver_as, source="extension")
        self._host.background(work, "send_user_message", self._extension)

    def append_entry(self, custom_type: str, data: Any = None) -> str:
        """Save something with the session that no model sees; returns the entry's id."""
        return self._acting.store.append("custom", custom_type=custom_type, data=data)

    def set_session_name(self, name: str) -> None:
        """Name the session."""
        self._host.background(self._acting.set_name(name), "set_session_name", self._extension)

    def get_session_name(self) -> str | None:
        """What the session is called."""
        return self._acting.store.name

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Mark an entry, or with ``None`` take its mark away."""
        self._acting.set_label(entry_id, label)

    def get_active_tools(self) -> list[str]:
        """The names of the tools that the model is offered."""
        return [*self._acting.active_tools]

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Offer only these from the next request on; unknown names are ignored."""
        self._acting.set_active_tools(names)

    def get_all_tools(self) -> list[JsonObject]:
        """All tools that could be offered."""
        return [
            {"name": tool.spec.name, "description": tool.spec.description, "parameters": tool.spec.parameters}
            for tool in self._acting.all_tools.values()
        ]

    def get_commands(self) -> list[JsonObject]:
        """The commands of extensions, prompt templates and skills, as ``get_commands`` tells them over RPC."""
        return self._acting.list_commands()

    async def set_model(self, model: Model) -> bool:
        """Talk to another model; ``False`` without a key for it."""
        session = self._acting
        try:
            session.registry.key_for(model)
        except CredentialsError:
            return False
        await session.set_model(model)
        return True

    def get_thinking_level(self) -> ThinkingLevel:
        """How much the model thinks."""
        return self._acting.thinking_level

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Think more or less; the nearest level that the model knows."""
        self._host.background(self._acting.set_thinking_level(level), "set_thinking_level", self._extension)

    async def exec(
        self,
        command: str,
        arguments: Sequence[str] = (),
        *,
        cwd: Path | str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a program out of time has a result
    ) -> ExecResult:
        """Run a program without a shell or input; out of time (seconds) it is ended. Never raises."""
        return await _exec([command, *arguments], Path(cwd) if cwd else self._session.store.cwd, timeout)


async def _exec(arguments: Sequence[str], cwd: Path, seconds: float | None) -> ExecResult:
    import tempfile

    with tempfile.TemporaryFile() as errors:
        output = bytearray()
        killed = False
        try:
            async with Child(arguments, cwd=cwd, stderr=errors) as child:
                until = None if seconds is None else asyncio.get_running_loop().time() + seconds
                try:
                    while chunk := await child.read(until):
                        output += chunk
                except TimeoutError:
                    killed = True
                    output += child.kill()
            code = child.exit_code
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return ExecResult("", f"{arguments[0]} could not be started: {error}", None, killed=False)
        errors.seek(0)
        told = errors.read().decode(errors="replace")
    return ExecResult(output.decode(errors="replace"), told, None if killed else code, killed)


def _first_line(function: Callable[..., Any]) -> str | None:
    return (function.__doc__ or "").strip().split("\n")[0] or None


def custom_entries(entries: Sequence[Entry], custom_type: str) -> list[Any]:
    """What ``append_entry`` saved under that type on a branch, oldest first."""
    custom = (entry.data for entry in entries if entry.type == "custom")
    return [data.get("data") for data in custom if data.get("customType") == custom_type]
