"""Requests of a panel's pages, and their dispatch.

Each request runs in a task of its own on the agent's thread. Errors are shown in the panel.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, cast
from uuid import uuid4

from indus_nb.base.errors import CompactionError, CredentialsError, IndusError, UsageError
from indus_nb.base.messages import ImageContent, Message, TextContent, ThinkingLevel, UserMessage, text_of
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.dialogs import Notify, NotifyType, SetEditorText, UiFrame, asked_in
from indus_nb.core.session.queues import Disposition
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage import SessionInfo
from indus_nb.front.notebook import actions
from indus_nb.front.notebook.key_form import KeyForm
from indus_nb.front.notebook.page import protocol, states
from indus_nb.front.notebook.page.widget import AgentWidget
from indus_nb.front.notebook.panel import composing, dropped_files, session_state
from indus_nb.front.notebook.panel.surroundings import Surroundings
from indus_nb.front.notebook.plan_first import plan_first
from indus_nb.front.notebook.taking_back import TakingBack
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.transcript import Prose, Transcript
from indus_nb.front.verbs import Call, Verb
from indus_nb.front.verbs.prompt_verbs import Abort
from indus_nb.front.verbs.session_verbs import Compact, ListSessions, NewSession, SwitchSession
from indus_nb.front.verbs.tree_verbs import Fork, NavigateTree
from indus_nb.kernel.toolset.long_code import code_of, stop_code
from indus_nb.render import markup
from indus_nb.render.session_page import page_name, session_page
from indus_nb.render.tree import cut
from indus_nb.tools.truncate import size_text

CLOSED = "This conversation was closed. Open it again with %agent --session, and a panel for it."
_MAX_TASKS = 64
_MAX_DOWNLOAD_CHARACTERS = 20_000_000

_log = logging.getLogger("indus_nb")


class PanelRequests:
    """Dispatcher for the requests of one panel's pages.

    Attributes:
        shows_tree: Whether a page has asked for the tree, which is kept up to date from then on.
        plans: Whether the next prompt is planned first.
        preparing: How many prompts are on their way to the session.
        undo: Undoes the changes of the session's calls, where they are known.
    """

    def __init__(
        self,
        widget: AgentWidget,
        transcript: Transcript,
        show: Callable[[UiFrame], None],
        show_problems: Callable[[AgentSession], None],
        changed: Callable[[], None],
        surroundings: Surroundings | None,
    ) -> None:
        """Create the dispatcher, and the form for a key.

        Args:
            show_problems: Shows problems of a session that were not shown yet.
            changed: Called when the panel is to be drawn again.
        """
        self.shows_tree: bool = False
        self.plans: bool = False
        self.preparing: int = 0
        self.undo: TakingBack | None = None
        self.keys: KeyForm = KeyForm(widget, self.start_task)
        self._widget = widget
        self._transcript = transcript
        self._surroundings = surroundings
        self._show = show
        self._show_problems = show_problems
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()
        self._listed: set[str] = set()
        self._downloads = 0
        self._completing: protocol.Complete | None = None
        # What a panel does in a way of its own; other verbs it carries out as they are.
        self._own: Mapping[type, Callable[[AgentSession, Any], Awaitable[None]]] = {
            protocol.Stop: self._stop,
            protocol.AnswerDialog: self._answer,
            protocol.ToCell: self._to_cell,
            protocol.Unqueue: self._unqueue,
            protocol.Undo: self._undo,
            protocol.Export: self._export,
            protocol.ShowTree: self._show_tree,
            protocol.Switch: self._switch_mode,
            protocol.Complete: self._complete,
            protocol.SaveFile: self._save,
            protocol.CopyAnswer: self._copy,
            protocol.CheckValues: self._check_values,
            protocol.GiveKey: self._take_key,
            Abort: self._abort,
            Compact: self._compact,
            Fork: self._fork,
            ListSessions: self._list_sessions,
            NewSession: self._new,
            NavigateTree: self._navigate,
            SwitchSession: self._switch,
        }

    def _toast(self, text: str, kind: NotifyType = "error") -> None:
        self._show(Notify(id=uuid4().hex, message=text, notify_type=kind))

    def _compose(self, text: str) -> None:
        self._show(SetEditorText(id=uuid4().hex, text=text))

    def receive(self, session: AgentSession | None, request: protocol.PanelRequest) -> None:
        """Dispatch a request.

        Args:
            session: The panel's session; ``None`` when the panel has detached from it.
        """
        ends = isinstance(request, protocol.AnswerDialog | protocol.Stop | Abort)
        if session is not None and not session.closed and (ends or len(self._tasks) < _MAX_TASKS):
            self.start_task(self._carry_out(session, request))
            return
        if isinstance(request, protocol.Prompt):
            self._put_back([_message(request)])
        is_over = session is None or session.closed
        self._toast(CLOSED if is_over else "Too much is asked for at once. Wait until some of it is done.")

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Start ``work`` as a task, and show its errors in the panel."""
        task = asyncio.get_running_loop().create_task(self._report_failure(work), name="indus_nb panel request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report_failure(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except IndusError as error:
            self._toast(str(error))
        except Exception as error:  # noqa: BLE001 - only the page waits for this, and it shows no traceback
            _log.debug("A request of a page failed", exc_info=True)
            self._toast(f"That failed for a reason of the program's own: {type(error).__name__}: {error}")
        self._changed()

    async def _carry_out(self, session: AgentSession, request: protocol.PanelRequest) -> None:
        if isinstance(request, protocol.Prompt):
            await self._prompt(session, request)  # what its run asks may be answered wherever that is shown
            return
        if isinstance(request, protocol.SendQueued):
            if self.plans:
                raise UsageError("Plan is on: the next prompt is planned first. Switch it off, or send a new prompt.")
            await session.send_queued(partial(self._accept, session))
            return
        with asked_in(self._show):
            await self._do(session, request)

    async def _do(self, session: AgentSession, request: protocol.PanelRequest) -> None:
        own = self._own.get(type(request))
        if own is not None:
            await own(session, request)
        elif isinstance(request, Verb):
            await self._run(session, request)

    async def _run(self, session: AgentSession, verb: Verb) -> bool:
        """Carry out a verb, and compose the text that it gives back; returns whether an extension let it be done."""
        result = verb.run(Call(session=session))
        if asyncio.iscoroutine(result):
            result = await result
        given = cast("JsonObject", result) if isinstance(result, dict) else {}
        self._report_move(actions.Moved(not given.get("cancelled"), given.get("editorText")))
        return not given.get("cancelled")

    async def _prompt(self, session: AgentSession, request: protocol.Prompt) -> None:
        accepted = plans = False
        self.preparing += 1

        def accept(disposition: Disposition = "handled") -> None:
            nonlocal accepted
            accepted = True
            self.preparing -= 1
            self._accept(session, disposition)

        # A user who sends to a session that another view has just started does not mean to interrupt it.
        joins = "steer" if request.how == "steer" else "followUp"
        try:
            offered = composing.offered_commands(self._surroundings)
            if not request.images and (command := composing.command_of(request.text, session, offered)):
                with asked_in(self._show):
                    await self._command(session, *command)
                accept()
                return
            if self._surroundings is not None:
                self._surroundings.check_prompt(session)
            self._changed()
            written, cells = await composing.written_out(request.text, self._surroundings, literal=request.literal)
            attached = [*cells, *written.beside, *request.along]
            for note in written.notes:
                self._toast(note, "info")
            if self.plans and not session.is_running:
                plans, self.plans = True, False
                await plan_first(session, written.text, request.images, attachments=attached, on_accepted=accept)
            else:
                await session.prompt(
                    written.text, request.images, attachments=attached, streaming_behavior=joins, on_accepted=accept
                )
        except CredentialsError:
            if not self.keys.note_unsent(session):
                raise
        finally:
            if not accepted:
                self.plans = self.plans or plans
                self.preparing -= 1
                self._put_back([_message(request)])

    def _accept(self, session: AgentSession, disposition: Disposition) -> None:
        self._widget.set(warning=None)
        self._show_problems(session)  # the answer to a question may have brought new ones
        if disposition == "started" and (before := actions.unanswered(session)):
            self._transcript.add_notice(before)

    async def _command(self, session: AgentSession, name: str, argument: str) -> None:
        """Run a slash command; some of them are handled by pages."""
        match name:
            case "new":
                await self._do(session, NewSession())
            case "name":
                await session.set_name(argument)
            case "compact":
                await self._do(session, Compact(custom_instructions=argument or None))
            case "help":
                self._add(blocks.listing(composing.help_text(composing.commands(session, self._surroundings))))
            case "sessions" | "tree" | "export":
                raise UsageError(f"/{name} takes nothing behind it.")
            case "model" | "thinking" if self._surroundings is None:
                await _choose(session, name, argument)
            case _ if self._surroundings is not None:
                self._add({"text/html": await self._surroundings.carry_out(session, name, argument)})
            case _:
                raise UsageError(f"/{name} needs a kernel, which this panel does not have.")

    def _add(self, bundle: MimeBundle) -> None:
        self._transcript.add_line(bundle)
        self._changed()

    async def _abort(self, session: AgentSession, request: Abort) -> None:
        self._put_back(await actions.clear_queue(session))
        await self._stop(session, request)

    async def _stop(self, session: AgentSession, _: object) -> None:
        runs = session.is_running or session.is_compacting
        ends_code = not runs and bool(code_of(session))
        self._widget.set(stopping=runs or ends_code)
        self._changed()
        await (stop_code(session) if ends_code else session.abort())
        self._widget.set(stopping=False)  # what follows at once can be stopped as well

    async def _unqueue(self, session: AgentSession, request: protocol.Unqueue) -> None:
        queue = session.steering if request.queue == "steering" else session.follow_up_queue
        shown = [session_state.shortened(text) for text in queue.texts]
        # Deliveries since the page was drawn have moved it to the front.
        places = [at for at in range(min(request.index, len(shown) - 1), -1, -1) if shown[at] == request.text]
        if not places:
            self._toast("That message was delivered, or taken back, just before.", "info")
            return
        self._put_back([await session.unqueue("steer" if request.queue == "steering" else "followUp", places[0])])

    def _put_back(self, messages: Iterable[Message]) -> None:
        """Return undelivered messages to the composer."""
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

    async def _navigate(self, session: AgentSession, request: NavigateTree) -> None:
        session_id = session.store.session_id
        if await self._run(session, request):
            await self._offer_undo(session, session_id)

    async def _fork(self, session: AgentSession, request: Fork) -> None:
        session_id = session.store.session_id
        moved = await actions.fork(session, request.entry_id)
        self._report_move(moved)
        if moved.done:
            await self._offer_undo(session, session_id)

    async def _offer_undo(self, session: AgentSession, session_id: str) -> None:
        """Ask whether to restore variables and files, too, once the conversation stands elsewhere."""
        if self.undo is not None and (notice := await self.undo.offer(session, session_id)):
            self._toast(notice, "info")

    async def _undo(self, session: AgentSession, _: object) -> None:
        if self.undo is None:
            self._toast("This panel knows no steps of a kernel. One opened with %agent panel does.", "warning")
        elif notice := await self.undo.ask(session):
            self._toast(notice, "info")

    async def _switch_mode(self, session: AgentSession, request: protocol.Switch) -> None:
        if request.mode == "cells":
            session.settings.cells = request.on
        else:
            self.plans = request.on

    async def _new(self, session: AgentSession, _: object) -> None:
        await self._run(session, NewSession())  # a page knows no session that it could be a part of

    async def _compact(self, session: AgentSession, request: Compact) -> None:
        with contextlib.suppress(CompactionError):  # the session's event says why
            await self._run(session, request)

    async def _switch(self, session: AgentSession, request: SwitchSession) -> None:
        if request.session_path not in self._listed:
            self._toast("That session is not in the list. Open the list again, and choose one.")
            return
        await self._run(session, request)

    async def _export(self, session: AgentSession, _: object) -> None:
        store = session.store
        name = page_name(store)
        page = await asyncio.to_thread(session_page, store)
        if len(page) > _MAX_DOWNLOAD_CHARACTERS:
            written = await asyncio.to_thread(actions.export, store)
            self._toast(f"The page is too large for the browser. It was saved as {written.path}.", "info")
            return
        self._downloads += 1
        self._widget.set(download={"name": name, "html": page, "n": self._downloads})

    async def _list_sessions(self, session: AgentSession, _: object) -> None:
        store = session.store
        here = await actions.sessions_here(store)
        self._listed = {str(info.path) for info in here}
        notebooks = await asyncio.to_thread(actions.notebook_names)
        listed: list[states.SessionRow] = [
            {
                "path": str(info.path),
                "name": " · ".join(filter(None, (notebooks.get(str(info.path)), _title(info)))),
                "modified": info.modified,
                "messages": info.message_count,
                "current": store.is_at(info.path),
            }
            for info in here
        ]
        self._widget.set(sessions=listed)

    async def _show_tree(self, session: AgentSession, _: object) -> None:
        self.shows_tree = True
        self._widget.set(tree=session_state.tree(session.store))

    async def _complete(self, session: AgentSession, request: protocol.Complete) -> None:
        self._completing = request
        items = await composing.completions(request.text, session, self._surroundings)
        if self._completing is not request:
            return  # more was typed while files were looked for, and that is answered already
        listed = composing.commands(session, self._surroundings)
        self._widget.set(commands=listed, completions={"text": request.text, "items": items})

    async def _copy(self, _: AgentSession, request: protocol.CopyAnswer) -> None:
        """Send an answer's Markdown source to the page."""
        wanted = request.block.partition(".")[0]
        for block in self._transcript.blocks:
            if block.key == wanted and isinstance(block, Prose):
                self._widget.set(copied={"block": request.block, "text": markup.markdown_text(block.text, block.live)})

    async def _save(self, session: AgentSession, request: protocol.SaveFile) -> None:
        """Save a dropped file, and put its path into the composer."""
        content = dropped_files.content(request.data)
        directory = session.store.cwd
        name = dropped_files.safe_name(request.name)
        message = (
            f"{name} ({size_text(len(content))}) is to be attached. It is saved in {directory}; no file is replaced."
        )
        if await session.ui.confirm(f"Save {name} in the working directory?", message):
            path = await asyncio.to_thread(dropped_files.save, directory, name, content)
            self._widget.insert(f"@{path.name}")

    async def _to_cell(self, _: AgentSession, request: protocol.ToCell) -> None:
        if not await self._widget.insert_cell(request.code):
            self._toast("This front end does not let the panel add cells. Copy the code into a cell.", "warning")

    async def _check_values(self, _session: AgentSession, _: object) -> None:
        if self._surroundings is not None:
            await self._surroundings.check_values()
            self._widget.send_again("outdated")

    async def _take_key(self, session: AgentSession, request: protocol.GiveKey) -> None:
        if (taken := await self.keys.take(session.registry, session, request)) is not None:
            self._add(blocks.notice(taken))

    async def _answer(self, session: AgentSession, request: protocol.AnswerDialog) -> None:
        session.ui.answer(request.id, request.value, request.reason)


async def _choose(session: AgentSession, name: str, argument: str) -> None:
    """Choose a model or a thinking level by its name."""
    if name == "model":
        await session.set_model(session.registry.find(argument))
        return
    levels = session.model.thinking_levels if session.model is not None else ()
    if argument not in levels:
        raise UsageError(f"/thinking takes one of these: {', '.join(levels)}.")
    await session.set_thinking_level(cast("ThinkingLevel", argument))


def _message(request: protocol.Prompt) -> UserMessage:
    return UserMessage(content=[TextContent(text=request.text), *request.images])


def _title(info: SessionInfo) -> str:
    return cut(info.name or info.first_message) or "(nothing said yet)"
