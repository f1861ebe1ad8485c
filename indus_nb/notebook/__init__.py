"""The notebook's interface: ``%load_ext indus_nb`` brings ``%agent`` and ``%%agent``."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from indus_nb._moved import Renamed
from indus_nb.errors import IndusError, ModelNotFoundError, UsageError
from indus_nb.notebook.page import defaults
from indus_nb.providers.preloading import preload_in_background

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from indus_nb.notebook.conversations import Conversations
    from indus_nb.notebook.kernel.agent_thread import AgentThread
    from indus_nb.notebook.page.comm_gate import CommGate


@dataclass(frozen=True, slots=True)
class _Loaded:
    conversations: Conversations
    literal_lines: Callable[[list[str]], list[str]]
    stop_completing: Callable[[], None]


_loaded: WeakKeyDictionary[InteractiveShell, _Loaded] = WeakKeyDictionary()


def conversations_of(shell: InteractiveShell) -> Conversations:
    """Return what the magics of a shell talk to.

    They are registered if they are not yet.
    """
    if shell not in _loaded:
        load(shell)
    return _loaded[shell].conversations


def load(shell: InteractiveShell) -> None:
    """Register the magics with a shell.

    What the first prompt will need is imported in the background.
    """
    from IPython.core.magic import no_var_expand

    from indus_nb.notebook.conversations import Conversations
    from indus_nb.notebook.kernel.tools import UserKernel
    from indus_nb.notebook.magic.completion import install
    from indus_nb.notebook.magic.request import literal_lines

    conversations = Conversations(shell, UserKernel(shell))

    @no_var_expand
    def agent(line: str, cell: str | None = None) -> None:
        """Ask the agent; `%agent help` shows how."""
        try:
            conversations.serve(line, cell)
        except IndusError as error:
            hint = " `%agent model` lists those that can be used here." if isinstance(error, ModelNotFoundError) else ""
            shown = f"{type(error).__name__}: {error}{hint}"
            # IPython shows what this returns instead of a traceback into this package.
            error.__dict__["_render_traceback_"] = lambda: [shown]
            raise

    manager: Any = shell.magics_manager  # its annotations are incomplete
    manager.register_function(agent, magic_kind="line_cell", magic_name="agent")
    shell.input_transformers_cleanup.append(literal_lines)
    atexit.register(conversations.close)
    _loaded[shell] = _Loaded(
        conversations, literal_lines, install(shell, lambda: conversations.session, conversations.complete_command)
    )
    preload_in_background(partial(_preload, widgets=hasattr(shell, "kernel")))


def unload(shell: InteractiveShell) -> None:
    """Undo what `load` did, and close the sessions."""
    from indus_nb.notebook.kernel.main_thread import work_here

    if work_here() is not None:
        raise UsageError("The agent's own code cannot unload the agent. Ask the user to do it.")
    loaded = _loaded.pop(shell, None)
    if loaded is None:
        return
    loaded.stop_completing()
    manager: Any = shell.magics_manager
    for magics in manager.magics.values():
        magics.pop("agent", None)
    if loaded.literal_lines in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(loaded.literal_lines)
    atexit.unregister(loaded.conversations.close)
    loaded.conversations.close()


def _thread_and_gate() -> tuple[AgentThread, CommGate | None]:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        raise UsageError("A chat panel needs a notebook. Elsewhere use `%agent`, or the session itself.")
    conversations = conversations_of(shell)
    return conversations.thread, conversations.comm_gate()


defaults.provide(_thread_and_gate)


def _preload(*, widgets: bool) -> None:
    """Import what drawing needs, and the client of the default provider."""
    from indus_nb.files import current_directory
    from indus_nb.notebook.view import blocks
    from indus_nb.resources.settings import agent_directory, load_settings, model_registry

    blocks.answer("```python\n1\n```")
    if widgets:
        import anywidget  # noqa: F401 # pyright: ignore[reportUnusedImport]
    try:
        name = load_settings(current_directory(), agent_directory()).settings.default_provider
        registry = model_registry(agent_directory())
        model = registry.default(name) if name else registry.first_available()
    except IndusError:
        return  # the first prompt reports what is wrong
    if model is not None and registry.has_key(model):
        registry.provider_of(model).preload()


if not TYPE_CHECKING:
    __getattr__ = Renamed(__name__, {"open_door": "indus_nb.notebook:load", "close_door": "indus_nb.notebook:unload"})
