"""The door of one notebook: what the front-end extension sees of its conversation, and what it asks of it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from indus_nb.base import textcut
from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.events import MessageUpdate, SessionEvent
from indus_nb.base.messages import Attachment, ImageContent
from indus_nb.base.wire import JsonObject, dump
from indus_nb.front.notebook.door import messages
from indus_nb.front.notebook.door.editing import Editing
from indus_nb.front.notebook.page import protocol
from indus_nb.front.notebook.page.outdated import outdated_values
from indus_nb.front.notebook.page.requests import PageRequests
from indus_nb.front.verbs.session_verbs import NewSession
from indus_nb.kernel.cell_ids import ORIGIN, Origin
from indus_nb.start.key_setup import needs_key

if TYPE_CHECKING:
    from indus_nb.core.session.session import AgentSession
    from indus_nb.front.notebook.panel.chat_panel import ChatPanel
    from indus_nb.kernel.claims import OutdatedAnswers, Show
    from indus_nb.kernel.run.agent_thread import AgentThread

_MAX_QUESTION = 200
_PAGE_SECONDS = 10
_WRITES_SECONDS = 60.0
"""Time for a page to answer whether it is there."""
_MAX_VARIABLES = 500
_FAILED = "That failed for a reason of the program's own"

_log = logging.getLogger("indus_nb")


class Host(Protocol):
    """The conversations of a kernel, as doors use them."""

    @property
    def thread(self) -> AgentThread:
        """Return the thread of the agent."""
        ...

    def spent_today(self) -> float:
        """Return what requests of the user's kernels have cost today, in US dollars."""
        ...

    def note_shown(self, shown: messages.Shows, before: messages.Shows | None) -> None:
        """Note of which notebook a connection is, and what the same page said of it before."""
        ...

    def session_of(self, shown: messages.Shows) -> AgentSession | None:
        """Return the open conversation of a notebook, or ``None``."""
        ...

    def asks_rows(self, shown: messages.Shows) -> bool:
        """Return whether a cell of a notebook asks rows now, without a conversation."""
        ...

    def panel_of(self, shown: messages.Shows) -> ChatPanel:
        """Return the chat panel of a notebook's conversation, which is opened if it is not open.

        Called in a thread of its own.

        Raises:
            IndusError: It cannot be opened.
        """
        ...

    def check_recorded(self, session: AgentSession) -> None:
        """Raise ``UsageError`` if a session must not be asked now: it was opened before the cassette in use."""
        ...

    def variables(self) -> Mapping[str, str]:
        """Return the names of the user's variables, the newest last, each with the name of its class."""
        ...

    def prompt_about_error(self, asked: messages.AskAboutError) -> tuple[str, Attachment]:
        """Return the prompt about an error that a page shows, and what goes along with it for the model."""
        ...

    def watch_values(self, show: Show, /) -> Callable[[], None]:
        """Have the values in answers shown that do not hold, until what this returns is called."""
        ...

    async def check_values(self) -> None:
        """Compute the stale values of answers again.

        Raises:
            UsageError: A cell of the user's runs.
        """
        ...

    def open_panel_of(self, session: AgentSession) -> ChatPanel | None:
        """Return the chat panel of a conversation, if there is one."""
        ...

    def ended_run(self, widget: str) -> JsonObject | None:
        """Return what a page is to be asked for the widget of a run that is over; see `EndedRuns.of`."""
        ...

    async def cell_shown(self, cell_id: str) -> tuple[str, list[ImageContent]]:
        """Write a cell as the page that asks shows it, with its images; raises ``ToolError`` if it does not."""
        ...


