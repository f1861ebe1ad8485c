"""Editing in place: a user asks at a cell, and what is proposed is shown and answered in the notebook itself.

What this module promises:

- Only what the user accepts changes a cell. A draft, which grows while the model writes it, is for the page to draw.
- A proposal is one dialog of the session, wherever it is shown: the first answer counts, and every place is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from indus_nb.base import textcut
from indus_nb.base.errors import IndusError
from indus_nb.base.events import MessageUpdate, SessionEvent
from indus_nb.base.messages import ImageContent, ToolCall, going_along
from indus_nb.base.streaming import GrowingMessage, ToolCallDelta, ToolCallEnd, ToolCallStart
from indus_nb.core.session.dialogs import Cancel, Confirm, DialogChanged, Select, UiFrame
from indus_nb.core.session.questions import Choice, Question
from indus_nb.front.notebook.door import messages
from indus_nb.kernel.document.in_place import ASKED_AT, AskedAt, PlacedCell, drafted
from indus_nb.render.markup import plain
from indus_nb.tools import ToolError

if TYPE_CHECKING:
    from indus_nb.core.session.session import AgentSession

_DRAFT_SECONDS = 0.1
"""Time between two messages about a draft that grows."""
_MAX_DRAFT_CHARACTERS = 100_000
_MAX_TEXT_CHARACTERS = 4_000
_MAX_HEADING_CHARACTERS = 300
_TOOL = "propose_cell"
_YES, _NO = "Yes", "No"
_CHANGE = (
    "The user asks this at the cell with id {}, which stands below. Call propose_cell once, with replace={} and its "
    "whole new source. Answer in words only if no change of it can be what is wanted.\n\n{}"
)
_NEW = (
    "The user asks this below the cell with id {}, which stands here. Call propose_cell once, with the new cells that "
    "come below it. Answer in words only if no cell can be what is wanted.\n\n{}"
)
_FAILED = "That could not be asked."
_BUSY = "The agent is at work. Ask again when it has finished, or stop it first."
_WAITS = "The agent waits for your answer to “{}”. Answer that, and ask again."


class Editing:
    """What one page shows of the proposals of a session, and what its user asks there; on the agent's thread."""

    def __init__(
        self,
        send: Callable[[messages.ToDoor], None],
        cell_shown: Callable[[str], Awaitable[tuple[str, list[ImageContent]]]],
    ) -> None:
        """Create it, without a session.

        Args:
            send: Sends the page a message.
            cell_shown: Writes a cell by its id, as the model reads it, with its images; raises ``ToolError``.
        """
        self._send = send
        self._cell_shown = cell_shown
        self._session: AgentSession | None = None
        self._detach: Callable[[], None] = lambda: None
        self._shown: set[str] = set()
        self._asked: AskedAt | None = None
        self._drafts: _Drafts | None = None

    def attach(self, session: AgentSession | None) -> None:
        """Show the proposals of a session, also those that wait already, in the place of another's."""
        if session is self._session:
            return
        self._detach()
        for dialog_id in (*self._shown,):
            self._close(dialog_id)
        self._session = session
        self._detach = session.ui.attach(self._show) if session is not None else lambda: None

    async def ask(
        self, request: messages.Edit | messages.NewCells, session_at: Callable[[str], Awaitable[AgentSession]]
    ) -> None:
        """Ask for another source of a cell, or for new ones, and say when that is over and what the model said.

        Cancelling it ends the request; what it proposed is gone.

        Args:
            session_at: Opens the session for a cell's id; may raise ``IndusError``.
        """
        at = AskedAt(request.id, request.cell, isinstance(request, messages.Edit))
        failed, said = True, _FAILED
        try:
            session = await session_at(at.cell)
            self.attach(session)
            said = await self._run(session, at, request.instruction)
            failed = False
        except (IndusError, ToolError) as error:
            said = str(error)
        finally:
            text = plain(textcut.head(said, _MAX_TEXT_CHARACTERS))
            self._send({"kind": "edit_over", "id": request.id, "text": text, "failed": failed})

    async def _run(self, session: AgentSession, at: AskedAt, instruction: str) -> str:
        if self._asked is not None or session.is_running:
            raise ToolError(_why_not_now(session))
        self._asked, self._drafts = at, _Drafts(at, self._send)
        unsubscribe = session.subscribe(self._drafts.watch)
        token = ASKED_AT.set(at)
        try:
            shown, images = await self._cell_shown(at.cell)
            text = _CHANGE.format(at.cell, at.cell, shown) if at.changes else _NEW.format(at.cell, shown)
            await session.prompt(instruction, images, attachments=[going_along("the cell", text)])
            answer = session.answer_or_raise()
        finally:
            ASKED_AT.reset(token)
            unsubscribe()
            self._drafts.close()
            self._asked = self._drafts = None
        return answer.text

    def settle(self, request: messages.Settle) -> None:
        """Answer a proposal, or a question of a request."""
        if self._session is None or request.id not in self._shown:
            return
        self._shown.discard(request.id)
        is_confirm = any(isinstance(each, Confirm) and each.id == request.id for each in self._session.ui.open_dialogs)
        answer = request.answer == _YES if is_confirm and request.answer is not None else request.answer
        if not self._session.ui.answer(request.id, answer, request.reason):
            self._send({"kind": "review_over", "id": request.id})

    def _show(self, frame: UiFrame) -> None:
        match frame:
            case Select():
                self._review(frame)
            case DialogChanged(dialog=dialog):
                self._review(dialog)
            case Confirm() if self._asked is not None:
                choices = [Choice(_YES, "yes"), Choice(_NO, "no")]
                self._open(frame.id, Question(frame.title, choices, body=frame.message))
            case Cancel(target_id=dialog_id):
                self._close(dialog_id)
            case _:
                pass

    def _review(self, frame: Select) -> None:
        question = None if self._session is None else self._session.ui.question(frame.id)
        if question is None:
            question = Question(frame.title, [Choice(option, "yes") for option in frame.options])
        if question.subject or self._asked is not None:
            self._open(frame.id, question)

    def _open(self, dialog_id: str, question: Question) -> None:
        """Show a question: what it proposes in its place, anything else as text."""
        self._shown.add(dialog_id)
        placed = cast("Sequence[PlacedCell]", question.subject or ())
        text = "" if placed else question.text().partition("\n")[2].strip()
        self._send(
            {
                "kind": "review",
                "id": dialog_id,
                "request": None if self._asked is None else self._asked.request,
                "heading": textcut.head(plain(question.heading), _MAX_HEADING_CHARACTERS),
                "text": plain(textcut.middle(text, _MAX_TEXT_CHARACTERS, "\n…\n")),
                "cells": [_cell(each) for each in placed],
                "choices": [
                    {
                        "value": choice.option,
                        "label": choice.label or choice.option,
                        "kind": choice.kind,
                        "key": key,
                    }
                    for choice, key in zip(question.choices, question.keys, strict=True)
                ],
                "default": question.default,
                "reason": question.takes_reason,
            }
        )

    def _close(self, dialog_id: str) -> None:
        if dialog_id in self._shown:
            self._shown.discard(dialog_id)
            self._send({"kind": "review_over", "id": dialog_id})


