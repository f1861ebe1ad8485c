"""The tool ``propose_cell``: cells that the model proposes for the user's notebook, which the user accepts or not.

What is accepted the page puts in its place. Where no page can, one text for all new cells goes below the running cell,
through the front end, once that cell has ended. The file is never written.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from indus_nb.extensions.api import Context
from indus_nb.notebook.document.notebook_file import Cell
from indus_nb.notebook.document.reading import AskPage, NotebookReader, chosen_cells
from indus_nb.render.markup import plain
from indus_nb.tools.tool import ToolError
from indus_nb.wire import JsonObject, clean_text

CellType = Literal["code", "markdown"]

_MAX_PROPOSAL_CHARACTERS = 20_000
_ACCEPT, _NO, _NO_BECAUSE = "Accept", "No", "No, and say why"


class CellProposals:
    """The tool ``propose_cell`` of one shell.

    The page is asked to do what the user accepted, and answers ``{"id"}`` of the cell; ``None``, or an answer with
    ``error``, if it cannot:

    - ``insert_cell`` with ``after`` (a cell's id), ``type`` and ``source``.
    - ``replace_cell`` with ``cell`` (its id), ``old`` (the source that the user was shown as the old one; the page
      rejects the change if it is another by now) and ``source``.
    """

    def __init__(
        self, shell: Any, reader: NotebookReader, ask_page: AskPage, insert_below: Callable[[str], bool]
    ) -> None:
        """Make the tool.

        Args:
            shell: The IPython shell.
            reader: The shell's notebook.
            ask_page: Asks the page that shows it.
            insert_below: Has the waiting cell, when it ends, make its front end put a cell with that source below
                it, in the place of an earlier one. ``False`` when no cell waits.
        """
        self._shell = shell
        self._reader = reader
        self._ask_page = ask_page
        self._insert_below = insert_below
        self._below = _Below()
        self._one_at_a_time = asyncio.Lock()

    async def propose(
        self,
        source: str,
        ctx: Context,
        cell_type: CellType = "code",
        after: int | str | None = None,
        replace: int | str | None = None,
    ) -> str:
        """Propose a new cell, or another source for a cell, in the user's notebook. The user accepts it or not.

        It is not run; the user does that. The result says what became of it.

        Args:
            source: The whole source of the cell
            cell_type: "code" or "markdown", of a new cell
            after: The number or id of the cell to insert it below; leave it out for below the one that runs now
            replace: The number or id of the cell whose source it shall be instead
            ctx: Given by the session

        Returns:
            What became of the proposal, for the model.
        """
        source = _checked(source)
        if after is not None and replace is not None:
            raise ToolError("Give after or replace, not both: a cell is new, or it stands in the place of one.")
        if not ctx.has_ui:
            raise ToolError(
                "Nobody can be asked here, so nothing was put into the notebook. Show the cell in your answer instead."
            )
        async with self._one_at_a_time:
            if replace is not None:
                return await self._propose_change(source, replace, ctx)
            return await self._propose_new(source, cell_type, after, ctx)

    async def _propose_new(self, source: str, cell_type: CellType, after: int | str | None, ctx: Context) -> str:
        below = self._below_this_run()
        behind, meant, where = below.last_id, "", "below the one that runs"
        if after is not None:
            seen = await self._reader.look()
            place = _one(seen.cells, after)
            behind, meant = seen.cells[place - 1].id, f"below cell {place}"
            where = f"{meant} ({seen.cells[place - 1].first_line()})"
        await _ask(ctx, f"Insert this {cell_type} cell {where}?\n\n{source}")
        if behind is not None:
            new = await self._apply("insert_cell", {"after": behind, "type": cell_type, "source": source})
            if new is not None:
                below.last_id = below.last_id if meant else new
                return f"The user accepted it: the cell is in the notebook now, {where}, with id {new}. It was not run."
        outcome = self._put_below(source, cell_type)
        if not meant:
            return f"The user accepted it. {outcome}"
        ctx.ui.notify(f"The new cell comes below the running one; it was meant for the place {meant}.")
        return f"The user accepted it. {outcome} The user was told that it belongs {meant}."

    async def insert(self, code: str) -> bool:
        """Insert code that the user chose as a cell below the running one.

        Returns ``False`` if that is not possible.
        """
        below = self._below_this_run()
        new = await self._apply("insert_cell", {"after": below.last_id, "type": "code", "source": code})
        if new is not None:
            below.last_id = new
            return True
        try:
            self._put_below(code, "code")
        except ToolError:
            return False
        return True

    async def _propose_change(self, source: str, target: int | str, ctx: Context) -> str:
        seen = await self._reader.look()
        place = _one(seen.cells, target)
        cell = seen.cells[place - 1]
        if cell.source.strip("\n") == source.strip("\n"):
            raise ToolError(f"Cell {place} has that source already. Nothing was proposed.")
        lines = difflib.unified_diff(cell.source.splitlines(), source.splitlines(), "now", "then", lineterm="")
        difference = plain(clean_text("\n".join(lines)))
        if len(difference) > _MAX_PROPOSAL_CHARACTERS:
            raise ToolError(f"The change of cell {place} is too long to be shown to the user. Propose less at a time.")
        await _ask(ctx, f"Change cell {place}?\n\n{difference}")
        change = {"cell": cell.id, "old": cell.source, "source": source}
        if cell.id is not None and await self._apply("replace_cell", change) is not None:
            return f"The user accepted it: cell {place} has the new source now. It was not run."
        outcome = self._put_below(source, "markdown" if cell.type == "markdown" else "code")
        ctx.ui.notify(f"The new version of cell {place} comes in a cell below the running one: put it in its place.")
        return (
            f"The user accepted it, but this front end lets nobody change cell {place}. {outcome} "
            f"The user was told to put it in the place of cell {place}; until then that cell is as it was."
        )

    async def _apply(self, what: str, payload: JsonObject) -> str | None:
        """Have the page do it; return the id of the cell, ``None`` if it was not done."""
        answer = await self._ask_page(what, payload)
        cell_id: object = None if answer is None or "error" in answer else answer.get("id")
        return cell_id if isinstance(cell_id, str) else None

    def _below_this_run(self) -> _Below:
        run = (self._shell.execution_count, self._reader.cells.request.get("header", {}).get("msg_id"))
        if run != self._below.run:
            self._below = _Below(run, last_id=self._reader.cells.running)
        return self._below

    def _put_below(self, source: str, cell_type: CellType) -> str:
        """Have the front end put it below the waiting cell; return what the model reads of that."""
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


@dataclass(slots=True)
class _Below:
    """The cells that were put below one run of a cell; when it ends the front end accepts one text for all of them."""

    run: object = None
    cells: list[tuple[CellType, str]] = field(default_factory=list[tuple[CellType, str]])
    last_id: str | None = None
    """The id of the cell that the page put in last, or of the running one."""

    def text(self) -> str:
        """One cell as it is; several as one, between lines that editors know as borders of cells."""
        if len(self.cells) == 1:
            cell_type, source = self.cells[0]
            return source if cell_type == "code" else f"%%markdown\n{source}"
        return "\n\n".join(_bordered(cell_type, source) for cell_type, source in self.cells)


def _bordered(cell_type: CellType, source: str) -> str:
    border = "# %%" if cell_type == "code" else "# %% [markdown]"
    if cell_type == "markdown" or source.lstrip().startswith("%%"):
        # In one cell with others it would be run as code, or swallow what follows.
        source = "\n".join(f"# {line}".rstrip() for line in source.split("\n"))
    return f"{border}\n{source}"


def _checked(source: str) -> str:
    """The source, if a user can see all that is in it; raises ``ToolError`` if not."""
    source = source.replace("\r\n", "\n").strip("\n")
    if not source.strip():
        raise ToolError("The source is empty. Nothing was proposed.")
    if len(source) > _MAX_PROPOSAL_CHARACTERS:
        raise ToolError(f"{len(source)} characters are too many for one cell. Propose several smaller ones.")
    if plain(clean_text(source)) != source:
        raise ToolError(
            "The source holds characters that cannot be shown (control characters or marks of writing direction). "
            "Write them as escapes, and propose it again."
        )
    return source


def _one(cells: Sequence[Cell], wanted: int | str) -> int:
    numbers = chosen_cells(cells, str(wanted))
    if len(numbers) != 1:
        raise ToolError(f"{wanted!r} names {len(numbers)} cells. Name one. Nothing was proposed.")
    return numbers[0]


async def _ask(ctx: Context, question: str) -> None:
    """Return when the user accepts; raises ``ToolError`` with their reason when they do not."""
    chosen = await ctx.ui.select(question, [_ACCEPT, _NO, _NO_BECAUSE], signal=ctx.signal)
    if chosen == _ACCEPT:
        return
    if chosen is None:
        raise ToolError("The user did not decide, so nothing was put into the notebook. Ask what to do instead.")
    reason = await ctx.ui.input("Why not?", signal=ctx.signal) if chosen == _NO_BECAUSE else None
    why = f" They said: {reason.strip()}" if reason and reason.strip() else " Ask what to do instead."
    raise ToolError(f"The user did not accept the cell. Nothing was put into the notebook.{why}")
