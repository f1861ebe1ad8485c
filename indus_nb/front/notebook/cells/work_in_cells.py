"""Work in cells: code of the agent's that changed something, or showed a figure, is written as cells of the notebook.

What this module promises: the code runs once, before its cell is there; the cell gets what it showed, and is a part of
the step that ``%agent undo`` takes back. Code that failed, holds a secret or could not be read as it is stays in its
card, and so does all of it where no page can insert cells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast
from uuid import uuid4

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import TextContent
from indus_nb.base.textcut import one_line
from indus_nb.base.wire import clean_text
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import BeforeAgentStart
from indus_nb.front.notebook.cells.run_as_cells import has_figure, notebook_outputs
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.cell_names import cell_name
from indus_nb.kernel.document import RunCells
from indus_nb.kernel.document.notebook_file import Cell, parse_cell
from indus_nb.kernel.document.reading import AskPage
from indus_nb.kernel.run.outputs import CallOutputs, OutputBoard
from indus_nb.kernel.toolset.results import joined
from indus_nb.kernel.toolset.undoing import Steps
from indus_nb.kernel.trials.trying import had_no_effect
from indus_nb.kernel.undo import CellEdit, CellStep, new_cell
from indus_nb.render.cards import told_by
from indus_nb.render.markdown import literal
from indus_nb.render.markup import plain
from indus_nb.tools.tool import ToolContext, ToolError, in_thread

_MAX_HEADING_CHARACTERS = 100
_FAILED = "[It failed, so no cell was written: what later cells need of it has to be in the next call.]"
_NO_PAGE = (
    "This front end lets nobody write cells: the agent's code stays in cards. `%agent cell all` makes cells of it."
)


@dataclass(slots=True)
class _Group:
    """Cells of one prompt, which follow each other.

    Attributes:
        heading: The prompt that stands above them where no cell shows it; empty once it is written.
    """

    run: str
    heading: str
    told: bool = False
    steps: list[CellStep] = field(default_factory=list[CellStep])
    """Cells that were written, and are in no step of a call yet."""


class WorkInCells:
    """Writes the cells of a kernel's sessions; used on the agent's thread."""

    def __init__(
        self,
        ask_page: AskPage,
        ids: CellIds,
        steps: Steps,
        board: OutputBoard,
        run_of: Callable[[str], RunCells],
    ) -> None:
        """Make the writer of one kernel.

        Args:
            run_of: Returns the new cells of the last prompt of a session, by its id.
        """
        self._ask_page = ask_page
        self._ids = ids
        self._steps = steps
        self._board = board
        self._run_of = run_of
        self._groups: dict[str, _Group] = {}

    def __call__(self, api: ExtensionApi) -> None:
        """Begin a group of cells with each prompt of a session."""
        api.on("before_agent_start", self._begin)

    def _begin(self, event: BeforeAgentStart, ctx: Context) -> None:
        heading = event.prompt if self._ids.origin.cell is None else ""
        self._groups[ctx.session.session_id] = _Group(uuid4().hex, heading)

    async def carry_out(self, work: Awaitable[ToolOutput], ctx: Context, call: ToolContext, code: str) -> ToolOutput:
        """Carry out a call that runs code, and write its cell if the session works in cells.

        Raises:
            ToolError: The code failed; the text says that it has no cell.
        """
        group = self._groups.get(ctx.session.session_id)
        if group is None or not ctx.settings.cells:
            return await work
        try:
            output = await work
        except ToolError as failure:
            details = told_by(failure.output.details)
            if "changed" in details:
                failure.output.content.append(TextContent(text=_FAILED))
                details["forModel"] = [_FAILED]
            raise
        shown = self._board.of(call.call_id)
        looked = had_no_effect(output.details) and not has_figure(shown)
        if shown is None or looked or not _is_shown_as_it_is(code, call):
            return output
        written, changed = None, ""
        try:
            run = self._run_of(ctx.session.session_id)
            written = await self._write(group, run, call, code.strip("\n"), shown)
        finally:
            if group.steps:  # a heading may stand there without its cell
                add = partial(self._steps.add_cells, call.call_id, ctx.session.session_id, tuple(group.steps))
                group.steps.clear()
                changed = await in_thread(lambda _: add())
        if written is None:
            if not group.told:
                ctx.ui.notify(_NO_PAGE)
            group.told = True
            return output
        return _noted(output, shown, written, changed)

    async def _write(
        self, group: _Group, run: RunCells, call: ToolContext, source: str, shown: CallOutputs
    ) -> CellStep | None:
        """Insert the cell of a call, and its heading before the first; ``None`` if it could not be inserted."""
        cells = await self._cells()
        if cells is None:
            return None
        above, numbers = _above(run, cells), [self._ids.shown_at(cell.id, cell.shown_as) for cell in cells]
        mark = {"run": group.run, "call": call.call_id}
        if group.heading:
            # Hidden now, and as a whole: the run may have found a secret that the prompt holds.
            text = f"**Agent:** {literal(one_line(call.hide(group.heading), _MAX_HEADING_CHARACTERS))}"
            above = await self._insert(group, run, new_cell(text, "markdown", above, agent=mark), numbers)
            if above is None:
                return None
            group.heading = ""
        wanted = new_cell(source, "code", above, notebook_outputs(shown), mark)
        return group.steps[-1] if await self._insert(group, run, wanted, numbers) is not None else None

    async def _cells(self) -> Sequence[Cell] | None:
        answer = await self._ask_page("cells", {})
        listed: object = None if answer is None else answer.get("cells")
        if not isinstance(listed, list):
            return None
        return [cell for each in cast("list[object]", listed) if (cell := parse_cell(each)) is not None]

    async def _insert(self, group: _Group, run: RunCells, wanted: CellEdit, numbers: list[int | None]) -> str | None:
        """Insert a cell, and return its id; ``None`` if the page did not.

        Args:
            numbers: Those that stand at the cells, among which the new one takes its place.
        """
        answer = await self._ask_page("change_cells", {"edits": [wanted]})
        if answer is None or "error" in answer:
            return None
        own_id, place = wanted["cell"], next(iter(answer.get("numbers") or ()), 0)
        if place:
            numbers.insert(place - 1, None)
        named = cell_name(place, numbers)
        group.steps.append(
            CellStep(own_id, wanted["type"], None, wanted["source"] or "", wanted["after"] or "", place, named)
        )
        run.add(own_id, run.asking)
        return own_id


def _noted(output: ToolOutput, shown: CallOutputs, written: CellStep, changed: str) -> ToolOutput:
    """Say in the result of a call where its cell is."""
    where = f"cell {written.number}" if written.number else "a cell"
    shown.show(joined(shown.text, f"It is {written.name} of the notebook."), ())  # which has what it showed
    told = TextContent(text=f"[It is {where} of the notebook now, with its outputs; it need not be proposed.]")
    details = {**told_by(output.details), "cell": written.id, "forModel": [told.text]}
    return output.replace(
        content=[*output.content, told], details={**details, "changed": changed} if changed else details
    )


def _above(run: RunCells, cells: Sequence[Cell]) -> str | None:
    """Return the id of the cell below which the next one goes; ``None`` for an empty notebook."""
    there = [cell.id for cell in cells if cell.id is not None]
    last = run.last(run.asking, run.gone(there))
    filled = [cell.id for cell in cells if cell.id is not None and cell.source.strip()]
    return last if last in there else next(reversed(filled), None)


def _is_shown_as_it_is(code: str, call: ToolContext) -> bool:
    """Return whether a cell may hold the code: it has no secret, and nothing that is not drawn."""
    return call.hide(code) == code and plain(clean_text(code)) == code
