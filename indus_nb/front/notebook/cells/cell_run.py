"""One prompt in one cell: sent to the session, drawn while it is answered, asked about, stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from indus_nb.base.errors import IndusError
from indus_nb.base.events import EntryAdded, MessageEnd, SessionEvent
from indus_nb.base.messages import Attachment, CustomMessage, ImageContent, UserMessage
from indus_nb.core.limits.budget import Budget, spending, spending_from
from indus_nb.core.session.dialogs import Cancel, Dialog, Notify, UiFrame
from indus_nb.core.session.limits import RunLimits
from indus_nb.core.session.queues import Disposition
from indus_nb.core.session.session import AgentSession
from indus_nb.core.session.stats import usage_of
from indus_nb.front.notebook import actions
from indus_nb.front.notebook.cells.cell_dialogs import CellDialogs
from indus_nb.front.notebook.cells.ended_runs import EndedRuns, outputs_on
from indus_nb.front.notebook.kept_answers import KeptInRun
from indus_nb.front.notebook.page.cell_outputs import CellOutputs
from indus_nb.front.notebook.plan_first import plan_first
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.cell import CellView
from indus_nb.front.notebook.view.output import NotebookScreen, Screen
from indus_nb.front.notebook.view.transcript import Transcript, ValuesOf
from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.kernel.run.outputs import OutputBoard
from indus_nb.kernel.toolset.long_code import CodeOfCell

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer
    from indus_nb.front.notebook.page.protocol import CellRequest
    from indus_nb.front.notebook.page.widget import AgentWidget
    from indus_nb.render.untraced import Tracing

_NO_PAGE = (
    "No live view appeared within three seconds, so this came block by block. If it stays so, VS Code lacks what one "
    "needs: its extension Jupyter Notebook Renderers, and the script of anywidget, from the kernel's server or a CDN."
)
_NOT_SHOWN = "The live view of this answer cannot be shown here"
_WITH_KERNEL = (
    f"{_NOT_SHOWN}: the agent's side panel, or `%agent panel`, shows it with what it asks. "
    "If somebody else ran this cell, trust the notebook."
)


class CellRun:
    """A prompt that is sent to a session, and the drawing of its run.

    Used on the agent's thread, but for making it.

    ``inbox`` belongs to the cell that waits, ``None`` when none does. ``asks`` is whether a user is there to be
    asked. No request is sent that could make the cell cost more than ``max_cost`` US dollars. ``insert`` puts code
    into a cell, and returns whether it could.
    """

    def __init__(  # noqa: PLR0913 - each is a thing that a cell asks for
        self,
        session: AgentSession,
        thread: AgentThread,
        screen: Screen,
        *,
        inbox: Inbox | None,
        asks: bool = False,
        max_cost: float | None = None,
        max_turns: int | None = None,
        timeout: float | None = None,
        insert: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.stopped: bool = False
        self.fails_cell = True
        """True while a cell waits, which fails with what stopped it."""
        self.asked: bool = False
        self._session = session
        self._screen = screen
        self.widget: AgentWidget | None = None
        """The widget, if the front end may have one; what its pages ask for goes to ``receive``."""
        self.outputs: OutputBoard | None = None
        """Displays of calls, where the cell can show them."""
        self.values_of: ValuesOf | None = None
        """Lookup of the values in answers."""
        self.tracing: Tracing | None = None
        """Lookup of where the numbers in answers come from."""
        self.conversation: str | None = None
        """The name of the conversation, if the closing line is to tell it."""
        self.beside = ""
        """What is said of the conversation beside the answer; empty for nothing."""
        self.notebook_id: str | None = None
        """The notebook's id, for its metadata."""
        self.plans = False
        """Whether the prompt is planned first."""
        self.drawing: dict[str | None, bool] = {}
        """The connections whose pages have drawn a widget of this kernel, and so will draw others, however late; and
        whether that of the last cell was drawn in time, as in a notebook that is in sight."""
        self.has_page: Callable[[], bool] = lambda: False
        """Whether the page that ran the cell is known to be there, before it has drawn a widget."""
        self.explained: set[str | None] | None = None
        """The connections whose users know what their pages lack that show no widgets; ``None`` if nobody knows it."""
        self.ended: EndedRuns = EndedRuns()
        """Takes what the run has left once its widget is closed."""
        self._asks = asks
        self._budget = None if max_cost is None else Budget(max_cost, (spending(),))
        self._limits = None if max_turns is None and timeout is None else RunLimits(max_turns, timeout)
        self._in_background = inbox is None
        self._insert = insert
        self._transcript = Transcript(
            session.model.name if session.model else "a model",
            # As they are by then: extensions come with the session's start.
            renderer=lambda custom_type: session.hooks.renderer(custom_type),  # noqa: PLW0108 - see above
            tools=lambda: session.all_tools,
        )
        self._view: CellView | None = None
        self._dialogs = CellDialogs(
            session.ui,
            thread,
            in_page=self._ask_in_page,
            inbox=inbox,
            show_notice=self._transcript.add_notice,
            note_typed=self._note_typed,
        )
        self.on_closed: Callable[[], None] = lambda: None
        """Called when the widget is closed."""
        self.on_told: Callable[[], None] = lambda: None
        """Called when a message that goes before the prompt is in the conversation."""
        self.on_prompted: Callable[[], None] = lambda: None
        """Called when the prompt is in the conversation."""
        self._prompted = False
        self._outputs: CellOutputs | None = None
        self._code = CodeOfCell(session)
        self._tasks: set[asyncio.Task[None]] = set()
        self._prompting: asyncio.Task[Any] | None = None
        self._kept = KeptInRun()

    async def work(
        self,
        text: str,
        images: Sequence[ImageContent] = (),
        answer: FinalAnswer | None = None,
        *,
        along: Sequence[Attachment] = (),
    ) -> None:
        """Prompt the session, and draw until the run has settled.

        Code that becomes a job keeps the kernel busy, and so the cell: it is followed to its end.

        Args:
            along: What goes along with the prompt for the model.

        Raises what ``AgentSession.prompt`` raises.
        """
        session = self._session
        self._transcript.outputs, self._transcript.conversation = self.outputs, self.conversation
        self._transcript.values_of, self._transcript.tracing = self.values_of, self.tracing
        self._transcript.asides += [self.beside] if self.beside else []
        spent = session.stats().cost
        if self.widget is not None:
            self.widget.open_dialogs = self._dialogs.open_dialogs
            self.widget.question_of = session.ui.question
            self.widget.on_dialog_shown = session.ui.note_shown
            self.widget.set(background=self._in_background, saved=session.store.path is not None)
            self.widget.set(session={"name": session.store.name, "id": session.store.session_id})
            self.widget.set(notebook=self.notebook_id, beside=self.beside)
            self._outputs = outputs_on(self._screen, self.widget, lambda: self._transcript.failure, self._do)
            self.widget.set_fallback(
                blocks.notice(_WITH_KERNEL), without_kernel=blocks.notice(_without_kernel(session))
            )
        view = self._view = CellView(
            self._transcript,
            self._screen,
            self.widget,
            spent_before=spent,
            is_held=lambda: bool(self._dialogs.open_dialogs()),
            goes_on=lambda: session.ui.goes_on,
        )
        subscriptions: list[Callable[[], None]] = []
        shown = {*session.all_problems} - {session.trusting.asked_later if self._asks else None}

        def accepted(disposition: Disposition) -> None:
            for problem in session.all_problems:
                if problem not in shown:  # problems of the session's start, or of an answer to a question
                    self._transcript.add_notice(problem)
            unchosen = actions.unchosen(session)
            others = f"{unchosen} `%agent model` lists others." if unchosen else ""
            before = actions.unanswered(session) if disposition == "started" else ""
            for notice in filter(None, (others, session.clearing.notice(), before)):
                self._transcript.add_notice(notice)
            # Not before the prompt is accepted: the events until then belong to another cell.
            subscriptions.append(session.subscribe(self._watch))

        ended = False
        prompting = self._prompting = asyncio.current_task()
        drawing = asyncio.create_task(self._keep_drawing(view))
        # Drawing that failed must not leave the agent running unobserved.
        drawing.add_done_callback(lambda task: None if task.cancelled() or prompting is None else prompting.cancel())
        self._dialogs.attach(asks=self._asks)
        try:
            with spending_from(self._budget or spending()):
                await self._send(text, images, along, accepted, answer)
            await self._code.follow()
            ended = True
        except asyncio.CancelledError:
            await self._code.stop()
            if drawing.done() and not drawing.cancelled() and (failure := drawing.exception()) is not None:
                raise failure from None
            if not self.stopped:
                raise
        finally:
            self._prompting = None
            drawing.cancel()
            self._dialogs.detach()
            for unsubscribe in subscriptions:
                unsubscribe()
            self._end(ended=ended)
            await self._show_end(view)

    def _end(self, *, ended: bool) -> None:
        """Close the transcript.

        Args:
            ended: Whether the run came to its end.
        """
        self.asked = self._transcript.asked
        self._transcript.asides += filter(None, [self._kept.words()])
        # A cell whose prompt was a command, or was handled by an extension, ends well.
        self._transcript.close(fails_cell=self.fails_cell and (self.asked or not ended))

    async def _send(
        self,
        text: str,
        images: Sequence[ImageContent],
        along: Sequence[Attachment],
        accepted: Callable[[Disposition], None],
        answer: FinalAnswer | None,
    ) -> None:
        sent = partial(self._session.prompt, answer=answer) if not self.plans else partial(plan_first, self._session)
        await sent(text, images, attachments=along, on_accepted=accepted, limits=self._limits)

    def note_replaced(self, warning: str) -> None:
        """Note beside the closing line that this answer replaces the cell's previous one.

        Args:
            warning: Effects of the previous answer that remain; empty without any.
        """
        self._transcript.asides.append("replaces the answer before, which %agent tree has")
        if warning:
            self._transcript.add_notice(f"⚠ {warning}")

    async def _show_end(self, view: CellView) -> None:
        """Draw the end, also if the user interrupts the wait for a slow page."""
        try:
            if self.asked:
                if self._asks and self.has_page() and self.drawing.get(self._client, True):
                    await view.drawn(always=True)  # beside the answer it says what no file is to keep
                await self._explain(view)
        finally:
            await self._part(view)

    async def _explain(self, view: CellView) -> None:
        """Give a slow page its time, and note, once, why none has shown the run as it went on."""
        if self.explained is None or (self._client in self.explained and self._client not in self.drawing):
            return
        await view.drawn()
        if view.is_given_up and self._client not in self.explained:
            self.explained.add(self._client)
            self._transcript.add_notice(_NO_PAGE)

    async def _part(self, view: CellView) -> None:
        """Draw the rest, and close the widget once a page shows the result; until then it holds all."""
        outputs, widget, failure = self._outputs, view.live, self._transcript.failure
        if widget is not None:
            widget.set(beside=self._transcript.beside)
        is_drawn = widget is not None and widget.ready.is_set()
        if is_drawn or (self.asked and self._client in self.drawing):
            self.drawing[self._client] = is_drawn
        view.close(keeps_widget=True, tells_measures=self._asks and self._client not in self.drawing)
        if self.fails_cell and isinstance(self._screen, NotebookScreen):
            self._screen.settle()
        if widget is None:
            self.on_closed()  # there was none, or the view has given it up
            return
        if outputs is None or not widget.ready.is_set() or await outputs.settle():
            if not widget.reloaded or (outputs is not None and outputs.in_notebook):
                self._close(widget)  # else a page that came later shows it, and has nothing else
            elif failure is not None:
                widget.put("failure", failure["text/html"])
                widget.send()
            return
        shown = [output["data"] for output in outputs.outputs()]
        widget.show_only(data.get("text/html") or blocks.output_html("", data) for data in shown)

        async def settle() -> None:
            if await outputs.settle_in(widget.used_page):
                self._close(widget)

        widget.on_ready = lambda: self._do(settle())
        outputs.on_late = lambda: self._close(widget)

    @property
    def _client(self) -> str | None:
        """Return the connection of the page that ran the cell."""
        return self._screen.cell.client if isinstance(self._screen, NotebookScreen) else None

    def _close(self, widget: AgentWidget) -> None:
        if widget.closed:
            return
        if self._outputs is not None:
            self.ended.keep(self._outputs.place, self._outputs.outputs())
        widget.set(fallback=None)
        widget.send()
        widget.close()
        self.on_closed()

    def receive(self, request: CellRequest) -> None:
        """Dispatch a page's request; a cell's widget lets only requests of a cell through."""
        match request.kind:
            case "stop":
                self.stop()
            case "answer":
                self._session.ui.answer(request.id, request.value, request.reason)
                self._dialogs.withdraw(request.id)
            case "to_cell":
                self._do(self._to_cell(request.code))
            case _:
                pass

    async def _to_cell(self, code: str) -> None:
        if not await self._insert(code):
            self._transcript.add_notice("The code could not be put into a cell here: copy it.")

    def stop(self) -> None:
        """Stop the run, whether it is being prepared or at work.

        A run that is over is left alone, for another may be running by now.
        """
        if self._prompting is None or self.stopped:
            return
        self.stopped = True
        if self.widget is not None:
            self.widget.set(stopping=True)
            self.widget.send()
        if self._code.has_run:
            self._do(self._session.abort())
        self._do(self._code.stop())
        if not self._transcript.asked or (self.plans and not self._session.is_running):
            self._prompting.cancel()  # an abort does not reach a command, what precedes a run, nor a plan's question

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _watch(self, event: SessionEvent) -> None:
        for shown in self._code.events(event):
            self._show(shown)

    def _show(self, event: SessionEvent) -> None:
        self._transcript.feed(event)
        match event:
            case MessageEnd(message=UserMessage()) if not self._prompted:
                self._prompted = True
                self.on_prompted()
            case MessageEnd(message=CustomMessage()) if self._transcript.asked and not self._prompted:
                self.on_told()
            case EntryAdded(entry_type="custom") if usage := usage_of(self._session.store.entry(event.entry_id)):
                self._transcript.usage += usage  # what sub-agents have used, or code that asked models
            case _:
                pass

    async def _keep_drawing(self, view: CellView) -> None:
        while True:
            await view.draw_soon()
            self._dialogs.decide()

    def _note_typed(self, typed: Mapping[str, str]) -> None:
        if self.widget is not None:
            self.widget.set(typed={**typed})
            self.widget.send()

    def _ask_in_page(self, frame: UiFrame) -> bool | None:
        live = self._view.live if self._view is not None else self.widget
        if live is None and self._view is not None and isinstance(frame, Dialog | Cancel):
            self._view.draw()  # so that a question stands below what led to it, and a page that is ready by now hears
            live = self._view.live
        if live is None:
            return False
        if not live.ready.is_set():
            return None
        if not isinstance(frame, Notify):
            if self._view is not None and isinstance(frame, Dialog):
                self._view.draw()  # else what it is about would come a moment later, and push the dialog down
            live.signal(frame.to_wire())
        return True


async def in_background(work: Callable[[], Coroutine[Any, Any, None]], screen: Screen) -> None:
    """Run work that no caller waits for, and show its exceptions in its cell."""
    try:
        await work()
    except IndusError as error:
        screen.show(blocks.error(str(error)), final=True)
    except Exception as error:
        screen.show(blocks.error(f"{type(error).__name__}: {error}"), final=True)
        raise


def _without_kernel(session: AgentSession) -> str:
    """Return the text that stands in for a live view whose kernel is gone."""
    if session.store.path is None:
        return f"{_NOT_SHOWN}, and its conversation was not saved."
    name = " ".join((session.store.name or "").replace("`", "").split())
    named = f" as “{name}”" if name else ""
    return f"{_NOT_SHOWN}: `%agent panel` shows the answer, or `%agent sessions` finds it{named}."