class _Drafts:
    """Sends what a run proposes while the model writes it."""

    def __init__(self, at: AskedAt, send: Callable[[messages.ToDoor], None]) -> None:
        self._at = at
        self._send = send
        self._index: int | None = None
        self._growing: GrowingMessage | None = None
        self._later: asyncio.TimerHandle | None = None
        self._left = _MAX_DRAFT_CHARACTERS

    def watch(self, event: SessionEvent) -> None:
        if not isinstance(event, MessageUpdate):
            return
        match event.assistant_message_event:
            case ToolCallStart(content_index=index, tool_name=name) if name == _TOOL:
                self._index, self._growing = index, event.growing
            case ToolCallDelta(content_index=index, delta=delta) if index == self._index:
                self._left -= len(delta)
                if self._left > 0:  # each draft is read from the beginning
                    self._later = self._later or asyncio.get_running_loop().call_later(_DRAFT_SECONDS, self._draw)
            case ToolCallEnd(content_index=index) if index == self._index:
                self.close()
                self._draw(done=True)
                self._index = None
            case _:
                pass

    def _draw(self, *, done: bool = False) -> None:
        self._later = None
        if self._growing is None or self._index is None:
            return
        call = self._growing.block(self._index)
        cells = drafted(call.arguments, self._at) if isinstance(call, ToolCall) else []
        self._send({"kind": "draft", "id": self._at.request, "cells": [_cell(each) for each in cells], "done": done})

    def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None


def _why_not_now(session: AgentSession) -> str:
    """Say why nothing can be asked while a run goes on, which may wait for the user."""
    waiting = session.ui.headings()
    return _WAITS.format(textcut.one_line(waiting[0], _MAX_HEADING_CHARACTERS)) if waiting else _BUSY


def _cell(placed: PlacedCell) -> messages.ShownCell:
    return cast("messages.ShownCell", asdict(placed))
