"""Session files: which one is opened, where new ones lie, and what another user's file may not decide.

What this module promises: the directory that a session works in is the one that its file names only if that file is the
user's own, by the place where it lies; any other file is data, and its session works where it was asked for.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from indus_nb.base.files import expand_user, keep_private, others_can_write
from indus_nb.base.variables import SESSION_DIR, variable
from indus_nb.core.resources.settings import Settings
from indus_nb.core.storage import SessionStore, find_session, most_recent_session, session_directory, session_with_id
from indus_nb.start.options import SessionOptions


def chosen_directory(options: SessionOptions, settings: Settings) -> Path | None:
    """Return the directory that the user chose for all sessions, if any.

    Returns:
        The directory; ``None`` if each working directory has one of its own.
    """
    chosen = options.session_dir or variable(SESSION_DIR) or settings.session_dir
    return expand_user(chosen).absolute() if chosen else None


class Stores:
    """Opener of the session files of one process.

    Attributes:
        directory: The directory of new ones.
    """

    def __init__(self, options: SessionOptions, settings: Settings, cwd: Path, agent_dir: Path) -> None:
        """Determine the directory of session files."""
        self.directory: Path = chosen_directory(options, settings) or session_directory(cwd, agent_dir)
        self._options = options
        self._cwd = cwd
        self._agent_dir = agent_dir

    def first(self, parent: str | None) -> SessionStore:
        """Open the session that the options name, or make a new one.

        Args:
            parent: The file of the session that a new one comes from.
        """
        options = self._options
        if options.session is not None:
            return self.open(find_session(options.session, self.directory), self._cwd)
        if options.fork is not None:
            return SessionStore.read(find_session(options.fork, self.directory)).copy(self._cwd, self.directory)
        if options.session_id is not None:
            if known := session_with_id(options.session_id, [self.directory]):
                return self.open(known, self._cwd)
            return SessionStore.create(self._cwd, self.directory, session_id=options.session_id)
        if options.continue_last and (recent := most_recent_session(self.directory)):
            return self.open(recent, self._cwd)
        return self.new(self._cwd, parent)

    def new(self, cwd: Path, parent: str | None) -> SessionStore:
        """Make an empty session.

        Args:
            parent: The file of the session that it comes from.

        Returns:
            The store, without entries.
        """
        if self._options.no_session:
            return SessionStore.in_memory(cwd)
        return SessionStore.create(cwd, self.directory, parent_session=parent)

    def open(self, path: Path, cwd: Path) -> SessionStore:
        """Open the session in a file.

        Args:
            cwd: The directory that it works in if the file is not the user's own.

        Returns:
            Its entries; in its ``warnings`` stands whether it works elsewhere than the file says.
        """
        store = SessionStore.open(path)
        if not self._is_own(path):
            store.distrust(cwd)
        return store

    def _is_own(self, path: Path) -> bool:
        """Return whether a file lies where the user alone keeps sessions: no other user has put it there."""
        real = Path(os.path.realpath(path))
        chosen = Path(os.path.realpath(self.directory))
        places = [Path(os.path.realpath(self._agent_dir / "sessions"))]
        if not chosen.is_relative_to(os.path.realpath(self._cwd)):  # else the project's author may have filled it
            places.append(chosen)
        with suppress(OSError):
            alone = not any(others_can_write(place.stat()) for place in (real, real.parent))
            return alone and any(map(real.is_relative_to, places))
        return False

    def keep_private(self, store: SessionStore) -> list[str]:
        """Make our files private to the user; a directory that the user chose for sessions stays as it is."""
        agent_dir = self._agent_dir
        sessions = agent_dir / "sessions"
        was_open = keep_private(agent_dir)
        keep_private(sessions)
        if self.directory.parent == sessions:
            keep_private(self.directory)
            if store.path is not None and store.path.parent == self.directory:
                keep_private(store.path)
        advice = "Look whether all in it is yours: settings.json, models.json and extensions there run programs."
        return [f"Other users could write to {agent_dir} until now. {advice}"] if was_open else []
