"""The notebook's interface: ``%load_ext indus_nb`` brings ``%agent`` and ``%%agent``.

Loading imports only the watcher of the user's cells: the rest follows in the background, or with the first use.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from indus_nb.base import front_end, own_imports
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
from indus_nb.front.notebook.page.comm_gate import DOOR
from indus_nb.front.notebook.panel import defaults
from indus_nb.front.notebook.preloading import importing, preload_in_steps
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.run.control_channel import ControlRequests, Reply
from indus_nb.kernel.run.main_thread import work_here
from indus_nb.kernel.run.watch import Watch

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from indus_nb.core.session.session import AgentSession
    from indus_nb.front.notebook.cells.rows_in_cell import RowsInCell
    from indus_nb.front.notebook.conversations import Conversations
    from indus_nb.front.notebook.door.door import Door
    from indus_nb.front.notebook.lent import Lender


class _InShell:
    """State of the package in one shell: cells are watched at once, conversations are made on first use.

    Nothing of it shows, so it also serves programs that attach to a kernel whose user has not loaded the extension.
    """

    def __init__(self, shell: InteractiveShell, *, in_cell: bool) -> None:
        self.watch = Watch(shell, in_cell=in_cell)
        self.magics: _Magics | None = None
        self._shell = shell
        self._process = os.getpid()
        self._cells = CellIds(shell)
        self._making = threading.Lock()
        self._made: Conversations | None = None
        self._requests: ControlRequests | None = None
        atexit.register(self.close)

    @property
    def conversations(self) -> Conversations:
        with self._making:
            if self._made is None:
                with importing:
                    from indus_nb.front.notebook.conversations import Conversations

                self._made = Conversations(self._shell, self.watch, self._cells)
            return self._made

    @property
    def made(self) -> Conversations | None:
        """Return the conversations, if there were any yet."""
        return self._made

    def lend(self) -> str:
        """Take requests of attached programs; what answers them is made in a thread."""
        if self._requests is not None:
            return self._requests.id
        lender: Future[Lender] = Future()

        def receive(content: dict[str, Any], reply: Reply) -> None:
            lender.add_done_callback(partial(_deliver, content, reply))

        main = self.watch.main
        self._requests = ControlRequests(getattr(self._shell, "kernel", None), receive, lambda: main.cell_runs)

        def make() -> None:
            try:
                lender.set_result(self.conversations.lender)
            except BaseException as error:  # noqa: BLE001 - it is raised where a request comes
                lender.set_exception(error)

        # In a copy of this context, for ipykernel 7.0 looks there for the message that a cell came with.
        threading.Thread(target=copy_context().run, args=(make,), name="indus_nb lending", daemon=True).start()
        return self._requests.id

    def reporter(self, shows: bool) -> RowsInCell | None:  # noqa: FBT001 - see `front_end.reporter`
        """Return the progress reporter of the cell that runs, which may show nothing in it.

        It is ``None`` for code that is not the cell's own, in a process that was forked from this one, and in a
        terminal in which nothing was asked yet.
        """
        if threading.current_thread() is not threading.main_thread() or work_here() is not None:
            return None
        if os.getpid() != self._process or (self._made is None and getattr(self._shell, "kernel", None) is None):
            return None
        return self.conversations.reporter(shows=shows)

    def usual_model(self) -> tuple[str, str] | None:
        """Return provider and id of the model of the conversation that a cell talks to by default."""
        model = None if self._made is None or self._made.session is None else self._made.session.model
        return None if model is None else (model.provider, model.id)

    def open_doors(self) -> None:
        """Take connections of the front-end extension; what answers them is made in a thread."""
        kernel: Any = getattr(self._shell, "kernel", None)
        kernel.comm_manager.register_target(DOOR, self._on_door)

    def _on_door(self, comm: Any, opened: dict[str, Any]) -> None:
        made: Future[Door] = Future()

        def receive(message: dict[str, Any]) -> None:
            made.add_done_callback(partial(_enter, message["content"]["data"]))

        def make() -> None:
            try:
                made.set_result(self.conversations.open_door(comm))
            except BaseException as error:  # noqa: BLE001 - the page is told
                made.set_exception(error)
                comm.close(data={"error": f"{type(error).__name__}: {error}"})

        comm.on_msg(receive)
        receive(opened)
        threading.Thread(target=copy_context().run, args=(make,), name="indus_nb door", daemon=True).start()

    def note_notebook(self, path: str) -> None:
        """Note which notebook the page shows that sends this request; its cells may come before its door."""
        if (client := self._cells.client) is not None:
            self._cells.paths[client] = path

    def has_door(self) -> bool:
        """Return whether the page that runs this cell shows it with the front-end extension."""
        return self._made is not None and self._made.has_door(self._cells.origin.client)

    def close(self) -> None:
        """Stop watching the user's cells, and close the sessions."""
        atexit.unregister(self.close)
        if self._requests is not None:
            self._requests.close()
        if self.magics is not None:
            self.magics.close()
            if front_end.reporter == self.reporter:
                front_end.reporter = front_end.usual_model = None
        self.watch.close()
        self._cells.close()
        if self._made is not None:
            self._made.close()


