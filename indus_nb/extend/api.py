"""The API that ``setup(api)`` of an extension is given, and the names that extensions import.

What this module promises: everything in ``__all__`` stays importable from here, wherever it is defined; an API of a
session that was replaced or reloaded raises ``StaleExtensionError``; while ``setup`` runs only registering is possible.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from indus_nb.base.errors import CredentialsError, UsageError
from indus_nb.base.messages import CustomMessage, ImageContent, TextContent, ThinkingLevel, text_of
from indus_nb.base.wire import JsonObject
from indus_nb.core.storage.entries import Entry
from indus_nb.extend.bus import EventBus
from indus_nb.extend.context import CommandContext, Context, Guarded, StaleExtensionError
from indus_nb.extend.events import unknown_event
from indus_nb.extend.programs import ExecResult, run_program
from indus_nb.extend.registered import BoundTool, Command, Completer, Extension, ExtensionTool, Flag
from indus_nb.extend.runtime import Runtime
from indus_nb.models import Model
from indus_nb.models.apis.tool_schemas import check_tool
from indus_nb.tools import Tool
from indus_nb.tools.function import function_tool

if TYPE_CHECKING:
    from indus_nb.core.session import AgentSession

__all__ = [
    "Command",
    "CommandContext",
    "Completer",
    "Context",
    "DeliverAs",
    "Events",
    "ExecResult",
    "Extension",
    "ExtensionApi",
    "ExtensionTool",
    "Flag",
    "Guarded",
    "Handler",
    "HandlerT",
    "StaleExtensionError",
    "custom_entries",
]

Handler = Callable[[Any, Context], Any]
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])
DeliverAs = Literal["steer", "followUp", "nextTurn"]
Events = EventBus


class ExtensionApi(Guarded):
    """API that ``setup(api)`` is given. While it runs only registering is possible."""

    def __init__(self, runtime: Runtime, extension: Extension) -> None:
        super().__init__(runtime)
        self._extension = extension

    @property
    def events(self) -> EventBus:
        """Return the bus that all extensions of the session share."""
        return self._runtime.bus

    # Registering

    @overload
    def on(self, event: str, handler: Handler) -> Callable[[], None]: ...
    @overload
    def on(self, event: str) -> Callable[[HandlerT], HandlerT]: ...
    def on(self, event: str, handler: Handler | None = None) -> Any:
        """Call ``handler(event, ctx)`` when an event happens; without ``handler`` a decorator.

        Args:
            event: The event's name. One that does not exist is reported as a problem of the extension, and its handler
                is never called.
            handler: Plain or async. What it may return depends on the event: see ``indus_nb.extend.events``.

        Returns:
            A function that removes the handler, or the decorator, which returns the function unchanged.
        """
        if handler is None:

            def decorate(function: HandlerT) -> HandlerT:
                self.on(event, function)
                return function

            return decorate
        runtime = self._runtime
        if (problem := unknown_event(event)) is not None:
            runtime.report_soon(event, UsageError(problem), self._extension)
        runtime.heard.add(event)
        handlers = self._extension.handlers.setdefault(event, [])
        handlers.append(handler)

        def end() -> None:
            if handler in handlers:
                handlers.remove(handler)

        return end

    def register_tool(self, tool: Tool | ExtensionTool | Callable[..., Any]) -> None:
        """Offer a tool, or a typed function as one, from the next request on.

        Of two extensions that offer a tool of one name the first counts. A tool that a model's API would reject is left
        out, and reported as a problem with the reason.

        Args:
            tool: An object with the methods of ``Tool``, an ``ExtensionTool``, or a function with annotations.

        Raises:
            UsageError: A function cannot be a tool: see ``function_tool``.
        """
        if isinstance(tool, ExtensionTool):
            self._add_tool(BoundTool(tool, partial(Context, self._runtime)))
        elif inspect.isroutine(tool):
            self._add_tool(function_tool(tool, inject={Context: partial(Context, self._runtime)}))
        else:
            self._add_tool(cast("Tool", tool))

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a typed function a tool; a decorator, with or without options.

        Args:
            function: The function, when the decorator is written without parentheses.
            **options: ``name``, ``description``, ``read_only``, ``snippet``, ``describe``, as for ``function_tool``.

        Returns:
            The function itself, or with options the decorator.

        Raises:
            UsageError: The function cannot be a tool: see ``function_tool``.
        """
        if function is None:
            return partial(self.tool, **options)
        self._add_tool(function_tool(function, inject={Context: partial(Context, self._runtime)}, **options))
        return function

    def replace_tools(self, tools: Mapping[str, Tool]) -> None:
        """Offer these tools instead of all that this extension has registered, by name."""
        self._extension.tools = dict(tools)
        self._runtime.tools_changed()

    def _add_tool(self, tool: Tool) -> None:
        spec = tool.spec
        try:
            check_tool(spec)
        except UsageError as error:  # the extension's other tools are offered all the same
            self._runtime.background(self._runtime.report(self._extension, "register_tool", error), "register_tool")
            return
        self._extension.tools[spec.name] = tool
        self._runtime.tools_changed()

    def register_command(
        self,
        name: str,
        handler: Callable[[str, CommandContext], Any],
        description: str | None = None,
        complete: Completer | None = None,
    ) -> None:
        """Handle prompts of the form ``/name arguments``.

        Args:
            name: What is written behind the slash.
            handler: Called as ``handler(arguments, ctx)``, plain or async.
            description: Shown in lists; the first line of the handler's docstring when it is not given.
            complete: Called with what is typed of the arguments, plain or async, when the user presses Tab; returns
                texts, or ``Completion`` objects (or dictionaries) with ``value``, ``label`` and ``description``.

        Raises:
            UsageError: The name is empty or has spaces.
        """
        if not name or any(character.isspace() for character in name):
            raise UsageError(f"{name!r} cannot name a command: it needs a name without spaces.")
        self._extension.commands[name] = Command(name, handler, description or _first_line(handler), complete)

    def command(
        self, name: str | None = None, *, description: str | None = None, complete: Completer | None = None
    ) -> Callable[[HandlerT], HandlerT]:
        """Handle ``/name arguments`` with the decorated function, called as ``function(arguments, ctx)``.

        Args:
            name: What is written behind the slash; by default the function's name, with hyphens.
            description: Shown in lists; by default the first line of the docstring.
            complete: As for ``register_command``.

        Returns:
            The decorator, which returns the function unchanged. It raises ``UsageError`` for a name with spaces.
        """

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
        """Register a flag, ``--name`` or ``--name=value``, of the command line.

        Args:
            name: What is written behind the hyphens.
            type: ``"boolean"`` for ``--name``, ``"string"`` for ``--name=value``.
            default: What ``get_flag`` returns when the flag is not given.
            description: What it is for.
        """
        self._extension.flags[name] = Flag(name, type, default, description)

    def get_flag(self, name: str) -> bool | str | None:
        """Return the value of a flag of this extension, else its default; ``None`` for an unknown flag."""
        flag = self._extension.flags.get(name)
        return None if flag is None else self._runtime.flag_values.get(name, flag.default)

    def register_message_renderer(self, custom_type: str, renderer: Callable[..., Any]) -> None:
        """Show custom messages of one type in a notebook in a way of their own.

        Args:
            custom_type: The messages' ``custom_type``.
            renderer: Called as ``renderer(message)``; returns a MIME bundle, such as ``{"text/plain": "…"}``.
        """
        self._extension.renderers[custom_type] = renderer

    def register_shortcut(self, key: str, handler: Callable[..., Any], description: str | None = None) -> None:
        """Accept a shortcut and ignore it: no front end here has keys for extensions.

        The method exists for extensions that were written for other programs of this family.

        Args:
            key: The key combination.
            handler: Never called.
            description: What the shortcut does.
        """

    def register_provider(self, name: str, config: Mapping[str, Any]) -> None:
        """Add models, or change how known ones are reached.

        A configuration that is wrong is reported as a problem of the extension.

        Args:
            name: The provider's name, a new or a known one.
            config: The keys of a provider in ``models.json``; see ``ModelRegistry.register``.
        """
        self._runtime.register_provider(self._extension, name, config)

    def unregister_provider(self, name: str) -> None:
        """Undo ``register_provider``."""
        self._runtime.session.registry.unregister(name)

    # Acting

    @property
    def _acting(self) -> AgentSession:
        if not self._runtime.ready:
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
        """Send a message to the model as this extension; does not wait until it is delivered.

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
            UsageError: The content is blank, which models reject, or ``setup`` is still running.
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
        self._runtime.background(work, "send_message", self._extension)

    def send_user_message(
        self,
        content: str,
        images: Sequence[ImageContent] = (),
        *,
        deliver_as: Literal["steer", "followUp"] | None = None,
    ) -> None:
        """Prompt in the user's name, word for word; does not wait until the prompt is answered.

        Args:
            content: The text. Commands and templates in it are not expanded.
            images: What is attached to it.
            deliver_as: When it is delivered; needed during a run, for otherwise the prompt is rejected, and that is
                reported as a problem of the extension.

        Raises:
            UsageError: ``setup`` is still running.
        """
        work = self._acting.prompt(content, images, streaming_behavior=deliver_as, source="extension")
        self._runtime.background(work, "send_user_message", self._extension)

    def append_entry(self, custom_type: str, data: Any = None) -> str:
        """Save data in the session file that no model sees.

        Args:
            custom_type: By which ``custom_entries`` finds it again.
            data: Anything that JSON can hold.

        Returns:
            The new entry's id.

        Raises:
            UsageError: ``setup`` is still running.
        """
        return self._acting.store.append("custom", custom_type=custom_type, data=data)

    def set_session_name(self, name: str) -> None:
        """Name the session; does not wait until that is saved."""
        self._runtime.background(self._acting.set_name(name), "set_session_name", self._extension)

    def get_session_name(self) -> str | None:
        """Return the session's name, if it has one."""
        return self._acting.store.name

    def set_label(self, entry_id: str, label: str | None) -> None:
        """Set the label of an entry.

        Args:
            entry_id: The entry.
            label: The label; ``None`` removes it.

        Raises:
            UsageError: There is no such entry, or ``setup`` is still running.
        """
        self._acting.set_label(entry_id, label)

    def get_active_tools(self) -> list[str]:
        """Return the names of the tools that the model is offered."""
        return [*self._acting.active_tools]

    def set_active_tools(self, names: Sequence[str]) -> None:
        """Offer only these tools from the next request on; unknown names are ignored."""
        self._acting.set_active_tools(names)

    def get_all_tools(self) -> list[JsonObject]:
        """List all tools that could be offered: ``name``, ``description``, ``parameters`` (a JSON schema) of each."""
        return [
            {"name": tool.spec.name, "description": tool.spec.description, "parameters": tool.spec.parameters}
            for tool in self._acting.all_tools.values()
        ]

    def get_commands(self) -> list[JsonObject]:
        """List the commands of extensions, prompt templates and skills, as ``get_commands`` lists them over RPC."""
        return self._acting.list_commands()

    async def set_model(self, model: Model) -> bool:
        """Choose another model; returns ``False``, and changes nothing, without a key for it."""
        session = self._acting
        try:
            session.registry.key_for(model)
        except CredentialsError:
            return False
        await session.set_model(model)
        return True

    def get_thinking_level(self) -> ThinkingLevel:
        """Return how much the model thinks."""
        return self._acting.thinking_level

    def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Set how much the model thinks; the nearest level that the model supports is chosen."""
        self._runtime.background(self._acting.set_thinking_level(level), "set_thinking_level", self._extension)

    async def exec(
        self,
        command: str,
        arguments: Sequence[str] = (),
        *,
        cwd: Path | str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a program out of time has a result
    ) -> ExecResult:
        """Run a program to its end, without a shell and without input. Does not raise when that fails.

        Args:
            command: The program, by path or by name.
            arguments: Its arguments.
            cwd: The directory that it runs in; by default the session's.
            timeout: How many seconds it may run before it is killed; by default no limit.

        Returns:
            What it printed and how it ended. A program that cannot be started has the reason as ``stderr``.
        """
        environment = self._session.settings.shell.environment()
        return await run_program(
            [command, *arguments], Path(cwd) if cwd else self._session.store.cwd, timeout, environment
        )


def _first_line(function: Callable[..., Any]) -> str | None:
    return (function.__doc__ or "").strip().split("\n")[0] or None


def custom_entries(entries: Sequence[Entry], custom_type: str) -> list[Any]:
    """Return the data that ``append_entry`` saved under a type.

    Args:
        entries: The entries to look through, such as ``ctx.session.branch()``.
        custom_type: The type that ``append_entry`` was given.

    Returns:
        The data, oldest first.
    """
    custom = (entry.data for entry in entries if entry.type == "custom")
    return [data.get("data") for data in custom if data.get("customType") == custom_type]
