"""The conversations of notebooks, stored so that the next kernel can continue them.

They are kept in a file of ours by the notebook's path; and by an id of its own in its metadata, where the page can
write that, so that a notebook which was renamed, moved or copied has them still. It never changes, for notebooks are
kept in git. What a notebook says may be another user's: it is only looked up in that file.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from indus_nb.base.errors import SessionFileError
from indus_nb.base.files import current_directory, make_private_directory, write_atomically
from indus_nb.base.textcut import counted
from indus_nb.core.resources.settings import agent_directory, load_settings
from indus_nb.core.storage import SessionInfo, describe_session, writer_of
from indus_nb.front.notebook.actions import known_sessions, known_sessions_file
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.document import NotebookFile, Traces, find_notebook, named_notebook, read_notebook
from indus_nb.kernel.document.notebook_file import notebooks_run_so_far
from indus_nb.tools.tool import ToolError

_ID_CHARACTERS = 13
"""Length of the timestamp at the start of an id."""
_MAX_NOTEBOOKS = 1000
_MAX_SESSIONS = 20
"""Most conversations that are kept for one notebook's name."""
_METADATA = "indus_nb"
_ID = re.compile(r"notebook-[0-9a-f]{16}")


def own_notebook(shell: Any, cells: CellIds) -> str | None:
    """Return the path of the file of the notebook that a kernel was started for; ``None`` if it is not known."""
    directory = Path(getattr(shell, "starting_dir", None) or Path.cwd())
    notebook, _ = named_notebook(os.environ, shell.user_ns or {}, directory, cells.running)
    return None if notebook is None else os.path.realpath(notebook)