class Door:
    """One open comm of the extension, used on the agent's thread."""

    def __init__(self, comm: Any, host: Host) -> None:
        """Create the door of a comm, which is for no notebook before the page says for which."""
        self.comm_id: str = comm.comm_id
        self._comm = comm
        self._host = host
        self._shown: messages.Shows | None = None
        self._session: AgentSession | None = None
        self._endings: list[Callable[[], object]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent: messages.State | None = None
        self._has_panel = False
        self._is_silent = False
        self._requests = PageRequests(lambda request: self._post({"kind": "ask_page", "request": request}))
        self._editing = Editing(self._post, host.cell_shown)
        self._edits: dict[str, asyncio.Task[None]] = {}
        self._outdated: list[messages.OutdatedCell] = []
        self._has_problem = False
        """Whether the page says why these were not computed again."""
        self._watching: Callable[[], None] | None = None
        self._opening = asyncio.Lock()
        self._own: Mapping[type, Callable[[Any], object]] = {
            messages.Shows: self._show,
            messages.Leaves: lambda _: self.leave(),
            messages.OpenPanel: lambda _: self._start(self._open_panel),
            messages.Prompt: lambda asked: self._ask(protocol.Prompt(kind="prompt", text=asked.text)),
            messages.Stop: self._stop,
            messages.NewConversation: lambda _: self._ask(NewSession()),
            messages.AskAboutError: self._ask_about_error,
            messages.Insert: lambda given: self._start(partial(self._insert, given.text)),
            messages.ListVariables: self._list_variables,
            messages.Missed: lambda missed: self._start(partial(self._bring, missed.widgets)),
            messages.Edit: self._edit,
            messages.NewCells: self._edit,
            messages.Settle: self._editing.settle,
            messages.Drop: self._drop,
            messages.CheckValues: lambda _: self._start(self._check_values),
            messages.PageReply: lambda reply: self._requests.take(reply.id, reply.value),
        }

    @property
    def client(self) -> str | None:
        """Return the id that the notebook has for its connection to the kernel."""
        return None if self._shown is None else self._shown.client

    @property
    def path(self) -> str | None:
        """Return where the notebook lies, below the directory of Jupyter's server."""
        return None if self._shown is None else self._shown.path

    async def request(
        self,
        what: str,
        *,
        timeout: float = 3,  # noqa: ASYNC109 - the page may be gone
        **payload: Any,
    ) -> JsonObject | None:
        """Send the page a request, and await its reply; see `AgentWidget.request`.

        A page that gives none may be gone, which pages do not say. It is asked again once it has sent something.
        """
        answer = None if self._is_silent else await self._requests.ask(what, payload, timeout)
        self._is_silent = answer is None
        return answer

    async def is_there(self) -> bool:
        """Return whether the page answers, which one that has gone away does not."""
        if self._is_silent:
            return False
        return await self._requests.ask("run_cells", {"cells": []}, _PAGE_SECONDS) is not None

    def receive(self, content: object) -> None:
        """Carry out a message of the extension; may be called on any thread."""
        self._host.thread.call(partial(self._handle, content))

    def _handle(self, content: object) -> None:
        try:
            message = messages.parse(content)
        except protocol.RejectedError as error:
            _log.warning("A message of the notebook extension was rejected: %s", error)
            self._send(f"The kernel did not understand this page: {error}")
            return
        self._is_silent = False
        self._own[type(message)](message)

    def refresh(self) -> None:
        """Follow the conversation that the notebook has now."""
        session = None if self._shown is None else self._host.session_of(self._shown)
        if session is not self._session:
            self._leave()
            self._session = session
            self._editing.attach(session)
            if session is not None:
                self._endings += [
                    session.subscribe(self._on_event, self._on_closed),
                    session.ui.watch_dialogs(self._update),
                ]
                if self._has_panel:
                    self._start(self._open_panel)
        self._update()

    def leave(self) -> None:
        """Show nothing and answer nothing any more, for the page is gone; what it has asked for goes on."""
        self._shown, self._is_silent = None, True
        self._stop_watching()
        self.refresh()

    def forget(self) -> None:
        """Leave, and close the comm: a page that is there after all opens another."""
        self.leave()
        self._comm.close()

    def close(self) -> None:
        """Leave the conversation, which goes on."""
        self._leave()
        self._stop_watching()
        self._editing.attach(None)
        self._edits.clear()  # their ends are nothing to tell
        for task in self._tasks:
            task.cancel()

    def _leave(self) -> None:
        while self._endings:
            self._endings.pop()()
        self._session = None

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching()
            self._watching = None

    def _start(self, work: Callable[[], Any]) -> asyncio.Task[None]:
        async def carry_out() -> None:
            try:
                await work()
            except IndusError as error:
                self._send(textcut.one_line(str(error), 2_000))
            except Exception as error:  # noqa: BLE001 - only the page waits for this, and it shows no traceback
                _log.debug("A request of the notebook extension failed", exc_info=True)
                self._send(textcut.one_line(f"{_FAILED}: {type(error).__name__}: {error}", 2_000))

        task = asyncio.get_running_loop().create_task(carry_out(), context=copy_context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _open_panel(self) -> ChatPanel | None:
        if self._shown is None:
            return None
        async with self._opening:  # what is asked at once meets in one conversation
            panel = await asyncio.to_thread(self._host.panel_of, self._shown)
        self._has_panel = True
        self.refresh()
        return panel

    def _show(self, shown: messages.Shows) -> None:
        self._host.note_shown(shown, self._shown)
        self._shown = shown
        self.refresh()
        self._send(None, again=True)
        self._stop_watching()
        self._outdated = []
        self._watching = self._host.watch_values(self._show_outdated)

    def _ask(self, request: protocol.PanelRequest) -> None:
        self._start(partial(self._ask_panel, request))

    def _stop(self, _: object) -> None:
        if self._session is not None:
            self._ask(protocol.Stop(kind="stop"))

    def _ask_about_error(self, asked: messages.AskAboutError) -> None:
        words, along = self._host.prompt_about_error(asked)
        prompt = protocol.Prompt(kind="prompt", text=words)
        prompt.attach(along=[along])
        self._ask(prompt)

    async def _ask_panel(self, request: protocol.PanelRequest) -> None:
        panel = await self._open_panel()
        if panel is not None:
            ORIGIN.set(Origin(widget=panel.page.comm_id))
            panel.receive(request)

    def _edit(self, request: messages.Edit | messages.NewCells) -> None:
        task = self._edits[request.id] = self._start(partial(self._editing.ask, request, self._session_at))
        task.add_done_callback(lambda _: self._forget_edit(request.id))
        self._update()

    def _forget_edit(self, request: str) -> None:
        if self._edits.pop(request, None) is not None:
            self._update()

    def _drop(self, request: messages.Drop) -> None:
        """End a request whose user has gone on to something else, also one that has not begun yet."""
        if (task := self._edits.get(request.id)) is not None:
            task.cancel()

    async def _session_at(self, cell: str) -> AgentSession:
        """Return the conversation for what is asked at a cell, which is opened if it is not open."""
        await self._open_panel()
        if self._session is None or self._shown is None:
            raise UsageError("The page has not said which notebook it shows.")
        self._host.check_recorded(self._session)
        ORIGIN.set(Origin(cell, self._shown.client))
        return self._session

    async def _insert(self, text: str) -> None:
        panel = await self._open_panel()
        if panel is not None:
            panel.insert(text)

    def _list_variables(self, _: object) -> None:
        newest_first = [*self._host.variables().items()][::-1]
        listed: list[messages.Variable] = [{"name": name, "type": kind} for name, kind in newest_first[:_MAX_VARIABLES]]
        self._post({"kind": "variables", "variables": listed})

    async def _bring(self, widgets: Sequence[str]) -> None:
        for widget in widgets:
            if (run := self._host.ended_run(widget)) is not None:
                await self._requests.ask("show_run", run, _WRITES_SECONDS)  # a large notebook is slow, not gone

    def _show_outdated(self, answers: Sequence[OutdatedAnswers]) -> None:
        outdated: list[messages.OutdatedCell] = [
            {"cell": each.cell, "outdated": outdated_values(each.values, in_cell=True)}
            for each in answers
            if each.cell is not None
        ]
        if outdated != self._outdated or self._has_problem:
            self._outdated, self._has_problem = outdated, False
            self._post({"kind": "outdated", "cells": outdated, "problem": ""})

    async def _check_values(self) -> None:
        problem, before = "", self._outdated
        try:
            await self._host.check_values()
        except IndusError as error:
            problem = textcut.one_line(str(error), 2_000)
        self._has_problem = bool(problem)
        if problem or self._outdated is before:
            self._post({"kind": "outdated", "cells": self._outdated, "problem": problem})

    def _on_event(self, event: SessionEvent) -> None:
        if not isinstance(event, MessageUpdate):
            self._update()

    def _on_closed(self) -> None:
        self._endings.clear()

    def _update(self) -> None:
        self._send(None)

    def _send(self, error: str | None, *, again: bool = False) -> None:
        state = self._state(error)
        if again or state != self._sent:
            self._sent = state
            self._post(state)

    def _post(self, message: messages.ToDoor) -> None:
        self._comm.send(json.loads(dump(message)))  # without half characters, which no page could be sent

    def _state(self, error: str | None) -> messages.State:
        session = self._session
        panel = None if session is None else self._host.open_panel_of(session)
        model = None if session is None else session.model
        asked = () if session is None else session.ui.open_dialogs
        running = session is not None and (session.is_running or session.is_compacting)
        running = running or (self._shown is not None and self._host.asks_rows(self._shown))
        return {
            "kind": "state",
            "phase": "asking" if asked else "working" if running or self._edits else "idle",
            "question": textcut.one_line(asked[0].title, _MAX_QUESTION) if asked else None,
            "jobs": 0 if session is None or session.settings.jobs is None else len(session.settings.jobs.running),
            "cost_today": None if self._shown is None else self._host.spent_today(),
            "model": None if model is None else model.name,
            "needs_key": session is not None and needs_key(session),
            "panel": None if panel is None else panel.page.comm_id,
            "session": None if session is None else session.store.session_id,
            "error": error,
        }
