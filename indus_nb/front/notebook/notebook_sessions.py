"""The conversations of notebooks, stored so that the next kernel can continue them.

It is kept in a file of ours by the notebook's path; and by its id in the notebook's metadata, where the page can write
that, so that a notebook which was renamed, moved or copied has it still. What a notebook says may be another user's: it
is only compared with the ids of session files that are here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from indus_nb.base.errors import SessionFileError
from indus_nb.base.files import current_directory, write_atomically
from indus_nb.base.textcut import counted
from indus_nb.core.resources.settings import agent_directory, load_settings
from indus_nb.core.storage import SessionInfo, describe_session, session_with_id
from indus_nb.front.notebook.actions import known_sessions, known_sessions_file
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.document import Traces, find_notebook, named_notebook, read_notebook
from indus_nb.tools.tool import ToolError

_ID_CHARACTERS = 13
"""Length of the timestamp at the start of an id."""
_MAX_NOTEBOOKS = 1000
_MAX_SESSIONS = 20
"""Most conversations that are kept for one notebook's name."""
_METADATA = "indus_nb"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def own_notebook(shell: Any, cells: CellIds) -> str | None:
    """Return the path of the file of the notebook that a kernel was started for; ``None`` if it is not known."""
    directory = Path(getattr(shell, "starting_dir", None) or Path.cwd())
    notebook, _ = named_notebook(os.environ, shell.user_ns or {}, directory, cells.running)
    return None if notebook is None else os.path.realpath(notebook)


class NotebookSessions:
    """Conversations of notebooks. No failure to read or write them is an error.

    Attributes:
        notebook: The path of the notebook's file, as it was found first; ``None`` if it is not known.
    """

    def __init__(self, notebook: str | None, cells: CellIds) -> None:
        self.notebook = notebook
        self._cells = cells
        self._noted: str | None = None

    def last(self) -> Path | None:
        """Return the session file that this notebook used last, or ``None``.

        If the path and the notebook itself name different ones, it is the one that was written to last.
        """
        known = known_sessions()
        found = [Path(path) for path in known.get(self.notebook or "", ())[-1:]]
        if (session_id := self._id_in_notebook()) is not None:
            ours = (agent_directory() / "sessions").glob("*")
            directories = dict.fromkeys([*(Path(path).parent for paths in known.values() for path in paths), *ours])
            if (named := session_with_id(session_id, directories)) is not None:
                found.append(named)
        return max((path for path in found if path.is_file()), key=_written, default=None)

    def _id_in_notebook(self) -> str | None:
        """Return the conversation id in the notebook's metadata, or ``None``."""
        if self.notebook is None:
            return None
        path = Path(self.notebook)
        with suppress(ToolError):
            # One that was renamed while its kernel was running is found by its cells.
            file = read_notebook(path) if path.exists() else find_notebook(Traces(path, ids=self._cells.ran))
            ours: object = file.metadata.get(_METADATA)
            held: object = cast("Mapping[str, object]", ours).get("session") if isinstance(ours, dict) else None
            if isinstance(held, str) and _ID.fullmatch(held):
                return held
        return None

    def note(self, path: Path | None) -> None:
        """Record the session file that this notebook uses now."""
        if self.notebook is None or path is None or self._noted == str(path):
            return
        self._noted = str(path)
        known = known_sessions()
        others = [other for other in known.pop(self.notebook, []) if other != str(path)]
        known[self.notebook] = [*others, str(path)][-_MAX_SESSIONS:]
        newest = dict(list(known.items())[-_MAX_NOTEBOOKS:])
        with suppress(OSError):
            write_atomically(known_sessions_file(), json.dumps(newest, indent=1).encode(), mode=0o600)

    def resumed(self) -> str | None:
        """Return a sentence about this notebook's own conversation, if there is one to resume.

        A conversation that a copy of a notebook names is the original's, as long as that is there; and with
        ``notebook.afterRestart`` the user may want another one each time.
        """
        settings = load_settings(current_directory(), agent_directory(), trusted=False).settings
        if settings.notebook.after_restart == "new":
            return None
        path = self.last()
        had = [notebook for notebook, held in known_sessions().items() if path is not None and held[-1] == str(path)]
        if self.notebook not in had and (not had or any(map(os.path.exists, had))):
            return None
        info = _described(path)
        return info and (
            f"This notebook's conversation {_when(info)}, {counted(info.message_count, 'message')}, goes on. "
            "`%agent --new` begins another one."
        )

    def offer(self) -> str | None:
        """Return a sentence that offers this notebook's conversation, if it can be resumed."""
        info = _described(self.last())
        return info and (
            f"This notebook has a conversation {_when(info)}, {counted(info.message_count, 'message')}: "
            f"`%agent --session {info.id[:_ID_CHARACTERS]}` goes on with it."
        )


def _described(path: Path | None) -> SessionInfo | None:
    """Describe a session file; ``None`` if it holds no message."""
    with suppress(SessionFileError, OSError):
        info = None if path is None else describe_session(path)
        return info if info is not None and info.message_count else None
    return None


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0


def _when(info: SessionInfo) -> str:
    at = datetime.fromtimestamp(info.modified / 1000).astimezone()
    today = datetime.now().astimezone().date()
    if at.date() == today:
        return f"of today, {at:%H:%M}"
    return "of yesterday" if at.date() == today - timedelta(days=1) else f"of {at:%Y-%m-%d}"
