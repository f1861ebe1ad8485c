"""The cells that asked for the last turns of each session, so that running one again replaces them.

Replaced turns stay in the tree: the conversation continues from before them, and from before what was told with their
prompts, so that it is told anew. That is done only if the same cell is run again, and no message was added to that
session since. The session itself records the cell, in entries that no model reads: so the next kernel knows it, also
when this one ends in the middle of a turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import cast

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.messages import CustomMessage, UserMessage
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.entries import Entry, as_text
from indus_nb.kernel.cell_ids import CellIds

_TYPE = "notebook_cell"
_SAYS_NOTHING = ("model_change", "thinking_level_change", "label", "session_info", "custom")
_MAX_ID_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class CellExecution:
    """One execution of a cell: the cell's id, that of the request, and a digest of the code, empty if unknown."""

    cell: str
    request: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class _Turns:
    """Turns of one execution of a cell, from what was told with its first prompt on, and whether they are over."""

    execution: CellExecution
    first: str
    over: bool

    def is_of_cell(self, execution: CellExecution | None) -> bool:
        """Return whether another execution is of the same cell."""
        return execution is not None and execution.cell == self.execution.cell

    def is_of_code(self, execution: CellExecution | None) -> bool:
        """Return whether another execution is of the same code, as far as that is known."""
        return execution is None or "" in (execution.code, self.execution.code) or execution.code == self.execution.code

    def data(self) -> JsonObject:
        """Return the turn as the data of its session entry."""
        execution = self.execution
        noted: JsonObject = {"cell": execution.cell, "request": execution.request, "code": execution.code}
        return {**noted, "first": self.first, "over": self.over}


class CellTurn:
    """One turn that a cell asks for. Used on the agent's thread.

    Attributes:
        replaces: Whether the conversation went back before the turns that the cell asked for last.
    """

    def __init__(self, session: AgentSession, execution: CellExecution | None, goes_on: _Turns | None) -> None:
        """Create a turn whose prompt was not sent yet.

        Args:
            execution: The execution that asks, if it is of a cell.
            goes_on: Earlier turns of the same execution.
        """
        self.replaces = False
        self._session = session
        self._store = session.store
        self._execution = execution
        self._first = goes_on.first if goes_on is not None else None

    def note_told(self) -> None:
        """Record that a message which goes before the prompt is in the conversation now: it goes with the turn."""
        self._first = self._first or self._store.leaf_id

    def note_prompt(self) -> None:
        """Record that the prompt is in the conversation now."""
        self.note_told()
        self._note(over=False)

    def note_end(self) -> None:
        """Record the end of the turn, which includes messages that were added meanwhile."""
        if self._session.store is self._store:
            self._note(over=True)

    def _note(self, *, over: bool) -> None:
        if self._execution is not None and self._first is not None:
            turns = _Turns(self._execution, self._first, over)
            with suppress(IndusError):  # whatever stands in the way of that stands in the way of the messages too
                self._store.append("custom", custom_type=_TYPE, data=turns.data())


class CellTurns:
    """Registry of the last turns of each session. Used on the agent's thread, but for ``running``."""

    def __init__(self, cells: CellIds) -> None:
        self._cells = cells

    @property
    def running(self) -> CellExecution | None:
        """Return the execution that is in progress, if the front end identifies its cell."""
        cell, header = self._cells.running, self._cells.request.get("header")
        request: object = header.get("msg_id") if isinstance(header, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if cell is None or not isinstance(request, str) or max(len(cell), len(request)) > _MAX_ID_CHARACTERS:
            return None
        content = self._cells.request.get("content")
        code: object = content.get("code") if isinstance(content, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        digest = hashlib.sha256(code.encode(errors="replace")).hexdigest()[:16] if isinstance(code, str) else ""
        return CellExecution(cell, request, digest)

    @asynccontextmanager
    async def turn(
        self,
        session: AgentSession,
        execution: CellExecution | None,
        *,
        replaces: bool,
        ran_empty: Callable[[], Awaitable[bool]],
        anywhere: bool = False,
    ) -> AsyncGenerator[CellTurn]:
        """Record the turn that is asked for within this context.

        If no prompt is sent after all, the session is where it was.

        Args:
            replaces: Whether to go back before the last turns if an earlier execution of that cell asked for them.
            ran_empty: Asks whether the cell is known to have shown no output when it was run: with other code than
                before it is a new prompt then, whose user saw no answer that it could replace.
            anywhere: Whether the turns may have others behind them, which are left then.

        Yields:
            The turn, whose ``note_told`` and ``note_prompt`` are to be called.

        Raises:
            SessionBusyError: A run is in progress.
            SessionFileError: Unsaved entries cannot be written to the session file.
        """
        store = session.store
        last, left = _last_turns(session), store.leaf_id
        goes_on = last if last is not None and last.execution == execution else None
        turn = CellTurn(session, execution, goes_on)
        earlier = _first_turns(session, execution) if anywhere else last
        if replaces and earlier is not None and goes_on is None and earlier.is_of_cell(execution):
            is_new = not earlier.is_of_code(execution) and await ran_empty()
            turn.replaces = not is_new and not (await session.navigate(earlier.first)).cancelled
        before = store.leaf_id
        try:
            yield turn
        finally:
            if store.leaf_id != before:
                turn.note_end()
            elif turn.replaces and left is not None and session.store is store:
                with suppress(IndusError):
                    await session.navigate(left)


def asking_cell(session: AgentSession) -> str | None:
    """Return the cell that asked for the last turns, by its id and the digest of its code.

    It is not known once another message was added to the session.
    """
    last = _last_turns(session)
    return None if last is None else f"{last.execution.cell} {last.execution.code}"


def _last_turns(session: AgentSession) -> _Turns | None:
    """Return the last turns that a cell asked for, if no message was added to the session since."""
    has_message = False
    for entry in session.store.newest_first():
        if (turns := _turns_in(entry, session)) is not None:
            return None if has_message and turns.over else turns
        if entry.type not in _SAYS_NOTHING:
            has_message = True
        if has_message and not _may_be_of_answer(entry):
            return None
    return None


def _first_turns(session: AgentSession, execution: CellExecution | None) -> _Turns | None:
    """Return the first turns in the conversation that earlier executions of a cell asked for."""
    turns = (_turns_in(entry, session) for entry in session.store.newest_first())
    of_cell = [each for each in turns if each is not None and each.is_of_cell(execution)]
    return of_cell[-1] if of_cell and of_cell[-1].execution != execution else None


def _turns_in(entry: Entry, session: AgentSession) -> _Turns | None:
    """Parse the turns that an entry records; its origin is unknown, so it must name an existing message."""
    data = entry.data if entry.type == "custom" else {}
    held: object = data.get("data") if data.get("customType") == _TYPE else None
    if not isinstance(held, dict):
        return None
    noted = cast("JsonObject", held)
    cell, request, code, first = (as_text(noted.get(key)) for key in ("cell", "request", "code", "first"))
    with suppress(UsageError, ValueError):
        if cell and isinstance(session.store.entry(first).message, UserMessage | CustomMessage):
            return _Turns(CellExecution(cell, request, code), first, noted.get("over") is True)
    return None


def _may_be_of_answer(entry: Entry) -> bool:
    """Return whether an entry may belong to a turn that was cut off, and follow its prompt."""
    if entry.type in ("compaction", "branch_summary"):
        return False
    with suppress(ValueError):
        return not isinstance(entry.message, UserMessage)
    return False
