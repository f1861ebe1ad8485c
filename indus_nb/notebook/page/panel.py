"""A whole chat with a session in the output of a cell: messages, running work and controls.

What a page may ask for is in ``protocol``. Everything happens on the agent's
thread, so the panel works between cells and while one runs, and a prompt from here never blocks the notebook.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never, cast
from uuid import uuid4

from indus_nb import textcut
from indus_nb.errors import IndusError
from indus_nb.events import (
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
from indus_nb.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageContent,
    Message,
    TextContent,
    Usage,
    UserMessage,
    text_of,
)
from indus_nb.notebook import actions
from indus_nb.notebook.kernel.agent_thread import AgentThread
from indus_nb.notebook.page import defaults, protocol
from indus_nb.notebook.page.widget import AgentWidget
from indus_nb.notebook.view import blocks
from indus_nb.notebook.view.growing import LiveDrawing, live_state
from indus_nb.notebook.view.transcript import Transcript
from indus_nb.render.session_page import page_name, session_page
from indus_nb.render.tree import cut, tree_rows
from indus_nb.session.dialogs import Dialog, Notify, NotifyType, SetEditorText, UiFrame
from indus_nb.session.session import AgentSession
from indus_nb.storage import SessionStore
from indus_nb.tools import Tool
from indus_nb.wire import JsonObject, dump

if TYPE_CHECKING:
    from indus_nb.notebook.page.comm_gate import CommGate

_CLOCK = 0.5
"""How often, in seconds, a panel draws what only depends on time, as long as something goes on."""
_MAX_HISTORY_MESSAGES = 200
_MAX_HISTORY_CHARACTERS = 200_000
"""In characters: to draw so many keeps the agent's thread busy for a third of a second."""
_MAX_BLOCKS = 600
_MAX_ROWS = 500
_MAX_QUEUED = 100
_MAX_TASKS = 64
_MAX_QUEUED_CHARACTERS = 2_000
_MAX_DOWNLOAD_CHARACTERS = 20_000_000
_EARLIER = "earlier"
_CLOSED = "This conversation was closed. Open it again with %agent --session, and a panel for it."

_WITHOUT_WIDGETS = "A chat with the agent. Run the cell to open it again."

_log = logging.getLogger("indus_nb")