class NotebookSessions:
    """Conversations of notebooks. No failure to read or write them is an error.

    Attributes:
        notebook: The path of the notebook's file; ``None`` if it is not known.
    """

    def __init__(self, notebook: str | None, cells: CellIds) -> None:
        self.notebook = notebook
        self._cells = cells
        self._noted: str | None = None

    def last(self) -> Path | None:
        """Return the session file that this notebook used last, or ``None``.

        That of its path comes first: a copy of the notebook has the same id.
        """
        known = known_sessions()
        names = (self.notebook or "", self._id_in_notebook() or "")
        held = (Path(path) for name in names for path in reversed(known.get(name, ())))
        return next((path for path in held if path.is_file()), None)

    @cached_property
    def _notebook_id(self) -> str:
        return self._id_in_notebook() or f"notebook-{secrets.token_hex(8)}"

    def _id_in_notebook(self) -> str | None:
        """Return the id in the notebook's metadata, or ``None``."""
        file = self._file()
        held = None if file is None else settings_in(file).get("id")
        return held if isinstance(held, str) and _ID.fullmatch(held) else None

    def _file(self) -> NotebookFile | None:
        if self.notebook is None:
            return None
        path = Path(self.notebook)
        with suppress(ToolError):
            # One that was renamed while its kernel was running is found by its cells.
            return read_notebook(path) if path.exists() else find_notebook(Traces(path, ids=self._cells.ran))
        return None

    def kept_answers(self, directory: Path, ran: Sequence[str]) -> Path | None:
        """Return the file for answers that the notebook's metadata name, as `indus_nb.keep`; ``None`` for none.

        Args:
            directory: Where a notebook is looked for of which the front end does not say where it lies.
            ran: The sources of the cells that ran, and of the one that runs.
        """
        file = self._file()
        found = [file] if file is not None else notebooks_run_so_far(directory, ran) if self.notebook is None else []
        named = {path for each in found if (path := _kept_beside(each)) is not None}
        return named.pop() if len(named) == 1 else None

    def note(self, path: Path | None) -> str | None:
        """Record the session file that this notebook uses now.

        Returns:
            The notebook's id for its metadata; ``None`` if it has no path, or the conversation no file.
        """
        if self.notebook is None or path is None:
            return None
        if self._noted == str(path):
            return self._notebook_id
        self._noted = str(path)
        known = known_sessions()
        for name in (self.notebook, self._notebook_id):
            others = [other for other in known.pop(name, []) if other != str(path)]
            known[name] = [*others, str(path)][-_MAX_SESSIONS:]
        newest = dict(list(known.items())[-_MAX_NOTEBOOKS:])
        with suppress(OSError):
            make_private_directory(known_sessions_file().parent)  # the session's own file comes later
            write_atomically(known_sessions_file(), json.dumps(newest, indent=1).encode(), mode=0o600)
        return self._notebook_id

    def move(self, path: str | None) -> None:
        """Take the notebook for renamed: its conversation is the one of that path from now on, also for later kernels.

        Args:
            path: Where its file lies now; ``None`` where that is not known, then nothing is changed.
        """
        if path is None or path == self.notebook:
            return
        self.notebook = path
        noted, self._noted = self._noted, None
        if noted is not None:
            self.note(Path(noted))

    def resumed(self) -> str | None:
        """Return a sentence about this notebook's own conversation, if there is one to resume.

        A conversation that a copy of a notebook names is the original's, as long as that is there; and with
        ``notebook.afterRestart`` the user may want another one each time.
        """
        settings = load_settings(current_directory(), agent_directory(), trusted=False).settings
        if settings.notebook.after_restart == "new":
            return None
        path = self.last()
        had = _notebooks_with(path)
        if self.notebook not in had and (not had or any(map(os.path.exists, had))):
            return None
        info = _described(path)
        return info and (
            f"This notebook's conversation {_when(info)}, {counted(info.message_count, 'message')}, goes on. "
            "`%agent --new` begins another one."
        )

    def offer(self, open_as: str | None = None) -> str | None:
        """Return a sentence that offers this notebook's conversation, and says when it can be gone on with.

        Args:
            open_as: The name of that conversation in this kernel, if it is open here.
        """
        path = self.last()
        info = _described(path)
        if path is None or info is None:
            return None
        had = _notebooks_with(path)
        others = [] if self.notebook in had else [Path(name).name for name in had if Path(name).exists()]
        whose = f"{others[-1]} (copy or original of this notebook)" if others else "This notebook"
        has = f"{whose} has a conversation {_when(info)}, {counted(info.message_count, 'message')}"
        if open_as is not None:
            return f"{has}, open in this kernel: `%agent --name {open_as}` goes on with it."
        goes_on = f"`%agent --session {info.id[:_ID_CHARACTERS]}` goes on with it"
        if (holder := writer_of(path)) is not None:
            return f"{has}, open in {holder}: {goes_on} once it is closed there. This one is new."
        return f"{has}: {goes_on}."


def _notebooks_with(path: Path | None) -> list[str]:
    """Return the notebooks that used a conversation last."""
    return [name for name, held in known_sessions().items() if Path(name).is_absolute() and held[-1] == str(path)]


def settings_in(file: NotebookFile) -> Mapping[str, object]:
    """Return what is ours in the metadata of a notebook; untrusted."""
    ours: object = file.metadata.get(_METADATA)
    return cast("Mapping[str, object]", ours) if isinstance(ours, dict) else {}


def _kept_beside(file: NotebookFile) -> Path | None:
    """Return the file that a notebook names for answers, which must lie in its own directory or below."""
    name = settings_in(file).get("keep")
    if not isinstance(name, str) or not name.endswith(".json"):
        return None
    with suppress(ValueError, OSError):  # of a name that no file can have
        place = Path(os.path.realpath(file.path.parent))
        path = Path(os.path.realpath(place / name))
        return path if path.is_relative_to(place) else None
    return None


def _described(path: Path | None) -> SessionInfo | None:
    """Describe a session file; ``None`` if it holds no message."""
    with suppress(SessionFileError, OSError):
        info = None if path is None else describe_session(path)
        return info if info is not None and info.message_count else None
    return None


def _when(info: SessionInfo) -> str:
    at = datetime.fromtimestamp(info.modified / 1000).astimezone()
    today = datetime.now().astimezone().date()
    if at.date() == today:
        return f"of today, {at:%H:%M}"
    return "of yesterday" if at.date() == today - timedelta(days=1) else f"of {at:%Y-%m-%d}"
