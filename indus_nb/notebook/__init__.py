"""The notebook's interface: ``%load_ext indus_nb`` brings ``%agent`` and ``%%agent``.

Loading imports what watches the user's cells, and no more: the rest follows in the background, or with the first use.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from indus_nb._moved import Renamed
from indus_nb.errors import IndusError, ModelNotFoundError, UsageError
from indus_nb.notebook.cell_ids import CellIds
from indus_nb.notebook.kernel.watch import Watch
from indus_nb.notebook.magic import install_completion, literal_lines
from indus_nb.notebook.page import defaults
from indus_nb.notebook.preloading import preload_in_steps

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from indus_nb.notebook.conversations import Conversations
    from indus_nb.notebook.kernel.agent_thread import AgentThread
    from indus_nb.notebook.page.comm_gate import CommGate
    from indus_nb.session.session import AgentSession


class _Loaded:
    """What a shell has of the extension: its cells are watched at once, its conversations made when they are used."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.watch = Watch(shell)
        self.stop_completing: Callable[[], None] = install_completion(shell, self._session, self._complete_command)
        self._cells = CellIds(shell)
        self._conversations: Conversations | None = None

    def conversations(self, shell: InteractiveShell) -> Conversations:
        if self._conversations is None:
            from indus_nb.notebook.conversations import Conversations

            self._conversations = Conversations(shell, self.watch, self._cells)
        return self._conversations

    def close(self) -> None:
        """Stop watching the user's cells, and close the sessions."""
        self.watch.close()
        self._cells.close()
        if self._conversations is not None:
            self._conversations.close()

    def _session(self) -> AgentSession | None:
        return None if self._conversations is None else self._conversations.session

    def _complete_command(self, name: str, typed: str) -> Sequence[str]:
        return () if self._conversations is None else self._conversations.complete_command(name, typed)


_loaded: WeakKeyDictionary[InteractiveShell, _Loaded] = WeakKeyDictionary()


def conversations_of(shell: InteractiveShell) -> Conversations:
    """Return what the magics of a shell talk to.

    They are registered if they are not yet.
    """
    if shell not in _loaded:
        load(shell)
    return _loaded[shell].conversations(shell)


def load(shell: InteractiveShell) -> None:
    """Register the magics with a shell.

    What the first prompt will need is imported in the background.
    """
    from IPython.core.magic import no_var_expand

    loaded = _Loaded(shell)

    @no_var_expand
    def agent(line: str, cell: str | None = None) -> None:
        """Ask the agent; `%agent help` shows how."""
        try:
            loaded.conversations(shell).serve(line, cell)
        except IndusError as error:
            hint = " `%agent model` lists those that can be used here." if isinstance(error, ModelNotFoundError) else ""
            shown = f"{type(error).__name__}: {error}{hint}"
            # IPython shows what this returns instead of a traceback into this package.
            error.__dict__["_render_traceback_"] = lambda: [shown]
            raise

    manager: Any = shell.magics_manager  # its annotations are incomplete
    manager.register_function(agent, magic_kind="line_cell", magic_name="agent")
    shell.input_transformers_cleanup.append(literal_lines)
    atexit.register(loaded.close)
    _loaded[shell] = loaded
    preload_in_steps(widgets=hasattr(shell, "kernel"), cell_runs=lambda: loaded.watch.main.busy)


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
    if literal_lines in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(literal_lines)
    atexit.unregister(loaded.close)
    loaded.close()


def _thread_and_gate() -> tuple[AgentThread, CommGate | None]:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        raise UsageError("A chat panel needs a notebook. Elsewhere use `%agent`, or the session itself.")
    conversations = conversations_of(shell)
    return conversations.thread, conversations.comm_gate()


defaults.provide(_thread_and_gate)


if not TYPE_CHECKING:
    __getattr__ = Renamed(__name__, {"open_door": "indus_nb.notebook:load", "close_door": "indus_nb.notebook:unload"})
