"""Work other than a prompt that a cell waits for: its progress, Stop, and its output in the cell.

What this module promises: however the work ends, the cell shows its output until then, also in a page that was loaded
meanwhile, and its widget is closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from indus_nb.base.errors import IndusError, Interrupted, UsageError
from indus_nb.front.notebook.cells.cell_dialogs import CellDialogs
from indus_nb.front.notebook.cells.ended_runs import EndedRuns, outputs_on
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.output import NOTHING, Screen
from indus_nb.kernel.document import NotebookTools
from indus_nb.kernel.run.agent_thread import AgentThread, Inbox
from indus_nb.tools.tool import ToolError

if TYPE_CHECKING:
    from indus_nb.core.session.dialogs import Ui, UiFrame
    from indus_nb.core.session.questions import Decision, Question
    from indus_nb.front.notebook.page.protocol import AnswerDialog, CellRequest
    from indus_nb.front.notebook.page.widget import AgentWidget
    from indus_nb.kernel.document.verifying import Verified

T = TypeVar("T")
PAGE_SECONDS = 3.0
"""Timeout, in seconds, for a page that may not be there."""
UNDO_PAGE_SECONDS = 15.0
"""Timeout, in seconds, of undo for the page, without which it cannot change cells."""
_LOOK_EVERY = 0.05


Work: TypeAlias = Callable[["CellWork"], Coroutine[Any, Any, T]]


class CellWork:
    """Work that a cell waits for. Used on the agent's thread, but for making it and for `run`.

    Attributes:
        left: What the cell shows when it ends.
    """

    def __init__(
        self,
        screen: Screen,
        live: Callable[[Callable[[CellRequest], None]], AgentWidget | None],
        inbox: Inbox,
        ended: EndedRuns,
        stopped: str,
        page_seconds: float = PAGE_SECONDS,
    ) -> None:
        """Show the widget, or wait with it.

        Args:
            live: Makes the widget, if a page may show one, from the callback for its requests.
            inbox: Of the thread that waits, which may call ``input()``.
            ended: Takes what the work has left once its widget is closed.
            stopped: What the cell fails with when the user ends it; empty for work that is not shown to go on, which
                has no Stop.
        """
        self.left: MimeBundle = NOTHING
        self._inbox = inbox
        self._ended = ended
        self._stopped = stopped
        self._page_seconds = page_seconds
        self._live = live(self._receive)
        self._screen = screen
        self._display = None if self._live is None else screen.show(self._live.bundle, final=False)
        self._failure: str = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._outputs = None if self._live is None else outputs_on(screen, self._live, self._failed, self._start)
        self._task: asyncio.Task[Any] | None = None
        self._is_stopped = False
        self._is_over = False
        self._answer: Callable[[AnswerDialog], None] = lambda _: None

    @property
    def comm_id(self) -> str | None:
        """Return the id of the widget's comm, if there is a widget."""
        return None if self._live is None else self._live.comm_id

    def run(
        self,
        drive: Callable[[Callable[[], Coroutine[Any, Any, T]]], T],
        work: Work[T],
        shown: list[AgentWidget],
    ) -> T:
        """Run the work and wait for its result.

        Args:
            drive: Runs a coroutine on the agent's thread and waits for it.
            shown: The widgets whose pages are asked; its own is among them meanwhile.

        Returns:
            What the work returns; what it raises is raised.

        Raises:
            Interrupted: The user ended it.
        """
        try:
            return drive(lambda: self._do(work, shown))
        except (Interrupted, asyncio.CancelledError) as ended:
            if not (self._is_over and self._stopped and (self._is_stopped or isinstance(ended, Interrupted))):
                raise
            raise Interrupted(self._stopped) from None
        finally:
            if not self._is_over:
                self._show(self.left, final=True)

    def say(self, note: str) -> None:
        """Show a line of progress."""
        if self._live is not None and self._live.ready.is_set():
            self._live.set(note=note)
            self._live.send()
        else:
            self._show(blocks.notice(note), final=False)

    async def ask(self, ui: Ui, question: Question, thread: AgentThread) -> Decision:
        """Ask a session's question here, in the widget or with ``input()``, and where else its dialogs are shown."""
        with self._asking(ui, thread):
            return await ui.choose(question)

    async def ask_first(self, ui: Ui, thread: AgentThread, stopped: str, question: Question) -> Decision:
        """Ask before something that no Stop ends: only while it is asked the user may end the work with one.

        Args:
            stopped: What the cell fails with then.
        """
        self._set_stopped(stopped)
        decision = await self.ask(ui, question, thread)
        self._set_stopped("")
        return decision

    def _set_stopped(self, stopped: str) -> None:
        self._stopped = stopped
        if self._live is not None:
            self._live.set(busy=bool(stopped), started_ms_ago=0)
            self._live.send()

    async def ask_open(self, ui: Ui, thread: AgentThread) -> bool:
        """Ask a session's open questions as `ask` does, until none is left; return whether there was one."""
        changed = asyncio.Event()
        unwatch = ui.watch_dialogs(changed.set)
        try:
            with self._asking(ui, thread) as dialogs:
                asked = bool(dialogs.open_dialogs())
                while dialogs.open_dialogs():
                    changed.clear()
                    await changed.wait()
                return asked
        finally:
            unwatch()

    @contextmanager
    def _asking(self, ui: Ui, thread: AgentThread) -> Generator[CellDialogs]:
        """Show a session's dialogs in this cell within this context."""
        live = self._live
        dialogs = CellDialogs(
            ui,
            thread,
            in_page=self._ask_in_page,
            inbox=self._inbox,
            show_notice=self.say,
            note_typed=self._note_typed,
        )

        def answer(given: AnswerDialog) -> None:
            ui.answer(given.id, given.value, given.reason)
            dialogs.withdraw(given.id)

        self._answer = answer
        if live is not None:
            live.open_dialogs, live.question_of = dialogs.open_dialogs, ui.question
            live.on_dialog_shown = ui.note_shown
        dialogs.attach(asks=True)
        try:
            yield dialogs
        finally:
            dialogs.detach()

    def _note_typed(self, typed: Mapping[str, str]) -> None:
        if self._live is not None:
            self._live.set(typed={**typed})
            self._live.send()

    def _ask_in_page(self, frame: UiFrame) -> bool:
        live = self._live
        if live is None or not live.ready.is_set():
            return False
        live.signal(frame.to_wire())
        return True

    def _show(self, bundle: MimeBundle, *, final: bool) -> None:
        if self._display is not None:
            self._display.update(bundle, final=final)
        elif bundle is not NOTHING:
            self._display = self._screen.show(bundle, final=final)

    async def _do(self, work: Work[T], shown: list[AgentWidget]) -> T:
        self._task = asyncio.current_task()
        live = self._live
        try:
            if live is not None and self._stopped:
                live.set(busy=True, started_ms_ago=0)
            async with _shown_to_page(live, shown, self._page_seconds):
                try:
                    return await work(self)
                except (IndusError, asyncio.CancelledError) as error:
                    self._failure = str(error) or self._stopped
                    raise
                finally:
                    self._task = None
                    self._is_over = True
                    self._show(self.left, final=True)
                    await self._bring_end()
        finally:
            self._is_over = True

    def _failed(self) -> MimeBundle | None:
        return blocks.error(self._failure) if self._failure else None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring_end(self) -> None:
        """Have the end in the notebook of a page that was loaded meanwhile, and keep it for pages to come."""
        outputs, live = self._outputs, self._live
        if outputs is None or live is None:
            return
        if shown := outputs.outputs():
            self._ended.keep(outputs.place, shown)
        if live.reloaded:
            await outputs.settle()

    def _receive(self, request: CellRequest) -> None:
        if request.kind == "answer":
            self._answer(request)
        if request.kind != "stop" or self._task is None or self._is_stopped or self._live is None:
            return
        self._is_stopped = True
        self._live.set(stopping=True)
        self._live.send()
        self._task.cancel()