def _deliver(content: dict[str, Any], reply: Reply, made: Future[Lender]) -> None:
    if (error := made.exception()) is not None:
        reply({"do": "end", "error": f"The tools of this kernel cannot be used: {type(error).__name__}: {error}"})
    else:
        made.result().receive(content, reply)


def _enter(content: object, made: Future[Door]) -> None:
    if made.exception() is None:
        made.result().receive(content)


class _Magics:
    """What ``%load_ext`` adds to a shell, besides the magics themselves."""

    def __init__(self, shell: InteractiveShell, state: _InShell) -> None:
        self._state = state
        self._stop_completing: Callable[[], None] = install_completion(
            shell, self._session, self._complete_command, self._names, self._states
        )
        self.quiet = QuietStatements()
        self._hint = ErrorHint(shell, state.has_door)
        self._stop_preloading = preload_in_steps(
            widgets=hasattr(shell, "kernel"), cell_runs=lambda: state.watch.main.busy
        )

    def close(self) -> None:
        self._stop_completing()
        self._stop_preloading()
        self._hint.close()

    def _session(self) -> AgentSession | None:
        return None if self._state.made is None else self._state.made.session

    def _names(self) -> Sequence[str]:
        return () if self._state.made is None else self._state.made.names

    def _states(self) -> Mapping[str, str]:
        return {} if self._state.made is None else self._state.made.kernel.states.places()

    def _complete_command(self, name: str, typed: str) -> Sequence[str]:
        return () if self._state.made is None else self._state.made.complete_command(name, typed)


_HINTS: dict[type[IndusError], str] = {
    SessionLockedError: " If that is another notebook's kernel, shut it down there; `%agent --new` starts another one.",
    ModelNotFoundError: " `%agent model` lists those that can be used here.",
    CredentialsError: " `%agent key` asks for a key. One set in a cell counts at once: `import os, getpass; "
    "os.environ[NAME] = getpass.getpass()`.",
}


_BEGINS = "\N{HORIZONTAL ELLIPSIS} starting the agent"
_states: WeakKeyDictionary[InteractiveShell, _InShell] = WeakKeyDictionary()


def conversations_of(shell: InteractiveShell) -> Conversations:
    """Return the conversations of a shell's magics.

    The magics are registered if they are not yet.
    """
    if shell not in _states or _states[shell].magics is None:
        load(shell)
    return _states[shell].conversations


def lend(shell: InteractiveShell) -> str:
    """Offer this kernel's tools to attached programs, between cells; the user sees nothing of it.

    Returns:
        What names this kernel in their requests.

    Raises:
        AttributeError: The kernel cannot be asked while a cell runs: it is none of ipykernel.
    """
    own_imports.keep_out_working_directory()
    if shell not in _states:
        _states[shell] = _InShell(shell, in_cell=False)
    return _states[shell].lend()


def values_of_claims(expressions: str) -> str:
    """Look expressions of answers up in this kernel, in a copy of it: see `indus_nb.kernel.document.verifying`.

    Args:
        expressions: A list of texts, as JSON.

    Returns:
        A list of pairs of texts, as JSON: the value, and why there is none.
    """
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise UsageError("There is no kernel here.")
    wanted: list[str] = json.loads(expressions)
    found = conversations_of(shell).values_now(wanted)
    return json.dumps([(found[each].text, found[each].problem) for each in wanted])


