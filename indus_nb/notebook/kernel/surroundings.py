"""What code can change of the kernel that it runs in, beside variables: its shell, its event loop, and what it logs."""

from __future__ import annotations

import asyncio
import logging
import sys
from types import FunctionType, MethodType
from typing import Any, cast

from indus_nb.effects import Effect
from indus_nb.notebook.kernel.execution import Execution


class Surroundings:
    """The shell, the loop and the loggers, in a copy of the kernel."""

    def __init__(self, shell: Any) -> None:
        """Plan to watch them.

        Args:
            shell: The IPython shell.
        """
        self._shell = shell
        self._timers: list[asyncio.TimerHandle] = []

    def watch(self, loop: asyncio.AbstractEventLoop, effects: list[Effect]) -> None:
        """Take note of what is to be called later, and of what is logged elsewhere than in prints.

        Args:
            loop: The loop on which the code will run.
            effects: Where what is logged is added: the files of handlers are not here, and others keep what they get.
        """
        plain, changeable = loop.call_at, cast("Any", loop)

        def call_at(*args: Any, **kwargs: Any) -> asyncio.TimerHandle:
            self._timers.append(plain(*args, **kwargs))
            return self._timers[-1]

        changeable.call_at = call_at
        handlers, handle_here = cast("Any", logging.Handler), logging.Handler.handle

        def handle(handler: Any, record: logging.LogRecord) -> bool:
            if not (_prints(handler) or isinstance(handler, logging.NullHandler)):
                what = type(handler).__name__
                effects.append(Effect("unknown", what, f"logs to a {what}, whose effects cannot be seen"))
            return handle_here(handler, record)

        handlers.handle = handle

    def state(self) -> dict[str, Any]:
        """Return what there is of them to compare, by what it is called; called on the loop."""
        loop = asyncio.get_running_loop()
        late = [timer for timer in self._timers if not timer.cancelled() and timer.when() > loop.time()]
        return {**_of_shell(self._shell), "the event loop": (late, loop.get_debug(), loop.get_exception_handler())}


def _prints(handler: Any) -> bool:
    stream: Any = getattr(handler, "stream", None) or getattr(getattr(handler, "console", None), "file", None)
    return stream is not None and stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)


def _ids(kept: Any) -> list[int]:
    """What the shell keeps of cells, as far as it still does so in a list or dictionary."""
    if isinstance(kept, dict):
        return _ids([*cast("dict[Any, Any]", kept).values()])
    return [*map(id, cast("list[Any]", kept))] if isinstance(kept, list) else []


def _of_shell(shell: Any) -> dict[str, Any]:
    """What of IPython's shell code can change: magics, formatters, transformers, callbacks, settings."""
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
        ],
        "what the shell keeps": [
            _ids(shell.user_ns.get("Out")),
            _ids(shell.user_ns.get("In")),
            {name: id(value) for name, value in own.items() if not name.startswith("_")},
        ],
        "names of Python's own": {
            name: id(value)
            for name, value in shell.user_ns.items()
            if name.startswith("__") and name.endswith("__") and "annot" not in name
        },
        "which formats are displayed": [getattr(each, "enabled", None) for each in formatters],
        "what runs around cells": {
            name: [each for each in held if not isinstance(getattr(each, "__self__", None), Execution)]
            for name, held in shell.events.callbacks.items()
        },
        "how code is read": [*map(id, shell.ast_transformers), *map(id, shell.input_transformers_post)],
        "the shell's settings": {name: getattr(shell, name) for name in shell.trait_names(config=True)},
    }


def _identity(magic: Any) -> object:
    """What tells a magic from another. IPython's own are one: it loads some when they are used."""
    made = magic.__func__ if isinstance(magic, MethodType) else magic
    home = made.__module__ if isinstance(made, FunctionType) else type(made).__module__
    return "IPython" if str(home).startswith("IPython.") else id(made)
