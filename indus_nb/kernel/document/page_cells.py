"""How cells get into the notebook: those that the user accepted, and those that a prompt has made.

What the page does not do goes below the running cell, through the front end, once that cell has ended: one text for all
new cells. The file is never written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, cast
from uuid import uuid4

from indus_nb.base.wire import JsonObject, dump
from indus_nb.kernel.document.in_place import ASKED_AT, CellType
from indus_nb.kernel.document.proposed_cells import ChangedCell, NewCell, Plan, bordered, name_of
from indus_nb.kernel.document.reading import AskPage, KnownNotebook, NotebookReader, cells_of
from indus_nb.kernel.document.run_cells import RunCells
from indus_nb.kernel.undo import CellEdit, CellStep, new_cell
from indus_nb.tools import ToolError

_MAX_PART_BYTES = 1 << 20
"""What cells that are inserted together have: a page has a few seconds for its answer."""
_ASK_AGAIN_SECONDS = 0.5
"""Time between two questions whether a page can run cells."""


@dataclass(slots=True)
class FinishedCell:
    """A code cell with outputs in the form of the notebook format, and the id of the call that ran its first lines."""

    source: str
    outputs: Sequence[JsonObject] = ()
    call: str = ""


class PageCells:
    """The cells of one shell's notebook, as the page changes them.

    The page is asked to do what the user accepted; its answer is ``None``, or has an ``error``, if it cannot:

    - ``change_cells`` with ``edits``, all of them or none, for the places of the cells as ``numbers``. The ``old``
      source is the one that the user was shown: the page rejects the change if it is another by now.
    - ``run_cells`` with ``cells`` (their ids), which are run in that order; without any it only checks if it could.
    """

    def __init__(
        self, shell: Any, reader: NotebookReader, ask_page: AskPage, insert_below: Callable[[str], bool]
    ) -> None:
        """Make it.

        Args:
            insert_below: Has the waiting cell, when it ends, make its front end put a cell with that source below
                it, in the place of an earlier one. ``False`` when no cell waits.
        """
        self._shell = shell
        self._reader = reader
        self._ask_page = ask_page
        self._insert_below = insert_below
        self._below = _Below()
        self._runs: dict[str, RunCells] = {}

    def begin_run(self, session: str) -> None:
        """Register another prompt of a session, by its id: its new cells go right below the cells that they name."""
        at = ASKED_AT.get()
        run = RunCells(self._reader.cells.origin.cell if at is None else at.cell)
        self._runs[session] = self._below_this_run().new = run

    def run_of(self, session: str) -> RunCells:
        """Return the new cells of a session's last prompt; of a session without prompts, those of the running cell."""
        return self._runs.get(session) or self._below_this_run().new

    def last(self, run: RunCells, gone: Collection[str] = ()) -> str | None:
        """Return the id of the cell that the next one goes below which names none; ``None`` if that is not known.

        Args:
            gone: The ids of cells that are not there any more.
        """
        return run.last(run.asking, gone) or self._reader.cells.running

    async def gone(self, run: RunCells) -> frozenset[str]:
        """Return those of a run's new cells that the user has removed; none where no page says what is there."""
        there = () if run.is_empty else [cell.id for cell in cells_of(await self._ask_page("cells", {}))]
        return run.gone(there) if there else frozenset()

    async def change(self, plans: Sequence[Plan], run: RunCells) -> Sequence[CellStep | None]:
        """Have the page carry out all plans in one step, or else those that it can; ``None`` for the others."""
        done = await self._changed(plans, run)
        if done is not None or len(plans) == 1:
            return done or [None]
        steps: list[CellStep | None] = []
        for plan in plans:
            steps += await self._changed([plan], run) or [None]
        return steps

    async def _edits(self, plans: Sequence[Plan], run: RunCells) -> Sequence[CellEdit | None]:
        """Return the edits of cells, the new ones as they will stand; ``None`` for one without a place."""
        edits: list[CellEdit | None] = []
        gone, run = await self.gone(run), run.copy()
        for plan in plans:
            if isinstance(plan, ChangedCell):
                edits.append(plan.edit())
                continue
            after = self.last(run, gone) if not plan.named else plan.below and run.last(plan.below, gone)
            if after is None:  # as where the one that is named has no id
                edits.append(None)
                continue
            edits.append(new := new_cell(plan.source, plan.type, after))
            run.add(new["cell"], plan.below)
        return edits

    async def _changed(self, plans: Sequence[Plan], run: RunCells) -> Sequence[CellStep | None] | None:
        """Have the page change cells, all of them or none; ``None`` if it does not do that."""
        edits = await self._edits(plans, run)
        wanted = [edit for edit in edits if edit is not None]
        if len(wanted) < len(edits):
            return None
        answer = await self._ask_page("change_cells", {"edits": wanted})
        if answer is None:
            return [None for _ in wanted]
        if "error" in answer:
            return None
        numbers = [*cast("list[int]", answer.get("numbers") or []), *repeat(0, len(wanted))]
        seen = await self.look() if any(isinstance(plan, NewCell) for plan in plans) else None
        known = () if seen is None else seen.cells
        steps: list[CellStep] = []
        for plan, edit, number in zip(plans, wanted, numbers, strict=False):
            own_id, above = edit["cell"], edit["after"] or ""
            if isinstance(plan, ChangedCell):
                steps.append(
                    CellStep(own_id, plan.type, edit["old"], plan.source, above, number or plan.place, plan.name)
                )
                continue
            name = name_of(known, number) if 0 < number <= len(known) and known[number - 1].id == own_id else ""
            steps.append(CellStep(own_id, plan.type, None, plan.source, above, number, name))
            run.add(own_id, plan.below)
        return steps

    async def look(self) -> KnownNotebook | None:
        """Read the page and the file; ``None`` if neither knows the notebook."""
        try:
            return await self._reader.look()
        except ToolError:
            return None

    async def can_run(self) -> bool:
        """Poll until a page answers: one that is busy, or was just opened, does so late."""
        while True:
            answer = await self._ask_page("run_cells", {"cells": []})
            if answer is not None:
                return "error" not in answer
            await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def run(self, ids: Sequence[str]) -> bool:
        """Have the page run cells, in that order; returns whether it does."""
        answer = await self._ask_page("run_cells", {"cells": [*ids]})
        return answer is not None and "error" not in answer

    async def insert_finished(self, cells: Sequence[FinishedCell], asked: str | None) -> int:
        """Insert cells with their outputs below the running one, in order.

        Args:
            asked: The cell whose prompt their code was run for, by its id and a digest of its code.

        Returns:
            How many have their outputs. Where the page cannot insert cells, one text for all of them goes below the
            running cell.

        Raises:
            ToolError: It is not possible.
        """
        run = uuid4().hex
        marks = [{"run": run, "call": cell.call, **({"asked": asked} if asked else {})} for cell in cells]
        edits: list[CellEdit] = []
        above = self._last_of_this_run
        for cell, mark in zip(cells, marks, strict=True):
            edits.append(new_cell(cell.source, "code", above, cell.outputs, mark))
            above = edits[-1]["cell"]
        finished = 0
        for part in _parts(edits):
            if not await self._insert(part):
                break
            finished += len(part)
        for cell in cells[finished:]:
            self.put_below(cell.source, "code")
        return finished

    async def insert(self, code: str) -> bool:
        """Insert code that the user chose as a cell below the running one.

        Returns ``False`` if that is not possible.
        """
        if await self._insert([new_cell(code, "code", self._last_of_this_run)]):
            return True
        try:
            self.put_below(code, "code")
        except ToolError:
            return False
        return True

    async def _insert(self, edits: Sequence[CellEdit]) -> bool:
        """Insert cells below those of this run, in order; returns whether the page did."""
        answer = await self._ask_page("change_cells", {"edits": [*edits]})
        if answer is None or "error" in answer:
            return False
        run = self._below_this_run().new
        for edit in edits:
            run.add(edit["cell"], run.asking)
        return True

    @property
    def _last_of_this_run(self) -> str | None:
        return self.last(self._below_this_run().new)

    def _below_this_run(self) -> _Below:
        at = ASKED_AT.get()
        run = at or (self._shell.execution_count, self._reader.cells.request.get("header", {}).get("msg_id"))
        if run != self._below.run:
            self._below = _Below(run, RunCells(self._reader.cells.running if at is None else at.cell))
        return self._below

    def put_below(self, source: str, cell_type: CellType) -> str:
        """Have the front end put it below the waiting cell; return the text for the model."""
        below = self._below_this_run()
        below.cells.append((cell_type, source))
        if not self._insert_below(below.text()):
            below.cells.pop()
            raise ToolError(
                "The user accepted it, but it could not be put into the notebook: the front end does not let it be "
                "done, and no cell waits for the agent. Show it in your answer, for the user to copy."
            )
        if len(below.cells) > 1:
            return (
                "It comes below the running cell, once that has ended well. The front end adds one cell only, so it "
                "shares that with what was accepted before, between lines `# %%`."
            )
        kind = "" if cell_type == "code" else " as a code cell that begins with %%markdown"
        return f"It comes below the running cell{kind}, once that has ended well; it is not run."


def _parts(edits: Sequence[CellEdit]) -> Generator[Sequence[CellEdit]]:
    """Yield edits in order, as many at once as are not large together."""
    part: list[CellEdit] = []
    size = 0
    for edit in edits:
        size += len(dump(edit))
        if part and size > _MAX_PART_BYTES:
            yield part
            part, size = [], len(dump(edit))
        part.append(edit)
    if part:
        yield part


@dataclass(slots=True)
class _Below:
    """Cells put below one run of a cell; when it ends the front end accepts one text for all of them.

    Attributes:
        new: The cells that the page has put into the notebook meanwhile.
    """

    run: object = None
    new: RunCells = field(default_factory=lambda: RunCells(None))
    cells: list[tuple[CellType, str]] = field(default_factory=list[tuple[CellType, str]])

    def text(self) -> str:
        """Return one cell as it is; several as one, separated by cell markers that editors know."""
        if len(self.cells) == 1:
            cell_type, source = self.cells[0]
            return source if cell_type == "code" else f"%%markdown\n{source}"
        return "\n\n".join(bordered(cell_type, source) for cell_type, source in self.cells)