class ChatPanel:
    """A widget to talk to ``session``.

    The session is driven on the agent's thread from then on.

    Make it in a cell and display it; it may be displayed several times. Several panels and ``%agent`` cells on one
    session stay in step. ``thread`` is by default the kernel's. With a ``gate`` it also works while a cell runs.
    """

    def __init__(
        self, session: AgentSession, *, thread: AgentThread | None = None, gate: CommGate | None = None
    ) -> None:
        if thread is None:
            thread, default_gate = defaults.thread_and_gate()
            gate = gate or default_gate
        self._thread = thread
        self._gate = gate
        self._session: AgentSession | None = session
        self.widget = AgentWidget("panel", self._on_request, thread.call)
        """The widget; whoever wants something of the page may ask it."""
        self.widget.bundle["text/plain"] = _WITHOUT_WIDGETS
        self.widget.open_dialogs = self._open_dialogs
        self._transcript = Transcript(_model_name(session), renderer=self._renderer, tools=self._tools, whole=True)
        self._drawing = LiveDrawing(self.widget)
        self._endings: list[Callable[[], None]] = []
        self._shows_dialogs = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._drawer: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self.widget.on_ready = self._changed.set
        self._answering = False
        self._outdated = False
        self._busy = False
        self._spent = 0.0
        self._shown_problems: set[str] = set()
        self._shows_tree = self._tree_changed = False
        self._listed: set[str] = set()
        self._downloads = 0
        if gate is not None:
            gate.watch(self.widget.comm_id)
        thread.call(self._begin)

    def close(self) -> None:
        """Remove the widget and detach from the session, which goes on."""
        with contextlib.suppress(RuntimeError):  # the agent's thread has ended, and the panel with it
            self._thread.call(self._close)

    def _repr_mimebundle_(self, **_: object) -> tuple[JsonObject, JsonObject]:
        return self.widget.bundle, self.widget.metadata

    # Beginning and end

    def _begin(self) -> None:
        session = self._session
        if session is None:
            return
        self._endings.append(session.subscribe(self._on_event, self._on_session_closed))
        self.widget.set(busy=False, stopping=False, started_ms_ago=None)
        self._show_place(session, is_other_branch=False)
        self._drawer = asyncio.get_running_loop().create_task(self._keep_drawing(), name="indus_nb panel")
        self._drawer.add_done_callback(self._note_end_of_drawing)
        self._start_task(self._start(session))

    async def _start(self, session: AgentSession) -> None:
        await session.start()
        self.widget.set(commands=_commands(session))
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
            self._gate.forget(self.widget.comm_id)
        self.widget.close()

    def _note_end_of_drawing(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._close()  # nothing else has, when the agent's thread ends
        elif (error := task.exception()) is not None:
            _log.error("A panel failed to draw", exc_info=error)
            self.widget.set(warning=f"This panel failed, and shows nothing new ({type(error).__name__}: {error}).")
            self.widget.send()

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
                self.widget.set(warning=None)
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
            case ModelChanged() | ThinkingLevelChanged() | SessionInfoChanged():
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
        return self._session.ui.open_dialogs_with_time()

    def _show(self, frame: UiFrame) -> None:
        self.widget.signal(frame.to_wire())
        if self._drawer is None or self._drawer.done():
            self.widget.send()
        self._changed.set()

    def _follow(self, session: AgentSession, event: SessionReplaced | BranchMoved | EntryAdded) -> None:
        """Show where the session is now; also what joined its conversation without the event of a message."""
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
        self.widget.set(warning=blocks.OTHER_BRANCH if is_other_branch else None, commands=_commands(session))
        self._transcript.usage = Usage()
        self._show_history(session)
        self._show_settings(session)

    # Drawing

    async def _keep_drawing(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOCK if self._busy else None):
                    await self._changed.wait()
            self._changed.clear()
            session = self._session
            if session is None or session.closed:
                self._end_with_session()
                return
            if self.widget.ready.is_set():
                self._show_dialogs(session)
            self._draw(session)
            del session  # while this waits, the panel may detach from it
            await asyncio.sleep(self._drawing.pace)

    def _end_with_session(self) -> None:
        self._detach()
        self._transcript.close()
        for block in self._transcript.blocks:
            self._drawing.draw(block)
        self.widget.set(busy=False, stopping=False, started_ms_ago=None, note="", warning=_CLOSED)
        self.widget.send()

    def _draw(self, session: AgentSession) -> None:
        self._show_busy(busy=session.is_running or session.is_compacting)
        if self._outdated and not self._busy:
            self._show_history(session)
        if self._shows_tree and self._tree_changed:
            self._tree_changed = False
            self.widget.set(tree=_tree(session.store))
        self._transcript.tick()
        shown = self._transcript.blocks
        for block in shown:
            self._drawing.draw(block)
        surplus = 0
        while len(shown) - surplus > _MAX_BLOCKS and shown[surplus].finished:
            self._drawing.drop(shown[surplus])
            surplus += 1
        if surplus:
            del shown[:surplus]
            self.widget.put(_EARLIER, _notice("What was said earlier is not shown any more."))
        spent_before = max(0, round(self._spent - self._transcript.usage.cost.total, 9))
        state = live_state(self._transcript, spent_before)
        self.widget.set(**{**state, "model": _model_name(session)})
        self.widget.set(
            queue={"steering": _waiting(session.steering.texts), "followUp": _waiting(session.follow_up_queue.texts)}
        )
        self.widget.send()

    def _show_busy(self, *, busy: bool) -> None:
        if busy != self._busy:
            self._busy = busy
            self.widget.set(busy=busy, stopping=False, started_ms_ago=0 if busy else None)

    def _show_history(self, session: AgentSession) -> None:
        """Draw the conversation anew: the newest part of it."""
        self._outdated = self._answering = False
        for block in self._transcript.blocks:
            self._drawing.drop(block)
        self._transcript.blocks.clear()
        newest = _newest(session.conversation.newest_first())
        hidden = max(0, len(session.conversation) - len(newest))
        number = f"{hidden:,} earlier message{'s are' if hidden > 1 else ' is'} not shown here."
        self.widget.put(_EARLIER, _notice(number) if hidden else "")  # first of all, so that it is above the others
        self._transcript.add_history(newest)
        self._show_problems(session)
        for block in self._transcript.blocks:
            self._drawing.draw(block)  # at once: what is sent next must not show an empty page
        self._spent = session.stats().cost
        self._changed.set()

    def _show_problems(self, session: AgentSession) -> None:
        for problem in session.all_problems:
            if problem not in self._shown_problems:
                self._shown_problems.add(problem)
                self._transcript.add_notice(problem)

    def _show_settings(self, session: AgentSession) -> None:
        model = session.model
        models: list[protocol.ModelChoice] = [
            {"provider": each.provider, "id": each.id, "name": each.name, "reasoning": each.reasoning}
            for each in session.available_models()
        ]
        self.widget.set(
            session={"name": session.store.name, "id": session.store.session_id},
            models=models,
            current_model=None if model is None else {"provider": model.provider, "id": model.id},
            levels=["off"] if model is None else list(model.thinking_levels),
            level=session.thinking_level,
        )
        self._changed.set()

    def _toast(self, text: str, kind: NotifyType = "error") -> None:
        self._show(Notify(id=uuid4().hex, message=text, notify_type=kind))

    def _compose(self, text: str) -> None:
        self._show(SetEditorText(id=uuid4().hex, text=text))

    # What the page asks for

    def _on_request(self, request: protocol.PanelRequest) -> None:
        session = self._session
        ends = isinstance(request, protocol.AnswerDialog | protocol.Stop | protocol.Abort)
        if session is not None and not session.closed and (ends or len(self._tasks) < _MAX_TASKS):
            self._show_dialogs(session)
            self._start_task(self._carry_out(session, request))
            return
        if isinstance(request, protocol.Prompt):
            self._put_back([_message(request)])
        is_over = session is None or session.closed
        self._toast(_CLOSED if is_over else "Too much is asked for at once. Wait until some of it is done.")

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._report_failure(work), name="indus_nb panel request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report_failure(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work``, and show in the panel what went wrong with it."""
        try:
            await work
        except IndusError as error:
            self._toast(str(error))
        except Exception as error:  # noqa: BLE001 - only the page waits for this, and it shows no traceback
            _log.debug("A request of a page failed", exc_info=True)
            self._toast(f"That failed for a reason of the program's own: {type(error).__name__}: {error}")
        self._changed.set()

    async def _carry_out(self, session: AgentSession, request: protocol.PanelRequest) -> None:  # noqa: C901, PLR0912 - one branch for each kind
        match request:
            case protocol.Prompt():
                await self._prompt(session, request)
            case protocol.Stop():
                await self._stop(session)
            case protocol.Abort():
                self._put_back(await actions.clear_queue(session))
                await self._stop(session)
            case protocol.AnswerDialog():
                session.ui.answer(request.id, request.value)
            case protocol.Unqueue():
                await self._unqueue(session, request)
            case protocol.ClearQueue():
                await session.clear_queue()
            case protocol.SetModel():
                await session.set_model(session.registry.with_id(request.id, request.provider))
            case protocol.SetThinking():
                await session.set_thinking_level(request.level)
            case protocol.NewSession():
                self._report_move(actions.Moved(await session.new_session()))
            case protocol.SwitchSession():
                await self._switch(session, request.path)
            case protocol.Rename():
                await session.set_name(request.name)
            case protocol.Navigate():
                self._report_move(await actions.navigate(session, request.entry))
            case protocol.Fork():
                self._report_move(await actions.fork(session, request.entry))
            case protocol.Compact():
                await session.compact()
            case protocol.Export():
                await self._export(session)
            case protocol.ListSessions():
                await self._list_sessions(session)
            case protocol.ShowTree():
                self._shows_tree = True
                self.widget.set(tree=_tree(session.store))
            case protocol.Complete():
                self._complete(session, request.text)
            case protocol.ToCell():
                await self._to_cell(request.code)
            case _:
                assert_never(request)

    async def _prompt(self, session: AgentSession, request: protocol.Prompt) -> None:
        accepted = False

        def accept() -> None:
            nonlocal accepted
            accepted = True
            self.widget.set(warning=None)

        # Who sends to a session that another view has just set going does not mean to interrupt it.
        joins = "steer" if request.how == "steer" else "followUp"
        try:
            await session.prompt(request.text, request.images, streaming_behavior=joins, on_accepted=accept)
        finally:
            if not accepted:
                self._put_back([_message(request)])

    async def _stop(self, session: AgentSession) -> None:
        self.widget.set(stopping=self._busy)
        self._changed.set()
        await session.abort()
        self.widget.set(stopping=False)  # what follows at once can be stopped as well

    async def _unqueue(self, session: AgentSession, request: protocol.Unqueue) -> None:
        queue = session.steering if request.queue == "steering" else session.follow_up_queue
        shown = [_shortened(text) for text in queue.texts]
        # Deliveries since the page was drawn have moved it to the front.
        places = [at for at in range(min(request.index, len(shown) - 1), -1, -1) if shown[at] == request.text]
        if not places:
            self._toast("That message was delivered, or taken back, just before.", "info")
            return
        self._put_back([await session.unqueue("steer" if request.queue == "steering" else "followUp", places[0])])

    def _put_back(self, messages: Iterable[Message]) -> None:
        """Put messages that were not delivered into the composer."""
        contents = [message.content for message in messages if isinstance(message, UserMessage)]
        if text := "\n\n".join(filter(None, map(text_of, contents))):
            self._compose(text)
        if any(
            isinstance(block, ImageContent) for content in contents if not isinstance(content, str) for block in content
        ):
            self._toast("Its images do not come back with it: attach them again.", "info")

    def _report_move(self, moved: actions.Moved) -> None:
        if not moved.done:
            self._toast(actions.OBJECTED, "warning")
        elif moved.text:
            self._compose(moved.text)

    async def _switch(self, session: AgentSession, path: str) -> None:
        if path not in self._listed:
            self._toast("That session is not in the list. Open the list again, and choose one.")
            return
        self._report_move(actions.Moved(await session.switch_session(Path(path))))

    async def _export(self, session: AgentSession) -> None:
        store = session.store
        name = page_name(store)
        page = await asyncio.to_thread(session_page, store)
        if len(page) > _MAX_DOWNLOAD_CHARACTERS:
            written = await asyncio.to_thread(actions.export, store)
            self._toast(f"The page is too large for the browser. It was saved as {written.path}.", "info")
            return
        self._downloads += 1
        self.widget.set(download={"name": name, "html": page, "n": self._downloads})

    async def _list_sessions(self, session: AgentSession) -> None:
        store = session.store
        here = await actions.sessions_here(store)
        self._listed = {str(info.path) for info in here}
        listed: list[protocol.SessionRow] = [
            {
                "path": str(info.path),
                "name": cut(info.name or info.first_message) or "(nothing said yet)",
                "modified": info.modified,
                "messages": info.message_count,
                "current": store.is_at(info.path),
            }
            for info in here
        ]
        self.widget.set(sessions=listed)

    def _complete(self, session: AgentSession, text: str) -> None:
        commands = _commands(session) if text.startswith("/") and " " not in text else []
        items: list[protocol.Completion] = [
            {"text": f"/{each['name']} ", "label": f"/{each['name']}", "detail": each["description"]}
            for each in commands
            if f"/{each['name']}".lower().startswith(text.lower())
        ]
        self.widget.set(commands=commands or _commands(session), completions={"text": text, "items": items})

    async def _to_cell(self, code: str) -> None:
        answer = await self.widget.request("insert_cell", source=code, type="code")
        if answer is None or "error" in answer:
            self._toast("This front end does not let the panel add cells. Copy the code into a cell.", "warning")


def _message(request: protocol.Prompt) -> UserMessage:
    return UserMessage(content=[TextContent(text=request.text), *request.images])


def _model_name(session: AgentSession) -> str:
    return session.model.name if session.model is not None else "no model"


def _notice(text: str) -> str:
    return blocks.notice(text)["text/html"]


def _newest(newest_first: Iterable[Message]) -> list[Message]:
    """The newest messages, oldest first: as many as fit into a page, and one at least."""
    newest: list[Message] = []
    size = 0
    for message in islice(newest_first, _MAX_HISTORY_MESSAGES):
        size += len(dump(message))
        if newest and size > _MAX_HISTORY_CHARACTERS:
            break
        newest.append(message)
    return newest[::-1]


def _commands(session: AgentSession) -> list[protocol.Command]:
    return [
        {"name": each["name"], "description": each.get("description") or "", "source": each["source"]}
        for each in session.list_commands()
    ]


def _tree(store: SessionStore) -> list[protocol.TreeRow]:
    return cast("list[protocol.TreeRow]", tree_rows(store, _MAX_ROWS))


def _shortened(text: str) -> str:
    return textcut.head(text, _MAX_QUEUED_CHARACTERS)


def _waiting(texts: Iterable[str]) -> list[str]:
    return [_shortened(text) for text in islice(texts, _MAX_QUEUED)]
