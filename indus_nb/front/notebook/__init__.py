"""The notebook's interface: ``%load_ext indus_nb`` brings ``%agent`` and ``%%agent``.

Loading imports only the watcher of the user's cells: the rest follows in the background, or with the first use.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from indus_nb.base.errors import (
    CredentialsError,
    IndusError,
    ModelNotFoundError,
    RunFailedError,
    SessionLockedError,
    UsageError,
)
from indus_nb.front.notebook.cells.failed_cells import ErrorHint
from indus_nb.front.notebook.magic import QuietStatements, help_text, install_completion, literal_lines
from indus_nb.front.notebook.panel import defaults
from indus_nb.front.notebook.preloading import importing, preload_in_steps
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.run.watch import Watch

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from indus_nb.core.session.session import AgentSession
    from indus_nb.front.notebook.conversations import Conversations
    from indus_nb.kernel.toolset.lending import Lent


class _Loaded:
    """State of the extension in one shell: cells are watched at once, conversations are made on first use."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.watch = Watch(shell)
        self.stop_completing: Callable[[], None] = install_completion(
            shell, self._session, self._complete_command, self._names
        )
        self.quiet = QuietStatements()
        self._cells = CellIds(shell)
        self._hint = ErrorHint(shell)
        self._conversations: Conversations | None = None
        self.stop_preloading = preload_in_steps(
            widgets=hasattr(shell, "kernel"), cell_runs=lambda: self.watch.main.busy
        )

    def conversations(self, shell: InteractiveShell) -> Conversations:
        if self._conversations is None:
            with importing:
                from indus_nb.front.notebook.conversations import Conversations

            self._conversations = Conversations(shell, self.watch, self._cells)
        return self._conversations

    def close(self) -> None:
        """Stop watching the user's cells, and close the sessions."""
        self.watch.close()
        self._cells.close()
        self._hint.close()
        if self._conversations is not None:
            self._conversations.close()

    def _session(self) -> AgentSession | None:
        return None if self._conversations is None else self._conversations.session

    def _names(self) -> Sequence[str]:
        return () if self._conversations is None else self._conversations.names

    def _complete_command(self, name: str, typed: str) -> Sequence[str]:
        return () if self._conversations is None else self._conversations.complete_command(name, typed)


_HINTS: dict[type[IndusError], str] = {
    SessionLockedError: " If that is another notebook's kernel, shut it down there; `%agent --new` starts another one.",
    ModelNotFoundError: " `%agent model` lists those that can be used here.",
    CredentialsError: " One set in a cell counts at once: `import os, getpass; os.environ[NAME] = getpass.getpass()`.",
}


_loaded: WeakKeyDictionary[InteractiveShell, _Loaded] = WeakKeyDictionary()


def conversations_of(shell: InteractiveShell) -> Conversations:
    """Return the conversations of a shell's magics.

    The magics are registered if they are not yet.
    """
    if shell not in _loaded:
        load(shell)
    return _loaded[shell].conversations(shell)


def lend(shell: InteractiveShell) -> Lent | None:
    """Return the parts of the extension that programs attached to a kernel use.

    ``None`` where it is not loaded.
    """
    if shell not in _loaded:
        return None
    from indus_nb.kernel.toolset.lending import Lent

    return Lent(conversations_of(shell).kernel)


def serve(wanted: str = "") -> None:
    """Offer the tools of this kernel to other agents over MCP, as ``%agent serve`` does.

    Args:
        wanted: ``stop``, ``status``, or which calls to ask about: ``--approve`` and its mode.

    Raises:
        UsageError: No IPython runs here, or it is not possible.
    """
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise UsageError("There is no kernel here that could be served: call this in a notebook.")
    conversations_of(shell).serve(f"serve {wanted}".strip())


def load(shell: InteractiveShell) -> None:
    """Register the magics with a shell.

    What the first prompt will need is imported in the background.
    """
    from IPython.core.magic import no_var_expand

    loaded = _Loaded(shell)
    answers = _answers_not_displayed(shell)

    @no_var_expand
    def agent(line: str, cell: str | None = None) -> Any:
        """Ask the agent; `%agent help` shows how."""
        try:
            answers[:] = [loaded.conversations(shell).serve(line, cell)]
        except IndusError as error:
            from indus_nb.base.files import without_home
            from indus_nb.base.terminal import plain
            from indus_nb.front.notebook.view.transcript import advice

            hint = next((text for kind, text in _HINTS.items() if isinstance(error, kind)), advice(str(error)))
            text = plain(f"{without_home(str(error))}{hint}")
            error.args = (text,)  # the notebook keeps this, and shows what is rendered below
            # One that code may catch has its name; what cannot be done is a sentence.
            shown = f"{type(error).__name__}: {text}" if isinstance(error, RunFailedError) else text
            # IPython shows what this returns instead of a traceback into this package.
            error.__dict__["_render_traceback_"] = lambda: [shown]
            raise
        return answers[0]

    # IPython asks for this before it looks at the docstring: the table of options is imported when it is needed.
    agent.__dict__["getdoc"] = help_text
    manager: Any = shell.magics_manager  # its annotations are incomplete
    manager.register_function(agent, magic_kind="line_cell", magic_name="agent")
    shell.input_transformers_cleanup.append(literal_lines)
    shell.ast_transformers.append(loaded.quiet)
    atexit.register(loaded.close)
    _loaded[shell] = loaded


def _answers_not_displayed(shell: Any) -> list[Any]:
    """Return a list for the newest answer, which the rest of this cell does not display as its value.

    What the cell that loads the extension displays was settled before it ran. What a variable holds is displayed.
    """
    answers: list[Any] = []
    display = sys.displayhook
    if display is not shell.displayhook:  # no cell runs
        return answers

    def display_others(value: object) -> None:
        if not any(value is answer for answer in answers) or any(value is held for held in shell.user_ns.values()):
            display(value)

    sys.displayhook = display_others  # the shell's own is there again for the next cell
    return answers


def unload(shell: InteractiveShell) -> None:
    """Unregister the magics, and close the sessions."""
    from indus_nb.kernel.run.main_thread import work_here

    if work_here() is not None:
        raise UsageError("The agent's own code cannot unload the agent. Ask the user to do it.")
    loaded = _loaded.pop(shell, None)
    if loaded is None:
        return
    loaded.stop_completing()
    loaded.stop_preloading()
    manager: Any = shell.magics_manager
    for magics in manager.magics.values():
        magics.pop("agent", None)
    if literal_lines in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(literal_lines)
    if loaded.quiet in shell.ast_transformers:
        shell.ast_transformers.remove(loaded.quiet)
    atexit.unregister(loaded.close)
    loaded.close()


def _defaults() -> defaults.Defaults | None:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    conversations = conversations_of(shell)
    return defaults.Defaults(
        conversations.thread, conversations.comm_gate(), conversations.surroundings, conversations.taking_back
    )


defaults.provide(_defaults)