def open_doors() -> None:
    """Have the kernel take the connections of the front-end extension, which calls this between cells.

    The magics are registered if they are not yet.

    Raises:
        UsageError: This is no kernel.
    """
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        raise UsageError("There is no kernel here that a page could connect to.")
    own_imports.keep_out_working_directory()
    if shell not in _states:
        _states[shell] = _InShell(shell, in_cell=False)
    load(shell)
    _states[shell].open_doors()


def note_notebook(path: str) -> None:
    """Say of which notebook the cells are that come over the connection of this request, before its door does.

    The front-end extension calls this in the request that loads the package: with several notebooks on one kernel,
    doors are opened over the connection of one of them, so that the cells of another one may overtake its door.

    Args:
        path: Where the notebook lies, below the directory of Jupyter's server.
    """
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None and shell in _states:
        _states[shell].note_notebook(path)


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


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Load what `%load_ext indus_nb` does, for the profile's line of `indus-nb setup --ipython`.

    By this other name, a notebook's own `%load_ext indus_nb` is not told by IPython that it is loaded already.
    """
    own_imports.keep_out_working_directory()
    load(shell)


def load(shell: InteractiveShell) -> None:
    """Register the magics with a shell.

    What the first prompt will need is imported in the background.
    """
    from IPython.core.magic import no_var_expand

    if shell not in _states:
        _states[shell] = _InShell(shell, in_cell=True)
    state = _states[shell]
    if state.magics is not None:
        return
    magics = state.magics = _Magics(shell, state)
    front_end.reporter, front_end.usual_model = state.reporter, state.usual_model
    answers = _answers_not_displayed(shell)

    @no_var_expand
    def agent(line: str, cell: str | None = None) -> Any:
        """Ask the agent; `%agent help` shows how."""
        try:
            _show_beginning(shell)
            answers[:] = [state.conversations.serve(line, cell)]
        except IndusError as error:
            from indus_nb.base.files import without_home
            from indus_nb.base.terminal import plain
            from indus_nb.front.notebook.view.transcript import advice
            from indus_nb.start.key_setup import managed

            provider = state.conversations.provider_without_key(error)
            kind = type(error) if provider is None else CredentialsError
            hint = next((text for known, text in _HINTS.items() if issubclass(kind, known)), advice(str(error)))
            if provider is not None and state.conversations.offer_key(provider):
                hint = f" {managed() or 'Or fill in the form above, and run this cell again.'}"
            said = without_home(str(error))
            stop = "." if hint and not said.endswith((".", "!", "?", ":")) else ""
            text = plain(f"{said}{stop}{hint}")
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
    shell.ast_transformers.append(magics.quiet)


def _show_beginning(shell: Any) -> None:
    """Show that the agent begins until the cell shows anything else, where the imports for that are still to be made.

    Only where a user looks at a page, and where nothing else of the cell's would be cleared with it.
    """
    kernel: Any = getattr(shell, "kernel", None)
    is_imported = hasattr(sys.modules.get("indus_nb.front.notebook.conversations"), "Conversations")
    if is_imported or kernel is None or "JPY_SESSION_NAME" not in os.environ:
        return
    content: dict[str, Any] = kernel.get_parent("shell").get("content", {})
    code = str(content.get("code", "")).strip()
    is_alone = code.startswith("%%agent") or (code.startswith("%agent") and "\n" not in code)
    if is_alone and content.get("allow_stdin"):
        shell.display_pub.publish({"text/plain": _BEGINS})
        shell.display_pub.clear_output(wait=True)


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
    state = _states.pop(shell, None)
    if state is None:
        return
    manager: Any = shell.magics_manager
    for magics in manager.magics.values():
        magics.pop("agent", None)
    if literal_lines in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(literal_lines)
    if state.magics is not None and state.magics.quiet in shell.ast_transformers:
        shell.ast_transformers.remove(state.magics.quiet)
    state.close()


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
