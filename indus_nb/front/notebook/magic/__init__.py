"""The parts of ``%agent``: options, Tab completion, and the sub-commands."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from indus_nb.front.notebook.magic.shell import QuietStatements, help_text, install_completion, literal_lines

if TYPE_CHECKING:
    from indus_nb.front.notebook.magic.options import COMMANDS, HELP, MAP_HELP
    from indus_nb.front.notebook.magic.request import Command, Request, Rows, parse, unquoted_state

__all__ = [
    "COMMANDS",
    "HELP",
    "MAP_HELP",
    "Command",
    "QuietStatements",
    "Request",
    "Rows",
    "help_text",
    "install_completion",
    "literal_lines",
    "parse",
    "unquoted_state",
]

_HOMES = {
    "COMMANDS": "options",
    "HELP": "options",
    "MAP_HELP": "options",
    "Command": "request",
    "Request": "request",
    "Rows": "request",
    "parse": "request",
    "unquoted_state": "request",
}


def __getattr__(name: str) -> Any:
    """Import names on first use that a shell needs only once ``%agent`` is used."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
