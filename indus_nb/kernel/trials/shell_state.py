"""State of a kernel that code can change beside variables: its shell, its event loop, and its logs."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import FunctionType, MethodType
from typing import Any, cast

from indus_nb.kernel.preview.world import SET_BY_PYTHON
from indus_nb.kernel.run.execution import Execution
from indus_nb.safety.effects import Effect


class ShellState:
    """The shell, the loop and the loggers, in a copy of the kernel."""

    def __init__(self, shell: Any) -> None:
        """Create the state of a shell, without watching it yet."""
        self._shell = shell

    def watch(self, effects: list[Effect]) -> None:
        """Record from now on what is logged elsewhere than in prints: a file, a server, a list.

        Args:
            effects: Where that is added.
        """
        for kind in _handlers():
            kind.handle = _noting(kind.handle, effects)

    def state(self) -> dict[str, Any]:
        """Return a snapshot to compare, by name; called on the loop."""
        loop: Any = asyncio.get_running_loop()
        waiting = [*getattr(loop, "_scheduled", ()), *getattr(loop, "_ready", ())]
        late = [handle for handle in waiting if not handle.cancelled()]
        return {**_of_shell(self._shell), "the event loop": (late, *_of_loop(loop))}


def _of_loop(loop: asyncio.AbstractEventLoop) -> tuple[object, ...]:
    return loop.get_debug(), loop.get_exception_handler(), loop.get_task_factory()


def _handlers() -> Iterator[Any]:
    """List the classes of log handlers that define how they handle a record."""
    waiting: list[Any] = [logging.Handler]
    while waiting:
        kind = waiting.pop()
        waiting += type.__subclasses__(kind)
        if "handle" in vars(kind) and kind is not logging.NullHandler:
            yield kind


def _noting(plain: Callable[..., Any], effects: list[Effect]) -> Callable[..., Any]:
    @wraps(plain)
    def handle(handler: Any, record: logging.LogRecord) -> Any:
        is_handled = plain(handler, record)
        if is_handled and not _prints(handler):
            what = type(handler).__name__
            effects.append(Effect("unknown", what, f"logs to a {what}, whose effects cannot be seen"))
        return is_handled

    return handle


def _prints(handler: Any) -> bool:
    stream: Any = getattr(handler, "stream", None) or getattr(getattr(handler, "console", None), "file", None)
    return stream is not None and stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)


def _ids(kept: Any) -> list[int]:
    """Return the ids of what the shell keeps of cells in a list or dictionary."""
    if isinstance(kept, dict):
        return _ids([*cast("dict[Any, Any]", kept).values()])
    return [*map(id, cast("list[Any]", kept))] if isinstance(kept, list) else []


def _of_shell(shell: Any) -> dict[str, Any]:
    """Return IPython's state that code can change: magics, formatters, transformers, callbacks, settings."""
    formatter, own = shell.display_formatter, cast("dict[str, Any]", vars(shell))
    formatters = [*formatter.formatters.values(), getattr(formatter, "mimebundle_formatter", None)]
    return {
        "magics": {
            kind: {name: _identity(magic) for name, magic in held.items()}
            for kind, held in shell.magics_manager.magics.items()
        },
        "how values are displayed": [
            {name: id(value) for name, value in held.items()}
            for each in formatters
            for held in (getattr(each, "type_printers", {}), getattr(each, "deferred_printers", {}))
            if each is not None
        ]
        + [_options(each) for each in formatters if each is not None],
        "how errors are shown": (shell.call_pdb, getattr(shell.InteractiveTB, "mode", None)),
        "the history": [
            _ids(shell.user_ns.get("Out")),
            _ids(shell.user_ns.get("In")),
            {name: id(value) for name, value in own.items() if not name.startswith("_")},
        ],
        "names with two underscores": {
            name: id(value)
            for name, value in shell.user_ns.items()
            if name.startswith("__") and name.endswith("__") and name not in SET_BY_PYTHON
        },
        "which formats are displayed": [getattr(each, "enabled", None) for each in formatters],
        "what runs around cells": {
            name: [each for each in held if not isinstance(getattr(each, "__self__", None), Execution)]
            for name, held in shell.events.callbacks.items()
        },
        "how code is read": [*map(id, shell.ast_transformers), *map(id, shell.input_transformers_post)],
        "the shell's settings": {name: getattr(shell, name) for name in shell.trait_names(config=True)},
    }


def _options(formatter: Any) -> dict[str, Any]:
    """Return the options of a formatter that are simple values, such as the digits of numbers."""
    given = {name: getattr(formatter, name) for name in formatter.trait_names(config=True)}
    return {name: value for name, value in given.items() if isinstance(value, str | int)}


def _identity(magic: Any) -> object:
    """Return an identity of a magic. IPython's own share one: it loads some when they are used."""
    made = magic.__func__ if isinstance(magic, MethodType) else magic
    home = made.__module__ if isinstance(made, FunctionType) else type(made).__module__
    return "IPython" if str(home).startswith("IPython.") else id(made)
