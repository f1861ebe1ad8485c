"""One prompt in one cell: sent to the session, drawn while it is answered, asked about, stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from indus_nb.events import MessageEnd, SessionEvent
from indus_nb.messages import AssistantMessage, ImageContent
from indus_nb.notebook.kernel.agent_thread import AgentThread, Inbox
from indus_nb.notebook.page.dialogs import CellDialogs
from indus_nb.notebook.view.cell import CellView
from indus_nb.notebook.view.output import Screen
from indus_nb.notebook.view.transcript import Transcript
from indus_nb.session.dialogs import Dialog, Notify, UiFrame
from indus_nb.session.session import AgentSession

if TYPE_CHECKING:
    from indus_nb.notebook.page.protocol import PanelRequest
    from indus_nb.notebook.page.widget import AgentWidget


class CellRun:
    """Sends a prompt to a session and draws what follows.

    Used on the agent's thread, but for making it.

    ``inbox`` belongs to the cell that waits, ``None`` when none does. ``asks`` is whether a user is there to be
    asked. A run that has cost ``max_cost`` US dollars is stopped before the next request. ``insert`` puts code into a
    cell, and returns whether it could.
    """

    def __init__(
        self,
        session: AgentSession,
        thread: AgentThread,
        screen: Screen,
        *,
        inbox: Inbox | None,
        asks: bool = False,
        max_cost: float | None = None,
        insert: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.stopped = False
        self.asked = False
        self._session = session
        self._screen = screen
        self.widget: AgentWidget | None = None
        """The widget, if the front end may have one; what its pages ask for goes to ``receive``."""
        self._asks = asks
        self._max_cost = max_cost
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
            session.ui, thread, in_page=self._ask_in_page, inbox=inbox, show_notice=self._transcript.add_notice
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._prompting: asyncio.Task[Any] | None = None

    async def work(self, text: str, images: Sequence[ImageContent] = ()) -> None:
        """Prompt the session and draw until it has settled.

        Raises what ``AgentSession.prompt`` raises.

        Args:
            text: The prompt.
            images: Images that go with it.
        """
        session = self._session
        spent = session.stats().cost
        if self.widget is not None:
            self.widget.open_dialogs = self._dialogs.open_dialogs
            self.widget.set(background=self._in_background)
        view = self._view = CellView(
            self._transcript,
            self._screen,
            self.widget,
            spent_before=spent,
            is_held=lambda: bool(session.ui.open_dialogs),
        )
        subscriptions: list[Callable[[], None]] = []

        def accepted() -> None:
            # Not before the prompt is accepted: the events until then belong to another cell.
            subscriptions.append(session.subscribe(self._watch))

        prompting = self._prompting = asyncio.current_task()
        drawing = asyncio.create_task(self._keep_drawing(view))
        # Drawing that failed must not leave the agent running unobserved.
        drawing.add_done_callback(lambda task: None if task.cancelled() or prompting is None else prompting.cancel())
        self._dialogs.attach(asks=self._asks)
        try:
            await session.prompt(text, images, on_accepted=accepted)
        except asyncio.CancelledError:
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
            self.asked = self._transcript.asked
            self._transcript.close()
            view.close()

    def receive(self, request: PanelRequest) -> None:
        """Do what a page asks for; a cell's widget lets only requests of a cell through."""
        match request.kind:
            case "stop":
                self.stop()
            case "answer":
                self._session.ui.answer(request.id, request.value)
            case "to_cell":
                self._do(self._to_cell(request.code))
            case _:
                pass

    async def _to_cell(self, code: str) -> None:
        if not await self._insert(code):
            self._transcript.add_notice("The code could not be put into a cell here: copy it.")

    def stop(self) -> None:
        """End the run, whatever it is at.

        One that is over is left alone, for another may go on by now.
        """
        if self._prompting is None or self.stopped:
            return
        self.stopped = True
        if self.widget is not None:
            self.widget.set(stopping=True)
            self.widget.send()
        self._do(self._session.abort())
        if not self._transcript.asked:
            self._prompting.cancel()  # an abort does not reach a command, nor what precedes a run

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _watch(self, event: SessionEvent) -> None:
        self._transcript.feed(event)
        match event:
            case MessageEnd(message=AssistantMessage(stop_reason="toolUse")) if self._is_too_expensive():
                self._transcript.add_notice(
                    f"Stopped: this cell has cost ${self._transcript.usage.cost.total:.4f}, and --max-cost is "
                    f"{self._max_cost:g}. What was said and done so far is kept."
                )
                self.stop()
            case _:
                pass

    def _is_too_expensive(self) -> bool:
        return self._max_cost is not None and self._transcript.usage.cost.total >= self._max_cost

    async def _keep_drawing(self, view: CellView) -> None:
        while True:
            await view.draw_soon()
            self._dialogs.decide()

    def _ask_in_page(self, frame: UiFrame) -> bool | None:
        live = self._view.live if self._view is not None else self.widget
        if live is None:
            if self._view is not None and isinstance(frame, Dialog):
                self._view.draw()  # so that a question stands below what led to it
            return False
        if not live.ready.is_set():
            return None
        if not isinstance(frame, Notify):
            if self._view is not None and isinstance(frame, Dialog):
                self._view.draw()  # else what it is about would come a moment later, and push the dialog down
            live.signal(frame.to_wire())
        return True
