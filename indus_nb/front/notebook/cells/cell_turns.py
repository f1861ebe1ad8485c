"""Which cell asked for the last turns of each session, so that running it again replaces them.

What is replaced stays in the tree: the conversation goes on from before it. That is done only if the same cell is run
again, and nothing was said in that session since. The session itself holds which cell it was, in entries that no model
reads: so the next kernel knows it, also when this one ends in the middle of a turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import cast

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.messages import UserMessage
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.entries import Entry, as_text
from indus_nb.kernel.cell_ids import CellIds

_TYPE = "notebook_cell"
_SAYS_NOTHING = ("model_change", "thinking_level_change", "label", "session_info", "custom")
_MAX_ID_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class CellExecution:
    """One execution of a cell: the cell's id, and that of the request."""

    cell: str
    request: str


@dataclass(frozen=True, slots=True)
class _Turns:
    """What one execution of a cell has asked, from its first prompt on; and whether that is over."""

    execution: CellExecution
    first: str
    over: bool

    def is_of_cell(self, execution: CellExecution | None) -> bool:
        """Return whether an execution is of the same cell."""
        return execution is not None and execution.cell == self.execution.cell

    def data(self) -> JsonObject:
        """What the session holds of it."""
        execution = self.execution
        return {"cell": execution.cell, "request": execution.request, "first": self.first, "over": self.over}


class CellTurn:
    """One turn that a cell asks for. Used on the agent's thread.

    Attributes:
        replaces: Whether the conversation went back before the turns that the cell asked for last.
    """

    def __init__(self, session: AgentSession, execution: CellExecution | None, goes_on: _Turns | None) -> None:
        """Begin before the prompt.

        Args:
            execution: What asks, if it is a cell.
            goes_on: What the same execution has asked before.
        """
        self.replaces = False
        self._session = session
        self._store = session.store
        self._execution = execution
        self._first = goes_on.first if goes_on is not None else None

    def note_prompt(self) -> None:
        """Note that the prompt is in the conversation now."""
        self._first = self._first or self._store.leaf_id
        self._note(over=False)

    def note_end(self) -> None:
        """Note that the turn is over, which includes what was said meanwhile."""
        if self._session.store is self._store:
            self._note(over=True)

    def _note(self, *, over: bool) -> None:
        if self._execution is not None and self._first is not None:
            turns = _Turns(self._execution, self._first, over)
            with suppress(IndusError):  # whatever stands in the way of that stands in the way of the messages too
                self._store.append("custom", custom_type=_TYPE, data=turns.data())


class CellTurns:
    """Knows the last turns of each session. Used on the agent's thread, but for ``running``."""

    def __init__(self, cells: CellIds) -> None:
        self._cells = cells

    @property
    def running(self) -> CellExecution | None:
        """The execution that goes on, where the front end says which cell it is."""
        cell, header = self._cells.running, self._cells.request.get("header")
        request: object = header.get("msg_id") if isinstance(header, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if cell is None or not isinstance(request, str) or max(len(cell), len(request)) > _MAX_ID_CHARACTERS:
            return None
        return CellExecution(cell, request)

    @asynccontextmanager
    async def turn(
        self, session: AgentSession, execution: CellExecution | None, *, replaces: bool
    ) -> AsyncGenerator[CellTurn]:
        """Note the turn that is asked for within this context.

        If nothing is asked after all, the session is where it was.

        Args:
            replaces: Whether to go back before the last turns if an earlier execution of that cell asked for them.

        Yields:
            The turn, whose ``note_prompt`` is to be called.

        Raises:
            SessionBusyError: A run goes on.
            SessionFileError: What is unsaved cannot be written to the session file.
        """
        store = session.store
        last, left = _last_turns(session), store.leaf_id
        goes_on = last if last is not None and last.execution == execution else None
        turn = CellTurn(session, execution, goes_on)
        if replaces and last is not None and goes_on is None and last.is_of_cell(execution):
            turn.replaces = not (await session.navigate(last.first)).cancelled
        before = store.leaf_id
        try:
            yield turn
        finally:
            if store.leaf_id != before:
                turn.note_end()
            elif turn.replaces and left is not None and session.store is store:
                with suppress(IndusError):
                    await session.navigate(left)


def _last_turns(session: AgentSession) -> _Turns | None:
    """The last turns of a session that a cell asked for, if nothing was said since."""
    said = False
    for entry in session.store.newest_first():
        if (turns := _turns_in(entry, session)) is not None:
            return None if said and turns.over else turns
        if entry.type not in _SAYS_NOTHING:
            said = True
        if said and not _may_be_of_answer(entry):
            return None
    return None


def _turns_in(entry: Entry, session: AgentSession) -> _Turns | None:
    """What an entry says of a cell. It may come from anywhere: what it names must be a prompt that is there."""
    data = entry.data if entry.type == "custom" else {}
    held: object = data.get("data") if data.get("customType") == _TYPE else None
    if not isinstance(held, dict):
        return None
    noted = cast("JsonObject", held)
    cell, request, first = (as_text(noted.get(key)) for key in ("cell", "request", "first"))
    with suppress(UsageError, ValueError):
        if cell and isinstance(session.store.entry(first).message, UserMessage):
            return _Turns(CellExecution(cell, request), first, noted.get("over") is True)
    return None


def _may_be_of_answer(entry: Entry) -> bool:
    """Whether an entry may belong to a turn that was cut off, and follow its prompt."""
    if entry.type in ("compaction", "branch_summary"):
        return False
    with suppress(ValueError):
        return not isinstance(entry.message, UserMessage)
    return False
