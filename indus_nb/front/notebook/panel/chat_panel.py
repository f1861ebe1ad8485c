"""A whole chat with a session in the output of a cell: messages, running work and controls.

What a page may ask for is in ``protocol``. Everything happens on the agent's
thread, so the panel works between cells and while one runs, and a prompt from here never blocks the notebook.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from indus_nb.base.events import (
    AgentSettled,
    AgentStart,
    BranchMoved,
    EntryAdded,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelChanged,
    SessionEvent,
    SessionInfoChanged,
    SessionReplaced,
    ThinkingLevelChanged,
)
from indus_nb.base.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Usage,
    UserMessage,
    text_of,
)
from indus_nb.base.textcut import one_line
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.dialogs import Dialog, UiFrame
from indus_nb.core.session.questions import Question
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook import actions
from indus_nb.front.notebook.page import protocol
from indus_nb.front.notebook.page.outdated import outdated_in
from indus_nb.front.notebook.page.widget import AgentWidget
from indus_nb.front.notebook.panel import composing, defaults, session_state
from indus_nb.front.notebook.panel.requests import CLOSED, PanelRequests
from indus_nb.front.notebook.panel.surroundings import Surroundings
from indus_nb.front.notebook.taking_back import TakingBack
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.growing import LiveDrawing, live_state
from indus_nb.front.notebook.view.output import Display
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.kernel.cell_ids import Origin
from indus_nb.kernel.claims import OutdatedAnswers
from indus_nb.kernel.run.agent_thread import AgentThread
from indus_nb.kernel.run.outputs import OutputBoard
from indus_nb.kernel.toolset.long_code import code_of
from indus_nb.tools import Tool

if TYPE_CHECKING:
    from anywidget import AnyWidget

    from indus_nb.front.notebook.page.comm_gate import CommGate

_CLOCK = 0.5
"""Interval, in seconds, at which a panel redraws elapsed times while something is running."""
_MAX_BLOCKS = 600
_MAX_BEGINNING_CHARACTERS = 80
_EARLIER = "earlier"

_WITHOUT_WIDGETS = "A chat with the agent. Run the cell to open it again."
_CLOSED = "This panel was closed, its conversation is saved. `%agent panel` shows the one that goes on."

_log = logging.getLogger("indus_nb")


class ChatPanel:
    """Chat with a session, as a widget.

    Make it in a cell and display it; it may be displayed several times. Several panels and ``%agent`` cells on one
    session stay in step. A front end that shows widgets alone is given ``widget``::

        panel = ChatPanel(open_session(SessionOptions()))
        panel.widget
    """

    def __init__(
        self,
        session: AgentSession,
        *,
        thread: AgentThread | None = None,
        gate: CommGate | None = None,
        outputs: OutputBoard | None = None,
        surroundings: Surroundings | None = None,
        undo: TakingBack | None = None,
        shown_in: Origin | None = None,
    ) -> None:
        """Create a panel, and subscribe to its session.

        Args:
            session: The session, which is driven on the agent's thread from then on.
            thread: The agent's thread. Without it the panel takes the kernel's, with its gate and its surroundings.
            gate: Delivers its messages while a cell runs, too.
            outputs: Displays of the session's code.
            surroundings: The kernel, for values of variables, cells and commands.
            undo: Takes back what the session's calls changed.
            shown_in: The cell that displays it first.
        """
        if thread is None:
            given = defaults.defaults()
            thread, gate = given.thread, gate or given.gate
            surroundings, undo = surroundings or given.surroundings, undo or given.undo
        self._thread = thread
        self._gate = gate
        self._session: AgentSession | None = session
        self.page: AgentWidget = AgentWidget("panel", self.receive, thread.call, shown_in)
        """The widget that its pages show, through which requests to a page are sent."""
        self.page.open_dialogs = self._open_dialogs
        self.page.question_of = self._question_of
        self.page.on_dialog_shown = session.ui.note_shown
        self._transcript = Transcript(
            session_state.model_name(session), renderer=self._renderer, tools=self._tools, whole=True
        )
        self._transcript.outputs = outputs
        if surroundings is not None:
            self._transcript.values_of = surroundings.values_of
            self._transcript.tracing = surroundings.tracing(session)
        self._drawing = LiveDrawing(self.page)
        self._displays: list[Display] = []
        self._endings: list[Callable[[], None]] = []
        self._shows_dialogs = False
        self._drawer: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self.page.on_ready = self._changed.set
        self.page.on_closed = self.close
        self._surroundings = surroundings
        self._requests = PanelRequests(
            self.page, self._transcript, self._show, self._show_problems, self._changed.set, surroundings
        )
        self._requests.undo = undo
        self._answering = False
        self._outdated = False
        self._outdated_answers: Sequence[OutdatedAnswers] = ()
        self._busy = self._starting = self._has_jobs = False
        self._spent = 0.0
        self._shown_problems: set[str] = set()
        self._tree_changed = False
        if gate is not None:
            gate.watch(self.page.comm_id)
        thread.call(self._begin)

    @property
    def widget(self) -> AnyWidget:
        """Return the ``anywidget.AnyWidget``, for front ends that are given widgets."""
        return self.page.anywidget

    def focus(self) -> None:
        """Focus the composer of the newest view, unless the user is writing elsewhere."""
        self._thread.call(partial(self.page.set, focus=True))
        self.refresh()

    def insert(self, text: str) -> None:
        """Put a text behind what is written in the composer, and focus that. Called on the agent's thread."""
        self.page.insert(text)
        self.page.set(focus=True)
        self._changed.set()

    def note(self, text: str) -> None:
        """Show a sentence below the conversation so far."""
        self._thread.call(partial(self._transcript.add_notice, text))
        self.refresh()

    def refresh(self) -> None:
        """Show what is in force now, after it was changed elsewhere than in this panel."""
        self._thread.call(self._changed.set)

    def shown_in(self, display: Display) -> None:
        """Record a display of this panel, which is replaced by a line when the panel is closed."""
        self._displays.append(display)

    def close(self) -> None:
        """Remove the widget and unsubscribe from the session, which stays open."""
        with contextlib.suppress(RuntimeError):  # the agent's thread has ended, and the panel with it
            self._thread.call(self._close)
        while self._displays:
            self._displays.pop().update(blocks.notice(_CLOSED), final=True)

    @property
    def in_cell(self) -> JsonObject:
        """Return what a cell displays; the notebook then keeps a line for readers without the kernel."""
        self._thread.call(partial(self.page.set_fallback, blocks.notice(_WITHOUT_WIDGETS)))
        return self.page.bundle

    def _repr_mimebundle_(self, **_: object) -> tuple[JsonObject, JsonObject]:
        return self.in_cell, self.page.metadata

    # Beginning and end

    def _begin(self) -> None:
        session = self._session
        if session is None:
            return
        self._endings.append(session.subscribe(self._on_event, self._on_session_closed))
        self.page.set(busy=False, stopping=False, started_ms_ago=None, kernel=self._surroundings is not None)
        self._show_place(session, is_other_branch=False)
        if self._surroundings is not None:
            self._endings.append(self._surroundings.watch_values(self._show_outdated))
        self._drawer = asyncio.get_running_loop().create_task(self._keep_drawing(), name="indus_nb panel")
        self._drawer.add_done_callback(self._note_end_of_drawing)
        self._requests.start_task(self._start(session))

    async def _start(self, session: AgentSession) -> None:
        self._starting = True
        self._changed.set()
        try:
            await session.start()
        finally:
            self._starting = False
            self._changed.set()
        self.page.set(commands=composing.commands(session, self._surroundings))
        self._show_settings(session)  # an extension may have brought models
        self._show_problems(session)

    def _detach(self) -> None:
        for end in self._endings:
            end()
        self._endings.clear()
        self._session = None

    def _close(self) -> None:
        self._detach()
        if self._drawer is not None:
            self._drawer.cancel()
            self._drawer = None
        if self._gate is not None:
            self._gate.forget(self.page.comm_id)
        self.page.set(closed=True)
        self.page.send()
        self.page.close()

    def _note_end_of_drawing(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._close()  # nothing else has, when the agent's thread ends
        elif (error := task.exception()) is not None:
            _log.error("A panel failed to draw", exc_info=error)
            self.page.set(warning=f"This panel failed, and shows nothing new ({type(error).__name__}: {error}).")
            self.page.send()

    def _renderer(self, custom_type: str) -> Callable[..., Any] | None:
        return self._session.hooks.renderer(custom_type) if self._session is not None else None

    def _tools(self) -> Mapping[str, Tool]:
        return self._session.all_tools if self._session is not None else {}

    # What happens in the session

    def _on_session_closed(self) -> None:
        with contextlib.suppress(RuntimeError):  # the agent's thread has ended, and the panel with it
            self._thread.call(self._changed.set)

    def _on_event(self, event: SessionEvent) -> None:
        session = self._session
        if session is None:
            return
        match event:
            case AgentStart():
                # What the project brings may have been trusted before it.
                self.page.set(warning=None, commands=composing.commands(session, self._surroundings))
            case SessionReplaced() | BranchMoved() | EntryAdded():
                self._follow(session, event)
            case MessageStart(message=AssistantMessage()):
                self._answering = True
            case MessageUpdate() if not self._answering:
                return  # this panel came when the answer had begun: it is shown when all is over
            case MessageEnd(message=AssistantMessage() as message):
                self._outdated = self._outdated or not self._answering
                self._answering = False
                self._spent += message.usage.cost.total
            case MessageEnd(message=UserMessage()) | ModelChanged() | ThinkingLevelChanged() | SessionInfoChanged():
                self._show_settings(session)
            case _:
                pass
        self._transcript.feed(event)
        if isinstance(event, AgentSettled):
            self._transcript.end_run()
        self._changed.set()

    def _show_dialogs(self, session: AgentSession) -> None:
        """Show dialogs from now on. Before a page is there none may wait for an answer from here."""
        if not self._shows_dialogs:
            self._shows_dialogs = True
            self._endings.append(session.ui.attach(self._show))

    def _open_dialogs(self) -> Sequence[tuple[Dialog, float | None]]:
        if self._session is None or not self._shows_dialogs:
            return ()
        return self._session.ui.open_dialogs_with_time(self._show)

    def _question_of(self, dialog_id: str) -> Question | None:
        return None if self._session is None else self._session.ui.question(dialog_id)

    def _show(self, frame: UiFrame) -> None:
        self.page.signal(frame.to_wire())
        if self._drawer is None or self._drawer.done():
            self.page.send()
        self._changed.set()

    def _follow(self, session: AgentSession, event: SessionReplaced | BranchMoved | EntryAdded) -> None:
        """Show the session's current place, and messages that were added without an event."""
        self._tree_changed = True
        match event:
            case SessionReplaced():
                self._show_place(session, is_other_branch=event.reason == "fork")
            case BranchMoved():
                self._show_place(session, is_other_branch=True)
            case EntryAdded(entry_type="compaction" | "branch_summary"):
                self._outdated = True
            case EntryAdded(entry_type="message"):
                entry = session.store.entry(event.entry_id)
                self._outdated = self._outdated or isinstance(entry.message, BashExecutionMessage)
            case EntryAdded():
                pass

    def _show_place(self, session: AgentSession, *, is_other_branch: bool) -> None:
        """Show a session, or another branch of it, from the beginning."""
        self.page.set(
            warning=blocks.OTHER_BRANCH if is_other_branch else None,
            commands=composing.commands(session, self._surroundings),
        )
        self._transcript.usage = Usage()
        self._show_outdated(self._outdated_answers)
        self._show_history(session)
        self._show_settings(session)

    # Drawing

    async def _keep_drawing(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOCK if self._busy or self._has_jobs else None):
                    await self._changed.wait()
            self._changed.clear()
            session = self._session
            if session is None or session.closed:
                self._end_with_session()
                return
            if self.page.ready.is_set():
                self._show_dialogs(session)
            self._draw(session)
            del session  # while this waits, the panel may detach from it
            await asyncio.sleep(self._drawing.pace)

    def _end_with_session(self) -> None:
        self._detach()
        self._transcript.close()
        for block in self._transcript.blocks:
            self._drawing.draw(block)
        self.page.set(busy=False, stopping=False, started_ms_ago=None, note="", warning=CLOSED, jobs=[])
        self.page.send()

    def _draw(self, session: AgentSession) -> None:
        runs = session.is_running or session.is_compacting
        waits = runs or self._starting or self._requests.preparing > 0
        code_only = not waits and bool(code_of(session))
        self._show_busy(busy=waits or code_only)
        running = session_state.jobs(session)
        self._has_jobs = bool(running)
        self.page.set(jobs=running, code_only=code_only)
        if self._outdated and not waits:
            self._show_history(session)
        if self._requests.shows_tree and self._tree_changed:
            self._tree_changed = False
            self.page.set(tree=session_state.tree(session.store))
        goes_on = self._session is not None and self._session.ui.goes_on
        self._transcript.tick(asking=bool(self._open_dialogs()), goes_on=goes_on)
        shown = self._transcript.blocks
        for block in shown:
            self._drawing.draw(block)
        surplus = 0
        while len(shown) - surplus > _MAX_BLOCKS and shown[surplus].finished:
            self._drawing.drop(shown[surplus])
            surplus += 1
        if surplus:
            del shown[:surplus]
            self.page.put(_EARLIER, _notice("What was said earlier is not shown any more."))
        spent_before = max(0, round(self._spent - self._transcript.usage.cost.total, 9))
        state = live_state(self._transcript, spent_before)
        if self._busy and not runs and not state.get("note"):
            state["note"] = "getting ready"
        self.page.set(**{**state, "model": session_state.model_name(session)})
        self.page.set(context=session_state.context(session), approve=session.settings.approve_now)
        self.page.set(cells=session.settings.cells, plan=self._requests.plans)
        if not self._transcript.blocks:
            self.page.set(examples=composing.examples(self._surroundings), first_prompt=actions.unchosen(session))
        if not waits:
            self._requests.keys.follow(session)
        self.page.set(
            queue={
                "steering": session_state.waiting(session.steering.texts),
                "followUp": session_state.waiting(session.follow_up_queue.texts),
            }
        )
        self.page.send()

    def _show_outdated(self, answers: Sequence[OutdatedAnswers]) -> None:
        self._outdated_answers = answers
        if self._session is not None:
            self.page.set(outdated=outdated_in(self._session.store.newest_first(), answers))
            self._changed.set()

    def _show_busy(self, *, busy: bool) -> None:
        if busy != self._busy:
            self._busy = busy
            self.page.set(busy=busy, stopping=False, started_ms_ago=0 if busy else None)

    def _show_history(self, session: AgentSession) -> None:
        """Redraw the newest part of the conversation."""
        self._outdated = self._answering = False
        for block in self._transcript.blocks:
            self._drawing.drop(block)
        self._transcript.blocks.clear()
        newest = session_state.newest(session.conversation.newest_first())
        hidden = max(0, len(session.conversation) - len(newest))
        number = f"{hidden:,} earlier message{'s are' if hidden > 1 else ' is'} not shown here."
        self.page.put(_EARLIER, _notice(number) if hidden else "")  # first of all, so that it is above the others
        live, around = self._transcript.values_of, self._surroundings
        if around is not None:
            self._transcript.values_of = around.values_in(newest, session.store.newest_first())
        self._transcript.add_history(newest, goes_on=session.is_running)
        self._transcript.values_of = live
        for event in session.open_calls:
            self._transcript.feed(event)
        self._show_problems(session)
        for block in self._transcript.blocks:
            self._drawing.draw(block)  # at once: what is sent next must not show an empty page
        self._spent = session.stats().cost
        self._changed.set()

    def _show_problems(self, session: AgentSession) -> None:
        for problem in session.all_problems:
            if problem not in self._shown_problems and problem != session.trusting.asked_later:
                self._shown_problems.add(problem)
                self._transcript.add_notice(problem)

    def _show_settings(self, session: AgentSession) -> None:
        model, around = session.model, self._surroundings
        is_kept = len(session.conversation) > 0  # an id in its metadata changes the notebook
        self.page.set(
            notebook=around.note_session(session) if around is not None and is_kept else None,
            saved=session.store.path is not None,
            session={"name": session.store.name, "id": session.store.session_id, "begins": _beginning(session)},
            models=session_state.models(session),
            current_model=None if model is None else {"provider": model.provider, "id": model.id},
            levels=["off"] if model is None else list(model.thinking_levels),
            level=session.thinking_level,
        )
        self._changed.set()

    def receive(self, request: protocol.PanelRequest) -> None:
        """Carry out what a page asks for. Called on the agent's thread."""
        if self._session is not None:
            self._show_dialogs(self._session)
        self._requests.receive(self._session, request)


def _notice(text: str) -> str:
    return blocks.notice(text)["text/html"]


def _beginning(session: AgentSession) -> str:
    """Return the first words of the user in a session, which stand for a name as long as it has none."""
    said = [message for message in session.conversation.newest_first() if isinstance(message, UserMessage)]
    return one_line(text_of(said[-1].content), _MAX_BEGINNING_CHARACTERS) if said else ""
