"""A coding agent for notebooks, for programs over stdio, and for Python."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from indus_nb.base import own_imports
from indus_nb.version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from indus_nb.core.session.session import AgentSession
    from indus_nb.fanout.agent import agent
    from indus_nb.front.console.client import HostTool, RpcClient
    from indus_nb.front.notebook import serve
    from indus_nb.front.notebook.panel.chat_panel import ChatPanel
    from indus_nb.start import SessionOptions, open_session

__all__ = [
    "AgentSession",
    "ChatPanel",
    "HostTool",
    "RpcClient",
    "SessionOptions",
    "__version__",
    "agent",
    "load_ipython_extension",
    "open_session",
    "serve",
    "unload_ipython_extension",
]

if sys.platform == "win32":
    raise ImportError(
        "indus_nb needs a POSIX system such as Linux or macOS, for it runs commands in process groups of their own. "
        "On Windows, use it inside the Windows Subsystem for Linux (WSL)."
    )

_HOMES = {
    "AgentSession": "indus_nb.core.session",
    "ChatPanel": "indus_nb.front.notebook.panel.chat_panel",
    "HostTool": "indus_nb.front.console.client",
    "agent": "indus_nb.fanout.agent",
    "RpcClient": "indus_nb.front.console.client",
    "SessionOptions": "indus_nb.start",
    "open_session": "indus_nb.start",
    "serve": "indus_nb.front.notebook",
}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """What ``%load_ext indus_nb`` calls."""
    own_imports.keep_out_working_directory()
    from indus_nb.front.notebook import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """What ``%unload_ext indus_nb`` calls."""
    from indus_nb.front.notebook import unload

    unload(shell)


def __getattr__(name: str) -> Any:
    """The public names, imported when they are first asked for."""
    if name in _HOMES:
        own_imports.keep_out_working_directory()
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
