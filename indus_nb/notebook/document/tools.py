"""The tools ``notebook`` and ``propose_cell`` of one shell, as an extension that adds them to a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from indus_nb.extensions.api import ExtensionApi
from indus_nb.notebook.cell_ids import CellIds
from indus_nb.notebook.document.proposals import CellProposals
from indus_nb.notebook.document.reading import AskPage, NotebookReader


class NotebookTools:
    """What a session may do with the notebook of one shell."""

    tools = ("notebook", "propose_cell")

    def __init__(self, shell: Any, ask_page: AskPage, insert_below: Callable[[str], bool], cells: CellIds) -> None:
        """Make the tools of a shell.

        Args:
            shell: The IPython shell.
            ask_page: Asks the page that shows the notebook; see `NotebookReader` and `CellProposals` for what.
            insert_below: See `CellProposals`.
            cells: Knows the ids of the cells that ran.
        """
        self._reader = NotebookReader(shell, ask_page, cells)
        self._proposals = CellProposals(shell, self._reader, ask_page, insert_below)

    def __call__(self, api: ExtensionApi) -> None:
        """Add the tools to a session."""
        api.tool(
            self._reader.read, name="notebook", read_only=True, snippet="Read the cells and outputs of the notebook"
        )
        # It changes nothing by itself: the user is asked, here, about what they will see.
        api.tool(
            self._proposals.propose,
            name="propose_cell",
            read_only=True,
            snippet="Propose a cell to insert or to change, which the user accepts or not",
        )

    async def insert(self, code: str) -> bool:
        """Insert code that the user chose as a cell below the running one.

        Returns ``False`` if that is not possible.
        """
        return await self._proposals.insert(code)
