"""The notebooks that pages show, which only their pages may write: other writes to the file would conflict.

What this module promises: `write` and `edit` never touch such a file. What a command or code did to one is told
apart from what its page has saved: the page says when it last did, and where it does not know the cells are compared.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import ToolCallEvent
from indus_nb.kernel.document.notebook_file import Cell, read_notebook
from indus_nb.kernel.document.reading import AskPage, NotebookReader, cells_of, path_of
from indus_nb.tools.files.paths import resolve
from indus_nb.tools.tool import ToolError, in_thread

_REFUSED = (
    "{} is a notebook that the user's page shows. Written as a file it would not be what the page shows, and what the "
    "user has not saved could be lost. Nothing was written. Change its cells with propose_cell."
)
_PAUSES = (0.1, 0.3, 0.6)
_JUST_SECONDS = 2.0
_SAVE_SECONDS = 1.0
"""Time for a server to put a file that it has written into its place; where the time is set back, more has passed."""


class OpenNotebooks:
    """The open notebooks of one shell. Used on the agent's thread."""

    def __init__(self, reader: NotebookReader, ask_page: AskPage) -> None:
        """Create the registry of a shell.

        Args:
            ask_page: Asks the page that shows the notebook.
        """
        self._reader = reader
        self._ask_page = ask_page
        self._before: dict[Path, list[tuple[str | None, str]]] = {}
        """The cells of files of which no page can be asked, before the call."""

    def __call__(self, api: ExtensionApi) -> None:
        """Keep a session's tools from writing them as files."""
        api.on("tool_call", self._check)

    async def paths(self) -> list[Path]:
        """Return the open files: of the page that can be asked, and the one that the front end named."""
        shown = path_of(await self._ask_page("run_cells", {"cells": []}))
        directory, named = self._reader.directory, self._reader.named()[0]
        places = [above / shown for above in (directory, *directory.parents) if shown]
        found = [_real(path) for path in (*places, *([] if named is None else [named])) if path.is_file()]
        self._before = {} if shown else await in_thread(lambda _: {path: _cells_in(path) for path in found})
        return found

    async def has_saved(self, path: Path) -> bool:
        """Return whether the file is as its page has last saved it, or as another page may have.

        The page knows the time of the file when it saved; while it saves, the cells have to be those that it shows.
        Where no page can be asked, as in VS Code, which saves by itself, the cells have to be those of before the call:
        only their outputs may be others.
        """
        try:
            cells = await in_thread(lambda _: read_whole(path))
        except ToolError:
            return False
        answer = await self._ask_page("cells", {})
        shown = path_of(answer)
        if not shown or not str(path).endswith(f"{os.sep}{shown}"):
            if any(cell.id in self._reader.cells.ran for cell in cells):
                return True
            return [*map(_as_saved, cells)] == self._before.get(path)
        return saved_by_page(answer, path) or [*map(_as_saved, cells)] == [*map(_as_saved, cells_of(answer))]

    def saves_unasked(self, path: Path) -> bool:
        """Return whether no page of the file could be asked before the call: VS Code saves edits by itself."""
        return path in self._before

    async def _check(self, event: ToolCallEvent, ctx: Context) -> Mapping[str, Any] | None:
        path = event.input.get("path")
        if not isinstance(path, str) or not ctx.describe_call(event.tool_name, event.input).has_effects:
            return None
        try:
            real = _real(resolve(path, ctx.cwd))
        except ToolError:
            return None
        if real.suffix != ".ipynb" or real not in await self.paths():
            return None
        return {"block": True, "reason": _REFUSED.format(path)}


def saved_by_page(answer: Mapping[str, Any] | None, path: Path) -> bool:
    """Return whether a file has the time that it had when the page which has answered last read or wrote it."""
    saved: object = None if answer is None else answer.get("saved")
    try:
        found = path.stat()
        is_set_back = found.st_ctime - found.st_mtime > _SAVE_SECONDS
        same = isinstance(saved, str) and abs(datetime.fromisoformat(saved).timestamp() - found.st_mtime) < 0.001
    except (OSError, ValueError):
        return False
    return same and not is_set_back


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def read_whole(path: Path) -> Sequence[Cell]:
    """Read the cells of a notebook that its front end may be writing: VS Code empties the file first.

    Raises:
        ToolError: The file cannot be read, nor could be a second later.
    """
    for seconds in _PAUSES:
        with contextlib.suppress(ToolError):
            return read_notebook(path).cells
        if not _was_just_written(path):
            break
        time.sleep(seconds)
    return read_notebook(path).cells


def _was_just_written(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - path.stat().st_mtime < _JUST_SECONDS
    return False


def _cells_in(path: Path) -> list[tuple[str | None, str]]:
    try:
        return [*map(_as_saved, read_whole(path))]
    except ToolError:
        return []


def _as_saved(cell: Cell) -> tuple[str | None, str]:
    return cell.id, cell.source
