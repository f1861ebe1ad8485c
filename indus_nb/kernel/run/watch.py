"""The user's cells, watched from the moment that the extension is loaded.

Nothing here, and nothing that it imports, needs more than the standard library: loading the extension and the cells
that follow must not wait for what only the agent needs.
"""

from __future__ import annotations

from typing import Any

from indus_nb.kernel.run.execution import Routes
from indus_nb.kernel.run.journal import Journal
from indus_nb.kernel.run.main_thread import MainThread


class Watch:
    """Watcher of the cells of one shell; made on its main thread, within a cell or between cells.

    Attributes:
        main: Knows when a cell runs, and has work done between cells or within one.
        routes: Where prints and displays go.
    """

    def __init__(self, shell: Any, *, in_cell: bool = True) -> None:
        self.main: MainThread = MainThread(shell, in_cell=in_cell)
        self.routes: Routes = Routes(shell)
        self.journal: Journal = Journal(shell, self.routes, in_cell=in_cell)

    def close(self) -> None:
        """Stop watching the user's cells."""
        self.journal.close()
        self.routes.remove()
        # IPython puts back what a stream had when the cell began: that may be ours.
        self.main.close(afterwards=self.routes.remove)
