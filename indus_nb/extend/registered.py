"""Registrations of one extension: handlers, tools, commands, flags and renderers."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal

from indus_nb.base.events import ToolOutput
from indus_nb.base.wire import JsonObject
from indus_nb.extend.loader import Source
from indus_nb.models import ToolSpec
from indus_nb.tools import CallDescription, Tool, ToolContext
from indus_nb.tools.description import by_arguments
from indus_nb.tools.function import as_output

Completer = Callable[[str], "Sequence[Any] | Awaitable[Sequence[Any] | None] | None"]
"""Callback that completes what is typed of a command's arguments."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of an extension: ``/name arguments`` calls ``handler(arguments, ctx)``."""

    name: str
    handler: Callable[[str, Any], Any]
    description: str | None = None
    complete: Completer | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """Option of the command line that an extension understands."""

    name: str
    type: Literal["boolean", "string"]
    default: bool | str | None = None
    description: str | None = None


@dataclass(slots=True)
class Extension:
    """Registrations of one extension, by name; handlers by event."""

    source: Source
    handlers: dict[str, list[Callable[[Any, Any], Any]]] = field(
        default_factory=dict[str, list[Callable[[Any, Any], Any]]]
    )
    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    commands: dict[str, Command] = field(default_factory=dict[str, Command])
    flags: dict[str, Flag] = field(default_factory=dict[str, Flag])
    renderers: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])


@dataclass(frozen=True, slots=True)
class ExtensionTool:
    """A tool with a JSON schema; ``execute`` is called as ``execute(tool_call_id, params, signal, on_update, ctx)``.

    What it returns becomes content: a ``ToolOutput``, a text, an object, a figure; what it raises is a failure that
    the model reads. ``on_update`` accepts the same, accumulated. ``label``, ``render_call`` and ``render_result`` are
    accepted for extensions of other programs and change nothing; the last two warn of that.
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
    render_call: InitVar[Any] = None
    render_result: InitVar[Any] = None

    def __post_init__(self, render_call: Any, render_result: Any) -> None:
        for option, value in (("render_call", render_call), ("render_result", render_result)):
            if value is not None:
                warnings.warn(
                    f"The tool {self.name} is given {option}, which nothing here calls. Leave it out.",
                    UserWarning,
                    stacklevel=3,
                )


class BoundTool:
    """An ``ExtensionTool`` behind the ``Tool`` protocol.

    ``context`` makes the context that ``execute`` is called with.
    """

    def __init__(self, tool: ExtensionTool, context: Callable[[], Any]) -> None:
        self._tool = tool
        self._context = context
        self.read_only: bool = tool.read_only
        self.snippet: str | None = tool.prompt_snippet
        self.guidelines: tuple[str, ...] = tuple(tool.prompt_guidelines)
        self.spec: ToolSpec = ToolSpec(tool.name, tool.description, tool.parameters)

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as ``prepare_arguments`` makes them, unchanged without it."""
        return self._tool.prepare_arguments(arguments) if self._tool.prepare_arguments else arguments

    def describe_call(self, arguments: JsonObject) -> CallDescription:
        """Describe a call by its arguments."""
        return by_arguments(self.spec.name, arguments, has_effects=not self.read_only)

    async def execute(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Call the extension's ``execute`` and make content of what it returns.

        Args:
            arguments: The arguments as ``check`` returned them.
            context: The call's id, and where partial output goes.

        Raises:
            Exception: Whatever the extension raises; the model reads that as a failure.
        """
        ctx = self._context()

        def update(partial: Any) -> None:
            context.report(as_output(partial))

        result = self._tool.execute(context.call_id, arguments, ctx.signal, update, ctx)
        return as_output(await result if isinstance(result, Awaitable) else result)
