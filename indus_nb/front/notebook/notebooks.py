"""The notebooks that use one kernel, and the conversation that each talks to.

Without the front-end extension a kernel knows no more than that there is a notebook: all cells talk to the conversation
of the last one. The extension says which notebook each connection to the kernel is of.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Container
from pathlib import Path, PurePosixPath
from typing import Any

from indus_nb.front.notebook.door.messages import Shows
from indus_nb.front.notebook.notebook_sessions import NotebookSessions, own_notebook
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.document.notebook_file import shown_notebook
from indus_nb.kernel.document.reading import path_of
from indus_nb.render.markup import plain

FIRST = "main"
"""Default name of a conversation."""
_MAX_CONNECTIONS = 1_000


class UsedNotebook:
    """A notebook that uses the kernel.

    Attributes:
        conversation: The name of the conversation that its cells talk to by default, and its panel.
        named_after: The name that its first conversation got after its file; empty if it got another one.
        sessions: The conversations that it had before.
        is_read: Whether what its metadata say of answers was read.
        beside: What the page is to say beside the next answer of a cell, and no file.
    """

    def __init__(self, conversation: str, sessions: NotebookSessions) -> None:
        self.conversation = conversation
        self.named_after: str = "" if conversation == FIRST else conversation
        self.sessions = sessions
        self.is_read = False
        self.beside = ""


class Notebooks:
    """The notebooks of one kernel; the first one is that of every connection of which nothing is known."""

    def __init__(self, shell: Any, cells: CellIds, taken: Container[str] = ()) -> None:
        """Create the registry.

        Args:
            taken: The names of conversations that another notebook's cannot have.
        """
        self._taken = taken
        self._noting = threading.RLock()
        """Held while it is noted of which notebook a connection is: a cell and the extension may do that at once."""
        self._directory = Path(getattr(shell, "starting_dir", None) or Path.cwd())
        self._cells = cells
        self._own = own_notebook(shell, cells)
        self._first = UsedNotebook(FIRST, NotebookSessions(self._own, cells))
        self._by_path: dict[str, UsedNotebook] = {}
        self._by_client: dict[str, UsedNotebook] = {}

    def of(self, client: str | None) -> UsedNotebook:
        """Return the notebook of a connection to the kernel."""
        with self._noting:
            if (path := self._cells.paths.pop(client or "", None)) is not None and client not in self._by_client:
                self.note(Shows(kind="shows", path=path, client=client or ""), None)
            return self._by_client.get(client or "", self._first)

    def talking_to(self, conversation: str) -> UsedNotebook:
        """Return the notebook that talks to a conversation by default."""
        return next((used for used in self._by_path.values() if used.conversation == conversation), self._first)

    def named(self, conversation: str) -> str:
        """Name a conversation for the user, with the notebook that talks to it by default where that is known."""
        paths = [path for path, used in self._by_path.items() if used.conversation == conversation]
        where = f"{plain(PurePosixPath(paths[0]).name)}, " if paths else ""
        return f"{where}conversation {conversation!r}"

    def file_of(self, cell: str | None, conversation: str = "") -> str:
        """Name the file of a cell's notebook, or else of a conversation's; empty for a kernel that knows of one alone.

        Args:
            cell: The cell's id.
        """
        if len(self._by_path) < 2:
            return ""
        of_cell = self._by_client.get(self._cells.client_of(cell) or "")
        paths = [
            path
            for path, used in self._by_path.items()
            if used is of_cell or (of_cell is None and used.conversation == conversation)
        ]
        return plain(PurePosixPath(paths[0]).name) if paths else ""

    def elsewhere(self, cell: str | None) -> str:
        """Name the file of a cell's notebook where that is another one than what is asked from; else empty.

        Args:
            cell: The cell's id.
        """
        used = self._by_client.get(self._cells.client_of(cell) or "")
        return "" if used is self._by_client.get(self._cells.origin.client or "") else self.file_of(cell)

    def note(self, shown: Shows, before: Shows | None) -> UsedNotebook:
        """Note of which notebook a connection is.

        Args:
            before: What the same page said of the same notebook before: it may have been renamed.
        """
        with self._noting:
            known = None if before is None else self._by_path.pop(before.path, None)
            used = known or self._by_path.get(shown.path) or self._new(shown.path)
            if known is not None and before is not None and before.path != shown.path:
                used.sessions.move(self._file(shown.path))
            self._by_path[shown.path] = self._by_client[shown.client] = used
            if len(self._by_client) > _MAX_CONNECTIONS:
                del self._by_client[next(iter(self._by_client))]
            return used

    def rename(self, used: UsedNotebook) -> str:
        """Name the conversation of a notebook that was renamed after its file, if it was so before.

        Returns:
            The name before; empty if it stays.
        """
        with self._noting:
            path = next((path for path, each in self._by_path.items() if each is used), "")
            before, others = used.conversation, [each for each in self._by_path.values() if each is not used]
            is_shared = any(each.conversation == before for each in others)
            is_so_already = re.fullmatch(rf"{re.escape(_stem(path))}(-\d+)?", before)  # it lies elsewhere now
            if before != used.named_after or is_shared or is_so_already:
                return ""
            used.conversation = used.named_after = self._name_after(path)
            return before

    def _new(self, path: str) -> UsedNotebook:
        if self._first not in self._by_path.values() and self._may_be_own(path):
            if not Path(self._own or "").is_file():  # renamed since, which a kernel that is restarted is not told
                self._first.sessions.move(self._file(path))
            return self._first
        return UsedNotebook(self._name_after(path), NotebookSessions(self._file(path), self._cells))

    def _name_after(self, path: str) -> str:
        """Return the name for the conversation of a notebook that no other one has."""
        stem = _stem(path)
        others = {used.conversation for used in self._by_path.values()} | {FIRST}
        names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, len(others) + _MAX_CONNECTIONS))
        return next(name for name in names if name not in others and name not in self._taken)

    def _may_be_own(self, path: str) -> bool:
        """Return whether the kernel may have been started for the notebook, which may be renamed since."""
        own, shown = Path(self._own or ""), Path(path_of({"path": path})).parts
        return not own.is_file() or own.parts[-len(shown) :] == shown

    def _file(self, path: str) -> str | None:
        below = path_of({"path": path})
        file = shown_notebook(below, self._directory, frozenset()) if below else None
        return None if file is None else os.path.realpath(file.path)


def _stem(path: str) -> str:
    return Path(path).stem.replace(" ", "-") or "notebook"
