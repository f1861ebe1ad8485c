"""The tools ``notebook`` and ``propose_cell`` of one shell, as an extension that adds them to a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from indus_nb.extend.api import ExtensionApi
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.cell_names import cell_name
from indus_nb.kernel.document.open_notebooks import OpenNotebooks
from indus_nb.kernel.document.page_cells import FinishedCell, PageCells
from indus_nb.kernel.document.proposals import CellProposals, NoteCell
from indus_nb.kernel.document.proposed_cells import described
from indus_nb.kernel.document.reading import AskPage, NotebookReader
from indus_nb.kernel.document.run_cells import RunCells
from indus_nb.tools import ToolError

if TYPE_CHECKING:
    from indus_nb.base.messages import ImageContent
    from indus_nb.kernel.document.verifying import Verified
    from indus_nb.kernel.undo import Maker


class WrittenCell(NamedTuple):
    """A cell that the agent wrote: what it is called for the user, and its source."""

    name: str
    source: str


async def _none_lacks(_: Mapping[str, str]) -> bool:
    return False


class NotebookTools:
    """Tools of a session for the notebook of one shell."""

    tools: tuple[str, ...] = ("notebook", "propose_cell")

    def __init__(  # noqa: PLR0913 - what the kernel and the page do for it, each by itself
        self,
        shell: Any,
        ask_page: AskPage,
        insert_below: Callable[[str], bool],
        cells: CellIds,
        note_cell: NoteCell = lambda _call, _session, _cell: None,
        maker: Callable[[str, str], Maker | None] = lambda _name, _session: None,
        made: Callable[[str], Awaitable[Mapping[str, tuple[Maker, str]]]] | None = None,
        *,
        lacks: Callable[[Mapping[str, str]], Awaitable[bool]] = _none_lacks,
    ) -> None:
        """Make the tools of a shell.

        Args:
            ask_page: Asks the page that shows the notebook; see `NotebookReader` and `PageCells` for what.
            note_cell: Takes note of cells that calls have changed.
            maker: Finds the agent's call that made a variable, by its name and the session that asks.
            made: Finds the variables that the agent's calls changed outside of cells: the call, and a view of each.
            lacks: Returns whether another page of the same notebook has not got some cells, by their ids and sources.
        """
        self._reader = NotebookReader(shell, ask_page, cells)
        self._maker = maker
        self._made = made
        self.live_values: Callable[[], Iterable[tuple[str | None, str, str]]] = lambda: ()
        """Returns the values that answers show: the id of the cell that asked, expression and value of each."""
        self.open_notebooks: OpenNotebooks = OpenNotebooks(self._reader, ask_page)
        self._page = PageCells(shell, self._reader, ask_page, insert_below)
        self._proposals = CellProposals(self._reader, self._page, note_cell, lacks)

    def __call__(self, api: ExtensionApi) -> None:
        """Add the tools to a session, whose others leave open notebooks alone."""
        self.open_notebooks(api)
        api.on("before_agent_start", lambda _event, ctx: self._page.begin_run(ctx.session.session_id))
        api.tool(self._reader.read, name="notebook", read_only=True)
        # It changes nothing by itself: the user is asked, here, about what they will see.
        api.tool(
            self._proposals.propose,
            name="propose_cell",
            read_only=True,
            describe=described,
        )

    def run_of(self, session: str) -> RunCells:
        """Return the new cells of a session's last prompt."""
        return self._page.run_of(session)

    async def verify(self, on_progress: Callable[[Verified], None], session: str) -> Verified:
        """Run the notebook's cells in a fresh kernel, and compare what they give.

        Args:
            on_progress: Called with the results until then.
            session: The session that the user's cell talks to.
        """
        from indus_nb.kernel.document.claimed import Claimed, claimed
        from indus_nb.kernel.document.verifying import verify

        seen = await self._reader.look(outputs=True)
        directory = seen.file.path.parent if seen.file is not None else self._reader.directory
        made = None if self._made is None else await self._made(session)

        def maker(name: str) -> Maker | None:
            return self._maker(name, session)

        # A page sends outputs without their metadata.
        saved = {} if seen.file is None else {cell.id: cell for cell in seen.file.cells if cell.id}
        claims: dict[int, list[Claimed] | None] = {
            number: claimed(saved.get(cell.id or "", cell).outputs)
            for number, cell in enumerate(seen.cells, 1)
            if cell.type == "code"
        }
        places = {cell.id: number for number, cell in enumerate(seen.cells, 1)}
        for cell_id, *value in self.live_values():
            number = places.get(cell_id)
            if cell_id and number is not None and Claimed(*value) not in (claims.get(number) or ()):
                claims[number] = None
        return await verify(
            seen.cells,
            directory,
            on_progress,
            name=seen.name,
            maker=maker,
            made=made,
            claims=claims,
            never_run=seen.never_run(),
        )

    async def holding(self, made: Sequence[FinishedCell], asked: str | None) -> list[WrittenCell]:
        """Find the cells that were written for a prompt, now or when its cell was run before.

        Args:
            made: What would be written; where it is not known who asked, cells are found that hold one of these.
            asked: The cell with the prompt, by its id and a digest of its code.
        """
        try:
            cells = (await self._reader.look()).cells
        except ToolError:  # nothing is known of the notebook
            return []
        numbers = [cell.shown_as for cell in cells]
        same = {(cell.call, cell.source) for cell in made}  # some servers only count calls
        return [
            WrittenCell(cell_name(place, numbers), cell.source)
            for place, cell in enumerate(cells, 1)
            if cell.by_agent and (cell.asked == asked if asked else (cell.call, cell.source) in same)
        ]

    async def insert_finished(self, cells: Sequence[FinishedCell], asked: str | None = None) -> int:
        """Insert cells with their outputs below the running one, in order.

        Args:
            asked: The cell whose prompt their code was run for, by its id and a digest of its code.

        Returns:
            How many have their outputs.
        """
        return await self._page.insert_finished(cells, asked)

    async def insert(self, code: str) -> bool:
        """Insert code that the user chose as a cell below the running one.

        Returns ``False`` if that is not possible.
        """
        return await self._page.insert(code)

    async def cell_that_ran(self, number: int) -> str:
        """Write the cell with that execution number, and the outputs that were saved with it.

        Raises ``ToolError`` if it is not known.
        """
        return await self._reader.cell_that_ran(number)

    async def cell_shown(self, cell_id: str) -> tuple[str, list[ImageContent]]:
        """Write a cell with the outputs that the page shows, and the images among them.

        Raises ``ToolError`` if the notebook has no such cell, or is not known.
        """
        return await self._reader.cell_shown(cell_id)
