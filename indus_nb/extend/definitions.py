"""Definitions of a program or notebook for all its sessions: functions that become tools, commands and handlers."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from indus_nb.base.errors import UsageError
from indus_nb.extend.api import Completer, Context, ExtensionApi, StaleExtensionError
from indus_nb.extend.events import unknown_event
from indus_nb.tools.function import function_tool, parameter_types
from indus_nb.tools.tool import ToolContext

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


_Registration = Callable[[ExtensionApi], object]


class Definitions:
    """Decorators that register functions with every session of this process, open ones included.

    A function of the same name replaces the earlier one, so that a cell can be run again::

        from indus_nb import agent


        @agent.tool
        def celsius(fahrenheit: float) -> float:
            '''Convert a temperature.'''
            return (fahrenheit - 32) / 1.8
    """

    def __init__(self) -> None:
        self._tools: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {}
        self._registrations: dict[tuple[str, str], _Registration] = {}
        self._ends: dict[str, list[Callable[[], None]]] = {}
        self._apis: list[ExtensionApi] = []

    @property
    def tool_names(self) -> Sequence[str]:
        """Return the names of the functions that are tools."""
        return tuple(self._tools)

    def plain_functions(self, names: Sequence[str]) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
        """Return the functions that can run in any process: no coroutine functions, and none that take a context.

        Args:
            names: The names of tools.

        Returns:
            Those of the functions with one of these names and the options of each, by the tool's name.
        """
        return {name: self._tools[name] for name in names if name in self._tools and _is_plain(self._tools[name][0])}

    def __call__(self, api: ExtensionApi) -> None:
        """Register everything with a session: an extension's ``setup``."""
        self._apis = [*(known for known in self._apis if known.in_force), api]
        for register in self._registrations.values():
            register(api)

    @overload
    def tool(self, function: FunctionT, /) -> FunctionT: ...
    @overload
    def tool(self, /, **options: Any) -> Callable[[FunctionT], FunctionT]: ...
    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Make a typed function with a docstring a tool; a decorator, with or without options.

        Args:
            function: The function, when the decorator is written without parentheses.
            **options: As for ``indus_nb.tools.function.function_tool``.

        Returns:
            The function itself, or with options the decorator.

        Raises:
            UsageError: The function cannot be a tool.
        """
        if function is None:
            return partial(self.tool, **options)
        tool = function_tool(function, inject={Context: lambda: None}, **options)
        self._tools[tool.spec.name] = function, options
        self._register("tool", tool.spec.name, lambda api: api.tool(function, **options))
        return function

    def command(
        self, name: str | None = None, *, description: str | None = None, complete: Completer | None = None
    ) -> Callable[[FunctionT], FunctionT]:
        """Handle ``/name arguments`` with ``function(arguments, ctx)``; see ``ExtensionApi.register_command``.

        Args:
            name: What is written behind the slash; by default the function's own name.
            description: Shown in lists.
            complete: Called with what is typed of the arguments; returns what Tab offers.

        Returns:
            The decorator, which returns the function unchanged.
        """

        def decorate(function: FunctionT) -> FunctionT:
            chosen = name or function.__name__.replace("_", "-")
            self._register("command", chosen, lambda api: api.register_command(chosen, function, description, complete))
            return function

        return decorate

    def on(self, event: str) -> Callable[[FunctionT], FunctionT]:
        """Call ``function(event, ctx)`` when it happens; raises ``UsageError`` for an event that does not exist."""
        if (problem := unknown_event(event)) is not None:
            raise UsageError(problem)

        def decorate(function: FunctionT) -> FunctionT:
            name = f"{event}: {function.__module__}.{function.__qualname__}"
            for end in self._ends.pop(name, ()):
                end()
            ends: list[Callable[[], None]] = []
            self._ends[name] = ends
            self._register("handler", name, lambda api: ends.append(api.on(event, function)))
            return function

        return decorate

    def renderer(self, custom_type: str) -> Callable[[FunctionT], FunctionT]:
        """Draw messages of that type in a notebook as what ``function(message)`` returns, a MIME bundle."""

        def decorate(function: FunctionT) -> FunctionT:
            self._register("renderer", custom_type, lambda api: api.register_message_renderer(custom_type, function))
            return function

        return decorate

    def forget(self, names: Sequence[str] | None = None) -> None:
        """Remove tools and commands of these names, or everything; open sessions keep their tools and commands."""
        if names is None:
            for end in (end for ends in self._ends.values() for end in ends):
                end()
            for kept in (self._tools, self._registrations, self._ends):
                kept.clear()
        for name in names or ():
            self._tools.pop(name, None)
            for kind in ("tool", "command"):
                self._registrations.pop((kind, name), None)

    def _register(self, kind: str, name: str, register: _Registration) -> None:
        """Register with all sessions from now on, and with the open ones; those that have ended are dropped."""
        self._registrations[kind, name] = register
        current: list[ExtensionApi] = []
        for api in self._apis:
            with contextlib.suppress(StaleExtensionError):
                register(api)
                current.append(api)
        self._apis = current


def _is_plain(function: Callable[..., Any]) -> bool:
    contexts = {ToolContext, Context}.intersection(
        hint for hint in parameter_types(function).values() if isinstance(hint, type)
    )
    return not inspect.iscoroutinefunction(function) and not contexts


agent: Definitions = Definitions()
"""Definitions of this process."""