@asynccontextmanager
async def _shown_to_page(live: AgentWidget | None, shown: list[AgentWidget], seconds: float) -> AsyncGenerator[None]:
    """Let a page answer through a widget within this context, if one shows it; close the widget afterwards."""
    try:
        deadline = time.monotonic() + seconds
        # What a page says comes on another thread, and this waits for nothing else.
        while live is not None and not live.ready.is_set() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY)
        if live is not None:
            shown.append(live)
        yield
    finally:
        if live is not None:
            if live in shown:
                shown.remove(live)
            live.close()


VERIFYING_STOPPED = "Stopped: the fresh kernel has ended, and all that its cells had started."


async def verified_in(notebook: NotebookTools, session: str, cell: CellWork, *, fixes: bool = False) -> Verified:
    """Run the notebook in a fresh kernel, and show progress and result in a cell.

    Args:
        session: The session that the cell talks to.
        fixes: Whether the agent is asked to mend what is found.

    Raises:
        UsageError: The notebook is not known, or cannot be read.
    """

    def show(outcome: Verified) -> None:
        cell.left = blocks.listing(outcome.text(fixes=fixes))
        if not outcome.is_over:
            cell.say(outcome.at_work())

    try:
        return await notebook.verify(show, session)
    except ToolError as error:
        raise UsageError(str(error)) from error
