"""The conversations of one kernel, the one that a cell talks to, and the cells that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from indus_nb.base.errors import (
    CredentialsError,
    IndusError,
    Interrupted,
    RunFailedError,
    SessionBusyError,
    SessionLockedError,
    UsageError,
)
from indus_nb.base.files import current_directory
from indus_nb.base.installed import has_package, how_to_install
from indus_nb.base.messages import AssistantMessage, Attachment, ImageContent, TextContent, UserMessage, text_of
from indus_nb.base.mistyped import unknown_command
from indus_nb.base.terminal import plain
from indus_nb.base.textcut import counted, one_line_fit
from indus_nb.base.wire import JsonObject
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.core.resources.settings import agent_directory
from indus_nb.core.session.session import AgentSession, ApproveMode
from indus_nb.extend.definitions import agent
from indus_nb.front.notebook import actions
from indus_nb.front.notebook.cells.asked_rows import AskedRows
from indus_nb.front.notebook.cells.cell_dialogs import in_short
from indus_nb.front.notebook.cells.cell_run import CellRun, in_background
from indus_nb.front.notebook.cells.cell_turns import CellTurns, asking_cell
from indus_nb.front.notebook.cells.cell_work import (
    PAGE_SECONDS,
    UNDO_PAGE_SECONDS,
    VERIFYING_STOPPED,
    CellWork,
    Work,
    verified_in,
)
from indus_nb.front.notebook.cells.ended_runs import EndedRuns
from indus_nb.front.notebook.cells.failed_cells import prompt_about_error, prompt_about_shown_error
from indus_nb.front.notebook.cells.run_as_cells import cells_of_run, in_one_cell, insert_in
from indus_nb.front.notebook.cells.typed_answers import outcome, typed_answer
from indus_nb.front.notebook.cells.work_in_cells import WorkInCells
from indus_nb.front.notebook.checked_answers import CheckedAnswers
from indus_nb.front.notebook.day_cost import DayCost
from indus_nb.front.notebook.kept_answers import keep, keep_as_noted
from indus_nb.front.notebook.magic import COMMANDS, HELP, MAP_HELP, Command, Request, parse, unquoted_state
from indus_nb.front.notebook.notebooks import FIRST, Notebooks, UsedNotebook
from indus_nb.front.notebook.page.asking import ask_notebook
from indus_nb.front.notebook.page.comm_gate import CommGate
from indus_nb.front.notebook.place import live_place
from indus_nb.front.notebook.recorded import Recorded, not_resumed
from indus_nb.front.notebook.session_options import as_before, check_key, session_options
from indus_nb.front.notebook.taking_back import (
    Maker,
    StateWanted,
    StepsWanted,
    TakingBack,
    WantedT,
    asked_since,
    state_wanted,
    steps_wanted,
)
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.output import (
    Screen,
    asks_for_input,
    can_update,
    is_compared,
    is_dashboard,
    is_vs_code,
    screen_of,
)
from indus_nb.kernel.cell_ids import CellIds, Origin, asked_from
from indus_nb.kernel.claims import LiveRun
from indus_nb.kernel.document import NotebookTools
from indus_nb.kernel.document.pictures import image_of
from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.kernel.run.main_thread import work_here
from indus_nb.kernel.run.namespace import UserNamespace
from indus_nb.kernel.run.watch import Watch
from indus_nb.kernel.toolset.states import STATE
from indus_nb.kernel.toolset.undoing import ChangedSinceError, Undecided
from indus_nb.kernel.toolset.user_kernel import UserKernel
from indus_nb.kernel.values import filled_in
from indus_nb.kernel.values.interpolation import Computed
from indus_nb.models.cassettes.environment import environment_cassette, is_in_use
from indus_nb.start import SessionOptions, open_session

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer
    from indus_nb.core.session.questions import Decision, Question
    from indus_nb.front.notebook.beside_panels import PanelKernel
    from indus_nb.front.notebook.cells.rows_in_cell import RowsInCell
    from indus_nb.front.notebook.door.door import Door
    from indus_nb.front.notebook.door.messages import AskAboutError, Shows
    from indus_nb.front.notebook.lent import Lender
    from indus_nb.front.notebook.page.protocol import CellRequest
    from indus_nb.front.notebook.page.widget import AgentWidget
    from indus_nb.front.notebook.panel.chat_panel import ChatPanel
    from indus_nb.front.notebook.served import Served
    from indus_nb.kernel.claims.kept import Claim
    from indus_nb.kernel.claims.outdated import Show
    from indus_nb.render.live import LiveValue

T = TypeVar("T")
_ABORT_SECONDS = 5.0
_TAB_SECONDS = 2.0
_NO_WIDGETS = (
    "The packages of live cells and of the panel are not installed. For them: "
    f"{how_to_install('widgets')}, then restart the kernel and reload the page."
)
_MAX_PROMPT_CHARACTERS = 40
_ANSWERED = "No question waits any more. The agent goes on in its own cell."
_NO_QUESTION = "No question waits for an answer in a cell."
_NOTHING_CHANGED = "Nothing was changed."
_CELLS_ON = (
    "Code that changes something becomes cells from now on, not for this prompt alone. `%agent --no-cells` ends it."
)
_CELLS_OFF = "Code is shown in its card from now on, not for this prompt alone."
_BUSY = "The agent still works for another cell. `%agent steer TEXT` tells it more, `%agent abort` stops it."
_WAITS = (
    "The agent waits for your answer to “{}” `%agent answer` shows the question in a cell, and `%agent abort` stops it."
)


def _why_busy(session: AgentSession) -> str:
    """Say what goes on for another cell, which may wait for the user."""
    waiting = session.ui.headings()
    return _WAITS.format(in_short(waiting[0])) if waiting else _BUSY


def _check_command(request: Request, session: AgentSession) -> None:
    """Reject a slash command that neither is a sub-command nor one of the session's."""
    if session.last_text is None:
        return  # extensions have their commands from the first prompt on
    names = [*COMMANDS, *(each["name"] for each in session.list_commands())]
    if request.may_be_command and (problem := unknown_command(request.text, names)) is not None:
        raise UsageError(f"{problem} Nothing was sent. To say just that to the agent: `%agent -- {request.text}`.")


def _prompt_before(session: AgentSession | None, answer: str) -> str:
    """Return the first words of the prompt that was answered so last; empty where that is not known."""
    asked = found = ""
    for message in () if session is None else session.messages:
        if isinstance(message, UserMessage):
            asked = text_of(message.content)
        elif isinstance(message, AssistantMessage) and answer in _texts(message):
            found = asked
    return one_line_fit(plain(found), _MAX_PROMPT_CHARACTERS)


def _texts(answer: AssistantMessage) -> list[str]:
    return [block.text for block in answer.content if isinstance(block, TextContent)]


class Conversations:
    """Open conversations of one shell, which its magics talk to.

    A cell talks to the one of the last cell unless it names another.
    """

    def __init__(self, shell: Any, watch: Watch, cells: CellIds) -> None:
        """Create the registry, without a conversation."""
        self.thread: AgentThread = AgentThread()
        self._shell = shell
        self.kernel: UserKernel = UserKernel(shell, watch)
        self.taking_back: TakingBack = TakingBack(self.kernel, self.ask_page, self._maker, cells, self.thread.begin)
        self._journal = watch.journal
        self._front: Any = getattr(shell, "kernel", None)
        self._gate: CommGate | None = None
        self._making_gate = threading.Lock()
        self._sessions: dict[str, AgentSession] = {}
        self._recorded = Recorded()
        self._panels: dict[AgentSession, ChatPanel] = {}
        self._shown: list[AgentWidget] = []
        self._doors: dict[str, Door] = {}
        self._drawing: dict[str | None, bool] = {}
        """The connections whose pages have drawn a cell's widget, and whether they drew the last one in time."""
        self._explained: set[str | None] = set()
        """The connections whose users know why no live view appears."""
        self._ended = EndedRuns()
        self._followed: list[AgentSession] = []
        """The sessions that a cell follows."""
        steps = self.kernel.steps
        self._notebook = NotebookTools(
            *(shell, self.ask_page, self.insert_below, cells, steps.note_cell, steps.maker, self.kernel.made),
            lacks=self._lacks,
        )
        self.kernel.go_back = self.taking_back.for_model
        self.kernel.calls.asked_in = lambda: cells.origin.cell
        self.kernel.calls.open_notebooks = self._notebook.open_notebooks
        self._watch = watch
        self._namespace = UserNamespace(shell, watch.main)
        self._in_cells = WorkInCells(
            self.ask_page, cells, self.kernel.steps, self.kernel.outputs, self._notebook.run_of
        )
        self.kernel.carry_out = self._in_cells.carry_out
        self._answers = CheckedAnswers(
            self.kernel, self._namespace, self.thread, lambda: cells.origin.cell, lambda: shell.execution_count
        )
        self.taking_back.on_moved = self._answers.live.outdated.look_soon
        shell.events.register("post_run_cell", self._answers.look_after)
        self._notebook.live_values = self._answers.stated
        self._screen: Screen = screen_of(shell)
        self._notebooks = Notebooks(shell, cells, self._sessions)
        self.kernel.elsewhere = self._notebooks.elsewhere
        self._choosing = threading.RLock()
        """Held while a conversation is chosen: a cell and the extension may do that at once."""
        self._turns, self._cells = CellTurns(cells), cells
        self._rows = AskedRows(shell, self._refresh_doors)
        self._served: Served | None = None
        self._lender: Lender | None = None
        self._day_cost = DayCost(agent_directory() / "spent", self.thread, self._refresh_doors)

    @property
    def session(self) -> AgentSession | None:
        """Return the session that a cell talks to by default.

        It is ``None`` before the first.
        """
        return self._sessions.get(self._notebook_of_cell.conversation)

    @property
    def _notebook_of_cell(self) -> UsedNotebook:
        return self._notebooks.of(self._cells.client)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the open conversations."""
        return tuple(self._sessions)

    def serve(self, line: str, cell: str | None = None) -> Any:
        """Run a line or cell magic, and draw the result.

        Args:
            cell: The lines below it; ``None`` for a line magic.

        Returns:
            The text of the answer, or its value with ``--result``; ``None`` where none was waited for.

        Raises:
            Interrupted: The user ended it.
        """
        if work_here() is not None:
            raise UsageError("The agent's own code cannot talk to the agent: say it in the answer instead.")
        self._screen = screen_of(self._shell)
        request = parse(line, cell)
        if self._concerns_no_session(request):
            return None
        if request.rows is not None:
            from indus_nb.front.notebook.cells.rows_in_cell import SAMPLE_STOPPED, ask_rows

            session = self._session_of_cell(request)
            decide = partial(self._decide, session, stopped=SAMPLE_STOPPED) if self._can_ask else None
            return ask_rows(request.rows, session, self._shell, decide)
        self._check_word(request)
        answer = typed_answer(request, self._shell.user_ns)
        text, images = self._filled_in(request, evaluates=cell is None or request.values)
        session = self._session_of_cell(request)
        _check_command(request, session)
        if request.cells is not None:
            session.settings.cells = request.cells
            self._screen.show(blocks.notice(_CELLS_ON if request.cells else _CELLS_OFF), final=True)
        if (panel := self._panels.get(session)) is not None:
            panel.refresh()
        command = request.command
        if command is not None and (prompt := self._prompt_of(command, session)):
            return self._ask(session, request, prompt[0], images, answer, prompt[1])
        if command is not None:
            self._command(command, session)
        elif not request.wait and session.is_running and (text.strip() or images):
            self._ask_later(session, request, text, images)
        elif text.strip() or images:
            return self._ask(session, request, text, images, answer)
        else:
            self._screen.show(blocks.notice(actions.describe(session)), final=True)
        return None

    def _concerns_no_session(self, request: Request) -> bool:
        """Carry out a command that concerns no session; return whether it was one."""
        command = Command("help") if request.empty else request.command or Command("")
        match command.name:
            case "help" | "map":
                self._screen.show(blocks.listing(MAP_HELP if command == Command("map") else HELP), final=True)
            case "serve":
                self.serve_tools(command.argument)
            case "keep":
                with self._choosing:  # a panel's opening has decided by then whether it goes on with what was before
                    self._keep_as_noted(self._notebook_of_cell)
                    kept = keep(command.argument)
                self._screen.show(kept.bundle(), final=True)
            case _:
                return False
        return True

    def _check_word(self, request: Request) -> None:
        """Reject what probably is a mistyped sub-command, unless the model has asked something that it may answer."""
        session = self._sessions.get(request.name or self._notebook_of_cell.conversation)
        asked = session is not None and (session.last_text or "").rstrip("*_ \n").endswith("?")
        if request.doubt and not asked:
            raise UsageError(request.doubt)
        if unquoted := unquoted_state(request, self.kernel.states.places):
            raise UsageError(unquoted)
        if session is not None:
            _check_command(request, session)

    def _prompt_of(self, command: Command, session: AgentSession) -> tuple[str, Sequence[Attachment]] | None:
        """Return the prompt that a sub-command stands for, and what goes along with it; or ``None``."""
        if command.slashed and command.slashed.split()[0][1:] in [each["name"] for each in session.list_commands()]:
            return command.slashed, ()
        match command.name:
            case "fix" | "explain":
                words, along = prompt_about_error(command.name, self._journal)
                return words, [along]
            case "verify":
                work = partial(verified_in, self._notebook, session.store.session_id, fixes=bool(command.argument))
                verified = self._with_page(work, VERIFYING_STOPPED)
                if command.argument and not verified.is_good:
                    words, along = verified.prompt()
                    return words, [along]
            case _:
                pass
        return None

    def complete_command(self, name: str, typed: str) -> list[str]:
        """Complete the arguments of an extension's command.

        Args:
            name: The command's name, without its slash.

        Returns:
            The completions; none before there is a session.

        Raises:
            TimeoutError: The extension takes too long.
        """
        session = self.session
        if session is None:
            return []
        offers = self.thread.ask(partial(session.hooks.complete_command, name, typed), _TAB_SECONDS)
        return [str(offer["value"]) for offer in offers]

    def close(self) -> None:
        """Close the sessions' files and end the agent's thread; later calls fail."""
        if self._served is not None:
            with contextlib.suppress(Interrupted):
                self._run(partial(self._served.do, "stop"))
        if self._lender is not None:
            with contextlib.suppress(Interrupted):
                self._run(self._lender.close)
        for name in tuple(self._sessions):
            self._close_session(name)
        if self._gate is not None:
            self._gate.close()
        with contextlib.suppress(ValueError):
            self._shell.events.unregister("post_run_cell", self._answers.look_after)
            self._rows.close()
        self._day_cost.close()
        self.kernel.cells.switch(on=False)
        self.thread.close()

    async def ask_page(self, what: str, payload: Mapping[str, Any]) -> JsonObject | None:
        """Send a request to the pages of the notebook that it comes from: that page first, then others that share it.

        Returns:
            The first answer; ``None`` when no page gives one.
        """
        origin = self._cells.origin
        doors = sorted(self._doors.values(), key=lambda door: door.client == origin.client)
        return await ask_notebook([*self._shown, *doors], origin, what, payload)

    async def _lacks(self, cells: Mapping[str, str]) -> bool:
        """Return whether a page has not got cells that another one of the same notebook has, by ids and sources."""
        doors = [*self._doors.values()]
        paths = [door.path for door in doors]
        doors = [door for door in doors if door.path is not None and paths.count(door.path) > 1]
        lack: dict[str | None, set[bool]] = {}
        for door, answer in zip(doors, await asyncio.gather(*(door.request("cells") for door in doors)), strict=True):
            listed = None if answer is None or answer.get("shared") else answer.get("cells")
            if isinstance(listed, list):
                has = {each.get("id"): each.get("source") for each in cast("list[JsonObject]", listed)}
                lack.setdefault(door.path, set()).add(not cells.items() <= has.items())
        return {True, False} in lack.values()

    def insert_below(self, code: str) -> bool:
        """Insert a new cell with ``code`` below the one that waits.

        Returns whether one does.
        """
        inbox = self._watch.main.inbox
        if inbox is None:
            return False
        inbox.put(partial(self._shell.set_next_input, code, replace=False))
        return True

    # Doors

    def open_door(self, comm: Any) -> Door:
        """Return the door of a comm that the front-end extension has opened.

        Called in a thread of its own.
        """
        from indus_nb.front.notebook.door.door import Door

        door = self._doors[comm.comm_id] = Door(comm, self)
        gate = self.comm_gate()
        if gate is not None:
            gate.watch(comm.comm_id)
        comm.on_close(partial(self._door_closed, comm.comm_id))
        self.thread.begin(partial(self._forget_gone, door))
        return door

    async def _forget_gone(self, opened: Door) -> None:
        """Forget the doors of pages that are gone: one that is loaded again opens another."""
        others = [door for door in self._doors.values() if door is not opened]
        there = await asyncio.gather(*(door.is_there() for door in others))
        for door, is_there in zip(others, there, strict=True):
            if not is_there and self._doors.pop(door.comm_id, None) is not None:
                door.forget()
                if self._gate is not None:
                    self._gate.forget(door.comm_id)

    def _refresh_doors(self) -> None:
        for door in tuple(self._doors.values()):
            self.thread.call(door.refresh)

    def spent_today(self) -> float:
        """Return what requests of the user's kernels have cost today, in US dollars."""
        return self._day_cost.total()

    def _door_closed(self, comm_id: str, _: object) -> None:
        if (door := self._doors.pop(comm_id, None)) is not None:
            self.thread.call(door.close)
        if self._gate is not None:
            self._gate.forget(comm_id)

    def note_shown(self, shown: Shows, before: Shows | None) -> None:
        """Note of which notebook a connection is; see `Notebooks.note`. Called on the agent's thread."""
        used = self._notebooks.note(shown, before)
        if before is not None and before.path != shown.path:
            self.thread.begin(lambda: asyncio.to_thread(self._rename, used))

    def _rename(self, notebook: UsedNotebook) -> None:
        """Name a notebook's conversation as its file is called now."""
        with self._choosing:
            if not (before := self._notebooks.rename(notebook)):
                return
            name = notebook.conversation
            if (session := self._sessions.pop(before, None)) is not None:
                self._sessions[name] = session
                if session.store.name == before:
                    self._run(lambda: session.set_name(name))
        self._refresh_doors()

    def session_of(self, shown: Shows) -> AgentSession | None:
        """Return the open conversation of a notebook, or ``None``."""
        return self._sessions.get(self._notebooks.of(shown.client).conversation)

    def panel_of(self, shown: Shows) -> ChatPanel:
        """Return the chat panel of a notebook's conversation, which is opened if it is not open."""
        notebook = self._notebooks.of(shown.client)
        with self._choosing:
            session = self._chosen_session(parse("", None), notebook, resumes=True)
            notebook.sessions.note(session.store.path)
            is_open = session in self._panels
            panel = self._panel(session, Origin(client=shown.client))
            if notebook.beside and not is_open and not session.messages:
                panel.note(notebook.beside)  # what goes on is seen
            return panel

    def prompt_about_error(self, asked: AskAboutError) -> tuple[str, Attachment]:
        """Return the prompt about an error that a page shows, and what goes along with it for the model."""
        return prompt_about_shown_error(asked, self._journal)

    def variables(self) -> Mapping[str, str]:
        """Return the names of the user's variables, the newest last, each with the name of its class."""
        return self.surroundings.variables()

    def has_door(self, client: str | None) -> bool:
        """Return whether a page that runs cells over a connection shows them with the front-end extension."""
        return client is not None and any(door.client == client for door in [*self._doors.values()])

    def open_panel_of(self, session: AgentSession) -> ChatPanel | None:
        """Return the chat panel of a conversation, if there is one."""
        return self._panels.get(session)

    def ended_run(self, widget: str) -> JsonObject | None:
        """Return what a page is to be asked for the widget of a run that is over; see `EndedRuns.of`."""
        return self._ended.of(widget)

    async def cell_shown(self, cell_id: str) -> tuple[str, list[ImageContent]]:
        """Write a cell as the page that asks shows it, with its images."""
        return await self._notebook.cell_shown(cell_id)

    # A prompt

    def _filled_in(self, request: Request, *, evaluates: bool) -> tuple[str, list[ImageContent]]:
        """Return the prompt with values of the user's variables filled in, and its images."""

        def compute(placeholders: Sequence[str]) -> Mapping[str, Computed]:
            inbox = Inbox()
            with self._watch.main.serving(inbox):
                return self._drive(partial(self.kernel.compute, placeholders), inbox)

        text, hints = filled_in(request.text, self._shell.user_ns, compute, evaluates=evaluates)
        for hint in hints:
            self._screen.show(blocks.notice(hint), final=True)
        return text, [image_of(wanted, self._shell) for wanted in request.images]

    def _ask(
        self,
        session: AgentSession,
        request: Request,
        text: str,
        images: list[ImageContent],
        answer: FinalAnswer | None,
        along: Sequence[Attachment] = (),
    ) -> Any:
        inbox = Inbox() if request.wait else None
        notebook = self._notebook_of_cell
        session = self._recorded_one(session, request, notebook)
        run = CellRun(
            session,
            self.thread,
            self._screen,
            inbox=inbox if self._can_ask else None,
            asks=self._asks(request),
            max_cost=request.max_cost,
            max_turns=request.max_turns,
            timeout=request.timeout,
            insert=self._notebook.insert,
        )
        run.conversation = None if notebook.conversation == FIRST else notebook.conversation
        run.notebook_id = notebook.sessions.note(session.store.path)
        run.beside, notebook.beside = notebook.beside, ""
        run.plans = request.plan
        run.has_page = partial(self.has_door, self._cells.client)
        run.explained = self._explained if self._front is not None and is_vs_code(self._front) else None
        run.drawing, run.ended = self._drawing, self._ended
        run.fails_cell = request.wait
        run.outputs = None if self._front is None else self.kernel.outputs
        run.values_of = self._answers.live.lookup
        run.tracing = self._answers.tracing(session)
        live = run.widget = self._live(run.receive)
        if live is not None and (gate := self._gate) is not None:
            run.on_closed = partial(gate.forget, live.comm_id)
        execution = self._turns.running

        async def work() -> None:
            with self._following(session, request, live):
                session_id = session.store.session_id
                await actions.name_by_prompt(session, request.text, text)
                branches = self.kernel.settings.rerun == "branch"
                async with self._turns.turn(
                    session,
                    execution,
                    replaces=branches,
                    ran_empty=self._ran_empty,
                    anywhere=environment_cassette.kept is not None,
                ) as turn:
                    run.on_told, run.on_prompted = turn.note_told, turn.note_prompt
                    if turn.replaces:
                        self.kernel.variables.disown()
                        run.note_replaced(self.taking_back.command_since(session, session_id))
                    await run.work(text, images, answer, along=along)
            if request.output is not None and (answer is None or answer.is_given or inbox is None):
                self._shell.user_ns[request.output] = (
                    self._answers.live.filled(session.last_text) if answer is None else outcome(session, answer)
                )

        if inbox is None:
            self.thread.begin(partial(asked_from, self._cells.origin, partial(in_background, work, self._screen)))
            return None
        try:
            with self._watch.main.serving(inbox):
                self._drive(work, inbox)
        except SessionBusyError as error:
            raise SessionBusyError(_why_busy(session)) from error
        if run.stopped:
            message = "Stopped: the agent was told to end. What it did so far stays."
            raise Interrupted(message)
        return self._outcome(session, answer) if run.asked else None

    @contextlib.contextmanager
    def _following(self, session: AgentSession, request: Request, live: AgentWidget | None) -> Generator[None]:
        """Count a cell's run among those that go on, with its widget and with what of its answer is checked."""
        if live is not None:
            self._shown.append(live)
        self._followed.append(session)
        self._answers.wanted[session] = request.check
        try:
            yield
        finally:
            self._answers.wanted.pop(session, None)
            self._followed.remove(session)
            if live is not None:
                self._shown.remove(live)

    def _outcome(self, session: AgentSession, answer: FinalAnswer | None) -> Any:
        """Return what `outcome` does, with the values in a text."""
        found = outcome(session, answer)
        return self._answers.live.filled(found) if answer is None else found

    async def _ran_empty(self) -> bool:
        """Return whether the page that ran the cell says that it showed no output; where nothing is known, no."""
        origin = self._cells.origin
        for door in tuple(self._doors.values()):
            if door.client is not None and door.client == origin.client:
                answer = await door.request("ran_empty", cell=origin.cell)
                if answer is not None and answer.get("empty") is True:
                    return True
        return False

    @property
    def _can_ask(self) -> bool:
        if self._front is None:
            return sys.stdin is not None and sys.stdin.isatty()
        return asks_for_input(self._front)

    def _asks(self, request: Request) -> bool:
        return self._can_ask and (request.wait or self._front is not None)

    def _live(self, receive: Callable[[CellRequest], None]) -> AgentWidget | None:
        """Make a widget for this cell, or return ``None`` if no page can show it."""
        gate = self.comm_gate() if self._has_page else None
        if gate is None:
            return None
        from indus_nb.front.notebook.page.widget import AgentWidget

        live = AgentWidget("cell", receive, self.thread.call, self._cells.origin)
        gate.watch(live.comm_id)
        return live

    @property
    def _may_have_page(self) -> bool:
        """Return whether a page may be there that shows widgets if they can be made: consoles have none."""
        return self._front is not None and self._can_ask and can_update(self._front)

    @property
    def _has_page(self) -> bool:
        return self._may_have_page and has_package("anywidget")

    def comm_gate(self) -> CommGate | None:
        """Return the gate that delivers widget messages while a cell is busy.

        ``None`` if the kernel does not support it.
        """
        with self._making_gate:
            if self._gate is None and self._front is not None:
                self._gate = CommGate(self._front, self.thread.call)
        return self._gate if self._gate is not None and self._gate.mode != "none" else None

    def reporter(self, *, shows: bool) -> RowsInCell:
        """Return the progress reporter of a cell that asks for rows, which may show nothing in it."""
        from indus_nb.front.notebook.cells.rows_in_cell import RowsInCell

        begun = partial(self._rows.note, self._notebook_of_cell)
        rows = RowsInCell(self._shell, self._live, self.comm_gate, self.thread.call, shows=shows)
        rows.on_begun, rows.on_ended = begun, self._rows.forget
        return rows

    def asks_rows(self, shown: Shows) -> bool:
        """Return whether a cell of a notebook asks rows now."""
        return self._notebooks.of(shown.client) in self._rows

    def _drive(self, work: Callable[[], Coroutine[Any, Any, T]], inbox: Inbox) -> T:
        gate = self._gate
        work = partial(asked_from, self._cells.origin, work)
        if gate is None:
            return self.thread.drive(work, inbox)
        with gate.busy():
            return self.thread.drive(work, inbox, gate.pump if gate.mode == "pump" else None)

    # Sub-commands

    def _command(self, command: Command, session: AgentSession) -> None:
        from indus_nb.front.notebook.magic.subcommands import serve

        if (own := self._own_commands.get(command.name)) is not None:
            own(command, session)
            return
        session_id = session.store.session_id
        shown = self._drive(lambda: serve(command, session), Inbox())
        self._screen.show(shown.bundle(), final=True)
        if command.name in ("fork", "tree") and command.argument:
            since = self.taking_back.command_since(session, session_id)
            self._screen.show(blocks.notice(f"⚠ {since or blocks.OTHER_BRANCH}"), final=True)

    @cached_property
    def _own_commands(self) -> Mapping[str, Callable[[Command, AgentSession], None]]:
        """Return what carries out the sub-commands that concern more than the session."""
        return {
            "panel": self._show_panel,
            "cell": self._insert_code,
            "undo": self._undo,
            "redo": self._undo,
            "state": self._state,
            "answer": self._answer,
            "context": self._show_context,
            "key": self._ask_key,
            "claims": self._show_claims,
            "verify": lambda _command, _session: None,  # it was carried out, and needs no prompt
        }

    def values_now(self, expressions: Iterable[str]) -> dict[str, LiveValue]:
        """Return the values that expressions of answers have now; called on the main thread."""
        inbox = Inbox()
        with self._watch.main.serving(inbox):
            return self._drive(partial(self._answers.live.values_now, expressions), inbox)

    def _show_claims(self, command: Command, _: AgentSession) -> None:
        live = self._answers.live
        if command.argument == "drop":
            dropped = counted(live.claims.drop(), "value")
            self._screen.show(blocks.notice(f"Dropped {dropped} of answers; no variable is held for them."), final=True)
            return
        inbox = Inbox()
        with self._watch.main.serving(inbox):
            if command.argument:
                self._drive(live.check, inbox)
            shown = self._answers.table(self._asked)
        self._screen.show(shown, final=True)

    def _asked(self, claim: Claim) -> str:
        """Name the cell that asked for an answer with a value, or the prompt where that is not known."""
        found = ((name, each) for name, each in [*self._sessions.items()] if each.store.session_id == claim.session)
        name, session = next(found, ("", None))
        number = self._cells.number_of(claim.cell)
        what = f"In [{number}]" if number is not None else _prompt_before(session, claim.answer)
        return ", ".join(filter(None, (self._notebooks.file_of(claim.cell, name), what)))

    def _show_context(self, _: Command, session: AgentSession) -> None:
        from indus_nb.front.notebook.magic.told import going_along_in_short, told

        with self._watch.main.serving(Inbox()):  # as during a prompt: nothing of the user's runs
            untold = self.kernel.untold(session.store.newest_first())
        going_along = "" if untold is None else untold[0]
        rows = self._drive(lambda: told(session, going_along), Inbox())
        self._screen.show(blocks.table("What the model is told next.", rows), final=True)
        if going_along:
            self._screen.show(blocks.listing(going_along_in_short(going_along)), final=True)

    def _show_panel(self, _: Command, session: AgentSession) -> None:
        is_shown = self._front is not None and is_dashboard()
        if self._front is not None and not self._can_ask and not is_shown:
            self._screen.show(blocks.notice("The chat panel was left out: nobody is there to use it."), final=True)
            return
        if self._front is not None and not has_package("anywidget"):
            raise UsageError(_NO_WIDGETS)
        if not self._has_page and not is_shown:
            raise UsageError("A chat panel needs a notebook. Here `%agent PROMPT` is how to talk to the agent.")
        panel = self._panel(session, self._cells.origin)
        panel.shown_in(self._screen.show(panel.in_cell, final=True))
        panel.focus()

    def _panel(self, session: AgentSession, shown_in: Origin) -> ChatPanel:
        """Return the session's panel, made on first use; displayed again it is another view of the same."""
        panel = self._panels.get(session)
        if panel is None:
            if not has_package("anywidget"):
                raise UsageError(_NO_WIDGETS)
            from indus_nb.front.notebook.panel.chat_panel import ChatPanel

            panel = self._panels[session] = ChatPanel(
                session,
                thread=self.thread,
                gate=self.comm_gate(),
                outputs=self.kernel.outputs,
                undo=self.taking_back,
                surroundings=self.surroundings,
                shown_in=shown_in,
            )
            panel.page.on_closed = partial(self._forget_panel, session, panel)
            self._shown.append(panel.page)
            self._refresh_doors()
        return panel

    def _forget_panel(self, session: AgentSession, panel: ChatPanel) -> None:
        """Close a panel whose widget a page has removed, as one does that knows none; the next page gets another."""
        if self._panels.get(session) is panel:
            del self._panels[session]
            self._shown.remove(panel.page)
        panel.close()  # and that page is told of no other one: it would remove that, too

    @cached_property
    def surroundings(self) -> PanelKernel:
        """Return the kernel's interface for panels."""
        from indus_nb.front.notebook.beside_panels import PanelKernel

        kernel = PanelKernel(
            self._namespace, self._watch.journal, self._notebook, self.taking_back, self.kernel.compute
        )
        kernel.note_session, kernel.check_prompt = self._note_session, self.check_recorded
        kernel.values_of, kernel.values_in = self._answers.live.lookup, self._answers.live.history
        kernel.tracing = self._answers.tracing
        kernel.watch_values, kernel.check_values = self.watch_values, self.check_values
        return kernel

    def _note_session(self, session: AgentSession) -> str | None:
        """Record which session the notebook that talks to it uses now; return the notebook's id."""
        name = next((name for name, each in self._sessions.items() if each is session), FIRST)
        return self._notebooks.talking_to(name).sessions.note(session.store.path)

    @property
    def lender(self) -> Lender:
        """Return the tools of this kernel for attached programs."""
        if self._lender is None:
            from indus_nb.front.notebook.lent import Lender

            self._lender = Lender(self.thread, self.kernel, self._notebook, self.taking_back)
        return self._lender

    def serve_tools(self, wanted: str = "") -> None:
        """Serve the tools of this kernel to other programs, and show the address.

        Args:
            wanted: ``stop``, ``status``, or which calls to ask about (``--approve MODE``); empty for the usual ones.

        Raises:
            UsageError: It is not possible here.
        """
        from indus_nb.front.notebook.served import Served

        served = self._served = self._served or Served(self.kernel, self._notebook)
        before = served.session
        self._screen.show(blocks.answer(self._drive(lambda: served.do(wanted), Inbox())), final=True)
        if served.session is None:
            if before is not None and (shown := self._panels.pop(before, None)) is not None:
                self._shown.remove(shown.page)  # it ends with its session, and shows what was done
        elif wanted != "status" and self._has_page:
            panel = self._panel(served.session, self._cells.origin)
            self.thread.call(partial(panel.page.set, log=True))
            panel.shown_in(self._screen.show(panel.in_cell, final=True))

    def _ask_key(self, _: Command, session: AgentSession) -> None:
        if self.offer_key():
            return
        if not self._can_ask:
            raise UsageError("Nobody is there to type a key: set the provider's variable before the kernel starts.")
        from indus_nb.start.asking_key import ask_and_take

        taken = ask_and_take(session, lambda work: self.thread.drive(work, Inbox()))
        self._screen.show(blocks.notice(taken.text), final=True)

    def provider_without_key(self, error: IndusError) -> str | None:
        """Return the provider that an error wants a key for; ``None`` for an error about something else."""
        if isinstance(error, CredentialsError):
            return error.provider
        if not isinstance(error, RunFailedError) or (session := self.session) is None or session.model is None:
            return None
        from indus_nb.start.key_setup import needs_key

        return session.model.provider if needs_key(session) else None

    def offer_key(self, provider: str = "") -> bool:
        """Show a form for a key in the cell that runs, if a page may show it.

        Args:
            provider: The one to begin with; empty for the first.

        Returns:
            Whether it is shown.
        """
        gate = self.comm_gate() if self._has_page else None
        if gate is None:
            return False
        from indus_nb.front.notebook.key_form import KeyCell

        form = KeyCell(self.thread.call, lambda: self.session, self._cells.origin)
        form.widget.on_closed = partial(gate.forget, form.widget.comm_id)
        gate.watch(form.widget.comm_id)
        form.show(self._screen, provider)
        return True

    def watch_values(self, show: Show, /) -> Callable[[], None]:
        """Have the values in answers shown that do not hold, until what this returns is called."""
        return self._answers.live.outdated.watch(show)

    async def check_values(self) -> None:
        """Compute the stale values of answers again; raises ``UsageError`` while a cell of the user's runs."""
        await self._answers.live.check()

    def _maker(self, session_id: str) -> Maker | None:
        found = (pair for pair in [*self._sessions.items()] if pair[1].store.session_id == session_id)
        return next(((self._notebooks.named(name), session) for name, session in found), None)

    def _undo(self, command: Command, session: AgentSession) -> None:
        """Undo or redo the changes of the agent's calls."""
        verb: Literal["undo", "redo"] = "redo" if command.name == "redo" else "undo"
        self._run(session.start)  # which restores the steps of earlier kernels
        if command.argument == "list":

            async def show(cell: CellWork) -> None:
                cell.left = blocks.table(*await self.taking_back.listed(session, verb))

            self._with_page(show, asks=self.taking_back.lists_cells(session, verb))
            return
        wanted = self.taking_back.meant(session, steps_wanted(verb, command.argument))
        done = "Taken back" if verb == "undo" else "Done once more"

        async def move(wanted: StepsWanted, agreed: Undecided | None) -> MimeBundle:
            moved = await self.taking_back.move(session, wanted, agreed)
            return blocks.notice(f"{done}: {moved}. `%agent {wanted.inverse}` turns that around.")

        self._moving(session, move, wanted, lambda: self.taking_back.needs_page(session, wanted))

    def _state(self, command: Command, session: AgentSession) -> None:
        """Save, list, compare or forget named states, or go to one."""
        wanted = state_wanted(command.argument)

        async def do(wanted: StateWanted, agreed: Undecided | None) -> MimeBundle:
            return blocks.table(*(await self.taking_back.state(session, wanted, agreed)))

        self._run(session.start)
        self._moving(session, do, wanted, lambda: self.taking_back.state_needs_page(wanted))

    def _answer(self, _: Command, session: AgentSession) -> None:
        """Ask what waits for an answer, in another conversation if in this one nothing does."""
        if not self._can_ask:
            raise UsageError("Nobody is there to answer in this cell.")
        asking = next((each for each in (session, *self._sessions.values()) if each.ui.open_dialogs), session)

        async def ask(cell: CellWork) -> None:
            asked = await cell.ask_open(asking.ui, self.thread)
            cell.left = blocks.notice(_ANSWERED if asked else _NO_QUESTION)

        self._with_page(ask, asks=bool(asking.ui.open_dialogs))

    def _moving(
        self,
        session: AgentSession,
        move: Callable[[WantedT, Undecided | None], Coroutine[Any, Any, MimeBundle]],
        wanted: WantedT,
        needs_page: Callable[[], bool],
    ) -> None:
        """Move steps; ask what becomes of what was changed since, as `asked_since`, where the user can be asked.

        Args:
            move: Returns what the cell shows then.
        """

        async def attempt(cell: CellWork) -> ChangedSinceError | None:
            try:
                cell.left = await move(wanted, None)
            except ChangedSinceError as error:
                if not self._can_ask:
                    raise
                return error
            return None

        async def ask(cell: CellWork) -> None:
            choose = partial(cell.ask_first, session.ui, self.thread, _NOTHING_CHANGED)
            if (left := await asked_since(choose, move, wanted, since)) is None:
                raise UsageError(_NOTHING_CHANGED)
            cell.left = left

        # What follows the answer goes with the question: a page that was loaded meanwhile knows its widget alone.
        if since := self._with_page(attempt, asks=needs_page(), wait=UNDO_PAGE_SECONDS):
            self._with_page(ask, wait=UNDO_PAGE_SECONDS if needs_page() else PAGE_SECONDS)

    def _insert_code(self, command: Command, session: AgentSession) -> None:
        """Insert the code that the agent ran since the last prompt as cells below."""
        made = cells_of_run(session, self.kernel.outputs)
        if not made.cells:
            raise UsageError(
                "Since your last prompt the agent has run no code in your kernel that ended well and is not in cells."
            )
        made = made if command.argument else in_one_cell(made)
        self._with_page(partial(insert_in, self._notebook, made, asking_cell(session)))

    def _with_page(self, work: Work[T], stopped: str = "", *, asks: bool = True, wait: float = PAGE_SECONDS) -> T:
        """Run work that ``asks`` the page, and show a widget for it meanwhile."""
        inbox = Inbox()
        cell = CellWork(self._screen, self._live if asks else lambda _: None, inbox, self._ended, stopped, wait)
        try:
            with self._watch.main.serving(inbox):
                return cell.run(lambda do: self._drive(do, inbox), work, self._shown)
        finally:
            if cell.comm_id is not None and self._gate is not None:
                self._gate.forget(cell.comm_id)

    def _decide(self, session: AgentSession, question: Question, *, stopped: str = _NOTHING_CHANGED) -> Decision:
        """Ask a question in the running cell, as those of the conversation's runs; see `CellWork.ask`."""
        return self._with_page(lambda cell: cell.ask(session.ui, question, self.thread), stopped)

    # Which session

    def _ask_later(self, session: AgentSession, request: Request, text: str, images: list[ImageContent]) -> None:
        """Queue a prompt of ``--no-wait`` behind the current run, whose view shows the answer."""
        own = (request.output, request.result, request.max_cost, request.max_turns, request.timeout)
        own += (request.plan or None, request.check)
        if any(each is not None for each in own):
            raise SessionBusyError(_why_busy(session))
        self._run(lambda: session.follow_up(text, images))
        note = "Queued: the agent still works, and is told this when it has finished. `%agent queue` shows what waits."
        self._screen.show(blocks.notice(note), final=True)

    def _session_of_cell(self, request: Request) -> AgentSession:
        with self._choosing:
            return self._chosen_session(request, self._notebook_of_cell, resumes=self._can_ask)

    def _chosen_session(self, request: Request, notebook: UsedNotebook, *, resumes: bool) -> AgentSession:
        """Return the conversation that is asked for, which is the notebook's from then on.

        Args:
            resumes: Whether the conversation that the notebook had may be gone on with.
        """
        self._keep_as_noted(notebook)
        name = request.name or notebook.conversation
        session = self._sessions.get(name)
        elsewhere = request.session is not None or request.continue_last or request.no_session
        if session is None or elsewhere or request.new:
            is_first = session is None and not (elsewhere or request.new or (request.name and self._sessions))
            resumed = self._resumed(name, request, notebook, resumes=resumes) if is_first else None
            session = resumed or self._open(name, request, notebook)
            notebook.conversation = name
            self._refresh_doors()
            return session
        if request.tools is not None:
            raise UsageError("The tools are chosen when a conversation starts: add --new to start one with --tools.")
        if request.sandbox not in (None, session.settings.sandbox):
            raise UsageError("The sandbox is chosen when a conversation starts: add --new to start one with --sandbox.")
        if notebook.conversation != name:
            notebook.conversation = name
            self._refresh_doors()
        if session.model is None:
            self._run(session.models.choose_if_none)
        if any(changes := (request.model, request.provider, request.thinking)):
            self._run(partial(actions.change_model, session, *changes))
        if request.approve is not None:
            session.settings.approve = cast("ApproveMode", request.approve)
        if request.trust is not None and session.trusting.project is not None:
            self._run(lambda: session.trusting.decide("session" if request.trust else "ignore"))
        return session

    def _keep_as_noted(self, notebook: UsedNotebook) -> None:
        """Keep answers where the notebook's metadata name a file for them, from its first line for the agent on."""
        if not notebook.is_read:
            notebook.is_read = True
            ran = getattr(self._shell.history_manager, "input_hist_raw", ())
            if said := keep_as_noted(notebook.sessions.kept_answers(current_directory(), ran)):
                self._say(said, notebook)

    def _recorded_one(self, session: AgentSession, request: Request, notebook: UsedNotebook) -> AgentSession:
        """Return the session for a prompt: a new one if it was opened before the cassette that is in use."""
        if self._recorded.admits(session):
            return session
        if (notice := self._recorded.replaced(session)) is not None:
            notebook.beside = ""  # which may say that it goes on
            self._say(notice, notebook)
        again = replace(request, no_session=request.no_session or session.store.path is None)
        with self._choosing:
            return self._open(request.name or notebook.conversation, again, notebook)

    def check_recorded(self, session: AgentSession) -> None:
        """Reject a prompt of a page to a session that was opened before the cassette; see `Recorded.check`."""
        self._recorded.check(session)

    def _resumed(self, name: str, request: Request, notebook: UsedNotebook, *, resumes: bool) -> AgentSession | None:
        """Resume the notebook's own conversation if a user is there who may object; else show which it has."""
        last = notebook.sessions.last()
        open_as = next((other for other, each in self._sessions.items() if each.store.path == last), None)
        resumed = notebook.sessions.resumed() if resumes and open_as is None and not is_in_use() else None
        if resumed is not None:
            with contextlib.suppress(SessionLockedError):  # another kernel talks in it
                session = self._open(name, replace(request, continue_last=True), notebook)
                self._recorded.note_resumed(session)
                self._say(resumed, notebook)
                return session
        if (offer := notebook.sessions.offer(open_as)) is not None:
            self._say(not_resumed(offer), notebook)
        return None

    def _say(self, text: str, notebook: UsedNotebook) -> None:
        """Show a sentence that is another one each time: beside the next answer, where outputs are kept in a file.

        So also what a panel's opening has found, which the first cell after it would not find again.
        """
        if is_compared(self._screen) or threading.current_thread() is not threading.main_thread():
            plain_text = text.replace("`", "")  # it is no Markdown there
            notebook.beside = " ".join(filter(None, (notebook.beside, plain_text)))
        else:
            self._show_notice(text)

    def _show_notice(self, text: str) -> None:
        """Show a sentence in the cell that runs; a panel, which opens conversations too, has its own place for it."""
        if threading.current_thread() is threading.main_thread():
            self._screen.show(blocks.notice(text), final=True)

    def _open(self, name: str, request: Request, notebook: UsedNotebook) -> AgentSession:
        """Open another conversation: with the tools chosen before, a new one also with that model and thinking.

        Whether it works in cells is as the notebook's own one before has it, and no other notebook's.
        """
        previous = self._sessions.get(name)
        own = previous or self._sessions.get(notebook.conversation)
        like = own or self.session  # a panel may open it while the last cell was another notebook's
        if previous is not None and previous.is_running:
            raise SessionBusyError(
                "The agent still works in this conversation. `%agent abort` stops it; --name NAME starts another one."
            )
        live = LiveRun(self._answers.live)
        options = session_options(
            request,
            notebook.sessions.last() if request.continue_last else None,
            like,
            [self.kernel, self._notebook, self._in_cells, live],
            [*self.kernel.tools, STATE, *self._notebook.tools, *agent.tool_names],
            live_place(notebook.sessions.notebook, in_terminal=self._front is None),
            self._recorded.restored(like),
        )
        session = self._opened(name, options)
        self._answers.watch(live, session)
        if own is not None:
            session.settings.cells = own.settings.cells
        if session.settings.jobs is not None:
            session.settings.jobs.starts_turn = lambda: session in self._panels or session in self._followed
        session.models.preload()
        self._sessions[name] = session
        if name != FIRST and session.store.name is None:
            self._run(lambda: session.set_name(name))
        asked_later = session.trusting.asked_later if self._asks(request) else None
        problems = [problem for problem in session.problems if problem != asked_later]
        if like is None and self._may_have_page and not self._has_page:
            problems.append(_NO_WIDGETS)
        for problem in problems:
            self._show_notice(problem)
        self._refresh_doors()
        return session

    def _opened(self, name: str, options: SessionOptions) -> AgentSession:
        """Open the requested session, and close the one that had its name."""
        try:
            session = self._begun(options)
        except SessionLockedError as error:
            ours = [other for other, open_one in self._sessions.items() if open_one.store.path == error.path]
            if not ours:
                raise
            if ours != [name]:
                raise UsageError(f"That conversation is open here: talk to it with --name {ours[0]}.") from error
            return self._open_anew(name, options)
        self._check_key(session, options)
        self._close_session(name)
        return session

    def _begun(self, options: SessionOptions) -> AgentSession:
        cassette = environment_cassette.number()  # as it is before: one that comes meanwhile is not what it began with
        session = _watched(options)
        self._recorded.note(session, cassette)
        return session

    def _check_key(self, session: AgentSession, options: SessionOptions) -> None:
        """Close a session whose model was asked for and has no key: it would be the one of all later cells."""
        try:
            check_key(session, options)
        except CredentialsError:
            self._run(partial(_end, session))
            raise

    def _open_anew(self, name: str, options: SessionOptions) -> AgentSession:
        """Reopen an open conversation with other options, or as it was if they are rejected."""
        previous = self._sessions[name]
        before = as_before(previous, options)
        self._close_session(name)
        try:
            session = self._begun(options)
            self._check_key(session, options)
        except BaseException:
            self._sessions[name] = self._begun(before)
            raise
        return session

    def _close_session(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            panel = self._panels.pop(session, None)
            if panel is not None:
                panel.close()
                self._shown.remove(panel.page)
            # On the agent's loop, where what extensions started lives.
            with contextlib.suppress(Interrupted):
                self._run(partial(_end, session))

    def _run(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self.thread.drive(work, Inbox())


def _watched(options: SessionOptions) -> AgentSession:
    """Open a session, whose answers are watched by those of its extensions that can do so."""
    session = open_session(options)
    session.watchers += [each for each in options.extensions if isinstance(each, RunWatcher)]
    return session


async def _end(session: AgentSession) -> None:
    """Abort a session's run and close it, keeping the conversation so far."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ABORT_SECONDS):
            await session.abort()
    await session.end()
